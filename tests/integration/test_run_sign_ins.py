# SPDX-License-Identifier: Apache-2.0
"""Sign-ins of agents: the sandbox has a copy of the file with stand-ins, uses and renews them through the gateway, and the
user's own file follows. The token endpoint is played on loopback; it hands out each refresh token once, as real ones do."""
import errno
import gzip
import json
import os
import random
import signal
import stat
import subprocess
import threading
import time
import urllib.parse

import pytest

from conftest import program
from kit.machine import NO_CLONE3, deny, machine
from kit.process import descendants, name_of, wait_until
from kit.small_disk import filled

NO_NAMESPACES = [deny("clone3", NO_CLONE3), deny("clone", errno.EPERM, 0x3E020011)]
UNKNOWN = f"sk-Unknown{random.SystemRandom().randrange(10**12, 10**13)}abcdef"  # not in this file: the whole disk is searched for it


class Endpoint:
    """A provider: tokens by refresh, each refresh token good for one use; an API that takes the newest access token only."""

    def __init__(self, make_origin, authority):
        self.lock, self.turn, self.log = threading.Lock(), 0, []
        self.slow, self.any_path, self.any_reading = 0.0, False, False
        self.wrap = lambda answer: (200, {"Content-Type": "application/json"}, json.dumps(answer).encode())
        self.origin = make_origin(self.answer, tls=authority.context("api.ok.test", "auth.ok.test"))
        self.access, self.refresh = self.tokens(0)

    @staticmethod
    def tokens(n):
        return f"at-Rea1Access{n:04}abcdefghijklmnopqrstuvwxyz0123456789", f"rt-Rea1Refresh{n:04}abcdefghijklmnopqrstuvwxyz987654"

    def everything(self):
        return [t for n in range(self.turn + 1) for t in self.tokens(n)]

    def answer(self, request):
        head, _, body = request.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
        self.log.append((first, headers, body))
        if first.startswith("POST /oauth/token ") or (self.any_path and first.startswith("POST")):
            time.sleep(self.slow)
            return self.token(headers, body.decode())
        good = headers.get("authorization") == f"Bearer {self.access}"
        return self.reply(200 if good else 401, {"Content-Type": "text/plain"}, b"hello\n" if good else b"who are you\n")

    def token(self, headers, body):
        asked = {"grant_type": "of another account"}
        if not self.any_reading:
            asked = json.loads(body) if headers["content-type"] == "application/json" else dict(urllib.parse.parse_qsl(body))
        with self.lock:
            if asked["grant_type"] == "refresh_token" and asked.get("refresh_token") != self.refresh:
                return self.reply(400, {"Content-Type": "application/json"}, b'{"error": "invalid_grant"}')
            self.turn += 1
            self.access, self.refresh = self.tokens(self.turn)
            answer = {"token_type": "Bearer", "access_token": self.access, "refresh_token": self.refresh, "expires_in": 3600,
                      "scope": "user:inference user:profile", "account": {"uuid": "11111111-2222-3333-4444-555555555555"}}
            return self.reply(*self.wrap(answer))

    @staticmethod
    def reply(status, headers, body):
        if headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7]) for i in range(0, len(body), 7)) + b"0\r\n\r\n"
        else:
            headers = {**headers, "Content-Length": str(len(body))}
        return (f"HTTP/1.1 {status} X\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n").encode() + body


@pytest.fixture
def world(tmp_path, home, authority, make_origin, run, start):
    class World:
        endpoint = Endpoint(make_origin, authority)
        file = home / ".agent/auth.json"
        work = tmp_path / "ws"
        one_root = {"SSL_CERT_FILE": str(authority.file)}  # of the host: what runs inside reads all that there are

        def __init__(self):
            port = self.endpoint.origin.port
            self.work.mkdir()
            (tmp_path / "hosts").write_text("127.0.0.1 api.ok.test auth.ok.test\n")
            self.file.parent.mkdir()
            self.write(0)
            self.file.chmod(0o600)
            source = f"json:{self.file}#/tokens"
            (tmp_path / "policy.yaml").write_text(json.dumps({
                "network": {"allow_private": [f"127.0.0.1:{port}"]},
                "credentials": [
                    {"name": "agent", "source": f"{source}/access", "hosts": [f"api.ok.test:{port}"], "slot": "bearer",
                     "form": "opaque:at-", "answer": "access_token", "expiry": "ms:/tokens/expires"},
                    {"name": "agent.refresh", "source": f"{source}/refresh", "hosts": [f"auth.ok.test:{port}"],
                     "slot": "body:refresh_token@/oauth/token", "form": "opaque:rt-", "answer": "refresh_token"}]}))
            self.api, self.auth = f"https://api.ok.test:{port}/v1", f"https://auth.ok.test:{port}/oauth/token"

        def write(self, n, **more):
            access, refresh = Endpoint.tokens(n)
            self.file.write_text(json.dumps({"tokens": {"access": access, "refresh": refresh, "expires": 1}, "theme": "dark",
                                             "unknown": {"secret": UNKNOWN}, **more}, indent=2))

        def words(self, script, workspace=None):
            return ["bailey", "run", "--quiet", "--policy", tmp_path / "policy.yaml", "--workspace", workspace or self.work, "--hosts",
                    tmp_path / "hosts", "--ca-bundle", authority.file, "--", "python3", "-c", PREFIX + script]

        def env(self):
            return {"API": self.api, "AUTH": self.auth}

        def words_env(self, script, workspace=None):
            words = self.words(script, workspace)
            at = words.index("--")
            return [*words[:at], "--env", f"API={self.api}", "--env", f"AUTH={self.auth}", *words[at:]]

        def inside(self, script, **more):
            result = run(self.words_env(script), timeout=90, env=self.one_root, **more)
            for real in self.endpoint.everything():
                assert real.encode() not in result.out + result.err, (real, result)
            return result

        def start(self, script, workspace=None):
            return start(self.words_env(script, workspace), env=self.one_root)

        def outside(self):
            return json.loads(self.file.read_text())["tokens"]

    return World()


