# SPDX-License-Identifier: Apache-2.0
"""The sandbox's own home under bad conditions: settings that cannot be read, a disk that is full, runs beside each other, a kill at any
moment. Errors are clear, and the account's own files stay as they were."""
import hashlib
import json
import os
import random
import signal
import time

import pytest

from conftest import program
from kit.agents import TOKENS, claude_file, gemini_file

pytestmark = pytest.mark.visible_home
FILES = {".gitconfig": "[user]\n\tname = Ann\n", ".npmrc": "registry=https://npm.example.org/\n", ".config/pip/pip.conf": "[global]\nindex-url = https://pip.example.org/\n",
         ".cargo/config.toml": "[net]\nretry = 3\n", ".config/gh/hosts.yml": "github.com:\n    oauth_token: ghp_0123456789abcdefghijABCDEFGHIJ012345\n    user: ann\n",
         ".claude/.credentials.json": json.dumps(claude_file(*TOKENS["claude"](0), 3600)), ".claude/settings.json": '{"theme": "dark"}',
         ".codex/auth.json": '{"OPENAI_API_KEY": "sk-proj-0123456789abcdefghijABCDEFGHIJ0123456789"}', ".claude.json": '{"theme": "dark"}',
         ".gemini/oauth_creds.json": json.dumps(gemini_file(*TOKENS["gemini"](0), 3600)),
         ".local/share/opencode/auth.json": '{"anthropic": {"type": "api", "key": "sk-ant-api03-0123456789abcdefghijABCDEFGHIJ"}}',
         ".copilot/config.json": '{"copilot_tokens": {"https://github.com:me": "gho_0123456789abcdefghijABCDEFGHIJ012345"}}',
         ".config/git/ignore": "*.o\n", ".config/gcloud/application_default_credentials.json":
         '{"type": "authorized_user", "client_id": "x", "client_secret": "y", "refresh_token": "1//0abcdefghijABCDEFGHIJ0123456789"}'}


@pytest.fixture
def account(home):
    for path, text in FILES.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    return home


def digest(home):
    found = {}
    for path in FILES:
        file = home / path
        st = os.lstat(file)
        readable = os.path.isfile(file) and not os.path.islink(file) and os.access(file, os.R_OK) and st.st_size < 1 << 26
        found[path] = (st.st_mode, st.st_ino, st.st_size, hashlib.sha256(file.read_bytes()).hexdigest() if readable else "")
    return found


def bad_link(to):
    return lambda file: (file.unlink(), file.symlink_to(to))


BAD = {
    "enormous": lambda file: os.truncate(file, 1 << 34),
    "large": lambda file: file.write_bytes(b"[a]\nb = c\n" * 500000),
    "bytes": lambda file: file.write_bytes(bytes(range(256)) * 64),
    "deep": lambda file: file.write_text("[" * 100000 + "{\"a\":" * 100000),
    "empty": lambda file: file.write_text(""),
    "cut": lambda file: file.write_text('{"claudeAiOauth": {"accessToken": "sk-ant-oat01-'),
    "zero": bad_link("/dev/zero"),
    "dangling": bad_link("nowhere/at/all"),
    "loop": lambda file: (file.unlink(), file.symlink_to(file.name)),
    "shadow": bad_link("/etc/shadow"),
    "fifo": lambda file: (file.unlink(), os.mkfifo(file)),
    "directory": lambda file: (file.unlink(), file.mkdir()),
    "closed": lambda file: file.chmod(0),
}


@pytest.mark.parametrize("kind", BAD)
def test_settings_of_every_bad_kind(bailey, account, work, kind):
    """All of them at once: the command runs, or a line says which file is the reason."""
    for path in FILES:
        BAD[kind](account / path)
    before = digest(account)
    profiles = [word for name in ("claude", "codex", "gemini", "opencode", "copilot") for word in ("--profile", name)]
    result = bailey("run", *profiles, "--credential", "gcloud-sign-in", "--", "sh", "-c", "echo ran; cat ~/.gitconfig ~/.npmrc 2>/dev/null | head -c 200", cwd=work,
                    timeout=60)
    assert digest(account) == before
    assert "root:" not in result.text
    if result.status != 0:
        assert any(path.split("/")[-1] in result.errors for path in FILES) and "error" in result.errors, result
    else:
        assert result.text.startswith("ran\n"), result
    assert len(result.errors.splitlines()) <= 2 * len(FILES), result


def test_a_disk_that_is_full(start, account, work, tmp_path):
    """Where the state is kept, there is hardly room: an error says so, or the command runs; and the account's files are as they were."""
    before, state = digest(account), tmp_path / "state"
    state.mkdir()
    for size in ("8k", "32k", "64k", "256k"):
        script = f'mount -t tmpfs -o size={size} none {state} && shift 0 && exec "$@"'
        child = start(["unshare", "--user", "--map-current-user", "--keep-caps", "--mount", "--", "sh", "-c", script, "sh", program("bailey"), "run",
                       "--profile", "claude", "--", "sh", "-c", "echo ran; head -c 1000000 /dev/zero > ~/big && echo wrote"], cwd=work,
                      env={"XDG_STATE_HOME": str(state)})
        result = child.wait(60)
        assert "wrote" not in result.text and digest(account) == before, result
        if "ran" not in result.text:
            assert "No space left" in result.errors and result.status != 0, result


def test_two_runs_in_one_home(start, account, work):
    def one(name, other):
        script = f"""for i in 1 2 3 4 5 6 7 8; do echo {name} >> ~/shared; done; touch ~/{name}; i=0
            while [ ! -e ~/{other} ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); done; git config --global --get user.name"""
        return start(["bailey", "run", "--home", "team", "--profile", "claude", "--", "sh", "-c", script], cwd=work)
    before = digest(account)
    for _ in range(3):
        children = [one("a", "b"), one("b", "a")]
        for child in children:
            result = child.wait().check()
            assert result.text == "Ann\n", result
    found = start(["bailey", "run", "--quiet", "--home", "team", "--", "sh", "-c", "sort ~/shared | uniq -c | tr -s ' '"], cwd=work).wait().check().text
    assert found == " 24 a\n 24 b\n" and digest(account) == before


def test_a_kill_at_any_moment_of_seeding(start, bailey, account, work):
    before, random_ms = digest(account), random.Random(4711)
    for turn in range(25):
        (account / ".gitconfig").write_text(f"[user]\n\tname = Ann {turn}\n")
        os.utime(account / ".gitconfig", ns=(turn * 10**9, turn * 10**9))
        child = start(["bailey", "run", "--profile", "claude", "--profile", "codex", "--", "true"], cwd=work)
        time.sleep(random_ms.uniform(0.0005, 0.03))
        child.process.send_signal(signal.SIGKILL)
        child.wait()
    result = bailey("run", "--quiet", "--profile", "claude", "--", "sh", "-c", "git config --global user.name; head -c 20 ~/.claude/.credentials.json", cwd=work).check()
    assert result.text.startswith("Ann 24\n{\"claudeAiOauth\""), result
    del before[".gitconfig"]
    after = digest(account)
    del after[".gitconfig"]
    assert after == before
