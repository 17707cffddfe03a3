# SPDX-License-Identifier: Apache-2.0
"""bailey ui in a real browser: a person answers, every view agrees, hostile names are text, every screen works by keyboard alone."""
import json
import os
import pathlib
import signal
import socketserver
import subprocess
import threading
import http.server

import pytest

from conftest import program
from kit.audit import Log, hostile_log, hostile_texts, run_path
from kit.browser import Browser, modules
from kit.control import sockets, wait_for
from kit.dashboard import Dashboard
from kit.machine import machine
from test_run_degraded import NO_NAMESPACES
from test_ui_pair import HERE, link_of

SCREENS = ["now", "questions", "traffic", "rules", "files", "credentials", "guests", "history", "machine"]
MODULES = modules()
# What C answers is asked for under sanitizers by the other test_ui_* files; here nearly all of the time is the browser's own.
pytestmark = [pytest.mark.pages, pytest.mark.skipif(MODULES is None, reason="Playwright comes from npm, which cannot be reached here")]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """chromium() gives the one browser of this file; a new one if that has crashed."""
    started = []

    def give():
        if not started or started[-1].process.poll() is not None:
            started.append(Browser(MODULES, tmp_path_factory.mktemp("chromium")))
            started[-1].stay()
            started[-1]("reset")  # it runs when it has answered
        return started[-1]

    give()  # now, and not within what is watched of the first test
    yield give
    for one in started:
        one.close()


@pytest.fixture
def browser(chromium, nothing_left_behind):
    browser = chromium()
    yield browser
    if browser.process.poll() is None:
        browser("reset")


@pytest.fixture
def ui(start):
    return Dashboard(start)


@pytest.fixture
def page(ui, browser):
    """The dashboard's page with a session, and live."""
    browser("open", url=ui.link)
    browser("wait", code="document.querySelector('.live.on')")
    return browser


@pytest.fixture
def asking(start, home, work, hosts, origin):
    def begin(script):
        return start(["bailey", "run", "--ask", "control", "--hosts", hosts, "--allow-private", f"127.0.0.1:{origin.port}", "--deny", "denied.test", "--", "sh", "-c", script], cwd=work)
    return begin


def screen(browser, name, page="one"):
    browser("eval", page, code=f"location.hash = '#/{name}'")
    browser("wait", page, code=f"document.querySelector('main h2') && ![...document.querySelectorAll('main p')].some(p => p.textContent === 'Loading.') && location.hash === '#/{name}'")


def clean(browser, ui, page="one"):
    """Nothing was asked of anybody else, and the page's own policy had nothing to forbid."""
    look = browser("look", page)
    assert look["problems"] == [] and all(url.startswith((f"http://127.0.0.1:{ui.port}/", "blob:http://127.0.0.1:")) for url in look["requests"]), look


def test_a_person_answers(page, ui, asking, bailey, origin, browser):
    fetch = f"curl -sS -m 60 http://origin.test:{origin.port}/one; "
    child = asking(fetch + fetch.replace("one", "two").replace("origin.test", "other.test") + fetch.replace("origin.test", "denied.test") + f"curl -s -m 60 http://refused.test:{origin.port}/; true")
    assert browser("eval", code="location.hash") == "#/now"  # the key is not in the address any more
    screen(browser, "questions")
    browser("wait", code="document.querySelector('.question')")
    assert f"origin.test:{origin.port}" in browser.text() and bailey("pending").check().text.count("wants") == 1
    assert browser("eval", code="document.title").startswith("(1)")
    browser("click", selector="button:has-text('Allow for this sandbox')")
    browser("wait", code="document.querySelector('.question .target')?.textContent.startsWith('other.test')")
    browser("wait", code="document.querySelector('[data-answer=\"1\"]:enabled')")  # what has just come is not answered yet
    browser("press", key="1")  # allow once
    browser("wait", code="document.querySelector('.question .target')?.textContent.startsWith('refused.test')")
    bailey("deny", "refused.test").check()  # from the terminal
    browser("wait", code="!document.querySelector('.question')")
    child.wait().check()
    assert len(origin.requests()) == 2

    report = json.loads(bailey("report", "--json").check().text)
    assert [(q["about"].split(":")[0], q["answer"], q["scope"], q["by"]) for q in report["questions"]] == [
        ("origin.test", "allow", "sandbox", "control (bailey ui)"), ("other.test", "allow", "once", "control (bailey ui)"), ("refused.test", "deny", "sandbox", "control (bailey deny)")]
    assert bailey("log", "verify").status == 0
    browser("eval", code=f"location.hash = '#/run/{report['run']}'")
    browser("wait", code="document.querySelectorAll('svg.lanes circle').length > 5")
    text = browser.text()
    assert "log is whole" in text and report["audit"]["last_sha256"] in text and "control (bailey deny)" in text
    screen(browser, "traffic")
    browser("wait", code="document.body.innerText.includes('denied.test')")
    clean(browser, ui)


