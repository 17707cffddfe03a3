# SPDX-License-Identifier: Apache-2.0
import os
import pathlib

from world import act, syscall

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


@act(inside=CLOSED)
def change_mode_in_home(w):
    os.chmod(w.home + "/notes", 0o666)


@act(inside=CLOSED)
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


@act(inside=CLOSED)
def plant_git_hook(w):
    pathlib.Path(w.workspace, ".git/hooks/pre-commit").write_text("#!/bin/sh\n")


@act(inside=CLOSED)
def edit_git_config(w):
    with open(w.workspace + "/.git/config", "a") as f:
        f.write("[core]\n\tfsmonitor = evil\n")


@act(inside="EBUSY " + CLOSED)
def replace_git_config(w):
    pathlib.Path(w.workspace, ".git/config.new").write_text("[core]\n")
    os.rename(w.workspace + "/.git/config.new", w.workspace + "/.git/config")


@act(inside="EBUSY")
def move_git_directory_away(w):
    os.rename(w.workspace + "/.git", w.workspace + "/.git-old")
    os.mkdir(w.workspace + "/.git")


@act(inside="EBUSY " + CLOSED)
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


@act(inside="ENOENT")
def see_host_tmp(w):
    os.stat(w.host_tmp)


@act(inside="EPERM", outside="root")
def open_by_handle(w):
    import ctypes
    handle = ctypes.create_string_buffer(128)
    ctypes.c_uint.from_buffer(handle).value = 120
    mount_id = ctypes.c_int()
    from world import LIBC, check
    check(LIBC.name_to_handle_at(-100, w.home.encode(), handle, ctypes.byref(mount_id), 0))
    root = os.open("/", os.O_RDONLY)
    os.close(syscall("open_by_handle_at", root, handle, os.O_RDONLY))

