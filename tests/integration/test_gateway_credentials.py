# SPDX-License-Identifier: Apache-2.0
"""Credentials in requests: the origin sees the secret, nobody else does. Real vault, real gateway, a TLS origin of the test's."""
import base64
import contextlib
import os
import pathlib
import re
import select
import socket
import ssl
import threading
import time
import urllib.parse

import pytest

from conftest import BUILD, program
from kit.gateway import Client, Gateway
from kit.process import open_files, wait_until

HOST, OTHER, PLAIN = "api.ok.test", "git.ok.test", "plain.ok.test"
SECRET = "sk-live-Zq8/Yt+3Kp=Xw5Nn7Bb2"
TOKEN = "ghp_Qw3rTy7uIoP9aSd2FgH4jKl6"
ROTATED = "sk-live-Mm1/Nn+2Oo=Pp3Qq4Rr5"


def answer(body, *headers, status="200 OK"):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def forms(secret):
    """Every form in which a secret must not come back."""
    raw = secret.encode()
    found = {raw, urllib.parse.quote(secret, safe="").encode()}
    for before in (b"", b"x", b"xx"):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(before + raw + b"yyy")
            found.add(text[(len(before) * 8 + 5) // 6:][:len(raw) * 8 // 6 - 1])
    return found


class Lab:
    def __init__(self, tmp_path, authority, origin, *words):
        self.origin, self.ca = origin, tmp_path / "session-ca.pem"
        port = origin.port
        self.gateway = Gateway(BUILD, [
            "http", "private=127.0.0.0/8:1-65535", f"vault={program('bailey-vault')}", f"ca={self.ca}", f"roots={authority.file}",
            *[f"allow={name}" for name in (HOST, OTHER, PLAIN)],
            f"credential=key|{HOST}:{port}|bearer,header:x-api-key,query:key,path|{SECRET}",
            f"credential=git|{OTHER}:{port}|bearer,basic|{TOKEN}", *words],
            [(name, "127.0.0.1") for name in (HOST, OTHER, PLAIN)], tmp_path)
        self.fake, self.fake_token = self.gateway.fakes["key"], self.gateway.fakes["git"]

    def open(self, host=HOST):
        sock = self.gateway.connect()
        sock.settimeout(60)
        sock.sendall(f"CONNECT {host}:{self.origin.port} HTTP/1.1\r\nHost: {host}:{self.origin.port}\r\n\r\n".encode())
        assert Client(sock).answer(head=True)[0] == 200
        context = ssl.create_default_context(cafile=self.ca)
        context.set_alpn_protocols(["http/1.1"])
        return context.wrap_socket(sock, server_hostname=host)

    def ask(self, target="/", *headers, host=HOST, method="GET", body=b""):
        """(status, headers, body) of one request, and every byte of the answer."""
        with self.open(host) as sock:
            lines = [f"{method} {target} HTTP/1.1", f"Host: {host}:{self.origin.port}", *headers]
            if body:
                lines.append(f"Content-Length: {len(body)}")
            sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            client = Client(sock)
            return (*client.answer(), client.received)

    def close(self):
        self.gateway.close()


@pytest.fixture
def lab(tmp_path, authority, make_origin, closing):
    def make(reply, *words):
        return closing(Lab(tmp_path, authority, make_origin(reply, tls=authority.context(HOST, OTHER)), *words))
    return make


def basic(text):
    return base64.b64encode(text.encode()).decode()


def head_of(request):
    return request.partition(b"\r\n\r\n")[0].decode()


def test_the_origin_sees_the_secret(lab):
    """Each slot of each host; the record names the credential and holds neither secret nor stand-in's place."""
    here = lab(answer(b"fine"))
    quoted, inside = urllib.parse.quote(SECRET, safe=""), urllib.parse.quote(here.fake, safe="")
    cases = [
        (HOST, "/a", f"Authorization: Bearer {here.fake}", f"Authorization: Bearer {SECRET}"),
        (HOST, "/b", f"x-api-key: {here.fake}", f"x-api-key: {SECRET}"),
        (HOST, f"/c?q=1&key={here.fake}&z", "X: y", f"GET /c?q=1&key={quoted}&z HTTP/1.1"),
        (HOST, f"/d/{inside}/e", "X: y", f"GET /d/{quoted}/e HTTP/1.1"),
        (OTHER, "/f", f"Authorization: Basic {basic('me:' + here.fake_token)}", f"Authorization: Basic {basic('me:' + TOKEN)}"),
        (OTHER, "/g", f"Authorization: Basic {basic(here.fake_token + ':x')}", f"Authorization: Basic {basic(TOKEN + ':x')}"),
        (OTHER, "/h", f"Authorization: token {here.fake_token}", f"Authorization: token {TOKEN}"),
    ]
    assert here.fake != SECRET and len(here.fake) == len(SECRET) and here.fake[:3] == SECRET[:3]
    for host, target, header, expected in cases:
        status, _, body, _ = here.ask(target, header, "Accept-Encoding: gzip, br", host=host)
        assert (status, body) == (200, b"fine"), target
        head = head_of(here.origin.requests()[-1])
        assert expected in head and here.fake not in head and here.fake_token not in head
        assert "accept-encoding: identity" in head.lower() and "gzip" not in head
        assert f"Host: {host}:{here.origin.port}" in head
    here.gateway.wait(lambda g: len([e for e in g.events if e["kind"] == "request"]) == len(cases))
    events = [e for e in here.gateway.events if e["kind"] == "request"]
    assert [e["swapped"] for e in events] == ["key"] * 4 + ["git"] * 3
    assert not any(form.decode() in str(events) for secret in (SECRET, TOKEN) for form in forms(secret))


def test_requests_without_a_stand_in_pass(lab):
    here = lab(answer(b"fine"))
    assert here.ask("/x?key=mine", "Authorization: Bearer mine", "User-Agent: me")[0] == 200
    head = head_of(here.origin.requests()[-1])
    assert "Authorization: Bearer mine" in head and "/x?key=mine " in head
    assert here.gateway.wait_event(kind="request")["swapped"] == ""


def test_a_stand_in_anywhere_else_is_refused(lab, make_origin):
    """Another host, another slot, twice, in part, hidden in a hop-by-hop header: 403, on record, and nothing left."""
    here = lab(answer(b"fine"))
    fake, token = here.fake, here.fake_token
    cases = [
        (OTHER, "/", [f"Authorization: Bearer {fake}"]), (HOST, "/", [f"Authorization: Bearer {token}"]),
        (HOST, "/", [f"User-Agent: {fake}"]), (HOST, f"/?q={fake}", []), (HOST, "/", [f"Cookie: a={fake}"]),
        (HOST, "/", [f"Authorization: Bearer {fake}x"]), (HOST, "/", [f"Authorization: Basic {basic(fake + ':')}"]),
        (HOST, "/", [f"Authorization: Bearer {fake}", "Authorization: Bearer x"]),
        (HOST, "/", ["Authorization: x", "Authorization: y"]), (HOST, f"/?key={fake}&key=1", []),
        (HOST, "/", ["Connection: x-api-key", f"x-api-key: {fake}"]), (HOST, "/", [f"X: {urllib.parse.quote(fake, safe='')}"]),
        (OTHER, "/", [f"X: {basic('a' + token)}"]), (HOST, "/", [f"x-{token}: 1"]),
    ]
    for host, target, headers in cases:
        status, fields, body, _ = here.ask(target, *headers, host=host)
        assert (status, fields["x-bailey-reason"]) == (403, "credential"), (target, headers)
        assert b"stand-in" in body or b"twice" in body
    assert here.origin.requests() == []
    here.gateway.wait(lambda g: len([e for e in g.events if e["kind"] == "request"]) == len(cases))
    assert all(not e["allowed"] and e["reason"] == "credential" for e in here.gateway.events if e["kind"] == "request")
    plain = make_origin(answer(b"fine"))
    for line in (f"Authorization: Bearer {fake}", f"X: {token}"):
        with here.gateway.connect() as sock:
            sock.sendall(f"GET http://{PLAIN}:{plain.port}/ HTTP/1.1\r\nHost: {PLAIN}:{plain.port}\r\n{line}\r\n\r\n".encode())
            status, fields, body = Client(sock).answer()
            assert (status, fields["x-bailey-reason"]) == (403, "credential") and b"unencrypted" in body
    assert plain.received() == b""


def test_bodies_are_not_changed(lab):
    here = lab(answer(b"fine"))
    body = f"token={here.fake}".encode()
    assert here.ask("/", f"x-api-key: {here.fake}", method="POST", body=body)[0] == 200
    assert here.origin.requests()[-1].endswith(b"\r\n\r\n" + body)


def echo_cases():
    quoted = urllib.parse.quote(SECRET, safe="")
    yield "plain", answer(f"<p>{SECRET}</p>".encode())
    yield "basic", answer(basic("user:" + SECRET).encode(), f"Location: https://x/?t={quoted}", f"Set-Cookie: k={SECRET}")
    yield "urlsafe", answer(base64.urlsafe_b64encode(b"ab" + SECRET.encode() + b"cd"), f"X-{'A' * 9}: {basic(SECRET)}")
    yield "until close", f"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{quoted}{SECRET}".encode()
    chunks = "".join(f"1;ext=1\r\n{c}\r\n" for c in "say " + SECRET + SECRET[:9])
    yield "chunks", f"HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\nTrailer: {SECRET}\r\n\r\n".encode()
    yield "error page", answer(f"bad key {SECRET[:-3]}{SECRET}".encode(), status="401 Unauthorized")
    yield "interim", f"HTTP/1.1 103 Early Hints\r\nLink: <{SECRET}>\r\n\r\n".encode() + answer(b"late")


def test_an_echo_does_not_come_back(lab):
    """Head and body, any form, any framing: what the origin repeats is the stand-in when it arrives."""
    here = lab(answer(b""))
    for name, reply in echo_cases():
        def once(sock, connection, reply=reply):
            connection.requests.append(sock.recv(65536))
            sock.sendall(reply)
        here.origin.raw = once
        with here.open() as sock:
            sock.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}:{here.origin.port}\r\nx-api-key: {here.fake}\r\n\r\n".encode())
            client, got = Client(sock), None
            while got is None or got[0] < 200:
                got = client.answer()
                assert got, name
        assert SECRET in head_of(here.origin.requests()[-1]), name
        assert not [form for form in forms(SECRET) if form in client.received], name
        if name in ("plain", "until close", "chunks", "error page"):
            assert here.fake[:8].encode() in client.received, name
        if name == "chunks":
            assert got[2] == f"say {here.fake}{SECRET[:9]}".encode()
        if name == "plain":
            assert got[2] == f"<p>{here.fake}</p>".encode()


def test_what_one_request_carried_another_does_not_show(lab):
    """The origin remembers; a later request without any credential gets no secret either."""
    seen = []

    def reply(request):
        seen.append(request)
        return answer(seen[0])
    here = lab(reply)
    here.ask("/", f"Authorization: Bearer {here.fake}")
    status, _, body, received = here.ask("/again")
    assert status == 200 and here.fake.encode() in body
    assert SECRET.encode() in seen[0] and SECRET.encode() not in received


def test_every_credential_of_a_host_is_looked_for(lab, make_origin, authority):
    """However many there are, and whichever the request had."""
    secrets = [f"value-of-number-{number:03}-{number * 7919:08x}" for number in range(100)]
    text = " ".join(secrets).encode()
    port = make_origin(answer(text), tls=authority.context(PLAIN)).port
    here = lab(answer(b""), *[f"credential=n{i}|{PLAIN}:{port}|header:x-{i}|{secret}" for i, secret in enumerate(secrets)])
    here.origin.port = port
    status, _, body, _ = here.ask("/", f"x-99: {here.gateway.fakes['n99']}", host=PLAIN)
    assert status == 200 and len(body) == len(text) and not [s for s in secrets if s.encode() in body]
    assert body == " ".join(here.gateway.fakes[f"n{i}"] for i in range(100)).encode()


def test_events_are_not_delayed(lab):
    """Server-sent events: each arrives before the next is sent, though their ends might begin a secret."""
    step = threading.Semaphore(0)

    def stream(sock, connection):
        while b"\r\n\r\n" not in connection.received:
            connection.received += sock.recv(65536)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number in range(5):
            text = f"data: {number} {SECRET if number == 3 else 'sk-live-'}\n\n".encode()
            sock.sendall(f"{len(text):x}\r\n".encode() + text + b"\r\n")
            assert step.acquire(timeout=60)
        sock.sendall(b"0\r\n\r\n")
    here = lab(answer(b""))
    here.origin.raw = stream
    with here.open() as sock:
        sock.sendall(f"GET /events HTTP/1.1\r\nHost: {HOST}:{here.origin.port}\r\nAuthorization: Bearer {here.fake}\r\n\r\n".encode())
        got = b""
        for number in range(5):
            while f"data: {number} ".encode() not in got or not got.endswith(b"\n\n\r\n"):
                data = sock.recv(65536)
                assert data
                got += data
            step.release()
        while not got.endswith(b"0\r\n\r\n"):
            got += sock.recv(65536)
    assert here.fake.encode() in got and SECRET.encode() not in got


def head_from(sock, connection):
    while b"\r\n\r\n" not in connection.received:
        connection.received += sock.recv(65536)
    return connection.received.partition(b"\r\n\r\n")


def until(sock, end):
    got = b""
    while end not in got:
        data = sock.recv(65536)
        assert data, got
        got += data
    return got


def test_a_websocket_is_searched(lab):
    """Both ways, over the borders of frames, also when a frame's last byte may begin a secret; without compression."""
    big = (SECRET + "." * 4000).encode() * 60

    def chat(sock, connection):
        _, _, early = head_from(sock, connection)
        sock.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-Key: {SECRET}\r\n\r\n{SECRET[:3]}".encode())
        while b"early" not in early:
            early += sock.recv(65536)
        sock.sendall(SECRET[3:].encode() + b" one s")
        assert sock.recv(65536) == b"go on"
        sock.sendall(big + b" two")
        assert sock.recv(65536) == b""  # the client has no more to say, and may still listen
        sock.sendall(f" last {SECRET[:-1]}".encode())
    here = lab(answer(b""))
    here.origin.raw = chat
    with here.open() as sock:
        sock.sendall(f"GET /chat HTTP/1.1\r\nHost: {HOST}:{here.origin.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                     f"Sec-WebSocket-Extensions: permessage-deflate\r\nx-api-key: {here.fake}\r\n\r\nearly".encode())
        got = until(sock, b" one s")
        sock.sendall(b"go on")
        got += until(sock, b" two")
        with pytest.raises(ssl.SSLError, match="APPLICATION_DATA_AFTER_CLOSE_NOTIFY"):
            sock.unwrap()
    head = head_of(here.origin.connections[-1].received)
    assert SECRET in head and "upgrade: websocket" in head.lower() and "extensions" not in head.lower()
    assert got.startswith(b"HTTP/1.1 101 ") and SECRET.encode() not in got
    assert got.endswith(f"{here.fake} one s".encode() + big.replace(SECRET.encode(), here.fake.encode()) + b" two")
    event = here.gateway.wait_event(seconds=20, kind="request", status=101)
    assert event["swapped"] == "key" and event["bytes_in"] > len(big) and event["bytes_out"] > 10


def test_a_websocket_with_compression_is_refused(lab):
    here = lab(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
    status, _, body, _ = here.ask("/", "Connection: Upgrade", "Upgrade: websocket", f"x-api-key: {here.fake}")
    assert status == 502 and b"compressed" in body


def test_nobody_waits_for_a_byte_that_is_held(lab):
    """A message whose last byte may begin a secret arrives before the next is sent; an origin that stops in the middle of a
    secret does not get it out."""
    step = threading.Semaphore(0)

    def stream(sock, connection):
        head_from(sock, connection)
        sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for part in ("one s", "two sk-", SECRET[:-1], SECRET[-1], "end"):
            sock.sendall(f"{len(part):x}\r\n{part}\r\n".encode())
            if part[:3] in ("one", "two"):
                assert step.acquire(timeout=60)
        sock.sendall(b"0\r\n\r\n")
    here = lab(answer(b""))
    here.origin.raw = stream
    with here.open() as sock:
        sock.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}:{here.origin.port}\r\nx-api-key: {here.fake}\r\n\r\n".encode())
        got = b""
        for end in (b"s\r\n", b"-\r\n"):
            while not got.endswith(end):
                data = sock.recv(65536)
                assert data, got
                got += data
            step.release()
        got += until(sock, b"0\r\n\r\n")
    text = re.sub(rb"(?:^|\r\n)[0-9a-f]+\r\n", b"", got.partition(b"\r\n\r\n")[2])
    assert text.startswith(f"one stwo sk-{here.fake}end".encode()), got


def test_an_origin_that_breaks_off_while_bytes_are_held(lab):
    """The response had begun: its connection is cut, and no answer of ours is put into its body."""
    def stop(sock, connection):
        head_from(sock, connection)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        assert step.acquire(timeout=60)
        sock.sendall(SECRET[:12].encode())
    step = threading.Semaphore(0)
    here = lab(answer(b""))
    here.origin.raw = stop
    with here.open() as sock:
        sock.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}:{here.origin.port}\r\nx-api-key: {here.fake}\r\n\r\n".encode())
        got = until(sock, b"\r\n\r\n")
        step.release()
        with contextlib.suppress(OSError):  # a reset
            while data := sock.recv(65536):
                got += data
    assert got.count(b"HTTP/1.1") == 1 and b"x-bailey-reason" not in got, got


def test_a_new_value_counts_at_once(lab):
    """On one connection: no request with the old value after the switch, none fails; a dead vault refuses, then it is back."""
    here = lab(answer(b"fine"))
    with here.open() as sock:
        client = Client(sock)

        def ask():
            sock.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}:{here.origin.port}\r\nx-api-key: {here.fake}\r\n\r\n".encode())
            return client.answer()[0]
        assert ask() == 200 and SECRET in head_of(here.origin.requests()[-1])
        here.gateway.say(f"value key {ROTATED}")
        for _ in range(200):
            assert ask() == 200
            if ROTATED in head_of(here.origin.requests()[-1]):
                break
        heads = [head_of(r) for r in here.origin.requests()]
        assert ROTATED in heads[-1]
        assert ask() == 200 and ROTATED in head_of(here.origin.requests()[-1])
        count = len(here.origin.requests())
        here.gateway.say("kill-vault")
        for _ in range(200):
            status = ask()
            if status == 503:
                break
        assert status == 503
        refused = len(here.origin.requests())
        assert ask() == 503 and len(here.origin.requests()) == refused and refused >= count
        here.gateway.wait(lambda g: [e for e in g.events if e["kind"] == "request" and e["status"] == 503])
        assert {e["swapped"] for e in here.gateway.events if e["kind"] == "request" and e["status"] == 503} == {""}
        here.gateway.say("start-vault")
        for _ in range(400):
            status = ask()
            if status == 200:
                break
        assert status == 200 and ROTATED in head_of(here.origin.requests()[-1])


