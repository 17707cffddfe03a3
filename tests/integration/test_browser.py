# SPDX-License-Identifier: Apache-2.0
"""Pages in a person's browser: what is opened, after whose yes, and which one request of a sign-in comes back inside."""
import json
import re
import socket
import textwrap

import pytest

from kit.process import SLOW, wait_until

pytestmark = pytest.mark.visible_home

# The host's browser: notes the page, and does what a test wrote for it.
BROWSER = """#!/usr/bin/python3
import os, sys
with open(r"{place}/opened", "a") as out:
    out.write(" ".join(sys.argv[1:]) + "\\n")
script = r"{place}/play.py"
if os.path.exists(script):
    exec(open(script).read())
open(r"{place}/done", "a").close()
"""

PLAY = """
import http.client, time, urllib.parse
query = urllib.parse.parse_qs(urllib.parse.urlsplit(sys.argv[1]).query)
back = urllib.parse.urlsplit(query["redirect_uri"][0])
state = query.get("state", [""])[0]
answers = []
def get(path, method="GET", host=None, port=None, headers={}, body=None):
    try:
        c = http.client.HTTPConnection("127.0.0.1", port or back.port, timeout=30)
        c.request(method, path, body=body, headers={"Host": host or f"{back.hostname}:{back.port}", **headers})
        r = c.getresponse()
        answers.append([r.status, r.read().decode()])
    except OSError as e:
        answers.append([0, type(e).__name__])
"""

# Inside: a program that signs in. It prints each request that reaches it, whole.
SIGN_IN = r"""
import http.server, os, subprocess, sys, threading, time, urllib.parse
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print("inside got", self.path, sorted(self.headers.items()), flush=True)
        self.send_response(302)
        self.send_header("Location", "https://evil.test/?leak=1")
        self.end_headers()
        self.wfile.write(b"<script>evil()</script>")
    do_POST = do_GET
    def log_message(self, *words): pass
family = {"4": "127.0.0.1", "6": "::1"}[sys.argv[2] if len(sys.argv) > 2 else "4"]
class Server(http.server.HTTPServer):
    address_family = 10 if family == "::1" else 2
server = Server((family, int(sys.argv[1])), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
back = urllib.parse.quote(f"http://localhost:{sys.argv[1]}/callback", safe="")
done = subprocess.run(["xdg-open", f"https://login.test/authorize?client_id=x&redirect_uri={back}&state=s3cr3t"])
print("opened", done.returncode, flush=True)
for _ in range(1200):
    if os.path.exists("end"):
        break
    time.sleep(0.05)
"""


@pytest.fixture
def desk(bailey, start, home, work, tmp_path):
    """What a person has: a browser that notes what it is told, and a policy that lets pages be opened."""
    class Desk:
        place = home / "outside"
        policy = home / "policy.yaml"
        audit = home / "audit.jsonl"

        def __init__(self):
            self.place.mkdir()
            self.program = self.place / "browser"
            self.program.write_text(BROWSER.format(place=self.place))
            self.program.chmod(0o755)
            (work / "sign_in.py").write_text(SIGN_IN)

        def write(self, browser=None, **more):
            self.policy.write_text(json.dumps({"browser": {"hosts": ["login.test", "*.pages.test"], "ask": False, "program": str(self.program), **(browser or {})},
                                               **more}))
            self.audit.unlink(missing_ok=True)

        def play(self, script):
            (self.place / "play.py").write_text(PLAY + textwrap.dedent(script) + f"\nimport json\nopen(r'{self.place}/answers', 'w').write(json.dumps(answers))\n")

        def arguments(self, *command):
            return ["run", "--policy", str(self.policy), "--audit", str(self.audit), "--", *command]

        def run(self, script):
            return bailey(*self.arguments("bash", "-c", script), cwd=work, timeout=60 * SLOW)

        def begin(self, *command):
            return start(["bailey", *self.arguments(*command)], cwd=work)

        @property
        def opened(self):
            file = self.place / "opened"
            return file.read_text().splitlines() if file.exists() else []

        @property
        def answers(self):
            return json.loads((self.place / "answers").read_text())

        @property
        def records(self):
            return [r for r in map(json.loads, self.audit.read_text().splitlines()) if r.get("kind") == "command"]

        def wait_done(self):
            wait_until(lambda: (self.place / "done").exists(), 60 * SLOW, "the browser")

        def sign_in(self, port, *more):
            """A whole sign-in: what the program inside said."""
            child = self.begin("python3", "sign_in.py", str(port), *more)
            self.wait_done()
            (work / "end").touch()
            return child.wait(60 * SLOW).check().text
    return Desk()


