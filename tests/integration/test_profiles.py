# SPDX-License-Identifier: Apache-2.0
"""Profiles as data: read, overridden, chosen by the program's name, several at once; and what they bring inside."""
import json
import pathlib
import shutil

import pytest
import yaml

from kit.process import wait_until

FILES = sorted((pathlib.Path(__file__).resolve().parents[2] / "profiles").glob("*.yaml"))
AGENTS = {"claude", "codex", "gemini", "opencode", "aider", "qwen", "copilot", "pi", "continue", "goose", "cursor", "amp", "crush"}
KEY = "sk-0123456789abcdefghijklmnop"


@pytest.fixture
def agent(home):
    """agent("claude", script) makes a program of that name in PATH and gives that PATH."""
    def make(name, script='printenv; echo "ran as $0"', place=None):
        place = place or home / "tools"
        place.mkdir(exist_ok=True)
        (place / name).write_text(f"#!/bin/sh\n{script}\n")
        (place / name).chmod(0o755)
        return {"PATH": f"{place}:/usr/bin:/bin", "BAILEY_READ": str(place)}
    return make


def test_all_are_there_and_valid(bailey):
    listed = json.loads(bailey("profile", "ls", "--json").check().text)
    assert {x["name"] for x in listed} == AGENTS and all(x["title"] and x["programs"] and x["path"] is None for x in listed)
    plain = bailey("profile", "ls").check().text
    for name in AGENTS:
        assert f"{name} " in plain
        assert bailey("profile", "check", name).check().text == f"{name}: valid (built in)\n"
        shown = json.loads(bailey("profile", "show", "--json", name).check().text)
        assert shown["notes"] and (shown.get("credentials") or shown["network"]["allow"])


@pytest.mark.parametrize("there", [["AWS_SECRET_ACCESS_KEY"], ["AWS_ACCESS_KEY_ID"], ["AWS_SESSION_TOKEN"], ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]], ids="-".join)
@pytest.mark.parametrize("profile", ["opencode", "pi", "continue"])
def test_a_part_of_a_key_of_aws_is_left_out_and_said(bailey, work, profile, there):
    result = bailey("run", "--profile", profile, "--", "printenv", cwd=work, env={name: "AKIAIOSFODNN7EXAMPLE" if name.endswith("_ID") else f"wJalrXUtnFEMIK7MDENG{name}" for name in there}).check()
    assert not [name for name in there if f"{name}=" in result.text] and all(name in result.errors for name in there), result


def test_what_is_built_in_is_what_stands_in_the_files(bailey):
    assert {file.stem for file in FILES} == AGENTS
    for file in FILES:
        bailey("profile", "check", str(file)).check()
        content = yaml.safe_load(file.read_text())
        shown = json.loads(bailey("profile", "show", "--json", file.stem).check().text)
        assert shown["programs"] == content["programs"] and shown["network"]["quiet"] == content["network"]["quiet"]
        assert bailey("profile", "show", file.stem).check().text.endswith(file.read_text())


@pytest.mark.parametrize("text, told", [
    ("title: x\nprogrammes: [x]\n", "2:1: a profile has no key 'programmes' here; did you mean 'programs'?"),
    ("title: x\nnetwork: { allow: ['http://x'] }\n", "2:"),
    ("title: x\nnetwork: { alow: [x.example.com] }\n", "did you mean 'allow'"),
    ("title: x\ncredentials: [antropic]\n", "did you mean 'anthropic'"),
    ("title: x\ncredentials: [{ name: a, env: A }]\n", "source"),
    ("title: x\nhome: [{ path: ../x, content: y }]\n", "below the home"),
    ("title: x\nhome: [{ path: /etc/x, content: y }]\n", "below the home"),
    ("title: x\nprocess: { env: { set: { 'A=B': c } } }\n", "A=B"),
    ("title: x\nmode: full-network\n", "no key 'mode'"),
    ("- x\n", "no profile"),
    ("title: [", ":1:"),
])
def test_mistakes_are_told_with_their_place(bailey, home, text, told):
    (home / "mine.yaml").write_text(text)
    refused = bailey("profile", "check", str(home / "mine.yaml"))
    assert refused.status == 3 and told in refused.errors
    said = json.loads(bailey("profile", "check", "--json", str(home / "mine.yaml")).text)
    assert said["valid"] is False and told in said["error"]


