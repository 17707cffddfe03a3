# SPDX-License-Identifier: Apache-2.0
"""A directory of an agent's that a person grants: its data is written, its settings are not, since the agent outside obeys them."""
import os

import pytest

pytestmark = pytest.mark.visible_home

SETTINGS = [".claude/settings.json", ".claude/hooks/x", ".claude/plugins/p", ".claude/commands/c.md", ".codex/config.toml", ".codex/.env",
            ".gemini/settings.json", ".gemini/extensions/x/gemini-extension.json", ".qwen/settings.json", ".copilot/mcp-config.json",
            ".cursor/mcp.json", ".continue/config.yaml", ".config/opencode/opencode.json", ".cache/opencode/node_modules/x",
            ".local/share/opencode/bin/x", ".factory/mcp.json", ".config/amp/settings.json", ".kiro/settings/mcp.json"]
DIRECTORIES = (".config/opencode", ".cache/opencode", ".local/share/opencode", ".config/amp")


def directory(path):
    return next((name for name in DIRECTORIES if path.startswith(name)), path.split("/")[0])


@pytest.mark.parametrize("there", [False, True], ids=["missing", "there"])
@pytest.mark.parametrize("options", [(), ("--home", "real")], ids=str)
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.rows
def test_settings_stay_as_they_were(sh, home, name, options, there):
    path, place = home / name, home / directory(name)
    place.mkdir(parents=True)
    if there:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine\n")
    sh(f"mkdir -p {path.parent}; echo evil > {path}; rm -f {path}; echo evil > {path}; mv {path.parent} {path.parent}.old; echo data > {place}/history.jsonl",
       "--write", place, *options)
    assert path.read_text() == "mine\n" if there else not path.exists()


@pytest.mark.parametrize("name,target", [(".claude/settings.json", "../dotfiles/claude.json"), (".claude/settings.json", "own.json"), (".codex/config.toml", "gone.toml"),
                                         (".gemini/settings.json", "{home}/dotfiles/claude.json"), (".claude/hooks", "../dotfiles")])
def test_settings_that_are_links_stay_links(sh, home, name, target):
    """Into a directory of settings, beside it, to nothing: neither the link is replaced nor what it leads to is made or changed."""
    path, target = home / name, target.format(home=home)
    path.parent.mkdir()
    (home / "dotfiles").mkdir()
    (home / "dotfiles/claude.json").write_text("mine\n")
    (home / ".claude").mkdir(exist_ok=True)
    (home / ".claude/own.json").write_text("mine\n")
    path.symlink_to(target)
    before = sorted(os.listdir(home / "dotfiles"))
    sh(f"echo evil > {path}; rm -f {path}; echo evil > {path}; ln -sfn /tmp/x {path}; mv {path} {path}.old; cd {path.parent}; echo evil > {target}; mkdir -p {path}; true",
       "--write", path.parent)
    assert os.readlink(path) == target
    assert (home / "dotfiles/claude.json").read_text() == (home / ".claude/own.json").read_text() == "mine\n"
    assert not (path.parent / "gone.toml").exists() and sorted(os.listdir(home / "dotfiles")) == before


def test_data_is_written(sh, home):
    (home / ".claude/projects").mkdir(parents=True)
    sh("echo data > ~/.claude/history.jsonl; echo s > ~/.claude/projects/s.jsonl", "--write", home / ".claude").check()
    assert (home / ".claude/history.jsonl").read_text() == "data\n" and (home / ".claude/projects/s.jsonl").exists()


def test_a_grant_of_the_file_itself_opens_it(sh, home, bailey, work):
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text("{}\n")
    options = ("--write", home / ".claude", "--write", home / ".claude/settings.json")
    sh("echo wanted > ~/.claude/settings.json", *options).check()
    assert (home / ".claude/settings.json").read_text() == "wanted\n"
    told = bailey("why", "--write", home / ".claude", home / ".claude/settings.json", cwd=work)
    assert "not written" in told.text or "read" in told.text.splitlines()[0], told


@pytest.mark.parametrize("name", [".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".copilot/config.json",
                                  ".local/share/opencode/auth.json", ".config/github-copilot/apps.json", ".qwen/oauth_creds.json",
                                  ".gemini/gemini-credentials.json", ".gemini/mcp-oauth-tokens.json", ".gemini/mcp-oauth-tokens-v2.json", ".gemini/a2a-oauth-tokens.json",
                                  ".qwen/mcp-oauth-tokens.json", ".qwen/mcp-oauth-tokens-v2.json", ".continue/auth.json",
                                  ".m2/settings.xml", ".cache/huggingface/token", ".local/share/fish/fish_history"])
@pytest.mark.parametrize("options", [("--home", "real"), ()], ids=str)
@pytest.mark.rows
def test_sign_ins_are_not_read(sh, home, name, options):
    path = home / name
    path.parent.mkdir(parents=True)
    path.write_text("SECRET\n")
    assert "SECRET" not in sh(f"cat {path}; cp {path} x; cat x; ln {path} y; cat y", *options).text
    if not options:
        assert "SECRET" not in sh(f"cat {path}", "--write", home / name.split("/")[0]).text
