# SPDX-License-Identifier: Apache-2.0
"""What an HTTP session does over time: streams, limits, pooled connections, policies that change under it."""
import contextlib
import hashlib
import os
import re
import select
import socket
import threading
import time

import pytest

from conftest import BUILD
from kit.dns import Answer
from kit.gateway import Client, Gateway
from kit.origin import REPLY
from kit.process import SLOW, is_over, wait_until

NAME = "plain.ok.test"
POLICY = [f"allow={NAME}", f"private={NAME}:1-65535"]


@pytest.fixture
def gateway(tmp_path, closing):
    def start(*words, policy=POLICY):
        return closing(Gateway(BUILD, ["http", *policy, *words], hosts=[(NAME, "127.0.0.1")], tmp_path=tmp_path))
    return start


def get(port, path="/", more="", method="GET", host=NAME):
    return f"{method} http://{host}:{port}{path} HTTP/1.1\r\nHost: {host}:{port}\r\n{more}\r\n".encode()


def settle(g, policy=POLICY):
    """Until all that was said has been heard: the answer to the same policy comes behind it."""
    before = g.notes.count("swapped")
    g.say(f"policy {' '.join(policy)}")
    g.wait(lambda _: g.notes.count("swapped") > before)


def test_keep_alive_on_both_sides(gateway, origin):
    g = gateway("workers=1")
    with g.connect() as sock:
        client = Client(sock)
        for i in range(50):
            sock.sendall(get(origin.port, f"/{i}?secret={i}"))
            assert client.answer()[0] == 200
    with g.connect() as sock:
        sock.sendall(get(origin.port, "/other"))
        assert Client(sock).answer()[0] == 200
    assert len(origin.connections) == 1 and len(origin.requests()) == 51
    event = g.wait_event(path="/7")
    assert event["kind"] == "request" and event["method"] == "GET" and event["status"] == 200 and event["allowed"]
    assert event["domain"] == NAME and event["port"] == origin.port and event["bytes_in"] == 7
    assert not any("secret" in str(e) for e in g.events)


def test_pipelined_requests_are_answered_in_order(gateway, make_origin):
    origin = make_origin(answer=lambda request: b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + request.split()[1][1:5])
    g = gateway()
    with g.connect() as sock:
        sock.sendall(b"".join(get(origin.port, f"/{i:04}") for i in range(100)))
        client = Client(sock)
        for i in range(100):
            assert client.answer()[2] == f"{i:04}".encode()


def test_slow_header_is_answered_with_408(gateway, origin):
    g = gateway("header=300ms")
    with g.connect() as sock:
        client, started = Client(sock), time.monotonic()
        request, i = get(origin.port, more=f"X: {'a' * 5000}\r\n"), 0
        while not select.select([sock], [], [], 0.05)[0]:  # one byte now and then buys no time
            with contextlib.suppress(OSError):
                sock.sendall(request[i:i + 1])
            i += 1
            assert not is_over(started, 5 * SLOW)
        assert client.answer()[0] == 408
        assert client.is_closed(60)
    assert origin.received() == b""


def test_idle_connections_are_closed(gateway, origin):
    g = gateway("idle=300ms")
    with g.connect() as sock:
        sock.sendall(get(origin.port))
        client = Client(sock)
        assert client.answer()[0] == 200
        assert client.is_closed(60)


def test_upstream_that_stalls_is_answered_with_504(gateway, make_origin):
    stop = threading.Event()
    origin = make_origin(raw=lambda client, connection: stop.wait(60))
    g = gateway("tunnel=300ms")
    with g.connect() as sock:
        sock.sendall(get(origin.port))
        status, headers, _ = Client(sock).answer()
        assert status == 504 and headers["x-bailey-reason"] == "timeout"
    stop.set()


