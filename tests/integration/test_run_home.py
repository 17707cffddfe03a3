# SPDX-License-Identifier: Apache-2.0
"""The sandbox's own home: what it shows, what it keeps, whose it is, and that nothing of the real one is there."""
import json
import os
import pathlib
import re
import tempfile
import time

import pytest

from conftest import program
from kit.process import wait_until
from test_escape import ACTS, ESCAPE, PYTHON, servers, world  # noqa: F401

pytestmark = pytest.mark.visible_home

# What a developer's home holds: keys, sign-ins of agents, passwords, histories, other people's business.
SECRETS = (".ssh/id_ed25519", ".netrc", ".aws/credentials", ".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json",
           ".local/share/opencode/auth.json", ".copilot/config.json", ".config/gh/hosts.yml", ".config/github-copilot/apps.json",
           ".config/sops/age/keys.txt", ".cache/huggingface/token", ".m2/settings.xml", ".gradle/gradle.properties", ".config/pip/pip.conf",
           ".fly/config.yml", ".oci/config", ".kaggle/kaggle.json", ".node_repl_history", ".local/share/fish/fish_history", ".Xauthority",
           ".cargo/credentials.toml", ".npmrc", ".pypirc", ".docker/config.json", ".kube/config", ".profile", ".bashrc",
           "snap/firefox/common/.mozilla/logins.json", ".config/BraveSoftware/Login Data", "notes.txt", "other-project/src/main.c")


@pytest.fixture
def sh(bailey, work):
    return lambda script, *options, **more: bailey("run", *options, "--", "sh", "-c", script, **{"cwd": work, **more})


def plant_secrets(home):
    for name in SECRETS:
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("REAL-SECRET\n")


