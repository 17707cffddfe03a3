# SPDX-License-Identifier: Apache-2.0
"""Git as a person outside would use it, with nothing of the tester's own configuration."""
import contextlib
import os
import pathlib
import subprocess
import threading

from .process import children_of, descendants, name_of

ENVIRONMENT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
               "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def git(*words, cwd, check=False):
    command = ["git", "-c", "init.defaultBranch=main", *map(str, words)]
    return subprocess.run(command, cwd=cwd, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=check)


# Debian 12 has git 2.39 and curl 7.88. Where the other side has just no room for the last piece of a large push over HTTP/2, such a curl asks for
# more behind the end, and such a git waits for its child to say more, which waits for it, for ever ("remote-curl: avoid hang if curl asks for
# more data after eof", git pull request 1608; curl pull request 12363). Of pushes through a gateway that is stopped now and then, one in 16 did.
_READ = {"aarch64": "63", "x86_64": "0"}[os.uname().machine]


def _reads_pipe(pid):
    """Which descriptor, of a process that waits for a pipe; else None."""
    try:
        call = pathlib.Path(f"/proc/{pid}/syscall").read_text().split()
        return int(call[1], 16) if call[0] == _READ and os.readlink(f"/proc/{pid}/fd/{int(call[1], 16)}").startswith("pipe:") else None
    except (OSError, ValueError, IndexError):
        return None


def _wait_for_each_other(pid):
    """A helper of git that reads from its only child, which has none and reads as well."""
    children = children_of(pid)
    return len(children) == 1 and not children_of(children[0]) and None not in (_reads_pipe(pid), _reads_pipe(children[0]))


@contextlib.contextmanager
def no_deadlocks(patience=5, most=20):
    """Meanwhile, git's calls over HTTP that are in that state are told the end of the body once more, and go on. Who needs that often waits for
    another reason."""
    over, stuck, told = threading.Event(), {}, []

    def look():
        while not over.wait(0.5):
            for pid in descendants(os.getpid()):
                stuck[pid] = stuck.get(pid, 0) + 0.5 if name_of(pid) == "git-remote-http" and _wait_for_each_other(pid) else 0
                if stuck[pid] >= patience:
                    print("git and its helper wait for each other: the helper is told the end")
                    with contextlib.suppress(OSError, TypeError):
                        pathlib.Path(f"/proc/{pid}/fd/{_reads_pipe(pid)}").write_bytes(b"0000")  # a flush packet
                    stuck[pid] = 0
                    told.append(pid)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert len(told) <= most, f"git and its helper waited for each other {len(told)} times"