def test_a_value_that_was_replaced_is_still_looked_for(lab):
    """The origin has the old one, and shows it after the switch: to the same connection, and to another worker's that never had it."""
    seen = []

    def reply(request):
        seen.append(request)
        return answer(f"{SECRET} {basic('x:' + SECRET)}".encode())
    here = lab(reply, "workers=2")
    with contextlib.ExitStack() as stack:
        clients = [Client(stack.enter_context(here.open())) for _ in range(4)]

        def ask(client):
            client.sock.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}:{here.origin.port}\r\nx-api-key: {here.fake}\r\n\r\n".encode())
            status, _, body = client.answer()
            assert status == 200 and body.startswith(here.fake.encode()), body
        ask(clients[0])
        here.gateway.say(f"value key {ROTATED}")
        wait_until(lambda: ask(clients[0]) or ROTATED.encode() in seen[-1], 30, "the new value")
        for client in clients:
            ask(client)
            assert ROTATED.encode() in seen[-1]
            assert not [form for form in forms(SECRET) if form in client.received]


def test_rotation_under_load(lab):
    """Many connections at once: none fails, and what begins after the new value was seen has the new value."""
    first_seen, lock, failed = [], threading.Lock(), []

    def reply(request):
        with lock:
            if ROTATED.encode() in request and not first_seen:
                first_seen.append(time.monotonic())
        return answer(b"new" if ROTATED.encode() in request else b"old" if SECRET.encode() in request else b"none")
    here = lab(reply, "workers=2")
    asked = [0] * 6

    def load(index):
        try:
            with here.open() as sock:
                client = Client(sock)
                while asked[index] < 3000 and not (first_seen and time.monotonic() > first_seen[0] + 0.5):
                    began = time.monotonic()
                    sock.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}:{here.origin.port}\r\nx-api-key: {here.fake}\r\n\r\n".encode())
                    status, _, body = client.answer()
                    asked[index] += 1
                    if status != 200 or body not in ((b"new",) if first_seen and began > first_seen[0] else (b"new", b"old")):
                        failed.append((status, body))
        except Exception as problem:  # noqa: BLE001 (told below)
            failed.append(problem)
    threads = [threading.Thread(target=load, args=(index,)) for index in range(len(asked))]
    for thread in threads:
        thread.start()
    while min(asked) < 5 and not failed:
        time.sleep(0.01)
    here.gateway.say(f"value key {ROTATED}")
    for thread in threads:
        thread.join(60)
    assert not failed and first_seen, failed[:3]


