# SPDX-License-Identifier: Apache-2.0
"""Workers of the gateway: one takes everything while it has time left, another one starts when it has not, and nothing is lost when it does."""
import concurrent.futures
import contextlib
import os
import resource
import subprocess
import time
from pathlib import Path

import pytest

from conftest import BUILD
from kit.gateway import Client, Gateway
from kit.process import SLOW, wait_until

CROWD = 1024  # BALANCE_CROWD in src/gateway/load/balance.h
NAMES = ("one.ok.test", "two.ok.test")


@pytest.fixture(autouse=True)
def many_files():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def echo(sock, _):
    while data := sock.recv(65536):
        sock.sendall(data)


def threads(gateway):
    """In the order in which they were started: the main thread, then the workers that run."""
    return sorted(int(name) for name in os.listdir(f"/proc/{gateway.pid}/task"))


def woken(gateway, thread):
    for line in Path(f"/proc/{gateway.pid}/task/{thread}/status").read_text().splitlines():
        if line.startswith("voluntary_ctxt_switches"):
            return int(line.split()[1])
    raise AssertionError("no count of context switches")


def used_ns(gateway, thread):
    return int(Path(f"/proc/{gateway.pid}/task/{thread}/schedstat").read_text().split()[0])


def start(closing, tmp_path, *words):
    return closing(Gateway(BUILD, ["http", "socks", "dns", "private=127.0.0.0/8:1-65535", "connections=4000", "header=120s", *words],
                           hosts=[(name, "127.0.0.1") for name in NAMES], tmp_path=tmp_path))


def tunnel(gateway, name, port):
    sock = gateway.connect()
    sock.sendall(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
    client = Client(sock)
    status = client.answer(head=True)[0]
    return sock, status


def goes_both_ways(sock, word):
    sock.sendall(word)
    got = b""
    while len(got) < len(word) and (data := sock.recv(100)):
        got += data
    return got == word


def test_a_few_connections_are_one_thread_s_work(tmp_path, closing, make_origin):
    origin = make_origin(raw=echo)
    gateway = start(closing, tmp_path, "workers=4", "allow=*.ok.test")
    with contextlib.ExitStack() as stack:
        for number in range(64):
            sock, status = tunnel(gateway, NAMES[0], origin.port)
            stack.enter_context(sock)
            assert status == 200 and goes_both_ways(sock, b"%d" % number)
        assert len(threads(gateway)) == 2


def test_a_crowd_starts_another_worker_and_loses_nothing(tmp_path, closing, make_origin):
    origin = make_origin(raw=echo)
    gateway = start(closing, tmp_path, "workers=2", f"allow={NAMES[0]}")
    with contextlib.ExitStack() as stack:
        def keep(name, word):
            sock, status = tunnel(gateway, name, origin.port)
            stack.enter_context(sock)
            assert status == 200 and goes_both_ways(sock, word)
            return sock

        # Before it has a thread: a policy that it must judge by later.
        gateway.say("policy private=127.0.0.0/8:1-65535 allow=" + " allow=".join(NAMES))
        gateway.wait(lambda g: g.notes.count("swapped") == 1)
        first = keep(NAMES[0], b"first")
        assert len(threads(gateway)) == 2
        idle = [stack.enter_context(gateway.connect()) for _ in range(CROWD + 1)]

        def started():
            stack.enter_context(gateway.connect())
            return len(threads(gateway)) == 3
        wait_until(started, 30 * SLOW, "the second worker")
        second = threads(gateway)[2]
        before = woken(gateway, second)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            tunnels = list(pool.map(lambda n: keep(NAMES[1], b"word %d" % n), range(80)))
        assert woken(gateway, second) - before >= 40, "the second worker has served none of them"  # one wake-up may be for several
        assert goes_both_ways(first, b"still") and all(goes_both_ways(sock, b"again") for sock in tunnels)
        # What both have open is judged again, wherever it is.
        gateway.say("policy private=127.0.0.0/8:1-65535 allow=" + NAMES[0])
        gateway.wait(lambda g: g.notes.count("swapped") == 2)
        for sock in tunnels:
            with contextlib.suppress(ConnectionResetError):
                assert sock.recv(1) == b""
        assert goes_both_ways(first, b"to the end")
        assert tunnel(gateway, NAMES[1], origin.port)[1] == 403
        for sock in idle:
            sock.close()
    gateway.close()
    opened = [e for e in gateway.events if e["kind"] == "tunnel-open" and e["allowed"]]
    closed = [e["connection"] for e in gateway.events if e["kind"] == "tunnel-close"]
    assert len(opened) == 81 and sorted(closed) == sorted(e["connection"] for e in opened)


@pytest.mark.exact_build
@pytest.mark.anybody
def test_a_worker_without_time_left_gets_help(tmp_path, closing, make_origin):
    """Questions for names are the first worker's; they are cheap to ask and take all of its time. A connection that comes then goes to another one.
    Where the machine never gives it a whole processor there is nothing to help with, and one thread stays."""
    origin = make_origin(raw=echo)
    gateway = start(closing, tmp_path, "workers=2", "allow=*.ok.test")
    argv = [BUILD / "bench/lab-load", "dns", "--proxy", f"127.0.0.1:{gateway.port['dns-udp']}", "--connections", "64", "--ms", "6000", "--zone", "ok.test", "--rcode", "0"]
    loads = [subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(6)]  # so that there is always a question waiting
    in_a_row, longest, asked = 0, 0, 0
    try:
        first = threads(gateway)[1]
        with contextlib.suppress(PermissionError):  # root's tests need no quiet machine: it runs whenever there is something to do
            os.sched_setscheduler(first, os.SCHED_FIFO, os.sched_param(1))
        with contextlib.ExitStack() as stack:
            while loads[0].poll() is None and len(threads(gateway)) == 2:
                began, used = time.monotonic_ns(), used_ns(gateway, first)
                sock, status = tunnel(gateway, NAMES[0], origin.port)
                stack.enter_context(sock)
                assert status == 200 and goes_both_ways(sock, b"through the flood")
                asked += 1
                time.sleep(0.03)
                in_a_row = in_a_row + 1 if used_ns(gateway, first) - used > 0.97 * (time.monotonic_ns() - began) else 0
                longest = max(longest, in_a_row)
            assert asked > 0
            print(f"{asked} connections, the first worker full {longest} times in a row, {len(threads(gateway)) - 1} workers")
            assert len(threads(gateway)) == 3 or longest < 8, f"it had a whole processor {longest} times in a row and got no help"
            if len(threads(gateway)) == 3:
                for _ in range(8):  # the least of all connections is the second one's now
                    sock, status = tunnel(gateway, NAMES[0], origin.port)
                    stack.enter_context(sock)
                    assert status == 200 and goes_both_ways(sock, b"beside the flood")
    finally:
        for load in loads:
            load.kill()
            load.wait()
