# SPDX-License-Identifier: Apache-2.0
"""A person is asked: by another terminal, by the socket, by a hook, on the terminal itself. And the sandbox cannot answer."""
import json
import os
import pty
import select
import signal
import time

import pytest

from conftest import program
from kit.control import Control, sockets, wait_for
from kit.tls import Authority


@pytest.fixture
def options(hosts, origin):
    """The address is open, the names have to be asked for."""
    return ["--hosts", str(hosts), "--allow-private", f"127.0.0.1:{origin.port}"]


@pytest.fixture
def held(start, work, home, options, closing):
    """held(script, options...): a sandbox that asks by control, and a connection to its socket that listens to events."""
    def begin(script, *more, ask="control", env=None):
        child = start(["bailey", "run", "--ask", ask, *options, *more, "--", "sh", "-c", script], cwd=work, env=env or {})
        path = wait_for(lambda: sockets(home) or not child.running(), "the control socket")[0]
        child.control = closing(Control(path))
        child.id = path.stem
        child.control("subscribe")
        return child
    return begin


def fetch(origin, name="origin.test", more=""):
    return f"curl -sS -m 60 {more} http://{name}:{origin.port}/; "


def question(child):
    return wait_for(lambda: child.control("pending")["questions"], "the question")[0]


def test_another_terminal_says_yes(held, bailey, origin, work):
    child = held(fetch(origin) + fetch(origin))
    asked = question(child)
    assert (asked["kind"], asked["host"], asked["port"], asked["waiting"]) == ("host", "origin.test", origin.port, 1)
    assert f"wants origin.test:{origin.port}" in bailey("pending").check().text
    assert json.loads(bailey("pending", "--json").check().text)[0]["question"] == asked["id"]
    assert "and it was waiting" in bailey("allow", "origin.test").check().text
    assert child.wait().check().text == "origin\norigin\n"  # asked once: the rule holds for the sandbox
    answered = [e for e in child.control.events if e["event"] == "answered"] or [child.control.event("answered")]
    assert len(answered) == 1 and answered[0]["answer"] == "allow" and answered[0]["by"] == "control (bailey allow)"
    log = bailey("log").check().text
    assert f"asked: origin.test:{origin.port}" in log and "by control (bailey allow)" in log
    assert bailey("log", "verify").status == 0


def test_what_a_no_reads_like(held, bailey, origin, work):
    """Inside, in the log and to whoever tries to undo it: a person said no, for how long, and how to take it back."""
    child = held(fetch(origin) + "while [ ! -e go ]; do sleep 0.05; done; " + fetch(origin))
    question(child)
    bailey("deny", "origin.test").check()
    wait_for(lambda: b"A person refused it." in child.output(), "the refusal")
    assert b"bailey deny --forget origin.test" in child.output() and b"from denied" not in child.output()
    assert "`bailey deny --forget origin.test` takes it back" in bailey("allow", "origin.test").check(5).errors
    bailey("deny", "--forget", "origin.test").check()
    bailey("allow", "origin.test").check()
    (work / "go").touch()
    assert child.wait().text.endswith("origin\n")
    assert f"answered: origin.test:{origin.port}, deny, scope sandbox, by" in bailey("log").check().text


def test_a_no_for_once_reads_like_one(held, bailey, origin):
    child = held(fetch(origin))
    question(child)
    bailey("deny", "--scope", "once", "origin.test").check()
    assert "the answer was no" in child.wait().text
    log = bailey("log").check().text
    assert "Nobody who was asked has allowed it." in log and "must be asked" not in log


def test_the_socket_answers(held, origin):
    child = held(fetch(origin) + fetch(origin))
    child.control("answer", question=question(child)["id"], answer="allow")
    child.control.event("answered")
    began = time.monotonic()
    wait_for(origin.requests, "the request")
    assert time.monotonic() - began < 5  # it continues by the answer, not by a clock; `make bench` has the figure
    again = child.control.event("ask")["question"]  # once is once
    assert again["id"] == 2
    child.control("answer", question=2, answer="deny", scope="sandbox")
    result = child.wait()
    assert result.text.startswith("origin\n") and "policy refused" in result.text
    assert len(origin.requests()) == 1


