# SPDX-License-Identifier: Apache-2.0
"""Tools of the host, called from inside: what the table allows runs outside in a sandbox of its own, and of the rest nothing does."""
import base64
import contextlib
import http.server
import json
import os
import pathlib
import random
import signal
import ssl
import threading
import time

import pytest

from kit.forge import Forge
from kit.git import git
from kit.process import SANITIZED, SLOW, wait_until

pytestmark = pytest.mark.visible_home
HOST = "forge.ok.test"

TOOL = """#!/bin/sh
case $1 in
env) env; id -u;;
where) pwd; ls -A;;
cat) cat;;
status) exit $2;;
die) kill -$2 $$;;
wait) trap 'echo got TERM; exit 9' TERM; echo ready; for i in $(seq $2 | head -600); do sleep 0.1; done;;
both) echo out; echo err >&2;;
many) head -c 3000000 /dev/zero | tr '\\0' x;;
read) cat "$2" 2>&1 || echo unreadable;;
write) echo x > "$2/planted" 2>/dev/null && echo written || echo refused;;
reach) curl -s -m 20 --noproxy '*' http://$2/ || echo unreached;;
token) echo "token is $FAKE_TOKEN"; ls -la ~;;
count) echo run >> /proc/self/fd/1; echo "$2";;
tty) test -t 1 && stty size;;
argv) shift; for word; do echo "[$word]"; done;;
esac
"""
VERBS = ["env", "where", "cat", "status <int>", "die <word>", "wait <int>", "both", "many", "read <text>", "write <text>", "reach <word>", "token",
         "count <int>", "tty", "argv <prose>... --name=<prose>"]


@pytest.fixture
def tool(home):
    path = home / "outside" / "tool"
    path.parent.mkdir()
    path.write_text(TOOL)
    path.chmod(0o755)
    return path


@pytest.fixture
def bridged(bailey, home, work, tool):
    """bridged(script, **tool): the script in a sandbox that may call `tool`."""
    def run(script, policy=None, options=(), check=True, environment=None, limit=120, **entry):
        file, audit = home / "policy.yaml", home / "audit.jsonl"
        own = {"program": str(tool), "verbs": VERBS, **entry}
        policy = policy or {}
        file.write_text(json.dumps({**policy, "bridge": {"tool": own, **policy.get("bridge", {})}}))
        audit.unlink(missing_ok=True)
        done = bailey("run", "--policy", str(file), "--audit", str(audit), *options, "--", "bash", "-c", script, cwd=work, timeout=limit * SLOW,
                      env=environment or {})
        done.records = [json.loads(line) for line in audit.read_text().splitlines()] if audit.exists() else []
        return done.check() if check else done
    return run


def calls(done):
    return [r for r in done.records if r.get("kind") == "command"]


def test_a_call_runs_outside_as_if_it_ran_inside(bridged, work):
    (work / "data").write_text("from a file\n")
    done = bridged("""
        echo from a pipe | tool cat; tool cat < data; tool cat < /dev/null
        tool both > out 2> err; cat out err; tool both 2>&1 >/dev/null
        for i in 1 2 3; do tool both >> all 2>&1; done; tr '\\n' ' ' < all; echo
        tool many | wc -c; tool many > big; wc -c < big
        tool status 0; echo $?; tool status 7; echo $?; tool status 200; echo $?
        tool argv --name 'a b' -- "x y" 'q"$(id)'
        cd /; tool where
        """)
    assert done.text.splitlines() == ["from a pipe", "from a file", "out", "err", "err", "out err out err out err ", "3000000", "3000000", "0", "7", "200",
                                      "[--name=a b]", '[x y]', '[q"$(id)]', done.text.splitlines()[-1]], str(done)
    assert done.text.splitlines()[-1].endswith("/bailey/bridge/empty")


def test_signals_are_exact(bridged):
    done = bridged("""
        python3 - <<'END'
import signal, subprocess, time
print(subprocess.run(["tool", "die", "KILL"]).returncode, subprocess.run(["tool", "die", "TERM"]).returncode, subprocess.run(["tool", "status", "143"]).returncode)
p = subprocess.Popen(["tool", "wait", "600"], stdout=subprocess.PIPE, text=True)
print(p.stdout.readline().strip())
p.send_signal(signal.SIGTERM)
print(p.stdout.read().strip(), p.wait())
END
        """)
    assert done.text.splitlines() == ["-9 -15 143", "ready", "got TERM 9"], str(done)


def test_what_the_tool_has(bridged, work, home):
    environment = {"SECRET_OF_MINE": "abc", "PASSED": "yes", "GIT_SSH_COMMAND": "touch /tmp/x"}
    (work / "code").write_text("code\n")
    (home / "secret").write_text("secret\n")
    (home / "config").write_text("config of the tool\n")
    done = bridged(f"export INSIDE=1 LD_PRELOAD=/x; tool env 2>&1; tool read {work}/code; tool read {home}/secret; tool read {home}/config; tool write {work}; "
                   f"tool write {home}; tool where", environment=environment, env=["SET=1"], env_pass=["PASSED"], files=[str(home / "config")])
    text = done.text
    assert "SET=1" in text and "PASSED=yes" in text and str(os.geteuid()) in text.splitlines()
    for name in ("INSIDE", "SECRET_OF_MINE", "GIT_SSH_COMMAND", "LD_PRELOAD"):
        assert name not in text, str(done)
    assert text.count("unreadable") == 2 and "config of the tool" in text and text.count("refused") == 1, str(done)
    assert not (work / "planted").exists() and not (home / "planted").exists()

    read = bridged(f"mkdir -p a/b; cd a/b; tool where; tool read {work}/code; tool write {work}", workspace="read")
    assert read.text.splitlines() == [str(work / "a/b"), "code", "refused"], str(read)
    outside = bridged("cd /; tool where; echo $?", workspace="read")
    assert outside.text.strip() == "125" and "workspace" in outside.errors, str(outside)


