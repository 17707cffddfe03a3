# SPDX-License-Identifier: Apache-2.0
"""Calls of bridged tools that a person must agree to: the question is the call as it will be run, and an answer reaches as far as it says."""
import contextlib
import json
import re
import signal

import pytest

from kit.chats import SERVICES, TOKEN
from kit.control import Control, sockets, wait_for
from kit.dashboard import Dashboard
from kit.process import SLOW
from test_approvals import Terminal, program

pytestmark = pytest.mark.visible_home

TOOL = """#!/bin/sh
case $1 in
cat) cat;;
*) echo "ran: $*";;
esac
"""
VERBS = ["show <word>?", "make <word> --name=<prose> -f|--force", "cat", "drop all <word>"]


@pytest.fixture
def asks(home, work, start, bailey, closing):
    """A tool, some of whose calls ask, and whoever is asked."""
    class Asks:
        file, audit, tool = home / "policy.yaml", home / "audit.jsonl", home / "outside" / "tool"
        control = None

        def __init__(self):
            self.tool.parent.mkdir()
            self.tool.write_text(TOOL)
            self.tool.chmod(0o755)
            self.write()

        def write(self, timeout=f"{60 * SLOW}s", policy=None, **entry):
            own = {"program": str(self.tool), "verbs": VERBS, "ask": ["make", "drop all", "cat"], **entry}
            self.file.write_text(json.dumps({"network": {"ask_timeout": timeout}, "bridge": {"tool": own}, **(policy or {})}))

        def begin(self, script, *options):
            self.audit.unlink(missing_ok=True)
            self.control = None
            return start(["bailey", "run", "--policy", str(self.file), "--audit", str(self.audit), *options, "--", "bash", "-c", script], cwd=work)

        def connect(self, path):
            """To the run; a tool that runs has a sandbox of its own, which asks nothing. A sandbox has few places for clients."""
            control = None
            with contextlib.suppress(OSError, AssertionError):
                control = Control(path)
                if control("pending")["questions"]:
                    return closing(control)
            if control:
                control.close()
            return None

        def questions(self, number=1):
            """Those that wait, once there are so many; by the words behind the program."""
            def look():
                if not self.control:
                    self.control = next((c for c in map(self.connect, sockets(home)) if c), None)
                found = self.control("pending")["questions"] if self.control else []
                return found if len(found) >= number else None
            found = wait_for(look, f"{number} questions", 60 * SLOW)
            assert all(q["kind"] == "call" and q["call"].startswith(f"{self.tool} ") for q in found), found
            return found

        def answer(self, words, answer, scope):
            """The oldest question about these words."""
            found = next(q for q in self.questions() if q["call"] == f"{self.tool} {words}")
            self.control("answer", question=found["id"], answer=answer, scope=scope)

        @property
        def records(self):
            return [json.loads(line) for line in self.audit.read_text().splitlines()]

        @property
        def calls(self):
            return [r for r in self.records if r.get("kind") == "command"]

        @property
        def notes(self):
            return [r["detail"] for r in self.records if r.get("detail")]
    return Asks()


def test_a_person_reads_what_is_run(asks, bailey, work):
    (work / "deep").mkdir()
    asks.write(workspace="read")
    child = asks.begin("tool show x; cd deep; tool make -f one --name $'it\\'s\\n\u202edone'; echo status $?")
    [question] = asks.questions()
    shown = f"{asks.tool} make --force '--name=it'\\''s\n\u202edone' one"
    assert (question["call"], question["directory"]) == (shown, str(work / "deep"))
    line = bailey("pending").check().text
    escaped = shown.replace("\\", "\\\\").replace("\n", "\\x0a").replace("\u202e", "\\u{202e}")
    assert f"{escaped} (in {work}/deep, for " in line and "\u202e" not in line, line
    name = re.search(r"bailey allow --call (\S+)", line).group(1)
    bailey("allow", "--call", name, "--scope", "once").check()
    done = child.wait(60 * SLOW).check()
    assert done.text == "ran: show x\nran: make --force --name=it's\n\u202edone one\nstatus 0\n", str(done)
    first, second = asks.calls
    assert first["allowed"] and "agreed" not in first["detail"]
    assert second["allowed"] and second["detail"].endswith("(agreed to by control (bailey allow))"), second
    report = json.loads(bailey("report", "--json", "--file", str(asks.audit)).check().text)
    assert [(q["answer"], q["scope"], q["by"]) for q in report["questions"]] == [("allow", "once", "control (bailey allow)")], report["questions"]
    assert bailey("log", "verify", asks.audit).status == 0


