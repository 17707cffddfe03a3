# SPDX-License-Identifier: Apache-2.0
"""`bailey gateway` when the world misbehaves: origins, name servers, crowds of clients, no descriptors, a killed gateway.

Each time: the client is told, what is open goes on, nothing is let through, and the gateway is as before when it is over.
"""
import os
import re
import resource
import select
import signal
import socket
import ssl
import struct
import time

import pytest

from kit.dns import SERVFAIL, Answer
from kit.gateway import Client
from kit.process import SLOW, wait_until

OK, EVIL = "api.ok.test", "evil.test"
NETWORK = {"allow": ["*.ok.test"], "allow_private": [f"{OK}:1-65535"]}


def policy(**more):
    return {**NETWORK, **more}


def get(service, port, path="/", host=OK):
    """(status, reason, body) of one request on a connection of its own."""
    with service.connect() as sock:
        sock.sendall(f"GET http://{host}:{port}{path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        answer = Client(sock).answer()
    return (answer[0], answer[1].get("x-bailey-reason"), answer[2]) if answer else (0, None, b"")


def works(service, port):
    """As good as new: a request goes through, a refusal is a refusal."""
    assert get(service, port)[0] == 200
    assert get(service, port, host=EVIL)[:2] == (403, "not-allowed")
    return True


def still_works(service, port, timeout=60):
    def attempt():
        try:
            return works(service, port)
        except (OSError, AssertionError):
            return False
    wait_until(attempt, timeout, "the gateway as before", every=0.1)


# origins


def reset(client):
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
ORIGINS = {  # what it does after the request, and the status that the client gets, or `cut`: a body that is not whole
    "resets at once": (lambda c: reset(c), 502),
    "closes at once": (lambda c: None, 502),
    "resets in the head": (lambda c: (c.sendall(HEAD[:20]), time.sleep(0.1), reset(c)), 502),
    "closes in the head": (lambda c: c.sendall(HEAD[:20]), 502),
    "resets in the body": (lambda c: (c.sendall(HEAD + b"half"), time.sleep(0.1), reset(c)), "cut"),
    "closes in the body": (lambda c: c.sendall(HEAD + b"half"), "cut"),
    "stalls before the head": (lambda c: c.recv(1), 504),  # until the gateway has had enough
    "stalls in the head": (lambda c: (c.sendall(HEAD[:20]), c.recv(1)), 504),
    "stalls in the body": (lambda c: (c.sendall(HEAD + b"half"), c.recv(1)), "cut"),
    "binary garbage": (lambda c: c.sendall(bytes(range(256)) * 40), 502),
    "another protocol": (lambda c: c.sendall(b"220 mail.ok.test ESMTP\r\n"), 502),
    "an endless head": (lambda c: c.sendall(b"HTTP/1.1 200 OK\r\n" + (b"X: " + b"y" * 9000 + b"\r\n") * 99), 502),
    "an endless status line": (lambda c: c.sendall(b"HTTP/1.1 200 " + b"O" * 900000), 502),
    "a TLS alert": (lambda c: c.sendall(b"\x15\x03\x01\x00\x02\x02\x46"), 502),
    "negative length": (lambda c: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), 502),
    "huge chunk": (lambda c: c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nx"), 502),
}


def test_origins_that_fail(make_service, make_origin):
    """All at once: none holds up another, and the gateway is none the worse."""
    service = make_service(policy(limits={"idle": "1s", "tunnel_idle": "1s", "connect": "1s"}), names=[OK, EVIL])

    def serve(client, connection):
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(65536)
        number = int(re.search(rb"/(\d*)", head)[1] or -1)
        if number < 0:
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        else:
            list(ORIGINS.values())[number][0](client)

    origin = make_origin(raw=serve)
    still_works(service, origin.port)
    socks, failed = [], []
    for number, name in enumerate(ORIGINS):
        sock = service.connect(timeout=60)
        sock.sendall(f"GET http://{OK}:{origin.port}/{number} HTTP/1.1\r\nHost: {OK}:{origin.port}\r\n\r\n".encode())
        socks.append(sock)
    assert works(service, origin.port)  # meanwhile
    for sock, (name, (_, wanted)) in zip(socks, ORIGINS.items()):
        client = Client(sock)
        answer = client.answer()
        if wanted == "cut":  # the client can tell that it is not whole
            good = answer is None or answer[0] == 200 and len(answer[2]) < 100 and client.is_closed(60)
        else:
            good = answer is not None and answer[0] == wanted and answer[1].get("x-bailey-reason") in ("upstream", "timeout")
        failed += [] if good else [f"{name}: {answer}"]
        sock.close()
    assert not failed, "\n".join(failed)
    assert works(service, origin.port)
    wait_until(lambda: len(service.records(kind="request", domain=OK)) >= len(ORIGINS), what="a record of each")


def test_a_slow_drip_passes(make_service, make_origin):
    """A byte now and then is an answer, not a stall: as long as something moves within the limit, it goes on."""
    def drip(client, connection):
        client.recv(65536)
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ndrip drip":
            client.sendall(bytes([byte]))
            time.sleep(0.05)

    service = make_service(policy(limits={"idle": "1s", "tunnel_idle": "1s"}), names=[OK, EVIL])
    assert get(service, make_origin(raw=drip).port) == (200, None, b"drip drip")


def test_a_client_that_drips_its_head_is_told_so(make_service, origin):
    service = make_service(policy(limits={"header": "1s"}), names=[OK, EVIL])
    started = time.monotonic()
    with service.connect() as sock:
        got = b""
        for byte in f"GET http://{OK}:{origin.port}/ HTTP/1.1\r\nHost: {OK}:{origin.port}\r\n\r\n".encode():
            if select.select([sock], [], [], 0.1)[0]:
                got = sock.recv(65536)
                break
            sock.sendall(bytes([byte]))
    assert got.startswith(b"HTTP/1.1 408")
    assert 0.8 < time.monotonic() - started < 3 * SLOW
    assert origin.connections == []


def test_a_listener_that_never_accepts_is_a_timeout(make_service, origin):
    service = make_service(policy(limits={"connect": "1s"}), names=[OK, EVIL])
    full = socket.create_server(("127.0.0.1", 0), backlog=0)
    port, crowd = full.getsockname()[1], []
    for _ in range(4):
        crowd.append(socket.socket())
        crowd[-1].setblocking(False)
        crowd[-1].connect_ex(("127.0.0.1", port))
    started = time.monotonic()
    assert get(service, port)[:2] == (504, "timeout")
    sock, code = service.socks_tunnel(OK, port)
    assert code == 6
    assert time.monotonic() - started < 6 * SLOW
    assert works(service, origin.port)
    for s in [sock, full, *crowd]:
        s.close()


# name servers


@pytest.mark.parametrize("kind", ["dead", "silent", "servfail", "wrong-id", "nxdomain", "empty"])
def test_name_servers_that_fail(kind, make_service, make_dns, origin, free_port):
    answers = {"silent": Answer(silent=True), "servfail": Answer(rcode=SERVFAIL), "wrong-id": Answer(("127.0.0.1",), wrong_id=True),
               "empty": Answer()}
    dns = make_dns({"gone.ok.test": answers[kind]} if kind in answers else {})
    port = free_port() if kind == "dead" else dns.port
    service = make_service(policy(dns_servers=[f"127.0.0.1:{port}"], allow_private=[f"{OK}:1-65535", "gone.ok.test:1-65535"],
                                  limits={"connect": "2s"}), names=[OK, EVIL])
    started = time.monotonic()
    status, reason, _ = get(service, origin.port, host="gone.ok.test")
    assert (status, reason) in ((502, "resolve"), (504, "resolve"), (504, "timeout"), (502, "upstream")), (status, reason)
    assert time.monotonic() - started < 12 * SLOW
    sock, code = service.socks_tunnel("gone.ok.test", origin.port)
    sock.close()
    assert code in (1, 4)
    assert works(service, origin.port)
    assert b"gone" not in origin.received()
    assert service.wait_record(domain="gone.ok.test")["reason"] in ("resolve", "timeout")


def test_a_slow_name_server_holds_nobody_up_and_recovers(make_service, make_dns, origin):
    dns = make_dns({"slow.ok.test": Answer(("127.0.0.1",), delay=1.0), "big.ok.test": Answer(("127.0.0.1",), truncate=True)})
    service = make_service(policy(dns_servers=[f"127.0.0.1:{dns.port}"],
                                  allow_private=[f"{name}.ok.test:1-65535" for name in ("api", "slow", "big")]), names=[OK, EVIL])
    waiting = [service.connect() for _ in range(20)]
    for sock in waiting:
        sock.sendall(f"GET http://slow.ok.test:{origin.port}/ HTTP/1.1\r\nHost: slow.ok.test:{origin.port}\r\n\r\n".encode())
    started = time.monotonic()
    assert works(service, origin.port)
    assert time.monotonic() - started < 0.8 * SLOW
    for sock in waiting:
        assert Client(sock).answer()[0] == 200
        sock.close()
    assert len(dns.asked("slow.ok.test")) <= 8  # asked for all at once, by each worker and family, not for each client
    assert get(service, origin.port, host="big.ok.test")[0] == 200
    assert "tcp" in {q.transport for q in dns.asked("big.ok.test")}


# crowds and descriptors


def limit_files(number):
    return ["prlimit", f"--nofile={number}:{number}"]


def test_out_of_descriptors_and_back(make_service, make_origin):
    def echo(client, connection):
        while data := client.recv(65536):
            client.sendall(data)

    origin, web = make_origin(raw=echo), make_origin()
    service = make_service(NETWORK, names=[OK, EVIL], before=limit_files(96), more=["--workers", "1"])
    kept, status = service.tunnel(OK, origin.port)
    assert status == 200
    crowd = [service.connect() for _ in range(200)]
    for sock in crowd:
        try:
            sock.sendall(b"G")
        except OSError:
            pass  # refused already
    kept.sendall(b"\0still here")
    assert kept.recv(100) == b"\0still here"
    wait_until(lambda: service.records(reason="limit"), 10 * SLOW, "a record of the limit")
    for sock in crowd:
        sock.close()
    still_works(service, web.port)
    kept.sendall(b"\0and after")
    assert kept.recv(100) == b"\0and after"
    kept.close()
    assert service.child.running()
    assert service.records(kind="note", detail="gateway started")[1:] == []


def soft_files(number):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(number, hard), hard))
    return min(number, hard)


