# SPDX-License-Identifier: Apache-2.0
import fcntl
import os
import socket
import struct
import termios

from world import act, syscall

AF_PACKET, AF_VSOCK, NETLINK_KOBJECT_UEVENT = 17, 40, 15


@act(inside="EACCES ECONNREFUSED ENOENT")
def connect_to_host_unix_socket(w):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(w.unix_socket)


@act(inside="ECONNREFUSED EPERM EACCES")
def connect_to_host_abstract_socket(w):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("\0" + w.abstract_socket)


@act(inside="ECONNREFUSED")
def connect_to_host_loopback(w):
    socket.create_connection(("127.0.0.1", w.tcp_port), 5).close()


@act(inside="EPERM EHOSTUNREACH")
def send_datagram_out(w):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(tuple(w.datagrams))
        s.send(b"x")
        s.send(b"x")


@act(inside="EPERM")
def vsock(w):
    socket.socket(AF_VSOCK, socket.SOCK_STREAM).close()


@act(inside="EPERM")
def socket_family_with_high_bits(w):
    os.close(syscall("socket", AF_VSOCK | 1 << 33, 1, 0))


@act(inside="EPERM")
def kernel_event_socket(w):
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_KOBJECT_UEVENT).close()


@act(inside="EPERM", outside="root")
def packet_socket(w):
    socket.socket(AF_PACKET, socket.SOCK_RAW).close()


@act(inside="EPERM", outside="root")
def raw_socket(w):
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()


@act(inside="EACCES", outside="root")
def bind_low_port(w):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 81))


def _terminal():
    master, slave = os.openpty()
    pid = os.fork()
    return master, slave, pid


def _in_new_session(do):
    """With a terminal of its own: pushing input needs a controlling one."""
    master, slave, pid = _terminal()
    if pid == 0:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        try:
            do(slave)
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(master)
    os.close(slave)
    if code:
        raise OSError(code, os.strerror(code))


@act(inside="EPERM", outside="root")
def push_terminal_input(w):
    _in_new_session(lambda tty: fcntl.ioctl(tty, termios.TIOCSTI, b"x"))


@act(inside="EPERM", outside="root")
def push_terminal_input_with_high_bits(w):
    import ctypes
    letter = ctypes.create_string_buffer(b"x")
    _in_new_session(lambda tty: syscall("ioctl", tty, termios.TIOCSTI | 1 << 32, letter))


@act(inside="EPERM")
def change_line_discipline(w):
    _in_new_session(lambda tty: fcntl.ioctl(tty, termios.TIOCSETD, struct.pack("i", 0)))
