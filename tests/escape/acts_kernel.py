# SPDX-License-Identifier: Apache-2.0
import ctypes
import errno
import os
import signal
import threading

from world import LIBC, act, check, in_child, syscall

CLONE_NEWUSER = 0x10000000


@act(inside="EPERM")
def new_user_namespace(w):
    in_child(lambda: syscall("unshare", CLONE_NEWUSER))


@act(inside="EPERM")
def clone_into_new_user_namespace(w):
    pid = syscall("clone", CLONE_NEWUSER | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


@act(inside="ENOSYS")
def clone3(w):
    args = (ctypes.c_uint64 * 11)()
    args[4] = signal.SIGCHLD
    pid = syscall("clone3", args, ctypes.sizeof(args))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


@act(inside="EPERM")
def io_uring(w):
    params = ctypes.create_string_buffer(120)
    os.close(syscall("io_uring_setup", 1, params))


@act(inside="EPERM")
def key_ring(w):
    syscall("keyctl", 0, -3, 1)  # KEYCTL_GET_KEYRING_ID of the session, created if absent


@act(inside="EPERM", outside="root")
def load_bpf(w):
    attr = (ctypes.c_uint32 * 18)(1, 4, 4, 1)  # a hash map
    os.close(syscall("bpf", 0, attr, ctypes.sizeof(attr)))


@act(inside="EPERM", outside="root")
def userfaultfd(w):
    os.close(syscall("userfaultfd", os.O_CLOEXEC))


@act(inside="EPERM", outside="root")
def performance_counter(w):
    attr = (ctypes.c_uint32 * 32)(1, 128)  # software event
    os.close(syscall("perf_event_open", attr, 0, -1, -1, 0))


@act(inside="EPERM", outside="root")
def mount_tmpfs(w):
    os.makedirs(w.workspace + "/mnt", exist_ok=True)
    check(LIBC.mount(b"none", (w.workspace + "/mnt").encode(), b"tmpfs", 0, None))
    check(LIBC.umount2((w.workspace + "/mnt").encode(), 2))


@act(inside="EPERM", outside="root")
def open_file_system_context(w):
    name = ctypes.create_string_buffer(b"tmpfs")
    os.close(syscall("fsopen", name, 0))


@act(inside="EPERM", outside="root")
def change_root(w):
    in_child(lambda: os.chroot(w.workspace))


@act(inside="EPERM", outside="root")
def enter_namespace(w):
    in_child(lambda: check(LIBC.setns(os.open("/proc/self/ns/net", os.O_RDONLY), 0)))


@act(inside="EPERM")
def add_key(w):
    kind, name = ctypes.create_string_buffer(b"user"), ctypes.create_string_buffer(b"bailey-test")
    syscall("add_key", kind, name, name, 4, -2)


@act(inside="EPERM", outside="root")
def read_kernel_log(w):
    syscall("syslog", 10, 0, 0)


@act(inside="EPERM", outside="root")
def process_accounting(w):
    syscall("acct", 0)


@act(inside="EPERM", outside="root")
def set_the_clock(w):
    syscall("settimeofday", 0, 0)  # to nothing: only the permission is asked for


@act(inside="EPERM", outside="root")
def rename_the_host(w):
    name = ctypes.create_string_buffer(b"bailey-test")

    def rename():
        LIBC.unshare(0x04000000)
        syscall("sethostname", name, 11)
    in_child(rename)


@act(inside="ESRCH EPERM")
def signal_an_outside_process(w):
    os.kill(w.victim, 0)


@act(inside="ESRCH EPERM", degraded="done")
def pidfd_of_an_outside_process(w):
    os.close(syscall("pidfd_open", w.victim, 0))


@act(inside="ESRCH EPERM")
def trace_an_outside_process(w):
    syscall("ptrace", 0x4206, w.victim, 0, 0)  # PTRACE_SEIZE
    LIBC.ptrace(17, w.victim, 0, 0)


@act(inside="ESRCH EPERM")
def read_memory_of_an_outside_process(w):
    buffer = ctypes.create_string_buffer(8)
    local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    remote = (ctypes.c_void_p * 2)(w.victim_address, 8)
    syscall("process_vm_readv", w.victim, local, 1, remote, 1, 0)


@act(inside="EAGAIN", degraded="EAGAIN" if os.geteuid() else "done")
def fill_the_process_table(w):
    """With threads, which count the same and are cheap."""
    threading.stack_size(256 << 10)
    stop = threading.Event()
    try:
        for _ in range(1400):
            threading.Thread(target=stop.wait, daemon=True).start()
    except RuntimeError as error:
        raise BlockingIOError(errno.EAGAIN, str(error)) from None
    finally:
        stop.set()


@act(inside="EMFILE")
def open_too_many_files(w):
    held = []
    try:
        for _ in range(1100):
            held.append(os.open("/dev/null", os.O_RDONLY))
    finally:
        for fd in held:
            os.close(fd)


@act(inside="ENOMEM")
def take_too_much_memory(w):
    import mmap
    mmap.mmap(-1, 3 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