def tree_of(directory):
    """Names, contents and modes of everything but Bailey's own state."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if ".local/state" not in str(path) and path.name != ".local" and ".run" not in path.parts:
            found[str(path)] = (path.lstat().st_mode, path.read_bytes() if path.is_file() and not path.is_symlink() else b"")
    return found


def own(home):
    """Every home that is kept."""
    top = home / ".local/state/bailey/homes"
    return sorted(path.name for path in top.iterdir()) if top.exists() else []


@pytest.mark.parametrize("options", [(), ("--trace-denials",), ("--deny-read", "**/.env"), ("--overlay",), ("--mode", "full-network"),
                                     ("--home", "none"), ("--home", "shared"), ("--reads", "deny", "--read", "/usr", "--read", "/etc")])
def test_nothing_of_the_real_home_is_there(sh, home, work, options):
    plant_secrets(home)
    (home / ".profile").write_text("export OPENAI_API_KEY=REAL-SECRET\n")
    before = tree_of(home)
    names = " ".join(f"'{home}/{name}'" for name in SECRETS)
    result = sh(f"cat {names} 2>/dev/null; grep -rs REAL-SECRET ~ 2>/dev/null; env | grep REAL-SECRET; bash -lc 'echo ${{OPENAI_API_KEY:-none}}'", *options)
    assert "REAL-SECRET" not in result.text and result.text == "none\n", result
    assert tree_of(home) == before


def test_it_is_kept_and_belongs_to_the_workspace(sh, bailey, home, work):
    other = home / "other"
    other.mkdir()
    assert sh('echo $HOME; echo one > ~/.state; echo a > ~/.state.tmp; mv ~/.state.tmp ~/.claude.json').check().text == f"{home}\n"
    assert not (home / ".state").exists() and not (home / ".claude.json").exists()
    assert sh("cat ~/.state ~/.claude.json").check().text == "one\na\n"
    assert sh("cat ~/.state", "--workspace", str(other), cwd=other).status != 0
    assert sh("cat ~/.state", "--home", "none").status != 0
    assert sh("cat ~/.state", "--home", "shared").status != 0
    sh("echo both > ~/.shared", "--home", "shared").check()
    assert sh("cat ~/.shared", "--home", "shared", "--workspace", str(other), cwd=other).check().text == "both\n"
    assert len(own(home)) == 3, own(home)


def test_one_that_is_forgotten(sh, home):
    assert sh("echo x > ~/x; cat ~/x", "--home", "none").check().text == "x\n"
    assert own(home) == []


def test_what_is_granted_is_laid_into_it(sh, home, work):
    for name in ("docs/deep", "shared"):
        (home / name).mkdir(parents=True)
        (home / name / "file").write_text(name + "\n")
    (home / "single").write_text("single\n")
    (home / "docs/secret").write_text("secret\n")
    (home / "to-docs").symlink_to("docs")
    grants = ["--read", str(home / "docs"), "--write", str(home / "shared"), "--read", str(home / "single"), "--deny-read", str(home / "docs/secret")]
    result = sh("cat ~/docs/deep/file ~/shared/file ~/single; cat ~/docs/secret; echo x > ~/docs/new; echo y > ~/shared/new; ls -A ~", *grants)
    assert result.text.splitlines()[:3] == ["docs/deep", "shared", "single"] and "secret\n" not in result.text, result
    assert not (home / "docs/new").exists() and (home / "shared/new").read_text() == "y\n"
    assert result.text.splitlines()[3:] == ["docs", "shared", "single", "work"], result
    (work / "made").unlink(missing_ok=True)
    sh("echo w > made").check()
    assert (work / "made").read_text() == "w\n"


def test_secrets_in_what_is_granted_stay_closed(sh, home, work):
    """The list of the old way still holds where a grant would show what it names."""
    plant_secrets(home)
    grants = ["--read", str(home / ".config"), "--write", str(home / ".cargo"), "--read", str(home / ".aws")]
    result = sh("cat ~/.config/gh/hosts.yml ~/.cargo/credentials.toml; cat ~/.config/pip/pip.conf", *grants)
    assert result.text == "REAL-SECRET\n" and result.errors.count("ermission denied") == 2, result  # pip's is not on the list
    result = sh("cat id_ed25519", cwd=home / ".ssh")
    assert result.status not in (0, 1) and "REAL-SECRET" not in result.text, result
    result = sh("cat id_ed25519", "--workspace", str(home / ".ssh"), cwd=work)
    assert result.status not in (0, 1) and "REAL-SECRET" not in result.text, result


def test_the_home_itself_is_no_grant(sh, bailey, home, work):
    for words in (("--workspace", home), ("--read", home), ("--write", home), ("--write", "~"), ("--write", f"{home}/")):
        result = sh("true", *map(str, words))
        assert result.status == 121 and "home" in result.errors and "--home real" in result.errors, result
    assert bailey("run", "--", "true", cwd=home).status == 121
    # What is above it is granted without it.
    plant_secrets(home)
    result = sh("cat ~/.netrc; echo x > ~/planted; ls ..", "--workspace", str(home.parent), cwd=home.parent) if home.parent != pathlib.Path("/var/tmp") else None
    assert result is None or ("REAL-SECRET" not in result.text and not (home / "planted").exists())


def test_read_only_mode(sh, home, work):
    """The workspace can be read, the own home is no part of the host and can be written."""
    (work / "file").write_text("text\n")
    result = sh("cat file; echo x > made; echo y > ~/y; cat ~/y", "--mode", "read-only")
    assert result.text == "text\ny\n" and not (work / "made").exists() and not (home / "y").exists(), result


def test_real(sh, home, work):
    (home / "notes").write_text("text\n")
    (home / ".netrc").write_text("key\n")
    result = sh("cat ~/notes; cat ~/.netrc; echo x > ~/planted", "--home", "real")
    assert result.text == "text\n" and not (home / "planted").exists(), result
    assert own(home) == []


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".", "a.b", "-x", "x" * 65])
def test_names_that_are_none(sh, name):
    result = sh("true", "--home", name)
    assert result.status in (2, 120, 121) and "is not a home" in result.errors, result


def test_odd_homes(run, home, work, environment):
    """HOME that cannot be covered, or is not there: the sandbox has its home elsewhere, and the account's stays closed."""
    argv = [program("bailey"), "run", "--", "sh", "-c", "echo $HOME; echo x > ~/x && cat ~/x"]
    state = {"XDG_STATE_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home / "config")}
    for odd in ("/", "/nowhere/at/all", "/usr/sbin", "/tmp"):
        result = run(argv, cwd=work, env={**state, "HOME": odd})
        assert result.status == 0 and result.text == "/run/home\nx\n", (odd, result)
    link = home / "link"
    link.symlink_to(home / "real")
    (home / "real/project").mkdir(parents=True)
    result = run(argv, cwd=home / "real/project", env={"HOME": str(link)})
    assert result.status == 0 and result.text == f"{home}/real\nx\n", result


def test_homes_of_other_accounts(run, home, work):
    """HOME names another directory than the account's: that one, and everybody else's, stay closed."""
    listing = "for d in /root /home " + " ".join(sorted({line.split(":")[5] for line in open("/etc/passwd") if int(line.split(":")[2]) >= 1000 and
                                                          line.split(":")[0] != "nobody"})) + "; do ls -A $d 2>/dev/null; done; exit 0"
    result = run([program("bailey"), "run", "--", "sh", "-c", listing], cwd=work)
    assert result.status == 0 and result.text == "", result


def test_no_act_reaches_the_real_home(world, start):  # noqa: F811
    """All that is tried against the files of a home, inside its own: what is done there changes nothing outside."""
    home = pathlib.Path(world["home"])
    names = [name for name in ACTS if "home" in name or "ssh" in name or "netrc" in name or "key" in name]
    before = tree_of(home)
    run_all = ("import os, sys\nsys.dont_write_bytecode = True\nsys.path.insert(0, os.path.dirname(sys.argv[1]))\nimport act\n"
               "for name in sys.argv[2:]:\n    print(name, repr(act.answer_in_child(name)), flush=True)\n")
    argv = [program("bailey"), "run", "--quiet", "--read", str(ESCAPE), "--env", "BAILEY_ACT_WORLD=" + json.dumps(world), "--", PYTHON, "-c", run_all,
            str(ESCAPE / "act.py"), *names]
    result = start(argv, cwd=world["workspace"]).wait(120)
    after = {path: what for path, what in tree_of(home).items() if not path.startswith(world["workspace"])}
    assert result.status == 0 and len(names) > 8, (result, names)
    assert [line.split(" ", 1)[0] for line in result.text.splitlines() if not line.endswith(" ''")] == names, result
    assert after == {path: what for path, what in before.items() if not path.startswith(world["workspace"])}


def test_two_at_once(start, sh, work, home):
    first = start(["bailey", "run", "--", "sh", "-c", "echo 1 > ~/first; touch ready; while [ ! -s ~/second ]; do sleep 0.05; done; cat ~/second"], cwd=work)
    wait_until(lambda: (work / "ready").exists())
    assert sh("cat ~/first; echo 2 > ~/second").check().text == "1\n"
    assert first.wait(60).text == "2\n"


def test_planted_links_are_not_followed(sh, home, work):
    """The next launch makes places for what is granted: not where a link of the sandbox's leads."""
    (home / "victim").mkdir()
    (home / "docs").mkdir()
    sh(f"rmdir ~/docs 2>/dev/null; ln -s {home}/victim ~/docs && ln -s {home}/victim ~/.agent").check()
    result = sh("true", "--read", str(home / "docs"))
    assert result.status != 0 and "a link is in its way" in result.errors and "bailey home reset" in result.errors, result
    assert list((home / "victim").iterdir()) == []


def test_why_and_plan(bailey, home, work):
    (home / ".netrc").write_text("key\n")
    answer = json.loads(bailey("why", "--json", "~/.netrc", cwd=work).text)
    assert answer["decision"] == "denied" and "home of its own" in answer["origin"]
    assert json.loads(bailey("why", "--json", "--home", "real", "~/.npm", cwd=work).text)["decision"] == "read"
    plan = bailey("plan", "--", "true", cwd=work).check().text
    assert f"at {home}\n" in plan and "homes/work." in plan and own(home) == [], plan
    assert "home: workspace" in bailey("policy", "show", "--all", cwd=work).check().text


def table():
    """The rows of src/policy/paths/home_table.c: path and kind."""
    text = (pathlib.Path(__file__).resolve().parents[2] / "src/policy/paths/home_table.c").read_text()
    return re.findall(r'\{ "([^"]+)", HOME_(TOOLCHAIN|CACHE), "[^"]+" \}', text)


def test_every_row_is_laid(sh, home, work):
    """A directory of each row, with a file; beside them what a tool would keep as its sign-in."""
    rows = table()
    assert len(rows) > 60 and len(set(rows)) == len(rows)
    for path, _kind in rows:
        (home / path).mkdir(parents=True, exist_ok=True)
        (home / path / "of-the-host").write_text(path)
        beside = (home / path).parent / "token"
        beside.write_text("REAL-SECRET") if beside.parent != home else None
    before = tree_of(home)
    script = ("for p in " + " ".join(path for path, _ in rows) + "; do cat ~/$p/of-the-host; echo; "
              "echo x 2>/dev/null > ~/$p/made && echo written; rm -f ~/$p/of-the-host 2>/dev/null; done; grep -rs REAL-SECRET ~; exit 0")
    found = sh(script).check().text.splitlines()
    wanted = [line for path, kind in rows for line in ([path] if kind == "TOOLCHAIN" else [path, "written"])]
    assert found == wanted
    assert tree_of(home) == before
    again = sh("for p in " + " ".join(path for path, kind in rows if kind == "CACHE") + "; do ls -A ~/$p; done").check().text.split()
    assert again == ["made"] * sum(kind == "CACHE" for _, kind in rows), "what was written is kept, what was removed stays removed"
    assert tree_of(home) == before


def test_rows_hold_no_credentials():
    """Where tools keep sign-ins: no row shows them."""
    known = (".cargo/credentials.toml", ".cargo/credentials", ".cargo/config.toml", ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties",
             ".gradle/init.d", ".nuget/NuGet/NuGet.Config", ".config/composer/auth.json", ".composer/auth.json", ".gem/credentials", ".local/share/keyrings",
             ".local/share/opencode/auth.json", ".cache/huggingface/token", ".npmrc", ".yarnrc.yml", ".bunfig.toml", ".hex/hex.config", ".pub-cache/credentials.json",
             ".conan2/credentials.json", ".local/share/bailey", ".claude/.credentials.json", ".cabal/config", ".sbt/credentials", ".ivy2/.credentials", ".config/gh")
    for path, _kind in table():
        for secret in known:
            assert secret != path and not secret.startswith(path + "/"), (path, secret)


def test_programs_in_the_search_path(run, home, work, environment):
    tool = home / "my tools/bin/tool"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho tool\n")
    tool.chmod(0o755)
    (home / "my tools/token").write_text("REAL-SECRET")
    (home / "prefix/bin").mkdir(parents=True)
    (home / "prefix/lib/node_modules/x").mkdir(parents=True)
    (home / "prefix/lib/node_modules/x/cli").write_text("#!/bin/sh\necho module\n")
    (home / "prefix/lib/node_modules/x/cli").chmod(0o755)
    (home / "prefix/bin/cli").symlink_to("../lib/node_modules/x/cli")
    (home / ".ssh").mkdir()
    (home / ".ssh/id").write_text("REAL-SECRET")
    (home / ".config/gh").mkdir(parents=True)
    (home / ".config/gh/hosts.yml").write_text("REAL-SECRET")
    env = {"PATH": f"{tool.parent}:{home}/prefix/bin:{home}:{home}/.ssh:{home}/.config:" + environment["PATH"]}
    result = run([program("bailey"), "run", "--", "sh", "-c", "tool; cli; cat ~/'my tools'/token; echo x > ~/'my tools/bin/tool'; ls -A ~"], cwd=work, env=env)
    assert result.text == "tool\nmodule\nmy tools\nprefix\nwork\n", result
    assert tool.read_text().endswith("tool\n") and "echo x" not in tool.read_text()


def test_caches_of_two_at_once(start, sh, work, home):
    """The second sees what was kept and writes for itself; what the first writes is kept."""
    (home / ".npm").mkdir()
    (home / ".npm/host").write_text("host\n")
    sh("echo kept > ~/.npm/kept").check()
    first = start(["bailey", "run", "--", "sh", "-c", "touch ready; while [ ! -e go ]; do sleep 0.05; done; echo first > ~/.npm/first"], cwd=work)
    wait_until(lambda: (work / "ready").exists())
    assert sh("cat ~/.npm/host ~/.npm/kept; echo second > ~/.npm/second; cat ~/.npm/second").check().text == "host\nkept\nsecond\n"
    (work / "go").touch()
    first.wait(60).check()
    assert sh("ls ~/.npm").check().text.split() == ["first", "host", "kept"]
    layers = next((home / ".local/state/bailey/homes").iterdir()) / "layers"
    assert not layers.exists() or list(layers.iterdir()) == []


def test_rows_that_lead_elsewhere(sh, home, work):
    """A link of the user's is followed; one that leads to secrets, to the home or above it, or through the workspace, is not."""
    (home / "data/npm").mkdir(parents=True)
    (home / "data/npm/file").write_text("data\n")
    (home / ".npm").symlink_to(home / "data/npm")
    (home / ".ssh").mkdir()
    (home / ".ssh/id").write_text("REAL-SECRET\n")
    (home / "secret").write_text("REAL-SECRET\n")
    for name, target in ((".nvm", home), (".pyenv", home.parent), (".asdf", "/"), (".rustup", work / "planted")):
        (home / name).symlink_to(target)
    (work / "planted").symlink_to(home / ".ssh")
    result = sh("cat ~/.npm/file; cat ~/.nvm/secret ~/.rustup/id ~/.pyenv/*/secret; ls ~/.asdf; exit 0")
    assert result.text == "data\n", result


def test_denies_hold_in_what_is_laid(sh, home):
    (home / ".npm/sub").mkdir(parents=True)
    (home / ".npm/sub/secret").write_text("REAL-SECRET\n")
    (home / ".npm/sub/open").write_text("open\n")
    (home / ".cargo/bin").mkdir(parents=True)
    (home / ".cargo/bin/hidden").write_text("REAL-SECRET\n")
    result = sh("cat ~/.npm/sub/open ~/.npm/sub/secret ~/.cargo/bin/hidden; mv ~/.npm/sub ~/.npm/moved; cat ~/.npm/moved/secret",
                "--deny-read", str(home / ".npm/sub/secret"), "--deny-read", str(home / ".cargo/bin/hidden"))
    assert result.text == "open\n", result
    assert "REAL" not in sh("ls ~/.npm; cat ~/.npm/sub/secret", "--deny-read", str(home / ".npm")).text


SETTINGS = {
    ".gitconfig": "[user]\n\tname = Ann\n\temail = ann@example.com\n[core]\n\tpager = touch /tmp/evil\n[credential]\n\thelper = store\n[alias]\n\tco = checkout\n\tbad = !sh\n",
    ".npmrc": "registry=https://npm.corp.example/\n//npm.corp.example/:_authToken=REAL-SECRET\n",
    ".config/pip/pip.conf": "[global]\nindex-url = https://pypi.corp.example/simple\nextra-index-url = https://u:REAL-SECRET@h.example/\n",
    ".cargo/config.toml": '[registries.corp]\nindex = "https://c.example/"\ntoken = "REAL-SECRET"\n[build]\nrustc-wrapper = "evil"\n',
    ".claude.json": '{"theme": "dark", "primaryApiKey": "REAL-SECRET", "mcpServers": {"x": {"command": "evil"}}}',
}


def write_settings(home):
    for name, text in SETTINGS.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)


