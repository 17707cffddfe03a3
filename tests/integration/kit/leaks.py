# SPDX-License-Identifier: Apache-2.0
"""What a test may not leave behind: processes, descriptors, mounts, temporary files.

tests/run gives the tests a mount namespace of their own, so that a mount which somebody else makes is not taken for theirs.
"""
import ctypes
import os
import pathlib
import time

from .process import descendants, state_of

PR_SET_CHILD_SUBREAPER = 36
# Processes that stay for several tests on purpose. What they start is theirs.
STAYING = set()


def adopt_orphans():
    """From here on, whatever outlives the program that started it becomes our child, where we can see it."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def open_fds(pid="self"):
    """Descriptor number: what it points at."""
    found = {}
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            found[int(entry.name)] = os.readlink(entry)
        except FileNotFoundError:
            pass  # the descriptor of this very listing
    return found


def mounts():
    """Number of a mount: where it is. The number stays when somebody outside renames a directory above it."""
    lines = [line.split() for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    return {fields[0]: fields[4] for fields in lines}


def _command(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _living(known):
    """Processes below us that are new and not zombies; adopted zombies are reaped on the way."""
    alive = []
    for pid in descendants(os.getpid(), STAYING):
        if pid in known:
            continue
        state = state_of(pid)
        if not state:
            continue
        if state[0] == "Z":
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass
        else:
            alive.append(pid)
    return alive


def reap_orphans():
    """What was killed and became ours is gone for good: programs that look for a lock's owner take a zombie for alive."""
    _living(set())


class Watch:
    """Taken before a test; check() says what the test left behind."""

    def __init__(self, temporary):
        self.temporary = temporary
        self.processes = set(descendants(os.getpid()))
        self.fds, self.mounts = open_fds(), mounts()

    def check(self, grace=20.0):
        end, pause = time.monotonic() + grace, 0.002
        while True:
            left = self._left()
            if not left or time.monotonic() > end:
                return left
            time.sleep(pause)
            pause = min(2 * pause, 0.05)

    def _left(self):
        left = [f"process {pid}: {_command(pid)}" for pid in _living(self.processes)]
        left += [f"descriptor {fd}: {target}" for fd, target in open_fds().items()
                 if fd not in self.fds and not target.startswith("/proc/")]
        left += sorted(f"mount {point}" for number, point in mounts().items() if number not in self.mounts)
        left += [f"temporary file {path}" for path in sorted(self.temporary.iterdir())]
        return left
