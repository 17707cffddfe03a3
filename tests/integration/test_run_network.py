# SPDX-License-Identifier: Apache-2.0
"""The sandbox's network: captured by name without any proxy variable, refused with a reason, closed where the mode says so."""
import contextlib
import ctypes
import http.client
import os
import signal
import socket
import stat
import time
import urllib.error
import urllib.request

import pytest

from kit.process import SLOW, wait_until

NO_PROXY_VARIABLES = "unset http_proxy https_proxy all_proxy ftp_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY; "


@pytest.fixture
def sh(bailey, work, hosts):
    return lambda script, *options, **more: bailey("run", "--hosts", str(hosts), *options, "--", "sh", "-c", script, cwd=work, **more)


@pytest.fixture
def allowed(origin):
    """Options that open origin.test and nothing else."""
    return ["--allow", f"origin.test:{origin.port}", "--allow-private", f"origin.test:{origin.port}"]


def test_client_that_knows_no_proxy(sh, origin, allowed):
    result = sh(NO_PROXY_VARIABLES + f"curl -sS -m 60 http://origin.test:{origin.port}/path", *allowed).check()
    assert result.text == "origin\n"
    (request,) = origin.requests()
    assert request.startswith(b"GET /path HTTP/1.1\r\n") and b"Host: origin.test:" in request


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY"])
def test_client_that_uses_a_proxy(sh, origin, allowed, variable):
    keep = f'v="${variable}"; ' + NO_PROXY_VARIABLES + f'test -n "$v" && export http_proxy="$v"; '
    assert sh(keep + f"curl -sS -m 60 http://origin.test:{origin.port}/", *allowed).check().text == "origin\n"


def test_client_that_is_told_of_the_socks_port(sh, origin, allowed):
    """Nobody needs it where connections are captured, and no variable names it; it is there."""
    script = 'test -z "$ALL_PROXY$all_proxy" && curl -sS -m 60 -x socks5h://127.0.0.1:1080 '
    assert sh(script + f"http://origin.test:{origin.port}/", *allowed).check().text == "origin\n"


def test_plain_socket_by_name(sh, origin, allowed):
    script = (f"import socket; s = socket.create_connection(('origin.test', {origin.port}), 10); "
              "s.sendall(b'GET / HTTP/1.1\\r\\nHost: origin.test\\r\\nConnection: close\\r\\n\\r\\n'); print(s.recv(100)[:15])")
    assert "HTTP/1.1 200 OK" in sh(f'/usr/bin/python3 -c "{script}"', *allowed).check().text


def test_refused_name_reaches_nobody(sh, origin, allowed):
    result = sh(NO_PROXY_VARIABLES + f"curl -sS -m 60 http://other.test:{origin.port}/", *allowed)
    assert result.status != 0 and origin.received() == b""
    assert "refused other.test" in result.errors and "--allow" in result.errors


def test_refused_address_reaches_nobody(sh, origin, allowed):
    with socket.create_server(("127.0.0.1", 0)) as own:
        address = f"127.0.0.2:{own.getsockname()[1]}"
        result = sh(f"curl -sS -m 60 http://{address}/ ; curl -sS -m 60 -x '' http://198.51.100.7/", *allowed)
    assert result.status != 0 and origin.received() == b""


def test_name_service_answers_only_permitted_names(sh, origin, allowed):
    result = sh("getent hosts origin.test && getent hosts other.test", *allowed)
    assert "fd00:ba11:" in result.text or "198.18." in result.text
    assert result.status == 2 and "other.test" not in result.text