def test_settings_are_seeded(sh, home, work):
    write_settings(home)
    before = tree_of(home)
    result = sh("cat " + " ".join(f"~/{name}" for name in SETTINGS) + "; git config --global user.name; git config --global alias.co")
    assert result.status == 0 and "REAL-SECRET" not in result.text and "evil" not in result.text and "store" not in result.text, result
    for kept in ("Ann\n", "checkout\n", "registry=https://npm.corp.example/", "index-url = https://pypi.corp.example/simple", 'index = "https://c.example/"', '"theme":"dark"'):
        assert kept in result.text, (kept, result)
    assert tree_of(home) == before


@pytest.mark.parametrize("place", [".gitconfig", ".config/git/config"])
def test_unsigned_commits_are_told_once(sh, home, work, place):
    """Git outside signs each commit; inside there is no key, and the setting is not carried in."""
    file = home / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[user]\n\tname = Ann\n\temail = a@example.com\n[commit]\n\tgpgSign = Yes\n")
    first = sh("git init -q r && cd r && git commit -q --allow-empty -m one && git log --format=%G? -1").check()
    assert first.text == "N\n" and first.errors.count("asks for signed commits") == 1 and "--sign-gpg" in first.errors, first
    assert "signed commits" not in sh("true").errors  # the settings are the same: it was said
    file.write_text("[user]\n\tname = Bea\n[commit]\n\tgpgsign = true\n[commit]\n\tgpgsign = false\n")
    assert "signed commits" not in sh("true").errors
    file.write_text("[user]\n\tname = Bea\n[commit]\n\tgpgsign\n")
    assert "signed commits" in sh("true").errors