PREFIX = r'''
import json, os, sys, time, urllib.request, urllib.error, pathlib
auth_file = pathlib.Path.home() / ".agent/auth.json"
def tokens(): return json.loads(auth_file.read_text())["tokens"]
def call(token, url=os.environ["API"]):
    try: return urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": "Bearer " + token})).status
    except urllib.error.HTTPError as e: return e.code
def post(fields, form=False, url=os.environ["AUTH"]):
    data = urllib.parse.urlencode(fields) if form else json.dumps(fields)
    kind = "application/x-www-form-urlencoded" if form else "application/json"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data.encode(), {"Content-Type": kind})) as r: return r.status, r.read().decode()
    except urllib.error.HTTPError as e: return e.code, e.read().decode()
def renew(form=False):
    status, text = post({"grant_type": "refresh_token", "refresh_token": tokens()["refresh"], "client_id": "x"}, form)
    return status, json.loads(text) if status == 200 else text
'''


def test_the_copy_has_stand_ins_and_nothing_else_that_is_secret(world):
    result = world.inside("print(auth_file.read_text()); print(call(tokens()['access']))")
    assert result.status == 0, result
    copy = json.loads(result.text.rsplit("}", 1)[0] + "}")
    assert copy["theme"] == "dark" and copy["unknown"]["secret"] == "" and copy["tokens"]["expires"] == 1
    assert copy["tokens"]["access"].startswith("at-") and copy["tokens"]["refresh"].startswith("rt-")
    assert result.text.rstrip().endswith("200"), "the access token is swapped on its way"
    assert world.inside("print(auth_file.read_text())").text.strip() == result.text.rsplit("\n", 2)[0].strip(), "the same each time"


@pytest.mark.parametrize("form", [False, True])
@pytest.mark.parametrize("coding", ["plain", "chunked", "gzip", "close"])
def test_a_refresh_reaches_the_users_file(world, form, coding):
    def wrap(answer):
        body, headers = json.dumps(answer).encode(), {"Content-Type": "application/json", "Set-Cookie": f"s={answer['access_token']}"}
        if coding == "gzip":
            body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
        if coding == "chunked":
            headers["Transfer-Encoding"] = "chunked"
        if coding == "close":
            headers["Connection"] = "close"
        return 200, headers, body
    world.endpoint.wrap = wrap
    world.file.chmod(0o640)
    before = world.file.stat()
    result = world.inside(f"""
old = tokens()
for i in range(3):
    status, answer = renew({form})
    assert status == 200, (status, answer)
    assert answer["access_token"] == old["access"] and answer["refresh_token"] == old["refresh"], "the stand-ins stay"
    assert answer["expires_in"] == 3600 and answer["account"]["uuid"], answer
    assert call(answer["access_token"]) == 200
print("good")""")
    assert result.text == "good\n", result
    assert world.endpoint.turn == 3
    after = world.outside()
    assert (after["access"], after["refresh"]) == Endpoint.tokens(3)
    assert abs(after["expires"] / 1000 - time.time() - 3600) < 120
    assert json.loads(world.file.read_text())["unknown"]["secret"], "all else in the file stays as it was"
    assert stat.S_IMODE(world.file.stat().st_mode) == 0o640 and world.file.stat().st_uid == before.st_uid
    assert [p.name for p in world.file.parent.iterdir()] == ["auth.json"]
    kinds = {h["content-type"] for f, h, _ in world.endpoint.log if f.startswith("POST")}
    assert kinds == {"application/x-www-form-urlencoded" if form else "application/json"}


