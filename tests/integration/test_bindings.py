# SPDX-License-Identifier: Apache-2.0
"""The bindings beyond running commands: proxies, filters, events, questions about hosts, classifiers of the program's own, and what is left when the
program dies."""
import os
import pathlib
import re
import shutil
import signal

import pytest

from conftest import BUILD, program
from kit.process import wait_until

pytestmark = pytest.mark.visible_home

TOP = pathlib.Path(__file__).resolve().parents[2]
NODE = TOP / "bindings/node"
needs_plain_library = pytest.mark.exact_build  # a sanitizer's library cannot be loaded into an ordinary interpreter
needs_node = pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")

NODE_HEAD = """
const assert = require('node:assert');
const http = require('node:http');
const bailey = require(process.argv[1]);
const [, , hosts, port] = process.argv;
const open = { hosts, allowPrivate: `127.0.0.1:${port}` };
const get = (proxy, host) => new Promise((resolve, reject) => {
  const request = { host: '127.0.0.1', port: proxy.port, path: `http://${host}:${port}/`, headers: { Host: `${host}:${port}` }, agent: false };
  http.get(request, (answer) => { answer.resume(); answer.on('end', () => resolve(answer.statusCode)); }).on('error', reject);
});
const failure = (promise) => promise.then(() => 'none', (error) => { assert(error instanceof bailey.BaileyError, error); return error.code; });
"""


@pytest.fixture
def hosts(tmp_path):
    place = tmp_path / "hosts"
    place.write_text("".join(f"127.0.0.1 {name}.test\n" for name in ("a", "b", "c")))
    return place


@pytest.fixture
def node(run, work, hosts, origin, home):
    """Runs a script after NODE_HEAD: its output."""
    def call(script):
        env = {"BAILEY_EXECUTABLE": str(program("bailey")), "TMPDIR": str(home)}
        body = f"{NODE_HEAD}\n(async () => {{ {script} }})().catch((error) => {{ console.error(error); process.exit(1); }});"
        result = run(["node", "-e", body, str(NODE), str(hosts), str(origin.port)], cwd=work, env=env, timeout=120)
        assert result.status == 0, result.text + result.errors
        assert not list(home.glob("bailey-node-*")), "files that the module kept"
        return result.text
    return call


@needs_node
def test_a_proxy_by_a_list_of_hosts(node):
    """`startNetworkProxy(whitelist)` gives { port, stop() }: these hosts, and neither those of a policy nor groups that nobody named."""
    assert node("""
  require('node:fs').writeFileSync('.bailey.yaml', 'network: {allow: [b.test]}');
  const events = [];
  const proxy = await bailey.startNetworkProxy(['a.test'], { ...open, onEvent: (event) => events.push(event.domain) });
  assert.deepStrictEqual([await get(proxy, 'a.test'), await get(proxy, 'b.test')], [200, 403]);
  assert.strictEqual(proxy.env.HTTP_PROXY, `http://127.0.0.1:${proxy.port}`);
  assert(bailey.sandboxes().includes(proxy.id) && proxy.socksPort > 0);
  for (let turn = 0; turn < 10; turn++) {
    const [yes, no] = turn % 2 ? ['a.test', 'b.test'] : ['b.test', 'a.test'];
    await proxy.update({ allow: [yes], deny: [no] });
    assert.deepStrictEqual([await get(proxy, no), await get(proxy, yes)], [403, 200]);
  }
  await proxy.update({ allow: ['b.test', '@dev'], deny: ['a.test'] });
  assert.deepStrictEqual([await get(proxy, 'a.test'), await get(proxy, 'b.test')], [403, 200]);
  assert.strictEqual(await failure(proxy.update({ allow: ['http://a.test'] })), 'config-invalid');
  assert.strictEqual(await failure(proxy.update({ allow: ['@no-such-group'] })), 'config-invalid');
  assert.deepStrictEqual([await get(proxy, 'a.test'), await get(proxy, 'b.test')], [403, 200]);
  await proxy.stop();
  await proxy.stop();
  assert.strictEqual(proxy.running, false);
  assert.strictEqual(await failure(get(proxy, 'a.test').catch(() => { throw new bailey.BaileyError('gone', ''); })), 'gone');
  assert(events.includes('a.test') && events.includes('b.test'), events);
  for (const bad of [['http://x'], ['@nothing'], ['a.test\\nb.test'], ['a\\0b'], [''], 'a.test']) assert.match(await failure(bailey.startNetworkProxy(bad)), /config-invalid|bad-argument/, bad);
  assert.strictEqual(await failure(bailey.startNetworkProxy([], { http: '127.0.0.1:1', executable: '/bin/false' })), 'proxy-start-failed');
  console.log('done');
""") == "done\n"