def test_what_is_not_in_the_table(bridged, work):
    done = bridged("""
        tool fly; echo $?; tool env extra; echo $?; tool --name x argv a; echo $?; tool argv a --nam=x; echo $?; tool status x; echo $?; tool; echo $?
        tool argv -- -x; echo $?
        """)
    assert done.text.split() == ["125"] * 7, str(done)
    assert "'fly' is not among the verbs of tool" in done.errors
    assert len(calls(done)) == 7 and not any(r["allowed"] for r in calls(done)), calls(done)


def test_what_is_recorded(bridged):
    done = bridged("tool status 0; tool fly; true")
    first, second = calls(done)
    assert first["allowed"] and not second["allowed"]
    assert "tool status 0" in json.dumps(first) and "bridged" in json.dumps(first) and "tool fly" in json.dumps(second)


PROGRAMS_WHY = "built in: programs that stand for those of the host"


def attempts(done):
    """Who tried to change the programs, and how: on record, as every refused write is."""
    return {(r["method"].replace("rmdir", "unlink"), r["path"]) for r in done.records if r.get("kind") == "file" and PROGRAMS_WHY in json.dumps(r)}


@pytest.mark.parametrize("mode", ["workspace-write", "read-only"])
def test_the_programs_cannot_be_changed(bridged, mode):
    done = bridged("""
        cd /run/bailey/bin; rm -f tool; mv tool x; echo x > tool; touch new; ln -s /bin/sh sh; chmod 777 tool; mkdir d; truncate -s 0 tool
        python3 -c 'import os; os.rename("tool", "/tmp/moved")'; ln -f /bin/sh tool; cat tool > /dev/null && mkdir -p /run/bailey/bin && echo unchanged
        cd /; rmdir /run/bailey/bin; mv /run/bailey/bin /tmp/bin; chmod 777 /run/bailey/bin; mv /run/bailey /tmp/bailey; rm -rf /run/bailey
        tool status 3; echo $?
        """, options=("--mode", mode))
    assert done.text.split() == ["unchanged", "3"], str(done)
    bin, tool = "/run/bailey/bin", "/run/bailey/bin/tool"
    assert attempts(done) >= {
        ("unlink", tool), ("rename", f"{bin}/x"), ("open-write", tool), ("open-write", f"{bin}/new"), ("symlink", f"{bin}/sh"), ("chmod", tool),
        ("mkdir", f"{bin}/d"), ("rename", tool), ("unlink", bin), ("rename", bin), ("chmod", bin), ("rename", "/run/bailey")}, str(done)
    assert all(r["reason"] == "deny-rule" and not r["allowed"] for r in done.records if r.get("kind") == "file"), str(done)
    assert "--write /run/bailey" not in done.errors  # nothing opens them


def test_reading_and_calling_the_programs_leaves_no_such_record(bridged):
    assert not attempts(bridged("cat /run/bailey/bin/tool > copy; ls -l /run/bailey/bin; tool status 0; command -v tool; ! test -w /run/bailey/bin/tool"))


def test_only_its_hosts(bridged, origin, hosts):
    where, options = f"origin.test:{origin.port}", ("--hosts", str(hosts))
    policy = {"network": {"allow_private": [where]}}
    refused = bridged(f"tool reach {where}", policy=policy, options=options)
    assert "unreached" in refused.text and not origin.requests(), str(refused)
    done = bridged(f"tool reach {where} > answer && grep -c unreached answer", policy=policy, options=options, hosts=[where], check=False)
    assert done.text.split() == ["0"] and len(origin.requests()) == 1, str(done)


def test_the_time_of_a_call_is_limited(bridged):
    began = time.monotonic()
    done = bridged("tool wait 600; echo $?", timeout="2s")
    assert done.text.split() == ["ready", "124"] and time.monotonic() - began < 40 * SLOW, str(done)


def test_bad_places_are_refused_before_anything_runs(bailey, home, work, tool):
    file = home / "policy.yaml"
    inside = work / "tool"
    inside.write_text(TOOL)
    inside.chmod(0o755)
    file.write_text(json.dumps({"bridge": {"tool": {"program": str(inside), "verbs": ["env"]}}}))
    done = bailey("run", "--policy", str(file), "--", "touch", "ran", cwd=work)
    assert done.status != 0 and "lies where the sandbox may write" in done.errors and not (work / "ran").exists(), str(done)
    (work / "kubeconfig").write_text("")
    file.write_text(json.dumps({"bridge": {"tool": {"program": str(tool), "verbs": ["env"], "files": [str(work / "kubeconfig")]}}}))
    done = bailey("run", "--policy", str(file), "--", "touch", "ran", cwd=work)
    assert done.status != 0 and "lies where the sandbox may write" in done.errors and not (work / "ran").exists(), str(done)


