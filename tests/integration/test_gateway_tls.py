# SPDX-License-Identifier: Apache-2.0
"""TLS that the gateway opens: real clients, a real TLS origin, the real vault, driven by gateway-driver."""
import concurrent.futures
import hashlib
import os
import select
import socket
import ssl
import threading
import time

import pytest

from conftest import BUILD, program
from kit.dns import Answer
from kit.gateway import Client, Gateway
from kit.origin import REPLY
from kit.process import SANITIZED, SLOW, wait_until
from kit.tls import Authority
from test_clients_web import NODE

HOST = "api.ok.test"
NAMES = [HOST, "b.ok.test", "*.many.test"]


class Lab:
    """A gateway with a vault. `client()` is a TLS connection through it to the origin, as HOST."""

    def __init__(self, tmp_path, authority, words, hosts=(HOST, "b.ok.test", "evil.test")):
        self.session_ca = tmp_path / "session-ca.pem"
        self.gateway = Gateway(BUILD, ["http", "socks", f"vault={program('bailey-vault')}", f"ca={self.session_ca}",
                                       f"roots={authority.file}", "private=127.0.0.0/8:1-65535", *words],
                               [(name, "127.0.0.1") for name in hosts], tmp_path)

    def context(self, protocols=("http/1.1",)):
        context = ssl.create_default_context(cafile=self.session_ca)
        context.set_alpn_protocols(list(protocols))
        return context

    def tunnel(self, port, host=HOST, via="http"):
        sock = self.gateway.connect(via, timeout=60)
        if via == "http":
            sock.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            status = Client(sock).answer(head=True)[0]
        else:
            sock.sendall(b"\5\1\0\5\1\0\3" + bytes([len(host)]) + host.encode() + port.to_bytes(2, "big"))
            got = b""
            while len(got) < 12 and (data := sock.recv(12 - len(got))):
                got += data
            status = got[3] if len(got) > 3 else -1
        return sock, status

    def client(self, port, host=HOST, via="http", context=None, name=None, **more):
        sock, status = self.tunnel(port, host, via)
        assert status == (200 if via == "http" else 0)
        return (context or self.context()).wrap_socket(sock, server_hostname=name or host, suppress_ragged_eofs=False, **more)

    def ask(self, port, request, **more):
        """The answer to one request on a connection of its own, None where it was closed."""
        with self.client(port, **more) as sock:
            sock.sendall(request)
            return Client(sock).answer()

    def get(self, port, path="/ok/x", host=HOST, **more):
        return self.ask(port, f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode(), host=host, **more)

    def close(self):
        self.gateway.close()


@pytest.fixture
def secure(authority, make_origin):
    return make_origin(tls=authority.context(*NAMES))


@pytest.fixture
def make_lab(tmp_path, authority, closing):
    """make_lab("allow=...", ...): a gateway, its vault and its session's authority."""
    return lambda *words, **more: closing(Lab(tmp_path, authority, words, **more))


@pytest.fixture
def lab(make_lab):
    return make_lab(f"rule={HOST}:1-65535|GET,POST,TRACE|/ok/**", "rule=*.many.test:1-65535|GET|/**", "allow=b.ok.test:1-65535")


# real clients

PYTHON = """
import sys, urllib.request, urllib.error
try:
    answer = urllib.request.urlopen(sys.argv[1], timeout=20)
    print(answer.status, answer.read().decode().strip())
except urllib.error.HTTPError as error:
    print(error.code, error.headers["x-bailey-reason"])
"""


def programs(lab, url):
    proxy = f"http://127.0.0.1:{lab.gateway.port['http']}"
    socks = f"socks5h://127.0.0.1:{lab.gateway.port['socks']}"
    curl = ["curl", "-sS", "-m", "60", "--cacert", lab.session_ca, "-w", " %{http_code}", url, "-x"]
    env = {"HTTPS_PROXY": proxy, "https_proxy": proxy, "SSL_CERT_FILE": str(lab.session_ca), "NODE_NO_WARNINGS": "1",
           "NODE_EXTRA_CA_CERTS": str(lab.session_ca), "NODE_USE_ENV_PROXY": "1"}
    return {"curl": ([*curl, proxy], {}), "curl-socks": ([*curl, socks], {}),
            "python": (["/usr/bin/python3", "-c", PYTHON, url], env), "node": (["node", "-e", NODE, url], env)}