@needs_node
def test_node_asks_and_tells(node):
    """onRequest holds the connection; what throws says no. A wrapped command, a classifier, a gateway that follows the manager."""
    assert node("""
  const asked = [];
  const events = [];
  const manager = new bailey.Manager({ ...open, policy: { network: { allow: ['a.test'] } }, onEvent: (event) => events.push(event.event),
    onRequest: async ({ host }) => { asked.push(host); if (host === 'b.test') throw new Error('nobody is at home'); return true; } });
  const fetch = 'sleep 1; for h in a b c; do curl -s -o /dev/null -w "%{http_code} " http://$h.test:' + port + '/; done';
  assert.strictEqual((await manager.exec(fetch)).stdout, '200 403 200 ');
  assert.deepStrictEqual([asked, events.filter((event) => event === 'ask').length, events.at(-1)], [['b.test', 'c.test'], 2, 'end']);

  const { command, args, env } = await manager.wrap(['sh', '-c', 'echo wrapped; exit 4']);
  const done = require('node:child_process').spawnSync(command, args, { env, encoding: 'utf8' });
  assert.deepStrictEqual([done.status, done.stdout], [4, 'wrapped\\n']);
  assert.strictEqual(await failure(manager.wrap(['sudo', 'ls'])), 'escalated-command');
  assert.strictEqual(await failure(manager.wrap(['rm', '-rf', '/'])), 'forbidden-command');
  assert.strictEqual((await manager.wrap(['sudo', 'ls'], { onApproval: () => 'approve' })).args.at(-1), 'ls');

  const gateway = await manager.gateway({ onRequest: undefined, onEvent: undefined });
  assert.strictEqual(await get(gateway, 'a.test'), 200);
  await manager.update({ ...open, deny: ['a.test'], allow: ['b.test'] });
  assert.deepStrictEqual([await get(gateway, 'a.test'), await get(gateway, 'b.test')], [403, 200]);
  assert.strictEqual(await failure(manager.update({ allow: ['http://x'] })), 'config-invalid');
  assert.throws(() => new bailey.Manager({ alow: ['a.test'] }), { code: 'config-invalid' });
  assert.strictEqual(await failure(manager.exec('true', { evn: {} })), 'config-invalid');
  assert.strictEqual((await manager.capabilities()).items.length > 10, true);
  assert((await manager.checkDependencies()).every((one) => one.found));
  await manager.close();
  assert.strictEqual(gateway.running, false);

  const own = new bailey.Manager({ classify: ({ command, rule }) => (command.includes('payroll') ? { decision: 'forbidden', rule: 'own', reason: 'not this' }
    : command.includes('nonsense') ? { decision: 'perhaps' } : rule === 'elevate' ? { decision: 'allow' } : {}) });
  await assert.rejects(own.exec('cat payroll'), { code: 'forbidden-command', rule: 'own', reason: 'not this' });
  assert.strictEqual(await failure(own.exec('echo nonsense')), 'forbidden-command');
  assert.strictEqual((await own.exec('sudo -n true || echo ran')).stdout, 'ran\\n');
  await assert.rejects(own.exec('rm -rf /'), { code: 'forbidden-command', rule: 'delete-root' });
  await own.close();
  console.log('done');
""") == "done\n"


