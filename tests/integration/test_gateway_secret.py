# SPDX-License-Identifier: Apache-2.0
"""A gateway whose clients must bring the secret of the run, as user and password of the proxy variables: what a listener wants that
others than the run's own programs can reach."""
import base64
import select

import pytest

from conftest import BUILD
from kit.gateway import Client, Gateway
from kit.h2 import PREFACE, H2Client
from kit.process import PATIENCE
from test_gateway_h2 import RULE, make_h2  # noqa: F401 (fixtures)
from test_gateway_tls import HOST, make_lab  # noqa: F401 (fixtures)

NAME = "plain.ok.test"
SECRET = "s3cretOfTheRun" + "0123456789abcdefghij"
WRONG = SECRET[:-1] + "k"
POLICY = [f"allow={NAME}", f"private={NAME}:1-65535", f"secret={SECRET}"]


def basic(secret, user="bailey"):
    return "Proxy-Authorization: Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode() + "\r\n"


def get(port, path="/", more="", method="GET"):
    return f"{method} http://{NAME}:{port}{path} HTTP/1.1\r\nHost: {NAME}:{port}\r\n{more}\r\n".encode()


def connect(port, more=""):
    return f"CONNECT {NAME}:{port} HTTP/1.1\r\nHost: {NAME}:{port}\r\n{more}\r\n".encode()


@pytest.fixture
def gateway(tmp_path, closing):
    return closing(Gateway(BUILD, ["http", "socks", *POLICY], hosts=[(NAME, "127.0.0.1")], tmp_path=tmp_path))


def curl(run, gateway, port, secret, scheme="http", listener="http", more=()):
    user = f"bailey:{secret}@" if secret else ""
    return run(["curl", "-sS", "-m", str(PATIENCE), "--noproxy", "", "-w", " %{http_code} %{http_connect}", *more,
                "-x", f"{scheme}://{user}127.0.0.1:{gateway.port[listener]}", f"http://{NAME}:{port}/x"], timeout=2 * PATIENCE)


@pytest.mark.parametrize("more", [(), ("-p",)], ids=["request", "tunnel"])
def test_curl(more, gateway, origin, run):
    for secret in (None, WRONG):
        done = curl(run, gateway, origin.port, secret, more=more)
        assert "407" in done.text and "origin" not in done.text, str(done)
        event = gateway.wait_event(status=407)
        assert (event["reason"], event["allowed"], event["domain"], event["port"]) == ("client", False, NAME, origin.port)
    assert not origin.connections
    done = curl(run, gateway, origin.port, SECRET, more=more)
    assert "origin" in done.text and " 200 " in done.text, str(done)
    assert len(origin.requests()) == 1 and b"proxy-authorization" not in origin.received().lower()
    assert not any(SECRET in str(event) for event in gateway.events)


def test_curl_by_socks(gateway, origin, run):
    assert "origin" in curl(run, gateway, origin.port, SECRET, "socks5h", "socks").text
    assert len(origin.connections) == 1
    for secret in (None, WRONG):
        done = curl(run, gateway, origin.port, secret, "socks5h", "socks")
        assert done.status == 97 and "origin" not in done.text, str(done)  # what curl says of a proxy that refused the handshake
    assert len(origin.connections) == 1
    for detail in ("the client offers no secret of the run", "the client brings a wrong secret of the run"):
        event = gateway.wait_event(detail=detail)
        assert (event["via"], event["reason"], event["allowed"]) == ("socks5", "client", False)


URLLIB = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=60).read())"


@pytest.mark.parametrize("program", [["/usr/bin/python3", "-c", URLLIB], ["git", "ls-remote"]], ids=["python", "git"])
def test_programs_that_read_the_variables(program, gateway, origin, run):
    for secret, reached in ((WRONG, False), (SECRET, True)):
        proxy = f"http://bailey:{secret}@127.0.0.1:{gateway.port['http']}"
        done = run([*program, f"http://{NAME}:{origin.port}/x"], timeout=2 * PATIENCE,
                   env={"http_proxy": proxy, "HTTP_PROXY": proxy, "no_proxy": ""})
        assert bool(origin.connections) == reached, str(done)
    assert b"proxy-authorization" not in origin.received().lower()


def test_a_refusal_asks_for_it_and_the_connection_goes_on(gateway, origin):
    """Clients that send it only when they are asked, on the connection where they were: Java, git with http.proxyAuthMethod."""
    with gateway.connect() as sock:
        client = Client(sock)
        sock.sendall(connect(origin.port))
        status, headers, body = client.answer()
        assert status == 407 and headers["proxy-authenticate"] == 'Basic realm="bailey"' and headers["x-bailey-reason"] == "client"
        assert b"secret of the run" in body and SECRET.encode() not in body
        sock.sendall(connect(origin.port, basic(SECRET)))
        assert client.answer(head=True)[0] == 200
        sock.sendall(f"GET /inside HTTP/1.1\r\nHost: {NAME}:{origin.port}\r\n\r\n".encode())  # nobody asks again in a tunnel
        assert client.answer()[0] == 200


def test_every_request_of_a_connection_brings_it(gateway, origin):
    with gateway.connect() as sock:
        client = Client(sock)
        for more, status in ((basic(SECRET), 200), ("", 407), (basic(SECRET), 200), (basic(WRONG), 407), (basic(SECRET) * 2, 407)):
            sock.sendall(get(origin.port, f"/{status}", more))
            assert client.answer()[0] == status
        sock.sendall(get(origin.port, "/200", basic(SECRET)) + get(origin.port, "/407"))  # at once
        assert [client.answer()[0], client.answer()[0]] == [200, 407]
    assert not any(b"/407" in request for request in origin.requests())


