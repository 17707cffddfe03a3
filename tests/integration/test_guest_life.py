# SPDX-License-Identifier: Apache-2.0
"""Guests: made, started, used, left alone, stopped, packed, brought back, deleted. As an ordinary user with subordinate ids the guest
has an id of its own; as root, or without them, it has the user's."""
import functools
import http.server
import json
import os
import pathlib
import pty
import select
import signal
import sqlite3
import subprocess
import threading
import time

import pytest

from conftest import program
from kit.process import PATIENCE, wait_until


@pytest.fixture
def guest(bailey):
    """guest("exec", NAME, ...) gives its Result. Whatever runs at the end is stopped, and deleted."""
    def call(*words, **more):
        return bailey("guest", *words, **more)
    yield call
    for row in json.loads(bailey("guest", "ls", "--json").text or "[]"):
        bailey("guest", "delete", "--force", row["name"])


@pytest.fixture
def top(home):
    return home / ".local/state/bailey/guests"


def rows(guest):
    return {row["name"]: row for row in json.loads(guest("ls", "--json").check().text)}


def state(guest, name):
    return rows(guest)[name]["state"]


def inside(guest, name, script, **more):
    return guest("exec", name, "--", "sh", "-c", script, **more)


def test_an_open_in_a_guest_asks(guest, home, bailey, start):
    """What is in the user's home is not there for a guest; a file that a person hands over is, once. Keys are not asked about."""
    for name in ("docs", ".ssh"):
        (home / name).mkdir()
        (home / name / "one").write_text(f"from {name}\n")
    guest("create", "--ask-path", home, "one").check()
    for scope, status in (("once", 0), ("sandbox", 5)):
        child = start(["bailey", "guest", "exec", "one", "--", "cat", home / "docs/one"])
        [question] = wait_until(lambda: json.loads(bailey("pending", "--json").check().text))
        assert question["access"] == f"read {home}/docs/one", question
        answer = bailey("allow", "--access", f"{question['sandbox']}/{question['question']}", "--scope", scope)
        assert answer.status == status and (status == 0 or "--scope once" in answer.errors), answer
        ended = child.wait(60)
        assert (ended.status, ended.text) == ((0, "from docs\n") if status == 0 else (1, "")), ended
    assert inside(guest, "one", f"cat {home}/.ssh/one").status == 1 and bailey("pending").check().text == ""


def test_a_guest_keeps_what_it_has(guest, home, top):
    guest("create", "one").check()
    assert state(guest, "one") == "ready"
    guest("start", "one").check()
    assert state(guest, "one") == "running"
    assert inside(guest, "one", "pwd; echo kept > note; echo $HOME").check().text == f"{home}\n{home}\n"
    guest("stop", "one").check()
    assert state(guest, "one") == "stopped"
    assert inside(guest, "one", "cat note").check().text == "kept\n", "exec starts a guest that does not run"
    where = pathlib.Path(rows(guest)["one"]["home"])
    assert (where / "note").read_text() == "kept\n"
    (where / "from-host").write_text("hello\n")
    assert inside(guest, "one", "cat from-host; echo more >> from-host").check().text == "hello\n"
    assert (where / "from-host").read_text() == "hello\nmore\n"
    guest("delete", "--force", "one").check()
    assert rows(guest) == {} and list(top.iterdir()) == []
    assert guest("start", "one").status == 4


def test_status_signals_and_streams(guest):
    guest("create", "one").check()
    assert inside(guest, "one", "exit 7").status == 7
    assert inside(guest, "one", "kill -9 $$").status == 137
    missing = guest("exec", "one", "--", "no-such-program")
    assert missing.status == 127 and "no-such-program" in missing.errors
    assert guest("exec", "one", "--", "/etc/passwd").status == 126
    both = inside(guest, "one", "echo out; echo err >&2").check()
    assert both.text == "out\n" and both.errors == "err\n"
    data = bytes(range(256)) * 8192
    assert guest("exec", "one", "--", "cat", stdin=data).check().out == data, "more than a pipe holds, both ways at once"
    assert guest("exec", "one", "--", "head", "-c", "3", stdin=data).check().out == data[:3]
    assert guest("exec", "-C", "/usr", "--set", "NAME=a b", "one", "--", "sh", "-c", 'pwd; echo "$NAME"').check().text == "/usr\na b\n"
    assert guest("exec", "-C", "/no/such", "one", "--", "pwd").status in (126, 127)
    assert guest("exec", "one").status == 120


