# SPDX-License-Identifier: Apache-2.0
"""Running sandboxes from outside: the control socket as docs/control.md has it, and the verbs that use it."""
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from kit.control import Control, Refused, sockets, wait_for


@pytest.fixture
def sandbox(start, work, home, closing):
    """sandbox(options..., command=[...]): its process, with .path and .id of the socket once it is there."""
    def begin(*options, command=("sleep", "100"), **more):
        before = set(sockets(home))
        child = start(["bailey", "run", *options, "--", *command], cwd=work, **more)
        child.path = wait_for(lambda: set(sockets(home)) - before or not child.running(), "the control socket").pop()
        child.id = child.path.stem
        return child
    yield begin


@pytest.fixture
def connect(closing):
    return lambda child, **more: closing(Control(child.path, **more))


def inside(child):
    """Process numbers of the sandbox, as the host has them: all below the supervisor, without init and the gateway."""
    parents, names = {}, {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            names[int(entry.name)] = text[text.index("(") + 1:text.rindex(")")]
            parents[int(entry.name)] = int(text.rsplit(")", 1)[1].split()[1])

    def below(pid):
        while pid in parents and pid != child.pid:
            pid = parents[pid]
        return pid == child.pid
    return [pid for pid in parents if pid != child.pid and below(pid) and not names[pid].startswith("bailey")]


def state(pid):
    """As /proc has it; X for one that is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "X"


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_life_of_a_sandbox(sandbox, connect, bailey, work):
    child = sandbox("--allow", "a.example.com:443")
    control = connect(child)
    assert control.hello["sandbox"] == child.id and control.hello["version"] == 1
    status = control("status")
    assert status["state"] == "running" and status["command"] == ["sleep", "100"] and status["workspace"] == str(work)
    assert status["pid"] == child.pid and status["pending"] == 0 and pathlib.Path(status["audit"]).exists()
    assert control("rules")["rules"] == [{"list": "allow", "pattern": "a.example.com:443", "origin": "--allow", "live": False}]

    control("subscribe")
    control("allow", pattern="*.b.example.com")
    assert control.event("rules") == {"event": "rules", "list": "allow", "pattern": "*.b.example.com", "scope": "sandbox"}
    assert control("rules")["rules"][1]["live"]
    assert control("forget", pattern="*.b.example.com")["removed"] == 1
    for pattern in ("http://x/", "*", "a..b", "-"):
        with pytest.raises(Refused) as refused:
            control("allow", pattern=pattern)
        assert refused.value.code == "invalid"
    with pytest.raises(Refused) as refused:
        control("forget", pattern="never.example.com")
    assert refused.value.code == "not-found"
    control("deny", pattern="c.example.com")
    with pytest.raises(Refused) as refused:
        control("allow", pattern="c.example.com:443")
    assert "stays refused by the rule c.example.com" in refused.value.text

    listed = json.loads(bailey("ps", "--json").check().text)
    assert [s["sandbox"] for s in listed] == [child.id]
    assert child.id in bailey("ps").check().text
    assert bailey("kill", child.id[:4]).check().text == f"{child.id}: killed\n"
    assert child.wait().status == 137
    assert control.event("end") == {"event": "end", "status": 137}
    assert not child.path.exists() and json.loads(bailey("ps", "--json").check().text) == []


def test_pause_and_resume(sandbox, connect, bailey, work):
    child = sandbox(command=("sh", "-c", "sh -c 'while :; do date +%s%N > ticks; sleep 0.01; done' & sleep 1000 & wait"))
    wait_for(lambda: len(inside(child)) >= 3 and (work / "ticks").exists(), "the processes")
    stopped = wait_for(lambda: [pid for pid in inside(child) if command_of(pid).startswith(b"sleep\x001000")], "the one that sleeps")
    os.kill(stopped[0], signal.SIGSTOP)  # by job control, before
    wait_for(lambda: state(stopped[0]) == "T", "the stop")
    assert bailey("pause", child.id).check().text == f"{child.id}: paused\n"
    assert {state(pid) for pid in inside(child)} <= {"T", "Z", "X", "D"}  # D: in the kernel, such as a vfork() whose child stands
    assert connect(child)("status")["state"] == "paused"
    before = (work / "ticks").read_text()
    time.sleep(0.2)
    assert (work / "ticks").read_text() == before
    bailey("resume", child.id).check()
    wait_for(lambda: (work / "ticks").read_text() not in ("", before), "going on")
    assert state(stopped[0]) == "T"  # what stood before stands
    bailey("pause", child.id).check()
    bailey("kill", child.id).check()  # also of one that stands
    assert child.wait().status == 137


RESTLESS = """
import ctypes, os, signal, sys, threading, time
libc = ctypes.CDLL(None)
event = (ctypes.c_int64 * 8)(0, signal.SIGCONT)  # sigev_signo, SIGEV_SIGNAL
signal.signal(signal.SIGCONT, lambda *_: None)
for i in range(1, 1000 if sys.argv[2] != "children" else 1):  # not one that comes again: it would not, once the kernel has thrown its signal away for a SIGSTOP
    timer, when = ctypes.c_void_p(), i * int(sys.argv[1]) * 1000000
    assert libc.timer_create(0, event, ctypes.byref(timer)) == 0
    assert libc.timer_settime(timer, 0, (ctypes.c_int64 * 4)(0, 0, *divmod(when, 1000000000)), None) == 0
if sys.argv[2] == "threads":
    for _ in range(4):
        threading.Thread(target=lambda: time.sleep(1000), daemon=True).start()
if sys.argv[2] == "children":  # each once, and then it is gone
    for i in range(60):
        if os.fork() == 0:
            if os.fork() == 0:
                timer, when = ctypes.c_void_p(), (i + 1) * int(sys.argv[1]) * 1000000
                assert libc.timer_create(0, event, ctypes.byref(timer)) == 0
                assert libc.timer_settime(timer, 0, (ctypes.c_int64 * 4)(0, 0, *divmod(when, 1000000000)), None) == 0
                os.kill(os.getpid(), signal.SIGSTOP)
                open("work", "a").write("x")
            os._exit(0)
        os.wait()
    open("ready", "w")
    signal.pause()
open("ready", "w")
while True:
    with open("work", "a") as work:
        work.write("x")
    os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.parametrize("every, kind", [(20, "alone"), (180, "alone"), (70, "threads"), (150, "children")])
def test_who_goes_on_between_two_looks_ends(sandbox, bailey, work, every, kind):
    """A timer lets it go on; it works for a moment and stops itself, so that whoever looks finds it stopped."""
    (work / "restless.py").write_text(RESTLESS)
    child = sandbox(command=("/usr/bin/python3", "restless.py", str(every), kind))
    wait_for(lambda: (work / "ready").exists(), "the timer")
    bailey("pause", child.id).check()
    done = child.wait(60)
    assert done.status == 125 and "it was frozen and went on by itself" in done.errors, done


def test_names_of_sandboxes(sandbox, bailey):
    result = bailey("kill", "nosuch")
    assert result.status == 4 and "there is no running sandbox 'nosuch'" in result.errors
    children = [sandbox() for _ in range(3)]
    result = bailey("pause", "")
    assert result.status in (2, 4)
    shared = os.path.commonprefix([c.id for c in children])
    if shared:
        assert "begin with" in bailey("pause", shared).errors
    for child in children:
        bailey("kill", child.id).check()
        child.wait()


def test_what_is_no_request(sandbox, connect, bailey):
    child = sandbox()
    for line in (b"\n", b"x\n", b"{}\n", b'{"id":1,"do":"dance"}\n', b'{"id":1,"do":"status","x":1}\n', b"a" * 20000, b'{"id":1,"id":2,"do":"status"}\n',
                 b'\xff\xfe\n', b'[1]\n', b'{"id":1,"do":"hello","version":1,"client":"' + b"x" * 100 + b'"}\n'):
        control = connect(child, hello=False)
        control.send(line)
        reply = control.read()
        assert not reply["ok"] and reply["error"]["code"] == "bad-request", line
        try:
            assert control.read() is None, line
        except ConnectionResetError:
            pass  # what it did not read was thrown away
    control = connect(child, hello=False)
    for request, code in (({"do": "status"}, "hello-first"), ({"do": "hello", "version": 2}, "version"), ({"do": "kill"}, "hello-first")):
        control.send(json.dumps({"id": 1, **request}) + "\n")
        assert control.read()["error"]["code"] == code
    control("hello", version=1)
    # Many at once, in pieces, are answered in order.
    lines = "".join(json.dumps({"id": i, "do": "status"}) + "\n" for i in range(100, 200))
    for i in range(0, len(lines), 7):
        control.send(lines[i:i + 7])
    assert [control.read()["id"] for _ in range(100)] == list(range(100, 200))
    # More clients than there are places: the rest is told so, and nobody is disturbed.
    crowd = [connect(child, hello=False) for _ in range(40)]
    assert any(c.read()["error"]["code"] == "too-many" for c in crowd[-1:])
    assert control("status")["state"] == "running"
    # Those that never say hello keep nobody out for long.
    wait_for(lambda: time.sleep(0.5) or "running" in bailey("ps").text, "a place")
    # Nor do those that say it and sit there, or that subscribe. Who is heard keeps its place.
    sitting = [connect(child) for _ in range(31)]
    wait_for(lambda: sitting[-1]("status") and "running" in bailey("ps").text, "a place")
    for client in [control, *crowd, *sitting]:
        client.close()
    for _ in range(24):
        connect(child)("subscribe")
    with pytest.raises(Refused) as refused:
        connect(child)("subscribe")
    assert refused.value.code == "too-many" and "running" in bailey("ps").text


REQUESTS = """
import http.client, os, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["HTTP_PROXY"])
c = http.client.HTTPConnection(proxy.hostname, proxy.port, timeout=30)
for i in range(1950):
    c.request("GET", "http://refused%d.example/%d/" % (i // 50, i) + "x" * 900)  # one host would be slowed down
    c.getresponse().read()
"""


def test_slow_subscriber_is_dropped(sandbox, connect, work):
    (work / "go.py").write_text(REQUESTS)
    child = sandbox(command=("sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; /usr/bin/python3 go.py; sleep 100"))
    slow, other = connect(child), connect(child)
    slow("subscribe")
    (work / "go").touch()
    wait_for(lambda: other("status")["refused"] >= 1900, "the events", 120)
    messages = []
    while True:
        message = slow.read()
        if message is None:
            break
        messages.append(message)
    assert messages[-1]["event"] == "dropped" and 100 < len(messages) < 1900
    assert all(m["event"] in ("network", "note") for m in messages[:-1])
    assert other("status")["state"] == "running"


def test_supervisor_that_was_killed(sandbox, bailey):
    child = sandbox()
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert child.path.exists()
    assert bailey("ps").check().text == ""
    # It is cleaned up by whoever meets it, once it is old enough not to be a new one that nobody listens to yet.
    wait_for(lambda: bailey("ps").check() and not child.path.exists(), "the clean-up")


def test_supervisor_that_is_stopped(sandbox, bailey):
    child = sandbox()
    os.kill(child.pid, signal.SIGSTOP)
    result = bailey("ps", timeout=60).check()
    assert f"{child.id}" in result.text and "silent" in result.text
    os.kill(child.pid, signal.SIGCONT)
    bailey("kill", child.id).check()


def test_places_are_private(sandbox, home, bailey):
    child = sandbox()
    assert child.path.parent.stat().st_mode & 0o777 == 0o700
    os.chmod(child.path.parent, 0o755)
    result = bailey("ps")
    assert result.status == 5 and "must be yours alone" in result.errors
    os.chmod(child.path.parent, 0o700)


@pytest.mark.root
def test_other_users_are_turned_away(sandbox, bailey, home):
    """Where the directory should fail to keep them out, the server does."""
    child = sandbox()
    script = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(1000).decode())"
    directory = os.open(child.path.parent, os.O_RDONLY)
    os.chmod(child.path.parent, 0o711)
    os.chmod(child.path, 0o777)
    try:
        told = subprocess.run(["/usr/bin/python3", "-c", script, f"/proc/self/fd/{directory}/{child.path.name}"], user=65534, group=65534,
                              extra_groups=[], pass_fds=[directory], cwd="/", capture_output=True, text=True, timeout=30, check=False)
    finally:
        os.close(directory)
    assert "user 65534 may not control this sandbox" in told.stdout, told


