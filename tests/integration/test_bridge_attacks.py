# SPDX-License-Identifier: Apache-2.0
"""The bridge as somebody sees it who wrote none of it: standard descriptors of every kind, signals, crowds at the socket, tools that do not end, repositories that lead elsewhere."""
import json
import re
import time

import pytest

from conftest import program
from kit.control import Control, sockets, wait_for
from kit.git import git
from kit.process import SLOW
from test_approvals import Terminal
from test_bridge import bridged, calls, of_tools, repository, tool  # noqa: F401 (fixtures)

pytestmark = pytest.mark.visible_home


@pytest.fixture
def script(home):
    """script(text): a tool of its own, by the name `own`, with any words."""
    def make(text, **entry):
        path = home / "outside" / "own"
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/bash\n" + text)
        path.chmod(0o755)
        return {"bridge": {"own": {"program": str(path), "verbs": ["go <word>*"], **entry}}}
    return make


SIGNALS = """
import signal, subprocess
for name in "HUP INT QUIT TERM USR1 USR2 ALRM".split():
    p = subprocess.Popen(["own", "go", name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: [signal.signal(n, signal.SIG_DFL) for n in (2, 3)])
    assert p.stdout.readline() == "ready\\n"
    p.send_signal(getattr(signal, "SIG" + name))
    out, err = p.communicate(timeout=60)
    print(name, out.strip(), p.returncode, "bailey" in err)
"""


# No shell: bash on a busy machine now and then runs no trap for a signal that ends its child in the same moment.
CATCHES = """exec python3 -c '
import os, signal, sys, time
def caught(number, frame):
    os.write(1, b"got " + sys.argv[1].encode())
    os._exit(9)
signal.signal(getattr(signal, "SIG" + sys.argv[1]), caught)
os.write(1, b"ready\\n")
time.sleep(30)
' "$2"
"""


def test_each_signal_reaches_the_tool(bridged, script, work):  # noqa: F811
    """SIGHUP too: a tool's own supervisor has no policy to read again."""
    (work / "signals.py").write_text(SIGNALS)
    done = bridged("python3 signals.py", policy=script(CATCHES))
    assert done.text.splitlines() == [f"{name} got {name} 9 False" for name in "HUP INT QUIT TERM USR1 USR2 ALRM".split()], str(done)


def test_a_signal_at_any_moment(bridged, script, work):  # noqa: F811
    """Also before the tool runs: the caller ends by it, or as the tool said, and nothing is left."""
    (work / "early.py").write_text("""
import signal, subprocess, time
for i in range(24):
    p = subprocess.Popen(["own", "go"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(i * 0.01)
    p.send_signal(signal.SIGTERM)
    out, err = p.communicate(timeout=60)
    print(p.returncode, "bailey" in err)
""")
    done = bridged("python3 early.py", policy=script("trap 'exit 9' TERM\nfor i in $(seq 600); do sleep 0.05; done\n"))
    assert len(done.text.splitlines()) == 24 and set(done.text.splitlines()) <= {"-15 False", "9 False"}, str(done)
    assert not of_tools()