def test_two_browsers_agree(page, ui, asking, bailey, origin, browser):
    browser("open", "phone", url=bailey("ui", "--no-open").check().text.strip(), width=390, height=800)
    asking(f"curl -sS -m 60 http://origin.test:{origin.port}/")
    for name in ("one", "phone"):
        screen(browser, "questions", name)
        browser("wait", name, code="document.querySelector('.question')")
    browser("click", "phone", selector="button:has-text('Deny once')")
    for name in ("one", "phone"):
        browser("wait", name, code="!document.querySelector('.question')")


def test_a_slow_press_counts_while_events_come(page, start, work, browser):
    """Every event draws the screen again, but not below a finger."""
    child = start(["bailey", "run", "--", "sh", "-c", "while :; do curl -s -m 5 http://refused.test/; sleep 0.02; done"], cwd=work)
    browser("wait", code="Number(document.documentElement.dataset.events) > 5")
    browser("click", selector="button:has-text('Pause')", held=700)
    browser("wait", code="document.body.innerText.includes('paused')", seconds=20)
    child.stop()


def test_what_has_just_come_is_not_answered(page, asking, bailey, origin, browser):
    """The next question takes the place of one that was answered elsewhere. A hand that was on its way does not answer it; a moment later it can be."""
    child = asking("".join(f"curl -sS -m 60 http://{name}.test:{origin.port}/; " for name in ("origin", "other")) + "true")
    screen(browser, "questions")
    browser("wait", code="document.querySelector('.question [data-answer=\"1\"]:enabled')")
    browser("eval", code="""(() => { const seen = window.justCame = [];
        new MutationObserver(() => { const name = document.querySelector('.question .target')?.textContent, button = document.querySelector('[data-answer="1"]');
            if (name?.startsWith('other.test') && seen.length === 0) { seen.push(button.disabled); document.dispatchEvent(new KeyboardEvent('keydown', { key: '1', bubbles: true })); button.click(); } })
            .observe(document.getElementById('questions'), { childList: true }); })()""")
    bailey("allow", "origin.test").check()
    browser("wait", code="window.justCame.length === 1")
    assert browser("eval", code="window.justCame[0]") is True
    assert "other.test" in bailey("pending").check().text, "neither the key nor the click has answered it"
    browser("click", selector="button:has-text('Allow once')")
    child.wait().check()
    assert len(origin.requests()) == 2


def test_long_work_is_shown(page, start, home, bailey, browser):
    """How far a command in some terminal is; it goes with the command, also with one that is killed."""
    place = home / ".local/state/bailey/work"
    bailey("guest", "create", "one").check()
    bailey("guest", "exec", "one", "--", "sh", "-c", "head -c 50000000 /dev/urandom > big").check()
    bailey("guest", "stop", "one").check()
    for end in (signal.SIGCONT, signal.SIGKILL):
        child = start(["bailey", "guest", "snapshot", "one", f"by-{end}"])
        wait_for(lambda: place.exists() and [f for f in place.iterdir() if f.suffix != ".new"], "the note")
        child.signal(signal.SIGSTOP)
        browser("wait", code="document.body.innerText.includes('one: packing')")
        child.signal(end)
        child.wait()
        browser("wait", code="!document.body.innerText.includes('one: packing')")
        assert not any(place.iterdir())
    bailey("guest", "delete", "--force", "one").check()


