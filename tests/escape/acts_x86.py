# SPDX-License-Identifier: Apache-2.0
"""What x86-64 has and others do not: two more ways into the kernel, each with numbers and layouts of its own, and an older
form of every call that takes a path. Kernels may be without the two."""
import ctypes
import mmap
import os
import struct

from world import LIBC, act, check, in_child

X32 = 1 << 30
CLONE_NEWUSER = 0x10000000
MAP_32BIT = 0x40
CLOSED = "EROFS EACCES"
I386 = {"getpid": 20, "open": 5, "unshare": 310}
OLDER = {"open": 2, "creat": 85, "rename": 82, "link": 86, "symlink": 88, "mkdir": 83, "rmdir": 84, "unlink": 87, "chmod": 90, "mknod": 133}
HELD = []


def low_page(text):
    """Where 32 bits reach it, for good; text may be made for the address."""
    page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_32BIT, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    text = text(address) if callable(text) else text
    page[:len(text)] = text
    HELD.append(page)
    return address


def call(code):
    return ctypes.CFUNCTYPE(ctypes.c_int)(low_page(code))()


def enter(number, *words):
    """mov eax, number; mov ebx, ecx, edx; int 0x80. rbx is the caller's."""
    words = (*words, 0, 0, 0)[:3]
    return b"\xb8" + struct.pack("<I", number) + b"".join(bytes([register]) + struct.pack("<I", word)
                                                          for register, word in zip((0xbb, 0xb9, 0xba), words)) + b"\xcd\x80"


def interrupt(name, *words):
    result = call(b"\x53" + enter(I386[name], *words) + b"\x5b\xc3")
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


@act(inside="SIGSYS", absent="SIGSEGV")
def call_by_interrupt(w):
    in_child(lambda: interrupt("getpid"))


@act(inside="SIGSYS", absent="SIGSEGV")
def open_key_by_interrupt(w):
    in_child(lambda: os.close(interrupt("open", low_page((w.home + "/.ssh/id_test").encode()), os.O_RDONLY)))


@act(inside="SIGSYS", absent="SIGSEGV")
def new_user_namespace_by_interrupt(w):
    in_child(lambda: interrupt("unshare", CLONE_NEWUSER))


@act(inside="SIGSYS", absent="SIGSEGV")
def call_from_32_bit_code(w):
    """Into the segment of 32-bit programs and back: push rbx; mov [kept], rsp; push 0x23; push there; retfq; ... ;
    jmp far 0x33:back; mov rsp, [kept]; pop rbx; ret."""
    def make(address):
        kept, body = struct.pack("<I", address + 2048), enter(I386["getpid"])
        head = b"\x53\x48\x89\x24\x25" + kept + b"\x6a\x23\x68" + struct.pack("<I", address + 18) + b"\x48\xcb"
        back = struct.pack("<IH", address + len(head) + len(body) + 7, 0x33)
        return head + body + b"\xea" + back + b"\x48\x8b\x24\x25" + kept + b"\x5b\xc3"
    in_child(lambda: call(make))


def x32(number, *words):
    return check(LIBC.syscall(ctypes.c_long(X32 | number), *[ctypes.c_long(w) if isinstance(w, int) else w for w in words]))


@act(inside="SIGSYS", absent="ENOSYS")
def call_by_x32(w):
    in_child(lambda: x32(39))


@act(inside="SIGSYS", absent="ENOSYS")
def open_key_by_x32(w):
    path = ctypes.create_string_buffer((w.home + "/.ssh/id_test").encode())
    in_child(lambda: os.close(x32(OLDER["open"], path, os.O_RDONLY, 0)))


@act(inside="SIGSYS", absent="ENOSYS")
def new_user_namespace_by_x32(w):
    in_child(lambda: x32(272, CLONE_NEWUSER))


def older(name, *words):
    """A call in its first form: what the C library no longer makes."""
    return check(LIBC.syscall(ctypes.c_long(OLDER[name]), *[ctypes.c_long(w) if isinstance(w, int) else ctypes.create_string_buffer(w.encode())
                                                            for w in words]))


@act(inside="EACCES")
def read_key_by_open(w):
    os.close(older("open", w.home + "/.ssh/id_test", os.O_RDONLY, 0))


@act(inside=CLOSED)
def overwrite_by_creat(w):
    os.close(older("creat", w.home + "/notes", 0o644))


@act(inside=CLOSED, degraded="done")
def plant_git_hook_by_creat(w):
    os.close(older("creat", w.workspace + "/.git/hooks/pre-commit", 0o755))


@act(inside="EBUSY " + CLOSED, degraded="done")
def move_git_directory_away_by_rename(w):
    older("rename", w.workspace + "/.git", w.workspace + "/.git-old")


@act(inside=CLOSED + " EXDEV")
def link_out_of_home_by_link(w):
    older("link", w.home + "/notes", w.workspace + "/hard")


@act(inside=CLOSED)
def link_into_home_by_symlink(w):
    older("symlink", "/etc/passwd", w.home + "/planted")


@act(inside=CLOSED)
def make_and_remove_directory_in_home(w):
    older("mkdir", w.home + "/made", 0o755)
    older("rmdir", w.home + "/made")


@act(inside=CLOSED)
def remove_from_home_by_unlink(w):
    older("unlink", w.home + "/doomed")


@act(inside=CLOSED, degraded="EPERM")
def change_mode_in_home_by_chmod(w):
    older("chmod", w.home + "/notes", 0o666)


@act(inside=CLOSED)
def make_fifo_in_home_by_mknod(w):
    older("mknod", w.home + "/fifo", 0o10644, 0)
