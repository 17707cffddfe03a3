# SPDX-License-Identifier: Apache-2.0
"""Where no namespaces can be made: refused with a hint, or run with less and said so. And a sandbox inside a sandbox."""
import errno
import json
import os
import pathlib
import time

import pytest

from conftest import BUILD, program
from kit.control import sockets, wait_for
from kit.git import git
from kit.machine import NO_CLONE3, deny, machine

pytestmark = pytest.mark.visible_home

# Every namespace that the first clone asks for, and SIGCHLD.
NO_NAMESPACES = [deny("clone3", NO_CLONE3), deny("clone", errno.EPERM, 0x3E020011)]


@pytest.fixture
def sh(run, work):
    def do(script, *options):
        argv = [program("bailey"), "run", *options, "--", "sh", "-c", script]
        return run(machine(argv, refuse=NO_NAMESPACES), cwd=work)
    return do


def test_refused_without_permission(sh, work):
    result = sh("touch ran")
    assert result.status == 122 and not (work / "ran").exists()
    assert "bailey doctor" in result.errors and "--allow-degraded" in result.errors


def test_says_what_is_lost(sh):
    result = sh("true", "--allow-degraded").check()
    assert result.errors.count("lost:") >= 3


def test_shared_memory_is_what_the_notice_says(sh):
    """/dev/shm is closed, and said to be: nothing is made in it, and nothing of others is read or changed."""
    said = sh("true", "--allow-degraded").check().errors
    assert "/dev/shm is closed" in said and "shared memory" in said, said
    others = pathlib.Path(f"/dev/shm/bailey-test-{os.getpid()}")
    others.write_text("mine\n")
    try:
        for attempt in (f"echo x > {others}-new", f"cat {others}", f"echo x >> {others}", f"rm {others}", "python3 -c 'import multiprocessing as m; m.Lock()'",
                        "python3 -c 'from multiprocessing import shared_memory as s; s.SharedMemory(create=True, size=9)'"):
            assert sh(attempt, "--allow-degraded").status != 0, attempt
        assert others.read_text() == "mine\n" and not pathlib.Path(f"{others}-new").exists()
    finally:
        others.unlink()


def test_files(sh, work, home):
    (home / ".ssh").mkdir()
    (home / ".ssh/id").write_text("key\n")
    (home / "notes").write_text("text\n")
    result = sh(f"echo x > made; cat {home}/notes; cat {home}/.ssh/id; echo y > {home}/planted; echo z > $TMPDIR/t && cat $TMPDIR/t",
                "--allow-degraded", "--home", "real").check()
    assert (work / "made").exists() and not (home / "planted").exists()
    assert result.text == "text\nz\n" and result.errors.count("ermission denied") == 2


def test_own_home(sh, work, home):
    """Nothing can be mounted: HOME names another directory, which is kept, and the real home is closed."""
    (home / ".claude").mkdir()
    (home / ".claude/.credentials.json").write_text("key\n")
    (home / "notes").write_text("text\n")
    result = sh(f"cat {home}/notes {home}/.claude/.credentials.json; ls {home}; echo y > {home}/planted; echo kept > ~/kept; echo $HOME",
                "--allow-degraded").check()
    assert not (home / "planted").exists() and result.errors.count("ermission denied") == 4, result
    own = result.text.strip()
    assert own.startswith(str(home / ".local/state/bailey/homes")) and own.endswith("/files"), result
    assert sh("cat ~/kept", "--allow-degraded").check().text == "kept\n"
    assert sh("echo x > made; cat made", "--allow-degraded").check().text == "x\n" and (work / "made").exists()


