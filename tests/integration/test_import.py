# SPDX-License-Identifier: Apache-2.0
"""bailey import: realistic settings of each tool and the policies that they become; files that are half written, hostile or enormous.

tests/cases/import/NAME.TOOL.EXT becomes NAME.TOOL.policy, with @WORK@ and @HOME@ for this machine's places; UPDATE=1 writes those.
"""
import json
import os
import pathlib
import re

import pytest

from kit.process import SLOW

CASES = pathlib.Path(__file__).resolve().parents[1] / "cases/import"
DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs/import.md"
FILES = sorted(path for path in CASES.iterdir() if path.suffix != ".policy")
ENDINGS = {"claude": "json", "codex": "toml", "srt": "json", "fence": "jsonc", "gemini": "json", "devcontainer": "sh"}
DROPPED = {"project.claude", "team.fence", "settings.gemini", "rules.gemini", "workspace.codex"}
GOOD = {"claude": '{"permissions": {"deny": ["Read(./x)"]}}', "codex": 'sandbox_mode = "workspace-write"\n', "srt": '{"network": {"allowedDomains": ["a.test"]}}',
        "fence": '{"network": {"allowedDomains": ["a.test"]}}', "gemini": '{"tools": {"sandbox": true}}', "devcontainer": 'for domain in "a.test"; do :; done\n'}


@pytest.fixture
def imported(bailey, work):
    return lambda *words, **more: bailey("import", *words, cwd=work, **more)


@pytest.mark.visible_home
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_realistic_file(path, imported, bailey, work, home):
    tool = path.name.split(".")[1]
    (work / path.name).write_text(path.read_text())
    result = imported(tool, path.name)
    assert result.status == (3 if ".".join(path.name.split(".")[:2]) in DROPPED else 0), result
    assert ('marked with "!"' in result.errors) == (result.status == 3) == ("\n# ! " in result.text)
    golden = path.with_suffix(".policy")
    text = result.text.replace(str(work), "@WORK@").replace(str(home), "@HOME@")
    if os.environ.get("UPDATE"):
        golden.write_text(text)
    assert text == golden.read_text()

    policy = home / "policy.yaml"
    policy.write_text(result.text)
    bailey("policy", "check", policy, cwd=work).check()
    ran = bailey("run", "--policy", policy, "--", "sh", "-c", "echo ran; (echo x > made) 2> /dev/null", cwd=work, env={"GITHUB_TOKEN": "ghp_" + "x" * 36})
    assert "ran\n" in ran.text, ran
    assert (work / "made").exists() == ("the project be written" not in result.text)


def test_four_files_of_claude_are_merged(imported, home, work):
    """Lists add up; a denial of any file holds; ~/.claude's own paths are denied where they may be meant."""
    for place, rules in ((home, {"deny": ["Read(/keys/**)", "Bash(sudo:*)"], "allow": ["Edit(/everywhere)"]}), (work, {"allow": ["WebFetch(domain:a.test)"]})):
        (place / ".claude").mkdir()
        (place / ".claude/settings.json").write_text(json.dumps({"permissions": rules}))
    (work / ".claude/settings.local.json").write_text('{"permissions": {"deny": ["WebFetch(domain:a.test)"], "defaultMode": "plan"}}')
    result = imported("claude").check()
    assert [line for line in result.text.splitlines() if line.startswith("#   ")] == [
        f"#   {work}/.claude/settings.local.json", f"#   {work}/.claude/settings.json", f"#   {home}/.claude/settings.json"]
    assert f'- "{home}/.claude/keys"' in result.text and f'- "{home}/keys"' in result.text
    assert "not certain what this path is relative to" in result.text
    assert f'    - "{work}" # the source does not let the project be written to' in result.text
    assert 'argv: ["sudo"]' in result.text


def test_codex_s_requirements(imported, work):
    """What an administrator denies holds in any mode, and nothing is granted by it."""
    (work / "config.toml").write_text('sandbox_mode = "workspace-write"\n[sandbox_workspace_write]\nnetwork_access = true\nwritable_roots = ["/srv/x"]\n')
    (work / "etc").mkdir()
    required = work / "etc/requirements.toml"
    required.write_text('allowed_sandbox_modes = ["read-only", "workspace-write"]\nallowed_approval_policies = ["never"]\n'
                        '[permissions.filesystem]\ndeny_read = ["/srv/secret", "**/*.pem", "./near"]\n'
                        '[experimental_network]\nallowed_domains = ["a.test.example"]\ndenied_domains = ["b.test.example"]\n'
                        '[experimental_network.domains]\n"**.c.test.example" = "deny"\n"d.test.example" = "allow"\n'
                        '[rules]\nprefix_rules = [{ pattern = [{ token = "git" }, { any_of = ["push", "pull"] }], decision = "forbidden", justification = "no" }]\n')
    for files in (("etc/requirements.toml", "config.toml"), ("config.toml", "etc/requirements.toml")):
        text = imported("codex", *files).check().text
        denied = text.split("deny_read:")[1].split("deny_write:")[0]
        assert all(f'"{path}"' in denied for path in ("/srv/secret", f"{work}/near", f"{work}/etc/near")) and ".pem" in denied, text
        assert all(f'- "{host}"' in text for host in ("b.test.example", "c.test.example", "*.c.test.example")) and "/srv/x" in text, text
        assert 'argv: ["git", "push"]' in text and 'argv: ["git", "pull"]' in text and 'decision: forbid' in text, text
        assert '- "a.test.example"' not in text and '- "d.test.example"' not in text
    required.write_text('allowed_sandbox_modes = ["read-only"]\nallowed_permission_profiles = { x = true }\n')
    result = imported("codex", "config.toml", "etc/requirements.toml")
    assert result.status == 3 and "\nmode: read-only\n" in result.text and '- "/srv/x"' not in result.text, result
    required.write_text('[experimental_network]\nmanaged_allowed_domains_only = true\n')
    text = imported("codex", "config.toml", "etc/requirements.toml").check().text
    assert "full-network" not in text, text
    for wrong in ('allowed_sandbox_modes = "x"', '[rules]\nprefix_rules = [{ pattern = [{ token = "x" }] }]', '[rules]\nprefix_rules = [{ pattern = [{}], decision = "prompt" }]',
                  '[permissions.filesystem]\ndeny_read = [1]'):
        required.write_text(wrong + "\n")
        assert imported("codex", "etc/requirements.toml").status == 1, wrong


