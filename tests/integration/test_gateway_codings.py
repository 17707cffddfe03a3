# SPDX-License-Identifier: Apache-2.0
"""Compressed answers that nobody asked for, from hosts with credentials: decoded, searched, sent on as what they are; HTTP/1 and HTTP/2."""
import contextlib
import gzip
import os
import random
import threading
import zlib

import brotli
import pytest
import zstandard

from kit.gateway import Client
from kit.h2 import H2Server
from kit.process import SLOW, wait_until
from test_gateway_credentials import HOST, SECRET, Lab, answer, head_from, lab, until  # noqa: F401 (fixture)
from test_gateway_h2 import connect
from test_gateway_tls import NAMES
from test_gateway_tls import make_lab as make_h2_lab  # noqa: F401 (fixture)


def bare_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


CODINGS = {
    "gzip": gzip.compress, "x-gzip": lambda data: gzip.compress(data[:1000]) + gzip.compress(data[1000:]), "deflate": zlib.compress,
    "Deflate": bare_deflate, "br": brotli.compress, "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}
HEAD_FIELDS = ['ETag: "abc"', "Content-MD5: x", "Digest: sha-256=x", "Repr-Digest: x", "Accept-Ranges: bytes", "X-Kept: yes"]


def text():
    chance = random.Random(7)
    noise = bytes(chance.randrange(32, 127) for _ in range(150000))
    return noise[:70000] + SECRET.encode() + b"0" * 500000 + SECRET.encode() + noise[70000:] + SECRET.encode()


def replies(data, coding):
    """One body in every framing, in pieces that end anywhere."""
    head = "\r\n".join(["HTTP/1.1 200 OK", f"Content-Encoding: {coding}", *HEAD_FIELDS])
    yield "length", f"{head}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data
    pieces = [data[i:i + 7919] for i in range(0, len(data), 7919)]
    yield "chunked", f"{head}\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + b"".join(
        f"{len(p):x}\r\n".encode() + p + b"\r\n" for p in pieces) + b"0\r\nX: y\r\n\r\n"
    yield "until close", f"{head}\r\nConnection: close\r\n\r\n".encode() + data


def plain(fields):
    """Nothing is said any more about the bytes that were sent."""
    assert not {"content-encoding", "content-md5", "digest", "repr-digest", "accept-ranges", "content-length"} & set(fields), fields
    assert fields["etag"] == 'W/"abc"' and fields["x-kept"] == "yes"


def test_every_coding_and_framing(lab):  # noqa: F811
    here, body = lab(answer(b"")), text()
    expected = body.replace(SECRET.encode(), here.fake.encode())
    for coding, pack in CODINGS.items():
        for framing, reply in replies(pack(body), coding):
            def once(sock, connection, reply=reply):
                head_from(sock, connection)
                sock.sendall(reply)
                with contextlib.suppress(OSError):
                    sock.unwrap()  # says goodbye: what ends without is cut off
            here.origin.raw = once
            status, fields, got, received = here.ask("/", f"x-api-key: {here.fake}")
            assert status == 200 and got == expected, (coding, framing, len(got))
            assert SECRET.encode() not in received and received.endswith(b"\r\n0\r\n\r\n")
            plain(fields)


