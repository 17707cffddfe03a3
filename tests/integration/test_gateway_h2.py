# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 inside TLS that the gateway opens: real clients, real servers, and peers that break every rule."""
import hashlib
import os
import re
import select
import signal
import ssl
import struct
import threading
import time

import hpack
import pytest

from kit.h2 import CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, PRIORITY, RST_STREAM, SETTINGS, H2Client, H2Server, frame
from kit.process import SANITIZED, SLOW, wait_until
from kit.gateway import Client
from test_gateway_credentials import memory_with
from test_gateway_readings import OVERRIDES, PATHS_ALLOWED, PATHS_REFUSED
from test_gateway_tls import HOST, NAMES, Lab, make_lab  # noqa: F401 (fixtures)

RULE = f"rule={HOST}:1-65535|GET,HEAD,POST,PUT,OPTIONS|/ok/**"
REFUSED, CANCEL, INTERNAL, PROTOCOL, CALM = 7, 8, 2, 1, 11
MANY = 100
MANY_FIELDS = b"\x8f" * 130  # more than are taken, a byte each
SIZE = (8 if SANITIZED else 100) << 20


def hello(server, number, headers):
    for _ in server.receive(number):
        pass
    head = headers[":method"] == "HEAD"
    server.respond(number, headers=[("content-type", "text/plain")], end=head)
    if not head:
        server.data(number, b"origin\n", end=True)


@pytest.fixture
def make_h2(make_origin, authority):
    return lambda handle=hello, **more: make_origin(tls=authority.context(*NAMES, alpn=("h2", "http/1.1")), raw=H2Server(handle, **more))


@pytest.fixture
def lab(make_lab):
    return make_lab(RULE, "workers=1")


def connect(lab, port, **more):
    sock = lab.client(port, context=lab.context(["h2"]))
    assert sock.selected_alpn_protocol() == "h2"
    return H2Client(sock, f"{HOST}:{port}", **more)


def event(lab, **wanted):
    return lab.gateway.wait_event(seconds=60, kind="request", **wanted)


# what is judged


def test_each_stream_is_judged_by_itself(lab, make_h2):
    origin = make_h2()
    client = connect(lab, origin.port, strict=False)
    here = f"{HOST}:{origin.port}"
    got = client.ask("/ok/x?q=1")
    assert (got.status, got.body) == (200, b"origin\n")
    cases = [
        (dict(path="/secret"), 403, "path"),
        (dict(path="/ok/../secret"), 403, "path"),
        (dict(path="/ok/x", method="DELETE"), 405, "method"),
        (dict(path="/ok/x", method="TRACE"), 405, "method"),
        (dict(path="/ok/2", authority="evil.test"), 421, "fronting"),
        (dict(path="/ok/3", authority=f"{HOST}:1"), 421, "fronting"),
        (dict(path="/ok/4", authority=f"user@{here}"), 400, "bad-name"),
        (dict(path="/ok/5", headers=[("host", "evil.test")]), 421, "fronting"),
        (dict(path="/ok/6", authority=None, headers=[("host", "evil.test")]), 421, "fronting"),
        (dict(path="/ok/7", scheme="http"), 400, "protocol"),
        (dict(path="/secret", method="POST", body=b"x" * 300000), 403, "path"),
    ]
    for case, status, reason in cases:
        got = client.ask(**case)
        assert (got.status, got.headers["x-bailey-reason"]) == (status, reason), (case, got.headers)
        assert b"ailey" in got.body and int(got.headers["content-length"]) == len(got.body)
        assert event(lab, status=status, reason=reason)["allowed"] is False
        lab.gateway.events.clear()
    for good in (dict(authority=here.upper()), dict(headers=[("host", here)]), dict(authority=None, headers=[("host", here)])):
        assert client.ask("/ok/y", **good).status == 200
    got = client.ask("/ok/z", "HEAD")
    assert got.status == 200
    seen = origin.requests()
    assert [r[":path"] for r in seen] == ["/ok/x?q=1", "/ok/y", "/ok/y", "/ok/y", "/ok/z"]
    assert all(r[":authority"] == here and "host" not in r for r in seen)
    assert len(origin.connections) == 1


@pytest.mark.parametrize("protocol", ["h2", "http/1.1"])
def test_paths_and_headers_that_servers_read_differently(protocol, make_lab, make_h2, make_origin, authority):
    """The forms of test_gateway_readings.py, inside TLS."""
    origin = make_h2() if protocol == "h2" else make_origin(tls=authority.context(*NAMES, alpn=("http/1.1",)))
    lab = make_lab(f"rule={HOST}:1-65535|GET|/public/**,/one/*/end,/pages/*.txt", "workers=1")
    sock = lab.client(origin.port, context=lab.context([protocol]))
    here = f"{HOST}:{origin.port}"

    def ask(path, *headers):
        if protocol == "h2":
            got = client.ask(path, headers=[(name.lower(), value) for name, value in headers])
            return got.status, got.headers
        lines = [f"GET {path} HTTP/1.1", f"Host: {here}", *(f"{name}: {value}" for name, value in headers)]
        sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        return client.answer()[:2]

    client = H2Client(sock, here, strict=False) if protocol == "h2" else Client(sock)
    for path in PATHS_REFUSED:
        assert ask(path)[0] == 403, path
    for path in PATHS_ALLOWED:
        assert ask(path)[0] == 200, path
    for header in OVERRIDES.items():
        status, headers = ask("/public/x", header)
        assert status in (403, 405) and headers["x-bailey-reason"] in ("path", "method"), header
    assert len(origin.requests()) == len(PATHS_ALLOWED)


