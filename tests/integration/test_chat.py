# SPDX-License-Identifier: Apache-2.0
"""bailey chat: questions in a chat, and who may answer them. The services are stand-ins (kit/chats.py says from what)."""
import json
import os
import re
import threading
import time

import pytest

from kit.chats import APP_TOKEN, CODE, SERVICES, TOKEN
from kit.control import sockets, wait_for
from kit.tls import Authority
from test_guest_life import guest, rows, top  # noqa: F401

NAMES = ["one.test", "two.test", "three.test"]


@pytest.fixture
def hosts(home):
    """As the shared one, with names of our own."""
    path = home / "hosts"
    path.write_text("".join(f"127.0.0.1 {n}\n" for n in NAMES))
    return path


def write_config(config, chat, **more):
    settings = {"url": chat.url, "token": "env:CHAT_TOKEN", **chat.settings, **more}
    config.write_text(json.dumps({"approval": {"chat": settings}}))


@pytest.fixture
def talk(start, config, closing, home):
    """talk("zulip", key=value...): the stand-in, with bailey chat connected to it."""
    def begin(name="generic", **more):
        chat = closing(SERVICES[name]())
        write_config(config, chat, **more)
        chat.process = start(["bailey", "chat"], env={"CHAT_TOKEN": TOKEN, "CHAT_APP_TOKEN": APP_TOKEN})
        wait_for(lambda: chat.requests or not chat.process.running(), "the first request")
        chat.log = home / ".local/state/bailey/audit/chat.jsonl"
        return chat
    return begin


@pytest.fixture
def held(start, work, hosts, origin):
    """A sandbox that asks for the hosts one after the other; what curl got is its output."""
    def begin(names=NAMES[:1], together=False, timeout="60s", more=()):
        fetch = [f"curl -s -m 90 http://{n}:{origin.port}/ || echo no" for n in names]
        script = " & ".join(fetch) + " & wait" if together else "; ".join(fetch)
        return start(["bailey", "run", "--ask", "control", "--ask-timeout", timeout, "--hosts", str(hosts), "--allow-private", f"127.0.0.1:{origin.port}",
                      *more, "--", "sh", "-c", script], cwd=work)
    return begin


def records(chat):
    if not chat.log.exists():
        return ""
    return "\n".join(r.get("detail", "") for r in map(json.loads, chat.log.read_text().rpartition("\n")[0].splitlines()))


def wait_code(chat, number=-1, other_than=None):
    return wait_for(lambda: chat.code(number) if chat.code(number) != other_than else None, "the question")


@pytest.mark.parametrize("name", SERVICES)
def test_a_question_is_answered(talk, held, bailey, name):
    """Context and code in the question; the answer counts once and is on record under the approver's name; no token is shown."""
    chat = talk(name)
    child = held(NAMES[:2])
    code = wait_code(chat)
    text = chat.posts[-1]
    assert "connect to one.test:" in text and "It runs: sh -c" in text and f"/allow {code} sandbox" in text and "refused in" in text
    if name in ("slack", "telegram"):
        assert f"allow {code} once" in chat.values and f"deny {code} once" in chat.values
        chat.press(chat.alice, f"allow {code} once")
    else:
        chat.say(chat.alice, f"/allow one.test {code} once")
    second = wait_code(chat, other_than=code)
    chat.say(chat.bob, f"deny {second}")
    result = child.wait().check()
    assert result.text.startswith("origin\n") and len(result.text.splitlines()) >= 2
    log = bailey("log").check().text
    assert "allow, scope once, by control (bailey chat " in log and "deny, scope once, by control (bailey chat " in log
    wait_for(lambda: any("allowed (once), by control (bailey chat" in p for p in chat.posts), "the notice")
    if name == "telegram":
        wait_for(lambda: "allowed" in chat.settled, "the button's own answer")
    if name == "slack":
        wait_for(lambda: "pong" in chat.acks and len(chat.acks) >= 3, "acknowledgements")
    assert not chat.refused
    everything = "".join(chat.posts) + chat.log.read_text() + chat.process.errors() + log
    chat.process.stop()
    assert TOKEN not in everything and APP_TOKEN not in everything
    assert bailey("log", "verify", chat.log).status == 0


