# SPDX-License-Identifier: Apache-2.0
"""What git's configuration comes to name while a sandbox runs: a person sets core.hooksPath on the host, adds an include, links a
hook. From then on the place is closed, and what the sandbox wrote there before is moved away when it ends.

Each test ends as a person would: git works outside. The file `ran` shows that something of the sandbox's choice was executed."""
import ctypes
import errno
import json
import os
import pathlib
import select
import subprocess
import time

import pytest

from conftest import program
from kit.git import ENVIRONMENT
from kit.machine import NO_CLONE3, deny, machine
from kit.process import wait_until

pytestmark = pytest.mark.visible_home
OWN = {key: value for key, value in ENVIRONMENT.items() if key != "GIT_CONFIG_GLOBAL"}
HOOK = "#!/bin/sh\ntouch $HOME/ran\n"
CODE = "#!/bin/sh\ntouch {home}/ran\n"


class Host:
    """A person at a repository, with a home of their own."""

    def __init__(self, home, work):
        self.home, self.work = home, work

    def git(self, *words, cwd=None, check=True):
        return subprocess.run(["git", "-c", "protocol.file.allow=always", *map(str, words)], cwd=cwd or self.work, capture_output=True, text=True,
                              check=check, env={**os.environ, **OWN, "HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config")})

    def commit(self, cwd=None):
        (cwd or self.work).joinpath("note").write_text(os.urandom(8).hex())
        self.git("add", "note", cwd=cwd, check=False)
        self.git("commit", "-qm", "x", cwd=cwd, check=False)


@pytest.fixture
def host(home, work):
    person = Host(home, work)
    person.git("init", "-q", ".")
    person.git("commit", "-q", "--allow-empty", "-m", "x")
    return person


def local(host):
    host.git("config", "core.hooksPath", "tools/hooks")


def absolute(host):
    host.git("config", "core.hooksPath", host.work / "tools/hooks")


def everywhere(host):
    host.git("config", "--global", "core.hooksPath", "tools/hooks")


def in_config_home(host):
    (host.home / ".config/git").mkdir(parents=True, exist_ok=True)
    (host.home / ".config/git/config").write_text("[core]\n\thooksPath = tools/hooks\n")


def by_a_link(host):
    (host.home / "dotfiles").write_text("[core]\n\thooksPath = tools/hooks\n")
    (host.home / ".gitconfig").symlink_to("dotfiles")


def by_an_editor(host):
    config = host.work / ".git/config"
    new = config.with_name("config.new")
    new.write_text(config.read_text() + "[core]\n\thooksPath = tools/hooks\n")
    os.replace(new, config)


def in_place(host):
    with open(host.work / ".git/config", "a", encoding="utf-8") as config:
        config.write("[core]\n\thooksPath = tools/hooks\n")


def included(host):
    """A file that was included before: it is elsewhere, and only now says something."""
    (host.home / "team.config").write_text("[core]\n\thooksPath = tools/hooks\n")


def includes_now(host):
    (host.home / "late.config").write_text("[core]\n\thooksPath = tools/hooks\n")
    host.git("config", "include.path", host.home / "late.config")


def includes_if(host):
    (host.home / "late.config").write_text("[core]\n\thooksPath = tools/hooks\n")
    host.git("config", "includeIf.gitdir:**.path", host.home / "late.config")


def of_this_tree(host):
    host.git("config", "extensions.worktreeConfig", "true")
    host.git("config", "--worktree", "core.hooksPath", "tools/hooks")


def of_this_tree_alone(host):
    """The extension was on before."""
    host.git("config", "--worktree", "core.hooksPath", "tools/hooks")


def a_hook_that_is_a_link(host):
    (host.work / ".git/hooks").mkdir(exist_ok=True)
    (host.work / ".git/hooks/pre-commit").symlink_to("../../tools/hooks/pre-commit")


def a_program(host):
    host.git("config", "core.fsmonitor", "tools/hooks/pre-commit")


def a_filter(host):
    host.git("config", "filter.x.clean", "tools/hooks/pre-commit")


def a_file_that_is_included(host):
    """In the workspace: the sandbox writes the configuration itself."""
    host.git("config", "include.path", "../tools/hooks/pre-commit")


WAYS = [local, absolute, everywhere, in_config_home, by_a_link, by_an_editor, in_place, included, includes_now, includes_if, of_this_tree,
        of_this_tree_alone, a_hook_that_is_a_link, a_program, a_filter, a_file_that_is_included]
BEFORE = {included: lambda host: host.git("config", "include.path", host.home / "team.config"),
          of_this_tree_alone: lambda host: host.git("config", "extensions.worktreeConfig", "true"),
          a_filter: lambda host: (host.work / ".gitattributes").write_text("note filter=x\n")}


def content(host, way):
    if way is a_file_that_is_included:
        return f"[core]\n\tfsmonitor = \"touch {host.home}/ran; false\"\n"
    return CODE.format(home=host.home)


@pytest.fixture
def sandbox(start, host):
    """sandbox(script, ...) starts it; `go` in the workspace lets the script go on where it says `wait_go`."""
    def begin(script, *options, verb="run", cwd=None):
        cwd = cwd or host.work
        wait = "wait_go() { touch ready; while [ ! -e go ]; do sleep 0.02; done; }; "
        words = ["bailey", "run", *options, "--", "sh", "-c", wait + script] if verb == "run" else ["bailey", "exec", *options, wait + script]
        child = start(words, cwd=cwd, env={**OWN, "XDG_CONFIG_HOME": str(host.home / ".config")})
        wait_until(lambda: (cwd / "ready").exists() or child.process.poll() is not None, 60)
        assert (cwd / "ready").exists(), child.wait(10)
        return child
    return begin


@pytest.fixture
def kept(bailey, host):
    return lambda: [pathlib.Path(entry["path"]) for entry in json.loads(bailey("kept", "ls", "--json", cwd=host.work).check().text)]