DESCRIPTORS = """
import array, os, pty, select, socket, subprocess, sys, tempfile, threading
def run(*words, **more):
    return subprocess.run(["own", "go", *words], timeout=60, **more)
def said(p): return p.returncode, (p.stdout or b"").decode().strip(), (p.stderr or b"").decode().strip()[:60]

ours, theirs = socket.socketpair()
p = subprocess.Popen(["own", "go", "cat"], stdin=theirs, stdout=theirs)
theirs.close(); ours.sendall(b"by a socket\\n"); ours.shutdown(socket.SHUT_WR)
print("socket", ours.recv(100), p.wait(60))

master, slave = pty.openpty()
p = subprocess.Popen(["own", "go", "tty"], stdin=slave, stdout=slave, stderr=slave); os.close(slave)
shown = b""
while p.poll() is None or select.select([master], [], [], 0)[0]:
    if select.select([master], [], [], 0.1)[0]:
        try: shown += os.read(master, 1000)
        except OSError: break
print("terminal", shown.replace(b"\\r\\n", b" ").strip(), p.wait(60))

read, write = os.pipe()
p = subprocess.Popen(["own", "go", "much"], stdout=write); os.close(write); os.read(read, 10); os.close(read)
print("closed early", p.wait(60) in (-13, 141, 1))
print("full", said(run("much", stdout=open("/dev/full", "wb"), stderr=subprocess.PIPE))[0] != 0)
print("null", said(run("much", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)))
print("no input", said(run("cat", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)))
for fd in (0, 1, 2):
    p = subprocess.run(["bash", "-c", f"own go both {fd}>&- > out 2> err; echo $?" if fd == 0 else f"own go both {fd}>&-; true"], timeout=60, capture_output=True)
    print("closed", fd, p.returncode)
with open("file", "w+b") as file:
    file.write(b"0123456789"); file.flush(); file.seek(4)
    print("offset", said(run("cat", stdin=file, stdout=subprocess.PIPE)))
with open("file", "ab") as file:
    run("both", stdout=file)
print("appended", open("file", "rb").read())
epoll = select.epoll()
for name, fd in (("directory", os.open("/", os.O_RDONLY)), ("path", os.open("/etc/passwd", os.O_PATH)), ("event", os.eventfd(0)), ("epoll", epoll.fileno())):
    print(name, said(run("cat", stdin=fd, stdout=subprocess.PIPE, stderr=subprocess.PIPE))[:2])
memory = os.memfd_create("x"); os.write(memory, b"in memory"); os.lseek(memory, 0, 0)
print("memory", said(run("cat", stdin=memory, stdout=subprocess.PIPE)))
only = os.open("file", os.O_WRONLY)
print("only to write", said(run("cat", stdin=only, stdout=subprocess.PIPE, stderr=subprocess.PIPE))[1:2])
blocking = os.get_blocking(1); run("both", stderr=subprocess.DEVNULL); print("blocking", blocking, os.get_blocking(1))
"""


def test_standard_descriptors_of_every_kind(bridged, script, work):  # noqa: F811
    (work / "descriptors.py").write_text(DESCRIPTORS)
    policy = script('case $2 in cat) cat;; tty) tty -s && echo is one; stty size >/dev/null && echo sized; test -t 1 && echo out;; much) head -c 3000000 /dev/zero || exit 1;; '
                    "both) echo out; echo err >&2;; esac\n")
    done = bridged("python3 -u descriptors.py", policy=policy)
    assert done.text.splitlines() == [
        "socket b'by a socket\\n' 0", "terminal b'is one sized out' 0", "closed early True", "full True", "null (0, '', '')", "no input (0, '', '')",
        "closed 0 0", "closed 1 0", "closed 2 0", "offset (0, '456789', '')", "appended b'0123456789out\\n'", "directory (125, '')", "path (0, '')", "event (125, '')",
        "epoll (125, '')", "memory (0, 'in memory', '')", "only to write ('',)", "out", "blocking True True"], str(done)


def test_a_file_that_takes_no_more(bridged, script):  # noqa: F811
    """The tool wrote into a pipe and ended well; its caller still learns that the file has not all of it."""
    policy = {**script("head -c 3000000 /dev/zero; exit $2\n"), "process": {"limits": {"temporary": "1M"}}}
    done = bridged("own go 0 > /tmp/file; echo $?; own go 7 > /tmp/file; echo $?; rm /tmp/file; own go 0 > file; echo $? $(wc -c < file)", policy=policy)
    assert done.text.splitlines() == ["1", "7", "0 3000000"] and done.errors.count("cannot write its output: No space left on device") == 2, str(done)


@pytest.mark.parametrize("text", [
    "sleep 1000 &\necho done\n", "setsid sleep 1000 > /dev/null 2>&1 < /dev/null &\necho done\n", "(trap '' HUP INT TERM; exec sleep 1000) &\necho done\n",
    "python3 -c 'import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0: time.sleep(1000)' &\nsleep 0.3\necho done\n",
], ids=["behind", "session", "deaf", "daemon"])
def test_what_a_tool_leaves_behind_ends_with_it(bridged, script, text):  # noqa: F811
    done = bridged("own go; echo $?; own go | cat", policy=script(text), limit=60)
    assert done.text.splitlines() == ["done", "0", "done"] and not of_tools(), str(done)