def test_hostile_messages(bridged, work):
    """Whatever is sent to the socket, the supervisor lives, and nothing is run."""
    (work / "attack.py").write_text("""
import array, os, random, socket, struct
HEAD = struct.Struct("=IHHI")
def packet(texts, magic=0x31534c42, version=1, n=None, size=None):
    body = b"".join(t + b"\\0" for t in texts)
    return HEAD.pack(magic, version, len(texts) if n is None else n, len(body) if size is None else size) + body
def send(data, fds=(0, 1, 2)):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect("/run/bailey/bridge")
    try:
        s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
        s.settimeout(30)
        return s.recv(4096)
    except OSError:
        return b""
good = [b"/", b"tool", b"status", b"0"]
null = os.open("/dev/null", os.O_RDWR)
three = (null, null, null)
kind = lambda answer: struct.unpack_from("=IHHi", answer)[2] if answer else 0
assert kind(send(packet(good), three)) == 4, "a good one works"
bad = [b"", b"x", packet(good, magic=1), packet(good, version=2), packet(good, n=3), packet(good, n=5), packet(good, n=65535), packet(good, size=1),
       packet(good, size=10 ** 9), packet(good) + b"x", packet(good)[:-1], packet([b"tool", b"status", b"0"]), packet([b"/"]), packet([]),
       packet([b"/", b""]), b"\\0" * 90000, packet([b"/", b"tool"] + [b"x"] * 300), HEAD.pack(0x31534c42, 1, 4, 0)]
for data in bad:
    assert kind(send(data, three)) in (0, 3), data[:40]
for fds in ((), (null,), (null, null), (null,) * 4, (null,) * 30):
    assert kind(send(packet(good), fds)) == 0, fds
directory, path = os.open("/", os.O_RDONLY), os.open("/etc/passwd", os.O_PATH)
file = os.open("/etc/passwd", os.O_RDONLY)
for fd in (directory, path, file):
    assert kind(send(packet(good), (fd, null, null))) in (0, 3), fd
for name in (b"other", b"../tool", b"/bin/sh", b"tool\\n"):
    assert kind(send(packet([b"/", name, b"env"]), three)) == 3
generator = random.Random(5)
for _ in range(200):
    data = bytearray(packet(good))
    for _ in range(generator.randrange(1, 5)):
        data[generator.randrange(len(data))] = generator.randrange(256)
    send(bytes(data), three)
idle = []
for _ in range(20):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect("/run/bailey/bridge")
    idle.append(s)
assert kind(send(packet(good), three)) == 4
print("survived")
""")
    done = bridged("python3 attack.py; tool status 5; echo $?")
    assert done.text.split() == ["survived", "5"], str(done)


STRESS = bool(os.environ.get("BAILEY_STRESS"))


def run_many(bridged, number, at_once, killer="", limit=120):
    return bridged(f"""
        cat > many.py <<'END'
import concurrent.futures, os, random, signal, subprocess, sys, time
def one(i):
    p = subprocess.Popen(["tool", "count", str(i)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if {killer or "False"}:
        time.sleep(random.Random(i).random() * 0.3)
        p.kill()
    out = p.communicate(timeout={(limit - 20) * SLOW})[0].decode()
    return p.returncode, out
with concurrent.futures.ThreadPoolExecutor({at_once}) as pool:
    results = list(pool.map(one, range({number})))
print(sum(r == (0, "run\\n%d\\n" % i) for i, r in enumerate(results)), sum(r[0] == -9 for r in results), sum(r[1].count("run") > 1 for r in results))
END
        python3 many.py""", limit=limit)


def test_many_at_once(bridged):
    done = run_many(bridged, 60, 30)
    assert done.text.split() == ["60", "0", "0"], str(done)
    assert len(calls(done)) == 60


@pytest.mark.root  # who calls makes no difference, and once is enough
def test_hundreds_at_once(bridged):
    """Twelve times as many as run at once, the others wait in the kernel's queue; a thousand with BAILEY_STRESS."""
    number = 1000 if STRESS else 300
    done = run_many(bridged, number, number, limit=300)
    assert done.text.split() == [str(number), "0", "0"], str(done)
    assert len(calls(done)) == number


