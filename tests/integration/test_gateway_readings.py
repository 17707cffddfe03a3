# SPDX-License-Identifier: Apache-2.0
"""What the gateway and a server could read in two ways: names of the loopback, paths, headers that change a request, first lines
of other protocols, trailers."""
import contextlib
import os
import socket
import ssl
import struct
import time

import pytest

from kit.dns import Answer
from kit.gateway import Client
from kit.process import wait_until
from test_gateway_credentials import HOST, Lab, answer
from test_gateway_dns import question

NAME = "api.ok.test"
LOOPBACK = ["localhost", "host.bailey.internal", "web.localhost", "LOCALHOST", "localhost."]


# --- this host's loopback ---


@pytest.fixture
def lying(make_dns):
    """A resolver that would lead the names of the loopback elsewhere."""
    elsewhere = Answer(("10.77.0.9", "93.184.216.34"))
    return make_dns({name.lower().rstrip("."): elsewhere for name in LOOPBACK})


def ask(service, url, authority, *headers, method="GET"):
    with service.connect() as sock:
        lines = [f"{method} {url} HTTP/1.1", f"Host: {authority}", *headers]
        sock.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
        return Client(sock).answer()


@pytest.mark.parametrize("name", LOOPBACK)
def test_the_loopback_is_never_asked_for(name, make_service, origin, lying):
    entry = f"{name.lower().rstrip('.')}:{origin.port}"
    service = make_service({"allow_private": [entry], "dns_servers": [f"127.0.0.1:{lying.port}"]})
    here = f"{name}:{origin.port}"
    assert ask(service, f"http://{here}/x", here)[0] == 200
    for sock, status in (service.tunnel(name, origin.port), service.socks_tunnel(name, origin.port)):
        with sock:
            assert status in (200, 0)
            sock.sendall(f"GET /y HTTP/1.1\r\nHost: {here}\r\n\r\n".encode())
            assert Client(sock).answer()[0] == 200
    record = service.wait_record(kind="request", allowed=True)
    assert record["addr"] in ("127.0.0.1", "::1")
    other = f"{name}:{origin.port % 65535 + 1}"
    assert ask(service, f"http://{other}/", other)[0] == 403
    assert lying.questions == []


def test_the_loopback_is_not_the_proxys(make_service, origin, make_origin, lying):
    """A chained proxy would look for it on its own machine."""
    proxy = make_origin(answer(b"proxy"))
    service = make_service({"allow": ["out.ok.test"], "allow_private": [f"host.bailey.internal:{origin.port}"],
                            "upstream_proxy": f"http://127.0.0.1:{proxy.port}", "dns_servers": [f"127.0.0.1:{lying.port}"]})
    here = f"host.bailey.internal:{origin.port}"
    assert ask(service, f"http://{here}/", here)[0] == 200
    assert proxy.connections == [] and lying.questions == []


def test_a_proxy_may_be_named_localhost(make_service, make_origin, lying):
    proxy = make_origin(answer(b"by the proxy"))
    service = make_service({"allow": ["out.ok.test"], "upstream_proxy": f"http://localhost:{proxy.port}",
                            "dns_servers": [f"127.0.0.1:{lying.port}"]}, names=[("out.ok.test", "93.184.216.34")])
    sock, status = service.tunnel("out.ok.test", 80)
    sock.close()
    assert proxy.connections and "localhost" not in [q.name for q in lying.questions]
    assert status in (200, 502)


def test_dns_says_no_address_of_another_machine(make_service, lying):
    """In gateway mode the name works through the proxy; its clients may be containers, whose loopback is another."""
    service = make_service({"allow_private": ["host.bailey.internal:80"], "dns_servers": [f"127.0.0.1:{lying.port}"]})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(30)
        sock.sendto(b"\1\2" + question("A", "host.bailey.internal"), ("127.0.0.1", service.port["dns"]))
        reply = sock.recv(4096)
    assert reply[3] & 15 == 0 and struct.unpack("!H", reply[6:8])[0] == 0
    assert lying.questions == []


# --- paths ---

