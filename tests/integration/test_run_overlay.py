# SPDX-License-Identifier: Apache-2.0
"""run --overlay, diff, apply, discard: the workspace is as before until a person applies."""
import json
import os
import subprocess

import pytest


@pytest.fixture
def workspace(tmp_path):
    top = tmp_path / "work"
    top.mkdir()
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    (top / "kept").write_text("kept\n")
    (top / "changed").write_text("before\n")
    (top / "gone").write_text("gone\n")
    return top


def tree(top):
    return {str(p.relative_to(top)): (os.readlink(p) if p.is_symlink() else p.read_bytes() if p.is_file() else None)
            for p in sorted(top.rglob("*"))}


SCRIPT = """echo after > changed; rm gone; mkdir dir; echo new > dir/new; ln -s /etc/passwd leaves; ln -s kept stays
mkfifo fifo; echo '#!/bin/sh' > .git/hooks/pre-commit; printf '[core]\\n fsmonitor = evil\\n' >> .git/config; cat changed"""


@pytest.fixture
def after_run(bailey, workspace):
    before = tree(workspace)
    result = bailey("run", "--workspace", str(workspace), "--overlay", "--", "sh", "-c", f"cd {workspace}; {SCRIPT}").check()
    assert result.text == "after\n", "inside, the change is seen"
    assert tree(workspace) == before, "outside, nothing happened"
    return workspace


def changes(bailey, workspace):
    shown = json.loads(bailey("diff", "--json", cwd=str(workspace)).check().text)
    return {c["path"]: c for c in shown["changes"]}


def test_diff_says_what_changed_and_marks_what_is_risky(bailey, after_run):
    found = changes(bailey, after_run)
    assert found["changed"]["kind"] == "modified" and found["changed"]["marks"] == []
    assert found["gone"]["kind"] == "deleted" and found["dir/new"]["kind"] == "added"
    assert found["leaves"]["marks"] == ["link-leaves"] and found["stays"]["marks"] == []
    assert found["fifo"]["marks"] == ["special"]
    assert found[".git/hooks/pre-commit"]["marks"] == ["protected"] and found[".git/config"]["marks"] == ["protected"]


def test_apply_leaves_out_what_is_risky(bailey, after_run):
    result = bailey("apply", cwd=str(after_run))
    assert result.status == 1 and "leaves" in result.text
    now = tree(after_run)
    assert now["changed"] == b"after\n" and "gone" not in now and now["dir/new"] == b"new\n" and now["stays"] == "kept"
    assert "leaves" not in now and "fifo" not in now and ".git/hooks/pre-commit" not in now
    assert b"fsmonitor" not in now[".git/config"]


def test_apply_risky_takes_all_but_special_files(bailey, after_run):
    bailey("apply", "--risky", cwd=str(after_run))
    now = tree(after_run)
    assert now["leaves"] == "/etc/passwd" and b"fsmonitor" in now[".git/config"] and "fifo" not in now


@pytest.mark.parametrize("script, said", [("echo BASH_ENV=x > .env", "sets BASH_ENV"), ("echo BASH_ENV=x > y; ln -s y .env", "sets BASH_ENV"), ("echo A=1 > .env", None), ("touch z", None)])
def test_apply_says_what_env_sets(bailey, workspace, script, said):
    """Programs outside load it from then on, not before."""
    errors = bailey("run", "--workspace", str(workspace), "--overlay", "--", "sh", "-c", f"cd {workspace}; {script}").check().errors
    assert ".env" not in errors
    errors = bailey("apply", cwd=str(workspace)).check().errors
    assert errors.count(".env was written") == bool(said) and (said or "") in errors, errors


def test_discard_leaves_nothing(bailey, after_run, home):
    before = tree(after_run)
    bailey("discard", cwd=str(after_run)).check()
    assert tree(after_run) == before
    assert list((home / ".local/state/bailey/overlays").iterdir()) == []
    assert bailey("diff", cwd=str(after_run)).status == 4


def test_a_file_that_changed_meanwhile_is_a_conflict(bailey, after_run):
    (after_run / "changed").write_text("a person was here\n")
    assert changes(bailey, after_run)["changed"]["marks"] == ["conflict"]
    bailey("apply", cwd=str(after_run))
    assert (after_run / "changed").read_text() == "a person was here\n"


def test_nothing_written_nothing_kept(bailey, workspace, home):
    bailey("run", "--workspace", str(workspace), "--overlay", "--", "true").check()
    assert list((home / ".local/state/bailey/overlays").iterdir()) == []


def test_work_of_two_runs_is_kept_apart(bailey, workspace):
    for name in ("one", "two"):
        bailey("run", "--workspace", str(workspace), "--overlay", "--", "touch", str(workspace / name)).check()
    listed = bailey("diff", "--list").check().text.splitlines()
    assert len(listed) == 2
    first = listed[0].split()[0]
    assert "one" in bailey("diff", first).check().text and "two" in bailey("diff", cwd=str(workspace)).check().text


def test_a_path_that_an_overlay_cannot_have_is_refused(bailey, tmp_path):
    odd = tmp_path / "a:b"
    odd.mkdir()
    result = bailey("run", "--workspace", str(odd), "--overlay", "--", "true")
    assert result.status != 0 and "colon" in result.errors


def test_no_rule_makes_a_hole_in_the_overlay(bailey, workspace):
    """Neither a grant around the workspace nor what a rule closes inside leads to the host's own directories."""
    (workspace / "deep/down").mkdir(parents=True)
    (workspace / "deep/down/secret").write_text("secret\n")
    (workspace / "deep/down/plain").write_text("before\n")
    before = tree(workspace)
    script = "cat deep/down/secret; echo after > deep/down/plain; echo new > deep/down/new; echo new > deep/new; echo new > new; mv deep moved"
    for rules in (["--deny-read", "deep/down/secret"], ["--deny-write", "deep/down/secret", "--write", str(workspace.parent)]):
        result = bailey("run", "--overlay", *rules, "--", "sh", "-c", script, cwd=str(workspace))
        assert tree(workspace) == before, result
        assert ("secret" in result.text) == ("--write" in rules), result
        assert {"new", "moved/new", "moved/down/new"} <= set(changes(bailey, workspace))
        bailey("discard", cwd=str(workspace)).check()