def test_an_answer_is_for_the_question_that_was_read(asks, bailey, work):
    """A call that is swapped for another one before somebody answers takes no yes that was meant for the first."""
    child = asks.begin("""tool make one & first=$!; while ! test -e go; do sleep 0.05; done; kill -9 $first
        while ! test -e next; do sleep 0.05; done; tool make --force all & tool make two & wait; echo end""")
    asks.questions()
    name = re.search(r"bailey allow --call (\S+)", bailey("pending").check().text).group(1)
    (work / "go").touch()
    wait_for(lambda: not asks.control("pending")["questions"], "no question", 60 * SLOW)
    (work / "next").touch()
    asks.questions(2)
    late = bailey("allow", "--call", name)
    assert late.status != 0 and "no such question about a call waits" in late.errors, str(late)
    sandbox = name.split("/")[0]
    several = bailey("allow", "--call", sandbox)
    assert several.status != 0 and "2 questions of this kind wait" in several.errors, str(several)
    for word in (f"{sandbox}/0", f"{sandbox}/x", f"{sandbox}/", f"{sandbox}/1/2"):
        assert "the number of a question" in bailey("allow", "--call", word).errors
    two = re.search(r"make two .* --call (\S+)", bailey("pending").check().text).group(1)
    assert bailey("allow", "--call", two).check().text == f"{sandbox}: allowed {asks.tool} make two\n"
    assert bailey("deny", "--call", sandbox).check().text == f"{sandbox}: denied {asks.tool} make --force all\n"
    assert child.wait(60 * SLOW).text == "ran: make two\nend\n"


def test_an_answer_is_for_one_tool(asks):
    """Two tools may be the same program, each with rights of its own: a yes to one is none to the other."""
    own = {"program": str(asks.tool), "verbs": VERBS, "ask": ["make"]}
    asks.write(policy={"bridge": {"test": own, "live": own}})
    child = asks.begin("test=$(command -v test); /run/bailey/bin/test make one; /run/bailey/bin/live make one || echo no; /run/bailey/bin/test make one")
    assert asks.questions()[0]["tool"] == "test"
    asks.answer("make one", "allow", "sandbox")
    wait_for(lambda: asks.questions()[0]["tool"] == "live", "the other tool")
    asks.answer("make one", "deny", "sandbox")
    assert child.wait(60 * SLOW).text == "ran: make one\nno\nran: make one\n"
    details = [r["detail"] for r in asks.calls]
    assert details[0].endswith("(agreed to by control (test))") and details[2].endswith("(agreed to by an earlier answer)"), details


def test_words_do_not_change_what_the_log_says(asks, bailey):
    """However long the escaped words are, the answer stands behind them; and an answer in the words is none."""
    asks.write(timeout="3s")
    child = asks.begin("tool make one --name=\"$(yes '' | head -n 3600; echo x)\"; tool make two --name='x, allow, scope once'")
    [question] = asks.questions()
    asks.control("answer", question=question["id"], answer="deny", scope="once")
    child.wait(60 * SLOW)
    answers = [note for note in asks.notes if note.startswith("answered: ")]
    assert answers[0].endswith(", deny, scope once, by control (test)") and answers[1].endswith(", deny, by timeout"), answers
    report = json.loads(bailey("report", "--json", "--file", str(asks.audit)).check().text)
    assert [q["answer"] for q in report["questions"]] == ["deny", "deny"], report["questions"]