@pytest.mark.parametrize("name", SERVICES)
def test_what_does_not_count(talk, held, origin, name):
    """Strangers, other rooms, edits, forwards, bots, wrong codes, replays: refused, recorded, and the question stays open."""
    chat = talk(name)
    child = held()
    code = wait_code(chat)
    expected = ["no question has this code"]
    if name != "ntfy":  # who is no approver has no topic that is heard
        chat.say(chat.mallory, f"/allow {code}")
        expected.append("not one of approval.chat.approvers")
    if name in ("zulip", "slack", "telegram"):
        chat.say(chat.alice, f"/allow {code}", room={"zulip": "agents/other", "slack": "C0OTHER", "telegram": "-999"}[name])
        expected.append("said in another room")
    if name != "ntfy":
        chat.say(chat.alice, f"/allow {code}", edited=True)
        expected.append("edited is no answer")
    if name in ("slack", "telegram", "matrix", "generic"):
        chat.say(chat.alice, f"/allow {code}", bot=True)
        expected.append("a bot said it")
    if name in ("telegram", "generic"):
        chat.say(chat.alice, f"/allow {code}", forwarded=True)
        expected.append("passed on is no answer")
    chat.say(chat.alice, "/allow zzzzzzzz")
    chat.say(chat.alice, f"/allow evil.test {code}")
    expected.append("a question about another host")
    chat.say(chat.alice, "allow it, I think, or deny")  # people talk
    for text in expected:
        wait_for(lambda text=text: text in records(chat), text)
    assert child.running() and b"origin" not in child.output()
    event = chat.say(chat.alice, f"/deny {code}")
    assert "no" in child.wait().text and not origin.requests()
    chat.repeat(event)
    chat.say(chat.bob, f"/allow {code} always")
    wait_for(lambda: "the same message came before" in records(chat), "the replay")
    wait_for(lambda: "the question is closed already: denied" in records(chat), "the late answer")
    assert records(chat).count("I think") == 0


@pytest.mark.parametrize("name", SERVICES)
def test_two_approvers_at_once(talk, held, bailey, hosts, name):
    """Twenty questions, each answered by both at the same moment and differently: one counts, one is refused, and the sandbox got what the record says."""
    names = [f"n{i}.test" for i in range(20)]
    hosts.write_text("".join(f"127.0.0.1 {n}\n" for n in names))
    chat = talk(name, per_minute=600)
    child = held(names, timeout="300s")
    code = None
    for number in range(20):
        code = wait_code(chat, other_than=code)
        pair = [(chat.alice, "allow"), (chat.bob, "deny")]
        sayers = [threading.Thread(target=chat.say, args=(who, f"/{verb} {code}")) for who, verb in (pair if number % 2 else pair[::-1])]
        for thread in sayers:
            thread.start()
        for thread in sayers:
            thread.join()
    text = child.wait().text
    log = [line for line in bailey("log").check().text.splitlines() if "answered: " in line]
    for one in names:
        assert sum(f"answered: {one}:" in line for line in log) == 1, one
    allowed = sum("allow, scope once, by control (bailey chat" in line for line in log)
    assert len(log) == 20 and text.count("origin\n") == allowed and allowed + sum("deny, scope once, by control (bailey chat" in line for line in log) == 20
    wait_for(lambda: records(chat).count("the question is closed already") == 20, "the other ones are refused")
    assert not [line for line in records(chat).splitlines() if "counts" in line and "does not" not in line and "nothing" not in line]


def test_away_and_back(talk, held, bailey):
    """The service goes while a question is open and another comes: both are asked when it is back, answers from before the break count
    for what is still open, and nothing is asked for that was answered elsewhere."""
    chat = talk()
    child = held(NAMES, together=True, timeout="300s")
    wait_for(lambda: len([p for p in chat.posts if "Code" in p]) == 3, "three questions")
    codes = {n: wait_for(lambda n=n: next((t.split("Code ")[1][:8] for t in chat.posts if f"connect to {n}" in t), None), n) for n in NAMES}
    chat.down()
    wait_for(lambda: "the chat is away" in records(chat), "the note", 30)
    chat.say(chat.alice, f"/allow {codes['one.test']}")  # said while we cannot hear
    bailey("allow", "two.test").check()  # answered elsewhere
    late = chat.say(chat.bob, f"/deny {codes['two.test']}")
    chat.up()
    wait_for(lambda: "the chat is back after" in records(chat), "the note", 90)
    wait_for(lambda: any(codes["two.test"] in p and "by control (bailey allow)" in p for p in chat.posts), "the notice", 90)
    wait_for(lambda: any(codes["one.test"] in p and "allowed" in p for p in chat.posts), "the answer from before", 90)
    assert "the question is closed already" in records(chat)
    chat.repeat(late)
    chat.say(chat.alice, f"/deny {codes['three.test']}")
    lines = child.wait().text.splitlines()
    assert lines.count("origin") == 2 and len(lines) > 2


