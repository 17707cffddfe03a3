# SPDX-License-Identifier: Apache-2.0
"""Real coding agents, as npm has them, in `bailey run -- AGENT`, with stand-ins of everything that they talk to.

    world = World(name, start, home, work, tmp_path, closing)
    world.sign_in("key" | "stored" | "account" | "subscription")
    result = world.run()

The providers' names lead to an upstream proxy of the test's own, so that ordinary users, who may not listen on port 443, can do it too."""
import base64
import contextlib
import fcntl
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import time

import pytest

from .models import Models
from .tls import Authority

CACHE = pathlib.Path(os.environ.get("BAILEY_AGENTS", "/var/cache/bailey-agents"))
KEY = "sk-ant-api03-RealKeyOfThisTestOnly-Zq8Yt3KpXw5Nn7Bb2Vv4Aa1Bb2Cc3Dd4Ee5Ff6Gg7Hh8Ii9Jj0AA"
OPENAI_KEY = "sk-proj-RealKeyOfThisTestOnlyZq8Yt3KpXw5Nn7Bb2Vv4Aa1Bb2Cc3Dd4Ee5Ff6Gg7Hh8"
GITHUB_TOKEN = "gho_RealTokenOfThisTestOnly0123456789abcdefg"
SECRET = "-----BEGIN OPENSSH PRIVATE KEY----- of this test"
MACHINE = "arm64" if platform.machine() == "aarch64" else "x64"  # as npm's packages call it
ALLOWED, REFUSED = "allowed.test", "refused.test"
PROMPT = "Do what the plan says."
PUBLIC = "93.184.215.14"  # what every name leads to; nobody dials it, the proxy is asked by name


BEGAN = int(time.time())  # the same name is the same token, as long as the tests run


def jwt(name, lives):
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
    claims = {"exp": BEGAN + lives, "iat": 1, "sub": name, "email": "ann@example.com",
              "https://api.openai.com/auth": {"chatgpt_plan_type": "plus", "chatgpt_account_id": "acc-1", "chatgpt_user_id": "user-1"}}
    return ".".join([part({"alg": "RS256", "typ": "JWT"}), part(claims), part({"signature of": name * 4})])


# What a subscription leaves in the home, with a token that is over; and what the token endpoint answers.
def claude_file(access, refresh, lives):
    return {"claudeAiOauth": {"accessToken": access, "refreshToken": refresh, "expiresAt": int((time.time() + lives) * 1000),
                              "scopes": ["user:inference", "user:profile"], "subscriptionType": "max"}}


def codex_file(access, refresh, lives):
    refreshed = "2026-01-01T00:00:00.000000Z" if lives < 0 else time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    return {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "last_refresh": refreshed,
            "tokens": {"id_token": jwt("id", 86400), "access_token": access, "refresh_token": refresh, "account_id": "acc-1"}}


def gemini_file(access, refresh, lives):
    return {"access_token": access, "refresh_token": refresh, "scope": "https://www.googleapis.com/auth/cloud-platform", "token_type": "Bearer",
            "expiry_date": int((time.time() + lives) * 1000)}


def copilot_file(token):
    user = {"host": "https://github.com", "login": "ann"}
    return {"store_token_plaintext": True, "last_logged_in_user": user, "logged_in_users": [user], "copilot_tokens": {"https://github.com:ann": token}}


def account_in(provider):
    """As opencode and pi keep several accounts in one file."""
    return lambda access, refresh, lives: {provider: {"type": "oauth", "access": access, "refresh": refresh, "expires": int((time.time() + lives) * 1000),
                                                      "accountId": "acc-1"}}


# The tokens of an account after so many renewals; -1: the ones that are over.
TOKENS = {
    "claude": lambda n: (f"sk-ant-oat01-RealAccess{n}" + "Zq8Yt3KpXw5Nn7Bb2Vv4" * 3 + "AA", f"sk-ant-ort01-RealRefresh{n}" + "Yt3KpXw5Nn7Bb2Vv4Zq8" * 3 + "AA"),
    "codex": lambda n: (jwt(f"real access {n}", 86400 if n >= 0 else -60), f"rt_RealRefresh{n}" + "KpXw5Nn7Bb2Vv4Zq8Yt3" * 3),
    "gemini": lambda n: (f"ya29.RealAccess{n}" + "Nn7Bb2Vv4Zq8Yt3KpXw5" * 5, f"1//0RealRefresh{n}" + "Bb2Vv4Zq8Yt3KpXw5Nn7" * 3),
}
CLAUDE_HOSTS, CHATGPT_HOSTS = ["platform.claude.com", "console.anthropic.com"], ["chatgpt.com", "auth.openai.com"]