def test_connect_is_no_way_out(lab, make_h2):
    origin = make_h2()
    client = connect(lab, origin.port, strict=False)
    got = client.ask(None, "CONNECT", scheme=None, authority="evil.test:443")
    assert (got.status, got.headers["x-bailey-reason"]) == (405, "method")
    number = client.open("/ok/x", "CONNECT", protocol="websocket")  # extended CONNECT was not offered
    assert client.wait(lambda: client.streams[number].reset is not None or client.streams[number].status == 405)
    assert client.ask("/ok/x").status == 200 and len(origin.requests()) == 1


@pytest.mark.parametrize("headers", [
    [("connection", "close")], [("transfer-encoding", "chunked")], [("upgrade", "h2c")], [("keep-alive", "1")], [("te", "gzip")],
    [("X-Upper", "1")], [("x y", "1")], [("x", "a\nb")], [("x", "a\x00b")], [(":path", "/ok/twice")], [(":late", "1")],
    [("content-length", "5"), ("content-length", "5")], [("content-length", "+5")], [("content-length", "-1")]],
    ids=lambda headers: "-".join(name for name, _ in headers).replace(" ", "_"))
def test_fields_that_may_not_be(headers, lab, make_h2):
    origin = make_h2()
    client = connect(lab, origin.port, strict=False)
    number = client.open("/ok/x", headers=headers)
    assert client.wait(lambda: client.streams[number].reset == PROTOCOL or client.goaway is not None)
    assert event(lab, reason="protocol")["allowed"] is False
    if client.goaway is None:
        assert client.ask("/ok/next").status == 200
    assert "/ok/x" not in [r[":path"] for r in origin.requests()]


def test_bodies_of_another_length_than_said(lab, make_h2):
    whole = []

    def count(server, number, headers):
        size = sum(len(piece) for piece in server.receive(number))
        if number in server.ended:
            whole.append((headers[":path"], size))
        hello(server, number, headers)

    origin = make_h2(count)
    client = connect(lab, origin.port, strict=False)
    for path, length, body in (("/ok/long", "3", b"12345"), ("/ok/short", "9", b"12345")):
        number = client.open(path, "POST", headers=[("content-length", length)], end=False)
        client.raw(frame(DATA, END_STREAM, number, body))
        assert client.wait(lambda: client.streams[number].done)
        assert client.streams[number].reset is not None or client.streams[number].status >= 400
        assert "content-length" in event(lab, path=path, allowed=False, reason="protocol")["detail"]
    assert client.ask("/ok/right", "POST", headers=[("content-length", "5")], body=b"12345").status == 200
    assert whole == [("/ok/right", 5)]
    number = client.open("/ok/odd", "POST", end=False)
    client.raw(frame(DATA, 0, number, b"x") + frame(HEADERS, END_HEADERS | END_STREAM, number, b"\0\3x y\1z"))
    event(lab, path="/ok/odd", allowed=False, reason="protocol")
    number = client.open("/ok/many", "POST", end=False)
    client.raw(frame(DATA, 0, number, b"x") + frame(HEADERS, END_HEADERS | END_STREAM, number, MANY_FIELDS))
    assert client.wait(lambda: client.streams[number].done) and client.streams[number].status == 400
    assert "trailers are too large" in event(lab, path="/ok/many", allowed=False, reason="protocol")["detail"]
    number = client.open("/ok/trailers", "POST", end=False)
    client.raw(frame(DATA, 0, number, b"x") + frame(HEADERS, END_HEADERS | END_STREAM, number, hpack.Encoder().encode([(":path", "/ok/y")])))
    event(lab, path="/ok/trailers", allowed=False, reason="protocol")


# what passes


def test_trailers_interim_responses_and_resets(lab, make_h2):
    codes = []

    def serve(server, number, headers):
        path = headers[":path"]
        if path == "/ok/reset":
            server.reset(number, INTERNAL)
        elif path == "/ok/refuse":
            server.reset(number, REFUSED)
        elif path == "/ok/half":
            server.respond(number)
            server.data(number, b"half")
            server.reset(number, 0xd)
        elif path == "/ok/early":  # answers before the body has come, then wants no more of it
            server.respond(number, 413, end=True)
            server.reset(number, 0)
        elif path == "/ok/hang":
            server.wait(lambda: number in server.resets)
            codes.append(server.resets[number])
        else:
            with server.lock:
                server.h2.send_headers(number, [(":status", "103"), ("link", "</a.css>")])
            body = b"".join(server.receive(number))
            server.respond(number, headers=[("content-type", "application/grpc")])
            server.data(number, body[::-1])
            server.end(number, [("grpc-status", "0"), ("x-sent", server.trailers.get(number, {}).get("x-check", ""))])

    origin = make_h2(serve)
    client = connect(lab, origin.port)
    got = client.ask("/ok/call", "POST", headers=[("te", "trailers")], body=b"abc", trailers=[("x-check", "42")])
    assert (got.status, got.body, got.trailers) == (200, b"cba", {"grpc-status": "0", "x-sent": "42"})
    assert got.interim and got.interim[0]["link"] == "</a.css>"
    assert origin.requests()[0]["te"] == "trailers"
    assert client.ask("/ok/reset").reset == INTERNAL
    assert client.ask("/ok/refuse").reset == REFUSED
    assert client.ask("/ok/half").reset == 0xd  # which may overtake what was sent before it
    number = client.open("/ok/early", "POST", end=False)
    assert client.wait(lambda: client.streams[number].done) and client.streams[number].status == 413
    number = client.open("/ok/hang")
    wait_until(lambda: any(r[":path"] == "/ok/hang" for r in origin.requests()), 60, "the request")
    client.reset(number, CANCEL)
    wait_until(lambda: codes == [CANCEL], 60, "the reset, with its code")
    assert client.ask("/ok/call", "POST", body=b"x").status == 200
    assert event(lab, path="/ok/early", status=413)["allowed"]


