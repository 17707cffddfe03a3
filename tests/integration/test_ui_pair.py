# SPDX-License-Identifier: Apache-2.0
"""bailey ui --pair: one phone on the local network reads and answers, and nobody else does anything."""
import errno
import http.client
import os
import pathlib
import pty
import re
import socket
import ssl
import subprocess
import time

import pytest

from conftest import program
from kit import qr
from kit.browser import Browser, modules
from kit.control import wait_for
from kit.dashboard import Dashboard, Device

MODULES = modules()
HERE = ["--pair", "--pair-address", "127.0.0.1"]


def link_of(child):
    return wait_for(lambda: re.search(r"https://\S+", child.output().decode()), "the pairing's link").group()


@pytest.fixture
def ui(start):
    dashboard = Dashboard(start)
    dashboard.sign_in()
    return dashboard


@pytest.fixture
def pairing(ui, start):
    """A second `bailey ui` that asks the first for a pairing."""
    child = start(["bailey", "ui", "--no-open", *HERE])
    child.device = Device(link_of(child))
    return child


@pytest.fixture
def asking(start, work, hosts, origin):
    def begin(script):
        return start(["bailey", "run", "--ask", "control", "--hosts", hosts, "--allow-private", f"127.0.0.1:{origin.port}", "--", "sh", "-c", script], cwd=work)
    return begin


def recorded(bailey, home):
    return bailey("log", home / ".local/state/bailey/audit/ui.jsonl").check().text


def question_of(device):
    return wait_for(lambda: [(s["id"], q) for s in device.state()["sandboxes"] for q in s["questions"]], "the question")[0]


def closed(device):
    """The device is not even answered."""
    try:
        device.raw("GET", "/", headers={})
        return False
    except (OSError, ssl.SSLError, http.client.HTTPException):
        return True


def test_a_device_reads_and_answers(ui, pairing, asking, bailey, origin, home):
    device = pairing.device
    cookie = device.pair()
    assert all(word in cookie for word in ("__Host-", "Secure", "HttpOnly", "SameSite=Strict", "Path=/"))
    wait_for(lambda: "paired with 127.0.0.1" in pairing.errors(), "the word in the terminal")
    assert ui.get("/api/state")["pairing"]["device"] == "127.0.0.1"
    child = asking(f"curl -sS -m 60 http://origin.test:{origin.port}/")
    sandbox, question = question_of(device)
    assert question["host"] == "origin.test" and all("rules" not in s for s in device.state()["sandboxes"])
    assert device.post("/api/act", {"sandbox": sandbox, "do": "answer", "question": question["id"], "answer": "allow", "scope": "once"}) == 200
    child.wait().check()
    assert len(origin.requests()) == 1 and "by control (bailey ui paired device)" in bailey("log").check().text
    assert "paired with 127.0.0.1" in recorded(bailey, home)


def test_nothing_else(ui, pairing, start, work, bailey, home):
    """Every other path and every other order, with the device's own session and with the browser's."""
    device = pairing.device
    device.pair()
    child = start(["bailey", "run", "--", "sleep", "100"], cwd=work)
    sandbox = wait_for(lambda: device.state()["sandboxes"], "the sandbox")[0]["id"]
    for path in ("/api/history", "/api/hosts", "/api/rules", "/api/credentials", "/api/runs", "/api/overlays", "/api/overlay/file?id=x", "/api/doctor", "/api/secrets", "/api/policy", "/api/egress",
                 "/api/report?run=x", "/api/report.html?run=x", "/api/verify?run=x", "/api/why?target=x", "/api/changes?id=x", "/api/nothing", "/api/state/", "//api/state", "/api/../api/runs"):
        status, _, text = device.raw("GET", path, headers=device.own())
        assert status in (403, 404) and "{" in text, (path, status)
        assert status == 403 or not path.startswith("/api/"), path
    for order in ("allow", "deny", "forget", "pause", "resume", "kill", "reload"):
        assert device.post("/api/act", {"sandbox": sandbox, "do": order, "pattern": "x.test"}) == 403, order
    for path, body in (("/api/silent", {"minutes": 5}), ("/api/overlay", {"id": "x", "do": "discard"}), ("/api/secrets/test", {"name": "x"}), ("/api/state", {})):
        assert device.post(path, body) == 403, path
    assert child.running() and ui.get("/api/state")["silent"]["until"] is None
    assert device.raw("GET", "/api/state", headers={"Cookie": ui.cookie, "X-Bailey-Page": ui.page})[0] == 401
    own = device.cookie.partition("=")[2]
    assert ui.raw("GET", "/api/state", headers={"Cookie": f"bailey_ui={own}", "X-Bailey-Page": device.page})[0] == 401  # nor the other way round
    assert "reads and answers questions, and nothing else" in recorded(bailey, home)