def test_remembered_for_the_workspace(held, bailey, work, options, origin):
    child = held(fetch(origin))
    child.control("answer", question=question(child)["id"], answer="allow", scope="workspace")
    assert child.wait().check().text == "origin\n"
    shown = bailey("policy", "show", cwd=work).check().text
    assert f'"origin.test:{origin.port}"' in shown and "approved 20" in shown
    assert "approved 20" in bailey("why", f"origin.test:{origin.port}", cwd=work).text
    run = ["run", *options, "--", "sh", "-c", fetch(origin)]
    assert bailey(*run, cwd=work).check().text == "origin\n"  # asked before, and not again
    elsewhere = work.parent / "elsewhere"
    elsewhere.mkdir()
    assert "policy refused" in bailey(*run, cwd=elsewhere).text
    assert "forgotten" in bailey("allow", "--forget", f"origin.test:{origin.port}", cwd=work).check().text
    assert "policy refused" in bailey(*run, cwd=work).text


def test_remembered_for_the_workspace_from_another_directory(held, bailey, work, home, options, origin):
    """A second terminal stands somewhere: the rule is for the sandbox that waits, and its question is answered."""
    target = f"origin.test:{origin.port}"
    child = held(fetch(origin))
    question(child)
    said = bailey("allow", target, "--scope", "workspace", cwd=home).check().text
    assert f"remembered: allow {target} {work}" in said and "and it was waiting" in said
    assert child.wait().check().text == "origin\n"
    assert "approved 20" in bailey("why", target, cwd=work).text and "approved 20" not in bailey("why", target, cwd=home).text
    running = held("sleep 30")  # nobody waits: the only one that runs, if it is below
    assert f"remembered: deny b.example.com {work}" in bailey("deny", "b.example.com", "--scope", "workspace", cwd=home).check().text
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    assert f"remembered: deny c.example.com {elsewhere}" in bailey("deny", "c.example.com", "--scope", "workspace", cwd=elsewhere).check().text
    running.stop()


def test_rules_without_a_sandbox(bailey, work, home):
    result = bailey("allow", "a.example.com", cwd=work)
    assert result.status == 4 and "no sandbox is running" in result.errors
    assert bailey("allow", "http://x", "--scope", "always", cwd=work).status == 2
    bailey("deny", "bücher.example", "--scope", "always", cwd=work).check()
    assert bailey("policy", "test", "xn--bcher-kva.example:443", cwd=work).status == 1
    (home / ".local/state/bailey/state.db").write_bytes(b"broken" * 1000)
    result = bailey("allow", "a.example.com", "--scope", "always", cwd=work)
    assert result.status != 0 and "is damaged" in result.errors and "Move it away" in result.errors
    (home / ".local/state/bailey/state.db").unlink()
    bailey("allow", "a.example.com", "--scope", "always", cwd=work).check()
    assert bailey("policy", "test", "xn--bcher-kva.example:443", cwd=work).status == 1  # nothing was lost


def test_nobody_answers(held, origin):
    child = held(fetch(origin) + "sleep 100", "--ask-timeout", "1s")
    assert child.control.event("answered")["by"] == "timeout"
    wait_for(lambda: b"Nobody answered in time" in child.output(), "the refusal")
    assert origin.received() == b""


def test_client_that_gives_up(held, origin, work):
    child = held(fetch(origin, more="-m 5") + "sleep 100")
    number = question(child)["id"]
    assert child.control.event("gone")["question"] == number
    assert child.control("pending")["questions"] == []