def test_pause_resume_kill(page, start, work, bailey, browser):
    child = start(["bailey", "run", "--", "sleep", "100"], cwd=work)
    browser("wait", code="document.body.innerText.includes('sleep 100')")
    browser("click", selector="button:has-text('Pause')")
    browser("wait", code="document.body.innerText.includes('paused')")
    assert "paused" in bailey("ps").check().text
    browser("click", selector="button:has-text('Resume')")
    browser("wait", code="document.body.innerText.includes('running')")
    browser("click", selector="button:has-text('Kill')")
    assert child.running()  # asked once more
    browser("click", selector="button:has-text('Kill')")
    assert child.wait().status == 137
    browser("wait", code="document.body.innerText.includes('Nothing runs')")


def test_what_must_be_known_first_is_said_on_every_screen(page, ui, start, work, home, bailey, browser, tmp_path):
    """Degraded runs, observed ones and the monitor's alarms; afterwards in the report, and with its page. What a run uses is beside it."""
    banner = "document.getElementById('banner').innerText"
    start(machine([program("bailey"), "run", "--allow-degraded", "--", "sh", "-c", "while :; do :; done"], refuse=NO_NAMESPACES), cwd=work)
    browser("wait", code=f"{banner}.includes('runs degraded')")
    (tmp_path / "alarm.yaml").write_text("monitor: [{violations: 2, within: 60s, action: warn}]\n")
    start(["bailey", "run", "--policy", str(tmp_path / "alarm.yaml"), "--", "sh", "-c", "for i in 1 2 3; do curl -sm2 http://evil$i.test/; done; sleep 300"], cwd=work)
    browser("wait", code=f"{banner}.includes('The monitor raised an alarm')")
    browser("wait", code="[...document.querySelectorAll('td')].some(td => td.dataset.label === 'cpu, memory' && parseFloat(td.innerText) > 20 && td.innerText.includes('MiB'))")
    for which in SCREENS:
        screen(browser, which)
        text = browser("eval", code=banner)
        assert "runs degraded" in text and "2 violations within 1m: warn" in text, which
    browser("click", selector="#banner button:has-text('What is lost')")
    assert "signals can be sent" in browser.text() or "processes of this user" in browser.text()
    browser("press", key="Escape")
    browser("click", selector="#banner button:has-text('I have seen it')")
    browser("wait", code=f"!{banner}.includes('The monitor')")
    listed = {bool(s["degraded"]): s for s in json.loads(bailey("ps", "--json").check().text)}
    assert listed[True]["lost"] and not listed[False]["lost"] and listed[False]["alarms"] == 1 and listed[True]["usage"]["cpu_us"] > 0
    for which, says in ((True, "degraded"), (False, "monitor")):
        screen(browser, "run/" + listed[which]["sandbox"])
        browser("wait", code=f"[...document.querySelectorAll('main .pill')].some(p => p.textContent === '{says}')")
    report = json.loads(bailey("report", "--json", listed[True]["sandbox"]).check().text)
    assert any("processes of this user" in line for line in report["lost"])
    assert "processes of this user" in bailey("report", listed[True]["sandbox"]).check().text and "**`lost: " in bailey("report", "--md", listed[True]["sandbox"]).check().text
    learning = start(["bailey", "learn", "--", "sleep", "300"], cwd=work)
    browser("wait", code=f"{banner}.includes('runs observed')")
    learning.stop()
    clean(browser, ui)


def test_the_machine_screen_has_the_ca(page, ui, bailey, home, browser):
    """To be compared with what a program shows of the certificate that it was given."""
    screen(browser, "machine")
    assert "No CA is kept" in browser.text()
    bailey("egress", "setup", "--yes", env={"OPENAI_API_KEY": "sk-live-Zq8Yt3KpXw5Nn7Bb2Vv4"}).check()
    said = subprocess.run(["openssl", "x509", "-in", str(home / ".local/state/bailey/egress/ca.crt"), "-noout", "-fingerprint", "-sha256", "-enddate", "-dateopt", "iso_8601"], check=True, capture_output=True, text=True).stdout
    fingerprint, end = said.split("=")[1].split()[0], said.split("notAfter=")[1].strip().replace(" ", "T")
    shown = json.loads(bailey("egress", "status", "--json").check(1).text)["ca"]
    assert shown == {"sha256": fingerprint, "expires": end}
    screen(browser, "now")
    screen(browser, "machine")
    browser("wait", code=f"document.querySelector('main').innerText.includes('{fingerprint}')")