@pytest.fixture
def many_files():
    """As many descriptors as this account may have; how large a crowd fits: three of ours for each of its members."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = soft_files(20000)
    yield min(5000, (room - 1000) // 3)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Sink:
    """Accepts connections and answers the first byte of each, in one thread, with little memory."""

    def __init__(self):
        self.sock = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.port, self.held = self.sock.getsockname()[1], []

    def take(self, number):
        self.sock.settimeout(60)
        while len(self.held) < number:
            self.held.append(self.sock.accept()[0])

    def close(self):
        for sock in [self.sock, *self.held]:
            sock.close()
        self.held = []


def memory_returns(service, before):
    if SLOW == 1:  # a sanitizer keeps what was freed, to see who uses it
        wait_until(lambda: service.memory() - before < 3072, 60, "memory as before", every=0.1)


def test_crowds_of_half_open_and_idle_connections(make_service, origin, many_files, closing):
    """10,000 connections in all where the limits allow: half of them unfinished requests, half tunnels at rest."""
    crowd = many_files if SLOW == 1 else min(many_files, 1000)
    service = make_service(policy(limits={"header": "60s", "connections": 100000, "connections_per_second": 1000000}),
                           names=[OK, EVIL], before=limit_files(resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    for _ in range(20):
        assert works(service, origin.port)
    before = service.memory()
    half_open = []
    for _ in range(crowd):
        half_open.append(service.connect())
        half_open[-1].sendall(b"GET http://")
    sink, tunnels = closing(Sink()), []
    for number in range(crowd):
        sock, status = service.tunnel(OK, sink.port)
        assert status == 200, number
        tunnels.append(sock)
        if number % 100 == 99:
            sink.take(number + 1)
    sink.take(crowd)
    assert works(service, origin.port)
    each = (service.memory() - before) / crowd
    print(f"{crowd} half-open and {crowd} tunnels: {each:.1f} KiB for one of each")
    assert each < 16 * SLOW  # KiB
    for there, here in ((tunnels[0], sink.held[0]), (tunnels[-1], sink.held[-1])):
        there.sendall(b"\0ping")
        assert here.recv(10) == b"\0ping"
    for sock in [*half_open, *tunnels]:
        sock.close()
    sink.close()
    still_works(service, origin.port)
    fds = f"/proc/{service.gateway_pid}/fd"
    if os.access(fds, os.R_OK):
        wait_until(lambda: len(os.listdir(fds)) < 100, 60, "closed descriptors", every=0.1)
    wait_until(lambda: len(service.records(kind="tunnel-close")) == crowd, 60, "the end of each tunnel", every=0.2)
    memory_returns(service, before)
    for _ in range(2):  # and again
        again = [service.connect() for _ in range(crowd // 2)]
        for sock in again:
            sock.sendall(b"GET http://")
        for sock in again:
            sock.close()
        still_works(service, origin.port)
        memory_returns(service, before)


# this host


def test_a_new_address_of_this_host_is_out_of_reach_at_once(make_service, make_namespace):
    """The policy allows it; as soon as it is the host's own, it is refused, and free again after."""
    ns, other = make_namespace(), None
    other = make_namespace(inside=ns)
    ns.link(other, "10.77.0.1/24", "10.77.0.2/24")
    ns.run(["ip", "route", "add", "9.88.0.0/16", "via", "10.77.0.2"]).check()
    moving = "9.88.0.9"  # public, as far as the policy knows
    other.run(["ip", "addr", "add", f"{moving}/32", "dev", "veth0"]).check()
    server = other.start(["/usr/bin/python3", "-m", "http.server", "8099", "--bind", "0.0.0.0"])
    wait_until(lambda: b"8099" in other.run(["ss", "-ltn"]).out, what="the server")
    service = make_service({"allow": [f"{moving}:8099"]}, before=ns.enter())

    def ask():
        words = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-x", service.http, f"http://{moving}:8099/"]
        return ns.run(words).text.strip()

    try:
        assert ask() == "200"
        service.write_policy("half edi")  # not read: only the addresses are
        ns.run(["ip", "addr", "add", f"{moving}/32", "dev", "lo"]).check()
        wait_until(lambda: ask() == "403", what="a refusal")
        assert service.wait_record(domain=moving, allowed=False)["reason"] == "self"
        assert service.records(kind="note", detail="the addresses of this host have changed")
        ns.run(["ip", "addr", "del", f"{moving}/32", "dev", "lo"]).check()
        wait_until(lambda: ask() == "200", what="the way that was free before")
    finally:
        server.kill()
        server.stop()