def test_network_only_through_the_gateway(sh, home, origin):
    (home / "hosts").write_text("127.0.0.1 origin.test other.test\n")
    target = f"origin.test:{origin.port}"
    options = ["--allow-degraded", "--hosts", str(home / "hosts"), "--allow", target, "--allow-private", target]
    assert sh(f"curl -sS -m 10 http://{target}/", *options).check().text == "origin\n"
    before = len(origin.connections)
    assert sh(f"curl -sS -m 5 --noproxy '*' http://127.0.0.1:{origin.port}/", *options).status != 0
    assert sh(f"curl -sS -m 5 http://other.test:{origin.port}/", *options).text != "origin\n"
    assert len(origin.connections) == before
    script = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"
    assert "PermissionError" in sh(f'/usr/bin/python3 -c "{script}"', *options).errors


ANSWER_ITSELF = """
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
try:
    s.connect(sys.argv[1])
    s.sendall(json.dumps({"id": 1, "do": "hello", "version": 1}).encode() + b"\\n")
    print("heard", json.loads(s.recv(65536).split(b"\\n")[0] or b"{}").get("ok"))
except (OSError, ValueError) as error:
    print("heard", False)
"""


@pytest.mark.skipif(tuple(map(int, os.uname().release.split("-")[0].split(".")[:2])) < (6, 5), reason="kernel: no SO_PEERPIDFD")
def test_people_outside_are_asked_and_the_inside_cannot_answer(start, bailey, home, work, origin):
    """The socket is in sight of the sandbox; the server sees who speaks. Nothing can be frozen, and that is said."""
    (home / "hosts").write_text("127.0.0.1 origin.test\n")
    (work / "answer.py").write_text(ANSWER_ITSELF)
    target = f"origin.test:{origin.port}"
    script = f"while ! [ -e path ]; do sleep 0.1; done; /usr/bin/python3 answer.py $(cat path); curl -sS -m 60 http://{target}/"
    argv = [program("bailey"), "run", "--allow-degraded", "--ask", "tty", "--hosts", str(home / "hosts"), "--allow-private",
            f"127.0.0.1:{origin.port}", "--", "sh", "-c", script]
    child = start(machine(argv, refuse=NO_NAMESPACES), cwd=work)
    path = wait_for(lambda: sockets(home), "the control socket")[0]
    assert path.stem in bailey("ps").check().text
    paused = bailey("pause", path.stem)
    assert paused.status != 0 and "cannot be made to stand still" in paused.errors
    (work / "path").write_text(str(path))
    question = wait_for(lambda: json.loads(bailey("pending", "--json").text or "[]"), "the question")
    assert "origin.test" in json.dumps(question)
    bailey("allow", target, "--sandbox", path.stem, "--scope", "once").check()
    result = child.wait()
    assert result.text == "heard False\norigin\n" and "the terminal does not ask" in result.errors, result


@pytest.mark.skipif(tuple(map(int, os.uname().release.split("-")[0].split(".")[:2])) < (6, 5), reason="kernel: no SO_PEERPIDFD")
@pytest.mark.parametrize("secure", [False, True])
def test_only_a_webhook_with_a_certificate_answers(start, bailey, home, work, origin, config, receiver, authority, secure):
    """A sandbox that shares the host's loopback could listen on the webhook's port and say yes to itself."""
    if secure:
        receiver.socket = authority.context("127.0.0.1").wrap_socket(receiver.socket, server_side=True)
    config.write_text(f"approval: {{ webhook: 'http{'s' if secure else ''}://127.0.0.1:{receiver.server_port}/' }}\n")
    (home / "hosts").write_text("127.0.0.1 origin.test\n")
    target = f"origin.test:{origin.port}"
    argv = [program("bailey"), "run", "--allow-degraded", "--ask", "control", "--hosts", str(home / "hosts"), "--allow-private",
            f"127.0.0.1:{origin.port}", "--", "curl", "-sS", "-m", "60", f"http://{target}/"]
    receiver.answer(b'{"answer": "allow"}')
    child = start(machine(argv, refuse=NO_NAMESPACES), cwd=work, env={"SSL_CERT_FILE": str(authority.file)})
    if secure:
        assert child.wait().check().text == "origin\n"
        return
    wait_for(lambda: "the webhook's answer does not count: without namespaces it needs https" in bailey("log").text, "the note")
    assert receiver.got and json.loads(bailey("pending", "--json").check().text) and origin.received() == b""
    bailey("deny", target, "--scope", "once").check()
    assert "policy refused" in child.wait().text and origin.received() == b""


