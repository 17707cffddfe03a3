# SPDX-License-Identifier: Apache-2.0
"""Unix sockets below Landlock ABI 9: a server outside cannot be connected to, whenever and wherever its socket appears and
however it is spelled; the sandbox's own sockets work as ever."""
import errno
import json
import os
import pathlib
import socket
import sys
import time

import pytest

from conftest import program
from kit import machine as machine_module
from kit.machine import deny, machine

PYTHON = "/usr/bin/python3"
pytestmark = [pytest.mark.visible_home, pytest.mark.real_home, pytest.mark.exact_build]  # a sanitizer changes memory, threads and time: see the unit tests of the broker
OLD_LANDLOCK = pathlib.Path(machine_module.__file__).with_name("old_landlock.py")

# Inside. It says that it runs, waits until the host has opened its sockets, and then tries everything.
STRANGERS = r"""
import ctypes, errno, json, os, pathlib, socket, sys, threading, time
places = json.loads(sys.argv[1])
answers = {}
LIBC = ctypes.CDLL(None, use_errno=True)

def tried(name, do):
    try:
        do()
        answers[name] = "done"
    except OSError as error:
        answers[name] = errno.errorcode.get(error.errno, str(error))

def reach(path, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_UNIX, kind) as s:
        s.settimeout(20)
        s.connect(path)

def listener(path, kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_UNIX, kind)
    s.bind(path)
    s.listen(64)
    return s

own = listener("own.sock")
reused = listener("reused.sock")
os.unlink("reused.sock")  # the host binds this name next, perhaps with the same number
pathlib.Path("ready").touch()
for _ in range(600):
    if os.path.exists("go"):
        break
    time.sleep(0.05)
for name, path in places.items():
    tried(name, lambda: reach(path))
tried("packets", lambda: reach(places["home"] + ".packets", socket.SOCK_SEQPACKET))
tried("nonblocking", lambda: reach(places["home"]))
tried("abstract", lambda: reach("\0" + places["abstract"]))
tried("used name", lambda: reach("reused.sock"))
os.symlink(places["home"], "link")
tried("link", lambda: reach("link"))
top = os.open("/proc/self/root" + os.path.dirname(places["home"]), os.O_PATH)  # an address has room for 107 bytes
tried("own root", lambda: reach(f"/proc/self/fd/{top}/" + os.path.basename(places["home"])))
tried("own directory", lambda: reach("/proc/self/cwd/work.sock"))
directory = os.open(".", os.O_PATH)
tried("open directory", lambda: reach(f"/proc/self/fd/{directory}/work.sock"))
try:
    held = os.open("work.sock", os.O_PATH)
    tried("open socket", lambda: reach(f"/proc/self/fd/{held}"))
except OSError as error:  # where opening is judged too, there is no such descriptor
    assert error.errno == errno.EOPNOTSUPP, error
os.chdir(os.path.dirname(places["home"]))
tried("relative", lambda: reach(os.path.basename(places["home"])))
os.chdir(os.environ["WORK"])
os.link("work.sock", "hard")
tried("hard link", lambda: reach("hard"))
os.rename("work.sock", "moved")
tried("moved", lambda: reach("moved"))
again = listener("replaced")
os.rename("moved", "replaced")
tried("in the place of our own", lambda: reach("replaced"))
again.listen(5)  # its file is gone; what has its name now is not its file
tried("listened again", lambda: reach("replaced"))
for kind, name in ((socket.SOCK_DGRAM, "datagrams"), (socket.SOCK_RAW, "raw"), (socket.SOCK_DGRAM | 1 << 33, "datagrams with high bits")):
    number = {"aarch64": (198, 199), "x86_64": (41, 53)}[os.uname().machine]
    pair = (ctypes.c_int * 2)()
    for call, words, what in ((number[0], (1, kind, 0), name), (number[1], (1, kind, 0, ctypes.byref(pair)), name + ", a pair")):
        ctypes.set_errno(0)
        r = LIBC.syscall(ctypes.c_long(call), *[ctypes.c_long(w) if isinstance(w, int) else w for w in words])
        answers[what] = "done" if r >= 0 else errno.errorcode[ctypes.get_errno()]
        if r >= 0 and what.endswith("pair"):  # such a pair is one of packet sockets, which send to nobody else
            ends = [socket.socket(fileno=end) for end in pair]
            if all(end.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_SEQPACKET for end in ends):
                del answers[what]

# A second thread changes what the call is about while it is under way: the address, the link, the descriptor.
stop = False
def swap_links():
    while not stop:
        for target in ("own.sock", places["home"]):
            os.symlink(target, "next")
            os.rename("next", "turn")
def address_of(path):
    return b"\1\0" + path.encode() + b"\0"
good, bad = address_of(os.environ["WORK"] + "/own.sock"), address_of(places["home"])
size = max(len(good), len(bad))
good, bad = good.ljust(size, b"\0"), bad.ljust(size, b"\0")
memory = ctypes.create_string_buffer(good, size)
def swap_bytes():
    while not stop:
        ctypes.memmove(memory, bad, size)
        ctypes.memmove(memory, good, size)
def accept():
    while True:
        try:
            own.accept()[0].close()
        except OSError:
            return
os.symlink("own.sock", "turn")
threads = [threading.Thread(target=f) for f in (swap_links, swap_bytes)]
server = threading.Thread(target=accept, daemon=True)
for t in (*threads, server):
    t.start()
reached = 0
for i in range(600):
    try:
        reach("turn")
        reached += 1
    except OSError:
        pass
    with socket.socket(socket.AF_UNIX) as s:
        reached += LIBC.connect(s.fileno(), memory, size) == 0
stop = True
for t in threads:
    t.join()
answers["reached our own meanwhile"] = reached > 0
print(json.dumps(answers), flush=True)
os._exit(0)
"""
REFUSED = {"EACCES", "ECONNREFUSED", "ENOENT", "ENOTDIR"}