def test_a_value_that_never_rests(lab):
    """The value changes while requests are between the look at it and its use: none fails, none goes back to an older one."""
    values = [f"{ROTATED[:-4]}{number:04}" for number in range(400)]

    def reply(request):
        found = [value for value in (SECRET, *values) if value.encode() in request]
        return answer(found[0].encode()[-4:] if len(found) == 1 and found[0] != SECRET else b"-001")
    here = lab(reply, "workers=2")
    failed, over, asked = [], threading.Event(), [0] * 4

    def load(index):
        newest = -1
        try:
            with here.open() as sock:
                client = Client(sock)
                while not over.is_set():
                    sock.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}:{here.origin.port}\r\nx-api-key: {here.fake}\r\n\r\n".encode())
                    status, _, body = client.answer()
                    asked[index] += 1
                    if status != 200 or int(body.replace(b"-001", b"-1")) < newest:
                        failed.append((status, body, newest))
                        break
                    newest = int(body.replace(b"-001", b"-1"))
        except Exception as problem:  # noqa: BLE001 (told below)
            failed.append(problem)
    threads = [threading.Thread(target=load, args=(index,)) for index in range(len(asked))]
    for thread in threads:
        thread.start()
    for value in values:
        here.gateway.say(f"value key {value}")
        before = sum(asked)
        wait_until(lambda: sum(asked) >= before + 3 or failed, 60, "requests between two values")
    over.set()
    for thread in threads:
        thread.join(60)
    assert not failed, failed[:3]