def test_heads_without_bodies_and_old_clients(lab):  # noqa: F811
    """HEAD says what GET would; 304 passes; a part, an unknown coding and two at once are refused; HTTP/1.0 gets it bare."""
    data = gzip.compress(b"one " + SECRET.encode())
    fields = ["Content-Encoding: gzip", *HEAD_FIELDS]
    here = lab(answer(data, *fields))

    def ask(first, version="1.1"):
        with here.open() as sock:
            sock.sendall(f"{first} HTTP/{version}\r\nHost: {HOST}:{here.origin.port}\r\nx-api-key: {here.fake}\r\n\r\n".encode())
            return Client(sock).answer(head=first.startswith("HEAD"))
    status, got, _ = ask("HEAD /")
    assert status == 200
    plain(got)
    status, got, body = ask("GET /", "1.0")
    assert (status, body) == (200, f"one {here.fake}".encode()) and "transfer-encoding" not in got
    here.origin.answer = f'HTTP/1.1 304 Not Modified\r\nETag: "abc"\r\nX-Echo: {SECRET}\r\n\r\n'.encode()
    status, got, _ = ask("GET /")
    assert (status, got["etag"], got["x-echo"]) == (304, '"abc"', here.fake)
    here.origin.answer = answer(data, "Content-Encoding: gzip", f'ETag: "{"x" * 20}Content-Length: 9"', 'ETag: "b"')  # one is enough
    status, got, body = ask("GET /")
    assert (status, body) == (200, f"one {here.fake}".encode()) and got["etag"].endswith('Content-Length: 9"'), got
    assert "content-length" not in got
    here.origin.answer = answer(b"", *fields)  # coded, and empty
    assert ask("GET /")[::2] == (200, b"")
    for reply in (answer(data, *fields, status="206 Partial Content"), answer(data, "Content-Encoding: compress"),
                  answer(data, "Content-Encoding: gzip, gzip"), answer(data, "Content-Encoding: gzip", "Content-Encoding: br"),
                  answer(b"no gzip at all, but long enough", "Content-Encoding: gzip"), answer(b"\x81" * 40, "Content-Encoding: zstd"),
                  answer(data[:-9], "Content-Encoding: gzip")):
        here.origin.answer = reply
        status, got, body = ask("GET /")
        assert (status, got["x-bailey-reason"]) == (502, "upstream") and b"compressed" in body, reply
    here.origin.answer = answer(data + b"more", "Content-Encoding: gzip")  # known when the rest has left: cut off
    assert not here.ask("/", f"x-api-key: {here.fake}")[3].endswith(b"0\r\n\r\n")
    here.origin.answer = answer(b"HEAD has none", "Content-Encoding: compress")
    assert ask("HEAD /")[1]["content-encoding"] == "compress"


def test_a_value_that_went_away(lab):  # noqa: F811
    """Its source gives none now, but the origin still shows the last one, and compresses it."""
    here = lab(answer(b"fine"))
    assert here.ask("/", f"x-api-key: {here.fake}")[0] == 200
    here.gateway.say("value key -")
    wait_until(lambda: here.ask("/", f"x-api-key: {here.fake}")[0] == 503, 30, "a request that is refused")
    here.origin.answer = answer(gzip.compress(b"one " + SECRET.encode()), "Content-Encoding: gzip")
    status, fields, body, _ = here.ask("/")
    assert (status, body) == (200, f"one {here.fake}".encode()) and "content-encoding" not in fields


