# SPDX-License-Identifier: Apache-2.0
"""Repositories that a sandbox makes, or finds, deeper than any search at launch goes; and after a run that was killed."""
import contextlib
import json
import os
import signal
import subprocess
import time

import pytest

from kit.control import wait_for
from kit.git import ENVIRONMENT, git

pytestmark = pytest.mark.visible_home
DEEP = "/".join(f"d{i}" for i in range(70))


def monitor(home):
    return f"[core]\n\tfsmonitor = \"touch {home}/ran; false\"\n"


def ask(place):
    subprocess.run(["git", "status"], cwd=place, env={**os.environ, **ENVIRONMENT}, capture_output=True, check=False)


def plant(home, where, how="init"):
    mon = f"MON='{monitor(home)}'; "
    if how == "init":
        return mon + f"mkdir -p {where}; git init -q {where}; echo \"$MON\" >> {where}/.git/config"
    if how == "bare":
        return mon + (f"mkdir -p {where}; git init -q --bare {where}/b; echo \"$MON\" >> {where}/b/config; "
                      f"printf '#!/bin/sh\\ntouch {home}/ran\\n' > {where}/b/hooks/update; chmod +x {where}/b/hooks/update")
    if how == "moved":
        return mon + f"git init -q x; echo \"$MON\" >> x/.git/config; mkdir -p {where}; rmdir {where}; mv x {where}"
    if how == "renamed":
        return mon + f"git init -q x; echo \"$MON\" >> x/.git/config; mv x/.git x/store; mkdir -p {where}; mv x/store {where}/.git"
    if how == "unpacked":
        return mon + (f"git init -q x; echo \"$MON\" >> x/.git/config; tar cf /tmp/x.tar -C x .; rm -rf x; mkdir -p {where}; "
                      f"tar xf /tmp/x.tar -C {where}")
    if how == "exchanged":
        return mon + (f"git init -q x; echo \"$MON\" >> x/.git/config; mkdir -p {where}; "
                      f"python3 -c 'import ctypes; print(ctypes.CDLL(None).renameat2(-100, b\"x\", -100, b\"{where}\", 2))'")
    if how == "file":
        return mon + f"mkdir -p {where}; git init -q --separate-git-dir=meta {where}; echo \"$MON\" >> meta/config"
    raise AssertionError(how)


@pytest.mark.parametrize("how", ["init", "moved", "renamed", "unpacked", "exchanged", "file"])
def test_deep_ones_are_made_harmless(sh, home, work, how):
    for i in range(80):
        (work / f"wide{i}/a/b").mkdir(parents=True)
    where = DEEP if how != "exchanged" else "wide3/a/b"
    sh(plant(home, where, how))
    ask(work / where)
    assert not (home / "ran").exists()


# The common part of a repository has no HEAD; the working tree that leads to it has one.
HEADLESS = """mkdir -p COMMON/objects COMMON/refs COMMON/worktrees/a tree; echo "$MON" > COMMON/config
    cd COMMON/worktrees/a; echo ref: refs/heads/main > HEAD; echo ../.. > commondir; echo "$TOP/tree/.git" > gitdir; cd "$TOP"
    echo "gitdir: $TOP/COMMON/worktrees/a" > tree/.git"""


@pytest.mark.parametrize("last", ["", "mv COMMON/refs r; mv r COMMON/refs", 'mv COMMON/objects o; ln -s "$TOP/o" COMMON/objects'])
@pytest.mark.parametrize("common", ["sub/.git", "x/.git/worktrees/y"])
@pytest.mark.rows
def test_a_common_part_without_a_head(sh, home, work, common, last):
    (work / DEEP).mkdir(parents=True)
    script = f"MON='{monitor(home)}'; mkdir -p {DEEP}; cd {DEEP}; TOP=$PWD\n" + (HEADLESS + "\n" + last).replace("COMMON", common)
    sh(script).check()
    ask(work / DEEP / "tree")
    assert not (home / "ran").exists()

    subprocess.run(["sh", "-c", script], cwd=work, check=False, capture_output=True)
    ask(work / DEEP / "tree")
    assert (home / "ran").exists(), "the attack proves nothing: git does not run it"


@pytest.fixture
def repo(work):
    git("init", "-q", cwd=work)
    return work


def submodule_elsewhere(tree):
    return f"""mkdir -p m .git/modules; git init -q --separate-git-dir=.git/modules/m m; cd m
        git commit -q --allow-empty -m zero; git checkout -q -b two; echo planted > post-commit; git add .; git commit -qm one; cd ..
        git config -f .git/modules/m/config core.worktree {tree}"""


@pytest.mark.parametrize("tree", ["../../hooks", "../../../../outside", "../../../lead", "../../../other"])
def test_a_submodule_writes_into_its_own_tree_alone(sh, home, repo, tree):
    """Git checks it out wherever its configuration says, with the rights of whoever asks."""
    (home / "outside").mkdir()
    (repo / "lead").symlink_to(home / "outside")
    (repo / "other").mkdir()
    (repo / "other/.git").write_text("gitdir: ../.git\n")
    sh(submodule_elsewhere(tree), env=ENVIRONMENT).check()
    assert "worktree" not in (repo / ".git/modules/m/config").read_text()

    subprocess.run(["git", "checkout", "-q", "-f", "two"], cwd=repo / "m", env={**os.environ, **ENVIRONMENT}, check=False)
    assert not (repo / ".git/hooks/post-commit").exists() and not (home / "outside/post-commit").exists()