PATHS_REFUSED = [
    "/one//end", "//one/x/end", "/public//x", "/public/x//", "/public/..%3b/x", "/public/..%3B/x", "/public/.%3b/x", "/public/..;a/x",
    "/one/;/end", "/one/;a=b/end", "/one/%3b/end", "/public/%c0%ae%c0%ae/x", "/public/%e0%80%ae%e0%80%ae/x", "/public/%ff", "/public/%c3",
    "/public/%ed%a0%80", "/public/.%20./x", "/public/..%20/x", "/public/%ef%bc%8e%ef%bc%8e/x", "/public/..%ef%bc%8fx", "/public/%e2%80%a5/x",
    "/public/%u002e%u002e/x", "/pages/secret;.txt", "/pages/secret%3b.txt", "/pages/secret%3f.txt", "/pages/secret%23.txt",
]
PATHS_ALLOWED = ["/one/x/end", "/public/", "/public/x/", "/public/a;v=1/b", "/public/caf%c3%a9", "/public/%e2%80%a6more", "/public/...x",
                 "/public/what%3F", "/pages/a.txt", "/public/a%20b", "/public/-._~!$&'()*+,;=:@"]


@pytest.fixture
def paths(make_service, origin):
    here = f"{NAME}:{origin.port}"
    service = make_service({"allow_private": [here], "rules": [{"host": here, "paths": ["/public/**", "/one/*/end", "/pages/*.txt"]}]},
                           names=[NAME])
    return service, origin, here


@pytest.mark.parametrize("way", ["proxy", "tunnel"])
def test_paths_that_servers_read_differently(way, paths):
    service, origin, here = paths
    for path in PATHS_REFUSED + PATHS_ALLOWED:
        if way == "proxy":
            status = ask(service, f"http://{here}{path}", here)[0]
        else:
            sock, status = service.tunnel(*here.split(":"))
            with sock:
                if status == 200:
                    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {here}\r\n\r\n".encode())
                    status = Client(sock).answer()[0]
        assert status == (403 if path in PATHS_REFUSED else 200), path
    assert [r.split(b" ")[1].decode() for r in origin.requests()] == PATHS_ALLOWED


def test_a_host_without_path_rules_takes_them_all(make_service, origin):
    here = f"{NAME}:{origin.port}"
    service = make_service({"allow_private": [here], "rules": [{"host": here, "methods": ["GET"]}]}, names=[NAME])
    for path in ("/one//end", "/public/..%3b/x", "/%ff"):
        assert ask(service, f"http://{here}{path}", here)[0] == 200


# --- headers that change the request ---

OVERRIDES = {"X-HTTP-Method-Override": "DELETE", "x-http-method": "DELETE", "X-METHOD-OVERRIDE": "PUT", "X_HTTP_Method_Override": "DELETE",
             "X-Original-URL": "/admin", "X_Original_URL": "/admin", "X.Original.URL": "/admin", "X-Rewrite-URL": "/admin",
             "Content_Length": "3", "Transfer_Encoding": "chunked", "Transfer.Encoding": "chunked",
             "X-Forwarded-Prefix": "/admin", "X-Forwarded-Path": "/admin", "x-original-uri": "/admin", "Destination": "/admin",
             "SCRIPT_NAME": "/admin", "Path-Info": "/admin", "X-Middleware-Rewrite": "/admin", "x-middleware-subrequest": "middleware",
             "X-MS-ORIGINAL-URL": "/admin", "x-invoke-path": "/admin", "X-Matched-Path": "/admin", "Forwarded": "host=admin.test", "X-HTTP-Verb": "DELETE"}


@pytest.mark.parametrize("rule", [{"methods": ["GET", "POST"]}, {"paths": ["/public/**"]}], ids=["methods", "paths"])
def test_headers_that_change_the_request_are_refused(rule, make_service, origin):
    here = f"{NAME}:{origin.port}"
    service = make_service({"allow_private": [here], "rules": [{"host": here, **rule}]}, names=[NAME])
    for name, value in OVERRIDES.items():
        status, headers, body = ask(service, f"http://{here}/public/x", here, f"{name}: {value}", method="POST")
        assert status in (403, 405) and headers["x-bailey-reason"] in ("path", "method"), name
        assert b"header" in body
    assert ask(service, f"http://{here}/public/x", here, "X-Forwarded-For: 1.2.3.4", "X-Requested-With: curl")[0] == 200
    assert len(origin.requests()) == 1
    record = service.wait_record(kind="request", allowed=False)
    assert "header" in record["detail"]


def test_hosts_without_rules_get_them(make_service, origin):
    here = f"{NAME}:{origin.port}"
    service = make_service({"allow": [here], "allow_private": [here]}, names=[NAME])
    assert ask(service, f"http://{here}/x", here, "X-HTTP-Method-Override: DELETE", "X-Original-URL: /y")[0] == 200
    assert b"X-Original-URL: /y" in origin.requests()[0]


# --- bodies that an origin overlooks ---


