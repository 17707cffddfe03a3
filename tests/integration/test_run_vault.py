# SPDX-License-Identifier: Apache-2.0
"""`bailey run` with credentials: the sandbox holds stand-ins, the origin sees the secrets, nobody else sees anything."""
import contextlib
import json
import os
import pathlib
import signal
import time

import pytest

from kit.process import descendants, name_of, wait_until

REAL = "sk-proj-Rea1OpenAiVa1ue0123456789abcdefXYZ"
FILE_ONE = "ghp_F1rstF11eVa1ue0123456789abcdefABCD"
FILE_TWO = "ghp_Sec0ndF11eVa1ue9876543210fedcbaDCB"
EXEC = "exec-Secret-Va1ue-0123456789"


class World:
    """A TLS origin that says which token it saw (never in clear), the names for it, and a policy file."""

    def __init__(self, tmp_path, home, authority, make_origin):
        self.workspace, self.home = tmp_path / "ws", home
        self.workspace.mkdir()
        self.elsewhere = tmp_path / "elsewhere"
        self.elsewhere.mkdir(mode=0o700)
        self.authority = authority
        self.origin = make_origin(tls=authority.context("api.ok.test", "plain.ok.test"))
        self.hosts = tmp_path / "hosts"
        self.hosts.write_text("127.0.0.1 api.ok.test\n127.0.0.1 plain.ok.test\n")
        self.token = self.elsewhere / "token"
        self.token.write_text(FILE_ONE + "\n")
        self.token.chmod(0o600)
        self.policy = self.elsewhere / "policy.yaml"
        self.audit = self.elsewhere / "audit.jsonl"

    def credentials(self, *entries, **more):
        hosts = [f"api.ok.test:{self.origin.port}"]
        self.policy.write_text(json.dumps({
            "network": {"allow": [f"plain.ok.test:{self.origin.port}"],
                        "allow_private": [f"127.0.0.1:{self.origin.port}"], **more},
            "credentials": [{"hosts": hosts, "slot": "bearer", **entry} for entry in entries]}))
        return self

    def words(self, *command):
        return ["bailey", "run", "--quiet", "--policy", self.policy, "--workspace", self.workspace, "--hosts", self.hosts,
                "--ca-bundle", self.authority.file, "--audit", self.audit, "--", *command]

    def url(self, name="api.ok.test"):
        return f"https://{name}:{self.origin.port}/v1"

    def seen(self):
        """The Authorization headers that the origin got."""
        return [line.split(b": ", 1)[1].decode() for request in self.origin.requests()
                for line in request.split(b"\r\n") if line.lower().startswith(b"authorization: ")]

    def wait_seen(self, wanted, seconds=60):
        deadline = time.monotonic() + seconds
        while not any(wanted in value for value in self.seen()):
            assert time.monotonic() < deadline, f"the origin never saw the new value; it saw {len(self.seen())}"
            time.sleep(0.05)


@pytest.fixture
def world(tmp_path, home, authority, make_origin):
    return World(tmp_path, home, authority, make_origin)


ENV = {"name": "own", "env": "OWN_TOKEN", "source": "env:OWN_TOKEN"}


def wait_for(path, child, seconds=60):
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert child.running() and time.monotonic() < deadline, child.errors()
        time.sleep(0.02)


def test_the_origin_sees_the_secret_and_the_sandbox_a_stand_in(world, run):
    world.credentials(ENV, {"name": "file", "env": "GITHUB_TOKEN", "source": f"file:{world.token}"},
                      {"name": "exec", "env": "EXEC_TOKEN", "source": f"exec:printf '%s\\n' {EXEC}"})
    script = (f'for v in OWN_TOKEN GITHUB_TOKEN EXEC_TOKEN; do eval "t=\\$$v"; echo "$v=$t"; '
              f'curl -sS -o /dev/null -w "%{{http_code}}\\n" -H "Authorization: Bearer $t" {world.url()}; done')
    result = run(world.words("sh", "-c", script), env={"OWN_TOKEN": REAL}, timeout=90)
    assert result.status == 0, result
    lines = result.text.split()
    assert lines[1::2] == ["200"] * 3, result
    assert world.seen() == [f"Bearer {v}" for v in (REAL, FILE_ONE, EXEC)]
    for line, real, prefix in zip(lines[::2], (REAL, FILE_ONE, EXEC), ("sk-proj-", "ghp_", "")):
        fake = line.split("=", 1)[1]
        assert fake.startswith(prefix) and len(fake) == len(real) and fake != real
    everything = result.out + result.err + world.audit.read_bytes()
    for real in (REAL, FILE_ONE, EXEC):
        assert real.encode() not in everything


