# SPDX-License-Identifier: Apache-2.0
"""bailey ui: who is let in. Hand-made requests, one for each way in that is closed."""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys

import pytest

from kit.control import wait_for
from conftest import program
from kit.dashboard import Dashboard
from kit.machine import machine
from test_run_degraded import NO_NAMESPACES

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def ui(start):
    dashboard = Dashboard(start)
    dashboard.sign_in()
    return dashboard


def recorded(bailey, home):
    return bailey("log", home / ".local/state/bailey/audit/ui.jsonl").check().text


def test_the_way_in(ui):
    assert ui.get("/api/state")["sandboxes"] == []


def test_in_the_background(bailey, home):
    """One that goes on without its terminal, gives links, is one of a kind, and ends when told."""
    assert bailey("ui", "--end").status == 1
    link = bailey("ui", "--service", "--no-open").check().text.strip()
    try:
        again = bailey("ui", "--service", "--no-open").check().text.strip()
        port = [re.search(r"127.0.0.1:(\d+)/#key=[0-9a-f]{64}$", text).group(1) for text in (link, again)]
        assert port[0] == port[1] and link != again
        assert bailey("ui", "--service", "--pair").status == 2
    finally:
        bailey("ui", "--end").check()
    assert socket.socket().connect_ex(("127.0.0.1", int(port[0]))) != 0
    assert "asked to end" in recorded(bailey, home)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "did not start" in bailey("ui", "--service", "--no-open", "--port", str(taken.getsockname()[1])).check(7).errors


@pytest.mark.parametrize("degraded", [False, True])
def test_a_sandbox_does_not_reach_it(ui, run, work, degraded):
    """Neither by itself nor by its gateway, whatever it is allowed by name; without namespaces, too."""
    script = f"curl -s -m 5 --noproxy '*' http://127.0.0.1:{ui.port}/ | grep -c Bailey; curl -s -m 5 -x $HTTP_PROXY http://127.0.0.1:{ui.port}/ | grep -c modulepreload; true"
    argv = [program("bailey"), "run", "--allow", f"localhost:{ui.port}", *(["--allow-degraded"] if degraded else []), "--", "sh", "-c", script]
    done = run(machine(argv, refuse=NO_NAMESPACES) if degraded else argv, cwd=work).check()
    assert done.text.split() == ["0", "0"], done


def test_only_loopback_listens(ui):
    ours = f":{ui.port:04X} "
    rows = [r.split() for f in ("/proc/net/tcp", "/proc/net/tcp6") for r in pathlib.Path(f).read_text().splitlines()[1:]]
    listening = [r[1] for r in rows if r[3] == "0A" and r[1].endswith(ours.strip())]
    assert listening == [f"0100007F{ours.strip()}"]


@pytest.mark.parametrize("host", ["evil.test", "evil.test:{port}", "127.0.0.1", "127.0.0.1:1", "localhost", "127.0.0.1.evil.test:{port}", "127.0.0.2:{port}", "0.0.0.0:{port}",
                                  "localhost.:{port}", "LOCALHOST.evil:{port}", "[::ffff:127.0.0.1]:{port}"])
@pytest.mark.parametrize("path", ["/", "/api/state"])
def test_rebinding(ui, bailey, home, host, path):
    """Also with an Origin that is the same: that both are equal says nothing."""
    name = host.format(port=ui.port)
    for origin in ({}, {"Origin": "http://" + name}):
        status, headers, text = ui.raw("GET", path, headers={**ui.own(), **origin} if origin else {k: v for k, v in ui.own().items() if k != "Origin"}, host=name)
        assert status == 421, (name, text)
        assert "Set-Cookie" not in headers
    assert "names another host" in recorded(bailey, home)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]"])
def test_own_names(ui, name):
    assert ui.raw("GET", "/", host=f"{name}:{ui.port}")[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.test", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1", "http://localhost:{port}", "http://127.0.0.1:{port}/", "http://127.0.0.1:{port}.evil.test", ""])
def test_cross_site_post(ui, bailey, home, origin):
    status, _, _ = ui.raw("POST", "/api/silent", {"minutes": 5}, {**ui.own(), **JSON, "Origin": origin.format(port=ui.port)})
    assert status == 403 and ui.get("/api/state")["silent"]["until"] is None
    assert "another origin" in recorded(bailey, home)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "SAME-ORIGIN", "same-origin, cross-site"])