@pytest.mark.parametrize("name", SERVICES)
def test_away_for_ten_minutes(talk, held, bailey, name):
    """The service is gone and comes back with what it keeps of ten minutes; the test's service has that clock, so nobody waits for it. What was said meanwhile counts by its
    code where the service still has it, and can be said again where it has not."""
    chat = talk(name)
    child = held(NAMES[:2], timeout="600s")
    code = wait_code(chat)
    chat.down()
    wait_for(lambda: "the chat is away" in records(chat), "the note", 60)
    chat.say(chat.alice, f"/allow {code} once", age=590)
    chat.forget()
    chat.up()
    wait_for(lambda: "the chat is back after" in records(chat), "the note", 120)
    if name in ("zulip", "slack"):  # their queues do not outlive it
        assert child.running() and chat.code() == code
        chat.say(chat.alice, f"/allow {code} once")
    second = wait_code(chat, other_than=code)
    chat.say(chat.bob, f"/allow {code} always", age=590)  # delayed, about what is closed
    wait_for(lambda: "the question is closed already: allowed" in records(chat), "the late one")
    chat.say(chat.bob, f"/deny {second}")
    assert child.wait().text.startswith("origin\n")
    log = bailey("log").check().text
    assert [log.count(f"answered: {n}:") for n in NAMES[:2]] == [1, 1] and "scope always" not in log


@pytest.mark.parametrize("name", SERVICES)
def test_limits_of_the_service(talk, held, bailey, name):
    """429 with Retry-After, replies that get lost, answers out of order, each said twice: every question arrives, every answer counts once."""
    chat = talk(name)
    chat.limited, chat.lost_replies = 2, 1
    child = held(NAMES, together=True, timeout="120s")
    codes = wait_for(lambda: list(dict.fromkeys(c for t in chat.posts for c in CODE.findall(t))) if len({c for t in chat.posts for c in CODE.findall(t)}) == 3 else None, "three questions", 60)
    if name == "matrix":  # knows a repeated request, and shows it once
        assert sum("Code" in t for t in chat.posts) == 3
    said = [chat.say(chat.alice, f"/allow {code}") for code in reversed(codes)]
    assert child.wait().check().text == "origin\n" * 3
    for event in said[::-1]:
        chat.repeat(event)
    wait_for(lambda: records(chat).count("the same message came before") == 3, "the replays", 60)
    log = bailey("log").check().text
    assert [log.count(f"answered: {n}:") for n in NAMES] == [1, 1, 1]