def test_in_flight(lab):
    """What was sent behind a refused request is judged by itself; a new policy and a dead vault cut nothing short that may go on,
    and let nothing through that may not."""
    step = threading.Semaphore(0)

    def slow(request):
        if b"/slow" in request:
            assert step.acquire(timeout=60)
        return answer(b"fine")
    here = lab(slow)

    def request(target, header):
        return f"GET {target} HTTP/1.1\r\nHost: {HOST}:{here.origin.port}\r\n{header}\r\n\r\n".encode()
    good, bad = f"x-api-key: {here.fake}", f"x-other: {here.fake}"
    with here.open() as sock:
        sock.sendall(request("/a", good) + request("/b", bad) + request("/c", good) + request("/d", "X: y"))
        client = Client(sock)
        assert [client.answer()[0] for _ in range(4)] == [200, 403, 200, 200]
        assert [head_of(r).split()[1] for r in here.origin.requests()] == ["/a", "/c", "/d"]
        sock.sendall(request("/slow", good))  # the vault dies while the origin thinks
        while len(here.origin.requests()) < 4:
            time.sleep(0.01)
        here.gateway.say("kill-vault")
        step.release()
        assert client.answer()[0] == 200
        for _ in range(400):
            sock.sendall(request("/e", good))
            if (status := client.answer()[0]) == 503:
                break
        assert status == 503
        here.gateway.say("start-vault")
        for _ in range(400):
            sock.sendall(request("/f", good))
            if (status := client.answer()[0]) == 200:
                break
        assert status == 200
        sock.sendall(request("/slow", good))  # the host is refused from now on, while the origin thinks
        count = len(here.origin.requests())
        while not [r for r in here.origin.requests()[-1:] if b"/slow" in r]:
            time.sleep(0.01)
        here.gateway.say(f"policy deny={HOST}")
        with contextlib.suppress(OSError):
            assert client.answer() is None  # cut
        step.release()
    assert len(here.origin.requests()) <= count + 1