@needs_node
def test_node_and_what_was_not_meant(node):
    """Each is an error that says so, at once: nothing runs, nothing throws past the caller, and nothing is taken for something laxer."""
    assert node("""
  const m = new bailey.Manager();
  const wrong = { command: [() => m.exec(), () => m.exec(null), () => m.exec('a\\0b'), () => m.exec('true', null), () => m.execArgs('ls'), () => m.execArgs([]),
    () => m.execArgs(['echo', undefined]), () => m.wrap('ls'), () => m.check(5)],
    option: [{ timeout: NaN }, { timeout: -1 }, { timeout: '1m' }, { env: { 'A=B': '1' } }, { env: { A: 'x\\0y' } }, { cwd: 5 }, { cwd: '/nowhere' }, { input: { a: 1 } },
      { signal: 5 }, { signal: { aborted: false } }, { allowDegraded: 'false' }, { workspacePolicy: 'false' }, { onApproval: 'approve' }, { classify: 'allow' }].map((options) => () => m.exec('true', options)),
    proxy: [null, 'a.test'].map((list) => () => bailey.startNetworkProxy(list)) };
  for (const [kind, calls] of Object.entries(wrong)) for (const one of calls) assert.strictEqual(await failure(one()), 'bad-argument', `${kind}: ${one}`);
  for (const list of [[null], [5], ['']]) assert.strictEqual(await failure(bailey.startNetworkProxy(list)), 'config-invalid');
  for (const options of [{ constructor: 1 }, { toString: 1 }]) assert.throws(() => new bailey.Manager(options), { code: 'config-invalid' });
  assert.strictEqual(await failure(bailey.startNetworkProxy([], { executable: '/bin/echo' })), 'proxy-start-failed');
  for (const answer of ['forbidden', 5, true]) assert.strictEqual(await failure(m.exec('true', { classify: () => answer })), 'forbidden-command', answer);
  await assert.rejects(m.exec('sudo true', { onApproval: () => { throw new Error('no'); } }), { message: /was not approved/ });
  assert.strictEqual((await m.exec('echo $A', { env: { A: 'ä', B: undefined }, classify: () => undefined })).stdout, 'ä\\n');
  await m.close();
  const guests = new bailey.Guests();
  for (const one of [() => guests.create('g', '--disk=1G'), () => guests.exec('g', ['true'], { timeout: NaN }), () => guests.exec('g', ['true'], { signal: { aborted: false } }), () => guests.exec('g', ['true', undefined]),
    () => guests.exec('g', ['true'], { env: { 'A=B': '1' } }), () => guests.grant('g', '/srv', { writable: 'false' }), () => guests.restore('g'), () => guests.log('g', 'x')]) {
    assert.strictEqual(await failure(one()), 'bad-argument', `${one}`);
  }

  const proxy = await bailey.startNetworkProxy(['a.test'], open);
  await Promise.all([['a.test'], ['b.test'], ['c.test']].map((allow) => proxy.update({ allow })));
  assert.deepStrictEqual([await get(proxy, 'a.test'), await get(proxy, 'c.test')], [403, 200]);
  assert.strictEqual(await failure(proxy.update('a.test')), 'bad-argument');
  for (const one of [() => proxy.update({ allow: ['a.test'], denny: ['c.test'] }), () => bailey.Filter.create({ alow: ['a.test'] })]) assert.strictEqual(await failure(one()), 'config-invalid');
  assert.deepStrictEqual([await get(proxy, 'a.test'), await get(proxy, 'c.test')], [403, 200]);
  await Promise.all([proxy.stop(), proxy.stop()]);
  assert.strictEqual(await failure(proxy.update({ allow: [] })), 'manager-closed');
  const filter = await bailey.Filter.create({ allow: ['a.test'] });
  filter.close();
  assert.strictEqual(await failure(filter.test('a.test')), 'manager-closed');
  console.log('done');
""") == "done\n"


@needs_node
def test_node_waits_a_minute_for_the_doctor(node):
    """And says what came instead of an answer. A minute passes in a second."""
    assert node("""
  const fs = require('node:fs');
  const asked = async (body) => {
    fs.writeFileSync('doctor', `#!/bin/sh\\n${body}\\n`, { mode: 0o755 });
    return new bailey.Manager({ executable: './doctor' }).capabilities().catch((error) => `${error.code}: ${error.message.replace(/.*doctor --json /, '')}`);
  };
  const later = setTimeout;
  const waited = [];
  global.setTimeout = (f, ms) => { waited.push(ms); return later(f, ms / 60); };
  assert.strictEqual(await asked('echo $$ >pid; exec sleep 100'), `timeout: ${fs.realpathSync('doctor')} doctor did not end in time and was ended`);
  assert.deepStrictEqual(waited, [60000]);
  while (fs.existsSync(`/proc/${fs.readFileSync('pid', 'utf8').trim()}`)) await new Promise((resolve) => { later(resolve, 10); });
  assert.strictEqual(await asked('echo no namespaces here >&2; exit 4'), 'system: ended with 4 and said: no namespaces here');
  assert.strictEqual(await asked('echo usage: bailey'), 'system: ended with 0 and said: usage: bailey');
  console.log('done');
""") == "done\n"


@needs_node
def test_node_judges_hosts(node):
    """Also where it may not look for what a dead program left."""
    assert node("""
  const fs = require('node:fs');
  const readdir = fs.readdirSync;
  fs.readdirSync = () => { fs.readdirSync = readdir; throw Object.assign(new Error('EACCES'), { code: 'EACCES' }); };
  const filter = await bailey.Filter.create({ allow: ['*.ok.test', '@github'], deny: ['no.ok.test'], onRequest: ({ host }) => host === 'asked.test' });
  const names = ['a.ok.test', 'no.ok.test', 'github.com', '169.254.169.254', '::1', 'bad host', '-x', '', 'asked.test', 'other.test', 'x\\ny', 'a'.repeat(3000)];
  const said = await Promise.all(names.map((name) => filter.test(name)));
  assert.deepStrictEqual(said.map((verdict) => verdict.allowed), [true, false, true, false, false, false, false, false, true, false, false, false]);
  assert.deepStrictEqual([said[0].rule, said[1].reason, said[3].reason, said[5].reason, said[8].reason], ['*.ok.test', 'deny-rule', 'address-class', 'bad-name', 'asked']);
  assert.strictEqual(await failure(filter.update({ allow: ['http://x'] })), 'config-invalid');
  assert.strictEqual((await filter.test('a.ok.test')).allowed, true);
  await filter.update({ allow: ['other.test:80'] });
  assert.deepStrictEqual([(await filter.test('other.test', 80)).allowed, (await filter.test('other.test', 443)).allowed], [true, false]);
  assert.strictEqual(await failure(filter.test('a.test', 0)), 'bad-argument');
  filter.close();
  console.log('done');
""") == "done\n"


