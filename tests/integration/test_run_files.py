# SPDX-License-Identifier: Apache-2.0
"""What a sandboxed program sees and may change of the file system."""
import os
import socket

import pytest

from kit.git import ENVIRONMENT, git

pytestmark = pytest.mark.visible_home


def test_workspace_is_writable_and_home_is_not(sh, work, home):
    script = f"echo in > file; mkdir -p a/b; mv file a/b/; echo out > {home}/planted"
    sh(script).check()  # in a home of its own
    assert (work / "a/b/file").read_text() == "in\n" and not (home / "planted").exists()
    result = sh(script, "--home", "real")
    assert not (home / "planted").exists() and "Read-only" in result.errors


def test_read_only_mode(sh, work):
    assert sh("echo x > file", "--mode", "read-only").status != 0
    assert not (work / "file").exists()


def test_private_places(sh, work):
    result = sh("echo x > /tmp/bailey-test-mine && ls /tmp; ls -A /run; ls /dev | tr '\\n' ' '; [ -w /dev/null ] && echo ok > /dev/null; "
                "echo y > /dev/shm/bailey-test-z && cat /dev/shm/bailey-test-z").check()
    assert result.text.splitlines()[0] == "bailey-test-mine"
    assert set(result.text.splitlines()[1].split()) >= {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd"}
    assert "sda" not in result.text and "kmsg" not in result.text
    assert not os.path.exists("/tmp/bailey-test-mine") and not os.path.exists("/dev/shm/bailey-test-z")


def test_more_specific_wins_both_ways(sh, work, home):
    for name in ("work/vendor/generated", "secret/public/not"):
        (home / name).mkdir(parents=True)
    for name in ("secret/a", "secret/public/b", "secret/public/not/c"):
        (home / name).write_text("content\n")
    options = ["--deny-write", str(work / "vendor"), "--write", str(work / "vendor/generated"), "--deny-read", str(home / "secret"),
               "--read", str(home / "secret/public"), "--deny-read", str(home / "secret/public/not")]
    assert sh("echo x > vendor/generated/ok", *options).status == 0
    assert sh("echo x > vendor/no", *options).status != 0
    assert sh(f"cat {home}/secret/public/b", *options).check().text == "content\n"
    assert sh(f"cat {home}/secret/a", *options).status != 0
    assert sh(f"cat {home}/secret/public/not/c", *options).status != 0
    assert sorted(os.listdir(home / "secret")) == ["a", "public"]


def test_masks_leave_nothing_on_the_host(sh, home):
    def made():  # but for Bailey's own state
        return sorted(str(p) for p in home.rglob("*") if p.relative_to(home).parts[0] not in (".local", ".run"))

    before = made()
    sh("true", "--deny-read", str(home / "not-there"), "--deny-read", str(home / "work/neither")).check()
    assert made() == before


@pytest.mark.root
def test_socket_in_a_directory_of_somebody_else(sh, home):
    """Root sees it, the sandbox could not reach it: no reason not to start."""
    closed = home / "closed"
    closed.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(closed / "s"))
        server.listen()
        os.chmod(closed, 0o700)
        os.chown(closed, 4321, 4321)
        sh("true").check()
        result = sh(f"ls {closed}", "--home", "real")
    assert result.status == 2 and "Permission denied" in result.errors, result


def test_glob_in_a_denial(sh, work):
    (work / "a.pem").write_text("key\n")
    (work / "b.txt").write_text("text\n")
    assert sh("cat b.txt", "--deny-read", "*.pem").check().text == "text\n"
    assert sh("cat a.pem", "--deny-read", "*.pem").status != 0


def test_workspace_that_is_a_link(bailey, home, work):
    (home / "link").symlink_to(work)
    bailey("run", "--workspace", str(home / "link"), "--", "sh", "-c", "echo x > made", cwd=home / "link").check()
    assert (work / "made").read_text() == "x\n"


def test_denied_path_that_is_a_link(sh, home):
    (home / "real-keys").mkdir()
    (home / "real-keys/id").write_text("key\n")
    (home / ".ssh").symlink_to("real-keys")
    assert sh("cat ~/.ssh/id").status != 0
    assert sh(f"cat {home}/real-keys/id").status != 0


@pytest.mark.parametrize("plant", [
    "mkdir .vscode && echo x > .vscode/tasks.json",
    "echo x > .mcp.json",
    "echo x > .envrc; chmod 000 .envrc",
    "mkdir elsewhere && ln -s elsewhere .claude",
    "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
    "mkdir fake && mkdir fake/hooks && echo x > fake/hooks/pre-commit && ln -s fake .git",
    "mkdir -p .idea/deep/deeper && chmod 000 .idea/deep",
    "mkfifo .bashrc",
])
def test_protected_path_is_not_left_behind(sh, work, plant):
    result = sh(plant).check()
    for name in (".vscode", ".mcp.json", ".envrc", ".claude", ".git/hooks", ".idea", ".bashrc"):
        assert not os.path.lexists(work / name), name
    assert "moved away" in result.errors


