# SPDX-License-Identifier: Apache-2.0
"""A kernel with an older Landlock: `python3 old_landlock.py ABI PROGRAM...`

The calls that make rulesets are held (seccomp notification) and answered as that kernel would: the version that is asked
for is the older one, and a ruleset that uses what came later is refused. Everything else is the real kernel's.
"""
import array
import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys

from machine import ARCHITECTURES, instruction, libc, must

CREATE_RULESET = 444
SECCOMP_CALL = {"aarch64": 277, "x86_64": 317}[os.uname().machine]
RECEIVE, SEND = 0xC0502100, 0xC0182101
CONTINUE = 1
# What each ABI can restrict: files, network, scopes.
KNOWN = {1: (0x1FFF, 0, 0), 2: (0x3FFF, 0, 0), 3: (0x7FFF, 0, 0), 4: (0x7FFF, 3, 0), 5: (0xFFFF, 3, 0), 6: (0xFFFF, 3, 3)}


def hold_calls():
    """The filter; returns the descriptor that held calls come from."""
    load, equal, result = 0x20, 0x15, 0x06
    program = [instruction(load, 4), instruction(equal, ARCHITECTURES[os.uname().machine], 1, 0), instruction(result, 0x7FFF0000),
               instruction(load, 0), instruction(equal, CREATE_RULESET, 0, 1), instruction(result, 0x7FC00000),
               instruction(result, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(program))
    header = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", len(program), ctypes.addressof(code)))
    must(libc.prctl(38, 1, 0, 0, 0), "no_new_privs")
    fd = libc.syscall(ctypes.c_long(SECCOMP_CALL), ctypes.c_long(1), ctypes.c_long(8), header)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    return fd


def answer(abi, pid, args):
    """(value, error, flags) for landlock_create_ruleset(attributes, size, flags)."""
    address, size, flags = args[:3]
    if flags == 1:
        return abi, 0, 0
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            wanted = struct.unpack("=3Q", memory.read(min(size, 24)).ljust(24, b"\0"))
    except PermissionError:
        return 0, 0, CONTINUE  # init lets nobody look into it; root can all the same, and checks in the other run
    if any(asked & ~known for asked, known in zip(wanted, KNOWN[abi])):
        return 0, -22, 0
    return 0, 0, CONTINUE


def serve(abi, listener):
    while True:
        call = array.array("B", bytes(80))
        try:
            fcntl.ioctl(listener, RECEIVE, call)
        except OSError:
            return  # nobody is left under the filter
        number, pid = struct.unpack_from("=QI", call)
        value, error, flags = answer(abi, pid, struct.unpack_from("=6Q", call, 32))
        try:
            fcntl.ioctl(listener, SEND, array.array("B", struct.pack("=QqiI", number, value, error, flags)))
        except OSError:
            pass  # the caller is gone


def main(abi, argv):
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        socket.send_fds(theirs, [b"x"], [hold_calls()])
        ours.close()
        theirs.close()
        os.execv(argv[0], argv)
    _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    if os.fork() == 0:  # serves; ends with the last process under the filter
        libc.prctl(1, signal.SIGKILL, 0, 0, 0)
        serve(abi, fds[0])
        os._exit(0)
    os.close(fds[0])
    status = os.waitpid(pid, 0)[1]
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
