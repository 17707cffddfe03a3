# SPDX-License-Identifier: Apache-2.0
"""bailey run --container and bailey egress docker-args: real containers of docker and podman, whose network is the policy's and
nobody else's. As an ordinary user: podman without root."""
import json
import os
import shlex
import signal
import socket
import subprocess

import pytest

from conftest import program
from kit.control import Control, Refused, sockets, wait_for
from kit.engine import IMAGE, TOOLS, engine, engine_of_file  # noqa: F401
from kit.process import Child, wait_until

KEY, HOST = "sk-live-Zq8Yt3KpXw5Nn7Bb2Vv4", "api.ok.test"


APART = pytest.mark.parametrize("engine_of_file", ["docker", "podman-apart"], indirect=True)


@pytest.fixture
def begin(engine, start, work):
    """begin("script", options...): `bailey run --container` in the workspace, as a Child."""
    def call(script, *options, shell=("sh", "-c"), env=None, cwd=None):
        return start(["bailey", "run", "--container", engine.name, f"--container-arg={TOOLS}", *options, IMAGE, "--", *shell, script],
                     env={"PATH": engine.path(), **(env or {})}, cwd=cwd or work)
    return call


@pytest.fixture
def inside(begin):
    return lambda *words, **more: begin(*words, **more).wait(120)


ATTEMPTS = """
import json, os, socket, subprocess, sys
addresses, tcp, udp = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
seen = {}

def attempt(name, act):
    try:
        seen[name] = repr(act())
    except OSError as e:
        seen[name] = ""

def talk(family, kind, address, port):
    with socket.socket(family, kind) as s:
        s.settimeout(1)
        s.connect((address, port))
        s.send(b"GET / HTTP/1.0\\r\\n\\r\\n")
        answer = s.recv(1000)
        return answer if b"origin" in answer else None

for a in addresses + ["1.1.1.1", "169.254.169.254", "2606:4700:4700::1111", "fd00:ec2::254"]:
    family = socket.AF_INET6 if ":" in a else socket.AF_INET
    attempt("tcp " + a, lambda: talk(family, socket.SOCK_STREAM, a, tcp))
    attempt("udp " + a, lambda: talk(family, socket.SOCK_DGRAM, a, udp))
attempt("name", lambda: socket.getaddrinfo("evil.test", 443))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
attempt("raw6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300))
seen["nft"] = "" if subprocess.run(["nft", "flush", "ruleset"], stderr=subprocess.DEVNULL).returncode else "flushed"
seen["route"] = "" if subprocess.run(["ip", "link", "add", "x", "type", "dummy"], stderr=subprocess.DEVNULL).returncode else "added"
print(json.dumps(seen))
"""


def succeeded(text):
    seen = json.loads(text.splitlines()[-1])
    assert len(seen) >= 16
    return {name: what for name, what in seen.items() if what not in ("", "None")}