def test_rules_come_and_go(page, start, work, home, bailey, browser):
    start(["bailey", "run", "--allow", "a.example.com", "--", "sleep", "100"], cwd=work)
    wait_for(lambda: sockets(home), "the sandbox")
    screen(browser, "rules")
    browser("wait", code="document.body.innerText.includes('a.example.com')")
    browser("type", selector="input[aria-label=pattern]", text="*.b.example.com")
    browser("click", selector="button:has-text('Allow')")
    browser("wait", code="document.querySelector('#rules').innerText.includes('*.b.example.com')")
    browser("click", selector="button:has-text('Edit')")
    browser("type", selector="input[aria-label=pattern]", text="c.example.com")
    browser("eval", code="document.querySelector('input[aria-label=pattern]').value = 'c.example.com'")
    browser("click", selector="form button:has-text('Deny')")
    browser("wait", code="document.querySelector('#rules').innerText.includes('c.example.com') && !document.querySelector('#rules').innerText.includes('*.b.example.com')")
    browser("click", selector="button:has-text('Edit')")
    browser("click", selector="form button:has-text('Allow')")  # the same text: the denial would stand above it
    row = "[...document.querySelectorAll('#rules tbody tr')].filter(tr => tr.innerText.includes('c.example.com')).map(tr => tr.innerText.split(/\\s/)[0]).join()"
    browser("wait", code=f"{row} === 'allow'")
    browser("click", selector="button:has-text('Edit')")
    browser("wait", code="document.querySelector('main [role=status]').innerText.includes('You edit allow c.example.com')")
    screen(browser, "now")
    screen(browser, "rules")  # what was begun is over: one more rule takes the place of none
    browser("type", selector="input[aria-label=pattern]", text="e.example.com")
    browser("click", selector="form button:has-text('Deny')")
    browser("wait", code="document.querySelector('#rules').innerText.includes('e.example.com')")
    assert browser("eval", code=row) == "allow"
    browser("click", selector="#rules tr:has-text('e.example.com') button:has-text('Forget')")
    browser("wait", code="!document.querySelector('#rules').innerText.includes('e.example.com')")
    [live] = [r for r in json.loads(bailey("ps", "--json").check().text)]
    browser("click", selector="button:has-text('Forget')")
    browser("wait", code="!document.querySelector('#rules').innerText.includes('c.example.com')")
    bailey("allow", "--scope", "workspace", "--workspace", live["workspace"], "d.example.com").check()
    start(["bailey", "run", "--", "sleep", "101"], cwd=work)  # has read it at its start
    browser("wait", code="document.querySelectorAll('#rules button').length >= 4")
    browser("click", selector="#rules tr:last-child button:has-text('Forget')")
    browser("wait", code="[...document.querySelectorAll('#rules tr')].filter(tr => tr.innerText.includes('d.example.com')).length <= 1")
    browser("type", selector="input[aria-label=pattern]", text="http://no pattern")
    browser("click", selector="button:has-text('Allow')")
    browser("wait", code="document.querySelector('#toast').textContent !== ''")


def test_silent_mode(page, ui, asking, bailey, origin, browser):
    child = asking(f"sleep 1; curl -sS -m 60 http://origin.test:{origin.port}/; curl -s -m 60 http://denied.test:{origin.port}/; curl -s -m 60 http://169.254.169.254/; sleep 2")
    browser("wait", code="document.body.innerText.includes('allow unknown hosts for 5 min')")
    browser("click", selector="button:has-text('for 5 min')")
    browser("wait", code="document.querySelector('#banner').innerText.includes('Silent mode')")
    child.wait()
    assert len(origin.requests()) == 1  # denied and metadata stay refused
    browser("wait", code="document.querySelector('#banner').innerText.includes('Allowed so far: 1')")
    browser("click", selector="button:has-text('End it now')")
    browser("wait", code=f"document.querySelector('#banner').innerText.includes('origin.test:{origin.port}')")
    assert "by control (bailey ui silent mode)" in bailey("log").check().text