def test_everything_a_client_needs_to_trust_is_there(world, run):
    world.credentials(ENV)
    script = (
        'env; echo ---; ls -ld "$(dirname "$SSL_CERT_FILE")"; grep -c BEGIN "$SSL_CERT_FILE"; '
        'echo x >> "$SSL_CERT_FILE" && echo written; '
        'python3 - <<E\n'
        'import os, ssl, urllib.request\n'
        f'q = urllib.request.Request("{world.url()}", headers={{"Authorization": "Bearer " + os.environ["OWN_TOKEN"]}})\n'
        'print("python", urllib.request.urlopen(q, timeout=20).status)\n'
        'E\n'
        'keytool -J-XX:-UsePerfData -list -keystore "${SSL_CERT_FILE%.pem}.jks" -storepass changeit 2>/dev/null | grep -c trusted')
    result = run(world.words("sh", "-c", script), env={"OWN_TOKEN": REAL, "NODE_OPTIONS": "--max-old-space-size=512",
                                                             "NIX_SSL_CERT_FILE": "/etc/ssl/none.pem"}, timeout=120)
    text, _, rest = result.text.partition("---\n")
    env = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    for name in ("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE",
                 "CARGO_HTTP_CAINFO", "DENO_CERT", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "npm_config_cafile", "NIX_SSL_CERT_FILE"):
        assert env[name] == env["SSL_CERT_FILE"], name
    assert env["NODE_OPTIONS"].startswith("--max-old-space-size=512 ") and "NODE_USE_ENV_PROXY" not in env
    covered = pathlib.Path("/etc/ssl/certs/java/cacerts").exists()  # then Java need not be told, and does not tell everybody
    assert "JAVA_TOOL_OPTIONS" not in env if covered else "trustStoreType=JKS" in env["JAVA_TOOL_OPTIONS"]
    assert "written" not in rest and "python 200" in rest, result
    counts = [line for line in rest.split() if line.isdigit()]
    system = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
    roots = system.read_text().count("BEGIN CERTIFICATE") if system.exists() else 0
    all_of_them = str(roots + 2)  # the system's, the test's root and the session's CA, and the same for Java
    assert counts[-3:] == [all_of_them, "200", all_of_them], rest
    left = world.home / ".local/state/bailey/certificates"
    assert not list(left.glob("*")), "removed with the run"


@pytest.mark.parametrize("entry, says", [
    ({"source": "env:NOT_SET"}, "the variable NOT_SET is not set; set it, or take the credential out of the policy"),
    ({"source": "file:/nonexistent/token"}, "cannot open /nonexistent/token"),
    ({"source": "exec:echo 'not me' >&2; exit 3"}, "ended with status 3"),
    ({"source": "exec:no-such-program-here"}, "status 127"),
    ({"source": "exec:true"}, "the value is empty"),
    ({"source": "exec:printf 'a-secret\\nin-two-lines'"}, "more than one line"),
    ({"source": "exec:head -c 100000 /dev/zero | tr '\\0' x"}, "more than 16384 bytes"),
    ({"source": "exec:printf hunter2"}, "too short"),
    ({"source": "env:SHORT"}, "too short"),  # found while the supervisor still tells the vault more
    ({"source": "exec:printf 'hunter2\\000hunter2'"}, "bytes that cannot be sent"),
    ({"source": "systemd:name"}, "CREDENTIALS_DIRECTORY"),
    ({"source": "bws:some-name"}, "bws is not installed"),
    ({"source": "keyring:no-such-key-of-bailey"}, "keyring"),
])
def test_a_source_that_fails_is_told_and_nothing_runs(world, run, entry, says):
    world.credentials({"name": "mine", "env": "MINE", **entry})
    proof = world.workspace / "ran"
    result = run(world.words("touch", proof), timeout=60, env={"SHORT": "hunter2"})
    assert result.status not in (0, 1) and not proof.exists()
    assert "mine" in result.errors and says in result.errors, result
    assert "hunter2" not in result.errors and "in-two-lines" not in result.errors


