# SPDX-License-Identifier: Apache-2.0
import errno
import fcntl
import os
import socket
import struct
import termios
import time

from world import act, syscall

AF_PACKET, AF_VSOCK, NETLINK_KOBJECT_UEVENT = 17, 40, 15


@act(inside="EACCES ECONNREFUSED ENOENT EPERM", degraded="EACCES")
def connect_to_host_unix_socket(w):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(w.unix_socket)


@act(inside="ECONNREFUSED EPERM EACCES")
def connect_to_host_abstract_socket(w):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("\0" + w.abstract_socket)


@act(inside="EACCES ECONNREFUSED ENOENT", degraded="EACCES")
def connect_to_agent_socket_in_home(w):
    """As ssh-agent and gpg-agent have them: below a directory that may be read."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(w.home + "/agent/S.agent")


@act(inside="EACCES ECONNREFUSED ENOENT", degraded="EACCES")
def connect_to_host_unix_socket_through_a_link(w):
    os.symlink(w.unix_socket, w.workspace + "/link-to-socket")
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(w.workspace + "/link-to-socket")


@act(inside="EACCES ECONNREFUSED ENOENT", degraded="EACCES")
def connect_to_host_unix_socket_from_its_directory(w):
    os.chdir(w.home)
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(os.path.basename(w.unix_socket))


@act(inside="EACCES ECONNREFUSED ENOENT", degraded="EACCES")
def connect_to_host_message_socket(w):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(w.unix_messages)


@act(inside="EPERM EACCES ECONNREFUSED ENOENT", degraded="EPERM")
def send_to_host_datagram_socket(w):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.sendto(b"x", w.unix_datagrams)


@act(inside="ECONNREFUSED EPERM EACCES")
def send_to_host_abstract_datagram_socket(w):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.sendto(b"x", "\0" + w.abstract_datagrams)


def bounded(s):
    """Blocking, as the calls need it, but not for ever."""
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        s.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", 10, 0))
    return s


def expect_greeting(s):
    """A connection that a gateway takes and drops is none: the server's first word must come through."""
    if s.recv(5) != b"hello":
        raise ConnectionResetError(errno.ECONNRESET, "no greeting")


def greeting(family, address, port):
    with bounded(socket.socket(family)) as s:
        s.connect((address, port))
        expect_greeting(s)


@act(inside="ECONNREFUSED", degraded="EACCES")
def connect_to_host_loopback(w):
    greeting(socket.AF_INET, "127.0.0.1", w.tcp_port)


@act(inside="ECONNREFUSED", degraded="EACCES")
def connect_to_host_loopback_elsewhere(w):
    greeting(socket.AF_INET, "127.9.8.7", w.tcp_port)


@act(inside="ECONNREFUSED ECONNRESET", degraded="EACCES")
def connect_to_host_as_unspecified(w):
    greeting(socket.AF_INET, "0.0.0.0", w.tcp_port)


@act(inside="ECONNREFUSED", degraded="EACCES")
def connect_to_host_loopback_v6(w):
    greeting(socket.AF_INET6, "::1", w.tcp_port)


@act(inside="ECONNREFUSED ECONNRESET", degraded="EACCES")
def connect_to_host_as_unspecified_v6(w):
    greeting(socket.AF_INET6, "::", w.tcp_port)


@act(inside="ECONNREFUSED ECONNRESET", degraded="EACCES")
def connect_to_host_loopback_mapped(w):
    greeting(socket.AF_INET6, "::ffff:127.0.0.1", w.tcp_port)


@act(inside="ECONNREFUSED ECONNRESET", degraded="EACCES")
def connect_to_address_of_the_host(w):
    greeting(socket.AF_INET, w.address, w.tcp_port)


@act(inside="ECONNREFUSED ECONNRESET", degraded="EACCES EPERM")
def connect_by_another_protocol(w):
    """Multipath TCP is TCP on the wire and something else to whoever only looks for TCP."""
    with bounded(socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)) as s:
        s.connect((w.address, w.tcp_port))
        expect_greeting(s)


@act(inside="ECONNREFUSED ECONNRESET", degraded="EACCES EPERM")
def connect_while_sending(w):
    """Fast open: the first send connects, without a call to connect."""
    with bounded(socket.socket(socket.AF_INET)) as s:
        s.sendto(b"x", 0x20000000, (w.address, w.tcp_port))
        expect_greeting(s)