def test_one_device_once(pairing, bailey, home):
    device = pairing.device
    wrong = "A" * 43
    assert device.exchange(key=wrong)[0] == 403 and device.exchange(certificate=wrong)[0] == 403
    assert closed(Device(device.link, "127.0.0.2")) is False  # nobody is paired yet: whoever has the link may come
    device.pair()
    assert device.exchange()[0] == 403  # used, even by the same device
    assert device.raw("GET", "/api/state", headers={"Cookie": device.cookie})[0] == 403  # half a session
    assert device.raw("GET", "/api/state", headers={"X-Bailey-Page": device.page})[0] == 401
    thief = Device(device.link, "127.0.0.2")
    thief.cookie, thief.page = device.cookie, device.page
    assert closed(thief)  # the whole session, from another address
    assert device.state()["device"] is True
    text = recorded(bailey, home)
    assert "127.0.0.2: another device is paired" in text and "not the key" in text and "another certificate" in text


@pytest.mark.parametrize("host", ["evil.test", "127.0.0.1", "localhost:{port}", "127.0.0.2:{port}", "127.0.0.1:1", "{ui}"])
def test_another_host(ui, pairing, host):
    name = host.format(port=pairing.device.port, ui=ui.host)
    for path in ("/", "/api/state"):
        assert pairing.device.raw("GET", path, host=name)[0] == 421
    assert ui.raw("GET", "/", host=pairing.device.host)[0] == 421  # the browser's own server does not answer to the device's name


def test_other_origins(pairing):
    device = pairing.device
    device.pair()
    for origin in ("http://" + device.host, "https://evil.test", "null", f"https://{device.address}"):
        assert device.raw("GET", "/api/state", headers=device.own(Origin=origin))[0] == 403
    for site in ("cross-site", "same-site"):
        assert device.raw("GET", "/", headers={"Sec-Fetch-Site": site})[0] == 403


def test_only_that_address_listens_while_it_is_open(ui, pairing):
    port = f":{pairing.device.port:04X}"

    def listening():
        rows = [r.split() for f in ("/proc/net/tcp", "/proc/net/tcp6") for r in pathlib.Path(f).read_text().splitlines()[1:]]
        return [r[1] for r in rows if r[3] == "0A" and r[1].endswith(port)]
    assert listening() == ["0100007F" + port]
    pairing.process.send_signal(2)  # Ctrl-C
    pairing.process.wait(30)
    wait_for(lambda: not listening(), "the listener's end")
    assert ui.get("/api/state")["pairing"]["open"] is False


def test_the_button_in_the_page(ui, pairing):
    device = pairing.device
    device.pair()
    ui.post("/api/pairing/end", {})
    assert pairing.wait().status == 0 and "ended in the dashboard" in pairing.errors()
    assert closed(device) and ui.get("/api/state")["pairing"] == {"open": False, "device": None, "until": None, "certificate": None}


def test_the_button_on_the_device(ui, pairing):
    device = pairing.device
    device.pair()
    assert device.post("/api/pairing/end", {}) == 200
    assert pairing.wait().status == 0 and "the device ended it" in pairing.errors()
    assert closed(device)


def test_its_time_is_over(ui, start):
    child = start(["bailey", "ui", "--no-open", *HERE, "--pair-for", "2s"])
    device = Device(link_of(child))
    device.pair()
    assert device.state()
    assert child.wait().status == 0 and "its time is over" in child.errors()
    assert closed(device)


def test_nobody_came(ui, start):
    child = start(["bailey", "ui", "--no-open", *HERE, "--pair-for", "1s"])
    device = Device(link_of(child))
    assert child.wait().status == 0
    assert closed(device)


def test_one_pairing_at_a_time(pairing, bailey):
    result = bailey("ui", "--no-open", *HERE)
    assert result.status != 0 and "a pairing is open already" in result.errors
    assert not closed(pairing.device)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "fe80::1", "evil.test", "192.0.2.77", "127.0.0.1:80"])