CROWD = """
import selectors, socket, sys
request = b"GET / HTTP/1.1\\r\\nHost: origin.test:%s\\r\\nConnection: close\\r\\n\\r\\n" % sys.argv[1].encode()
address = socket.getaddrinfo("origin.test", int(sys.argv[1]), socket.AF_INET, socket.SOCK_STREAM)[0][4]
waiting, good = selectors.DefaultSelector(), 0
for _ in range(200):
    s = socket.create_connection(address, 120)
    s.sendall(request)
    waiting.register(s, selectors.EVENT_READ)
while waiting.get_map():
    for key, _ in waiting.select():
        good += key.fileobj.recv(1000).startswith(b"HTTP/1.1 200")
        waiting.unregister(key.fileobj)
        key.fileobj.close()
print(good)
"""


def test_many_connections_ask_once(held, origin, work):
    """From five processes, so that every limit of the sandbox stays where it is."""
    (work / "crowd.py").write_text(CROWD)
    child = held(f"for i in 1 2 3 4 5; do /usr/bin/python3 crowd.py {origin.port} & done; wait")
    question(child)
    time.sleep(1)  # the more of them are there the better; none of what follows depends on it
    assert len(child.control("pending")["questions"]) == 1
    child.control("allow", pattern="origin.test")
    result = child.wait(120)
    assert result.text.split() == ["200"] * 5, result
    asks = [e for e in child.control.events if e["event"] == "ask"]
    while (message := child.control.read()) is not None:
        asks += [message] if message["event"] == "ask" else []
    assert len(asks) == 1


@pytest.mark.parametrize("name", ["evil\x1b[2J.test", "evil\x07.test", "a\u202eb.test", "x\r\nbailey: ok.test"])
def test_names_that_would_draw(held, origin, name, work):
    (work / "go.py").write_text("import os, socket, urllib.parse\nproxy = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])\n"
                                "s = socket.create_connection((proxy.hostname, proxy.port), 30)\n"
                                f"s.sendall({('CONNECT ' + name + ':443 HTTP/1.1').encode()!r} + b'\\r\\n\\r\\n')\nprint(s.recv(100))\n")
    child = held("until test -e go; do sleep 0.05; done; /usr/bin/python3 go.py")  # nobody is asked: it would end before it is listened to
    (work / "go").touch()
    assert "HTTP/1.1 400" in child.wait().check().text
    events = list(child.control.events)
    while (message := child.control.read()) is not None:
        events.append(message)
    assert not [e for e in events if e["event"] == "ask"]


def test_hook_is_told_and_answers(config, held, origin, home, work, bailey):
    config.write_text(f"approval: {{ command: \"cat > {home}/told; until test -e {home}/go; do sleep 0.05; done; "
                      f"echo '{{\\\"answer\\\": \\\"allow\\\", \\\"scope\\\": \\\"once\\\"}}'\" }}\n")
    child = held(fetch(origin))  # which listens before the hook ends the wait
    (home / "go").touch()
    assert child.wait().check().text == "origin\n"
    told = json.loads((home / "told").read_text())
    assert told["event"] == "ask" and told["question"]["host"] == "origin.test" and "bailey allow origin.test" in told["text"]
    (work / ".bailey.yaml").write_text("approval: { command: 'touch x' }\n")
    result = bailey("run", "--", "true", cwd=work)
    assert result.status != 0 and "your own configuration" in result.errors


def test_webhook_answers(config, held, origin, receiver):
    config.write_text(f"approval: {{ webhook: 'http://127.0.0.1:{receiver.server_port}/services/T0/B0' }}\n")
    child = held(fetch(origin))
    path, kind, message = wait_for(lambda: receiver.got, "the message")
    assert path == "/services/T0/B0" and kind == "application/json" and message["question"]["host"] == "origin.test"
    assert f"bailey allow origin.test:{origin.port} --sandbox {child.id}" in message["text"]
    assert origin.received() == b""
    receiver.answer(b'{"answer": "allow", "scope": "once"}', head="Server: ends with the connection")
    assert child.wait().check().text == "origin\n"
    assert child.control.event("answered")["by"] == "webhook"


