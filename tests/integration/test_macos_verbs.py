# SPDX-License-Identifier: Apache-2.0
"""`bailey` as it is for macOS, run on Linux: the macOS side of each module in the place of the Linux side (tests/tools/meson.build). What
it decides must be what Bailey decides on Linux."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import pytest

from conftest import BUILD
from kit.mac import beside_each_other, profile_env
from kit.process import wait_until

EXIT_USAGE, EXIT_UNAVAILABLE = 2, 4
VERBS = ["run", "plan", "guest", "kept", "init", "import", "policy", "profile", "why", "check", "secrets", "trust", "log", "doctor", "version", "help"]
POLICY = """
network:
  allow: [api.ok.test, "*.example.org:8443"]
  deny: [bad.example.org]
  rules:
    - host: git.ok.test
      methods: [GET]
      paths: [/v1/**]
filesystem:
  deny_read: ["**/*.pem", "~/.private"]
  write: [out]
"""


@pytest.fixture
def macos(run):
    return lambda *words, **more: run([BUILD / "tests/tools/bailey-as-macos", *words], **more)


@pytest.fixture
def place(workspace):
    (workspace / "policy.yaml").write_text(POLICY)
    (workspace / "out").mkdir()
    (workspace / "sub").mkdir()
    (workspace / "sub/key.pem").write_text("x")
    (workspace / "link").symlink_to("sub")
    return workspace


def both(bailey, macos, *words, **more):
    mine, other = macos(*words, **more), bailey(*words, **more)
    assert (mine.status, mine.text, mine.errors) == (other.status, other.text, other.errors), f"{mine}\n{other}"
    return mine


def test_its_verbs(macos, workspace):
    told = macos("help", cwd=workspace).check().text
    for verb in VERBS:
        assert f"\n  {verb} " in told, told
    for verb in ("exec", "learn", "gateway", "egress", "ui"):
        result = macos(verb, "--", "true", cwd=workspace)
        assert result.status == EXIT_USAGE and "there is no verb" in result.errors, result
    assert macos("completion", "zsh", cwd=workspace).check().text


def test_nothing_of_a_launch_is_linked():
    """Dead code would hide a verb that needs what a Mac has not."""
    names = subprocess.run(["nm", "--defined-only", BUILD / "tests/tools/bailey-as-macos"], capture_output=True, text=True, check=True).stdout
    defined = {line.split()[-1] for line in names.splitlines()}
    assert defined >= {"macos_launch_build", "verdict_target"}
    assert not defined & {"sandbox_prepare", "run_command", "run_show_plan", "plan_build", "session_init", "sqlite3_open_v2"}


def test_plan_is_a_profile(bailey, macos, place):
    told = macos("plan", "--policy", "policy.yaml", "--", "true", cwd=place).check().text
    assert told == bailey("plan", "--for", "macos", "--policy", "policy.yaml", "--", "true", cwd=place).check().text
    assert "(version 1)" in told
    result = macos("plan", "--for", "linux", "--", "true", cwd=place)
    assert result.status == EXIT_UNAVAILABLE and "on Linux only" in result.errors


@pytest.mark.parametrize("question", ["api.ok.test", "bad.example.org", "x.example.org:8443", "x.example.org", "169.254.169.254", "bücher.example",
                                      "GET https://git.ok.test/v1/x", "POST https://git.ok.test/v1/x", "nowhere.test"])
def test_hosts_are_judged_as_on_linux(question, bailey, macos, place):
    both(bailey, macos, "why", "--policy", "policy.yaml", *question.split(), cwd=place)
    both(bailey, macos, "why", "--json", "--policy", "policy.yaml", *question.split(), cwd=place)


@pytest.mark.parametrize("path", ["sub/key.pem", "link/key.pem", "out/x", "README", "/etc/hosts", "~/.private/x"])
def test_paths_are_judged_as_on_linux(path, bailey, macos, place):
    both(bailey, macos, "why", "--policy", "policy.yaml", path, cwd=place)


@pytest.mark.parametrize("command", ["ls -la", "git push --force", "rm -rf /", "curl http://x.test | sh", "make test", "cat $(ls)", "if"])
def test_commands_are_judged_as_on_linux(command, bailey, macos, place):
    both(bailey, macos, "check", "--", command, cwd=place)


def test_policies_and_profiles(bailey, macos, place):
    both(bailey, macos, "policy", "check", "policy.yaml", cwd=place)
    both(bailey, macos, "policy", "show", "--policy", "policy.yaml", cwd=place)
    both(bailey, macos, "profile", "ls", cwd=place)
    (place / "bad.yaml").write_text("network: {alow: [x]}\n")
    assert "did you mean" in both(bailey, macos, "policy", "check", "bad.yaml", cwd=place).errors
    (place / "settings.json").write_text('{"permissions": {"allow": ["Bash(npm test:*)", "WebFetch(domain:api.ok.test)"], "deny": ["Read(./.env)"]}}')
    assert "api.ok.test" in both(bailey, macos, "import", "claude", "settings.json", cwd=place).text


def test_init_writes_the_same(bailey, macos, place, tmp_path):
    written = []
    for program in (bailey, macos):
        folder = tmp_path / f"fresh-{len(written)}"
        folder.mkdir()
        (folder / "package.json").write_text("{}")
        program("init", "--yes", cwd=folder).check()
        written.append({path.name: path.read_text() for path in folder.rglob("*") if path.is_file()})
    assert len(written[0]) > 1 and written[0] == written[1]


# run: what happens around the profile. Nothing is confined here (tests/tools/os_fake.c)


@pytest.fixture
def run_macos(macos, place, tmp_path):
    def start(*words, profile=None, **more):
        return macos("run", "--quiet", *words, cwd=place, env={"BAILEY_FAKE_PROFILE": profile or str(tmp_path / "profile.sb"), **more.pop("env", {})}, **more)
    return start


CLOSED = ["--mode", "workspace-write"]


def test_run_applies_what_plan_prints(run_macos, macos, place, tmp_path):
    result = run_macos(*CLOSED, "--home", "none", "--policy", "policy.yaml", "--", "sh", "-c", "pwd; env; exit 7")
    assert result.status == 7, result
    lines = result.text.splitlines()
    assert lines[0] == str(place)
    tmpdir = next(line.removeprefix("TMPDIR=") for line in lines if line.startswith("TMPDIR="))
    assert f"HOME={tmpdir}/home" in lines and not any(line.lower().startswith(("http_proxy", "https_proxy", "all_proxy")) for line in lines)
    assert not pathlib.Path(tmpdir).exists(), "empty directories of the run stay"
    profile, planned = (tmp_path / "profile.sb").read_text(), macos("plan", *CLOSED, "--policy", "policy.yaml", "--", "true", cwd=place).check().text
    assert tmpdir in profile and "remote ip" not in profile and "[Pp][Ee][Mm]" in profile

    def rules(text):
        """Of the workspace and of globs; the others name the run's own directories, which a plan does not have."""
        return {line for line in text.splitlines() if not line.startswith(";") and ("(regex" in line or str(place) in line)}
    assert len(rules(profile)) > 20 and rules(profile) == rules(planned)


def test_what_a_run_leaves_in_its_own_places_goes(run_macos, place, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_text("x")
    script = f"mkdir -p $HOME/a/b; echo x > $HOME/a/b/c; ln -s {tmp_path}/kept $TMPDIR/link; ln {place}/policy.yaml $HOME/hard; chmod 0 $HOME/a; echo $TMPDIR"
    tmpdir = run_macos(*CLOSED, "--home", "none", "--", "sh", "-c", script).check().text.strip()
    assert "/bailey-" in tmpdir and not pathlib.Path(tmpdir).exists()
    assert (tmp_path / "kept/file").read_text() == "x" and (place / "policy.yaml").read_text() == POLICY


def places_of(profile, path):
    """Where the profile speaks of this path with all below it; /tmp is a link there."""
    return [found.start() for found in re.finditer(rf'\(subpath "(?:/private)?{re.escape(path)}"', profile)]


def test_homes_are_kept_as_on_linux(run_macos, home, place, tmp_path):
    state = f"{home}/.local/state/bailey"
    told = run_macos(*CLOSED, "--", "sh", "-c", "echo mine > $HOME/note; echo $HOME").check().text.strip()
    assert re.fullmatch(rf"{re.escape(state)}/homes/project\.[0-9a-f]{{12}}/files", told)
    profile = (tmp_path / "profile.sb").read_text()
    assert 0 < places_of(profile, str(home))[0] < places_of(profile, told)[-1], "the deeper path is not the later one"
    assert run_macos(*CLOSED, "--", "sh", "-c", "cat $HOME/note").check().text == "mine\n"
    for other in ("none", "elsewhere"):
        assert run_macos(*CLOSED, "--home", other, "--", "sh", "-c", "test -e $HOME/note || echo empty").check().text == "empty\n"
    assert sorted(path.name for path in (home / ".local/state/bailey/homes").iterdir())[0] == "elsewhere"


def test_the_status_and_the_signal_are_the_commands(run_macos):
    assert run_macos(*CLOSED, "--", "true").status == 0
    assert run_macos(*CLOSED, "--", "sh", "-c", "kill -TERM $$").status == 128 + 15
    assert run_macos(*CLOSED, "--", "no-such-program").status == 127


def test_a_refused_profile_runs_nothing(run_macos, place):
    result = run_macos(*CLOSED, "--", "touch", "made", profile="refuse")
    assert result.status == 125 and "macOS refuses the profile" in result.errors and not (place / "made").exists(), result
    result = run_macos(*CLOSED, "--", "touch", "made", profile="confined")
    assert result.status == 125 and "confined already" in result.errors and not (place / "made").exists(), result


@pytest.mark.parametrize("words, says", [
    (["--mode", "full-network", "--publish", "8080:8080"], "ports (network.publish"), ([*CLOSED, "--publish", "8080:8080"], "ports (network.publish"),
    ([*CLOSED, "--limit-memory", "1GiB"], "limits of memory"), ([*CLOSED, "--ask-path", "/srv"], "questions about paths"),
    ([*CLOSED, "--overlay"], "overlay"), ([*CLOSED, "--nesting"], "sandboxes inside")])
def test_what_is_not_there_is_refused_by_name(words, says, run_macos, place):
    result = run_macos(*words, "--", "touch", "made")
    assert result.status == 121 and says in result.errors and not (place / "made").exists(), result


@pytest.mark.parametrize("text, says", [
    ("monitor: [{violations: 3, within: 60s, action: kill}]", "rules about denials"),
    ("ratchet: [{when: {read: [x]}, then: {allow: [api.ok.test]}}]", "ratchets"), ("ssh: {git: true}", "git over ssh"),
    ("agent: a\nagents: {a: {networkAccess: sandboxed}}", "roles"), ("bridge: {gh: {repos: [github.com/acme/app]}}", "tools of the host")])
def test_so_is_what_a_policy_asks_for(text, says, run_macos, place):
    (place / "asks.yaml").write_text(text + "\n")
    result = run_macos(*CLOSED, "--policy", "asks.yaml", "--", "touch", "made")
    assert result.status == 121 and says in result.errors and not (place / "made").exists(), result


def test_the_time_of_a_run_ends_it_and_its_children(run_macos, place):
    result = run_macos(*CLOSED, "--timeout", "1s", "--", "sh", "-c", "sleep 600 & echo $! > child; wait")
    assert result.status == 124 and "longer than its time limit" in result.errors, result
    wait_until(lambda: not is_alive((place / "child").read_text().strip()))


def is_alive(pid):
    """Not one that only waits for whoever adopted it."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_signal_ends_the_command_and_its_children(macos, place, tmp_path, start):
    env = profile_env(tmp_path)
    process = start([BUILD / "tests/tools/bailey-as-macos", "run", "-q", *CLOSED, "--", "sh", "-c", "sleep 600 & echo $! > child; wait"], cwd=place, env=env)
    child = wait_until(lambda: (place / "child").exists() and (place / "child").read_text().strip())
    process.signal(signal.SIGTERM)
    assert process.wait().status == 128 + signal.SIGKILL
    wait_until(lambda: not is_alive(child))


# The network of a run: the gateway of a Mac, on loopback, with the secret of the run.


@pytest.fixture
def online(mac, start, place, tmp_path, hosts, origin):
    """online(script, options...): the Child of a run that may reach origin.test and nothing else."""
    def go(script, *options, quiet=False, **more):
        target = f"origin.test:{origin.port}"
        words = [mac, "run", *(["--quiet"] if quiet else []), "--hosts", str(hosts), "--audit", str(tmp_path / "audit.jsonl"), "--allow", target,
                 "--allow-private", target, *options, "--", "sh", "-c", script]
        return start(words, cwd=place, env={**profile_env(tmp_path), **more.pop("env", {})}, **more)
    return go


def records(tmp_path):
    return [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().split("\n")[:-1]]  # the last may be on its way


def test_a_run_reaches_what_the_policy_allows(online, origin, tmp_path):
    result = online(f"curl -sS -m 60 http://origin.test:{origin.port}/path; curl -sS -m 60 -o /dev/null -w '%{{http_code}}' http://other.test:{origin.port}/").wait()
    assert result.status == 0 and result.text == "origin\n403", result
    (request,) = origin.requests()
    assert request.startswith(b"GET /path HTTP/1.1\r\n") and b"roxy-" not in request
    assert f"bailey: refused: other.test:{origin.port}" in result.errors
    made = [(record["domain"], record["allowed"]) for record in records(tmp_path) if record["kind"] == "request"]
    assert made == [("origin.test", True), ("other.test", False)]


def test_only_with_the_secret_of_the_run(online, origin, tmp_path):
    """Everybody on a Mac can reach its loopback."""
    ask = f"curl -sS -m 60 -o /dev/null -w '%{{http_code}} ' http://origin.test:{origin.port}/"
    script = (f"p=${{http_proxy##*:}}; p=${{p%/}}; echo $p $http_proxy; env -u http_proxy -u HTTP_PROXY {ask} -x http://127.0.0.1:$p; "
              f"env -u http_proxy -u HTTP_PROXY {ask} -x http://bailey:{'a' * 48}@127.0.0.1:$p; {ask}")
    first, second = online(script).wait(), online(script).wait()
    for result in (first, second):
        assert result.status == 0 and result.text.splitlines()[1].split() == ["407", "407", "200"], result
    secrets = {re.search(r"//bailey:([a-z0-9]{48})@127\.0\.0\.1:", result.text)[1] for result in (first, second)}
    assert len(secrets) == 2 and len(origin.requests()) == 2
    assert not any(secret in path.read_text() for secret in secrets for path in (tmp_path / "audit.jsonl", tmp_path / "profile.sb"))


def test_socks_wants_it_too(online, origin):
    script = (f"curl -sS -m 60 -x socks5h://127.0.0.1:${{all_proxy##*:}} http://origin.test:{origin.port}/; echo $?; "
              f"curl -sS -m 60 -x $all_proxy http://origin.test:{origin.port}/")
    result = online(script).wait()
    assert result.status == 0 and result.text == "97\norigin\n", result


def test_the_profile_opens_the_two_ports_and_the_record_is_whole(online, origin, tmp_path, bailey):
    result = online("echo $http_proxy; exit 3", quiet=True).wait()
    assert result.status == 3, result
    port = int(result.text.strip().rstrip("/").rpartition(":")[2])
    profile = (tmp_path / "profile.sb").read_text()
    ports = {int(number) for number in re.findall(r'remote ip "localhost:(\d+)"', profile)}
    assert port in ports and len(ports) == 2
    for number in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", number), 10)
    told = [record.get("detail", "") for record in records(tmp_path)]
    assert told[0].startswith("start: mode workspace-write-whitelist") and told[-2:] == ["end: status 3", "audit closed"]
    assert any("exit 3" in text for text in told) and any(text.startswith("gateway started") for text in told)
    bailey("log", "verify", str(tmp_path / "audit.jsonl")).check()


def test_tunnels_end_at_the_host_that_was_judged(online, origin):
    """Nothing here needs TLS to be opened: the names of requests inside it are not seen."""
    ask = f"curl -sS -m 60 -p -o /dev/null -w '%{{http_connect}}' http://origin.test:{origin.port}/"
    assert online(ask).wait().text == "200"
    assert online(ask.replace("origin.test", "other.test")).wait().text == "403"


def gateways(tmp_path):
    told = [record.get("detail", "") for record in records(tmp_path)] if (tmp_path / "audit.jsonl").exists() else []
    return [int(text.rpartition(" ")[2]) for text in told if text.startswith("gateway started")]


def test_a_gateway_that_dies_is_replaced(online, origin, place, tmp_path):
    ask = f"curl -s -m 60 http://origin.test:{origin.port}/"
    process = online(f"{ask}; touch first; while ! test -e killed; do sleep 0.1; done; until {ask}; do sleep 0.1; done")
    wait_until(lambda: (place / "first").exists())
    (pid,) = wait_until(lambda: gateways(tmp_path))
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid))
    (place / "killed").touch()
    result = process.wait()
    assert result.status == 0 and result.text == "origin\norigin\n" and "bailey: gateway: it was killed by signal 9" in result.errors, result
    assert len(gateways(tmp_path)) == 2 and not any(is_alive(pid) for pid in gateways(tmp_path))


def test_the_gateway_ends_with_its_supervisor(online, origin, place, tmp_path, temporary):
    process = online(f"curl -s -m 60 http://origin.test:{origin.port}/; echo $$ > shell; exec sleep 600")
    shell = wait_until(lambda: (place / "shell").exists() and (place / "shell").read_text().strip())
    (pid,) = wait_until(lambda: gateways(tmp_path))
    process.signal(signal.SIGKILL)
    wait_until(lambda: not is_alive(pid))
    os.kill(int(shell), signal.SIGKILL)  # macOS ends nobody with its parent: the command and its places stay
    process.wait()
    for left in temporary.glob("bailey-*"):
        shutil.rmtree(left)


def test_records_are_where_they_are_on_linux(run_macos, home, place):
    run_macos(*CLOSED, "--", "true").check()
    (log,) = (home / ".local/state/bailey/audit").glob("*.jsonl")
    assert '"end: status 0"' in log.read_text() and log.stat().st_mode & 0o777 == 0o600


def test_the_log_is_read_as_on_linux(run_macos, bailey, macos, home, place):
    run_macos(*CLOSED, "--", "sh", "-c", "exit 3")
    for words in ([], ["--json"], ["--denied"], ["--since", "1h"], ["verify"], ["verify", "--json"]):
        both(bailey, macos, "log", *words, cwd=place)
    run_macos(*CLOSED, "--", "true").check()
    first, second = sorted((home / ".local/state/bailey/audit").glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    assert "end: status 0" in macos("log", cwd=place).check().text
    run_id = json.loads(first.read_text().splitlines()[0])["run_id"]
    assert "end: status 3" in both(bailey, macos, "log", "--run", run_id[:12], cwd=place).text
    assert "end: status 3" in both(bailey, macos, "log", str(first), cwd=place).text
    assert macos("log", "--run", "zzzz", cwd=place).status == EXIT_UNAVAILABLE
    result = macos("log", "--all", cwd=place)
    assert result.status == EXIT_UNAVAILABLE and "on Linux only" in result.errors, result
    second.write_text(second.read_text().replace("status 0", "status 9"))
    assert both(bailey, macos, "log", "verify", cwd=place).status == 1
    both(bailey, macos, "log", "prune", "--dry-run", "--max-size", "1", cwd=place)


def test_the_log_is_followed(start, place, tmp_path):
    program, log = BUILD / "tests/tools/bailey-as-macos", tmp_path / "audit.jsonl"
    script = "while ! test -e end; do sleep 0.1; done; exit 5"
    process = start([program, "run", "-q", *CLOSED, "--audit", log, "--", "sh", "-c", script], cwd=place, env=profile_env(tmp_path))
    wait_until(lambda: log.exists() and "start: mode" in log.read_text())
    follower = start([program, "log", "--follow", log], cwd=place)
    wait_until(lambda: b"start: mode" in follower.output())
    (place / "end").touch()
    wait_until(lambda: b"end: status 5" in follower.output())
    assert process.wait().status == 5
    follower.signal(signal.SIGTERM)
    follower.wait()


def test_records_are_closed_to_the_run(run_macos, place, tmp_path):
    run_macos(*CLOSED, "--", "true", env={"XDG_STATE_HOME": str(place / "state")}).check()
    profile = (tmp_path / "profile.sb").read_text()
    assert places_of(profile, str(place))[0] < places_of(profile, f"{place}/state/bailey")[0], "the sandbox may write its own record"
    (tmp_path / "logs").mkdir()
    run_macos(*CLOSED, "--audit", str(tmp_path / "logs/a.jsonl"), "--", "true").check()
    assert places_of((tmp_path / "profile.sb").read_text(), f"{tmp_path}/logs/a.jsonl"), "the sandbox may read its own record"
    result = run_macos(*CLOSED, "--audit", "log.jsonl", "--", "touch", "made")
    assert result.status == 125 and "where the sandbox may write" in result.errors and not (place / "made").exists(), result


def test_without_a_gateway_nothing_runs(start, place, tmp_path):
    """The program beside which it should be has none."""
    alone = beside_each_other(BUILD, tmp_path / "alone", ["bailey"])
    result = start([alone, "run", "--", "touch", "made"], cwd=place, env=profile_env(tmp_path)).wait()
    assert result.status == 125 and "bailey-gateway is not installed" in result.errors and not (place / "made").exists(), result


def test_doctor_says_that_it_is_no_sandbox(macos, workspace):
    result = macos("doctor", cwd=workspace)
    assert result.status == EXIT_UNAVAILABLE and "never yet run on a Mac" in result.text
