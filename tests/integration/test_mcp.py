# SPDX-License-Identifier: Apache-2.0
"""bailey mcp: the protocol, its tools outside and inside a sandbox, hostile input, and a person who answers."""
import json
import subprocess
import time

import pytest

from conftest import program
from kit.agents import CACHE, install, node_directory
from kit.control import Control, sockets, wait_for

SDK = CACHE / "node_modules/@modelcontextprotocol/sdk"


def request(number, method, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def call(number, tool, **arguments):
    return request(number, "tools/call", name=tool, arguments=arguments)


HELLO = request(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "1"})
# The tests may lie below /tmp, which is private inside.
INSIDE = ["bailey", "run", "--read", str(program("bailey").parent), "--"]


@pytest.fixture
def talk(run, work):
    """talk(message or text, ...) gives the replies; the server ended well with its input."""
    def say(*messages, before=(), **more):
        lines = [m if isinstance(m, (str, bytes)) else json.dumps(m) for m in messages]
        text = b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines)
        result = run([*(before or ["bailey"]), "mcp"] if not before else [*before, program("bailey"), "mcp"], cwd=work,
                     stdin=text, **more)
        assert result.status == 0, result
        return [json.loads(line) for line in result.text.splitlines()]
    return say


def said(reply):
    """What a tool said: the text is the same as the object."""
    assert json.loads(reply["result"]["content"][0]["text"]) == reply["result"]["structuredContent"]
    return reply["result"]["structuredContent"]


def test_versions_are_negotiated(talk):
    for asked, given in (("2024-11-05", "2024-11-05"), ("2025-03-26", "2025-03-26"), ("2025-11-25", "2025-11-25"),
                         ("1999-01-01", "2025-11-25"), (7, "2025-11-25")):
        reply = talk(request(1, "initialize", protocolVersion=asked, capabilities={}))[0]
        assert reply["result"]["protocolVersion"] == given and reply["result"]["serverInfo"]["name"] == "bailey"


def test_the_last_line_may_end_with_the_input(run, work):
    result = run(["bailey", "mcp"], cwd=work, stdin=json.dumps(HELLO).encode()).check()
    assert json.loads(result.text)["result"]["serverInfo"]["name"] == "bailey"


def test_the_tools_have_schemas(talk):
    hello, listed, pong = talk(HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, request("x", "tools/list"),
                               request(3, "ping"))
    tools = {tool["name"]: tool for tool in listed["result"]["tools"]}
    assert set(tools) == {"run", "check", "why", "request_access"} and listed["id"] == "x"
    for tool in tools.values():
        assert tool["inputSchema"]["type"] == "object" and tool["inputSchema"]["additionalProperties"] is False
    assert pong == {"jsonrpc": "2.0", "id": 3, "result": {}}


def test_outside(talk, work):
    replies = talk(HELLO, call(2, "check", command="git push"), call(3, "why", target="evil.test"),
                   call(4, "run", command="echo hi > made; cat made; exit 3"), call(5, "run", command="rm -rf /"),
                   call(6, "request_access", path="/etc/shadow", reason="x"),
                   call(7, "request_access", command="git push", reason="x"),
                   call(8, "request_access", host="evil.test", reason="x", timeout_seconds=20))
    checked, why, ran, forbidden, path, command, host = map(said, replies[1:])
    assert (checked["decision"], checked["rule"]) == ("escalated", "git-remote")
    assert why["allowed"] is False and "--allow" in why["change"]
    assert (ran["outcome"], ran["exit_code"], ran["stdout"], ran["sandboxed"]) == ("ended", 3, "hi\n", True)
    assert (work / "made").read_text() == "hi\n" and replies[3]["result"]["isError"] is True
    assert forbidden["outcome"] != "ended" and forbidden["rule"] == "delete-root"
    assert path["outcome"] == "refused" and path["asked"] == "read /etc/shadow"
    assert command["outcome"] == "refused" and command["asked"] == "run git push"
    assert host["outcome"] == "refused" and "policy refused" in host["gateway"]


