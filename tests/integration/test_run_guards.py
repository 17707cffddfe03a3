# SPDX-License-Identifier: Apache-2.0
"""Protected paths: links on the way to them, every writable root, names that do not exist yet."""
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

import pytest

from kit.git import git

pytestmark = pytest.mark.visible_home


def replaced(home, work, name, body="evil"):
    """Shell words that try to take the place of a link, in the ways a program has."""
    return "; ".join([
        f"rm -f {name}", f"mv {name} {name}.old", f"ln -sfn /tmp/x {name}", f"mkdir {name}.d && mv -T {name}.d {name}",
        f"python3 -c 'import os; os.symlink(\"/tmp/x\", \"{name}.n\"); os.rename(\"{name}.n\", \"{name}\")'",
        "true"])


@pytest.mark.parametrize("name,target", [
    (".vscode", "tools"), (".claude", ".agents"), (".envrc", "env/rc"), (".git", "../store/g"), (".cursor", "gone"),
    (".idea", "a"), (".husky", "{work}/tools"),
])
def test_a_protected_link_stays(sh, home, work, name, target):
    (work / "tools").mkdir()
    (work / "env").mkdir()
    (work / "env/rc").write_text("good\n")
    (home / "store/g").mkdir(parents=True)
    (work / "a").symlink_to("b")
    text = target.format(work=work)
    (work / name).symlink_to(text)
    sh(replaced(home, work, name))
    assert os.readlink(work / name) == text


@pytest.mark.parametrize("chain", [["a"], ["a", "b"], ["a", "sub/b", "c"]])
def test_a_chain_of_links_that_ends_in_nothing(sh, work, chain):
    """Neither its end nor a link on the way can be made into what the name says."""
    (work / "sub").mkdir()
    steps = [".envrc", *chain]
    for here, there in zip(steps, steps[1:]):
        (work / here).symlink_to(os.path.relpath(work / there, (work / here).parent))
    end = steps[-1]
    sh(f"echo evil > {end}; for l in {' '.join(steps[:-1])}; do rm -f $l; echo evil > $l; done; true")
    assert not (work / ".envrc").exists()
    for step in steps[:-1]:
        assert os.path.islink(work / step), step


def test_what_a_guard_refuses_is_on_record(bailey, home, work):
    """Also where the path itself may be written: a directory that holds something protected, the target of a link, a repository below, a second
    name. The record names what was to be changed, and the rule of what is protected."""
    git("init", "-q", work, cwd=work, check=True)
    git("init", "-q", work / "deep/repo", cwd=work, check=True)
    (work / ".git/hooks").mkdir(exist_ok=True)
    (work / "tools").mkdir()
    (work / ".vscode").symlink_to("tools")
    (work / ".envrc").touch()
    os.link(work / ".envrc", work / "second")
    expected = {".git/hooks": ".git/hooks", ".git": ".git/", "deep": "deep/repo/.git/", "deep/repo/.git": "deep/repo/.git/", "tools": "tools",
                "second": ".envrc"}
    audit = home / "audit.jsonl"
    moves = "; ".join(f"mv {name} gone" for name in expected)
    bailey("run", "--audit", audit, "--", "sh", "-c", f"{moves}; echo x > tools/tasks.json; true", cwd=work).check()
    assert not (work / "gone").exists() and not list((work / "tools").iterdir())
    records = {r["path"]: r for r in map(json.loads, audit.read_text().splitlines()) if r.get("path")}
    assert all(r["reason"] == "deny-rule" and not r["allowed"] and r["origin"].startswith("built in: ") for r in records.values()), records
    rules = {os.path.relpath(path, work): os.path.relpath(r["rule"], work) for path, r in records.items()}
    assert rules.pop("tools/tasks.json") == "tools"
    assert set(rules) == set(expected) and all(rules[name].startswith(expected[name]) for name in rules), rules


def test_a_link_above_a_protected_name_stays(sh, home, work):
    """`.config` is a link, and `.config/git` the name that is protected."""
    (work / "dot/git").mkdir(parents=True)
    (work / ".config").symlink_to("dot")
    sh("rm -f .config; mkdir -p .config/git; echo evil > .config/git/config; mv dot away; mkdir -p dot/git; true")
    assert os.readlink(work / ".config") == "dot" and not (work / "dot/git/config").exists()