def finish(host, child, cwd=None):
    (host.work / "go").touch()
    result = child.wait(60)
    host.commit(cwd)
    host.git("status", cwd=cwd)
    assert not (host.home / "ran").exists(), result
    return result


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_was_written_before_it_was_named(host, sandbox, kept, way):
    BEFORE.get(way, lambda host: None)(host)
    (host.work / "text").write_text(content(host, way))
    child = sandbox("mkdir -p tools/hooks; cp text tools/hooks/pre-commit; chmod +x tools/hooks/pre-commit; wait_go")
    way(host)
    result = finish(host, child)
    assert "tools/hooks/pre-commit" in result.errors and not os.path.lexists(host.work / "tools/hooks/pre-commit"), result
    assert host.work / "tools/hooks/pre-commit" in kept() and (len(kept()) == 1 or way in (of_this_tree, of_this_tree_alone))


@pytest.fixture
def hooks(host):
    """A directory of hooks of the host's own, which its configuration does not name yet."""
    directory = host.work / "tools/hooks"
    directory.mkdir(parents=True)
    for name in ("pre-commit", "post-commit", "commit-msg"):
        (directory / name).write_text("#!/bin/sh\ntrue\n")
        (directory / name).chmod(0o755)
    time.sleep(0.05)  # a file system's clock may be a little behind: so much before a run counts as in it
    return directory


CHANGES = {
    "changed": "cat text > tools/hooks/pre-commit", "replaced": "cp text n; chmod +x n; mv n tools/hooks/pre-commit",
    "a link": "cp text n; chmod +x n; ln -sf ../../n tools/hooks/pre-commit", "a hard link": "cp text n; chmod +x n; ln -f n tools/hooks/pre-commit",
    "an older file": "mv older tools/hooks/pre-commit", "new beside": "cp text tools/hooks/prepare-commit-msg; chmod +x tools/hooks/*",
    "open since": "exec 3<>tools/hooks/pre-commit; wait_go; cat text >&3",
    "closed to its owner": "mkdir t; cp text t/pre-commit; chmod +x t/*; rm -r tools/hooks; mv t tools/hooks; chmod 0 tools/hooks",
    "times set back": "cp text tools/hooks/pre-commit; touch -d 2001-01-01 tools/hooks/pre-commit",
}


@pytest.mark.parametrize("how", CHANGES)
def test_only_what_was_written_goes(host, sandbox, hooks, kept, how):
    (host.work / "text").write_text(CODE.format(home=host.home))
    (host.work / "older").write_text(CODE.format(home=host.home))
    (host.work / "older").chmod(0o755)
    script = CHANGES[how]
    child = sandbox(script if "wait_go" in script else f"{script}; wait_go")
    local(host)
    result = finish(host, child)
    if how == "closed to its owner":
        assert kept() and not (hooks / "pre-commit").exists(), result
        return
    assert hooks / ("prepare-commit-msg" if how == "new beside" else "pre-commit") in kept(), result
    if how not in ("new beside", "a link"):
        assert len(kept()) == 1 and (hooks / "post-commit").exists() and (hooks / "commit-msg").exists()


def test_nothing_goes_that_was_there(host, sandbox, hooks, kept):
    """The host names its own hooks while a sandbox works elsewhere in the tree."""
    child = sandbox("echo work > file; wait_go")
    local(host)
    result = finish(host, child)
    assert not kept() and len(list(hooks.iterdir())) == 3 and "tools/hooks" not in result.errors, result


def test_nothing_goes_that_nobody_names(host, sandbox, kept):
    child = sandbox("mkdir -p tools/hooks; echo x > tools/hooks/pre-commit; wait_go")
    host.git("config", "user.name", "somebody")
    finish(host, child)
    assert not kept() and (host.work / "tools/hooks/pre-commit").exists()


def test_the_configuration_of_a_submodule(host, home, sandbox, kept):
    host.git("init", "-q", home / "lib")
    host.git("commit", "-q", "--allow-empty", "-m", "x", cwd=home / "lib")
    host.git("submodule", "--quiet", "add", home / "lib", "sub")
    host.git("commit", "-qm", "s")
    (host.work / "text").write_text(CODE.format(home=home))
    child = sandbox("mkdir -p sub/hooks; cp text sub/hooks/pre-commit; chmod +x sub/hooks/*; wait_go")
    host.git("config", "core.hooksPath", "hooks", cwd=host.work / "sub")
    finish(host, child, host.work / "sub")
    assert kept() == [host.work / "sub/hooks/pre-commit"]


@pytest.mark.parametrize("tree", ["tree", "../tree"])
def test_the_configuration_of_a_worktree(host, home, sandbox, kept, tree):
    host.git("config", "extensions.worktreeConfig", "true")
    host.git("worktree", "add", "-q", tree)
    place = (host.work / tree).resolve()
    (host.work / "text").write_text(CODE.format(home=home))
    child = sandbox(f"mkdir -p {place}/hooks; cp text {place}/hooks/pre-commit; chmod +x {place}/hooks/*; wait_go", "--write", place)
    host.git("config", "--worktree", "core.hooksPath", "hooks", cwd=place)
    finish(host, child, place)
    assert place / "hooks/pre-commit" in kept()


@pytest.mark.parametrize("way", [local, everywhere, includes_now], ids=lambda way: way.__name__)
def test_exec(host, sandbox, kept, way):
    (host.work / "text").write_text(CODE.format(home=host.home))
    child = sandbox("mkdir -p tools/hooks; cp text tools/hooks/pre-commit; chmod +x tools/hooks/pre-commit; wait_go", verb="exec")
    way(host)
    finish(host, child)
    assert kept() == [host.work / "tools/hooks/pre-commit"]


