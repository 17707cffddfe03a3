# SPDX-License-Identifier: Apache-2.0
"""docker and podman, started for the tests of one file, with stores of their own: a start takes as long as several containers. Their settings
are what a machine without systemd and with low limits needs; a program under test finds them in `bin`, where `docker` and `podman` are the
ones of these tests."""
import os
import pathlib
import shutil
import socket
import subprocess
import tarfile
import tempfile

import pytest

from . import leaks
from .process import Child, descendants, wait_until

# Tools of this machine are mounted at /usr; the image has what leads there, and busybox.
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
IMAGE = "lab"
TOOLS = "--volume=/usr:/usr:ro"

_LISTEN = """
import socket, sys
channel = socket.socket(fileno=int(sys.argv[1]))
server = socket.create_server((sys.argv[2], 0))
socket.send_fds(channel, [b"x"], [server.fileno()])
"""


class Unusable(Exception):
    """This engine cannot run a container here; the text says why."""


def make_image(path):
    with tarfile.open(path, "w") as tar:
        for name, target in LINKS.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
        for name in ("tmp", "usr", "etc"):
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        tar.add("/bin/busybox", "busybox")


class Engine:
    name, limits = "", []
    holder = None  # a process that has the engine's networks
    network = None  # of the test

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="bc-", dir="/var/tmp"))  # sockets want a short path
        self.bin = self.directory / "bin"
        self.bin.mkdir()
        self.environment = {"HOME": str(self.directory), "XDG_RUNTIME_DIR": str(self.directory),
                            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        try:
            self.prepare()
            self.try_it()
        except BaseException:
            self.close()
            raise

    def wrap(self, command):
        settings = " ".join(f"{key}={value}" for key, value in self.environment.items() if key != "PATH")
        (self.bin / self.name).write_text(
            f'#!/bin/sh\nverb=$1; shift\ncase $verb in create) set -- {" ".join(self.limits)} "$@" ;; esac\n'
            f'exec env {settings} {command} "$verb" "$@"\n')
        (self.bin / self.name).chmod(0o755)

    def path(self):
        return f"{self.bin}:{self.environment['PATH']}"

    def enter(self):
        """Before a command: where the engine's networks are."""
        return []

    def __call__(self, *words, timeout=60):
        return subprocess.run([self.bin / self.name, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=self.environment, text=True, timeout=timeout, check=False)

    def try_it(self):
        make_image(self.directory / "image.tar")
        done = self("import", str(self.directory / "image.tar"), IMAGE)
        if done.returncode == 0:
            done = self("run", "--rm", "--network", "none", *self.limits, IMAGE, "/busybox", "true")
        if done.returncode != 0:
            raise Unusable(f"{self.name} cannot run a container here: {done.stderr.strip()[-200:]}")

    def containers(self):
        return self("ps", "--all", "--quiet").stdout.split()

    def stay(self):
        """For several tests; `forget` between them."""
        if self.holder:
            leaks.STAYING.add(self.holder.pid)

    def forget(self):
        """What a test has made; one that failed leaves containers."""
        if containers := self.containers():
            self("rm", "--force", *containers)
        if self.network:
            self("network", "rm", self.network)
            self.network = None

    def make_network(self, name, *options):
        """It leads to no other until the test is over."""
        made = self("network", "create", *options, name)
        assert made.returncode == 0, made.stderr
        self.network = name

    def close(self):
        if self.holder:
            leaks.STAYING.discard(self.holder.pid)
        shutil.rmtree(self.directory, ignore_errors=True)


class Podman(Engine):
    name = "podman"
    limits = ["--ulimit", "nofile=20000:20000", "--ulimit", "nproc=10000:10000"]

    def prepare(self):
        for tool in ["podman", "runc"] + (["newuidmap"] if os.geteuid() else []):
            if not shutil.which(tool, path=self.environment["PATH"]):
                raise Unusable(f"{tool} is not installed")
        self.wrap(f"/usr/bin/podman --cgroup-manager cgroupfs --runtime runc --storage-driver vfs --root {self.directory}/store "
                  f"--runroot {self.directory}/run --events-backend none")

    def close(self):
        self("rm", "--all", "--force")
        self("rmi", "--all", "--force")
        if os.geteuid():  # files of other users of its user namespace, and the process that holds that
            self("unshare", "rm", "-rf", str(self.directory / "store"))
            self("system", "migrate")
        super().close()


class Apart:
    """An engine whose networks are in a namespace of their own, that of `holder`."""

    def enter(self):
        return ["nsenter", "--net", "--mount", f"--target={self.holder.pid}", "--", "unshare", "--mount",
                "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "sh"]

    def listen(self, address):
        """A socket where the engine's networks are."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            subprocess.run([*self.enter(), "/usr/bin/python3", "-c", _LISTEN, str(theirs.fileno()), address], pass_fds=[theirs.fileno()],
                           check=True, timeout=20)
            _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        return socket.socket(fileno=fds[0])

class PodmanApart(Apart, Podman):
    """As root, with networks."""

    def prepare(self):
        super().prepare()
        self.holder = Child(["unshare", "--net", "--mount", "sh", "-c", "ip link set lo up && mkdir -p /var/lib/cni && mount -t tmpfs tmpfs /var/lib/cni && exec sleep infinity"])
        wait_until(lambda: pathlib.Path(f"/proc/{self.holder.pid}/comm").read_text().strip() == "sleep", timeout=30, what="a namespace")
        (self.directory / "networks").mkdir()
        self.wrap(f"nsenter --net --mount --target={self.holder.pid} -- /usr/bin/podman --cgroup-manager cgroupfs --runtime runc --storage-driver vfs "
                  f"--root {self.directory}/store --runroot {self.directory}/run --events-backend none --network-config-dir {self.directory}/networks")

    def close(self):
        super().close()
        if self.holder:
            self.holder.kill()
            self.holder.stop()


class Docker(Apart, Engine):
    """The daemon has a network of its own, and mounts of its own."""
    name = "docker"
    daemon = None

    def prepare(self):
        for tool in ("docker", "dockerd", "containerd", "runc"):
            if not shutil.which(tool, path=self.environment["PATH"]):
                raise Unusable(f"{tool} is not installed")
        at = f"unix://{self.directory}/socket"
        self.environment["DOCKER_HOST"] = at
        self.wrap("/usr/bin/docker")
        self.daemon = Child(["unshare", "--net", "--mount", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", "dockerd", "--host", at, "--data-root", self.directory / "data",
                             "--exec-root", self.directory / "exec", "--pidfile", self.directory / "pid", "--storage-driver", "vfs",
                             "--bridge", "none", "--log-level", "warn"], env=self.environment)
        self.holder = self.daemon
        wait_until(lambda: not self.daemon.running() or self("version").returncode == 0, timeout=60, what="dockerd", every=0.1)
        if not self.daemon.running():
            raise Unusable(f"dockerd does not start: {self.daemon.errors()[-300:]}")

    def close(self):
        if self.daemon:
            below = descendants(self.daemon.pid)
            self.daemon.signal(15)
            try:
                self.daemon.process.wait(30)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
            self.daemon.stop()
            wait_until(lambda: not [p for p in below if pathlib.Path(f"/proc/{p}/ns").exists() and not _zombie(p)], timeout=30,
                       what="the end of docker's processes")
        super().close()


def _zombie(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


ENGINES = {"docker": Docker, "podman": Podman, "podman-apart": PodmanApart}


@pytest.fixture(scope="module", params=[pytest.param("docker", marks=pytest.mark.root), "podman"])
def engine_of_file(request):
    try:
        engine = ENGINES[request.param]()
    except Unusable as why:
        pytest.skip(str(why))
    engine.stay()
    yield engine
    engine.close()


@pytest.fixture
def engine(engine_of_file, nothing_left_behind):
    """The one of this file, without containers and networks of tests before."""
    yield engine_of_file
    engine_of_file.forget()
