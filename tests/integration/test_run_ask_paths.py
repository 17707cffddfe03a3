# SPDX-License-Identifier: Apache-2.0
"""Opens that wait for a person (filesystem.ask): what is asked, what each answer opens, and that nothing else is opened and nothing hangs."""
import json
import os
import signal
import socket
import subprocess
import time

import pytest

from kit.control import Control, Refused, sockets, wait_for
from kit.process import SLOW

pytestmark = pytest.mark.visible_home


class Asking:
    """A sandbox whose opens ask, and its control socket."""

    def __init__(self, child, home):
        self.child = child
        found = wait_for(lambda: sockets(home) or (not child.running() and [None]), "the control socket", 60 * SLOW)[0]
        try:
            self.control = found and Control(found)
        except OSError:
            self.control = None  # one that asks nothing may be over by now

    def pending(self):
        return self.control("pending")["questions"]

    def question(self, what=None):
        return wait_for(lambda: next((q for q in self.pending() if what in (None, q.get("access"))), None), f"a question about {what}", 60 * SLOW)

    def answer(self, what, answer="allow", scope="once"):
        return self.control("answer", question=self.question(what)["id"], answer=answer, scope=scope)

    def end(self):
        if self.control:
            self.control.close()
        return self.child.wait(60 * SLOW)


@pytest.fixture
def asking(start, home, work, closing):
    """asking(argv or script, options...): a sandbox that asks about ~/docs."""
    def begin(command, *options, ask="docs", before=()):
        argv = ["sh", "-c", command] if isinstance(command, str) else [str(word) for word in command]
        words = ["bailey", "run", "-q", "--ask-path", home / ask, *options, "--audit", home / "audit.jsonl", *before, "--", *argv]
        one = Asking(start(words, cwd=work), home)
        if one.control:
            closing(one.control)
        return one
    return begin


@pytest.fixture
def docs(home):
    (home / "docs/deep").mkdir(parents=True)
    for name in ("one", "two", "deep/three"):
        (home / "docs" / name).write_text(f"this is {name}\n")
    return home / "docs"


def records(home):
    return [json.loads(line) for line in (home / "audit.jsonl").read_text().splitlines()]


def notes(home):
    return [record["detail"] for record in records(home) if record["kind"] == "note"]


def answer_all(run, how, counts=None):
    """Answers whatever is asked until the end, which is bounded."""
    end = time.monotonic() + 60 * SLOW
    while run.child.running():
        assert time.monotonic() < end, "it does not end"
        try:
            questions = run.pending()
        except (AssertionError, OSError):
            break  # the connection ended: so has the sandbox
        if counts is not None:
            counts.append(len(questions))
        for question in questions:
            try:
                run.control("answer", question=question["id"], answer=how(), scope="once")
            except (AssertionError, OSError, Refused):
                pass  # it is gone, or what was asked about is
        time.sleep(0.01)
    return run.end()


def inside(supervisor, pid):
    """The host's number of a process that has this one in the sandbox."""
    found, todo = None, [supervisor]
    while todo and not found:
        one = todo.pop()
        try:
            status = open(f"/proc/{one}/status").read()
            todo += [int(child) for task in os.listdir(f"/proc/{one}/task") for child in open(f"/proc/{one}/task/{task}/children").read().split()]
        except OSError:
            continue
        numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
        found = one if len(numbers) > 1 and int(numbers[-1]) == pid else None
    return found


