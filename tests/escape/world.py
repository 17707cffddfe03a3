# SPDX-License-Identifier: Apache-2.0
"""What acts know about the host, and the table of acts."""
import ctypes
import json
import os
import types

ACTS = {}
LIBC = ctypes.CDLL(None, use_errno=True)


def act(inside, outside="all"):
    """inside: errno names of which one must come; outside: who can do it there (all, root, user)."""
    def add(function):
        function.inside, function.outside = set(inside.split()), outside
        ACTS[function.__name__] = function
        return function
    return add


def world():
    """The facts that the test gave: paths, ports, process numbers."""
    return types.SimpleNamespace(**json.loads(os.environ["BAILEY_ACT_WORLD"]))


def check(result):
    if result == -1 or (isinstance(result, int) and result < 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


NUMBERS = {"aarch64": 0, "x86_64": 1}
SYSCALLS = {  # name: (aarch64, x86_64); from 424 on every architecture has the same
    "mount": (40, 165), "umount2": (39, 166), "unshare": (97, 272), "setns": (268, 308), "clone": (220, 56), "bpf": (280, 321),
    "keyctl": (219, 250), "userfaultfd": (282, 323), "perf_event_open": (241, 298), "ptrace": (117, 101), "ioctl": (29, 16),
    "socket": (198, 41), "mknodat": (33, 259), "open_by_handle_at": (265, 304), "process_vm_readv": (270, 310),
    "clone3": (435, 435), "io_uring_setup": (425, 425), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "fsopen": (430, 430),
    "open_tree": (428, 428), "init_module": (105, 175), "reboot": (142, 169), "swapon": (224, 167), "acct": (89, 163),
    "pivot_root": (41, 155), "chroot": (51, 161), "fanotify_init": (262, 300), "add_key": (217, 248),
}


def syscall(name, *words):
    number = SYSCALLS[name][NUMBERS[os.uname().machine]]
    return check(LIBC.syscall(ctypes.c_long(number), *[ctypes.c_long(w) if isinstance(w, int) else w for w in words]))
