# SPDX-License-Identifier: Apache-2.0
"""What acts know about the host, the table of acts, and what they share."""
import ctypes
import json
import os
import signal
import types

ACTS = {}
LIBC = ctypes.CDLL(None, use_errno=True)


def act(inside, outside="all", degraded=None, absent="", copied=False):
    """inside: names of errors (or of the signal that ends it), one of which must come; outside: who can do it there (all, root,
    user); degraded: what comes where there are no namespaces, when that differs. "done" there is a documented loss
    (README.md). absent: what comes, in either place, on a machine that cannot do it at all. copied: it changes `.git/config`, of which
    the sandbox may have a copy: then it is done inside, and the test sees to it that the host's file is what it was."""
    def add(function):
        function.inside, function.outside = set(inside.split()) | ({"done"} if copied else set()), outside
        function.degraded, function.absent = set((degraded or inside).split()), set(absent.split())
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


def in_child(do):
    """What changes the process for good (its namespaces, root, ids) is done by a child."""
    pid = os.fork()
    if pid == 0:
        try:
            do()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        raise OSError(code, signal.Signals(-code).name)
    if code:
        raise OSError(code, os.strerror(code))


def in_own_mounts(do):
    """Where mounts can be separated from the host's they are; inside that already fails, and the act is tried anyway."""
    def separated():
        if LIBC.unshare(0x00020000) == 0:
            check(LIBC.mount(b"none", b"/", None, 1 << 18 | 1 << 14, None))  # private, recursively
        do()
    in_child(separated)


NUMBERS = {"aarch64": 0, "x86_64": 1}
SYSCALLS = {  # name: (aarch64, x86_64); from 424 on every architecture has the same
    "mount": (40, 165), "umount2": (39, 166), "unshare": (97, 272), "setns": (268, 308), "clone": (220, 56), "bpf": (280, 321),
    "keyctl": (219, 250), "userfaultfd": (282, 323), "perf_event_open": (241, 298), "ptrace": (117, 101), "ioctl": (29, 16),
    "socket": (198, 41), "mknodat": (33, 259), "open_by_handle_at": (265, 304), "process_vm_readv": (270, 310),
    "process_vm_writev": (271, 311), "add_key": (217, 248), "request_key": (218, 249), "kcmp": (272, 312),
    "pivot_root": (41, 155), "chroot": (51, 161), "fanotify_init": (262, 300), "acct": (89, 163), "syslog": (116, 103),
    "settimeofday": (170, 164), "sethostname": (161, 170), "sendto": (206, 44), "quotactl": (60, 179),
    "clone3": (435, 435), "io_uring_setup": (425, 425), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "fsopen": (430, 430),
    "pidfd_send_signal": (424, 424), "open_tree": (428, 428), "move_mount": (429, 429), "fspick": (433, 433),
    "mount_setattr": (442, 442), "openat2": (437, 437), "fchmodat2": (452, 452),
}


def syscall(name, *words):
    number = SYSCALLS[name][NUMBERS[os.uname().machine]]
    return check(LIBC.syscall(ctypes.c_long(number), *[ctypes.c_long(w) if isinstance(w, int) else w for w in words]))