def test_settings_are_renewed_when_the_host_changes(sh, home, work):
    write_settings(home)
    sh("git config --global user.name Inside").check()
    assert sh("git config --global user.name").check().text == "Inside\n"  # the sandbox's own change stays
    (home / ".gitconfig").write_text("[user]\n\tname = Bea\n")
    assert sh("git config --global user.name; git config -f ~/.gitconfig.old user.name").check().text == "Bea\nInside\n"
    assert (home / ".gitconfig").read_text() == "[user]\n\tname = Bea\n"
    (home / ".gitconfig").write_text("[core]\n\tpager = evil\n")
    assert sh("cat ~/.gitconfig").check().text == ""


def test_odd_settings(sh, home, work):
    """Broken, enormous, pipes, links in their place: the launch goes on, says so, and nothing is damaged."""
    (home / ".gitconfig").write_bytes(b"[user\n\x00\xff" * 100)
    (home / ".npmrc").write_text("registry=https://h.example/\n" * 100000)
    os.mkfifo(home / ".claude.json")
    (home / ".config/pip").mkdir(parents=True)
    (home / ".config/pip/pip.conf").symlink_to("/dev/zero")
    (home / ".cargo").mkdir()
    (home / ".cargo/config.toml").symlink_to("nowhere")
    result = sh("ls -A ~")
    assert result.status == 0 and ".npmrc is larger than" in result.errors, result
    before = (home / ".npmrc").read_text()
    # Links that the sandbox planted in its own home lead Bailey nowhere.
    (home / "victim").mkdir()
    (home / "victim/config").write_text("mine\n")
    (home / ".npmrc").write_text("registry=https://other.example/\n")
    sh(f"rm -rf ~/.npmrc ~/.cargo; ln -s {home}/victim/config ~/.npmrc; ln -s {home}/victim ~/.cargo").check()
    (home / ".cargo/config.toml").unlink()
    (home / ".cargo/config.toml").write_text('[net]\nretry = 3\n')
    result = sh("cat ~/.npmrc")
    assert result.text == "registry=https://other.example/\n" and "a link is in its way" in result.errors, result
    assert (home / "victim/config").read_text() == "mine\n" and [p.name for p in (home / "victim").iterdir()] == ["config"] and before


