# SPDX-License-Identifier: Apache-2.0
import ctypes
import errno
import fcntl
import os
import pathlib
import socket
import stat
import struct

from world import LIBC, act, check, syscall

CLOSED = "EROFS EACCES"


@act(inside="EACCES")
def read_ssh_key(w):
    pathlib.Path(w.home, ".ssh/id_test").read_bytes()


@act(inside="EACCES")
def list_ssh_directory(w):
    os.listdir(w.home + "/.ssh")


@act(inside="EACCES")
def read_netrc(w):
    pathlib.Path(w.home, ".netrc").read_bytes()


@act(inside="EACCES")
def read_key_through_a_planted_link(w):
    os.symlink(w.home + "/.ssh/id_test", w.workspace + "/link-to-key")
    pathlib.Path(w.workspace, "link-to-key").read_bytes()


@act(inside="EACCES ENOENT")
def read_key_through_own_root(w):
    pathlib.Path("/proc/self/root" + w.home + "/.ssh/id_test").read_bytes()


@act(inside=CLOSED)
def create_in_home(w):
    pathlib.Path(w.home, "planted").write_text("x")


@act(inside=CLOSED)
def overwrite_in_home(w):
    with open(w.home + "/notes", "r+") as f:
        f.write("x")


@act(inside=CLOSED)
def truncate_in_home(w):
    os.truncate(w.home + "/notes", 0)


@act(inside=CLOSED, degraded="EPERM")
def change_mode_in_home(w):
    os.chmod(w.home + "/notes", 0o666)


@act(inside=CLOSED, degraded="EPERM")
def change_times_in_home(w):
    os.utime(w.home + "/notes", (1, 1))


@act(inside=CLOSED)
def remove_from_home(w):
    os.unlink(w.home + "/doomed")


@act(inside=CLOSED + " EXDEV")
def link_out_of_home(w):
    os.link(w.home + "/notes", w.workspace + "/hard")


@act(inside=CLOSED + " EXDEV")
def move_into_home(w):
    pathlib.Path(w.workspace, "moved").write_text("x")
    os.rename(w.workspace + "/moved", w.home + "/moved")


@act(inside=CLOSED)
def write_through_a_planted_link(w):
    os.symlink(w.home + "/notes", w.workspace + "/link-to-notes")
    with open(w.workspace + "/link-to-notes", "w") as f:
        f.write("x")


@act(inside=CLOSED, degraded="done")
def plant_git_hook(w):
    pathlib.Path(w.workspace, ".git/hooks/pre-commit").write_text("#!/bin/sh\n")


@act(inside=CLOSED, degraded="done", copied=True)
def edit_git_config(w):
    with open(w.workspace + "/.git/config", "a") as f:
        f.write("[core]\n\tfsmonitor = evil\n")


@act(inside="EBUSY " + CLOSED, degraded="done")
def replace_git_config(w):
    pathlib.Path(w.workspace, ".git/config.new").write_text("[core]\n")
    os.rename(w.workspace + "/.git/config.new", w.workspace + "/.git/config")


@act(inside="EACCES EBUSY", degraded="done")  # by the broker; by mounts, below somebody else who watches calls
def move_git_directory_away(w):
    os.rename(w.workspace + "/.git", w.workspace + "/.git-old")
    os.mkdir(w.workspace + "/.git")


@act(inside="EBUSY " + CLOSED, degraded="done")
def move_hooks_away(w):
    os.rename(w.workspace + "/.git/hooks", w.workspace + "/.git/old-hooks")


@act(inside="EROFS EACCES", outside="root")
def write_kernel_switch(w):
    path = pathlib.Path("/proc/sys/kernel/printk_delay")
    path.write_text(path.read_text())


@act(inside="EPERM EACCES EROFS", outside="root")
def make_device_node(w):
    os.mknod(w.workspace + "/disk", 0o600 | 0o020000, os.makedev(1, 1))


@act(inside="ENOENT EACCES")
def read_environment_of_an_outside_process(w):
    pathlib.Path(f"/proc/{w.victim}/environ").read_bytes()


@act(inside="ENOENT EACCES")
def enter_root_of_an_outside_process(w):
    os.listdir(f"/proc/{w.victim}/root/")


@act(inside="EBADF")
def read_inherited_descriptor(w):
    os.lseek(w.inherited, 0, 0)
    os.read(w.inherited, 1)


