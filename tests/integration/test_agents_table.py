# SPDX-License-Identifier: Apache-2.0
"""The whole table of agents: signed in by a key, by one that is stored and by a subscription; tokens that are renewed; three runs one after
the other; the right end; the terminal. It takes long, so `tests/run agents` runs it; `make test` has test_agents.py and the rows marked
`short` here. What came out is in docs/agents/README.md."""
import os
import pathlib
import re
import shlex
import time

import pytest

from conftest import program
from kit.agents import AGENTS, GITHUB_TOKEN, KEY, PROMPT, SUBSCRIPTIONS, TOKENS, World, version
from kit.tmux import Tmux

pytestmark = [pytest.mark.visible_home, pytest.mark.exact_build]
SHORT = {"ran": "expr 6 '*' 7 > out.txt; echo RAN=$?", "refused": "curl -sS -m 30 -o /dev/null https://refused.test/; echo REFUSED=$?"}


@pytest.fixture
def world(start, home, work, tmp_path, closing):
    return lambda name, steps=None: World(name, start, home, work, tmp_path, closing, steps=SHORT if steps is None else steps)


def worked(world, result):
    said = world.said()
    everything = f"{result}\n{said}\n{[(h, m, p) for h, m, p, *_ in world.models.requests]}"
    assert result.status == 0, everything
    assert "RAN=0" in said.get("ran", "") and (world.work / "out.txt").read_text() == "42\n", everything
    assert "REFUSED=" in said.get("refused", "") and "REFUSED=0" not in said["refused"], everything
    world.check_secrets(result)


@pytest.mark.table
@pytest.mark.parametrize("name", [name for name, row in AGENTS.items() if "stored" in row])
def test_a_key_that_is_stored(world, name):
    w = world(name).sign_in("stored")
    worked(w, w.run())
    key = w.row.get("key", KEY)
    assert any(key in value for _, _, headers in w.provider_requests() for value in headers.values())


@pytest.mark.table
@pytest.mark.parametrize("lives", [86400, -60], ids=["good", "over"])
@pytest.mark.parametrize("name, account", SUBSCRIPTIONS)
def test_a_subscription(world, name, account, lives):
    """With a token that is over the agent renews it first: the account's file has the new one, the sandbox has stand-ins."""
    w = world(name).sign_in("subscription", lives, account)
    worked(w, w.run())
    access, refresh = TOKENS[account](w.models.turn)
    assert w.models.turn >= (1 if lives < 0 else 0)
    assert any(f"Bearer {access}" == headers.get("Authorization", headers.get("authorization")) for _, _, headers in w.provider_requests()), w.provider_requests()
    kept = w.secrets_file.read_text()
    assert access in kept and refresh in kept, "the account's own file follows"


@pytest.mark.table
@pytest.mark.parametrize("name, variable", [("copilot", None), ("copilot", "COPILOT_GITHUB_TOKEN"), ("copilot", "GH_TOKEN"), ("opencode", None)])
def test_an_account_at_github(world, name, variable):
    """Stored by the agent, or in a variable."""
    w = world(name).sign_in("account", account=variable)
    worked(w, w.run())
    played = [headers for _, path, headers in w.provider_requests() if path.endswith(("/chat/completions", "/v1/messages"))]
    assert played and all(f"Bearer {GITHUB_TOKEN}" == headers.get("authorization", headers.get("Authorization")) for headers in played), w.provider_requests()