def test_places_that_variables_name(run, home, work, tmp_path):
    """Credentials that a variable moves out of the home are closed there, and the variable does not lead out of the own home."""
    with tempfile.TemporaryDirectory(prefix="bailey-test-", dir="/var/tmp") as name:
        elsewhere = pathlib.Path(name)
        places = {"XDG_CONFIG_HOME": "config/gh/hosts.yml", "GNUPGHOME": "gnupg/key", "CLAUDE_CONFIG_DIR": "claude/.credentials.json"}
        for path in (*places.values(), "kube/a", "kube/b"):
            (elsewhere / path).parent.mkdir(parents=True, exist_ok=True)
            (elsewhere / path).write_text("REAL-SECRET\n")
        env = {variable: str(elsewhere / path.split("/")[0]) for variable, path in places.items()}
        env["KUBECONFIG"] = f"{elsewhere}/kube/a:{elsewhere}/kube/b"
        result = run([program("bailey"), "run", "--", "sh", "-c", f"grep -rs REAL-SECRET {elsewhere}; echo ${{XDG_CONFIG_HOME:-none}}; exit 0"], cwd=work, env=env)
        assert result.status == 0 and result.text == "none\n", result
        result = run([program("bailey"), "run", "--", "sh", "-c", "echo $XDG_CACHE_HOME"], cwd=work, env={"XDG_CACHE_HOME": f"{home}/.cache"})
        assert result.text == f"{home}/.cache\n", result


