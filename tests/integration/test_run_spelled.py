# SPDX-License-Identifier: Apache-2.0
"""The broker's short ways: a path that is judged as it is spelled, a thread that is known from its last call, a worker that keeps the turn. Each is attacked
by what could make it wrong: other threads, the host, links, and paths that are spelled in every odd form."""
import errno
import json
import os
import subprocess
import threading

import pytest

from kit.process import wait_until

SECRET = "the-secret-value"
GLOB = ("--deny-read", "**/.env", "--deny-read", "**/secrets/*")
pytestmark = pytest.mark.visible_home
PYTHON = "/usr/bin/python3"

# Every odd form of a path, opened in every way; prints what came of it. The same outside and inside.
FORMS = r"""
import errno, json, os, sys
os.makedirs("d/e"); open("d/f", "w").write("f"); open("d/e/g", "w").write("g")
for name, to in (("to_d", "d"), ("to_f", "d/f"), ("nowhere", "d/none"), ("loop", "loop"), ("d/up", ".."), ("d/self", "/proc/self/cwd/d/f")): os.symlink(to, name)
os.mkfifo("pipe"); long = "n" * 255
paths = ["", ".", "..", "/", "//", "d", "d/", "d//", "d/.", "d/..", "./d/f", "d//f", "d/./f", "d/f/", "d/f/.", "d/f/x", "d/e/../f", "none/../d/f", "none", "none/x", "none/", "d/none",
         "to_d/f", "to_f", "to_f/", "nowhere", "loop", "loop/x", "d/up/d/f", "d/self", "d/" + long, "d/" + long + "n", "/".join(["d/up"] * 45) + "/d/f", "d/" + "./" * 2040 + "f",
         "d/" + "/" * 4100 + "f", ".../f", "d/...", "/proc/self/cwd/d/f", "/proc/thread-self/status", "/proc/self/fd/0/x", "/dev/null", "/dev/null/", "//dev//null", os.getcwd() + "/d/f",
         os.getcwd() + "//d/./e/g", os.getcwd() + "/to_d/f"]
R, W, C, T = os.O_RDONLY, os.O_WRONLY, os.O_CREAT, os.O_TRUNC
ways = {"read": R, "directory": R | os.O_DIRECTORY, "nofollow": R | os.O_NOFOLLOW, "write": W, "append": W | os.O_APPEND, "make": W | C, "anew": W | C | os.O_EXCL, "over": W | C | T,
        "read or make": R | C, "read and write": os.O_RDWR, "made anew, not followed": W | C | os.O_NOFOLLOW}
found = {}
def note(what, do):
    try:
        got = do()
        found[what] = got if isinstance(got, str) else "done"
    except OSError as error:
        found[what] = errno.errorcode[error.errno]
def opened(path, flags, **more):
    fd = os.open(path, flags, 0o640, **more)
    where, mode = os.readlink(f"/proc/self/fd/{fd}"), os.fstat(fd).st_mode
    os.close(fd)
    return f"{where.replace(os.getcwd(), 'CWD').replace(os.path.dirname(os.getcwd()), 'UP')} {mode:o}" if not where.startswith("/proc") else "on proc"
def shown(path):
    return f"{path.replace(os.getcwd(), 'CWD')[:60]!r}, the {paths.index(path)}th"
def clean():
    for name in ("none", "d/none", "d/" + long, "d/..."):
        try: os.unlink(name)
        except OSError: pass
os.umask(0o027)
for way, flags in ways.items():
    for path in paths:
        if path.startswith(("/dev", "//dev", "/proc/thread")) and way != "read": continue
        note(f"{way} {shown(path)}", lambda: opened(path, flags)); clean()
deep = os.open("d", os.O_RDONLY); file = os.open("d/f", os.O_RDONLY)
for base, number in (("directory", deep), ("file", file), ("closed", 999), ("negative", -5)):
    for path in ("f", "e/g", "./e//g", "../d/f", "none/x", ""):
        for way in ("read", "over", "anew"):
            note(f"{way} {path!r} at a {base}", lambda: opened(path, ways[way], dir_fd=number)); clean()
for path in paths:
    if path.startswith(("/", "..")) or "to_" in path or "up" in path: continue  # nothing outside this directory is changed
    for name, do in (("mkdir", os.mkdir), ("link", lambda p: os.link("d/e/g", p)), ("symlink", lambda p: os.symlink("x", p)), ("rmdir", os.rmdir)):
        if name == "rmdir" and path.endswith(".."): continue  # refused everywhere, in another word
        what = f"{name} {shown(path)}"
        note(what, lambda: do(path))
        if name == "mkdir" and found[what] == "done": os.rmdir(path)
        clean()
        if not os.path.isdir("d/e"): os.makedirs("d/e"); open("d/e/g", "w").write("g")
note("pipe", lambda: opened("pipe", R | os.O_NONBLOCK)); note("pipe, nobody reads", lambda: opened("pipe", W | os.O_NONBLOCK))
os.mkdir("gone"); os.mkdir("gone (deleted)"); open("gone (deleted)/f", "w").write("wrong"); os.chdir("gone"); os.rmdir("../gone")
for path in ("f", "./x/f", "../d/f"): note(f"{path} in a directory that is gone", lambda: opened(path, R)); note(f"{path} made there", lambda: opened(path, W | C))
print(json.dumps(found))
"""


