# SPDX-License-Identifier: Apache-2.0
"""Random schedules: the host works on its files by git and editors, sandboxes start, end and are killed, and every sandbox attacks the
protected names all the time. None may change, nothing may be left, nobody may hang. BAILEY_STRESS=1000 runs that many."""
import os
import pathlib
import random
import shutil
import signal
import time

import pytest

from kit.git import ENVIRONMENT, git
from kit.host_side import EXISTING, evil, host_actions, host_repository
from kit.process import wait_until

ATTACK = pathlib.Path(__file__).parent / "kit/attack.py"
SCHEDULES = int(os.environ.get("BAILEY_STRESS", "4"))
STEPS = 12
SANDBOXES_MAX = 3
PATHS = [*EXISTING, ".git", ".vscode", ".idea", ".git/hooks/pre-commit", ".claude", ".git/hooks"]
ABSENT = [".mcp.json", ".zed", ".cursor/mcp.json"]  # may come to be while a sandbox runs, and is kept aside at its end


class Schedule:
    """One schedule, and the sandboxes that it has started."""

    def __init__(self, start, repo, seed, steady):
        self.start, self.repo, self.seed, self.steady, self.running, self.log = start, repo, seed, steady, [], []
        self.random = random.Random(seed)
        self.actions = host_actions(repo)

    def begin(self):
        if len(self.running) == SANDBOXES_MAX:
            return
        options = self.random.choice([[], [], ["--deny-read", "**/.env"], ["--trace-denials"], ["--deny-write", self.repo / "keep/this"]])
        child = self.start(["bailey", "run", "-q", *options, "--", "/usr/bin/python3", "attack.py", "30", *PATHS, *ABSENT], cwd=self.repo, env=ENVIRONMENT)
        self.running.append(child)
        if self.steady:
            wait_until(lambda: (self.repo / "ready").exists() or not child.running(), 60)
            (self.repo / "ready").unlink(missing_ok=True)

    def end(self):
        """By a signal to the supervisor alone, or to its whole group; also before the command has begun."""
        if not self.running:
            return
        child = self.running.pop(self.random.randrange(len(self.running)))
        number, send = self.random.choice([(signal.SIGKILL, os.kill), (signal.SIGKILL, os.killpg), (signal.SIGTERM, os.kill)])
        try:
            send(child.pid, number)
        except ProcessLookupError:
            assert not self.steady, (self.seed, self.log, child.wait(1).errors)
        status = child.wait(60).status
        self.log.append(f"ended by {number} with {status}")

    def host(self, number):
        action = self.random.choice(self.actions)
        self.log.append(action.__name__)
        try:
            action(number)
        except OSError:
            if self.steady:
                raise

    def step(self, number):
        what = self.random.choice([self.begin, self.begin, self.end, *[lambda: self.host(number)] * 4])
        what()
        time.sleep(self.random.random() / 20)
        wrong = evil(self.repo, PATHS) if self.steady else []
        assert not wrong, (self.seed, number, self.log, wrong)

    def finish(self, run):
        (self.repo / "stop").touch()
        for child in self.running:
            result = child.wait(120)
            unlucky = not self.steady and ("No such file" in result.errors or "PermissionError" in result.errors)
            assert result.status == 0 or unlucky, (self.seed, self.log, result.errors)
        run(["bailey", "run", "-q", "--", "true"], cwd=self.repo, env=ENVIRONMENT).check()  # sweeps what the killed ones left
        left = [name for name in (*ABSENT, ".git/hooks/pre-commit") if os.path.lexists(self.repo / name)]
        assert not evil(self.repo, PATHS) and not left, (self.seed, self.log, left)
        if self.steady:
            assert os.readlink(self.repo / ".idea") == "conf" and (self.repo / ".git/config").is_file(), (self.seed, self.log)
            git("status", cwd=self.repo, check=True)


def users_of(directory):
    """Processes that work in it."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd").startswith(str(directory)):
                found.append(pid)
        except OSError:
            pass
    return found


@pytest.mark.rows
@pytest.mark.parametrize("number", range(SCHEDULES))
@pytest.mark.parametrize("steady", [True, False], ids=["between", "during"])
def test_random_schedules(start, run, work, number, steady):
    """Sandboxes start between the host's actions, or while they go on: what is gone at that moment is a name that the sandbox may make
    and that is swept, or an error of the launch; the protected names are clean in the end."""
    seed = random.randrange(1 << 30)
    random.seed(seed)
    repo = host_repository(work)
    shutil.copy(ATTACK, repo / "attack.py")
    schedule = Schedule(start, repo, seed, steady)
    schedule.begin()
    for step in range(STEPS):
        schedule.step(step)
    schedule.finish(run)
    assert wait_until(lambda: not users_of(repo), 20), (seed, schedule.log)
    assert str(repo) not in pathlib.Path("/proc/self/mountinfo").read_text(), (seed, schedule.log)
