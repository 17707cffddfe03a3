# SPDX-License-Identifier: Apache-2.0
"""Unix sockets below Landlock ABI 9: a server outside cannot be connected to, whenever and wherever its socket appears and
however it is spelled; the sandbox's own sockets work as ever."""
import contextlib
import errno
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

import pytest

from conftest import program
from kit import machine as machine_module
from kit.machine import NO_CLONE3, deny, machine
from kit.process import SLOW, wait_until

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
        elif r >= 0:  # and one alone can only receive: see test_late_datagram_sockets_of_the_host_are_out_of_reach
            with socket.socket(fileno=r) as alone:
                tried(what, lambda: alone.sendmsg([b"x"], [], 0, places["home"]))

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
NETLINK_SOCK_DIAG = 4
LISTS = {"asked": lambda argv: argv, "read": lambda argv: machine(argv, refuse=[deny("socket", errno.EPROTONOSUPPORT, NETLINK_SOCK_DIAG, at=2)])}


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
    wrong = {k: v for k, v in answers.items() if v not in (REFUSED | {"EPIPE"} if "datagrams" in k or "raw" in k else REFUSED)}
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
# Many listeners, more than the 4,096 that are remembered at once; in memory, where a name costs less than on a disk.
for i in range(4200):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("/dev/shm/many")
        s.listen(1)
        os.unlink("/dev/shm/many")
check(socket.SOCK_STREAM, "after many")
print("fine")
"""


@pytest.mark.parametrize("kernel", KERNELS)
def test_own_sockets_work(kernel, home, start):
    argv = [program("bailey"), "run", "--env", f"WORK={home}", "--", PYTHON, "-c", OWN]
    result = start(KERNELS[kernel]([str(word) for word in argv]), cwd=home).wait(120)
    assert result.status == 0 and result.text == "fine\n", result


MASKED = "import os, sys, stat\nfor path in sys.argv[1:]: print(os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode))"


@pytest.mark.parametrize("kinds", LISTS)
def test_sockets_of_the_host_are_masked(kinds, home, tmp_path, host, start):
    """Those that are there at launch, of every kind, however many connections they have; and the kernel lists or tells them."""
    (home / "work").mkdir()
    paths = [str(tmp_path / name) for name in ("stream", "packets", "a name\twith blanks", "datagrams")]
    for path, kind in zip(paths[:3], (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_STREAM)):
        host.listen(path, kind)
    with socket.socket(socket.AF_UNIX) as client, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        client.connect(paths[0])
        datagrams.bind(paths[3])
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(paths[3])  # and the receiver counts as connected from then on
        argv = [program("bailey"), "run", "--read", str(tmp_path), "--", PYTHON, "-c", MASKED, *paths]
        result = start(LISTS[kinds]([str(word) for word in argv]), cwd=home / "work").wait(60)
    assert result.status == 0 and result.text == "False\n" * 4, result


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


LISTENER = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen(9)\nprint('up', flush=True)\nwhile True: s.accept()[0].sendall(b'x')"


@pytest.mark.parametrize("form", [[], ["--allow-degraded"]], ids=["usual", "degraded"])
def test_a_socket_that_a_rule_names_may_listen_in_another_network(form, home, start, work):
    """As that of a container engine without root does. The kernel does not list it here, unless somebody is connected to it just now."""
    away = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    server = start([*away, PYTHON, "-c", LISTENER, home / "granted"])
    wait_until(lambda: b"up" in server.output(), 60 * SLOW, "the listener")
    code = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\nprint(s.recv(1))"
    argv = [str(word) for word in (program("bailey"), "run", *form, "--read", home / "granted", "--", PYTHON, "-c", code, home / "granted")]
    if form:
        argv = machine(argv, refuse=[deny("clone3", NO_CLONE3), deny("clone", errno.EPERM, 0x3E020011)])  # no namespaces
    result = start(argv, cwd=work).wait(60)
    assert result.status == 0 and result.text == "b'x'\n", result


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
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"out", os.environ["HOST"]); print("sent")
except OSError:
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


OWN_DATAGRAMS = r"""
import asyncio, errno, logging, logging.handlers, os, selectors, socket, subprocess, sys, threading, time