def test_nothing_is_opened_unless_the_policy_says_so(desk, bailey, work):
    desk.write(browser={"hosts": []})
    done = desk.run("command -v xdg-open | grep -c /run/bailey; echo ${BROWSER:-none}; ls /run/bailey/bin 2>&1 | head -1")
    assert done.text.split()[0] == "0" and not desk.opened, str(done)
    shown = bailey("policy", "show", "--policy", str(desk.policy), cwd=work).check().text
    assert "login.test" not in shown


def test_pages_are_opened_by_every_name(desk):
    desk.write()
    done = desk.run("xdg-open https://login.test/a; open HTTPS://LOGIN.test; sensible-browser https://x.pages.test/b?c=d#e; x-www-browser https://login.test:8443/; "
                    "$BROWSER https://login.test/last; python3 -c 'import webbrowser; print(webbrowser.open(\"https://login.test/python\"))'; echo $?")
    assert done.text.split() == ["True", "0"], str(done)
    wait_until(lambda: len(desk.opened) == 6, 30 * SLOW, "six pages")
    assert sorted(desk.opened) == sorted(["https://login.test/a", "https://login.test/", "https://x.pages.test/b?c=d#e", "https://login.test:8443/",
                                          "https://login.test/last", "https://login.test/python"])
    assert [(r["allowed"], r["method"]) for r in desk.records] == [(True, "opened")] * 6


HOSTILE = ["javascript:alert(1)", "file:///etc/passwd", "http://login.test/", "ftp://login.test/", "data:text/html,x", "vscode://x", "mailto:a@b.c", "//login.test/",
           "login.test", "", " https://login.test/", "https://login.test/ x", "https://login.test/\t", "https://login.test/\n--new", "https://login.test/\x1b[2J",
           "https://login.test/\x7f", "https://login.test/ü", "--help", "-n", "--new-window=https://login.test/", "https://", "https:///x", "https://user@login.test/",
           "https://login.test@evil.test/", "https://login.test\\@evil.test/", "https://127.0.0.1/", "https://[::1]/", "https://localhost/", "https://printer/",
           "https://2130706433/", "https://login.test:0/", "https://login.test:99999/", "https://login.test./..%2f`id`", 'https://login.test/"x', "https://login.test/<x>",
           "https://login.test/%zz", "https://login.test/" + "a" * 4000, "https://evil.test/", "https://login.test.evil.test/", "https://pages.test/",
           "https://login.test/?redirect_uri=http%3A%2F%2Flocalhost%3A22%2F", "https://login.test/?redirect_uri=http%3A%2F%2Flocalhost%2F",
           "https://login.test/?redirect_uri=http%3A%2F%2Flocalhost%3A8085%2F&redirect_uri=x", "https://login.test/?redirect_uri=http%3A%2F%2Flocalhost%3A8085%2F%0d%0ax",
           "https://login.test/?redirect_uri=http%3A%2F%2Flocalhost%3A8085%2F&state=a&state=b", "https://login.test/?redirect_uri=http%3A%2F%2Flocalhost%3A8085%2F%3Cb%3E"]


def test_hostile_addresses_are_refused_and_recorded(desk, work):
    desk.write()
    (work / "try.py").write_text("import json, subprocess\nfor url in json.load(open('urls')):\n"
                                 "    print(subprocess.run(['xdg-open', url], stderr=subprocess.DEVNULL).returncode)\n"
                                 "for words in ([], ['https://login.test/', 'https://login.test/'], ['--', 'https://login.test/']):\n"
                                 "    print(subprocess.run(['xdg-open', *words], stderr=subprocess.DEVNULL).returncode)\n")
    (work / "urls").write_text(json.dumps(HOSTILE))
    done = desk.run("python3 try.py; xdg-open https://evil.test/")
    assert done.text.split() == ["125"] * (len(HOSTILE) + 3), list(zip(HOSTILE, done.text.split()))
    assert "browser.hosts does not name its host" in done.errors
    assert not desk.opened and len(desk.records) == len(HOSTILE) + 4
    assert not any(r["allowed"] for r in desk.records)