def test_a_tool_that_does_not_listen(bridged, script, start, home, work):  # noqa: F811
    """The run ends, and its tool with it, whatever signal it has closed its ears to."""
    policy = script("trap '' HUP INT TERM QUIT USR1 USR2\necho begun\nwhile :; do sleep 0.1; done\n")
    done = bridged("own go > out & while ! grep -q begun out; do sleep 0.05; done; kill -TERM $!; sleep 0.3; echo end", policy=policy, limit=60)
    assert done.text.split() == ["end"] and not of_tools(), str(done)
    # Many of them do not wait for one another: the grace is 5 s for all.
    policy = script("trap '' HUP INT TERM QUIT USR1 USR2\necho begun\nexec sleep 1000\n")
    done = bridged("for i in $(seq 20); do own go > out$i & done; for i in $(seq 20); do while ! grep -q begun out$i; do sleep 0.05; done; done; echo end",
                   policy=policy, limit=40)
    assert done.text.split() == ["end"] and not of_tools(), str(done)


def test_a_tool_does_not_draw_on_a_question(script, closing, environment, home, work, origin, bailey):
    """It has the caller's terminal, and prints what the caller likes: while a question is shown it stands still, and then goes on."""
    policy = script("for i in $(seq 2000); do echo NOISE; sleep 0.02; done\n")
    (home / "policy.yaml").write_text(json.dumps({**policy, "network": {"ask_timeout": "90s", "allow_private": [f"127.0.0.1:{origin.port}"]}}))
    (home / "hosts").write_text("127.0.0.1 asked.test\n")
    terminal = closing(Terminal([str(program("bailey")), "run", "--ask", "tty", "--policy", str(home / "policy.yaml"), "--hosts", str(home / "hosts"), "--", "bash", "-c",
                                 f"own go & while ! test -e go; do sleep 0.05; done; curl -s -m 60 http://asked.test:{origin.port}/; sleep 1; kill %1; wait; echo end"], environment, work))
    terminal.expect(b"NOISE", 60 * SLOW)
    (work / "go").touch()
    terminal.expect(b" or no: ", 60 * SLOW)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        terminal.read(0.1)
    assert terminal.seen == b"", terminal.seen
    terminal.type("no\n")
    terminal.expect(b"NOISE", 60 * SLOW)
    terminal.expect(b"end\r\n", 60 * SLOW)


def test_a_paused_sandbox_has_paused_tools(script, start, home, work, bailey):
    """And a call that somebody agrees to meanwhile begins when it goes on."""
    policy = script("echo run >> /dev/stdout; for i in $(seq 2000); do echo x; sleep 0.02; done\n", verbs=["go", "held"], ask=["held"])
    (home / "policy.yaml").write_text(json.dumps({**policy, "network": {"ask_timeout": "90s"}}))
    child = start(["bailey", "run", "--policy", str(home / "policy.yaml"), "--", "bash", "-c", "own go | cat & own held | cat"], cwd=work)
    name = wait_for(lambda: re.search(r"bailey allow --call (\S+)", bailey("pending").text), "the question", 60 * SLOW).group(1)
    wait_for(lambda: child.output().count(b"x\n") > 5, "output", 60 * SLOW)
    bailey("pause", name.split("/")[0]).check()
    still = child.output()
    bailey("allow", "--call", name, "--scope", "once").check()
    time.sleep(1)
    assert child.output() == still and still.count(b"run") == 1
    bailey("resume", name.split("/")[0]).check()
    wait_for(lambda: child.output().count(b"run") == 2 and len(child.output()) > len(still) + 100, "both", 60 * SLOW)
    child.stop()


CROWD = """
import array, os, random, socket, struct, subprocess, sys, threading, time
HEAD = struct.Struct("=IHHI")
def packet(texts):
    body = b"".join(t + b"\\0" for t in texts)
    return HEAD.pack(0x31534c42, 1, len(texts), len(body)) + body
good, null = packet([b"/", b"own", b"go"]), os.open("/dev/null", os.O_RDWR)
rights = lambda *fds: [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(60); s.connect("/run/bailey/bridge"); return s
def one(number):
    chance = random.Random(number)
    for _ in range(250):
        s = connect()
        data, fds = bytearray(good), [null] * chance.choice((3, 3, 3, 0, 1, 2, 4, 9))
        kind = chance.randrange(5)
        if kind == 0: data = data[:chance.randrange(len(data))]
        elif kind == 1: data += chance.randbytes(chance.randrange(60000))
        elif kind == 2: data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        elif kind == 3: data = packet([b"/", b"own"] + [b"x" * 300] * chance.randrange(250))
        try:
            if data: s.sendmsg([bytes(data)], rights(*fds) if fds else [])
            if chance.random() < 0.3: s.sendmsg([bytes(data[:40])], rights(null, null))
            if chance.random() < 0.3: s.shutdown(socket.SHUT_WR)
        except OSError: pass
        s.close()
threads = [threading.Thread(target=one, args=(i,)) for i in range(12)]
for t in threads: t.start()
for t in threads: t.join()
idle = [connect() for _ in range(60)]  # more than there are places, and nobody says anything
began = time.monotonic()
p = subprocess.run(["own", "go"], timeout=100, capture_output=True, text=True)
print(p.stdout.strip(), p.returncode, len(idle))
"""


