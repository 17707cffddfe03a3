# SPDX-License-Identifier: Apache-2.0
"""The gateway alone, driven by gateway-driver: tunnels, SOCKS5, names inside tunnels, limits, reloads, questions, faults."""
import base64
import concurrent.futures
import json
import os
import queue
import re
import resource
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest

from conftest import BUILD
from kit.dns import SERVFAIL, Answer
from kit.netns import Namespace
from kit.origin import REPLY
from kit.process import PATIENCE, SLOW, open_files

DRIVER = BUILD / "tests/tools/gateway-driver"
GATEWAY = BUILD / "src/gateway/bailey-gateway"


POLICY_WORDS = ("allow=", "deny=", "private=")


def as_line(line):
    """An event as one line of words, for patterns; messages of the gateway are lines already."""
    if not line.startswith("{"):
        return line
    e = json.loads(line)
    return (f"event {e['kind']} {e['via']} {'allowed' if e['allowed'] else 'refused'} {e['domain'] or '-'} {e['port']} "
            f"reason={e['reason']} status={e['status']} in={e['bytes_in']} out={e['bytes_out']} conn={e['connection']}")


class Lab:
    """A running gateway. What gateway-driver prints is kept as lines; wait_for() finds one by pattern."""

    def __init__(self, words, env, preexec=None, pass_fds=()):
        self.policy = [word for word in words if word.startswith(POLICY_WORDS)]
        self.process = subprocess.Popen([DRIVER, GATEWAY, *words], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1, preexec_fn=preexec, pass_fds=pass_fds)
        self.lines, self.ports, self._queue = [], {}, queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.pid = int(self.wait_for(r"^pid (\d+)").group(1))
        self.wait_for(r"^ready")
        for line in self.lines:
            if match := re.match(r"listen (\S+) (\d+)", line):
                self.ports[match.group(1)] = int(match.group(2))

    def _read(self):
        for line in self.process.stdout:
            self._queue.put(as_line(line.rstrip("\n")))
        self._queue.put(None)

    def wait_for(self, pattern, timeout=PATIENCE):
        for line in self.lines:
            if match := re.search(pattern, line):
                return match
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            try:
                line = self._queue.get(timeout=left)
            except queue.Empty:
                break
            assert line is not None, f"the gateway has ended; waited for {pattern}: {self.lines}"
            self.lines.append(line)
            if match := re.search(pattern, line):
                return match
        raise AssertionError(f"no line like {pattern} in {self.lines}")

    def say(self, *lines):
        for line in lines:
            self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def reload(self, generation, *words, clear=False):
        """With these words besides those so far, or instead of them."""
        self.policy = [*([] if clear else self.policy), *words]
        self.say(" ".join(["policy", *self.policy]))
        self.wait_for(rf"^swapped 0 {generation}\b")

    def forget(self):
        while not self._queue.empty():
            self._queue.get()
        self.lines.clear()

    def close(self):
        self.process.stdin.close()
        try:
            status = self.process.wait(PATIENCE)
        finally:
            self.process.kill()
        self._reader.join(10)
        self.process.stdout.close()
        assert status == 0
        left = []
        while (line := self._queue.get(timeout=PATIENCE)) is not None:
            left.append(line)
        assert "ended 0" in left, f"the gateway did not end well: {self.lines[-5:]} {left[-5:]}"

    # clients

    def connect(self, kind):
        return socket.create_connection(("127.0.0.1", self.ports[kind]), timeout=PATIENCE)

    def socks(self, host, port, ahead=b""):
        """Greets and asks; returns the socket and the reply code."""
        s = self.connect("socks")
        name = host if isinstance(host, bytes) else host.encode()
        s.sendall(b"\5\1\0")
        assert s.recv(2) == b"\5\0"
        s.sendall(b"\5\1\0\3" + bytes([len(name)]) + name + struct.pack("!H", port) + ahead)
        return s, reply_of(s)

    def tunnel(self, host, port):
        """CONNECT; returns the socket and the status."""
        s = self.connect("http")
        s.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            part = s.recv(1)
            if not part:
                break
            head += part
        return s, int(head.split()[1])


def exactly(s, n):
    data = b""
    while len(data) < n:
        part = s.recv(n - len(data))
        if not part:
            break
        data += part
    return data


def reply_of(s):
    head = exactly(s, 4)
    assert len(head) == 4 and head[0] == 5, head
    exactly(s, {1: 6, 4: 18}[head[3]])
    return head[1]


def ended(s):
    """Whether the peer has closed or reset, reading what is left."""
    try:
        while s.recv(65536):
            pass
        return True
    except ConnectionError:
        return True