def datagram(name=None, flags=0):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | flags)
    s.settimeout(0 if flags else 20)
    if name:
        s.bind(name)
    return s

def fails(code, act):
    try:
        act()
    except OSError as error:
        assert errno.errorcode[error.errno] == code, error
        return
    raise AssertionError(code)

def talk(server_name, client_name):
    with datagram(server_name) as server, datagram(client_name) as client, datagram() as nobody:
        assert server.getsockname() == server_name
        nobody.sendto(b"from nobody", server_name)
        data, sender = server.recvfrom(100)
        assert (data, sender) == (b"from nobody", None)
        for n in range(3):  # whoever has a name is answered, by a name that leads to it
            client.sendto(b"question %d" % n, server_name)
            data, sender = server.recvfrom(100)
            assert data == b"question %d" % n and sender, sender
            server.sendto(b"answer %d" % n, sender)
            assert client.recv(100) == b"answer %d" % n
        for size in (0, 1, 65536, 200000):
            nobody.sendto(b"x" * size, server_name)
            assert len(server.recv(300000)) == size
        fails("EMSGSIZE", lambda: nobody.sendto(b"x" * 300000, server_name))
        with datagram() as one, datagram(client_name + "2" if isinstance(client_name, str) else client_name + b"2") as two:
            for s in (one, two):
                s.connect(server_name)
                s.send(b"sent"); os.write(s.fileno(), b"written"); s.sendmsg([b"in ", b"parts"])
                assert [server.recv(100) for _ in range(3)] == [b"sent", b"written", b"in parts"]
            two.send(b"and answer")
            data, sender = server.recvfrom(100)
            server.sendto(b"yes", sender)
            assert data == b"and answer" and two.recv(100) == b"yes"
            with datagram() as third:
                third.connect(sender)  # such a name can be connected to
                third.send(b"hello"); assert two.recv(100) == b"hello"

os.chdir(os.environ["WORK"])
for n, where in enumerate((os.environ["WORK"], "/tmp", "/run", "/dev/shm")):
    talk(f"{where}/s{n}", f"{where}/c{n}")
talk("relative", "relative-client")
talk(b"\0abstract", b"\0abstract-client")
os.symlink("linked-to", "link")
with datagram("linked-to") as server, datagram() as client:
    client.sendto(b"by a link", "link"); assert server.recv(100) == b"by a link"
fails("ECONNREFUSED", lambda: datagram().sendto(b"x", "linked-to"))
fails("ENOENT", lambda: datagram().sendto(b"x", "missing"))
fails("ECONNREFUSED", lambda: datagram().connect("linked-to"))
fails("EADDRINUSE", lambda: datagram("linked-to"))
stream = socket.socket(socket.AF_UNIX); stream.bind("stream"); stream.listen(1)
fails("EPROTOTYPE", lambda: datagram().sendto(b"x", "stream"))
fails("EPROTOTYPE", lambda: datagram().connect("stream"))

# A full queue: who may not wait hears it, who waits goes on when there is room.
with datagram("full") as server, datagram(None, socket.SOCK_NONBLOCK) as hurry, datagram() as patient:
    sent = 0
    try:
        while True:
            hurry.sendto(b"%d" % sent, "full"); sent += 1
    except BlockingIOError:
        pass
    assert sent > 0
    t = threading.Thread(target=lambda: patient.sendto(b"last", "full"))
    t.start()
    assert [server.recv(100) for _ in range(sent)] == [b"%d" % n for n in range(sent)] and server.recv(100) == b"last"
    t.join()

# As programs do: a log, an event loop, another process, a selector.
with datagram("log") as log:
    handler = logging.handlers.SysLogHandler("log")
    for n in range(20):
        handler.emit(logging.makeLogRecord({"msg": f"line {n}"}))
        assert log.recv(100).endswith(b"line %d\0" % n)
    code = "import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b'a child', 'log')"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert log.recv(100) == b"a child"
    chosen = selectors.DefaultSelector()
    chosen.register(log, selectors.EVENT_READ)
    assert chosen.select(0) == []
    datagram().sendto(b"x", "log")
    assert chosen.select(20)