def test_an_answer_by_post_is_refused_before_the_page_is_opened(desk):
    desk.write()
    done = desk.run("xdg-open 'https://login.test/a?response_mode=form_post&state=x&redirect_uri=http%3A%2F%2Flocalhost%3A8085%2Fcb'; echo $?")
    assert done.text.split() == ["125"] and "response_mode=form_post" in done.errors and not desk.opened, str(done)
    assert [r["allowed"] for r in desk.records] == [False]


def test_what_a_shell_would_take_is_written_in_percent_form(desk):
    desk.write()
    desk.run("xdg-open 'https://login.test/$(id);x?a=(b)*!&c=d'").check()
    wait_until(lambda: desk.opened, 30 * SLOW, "the page")
    assert desk.opened == ["https://login.test/%24%28id%29%3Bx?a=%28b%29%2A%21&c=d"]


def test_a_person_is_asked(desk, bailey, work):
    desk.write(browser={"hosts": ["*"], "ask": True})
    page = "https://anywhere.test/page?x=" + "1" * 1500  # whole: what is not seen is not approved
    for answer, status in (("allow", 0), ("deny", 125)):
        child = desk.begin("bash", "-c", f"xdg-open '{page}'; echo status $?")
        wait_until(lambda: f"wants a page opened: {page} (for " in bailey("pending").text, 30 * SLOW, "the question")
        line = bailey("pending").text
        name = re.search(r"bailey allow --page (\S+)", line).group(1)
        bailey(answer, "--page", name).check()
        done = child.wait(60 * SLOW)
        assert f"status {status}" in done.text, str(done)
    wait_until(lambda: desk.opened, 30 * SLOW, "the page")
    assert desk.opened == [page]
    assert [r["allowed"] for r in desk.records] == [True, False]


def test_no_answer_is_a_no_and_who_goes_is_not_waited_for(desk, bailey):
    desk.write(browser={"ask": True}, network={"ask_timeout": "1s"})
    done = desk.run("xdg-open https://login.test/; echo $?")
    assert done.text.split() == ["125"] and "nobody answered in time" in done.errors and not desk.opened, str(done)
    desk.write(browser={"ask": True}, network={"ask_timeout": "60s"})
    done = desk.run("timeout -s KILL 1 xdg-open https://login.test/; for i in 1 2 3 4 5 6; do timeout -s KILL 1 xdg-open https://login.test/ & done; wait; echo $?")
    assert done.text.split() == ["0"] and not desk.opened and not bailey("pending").text.strip(), str(done)


@pytest.mark.parametrize("family", ["4", "6"])
def test_a_sign_in_comes_back_once(desk, free_port, family):
    port = free_port()
    desk.write()
    desk.play("""
        get("/callback?state=wrong&code=1")
        get("/callback?code=1")
        get("/other?state=" + state)
        get("/callback?state=" + state, method="POST", body="x=1")
        get("/callback?state=" + state, host="evil.test")
        get("/callback?state=" + state, host="localhost:1")
        get("/callback?code=sign-in-code&state=" + state, headers={"Cookie": "session=of-another-program", "Referer": "https://private.test/"})
        get("/callback?code=again&state=" + state)
        get("/callback?code=sign-in-code&state=" + state)
        """)
    out = desk.sign_in(port, family)
    got = (f"inside got /callback?code=sign-in-code&state=s3cr3t [('Accept', '*/*'), ('Connection', 'close'), ('Host', 'localhost:{port}'), "
           "('User-Agent', 'bailey')]")
    assert sorted(out.splitlines()) == [got, "opened 0"], out  # nothing of the browser's own
    assert [a[0] for a in desk.answers] == [403, 403, 403, 403, 403, 403, 200, 410, 410], desk.answers
    assert not any("evil" in a[1] for a in desk.answers)  # what is answered inside is never in the browser
    back = [r for r in desk.records if r["path"].startswith("callback ")]
    assert [r["allowed"] for r in back] == [False] * 6 + [True, False, False], back
    text = json.dumps(back)
    assert "sign-in-code" not in text and "nobody announced this path" in text and "was carried inside before" in text and "state is not the one" in text


