# SPDX-License-Identifier: Apache-2.0
"""Every act of tests/escape, outside and inside: it must work out there and fail in here, with the errno it names. Then
the same where there are no namespaces: what is lost there is said in the act's own line."""
import errno
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading

import pytest

from conftest import program
from kit.control import sockets, wait_for
from kit.machine import NO_CLONE3, deny, machine

pytestmark = [pytest.mark.visible_home, pytest.mark.real_home]  # a denial must be a denial, not an absence

ESCAPE = pathlib.Path(__file__).resolve().parents[1] / "escape"
sys.path.insert(0, str(ESCAPE))
import act as _  # noqa: E402,F401
from world import ACTS  # noqa: E402

PYTHON = "/usr/bin/python3"
VICTIM = """import ctypes, sys, time
held = ctypes.create_string_buffer(b"secrets!")
print(ctypes.addressof(held), flush=True)
libc = ctypes.CDLL(None)
libc.prctl(0x59616d61, ctypes.c_ulong(-1 & 0xffffffffffffffff), 0, 0, 0)  # Yama: anybody may trace
sys.stdin.read()
"""
# There are none by default: an honest program must not meet one.
LIMITS = ["--limit-memory", "2GiB", "--limit-files", "1024", "--limit-processes", "1024"]
# Every namespace that the first clone asks for, and SIGCHLD.
NO_NAMESPACES = [deny("clone3", NO_CLONE3), deny("clone", errno.EPERM, 0x3E020011)]


def own_address():
    """An address of this host that is not loopback: what is sent to it leaves no machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))
            return s.getsockname()[0]
        except OSError:
            return "127.0.0.2"


def greet(listener):
    """Says hello to everybody until the listener is shut down."""
    while True:
        try:
            client, _peer = listener.accept()
        except OSError:
            return
        with client:
            try:
                client.sendall(b"hello")
            except OSError:
                pass


@pytest.fixture(scope="module")
def servers():
    """What the host has: a process, and servers on the network and on abstract sockets."""
    name = f"bailey-test-{os.getpid()}"
    tcp = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    thread = threading.Thread(target=greet, args=(tcp,))
    with tcp, socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as messages, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, \
            subprocess.Popen([PYTHON, "-c", VICTIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as victim:
        abstract.bind("\0" + name)
        abstract.listen(128)
        messages.bind("\0" + name + "-datagrams")
        messages.settimeout(0)
        udp.bind(("0.0.0.0", 0))
        thread.start()
        address = own_address()
        yield dict(abstract_socket=name, abstract_datagrams=name + "-datagrams", tcp_port=tcp.getsockname()[1], address=address,
                   victim=victim.pid, victim_address=int(victim.stdout.readline()), datagrams=(address, udp.getsockname()[1]))
        tcp.shutdown(socket.SHUT_RDWR)
        thread.join()
        victim.stdin.close()


DIRECTORIES = ("work", "work/.git", "work/.git/hooks", "work/.claude", ".ssh", "agent", "vault", "vault/open", "vault/open/closed", "slashed")
FILES = ("work/.git/config", "work/.claude/settings.json", ".ssh/id_test", ".netrc", "notes", "doomed", "vault/secret",
         "vault/open/closed/secret", "slashed/secret")


@pytest.fixture
def world(tmp_path, home, servers):
    for name in DIRECTORIES:
        (home / name).mkdir()
    for name in FILES:
        (home / name).write_text("secret\n")
    (home / "work/.bailey.yaml").write_text("# nothing of its own\n")
    with socket.socket(socket.AF_UNIX) as stream, socket.socket(socket.AF_UNIX) as agent, \
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as messages, \
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams, open(home / "notes") as inherited:
        for server, name in ((stream, "server.sock"), (agent, "agent/S.agent"), (messages, "messages.sock"), (datagrams, "datagrams.sock")):
            server.bind(str(home / name))
            if server is not datagrams:
                server.listen(8)
        os.set_inheritable(inherited.fileno(), True)
        yield dict(servers, home=str(home), workspace=str(home / "work"), unix_socket=str(home / "server.sock"),
                   unix_messages=str(home / "messages.sock"), unix_datagrams=str(home / "datagrams.sock"),
                   inherited=inherited.fileno(), host_tmp=str(tmp_path))


def control_socket(start, world):
    """Of a sandbox that runs for this; what the world has already stays."""
    before = set(sockets(world["home"]))
    start(["bailey", "run", "--", "sleep", "100"], cwd=world["workspace"])
    return str(wait_for(lambda: set(sockets(world["home"])) - before, "the control socket").pop())


@pytest.fixture
def perform(world, start):
    """perform(name, where): what the act answered: "done" or an errno."""
    home = world["home"]
    rules = ["--read", str(ESCAPE), "--deny-read", home + "/vault", "--read", home + "/vault/open",
             "--deny-read", home + "/vault/open/closed", "--deny-read", home + "/slashed/",
             *LIMITS]
    act = [PYTHON, "-I", "-S", "-B", ESCAPE / "act.py"]

    def do(name, where):
        argv = [*act, name, ACTS[name].__module__]
        facts = json.dumps(dict(world, control_socket=control_socket(start, world))) if "control_socket" in name else json.dumps(world)
        if where != "outside":
            argv = [program("bailey"), "run", "--quiet", *rules, "--env", "BAILEY_ACT_WORLD=" + facts, "--", *argv]
        if where == "degraded":
            argv.insert(3, "--allow-degraded")
            argv = machine(argv, refuse=NO_NAMESPACES)
        result = start(argv, cwd=world["workspace"], pass_fds=(world["inherited"],), env={"BAILEY_ACT_WORLD": facts}).wait()
        assert result.status == 0, result
        return result.text.strip()
    return do


def host_config(world):
    """Of the file itself. Inside there may be a copy of it."""
    path = pathlib.Path(world["workspace"], ".git/config")
    return path.read_bytes(), path.stat().st_mode, path.stat().st_ino


def clean(world):
    """What an act leaves in the workspace, where it may."""
    for planted in ("link-to-key", "link-to-notes", "link-to-socket", "moved", "hard", "disk", "mine", ".git/config.new", "program", "program-made"):
        (pathlib.Path(world["workspace"]) / planted).unlink(missing_ok=True)


EVERY_ACT = [pytest.param(name, marks=[getattr(pytest.mark, act.outside)] if act.outside != "all" else [])
             for name, act in ACTS.items()]


@pytest.mark.parametrize("name", EVERY_ACT)
def test_act(name, world, perform):
    # First inside: outside the act succeeds and changes the world.
    before = host_config(world)
    inside = perform(name, "inside")
    assert host_config(world) == before
    clean(world)
    outside = perform(name, "outside")
    absent = ACTS[name].absent if outside in ACTS[name].absent else set()
    assert inside in ACTS[name].inside | absent, f"inside: {inside}, wanted one of {sorted(ACTS[name].inside)}"
    assert outside == "done" or absent, f"the act proves nothing: outside it fails too, with {outside}"


@pytest.mark.parametrize("name", EVERY_ACT)
def test_act_without_namespaces(name, perform):
    answer = perform(name, "degraded")
    assert answer in ACTS[name].degraded | ACTS[name].absent, f"degraded: {answer}, wanted one of {sorted(ACTS[name].degraded)}"


def test_there_are_enough():
    assert len(ACTS) >= 120