def test_codex_s_required_lists_limit(imported, work):
    """An administrator's list of hosts or sockets, or the proxy alone, leaves no more open than it says: neither a mode nor a user's list does."""
    mode = 'sandbox_mode = "workspace-write"\n[sandbox_workspace_write]\nnetwork_access = true\n'
    star = 'default_permissions = "p"\n[permissions.p.network]\nenabled = true\ndomains = { "*" = "allow" }\n'
    for config in (mode, star):
        (work / "config.toml").write_text(config)
        for required in ("enabled = true", 'domains = { "a.test.example" = "allow" }', 'allowed_domains = ["a.test.example"]', "allowed_domains = []"):
            (work / "requirements.toml").write_text(f"[experimental_network]\n{required}\n")
            for files in (("requirements.toml", "config.toml"), ("config.toml", "requirements.toml")):
                text = imported("codex", *files).check().text
                assert "\nmode: workspace-write-whitelist\n" in text and "no mode opens every host" in text and "  allow: []" in text, (required, text)
        (work / "requirements.toml").write_text("[experimental_network]\nenabled = false\n")
        assert "\nmode: full-network\n" in imported("codex", "requirements.toml", "config.toml").check().text

    (work / "config.toml").write_text(mode)
    (work / "requirements.toml").write_text("[features]\nnetwork_proxy = true\n")
    assert "\nmode: workspace-write-whitelist\n" in imported("codex", "requirements.toml", "config.toml").check().text
    (work / "config.toml").write_text('default_permissions = "p"\n[permissions.p.network]\nenabled = true\n[permissions.p.network.domains]\n'
                                      + "".join(f'"{host}" = "allow"\n' for host in ("a.test.example", "*.x.B.test", "b.test", "c.test", "*.c.test", "xc.test", "localhost:81"))
                                      + '[permissions.p.network.unix_sockets]\n"/run/a.sock" = "allow"\n"/run/b.sock" = "allow"\n')

    def opened(required):
        (work / "requirements.toml").write_text(f"[experimental_network]\n{required}\n")
        text = imported("codex", "requirements.toml", "config.toml").check().text
        return set(re.findall(r'^ +- "?([^" ]+)"? # .*config.toml', text, re.M)), text

    found, text = opened('domains = { "A.test.example" = "allow", "*.b.test" = "allow", "**.c.test" = "allow" }')
    assert {"a.test.example", "*.x.B.test", "c.test", "*.c.test"} == {host for host in found if "test" in host}, text
    assert "/run/a.sock" in found and "81" not in found and "the administrator's list does not have it" in text, text
    for sockets in ('unix_sockets = { "/run/b.sock" = "allow" }', 'allow_unix_sockets = ["/run/../run/b.sock"]'):
        found, text = opened(sockets)
        assert "/run/b.sock" in found and "/run/a.sock" not in found and {"b.test", "81"} <= found, text
    assert opened("managed_allowed_domains_only = true")[0] == {"/run/a.sock", "/run/b.sock"}


def test_codex_s_proxy_limits_a_mode(imported, work):
    """[features.network_proxy] lists what is open of a network that is open; where none is, it opens nothing."""
    config, proxy = work / "config.toml", '[features.network_proxy]\nenabled = true\ndomains = { "a.test.example" = "allow", "b.test.example" = "deny", "*" = "allow" }\n'
    mode = 'sandbox_mode = "workspace-write"\n[sandbox_workspace_write]\nnetwork_access = '
    config.write_text(f"{mode}true\n[features]\nnetwork_proxy = true\n")
    text = imported("codex", "config.toml").check().text
    assert "\nmode: workspace-write-whitelist\n" in text and "  allow: []" in text and "no mode opens every host" in text, text
    config.write_text(f"{mode}true\n{proxy}")
    text = imported("codex", "config.toml").check().text
    assert "\nmode: workspace-write-whitelist\n" in text and '- "a.test.example"' in text and '- "b.test.example"' in text.split("deny:")[1], text
    config.write_text(f"{mode}false\n{proxy}")
    text = imported("codex", "config.toml").check().text
    assert "\nmode: workspace-write\n" in text and "network:" not in text, text
    config.write_text(f"{mode}true\n{proxy}".replace("enabled = true", "enabled = false"))
    assert "\nmode: full-network\n" in imported("codex", "config.toml").check().text
    config.write_text('default_permissions = "p"\n[permissions.p.network]\nenabled = true\ndomains = { "c.test.example" = "allow" }\n' + proxy)
    text = imported("codex", "config.toml").check().text
    assert '- "c.test.example"' in text and '- "a.test.example"' not in text and "full-network" not in text, text


