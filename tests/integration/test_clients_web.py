# SPDX-License-Identifier: Apache-2.0
"""Real web clients through `bailey gateway`: each reaches one host and is kept from another that leads to the same place."""
import hashlib
import os
import struct
import subprocess
import time

import pytest

from kit.origin import request_end
from kit.process import SLOW, wait_until

OK, EVIL = "api.ok.test", "evil.test"
# What a program sees as the size of the world; sanitizers make each byte dearer.
LARGE = (1 << 28) // (2 if SLOW > 1 else 1)  # far more than may be kept of it
BLOCK = 1 << 20


@pytest.fixture
def tls_origin(make_origin, authority):
    return make_origin(tls=authority.context(OK, EVIL))


def settings(service, authority):
    """What `bailey env` gives, in short, and the test's own root."""
    return {"http_proxy": service.http, "https_proxy": service.http, "HTTPS_PROXY": service.http, "no_proxy": "",
            "CURL_CA_BUNDLE": str(authority.file), "SSL_CERT_FILE": str(authority.file),
            "REQUESTS_CA_BUNDLE": str(authority.file), "NODE_EXTRA_CA_CERTS": str(authority.file)}


def refused(service, origins, via):
    """One record that says so, and nothing at any origin beyond what was let through."""
    record = service.wait_record(domain=EVIL, allowed=False)
    assert record["reason"] == "not-allowed" and record["via"] == via
    assert len(service.records(domain=EVIL)) == 1
    for origin in origins:
        assert EVIL.encode() not in origin.received()
        assert len(origin.connections) <= 1


# curl

WAYS = {
    "http": (["-x", "{http}"], False, "http"),
    "http-1.0": (["--http1.0", "-x", "{http}"], False, "http"),
    "http-1.0-proxy": (["--proxy1.0", "127.0.0.1:{http_port}"], False, "http"),
    "tunnel": (["--proxytunnel", "-x", "{http}"], False, "connect"),
    "https": (["-x", "{http}"], True, "connect"),
    "https-1.0-proxy": (["--proxy1.0", "127.0.0.1:{http_port}"], True, "connect"),
    "socks5h": (["-x", "socks5h://{socks}"], False, "socks5"),
    "socks5h-https": (["-x", "socks5h://{socks}"], True, "socks5"),
    "expect": (["-H", "Expect: 100-continue", "-d", "hello", "-x", "{http}"], False, "http"),
    "expect-https": (["-H", "Expect: 100-continue", "-d", "hello", "-x", "{http}"], True, "connect"),
}


@pytest.mark.parametrize("way", WAYS)
def test_curl(way, service, origin, tls_origin, authority, run):
    words, tls, via = WAYS[way]
    words = [w.format(http=service.http, socks=service.socks, http_port=service.port["http"]) for w in words]
    there = tls_origin if tls else origin

    def curl(host):
        return run(["curl", "-sS", "--fail", "-m", "60", "-w", "%{http_code} %{http_connect}", "--cacert", authority.file,
                    *words, f"http{'s' if tls else ''}://{host}:{there.port}/some/path?q=1"])

    done = curl(OK)
    assert done.status == 0 and done.text.startswith("origin\n200"), str(done)
    assert b" /some/path?q=1 HTTP/1." in there.received()
    done = curl(EVIL)
    assert done.status in ((97,) if via == "socks5" else (22, 56)), str(done)
    assert via == "socks5" or "403" in done.text, str(done)
    refused(service, [origin, tls_origin], via)


def test_curl_keeps_its_connection_and_ours(service, origin, run):
    urls = [f"http://{OK}:{origin.port}/{i}" for i in range(20)]
    done = run(["curl", "-sS", "-x", service.http, "-w", "%{num_connects}", *urls]).check()
    assert done.text == "origin\n1" + "origin\n0" * 19
    assert len(origin.requests()) == 20
    assert len(origin.connections) == 1


def test_curl_is_told_why_and_what_to_do(service, run):
    done = run(["curl", "-sS", "-i", "-x", service.http, f"http://{EVIL}/secret?key=1"]).check()
    assert "x-bailey-reason: not-allowed" in done.text
    for words in ("policy refused evil.test:80", "Trying again will not help", "bailey allow evil.test:80"):
        assert words in done.text
    assert service.wait_record(domain=EVIL)["path"] == "/secret"


