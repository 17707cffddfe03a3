# SPDX-License-Identifier: Apache-2.0
"""Every act of tests/escape, outside and inside: it must work out there and fail in here, with the errno it names."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

import pytest

ESCAPE = pathlib.Path(__file__).resolve().parents[1] / "escape"
sys.path.insert(0, str(ESCAPE))
import acts_files  # noqa: E402,F401
import acts_kernel  # noqa: E402,F401
import acts_sockets  # noqa: E402,F401
from world import ACTS  # noqa: E402

PYTHON = "/usr/bin/python3"
VICTIM = """import ctypes, sys, time
held = ctypes.create_string_buffer(b"secrets!")
print(ctypes.addressof(held), flush=True)
libc = ctypes.CDLL(None)
libc.prctl(0x59616d61, ctypes.c_ulong(-1 & 0xffffffffffffffff), 0, 0, 0)  # Yama: anybody may trace
sys.stdin.read()
"""


def own_address():
    """An address of this host that is not loopback: a datagram to it leaves no machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))
            return s.getsockname()[0]
        except OSError:
            return "127.0.0.2"


@pytest.fixture
def home():
    """Not below /tmp, which the sandbox has for itself: a denial must be a denial, not an absence."""
    with tempfile.TemporaryDirectory(prefix="bailey-test-", dir="/var/tmp") as directory:
        yield pathlib.Path(directory)


@pytest.fixture
def world(tmp_path, home):
    workspace = home / "work"
    for directory in (workspace, workspace / ".git", workspace / ".git/hooks", home / ".ssh"):
        directory.mkdir()
    for name in ("work/.git/config", ".ssh/id_test", ".netrc", "notes", "doomed"):
        (home / name).write_text("secret\n")
    unix_socket = home / "agent.sock"
    abstract = f"bailey-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as path_server, socket.socket(socket.AF_UNIX) as abstract_server, \
            socket.create_server(("127.0.0.1", 0)) as tcp, open(home / "notes") as inherited, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, \
            subprocess.Popen([PYTHON, "-c", VICTIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as victim:
        path_server.bind(str(unix_socket))
        path_server.listen()
        abstract_server.bind("\0" + abstract)
        abstract_server.listen()
        udp.bind((own_address(), 0))
        address = int(victim.stdout.readline())
        os.set_inheritable(inherited.fileno(), True)
        yield dict(home=str(home), workspace=str(workspace), unix_socket=str(unix_socket), abstract_socket=abstract,
                   tcp_port=tcp.getsockname()[1], inherited=inherited.fileno(), victim=victim.pid, victim_address=address,
                   host_tmp=str(tmp_path), datagrams=udp.getsockname())
        victim.stdin.close()


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[getattr(pytest.mark, act.outside)] if act.outside != "all" else [])
    for name, act in ACTS.items()
])
def test_act(name, world, start, environment):
    facts = json.dumps(world)
    more = dict(cwd=world["workspace"], pass_fds=(world["inherited"],))
    # First inside: outside the act succeeds and changes the world.
    inside = start(["bailey", "run", "--quiet", "--read", str(ESCAPE), "--env", "BAILEY_ACT_WORLD=" + facts, "--",
                    PYTHON, ESCAPE / "act.py", name], **more).wait()
    assert inside.status == 0, inside
    answer = inside.text.strip()
    assert answer in ACTS[name].inside, f"inside: {answer}, wanted one of {sorted(ACTS[name].inside)}\n{inside}"
    for planted in ("link-to-key", "link-to-notes", "moved", "hard", "disk", ".git/config.new"):
        (pathlib.Path(world["workspace"]) / planted).unlink(missing_ok=True)
    outside = start([PYTHON, ESCAPE / "act.py", name], env={"BAILEY_ACT_WORLD": facts}, **more).wait()
    assert outside.text.strip() == "done", f"the act proves nothing: outside it fails too\n{outside}"


def test_there_are_enough():
    assert len(ACTS) >= 40
