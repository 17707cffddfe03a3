# SPDX-License-Identifier: Apache-2.0
"""Files of the host as standard input, output and error: what is handed over is a stream, not the file's modes and names."""
import array
import errno
import os
import socket
import stat
import subprocess

import pytest

from conftest import program
from kit.machine import NO_CLONE3, deny, machine

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


OLD_MOUNTS = [deny("mount_setattr", errno.ENOSYS)]  # before Linux 5.12
KERNELS = {"new": (), "no Landlock": NO_LANDLOCK, "old mounts": OLD_MOUNTS, "old": [*NO_LANDLOCK, *OLD_MOUNTS]}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.rows
def test_input_is_not_changed(with_input, notes, how, kernel):
    before = state(notes)
    result = with_input([PYTHON, "-c", f"import os; {CHANGES[how]}"], notes, refuse=KERNELS[kernel])
    assert result.returncode != 0
    assert state(notes) == before


@pytest.mark.parametrize("kernel", KERNELS)
def test_input_is_a_file_still(with_input, notes, kernel):
    refuse = KERNELS[kernel]
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


# --- pipes with a name: no mount holds them ---

REOPENS = {
    "write": "fd = os.open('/proc/self/fd/0', os.O_WRONLY | os.O_NONBLOCK)", "both ways": "fd = os.open('/dev/stdin', os.O_RDWR)",
    "append": "fd = os.open('/dev/fd/0', os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)", "by its name": "fd = os.open(os.readlink('/proc/self/fd/0'), os.O_RDWR)",
    "by init": "fd = os.open('/proc/1/fd/0', os.O_RDWR)", "by a link": "os.symlink('/proc/self/fd/0', 'l'); fd = os.open('l', os.O_RDWR)",
}


@pytest.fixture
def with_pipe(environment, work):
    """with_pipe(command, pipe, *options): what the host writes into the pipe is the command's input, or nothing does and it is its output."""
    def go(command, pipe, *options, refuse=(), output=False, text=b"from the host\n"):
        argv = [str(program("bailey")), "run", "-q", *options, "--", *command]
        ours = os.open(pipe, os.O_RDWR)  # waits for nobody
        theirs = os.open(pipe, os.O_WRONLY if output else os.O_RDONLY)
        try:
            if not output:
                os.write(ours, text)
                os.close(ours)  # the input ends behind the text
            kept = {"stdin": subprocess.DEVNULL, "stdout": theirs} if output else {"stdin": theirs, "stdout": subprocess.PIPE}
            result = subprocess.run(machine(argv, refuse=refuse) if refuse else argv, env=environment, cwd=work, timeout=120,
                                    stderr=subprocess.PIPE, check=False, **kept)
            os.set_blocking(theirs if not output else ours, False)
            try:
                left = os.read(ours if output else theirs, 65536)
            except BlockingIOError:
                left = b""
            return result, left
        finally:
            os.close(theirs)
            if output:
                os.close(ours)
    return go


@pytest.fixture
def pipe(home):
    path = home / "orders"
    os.mkfifo(path, 0o640)
    path.chmod(0o640)
    return path


@pytest.mark.parametrize("landlock", [True, False])
@pytest.mark.parametrize("how", REOPENS)
@pytest.mark.rows
def test_a_named_pipe_is_not_opened_for_more(with_pipe, pipe, how, landlock):
    """Somebody else may read from it, and obey."""
    code = f"import os; {REOPENS[how]}; os.write(fd, b'EVIL')"
    result, left = with_pipe([PYTHON, "-c", code], pipe, refuse=() if landlock else NO_LANDLOCK)
    assert result.returncode != 0 and b"EVIL" not in left, result
    assert landlock or b"no Landlock" in result.stderr, result


@pytest.mark.parametrize("how", ["fchmod(0, 0o666)", "chmod('/proc/self/fd/0', 0o666)", "fchmod(0, 0o4777)", "fchmod(0, 0)"])
@pytest.mark.parametrize("end", ["", "; os.kill(os.getpid(), 9)"])
@pytest.mark.rows
def test_a_named_pipe_keeps_its_mode(with_pipe, pipe, work, how, end):
    began = work / "began"
    for code, output in ((f"os.{how}{end}", False), (f"os.{how.replace('(0', '(1').replace('fd/0', 'fd/1')}{end}", True)):
        result, _ = with_pipe([PYTHON, "-c", f"import os; open('began', 'w').close(); {code}"], pipe, output=output)
        assert began.exists() and stat.S_IMODE(pipe.stat().st_mode) == 0o640, result
        began.unlink()