def test_body_that_stalls_is_answered_with_408(gateway, origin):
    g = gateway("tunnel=300ms")
    with g.connect() as sock:
        sock.sendall(get(origin.port, method="POST", more="Content-Length: 10\r\n") + b"half")
        client = Client(sock)
        assert client.answer()[0] == 408
        assert client.is_closed(60)


def test_upstream_that_refuses_or_resets_is_502(gateway, make_origin, free_port):
    g = gateway()
    with g.connect() as sock:
        sock.sendall(get(free_port()))
        status, headers, _ = Client(sock).answer()
        assert status == 502 and headers["x-bailey-reason"] == "upstream"

    def reset(client, _):
        client.recv(100)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    origin = make_origin(raw=reset)
    with g.connect() as sock:
        sock.sendall(get(origin.port))
        assert Client(sock).answer()[0] == 502


def test_name_that_does_not_resolve(gateway, make_dns):
    dns = make_dns()
    g = gateway(f"server={dns.port}", policy=["allow=nowhere.ok.test"])
    with g.connect() as sock:
        sock.sendall(get(80, host="nowhere.ok.test"))
        status, headers, _ = Client(sock).answer()
        assert status == 502 and headers["x-bailey-reason"] == "resolve"


def test_refused_names_are_never_looked_up(gateway, make_dns):
    dns = make_dns()
    g = gateway(f"server={dns.port}")
    with g.connect() as sock:
        client = Client(sock)
        for host in ("evil.test", "secret-data.evil.test", "a" * 60 + ".evil.test"):
            sock.sendall(get(80, host=host) + f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode())
            assert client.answer()[0] == 403 and client.answer()[0] == 403
    assert not dns.asked()


def test_answers_that_come_all_at_once_keep_their_connections(gateway, make_origin):
    """Every client's next request finds the connection that the last one was answered on, however many clients there are."""
    clients, rounds = 700, 3
    arrived, all_there = threading.Semaphore(0), [threading.Event() for _ in range(rounds)]

    def serve(client, connection):
        while data := client.recv(65536):
            connection.requests.append(data)
            arrived.release()
            assert all_there[int(data.split()[1][1:])].wait(60)
            client.sendall(REPLY)

    origin = make_origin(raw=serve)
    g = gateway("workers=1")
    socks = []
    try:
        socks += [g.connect() for _ in range(clients)]
        for number in range(rounds):
            for sock in socks:
                sock.sendall(get(origin.port, f"/{number}"))
            for _ in socks:
                assert arrived.acquire(timeout=60)
            all_there[number].set()
            assert all(Client(sock).answer()[0] == 200 for sock in socks)
        assert len(origin.connections) == clients
    finally:
        for sock in socks:
            sock.close()


def test_a_stale_pooled_connection_is_replaced(gateway, make_origin):
    """The origin closes after each answer without saying so; a GET is sent again, a POST is not."""
    def once(client, connection):
        connection.received += client.recv(65536)
        connection.requests.append(connection.received)
        client.sendall(REPLY)
        client.recv(65536)  # the next request: closed without an answer
    origin = make_origin(raw=once)
    g = gateway("workers=1")
    with g.connect() as sock:
        client = Client(sock)
        for _ in range(3):
            sock.sendall(get(origin.port))
            assert client.answer()[0] == 200
        sock.sendall(get(origin.port, method="POST", more="Content-Length: 2\r\n") + b"ok")
        assert client.answer()[0] == 502