@pytest.mark.parametrize("trusted", [True, False])
def test_webhook_by_https(held, origin, home, receiver, tmp_path, trusted):
    """A server of one's own: its root is named by SSL_CERT_FILE. Without it nothing is told, and nobody answers."""
    authority = Authority(tmp_path)
    receiver.socket = authority.context("127.0.0.1").wrap_socket(receiver.socket, server_side=True)
    config = home / ".config/bailey/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(f"approval: {{ webhook: 'https://127.0.0.1:{receiver.server_port}/hook' }}\n")
    child = held(fetch(origin), env={"SSL_CERT_FILE": str(authority.file)} if trusted else {})
    receiver.answer(b'{"answer": "allow"}')
    if trusted:
        assert child.wait().check().text == "origin\n" and receiver.got[0] == "/hook"
        assert child.control.event("answered")["by"] == "webhook"
        return
    child.control("answer", question=question(child)["id"], answer="deny")
    assert "policy refused" in child.wait().text and receiver.got is None


def test_webhook_that_keeps_the_connection(config, held, origin, receiver):
    """A reply of a known length counts when it is there."""
    config.write_text(f"approval: {{ webhook: 'http://127.0.0.1:{receiver.server_port}/' }}\n")
    child = held(fetch(origin))
    receiver.answer(b'{"answer": "allow"}', stays=True)
    assert child.wait().check().text == "origin\n"


# What the connection's end has cut off is whole JSON by chance; what was to follow would have made it something else.
@pytest.mark.parametrize("head", ["Content-Length: 20", "Content-Length: 19\r\nContent-Length: 20", "Transfer-Encoding: chunked", "Odd Header: 1"])
def test_webhook_reply_that_is_not_whole(config, held, origin, receiver, head):
    config.write_text(f"approval: {{ webhook: 'http://127.0.0.1:{receiver.server_port}/' }}\n")
    receiver.answer(b'{"answer": "allow"}', head=head)
    child = held(fetch(origin))
    wait_for(lambda: receiver.ended, "the end of the connection")
    time.sleep(0.2)
    assert child.control("pending")["questions"] and origin.received() == b""
    child.control("answer", question=1, answer="deny")
    assert "policy refused" in child.wait().text


@pytest.mark.parametrize("reply", [b"ok", b"", b'{"answer": "maybe"}', b'{"answer": ["allow"]}', b"[" * 5000])
def test_webhook_that_says_nothing(config, held, origin, receiver, reply):
    config.write_text(f"approval: {{ webhook: 'http://localhost:{receiver.server_port}/' }}\n")
    child = held(fetch(origin))
    receiver.answer(reply)
    wait_for(lambda: receiver.got, "the message")
    time.sleep(0.2)
    assert child.control("pending")["questions"] and origin.received() == b""
    child.control("answer", question=1, answer="deny")
    assert "policy refused" in child.wait().text


# The terminal.

class Terminal:
    """`bailey run` on a pseudo-terminal of its own, as the leader of its session."""

    def __init__(self, argv, env, cwd):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(argv[0], [str(word) for word in argv], env)

    def type(self, text):
        os.write(self.fd, text.encode())

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return b""
        try:
            data = os.read(self.fd, 4096)
        except OSError:
            return None
        self.seen += data
        return data

    def expect(self, wanted, seconds=30):
        end = time.monotonic() + seconds
        while wanted not in self.seen:
            left = end - time.monotonic()
            assert left > 0, f"waited for {wanted!r}, saw {self.seen!r}"
            assert self.read(left) is not None, f"the end came before {wanted!r}: {self.seen!r}"
        before, self.seen = self.seen.split(wanted, 1)
        return before

    def rest(self, seconds=30):
        end = time.monotonic() + seconds
        while self.read(max(0, end - time.monotonic())):
            pass
        return self.seen

    def close(self):
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def terminal(closing, work, environment, options):
    def begin(script, *more, **variables):
        argv = [str(program("bailey")), "run", "--ask", "tty", *options, *more, "--", "sh", "-c", script]
        return closing(Terminal(argv, {**environment, **variables}, work))
    return begin


PROMPT = b"once, sandbox, workspace, always or no: "