def test_events_are_not_delayed(lab):  # noqa: F811
    """Each is flushed by its sender, and arrives before the next is sent."""
    step = threading.Semaphore(0)

    class Brotli:
        def __init__(self):
            self.packer = brotli.Compressor()

        def compress(self, data):
            return self.packer.process(data) + self.packer.flush()

    def flushing(coding):
        if coding == "br":
            return Brotli().compress
        packer = zlib.compressobj(wbits=31) if coding == "gzip" else zstandard.ZstdCompressor().compressobj()
        mode = zlib.Z_SYNC_FLUSH if coding == "gzip" else zstandard.COMPRESSOBJ_FLUSH_BLOCK
        return lambda data: packer.compress(data) + packer.flush(mode)

    here = lab(answer(b""))
    for coding in ("gzip", "br", "zstd"):
        def stream(sock, connection, coding=coding):
            pack = flushing(coding)
            head_from(sock, connection)
            sock.sendall(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: {coding}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            for number in range(5):
                data = pack(f"data: {number} {SECRET if number == 3 else 'sk-live-'}\n\n".encode())
                sock.sendall(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                assert step.acquire(timeout=20)
        here.origin.raw = stream
        with here.open() as sock:
            sock.sendall(f"GET /events HTTP/1.1\r\nHost: {HOST}:{here.origin.port}\r\nx-api-key: {here.fake}\r\n\r\n".encode())
            for number in range(5):
                got = until(sock, b"\n\n\r\n")
                assert f"data: {number} {here.fake if number == 3 else 'sk-live-'}".encode() in got, (coding, got)
                step.release()


def bomb(coding, size):
    """Zeroes, more than anybody holds in memory, in a few kilobytes."""
    block = b"\0" * (1 << 20)
    if coding == "br":
        packer = brotli.Compressor(quality=5)
        return b"".join(packer.process(block) for _ in range(size >> 20)) + packer.finish()
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    return b"".join(packer.compress(block) for _ in range(size >> 20)) + packer.flush()


def resident(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_bombs(lab):  # noqa: F811
    """A body that grows is cut off, and never held; a window beyond the limit is refused before anything of it is sent."""
    here = lab(answer(b""))
    before = resident(here.gateway.pid)
    for coding in ("br", "zstd"):
        here.origin.answer = answer(bomb(coding, 64 << 20), f"Content-Encoding: {coding}")
        with here.open() as sock:
            sock.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}:{here.origin.port}\r\nx-api-key: {here.fake}\r\n\r\n".encode())
            got = 0
            try:
                while data := sock.recv(65536):
                    got += len(data)
            except OSError:
                pass  # a reset
        assert 1 << 20 < got < 40 << 20, (coding, got)
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    wide = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    here.origin.answer = answer(wide.compress(b"x" * 100000) + wide.flush(), "Content-Encoding: zstd")
    assert here.ask("/", f"x-api-key: {here.fake}")[0] == 502
    assert SLOW > 1 or resident(here.gateway.pid) - before < 64 << 20  # a sanitizer keeps what was given back


def test_a_large_body_to_a_slow_reader(lab):  # noqa: F811
    """What comes out waits in the decoder, not here."""
    size = 64 << 20
    here = lab(answer(gzip.compress(b"\0" * size, 1), "Content-Encoding: gzip"))
    with here.open() as sock:
        sock.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}:{here.origin.port}\r\nx-api-key: {here.fake}\r\n\r\n".encode())
        got = until(sock, b"\r\n\r\n")
        assert resident(here.gateway.pid) < 200 << 20
        zeroes, last = got.count(0), b""
        while not last.endswith(b"\r\n0\r\n\r\n"):
            data = sock.recv(1 << 20)
            assert data
            zeroes += data.count(0)
            last = (last + data)[-7:]
    assert zeroes == size


def test_http_2(make_h2_lab, make_origin, authority):  # noqa: F811
    """The same over HTTP/2, with trailers, resets of what is not as it says, and a stream that goes on beside them."""
    body = text()
    cases = {f"/{coding.replace('-', '')}": (coding, pack(body)) for coding, pack in CODINGS.items()}
    cases |= {"/cut": ("gzip", gzip.compress(body)[:-300]), "/none": ("gzip", b"x" * 100), "/unknown": ("compress", b"x"), "/two": ("gzip", gzip.compress(body)),
              "/bomb": ("zstd", bomb("zstd", 64 << 20))}

    def serve(server, number, headers):
        coding, data = cases[headers[":path"]]
        more = [tuple(line.lower().split(": ", 1)) for line in HEAD_FIELDS]
        more += [("etag", '"second"'), ("etag", 'W/"third"')] if headers[":path"] == "/two" else []
        head = headers[":method"] == "HEAD"
        server.respond(number, headers=[("content-encoding", coding.lower()), ("content-length", str(len(data))), *more], end=head)
        if not head:
            server.data(number, data)
            server.end(number, [("x-again", SECRET)])
    origin = make_origin(tls=authority.context(*NAMES, alpn=("h2", "http/1.1")), raw=H2Server(serve))
    here = make_h2_lab(f"allow={HOST}:1-65535", "workers=1", f"credential=key|{HOST}:{origin.port}|header:x-api-key|{SECRET}")
    fake = here.gateway.fakes["key"]
    client = connect(here, origin.port)
    expected = body.replace(SECRET.encode(), fake.encode())
    for path, (coding, _) in cases.items():
        got = client.ask(path, headers=[("x-api-key", fake)])
        if path[1:] in ("unknown",):
            assert got.status == 502 and b"compressed" in got.body
        elif path[1:] in ("cut", "none", "bomb"):
            assert got.reset is not None and not got.ended and len(got.body) < 40 << 20, path
        else:
            assert got.status == 200 and got.body == expected and got.trailers["x-again"] == fake, (path, len(got.body))
            plain(got.headers)
            tags = [value for name, value in got.fields if name == "etag"]  # one strong one becomes weak, the others of its kind go
            assert tags == (['W/"third"', 'W/"abc"'] if path == "/two" else ['W/"abc"'])
    assert client.ask("/gzip", "HEAD", headers=[("x-api-key", fake)]).headers["etag"] == 'W/"abc"'
    assert here.gateway.wait_event(seconds=20, kind="request", path="/none", reason="upstream")
    assert all(r["accept-encoding"] == "identity" for r in origin.requests())


@pytest.mark.parametrize("http_2", [False, True], ids=["http1", "http2"])
def test_nginx_that_always_compresses(http_2, make_h2_lab, start, run, authority, tmp_path, free_port):  # noqa: F811
    port = free_port()
    body = (SECRET + "\n" + "from nginx\n" * 100000).encode()
    (tmp_path / "file.gz").write_bytes(gzip.compress(body))
    user = "user root;" if os.geteuid() == 0 else ""
    pem = authority.issue(HOST)
    (tmp_path / "nginx.conf").write_text(f"""{user} daemon off; pid {tmp_path}/pid; error_log stderr; events {{ }}
http {{ access_log off; client_body_temp_path {tmp_path}/a; proxy_temp_path {tmp_path}/b; fastcgi_temp_path {tmp_path}/c;
  uwsgi_temp_path {tmp_path}/d; scgi_temp_path {tmp_path}/e; gzip_static always; gzip_vary on;
  server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {pem}; ssl_certificate_key {pem};
            location /ok/ {{ alias {tmp_path}/; }} }} }}""")
    server = start(["nginx", "-e", "stderr", "-p", tmp_path, "-c", tmp_path / "nginx.conf"])
    wait_until(lambda: not server.running() or (tmp_path / "pid").exists(), 30 * SLOW, "nginx")
    here = make_h2_lab(f"allow={HOST}:1-65535", f"credential=key|{HOST}:{port}|header:x-api-key|{SECRET}")
    fake = here.gateway.fakes["key"]
    curl = ["curl", "-sS", "-m", "60", "--http2" if http_2 else "--http1.1", "--compressed", "--cacert", here.session_ca,
            "-x", f"http://127.0.0.1:{here.gateway.port['http']}", "-H", f"x-api-key: {fake}", "-D", tmp_path / "head",
            "-w", "%{http_version} %{http_code}", "-o", tmp_path / "got", f"https://{HOST}:{port}/ok/file"]
    wait_until(lambda: run(curl).text.endswith("2 200" if http_2 else "1.1 200"), 30 * SLOW, "nginx to answer")
    assert (tmp_path / "got").read_bytes() == body.replace(SECRET.encode(), fake.encode())
    head = (tmp_path / "head").read_text().lower()
    assert "content-encoding" not in head and 'etag: w/"' in head
    etag = head.partition("etag: ")[2].splitlines()[0].replace("w/", "W/")
    assert run([*curl, "-H", f"If-None-Match: {etag}"]).text.endswith("304")