@pytest.mark.parametrize("form", [False, True])
def test_two_accounts_at_one_endpoint(world, tmp_path, form):
    """Two agents with accounts at the same provider, both in the sandbox: what is renewed is the account whose token was sent, whichever comes first."""
    policy = json.loads((tmp_path / "policy.yaml").read_text())
    other = world.file.with_name("other.json")
    access, refresh = Endpoint.tokens(9000)
    other.write_text(json.dumps({"tokens": {"access": access, "refresh": refresh, "expires": 1}}))
    other.chmod(0o600)
    before = other.read_bytes()
    beside = [{**row, "name": row["name"].replace("agent", "another"), "source": row["source"].replace("auth.json", "other.json")} for row in policy["credentials"]]
    policy["credentials"] = [*beside, *policy["credentials"]]
    (tmp_path / "policy.yaml").write_text(json.dumps(policy))
    result = world.inside(f"""
old, others = tokens(), json.loads((auth_file.parent / "other.json").read_text())["tokens"]
for turn in range(2):
    status, answer = renew({form})
    assert status == 200 and (answer["access_token"], answer["refresh_token"]) == (old["access"], old["refresh"]), (status, answer)
    assert call(answer["access_token"]) == 200
for fields in [{{"refresh_token": old["refresh"], "also": others["refresh"]}}, {{"refresh_token": others["refresh"], "x": old["refresh"]}}]:
    assert post({{"grant_type": "refresh_token", **fields}}, {form})[0] == 403, fields
assert post({{"grant_type": "refresh_token", "refresh_token": others["refresh"]}}, {form})[0] == 400, "the provider does not know it"
print("good")""")
    assert result.text == "good\n", result
    after = world.outside()
    assert (after["access"], after["refresh"]) == Endpoint.tokens(2) and other.read_bytes() == before
    sent = [body for first, _, body in world.endpoint.log if first.startswith("POST")]
    assert refresh.encode() in sent[-1] and not any(refresh.encode() in body for body in sent[:-1])


def test_a_refresh_token_goes_to_its_endpoint_only(world):
    result = world.inside("""
r = tokens()["refresh"]; a = tokens()["access"]
for fields, url in [({"grant_type": "refresh_token", "x": r}, os.environ["AUTH"]),
                    ({"grant_type": "refresh_token", "refresh_token": r + "x"}, os.environ["AUTH"]),
                    ({"grant_type": "refresh_token", "refresh_token": [r]}, os.environ["AUTH"]),
                    ({"grant_type": "refresh_token", "refresh_token": a}, os.environ["AUTH"]),
                    ({"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "refresh_token": r}, os.environ["AUTH"])]:
    print(post(fields, url=url)[0])
print(call(r), call(r, os.environ["AUTH"].replace("/token", "/other")))
print(post({"refresh_token": r}, url=os.environ["AUTH"] + "/x")[0], post({"refresh_token": r}, url=os.environ["API"])[0])
""")
    lines = result.text.split("\n")
    assert lines[:5] == ["403"] * 5 and lines[5] == "403 403", result
    sent = b"".join(body + str(h).encode() for _, h, body in world.endpoint.log)
    assert world.endpoint.refresh.encode() not in sent and world.endpoint.turn == 0
    assert world.outside()["refresh"] == world.endpoint.refresh


@pytest.mark.parametrize("wrap, says", [
    (lambda a: (200, {}, b"<html>" + json.dumps(a).encode()), "cannot be read"),
    (lambda a: (200, {}, json.dumps(a).encode() + b" " * 300000), "too large"),
    (lambda a: (200, {}, json.dumps({**a, "api_key": "sk-proj-AnotherSecret0123456789abcdef"}).encode()), "looks like a secret"),
    (lambda a: (200, {}, json.dumps({**a, "echo": {"deep": [a["refresh_token"]]}}).encode()), "looks like a secret"),
    (lambda a: (200, {}, json.dumps({**a, a["access_token"]: 1}).encode()), "looks like a secret"),
    (lambda a: (200, {"X-Token": f"a{a['refresh_token']}"}, json.dumps(a).encode()), "looks like a secret"),
    (lambda a: (200, {}, json.dumps({**a, "access_token": "x\nrefresh_token evil-0123456789"}).encode()), "cannot be read"),
    (lambda a: (200, {"Content-Encoding": "gzip"}, b"no gzip at all"), "not compressed"),
    (lambda a: (200, {"Content-Encoding": "strange"}, json.dumps(a).encode()), "cannot be undone"),
])
def test_what_cannot_be_understood_is_held_back(world, wrap, says):
    world.endpoint.wrap = wrap
    result = world.inside("s, t = renew(); print(s); print(t)")
    assert result.text.startswith("502") and says in result.text, result
    assert json.loads(world.file.read_text())["theme"] == "dark"


