# SPDX-License-Identifier: Apache-2.0
"""Protected and write-denied paths at every moment: whatever the host does to them while a sandbox attacks.

A mount over a name goes when the host renames another file over it, and where nothing is there is nothing to mount over.
So each call that would change something is judged when it is made (sandbox/linux/broker/broker_judge.c)."""
import os
import pathlib
import shutil
import time

import pytest

from kit.git import ENVIRONMENT, git
from kit.host_side import EXISTING, WAYS, evil, host_repository, save_as_editors_do
from kit.process import wait_until

ATTACK = pathlib.Path(__file__).parent / "kit/attack.py"


@pytest.fixture
def repo(work):
    return host_repository(work)


def begin(start, repo, *options, paths, seconds=60, script=ATTACK):
    shutil.copy(script, repo / "attack.py")
    (repo / "ready").unlink(missing_ok=True)
    child = start(["bailey", "run", "-q", *options, "--", "/usr/bin/python3", "attack.py", str(seconds), *paths], cwd=repo, env=ENVIRONMENT)
    end = time.monotonic() + 60
    while not (repo / "ready").exists():
        assert time.monotonic() < end and child.process.poll() is None, child.wait(10)
        time.sleep(0.01)
    return child


@pytest.mark.rows
@pytest.mark.parametrize("name, way", [(name, way) for name in (".git/config", ".vscode/tasks.json", "keep/this") for way in WAYS]
                         + [(".envrc", way) for way in WAYS[:3]], ids=lambda value: getattr(value, "__name__", value))
def test_what_the_host_replaces_stays_closed(start, repo, name, way):
    child = begin(start, repo, "--deny-write", repo / "keep/this", paths=[name])
    for i in range(15):
        text = f"[branch \"main\"]\n\tremote = host{i}\n"
        way(repo / name, text)
        time.sleep(0.02)
        assert (repo / name).read_text() == text and not evil(repo, [name])
    (repo / "stop").touch()
    result = child.wait(60)
    assert result.status == 0 and "tries" in result.text, result
    assert (repo / name).read_text() == text and (repo / name).stat().st_nlink == 1
    assert git("config", "--list", cwd=repo).returncode == 0


def test_git_on_the_host_and_an_attacker_inside(start, repo):
    """`git push -u`, `git remote add`, `gh pr checkout` rename a new file over .git/config."""
    child = begin(start, repo, paths=[".git/config", ".git/hooks/pre-commit", ".git/config.worktree", ".git"])
    for i in range(20):
        assert git("config", f"branch.b{i}.remote", "origin", cwd=repo).returncode == 0
        git("status", cwd=repo)
    (repo / "stop").touch()
    child.wait(60).check()
    config = (repo / ".git/config").read_text()
    assert "EVIL" not in config and config.count("remote = origin") == 20
    assert not (repo / ".git/hooks/pre-commit").exists() and (repo / ".git").is_dir()


def test_a_link_that_is_protected_stays_this_link(start, repo):
    child = begin(start, repo, paths=[".idea", ".idea/workspace.xml"])
    for i in range(20):
        os.symlink("conf", repo / "new-link")
        os.replace(repo / "new-link", repo / ".idea")
        time.sleep(0.02)
        assert os.readlink(repo / ".idea") == "conf"
    (repo / "stop").touch()
    child.wait(60).check()
    assert os.readlink(repo / ".idea") == "conf" and not list((repo / "conf").iterdir())