def test_no_runs_nothing(asks, bailey):
    child = asks.begin("tool make one; echo $?")
    asks.questions()
    name = re.search(r"bailey allow --call (\S+)", bailey("pending").text).group(1)
    forget = bailey("deny", "--forget", "--call", name)
    assert forget.status != 0 and "not remembered beyond the run" in forget.errors
    bailey("deny", "--call", name, "--scope", "once").check()
    done = child.wait(60 * SLOW)
    assert done.text == "125\n" and "a person said no" in done.errors, str(done)
    assert [r["allowed"] for r in asks.calls] == [False]
    nothing = bailey("allow", "--call", name)
    assert nothing.status != 0


def test_how_far_an_answer_reaches(asks):
    """once: this call. sandbox: the same words in the same directory, until the run ends. More than that is not remembered."""
    asks.write(workspace="read")
    steps = [("make one", "allow", "once"), ("make one", "allow", "sandbox"), ("make two", "deny", "once"), ("make two", "deny", "sandbox"),
             ("make --force one", "allow", "once"), ("make one", "deny", "once"), ("make three", "allow", "always")]
    child = asks.begin("""
        tool make one; tool make one; tool make one; tool make one
        tool make two || echo no; tool make two || echo no; tool make two || echo no
        tool make one --force
        mkdir sub; cd sub; tool make one || echo no
        tool make three; tool make three
        """)
    for words, answer, scope in steps:
        asks.answer(words, answer, scope)
    done = child.wait(60 * SLOW).check()
    assert done.text.splitlines() == ["ran: make one"] * 4 + ["no"] * 3 + ["ran: make --force one", "no"] + ["ran: make three"] * 2, str(done)
    answers = [note.split(", ", 1)[1] for note in asks.notes if note.startswith("answered: ")]
    assert answers == [f"{answer}, scope {'sandbox' if scope == 'always' else scope}, by control (test)" for _, answer, scope in steps]
    child = asks.begin("tool make three; tool make one")  # another run
    asks.answer("make three", "deny", "once")
    asks.answer("make one", "deny", "once")
    assert child.wait(60 * SLOW).text == ""


def test_an_answer_is_for_those_that_wait_as_well(asks):
    child = asks.begin("tool make one & tool make one & tool make one & tool make two & wait")
    assert sorted(q["call"].split(" ", 1)[1] for q in asks.questions(4)) == ["make one"] * 3 + ["make two"]
    asks.answer("make one", "allow", "once")
    assert len(asks.questions(3)) == 3
    asks.answer("make one", "allow", "sandbox")
    assert [q["call"].split(" ", 1)[1] for q in asks.questions()] == ["make two"]
    asks.answer("make two", "allow", "once")
    assert sorted(child.wait(60 * SLOW).check().text.splitlines()) == ["ran: make one"] * 3 + ["ran: make two"]


def test_nobody_answers(asks):
    asks.write(timeout="1s")
    done = asks.begin("tool make one; echo $?; tool show x").wait(60 * SLOW)
    assert done.text == "125\nran: show x\n" and "nobody answered in time" in done.errors, str(done)
    assert [r["allowed"] for r in asks.calls] == [False, True]
    assert any(note.startswith("answered: ") and note.endswith("deny, by timeout") for note in asks.notes), asks.notes


@pytest.mark.parametrize("how", ["KILL", "INT", "TERM"])
def test_who_goes_leaves_no_question(asks, work, how):
    """The caller ends as a program that had been started, nothing runs, and nobody is asked about it any more."""
    child = asks.begin(f"""python3 -c '
import os, signal, subprocess, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
p = subprocess.Popen(["tool", "make", "one"], preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
while not os.path.exists("go"): time.sleep(0.02)
p.send_signal(signal.SIG{how})
print(p.wait(), flush=True)
while not os.path.exists("end"): time.sleep(0.02)
'""")
    asks.questions()
    (work / "go").touch()
    wait_for(lambda: not asks.control("pending")["questions"], "no question", 60 * SLOW)
    (work / "end").touch()
    done = child.wait(60 * SLOW).check()
    assert done.text == f"-{getattr(signal, 'SIG' + how).value}\n", str(done)
    assert not asks.calls and any(note.startswith("no longer asked: ") for note in asks.notes)


def test_the_run_ends_while_somebody_waits(asks, bailey):
    child = asks.begin("tool make one & disown; while ! test -e end; do sleep 0.05; done")
    asks.questions()
    child.stop()
    assert bailey("pending").check().text == ""


