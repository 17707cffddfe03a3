# SPDX-License-Identifier: Apache-2.0
"""Denied files that somebody outside replaces or makes while a sandbox runs: the kernel takes a mask away when its file is
renamed over, and where nothing is there is nothing to mask."""
import os
import time

import pytest

from conftest import program

pytestmark = [pytest.mark.visible_home, pytest.mark.real_home]

# Looks at every file in turn, says when it has started, and ends when all of them are closed.
INSIDE = r"""
import os, pathlib, sys, time
def look(path):
    try:
        return open(path).read()
    except PermissionError:
        return "closed"
    except OSError:
        return "nothing"
pathlib.Path("ready").touch()
seen, end = set(), time.monotonic() + 60
while time.monotonic() < end:
    now = [look(path) for path in sys.argv[1:]]
    seen.update(now)
    if os.path.exists("go") and set(now) == {"closed"}:
        print("all closed", sorted(seen - {"closed", "nothing"}))
        sys.exit(0)
print("open", now)
sys.exit(1)
"""
LATER = (".npmrc", ".aws/credentials", ".config/gh/hosts.yml")


def replace(path, text):
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)


def await_file(path):
    for _ in range(1200):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} did not appear")


def run_beside(start, home, work, *options):
    (home / ".netrc").write_text("old")
    (home / "real").mkdir()
    (home / "real/pgpass").write_text("old")
    (home / ".pgpass").symlink_to("real/pgpass")
    files = [home / name for name in (".netrc", "real/pgpass", *LATER)]
    child = start(["bailey", "run", *options, "--", "/usr/bin/python3", "-c", INSIDE, *files], cwd=work)
    await_file(work / "ready")
    replace(home / ".netrc", "new")
    replace(home / "real/pgpass", "new")
    for name in LATER:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("new")
    (work / "go").touch()
    return child.wait(120)


def test_what_is_denied_is_closed_again(start, home, work):
    result = run_beside(start, home, work)
    assert result.status == 0 and "all closed" in result.text, result
    for name in (".netrc", "real/pgpass", *LATER):
        assert (home / name).read_text() == "new"  # outside nothing has changed


def test_a_broker_leaves_no_moment_in_between(start, home, work):
    result = run_beside(start, home, work, "--trace-denials")
    assert result.status == 0 and result.text == "all closed []\n", result


def test_a_denied_directory_that_is_moved_away(start, home, work):
    """The mask goes with the directory that it is on; another one takes its place."""
    (home / ".aws").mkdir()
    (home / ".aws/credentials").write_text("old")
    child = start(["bailey", "run", "--", "/usr/bin/python3", "-c", INSIDE, home / ".aws/credentials"], cwd=work)
    await_file(work / "ready")
    (home / ".aws").rename(home / "kept")
    (home / ".aws").mkdir()
    (home / ".aws/credentials").write_text("new")
    (work / "go").touch()
    result = child.wait(120)
    assert result.status == 0 and "all closed" in result.text, result


def test_a_launch_that_takes_its_time(run, home, work):
    """Nobody looks after masks before init has made its mounts, however long that takes on a loaded machine."""
    (home / ".netrc").write_text("old")
    slowly = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=prctl", "-e", "inject=prctl:delay_enter=10000"]
    result = run([*slowly, program("bailey"), "run", "--quiet", "--", "sh", "-c", "sleep 0.5; echo fine"], cwd=work, timeout=120)
    assert result.status == 0 and result.text == "fine\n", result