@pytest.mark.parametrize("name", ["f", "sub/f", "made/later/f"])
@pytest.mark.parametrize("attempt", [
    "echo EVIL > {0}", "mkdir -p $(dirname {0}); echo EVIL > {0}", "mkdir -p {0}", "echo EVIL > x; mkdir -p $(dirname {0}); mv x {0}",
    "mkdir -p y; echo EVIL > y/z; mkdir -p $(dirname {0}); ln y/z {0}", "mkdir -p $(dirname {0}); ln -s y {0}", "mkfifo {0}",
    "mkdir -p tree/later tree; echo EVIL > tree/later/f; echo EVIL > tree/f; mv tree $(echo {0} | cut -d/ -f1)",
    "mkdir -p y/later; echo EVIL > y/f; echo EVIL > y/later/f; ln -s y $(echo {0} | cut -d/ -f1)",
    "python3 -c 'import os,sys; os.makedirs(os.path.dirname(sys.argv[1]) or \".\", exist_ok=True); open(sys.argv[1], \"x\")' {0}",
])
@pytest.mark.rows
def test_what_is_denied_and_not_there_is_not_made(sh, work, name, attempt):
    (work / "sub").mkdir()
    sh(attempt.format(name), "--deny-write", work / name)
    assert not os.path.lexists(work / name), attempt
    assert not (work / name).parent.is_symlink() and not (work / "made").is_symlink()


def test_a_denied_name_outside_of_the_workspace(sh, home, work):
    (home / "x").mkdir()
    result = sh(f"echo evil > {home}/x/f; echo fine > {home}/x/g", "--write", home / "x", "--deny-write", home / "x/f")
    assert result.status == 0 and not (home / "x/f").exists() and (home / "x/g").read_text() == "fine\n", result
    assert "x/f" in result.errors


def test_a_grant_inside_of_what_is_denied(sh, work):
    (work / "vendor/generated").mkdir(parents=True)
    sh("echo a > vendor/generated/a && mkdir vendor/generated/d && mv vendor/generated/a vendor/generated/d/b && ! echo x > vendor/x",
       "--deny-write", work / "vendor", "--write", work / "vendor/generated").check()
    assert (work / "vendor/generated/d/b").read_text() == "a\n" and not (work / "vendor/x").exists()


def test_what_the_host_makes_at_a_missing_name_is_the_hosts(start, repo):
    child = begin(start, repo, paths=[".husky/pre-commit", ".husky", ".bashrc", ".mcp.json"])
    (repo / "scratch-host").mkdir()
    for name in (".bashrc", ".mcp.json"):
        (repo / "scratch-host/file").write_text("host\n")
        os.replace(repo / "scratch-host/file", repo / name) if not (repo / name).is_dir() else None
    time.sleep(0.5)
    hosts = [name for name in (".bashrc", ".mcp.json") if (repo / name).is_file() and (repo / name).read_text() == "host\n"]
    time.sleep(0.5)
    for name in hosts:
        assert (repo / name).read_text() == "host\n"
    (repo / "stop").touch()
    child.wait(60).check()


def test_the_sandboxs_own_at_a_missing_name(sh, work):
    """It may make it, change it and remove it until the end; then it is gone from there."""
    sh("""git init -q . && git config a.b c && git config a.d e && echo x > .git/hooks/pre-commit && rm .git/hooks/pre-commit
        mkdir .vscode && echo a > .vscode/a && mv .vscode/a .vscode/b && rm -r .vscode && mkdir -p t/hooks && echo > .envrc && echo b >> .envrc
        mv .envrc x && mv x .envrc && chmod 600 .envrc""", env=ENVIRONMENT).check()
    assert not (work / ".vscode").exists() and not (work / ".envrc").exists()


@pytest.mark.parametrize("target", [".envrc", ".git/hooks/pre-commit", ".vscode/tasks.json"])
def test_a_second_name_of_a_protected_file(sh, repo, target):
    (repo / target).write_text("host\n")
    os.link(repo / target, repo / "second")
    for attempt in ("echo EVIL >> second", "echo EVIL > second", "truncate -s 0 second", "chmod 777 second", "dd if=/dev/zero of=second count=1",
                    "ln second third; echo EVIL > third", "mv second fourth; echo EVIL > fourth"):
        sh(attempt)
        assert (repo / target).read_text() == "host\n" and (repo / target).stat().st_mode & 0o777 != 0o777, attempt
    assert sh("echo fine > plain; ln plain other; echo more >> other").status == 0