@pytest.mark.parametrize("name", ["curl", "curl-socks", "python", "node"])
def test_real_clients(name, lab, secure, run):
    via = "socks5" if name == "curl-socks" else "connect"
    for path, status, reason in (("/ok/x?q=1", 200, "allowed"), ("/secret", 403, "path")):
        argv, env = programs(lab, f"https://{HOST}:{secure.port}{path}")[name]
        done = run(argv, env=env, timeout=60)
        assert str(status) in done.text and ("origin" in done.text) == (status == 200), str(done)
        event = lab.gateway.wait_event(seconds=5 * SLOW, kind="request", status=status)
        assert (event["scheme"], event["via"], event["method"]) == ("https", via, "GET")
        assert (event["path"], event["reason"], event["domain"]) == (path.partition("?")[0], reason, HOST)
        assert event["allowed"] == (status == 200)
    assert len(secure.requests()) == 1 and b"GET /ok/x?q=1 HTTP/1.1\r\nHost: api.ok.test:" in secure.requests()[0]
    assert secure.connections[0].server_name == HOST


def test_captured_connections(captured_lab, secure, authority):
    lab, ns_curl = captured_lab(f"rule={HOST}:1-65535|GET|/ok/**")
    text = ns_curl(f"https://{HOST}:{secure.port}/ok/x")
    assert "origin" in text and text.endswith("200"), text
    text = ns_curl(f"https://{HOST}:{secure.port}/secret")
    assert text.endswith("403"), text
    event = lab.wait_event(seconds=5 * SLOW, kind="request", status=200)
    assert (event["scheme"], event["via"], event["path"]) == ("https", "transparent", "/ok/x")
    assert len(secure.requests()) == 1


@pytest.fixture
def captured_lab(make_namespace, tmp_path, authority, closing):
    """As Lab, for connections that are redirected inside a namespace: the gateway, and curl in there."""
    from test_gateway_core import RULES
    ns, ca = make_namespace(), tmp_path / "session-ca.pem"
    for words in (["addr", "add", "198.18.0.1/32", "dev", "lo"],
                  ["route", "add", "local", "default", "dev", "lo", "table", "local", "src", "198.18.0.1"],
                  ["route", "add", "default", "dev", "lo", "src", "198.18.0.1"]):
        ns.run(["ip", *words]).check()
    tcp, udp = closing(ns.listen("::")), closing(ns.listen("127.0.0.1", 53, "udp"))
    (tmp_path / "rules.nft").write_text(RULES % tcp.getsockname()[1])
    ns.run(["nft", "-f", str(tmp_path / "rules.nft")]).check()
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")

    def start(*words):
        gateway = closing(Gateway(BUILD, [f"inherit=transparent:{tcp.fileno()}", f"inherit=dns-udp:{udp.fileno()}",
                                          f"vault={program('bailey-vault')}", f"ca={ca}", f"roots={authority.file}",
                                          "private=127.0.0.0/8:1-65535", *words],
                                  [(HOST, "127.0.0.1")], tmp_path, pass_fds=[tcp.fileno(), udp.fileno()]))
        script = 'mount --bind $0 /etc/resolv.conf && exec curl -4 -sS -m 20 --cacert "$1" -w " %{http_code}" "$2"'
        return gateway, lambda url: ns.run(["sh", "-c", script, str(tmp_path / "resolv.conf"), str(ca), url]).check().text.strip()
    return start


# what must agree