@pytest.mark.parametrize("options", [(), GLOB, ("--trace-denials",)], ids=["protected names", "globs", "trace"])
def test_paths_in_every_form_mean_what_they_mean_outside(bailey, home, work, options):
    outside = home / "outside"
    outside.mkdir()
    expected = json.loads(subprocess.run([PYTHON, "-c", FORMS], cwd=outside, check=True, capture_output=True, text=True).stdout)
    found = json.loads(bailey("run", "--quiet", *options, "--", PYTHON, "-c", FORMS, cwd=work).check().text)
    different = {what: (expected[what], got) for what, got in found.items() if got != expected[what]}
    assert len(found) == len(expected) > 500 and not different, different


# Reads by several threads that change what the others have asked for: the buffer of a path, the working directory, the names themselves.
READERS = r"""
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
top, end, seen = os.getcwd(), time.monotonic() + float(sys.argv[1]), set()
def read(fd):
    if fd >= 0: seen.add(os.read(fd, 100)); os.close(fd)
buffer = ctypes.create_string_buffer(b"sub/plain", 64)
def flip():
    while time.monotonic() < end: buffer.value = b"secrets/a"; buffer.value = b"sub/plain"; buffer.value = b"./sub/.env"
def by_buffer():
    while time.monotonic() < end: read(libc.open(buffer, 0)); read(libc.openat(-100, buffer, 0))
def wander():  # the working directory is shared by all threads
    while time.monotonic() < end: os.chdir(top + "/sub"); os.chdir(top + "/secrets"); os.chdir(top)
def by_place():
    while time.monotonic() < end:
        for path in (b"a", b"x/a", b"./x/a", b"plain"): read(libc.open(path, 0))
def swap():
    while time.monotonic() < end:
        for act in (lambda: os.rename(top + "/sub/x", top + "/sub/y"), lambda: os.symlink(top + "/secrets", top + "/sub/x"), lambda: os.unlink(top + "/sub/x"),
                    lambda: os.rename(top + "/sub/y", top + "/sub/x")):
            try: act()
            except OSError: pass
def by_name():
    while time.monotonic() < end: read(libc.open((top + "/sub/x/a").encode(), 0)); read(libc.open((top + "/sub/x/b").encode(), 0))
threads = [threading.Thread(target=each) for each in (flip, by_buffer, wander, by_place, swap, by_name)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(seen))
"""


def make_readable(work):
    for name, text in {"sub/plain": "plain", "sub/x/a": "plain", "sub/x/b": "plain", "sub/.env": SECRET, "secrets/a": SECRET, "secrets/b": SECRET}.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)


def test_threads_that_change_what_is_asked_for(bailey, work):
    make_readable(work)
    result = bailey("run", "--quiet", *GLOB, "--", PYTHON, "-c", READERS, "4", cwd=work).check()
    assert "plain" in result.text and SECRET not in result.text, result


