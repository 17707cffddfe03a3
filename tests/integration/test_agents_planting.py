# SPDX-License-Identifier: Apache-2.0
"""What an agent reads when it starts, written inside by every way: the agent outside never runs it. And no secret of the account can be
found anywhere in a sandbox."""
import json
import os
import shlex
import shutil
import subprocess

import pytest

from kit.agents import KEY, OPENAI_KEY, SECRET, TOKENS, World, claude_file, codex_file, gemini_file
from kit.git import ENVIRONMENT, git
from kit.planting import IN_HOME, IN_PROJECT, SEARCH, digest, text_of

pytestmark = [pytest.mark.visible_home, pytest.mark.exact_build]
# $top: the home or the project; $src: a file with its content, in a directory of its own; $dst: its place, $d: the directory of that.
WAYS = {
    "write": 'cp "$src" "$dst"',
    "rename": 'cp "$src" "$dst.new"; mv "$dst.new" "$dst" || rm "$dst.new"',
    "link": 'cp "$src" "$dst.new"; ln "$dst.new" "$dst"; rm "$dst.new"',
    "symlink": 'ln -s "$src" "$dst"',
    "directory": '[ "$d" = "$top" ] || { rmdir "$d" && mv "${src%/*}" "$d"; }',
    "checkout": '[ "$top" != "$PWD" ] || git checkout -q planted -- "${dst#"$PWD/"}"',
}


@pytest.mark.parametrize("way, exists, overlay", [*((way, exists, False) for way in WAYS for exists in (False, True)),
                                                  *((way, way == "write", True) for way in ("write", "symlink", "directory"))])
def test_planting(sh, bailey, home, work, way, exists, overlay):
    """All files at once: none of them is in the real home or in the project afterwards, nor changed where it was; nor by what is applied of an overlay."""
    ran = home / "ran"
    git("init", "-q", ".", cwd=work)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=work)
    git("checkout", "-q", "-b", "planted", cwd=work)
    for path, content in IN_PROJECT.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(text_of(content, ran))
    git("add", "-A", cwd=work)
    git("commit", "-qm", "planted", cwd=work)
    git("checkout", "-q", "-", cwd=work)
    assert not (work / ".mcp.json").exists()
    if exists:
        for top, paths in ((home, IN_HOME), (work, IN_PROJECT)):
            for path in paths:
                (top / path).parent.mkdir(parents=True, exist_ok=True)
                (top / path).write_text("{}\n")
    sources, lines = {}, []
    for top, paths in (("$HOME", IN_HOME), ("$PWD", IN_PROJECT)):
        for number, (path, content) in enumerate(paths.items()):
            source = f"$TMP/{top[1:]}{number}/{os.path.basename(path)}"
            sources[source] = shlex.quote(text_of(content, ran))
            lines.append(f'top={top}; dst="$top/{path}"; d="${{dst%/*}}"; src="{source}"; [ -d "$d" ] || mkdir -p "$d"; {WAYS[way]}')
    (work / "plant.sh").write_text("\n".join(["exec 2>/dev/null; TMP=$PWD/planted", f"mkdir -p {' '.join(map(os.path.dirname, sources))}",
                                              *(f"printf '%s\\n' {text} > {source}" for source, text in sources.items()),
                                              f"chmod +x {' '.join(sources)}", *lines, "true\n"]))
    state = home / ".local/state"
    before = digest(home, leave=(state, work / ".git", work / "planted"))
    sh("sh ./plant.sh", *(["--overlay"] if overlay else []), env=ENVIRONMENT).check()
    if overlay:
        assert not (work / "planted").exists()
        bailey("apply", cwd=work)
    assert (work / "planted").is_dir()
    after = digest(home, leave=(state, work / ".git", work / "planted"))
    assert after == before, {path for path in {*before, *after} if before.get(path) != after.get(path)}
    git("status", cwd=work)
    assert not ran.exists()