def test_requests_that_name_another_host(lab, secure):
    port = secure.port
    here = f"Host: {HOST}:{port}\r\n"
    cases = [
        (f"GET /ok/1 HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421, "fronting"),
        (f"GET /ok/2 HTTP/1.1\r\nHost: {HOST}:1\r\n\r\n", 421, "fronting"),
        (f"GET /ok/3 HTTP/1.1\r\n{here}Host: evil.test\r\n\r\n", 400, "protocol"),
        (f"GET /ok/4 HTTP/1.1\r\n{here}{here}\r\n", 400, "protocol"),
        (f"GET https://evil.test:{port}/ok/5 HTTP/1.1\r\nHost: evil.test:{port}\r\n\r\n", 421, "fronting"),
        (f"GET http://{HOST}:{port}/ok/6 HTTP/1.1\r\n{here}\r\n", 400, "protocol"),
        (f"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", 405, "method"),
        (f"CONNECT {HOST}:{port} HTTP/1.1\r\n{here}\r\n", 405, "method"),
        (f"TRACE /ok/7 HTTP/1.1\r\n{here}\r\n", 405, "method"),
        (f"DELETE /ok/8 HTTP/1.1\r\n{here}\r\n", 405, "method"),
        (f"GET /ok/9 HTTP/1.1\r\nHost : {HOST}\r\n\r\n", 400, "protocol"),
        (f"POST /ok/10 HTTP/1.1\r\n{here}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "protocol"),
        (f"GET /ok/../secret HTTP/1.1\r\n{here}\r\n", 403, "path"),
    ]
    for request, status, reason in cases:
        answer = lab.ask(port, request.encode())
        assert answer and (answer[0], answer[1]["x-bailey-reason"]) == (status, reason), (request, answer)
    assert secure.received() == b""
    status, _, body = lab.ask(port, f"GET https://{HOST}:{port}/ok/a HTTP/1.1\r\n{here}\r\n".encode())
    assert (status, body) == (200, b"origin\n")
    assert secure.requests()[0].startswith(b"GET /ok/a HTTP/1.1\r\nHost: api.ok.test:")


def test_second_request_is_judged_by_itself(lab, secure):
    with lab.client(secure.port) as sock:
        here = f" HTTP/1.1\r\nHost: {HOST}:{secure.port}\r\n"
        sock.sendall(f"POST /ok/1{here}Content-Length: 4\r\n\r\nbodyGET /secret{here}\r\nGET /ok/2{here}\r\n".encode())
        client = Client(sock)
        assert [client.answer()[0] for _ in range(3)] == [200, 403, 200]
    assert [r.split()[1] for r in secure.requests()] == [b"/ok/1", b"/ok/2"]
    assert len(secure.connections) <= 2


def closes(sock, seconds=60):
    """Whether the peer ends it, cleanly or not, without a byte that is not TLS's own."""
    sock.settimeout(seconds)
    got = b""
    try:
        while data := sock.recv(4096):
            got += data
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return got[:1] in (b"", b"\x15")  # nothing, or an alert


def test_greetings_that_are_no_tls(make_lab, make_origin, authority):
    origin = make_origin(tls=authority.context(HOST))
    lab = make_lab(f"allow={HOST}:1-65535", f"credential=TOKEN|{HOST}:{origin.port}|bearer|sk-0123456789abcdef")
    for greeting, reason in ((b"GET / HTTP/1.1\r\nHost: api.ok.test\r\n\r\n", "protocol"), (b"SSH-2.0-x\r\n", "protocol"),
                             (b"\x16\x03\x01\x00\x05hello", "protocol"), (b"\x80\x2e\x01\x00\x02", "protocol"),
                             (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "protocol")):
        for via in ("http", "socks"):
            sock, _ = lab.tunnel(origin.port, via=via)
            with sock:
                sock.sendall(greeting)
                assert closes(sock), greeting
            event = lab.gateway.wait_event(seconds=5 * SLOW, kind="tunnel-close", reason=reason, allowed=False)
            assert event["scheme"] == "https"
            lab.gateway.events.clear()
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        lab.client(origin.port, name="evil.test")
    lab.gateway.wait_event(seconds=5 * SLOW, reason="fronting", domain=HOST, allowed=False)
    assert origin.received() == b"" and origin.requests() == []


def test_plain_http_where_no_tls_was_promised(lab, origin):
    """A rule about paths on another port than https's, and a client that speaks plain HTTP through a tunnel."""
    for path, status in (("/ok/x", 200), ("/secret", 403)):
        sock, _ = lab.tunnel(origin.port, via="socks")
        with sock:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {HOST}:{origin.port}\r\n\r\n".encode())
            assert Client(sock).answer()[0] == status
    assert len(origin.requests()) == 1
    assert lab.gateway.wait_event(seconds=5 * SLOW, kind="request", status=403)["scheme"] == "http"


def test_others_stay_end_to_end(lab, authority, secure):
    """No credential and no rule: the client sees the origin's own certificate."""
    context = ssl.create_default_context(cafile=authority.file)
    assert lab.get(secure.port, host="b.ok.test", context=context)[0] == 200
    lab.gateway.wait_event(seconds=5 * SLOW, kind="tunnel-close", domain="b.ok.test", allowed=True)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_protocols(lab, secure):
    with lab.client(secure.port, context=lab.context(["h2", "http/1.1"])) as sock:
        assert sock.selected_alpn_protocol() == "http/1.1"
    with pytest.raises(ssl.SSLError, match="(?i)alert|protocol"):
        lab.client(secure.port, context=lab.context(["gopher/1"]))
    plain = ssl.create_default_context(cafile=lab.session_ca)
    assert lab.get(secure.port, context=plain)[0] == 200
    for old in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
        context = lab.context()
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = old
        with pytest.raises(ssl.SSLError):
            lab.client(secure.port, context=context)
    context = lab.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert lab.get(secure.port, context=context)[0] == 200


# origins


def old_tls(authority):
    context = authority.context(HOST)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    return context


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_bad_origins_get_nothing(lab, make_origin, authority, tmp_path):
    stranger = Authority(tmp_path, "stranger")
    cases = [
        (make_origin(tls=authority.context(HOST, days=-1)), 502, "certificate", "Its certificate has expired."),
        (make_origin(tls=authority.context("evil.test")), 502, "certificate", "Its certificate is for another name."),
        (make_origin(tls=stranger.context(HOST)), 502, "certificate", "an issuer that is not trusted here."),
        (make_origin(tls=old_tls(authority)), 502, "upstream", "TLS"),
        (make_origin(raw=lambda client, _: (client.recv(100), client.sendall(REPLY))), 502, "upstream", "TLS"),
        (make_origin(raw=lambda client, _: client.recv(100)), 502, "upstream", "connect"),
    ]
    for origin, status, reason, text in cases:
        answer = lab.get(origin.port)
        assert answer and (answer[0], answer[1]["x-bailey-reason"]) == (status, reason), answer
        assert text in answer[2].decode(), answer
        event = lab.gateway.wait_event(seconds=5 * SLOW, kind="request", port=origin.port)
        assert (event["status"], event["reason"], event["path"]) == (status, reason, "/ok/x")
        assert not origin.requests() and b"/ok/x" not in origin.received()


def test_an_origin_that_never_answers_the_greeting(make_lab, make_origin):
    silent = make_origin(raw=lambda client, _: client.recv(1) and time.sleep(0) or [None for _ in iter(lambda: client.recv(4096), b"")])
    lab = make_lab(f"rule={HOST}:1-65535|GET|/**", "connect=400ms")
    status, headers, _ = lab.get(silent.port)
    assert (status, headers["x-bailey-reason"]) == (504, "timeout")


def test_connections_to_origins_are_used_again(lab, secure):
    for _ in range(3):
        with lab.client(secure.port) as sock:
            client = Client(sock)
            for _ in range(3):
                sock.sendall(f"GET /ok/x HTTP/1.1\r\nHost: {HOST}:{secure.port}\r\n\r\n".encode())
                assert client.answer()[0] == 200
    assert len(secure.requests()) == 9
    assert len([c for c in secure.connections if c.requests]) < 3


def test_sessions_are_resumed_on_both_sides(lab, make_origin, authority):
    reused = []

    def serve(client, connection):
        reused.append(client.session_reused)
        client.recv(4096)
        client.sendall(REPLY.replace(b"Content-Length", b"Connection: close\r\nContent-Length"))

    origin = make_origin(tls=authority.context(HOST), raw=serve)
    context, session = lab.context(), None
    for turn in range(3):
        with lab.client(origin.port, context=context, session=session) as sock:
            assert sock.session_reused == (turn > 0)
            sock.sendall(f"GET /ok/x HTTP/1.1\r\nHost: {HOST}:{origin.port}\r\n\r\n".encode())
            assert Client(sock).answer()[0] == 200
            session = sock.session
    wait_until(lambda: len(reused) == 3, 5 * SLOW, "three connections")
    assert reused == [False, True, True]
    # A session of another host is not taken.
    other = make_origin(tls=authority.context("x.many.test"))
    lab.gateway.say("policy private=127.0.0.0/8:1-65535 rule=*.ok.test:1-65535|GET|/ok/**")
    lab.gateway.wait(lambda g: "swapped" in g.notes, 5 * SLOW)
    context.check_hostname = False
    with lab.client(other.port, host="b.ok.test", context=context, session=session) as sock:
        assert not sock.session_reused


# streams


def test_events_are_not_delayed(lab, make_origin, authority):
    go = threading.Event()

    def stream(client, connection):
        client.recv(4096)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n8\r\ndata: 1\n\r\n")
        go.wait(60)
        client.sendall(b"8\r\ndata: 2\n\r\n0\r\n\r\n")

    origin = make_origin(tls=authority.context(HOST), raw=stream)
    with lab.client(origin.port) as sock:
        sock.sendall(f"GET /ok/events HTTP/1.1\r\nHost: {HOST}:{origin.port}\r\n\r\n".encode())
        got = b""
        while b"data: 1\n" not in got:  # arrives although the origin has not gone on
            data = sock.recv(4096)
            assert data
            got += data
        go.set()
        while not got.endswith(b"0\r\n\r\n"):
            data = sock.recv(4096)
            assert data
            got += data
    assert b"data: 2\n" in got


def test_websocket(lab, make_origin, authority):
    def chat(client, connection):
        client.recv(4096)
        client.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       b"Sec-WebSocket-Accept: x\r\n\r\nserver first ")
        while data := client.recv(65536):
            client.sendall(data.upper())

    origin = make_origin(tls=authority.context(HOST), raw=chat)
    with lab.client(origin.port) as sock:
        sock.sendall(f"GET /ok/chat HTTP/1.1\r\nHost: {HOST}:{origin.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                     "Sec-WebSocket-Key: y\r\n\r\nearly ".encode())
        got = b""
        while b"EARLY " not in got:
            data = sock.recv(4096)
            assert data, got
            got += data
        assert got.startswith(b"HTTP/1.1 101 ") and b"server first " in got
        big, back, sent = os.urandom(300000).hex().encode(), b"", 0
        sock.setblocking(False)  # both ways at once, on one thread: Python's TLS is not made for two
        while len(back) < len(big):
            blocked = 0
            try:
                sent += sock.send(big[sent:sent + 16384]) if sent < len(big) else 0
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                blocked += 1
            try:
                data = sock.recv(65536)
                assert data
                back += data
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                blocked += 1
            if blocked == 2 or (blocked and sent == len(big)):
                assert any(select.select([sock], [sock] if sent < len(big) else [], [], 10 * SLOW))
        assert back == big.upper()
    event = lab.gateway.wait_event(seconds=5 * SLOW, kind="request", status=101)
    assert event["scheme"] == "https" and event["bytes_in"] > len(big) and event["bytes_out"] > len(big)


SIZE = (8 if SANITIZED else 100) << 20


def piece(number):
    return hashlib.sha256(b"%d" % number).digest() * 2048  # 64 KiB


def test_large_bodies(lab, make_origin, authority, environment, run, tmp_path):
    """Down, up with a length, up in chunks; what arrives is what was sent."""
    digests = []

    def serve(client, connection):
        stream = client.makefile("rwb")
        head = b"".join(iter(stream.readline, b"\r\n"))
        if head.startswith(b"GET"):
            stream.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % SIZE)
            for number in range(SIZE >> 16):
                stream.write(piece(number))
        else:
            digest = hashlib.sha256()
            if b"Expect: 100-continue" in head:
                client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            if b"chunked" in head:
                while size := int(stream.readline(), 16):
                    digest.update(stream.read(size))
                    stream.readline()
            else:
                left = SIZE
                while left:
                    data = stream.read(min(left, 1 << 20))
                    digest.update(data)
                    left -= len(data)
            digests.append(digest.hexdigest())
            stream.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        stream.flush()

    origin = make_origin(tls=authority.context(HOST), raw=serve)
    wanted = hashlib.sha256()
    body = tmp_path / "body"
    with body.open("wb") as file:
        for number in range(SIZE >> 16):
            file.write(piece(number))
            wanted.update(piece(number))
    curl = ["curl", "-sS", "-m", "120", "--cacert", lab.session_ca, "-x", f"http://127.0.0.1:{lab.gateway.port['http']}",
            f"https://{HOST}:{origin.port}/ok/x"]
    run([*curl, "-o", tmp_path / "got"], timeout=130).check()
    with (tmp_path / "got").open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == wanted.hexdigest()
    run([*curl, "-X", "POST", "-T", body], timeout=130).check()
    run([*curl, "-X", "POST", "-T", body, "-H", "Transfer-Encoding: chunked"], timeout=130).check()
    assert digests == [wanted.hexdigest()] * 2


def test_a_response_cut_short_is_not_taken_for_whole(lab, make_origin, authority):
    def cut(client, connection):
        client.recv(4096)
        client.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf of it")  # until the end, which does not come
        plain = socket.socket(fileno=os.dup(client.fileno()))
        plain.shutdown(socket.SHUT_RDWR)  # below TLS: no close_notify
        plain.close()

    origin = make_origin(tls=authority.context(HOST), raw=cut)
    with lab.client(origin.port) as sock:
        sock.sendall(f"GET /ok/x HTTP/1.1\r\nHost: {HOST}:{origin.port}\r\n\r\n".encode())
        with pytest.raises((ConnectionResetError, ssl.SSLError)):
            while sock.recv(4096):
                pass


# faults


def hello(context, name):
    """The bytes of a ClientHello."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(into, out, server_hostname=name).do_handshake()
    return out.read()


def test_clients_that_leave_or_linger(make_lab, make_origin, authority):
    origin = make_origin(tls=authority.context(HOST))
    lab = make_lab(f"rule={HOST}:1-65535|GET|/**", "header=400ms", "workers=1")
    greeting = hello(lab.context(), HOST)
    for sent in (b"", greeting[:1], greeting[:100], greeting):  # then silence: closed after the limit
        sock, _ = lab.tunnel(origin.port)
        with sock:
            if sent:
                sock.sendall(sent)
            assert closes(sock) or sent == greeting
        event = lab.gateway.wait_event(seconds=5 * SLOW, kind="tunnel-close", allowed=False)
        assert event["reason"] in ("timeout", "protocol") and event["scheme"] == "https"
        lab.gateway.events.clear()
    for sent in (b"", greeting[:100], greeting):  # gone at once
        sock, _ = lab.tunnel(origin.port)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.sendall(sent)
        sock.close()
        lab.gateway.wait_event(seconds=5 * SLOW, kind="tunnel-close", allowed=False)
        lab.gateway.events.clear()
    assert origin.requests() == []
    assert lab.get(origin.port, "/x")[0] == 200


def test_a_client_that_does_not_trust_the_authority(lab, secure, authority):
    with pytest.raises(ssl.SSLCertVerificationError):
        lab.client(secure.port, context=ssl.create_default_context(cafile=authority.file))
    event = lab.gateway.wait_event(seconds=5 * SLOW, kind="tunnel-close", allowed=False)
    assert event["detail"] == "It does not trust Bailey's certificate authority."


def test_without_the_vault(lab, secure):
    """What needs it is refused, what is known goes on, and it comes back."""
    names = (f"h{number}.many.test" for number in range(100000))  # each asked for once: a certificate is kept
    assert lab.get(secure.port)[0] == 200
    lab.gateway.say("kill-vault")
    wait_until(lambda: lab.tunnel(secure.port, host=next(names))[1] == 503, 10 * SLOW, "a refusal for want of the vault")
    assert lab.gateway.wait_event(seconds=5 * SLOW, reason="vault")["allowed"] is False
    assert lab.tunnel(secure.port, host=next(names), via="socks")[1] == 1
    assert lab.get(secure.port)[0] == 200
    lab.gateway.say("start-vault")
    wait_until(lambda: lab.tunnel(secure.port, host=next(names))[1] == 502, 10 * SLOW, "the vault's return")  # no such host


def test_a_new_rule_counts_at_once(make_lab, secure, authority):
    lab = make_lab(f"allow={HOST}:1-65535")
    opaque = lab.client(secure.port, context=ssl.create_default_context(cafile=authority.file))
    lab.gateway.say(f"policy private=127.0.0.0/8:1-65535 rule={HOST}:1-65535|GET|/ok/**")
    lab.gateway.wait(lambda g: "swapped" in g.notes, 5 * SLOW)
    with opaque:
        opaque.settimeout(60)
        with pytest.raises((ConnectionResetError, ssl.SSLError)):  # its requests cannot be seen
            opaque.recv(1) or opaque.recv(1)
    lab.gateway.wait_event(seconds=5 * SLOW, kind="tunnel-close", reason="not-visible")
    with lab.client(secure.port) as opened:
        client = Client(opened)
        opened.sendall(f"GET /ok/x HTTP/1.1\r\nHost: {HOST}:{secure.port}\r\n\r\n".encode())
        assert client.answer()[0] == 200
        lab.gateway.notes.clear()
        lab.gateway.say(f"policy private=127.0.0.0/8:1-65535 rule={HOST}:1-65535|GET|/other/**")
        lab.gateway.wait(lambda g: "swapped" in g.notes, 5 * SLOW)
        opened.sendall(f"GET /ok/x HTTP/1.1\r\nHost: {HOST}:{secure.port}\r\n\r\n".encode())
        assert client.answer()[0] == 403


def test_a_rule_that_comes_while_a_tunnel_is_opened(make_lab, make_dns, make_origin, authority):
    """Nobody wanted to see its requests when it was asked for. They are seen all the same."""
    dns = make_dns({"slow.many.test": Answer(("127.0.0.1",), delay=1.0)})
    origin = make_origin(tls=authority.context(*NAMES))
    lab = make_lab("allow=slow.many.test:1-65535", f"server={dns.port}")
    sock = lab.gateway.connect(timeout=60)
    sock.sendall(f"CONNECT slow.many.test:{origin.port} HTTP/1.1\r\nHost: slow.many.test:{origin.port}\r\n\r\n".encode())
    wait_until(lambda: dns.asked("slow.many.test"), 10 * SLOW, "the question")
    lab.gateway.say("policy private=127.0.0.0/8:1-65535 rule=slow.many.test:1-65535|GET|/ok/**")
    lab.gateway.wait(lambda g: "swapped" in g.notes, 5 * SLOW)
    assert Client(sock).answer(head=True)[0] == 200
    with lab.context().wrap_socket(sock, server_hostname="slow.many.test") as secured:
        client = Client(secured)
        for path, status in (("/ok/x", 200), ("/secret", 403)):
            secured.sendall(f"GET {path} HTTP/1.1\r\nHost: slow.many.test:{origin.port}\r\n\r\n".encode())
            assert client.answer()[0] == status
    assert len(origin.requests()) == 1


def test_an_address_that_is_refused_meanwhile_gets_no_request(lab, authority, closing):
    """The policy changes while the second connection to the origin does its TLS."""
    context, server, shaking, go, received = authority.context(*NAMES), socket.create_server(("127.0.0.1", 0)), *(threading.Event(), threading.Event()), []
    closing(server)
    port = server.getsockname()[1]

    def serve():
        for number in range(2):
            sock, _ = server.accept()
            with sock:
                if number == 1:
                    shaking.set()
                    go.wait(60)
                sock.settimeout(60)
                try:
                    with context.wrap_socket(sock, server_side=True) as secured:
                        received.append(secured.recv(4096))
                        secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                except OSError:
                    pass
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    request = f"GET /ok/x HTTP/1.1\r\nHost: {HOST}:{port}\r\n\r\n".encode()
    with lab.client(port) as sock:
        client = Client(sock)
        sock.sendall(request)
        assert client.answer()[0] == 200
        sock.sendall(request)
        assert shaking.wait(60)
        lab.gateway.say(f"policy rule={HOST}:1-65535|GET|/ok/**")  # the name is allowed, its private address is not any more
        lab.gateway.wait(lambda g: "swapped" in g.notes, 5 * SLOW)
        go.set()
        status, headers, _ = client.answer()
        assert status == 403 and headers["x-bailey-reason"] == "address-class"
    thread.join(10)
    assert [data for data in received if data] == [request]


def resident(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


@pytest.mark.anybody
@pytest.mark.exact_build
def test_a_thousand_hosts(make_lab, secure):
    """Each needs a certificate of its own. Memory stays where it is once the shelves are full."""
    names = [f"h{number}.many.test" for number in range(1000)]
    lab = make_lab("rule=*.many.test:1-65535|GET|/**", hosts=[*names, HOST])
    context = lab.context()

    def visit(name):
        with lab.client(secure.port, host=name, context=context) as sock:
            return sock.getpeercert()["subjectAltName"]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for name, names_shown in zip(names[:700], pool.map(visit, names[:700])):
            assert names_shown == (("DNS", name),)
        before = resident(lab.gateway.pid)
        assert all(pool.map(visit, names[700:]))
    assert resident(lab.gateway.pid) - before < 8192
