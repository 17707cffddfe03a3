# SPDX-License-Identifier: Apache-2.0
"""Settings of agents and editors below the top of the workspace: an agent that a person starts in a subdirectory obeys them.
What was there cannot be changed, and what the sandbox makes is moved away when it has ended."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from conftest import program
from kit.control import wait_for
from kit.git import ENVIRONMENT, git
from kit.planting import PlantedBelow, obeyed
from kit.process import SLOW
from kit.write_ways import state

pytestmark = pytest.mark.visible_home

WAYS = pathlib.Path(__file__).parent / "kit" / "write_ways.py"
PYTHON = "/usr/bin/python3"
WHY = "agents and editors run what it says"


@pytest.fixture
def kept(bailey, work):
    return lambda: [entry["path"] for entry in json.loads(bailey("kept", "ls", "--json", cwd=work).check().text)]


@pytest.mark.parametrize("place", ["pkg", "pkg/one/two", "node_modules/x"])
@pytest.mark.parametrize("exists", [False, True], ids=["absent", "there"])
def test_planting(bailey, home, work, place, exists):
    """Each name by each way of kit/planting.py. Nothing that was there has changed; some of it may be gone."""
    planted = PlantedBelow(work, place, exists)
    bailey("run", "-q", "--", *planted.command, cwd=work, env=ENVIRONMENT, timeout=120 * SLOW).check()
    planted.check()

    shutil.rmtree(planted.here / "planted")
    subprocess.run(planted.command, cwd=work, env={**os.environ, "HOME": str(home)}, check=True, capture_output=True)
    assert len(obeyed(work)) > 30, "the attack proves nothing"  # some of the ways remove what others made


@pytest.mark.parametrize("target, there", [("pkg/.claude/settings.json", True), ("pkg/.mcp.json", True), ("pkg/.mcp.json", False), ("pkg/.vscode/tasks.json", True),
                                           ("pkg/.vscode/tasks.json", False), ("pkg/opencode.json", True)])
def test_no_way_changes_it(bailey, work, target, there):
    shutil.copy(WAYS, work / "ways.py")
    path = work / target
    path.parent.mkdir(parents=True)
    if there:
        path.write_text("the user's\n")
    before = state(path)
    done = bailey("run", "-q", "--", PYTHON, "ways.py", target, cwd=work, timeout=120 * SLOW).check()
    assert len(done.text.splitlines()) > 50
    assert not os.path.lexists(path) or (there and state(path) == before), done


# In a workspace with pkg/.claude/settings.json, pkg/opencode.json and lib/x, which the person made.
PLANTED = [
    "mkdir -p sub/.claude; echo EVIL > sub/.claude/settings.json",
    "mkdir -p sub/.CLAUDE; echo EVIL > sub/.CLAUDE/settings.json; mv sub/.CLAUDE sub/.claude",
    "mkdir -p sub x; echo EVIL > x/settings.json; mv x sub/.claude",
    "mkdir -p x/.claude; echo EVIL > x/.claude/settings.json; mv x sub",
    "mkdir -p x/a/b/.claude; echo EVIL > x/a/b/.claude/settings.json; mv x/a sub; mv sub/b c; mv c lib/d",
    "mkdir -p x/.claude lib/y; echo EVIL > x/.claude/settings.json; " + PYTHON + " -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b\"x\", -100, b\"lib/y\", 2)'",
    "mkdir -p sub/.claude x; echo EVIL > x/settings.json; " + PYTHON + " -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b\"x\", -100, b\"sub/.claude\", 2)'",
    "mkdir -p sub/.claude x; echo EVIL > x/settings.json; mv sub/.claude y; mv x sub/.claude",
    "mkdir -p sub x; echo EVIL > x/settings.json; ln -s ../x sub/.claude",
    "mkdir -p sub x; echo EVIL > x/tasks.json; ln -s ../x sub/.vscode",
    "mkdir -p sub x; echo EVIL > x/tasks.json; mv x sub/.vscode",
    "mkdir -p sub x; echo EVIL > x/mcp.json; mv x sub/.github",
    "mkdir -p sub/.vscode; mkdir t; echo EVIL > t/tasks.json; mv t/tasks.json sub/.vscode/tasks.json",
    "mkdir -p sub; echo EVIL > f; ln f sub/.mcp.json",
    "mkdir -p sub; echo EVIL > f; ln -s ../f sub/.mcp.json",
    "mkdir -p sub; mkdir /tmp/t; echo EVIL > /tmp/t/settings.json; mv /tmp/t sub/.claude",
    "mkdir -p $HOME/t/.claude; echo EVIL > $HOME/t/.claude/settings.json; mv $HOME/t sub",
    "mkdir -p /tmp/t/.gemini; echo EVIL > /tmp/t/.gemini/settings.json; tar cf /tmp/a.tar -C /tmp/t .; mkdir sub; tar xf /tmp/a.tar -C sub",
    "exec 3>pkg/new; mv pkg/new pkg/.claude/settings.json; echo EVIL >&3",
    "rm pkg/opencode.json; exec 3>pkg/new; mv pkg/new pkg/opencode.json; echo EVIL >&3",
    "mv pkg/.claude pkg/c; echo EVIL > pkg/c/settings.json; mv pkg/c pkg/.claude",
    "mv pkg/.claude pkg/c; exec 3>>pkg/c/settings.json; mv pkg/c pkg/.claude; echo EVIL >&3",
    "mv pkg/.claude/settings.json f; echo EVIL > f; mv f pkg/.claude/settings.json",
    "mv pkg/.claude/settings.json f; ln f g; mv f pkg/.claude/settings.json; echo EVIL > g",
    "ln pkg/.claude/settings.json g; echo EVIL > g",
    "mv pkg p2; echo EVIL > p2/.claude/settings.json; mv p2 pkg",
    "cd pkg/.claude; mv ../../pkg ../../p2; echo EVIL > settings.json; mv ../../p2 ../../pkg",
    "mkdir -p sub/.git/x/.claude; echo EVIL > sub/.git/x/.claude/settings.json; mv sub/.git/x other",
    "mkdir -p a/.claude; echo EVIL > a/.claude/settings.json; mv a/.claude a/x; mv a/x a/.claude",
    "mkdir -p a/b c/.claude; echo EVIL > c/.claude/settings.json; rmdir a/b; ln -s ../c a/b",
    "mkdir -p a/.claude; echo EVIL > a/.claude/settings.json; chmod 0 a/.claude; chmod 0 a",
    # the first part of a name with two, and then its parent
    "mkdir -p a/x/y; echo EVIL > a/x/y/tasks.json; mv a/x/y a/x/.vscode; mv a/x a/z",
    "mkdir -p a/x/y; mv a/x/y a/x/.vscode; echo EVIL > a/x/.vscode/tasks.json; mv a/x a/z",
    "mkdir -p a/x/y; echo EVIL > a/x/y/mcp.json; mv a/x/y a/x/.github; mv a/x z; mv z lib/z",
    "mkdir -p x a; echo EVIL > x/tasks.json; ln -s ../x a/.vscode; mv a b",
    "mkdir -p a/y b; echo EVIL > a/y/tasks.json; mv a/y a/.vscode; " + PYTHON + " -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b\"a\", -100, b\"b\", 2)'",
    # in a directory of settings, and then out of it
    "mkdir -p a/.claude/d/.claude; echo EVIL > a/.claude/d/.claude/settings.json; mv a/.claude/d a/d",
    "mkdir -p a/.claude/d; echo EVIL > a/.claude/d/.mcp.json; mv a/.claude/d a/d",
    "mkdir -p a/.claude; echo EVIL > a/.claude/.mcp.json; mv a/.claude a/foo",
    "mkdir -p a/.claude/.vscode; echo EVIL > a/.claude/.vscode/tasks.json; mv a/.claude a/foo",
    "mkdir -p .claude/d/.claude; echo EVIL > .claude/d/.claude/settings.json; mv .claude/d sub",
    "mkdir -p .idea/d; echo EVIL > .idea/d/.mcp.json; mv .idea/d sub",
    "mkdir -p .vscode/d/e; echo EVIL > .vscode/d/e/settings.json; mv .vscode/d/e .vscode/d/.zed; mv .vscode/d sub",
    # what the person made, in a directory of settings that the sandbox made of it
    "mkdir a; mv pkg a/.claude; echo EVIL > a/.claude/opencode.json; mv a/.claude pkg",
    "mv pkg .idea; echo EVIL > .idea/opencode.json; echo EVIL > .idea/.claude/settings.json; mv .idea pkg",
    "mkdir a; mv pkg a/.claude; mv a/.claude/.claude a/.claude/c; echo EVIL > a/.claude/c/settings.json; mv a/.claude/c a/.claude/.claude; mv a/.claude pkg",
    # what looks like a branch
    "mkdir -p a/.git/refs/d/.claude; echo EVIL > a/.git/refs/d/.claude/settings.json; ln -s .git/refs/d a/proj",
    "mkdir -p a/.git/refs/d; echo EVIL > a/.git/refs/d/opencode.json; mv a/.git/refs/d proj",
]

# Makes, moves and exchanges at random, below one directory, with the names that count among others.
AT_RANDOM = """
import ctypes, os, random, sys
chance, libc = random.Random(sys.argv[1]), ctypes.CDLL(None)
names = ["a", "b", "c", ".claude", ".vscode", ".github", ".idea", ".mcp.json", "opencode.json", "tasks.json", "settings.json", "mcp.json", "hooks"]
def path():
    return "/".join(chance.choice(names) for _ in range(chance.randint(1, 4)))
