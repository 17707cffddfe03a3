# SPDX-License-Identifier: Apache-2.0
"""libbailey as it is for macOS with the `bailey` for macOS, on Linux: it starts `bailey supervise`, which runs the command. What Seatbelt
does is not here."""
import signal

import pytest

from conftest import BUILD
from kit.mac import profile_env
from kit.process import wait_until

OK, E_TIMEOUT = 0, -10


@pytest.fixture
def api(mac, start, workspace, tmp_path):
    """api(settings and options, command): the Child of a program that runs the command by libbailey."""
    def go(options, *command, **more):
        return start([BUILD / "tests/tools/api-run-as-macos", mac, *options, "--", *command], cwd=workspace,
                     env={**profile_env(tmp_path), "SSL_CERT_FILE": "/nonexistent"}, **more)
    return go


CLOSED = ["mode=workspace-write"]


def parts(result):
    """(code, exit, signal, sandboxed), notice, violations, output."""
    head, _, output = result.text.partition("\n\n")
    lines = head.split("\n")
    return tuple(int(word) for word in lines[0].split()), lines[1], lines[2:], output


def test_a_command_runs_under_its_profile(api, workspace, tmp_path):
    result = api(CLOSED, "sh", "-c", "pwd; echo $TMPDIR; exit 7").wait()
    numbers, notice, violations, output = parts(result)
    assert numbers == (OK, 7, 0, 1) and violations == [], result
    assert "never yet run on a Mac" in notice
    assert output.splitlines()[0] == str(workspace) and result.errors == ""
    assert f'"{workspace}"' in (tmp_path / "profile.sb").read_text()


def test_a_signal_is_told_apart_from_a_status(api):
    assert parts(api(CLOSED, "sh", "-c", "kill -9 $$").wait())[0] == (OK, -1, signal.SIGKILL, 1)
    assert parts(api(CLOSED, "sh", "-c", "exit 137").wait())[0] == (OK, 137, 0, 1)


def test_a_program_that_is_not_there(api):
    assert parts(api(CLOSED, "no-such-program").wait())[0] == (OK, 127, 0, 1)


def test_what_macos_cannot_hold_is_refused_by_name(api):
    result = api(["mode=workspace-write", "filesystem.overlay=true"], "true").wait()
    assert result.status == 1 and "overlay" in result.text, result


def test_what_is_refused_is_a_violation(api, hosts, origin):
    target = f"origin.test:{origin.port}"
    ask = "curl -sS -m 60 -o /dev/null -w '%{http_code} '"
    result = api([f"network.allow={target}", f"network.allow_private={target}", "--hosts", str(hosts)], "sh", "-c",
                 f"{ask} http://{target}/; {ask} http://other.test:{origin.port}/").wait()
    numbers, _, violations, output = parts(result)
    assert numbers == (OK, 0, 0, 1) and output == "200 403 ", result
    assert violations == [f"network other.test:{origin.port} 1"]


@pytest.mark.parametrize("answer, status", [("yes", "200"), ("no", "403")])
def test_the_program_is_asked(answer, status, api, hosts, origin):
    target = f"origin.test:{origin.port}"
    result = api([f"network.allow_private=127.0.0.1:{origin.port}", "--hosts", str(hosts), "--answer", answer], "sh", "-c",
                 f"curl -sS -m 60 -o /dev/null -w '%{{http_code}}' http://{target}/").wait()
    assert parts(result)[3] == status and f"asked: origin.test {origin.port}" in result.errors, result


def test_an_update_judges_what_runs_already(api, hosts, origin):
    target = f"origin.test:{origin.port}"
    ask = f"curl -sS -m 60 -o /dev/null -w '%{{http_code}} ' http://{target}/; "
    result = api([f"network.allow={target}", f"network.allow_private={target}", "--hosts", str(hosts), "--then", f"network.deny={target}"], "sh", "-c",
                 f"{ask} touch update; while [ -e update ]; do sleep 0.1; done; {ask}").wait()
    assert parts(result)[3] == "200 403 ", result


def test_the_command_ends_with_the_program(api, workspace):
    child = api(CLOSED, "sh", "-c", "echo $$ > number; exec sleep 600")
    wait_until(lambda: (workspace / "number").exists() and (workspace / "number").read_text().strip())
    number = int((workspace / "number").read_text())
    child.signal(signal.SIGKILL)
    child.wait()

    def gone():
        try:
            return open(f"/proc/{number}/stat").read().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True
    wait_until(gone)


def test_time_that_is_over(api):
    result = api([*CLOSED, "process.timeout=1s"], "sleep", "600").wait()
    assert parts(result)[0][0] == E_TIMEOUT, result