def test_hooks_behind_a_link(sh, home, work):
    git("init", "-q", cwd=work)
    hooks = work / ".git/hooks"
    for entry in hooks.iterdir():
        entry.unlink()
    hooks.rmdir()
    (work / "hooks").mkdir()
    hooks.symlink_to("../hooks")
    sh("rm .git/hooks; mkdir .git/hooks; echo evil > .git/hooks/pre-commit; echo evil > hooks/pre-commit; "
       "mv hooks h2; mkdir hooks; echo evil > hooks/pre-push; true")
    assert os.readlink(hooks) == "../hooks" and not list((work / "hooks").iterdir())


@pytest.mark.parametrize("name", [
    ".git/config", ".vscode/tasks.json", ".envrc", ".git/hooks/post-checkout", "lefthook-local.toml",
])
def test_other_writable_roots_are_protected_too(sh, home, work, name):
    other = home / "other"
    git("init", "-q", str(other), cwd=home)
    before = (other / ".git/config").read_text()
    sh(f"cd {other}; mkdir -p $(dirname {name}); echo evil >> {name}; echo fine > ordinary; true", "--write", other)
    assert (other / "ordinary").exists()
    assert (other / ".git/config").read_text() == before
    assert name == ".git/config" or not (other / name).exists()


def test_a_granted_file_is_no_directory_with_names(sh, home, work):
    (home / "notes").write_text("a\n")
    sh(f"echo b >> {home}/notes", "--write", home / "notes").check()
    assert (home / "notes").read_text() == "a\nb\n"


NAMES = """lefthook-local.yml lefthook.yaml .lefthook.toml .config/lefthook.json .config/lefthook-local.yml opencode.jsonc .hg/hgrc
.jj/repo/config.toml .sl/config .helix/languages.toml .dir-locals-2.el .overcommit.yml prek.toml .cursorrules .clinerules .rules
.mise.toml mise.toml .tool-versions .devcontainer.json .windsurfrules .gdbinit .irbrc .Rprofile .lvimrc .tmuxinator.yml hk.pkl
.agents/skills/x .claude-plugin/marketplace.json .github/hooks/x .qwen/settings.json captainhook.json
.goosehints .augment-guidelines lint-staged.config.ts .lintstagedrc.mts commitlint.config.ts .commitlintrc.cts""".split()


def test_names_that_programs_obey_are_not_left(sh, work):
    sh("; ".join(f"mkdir -p $(dirname {name}); echo evil > {name}" for name in NAMES) + "; echo x > CLAUDE.md; echo x > AGENTS.md")
    assert [name for name in NAMES if (work / name).exists()] == []
    assert (work / "CLAUDE.md").exists() and (work / "AGENTS.md").exists(), "documents are the project's own"


def test_workspace_files_of_editors(sh, work):
    (work / "a.code-workspace").write_text("{}")
    (work / "b.sublime-project").write_text("{}")
    sh("echo evil > a.code-workspace; echo evil > b.sublime-project; true")
    assert (work / "a.code-workspace").read_text() == (work / "b.sublime-project").read_text() == "{}"


@pytest.mark.parametrize("script", [
    "echo evil > NAME", "echo evil > x; mv x NAME", "echo evil > x; ln x NAME", "echo evil > x; ln -s x NAME", "mkdir NAME", "python3 -c 'open(\"NAME\", \"x\")'",
])
@pytest.mark.parametrize("name", ["new.code-workspace", ".code-workspace", "new.sublime-project"])
@pytest.mark.rows
def test_new_workspace_files_of_editors_are_refused(sh, work, home, script, name):
    other = home / "other"
    other.mkdir()
    for place in (work, other):
        result = sh(f"cd {place}; {script.replace('NAME', name)}; echo fine > fine; mkdir -p d; echo x > d/{name}", "--write", other)
        assert not os.path.lexists(place / name) and (place / "fine").exists(), result
        assert (place / "d" / name).exists(), "further down it is content"
    granted = work / "mine.code-workspace"
    granted.write_text("{}")
    sh("echo mine > mine.code-workspace", "--write", granted).check()
    assert granted.read_text() == "mine\n"