def test_a_crowd_at_the_socket(bridged, script, work):  # noqa: F811
    """3,000 connections with cut, oversized and broken messages, wrong descriptors and half-closed ends; then silent ones on every place."""
    (work / "crowd.py").write_text(CROWD)
    done = bridged("python3 crowd.py", policy=script("echo fine\n"), limit=200)
    assert done.text.split() == ["fine", "0", "60"] and not of_tools(), str(done)


def test_a_repository_that_leads_elsewhere(bridged, home, work, repository):  # noqa: F811
    """Objects and refs that are links to a repository which the sandbox cannot see: the tool does not see it either."""
    private = home / "private"
    private.mkdir()
    git("init", "-q", "-b", "main", cwd=private, check=True)
    (private / "file").write_text("private\n")
    git("add", "file", cwd=private, check=True)
    git("commit", "-qm", "PRIVATE commit", cwd=private, check=True)
    reader = home / "outside" / "reader"
    reader.write_text("#!/bin/sh\ngit --no-pager log --all --format=%s 2>&1; git --no-pager show main:file 2>&1; ls objects/ refs/heads/ 2>&1; cat packed-refs 2>&1; true\n")
    reader.chmod(0o755)
    policy = {"bridge": {"reader": {"program": str(reader), "verbs": ["all"], "workspace": "objects"}}}
    assert "commit 1" in bridged("reader all 2>&1", policy=policy).text
    secret = git("rev-parse", "main", cwd=private, check=True).stdout.strip()
    git("pack-refs", "--all", cwd=private, check=True)
    for names in (["objects"], ["refs"], ["packed-refs"], ["objects", "refs"], ["objects", "refs", "packed-refs"]):
        moves = "; ".join(f"mv .git/{name} .git/kept-{name} 2>/dev/null; ln -s {private}/.git/{name} .git/{name}" for name in names)
        back = "; ".join(f"rm .git/{name}; mv .git/kept-{name} .git/{name} 2>/dev/null" for name in names)
        done = bridged(f"{moves}; reader all 2>&1; {back}; true", policy=policy)
        assert "PRIVATE" not in done.text and "private\n" not in done.text.replace(str(private), "") and secret not in done.text, (names, str(done))
    assert "commit 1" in bridged("reader all 2>&1", policy=policy).text


def test_a_repository_made_of_special_files(bridged, home, work, repository):  # noqa: F811
    """What the run itself reads of the workspace cannot hold it up."""
    policy = {"bridge": {"reader": {"program": "/bin/true", "verbs": ["all"], "workspace": "objects"}}}
    for make in ("mkfifo .git/HEAD", "ln -s /dev/zero .git/HEAD", "ln -s /dev/tty .git/HEAD", "mkdir .git/HEAD", "head -c 100000 /dev/zero > .git/HEAD", "ln -s HEAD .git/HEAD"):
        done = bridged(f"mv .git/HEAD .git/kept; {make}; reader all; echo $?; rm -rf .git/HEAD; mv .git/kept .git/HEAD", policy=policy, limit=60)
        assert done.text.split() == ["125"] and "HEAD" in done.errors, (make, str(done))