def test_a_named_pipe_without_namespaces(with_pipe, pipe):
    """Nothing can be mounted: Landlock and the watcher hold it."""
    refuse = [deny("clone3", NO_CLONE3), deny("clone", errno.EPERM, 0x3E020011)]
    for code in ("os.write(os.open('/proc/self/fd/0', os.O_WRONLY | os.O_NONBLOCK), b'EVIL')", "os.fchmod(0, 0o666)", "os.chmod('/dev/stdin', 0o666)"):
        result, left = with_pipe([PYTHON, "-c", f"import os; {code}"], pipe, "--allow-degraded", refuse=refuse)
        assert result.returncode != 0 and b"EVIL" not in left and stat.S_IMODE(pipe.stat().st_mode) == 0o640, (code, result)


def test_a_named_pipe_is_a_stream(with_pipe, pipe, work):
    """It is read to its end, once, by programs that wait with read() and with poll(); and one of the workspace may be reopened."""
    assert with_pipe(["cat"], pipe)[0].stdout == b"from the host\n"
    poll = "import os, select\ngot = b''\nwhile True:\n    select.select([0], [], [])\n    data = os.read(0, 4)\n    if not data: break\n    got += data\nprint(got)"
    assert with_pipe([PYTHON, "-c", poll], pipe)[0].stdout == b"b'from the host\\n'\n"
    result, left = with_pipe(["echo", "an answer"], pipe, output=True)
    assert result.returncode == 0 and left == b"an answer\n", result
    os.mkfifo(work / "own")
    again = "import os; print(os.read(os.open('/dev/stdin', os.O_RDONLY | os.O_NONBLOCK), 99))"
    assert with_pipe([PYTHON, "-c", again], work / "own")[0].stdout == b"b'from the host\\n'\n"
    for refuse in ((), NO_LANDLOCK):
        result, left = with_pipe(["echo", "inside"], work / "own", refuse=refuse, output=True)
        assert result.returncode == 0 and left == b"inside\n", result


def test_a_denied_pipe_is_no_output(with_pipe, home):
    """It could be read through the descriptor."""
    (home / "closed").mkdir()
    os.mkfifo(home / "closed/p")
    result, _ = with_pipe(["true"], home / "closed/p", "--deny-read", str(home / "closed"), output=True)
    assert result.returncode != 0 and b"must not read" in result.stderr, result


@pytest.mark.user
@pytest.mark.parametrize("how", ["open('/proc/self/fd/1').read()", "os.truncate('/proc/self/fd/1', 0)", "os.open('/dev/stdout', os.O_RDWR | os.O_TRUNC)"])
def test_output_with_nesting(environment, work, home, how):
    """Landlock guards no files there: what is outside of the writable places is as open as without it."""
    log = home / "log"
    log.write_text("before\n")
    argv = [str(program("bailey")), "run", "-q", "--nesting", "--", PYTHON, "-c", f"import os, sys; x = {how}; sys.stderr.write(str(x))"]
    with open(log, "a") as out:
        result = subprocess.run(argv, env=environment, cwd=work, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert result.returncode != 0 and "before" not in result.stderr and log.read_text() == "before\n", result


READS_DENIED = ["--reads", "deny", *sum((["--read", place] for place in ("/usr", "/bin", "/lib", "/lib64", "/etc") if os.path.exists(place)), [])]


def test_output_is_not_read_where_reads_are_denied(environment, work, home):
    """No mount holds a descriptor that is opened again for reading: Landlock's rights to read do."""
    log = home / "log"
    log.write_text("before\n")
    argv = [str(program("bailey")), "run", "-q", *READS_DENIED, "--", PYTHON, "-c", "import sys; sys.stderr.write(open('/proc/self/fd/1').read())"]
    with open(log, "a") as out:
        result = subprocess.run(argv, env=environment, cwd=work, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert result.returncode == 1 and "PermissionError" in result.stderr and "before" not in result.stderr, result


def test_a_directory_that_comes_by_a_socket_where_reads_are_denied(environment, work, home):
    """Somebody outside passes it, by mistake: it leads to the host's mounts, which hold nothing there."""
    (home / "notes").write_text("secret")
    script = """import array, os, socket
passed = array.array("i", socket.socket(fileno=0).recvmsg(1, 100)[1][0][2])[0]
for way in (lambda: os.open(".", os.O_RDONLY, dir_fd=passed), lambda: os.read(os.open("notes", os.O_RDONLY, dir_fd=passed), 20), lambda: os.open("..", os.O_RDONLY, dir_fd=passed),
            lambda: os.open("notes", os.O_RDONLY | os.O_TRUNC, dir_fd=passed), lambda: os.open("notes", os.O_WRONLY, dir_fd=passed)):
    try: print(way())
    except OSError: print("refused")"""
    ours, theirs = socket.socketpair()
    place = os.open(home, os.O_PATH)
    argv = [str(program("bailey")), "run", "-q", *READS_DENIED, "--", PYTHON, "-c", script]
    with ours, theirs, subprocess.Popen(argv, env=environment, cwd=work, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [place]))])
        os.close(place)
        out, errors = child.communicate(timeout=120)
    assert out == "refused\n" * 5, (out, errors)
    assert (home / "notes").read_text() == "secret"