@pytest.mark.parametrize("name", ["x-http-method-override", "x-original-url", "transfer_encoding"])
def test_trailers_change_no_request(name, lab, make_h2):
    """A field that is refused before a body is refused behind it."""
    def serve(server, number, headers):
        for _ in server.receive(number):
            pass
        server.respond(number)
        server.end(number, [("x-sent", server.trailers.get(number, {}).get(name, "nothing"))])

    origin = make_h2(serve)
    client = connect(lab, origin.port)
    got = client.ask("/ok/call", "POST", body=b"abc", trailers=[(name, "/admin")])
    assert got.status in (None, 403, 405) and "x-sent" not in (got.trailers or {})
    event(lab, path="/ok/call", allowed=False, reason="method")
    assert client.ask("/ok/call", "POST", body=b"abc", trailers=[("x-check", "1")]).trailers == {"x-sent": "nothing"}


def test_events_are_not_delayed(lab, make_h2):
    go = threading.Event()

    def stream(server, number, headers):
        server.respond(number, headers=[("content-type", "text/event-stream")])
        server.data(number, b"data: 1\n")
        go.wait(30 * SLOW)
        server.data(number, b"data: 2\n", end=True)

    client = connect(lab, make_h2(stream).port)
    number = client.open("/ok/events")
    stream = client.streams[number]
    assert client.wait(lambda: stream.body == b"data: 1\n")  # although the origin has not gone on
    go.set()
    assert client.wait(lambda: stream.done) and stream.body == b"data: 1\ndata: 2\n"


def test_both_ways_at_once(lab, make_h2):
    """As gRPC's bidirectional streams do: each message is answered before the next is sent."""
    def echo(server, number, headers):
        server.respond(number)
        for piece in server.receive(number):
            server.data(number, piece.upper())
        server.end(number, [("grpc-status", "0")])

    client = connect(lab, make_h2(echo).port)
    number = client.open("/ok/chat", "POST", end=False)
    for turn in range(20):
        client.send(number, b"message %d;" % turn, end=False)
        assert client.wait(lambda: client.streams[number].body.endswith(b"MESSAGE %d;" % turn))
    client.h2.end_stream(number)
    client.flush()
    assert client.wait(lambda: client.streams[number].done) and client.streams[number].trailers == {"grpc-status": "0"}


def test_many_streams_at_once(lab, make_h2):
    gathered = threading.Barrier(MANY)

    def serve(server, number, headers):
        gathered.wait(60 * SLOW)  # all of them are here before the first is answered
        server.respond(number)
        server.data(number, headers[":path"].encode() * 1000, end=True)

    origin = make_h2(serve)
    client = connect(lab, origin.port)
    numbers = [client.open(f"/ok/{i}") for i in range(MANY)]
    assert client.wait(lambda: all(client.streams[n].done for n in numbers), 120 * SLOW)
    for i, number in enumerate(numbers):
        assert client.streams[number].body == f"/ok/{i}".encode() * 1000
    lab.gateway.wait(lambda g: sum(e["kind"] == "request" and e["allowed"] for e in g.events) == MANY, 60 * SLOW)


def test_a_reader_that_sleeps_holds_up_nobody_else(lab, make_h2):
    def serve(server, number, headers):
        server.respond(number)
        server.data(number, b"x" * (4 << 20 if headers[":path"] == "/ok/big" else 10), end=True)

    client = connect(lab, make_h2(serve).port)
    client.h2.increment_flow_control_window(64 << 20)
    client.flush()
    sleepers = [client.open("/ok/big") for _ in range(4)]
    client.takes = lambda number: number not in sleepers
    assert client.wait(lambda: all(len(client.streams[n].body) == 65535 for n in sleepers))
    for _ in range(10):
        assert client.ask("/ok/small").body == b"x" * 10
    assert all(len(client.streams[n].body) == 65535 for n in sleepers)
    for number in sleepers:  # and they go on when they are read
        client.h2.increment_flow_control_window(4 << 20, number)
    client.takes = lambda number: True
    client.flush()
    assert client.wait(lambda: all(len(client.streams[n].body) == 4 << 20 for n in sleepers), 120 * SLOW)


def test_no_reset_overtakes_an_answer(lab, make_h2):
    """curl 7.88 shows an error of HTTP/2 in place of an answer whose stream is reset while it still sends its body."""
    client = connect(lab, make_h2().port)
    number = client.open("/secret", "POST", end=False)
    stream = client.streams[number]
    assert client.wait(lambda: stream.ended) and stream.status == 403
    event(lab, path="/secret", status=403)  # on record, whatever the client does now
    sent = 0
    while stream.reset is None and sent < 4 << 20:
        room = min(client.h2.local_flow_control_window(number), 16384)
        if not room:
            client.pump()
            continue
        client.h2.send_data(number, b"x" * room)
        client.flush()
        sent += room
    assert stream.reset == 0 and 500000 < sent < 4 << 20, (stream.reset, sent)
    assert client.ask("/ok/x").status == 200


# ends


def test_the_origin_says_goodbye(lab, make_h2):
    """Streams that it took are finished, others may be sent again elsewhere."""
    def serve(server, number, headers):
        if headers[":path"] == "/ok/last":
            with server.lock:
                server.h2._data_to_send += frame(7, 0, 0, struct.pack(">II", number, 0))
            server.flush()
        hello(server, number, headers)

    origin = make_h2(serve)
    client = connect(lab, origin.port)
    assert client.ask("/ok/first").status == 200
    number = client.h2.get_next_available_stream_id()
    client.h2.send_headers(number, client.fields("/ok/last"), end_stream=True)
    client.flush()
    data = b""
    client.sock.settimeout(30 * SLOW)
    while chunk := client.sock.recv(65536):  # GOAWAY and the answer, in whatever order, then the end
        data += chunk
    assert b"origin\n" in data
    assert event(lab, path="/ok/last", status=200)["allowed"]
    assert connect(lab, origin.port).ask("/ok/again").status == 200