def test_sources_of_other_kinds(world, run, tmp_path):
    """bws (a program of its name), systemd's directory, and AWS credentials as a credential process prints them."""
    programs, credentials = tmp_path / "bin", world.workspace / "credentials"
    programs.mkdir()
    credentials.mkdir()
    listing = json.dumps([{"key": "OTHER", "value": "not-this-one"}, {"key": "WANTED", "value": EXEC}])
    (programs / "bws").write_text(f"#!/bin/sh\ntest \"$BWS_ACCESS_TOKEN\" = bws-token-1 || exit 9\nenv > {tmp_path}/seen\n"
                                  f"cat <<'E'\n{listing}\nE\n")
    (programs / "bws").chmod(0o755)
    (credentials / "deploy").write_text(FILE_TWO)
    world.credentials({"name": "bitwarden", "env": "A_TOKEN", "source": "bws:WANTED"},
                      {"name": "systemd", "env": "B_TOKEN", "source": "systemd:deploy"})
    script = f'for t in $A_TOKEN $B_TOKEN; do curl -sS -o /dev/null -H "Authorization: Bearer $t" {world.url()}; done; cat {credentials}/shown {credentials}/deploy'
    (credentials / "shown").write_text("shown")
    result = run(world.words("sh", "-c", script), timeout=60, env={
        "PATH": f"{programs}:/usr/bin:/bin", "BWS_ACCESS_TOKEN": "bws-token-1", "CREDENTIALS_DIRECTORY": str(credentials),
        "UNRELATED_SECRET": "unrelated-1"})
    assert world.seen() == [f"Bearer {EXEC}", f"Bearer {FILE_TWO}"], result
    assert result.status == 1 and result.text == "shown" and FILE_TWO not in result.errors, result  # closed, as the source of file: is
    given = (tmp_path / "seen").read_text()
    assert "BWS_ACCESS_TOKEN" in given and "UNRELATED_SECRET" not in given


def test_a_source_behind_a_link_is_closed_where_it_lies(world, run, tmp_path):
    """The file is a link, or its directory is; the sandbox sees the workspace that it leads to."""
    real = world.workspace / "real"
    real.mkdir()
    for name, value in (("one", FILE_ONE), ("two", FILE_TWO), ("shown", "shown")):
        (real / name).write_text(value)
    (tmp_path / "link").symlink_to(real / "one")
    (tmp_path / "directory").symlink_to(real)
    world.credentials({"name": "one", "env": "A_TOKEN", "source": f"file:{tmp_path}/link"},
                      {"name": "two", "env": "B_TOKEN", "source": f"file:{tmp_path}/directory/two"})
    script = f'cd {real}; cat shown one two; curl -sS -o /dev/null -H "Authorization: Bearer $A_TOKEN" {world.url()}'
    result = run(world.words("sh", "-c", script), timeout=60)
    assert result.text.strip() == "shown" and FILE_ONE not in result.errors and world.seen() == [f"Bearer {FILE_ONE}"], result


