# SPDX-License-Identifier: Apache-2.0
"""`bailey` as it is for macOS, run on Linux: the macOS side of each module in the place of the Linux side (tests/tools/meson.build). What
it decides must be what Bailey decides on Linux."""
import subprocess

import pytest

from conftest import BUILD

EXIT_USAGE, EXIT_UNAVAILABLE = 2, 4
VERBS = ["plan", "init", "import", "policy", "profile", "why", "check", "trust", "doctor", "version", "help"]
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


def test_its_verbs_start_nothing(macos, workspace):
    told = macos("help", cwd=workspace).check().text
    for verb in VERBS:
        assert f"\n  {verb} " in told, told
    for verb in ("run", "exec", "learn", "guest", "gateway", "egress", "ui", "supervise"):
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


def test_doctor_says_that_it_is_no_sandbox(macos, workspace):
    result = macos("doctor", cwd=workspace)
    assert result.status == EXIT_UNAVAILABLE and "never yet run on a Mac" in result.text