@pytest.mark.parametrize("option", ["--deny-write", "--deny-read"])
@pytest.mark.parametrize("name", ["f", "deep/er/f", "./f"])
@pytest.mark.rows
def test_a_refusal_of_what_does_not_exist_holds(sh, work, home, option, name):
    other = home / "other"
    other.mkdir()
    for place in (work, other):
        target = place / name
        sh(f"mkdir -p $(dirname {target}); echo evil > {target}; echo x > {place}/fine; true", "--write", other, option, target)
        assert not target.exists() and (place / "fine").exists()
        (place / "fine").unlink()


def test_a_refusal_through_a_link_of_what_does_not_exist(sh, work):
    (work / "way").symlink_to("dir")
    (work / "dir").mkdir()
    sh("echo evil > way/f; rm -f way; mkdir way; echo evil > way/f; true", "--deny-write", work / "way/f")
    assert os.readlink(work / "way") == "dir" and not (work / "dir/f").exists()


@pytest.mark.root
def test_root_does_not_read_copies_of_passwords(sh):
    for name in ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-"):
        if os.path.exists(name):
            result = sh(f"cat {name}")
            assert result.status != 0 and result.text == "", name


# Files of root's beside those: held back wherever they come to be, which `why` says without them.
SYSTEM_SECRETS = """/etc/shadow /etc/shadow- /etc/gshadow- /etc/security/opasswd /var/backups/shadow.bak /var/backups/gshadow /etc/wireguard/wg0.conf
/etc/letsencrypt/live/x/privkey.pem /etc/NetworkManager/system-connections/home.nmconnection /etc/kubernetes/admin.conf /etc/krb5.keytab
/etc/ssh/ssh_host_ed25519_key /etc/sudoers.d/x /etc/ssl/private/x.key""".split()


def test_a_word_that_begins_with_a_dot_is_a_path(bailey, work):
    said = bailey("why", ".envrc", cwd=work).text
    assert said.startswith(f"{work}/.envrc: read"), said


@pytest.mark.root
@pytest.mark.parametrize("path", SYSTEM_SECRETS)
def test_root_does_not_read_secrets_of_the_system(bailey, work, path):
    said = bailey("why", path, cwd=work).text.splitlines()[0]
    assert said.endswith(": denied"), said
    if os.path.isfile(path):
        assert bailey("run", "--", "head", "-c", "1", path, cwd=work).status != 0


@pytest.mark.parametrize("variable,below", [
    ("GNUPGHOME", ""), ("KUBECONFIG", ""), ("XDG_CONFIG_HOME", "gh/hosts.yml"), ("CARGO_HOME", "credentials.toml"), ("DOCKER_CONFIG", "config.json"),
    ("PGPASSFILE", ""), ("CODEX_HOME", "auth.json"), ("GEMINI_CLI_HOME", ".gemini/oauth_creds.json"), ("COPILOT_HOME", "config.json"), ("QWEN_HOME", "oauth_creds.json"),
    ("GEMINI_CLI_HOME", ".gemini/mcp-oauth-tokens.json"), ("GEMINI_CLI_HOME", ".gemini/a2a-oauth-tokens.json"), ("GEMINI_CLI_HOME", ".gemini/gemini-credentials.json"),
    ("QWEN_HOME", "mcp-oauth-tokens.json"), ("CONTINUE_GLOBAL_DIR", "auth.json"),
    ("PI_CODING_AGENT_DIR", "auth.json"), ("CONTINUE_GLOBAL_DIR", ".env"), ("XDG_DATA_HOME", "opencode/auth.json"), ("XDG_CONFIG_HOME", "goose/secrets.yaml"),
])
@pytest.mark.parametrize("options", [(), ("--home", "real")])
@pytest.mark.rows
def test_credentials_that_a_variable_moves(sh, home, variable, below, options):
    place = home.parent / (home.name + "-moved")
    target = place / "x" / below if below else place / "x"
    target.parent.mkdir(parents=True)
    target.write_text("secret\n")
    try:
        env = {variable: str(place / "x") if variable != "KUBECONFIG" else f"/nowhere:{place}/x"}
        assert "secret" not in sh(f"cat {target}", *options, env=env).text
        assert "secret" in sh(f"cat {target}", *options, "--read", target, env=env).text
    finally:
        shutil.rmtree(place)