def test_a_post_takes_no_connection_that_may_be_gone(gateway, make_origin):
    """What cannot be sent twice goes on a pooled connection only while that is fresh and alive at that very moment."""
    closes, closed = threading.Event(), threading.Semaphore(0)
    closes.set()

    def serve(client, connection):
        while data := client.recv(65536):
            while data.startswith(b"POST") and not data.endswith(b"ok"):
                data += client.recv(65536)
            connection.requests.append(data)
            client.sendall(REPLY)
            if closes.is_set():
                client.shutdown(socket.SHUT_RDWR)
                closed.release()
                return

    origin = make_origin(raw=serve)
    g = gateway("workers=1")
    post = get(origin.port, method="POST", more="Content-Length: 2\r\n") + b"ok"
    with g.connect() as sock:
        client = Client(sock)
        for number in range(30):  # the origin closes as soon as it has answered
            sock.sendall(get(origin.port) if number % 2 else post)
            assert client.answer()[0] == 200, number
            assert closed.acquire(timeout=60)
        closes.clear()
        sock.sendall(post)
        assert client.answer()[0] == 200
        before = len(origin.connections)
        for _ in range(5):  # kept open and just used: taken
            sock.sendall(post)
            assert client.answer()[0] == 200
        assert len(origin.connections) == before
        time.sleep(2.5)  # not just used: a new one, although the old one still stands
        sock.sendall(post)
        assert client.answer()[0] == 200
        assert len(origin.connections) == before + 1


def test_an_answer_before_the_whole_body_was_sent_ends_the_connection(gateway, make_origin):
    """Also when the gateway has all of it and only the origin has not: the next request would be read as its rest."""
    sent = threading.Semaphore(0)

    def early(client, connection):
        """Answers a PUT before it reads the body, then reads it, then the next request, as servers do."""
        data = b""
        while data := data or client.recv(4096):
            head, _, data = data.partition(b"\r\n\r\n")
            length = int((re.search(rb"Content-Length: (\d+)", head) or [0, 0])[1])
            if length:
                sent.acquire(timeout=60)
            client.sendall(REPLY)
            time.sleep(0.01 if length else 0)
            left = length - len(data)
            while left > 0 and (part := client.recv(min(left, 65536))):
                left -= len(part)
            data = b""

    origin = make_origin(raw=early)
    origin.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    g = gateway("workers=1")
    for size in range(2 << 20, 5 << 20, 48 << 10):  # somewhere here the last bytes are those that do not fit
        with g.connect() as sock:
            sock.settimeout(0.2)
            try:
                sock.sendall(get(origin.port, method="PUT", more=f"Content-Length: {size}\r\n") + b"x" * size)
            except TimeoutError:
                break  # from here on the client is held back too
            finally:
                sent.release()
            sock.settimeout(60)
            assert Client(sock).answer()[0] == 200
        with g.connect() as sock:
            sock.sendall(get(origin.port, "/next"))
            assert Client(sock).answer()[0] == 200, size


@pytest.mark.parametrize("framing", ["length", "close", "chunked"])
@pytest.mark.parametrize("slow", ["client", "origin", "nobody"])
def test_large_bodies_arrive_whole(gateway, make_origin, framing, slow):
    """Both ways, copied or spliced, whoever is slow: every byte, counted, and the connection is as good as before."""
    size = 6 << 20
    body = os.urandom(1 << 16) * (size >> 16)
    seen = []

    def serve(client, connection):
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                if not (more := client.recv(65536)):
                    return
                data += more
            head, _, data = data.partition(b"\r\n\r\n")
            connection.requests.append(head)
            if head.startswith(b"PUT"):
                left, digest = size - len(data), hashlib.sha256(data)
                while left > 0:
                    part = client.recv(min(left, 65536))
                    if slow == "origin":
                        time.sleep(0.001)
                    digest.update(part)
                    left -= len(part)
                seen.append(digest.digest())
                client.sendall(REPLY)
                data = b""
            elif framing == "length":
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + body)
            elif framing == "chunked":
                client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % size + body + b"\r\n0\r\n\r\n")
            else:
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + body)
                return

    origin = make_origin(raw=serve)
    g = gateway("workers=1")
    with g.connect() as sock:
        client = Client(sock)
        for turn in range(2):
            sock.sendall(get(origin.port, method="PUT", more=f"Content-Length: {size}\r\n") + body + get(origin.port, "/behind"))
            assert client.answer()[0] == 200
            if slow == "client":
                time.sleep(0.5)
            status, _, got = client.answer()
            assert status == 200 and hashlib.sha256(got).digest() == hashlib.sha256(body).digest()
            assert seen.pop() == hashlib.sha256(body).digest()
            if framing == "close":
                break
    g.wait(lambda g: len([e for e in g.events if e["kind"] == "request"]) >= (2 if framing == "close" else 4))
    assert all(size <= e["bytes_in"] < size + 64 for e in g.events if e["path"] == "/behind")
    assert all(e["bytes_out"] > size for e in g.events if e["method"] == "PUT")
    assert len(origin.connections) == 1


