# SPDX-License-Identifier: Apache-2.0
"""What git has not finished, where no ordinary end of a run looks at it: the run was killed, or its changes are applied later. (The
ordinary end: test_run_named.py.)"""
import json
import os
import pathlib
import subprocess
import time

import pytest

from kit.git import ENVIRONMENT, git
from kit.process import gone, wait_until

pytestmark = pytest.mark.visible_home
PERSON = " ".join(f"export {name}={value};" for name, value in ENVIRONMENT.items())
PROGRAM = "mkdir -p git-merge-x; printf '#!/bin/sh\\ntouch {home}/ran\\n' > git-merge-x/e; chmod +x git-merge-x/e; "
TWO = "echo 2 > g; git add g; git commit -qm two; "

# What continues it, and what the sandbox leaves.
LEFT = {
    "a list": ("rebase", "git rebase -x 'touch {home}/ran' ours"),
    "a list by hand": ("rebase", "git rebase ours; printf ' x touch {home}/ran\\n' >> .git/rebase-merge/git-rebase-todo"),
    "a link": ("rebase", "git rebase ours; echo 'exec touch {home}/ran' > list; ln -sf ../../list .git/rebase-merge/git-rebase-todo"),
    "a link above": ("rebase", "git rebase -x 'touch {home}/ran' ours; mv .git/rebase-merge away; ln -s ../away .git/rebase-merge"),
    "a strategy": ("rebase", TWO + "git rebase ours; " + PROGRAM + "echo x/e > .git/rebase-merge/strategy"),
    "patches": ("rebase", TWO + "git rebase --apply ours; echo \" '--build-fake-ancestor={home}/ran'\" > .git/rebase-apply/apply-opt"),
    "picking": ("cherry-pick", "git cherry-pick ours last; " + PROGRAM + "printf '[options]\\n\\tstrategy = x/e\\n' > .git/sequencer/opts"),
}


def repository(place):
    """Two branches that change one file: a rebase of one onto the other stops."""
    place.mkdir(exist_ok=True)
    git("init", "-q", ".", cwd=place, check=True)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=place, check=True)
    for branch, begin, text in ("base", "HEAD", "a"), ("ours", "base", "b"), ("theirs", "base", "c"), ("last", "theirs", "d"):
        git("checkout", "-qb", branch, begin, cwd=place, check=True)
        (place / ("h" if branch == "last" else "f")).write_text(text)
        git("add", ".", cwd=place, check=True)
        git("commit", "-qm", branch, cwd=place, check=True)
    git("checkout", "-q", "theirs", cwd=place, check=True)
    time.sleep(0.05)  # a file system's clock may be a little behind: so much before a run counts as in it


@pytest.fixture
def diverged(work):
    repository(work)
    return work


def go_on(place, verb="rebase"):
    """As a person does who finds it."""
    subprocess.run(["chmod", "-R", "u+rwX", place / ".git"], check=False)
    (place / "f").write_text("solved")
    git("add", "f", cwd=place)
    return git("-c", "core.editor=true", verb, "--continue", cwd=place)