def test_a_container_reaches_its_host_with_the_secret_and_nothing_else(inside, engine, work, tmp_path, authority, make_origin):
    """By proxy variables and without them, the origin sees the secret and the container never does. Everything else leads nowhere:
    by name, by address, by raw socket, by UDP, by IPv6; and the container cannot change its network."""
    origin = make_origin(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine", tls=authority.context(HOST))
    (tmp_path / "hosts").write_text(f"127.0.0.1 {HOST}\n")
    (tmp_path / "policy.yaml").write_text(json.dumps({
        "network": {"allow_private": [f"127.0.0.1:{origin.port}"]},
        "credentials": [{"name": "own", "env": "OWN_KEY", "source": "env:OWN_KEY", "hosts": [f"{HOST}:{origin.port}"], "slot": "bearer"}]}))
    url = f"https://{HOST}:{origin.port}/"
    own = subprocess.run(["hostname", "-I"], stdout=subprocess.PIPE, text=True, check=False).stdout.split()
    own = [a for a in own if not a.startswith("fe80")]
    (work / "attempts.py").write_text(ATTEMPTS)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.create_server(("0.0.0.0", 0)) as tcp:
        udp.bind(("0.0.0.0", 0))
        udp.setblocking(False)
        tcp.setblocking(False)
        script = f"""set -e
curl -sS -H "Authorization: Bearer $OWN_KEY" {url}proxy
curl -sS --noproxy '*' -H "Authorization: Bearer $OWN_KEY" {url}direct
python3 -c "import os, urllib.request as u
print(u.urlopen(u.Request('{url}python', headers={{'Authorization': 'Bearer ' + os.environ['OWN_KEY']}})).read().decode())"
env; cat /proc/self/environ; cat /proc/1/environ || echo
python3 attempts.py '{json.dumps(["127.0.0.1", "::1", *own])}' {tcp.getsockname()[1]} {udp.getsockname()[1]}
exit 7"""
        done = inside(script, "--policy", tmp_path / "policy.yaml", "--hosts", tmp_path / "hosts", "--ca-bundle", authority.file,
                      env={"OWN_KEY": KEY}).check(7)
        assert done.text.count("fine") == 3 and KEY not in done.text and KEY not in done.errors
        assert succeeded(done.text) == {}
        for listener in (udp, tcp):
            with pytest.raises(BlockingIOError):
                listener.recvfrom(100) if listener is udp else listener.accept()
    requests = origin.requests()
    assert sorted(r.split()[1] for r in requests) == [b"/direct", b"/proxy", b"/python"]
    assert all(f"Authorization: Bearer {KEY}".encode() in r for r in requests)
    assert engine.containers() == []


def test_a_container_has_the_files_of_the_policy(inside, engine, work, home):
    """The workspace under its own name, with what is closed in it closed; nothing else of the host; no rule that is not held."""
    (home / "outside").write_text("outside")
    (work / "shown").write_text("shown")
    (work / "kept").write_text("kept")
    (work / "hidden").write_text("hidden")
    (work / "closed").mkdir()
    (work / "closed/inner").write_text("hidden")
    (work / "sub").mkdir()
    (work / "sub/secret").write_text("hidden")
    (work / ".git/hooks").mkdir(parents=True)
    (work / ".git/config").write_text("[core]\n")
    (home / "extra").mkdir()
    (home / ".local/state").mkdir(parents=True, exist_ok=True)
    (home / "state").symlink_to(home / ".local/state")  # as where homes lie behind a link
    options = ["--deny-read", work / "hidden", "--deny-read", work / "closed", "--deny-read", work / "sub/secret", "--deny-write", work / "kept",
               "--write", home / "extra", "--mode", "workspace-write"]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(work / "socket"))
        listener.listen()
        done = inside(f"""pwd; cat shown; echo; echo new > made; echo also > {home}/extra/made
for f in hidden closed/inner sub/secret {home}/outside; do cat $f; done
ls closed; echo x > kept; mv kept other; mv sub elsewhere; mv .git git; echo x > .git/hooks/post-commit; echo x > .git/config
mkdir .vscode; echo x > .vscode/tasks.json; ulimit -n
python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("socket"); print("connected")'; true""", *options, env={"BAILEY_LIMIT_FILES": "300", "XDG_STATE_HOME": str(home / "state")}).check()
    (work / "socket").unlink()
    assert done.text.split() == [str(work), "shown", "300"], done
    assert (work / "made").read_text() == "new\n" and (home / "extra/made").read_text() == "also\n"
    assert (work / "kept").read_text() == "kept" and (work / "sub/secret").exists() and (work / ".git/config").read_text() == "[core]\n"
    assert not (work / ".git/hooks/post-commit").exists() and not (work / ".vscode").exists() and ".vscode" in done.errors

    for words in (["--deny-read", "**/.env"], ["--deny-write", work / "*.lock"], ["--trace-denials"], ["--overlay"]):
        refused = inside("true", *words)
        assert refused.status == 121 and words[0].lstrip("-") in refused.errors.replace("_", "-"), refused
    assert "lost: " in inside("true", "--deny-read", "**/.env", "--allow-degraded").check().errors
    for argument in ("--network=host", "--privileged", "--pid=host", "--init", "--cap-add=NET_ADMIN"):
        refused = inside("true", f"--container-arg={argument}")
        assert refused.status == 123 and argument.split("=")[0] in refused.errors
    assert inside("sh -c 'kill -KILL $$'; exit $?").status == 137
    assert inside("", shell=("/no/such/program",)).status == 127
    late = inside("sleep 60", "--timeout", "2s")
    assert late.status == 124 and late.seconds < 50
    assert engine.containers() == []
    assert not list((home / ".local/state/bailey/containers").iterdir())