def test_overlay_review(page, ui, bailey, work, browser):
    (work / "notes").write_text("one\ntwo\n")
    name = "<img src=x onerror=alert(1)>"
    bailey("run", "--overlay", "--", "sh", "-c", f"printf 'one\\nTWO\\n' > notes; echo x > '{name}'", cwd=work).check()
    screen(browser, "files")
    browser("wait", code="document.body.innerText.includes('onerror=alert')")
    browser("click", selector="button.link:has-text('notes')")
    browser("wait", code="document.querySelectorAll('.diff .add').length === 1")
    assert browser("eval", code="document.querySelector('.diff .del').textContent") == "- two"
    browser("press", key="Escape")
    browser("click", selector="button:has-text('Apply')")
    browser("wait", code="document.body.innerText.includes('No overlay waits')")
    assert (work / "notes").read_text() == "one\nTWO\n" and (work / name).exists()
    clean(browser, ui)


def test_hostile_texts_are_text(page, ui, home, bailey, browser):
    hostile_log(home)
    bailey("log", "--all", "--limit", "1").check()
    for name in ("files", "credentials", "history", "rules", "traffic", "run/hostile00001"):
        screen(browser, name)
        if name == "history":
            browser("type", selector="input[type=search]", text="alert(1)")
            browser("click", selector="button:has-text('Search')")
        browser("wait", code="document.body.innerText.includes('alert(1)')")
        assert browser("eval", code="document.querySelectorAll('main script, main iframe, main object, main img').length") == 0, name
        links = browser("eval", code="[...document.querySelectorAll('main a')].map(a => a.getAttribute('href'))")
        assert all(link.startswith("#/") for link in links), links
    shown = browser("eval", code="document.querySelector('main').textContent")
    for text in hostile_texts():
        plain = "".join(c for c in text if c.isprintable() and ord(c) < 0x2000)
        assert len(plain) < 4 or text != plain or text in shown, text
    clean(browser, ui)


REASON = "<img src=x onerror=alert(1)>"
ASK = """
import socket, sys
s = socket.create_connection(("127.0.0.1", 3128))
s.sendall(b"CONNECT files.example.com:443 HTTP/1.1\\r\\nHost: files.example.com:443\\r\\nbailey-ask: because " + sys.argv[1].encode() + b"\\r\\n\\r\\n")
print(s.recv(999))
"""


def test_hostile_texts_live(page, ui, start, home, bailey, browser, work, hosts):
    """What a program inside chooses while it runs: its arguments and name, the reason of a question, names of files; in the page, on the phone, in the terminal."""
    texts = [t for t in hostile_texts() if "\0" not in t]
    pairing = start(["bailey", "ui", "--no-open", *HERE])
    browser("open", "phone", url=link_of(pairing), width=390, height=800, anyCertificate=True)
    browser("wait", "phone", code="document.querySelector('.live.on')")
    child = start(["bailey", "run", "--ask", "control", "--overlay", "--", "python3", "-c", f"import os, sys\nfor n in sys.argv[2:]:\n    open('f' + n.replace('/', '_')[:100], 'w').close()\n{ASK}", REASON, *texts], cwd=work)
    for name in ("one", "phone"):
        browser("eval", name, code="location.hash = '#/questions'")
        browser("wait", name, code="document.querySelector('.question')?.textContent.includes('onerror=alert(1)')")
        browser("eval", name, code="location.hash = '#/now'")
        browser("wait", name, code="document.querySelector('main td')?.parentElement.textContent.includes('alert(1)')")
    for words in (("ps",), ("pending",)):
        shown = bailey(*words).check().text
        assert "alert(1)" in shown and not [c for c in shown if c != "\n" and (ord(c) < 32 or 0x7f <= ord(c) < 0xa0 or c in "\u202e\u2066\u200b")], words
    bailey("deny", "files.example.com").check()
    child.wait()
    screen(browser, "files")
    browser("wait", code="document.querySelector('main').textContent.includes('alert(1)')")
    for name in ("one", "phone"):
        assert browser("eval", name, code="document.querySelectorAll('main script, main iframe, main object, main img, main svg[onload]').length") == 0
        look = browser("look", name)
        assert look["problems"] == [], look
    shown = bailey("diff", cwd=work).text
    assert "alert(1)" in shown and "\x1b" not in shown and "\u202e" not in shown