def descendants(pid):
    try:
        children = [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [found for child in children for found in (child, *descendants(child))]


@pytest.fixture
def killed(start, work):
    """killed(script): a run whose processes all die at once when the script has come to its end."""
    def run(script, *options):
        child = start(["bailey", "run", *options, "--", "sh", "-c", f"{PERSON} {script}; touch {work}/ready; sleep 600"], cwd=work)
        wait_until(lambda: (work / "ready").exists() or child.process.poll() is not None, 60)
        assert (work / "ready").exists(), child.wait(10)
        inside = descendants(child.process.pid)
        for pid in (child.process.pid, *inside):
            try:
                os.kill(pid, 19)
            except ProcessLookupError:
                pass
        for pid in (*reversed(inside), child.process.pid):
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        child.wait(30)
        wait_until(lambda: all(gone(pid) for pid in inside), 30)
        (work / "ready").unlink()
    return run


@pytest.mark.parametrize("how", LEFT)
@pytest.mark.parametrize("by", ["run", "doctor", "kept sweep"])
def test_a_killed_run(diverged, killed, bailey, home, how, by):
    verb, script = LEFT[how]
    killed(script.replace("{home}", str(home)) + "; [ -e .git/rebase-merge ] || [ -d .git/rebase-apply ] || [ -d .git/sequencer ]")
    (home / "w2").mkdir()
    result = bailey("run", "--workspace", home / "w2", "--", "true", cwd=home / "w2") if by == "run" else bailey(*by.split(), cwd=diverged)
    ended = go_on(diverged, verb)
    assert not (home / "ran").exists(), (result, ended)
    assert any(part in entry["path"] for entry in json.loads(bailey("kept", "ls", "--json", cwd=diverged).check().text)
               for part in ("rebase-merge", "rebase-apply", "sequencer")), result


@pytest.mark.parametrize("place", ["made", "d/node_modules/a/made", "tree"])
def test_a_killed_run_in_what_it_made(diverged, killed, bailey, home, place):
    make = "git worktree add -q -b w tree theirs" if place == "tree" else f"git clone -q . {place}; git -C {place} branch ours origin/ours"
    killed(f"{make}; cd {place}; git rebase -x 'touch {home}/ran' ours; test -d $(git rev-parse --git-path rebase-merge)")
    result = bailey("kept", "sweep", cwd=diverged).check()
    (diverged / place / "f").write_text("solved")
    git("add", "f", cwd=diverged / place)
    ended = git("-c", "core.editor=true", "rebase", "--continue", cwd=diverged / place)
    assert not (home / "ran").exists(), (result, ended)


def test_a_killed_run_leaves_the_persons_own(diverged, killed, bailey, home):
    """A rebase that stood before, and one in a repository that the sandbox could not write."""
    repository(home / "elsewhere")
    for place in diverged, home / "elsewhere":
        git("rebase", "-x", "make check", "ours", cwd=place)
    time.sleep(0.05)
    killed(f"echo work > file; mkdir e; echo 'gitdir: {home}/elsewhere/.git' > e/.git")
    (home / "elsewhere/.git/rebase-merge/git-rebase-todo").touch()
    result = bailey("kept", "sweep", cwd=diverged).check()
    for place in diverged, home / "elsewhere":
        assert "exec make check" in (place / ".git/rebase-merge/git-rebase-todo").read_text(), result


def test_what_a_killed_run_left_is_looked_at_once(diverged, killed, bailey, home):
    """What a person begins after that is the person's."""
    killed("true")
    bailey("kept", "sweep", cwd=diverged).check()
    git("rebase", "-x", "make check", "ours", cwd=diverged)
    bailey("kept", "sweep", cwd=diverged).check()
    (home / "w2").mkdir()
    bailey("run", "--", "true", cwd=home / "w2").check()
    assert "exec make check" in (diverged / ".git/rebase-merge/git-rebase-todo").read_text()


@pytest.mark.parametrize("how", LEFT)
def test_an_overlay_that_is_applied(diverged, bailey, home, how):
    verb, script = LEFT[how]
    bailey("run", "-q", "--overlay", "--", "sh", "-c", PERSON + script.replace("{home}", str(home)) + "; echo fine > file", cwd=diverged).check()
    shown = bailey("diff", cwd=diverged).check()
    applied = bailey("apply", cwd=diverged)
    ended = go_on(diverged, verb)
    assert not (home / "ran").exists() and (diverged / "file").read_text() == "fine\n", (shown, applied, ended)
    assert "a protected path" in shown.text and "1 left" in applied.text, (shown, applied)


@pytest.mark.parametrize("place", ["made", "tree"])
def test_an_overlay_in_what_it_made(diverged, bailey, home, place):
    make = "git worktree add -q -b w tree theirs" if place == "tree" else f"git clone -q . {place}; git -C {place} branch ours origin/ours"
    bailey("run", "-q", "--overlay", "--", "sh", "-c", f"{PERSON} {make}; cd {place}; git rebase -x 'touch {home}/ran' ours; true", cwd=diverged).check()
    shown, applied = bailey("diff", cwd=diverged), bailey("apply", cwd=diverged)
    assert any("git-rebase-todo" in line and "a protected path" in line for line in shown.text.splitlines()), (shown, applied)
    assert not list(diverged.rglob("git-rebase-todo")), applied


def test_an_overlay_with_what_git_notes_itself_is_applied(diverged, bailey):
    """A rebase that names no program is carried over whole, and goes on."""
    bailey("run", "-q", "--overlay", "--", "sh", "-c", PERSON + TWO + "git rebase -X patience ours; test -d .git/rebase-merge", cwd=diverged).check()
    applied = bailey("apply", cwd=diverged)
    assert "nothing is left" in applied.text, applied
    go_on(diverged)
    assert not (diverged / ".git/rebase-merge").exists() and (diverged / "g").read_text() == "2\n"


# Beside an overlay, other writable places are written to as they are.

PLANTS = {
    "a hook": "printf '#!/bin/sh\\ntouch {home}/ran\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit",
    "a configuration": "git config core.fsmonitor 'touch {home}/ran; false'",
    "a new repository": "rm -rf new; git init -q new; git -C new config core.fsmonitor 'touch {home}/ran; false'",
    "a bare one": "git init -q --bare b; printf '[core]\\n\\tfsmonitor = \"touch {home}/ran; false\"\\n' >> b/config; printf 'gitdir: ../b\\n' > made; mkdir t; mv made t/.git",
    "a list": "git rebase -x 'touch {home}/ran' ours",
    "a name": "mkdir .vscode; echo x > .vscode/tasks.json; echo x > .envrc; echo x > .mcp.json",
    "a link": "mkdir x; ln -s x .vscode",
}


@pytest.mark.parametrize("how", PLANTS)
@pytest.mark.parametrize("end", ["ordinary", "killed"])
@pytest.mark.rows
def test_another_root_beside_an_overlay(work, killed, bailey, home, how, end):
    other = home / "other"
    repository(other)
    script = f"cd {other}; {PLANTS[how].replace('{home}', str(home))}"
    if end == "ordinary":
        result = bailey("run", "-q", "--overlay", "--write", other, "--", "sh", "-c", f"{PERSON} {script}; true", cwd=work).check()
    else:
        (work / "keep").touch()
        killed_in(bailey, killed, work, other, script)
        result = bailey("kept", "sweep", cwd=work)
    for place in (other, other / "new", other / "t"):
        if place.exists():
            git("status", cwd=place)
    go_on(other)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=other)
    assert not (home / "ran").exists(), result
    assert not [name for name in (".vscode", ".envrc", ".mcp.json") if os.path.lexists(other / name)], result