@pytest.mark.table
@pytest.mark.parametrize("plan, host", [("CODING", "coding.dashscope.aliyuncs.com"), ("TOKEN", "token-plan.ap-southeast-1.maas.aliyuncs.com")])
def test_a_plan_of_qwen(world, monkeypatch, plan, host):
    """As docs/agents/qwen.md says: the plan's own variable, which the agent gets as the key of an API like OpenAI's."""
    monkeypatch.setitem(AGENTS["qwen"], "hosts", [host])
    w, key = world("qwen"), "sk-sp-RealKeyOfThisTestOnlyZq8Yt3KpXw5Nn7Bb2Vv4"
    variable = f"BAILIAN_{plan}_PLAN_API_KEY"
    w.env = {variable: key, "OPENAI_BASE_URL": f"https://{host}/v1"}
    w.secrets.add(key)
    told = f'OPENAI_API_KEY=${variable} exec qwen --yolo -p "{PROMPT}" --auth-type openai --model qwen3-coder-plus'
    command = w.command(options=["--profile", "qwen"])
    result = w.start([*command[:-1], "sh", "-c", told], cwd=w.work, env=w.environment()).wait(300)
    worked(w, result)
    assert any(f"Bearer {key}" in headers.values() for asked, _, headers in w.provider_requests() if asked == host)


@pytest.mark.table
@pytest.mark.parametrize("name, variable, directory", [("claude", "CLAUDE_CONFIG_DIR", ".claude"), ("codex", "CODEX_HOME", ".codex"), ("gemini", "GEMINI_CLI_HOME", ""),
                                                       ("opencode", "XDG_DATA_HOME", ".local/share")])
def test_a_directory_that_was_moved(world, name, variable, directory):
    """By the agent's own variable, to another place in the home, with a sign-in in it."""
    w = world(name).sign_in("subscription" if name in TOKENS else "stored")
    (w.home / "moved").mkdir()
    below = w.secrets_file.relative_to(w.home / directory)
    (w.home / "moved" / below).parent.mkdir(parents=True, exist_ok=True)
    w.secrets_file = w.secrets_file.rename(w.home / "moved" / below)
    w.env[variable] = str(w.home / "moved")
    worked(w, w.run())


@pytest.mark.table
@pytest.mark.parametrize("options", [["--deny-read", "**/.env"], ["--trace-denials"], ["--overlay"]], ids=["glob", "trace", "overlay"])
@pytest.mark.parametrize("name", AGENTS)
def test_where_calls_are_judged(world, bailey, name, options):
    """Paths that agents take through their own descriptors, locks and renames, under the broker and in an overlay."""
    w = world(name).sign_in("key")
    result = w.run(options=options)
    if options == ["--overlay"]:
        assert not (w.work / "out.txt").exists()
        bailey("apply", cwd=w.work)
    worked(w, result)


@pytest.mark.table
@pytest.mark.parametrize("name", AGENTS)
def test_three_runs(world, name, bailey):
    """State stays: the third run knows the first one, where the agent can go on with a conversation."""
    w = world(name, {}).sign_in("key")
    for turn in range(3):
        again = turn == 2 and w.row.get("again")
        before = len(w.models.requests)
        result = w.run(*(w.row["again"] if again else w.row["words"]))
        assert result.status == 0, (turn, result)
    sent = b"".join(body for *_, body in w.models.requests[before:])
    if "again" in w.row:
        assert sent.count(PROMPT.encode()) >= 2, sent[-2000:]
    where = bailey("home", "path", cwd=w.work).check().text.strip()
    assert sum(len(files) for _, _, files in os.walk(where)) > 2
    w.check_secrets(result)


@pytest.mark.table
@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_the_end_is_the_agents(world, name):
    """A provider that refuses the key: the agent says so and fails, and so does `bailey run`."""
    w = world(name, {}).sign_in("key")
    w.models.refuses = True
    result = w.run()
    assert result.status not in (0, 125, 126, 127), result
    w.check_secrets(result)


# What an agent asks before it runs a command; the first answer is yes.
QUESTIONS = ["Trust this folder", "proceed", "Allow execution", "Would you like to run", "Permission required", "Do you want to run this command",
             "Would you like to continue", "Enter to continue", "Do you want to allow"]