def test_a_name_that_leads_elsewhere_when_the_engine_mounts_it(begin, engine, work, home, tmp_path):
    """Another sandbox of the workspace replaces a directory by a link, behind Bailey's look and before the engine's mount."""
    other = home / "other"
    for place in (work / "sub", other):
        (place / ".git/hooks").mkdir(parents=True)
        (place / ".git/config").write_text("[core]\n")
    (other / "key").write_text("another's")
    wrapper = tmp_path / "bin" / engine.name
    wrapper.parent.mkdir()
    wrapper.write_text(f"""#!/bin/sh
case $1 in start) name=$(cat {tmp_path}/name); mv {work}/$name {work}/aside-$name; ln -s {other} {work}/$name ;; esac
exec {engine.bin}/{engine.name} "$@"
""")
    wrapper.chmod(0o755)
    (work / "data").mkdir()
    # a directory of the policy's, and one that the user mounts
    for name, script, options in (("data", "cat /data/key; echo x > /data/planted", [f"--container-arg=--volume={work}/data:/data"]),
                                  ("sub", f"cat sub/key {other}/key; echo x > {other}/planted", [])):
        (tmp_path / "name").write_text(name)
        done = begin(script, *options, env={"PATH": f"{wrapper.parent}:{engine.path()}"}).wait(120)
        assert done.status == 125 and "another's" not in done.text and not (other / "planted").exists(), done
    assert engine.containers() == []


def test_a_container_has_the_images_home(inside, home, work):
    """Nothing of the host's is there, and nothing of it stays."""
    (home / ".gitconfig").write_text("[user]\n\tname = Ann\n")
    script = f'echo "$HOME"; ls -A "$HOME" {home}; echo made > "$HOME/made"; ls -d /run/home'
    for _ in range(2):
        said = inside(script).text.splitlines()
        assert said[0] not in (str(home), "/run/home") and not {"made", ".gitconfig", "/run/home"} & set(said[1:]), said
    assert not (home / ".local/state/bailey/homes").exists()


