# SPDX-License-Identifier: Apache-2.0
"""Calls of the supervisor that fail for want of descriptors, memory or a disk: whatever it could not look at is not
taken for missing. Either the launch fails, or everything is guarded as ever; and what stood in a repository before, with
the user's own hooks and settings, stands there afterwards."""
import hashlib
import os
import re
import shutil
import subprocess

import pytest

from conftest import program
from kit.process import wait_until

STRESS = int(os.environ.get("BAILEY_STRESS", "0"))
ATTACK = "for file in .git/config .git/hooks/pre-push a/b/.git/config a/b/.git/hooks/evil a/b/.git/modules/m/config settings hook; do echo '[alias] x = !touch /tmp/evil' >>$file; done 2>/dev/null; echo ran"
# Of these the survey, the registry of guards and the sweep are made.
CALLS = ("openat", "openat2", "newfstatat", "getdents64", *(("readlink", "access") if os.uname().machine == "x86_64" else ("readlinkat", "faccessat")))
ERRORS = ("EMFILE", "ENFILE", "ENOMEM", "EIO")


def git(tree, *words):
    subprocess.run(["git", "-C", tree, *words], check=True, capture_output=True)


@pytest.fixture
def tree(work):
    """A repository with everything that makes the survey look around."""
    (work / "hook").write_text("#!/bin/sh\n")
    (work / "settings").write_text("[user]\n\tname = somebody\n")
    for directory in (work, work / "a/b"):
        directory.mkdir(parents=True, exist_ok=True)
        git(directory, "init", "-q")
        git(directory, "config", "alias.mine", "!echo mine")
        (directory / ".git/hooks/pre-commit").write_text("#!/bin/sh\necho mine\n")
    git(work, "config", "include.path", "../settings")
    (work / ".git/hooks/post-commit").symlink_to("../../hook")
    module = work / "a/b/.git/modules/m"
    module.mkdir(parents=True)
    (module / "HEAD").write_text("ref: refs/heads/main\n")
    (module / "config").write_text("[core]\n\tbare = false\n\tfsmonitor = false\n")
    return work


def state(tree):
    """Every file and link, by what is in it."""
    found = {}
    for path in sorted(tree.rglob("*")):
        if path.is_symlink():
            found[str(path)] = os.readlink(path)
        elif path.is_file():
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def hurt(bailey, run, tree, call, error, number):
    """One launch in which one call fails. True: there was such a call."""
    before, trace = state(tree), tree.parent / "trace"
    got = run(["strace", "-o", trace, "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={number}",
               program("bailey"), "run", "--", "sh", "-c", ATTACK], cwd=tree, timeout=60)
    where = f"{call} {error} {number}: {got}"
    assert state(tree) == before, where
    assert ("ran" in got.text) == (got.status == 0), where
    if got.status:
        assert re.search(r"error|cannot", got.errors), where
    return "INJECTED" in trace.read_text()


def count_calls(run, tree):
    trace = tree.parent / "trace"
    run(["strace", "-o", trace, "-e", "trace=" + ",".join(CALLS), program("bailey"), "run", "--", "true"], cwd=tree, timeout=60).check()
    lines = trace.read_text().splitlines()
    return {call: sum(line.startswith(call + "(") for line in lines) for call in CALLS}


@pytest.fixture
def traced(bailey, run, tree):
    if not shutil.which("strace"):
        pytest.fail("strace is not installed: scripts/packages check")
    return lambda *fault: hurt(bailey, run, tree, *fault)


@pytest.mark.parametrize("call", CALLS)
def test_one_call_that_fails(run, traced, tree, call):
    """Numbers spread over the whole launch and the end; other ones with every error. BAILEY_STRESS=1 tries each."""
    total, met = count_calls(run, tree)[call], 0
    assert total > 0
    step = 1 if STRESS else max(1, total // 16)
    for place, number in enumerate(range(1, total + 1, step)):
        met += traced(call, ERRORS[(place + total) % len(ERRORS)], number)
    assert met > 0


@pytest.mark.parametrize("limit", [*range(8, 64, 1 if STRESS else 4), 22, 23])
def test_few_descriptors(bailey, run, tree, limit):
    before = state(tree)
    got = run(["prlimit", f"--nofile={limit}", program("bailey"), "run", "--", "sh", "-c", ATTACK], cwd=tree, timeout=60)
    assert state(tree) == before, got
    assert ("ran" in got.text) == (got.status == 0), got
    if got.status:
        assert "open files" in got.errors, got
    bailey("run", "--", "true", cwd=tree).check()
    assert state(tree) == before, "the next run swept what was there before"


@pytest.mark.parametrize("limit", [6, 8, 10, 12, 14, 16, 20, 24])
def test_no_descriptor_is_left_at_the_end(bailey, start, tree, limit):
    """Then nothing is swept that was there before, and what the sandbox made waits for the next run."""
    before = state(tree)
    child = start(["bailey", "run", "--", "sh", "-c",
                   "git init -q made; echo '[alias] x = !touch /tmp/evil' >>made/.git/config; touch begun; until [ -e go ]; do sleep 0.02; done"], cwd=tree)
    wait_until(lambda: (tree / "begun").exists())
    subprocess.run(["prlimit", "--pid", str(child.pid), f"--nofile={limit}:{limit}"], check=True)
    (tree / "go").touch()
    child.wait(60)
    for name in ("begun", "go"):
        (tree / name).unlink()
    bailey("run", "--", "true", cwd=tree).check()
    after = state(tree)
    assert {path: after.get(path) for path in before} == before
    assert "evil" not in (tree / "made/.git/config").read_text()