def test_a_spliced_body_that_is_cut_is_not_taken_for_a_whole_one(gateway, make_origin):
    def cut(client, _):
        client.recv(65536)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 4000000)

    g = gateway("workers=1")
    origin = make_origin(raw=cut)
    with g.connect() as sock:
        sock.sendall(get(origin.port))
        client = Client(sock)
        assert len(client.answer()[2]) < 9000000 and client.ended
    assert g.wait_event(kind="request")["reason"] == "upstream"


def test_the_limit_of_bytes_out_holds_for_spliced_bodies(gateway, make_origin):
    received = []

    def count(client, _):
        while data := client.recv(65536):
            received.append(len(data))

    origin = make_origin(raw=count)
    g = gateway("workers=1", "bytes-out=1000000")
    with g.connect() as sock:
        try:
            sock.sendall(get(origin.port, method="PUT", more="Content-Length: 50000000\r\n"))
            sock.sendall(b"x" * 50000000)
        except OSError:
            pass
    assert g.wait_event(kind="request")["reason"] == "limit"
    assert sum(received) <= 1000000


def test_events_come_through_at_once(gateway, make_origin):
    """Server-sent events: each is passed on when it arrives, however small."""
    go = threading.Semaphore(0)

    def stream(client, _):
        client.recv(65536)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(20):
            go.acquire(timeout=60)
            client.sendall(b"9\r\ndata: %02d\n\r\n" % i)
        client.sendall(b"0\r\n\r\n")
    origin = make_origin(raw=stream)
    g = gateway()
    with g.connect() as sock:
        sock.sendall(get(origin.port))
        received, worst = b"", 0.0
        while b"\r\n\r\n" not in received:
            received += sock.recv(4096)
        for i in range(20):
            started = time.monotonic()
            go.release()
            while b"data: %02d" % i not in received:
                received += sock.recv(4096)
            worst = max(worst, time.monotonic() - started)
        assert worst < 0.5, worst