@pytest.mark.parametrize("path", ["/oauth/token?x=1", "/oauth//token", "/oauth/%74oken", "/./oauth/token", "/oauth/token/", "/OAuth/Token", "/oauth/token;a", "/x/../oauth/./token", "/oauth/token/."])
def test_other_ways_to_write_the_endpoint_give_no_token_away(world, path):
    """Whatever the origin takes for its endpoint: a sign-in there never brings a real token inside."""
    world.endpoint.any_path = True
    result = world.inside(f"""
import subprocess
print(subprocess.run(["curl", "-sS", "--path-as-is", "-d", "grant_type=authorization_code&code=c", os.environ["AUTH"].replace("/oauth/token", "{path}")],
                     capture_output=True, text=True).stdout)""")
    assert world.endpoint.turn == 1 and '"access_token": "at-' in result.text, result


def test_an_error_of_the_endpoint_is_handed_on_and_nothing_changes(world):
    world.endpoint.refresh = "rt-somebody-else-has-renewed-it-0123456789"
    before = world.file.read_bytes()
    result = world.inside("print(*renew())")
    assert result.text.startswith("400") and "invalid_grant" in result.text and world.file.read_bytes() == before


def test_two_sandboxes_and_the_host_renew_in_turn(world, tmp_path):
    """Each refresh token is good once: if two sent the same one, one of them would be told so."""
    world.endpoint.slow = 0.05
    children = []
    for n in range(3):
        (tmp_path / f"ws{n}").mkdir()
        children.append(world.start("for i in range(4): s, a = renew(); assert s == 200, (s, a); assert call(a['access_token']) in (200, 401)\n"
                                    "print('good')", tmp_path / f"ws{n}"))
    for child in children:
        result = child.wait(120)
        assert result.text == "good\n", result
    assert world.endpoint.turn == 12
    after = world.outside()
    assert (after["access"], after["refresh"]) == Endpoint.tokens(12)


def test_a_token_that_the_host_renewed_meanwhile_counts(world):
    child = world.start("""
print(call(tokens()["access"]), flush=True)
while call(tokens()["access"]) == 200: time.sleep(0.05)
while call(tokens()["access"]) != 200: time.sleep(0.05)
s, a = renew(); print(s)""")
    deadline = time.monotonic() + 60
    while b"200" not in child.output():
        assert time.monotonic() < deadline and child.running(), child.errors()
        time.sleep(0.05)
    world.endpoint.turn = 7
    world.endpoint.access, world.endpoint.refresh = Endpoint.tokens(7)
    time.sleep(0.5)
    world.write(7)
    result = child.wait(60)
    assert result.text.split() == ["200", "200"], result
    assert (world.outside()["access"], world.outside()["refresh"]) == Endpoint.tokens(8)


def test_the_host_wins_when_it_wrote_while_ours_was_on_its_way(world):
    """Ours was sent with the old token, the file has another one when the answer comes: that one stays."""
    def wrap(answer):
        access, refresh = Endpoint.tokens(50)
        world.file.write_text(json.dumps({"tokens": {"access": access, "refresh": refresh, "expires": 5}}))
        return 200, {}, json.dumps(answer).encode()
    world.endpoint.wrap = wrap
    assert world.inside("print(renew()[0])").text == "200\n"
    assert (world.outside()["access"], world.outside()["refresh"]) == Endpoint.tokens(50)


def test_killed_at_any_moment_the_file_is_whole_and_never_behind_what_the_agent_saw(world):
    """The agent, or all of Bailey, dies in the middle of a refresh: the file is valid JSON with tokens that belong together, and a
    refresh token that the agent got an answer for is in it."""
    def begin_anew():
        """From the file: what was on its way when all of it died is lost with it."""
        tokens = world.outside()
        turn = int(tokens["refresh"][len("rt-Rea1Refresh"):][:4])
        assert Endpoint.tokens(turn) == (tokens["access"], tokens["refresh"])
        with world.endpoint.lock:
            world.endpoint.turn, world.endpoint.access, world.endpoint.refresh = turn, tokens["access"], tokens["refresh"]
        return turn

    def renewed(child):
        if b"400" in child.output() and b"200" not in child.output():  # it was on its way for longer
            begin_anew()
        return b"200" in child.output()

    chance, seen = random.Random(7), 0
    for _ in range(12):
        child = world.start("print('up', flush=True)\nwhile True:\n s, a = renew()\n print(s, flush=True)\n if s != 200: time.sleep(0.1)")
        wait_until(lambda: renewed(child), what="a renewal")
        time.sleep(chance.random() * 0.05)
        child.signal(signal.SIGKILL)
        child.wait(30)
        turn, answered = begin_anew(), child.output().count(b"200")
        assert turn >= seen + answered, (turn, seen, answered)
        time.sleep(0.1)
        seen = begin_anew()


