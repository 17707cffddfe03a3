# SPDX-License-Identifier: Apache-2.0
"""Undoing the mounts, with and without new namespaces."""
import ctypes
import os
import pathlib
import signal

from world import LIBC, act, check, in_child, in_own_mounts, syscall

NEW_USER, NEW_MOUNT, NEW_PID, NEW_NET = 0x10000000, 0x00020000, 0x20000000, 0x40000000
MS_RDONLY, MS_REMOUNT, MS_BIND = 1, 32, 4096


def place(w, name="mnt"):
    path = pathlib.Path(w.workspace, name)
    path.mkdir(exist_ok=True)
    return str(path).encode()


@act(inside="EPERM")
def new_user_and_mount_namespace(w):
    in_child(lambda: syscall("unshare", NEW_USER | NEW_MOUNT))


@act(inside="EPERM")
def new_user_and_network_namespace(w):
    in_child(lambda: syscall("unshare", NEW_USER | NEW_NET))


@act(inside="EPERM")
def clone_into_all_namespaces(w):
    pid = syscall("clone", NEW_USER | NEW_MOUNT | NEW_PID | NEW_NET | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


@act(inside="EPERM")
def clone_with_high_bits(w):
    """The kernel looks at the lower half only."""
    pid = syscall("clone", 1 << 40 | NEW_USER | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


@act(inside="ENOSYS")
def clone3_into_new_user_namespace(w):
    args = (ctypes.c_uint64 * 11)()
    args[0], args[4] = NEW_USER, signal.SIGCHLD
    pid = syscall("clone3", args, ctypes.sizeof(args))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def separate(kind):
    return lambda w: in_child(lambda: syscall("unshare", kind))


for _name, _kind in {"mount": NEW_MOUNT, "network": NEW_NET, "process": NEW_PID, "ipc": 0x08000000, "host_name": 0x04000000,
                     "control_group": 0x02000000, "time": 0x00000080}.items():
    _function = separate(_kind)
    _function.__name__ = f"new_{_name}_namespace"
    act(inside="EPERM", outside="root")(_function)


@act(inside="EPERM", outside="root")
def make_home_writable(w):
    in_own_mounts(lambda: check(LIBC.mount(b"none", b"/", None, MS_REMOUNT | MS_BIND, None)))


@act(inside="EPERM", outside="root")
def make_tree_writable(w):
    attributes = (ctypes.c_uint64 * 4)(0, MS_RDONLY, 0, 0)
    root = ctypes.create_string_buffer(b"/")
    in_own_mounts(lambda: syscall("mount_setattr", -100, root, 0, attributes, ctypes.sizeof(attributes)))


@act(inside="EPERM", outside="root")
def uncover_proc(w):
    in_own_mounts(lambda: check(LIBC.umount2(b"/proc", 2)))


@act(inside="EPERM", outside="root")
def uncover_by_moving_away(w):
    point = place(w)
    in_own_mounts(lambda: check(LIBC.mount(b"/proc", point, None, 8192, None)))


@act(inside="EPERM", outside="root")
def bind_home_elsewhere(w):
    point = place(w)
    in_own_mounts(lambda: check(LIBC.mount(w.home.encode(), point, None, MS_BIND, None)))


@act(inside="EPERM", outside="root")
def another_proc(w):
    point = place(w)
    in_own_mounts(lambda: check(LIBC.mount(b"proc", point, b"proc", 0, None)))


@act(inside="EPERM", outside="root")
def overlay_over_workspace(w):
    point = place(w)
    data = f"lowerdir={w.home}/vault:{w.home}/slashed".encode()
    in_own_mounts(lambda: check(LIBC.mount(b"overlay", point, b"overlay", 0, data)))


@act(inside="EPERM", outside="root")
def clone_a_tree(w):
    home = ctypes.create_string_buffer(w.home.encode())
    in_child(lambda: syscall("open_tree", -100, home, 1))


@act(inside="EPERM")
def hold_a_tree(w):
    """Without cloning, which anybody may outside: the call as such is closed."""
    home = ctypes.create_string_buffer(w.home.encode())
    os.close(syscall("open_tree", -100, home, 0))


@act(inside="EPERM", outside="root")
def attach_a_tree(w):
    home, point = ctypes.create_string_buffer(w.home.encode()), ctypes.create_string_buffer(place(w))
    empty = ctypes.create_string_buffer(b"")

    def attach():
        tree = LIBC.syscall(428, -100, home, 1)
        syscall("move_mount", tree, empty, -100, point, 4)
    in_own_mounts(attach)


@act(inside="EPERM", outside="root")
def reconfigure_file_system(w):
    path = ctypes.create_string_buffer(b"/")
    in_child(lambda: syscall("fspick", -100, path, 0))


@act(inside="EPERM", outside="root")
def pivot_root(w):
    point = ctypes.create_string_buffer(place(w))

    def pivot():
        LIBC.mount(point, point, None, MS_BIND, None)
        syscall("pivot_root", point, point)
    in_own_mounts(pivot)


@act(inside="EPERM", outside="root")
def watch_the_file_system(w):
    os.close(syscall("fanotify_init", 0, os.O_RDONLY))