def test_a_submodule_keeps_its_tree(sh, repo):
    sh(submodule_elsewhere("../../../m"), env=ENVIRONMENT).check()
    assert "worktree = ../../../m" in (repo / ".git/modules/m/config").read_text()


def test_what_was_planted_would_run(home, work):
    subprocess.run(["sh", "-c", plant(home, DEEP)], cwd=work, env={**os.environ, **ENVIRONMENT}, check=True)
    ask(work / DEEP)
    assert (home / "ran").exists(), "the attack proves nothing: git does not run it"


def test_hooks_of_a_deep_bare_one(sh, home, work):
    sh(plant(home, DEEP, "bare")).check()
    assert (work / DEEP / "b/HEAD").exists() and not (work / DEEP / "b/hooks/update").exists()
    assert "fsmonitor" not in (work / DEEP / "b/config").read_text()


def test_deep_ones_are_of_use(sh, work):
    script = f"""mkdir -p {DEEP}; cd {DEEP}; git init -q -b main; git config user.name Zoë; git config user.email z@example.org;
        echo a > f; git add f; git commit -qm one; git worktree add -q ../tree; cd ../tree; echo b > f; git commit -qam two"""
    sh(script, env=ENVIRONMENT).check()
    place = work / DEEP
    assert git("log", "--format=%s", cwd=place).stdout == "one\n" and git("log", "--format=%s", cwd=place.parent / "tree").stdout == "two\none\n"
    assert git("status", "--short", cwd=place).stdout == ""
    assert "Zoë" in (place / ".git/config").read_text()


@pytest.fixture
def deep(work):
    place = work / DEEP
    place.mkdir(parents=True)
    git("init", "-q", cwd=place)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=place)
    git("init", "-q", "--bare", str(place / "bare"), cwd=place)
    git("worktree", "add", "-q", str(place / "tree"), cwd=place)
    return place


@pytest.mark.parametrize("script", [
    'echo "$MON" >> .git/config',
    'git config core.fsmonitor "touch $HOME/ran; false"',
    'cp .git/config new; echo "$MON" >> new; mv new .git/config',
    'ln .git/config other; echo "$MON" >> other',
    'mkdir -p .git/hooks; echo x > .git/hooks/post-checkout',
    'mkdir hooks2; mv .git/hooks old; mv hooks2 .git/hooks',
    'cp -r .git evil; echo "$MON" >> evil/config; realpath evil > .git/commondir',
    'git config -f .git/config extensions.worktreeConfig true; echo "$MON" > .git/config.worktree',
    'cp -r .git evil; echo "$MON" >> evil/config; mv .git old; mv evil .git',
    'cp -r .git evil; echo "$MON" >> evil/config; mv .git old; echo "gitdir: evil" > .git',
    'rm .git/HEAD .git/config; echo "ref: refs/heads/main" > .git/HEAD; echo "$MON" > .git/config',
    'cp -r .git evil; echo "$MON" >> evil/config; echo "gitdir: $PWD/evil" > tree/.git; rm tree/.git; echo "gitdir: $PWD/evil" > tree/.git',
    'cp -r .git evil; echo "$MON" >> evil/config; realpath evil > .git/worktrees/tree/commondir',
    'echo "$MON" >> bare/config; echo x > bare/hooks/update',
    'rm .git/HEAD; echo "$MON" >> .git/config',
    'mv .git/HEAD h; mv .git/refs r; echo "$MON" >> .git/config; mv r .git/refs',
    'mv .git/HEAD h; mv .git/objects o; echo "$MON" >> .git/config; ln -s "$PWD/o" .git/objects',
    'mv .git/HEAD h; printf "#!/bin/sh\\ntouch $HOME/ran\\n" > .git/hooks/post-index-change; chmod +x .git/hooks/post-index-change',
])
def test_deep_ones_that_were_there(sh, home, work, deep, script):
    """Nothing at launch knew of them. Removed and made anew they are what the sandbox made."""
    sh(f"MON='{monitor(home)}'; cd {DEEP}; {script}; true", env=ENVIRONMENT)
    for place in (deep, deep / "tree", deep / "bare"):
        ask(place)
    git("commit", "-q", "--allow-empty", "-m", "y", cwd=deep)
    assert not (home / "ran").exists()
    assert not (deep / "bare/hooks/update").exists()


def test_deep_ones_that_were_there_go_on_working(sh, deep):
    script = f"""cd {DEEP}; echo a > f; git add f; git commit -qm one; git checkout -q -b other; git tag v1; git stash -q -u || true;
        git gc -q; git log --format=%s; cd tree; git commit -q --allow-empty -m three"""
    assert sh(script, env=ENVIRONMENT).check().text == "one\nx\n"
    assert git("log", "--format=%s", cwd=deep).stdout == "one\nx\n"