@pytest.mark.parametrize("path", ["/", "/app.js", "/api/state"])
def test_fetch_site(ui, site, path):
    headers = {k: v for k, v in ui.own().items() if k != "Origin"}
    assert ui.raw("GET", path, headers={**headers, "Sec-Fetch-Site": site})[0] == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonp", "text/plain; application/json"])
def test_a_form_cannot_post(ui, kind):
    assert ui.raw("POST", "/api/silent", {"minutes": 5}, {**ui.own(), "Content-Type": kind})[0] == 415
    assert ui.get("/api/state")["silent"]["until"] is None


def test_the_link_is_worth_one_session(start, bailey, home):
    ui = Dashboard(start)
    cookie = ui.sign_in()
    assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Path=/"))
    assert len(ui.cookie) > 64 and len(ui.page) == 64 and ui.page not in ui.cookie
    assert ui.exchange()[0] == 403  # used
    assert ui.exchange("0" * 64)[0] == 403 and ui.exchange("")[0] == 403
    assert "refused a link" in recorded(bailey, home)
    assert ui.get("/api/state")


def test_a_new_link_and_two_sessions(ui, bailey, start):
    link = bailey("ui", "--no-open").check().text.strip()
    assert link.startswith(f"http://127.0.0.1:{ui.port}/#key=") and not link.endswith(ui.key)
    first = ui.cookie, ui.page
    status, headers, text = ui.exchange(link.rpartition("=")[2])
    assert status == 200
    second = headers["Set-Cookie"].split(";")[0], json.loads(text)["page"]
    for cookie, page in (first, second):
        assert ui.raw("GET", "/api/state", headers={"Cookie": cookie, "X-Bailey-Page": page})[0] == 200
    for cookie, page in ((first[0], second[1]), (second[0], first[1])):  # halves of two sessions are none
        assert ui.raw("GET", "/api/state", headers={"Cookie": cookie, "X-Bailey-Page": page})[0] == 403


@pytest.mark.parametrize("path", ["/api/state", "/api/events", "/api/history", "/api/hosts", "/api/runs", "/api/doctor", "/api/report?run=x", "/api/nothing"])
def test_a_stolen_cookie_is_worth_nothing(ui, path):
    """A server of somebody else on another port of localhost is sent the cookie: cookies do not know ports."""
    assert ui.raw("GET", path)[0] == 401
    assert ui.raw("GET", path, headers={"Cookie": ui.cookie})[0] == 403
    assert ui.raw("GET", path, headers={"X-Bailey-Page": ui.page})[0] == 401
    assert ui.raw("GET", path, headers={"Cookie": ui.cookie, "X-Bailey-Page": "0" * 64})[0] == 403
    assert ui.raw("GET", path, headers={"Cookie": f"{ui.cookie}; {ui.cookie}", "X-Bailey-Page": ui.page})[0] == 401


def test_read_only(start):
    ui = Dashboard(start, "--read-only")
    ui.sign_in()
    assert ui.get("/api/state")["read_only"] is True
    for path, body in (("/api/act", {"sandbox": "x", "do": "kill"}), ("/api/silent", {"minutes": 5}), ("/api/overlay", {"id": "x", "do": "discard"}), ("/api/secrets/test", {"name": "x"})):
        ui.post(path, body, 403)