def test_a_callback_after_the_time_limit(desk, free_port):
    port = free_port()
    desk.write(browser={"callback_timeout": "1s"})
    desk.play("""
        time.sleep(2)
        get("/callback?code=late&state=" + state)
        """)
    out = desk.sign_in(port)
    assert "inside got" not in out and [a[0] for a in desk.answers] == [410], (out, desk.answers)
    assert "time for the callback is over" in json.dumps(desk.records)


def test_ports_that_nobody_announced(desk, free_port):
    """Only the announced port leads inside, and only while its sign-in goes on."""
    port = free_port()
    other = next(p for p in iter(free_port, None) if p != port)
    desk.write()
    desk.play(f"""
        get("/callback?state=" + state, port={other})
        get("/callback?code=1&state=" + state)
        """)
    out = desk.sign_in(port)
    assert desk.answers[0][0] == 0 and desk.answers[1][0] == 200 and out.count("inside got") == 1, desk.answers
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=5).close()


def test_nobody_listens_inside(desk, free_port, work):
    port = free_port()
    desk.write()
    desk.play('get("/callback?code=1&state=" + state)')
    back = f"http%3A%2F%2Flocalhost%3A{port}%2Fcallback"
    child = desk.begin("bash", "-c", f"xdg-open 'https://login.test/?redirect_uri={back}&state=x'; echo $?; for i in $(seq 600); do test -e end && break; sleep 0.1; done")
    desk.wait_done()
    (work / "end").touch()
    done = child.wait(60 * SLOW)
    assert done.text.split() == ["0"] and desk.answers[0][0] == 502, (str(done), desk.answers)
    assert "nobody listens on this port inside" in json.dumps(desk.records)


def test_a_port_that_is_taken(desk):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        desk.write()
        done = desk.run(f"xdg-open 'https://login.test/?redirect_uri=http%3A%2F%2Flocalhost%3A{taken.getsockname()[1]}%2F'; echo $?")
    assert done.text.split() == ["125"] and "callback cannot be waited for" in done.errors and not desk.opened, str(done)


def test_hostile_bytes_at_the_port(desk, free_port):
    port = free_port()
    desk.write()
    desk.play("""
        import socket
        def raw(data):
            with socket.create_connection(("127.0.0.1", back.port), timeout=30) as s:
                try:
                    s.sendall(data)
                    s.shutdown(socket.SHUT_WR)
                    answers.append(s.recv(4096).decode("latin1")[:12])
                except OSError:
                    answers.append("")
        good = f"Host: localhost:{back.port}\\r\\n".encode()
        line = f"GET /callback?state={state} HTTP/1.1\\r\\n".encode()
        idle = [socket.create_connection(("127.0.0.1", back.port)) for _ in range(8)]
        for data in (b"", b"\\0" * 70000, line, line + good, line + b"\\r\\n", line + good + good + b"\\r\\n", line.replace(b"1.1", b"2.0") + good + b"\\r\\n",
                     line + b"Host:\\r\\n localhost\\r\\n" + good + b"\\r\\n", line + good + b"Content-Length: 5\\r\\n\\r\\nhello", line.replace(b"\\r", b"") + good + b"\\r\\n",
                     line.replace(b"/callback", b"http://localhost/callback") + good + b"\\r\\n", line.replace(b"/callback", b"/x/../callback") + good + b"\\r\\n",
                     line.replace(b"?state", b"?state=x&state") + good + b"\\r\\n", line.replace(b"GET ", b"GET  ") + good + b"\\r\\n"):
            raw(data)
        raw(line + good + b"\\r\\n")
        """)
    out = desk.sign_in(port)
    assert out.count("inside got") == 1, out
    assert [a for a in desk.answers if "200" in a] == [desk.answers[-1]], desk.answers