def test_the_origin_goes_away(lab, make_h2):
    gone = []

    def serve(server, number, headers):
        if headers[":path"] == "/ok/begun":
            server.respond(number)
            server.data(number, b"some")
        gone.append(number)
        if len(gone) == 2:
            server.sock.shutdown(2)

    client = connect(lab, make_h2(serve).port)
    begun = client.open("/ok/begun")
    assert client.wait(lambda: client.streams[begun].body == b"some")
    silent = client.open("/ok/silent")
    client.takes = lambda number: False
    try:
        client.wait(lambda: client.streams[begun].done and client.streams[silent].done)
    except Exception:  # python3-h2 takes no stream's bytes after GOAWAY; the record tells
        pass
    assert event(lab, path="/ok/silent", reason="upstream")["status"] == 502
    assert event(lab, path="/ok/begun", reason="upstream")["status"] == 200


def test_the_client_vanishes(lab, make_h2):
    resets = []

    def serve(server, number, headers):
        server.respond(number)
        try:
            server.wait(lambda: number in server.resets)
        finally:
            resets.append(number)

    origin = make_h2(serve)
    client = connect(lab, origin.port)
    numbers = [client.open(f"/ok/{i}") for i in range(MANY)]
    assert client.wait(lambda: all(client.streams[n].headers for n in numbers))
    client.sock.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: a reset
    client.sock.close()
    wait_until(lambda: len(resets) == MANY, 60 * SLOW, "the end of all streams at the origin")
    lab.gateway.wait(lambda g: sum(e["kind"] == "request" for e in g.events) == MANY, 60 * SLOW)
    assert connect(lab, origin.port).h2


def test_a_new_policy_ends_running_streams(make_lab, make_h2):
    def serve(server, number, headers):
        server.respond(number)
        server.data(number, b"first")
        server.wait(lambda: number in server.resets or number in server.ended and headers[":path"] == "/ok/b/stays")
        if headers[":path"] == "/ok/b/stays":
            server.data(number, b"second", end=True)

    lab = make_lab(RULE, "workers=1")
    client = connect(lab, make_h2(serve).port)
    going, staying = client.open("/ok/a/goes"), client.open("/ok/b/stays", "POST", end=False)
    assert client.wait(lambda: all(client.streams[n].body == b"first" for n in (going, staying)))
    lab.gateway.say(f"policy private=127.0.0.0/8:1-65535 rule={HOST}:1-65535|GET,POST|/ok/b/**")
    assert client.wait(lambda: client.streams[going].reset is not None)
    assert event(lab, path="/ok/a/goes", reason="path")["allowed"] is False
    client.h2.end_stream(staying)
    client.flush()
    assert client.wait(lambda: client.streams[staying].done) and client.streams[staying].body == b"firstsecond"
    assert client.ask("/ok/a/goes").status == 403
    lab.gateway.say("policy private=127.0.0.0/8:1-65535")
    client.wait(lambda: client.closed)
    assert client.closed


# attacks


def dies(sock, data=b""):
    """Sends all that is taken and reads meanwhile: whether the gateway ends the connection, with GOAWAY or without."""
    rest, end = memoryview(data), time.monotonic() + 60 * SLOW
    sock.setblocking(False)
    while time.monotonic() < end:
        waits = True
        try:
            if len(rest):
                rest = rest[sock.send(rest[:16384]):]
                waits = False
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError:
            rest = rest[len(rest):]  # it takes no more; what it said is still to be read
        try:
            if not sock.recv(65536):
                return True
            waits = False
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError:
            return True
        if waits:
            select.select([sock], [sock] if len(rest) else [], [], 0.1)
    return False