def swapping(place, name, to):
    """The host puts a link in a directory's place and takes it away again, until it is told to stop."""
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            os.rename(place / name, place / f"{name}.aside")
            os.symlink(to, place / name)
            os.unlink(place / name)
            os.rename(place / f"{name}.aside", place / name)

    thread = threading.Thread(target=swap)
    thread.start()
    return stop, thread


def test_the_host_swaps_a_directory_that_is_read(bailey, work):
    make_readable(work)
    script = """import os, time
seen, end = set(), time.monotonic() + 3
while time.monotonic() < end:
    for path in ("sub/x/a", "./sub//x/b", os.getcwd() + "/sub/x/a"):
        try: seen.add(open(path).read())
        except OSError: pass
print(sorted(seen))"""
    stop, thread = swapping(work / "sub", "x", work / "secrets")
    try:
        result = bailey("run", "--quiet", *GLOB, "--", PYTHON, "-c", script, cwd=work).check()
    finally:
        stop.set()
        thread.join()
    assert "plain" in result.text and SECRET not in result.text, result


def test_the_host_swaps_a_directory_that_is_written(bailey, work):
    """The link leads to what is protected. Every way to change a name by a path with a directory in it."""
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    hooks = work / ".git/hooks"
    (hooks / "there").write_text("kept")
    (work / "build/tree").mkdir(parents=True)
    (work / "build/tree/there").write_text("")
    before = sorted(os.listdir(hooks))
    script = """import os, time
end, count = time.monotonic() + 3, 0
def attempt(do):
    try: do(); return 1
    except OSError: return 0
while time.monotonic() < end:
    for at in ("build/tree", "./build//tree", os.getcwd() + "/build/tree"):
        count += attempt(lambda: open(at + "/there", "w").write("evil"))
        count += attempt(lambda: os.close(os.open(at + "/new", os.O_WRONLY | os.O_CREAT | os.O_EXCL)))
        for do in (lambda: os.truncate(at + "/there", 0), lambda: os.mkdir(at + "/dir"), lambda: os.symlink("x", at + "/link"), lambda: os.link("own", at + "/hard"),
                   lambda: os.rename("own", at + "/moved"), lambda: os.rename(at + "/there", at + "/renamed"), lambda: os.rename(at + "/renamed", at + "/there"),
                   lambda: os.chmod(at + "/there", 0o777), lambda: open("own", "w").close()):
            attempt(do)
        for name in ("new", "link", "hard", "moved"): attempt(lambda: os.unlink(at + "/" + name))
        attempt(lambda: os.rmdir(at + "/dir"))
print(count)"""
    stop, thread = swapping(work / "build", "tree", hooks)
    try:
        result = bailey("run", "--quiet", "--", PYTHON, "-c", script, cwd=work).check()
    finally:
        stop.set()
        thread.join()
    assert int(result.text) > 10 and sorted(os.listdir(hooks)) == before and (hooks / "there").read_text() == "kept", result
    assert (hooks / "there").stat().st_mode & 0o777 != 0o777


def test_the_host_carries_the_working_directory_into_what_is_protected(start, work):
    """A path that begins where the caller is: that place has another name now."""
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / "build/deep").mkdir(parents=True)
    script = """import os, time
os.chdir("build/deep"); open("../ready", "w").close()
end = time.monotonic() + 60
while not os.path.exists("../go") and time.monotonic() < end: time.sleep(0.01)
for path in ("planted", "./planted", "../planted", "../deep/planted"):
    try: open(path, "w").write("x"); print("written", path)
    except OSError as error: print("refused")"""
    child = start(["bailey", "run", "--quiet", "--", PYTHON, "-c", script], cwd=work)
    for _ in range(1200):
        if (work / "build/ready").exists():
            break
        threading.Event().wait(0.05)
    os.rename(work / "build", work / ".git/hooks/build")
    (work / ".git/hooks/build/go").touch()
    result = child.wait(90)
    assert result.text.split() == ["refused"] * 4, result
    assert not list((work / ".git/hooks").rglob("planted"))