def test_prompt(terminal, origin):
    t = terminal(fetch(origin) + fetch(origin) + fetch(origin, "other.test") + "read line; echo got-$line; tty; stty -a | grep -c icanon")
    shown = t.expect(PROMPT)
    assert f"wants to connect to origin.test:{origin.port}".encode() in shown
    t.type("perhaps\n")
    t.expect(PROMPT)
    t.type("\x1b[24;80R\n")  # as a terminal reports
    t.expect(PROMPT)
    t.type("once\n")
    t.expect(b"origin\r\n")
    t.expect(PROMPT)
    t.type("sandbox\n")
    t.expect(b"origin\r\n")
    assert b"other.test" in t.expect(PROMPT)
    t.type("no\n")
    t.expect(b"policy refused other.test")
    t.type("input\n")  # and the program has its terminal again
    t.expect(b"got-input")
    t.rest()
    assert len(origin.requests()) == 2


def test_a_question_is_seen_however_the_terminal_was_left(terminal, origin):
    """Hidden text, an unfinished sequence, keys that erase what is typed: the question and the answer are as they are."""
    t = terminal("stty erase n kill o eol e igncr; printf '\\033[8m\\033]0;'; " + fetch(origin), TERM="xterm")
    shown = t.expect(PROMPT)
    assert b"\x18\x1b\\" in shown and b"\x1b[0;" in shown and shown.index(b"\x1b[8m") < shown.index(b"\x18")
    t.type("once\n")
    t.expect(b"origin\r\n")
    assert len(origin.requests()) == 1


def test_what_was_typed_before_does_not_count(terminal, origin):
    t = terminal("echo ready; sleep 2; " + fetch(origin))
    t.expect(b"ready")
    t.type("always\nonce\nonce\n")
    t.expect(PROMPT)
    assert t.read(1) == b""  # it waits
    t.type("no\n")
    t.expect(b"policy refused")
    assert origin.received() == b""


def test_full_screen_program_is_left_alone(terminal, origin, bailey, home):
    (home / ".local/state/bailey").mkdir(parents=True, mode=0o700, exist_ok=True)
    (home / ".local/state/bailey/introduced").touch()  # not the first run, which has more to say
    t = terminal("stty raw -echo; echo drawing; " + fetch(origin) + "stty sane; echo d''one")
    before = t.expect(b"drawing")
    wait_for(lambda: json.loads(bailey("pending", "--json").check().text), "the question")
    t.read(0.5)
    t.read(0.5)
    assert b"bailey" not in before + t.seen and b"\a" in t.seen
    bailey("allow", "origin.test").check()
    t.expect(b"origin")
    t.expect(b"done")


SELF_ANSWER = """
import fcntl, os, signal, sys, termios, threading, time
for s in (signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP, signal.SIGHUP, signal.SIGINT, signal.SIGCONT):
    signal.signal(s, signal.SIG_IGN)
tty = os.open("/dev/tty", os.O_RDWR)
def always(do):
    def run():
        while True:
            try:
                do()
            except OSError:
                pass
            time.sleep(0.001)
    threading.Thread(target=run, daemon=True).start()
def inject():
    for c in b"always\\n":
        fcntl.ioctl(tty, termios.TIOCSTI, bytes([c]))
def others():
    for pid in os.listdir("/proc"):
        if pid.isdigit() and int(pid) != os.getpid():
            os.kill(int(pid), signal.SIGCONT)
always(lambda: os.write(tty, b"\\x1b[6n\\x1b[21t\\x05"))
always(inject)
always(lambda: os.tcsetpgrp(tty, os.getpgrp()))
always(lambda: os.kill(os.getppid(), signal.SIGCONT))
always(lambda: os.kill(0, signal.SIGCONT))
always(others)
always(lambda: os.write(tty, b"always\\n"))
if os.fork() == 0:
    os.setpgid(0, 0)
    always(lambda: os.read(tty, 1))
    always(lambda: os.kill(os.getppid(), signal.SIGCONT))
    always(others)
    time.sleep(60)
    os._exit(0)
time.sleep(0.5)
os.system(sys.argv[1])
print("over")
os.kill(0, signal.SIGKILL)
"""


