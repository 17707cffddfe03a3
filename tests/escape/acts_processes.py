# SPDX-License-Identifier: Apache-2.0
"""Other processes: outside ones, and Bailey's own (init is the parent of the command)."""
import ctypes
import os
import pathlib
import resource
import subprocess

from world import act, in_child, syscall

HIDDEN = "ENOENT EACCES"


@act(inside=HIDDEN)
def look_at_descriptor_of_an_outside_process(w):
    os.readlink(f"/proc/{w.victim}/fd/0")


@act(inside=HIDDEN)
def read_memory_file_of_an_outside_process(w):
    fd = os.open(f"/proc/{w.victim}/mem", os.O_RDONLY)
    os.pread(fd, 8, w.victim_address)


@act(inside=HIDDEN)
def write_memory_file_of_an_outside_process(w):
    fd = os.open(f"/proc/{w.victim}/mem", os.O_RDWR)
    os.pwrite(fd, b"x", w.victim_address)


@act(inside=HIDDEN)
def enter_directory_of_an_outside_process(w):
    os.chdir(f"/proc/{w.victim}/cwd")


@act(inside=HIDDEN, degraded="done")
def read_arguments_of_an_outside_process(w):
    assert pathlib.Path(f"/proc/{w.victim}/cmdline").read_bytes()


@act(inside="EACCES EPERM")
def read_environment_of_parent(w):
    pathlib.Path(f"/proc/{os.getppid()}/environ").read_bytes()


@act(inside="EACCES EPERM")
def look_at_descriptor_of_parent(w):
    os.readlink(f"/proc/{os.getppid()}/fd/0")


@act(inside="EACCES EPERM")
def enter_root_of_parent(w):
    os.listdir(f"/proc/{os.getppid()}/root/")


@act(inside="EACCES EPERM EROFS")
def open_memory_of_parent(w):
    os.close(os.open(f"/proc/{os.getppid()}/mem", os.O_RDWR))


@act(inside="EACCES EPERM")
def read_memory_map_of_parent(w):
    pathlib.Path(f"/proc/{os.getppid()}/maps").read_bytes()


@act(inside="EPERM")
def trace_parent(w):
    parent = os.getppid()
    syscall("ptrace", 0x4206, parent, 0, 0)  # PTRACE_SEIZE: it is not stopped, and free again when we end


@act(inside="EPERM ESRCH")
def write_memory_of_an_outside_process(w):
    letter = ctypes.create_string_buffer(b"x")
    local = (ctypes.c_void_p * 2)(ctypes.addressof(letter), 1)
    remote = (ctypes.c_void_p * 2)(w.victim_address, 1)
    syscall("process_vm_writev", w.victim, local, 1, remote, 1, 0)


@act(inside="EPERM ESRCH")
def signal_parent(w):
    os.kill(os.getppid(), 0)


@act(inside="EPERM ESRCH")
def signal_group_of_parent(w):
    group = os.getpgid(os.getppid())
    os.killpg(group if group else 1 << 22, 0)  # 0: not of this world, and "our own" to the call


@act(inside="EPERM ESRCH EINVAL")
def take_descriptor_of_an_outside_process(w):
    pidfd = syscall("pidfd_open", w.victim, 0)
    os.close(syscall("pidfd_getfd", pidfd, 0, 0))


@act(inside="EPERM")
def take_descriptor_of_oneself(w):
    """The call itself is closed: a descriptor of a process that hands out its pidfd would be within reach."""
    os.close(syscall("pidfd_getfd", syscall("pidfd_open", os.getpid(), 0), 1, 0))


@act(inside="EPERM ESRCH")
def signal_an_outside_process_by_descriptor(w):
    pidfd = syscall("pidfd_open", w.victim, 0)
    syscall("pidfd_send_signal", pidfd, 0, 0, 0)


@act(inside="EPERM ESRCH", degraded="done EPERM")
def change_priority_of_an_outside_process(w):
    os.setpriority(os.PRIO_PROCESS, w.victim, os.getpriority(os.PRIO_PROCESS, w.victim))


@act(inside="EPERM ESRCH", degraded="done EPERM")
def change_limit_of_an_outside_process(w):
    resource.prlimit(w.victim, resource.RLIMIT_CORE, resource.prlimit(w.victim, resource.RLIMIT_CORE))


@act(inside="EPERM")
def compare_processes(w):
    syscall("kcmp", os.getpid(), os.getpid(), 1, 0, 0)


@act(inside="EPERM", outside="user")
def become_root_by_a_setuid_program(w):
    child = subprocess.Popen(["/usr/bin/su", "-c", "true"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        child.stdout.read(1)  # asks for a password, or complains: it runs
        status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
        uids = status.split("Uid:", 1)[1].split("\n")[0].split()
        if uids[1] != "0":
            raise OSError(1, "an ordinary process")
    finally:
        child.kill()
        child.wait()


@act(inside="EPERM EINVAL", outside="root")
def become_another_user(w):
    in_child(lambda: os.setresuid(65534, 65534, 65534))


@act(inside="EPERM", outside="root")
def leave_groups(w):
    in_child(lambda: os.setgroups([]))


@act(inside="EPERM EINVAL", outside="root")
def give_file_to_another_user(w):
    path = w.workspace + "/given"
    pathlib.Path(path).write_text("x")
    os.chown(path, 65534, 65534)


@act(inside="EPERM ENOENT EACCES", outside="root")
def enter_namespace_of_an_outside_process(w):
    in_child(lambda: enter(w, "net"))


@act(inside="EPERM ENOENT EACCES", outside="root")
def enter_mounts_of_an_outside_process(w):
    in_child(lambda: enter(w, "mnt"))


def enter(w, kind):
    fd = os.open(f"/proc/{w.victim}/ns/{kind}", os.O_RDONLY)
    syscall("setns", fd, 0)


@act(inside="EPERM ESRCH", outside="root")
def enter_all_namespaces_by_descriptor(w):
    in_child(lambda: syscall("setns", syscall("pidfd_open", w.victim, 0), 0x40020000))


@act(inside="EPERM EACCES", outside="root")
def real_time_priority(w):
    in_child(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