@act(inside="ENOENT", degraded="done")
def see_host_tmp(w):
    os.stat(w.host_tmp)


@act(inside="EPERM", outside="root", degraded="EPERM EACCES")
def open_by_handle(w):
    handle = ctypes.create_string_buffer(128)
    ctypes.c_uint.from_buffer(handle).value = 120
    mount_id = ctypes.c_int()
    check(LIBC.name_to_handle_at(-100, w.home.encode(), handle, ctypes.byref(mount_id), 0))
    root = os.open(w.workspace, os.O_RDONLY)  # of the same file system
    os.close(syscall("open_by_handle_at", root, handle, os.O_RDONLY))



@act(inside="EACCES")
def read_key_in_upper_directory_by_dots(w):
    pathlib.Path(w.workspace, "../.ssh/../.ssh/./id_test").read_bytes()


@act(inside="EACCES", degraded="done")
def stat_key(w):
    os.stat(w.home + "/.ssh/id_test")


@act(inside=CLOSED + " EXDEV")
def link_key_into_workspace(w):
    os.link(w.home + "/.ssh/id_test", w.workspace + "/hard")


@act(inside=CLOSED + " EXDEV EPERM", degraded="done")
def link_protected_file(w):
    """A hard link to the git configuration would be a writable name for it."""
    os.link(w.workspace + "/.git/config", w.workspace + "/hard")
    with open(w.workspace + "/hard", "a") as f:
        f.write("x")


@act(inside=CLOSED + " EXDEV EBUSY", degraded="done")
def exchange_protected_file(w):
    """renameat2 with RENAME_EXCHANGE."""
    pathlib.Path(w.workspace, "mine").write_text("x")
    check(LIBC.renameat2(-100, (w.workspace + "/mine").encode(), -100, (w.workspace + "/.git/config").encode(), 2))


@act(inside=CLOSED, degraded="done", copied=True)
def open_protected_file_through_descriptor(w):
    """Open for reading is granted; the same object again, for writing, by the descriptor's own name."""
    fd = os.open(w.workspace + "/.git/config", os.O_RDONLY)
    os.close(os.open(f"/proc/self/fd/{fd}", os.O_WRONLY))


@act(inside=CLOSED)
def open_home_file_through_path_descriptor(w):
    fd = os.open(w.home + "/notes", os.O_PATH)
    os.close(os.open(f"/proc/self/fd/{fd}", os.O_WRONLY))


@act(inside=CLOSED)
def write_home_through_own_working_directory(w):
    os.chdir(w.home)
    pathlib.Path("/proc/self/cwd/planted").write_text("x")


@act(inside=CLOSED)
def make_directory_in_home(w):
    os.mkdir(w.home + "/.vscode")


@act(inside=CLOSED)
def make_link_in_home(w):
    os.symlink("/etc/passwd", w.home + "/.zshrc")


@act(inside=CLOSED)
def make_socket_in_home(w):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(w.home + "/planted.sock")


@act(inside=CLOSED)
def make_pipe_in_home(w):
    os.mkfifo(w.home + "/planted.fifo")


@act(inside=CLOSED)
def rename_within_home(w):
    os.rename(w.home + "/doomed", w.home + "/.bashrc")


@act(inside=CLOSED + " EXDEV")
def move_key_into_workspace(w):
    os.rename(w.home + "/.netrc", w.workspace + "/moved")


@act(inside=CLOSED, degraded="EPERM")
def set_attribute_in_home(w):
    os.setxattr(w.home + "/notes", "user.bailey", b"x")


@act(inside="EBUSY " + CLOSED)
def remove_workspace(w):
    os.rename(w.workspace, w.home + "/elsewhere")


@act(inside=CLOSED, degraded="done", copied=True)
def change_mode_of_protected_file(w):
    os.chmod(w.workspace + "/.git/config", 0o777)


@act(inside=CLOSED, degraded="done", copied=True)
def truncate_protected_file(w):
    os.truncate(w.workspace + "/.git/config", 0)


@act(inside="EBUSY " + CLOSED, degraded="done")
def remove_protected_file(w):
    os.unlink(w.workspace + "/.git/config")


@act(inside="EBUSY " + CLOSED, degraded="done")
def replace_agent_settings(w):
    os.rename(w.workspace + "/.claude", w.workspace + "/.claude-old")