@pytest.mark.parametrize("variable", ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "QWEN_HOME", "COPILOT_HOME", "PI_CODING_AGENT_DIR", "CONTINUE_GLOBAL_DIR"])
def test_an_agents_directory_that_a_variable_moves_is_no_part_of_the_sandbox(sh, home, variable):
    """As its directory in the home is none: files that no rule knows do not show either."""
    place = home.parent / (home.name + "-moved")
    (place / "x").mkdir(parents=True)
    (place / "x/sessions").write_text("secret\n")
    try:
        assert "secret" not in sh(f"cat {place}/x/sessions", env={variable: str(place / "x")}).text
    finally:
        shutil.rmtree(place)


@pytest.mark.parametrize("options", [(), ("--home", "real")])
def test_keys_in_the_accounts_home_when_home_is_another(bailey, work, options):
    """HOME is a directory of the test's: the account has one by /etc/passwd."""
    account = pathlib.Path(pwd.getpwuid(os.getuid()).pw_dir)
    made = not (account / ".ssh").exists()
    (account / ".ssh").mkdir(exist_ok=True)
    key = account / ".ssh/bailey-test-key"
    key.write_text("secret\n")
    try:
        assert "secret" not in bailey("run", *options, "--", "cat", key, cwd=work).text
    finally:
        key.unlink()
        if made:
            (account / ".ssh").rmdir()


@pytest.mark.parametrize("options", [(), ("--home", "real")])
def test_why_says_what_a_run_does_in_a_home(bailey, options):
    """Homes are closed; the workspace and what is granted in them are not, and `why` knows it."""
    account = pathlib.Path(pwd.getpwuid(os.getuid()).pw_dir)
    with tempfile.TemporaryDirectory(prefix="bailey-test-", dir=account) as top:
        place = pathlib.Path(top)
        for name in ("ws", "granted", "closed"):
            (place / name).mkdir()
            subprocess.run(["git", "init", "-q", place / name], check=True)
        grant = (*options, "--write", place / "granted")
        for file in ("ws/f", "granted/f", "granted/.git/config", "ws/.git/config", "ws/.git/hooks/x", "closed/f"):
            said = bailey("why", *grant, place / file, cwd=place / "ws").text.splitlines()[0]
            written = bailey("run", *grant, "--", "sh", "-c", f"echo x >> {place / file}", cwd=place / "ws").status == 0
            stays = written and (place / file).exists() and (place / file).read_text().endswith("x\n")
            assert said.endswith(": write") == stays == (file in ("ws/f", "granted/f")), (file, said, stays)


@pytest.mark.root
@pytest.mark.parametrize("options", [(), ("--home", "real")])
@pytest.mark.parametrize("what", [".", ".ssh", "work/secret", "work"])
@pytest.mark.rows
def test_a_second_mount_shows_no_more(sh, home, work, what, options):
    """The same directory at another place: the home, a denied directory itself, a denied file's directory."""
    (home / ".ssh").mkdir()
    (home / ".ssh/id").write_text("KEY\n")
    (work / "secret").mkdir()
    (work / "secret/token").write_text("KEY\n")
    alias = pathlib.Path(tempfile.mkdtemp(prefix="bailey alias.", dir="/srv"))
    subprocess.run(["mount", "--bind", home / what, alias], check=True)
    try:
        result = sh(f"cat '{alias}'/id '{alias}'/token '{alias}'/.ssh/id '{alias}/{work.name}'/secret/token '{alias}'/secret/token", *options,
                    "--deny-read", work / "secret")
        assert "KEY" not in result.text, result
    finally:
        subprocess.run(["umount", alias], check=True)
        alias.rmdir()