def test_events_of_all(sandbox, start, work):
    follow = start(["bailey", "events", "-f", "--json"])
    child = sandbox(command=("sh", "-c", "until [ -e go ]; do getent hosts refused.example; sleep 0.2; done"))
    wait_for(lambda: b"refused.example" in follow.output(), "the event")  # the follower finds a new sandbox in its own time
    (work / "go").touch()
    child.wait()
    wait_for(lambda: b'"event":"end"' in follow.output(), "the end")
    lines = [json.loads(line) for line in follow.output().splitlines()]
    assert {line["sandbox"] for line in lines} == {child.id}
    refused = [line for line in lines if line["event"] == "network"]
    assert refused and refused[0]["domain"] == "refused.example" and refused[0]["allowed"] is False
    follow.stop()


def test_reload(sandbox, connect, config):
    config.write_text("network: { allow: [first.example.com] }\n")
    child = sandbox()
    control = connect(child)
    control("subscribe")
    control("allow", pattern="live.example.com")
    patterns = lambda: [rule["pattern"] for rule in control("rules")["rules"]]  # noqa: E731
    config.write_text("network: { allow: [second.example.com] }\n")
    assert control("reload")["later"] == ""
    assert control.event("reload")["ok"] and patterns() == ["second.example.com", "live.example.com"]
    config.write_text("network: { alow: [third.example.com] }\n")
    with pytest.raises(Refused) as refused:
        control("reload")
    assert "alow" in refused.value.text and refused.value.text.endswith("; the policy stays as it was")
    assert patterns() == ["second.example.com", "live.example.com"]
    # What the launch has settled is named, so that nobody takes it for changed.
    config.write_text("network: { allow: [second.example.com], limits: { idle: 30s } }\n"
                      "filesystem: { deny_write: [x] }\nprocess: { limits: { processes: 99 } }\n")
    assert control("reload")["later"] == "filesystem, process.limits"
    assert [control.event("reload")["later"] for _ in range(2)] == ["", "filesystem, process.limits"]
    config.write_text("network: { allow: [second.example.com] }\nfilesystem: { deny_write: [x] }\nprocess: { limits: { processes: 99 } }\nbridge: { kubectl: {} }\n")
    assert control("reload")["later"] == "filesystem, process.limits, bridge"
    config.write_text("mode: read-only\n")
    assert [control("reload")["later"] for _ in range(2)] == ["mode", "mode"]  # its files were made at the launch
    config.write_text("network: { allow: [fourth.example.com] }\n")
    child.signal(signal.SIGHUP)
    while not control.event("reload")["ok"]:
        pass
    assert patterns() == ["fourth.example.com", "live.example.com"] and child.running()


def test_reload_by_its_verb(sandbox, connect, config, bailey):
    config.write_text("network: { allow: [first.example.com] }\n")
    child = sandbox()
    patterns = lambda: [rule["pattern"] for rule in connect(child)("rules")["rules"]]  # noqa: E731
    config.write_text("network: { allow: [second.example.com] }\n")
    assert bailey("reload", child.id[:6]).check().text == f"{child.id}: has read its policy again\n" and patterns() == ["second.example.com"]
    config.write_text("network: { alow: [third.example.com] }\n")
    refused = bailey("reload", child.id)
    assert refused.status == 5 and "alow" in refused.errors and patterns() == ["second.example.com"], refused
    assert bailey("reload", "no-such-one").status == 4
