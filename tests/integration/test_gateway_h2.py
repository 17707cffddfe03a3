# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 inside TLS that the gateway opens: real clients, real servers, and peers that break every rule."""
import pytest

from kit.h2 import H2Client, H2Server
from test_gateway_tls import HOST, NAMES, SLOW, Lab, make_lab  # noqa: F401 (fixtures)


def hello(server, number, headers):
    for _ in server.receive(number):
        pass
    server.respond(number, headers=[("content-type", "text/plain")])
    server.data(number, b"origin\n", end=True)


@pytest.fixture
def make_h2(make_origin, authority):
    return lambda handle=hello, **more: make_origin(tls=authority.context(*NAMES, alpn=("h2", "http/1.1")), raw=H2Server(handle, **more))


@pytest.fixture
def lab(make_lab):
    return make_lab(f"rule={HOST}:1-65535|GET,HEAD,POST,PUT,TRACE,OPTIONS|/ok/**", "workers=1")


def connect(lab, port, **more):
    sock = lab.client(port, context=lab.context(["h2"]))
    assert sock.selected_alpn_protocol() == "h2"
    return H2Client(sock, f"{HOST}:{port}", **more)


def test_smoke(lab, make_h2):
    origin = make_h2()
    client = connect(lab, origin.port)
    got = client.ask("/ok/x?q=1")
    assert (got.status, got.body) == (200, b"origin\n")
    got = client.ask("/secret")
    assert got.status == 403 and got.headers["x-bailey-reason"] == "path", got.body
    got = client.ask("/ok/y", "POST", body=b"x" * 100000)
    assert got.status == 200