# the gateway itself


def tls_hello(name):
    context, out = ssl.create_default_context(), ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def test_killed_while_clients_are_active(make_service, make_origin):
    """Open transfers end with an error, never with a clean end; afterwards the rules are the same."""
    def flood(client, connection):
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(65536)
        if b"/flood" not in head:
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            return
        client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            client.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
            time.sleep(0.005)

    origin = make_origin(raw=flood)
    service = make_service(NETWORK, names=[OK, EVIL])
    clients = []
    for _ in range(8):
        sock = service.connect()
        sock.sendall(f"GET http://{OK}:{origin.port}/flood HTTP/1.1\r\nHost: {OK}:{origin.port}\r\n\r\n".encode())
        clients.append(sock)
    waiting = service.connect()
    waiting.sendall(b"GET http://")
    for sock in clients:
        assert sock.recv(1024).startswith(b"HTTP/1.1 200")
    os.kill(service.gateway_pid, signal.SIGKILL)
    for sock in [*clients, waiting]:
        got, end = b"", "error"
        try:
            while data := sock.recv(65536):
                got += data
            end = "end"
        except ConnectionError:
            pass
        assert not got.endswith(b"\r\n0\r\n\r\n"), end
        sock.close()
    still_works(service, origin.port, 60)
    assert EVIL.encode() not in origin.received()
    notes = " ".join(r["detail"] for r in service.records(kind="note"))
    assert "signal 9" in notes or "killed" in notes.lower(), notes
    service.ready["gateway_pid"] = 0


