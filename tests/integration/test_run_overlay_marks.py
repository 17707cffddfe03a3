# SPDX-License-Identifier: Apache-2.0
"""What `bailey apply` must not carry over without a second look, and what it must never destroy."""
import os
import subprocess

import pytest

from kit.git import ENVIRONMENT, git

pytestmark = pytest.mark.visible_home


@pytest.fixture
def overlay(bailey, work, home):
    """overlay(script): a run with --overlay; then diff as {path: line}."""
    def run(script):
        mon = f"[core]\n\tfsmonitor = \"touch {home}/ran; false\"\n"
        bailey("run", "-q", "--overlay", "--", "sh", "-c", f"MON='{mon}'; {script}", cwd=work)
        lines = bailey("diff", cwd=work).check().text.splitlines()[:-1]
        return {line[3:].split("   ! ")[0].split(" -> ")[0].rstrip("/"): line for line in lines}
    return run


def after_apply(bailey, home, work):
    bailey("apply", cwd=work)
    git("status", cwd=work)
    assert not (home / "ran").exists()


@pytest.mark.parametrize("script,marked", [
    ('cp -r .git lib; echo "$MON" >> lib/config; rm -rf .git; echo "gitdir: lib" > .git', ".git"),
    ('cp -r .git lib; echo "$MON" >> lib/config; rm -rf .git; ln -s lib .git', ".git"),
    ("rm -rf .git", ".git"), ('mkdir x; rm -rf .config; ln -s x .config; mkdir x/git', ".config"),
    ('mv .git g2; mkdir .git; cp -r g2/* .git; echo "$MON" >> .git/config', ".git/config"),
    ('git init -q own; echo "$MON" >> own/.git/config', "own/.git/config"), ('echo "gitdir: ../x" > sub.git; mkdir d; cp sub.git d/.git', "d/.git"),
    ("rm -rf tools; ln -s /tmp tools", "tools"), ("echo x > tools/hooks/pre-commit", "tools/hooks/pre-commit"), ("echo x > script", "script"),
])
def test_what_git_obeys_is_marked(overlay, bailey, home, work, script, marked):
    git("init", "-q", cwd=work)
    git("config", "core.hooksPath", "tools/hooks", cwd=work)
    (work / "tools/hooks").mkdir(parents=True)
    (work / "script").write_text("#!/bin/sh\n")
    (work / "tools/hooks/post-commit").symlink_to("../../script")
    (work / ".config").mkdir()
    found = overlay(script)
    assert "a protected path" in found[marked], found
    before = (work / ".git/HEAD").read_text()
    after_apply(bailey, home, work)
    assert (work / ".git/HEAD").read_text() == before


@pytest.mark.parametrize("script,name", [
    ("mkdir -p d/e; ln -s ../.. d/e/s; ln -s d/e/s/../../key leak", "leak"), ("ln -s .. up; ln -s up/x leak", "leak"),
    ("mkdir a; ln -s a/../../x leak", "leak"), ("ln -s present/x leak", "leak"), ("ln -s b leak; ln -s c b; ln -s ../x c", "leak"),
    ("ln -s leak leak", "leak"),
])
def test_links_that_lead_out_through_others(overlay, work, home, script, name):
    (work / "present").symlink_to(home)
    assert "leads out" in overlay(script)[name]


@pytest.mark.parametrize("script", ["mkdir d; ln -s d/x ok", "mkdir d; ln -s d/../y ok", "ln -s {work}/z ok", "mkdir -p a/b; ln -s ../../q a/b/ok; ln -s a/b/ok ok"])
def test_links_that_stay(overlay, work, script):
    assert "leads out" not in overlay(script.format(work=work))["ok"]


@pytest.mark.parametrize("script", ["rm -rf d", "rm -rf d; echo x > d", "rm -rf d; mkdir d; echo x > d/other", "rm -rf d/deep"])
@pytest.mark.parametrize("mine", ["d/deep/mine", "d/deep/er/mine"])
@pytest.mark.rows
def test_what_the_user_wrote_meanwhile_stays(overlay, bailey, work, script, mine):
    (work / "d/deep/er").mkdir(parents=True)
    (work / "d/deep/old").write_text("old\n")
    overlay(script)
    (work / mine).write_text("mine\n")
    assert "changed meanwhile" in bailey("diff", cwd=work).text
    bailey("apply", cwd=work)
    assert (work / mine).read_text() == "mine\n"


