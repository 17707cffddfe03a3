# SPDX-License-Identifier: Apache-2.0
"""Every kind of question reaches a person on every way: a table of what can be asked, and of who is told. Each kind is answered on another way."""
import http.server
import json
import re
import subprocess
import threading

import pytest

from conftest import program
from kit.chats import SERVICES, TOKEN
from kit.control import wait_for
from kit.dashboard import Dashboard
from kit.forge import Forge
from kit.git import git
from kit.process import SLOW
from kit.sshd import keygen
from test_approvals import Terminal
from test_mcp import HELLO, call

pytestmark = pytest.mark.visible_home
FORGE = "forge.ok.test"
HOOK = "cat >> {told}; for i in $(seq 1200); do test -e {answer} && cat {answer} && exit; sleep 0.05; done"
YES = json.dumps({"answer": "allow", "scope": "once"})


class Webhook(http.server.ThreadingHTTPServer):
    """Notes what it is told; answers when it is to."""
    daemon_threads = True

    def __init__(self):
        self.told, self.yes = [], threading.Event()
        super().__init__(("127.0.0.1", 0), self.Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.yes.set()
        self.shutdown()
        self.server_close()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.server.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.server.yes.wait(60 * SLOW)
            self.send_response(200)
            self.send_header("Content-Length", str(len(YES)))
            self.end_headers()
            self.wfile.write(YES.encode())

        def log_message(self, *words):
            pass


class Asking:
    """What each kind needs: a policy, a command that asks, and what the question is about."""

    def __init__(self, home, work, start, authority, tmp_path, free_port, origin):
        self.home, self.work, self.start, self.authority, self.tmp, self.free_port, self.origin = home, work, start, authority, tmp_path, free_port, origin
        self.hosts, self.env = home / "hosts", {}

    def run(self, script, *options):
        return ["run", "--ask", "tty", "--hosts", str(self.hosts), "--ca-bundle", str(self.authority.file), *options, "--", "bash", "-c", f"for i in $(seq 1200); do test -e go && break; sleep 0.05; done; {{ {script}; }} && echo YES; echo end"]

    def host(self):
        self.hosts.write_text("127.0.0.1 asked.test\n")
        where = f"asked.test:{self.origin.port}"
        return {"network": {"allow_private": [f"127.0.0.1:{self.origin.port}"]}}, self.run(f"curl -sf -m 60 http://{where}/"), "asked.test"

    def repository(self, bridged):
        forge = Forge(self.start, self.authority, self.tmp / "forge", FORGE, self.free_port())
        forge.make("acme/app", self.tmp)
        where = f"{FORGE}:{forge.port}"
        self.hosts.write_text(f"127.0.0.1 {FORGE}\n")
        git("init", "-q", "-b", "main", cwd=self.work, check=True)
        git("commit", "-q", "--allow-empty", "-m", "one", cwd=self.work, check=True)
        policy = {"network": {"allow_private": [where]}, "git": [{"repo": f"{where}/acme/app", "push": ["refs/heads/agent/**"], "ask": "push"}]}
        if bridged:
            policy["bridge"] = {"git": {"repos": [f"{where}/acme/app"]}}
        return policy, self.run(f"git push -q https://{where}/acme/app main:refs/heads/agent/x"), "refs/heads/agent/x"

    def push(self):
        return self.repository(False)

    def bridged_push(self):
        return self.repository(True)

    def signature(self):
        agent, key = self.home / "agent", self.home / "key"
        self.start(["ssh-agent", "-D", "-a", agent])
        wait_for(agent.exists, "ssh-agent")
        keygen(key)
        subprocess.run(["ssh-add", "-q", str(key)], env={"SSH_AUTH_SOCK": str(agent), "PATH": "/usr/bin:/bin"}, check=True, timeout=30, capture_output=True)
        (self.work / "key.pub").write_text((self.home / "key.pub").read_text())
        self.hosts.write_text("127.0.0.1 asked.test\n")
        self.env = {"SSH_AUTH_SOCK": str(agent)}
        return ({"ssh": {"keys": [str(self.home / "key.pub")]}, "signing": {"ssh": True, "ask": True}},
                self.run("echo x > file; ssh-keygen -q -Y sign -n git -f key.pub file 2>/dev/null"), "signature (")

    def page(self):
        browser = self.home / "browser"
        browser.write_text("#!/bin/sh\nexit 0\n")
        browser.chmod(0o755)
        self.hosts.write_text("127.0.0.1 login.test\n")
        return {"browser": {"hosts": ["login.test"], "program": str(browser)}}, self.run("xdg-open https://login.test/asked"), "https://login.test/asked"

    def call(self):
        tool = self.home / "tool"
        tool.write_text("#!/bin/sh\nexit 0\n")
        tool.chmod(0o755)
        self.hosts.write_text("127.0.0.1 asked.test\n")
        return {"bridge": {"tool": {"program": str(tool), "verbs": ["make <word>"], "ask": ["make"]}}}, self.run("tool make asked"), f"{tool} make asked"

    def command(self):
        return {}, ["exec", "--ask", "tty", "sudo -n true; echo YES; echo end"], "sudo -n true; echo YES"

    def access(self):
        wish = self.home / "elsewhere"
        wish.write_text("wished for\n")
        self.hosts.write_text("127.0.0.1 asked.test\n")
        (self.work / "talk").write_text("\n".join(json.dumps(m) for m in (HELLO, call(2, "request_access", path=str(wish), reason="x", timeout_seconds=120))) + "\n")
        return {}, self.run(f"{program('bailey')} mcp < talk > said; grep -q 'wished for' {wish}", "--read", str(program("bailey").parent)), f"read {wish}"

    def opened(self):
        """The open itself asks, and waits."""
        wish = self.home / "docs/one"
        wish.parent.mkdir()
        wish.write_text("wished for\n")
        self.hosts.write_text("127.0.0.1 asked.test\n")
        return {"filesystem": {"ask": [str(wish.parent)]}}, self.run(f"grep -q 'wished for' {wish}"), f"read {wish}"


KINDS = {  # of the protocol, and how it is answered
    "host": ("host", "pending"), "push": ("push", "terminal"), "bridged_push": ("push", "hook"), "signature": ("push", "webhook"),
    "page": ("page", "dashboard"), "call": ("call", "chat"), "command": ("command", "hook"), "access": ("access", "terminal"),
    "opened": ("access", "dashboard"),
}
MORE = [("bridged_push", "terminal"), ("bridged_push", "webhook"), ("bridged_push", "pending"), ("bridged_push", "dashboard"), ("bridged_push", "chat"),
        *(("opened", how) for how in ("terminal", "hook", "webhook", "pending", "chat"))]


@pytest.mark.rows
@pytest.mark.parametrize("name, how", [(name, how) for name, (_, how) in KINDS.items()] + MORE)
def test_every_kind_on_every_way(name, how, home, work, config, start, bailey, closing, environment, authority, tmp_path, free_port, origin):
    kind = KINDS[name][0]
    asking = Asking(home, work, start, authority, tmp_path, free_port, origin)
    policy, argv, about = getattr(asking, name)()
    chat, hook, told, answer = closing(SERVICES["generic"]()), closing(Webhook()), home / "told", home / "answer"
    approval = {"command": HOOK.format(told=told, answer=answer), "webhook": f"http://127.0.0.1:{hook.server_port}/", "chat": {"url": chat.url, "token": "env:CHAT_TOKEN", **chat.settings}}
    config.write_text(json.dumps({**policy, "network": {**policy.get("network", {}), "ask_timeout": "100s"}, "approval": approval}))
    start(["bailey", "chat"], env={"CHAT_TOKEN": TOKEN})
    wait_for(lambda: chat.requests, "the chat")
    ui = Dashboard(start)
    ui.sign_in()
    events = start(["bailey", "events", "-f", "--json"])
    terminal = closing(Terminal([str(program("bailey")), *argv], {**environment, **asking.env}, work))

    def heard_of(name):
        return [e for e in map(json.loads, events.output().decode().splitlines()) if e.get("event") == name]

    if kind != "command":  # that one asks before anything can be followed
        running = wait_for(lambda: json.loads(bailey("ps", "--json").check().text), "the run", 60 * SLOW)[0]["sandbox"]
        wait_for(lambda: bailey("allow", "marker.example", "--sandbox", running).check() and heard_of("rules"), "somebody who follows events", 60 * SLOW)
        (work / "go").touch()

    # who is told
    shown = terminal.expect(b" or no: ", 60 * SLOW).decode(errors="replace")
    assert about in shown, shown
    [pending] = wait_for(lambda: json.loads(bailey("pending", "--json").check().text), "pending")
    assert pending["kind"] == kind and about in json.dumps(pending), pending
    line = bailey("pending").check().text
    said = wait_for(lambda: told.exists() and told.read_text().endswith("\n") and json.loads(told.read_text()), "the hook")
    heard = wait_for(lambda: hook.told, "the webhook")[0]
    for message in (said, heard):
        assert message["question"]["kind"] == kind and about in message["text"] and message["sandbox"] == pending["sandbox"], message
    code = wait_for(lambda: chat.code(-1), "the chat's question")
    assert about in chat.posts[-1], chat.posts
    [sandbox] = wait_for(lambda: [s for s in ui.get("/api/state")["sandboxes"] if s["questions"]], "the dashboard")
    [question] = sandbox["questions"]
    assert sandbox["id"] == pending["sandbox"] and question["kind"] == kind and about in json.dumps(question)
    if kind != "command":
        [event] = wait_for(lambda: heard_of("ask"), "the event")
        assert event["question"]["kind"] == kind, event
    assert (question.get("tool") == "git") is (name == "bridged_push")

    # and whose yes counts
    if how == "terminal":
        terminal.type("once\n")
    elif how == "hook":
        (home / "answer.new").write_text(YES)
        (home / "answer.new").rename(answer)
    elif how == "webhook":
        hook.yes.set()
    elif how == "dashboard":
        ui.post("/api/act", {"sandbox": sandbox["id"], "do": "answer", "question": question["id"], "answer": "allow", "scope": "once"})
    elif how == "chat":
        chat.say(chat.alice, f"/allow {code} once")
    else:
        words = re.search(r"bailey allow (.*)", line).group(1).split()
        bailey("allow", *words, "--scope", "once").check()
    output = terminal.expect(b"end\r\n", 60 * SLOW)
    assert b"YES" in output.replace(b"echo YES", b""), (output, terminal.seen)
    terminal.rest(60 * SLOW)
    assert wait_for(lambda: bailey("pending").check().text == "", "no question left")
    if kind == "command":
        return
    answered = wait_for(lambda: heard_of("answered"), "the answer's event")
    by = {"terminal": "terminal", "hook": "webhook", "webhook": "webhook", "pending": "control (bailey allow)"}
    assert answered[0]["answer"] == "allow" and by.get(how, answered[0]["by"]) == answered[0]["by"], answered