def test_a_link_that_leads_elsewhere_later_opens_nothing(world, start, tmp_path):
    """A volume of Kubernetes takes its new value, closed like the old one. What another link leads to now is open, so it is not taken."""
    volume, real, link = world.workspace / "volume", world.workspace / "real", tmp_path / "link"
    for version, value in (("..1", "first-Vo1ume-Va1ue-0123"), ("..2", EXEC)):
        (volume / version).mkdir(parents=True)
        (volume / version / "token").write_text(value)
    (volume / "token").symlink_to("..data/token")
    (volume / "..data").symlink_to("..1")
    real.mkdir()
    (real / "one").write_text(FILE_ONE)
    (real / "two").write_text(FILE_TWO)
    link.symlink_to(real / "one")
    world.credentials({"name": "volume", "env": "A_TOKEN", "source": f"file:{volume}/token"},
                      {"name": "link", "env": "B_TOKEN", "source": f"file:{link}"})
    script = (f'touch started; until [ -e stop ]; do sleep 0.02; done; for t in $A_TOKEN $B_TOKEN; do curl -sS -o /dev/null -H '
              f'"Authorization: Bearer $t" {world.url()}; done; cat real/one volume/token volume/..[12]/token; '
              'mv volume/..2 volume/open; cat volume/open/token')
    child = start(world.words("sh", "-c", script), cwd=world.workspace)
    wait_for(world.workspace / "started", child)
    for place, target in ((volume / "..data", "..2"), (link, real / "two")):
        new = place.with_name("new")
        new.symlink_to(target)
        new.rename(place)
    wait_until(lambda: world.audit.read_text().count("vault: credential") == 2, what="both in the record")
    (world.workspace / "stop").touch()
    result = child.wait(60)
    assert world.seen() == [f"Bearer {EXEC}"], result
    assert result.text == "" and str(real / "two") in result.errors, result


def test_a_hanging_command_is_ended(world, run):
    """Commands are bounded; what they started goes with them (the leak watch of every test looks for it)."""
    world.credentials({"name": "slow", "env": "SLOW", "source": "exec:sleep 600", "timeout": "1s"})
    result = run(world.words("true"), timeout=90)
    assert result.status != 0 and "longer than 1s" in result.errors, result


def test_a_file_that_changes_counts_at_once(world, start):
    """Even when it is in the workspace: the sandbox cannot read it, nor the one that replaces it."""
    world.token = world.workspace / "token"
    world.token.write_text(FILE_ONE)
    world.credentials({"name": "file", "env": "GITHUB_TOKEN", "source": f"file:{world.token}"})
    script = (f'echo > started; while [ ! -e stop ]; do curl -sS -o /dev/null -w "%{{http_code}}\\n" -H '
              f'"Authorization: Bearer $GITHUB_TOKEN" {world.url()} >> codes; done; cat token')
    child = start(world.words("sh", "-c", script), cwd=world.workspace)
    world.wait_seen(FILE_ONE)
    new = world.elsewhere / "token.new"
    new.write_text(FILE_TWO)
    new.rename(world.token)
    world.wait_seen(FILE_TWO)
    count = len(world.seen())
    while len(world.seen()) < count + 5:
        assert child.running(), child.errors()
        time.sleep(0.02)
    assert all(FILE_TWO in value for value in world.seen()[count:]), "the old value after the new one"
    world.token.write_text(FILE_ONE)  # in place
    deadline = time.monotonic() + 60
    while FILE_ONE not in world.seen()[-1]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (world.workspace / "stop").write_text("")
    result = child.wait(60)
    codes = set((world.workspace / "codes").read_text().split())
    assert codes == {"200"}, codes
    assert FILE_ONE not in result.text and "Permission denied" in result.errors, "the file itself is closed to the sandbox"


def test_a_value_that_the_origin_refuses_is_read_again(world, start):
    """Nobody tells when a command would print something new, but the origin does: 401 has the vault ask again."""
    printed = world.elsewhere / "printed"
    printed.write_text(FILE_ONE)
    world.credentials({"name": "cmd", "env": "CMD_TOKEN", "source": f"exec:cat {printed}", "refresh": "1h"})

    def answer(request):
        return (b"HTTP/1.1 200 OK" if FILE_TWO.encode() in request else b"HTTP/1.1 401 No") + b"\r\nContent-Length: 0\r\n\r\n"
    world.origin.answer = answer
    script = ('for i in $(seq 300); do curl -fsS -o /dev/null -H "Authorization: Bearer $CMD_TOKEN" ' + world.url() +
              ' 2>/dev/null && exit 0; touch begun; sleep 0.2; done; exit 7')
    child = start(world.words("sh", "-c", script), cwd=world.workspace)
    wait_for(world.workspace / "begun", child)
    printed.write_text(FILE_TWO)
    assert child.wait(100).status == 0, child.errors()
    assert FILE_ONE in world.seen()[0] and FILE_TWO in world.seen()[-1]