def test_what_one_command_starts_is_there_for_the_next(guest):
    guest("create", "one").check()
    inside(guest, "one", "(while :; do sleep 1; done) > /dev/null 2>&1 & echo $! > pid; echo temporary > /tmp/here").check()
    assert inside(guest, "one", 'kill -0 $(cat pid) && cat /tmp/here').check().text == "temporary\n"
    guest("stop", "one").check()
    assert inside(guest, "one", 'kill -0 $(cat pid) 2>/dev/null || echo gone; cat /tmp/here 2>/dev/null || echo none').check().text == "gone\nnone\n"


def test_a_command_ends_with_whoever_started_it(guest, start):
    guest("create", "one").check()
    guest("start", "one").check()
    child = start(["bailey", "guest", "exec", "one", "--", "sh", "-c", "echo $$ > pid; exec sleep 600"])
    wait_until(lambda: inside(guest, "one", "test -s pid").status == 0)
    child.process.kill()
    child.wait()
    wait_until(lambda: inside(guest, "one", "kill -0 $(cat pid) 2>/dev/null").status != 0)


def test_signals_reach_the_command(guest, start):
    guest("create", "one").check()
    guest("start", "one").check()
    child = start(["bailey", "guest", "exec", "one", "--", "sh", "-c", "trap 'echo got; exit 5' TERM; echo ready; while :; do sleep 0.1; done"])
    wait_until(lambda: b"ready" in child.output())
    os.kill(child.pid, signal.SIGTERM)
    result = child.wait()
    assert result.status == 5 and "got" in result.text, result


def test_jobs_survive_the_terminal(guest):
    guest("create", "one").check()
    number = guest("exec", "-d", "one", "--", "sh", "-c", "echo begun; read line < fifo || sleep 600").check().text.strip()
    assert number == "1"
    inside(guest, "one", "test -p fifo || true")
    wait_until(lambda: "begun" in guest("logs", "one").text)
    second = guest("exec", "-d", "one", "--", "sh", "-c", "printf 'a\\033[31mb\\n'; echo wrong >&2; exit 3").check().text.strip()
    wait_until(lambda: json.loads(guest("jobs", "--json", "one").text)[1]["state"] == "ended")
    first, other = json.loads(guest("jobs", "--json", "one").check().text)
    assert first["state"] == "running" and first["status"] is None
    assert other["status"] == 3 and other["number"] == 2 and other["command"].startswith("sh -c")
    text = guest("logs", "one", second).check().text
    assert "wrong" in text and "\033" not in text and "\\x1b" in text, text
    assert "\033[31m" in guest("logs", "--raw", "one", second).check().text
    assert guest("logs", "one", "9").status == 4 and guest("logs", "one", "x").status == 2
    guest("stop", "one").check()
    first, other = json.loads(guest("jobs", "--json", "one").text)
    assert first["state"] in ("ended", "lost") and first["status"] >= 128, "it was ended with the guest"
    missing = guest("exec", "-d", "one", "--", "no-such-program")
    assert missing.status == 127, missing


def test_logs_can_be_followed(guest):
    guest("create", "one").check()
    guest("exec", "-d", "one", "--", "sh", "-c", "for i in 1 2 3; do echo line $i; sleep 0.2; done").check()
    assert guest("logs", "-f", "one").check().text == "line 1\nline 2\nline 3\n"