@pytest.mark.exact_build
def test_floods_and_nonsense(make_lab, make_h2):
    lab = make_lab(RULE, "workers=1", "header=2s", "idle=5s")
    origin = make_h2()
    fields = [(":method", "GET"), (":scheme", "https"), (":authority", f"{HOST}:{origin.port}"), (":path", "/ok/x")]
    head = hpack.Encoder().encode(fields)
    bomb = hpack.Encoder().encode([*fields, ("x", "y" * 3900)]) + b"\xbe" * 12000  # one entry, again and again: 47 MB
    start = PREFACE + frame(SETTINGS)
    attacks = {
        "garbage": b"GET / HTTP/1.1\r\n\r\n" * 10,
        "no settings": PREFACE + frame(PING, 0, 0, b"12345678"),
        "short preface": PREFACE[:10],
        "silence": b"",
        "pings": start + frame(PING, 0, 0, b"12345678") * 20000,
        "settings": start + frame(SETTINGS, 0, 0, b"\0\3\0\0\0\1") * 20000,
        "priorities": start + frame(PRIORITY, 0, 1, b"\0\0\0\0\1") * 20000,
        "unknown frames": start + frame(0xee, 0, 0, b"") * 20000,
        "rapid reset": start + b"".join(
            frame(HEADERS, END_HEADERS | END_STREAM, n, head) + frame(RST_STREAM, 0, n, b"\0\0\0\10") for n in range(1, 20001, 2)),
        "resets that we send": start + b"".join(
            frame(HEADERS, END_HEADERS, n, head) + frame(8, 0, n, struct.pack(">I", (1 << 31) - 1)) for n in range(1, 10001, 2)),
        "continuations": start + frame(HEADERS, END_STREAM, 1, head) + frame(CONTINUATION, 0, 1, b"\0\1x\1y" * 100) * 20000,
        "endless head": start + frame(HEADERS, END_STREAM, 1, head),
        "huge frame": start + struct.pack(">I", 1 << 23)[1:] + bytes([DATA, 0, 0, 0, 0, 1]),
        "window overflow": start + frame(8, 0, 0, struct.pack(">I", (1 << 31) - 1)) * 2,
        "window of nothing": start + frame(8, 0, 0, struct.pack(">I", 0)),
        "even stream": start + frame(HEADERS, END_HEADERS | END_STREAM, 2, head),
        "broken compression": start + frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\xff" * 100),
        "data on nothing": start + frame(DATA, 0, 5, b"x"),
        "push": start + frame(5, END_HEADERS, 1, struct.pack(">I", 2) + head),
    }
    for name, data in attacks.items():
        with lab.client(origin.port, context=lab.context(["h2"])) as sock:
            assert dies(sock, data), name
    with lab.client(origin.port, context=lab.context(["h2"])) as sock:  # answered, and reset at the origin only
        said = b""
        try:
            sock.sendall(start + frame(8, 0, 0, struct.pack(">I", 1 << 30)))
            for first in range(1, 3001, 50):
                sock.sendall(b"".join(frame(HEADERS, END_HEADERS, n, head) for n in range(first, first + 50, 2)))
                sock.sendall(b"".join(frame(HEADERS, END_HEADERS | END_STREAM, n, MANY_FIELDS) for n in range(first, first + 50, 2)))
                said += sock.recv(65536)
            while data := sock.recv(65536):
                said += data
        except OSError:
            pass
        assert re.search(rb"\0\0\x08\x07\0\0\0\0\0....\0\0\0" + bytes([CALM]), said, re.DOTALL)
    # What is only large is answered, and the connection lives.
    for headers in ([(f"x-{i}", "y" * 2400) for i in range(30)], [(f"x-{i}", "y") for i in range(200)]):
        client = connect(lab, origin.port)
        got = client.ask("/ok/x", headers=headers)
        assert (got.status, got.headers["x-bailey-reason"]) == (431, "protocol")
        assert client.ask("/ok/after").status == 200
        client.sock.close()
    lab.gateway.events.clear()
    client = connect(lab, origin.port)
    client.raw(frame(HEADERS, END_HEADERS | END_STREAM, 1, bomb))
    event(lab, status=431)
    client.sock.close()
    client = connect(lab, origin.port)
    number = client.open("/ok/x", "POST", end=False)
    assert dies(client.sock, frame(DATA, 0, number, b"") * 20000)
    with open(f"/proc/{lab.gateway.pid}/status") as file:
        assert next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) < 200 << 10
    assert connect(lab, origin.port).ask("/ok/x").status == 200
    assert len([r for r in origin.requests() if r[":path"] == "/ok/x"]) < 1500


def test_the_origin_breaks_rules(lab, make_h2):
    def push(server, number, headers):
        with server.lock:
            server.h2._data_to_send += frame(5, END_HEADERS, number, struct.pack(">I", 2) + hpack.Encoder().encode([(":method", "GET")]))
        server.flush()

    def malformed(server, number, headers):
        path = headers[":path"]
        if path == "/ok/length":
            server.respond(number, headers=[("content-length", "3")])
            server.data(number, b"12345", end=True)
        elif path == "/ok/connection":
            server.respond(number, headers=[("connection", "close")], end=True)
        elif path == "/ok/huge":
            server.respond(number, headers=[(f"x-{i}", "y" * 500) for i in range(300)], end=True)
        else:
            hello(server, number, headers)

    client = connect(lab, make_h2(malformed).port)
    assert client.ask("/ok/connection").status == 502
    assert client.ask("/ok/huge").status == 502
    got = client.ask("/ok/length")
    assert got.reset is not None and got.body in (b"", b"12345")
    assert client.ask("/ok/fine").status == 200
    client = connect(lab, make_h2(push).port)
    try:
        client.ask("/ok/push")
    except Exception:  # after GOAWAY python3-h2 wants no more
        pass
    assert event(lab, path="/ok/push")["status"] == 502


def test_time_limits(make_lab, make_h2):
    lab = make_lab(RULE, "workers=1", "idle=500ms", "tunnel=1s")

    def serve(server, number, headers):
        if headers[":path"] == "/ok/silent":
            server.wait(lambda: number in server.resets)
        else:
            hello(server, number, headers)

    origin = make_h2(serve)
    client = connect(lab, origin.port)
    assert client.ask("/ok/x").status == 200
    assert client.wait(lambda: client.closed)  # nothing more was asked
    client = connect(lab, origin.port)
    client.open("/ok/silent")
    try:
        client.wait(lambda: client.closed)
    except Exception:
        pass
    assert event(lab, path="/ok/silent", reason="timeout")["status"] == 504


def test_a_stream_that_stands_still(make_lab, make_h2):
    """Its busy neighbours do not keep it alive: it is answered, or reset where the answer had begun; the connection goes on."""
    lab = make_lab(RULE, "workers=1", "idle=1s", "tunnel=2s")

    def serve(server, number, headers):
        if headers[":path"] == "/ok/half":
            server.respond(number)
            server.data(number, b"half")
        if headers[":path"] in ("/ok/half", "/ok/silent"):
            server.wait(lambda: number in server.resets)
        else:
            hello(server, number, headers)

    origin = make_h2(serve)
    client = connect(lab, origin.port)
    silent, half = (client.streams[client.open(path)] for path in ("/ok/silent", "/ok/half"))
    end = time.monotonic() + 60 * SLOW
    while not (silent.done and half.done):
        assert time.monotonic() < end and client.ask("/ok/x").status == 200
        time.sleep(0.05)
    assert silent.status == 504 and silent.headers["x-bailey-reason"] == "timeout"
    assert half.status == 200 and half.body == b"half" and half.reset is not None
    assert client.ask("/ok/x").status == 200 and len(origin.connections) == 1
    assert event(lab, path="/ok/half", reason="timeout")