def test_an_agent_that_goes_away_does_not_lose_the_refresh(world):
    """The client closes before the answer: the tokens are in the file all the same."""
    world.endpoint.slow = 0.5
    result = world.inside("""
import socket, ssl
u = urllib.parse.urlsplit(os.environ["AUTH"])
s = ssl.create_default_context().wrap_socket(socket.create_connection((u.hostname, u.port)), server_hostname=u.hostname)
body = json.dumps({"grant_type": "refresh_token", "refresh_token": tokens()["refresh"]})
s.sendall(f"POST {u.path} HTTP/1.1\\r\\nHost: {u.netloc}\\r\\nContent-Type: application/json\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n{body}".encode())
time.sleep(0.1); s.close(); time.sleep(1.5); print(call(tokens()["access"]))""")
    assert result.text == "200\n", result
    assert world.outside()["refresh"] == Endpoint.tokens(1)[1]


def test_a_vault_that_dies_meanwhile_does_not_lose_the_refresh(world):
    """The answer waits for the next vault, which writes it."""
    world.endpoint.slow = 1.0
    child = world.start("s, a = renew(); print(s, call(a['access_token']))")
    deadline = time.monotonic() + 60
    while not any(first.startswith("POST") for first, _, _ in world.endpoint.log):
        assert time.monotonic() < deadline and child.running(), child.errors()
        time.sleep(0.02)
    vaults = [pid for pid in descendants(child.pid) if name_of(pid).startswith("bailey-vault")]
    assert vaults
    for pid in vaults:
        os.kill(pid, signal.SIGKILL)
    result = child.wait(60)
    assert result.text == "200 200\n", result
    assert world.outside()["refresh"] == Endpoint.tokens(1)[1]


@pytest.mark.root
def test_a_full_disk_does_not_damage_the_file(world):
    """The new tokens cannot be kept in the user's file: it stays whole, the sandbox goes on with them, and the user reads what happened. When
    there is room again, they are kept."""
    place = world.file.parent
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k,mode=700", "tmpfs", place], check=True)
    try:
        world.write(0)
        world.file.chmod(0o600)
        before = world.file.read_bytes()
        with filled(place):
            child = world.start("""
for turn in range(3):
    s, a = renew()
    print(s, a if s != 200 else call(a["access_token"]), flush=True)
    while turn and not os.path.exists("go"): time.sleep(0.05)
""")
            wait_until(lambda: child.output().count(b"\n") == 2, timeout=60, what="two renewals")
            assert world.file.read_bytes() == before and sorted(os.listdir(place)) == ["auth.json", "fill"]
        wait_until(lambda: world.outside()["refresh"] == Endpoint.tokens(2)[1], timeout=60, what="the file")
        (world.work / "go").touch()
        result = child.wait(60)
        assert result.text == "200 200\n" * 3, result
        assert "No space left" in result.errors and "the new tokens count in this run" in result.errors, result
        assert (world.outside()["access"], world.outside()["refresh"]) == Endpoint.tokens(3), result
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_signing_in_from_inside_stays_in_memory(world):
    before = world.file.read_bytes()
    result = world.inside("""
s, text = post({"grant_type": "authorization_code", "code": "c", "client_id": "x"}); a = json.loads(text)
print(s, a["access_token"] == tokens()["access"], call(a["access_token"]))
s, a = renew(); print(s, call(a["access_token"]))""")
    assert result.text == "200 True 200\n200 200\n", result
    assert world.file.read_bytes() == before and "this run only" in result.errors


FORM, JSON = "application/x-www-form-urlencoded", "application/json"


@pytest.mark.parametrize("kind, body, query", [
    (JSON, '{"grant_type": "refresh_token", "refresh_token": "rt-of-another-account-0123456789"}', ""),
    (FORM, "grant_type=refresh_token&refresh_token=rt-of-another-account-0123456789", ""),
    (FORM, "refresh_token=rt-of-another-account-0123456789", ""),
    (FORM, "grant%5Ftype=authorization_code&code=a", ""),
    (FORM, "grant%5Ftype=authorization_code&code=a&refresh_token=FAKE", ""),
    (FORM, "grant_type=authorization_code&code=a&grant_type=refresh_token&refresh_token=FAKE", ""),
    (FORM, "Grant_Type=authorization_code&code=a&grant_type=refresh_token&refresh_token=FAKE", ""),
    (FORM, "refresh_token=rt-of-another-account-0123456789&grant_type=refresh_token&refresh_token=FAKE", ""),
    (FORM, "refresh%5Ftoken=rt-of-another-account-0123456789&grant_type=refresh_token&refresh_token=FAKE", ""),
    (JSON, '{"grant\\u005ftype": "authorization_code", "code": "a", "refresh_token": "FAKE"}', ""),
    (JSON, '{"grant_type": "authorization_code", "code": "a", "grant_type": "refresh_token", "refresh_token": "FAKE"}', ""),
    (JSON, '{"grant_type": ["authorization_code"], "code": "a", "refresh_token": "FAKE"}', ""),
    (FORM, '{"grant_type": "refresh_token", "refresh_token": "FAKE", "x": "&grant_type=authorization_code&code=a&"}', ""),
    ("text/plain", '{"grant_type": "refresh_token", "refresh_token": "FAKE", "x": "&grant_type=authorization_code&code=a&"}', ""),
    (JSON, "grant_type=refresh_token&refresh_token=FAKE", ""),
    (FORM, "grant_type=refresh_token&refresh_token=FAKE", "?grant_type=authorization_code&code=a"),
    (FORM, "grant_type=refresh_token&refresh_token=FAKE", "?refresh_token=rt-of-another-account-0123456789"),
], ids=range(17))
def test_nobody_else_is_signed_in_outside(world, kind, body, query):
    """An endpoint may answer with the tokens of whoever the request is for. Only what its own refresh token brought goes into the file."""
    before = world.file.read_bytes()
    world.endpoint.any_reading = True
    result = world.inside(f"""
data = {body!r}.replace("FAKE", tokens()["refresh"])
try: print(urllib.request.urlopen(urllib.request.Request(os.environ["AUTH"] + {query!r}, data.encode(), {{"Content-Type": {kind!r}}})).status)
except urllib.error.HTTPError as e: print(e.code)""")
    assert result.text.strip() in ("200", "403"), result
    assert world.file.read_bytes() == before
    assert result.text.strip() == "403" or "this run only" in result.errors, result