def talk(argv, environment, lines, until):
    """A terminal: types the lines, one after the other, and gives all that was shown."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(argv[0], argv, environment)
    shown, typed = b"", 0
    deadline = time.monotonic() + PATIENCE
    try:
        while until not in shown and time.monotonic() < deadline:
            if select.select([fd], [], [], 0.2)[0]:
                try:
                    data = os.read(fd, 4096)
                except OSError:
                    break
                if not data:
                    break
                shown += data
            if typed < len(lines) and shown.endswith((b"$ ", b"# ")):
                os.write(fd, lines[typed].encode() + b"\n")
                typed += 1
                shown += b"\n"
    finally:
        os.close(fd)
        os.waitpid(pid, 0)
    return shown.decode("utf-8", "replace")


def test_a_shell_has_a_terminal(guest, environment):
    guest("create", "one").check()
    guest("start", "one").check()
    shown = talk([str(program("bailey")), "guest", "shell", "one"], {**environment, "PS1": "$ "},
                 ["tty; stty size; test -t 0 && echo is-a-terminal; echo E''ND", "exit"], b"END\r\n")
    assert "/dev/pts/" in shown and "is-a-terminal" in shown, shown


def test_idle_guests_end(guest):
    guest("create", "--idle", "1s", "one").check()
    guest("start", "one").check()
    wait_until(lambda: state(guest, "one") == "stopped")


def test_where_the_supervisor_dies_everything_dies(guest, bailey):
    guest("create", "one").check()
    inside(guest, "one", "(exec sleep 987654) > /dev/null 2>&1 &").check()
    guest("exec", "-d", "one", "--", "sleep", "600").check()
    run = json.loads(guest("show", "--json", "one").text)["sandbox"]
    pid = next(row["pid"] for row in json.loads(bailey("ps", "--json").text) if row["sandbox"] == run)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: state(guest, "one") == "stopped")
    shown = json.loads(guest("show", "--json", "one").text)
    assert "without a word" in shown["reason"], shown
    assert json.loads(guest("jobs", "--json", "one").text)[0]["state"] == "lost"
    assert b"987654" not in subprocess.run(["ps", "axo", "args"], capture_output=True, check=True).stdout
    inside(guest, "one", "true").check()


def test_kill_and_ps_know_guests(guest, bailey):
    guest("create", "one").check()
    guest("start", "one").check()
    row = json.loads(bailey("ps", "--json").text)[0]
    assert row["guest"] == "one" and row["command"] == ["guest", "one"]
    bailey("kill", row["sandbox"]).check()
    wait_until(lambda: state(guest, "one") == "stopped")


def test_names(guest, home):
    guest("create", "one").check()
    assert guest("create", "one").status == 1
    for bad in ("", "a b", "../x", "-x", "x" * 33, "a/b", ".hidden", "new\nline"):
        assert guest("create", "--", bad).status == 2, bad
    assert set(rows(guest)) == {"one"}
    guest("start", "one").check()
    guest("rename", "one", "two").check()
    assert inside(guest, "two", "echo same").check().text == "same\n"
    guest("create", "one").check()
    assert guest("rename", "one", "two").status == 1
    assert set(rows(guest)) == {"one", "two"}


def test_a_running_guest_is_not_deleted_by_accident(guest):
    guest("create", "one").check()
    guest("start", "one").check()
    refused = guest("delete", "one")
    assert refused.status == 5 and "--force" in refused.errors
    assert state(guest, "one") == "running"
    for verb in (("archive", "one"), ("restore", "one", "x"), ("start", "one")):
        assert guest(*verb).status != 0
    assert state(guest, "one") == "running"


def test_a_home_can_be_kept(guest):
    guest("create", "one").check()
    inside(guest, "one", "echo precious > file").check()
    where = pathlib.Path(rows(guest)["one"]["home"])
    guest("stop", "one").check()
    guest("delete", "--keep-home", "one").check()
    assert (where / "file").read_text() == "precious\n" and rows(guest) == {}
    guest("create", "one").check()
    assert pathlib.Path(rows(guest)["one"]["home"]) != where
    if os.geteuid() != 0:
        assert rows(guest)["one"]["uid"] != where.stat().st_uid, "the id of a home that is there is not given again"
        subprocess.run(["unshare", "-r", "--map-auto", "rm", "-rf", str(where.parent)], check=True)


def test_options_are_kept_with_the_guest(guest, work):
    (work / "data").write_text("granted\n")
    work.chmod(0o755)
    guest("create", "--read", str(work), "--env", "COLOUR=blue", "one").check()
    assert inside(guest, "one", f"cat {work}/data; echo $COLOUR; touch {work}/x 2>/dev/null || echo read-only").check().text == "granted\nblue\nread-only\n"
    shown = json.loads(guest("show", "--json", "one").check().text)
    assert {"option": "env", "value": "COLOUR=blue"} in shown["options"]
    assert [step["step"] for step in shown["steps"]] == ["start", "create", "create"]
    assert guest("create", "--no-such", "two").status == 2


def test_a_path_means_what_it_meant_where_it_was_typed(guest, home, work):
    """The supervisor of a guest stands in the root directory; an option is from somewhere else."""
    (work / "data").mkdir()
    (work / "data/one").write_text("granted\n")
    (work / "more").write_text("for one start\n")
    (home / "guest.yaml").write_text("process: {env: {set: {FROM: file}}}\n")
    guest("create", "--policy", os.path.relpath(home / "guest.yaml", work), "--read", "data", "--deny-read", "**/*.hidden", "one", cwd=work).check()
    kept = guest("show", "one").check().text
    assert f"--policy {home}/guest.yaml" in kept and f"--read {work}/data" in kept and "--deny-read **/*.hidden" in kept, kept
    guest("start", "--read", "more", "one", cwd=work).check()
    assert inside(guest, "one", f"cat {work}/data/one {work}/more; echo $FROM").check().text == "granted\nfor one start\nfile\n"
    guest("set", "--deny-read", "data/one", "one", cwd=work).check()
    assert f"--deny-read {work}/data/one" in guest("show", "one").check().text


@pytest.mark.parametrize("words, says", [
    (["--policy", "missing.yaml"], "cannot open missing.yaml"),
    (["--policy", "wrong.yaml"], "wrong.yaml:1:1: unknown key 'nonsense'"),
    (["--bridge", "git"], "works with repositories, and none is named"),
    (["--allow", "not a host"], "not a host"),
])
def test_what_no_start_could_use_is_not_kept(guest, work, words, says):
    (work / "wrong.yaml").write_text("nonsense: 1\n")
    refused = guest("create", *words, "one", cwd=work)
    assert refused.status == 3 and says in refused.errors, str(refused)
    assert not rows(guest), "nothing was made"
    guest("create", "--allow", "example.com", "one").check()
    before = guest("show", "one").text
    refused = guest("set", *words, "one", cwd=work)
    assert refused.status == 3 and says.replace("missing", f"{work}/missing", 1) in refused.errors.replace(f"{work}/wrong", "wrong"), str(refused)
    assert guest("show", "one").text == before


def test_a_repository_is_cloned_into_it(guest, tmp_path):
    """From inside, under its policy: what it may not reach it does not clone, and the guest is there all the same."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*"]
    project, served = tmp_path / "project", tmp_path / "served"
    served.mkdir()
    subprocess.run([*git, "init", "-q", str(project)], check=True)
    (project / "main.c").write_text("int main(void) { return 0; }\n")
    subprocess.run([*git, "-C", str(project), "add", "."], check=True)
    subprocess.run([*git, "-C", str(project), "commit", "-qm", "first"], check=True)
    subprocess.run([*git, "clone", "-q", "--bare", str(project), str(served / "app.git")], check=True)
    subprocess.run([*git, "-C", str(served / "app.git"), "update-server-info"], check=True)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(served))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/app.git"
        refused = guest("create", "--clone", url, "two")
        made = guest("create", "--host-port", str(server.server_port), "--clone", url, "one")
        server.shutdown()
    assert refused.status != 0 and "the guest is there, but git clone failed inside it" in refused.errors, refused
    assert state(guest, "two") == "running" and inside(guest, "two", "ls -A").check().text == ""
    assert made.check().status == 0
    assert inside(guest, "one", "cat app/main.c; git -C app log --oneline | wc -l").check().text.endswith("return 0; }\n1\n")
    assert inside(guest, "one", "stat -c %u app").check().text.strip() == inside(guest, "one", "id -u").check().text.strip()