def test_a_reload_cuts_what_it_refuses_and_a_broken_file_changes_nothing(make_service, make_origin):
    def echo(client, connection):
        while data := client.recv(65536):
            client.sendall(data)

    origin, web = make_origin(raw=echo), make_origin()
    names = [OK, "www.ok.test", EVIL]
    both = policy(allow_private=[f"{OK}:1-65535", "www.ok.test:1-65535"])
    service = make_service(both, names=names)
    doomed = [service.tunnel("www.ok.test", origin.port)[0], service.socks_tunnel("www.ok.test", origin.port)[0]]
    kept = [service.tunnel(OK, origin.port)[0], service.socks_tunnel(OK, origin.port)[0]]

    def alive(sock):
        sock.sendall(b"\0ping")
        return sock.recv(100) == b"\0ping"

    assert all(map(alive, doomed + kept))
    for broken in ('{"network": {"allow": ["*', '{"network": {"allow": ["*"]}}', '{"network": {"alow": []}}', "\0", "- a list",
                   '{"network": {"allow": ["*.ok.test"]}, "network": {}}'):
        service.reload(broken, says="not reloaded")
        assert all(map(alive, doomed + kept)), broken
        assert get(service, web.port, host=EVIL)[0] == 403
    service.policy.unlink()
    service.child.signal(signal.SIGHUP)
    wait_until(lambda: service.child.errors().count("not reloaded") == 7, what="a word about the missing file")
    assert all(map(alive, doomed + kept))
    service.reload({**both, "deny": ["www.ok.test"]})
    for sock in doomed:
        sock.settimeout(60)
        try:
            assert sock.recv(100) == b""
        except ConnectionError:
            pass
        sock.close()
    assert all(map(alive, kept))
    assert service.tunnel("www.ok.test", origin.port)[1] == 403
    closed = wait_until(lambda: service.records(kind="tunnel-close", domain="www.ok.test"), what="the record")
    assert {r["reason"] for r in closed} == {"deny-rule"} and not any(r["allowed"] for r in closed)
    service.reload({"allow": []})  # an empty list: nothing at all
    assert get(service, web.port)[0] == 403
    for sock in kept:
        sock.settimeout(60)
        try:
            assert sock.recv(100) == b""
        except ConnectionError:
            pass
        sock.close()


