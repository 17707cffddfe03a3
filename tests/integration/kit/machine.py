# SPDX-License-Identifier: Apache-2.0
"""A machine with less: starts a program under a seccomp filter, or where sysctls, /proc or limits look different.

    machine(["bailey", "doctor"], deny=[Deny("landlock_create_ruleset", errno.ENOSYS)])

gives the command line; what changes is that process and its children only. Run by itself (`python3 machine.py JSON`), it
makes the changes and executes the program.
"""
import ctypes
import errno
import json
import os
import pathlib
import platform
import struct
import sys

# Numbers of the generic table, and what x86-64 has instead.
CALLS = {"unshare": 97, "clone": 220, "syncfs": 267, "socket": 198, "seccomp": 277, "clone3": 435, "openat2": 437, "open_tree": 428, "pidfd_open": 434, "pidfd_getfd": 438, "mount_setattr": 442,
         "landlock_create_ruleset": 444, "memfd_secret": 447}
X86 = {"unshare": 272, "clone": 56, "syncfs": 306, "socket": 41, "seccomp": 317}
ARCHITECTURES = {"aarch64": 0xC00000B7, "x86_64": 0xC000003E}
KILL = -1
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x10000000, 0x20000000
MS_BIND, MS_REC = 4096, 16384


# How a machine refuses clone3(). Threads are made by it too: Bailey's own filter makes the C library fall back to clone(), and a build with a
# sanitizer has no filter.
NO_CLONE3 = errno.ENOSYS if "san" in os.environ.get("BAILEY_KIND", os.environ.get("BAILEY_BUILD", "")) else errno.EPERM  # as process.SANITIZED


def number(call):
    return X86.get(call, CALLS[call]) if platform.machine() == "x86_64" else CALLS[call]


def deny(call, error, argument=None, at=0):
    """One refused call; with `argument`, only when its first argument (or another one, `at`) is that. error KILL ends the process."""
    return [number(call), error, argument, at]


def machine(argv, *, refuse=(), userns=False, sysctls=None, cover=(), chroot=None):
    """The command line that starts argv on the machine described. userns is needed for sysctls, cover and chroot."""
    work = {"argv": [str(word) for word in argv], "refuse": list(refuse), "userns": userns, "sysctls": sysctls or {},
            "cover": list(cover), "chroot": chroot and str(chroot)}
    return [sys.executable, __file__, json.dumps(work)]


libc = ctypes.CDLL(None, use_errno=True)


def must(result, what):
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def mount(source, target, kind, flags=0):
    must(libc.mount(source.encode(), str(target).encode(), kind and kind.encode(), flags, None), f"mount on {target}")


def enter_userns():
    """A user namespace with the same ids, so that what runs there is still the same user, and a mount namespace."""
    uid, gid = os.getuid(), os.getgid()
    must(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        pathlib.Path("/proc/self", name).write_text(text)


def set_sysctls(values):
    """Replaces whole folders of /proc/sys by ones that hold just these files."""
    folders = {}
    for name, value in values.items():
        folder, _, file = name.replace(".", "/").rpartition("/")
        folders.setdefault(folder, {})[file] = value
    for folder, files in folders.items():
        place = pathlib.Path("/proc/sys", folder)
        mount("none", place, "tmpfs")
        for file, value in files.items():
            (place / file).write_text(f"{value}\n")


def enter_chroot(directory):
    root = pathlib.Path(directory)
    for name in ("usr", "proc", "tmp", "etc"):
        (root / name).mkdir()
        mount(f"/{name}", root / name, None, MS_BIND | MS_REC)
    for name in ("bin", "lib", "lib64"):
        if os.path.islink(f"/{name}"):
            (root / name).symlink_to(os.readlink(f"/{name}"))
    os.chroot(root)
    os.chdir("/")


def instruction(code, k, yes=0, no=0):
    return struct.pack("=HBBI", code, yes, no, k & 0xFFFFFFFF)


def install_filter(rules):
    load, equal, result = 0x20, 0x15, 0x06
    program = [instruction(load, 4), instruction(equal, ARCHITECTURES[platform.machine()], 1, 0), instruction(result, 0x7FFF0000)]
    for call, error, argument, at in rules:
        action = 0x80000000 if error == KILL else 0x00050000 | error
        program += [instruction(load, 0)]
        if argument is None:
            program += [instruction(equal, call, 0, 1)]
        else:
            program += [instruction(equal, call, 0, 3), instruction(load, 16 + 8 * at), instruction(equal, argument, 0, 1)]
        program += [instruction(result, action)]
    program += [instruction(result, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(program))
    header = struct.pack("=HxxxxxxQ", len(program), ctypes.addressof(code))
    must(libc.prctl(38, 1, 0, 0, 0), "no_new_privs")
    must(libc.prctl(22, 2, ctypes.c_char_p(header), 0, 0), "seccomp")


def main(work):
    if work["userns"]:
        enter_userns()
        set_sysctls(work["sysctls"])
        for place in work["cover"]:
            mount("none", place, "tmpfs")
    if work["chroot"]:
        enter_chroot(work["chroot"])
    if work["refuse"]:
        install_filter(work["refuse"])
    os.execv(work["argv"][0], work["argv"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