@pytest.fixture
def hosts(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("127.0.0.1 api.ok.test www.ok.test evil.test late.test\n127.0.0.1 mixed.ok.test\n10.9.9.9 mixed.ok.test\n")
    return path


@pytest.fixture
def lab(environment, hosts, closing):
    def start(*words, preexec=None):
        return closing(Lab(["http", "socks", f"hosts={hosts}", *words], environment, preexec))
    return start


@pytest.fixture
def open_lab(lab):
    """Everything under ok.test, and loopback opened for it."""
    return lambda *words: lab("allow=*.ok.test", "private=127.0.0.0/8:1-65535", *words)


def echo(sock, connection):
    while data := sock.recv(65536):
        connection.received += data
        sock.sendall(data)


# SOCKS5


def test_socks_tunnel_carries_bytes_both_ways_and_half_close(open_lab, make_origin):
    def count(sock, connection):
        while data := sock.recv(65536):
            connection.received += data
        sock.sendall(f"{len(connection.received)} bytes".encode())

    origin = make_origin(raw=count)
    lab = open_lab()
    s, code = lab.socks("API.ok.test.", origin.port, ahead=b"\0sent ahead")
    assert code == 0
    s.sendall(b" and after")
    s.shutdown(socket.SHUT_WR)
    assert exactly(s, 8) == b"21 bytes"
    assert ended(s)
    lab.wait_for(rf"tunnel-close socks5 allowed api.ok.test {origin.port} reason=allowed\S* status=0 in=8 out=21")


@pytest.mark.parametrize("host, code", [
    ("evil.test", 2), (b"evil.test\0.ok.test", 2), (b"", 2), ("127.0.0.1", 2), ("0x7f.1", 2), ("evilok.test", 2), ("ok.test", 2),
    ("mixed.ok.test", 2), ("absent.ok.test", 1), ("a" * 64 + ".ok.test", 2), ("ä.ok.test", 2),
])
def test_socks_refusals(lab, origin, make_dns, host, code):
    lab = lab("allow=*.ok.test", f"server={make_dns({}).port}")
    s, got = lab.socks(host, origin.port)
    assert got == code
    assert ended(s)
    assert origin.connections == []
    lab.wait_for(r"event tunnel-open socks5")


@pytest.fixture
def make_dns(closing):
    from kit.dns import DnsServer
    return lambda table: closing(DnsServer(table))


def test_socks_literal_addresses_are_judged_as_addresses(lab, origin):
    lab = lab("allow=*.ok.test", f"private=127.0.0.1:{origin.port}", "allow=127.0.0.1")
    for request, code in [(b"\5\1\0\1\x7f\0\0\1", 0), (b"\5\1\0\1\x7f\0\0\2", 2), (b"\5\1\0\4" + b"\0" * 15 + b"\1", 2),
                          (b"\5\1\0\4" + b"\0" * 10 + b"\xff\xff\xa9\xfe\xa9\xfe", 2)]:
        s = lab.connect("socks")
        s.sendall(b"\5\1\0" + request + struct.pack("!H", origin.port))
        assert exactly(s, 2) == b"\5\0"
        assert reply_of(s) == code, request
        s.close()


def test_socks_port_speaks_http_to_http(open_lab):
    s = open_lab().connect("socks")
    s.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert exactly(s, 12) == b"HTTP/1.1 400"


@pytest.mark.parametrize("sent, answer", [
    (b"\5\1\2", b"\5\xff"), (b"\5\0", b"\5\xff"), (b"\4\1", b""), (b"get / HTTP/1.1\r\n\r\n", b""),
    (b"\5\1\0\5\2\0\1\x7f\0\0\1\0\x50", b"\5\0\5\7\0\1" + b"\0" * 6),
    (b"\5\1\0\5\3\0\1\x7f\0\0\1\0\x50", b"\5\0\5\7\0\1" + b"\0" * 6),
    (b"\5\1\0\5\1\0\2\x7f\0\0\1\0\x50", b"\5\0\5\x08\0\1" + b"\0" * 6),
    (b"\5\1\0\5\1\0\1\x7f\0\0\1\0\0", b"\5\0\5\1\0\1" + b"\0" * 6),
    (b"\5\1\0\5\1\1\1\x7f\0\0\1\0\x50", b"\5\0"), (b"\5\1\0\4\1\0", b"\5\0"),
])
def test_socks_odd_requests(open_lab, sent, answer):
    lab = open_lab()
    s = lab.connect("socks")
    s.sendall(sent)
    got = b""
    try:
        while data := s.recv(100):
            got += data
    except ConnectionError:
        pass
    assert got == answer
    lab.wait_for(r"^event tunnel-open socks5 refused .*reason=protocol")


def test_socks_one_byte_at_a_time_and_too_slow(open_lab, origin):
    lab = open_lab("header=700ms")
    message = b"\5\1\0" + b"\5\1\0\3\x0bapi.ok.test" + struct.pack("!H", origin.port)
    s = lab.connect("socks")
    for byte in message:
        s.send(bytes([byte]))
    assert exactly(s, 2) == b"\5\0"
    assert reply_of(s) == 0
    slow = lab.connect("socks")
    slow.sendall(b"\5\1\0\5\1\0\3\xff")
    assert exactly(slow, 2) == b"\5\0"
    started = time.monotonic()
    assert ended(slow)
    assert 0.3 < time.monotonic() - started < 3 * SLOW
    s.sendall(b"GET / HTTP/1.1\r\nHost: api.ok.test\r\n\r\n")
    assert exactly(s, 15) == b"HTTP/1.1 200 OK"


def test_socks_upstream_failures_have_their_codes(open_lab, free_port):
    lab = open_lab("connect=800ms", "private=10.255.255.1:1-65535")
    assert lab.socks("api.ok.test", free_port())[1] == 5
    full = socket.socket()  # a listener whose queue is full never answers
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    fill = [socket.socket() for _ in range(4)]
    for s in fill:
        s.setblocking(False)
        s.connect_ex(full.getsockname())
    assert lab.socks("api.ok.test", full.getsockname()[1])[1] == 6
    for s in [*fill, full]:
        s.close()


# names inside tunnels


def hello(name):
    """A ClientHello with this server name, made by OpenSSL."""
    context = ssl.create_default_context()
    out = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


@pytest.mark.parametrize("via", ["socks", "tunnel"])
def test_the_name_in_the_tls_greeting_must_agree(open_lab, make_origin, via):
    origin = make_origin(raw=echo)
    lab = open_lab()
    greeting = hello("api.ok.test")
    s, _ = getattr(lab, via)("api.ok.test", origin.port)
    for byte in greeting:
        s.send(bytes([byte]))
    assert exactly(s, len(greeting)) == greeting
    s.close()
    before = origin.received()
    s, _ = getattr(lab, via)("api.ok.test", origin.port)
    s.sendall(hello("evil.test"))
    assert ended(s)
    lab.wait_for(r"tunnel-close \S+ refused api.ok.test \d+ reason=fronting status=0 in=0 out=0")
    assert origin.received() == before


@pytest.mark.parametrize("via", ["socks", "tunnel"])
def test_an_address_is_no_way_around_the_rules_of_a_name(lab, make_origin, via):
    """The address is open. Names behind it are free, but not those that are denied or whose requests must be seen."""
    origin = make_origin(raw=echo)
    lab = lab("private=127.0.0.0/8:1-65535", "rule=api.ok.test:1-65535|GET|/ok/**", "deny=evil.test")
    for name in ("www.ok.test", "api.ok.test", "API.ok.test.", "evil.test"):
        for greeting in (hello(name), f"POST /x HTTP/1.1\r\nHost: {name}\r\nContent-Length: 0\r\n\r\n".encode()):
            before = origin.received()
            s, _ = getattr(lab, via)("127.0.0.1", origin.port)
            s.sendall(greeting)
            if name == "www.ok.test":
                assert exactly(s, len(greeting)) == greeting
            else:
                assert ended(s), name
                lab.wait_for(r"tunnel-close \S+ refused 127.0.0.1 \d+ reason=fronting status=0 in=0 out=0")
                lab.forget()
                assert origin.received() == before
            s.close()


@pytest.mark.parametrize("via", ["socks", "tunnel"])
def test_the_host_of_every_plain_request_must_agree(open_lab, origin, via):
    lab = open_lab()
    s, _ = getattr(lab, via)("api.ok.test", origin.port)
    good = b"GET /1 HTTP/1.1\r\nHost: api.ok.test\r\n\r\n"
    body = b"GET /x HTTP/1.1\r\nHost: evil.test\r\n\r\n"  # data, whatever it looks like
    post = b"POST /2 HTTP/1.1\r\nHost: api.ok.test\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    chunked = b"POST /3 HTTP/1.1\r\nHost: api.ok.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    evil = b"GET /4 HTTP/1.1\r\nHost: evil.test\r\n\r\n"
    for request in [good, post, chunked]:
        s.sendall(request)
        assert exactly(s, len(REPLY)) == REPLY
    s.sendall(good + evil)
    ended(s)
    lab.wait_for(r"tunnel-close \S+ refused api.ok.test \d+ reason=fronting")
    assert b"/4" not in origin.received()
    assert origin.received().count(b"Host: api.ok.test") >= 3


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", b"GET / HTTP/1.1\nHost: evil.test\n\n",
                                   b"GET / HTTP/1.1\r\nHost: api.ok.test\r\nHost: evil.test\r\n\r\n",
                                   b"GET http://evil.test/ HTTP/1.1\r\nHost: api.ok.test\r\n\r\n"])