# pushes


def test_a_refused_push_is_answered(make_lab, make_h2):
    """Whatever came of it while a person was asked; and where its rest never comes, while its neighbours are busy."""
    origin = make_h2()
    lab = make_lab(f"git={HOST}:{origin.port}/acme/app|refs/heads/agent/**", "can-ask", "workers=1", "idle=1s", "tunnel=2s")
    client = connect(lab, origin.port)

    def push(ref):
        line = b"0" * 40 + b" " + b"1" * 40 + ref + b"\0report-status"
        number = client.open("/acme/app/git-receive-pack", "POST", [("content-type", "application/x-git-receive-pack-request")], end=False)
        client.send(number, b"%04x" % (len(line) + 4) + line + b"0000PACK", end=False)
        return number, client.streams[number]

    number, asked = push(b" refs/heads/agent/x")
    lab.gateway.wait(lambda gateway: gateway.asks)
    client.send(number, b"Z" * client.h2.local_flow_control_window(number), end=False)
    client.h2.ping(b"received")  # all that was sent before it was taken
    client.flush()
    assert client.wait(lambda: client.pongs)
    lab.gateway.say(f"answer {lab.gateway.asks[0][0]} 0")
    client.send(number, b"Z" * 300000)
    assert client.wait(lambda: asked.ended) and asked.status == 200 and b"bailey refused it" in asked.body
    event(lab, path="/acme/app/git-receive-pack", allowed=False, reason="ask")
    number, silent = push(b" refs/heads/main")
    end = time.monotonic() + 20 * SLOW
    while not silent.ended:
        assert time.monotonic() < end and client.ask("/acme/app/info/refs?service=git-upload-pack").status == 200
        time.sleep(0.05)
    assert silent.status == 200 and b"no push to this ref" in silent.body
    event(lab, path="/acme/app/git-receive-pack", allowed=False, reason="git-ref")
    assert not [r for r in origin.requests() if r[":method"] == "POST"]


# credentials


def test_credentials(make_lab, make_h2, tmp_path):
    secret = "sk-live-Zq8-Yt3Kp5Xw5Nn7Bb2"

    def serve(server, number, headers):
        for _ in server.receive(number):
            pass
        echo = headers.get("authorization", "none")
        if headers[":path"] == "/ok/coded":
            server.respond(number, headers=[("content-encoding", "compress")])
            server.data(number, b"\x1f\x9d", end=True)
            return
        server.respond(number, headers=[("x-echo", echo)])
        for i in range(0, len(echo), 3):  # over many frames
            server.data(number, echo[i:i + 3].encode())
        server.end(number, [("x-again", echo)])

    origin = make_h2(serve)
    lab = make_lab(f"allow={HOST}:1-65535", "allow=b.ok.test:1-65535", "workers=1",
                   f"credential=key|{HOST}:{origin.port}|bearer|{secret}", f"credential=two|b.ok.test:{origin.port}|bearer|{secret[::-1]}")
    fake = lab.gateway.fakes["key"]
    client = connect(lab, origin.port)
    for _ in range(3):
        got = client.ask("/ok/x", headers=[("authorization", f"Bearer {fake}"), ("accept-encoding", "gzip")])
        assert got.status == 200 and got.body == f"Bearer {fake}".encode(), got.body
        assert got.headers["x-echo"] == got.trailers["x-again"] == f"Bearer {fake}"
    seen = origin.requests()
    assert all(r["authorization"] == f"Bearer {secret}" and r["accept-encoding"] == "identity" for r in seen)
    assert event(lab, path="/ok/x", status=200)["swapped"] == "key"
    got = client.ask("/ok/coded", headers=[("authorization", f"Bearer {fake}")])
    assert got.status == 502
    two = lab.gateway.fakes["two"]
    for case in (dict(headers=[("x-other", fake)]), dict(path=f"/ok/{fake}"), dict(headers=[("authorization", f"Bearer {two}")]),
                 dict(headers=[("proxy-authorization", f"Bearer {fake}")])):
        got = client.ask(**{"path": "/ok/x", **case})
        assert (got.status, got.headers["x-bailey-reason"]) == (403, "credential"), case
    got = client.ask("/ok/late", "POST", body=b"x", trailers=[("authorization", f"Bearer {fake}")])
    assert got.status == 403 or got.reset is not None
    if got.status == 403:
        assert b"cut off" in got.body and b"nothing was sent" not in got.body
    assert "trailers" in event(lab, path="/ok/late", allowed=False, reason="credential")["detail"]
    lab.gateway.say("kill-vault")
    wait_until(lambda: client.ask("/ok/x", headers=[("authorization", f"Bearer {fake}")]).status == 503, 60, "a refusal without the vault")
    assert not [r for r in origin.requests() if fake in str(r) or two in str(r)]