@needs_node
def test_the_types_name_what_is_there(node):
    """Each class of index.d.ts has the methods that it promises, and no public one that it does not."""
    text = (NODE / "index.d.ts").read_text()
    promised = {}
    for name, body in re.findall(r"^export class (\w+)[^{]*\{\n(.*?)^\}", text, re.M | re.S):
        promised[name] = sorted(set(re.findall(r"^  (\w+)\(", body, re.M)) - {"constructor", "on"})
    functions = re.findall(r"^export function (\w+)", text, re.M)
    there = node(f"""
  for (const name of {list(promised)!r}) {{
    const all = Object.getOwnPropertyDescriptors(bailey[name].prototype);
    console.log(name, Object.keys(all).filter((key) => key !== 'constructor' && typeof all[key].value === 'function').sort().join(','));
  }}
  console.log(Object.keys(bailey).sort().join(','));
""").splitlines()
    assert there[:-1] == [f"{name} {','.join(methods)}" for name, methods in promised.items()]
    assert there[-1].split(",") == sorted([*promised, *functions])


@needs_node
@pytest.mark.parametrize("what", ["gateway", "exec"])
def test_what_node_started_ends_with_it(start, bailey, work, hosts, origin, nothing_left_behind, what):
    """Also when nobody can say goodbye. Only the lists of hosts stay: who would remove them is dead. The next program does."""
    waits = "const proxy = await bailey.startNetworkProxy(['a.test'], open); console.log(proxy.pid); setInterval(() => {}, 1000);"
    if what == "exec":
        waits = "const m = new bailey.Manager(); m.exec('echo > begun; sleep 600'); setInterval(() => {}, 1000);"
    script = f"{NODE_HEAD}\n(async () => {{ {waits} }})();"
    node = ["node", "-e", script, str(NODE), str(hosts), str(origin.port)]
    child = start(node, cwd=work, env={"BAILEY_EXECUTABLE": str(program("bailey"))})
    wait_until(lambda: (work / "begun").exists() if what == "exec" else bailey("ps").text.count("\n") > 1, 60, "its beginning")
    child.signal(signal.SIGKILL)
    child.wait()
    wait_until(lambda: bailey("ps", "--json").check().text.strip() == "[]", 60, "the end of what it started")
    node[2] = f"{NODE_HEAD}\nbailey.Filter.create().then((filter) => filter.close());"
    theirs = nothing_left_behind / f"bailey-node-{os.stat('/proc/self/ns/pid').st_ino}-999999999-x"  # of another machine
    theirs.mkdir()
    start(node, cwd=work, env={"BAILEY_EXECUTABLE": str(program("bailey"))}).wait().check()
    assert list(nothing_left_behind.glob("bailey-node-*")) == [theirs]
    theirs.rmdir()


def python(run, work, script, hosts):
    env = {"PYTHONPATH": str(TOP / "bindings/python"), "BAILEY_LIBRARY": str(BUILD / "src/api/libbailey.so.0"), "PYTHONDONTWRITEBYTECODE": "1"}
    result = run(["/usr/bin/python3", "-c", script, hosts], cwd=work, env=env, timeout=120)
    assert result.status == 0, result.text + result.errors
    return result.text