def test_a_command_of_the_real_home(bailey, home, work):
    tool = home / "tools/x"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho tool\n")
    tool.chmod(0o755)
    result = bailey("run", "--", tool, cwd=work)
    assert result.status == 127 and f"--read {tool.parent}" in result.errors, result
    assert bailey("run", "--read", tool.parent, "--", tool, cwd=work).check().text == "tool\n"


def test_death_at_any_moment_of_filling(start, sh, home, work):
    """Killed while the home is made and filled: nothing of the user's is damaged, and the next run works with all of it."""
    write_settings(home)
    (home / ".npm").mkdir()
    before = tree_of(home)
    for moment in range(24):
        child = start(["bailey", "run", "--home", f"h{moment % 3}", "--", "true"], cwd=work)
        time.sleep(moment * 0.0015)
        child.process.kill()
        child.wait(60)
    assert tree_of(home) == before
    for number in range(3):
        result = sh("git config --global user.name; npm_config=1; cat ~/.npmrc; echo x > ~/.npm/x && cat ~/.npm/x", "--home", f"h{number}").check()
        assert result.text == "Ann\nregistry=https://npm.corp.example/\nx\n", result


def test_a_state_that_cannot_be_written(run, home, work):
    """A full or read-only disk: an error that says so, before anything runs."""
    state = home / "state"
    state.write_text("a file\n")
    result = run([program("bailey"), "run", "--", "touch", "ran"], cwd=work, env={"XDG_STATE_HOME": str(state)})
    assert result.status not in (0, 1) and "cannot" in result.errors and not (work / "ran").exists(), result