def outside(world, *words, where=None):
    """The agent as a person starts it, without Bailey."""
    proxy = f"http://127.0.0.1:{world.models.proxy_port}"
    env = {**world.environment(), "HOME": str(world.home), "LANG": "C.UTF-8", "HTTPS_PROXY": proxy, "https_proxy": proxy,
           "NODE_EXTRA_CA_CERTS": str(world.authority.file), "SSL_CERT_FILE": str(world.authority.file), "NODE_USE_ENV_PROXY": "1"}
    return subprocess.run([world.program, *words], cwd=where or world.work, env=env, timeout=120, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["claude", pytest.param("codex", marks=pytest.mark.table), pytest.param("gemini", marks=pytest.mark.table)])
def test_the_agent_outside_runs_nothing_of_it(name, start, home, work, tmp_path, closing, bailey):
    """The same files, put there by a person, are obeyed: so the test would see it."""
    world = World(name, start, home, work, tmp_path, closing, steps={}).sign_in("key")
    ran = home / "ran"
    files = {path: text_of(content, ran) for path, content in IN_HOME.items() if path.startswith((f".{name}/", f".{name}.json")) and "RAN" in json.dumps(content)
             and path.endswith((".json", "config.toml"))}
    (work / "plant.py").write_text("import json, pathlib\nfor path, text in json.load(open('files.json')).items():\n"
                                   "    for top in (pathlib.Path.home(), pathlib.Path('.')):\n        f = top / path\n"
                                   "        try:\n            f.parent.mkdir(parents=True, exist_ok=True); f.write_text(text)\n        except OSError: pass\n")
    (work / "files.json").write_text(json.dumps(files))
    bailey("run", "--profile", name, "--", "python3", "plant.py", cwd=work).check()
    outside(world, *world.row["words"])
    assert not ran.exists()
    for path, text in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    said = outside(world, *world.row["words"])
    assert ran.exists(), ("nothing would have been seen", said)


# What starts a program when the agent starts in the project, which its user trusts.
PROJECT = {"claude": [".claude/settings.json"], "codex": [".codex/config.toml", ".codex/hooks.json"], "gemini": [".gemini/settings.json"], "qwen": [".qwen/settings.json"],
           "opencode": ["opencode.json"], "copilot": [".github/mcp.json"]}


TWO = [] if os.environ.get("BAILEY_TABLE") else pytest.mark.user  # of them in `make test`, and copilot takes five seconds for each start; root runs them all in `tests/run agents`


@pytest.mark.parametrize("name, place", [
    pytest.param(name, place, marks=TWO if (name, place) in (("claude", "."), ("copilot", "packages/one")) else pytest.mark.table, id=f"{name}-{where}")
    for name in PROJECT for place, where in ((".", "at the top"), ("packages/one", "in a subdirectory"))])
def test_the_agent_outside_runs_nothing_of_the_project(name, start, home, work, tmp_path, closing, bailey, place):
    """Written by a sandbox it is gone when the agent starts in the project, wherever; written by a person it is obeyed."""
    world = World(name, start, home, work, tmp_path, closing, steps={}).sign_in("key")
    ran, where = home / "ran", (work / place).resolve()
    where.mkdir(parents=True, exist_ok=True)
    trusted = {".copilot/config.json": json.dumps({"trusted_folders": [str(work), str(where)]}),
               ".codex/config.toml": "".join(f'[projects."{path}"]\ntrust_level = "trusted"\n' for path in {str(work), str(where)})}
    for path, text in trusted.items():
        (home / path).parent.mkdir(exist_ok=True)
        (home / path).write_text(text)
    files = {path: text_of(IN_PROJECT[path], ran) for path in PROJECT[name]}
    (where / "files.json").write_text(json.dumps(files))
    (where / "plant.py").write_text("import json, pathlib\nfor path, text in json.load(open('files.json')).items():\n"
                                    "    f = pathlib.Path(path)\n    f.parent.mkdir(parents=True, exist_ok=True)\n    f.write_text(text)\n")
    bailey("run", "--", "sh", "-c", f"cd {place} && exec python3 plant.py", cwd=work).check()
    outside(world, *world.row["words"], where=where)
    assert not ran.exists()
    subprocess.run(["python3", "plant.py"], cwd=where, check=True)
    said = outside(world, *world.row["words"], where=where)
    assert ran.exists(), ("nothing would have been seen", said)


