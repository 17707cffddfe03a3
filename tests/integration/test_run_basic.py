# SPDX-License-Identifier: Apache-2.0
"""`bailey run`: statuses, identity, environment, descriptors, time limit, signals, and nothing left afterwards."""
import os
import pathlib
import signal
import time

import pytest

from conftest import program
from kit.process import descendants, gone, name_of, wait_until


@pytest.fixture
def sandboxed(bailey, work):
    return lambda *words, **more: bailey("run", *words, cwd=work, **more)


@pytest.mark.parametrize("command, status", [
    (["true"], 0), (["false"], 1), (["sh", "-c", "exit 42"], 42), (["sh", "-c", "kill -9 $$"], 137),
    (["sh", "-c", "kill -TERM $$"], 143), (["/nonexistent/program"], 127), (["no-such-program-here"], 127), (["/etc/passwd"], 126),
    (["/etc"], 126),
])
def test_status_is_the_commands(sandboxed, command, status):
    assert sandboxed("--", *command).status == status


def test_output_and_arguments_pass(sandboxed):
    result = sandboxed("--", "sh", "-c", 'printf "%s|" "$@"; echo to-err >&2', "sh", "a b", "", "$HOME", "--mode", "ü").check()
    assert result.text == "a b||$HOME|--mode|ü|"
    assert result.errors == "to-err\n"


def test_input_passes(sandboxed):
    assert sandboxed("--", "wc", "-c", stdin=b"x" * 100000).check().text.strip() == "100000"


def test_script_without_interpreter_line(sandboxed, work):
    script = work / "script"
    script.write_text("echo ran $1\n")
    script.chmod(0o755)
    assert sandboxed("--", "./script", "it").check().text == "ran it\n"


def test_same_identity_no_privileges(sandboxed):
    status = dict(line.split(":\t", 1) for line in sandboxed("--", "cat", "/proc/self/status").check().text.splitlines())
    assert status["Uid"].split() == [str(os.geteuid())] * 4
    assert status["Gid"].split() == [str(os.getegid())] * 4
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"


def processors(status):
    return next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list:"))


def test_processors_are_the_callers(start, work, free_port):
    """Init is kept away from the supervisor for a while. Nothing of that stays, for the command or for the relay."""
    argv = [program("bailey"), "run", "--publish", f"{free_port()}:80", "--", "sh", "-c", "cat /proc/self/status; echo ready; sleep 60"]
    for number in (None, min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))):
        child = start(argv if number is None else ["taskset", "-c", str(number), *argv], cwd=work)
        wait_until(lambda: b"ready" in child.output(), what="the command")
        mine = processors(pathlib.Path("/proc/self/status").read_text()) if number is None else str(number)
        assert processors(child.output().decode()) == mine
        names = ("bailey-init", "bailey-publish")

        def both():
            found = {name_of(pid): pid for pid in descendants(child.pid)}
            return found if all(name in found for name in names) else None
        below = wait_until(both, what="init and the relay")
        for name in names:
            assert processors(pathlib.Path(f"/proc/{below[name]}/status").read_text()) == mine, name
        child.stop()


def test_files_in_memory_are_limited(sandboxed):
    """/tmp, /run and /dev/shm are one place with one limit, and never more than the limit of memory."""
    fill = "for d in /tmp /dev/shm /run; do head -c {0} /dev/zero > $d/f && echo $d; rm -f $d/f; done; true"
    little = {"BAILEY_LIMIT_TEMPORARY": "4MiB"}
    assert sandboxed("--", "sh", "-c", fill.format(2 << 20), env=little).check().text == "/tmp\n/dev/shm\n/run\n"
    assert sandboxed("--", "sh", "-c", fill.format(8 << 20), env=little).text == ""
    by_memory = {"BAILEY_LIMIT_MEMORY": "32MiB"}
    assert sandboxed("--", "sh", "-c", fill.format(16 << 20), env=by_memory).check().text.count("/") == 4
    assert sandboxed("--", "sh", "-c", fill.format(64 << 20), env=by_memory).text == ""
    both = "head -c 3000000 /dev/zero > /tmp/f && head -c 3000000 /dev/zero > /dev/shm/f"
    assert sandboxed("--", "sh", "-c", both, env=little).status != 0
    empty = "i=0; while [ $i -lt 9000 ] && : > /tmp/$i; do i=$((i+1)); done; echo $i"
    assert int(sandboxed("--", "sh", "-c", empty, env=little).text or 0) < 5000