def of_tools():
    """Processes of the tools' sandboxes that this test's own runs have started: their supervisors, and what is below them."""
    parents, commands = {}, {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            commands[int(entry.name)] = (entry / "cmdline").read_bytes()

    def above(pid):
        while pid in parents and pid > 1:
            yield pid
            pid = parents[pid]
    chains = {pid: list(above(pid)) for pid in parents}
    return [pid for pid, chain in chains.items()
            if os.getpid() in chain and any(commands.get(one, b"").split(b"\0")[:2] == [b"bailey", b"supervise"] for one in chain)]


def test_everything_killed_at_random_moments(bridged, home, work):
    """Callers, and the processes of the tool's own sandbox, end at any moment: nobody hangs, nothing is run twice, and nothing is left
    (the test's own watch for processes and mounts)."""
    number, at_once = (1000, 200) if STRESS else (60, 30)
    count = home / "outside" / "counter"
    count.mkdir()
    program = home / "outside" / "once"
    program.write_text("#!/bin/sh\necho run-$2\nsleep 0.0$((RANDOM % 9))\necho end-$2\n")
    program.chmod(0o755)
    (work / "storm.py").write_text(f"""
import concurrent.futures, random, signal, subprocess, time
def one(i):
    chance = random.Random(i)
    p = subprocess.Popen(["once", "call", str(i)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if i % 3 == 0:
        time.sleep(chance.random() * 0.4)
        p.send_signal(chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]))
    out = p.communicate(timeout=280)[0].decode()
    return p.returncode, out
with concurrent.futures.ThreadPoolExecutor({at_once}) as pool:
    results = list(pool.map(one, range({number})))
whole = sum(r == (0, f"run-{{i}}\\nend-{{i}}\\n") for i, r in enumerate(results))
print(whole, sum(r[1].count("run-") > 1 for r in results), sum(r[0] != 0 for i, r in enumerate(results) if i % 3))
""")
    entry, over, killed = {"program": str(program), "verbs": ["call <int>"]}, threading.Event(), []

    def kill():
        chance = random.Random(7)
        while not over.wait(0.15):
            below = of_tools()
            if below:
                killed.append(chance.choice(below))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(killed[-1], signal.SIGKILL)
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        done = bridged("python3 storm.py", policy={"bridge": {"once": entry}}, limit=300)
    finally:
        over.set()
        killer.join()
    whole, twice, broken = map(int, done.text.split())
    assert twice == 0 and broken <= len(killed) and whole >= number * 2 // 3 - 1 - len(killed), (len(killed), str(done))
    assert killed and len([r for r in calls(done) if r["allowed"]]) <= number


def test_callers_killed_at_random_moments(bridged):
    done = run_many(bridged, 30, 15, killer="i % 2 == 0")
    good, killed, twice = map(int, done.text.split())
    assert good + killed == 30 and good >= 15 and twice == 0, str(done)


@pytest.mark.parametrize("moment", [0.02, 0.3, 0.8])
def test_the_supervisor_is_killed(home, work, tool, start, moment):
    """Nothing of a call is left, wherever it was: the test's own watch for processes and mounts says so."""
    file = home / "policy.yaml"
    file.write_text(json.dumps({"bridge": {"tool": {"program": str(tool), "verbs": VERBS}}}))
    child = start(["bailey", "run", "--policy", str(file), "--", "bash", "-c", "touch started; tool wait 600"], cwd=work)
    wait_until(lambda: (work / "started").exists(), 30 * SLOW, "the command")
    time.sleep(moment)
    child.kill()
    child.wait(30)


# The lists of what executes, redirects and leaks.
EXECUTING = ["alias.log", "alias.push", "alias.x.command", "browser.x.cmd", "browser.x.path", "core.alternateRefsCommand", "core.askPass", "core.editor", "core.fsmonitor",
             "core.gitProxy", "core.hooksPath", "core.pager", "core.sshCommand", "credential.helper", "credential.https://forge.test.helper", "diff.external",
             "diff.x.command", "diff.x.textconv", "difftool.x.cmd", "difftool.x.path", "filter.x.clean", "filter.x.smudge", "filter.x.process", "gc.recentObjectsHook",
             "gpg.program", "gpg.ssh.program", "gpg.openpgp.program", "gpg.x509.program", "gpg.ssh.defaultKeyCommand", "guitool.x.cmd", "hook.x.command", "imap.tunnel",
             "instaweb.httpd", "instaweb.browser", "interactive.diffFilter", "man.x.cmd", "man.x.path", "merge.x.driver", "mergetool.x.cmd", "mergetool.x.path", "pager.log",
             "pager.push", "receive.procReceiveRefs", "remote.origin.uploadpack", "remote.origin.receivepack", "remote.origin.vcs", "remote.origin.proxy", "sendemail.toCmd",
             "sendemail.ccCmd", "sendemail.headerCmd", "sendemail.smtpServer", "sequence.editor", "submodule.x.update", "tar.x.command", "trailer.x.command", "trailer.x.cmd",
             "uploadpack.packObjectsHook", "web.browser", "ssh.variant"]
REDIRECTING = ["url.ext::canary .insteadOf", "url.ext::canary .pushInsteadOf", "remote.origin.url", "remote.origin.pushurl", "http.proxy", "http.https://forge.test.proxy",
               "http.extraHeader", "http.sslVerify", "http.sslCAInfo", "http.sslCert", "http.sslKey", "http.cookieFile", "http.saveCookies", "http.followRedirects",
               "credential.useHttpPath", "include.path", "includeIf.gitdir:/.path", "core.worktree", "core.attributesFile", "core.excludesFile", "extensions.worktreeConfig",
               "extensions.partialClone", "remote.origin.promisor", "transfer.bundleURI", "fetch.recurseSubmodules", "push.recurseSubmodules", "protocol.allow",
               "protocol.ext.allow", "safe.directory", "safe.bareRepository", "user.signingKey", "trace2.eventTarget", "trace2.normalTarget", "trace2.perfTarget"]
ACCOMPLICES = ["alias.ls-remote", "pager.ls-remote", "filter.x.required", "hook.x.event", "push.gpgSign", "push.followTags", "commit.gpgSign", "log.showSignature",
               "submodule.x.url", "remote.origin.partialclonefilter"]  # harmless alone, or as others of the lists: they make those act
VARIABLES = ["GIT_SSH", "GIT_SSH_COMMAND", "GIT_PROXY_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT",
             "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0", "GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
             "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_TRACE", "GIT_TRACE_SETUP", "GIT_TRACE2", "GIT_TRACE2_EVENT", "GIT_REDIRECT_STDOUT",
             "GIT_REDIRECT_STDERR", "GIT_SSL_NO_VERIFY", "GIT_EDITOR", "EDITOR", "VISUAL", "PAGER", "BROWSER", "XDG_CONFIG_HOME", "GH_EDITOR", "GH_PAGER", "GH_BROWSER", "GH_HOST",
             "GH_REPO", "GH_CONFIG_DIR", "GH_PATH", "GH_TOKEN", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "PERL5LIB", "PYTHONPATH"]


def poison(work, host, keys):
    """These settings, and every hook and attribute that runs something, in a repository that is good otherwise."""
    canary = f"sh -c 'echo CANARY >&2; touch {work}/canary'"
    directory, hooks = work / ".git", work / "hooks"
    hooks.mkdir(exist_ok=True)
    special = {"core.hooksPath": hooks, "include.path": hooks / "more", "includeIf.gitdir:/.path": hooks / "more", "core.attributesFile": hooks / "attributes",
               "remote.origin.url": "https://evil.test/x", "remote.origin.pushurl": f"ext::{canary}", "submodule.x.url": f"ext::{canary}", "http.extraHeader": "X-Evil: 1",
               "http.sslVerify": "false", "core.worktree": hooks, "extensions.partialClone": "origin", "push.recurseSubmodules": "on-demand", "protocol.allow": "always",
               "protocol.ext.allow": "always", "safe.bareRepository": "all", "safe.directory": "*", "hook.x.event": "pre-push", "remote.origin.partialclonefilter": "blob:none"}
    for key in ("filter.x.required", "push.gpgSign", "push.followTags", "commit.gpgSign", "log.showSignature", "extensions.worktreeConfig", "remote.origin.promisor",
                "http.saveCookies", "http.followRedirects", "credential.useHttpPath", "fetch.recurseSubmodules", "transfer.bundleURI"):
        special[key] = "true"
    for key in keys:
        section, _, rest = key.replace("ext::canary", f"ext::{canary}").replace("forge.test", host).partition(".")
        part, _, name = rest.rpartition(".")
        value = special.get(key, canary)
        if key.startswith("alias.") or key.endswith(".helper") or key == "submodule.x.update":
            value = "!" + canary
        elif key.endswith("proxy"):
            value = "http://127.0.0.1:9"
        elif name.lower().endswith("insteadof"):
            value = "https://"
        elif section == "trace2" or name == "cookieFile":
            value = hooks / f"written-by-{name}"
        quoted = [str(text).replace("\\", "\\\\").replace('"', '\\"') for text in (part, value)]
        with (directory / "config").open("a") as config:
            config.write(f'[{section}' + (f' "{quoted[0]}"' if part else "") + f']\n\t{name} = "{quoted[1]}"\n')
    written = git("config", "--file", directory / "config", "--name-only", "--list", cwd=work.parent, check=True).stdout.split("\n")
    assert {key.replace("ext::canary", f"ext::{canary}").replace("forge.test", host).lower() for key in keys} <= {name.lower() for name in written}, written
    (hooks / "more").write_text("[core]\n    fsmonitor = " + canary + "\n")
    for name in ("pre-push", "post-checkout", "reference-transaction", "pre-auto-gc", "post-index-change"):
        for place in (hooks, directory / "hooks"):
            place.mkdir(exist_ok=True)
            (place / name).write_text("#!/bin/sh\n" + canary + "\n")
            (place / name).chmod(0o755)
    (work / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    (directory / "info").mkdir(exist_ok=True)
    (directory / "info" / "attributes").write_text("* filter=x diff=x\n")
    (work / ".gitmodules").write_text(f'[submodule "x"]\n    path = x\n    url = ext::{canary}\n')
    (directory / "config.worktree").write_text("[core]\n    fsmonitor = " + canary + "\n")


def untouched(work):
    return not (work / "canary").exists() and not list((work / "hooks").glob("written-by-*"))


@pytest.fixture
def repository(work):
    git("init", "-q", "-b", "main", cwd=work, check=True)
    for number in range(2):
        (work / "file").write_text(f"{number}\n")
        git("add", "file", cwd=work, check=True)
        git("commit", "-qm", f"commit {number}", cwd=work, check=True)
    return git("rev-parse", "HEAD", cwd=work, check=True).stdout.strip()


def test_a_poisoned_repository_is_pushed_and_its_canary_never_runs(bailey, home, work, start, authority, tmp_path, free_port, repository):
    forge = Forge(start, authority, tmp_path / "forge", HOST, free_port())
    forge.make("acme/app", tmp_path)
    poison(work, f"{HOST}:{forge.port}", EXECUTING + REDIRECTING + ACCOMPLICES)
    where, audit = f"{HOST}:{forge.port}", home / "audit.jsonl"
    (home / "hosts").write_text(f"127.0.0.1 {HOST}\n")
    (home / "policy.yaml").write_text(json.dumps({
        "network": {"allow_private": [where]}, "bridge": {"git": {"repos": [f"{where}/acme/app"]}},
        "git": [{"repo": f"{where}/acme/app", "push": ["refs/heads/agent/**"]}]}))
    done = bailey("run", "--policy", str(home / "policy.yaml"), "--hosts", str(home / "hosts"), "--ca-bundle", str(authority.file), "--audit", str(audit),
                  "--", "bash", "-c", "git ls-remote origin 2>&1; git push origin main:refs/heads/agent/x HEAD:refs/heads/agent/y 2>&1; echo $?; "
                  "git push origin main:refs/heads/other 2>&1; echo $?", cwd=work, timeout=120 * SLOW)
    assert "CANARY" not in done.text + done.errors and untouched(work), str(done)
    refs = forge.refs("acme/app")
    assert refs.get("refs/heads/agent/x") == repository and refs.get("refs/heads/agent/y") == repository, str(done)
    assert "remote rejected" in done.text and "refs/heads/other" not in refs, str(done)


def test_a_bridged_push_is_asked_about_as_any_other(bailey, home, work, start, authority, tmp_path, free_port, repository):
    """`ask: push` of the policy holds for git outside as well: the question has the refs and what they become."""
    forge = Forge(start, authority, tmp_path / "forge", HOST, free_port())
    forge.make("acme/app", tmp_path)
    where = f"{HOST}:{forge.port}"
    (home / "hosts").write_text(f"127.0.0.1 {HOST}\n")
    (home / "policy.yaml").write_text(json.dumps({
        "network": {"allow_private": [where], "ask_timeout": "60s"}, "bridge": {"git": {"repos": [f"{where}/acme/app"]}},
        "git": [{"repo": f"{where}/acme/app", "push": ["refs/heads/agent/**"], "ask": "push"}]}))
    child = start(["bailey", "run", "--policy", str(home / "policy.yaml"), "--hosts", str(home / "hosts"), "--ca-bundle", str(authority.file), "--", "bash", "-c",
                   f"git push https://{where}/acme/app main:refs/heads/agent/yes 2>&1; echo $?; git push https://{where}/acme/app main:refs/heads/agent/no 2>&1; echo $?"],
                  cwd=work)
    for word, ref in (("allow", "refs/heads/agent/yes"), ("deny", "refs/heads/agent/no")):
        shown = wait_until(lambda ref=ref: ref in (text := bailey("pending").text) and text, 60 * SLOW, "the question")
        assert "waits with a push to" in shown and repository[:7] in shown, shown
        bailey(word, "--push", shown.split()[0]).check()
    done = child.wait(120 * SLOW)
    assert "remote rejected" in done.text and forge.refs("acme/app").get("refs/heads/agent/yes") == repository, str(done)
    assert "refs/heads/agent/no" not in forge.refs("acme/app"), str(done)


def test_a_poisoned_repository_is_read_by_real_git(bridged, home, work, repository):
    """Any verb of git that reads, in the repository of Bailey's own: what is written in the workspace's settings is not obeyed."""
    program = home / "outside" / "reader"
    program.write_text("#!/bin/sh\nexec git --no-pager log -p --stat --show-signature --textconv --ext-diff --all\n")
    program.chmod(0o755)
    poison(work, HOST, EXECUTING + ACCOMPLICES)
    (work / "file").write_text("changed\n")
    assert "CANARY" in git("diff", cwd=work).stderr  # such a repository does run it, where its settings are read
    (work / "canary").unlink(missing_ok=True)
    poison(work, HOST, REDIRECTING)
    done = bridged("reader all", policy={"bridge": {"reader": {"program": str(program), "verbs": ["all"], "workspace": "objects"}}})
    assert "commit 1" in done.text and repository in done.text and "CANARY" not in done.text + done.errors and untouched(work), str(done)


def test_verbs_of_git_that_are_not_bridged_run_inside(bailey, home, work, repository):
    (home / "policy.yaml").write_text(json.dumps({"bridge": {"git": {"repos": ["forge.test/acme/app"]}}}))
    done = bailey("run", "--policy", str(home / "policy.yaml"), "--", "bash", "-c",
                  "git log --format=%s; git -c user.name=x -c user.email=x@y commit -q --allow-empty -m third; git rev-list --count HEAD", cwd=work).check()
    assert done.text.split("\n")[:3] == ["commit 1", "commit 0", "3"], str(done)


def test_why_knows_calls_of_tools(bailey, home, work):
    options = ["--bridge", "gh=github.com/acme/app"]
    assert "run: gh pr view" in bailey("why", *options, "gh pr view 5", cwd=work).check().text
    refused = bailey("why", *options, "gh pr view 5 --web", cwd=work)
    assert refused.status == 1 and "it opens a browser" in refused.text


def test_policy_test_and_learn_know_tools(bailey, bridged, home, work, tool):
    tested = bailey("policy", "test", "--bridge", "gh=github.com/acme/app", "gh pr view 5", "gh pr view 5 --web", cwd=work)
    assert tested.status == 1 and "run: gh pr view" in tested.text and "it opens a browser" in tested.text, str(tested)
    file = home / "policy.yaml"
    file.write_text(json.dumps({"bridge": {"tool": {"program": str(tool), "verbs": VERBS}}}))
    bailey("learn", "--policy", str(file), "--output", str(work / "learned.yaml"), "--", "sh", "-c", "tool status 0; tool fly", cwd=work)
    learned = (work / "learned.yaml").read_text()
    assert "# bridge:\n  # tool: {}" in learned and "fly" not in learned.split("\n", 1)[1], learned
    bailey("policy", "check", str(work / "learned.yaml"), cwd=work).check()
    planned = bailey("plan", "--policy", str(file), "--", "true", cwd=work).check().text
    assert "at /run/bailey/bin/tool" in planned and "listen for calls of tools" in planned, planned


class Cluster(http.server.ThreadingHTTPServer):
    """As much of a Kubernetes API server as kubectl's reading verbs ask for. Who has no certificate of its own authority gets nothing."""
    daemon_threads = True
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web", "namespace": "default", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"},
           "spec": {"containers": [{"name": "main", "image": "nginx"}]}, "status": {"phase": "Running"}}
    answers = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
        "/api/v1": {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": [
            {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get", "list"]}
            for name, kind in (("pods", "Pod"), ("pods/log", "Pod"), ("secrets", "Secret"))]},
        "/api/v1/namespaces/default/pods": {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod]},
        "/api/v1/namespaces/default/pods/web": pod,
        "/version": {"major": "1", "minor": "20", "gitVersion": "v1.20.5"},
    }

    def __init__(self, authority, name, client=True):
        self.seen = []
        super().__init__(("127.0.0.1", 0), self.Handler)
        context = authority.context(name)
        if client:
            context.load_verify_locations(authority.file)
            context.verify_mode = ssl.CERT_REQUIRED
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        pass  # a handshake without a certificate

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.partition("?")[0]
            self.server.seen.append((self.command, path))
            if path.endswith("/log"):
                body, kind = b"a line of the log\n", "text/plain"
            else:
                body, kind = json.dumps(Cluster.answers.get(path, {"kind": "Status", "status": "Failure", "code": 404})).encode(), "application/json"
            self.send_response(200 if path.endswith("/log") or path in Cluster.answers else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

        def log_message(self, *words):
            pass


def test_kubectl_with_a_client_certificate(bailey, home, work, authority, closing):
    """Debian's kubectl by its built-in table: the certificate's key is the tool's alone, and what is refused never reaches the server."""
    cluster = closing(Cluster(authority, "k8s.test"))
    pem = pathlib.Path(authority.issue("an-agent", client=True)).read_bytes()
    data = {name: base64.b64encode(text).decode() for name, text in (("root", authority.file.read_bytes()), ("own", pem))}
    (home / ".kube").mkdir()
    (home / ".kube/config").write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "lab", "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
        "clusters": [{"name": "lab", "cluster": {"server": f"https://k8s.test:{cluster.port}", "certificate-authority-data": data["root"]}}],
        "users": [{"name": "me", "user": {"client-certificate-data": data["own"], "client-key-data": data["own"]}}]}))
    (home / "hosts").write_text("127.0.0.1 k8s.test\n")
    where = f"k8s.test:{cluster.port}"
    (home / "policy.yaml").write_text(json.dumps({"network": {"allow_private": [where]}, "bridge": {"kubectl": {"hosts": [where]}}}))
    refused = ["get secrets", "get secret x -o yaml", "delete pod web", "exec web -- id", "get pods --server https://evil.test", "get pods --kubeconfig x",
               "get --raw /api", "apply -f x", "config view --raw", "proxy", "get pods --token x", "cp web:/x y", "edit pod web", "port-forward web 1:1"]
    done = bailey("run", "--policy", str(home / "policy.yaml"), "--hosts", str(home / "hosts"), "--audit", str(home / "audit.jsonl"), "--", "bash", "-c",
                  "kubectl get pods; kubectl get pod web -o json | grep -c nginx; kubectl logs web --tail 1; kubectl get pods -o name; echo asked; "
                  + "".join(f"kubectl {words} && echo RAN; " for words in refused)
                  + f"cat ~/.kube/config; curl -sk -m 10 https://{where}/api && echo REACHED; true", cwd=work, timeout=120 * SLOW)
    lines = done.text.splitlines()
    assert "web" in lines[1] and lines[2:5] == ["1", "a line of the log", "pod/web"], str(done)
    assert "RAN" not in done.text and "REACHED" not in done.text and data["own"][:60] not in done.text, str(done)
    assert {method for method, _ in cluster.seen} == {"GET"} and not [path for _, path in cluster.seen if "secret" in path], cluster.seen
    records = [json.loads(line) for line in (home / "audit.jsonl").read_text().splitlines()]
    assert [r["allowed"] for r in records if r.get("kind") == "command"] == [True] * 4 + [False] * len(refused)