def test_children_do_not_outlive(sh, work):
    sh("setsid sh -c 'sleep 30; touch late' >/dev/null 2>&1 & setsid sleep 31 >/dev/null 2>&1 & exit 0", "--allow-degraded").check()
    assert not (work / "late").exists()


def test_protected_path_is_not_left_behind(sh, work):
    sh("mkdir .vscode && echo x > .vscode/tasks.json", "--allow-degraded").check()
    assert not os.path.lexists(work / ".vscode")


@pytest.mark.exact_build  # it runs itself inside, where a sanitizer's memory does not fit into the limits
def test_sandbox_inside_a_sandbox(bailey, work):
    inner = [str(program("bailey")), "run", "--audit", "/tmp/inner.jsonl"]
    visible = ["--read", str(BUILD)]  # the tests may run from a copy in /tmp
    assert bailey("run", *visible, "--", *inner, "--", "true", cwd=work).status == 122
    nothing_to_protect = [*visible, "--mode", "read-only", "--read", str(work)]
    result = bailey("run", *nothing_to_protect, "--", *inner, "--allow-degraded", "--", "sh", "-c", "echo x > /tmp/made; exit 4", cwd=work)
    assert result.status == 4, result
    result = bailey("run", *nothing_to_protect, "--", *inner, "--allow-degraded", "--trace-denials", "--", "true", cwd=work)
    assert result.status != 0 and "need namespaces" in result.errors, result
    # Whoever watches files, or changes of them, performs the calls, and Landlock inside would not hold them.
    for watched in (["--deny-read", "**/.env"], []):
        result = bailey("run", *visible, *watched, "--", *inner, "--allow-degraded", "--", "sh", "-c", "echo x > made", cwd=work)
        assert result.status != 0 and "needs Landlock" in result.errors and not (work / "made").exists(), result
    # Where connect() is performed outside too, no network means no sockets.
    reach = "import socket; s = socket.socket(); s.connect(('127.0.0.1', 3128))"
    result = bailey("run", *nothing_to_protect, "--", *inner, "--allow-degraded", "--mode", "workspace-write", "--", "python3", "-c", reach, cwd=work)
    assert result.status != 0 and "PermissionError" in result.errors, result


# What Landlock does not look at: judged by the watcher.

PYTHON = "/usr/bin/python3"


@pytest.fixture
def python(run, work):
    def do(script, *options):
        argv = [program("bailey"), "run", "--allow-degraded", *options, "--", PYTHON, "-c", script]
        return run(machine(argv, refuse=NO_NAMESPACES), cwd=work)
    return do


ATTRIBUTES = {
    "chmod": "os.chmod(F, 0o777)", "fchmod": "os.fchmod(os.open(F, 0), 0o777)", "chmod directory": "os.chmod(D, 0o777)",
    "by descriptor": "os.chmod('/proc/self/fd/%d' % os.open(F, 0), 0o777)", "relative": "os.chdir(D); os.chmod('file', 0o777)",
    "by a link": "os.symlink(F, 'l'); os.chmod('l', 0o777)", "from a directory": "os.chmod('file', 0o777, dir_fd=os.open(D, 0))",
    "utime": "os.utime(F, (1, 1))", "futimens": "os.utime(os.open(F, 0), (1, 1))", "chown": "os.chown(F, -1, os.getgid())",
    "fchown": "os.fchown(os.open(F, 0), -1, os.getgid())", "setxattr": "os.setxattr(F, 'user.x', b'y')",
    "fsetxattr": "os.setxattr(os.open(F, 0), 'user.x', b'y')", "removexattr": "os.removexattr(F, 'user.kept')",
    "chattr": "import fcntl; fcntl.ioctl(os.open(F, 0), 0x40086602, b'\\x40\\0\\0\\0\\0\\0\\0\\0')",
    "version": "import fcntl; fcntl.ioctl(os.open(F, 0), 0x40087602, b'\\x39\\x30\\0\\0\\0\\0\\0\\0')",
    "verity": "import fcntl; fcntl.ioctl(os.open(F, 0), 0x40806685, (1).to_bytes(4, 'little') * 2 + (4096).to_bytes(4, 'little') + bytes(116))",
    "encryption": "import fcntl; fcntl.ioctl(os.open(D, 0), 0x800c6613, bytes(12))",
    "subvolume": "import fcntl; fcntl.ioctl(os.open(D, 0), 0x4008941a, b'\\x02' + bytes(7))",
}