@needs_plain_library
def test_python_beyond_commands(run, work, hosts, origin):
    assert python(run, work, f"""
import bailey, os, sys, time, urllib.error, urllib.request

def get(proxy, host):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({{"http": proxy.env["HTTP_PROXY"]}}))
    try:
        return opener.open(f"http://{{host}}:{origin.port}/", timeout=60).status
    except urllib.error.HTTPError as error:
        return error.code
    except ConnectionError:  # open while the policy changed, and refused by the new one
        return None

def config(*allow):
    return bailey.Config().hosts_file(sys.argv[1]).set("network.allow", *allow).set("network.allow_private", "127.0.0.1:{origin.port}")

events = []
with bailey.Manager(config("a.test")) as manager, manager.watch(events.append), bailey.NetworkProxy(config("a.test")) as proxy:
    assert (get(proxy, "a.test"), get(proxy, "b.test")) == (200, 403)
    proxy.update(config("b.test"))
    assert (get(proxy, "a.test"), get(proxy, "b.test")) == (403, 200)
    for turn in range(20):  # the new rules judge when update() returns, not a moment later
        proxy.update(config("ab"[turn % 2] + ".test"))
        assert get(proxy, "ba"[turn % 2] + ".test") == 403, turn
        assert get(proxy, "ab"[turn % 2] + ".test") == 200, turn
    proxy.update(config("b.test"))
    assert manager.exec("sleep 2; curl -s -o /dev/null -w '%{{http_code}}' http://b.test:{origin.port}/; sleep 1").stdout == b"403"
    proxy.stop()
    assert not proxy.running and proxy.address == ""
assert any(e.get("domain") == "b.test" and not e["allowed"] for e in events), events
assert {{"network", "end"}} <= {{e["event"] for e in events}}, events

with bailey.start_network_proxy(["a.test"]) as proxy:
    assert proxy.port and get(proxy, "c.test") == 403
for wrong in ("a.test", ["http://x"]):
    try:
        bailey.start_network_proxy(wrong)
        print("taken", wrong)
    except bailey.Error:
        pass

def classify(command, verdict):
    if "payroll" in command:
        return bailey.FORBIDDEN, "not this"
    if "fails" in command:
        raise ValueError
    if "nonsense" in command:
        return "perhaps"
    return bailey.ALLOW if verdict.rule == "elevate" else None

with bailey.Manager(bailey.Config().classifier(classify)) as manager:
    for command in ("cat payroll", "echo fails", "echo nonsense", "rm -rf /"):
        try:
            manager.exec(command)
            print("ran", command)
        except bailey.ForbiddenCommand as error:
            print(error.rule, "/", error.reason)
    print(manager.check("cat payroll").decision, manager.exec("sudo -n true || echo ran").stdout.decode().strip())
    try:
        manager.exec_args(["echo", "a b"], classifier=lambda command, verdict: bailey.ESCALATED if command == "echo 'a b'" else None)
    except bailey.EscalatedCommand as error:
        print(error.rule)
with open("doctor", "w") as file:
    file.write("#!/bin/sh\\necho no namespaces here; exit 4\\n")
os.chmod("doctor", 0o755)
try:
    bailey.capabilities(bailey.Config().executable("doctor"))
except bailey.SystemFailure as error:  # the library asks, with its limit of time
    print(str(error).partition("said: ")[2])
print(bailey.capabilities()["mode"])
""", hosts).splitlines()[:-1] == ["program / not this", "program / the program's classifier failed", "program / the program's classifier failed",
                                  "delete-root / it deletes the system or the home directory", "forbidden ran", "program", "no namespaces here"]


@needs_plain_library
def test_python_and_what_was_not_meant(run, work, hosts):
    """An error for each, at once; and a child that was forked ends nothing of its parent's."""
    assert python(run, work, """
import bailey, os, sys, threading

def stop(*_):
    raise SystemExit(3)

proxy, manager, few = bailey.start_network_proxy(["a.test"]), bailey.Manager(bailey.Config()), bailey.Filter(allow=["a.test:443"])
wrong = [lambda: manager.exec(None), lambda: manager.exec(["ls"]), lambda: manager.exec_args("ls -l"), lambda: manager.exec_args(["echo", None]), lambda: manager.wrap([]),
         lambda: bailey.Filter(allow="a.test"), lambda: bailey.Config().set("network.allow", ["a.test"]), lambda: bailey.Manager(None),
         lambda: few.test("a.test", 65536 + 443), lambda: few.test("a.test", -65093), lambda: few.test("a.test", 10 ** 5000), lambda: bailey.proxy_environment(70000), lambda: bailey.start_network_proxy(None),
         lambda: bailey.start_network_proxy([], on_request=5)]
wrong += [lambda options=options: manager.exec("true", **options) for options in (
    {"timeout": float("nan")}, {"timeout": -1}, {"timeout": 2 ** 64 / 1000}, {"timeout": 10 ** 5000}, {"timeout": "1"}, {"output_limit": -1}, {"output_limit": 2 ** 64}, {"stdin": "text"},
    {"output_limit": 10 ** 5000}, {"stdin": -1}, {"cancel": 5}, {"settings": ["mode"]}, {"settings": {"mode": None}}, {"classifier": "allow"})]
for number, call in enumerate(wrong):
    try:
        call()
        print("taken", number)
    except bailey.ArgumentError:
        pass
def interrupt(*_):
    raise KeyboardInterrupt

def fail(*_):
    raise ValueError

asked = bailey.Manager(bailey.Config().on_approval(stop).classifier(lambda command, verdict: interrupt() if command == "ls" else None))
for call, expected in ((lambda: manager.exec("touch ran", classifier=stop), SystemExit), (lambda: manager.exec("touch ran", classifier=interrupt), KeyboardInterrupt),
                       (lambda: manager.exec("touch ran", classifier=fail), bailey.ForbiddenCommand), (lambda: asked.exec("sudo -n true; touch ran"), SystemExit),
                       (lambda: asked.wrap(["sudo", "touch", "ran"]), SystemExit), (lambda: asked.check("ls"), KeyboardInterrupt), (lambda: asked.wrap(["ls"]), KeyboardInterrupt),
                       (lambda: manager.exec("touch ran", classifier=lambda *_: asked.check("ls")), KeyboardInterrupt),
                       (lambda: manager.exec("sudo -n true; touch ran", on_approval=fail), bailey.EscalatedCommand),
                       (lambda: bailey.Filter(on_request=interrupt).test("a.test", 443), KeyboardInterrupt)):
    try:
        call()
        print("no", expected)
    except expected:
        pass
print(os.path.exists("ran"), manager.exec("echo well").stdout, asked.check("pwd").decision, flush=True)
asked.close()

child = os.fork()
if child == 0:
    try:
        manager.exec("true")
    except bailey.ManagerClosed:
        proxy.stop()
        sys.exit(7)
    sys.exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), proxy.running, manager.exec("echo here").stdout)
threads = [threading.Thread(target=proxy.stop) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(proxy.running, proxy.address)
manager.close()
""", hosts) == "False b'well\\n' allow\n7 True b'here\\n'\nFalse \n"