for _ in range(600):
    one, other = path(), path()
    try:
        act = chance.choice(["mkdir", "mkdir", "write", "write", "write", "rename", "rename", "exchange", "symlink", "link", "remove"])
        if act == "mkdir":
            os.makedirs(one)
        elif act == "write":
            open(one, "w").write("EVIL")
        elif act == "rename":
            os.rename(one, other)
        elif act == "exchange":
            libc.renameat2(-100, one.encode(), -100, other.encode(), 2)
        elif act == "symlink":
            os.symlink(os.path.relpath(one, os.path.dirname(other) or "."), other)
        elif act == "link":
            os.link(one, other)
        elif chance.random() < 0.3:
            os.remove(one)
    except OSError:
        pass
"""


@pytest.fixture
def tree(work):
    for name in ("pkg/.claude/settings.json", "pkg/opencode.json"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("mine\n")
    (work / "lib/x").mkdir(parents=True)
    return work


@pytest.mark.parametrize("script", PLANTED)
def test_nothing_of_it_stays(sh, tree, script):
    sh(script + "; true", "-q", env=ENVIRONMENT).check()
    if (tree / "a").exists():
        (tree / "a").chmod(0o755)
    assert not [path for path, text in obeyed(tree).items() if text != "mine\n"]


@pytest.mark.parametrize("seed", range(8))
def test_nothing_stays_at_random(sh, tree, seed):
    """The person has a few of the names, too."""
    for name in ("b/.claude/settings.json", "b/c/.mcp.json", "c/.vscode/tasks.json", "a/opencode.json"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("mine\n")
    (tree / "moves.py").write_text(AT_RANDOM)
    sh(f"{PYTHON} moves.py {seed}", "-q", env=ENVIRONMENT).check()
    assert not [path for path, text in obeyed(tree).items() if text != "mine\n"]


def test_it_is_the_sandboxs_own_however_it_is_saved(sh, tree):
    """Editors write another file and move it to the name."""
    script = "mkdir s; for i in 1 2 3; do echo $i > t && mv t s/.mcp.json && echo more >> s/.mcp.json || exit 1; done; cat s/.mcp.json"
    assert sh(script, "-q").check().text == "3\nmore\n"


def test_the_attacks_work_outside(tree):
    """Most of them; the others need a place that only a sandbox has."""
    worked = 0
    for script in PLANTED:
        subprocess.run(["cp", "-a", tree, f"{tree}.copy"], check=True)
        subprocess.run(["sh", "-c", script], cwd=f"{tree}.copy", env={**os.environ, "HOME": f"{tree}.copy/home"}, capture_output=True, check=False)
        subprocess.run(["chmod", "-R", "u+rwx", f"{tree}.copy"], check=True)
        worked += any("EVIL" in text for text in obeyed(f"{tree}.copy").values())
        shutil.rmtree(f"{tree}.copy")
        shutil.rmtree("/tmp/t", ignore_errors=True)
    assert worked >= len(PLANTED) - 2


def test_what_was_there_is_refused_on_record(sh, bailey, tree):
    done = sh("echo x > pkg/.claude/settings.json; echo x >> pkg/opencode.json; echo x > pkg/.claude/y; echo made $?")
    assert "made 0" in done.text and done.errors.count("Permission denied") == 2
    assert WHY in done.errors and f"--write {tree}/pkg/.claude/settings.json" in done.errors
    shown = bailey("why", "pkg/.claude/settings.json", cwd=tree).text
    assert ": read\n" in shown and WHY in shown and f"{tree}/pkg/.claude\n" in shown
    assert ": write\n" in bailey("why", "pkg/README", cwd=tree).text
    assert WHY in bailey("log", "--json", cwd=tree).text


@pytest.mark.parametrize("grant", ["pkg", "pkg/.claude", "pkg/.claude/settings.json"])
def test_a_grant_by_name_opens_it(sh, bailey, tree, kept, grant):
    sh("echo changed > pkg/.claude/settings.json", "--write", grant)
    text = (tree / "pkg/.claude/settings.json").read_text()
    assert text == ("mine\n" if grant == "pkg" else "changed\n")  # of a directory that is granted they are the top
    assert kept() == []
    assert (": write\n" in bailey("why", "--write", grant, "pkg/.claude/settings.json", cwd=tree).text) == (grant != "pkg")


def test_kept_and_put_back(sh, bailey, work, kept):
    sh("mkdir -p a/.claude; echo work > a/.claude/settings.json; echo text > a/AGENTS.md; mkdir a/.vscode; echo x > a/.vscode/launch.json").check()
    assert kept() == [str(work / "a/.claude")] and (work / "a/AGENTS.md").exists() and (work / "a/.vscode/launch.json").exists()
    run = json.loads(bailey("kept", "ls", "--json", cwd=work).text)[0]["id"]
    bailey("kept", "restore", run, str(work / "a/.claude"), cwd=work).check()
    assert (work / "a/.claude/settings.json").read_text() == "work\n"


def test_many_of_them_are_one_line(sh, tree, kept):
    done = sh("for i in $(seq 40); do mkdir -p node_modules/p$i/.claude; done; echo x > .bashrc; echo x > pkg/opencode.json")
    lines = [line for line in done.errors.splitlines() if line.startswith("bailey: moved")]
    assert len(lines) == 1 and "moved away 41 protected paths" in lines[0] and "and 38 more" in lines[0] and "bailey kept" in lines[0]
    assert "refused writing" in done.errors and len(kept()) == 41


def test_with_few_descriptors(run, work, kept):
    """None is lacking for other files, however many such names there are."""
    script = "for i in $(seq 600); do mkdir -p p$i/.claude && echo x > p$i/.claude/settings.json && echo x > p$i/code || exit 1; done"
    run(["sh", "-c", f"ulimit -n 256; exec {program('bailey')} run -q -- sh -c '{script}'"], cwd=work).check()
    assert len(kept()) == 600 and (work / "p600/code").exists()


def test_trees_with_such_names_are_removed(sh, work):
    """As package managers do it, and put others in their place."""
    for i in range(20):
        (work / f"node_modules/p{i}/.vscode").mkdir(parents=True)
        (work / f"node_modules/p{i}/.vscode/settings.json").write_text("{}")
    done = sh("""rm -rf node_modules && mkdir node_modules && for i in 1 2 3; do mkdir -p node_modules/.t$i/.vscode && echo new > node_modules/.t$i/.vscode/settings.json &&
        echo x > node_modules/.t$i/index.js && mv node_modules/.t$i node_modules/p$i || exit 1; done""")
    done.check()
    assert sorted(os.listdir(work / "node_modules/p1")) == [".vscode", "index.js"] and os.listdir(work / "node_modules/p1/.vscode") == []


@pytest.fixture
def tracked(tree):
    git("init", "-q", "-b", "main", cwd=tree)
    git("add", "-A", cwd=tree)
    git("commit", "-qm", "one", cwd=tree)
    git("checkout", "-q", "-b", "two", cwd=tree)
    (tree / "pkg/.claude/settings.json").write_text("two\n")
    (tree / "pkg/code").write_text("two\n")
    git("commit", "-qam", "two", cwd=tree)
    git("checkout", "-q", "main", cwd=tree)
    return tree


@pytest.mark.parametrize("script", ["git switch -q two", "git switch -q two; git switch -q main", "git checkout -q two -- .", "git merge -q two",
                                    "git worktree add -q tree two", "git clone -q . copy; cd copy; git switch -q two"])
def test_git_goes_on_working(sh, tracked, kept, script):
    """It removes the old file and makes a new one, which is the sandbox's own. Nothing is lost: it is in git, and kept."""
    sh(script + " && git status --short", env=ENVIRONMENT).check()
    paths = kept()
    assert paths and all(path.endswith(("/.claude", "/.claude/settings.json", "/opencode.json", "/.git/config")) for path in paths)
    assert not [path for path, text in obeyed(tracked).items() if text != "mine\n"]
    git("checkout", "--", ".", cwd=tracked)
    assert (tracked / "pkg/.claude/settings.json").exists() and git("diff", cwd=tracked).stdout == ""