class Protocol(asyncio.DatagramProtocol):
    def connection_made(self, transport): self.transport = transport
    def datagram_received(self, data, sender): self.transport.sendto(data.upper(), sender)
class Client(asyncio.DatagramProtocol):
    def __init__(self): self.got = asyncio.get_running_loop().create_future()
    def connection_made(self, transport): transport.sendto(b"quiet")
    def datagram_received(self, data, sender): self.got.set_result(data)
async def events():
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(Protocol, local_addr="loop", family=socket.AF_UNIX)
    _, client = await loop.create_datagram_endpoint(Client, local_addr="loop-client", remote_addr="loop", family=socket.AF_UNIX)
    assert await asyncio.wait_for(client.got, 20) == b"QUIET"
asyncio.run(events())
for _ in range(200):  # those that have ended make room
    with datagram("many") as server, datagram("many-client") as client:
        client.connect("many"); client.send(b"x"); assert server.recv(9) == b"x"
    os.unlink("many"); os.unlink("many-client")
for _ in range(300):  # whoever closes a socket has closed it, whatever Bailey had to do with it
    with datagram("short") as server, datagram("short-client") as client:
        client.sendto(b"x", "short"); assert server.recv(9) == b"x"
    for name in ("short", "short-client"):
        fails("ECONNREFUSED", lambda: datagram().sendto(b"x", name))
        os.unlink(name)
last = datagram()
assert not os.get_inheritable(last.fileno())
print("fine")
"""


@pytest.mark.parametrize("kernel", KERNELS)
def test_own_datagram_sockets_work(kernel, home, start):
    argv = [program("bailey"), "run", "--env", f"WORK={home}", "--", PYTHON, "-c", OWN_DATAGRAMS]
    result = start(KERNELS[kernel]([str(word) for word in argv]), cwd=home).wait(120 * SLOW)
    assert result.status == 0 and result.text == "fine\n", result


def test_datagram_sockets_work_where_nothing_is_written(home, bailey):
    code = """import socket
s, c = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
s.bind("/tmp/s"); c.sendto(b"x", "/tmp/s"); print(s.recv(9))
try: c.bind("here"); print("bound")
except OSError as error: print(error.strerror)"""
    result = bailey("run", "--mode", "read-only", "--", PYTHON, "-c", code, cwd=home).check()
    assert result.text == "b'x'\nRead-only file system\n"


# Every way to send, by every name; then with the address, the link and the descriptor changing meanwhile.
STRANGE_DATAGRAMS = r"""
import array, ctypes, errno, json, os, pathlib, socket, sys, threading, time
places = json.loads(sys.argv[1])
LIBC = ctypes.CDLL(None, use_errno=True)
answers = {}

def tried(name, act):
    try:
        act()
        answers[name] = "done"
    except OSError as error:
        answers[name] = errno.errorcode.get(error.errno, str(error))

def datagram(name=None):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    if name:
        s.bind(name)
    return s

def connected(path):
    s = datagram(); s.connect(path); s.send(b"evil")

def passed(path):
    a, b = socket.socketpair()
    s = datagram()
    socket.send_fds(a, [b"x"], [s.fileno()])
    socket.socket(fileno=socket.recv_fds(b, 1, 1)[1][0]).sendmsg([b"evil"], [], 0, path)

def many(path):
    libc, raw = LIBC, (b"\1\0" + path.encode() + b"\0")
    name = ctypes.create_string_buffer(raw, len(raw)); data = ctypes.create_string_buffer(b"evil")
    iov = (ctypes.c_void_p * 2)(ctypes.addressof(data), 4)
    class H(ctypes.Structure):
        _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint), ("iov", ctypes.c_void_p), ("iovlen", ctypes.c_size_t),
                    ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t), ("flags", ctypes.c_int), ("sent", ctypes.c_uint)]
    h = H(ctypes.addressof(name), len(raw), ctypes.addressof(iov), 1, None, 0, 0, 0)
    with datagram() as s:
        if libc.sendmmsg(s.fileno(), ctypes.byref(h), 1, 0) < 0:
            raise OSError(ctypes.get_errno(), "sendmmsg")