def killed_in(bailey, killed, work, other, script):
    """The sign that it is ready lies beside the overlay."""
    (work / "ready").symlink_to(other / "ready")
    killed(f"{script}; touch {other}/ready", "-q", "--overlay", "--write", other)
    bailey("discard", cwd=work)


def test_the_hosts_own_below_an_overlay(start, work, home):
    """What a person makes in the workspace meanwhile is theirs, also where the sandbox made the same in its copy."""
    signs = home / "signs"
    signs.mkdir()
    script = f"{PERSON} git init -q sub; mkdir .vscode; touch {signs}/ready; while [ ! -e {signs}/go ]; do sleep 0.02; done"
    child = start(["bailey", "run", "--overlay", "--write", signs, "--", "sh", "-c", script], cwd=work)
    wait_until(lambda: (signs / "ready").exists() or child.process.poll() is not None, 60)
    git("init", "-q", "sub", cwd=work, check=True)
    git("config", "alias.x", "status", cwd=work / "sub", check=True)
    (work / "sub/.git/hooks").mkdir(exist_ok=True)
    (work / "sub/.git/hooks/pre-commit").write_text("#!/bin/sh\ntrue\n")
    (work / ".vscode").mkdir()
    (signs / "go").touch()
    result = child.wait(60).check()
    assert (work / "sub/.git/hooks/pre-commit").exists() and "alias" in (work / "sub/.git/config").read_text() and (work / ".vscode").exists(), result