def test_behind_another_proxy(tmp_path, authority, make_origin, closing):
    """The corporate proxy carries TLS: it sees neither secret nor stand-in, and cannot put another origin in between."""
    real, evil = (make_origin(answer(b"fine", "Connection: close"), tls=authority.context(name)) for name in (HOST, "evil.test"))
    to, seen = [real.port], []

    def proxy(sock, connection):
        head, _, _ = head_from(sock, connection)
        seen.append(head)
        sock.sendall(b"HTTP/1.1 200 Fine\r\n\r\n")
        with socket.create_connection(("127.0.0.1", to[0]), 20) as out:
            ends = {sock: out, out: sock}
            while True:
                for one in select.select(list(ends), [], [], 20)[0]:
                    data = one.recv(65536)
                    if not data:
                        return
                    seen.append(data)
                    ends[one].sendall(data)
    middle = make_origin(raw=proxy)
    here = closing(Lab(tmp_path, authority, real, f"upstream=http:{middle.port}"))
    got = here.ask("/", f"x-api-key: {here.fake}")
    assert got[0] == 200, got
    assert SECRET in head_of(real.requests()[-1]) and seen[0].startswith(f"CONNECT {HOST}:".encode())
    to[0] = evil.port
    status, fields, _, _ = here.ask("/", f"x-api-key: {here.fake}")
    assert (status, fields["x-bailey-reason"]) == (502, "certificate")
    assert evil.received() == b"" and not [f for s in (SECRET, here.fake) for f in forms(s) if f in b"".join(seen)]