def again(path):  # nothing makes it able to send
    s = datagram("again"); os.unlink("again")
    own = datagram("again-own")
    for act in (lambda: s.connect("again-own"), lambda: s.shutdown(socket.SHUT_RD), lambda: LIBC.connect(s.fileno(), b"\0\0" + b"\0" * 14, 16)):
        try: act()
        except OSError: pass
    os.unlink("again-own")
    t = datagram("again2"); os.unlink("again2")
    LIBC.connect(t.fileno(), b"\0\0" + b"\0" * 14, 16)
    try: t.shutdown(socket.SHUT_RD)
    except OSError: pass
    t.sendmsg([b"evil"], [], 0, path)

own = datagram("own"); own.setblocking(False)
pathlib.Path("ready").touch()
for _ in range(600):
    if os.path.exists("go"): break
    time.sleep(0.05)
for name, path in places.items():
    os.path.lexists("link") and os.unlink("link")
    os.symlink(path, "link")
    tried(name + ": sendto", lambda: datagram().sendto(b"evil", path))
    tried(name + ": from a name", lambda: datagram("from" + name.replace(" ", "").replace("/", "")).sendto(b"evil", path))
    tried(name + ": sendmsg", lambda: datagram().sendmsg([b"evil"], [], 0, path))
    tried(name + ": connect", lambda: connected(path))
    tried(name + ": passed", lambda: passed(path))
    tried(name + ": sendmmsg", lambda: many(path))
    tried(name + ": again", lambda: again(path))
    tried(name + ": link", lambda: datagram().sendto(b"evil", "link"))
    tried(name + ": link, connected", lambda: connected("link"))
os.link(places["workspace"], "hard")
tried("hard link", lambda: datagram().sendto(b"evil", "hard"))
stop = False
def swap_links():
    while not stop:
        for target in ("own", places["home"]):
            os.symlink(target, "next"); os.rename("next", "turn")
good, bad = (b"\1\0" + p.encode() for p in (os.environ["WORK"] + "/own", places["home"]))
size = max(len(good), len(bad)) + 1
memory = ctypes.create_string_buffer(good.ljust(size, b"\0"), size)
def swap_bytes():
    while not stop:
        ctypes.memmove(memory, bad.ljust(size, b"\0"), size); ctypes.memmove(memory, good.ljust(size, b"\0"), size)
plain, alone = socket.socketpair()[0], datagram()
number = os.dup(alone.fileno())
def swap_descriptors():
    while not stop:
        os.dup2(plain.fileno(), number); os.dup2(alone.fileno(), number)
os.symlink("own", "turn")
threads = [threading.Thread(target=f) for f in (swap_links, swap_bytes, swap_descriptors)]
for t in threads: t.start()
sender, reached = datagram(), 0
for i in range(500):
    for act in (lambda: sender.sendto(b"x", "turn"), lambda: LIBC.sendto(sender.fileno(), b"x", 1, 0, memory, size),
                lambda: LIBC.sendto(number, b"x", 1, 0x40, memory, size)):
        try: act()
        except OSError: pass
    try:
        while True: own.recv(9); reached += 1
    except BlockingIOError: pass