def test_own_process_tree(sandboxed):
    pids = {int(name) for name in sandboxed("--", "ls", "/proc").check().text.split() if name.isdigit()}
    assert len(pids) == 2 and 1 in pids  # init and the listing itself


def test_descriptors_are_only_three(sandboxed, tmp_path):
    with open(tmp_path / "held", "w") as held:
        os.set_inheritable(held.fileno(), True)
        seen = sandboxed("--", "ls", "/proc/self/fd", pass_fds=(held.fileno(),)).check().text.split()
    assert [int(fd) for fd in seen] == [0, 1, 2, 3]  # 3 is the listing itself


def test_environment(sandboxed):
    result = sandboxed("--env", "GIVEN=yes", "--", "env", env={"GITHUB_TOKEN": "secret", "LD_PRELOAD": "", "EDITOR": "vi"}).check()
    env = dict(line.split("=", 1) for line in result.text.splitlines())
    assert env["SANDBOX_RUNTIME"] == "1" and env["GIVEN"] == "yes" and env["EDITOR"] == "vi"
    assert env["HTTPS_PROXY"] == "http://127.0.0.1:3128"
    assert "GITHUB_TOKEN" not in env and "LD_PRELOAD" not in env


def test_time_limit(sandboxed):
    result = sandboxed("--timeout", "300ms", "--", "sleep", "60")
    assert result.status == 124 and result.seconds < 10
    assert "time limit" in result.errors


def test_signal_is_handed_on(start, work):
    child = start(["bailey", "run", "--", "sh", "-c", "trap 'echo got; exit 9' TERM; echo ready; while :; do sleep 0.1; done"], cwd=work)
    wait_for(lambda: b"ready" in child.output())
    os.kill(child.pid, signal.SIGTERM)
    result = child.wait()
    assert result.status == 9 and "got" in result.text


def test_background_children_do_not_outlive(sandboxed, work):
    # Detached from everything, ignoring signals: dies with the sandbox all the same (the fixture looks for leftovers).
    sandboxed("--", "sh", "-c", "trap '' HUP TERM; setsid sh -c 'sleep 30; touch late' >/dev/null 2>&1 & exit 0").check()
    assert not (work / "late").exists()


def test_bad_policy_is_told(sandboxed, work):
    result = sandboxed("--mode", "everything", "--", "true")
    assert result.status == 120 and "everything" in result.errors
    result = sandboxed("--allow", "not a host!", "--", "true")
    assert result.status in (120, 121)


def test_unknown_workspace(bailey, home):
    result = bailey("run", "--workspace", str(home / "absent"), "--", "true", cwd=home)
    assert result.status in (120, 121) and "workspace" in result.errors


def children_of(pid):
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("waited in vain")


@pytest.mark.parametrize("victim", ["supervisor", "init"])
@pytest.mark.parametrize("delay", [0, 0.002, 0.004, 0.05])
def test_killed_at_any_time_nothing_stays(start, work, victim, delay):
    child = start(["bailey", "run", "--", "sh", "-c", "mkdir -p .vscode; echo x > .vscode/tasks.json; echo ready; sleep 60"], cwd=work)
    if delay == 0.05:
        wait_for(lambda: b"ready" in child.output())
    else:
        time.sleep(delay)
    below = children_of(child.pid)
    target = child.pid if victim == "supervisor" or not below else below[0]
    os.kill(target, signal.SIGKILL)
    child.wait()
    for pid in below:
        wait_for(lambda: gone(pid))
    wait_for(lambda: not (work / ".vscode").exists())
