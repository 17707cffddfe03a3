# SPDX-License-Identifier: Apache-2.0
"""bailey exec: judged, asked about, run in the sandbox, captured."""
import json
import os
import pathlib
import re
import pty
import select
import time

import pytest

from conftest import program


@pytest.fixture
def work(tmp_path):
    directory = tmp_path / "work"
    directory.mkdir()
    return directory


@pytest.fixture
def execute(bailey, work):
    """execute("CMD", ...) and execute.json("CMD", ...) in the workspace, with nobody to ask."""
    def plain(*words, **more):
        return bailey("exec", *words, cwd=work, **more)

    def as_json(*words, **more):
        result = plain("--json", *words, **more)
        return result, json.loads(result.text)
    plain.json = as_json
    return plain


def test_output_passes_through_and_the_status_is_the_commands(execute, work):
    result = execute("echo out; echo err >&2; echo $SANDBOX_RUNTIME > made; exit 3")
    assert (result.status, result.text, result.errors) == (3, "out\n", "err\n")
    assert (work / "made").read_text() == "1\n"


def test_args_are_not_interpreted(execute):
    assert execute("--args", "--", "echo", "$HOME", "*", "a b").check().text == "$HOME * a b\n"
    assert execute("--args", "--", "no-such-program").status == 127


def test_json_tells_what_came_of_it(execute):
    result, told = execute.json("echo out; echo err >&2; exit 3")
    assert result.status == 3
    assert told.pop("duration_ms") >= 0
    assert told == {"outcome": "ended", "error": None, "decision": "allow", "rule": "readers", "reason": "it only reads",
                    "segment": "echo out", "exit_code": 3, "signal": None, "stdout": "out\n", "stderr": "err\n",
                    "truncated": False, "sandboxed": True, "violations": []}


def test_json_with_a_limit_a_signal_and_odd_bytes(execute):
    _, told = execute.json("--output-limit", "4", "echo 123456789")
    assert told["stdout"] == "1234" and told["truncated"] and told["exit_code"] == 0
    _, told = execute.json("--approved", "kill -KILL $$")
    assert told["signal"] == 9 and told["exit_code"] is None
    _, told = execute.json("printf 'a\\377b\\0c'")
    assert told["stdout"] == "a\ufffdb\0c"


def test_a_timeout(execute):
    result, told = execute.json("--timeout", "1s", "sleep 60 & sleep 61")
    assert result.status == 124 and told["outcome"] == "timeout"
    result, told = execute.json("--timeout", "2s", "echo so far; echo bad >&2; sleep 60")
    assert result.status == 124 and told["outcome"] == "timeout"
    assert (told["stdout"], told["stderr"], told["exit_code"]) == ("so far\n", "bad\n", None)


def test_forbidden_and_escalated_do_not_run(execute, work):
    result = execute("touch ran; rm -rf /")
    assert result.status == 20 and "delete-root" in result.errors
    assert execute("--approved", "touch ran; rm -rf /").status == 20
    result, told = execute.json("touch ran; sudo ls")
    assert result.status == 10 and told["outcome"] == "escalated-command"
    assert (told["rule"], told["segment"]) == ("elevate", "sudo ls") and told["reason"]
    assert execute("--args", "--", "sudo", "ls").status == 10
    assert not (work / "ran").exists()


def test_the_home_directory_is_not_swept_away(bailey, environment):
    home = pathlib.Path(environment["HOME"])
    (home / "important").write_text("1")
    for command in ("rm -rf ./*", "d=.; rm -rf $d/*", "find . -delete"):
        result = bailey("exec", "--home", "real", command, cwd=home)
        assert result.status == 20 and "delete-root" in result.errors, (command, result)
        result = bailey("exec", command, cwd=home)  # with a home of its own this is no workspace at all
        assert result.status == 20 and "home directory" in result.errors, (command, result)
    assert (home / "important").read_text() == "1"


def test_approved_by_the_caller_runs_and_is_recorded(execute, work, tmp_path):
    audit = tmp_path / "audit.jsonl"
    assert execute("--approved", "--audit", str(audit), "touch ran; sudo -n true; exit 4").status == 4
    assert (work / "ran").exists()
    line = commands_of(audit.read_text())[0]
    assert line["allowed"] and line["rule"] == "elevate" and line["detail"].startswith("approved by the caller: ")


def commands_of(text):
    """The lines about commands in an audit log."""
    return [line for line in map(json.loads, text.splitlines()) if line["kind"] == "command"]