# The program, its words, the variable that has the key, the provider's hosts, settings that a person would have made once.
AGENTS = {
    "claude": {"package": "@anthropic-ai/claude-code", "words": ["-p", PROMPT, "--dangerously-skip-permissions"], "variable": "ANTHROPIC_API_KEY",
               "hosts": ["api.anthropic.com"], "env": {"IS_SANDBOX": "1"}, "again": ["--continue", "-p", PROMPT, "--dangerously-skip-permissions"],
               "terminal": {"how": "key", "words": ["--permission-mode", "default"], "ready": r"\? for shortcuts|shift\+tab to cycle", "answers": [
                   ("text style", ["Enter"]), ("use this API key", ["Up", "Enter"]), ("Security notes|Press Enter to continue", ["Enter"]),
                   ("❯ No, exit", ["Down", "Enter"]), ("❯.*Yes, I trust", ["Enter"])]},
               "subscriptions": {"claude": {"file": ".claude/.credentials.json", "make": claude_file, "hosts": CLAUDE_HOSTS}}},
    "codex": {"package": "@openai/codex", "words": ["exec", "--skip-git-repo-check", "-m", "gpt-5", PROMPT], "variable": "CODEX_API_KEY",
              "key": OPENAI_KEY, "hosts": ["api.openai.com"], "again": ["exec", "--skip-git-repo-check", "-m", "gpt-5", "resume", "--last", PROMPT],
              "stored": (".codex/auth.json", lambda key: {"auth_mode": "apikey", "OPENAI_API_KEY": key}),
              "terminal": {"how": "stored", "words": ["-m", "gpt-5"], "ready": "Ask Codex", "answers": [("Trust this folder|Trust and continue", ["Enter"])]},
              "subscriptions": {"codex": {"file": ".codex/auth.json", "make": codex_file, "hosts": CHATGPT_HOSTS}}},
    "gemini": {"package": "@google/gemini-cli", "words": ["--yolo", "-p", PROMPT], "variable": "GEMINI_API_KEY",
               "key": "AIzaSyRealKeyOfThisTestOnlyZq8Yt3KpXw5Nn", "hosts": ["generativelanguage.googleapis.com"],
               "env": {"GEMINI_CLI_TRUST_WORKSPACE": "true"}, "again": ["--yolo", "-r", "latest", "-p", PROMPT],
               "terminal": {"how": "key", "ready": "Type your message", "answers": [
                   ("How would you like to authenticate", ["Enter"]), ("trust", ["Enter"]), ("Enter.*API [Kk]ey", ["Enter"])], "suspend": ["C-z", "C-z"]},
               # its shell hides the settings of git from what it runs, inside and outside a sandbox
               "steps": {"committed": "git add made.txt && git -c user.name=Ann -c user.email=ann@example.com commit -qm made && git log --oneline "
                                      "&& echo COMMITTED=0"},
               "subscriptions": {"gemini": {"file": ".gemini/oauth_creds.json", "make": gemini_file, "env": {"GOOGLE_GENAI_USE_GCA": "true"},
                                            "hosts": ["cloudcode-pa.googleapis.com", "oauth2.googleapis.com"]}}},
    "opencode": {"package": "opencode-ai", "binary": f"opencode-linux-{MACHINE}", "words": ["run", "-m", "anthropic/claude-sonnet-4-5", PROMPT], "variable": "ANTHROPIC_API_KEY",
                 "hosts": ["api.anthropic.com", "models.dev"], "env": {"OPENCODE_CONFIG_CONTENT": '{"permission": {"external_directory": "allow"}}'},
                 "again": ["run", "-c", "-m", "anthropic/claude-sonnet-4-5", PROMPT],
                 "terminal": {"how": "key", "ready": "Ask anything", "answers": []},
                 "stored": (".local/share/opencode/auth.json", lambda key: {"anthropic": {"type": "api", "key": key}}),
                 "account": {"file": ".local/share/opencode/auth.json", "hosts": ["api.githubcopilot.com"], "words": ["run", "-m", "github-copilot/claude-sonnet-4.6", PROMPT],
                             "make": lambda token: {"github-copilot": {"type": "oauth", "access": token, "refresh": token, "expires": 0}}},
                 "subscriptions": {"codex": {"file": ".local/share/opencode/auth.json", "make": account_in("openai"), "hosts": CHATGPT_HOSTS,
                                             "words": ["run", "-m", "openai/gpt-5.4", PROMPT]}}},
    "qwen": {"package": "@qwen-code/qwen-code", "words": ["--yolo", "-p", PROMPT, "--auth-type", "openai", "--model", "gpt-4o"],
             "variable": "OPENAI_API_KEY", "key": OPENAI_KEY, "hosts": ["api.openai.com"], "env": {"OPENAI_BASE_URL": "https://api.openai.com/v1"},
             # on a busy machine it loses what one command in ten has said, outside a sandbox as often as inside
             "loses": "Output: (empty)", "steps": {"committed": "git add made.txt; git commit -qm made; git log --oneline --grep=made && echo COMMITTED=0"},
             # it does nothing with Ctrl-Z, inside and outside a sandbox
             "terminal": {"how": "key", "words": ["--auth-type", "openai", "--model", "gpt-4o"], "ready": "Type your message", "answers": [], "suspend": []}},
    "cn": {"package": "@continuedev/cli", "words": ["-p", PROMPT, "--auto"], "variable": "ANTHROPIC_API_KEY", "hosts": ["api.anthropic.com"],
           "terminal": {"how": "key", "ready": "Ask anything|/ for slash", "answers": [], "suspend": []}},
    "copilot": {"package": "@github/copilot", "words": ["-p", PROMPT, "--allow-all-tools", "--allow-all-paths"], "variable": "ANTHROPIC_API_KEY",
                "hosts": ["api.anthropic.com"], "env": {"COPILOT_PROVIDER_TYPE": "anthropic", "COPILOT_PROVIDER_BASE_URL": "https://api.anthropic.com",
                                                        "COPILOT_MODEL": "claude-sonnet-4-5",
                                                        "COPILOT_PROVIDER_API_KEY_COMMAND": "printenv ANTHROPIC_API_KEY"},
                "terminal": {"how": "key", "ready": "/ commands|shift\\+tab|Type @", "answers": [("Do you trust", ["Enter"])]},
                # an account at GitHub, whose token is good until it is taken back
                "account": {"file": ".copilot/config.json", "make": copilot_file, "words": ["-p", PROMPT, "--allow-all-tools", "--allow-all-paths", "--model", "claude-sonnet-4.6"],
                            "hosts": ["api.github.com", "github.com", "api.githubcopilot.com", "api.individual.githubcopilot.com"]}},
    "pi": {"package": "@earendil-works/pi-coding-agent", "words": ["-p", PROMPT, "--provider", "anthropic", "--model", "claude-sonnet-4-5"],
           "variable": "ANTHROPIC_API_KEY", "hosts": ["api.anthropic.com"], "stored": (".pi/agent/auth.json", lambda key: {"anthropic": {"type": "api_key", "key": key}}),
           "terminal": {"how": "key", "words": ["--provider", "anthropic", "--model", "claude-sonnet-4-5"], "ready": r"\d%/[\d.]+[kM]", "answers": [], "end": ["C-c", "C-d"]},
           "subscriptions": {"claude": {"file": ".pi/agent/auth.json", "make": account_in("anthropic"), "hosts": CLAUDE_HOSTS},
                             "codex": {"file": ".pi/agent/auth.json", "make": account_in("openai-codex"), "hosts": CHATGPT_HOSTS,
                                       "words": ["-p", PROMPT, "--provider", "openai-codex", "--model", "gpt-5.2-codex"]}}},
}
SUBSCRIPTIONS = [(name, account) for name, row in AGENTS.items() for account in row.get("subscriptions", {})]

