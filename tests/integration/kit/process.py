# SPDX-License-Identifier: Apache-2.0
"""Starting programs: bounded in time, and ended by their own pid, never by name."""
import os
import pathlib
import re
import select
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass

# A build with a sanitizer takes its time for everything.
SANITIZED = "san" in os.environ.get("BAILEY_KIND", pathlib.Path(os.environ.get("BAILEY_BUILD", "build")).name)
SLOW = 4 if SANITIZED else 1
# Limits end what hangs; a loaded machine may take its time.
PATIENCE = 60 * SLOW
DEFAULT_TIMEOUT = 120 * SLOW
CROWD_MAX = 2  # so many times as long a limit is at most, on a machine in use
# A build that counts what runs (scripts/coverage): what is confined cannot write its counts, and says so.
COUNTED = "GCOV_ERROR_FILE" in os.environ
assert os.path.exists("/proc/thread-self/children"), "a kernel without CONFIG_PROC_CHILDREN does not tell who is below whom"
_UNCOUNTED = re.compile(rb"^profiling:.*\n?", re.MULTILINE)


@dataclass
class Result:
    argv: list
    status: int  # the exit code, or minus the signal
    out: bytes
    err: bytes
    seconds: float

    @property
    def text(self):
        return self.out.decode("utf-8", "replace")

    @property
    def errors(self):
        return self.err.decode("utf-8", "replace")

    def check(self, status=0):
        """For a step that must work before the test proper; says everything when it did not."""
        assert self.status == status, f"{self}\nexpected status {status}"
        return self

    def __str__(self):
        return f"{self.argv} ended with {self.status} after {self.seconds:.2f} s\nout: {self.text}\nerr: {self.errors}"


def is_over(began, limit):
    """Whether a limit of time that began then has passed. It ends what hangs, and fails nothing that a busy machine holds up: where
    others wait for a processor too, it is as much longer."""
    passed = time.monotonic() - began
    return passed >= limit and passed >= limit * min(os.getloadavg()[0] / (os.cpu_count() or 1), CROWD_MAX)


def end_of(process, timeout):
    """As its wait(), which looks every 50 ms when it has a limit: this one is told."""
    if process.poll() is None:
        file, began, wait = os.pidfd_open(process.pid), time.monotonic(), timeout
        try:
            poll = select.poll()
            poll.register(file, select.POLLIN)
            while not poll.poll(wait * 1000) and not is_over(began, timeout):
                wait = min(timeout, 1)
        finally:
            os.close(file)
    return process.wait(0)


class Child:
    """A program in its own session. Its output goes to files, so that it never blocks on a full pipe."""

    def __init__(self, argv, env=None, cwd=None, stdin=None, pass_fds=(), user=None):
        self.argv = [str(word) for word in argv]
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        source = subprocess.DEVNULL
        if stdin is not None:
            source = tempfile.TemporaryFile()
            source.write(stdin)
            source.seek(0)
        self.started = time.monotonic()
        self.process = subprocess.Popen(self.argv, env=env, cwd=cwd, stdin=source, stdout=self._out, stderr=self._err,
                                        pass_fds=pass_fds, start_new_session=True, user=user)
        if stdin is not None:
            source.close()

    @property
    def pid(self):
        return self.process.pid

    def running(self):
        return self.process.poll() is None

    def output(self):
        return _content(self._out)

    def errors(self):
        return _content(self._err).decode("utf-8", "replace")

    def wait(self, timeout=DEFAULT_TIMEOUT):
        """The result; a program that does not end in time is killed and the test fails."""
        began = time.monotonic()
        try:
            status = end_of(self.process, timeout)
        except subprocess.TimeoutExpired:
            passed = time.monotonic() - began
            self.kill()
            raise AssertionError(f"{self.argv} did not end within {passed:.1f} s\nout: {self.output()[-2000:]}\n"
                                 f"err: {self.errors()[-2000:]}") from None
        return Result(self.argv, status, self.output(), _content(self._err), time.monotonic() - self.started)

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self, timeout=30):
        """Asks it to end, then insists. For clean-up; a test that is about ending checks wait() itself."""
        if self.running():
            self.process.terminate()
            try:
                end_of(self.process, timeout)
            except subprocess.TimeoutExpired:
                self.kill()
        if self._out.closed:
            return
        report = report_of(self.output().decode("utf-8", "replace")) or report_of(self.errors())
        self._out.close()
        self._err.close()
        assert not report, f"{self.argv}: {report}"

    def kill(self):
        """The whole session that this program started: its pid is the process group's id."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(30)


def report_of(text):
    """What a sanitizer said, from where it began; whatever else a test found, this is a failure."""
    found = re.search(r"(ERROR|WARNING): (Address|Leak|Thread|UndefinedBehavior)Sanitizer|: runtime error: ", text)
    return text[text.rfind("\n", 0, found.start()) + 1:][:8000] if found else ""


def _content(file):
    content = os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)
    return _UNCOUNTED.sub(b"", content) if COUNTED else content


def open_files(pid):
    """What a process has open, by name; one that closes meanwhile is left out."""
    names = []
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            names.append(os.readlink(fd))
        except FileNotFoundError:
            pass
    return names


def wait_until(condition, timeout=PATIENCE, what="the condition", every=0.01):
    """Polls until the condition gives something true, and returns that."""
    began = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        assert not is_over(began, timeout), f"{what} did not come true within {time.monotonic() - began:.1f} s"
        time.sleep(every)


def gone(pid):
    """Dead, waited for or not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def name_of(pid):
    """Empty for one that is dead, waited for or not."""
    try:
        name, rest = pathlib.Path(f"/proc/{pid}/stat").read_text().split("(", 1)[1].rsplit(")", 1)
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if rest.split()[0] == "Z" else name


def state_of(pid):
    """Its state and its parent; None for one that is gone. By plain calls: every test asks it about all processes, twice."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        line = os.read(file, 4096)
    except ProcessLookupError:
        return None
    finally:
        os.close(file)
    state, parent = line[line.rindex(b")") + 2:].split(b" ", 2)[:2]
    return state.decode(), int(parent)


def children_of(pid):
    """Waited for or not, of all its threads. Read twice: the kernel may leave one out when another goes meanwhile."""
    found = set()
    for _ in range(2):
        for thread in _threads_of(pid):
            try:
                file = os.open(f"/proc/{pid}/task/{thread}/children", os.O_RDONLY)
            except (FileNotFoundError, ProcessLookupError):
                continue
            try:
                while part := os.read(file, 65536):
                    found.update(map(int, part.split()))
            except ProcessLookupError:
                pass
            finally:
                os.close(file)
    return sorted(found)


def _threads_of(pid):
    try:
        return os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return []


def descendants(pid, leave_out=()):
    """Every process below this one, without those below the ones that are left out. Every test asks twice, so it does not look at all of /proc."""
    found, ahead = [], [pid]
    while ahead:
        children = [child for child in children_of(ahead.pop()) if child not in leave_out]
        found += children
        ahead += children
    return found