@pytest.mark.root
def test_a_full_disk(run, home, work):
    state = home / "state"
    state.mkdir()
    write_settings(home)
    before = tree_of(home)
    script = (f"mount -t tmpfs -o size=64k,nr_inodes=64 none {state} && (dd if=/dev/zero of={state}/fill bs=4k count=100 2>/dev/null; "
              f"cd {work} && exec {program('bailey')} run -- touch ran)")
    result = run(["unshare", "-m", "sh", "-c", script], env={"XDG_STATE_HOME": str(state)})
    assert result.status not in (0, 1) and "space" in result.errors and not (work / "ran").exists(), result
    assert tree_of(home) == before


@pytest.mark.visible_home
def test_what_runs_later_is_said_once(bailey, work):
    """New things in the sandbox's own home that run there from now on: one line, in the run that made them."""
    def run(script, *options):
        return bailey("run", *options, "--", "sh", "-c", script, cwd=work).check().errors
    assert run("mkdir -p ~/.claude; echo '{}' > ~/.claude/settings.json; git config --global user.name x; touch ~/notes") == ""
    said = run("""mkdir -p ~/.gemini/extensions/x; echo 'touch x' >> ~/.bashrc; echo '{"hooks": {}}' > ~/.claude/settings.json; ln -s /etc/passwd ~/.zshrc
        mkdir -p ~/.codex; mkfifo ~/.codex/config.toml""")
    assert said.count("\n") == 1 and "home diff" in said and all(f"~/{name}" in said for name in (".bashrc", ".claude/settings.json", ".gemini/extensions")), said
    assert ".zshrc" not in said and ".codex" not in said
    assert run("true") == "" and run("echo x >> ~/.bashrc", "--quiet") == "" and run("echo x >> ~/.bashrc", "--home", "none") == ""


@pytest.mark.parametrize("text, told", [
    ("BASH_ENV=/tmp/x\n", "BASH_ENV"), ("A=1\nexport NODE_OPTIONS = --require=./x.js\r\n", "NODE_OPTIONS"), ("https_proxy: http://x\n", "https_proxy"),
    ("GOOGLE_GEMINI_BASE_URL=https://x.test\nAIDER_TEST_CMD=id", "GOOGLE_GEMINI_BASE_URL, AIDER_TEST_CMD"), ("LD_PRELOAD=x\n" * 9, "LD_PRELOAD, LD_PRELOAD"),
    ("ENV=production\nPORT=80\n# PATH=x\nGIT_AUTHOR_NAME=x\nMY_PATH=y\nPATH\n", None), ("", None), ("GIT_\x1b[2J=x\n", "GIT_")])