@pytest.mark.parametrize("script, mine", [
    ("mkdir d; echo theirs > d/new", "rm -r d; echo mine > d"), ("mv old moved", "mv moved old; echo mine > old"), ("chmod 755 old", "chmod 600 old"),
    ("echo more >> old", "echo mine > old"), ("rm -r tree", "mkdir tree; echo mine > tree/file"), ("rm -r tree; echo theirs > tree", "rm tree; mkdir tree; echo mine > tree/x"),
    ("rm -r tree; mkdir tree; echo theirs > tree/new", "echo mine > tree/new; echo mine > tree/mine"), ("rm -r tree; mkdir tree", "echo mine > tree/sub"),
    ("rm -r tree; mkdir -p tree/sub/deep; echo theirs > tree/sub/deep/f", "echo mine > tree/sub/file; rm -r tree/sub/deep"), ("mkdir -p e/f", "rmdir e/f"),
    ("ln -sfn tree old", "rm old; echo mine > old"), ("mkdir -p a/b/c; echo 1 > a/b/c/1; echo 2 > a/b/2", "rm a/b/2; echo mine > a/b/c/1"),
])
def test_what_was_applied_is_done_with(overlay, bailey, work, script, mine):
    """Whatever it was: the user's work after it stays, and it is no conflict."""
    (work / "old").write_text("old\n")
    (work / "tree/sub").mkdir(parents=True)
    (work / "tree/sub/file").write_text("old\n")
    overlay(f"{script}; echo x > .envrc")  # one change is left, so the overlay stays
    assert bailey("apply", cwd=work).status == 1
    subprocess.run(["sh", "-ec", mine], cwd=work, check=True)

    def state():
        listed = subprocess.run(["sh", "-c", "find . -path ./.envrc -prune -o -printf '%p %m %l\\n' | sort; cat $(find . -type f ! -name .envrc | sort)"], cwd=work,
                                check=True, capture_output=True, text=True)
        return listed.stdout
    before = state()
    left = bailey("diff", cwd=work).text.splitlines()[:-1]
    assert len(left) == 1 and ".envrc" in left[0], left
    bailey("apply", "--risky", cwd=work).check()
    assert state() == before and (work / ".envrc").exists()


@pytest.mark.parametrize("meanwhile", [False, True], ids=["quiet", "written to"])
def test_a_directory_made_anew_that_is_applied_in_part(overlay, bailey, work, meanwhile):
    """What it hides is gone, but not what was applied into it, nor what the user makes there later."""
    (work / "tree/sub").mkdir(parents=True)
    for name in ("tree/sub/file", "tree/old"):
        (work / name).write_text("old\n")
    overlay("rm -r tree; mkdir -p tree/made; echo theirs > tree/new; echo theirs > tree/made/new; ln -s /etc/passwd tree/out")
    if meanwhile:
        (work / "tree/sub/file").write_text("mine\n")
    assert bailey("apply", cwd=work).status == 1
    assert (work / "tree/new").exists() and not (work / "tree/old").exists() and (work / "tree/sub").exists() == meanwhile
    (work / "tree/mine").write_text("mine\n")
    left = {line[3:].split("   ! ")[0].split(" -> ")[0].rstrip("/") for line in bailey("diff", cwd=work).check().text.splitlines()[:-1]}
    assert left == {"tree/out", *(["tree/sub"] if meanwhile else [])}, left
    bailey("apply", "--risky", cwd=work).check()
    assert sorted(os.listdir(work / "tree")) == ["made", "mine", "new", "out"] and (work / "tree/made/new").read_text() == "theirs\n"


@pytest.mark.parametrize("mode", ["555", "500"])
def test_directories_that_their_owner_may_not_change(overlay, bailey, work, mode):
    """Neither one that the run made so nor one of the workspace keeps the rest from being applied; and the mode is a change like another."""
    for name in ("tree/sub/file", "closed/sub/file"):
        (work / name).parent.mkdir(parents=True)
        (work / name).write_text("old\n")
    (work / "closed").chmod(int(mode, 8))
    overlay(f"rm -r tree; mkdir tree; chmod {mode} tree; echo 1 > aa; echo 2 > zz; echo theirs > closed/sub/file; ln -s /etc/passwd out")
    result = bailey("apply", cwd=work)
    assert result.status == 1 and "1 left" in result.text, result
    assert (work / "aa").exists() and (work / "zz").exists() and not (work / "out").is_symlink()
    assert os.listdir(work / "tree") == [] and (work / "closed/sub/file").read_text() == "theirs\n"
    for name in ("tree", "closed"):
        assert (work / name).stat().st_mode & 0o777 == int(mode, 8)
    bailey("apply", "--risky", cwd=work).check()
    assert (work / "out").is_symlink()