def test_what_was_refused_while_the_vault_is_asked_never_leaves(make_lab, make_h2):
    """The answer is given, the client keeps its stream open, and then the vault's value arrives."""
    origin = make_h2()
    lab = make_lab(f"allow={HOST}:1-65535", "workers=1", "body-bytes=8192", f"credential=key|{HOST}:{origin.port}|bearer|sk-live-Zq8-Yt3Kp5Xw5Nn7Bb2")
    key = [("authorization", f"Bearer {lab.gateway.fakes['key']}")]
    client = connect(lab, origin.port)
    os.kill(lab.gateway.vault, signal.SIGSTOP)
    try:
        number = client.open("/ok/long", "POST", headers=[*key, ("content-length", "3")], end=False)
        client.raw(frame(DATA, END_STREAM, number, b"12345"))
        assert client.wait(lambda: client.streams[number].done)
        event(lab, path="/ok/long", allowed=False, reason="protocol")
        number = client.open("/ok/up", "POST", headers=key, end=False)
        client.send(number, b"Z" * 9000, end=False)
        got = client.streams[number]
        assert client.wait(lambda: got.ended)
    finally:
        os.kill(lab.gateway.vault, signal.SIGCONT)
    assert (got.status, got.headers["x-bailey-reason"]) == (413, "limit")
    assert client.ask("/ok/x", headers=key).status == 200  # the vault answers in order: the other's value has come by now
    client.reset(number)
    record = event(lab, path="/ok/up")
    assert (record["allowed"], record["status"], record["reason"]) == (False, 413, "limit"), record
    assert (record["swapped"], record["bytes_out"]) == ("", 0), record
    assert [r[":path"] for r in origin.requests()] == ["/ok/x"]


def test_nobody_waits_for_a_byte_that_is_held(make_lab, make_h2):
    """A message may end like a secret begins (gRPC's end in any byte): it arrives before the next one is sent."""
    secret = "sk-live-Zq8-Yt3Kp5Xw5Nn7Bb2"

    def chat(server, number, headers):
        server.respond(number, headers=[("x-" + secret.lower(), "1")])
        for piece in server.receive(number):
            server.data(number, piece)
        server.data(number, secret[:9].encode())
        server.data(number, secret[9:].encode())
        server.end(number, [("grpc-status", "0"), ("x-" + secret.lower(), secret)])

    origin = make_h2(chat)
    lab = make_lab(f"allow={HOST}:1-65535", "workers=1", f"credential=key|{HOST}:{origin.port}|bearer|{secret}")
    fake = lab.gateway.fakes["key"]
    client = connect(lab, origin.port)
    number = client.open("/ok/chat", "POST", headers=[("authorization", f"Bearer {fake}")], end=False)
    stream = client.streams[number]
    for turn in range(5):
        client.send(number, b"message %d s" % turn, end=False)
        assert client.wait(lambda: stream.body.endswith(b"message %d s" % turn))
    client.h2.end_stream(number)
    client.flush()
    assert client.wait(lambda: stream.done) and stream.body.endswith(b"4 s" + fake.encode())
    assert stream.trailers["grpc-status"] == "0" and fake in stream.trailers.values()


@pytest.mark.root
@pytest.mark.exact_build
def test_memory_holds_no_copies(make_lab, make_h2):
    """nghttp2 keeps tables and frames, too: a secret is in locked memory, or nowhere."""
    secret = "sk-live-Zq8-Yt3Kp5Xw5Nn7Bb2"
    origin = make_h2()
    lab = make_lab(f"allow={HOST}:1-65535", "workers=1", f"credential=key|{HOST}:{origin.port}|bearer,query:key|{secret}")
    fake = lab.gateway.fakes["key"]
    client = connect(lab, origin.port)
    for _ in range(3):
        assert client.ask("/ok/x", "POST", headers=[("authorization", f"Bearer {fake}")], body=b"x" * 1000).status == 200
        assert client.ask(f"/ok/y?key={fake}").status == 200
    assert [r for r in origin.requests() if r.get("authorization") == f"Bearer {secret}" or secret in r[":path"]]
    codes = hpack.huffman_constants
    huffman = hpack.huffman.HuffmanEncoder(codes.REQUEST_CODES, codes.REQUEST_CODES_LENGTH).encode(f"Bearer {secret}".encode())
    found = memory_with(lab.gateway.pid, [secret[8:].encode(), huffman])
    assert not [place for _, place, locked in found if not locked]


# real clients and servers

NODE_SERVER = """
const http2 = require('http2'), fs = require('fs'), pem = fs.readFileSync(process.argv[1]);
const server = http2.createSecureServer({ key: pem, cert: pem });
server.on('stream', (stream, headers) => {
    stream.on('error', () => {});
    stream.respond({ ':status': 200, 'content-type': 'text/plain' });
    if (headers[':method'] === 'POST') stream.pipe(stream); else stream.end('node says ' + headers[':path']);
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
"""
NODE_CLIENT = """
const http2 = require('http2'), net = require('net'), tls = require('tls'), fs = require('fs');
const [proxy, host, port, ca, size] = process.argv.slice(1);
const socket = net.connect(+proxy, '127.0.0.1', () => socket.write(`CONNECT ${host}:${port} HTTP/1.1\\r\\nHost: ${host}:${port}\\r\\n\\r\\n`));
socket.once('data', () => {
    const secure = tls.connect({ socket, servername: host, ALPNProtocols: ['h2'], ca: fs.readFileSync(ca) }, () => {
        const session = http2.connect(`https://${host}:${port}`, { createConnection: () => secure });
        const ask = (path, body) => new Promise((resolve, reject) => {
            const stream = session.request({ ':path': path, ':method': body ? 'POST' : 'GET' });
            let status, got = 0, text = '';
            stream.on('response', headers => status = headers[':status']);
            stream.on('data', data => { got += data.length; if (!body) text += data; });
            stream.on('end', () => resolve([status, body ? got : text.trim()]));
            stream.on('error', reject);
            stream.end(body);
        });
        Promise.all([ask('/ok/a'), ask('/secret'), ask('/ok/b', Buffer.alloc(+size))]).then(
            all => { console.log(JSON.stringify(all)); session.close(); }, error => { console.log(error); process.exit(1); });
    });
});
"""


@pytest.fixture
def node_server(start, authority, tmp_path):
    server = start(["node", "-e", NODE_SERVER, authority.issue(HOST)])
    wait_until(lambda: server.output().strip() or not server.running(), 30 * SLOW, "node")
    return int(server.output().split()[0])