class Host:
    """Servers outside, opened when the sandbox runs already. Whoever gets through is counted."""

    def __init__(self):
        self.servers = []

    def listen(self, address, kind=socket.SOCK_STREAM):
        s = socket.socket(socket.AF_UNIX, kind)
        s.bind(address)
        s.listen(64)
        s.settimeout(0)
        if not address.startswith("\0"):
            os.chmod(address, 0o777)
        self.servers.append(s)

    def visitors(self):
        n = 0
        for s in self.servers:
            try:
                while True:
                    s.accept()[0].close()
                    n += 1
            except BlockingIOError:
                pass
        return n

    def close(self):
        for s in self.servers:
            s.close()


@pytest.fixture
def host():
    h = Host()
    yield h
    h.close()


def wait_for(path, child):
    for _ in range(1200):
        if path.exists():
            return
        assert child.process.poll() is None, child.wait()
        time.sleep(0.05)
    raise AssertionError(f"{path} did not appear")


KERNELS = {
    "this": lambda argv: argv,
    "no-openat2": lambda argv: machine(argv, refuse=[deny("openat2", errno.ENOSYS)]),
    "with-globs": lambda argv: [*argv[:2], "--deny-read", "**/*.pem", *argv[2:]],
    "traced": lambda argv: [*argv[:2], "--trace-denials", *argv[2:]],
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_late_sockets_of_the_host_are_out_of_reach(kernel, home, tmp_path, host, start):
    work = home / "work"
    work.mkdir()
    name = f"bailey-late-{os.getpid()}"
    places = {"home": str(home / "late.sock"), "workspace": str(work / "work.sock"), "granted directory in /tmp": str(tmp_path / "late.sock"),
              "abstract": name}
    argv = [program("bailey"), "run", "--read", str(tmp_path), "--env", f"WORK={work}", "--",
            PYTHON, "-c", STRANGERS, json.dumps({k: v for k, v in places.items()})]
    child = start(KERNELS[kernel]([str(word) for word in argv]), cwd=work)
    wait_for(work / "ready", child)
    for address in (places["home"], places["workspace"], places["granted directory in /tmp"], "\0" + name, str(work / "reused.sock")):
        host.listen(address)
    host.listen(places["home"] + ".packets", socket.SOCK_SEQPACKET)
    (work / "go").touch()
    result = child.wait(120)
    assert result.status == 0, result
    answers = json.loads(result.text)
    assert answers.pop("reached our own meanwhile"), "nothing was tried while names changed"
    answers.pop("abstract", None)  # as a path: there is none
    wrong = {k: v for k, v in answers.items() if v not in (REFUSED | {"EPERM"} if "datagrams" in k or "raw" in k else REFUSED)}
    assert not wrong, wrong
    assert host.visitors() == 0
    assert f"connecting to {places['home']}" in result.errors and "a program outside listens there" in result.errors


OWN = r"""
import asyncio, ctypes, errno, multiprocessing, os, socket, subprocess, sys, tempfile, threading, time
from multiprocessing.connection import Client, Listener

def serve_once(s):
    a, _ = s.accept()
    a.sendall(b"hello")
    a.close()

def check(kind, address, spelled=None):
    with socket.socket(socket.AF_UNIX, kind) as s, socket.socket(socket.AF_UNIX, kind) as c:
        s.bind(address)
        s.listen(1)
        assert s.getsockname() == address, s.getsockname()
        t = threading.Thread(target=serve_once, args=(s,))
        t.start()
        c.settimeout(20)
        c.connect(spelled or address)
        assert c.recv(5) == b"hello"
        t.join()

for where in (os.environ["WORK"], "/tmp", "/run", "/dev/shm"):
    check(socket.SOCK_STREAM, where + "/s")
    check(socket.SOCK_SEQPACKET, where + "/p")
os.chdir(os.environ["WORK"])
check(socket.SOCK_STREAM, "relative")
check(socket.SOCK_STREAM, "again", "/proc/self/cwd/again")
os.makedirs("x" * 100 + "/" + "y" * 100)
fd = os.open("x" * 100 + "/" + "y" * 100, os.O_PATH)
check(socket.SOCK_STREAM, f"/proc/self/fd/{fd}/long")
check(socket.SOCK_STREAM, b"\0name")
os.symlink("relative2", "to")
check(socket.SOCK_STREAM, "relative2", "to")

def refused(address, *expected):
    with socket.socket(socket.AF_UNIX) as c:
        try:
            c.connect(address)
        except OSError as error:
            assert errno.errorcode[error.errno] in expected, (address, error)
            return
    raise AssertionError(address)
refused("relative", "ECONNREFUSED")  # its server is gone
refused("missing", "ENOENT")
open("plain", "w").close()
refused("plain", "ECONNREFUSED")
with socket.socket(socket.AF_UNIX) as bound:
    bound.bind("bound")
    refused("bound", "EACCES", "ECONNREFUSED")  # nobody listens yet
libc = ctypes.CDLL(None, use_errno=True)
with socket.socket(socket.AF_UNIX) as c, socket.socket() as tcp:
    for s, address, size, expected in ((c, 8, 110, errno.EFAULT), (c, 8, 1000, errno.EINVAL), (c, 8, -1, errno.EINVAL), (tcp, 8, 16, errno.EFAULT)):
        assert libc.connect(s.fileno(), ctypes.c_void_p(address), size) == -1 and ctypes.get_errno() == expected, ctypes.get_errno()
assert libc.connect(999, ctypes.create_string_buffer(16), 16) == -1 and ctypes.get_errno() == errno.EBADF
assert libc.connect(os.open("plain", os.O_RDONLY), ctypes.create_string_buffer(16), 16) == -1 and ctypes.get_errno() == errno.ENOTSOCK

# A call that waits holds up nobody: a full queue here, a connection there.
with socket.socket(socket.AF_UNIX) as full:
    full.bind("full")
    full.listen(0)
    waiting = [socket.socket(socket.AF_UNIX) for _ in range(8)]
    threads = [threading.Thread(target=s.connect, args=("full",)) for s in waiting]
    for t in threads:
        t.start()
    while sum(t.is_alive() for t in threads) > 7:
        time.sleep(0.01)
    check(socket.SOCK_STREAM, "beside")
    with socket.socket(socket.AF_UNIX) as c:
        c.setblocking(False)
        assert c.connect_ex("full") == errno.EAGAIN
    for _ in threads:
        full.accept()[0].close()
    for t in threads:
        t.join()

# Programs as they are: not dumpable, with a manager process, with an event loop.
pid = os.fork()
if pid == 0:
    libc.prctl(4, 0, 0, 0, 0)
    try:
        check(socket.SOCK_STREAM, "quiet")
        os.close(os.open("plain", os.O_RDONLY, dir_fd=os.open(".", os.O_RDONLY)))
        os._exit(0)
    finally:
        os._exit(1)
assert os.waitpid(pid, 0)[1] == 0
with multiprocessing.Manager() as manager:
    assert manager.list([1, 2])[1] == 2
with Listener(family="AF_UNIX") as l:
    t = threading.Thread(target=lambda: l.accept().send("x"))
    t.start()
    assert Client(l.address).recv() == "x"
    t.join()
async def events():
    server = await asyncio.start_unix_server(lambda r, w: (w.write(b"hi\n"), w.close()), "loop.sock")
    for _ in range(50):
        r, w = await asyncio.open_unix_connection("loop.sock")
        assert await r.readline() == b"hi\n"
        w.close()
    server.close()
asyncio.run(events())
tcp = socket.create_server(("127.0.0.1", 0))
for _ in range(200):
    with socket.create_connection(tcp.getsockname()) as c:
        tcp.accept()[0].close()
# Many listeners, more than are remembered at once.
for i in range(5000):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("many")
        s.listen(1)
        os.unlink("many")
check(socket.SOCK_STREAM, "after many")
print("fine")
"""


@pytest.mark.parametrize("kernel", KERNELS)
def test_own_sockets_work(kernel, home, start):
    argv = [program("bailey"), "run", "--env", f"WORK={home}", "--", PYTHON, "-c", OWN]
    result = start(KERNELS[kernel]([str(word) for word in argv]), cwd=home).wait(120)
    assert result.status == 0 and result.text == "fine\n", result


def test_a_socket_that_a_rule_names_can_be_reached(home, host, start):
    (home / "work").mkdir()
    host.listen(str(home / "granted"))
    host.listen(str(home / "other"))
    code = "import socket, sys\nfor p in sys.argv[1:]:\n    print(socket.socket(socket.AF_UNIX).connect_ex(p))"
    result = start([program("bailey"), "run", "--read", home / "granted", "--", PYTHON, "-c", code, home / "granted", home / "other"],
                   cwd=home / "work").wait(60)
    assert result.status == 0, result
    granted, other = map(int, result.text.split())
    assert granted == 0 and other in (errno.EACCES, errno.ECONNREFUSED, errno.ENOENT)
    assert host.visitors() == 1


def test_sockets_of_other_sandboxes_are_hidden_as_a_whole(home, host, bailey):
    """Their directory is masked, not each of them; a name that leads out of it is judged by where it leads."""
    controls = home / ".run/bailey"
    controls.mkdir(parents=True, mode=0o700)
    (home / "work").mkdir()
    host.listen(str(controls / "another.sock"))
    host.listen(f"{controls}/../../beside")
    shown = bailey("plan", "--workspace", str(home / "work"), "--", "true").check().text
    assert f"over {controls}\n" in shown and "another.sock" not in shown, shown
    assert f"over {home}/beside\n" in shown, shown


LESS = {
    "no-pidfd-getfd": lambda argv: machine(argv, refuse=[deny("pidfd_getfd", errno.ENOSYS)]),
    "listener-taken": lambda argv: [sys.executable, OLD_LANDLOCK, "1", *argv],
}


@pytest.mark.parametrize("kernel", LESS)
def test_where_nobody_can_be_asked_there_are_only_pairs(kernel, home, start):
    """An old kernel, or a filter above that has the one listener: closed, not open."""
    code = "import socket\nsocket.socketpair()\nsocket.create_server(('127.0.0.1', 0)).close()\nsocket.socket(socket.AF_UNIX)"
    result = start(LESS[kernel]([program("bailey"), "run", "--", PYTHON, "-c", code]), cwd=home).wait(60)
    assert result.status == 1 and "Operation not permitted" in result.errors, result


def refused_inheritance(start, home, inherited, message):
    """bailey run with the descriptor as its standard input: it says why not, and nothing has run."""
    argv = [PYTHON, "-c", "import os, sys\nos.dup2(int(sys.argv[1]), 0)\nos.execv(sys.argv[2], sys.argv[2:])",
            str(inherited), str(program("bailey")), "run", "--", "touch", "ran"]
    result = start(argv, cwd=home, pass_fds=(inherited,)).wait(60)
    assert result.status not in (0, 1) and message in result.errors, result
    assert not (home / "ran").exists()


def test_a_socket_that_reaches_anybody_is_no_standard_input(home, start):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        refused_inheritance(start, home, theirs.fileno(), "datagram socket")
    with socket.socket(socket.AF_UNIX) as unconnected:
        refused_inheritance(start, home, unconnected.fileno(), "without a peer")


def test_a_socket_of_the_hosts_network_is_no_standard_input(home, start):
    """It could be disconnected, and connected to any other place that the host reaches."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        refused_inheritance(start, home, client.fileno(), "the host's network")
        refused_inheritance(start, home, server.fileno(), "the host's network")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        refused_inheritance(start, home, udp.fileno(), "the host's network")


def test_a_directory_is_no_standard_input(home, start):
    """Below it, and above it, there is no mask: cat /proc/self/fd/0/../.ssh/id_rsa."""
    (home / "directory").mkdir()
    for flags in (os.O_RDONLY, os.O_PATH):
        directory = os.open(home / "directory", flags)
        refused_inheritance(start, home, directory, "a directory")
        os.close(directory)


def test_a_connected_pair_is_standard_input(home, start):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        argv = [PYTHON, "-c", "import os, sys\nos.dup2(int(sys.argv[1]), 0)\nos.execv(sys.argv[2], sys.argv[2:])",
                str(theirs.fileno()), str(program("bailey")), "run", "--", "head", "-c", "5"]
        ours.sendall(b"hello")
        result = start(argv, cwd=home, pass_fds=(theirs.fileno(),)).wait(60)
    assert result.status == 0 and result.text == "hello", result


PAIRS = r"""
import os, socket
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
a.send(b"one"); a.send(b""), a.send(b"three"); print(b.recv(9), b.recv(9), b.recv(9), a.get_inheritable())
if os.fork() == 0:
    b.send(b"from a child"); os._exit(0)
os.wait(); print(a.recv(99))
try:
    a.sendto(b"out", os.environ["HOST"])
except OSError:
    pass
try:
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); print("a socket")
except PermissionError:
    print("refused")
"""


def test_pairs_of_datagram_sockets_stay_among_themselves(bailey, work, home):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as host:
        host.bind(str(work / "host"))
        host.settimeout(0.2)
        for options in ([], ["--trace-denials"], ["--deny-read", "**/.env"]):
            result = bailey("run", *options, "--env", f"HOST={work}/host", "--", "/usr/bin/python3", "-c", PAIRS, cwd=work)
            assert result.text == "b'one' b'' b'three' False\nb'from a child'\nrefused\n", result
        with pytest.raises(TimeoutError):
            host.recv(10)


def test_socat_listens(bailey, work):
    script = """socat TCP-LISTEN:8766,fork,reuseaddr EXEC:cat & for i in $(seq 100); do echo hello | socat - TCP:127.0.0.1:8766 2>/dev/null && break; sleep 0.05; done
        kill $!"""
    assert bailey("run", "-q", "--", "sh", "-c", script, cwd=work).text == "hello\n"