def test_a_ratchet_closes_the_browser(desk, work):
    (work / "secret").write_text("x\n")
    for tools, status in (([], "125"), (["browser"], "0")):
        desk.write(ratchet=[{"when": {"read": ["secret"]}, "then": {"allow": ["none"], **({"tools": tools} if tools else {})}}])
        done = desk.run("xdg-open https://login.test/before; echo $?; cat secret; xdg-open https://login.test/after; echo $?")
        assert done.text.split() == ["0", "x", status], str(done)
    wait_until(lambda: len(desk.opened) == 3, 30 * SLOW, "three pages")
    assert sorted(desk.opened) == ["https://login.test/after"] + ["https://login.test/before"] * 2


def test_by_an_option(desk, bailey, work):
    desk.policy.write_text(json.dumps({"browser": {"program": str(desk.program), "ask": False}}))
    done = bailey("run", "--policy", str(desk.policy), "--browser", "login.test", "--", "sh", "-c", "xdg-open https://login.test/; xdg-open https://evil.test/", cwd=work)
    assert done.status == 125, str(done)
    wait_until(lambda: desk.opened == ["https://login.test/"], 30 * SLOW, "the page")


def test_bad_policies(desk, bailey, work):
    def refused(**browser):
        desk.policy.write_text(json.dumps({"browser": {"program": str(desk.program), **browser}}))
        done = bailey("run", "--policy", str(desk.policy), "--", "touch", "ran", cwd=work)
        assert done.status != 0 and not (work / "ran").exists(), str(done)
        return done.errors
    assert "without a question" in refused(hosts=["*"], ask=False)
    assert "policy.yaml" in refused(hosts=["https://x.test/"]) and "whole path" in refused(hosts=["x.test"], program="firefox")
    inside = work / "browser"
    inside.write_text("#!/bin/sh\n")
    inside.chmod(0o755)
    assert "lies where the sandbox may write" in refused(hosts=["x.test"], program=str(inside))
    desk.policy.write_text(json.dumps({"browser": {"hosts": ["x.test"]}, "bridge": {"open": {"program": "/bin/true", "verbs": ["x"]}}}))
    assert "no tool of this name can be bridged" in bailey("run", "--policy", str(desk.policy), "--", "true", cwd=work).errors


def test_without_a_desktop_the_page_is_shown(desk, bailey):
    desk.write(browser={"program": "none"})
    done = desk.run("xdg-open https://login.test/shown; echo $?")
    assert done.text.split() == ["0"] and "open this page in your browser: https://login.test/shown" in done.errors, str(done)


def test_verbs_know_pages(desk, bailey, work):
    """why, policy test, plan, policy show and learn."""
    desk.write(browser={"ask": True})
    policy = ("--policy", str(desk.policy))
    back = "redirect_uri=http%3A%2F%2Flocalhost%3A8085%2Fcb"
    why = bailey("why", *policy, f"https://login.test/?{back}", cwd=work).check().text
    assert ": ask" in why and "http://localhost:8085/cb is carried inside" in why and "policy.yaml" in why, why
    for url, says in (("https://evil.test/", "--browser evil.test"), ("file:///etc/passwd", "only https")):
        done = bailey("why", *policy, url, cwd=work)
        assert done.status == 1 and says in done.text, str(done)
    tested = bailey("policy", "test", "--json", *policy, "https://login.test/", "https://evil.test/", cwd=work)
    assert tested.status == 1 and [json.loads(line)["allowed"] for line in tested.text.splitlines()] == [True, False], str(tested)
    shown = bailey("policy", "show", *policy, cwd=work).check().text
    assert "browser:" in shown and "login.test" in shown
    planned = json.loads(bailey("plan", "--json", *policy, "--", "true", cwd=work).check().text)
    assert "callback" in [listener["kind"] for listener in planned["network"]["listeners"]] and "/run/bailey/bin/xdg-open" in json.dumps(planned)

    desk.write()
    bailey("learn", *policy, "--output", str(work / "learned.yaml"), "--", "sh", "-c", "xdg-open https://login.test/x; xdg-open https://evil.test/", cwd=work)
    learned = (work / "learned.yaml").read_text()
    assert 'browser:\n  hosts:\n    - "login.test"' in learned and "evil.test" not in learned.split("\n", 1)[1], learned
    bailey("policy", "check", str(work / "learned.yaml"), cwd=work).check()