@needs_plain_library
def test_python_answers_questions(run, work, hosts, origin):
    """The control protocol from a program: a question that waits is answered, and the sandbox ended."""
    assert python(run, work, f"""
import bailey, sys, threading, time
config = bailey.Config().hosts_file(sys.argv[1]).set("network.allow_private", "127.0.0.1:{origin.port}").set("network.ask", "control")
with bailey.Manager(config) as manager:
    answers = []
    def run():
        try:
            answers.append(manager.exec("curl -s -o /dev/null -w '%{{http_code}}' http://a.test:{origin.port}/; exec sleep 600"))
        except bailey.Error as error:
            answers.append(error.name)
    thread = threading.Thread(target=run)
    thread.start()
    questions = []
    for _ in range(600):
        for sandbox in bailey.sandboxes():
            try:
                with bailey.Control(sandbox) as control:
                    questions = control.pending()
                    if questions:
                        control.answer(questions[0]["id"], "allow", "sandbox")
                        try:
                            control.answer(questions[0]["id"], "allow")
                        except bailey.ControlError as error:
                            print(error.code)
                        print([rule["pattern"].split(":")[0] for rule in control.rules() if rule["live"]])
                        control.kill()
                        break
            except (OSError, bailey.ControlError):
                pass
        if questions:
            break
        time.sleep(0.05)
    thread.join()
    print(questions[0]["host"], answers[0].signal if not isinstance(answers[0], str) else answers[0])
""", hosts) == "not-found\n['a.test']\na.test 9\n"


@needs_node
def test_guests_from_node(node):
    node("""
  const guests = new bailey.Guests();
  try {
    await guests.create('one', ['--idle=1h', '--disk=1G']);
    assert.strictEqual(await failure(guests.create('one')), 'bad-argument');
    assert.strictEqual(await failure(guests.create('two', ['--no-such-option'])), 'bad-argument');
    assert.strictEqual(await failure(guests.start('two')), 'bad-argument');
    assert.strictEqual(await failure(guests.exec('two', ['true'])), 'bad-argument');
    assert.deepStrictEqual(await guests.exec('one', ['sh', '-c', 'cat; echo err >&2; echo $A; exit 3'], { input: 'in\\n', env: { A: 'b c' } }),
      { exitCode: 3, stdout: 'in\\nb c\\n', stderr: 'err\\n' });
    assert.strictEqual((await guests.exec('one', ['pwd'], { cwd: '/usr' })).stdout, '/usr\\n');
    assert.strictEqual(await failure(guests.exec('one', ['sleep', '600'], { timeout: 300 })), 'timeout');
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 200);
    assert.strictEqual(await failure(guests.exec('one', ['sleep', '600'], { signal: stop.signal })), 'cancelled');
    assert.strictEqual(await failure(guests.exec('one', ['a\\0b'])), 'bad-argument');
    const number = await guests.job('one', ['sh', '-c', 'echo from the job; exit 4']);
    for (let i = 0; i < 600 && (await guests.jobs('one'))[0].state === 'running'; i++) await new Promise((go) => setTimeout(go, 50));
    assert.deepStrictEqual((await guests.jobs('one')).map((job) => [job.number, job.status]), [[number, 4]]);
    assert.strictEqual(await guests.log('one', number), 'from the job\\n');
    assert.deepStrictEqual((await guests.list()).map((row) => [row.name, row.state, row.disk.limit, row.disk.state]), [['one', 'running', 2 ** 30, 'well']]);
    await guests.stop('one');
    assert.strictEqual((await guests.list())[0].state, 'stopped');
  } finally {
    await guests.delete('one');
  }
  assert.deepStrictEqual(await guests.list(), []);
""")