@pytest.mark.root
def test_another_user_of_the_machine(ui, bailey, home):
    """Even with the cookie, the header and a fresh link: the connection itself is refused."""
    fresh = bailey("ui", "--no-open").check().text.strip().rpartition("=")[2]
    code = f"""
import http.client, json, os
os.setgid(65534); os.setuid(65534)
for method, path, body, headers in [("GET", "/", None, {{}}), ("GET", "/api/state", None, {{"Cookie": {ui.cookie!r}, "X-Bailey-Page": {ui.page!r}}}),
                                    ("POST", "/api/session", json.dumps({{"key": {fresh!r}}}), {{"Content-Type": "application/json"}})]:
    c = http.client.HTTPConnection("127.0.0.1", {ui.port}, timeout=20)
    try:
        c.request(method, path, body, headers)
        print(c.getresponse().status)
    except (ConnectionError, http.client.HTTPException):
        print("closed")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.stdout.split() == ["closed"] * 3, result
    assert "another user of this machine" in recorded(bailey, home)
    assert ui.exchange(fresh)[0] == 200  # the link was not used up


def test_a_socket_without_owner_is_nobody_s(ui):
    """A socket that its process has closed is listed as root's: it must not count as root."""
    with socket.create_connection(("127.0.0.1", ui.port)) as s:
        s.sendall(f"GET / HTTP/1.1\r\nHost: {ui.host}\r\n\r\n".encode())
    assert ui.get("/api/state")


def test_every_reply_has_its_headers(ui):
    for path, headers in (("/", {}), ("/app.js", {}), ("/api/state", ui.own()), ("/api/state", {}), ("/nothing", {})):
        _, got, _ = ui.raw("GET", path, headers=headers)
        policy = got["Content-Security-Policy"]
        for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"):
            assert part in policy, path
        assert "unsafe" not in policy and "http" not in policy
        assert got["X-Content-Type-Options"] == "nosniff" and got["Cache-Control"] == "no-store" and got["Referrer-Policy"] == "no-referrer"
        assert got["Cross-Origin-Opener-Policy"] == got["Cross-Origin-Resource-Policy"] == "same-origin"
        assert not [name for name in got if name.lower().startswith("access-control")]


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "TRACE", "HEAD", "CONNECT"])
def test_other_methods(ui, method):
    status, headers, _ = ui.raw(method, "/api/state", headers=ui.own())
    assert status in (400, 405) and not [name for name in headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize("text", [b"GET http://127.0.0.1:{port}/api/state HTTP/1.1\r\nHost: {host}\r\n\r\n", b"GET / HTTP/1.1\r\nHost: {host}\r\nHost: evil.test\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
                                  b"GET / HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nOrigin: http://evil.test\r\n\r\n", b"POST /api/silent HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                                  b"POST /api/silent HTTP/1.1\r\nHost: {host}\r\nContent-Length: 99999999\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\nHost: {host}\r\n\r\n"])
def test_odd_requests(ui, text):
    with socket.create_connection(("127.0.0.1", ui.port), 30) as s:
        s.sendall(text.replace(b"{host}", ui.host.encode()).replace(b"{port}", str(ui.port).encode()))
        reply = s.recv(65536)
    assert not reply or int(reply.split()[1]) >= 400, reply[:100]
    assert ui.get("/api/state")


def test_words_are_no_options(ui):
    for path in ("/api/report?run=--help", "/api/verify?run=-x", "/api/why?target=--json", "/api/changes?id=--list", "/api/report"):
        assert ui.raw("GET", path, headers=ui.own())[0] == 400, path
    ui.post("/api/overlay", {"id": "--all", "do": "discard"}, 400)
    ui.post("/api/act", {"sandbox": "x", "do": "hello"}, 400)
    ui.post("/api/act", {"sandbox": "../../x", "do": "kill"}, 404)


def test_many_connections_and_a_second_server(ui, start, bailey):
    held = [socket.create_connection(("127.0.0.1", ui.port)) for _ in range(100)]
    for s in held:
        s.close()

    def answers():
        try:
            return ui.raw("GET", "/")[0] == 200
        except ConnectionError:  # the last of the hundred are still being swept away
            return False
    wait_for(answers, "the server")
    assert pathlib.Path(f"/proc/{ui.child.pid}").exists() and len(os.listdir(f"/proc/{ui.child.pid}/fd")) < 90


def test_the_record_is_whole(start, bailey, home):
    ui = Dashboard(start)
    ui.sign_in()
    ui.raw("GET", "/", host="evil.test\x1b[2J")
    ui.raw("GET", "/", headers={"Origin": "http://<script>"})
    ui.child.stop()
    record = home / ".local/state/bailey/audit/ui.jsonl"
    assert bailey("log", "verify", record).status == 0
    text = recorded(bailey, home)
    assert "<script>" in text and "\x1b" not in text and "the dashboard ends" in text