def test_an_origin_without_a_good_certificate_gets_nothing(tmp_path, authority, make_origin, closing):
    other = authority.context("evil.test")
    here = closing(Lab(tmp_path, authority, make_origin(answer(b"fine"), tls=other)))
    status, fields, _, _ = here.ask("/", f"x-api-key: {here.fake}")
    assert (status, fields["x-bailey-reason"]) == (502, "certificate")
    assert here.origin.received() == b""


@pytest.mark.exact_build
def test_processes_show_nothing(lab):
    """Gateway and vault: nothing in their environment, arguments or open files, and no core file is ever written."""
    here = lab(answer(b"fine"))
    assert here.ask("/", f"x-api-key: {here.fake}")[0] == 200
    for pid in (here.gateway.pid, here.gateway.vault):
        place = pathlib.Path(f"/proc/{pid}")
        assert re.search(r"Max core file size +0 +0 ", (place / "limits").read_text())
        assert SECRET.encode() not in (place / "cmdline").read_bytes()
        if os.geteuid() == 0:
            assert SECRET.encode() not in (place / "environ").read_bytes()
            names = open_files(pid)
            assert not [name for name in names if name.startswith("/") and not name.startswith(("/dev/", "/memfd:", "/secretmem"))], names
        else:
            with pytest.raises(PermissionError):  # not dumpable: nobody of the same account looks inside
                (place / "mem").open("rb")