@needs_plain_library
def test_guests_from_python(run, work):
    script = """
import bailey, time
guests = bailey.Guests()
def failure(call, *words, **more):
    try:
        call(*words, **more)
    except bailey.Error as error:
        return type(error)
try:
    guests.create("one", "--idle=1h", "--disk=1G")
    assert failure(guests.create, "one") is bailey.ArgumentError
    assert failure(guests.create, "two", "--no-such-option") is bailey.ArgumentError
    assert failure(guests.start, "two") is bailey.ArgumentError
    assert failure(guests.exec, "two", ["true"]) is bailey.ArgumentError
    result = guests.exec("one", ["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (result.exit_code, result.stdout, result.stderr, result.sandboxed) == (3, b"out\\n", b"err\\n", True)
    assert guests.exec("one", ["pwd"], directory="/usr").stdout == b"/usr\\n"
    assert guests.exec("one", ["head", "-c", "100", "/dev/zero"], output_limit=10).truncated
    assert failure(guests.exec, "one", ["sleep", "600"], timeout=0.3) is bailey.Timeout
    number = guests.job("one", ["sh", "-c", "echo from the job; exit 4"])
    for _ in range(600):
        if guests.jobs("one")[0]["state"] != "running":
            break
        time.sleep(0.05)
    assert [(job["number"], job["status"]) for job in guests.jobs("one")] == [(number, 4)]
    assert guests.log("one", number) == b"from the job\\n"
    (row,) = guests.list()
    assert (row["disk.limit"], row["disk.state"]) == (1 << 30, "well") and row["disk.used"] >= 0, row
    assert (row["name"], row["state"], row["idle_seconds"], row["reason"]) == ("one", "running", 3600, None), row
    guests.stop("one")
    assert guests.list()[0]["state"] == "stopped"
finally:
    guests.delete("one")
assert guests.list() == []
print("done")
"""
    env = {"PYTHONPATH": str(TOP / "bindings/python"), "BAILEY_LIBRARY": str(BUILD / "src/api/libbailey.so.0"), "PYTHONDONTWRITEBYTECODE": "1"}
    result = run(["/usr/bin/python3", "-c", script], cwd=work, env=env, timeout=120)
    assert result.text == "done\n", result


@needs_node
def test_what_guests_have_from_node(node, home, free_port):
    """Every verb of `bailey guest` that a program can use: limits, ports, grants, copies, snapshots, archives, recipes."""
    (home / "given").mkdir()
    recipe = home / "recipe.yaml"
    recipe.write_text("files: {made/by-recipe: text}\n")
    recipe.chmod(0o600)
    port = free_port()
    node(f"""
  const guests = new bailey.Guests();
  try {{
    await guests.create('one');
    await guests.set('one', ['--disk=64M', '--limit-processes=60', '--env=A=1']);
    assert.strictEqual(await failure(guests.set('one', ['--disk=much'])), 'bad-argument');
    assert.strictEqual(await failure(guests.set('two', ['--disk=1G'])), 'bad-argument');
    const shown = await guests.show('one');
    assert.deepStrictEqual(shown.options.map((row) => row.option + ' ' + row.value).sort(), ['env A=1', 'limit-processes 60']);
    assert.strictEqual(shown.disk.limit, 64 * 2 ** 20);
    assert.ok(shown.steps.length > 0);
    await guests.provision('one', ['{recipe}']);
    await guests.provision('one');
    assert.strictEqual(await failure(guests.provision('one', ['none'])), 'bad-argument');
    assert.strictEqual(await failure(guests.restore('one', 'none')), 'bad-argument');
    assert.strictEqual(await failure(guests.log('one', 99)), 'bad-argument');
    assert.strictEqual(await failure(guests.unpublish('one', 9)), 'bad-argument');
    assert.ok((await guests.recipes()).some((row) => row.name === 'claude'));
    await guests.copyIn('one', '{recipe}', 'with:colon');
    assert.strictEqual(await failure(guests.copyIn('one:', '{recipe}', 'x')), 'bad-argument');
    await guests.grant('one', '{home}/given', {{ writable: true }});
    assert.deepStrictEqual(await guests.grants('one'), [{{ path: '{home}/given', access: 'rw' }}]);
    assert.strictEqual((await guests.exec('one', ['sh', '-c', 'cat made/by-recipe; echo $A; echo x > {home}/given/new; ulimit -n >/dev/null; rm with:colon'])).stdout, 'text1\\n');
    await guests.publish('one', {port}, 80);
    assert.strictEqual(await failure(guests.publish('one', 70000, 80)), 'bad-argument');
    assert.deepStrictEqual((await guests.ports('one')).map((row) => [row.outside, row.inside, row.state]), [[{port}, 80, 'open']]);
    await guests.unpublish('one', {port});
    assert.deepStrictEqual(await guests.ports('one'), []);
    await guests.snapshot('one', 'good');
    await guests.exec('one', ['rm', '-r', 'made']);
    await guests.stop('one');
    await guests.revoke('one', '{home}/given');
    assert.deepStrictEqual(await guests.grants('one'), []);
    await guests.restore('one', 'good');
    await guests.copyOut('one', 'made/by-recipe', '{home}/out');
    assert.strictEqual(require('fs').readFileSync('{home}/out', 'utf8'), 'text');
    await guests.snapshotRemove('one', 'good');
    assert.deepStrictEqual(await guests.snapshots('one'), []);
    await guests.archive('one');
    assert.strictEqual((await guests.list())[0].state, 'archived');
    await guests.unarchive('one');
    await guests.rename('one', 'two');
    await guests.fix('two');
    await guests.rename('two', 'one');
  }} finally {{
    await guests.delete('one');
  }}
""")
    assert (home / "given/new").read_text() == "x\n"


