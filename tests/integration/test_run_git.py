# SPDX-License-Identifier: Apache-2.0
"""Git in a clone, as people use it: `.git/config` inside is a copy, and what is harmless in it comes back."""
import os
import signal
import subprocess
import threading
import time

import pytest

from kit.git import ENVIRONMENT, git

pytestmark = pytest.mark.visible_home
FILES = {**ENVIRONMENT, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always"}
PASSED = ["--env-pass", "GIT_CONFIG_COUNT", "--env-pass", "GIT_CONFIG_KEY_0", "--env-pass", "GIT_CONFIG_VALUE_0"]


def outside(*words, cwd):
    done = subprocess.run(["git", *map(str, words)], cwd=cwd, env={**os.environ, **FILES}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def settings(directory, file=".git/config"):
    told = outside("config", "-f", directory / file, "--list", cwd="/")
    return dict(line.split("=", 1) for line in told.splitlines())


@pytest.fixture
def clone(home, work):
    """The workspace as a clone of a repository that has a branch `next` and a submodule."""
    up, lib = home / "up.git", home / "lib"
    outside("init", "-q", "-b", "main", lib, cwd=home)
    outside("commit", "-q", "--allow-empty", "-m", "l", cwd=lib)
    outside("init", "-q", "--bare", "-b", "main", up, cwd=home)
    seed = home / "seed"
    outside("clone", "-q", up, seed, cwd=home)
    outside("checkout", "-q", "-b", "main", cwd=seed)
    outside("submodule", "--quiet", "add", lib, "sub", cwd=seed)
    outside("commit", "-qm", "one", cwd=seed)
    outside("push", "-q", "origin", "main", "main:next", cwd=seed)
    outside("clone", "-q", up, ".", cwd=work)
    return work


def test_everyday_work(sh, home, clone):
    script = """set -e
        git config user.name "The Agent"
        git checkout -q -b topic origin/next
        git branch -q --set-upstream-to=origin/main
        git checkout -q -b mine
        git commit -q --allow-empty -m x
        git push -q -u origin mine
        git remote add fork https://github.com/me/x.git
        git submodule --quiet update --init
        test -e sub/.git
        git config --get-regexp . > told"""
    result = sh(script, "--write", home / "up.git", "--read", home / "lib", "--allow", "github.com", *PASSED, env=FILES).check()
    assert "submodule.sub.url" in result.errors, result  # a path of this machine
    now = settings(clone)
    assert now["user.name"] == "The Agent" and now["remote.fork.url"] == "https://github.com/me/x.git"
    assert now["remote.fork.fetch"] == "+refs/heads/*:refs/remotes/fork/*"
    assert (now["branch.topic.remote"], now["branch.topic.merge"]) == ("origin", "refs/heads/main")
    assert (now["branch.mine.remote"], now["branch.mine.merge"]) == ("origin", "refs/heads/mine")
    assert now["submodule.sub.active"] == "true" and "submodule.sub.url" not in now
    assert "branch.mine.remote origin" in (clone / "told").read_text()
    assert outside("rev-parse", "mine", cwd=home / "up.git") == outside("rev-parse", "mine", cwd=clone)
    assert not (clone / ".git/config.lock").exists()


def test_taking_away(sh, clone):
    outside("config", "branch.old.remote", "origin", cwd=clone)
    outside("config", "branch.old.merge", "refs/heads/old", cwd=clone)
    outside("branch", "old", cwd=clone)
    result = sh("git branch -D old && git remote remove origin && git remote -v", env=FILES).check()
    assert result.text.strip().endswith("."), result  # nothing but the word about the branch
    now = settings(clone)
    assert "branch.old.remote" not in now and "remote.origin.url" in now
    assert "remote.origin.url" in result.errors, result


def test_nothing_else_comes_back(sh, bailey, home, clone):
    before = (clone / ".git/config").read_text()
    hooks = "mkdir h; printf '#!/bin/sh\\ntouch $HOME/ran\\n' > h/post-checkout; chmod +x h/post-checkout"
    result = sh(f"""{hooks}; git config core.hooksPath $PWD/h; git config core.fsmonitor 'touch {home}/ran'
        git remote add evil https://evil.example/x; git config branch.main.remote ./evil
        git config alias.status '!touch {home}/ran'; printf '[include]\\n\\tpath = ../evil\\n' >> .git/config""", env=FILES).check()
    assert (clone / ".git/config").read_text() == before
    assert "core.hookspath" in result.errors and "more" in result.errors and "bailey kept" in result.errors
    assert "git config -f" in result.errors
    outside("status", cwd=clone)
    assert not (home / "ran").exists()
    kept = bailey("kept").check().text
    assert str(clone / ".git/config") in kept and "evil" in open(kept.splitlines()[1].strip(), encoding="utf-8").read()


def test_the_hosts_own_changes_count(start, home, clone):
    """By a rename (git itself), which takes the mount away, and in place."""
    script = f"""git config user.name inside; git config user.email in@side; touch ready
        while [ ! -e changed ]; do sleep 0.05; done
        i=0; while [ $i -lt 40 ]; do (echo '[core] fsmonitor = touch {home}/ran' >> .git/config) 2>/dev/null
            git config core.fsmonitor 'touch {home}/ran' 2>/dev/null; i=$((i+1)); sleep 0.02; done; true"""
    child = start(["bailey", "run", "--", "sh", "-c", script], cwd=clone, env=FILES)
    await_file(clone / "ready")
    outside("config", "user.email", "out@side", cwd=clone)
    outside("config", "branch.main.description", "by the host", cwd=clone)
    with open(clone / ".git/config", "a", encoding="utf-8") as file:
        file.write("# a remark\n")
    (clone / "changed").touch()
    result = child.wait()
    now = settings(clone)
    assert now["user.email"] == "out@side" and now["branch.main.description"] == "by the host"
    assert now["user.name"] == "inside" and "core.fsmonitor" not in now
    assert "# a remark" in (clone / ".git/config").read_text()
    assert "user.email" in result.errors, result
    outside("status", cwd=clone)
    assert not (home / "ran").exists()


def await_file(path):
    for _ in range(1200):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} did not appear")


def test_two_sandboxes_in_one_clone(start, clone):
    def one(name, other):
        return start(["bailey", "run", "--", "sh", "-c", f"""git config branch.{name}.description {name}; touch {name}
            while [ ! -e {other} ]; do sleep 0.05; done; git config branch.{name}.rebase true"""], cwd=clone, env=FILES)
    children = [one("a", "b"), one("b", "a")]
    for child in children:
        child.wait().check()
    now = settings(clone)
    assert [now[f"branch.{name}.{key}"] for name in "ab" for key in ("description", "rebase")] == ["a", "true", "b", "true"]


def test_a_killed_run(start, bailey, clone):
    before = (clone / ".git/config").read_text()
    child = start(["bailey", "run", "--", "sh", "-c", "git config user.name x; touch ready; sleep 60"], cwd=clone, env=FILES)
    await_file(clone / "ready")
    child.process.send_signal(signal.SIGKILL)
    child.wait()
    assert (clone / ".git/config").read_text() == before and not (clone / ".git/config.lock").exists()
    result = bailey("run", "--", "true", cwd=clone).check()
    assert ".git/config" in result.errors and "killed" in result.errors, result
    assert "name = x" in open(bailey("kept").check().text.splitlines()[1].strip(), encoding="utf-8").read()
    assert bailey("run", "--", "true", cwd=clone).check().errors == ""


NAMES = ["ln -s evil .git/config.lock", "ln f .git/config.lock", "mkdir .git/config.lock", "mkfifo .git/config.lock",
         "mv f .git/config.lock", "mv .git/config x", "rm .git/config", "ln .git/config x", "mv f .git/config", "ln -sf f .git/config",
         "exec 3> .git/config.lock; mv .git/config.lock x", "exec 3> .git/config.lock; ln .git/config.lock x"]


@pytest.mark.parametrize("script", NAMES)
def test_names_that_nobody_gets(sh, clone, script):
    (clone / "f").write_text("[core]\n")
    before = (clone / ".git/config").read_text()
    assert sh(script, env=FILES).status != 0
    assert (clone / ".git/config").read_text() == before and not os.path.lexists(clone / ".git/config.lock")


def test_the_lock_is_one(sh, clone):
    result = sh("""set -e; set -C
        echo a > .git/config.lock; if (echo b > .git/config.lock) 2>/dev/null; then exit 3; fi
        if git config user.name x 2>said; then exit 4; fi; grep -q 'could not lock' said
        rm .git/config.lock; git config user.name y; git config user.name""", env=FILES).check()
    assert result.text == "y\n" and settings(clone)["user.name"] == "y"


def test_a_lock_of_the_hosts(sh, clone):
    """Somebody outside holds it for the whole time: nothing is written, nothing is lost."""
    (clone / ".git/config.lock").write_text("")
    before = (clone / ".git/config").read_text()
    result = sh("git config user.name x && git config user.name; if rm .git/config.lock 2>/dev/null; then exit 3; fi", env=FILES).check()
    assert result.text == "x\n" and "config.lock" in result.errors
    assert (clone / ".git/config").read_text() == before and (clone / ".git/config.lock").exists()


def test_a_lock_that_is_exchanged(start, home, clone):
    """The host's git makes its lock and renames it: nobody inside gets between."""
    script = f"""printf '[core]\\n\\tfsmonitor = touch {home}/ran\\n' > evil; touch ready
        while [ ! -e done ]; do cp evil e; mv e .git/config.lock; ln evil .git/config.lock; done 2>/dev/null; true"""
    child = start(["bailey", "run", "--", "sh", "-c", script], cwd=clone, env=FILES)
    await_file(clone / "ready")
    for number in range(60):
        outside("config", "branch.main.description", number, cwd=clone)
    (clone / "done").touch()
    child.wait().check()
    assert settings(clone)["branch.main.description"] == "59" and "core.fsmonitor" not in settings(clone)


def test_worktrees_and_submodules(bailey, home, clone):
    outside("submodule", "--quiet", "update", "--init", cwd=clone)
    outside("worktree", "add", "-q", "-b", "other", home / "wt", cwd=clone)
    bailey("run", "--", "git", "config", "user.name", "from the worktree", cwd=home / "wt", env=FILES).check()
    assert settings(clone)["user.name"] == "from the worktree"
    bailey("run", "--", "git", "-C", "sub", "config", "user.name", "from the module", cwd=clone, env=FILES).check()
    assert settings(clone, ".git/modules/sub/config")["user.name"] == "from the module"
    assert settings(clone)["user.name"] == "from the worktree"


def test_where_there_is_no_copy(sh, bailey, clone):
    """With an overlay the layer has it; with a second name, or a person's word, the file stays as it was."""
    before = (clone / ".git/config").read_text()
    sh("git config user.name x && git config user.name", "--overlay", env=FILES).check()
    assert (clone / ".git/config").read_text() == before
    bailey("discard", "--all", cwd=clone)
    assert sh("git config user.name x", "--deny-write", clone / ".git/config", env=FILES).status != 0
    os.link(clone / ".git/config", clone / "second")
    assert sh("git config user.name x", env=FILES).status != 0
    assert sh("echo x >> second", env=FILES).status != 0
    assert (clone / ".git/config").read_text() == before


def test_many_at_once_inside(sh, clone):
    """Git's own lock protocol: whoever does not get the lock tries again, and nothing is lost."""
    script = """for i in 1 2 3 4 5 6 7 8; do (
        n=0; until git config branch.b$i.description d$i 2>/dev/null; do n=$((n+1)); [ $n -lt 400 ] || exit 1; done) & done; wait
        git config --get-regexp 'branch.*description' | wc -l"""
    assert sh(script, env=FILES).check().text.strip() == "8"
    assert sum(key.endswith(".description") for key in settings(clone)) == 8


def test_a_write_while_the_host_writes(start, clone):
    """Whatever the host sets while a run ends is there afterwards."""
    stop = threading.Event()
    done = []

    def write():
        number = 0
        while not stop.is_set():
            if git("config", "branch.host.description", str(number), cwd=clone).returncode == 0:
                done.append(number)
            number += 1
    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(6):
            start(["bailey", "run", "--", "git", "config", f"branch.run{number}.description", "x"], cwd=clone, env=FILES).wait()
    finally:
        stop.set()
        thread.join()
    now = settings(clone)
    assert now["branch.host.description"] == str(done[-1]) and now["core.bare"] == "false"