def test_those_that_wait_leave_room_for_others(asks, work):
    child = asks.begin("""for i in 1 2 3 4 5 6 7 8; do tool make w$i & done
        while ! test -e go; do sleep 0.05; done
        tool make w9; echo $?; for i in 1 2 3; do tool show y; done; touch done; wait""")
    asks.questions(8)
    (work / "go").touch()
    wait_for((work / "done").exists, "calls that nobody is asked about", 60 * SLOW)
    for i in range(1, 9):
        asks.answer(f"make w{i}", "deny", "once")
    done = child.wait(60 * SLOW)
    assert done.text == "125\n" + "ran: show y\n" * 3 and "8 calls wait for an answer already" in done.errors, str(done)


def test_its_input_waits_too(asks):
    child = asks.begin("head -c 3000000 /dev/zero | tr '\\0' x | tool cat | wc -c")
    asks.questions()
    asks.answer("cat", "allow", "once")
    assert child.wait(60 * SLOW).check().text.strip() == "3000000"


def test_what_cannot_be_shown_is_not_asked_about(asks):
    done = asks.begin("tool make one --name=$(head -c 5000 /dev/zero | tr '\\0' x); echo $?").wait(60 * SLOW)
    assert done.text == "125\n" and "too long to be shown" in done.errors and [r["allowed"] for r in asks.calls] == [False], str(done)


def test_options_that_make_the_difference(asks):
    asks.write(ask=["make --force"])
    child = asks.begin("tool make one; tool make two -f; tool drop all x")
    asks.answer("make --force two", "allow", "once")
    assert child.wait(60 * SLOW).check().text.splitlines() == ["ran: make one", "ran: make --force two", "ran: drop all x"]
    asks.write(ask=["*"])
    child = asks.begin("tool show x")
    asks.answer("show x", "allow", "once")
    assert child.wait(60 * SLOW).check().text == "ran: show x\n"


def test_a_ratchet_that_closed_meanwhile_holds(asks, work):
    (work / "secret").write_text("s")
    asks.write(policy={"ratchet": [{"when": {"read": ["**/secret"]}, "then": {"allow": ["none"], "say": "a secret was read"}}]})
    child = asks.begin("tool make one & while ! test -e go; do sleep 0.05; done; cat secret; touch read; wait $!; echo $?")
    asks.questions()
    (work / "go").touch()
    wait_for((work / "read").exists, "the ratchet", 60 * SLOW)
    asks.answer("make one", "allow", "sandbox")
    done = child.wait(60 * SLOW)
    assert done.text == "s125\n" and "a ratchet has closed" in done.errors and [r["allowed"] for r in asks.calls if r["path"].startswith("tool")] == [False], str(done)


def test_verbs_know_it(asks, bailey, work):
    options = ["--policy", str(asks.file)]
    for verb in (["bridge", "check", *options, "tool", "make", "one"], ["why", *options, "tool make one"], ["policy", "test", *options, "tool make one"]):
        text = bailey(*verb, cwd=work).check().text
        assert text.startswith("ask: tool make one\n") and f'asked by    ask: "make" ({asks.file}:' in text, text
    assert json.loads(bailey("bridge", "check", "--json", *options, "tool", "make", "one", cwd=work).check().text)["verdict"] == "ask"
    assert json.loads(bailey("bridge", "check", "--json", *options, "tool", "show", cwd=work).check().text)["verdict"] == "run"
    assert re.search(r"ask +make\n +drop all\n", bailey("bridge", "show", *options, "tool", cwd=work).check().text)
    assert "drop all" in bailey("policy", "show", *options, cwd=work).check().text
    planned = bailey("plan", *options, "--", "true", cwd=work).check().text
    assert 'calls of tool that a person must agree to: "make", "drop all", "cat"' in planned, planned
    assert json.loads(bailey("plan", "--json", *options, "--", "true", cwd=work).check().text)["bridge"] == [{"tool": "tool", "ask": ["make", "drop all", "cat"]}]
    assert "--call" in bailey("completion", "bash").check().text