def test_a_question_is_answered_from_outside(guest, bailey, origin, hosts):
    guest("create", "--ask", "control", "--ask-timeout", "60s", "--allow-private", f"127.0.0.1:{origin.port}", "one").check()
    guest("start", "--hosts", str(hosts), "one").check()
    guest("exec", "-d", "one", "--", "curl", "-sS", f"http://origin.test:{origin.port}/asked").check()
    wait_until(lambda: "origin.test" in bailey("pending").text)
    bailey("allow", "--scope", "once", f"origin.test:{origin.port}").check()
    wait_until(lambda: json.loads(guest("jobs", "--json", "one").text)[0]["state"] == "ended")
    assert json.loads(guest("jobs", "--json", "one").text)[0]["status"] == 0, guest("logs", "one").text
    guest("exec", "-d", "one", "--", "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", f"http://other.test:{origin.port}/").check()
    wait_until(lambda: "other.test" in bailey("pending").text)
    bailey("deny", "--scope", "once", f"other.test:{origin.port}").check()
    assert guest("logs", "-f", "one", "2").check().text == "403"


def test_a_rule_for_one_guest(guest, bailey, home, origin, hosts):
    """Live while it runs, at the next start, for nobody else, and gone with the guest."""
    fetch = f"curl -sS -o /dev/null -w '%{{http_code}}' http://origin.test:{origin.port}/"
    for name in ("one", "two"):
        guest("create", "--allow-private", f"127.0.0.1:{origin.port}", name).check()
        guest("start", "--hosts", str(hosts), name).check()
    assert inside(guest, "one", fetch).text == "403"
    bailey("allow", "--guest", "one", f"origin.test:{origin.port}").check()
    assert inside(guest, "one", fetch).text == "200"
    assert inside(guest, "two", fetch).text == "403"
    (rule,) = json.loads(guest("show", "--json", "one").check().text)["rules"]
    assert rule["rule"] == "allow" and rule["pattern"] == f"origin.test:{origin.port}" and len(rule["approved"]) == len("2026-11-15"), rule
    assert f"allow origin.test:{origin.port} (approved {rule['approved']})" in guest("show", "one").check().text
    assert json.loads(guest("show", "--json", "two").check().text)["rules"] == []
    guest("stop", "one").check()
    guest("start", "--hosts", str(hosts), "one").check()
    assert inside(guest, "one", fetch).text == "200"
    bailey("allow", "--guest", "two", f"origin.test:{origin.port}").check()
    bailey("deny", "--guest", "one", f"origin.test:{origin.port}").check()
    assert [inside(guest, name, fetch).text for name in ("one", "two")] == ["403", "200"], "at once, and for this one"
    assert [rule["rule"] for rule in json.loads(guest("show", "--json", "one").check().text)["rules"]] == ["deny"]
    assert "stays refused" in bailey("allow", "--scope", "always", f"origin.test:{origin.port}").check(5).errors
    assert inside(guest, "one", fetch).text == "403"
    bailey("deny", "--guest", "one", "--forget", f"origin.test:{origin.port}").check()
    assert inside(guest, "one", fetch).text == "200", "what is remembered for all is read again"
    bailey("allow", "--guest", "one", f"origin.test:{origin.port}").check()
    left = bailey("allow", "--guest", "one", "--forget", f"origin.test:{origin.port}").check().errors
    assert f"origin.test:{origin.port} stays under `allow`" in left and f"bailey allow --forget origin.test:{origin.port}" in left, left
    assert [inside(guest, name, fetch).text for name in ("one", "two")] == ["200", "200"], "and stays, as do the rules of others"
    assert json.loads(guest("show", "--json", "one").check().text)["rules"] == []
    assert [rule["rule"] for rule in json.loads(guest("show", "--json", "two").check().text)["rules"]] == ["allow"]
    bailey("allow", "--forget", f"origin.test:{origin.port}").check()
    assert [inside(guest, name, fetch).text for name in ("one", "two")] == ["403", "200"], "a guest keeps what is its own"
    assert [rule["rule"] for rule in json.loads(guest("show", "--json", "two").check().text)["rules"]] == ["allow"]
    bailey("allow", "--guest", "one", f"origin.test:{origin.port}").check()
    assert "stays" not in bailey("allow", "--guest", "one", "--forget", f"origin.test:{origin.port}").check().errors
    assert inside(guest, "one", fetch).text == "403", "at once"
    guest("stop", "one").check()
    guest("start", "--hosts", str(hosts), "one").check()
    assert inside(guest, "one", fetch).text == "403"
    assert bailey("allow", "--guest", "none", "origin.test").status == 4
    for words in (("--sandbox", "one"), ("--workspace", home)):
        assert f"--guest does not go with {words[0]}" in bailey("allow", "--guest", "one", *words, "origin.test").check(2).errors
    bailey("allow", "--guest", "one", f"origin.test:{origin.port}").check()
    approved = home / ".local/state/bailey/approved"
    assert "origin.test" in approved.read_text()
    assert approved.read_text().count("origin.test") == 2
    guest("delete", "--force", "one").check()
    assert approved.read_text().count("origin.test") == 1
    guest("delete", "--force", "two").check()
    assert "origin.test" not in approved.read_text()