def test_a_name_that_is_none(bailey, work):
    for words in (("profile", "show", "cluade"), ("profile", "check", "cluade")):
        missing = bailey(*words)
        assert missing.status == 4 and "did you mean 'claude'" in missing.errors
    assert bailey("profile", "show", "../../etc/passwd").status == 4
    assert bailey("run", "--profile", "cluade", "--", "true", cwd=work).status == 121


def test_a_program_chooses_its_profile_and_one_line_says_so(bailey, work, agent):
    path = agent("claude")
    result = bailey("run", "--", "claude", cwd=work, env={**path, "ANTHROPIC_API_KEY": KEY}).check()
    assert "profile claude, by the program's name" in result.errors and "--profile none" in result.errors
    assert "DISABLE_AUTOUPDATER=1" in result.text and "ANTHROPIC_API_KEY=sk-" in result.text and KEY not in result.text
    plain = bailey("run", "--profile", "none", "--", "claude", cwd=work, env={**path, "ANTHROPIC_API_KEY": KEY}).check()
    assert "profile claude" not in plain.errors and "ANTHROPIC_API_KEY" not in plain.text and "DISABLE_AUTOUPDATER" not in plain.text
    other = bailey("run", "--profile", "codex", "--", "claude", cwd=work, env={**path, "ANTHROPIC_API_KEY": KEY}).check()
    assert "profile claude" not in other.errors and "DISABLE_AUTOUPDATER" not in other.text
    assert "by the program's name" not in bailey("run", "--", "true", cwd=work).check().errors
    assert "by the program's name" not in bailey("run", "--profile", "claude", "--", "claude", cwd=work, env=path).check().errors


def test_a_program_of_the_workspace_chooses_nothing(bailey, work, home, agent):
    """What is to be confined does not name its own grants, also not by a link on the way to it."""
    agent("claude", place=work)
    (work / "links").mkdir()
    (work / "links/claude").symlink_to("/usr/bin/env")
    agent("claude", place=home / "tools")
    for place, target in (("file", work / "links/claude"), ("directory", work / "there/claude")):
        (home / place).mkdir()
        (home / place / "claude").symlink_to(target)
    (work / "there").symlink_to(home / "tools")
    seen = [word for name in ("file", "directory", "tools") for word in ("--read", str(home / name))]
    for i, (program, env) in enumerate((("./claude", {}), (str(work / "claude"), {}), ("claude", {"PATH": f"{work}:/usr/bin:/bin"}), ("links/claude", {}),
                         ("claude", {"PATH": f"{work}/links:/usr/bin:/bin"}), ("claude", {"PATH": f"{home}/file:/usr/bin:/bin"}),
                         (f"{home}/directory/claude", {}))):
        result = bailey("run", "--home", f"home{i}", *seen, "--", program, cwd=work, env={"ANTHROPIC_API_KEY": KEY, **env})
        assert "by the program's name" not in result.errors and "ANTHROPIC_API_KEY" not in result.text and result.status == 0, result
        assert "if this starts claude: --profile claude" in result.errors, result
    (home / "file/claude").unlink()
    (home / "file/claude").symlink_to("../tools/claude")
    result = bailey("run", *seen, "--", "../file/claude", cwd=work).check()
    assert "profile claude, by the program's name" in result.errors, result


@pytest.mark.parametrize("words,name", [("env A=1 claude", "claude"), ("npx -y @openai/codex@latest", "codex"), ("python3 -m aider", "aider"), ("nice true", None),
                                        ("npm run codex", None), ("npm exec @google/gemini-cli", "gemini"), ("nice -n 5 claude", "claude"),
                                        ("env cat docs/claude", None)])
def test_an_agent_that_another_program_starts(bailey, work, agent, words, name):
    """It gets nothing by itself; one line says what to write, once in a home."""
    result = bailey("run", "--", *words.split(), cwd=work, env=agent(words.split()[0]))
    assert (f"--profile {name} gives it what it needs" in result.errors) if name else "--profile" not in result.errors, result
    assert "by the program's name" not in result.errors
    assert "gives it what it needs" not in bailey("run", "--", *words.split(), cwd=work, env=agent(words.split()[0])).errors


