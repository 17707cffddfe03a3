# SPDX-License-Identifier: Apache-2.0
"""libbailey from outside, as whoever runs the tests: the C programs of tests/api, the examples, the Python and Node bindings."""
import errno
import json
import pathlib
import re
import shutil

import pytest

from conftest import BUILD, program
from kit.machine import deny, machine

pytestmark = pytest.mark.visible_home

TOP = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = BUILD / "src/api/libbailey.so.0"
# Every namespace that the first clone asks for, and SIGCHLD. Where clone3 is not there, the C library takes the other.
NO_NAMESPACES = [deny("clone3", errno.ENOSYS), deny("clone", errno.EPERM, 0x3E020011)]


@pytest.mark.parametrize("name", ["flows", "parts"])
def test_c_programs(run, work, name):
    result = run([BUILD / f"tests/api/api-{name}"], cwd=work, timeout=300, env={"BAILEY_TEST_EXECUTABLE": str(program("bailey"))})
    assert result.status == 0, result.text + result.errors


def test_example_exec(run, work):
    example = BUILD / "examples/example-exec"
    result = run([example, "echo out; echo err >&2; exit 3"], cwd=work)
    assert (result.status, result.text, result.errors) == (3, "out\n", "err\n")
    result = run([example, "rm -rf /"], cwd=work)
    assert result.status == 1 and result.errors.startswith("forbidden-command: ")


def test_example_filter(run):
    result = run([BUILD / "examples/example-filter", "*.ok.test"], stdin=b"a.ok.test 443\nok.test 443\n").check()
    assert result.text == "a.ok.test 443: allowed (allowed)\nok.test 443: refused (not-allowed)\n"