def test_the_host_carries_a_directory_that_is_written_all_the_time(start, work):
    """The broker keeps the directory of the last call: where that is now counts, not where it was."""
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / "build").mkdir()
    script = """import os, time
end, count, tries, last = time.monotonic() + 60, 0, 0, os.open("build", os.O_RDONLY)
while not os.path.exists("stop") and time.monotonic() < end:
    tries += 1
    if tries % 200 == 0 and os.path.exists("build"): os.close(last); last = os.open("build", os.O_RDONLY)
    for name, at in ((f"build/{count}", None), (f"own{count}", last)):
        try: os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=at)); count += 1
        except OSError: pass
print(count)"""
    child, grown = start(["bailey", "run", "--quiet", "--", PYTHON, "-c", script], cwd=work), []
    try:
        for number in range(10):
            wait_until(lambda: len(os.listdir(work / "build")) > 50)
            carried = work / f".git/hooks/build{number}"
            os.rename(work / "build", carried)
            threading.Event().wait(0.02)  # a call that was judged before is over
            before = len(os.listdir(carried))
            threading.Event().wait(0.05)
            grown.append(len(os.listdir(carried)) - before)
            (work / "build").mkdir()
    finally:
        (work / "stop").touch()
    result = child.wait(90)
    assert grown == [0] * 10 and int(result.text) > 500, (grown, result)


def test_a_program_that_was_just_written_can_be_run(bailey, work):
    """The broker has let go of it by then, whichever way it got the right to be run."""
    script = r"""import os, subprocess
def write(name, mode, later):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    os.write(fd, b"#!/bin/sh\nexit 7\n")
    if later == "descriptor": os.fchmod(fd, 0o700)
    os.close(fd)
    if later == "name": os.chmod(name, 0o700)
for n in range(150):
    for later, mode in (("descriptor", 0o600), ("name", 0o600), ("never", 0o700)):
        write(f"p{n}{later}", mode, later)
        assert subprocess.run([f"./p{n}{later}"]).returncode == 7, later
print("all")"""
    assert "all" in bailey("run", "--quiet", "--", PYTHON, "-c", script, cwd=work).check().text


def test_a_connection_leaves_the_socket_as_it_was(bailey, work):
    """Waiting ones wait, and others do not, before and after; a full queue is waited for."""
    script = r"""import fcntl, os, socket, threading, time
listener = socket.socket(socket.AF_UNIX); listener.bind("s"); listener.listen(1)
flags = lambda s: fcntl.fcntl(s, fcntl.F_GETFL) & os.O_NONBLOCK
for blocking in (True, False):
    s = socket.socket(socket.AF_UNIX); s.setblocking(blocking); s.connect("s"); print(bool(flags(s)) != blocking); listener.accept()[0].close()
crowd = [socket.socket(socket.AF_UNIX) for _ in range(2)]
for s in crowd: s.connect("s")
never = socket.socket(socket.AF_UNIX); never.setblocking(False)
try: never.connect("s"); print("connected")
except BlockingIOError: print("full")
late = socket.socket(socket.AF_UNIX)
waiting = threading.Thread(target=lambda: late.connect("s")); waiting.start(); time.sleep(0.3)
print(waiting.is_alive()); listener.accept(); waiting.join(20); print(waiting.is_alive(), flags(late))"""
    result = bailey("run", "--quiet", "--", PYTHON, "-c", script, cwd=work).check()
    assert result.text.split() == ["True", "True", "full", "True", "False", "0"], result