stop = True
for t in threads: t.join()
answers["reached our own meanwhile"] = reached > 0
print(json.dumps(answers))
"""


@pytest.mark.parametrize("kernel", KERNELS)
def test_late_datagram_sockets_of_the_host_are_out_of_reach(kernel, home, tmp_path, start):
    work = home / "work"
    work.mkdir()
    places = {"home": str(home / "late.sock"), "workspace": str(work / "work.sock"), "granted directory in /tmp": str(tmp_path / "late.sock")}
    name = f"\0bailey-datagrams-{os.getpid()}"
    argv = [program("bailey"), "run", "--read", str(tmp_path), "--env", f"WORK={work}", "--", PYTHON, "-c", STRANGE_DATAGRAMS, json.dumps(places)]
    child = start(KERNELS[kernel]([str(word) for word in argv]), cwd=work)
    wait_for(work / "ready", child)
    servers = [socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(4)]
    with contextlib.ExitStack() as closing:
        for server, address in zip(servers, (*places.values(), name)):
            closing.enter_context(server).bind(address)
            server.setblocking(False)
        for path in places.values():
            os.chmod(path, 0o777)
        (work / "go").touch()
        result = child.wait(60)
        assert result.status == 0, result
        answers = json.loads(result.text)
        assert answers.pop("reached our own meanwhile"), "nothing was tried while names changed"
        assert len(answers) == 28 and not {k: v for k, v in answers.items() if v not in REFUSED | {"EPIPE"}}, answers
        for server in servers:
            with pytest.raises(BlockingIOError):
                server.recv(10)
    assert places["home"] in result.errors, result


FULL_HOUSE = """
import errno, os, socket, threading
full, refused = socket.socket(socket.AF_UNIX), threading.Event()
full.bind("full"); full.listen(0)
def wait():
    try: socket.socket(socket.AF_UNIX).connect("full")
    except OSError as e:
        if e.errno == errno.EAGAIN: refused.set()
for _ in range(600):
    if refused.wait(0.002): break
    threading.Thread(target=wait, daemon=True).start()
assert refused.wait(30), "somebody could wait for all of them"
server = socket.create_server(("127.0.0.1", 0))
for _ in range(20):
    client = socket.create_connection(server.getsockname(), timeout=None)
    client.sendall(b"x"); assert server.accept()[0].recv(1) == b"x" and client.getblocking()
soon = socket.socket(); soon.setblocking(False)
assert soon.connect_ex(server.getsockname()) in (0, errno.EINPROGRESS)
server.accept()
gone = server.getsockname(); server.close()
assert socket.socket().connect_ex(gone) == errno.ECONNREFUSED
print("made", flush=True)
os._exit(0)
"""


def test_connections_when_everybody_waits(bailey, work):
    """Hundreds of callers wait for a server inside that accepts nobody. Who connects elsewhere is served all the same."""
    result = bailey("run", "--quiet", "--", sys.executable, "-c", FULL_HOUSE, cwd=work, timeout=120)
    assert result.text == "made\n", result


# What connect() says inside, step by step, with nobody judging and with a broker in between.
BY_IP = r"""
import errno, fcntl, os, select, socket, struct, threading, time
said = []
def say(what, value):
    said.append(f"{what}: {errno.errorcode.get(value, value) if isinstance(value, int) and not isinstance(value, bool) else value}")

for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    server = socket.create_server((host, 0), family=family, backlog=0)
    to = server.getsockname()
    one = socket.socket(family)
    say("first", one.connect_ex(to)); say("again", one.connect_ex(to)); say("waits", one.getblocking())
    server.accept()[0].sendall(b"x"); say("byte", one.recv(1))
    soon = socket.socket(family); soon.setblocking(False)
    soon.connect_ex(to); select.select([], [soon], [], 20)
    say("soon", soon.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)); say("soon waits", soon.getblocking())
    kept = [soon] # the queue has room for one, and it is taken
    for _ in range(3):
        more = socket.socket(family); more.setblocking(False); more.connect_ex(to); kept.append(more)
    late, results = socket.socket(family), []
    waiting = threading.Thread(target=lambda: results.append(late.connect_ex(to)))
    waiting.start(); waiting.join(0.3); say("queue is full", results)
    open("meanwhile", "w").close(); os.unlink("meanwhile"); socket.create_server((host, 0), family=family)
    server.settimeout(0.2)
    for _ in range(200):
        try: server.accept()
        except TimeoutError: pass
        if not waiting.is_alive(): break
    waiting.join(20); say("at last", results); say("late waits", late.getblocking())
    short = socket.socket(family)
    short.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 200000))
    for _ in range(3):
        more = socket.socket(family); more.setblocking(False); more.connect_ex(to); kept.append(more)
    say("time is over", short.connect_ex(to))
    for s in kept: s.close()
    server.close()
    say("nobody", socket.socket(family).connect_ex(to))
    udp = socket.socket(family, socket.SOCK_DGRAM); say("udp", udp.connect_ex(to))