def test_own_host_name_is_the_loopback(sh, bailey, home):
    """Programs that look up what uname() says find themselves, and no attempt is recorded; what merely looks like it is judged."""
    script = """
import socket
def find(name):
    try:
        return sorted({a[4][0] for a in socket.getaddrinfo(name, 80)})
    except OSError:
        return None
loopback = ['127.0.0.1', '::1']
print(socket.gethostname(), socket.getfqdn())
for name in (socket.gethostname(), 'bailey.', 'BaileY', 'x.localhost', 'a.b.localhost.'):
    print(name, find(name) == loopback)
for name in ('bailey.test', 'x.bailey', 'xbailey', 'localhost.test', 'xlocalhost'):
    print(name, find(name))
"""
    result = sh(f'/usr/bin/python3 -c "{script}"').check()
    found = dict(line.rsplit(" ", 1) for line in result.text.splitlines())
    assert found == {"bailey": "True", "bailey.": "True", "BaileY": "True", "x.localhost": "True", "a.b.localhost.": "True",
                     "bailey.test": "None", "x.bailey": "None", "xbailey": "None", "localhost.test": "None", "xlocalhost": "None"}
    assert result.text.startswith("bailey bailey\n")
    log = bailey("log", "--json").check().text
    for line in (result.errors, log):
        assert "bailey.test" in line and "xlocalhost" in line
    assert "refused bailey (" not in result.errors and "refused bailey:" not in result.errors
    assert '"domain":"bailey"' not in log and '"domain":"x.localhost"' not in log


def test_any_name_server_is_captured(sh, allowed):
    script = """
import socket, struct
q = struct.pack('!6H', 7, 256, 1, 0, 0, 0) + b'\\6origin\\4test\\0' + struct.pack('!2H', 1, 1)
for where in ('8.8.8.8', '127.0.0.53', '192.0.2.1'):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60); s.sendto(q, (where, 53))
    answer, peer = s.recvfrom(512)
    print(where, peer[0] == where, answer[3] & 15, answer[-4])
"""
    result = sh(f'/usr/bin/python3 -c "{script}"', *allowed).check()
    assert result.text.splitlines() == [f"{where} True 0 198" for where in ("8.8.8.8", "127.0.0.53", "192.0.2.1")]


def test_own_loopback_works(sh):
    script = """
import socket, threading
for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
    server = socket.create_server((address, 8080), family=family)
    threading.Thread(target=lambda: server.accept()[0].sendall(b'hello')).start()
    print(socket.create_connection((address, 8080), 60).recv(5))
    u = socket.socket(family, socket.SOCK_DGRAM); u.bind((address, 0)); u.sendto(b'self', u.getsockname()); print(u.recv(9))
"""
    result = sh(f'/usr/bin/python3 -c "{script}"').check()
    assert result.text.count("b'hello'") == 2 and result.text.count("b'self'") == 2


@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
def test_modes_without_network(sh, origin, mode):
    result = sh(f"curl -sS -m 60 http://origin.test:{origin.port}/; curl -sS -m 5 http://127.0.0.1:{origin.port}/; ip -o link | wc -l",
                "--mode", mode)
    assert origin.received() == b"" and result.text.strip().endswith("1")


@pytest.mark.parametrize("words, name, way", [
    (["--host-port", "{port}"], "host.bailey.internal", "captured"), (["--host-port", "{port}"], "host.bailey.internal", "proxy"),
    (["--allow-private", "host.bailey.internal:{port}"], "host.bailey.internal", "captured"),
    (["--allow-private", "host.bailey.internal:{port}"], "host.bailey.internal", "proxy"),
    (["--allow-private", "api.localhost:{port}"], "api.localhost", "proxy")])
def test_the_hosts_loopback_by_its_name(sh, origin, words, name, way):
    """One wish, two spellings; by DNS and capture, and through the proxy. Names below localhost are the sandbox's own without it."""
    result = sh(f"curl -sS -m 60 {'--noproxy' if way == 'captured' else '--proxy $http_proxy --noproxy'} "
                f"{chr(39)}{'*' if way == 'captured' else 'nothing.test'}{chr(39)} http://{name}:{origin.port}/",
                *(word.format(port=origin.port) for word in words))
    assert result.status == 0, result
    assert f"{name}:{origin.port}".encode() in origin.requests()[0]
    result = sh(f"curl -sS -m 60 http://host.bailey.internal:{origin.port}/; exit 0")
    assert len(origin.requests()) == 1


def test_host_port_is_offered_inside(sh, origin):
    result = sh(f"curl -sS -m 60 --noproxy '*' http://127.0.0.1:{origin.port}/", "--host-port", str(origin.port))
    assert result.text == "origin\n", result