STEPS = {
    "wrote": "echo made > made.txt && echo WROTE=0",
    "ran": "expr 6 '*' 7; echo RAN=$?",
    "committed": "git add made.txt && git commit -qm made && git log --oneline && echo COMMITTED=0",
    "allowed": "curl -sS -m 30 -o /dev/null -w 'ALLOWED=%{http_code}\\n' https://" + ALLOWED + "/",
    "refused": "curl -sS -m 30 -o /dev/null https://" + REFUSED + "/; echo REFUSED=$?",
    "key": "cat ~/.ssh/id_rsa; echo KEY=$?",
    "hook": "echo 'touch /tmp/evil' > .git/hooks/pre-commit; echo HOOK=$?",
    "environment": "env | cut -c1-160; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -a KEY | cut -c1-160 | sort -u; echo ENVIRONMENT=$?",
}


def account(home, work):
    """As a person has it on the first day."""
    (home / ".ssh").mkdir(mode=0o700)
    (home / ".ssh" / "id_rsa").write_text(SECRET)
    (home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.com\n")
    subprocess.run(["git", "init", "-q", "-b", "main", work], check=True)
    subprocess.run(["git", "-C", work, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first"], check=True)


def forms(secret):
    """The secret as it is, and in base64 at any offset."""
    raw = secret.encode()
    return [raw] + [base64.b64encode(b"x" * n + raw)[(n * 8 + 5) // 6:][:len(raw) * 8 // 6 - 1] for n in range(3)]


# The newest agents want a newer node than Debian has; npm has that as well.
NODE_PACKAGE = f"node-linux-{MACHINE}"
NODE = CACHE / "node_modules" / NODE_PACKAGE / "bin"


def lately(path):
    with contextlib.suppress(FileNotFoundError):
        return time.time() - path.stat().st_mtime < 1800
    return False


def npm(*words):
    return subprocess.run(["npm", *words], timeout=600, check=False, env={**os.environ, "PATH": f"{NODE}:{os.environ['PATH']}"},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def older(package, binary):
    """Versions that a registry may have whole, where it lacks a part of the newest: the newest of them first."""
    found = [json.loads(npm("view", name, "versions", "--json").stdout or "[]") for name in (package, binary) if name]
    return [version for version in reversed(found[0]) if version in found[-1]][:8]


def install(program, package, binary=None):
    """The newest that can be had. Where npm reaches nothing, it takes minutes to say so: then nothing more is tried for half an hour."""
    if program.exists() or not shutil.which("npm") or not os.access(CACHE.parent, os.W_OK):
        return
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.exists() or lately(CACHE / "unreachable") or lately(CACHE / f"none-{program.name}"):
            return
        done = npm("install", "--no-audit", "--no-fund", "--prefix", str(CACHE), package)
        if re.search(r"\b(E(AI_AGAIN|NOTFOUND|CONN[A-Z]+|TIMEDOUT|IDLETIMEOUT)|[A-Z_]*CERT[A-Z_]*)\b", done.stderr):
            (CACHE / "unreachable").touch()
            return
        for version in () if program.exists() else older(package, binary):
            npm("install", "--no-audit", "--no-fund", "--prefix", str(CACHE), f"{package}@{version}")
            if program.exists():
                return
        if not program.exists():
            (CACHE / f"none-{program.name}").touch()


def node_directory():
    found = shutil.which("node")
    return NODE if (NODE / "node").exists() else found and pathlib.Path(found).parent


def installed(name):
    """The agent's program: from the cache, or npm's newest, once."""
    program, package = CACHE / "node_modules" / ".bin" / name, AGENTS[name]["package"]
    install(NODE / "node", f"{NODE_PACKAGE}@22")
    install(program, package, AGENTS[name].get("binary"))
    if not node_directory():
        pytest.skip("node is not there")
    if not program.exists():
        pytest.skip(f"{package} is not in {CACHE}, and npm cannot be reached")
    return program


def version(name):
    described = CACHE / "node_modules" / AGENTS[name]["package"] / "package.json"
    return json.loads(described.read_text())["version"]


class World:
    """One agent, one account, one project, and the providers."""

    def __init__(self, name, start, home, work, tmp_path, closing, steps=None):
        self.name, self.row, self.start, self.home, self.work, self.tmp = name, AGENTS[name], start, home, work, tmp_path
        self.program = installed(name)
        self.secrets = {self.row.get("key", KEY), SECRET}
        self.env, self.words = dict(self.row.get("env", {})), self.row["words"]
        self.authority = Authority(tmp_path)
        others = [*self.row.get("subscriptions", {}).values(), self.row.get("account", {"hosts": []})]
        self.hosts = [*self.row["hosts"], *(host for row in others for host in row["hosts"])]
        self.steps = {**STEPS, **self.row.get("steps", {})} if steps is None else steps
        self.models = closing(Models(self.authority, list(self.steps.values()), [*self.hosts, ALLOWED, REFUSED], port=0, plain=(ALLOWED, REFUSED)))
        self.models.loses = self.row.get("loses")
        account(home, work)
        (tmp_path / "agent-hosts").write_text("".join(f"{PUBLIC} {host}\n" for host in [*self.hosts, ALLOWED, REFUSED]))
        settings = home / ".config/bailey/config.yaml"
        settings.parent.mkdir(parents=True)
        settings.write_text(f"network:\n  upstream_proxy: http://127.0.0.1:{self.models.proxy_port}\n  allow: [{ALLOWED}]\n")

    def sign_in(self, how, lives=86400, account=None):
        """By a key in the environment, by one that the agent has stored, by a token of an account, or by a subscription whose token lives so long."""
        if how == "key":
            self.env[self.row["variable"]] = self.row.get("key", KEY)
        elif how == "stored":
            path, make = self.row["stored"]
            self.put(path, make(self.row.get("key", KEY)))
        elif how == "account":
            self.words = self.row["account"]["words"]
            self.env = {name: value for name, value in self.env.items() if not name.startswith("COPILOT_")}
            self.secrets.add(GITHUB_TOKEN)
            if account:
                self.env[account] = GITHUB_TOKEN
            else:
                self.put(self.row["account"]["file"], self.row["account"]["make"](GITHUB_TOKEN))
        else:
            account = account or next(iter(self.row["subscriptions"]))
            row, tokens = self.row["subscriptions"][account], TOKENS[account]
            self.words = row.get("words", self.words)
            self.put(row["file"], row["make"](*tokens(0 if lives > 0 else -1), lives))
            self.models.tokens = tokens
            self.models.id_token = jwt("id", 86400) if account in ("codex", "gemini") else None
            self.env.update(row.get("env", {}))
            self.secrets.update(token for n in range(-1, 4) for token in tokens(n))
        return self

    def put(self, path, value):
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value))
        file.chmod(0o600)
        self.secrets_file = file

    def command(self, *words, options=()):
        return ["bailey", "run", "--hosts", self.tmp / "agent-hosts", "--ca-bundle", self.authority.file, *options, "--", self.name, *words]

    def environment(self):
        return {"PATH": f"{self.program.parent}:{node_directory()}:/usr/local/bin:/usr/bin:/bin", **self.env}

    def run(self, *words, options=(), timeout=300):
        child = self.start(self.command(*(words or self.words), options=options), cwd=self.work, env=self.environment())
        return child.wait(timeout)

    def said(self):
        return dict(zip(self.steps, self.models.results()))

    def provider_requests(self):
        return [(host, path, headers) for host, _, path, headers, _ in self.models.requests if host in self.hosts]

    def check_secrets(self, *results):
        """No secret was inside: not in what was printed, not in a request's body, not in a file but the account's own."""
        for secret in self.secrets:
            found = forms(secret)
            for host, _, path, headers, body in self.models.requests:
                if host not in self.hosts:
                    assert secret not in str(headers) and secret not in path, host
                if not path.endswith("/token"):
                    assert not [form for form in found if form in body], (path, "a secret came back from inside")
            for result in results:
                assert secret not in result.text and secret not in result.errors
            for directory in (self.home, self.work):
                for path in directory.rglob("*"):
                    if path.is_file() and not path.is_symlink() and path not in (getattr(self, "secrets_file", None), self.home / ".ssh/id_rsa"):
                        data = path.read_bytes()
                        assert not [form for form in found if form in data], path