def test_without_the_vault_credentials_are_refused_and_others_go_on(world, start):
    world.credentials(ENV)
    script = (f'echo > started; n=0; while [ ! -e stop ]; do n=$((n + 1)); '
              f'a=$(curl -sS -o /dev/null -w "%{{http_code}}" -H "Authorization: Bearer $OWN_TOKEN" {world.url()} 2>/dev/null); '
              f'b=$(curl -sS -o /dev/null -w "%{{http_code}}" --cacert root.pem {world.url("plain.ok.test")} 2>/dev/null); '
              f'echo "$a $b" >> codes; done')
    (world.workspace / "root.pem").write_bytes(world.authority.file.read_bytes())
    child = start(world.words("sh", "-c", script), cwd=world.workspace, env={"OWN_TOKEN": REAL})
    world.wait_seen(REAL)
    vaults = [pid for pid in descendants(child.pid) if name_of(pid) == "bailey-vault"]
    assert len(vaults) == 1
    codes = world.workspace / "codes"
    for _ in range(2):
        os.kill([pid for pid in descendants(child.pid) if name_of(pid) == "bailey-vault"][0], signal.SIGKILL)
        before = len(world.seen())
        deadline = time.monotonic() + 60
        while len(world.seen()) < before + 3 or not [p for p in descendants(child.pid) if name_of(p) == "bailey-vault"]:
            assert time.monotonic() < deadline and child.running(), child.errors() + codes.read_text()
            time.sleep(0.02)
    (world.workspace / "stop").write_text("")
    result = child.wait(60)
    rows = [line.split() for line in codes.read_text().splitlines()]
    assert all(row[0] in ("200", "503", "000", "502") for row in rows), rows
    assert all(row[1] == "200" for row in rows), "what needs no credential goes on"
    assert rows[-1][0] == "200" and "the vault died" in result.errors and "the vault is back" in result.errors, result
    assert all(value == f"Bearer {REAL}" for value in world.seen()), "a stand-in never leaves"


def readable_parts(pid):
    base = pathlib.Path(f"/proc/{pid}")
    for part in ("environ", "cmdline", "status", "maps", "stack", "auxv"):
        try:
            yield part, (base / part).read_bytes()
        except OSError:
            pass
    try:
        maps = (base / "maps").read_text().splitlines()
        memory = (base / "mem").open("rb", 0)
    except OSError:
        return
    with memory:
        for line in maps:
            fields = line.split()
            if "r" not in fields[1] or "[v" in line:
                continue
            first, last = (int(x, 16) for x in fields[0].split("-"))
            try:
                memory.seek(first)
                yield f"mem {fields[0]}", memory.read(min(last - first, 64 << 20))
            except (OSError, ValueError, OverflowError):
                pass


@pytest.mark.user
def test_no_process_shows_the_secret_to_its_user(world, start):
    """What the owner of the processes can read of them: nothing of the vault and the gateway, and no secret elsewhere but in
    the supervisor, which was started with it."""
    world.credentials(ENV, {"name": "file", "env": "GITHUB_TOKEN", "source": f"file:{world.token}"})
    script = f'curl -sS -o /dev/null -H "Authorization: Bearer $OWN_TOKEN" {world.url()}; echo > started; while [ ! -e stop ]; do sleep 0.05; done'
    child = start(world.words("sh", "-c", script), cwd=world.workspace, env={"OWN_TOKEN": REAL})
    wait_for(world.workspace / "started", child)
    names = {}
    for pid in descendants(child.pid):
        names[name_of(pid)] = pid
        for part, content in readable_parts(pid):
            assert REAL.encode() not in content and FILE_ONE.encode() not in content, (name_of(pid), part)
    assert {"bailey-vault", "bailey-gateway", "vault-reader"} <= set(names), names
    for name in ("bailey-vault", "vault-reader", "bailey-gateway"):
        with pytest.raises(PermissionError):
            pathlib.Path(f"/proc/{names[name]}/environ").read_bytes()
    (world.workspace / "stop").write_text("")
    child.wait(60)