@act(inside=CLOSED, degraded="done")
def edit_agent_settings(w):
    pathlib.Path(w.workspace, ".claude/settings.json").write_text("{}")


@act(inside=CLOSED, degraded="done")
def edit_own_policy(w):
    with open(w.workspace + "/.bailey.yaml", "a") as f:
        f.write("mode: full-network\n")


@act(inside="EACCES")
def read_denied_inside_allowed_inside_denied(w):
    pathlib.Path(w.home, "vault/open/closed/secret").read_bytes()


@act(inside="EACCES ENOENT")
def read_denied_beside_allowed(w):
    pathlib.Path(w.home, "vault/secret").read_bytes()


@act(inside=CLOSED)
def write_where_only_reading_is_allowed(w):
    pathlib.Path(w.home, "vault/open/planted").write_text("x")


@act(inside="EACCES")
def read_what_was_denied_with_a_slash(w):
    pathlib.Path(w.home, "slashed/secret").read_bytes()


@act(inside="EACCES EROFS EPERM", outside="root")
def change_core_pattern(w):
    path = pathlib.Path("/proc/sys/kernel/core_pattern")
    path.write_text(path.read_text())


@act(inside="EACCES EROFS EPERM ENOENT", outside="root")
def change_kernel_memory_settings(w):
    path = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    path.write_text(path.read_text().split("[")[1].split("]")[0])


@act(inside="EACCES EROFS EPERM ENOENT", outside="root")
def open_kernel_messages(w):
    os.close(os.open("/dev/kmsg", os.O_WRONLY))


@act(inside="ENOENT EACCES", outside="root")
def open_block_device(w):
    for name in os.listdir("/dev"):
        if stat.S_ISBLK(os.stat("/dev/" + name).st_mode):
            os.close(os.open("/dev/" + name, os.O_RDONLY))
            return
    raise FileNotFoundError(2, "no block device")


@act(inside="EPERM EACCES EROFS", outside="root")
def make_block_device_node(w):
    os.mknod(w.workspace + "/disk", 0o600 | 0o060000, os.makedev(7, 0))


@act(inside="EPERM EACCES EROFS", outside="root")
def make_file_immutable(w):
    path = pathlib.Path(w.workspace, "fixed")
    path.write_text("x")
    with open(path) as f:
        fcntl.ioctl(f, 0x40086602, struct.pack("l", 0x10))
        fcntl.ioctl(f, 0x40086602, struct.pack("l", 0))


@act(inside="EROFS EACCES")
def open_home_file_by_the_newer_call(w):
    """Any file of the home directory by openat2, which a filter that knows only openat would miss."""
    how = (ctypes.c_uint64 * 3)(os.O_WRONLY, 0, 0)
    os.close(syscall("openat2", -100, ctypes.create_string_buffer((w.home + "/notes").encode()), how, 24))


@act(inside="EACCES EROFS EPERM", outside="root")
def change_network_switch(w):
    path = pathlib.Path("/proc/sys/net/ipv4/ip_forward")
    path.write_text(path.read_text())


SET_USER_ID = 0o4755


def own_program(w):
    path = pathlib.Path(w.workspace, "program")
    path.write_text("#!/bin/sh\n")
    return path


@act(inside="EPERM")
def leave_program_that_runs_as_us(w):
    """For every other user of the machine, and after the sandbox has ended."""
    os.chmod(own_program(w), SET_USER_ID)


@act(inside="EPERM")
def leave_program_that_runs_as_us_by_descriptor(w):
    with open(own_program(w)) as f:
        os.fchmod(f.fileno(), SET_USER_ID)


@act(inside="EPERM")
def leave_program_that_runs_as_us_by_the_newer_call(w):
    path = ctypes.create_string_buffer(bytes(own_program(w)))
    try:
        syscall("fchmodat2", -100, path, SET_USER_ID | 1 << 40, 0)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        os.chmod(own_program(w), SET_USER_ID)  # before Linux 6.6


@act(inside="EPERM")
def leave_program_that_runs_as_us_by_making_it_so(w):
    """With the bit from its beginning, filled afterwards: the kernel takes the bit away, unless it is set again."""
    fd = os.open(w.workspace + "/program-made", os.O_CREAT | os.O_WRONLY, SET_USER_ID)
    os.write(fd, b"#!/bin/sh\n")
    os.fchmod(fd, SET_USER_ID)
