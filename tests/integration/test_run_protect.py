# SPDX-License-Identifier: Apache-2.0
"""What a sandbox could leave behind for a later, unsandboxed step to run, and Bailey's own records."""
import os
import pathlib
import subprocess
import tempfile
import threading

import pytest

GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
       "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


@pytest.fixture
def home():
    """Not below /tmp, which is private inside."""
    with tempfile.TemporaryDirectory(prefix="bailey-test-", dir="/var/tmp") as directory:
        yield pathlib.Path(directory)


@pytest.fixture
def work(home):
    directory = home / "work"
    directory.mkdir()
    return directory


@pytest.fixture
def sh(bailey, work):
    return lambda script, *options, **more: bailey("run", *options, "--", "sh", "-c", script, cwd=work, **more)


def git(*words, cwd):
    """As the person would, outside."""
    return subprocess.run(["git", *map(str, words)], cwd=cwd, env={**os.environ, **GIT}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("state", [None, "elsewhere/state"], ids=["default", "XDG_STATE_HOME"])
def test_own_records_are_hidden_from_the_first_run_on(sh, home, state):
    place = home / (state or ".local/state") / "bailey"
    env = {"XDG_STATE_HOME": str(home / state)} if state else {}
    for _ in range(2):
        result = sh(f"ls {place}; cat {place}/audit/*", env=env)
        assert result.status != 0 and result.text == "", result
    assert len(list(place.glob("audit/*.jsonl"))) == 2


def test_a_named_record_is_out_of_reach(sh, home, work):
    """Where the sandbox writes it could change its own record; elsewhere it cannot even read it."""
    (home / "link").symlink_to(work)
    (work / "sub").mkdir()
    for name in ("audit.jsonl", work / "sub/audit.jsonl", home / "link/audit.jsonl", work / "sub/../../work/audit.jsonl"):
        result = sh("true", "--audit", name)
        assert result.status != 0 and "where the sandbox may write" in result.errors, result
    assert sh("true", "--write", home / "more", "--audit", home / "more/audit.jsonl").status != 0
    assert sorted(path.name for path in work.rglob("*")) == ["sub"]
    record = home / "audit.jsonl"
    for _ in range(2):
        result = sh(f"cat {record}; echo x >> {record}; rm {record}", "--audit", record)
        assert result.status != 0 and result.text == "", result
    assert record.read_text().count("start: mode") == 2 and "\nx" not in record.read_text()
    # A part of the workspace that is closed for writing will do.
    assert sh("true", "--deny-write", work / "sub", "--audit", work / "sub/audit.jsonl").check().status == 0


def bomb(home):
    """A configuration with which git runs a program, and the file that shows that it did."""
    return f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch {home}/ran; true\n"


def test_workspace_does_not_become_a_repository(sh, home, work):
    """Git looks for a repository in the directory itself, without any .git."""
    config = bomb(home)
    plant = f"mkdir -p objects refs && echo 'ref: refs/heads/main' > HEAD && cat > config <<'EOF'\n{config}EOF"
    result = sh(plant).check()
    assert "HEAD" in result.errors and not (work / "HEAD").exists()
    git("status", cwd=work)
    assert not (home / "ran").exists()
    subprocess.run(["sh", "-c", plant], cwd=work, check=False)
    git("status", cwd=work)
    assert (home / "ran").exists(), "the attack proves nothing: git does not run it"


def test_workspace_that_is_a_bare_repository(sh, home, work):
    git("init", "-q", "--bare", ".", cwd=work)
    for script in ("echo x >> config", "echo x > hooks/pre-receive", "mv hooks old", "echo x > HEAD", "mv HEAD h; echo x > HEAD"):
        assert sh(script).status != 0, script
    assert (work / "HEAD").read_text().startswith("ref:")


@pytest.mark.parametrize("where", ["tools/hooks", ".husky/_", "./tools/hooks/"])
def test_hooks_that_the_configuration_keeps_in_the_workspace(sh, home, work, where):
    git("init", "-q", ".", cwd=work)
    git("config", "core.hooksPath", where, cwd=work)
    hooks = work / where
    hooks.mkdir(parents=True)
    (hooks / "pre-commit").write_text("#!/bin/sh\n")
    assert sh(f"echo x >> {where}/pre-commit").status != 0
    assert sh(f"echo x > {where}/post-commit").status != 0
    assert sh(f"mv {pathlib.PurePath(where).parts[0]} old").status != 0
    sh("echo x > file && git add file && git commit -q -m x", env=GIT).check()


def test_hooks_directory_that_is_not_there_yet(sh, work):
    git("init", "-q", ".", cwd=work)
    git("config", "core.hooksPath", "later/hooks", cwd=work)
    sh("mkdir -p later/hooks && echo x > later/hooks/pre-commit").check()
    assert not (work / "later/hooks").exists()


@pytest.mark.parametrize("name", [".husky", ".githooks", ".vscode", ".claude", ".bashrc", ".envrc", "HEAD", ".git/hooks", ".git/config"])
@pytest.mark.parametrize("way", ["mkdir -p {0}", "mkdir -p $(dirname {0}); ln -s /etc {0}", "mkdir x; mkdir -p $(dirname {0}); mv x {0}",
                                 "mkdir -p $(dirname {0}); echo x > {0}; ln {0} kept"])
def test_planted_names_do_not_stay(sh, work, name, way):
    sh(way.format(name)).check()
    assert not os.path.lexists(work / name)


def test_working_directory_given_by_the_program_grants_nothing(sh, home, work):
    (work / "inner").mkdir()
    (work / "inner/.git").write_text(f"gitdir: {home}/victim\n")
    (home / "victim").mkdir()
    assert sh(f"cd inner && echo x > {home}/victim/planted").status != 0
    assert sh("cd .. && echo x > planted").status != 0


def test_directory_swapped_for_a_link_while_launching(bailey, home, work):
    """Another program in the same workspace changes it between the look at the host and the mounts: what is shown then
    must not be what the link leads to."""
    (home / ".ssh").mkdir()
    (home / ".ssh/id").write_text("secret\n")
    (work / "vendor").mkdir()
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            os.rename(work / "vendor", work / "aside")
            os.symlink(home / ".ssh", work / "vendor")
            os.unlink(work / "vendor")
            os.rename(work / "aside", work / "vendor")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(60):
            result = bailey("run", "--quiet", "--deny-write", str(work / "vendor"), "--", "cat", "vendor/id", cwd=work)
            assert "secret" not in result.text, result
    finally:
        stop.set()
        thread.join()