def memory_with(pid, needles):
    """Where in a process's memory they are: (needle, mapping, whether it is locked), as far as the kernel lets root look."""
    found = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        smaps = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", pathlib.Path(f"/proc/{pid}/smaps").read_text(), flags=re.M)
        for text in smaps[1:]:
            begin, end = (int(number, 16) for number in text.split()[0].split("-"))
            if text.split()[1][0] != "r" or "/secretmem" in text or "[vvar" in text:
                continue
            try:
                memory.seek(begin)
                data = memory.read(end - begin)
            except OSError:
                continue
            flags = re.search(r"VmFlags: (.*)", text)[1].split()
            found += [(needle, text.splitlines()[0], "lo" in flags) for needle in needles if needle in data]
    return found


@pytest.mark.root
@pytest.mark.exact_build
def test_memory_holds_no_copies(lab):
    """After requests of all kinds, with bodies and echoes: a secret is in locked memory, or nowhere."""
    here = lab(lambda request: answer(b"fine" if b"POST" in request else b"no", status="401 No" if b"GET /b" in request else "200 OK"))
    for method, target, header, body in (("GET", "/a", f"Authorization: Bearer {here.fake}", b""), ("GET", "/b", f"x-api-key: {here.fake}", b""),
                                         ("POST", "/c", f"x-api-key: {here.fake}", b"body" * 100), ("GET", f"/d?key={here.fake}", "X: y", b"")):
        assert here.ask(target, header, method=method, body=body)[0] in (200, 401)
    assert here.ask("/", f"Authorization: Basic {basic('me:' + here.fake_token)}", host=OTHER)[0] == 200
    assert len(here.origin.requests()) == 5 and all(s.encode() in here.origin.received() for s in (SECRET, basic("me:" + TOKEN)))
    needles = [SECRET[7:].encode(), TOKEN[4:].encode(), basic("me:" + TOKEN)[8:-4].encode(), urllib.parse.quote(SECRET, safe="")[7:].encode()]
    assert here.fake.encode() in {n for n, _, _ in memory_with(here.gateway.pid, [here.fake.encode()])}  # it can be looked at
    for pid in (here.gateway.pid, here.gateway.vault):
        assert not [place for _, place, locked in memory_with(pid, needles) if not locked]