# A list for everybody, as setfacl writes it: version 2; owner, group, mask and others may write.
LIST = "b'\\2\\0\\0\\0' + b''.join(t.to_bytes(2, 'little') + b'\\6\\0' + b'\\xff' * 4 for t in (1, 4, 16, 32))"
ATTRIBUTES = {
    "list": f"os.setxattr('Makefile', 'system.posix_acl_access', {LIST})", "list by descriptor": f"os.setxattr(fd, 'system.posix_acl_access', {LIST})",
    "list of a link": f"os.setxattr('Makefile', 'system.posix_acl_access', {LIST}, follow_symlinks=False)", "attribute": "os.setxattr('Makefile', 'user.x', b'y')",
    "attribute by a link": "os.symlink('Makefile', 'l'); os.setxattr('l', 'user.x', b'y')", "removed": "os.removexattr('Makefile', 'user.kept')",
    "removed by descriptor": "os.removexattr(fd, 'user.kept')", "mode": "os.chmod('Makefile', 0o666)", "mode by descriptor": "os.fchmod(fd, 0o600)",
    "mode by its link in /proc": "os.chmod(f'/proc/self/fd/{fd}', 0o666)", "mode from a directory": "os.chmod('Makefile', 0o666, dir_fd=os.open('.', 0))",
    "owner": "os.chown('Makefile', -1, os.getgid())", "owner by descriptor": "os.fchown(fd, -1, os.getgid())", "length": "os.truncate('Makefile', 0)",
    "flags": "import fcntl; fcntl.ioctl(fd, 0x40086602, bytes([0x40, 0, 0, 0]))", "flags of a directory's file": "import fcntl; "
    "fcntl.ioctl(os.open('Makefile', os.O_RDONLY, dir_fd=os.open('.', 0)), 0x40086602, bytes(8))",
    "extended flags": "import fcntl; fcntl.ioctl(fd, 0x401c5820, bytes(28))", "request with upper bits":
    "import ctypes; assert ctypes.CDLL(None).ioctl(fd, ctypes.c_ulong(0xffff000040086602), ctypes.byref(ctypes.c_int(64))) == 0",
    "verity": "import fcntl; fcntl.ioctl(fd, 0x40806685, bytes(128))",
    "fchmodat2": "import ctypes; assert ctypes.CDLL(None).syscall(452, -100, b'Makefile', 0o666, 0) == 0",
}


@pytest.mark.parametrize("how", ATTRIBUTES)
def test_a_glob_against_writing_keeps_attributes(bailey, work, how):
    file = work / "Makefile"
    file.write_text("all:\n")
    file.chmod(0o644)
    os.setxattr(file, "user.kept", b"v")
    before = file.stat().st_mode, file.stat().st_gid, sorted(os.listxattr(file)), file.read_text()
    script = f"import os; fd = os.open('Makefile', os.O_RDONLY); {ATTRIBUTES[how]}"
    assert bailey("run", "--quiet", "--deny-write", "**/Makefile", "--", PYTHON, "-c", script, cwd=work).status != 0
    assert before == (file.stat().st_mode, file.stat().st_gid, sorted(os.listxattr(file)), file.read_text())


FLAGS = r"""import fcntl, os, sys
errors = []
for name in sys.argv[1:]:
    for request, size in ((0x40086602, 4), (0x401c5820, 28), (0x40806685, 128), (0x4008941a, 8), (0x40047211, 4), (0x40086604, 8)):
        try: fcntl.ioctl(os.open(name, os.O_RDONLY), request, bytes(size)); errors.append(0)
        except OSError as error: errors.append(error.errno)
print(*errors)"""


@pytest.mark.parametrize("option", ["--deny-write", "--deny-read"])
def test_flags_under_globs_and_elsewhere(bailey, work, option):
    """Refused by the rule, whatever the file system can do; elsewhere what it can do is done."""
    for name in ("Makefile", "other"):
        (work / name).write_text("x\n")
    words = bailey("run", "--quiet", option, "**/Makefile" if option == "--deny-write" else "**/nothing", "--", PYTHON, "-c", FLAGS, "Makefile", "other",
                   cwd=work).check().text.split()
    assert all(word == str(errno.EACCES) for word in words[:6]) == (option == "--deny-write"), words
    assert str(errno.EACCES) not in words[6:], words
    assert words[8:] == [str(errno.EOPNOTSUPP)] * 4


def test_flags_of_what_is_protected(start, bailey, work):
    """Also when the host has replaced it, and no mount covers it any more."""
    (work / ".envrc").write_text("old\n")
    child = start(["bailey", "run", "--", "sh", "-c", f"echo started; while [ ! -e go ]; do sleep 0.02; done; {PYTHON} -c '{FLAGS}' .envrc"], cwd=work)
    wait_until(lambda: b"started" in child.output() or child.process.poll() is not None, 60)
    (work / "new").write_text("new\n")
    os.replace(work / "new", work / ".envrc")
    (work / "go").touch()
    result = child.wait(60).check()
    assert result.text.split()[1:] == [str(errno.EACCES)] * 6 and ".envrc" in result.errors, result