def gone(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


# --- what the answers do ---

def test_once_opens_exactly_what_waits(asking, home, docs):
    run = asking("cat ~/docs/one; cat ~/docs/one; test -e ~/docs/one || echo unseen")
    asked = run.question()
    assert asked["kind"] == "access" and asked["access"] == f"read {docs}/one" and asked["held"] is True and "cat" in asked["reason"]
    run.answer(f"read {docs}/one")
    run.answer(f"read {docs}/one", "deny")
    done = run.end()
    assert done.text == "this is one\nunseen\n", done
    said = notes(home)
    assert f"asked: read {docs}/one" in said and f"path opened once, for 1 that waited: read {docs}/one" in said, said
    assert any(n.startswith(f"answered: read {docs}/one, allow, scope once") for n in said), said


@pytest.mark.parametrize("scope", ["sandbox", "workspace", "always"])
def test_a_scope_that_lasts(asking, bailey, home, work, docs, scope):
    run = asking("cat ~/docs/one; cat ~/docs/one; cat ~/docs/two; echo x > ~/docs/one")
    run.answer(f"read {docs}/one", scope=scope)
    run.answer(f"read {docs}/two", "deny")
    run.answer(f"write {docs}/one", "deny")
    done = run.end()
    assert "Read-only" in done.errors and done.text == "this is one\n" * 2 and (docs / "one").read_text() == "this is one\n", done
    later = bailey("run", "-q", "--", "sh", "-c", "cat ~/docs/one; ls ~/docs", cwd=work)
    assert later.text == ("" if scope == "sandbox" else "this is one\none\n"), later


def test_a_no_is_not_asked_about_again(asking, home, docs):
    run = asking("cat ~/docs/one; cat ~/docs/one; cat ~/docs/../docs/one; cat ~/docs/two; echo done")
    run.answer(f"read {docs}/one", "deny")
    run.answer(f"read {docs}/two", "deny")
    done = run.end()
    assert done.text == "done\n" and done.errors.count("No such file") == 4, done
    assert sum(n.startswith("asked: ") for n in notes(home)) == 2


def test_time_is_over(asking, home, docs):
    run = asking("cat ~/docs/one; cat ~/docs/one", "--ask-timeout", "1s")
    done = run.end()
    assert done.errors.count("No such file") == 2, done
    assert sum("by timeout" in n for n in notes(home)) == 2, "no answer is no refusal: the next open asks again"


def test_writing_a_file(asking, docs):
    script = "echo more >> ~/docs/one; printf all > ~/docs/two; cat ~/docs/two"
    run = asking(script)
    run.answer(f"write {docs}/one")
    run.answer(f"write {docs}/two", scope="sandbox")
    assert run.end().text == "all"
    assert (docs / "one").read_text() == "this is one\nmore\n" and (docs / "two").read_text() == "all"


def test_what_was_opened_for_reading_is_asked_about_for_writing(asking, docs):
    run = asking("cat ~/docs/one; echo more >> ~/docs/one; cat ~/docs/one")
    run.answer(f"read {docs}/one", scope="sandbox")
    run.answer(f"write {docs}/one", scope="sandbox")
    assert run.end().text == "this is one\nthis is one\nmore\n"


def test_what_is_taken_back_is_asked_about_again(asking, bailey, work, docs):
    run = asking("cat ~/docs/one; touch ready; while ! test -e go; do sleep 0.05; done; cat ~/docs/one; echo done")
    run.answer(f"read {docs}/one", scope="sandbox")
    wait_for(lambda: (work / "ready").exists(), "the first", 60 * SLOW)
    bailey("allow", "--forget", "--path", str(docs / "one"), cwd=work).check()
    (work / "go").touch()
    run.answer(f"read {docs}/one", "deny")
    assert run.end().text == "this is one\ndone\n"


def test_a_directory_is_opened_until_the_end(asking, bailey, home, work, docs):
    script = "import os\nprint(os.listdir(os.path.expanduser('~/docs/deep')))\nprint(open(os.path.expanduser('~/docs/deep/three')).read(), end='')"
    run = asking(["/usr/bin/python3", "-c", script])
    said = run.question(f"read {docs}/deep")["reason"]
    assert said.startswith("a directory: every yes opens all below it until the sandbox ends; opened by "), said
    assert "a directory: every yes opens all below it" in bailey("pending", cwd=work).check().text
    run.answer(f"read {docs}/deep", scope="once")
    done = run.end()
    assert done.text == "['three']\nthis is deep/three\n", done
    assert any(f"read {docs}/deep, allow, scope sandbox" in n for n in notes(home)), notes(home)


def test_one_question_for_all_who_wait(asking, home, docs):
    # By echo: `cat` lets the kernel copy into the one file that is everybody's output, where two at once overwrite each other.
    run = asking("for i in 1 2 3 4 5 6 7 8; do (read line < ~/docs/one; echo $line) & done; touch all; wait")
    question = run.question()
    wait_for(lambda: (home / "work/all").exists(), "all to have begun", 60 * SLOW)
    time.sleep(1)
    assert [q["id"] for q in run.pending()] == [question["id"]]
    run.answer(f"read {docs}/one", scope="sandbox")
    assert run.end().text == "this is one\n" * 8
    assert sum(n.startswith("asked: ") for n in notes(home)) == 1


def test_each_has_a_description_of_its_own(asking, docs):
    """Two opens of the same file do not share their offset."""
    script = ("import os, threading\npath = os.path.expanduser('~/docs/one')\ngot = []\n"
              "def one():\n    with open(path) as f: got.append(f.read())\n"
              "threads = [threading.Thread(target=one) for _ in range(2)]\n[t.start() for t in threads]; [t.join() for t in threads]\nprint(got)")
    run = asking(["/usr/bin/python3", "-c", script])
    run.question()
    time.sleep(1)
    run.answer(f"read {docs}/one")
    assert run.end().text == "['this is one\\n', 'this is one\\n']\n"


def test_others_go_on_meanwhile(asking, work, docs):
    run = asking("cat ~/docs/one & for i in 1 2 3 4 5 6 7 8 9; do echo $i > f$i; cat f$i; done; touch ready; wait")
    run.question()
    wait_for(lambda: (work / "ready").exists(), "other calls", 60 * SLOW)
    run.answer(f"read {docs}/one")
    assert run.end().text == "1\n2\n3\n4\n5\n6\n7\n8\n9\nthis is one\n"


def test_what_a_person_opens_otherwise(asking, bailey, work, docs):
    run = asking("cat ~/docs/one ~/docs/two; echo done")
    run.question(f"read {docs}/one")
    bailey("allow", "--path", str(docs / "one"), cwd=work).check()
    run.answer(f"read {docs}/two", "deny")
    assert run.end().text == "this is one\ndone\n"


# --- what is never asked ---

@pytest.mark.parametrize("path, mode", [
    (".ssh/id_ed25519", "O_RDONLY"), (".aws/credentials", "O_RDONLY"), ("other/.git/hooks/pre-commit", "O_WRONLY"), ("other/.envrc", "O_RDWR"),
    (".bashrc", "O_WRONLY"), ("link", "O_RDONLY"), ("linked/file", "O_RDONLY"), ("missing", "O_RDONLY"), ("missing/x", "O_RDONLY"), ("fifo", "O_RDONLY"),
    ("holds/x.pem", "O_RDONLY"), ("other", "O_WRONLY"), ("work/there", "O_RDONLY"), ("secret", "O_RDONLY"), ("holds", "O_PATH"),
    ("real/file", "O_CREAT|os.O_EXCL|os.O_WRONLY"), ("holds", "O_TMPFILE|os.O_RDWR")])
def test_without_a_question(asking, home, work, path, mode):
    for name in (".ssh/id_ed25519", ".aws/credentials", "other/.git/hooks/pre-commit", "other/.envrc", ".bashrc", "holds/x.pem", "secret", "real/file"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("secret\n")
    (home / "link").symlink_to("secret")
    (home / "linked").symlink_to("real")
    os.mkfifo(home / "fifo")
    script = f"import os\ntry: os.open(os.path.expanduser('~/{path}'), os.{mode}); print('opened')\nexcept OSError as e: print('closed')"
    run = asking(["/usr/bin/python3", "-c", script], "--deny-read", "**/*.pem", "--deny-read", str(home / "secret"), ask=".")
    done = run.end()
    assert done.text == "closed\n" and not [n for n in notes(home) if n.startswith("asked")], (done, notes(home))


def test_outside_of_the_places(asking, home, docs):
    (home / "docsx").write_text("x\n")
    (home / "other").write_text("x\n")
    assert asking("cat ~/docsx ~/other ~/docs/../other; echo done").end().text == "done\n"
    assert not [n for n in notes(home) if n.startswith("asked")]


def test_only_where_the_policy_says_so(sh, docs):
    assert sh("cat ~/docs/one", "-q").text == ""


def test_a_glob_that_denies_below_a_directory(asking, home, docs):
    (docs / "deep/x.key").write_text("secret\n")
    script = ("import os\nd = os.open(os.path.expanduser('~/docs/deep'), os.O_RDONLY)\n"
              "for how in (lambda: os.open('x.key', os.O_RDONLY, dir_fd=d), lambda: os.open(os.path.expanduser('~/docs/deep/x.key'), os.O_RDONLY)):\n"
              "    try: how(); print('opened')\n    except OSError as e: print(e.errno)")
    run = asking(["/usr/bin/python3", "-c", script], "--deny-read", "**/*.key")
    run.answer(f"read {docs}/deep")
    assert run.end().text == "13\n13\n"


# --- how it is spelled ---

@pytest.mark.parametrize("spelling", ["cd ~; cat docs/one", "cat ~/docs//./one", "cat ../docs/one", "cd /; cat .{docs}/one", "cat /proc/self/root{docs}/one",
                                      "ln -s {home}/docs away; mkdir -p ~/docs; cat away/one", "exec 3<~; cat /proc/self/fd/3/docs/one"])
def test_spellings_lead_to_one_question(asking, home, docs, spelling):
    run = asking(spelling.format(docs=docs, home=home))
    run.answer(f"read {docs}/one")
    assert run.end().text == "this is one\n"


def test_dots_beyond_what_exists_are_not_asked_about(asking, home, docs):
    assert asking("cat ~/docs/none/../one; echo done").end().text == "done\n"
    assert not [n for n in notes(home) if n.startswith("asked")]


def test_names_are_shown_escaped(asking, bailey, home, work):
    (home / "docs").mkdir()
    name = 'a\nbailey: agree? \x1b[2J"\x07'
    (home / "docs" / name).write_text("strange\n")
    run = asking(["/usr/bin/python3", "-c", "import os, sys\nprint(open(os.path.expanduser('~/docs/') + sys.argv[1]).read())", name])
    question = run.question()
    assert question["access"] == f"read {home}/docs/{name}"
    shown = bailey("pending", cwd=work).check().text
    assert "\x1b" not in shown and "\x07" not in shown and "\nbailey: agree" not in shown, shown
    run.control("answer", question=question["id"], answer="allow", scope="once")
    assert "strange" in run.end().text
    assert all("\x1b" not in line for line in bailey("log", cwd=work).text.splitlines())


# --- races ---

def test_a_file_that_is_replaced_between_question_and_answer(asking, docs):
    run = asking("cat ~/docs/one; cat ~/docs/two")
    run.question(f"read {docs}/one")
    (docs / "other").write_text("another\n")
    (docs / "other").rename(docs / "one")
    with pytest.raises(Refused, match="replaced"):
        run.answer(f"read {docs}/one")
    run.question(f"read {docs}/two")
    (docs / "two").unlink()
    (docs / "two").symlink_to("/etc/hostname")
    with pytest.raises(Refused):
        run.answer(f"read {docs}/two", scope="sandbox")
    assert run.end().text == ""


def test_a_file_with_the_number_of_one_that_is_gone(asking, docs):
    """File systems give the number of a removed file to the next one."""
    run = asking("cat ~/docs/one")
    run.question(f"read {docs}/one")
    before = (docs / "one").stat()
    (docs / "one").unlink()
    (docs / "one").write_text("another\n")
    now = (docs / "one").stat()
    assert (before.st_dev, before.st_ino) != (now.st_dev, now.st_ino), "the one that was asked about is not held"
    with pytest.raises(Refused, match="replaced"):
        run.answer(f"read {docs}/one")
    assert run.end().text == ""


def test_one_that_cannot_be_opened_does_not_keep_the_others(asking, bailey, work, docs):
    """A yes to the directory: what was replaced stays closed, who waits for the rest goes on, and the yes is remembered."""
    run = asking("cat ~/docs/one & while ! test -e next; do sleep 0.02; done; cat ~/docs/two & wait; echo done")
    run.question(f"read {docs}/one")
    (work / "next").touch()
    run.question(f"read {docs}/two")
    (docs / "other").write_text("another\n")
    (docs / "other").rename(docs / "one")
    allowed = bailey("allow", "--path", "--write", "--scope", "workspace", str(docs), cwd=work)
    assert allowed.status != 0 and "replaced" in allowed.errors, allowed
    assert run.end().text == "this is two\ndone\n"
    assert bailey("run", "-q", "--", "cat", str(docs / "deep/three"), cwd=work).text == "this is deep/three\n"


def test_a_link_that_the_sandbox_puts_in_the_way(asking, home, work, docs):
    """What was asked about is mounted at its own path or nowhere."""
    (work / "target").mkdir()
    (work / "target/one").write_text("mine\n")
    run = asking(f"cat ~/docs/one & while ! test -e go; do sleep 0.05; done; rm -rf ~/docs; ln -s {work}/target ~/docs; touch played; wait; cat {work}/target/one")
    run.question()
    (work / "go").touch()
    wait_for(lambda: (work / "played").exists(), "the link", 60 * SLOW)
    with pytest.raises(Refused):
        run.answer(f"read {docs}/one", scope="sandbox")
    assert run.end().text == "mine\n"


def test_the_caller_changes_its_path_while_it_waits(asking, home, docs):
    """The path is read again after a yes that lasts: what is opened then is judged as any other open."""
    (home / "secret").write_text("secret\n")
    script = """
import ctypes, os, threading, time
libc = ctypes.CDLL(None, use_errno=True)
text = ctypes.create_string_buffer(os.path.expanduser('~/docs/one').encode(), 4096)
def change():
    while not os.path.exists('go'): time.sleep(0.01)
    text.value = os.path.expanduser('~/secret').encode()
    open('played', 'w')
threading.Thread(target=change).start()
fd = libc.open(text, os.O_RDONLY)
print(os.read(fd, 100) if fd >= 0 else ctypes.get_errno())
"""
    run = asking(["/usr/bin/python3", "-c", script])
    run.question()
    (home / "work/go").touch()
    wait_for(lambda: (home / "work/played").exists(), "the change", 60 * SLOW)
    run.answer(f"read {docs}/one", scope="sandbox")
    assert run.end().text == "2\n"


def test_exchanging_names_all_the_time(asking, home, work, docs):
    """Somebody on the host exchanges a directory on the way for a link to a secret: what is opened is what was judged, or nothing."""
    (home / "docs/a").mkdir()
    (home / "docs/a/b").write_text("fine\n")
    (home / "secret").mkdir()
    (home / "secret/b").write_text("secret\n")
    run = asking("for i in $(seq 40); do cat ~/docs/a/b 2>/dev/null; done; echo done")
    exchange = ("import os, time, sys; os.chdir(sys.argv[1]); end = time.monotonic() + 4\n"
                "while time.monotonic() < end:\n    os.rename('docs/a', 'docs/kept'); os.symlink('../secret', 'docs/a'); os.unlink('docs/a'); os.rename('docs/kept', 'docs/a')\n")
    racer = subprocess.Popen(["/usr/bin/python3", "-c", exchange, str(home)])
    done = answer_all(run, lambda: "allow" if racer.poll() is None else "deny")
    racer.wait(30)
    assert "secret" not in done.text and done.text.endswith("done\n"), done


# --- ends ---

def test_the_caller_is_killed_while_it_waits(asking, home, work, docs):
    run = asking("cat ~/docs/one & echo $! > pid; while ! test -e go; do sleep 0.05; done; kill -9 $!; wait; cat ~/docs/two; echo done")
    run.question(f"read {docs}/one")
    (work / "go").touch()
    wait_for(lambda: not [q for q in run.pending() if q["access"].endswith("/one")], "the question to go", 60 * SLOW)
    run.answer(f"read {docs}/two")
    assert run.end().text == "this is two\ndone\n"
    assert f"no longer asked: read {docs}/one" in notes(home)


def test_a_yes_that_comes_too_late_empties_nothing(asking, work, docs):
    """The caller is killed, and the yes is there before the broker has noticed, which looks every 200 ms."""
    for i in range(10):
        (docs / f"f{i}").write_text("before\n")
    run = asking("for i in 0 1 2 3 4 5 6 7 8 9; do sh -c 'echo $$ > pid.new; mv pid.new pid$0; exec 3> ~/docs/f$0' $i; done; while ! test -e go; do sleep 0.05; done; echo done")
    for i in range(10):
        question = run.question(f"write {docs}/f{i}")
        caller = wait_for(lambda: inside(run.child.pid, int((work / f"pid{i}").read_text())), "the caller", 60 * SLOW)
        os.kill(caller, signal.SIGKILL)
        while not gone(caller):
            pass
        try:
            run.control("answer", question=question["id"], answer="allow", scope="once")
        except Refused:
            pass  # it was noticed
    (work / "go").touch()
    assert run.end().text == "done\n"
    assert [(docs / f"f{i}").read_text() for i in range(10)] == ["before\n"] * 10


def test_a_signal_does_not_fail_the_call(asking, docs):
    """A handler runs when the open returns; the open itself is answered, not interrupted."""
    script = ("import os, signal\nsignal.signal(signal.SIGALRM, lambda *a: None)\nsignal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)\n"
              "print(open(os.path.expanduser('~/docs/one')).read(), end='')")
    run = asking(["/usr/bin/python3", "-c", script])
    run.question()
    time.sleep(0.6)
    run.answer(f"read {docs}/one")
    assert run.end().text == "this is one\n"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_supervisor_ends_while_a_call_waits(asking, home, docs, how):
    run = asking("cat ~/docs/one; sleep 600")
    run.question()
    os.kill(run.child.pid, how)
    run.control.close()
    run.child.wait(30 * SLOW)


def test_the_command_ends_while_a_call_waits(asking, docs):
    run = asking("cat ~/docs/one & sleep 0.5; exit 3")
    run.question()
    assert run.end().status == 3


def test_a_thousand_opens_at_once(asking, home, docs):
    for i in range(1000):
        (docs / f"f{i}").write_text(f"{i}\n")
    script = """
import concurrent.futures, os
docs = os.path.expanduser('~/docs/')
def one(i):
    try: return open(f'{docs}f{i}').read() == f'{i}\\n'
    except OSError as e: return e.errno
with concurrent.futures.ThreadPoolExecutor(200) as pool:
    results = list(pool.map(one, range(1000)))
print(results.count(True), results.count(2), len(results))
"""
    run = asking(["/usr/bin/python3", "-c", script])
    most = []
    done = answer_all(run, lambda: "allow", most)
    opened, failed, all_of_them = map(int, done.text.split())
    assert opened + failed == all_of_them == 1000 and opened >= 1 and max(most) <= 64, (opened, failed, max(most))


def test_more_wait_than_can_be_served(sh, work):
    """Calls that wait for each other are refused at a bound, and never keep anybody else from being served."""
    script = """
import os, socket, threading, time
server = socket.socket(socket.AF_UNIX); server.bind('s'); server.listen(0)
results, lock = [], threading.Lock()
def one():
    s = socket.socket(socket.AF_UNIX)
    try: s.connect('s'); r = 0
    except OSError as error: r = error.errno
    with lock: results.append(r)
for _ in range(400): threading.Thread(target=one, daemon=True).start()
end = time.monotonic() + 60
while len([r for r in results if r]) < 100 and time.monotonic() < end: time.sleep(0.05)
open('made', 'w').write('served')
print(open('made').read(), set(r for r in results if r), flush=True)
os._exit(0)
"""
    (work / "many.py").write_text(script)
    done = sh("/usr/bin/python3 many.py", "-q", "--deny-read", "**/*.pem", timeout=120 * SLOW)
    assert done.text == "served {11}\n", done


# --- with the others ---

def test_a_ratchet_closes_first(start, home, work, docs, make_origin, closing):
    received = []
    origin = make_origin(raw=lambda sock, connection: received.append(sock.recv(100)))
    hosts, policy = home / "hosts", home / "policy.yaml"
    hosts.write_text("127.0.0.1 sink.test\n")
    policy.write_text(json.dumps({"network": {"allow": [f"sink.test:{origin.port}"], "allow_private": [f"sink.test:{origin.port}"]},
                                  "filesystem": {"ask": [str(docs)]}, "ratchet": [{"when": {"read": [str(docs / "one")]}, "then": {"allow": "none"}}]}))
    script = f"cat ~/docs/one; curl -s -o /dev/null -w '%{{http_code}}' -m 20 http://sink.test:{origin.port}/"
    words = ["bailey", "run", "-q", "--policy", policy, "--hosts", hosts, "--audit", home / "audit.jsonl", "--", "sh", "-c", script]
    run = Asking(start(words, cwd=work), home)
    closing(run.control)
    run.answer(f"read {docs}/one")
    done = run.end()
    assert done.text == "this is one\n403" and not received, done
    assert [r for r in records(home) if r["kind"] == "ratchet" and r["path"] == str(docs / "one")]


def test_with_a_trace(asking, docs):
    run = asking("cat ~/docs/one ~/docs/two; echo done", "--trace-denials")
    run.answer(f"read {docs}/one")
    run.answer(f"read {docs}/two", "deny")
    assert run.end().text == "this is one\ndone\n"


def test_a_descriptor_once_is_no_way_to_write(asking, docs):
    script = ("import os\nfd = os.open(os.path.expanduser('~/docs/one'), os.O_RDONLY)\nprint(os.read(fd, 4))\n"
              "for how in (lambda: os.open(f'/proc/self/fd/{fd}', os.O_RDWR), lambda: os.open(f'/dev/fd/{fd}', os.O_WRONLY | os.O_TRUNC), lambda: os.fchmod(fd, 0o777)):\n"
              "    try: how(); print('changed')\n    except OSError as e: print('kept')")
    run = asking(["/usr/bin/python3", "-c", script])
    run.answer(f"read {docs}/one")
    before = (docs / "one").stat().st_mode
    assert run.end().text == "b'this'\nkept\nkept\nkept\n"
    assert (docs / "one").read_text() == "this is one\n" and (docs / "one").stat().st_mode == before


def test_rights_of_the_file_hold(asking, docs):
    """The yes opens what the account may open, root's capabilities aside."""
    os.chmod(docs / "one", 0)
    run = asking("cat ~/docs/one; echo done")
    try:
        run.answer(f"read {docs}/one")
    except Refused:
        pass
    assert run.end().text == "done\n"


# --- where it is said ---

def test_who_follows_events_later_sees_what_waits(asking, start, docs):
    """A sandbox may have asked before it is found; each question is shown once."""
    run = asking("cat ~/docs/one; cat ~/docs/two")
    run.question(f"read {docs}/one")
    follow = start(["bailey", "events", "-f", "--json"])
    asked = lambda: [e["question"]["access"] for e in map(json.loads, follow.output().decode().splitlines()) if e["event"] == "ask"]  # noqa: E731
    wait_for(lambda: asked() == [f"read {docs}/one"], "the question that waits", 60 * SLOW)
    run.answer(f"read {docs}/one")
    wait_for(lambda: len(asked()) > 1, "the next", 60 * SLOW)
    run.answer(f"read {docs}/two", "deny")
    run.end()
    wait_for(lambda: b'"event":"end"' in follow.output(), "the end", 60 * SLOW)
    assert asked() == [f"read {docs}/one", f"read {docs}/two"]
    follow.stop()


def test_an_event_before_the_reply_hides_no_question(start, home, closing):
    """The questions of a sandbox that asks again while it is asked for them: each is shown once."""
    place = home / ".run/bailey"
    place.mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as server:
        directory = os.open(place, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{directory}/aaaaaaaaaaaa.sock")
        os.close(directory)
        server.listen()
        server.settimeout(60 * SLOW)
        follow = start(["bailey", "events", "-f", "--json", "aaaaaaaaaaaa"])
        peer = server.accept()[0]
    closing(peer)
    peer.settimeout(60 * SLOW)
    questions = [{"id": number, "access": f"read /{number}"} for number in (3, 5, 6)]
    with peer.makefile("rw") as lines:
        for request in map(json.loads, lines):
            reply = {"id": request["id"], "ok": True}
            if request["do"] == "pending":
                reply["questions"] = questions
                for question in questions[1:]:
                    lines.write(json.dumps({"event": "ask", "question": question}) + "\n")
            lines.write(json.dumps(reply) + "\n")
            lines.flush()
            if request["do"] == "pending":
                break
    peer.shutdown(socket.SHUT_RDWR)
    shown = [json.loads(line)["question"]["id"] for line in follow.wait(60 * SLOW).text.splitlines()]
    assert sorted(shown) == [3, 5, 6], shown


def test_plan_why_and_show(bailey, home, work, docs):
    words = ["--ask-path", str(docs), "--deny-read", str(docs / "two")]
    assert f"asked about when opened: {docs}" in bailey("plan", *words, "--", "true", cwd=work).check().text
    why = {name: json.loads(bailey("why", "--json", *words, str(home / name), cwd=work).text) for name in ("docs/one", "docs/two", "other")}
    assert [w["decision"] for w in why.values()] == ["ask", "denied", "denied"], why
    assert why["docs/one"]["origin"] == "--ask-path" and str(docs) in bailey("policy", "show", *words, cwd=work).check().text


def test_where_it_cannot_be(bailey, home, work, docs):
    for words in [["plan", "--for", "macos"]] + [["run", "--nesting"]] * (os.geteuid() != 0):
        refused = bailey(*words, "--ask-path", str(docs), "--", "true", cwd=work)
        assert refused.status != 0 and "ask-path" in refused.errors, refused


def test_a_workspace_that_is_not_trusted_cannot_ask(bailey, home, work, docs):
    (work / ".bailey.yaml").write_text(f"filesystem: {{ ask: [{docs}] }}\n")
    done = bailey("run", "-q", "--", "cat", str(docs / "one"), cwd=work, timeout=60 * SLOW)
    assert done.status != 0 and "filesystem.ask" in done.errors and "trust" in done.errors, done