def test_a_container_with_a_home_of_the_sandboxs_own(inside, engine, bailey, home, work):
    """Named by --home: kept between runs, shared with sandboxes that name it, with settings and stand-ins of sign-ins."""
    secret = "sk-proj-StoredForThisTestOnlyZq8Yt3KpXw5Nn7Bb2Vv4Aa1Bb2Cc3Dd4Ee5Ff6Gg7Hh8"
    (home / ".codex").mkdir()
    (home / ".codex/auth.json").write_text(json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": secret}))
    (home / ".gitconfig").write_text("[user]\n\tname = Ann\n[credential]\n\thelper = evil\n")
    (home / "private").write_text("private")
    look = 'echo "$HOME"; cat ~/.gitconfig ~/.codex/auth.json ~/.codex/config.toml; cat ~/kept ~/private; echo again > ~/kept'
    first = inside(look, "--home", "shared", "--profile", "codex").check()
    assert first.text.startswith("/run/home\n") and "Ann" in first.text and "evil" not in first.text and "private" not in first.text, first
    assert '"OPENAI_API_KEY"' in first.text and secret not in first.text and "danger-full-access" in first.text
    assert "again" in inside("cat ~/kept", "--home", "shared").check().text
    assert bailey("run", "--home", "shared", "--", "sh", "-c", "cat ~/kept", cwd=work).check().text == "again\n"
    assert "again" not in inside("cat ~/kept; true", "--home", "none").check().text
    assert not [name for name in os.listdir(home / ".local/state/bailey/homes") if name.startswith("run.")]
    other = inside("touch ~/made", "--home", "shared", "--container-arg=--user=1234")
    assert other.status != 0 and "another user of this host" in other.errors, other
    assert not (home / ".local/state/bailey/homes/shared/files/made").exists() and engine.containers() == []


def test_a_container_lives_and_ends_with_its_run(begin, engine, bailey, home, work, make_origin, tmp_path):
    """Questions are answered by the control socket, from outside; it is paused, resumed and ended like any sandbox; and when Bailey is
    killed, nothing of it stays."""
    origin = make_origin(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved")
    (tmp_path / "hosts").write_text(f"127.0.0.1 asked.ok.test never.ok.test\n")
    url = f"http://asked.ok.test:{origin.port}/"
    child = begin(f"""curl -sS -o answer {url}; curl -s -o /dev/null -w '%{{http_code}}' http://never.ok.test:{origin.port}/ > refused
i=0; while :; do i=$((i + 1)); echo $i > count; sleep 0.05; done""", "--ask", "control", "--hosts", tmp_path / "hosts",
                  "--allow-private", f"127.0.0.1:{origin.port}")
    wait_for(lambda: sockets(home) or not child.running(), "the container's socket", 60)
    assert child.running(), child.errors()
    control = Control(sockets(home)[0])
    assert [s["state"] for s in json.loads(bailey("ps", "--json").check().text)] == ["running"]
    for answer in ("allow", "deny"):
        question = wait_for(lambda: control("pending")["questions"], "the question", 60)[0]
        control("answer", question=question["id"], answer=answer, scope="once")
    wait_for(lambda: (work / "count").exists(), "the command going on", 60)
    assert (work / "answer").read_text() == "served" and (work / "refused").read_text() == "403"

    count = lambda: (work / "count").read_text()
    try:
        control("pause")
        before = wait_for(count, "a number")
        assert not _changes(count, before, 0.5)
        control("resume")
    except Refused as why:  # without root an engine pauses only with a control group of its own
        assert os.geteuid() and "stand still" in why.text
    wait_for(lambda: _changes(count, count(), 5), "the command going on")
    control("kill")
    assert child.wait(60).status == 137 and engine.containers() == []
    control.close()

    for again in range(2):  # the second time the engine's own removal is waited for by the next run
        (work / "count").unlink(missing_ok=True)
        child = begin("while :; do date >> count; sleep 0.05; done")
        wait_for(lambda: (work / "count").exists() or not child.running(), "the command", 60)
        assert child.running(), child.errors()
        child.signal(signal.SIGKILL)
        child.wait()
        if again == 0:
            wait_until(lambda: engine.containers() == [], timeout=60, what="the end of the container", every=0.2)
    begin("true").wait(120).check()
    assert engine.containers() == [] and not _changes(count, count(), 0.3)
    assert not list((home / ".local/state/bailey/containers").iterdir())


def _changes(read, before, seconds):
    try:
        wait_until(lambda: read() not in (before, ""), timeout=seconds)
    except AssertionError:
        return False
    return True


@pytest.mark.root
@APART
def test_each_container_behind_egress_has_its_own_list(engine, environment, home, tmp_path, make_origin):
    """Two containers of a real engine at one service, known by what the engine says: the list is for the one that it was given for."""
    environment = {**environment, "PATH": engine.path(), "OWN_KEY": KEY}
    engine.make_network("bailey-egress", "--internal", "--subnet", "10.99.8.0/24")
    subprocess.run([*engine.enter(), "sh", "-c", "ip addr replace 10.99.7.1/32 dev lo"], check=True, timeout=20)
    origin = make_origin(b"HTTP/1.0 200 OK\r\n\r\norigin", sock=engine.listen("10.99.7.1"))
    (tmp_path / "hosts").write_text("10.99.7.1 own.ok.test\n")

    def bailey(*words):
        child = Child([*engine.enter(), program("bailey"), *words], env=environment)
        try:
            return child.wait(60).check()
        finally:
            child.stop()
    bailey("egress", "setup", "--yes")
    bailey("egress", "config", "port=0", f"hosts={tmp_path / 'hosts'}", f"allow_private=10.99.7.1:{origin.port}")
    bailey("egress", "start")
    try:
        arguments = shlex.split(bailey("egress", "docker-args").text)
        bailey("allow", "--container", "rich", f"own.ok.test:{origin.port}")
        script = f"curl -s -o /dev/null -w '%{{http_code}}\\n' -x $HTTPS_PROXY http://own.ok.test:{origin.port}/"
        got = {}
        for who in ("poor", "rich", "poor"):  # each at the address that the one before had
            done = engine("run", "--rm", "--name", who, *engine.limits, *arguments, TOOLS, IMAGE, "sh", "-c", script)
            assert done.returncode == 0, done.stderr
            got.setdefault(who, []).append(done.stdout.strip())
        lists = json.loads(bailey("egress", "containers", "--json").text)
    finally:
        bailey("egress", "stop")
    assert got == {"poor": ["403", "403"], "rich": ["200"]}
    names = {entry["container"].partition("/")[2] for entry in lists}
    assert "rich" in names and names <= {"poor", "rich"} and len(origin.requests()) == 1  # one without rules goes with its container


@pytest.mark.root
@APART
def test_a_container_behind_egress_reaches_its_host_and_nothing_else(engine, environment, home, work, tmp_path, authority, make_origin):
    """`bailey egress docker-args` on an internal network: the swap happens, and there is no other way."""
    environment = {**environment, "PATH": engine.path()}
    engine.make_network("bailey-egress", "--internal", "--subnet", "10.99.8.0/24")
    subprocess.run([*engine.enter(), "sh", "-c", "ip addr replace 10.99.7.1/32 dev lo"],
                   check=True, timeout=20)
    origin = make_origin(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine", tls=authority.context(HOST), sock=engine.listen("10.99.7.1"))
    plain = make_origin(b"HTTP/1.0 200 OK\r\n\r\norigin", sock=engine.listen("10.99.7.1"))
    (tmp_path / "hosts").write_text(f"10.99.7.1 {HOST} evil.test\n")

    def egress(*words):
        child = Child([*engine.enter(), program("bailey"), "egress", *words], env={**environment, "OWN_KEY": KEY})
        try:
            return child.wait(60).check()
        finally:
            child.stop()
    egress("setup", "--yes")
    egress("config", "port=0", f"hosts={tmp_path / 'hosts'}", f"ca_bundle={authority.file}", f"allow_private=10.99.7.1:{origin.port}")
    settings = home / ".local/state/bailey/egress/settings.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "credentials": [
        {"name": "own", "env": "OWN_KEY", "source": "env:OWN_KEY", "hosts": [f"{HOST}:{origin.port}"], "slot": "bearer"}]}))
    egress("start")
    try:
        arguments = shlex.split(egress("docker-args").text)
        (work / "attempts.py").write_text(ATTEMPTS)
        script = f"""curl -sS -H "Authorization: Bearer $OWN_KEY" https://{HOST}:{origin.port}/; echo
curl -s -o /dev/null -w '%{{http_code}}\\n' --connect-timeout 2 https://evil.test:{plain.port}/
curl -s -o /dev/null -w '%{{http_connect}}\\n' -x $HTTPS_PROXY -p --connect-timeout 2 http://10.99.7.1:{plain.port}/
env; python3 attempts.py '["10.99.7.1", "::1"]' {plain.port} {plain.port}"""
        done = engine("run", "--rm", *engine.limits, *arguments, TOOLS, f"--volume={work}:{work}:ro", f"--workdir={work}", IMAGE, "sh", "-c", script)
    finally:
        egress("stop")
    assert done.returncode == 0, done.stderr
    assert "bailey_egress" not in subprocess.run([*engine.enter(), "nft", "list", "tables"], check=True, stdout=subprocess.PIPE, text=True,
                                                 timeout=20).stdout
    assert done.stdout.split()[:3] == ["fine", "000", "403"] and KEY not in done.stdout
    assert succeeded(done.stdout) == {}
    assert [f"Authorization: Bearer {KEY}".encode() in r for r in origin.requests()] == [True] and plain.connections == []