# --- the API proxy ---

def api(here, target, *headers, host="127.0.0.1", method="GET", body=b""):
    with here.gateway.connect("api") as sock:
        sock.settimeout(60)
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}:{here.gateway.port['api']}", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        client = Client(sock)
        return (*client.answer(), client.received)


def test_api_proxy_injects_and_keeps_the_path(lab):
    here = lab(lambda request: answer(request), "api")
    status, _, body, received = api(here, "/key/v1/chat/completions?stream=1", f"Authorization: Bearer {here.fake}", method="POST",
                                    body=b'{"stream":true}')
    request = here.origin.requests()[-1]
    assert status == 200 and request.startswith(b"POST /v1/chat/completions?stream=1 HTTP/1.1\r\n")
    assert f"Host: {HOST}:{here.origin.port}" in head_of(request) and f"Bearer {SECRET}" in head_of(request)
    assert request.endswith(b'{"stream":true}') and here.origin.connections[-1].server_name == HOST
    assert SECRET.encode() not in received and here.fake.encode() in body
    event = here.gateway.wait_event(kind="request")
    assert (event["via"], event["scheme"], event["domain"], event["path"], event["swapped"]) == (
        "api", "https", HOST, "/v1/chat/completions", "key")
    for target, sent in (("/key", "GET / "), ("/key?a", "GET /?a "), ("/key/", "GET / ")):
        assert api(here, target, f"x-api-key: {here.fake}")[0] == 200
        assert head_of(here.origin.requests()[-1]).startswith(sent)


API_PATHS = [
    ("//evil.test/v1", None, 400), ("/key/../git/x", None, 400), ("/key/%2e%2e/git", None, 400), ("/key/..%2fgit", None, 400),
    ("/key/%2E./x", None, 400), ("/key/\\..\\x", None, 400), ("/key/%5c..", None, 400), ("/key//evil.test", None, 400),
    ("/key/./x", None, 400), ("/key/%252e%252e/git", None, 400), ("/ke%79/x", None, 404), ("/nosuch/x", None, 404), ("/", None, 404),
    ("/KEY/x", None, 404), ("http://api.ok.test/key/", None, 400), ("/key/x", "evil.test", 421), ("/key/x", "api.ok.test", 421),
]


def test_api_proxy_takes_plain_paths_only(lab):
    here = lab(answer(b"fine"), "api")
    for target, host, status in API_PATHS:
        assert api(here, target, f"Authorization: Bearer {here.fake}", host=host or "127.0.0.1")[0] == status, target
    assert here.origin.received() == b""


def test_api_proxy_wants_the_stand_in(lab):
    """Nothing, another key, the stand-in of another service: the key is not lent."""
    here = lab(answer(b"fine"), "api")
    for headers in ([], ["Authorization: Bearer unused"], [f"Authorization: Bearer {here.fake_token}"], ["x-api-key: "]):
        status, fields, body, _ = api(here, "/key/v1/models", *headers)
        assert (status, fields["x-bailey-reason"]) == (403, "credential") and b"stand-in" in body
    assert here.origin.requests() == []
    assert api(here, "/git/user", f"Authorization: Bearer {here.fake_token}")[0] == 200
