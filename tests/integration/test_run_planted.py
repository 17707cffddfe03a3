# SPDX-License-Identifier: Apache-2.0
"""What a hostile repository brings along, and what one run plants for the next: links, closed directories, deep trees."""
import os
import resource
import shlex
import socket
import subprocess

import pytest

from conftest import program
from kit.machine import machine
from kit.process import wait_until
from test_run_degraded import NO_NAMESPACES

pytestmark = pytest.mark.visible_home


@pytest.fixture
def work(home):
    directory = home / "work"
    directory.mkdir()
    (home / ".ssh/sub").mkdir(parents=True)
    (home / ".ssh/id").write_text("KEY\n")
    (home / ".ssh/sub/id").write_text("KEY\n")
    return directory


@pytest.mark.parametrize("name, target", [(".github", "id"), (".vscode", "sub"), (".vscode", "id"), (".mcp.json", "id"), (".git", "id"),
                                          (".git", "sub"), (".config", "id"), (".husky", "sub")])
def test_protected_name_that_links_to_a_key_shows_nothing(sh, work, home, name, target):
    (work / name).symlink_to(f"../.ssh/{target}")
    result = sh(f"cat {name} {name}/id {home}/.ssh/id {home}/.ssh/sub/id")
    assert "KEY" not in result.text and result.status != 0


def test_hooks_of_a_bare_repository_that_link_to_keys_show_nothing(sh, work, home):
    (work / "HEAD").write_text("ref: refs/heads/main\n")
    (work / "objects").mkdir()
    (work / "refs").mkdir()
    (work / "hooks").symlink_to("../.ssh")
    assert "KEY" not in sh(f"cat hooks/id {home}/.ssh/id").text


def test_hooks_path_that_links_to_keys_shows_nothing(sh, work, home):
    subprocess.run(["git", "init", "-q", "."], cwd=work, check=True)
    subprocess.run(["git", "config", "core.hooksPath", "x/y"], cwd=work, check=True)
    (work / "x").mkdir()
    (work / "x/y").symlink_to("../../.ssh")
    assert "KEY" not in sh(f"cat x/y/id {home}/.ssh/id").text


def test_hooks_path_in_the_workspace_stays_closed_through_a_link(sh, work):
    subprocess.run(["git", "init", "-q", "."], cwd=work, check=True)
    subprocess.run(["git", "config", "core.hooksPath", "x"], cwd=work, check=True)
    (work / "tools").mkdir()
    (work / "x").symlink_to("tools")
    assert sh("echo evil > tools/pre-commit").status != 0 and not (work / "tools/pre-commit").exists()


def test_grant_does_not_follow_a_link_that_the_sandbox_made(sh, work, home):
    (home / "bin").mkdir()
    (work / "out").mkdir()
    options = ["--write", str(work / "out")]
    sh(f"rmdir out && ln -s {home}/bin out", *options).check()
    result = sh(f"echo evil > {home}/bin/tool", *options)
    assert result.status != 0 and not (home / "bin/tool").exists() and "a link that a sandbox could have made" in result.errors
    assert sh(f"echo fine > {home}/bin/tool", "--write", str(home / "bin")).status == 0


def test_grant_follows_a_link_of_the_person(sh, work, home):
    (home / "real").mkdir()
    (home / "named").symlink_to("real")
    sh(f"echo fine > {home}/real/file", "--write", str(home / "named")).check()
    assert (home / "real/file").exists()


def test_read_grant_of_a_closed_root_does_not_follow_one_either(sh, work, home):
    (home / "notes").write_text("private\n")
    (work / "doc").symlink_to(home / "notes")
    result = sh("cat doc", "--reads", "deny", "--read", str(work / "doc"))
    assert "private" not in result.text


def test_closed_paths_cannot_be_carried_away(sh, work):
    """Else the next run, which knows them by path, would find them open under another name."""
    (work / "a/b").mkdir(parents=True)
    (work / "a/b/secret").write_text("SECRET\n")
    (work / "a/b/locked").write_text("old\n")
    options = ["--deny-read", str(work / "a/b/secret"), "--deny-write", str(work / "a/b/locked")]
    result = sh("mv a/b/secret s; mv a/b c; mv a z; mkdir -p a/b; echo new > a/b/locked; rm -rf a; cat */b/secret c/secret s", *options)
    assert "SECRET" not in result.text
    assert (work / "a/b/locked").read_text() == "old\n" and (work / "a/b/secret").read_text() == "SECRET\n"
    sh("echo beside > a/b/other && mkdir a/d && mv a/b/other a/d/", *options).check()


def test_socket_of_the_host_cannot_be_carried_away(sh, work):
    (work / "run").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(work / "run/s"))
        server.listen()
        sh("mv run other; mv run/s there")
        script = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        for place in ("run/s", "other/s", "there"):
            assert sh(f"/usr/bin/python3 -c '{script}' {place}").status != 0


DEEP = "import os\nfor i in range(800):\n    os.mkdir('d')\n    os.chdir('d')\n"