@pytest.mark.parametrize("way", [local, everywhere, includes_now], ids=lambda way: way.__name__)
@pytest.mark.parametrize("kind", ["degraded", pytest.param("nesting", marks=pytest.mark.user)])
def test_without_a_broker(start, host, kept, kind, way):
    """No call is judged there: the end of the run has to do."""
    (host.work / "text").write_text(CODE.format(home=host.home))
    script = "mkdir -p tools/hooks; cp text tools/hooks/pre-commit; chmod +x tools/hooks/*; touch ready; while [ ! -e go ]; do sleep 0.02; done"
    words = [program("bailey"), "run", "--allow-degraded" if kind == "degraded" else "--nesting", "--", "sh", "-c", script]
    refuse = [deny("clone3", NO_CLONE3), deny("clone", errno.EPERM, 0x3E020011)] if kind == "degraded" else []
    child = start(machine(words, refuse=refuse), cwd=host.work, env={**OWN, "XDG_CONFIG_HOME": str(host.home / ".config")})
    wait_until(lambda: (host.work / "ready").exists() or child.process.poll() is not None, 60)
    way(host)
    finish(host, child)
    assert kept() == [host.work / "tools/hooks/pre-commit"]


@pytest.mark.parametrize("way", [local, everywhere, includes_now, of_this_tree], ids=lambda way: way.__name__)
def test_an_overlay_that_is_applied(start, bailey, host, way):
    (host.work / "text").write_text(CODE.format(home=host.home))
    bailey("run", "--overlay", "--", "sh", "-c", "mkdir -p tools/hooks; cp text tools/hooks/pre-commit; chmod +x tools/hooks/*; echo fine > file",
           cwd=host.work).check()
    way(host)
    bailey("apply", cwd=host.work)
    host.commit()
    assert (host.work / "file").read_text() == "fine\n" and not (host.work / "tools/hooks/pre-commit").exists()
    assert not (host.home / "ran").exists()


@pytest.fixture
def overlaid(start, host):
    """Files that come below an overlay later need not be seen in it: there `go` is in a directory beside it."""
    signs = host.home / "signs"
    signs.mkdir()

    def begin(before, after):
        script = f"{before}; echo started; while [ ! -e {signs}/go ]; do sleep 0.02; done; {after}"
        child = start(["bailey", "run", "--overlay", "--read", signs, "--", "sh", "-c", script], cwd=host.work, env=OWN)
        wait_until(lambda: b"started" in child.output() or child.process.poll() is not None, 30)
        return child

    def finish(child):
        assert child.process.poll() is None
        (signs / "go").touch()
        return child.wait(60).check()
    return begin, finish


def test_an_overlay_leaves_the_hosts_own_files(host, overlaid, hooks, kept):
    """What the host itself writes meanwhile is not the sandbox's: that has its own copy."""
    begin, finish = overlaid
    child = begin("true", "true")
    (hooks / "pre-commit").write_text("#!/bin/sh\nexit 0\n")
    local(host)
    finish(child)
    assert not kept() and (hooks / "pre-commit").exists()


@pytest.fixture
def trees(host, home):
    """Several working trees: a submodule, a repository below, a worktree, and a directory in which somebody works."""
    host.git("init", "-q", home / "lib")
    host.git("commit", "-q", "--allow-empty", "-m", "x", cwd=home / "lib")
    host.git("submodule", "--quiet", "add", home / "lib", "sub")
    host.git("commit", "-qm", "s")
    host.git("init", "-q", "nested")
    host.git("worktree", "add", "-q", "tree")
    (host.work / "inner").mkdir()
    return host.work


PLANT = "for d in . sub nested tree inner hk; do mkdir -p $d/hk; cp text $d/hk/pre-commit; chmod +x $d/hk/pre-commit; done; "


@pytest.mark.parametrize("tree", [".", "sub", "nested", "tree"])
@pytest.mark.parametrize("scope", ["--global", "--local"])
@pytest.mark.parametrize("when", ["before", "during"])
@pytest.mark.rows
def test_a_relative_name_counts_in_every_tree(host, home, trees, sandbox, tree, scope, when):
    """Git looks for it at the top of the tree that it works in."""
    (host.work / "text").write_text(CODE.format(home=home))
    if when == "before":
        host.git("config", scope, "core.hooksPath", "hk", cwd=trees / tree)
    child = sandbox(PLANT + "wait_go")
    if when == "during":
        host.git("config", scope, "core.hooksPath", "hk", cwd=trees / tree)
    finish(host, child, trees / tree)
    assert not (trees / tree / "hk/pre-commit").exists()


@pytest.mark.parametrize("when", ["before", "during"])
@pytest.mark.parametrize("depth", ["inner", "inner/most"])
def test_the_repository_above_the_workspace(host, home, start, depth, when):
    inner = host.work / depth
    inner.mkdir(parents=True)
    if when == "before":
        host.git("config", "core.hooksPath", f"{depth}/hk")
    script = f"mkdir hk; printf '{CODE.format(home=home)}' > hk/pre-commit; chmod +x hk/*; touch ready; while [ ! -e go ]; do sleep 0.02; done"
    child = start(["bailey", "run", "--", "sh", "-c", script], cwd=inner, env=OWN)
    wait_until(lambda: (inner / "ready").exists() or child.process.poll() is not None, 60)
    if when == "during":
        host.git("config", "core.hooksPath", f"{depth}/hk")
    (inner / "go").touch()
    child.wait(60).check()
    host.commit()
    assert not (home / "ran").exists() and not (inner / "hk/pre-commit").exists()


# From here on: closed at once, by the call.

ATTEMPTS = {
    "cp": "mkdir -p tools/hooks; cp text tools/hooks/pre-commit; chmod +x tools/hooks/pre-commit",
    "mv": "mkdir -p tools/hooks; cp text n; chmod +x n; mv n tools/hooks/pre-commit",
    "a whole directory": "mkdir n; cp text n/pre-commit; chmod +x n/*; rm -rf tools/hooks; mkdir -p tools; mv n tools/hooks",
    "a directory above": "mkdir -p n/hooks; cp text n/hooks/pre-commit; chmod +x n/hooks/*; rm -rf tools; mv n tools",
    "ln": "mkdir -p tools/hooks; cp text n; chmod +x n; ln n tools/hooks/pre-commit; ln -s ../../n tools/hooks/pre-commit",
    "a link above": "mkdir -p n/hooks; cp text n/hooks/pre-commit; chmod +x n/hooks/*; rm -rf tools; ln -s n tools; ln -s ../n/hooks tools/hooks",
}