@act(inside="ECONNREFUSED ECONNRESET", degraded="EACCES EPERM")
def connect_while_sending_a_message(w):
    with bounded(socket.socket(socket.AF_INET)) as s:
        s.sendmsg([b"x"], [], 0x20000000, (w.address, w.tcp_port))
        expect_greeting(s)


@act(inside="EPERM EHOSTUNREACH")
def send_datagram_out(w):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(tuple(w.datagrams))
        s.send(b"x")
        s.send(b"x")


@act(inside="ECONNREFUSED", degraded="EPERM")
def send_datagram_to_host_loopback(w):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("127.0.0.1", w.datagrams[1]))
        s.send(b"x")
        time.sleep(0.05)
        s.send(b"x")


@act(inside="EPERM EHOSTUNREACH")
def send_lite_datagram_out(w):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136) as s:
        for _ in range(3):
            s.sendto(b"x", tuple(w.datagrams))
            time.sleep(0.02)
            error = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error and w.datagrams[0] != "127.0.0.2" and error != errno.ECONNREFUSED:
                raise OSError(error, os.strerror(error))


@act(inside="EPERM")
def vsock(w):
    socket.socket(AF_VSOCK, socket.SOCK_STREAM).close()


@act(inside="EPERM")
def socket_family_with_high_bits(w):
    os.close(syscall("socket", AF_VSOCK | 1 << 33, 1, 0))


@act(inside="EPERM", outside="root")
def express_data_path_socket(w):
    socket.socket(44, socket.SOCK_RAW).close()


def netlink(protocol):
    return lambda w: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol).close()


for _name, _protocol in {"kernel_event": NETLINK_KOBJECT_UEVENT, "socket_diagnosis": 4, "packet_filter": 12, "audit": 9, "generic_netlink": 16,
                         "ipsec": 6, "process_connector": 11, "netlink_with_high_bits": 1 << 31 | 4}.items():
    _function = netlink(_protocol) if _protocol < 1 << 31 else lambda w: os.close(syscall("socket", 16, 3, 1 << 32 | 4))
    _function.__name__ = _name + "_socket"
    act(inside="EPERM")(_function)


@act(inside="EPERM", outside="root")
def packet_socket(w):
    socket.socket(AF_PACKET, socket.SOCK_RAW).close()


@act(inside="EPERM", outside="root")
def raw_socket(w):
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()


@act(inside="EPERM", outside="root")
def raw_socket_v6(w):
    socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6).close()


@act(inside="EACCES", outside="root", degraded="EACCES EPERM")
def bind_low_port(w):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 81))


@act(inside="EPERM", outside="root")
def be_transparent(w):
    """Then it could answer in the place of any address."""
    with socket.socket() as s:
        s.setsockopt(socket.IPPROTO_IP, 19, 1)


@act(inside="EPERM", outside="root")
def mark_packets(w):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, 36, 1)


@act(inside="EPERM", outside="root")
def add_network_address(w):
    """RTM_NEWLINK up on loopback: harmless outside, a privilege everywhere."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.send(struct.pack("=IHHII", 32, 16, 5, 1, 0) + struct.pack("=BxHiII", 0, 0, 1, 1, 1))
        code = struct.unpack_from("=i", s.recv(4096), 16)[0]
        if code:
            raise OSError(-code, os.strerror(-code))


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


@act(inside="EPERM", outside="root", degraded="EACCES EPERM")
def push_terminal_input(w):
    _in_new_session(lambda tty: fcntl.ioctl(tty, termios.TIOCSTI, b"x"))


@act(inside="EPERM", outside="root", degraded="EACCES EPERM")
def push_terminal_input_with_high_bits(w):
    import ctypes
    letter = ctypes.create_string_buffer(b"x")
    _in_new_session(lambda tty: syscall("ioctl", tty, termios.TIOCSTI | 1 << 32, letter))


@act(inside="EPERM", degraded="EACCES EPERM")
def change_line_discipline(w):
    _in_new_session(lambda tty: fcntl.ioctl(tty, termios.TIOCSETD, struct.pack("i", 0)))


@act(inside="EACCES ECONNREFUSED ENOENT", degraded="EACCES")
def order_another_sandbox_through_its_control_socket(w):
    """Connecting may work without namespaces; being listened to may not."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10)
        s.connect(w.control_socket)
        try:
            s.sendall(b'{"id":1,"do":"hello","version":1}\n')
        except BrokenPipeError:
            pass  # turned away before it could ask
        if b'"ok":true' not in s.recv(1000):
            raise PermissionError(errno.EPERM, "turned away")