def test_published_port(start, work, free_port):
    port = free_port()
    server = "import http.server; http.server.ThreadingHTTPServer(('127.0.0.1', 8080), http.server.SimpleHTTPRequestHandler).serve_forever()"
    (work / "big").write_bytes(os.urandom(3 << 20))
    start(["bailey", "run", "--publish", f"{port}:8080", "--mode", "workspace-write", "--", "/usr/bin/python3", "-c", server], cwd=work)
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/big", timeout=60) as answer:
                assert answer.read() == (work / "big").read_bytes()
            break
        except (ConnectionError, urllib.error.URLError, http.client.HTTPException):
            assert time.monotonic() < end
            time.sleep(0.1)
    for _ in range(20):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
            assert b"big" in answer.read()


def test_published_port_that_is_taken(sh, origin):
    result = sh("true", "--publish", f"{origin.port}:80")
    assert result.status == 125 and str(origin.port) in result.errors


def test_many_connections_at_once(sh, origin, allowed):
    script = NO_PROXY_VARIABLES + f"for i in $(seq 30); do curl -sS -m 60 http://origin.test:{origin.port}/$i & done; wait"
    assert sh(script, *allowed).check().text.count("origin\n") == 30


def test_gateway_killed_stays_closed_then_recovers(start, work, hosts, origin, allowed):
    script = NO_PROXY_VARIABLES + (f"curl -sS -m 60 http://origin.test:{origin.port}/; echo first; while [ ! -e go ]; do sleep 0.05; done; "
                                   f"curl -sS -m 60 --retry 3 --retry-all-errors http://origin.test:{origin.port}/; echo $?")
    child = start(["bailey", "run", "--hosts", str(hosts), *allowed, "--", "sh", "-c", script], cwd=work)
    wait_until(lambda: b"first" in child.output(), what="the first answer")
    below = [int(p) for p in open(f"/proc/{child.pid}/task/{child.pid}/children").read().split()]
    gateways = [p for p in below if "bailey-gateway" in open(f"/proc/{p}/comm").read()]
    assert len(gateways) == 1
    os.kill(gateways[0], signal.SIGKILL)
    (work / "go").touch()
    result = child.wait(60)
    assert result.text.count("origin\n") == 2, result


def test_everything_is_in_the_audit(sh, bailey, origin, allowed, home):
    audit = home / "audit.jsonl"
    sh(NO_PROXY_VARIABLES + f"curl -sS -m 60 http://origin.test:{origin.port}/; curl -sS -m 5 http://other.test/", "--audit", str(audit), *allowed)
    text = audit.read_text()
    assert '"origin.test"' in text and '"other.test"' in text and "start: mode workspace-write-whitelist" in text
    assert oct(audit.stat().st_mode & 0o777) == "0o600"


PIDFD_GETFD = 438


def listening(pid):
    """Copies of the TCP sockets on which this process lets others in."""
    pidfd, found = os.pidfd_open(pid), []
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            fd = ctypes.CDLL(None).syscall(PIDFD_GETFD, pidfd, int(name), 0)
            if fd >= 0 and not stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.close(fd)
            elif fd >= 0:
                with contextlib.closing(socket.socket(fileno=fd)) as sock:
                    if sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM:
                        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                            found.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
    finally:
        os.close(pidfd)
    return found


@pytest.mark.root  # only root may look at the supervisor's descriptors
def test_no_client_waits_for_acknowledgements(start, work):
    """The gateway starts after the first client has connected, so the listeners are made ready before: without it each answer in two pieces takes 40 ms."""
    child = start(["bailey", "run", "--", "sh", "-c", "echo ready; exec sleep 60"], cwd=work)
    wait_until(lambda: b"ready" in child.output() or not child.running(), 20 * SLOW, "the command")
    wait_until(lambda: len(listening(child.pid)) >= 3, 20 * SLOW, "the listeners")  # the command may run before the supervisor has taken them
    options = listening(child.pid)
    assert all(options), options