def test_what_the_server_is_started_with_holds_for_every_tool(run, work, home):
    """A stricter policy by its options is also the one of what it runs and asks; and the reason of a denial is told."""
    (home / "own.yaml").write_text('network: {deny: [{host: evil.test, reason: "use the mirror"}]}\n')
    (work / ".bailey.yaml").write_text("network: {allow: [evil.test]}\n")
    text = "".join(json.dumps(m) + "\n" for m in (HELLO, call(2, "run", command="touch made; curl -s http://evil.test/"), call(3, "why", target="evil.test"),
                                                  call(4, "request_access", host="evil.test", reason="x", timeout_seconds=20)))
    result = run(["bailey", "mcp", "--policy", str(home / "own.yaml"), "-m", "workspace-write-whitelist", "--no-workspace-policy"], cwd=work, stdin=text.encode()).check()
    ran, why, asked = (said(json.loads(line)) for line in result.text.splitlines()[1:])
    assert "use the mirror" in ran["stdout"] and why["because"] == "use the mirror" and "use the mirror" in asked["gateway"], (ran, why, asked)
    (work / "made").unlink()
    (work / ".bailey.yaml").unlink()
    text = "".join(json.dumps(m) + "\n" for m in (HELLO, call(2, "run", command="touch made")))
    ran = said(json.loads(run(["bailey", "mcp", "-m", "read-only"], cwd=work, stdin=text.encode()).check().text.splitlines()[1]))
    assert ran["exit_code"] != 0 and not (work / "made").exists()