def test_a_refusal_that_is_taken_back_while_the_policy_cannot_be_read(guest, bailey, config, origin, hosts):
    """What was allowed is gone at once; what was refused stays so, since it may be refused for all."""
    host = f"origin.test:{origin.port}"
    fetch = f"curl -sS -o /dev/null -w '%{{http_code}}' http://{host}/"
    guest("create", "--allow", host, "--allow-private", f"127.0.0.1:{origin.port}", "one").check()
    guest("start", "--hosts", str(hosts), "one").check()
    identity = rows(guest)["one"]["sandbox"]
    bailey("deny", "--scope", "always", host).check()
    bailey("deny", "--guest", "one", host).check()
    assert inside(guest, "one", fetch).text == "403"
    config.write_text("no: such: thing\n")
    refused = bailey("deny", "--guest", "one", "--forget", host)
    assert refused.status != 0 and "what was refused stays refused" in refused.errors, refused
    assert inside(guest, "one", fetch).text == "403"
    config.unlink()
    bailey("reload", identity).check()
    assert inside(guest, "one", fetch).text == "403", "as it is for all"
    bailey("deny", "--forget", host).check()
    assert inside(guest, "one", fetch).text == "200"


def test_a_guest_is_known_by_its_name(guest, bailey, start, origin, hosts):
    """Where sandboxes are named: in questions, events, the log, and in orders; by its new name after a rename."""
    guest("create", "--ask", "control", "--ask-timeout", "600s", "--allow-private", f"127.0.0.1:{origin.port}", "one").check()
    guest("start", "--hosts", str(hosts), "one").check()
    identity = rows(guest)["one"]["sandbox"]
    follow, lines = start(["bailey", "events", "-f", "--json", "one"]), start(["bailey", "events", "-f", "one"])
    guest("exec", "-d", "one", "--", "curl", "-sS", f"http://origin.test:{origin.port}/asked").check()
    [question] = wait_until(lambda: json.loads(bailey("pending", "--json", "one").check().text))
    assert (question["guest"], question["sandbox"], question["host"]) == ("one", identity, "origin.test"), question
    assert bailey("pending", "--json", identity[:6]).check().text == bailey("pending", "--json").check().text
    assert bailey("pending").check().text.startswith(f"guest one: {identity} ")
    asked = [json.loads(line) for line in wait_until(follow.output).splitlines()]
    assert all(event["guest"] == "one" and event["sandbox"] == identity for event in asked), asked
    assert wait_until(lines.output).decode().startswith(f"guest one: {identity} ")
    for words in (("log", "--run", "one"), ("events", "one")):
        wait_until(lambda words=words: "guest: one" in bailey(*words).check().text)
    assert json.loads(bailey("log", "verify", "--json", "--run", "one").check().text)["file"].count(identity) == 1

    guest("rename", "one", "uno").check()
    assert bailey("pending", "one").status == 4 and json.loads(bailey("pending", "--json", "uno").check().text)
    (row,) = json.loads(bailey("ps", "--json").check().text)
    assert (row["guest"], row["command"]) == ("uno", ["guest", "uno"]) and " guest uno (" in bailey("ps").check().text
    guest("create", "one").check()
    assert "the guest one is not running" in bailey("kill", "one").check(4).errors
    guest("start", "one").check()
    bailey("kill", "one").check()
    wait_until(lambda: state(guest, "one") == "stopped")
    assert state(guest, "uno") == "running", "who has the name now is meant, not who had it"
    bailey("allow", "--sandbox", "uno", "--scope", "sandbox", f"origin.test:{origin.port}").check()
    assert bailey("pending", "uno").check().text == ""
    wait_until(lambda: "origin.test" in bailey("log", "--all", "--run", "uno").check().text)
    bailey("pause", "uno").check()
    bailey("resume", "uno").check()
    bailey("kill", "uno").check()
    wait_until(lambda: state(guest, "uno") == "stopped")
    for words in (("kill", "uno"), ("kill", "../uno"), ("events", "uno"), ("log", "--run", "uno")):
        assert bailey(*words).status == 4, words
    assert identity in bailey("log", "--json", "--run", identity).check().text