@pytest.mark.parametrize("how", ATTRIBUTES)
def test_attributes_outside_stay(python, home, how):
    place = home / "outside"
    place.mkdir(mode=0o750)
    file = place / "file"
    file.write_text("x")
    file.chmod(0o640)
    os.setxattr(file, "user.kept", b"v")
    before = [(os.stat(p).st_mode, os.stat(p).st_mtime_ns, os.stat(p).st_ctime_ns, os.listxattr(p)) for p in (file, place)]
    result = python(f"import os\nF, D = {str(file)!r}, {str(place)!r}\n{ATTRIBUTES[how]}", "--read", str(place))
    assert result.status != 0 and "ermi" in result.errors
    assert before == [(os.stat(p).st_mode, os.stat(p).st_mtime_ns, os.stat(p).st_ctime_ns, os.listxattr(p)) for p in (file, place)]


def test_attributes_of_denied_files_stay(sh, home):
    (home / ".ssh").mkdir(mode=0o700)
    (home / ".ssh/id").write_text("key")
    (home / ".ssh/id").chmod(0o600)
    assert sh(f"chmod 644 {home}/.ssh/id; chmod 755 {home}/.ssh; touch {home}/.ssh/id", "--allow-degraded").status != 0
    assert (home / ".ssh/id").stat().st_mode & 0o777 == 0o600 and (home / ".ssh").stat().st_mode & 0o777 == 0o700


def test_attributes_inside_are_the_programs(sh, python, work):
    sh("touch f; chmod 751 f; touch -d 2001-02-03 f; ln -s f l; touch -h -d 2001-02-03 l; mkdir -p a/b; chmod -R go= a; cp -a f g;"
       " install -m 640 f h; git init -q r; tar cf t f a; tar xpf t -C r", "--allow-degraded").check()
    assert (work / "f").stat().st_mode & 0o777 == 0o751 and (work / "g").stat().st_mtime == (work / "f").stat().st_mtime
    assert (work / "h").stat().st_mode & 0o777 == 0o640 and (work / "l").lstat().st_mtime == (work / "f").stat().st_mtime
    python("""
import os
os.setxattr("f", "user.x", b"y"); fd = os.open("f", os.O_RDONLY); os.setxattr(fd, "user.z", b""); assert os.getxattr("f", "user.x") == b"y"
os.removexattr("f", "user.x"); os.fchmod(fd, 0o700); os.utime(fd, ns=(5, 6)); os.chown("f", -1, os.getgid())
os.chdir("a"); os.chmod("../f", 0o711); os.chmod("b", 0o700, dir_fd=os.open(".", 0))
m = os.memfd_create("x"); os.fchmod(m, 0o700); r, w = os.pipe(); os.fchmod(w, 0o600)
""").check()
    assert (work / "f").stat().st_mtime_ns == 6 and (work / "f").stat().st_mode & 0o777 == 0o711