def test_node_and_curl_with_a_node_server(lab, node_server, run, tmp_path):
    proxy = lab.gateway.port["http"]
    done = run(["node", "-e", NODE_CLIENT, proxy, HOST, node_server, lab.session_ca, 1 << 20], timeout=60 * SLOW)
    assert '[200,"node says /ok/a"]' in done.text and "[403,\"bailey: policy refused" in done.text and f"[200,{1 << 20}]" in done.text, str(done)
    curl = ["curl", "-sS", "-m", "120", "--http2", "--cacert", lab.session_ca, "-w", " %{http_version} %{http_code}"]
    for via in (f"http://127.0.0.1:{proxy}", f"socks5h://127.0.0.1:{lab.gateway.port['socks']}"):
        assert run([*curl, "-x", via, f"https://{HOST}:{node_server}/ok/c"]).text == "node says /ok/c 2 200"
        assert run([*curl, "-x", via, f"https://{HOST}:{node_server}/secret"]).text.endswith(" 2 403")
    body = tmp_path / "body"
    with body.open("wb") as file:
        for number in range(SIZE >> 16):
            file.write(hashlib.sha256(b"%d" % number).digest() * 2048)
    done = run([*curl, "-x", f"http://127.0.0.1:{proxy}", f"https://{HOST}:{node_server}/ok/big", "-X", "POST", "-T", body,
                "-o", tmp_path / "back"], timeout=130)  # there and back at once
    assert done.check().text.endswith("2 200"), str(done)
    with body.open("rb") as sent, (tmp_path / "back").open("rb") as back:
        assert hashlib.file_digest(sent, "sha256").digest() == hashlib.file_digest(back, "sha256").digest()
    seen = event(lab, path="/ok/big")
    assert seen["bytes_in"] == SIZE and seen["bytes_out"] >= SIZE


GRPC_SERVER = """
import grpc, sys
from concurrent import futures
pem = open(sys.argv[1], 'rb').read()
raw = dict(request_deserializer=None, response_serializer=None)
def stream(messages, context):
    for message in messages:
        yield message.upper()
    context.set_trailing_metadata([('x-end', 'yes')])
server = grpc.server(futures.ThreadPoolExecutor(4))
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler('ok', {
    'Unary': grpc.unary_unary_rpc_method_handler(lambda message, context: b'hello ' + message, **raw),
    'Chat': grpc.stream_stream_rpc_method_handler(stream, **raw)})])
print(server.add_secure_port('127.0.0.1:0', grpc.ssl_server_credentials([(pem, pem)])), flush=True)
server.start()
server.wait_for_termination()
"""
GRPC_CLIENT = """
import grpc, sys
proxy, target, ca = sys.argv[1:]
channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(open(ca, 'rb').read()), [('grpc.http_proxy', proxy)])
print(channel.unary_unary('/ok/Unary')(b'you', timeout=60))
call = channel.stream_stream('/ok/Chat')(iter([b'one', b'two' * 100000]), timeout=60)
print([len(message) for message in call], [v for k, v in call.trailing_metadata() if k == 'x-end'])
try:
    channel.unary_unary('/other/Unary')(b'you', timeout=60)
except grpc.RpcError as error:
    print(error.code())
"""


def test_grpc(lab, start, run, authority):
    server = start(["/usr/bin/python3", "-c", GRPC_SERVER, authority.issue(HOST)])
    wait_until(lambda: server.output().strip() or not server.running(), 60 * SLOW, "the server")
    port = int(server.output().split()[0])
    done = run(["/usr/bin/python3", "-c", GRPC_CLIENT, f"http://127.0.0.1:{lab.gateway.port['http']}", f"{HOST}:{port}", lab.session_ca],
               timeout=120 * SLOW)
    assert done.text.splitlines() == ["b'hello you'", "[3, 300000] ['yes']", "StatusCode.PERMISSION_DENIED"], str(done)
    assert event(lab, path="/other/Unary")["reason"] == "path"


def test_nginx(lab, start, run, authority, tmp_path, free_port):
    port = free_port()
    (tmp_path / "file").write_bytes(b"from nginx\n" * 100000)
    user = "user root;" if os.geteuid() == 0 else ""
    (tmp_path / "nginx.conf").write_text(f"""{user} daemon off; pid {tmp_path}/pid; error_log stderr; events {{ }}
http {{ access_log off; client_body_temp_path {tmp_path}/a; proxy_temp_path {tmp_path}/b; fastcgi_temp_path {tmp_path}/c;
  uwsgi_temp_path {tmp_path}/d; scgi_temp_path {tmp_path}/e;
  server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {(pem := authority.issue(HOST))}; ssl_certificate_key {pem};
            location /ok/ {{ alias {tmp_path}/; }} }} }}""")
    server = start(["nginx", "-e", "stderr", "-p", tmp_path, "-c", tmp_path / "nginx.conf"])
    wait_until(lambda: not server.running() or (tmp_path / "pid").exists(), 30 * SLOW, "nginx")
    url = f"https://{HOST}:{port}"
    curl = ["curl", "-sS", "-m", "60", "--http2", "--cacert", lab.session_ca, "-x", f"http://127.0.0.1:{lab.gateway.port['http']}",
            "-w", "%{http_version} %{http_code}", "-Z", *[f"{url}/ok/file", "-o", tmp_path / "got"]]
    wait_until(lambda: run(curl).text.endswith("2 200"), 30 * SLOW, "nginx to answer")
    assert (tmp_path / "got").read_bytes() == b"from nginx\n" * 100000
    assert run([*curl[:-4], f"{url}/secret"]).text.endswith("2 403")