def test_a_name_that_could_mean_two(guest, bailey, top):
    """An id, the beginning of one, and the name of a guest that does not run, or was killed: nobody else is met."""
    guest("create", "one").check()
    guest("start", "one").check()
    identity = rows(guest)["one"]["sandbox"]
    guest("create", identity[:4]).check()
    for words in (("pause",), ("kill",), ("log", "--run")):
        assert f"the guest {identity[:4]} is not running" in bailey(*words, identity[:4]).check(4).errors, words
    bailey("pause", identity[:5]).check()
    bailey("resume", identity).check()

    guest("create", identity).check()
    bailey("pause", identity).check()
    bailey("resume", identity).check()
    guest("start", identity).check()
    for words in (("kill",), ("pause",), ("log", "--run")):
        assert "give the beginning of the id" in bailey(*words, identity).check(2).errors, words
    assert state(guest, identity) == state(guest, "one") == "running"
    guest("stop", identity).check()

    database = top.parent / "guests.db"
    kept = database.rename(database.with_name("kept"))
    database.write_bytes(b"no database " * 400)
    assert "give the whole id" in bailey("kill", identity[:5]).errors
    bailey("pause", identity).check()
    bailey("resume", identity).check()
    os.replace(kept, database)

    pid = next(row["pid"] for row in json.loads(bailey("ps", "--json").text) if row["sandbox"] == identity)
    guest_id = rows(guest)["one"]["id"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: "the guest one is not running" in bailey("kill", "one").errors)
    assert (top / guest_id / "run.id").read_text().split()[0] == identity, "what it left is believed by nobody"
    assert bailey("log", "--run", "one").status == 4
    guest("start", "one").check()
    assert bailey("kill", "one").check().text != f"{identity}: killed\n"


