# SPDX-License-Identifier: Apache-2.0
"""Real programs in a sandbox that hold stand-ins only: what they speak to sees the secrets, and nothing inside ever does."""
import base64
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import urllib.parse

import pytest

API, GIT, NPM = "api.ok.test", "git.ok.test", "npm.ok.test"
SECRETS = {"SERVICE_KEY": "sk-live-Zq8Yt3KpXw5Nn7Bb2Vv4", "GIT_TOKEN": "ghp_Qw3rTy7uIoP9aSd2FgH4jKl6", "NPM_TOKEN": "npm_Aa1Bb2Cc3Dd4Ee5Ff6Gg7Hh8"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "lab"

    def log_message(self, *_):
        pass

    def reply(self, status, body, kind="application/json", **headers):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def handle_all(self):
        lab, host = self.server.lab, self.headers["Host"].split(":")[0]
        body = self.body()
        lab.seen.append((host, self.command, self.path, dict(self.headers)))
        {API: self.api, GIT: self.git, NPM: self.npm}[host](lab, body)

    do_GET = do_POST = do_PUT = do_HEAD = handle_all

    def stream(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            for cut in (event[:len(event) // 2], event[len(event) // 2:]):
                self.wfile.write(f"{len(cut.encode()):x}\r\n{cut}\r\n".encode())
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def api(self, lab, body):
        """OpenAI's and Anthropic's way to stream, and a page that shows all it was sent."""
        real = SECRETS["SERVICE_KEY"]
        if self.headers.get("Authorization", "") != f"Bearer {real}" and self.headers.get("x-api-key", "") != real:
            self.reply(401, json.dumps({"error": f"wrong key, not {real}"}).encode())
        elif self.path == "/v1/chat/completions":
            words = ["Hello", " ", "your key is ", real, "!"]
            self.stream([f"data: {json.dumps({'choices': [{'delta': {'content': word}}]})}\n\n" for word in words] + ["data: [DONE]\n\n"])
        elif self.path == "/v1/messages":
            deltas = [{"type": "content_block_delta", "delta": {"type": "text_delta", "text": word}} for word in ("Hi ", real)]
            self.stream([f"event: {d['type']}\ndata: {json.dumps(d)}\n\n" for d in deltas] + ['event: message_stop\ndata: {"type":"message_stop"}\n\n'])
        else:
            self.reply(200, f"{self.headers}{base64.b64encode(real.encode()).decode()} {body.decode()}".encode(), "text/plain",
                       Location=f"/next?token={real}", Set_Cookie=f"session={real}")

    def git(self, lab, body):
        """git http-backend behind Basic authentication."""
        expected = "Basic " + base64.b64encode(f"x-access-token:{SECRETS['GIT_TOKEN']}".encode()).decode()
        if self.headers.get("Authorization") != expected:
            self.reply(401, b"who is there?", WWW_Authenticate='Basic realm="git"')
            return
        path, _, query = self.path.partition("?")
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(lab.repositories), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
               "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": "x", "REMOTE_ADDR": "127.0.0.1",
               "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
               "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, timeout=60)
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
        self.reply(int(fields.pop("Status", "200").split()[0]), answer, fields.pop("Content-Type", "text/plain"))

    def npm(self, lab, body):
        """As much of a registry as publish and install need."""
        if self.headers.get("Authorization") != f"Bearer {SECRETS['NPM_TOKEN']}":
            self.reply(401, b"{}")
            return
        name = urllib.parse.unquote(self.path.split("?")[0]).lstrip("/")
        if self.command == "PUT":
            lab.packages[name] = json.loads(body)
            self.reply(201, b'{"ok":true}')
        elif "/-/" in name:
            attachments = lab.packages[name.split("/-/")[0]]["_attachments"]
            self.reply(200, base64.b64decode(next(iter(attachments.values()))["data"]), "application/octet-stream")
        elif name in lab.packages:
            self.reply(200, json.dumps({k: v for k, v in lab.packages[name].items() if k != "_attachments"}).encode())
        else:
            self.reply(404, b"{}")


class Lab:
    def __init__(self, tmp_path, authority):
        self.seen, self.packages, self.repositories = [], {}, tmp_path / "repositories"
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.lab, self.server.daemon_threads, self.port = self, True, self.server.server_address[1]
        self.server.socket = authority.context(API, GIT, NPM).wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", self.repositories / "r.git"], check=True)
        subprocess.run(["git", "-C", self.repositories / "r.git", "config", "http.receivepack", "true"], check=True)

    def close(self):
        self.server.shutdown()
        self.thread.join(10)
        self.server.server_close()


@pytest.fixture
def lab(tmp_path, authority, closing):
    return closing(Lab(tmp_path, authority))


@pytest.fixture
def sandbox(bailey, lab, home, work, authority):
    hosts, policy = home / "hosts", home / "policy.yaml"
    hosts.write_text(f"127.0.0.1 {API} {GIT} {NPM}\n")
    places = [f"{name}:{lab.port}" for name in (API, GIT, NPM)]
    slots = {"SERVICE_KEY": (API, "bearer,header:x-api-key"), "GIT_TOKEN": (GIT, "basic,bearer"), "NPM_TOKEN": (NPM, "bearer")}
    policy.write_text(json.dumps({  # YAML as well
        "network": {"allow": places, "allow_private": places},
        "credentials": [{"name": env.lower().replace("_", "-"), "env": env, "source": f"env:{env}", "hosts": [f"{host}:{lab.port}"], "slot": slot}
                        for env, (host, slot) in slots.items()]}))

    def run(script, **more):
        return bailey("run", "--policy", str(policy), "--hosts", str(hosts), "--ca-bundle", str(authority.file), "--audit", str(home / "audit.jsonl"),
                      "--", "bash", "-euc", script, cwd=work, env=SECRETS, timeout=120, **more)
    return run


def holds_secret(data):
    """Any secret in any of the forms in which it must not be seen."""
    forms = []
    for secret in SECRETS.values():
        raw = secret.encode()
        forms += [raw] + [base64.b64encode(b"x" * n + raw)[(n * 8 + 5) // 6:][:len(raw) * 8 // 6 - 1] for n in range(3)]
    return [form for form in forms if form in data]


PYTHON = """
import json, os, sys, urllib.request
base, key = sys.argv[1], os.environ["SERVICE_KEY"]
def events(path, headers):
    request = urllib.request.Request(base + path, b"{}", {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return [json.loads(line[6:]) for line in answer if line.startswith(b"data: {")]
text = "".join(e["choices"][0]["delta"]["content"] for e in events("/v1/chat/completions", {"Authorization": "Bearer " + key}))
assert text == "Hello your key is " + key + "!", text
text = "".join(e.get("delta", {}).get("text", "") for e in events("/v1/messages", {"x-api-key": key, "anthropic-version": "2023-06-01"}))
assert text == "Hi " + key, text
print("python fine")
"""

NODE = """
const https = require('https');
const key = process.env.SERVICE_KEY;
https.get(process.argv[2] + '/page', {headers: {authorization: 'Bearer ' + key}}, (r) => {
  let text = ''; r.on('data', (d) => text += d); r.on('end', () => {
    if (r.statusCode !== 200 || !text.includes(key) || !r.headers['set-cookie'][0].includes(key)) { console.error(text); process.exit(1); }
    console.log('node fine'); });
}).on('error', (e) => { console.error(e); process.exit(1); });
"""


def test_clients_work_and_secrets_stay_out(sandbox, lab, home, work):
    """curl, Python and Node against streaming APIs, git clone and push; then everything that is left is searched."""
    (work / "api.py").write_text(PYTHON)
    (work / "page.js").write_text(NODE)
    api, git = f"https://{API}:{lab.port}", f"https://{GIT}:{lab.port}/r.git"
    script = f"""
        curl -sS -m 30 -D headers -H "x-api-key: $SERVICE_KEY" {api}/page -d body=1 > page
        grep -qi "x-api-key: $SERVICE_KEY" page && grep -q "token=$SERVICE_KEY" headers && echo curl fine
        curl -sS -m 30 -H "x-api-key: wrong" {api}/page | grep -q "not $SERVICE_KEY" && echo error page fine
        curl -sS -m 30 -o /dev/null -w '%{{http_code}}\\n' -H "x-api-key: $GIT_TOKEN" {api}/page
        /usr/bin/python3 api.py {api}
        node page.js {api}
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_TERMINAL_PROMPT=0
        git clone -q https://x-access-token:$GIT_TOKEN@{git[8:]} one 2> clone.log
        cd one && echo text > file && git add file && git commit -qm first && git push -q origin HEAD:main && cd ..
        git -c credential.helper='!f() {{ echo username=x-access-token; echo password=$GIT_TOKEN; }}; f' clone -q -b main {git} two
        cat two/file && echo git fine
        env > environment; cat /proc/*/environ /proc/*/cmdline > processes 2>/dev/null || true
    """
    result = sandbox(script)
    result.check()
    lines = result.text.split("\n")
    for line in ("curl fine", "error page fine", "403", "python fine", "node fine", "text", "git fine"):
        assert line in lines, result.text + result.errors
    assert {SECRETS["SERVICE_KEY"], "Bearer " + SECRETS["SERVICE_KEY"]} <= {h.get("x-api-key") for *_, h in lab.seen} | {h.get("Authorization") for *_, h in lab.seen}
    pushed = subprocess.run(["git", "-C", lab.repositories / "r.git", "show", "main:file"], capture_output=True, text=True, check=True)
    assert pushed.stdout == "text\n"
    audit = (home / "audit.jsonl").read_text()
    assert {"service-key", "git-token"} <= {name for line in audit.splitlines() for name in json.loads(line).get("swapped") or []}
    assert any(json.loads(line).get("reason") == "credential" for line in audit.splitlines())
    assert not holds_secret(result.text.encode() + result.errors.encode() + audit.encode())
    searched = 0
    for place in (work, home):
        for file in pathlib.Path(place).rglob("*"):
            if file.is_file() and not file.is_symlink():
                searched += 1
                assert not holds_secret(file.read_bytes()), file
    assert searched > 20


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_npm_publishes_and_installs(sandbox, lab, home, work):
    package = work / "package"
    package.mkdir()
    (package / "package.json").write_text(json.dumps({"name": "lab-package", "version": "1.0.0"}))
    (package / "index.js").write_text("module.exports = 'installed';\n")
    registry = f"https://{NPM}:{lab.port}/"
    result = sandbox(f"""
        export npm_config_cache=$PWD/cache npm_config_userconfig=$PWD/npmrc npm_config_update_notifier=false npm_config_audit=false npm_config_fund=false
        printf 'registry={registry}\\n//{NPM}:{lab.port}/:_authToken=%s\\n' "$NPM_TOKEN" > npmrc
        (cd package && npm publish --loglevel=error)
        mkdir user && cd user && echo '{{}}' > package.json && npm install --loglevel=error lab-package
        node -e "console.log(require('lab-package'))"
    """)
    assert "installed" in result.check().text
    assert any(method == "PUT" and h.get("authorization", h.get("Authorization", "")).endswith(SECRETS["NPM_TOKEN"]) for host, method, _, h in lab.seen if host == NPM)
    for file in work.rglob("*"):
        assert not file.is_file() or not holds_secret(file.read_bytes()), file


def test_an_agent_profile_keeps_its_key_outside(bailey, home, work):
    """--profile gives a stand-in for a key that the host has; --credential does it for any provider; --env-pass hands the key on."""
    (home / ".claude").mkdir()
    real = "sk-ant-" + SECRETS["SERVICE_KEY"][8:]

    def inside(*words, **env):
        script = 'echo "key=$ANTHROPIC_API_KEY base=$ANTHROPIC_BASE_URL hub=$GITHUB_TOKEN"; cat /proc/*/environ 2>/dev/null || true'
        return bailey("run", *words, "--", "sh", "-c", script, cwd=work, env=env).check().text
    assert inside("--profile", "claude").startswith("key= base= hub=")
    told = inside("--profile", "claude", ANTHROPIC_API_KEY=real)
    assert told.startswith("key=sk-ant-") and real not in told and "base= hub=" in told
    told = inside("--profile", "claude", "--base-urls", ANTHROPIC_API_KEY=real)
    assert real not in told and "base=http://127.0.0.1:3129/anthropic" in told
    assert f"key={real} base= " in inside("--profile", "claude", "--env-pass", "ANTHROPIC_API_KEY", ANTHROPIC_API_KEY=real)
    token = work.parent / "token"
    token.write_text(SECRETS["GIT_TOKEN"])
    told = inside("--credential", f"github=file:{token}")
    assert re.search(r"hub=\S{20}", told) and SECRETS["GIT_TOKEN"] not in told
    missing = bailey("run", "--credential", "openai", "--", "true", cwd=work)
    assert missing.status == 121 and "OPENAI_API_KEY is not set; set it, or leave the option out" in missing.errors, missing
    missing = bailey("run", "--", "true", cwd=work, env={"BAILEY_CREDENTIAL": "openai"})
    assert "set it, or take the credential out of that variable" in missing.errors, missing


def test_the_api_proxy_inside(bailey, lab, home, work, authority):
    """Where that is asked for, an SDK finds its base URL in its variable, presents what it takes for its key, and gets its stream."""
    hosts, policy = home / "hosts", home / "policy.yaml"
    hosts.write_text(f"127.0.0.1 {API}\n")
    place = f"{API}:{lab.port}"
    policy.write_text(json.dumps({"network": {"allow": [place], "allow_private": [place]},
                                  "credentials": [{"provider": "openai", "source": "env:SERVICE_KEY", "hosts": [place]}]}))
    script = """
        test "$OPENAI_BASE_URL" = http://127.0.0.1:3129/openai/v1
        curl -sS -m 30 -N -H "Authorization: Bearer $OPENAI_API_KEY" $OPENAI_BASE_URL/chat/completions -d '{}' > stream
        grep -q "content.*$OPENAI_API_KEY" stream && tail -n 2 stream
        curl -sS -m 30 -o /dev/null -w '%{http_code}\\n' $OPENAI_BASE_URL/models
        curl -sS -m 30 -o /dev/null -w '%{http_code}\\n' --path-as-is -H "Authorization: Bearer $OPENAI_API_KEY" $OPENAI_BASE_URL/../../x
    """
    result = bailey("run", "--policy", str(policy), "--hosts", str(hosts), "--ca-bundle", str(authority.file), "--base-urls",
                    "--", "bash", "-euc", script, cwd=work, env={"SERVICE_KEY": SECRETS["SERVICE_KEY"]}, timeout=120).check()
    assert result.text.split() == ["data:", "[DONE]", "403", "400"]
    assert [h["Authorization"] for *_, h in lab.seen] == ["Bearer " + SECRETS["SERVICE_KEY"]]
    assert not holds_secret((work / "stream").read_bytes())