NEAR = [
    basic(SECRET, "root"), basic(SECRET, ""), basic(SECRET + "x"), basic(SECRET[:-1]), basic(""), basic(SECRET.upper()),
    basic(SECRET).replace("Basic", "Bearer"), basic(SECRET).replace("Proxy-A", "A"), basic(SECRET).replace("Basic ", "Basic\t\t!"),
    f"Proxy-Authorization: {SECRET}\r\n", f"Proxy-Authorization: Basic bailey:{SECRET}\r\n", basic("x") + basic(SECRET),
    basic(SECRET).rstrip() + "AAAA\r\n", basic("x" * 4000)]


def test_near_it_is_not_it(gateway, origin):
    for sent in NEAR:
        for request in (get(origin.port, more=sent), connect(origin.port, sent), get(origin.port, "/p", sent, "POST")):
            with gateway.connect() as sock:
                sock.sendall(request)
                assert Client(sock).answer()[0] == 407, sent
    assert not origin.connections


def test_a_body_without_it_goes_nowhere(gateway, origin):
    with gateway.connect() as sock:
        sock.sendall(get(origin.port, more="Content-Length: 100000\r\n", method="POST") + b"x" * 1000)
        client = Client(sock)
        assert client.answer()[0] == 407 and client.is_closed(PATIENCE)
    assert not origin.connections


def test_other_ways_in(gateway, origin):
    """The port for SOCKS5 speaks HTTP, too; HTTP/2 has no way around the parser; neither has the API's form."""
    with gateway.connect("socks") as sock:
        sock.sendall(get(origin.port))
        assert Client(sock).answer()[0] == 407
    with gateway.connect("socks") as sock:
        sock.sendall(get(origin.port, more=basic(SECRET)))
        assert Client(sock).answer()[0] == 200
    with gateway.connect() as sock:
        sock.sendall(PREFACE)
        assert Client(sock).answer()[0] == 400
    with gateway.connect() as sock:
        sock.sendall(get(origin.port, more="Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\n"))
        assert Client(sock).answer()[0] == 407
    for target in (f"http://bailey:{SECRET}@{NAME}:{origin.port}/", "/github/user", f"/bailey:{SECRET}/"):
        with gateway.connect() as sock:
            sock.sendall(f"GET {target} HTTP/1.1\r\nHost: {NAME}:{origin.port}\r\n\r\n".encode())
            assert Client(sock).answer()[0] == 407
    assert len(origin.requests()) == 1


def exactly(sock, n):
    got = b""
    while len(got) < n and (data := sock.recv(n - len(got))):
        got += data
    return got


def password(secret, user=b"bailey"):
    return b"\1" + bytes([len(user)]) + user + bytes([len(secret)]) + secret.encode()


def target(port):
    return b"\5\1\0\3" + bytes([len(NAME)]) + NAME.encode() + port.to_bytes(2, "big")


def test_socks_step_by_step(gateway, origin):
    for greeting in (b"\5\1\0", b"\5\0", b"\5\2\0\1", b"\5\1\xff"):  # none of them is the method of a password
        with gateway.connect("socks") as sock:
            sock.sendall(greeting)
            assert exactly(sock, 3) == b"\5\xff"
    for given in (password(WRONG), password(""), password(SECRET, b"root"), password(SECRET, b"")):
        with gateway.connect("socks") as sock:
            sock.sendall(b"\5\2\0\2" + given + target(origin.port))  # with its request ahead
            assert exactly(sock, 5) == b"\5\2\1\1"
    for given in (b"\5\1\0\3", b"GET "):  # the request where the password belongs
        with gateway.connect("socks") as sock:
            sock.sendall(b"\5\1\2" + given + target(origin.port))
            assert exactly(sock, 3) == b"\5\2"
    assert not origin.connections
    with gateway.connect("socks") as sock:
        for byte in b"\5\2\0\2" + password(SECRET) + target(origin.port):
            sock.sendall(bytes([byte]))
        assert exactly(sock, 14)[:6] == b"\5\2\1\0\5\0"
        sock.sendall(f"GET /x HTTP/1.1\r\nHost: {NAME}:{origin.port}\r\n\r\n".encode())
        assert select.select([sock], [], [], PATIENCE)[0] and b"origin" in sock.recv(65536)


def test_inside_tls_it_is_not_asked_again_and_goes_no_further(make_lab, make_h2):
    lab, origin = make_lab(RULE, f"secret={SECRET}"), make_h2()
    with lab.gateway.connect(timeout=PATIENCE) as sock:
        head = f"CONNECT {HOST}:{origin.port} HTTP/1.1\r\nHost: {HOST}:{origin.port}\r\n"
        sock.sendall((head + "\r\n").encode())
        client = Client(sock)
        assert client.answer()[0] == 407
        sock.sendall((head + basic(SECRET) + "\r\n").encode())
        assert client.answer(head=True)[0] == 200
        with lab.context(["h2"]).wrap_socket(sock, server_hostname=HOST) as tls:
            inside = H2Client(tls, f"{HOST}:{origin.port}")
            assert inside.ask("/ok/x").status == 200
            assert inside.ask("/no").status == 403
    assert not any(SECRET in str(event) for event in lab.gateway.events)


@pytest.mark.parametrize("listener", ["dns", "forward=80", "api"])
def test_no_listener_that_cannot_ask(listener, tmp_path):
    with pytest.raises(AssertionError, match="cannot ask its clients for the secret"):
        Gateway(BUILD, ["http", listener, *POLICY], hosts=[], tmp_path=tmp_path)