def test_several_at_once(bailey, work):
    env = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY[::-1] + "x"}
    result = bailey("run", "--profile", "claude", "--profile", "codex", "--profile", "claude", "--", "printenv", cwd=work, env=env).check()
    assert "ANTHROPIC_API_KEY=" in result.text and "CODEX_API_KEY=" in result.text and KEY not in result.text
    shown = bailey("policy", "show", "--profile", "claude", "--profile", "codex", cwd=work).check().text
    assert "@anthropic" in shown and "@openai" in shown and shown.count("statsig.anthropic.com") == 1


@pytest.mark.parametrize("given", [{"OPENAI_API_KEY": KEY}, {"CODEX_API_KEY": KEY}, {"OPENAI_API_KEY": "sk-other-0123456789", "CODEX_API_KEY": KEY}])
def test_codex_finds_its_key_where_it_looks(bailey, work, given):
    """It reads CODEX_API_KEY, and sends it to two hosts of the provider's."""
    result = bailey("run", "--profile", "codex", "--", "printenv", cwd=work, env=given).check()
    inside = dict(line.split("=", 1) for line in result.text.splitlines() if "=" in line)
    assert inside["CODEX_API_KEY"].startswith("sk-") and not any(value in inside.values() for value in given.values())
    shown = bailey("policy", "show", "--profile", "codex", cwd=work, env=given).check().text
    assert "api.openai.com:443" in shown and "chatgpt.com:443" in shown


def test_a_key_that_only_one_agent_knows(bailey, work):
    for profile, name in (("amp", "AMP_API_KEY"), ("cursor", "CURSOR_API_KEY"), ("qwen", "DASHSCOPE_API_KEY")):
        result = bailey("run", "--profile", profile, "--", "printenv", name, cwd=work, env={name: KEY}).check()
        assert result.text.strip() and KEY not in result.text
        assert bailey("run", "--profile", profile, "--", "printenv", name, cwd=work).status == 1
        assert bailey("run", "--profile", profile, "--env-pass", name, "--", "printenv", name, cwd=work, env={name: KEY}).check().text == KEY + "\n"


def test_amp_sends_its_key_as_its_models_do(bailey, work):
    """To the same host: as a bearer to Amp's own calls, in the headers of the model APIs that it passes on."""
    shown = bailey("policy", "show", "--profile", "amp", cwd=work, env={"AMP_API_KEY": KEY}).check().text
    assert "bearer" in shown and "header:x-api-key" in shown and "header:x-goog-api-key" in shown


def test_what_a_person_sets_counts(bailey, work):
    result = bailey("run", "--profile", "claude", "-e", "DISABLE_AUTOUPDATER=0", "--", "printenv", "DISABLE_AUTOUPDATER", cwd=work).check()
    assert result.text == "0\n"


def test_a_file_of_the_users_counts_instead(bailey, work, home, agent):
    place = home / ".config" / "bailey" / "profiles"
    place.mkdir(parents=True)
    (place / "claude.yaml").write_text("title: Mine\nprograms: [claude, my-agent]\nprocess: { env: { set: { MINE: yes } } }\n")
    (place / "other.yaml").write_text("title: Other\nprograms: [other-agent]\nprocess: { env: { set: { OTHER: yes } } }\n")
    assert f"{place / 'claude.yaml'}" in bailey("profile", "ls").check().text
    assert json.loads(bailey("profile", "show", "--json", "claude").check().text)["title"] == "Mine"
    path = agent("my-agent")
    agent("other-agent")
    assert "MINE=yes" in bailey("run", "--", "my-agent", cwd=work, env=path).check().text
    result = bailey("run", "--", "other-agent", cwd=work, env=path).check()
    assert "OTHER=yes" in result.text and "profile other, by the program's name" in result.errors
    (place / "claude.yaml").write_text("title: [\n")
    broken = bailey("run", "--profile", "claude", "--", "true", cwd=work)
    assert broken.status == 121 and "claude.yaml" in broken.errors
    shutil.rmtree(place)


def test_a_workspace_may_not_name_one(bailey, work):
    for text in ("profile: claude\n", "network: { quiet: [example.com] }\n"):
        (work / ".bailey.yaml").write_text(text)
        refused = bailey("run", "--", "true", cwd=work)
        assert refused.status == 123 and "asks for more" in refused.errors