def test_what_cannot_be_had_is_said(make_service, origin):
    """A gateway has no terminal to ask on, which is said once; what it is told once does not change by a reload."""
    network = policy(ask="tty", upstream_proxy="http://u:p@127.0.0.1:9", upstream_bypass=["*.ok.test"], limits={"connections": 500})
    service = make_service(network, names=[OK, EVIL])
    assert service.child.errors().count("nobody can be asked here") == 1 and "--ask control" in service.child.errors()
    assert works(service, origin.port)
    for same in (network, {**network, "limits": {"connections": 501}}):  # limits count at once
        service.reload(same)
        assert "started again" not in service.child.errors()
    for key, value in {"upstream_proxy": "http://u:q@127.0.0.1:9", "dns_servers": ["127.0.0.1:9"]}.items():
        service.reload({**network, key: value}, says="they count when the gateway is started again")
        service.reload(network)
    assert works(service, origin.port)


def test_many_reloads_under_load_lose_nothing(make_service, origin):
    service = make_service(NETWORK, names=[OK, EVIL])
    before = service.memory()
    with service.connect() as sock:
        client = Client(sock)
        for turn in range(30):
            service.write_policy(policy(deny=[f"d{n}.test" for n in range(turn)]))
            service.child.signal(signal.SIGHUP)
            for _ in range(5):
                sock.sendall(f"GET http://{OK}:{origin.port}/ HTTP/1.1\r\nHost: {OK}:{origin.port}\r\n\r\n".encode())
                assert client.answer()[0] == 200
            assert get(service, origin.port, host=EVIL)[0] == 403
    assert service.memory() - before < 4096 * SLOW