def test_port_of_the_gateway_elsewhere(python, work):
    """The rule is an address and a port. A server at another address with the gateway's port is another server."""
    result = python("""
import os, socket
port = int(os.environ["HTTP_PROXY"].rsplit(":", 1)[1])
assert socket.create_connection(("127.0.0.1", port), 5)
assert socket.socket(socket.AF_INET6).connect(("::ffff:127.0.0.1", port)) is None
for family, address in (2, "127.0.0.66"), (2, "192.0.2.1"), (10, "::1"), (10, "::ffff:127.0.0.66"), (2, "0.0.0.0"):
    s = socket.socket(family); s.settimeout(5)
    try: s.connect((address, port)); print("connected", address)
    except PermissionError: pass
""", "--allow", "example.com", "--audit", str(work.parent / "audit.jsonl")).check()
    assert result.text == ""
    denied = [r for r in map(json.loads, (work.parent / "audit.jsonl").read_text().splitlines()) if r.get("allowed") is False]
    assert {"127.0.0.66", "192.0.2.1", "::1"} <= {r["domain"] for r in denied}


def test_connections_without_network_are_on_record(python, work):
    audit = work.parent / "audit.jsonl"
    python("import socket; socket.create_connection(('192.0.2.1', 80), 5)", "--mode", "workspace-write", "--audit", str(audit))
    denied = [r for r in map(json.loads, audit.read_text().splitlines()) if r.get("allowed") is False]
    assert [(r["domain"], r["port"], r["reason"]) for r in denied] == [("192.0.2.1", 80, "no-network")]


@pytest.mark.parametrize("place", [".ssh/s", "plain/s", "work/host"])
@pytest.mark.parametrize("link", [False, True])
def test_sockets_of_the_host(python, home, work, place, link):
    import socket
    (home / place).parent.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(home / place))
        server.listen(1)
        server.settimeout(0.2)
        target = home / place
        if link:
            os.symlink(target, work / "link")
            target = work / "link"
        result = python(f"import socket; socket.socket(socket.AF_UNIX).connect({str(target)!r})", "--read", str(home / "plain"))
        assert result.status != 0 and "ermission" in result.errors
        with pytest.raises(TimeoutError):
            server.accept()


def test_socket_that_a_rule_names(python, home):
    import socket
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(home / "s"))
        server.listen(1)
        python(f"import socket; socket.socket(socket.AF_UNIX).connect({str(home / 's')!r})", "--read", str(home / "s")).check()


def test_abstract_sockets(python):
    import socket
    name = f"bailey-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen(1)
        assert python(f"import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}')").status != 0
    python(f"import socket\ns = socket.socket(socket.AF_UNIX); s.bind('\\0{name}'); s.listen()\n"
           f"socket.socket(socket.AF_UNIX).connect('\\0{name}')").check()


def test_own_sockets(python):
    python("""
import multiprocessing.connection as c, os, socket, subprocess, threading
s = socket.socket(socket.AF_UNIX); s.bind("own"); s.listen(1)
a = socket.socket(socket.AF_UNIX); a.connect("own"); s.accept()[0].send(b"x"); assert a.recv(1) == b"x"
os.rename("own", "renamed"); socket.socket(socket.AF_UNIX).connect("renamed")
l = c.Listener("m", authkey=b"k"); threading.Thread(target=lambda: l.accept().send(5)).start()
assert c.Client("m", authkey=b"k").recv() == 5
x, y = socket.socketpair(); x.send(b"z"); assert y.recv(1) == b"z"
s.close()
try: socket.socket(socket.AF_UNIX).connect("renamed"); raise SystemExit("connected")
except ConnectionRefusedError: pass
t = socket.create_server(("127.0.0.1", 0)); assert t.getsockname()[1]
""").check()