def test_the_agents_home_has_its_settings_and_a_word_for_it(bailey, work):
    look = "cat ~/.codex/config.toml ~/.codex/AGENTS.md; test -e ~/.claude || echo no claude"
    result = bailey("run", "--profile", "codex", "--", "sh", "-c", look, cwd=work).check()
    assert 'sandbox_mode = "danger-full-access"' in result.text and "approval" not in result.text.lower().replace("approvals are as ever", "")
    assert "bailey why HOST" in result.text and "no claude" in result.text
    # What the agent makes of its settings stays; the text is Bailey's.
    change = "echo 'model = \"x\"' > ~/.codex/config.toml; echo > ~/.codex/AGENTS.md"
    bailey("run", "--profile", "codex", "--", "sh", "-c", change, cwd=work).check()
    again = bailey("run", "--profile", "codex", "--", "sh", "-c", look, cwd=work).check()
    assert 'model = "x"' in again.text and "danger-full-access" not in again.text
    for profile, file in (("claude", ".claude/settings.json"), ("gemini", ".gemini/settings.json"), ("qwen", ".qwen/settings.json")):
        settings = json.loads(bailey("run", "--profile", profile, "--", "sh", "-c", f"cat ~/{file}", cwd=work).check().text)
        assert settings.get("sandbox", settings.get("tools", {})) in ({"enabled": False}, {"sandbox": False})


def test_the_home_outside_is_left_alone(bailey, work, home):
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text("mine\n")
    bailey("run", "--profile", "codex", "--", "sh", "-c", "echo theirs > ~/.codex/config.toml; echo > ~/.codex/new", cwd=work).check()
    assert (home / ".codex" / "config.toml").read_text() == "mine\n" and not (home / ".codex" / "new").exists()
    assert not (home / ".codex" / "AGENTS.md").exists()


def test_with_the_real_home_its_directory_can_be_written(bailey, work, home):
    shown = bailey("policy", "show", "--home", "real", "--profile", "claude", cwd=work).check().text
    assert f"{home}/.claude #" in shown and f"{home}/.claude/settings.json #" in shown
    assert f"{home}/.claude" not in bailey("policy", "show", "--profile", "claude", cwd=work).check().text


def test_a_habit_is_refused_recorded_and_not_printed(bailey, work):
    script = "for h in statsig.anthropic.com.example raw.githubusercontent.com; do curl -s -m 20 http://$h/ ; done; curl -s -m 20 https://github.com/; true"
    result = bailey("run", "--profile", "claude", "--", "sh", "-c", script, cwd=work).check()
    assert "githubusercontent" not in result.errors and "refused github.com" not in result.errors
    assert "refused statsig.anthropic.com.example" in result.errors
    recorded = bailey("log", "--denied").text
    assert "raw.githubusercontent.com" in recorded and "github.com" in recorded
    loud = bailey("run", "--", "sh", "-c", script, cwd=work).check()
    assert "refused raw.githubusercontent.com" in loud.errors


def test_nobody_is_asked_about_a_habit(bailey, work):
    """With --ask it is refused at once: curl's status is not that of its time limit, which a host that is asked about runs into. What a
    person allows is allowed all the same."""
    script = "for u in https://raw.githubusercontent.com/ http://raw.githubusercontent.com/ https://other.example/; do curl -s -m 5 $u; echo $?; done"
    result = bailey("run", "--profile", "claude", "--ask", "control", "--", "sh", "-c", script, cwd=work).check()
    habit, plain, other = result.text.split()[-3:]
    assert habit not in ("0", "28") and plain != "28" and other == "28", result
    assert "githubusercontent" not in result.errors
    recorded = bailey("log", "--denied").text
    assert "raw.githubusercontent.com" in recorded
    for options, decision in ((["--ask", "control"], "deny"), (["--ask", "control", "--allow", "raw.githubusercontent.com"], "allow")):
        why = json.loads(bailey("why", "--json", "--profile", "claude", *options, "raw.githubusercontent.com:443", cwd=work).text)
        assert why["decision"] == decision, why


def test_the_first_refusal_is_told_while_the_program_runs(bailey, work, start):
    script = "curl -s -m 20 http://evil.example/; curl -s -m 20 http://evil.example/; until test -e go; do sleep 0.05; done"
    child = start(["bailey", "run", "--", "sh", "-c", script], cwd=work)
    wait_until(lambda: "refused evil.example" in child.errors(), what="the line")
    assert child.running() and "--allow evil.example" in child.errors()
    (work / "go").touch()
    assert child.wait().status == 0
    assert child.errors().count("refused evil.example:80:") == 1 and "refused evil.example:80 (2 times)" in child.errors()