def pattern(number):
    """Block by block another: order and borders are seen by a checksum."""
    return struct.pack("!Q", number) * (BLOCK // 8)


def pattern_digest():
    digest = hashlib.sha256()
    for number in range(LARGE // BLOCK):
        digest.update(pattern(number))
    return digest.hexdigest()


def large_origin(client, connection):
    """GET /large gives LARGE bytes; a body that is sent is answered with its checksum."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += client.recv(65536)
    head, _, rest = head.partition(b"\r\n\r\n")
    if head.startswith(b"GET "):
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGE)
        for number in range(LARGE // BLOCK):
            client.sendall(pattern(number))
        return
    digest, left = hashlib.sha256(rest), LARGE - len(rest)
    room = memoryview(bytearray(BLOCK))
    while left > 0 and (n := client.recv_into(room, min(BLOCK, left))):
        digest.update(room[:n])
        left -= n
    text = digest.hexdigest().encode()
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)


@pytest.mark.parametrize("way", ["http", "socks5h"])
def test_curl_moves_much_down_and_up(way, service, make_origin, environment, tmp_path):
    origin = make_origin(raw=large_origin)
    words, _, _ = WAYS[way]
    words = [w.format(http=service.http, socks=service.socks) for w in words]
    url, wanted, before = f"http://{OK}:{origin.port}/large", pattern_digest(), service.memory()
    curl = ["curl", "-sS", "--fail", "-m", str(60 * SLOW), *words]
    with subprocess.Popen([*curl, url], stdout=subprocess.PIPE, env=environment) as client:
        digest = hashlib.sha256()
        while data := client.stdout.read1(BLOCK):
            digest.update(data)
        assert client.wait(60) == 0
    assert digest.hexdigest() == wanted
    with subprocess.Popen([*curl, "-H", f"Content-Length: {LARGE}", "-H", "Expect:", "-H", "Transfer-Encoding:", "-T", "-", url],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as client:
        for number in range(LARGE // BLOCK):
            client.stdin.write(pattern(number))
        client.stdin.close()
        assert client.stdout.read().decode() == wanted
        assert client.wait(60) == 0
    assert service.memory() - before < 16 * 1024 * SLOW  # nothing was kept whole
    wait_until(lambda: sum(r.get("bytes_out", 0) for r in service.records(domain=OK)) >= LARGE, what="the record of it")
    assert sum(r["bytes_in"] for r in service.records(domain=OK)) >= LARGE


# wget, Python, Node


def test_wget(service, origin, tls_origin, authority, run, tmp_path):
    env = settings(service, authority)
    for url in (f"http://{OK}:{origin.port}/a", f"https://{OK}:{tls_origin.port}/b"):
        done = run(["wget", "-q", "-O", "-", "--tries=1", f"--ca-certificate={authority.file}", url], env=env, cwd=tmp_path)
        assert done.status == 0 and done.text == "origin\n", str(done)
    done = run(["wget", "-O", "-", "--tries=1", f"http://{EVIL}:{origin.port}/c"], env=env, cwd=tmp_path)
    assert done.status == 8 and "403" in done.errors, str(done)
    refused(service, [origin, tls_origin], "http")


URLLIB = """
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode().strip())
except urllib.error.HTTPError as error:
    print(error.code, error.headers["x-bailey-reason"])
except urllib.error.URLError as error:
    print(error.reason)
"""
REQUESTS = """
import sys, requests
try:
    answer = requests.get(sys.argv[1], timeout=20)
    print(answer.status_code, answer.headers.get("x-bailey-reason"), answer.text.strip())
except requests.exceptions.ProxyError as error:
    print("ProxyError", "403" in str(error))
"""


@pytest.mark.parametrize("program, scheme, allowed, denied", [
    (URLLIB, "http", "origin", "403 not-allowed"), (URLLIB, "https", "origin", "Tunnel connection failed: 403 Forbidden"),
    (REQUESTS, "http", "200 None origin", "403 not-allowed bailey: policy refused"),
    (REQUESTS, "https", "200 None origin", "ProxyError True"),
], ids=["urllib-http", "urllib-https", "requests-http", "requests-https"])
def test_python(program, scheme, allowed, denied, service, origin, tls_origin, authority, run):
    port = (tls_origin if scheme == "https" else origin).port
    env = settings(service, authority)
    done = run(["/usr/bin/python3", "-c", program, f"{scheme}://{OK}:{port}/p"], env=env)
    assert done.status == 0 and done.text.strip() == allowed, str(done)
    done = run(["/usr/bin/python3", "-c", program, f"{scheme}://{EVIL}:{port}/p"], env=env)
    assert done.text.startswith(denied), str(done)
    refused(service, [origin, tls_origin], "http" if scheme == "http" else "connect")


# Node knows NODE_USE_ENV_PROXY since 24. An older one gets the same by a connector of its own, which speaks CONNECT.
NODE = """
const [major] = process.versions.node.split('.').map(Number);
const tunnel = (options, done) => {
  const proxy = new URL(process.env.HTTPS_PROXY);
  const name = `${options.hostname}:${options.port}`;
  require('http').request({ host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: name, headers: { host: name } })
    .on('connect', (answer, socket) => {
      if (answer.statusCode !== 200) { socket.destroy(); return done(new Error(`proxy: ${answer.statusCode}`)); }
      if (options.protocol !== 'https:') return done(null, socket);
      const secured = require('tls').connect({ socket, servername: options.servername || options.hostname },
                                             () => done(null, secured)).on('error', done);
    }).on('error', done).end();
};
(async () => {
  if (major < 24) {
    await fetch('data:,').catch(() => {});
    const key = Symbol.for('undici.globalDispatcher.1');
    globalThis[key] = new globalThis[key].constructor({ connect: tunnel });
  }
  try {
    const answer = await fetch(process.argv[1]);
    console.log(answer.status, (await answer.text()).trim());
  } catch (error) {
    console.log('failed', error.cause ? error.cause.message : error.message);
  }
  process.exit(0);
})();
"""


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_node_fetch(scheme, service, origin, tls_origin, authority, run):
    port = (tls_origin if scheme == "https" else origin).port
    env = {**settings(service, authority), "NODE_USE_ENV_PROXY": "1", "NODE_NO_WARNINGS": "1"}
    done = run(["node", "-e", NODE, f"{scheme}://{OK}:{port}/n"], env=env, timeout=60)
    assert done.text.strip() == "200 origin", str(done)
    done = run(["node", "-e", NODE, f"{scheme}://{EVIL}:{port}/n"], env=env, timeout=60)
    assert "403" in done.text and "origin" not in done.text, str(done)
    assert service.wait_record(domain=EVIL)["reason"] == "not-allowed"
    assert EVIL.encode() not in origin.received() + tls_origin.received()


# streams


def test_server_sent_events_are_not_delayed(service, make_origin, environment):
    def stream(client, connection):
        while request_end(connection.received) is None:
            connection.received += client.recv(65536)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(10):
            event = b"data: %.6f\n\n" % time.monotonic()
            client.sendall(b"%x\r\n%s\r\n" % (len(event), event))
            time.sleep(0.1)
        client.sendall(b"0\r\n\r\n")

    origin = make_origin(raw=stream)
    delays = []
    with subprocess.Popen(["curl", "-sSN", "-m", "60", "-x", service.http, f"http://{OK}:{origin.port}/events"],
                          stdout=subprocess.PIPE, env=environment) as client:
        for line in client.stdout:
            if line.startswith(b"data: "):
                delays.append(time.monotonic() - float(line[6:]))
        assert client.wait(60) == 0
    assert len(delays) == 10
    assert sorted(delays)[5] < 0.05 and max(delays) < 0.8, delays  # long before the next was sent


WEBSOCKET_SERVER = """
import asyncio, ssl, sys, websockets
async def echo(socket, path):
    async for message in socket:
        await socket.send(message)
async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1])
    for secure in (None, context):
        server = await websockets.serve(echo, "127.0.0.1", 0, ssl=secure, max_size=None)
        print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Future()