def test_words_are_rebuilt(bridged, home, work):  # noqa: F811
    """Forms of words that a tool could read otherwise than the table does: the tool gets the one form, or nothing."""
    verbs = ["look <word>? -a|--all -n|--number=<int> --name=<text> --kind=<one|two> --only! -q", "look at <word>... --deep", "free <prose>*"]
    program = home / "outside" / "tool"
    program.write_text('#!/bin/sh\nfor word; do printf "[%s]" "$word"; done; echo\n')
    run = {
        "look --only": "[look][--only]", "look --only -a -n 5 x": "[look][--only][--all][--number=5][x]", "look x --only --number=007": "[look][--only][--number=7][x]",
        "look --only --name=": "[look][--only][--name=]", "look --only --name ''": "[look][--only][--name=]", "look --only --name=a=b=c": "[look][--only][--name=a=b=c]",
        "look --only --name --all": "[look][--only][--name=--all]", "look --only --name -- x": "[look][--only][--name=--][x]", "look --only -q -- x": "[look][--only][-q][x]",
        "look --only --": "[look][--only]", "look --only --name=x --name=y": "[look][--only][--name=x][--name=y]", "look at a b --deep": "[look at][--deep][a][b]",
        "free 'a b' '$(id)' '`id`'": "[free][a b][$(id)][`id`]",
    }
    refused = ["look", "look --onl", "look --only --al", "look --only -an 5", "look --only -na", "look --only -n5", "look --only -n=5", "look --only -qa", "look --only --all=true",
               "look --only --number", "look --only --number=", "look --only --number=-1", "look --only --number=1e3", "look --only --number=0x1", "look --only --number='5 '",
               "look --only --kind=three", "look --only --kind=one,two", "look --only --kind", "look --only -- -a", "look --only -- --all", "look --only - ", "look --only ''", "look --only ---",
               "look --only --=x", "look --only --NAME=x", "look --Only", "look --only x y", "look --only --name=@file", "look --only --name=file:///x", "look --only --name=x=@y",
               "look --only --name=$'a\\nb'", "look --only x,y\\;z", "look --only '*'", "look --only '~root'", "LOOK --only", "look\\  --only", "--only look", "-- look --only", "free -x", "free --x", "fre x"]
    lines = "".join(f"tool {words} || echo RAN {number}; " for number, words in enumerate(run))
    done = bridged(lines + "".join(f"tool {words} && echo RAN {words!r}; " for words in refused) + "true", verbs=verbs)
    expected = [text.replace("[look at]", "[look][at]") for text in run.values()]
    assert done.text.splitlines() == expected, str(done)
    assert [r["allowed"] for r in calls(done)] == [True] * len(run) + [False] * len(refused)


def test_short_calls_do_not_keep_it_from_standing(script, start, home, work):
    """A tool that ends while it is told to stand still is gone, which is as good."""
    policy = script("exit 0\n", verbs=["go"])
    (home / "policy.yaml").write_text(json.dumps(policy))
    child = start(["bailey", "run", "--policy", str(home / "policy.yaml"), "--", "bash", "-c",
                   "until test -e begin; do sleep 0.05; done; for i in 1 2 3 4; do (while :; do own go; done) & done; touch began; wait"], cwd=work)
    control = Control(wait_for(lambda: sockets(home), "the control socket", 60 * SLOW)[0])  # before there are tools, which have one each
    (work / "begin").touch()
    wait_for(lambda: (work / "began").exists(), "the calls", 60 * SLOW)
    for _ in range(25):
        try:
            control("pause")
            assert control("status")["state"] == "paused"
            control("resume")
        except OSError:
            pytest.fail(str(child.wait()))
    control.close()
    child.stop()


def test_a_call_that_waits_is_judged_again(script, start, home, work, bailey):
    """Agreed to while everything stands still; then a ratchet closes that does not leave the tool."""
    policy = script("echo $1 ran\n", verbs=["held", "trigger"], ask=["held", "trigger"])
    (home / "policy.yaml").write_text(json.dumps({**policy, "ratchet": [{"when": {"tool": ["own trigger"]}, "then": {"allow": ["kept.test"]}}], "network": {"ask_timeout": "90s"}}))
    child = start(["bailey", "run", "--policy", str(home / "policy.yaml"), "--", "bash", "-c", "own held & own trigger; wait"], cwd=work)
    control = Control(wait_for(lambda: sockets(home), "the control socket", 60 * SLOW)[0])
    questions = wait_for(lambda: len(found := control("pending")["questions"]) == 2 and found, "both questions", 60 * SLOW)
    control("pause")
    for verb in ("held", "trigger"):
        number = next(q["id"] for q in questions if verb in json.dumps(q))
        control("answer", question=number, answer="allow", scope="once")
    control("resume")
    control.close()
    done = child.wait(60 * SLOW)
    assert done.text == "trigger ran\n" and "ratchet" in done.errors, done
