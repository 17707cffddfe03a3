# SPDX-License-Identifier: Apache-2.0
"""The machine: processor time of a whole tree of processes, its memory, daemons that are started and ended, and whether it is quiet enough."""
import contextlib
import os
import signal
import socket
import statistics
import subprocess
import time
from pathlib import Path

QUIET = 0.2  # of one processor that others may use
TICK = os.sysconf("SC_CLK_TCK")


class LabError(Exception):
    pass


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


def busy_seconds():
    """Of all processors since the machine began; what a host took from this guest counts too."""
    values = [int(v) for v in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(values) - values[3] - values[4]) / TICK


def busy_share(seconds=1.0):
    """How much of one processor others use."""
    before, start = busy_seconds(), time.monotonic()
    time.sleep(seconds)
    return (busy_seconds() - before) / (time.monotonic() - start)


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


def spread(values):
    """Half of the values lie within this share around the median."""
    if len(values) < 3:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle if middle else 0.0


class Daemon:
    """A server under test; ready when its port takes connections."""

    def __init__(self, name, argv, port, run, udp=False, env=None):
        self.name, self.port = name, port
        self.log = run / f"{name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True)
        deadline = time.monotonic() + 10
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