@pytest.mark.parametrize("form", [False, True])
def test_a_secret_beside_somebody_elses_token_signs_nobody_in(world, tmp_path, form):
    """A client's secret, as gcloud has one, goes with the refresh token, and does not stand for it."""
    policy = json.loads((tmp_path / "policy.yaml").read_text())
    refresh = policy["credentials"][1]
    world.write(0, client={"secret": "GOCSPX-ClientSecretOfThisTest0123456789"})
    policy["credentials"].append({"name": "agent.secret", "source": refresh["source"].replace("/tokens/refresh", "/client/secret"), "hosts": refresh["hosts"],
                                  "slot": "body:client_secret@/oauth/token"})
    (tmp_path / "policy.yaml").write_text(json.dumps(policy))
    before = world.file.read_bytes()
    world.endpoint.any_reading = True
    result = world.inside(f"""
secret = json.loads(auth_file.read_text())["client"]["secret"]
print(post({{"grant_type": "refresh_token", "refresh_token": "rt-of-another-account-0123456789", "client_secret": secret}}, {form})[0])
print(post({{"grant_type": "refresh_token", "client_secret": secret}}, {form})[0])""")
    assert result.text == "403\n403\n" and world.endpoint.turn == 0 and world.file.read_bytes() == before, result
    world.endpoint.any_reading = False
    result = world.inside(f"""
secret = json.loads(auth_file.read_text())["client"]["secret"]
print(post({{"grant_type": "refresh_token", "refresh_token": tokens()["refresh"], "client_secret": secret}}, {form})[0])""")
    assert result.text == "200\n" and world.outside()["refresh"] == Endpoint.tokens(1)[1], result


def test_the_real_tokens_are_nowhere_inside(world):
    result = world.inside(r"""
renew()
import subprocess
found = subprocess.run(["sh", "-c", "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; "
                        "find / -xdev \\( -path /usr -o -path /var/cache \\) -prune -o -type f -size -2000k \\( -path '/root*' -o -path '/home*' -o -path '/tmp*' -o -path '/run*' -o -path '*agent*' \\) -exec cat {} + 2>/dev/null"],
                       capture_output=True).stdout
pathlib.Path("found").write_bytes(found)""", cwd=world.work)
    assert result.status == 0, result
    found = (world.work / "found").read_bytes()
    assert b"auth.json" in found or b"at-" in found
    for secret in [*world.endpoint.everything(), UNKNOWN]:
        assert secret.encode() not in found


def test_a_sign_in_that_is_a_link_stays_one(world, home):
    real = home / "kept.json"
    world.file.rename(real)
    world.file.symlink_to(real)
    assert world.inside("print(renew()[0])").text == "200\n"
    assert world.file.is_symlink() and json.loads(real.read_text())["tokens"]["refresh"] == Endpoint.tokens(1)[1]


@pytest.mark.parametrize("place", [".cache/x/token", "bin/token", ".local/share/token", "work/token"])
def test_a_secret_in_a_directory_that_is_laid_into_the_home_is_hidden(bailey, home, work, place):
    """Programs and caches of the real home are there as they are: a file among them that is a source is closed."""
    (home / place).parent.mkdir(parents=True, exist_ok=True)
    (home / place).write_text("tk-Rea1Token0123456789abcdef")
    (home / ".cache/x").mkdir(parents=True, exist_ok=True)
    (home / ".cache/x/other").write_text("seen")
    policy = home / "own.yaml"
    policy.write_text(json.dumps({"credentials": [{"name": "x", "env": "X", "source": f"file:{home}/{place}", "hosts": ["x.test"], "slot": "bearer"}]}))
    result = bailey("run", "--quiet", "--policy", policy, "--", "sh", "-c", f"cat {home}/{place}; echo $X", cwd=work,
                    env={"PATH": f"{home}/bin:{os.environ['PATH']}"})
    assert "Rea1" not in result.text + result.errors and len(result.text.strip()) == 28, result


