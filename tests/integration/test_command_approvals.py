# SPDX-License-Identifier: Apache-2.0
"""Escalated commands are asked about as hosts are: on every way, once, with a time limit, remembered where that was said."""
import json
import signal

import pytest

from kit.control import Control, sockets, wait_for
from test_exec import commands_of

COMMAND = "echo ran >> ran; sudo -n true; exit 4"


@pytest.fixture
def waiting(start, work, home, closing):
    """waiting(options..., command=): a `bailey exec` that asks by control, and a connection to its socket."""
    def begin(*more, command=COMMAND):
        child = start(["bailey", "exec", "--ask", "control", *more, command], cwd=work)
        wait_for(lambda: sockets(home) or not child.running(), "the control socket")
        path = sockets(home)[0]
        child.control = closing(Control(path))
        child.id = path.stem
        return child
    return begin


def audit_of(home):
    return "".join(file.read_text() for file in sorted(home.rglob("audit/*.jsonl")))


def test_another_terminal_answers(waiting, bailey, work, home):
    child = waiting()
    assert child.control("status")["state"] == "asking"
    shown = bailey("pending").check().text
    assert "wants to run echo ran >> ran; sudo -n true; exit 4 (" in shown
    assert f"bailey allow --command {child.id}" in shown
    question = json.loads(bailey("pending", "--json").check().text)[0]
    assert (question["kind"], question["command"], question["rule"]) == ("command", COMMAND, "elevate")
    assert question["segment"] == "sudo -n true" and question["reason"]
    assert not (work / "ran").exists()
    # There is no sandbox yet that could be changed.
    assert bailey("pause", child.id).status != 0
    assert bailey("allow", "example.com", "--sandbox", child.id).status != 0
    bailey("allow", "--command", child.id).check()
    assert child.wait().status == 4
    assert (work / "ran").read_text() == "ran\n"
    line = commands_of(audit_of(home))[-1]
    assert line["allowed"] and line["run_id"] == child.id and "approved by control (bailey allow)" in line["detail"]
    assert len(list(home.rglob("audit/*.jsonl"))) == 1  # one run, one record
    bailey("log", "verify").check()

    child = waiting()
    bailey("deny", "--command", child.id).check()
    assert child.wait().status == 10 and (work / "ran").read_text() == "ran\n"
    assert "denied by control (bailey deny)" in commands_of(audit_of(home))[-1]["detail"]
    assert bailey("allow", "--command", child.id).status != 0


def test_remembered(waiting, bailey, work, home):
    child = waiting()
    bailey("allow", "--command", child.id, "--scope", "workspace").check()
    assert child.wait().status == 4
    assert bailey("exec", "--ask", "control", COMMAND, cwd=work).status == 4  # nobody is asked again
    assert "approved before" in commands_of(audit_of(home))[-1]["detail"]
    other = home / "other"
    other.mkdir()
    assert bailey("exec", COMMAND, cwd=other).status == 10  # another workspace
    assert bailey("exec", COMMAND + " ", cwd=work).status == 10  # another command
    bailey("allow", "--forget", "--command", COMMAND, cwd=work).check()
    assert bailey("exec", COMMAND, cwd=work).status == 10
    child = waiting()
    bailey("deny", "--command", child.id, "--scope", "always").check()
    assert child.wait().status == 10
    assert bailey("exec", "--ask", "control", COMMAND, cwd=other).status == 10
    assert "denied before" in commands_of(audit_of(home))[-1]["detail"]


def test_time_is_over_and_askers_that_go(waiting, bailey, work, home):
    child = waiting("--ask-timeout", "1s")
    assert child.wait().status == 10
    assert "nobody answered in time" in commands_of(audit_of(home))[-1]["detail"]
    child = waiting()
    child.process.send_signal(signal.SIGTERM)
    assert child.wait().status == 10
    child = waiting()
    bailey("kill", child.id).check()
    assert child.wait().status == 10
    assert not (work / "ran").exists() and not sockets(home)
    assert "no longer asked: " in audit_of(home)


def test_what_cannot_be_shown_is_not_asked(bailey, work):
    result = bailey("exec", "--ask", "control", "sudo true" + " " * 5000 + "; touch ran", cwd=work)
    assert result.status == 10 and "too long to be shown" in result.errors


def test_escapes_in_a_command(waiting, bailey):
    child = waiting(command="sudo ls '\x1b[2J\x1b[31m\n\u202eall is well'")
    shown = bailey("pending").check().text
    assert "\x1b" not in shown and "\u202e" not in shown and shown.count("\n") == 1 and "\\x1b[2J" in shown
    bailey("deny", "--command", child.id).check()
    assert child.wait().status == 10


def test_webhook_and_hook(start, work, receiver, home, config):
    receiver.answer(b'{"answer":"allow"}')
    config.write_text(f"approval: {{ webhook: 'http://127.0.0.1:{receiver.server_port}/' }}\n")
    execute = ["bailey", "exec", "--ask", "control", COMMAND]
    assert start(execute, cwd=work).wait().status == 4
    told = receiver.got[2]
    assert told["event"] == "ask" and told["question"]["kind"] == "command" and told["question"]["command"] == COMMAND
    assert f"bailey allow --command {told['sandbox']}" in told["text"]
    config.write_text(f"approval: {{ command: \"cat > {home}/told; echo '{{\\\"answer\\\": \\\"deny\\\"}}'\" }}\n")
    assert start(execute, cwd=work).wait().status == 10
    assert json.loads((home / "told").read_text())["question"]["rule"] == "elevate"