EVIL_REQUEST = b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"


def test_fronting_in_every_tunnel(make_service, make_origin):
    """The name in the greeting or the request is not the one that was judged: nothing of it leaves, also in pieces."""
    seen = []
    origin = make_origin(raw=lambda client, connection: seen.append(client.recv(65536)))
    service = make_service(NETWORK, names=[OK, EVIL])
    firsts = [[tls_hello(EVIL)], [tls_hello("x." + OK)], [tls_hello("ok.test")], [EVIL_REQUEST],
              [b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"], [b"POST / HTTP/1.1\r\nHost : api.ok.test\r\n\r\n"],
              [b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n"],
              # What a lenient server skips or takes for something else
              [b" ", EVIL_REQUEST], [b"\t" + EVIL_REQUEST], [b"\r", b"\n", EVIL_REQUEST], [b"\n" + EVIL_REQUEST],
              [b"GET\t", b"/\tHTTP/1.1\r\nHost: evil.test\r\n\r\n"], [b"G", b"ET", b"\x0b/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"],
              [b"\x15\x03\x01\x00\x02\x01\x5a" + tls_hello(EVIL)], [b"\x15", b"\x03\x01\x00\x02\x01\x5a" + tls_hello(EVIL)],
              [b"\x16\x03\x01\x00\x00" + tls_hello(EVIL)], [tls_hello(EVIL)[:1], tls_hello(EVIL)[1:]]]
    for pieces in firsts:
        for tunnel in (service.tunnel, service.socks_tunnel):
            sock, code = tunnel(OK, origin.port)
            assert code in (0, 200)
            try:
                for piece in pieces:
                    sock.sendall(piece)
                    time.sleep(0.03 if len(pieces) > 1 else 0)
                while sock.recv(65536):
                    pass
            except ConnectionError:
                pass
            sock.close()
    wait_until(lambda: len(service.records(kind="tunnel-close")) == 2 * len(firsts), what="the end of each tunnel")
    assert [r for r in service.records(kind="tunnel-close") if r["allowed"]] == []
    assert {r["reason"] for r in service.records(kind="tunnel-close")} <= {"fronting", "protocol"}
    assert b"".join(seen) == b""


@pytest.mark.parametrize("name, between, passes", [
    (OK, b"", True), (EVIL, b"", False), (EVIL, b"\x14\x03\x03\x00\x01\x01", False), (OK, b"\x14\x03\x03\x00\x01\x01", True),
], ids=["same", "other", "other-behind-a-cipher-change", "same-behind-a-cipher-change"])
def test_the_second_greeting_of_tls_must_agree_too(name, between, passes, make_service, make_origin):
    """A server may ask for another ClientHello, and goes by the name in that one."""
    first, second = tls_hello(OK), tls_hello(name)
    retry = b"\x16\x03\x03\x00\x04\x02\x00\x00\x00"  # stands for a HelloRetryRequest

    def serve(client, connection):
        while len(connection.received) < len(first):
            connection.received += client.recv(65536)
        client.sendall(retry)
        while data := client.recv(65536):
            connection.received += data
            if len(connection.received) >= len(first + between + second):
                client.sendall(b"done")

    origin = make_origin(raw=serve)
    service = make_service(NETWORK, names=[OK, EVIL])
    sock, _ = service.tunnel(OK, origin.port)
    sock.sendall(first)
    assert sock.recv(100) == retry
    sock.sendall(between + second[:7])
    time.sleep(0.05)
    try:
        sock.sendall(second[7:])
        got = sock.recv(100)
    except ConnectionError:
        got = b""
    sock.close()
    assert got == (b"done" if passes else b"")
    assert (second[5:] in origin.received().replace(first, b"", 1)) == passes
    assert name == OK or EVIL.encode() not in origin.received()
    assert service.wait_record(kind="tunnel-close")["allowed"] is passes
