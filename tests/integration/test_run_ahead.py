# SPDX-License-Identifier: Apache-2.0
"""The gateway starts beside a command whose last run needed it: it must be ready when somebody connects, and be as if it were not there as long as nobody
does."""
import os
import signal

import pytest

from kit.process import SLOW, descendants, name_of, wait_until

REQUEST = "curl -sS -m 60 http://origin.test:{}/"


@pytest.fixture
def allowed(origin, hosts, tmp_path):
    return ["--hosts", str(hosts), "--audit", str(tmp_path / "log"), "--allow", f"origin.test:{origin.port}", "--allow-private", f"origin.test:{origin.port}"]


def gateways(pid):
    return [process for process in descendants(pid) if name_of(process) == "bailey-gateway"]


@pytest.fixture
def needed(bailey, work, allowed, origin, tmp_path):
    """The last run of `sh` needed a gateway."""
    assert bailey("run", *allowed, "--", "sh", "-c", REQUEST.format(origin.port), cwd=work).check().text == "origin\n"
    (tmp_path / "log").unlink()


def begin(start, work, allowed, script):
    """A command that waits for `go`."""
    child = start(["bailey", "run", *allowed, "--", "sh", "-c", f"touch began; while [ ! -e go ]; do sleep 0.02; done; {script}"], cwd=work)
    wait_until((work / "began").exists, 30 * SLOW)
    return child


def test_nobody_connects(start, work, allowed, needed, tmp_path):
    """No record, no message, nothing left, whether it is ready or still starts when the command ends."""
    child = begin(start, work, allowed, "exit 3")
    wait_until(lambda: gateways(child.pid), 30 * SLOW)
    (work / "go").touch()
    result = child.wait(30 * SLOW)
    assert result.status == 3 and "gateway" not in result.errors
    assert "gateway" not in (tmp_path / "log").read_text()


def test_the_last_run_counts(bailey, start, work, allowed, needed, tmp_path):
    """A run that needed none: the next has none. Other programs have none because of it."""
    bailey("run", *allowed, "--", "sh", "-c", "sleep 0.05", cwd=work).check()
    for program in ("sh", "bash"):
        child = start(["bailey", "run", *allowed, "--", program, "-c", "sleep 0.3"], cwd=work)
        while child.process.poll() is None:
            assert gateways(child.pid) == []
        child.wait(30 * SLOW).check()


@pytest.mark.parametrize("program, kept", [(".hidden", False), ("n" * 100, False), ("with space", True), ("per%cent", True)])
def test_names_of_programs(bailey, work, allowed, origin, home, program, kept):
    (work / program).write_text(f"#!/bin/sh\n{REQUEST.format(origin.port)}\n")
    (work / program).chmod(0o755)
    for _ in range(2):
        assert bailey("run", *allowed, "--", f"./{program}", cwd=work).check().text == "origin\n"
    assert [mark.name for mark in home.rglob("ahead/*")] == [program] * kept


@pytest.mark.parametrize("milliseconds", range(0, 30, 5))
def test_command_that_ends_soon(bailey, work, allowed, needed, tmp_path, milliseconds):
    result = bailey("run", *allowed, "--", "sh", "-c", f"sleep {milliseconds / 1000}", cwd=work).check()
    assert result.errors == "" and "gateway" not in (tmp_path / "log").read_text()


def test_somebody_connects_while_it_waits(start, work, allowed, needed, origin, tmp_path):
    child = begin(start, work, allowed, REQUEST.format(origin.port))
    (ahead,) = wait_until(lambda: gateways(child.pid), 30 * SLOW)
    (work / "go").touch()
    assert child.wait(60 * SLOW).check().text == "origin\n"
    log = (tmp_path / "log").read_text()
    assert log.count("gateway started") == 1 and f"gateway started, pid {ahead}" in log


def test_somebody_connects_later(start, work, allowed, needed, origin, tmp_path):
    """Its memory is given back, and the next one starts when it is needed."""
    child = begin(start, work, allowed, REQUEST.format(origin.port))
    wait_until(lambda: gateways(child.pid), 30 * SLOW)
    wait_until(lambda: not gateways(child.pid), 30 * SLOW)
    (work / "go").touch()
    assert child.wait(60 * SLOW).check().text == "origin\n"
    assert (tmp_path / "log").read_text().count("gateway started") == 1


def test_it_dies_before_anybody_connects(start, work, allowed, needed, origin, tmp_path):
    child = begin(start, work, allowed, REQUEST.format(origin.port))
    (ahead,) = wait_until(lambda: gateways(child.pid), 30 * SLOW)
    os.kill(ahead, signal.SIGKILL)
    (work / "go").touch()
    result = child.wait(60 * SLOW).check()
    assert result.text == "origin\n" and "gateway" not in result.errors
    assert "gateway ended" not in (tmp_path / "log").read_text().split("gateway started")[0]


@pytest.mark.parametrize("verb, status", [("allow", 0), ("deny", 22)])
def test_rules_that_change_while_it_waits(bailey, start, work, hosts, needed, origin, tmp_path, verb, status):
    """It judges by the rules of the moment in which somebody connects."""
    options = ["--hosts", str(hosts), "--audit", str(tmp_path / "log"), "--allow-private", f"origin.test:{origin.port}",
               "--allow", f"other.test:{origin.port}" if verb == "allow" else f"origin.test:{origin.port}"]
    child = begin(start, work, options, "curl -sS --fail -m 60 http://origin.test:%d/" % origin.port)
    wait_until(lambda: gateways(child.pid), 30 * SLOW)
    bailey(verb, f"origin.test:{origin.port}").check()
    (work / "go").touch()
    assert child.wait(60 * SLOW).status == status


def test_policy_that_lets_nothing_be_reached(start, work, hosts, needed):
    child = begin(start, work, ["--hosts", str(hosts)], "sleep 0.2")
    (work / "go").touch()
    while child.process.poll() is None:
        assert gateways(child.pid) == []
    child.wait(30 * SLOW).check()


ATTEMPT = "exec 3<>/dev/tcp/198.51.100.7/80"


@pytest.fixture
def tried(bailey, work, allowed, tmp_path):
    """The last run of `bash` tried to reach something."""
    bailey("run", *allowed, "--", "bash", "-c", ATTEMPT, cwd=work)
    (tmp_path / "log").unlink()


@pytest.mark.parametrize("milliseconds", [0, 1, 2, 4, 6, 8, 10, 15, 20, 30])
def test_attempt_right_before_the_end(bailey, work, allowed, tried, tmp_path, milliseconds):
    """The gateway is still starting, or has just been told to go, when the command ends."""
    bailey("run", *allowed, "--", "bash", "-c", f"sleep {milliseconds / 1000}; {ATTEMPT}", cwd=work)
    assert '"198.51.100.7"' in (tmp_path / "log").read_text()


@pytest.mark.parametrize("seconds", [1.97, 2.0, 2.01, 2.02, 2.04])
def test_attempt_when_it_is_given_up(bailey, work, allowed, tried, tmp_path, seconds):
    result = bailey("run", *allowed, "--", "bash", "-c", f"sleep {seconds}; {ATTEMPT}", cwd=work)
    log = (tmp_path / "log").read_text()
    assert '"198.51.100.7"' in log and log.count("gateway started") == 1 and "gateway" not in result.errors
