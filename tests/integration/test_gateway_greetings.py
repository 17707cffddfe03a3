# SPDX-License-Identifier: Apache-2.0
"""The name in a TLS greeting, told to a server that is OpenSSL itself, by clients that hide it: behind a record that servers skip,
or in the second greeting that the server asks for. What the server was told is what the gateway must have judged."""
import contextlib
import socket
import ssl
import struct
import threading

import pytest

from kit.process import wait_until

GOOD, OTHER = "api.ok.test", "other.ok.test"


def extension(kind, body):
    return struct.pack("!HH", kind, len(body)) + body


def vector(body, width="!H"):
    return struct.pack(width, len(body)) + body


def hello(name, share, version=b"\3\3", padding=0):
    """A TLS 1.3 ClientHello. share: a public key of X25519, or empty, which makes the server ask again."""
    shares = struct.pack("!HH", 29, len(share)) + share if share else b""
    extensions = (extension(0, vector(b"\0" + vector(name.encode()))) + extension(43, b"\2\3\4") +
                  extension(10, vector(struct.pack("!H", 29))) + extension(13, vector(b"\4\3\x08\4")) +
                  extension(51, vector(shares)))
    if padding:
        extensions += extension(21, b"\0" * (65535 - len(extensions) - 4))
    ciphers = b"\x13\1" + b"\x0a\x0a" * (padding // 2)
    body = version + b"r" * 32 + vector(b"s" * 32, "!B") + vector(ciphers) + b"\1\0" + vector(extensions)
    message = b"\1" + struct.pack("!I", len(body))[1:] + body
    return b"".join(b"\x16\3\1" + vector(message[i:i + 16384]) for i in range(0, len(message), 16384))


class Server:
    """Handshakes with whoever comes and notes each name that it is told."""

    def __init__(self, context):
        self.told = []
        context.sni_callback = lambda sock, name, _: self.told.append(name)
        self.context = context
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            try:
                client, _ = self.sock.accept()
            except OSError:
                return
            client.settimeout(60)
            try:
                with self.context.wrap_socket(client, server_side=True) as tls:
                    tls.sendall(tls.recv(100))
            except OSError:
                client.close()

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.thread.join(10)


@pytest.fixture
def server(authority, closing):
    return closing(Server(authority.context(GOOD, OTHER)))


@pytest.fixture
def service(make_service, server):
    return make_service({"allow": [f"{GOOD}:{server.port}"], "allow_private": [f"127.0.0.1:{server.port}", f"{GOOD}:{server.port}"]},
                        names=[GOOD, OTHER])


def record(sock):
    """Type of the next record from the server; None at the end."""
    try:
        head = b""
        while len(head) < 5:
            data = sock.recv(5 - len(head))
            if not data:
                return None
            head += data
        left = struct.unpack("!H", head[3:])[0]
        while left:
            left -= len(sock.recv(left))
        return head[0]
    except ConnectionError:
        return None


def open_tunnel(service, port, way):
    sock, status = service.tunnel(GOOD, port) if way == "connect" else service.socks_tunnel(GOOD, port)
    assert status == (200 if way == "connect" else 0)
    return sock


@pytest.mark.parametrize("way", ["connect", "socks5"])
@pytest.mark.parametrize("ahead", [b"\x15\3\1\0\2\1\x5a", b"\x15\3\3\0\2\1\x5a" * 3], ids=["alert", "alerts"])
def test_a_record_ahead_does_not_hide_the_name(service, server, way, ahead):
    with open_tunnel(service, server.port, way) as sock:
        with contextlib.suppress(ConnectionError):  # it may be closed at the first record
            sock.sendall(ahead)
            sock.sendall(hello(OTHER, b"k" * 32))
        assert record(sock) in (None, 21)
    service.wait_record(kind="tunnel-close", allowed=False, reason="protocol")
    assert server.told == []


CCS, ALERT = b"\x14\3\3\0\1\1", b"\x15\3\3\0\2\1\x5a"


@pytest.mark.parametrize("way", ["connect", "socks5"])
@pytest.mark.parametrize("ahead, odd, reason", [(CCS, {}, "fronting"), (CCS + ALERT, {}, "fronting"), (b"", {}, "fronting"),
                                                (CCS, {"version": b"\3\5"}, "fronting"), (CCS, {"padding": 40000}, "protocol")],
                         ids=["plain", "alert", "alone", "version", "large"])
def test_the_second_hello_must_name_the_same(service, server, way, ahead, odd, reason):
    with open_tunnel(service, server.port, way) as sock:
        sock.sendall(hello(GOOD, b"", **odd) if "version" in odd else hello(GOOD, b""))
        assert record(sock) == 22, "no HelloRetryRequest"
        with contextlib.suppress(ConnectionError):
            sock.sendall(ahead + hello(OTHER, b"k" * 32, **odd))
            while record(sock) is not None:
                pass
    service.wait_record(kind="tunnel-close", allowed=False, reason=reason)
    assert OTHER not in server.told


def test_the_second_hello_may_name_the_same(service, server):
    with open_tunnel(service, server.port, "connect") as sock:
        sock.sendall(hello(GOOD, b""))
        assert record(sock) == 22
        sock.sendall(b"\x14\3\3\0\1\1" + hello(GOOD, b"k" * 32))
        kinds = [record(sock) for _ in range(3)]
        assert 23 in kinds or kinds.count(22) >= 1, kinds
    assert set(server.told) == {GOOD}


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("groups", [None, "secp521r1"])
def test_honest_clients_work(service, server, authority, version, groups):
    """Also one whose first key share the server does not take, and one that resumes a session."""
    if groups:
        server.context.set_ecdh_curve(groups)
    context = ssl.create_default_context(cafile=str(authority.file))
    context.minimum_version = context.maximum_version = version
    session = None
    for _ in range(3):
        sock = open_tunnel(service, server.port, "connect")
        with context.wrap_socket(sock, server_hostname=GOOD, session=session) as tls:
            tls.sendall(b"ping")
            assert tls.recv(4) == b"ping"
            session = tls.session
    wait_until(lambda: len(service.records(kind="tunnel-close", allowed=True)) == 3, what="three closed tunnels")
    assert set(server.told) == {GOOD}