def attack(host, child, done="done"):
    (host.work / "go").touch()
    wait_until(lambda: (host.work / done).exists() or child.process.poll() is not None, 60)
    assert child.process.poll() is None, child.wait(10)


LIVE = "echo x > first; sleep 0.15; echo x > first; wait_go; {}; touch done; while [ ! -e over ]; do sleep 0.02; done"


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_is_named_is_closed_at_once(host, sandbox, way):
    BEFORE.get(way, lambda host: None)(host)
    (host.work / "text").write_text(content(host, way))
    child = sandbox(LIVE.format(ATTEMPTS["cp"]))
    way(host)
    attack(host, child)
    assert not os.path.lexists(host.work / "tools/hooks/pre-commit")
    host.commit()
    (host.work / "over").touch()
    child.wait(60)
    assert not (host.home / "ran").exists()


@pytest.mark.parametrize("how", ATTEMPTS)
@pytest.mark.parametrize("there", [True, False])
def test_every_way_to_write_is_closed(request, host, sandbox, there, how):
    if there:
        request.getfixturevalue("hooks")
    (host.work / "text").write_text(CODE.format(home=host.home))
    child = sandbox(LIVE.format(ATTEMPTS[how]))
    local(host)
    attack(host, child)
    host.commit()
    host.git("status")
    assert not (host.home / "ran").exists()
    if there:
        assert (host.work / "tools/hooks/pre-commit").read_text() == "#!/bin/sh\ntrue\n" and not (host.work / "tools").is_symlink()
    (host.work / "over").touch()
    child.wait(60)
    host.commit()
    assert not (host.home / "ran").exists()


def test_a_refusal_is_said(bailey, host, sandbox, hooks):
    child = sandbox(LIVE.format("echo x > tools/hooks/pre-commit"))
    local(host)
    attack(host, child)
    (host.work / "over").touch()
    result = child.wait(60)
    assert "tools/hooks/pre-commit" in result.errors and "git's configuration came to name it" in result.errors, result
    log = bailey("log", cwd=host.work).check().text
    assert f"closed {hooks}: git's configuration came to name it" in log and "tools/hooks/pre-commit" in log


def test_a_grant_of_the_very_file_stays(host, sandbox, hooks, kept):
    child = sandbox(LIVE.format("echo mine > tools/hooks/pre-commit; echo x > tools/hooks/commit-msg"), "--write", hooks / "pre-commit")
    local(host)
    attack(host, child)
    assert (hooks / "pre-commit").read_text() == "mine\n" and (hooks / "commit-msg").read_text() == "#!/bin/sh\ntrue\n"
    (host.work / "over").touch()
    child.wait(60)
    assert not kept() and (hooks / "pre-commit").read_text() == "mine\n"


def test_an_overlay_stays_writable(host, overlaid, bailey, hooks):
    """Nothing of it reaches the host before it is applied, and then it is judged."""
    begin, finish = overlaid
    child = begin("echo x > first; sleep 0.15; echo x > first", "echo mine > tools/hooks/pre-commit && echo written")
    local(host)
    assert "written" in finish(child).text
    bailey("apply", cwd=host.work)
    assert (hooks / "pre-commit").read_text() == "#!/bin/sh\ntrue\n"


def test_a_broker_that_starts_late(host, sandbox, hooks):
    """The first call that it judges is the attempt."""
    (host.work / "ready").touch()
    child = sandbox("while [ ! -e go ]; do sleep 0.02; done; echo x > tools/hooks/pre-commit; true")
    time.sleep(0.3)
    local(host)
    (host.work / "go").touch()
    child.wait(60)
    assert (hooks / "pre-commit").read_text() == "#!/bin/sh\ntrue\n"


def test_what_stays_open(host, sandbox):
    """The rest of the workspace, after any number of changes on the host."""
    child = sandbox(LIVE.format("for i in 1 2 3 4 5 6 7 8 9; do mkdir -p src; echo $i > src/$i; mv src/$i src/n$i; done; echo fine > file; git config user.name me"))
    for i in range(20):
        host.git("config", f"branch.b{i}.remote", "origin")
    local(host)
    attack(host, child)
    (host.work / "over").touch()
    child.wait(60).check()
    assert (host.work / "file").read_text() == "fine\n" and (host.work / "src/n9").exists()


@pytest.fixture
def rounds(host):
    """rounds() waits until the script, which counts its rounds in `count`, has gone through at least one from its beginning."""
    def count():
        return int(wait_until((host.work / "count").read_text, 30))

    def wait():
        before = count()
        wait_until(lambda: count() > before + 1, 30, "the rest of the workspace to be written")
    return wait


def test_one_name_after_the_other(host, sandbox, rounds):
    """Each closes its place, and nothing else."""
    script = "i=0; while [ ! -e over ]; do i=$((i+1)); echo $i > count; for d in d0 d1 d2 d3 d4 d5 d6 d7; do echo $i > $d/f; done 2>/dev/null; done"
    for i in range(8):
        (host.work / f"d{i}").mkdir()
    child = sandbox(f"echo x > first; sleep 0.15; echo 0 > count; touch ready; {script}")
    for i in range(8):
        host.git("config", "core.hooksPath", f"d{i}")
        rounds()  # one that was open may have been written to
        file = host.work / f"d{i}/f"
        closed = file.read_text() if file.exists() else None
        rounds()
        assert (file.read_text() if file.exists() else None) == closed, i
    (host.work / "over").touch()
    child.wait(60)


