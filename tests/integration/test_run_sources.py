# SPDX-License-Identifier: Apache-2.0
"""Credentials in the places where people keep them, and real servers behind them."""
import base64
import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from conftest import program
from kit.control import Control, sockets
from kit.git import no_deadlocks
from kit.process import descendants, name_of, wait_until

HOST, TOKEN = "git.ok.test", "ghp_Qw3rTy7uIoP9aSd2FgH4jKl6"
KEYS = ["key-Kernel-Va1ue-0123456789", "key-Second-Va1ue-9876543210"]


@pytest.fixture
def forge(tmp_path, start, free_port, authority):
    """nginx with git's own backend behind fcgiwrap; whoever does not bring the token is asked for it."""
    root, port, certificate = tmp_path / "forge", free_port(), authority.issue(HOST)
    root.mkdir()
    repository = root / "r.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", repository], check=True)
    subprocess.run(["git", "-C", repository, "config", "http.receivepack", "true"], check=True)
    expected = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
    core = subprocess.run(["git", "--exec-path"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    os.symlink(root, f"/tmp/bf-{port}")  # a socket's name is short
    (root / "nginx.conf").write_text(f"""{"user root;" if os.geteuid() == 0 else ""}
        daemon off; pid {root}/pid; error_log stderr; worker_processes 1;
        events {{ worker_connections 64; }}
        http {{
            access_log {root}/access; client_body_temp_path {root}/body; proxy_temp_path {root}/proxy; client_max_body_size 100m;
            fastcgi_temp_path {root}/fastcgi; uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;
            server {{
                listen 127.0.0.1:{port} ssl http2; ssl_certificate {certificate}; ssl_certificate_key {certificate};
                location / {{
                    add_header WWW-Authenticate 'Basic realm="forge"' always;
                    if ($http_authorization != "Basic {expected}") {{ return 401; }}
                    fastcgi_param SCRIPT_FILENAME {core}/git-http-backend; fastcgi_param PATH_INFO $uri; fastcgi_param QUERY_STRING $query_string;
                    fastcgi_param REQUEST_METHOD $request_method; fastcgi_param CONTENT_TYPE $content_type;
                    fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param REMOTE_USER forge; fastcgi_param REMOTE_ADDR $remote_addr;
                    fastcgi_param GIT_PROJECT_ROOT {root}; fastcgi_param GIT_HTTP_EXPORT_ALL 1;
                    fastcgi_param HTTP_CONTENT_ENCODING $http_content_encoding; fastcgi_param GIT_PROTOCOL $http_git_protocol;
                    fastcgi_pass unix:/tmp/bf-{port}/fcgi;
                }}
            }}
        }}""")
    wrap = start(["fcgiwrap", "-s", f"unix:/tmp/bf-{port}/fcgi"])
    server = start(["nginx", "-e", "stderr", "-p", root, "-c", root / "nginx.conf"])
    wait_until(lambda: not server.running() or ((root / "pid").exists() and (root / "fcgi").exists()), timeout=30, what="nginx")
    assert server.running() and wrap.running(), server.errors() + wrap.errors()
    yield root, port
    server.stop()
    wrap.stop()
    os.unlink(f"/tmp/bf-{port}")


@pytest.mark.skipif(shutil.which("fcgiwrap", path="/usr/sbin:/usr/bin") is None, reason="fcgiwrap is not installed")
def test_git_clones_and_pushes_behind_nginx(forge, bailey, home, work, authority):
    """With the token in the URL, by a helper, and not at all; small packs and ones that git sends in chunks."""
    root, port = forge
    (home / "hosts").write_text(f"127.0.0.1 {HOST}\n")
    (home / "policy.yaml").write_text(json.dumps({
        "network": {"allow_private": [f"127.0.0.1:{port}"]},
        "credentials": [{"name": "forge", "env": "FORGE_TOKEN", "source": "env:FORGE_TOKEN", "hosts": [f"{HOST}:{port}"], "slot": "basic"}]}))
    script = f"""
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_TERMINAL_PROMPT=0
        git clone -q https://x-access-token:$FORGE_TOKEN@{HOST}:{port}/r.git one 2> /dev/null
        cd one && echo text > file && head -c 6000000 /dev/urandom > large && git add . && git commit -qm first && git push -q origin HEAD:main && cd ..
        git -c credential.helper='!f() {{ echo username=x-access-token; echo password=$FORGE_TOKEN; }}; f' clone -q -b main https://{HOST}:{port}/r.git two
        cmp one/large two/large && cat two/file
        ! git clone -q https://x-access-token:wrong@{HOST}:{port}/r.git three 2> /dev/null && echo refused
        grep -rl "$FORGE_TOKEN" one/.git/config"""
    with no_deadlocks():
        done = bailey("run", "--policy", home / "policy.yaml", "--hosts", home / "hosts", "--ca-bundle", authority.file, "--", "bash", "-euc", script,
                      cwd=work, env={"FORGE_TOKEN": TOKEN}).check()
    assert done.text.split() == ["text", "refused", "one/.git/config"]
    shown = subprocess.run(["git", "-C", root / "r.git", "show", "main:file"], check=True, stdout=subprocess.PIPE, text=True)
    assert shown.stdout == "text\n"
    requests = (root / "access").read_text()
    assert "POST /r.git/git-receive-pack" in requests and "POST /r.git/git-upload-pack" in requests and " 401 " in requests
    for path in work.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path


def keyring():
    """Why the kernel's keyring cannot be used here, or nothing."""
    if not shutil.which("keyctl"):
        return "keyctl is not installed"
    done = subprocess.run(["keyctl", "session", "-", "keyctl", "add", "user", "bailey-probe", "x", "@s"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def test_a_key_of_the_kernel_and_of_bitwarden(bailey, run, home, work, tmp_path, authority, make_origin):
    """The session keyring has the key; a new value counts for a long run too. bws is asked for its project and nothing else."""
    origin = make_origin(tls=authority.context(HOST))
    why = keyring()
    if why:
        pytest.skip(f"no keyring: {why}")
    programs = tmp_path / "bin"
    programs.mkdir()
    listing = json.dumps([{"key": "OTHER", "value": "not-this-one"}, {"key": "WANTED", "value": KEYS[1]}])
    (programs / "bws").write_text(f"""#!/bin/sh
echo "$*" >> {tmp_path}/asked
test "$BWS_ACCESS_TOKEN" = bws-token-1 || {{ echo 'access token is not valid' >&2; exit 9; }}
case "$*" in *project-1*) echo '{listing}' ;; *) echo 'Resource not found: project' >&2; exit 1 ;; esac
""")
    (programs / "bws").chmod(0o755)
    (home / "hosts").write_text(f"127.0.0.1 {HOST}\n")
    hosts = [f"{HOST}:{origin.port}"]

    def policy(*sources):
        (home / "policy.yaml").write_text(json.dumps({
            "network": {"allow_private": [f"127.0.0.1:{origin.port}"]},
            "credentials": [{"name": f"c{i}", "env": f"TOKEN_{i}", "source": source, "hosts": hosts, "slot": "bearer", "refresh": "1s"}
                            for i, source in enumerate(sources)]}))
    words = ["run", "--policy", home / "policy.yaml", "--hosts", home / "hosts", "--ca-bundle", authority.file, "--"]
    env = {"PATH": f"{programs}:/usr/bin:/bin", "BWS_ACCESS_TOKEN": "bws-token-1"}
    policy("keyring:bailey-test-key", "bws:project-1/WANTED")
    send = f'curl -sS -o /dev/null -H "Authorization: Bearer $T" https://{HOST}:{origin.port}/'
    script = f"T=$TOKEN_0; {send}; T=$TOKEN_1; {send}; env; cat /proc/*/environ 2>/dev/null; keyctl show 2>&1; true"
    done = run(["keyctl", "session", "-", "sh", "-c", f'keyctl add user bailey-test-key {KEYS[0]} @s >/dev/null && exec "$@"', "sh",
                str(program("bailey")), *map(str, words), "sh", "-c", script], env=env, cwd=work, timeout=60).check()
    seen = [line.split(b" ")[-1].decode() for request in origin.requests() for line in request.split(b"\r\n") if line.startswith(b"Authorization")]
    assert seen == KEYS and not [key for key in KEYS if key in done.text + done.errors]
    assert (tmp_path / "asked").read_text().splitlines()[0] == "secret list --output json project-1"

    for source, token, says in (("bws:nowhere/WANTED", "bws-token-1", "project"), ("bws:project-1/MISSING", "bws-token-1", "no secret of this name"),
                                ("bws:project-1/WANTED", "wrong", "access token is not valid"), ("bws:project-1/WANTED", "", "BWS_ACCESS_TOKEN")):
        policy(source)
        refused = bailey(*words, "touch", "ran", env={**env, "BWS_ACCESS_TOKEN": token}, cwd=work)
        assert refused.status == 121 and "c0" in refused.errors and says in refused.errors, refused
    assert not (work / "ran").exists()





SECRET, PLANTED = "sk-live-Zq8Yt3KpXw5Nn7Bb2Vv4", "planted-Tt6Uu7Vv8Ww9Xx0Yy1Zz2"

LOOK = """
import os, pathlib, sys, time, urllib.request
out = open("inside.bin", "wb")
def keep(place, data):
    out.write(f"{place}:{len(data)}\\n".encode() + data)
for base in pathlib.Path("/proc").glob("[0-9]*"):
    for part in ("environ", "cmdline", "maps", "status"):
        try:
            keep("inside " + part, (base / part).read_bytes())
        except OSError:
            pass
    try:
        with open(base / "mem", "rb", 0) as memory:
            for line in (base / "maps").read_text().splitlines():
                fields = line.split()
                first, last = (int(x, 16) for x in fields[0].split("-"))
                if fields[1].startswith("rw") and "[v" not in line:
                    memory.seek(first)
                    keep("inside memory", memory.read(min(last - first, 64 << 20)))
    except (OSError, ValueError):
        pass
for place in ("/tmp", "/run", "/etc/ssl", "/dev/shm"):
    for root, _, names in os.walk(place):
        for name in names:
            try:
                keep("inside file", (pathlib.Path(root) / name).read_bytes())
            except OSError:
                pass
out.close()
"""


def forms(text):
    raw = text.encode()
    return [raw] + [base64.b64encode(b"x" * n + raw)[(n * 8 + 5) // 6:][:len(raw) * 8 // 6 - 1] for n in range(3)]


@pytest.mark.exact_build  # processes are ended by SIGSEGV, which a sanitizer takes for a fault
def test_the_secret_is_nowhere(start, closing, bailey, home, work, tmp_path, authority, make_origin):
    """Every place that a program inside, a person or a file can see is collected twice over: a text that was planted must be in each
    of them, or the search is worth nothing; the secret must be in none."""
    def echo(request):
        body = request + base64.b64encode(SECRET.encode())
        return b"HTTP/1.1 200 OK\r\nX-Echo: " + SECRET.encode() + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    origin = make_origin(echo, tls=authority.context(HOST))
    url = f"https://{HOST}:{origin.port}/{PLANTED}"
    (home / "hosts").write_text(f"127.0.0.1 {HOST}\n")
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    (outside / "token").write_text(SECRET)
    entry = {"hosts": [f"{HOST}:{origin.port}"], "slot": "bearer"}
    (home / "policy.yaml").write_text(json.dumps({
        "network": {"allow_private": [f"127.0.0.1:{origin.port}"]},
        "credentials": [{"name": "one", "env": "ONE_TOKEN", "source": "env:ONE_TOKEN", **entry},
                        {"name": "two", "env": "TWO_TOKEN", "source": f"file:{outside / 'token'}", **entry}]}))
    (work / "look.py").write_text(LOOK)
    script = f"""echo {PLANTED} > file; echo {PLANTED} > /tmp/private; echo $PLANTED >&2; while [ ! -e watched ]; do sleep 0.05; done
for t in $ONE_TOKEN $TWO_TOKEN; do curl -sS -D headers -o answer -H "Authorization: Bearer $t" {url}; cat headers answer; done
curl -sS {url}?again=$TWO_TOKEN; python3 look.py {PLANTED}
touch looked; while [ ! -e stop ]; do sleep 0.05; done; curl -sS -H "Authorization: Bearer $ONE_TOKEN" {url}; true"""
    run_words = ["--policy", home / "policy.yaml", "--hosts", home / "hosts", "--ca-bundle", authority.file]
    child = start(["sh", "-c", 'ulimit -c unlimited; exec "$@"', "sh", program("bailey"), "--log-level", "debug", "run", *run_words,
                   "--env", f"PLANTED={PLANTED}", "--", "sh", "-c", script], cwd=work, env={"ONE_TOKEN": SECRET})
    wait_until(lambda: sockets(home) or not child.running(), timeout=60, what="the sandbox")
    assert child.running(), child.errors()
    control = closing(Control(sockets(home)[0]))
    control("subscribe")
    (work / "watched").touch()
    wait_until(lambda: (work / "looked").exists() or not child.running(), timeout=60, what="the look around inside")
    assert child.running(), child.errors()
    places = {"ps": bailey("ps", "--json").out, "processes": b""}
    for pid in [child.pid, *descendants(child.pid)]:
        for part in ["cmdline"] + (["environ"] if pid != child.pid else []):  # it was started with the secret; nobody inside sees it
            try:
                places["processes"] += pathlib.Path(f"/proc/{pid}/{part}").read_bytes()
            except OSError:  # the vault's and the gateway's are closed to their own user; root may look
                pass
    ours = [pid for pid in descendants(child.pid) if name_of(pid) in ("bailey-vault", "bailey-gateway")]
    assert len(ours) >= 2
    for pid in ours:
        os.kill(pid, signal.SIGSEGV)
    (work / "stop").touch()
    done = child.wait(60)
    places["events"] = b"".join(json.dumps(message).encode() for message in [*control.events, *iter(control.read, None)])
    places["output"], places["log"] = done.out, done.err
    for verb in (["policy", "show"], ["plan"]):
        words = [*verb, *run_words[:2], "--env", f"PLANTED={PLANTED}"] + (["--", "echo", PLANTED] if verb == ["plan"] else [])
        places[" ".join(verb)] = bailey(*words, env={"ONE_TOKEN": SECRET}, cwd=work).check().out
    with (work / "inside.bin").open("rb") as inside:
        while head := inside.readline().decode():
            name, _, size = head.rpartition(":")
            places[name] = places.get(name, b"") + inside.read(int(size))
    (work / "inside.bin").unlink()
    for kind, base in (("workspace", work), ("state", home / ".local"), ("home", home), ("temporary", tmp_path / "temporary")):
        files = [path for path in base.rglob("*") if path.is_file() and not path.is_symlink() and path != outside / "token"]
        places[kind] = b"".join(path.read_bytes() for path in files)
        assert not [path for path in files if path.name.startswith("core")], "a core dump of ours"
    secret, planted = forms(SECRET), PLANTED.encode()
    assert {name for name, data in places.items() if any(form in data for form in secret)} == set()
    without = {name for name, data in places.items() if planted not in data}
    assert without <= {"inside maps", "inside status", "temporary"}, without
    assert len(places) >= 16 and sum(SECRET.encode() in r for r in origin.requests()) >= 2
