# SPDX-License-Identifier: Apache-2.0
"""Network namespaces, for root and for ordinary users alike: each has its own user namespace and a process that holds it."""
import os
import socket
import subprocess

from .process import PATIENCE, Child, descendants, wait_until

_LISTEN = """
import socket, sys
channel = socket.socket(fileno=int(sys.argv[1]))
kind = socket.SOCK_DGRAM if sys.argv[2] == "udp" else socket.SOCK_STREAM
family = socket.AF_INET6 if ":" in sys.argv[3] else socket.AF_INET
s = socket.socket(family, kind)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((sys.argv[3], int(sys.argv[4])))
if kind == socket.SOCK_STREAM:
    s.listen(128)
socket.send_fds(channel, [b"x"], [s.fileno()])
"""


class Namespace:
    """`with Namespace() as ns: ns.run(["ip", "addr"])`. Loopback is up; nothing else is there until link() is called."""

    def __init__(self, inside=None):
        """inside: another Namespace whose user namespace is shared, so that the two can be linked."""
        flags = ["--net", "--mount"] if inside else ["--user", "--map-root-user", "--net", "--mount"]
        hold = ["sh", "-c", "ip link set lo up && echo ready && exec sleep 3600"]
        command = ["unshare", "--kill-child", *flags, "--", *hold]
        self.holder = Child([*inside.enter(), *command] if inside else command)
        try:
            wait_until(lambda: b"ready" in self.holder.output() or not self.holder.running(), what="the namespace")
            assert self.holder.running(), f"no namespace: {self.holder.errors()}"
        except BaseException:
            self.close()
            raise
        self.pid = self._held_pid()

    def _held_pid(self):
        """The process that is inside: unshare becomes it, or is its parent."""
        below = descendants(self.holder.pid)
        return below[-1] if below else self.holder.pid

    def enter(self):
        return ["nsenter", "--preserve-credentials", "--user", "--net", "--mount", "--target", str(self.pid), "--"]

    def start(self, argv, **more):
        return Child([*self.enter(), *argv], **more)

    def run(self, argv, timeout=PATIENCE, **more):
        child = self.start(argv, **more)
        try:
            return child.wait(timeout)
        finally:
            child.stop()

    def listen(self, address="127.0.0.1", port=0, kind="tcp"):
        """A socket bound inside, for a server that runs out here: made there, passed out."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            subprocess.run([*self.enter(), "/usr/bin/python3", "-c", _LISTEN, str(theirs.fileno()), kind, address, str(port)],
                           pass_fds=[theirs.fileno()], check=True, timeout=PATIENCE)
            _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        return socket.socket(fileno=fds[0])

    def link(self, other, ours, theirs, name="veth0"):
        """A cable to another namespace: addresses such as 10.7.0.1/24, or IPv6."""
        self.run(["ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", str(other.pid)]).check()
        for side, address in ((self, ours), (other, theirs)):
            extra = ["nodad"] if ":" in address else []
            side.run(["ip", "addr", "add", address, "dev", name, *extra]).check()
            side.run(["ip", "link", "set", name, "up"]).check()

    def close(self):
        self.holder.kill()
        self.holder.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def possible():
    """False where this account may not make namespaces at all."""
    done = subprocess.run(["unshare", "--user", "--map-root-user", "--net", "true"], stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0 and os.path.exists("/proc/self/ns/net")