def test_modes_by_descriptor(bailey, work):
    """A glob against writing keeps them; one against reading leaves them to the kernel."""
    (work / "Makefile").write_text("")
    (work / "Makefile").chmod(0o644)
    script = "import os; fd = os.open('Makefile', os.O_RDONLY); os.fchmod(fd, 0o600); os.fchown(fd, -1, -1)"
    assert bailey("run", "--quiet", "--deny-write", "**/Makefile", "--", PYTHON, "-c", script, cwd=work).status != 0
    assert (work / "Makefile").stat().st_mode & 0o777 == 0o644
    bailey("run", "--quiet", "--deny-read", "**/.env", "--", PYTHON, "-c", script, cwd=work).check()
    assert (work / "Makefile").stat().st_mode & 0o777 == 0o600


# Threads that come and go under numbers of others, each with a mask and a directory of its own, while connections wait for somebody who does not take them.
CROWD = r"""
import os, socket, threading, time
listener = socket.socket(socket.AF_UNIX); listener.bind("full"); listener.listen(0)
def wait_long():
    s = socket.socket(socket.AF_UNIX)
    try: s.connect("full"); time.sleep(30)
    except OSError: pass
for _ in range(12): threading.Thread(target=wait_long, daemon=True).start()
time.sleep(0.3)
wrong = 0
for round in range(40):
    children = []
    for n in range(8):
        pid = os.fork()
        if pid == 0:
            mask = (round * 8 + n) % 512; os.umask(mask); os.makedirs(f"c{n}/{round}", 0o777, exist_ok=True) if mask & 0o700 == 0 else os.mkdir(f"own{n}-{round}")
            os.close(os.open(f"f{n}-{round}", os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o777)); os._exit(os.stat(f"f{n}-{round}").st_mode & 0o777 != 0o777 & ~mask)
        children.append(pid)
    wrong += sum(os.waitpid(pid, 0)[1] != 0 for pid in children)
print("wrong", wrong, flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("options", [(), GLOB], ids=["protected names", "globs"])
def test_a_crowd_of_short_lives_beside_calls_that_wait(bailey, work, options):
    result = bailey("run", "--quiet", *options, "--", PYTHON, "-c", CROWD, cwd=work)
    assert result.status == 0 and result.text.split() == ["wrong", "0"], result


# The caller itself opens devices: another thread exchanges the path, and for openat2() the flags, after they were judged.
TRUNCATERS = r"""
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
READ, ONLY_IOCTL, CUT = os.O_RDONLY, 3, os.O_TRUNC
buffer, how = ctypes.create_string_buffer(b"/dev/null", 64), (ctypes.c_uint64 * 3)(READ, 0, 0)
open("ready", "w").close()
while not os.path.exists("go"): time.sleep(0.01)
end, opened = time.monotonic() + float(sys.argv[1]), 0
def flip():
    while time.monotonic() < end: buffer.value = b".envrc"; how[0] = READ | CUT; how[0] = READ; buffer.value = b"/dev/null"
def by_open(flags):
    global opened
    while time.monotonic() < end:
        for fd in (libc.open(buffer, flags), libc.syscall(437, -100, buffer, how, 24)):
            if fd >= 0: opened += 1; os.close(fd)
threads = [threading.Thread(target=flip)] + [threading.Thread(target=by_open, args=(flags,)) for flags in (READ | CUT, ONLY_IOCTL | CUT, ONLY_IOCTL | CUT | os.O_CREAT, os.O_RDWR | CUT)]
[t.start() for t in threads]; [t.join() for t in threads]
print(opened)
"""


def test_what_the_caller_opens_itself_truncates_nothing(start, work):
    """The host saves the file by renaming: no mount is left on it, and the broker alone protects it."""
    protected = work / ".envrc"
    protected.write_text("first")
    child = start(["bailey", "run", "--quiet", "--", PYTHON, "-c", TRUNCATERS, "3"], cwd=work)
    wait_until(lambda: (work / "ready").exists())
    (work / "new").write_text("kept")
    os.rename(work / "new", protected)
    (work / "go").touch()
    result = child.wait(60)
    assert result.status == 0 and int(result.text) > 10, result
    assert protected.read_text() == "kept"
