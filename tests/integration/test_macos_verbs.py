# SPDX-License-Identifier: Apache-2.0
"""`bailey` as it is for macOS, run on Linux: the macOS side of each module in the place of the Linux side (tests/tools/meson.build). What
it decides must be what Bailey decides on Linux."""
import pathlib
import signal
import subprocess

import pytest

from conftest import BUILD
from kit.process import wait_until

EXIT_USAGE, EXIT_UNAVAILABLE = 2, 4
VERBS = ["run", "plan", "init", "import", "policy", "profile", "why", "check", "trust", "doctor", "version", "help"]
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
    for verb in ("exec", "learn", "guest", "gateway", "egress", "ui", "supervise"):
        result = macos(verb, "--", "true", cwd=workspace)
        assert result.status == EXIT_USAGE and "there is no verb" in result.errors, result
    assert macos("completion", "zsh", cwd=workspace).check().text


def test_nothing_of_a_launch_is_linked():
    """Dead code would hide a verb that needs what a Mac has not."""
    names = subprocess.run(["nm", "--defined-only", BUILD / "tests/tools/bailey-as-macos"], capture_output=True, text=True, check=True).stdout
    defined = {line.split()[-1] for line in names.splitlines()}
    assert defined >= {"macos_launch_build", "verdict_target"}
    assert not defined & {"sandbox_prepare", "run_command", "run_show_plan", "plan_build", "gateway_process_new", "sqlite3_open_v2"}


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
    result = run_macos(*CLOSED, "--policy", "policy.yaml", "--", "sh", "-c", "pwd; env; exit 7")
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
    tmpdir = run_macos(*CLOSED, "--", "sh", "-c", script).check().text.strip()
    assert "/bailey-" in tmpdir and not pathlib.Path(tmpdir).exists()
    assert (tmp_path / "kept/file").read_text() == "x" and (place / "policy.yaml").read_text() == POLICY


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
    ([], "modes with a network"), (["--mode", "full-network"], "modes with a network"), ([*CLOSED, "--home", "mine"], "homes that are kept"),
    ([*CLOSED, "--home", "workspace"], "homes that are kept"), ([*CLOSED, "--publish", "8080"], "ports"), ([*CLOSED, "--timeout", "5s"], "limits of time"),
    ([*CLOSED, "--audit", "log.jsonl"], "records"), ([*CLOSED, "--limit-memory", "1GiB"], "limits of memory"), ([*CLOSED, "--ask-path", "/srv"], "questions about paths"),
    ([*CLOSED, "--overlay"], "overlay"), ([*CLOSED, "--nesting"], "sandboxes inside")])
def test_what_is_not_there_is_refused_by_name(words, says, run_macos, place):
    result = run_macos(*words, "--", "touch", "made")
    assert result.status == 121 and says in result.errors and not (place / "made").exists(), result


@pytest.mark.parametrize("text, says", [
    ("credentials: [{name: a, hosts: [api.ok.test], from: 'env:A'}]", "credentials"), ("monitor: [{violations: 3, within: 60s, action: kill}]", "rules about denials"),
    ("ratchet: [{when: {read: [x]}, then: {allow: [api.ok.test]}}]", "ratchets"), ("ssh: {git: true}", "git over ssh"),
    ("agent: a\nagents: {a: {networkAccess: sandboxed}}", "roles"), ("bridge: {gh: {repos: [github.com/acme/app]}}", "tools of the host")])
def test_so_is_what_a_policy_asks_for(text, says, run_macos, place):
    (place / "asks.yaml").write_text(text + "\n")
    result = run_macos(*CLOSED, "--policy", "asks.yaml", "--", "touch", "made")
    assert result.status == 121 and says in result.errors and not (place / "made").exists(), result


def is_alive(pid):
    """Not one that only waits for whoever adopted it."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_signal_ends_the_command_and_its_children(macos, place, tmp_path, start):
    env = {"BAILEY_FAKE_PROFILE": str(tmp_path / "profile.sb")}
    process = start([BUILD / "tests/tools/bailey-as-macos", "run", "-q", *CLOSED, "--", "sh", "-c", "sleep 600 & echo $! > child; wait"], cwd=place, env=env)
    child = wait_until(lambda: (place / "child").exists() and (place / "child").read_text().strip())
    process.signal(signal.SIGTERM)
    assert process.wait().status == 128 + signal.SIGKILL
    wait_until(lambda: not is_alive(child))


def test_doctor_says_that_it_is_no_sandbox(macos, workspace):
    result = macos("doctor", cwd=workspace)
    assert result.status == EXIT_UNAVAILABLE and "never yet run on a Mac" in result.text
