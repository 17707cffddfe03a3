# SPDX-License-Identifier: Apache-2.0
"""Files of the host as standard input, output and error: what is handed over is a stream, not the file's modes and names."""
import errno
import os
import subprocess

import pytest

from conftest import program
from kit.machine import deny, machine

pytestmark = pytest.mark.visible_home

PYTHON = "/usr/bin/python3"
NO_LANDLOCK = [deny("landlock_create_ruleset", errno.ENOSYS)]


@pytest.fixture
def notes(home):
    file = home / "notes"
    file.write_text("one\ntwo\nthree\n")
    file.chmod(0o640)
    os.setxattr(file, "user.kept", b"v")
    return file


@pytest.fixture
def with_input(environment, work):
    def go(command, file, *options, refuse=(), **more):
        argv = [str(program("bailey")), "run", "-q", *options, "--", *command]
        with open(file, "rb") as source:
            return subprocess.run(machine(argv, refuse=refuse) if refuse else argv, stdin=source, env=environment, cwd=work, timeout=120,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, text=True, **more)
    return go


def state(file):
    st = os.stat(file)
    return st.st_mode, st.st_uid, st.st_gid, st.st_mtime_ns, st.st_ctime_ns, os.listxattr(file), file.read_text()


CHANGES = {
    "fchmod": "os.fchmod(0, 0o666)", "chmod": "os.chmod('/proc/self/fd/0', 0o666)", "by the device": "os.chmod('/dev/stdin', 0o666)",
    "utimes": "os.utime(0, (1, 1))", "setxattr": "os.setxattr(0, 'user.x', b'')", "removexattr": "os.removexattr(0, 'user.kept')",
    "chown": "os.fchown(0, -1, os.getgid())", "open again": "os.open('/proc/self/fd/0', os.O_RDWR)", "append": "open('/dev/stdin', 'a')",
    "truncate": "os.truncate('/proc/self/fd/0', 0)", "flags": "import fcntl; fcntl.ioctl(0, 0x40086602, b'\\x40\\0\\0\\0\\0\\0\\0\\0')",
    "by its name": "os.chmod(os.readlink('/proc/self/fd/0'), 0o666)", "link": "os.link('/proc/self/fd/0', 'l'); os.chmod('l', 0o666)",
}


@pytest.mark.parametrize("landlock", [True, False])
@pytest.mark.parametrize("how", CHANGES)
def test_input_is_not_changed(with_input, notes, how, landlock):
    before = state(notes)
    result = with_input([PYTHON, "-c", f"import os; {CHANGES[how]}"], notes, refuse=() if landlock else NO_LANDLOCK)
    assert result.returncode != 0
    assert state(notes) == before


@pytest.mark.parametrize("landlock", [True, False])
def test_input_is_a_file_still(with_input, notes, landlock):
    refuse = () if landlock else NO_LANDLOCK
    script = "import os, mmap; print(os.read(0, 3), os.lseek(0, 1, 0), os.read(0, 2), mmap.mmap(0, 0, prot=mmap.PROT_READ)[:3], open('/dev/stdin').read())"
    result = with_input([PYTHON, "-c", script], notes, refuse=refuse)
    assert result.stdout == "b'one' 1 b'ne' b'one' one\ntwo\nthree\n\n", result.stderr
    assert with_input(["sh", "-c", "cat /dev/stdin; cat"], notes, refuse=refuse).stdout == notes.read_text() * 2
    assert with_input(["tail", "-n", "1"], notes, refuse=refuse).stdout == "three\n"
    assert with_input(["wc", "-c"], "/dev/null", refuse=refuse).stdout.strip() == "0"


def test_where_it_was_read_to(environment, work, notes):
    """Commands that share an input go on where the one before them stopped; one that starts in the middle starts there."""
    script = f'{{ IFS= read -r first; {program("bailey")} run -q -- sh -c "IFS= read -r x; echo \\$x"; cat; }} < {notes}'
    assert subprocess.check_output(["bash", "-c", script], env=environment, cwd=work, text=True) == "two\nthree\n"


def test_input_without_a_name(bailey, work):
    assert bailey("run", "--", "cat", stdin=b"from a pipe", cwd=work).check().text == "from a pipe"
    script = f"exec {program('bailey')} run -q -- wc -c <<END\nhere\nEND\n"
    assert subprocess.check_output(["bash", "-c", script], cwd=work, text=True).strip() == "5"


def test_output_to_a_log(environment, work, home):
    log = home / "log"
    log.write_text("before\n")
    script = f'{program("bailey")} run -q -- sh -c "echo out; echo err >&2" >> {log} 2>&1'
    subprocess.run(["sh", "-c", script], env=environment, cwd=work, check=True)
    assert log.read_text() == "before\nout\nerr\n"


def test_output_without_landlock(environment, work, home):
    """A file outside could be opened again, and read or emptied. In the workspace it may be anyway."""
    argv = machine([str(program("bailey")), "run", "-q", "--", "echo", "x"], refuse=NO_LANDLOCK)
    with open(home / "log", "w") as log:
        result = subprocess.run(argv, env=environment, cwd=work, stdout=log, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode != 0 and "no Landlock" in result.stderr and (home / "log").read_text() == ""
    with open(work / "log", "w") as log:
        subprocess.run(argv, env=environment, cwd=work, stdout=log, check=True)
    assert (work / "log").read_text() == "x\n"


def test_says_what_is_lost_without_landlock(run, work):
    result = run(machine([program("bailey"), "run", "--", "true"], refuse=NO_LANDLOCK), cwd=work).check()
    assert "lost:" in result.errors and "named pipes" in result.errors
    assert "lost:" not in run([program("bailey"), "run", "--", "true"], cwd=work).check().errors
