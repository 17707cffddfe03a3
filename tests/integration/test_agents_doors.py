# SPDX-License-Identifier: Apache-2.0
"""Planting, by every door into a sandbox: `bailey run` in its other forms, `bailey exec`, `bailey mcp`, libbailey from C, Python and Node,
an overlay that is applied, guests, containers, a machine without namespaces. By each of them a program writes every file that an agent obeys when it
starts, by every way; none of it is in the real home or in the project afterwards. And by each of them no secret of the account is found."""
import json
import re

import pytest

from conftest import BUILD, program
from kit.agents import KEY, OPENAI_KEY, SECRET, TOKENS, claude_file, codex_file
from kit.engine import IMAGE, TOOLS, engine, engine_of_file  # noqa: F401
from kit.git import ENVIRONMENT
from kit.machine import machine
from kit.planting import IN_HOME, IN_PROJECT, SEARCH, Planted, PlantedBelow
from test_bindings import NODE, needs_node
from test_library import LIBRARY, TOP
from test_run_degraded import NO_NAMESPACES

pytestmark = [pytest.mark.visible_home, pytest.mark.exact_build]

PYTHON = """
import bailey, sys
r = bailey.Manager(bailey.Config(sys.argv[1])).exec_args(sys.argv[2:])
print(r.stdout.decode() if isinstance(r.stdout, bytes) else r.stdout)
sys.exit(r.exit_code)
"""
NODE_SCRIPT = """
const bailey = require(process.argv[1]);
(async () => {
  const manager = new bailey.Manager({});
  const done = await manager.execArgs(process.argv.slice(2));
  console.log(done.stdout);
  await manager.close();
  process.exit(done.exitCode);
})().catch((error) => { console.error(error); process.exit(1); });
"""


class Doors:
    """doors.NAME(words): runs the words in a sandbox, in the workspace; gives the Result."""

    def __init__(self, run, work, home):
        self.start, self.work = run, work
        self.env = {**ENVIRONMENT, "BAILEY_EXECUTABLE": str(program("bailey")), "PYTHONPATH": str(TOP / "bindings/python"),
                    "BAILEY_LIBRARY": str(LIBRARY), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(home)}

    def call(self, argv, **more):
        return self.start([*map(str, argv)], cwd=self.work, env=self.env, timeout=240, **more)

    def run(self, words):
        return self.call(["bailey", "run", "--", *words])

    def real(self, words):
        return self.call(["bailey", "run", "--home", "real", "--", *words])

    def named(self, words):
        return self.call(["bailey", "run", "--home", "team", "--", *words])

    def forgotten(self, words):
        return self.call(["bailey", "run", "--home", "none", "--", *words])

    def traced(self, words):
        return self.call(["bailey", "run", "--trace-denials", "--deny-read", "**/*.pem", "--", *words])

    def exec(self, words):
        return self.call(["bailey", "exec", "--approved", "--args", "--", *words])

    def exec_json(self, words):
        return self.call(["bailey", "exec", "--approved", "--json", " ".join(words)])

    def mcp(self, words):
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}}}
        run = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "run", "arguments": {"command": " ".join(words)}}}
        return self.call(["bailey", "mcp"], stdin="".join(json.dumps(m) + "\n" for m in (hello, run)).encode())

    def c(self, words):
        return self.call([BUILD / "examples/example-exec", " ".join(words)])

    def python(self, words):
        return self.call(["/usr/bin/python3", "-c", PYTHON, "default", *words])

    def python_development(self, words):
        return self.call(["/usr/bin/python3", "-c", PYTHON, "development", *words])

    def node(self, words):
        return self.call(["node", "-e", NODE_SCRIPT, NODE, *words])

    def degraded(self, words):
        return self.call(machine([program("bailey"), "run", "--allow-degraded", "--", *words], refuse=NO_NAMESPACES))

    def overlay(self, words):
        return self.overlaid(["bailey", "run", "--overlay", "--", *words])

    def exec_overlay(self, words):
        return self.overlaid(["bailey", "exec", "--approved", "--overlay", "--args", "--", *words])

    def guest(self, words):
        """The project is granted to it; what it made there under protected names goes when it stops."""
        for argv in (["create", "one"], ["grant", "one", f"{self.work}:rw"]):
            self.call(["bailey", "guest", *argv]).check()
        result = self.call(["bailey", "guest", "exec", "-C", self.work, "one", "--", *words])
        for argv in (["stop", "one"], ["delete", "--force", "one"]):
            self.call(["bailey", "guest", *argv]).check()
        return result

    def overlaid(self, argv):
        result = self.call(argv)
        self.call(["bailey", "apply"])
        return result


REAL = ("real", "python_development")  # the real home is seen, and nothing can be written there
ALL = ["run", "traced", "exec", "mcp", "c", "python", pytest.param("node", marks=needs_node), "degraded", "overlay", "guest", *REAL,
       *(pytest.param(door, marks=pytest.mark.table) for door in ("named", "forgotten", "exec_json", "exec_overlay"))]