@pytest.mark.parametrize("way", ["cat new > .env", "mv new .env", "ln -f new .env", "cat new > .env; touch -d 2001-01-01 .env", "mv new x; ln -sfn x .env"])
@pytest.mark.rows
def test_env_of_the_workspace_is_told(sh, work, text, told, way):
    """Some agents load it when they start, outside too, and it may name what a shell runs. It is content, so it is said and stays."""
    (work / "new").write_bytes(text.encode())
    (work / ".env").write_text("A=0\n")
    result = sh(way).check()
    assert (".env was written and sets" in result.errors) == bool(told) and (told or "") in result.errors, result
    assert (work / ".env").read_bytes() == text.encode() and "\x1b" not in result.errors
    assert "was written" not in sh("true").errors, "once"


@pytest.mark.parametrize("bad", ["mkfifo .env", "ln -s .env .env", "ln -s /dev/zero .env", "ln -s /etc/shadow .env", "mkdir .env", "truncate -s 8G .env"])
def test_env_of_another_kind(sh, bad):
    errors = sh(bad).check().errors
    assert ("more than can be looked through" in errors) == ("truncate" in bad) and len(errors.splitlines()) <= 2, errors
    assert (".env was written and is a link" in errors) == ("ln -s" in bad), errors
    assert "was written" not in sh("true").errors, "once"


@pytest.mark.parametrize("way", ["ln -sfn new .env", 'ln -sfn "$PWD/new" .env', "ln -sfn nothing .env; mv new nothing", "ln -sfn nothing .env"])
def test_env_that_becomes_a_link(sh, work, way):
    """To a file that was there before, and to places where Bailey does not look."""
    (work / "new").write_text("BASH_ENV=x\n")
    followed = "$PWD" not in way and way != "ln -sfn nothing .env"
    said = "sets BASH_ENV:" if followed else "is a link that Bailey does not follow:"
    assert f".env was written and {said}" in sh(way).check().errors


# What loaders in JavaScript and Python take for a line and for a name.
@pytest.mark.parametrize("text", [
    "export\tBASH_ENV=x", "A=1\rBASH_ENV=x", "A=1\r\rBASH_ENV=x\r", "'BASH_ENV'=x", '"BASH_ENV" = x', "\ufeffBASH_ENV=x", "\u00a0BASH_ENV=x", "\vBASH_ENV=x", "\fBASH_ENV=x",
    "\x00BASH_ENV=x", "# a comment\u2028BASH_ENV=x", "# a comment\rBASH_ENV=x", "BASH_ENV\u00a0=x", "BASH_ENV\n\n  =x", "\n\n  export  'BASH_ENV': x"])
def test_env_is_read_as_loaders_read_it(sh, work, text):
    (work / "new").write_bytes(text.encode())
    assert ".env was written and sets BASH_ENV:" in sh("cat new > .env").check().errors


@pytest.mark.parametrize("names", [
    ["PYTHONPATH", "PYTHONHOME", "ZDOTDIR", "BASH_FUNC_ls%%"], ["RUBYLIB", "JDK_JAVA_OPTIONS", "GOFLAGS", "MAKEFLAGS"], ["RUSTC_WRAPPER", "CARGO_HOME", "npm_config_registry", "HOME"],
    ["XDG_CONFIG_HOME", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "GEMINI_SANDBOX"], ["QWEN_HOME", "CONTINUE_GLOBAL_DIR", "BASH_FUNC_[%%", "LD_" + "X" * 200],
    ["EDITOR", "PAGER", "PATH", "SHELL", "BASH_ENV"]])
def test_env_names_what_is_obeyed(sh, work, names):
    (work / "new").write_text("".join(f"{name}=x\n" for name in names))
    said = ", ".join(name.rstrip("%[")[:64] for name in names[:4]) + (" and more" if names[4:] else "")
    assert f".env was written and sets {said}:" in sh("cat new > .env").check().errors