def test_a_wrong_first_request_never_leaves(open_lab, origin, first):
    lab = open_lab()
    s, _ = lab.socks("api.ok.test", origin.port)
    s.sendall(first)
    assert ended(s)
    lab.wait_for(r"tunnel-close \S+ refused api.ok.test")
    assert origin.received() == b""


def test_a_server_that_speaks_first_is_heard(open_lab, make_origin):
    def smtp(sock, connection):
        sock.sendall(b"220 ready\r\n")
        connection.received += sock.recv(100)
        sock.sendall(b"250 ok\r\n")

    origin = make_origin(raw=smtp)
    lab = open_lab()
    s, _ = lab.tunnel("api.ok.test", origin.port)
    assert exactly(s, 11) == b"220 ready\r\n"
    s.sendall(b"EHLO me\r\n")
    assert exactly(s, 8) == b"250 ok\r\n"


def test_a_greeting_that_never_completes_is_closed(open_lab, make_origin):
    origin = make_origin(raw=echo)
    lab = open_lab("header=500ms")
    s, _ = lab.socks("api.ok.test", origin.port)
    s.sendall(hello("api.ok.test")[:50])
    assert ended(s)
    assert origin.received() == b""


# policy


def test_reload_closes_what_is_refused_now_and_leaves_the_rest(open_lab, make_origin):
    origin = make_origin(raw=echo)
    lab = open_lab()
    doomed, _ = lab.socks("www.ok.test", origin.port)
    kept, _ = lab.socks("api.ok.test", origin.port)
    for s in (doomed, kept):
        s.sendall(b"\0before")
        assert exactly(s, 7) == b"\0before"
    lab.reload(2, "deny=www.ok.test")
    assert ended(doomed)
    kept.sendall(b"after")
    assert exactly(kept, 5) == b"after"
    lab.wait_for(r"tunnel-close socks5 refused www.ok.test \d+ reason=deny-rule")
    assert lab.socks("www.ok.test", origin.port)[1] == 2
    lab.reload(3, "allow=www.ok.test", "private=127.0.0.0/8:1-65535", clear=True)
    assert ended(kept)
    assert lab.socks("www.ok.test", origin.port)[1] == 0


