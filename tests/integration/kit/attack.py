# SPDX-License-Identifier: Apache-2.0
"""Runs inside: tries every way it knows to change the paths that are given, again and again, until the file `stop` is there.

attack.py SECONDS PATH...   What it wrote, wherever it landed, has EVIL in it.
"""
import ctypes
import os
import random
import socket
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
EVIL = b"[core]\n\tfsmonitor = EVIL\n"
AT_FDCWD, AT_EMPTY_PATH, AT_SYMLINK_FOLLOW, RENAME_EXCHANGE = -100, 0x1000, 0x400, 2
counter = (f"{random.randrange(1 << 40)}-{i}" for i in range(10 ** 9))  # sandboxes share the directory, and have equal process ids


def scratch(content=EVIL):
    name = f"scratch/{os.getpid()}-{threading.get_native_id()}-{next(counter)}"
    with open(name, "wb") as file:
        file.write(content)
    return name


def write(path, flags):
    fd = os.open(path, flags | os.O_NONBLOCK, 0o644)  # of a FIFO that it made itself, nobody has the other end
    os.write(fd, EVIL)
    os.close(fd)


def reopen(path):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_TRUNC)
    finally:
        os.close(fd)


def reopen_path(path):
    fd = os.open(path, os.O_PATH)
    try:
        write(f"/proc/thread-self/fd/{fd}", os.O_RDWR)
    finally:
        os.close(fd)


def exchange(path):
    libc.renameat2(AT_FDCWD, scratch().encode(), AT_FDCWD, path.encode(), RENAME_EXCHANGE)


def temporary(path):
    fd = os.open("scratch", os.O_TMPFILE | os.O_RDWR, 0o644)
    os.write(fd, EVIL)
    try:
        libc.linkat(AT_FDCWD, f"/proc/self/fd/{fd}".encode(), AT_FDCWD, path.encode(), AT_SYMLINK_FOLLOW)
        libc.linkat(fd, b"", AT_FDCWD, path.encode(), AT_EMPTY_PATH)
    finally:
        os.close(fd)


def hard_link(path):
    name = f"scratch/hard-{next(counter)}"
    os.link(path, name)
    write(name, os.O_WRONLY | os.O_TRUNC)


def through_link(path):
    name = f"scratch/soft-{next(counter)}"
    os.symlink(os.path.abspath(path), name)
    write(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)


def replace_above(path):
    """Takes the directory away and puts one of its own there."""
    above = os.path.dirname(path)
    if above:
        os.rename(above, f"scratch/above-{next(counter)}")
        os.mkdir(above)
        write(path, os.O_CREAT | os.O_WRONLY)


def link_above(path):
    above = os.path.dirname(path)
    if above:
        mine = f"scratch/mine-{next(counter)}"
        os.mkdir(mine)
        write(os.path.join(mine, os.path.basename(path)), os.O_CREAT | os.O_WRONLY)
        os.symlink(mine, f"{mine}-link")
        os.rename(f"{mine}-link", above)


def carry_above(path):
    above = os.path.dirname(path)
    if above:
        mine = f"scratch/carried-{next(counter)}"
        os.mkdir(mine)
        write(os.path.join(mine, os.path.basename(path)), os.O_CREAT | os.O_WRONLY)
        os.rename(mine, above)


def bind(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)


def bits(path):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.fchmod(fd, 0o777)
    finally:
        os.close(fd)


flip_buffer = ctypes.create_string_buffer(512)


def flip(path):
    """The path in memory changes while the call is judged."""
    harmless, stop = b"scratch/harmless", threading.Event()

    def turn():
        while not stop.is_set():
            flip_buffer.value = path.encode()
            flip_buffer.value = harmless

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        for _ in range(20):
            fd = libc.open(flip_buffer, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o644)
            if fd >= 0:
                os.write(fd, EVIL)
                os.close(fd)
    finally:
        stop.set()
        thread.join()


WAYS = [
    lambda p: write(p, os.O_WRONLY | os.O_APPEND), lambda p: write(p, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    lambda p: write(p, os.O_RDWR | os.O_CREAT), lambda p: write(p, os.O_WRONLY | os.O_CREAT | os.O_EXCL),
    lambda p: os.rename(scratch(), p), lambda p: os.link(scratch(), p), lambda p: os.symlink("conf", p),
    lambda p: os.truncate(p, 0), lambda p: os.unlink(p), lambda p: os.rename(p, f"scratch/taken-{next(counter)}"),
    lambda p: os.rmdir(p), lambda p: os.mkdir(p), lambda p: os.mkfifo(p), lambda p: os.chmod(p, 0o777),
    lambda p: os.setxattr(p, "user.evil", b"EVIL"), lambda p: write(os.path.join(p, "planted"), os.O_CREAT | os.O_WRONLY),
    lambda p: write(f"/proc/self/cwd/{p}", os.O_WRONLY | os.O_APPEND), lambda p: write(f"scratch/../{p}", os.O_WRONLY | os.O_CREAT),
    reopen, reopen_path, exchange, temporary, hard_link, through_link, replace_above, link_above, carry_above, bind, bits, flip,
]


def main():
    seconds, paths = float(sys.argv[1]), sys.argv[2:]
    os.makedirs("scratch", exist_ok=True)
    open("scratch/harmless", "w").close()
    open("ready", "w").close()
    end, tries = time.monotonic() + seconds, 0
    while time.monotonic() < end and not os.path.exists("stop"):
        try:
            random.choice(WAYS)(random.choice(paths))
        except OSError:
            pass
        tries += 1
    print("tries", tries)


main()