def test_websocket(gateway, make_origin):
    def echo(client, connection):
        while b"\r\n\r\n" not in connection.received:
            connection.received += client.recv(4096)
        client.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       b"Sec-WebSocket-Accept: x\r\n\r\nserver first ")
        while data := client.recv(65536):
            client.sendall(data)
    origin = make_origin(raw=echo)
    g = gateway()
    with g.connect() as sock:
        sock.sendall(get(origin.port, "/chat", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: y\r\n"))
        client = Client(sock)
        status, headers, _ = client.answer()
        assert status == 101 and headers["upgrade"] == "websocket" and headers["sec-websocket-accept"] == "x"
        assert client._until(13) == b"server first "
        for size in (1, 100, 70000):
            data = os.urandom(size)
            sock.sendall(data)
            assert client._until(size) == data
        sock.shutdown(socket.SHUT_WR)
        assert client.is_closed(60)
    event = g.wait_event(path="/chat")
    assert event["status"] == 101 and event["bytes_in"] == 70114 and event["bytes_out"] > 70101
    assert b"Upgrade: websocket" in origin.received()


def test_expect_continue(gateway, make_origin):
    def serve(client, connection):
        while b"\r\n\r\n" not in connection.received:
            connection.received += client.recv(4096)
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not connection.received.endswith(b"hello"):
            connection.received += client.recv(4096)
        client.sendall(REPLY)
    origin = make_origin(raw=serve)
    g = gateway()
    with g.connect() as sock:
        client = Client(sock)
        sock.sendall(get(origin.port, method="POST", more="Content-Length: 5\r\nExpect: 100-continue\r\n"))
        assert client.answer()[0] == 100
        sock.sendall(b"hello")
        assert client.answer()[0] == 200


def digest_of(sock, left):
    digest = hashlib.sha256()
    while left > 0:
        data = sock.recv(min(left, 1 << 20))
        assert data
        digest.update(data)
        left -= len(data)
    return digest.hexdigest()


@pytest.mark.parametrize("chunked", [False, True])
def test_large_bodies_are_whole_and_not_kept(gateway, make_origin, chunked):
    """64 MiB up and back again through one gateway that never holds more than a few buffers."""
    size, block = 64 << 20, os.urandom(1 << 20)

    def serve(client, connection):
        pending = b""
        while b"\r\n\r\n" not in pending:
            pending += client.recv(4096)
        left = size - len(pending.partition(b"\r\n\r\n")[2])
        if chunked:
            left += (size >> 20) * len(b"100000\r\n\r\n") + len(b"0\r\n\r\n")
        while left > 0:
            left -= len(client.recv(1 << 20))
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size >> 20):
            client.sendall(block)
    origin = make_origin(raw=serve)
    g = gateway("workers=1")
    with g.connect(timeout=60) as sock:
        if chunked:
            sock.sendall(get(origin.port, method="PUT", more="Transfer-Encoding: chunked\r\n"))
            for _ in range(size >> 20):
                sock.sendall(b"100000\r\n" + block + b"\r\n")
            sock.sendall(b"0\r\n\r\n")
        else:
            sock.sendall(get(origin.port, method="PUT", more=f"Content-Length: {size}\r\n"))
            for _ in range(size >> 20):
                sock.sendall(block)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += sock.recv(1)
        wanted = hashlib.sha256()
        for _ in range(size >> 20):
            wanted.update(block)
        assert digest_of(sock, size) == wanted.hexdigest()
    with open(f"/proc/{g.pid}/status") as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    if "asan" not in str(BUILD) and "tsan" not in str(BUILD):
        assert peak < 40 * 1024, f"{peak} KiB"


def test_a_slow_reader_slows_the_origin(gateway, make_origin):
    sent = [0]

    def serve(client, _):
        client.recv(4096)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (256 << 20))
        client.settimeout(1)
        block = bytes(1 << 16)
        try:
            while sent[0] < 256 << 20:
                sent[0] += client.send(block)
        except TimeoutError:
            pass
    origin = make_origin(raw=serve)
    g = gateway()
    with g.connect() as sock:
        sock.sendall(get(origin.port))
        time.sleep(2.5)
        assert sent[0] < 64 << 20


def test_a_head_in_two_pieces_to_a_client_that_does_not_read(gateway, make_origin):
    """What follows such a head waits, whole, until the client takes it."""
    body = bytes(range(256)) * 128
    step = threading.Semaphore(0)

    def serve(client, _):
        for number in range(4):
            while b"\r\n\r\n" not in client.recv(4096):
                pass
            client.sendall(b"HTTP/1.1 200 OK\r\nX-Num")
            step.release()
            time.sleep(0.02)  # two pieces, most of the time
            client.sendall(b"ber: %d\r\nContent-Length: %d\r\n\r\n" % (number, len(body)) + body)
    origin = make_origin(raw=serve)
    g = gateway("workers=1")
    with g.connect() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(30)
        sock.sendall(get(origin.port) * 4)
        assert step.acquire(timeout=30)
        client = Client(sock)
        for number in range(4):
            time.sleep(0.01)
            status, headers, got = client.answer()
            assert (status, headers["x-number"]) == (200, str(number)) and got == body