@needs_plain_library
def test_what_guests_have_from_python(run, work, home, free_port):
    (home / "given").mkdir()
    recipe = home / "recipe.yaml"
    recipe.write_text("files: {made/by-recipe: text}\n")
    recipe.chmod(0o600)
    script = f"""
import bailey, pathlib
guests, home, port = bailey.Guests(), pathlib.Path({str(home)!r}), {free_port()}
def failure(call, *words, **more):
    try:
        call(*words, **more)
    except bailey.Error as error:
        return type(error)
try:
    guests.create("one")
    guests.set("one", "--disk=64M", "--limit-processes=60", "--env=A=1", "--idle=1h")
    assert failure(guests.set, "one", "--disk=much") is bailey.ArgumentError
    assert failure(guests.set, "one", "--limit-processes=10", "--unset=no-such") is bailey.ArgumentError
    assert failure(guests.set, "two", "--disk=1G") is bailey.ArgumentError
    assert {{(row["option"], row["value"]) for row in guests.settings("one")}} == {{("env", "A=1"), ("limit-processes", "60")}}
    row = guests.list()[0]
    assert (row["disk.limit"], row["idle_seconds"]) == (64 << 20, 3600) and row["made"], row
    assert guests.steps("one")[-1]["at"]
    guests.provision("one", home / "recipe.yaml")
    guests.provision("one")
    for call, word in ((guests.provision, "none"), (guests.restore, "none"), (guests.log, 99), (guests.unpublish, 9)):
        assert failure(call, "one", word) is bailey.ArgumentError, call
    assert "claude" in [row["name"] for row in guests.recipes()]
    guests.grant("one", home / "given", writable=True)
    assert guests.grants("one") == [{{"path": str(home / "given"), "access": "rw"}}]
    result = guests.exec("one", ["sh", "-c", f"cat made/by-recipe; echo $A $B; echo x > {{home}}/given/new"], env={{"B": "c d"}})
    assert result.stdout == b"text1 c d\\n", result.stderr
    number = guests.job("one", ["sh", "-c", "echo $B"], env={{"B": "of the job"}})
    guests.publish("one", port, 80)
    assert failure(guests.publish, "one", 70000, 80) is bailey.ArgumentError
    assert [(row["outside"], row["inside"], row["state"]) for row in guests.ports("one")] == [(port, 80, "open")]
    guests.unpublish("one", port)
    assert guests.ports("one") == []
    guests.snapshot("one", "good")
    assert [row["label"] for row in guests.snapshots("one")] == ["good"] and guests.snapshots("one")[0]["bytes"] > 0
    guests.exec("one", ["rm", "-r", "made"])
    guests.stop("one")
    assert guests.log("one", number) == b"of the job\\n"
    guests.revoke("one", home / "given")
    guests.restore("one", "good")
    guests.copy_out("one", "made/by-recipe", home / "out")
    guests.copy_in("one", home / "out", "in")
    assert (home / "out").read_text() == "text"
    guests.snapshot_remove("one", "good")
    guests.archive("one")
    assert guests.list()[0]["state"] == "archived"
    guests.unarchive("one")
    guests.rename("one", "two")
    guests.fix("two")
    guests.rename("two", "one")
finally:
    guests.delete("one")
print("done")
"""
    env = {"PYTHONPATH": str(TOP / "bindings/python"), "BAILEY_LIBRARY": str(BUILD / "src/api/libbailey.so.0"), "PYTHONDONTWRITEBYTECODE": "1"}
    result = run(["/usr/bin/python3", "-c", script], cwd=work, env=env, timeout=120)
    assert result.text == "done\n", result
    assert (home / "given/new").read_text() == "x\n"
