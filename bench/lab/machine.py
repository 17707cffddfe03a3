# SPDX-License-Identifier: Apache-2.0
"""The machine: processor time of a whole tree of processes, its memory, daemons that are started and ended, and whether it is quiet enough."""
import contextlib
import ctypes
import os
import resource
import signal
import socket
import subprocess
import time
from pathlib import Path

QUIET = 0.2  # of one processor that others may use
TICK = os.sysconf("SC_CLK_TCK")
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LIBC = ctypes.CDLL(None)


class LabError(Exception):
    pass


# What a server or a command that does not work can bring about: it is left out, and the lab goes on.
FAILURES = (LabError, OSError, ValueError, KeyError, subprocess.SubprocessError)


def installed(build):
    """The program as `make install` leaves it: stripped, and beside it what it starts. A build that nobody installed is measured as it is."""
    return next((path for path in (build / "installed/usr/local/bin/bailey",) if path.exists()), build / "src/cli/bailey")


def descriptors(wanted=65536):
    """How many a process of the lab may have: as many as the system lets it, up to this."""
    for hard in (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1]):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            return hard
        except (ValueError, OSError):  # raising the hard limit is a privilege
            pass
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def tree(pid):
    """The process and all that it started, threads' children included."""
    found, todo = [], [pid]
    while todo:
        pid = todo.pop()
        found.append(pid)
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                todo += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            pass
    return found


def ticks(pid, fields):
    try:
        values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(int(values[i]) for i in fields)


def own_seconds(pid):
    """User and system time of this process alone."""
    return ticks(pid, (11, 12)) / TICK


def cpu_seconds(pid):
    """User and system time, also of threads and children that are gone."""
    return sum(ticks(each, (11, 12, 13, 14)) for each in tree(pid)) / TICK


def resident_kib(pid):
    total = 0
    for each in tree(pid):
        try:
            for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
        except OSError:
            pass
    return total


@contextlib.contextmanager
def on_one_processor(pids):
    """These, and what is started meanwhile. Where one waits for the other all the time, the figures would tell who happened to share a processor."""
    def place(processors):
        for each in [os.getpid(), *(each for pid in pids for each in tree(pid))]:
            try:
                for task in Path(f"/proc/{each}/task").iterdir():
                    os.sched_setaffinity(int(task.name), processors)
            except OSError:
                pass
    everywhere = os.sched_getaffinity(0)
    place({max(everywhere)})
    try:
        yield
    finally:
        place(everywhere)


def slab_kib():
    """What the kernel has in small objects: sockets, their names and what waits in them, among others."""
    return next(int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("Slab:"))


def caches():
    """In words: the processor's caches for data."""
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind, level, size, shared = ((index / file).read_text().strip() for file in ("type", "level", "size", "shared_cpu_list"))
        except OSError:
            continue
        if kind != "Instruction":
            found.append(f"L{level} {size.removesuffix('K')} KiB{' for all' if level == '3' or ',' in shared or '-' in shared else ''}")
    return f"Caches here: {', '.join(found)}." if found else "The sizes of the caches are not known here."


def busy_seconds():
    """Of all processors since the machine began; what a host took from this guest counts too."""
    values = [int(v) for v in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(values) - values[3] - values[4]) / TICK


def busy_share(seconds=1.0):
    """How much of one processor others use."""
    before, start = busy_seconds(), time.monotonic()
    time.sleep(seconds)
    return (busy_seconds() - before) / (time.monotonic() - start)


def wait_until_quiet(patience, say):
    """How much others use when they use little, or when the patience is at its end."""
    deadline = time.monotonic() + patience
    while (share := busy_share()) > QUIET and time.monotonic() < deadline:
        say(f"bench: others use {share:.2f} processors; waiting")
        time.sleep(5)
    return share


class Others:
    """How much of one processor was used by what is not the lab's, from its making until share() is called. mine: pids of the lab's servers."""

    def __init__(self, mine):
        self.mine = mine
        self.start, self.busy, self.own = time.monotonic(), busy_seconds(), self._own()

    def _own(self):
        used = os.times()
        return used.user + used.system + used.children_user + used.children_system + sum(cpu_seconds(pid) for pid in self.mine)

    def share(self):
        own, busy = self._own() - self.own, busy_seconds() - self.busy
        return max(busy - own, 0) / (time.monotonic() - self.start)


def adopt_orphans():
    """Some programs leave without waiting for what they started: it becomes a child of the lab, so that its processor time counts too."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_orphans():
    time.sleep(0.002)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def children_ms():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1e3


def end_with_parent():
    """In a server, before it starts: also a lab that is killed leaves none behind."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


class Daemon:
    """A server under test; ready when its port takes connections."""

    def __init__(self, name, argv, port, run, udp=False, env=None):
        self.name, self.port = name, port
        self.log = run / f"{name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True, preexec_fn=end_with_parent)
        deadline = time.monotonic() + 40  # of a loaded machine; most take a tenth of a second
        while not (self._bound_udp() if udp else self._answers()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise LabError(f"{name} did not start: {self.log.read_text(errors='replace')[-400:].strip()}")
            time.sleep(0.02)
        time.sleep(0.1)

    def _answers(self):
        with socket.socket() as s:
            s.settimeout(0.5)
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def _bound_udp(self):
        return f":{self.port:04X} " in Path("/proc/net/udp").read_text()

    @property
    def pid(self):
        return self.process.pid

    @property
    def alive(self):
        return self.process.poll() is None

    def stop(self):
        pids = tree(self.pid) if self.alive else []
        if self.alive:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pid in pids[1:]:  # what it left behind
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