def test_what_the_host_carries_away_stays_closed(start, repo):
    shutil.copy(ATTACK, repo / "attack.py")
    script = "touch ready; while [ ! -e go ]; do sleep 0.01; done; exec /usr/bin/python3 attack.py 60 moved/config moved/hooks/x"
    child = start(["bailey", "run", "-q", "--", "sh", "-c", script], cwd=repo)
    while not (repo / "ready").exists():
        time.sleep(0.01)
    os.rename(repo / ".git", repo / "moved")
    (repo / "go").touch()
    time.sleep(1)
    os.rename(repo / "moved", repo / ".git")
    (repo / "stop").touch()
    child.wait(60).check()
    assert "EVIL" not in (repo / ".git/config").read_text() and not (repo / ".git/hooks/x").exists()


def test_two_sandboxes_in_one_workspace(start, repo):
    children = [begin(start, repo, paths=EXISTING) for _ in range(2)]
    for i in range(20):
        save_as_editors_do(repo / ".envrc", f"host {i}\n")
        git("config", "a.b", str(i), cwd=repo)
        time.sleep(0.02)
    (repo / "stop").touch()
    for child in children:
        child.wait(60).check()
    assert not evil(repo, EXISTING) and (repo / ".envrc").read_text() == "host 19\n"


def test_everything_else_goes_on(sh, repo):
    """What programs do all day, in the directories that have protected names in them and elsewhere."""
    script = r"""set -e
        mkdir -p a/b; echo 1 > a/b/c; cp -r a z; mv z y; ln -s y s; ln a/b/c hard; echo 2 >> hard; test "$(cat a/b/c)" = "1
2"
        (umask 077; echo p > private; mkdir closed); stat -c %a private closed > modes; umask 002; echo q > shared; stat -c %a shared >> modes
        cd a; echo x > ../up; cd ..; tar cf t.tar a y; mkdir u; tar xf t.tar -C u; rm -r u; mkfifo pipe; (echo through > pipe &) ; cat pipe > out
        git add plain; git commit -qm one; git checkout -qb two; echo more >> plain; git commit -qam two; git checkout -q -; git merge -q two
        python3 - <<'P'
import os, tempfile, socket, mmap
with tempfile.NamedTemporaryFile(dir=".") as f: f.write(b"x"); f.flush()
with tempfile.TemporaryFile(dir=".") as f: f.write(b"x")
s = socket.socket(socket.AF_UNIX); s.bind("sock"); assert s.getsockname() == "sock"; s.listen(); c = socket.socket(socket.AF_UNIX); c.connect("sock")
d = os.open("a", os.O_RDONLY | os.O_DIRECTORY); fd = os.open("new", os.O_CREAT | os.O_RDWR, dir_fd=d); os.write(fd, b"12"); mmap.mmap(fd, 2)[0:1] = b"3"
os.ftruncate(fd, 1); os.fchmod(fd, 0o640); os.setxattr("a/new", "user.a", b"b"); os.rename("new", "newer", src_dir_fd=d, dst_dir_fd=d)
os.utime("a/newer"); os.chown("a/newer", os.getuid(), os.getgid()); os.unlink("newer", dir_fd=d); open("/dev/null", "w").write("x")
P
        """
    sh(script, env=ENVIRONMENT).check()
    assert (repo / "modes").read_text().split() == ["600", "700", "664"] and (repo / "out").read_text() == "through\n"
    assert git("log", "--format=%s", cwd=repo).stdout == "two\none\n"


def test_a_program_that_was_just_written_can_be_run(sh):
    """Nobody else has it open for writing any more, not even for a moment."""
    sh("""python3 - <<'P'
import os, subprocess, threading
true = open("/bin/true", "rb").read()
def go(n):
    for i in range(60):
        with open(f"p{n}-{i}", "wb", opener=lambda path, flags: os.open(path, flags | os.O_CLOEXEC, 0o755)) as f: f.write(true)
        pid = os.posix_spawn(f"./p{n}-{i}", ["p"], {}); assert os.waitpid(pid, 0)[1] == 0; os.unlink(f"p{n}-{i}")
go(0)
P""").check()