@pytest.mark.parametrize("code", [
    "socket.create_server(('0.0.0.0', 0))", "socket.create_server(('', 0))", "socket.create_server(('::', 0), family=socket.AF_INET6)",
    "socket.create_server(('::', 0), family=socket.AF_INET6, dualstack_ipv6=True)", "socket.socket().listen()",
    "socket.socket(socket.AF_INET6).listen()",
])
def test_no_server_for_others(python, code):
    result = python(f"import socket; s = {code}; print('listens')")
    assert result.status != 0 and result.text == "" and "PermissionError" in result.errors


SOCKET_THAT_CHANGES = """
import ctypes, os, socket, struct, threading, time
libc = ctypes.CDLL(None)
port = int(os.environ["HTTP_PROXY"].rsplit(":", 1)[1])
server = socket.socket(); fd = server.fileno(); done = []
gateway, nobody = struct.pack("=H2s4s8x", 2, port.to_bytes(2, "big"), bytes([127, 0, 0, 1])), bytes(16)
def change():
    while not done:
        libc.connect(fd, gateway, 16); libc.connect(fd, nobody, 16)
threading.Thread(target=change).start()
end = time.monotonic() + 2  # without the second look it listens within half a second
while time.monotonic() < end and not done:
    if libc.listen(fd, 1) == 0 and server.getsockname()[0] == "0.0.0.0" and server.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        done.append(1); print("listens everywhere")
done.append(1)
"""


def test_no_server_for_others_by_a_race(python):
    """Connected to the gateway it has an address of loopback; disconnected before it listens it has none."""
    assert python(SOCKET_THAT_CHANGES, "--allow", "example.com").check().text == ""


def test_server_listens_again(python):
    result = python("""
import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(1); s.listen(5)
print(s.getsockopt(socket.SOL_SOCKET, 25, 16))
try: s.setsockopt(socket.SOL_SOCKET, 25, b"\\0"); print("free")
except PermissionError: print("stays")
""").check()
    assert result.text == "b'lo\\x00'\nstays\n"


def test_other_terminals(python, work):
    import pty
    master, slave = pty.openpty()
    try:
        for flags in ("os.O_RDWR", "os.O_RDONLY", "os.O_WRONLY"):
            assert python(f"import os; os.open({os.ttyname(slave)!r}, {flags} | os.O_NOCTTY)").status != 0
    finally:
        os.close(master)
        os.close(slave)


def test_scheduling_of_others(python):
    me = os.getpid()
    before = os.sched_getaffinity(me), os.getpriority(os.PRIO_PROCESS, me)
    python(f"""
import os, threading
calls = [lambda: os.sched_setaffinity({me}, {{0}}), lambda: os.setpriority(os.PRIO_PROCESS, {me}, 19), lambda: os.setpriority(os.PRIO_USER, 0, 19),
         lambda: os.sched_setscheduler({me}, os.SCHED_BATCH, os.sched_param(0))]
for call in calls:
    try: call(); raise SystemExit("changed")
    except PermissionError: pass
os.nice(1); os.sched_setaffinity(0, {{0}}); os.sched_setaffinity(os.getpid(), {{0}}); os.setpriority(os.PRIO_PROCESS, os.getpid(), 19)  # whatever it is now
""").check()
    assert before == (os.sched_getaffinity(me), os.getpriority(os.PRIO_PROCESS, me))


@pytest.mark.parametrize("head", ["before", "after"])
def test_an_old_file_in_a_new_repository(sh, work, home, head):
    """The first run writes what is no repository yet, in a place that the search at launch does not reach. The second makes one of it by
    a rename, which changes no file in it, and removes what kept the search from getting there."""
    for number in range(80):
        (work / f"d{number}/e").mkdir(parents=True)
    sh(f"mkdir -p z/x.d/objects z/x.d/refs z/s; printf '[core]\\n\\tfsmonitor = touch {home}/ran\\n' > z/x.d/config", "--allow-degraded").check()
    time.sleep(0.1)
    name = {"before": "z/x.d/HEAD", "after": "z/s/.git/HEAD"}[head]
    steps = ["mv z/x.d z/s/.git", f"echo 'ref: refs/heads/main' > {name}"]
    sh("rm -r d*; " + "; ".join(steps if head == "after" else reversed(steps)), "--allow-degraded")
    git("status", cwd=work / "z/s")
    assert not (home / "ran").exists()