def test_many_questions_come_together(talk, held, home, hosts):
    """Within the limit of messages a minute: one message has the codes of all that wait."""
    names = [f"n{i}.test" for i in range(12)]
    hosts.write_text("".join(f"127.0.0.1 {n}\n" for n in names))
    chat = talk(per_minute=3)
    begin = time.monotonic()
    child = held(names, together=True, timeout="120s")
    wait_for(lambda: any("Several questions wait" in p for p in chat.posts), "them together", 100)
    time.sleep(1)
    minutes = 1 + int((time.monotonic() - begin) // 60)
    assert len(chat.posts) <= 3 * minutes
    child.stop()


def test_wrong_codes_lock_and_orders_are_limited(talk, held):
    chat = talk(per_minute=600)
    child = held()
    code = wait_code(chat)
    for i in range(5):
        chat.say(chat.alice, f"/allow aaaaaaa{i}")
    wait_for(lambda: "nothing of yours counts for ten minutes" in records(chat), "the lock")
    chat.say(chat.alice, f"/allow {code}")
    wait_for(lambda: "quoted too many wrong codes" in records(chat), "it holds")
    for _ in range(35):
        chat.say(chat.bob, "/pending")
    wait_for(lambda: "too many orders within a minute" in records(chat), "the limit")
    assert child.running()
    child.stop()


def test_orders_about_sandboxes(talk, held, home):
    """/ps and /pending tell; /pause and /kill are said twice, the second time with a code that is worth one order. Old ones do not count."""
    chat = talk()
    child = held()
    wait_code(chat)
    chat.say(chat.alice, "/ps")
    chat.say(chat.alice, "/pending")
    chat.say(chat.alice, "/ps", age=600)
    wait_for(lambda: any("1 question is open" in p for p in chat.posts), "the list")
    wait_for(lambda: "it is too old, and has no code" in records(chat), "the stale one")
    sandbox = sockets(home)[0].stem
    assert any(p.startswith(sandbox) for p in chat.posts)
    codes = {}
    for verb in ("pause", "resume", "kill"):
        chat.say(chat.alice, f"/{verb} {sandbox}")
        found = wait_for(lambda verb=verb: [p for p in chat.posts if p.startswith(f"To {verb} ")], verb)[-1]
        codes[verb] = found.rpartition(" ")[2]
    chat.say(chat.alice, f"/kill {sandbox} {codes['pause']}")
    wait_for(lambda: "the code is not for this" in records(chat), "a code for something else")
    assert child.running()
    chat.say(chat.bob, f"/kill {sandbox} {codes['kill']}")
    assert child.wait().status != 0
    wait_for(lambda: f"{sandbox}: kill, by bob" in records(chat), "the record")


def test_orders_about_a_guest(talk, guest, bailey):
    """By its name. The code is for the sandbox that it was then."""
    chat = talk()
    guest("create", "one").check()
    guest("start", "one").check()
    sandbox = rows(guest)["one"]["sandbox"]
    chat.say(chat.alice, "/kill two")
    wait_for(lambda: "that does not count" in str(chat.posts), "nobody has this name")
    chat.say(chat.alice, "/kill one")
    said = wait_for(lambda: [p for p in chat.posts if p.startswith(f"To kill sandbox {sandbox}, the guest one, ")], "the code")[-1]
    assert f"/kill {sandbox} " in said
    chat.say(chat.bob, f"/kill one {said.rpartition(' ')[2]}")
    wait_for(lambda: f"{sandbox}: kill, by bob" in records(chat), "the record")
    wait_for(lambda: rows(guest)["one"]["state"] != "running", "its end")


XSS = ["<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "</textarea><svg/onload=alert(1)>", "\x1b]0;evil\x07\x1b[2J", "‮evil", "``` @**all** <!channel>", "'; alert(1); //"]


HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("name", SERVICES)
def test_hostile_texts(talk, held, bailey, hosts, work, start, origin, name):
    """Names of senders, words of orders and commands of sandboxes are text everywhere: in the room, the record, the terminal. None of it answers anything."""
    chat = talk(name, per_minute=600)
    command = "; ".join(f": '{text}'" for text in XSS if "'" not in text) + f"; curl -s -m 90 http://one.test:{origin.port}/ || echo no"
    child = start(["bailey", "run", "--ask", "control", "--hosts", hosts, "--allow-private", f"127.0.0.1:{origin.port}", "--", "sh", "-c", command], cwd=work)
    code = wait_code(chat)
    if name == "zulip":
        chat.numbers = {**chat.numbers, **{x: 50 + i for i, x in enumerate(XSS)}}
    refusals = 0
    for text in XSS:
        if name != "ntfy":  # a stranger's topic is not heard there
            chat.say(chat.mallory if name == "telegram" else text, f"/allow {code}", name=text)
            refusals += 1
        chat.say(chat.alice, f"/allow {text.replace(' ', '')} {code}")
        refusals += 1
        if refusals % 4 == 0:  # five wrong ones in a row would lock the approver out, which is another test's
            wait_for(lambda: records(chat).count("refused") >= 1, "the refusals")
    wait_for(lambda: records(chat).count("refused:") >= refusals - 2 * (name != "ntfy"), "the refusals")
    shown = bailey("log", chat.log).check().text
    assert not HIDDEN.search(shown.replace("\t", "")), HIDDEN.search(shown)
    assert child.running() and not origin.requests()
    assert any("alert(1)" in post for post in chat.posts), "the command is shown"
    for post in chat.posts:
        assert not HIDDEN.search(post), (name, post)
        if name == "zulip":  # one fence around all of it, and none inside
            assert post.startswith("```text\n") and post.endswith("\n```") and "`" not in post[8:-4]
        if name == "slack":  # three characters are its markup
            assert "<" not in post and ">" not in post
    chat.say(chat.alice, f"/deny {code}")
    assert "no" in child.wait().text and not origin.requests()


@pytest.mark.parametrize("name", ["generic", "slack", "telegram"])
def test_what_is_not_shown_is_not_agreed_to(talk, start, work, bailey, name):
    """A long command shows its beginning. It can be denied there, and allowed where all of it can be read."""
    chat = talk(name)
    hidden = "sudo -n true; : " + "x" * 900 + "; touch ran"
    child = start(["bailey", "exec", "--ask", "control", hidden], cwd=work)
    code = wait_code(chat)
    assert "longer than this" in chat.posts[-1] and "touch ran" not in chat.posts[-1]
    chat.say(chat.alice, f"/allow {code}")
    wait_for(lambda: any("longer than what is shown" in post for post in chat.posts), "the refusal")
    assert child.running() and not (work / "ran").exists()
    chat.say(chat.alice, f"/deny {code}")
    assert child.wait().status == 10 and not (work / "ran").exists()


def test_backquotes_are_no_quotes(talk, start, work):
    """`x` runs and 'x' does not: who reads the question must see which it is."""
    chat = talk()
    child = start(["bailey", "exec", "--ask", "control", "sudo -n echo `touch ran`"], cwd=work)
    code = wait_code(chat)
    assert "sudo -n echo \\x60touch ran\\x60" in chat.posts[-1] and "'touch ran'" not in chat.posts[-1]
    chat.say(chat.alice, f"/deny {code}")
    assert child.wait().status == 10


def test_the_courier_is_confined(talk):
    """It holds no file, cannot execute, and is gone with the chat."""
    chat = talk()
    children = [int(p) for p in open(f"/proc/{chat.process.pid}/task/{chat.process.pid}/children").read().split()]
    names = {open(f"/proc/{p}/cmdline").read().split("\0")[1] or "vault": p for p in children}
    status = open(f"/proc/{names['courier']}/status").read()
    if os.environ.get("BAILEY_KIND") in ("gcc", "clang"):
        assert "Seccomp:\t2" in status
    environment = open(f"/proc/{chat.process.pid}/environ").read()
    assert TOKEN in environment  # the user's own; it is not the courier's
    chat.process.stop()
    for pid in children:
        wait_for(lambda pid=pid: not os.path.exists(f"/proc/{pid}"), "its end")


def test_by_https(start, config, closing, tmp_path, home):
    """TLS is verified: with the root it works, without it nothing is sent."""
    chat = closing(SERVICES["generic"]())
    authority = Authority(tmp_path)
    chat.server.socket = authority.context("127.0.0.1").wrap_socket(chat.server.socket, server_side=True)
    write_config(config, chat, url=f"https://127.0.0.1:{chat.port}")
    environment = {"CHAT_TOKEN": TOKEN}
    refused = start(["bailey", "chat", "--test"], env=environment).wait()
    assert refused.status == 7 and "did not take the message" in refused.errors
    assert not chat.posts
    start(["bailey", "chat", "--test"], env={**environment, "SSL_CERT_FILE": str(authority.file)}).wait().check()
    assert chat.posts == ["Hello from bailey: messages arrive here."]


@pytest.mark.parametrize("change, text", [
    ({"service": "none"}, "no chat is configured"),
    ({"service": "zulipp"}, "zulip"),
    ({"room": None}, "approval.chat.room is missing"),
    ({"token": None}, "approval.chat.token is missing"),
    ({"account": None}, "approval.chat.account is missing"),
    ({"approvers": []}, "approval.chat.approvers is empty"),
    ({"room": "agents"}, "CHANNEL/TOPIC"),
    ({"account": "bot"}, "bot's address"),
    ({"url": "http://chat.example.com"}, "reached by https"),
    ({"url": "ftp://chat.example.com"}, "https://HOST"),
    ({"url": None}, "approval.chat.url is missing"),
    ({"token": "secret-itself"}, "token"),
    ({"service": "slack", "room": "C0"}, "approval.chat.app_token is missing"),
    ({"service": "telegram", "room": "here"}, "the chat's number"),
    ({"service": "telegram", "room": "-1"}, "numbers of users"),
    ({"service": "matrix", "room": "#alias:example.com"}, "the room's id"),
    ({"service": "ntfy", "room": "no blanks please"}, "letters, digits"),
])
def test_configuration(bailey, config, change, text):
    settings = {"url": "https://chat.example.com", "token": "env:CHAT_TOKEN", **SERVICES["zulip"].settings, **change}
    config.write_text(json.dumps({"approval": {"chat": {k: v for k, v in settings.items() if v is not None}}}))
    result = bailey("chat", "--check")
    assert result.status == 3 and text in result.errors and "secret-itself" not in result.errors


def test_a_token_that_is_missing_or_wrong(start, config, closing, bailey, work):
    chat = closing(SERVICES["generic"]())
    write_config(config, chat)
    missing = start(["bailey", "chat", "--test"]).wait()
    assert missing.status == 7 and "CHAT_TOKEN" in missing.errors
    wrong = start(["bailey", "chat", "--test"], env={"CHAT_TOKEN": "another-long-token"}).wait()
    assert wrong.status == 7 and "is the token right" in wrong.errors and "another-long-token" not in wrong.errors
    (work / ".bailey.yaml").write_text("approval: { chat: { approvers: [mallory] } }\n")
    assert bailey("policy", "check", cwd=work).status != 0  # no workspace names an approver