@pytest.mark.parametrize("message, code", [
    ("{", -32700), ("\"x\"", -32700), ("[]", -32600), ("[{}]", -32600), ("{}", -32600), ('{"jsonrpc": "2.0", "id": 1}', -32600),
    ('{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600), ('{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600),
    ('{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600), ('{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600),
    ('{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}', -32700), (request(1, "nothing"), -32601),
    (request(1, "tools/call"), -32602), (request(1, "tools/call", name="nothing"), -32602),
    (request(1, "tools/call", name="check", arguments=[]), -32602), (call(1, "check"), -32602), (call(1, "check", command=3), -32602),
    (call(1, "check", command="ls", more=1), -32602), (call(1, "check", command="a\0b"), -32700),
    (call(1, "run", command="ls", timeout_seconds=0), -32602), (call(1, "request_access", host="a.test"), -32602),
    (call(1, "request_access", host="a.test", path="/x", reason="x"), -32602),
    (call(1, "request_access", host="a.test\r\nX: y", reason="x"), -32602),
    (call(1, "request_access", host="http://a.test", reason="x"), -32602), (b"\xff\xfe{}", -32700), ("[" * 200000, -32700),
    ("x" * (3 << 20), -32700),
], ids=range(27))
def test_bad_messages_get_an_error_and_the_next_is_answered(talk, message, code):
    replies = talk(HELLO, message, request(9, "ping"))
    assert replies[1]["error"]["code"] == code and replies[1]["error"]["message"], replies
    assert replies[2] == {"jsonrpc": "2.0", "id": 9, "result": {}}


def test_nothing_is_said_to_notifications_and_replies(talk):
    assert talk({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
                {"jsonrpc": "2.0", "id": 5, "result": {}}, "", "  ", {"jsonrpc": "2.0", "method": "tools/call"}) == []


def test_initialize_comes_first(talk):
    refused, pong = talk(call(1, "run", command="touch made"), request(2, "ping"))
    assert refused["error"]["code"] == -32600 and "result" in pong


def test_inside_it_may_only_ask(talk):
    began = time.monotonic()
    replies = talk(HELLO, call(2, "run", command="echo hi"), call(3, "check", command="rm -rf /"), call(4, "why", target="/etc/shadow"),
                   call(5, "request_access", host="evil.test", reason="x", timeout_seconds=600), before=INSIDE)
    assert time.monotonic() - began < 300  # a refusal is told when it comes, not when the time is over
    ran, checked, why, host = map(said, replies[1:])
    assert ran["outcome"] == "inside" and checked["decision"] == "forbidden"
    assert why["readable_here"] is False
    assert host["outcome"] == "refused" and "policy refused evil.test:443" in host["gateway"]


@pytest.fixture
def asking(start, work, home, hosts, origin, closing):
    """A server inside a sandbox that asks by control, and the connection of a person to its socket."""
    def begin(*messages):
        text = "".join(json.dumps(m) + "\n" for m in messages).encode()
        child = start([*INSIDE[:-1], "--ask", "control", "--hosts", str(hosts), "--allow-private", f"127.0.0.1:{origin.port}", "--",
                       program("bailey"), "mcp"], cwd=work, stdin=text)
        path = wait_for(lambda: sockets(home) or not child.running(), "the control socket")[0]
        child.control = closing(Control(path))
        return child
    return begin


@pytest.mark.parametrize("answer, outcome", [("allow", "allowed"), ("deny", "refused")])
def test_a_person_answers(asking, origin, answer, outcome):
    target = f"origin.test:{origin.port}"
    child = asking(HELLO, call(2, "request_access", host=target, reason="the tests need it", timeout_seconds=600))
    asked = wait_for(lambda: child.control("pending")["questions"], "the question")[0]
    assert (asked["kind"], asked["host"], asked["port"]) == ("host", "origin.test", origin.port)
    child.control("answer", question=asked["id"], answer=answer, scope="sandbox")
    reply = json.loads(child.wait().check().text.splitlines()[1])
    assert said(reply)["outcome"] == outcome and reply["result"]["isError"] is (answer == "deny")


def wanted(control):
    return wait_for(lambda: control("pending")["questions"], "the question")[0]


@pytest.mark.parametrize("answer, outcome", [("allow", "allowed"), ("deny", "refused")])
@pytest.mark.parametrize("arguments, access", [({"path": "/srv/x"}, "read /srv/x"), ({"path": "/srv/x y", "access": "write"}, "write /srv/x y"),
                                               ({"command": "git push origin main"}, "run git push origin main")], ids=["read", "write", "command"])
def test_a_person_answers_about_a_path_or_a_command(asking, bailey, home, arguments, access, answer, outcome):
    """Who answers reads what is asked for and the agent's reason; the agent gets the answer, and what becomes of it."""
    child = asking(HELLO, call(2, "request_access", reason="the \"tests\"\x1b[31m need it", timeout_seconds=60, **arguments))
    asked = wanted(child.control)
    assert (asked["kind"], asked["access"]) == ("access", access) and "need it" in asked["reason"] and "\x1b" not in asked["reason"]
    shown = bailey("pending").check().text
    assert access in shown and "need it" in shown and "bailey allow --access" in shown and "\x1b" not in shown
    sandbox = shown.split()[0]
    bailey(answer, "--access", sandbox).check()
    result = child.wait().check()
    reply = json.loads(result.text.splitlines()[1])
    assert said(reply)["outcome"] == outcome and reply["result"]["isError"] is (answer == "deny"), reply
    if answer == "allow" and "path" in arguments:
        assert "the next run has it" in said(reply)["text"] and "stays closed" in said(reply)["text"]
    assert "access.bailey.invalid" not in result.errors


@pytest.fixture
def outside(home):
    """A file that no sandbox of this workspace sees by itself."""
    (home / "elsewhere").mkdir()
    (home / "elsewhere/notes").write_text("notes\n")
    return home / "elsewhere/notes"


@pytest.mark.parametrize("scope, kept", [((), True), (("--scope", "always"), True), (("--scope", "sandbox"), False), (("--scope", "once"), False)],
                         ids=["default", "always", "sandbox", "once"])
def test_a_path_that_was_agreed_to_is_there_in_the_next_run(asking, bailey, work, outside, scope, kept):
    """And in this one: it is opened while the agent waits. It is taken back as it was asked for."""
    wish = {"path": str(outside), "reason": "x", "timeout_seconds": 60}
    child = asking(HELLO, call(2, "request_access", **wish), call(3, "why", target=str(outside)))
    wanted(child.control)
    bailey("allow", "--access", *scope, bailey("pending").check().text.split()[0]).check()
    asked, why = (said(json.loads(line)) for line in child.wait().check().text.splitlines()[1:])
    assert asked["outcome"] == "allowed" and why["readable_here"] is True
    assert "the path is open" in asked["text"] and ("in later runs too" in asked["text"]) is kept
    look = ["run", "--", "cat", str(outside)]
    assert (bailey(*look, cwd=work).text == "notes\n") is kept
    shown = bailey("policy", "show", cwd=work).check().text
    assert (f"{outside} # approved 20" in shown) is kept, shown
    forgotten = bailey("allow", "--forget", "--access", f"read {outside}", cwd=work)
    assert (forgotten.status == 0) is kept
    assert "notes" not in bailey(*look, cwd=work).text


@pytest.mark.parametrize("path", ["/", "~", "~/..", "/srv/a%20b", "/srv/*"])
def test_what_no_launch_could_use_is_not_remembered(start, bailey, work, home, closing, path):
    wants = "write " + str((home / path.removeprefix("~/")).resolve() if path != "~" and path.startswith("~") else home if path == "~" else path)
    child = start([*INSIDE[:-1], "--ask", "control", "--", program("bailey"), "mcp", "--want", wants], cwd=work)
    control = closing(Control(wait_for(lambda: sockets(home) or not child.running(), "the control socket")[0]))
    assert wanted(control)["access"] == wants
    answer = bailey("allow", "--access", bailey("pending").check().text.split()[0])
    assert answer.status != 0 and "not remembered" in answer.errors, answer
    child.wait().check()
    assert "approved 20" not in bailey("policy", "show", cwd=work).check().text
    bailey("run", "--", "true", cwd=work).check()


HOOK = """import json, subprocess, sys
def hook(command):
    question = json.dumps({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": command}, "cwd": "."})
    said = subprocess.run([sys.argv[1], "hook", sys.argv[2]], input=question, stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(said)["hookSpecificOutput"]["permissionDecision"] if said else "none"
def ask(command):
    return subprocess.run([sys.argv[1], "mcp", "--want", "run " + command, "--reason", "x", "--wait", "60"], stdout=subprocess.DEVNULL).returncode
before = hook("git push origin main")
asked = ask("git push origin main")
print(before, asked, hook("git push origin main"), hook("git push origin other"), hook("git push origin main; git push x"), hook("rm -rf /"))
again = ask("git push origin main")  # nobody is asked twice
lists = hook(["bash", "-lc", "git push origin main"])
print(again, lists)
"""


@pytest.mark.parametrize("agent, no, yes", [("claude", "ask", "allow"), ("codex", "deny", "none")])
def test_a_command_that_was_agreed_to_passes_from_then_on(start, bailey, work, home, closing, agent, no, yes):
    """The agent's hook, which held it up, lets this very command pass: in this sandbox, in later ones, and outside."""
    (work / "hook.py").write_text(HOOK)
    command = [*INSIDE[:-1], "--ask", "control", "--", "python3", "hook.py", program("bailey"), agent]
    child = start(command, cwd=work)
    control = closing(Control(wait_for(lambda: sockets(home) or not child.running(), "the control socket")[0]))
    wanted(control)
    bailey("allow", "--access", bailey("pending").check().text.split()[0]).check()
    assert child.wait().check().text.split("\n")[:2] == [f"{no} 0 {yes} {no} {no} deny", f"0 {yes}"]
    later = [*INSIDE, "python3", "hook.py", program("bailey"), agent]  # without --ask: what is remembered counts, nobody is asked
    assert start(later, cwd=work).wait().check().text.startswith(f"{yes} 0 {yes} {no}")
    question = json.dumps({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "git push origin main"}})
    assert ("allow" in bailey("hook", agent, cwd=work, stdin=question.encode()).text) is (yes == "allow")
    bailey("allow", "--forget", "--command", "git push origin main", cwd=work).check()
    assert start(later, cwd=work).wait().check().text.startswith(f"{no} 1 {no}")


def test_a_yes_for_once_counts_in_this_sandbox_alone(start, bailey, work, home, closing):
    (work / "hook.py").write_text(HOOK)
    child = start([*INSIDE[:-1], "--ask", "control", "--", "python3", "hook.py", program("bailey"), "claude"], cwd=work)
    control = closing(Control(wait_for(lambda: sockets(home) or not child.running(), "the control socket")[0]))
    asked = wanted(control)
    control("answer", question=asked["id"], answer="allow", scope="once")
    assert child.wait().check().text.startswith("ask 0 allow ask")
    assert start([*INSIDE, "python3", "hook.py", program("bailey"), "claude"], cwd=work).wait().check().text.startswith("ask 1 ask")


def test_outside_run_runs_what_was_agreed_to(start, bailey, work, home, closing):
    """The question has a sandbox of its own, which is gone when the command runs."""
    (work / ".bailey.yaml").write_text("network: {ask: control}\n")
    bailey("trust", cwd=work).check()
    text = "".join(json.dumps(m) + "\n" for m in (HELLO, call(2, "request_access", command="git push", reason="x", timeout_seconds=60),
                                                  call(3, "run", command="git push"), call(4, "request_access", command="git push", reason="x")))
    child = start(["bailey", "mcp"], cwd=work, stdin=text.encode())
    control = closing(Control(wait_for(lambda: sockets(home) or not child.running(), "the control socket")[0]))
    asked = wanted(control)
    control("answer", question=asked["id"], answer="allow", scope="once")
    agreed, ran, again = (said(json.loads(line)) for line in child.wait().check().text.splitlines()[1:])
    assert agreed["outcome"] == again["outcome"] == "allowed" and ran["outcome"] == "ended" and ran["exit_code"] != 0, ran


def test_the_reason_of_a_host_is_shown(asking, origin, bailey):
    child = asking(HELLO, call(2, "request_access", host=f"origin.test:{origin.port}", reason="for the docs", timeout_seconds=60))
    asked = wanted(child.control)
    assert (asked["kind"], asked["reason"]) == ("host", "for the docs")
    shown = bailey("pending").check().text
    assert "for the docs" in shown and f"bailey allow origin.test:{origin.port}" in shown
    child.control("answer", question=asked["id"], answer="allow", scope="sandbox")
    assert said(json.loads(child.wait().check().text.splitlines()[1]))["outcome"] == "allowed"


def test_what_cannot_be_shown_whole_is_not_asked(talk):
    replies = talk(HELLO, call(2, "request_access", path="/srv/" + "x" * 300, reason="x"), call(3, "request_access", command="git push " + "y" * 300, reason="x"),
                   call(4, "request_access", path="/srv/x", reason="x" * 3000, timeout_seconds=5), before=INSIDE)
    long_path, long_command, no_one = map(said, replies[1:])
    assert long_path["outcome"] == "failed" and "nobody is asked" in long_path["text"] and long_command["outcome"] == "failed"
    assert no_one["outcome"] == "refused"


HEADERS = ["", "bailey-ask: wants 5 read /etc/shadow x", "bailey-ask: because x", "bailey-ask: wants 9999999 read /x", "bailey-ask: wants 7 eval /x",
           "bailey-ask: wants 0 ", "bailey-ask: wants -1 read /x", "bailey-ask: wants 7 read /\xe4", "bailey-ask: " + "x" * 300,
           "bailey-ask: agreed 7 eval /x", "bailey-ask: agreed 6 read /", "bailey-ask: agreed 99 read /x", "bailey-ask: agreed"]


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_questions_by_hand_are_not_asked(start, work, home, hosts, closing, header):
    """The name is nobody's: without a question in the one form there is nothing to ask."""
    script = f"""import os, socket, sys
s = socket.create_connection(("127.0.0.1", int(os.environ["HTTPS_PROXY"].rsplit(":", 1)[1])))
head = {header!r}
s.sendall(("CONNECT access.bailey.invalid:443 HTTP/1.1\\r\\nHost: access.bailey.invalid:443\\r\\n" + (head + "\\r\\n" if head else "") + "\\r\\n").encode("latin-1"))
s.settimeout(20); print(s.recv(100).split()[1].decode())"""
    (work / "ask.py").write_text(script)
    result = start(["bailey", "run", "--ask", "control", "--", "python3", "ask.py"], cwd=work).wait().check()
    assert result.text in ("400\n", "403\n"), result


def test_nobody_answers(asking, origin):
    began = time.monotonic()
    child = asking(HELLO, call(2, "request_access", host=f"origin.test:{origin.port}", reason="x", timeout_seconds=2), request(3, "ping"))
    lines = child.wait().check().text.splitlines()
    assert said(json.loads(lines[1]))["outcome"] == "unanswered" and json.loads(lines[2])["id"] == 3
    assert time.monotonic() - began < 60


def test_with_a_client_of_the_sdk(environment, work):
    install(SDK, "@modelcontextprotocol/sdk")
    if not SDK.exists() or not node_directory():
        pytest.skip("the SDK of the Model Context Protocol is not there, and npm cannot be reached")
    (work / "client.mjs").write_text(f'''
import {{ Client }} from "{SDK}/dist/esm/client/index.js";
import {{ StdioClientTransport }} from "{SDK}/dist/esm/client/stdio.js";
const client = new Client({{ name: "test", version: "1" }});
await client.connect(new StdioClientTransport({{ command: "{program("bailey")}", args: ["mcp"], env: process.env, cwd: "{work}" }}));
const tools = (await client.listTools()).tools.map(tool => tool.name);
const checked = await client.callTool({{ name: "check", arguments: {{ command: "git push" }} }});
const ran = await client.callTool({{ name: "run", arguments: {{ command: "echo hi" }} }});
await client.ping();
console.log(JSON.stringify([tools, checked.structuredContent.rule, ran.structuredContent.stdout, client.getServerVersion().name]));
await client.close();
''')
    result = subprocess.run([node_directory() / "node", work / "client.mjs"], env=environment, cwd=work, timeout=120, check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == [["run", "check", "why", "request_access"], "git-remote", "hi\n", "bailey"]