def test_branches_with_such_names(sh, tracked, kept):
    sh("git branch opencode.json; git branch x/crush.json", env=ENVIRONMENT).check()
    assert "x/crush.json" in git("branch", cwd=tracked).stdout and kept() == []


def test_a_directory_that_became_a_link_stays(sh, work, kept):
    sh("mkdir -p a/.claude b; rm -r a; ln -s b a").check()
    assert (work / "a").is_symlink() and kept() == []


def test_what_left_such_a_directory_stays(sh, work, kept):
    sh("mkdir -p a/.claude; echo x > a/.claude/notes; mv a/.claude a/claude; mkdir -p b/.codex; echo y > b/.codex/notes; mv b/.codex/notes b/").check()
    assert (work / "a/claude/notes").read_text() == "x\n" and (work / "b/notes").read_text() == "y\n"
    assert kept() == [str(work / "b/.codex")]


@pytest.mark.parametrize("next_one", [("run", "--", "true"), ("kept", "sweep")], ids=" ".join)
def test_after_a_run_that_was_killed_whole(start, bailey, work, next_one):
    script = "mkdir -p x/.claude; echo EVIL > x/.claude/settings.json; mv x sub; echo > ready; sleep 60"
    running = start(["bailey", "run", "--", "sh", "-c", script], cwd=work)
    wait_for(lambda: (work / "ready").exists(), "the attack")
    children = subprocess.run(["pgrep", "-P", str(running.pid)], capture_output=True, text=True, check=False).stdout.split()
    for pid in [running.pid, *map(int, children)]:
        with contextlib.suppress(ProcessLookupError):  # init ends with its parent
            os.kill(pid, signal.SIGKILL)
    running.wait(10)
    time.sleep(0.3)
    bailey(*next_one, cwd=work)
    assert obeyed(work) == {}