def test_every_screen(ui, browser, home, bailey, start, work, hosts, origin):
    """Without a serious finding of axe, in both themes, at the width of a desk and of a phone; reached by keyboard alone."""
    log = Log(run_path(home, "shown0000001"), "shown0000001")
    log.note("start: mode workspace-write-whitelist, workspace /home/ann/project")
    log.note("command: npm test")
    for number in range(30):
        log.request(["registry.npmjs.org", "api.github.com", "telemetry.example.net"][number % 3], allowed=number % 3 != 2, rule=["@npm", "api.github.com:443", None][number % 3], path=f"/package/{number}", swapped=["github"] if number % 3 == 1 else [], step=2)
    log.command("git push origin main")
    log.file_access("/home/ann/.ssh/id_ed25519")
    log.note("asked: files.example.com:443")
    log.note("answered: files.example.com:443, allow, scope sandbox, by control (bailey ui)", step=4)
    log.close()
    bailey("run", "--overlay", "--", "sh", "-c", "echo x > new.txt", cwd=work).check()
    start(["bailey", "run", "--ask", "control", "--ask-timeout", "15m", "--hosts", hosts, "--allow", "registry.npmjs.org", "--", "sh", "-c", "for i in 1 2 3; do curl -s -m 900 http://files$i.example.com/ & done; wait"], cwd=work)
    shots = os.environ.get("BAILEY_SHOTS")
    for width, theme in ((1200, "light"), (1200, "dark"), (390, "light"), (390, "dark")):
        name = f"{theme}{width}"
        browser("open", name, url=bailey("ui", "--no-open").check().text.strip(), width=width, height=800, theme=theme)
        browser("wait", name, code="document.querySelector('.live.on') && document.querySelector('.badge')?.textContent === '3'")
        for which in [*SCREENS, "run/shown0000001"]:
            if which != "now" and "/" not in which:
                browser("press", name, key="g")  # the next one, by key
                browser("wait", name, code=f"location.hash === '#/{which}'")
            screen(browser, which, name)
            if which == "questions":  # a button that is closed is not looked at by axe
                browser("wait", name, code="document.querySelectorAll('#questions button:enabled').length === 15")
            assert "[object" not in browser.text(name), which
            found = [f for f in browser("axe", name) if f["impact"] in ("serious", "critical")]
            assert not found, (which, name, found)
            assert browser("eval", name, code="document.documentElement.scrollWidth <= window.innerWidth"), f"{which} is wider than {width}"
            if shots:
                browser("shot", name, path=f"{shots}/{which.split('/')[0]}-{name}.png")
        clean(browser, ui, name)


class Hostile(http.server.BaseHTTPRequestHandler):
    """A page of somebody else on another port of localhost, and what it was sent."""
    cookies = []

    def do_GET(self):
        self.cookies.append(self.headers.get("Cookie", ""))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>hostile</title><body>")

    def log_message(self, *words):
        pass