def test_settings_that_come_and_go(host, sandbox, rounds):
    """While somebody inside writes all the time: nothing of it in what is named, however often."""
    script = 'i=0; while [ ! -e over ]; do i=$((i+1)); echo $i > count; for d in a b c; do echo EVIL > $d/pre-commit; echo EVIL > $d/new; done 2>/dev/null; done'
    for name in "abc":
        (host.work / name).mkdir()
        (host.work / name / "pre-commit").write_text("host\n")
    time.sleep(0.05)
    child = sandbox(f"echo x > first; sleep 0.15; echo 0 > count; touch ready; {script}")
    for name in "abc":
        host.git("config", "core.hooksPath", name)
        rounds()  # an open that was judged before may be performed by now
        (host.work / name / "pre-commit").unlink()
        (host.work / name / "pre-commit").write_text("host\n")
        rounds()
        assert (host.work / name / "pre-commit").read_text() == "host\n"
    (host.work / "over").touch()
    child.wait(60)


WRITES = "i=0; while [ ! -e over ]; do i=$((i+1)); echo $i > count; echo $i > tools/hooks/pre-commit; done 2>/dev/null"


def is_closed(file, rounds):
    rounds()
    before = file.stat().st_mtime_ns
    rounds()
    return file.stat().st_mtime_ns == before


def test_an_include_in_place_of_another(host, home, sandbox, hooks, rounds):
    child = sandbox(f"echo x > first; sleep 0.15; echo 0 > count; touch ready; {WRITES}")
    for name in "bc":
        (home / name).write_text("")
        host.git("config", "include.path", home / name)
        rounds()
    assert not is_closed(hooks / "pre-commit", rounds)
    (home / "c").write_text("[core]\n\thooksPath = tools/hooks\n")
    assert is_closed(hooks / "pre-commit", rounds)
    (host.work / "over").touch()
    child.wait(60)


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_link_among_hooks_elsewhere(host, sandbox, hooks, when):
    """The host links a hook to a script in the workspace: from then on that is what git runs."""
    (host.work / "scripts").mkdir()
    script = host.work / "scripts/check.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    if when == "before":
        local(host)
    child = sandbox(LIVE.format("echo EVIL > scripts/check.sh"))
    if when == "during":
        local(host)
    (hooks / "pre-commit").unlink()
    (hooks / "pre-commit").symlink_to("../../scripts/check.sh")
    attack(host, child)
    assert script.read_text() == "#!/bin/sh\ntrue\n"
    (host.work / "over").touch()
    child.wait(60)


def test_a_link_among_hooks_after_the_script_was_written(host, sandbox, hooks, kept):
    (host.work / "scripts").mkdir()
    local(host)
    time.sleep(0.05)
    child = sandbox("echo EVIL > scripts/check.sh; wait_go")
    (hooks / "pre-commit").unlink()
    (hooks / "pre-commit").symlink_to("../../scripts/check.sh")
    finish(host, child)
    assert kept() == [host.work / "scripts/check.sh"]


def test_more_configurations_than_are_read(host, home, sandbox):
    child = sandbox(LIVE.format("true"))
    for i in range(300):
        (home / f"c{i}").write_text("")
    with open(host.work / ".git/config", "a", encoding="utf-8") as config:
        config.write("".join(f"[include]\n\tpath = {home}/c{i}\n" for i in range(300)))
    attack(host, child)
    (host.work / "over").touch()
    result = child.wait(60)
    assert "has come to name stays open" in result.errors and "was not looked at" in result.errors, result