def test_addresses_that_are_none(ui, bailey, address):
    result = bailey("ui", "--no-open", "--pair", "--pair-address", address)
    assert result.status == (7 if address == "192.0.2.77" else 2) and address.split(":80")[0] in result.errors, result


def test_read_only(start):
    ui = Dashboard(start, "--read-only")
    child = start(["bailey", "ui", "--no-open", *HERE])
    device = Device(link_of(child))
    device.pair()
    assert device.post("/api/act", {"sandbox": "x", "do": "answer", "question": 1, "answer": "allow"}) == 403
    assert device.post("/api/pairing/end", {}) == 200
    assert child.wait().status == 0 and ui.child.running()


def test_strangers_do_not_take_the_places(ui, pairing):
    held = []
    for _ in range(60):
        s = socket.create_connection(("127.0.0.1", pairing.device.port), 10)
        held.append(s)
    try:
        assert ui.get("/api/state")["pairing"]["open"] is True
    finally:
        for s in held:
            s.close()
    wait_for(lambda: not closed(pairing.device), "room for the device")
    for junk in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\0" * 300, os.urandom(2000)):
        with socket.create_connection(("127.0.0.1", pairing.device.port), 10) as s:
            try:
                s.sendall(junk)
                s.settimeout(20)
                while s.recv(4096):
                    pass
            except OSError:
                pass
    pairing.device.pair()


def test_the_code_on_the_screen(home):
    """What a camera reads is the link that is printed below it; without a dashboard the verb serves both itself."""
    terminal, inner = pty.openpty()
    child = subprocess.Popen([program("bailey"), "ui", "--no-open", *HERE], stdin=subprocess.DEVNULL, stdout=inner, stderr=inner, env={**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run")})
    os.close(inner)
    shown = b""
    try:
        end = time.monotonic() + 60
        while b"5\x3a" not in shown[-200:] and b"certificate" not in shown and time.monotonic() < end:
            shown += os.read(terminal, 65536)
        screen = shown.decode()
        link = re.search(r"https://\S+", screen).group()
        assert qr.read(screen) == link
        Device(link).pair()
    finally:
        child.terminate()
        child.wait(60)
        try:
            while os.read(terminal, 65536):
                pass
        except OSError as e:
            assert e.errno == errno.EIO
        os.close(terminal)


@pytest.mark.pages
@pytest.mark.skipif(MODULES is None, reason="Playwright comes from npm, which cannot be reached here")
def test_in_a_browser(ui, pairing, asking, origin, tmp_path, bailey):
    browser = Browser(MODULES, tmp_path)
    try:
        browser("open", url=pairing.device.link, width=390, height=800, anyCertificate=True)
        browser("wait", code="document.querySelector('.live.on')")
        assert browser("eval", code="location.hash") == "#/questions" and "pair=" not in browser("eval", code="location.href")
        assert browser("eval", code="[...document.querySelectorAll('nav a')].map(a => a.hash)") == ["#/now", "#/questions", "#/traffic"]
        child = asking(f"curl -sS -m 60 http://origin.test:{origin.port}/; sleep 60")
        browser("wait", code="document.querySelector('.question')")
        assert not [v for v in browser("axe") if v["impact"] in ("serious", "critical")]
        browser("click", selector="button:has-text('Allow once')")
        browser("wait", code="!document.querySelector('.question')")
        wait_for(lambda: len(origin.requests()) == 1, "the request")
        for name in ("now", "traffic"):
            browser("eval", code=f"location.hash = '#/{name}'")
            browser("wait", code="document.body.innerText.includes('origin.test')" if name == "traffic" else "document.body.innerText.includes('running')")
            assert browser("eval", code="[...document.querySelectorAll('main button')].filter(b => /Pause|Kill|allow unknown|Allow|Deny/.test(b.textContent)).length") == 0
            assert not [v for v in browser("axe") if v["impact"] in ("serious", "critical")]
        look = browser("look")
        assert look["problems"] == [] and all(url.startswith(f"https://{pairing.device.host}/") for url in look["requests"]), look
        browser("open", "second", url=pairing.device.link, anyCertificate=True)  # the same link in another browser
        browser("wait", "second", code="document.body.innerText.includes('Not paired')")
        browser("click", selector="button:has-text('End the pairing')")
        browser("wait", code="document.body.innerText.includes('The pairing has ended')")
        assert pairing.wait().status == 0
        child.stop()
    finally:
        browser.close()