def test_beside_another_that_runs(start, sh, work):
    """The other did not make it, and cannot change it; whoever ends last moves it away."""
    running = start(["bailey", "run", "--", "sh", "-c", "mkdir -p sub/.claude; echo EVIL > sub/.claude/settings.json; echo > ready; while [ ! -e go ]; do sleep 0.05; done"], cwd=work)
    wait_for(lambda: (work / "ready").exists(), "the attack")
    assert sh("echo EVIL > sub/.claude/settings.json").errors.count("Permission denied") == 1
    (work / "go").touch()
    running.wait(30 * SLOW)
    assert obeyed(work) == {}


def test_an_overlay_is_applied_without_it(sh, bailey, tree):
    sh("mkdir -p sub/.claude x; echo EVIL > sub/.claude/settings.json; echo EVIL > pkg/.claude/settings.json; echo EVIL > x/tasks.json; ln -s x .v; mkdir q; ln -s ../x q/.vscode; "
       "echo work > sub/code; rm pkg/opencode.json", "--overlay").check()
    assert obeyed(tree) == {"pkg/.claude/settings.json": "mine\n", "pkg/opencode.json": "mine\n"}
    bailey("apply", cwd=tree)
    assert (tree / "sub/code").exists()
    assert obeyed(tree) == {"pkg/.claude/settings.json": "mine\n"}


@pytest.mark.exact_build
@pytest.mark.anybody
def test_no_more_than_can_be_noted(sh, work):
    """What cannot be noted cannot be made: 4 MiB of paths."""
    long = "/".join("x" * 240 for _ in range(14))
    script = f"import os\nos.makedirs({long!r})\nos.chdir({long!r})\nfor i in range(1500):\n    os.mkdir(f'd{{i}}')\n    os.mkdir(f'd{{i}}/.claude')\n"
    done = sh(f"cat > m.py <<'E'\n{script}E\n{PYTHON} m.py", "-q", timeout=120 * SLOW)
    assert done.status != 0 and "Disk quota exceeded" in done.errors
    made = os.listdir(work / long)
    assert len(made) > 1000 and not [name for name in made if os.path.exists(work / long / name / ".claude")]