def test_early_answer_to_an_upload(gateway, make_origin):
    """The origin says no before it has read the body, and closes: the client hears it."""
    def serve(client, _):
        client.recv(4096)
        client.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        time.sleep(0.3)
    origin = make_origin(raw=serve)
    g = gateway()
    with g.connect() as sock:
        sock.sendall(get(origin.port, method="POST", more="Content-Length: 100000000\r\n") + bytes(1000))
        client = Client(sock)
        assert client.answer()[0] == 413
        assert client.is_closed(60)


def test_policy_that_changes_cuts_what_it_refuses(gateway, make_origin):
    stop = threading.Event()

    def serve(client, _):
        client.recv(4096)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun")
        stop.wait(60)
    origin = make_origin(raw=serve)
    g = gateway()
    with g.connect() as sock:
        sock.sendall(get(origin.port, "/long"))
        client = Client(sock)
        while b"begun" not in client.received:
            client._more()
        g.say("policy allow=other.test")
        assert client.is_closed(60) and client.reset
    stop.set()
    event = g.wait_event(path="/long")
    assert not event["allowed"] and event["reason"] == "not-allowed"
    with g.connect() as sock:
        sock.sendall(get(origin.port))
        assert Client(sock).answer()[0] == 403


@pytest.mark.parametrize("upgrade", [False, True])
def test_a_rule_that_changes_cuts_the_request_that_it_refuses(gateway, make_origin, upgrade):
    """The host stays allowed: method and path of what is under way are judged again, also after an upgrade."""
    stop = threading.Event()

    def serve(client, _):
        client.recv(4096)
        client.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nbegun" if upgrade
                       else b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nbegun")
        stop.wait(60)
    origin, private = make_origin(raw=serve), f"private={NAME}:1-65535"
    g = gateway(policy=[f"rule={NAME}:1-65535|GET|/long/**", private])
    with g.connect() as sock:
        sock.sendall(get(origin.port, "/long/x?q=1", "Connection: Upgrade\r\nUpgrade: websocket\r\n" if upgrade else ""))
        client = Client(sock)
        while b"begun" not in client.received:
            client._more()
        g.say(f"policy rule={NAME}:1-65535|GET|/long/x {private}")  # another rule that allows it
        g.wait(lambda _: "swapped" in g.notes)
        assert not client.is_closed(0.2)
        g.say(f"policy rule={NAME}:1-65535|GET|/short/** {private}")
        assert client.is_closed(60) and client.reset
    stop.set()
    event = g.wait_event(path="/long/x")
    assert not event["allowed"] and event["reason"] == "path"


def test_the_path_that_leaves_is_the_one_that_is_judged(gateway, origin):
    """OPTIONS without a path means the server itself, "*", which no path pattern allows."""
    g = gateway("workers=1", policy=[f"rule={NAME}:1-65535|GET,OPTIONS|/", f"private={NAME}:1-65535"])
    cases = (("OPTIONS", "", 403), ("OPTIONS", "/", 200), ("GET", "", 200), ("GET", "?q", 200), ("GET", "/x", 403), ("OPTIONS", "", 403))
    for method, path, status in cases:  # the last one would leave on a connection that rests in the pool
        with g.connect() as sock:
            sock.sendall(get(origin.port, path, method=method))
            assert Client(sock).answer()[0] == status, (method, path)
    assert [request.split(b" HTTP")[0] for request in origin.requests()] == [b"OPTIONS /", b"GET /", b"GET /?q"]


def test_a_pooled_connection_is_judged_again(gateway, origin):
    g = gateway("workers=1")
    with g.connect() as sock:
        client = Client(sock)
        sock.sendall(get(origin.port))
        assert client.answer()[0] == 200
        g.say(f"policy allow={NAME}")  # the name is allowed, its private address is not any more
        g.wait(lambda _: "swapped" in g.notes)
        sock.sendall(get(origin.port))
        status, headers, _ = client.answer()
        assert status == 403 and headers["x-bailey-reason"] == "address-class"
    assert len(origin.requests()) == 1