def test_a_hostile_page_in_the_same_browser(page, ui, asking, bailey, browser, closing, home):
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Hostile)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        browser("open", "evil", url=f"http://127.0.0.1:{server.server_address[1]}/", cookiesOf="one")
        assert any("bailey_ui=" in cookie for cookie in Hostile.cookies)  # cookies do not know ports: it gets this one, and it is worth nothing
        stolen = next(c for c in Hostile.cookies if "bailey_ui=" in c)
        assert ui.raw("GET", "/api/state", headers={"Cookie": stolen})[0] == 403
        tries = browser("eval", "evil", code=f"""(async () => {{
            const url = 'http://127.0.0.1:{ui.port}', out = [];
            const attempt = async (what, f) => {{ try {{ out.push([what, await f()]); }} catch (e) {{ out.push([what, 'failed']); }} }};
            await attempt('read', async () => (await fetch(url + '/api/state', {{credentials: 'include'}})).status);
            await attempt('blind post', async () => {{ await fetch(url + '/api/silent', {{method: 'POST', mode: 'no-cors', credentials: 'include', headers: {{'Content-Type': 'text/plain'}}, body: '{{"minutes":5}}'}}); return 'sent'; }});
            await attempt('json post', async () => (await fetch(url + '/api/silent', {{method: 'POST', credentials: 'include', headers: {{'Content-Type': 'application/json', 'X-Bailey-Page': 'x'}}, body: '{{"minutes":5}}'}})).status);
            await attempt('script', () => new Promise((yes, no) => {{ const s = document.createElement('script'); s.src = url + '/app.js'; s.onload = () => yes('loaded'); s.onerror = no; document.body.append(s); }}));
            await attempt('frame', () => new Promise((yes) => {{ const f = document.createElement('iframe'); f.src = url + '/'; f.onload = () => {{ try {{ yes(f.contentDocument.title); }} catch (e) {{ yes('closed'); }} }}; document.body.append(f); }}));
            return out; }})()""")
        assert dict(tries)["read"] == "failed" and dict(tries)["json post"] == "failed" and dict(tries)["script"] == "failed" and dict(tries)["frame"] != "Bailey", tries
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert browser("eval", code="fetch('/api/state', {headers: {'X-Bailey-Page': sessionStorage.getItem('bailey-page')}}).then(r => r.json()).then(s => s.silent.until)") is None
    assert "another" in bailey("log", home / ".local/state/bailey/audit/ui.jsonl").check().text


def test_injected_markup_does_nothing(page, ui, browser):
    """If text ever became markup: the page's policy stops it."""
    result = browser("eval", code="""(() => { try { document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.hit=1">'); return 'inserted'; } catch (e) { return 'refused'; } })()""")
    assert result == "refused"
    assert browser("eval", code="""(() => { const s = document.createElement('div'); try { s.setAttribute('onclick', 'window.hit=1'); document.body.append(s); s.click(); return 'set'; } catch (e) { return 'refused'; } })()""") == "refused"
    assert browser("eval", code="window.hit === undefined")


def test_every_event_arrives(page, ui, start, work, browser, bailey):
    child = start(["bailey", "run", "--", "sh", "-c", "for i in $(seq 60); do curl -s -m 9 http://h$i.example.com/ >/dev/null; done"], cwd=work)
    child.wait()
    browser("wait", code="document.querySelector('main').innerText.includes('Nothing runs')")
    screen(browser, "traffic")
    browser("type", selector="input[aria-label=filter]", text="example.com")
    browser("wait", code="document.querySelector('#shown').textContent.startsWith('60 of')")


def test_a_reload_keeps_the_session(page, ui, browser):
    browser("eval", code="location.reload()")
    browser("wait", code="document.querySelector('.live.on')")
    browser("open", "other", url=f"http://127.0.0.1:{ui.port}/", cookiesOf="one")  # a new tab has the cookie, not the other half
    browser("wait", "other", code="document.body.innerText.includes('bailey ui')")


@pytest.mark.exact_build
def test_many_records(ui, browser, home, bailey):
    """`tests/web/load` has the whole measure: a million records, 50 events a second."""
    log = Log(run_path(home, "many00000001"), "many00000001")
    for number in range(20000):
        log.request(f"h{number % 50}.example.com", allowed=number % 9 != 0, path=f"/{number}")
    log.close()
    bailey("log", "--all", "--limit", "1").check()
    took = browser("open", url=ui.link)["ms"]
    browser("wait", code="document.querySelector('.live.on')")
    screen(browser, "history")
    browser("wait", code="document.body.innerText.includes('many00000001')")
    assert took < 5000 and ui.child.running()
    status = pathlib.Path(f"/proc/{ui.child.pid}/status").read_text()
    assert int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) < 60 * 1024 or program("bailey").stat().st_size > 30 << 20