@pytest.mark.root
@pytest.mark.parametrize("engine_of_file", ["docker"], indirect=True)
def test_a_network_with_a_way_out_is_refused(engine, environment, home):
    """Of the right name, with a bridge of the right name: the engine is asked whether it is internal."""
    engine.make_network("bailey-egress", "-o", "com.docker.network.bridge.name=bailey0", "--subnet", "10.99.8.0/24")

    def egress(*words):
        child = Child([*engine.enter(), program("bailey"), "egress", *words], env={**environment, "OPENAI_API_KEY": KEY, "PATH": engine.path()})
        try:
            return child.wait(60)
        finally:
            child.stop()
    egress("setup", "--yes").check()
    egress("config", "port=0").check()
    egress("start").check()
    try:
        refused = egress("docker-args")
        assert refused.status == 5 and refused.out == b"" and "--internal" in refused.errors
    finally:
        egress("stop").check()


def test_a_container_changes_nothing_that_runs_outside(inside, work, home):
    """Names that are there and names that are not, submodules, links on the way, and a repository that is made inside: asked as a person would."""
    lib = work.parent / "lib"
    git = ["git", "-c", "protocol.file.allow=always", "-c", "user.name=x", "-c", "user.email=x@example.com"]
    for words in (["init", "-q", str(lib)], ["-C", str(lib), "commit", "-q", "--allow-empty", "-m", "x"], ["init", "-q", str(work)],
                  ["-C", str(work), "submodule", "--quiet", "add", str(lib), "vendor/sub"]):
        subprocess.run([*git, *words], check=True, timeout=60, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    there = [".envrc", ".npmrc", ".cargo/config.toml", ".claude/settings.json", ".vscode/tasks.json"]
    missing = [".mcp.json", ".mise.toml", ".idea/workspace.xml", ".lazy.lua", ".trunk/trunk.yaml", ".husky/pre-commit"]
    for name in there:
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text("mine")
    (work / "tools").mkdir()
    (work / ".zed").symlink_to("tools")
    config = [(work / name).read_text() for name in (".git/config", ".git/modules/vendor/sub/config", "vendor/sub/.git")]
    monitor = f'[core]\n\tfsmonitor = "touch {home}/ran; false"\n'
    done = inside(f"""MON='{monitor}'
for f in {' '.join(there + missing)}; do mkdir -p $(dirname $f); echo evil > $f; rm -f $f; echo evil > $f; mv $f $f.old; echo evil > $f; done
for f in .git/config .git/modules/vendor/sub/config .git/config.worktree; do echo "$MON" >> $f; done
echo "gitdir: ../../own/.git" > vendor/sub/.git; rm .zed; mkdir .zed; echo evil > .zed/tasks.json
git init -q own; echo "$MON" >> own/.git/config; printf '#!/bin/sh\ntouch {home}/ran\n' > own/.git/hooks/post-index-change; chmod +x own/.git/hooks/*; true""",
                  "--mode", "workspace-write")
    assert done.status == 0, done
    for name in there:
        assert (work / name).read_text() == "mine", name
    for name in missing:
        assert not (work / name).exists(), name
    assert (work / ".zed").is_symlink() and os.readlink(work / ".zed") == "tools"
    assert config == [(work / name).read_text() for name in (".git/config", ".git/modules/vendor/sub/config", "vendor/sub/.git")]
    for place in (work, work / "vendor/sub", work / "own"):
        subprocess.run(["git", "status"], cwd=place, check=False, capture_output=True, timeout=60)
    assert (work / "own/.git/HEAD").exists() and not (home / "ran").exists()


def test_many_protected_paths(inside, work):
    """Two submodules and a name beside them: the list of mounts grows while it is walked."""
    lib = work.parent / "lib"
    git = ["git", "-c", "protocol.file.allow=always", "-c", "user.name=x", "-c", "user.email=x@example.com"]
    for words in (["init", "-q", str(lib)], ["-C", str(lib), "commit", "-q", "--allow-empty", "-m", "x"], ["init", "-q", str(work)],
                  ["-C", str(work), "submodule", "--quiet", "add", str(lib), "sub"], ["-C", str(work), "submodule", "--quiet", "add", str(lib), "two"],
                  ["-C", str(work), "submodule", "--quiet", "add", str(lib), "deep/er/three"]):
        subprocess.run([*git, *words], check=True, timeout=60, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (work / ".envrc").write_text("x")
    done = inside("true")
    assert done.status == 0, done.errors


def test_an_engine_that_is_not_there(bailey, work):
    done = bailey("run", "--container", "docker", "lab", "true", env={"PATH": "/nonexistent"}, cwd=work)
    assert done.status == 122 and "docker is not installed" in done.errors