def test_two_http_versions(world):
    """curl offers h2; the endpoint's host is spoken to in HTTP/1.1, others as ever."""
    result = world.inside("""
import subprocess
body = json.dumps({"grant_type": "refresh_token", "refresh_token": tokens()["refresh"]})
print(subprocess.run(["curl", "-sS", "--http2", "-o", "/dev/null", "-w", "%{http_code} %{http_version}", "-H", "Content-Type: application/json",
                      "-d", body, os.environ["AUTH"]], capture_output=True, text=True).stdout)""")
    assert result.text == "200 1.1\n", result


FILES = {
    ".claude/.credentials.json": ("claude-sign-in", {"claudeAiOauth": {"accessToken": "sk-ant-oat01-{}", "refreshToken": "sk-ant-ort01-{}", "expiresAt": 5, "subscriptionType": "max"}}),
    ".codex/auth.json": ("codex-sign-in", {"OPENAI_API_KEY": "sk-proj-{}", "tokens": {"access_token": "JWT", "id_token": "JWT", "refresh_token": "rt_{}", "account_id": "11111111-2222-3333-4444-555555555555"}, "last_refresh": "2026-01-01T00:00:00Z"}),
    ".gemini/oauth_creds.json": ("gemini-sign-in", {"access_token": "ya29.{}", "refresh_token": "1//0{}", "id_token": "JWT", "scope": "openid", "token_type": "Bearer", "expiry_date": 5}),
    ".local/share/opencode/auth.json": ("opencode-sign-in", {"anthropic": {"type": "oauth", "access": "sk-ant-oat01-{}", "refresh": "sk-ant-ort01-{}", "expires": 5}, "openai": {"type": "api", "key": "sk-proj-{}"},
                                                              "github-copilot": {"type": "oauth", "refresh": "gho_{}", "access": "gho_{}", "expires": 0}}),
    ".pi/agent/auth.json": ("pi-sign-in", {"anthropic": {"type": "oauth", "access": "sk-ant-oat01-{}", "refresh": "sk-ant-ort01-{}", "expires": 5}, "groq": {"type": "api_key", "key": "gsk_{}"}}),
    ".copilot/config.json": ("copilot-sign-in", {"copilot_tokens": {"https://github.com:me": "gho_{}", "https://github.com:you": "gho_{}"}}),
    ".config/github-copilot/apps.json": ("copilot-apps-sign-in", {"github.com:Iv1.b507a08c87ecfe98": {"user": "me", "oauth_token": "ghu_{}"}}),
    ".config/gh/hosts.yml": ("gh-sign-in", {"github.com": {"users": {"me": {"oauth_token": "gho_{}"}}, "oauth_token": "gho_{}", "user": "me"}}),
    ".config/gcloud/application_default_credentials.json": ("gcloud-sign-in", {"client_id": "x.apps.googleusercontent.com", "client_secret": "d-{}", "refresh_token": "1//0{}", "type": "authorized_user"}),
}


def fill(value, n):
    """Secrets that are each their own; JWTs with claims."""
    import base64
    if isinstance(value, dict):
        return {k: fill(v, n) for k, v in value.items()}
    if isinstance(value, str) and "{}" in value:
        n[0] += 1
        return value.format(f"Rea1Secret{n[0]:03}abcdefghijklmnopqrstuvwxyz0123456789ABCDEF")
    if value == "JWT":
        n[0] += 1
        part = lambda d: base64.urlsafe_b64encode(json.dumps(d).encode()).decode().rstrip("=")
        return ".".join([part({"alg": "RS256"}), part({"email": "person@example.com", "exp": 5, "https://api.openai.com/auth":
                         {"chatgpt_plan_type": "pro", "chatgpt_account_id": "acc"}}), f"Rea1Signature{n[0]:03}abcdefghijklmnopqrstuvwxyz"])
    return value


def strings(value):
    if isinstance(value, dict):
        return [s for v in value.values() for s in strings(v)]
    return [value] if isinstance(value, str) else []