def test_every_attempt_is_on_record(execute, tmp_path):
    audit = tmp_path / "audit.jsonl"
    for command in ("rm -rf /", "sudo ls '\n\x1b[2J'", "echo hello"):
        execute("--audit", str(audit), command)
    forbidden, escalated, ran = commands_of(audit.read_text())
    assert (forbidden["method"], forbidden["allowed"], forbidden["rule"]) == ("forbidden", False, "delete-root")
    assert forbidden["path"] == "rm -rf /" and forbidden["reason"] == "deny-rule"
    assert (escalated["method"], escalated["allowed"], escalated["reason"]) == ("escalated", False, "ask")
    assert "nobody is there to be asked" in escalated["detail"] and escalated["path"] == "sudo ls '\n\x1b[2J'"
    assert (ran["method"], ran["allowed"], ran["path"]) == ("allow", True, "echo hello")
    assert b"\x1b" not in audit.read_bytes()
    # Not where the sandbox could change it: then nothing runs, and nothing is written there.
    inside = execute("--audit", "here.jsonl", "sudo ls")
    assert inside.status == 10 and "could change its own record" in inside.errors
    assert "here.jsonl" not in os.listdir(audit.parent / "work")


def test_a_rule_of_the_policy(execute, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("commands:\n  - { name: no-apply, decision: escalate, argv: [terraform, apply], reason: changes production }\n")
    result, told = execute.json("--policy", str(policy), "terraform apply")
    assert result.status == 10 and (told["rule"], told["reason"]) == ("no-apply", "changes production")


def test_what_was_refused_is_told(execute):
    _, told = execute.json("curl -s -m 20 http://refused.test/ >/dev/null")
    (violation,) = told["violations"]
    assert violation["operation"] == "network" and violation["target"] == "refused.test:80" and violation["count"] >= 1
    assert violation["process"] is None  # a connection does not say whose it is
    _, told = execute.json("--trace-denials", "--deny-read", "/etc/hostname", "cat /etc/hostname")
    (violation,) = [v for v in told["violations"] if v["target"] == "/etc/hostname"]
    assert violation["operation"] == "read" and re.fullmatch(r"cat\[\d+\]", violation["process"]), violation


def test_mistakes(execute):
    assert execute("two", "words").status == 120
    assert execute().status == 120
    assert execute("--policy", "/nowhere.yaml", "true").status == 121
    result, told = execute.json("--policy", "/nowhere.yaml", "true")
    assert told["outcome"] == "config-invalid" and "/nowhere.yaml" in told["error"]


def on_terminal(environment, work, words, answer, patience=60):
    """Runs `bailey exec` on a terminal of its own, types the answer when it is asked, and gives status and output."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(work)
        os.execve(program("bailey"), ["bailey", "exec", *words], environment)
    said, typed, end = b"", False, time.monotonic() + patience
    while time.monotonic() < end:
        ready, _, _ = select.select([terminal], [], [], 1)
        if ready:
            try:
                chunk = os.read(terminal, 65536)
            except OSError:
                break
            if not chunk:
                break
            said += chunk
        if not typed and b"always or no: " in said:
            os.write(terminal, answer)
            typed = True
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), said.decode()


def test_a_person_is_asked(environment, work):
    words = ["touch ran; sudo -n true; exit 4"]
    status, said = on_terminal(environment, work, words, b"no\n")
    assert status == 10 and "elevate" in said and "sudo -n true" in said and not (work / "ran").exists()
    # What a terminal may send by itself is no answer: it is asked again, until the time is over.
    status, said = on_terminal(environment, work, ["--ask-timeout", "2s", *words], b"\x1b[1;1Ronce\n")
    assert status == 10 and said.count("always or no: ") == 2 and not (work / "ran").exists()
    status, said = on_terminal(environment, work, words, b"once\n")
    assert status == 4 and (work / "ran").exists()
    assert on_terminal(environment, work, ["--json", "sudo -n true; exit 4"], b"once\n")[0] == 4


def test_the_question_cannot_be_dressed_up(environment, work):
    status, said = on_terminal(environment, work, ["sudo ls '\x1b[2J\x1b[31mall is well'"], b"no\n")
    assert status == 10 and "\x1b[2J" not in said and "\\x1b[2J" in said


def test_nobody_is_asked_with_ask_never(environment, work):
    status, said = on_terminal(environment, work, ["--ask", "never", "sudo ls"], b"once\n")
    assert status == 10 and "always or no: " not in said