def test_link_that_leads_nowhere(sh, work):
    (work / ".bashrc").symlink_to("dotfiles/bashrc")
    sh("true").check()
    assert os.readlink(work / ".bashrc") == "dotfiles/bashrc"
    sh("mkdir dotfiles; echo evil > dotfiles/bashrc").check()
    assert not (work / "dotfiles/bashrc").exists() and os.path.islink(work / ".bashrc")
    sh("rm .bashrc; echo evil > .bashrc").check()
    assert os.readlink(work / ".bashrc") == "dotfiles/bashrc", "the link itself cannot be replaced"


def test_sweeping_does_not_follow_links(sh, work, home):
    (home / "precious").mkdir()
    (home / "precious/hooks").mkdir()
    (home / "precious/hooks/mine").write_text("keep\n")
    sh(f"ln -s {home}/precious .git").check()
    assert (home / "precious/hooks/mine").read_text() == "keep\n"
    assert not os.path.lexists(work / ".git")


def test_reads_denied(sh, work, home):
    (home / "other").write_text("hidden\n")
    options = ["--reads", "deny", *sum((["--read", d] for d in ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache") if os.path.exists(d)), [])]
    assert sh("echo hello; ls /", *options).check().text.startswith("hello\n")
    assert sh(f"cat {home}/other", *options).status != 0
    assert sh("cat /etc/passwd", *options).status != 0
    sh("echo x > made", *options).check()
    assert (work / "made").exists()


@pytest.fixture
def clone(home, work):
    git("init", home / "origin", cwd=home, check=True)
    (home / "origin/file").write_text("one\n")
    git("add", ".", cwd=home / "origin", check=True)
    git("commit", "-m", "one", cwd=home / "origin", check=True)
    git("clone", home / "origin", work / "clone", cwd=home, check=True)
    return work / "clone"


COMMIT = "echo two > file && git add . && git commit -q -m two && git log --oneline | wc -l && git status --short"


def test_git_commit_in_a_clone(sh, clone):
    result = sh(COMMIT + "; git branch side && git checkout -q side", cwd=clone, env=ENVIRONMENT).check()
    assert result.text.strip() == "2"
    assert sh("echo evil > .git/hooks/pre-commit", cwd=clone).status != 0
    before = (clone / ".git/config").read_bytes()
    sh("git config core.fsmonitor evil", cwd=clone).check()  # in a copy, and what runs a program does not come back
    assert (clone / ".git/config").read_bytes() == before


def test_git_commit_in_a_worktree(sh, clone, home):
    git("worktree", "add", home / "tree", "-b", "side", cwd=clone, check=True)
    result = sh(COMMIT, "--workspace", str(home / "tree"), cwd=home / "tree", env=ENVIRONMENT).check()
    assert result.text.strip() == "2"
    assert sh(f"echo evil > {clone}/.git/hooks/pre-commit", "--workspace", str(home / "tree"), cwd=home / "tree").status != 0
    sh(f"echo evil > {clone}/.git/config", "--workspace", str(home / "tree"), cwd=home / "tree")  # a copy
    config = (clone / ".git/config").read_text()
    assert "evil" not in config and "url = " in config
    assert sh(f"cat {clone}/.git/HEAD", "--workspace", str(home / "tree"), cwd=home / "tree").check().text.startswith("ref: ")
    before = (clone / "file").read_text()
    sh(f"echo x > {clone}/file", "--workspace", str(home / "tree"), cwd=home / "tree")
    assert (clone / "file").read_text() == before != "x\n"
    assert sh(f"echo x > {clone}/file", "--home", "real", "--workspace", str(home / "tree"), cwd=home / "tree").status != 0


def test_git_commit_in_a_submodule(sh, clone, home):
    git("-c", "protocol.file.allow=always", "submodule", "add", home / "origin", "sub", cwd=clone, check=True)
    result = sh(COMMIT, "--workspace", str(clone / "sub"), cwd=clone / "sub", env=ENVIRONMENT).check()
    assert result.text.strip() == "2"
    hooks = clone / ".git/modules/sub/hooks/pre-commit"
    assert sh(f"echo evil > {hooks}", "--workspace", str(clone / "sub"), cwd=clone / "sub").status != 0


def test_forged_gitdir_grants_nothing(sh, work, home):
    (home / "victim").mkdir()
    (work / ".git").write_text(f"gitdir: {home}/victim\n")
    assert sh(f"echo x > {home}/victim/planted").status != 0
    assert not (home / "victim/planted").exists()