def test_the_story(guest, bailey, home, top, work):
    """What a person does with one, from the first day to the last."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*"]
    subprocess.run([*git, "init", "-q", str(work)], check=True)
    (work / "main.c").write_text("int main(void) { return 0; }\n")
    subprocess.run([*git, "-C", str(work), "add", "."], check=True)
    subprocess.run([*git, "-C", str(work), "commit", "-qm", "first"], check=True)
    guest("create", "--read", str(work), "agent").check()
    guest("exec", "agent", "--", "git", "config", "--global", "safe.directory", "*").check()
    guest("exec", "agent", "--", "git", "clone", "-q", str(work), "project").check()
    guest("exec", "-d", "-C", str(home / "project"), "agent", "--", "sh", "-c", "echo working; cat main.c; sleep 600").check()
    wait_until(lambda: "working" in guest("logs", "agent").text)
    guest("snapshot", "agent", "good").check()
    assert json.loads(guest("jobs", "--json", "agent").text)[0]["state"] == "running", "it stood still and went on"
    inside(guest, "agent", "rm -rf project; mkdir -m 0 closed; ln -s /etc/passwd link; chmod 000 ~").check()
    guest("stop", "agent").check()
    guest("restore", "agent", "good").check()
    assert inside(guest, "agent", "cat project/main.c; ls -d closed link 2>/dev/null | wc -l").check().text.endswith("return 0; }\n0\n")
    guest("stop", "agent").check()
    guest("archive", "agent").check()
    assert state(guest, "agent") == "archived" and not pathlib.Path(rows(guest)["agent"]["home"]).exists()
    assert guest("start", "agent").status == 1
    guest("unarchive", "agent").check()
    assert inside(guest, "agent", "git -C project log --oneline | wc -l").check().text == "1\n"
    guest("create", "--from", "agent:good", "twin").check()
    assert inside(guest, "twin", "test -f project/main.c && echo same").check().text == "same\n"
    guest("delete", "--force", "twin").check()
    guest("delete", "--force", "agent").check()
    assert rows(guest) == {} and list(top.iterdir()) == []
    assert json.loads(bailey("ps", "--json").text or "[]") == []
    database = sqlite3.connect(home / ".local/state/bailey/guests.db")
    assert [row[0] for row in database.execute("select state from guests")] == ["deleted", "deleted"]
    database.close()