def test_a_question_is_asked_once_and_answered_for_all(lab, origin):
    lab = lab("can-ask", "private=127.0.0.0/8:1-65535", "ask-time=20000ms")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(lab.socks, "late.test", origin.port) for _ in range(8)]
        ask = lab.wait_for(rf"^ask (\d+) \d+ late.test:{origin.port}")
        time.sleep(0.3)
        assert not any(w.done() for w in waiting)
        lab.say(f"answer {ask.group(1)} 1")
        assert {w.result(60)[1] for w in waiting} == {0}
    time.sleep(0.1)
    assert sum(line.startswith("ask ") for line in lab.lines) == 1
    for w in waiting:
        w.result()[0].close()
    s, code = None, None
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        lab.forget()
        later = pool.submit(lab.socks, "late.test", origin.port)
        ask = lab.wait_for(r"^ask (\d+)")
        lab.say(f"answer {ask.group(1)} 0")
        s, code = later.result(10)
    assert code == 2
    s.close()


def test_a_question_ends_with_its_time_or_its_client_or_the_policy(lab, origin):
    lab = lab("can-ask", "private=127.0.0.0/8:1-65535", "ask-time=600ms")
    started = time.monotonic()
    assert lab.socks("late.test", origin.port)[1] == 2
    assert 0.5 < time.monotonic() - started < 4 * SLOW
    first = lab.wait_for(r"^ask (\d+)").group(1)
    lab.wait_for(rf"^ask-gone {first}\b")
    lab.forget()
    s = lab.connect("socks")
    s.sendall(b"\5\1\0\5\1\0\3\x09late.test" + struct.pack("!H", origin.port))
    second = lab.wait_for(r"^ask (\d+)").group(1)
    s.close()
    lab.wait_for(rf"^ask-gone {second}\b")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        lab.forget()
        held = pool.submit(lab.socks, "late.test", origin.port)
        lab.wait_for(r"^ask (\d+)")
        lab.reload(2, "allow=late.test")
        assert held.result(10)[1] == 0
        held.result()[0].close()
    assert origin.received() == b""


def leave_cleanly(sock):
    sock.close()


def leave_with_a_reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


HELD = {  # listener, what is sent, how it is on record
    "http": ("http", "GET http://late.test:{0}/ HTTP/1.1\r\nHost: late.test:{0}\r\n\r\n", "request http"),
    "http-body": ("http", "POST http://late.test:{0}/ HTTP/1.1\r\nHost: late.test:{0}\r\nContent-Length: 9\r\n\r\nhalf", "request http"),
    "connect": ("http", "CONNECT late.test:{0} HTTP/1.1\r\nHost: late.test:{0}\r\n\r\n", "tunnel-open connect"),
    "connect-ahead": ("http", "CONNECT late.test:{0} HTTP/1.1\r\nHost: late.test:{0}\r\n\r\nahead", "tunnel-open connect"),
    "socks": ("socks", "\5\1\0\5\1\0\3\x09late.test{1}", "tunnel-open socks5"),
    "socks-ahead": ("socks", "\5\1\0\5\1\0\3\x09late.test{1}ahead", "tunnel-open socks5"),
}