def overlooks(sock, connection):
    """Reads requests one after the other, and bodies never."""
    data = b""
    while chunk := sock.recv(65536):
        data += chunk
        while b"\r\n\r\n" in data:
            head, data = data.split(b"\r\n\r\n", 1)
            connection.received += head + b"\r\n\r\n"
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            if b"connection: close" in head.lower():
                return


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE"])
def test_an_overlooked_body_is_no_request(method, make_service, make_origin):
    origin = make_origin(raw=overlooks)
    here = f"{NAME}:{origin.port}"
    service = make_service({"allow_private": [here], "rules": [{"host": here, "paths": ["/public/**"]}]}, names=[NAME])
    hidden = f"POST /admin HTTP/1.1\r\nHost: {here}\r\n\r\n"
    for framing, body in ((f"Content-Length: {len(hidden)}", hidden), ("Transfer-Encoding: chunked", f"{len(hidden):x}\r\n{hidden}\r\n0\r\n\r\n")):
        with service.connect() as sock:
            sock.sendall(f"{method} http://{here}/public/x HTTP/1.1\r\nHost: {here}\r\n{framing}\r\n\r\n{body}".encode())
            assert Client(sock).answer(head=method == "HEAD")[0] == 200
    assert ask(service, f"http://{here}/public/y", here)[0] == 200
    assert b"/admin" not in origin.received() and origin.received().count(b"/public/x") == 2


def test_only_one_expectation_passes(make_service, origin):
    """Servers that stumble over others forget the body that follows."""
    here = f"{NAME}:{origin.port}"
    service = make_service({"allow_private": [here], "rules": [{"host": here, "paths": ["/public/**"]}]}, names=[NAME])
    for lines in (["Expect: y 100-continue"], ["Expect: 100-continue, x"], ["Expect: x"], ["Expect: "], ["Connection: expect", "Expect: 100-continue"]):
        assert ask(service, f"http://{here}/public/x", here, *lines)[0] == 200, lines
    assert b"expect" not in origin.received().lower()
    assert ask(service, f"http://{here}/public/x", here, "Expect: 100-continue", "Expect: 100-continue")[0] == 200
    assert origin.received().lower().count(b"expect: 100-continue") == 1


# --- other protocols ---

GREETINGS = {
    "git": b"0033git-upload-pack /repo.git\0host=x\0", "ldap": bytes.fromhex("300c020101600702010304008000"), "zookeeper": b"ruok",
    "nsq": b"  V2", "jdwp": b"JDWP-Handshake", "nats": b'CONNECT {"verbose":false}\r\n', "stomp": b"CONNECT\naccept-version:1.2\n\n\0",
    "memcached": b"get a\r\n", "memcached-path": b"get /a\r\n", "rtsp": b"OPTIONS rtsp://x/y RTSP/1.0\r\nCSeq: 1\r\n\r\n", "sip": b"OPTIONS sip:a@x SIP/2.0\r\n\r\n",
    "redis": b"PING\r\n", "capitals": b"HELLO", "ldap-blank": bytes.fromhex("3020020101"), "ldap-line": bytes.fromhex("300a0201014200"),
    "word": b"hello", "mysql": b"\r\0\0\1", "beanstalk": b"put 0 0 60 1\r\n", "rtsp-star": b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n",
    "redis-inline": b"GET key\r\n",
}


def echo(sock, connection):
    with contextlib.suppress(OSError):
        while data := sock.recv(65536):
            connection.received += data
            sock.sendall(b"<" + data)


@pytest.fixture
def echoing(make_service, make_origin):
    origin = make_origin(raw=echo)
    here = f"{NAME}:{origin.port}"
    return make_service({"allow": [here], "allow_private": [here]}, names=[NAME]), origin


@pytest.mark.parametrize("way", ["connect", "socks5"])
def test_protocols_whose_clients_speak_first(way, echoing):
    service, origin = echoing
    for name, greeting in GREETINGS.items():
        began = time.monotonic()
        sock, status = service.tunnel(NAME, origin.port) if way == "connect" else service.socks_tunnel(NAME, origin.port)
        with sock:
            assert status in (200, 0)
            sock.settimeout(8)  # less than it was held
            sock.sendall(greeting)
            assert sock.recv(1) == b"<", name
            sock.sendall(b"and more\n")  # and the rest is not looked at
            got = b""
            while not got.endswith(b"and more\n"):
                got += sock.recv(65536)
        assert time.monotonic() - began < 8, name