@pytest.mark.parametrize("entry, says", [
    ({"ask": ["fly"]}, r"policy.yaml:\d+:\d+: ask \"fly\" meets no call of the tool 'tool'"),
    ({"ask": ["make --atomic"]}, r"policy.yaml:\d+:\d+: ask \"make --atomic\" meets no call"),
    ({"ask": ["make one two three"]}, "meets no call"),
    ({"ask": ["--force"]}, "name the words of a verb"),
    ({"ask": ["make <word>"]}, "neither a word of a verb nor an option"),
    ({"ask": ["make --force x"]}, "the words of the verb come first"),
    ({"ask": [""]}, "text is expected"),
    ({"ask": ["make", 5]}, r"policy.yaml:\d+:\d+"),
])
def test_bad_entries_are_named(asks, bailey, work, entry, says):
    asks.write(**entry)
    for verb in (["policy", "check", str(asks.file)], ["run", "--policy", str(asks.file), "--", "touch", "ran"]):
        done = bailey(*verb, cwd=work)
        assert done.status not in (0, 1) and re.search(says, done.errors + done.text) and not (work / "ran").exists(), str(done)


def test_on_the_terminal(asks, closing, environment, work):
    argv = [str(program("bailey")), "run", "--ask", "tty", "--policy", str(asks.file), "--", "sh", "-c", "tool make one; tool make one; tool make two; echo end"]
    terminal = closing(Terminal(argv, environment, work))
    shown = terminal.expect(b"run it? once, sandbox or no: ", 60 * SLOW)
    assert f"{asks.tool} make one".encode() in shown and b"\n  in /" in shown, shown
    terminal.type("sandbox\n")
    assert terminal.expect(b"run it? once, sandbox or no: ", 60 * SLOW).count(b"ran: make one") == 2
    terminal.type("no\n")
    assert b"a person said no" in terminal.expect(b"end\r\n", 60 * SLOW)


def test_by_a_hook(asks, home):
    asks.write(policy={"approval": {"command": f"cat >> {home}/told; echo '{{\"answer\": \"allow\", \"scope\": \"once\"}}'"}})
    assert asks.begin("tool make one").wait(60 * SLOW).check().text == "ran: make one\n"
    told = json.loads((home / "told").read_text())
    assert told["question"]["kind"] == "call" and f"calls a tool of this host: {asks.tool} make one (tool tool in /" in told["text"] and "bailey allow --call" in told["text"]


@pytest.mark.parametrize("name", ["generic", "zulip"])
def test_in_a_chat(asks, start, config, closing, name):
    chat = closing(SERVICES[name]())
    config.write_text(json.dumps({"approval": {"chat": {"url": chat.url, "token": "env:CHAT_TOKEN", **chat.settings}}}))
    start(["bailey", "chat"], env={"CHAT_TOKEN": TOKEN})
    wait_for(lambda: chat.requests, "the first request")
    child = asks.begin("tool make one; tool make one; tool make two --name=" + "x" * 900)
    code = wait_for(lambda: chat.code(-1), "the question")
    assert f"run the tool tool on your host: {asks.tool} make one" in chat.posts[-1], chat.posts[-1]
    chat.say(chat.alice, f"/allow {code} sandbox")
    second = wait_for(lambda: chat.code(-1) if chat.code(-1) != code else None, str(chat.posts))
    assert "longer than this" in chat.posts[-1]
    chat.say(chat.alice, f"/deny {second}")
    assert child.wait(60 * SLOW).text == "ran: make one\n" * 2


def test_in_the_dashboard(asks, start):
    ui = Dashboard(start)
    ui.sign_in()
    child = asks.begin("tool make one; tool make one")
    sandbox = wait_for(lambda: [s for s in ui.get("/api/state")["sandboxes"] if s["questions"]], "the question")[0]
    [question] = sandbox["questions"]
    assert question["kind"] == "call" and question["call"] == f"{asks.tool} make one"
    ui.post("/api/act", {"sandbox": sandbox["id"], "do": "answer", "question": question["id"], "answer": "allow", "scope": "sandbox"})
    assert child.wait(60 * SLOW).check().text == "ran: make one\n" * 2