@pytest.mark.parametrize("leave", [leave_cleanly, leave_with_a_reset])
@pytest.mark.parametrize("way", HELD)
def test_a_question_goes_with_the_last_client_that_waits_for_it(way, leave, lab, origin):
    """Whatever it spoke, and whatever it had sent ahead: nobody looks at a question that nobody waits for."""
    listener, words, record = HELD[way]
    lab = lab("can-ask", "private=127.0.0.0/8:1-65535", "ask-time=60000ms")
    request = words.format(origin.port, struct.pack("!H", origin.port).decode("latin-1")).encode("latin-1")
    first, second = lab.connect(listener), lab.connect(listener)
    first.sendall(request)
    ask = lab.wait_for(r"^ask (\d+)").group(1)
    second.sendall(request)
    for _ in range(3):  # whoever comes later is answered later: by then the second one waits
        with lab.connect("http") as third:
            third.sendall(b"no request\r\n\r\n")
            assert third.recv(12) == b"HTTP/1.1 400"
    time.sleep(0.2)
    leave(first)
    lab.wait_for(rf"^event {record} refused late.test {origin.port} reason=ask")
    assert not any(line.startswith("ask-gone") for line in lab.lines)
    leave(second)
    lab.wait_for(rf"^ask-gone {ask}\b")
    assert origin.connections == []
    with lab.connect("http") as again:  # the next one is a new question
        again.sendall(HELD["http"][1].format(origin.port).encode())
        later = lab.wait_for(rf"^ask (?!{ask}\b)(\d+)").group(1)
        lab.say(f"answer {later} 1")
        assert again.recv(12) == b"HTTP/1.1 200"


def test_no_audit_no_new_work(open_lab, make_origin):
    origin = make_origin(raw=echo)
    lab = open_lab()
    old, _ = lab.socks("api.ok.test", origin.port)
    lab.say("audit 0")
    lab.reload(2)  # its answer comes behind what was said before
    s = lab.connect("socks")
    assert ended(s)
    old.sendall(b"\0x")
    assert exactly(old, 2) == b"\0x"
    lab.wait_for(r"refused - 0 reason=audit")
    lab.say("audit 1")
    lab.reload(3)
    assert lab.socks("api.ok.test", origin.port)[1] == 0


def test_a_yes_opens_nothing_while_there_is_no_audit(lab, origin):
    lab = lab("can-ask", "private=127.0.0.0/8:1-65535", "ask-time=20000ms")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        held = pool.submit(lab.socks, "late.test", origin.port)
        ask = lab.wait_for(r"^ask (\d+)")
        lab.say("audit 0", f"answer {ask.group(1)} 1")
        sock, code = held.result(10)
        sock.close()
    assert code == 1
    lab.wait_for(r"tunnel-open \S+ refused late.test \d+ reason=audit")
    assert origin.received() == b""


# limits


def test_connection_limit_refuses_and_recovers(open_lab, make_origin):
    origin = make_origin(raw=echo)
    lab = open_lab("connections=4")
    held = [lab.socks("api.ok.test", origin.port)[0] for _ in range(4)]
    s = lab.connect("http")
    s.sendall(b"GET http://api.ok.test/ HTTP/1.1\r\nHost: api.ok.test\r\n\r\n")
    try:
        assert s.recv(100).startswith(b"HTTP/1.1 503")
    except ConnectionError:
        pass
    lab.wait_for(r"reason=limit")
    held.pop().close()
    end = time.monotonic() + 5
    while True:
        try:
            assert lab.socks("api.ok.test", origin.port)[1] == 0
            break
        except (AssertionError, ConnectionError):
            assert time.monotonic() < end
            time.sleep(0.05)
    for s in held:
        s.sendall(b"\0still")
        assert exactly(s, 6) == b"\0still"


def test_rate_limit(open_lab, origin):
    lab = open_lab("rate=5")
    accepted = 0
    for _ in range(20):
        s = lab.connect("socks")
        s.sendall(b"\5\1\0")
        try:
            accepted += s.recv(2) == b"\5\0"
        except ConnectionError:
            pass
    assert 5 <= accepted <= 10


def test_bytes_out_limits(open_lab, make_origin):
    origin = make_origin(raw=echo)
    lab = open_lab("bytes-host=100000")
    s, _ = lab.socks("api.ok.test", origin.port)
    s.sendall(b"\0" * 50000)
    assert len(exactly(s, 50000)) == 50000
    try:
        s.sendall(b"\0" * 200000)
    except ConnectionError:
        pass
    assert ended(s)
    lab.wait_for(r"tunnel-close socks5 refused api.ok.test \d+ reason=limit")
    assert lab.socks("api.ok.test", origin.port)[1] == 1
    assert lab.socks("www.ok.test", origin.port)[1] == 0


def test_idle_tunnels_are_closed(open_lab, make_origin):
    origin = make_origin(raw=echo)
    lab = open_lab("tunnel=2000ms")
    s, _ = lab.socks("api.ok.test", origin.port)
    for _ in range(5):
        time.sleep(0.5)
        s.sendall(b"\0")
        assert exactly(s, 1) == b"\0"
    started = time.monotonic()
    assert ended(s)
    assert time.monotonic() - started > 1
    lab.wait_for(r"tunnel-close socks5 allowed api.ok.test \d+ reason=timeout")


# faults


def test_a_reset_is_passed_on(open_lab, make_origin):
    def slam(sock, connection):
        sock.recv(10)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()

    origin = make_origin(raw=slam)
    s, _ = open_lab().socks("api.ok.test", origin.port)
    s.sendall(b"\0go")
    with pytest.raises(ConnectionResetError):
        s.recv(10)