def test_no_secret_can_be_found(bailey, home, work, tmp_path):
    secrets = {"ssh": SECRET, "anthropic": KEY, "openai": OPENAI_KEY, "github": "ghp_RealTokenOfThisTestOnly0123456789abcd", "npm": "npm_RealTokenOfThisTestOnly0123456789abcdef",
               "aws": "wJalrRealSecretOfThisTestOnlyKEY0123456789", "netrc": "password-of-this-test-only-4711", "gcloud": "1//0RealRefreshOfGcloudOfThisTest"}
    for name, tokens in TOKENS.items():
        secrets[f"{name} access"], secrets[f"{name} refresh"] = tokens(0)
    files = {".ssh/id_rsa": SECRET, ".netrc": f"machine x login y password {secrets['netrc']}", ".npmrc": f"//registry.npmjs.org/:_authToken={secrets['npm']}\n",
             ".aws/credentials": f"[default]\naws_access_key_id = AKIAIOSFODNN7EXAMPLE\naws_secret_access_key = {secrets['aws']}\n",
             ".config/gh/hosts.yml": f"github.com:\n    oauth_token: {secrets['github']}\n    user: ann\n", ".git-credentials": f"https://ann:{secrets['github']}@github.com\n",
             ".claude/.credentials.json": json.dumps(claude_file(*TOKENS["claude"](0), 3600)), ".codex/auth.json": json.dumps(codex_file(*TOKENS["codex"](0), 3600)),
             ".gemini/oauth_creds.json": json.dumps(gemini_file(*TOKENS["gemini"](0), 3600)),
             ".local/share/opencode/auth.json": json.dumps({"anthropic": {"type": "api", "key": KEY}}), ".bashrc": f"export OPENAI_API_KEY={OPENAI_KEY}\n",
             ".config/gcloud/application_default_credentials.json": json.dumps({"type": "authorized_user", "client_id": "x", "client_secret": "y",
                                                                                "refresh_token": secrets["gcloud"]}), ".bash_history": f"curl -H {KEY}\n"}
    for path, text in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
        (home / path).chmod(0o600)
    planted = "planted-secret-of-this-test-0815"
    (work / "notes.txt").write_text(f"x {planted} y")
    (work / "wanted.json").write_text(json.dumps([text[::-1] for text in [*secrets.values(), planted]]))
    (work / "search.py").write_text(SEARCH)
    env = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": OPENAI_KEY, "GITHUB_TOKEN": secrets["github"], "AWS_SECRET_ACCESS_KEY": secrets["aws"],
           "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE"}
    result = bailey("run", "--quiet", "--profile", "claude", "--profile", "codex", "--profile", "gemini", "--profile", "opencode", "--credential", "github",
                    "--env", f"NOTE={planted}", "--", "sh", "-c", 'bash -lc "sleep 60" & sleep 1; python3 search.py "$HOME" "$PWD" /tmp /run /etc /dev/shm; kill $! || true',
                    cwd=work, env=env, timeout=240).check()
    said = json.loads(result.text.splitlines()[-1])
    places = {where for where, _ in said["found"]}
    assert str(work / "notes.txt") in places and "environment" in places, "what was planted is found"
    assert any(place.endswith("/environ") for place in places) and any(place.endswith("/mem") for place in places), places
    assert {text for _, text in said["found"]} == {planted[::-1][:12]}, said["found"]
    assert said["looked"] > 100 and shutil.which("bash")