@pytest.mark.parametrize("name", ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"])
def test_nothing_as_a_configuration(host, bailey, name):
    """/dev/null is what people give git who want none. It is no file, and nothing stays open for it."""
    script = "sleep 0.3; git config user.name x; sleep 0.1; echo x > file; git config user.email y; echo y > file"
    result = bailey("run", "-q", "--", "sh", "-c", script, cwd=host.work, env={**OWN, name: "/dev/null"})
    assert "stays open" not in result.errors and "was not looked at" not in result.errors, result
    assert (host.work / "file").read_text() == "y\n", result


@pytest.mark.parametrize("worktree_config", [False, True])
def test_names_beside_a_configuration(host, home, sandbox, worktree_config):
    """The directory of a configuration that does not exist is watched: other names there are not worth reading everything again."""
    if worktree_config:
        host.git("config", "extensions.worktreeConfig", "true")
    host.git("worktree", "add", "-q", home / "tree")
    directory = host.work / ".git/worktrees/tree"
    libc = ctypes.CDLL(None)
    script = f"i=0; while [ $i -lt 300 ]; do i=$((i+1)); : > {directory}/x$i; done"
    host.work = home / "tree"
    child = sandbox(LIVE.format(script))
    fd = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(fd, str(directory.parents[1] / "config").encode(), 0x30) >= 0  # IN_OPEN, and IN_CLOSE between two of them
    attack(host, child)
    opens = len(os.read(fd, 1 << 16)) // 32 if select.select([fd], [], [], 0)[0] else 0
    os.close(fd)
    assert len(list(directory.glob("x*"))) == 300 and opens < 30
    (host.work / "over").touch()
    child.wait(60)


WATCHES = """
import ctypes, os, signal
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(0)
taken = [libc.inotify_add_watch(fd, entry.path.encode(), 2) >= 0 for entry in os.scandir("/usr/bin") if entry.is_file(follow_symlinks=False)]
assert any(taken) and not all(taken)
child = os.fork()
if child:
    print(child)
else:
    os.close(1)
    signal.pause()
"""


@pytest.mark.root
@pytest.mark.parametrize("first", [True, False])
def test_without_watches(start, host, home, hooks, rounds, first):
    """The sandbox uses up what the account may have of them, before or after there is one."""
    (host.work / "watches.py").write_text(WATCHES)
    take = "P=$(python3 watches.py) && echo taken; "
    script = (f"echo x > first; sleep 0.15; echo 0 > count; {take}" if first else f"{take}sleep 0.15; echo 0 > count; ") + f"touch ready; {WRITES}; kill $P"
    words = ["/bin/sh", "-c", 'echo 300 > /proc/sys/user/max_inotify_watches && exec "$@"', "sh", program("bailey"), "run", "--", "sh", "-c", script]
    child = start(machine(words, userns=True), cwd=host.work, env=OWN)
    wait_until(lambda: (host.work / "ready").exists() or child.process.poll() is not None, 60)
    assert b"taken" in child.output(), child.wait(10)
    (home / "b").write_text("")
    host.git("config", "include.path", home / "b")
    assert not is_closed(hooks / "pre-commit", rounds)
    (home / "b").write_text("[core]\n\thooksPath = tools/hooks\n")
    assert is_closed(hooks / "pre-commit", rounds)
    (host.work / "over").touch()
    child.wait(60).check()


UNWATCHED = ["/bin/sh", "-c", 'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"', "sh", program("bailey")]


@pytest.fixture
def unwatched(start, host):
    """A sandbox of an account that has no watch left: others of its programs have them all."""
    def begin(script, *options):
        words = machine([*UNWATCHED, "run", *options, "--", "sh", "-c", script], userns=True)
        child = start(words, cwd=host.work, env={**OWN, "XDG_CONFIG_HOME": str(host.home / ".config")})
        wait_until(lambda: (host.work / "ready").exists() or child.process.poll() is not None, 60)
        assert (host.work / "ready").exists(), child.wait(10)
        return child
    return begin


@pytest.mark.root
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_is_named_is_closed_at_once_without_a_watch(host, unwatched, hooks, rounds, way):
    BEFORE.get(way, lambda host: None)(host)
    child = unwatched(f"echo x > first; sleep 0.15; echo 0 > count; touch ready; {WRITES}")
    assert not is_closed(hooks / "pre-commit", rounds)
    way(host)
    assert is_closed(hooks / "pre-commit", rounds)
    (host.work / "over").touch()
    child.wait(60)


@pytest.mark.root
def test_each_of_many_changes_counts_without_a_watch(host, home, unwatched):
    """Of the same length and within moments: what the kernel says of the file differs little, or not at all."""
    names = [f"h{i:02}" for i in range(30)]
    for name in names:
        (host.work / name).mkdir()
    (home / "b").write_text("")
    host.git("config", "include.path", home / "b")
    child = unwatched("sleep 0.15; i=0; touch ready; while [ ! -e over ]; do i=$((i+1)); "
                      "for h in h*; do echo $i > $h/pre-commit; done; echo $i > count; done 2>/dev/null")
    wait_until(lambda: (host.work / "count").exists(), 30)
    for name in names:
        (home / "b").write_text(f"[core]\n\thooksPath = {name}\n")
        last = int(wait_until((host.work / "count").read_text, 30))
        wait_until(lambda: int((host.work / "count").read_text() or 0) > last + 1, 30)
        before = (host.work / name / "pre-commit").stat().st_mtime_ns
        wait_until(lambda: int((host.work / "count").read_text() or 0) > last + 3, 30)
        assert (host.work / name / "pre-commit").stat().st_mtime_ns == before, name
    (host.work / "over").touch()
    child.wait(60).check()


@pytest.mark.root
def test_reading_asks_nobody_without_a_watch(host, unwatched):
    """With a pattern every call is handed over. Those that change nothing do not wake the supervisor."""
    (host.work / "read.py").write_text("import pathlib, sys\nfor i in range(2000):\n    open('read.py').close()\n"
                                       "pathlib.Path('done').touch()\n")
    child = unwatched("echo x > first; sleep 0.15; echo x > first; touch ready; while [ ! -e go ]; do sleep 0.02; done; "
                      "python3 read.py; while [ ! -e over ]; do sleep 0.02; done", "--deny-read", "**/*.key")

    def waits():
        status = pathlib.Path("/proc", str(child.process.pid), "status").read_text()
        return int(status.split("voluntary_ctxt_switches:")[1].split()[0])
    before = waits()
    attack(host, child)
    assert waits() - before < 1000
    (host.work / "over").touch()
    child.wait(60).check()


FLOOD = """
import os, signal, socket
null, kept = os.open("/dev/null", os.O_RDONLY), []
try:
    while True:
        kept.append(socket.socketpair())
        kept[-1][0].setblocking(False)
        try:
            while True:
                socket.send_fds(kept[-1][0], [b"x"], [null] * 100)
        except BlockingIOError:
            pass
except OSError:
    pass
child = os.fork()
if child:
    print(child)
else:
    os.close(1)
    signal.pause()
"""


def flooded(start, host, first):
    """The bound is low: whatever else runs under this account at the time has another one."""
    script = (f"{first}; P=$(python3 flood.py); echo flooded; while [ ! -e go ]; do sleep 0.02; done; sleep 0.15; "
              "echo EVIL > tools/hooks/pre-commit; echo x > refused; kill $P; until echo x > done; do sleep 0.02; done; "
              "echo EVIL > tools/hooks/pre-commit; echo fine > file")
    words = ["/bin/sh", "-c", 'ulimit -n 300; exec "$@"', "sh", program("bailey"), "run", "--", "sh", "-c", script]
    child = start(machine(words, userns=True), cwd=host.work, env=OWN)
    wait_until(lambda: b"flooded" in child.output() or child.process.poll() is not None, 60)
    local(host)
    (host.work / "go").touch()
    return child.wait(60)


def is_refused(host, hooks, result):
    assert (hooks / "pre-commit").read_text() == "#!/bin/sh\ntrue\n" and not (host.work / "refused").exists(), result
    assert (host.work / "file").exists() and "the sandbox cannot write until it is known" in result.errors, result


def test_descriptors_on_their_way(start, host, hooks):
    """The kernel bounds them for an account, and the sandbox uses that up: what is named cannot be told, and nothing is written."""
    (host.work / "flood.py").write_text(FLOOD)
    for first in "echo x > first; sleep 0.15; echo x > first", "echo x > first":  # there is a watch, or none yet
        for _ in range(5):  # the bound is the account's: beside others of it, there may be room again
            result = flooded(start, host, first)
            assert (hooks / "pre-commit").read_text() == "#!/bin/sh\ntrue\n", result
            refused = not (host.work / "refused").exists()
            if refused:
                is_refused(host, hooks, result)
            host.git("config", "--unset", "core.hooksPath")
            for name in "go", "done", "file", "refused":
                (host.work / name).unlink(missing_ok=True)
            if refused:
                break
        assert refused, result


# A rebase that is left unfinished: its list is run when a person continues it.

LISTS = {
    "plain": "echo 'exec touch {home}/ran' > $T", "short": "printf 'x touch {home}/ran\\n' > $T", "blanks": "printf ' \\t exec\\ttouch {home}/ran\\n' > $T",
    "no end": "printf 'exec touch {home}/ran' > $T", "a link": "echo 'exec touch {home}/ran' > list; ln -sf ../../list $T",
    "a link above": "mv $D away; echo 'exec touch {home}/ran' >> away/git-rebase-todo; ln -s ../away $D", "replaced": "echo 'x touch {home}/ran' > n; mv n $T",
    "added": "echo 'exec touch {home}/ran' >> $T",
}


@pytest.fixture
def diverged(host):
    """Two branches that change one file: a rebase of one onto the other stops."""
    for branch, start, text in ("base", "HEAD", "a"), ("ours", "base", "b"), ("theirs", "base", "c"):
        host.git("checkout", "-qb", branch, start)
        host.work.joinpath("f").write_text(text)
        host.git("add", "f")
        host.git("commit", "-qm", branch)
    return host


@pytest.mark.parametrize("how", LISTS)
def test_an_unfinished_rebase_runs_nothing(diverged, home, work, sh, how):
    begin = "git -c user.name=a -c user.email=a@b rebase ours; D=.git/rebase-merge; T=$D/git-rebase-todo; [ -d $D ] || exit 9; "
    result = sh(f"{begin} {LISTS[how].format(home=home)}; true", "--quiet").check()
    (work / "f").write_text("d")
    diverged.git("add", "f")
    diverged.git("-c", "core.editor=true", "rebase", "--continue", check=False)
    assert not (home / "ran").exists(), result


def test_what_is_left_out_of_a_rebase_is_said(diverged, bailey, sh):
    result = sh("git -c user.name=a -c user.email=a@b rebase -x 'make check' -x 'make all' ours; true").check()
    assert "git-rebase-todo: left out 2 lines" in result.errors and "exec make check" in result.errors, result
    assert "--write" not in result.errors and "bailey kept" in result.errors, result  # no option permits it
    assert "left out 2 lines" in bailey("log", cwd=diverged.work).check().text


def test_a_rebase_of_the_host_stays(diverged, work, sh):
    """The sandbox works beside it, and its list keeps its lines."""
    diverged.git("rebase", "-x", "make check", "ours", check=False)
    todo = work / ".git/rebase-merge/git-rebase-todo"
    before = todo.read_text()
    time.sleep(0.05)
    result = sh("echo work > file")
    assert "exec make check" in before and todo.read_text() == before and "rebase" not in result.errors, result


# Other notes of git's name a merge program, or a file that git writes. A second commit waits behind the one that stops. (A revert
# takes no merge program from its notes.)

TWO = "echo 2 > g; git add g; git commit -qm two; "
PROGRAM = "mkdir git-merge-x; printf '#!/bin/sh\\ntouch {home}/ran\\n' > git-merge-x/e; chmod +x git-merge-x/e; "
PICK = "git cherry-pick ours last; "
NOTES = {
    "a strategy": ("rebase", TWO + "git rebase ours; " + PROGRAM + "echo x/e > .git/rebase-merge/strategy"),
    "a strategy without an end": ("rebase", TWO + "git rebase ours; " + PROGRAM + "printf x/e > .git/rebase-merge/strategy"),
    "an option": ("rebase", TWO + "git rebase ours; echo resolve > .git/rebase-merge/strategy; echo ' --index-output={home}/ran' > .git/rebase-merge/strategy_opts"),
    "an option in quotes": ("rebase", TWO + "git rebase ours; echo resolve > .git/rebase-merge/strategy; echo '\"--index-output={home}/ran\"' > .git/rebase-merge/strategy_opts"),
    "of patches": ("rebase", TWO + "git rebase --apply ours; echo \" '--build-fake-ancestor={home}/ran'\" > .git/rebase-apply/apply-opt"),
    "picking": ("cherry-pick", PICK + PROGRAM + "printf '[options]\\n\\tstrategy = x/e\\n' > .git/sequencer/opts"),
    "picking, one line": ("cherry-pick", PICK + PROGRAM + "printf '[Options] Strategy=\"x/e\"' > .git/sequencer/opts"),
    "picking, two lines": ("cherry-pick", PICK + PROGRAM + "printf '[options]\\nedit = true\\nstrategy = x\\\\\\n/e\\n' > .git/sequencer/opts"),
    "picking, a link": ("cherry-pick", PICK + PROGRAM + "printf '[options]\\n\\tstrategy = x/e\\n' > o; ln -sf ../../o .git/sequencer/opts"),
    "picking, an option": ("cherry-pick", PICK + "printf '[options]\\n\\tstrategy = resolve\\n\\tstrategy-option = index-output={home}/ran\\n' > .git/sequencer/opts"),
}
PERSON = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; "


@pytest.mark.parametrize("how", NOTES)
def test_what_git_notes_runs_nothing(diverged, home, work, sh, how):
    verb, script = NOTES[how]
    diverged.git("checkout", "-qb", "last")
    (work / "h").write_text("h")
    diverged.git("add", "h")
    diverged.git("commit", "-qm", "last")
    diverged.git("checkout", "-q", "theirs")
    result = sh(PERSON + script.replace("{home}", str(home)) + "; [ -d .git/rebase-merge ] || [ -d .git/rebase-apply ] || [ -d .git/sequencer ]", "--quiet").check()
    (work / "f").write_text("d")
    diverged.git("add", "f")
    ended = diverged.git("-c", "core.editor=true", verb, "--continue", check=False)
    assert not (home / "ran").exists(), (result, ended)


def test_notes_of_git_itself_stay(diverged, work, sh):
    result = sh(PERSON + TWO + "git rebase -s recursive -X theirs -X find-renames=40% -S1234 -i ours; git rebase -X patience ours; true")
    before = {path.name: path.read_text() for path in (work / ".git/rebase-merge").iterdir()}
    assert before["strategy"].strip() in ("ort", "recursive") and "patience" in before["strategy_opts"] and "protected" not in result.errors, result


@pytest.mark.parametrize("place", ["wt", "made", "node_modules/a/b/made", "sub"])
def test_a_rebase_in_a_repository_that_the_sandbox_made(diverged, home, work, sh, place):
    make = {"wt": "git worktree add -q -b w wt theirs", "sub": "mkdir -p .git/modules; git clone -q --separate-git-dir .git/modules/sub . sub"}
    script = make.get(place, f"git clone -q . {place}; git -C {place} branch ours origin/ours")
    result = sh(f"{PERSON} {script}; cd {place} && {{ git checkout -q theirs; git branch ours origin/ours; git rebase -x 'touch {home}/ran' ours; "
                "test -d $(git rev-parse --git-path rebase-merge); }", "--quiet").check()
    (work / place / "f").write_text("d")
    diverged.git("add", "f", cwd=work / place)
    ended = diverged.git("-c", "core.editor=true", "rebase", "--continue", cwd=work / place)
    assert not (home / "ran").exists(), (result, ended)


@pytest.mark.parametrize("how", ["chmod 0 $T", "chmod 0 $D", "mkdir $D/bailey-fresh", "chmod 555 $D", "chmod 444 $D", "{{ head -c 17000000 /dev/zero | tr '\\0' '#'; echo; cat $T; }} > n; mv n $T"])
def test_a_list_that_cannot_be_read_is_kept(diverged, home, work, sh, kept, how):
    begin = f"{PERSON} git rebase -x 'touch {home}/ran' ours; D=.git/rebase-merge; T=$D/git-rebase-todo; "
    result = sh(begin + how.replace("{{", "{").replace("}}", "}"), "--quiet").check()
    subprocess.run(["chmod", "-R", "u+rwX", work / ".git"], check=True)
    (work / "f").write_text("d")
    diverged.git("add", "f")
    diverged.git("-c", "core.editor=true", "rebase", "--continue", check=False)
    assert not (home / "ran").exists() and any("rebase-merge" in str(path) for path in kept()), result


def test_a_list_that_came_with_its_directory(diverged, home, work, sh):
    """It is older than the run; the directory came to its place meanwhile."""
    diverged.git("rebase", "-x", f"touch {home}/ran", "ours", check=False)
    (work / ".git/rebase-merge").rename(work / ".git/d")
    time.sleep(0.05)
    result = sh("mv .git/d .git/rebase-merge", "--quiet").check()
    (work / "f").write_text("d")
    diverged.git("add", "f")
    diverged.git("-c", "core.editor=true", "rebase", "--continue", check=False)
    assert not (home / "ran").exists(), result


def test_a_rebase_that_a_person_begins_meanwhile_is_kept(diverged, sandbox, bailey, kept):
    child = sandbox("wait_go")
    diverged.git("rebase", "-x", "make check", "ours", check=False)
    (diverged.work / "go").touch()
    child.wait(60)
    todo = diverged.work / ".git/rebase-merge/git-rebase-todo"
    assert todo in kept() and "exec" not in todo.read_text()
    todo.unlink()
    run = json.loads(bailey("kept", "ls", "--json", cwd=diverged.work).check().text)[0]["id"]
    bailey("kept", "restore", run, cwd=diverged.work).check()
    assert "exec make check" in todo.read_text()


def elsewhere(diverged, home):
    """A repository of the person's that the sandbox cannot write, with a rebase that stopped."""
    place = home / "elsewhere"
    subprocess.run(["git", "clone", "-q", diverged.work, place], check=True)
    for words in ("checkout", "-q", "theirs"), ("branch", "ours", "origin/ours"), ("rebase", "-x", "make check", "ours"):
        diverged.git(*words, cwd=place, check=False)
    return place / ".git/rebase-merge/git-rebase-todo"


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_pointer_leads_to_no_rebase_of_the_persons(diverged, home, work, sandbox, sh, kept, when):
    """The sandbox points to a repository that it cannot write: nothing there is its doing, however new it is."""
    todo = elsewhere(diverged, home)
    time.sleep(0.05)
    if when == "before":
        result = sh(f"mkdir e; echo 'gitdir: {todo.parents[1]}' > e/.git", "--quiet").check()
    else:
        child = sandbox(f"mkdir e; echo 'gitdir: {todo.parents[1]}' > e/.git; wait_go")
        todo.write_text(todo.read_text() + "exec make all\n")
        (work / "go").touch()
        result = child.wait(60)
    assert "exec make check" in todo.read_text() and not any("rebase-merge" in str(path) for path in kept()), result
    assert when == "before" or "exec make all" in todo.read_text()


def test_a_rebase_beside_a_worktree_stays(diverged, home, sandbox, bailey, kept):
    """An agent works in a linked worktree, while the person rebases in the main one."""
    tree = home / "tree"
    diverged.git("worktree", "add", "-q", "-b", "w", tree, "base")
    child = sandbox("wait_go", cwd=tree)
    diverged.git("rebase", "-x", "make check", "ours", check=False)
    (tree / "go").touch()
    result = child.wait(60)
    todo = diverged.work / ".git/rebase-merge/git-rebase-todo"
    assert "exec make check" in todo.read_text() and not any("rebase-merge" in str(path) for path in kept()), result


def test_a_link_that_was_there_stays(diverged, work, sh):
    diverged.git("rebase", "-x", "make check", "ours", check=False)
    todo = work / ".git/rebase-merge/git-rebase-todo"
    todo.rename(work / "list")
    todo.symlink_to("../../list")
    time.sleep(0.05)
    sh("echo work > file").check()
    assert todo.is_symlink() and "exec make check" in todo.read_text()