def test_publish_is_refused(sh, free_port):
    result = sh("true", "--allow-degraded", "--publish", f"{free_port()}:80")
    assert result.status != 0 and "--publish" in result.errors


def test_temporary_files_of_a_killed_run(start, run, work, temporary):
    argv = [program("bailey"), "run", "--allow-degraded", "--", "sh", "-c", "mkdir -p $TMPDIR/deep; echo x > $TMPDIR/deep/f; echo ready; sleep 100"]
    child = start(machine(argv, refuse=NO_NAMESPACES), cwd=work)
    wait_for(lambda: b"ready" in child.output(), "the command")
    (left,) = temporary.glob("bailey-run-*")
    other = [program("bailey"), "run", "--allow-degraded", "--", "true"]
    run(machine(other, refuse=NO_NAMESPACES), cwd=work).check()
    assert left.exists(), "a directory that is in use was removed"
    os.kill(child.process.pid, 9)  # the supervisor alone: init ends the rest
    wait_for(lambda: not run(machine(other, refuse=NO_NAMESPACES), cwd=work).check() or not left.exists(), "the directory to go")


@pytest.mark.exact_build  # a sanitizer's library cannot be loaded into an ordinary interpreter
def test_library_says_what_is_lost(run, work):
    top = BUILD.parent if (BUILD.parent / "bindings").is_dir() else BUILD
    script = """
import bailey
with bailey.Manager(bailey.Config("development")) as m:
    r = m.exec("true")
    print(r.sandboxed, r.notice)
"""
    env = {"PYTHONPATH": str(top / "bindings/python"), "BAILEY_LIBRARY": str(BUILD / "src/api/libbailey.so.0"), "PYTHONDONTWRITEBYTECODE": "1"}
    refuse = [deny("clone3", errno.ENOSYS), deny("clone", errno.EPERM, 0x3E020011)]
    degraded = run(machine([PYTHON, "-c", script], refuse=refuse), cwd=work, env=env, timeout=120).check().text
    assert degraded.startswith("True lost:") and degraded.count("lost:") >= 4
    assert run([PYTHON, "-c", script], cwd=work, env=env, timeout=120).check().text == "True \n"


@pytest.mark.parametrize("policy, named", [
    ({"bridge": {"gh": {"repos": ["github.com/acme/app"]}}}, "bridge"), ({"ssh": {"git": True}}, "ssh.git"),
    ({"ssh": {"hosts": ["build.example.com"], "keys": ["SHA256:" + "a" * 43]}}, "ssh.hosts"), ({"signing": {"gpg": ["AABBCCDD"]}}, "signing"), ({"browser": {"hosts": ["a.example.com"]}}, "browser"),
    ({"ratchet": [{"when": {"read": ["x"]}, "then": {"allow": "none"}}]}, "ratchet"), ({"process": {"nesting": True}}, "nesting"),
    ({"filesystem": {"ask": ["~/docs"]}}, "filesystem.ask"),
])
@pytest.mark.parametrize("place", ["degraded", "container"])
def test_what_cannot_be_given_is_refused_by_name(sh, bailey, home, work, policy, named, place):
    """A policy that is kept in part, and silently, misleads whoever wrote it."""
    file = home / "policy.yaml"
    file.write_text(json.dumps(policy))
    if place == "degraded":
        done = sh("touch ran", "--allow-degraded", "--policy", str(file))
    else:
        done = bailey("run", "--container", "podman", "--policy", str(file), "image", "--", "true", cwd=work)
    assert done.status != 0 and not (work / "ran").exists(), done
    assert named in done.errors and "policy.yaml:1:" in done.errors, done