print("\n".join(said))
"""


def test_connections_by_ip_as_without_a_broker(bailey, work):
    outside = subprocess.run([sys.executable, "-c", BY_IP], cwd=work, capture_output=True, text=True, timeout=120 * SLOW, check=True)
    assert "first: 0" in outside.stdout and "queue is full: []" in outside.stdout and "at last: [0]" in outside.stdout, outside.stdout
    assert "time is over: EINPROGRESS" in outside.stdout and "nobody: ECONNREFUSED" in outside.stdout, outside.stdout
    result = bailey("run", "--quiet", "--", sys.executable, "-c", BY_IP, cwd=work, timeout=120 * SLOW)
    assert result.text == outside.stdout, result


# One thread receives and waits, another one connects the same socket again and again.
RECEIVED = r"""
import socket, threading, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); server.bind(("127.0.0.1", 0))
shared = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); shared.bind(("127.0.0.1", 0)); shared.connect(server.getsockname())
wrong, over = [], threading.Event()
def receive():
    while not over.is_set():
        try: shared.recv(10)
        except OSError as error: wrong.append(error)
threads = [threading.Thread(target=receive, daemon=True) for _ in range(2)]
for thread in threads: thread.start()
for _ in range(3000):
    server.sendto(b"x", shared.getsockname()); shared.connect(server.getsockname())
over.set()
print(len(wrong), wrong[:1])
"""


def test_who_receives_from_a_socket_does_not_notice_its_connect(bailey, work):
    result = bailey("run", "--quiet", "--", sys.executable, "-c", RECEIVED, cwd=work, timeout=120 * SLOW)
    assert result.text == "0 []\n", result


# A socket that is to be connected without waiting, and waits when the call is made.
TAKEN_BACK = """
import fcntl, os, socket, sys, threading, time
family, where = (socket.AF_UNIX, "full") if sys.argv[2] == "unix" else (socket.AF_INET, ("127.0.0.1", 0))
full = socket.socket(family); full.bind(where); full.listen(0); where = full.getsockname()
for _ in range(2): # by TCP there is room for one more than was asked for
    first = socket.socket(family); first.setblocking(False); first.connect_ex(where)
    os.dup(first.fileno())
one = socket.socket(family); one.setblocking(False)
def ask():
    while True:
        try: one.connect(where)
        except OSError: pass
def take_back():
    while True:
        fcntl.fcntl(one, fcntl.F_SETFL, 0); fcntl.fcntl(one, fcntl.F_SETFL, os.O_NONBLOCK)
open("attacks", "w").close()
for attack in (ask, ask, take_back): threading.Thread(target=attack, daemon=True).start()
time.sleep(float(sys.argv[1])); os._exit(7)
"""


@pytest.mark.parametrize("family", ["unix", "tcp"])
@pytest.mark.parametrize("how", ["by itself", "killed", "terminated", "time limit"])
def test_nobody_outside_waits_with_the_broker(bailey, start, work, how, family):
    """What a sandbox makes its own broker wait for is no concern of the supervisor's."""
    words = ["bailey", "run", "--quiet", *(["--timeout", "2s"] if how == "time limit" else []), "--", sys.executable, "-c", TAKEN_BACK,
             "2" if how == "by itself" else "600", family]
    child = start(words, cwd=work)
    wait_until((work / "attacks").exists, what="the attack")
    if how in ("killed", "terminated"):
        time.sleep(1)  # for the attack to succeed; nothing waits for it
        (listed,) = json.loads(bailey("ps", "--json", cwd=work).check().text)
    if how == "killed":
        bailey("kill", listed["sandbox"], cwd=work).check()
    elif how == "terminated":
        child.process.terminate()
    assert child.wait(60 * SLOW).status == {"by itself": 7, "killed": 137, "terminated": 143, "time limit": 124}[how]