def test_inside_nothing_holds_the_secret(world, run):
    """Environment, files, every process and every mapping that can be read in there."""
    world.credentials(ENV, {"name": "file", "env": "GITHUB_TOKEN", "source": f"file:{world.token}"})
    half = len(REAL) // 2
    script = (
        f"import os, pathlib\nreal = b'{REAL[:half]}' + b'{REAL[half:]}'\nfound, read = [], 0\n"
        "for base in pathlib.Path('/proc').glob('[0-9]*'):\n"
        "    for part in ('environ', 'cmdline', 'mem', 'fd'):\n"
        "        try:\n"
        "            if part == 'fd':\n"
        "                parts = [p.read_bytes() for p in (base / 'fd').iterdir() if p.is_file()]\n"
        "            else:\n"
        "                parts = [(base / part).read_bytes()]\n"
        "        except OSError:\n"
        "            continue\n"
        "        read += 1\n"
        "        found += [str(base / part) for p in parts if real in p and base.name != str(os.getpid())]\n"
        "print('read', read > 0, 'found', found)\n")
    (world.workspace / "look.py").write_text(script.replace(REAL, ""))
    result = run(world.words("python3", "look.py"), cwd=world.workspace, env={"OWN_TOKEN": REAL}, timeout=60)
    assert result.text.strip() == "read True found []", result