@pytest.mark.parametrize("closing", [
    "chmod 555 .git/hooks", "chmod 0 .git/hooks", "chmod 555 .git", "chmod 111 .git", "chmod 0 .git",
    "mkdir .git/hooks/x && echo > .git/hooks/x/y && chmod 0 .git/hooks/x",
    f'cd .git/hooks && /usr/bin/python3 -c "{DEEP}"',
])
def test_guarded_path_goes_however_it_is_closed(sh, work, closing):
    subprocess.run(["git", "init", "-q", "--template=", "."], cwd=work, check=True)
    sh(f"mkdir .git/hooks && echo evil > .git/hooks/pre-commit && {closing}", timeout=60).check()
    mode = (work / ".git").stat().st_mode & 0o777
    assert mode == int({"chmod 555 .git": "555", "chmod 111 .git": "111", "chmod 0 .git": "0"}.get(closing, oct(mode)[2:]), 8)
    (work / ".git").chmod(0o755)
    assert not os.path.lexists(work / ".git/hooks")


def test_guard_leaves_alone_what_appears_where_the_sandbox_cannot_write(start, work, home):
    (work / ".idea").symlink_to("../later")
    child = start(["bailey", "run", "--", "sh", "-c", "touch ready; until [ -e go ]; do sleep 0.05; done"], cwd=work)
    wait_until((work / "ready").exists)
    (home / "later").write_text("mine\n")
    (work / "go").touch()
    child.wait(20)
    assert (home / "later").read_text() == "mine\n" and (work / ".idea").is_symlink()


def test_names_in_the_summary_are_escaped(sh, work):
    """Directories with control characters in their names come with a repository."""
    subprocess.run(["git", "init", "-q", "."], cwd=work, check=True)
    (work / ".git/modules/\x1b[31mred").mkdir(parents=True)
    (work / ".git/modules/\x1b[31mred/HEAD").write_text("ref: refs/heads/main\n")
    result = sh("cd .git/modules/* && mkdir hooks && echo x > hooks/post-commit")
    assert "moved away" in result.errors and "\x1b" not in result.errors


def test_advice_is_one_word_for_a_shell(sh, work):
    """A person copies it, and the program chose the name."""
    name = "x; touch 'y' $(z).pem"
    (work / name).write_text("")
    result = sh("cat *", "--deny-read", "**/*.pem")
    advice = result.errors.split("to allow it: ")[1].splitlines()[0]
    assert shlex.split(advice) == ["--read", str(work / name)]


def test_limits_of_init_are_its_own(sh):
    assert sh("prlimit --pid 1 --nofile=5:5").status != 0
    sh("prlimit --pid 1 --nofile && prlimit --pid $$ --nofile=64:64").check()


def test_degraded_nothing_is_made_after_the_sweep(run, work):
    """Killed by the time limit, init leaves processes behind: the sweep comes when they are dead."""
    again = "while :; do mkdir -p .vscode; echo x > .vscode/tasks.json; done"
    result = run(machine([program("bailey"), "run", "--allow-degraded", "--timeout", "1s", "--", "sh", "-c",
                          f"for i in 1 2 3 4; do setsid sh -c '{again}' 2>/dev/null & done; wait"], refuse=NO_NAMESPACES), cwd=work, timeout=30)
    assert result.status != 0 and not os.path.lexists(work / ".vscode")


def test_degraded_other_processes_keep_their_limits(run, work):
    """A limit of processor time is a signal by another name."""
    with subprocess.Popen(["sleep", "20"]) as victim:
        try:
            before = resource.prlimit(victim.pid, resource.RLIMIT_CPU)
            script = f"prlimit --pid {victim.pid} --cpu=1:1; prlimit --pid {victim.pid} --cpu --noheadings && ulimit -t 5"
            result = run(machine([program("bailey"), "run", "--allow-degraded", "--", "sh", "-c", script], refuse=NO_NAMESPACES), cwd=work)
            assert result.status == 0 and resource.prlimit(victim.pid, resource.RLIMIT_CPU) == before
        finally:
            victim.kill()


def test_sweep_does_not_take_what_a_glob_keeps(sh, work):
    (work / "d").mkdir()
    (work / "d/x.pem").write_text("kept\n")
    exchange = 'import ctypes, sys; ctypes.CDLL(None).renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2)'
    result = sh(f"mv d .vscode; mkdir .vscode; mv d .vscode/d; for pair in 'd .vscode' '.vscode d'; do /usr/bin/python3 -c '{exchange}' $pair; done;"
                " mv d e && mv e d", "--deny-write", "**/*.pem")
    assert (work / "d/x.pem").read_text() == "kept\n" and result.status == 0


def test_directory_that_becomes_a_link_during_the_launch_is_not_followed(sh, work, home):
    """Another sandbox in the same workspace swaps what was looked at before it is mounted."""
    (home / "bin").mkdir()
    (work / "out").mkdir()
    (work / "link").symlink_to(home / "bin")
    (work / "swap.py").write_text(SWAP)
    with subprocess.Popen(["/usr/bin/python3", "swap.py"], cwd=work) as swapper:
        try:
            for _ in range(40):
                sh(f"echo evil > {home}/bin/tool", "--write", str(work / "out"))
                assert not (home / "bin/tool").exists()
        finally:
            swapper.kill()


SWAP = """
import ctypes, time
end, exchange = time.monotonic() + 30, ctypes.CDLL(None).renameat2
while time.monotonic() < end:
    exchange(-100, b"out", -100, b"link", 2)
"""