def test_nothing_new_while_the_audit_fails(gateway, origin):
    g = gateway()
    with g.connect() as sock:
        client = Client(sock)
        sock.sendall(get(origin.port))
        assert client.answer()[0] == 200
        g.say("audit 0")
        settle(g)
        sock.sendall(get(origin.port))
        status, headers, _ = client.answer()
        assert status == 503 and headers["x-bailey-reason"] == "audit"
        g.say("audit 1")
        settle(g)
        sock.sendall(get(origin.port))
        assert client.answer()[0] == 200
    assert len(origin.requests()) == 2


@pytest.mark.parametrize("answer, status", [(1, 200), (0, 403)])
def test_a_question_is_asked_once_and_its_answer_counts(gateway, origin, answer, status):
    g = gateway("can-ask", policy=[f"private={NAME}:1-65535", "deny=never.test"])
    g.say("policy deny=never.test")
    g.wait(lambda _: "swapped" in g.notes)
    socks = [g.connect() for _ in range(4)]
    for sock in socks:
        sock.sendall(get(origin.port, host="asked.test"))
    g.wait(lambda _: g.asks)
    time.sleep(0.2)
    assert len(g.asks) == 1 and g.asks[0][1:] == ["asked.test", str(origin.port)]
    g.say(f"answer {g.asks[0][0]} {answer}")
    for sock in socks:
        got = Client(sock).answer()[0]
        assert got == status if answer == 0 else got in (502, 403)  # no such name here, but it was let through
        sock.close()


def test_a_client_that_leaves_takes_its_question_back(gateway):
    g = gateway("can-ask", policy=["deny=never.test"])
    sock = g.connect()
    sock.sendall(b"CONNECT asked.test:443 HTTP/1.1\r\n\r\n")
    g.wait(lambda _: g.asks)
    sock.close()
    g.wait(lambda _: "ask-gone" in g.notes)
    assert not g.wait_event(domain="asked.test", via="connect")["allowed"]


def test_connect_with_everything_sent_ahead(gateway, origin):
    """The tunnel's bytes and the end of the stream arrive before the tunnel exists: all of it is delivered."""
    g = gateway()
    with g.connect() as sock:
        request = f"GET /ahead HTTP/1.1\r\nHost: {NAME}:{origin.port}\r\n\r\n"
        sock.sendall(f"CONNECT {NAME}:{origin.port} HTTP/1.1\r\n\r\n{request}".encode())
        sock.shutdown(socket.SHUT_WR)
        client = Client(sock)
        while client._more():
            pass
        assert client.received.startswith(b"HTTP/1.1 200 Connection established\r\n\r\n") and client.received.endswith(b"origin\n")


def test_bytes_out_are_limited(gateway, origin):
    g = gateway("bytes-out=100000")
    with g.connect() as sock:
        client = Client(sock)
        sock.sendall(get(origin.port, method="POST", more="Content-Length: 50000\r\n") + bytes(50000))
        assert client.answer()[0] == 200
        try:
            sock.sendall(get(origin.port, method="POST", more="Content-Length: 500000\r\n") + bytes(500000))
        except OSError:
            pass
        answer = client.answer()
        assert answer is None or answer[0] in (429, 503)
    assert len(origin.received()) < 300000
    with g.connect() as sock:
        sock.sendall(get(origin.port))
        answer = Client(sock).answer()
        assert answer is None or answer[0] in (429, 503)