def test_an_administrator_s_hosts_alone(imported, work):
    """allowManagedDomainsOnly: what other files allow does not count."""
    (work / "a.json").write_text('{"sandbox": {"network": {"allowManagedDomainsOnly": true, "allowedDomains": ["a.test.example"]}}}')
    (work / "b.json").write_text('{"sandbox": {"network": {"allowedDomains": ["b.test.example", "*"]}}}')
    text = imported("claude", "a.json", "b.json").check().text
    assert '- "a.test.example"' in text and '- "b.test.example"' not in text and "full-network" not in text


def test_the_project_s_codex_settings_come_first(imported, home, work):
    for place, mode in ((home, "workspace-write"), (work, "read-only")):
        (place / ".codex").mkdir()
        (place / ".codex/config.toml").write_text(f'sandbox_mode = "{mode}"\n')
    assert "\nmode: read-only\n" in imported("codex").check().text
    (work / ".codex/config.toml").write_text('sandbox_mode = "danger-full-access"\n')
    result = imported("codex")
    assert result.status == 1 and result.out == b"" and ".codex/config.toml:1:16: danger-full-access means no sandbox at all" in result.errors


SAFE = '[profiles.safe]\nsandbox_mode = "read-only"\n'


@pytest.mark.parametrize("project,own", [
    ('sandbox_mode = "workspace-write"\n', 'profile = "safe"\n' + SAFE),
    ('sandbox_mode = "workspace-write"\n' + SAFE, 'profile = "safe"\n'),
    ('profile = "safe"\n', 'sandbox_mode = "workspace-write"\n' + SAFE),
    ('profile = "safe"\n[profiles.safe]\nsandbox_mode = "workspace-write"\n', 'sandbox_mode = "read-only"\n'),
], ids=["home", "split", "split back", "file"])
def test_codex_finds_its_profile_in_all_files(project, own, imported, home, work):
    """Codex merges its files before it looks for the profile, and the stricter of what may count does."""
    for place, text in ((home, own), (work, project)):
        (place / ".codex").mkdir()
        (place / ".codex/config.toml").write_text(text)
    text = imported("codex").check().text
    assert "\nmode: read-only\n" in text and "whether the profile counts" in text
    (work / ".codex/config.toml").write_text('default_permissions = "m"\nprofile = "safe"\n[permissions.m.filesystem]\n"/x" = "write"\n' + SAFE)
    result = imported("codex")
    assert result.status == 1 and ".codex/config.toml:2:11: it depends on Codex's version whether" in result.errors, result


def test_a_variable_that_a_denial_begins_with(imported, work):
    """What it stands for is not known: the denial is not lost."""
    (work / "in.json").write_text('{"filesystem": {"denyRead": ["$PWD/x"]}}')
    result = imported("srt", "in.json")
    assert result.status == 1 and "in.json:1:30: '$PWD/x': what the variable stands for is not known" in result.errors, result


def test_writing(imported, work):
    """Never without --write, never over something without --force; whole, and no link is followed."""
    (work / "s.json").write_text(GOOD["srt"])
    text = imported("srt", "s.json").check().text
    assert not (work / ".bailey.yaml").exists()
    imported("srt", "s.json", "--write").check()
    assert (work / ".bailey.yaml").read_text() == text
    assert imported("srt", "s.json", "--check").check().text == ""
    (work / "s.json").write_text('{"network": {"allowedDomains": ["b.test"]}}')
    again = imported("srt", "s.json", "--write")
    assert again.status == 1 and "already" in again.errors and (work / ".bailey.yaml").read_text() == text
    check = imported("srt", "s.json", "--check")
    assert check.status == 1 and "- " in check.text and '+     - "b.test"' in check.text and '-     - "a.test"' in check.text
    imported("srt", "s.json", "--write", "--force").check()
    assert '"b.test"' in (work / ".bailey.yaml").read_text()

    (work / "kept").write_text("mine")
    (work / "link.yaml").symlink_to("kept")
    assert imported("srt", "s.json", "--write", "--output", "link.yaml").status == 1
    imported("srt", "s.json", "--write", "--force", "--output", "link.yaml").check()
    assert (work / "kept").read_text() == "mine" and not (work / "link.yaml").is_symlink()
    assert imported("srt", "s.json", "--check", "--output", "none.yaml").status == 1
    assert imported("srt", "s.json", "--check", "--write").status == 2


def test_words(imported):
    assert "did you mean 'claude'" in imported("clade").errors
    result = imported("srt")
    assert result.status == 1 and "there are no settings of srt here" in result.errors