HIDING = [
    (b"GET / HTTP/1.1\nHost: evil.test\n\n",), (b"G", b"ET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), (b"get", b" / HTTP/1.1\r\nHost: evil.test\r\n\r\n"),
    (b"foo", b" / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), (b"\r\nfoo", b" / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), (b" x1", b" / HTT", b"P/1.1\r\nHost: evil.test\r\n\r\n"),
    (b"REPORT", b" / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), (b"GET /\r\n",), (b"GET\t/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",), (b"GET\n/ HTTP/1.1\r\n\r\n",),
    (b"get a" + b"x" * 3000, b" http/1.1\r\nHost: evil.test\r\n\r\n"), (b"GET http://evil.test/\r\n",),
]


@pytest.mark.parametrize("pieces", HIDING, ids=range(len(HIDING)))
def test_http_does_not_hide_as_another_protocol(pieces, echoing):
    service, origin = echoing
    sock, status = service.tunnel(NAME, origin.port)
    with sock, contextlib.suppress(ConnectionError):
        assert status == 200
        for piece in pieces:
            sock.sendall(piece)
            time.sleep(0.4)  # longer than a first word is held
        sock.settimeout(30)
        while sock.recv(65536):
            pass
    record = service.wait_record(kind="tunnel-close", allowed=False)
    assert record["reason"] in ("protocol", "fronting")
    assert b"evil.test" not in origin.received() and b"HTTP/" not in origin.received().upper()


def test_a_slow_request_with_an_unusual_method_is_whole(echoing):
    """WebDAV's are held as long as they come without a long pause."""
    service, origin = echoing
    sock, _ = service.tunnel(NAME, origin.port)
    with sock:
        request = f"PROPFIND / HTTP/1.1\r\nHost: {NAME}:{origin.port}\r\nContent-Length: 0\r\n\r\n".encode()
        for at in range(0, len(request), 4):
            sock.sendall(request[at:at + 4])
            time.sleep(0.01)
        assert sock.recv(1) == b"<"


# --- DNS over TCP ---


@pytest.mark.parametrize("end", ["answered", "half closed", "not answered", "half a question", "nothing"])
def test_a_closed_dns_connection_is_gone_at_once(make_service, end):
    service = make_service({"allow": ["*.ok.test"], "limits": {"connections": 64, "idle": "1h"}}, names=[NAME])
    message = os.urandom(2) + question("A", NAME)

    def ask():
        """A worker that has not got to closed connections yet leaves no room for more: then the next try is served."""
        with service.connect("dns") as sock, contextlib.suppress(ConnectionError):
            sent = struct.pack("!H", len(message)) + message
            sock.sendall({"half a question": sent[:9], "nothing": b""}.get(end, sent))
            if end == "half closed":
                sock.shutdown(socket.SHUT_WR)
            return end not in ("answered", "half closed") or sock.recv(2)
        return False

    for _ in range(200):
        wait_until(ask, what="an answer")

    def left():
        with open(f"/proc/{service.gateway_pid}/net/tcp") as table:
            port = f":{service.port['dns']:04X}"
            return [line for line in table if line.split()[1].endswith(port) and line.split()[3] == "08"]  # CLOSE_WAIT
    wait_until(lambda: not left(), what="the end of closed connections")  # long before they would be idle


# --- trailers, and the path slot ---


def chunked(lab, trailers, *headers):
    with lab.open() as sock:
        head = [f"POST /x HTTP/1.1", f"Host: {HOST}:{lab.origin.port}", f"Authorization: Bearer {lab.fake}", "Transfer-Encoding: chunked", *headers]
        sock.sendall("\r\n".join(head).encode() + b"\r\n\r\n3\r\nabc\r\n0\r\n" + trailers + b"\r\n")
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            return Client(sock).answer()
    return None


@pytest.fixture
def lab(tmp_path, authority, make_origin, closing):
    origin = make_origin(answer(b"ok"), tls=authority.context(HOST, alpn=("http/1.1",)))
    return closing(Lab(tmp_path, authority, origin))


def test_a_stand_in_in_http1_trailers_is_on_record(lab):
    status, headers, body = chunked(lab, f"X-Key: {lab.fake}\r\n".encode())
    assert (status, headers["x-bailey-reason"]) == (403, "credential")
    assert b"cut off" in body and b"nothing was sent" not in body
    event = lab.gateway.wait_event(kind="request", allowed=False, reason="credential")
    assert "trailers" in event["detail"]
    assert lab.fake.encode() not in lab.origin.received()


def test_other_http1_trailers_are_dropped_as_before(lab):
    assert chunked(lab, b"X-Check: 42\r\n")[0] == 200
    assert b"X-Check" not in lab.origin.received()


def test_the_path_slot_keeps_what_a_segment_may_hold(tmp_path, authority, make_origin, closing):
    secret = "123:AA-b@c!$&'()*+,;=~x"
    origin = make_origin(answer(b"ok"), tls=authority.context(HOST, alpn=("http/1.1",)))
    lab = closing(Lab(tmp_path, authority, origin, f"credential=bot|{HOST}:{origin.port}|path|{secret}"))
    assert lab.ask(f"/v1/{lab.gateway.fakes['bot']}/send")[0] == 200
    assert origin.requests()[-1].split(b" ")[1] == f"/v1/{secret}/send".encode()


# --- answers whose end nobody says ---


def unsaid(framing, said, body=b"body"):
    """An origin that ends its answer by closing; said: with close_notify."""
    def serve(sock, connection):
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(65536)
        connection.received += head
        sock.sendall(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n" + body)
        with contextlib.suppress(OSError):
            if said:
                sock.unwrap()
            else:
                sock.shutdown(socket.SHUT_WR)  # of the socket below: the client reads an end without close_notify
    return serve


def fetch_all(lab, strict):
    """Every byte; strict: an end without close_notify is an error, as it is for OpenSSL."""
    sock = lab.gateway.connect()
    sock.settimeout(60)
    sock.sendall(f"CONNECT {HOST}:{lab.origin.port} HTTP/1.1\r\nHost: {HOST}:{lab.origin.port}\r\n\r\n".encode())
    assert Client(sock).answer(head=True)[0] == 200
    context = ssl.create_default_context(cafile=lab.ca)
    if strict:
        context.options &= ~0x80  # SSL_OP_IGNORE_UNEXPECTED_EOF, which Python sets
    with context.wrap_socket(sock, server_hostname=HOST, suppress_ragged_eofs=not strict) as tls:
        tls.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}:{lab.origin.port}\r\n\r\n".encode())
        got = b""
        while data := tls.recv(65536):
            got += data
    return got


@pytest.mark.parametrize("framing", [b"", b"Connection: close\r\n", b"Content-Type: text/event-stream\r\n", b"Content-Encoding: br\r\nConnection: close\r\n"],
                         ids=["nothing", "close", "events", "coded"])
def test_an_end_that_was_not_said_is_an_error_on_record(tmp_path, authority, make_origin, closing, framing):
    origin = make_origin(raw=unsaid(framing, False), tls=authority.context(HOST, alpn=("http/1.1",)))
    lab = closing(Lab(tmp_path, authority, origin, f"rule={HOST}:{origin.port}|GET|/**"))
    with pytest.raises((OSError, ssl.SSLError)):
        fetch_all(lab, True)
    event = lab.gateway.wait_event(kind="request", status=200, reason="upstream")
    assert event["allowed"] and "close_notify" in event["detail"]


def test_an_end_that_was_said_is_said(tmp_path, authority, make_origin, closing):
    origin = make_origin(raw=unsaid(b"", True), tls=authority.context(HOST, alpn=("http/1.1",)))
    lab = closing(Lab(tmp_path, authority, origin, f"rule={HOST}:{origin.port}|GET|/**"))
    assert fetch_all(lab, True).endswith(b"\r\n\r\nbody")
    assert not lab.gateway.wait_event(kind="request", allowed=True, status=200)["detail"]


@pytest.mark.parametrize("framing, said", [(b"Content-Length: 40\r\n", False), (b"Content-Length: 40\r\n", True), (b"Transfer-Encoding: chunked\r\n", False),
                                           (b"Transfer-Encoding: chunked\r\n", True)], ids=["length", "length, said", "chunks", "chunks, said"])
def test_an_answer_that_is_too_short_is_an_error(tmp_path, authority, make_origin, closing, framing, said):
    """Also where the origin ends TLS as it should: the length says more than the end."""
    origin = make_origin(raw=unsaid(framing, said, b"4\r\nbody\r\n" if b"chunked" in framing else b"body"), tls=authority.context(HOST, alpn=("http/1.1",)))
    lab = closing(Lab(tmp_path, authority, origin, f"rule={HOST}:{origin.port}|GET|/**"))
    with pytest.raises((OSError, ssl.SSLError)):
        fetch_all(lab, True)
    event = lab.gateway.wait_event(kind="request", status=200, reason="upstream")
    assert "cut off" in event["detail"]