def test_program_that_answers_for_itself(terminal, origin, work):
    (work / "go.py").write_text(SELF_ANSWER)
    t = terminal(f"exec /usr/bin/python3 go.py '{fetch(origin)}'")
    t.expect(PROMPT)
    t.seen = b""
    quiet = b""
    for _ in range(10):
        quiet += t.read(0.1) or b""
    assert quiet == b"", "something wrote to the terminal while the question was up"
    assert origin.received() == b""
    t.type("no\n")
    t.expect(b"policy refused")
    assert origin.received() == b""


# The monitor and the roles.

REFUSED = "for i in 1 2 3 4 5; do curl -sS -m 5 -o /dev/null http://refused$i.test/; done; echo go''es-on; sleep 100"


def test_monitor_ends(config, start, work, home, bailey):
    config.write_text("monitor:\n  - { violations: 3, within: 60s, action: kill }\n"
                      f"approval: {{ command: 'cat >> {home}/alarms' }}\n")
    result = start(["bailey", "run", "--", "sh", "-c", REFUSED], cwd=work).wait(60)
    assert result.status == 137 and "3 violations within 1m: the sandbox is ended" in result.errors
    assert json.loads((home / "alarms").read_text())["action"] == "kill"
    assert "monitor: 3 violations within 1m: kill (~/.config/bailey/config.yaml:2:" in bailey("log").text


def test_monitor_counts_files_too(config, start, work):
    config.write_text("monitor:\n  - { violations: 3, within: 60s, action: kill }\n")
    script = "for i in 1 2 3 4 5; do touch /usr/bin/planted$i; done; sleep 100"
    result = start(["bailey", "run", "--trace-denials", "--", "sh", "-c", script], cwd=work).wait(60)
    assert result.status == 137 and "3 violations within 1m: the sandbox is ended" in result.errors


def test_monitor_pauses_and_warns(config, held, bailey, work):
    config.write_text("monitor:\n  - { violations: 2, within: 60s, action: warn }\n  - { violations: 4, within: 60s, action: pause }\n")
    waiting = REFUSED.replace("; echo", "; until [ -e go ]; do sleep 0.05; done; echo")  # the pause may take a moment to hold
    child = held("until [ -e heard ]; do sleep 0.05; done; " + waiting, ask="never")
    (work / "heard").touch()
    assert [child.control.event("monitor")["action"] for _ in range(2)] == ["warn", "pause"]
    wait_for(lambda: child.control("status")["state"] == "paused", "the pause")
    (work / "go").touch()
    time.sleep(1)
    assert b"goes-on" not in child.output()
    bailey("resume", child.id).check()
    wait_for(lambda: b"goes-on" in child.output(), "going on")


@pytest.mark.parametrize("role, status", [("{ networkAccess: whitelist, monitorEnabled: true, autoKillOnThreat: true }", 137),
                                          ("{ networkAccess: whitelist, monitorEnabled: false }", 0)])
def test_roles(config, bailey, work, role, status):
    """And what a run asked for, in the form that the runner's log has."""
    config.write_text(f"agents: {{ builder: {role} }}\nmonitor: [{{ violations: 2, within: 60s, action: warn }}]\n")
    result = bailey("run", "--agent", "builder", "--", "sh", "-c", REFUSED.replace("sleep 100", "true"), cwd=work, timeout=60)
    assert result.status == status, result
    assert ("violations within" in result.errors) == (status != 0)
    requests = [json.loads(line) for line in bailey("log", "--requests").check().text.splitlines()]
    assert requests and all(list(r) == ["timestamp", "run_id", "domain", "path", "method", "allowed", "whitelist_matched", "status"] for r in requests)
    assert requests[0]["domain"] == "refused1.test" and requests[0]["allowed"] is False and requests[0]["whitelist_matched"] is None