@pytest.fixture
def doors(run, work, home):
    return Doors(run, work, home)


@pytest.mark.parametrize("exists", [False, True], ids=["absent", "there"])
@pytest.mark.parametrize("door", ALL)
def test_planting(doors, home, work, door, exists):
    planted = Planted(home, work, exists)
    result = getattr(doors, door)(planted.command).check()
    if door == "degraded" and exists:  # nothing can hold what is there, and it is said before the command begins
        lost = re.findall(r"^bailey: lost: (\S+) can be written to", result.errors, re.MULTILINE)
        changed = {path for path, what in planted.before.items() if planted.digest().get(path) != what}
        assert changed and all(path.startswith(tuple(lost)) for path in changed) and not [p for p in changed if not p.startswith(str(work))], changed
        return
    planted.check(None if door in REAL else result.text)


@pytest.mark.parametrize("exists", [False, True], ids=["absent", "there"])
@pytest.mark.parametrize("door", ["traced", "exec", "mcp", "c", "python", "overlay", "guest", "real", pytest.param("exec_overlay", marks=pytest.mark.table)])
def test_planting_below_the_top(doors, work, door, exists):
    """An agent that is started in a subdirectory, or a clone."""
    planted = PlantedBelow(work, "packages/one", exists)
    getattr(doors, door)(planted.command).check()
    planted.check()


def test_without_a_sandbox_it_is_seen(doors, home, work):
    """Each file is planted, so each would be found by the test above."""
    planted = Planted(home, work, exists=True)
    doors.call(planted.command).check()
    after = planted.digest()
    changed = {path for path, what in planted.before.items() if after.get(path) != what}
    assert changed >= {str(home / path) for path in IN_HOME} | {str(work / path) for path in IN_PROJECT}


def account(home, work):
    """Secrets as people have them; gives all of them."""
    secrets = [SECRET, KEY, OPENAI_KEY, *TOKENS["claude"](0), *TOKENS["codex"](0), "ghp_RealTokenOfThisTestOnly0123456789abcd"]
    files = {".ssh/id_rsa": SECRET, ".claude/.credentials.json": json.dumps(claude_file(*TOKENS["claude"](0), 3600)),
             ".codex/auth.json": json.dumps(codex_file(*TOKENS["codex"](0), 3600)), ".bashrc": f"export OPENAI_API_KEY={OPENAI_KEY}\n",
             ".config/gh/hosts.yml": f"github.com:\n    oauth_token: {secrets[-1]}\n    user: ann\n", ".bash_history": f"curl -H {KEY}\n",
             ".local/share/opencode/auth.json": json.dumps({"anthropic": {"type": "api", "key": KEY}})}
    for path, text in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
        (home / path).chmod(0o600)
    (work / "notes.txt").write_text("x planted-secret-of-this-test-0815 y")
    (work / "wanted.json").write_text(json.dumps([text[::-1] for text in [*secrets, "planted-secret-of-this-test-0815"]]))
    (work / "search.py").write_text(SEARCH)


def check_search(text):
    found = json.loads(text[text.index('{"found"'):].splitlines()[0])
    # Without namespaces /tmp is the host's, where these tests may be, and what others of them write meanwhile.
    secrets = {text for path, text in found["found"] if not re.search(r"/tests/integration/|/bailey-stage\.|/pytest-of-", path)}
    assert secrets == {"planted-secret-of-this-test-0815"[::-1][:12]}, found
    assert found["looked"] > 2


@pytest.mark.parametrize("door", ALL)
def test_no_secret_is_found(doors, home, work, door):
    account(home, work)
    if door in REAL:  # start-up files of shells can be read there
        (home / ".bashrc").unlink()
    doors.env |= {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": OPENAI_KEY}
    result = getattr(doors, door)(["/usr/bin/python3", "search.py", str(home), str(work), "/tmp", "/run", "/etc"]).check()
    text = result.text
    if door == "exec_json":
        text = json.loads(text)["stdout"]
    elif door == "mcp":
        text = json.loads(text.splitlines()[1])["result"]["structuredContent"]["stdout"]
    check_search(text)


@pytest.fixture
def container(engine, run, work):  # noqa: F811
    """container(words, options): the words in a container of this engine."""
    def call(words, *options, env=None):
        return run(["bailey", "run", "--container", engine.name, f"--container-arg={TOOLS}", *options, IMAGE, "--", *words],
                   cwd=work, env={**ENVIRONMENT, **(env or {}), "PATH": engine.path()}, timeout=240)
    return call


@pytest.mark.parametrize("own, exists", [(False, True), (True, False)], ids=["of-the-image", "own"])
def test_a_container(container, home, work, own, exists):
    """With the image's home and with one of the sandbox's own."""
    options = ["--home", "workspace"] if own else []
    planted = Planted(home, work, exists)
    planted.check(container(planted.command, *options).check().text)
    account(home, work)
    search = ["/usr/bin/python3", "search.py", str(home), str(work), "/run", "/tmp", "/etc"]
    check_search(container(search, *options, env={"ANTHROPIC_API_KEY": KEY}).check().text)