def test_every_row_of_the_table(bailey, home, work):
    """All files are there; a sandbox with all sign-ins finds copies, and no secret of any in a search of all that it can read."""
    n, secrets, words = [0], [], []
    for name, (sign_in, content) in FILES.items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        made = fill(content, n)
        file.write_text(json.dumps(made))
        file.chmod(0o600)
        secrets += [s for s in strings(made) if "Rea1" in s]
        words += ["--credential", sign_in]
    script = "cd ~; for f in {}; do echo; echo \"== $f\"; cat $f; echo; done; env; cat /proc/*/environ | tr '\\0' '\\n'".format(" ".join(FILES))
    result = bailey("run", *words, "--", "sh", "-c", script, cwd=work, timeout=90)
    assert result.status == 0, result
    for secret in secrets:
        assert secret not in result.text + result.errors, secret
        assert secret.split(".")[-1] not in result.text
    for name, (_, content) in FILES.items():
        copy = json.loads(result.text.split(f"== {name}\n")[1].split("\n\n==")[0].split("\nBAILEY")[0].split("\n")[0])
        real = json.loads((home / name).read_text())
        assert json.dumps(copy, sort_keys=True) != json.dumps(real, sort_keys=True)
        assert [type(x) for x in strings(copy)] == [type(x) for x in strings(real)]
        for inside, outside in zip(strings(copy), strings(real)):
            assert (inside == outside) == ("Rea1" not in outside), (name, inside, outside)
            assert not ("Rea1" in outside and inside == ""), (name, outside)
    import base64
    codex = json.loads(result.text.split("== .codex/auth.json\n")[1].split("\n")[0])
    claims = json.loads(base64.urlsafe_b64decode(codex["tokens"]["id_token"].split(".")[1] + "=="))
    assert claims["https://api.openai.com/auth"] == {"chatgpt_plan_type": "pro", "chatgpt_account_id": "acc"}
    assert "email" not in claims and claims["exp"] > 4e9
    listed = bailey("secrets", "list", *words)
    assert listed.status == 0 and all(sign_in in listed.text for sign_in, _ in FILES.values()), listed
    proved = bailey("secrets", "test", "--credential", "codex-sign-in", "codex-sign-in.key", timeout=90)
    assert proved.status == 0, proved
    proved = bailey("secrets", "test", "--credential", "gemini-sign-in", "gemini-sign-in", timeout=90)
    assert proved.status == 0, proved
    proved = bailey("secrets", "test", "--credential", "gemini-sign-in", "gemini-sign-in.refresh", timeout=90)
    assert proved.status == 4 and "token endpoint" in proved.errors, proved


@pytest.mark.parametrize("agent, file", [("claude", ".claude/.credentials.json"), ("codex", ".codex/auth.json"), ("gemini", ".gemini/oauth_creds.json"),
                                         ("opencode", ".local/share/opencode/auth.json"), ("copilot", ".copilot/config.json")])
@pytest.mark.parametrize("degraded", [False, True])
@pytest.mark.rows
def test_profiles_bring_the_sign_in(run, home, work, agent, file, degraded):
    """With and without namespaces: the agent's own copy has stand-ins, and the real file cannot be read by any name."""
    (home / file).parent.mkdir(parents=True)
    (home / file).write_text(json.dumps(fill(FILES[file][1], [0])))
    argv = [program("bailey"), "run", "--quiet", "--profile", agent, *(["--allow-degraded"] if degraded else []), "--",
            "sh", "-c", f"cat ~/{file}; echo; cat {home}/{file} /proc/1/root{home}/{file}"]
    result = run(machine(argv, refuse=NO_NAMESPACES) if degraded else argv, cwd=work, timeout=90)
    assert "Rea1" not in result.text + result.errors, result
    copy = json.loads(result.text.split("\n")[0])
    assert all(strings(copy)), copy
    without = run([program("bailey"), "run", "--quiet", "--", "cat", home / file], cwd=work, timeout=90)
    assert "Rea1" not in without.text, "without the profile there is at most the copy of before"


@pytest.mark.parametrize("variable, directory, file, value", [
    ("CODEX_HOME", "my codex", "auth.json", {"auth_mode": "apikey", "OPENAI_API_KEY": "REAL"}), ("XDG_DATA_HOME", "data", "opencode/auth.json", {"anthropic": {"type": "api", "key": "REAL"}}),
    ("GEMINI_CLI_HOME", "g", ".gemini/oauth_creds.json", {"access_token": "ya29.REAL", "refresh_token": "1//0REAL", "expiry_date": 1999999999999}),
    ("COPILOT_HOME", "c", "config.json", {"copilot_tokens": {"https://github.com:me": "gho_REAL"}})])
def test_a_directory_that_a_variable_moves(bailey, home, work, variable, directory, file, value):
    """The agent inside finds its sign-in and what the profile has for it where it looks; no real value is there."""
    real = "RealTokenOfThisTest0123456789abcdefghijABCDEFGHIJ"
    path = home / directory / file
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(value).replace("REAL", real))
    profiles = [word for name in ("codex", "opencode", "gemini", "copilot") for word in ("--profile", name)]
    result = bailey("run", "--quiet", *profiles, "--", "sh", "-c", f'cat "${variable}/{file}"; echo; [ {variable} != CODEX_HOME ] || cat "$CODEX_HOME/config.toml"', cwd=work,
                    env={variable: str(home / directory)}).check()
    assert json.loads(result.text.splitlines()[0]).keys() == value.keys() and real not in result.text, result
    assert ("danger-full-access" in result.text) == (variable == "CODEX_HOME") and real in path.read_text()