BROKEN = {
    "half": ('{"permissions": {"deny": ["Read(./x)"', 'sandbox_mode = "work', '{"network": {"allowedDomains": [', '{"network": {', '{"tools": ', 'for domain in "a.test" \\\n'),
    "twice": ('{"permissions": {}, "permissions": {}}', 'a = 1\na = 2\n', '{"network": {}, "network": {}}', '{"ssh": {}, "ssh": {}}', '{"tools": {}, "tools": {}}', None),
    "types": ('{"permissions": {"deny": "Read"}}', "sandbox_mode = 3\n", '{"network": {"allowedDomains": {"a": 1}}}', '{"filesystem": {"denyRead": [1]}}', '{"tools": {"exclude": true}}', None),
    "root": ("[]", "= 1\n", '"text"', "7", "null x", None),
    "bytes": (b'{"a": "\xff"}', b'a = "\xff"\n', b"\x00\x01", b"{\x00}", b'{"a": "\xed\xa0\x80"}', b"for domain in \x00\n"),
    "deep": (b"[" * 100000, b"a = " + b"[" * 100000, b'{"a":' * 100000, b"[" * 100000, b"[" * 100000, None),
    "long": (b'{"permissions": {"deny": ["Read(' + b"a" * 100000 + b')"]}}', b'sandbox_mode = "' + b"a" * 100000 + b'"', b'{"filesystem": {"denyRead": ["' + b"/a" * 50000 + b'"]}}',
             b'{"filesystem": {"denyRead": ["' + b"{a,b}" * 100 + b'"]}}', b'{"tools": {"sandboxAllowedPaths": ["' + b"a" * 100000 + b'"]}}', b'for domain in "a.test' + b"a" * 100000),
}