class Api(Cluster):
    """As much of GitHub's API, at a host of its own, as the calls below ask for."""
    comment = {"addComment": {"commentEdge": {"node": {"url": "https://gh.test/comment"}}}}
    pull = {"number": 5, "title": "the title", "id": "P5", "state": "OPEN", "mergeable": "MERGEABLE", "mergeStateStatus": "CLEAN", "headRefName": "agent/x", "baseRefName": "main"}
    repository = {"id": "R1", "hasIssuesEnabled": True, "mergeCommitAllowed": True, "pullRequest": pull, "issue": {"number": 5, "id": "P5", "__typename": "Issue"}}

    @staticmethod
    def data(query):
        """gh takes a field that it has not asked for as an error, in some of its answers."""
        if query.startswith("mutation"):
            return Api.comment if "addComment" in query else {"mergePullRequest": {"clientMutationId": "x"}}
        if "PullRequest_fields" in query:  # what this server knows of
            return {"PullRequest": {"fields": []}}
        return {"repository": Api.repository, "viewer": {"login": "me"}}

    class Handler(Cluster.Handler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.server.seen.append((self.path, self.headers.get("Authorization"), body["query"].split("(")[0].split("{")[0].strip(), body.get("variables")))
            answer = json.dumps({"data": Api.data(body["query"])}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)


def test_gh_at_a_host_of_its_own(bailey, home, work, authority, closing):
    """Debian's gh by its built-in table: the server gets the tool's token, its caller never has it, and what is refused reaches nobody."""
    api = closing(Api(authority, "gh.test", client=False))
    where = f"gh.test:{api.port}"
    (home / "hosts").write_text("127.0.0.1 gh.test\n")
    (home / "policy.yaml").write_text(json.dumps({
        "network": {"allow_private": [where]}, "bridge": {"gh": {"repos": [f"{where}/acme/app"], "hosts": [where], "env_pass": ["GH_ENTERPRISE_TOKEN"]}}}))
    refused = ["auth token", "auth status -t", "api graphql -f query=x", "pr merge 5", "pr view 5 --web", "pr view 5 -R github.com/acme/app", "pr view 5 --jq env",
               "alias set x '!id'", "extension install a/b", "secret list", "pr comment 5 -F x", "repo delete", "config get oauth_token", "workflow run x"]
    done = bailey("run", "--policy", str(home / "policy.yaml"), "--hosts", str(home / "hosts"), "--ca-bundle", str(authority.file), "--audit", str(home / "audit.jsonl"),
                  "--", "bash", "-c", "gh pr view 5 --json title; gh pr comment 5 --body hello; " + "".join(f"gh {words} && echo RAN; " for words in refused) + "env; true",
                  cwd=work, timeout=120 * SLOW, env={"GH_ENTERPRISE_TOKEN": "ghe-real-token", "GH_TOKEN": "gh-other-token"})
    assert '{"title":"the title"}' in done.text and "RAN" not in done.text and "ghe-real-token" not in done.text + done.errors, str(done)
    assert api.seen and {path for path, *_ in api.seen} == {"/api/graphql"} and {token for _, token, *_ in api.seen} == {"token ghe-real-token"}, (api.seen, str(done))
    records = [json.loads(line) for line in (home / "audit.jsonl").read_text().splitlines()]
    assert [r["allowed"] for r in records if r.get("kind") == "command"] == [True] * 2 + [False] * len(refused)


def test_gh_inside_through_the_gate(bailey, home, work, authority, closing):
    """Debian's gh itself in the sandbox, with a stand-in for its token: the gateway judges what it asks for by GraphQL, and puts the token in."""
    api = closing(Api(authority, "gh.test", client=False))
    where, audit = f"gh.test:{api.port}", home / "audit.jsonl"
    (home / "hosts").write_text("127.0.0.1 gh.test\n")
    (home / "token").write_text("ghe-real-token")
    refused = ["pr merge 5 --merge", "pr close 5", "api repos/acme/app", "api -X DELETE repos/acme/app", "api graphql -f query='mutation { addComment deleteRef }'"]
    script = (f"export GH_HOST={where} GH_REPO={where}/acme/app GH_PROMPT_DISABLED=1 GH_NO_UPDATE_NOTIFIER=1\n"
              "gh pr view 5 --json title; gh pr comment 5 --body hello\n"
              + "".join(f"gh {words} > out 2>&1 && echo RAN; grep -o 403 out || cat out\n" for words in refused)
              + "env; gh auth status -t; cat ~/.config/gh/* /proc/*/environ 2>&1; true\n")

    def run(*mutations):
        api.seen.clear()
        audit.unlink(missing_ok=True)
        rule = {"host": where, "paths": ["/api/graphql"], "graphql": {"query": ["*"], "mutation": list(mutations)}}
        (home / "policy.yaml").write_text(json.dumps({"network": {"allow_private": [where], "rules": [rule]}, "credentials": [
            {"name": "gh", "env": "GH_ENTERPRISE_TOKEN", "source": f"file:{home / 'token'}", "hosts": [where], "slot": "bearer"}]}))
        done = bailey("run", "--policy", str(home / "policy.yaml"), "--hosts", str(home / "hosts"), "--ca-bundle", str(authority.file), "--audit", str(audit),
                      "--", "bash", "-c", script, cwd=work, timeout=120 * SLOW)
        assert api.seen and {(path, token) for path, token, *_ in api.seen} == {("/api/graphql", "token ghe-real-token")}, (api.seen, str(done))
        assert "ghe-real-token" not in done.text + done.errors + audit.read_text() and "GH_ENTERPRISE_TOKEN=" in done.text, str(done)
        return done, [asked for _, _, asked, _ in api.seen if asked.startswith("mutation")]

    done, mutations = run("addComment")
    assert done.text.splitlines()[:2 + len(refused)] == ['{"title":"the title"}', "https://gh.test/comment"] + ["403"] * len(refused), str(done)
    assert mutations == ["mutation CommentCreate"], mutations
    judged = [(r["graphql"]["operation"], r["graphql"]["fields"]) for r in map(json.loads, audit.read_text().splitlines()) if r.get("graphql") and not r["allowed"]]
    assert judged == [("mutation", ["mergePullRequest"]), ("mutation", ["closePullRequest"]), ("mutation", ["addComment", "deleteRef"])], judged

    done, mutations = run("mergePullRequest")
    assert done.text.splitlines()[:2] == ['{"title":"the title"}', "RAN"] and "the mutation addComment" in done.errors, str(done)
    assert mutations == ["mutation PullRequestMerge"], mutations


def test_each_setting_alone(bridged, home, work, repository):
    """A repository with one setting of the lists, for each of them: the tool that works on its objects sees the same settings as without."""
    canary = home / "outside" / "canary"
    canary.write_text(f"#!/bin/sh\necho CANARY >&2\ntouch {work}/ran\n")
    canary.chmod(0o755)
    reader = home / "outside" / "reader"
    reader.write_text("#!/bin/sh\ngit config --list --show-origin; git --no-pager log -p --show-signature --textconv --ext-diff --all --format=%s; git for-each-ref; "
                      "git archive HEAD | tar t; git count-objects -v\n")
    reader.chmod(0o755)
    tool = {"bridge": {"reader": {"program": str(reader), "verbs": ["all"], "workspace": "objects"}}}
    config, plain = work / ".git/config", (work / ".git/config").read_text()
    (work / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    expected = bridged("reader all 2>&1", policy=tool).text
    assert "commit 1" in expected and "hookspath=/dev/null" in expected

    wrong = []
    keys = (EXECUTING + REDIRECTING)[:: 3 if SANITIZED else 1]  # they take the same way through the code
    for key in keys:
        config.write_text(plain)
        git("config", key, "!" + str(canary) if key.startswith(("alias", "credential", "submodule")) else str(canary), cwd=work, check=True)
        done = bridged("reader all 2>&1", policy=tool, check=False)
        if done.text != expected or (work / "ran").exists() or "CANARY" in done.errors:
            wrong.append(key)
        (work / "ran").unlink(missing_ok=True)
    config.write_text(plain)
    assert not wrong and len(keys) > 20, wrong


def test_each_variable(bridged):
    """Set outside and inside, each to something that would be seen: none of them reaches the tool."""
    value = {name: f"leaked-{name}" for name in VARIABLES if not name.startswith("LD_")}
    inside = " ".join(f"{name}=leaked-{name}" for name in VARIABLES if not name.startswith("LD_"))
    done = bridged(f"{inside} LD_PRELOAD=/leaked LD_LIBRARY_PATH=/leaked LD_AUDIT=/leaked /run/bailey/bin/tool env", environment=value)
    assert "HOME=" in done.text and "leaked" not in done.text, [line for line in done.text.splitlines() if "leaked" in line]
    quiet = {"PAGER": "cat", "EDITOR": "false", "VISUAL": "false", "MANPAGER": "cat", "LESSSECURE": "1"}  # they would start programs for who is at the terminal
    assert not [name for name in VARIABLES if name not in quiet and f"\n{name}=" in "\n" + done.text], done.text
    assert not [name for name, value in quiet.items() if f"\n{name}={value}\n" not in "\n" + done.text], done.text
    own = bridged("tool env", environment={"EDITOR": "mine"}, env=["PAGER=less"], env_pass=["EDITOR"]).text
    assert "PAGER=less\n" in own and "EDITOR=mine\n" in own and "VISUAL=false\n" in own, own


def test_files_that_act(bridged, home, work, repository):
    """Files of a repository that lead elsewhere: borrowed objects, a common directory, .git as a file, grafts, settings of LFS."""
    reader = home / "outside" / "reader"
    reader.write_text("#!/bin/sh\ngit cat-file -p $2 || echo not there; git --no-pager log --all --format=%s; git rev-parse --git-common-dir\n")
    reader.chmod(0o755)
    tool = {"bridge": {"reader": {"program": str(reader), "verbs": ["object <word>"], "workspace": "objects"}}}
    secret = home / "private"
    git("init", "-q", secret, cwd=home, check=True)
    (secret / "file").write_text("of another repository\n")
    git("add", "file", cwd=secret, check=True)
    blob = git("rev-parse", ":file", cwd=secret, check=True).stdout.strip()

    def look():
        return bridged(f"reader object {blob} 2>&1", policy=tool, check=False).text
    expected = look()
    assert "not there" in expected and "commit 1" in expected, expected
    directory = work / ".git"
    for name, text in (("objects/info/alternates", f"{secret}/.git/objects\n"), ("info/alternates", f"{secret}/.git/objects\n"), ("commondir", f"{secret}/.git\n"),
                       ("info/grafts", f"{repository}\n"), ("shallow", f"{repository}\n"), ("info/attributes", "* filter=x\n"), ("config.worktree", "[core]\n  fsmonitor = id\n"),
                       ("../.lfsconfig", "[lfs]\n  url = https://evil.test\n"), ("../.mailmap", "x <x@x>\n"), ("../.gitmodules", "[submodule \"x\"]\n  url = ext::id\n")):
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        shown = look()
        assert "of another repository" not in shown and "commit 1" in shown, (name, shown)
        path.unlink()
    bare = work / "nested"
    git("init", "-q", "--bare", bare, cwd=work, check=True)
    assert bridged(f"cd nested; reader object {blob} 2>&1", policy=tool, check=False).text == expected
    directory.rename(home / "moved")
    directory.write_text(f"gitdir: {secret}/.git\n")
    assert "not the top of a repository" in look()