def test_a_terminal_inside_belongs_to_who_opens_it(sh):
    """Sessions of their own, as expect, tmux and terminals in editors make them: /dev/tty is the caller's."""
    result = sh("""python3 - <<'P'
import os, pty
pid, fd = pty.fork()
if pid == 0:
    os.write(os.open("/dev/tty", os.O_WRONLY), b"mine\\n"); os._exit(0)
print(os.read(fd, 100)); os.waitpid(pid, 0)
a, b = pty.openpty()
name = os.ttyname(b)
pid = os.fork()
if pid == 0:
    os.setsid(); os.open(name, os.O_RDWR); os.open("/dev/tty", os.O_RDWR); os._exit(0)
print(os.waitpid(pid, 0)[1])
P""")
    assert result.text == "b'mine\\r\\n'\n0\n", result


def test_a_number_that_is_used_again(start, repo):
    """The host's git replaces .git/config; the file system gives the old file's number to the next new file, which is nobody's but the sandbox's."""
    script = """touch ready; while [ ! -e go ]; do sleep 0.01; done
        i=0; while [ $i -lt 300 ]; do echo a > new$i && echo b >> new$i || exit 9; i=$((i+1)); done"""
    child = start(["bailey", "run", "-q", "--", "sh", "-c", script], cwd=repo, env=ENVIRONMENT)
    wait_until((repo / "ready").exists)
    for i in range(5):
        git("config", "a.k", str(i), cwd=repo, check=True)
    (repo / "go").touch()
    assert child.wait(60).status == 0, child.errors()


WAYS_TO_RUN = {
    "run": lambda repo: (["run", "-q"], repo),
    "exec": lambda repo: (["exec", "--args"], repo),
    "write": lambda repo: (["run", "-q", "--workspace", repo.parent / "elsewhere", "--write", repo], repo.parent / "elsewhere"),
    "glob": lambda repo: (["run", "-q", "--deny-read", "**/.env"], repo),
    "trace": lambda repo: (["run", "-q", "--trace-denials"], repo),
    "reads-denied": lambda repo: (["run", "-q", "--reads", "deny", "--read", "/usr", "--read", "/etc"], repo),
}


@pytest.mark.parametrize("way", WAYS_TO_RUN)
def test_every_way_to_run(start, repo, way):
    """The sandbox waits until the host has renamed a new file over the protected one, and then takes its time."""
    (repo.parent / "elsewhere").mkdir()
    options, cwd = WAYS_TO_RUN[way](repo)
    script = f"""cd {repo}; touch ready; i=0; while [ ! -e go ] && [ $i -lt 3000 ]; do sleep 0.01; i=$((i+1)); done
        for f in .git/config .envrc .vscode/tasks.json; do echo EVIL >> $f; echo EVIL > scratch; mv scratch $f; rm -f $f; done; echo done > finished"""
    (repo / "script").write_text(script)  # what `bailey exec` reads of it is nothing to be asked about
    child = start(["bailey", *options, "--", "sh", repo / "script"], cwd=cwd, env=ENVIRONMENT)
    end = time.monotonic() + 60
    while not (repo / "ready").exists():
        assert time.monotonic() < end and child.process.poll() is None, child.wait(10)
        time.sleep(0.01)
    git("config", "a.b", "c", cwd=repo, check=True)
    save_as_editors_do(repo / ".envrc", "host\n")
    save_as_editors_do(repo / ".vscode/tasks.json", "host\n")
    (repo / "go").touch()
    result = child.wait(60)
    assert (repo / "finished").exists(), result
    assert "EVIL" not in (repo / ".git/config").read_text() and "b = c" in (repo / ".git/config").read_text()
    assert (repo / ".envrc").read_text() == "host\n" == (repo / ".vscode/tasks.json").read_text()
