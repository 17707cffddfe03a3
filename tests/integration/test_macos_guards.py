# SPDX-License-Identifier: Apache-2.0
"""Protected names that did not exist when a run on a Mac began: what lies there when it has ended is moved away. macOS asks only about
the new name when a directory is moved, so the profile cannot refuse it. `bailey-as-macos` (tests/tools) runs that part on Linux."""
import json
import pathlib
import shutil
import signal

import pytest

from conftest import BUILD
from kit.mac import profile_env
from kit.process import wait_until

PROGRAM = BUILD / "tests/tools/bailey-as-macos"
CLOSED = ["--mode", "workspace-write"]
PREPARE = "mkdir -p p/hooks p/objects; echo evil > p/hooks/pre-commit; printf '[core]\\n\\tbare = false\\n\\tfsmonitor = evil\\n' > p/config; echo ref > p/HEAD"


@pytest.fixture
def env(tmp_path):
    return profile_env(tmp_path)


@pytest.fixture
def macos(run, workspace, env):
    return lambda *words, **more: run([PROGRAM, *words], cwd=workspace, env=env, **more)


@pytest.fixture
def shell(macos):
    return lambda script, *options, **more: macos("run", *CLOSED, *options, "--", "sh", "-c", script, **more)


@pytest.fixture
def kept(macos):
    return lambda: json.loads(macos("kept", "ls", "--json").check().text)