def python(run, work, script, refuse=None):
    """Runs a script with the binding; its standard output."""
    env = {"PYTHONPATH": str(TOP / "bindings/python"), "BAILEY_LIBRARY": str(LIBRARY), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = ["/usr/bin/python3", "-c", script]
    result = run(machine(argv, refuse=refuse) if refuse else argv, cwd=work, env=env, timeout=120)
    assert result.status == 0, result.errors
    return result.text


needs_plain_library = pytest.mark.exact_build  # a sanitizer's library cannot be loaded into an ordinary interpreter


@needs_plain_library
def test_homes_of_the_presets(run, work, home):
    """default and ci have a home of their own; development keeps the real one, with its secrets hidden."""
    (home / "notes").write_text("real\n")
    (home / ".netrc").write_text("REAL-SECRET\n")
    (home / ".claude").mkdir()
    (home / ".claude/.credentials.json").write_text("REAL-SECRET\n")
    script = """
import bailey
for preset in ("default", "ci", "development"):
    r = bailey.Manager(bailey.Config(preset).on_approval(lambda q: bailey.APPROVE)).exec("cat ~/notes ~/.netrc; echo kept >> ~/kept && cat ~/kept")
    print(preset, r.stdout.decode().split() if isinstance(r.stdout, bytes) else r.stdout.split())
r = bailey.Manager(bailey.Config().set("filesystem.home", "none").on_approval(lambda q: bailey.APPROVE)).exec("cat ~/kept ~/.claude/.credentials.json")
print("none", r.stdout)
"""
    text = python(run, work, script)
    lines = text.splitlines()
    assert lines[0] == "default ['kept']" and lines[1] == "ci ['kept', 'kept']" and lines[2] == "development ['real']", text
    assert "REAL-SECRET" not in text and not (home / "kept").exists()


@needs_plain_library
def test_python_binding(run, work):
    assert python(run, work, """
import bailey, os, subprocess, threading

asked = []
def approve(question):
    asked.append(question.rule)
    return bailey.APPROVE_SESSION if "twice" in question.command else bailey.DENY

config = bailey.Config("default").on_approval(approve)
with bailey.Manager(config) as m:
    r = m.exec("echo out; echo err >&2; exit 3")
    assert (r.exit_code, r.stdout, r.stderr, r.sandboxed, r.signal) == (3, b"out\\n", b"err\\n", True, 0)
    assert m.exec_args(["echo", "$HOME", b"\\xff"]).stdout == b"$HOME \\xff\\n"
    assert m.exec("pwd", directory="/usr").stdout == b"/usr\\n"
    assert m.exec("echo $A", settings={"process.env.set": "A=1"}).stdout == b"1\\n"
    assert m.check("ls").decision == "allow" and m.check(["rm", "-rf", "/"]).rule == "delete-root"
    for cut in lambda: m.exec("ls\\0 -l"), lambda: m.exec_args(["ls", "a\\0b"]), lambda: bailey.Config().policy("mode: read-only\\0"):
        try:
            cut()
            assert False, "a text that C cuts off"
        except bailey.ArgumentError as e:
            assert e.code == -2 and "NUL" in str(e)
    try:
        m.exec("rm -rf /")
    except bailey.ForbiddenCommand as e:
        assert e.rule == "delete-root" and e.reason and e.name == "forbidden-command"
    try:
        m.exec("sudo ls")
    except bailey.EscalatedCommand as e:
        assert e.rule == "elevate"
    for _ in range(2):
        m.exec("sudo -n twice")
    assert asked == ["elevate", "elevate"], asked
    try:
        m.exec("echo so far; exec sleep 60", timeout=2)
    except bailey.Timeout as e:
        assert e.result.stdout == b"so far\\n" and e.result.exit_code == -1
    else:
        assert False
    cancel = bailey.Cancel()
    threading.Timer(0.2, cancel.trigger).start()
    try:
        m.exec("sleep 60", cancel=cancel)
    except bailey.Cancelled:
        pass
    argv, env = m.wrap(["/bin/sh", "-c", "echo $SANDBOX_RUNTIME"])
    assert subprocess.run(argv, env=env, stdout=subprocess.PIPE).stdout == b"1\\n"
    broken = bailey.Config().policy("network: { alow: [] }")
    try:
        m.update(broken)
    except bailey.ConfigError as e:
        assert "alow" in str(e)
    config.set("process.env.set", "STAGE=two")
    m.update(config)
    assert m.exec("echo $STAGE").stdout == b"two\\n"
try:
    m.exec("true")
except bailey.ManagerClosed:
    print("closed")
f = bailey.Filter(allow=["*.ok.test"], deny=["bad.ok.test"], on_request=lambda host, port: port == 1)
assert f.test("a.ok.test", 80) == (True, "allowed", "*.ok.test") and not f.test("bad.ok.test", 80)[0]
assert f.test("new.test", 1)[0] and not f.test("new.test", 2)[0]
f.update(allow=["new.test"])
assert f.test("new.test", 2)[0]
assert bailey.proxy_environment(http_port=3128)["HTTP_PROXY"] == "http://127.0.0.1:3128"
""") == "closed\n"


@needs_plain_library
def test_commands_are_recorded_and_asked_about_outside(run, work, home):
    assert python(run, work, f"""
import bailey, json, os, pathlib, subprocess, threading, time

def recorded():
    lines = []
    for file in sorted(pathlib.Path("{home}").rglob("audit/*.jsonl")):
        lines += [json.loads(line) for line in open(file)]
    return [(l["method"], l["allowed"], l["detail"].split(":")[0]) for l in lines if l["kind"] == "command"]

def refused(m, command):
    try:
        m.exec(command)
    except (bailey.ForbiddenCommand, bailey.EscalatedCommand) as e:
        return e.name
    assert False, command

with bailey.Manager(bailey.Config()) as m:
    assert refused(m, "rm -rf /") == "forbidden-command"
    began = time.monotonic()
    assert refused(m, "sudo -n true") == "escalated-command" and time.monotonic() - began < 60
    m.exec("true")
with bailey.Manager(bailey.Config().on_approval(lambda q: bailey.APPROVE if "yes" in q.command else bailey.DENY)) as m:
    refused(m, "sudo -n no")
    m.exec("sudo -n yes")
assert recorded() == [("forbidden", False, "forbidden"), ("escalated", False, "nobody is there to be asked"),
                      ("allow", True, "it only reads; in"), ("escalated", False, "denied by the program"),
                      ("escalated", True, "approved by the program")], recorded()

def answer(verb):
    for _ in range(1500):
        found = json.loads(subprocess.run(["{program("bailey")}", "pending", "--json"], stdout=subprocess.PIPE).stdout or b"[]")
        if found:
            subprocess.run(["{program("bailey")}", verb, "--command", found[0]["sandbox"]], check=True, stdout=subprocess.DEVNULL)
            return
        time.sleep(0.02)

with bailey.Manager(bailey.Config().policy("network: {{ ask: control }}")) as m:  # as it is with set("network.ask", "control")
    for verb in ("allow", "deny"):
        thread = threading.Thread(target=answer, args=(verb,))
        thread.start()
        if verb == "allow":
            assert m.exec("sudo -n true; exit 4").exit_code == 4
        else:
            assert refused(m, "sudo -n true; exit 4") == "escalated-command"
        thread.join()
with bailey.Manager(bailey.Config().set("network.ask", "control")) as m:
    cancel = bailey.Cancel()
    threading.Timer(0.5, cancel.trigger).start()
    try:
        m.exec("sudo -n true; exit 5", cancel=cancel)
    except bailey.Error as e:
        print(e.name)
assert recorded()[5:7] == [("escalated", True, "approved by control (bailey allow)"),
                           ("escalated", False, "denied by control (bailey deny)")], recorded()
""") == "escalated-command\n"


@needs_plain_library
def test_hosts_are_asked_for_and_updates_reach_what_runs(run, work, home, origin):
    (home / "hosts").write_text("127.0.0.1 asked.test never.test later.test\n")
    target = f"asked.test:{origin.port}"
    assert python(run, work, f"""
import bailey, os, subprocess, threading, time

asked = []
def decide(host, port):
    asked.append((host, port))
    return host == "asked.test"

config = bailey.Config().hosts_file("{home}/hosts").on_request(decide)
config.set("network.allow_private", "127.0.0.1:{origin.port}")  # the address; each name is asked about
with bailey.Manager(config) as m:
    r = m.exec("curl -sS -m 20 http://{target}/; curl -s -m 20 -o /dev/null -w '%{{http_code}}' http://never.test:{origin.port}/")
    assert r.stdout == b"origin\\n403", (r.stdout, r.stderr)
    assert asked == [("asked.test", {origin.port}), ("never.test", {origin.port})], asked
    assert [v.target for v in r.violations] == ["never.test:{origin.port}"], r.violations
    # A command that runs already: refused, then allowed by an update.
    script = "until curl -sf -m 20 http://later.test:{origin.port}/; do echo refused > refused; sleep 0.05; done"
    results = []
    thread = threading.Thread(target=lambda: results.append(m.exec(script, timeout=60)))
    thread.start()
    for _ in range(1000):
        if os.path.exists("refused"):
            break
        time.sleep(0.02)
    m.update(config.set("network.allow", "later.test:{origin.port}"))
    thread.join()
    assert results[0].stdout == b"origin\\n", results[0].stderr
    with m.gateway() as g:
        assert g.running and g.address == "127.0.0.1" and g.http_port and g.socks_port
        proxied = ["curl", "-sS", "-m", "60", "-x", f"http://127.0.0.1:{{g.http_port}}", "--noproxy", "", "http://{target}/"]
        assert subprocess.run(proxied, stdout=subprocess.PIPE).stdout == b"origin\\n"
    print("done")
""") == "done\n"


@needs_plain_library
def test_a_machine_without_namespaces(run, work, home):
    assert python(run, work, f"""
import bailey, json, pathlib
try:
    bailey.Manager(bailey.Config())
except bailey.PlatformError as e:
    assert e.name == "unsupported-platform"
    print("strict")
m = bailey.Manager(bailey.Config().unavailable(bailey.WARN))
r = m.exec("echo ran")
assert not m.available and not r.sandboxed and "not sandboxed" in r.notice and r.stdout == b"ran\\n"
try:
    m.exec("rm -rf /")
except bailey.ForbiddenCommand:
    print("warn")
m.exec("echo unjudged", classify=False)
lines = [json.loads(line) for file in sorted(pathlib.Path("{home}").rglob("audit/*.jsonl")) for line in open(file)]
told = [(l["path"], l["allowed"], l["detail"].split(":")[0]) for l in lines if l["kind"] == "command"]
assert told == [("echo ran", True, "runs without a sandbox"), ("rm -rf /", False, "forbidden"),
                ("echo unjudged", True, "runs without a sandbox")], told
r = bailey.Manager(bailey.Config("development")).exec("echo less")  # runs with less, by its preset
assert r.sandboxed and r.stdout == b"less\\n"
""", refuse=NO_NAMESPACES) == "strict\nwarn\n"


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_node_binding(run, work):
    script = """
const assert = require('node:assert');
const { Manager, BaileyError } = require(process.argv[1]);
const code = (promise) => promise.then(() => 'ok', (error) => { assert(error instanceof BaileyError, error); return error.code; });
(async () => {
  assert.throws(() => new Manager({ executable: '/nowhere/bailey' }), { code: 'dependency-missing' });
  const asked = [];
  const manager = new Manager({ executable: process.argv[2], onApproval: async (question) => {
    asked.push(question.rule);
    return question.command.includes('twice') ? 'approve-session' : 'deny';
  } });
  let result = await manager.exec('echo out; echo err >&2; exit 3');
  assert.deepStrictEqual([result.exitCode, result.stdout, result.stderr, result.sandboxed], [3, 'out\\n', 'err\\n', true]);
  result = await manager.execArgs(['echo', '$HOME', '--json']);
  assert.strictEqual(result.stdout, '$HOME --json\\n');
  assert.strictEqual((await manager.exec('cat', { input: 'given' })).stdout, 'given');
  assert.strictEqual((await manager.exec('echo $A', { env: { A: '1' } })).stdout, '1\\n');
  assert.strictEqual((await manager.check('ls')).decision, 'allow');
  assert.strictEqual((await manager.check(['rm', '-rf', '/'])).rule, 'delete-root');
  await assert.rejects(manager.exec('rm -rf /'), { code: 'forbidden-command', rule: 'delete-root' });
  await assert.rejects(manager.exec('sudo ls'), { code: 'escalated-command', rule: 'elevate' });
  await manager.exec('sudo -n twice');
  await manager.exec('sudo -n twice');
  assert.deepStrictEqual(asked, ['elevate', 'elevate']);
  await assert.rejects(manager.exec('echo so far; echo bad >&2; exec sleep 60', { timeout: 2000 }),
    { code: 'timeout', stdout: 'so far\\n', stderr: 'bad\\n' });
  const abort = new AbortController();
  setTimeout(() => abort.abort(), 200);
  assert.strictEqual(await code(manager.exec('sleep 60', { signal: abort.signal })), 'cancelled');
  const many = await Promise.all(Array.from({ length: 8 }, (_, i) => manager.exec(`echo ${i}`)));
  assert.deepStrictEqual(many.map((r) => r.stdout), Array.from({ length: 8 }, (_, i) => `${i}\\n`));
  assert.strictEqual(await code(manager.update({ mode: 'no-such-mode' })), 'config-invalid');
  await manager.update({ env: { STAGE: 'two' } });
  assert.strictEqual((await manager.exec('echo $STAGE')).stdout, 'two\\n');
  manager.close();
  assert.strictEqual(await code(manager.exec('true')), 'manager-closed');
  console.log('done');
})();
"""
    result = run(["node", "-e", script, str(TOP / "bindings/node/index.js"), str(program("bailey"))], cwd=work, timeout=180)
    assert result.text == "done\n", result.errors


def snippets(language):
    """The examples of the document in one language, as a reader copies them."""
    text = (TOP / "docs/library.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


@pytest.fixture
def project(work):
    (work / "Makefile").write_text("test:\n\t@echo tested\n")
    return work


@needs_plain_library
def test_the_document_is_true_for_python(run, project):
    found = snippets("python")
    assert len(found) == 4
    assert python(run, project, found[0]) == "0 tested\n []\n"
    agent = project / "agent.py"
    agent.write_text(found[1])
    env = {"PYTHONPATH": str(TOP / "bindings/python"), "BAILEY_LIBRARY": str(LIBRARY), "PYTHONDONTWRITEBYTECODE": "1"}
    commands = b"echo hello\nmake test\nrm -rf /\nsudo ls\nsleep 60 # slow\n"
    result = run(["/usr/bin/python3", agent, "2"], cwd=project, env=env, stdin=commands, timeout=120)
    told = [json.loads(line) for line in result.text.splitlines()]
    assert [t.get("output", t.get("error")) for t in told] == ["hello\n", "tested\n", "forbidden-command", "escalated-command", "timeout"], told
    assert python(run, project, found[2]).startswith("bailey: policy refused refused.example:80")
    assert python(run, project, found[3]) == "['refused.example']\n"


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_the_document_is_true_for_node(run, project, home):
    found = snippets("js")
    assert len(found) == 4
    (home / "modules").mkdir()
    (home / "modules/bailey").symlink_to(TOP / "bindings/node")
    env = {"NODE_PATH": str(home / "modules"), "BAILEY_EXECUTABLE": str(program("bailey"))}
    script = f"(async () => {{ {found[0]}; console.log(result.exitCode, result.stdout); }})();"
    assert run(["node", "-e", script], cwd=project, env=env, timeout=120).check().text == "0 tested\n\n"
    (project / "agent.js").write_text(found[1])
    commands = b"echo hello\nmake test\nrm -rf /\nsudo ls\nsleep 60 # slow\n"
    result = run(["node", "agent.js", "2000"], cwd=project, env=env, stdin=commands, timeout=120)
    told = [json.loads(line) for line in result.text.splitlines()]
    assert [t.get("output", t.get("error")) for t in told] == ["hello\n", "tested\n", "forbidden-command", "escalated-command", "timeout"], told
    assert run(["node", "-e", found[2]], cwd=project, env=env, timeout=60).check().text.startswith("bailey: policy refused refused.example:80")
    assert run(["node", "-e", found[3]], cwd=project, env=env, timeout=60).check().text == "[ 'refused.example' ]\n"


@needs_plain_library
def test_python_has_what_c_has(run, work):
    assert python(run, work, f"""
import bailey
config = bailey.Config(workspace={str(work)!r})
for key, value in (("network.allow", "http://x"), ("network.allow_private", "::::"), ("network.host_port", "x"), ("network.allow", "a b.test"), ("network.allow", "*."),
                   ("network.deny", "x.test:0"), ("network.allow_private", "10.0.0.0/99:1"), ("network.allow_private", "10.0.0.1"), ("network.deny_cidrs", "10.0.0.0/8x"),
                   ("network.ca_key", "rsa2048"), ("network.allow", "@no-such-group"), ("network.dns_servers", "name.test"), ("filesystem.write", "")):
    try:
        config.set(key, value)
        print("taken", key, value)
    except bailey.ConfigError:
        pass
config.validate()  # nothing of them is in it
with bailey.Manager(bailey.Config().workspace({str(work)!r})) as m:
    assert m.exec("pwd").stdout.decode().strip() == {str(work)!r}
other = config.copy().set("network.allow", "api.example.com")
other.validate()
assert all(d.found for d in other.check_dependencies()), other.check_dependencies()
asked = []
with bailey.Manager(config) as m:
    print(m.exec("pwd", timeout=0).stdout.decode().strip() == {str(work)!r})
    assert "sudo" in repr(m.check("sudo ls"))
    try:
        m.exec("sudo -n true", on_approval=lambda q: asked.append(q) or bailey.DENY)
    except bailey.Error:
        pass
    try:
        m.exec("echo bad >&2; exec sleep 60", timeout=1)
    except bailey.Timeout as late:
        print(late.result.stderr)
print(len(asked))
open("p.yaml", "w").write("network: {{allow: [api.example.com]}}")
bailey.Config().policy_file("p.yaml").validate()
""") == "True\nb'bad\\n'\n1\n"


def test_ssh_finds_the_program_without_path(run, bailey):
    text = bailey("env", "--http", "127.0.0.1:3128", "--socks", "127.0.0.1:1080").check().text
    line = next(line for line in text.splitlines() if "GIT_SSH_COMMAND" in line)
    assert f"{program('bailey').resolve()} relay" in line