asyncio.run(main())
"""
# The library knows no proxy, but takes a socket: that of a tunnel.
WEBSOCKET_CLIENT = """
import asyncio, os, socket, ssl, sys, websockets
url, proxy, host, port, root = sys.argv[1], sys.argv[2].rpartition(":")[::2], sys.argv[3], sys.argv[4], sys.argv[5]
sock = socket.create_connection(("127.0.0.1", int(proxy[1])))
sock.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n".encode())
head = b""
while not head.endswith(b"\\r\\n\\r\\n"):
    head += sock.recv(1)
if b" 200 " not in head:
    sys.exit(head.split(b"\\r\\n")[0].decode())
async def main():
    context = ssl.create_default_context(cafile=root) if url.startswith("wss") else None
    more = {"ssl": context, "server_hostname": host} if context else {}
    async with websockets.connect(url, sock=sock, max_size=None, **more) as ws:
        for size in (0, 1, 125, 126, 65535, 65536, 3000000):
            data = os.urandom(size)
            await ws.send(data)
            assert await ws.recv() == data
        await ws.send("text ☃")
        print(await ws.recv())
asyncio.run(main())
"""


@pytest.mark.parametrize("secure", [False, True], ids=["ws", "wss"])
def test_websocket_echo(secure, service, start, run, authority):
    server = start(["/usr/bin/python3", "-c", WEBSOCKET_SERVER, authority.issue(OK, EVIL)])
    wait_until(lambda: server.output().count(b"\n") == 2 or not server.running(), what="the WebSocket server")
    assert server.running(), server.errors()
    port = server.output().split()[secure].decode()

    def client(host):
        return run(["/usr/bin/python3", "-c", WEBSOCKET_CLIENT, f"ws{'s' if secure else ''}://{host}:{port}/", service.http, host,
                    port, authority.file])

    done = client(OK)
    assert done.status == 0 and done.text == "text ☃\n", str(done)
    done = client(EVIL)
    assert done.status == 1 and "HTTP/1.1 403" in done.errors, str(done)
    assert service.wait_record(domain=EVIL)["reason"] == "not-allowed"


# HTTP/2, inside a tunnel, with nginx behind it


@pytest.fixture
def nginx(tmp_path, environment, start, free_port, authority):
    root = tmp_path / "nginx"
    root.mkdir()
    (root / "large").write_bytes(os.urandom(4 << 20))
    certificate, port = authority.issue(OK, EVIL), free_port()
    (root / "nginx.conf").write_text(f"""
        daemon off; pid {root}/pid; error_log stderr; worker_processes 1;
        events {{ worker_connections 256; }}
        http {{
            access_log {root}/access; client_body_temp_path {root}/body; proxy_temp_path {root}/proxy;
            fastcgi_temp_path {root}/fastcgi; uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;
            server {{
                listen 127.0.0.1:{port} ssl http2; ssl_certificate {certificate}; ssl_certificate_key {certificate};
                root {root};
                location = /protocol {{ return 200 "$server_protocol $http_host\\n"; }}
            }}
        }}""")
    if os.geteuid() == 0:  # its worker would become www-data, which cannot read here
        text = (root / "nginx.conf").read_text()
        (root / "nginx.conf").write_text("user root;" + text)
    server = start(["nginx", "-e", "stderr", "-p", root, "-c", root / "nginx.conf"])
    wait_until(lambda: not server.running() or (root / "pid").exists() and (root / "pid").read_text(), what="nginx")
    assert server.running(), server.errors()
    return root, port


@pytest.mark.parametrize("way", ["https", "socks5h-https"])
def test_http2_in_a_tunnel(way, service, nginx, authority, run):
    root, port = nginx
    words = [w.format(http=service.http, socks=service.socks) for w in WAYS[way][0]]
    curl = ["curl", "-sS", "--http2", "--cacert", authority.file, "-m", "60", *words]
    done = run([*curl, "-w", "%{http_version}", f"https://{OK}:{port}/protocol"])
    assert done.text == f"HTTP/2.0 {OK}:{port}\n2", str(done)
    done = run([*curl, "--parallel", *(f"https://{OK}:{port}/large" for _ in range(4))], timeout=60).check()
    whole = (root / "large").read_bytes()
    assert len(done.out) == 4 * len(whole) and sum(done.out.count(whole[i:i + 64]) for i in (0, 1 << 20, 3 << 20)) == 12
    done = run([*curl, "-w", "%{http_version}", f"https://{EVIL}:{port}/protocol"])
    assert done.status in (22, 56, 97) and "HTTP/2" not in done.text, str(done)
    assert EVIL not in (root / "access").read_text()
    assert service.wait_record(domain=EVIL)["reason"] == "not-allowed"


def test_http2_in_the_clear_is_not_taken_for_http1(service, origin):
    """Its preface is no request that could be judged: it is refused, and nothing leaves."""
    sock = service.connect()
    sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
    assert sock.recv(65536).startswith(b"HTTP/1.1 400")
    sock.close()
    assert origin.connections == []
    assert service.wait_record(allowed=False)["reason"] == "protocol"