def code_kib(pid):
    """Of files that are mapped: the program and its libraries."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssFile"))


def test_at_rest_memory_is_given_back(world, start):
    """After each burst of work, not only after the first; and the next request is answered as ever. The vault has nothing to do in the second."""
    world.credentials(ENV)
    ask = f'curl -sS -o /dev/null -w "%{{http_code}}\\n" -H "Authorization: Bearer $OWN_TOKEN" {world.url()}'
    burst = f"for i in 1 2 3 4 5 6; do {ask}; done; touch asked$n; sleep 5"
    child = start(world.words("sh", "-c", f"for n in 1 2; do {burst}; done"), env={"OWN_TOKEN": REAL})
    most = {}  # of both bursts: what the second needs again may be little
    for n, names in enumerate((("bailey-gateway", "bailey-vault", "bailey-broker"), ("bailey-gateway", "bailey-broker")), 1):
        rested = set()
        while child.running() and rested != set(names):
            for pid in descendants(child.pid):
                with contextlib.suppress(OSError, StopIteration):  # it ends meanwhile
                    name, kib = name_of(pid), code_kib(pid)
                    most[name] = max(kib, most.get(name, 0))
                    if name in names and kib < 0.75 * most[name] and (world.workspace / f"asked{n}").exists():
                        rested.add(name)
            time.sleep(0.02)
        assert rested == set(names), (n, most, child.errors())
    result = child.wait(60).check()
    assert result.text.split() == ["200"] * 12, result


def test_collisions_and_doubles_are_told(world, run):
    world.credentials(ENV, {**ENV, "name": "second"})
    result = run(world.words("true"), env={"OWN_TOKEN": REAL})
    assert result.status != 0 and "both be in the variable OWN_TOKEN" in result.errors
    world.credentials(ENV)
    words = world.words("true")
    words[2:2] = ["--env", "OWN_TOKEN=mine"]
    result = run(words, env={"OWN_TOKEN": REAL})
    assert result.status != 0 and "OWN_TOKEN" in result.errors and "stand-in" in result.errors, result


def test_the_plan_and_the_policy_show_it_without_starting_anything(world, run):
    world.credentials({"name": "slow", "env": "SLOW", "source": "exec:sleep 600"})
    words = [word for word in world.words("true")]
    shown = run(["bailey", "policy", "show", "--policy", world.policy], timeout=20)
    assert "slow: a stand-in in SLOW" in shown.text and f"api.ok.test:{world.origin.port}" in shown.text, shown
    plan = run(["bailey", "plan", "--policy", world.policy, "--workspace", world.workspace, "--", "true"], timeout=20)
    assert plan.status == 0 and "ca-bundle.pem" in plan.text, plan
    assert words


def test_secrets_list_and_test(world, run):
    """The proof goes through a vault and a gateway; it shows no value, and it says no when there is nothing to swap."""
    world.credentials(ENV, {"name": "exec", "env": "EXEC_TOKEN", "slot": "header:x-api-key", "source": f"exec:printf %s {EXEC}"},
                      {"name": "basic", "env": "BASIC", "slot": "basic", "source": f"file:{world.token}"},
                      {"name": "signed", "env": "AWS_SECRET_ACCESS_KEY", "slot": "sigv4", "source": "env:AWS_SECRET_ACCESS_KEY"},
                      {"name": "broken", "env": "BROKEN", "source": "exec:exit 4"})
    env = {"OWN_TOKEN": REAL, "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLE1"}
    listed = run(["bailey", "secrets", "list", "--policy", world.policy], env=env)
    assert listed.status == 0 and "exec:printf ..." in listed.text and EXEC not in listed.text, listed
    for name in ("own", "exec", "basic", "signed"):
        proved = run(["bailey", "secrets", "test", "--json", "--policy", world.policy, name], env=env, timeout=90)
        said = json.loads(proved.text)
        assert proved.status == 0 and said["swapped"] and said["hidden"] and not said["why"], proved
        for real in (REAL, EXEC, FILE_ONE, env["AWS_SECRET_ACCESS_KEY"]):
            assert real not in proved.text + proved.errors
    failed = run(["bailey", "secrets", "test", "--policy", world.policy, "broken"], env=env, timeout=90)
    assert failed.status not in (0, 1) and "credential 'broken'" in failed.errors, failed
    unknown = run(["bailey", "secrets", "test", "--policy", world.policy, "owm"], env=env)
    assert unknown.status == 4 and "own" in unknown.errors, unknown


def test_the_gateway_alone_with_credentials(world, start, environment):
    """It says what clients are to trust and to hold; the credentials are read before it accepts."""
    world.credentials(ENV)
    child = start(["bailey", "gateway", "--policy", world.policy, "--no-workspace-policy", "--hosts", world.hosts, "--ca-bundle",
                   world.authority.file, "--audit", world.audit, "--http", "127.0.0.1:0", "--json"], env={"OWN_TOKEN": REAL})
    deadline = time.monotonic() + 60
    while b"\n" not in child.output():
        assert child.running() and time.monotonic() < deadline, child.errors()
        time.sleep(0.02)
    ready = json.loads(child.output())
    fake = ready["env"]["OWN_TOKEN"]
    assert fake != REAL and len(fake) == len(REAL)
    trusted = pathlib.Path(ready["ca_bundle"]).read_text()  # the system's, those of --ca-bundle, Bailey's own
    system = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
    assert world.authority.file.read_text().strip() in trusted
    assert trusted.count("BEGIN CERT") == 2 + (system.read_text().count("BEGIN CERT") if system.exists() else 0)
    client = start(["curl", "-sS", "-x", f"http://{ready['http'][0]}", "--cacert", ready["ca_bundle"], "-H",
                    f"Authorization: Bearer {fake}", world.url()]).wait(60)
    assert client.text == "origin\n" and world.seen() == [f"Bearer {REAL}"], client
    child.signal(signal.SIGTERM)
    assert child.wait(30).status == 0
    assert REAL.encode() not in world.audit.read_bytes() + child.output() + child.errors().encode()