def test_deep_ones_can_be_removed(sh, work, deep):
    """A build directory with what a build fetched is removed as it is anywhere."""
    sh("rm -rf d0", env=ENVIRONMENT).check()
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("next_one", [("run", "--", "true"), ("doctor",), ("kept", "sweep")], ids=" ".join)
@pytest.mark.parametrize("how", ["init", "renamed"])
def test_after_a_run_that_was_killed_whole(start, bailey, home, work, how, next_one):
    running = start(["bailey", "run", "--", "sh", "-c", plant(home, DEEP, how) + "; echo > ready; sleep 60"], cwd=work, env=ENVIRONMENT)
    wait_for(lambda: (work / "ready").exists(), "the attack")
    assert (work / "ready").exists()
    children = subprocess.run(["pgrep", "-P", str(running.pid)], capture_output=True, text=True, check=False).stdout.split()
    for pid in [running.pid, *map(int, children)]:
        with contextlib.suppress(ProcessLookupError):  # init ends with its parent
            os.kill(pid, signal.SIGKILL)
    running.wait(10)
    time.sleep(0.3)
    bailey(*next_one, cwd=work)
    ask(work / DEEP)
    assert not (home / "ran").exists()
    assert "fsmonitor" not in (work / DEEP / ".git/config").read_text()


# A search that hits its bound before the run, and reaches further after it: what it finds there may be a person's own.

@pytest.fixture
def crowd(work):
    """So many directories that the search at launch ends before it reaches a repository. Each has one, with a hook."""
    for i in range(60):
        repository = work / f"p{i}/r/.git"
        for part in "objects", "refs", "hooks":
            (repository / part).mkdir(parents=True)
        (repository / "HEAD").write_text("ref: refs/heads/main\n")
        (repository / "config").write_text("[core]\n\tbare = false\n[alias]\n\tx = status\n")
        (repository / "hooks/pre-commit").write_text("#!/bin/sh\ntrue\n")
    time.sleep(0.05)  # a file system's clock may be a little behind: so much before a run counts as in it
    return work


def has_all(crowd, numbers):
    """The repositories are as they were."""
    return all((crowd / f"p{i}/r/.git/hooks/pre-commit").exists() and "alias" in (crowd / f"p{i}/r/.git/config").read_text() for i in numbers)


LEAVES = {"removed": "rm -rf p?", "moved": "mkdir .cache; mv p? .cache", "moved away": "mv p? /tmp"}


@pytest.mark.parametrize("how", LEAVES)
def test_old_ones_that_only_the_second_search_finds_stay(sh, crowd, bailey, how):
    result = sh(LEAVES[how], "--quiet").check()
    assert has_all(crowd, range(10, 60)), result
    assert json.loads(bailey("kept", "ls", "--json", cwd=crowd).check().text) == []


@pytest.mark.user
def test_without_a_broker_they_are_kept(sh, crowd, bailey):
    """Nobody can say that a program did not make them, of files that were there before. What is moved away can be put back."""
    sh("mv p? p1? p2? p3? /tmp", "--nesting", "--quiet").check()
    kept = json.loads(bailey("kept", "ls", "--json", cwd=crowd).check().text)
    gone = [i for i in range(40, 60) if not (crowd / f"p{i}/r/.git/hooks/pre-commit").exists()]
    assert gone and len([entry for entry in kept if entry["path"].endswith("/hooks")]) == len(gone), kept


def test_an_old_one_that_the_index_names_stays(sh, crowd):
    """No directory goes: the index says where it is."""
    git("init", "-q", ".", cwd=crowd, check=True)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=crowd, check=True)
    (crowd / "p30/r/file").write_text("x")
    git("add", "file", cwd=crowd / "p30/r", check=True)
    git("commit", "-q", "-m", "x", cwd=crowd / "p30/r", check=True)
    time.sleep(0.05)
    result = sh("git add p30/r; git ls-files -s | grep ^160000", "--quiet").check()
    assert has_all(crowd, range(60)), result


@pytest.mark.parametrize("how", [
    "echo '#!/bin/sh' > $G/hooks/pre-commit", "echo x > $G/hooks/post-commit", "mv $G/hooks x; mkdir $G/hooks; mv x/* $G/hooks",
    "printf '[core]\\n\\tfsmonitor = x\\n' >> $G/config", "rm -rf p59/r/.git; git init -q p59/r; git -C p59/r config core.fsmonitor x"])
@pytest.mark.user
def test_what_changed_in_an_old_one_goes(sh, crowd, how):
    """Without a broker nobody refuses it. One search in breadth reads a level in one order: most of them go, so that it gets to all others."""
    result = sh("mv p? p1? p2? p3? /tmp; G=p59/r/.git; " + how, "--nesting", "--quiet").check()
    changed = crowd / "p59/r/.git"
    assert not list(changed.glob("hooks/p*")) or "hooks" not in how, result
    assert "fsmonitor" not in (changed / "config").read_text() or "fsmonitor" not in how, result