def test_what_was_applied_is_not_applied_again(overlay, bailey, work):
    (work / "gone").write_text("x\n")
    overlay("echo theirs > f; rm gone; echo evil > .envrc; ln -s f l")
    assert bailey("apply", cwd=work).status == 1
    assert (work / "f").read_text() == "theirs\n" and not (work / "gone").exists() and (work / "l").is_symlink()
    (work / "f").write_text("mine\n")
    (work / "gone").write_text("mine again\n")
    (work / "l").unlink()
    listed = bailey("diff", cwd=work).text
    assert ".envrc" in listed and "  f" not in listed and "gone" not in listed
    bailey("apply", "--risky", cwd=work).check()
    assert (work / "f").read_text() == "mine\n" and (work / "gone").read_text() == "mine again\n" and not (work / "l").exists()
    assert (work / ".envrc").exists()


DEEP = "d/" + "/".join(f"e{i}" for i in range(70))


@pytest.mark.parametrize("script", [
    'echo "$MON" >> store/config; echo "$MON" >> bare/config',
    'rm store/HEAD; echo "$MON" >> store/config',
    'rm -r store/refs store/HEAD; echo "$MON" >> store/config; mkdir -p store/refs/heads; echo ref: refs/heads/main > store/HEAD',
    'cp -r store c; echo "$MON" >> c/config; mv store old; mv c store',
    'cp -r store c; echo "$MON" >> c/config; mv store old; ln -s c store',
    'cp -r store c; echo "$MON" >> c/config; echo ../../../c > store/worktrees/linked/commondir',
    'mkdir -p store/hooks; printf "#!/bin/sh\\ntouch $HOME/ran\\n" > store/hooks/post-index-change; chmod +x store/hooks/post-index-change',
    'mkdir new; cp -r bare/objects bare/refs bare/HEAD new; echo "$MON" > new/config',
])
def test_repositories_by_any_name_at_any_depth(overlay, bailey, home, work, script):
    """No `.git` in their path, and too deep for a search: what they have in them says what they are."""
    deep = work / DEEP
    deep.mkdir(parents=True)
    environment = {**os.environ, **ENVIRONMENT}
    for line in ("init -q --separate-git-dir=store tree", "-C tree commit -q --allow-empty -m x", "-C tree worktree add -q ../linked",
                 "init -q --bare bare"):
        subprocess.run(["git", *line.split()], cwd=deep, env=environment, check=True, capture_output=True)
    monitor = f"[core]\n\tbare = false\n\tfsmonitor = \"touch {home}/ran; false\"\n"
    overlay(f"MON='{monitor}'; cd {DEEP}; {script}")
    for _ in range(2):
        bailey("apply", cwd=work)
        for place in ("tree", "linked", "bare", "new"):
            if (deep / place).exists():
                subprocess.run(["git", "status"], cwd=deep / place, env=environment, check=False, capture_output=True)
        assert not (home / "ran").exists()


def test_a_repository_in_two_steps(overlay, bailey, work):
    """First its configuration, as content; then what makes git obey it."""
    overlay("mkdir x; echo evil > x/config")
    bailey("apply", cwd=work).check()
    marks = overlay("mkdir x/objects x/refs; echo ref: refs/heads/main > x/HEAD")
    assert "protected" in marks["x/HEAD"] and "protected" in marks["x/objects"]
    assert "protected" not in overlay("mkdir -p y/objects y/config; echo x > y/config/refs")["y/config/refs"]


@pytest.mark.parametrize("denied,script", [
    (["--deny-write", "made"], "echo x > made"), (["--deny-write", "d/made"], "mkdir d; echo x > d/made"), (["--deny-write", "made"], "mkdir made; echo x > made/file"),
    (["--deny-read", "made"], "echo x > made"), (["--deny-write", "made/*.lock"], "mkdir made; echo x > made/a.lock"), (["--policy", "../p.yaml"], "echo x > made"),
])
def test_what_the_policy_closes_is_marked(bailey, home, work, denied, script):
    """A name that a person denies may be made in an overlay, where it does not exist; it does not come to the workspace without a second look."""
    (work.parent / "p.yaml").write_text(f"mode: workspace-write\nfilesystem: {{ deny_write: [{work}/made] }}\n")
    bailey("run", "-q", "--overlay", *denied, "--", "sh", "-c", script + "; echo y > other", cwd=work)
    bailey("apply", cwd=work)
    assert (work / "other").exists()
    assert not [path for path in work.rglob("*") if path.name in ("made", "file", "a.lock") and not path.is_dir()]