def play(w, row, terminal, command):
    """It draws, takes a resize, Ctrl-Z and fg."""
    terminal.type(shlex.join(command))
    terminal.keys("Enter")
    answers = [(pattern, keys) for pattern, keys in row["answers"]]
    terminal.expect(row["ready"], answers=answers)
    time.sleep(3)  # some ask once more when they have drawn
    terminal.expect(row["ready"], answers=answers)

    terminal.resize(84, 30)
    time.sleep(1)
    terminal.expect(row["ready"])
    suspend = row.get("suspend", ["C-z"])
    if not suspend:
        terminal.keys("C-z")
        time.sleep(1)
        terminal.expect(row["ready"])
        return
    for key in suspend:
        terminal.keys(key)
        time.sleep(0.3)
    terminal.expect(r"Stopped|suspended|READY>")
    terminal.type("fg")
    terminal.keys("Enter")
    terminal.expect(row["ready"])


def work_and_ask(w, row, terminal, bailey):
    """It is told to work. The command waits for a host, a person in another terminal allows it."""
    terminal.type("Do it.")
    time.sleep(0.5)
    terminal.keys("Enter")
    asked, answered, end = False, {}, time.monotonic() + 120
    while time.monotonic() < end and not (w.work / "out.txt").exists():
        screen = terminal.screen()
        for question in QUESTIONS:
            if question in screen and time.monotonic() - answered.get(question, 0) > 10:
                answered[question] = time.monotonic()
                terminal.keys("Enter")
                if question == "Trust this folder":  # and what was typed before is gone
                    terminal.expect(row["ready"])
                    terminal.type("Do it.")
                    time.sleep(1)
                    terminal.keys("Enter")
        if "refused.test" in bailey("pending", cwd=w.work).text:
            asked = True
            bailey("allow", "refused.test", cwd=w.work)
        time.sleep(0.5)
    assert (w.work / "out.txt").exists(), f"the screen:\n{terminal.screen()}\n{[(h, m, p) for h, m, p, *_ in w.models.requests]}"
    terminal.expect("All done")
    assert asked and "ASKED=200" in w.said()["asked"], w.said()


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name == "claude" else pytest.mark.table) for name in AGENTS])
def test_in_a_terminal(world, name, tmp_path, closing, environment, bailey):
    row = AGENTS[name]["terminal"]
    w = world(name, {"asked": "curl -sS -m 60 -o /dev/null -w 'ASKED=%{http_code}' https://refused.test/; echo; echo 42 > out.txt"}).sign_in(row["how"])
    terminal = closing(Tmux(tmp_path, {**environment, **w.environment()}, w.work))
    play(w, row, terminal, [str(program("bailey")), *map(str, w.command(*row.get("words", []), options=["--ask", "control"])[1:])])
    work_and_ask(w, row, terminal, bailey)
    for _ in range(8):  # some clear what is typed first, some want it twice
        if terminal.screen().rstrip().endswith("READY>"):
            break
        for key in row.get("end", ["C-c"]):
            terminal.keys(key)
            time.sleep(0.6)
    terminal.expect(r"READY>\s*$", seconds=30)
    w.check_secrets()


PAGES = pathlib.Path(__file__).resolve().parents[2] / "docs/agents"


def test_versions_stand_in_the_table_alone():
    """Each agent has a page, which says how it is installed and leaves what was tried to the table."""
    pages = {path.stem: path.read_text() for path in PAGES.glob("*.md") if path.stem != "README"}
    for name, row in AGENTS.items():
        page = pages.pop({"cn": "continue"}.get(name, name))
        assert f"npm install -g {row['package']}`" in page and "README.md#the-table" in page
        assert not re.search(r"(?<![\d.])\d+\.\d+\.\d+(?![\d.])", page), f"{name}'s page names a version"
    assert not pages, "a page about an agent that nobody tries"


@pytest.mark.table
def test_the_table_says_what_is_true():
    """The page names the versions that were tried: a row that is out of date is seen."""
    rows = [line for line in (PAGES / "README.md").read_text().splitlines() if line.startswith("| `")]
    assert {row.split("`")[1] for row in rows} == set(AGENTS)
    old = [row for row in rows if version(row.split("`")[1]) not in row]
    assert not old, "tried with another version; run the table again and say so"