def test_a_directory_that_was_moved_in_loses_what_git_would_run(shell, kept, macos, workspace, tmp_path):
    result = shell(f"{PREPARE}; mv p .git", "--audit", str(tmp_path / "audit.jsonl"))
    assert result.status == 0, result
    assert not (workspace / ".git/hooks").exists() and (workspace / ".git/HEAD").read_text() == "ref\n"
    assert "fsmonitor" not in (workspace / ".git/config").read_text() and "bare = false" in (workspace / ".git/config").read_text()
    assert f"moved away {workspace}/.git/hooks: protected" in result.errors and f"rewrote {workspace}/.git/config" in result.errors
    told = [json.loads(line).get("detail", "") for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert any(text.startswith(f"moved {workspace}/.git/hooks away") for text in told), told
    assert {entry["path"] for entry in kept()} == {f"{workspace}/.git/hooks", f"{workspace}/.git/config"}

    (hooks,) = (entry for entry in kept() if entry["path"].endswith("hooks"))
    macos("kept", "restore", hooks["id"], hooks["name"][:3]).check()
    assert (workspace / ".git/hooks/pre-commit").read_text() == "evil\n"


def test_what_was_there_before_stays(shell, kept, workspace):
    (workspace / ".git/hooks").mkdir(parents=True)
    (workspace / ".git/hooks/pre-commit").write_text("mine\n")
    shell("echo x > file").check()
    assert (workspace / ".git/hooks/pre-commit").read_text() == "mine\n" and (workspace / "file").exists() and kept() == []


@pytest.mark.parametrize("last", ["chmod 0 .git", "chmod 0 .git/hooks .git", "rm -r .git/config; ln -s /etc .git/config"])
def test_however_it_is_left(shell, workspace, last):
    shell(f"{PREPARE}; mv p .git; {last}").check()
    closed = (workspace / ".git").stat().st_mode & 0o777
    (workspace / ".git").chmod(0o755)
    assert closed == (0 if "chmod" in last else 0o755)
    assert not (workspace / ".git/hooks").exists() and not (workspace / ".git/config").is_symlink()
    assert "fsmonitor" not in ((workspace / ".git/config").read_text() if (workspace / ".git/config").exists() else "")


def test_a_link_on_the_way_is_moved_itself(shell, kept, workspace, tmp_path):
    (tmp_path / "elsewhere/hooks").mkdir(parents=True)
    shell(f"ln -s {tmp_path}/elsewhere .git").check()
    assert not (workspace / ".git").is_symlink() and (tmp_path / "elsewhere/hooks").exists() and len(kept()) == 1


def profile_refuses(tmp_path, path):
    """For writing, the path and all below it; /tmp is a link on a Mac."""
    profile = (tmp_path / "profile.sb").read_text()
    return all(f'({kind} "/private{path}")' in profile for kind in ("literal", "subpath"))


def test_where_a_link_to_nowhere_leads_is_guarded(shell, kept, workspace, tmp_path):
    """A rule of a profile holds for the path that the kernel finds, and git follows the link."""
    (workspace / ".git").symlink_to("later")
    (workspace / ".envrc").symlink_to("one")
    (workspace / "one").symlink_to("two")
    shell("mkdir -p later/hooks; echo evil > later/hooks/pre-commit; echo ok > later/other; echo evil > two").check()
    for name in ("later/hooks", "one", "two"):
        assert profile_refuses(tmp_path, workspace / name), name
    assert not (workspace / "later/hooks").exists() and (workspace / "later/other").read_text() == "ok\n"
    assert not (workspace / "two").exists()
    assert {entry["path"] for entry in kept()} == {f"{workspace}/later/hooks", f"{workspace}/two"}


def test_where_a_link_leads_is_refused(shell, workspace, tmp_path):
    (workspace / "mine").write_text("x\n")
    (workspace / ".envrc").symlink_to("mine")
    (workspace / "secret").write_text("x\n")
    (workspace / "by-link").symlink_to("secret")
    shell("true", "--deny-read", f"{workspace}/by-link").check()
    assert profile_refuses(tmp_path, workspace / "mine") and profile_refuses(tmp_path, workspace / "secret")
    assert (workspace / "mine").read_text() == (workspace / "secret").read_text() == "x\n"


def test_so_is_what_a_person_refused(shell, workspace):
    shell("mkdir p; echo a > p/settings; echo b > p/other; mv p conf", "--deny-write", f"{workspace}/conf/settings").check()
    assert not (workspace / "conf/settings").exists() and (workspace / "conf/other").read_text() == "b\n"


def test_nothing_is_swept_for_a_command_that_never_began(macos, workspace):
    result = macos("run", *CLOSED, "--", "/no/such/program")
    assert result.status != 0
    shell_result = macos("run", *CLOSED, "--", "true")
    assert shell_result.status == 0 and "moved away" not in shell_result.errors


def test_another_run_waits_for_the_one_that_still_writes(shell, start, workspace, env, kept):
    """The second run finds the hooks there; they are not its own, and not the person's either."""
    first = start([PROGRAM, "run", *CLOSED, "--", "sh", "-c", f"{PREPARE}; mv p .git; touch made; while ! test -e end; do sleep 0.1; done"], cwd=workspace, env=env)
    wait_until(lambda: (workspace / "made").exists())
    shell("true").check()
    assert (workspace / ".git/hooks").exists() and kept() == []
    (workspace / "end").touch()
    first.wait().check()
    assert not (workspace / ".git/hooks").exists() and len(kept()) == 2


def is_alive(pid):
    """Not one that only waits for whoever adopted it."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_next_run_sweeps_what_a_killed_one_left(shell, start, workspace, env, kept, temporary):
    script = f"{PREPARE}; echo $$ > pid; while ! test -e go; do sleep 0.1; done; mv p .git"
    first = start([PROGRAM, "run", *CLOSED, "--", "sh", "-c", script], cwd=workspace, env=env)
    pid = wait_until(lambda: (workspace / "pid").exists() and (workspace / "pid").read_text().strip())
    first.signal(signal.SIGKILL)
    first.wait()
    (workspace / "go").touch()
    wait_until(lambda: (workspace / ".git").exists() and not is_alive(pid))
    for left in temporary.iterdir():  # of the run that was killed
        shutil.rmtree(left)
    assert (workspace / ".git/hooks").exists()
    shell("true").check()
    assert not (workspace / ".git/hooks").exists() and len(kept()) == 2


def make_repository(path):
    (path / ".git/hooks").mkdir(parents=True)
    for name in ("objects", "refs"):
        (path / ".git" / name).mkdir()
    (path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (path / ".git/config").write_text("[core]\n\tbare = false\n")
    (path / ".git/hooks/pre-commit").write_text("mine\n")


@pytest.mark.parametrize("name", ["sub", "deep/er/sub", "a[b]"])
def test_a_repository_that_is_there_is_in_the_profile(shell, workspace, tmp_path, name):
    make_repository(workspace / name)
    shell("true").check()
    profile = (tmp_path / "profile.sb").read_text()
    if "[" in name:  # any character in the place of what would be a pattern
        assert any("[Pp][Rr][Oo][Jj][Ee][Cc][Tt]/[Aa]" in line and "[Hh][Oo][Oo][Kk][Ss]" in line for line in profile.splitlines())
    else:
        for kind in ("literal", "subpath"):
            assert f'({kind} "/private{workspace}/{name}/.git/hooks")' in profile  # /tmp is a link there
    assert (workspace / name / ".git/hooks/pre-commit").read_text() == "mine\n"
    assert (workspace / name / ".git/config").read_text() == "[core]\n\tbare = false\n"


def test_a_new_repository_loses_what_git_would_run(shell, workspace, kept):
    make_repository(workspace / "old")
    script = "git init -q new; printf '[core]\\n\\tfsmonitor = evil\\n' >> new/.git/config; echo evil > new/.git/hooks/post-commit; git -C new config remote.origin.url https://ok.test/x"
    shell(script, "--home", "none").check()
    config = (workspace / "new/.git/config").read_text()
    assert "fsmonitor" not in config and "https://ok.test/x" in config and (workspace / "new/.git/HEAD").exists()
    assert not (workspace / "new/.git/hooks/post-commit").exists()
    assert (workspace / "old/.git/hooks/pre-commit").read_text() == "mine\n"
    assert {entry["path"] for entry in kept()} == {f"{workspace}/new/.git/{name}" for name in ("hooks", "config")}


def test_a_repository_in_another_spelling_of_its_name_is_none_on_linux(shell, workspace, kept):
    shell("mkdir -p x/.GIT/hooks; echo a > x/.GIT/hooks/pre-commit").check()
    assert (workspace / "x/.GIT/hooks/pre-commit").exists() and kept() == []