def test_out_of_descriptors_refuses_keeps_and_recovers(open_lab, make_origin, environment, hosts, closing):
    origin = make_origin(raw=echo)

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    lab = closing(Lab(["http", "socks", f"hosts={hosts}", "allow=*.ok.test", "private=127.0.0.0/8:1-65535", "workers=1"],
                      environment, few))
    kept, _ = lab.socks("api.ok.test", origin.port)
    crowd = []
    for _ in range(120):
        s = socket.create_connection(("127.0.0.1", lab.ports["socks"]), timeout=60)
        crowd.append(s)
    time.sleep(0.5)
    kept.sendall(b"\0here")
    assert exactly(kept, 5) == b"\0here"
    lab.wait_for(r"reason=limit")
    for s in crowd:
        s.close()
    end = time.monotonic() + PATIENCE
    while True:
        try:
            s, code = lab.socks("api.ok.test", origin.port)
            if code == 0:
                break
        except (AssertionError, OSError):
            pass
        assert time.monotonic() < end
        time.sleep(0.1)
    s.sendall(b"\0again")
    assert exactly(s, 6) == b"\0again"


def test_half_open_and_idle_crowds_cost_little_and_go_away(open_lab, make_origin):
    origin = make_origin(raw=lambda sock, connection: sock.recv(1))
    lab = open_lab("header=2000ms", "connections=4000", "workers=2")

    def memory():
        with open(f"/proc/{lab.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))

    lab.socks("api.ok.test", origin.port)[0].close()
    before = memory()
    half_open = [lab.connect("http") for _ in range(400)]
    assert lab.socks("api.ok.test", origin.port)[1] == 0
    for s in half_open:
        s.sendall(b"G")
    time.sleep(0.2)
    assert memory() - before < 16 * 1024 * SLOW
    started = time.monotonic()
    assert ended(half_open[0])
    assert time.monotonic() - started < 5 * SLOW
    for s in half_open:
        s.close()


def test_bulk_is_whole(open_lab, make_origin):
    size = 64 << 20
    block = os.urandom(1 << 20)

    def send(sock, connection):
        sock.recv(1)
        for _ in range(size >> 20):
            sock.sendall(block)
        sock.close()

    origin = make_origin(raw=send)
    s, _ = open_lab().socks("api.ok.test", origin.port)
    s.sendall(b"\0")
    for i in range(size >> 20):
        if i == 5:
            time.sleep(0.3)  # the reader stops for a while
        assert exactly(s, 1 << 20) == block
    assert ended(s)


def test_forwarded_port(lab, make_origin, closing, environment, hosts):
    origin = make_origin(raw=echo)
    lab = lab(f"forward={origin.port}")
    s = lab.connect("forward")
    request = b"GET / HTTP/1.1\r\nHost: anything\r\n\r\n"
    s.sendall(request)
    assert exactly(s, len(request)) == request
    s.close()
    lab.wait_for(r"tunnel-close none allowed 127.0.0.1")


# chaining


class Proxy:
    """An upstream proxy that records what it was asked for and joins the connection to one port."""

    def __init__(self, kind, port, answer=None):
        self.kind, self.port_behind, self.answer, self.asked = kind, port, answer, []
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.sock.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.sock.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        try:
            self._http(client) if self.kind == "http" else self._socks(client)
        except OSError:
            pass
        finally:
            client.close()

    def _http(self, client):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += client.recv(1)
        self.asked.append(head.decode())
        if self.answer:
            client.sendall(self.answer)
            return
        self._join(client, b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n")

    def _socks(self, client):
        methods = exactly(client, 2)[1]
        offered = exactly(client, methods)
        if 2 in offered:
            client.sendall(b"\5\2")
            version, length = exactly(client, 2)
            user = exactly(client, length)
            password = exactly(client, exactly(client, 1)[0])
            self.asked.append((user, password))
            client.sendall(b"\1\0")
        else:
            client.sendall(b"\5\0")
        kind = exactly(client, 4)[3]
        name = exactly(client, exactly(client, 1)[0]) if kind == 3 else exactly(client, 4)
        exactly(client, 2)
        self.asked.append(name)
        self._join(client, b"\5\0\0\1\0\0\0\0\0\0")

    def _join(self, client, greeting):
        server = socket.create_connection(("127.0.0.1", self.port_behind))
        first = server.recv(3)  # the origin speaks first: its bytes come together with the answer
        client.sendall(greeting + first)
        while data := client.recv(65536):
            server.sendall(data)
            client.sendall(server.recv(65536))
        server.close()


def speaks_first(sock, connection):
    sock.sendall(b"hi\n")
    echo(sock, connection)


@pytest.mark.parametrize("kind", ["http", "socks5"])
def test_chaining_through_an_upstream_proxy(open_lab, make_origin, closing, kind):
    origin = make_origin(raw=speaks_first)
    proxy = closing(Proxy(kind, origin.port))
    lab = open_lab(f"upstream={kind}:{proxy.port}", "user=joe", "password=secret", "bypass=www.ok.test", "deny=evil.test")
    s, code = lab.socks("api.ok.test", 443)
    assert code == 0
    assert exactly(s, 3) == b"hi\n"
    s.sendall(b"\0ping")
    assert exactly(s, 5) == b"\0ping"
    s.close()
    if kind == "http":
        assert proxy.asked == ["CONNECT api.ok.test:443 HTTP/1.1\r\nHost: api.ok.test:443\r\n"
                               "Proxy-Authorization: Basic am9lOnNlY3JldA==\r\n\r\n"]
    else:
        assert proxy.asked == [(b"joe", b"secret"), b"api.ok.test"]
    asked = len(proxy.asked)
    assert lab.socks("mixed.ok.test", 443)[1] == 2  # one of its addresses is refused here, so the proxy is not asked
    assert lab.socks("evil.test", 443)[1] == 2
    s, code = lab.socks("www.ok.test", origin.port)  # bypasses
    assert code == 0 and exactly(s, 3) == b"hi\n"
    assert len(proxy.asked) == asked


def test_a_name_whose_addresses_were_not_judged_is_not_left_to_the_proxy(open_lab, make_dns, make_origin, closing):
    """One that nobody here knows is: there may be no DNS here. One with more addresses than are judged is not."""
    many = Answer(tuple(f"127.0.1.{n}" for n in range(1, 60)), truncate=True)
    dns = make_dns({"many.ok.test": many, "broken.ok.test": Answer(rcode=SERVFAIL)})
    proxy = closing(Proxy("socks5", make_origin(raw=speaks_first).port))
    lab = open_lab(f"upstream=socks5:{proxy.port}", f"server={dns.port}")
    for name in ("unknown.ok.test", "broken.ok.test"):
        s, code = lab.socks(name, 443)
        assert code == 0 and exactly(s, 3) == b"hi\n" and proxy.asked.pop() == name.encode()
        s.close()
    assert lab.socks("many.ok.test", 443)[1] == 1 and dns.asked("many.ok.test")
    assert proxy.asked == []


def memory_holding(pid, needle):
    """Names of the mappings of a process in which the bytes are found."""
    found = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            words = line.split()
            begin, end = (int(part, 16) for part in words[0].split("-"))
            try:
                memory.seek(begin)
                text = memory.read(end - begin)
            except (OSError, OverflowError):
                continue  # guard pages, secret memory, [vvar]
            if needle in text:
                found.append(words[5] if len(words) > 5 else "anonymous")
    return found


@pytest.mark.root
@pytest.mark.exact_build
def test_the_password_of_the_upstream_proxy_is_nowhere_but_in_secret_memory(open_lab, make_origin, closing):
    """Also after it was used: the start block is wiped and its file gone, what was sent is wiped."""
    password = "pass" + os.urandom(8).hex()
    origin = make_origin(raw=speaks_first)
    proxy = closing(Proxy("http", origin.port))
    lab = open_lab(f"upstream=http:{proxy.port}", "user=joe", f"password={password}", "workers=1")
    for _ in range(20):
        s, code = lab.socks("api.ok.test", 443)
        assert code == 0
        s.close()
    assert base64.b64encode(f"joe:{password}".encode()).decode() in proxy.asked[0]
    everywhere = memory_holding(lab.pid, password.encode())
    assert len(everywhere) <= 1 and "[heap]" not in everywhere, everywhere  # one: a kernel without memfd_secret
    files = open_files(lab.pid)
    assert not any("bailey-gateway-start" in name for name in files), files


@pytest.mark.parametrize("answer, code", [(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n", 1), (b"garbage\r\n\r\n", 1),
                                          (b"HTTP/1.1 502 Bad\r\n\r\n", 4), (b"", 1),
                                          (b"HTTP/1.1 100\r\n\r\n" * 1000 + b"HTTP/1.1 200 OK\r\n\r\n", 1)])
def test_an_upstream_proxy_that_fails(open_lab, origin, closing, answer, code):
    proxy = closing(Proxy("http", origin.port, answer or b"\r"))
    lab = open_lab(f"upstream=http:{proxy.port}", "connect=1500ms")
    assert lab.socks("api.ok.test", 443)[1] == code
    assert origin.received() == b""


# captured connections

RULES = """
table inet bailey {
  chain output {
    type nat hook output priority -100;
    ip daddr 127.0.0.0/8 accept
    ip6 daddr ::1 accept
    meta l4proto udp udp dport 53 redirect to :53
    meta l4proto tcp redirect to :%d
  }
}
"""

CLIENT = """
import json, socket, sys, time
name, port, sends, wait = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3]), float(sys.argv[4])
got, error = b"", ""
try:
    addresses = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    s = socket.create_connection(addresses[0][4][:2], timeout=5)
    time.sleep(wait)
    s.sendall(sends)
    s.settimeout(1.5)
    while data := s.recv(65536):
        got += data
except OSError as e:
    error = type(e).__name__
print(json.dumps({"got": got.hex(), "error": error, "address": addresses[0][4][0] if "addresses" in dir() else ""}))
"""


@pytest.fixture
def captured(environment, hosts, closing, tmp_path):
    """A gateway outside, its listeners inside a namespace whose every connection is redirected to them."""
    ns = closing(Namespace())
    for words in (["addr", "add", "198.18.0.1/32", "dev", "lo"],
                  ["route", "add", "local", "default", "dev", "lo", "table", "local", "src", "198.18.0.1"],
                  ["route", "add", "default", "dev", "lo", "src", "198.18.0.1"],
                  ["-6", "addr", "add", "fd00:ba11::1/128", "dev", "lo", "nodad"],  # usable at once
                  ["-6", "route", "add", "local", "default", "dev", "lo", "table", "local", "src", "fd00:ba11::1"],
                  ["-6", "route", "add", "default", "dev", "lo", "src", "fd00:ba11::1"]):
        ns.run(["ip", *words]).check()
    tcp, udp = closing(ns.listen("::")), closing(ns.listen("127.0.0.1", 53, "udp"))
    rules = tmp_path / "rules.nft"
    rules.write_text(RULES % tcp.getsockname()[1])
    ns.run(["nft", "-f", str(rules)]).check()
    resolv = tmp_path / "resolv.conf"
    resolv.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")

    def start(*words):
        lab = closing(Lab([f"inherit=transparent:{tcp.fileno()}", f"inherit=dns-udp:{udp.fileno()}", f"hosts={hosts}", *words],
                          environment, pass_fds=[tcp.fileno(), udp.fileno()]))

        def client(name, port, sends=b"", wait=0.0):
            script = "mount --bind $0 /etc/resolv.conf && exec /usr/bin/python3 -c \"$1\" $2 $3 \"$4\" $5"
            result = ns.run(["sh", "-c", script, str(resolv), CLIENT, name, str(port), sends.hex(), str(wait)]).check()
            answer = json.loads(result.text)
            return bytes.fromhex(answer["got"]), answer["error"], answer["address"]
        return lab, client
    return start


def test_captured_connections_carry_their_name(captured, make_origin):
    greeting = make_origin(raw=speaks_first)
    http = make_origin()
    lab, client = captured("allow=*.ok.test", "private=127.0.0.0/8:1-65535")
    got, _, address = client("api.ok.test", greeting.port, b"\0ping", wait=0.3)
    assert got == b"hi\n\0ping"
    assert address.startswith("198.18.") or address.startswith("fd00:")
    lab.wait_for(rf"tunnel-open transparent allowed api.ok.test {greeting.port}")
    lab.wait_for(rf"tunnel-close transparent allowed api.ok.test {greeting.port} reason=allowed\S* status=0 in=8 out=5")
    got, _, _ = client("api.ok.test", http.port, b"GET /x HTTP/1.1\r\nHost: api.ok.test:%d\r\nConnection: close\r\n\r\n" % http.port)
    assert got.endswith(b"origin\n")
    assert len(http.requests()) == 1


def test_captured_connections_are_refused(captured, make_origin):
    origin = make_origin(raw=echo)
    lab, client = captured("allow=*.ok.test", "private=127.0.0.0/8:1-65535")
    assert client("evil.test", origin.port)[1] == "gaierror"
    assert client("203.0.113.9", origin.port, b"\0x")[1] == "ConnectionResetError"
    lab.wait_for(rf"tunnel-open transparent refused 203.0.113.9 {origin.port} reason=(not-allowed|address-class)")
    assert client("198.18.77.77", origin.port, b"\0x")[1] == "ConnectionResetError"  # stands for no name
    lab.wait_for(r"tunnel-open transparent refused 198.18.77.77 \d+ reason=bad-name")
    assert client("api.ok.test", origin.port, hello("evil.test"))[1] == "ConnectionResetError"
    lab.wait_for(r"tunnel-close transparent refused api.ok.test \d+ reason=fronting")
    got, _, _ = client("api.ok.test", origin.port, b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
    assert not got.startswith(b"GET")
    assert origin.received() == b""


def test_a_captured_client_that_leaves_takes_its_question_along(captured, origin):
    lab, client = captured("can-ask", "private=127.0.0.0/8:1-65535", "ask-time=60000ms")
    for sends in (b"", b"\0ahead"):  # the client waits for a while and ends
        client("late.test", origin.port, sends)
        ask = lab.wait_for(r"^ask (\d+)").group(1)
        lab.wait_for(rf"^ask-gone {ask}\b")
        lab.wait_for(rf"^event tunnel-open transparent refused late.test {origin.port} reason=ask")
        lab.forget()
    assert origin.connections == []


# the end


def test_it_ends_with_its_supervisor(open_lab, make_origin):
    origin = make_origin(raw=echo)
    lab = open_lab()
    s, _ = lab.socks("api.ok.test", origin.port)
    lab.say("stop")
    assert ended(s)
    lab.wait_for(r"tunnel-close socks5 allowed api.ok.test")