@pytest.mark.parametrize("tool", ENDINGS)
@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_an_error_with_its_place(what, tool, imported, work):
    content = BROKEN[what][list(ENDINGS).index(tool)]
    if content is None:
        content = BROKEN["half"][list(ENDINGS).index(tool)]
    name = f"in.{ENDINGS[tool]}"
    (work / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    result = imported(tool, name, "--write")
    assert result.status == 1 and result.out == b"" and len(result.errors) < 1500, result
    assert re.search(rf"bailey: error: import {tool}: {re.escape(name)}(:\d+:\d+)?: ", result.errors), result.errors
    assert sorted(os.listdir(work)) == [name]


WORD = "a" * (3 << 20)
# A word of 3 MB wherever a file can have one: as a command, a host, a path, a name, a key, and where nobody looks.
ENORMOUS = [
    ("claude", json.dumps({"permissions": {"deny": [f"Bash({WORD})"]}})),
    ("claude", json.dumps({"permissions": {"ask": [f"WebFetch(domain:{WORD})"]}})),
    ("claude", json.dumps({"statusLine": {"command": WORD}})),
    ("claude", json.dumps({WORD: 1})),
    ("codex", f'model = "{WORD}"\n'),
    ("codex", f'[permissions.x.network.domains]\n"{WORD}" = "deny"\n'),
    ("codex.rules", f'prefix_rule(pattern=["{WORD}"], decision="forbidden")\n'),
    ("codex.rules", f'prefix_rule(pattern=["a", ["b", "{WORD}"]], decision="forbidden")\n'),
    ("srt", json.dumps({"network": {"deniedDomains": [WORD]}})),
    ("srt", json.dumps({"network": {"parentProxy": {"http": f"http://{WORD}"}}})),
    ("srt", json.dumps({"credentials": {"envVars": [{"name": WORD, "mode": "mask", "injectHosts": ["a.test"]}]}})),
    ("fence", json.dumps({"command": {"deny": [WORD]}})),
    ("fence", json.dumps({"ssh": {"allowedHosts": [WORD]}})),
    ("gemini", json.dumps({"tools": {"exclude": [f"run_shell_command({WORD})"]}})),
    ("gemini.toml", f'[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = "{WORD}"\ndecision = "deny"\npriority = 1\n'),
    ("devcontainer", f'for domain in "{WORD[:900000]}"; do\n'),
    ("devcontainer", f"HOSTS=({WORD[:900000]})\n"),
]


@pytest.mark.parametrize("tool, text", ENORMOUS, ids=range(len(ENORMOUS)))
def test_an_enormous_word_is_an_error_with_its_place(tool, text, imported, work):
    tool, _, ending = tool.partition(".")
    name = f"in.{ending or ENDINGS[tool]}"
    (work / name).write_text(text)
    result = imported(tool, name, "--write")
    assert result.status == 1 and result.out == b"" and len(result.errors) < 500, result
    assert re.search(rf"bailey: error: import {tool}: {re.escape(name)}:\d+:\d+: a (key|text) has at most 64 KiB", result.errors), result.errors
    assert sorted(os.listdir(work)) == [name]


@pytest.mark.parametrize("tool, ending, text", [
    ("claude", "json", '{"permissions": {"deny": ["Bash(%s)"]}}'), ("codex", "rules", 'prefix_rule(pattern=["%s"], decision="forbidden")\n'),
    ("gemini", "toml", '[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = "%s"\ndecision = "deny"\npriority = 1\n'),
    ("fence", "json", '{"command": {"deny": ["%s"]}}')])
def test_a_word_of_a_command_has_a_limit(tool, ending, text, imported, bailey, work):
    """The same as in a policy, so that what is imported can be loaded."""
    name = f"in.{ending}"
    (work / name).write_text(text % ("a" * 4097))
    result = imported(tool, name, "--write")
    assert result.status == 1 and result.out == b"" and "a word of a command has 1 to 4096 bytes, this one 4097" in result.errors, result
    assert sorted(os.listdir(work)) == [name]
    (work / name).write_text(text % ("a" * 4096))
    (work / "policy.yaml").write_text(imported(tool, name).check().text)
    bailey("policy", "check", "policy.yaml", cwd=work).check()
    (work / "policy.yaml").write_text((work / "policy.yaml").read_text().replace("a" * 4096, "a" * 4097))
    result = bailey("policy", "check", "policy.yaml", cwd=work)
    assert result.status == 3 and "a word of a command has 1 to 4096 bytes" in result.errors, result


@pytest.mark.parametrize("tool", ENDINGS)
def test_a_file_cut_off_anywhere(tool, imported, work):
    """Half written at every byte: an error, or the whole meaning of what is there; never a crash, never a file."""
    text = next(path for path in FILES if path.name.split(".")[1] == tool and path.suffix == f".{ENDINGS[tool]}").read_bytes()
    name = f"in.{ENDINGS[tool]}"
    for end in range(0, len(text), max(1, len(text) // (6 if SLOW else 24))):
        (work / name).write_bytes(text[:end])
        result = imported(tool, name, "--write", "--output", "out.yaml")
        assert result.status in (0, 1, 3), result
        assert (work / "out.yaml").exists() == (result.status != 1)
        (work / "out.yaml").unlink(missing_ok=True)


@pytest.mark.parametrize("tool", ENDINGS)
def test_what_is_no_settings_file(tool, imported, work, home):
    """Devices, pipes, directories and 100 MB are refused at once; a link in the project is not followed unless it is named."""
    name = f"in.{ENDINGS[tool]}"
    os.mkfifo(work / "pipe")
    (work / "directory").mkdir()
    for path, words in (("/dev/zero", "not a regular file"), ("pipe", "not a regular file"), ("directory", "not a regular file"), ("none", "cannot open")):
        result = imported(tool, path, "--write", timeout=30)
        assert result.status == 1 and words in result.errors, result
    with open(work / name, "wb") as file:
        file.truncate(100 << 20)
    result = imported(tool, name, "--write", timeout=30)
    assert result.status == 1 and "MiB" in result.errors
    assert not (work / ".bailey.yaml").exists()


@pytest.mark.parametrize("tool, place", [("claude", ".claude/settings.json"), ("codex", ".codex/config.toml"), ("fence", "fence.jsonc"),
                                         ("gemini", ".gemini/settings.json"), ("devcontainer", ".devcontainer/init-firewall.sh")])
def test_a_link_of_the_project_is_not_followed(tool, place, imported, work, home):
    """Not the file, and not the directory that it is in: an error must not read out what lies elsewhere."""
    secret = home / "secret"
    secret.mkdir()
    file = secret / pathlib.Path(place).name
    file.write_text(GOOD[tool] + "hunter2 is no setting")
    target = work / place
    target.parent.mkdir(exist_ok=True)
    target.symlink_to(file)
    result = imported(tool)
    assert result.status == 1 and "symbolic link" in result.errors and "hunter2" not in result.errors
    if "/" in place:
        target.unlink()
        target.parent.rmdir()
        target.parent.symlink_to(secret)
        result = imported(tool)
        assert result.status == 1 and "symbolic link" in result.errors and "hunter2" not in result.errors


@pytest.mark.parametrize("tool, place, place_of", [
    ("claude", ".claude/settings.json", "work"), ("claude", ".claude/settings.local.json", "work"), ("claude", ".claude/settings.json", "home"),
    ("codex", ".codex/config.toml", "work"), ("codex", ".codex/rules", "work"), ("codex", ".codex/rules", "home"), ("srt", ".srt-settings.json", "home"),
    ("fence", "fence.jsonc", "work"), ("fence", ".config/fence/fence.json", "home"), ("gemini", ".gemini/settings.json", "work"),
    ("gemini", ".gemini/policies", "home"), ("devcontainer", ".devcontainer/init-firewall.sh", "work")])
def test_what_stands_in_place_of_settings(tool, place, place_of, imported, work, home):
    """A pipe, a socket or a directory where a tool has its settings: an error, at once, and nothing is written. So is what cannot be looked into."""
    target = (work if place_of == "work" else home) / place
    target.parent.mkdir(parents=True, exist_ok=True)
    listed = place.endswith(("rules", "policies"))
    os.mkfifo(target)
    assert_refused(imported(tool, "--write", timeout=20), target, work)
    target.unlink()
    if listed:
        target.write_text("")
        assert_refused(imported(tool, "--write", timeout=20), target, work)
        target.unlink()
    target.mkdir()
    if not listed:
        assert_refused(imported(tool, "--write", timeout=20), target, work)
    if os.geteuid() == 0:
        return
    closed = target if listed else target.parent
    if closed in (work, home):
        return
    closed.chmod(0)
    try:
        assert_refused(imported(tool, "--write", timeout=20), closed, work)
    finally:
        closed.chmod(0o700)


def assert_refused(result, target, work):
    assert result.status == 1 and result.out == b"" and target.name in result.errors, result
    assert not (work / ".bailey.yaml").exists()


def test_hostile_words_stay_words(imported, bailey, work, tmp_path):
    """What a source says ends up in comments and strings of the policy, never as a line of it."""
    evil = 'x"\n  - evil.test\n#\u202e\x1b[31m'
    (work / "in.json").write_text(json.dumps({"network": {"allowedDomains": [evil, "a.test"], "deniedDomains": [evil], evil: 1},
                                              "filesystem": {"denyRead": ["/" + evil.replace("/", "_")], "allowWrite": [evil]}}))
    result = imported("srt", "in.json")
    assert result.status == 3 and "\x1b" not in result.text and "\u202e" not in result.text
    policy = tmp_path / "policy.yaml"
    policy.write_text(result.text)
    shown = json.loads(bailey("policy", "show", "--json", "--policy", policy, cwd=work).check().text)
    assert [entry["value"] for entry in shown["network.allow"]] == ["a.test"]
    assert "evil.test" not in [entry["value"] for entry in shown["network.deny"]]


def test_fence_files_extend_each_other(imported, work):
    (work / "base.json").write_text('{"network": {"deniedDomains": ["b.test.example"]}}')
    (work / "fence.jsonc").write_text('{"extends": "./base.json", "network": {"allowedDomains": ["*.test.example"]}}')
    text = imported("fence").check().text
    assert '- "b.test.example"' in text and '- "*.test.example"' in text
    (work / "base.json").write_text('{"extends": "./fence.jsonc"}')
    result = imported("fence")
    assert result.status == 1 and "extend each other" in result.errors


def test_the_example_of_the_documentation(imported, bailey, work, tmp_path):
    """docs/import.md: its settings become its policy."""
    blocks = re.findall(r"```(\w+)\n(.*?)```", DOCS.read_text(), re.S)
    settings = next(text for kind, text in blocks if kind == "jsonc")
    policy = next(text for kind, text in blocks if kind == "yaml")
    (work / ".claude").mkdir()
    (work / ".claude/settings.json").write_text(settings)
    result = imported("claude")
    assert result.status == 3
    body = result.text.split("\nmode: ", 1)[1].replace(str(work), "/home/me/app")
    assert ("mode: " + body).split() == policy.split()


STRICT = '{"filesystem": {"strictDenyRead": true}}'
# tool and ending; settings, {WORK} the project; what the policy must not have, and what it must.
NARROW = {
    "a rule about all edits wins over one about some": (
        "claude", "json", '{"permissions": {"allow": ["Edit(//data/**)"], "deny": ["Edit"]}}', ['- "/data"'], ['- "/" #']),
    "so does a question about all": ("claude", "json", '{"permissions": {"allow": ["Edit(//data/**)"], "ask": ["Edit"]}}', ['- "/data"'], ["a rule about all of the tool"]),
    "and about all hosts": ("claude", "json", '{"permissions": {"allow": ["WebFetch(domain:a.test.example)"], "deny": ["WebFetch"]}}', ['- "a.test'], []),
    "asked about all hosts": ("claude", "json", '{"permissions": {"allow": ["WebFetch(domain:a.test.example)"], "ask": ["WebFetch"]}}', ['- "a.test'], []),
    "a sandbox's own grants stay": ("claude", "json", '{"permissions": {"ask": ["Edit", "WebFetch"]}, "sandbox": {"network": {"allowedDomains": ["a.test.example"]}, '
                                    '"filesystem": {"allowWrite": ["/data"]}}}', [], ['- "a.test.example"', '- "/data"']),
    "an exception from a grant": ("claude", "json", '{"permissions": {"allow": ["Edit(//data/**)", "Edit(!//data/x)"]}}', [], ["deny_write:\n    - \"/data/x\""]),
    "a path is literal": ("srt", "json", '{"filesystem": {"allowWrite": ["."], "denyWrite": [{"path": "app/[id]", "literal": true}, {"path": "{a,b}*", "literal": true}]}}', [],
                          ['{WORK}/app/[[]id]"', '{WORK}/{a,b}[*]"']),
    "stars beside letters": ("srt", "json", '{"filesystem": {"denyRead": ["/d/**.env", "/e/a**b/c", "/f/[[:alpha:]]x", "/g/[!a]"]}}', [],
                             ['"/d/**/*.env"', '"/e/a*"', '"/f/?x"', '"/g/?"']),
    "classes, by every reading": (
        "srt", "json", '{"filesystem": {"denyRead": ["/a/[[:alnum:]_]x", "/b/[!]a]x", "/c/[[:alpha:]]]", "/d/[]a]", "/e/[^a]", "/f/[a-]", "/g/[[=a=]]b", "/h/[[.x.]-z]"]}}', [],
        ['"/a/?_]x"', '"/a/?x"', '"/b/?a]x"', '"/b/?x"', '"/c/?]"', '"/d/?"', '"/d/?a]"', '"/e/?"', '"/f/[a-]"', '"/g/?b"', '"/h/?"']),
    "classes without a certain end": (
        "srt", "json", '{"filesystem": {"denyRead": ["/a/[b", "/c/[a/b]c", "/d/[]/x]", "/e/[[:alpha:]x", "/f/[a{b,c}d]", "/g/[[...slug]]/p", "/h/[[:a:]x/[b]"]}}', [],
        ['"/a/[b"', '"/c"', '"/d"', '"/e/?x"', '"/e/[[][:alpha:]x"', '"/f"', '"/g/[[...slug]]/p"', '"/h"', "all of /h is denied"]),
    "a grant is literal": ("srt", "json", '{"filesystem": {"allowWrite": [{"path": "/data/**", "literal": true}, {"path": "/**", "literal": true}, {"path": "/other/", "literal": true}]}}',
                           ['- "/data', '- "/"'], ['- "/other"', "path: /data/**: "]),
    "variables in grants": ("srt", "json", '{"filesystem": {"allowWrite": ["$X/../../../opt", "/data/${X}/../../opt", "$HOME/h", "${HOME}", "$id/x"]}}', ['/opt"', "/data"],
                            ['/h" #', '{WORK}/$id/x"', "what a variable stands for"]),
    "variables in denials": ("srt", "json", '{"filesystem": {"denyRead": ["/data/$USER/x", "/srv/$X/../y", "a/$id.tsx"]}}', [], ['"/data"', '"/srv"', '{WORK}/a/$id.tsx"']),
    "a star is no host": ("srt", "json", '{"network": {"allowedDomains": ["*", "0.0.0.0/0", "a.test.example:1-9", "b.test.example"]}}',
                          ["full-network", '- "0.0.0.0', '- "a.test'], ['- "b.test.example"']),
    "variables that are kept back": ("srt", "json", '{"credentials": {"envVars": [{"name": "ONE", "mode": "deny"}, {"name": "TWO", "mode": "mask"}, '
                                     '{"name": "SIX", "mode": "mask", "injectHosts": ["no.test.example"]}]}}', [], ['      ONE: ""', '      TWO: ""', '      SIX: ""']),
    "strict in the file that is extended": ("fence", "jsonc", '{"extends": "./base.json", "filesystem": {"defaultDenyRead": true, "allowWrite": ["."]}}',
                                            ['- "/usr"', '- "/etc"'], ["reads: deny"]),
    "lists of hosts that are shut out": (
        "devcontainer", "sh", '#OLD_HOSTS=("a.test.example")\necho "HOSTS=(b.test.example)"\nBLOCKED_DOMAINS=("c.test.example")\nfor domain in "d.test.example"; do\n'
        '  iptables -j DROP\ndone\nlocal ALLOWED_HOSTS=("e.test.example")\niptables -P OUTPUT DROP\n',
        ["a.test", "b.test"], ['  allow:\n    - "e.test.example"', '  deny:\n    - "c.test.example"', '- "d.test.example"']),
    **{f"a loop that shuts out: {name}": (
        "devcontainer", "sh", f'for h in "a.test.example"; do\n{body}\ndone\nfor h in "b.test.example"; do\n  while x; do :; done < <(y)\ndone\niptables -P OUTPUT DROP\n{after}\n',
        [], ['  allow:\n    - "b.test.example"', "a.test.example"])
       for name, body, after in [
           ("nested", "  for ip in $(dig $h); do\n    :\n  done\n  iptables -d $h -j DROP", ""),
           ("words", "  until dig $h; do sleep 1; done\n  echo done\n  echo 'done'\n  # done\n  iptables -d $h -j REJECT", ""),
           ("here-document", "  cat << EOF\ndone\nEOF\n  iptables -d $h -j DROP", ""),
           ("function", "  one $h", "function one { two $1; }\ntwo() {\n  { :; }\n  iptables -d $1 -j DROP\n}"),
           ("variable", "  iptables -d $h -j \"$ACTION\"", ""),
           ("collected", "  found+=($h)", 'for x in "${found[@]}"; do\n  iptables -d $x -j DROP\ndone')]},
    **{f"an array that is not let through: {name}": (
        "devcontainer", "sh", f'ALLOWED_DOMAINS=("b.test.example")\n{kind}_HOSTS=()\n{kind}_HOSTS+=("a.test.example")\n{use}\n', [], ['  allow:\n    - "b.test.example"', "a.test.example"])
       for name, kind, use in [
           ("shut out", "TELEMETRY", 'for h in "${TELEMETRY_HOSTS[@]}"\ndo\n  iptables -d $h -j DROP\ndone'),
           ("unused", "SOME", 'echo "for ${#SOME_HOSTS[@]}"\nfor x in 1; do :; done'),
           ("continued", "ALLOWED", 'for h in \\\n  "${ALLOWED_HOSTS[@]}"; do\n  iptables -d $h -j DROP\ndone'),
           ("piped", "ALLOWED", 'printf "%s\\n" "${ALLOWED_HOSTS[@]}" |\n  while read h; do\n  iptables -d $h -j DROP\ndone'),
           ("redirected", "ALLOWED", 'while read h; do\n  iptables -d $h -j DROP\ndone < <(printf "%s\\n" "${ALLOWED_HOSTS[@]}")'),
           ("copied", "ALLOWED", 'ALL=("${ALLOWED_HOSTS[@]}")\nfor h in "${ALL[@]}"; do iptables -d $h -j DROP; done'),
           ("given", "ALLOWED", 'shut() { for h in "$@"; do iptables -d $h -j DROP; done; }\nshut "${ALLOWED_HOSTS[@]}"'),
           ("renamed", "ALLOWED", 'declare -n list=ALLOWED_HOSTS\nfor h in "${list[@]}"; do iptables -d $h -j DROP; done')]},
    "an array that a loop lets through": ("devcontainer", "sh", 'SOME_HOSTS=("a.test.example")\nfor h in "${SOME_HOSTS[@]}"; do\n  ipset add x $h\ndone\niptables -P OUTPUT DROP\n', [],
                                          ['  allow:\n    - "a.test.example"']),
    "a profile's mode": ("codex", "toml", 'sandbox_mode = "workspace-write"\nprofile = "safe"\n[profiles.safe]\nsandbox_mode = "read-only"\n', ["workspace-write"], ["mode: read-only"]),
    "a profile's mode beside permissions": ("codex", "toml", 'default_permissions = ":workspace"\nprofile = "safe"\n[profiles.safe]\nsandbox_mode = "read-only"\n',
                                            ["workspace-write"], ["mode: read-only", "whether the profile counts"]),
    "a mode beside a profile's": ("codex", "toml", 'sandbox_mode = "read-only"\nprofile = "fast"\n[profiles.fast]\nsandbox_mode = "workspace-write"\n',
                                  ["workspace-write"], ["mode: read-only", "whether the profile counts"]),
    "relative to an unknown place": ("codex", "toml", 'sandbox_mode = "workspace-write"\n[sandbox_workspace_write]\nwritable_roots = ["../shared", "x"]\n', ['/shared"'], ['{WORK}/x"']),
    "roots by a variable": ("codex", "toml", 'sandbox_mode = "workspace-write"\n[sandbox_workspace_write]\nwritable_roots = ["$X/../../../opt", "$x/../../opt", "${Y}/z", "$HOME/h"]\n',
                            ['/opt"', '/z"'], ['/h" #']),
    "a directory is no socket": ("fence", "jsonc", '{"network": {"allowUnixSockets": ["/usr", "/run/x.sock"]}, "filesystem": {"strictDenyRead": true}}', ['- "/usr"'],
                                 ['- "/run/x.sock"']),
    "places below the project": ("codex", "toml", 'default_permissions = "m"\n[permissions.m.filesystem]\n":workspace_roots" = {"../out" = "write", "in" = "write"}\n'
                                 '":workspace_rootsX" = "write"\n', ['/out"', '{WORK}" # in.toml'], ['{WORK}/in"', "an unknown name of a place"]),
    "other tools that edit": ("claude", "json", '{"permissions": {"deny": ["MultiEdit(./m)", "NotebookEdit(./n)"]}}', [], ['{WORK}/m"', '{WORK}/n"']),
    "these commands alone": ("gemini", "json", '{"tools": {"core": ["run_shell_command(git status)"]}}', [], ["\n# ! "]),
    "under conditions": ("gemini", "toml", '[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = "git"\nargsPattern = "x"\ndecision = "allow"\n', ["argv"], ["some conditions only"]),
    "every tool": ("gemini", "toml", '[[rule]]\ntoolName = "*"\ndecision = "deny"\n', [], ["\n# ! "]),
}


@pytest.mark.parametrize("what", NARROW)
def test_a_restriction_is_not_lost(what, imported, work):
    tool, ending, text, without, having = NARROW[what]
    (work / "base.json").write_text(STRICT)
    (work / f"in.{ending}").write_text(text)
    result = imported(tool, f"in.{ending}")
    assert result.status in (0, 3), result
    policy = result.text.split("\n\n", 1)[1]
    said, _, notes = policy.partition("\n# Could not be said")
    if tool == "devcontainer" and "b.test.example" in having[0]:
        assert re.findall(r'- "(.*?)"', said.split("  allow:")[1].split("filesystem:")[0].split("  deny:")[0]) == ["b.test.example"], said
    assert not [word for word in without if word.replace("{WORK}", str(work)) in said], said
    assert all(word.replace("{WORK}", str(work)) in policy for word in having), policy
    assert (result.status == 3) == ("\n# ! " in notes)


def test_what_a_file_s_place_leaves_open_is_denied_everywhere(imported, home, work):
    """Settings of the home, and of a directory below the project: nothing is granted by a guess, and denials hold wherever they may be meant."""
    rules = {"permissions": {"deny": ["Read(/keys)"], "additionalDirectories": ["../out"]}, "sandbox": {"filesystem": {"denyWrite": ["x"], "allowWrite": ["y"]}}}
    for place in (home, work / "sub"):
        (place / ".claude").mkdir(parents=True)
        (place / ".claude/settings.json").write_text(json.dumps(rules))
    for settings, roots in (([], (home, home / ".claude", work)), (["sub/.claude/settings.json"], (work, work / "sub"))):
        text = imported("claude", *settings).check().text
        assert all(f'- "{root}/{name}" #' in text for root in roots for name in ("keys", "x")), text
        assert '/out" #' not in text and '/y" #' not in text


def test_a_project_inside_claude_s_own_directory(bailey, work):
    """A worktree: the directory .claude around it is not its settings' one."""
    tree, rules = work / ".claude/worktrees/x", '{"sandbox": {"filesystem": {"denyWrite": ["x"], "allowWrite": ["y"]}}}'
    for place in (tree, tree / "sub"):
        (place / ".claude").mkdir(parents=True)
        (place / ".claude/settings.json").write_text(rules)
    own = bailey("import", "claude", ".claude/settings.json", cwd=tree).check().text
    assert f'- "{tree}/x" #' in own and f'- "{tree}/y" #' in own and f'"{work}/x" #' not in own
    below = bailey("import", "claude", "sub/.claude/settings.json", cwd=tree).check().text
    assert all(f'- "{root}/x" #' in below for root in (tree, tree / "sub")) and '/y" #' not in below


@pytest.mark.parametrize("text,told", [
    ({"filesystem": {"denyRead": ["/" + "a*/" * 1300 + f"x{i}" for i in range(400)], "allowRead": ["/" + "aa/" * 1200 + f"b{i}" for i in range(400)]}}, "too many entries to compare"),
    ({"network": {"allowedDomains": [f"a{i}.bc" for i in range(20000)]}, "credentials": {
        "envVars": [{"name": f"V{i}", "mode": "mask", "injectHosts": [f"a{i}.bc"]} for i in range(2000)]}}, "more than 1024 variables"),
], ids=["paths", "secrets"])
def test_what_would_take_minutes_is_an_error_at_once(text, told, imported, work):
    (work / "in.json").write_text(json.dumps(text))
    result = imported("srt", "in.json", "--write", timeout=20 * SLOW)
    assert result.status == 1 and told in result.errors and not (work / ".bailey.yaml").exists(), result