def test_a_body_that_is_too_large_is_no_next_request(gateway, origin):
    """Head and body come in one packet: the answer ends the connection, and nothing is answered or recorded twice."""
    g = gateway("body-bytes=100", "workers=1")
    with g.connect() as sock:
        client = Client(sock)
        sock.sendall(get(origin.port, "/up", method="POST", more="Transfer-Encoding: chunked\r\n") + b"c8\r\n" + b"Z" * 200 + b"\r\n0\r\n\r\n")
        status, headers, body = client.answer()
        assert status == 413 and headers["connection"] == "close" and b"network.limits.body_bytes" in body
        assert client.answer() is None
    with g.connect() as sock:
        sock.sendall(get(origin.port, "/small"))
        assert Client(sock).answer()[0] == 200
    g.wait_event(path="/small")
    assert [(e["path"], e["status"], e["reason"]) for e in g.events if e["kind"] == "request" and e["path"] != "/small"] == [("/up", 413, "limit")]
    assert b"ZZ" not in origin.received()


def test_a_malformed_body_is_on_record_as_refused(gateway, origin):
    """In one packet with its head, and when a part of it has left."""
    g = gateway("workers=1")
    for path, first, then in (("/at-once", b"zz\r\n", b""), ("/later", b"5\r\nhello\r\n", b"zz\r\n")):
        with g.connect() as sock:
            sock.sendall(get(origin.port, path, method="POST", more="Transfer-Encoding: chunked\r\n") + first)
            if then:
                wait_until(lambda: b"hello" in origin.received(), 60, "a part of the body")
                sock.sendall(then)
            status, headers, body = Client(sock).answer()
            assert status == 400 and headers["x-bailey-reason"] == "protocol" and b"a malformed chunk" in body
        g.wait_event(path=path, status=400, reason="protocol", allowed=False)


def test_client_that_goes_away(gateway, make_origin):
    """The origin's connection does not outlive the client that it answers."""
    gone = threading.Event()

    def serve(client, _):
        client.recv(4096)
        client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                client.sendall(b"1\r\nx\r\n")
                time.sleep(0.02)
        except OSError:
            gone.set()
    origin = make_origin(raw=serve)
    g = gateway()
    sock = g.connect()
    sock.sendall(get(origin.port))
    sock.recv(100)
    sock.close()
    assert gone.wait(60)


def test_a_dead_name_server_costs_one_question_its_patience(gateway, make_dns, origin):
    """The next server is asked within a second, and first from then on; when none answers the client is told so."""
    names = [f"n{number}.ok.test" for number in range(4)]
    dead, alive = make_dns({name: Answer(silent=True) for name in names}), make_dns({name: Answer(("127.0.0.1",)) for name in names})
    g = gateway("workers=1", f"server={dead.port}", f"server={alive.port}", policy=["allow=*.ok.test", "private=127.0.0.0/8:1-65535"])
    took = []
    for name in names:
        with g.connect() as sock:
            started = time.monotonic()
            sock.sendall(get(origin.port, host=name))
            assert Client(sock).answer()[0] == 200
            took.append(time.monotonic() - started)
    assert took[0] > 0.5 and max(took) < 4
    assert {q.name for q in dead.asked()} == {names[0]}, took  # the others went to the one that answers
    assert max(took[1:]) < took[0]


def test_without_any_name_server_the_client_is_told_why(gateway, make_dns, origin):
    dead = [make_dns({"gone.ok.test": Answer(silent=True)}) for _ in range(2)]
    g = gateway("workers=1", *(f"server={d.port}" for d in dead), policy=["allow=*.ok.test"])
    with g.connect() as sock:
        client, started = Client(sock), time.monotonic()
        sock.sendall(get(origin.port, host="gone.ok.test"))
        status, headers, body = client.answer()
        assert status == 504 and headers["x-bailey-reason"] == "resolve" and b"No name server answered in time." in body
        assert time.monotonic() - started < 8  # not the ten seconds that connecting may take
        started = time.monotonic()
        sock.sendall(get(origin.port, host="gone.ok.test"))
        assert client.answer()[0] == 504 and time.monotonic() - started < 1  # known for a moment
    assert all(len(d.asked()) > 0 for d in dead)
