# SPDX-License-Identifier: Apache-2.0
"""bailey egress: the gateway in the background. Each property that it promises has a test that is named after it."""
import json
import os
import pathlib
import shlex
import signal
import socket
import ssl
import stat
import subprocess

import pytest

from conftest import program
from kit.gateway import Client
from kit.process import gone, open_files, wait_until

KEY, ROTATED = "sk-live-Zq8Yt3KpXw5Nn7Bb2Vv4", "sk-live-Mm1Nn2Oo3Pp4Qq5Rr6Ss7"
HOST = "api.ok.test"


class Egress:
    def __init__(self, bailey, home):
        self.call, self.place = bailey, home / ".local/state/bailey/egress"
        self.env = {"OPENAI_API_KEY": KEY}

    def __call__(self, *words, status=0, **env):
        return self.call("egress", *words, env={**self.env, **env}).check(status)

    def setup(self, *words, status=0, **env):
        done = self("setup", "--yes", *words, status=status, **env)
        if status == 0:
            self("config", "port=0", "bridge=none")
        return done

    def status(self, *words, status=0, **env):
        return json.loads(self("status", "--json", *words, status=status, **env).out)

    def tokens(self):
        return json.loads((self.place / "tokens.json").read_text())

    def settings(self):
        return json.loads((self.place / "settings.json").read_text())

    def pid(self):
        return int((self.place / "service.pid").read_text().split()[0])

    def close(self):
        self.call("egress", "stop", env=self.env, timeout=60)


@pytest.fixture
def egress(bailey, home, closing):
    return closing(Egress(bailey, home))


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def test_state_dir_is_0700_and_files_are_0600(egress):
    """Also when the umask is open and the directory was there before, open to all."""
    egress.place.mkdir(parents=True, mode=0o777)
    egress.place.chmod(0o777)
    previous = os.umask(0)
    try:
        egress.setup()
        egress("start")
    finally:
        os.umask(previous)
    assert mode(egress.place) == 0o700
    modes = {path.name: mode(path) for path in egress.place.iterdir()}
    public = {"ca.crt": 0o644, "ca-bundle.pem": 0o444, "ca-bundle.jks": 0o444}
    for name in ("ca.key", "settings.json", "policy.yaml", "tokens.json", "service.pid", "service.log", "service.json", "audit.jsonl"):
        assert modes[name] == 0o600, name
    assert {name: bits for name, bits in modes.items() if bits != 0o600} == public
    assert not [path for path in egress.place.rglob("*") if KEY.encode() in path.read_bytes()]


def test_ca_key_is_kept_and_written_through_no_link(egress, tmp_path):
    egress.setup()
    before = (egress.place / "ca.key").read_bytes(), (egress.place / "ca.crt").read_bytes()
    egress.setup("--rotate-tokens")
    assert before == ((egress.place / "ca.key").read_bytes(), (egress.place / "ca.crt").read_bytes())
    victim = tmp_path / "victim"
    for name in ("settings.json", "tokens.json", "ca.key"):
        there = (egress.place / name).read_bytes()
        (egress.place / name).unlink()
        (egress.place / name).symlink_to(victim)
        egress("setup", "--yes", status=7 if name != "settings.json" else 3)
        assert not victim.exists()
        (egress.place / name).unlink()
        (egress.place / name).write_bytes(there)
        (egress.place / name).chmod(0o600)
    egress("status", status=1)


def test_start_is_idempotent_and_ready_means_listening(egress):
    egress("start", status=4)  # not set up
    egress("status", status=1)
    egress.setup()
    assert "started" in egress("start").text
    first = egress.status()
    host, port = first["http"][0].split(":")
    assert host == "127.0.0.1" and first["running"]
    subprocess.run(["/usr/bin/python3", "-c", f"import socket; socket.create_connection(('127.0.0.1', {port}), 20)"], check=True)
    assert "already" in egress("start").text
    assert egress.status()["pid"] == first["pid"] == egress.pid()
    egress("restart")
    assert gone(first["pid"]) and egress.pid() != first["pid"]
    last = egress.pid()
    assert "stopped" in egress("stop").text and gone(last)
    assert "does not run" in egress("stop").text
    assert not list(egress.place.glob("service.pid")) and not list(egress.place.glob("service.json"))


def test_concurrent_starts_make_one_service(egress, start):
    egress.setup()
    children = [start(["bailey", "egress", "start"], env=egress.env) for _ in range(4)]
    results = [child.wait(60) for child in children]
    assert any(r.status == 0 for r in results)
    pid = egress.status()["pid"]
    assert all(r.status == 0 or b"already" in r.err for r in results), [str(r) for r in results]
    egress("stop")
    assert gone(pid)


def test_failed_start_shows_the_log_and_leaves_nothing(egress):
    egress.setup()
    (egress.place / "audit.jsonl").write_text("this is no audit log\n")
    failed = egress("start", status=7)
    assert "log:" in failed.errors and "audit" in failed.errors
    assert not list(egress.place.glob("service.*i*d")) and not (egress.place / "service.json").exists()
    egress("status", status=1)


def test_ensure_audit_log_raises(egress):
    """Where no audit can be written nothing is set up, and nothing starts."""
    egress.place.mkdir(parents=True, mode=0o700)
    (egress.place / "audit.jsonl").mkdir()
    assert "audit" in egress.setup(status=7).errors
    assert not (egress.place / "settings.json").exists()


def test_stop_suppresses_sigkill_on_pid_recycle(egress):
    """A file that names a process which is not ours: neither stop, reload nor start touch it."""
    egress.setup()
    with subprocess.Popen(["sleep", "600"]) as other:
        started = pathlib.Path(f"/proc/{other.pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        try:
            for text in (f"{other.pid} {started} {boot} a-nonce-it-does-not-have\n", f"{other.pid} 1 {boot} sleep600\n", f"{other.pid}\n",
                         f"{other.pid} {started} {boot} 600\n", "-1 1 x yyyyyyyy\n", "nonsense", ""):
                path = egress.place / "service.pid"
                path.write_text(text)
                path.chmod(0o600)
                egress("status", status=1)
                egress("reload", status=4)
                path.write_text(text)
                path.chmod(0o600)
                assert "does not run" in egress("stop").text
                assert other.poll() is None and not path.exists()
            path.write_text(f"{other.pid} {started} {boot} a-nonce-it-does-not-have\n")
            path.chmod(0o600)
            egress("start")  # a file of before is no obstacle
            assert other.poll() is None and egress.pid() != other.pid
        finally:
            other.kill()


def test_a_service_that_was_killed_is_replaced(egress):
    egress.setup()
    egress("start")
    old = egress.pid()
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: gone(old), what="the end of the service")
    egress("status", status=1)
    egress("start")
    assert egress.status()["pid"] != old


def test_subprocess_env_strips_unrelated_secrets(egress):
    """Seen from outside: by root in /proc, by others through a command that fetches a secret."""
    egress.setup()
    settings = egress.settings()
    seen = egress.place / "seen"
    settings["credentials"].append({"name": "own", "env": "OWN_TOKEN", "hosts": [HOST], "slot": "bearer",
                                    "source": f"exec:env > {seen}; echo own-{KEY}"})
    (egress.place / "settings.json").write_text(json.dumps(settings))
    extra = {"GITHUB_TOKEN": "ghp_unrelated", "DB_PASSWORD": "unrelated", "LD_PRELOAD": "", "HTTPS_PROXY": "http://127.0.0.1:1",
             "http_proxy": "http://127.0.0.1:1", "ALL_PROXY": "socks5://127.0.0.1:1", "BWS_ACCESS_TOKEN": "unrelated"}
    egress("start", **extra)
    inherited = seen.read_text()
    assert "PATH=" in inherited and "HOME=" in inherited  # infrastructure stays
    assert not any(word in inherited for word in ("unrelated", "PROXY", "_proxy", "OPENAI"))
    if os.geteuid() == 0:
        environ = pathlib.Path(f"/proc/{egress.pid()}/environ").read_bytes()
        assert b"OPENAI_API_KEY=" in environ
        assert not any(word in environ for word in (b"unrelated", b"PROXY", b"_proxy"))
    fds = open_files(egress.pid()) if os.geteuid() == 0 else []
    assert not any("/pytest-" in f and "egress" not in f for f in fds)


def test_default_bind_is_loopback_not_zero_zero(egress):
    egress.setup()
    egress("start")
    assert [a.rsplit(":", 1)[0] for a in egress.status()["http"]] == ["127.0.0.1"]
    port = f"{int(egress.status()['http'][0].rsplit(':', 1)[1]):04X}"
    rows = [line.split()[1] for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"]
    assert [row for row in rows if row.endswith(":" + port)] == ["0100007F:" + port]


@pytest.mark.parametrize("text", ["0.0.0.0", "::", "127.0.0.1", "8.8.8.8", "224.0.0.1", "169.254.169.254", "10.0.0.1; rm -rf /",
                                  "0x0a000001", "10.1.2.3", "docker0", "", "255.255.255.255"])
def test_detect_docker_bridge_ip_rejects_dangerous(egress, text):
    egress.setup()
    before = egress.settings()
    assert "bridge" in egress("config", f"bridge={text}", status=3).errors
    assert egress.settings() == before


def test_tokens_are_preserved_on_setup_and_rotated_on_demand(egress):
    egress.setup()
    first = egress.tokens()["openai"][0]
    assert first != KEY and len(first) == len(KEY) and first.startswith("sk-")
    egress.setup(GROQ_API_KEY="gsk_AbCdEfGhIjKlMnOp1234")
    both = egress.tokens()
    assert both["openai"][0] == first and both["groq"][0].startswith("gsk_")
    egress.setup("--rotate-tokens", GROQ_API_KEY="gsk_AbCdEfGhIjKlMnOp1234")
    assert egress.tokens()["openai"][0] != first and egress.tokens()["groq"] != both["groq"]
    # Those of before are kept behind the four parts, so that they are recognised and refused; nobody is shown them.
    assert egress.tokens()["openai"][4:] == [first]
    assert first not in egress("status", "--json", "--show-tokens", status=1).text
    shown = egress("status", "--json", status=1).text
    assert egress.tokens()["openai"][0] not in shown and KEY not in shown
    assert egress.tokens()["openai"][0] in egress("status", "--json", "--show-tokens", status=1).text


def test_a_rotation_counts_after_a_restart_and_says_so(egress):
    """A service that runs swaps what it was started with: setup and reload say that, and only the restart changes it."""
    egress.setup()
    egress("start")
    try:
        said = egress("setup", "--yes", "--rotate-tokens").errors
        assert "restart" in said and "egress start" not in said, said
        told = egress("reload").errors
        assert "stand-ins were made anew" in told and "restart" in told, told
        egress("setup", "--yes", "--rotate-tokens")  # once more: the first new one was never in use
        assert "stand-ins were made anew" in egress("reload").errors
        egress("restart")
        assert "anew" not in egress("reload").errors
        said = egress("setup", "--yes").errors  # nothing was made anew
        assert "anew" not in egress("reload").errors, said
    finally:
        egress("stop")
    said = egress("setup", "--yes", "--rotate-tokens").errors
    assert "egress start" in said and "restart" not in said, said
    egress("start")
    try:
        assert "anew" not in egress("reload").errors
    finally:
        egress("stop")


def bws(home, secrets, name="bws"):
    """A bws that knows these secrets."""
    directory = home / "bin"
    directory.mkdir(exist_ok=True)
    rows = [{"id": str(i), "key": key, "value": value} for i, (key, value) in enumerate(secrets.items())]
    (directory / name).write_text(f"#!/bin/sh\n[ \"$BWS_ACCESS_TOKEN\" = machine ] || exit 1\ncat <<'E'\n{json.dumps(rows)}\nE\n")
    (directory / name).chmod(0o755)
    return {"PATH": f"{directory}:/usr/bin:/bin", "BWS_ACCESS_TOKEN": "machine"}


def test_credential_source_is_never_downgraded(egress, home):
    env = bws(home, {"OPENAI_API_KEY": ROTATED, "GROQ_API_KEY": "gsk_AbCdEfGhIjKlMnOp1234", "OTHER": "x"})
    egress.setup()
    token = egress.tokens()["openai"]
    egress.setup("--from-bitwarden", "--no-bitwarden", status=2)
    egress.setup("--from-bitwarden", "--project=p1", **env)
    source = {c["provider"]: c["source"] for c in egress.settings()["credentials"]}
    assert source == {"openai": "bws:p1/OPENAI_API_KEY", "groq": "bws:p1/GROQ_API_KEY"} and egress.tokens()["openai"] == token
    assert ROTATED not in (egress.place / "settings.json").read_text()
    egress.setup(**env)  # says nothing about it: stays
    assert egress.settings()["credential_source"] == "bitwarden"
    assert {c["provider"]: c["source"] for c in egress.settings()["credentials"]} == source
    egress.setup(status=3)  # without the token: refused, not read from the environment
    assert {c["provider"]: c["source"] for c in egress.settings()["credentials"]} == source
    egress.setup("--no-bitwarden", GROQ_API_KEY="gsk_AbCdEfGhIjKlMnOp1234")
    assert egress.settings()["credential_source"] == "env"
    assert [c["source"] for c in egress.settings()["credentials"]] == ["env:OPENAI_API_KEY", "env:GROQ_API_KEY"]


def test_start_refuses_when_bitwarden_token_missing(egress, home):
    env = bws(home, {"OPENAI_API_KEY": ROTATED})
    egress.setup("--from-bitwarden", "--project=p1", **env)
    assert "BWS_ACCESS_TOKEN" in egress("start", status=5).errors
    bws(home, {"OTHER": "x"})
    assert "bws lists no secret of this name" in egress("start", status=7, **env).errors  # no fallback by itself
    egress("config", "allow_env_fallback=true")
    assert "environment's OPENAI_API_KEY is used" in egress("start", **env).errors
    assert egress.settings()["credentials"][0]["source"] == "bws:p1/OPENAI_API_KEY"  # this start only
    egress("stop")
    bws(home, {"OPENAI_API_KEY": ROTATED})
    assert "is used" not in egress("start", **env).errors


def test_the_variable_of_bitwardens_token(egress, home):
    env = bws(home, {"OPENAI_API_KEY": ROTATED})
    env["MACHINE_TOKEN"] = env.pop("BWS_ACCESS_TOKEN")
    egress.setup("--from-bitwarden", "--project=p1", status=3, **env)
    egress.setup("--from-bitwarden", "--project=p1", "--token-env=1x", status=3, **env)
    egress.setup("--from-bitwarden", "--project=p1", "--token-env=MACHINE_TOKEN", BWS_ACCESS_TOKEN="another", **env)
    assert egress.settings()["bitwarden_token_env"] == "MACHINE_TOKEN" and "machine" not in (egress.place / "settings.json").read_text()
    errors = egress("start", status=5, PATH=env["PATH"], BWS_ACCESS_TOKEN="machine").errors
    assert "MACHINE_TOKEN is not set" in errors, errors
    egress("start", **env)
    egress("stop")


def test_start_refuses_when_bitwarden_project_missing(egress, home):
    env = bws(home, {"OPENAI_API_KEY": ROTATED})
    assert "--project" in egress.setup("--from-bitwarden", status=3, **env).errors and not (egress.place / "settings.json").exists()
    egress.setup("--from-bitwarden", "--project=p1", **env)
    egress("config", "bitwarden_project=null")
    assert "bitwarden_project" in egress("start", status=5, **env).errors
    egress("config", "bitwarden_project=p1")
    egress("start", **env)


def test_fail_on_uncovered_providers(egress):
    assert "COHERE_API_KEY" in egress.setup(COHERE_API_KEY="x").errors
    egress("config", "fail_on_uncovered_providers=true")
    refused = egress("start", status=5, COHERE_API_KEY="x").errors
    assert "COHERE_API_KEY" in refused and "fail_on_uncovered_providers" in refused
    egress("start", AZURE_CLIENT_SECRET="x")  # not of a provider of models: a warning


def test_config_is_checked_whole_before_it_is_written(egress):
    egress.setup()
    before = (egress.place / "settings.json").read_bytes(), (egress.place / "policy.yaml").read_bytes()
    for words in (["extra_allowed_hosts=http://x/"], ["deny_cidrs=10.0.0.0/99"], ["port=65536"], ["enforce_on_docker=maybe"],
                  ["no_such=1"], ["port=1", "nonsense"], ["ca_bundle=relative"], ["credentials=x"]):
        egress("config", *words, status=3)
        assert before == ((egress.place / "settings.json").read_bytes(), (egress.place / "policy.yaml").read_bytes())
    assert "did you mean 'port'" in egress("config", "prot=1", status=3).errors
    egress("config", "extra_allowed_hosts=a.test, *.b.test:8443", "deny_cidrs=null")
    assert egress.settings()["extra_allowed_hosts"] == ["a.test", "*.b.test:8443"] and egress.settings()["deny_cidrs"] is None


def test_default_deny_includes_ipv4_mapped_v6(egress):
    """Although every address is allowed by name of network: private, link-local, metadata, shared and benchmark ranges stay closed,
    in every way to write them."""
    egress.setup()
    egress("config", "extra_allowed_hosts=0.0.0.0/0,::/0")
    egress("start")
    inside = ["127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "198.18.0.1"]
    for address in [*inside, *(f"[::ffff:{a}]" for a in inside), "[::1]", "[fd00::1]", "[fe80::1]", "[fd00:ec2::254]", "[64:ff9b::10.0.0.1]"]:
        assert reach(egress, 80, address) == 403, address


def test_disable_stops_and_stays_stopped(egress):
    egress.setup()
    egress("start")
    pid = egress.pid()
    egress("disable")
    assert gone(pid) and "disabled" in egress("start", status=5).errors
    egress.setup()
    egress("start")


def test_a_credential_can_be_taken_out(egress):
    egress.setup(GROQ_API_KEY="gsk_AbCdEfGhIjKlMnOp1234")
    refused = egress.setup(status=7).errors  # its variable is gone
    assert "GROQ_API_KEY is not set" in refused and "--without" in refused
    egress.setup("--without", "groq", GROQ_API_KEY="gsk_AbCdEfGhIjKlMnOp1234")
    assert [c["provider"] for c in egress.settings()["credentials"]] == ["openai"]
    assert "no credential nothing" in egress.setup("--without=nothing", status=3).errors


def test_setup_asks_on_a_terminal(egress, environment):
    assert "--yes" in egress("setup", status=2).errors
    env = {**environment, **egress.env, "GROQ_API_KEY": "gsk_AbCdEfGhIjKlMnOp1234"}
    words = ["script", "-qec", f"{program('bailey')} egress setup", "/dev/null"]
    done = subprocess.run(words, env=env, input=b"n\ny\n", stdout=subprocess.PIPE, timeout=60, check=True)
    assert b"Groq" in done.stdout and b"OpenAI" in done.stdout
    assert [c["provider"] for c in egress.settings()["credentials"]] == ["openai"]


@pytest.fixture
def origin_behind(egress, tmp_path, authority, make_origin):
    """An egress with a credential for a TLS origin of the test's."""
    origin = make_origin(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", tls=authority.context(HOST, "other.ok.test"))
    (tmp_path / "hosts").write_text(f"127.0.0.1 {HOST} other.ok.test\n")
    egress.setup()
    egress("config", f"hosts={tmp_path / 'hosts'}", f"ca_bundle={authority.file}", f"allow_private=127.0.0.1:{origin.port}")
    settings = egress.settings()
    settings["credentials"] = [{"name": "own", "env": "OWN_KEY", "source": f"file:{tmp_path / 'key'}", "hosts": [f"{HOST}:{origin.port}"],
                                "slot": "bearer"}]
    (tmp_path / "key").write_text(KEY)
    (egress.place / "settings.json").write_text(json.dumps(settings))
    return origin


def tunnel(egress, port, host=HOST):
    """Status of a CONNECT, and the connection."""
    address = egress.status()["http"][0].split(":")
    sock = socket.create_connection((address[0], int(address[1])), 20)
    sock.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    return Client(sock).answer(head=True)[0], sock


def ask(egress, port, token, host=HOST):
    status, sock = tunnel(egress, port, host)
    assert status == 200
    with ssl.create_default_context(cafile=egress.place / "ca.crt").wrap_socket(sock, server_hostname=host) as tls:
        tls.sendall(f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        return Client(tls).answer()[0]


def reach(egress, port, host):
    status, sock = tunnel(egress, port, host)
    sock.close()
    return status


def test_token_swap_end_to_end(egress, origin_behind, tmp_path):
    """The origin sees the secret; the client has the stand-in, also over a restart; other hosts are refused until reload."""
    egress("start")
    token = egress.tokens()["own"][0]
    assert ask(egress, origin_behind.port, token) == 200
    assert f"Authorization: Bearer {KEY}".encode() in origin_behind.requests()[-1]
    assert reach(egress, origin_behind.port, "other.ok.test") == 403
    egress("restart")
    assert egress.tokens()["own"][0] == token and ask(egress, origin_behind.port, token) == 200
    (tmp_path / "key").write_text(ROTATED)
    wait_until(lambda: ask(egress, origin_behind.port, token) == 200 and ROTATED.encode() in origin_behind.requests()[-1],
               what="the new secret")
    egress("config", "extra_allowed_hosts=other.ok.test")
    assert egress("reload").out == b"reloaded\n"
    assert reach(egress, origin_behind.port, "other.ok.test") == 200
    egress("stop")
    for path in egress.place.iterdir():
        assert KEY.encode() not in path.read_bytes() and ROTATED.encode() not in path.read_bytes(), path.name


def test_reload_is_answered_and_takes_other_credentials(egress, origin_behind, tmp_path):
    """What has changed is said when it counts; a new credential and a new host need no restart; what is wrong changes nothing."""
    port = origin_behind.port
    egress("start")
    pid, token = egress.pid(), egress.tokens()["own"][0]
    assert "no rule has changed" in egress("reload").errors
    settings = egress.settings()
    (tmp_path / "second").write_text(ROTATED)
    second = {"name": "second", "env": "SECOND_KEY", "source": f"file:{tmp_path / 'second'}", "hosts": [f"other.ok.test:{port}"], "slot": "bearer"}
    save = lambda credentials: (egress.place / "settings.json").write_text(json.dumps({**settings, "credentials": credentials}))
    save([*settings["credentials"], second])
    assert "credential second: new" in egress("reload").errors
    assert egress.pid() == pid and egress.tokens()["own"][0] == token and ask(egress, port, token) == 200
    assert ask(egress, port, egress.tokens()["second"][0], "other.ok.test") == 200 and ROTATED.encode() in origin_behind.requests()[-1]
    assert {c["name"] for c in egress.status()["credentials"]} == {"own", "second"}

    for broken, says in (([*settings["credentials"], {**second, "source": f"file:{tmp_path / 'none'}"}], "none"),
                         ([*settings["credentials"], {**second, "slot": "pocket"}], "pocket")):
        save(broken)
        refused = egress("reload", status=3)
        assert "stays as it was" in refused.errors and says in refused.errors
        assert ask(egress, port, token) == 200 and ask(egress, port, egress.tokens()["second"][0], "other.ok.test") == 200
    (egress.place / "settings.json").write_text("{")
    assert "stays as it was" in egress("reload", status=3).errors
    save(settings["credentials"])
    assert "credential second: removed" in egress("reload").errors
    assert reach(egress, port, "other.ok.test") == 403 and ask(egress, port, token) == 200
    egress("config", "port=1")
    assert "restart" in egress("reload").errors
    egress("stop")
    assert egress("reload", status=4)


NETWORK = {"Name": "bailey-egress", "Id": "0123456789abcdef0123", "Driver": "bridge", "Internal": True,
           "IPAM": {"Config": [{"Subnet": "10.88.7.0/24", "Gateway": "10.88.7.1"}]}, "Options": {"com.docker.network.bridge.name": "bailey0"}}


def say_network(home, network):
    """What the engine says about its network."""
    engine = home / "bin/docker"
    engine.parent.mkdir(exist_ok=True)
    (home / "network.json").write_text(json.dumps([network]))
    engine.write_text(f'#!/bin/sh\n[ "$1 $2 $3" = "network inspect bailey-egress" ] && exec cat {home}/network.json\nexit 1\n')
    engine.chmod(0o755)


@pytest.fixture
def bridged(make_namespace, environment, home, closing):
    """An egress in a network namespace that has the bridge of a container network, and an engine that knows about it."""
    say_network(home, NETWORK)
    environment = {**environment, "PATH": f"{home}/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    space = make_namespace()
    space.run(["mount", "-t", "sysfs", "sysfs", "/sys"]).check()
    for words in ("link add bailey0 type bridge", "addr add 10.88.7.1/24 dev bailey0", "link set bailey0 up"):
        space.run(["ip", *words.split()]).check()

    def call(*words, env=None, timeout=60):
        return space.run([program("bailey"), *words], env={**environment, **(env or {})}, timeout=timeout)
    return closing(Egress(call, home))


def test_docker_args(bridged):
    """Network, CA, variables and stand-ins; the whole survives a shell; the bridge's address was found and is private."""
    bridged("setup", "--yes")
    bridged("config", "port=0")
    bridged("docker-args", status=4)
    bridged("start")
    listeners = bridged.status()["http"]
    assert [a.rsplit(":", 1)[0] for a in listeners] == ["127.0.0.1", "10.88.7.1"]
    lines = bridged("docker-args", "--lines").text.splitlines()
    assert shlex.split(bridged("docker-args").text) == lines
    assert "--network=bailey-egress" in lines and "--dns=10.88.7.1" in lines
    env = dict(line.removeprefix("--env=").split("=", 1) for line in lines if line.startswith("--env="))
    assert env["HTTPS_PROXY"] == env["http_proxy"] == f"http://{listeners[1]}"
    assert env["OPENAI_API_KEY"] == bridged.tokens()["openai"][0] != KEY and KEY not in str(lines)
    assert "10.0.0.0" not in env["NO_PROXY"] and "127.0.0.1" in env["NO_PROXY"]
    volume = next(line for line in lines if env["SSL_CERT_FILE"] in line and line.startswith("--volume="))
    source = pathlib.Path(volume.removeprefix("--volume=").split(":")[0])
    assert volume.endswith(":ro") and (bridged.place / "ca.crt").read_text() in source.read_text()


@pytest.mark.parametrize("change, says", [({"Internal": False}, "--internal"), ({"Driver": "macvlan"}, "no bridge"), (None, "no engine has"),
                                          ({"IPAM": {"Config": [{"Subnet": "10.88.9.0/24", "Gateway": "10.88.9.1"}]}}, "restart")])
def test_the_network_is_inspected_not_its_name(bridged, home, change, says):
    """A bridge of the right name, made by a network that has a way out, is refused; also after the start."""
    bridged("setup", "--yes")
    bridged("config", "port=0")
    bridged("start")
    bridged("docker-args")
    if change is None:
        (home / "bin/docker").unlink()
    else:
        say_network(home, {**NETWORK, **change})
    refused = bridged("docker-args", status=5)
    assert refused.out == b"" and says in refused.errors
    bridged("config", "enforce_on_docker=false")
    assert says in bridged("docker-args").errors


def test_options_of_node_and_java_are_appended_to(bridged, home):
    bridged("setup", "--yes")
    bridged("config", "port=0")
    bridged("start")
    wanted = "NODE_OPTIONS=--max-old-space-size=100"
    (home / "env").write_text(f"# ours\nA=b\nNODE_OPTIONS=--inspect\n{wanted}\n")
    (home / "other").write_text("NODE_OPTIONS=--inspect\n")
    for words in (["-e", wanted], [f"--env={wanted}"], ["--env", wanted], [f"-e{wanted}"], [f"-e={wanted}"], ["-ite", wanted], ["--rm", f"-ie{wanted}"],
                  ["-e", "NODE_OPTIONS=--inspect", "-e", wanted], [f"--env-file={home}/env"], ["--env-file", f"{home}/env"],
                  ["-e", wanted, "--env-file", f"{home}/other"], ["--env-file", f"{home}/other", f"--env-file={home}/env"]):
        lines = bridged("docker-args", "--lines", "--", *words, "-e", "JAVA_TOOL_OPTIONS=-Xmx1g").text.splitlines()
        assert "--env=NODE_OPTIONS=--max-old-space-size=100 --use-openssl-ca" in lines
        assert any(line.startswith("--env=JAVA_TOOL_OPTIONS=-Xmx1g -Djavax") for line in lines)
    for words in (["-e", "NODE_OPTIONS"], ["-it", "--env", "JAVA_TOOL_OPTIONS"]):  # a value that only the engine would see
        assert "take it out" in bridged("docker-args", "--", *words, status=5).errors


def test_a_container_may_only_be_filtered(bridged):
    """Without a credential there are no stand-ins and no certificates; network and proxy are the same."""
    bridged("setup", "--yes", OPENAI_API_KEY="")
    bridged("config", "port=0", "extra_allowed_hosts=plain.ok.test")
    bridged("start", OPENAI_API_KEY="")
    lines = bridged("docker-args", "--lines").text.splitlines()
    assert "--network=bailey-egress" in lines and any(line.startswith("--env=HTTPS_PROXY=") for line in lines)


def test_the_api_proxy_is_at_the_same_port(egress, origin_behind):
    """For SDKs that take a base URL: the stand-in becomes the secret; without it nothing does; as a proxy it works as before."""
    egress("start")
    port = origin_behind.port
    token = egress.tokens()["own"][0]
    where = egress.status()["http"][0]

    def request(target, *headers, host=where):
        address, _, number = where.rpartition(":")
        with socket.create_connection((address, int(number)), 60) as sock:
            sock.sendall("\r\n".join([f"GET {target} HTTP/1.1", f"Host: {host}", *headers]).encode() + b"\r\n\r\n")
            return Client(sock).answer()
    before = len(origin_behind.requests())
    assert request("/own/v1/models", f"Authorization: Bearer {token}")[0] == 200
    seen = origin_behind.requests()[-1]
    assert seen.startswith(b"GET /v1/models ") and KEY.encode() in seen and token.encode() not in seen
    assert request("/own/v1/models")[0] == 403  # no stand-in
    assert request("/own/v1/models", f"Authorization: Bearer {KEY}x")[0] == 403
    assert request("/nobody/x", f"Authorization: Bearer {token}")[0] == 404
    assert request("/own//x", f"Authorization: Bearer {token}")[0] == 400
    assert request("/own/x", f"Authorization: Bearer {token}", host="page.example.com")[0] == 421  # a web page's own name
    assert len(origin_behind.requests()) == before + 1
    assert ask(egress, port, token) == 200


def test_docker_args_name_the_api_proxy(bridged):
    bridged("setup", "--yes")
    bridged("config", "port=0", "base_urls=true")
    bridged("start")
    at = bridged.status()["http"][1]
    lines = bridged("docker-args", "--lines").text.splitlines()
    assert f"--env=OPENAI_BASE_URL=http://{at}/openai/v1" in lines
    own = bridged("docker-args", "--lines", "--", "-e", "OPENAI_BASE_URL=https://mine.example.com").text
    assert "OPENAI_BASE_URL" not in own


def test_other_backends_get_the_same_facts(bridged, home):
    """A program of this host, and one behind the bridge: variables that a shell takes, addresses and files as JSON."""
    bridged("env", status=4)
    bridged("setup", "--yes")
    bridged("config", "port=0", "base_urls=true")
    bridged("start")
    near, far = bridged.status()["http"]
    lines = bridged("docker-args", "--lines").text.splitlines()
    container = dict(line.removeprefix("--env=").split("=", 1) for line in lines if line.startswith("--env="))
    facts = json.loads(bridged("env", "--json", "--bridge", "--certificates", "/etc/ssl/certs").text)
    assert f"{facts['address']}:{facts['port']}" == far
    places = ("/bailey-egress.pem", "/bailey-egress.jks")
    same = {name: value for name, value in container.items() if not any(place in value for place in places)}
    assert same.items() <= facts["environment"].items() and facts["environment"].keys() == container.keys()
    for file in facts["files"]:
        assert os.access(file["source"], os.R_OK) and file["target"].startswith("/etc/ssl/certs/")
        assert any(file["target"] in value for value in facts["environment"].values())
    here = json.loads(bridged("env", "--json").text)
    assert f"{here['address']}:{here['port']}" == near and here["environment"]["HTTPS_PROXY"] == f"http://{near}"
    assert all(file["source"] == file["target"] for file in here["files"])
    shell = subprocess.run(["sh", "-c", bridged("env").text + "env"], env={}, capture_output=True, text=True, check=True).stdout
    seen = dict(line.split("=", 1) for line in shell.splitlines())
    assert here["environment"].items() <= seen.items() and KEY not in shell
    assert "absolute" in bridged("env", "--certificates", "certs", status=2).errors


GIVES_THE_HOST = [
    ["-v", "/var/run/docker.sock:/var/run/docker.sock"], ["--volume=/run/docker.sock:/s"], ["-v/:/host"], ["-v", "/:/host:ro"], ["-v=/proc:/p"],
    ["--volume", "/sys:/sys"], ["-v", "/dev:/dev"], ["-v", "/run:/r"], ["-v", "/var:/v"], ["-v", "{home}:/h"], ["-v", "{home}/..:/h"],
    ["-v", "{home}/.local/state/bailey:/b"], ["-v", "{home}/.local:/b"], ["-v", "{home}/.config/bailey:/b"], ["-v", "{home}/link:/d"],
    ["-v", "{home}/sock:/s"], ["-v", "{home}/a:/b:rshared"], ["--mount", "type=bind,source=/,destination=/host"],
    ["--mount=type=bind,src=/var/run/docker.sock,dst=/s"], ["--mount", "type=bind,\"source=/\",dst=/x"], ["--mount", "dst=/x,type=bind,source=/dev"],
    ["--mount=type=volume,dst=/x,volume-opt=type=none,volume-opt=o=bind,volume-opt=device=/"], ["--mount", "type=glob,src=/*,dst=/x"],
    ["--mount=type=bind,src={home}/a,dst=/x,bind-propagation=shared"], ["--volumes-from", "other"],
    ["--volume={home}/a:/x:ro,O,upperdir=/etc/a,workdir=/etc/b"], ["--pid=host"], ["--pid", "host"],
    ["--pid=container:other"], ["--ipc=host"], ["--ipc", "container:x"], ["--uts=host"], ["--userns=host"], ["--cgroupns", "host"],
    ["--network", "host"], ["--net=bridge"], ["--network=container:x"], ["--link", "x"], ["--dns=1.1.1.1"], ["--privileged"], ["--privileged=true"],
    ["--device=/dev/net/tun"], ["--device", "/dev/kmsg"], ["--device-cgroup-rule=a *:* rwm"], ["--cap-add=SYS_ADMIN"], ["--cap-add", "ALL"],
    ["--security-opt", "seccomp=unconfined"], ["--security-opt=apparmor=unconfined"], ["--security-opt=label=disable"],
    ["--security-opt", "systempaths=unconfined"], ["--security-opt=no-new-privileges=false"], ["--security-opt=unmask=ALL"], ["--runtime=x"],
    ["--cgroup-parent", "/"], ["--pod", "x"], ["--rootfs"], ["--env-host"], ["--unsetenv-all"], ["--unsetenv", "HTTPS_PROXY"], ["-e", "ALL_PROXY=x"],
    ["-e", "all_proxy=x"], ["--env=no_proxy=*"], ["--env-merge", "HTTP_PROXY=x"], ["--use-api-socket"], ["--use-api-socket=true"],
    ["-e", "*"], ["-eHTTP*"], ["--env=A*"], ["--gpus", "all"], ["--gpus=all"], ["--init-path=/bin/sh"], ["--hooks-dir", "{home}/a"],
    ["--seccomp-policy=image"], ["--seccomp-policy", "image"], ["--annotation", "run.oci.keep_original_groups=1"], ["--annotation=run.oci.seccomp_bpf_data=x"],
    ["--group-add", "keep-groups"], ["--group-add=keep-groups"], ["--systemd=always"], ["--preserve-fds=3"], ["--preserve-fd", "5"], ["--sdnotify=container"],
    ["--log-driver=syslog", "--log-opt", "syslog-address=udp://192.0.2.9:514"], ["--log-driver", "fluentd"], ["--log-driver=gelf"], ["--log-opt", "path={home}/a/log"],
    ["--log-opt", "PATH={home}/a/log"], ["--log-opt", "max-size=1m,path={home}/a/log"], ["--log-opt", '"path={home}/a/log"'], ["--log-opt=driver=syslog"], ["--group-add", '"keep-groups"'],
    ["-v", "/etc:/etc"], ["-v", "/etc:/etc:ro"], ["-v", "/etc/cron.d:/c"], ["-v", "/etc/cron.d:/c:ro,rw"], ["-v", "/usr/bin:/b:z"], ["--volume=/bin:/b"], ["-v", "/lib:/l"],
    ["-v", "/etc/shadow:/s:ro"], ["-v", "{home}/programs/bash:/b"], ["--mount", "type=bind,src=/etc/ssl/certs,dst=/s"], ["--mount", "type=bind,src=/usr,dst=/u,readonly=false"],
    ["--mount=type=bind,src=/usr,dst=/u,ro,rw"], ["-v", "/usr/local/bin:/b"], ["-v", "/etc/cron.d/new:/c"], ["-v", "/root/.ssh:/s"],
    ["-v", "/var/spool:/x"], ["-v", "/var/spool/:/x:z"], ["-v", "//var/.//spool//:/x"], ["-v", "/usr/../var/spool:/x:rw"], ["--mount", "type=bind,src=/var/spool,dst=/x"],
    ["-v", "/var/spool/cron:/x"], ["-v", "/var/spool/at/:/x"], ["-v", "{home}/spool:/x"], ["-v", "{home}/spool/:/x"], ["-v", "{home}/spool/cron/:/x"], ["-v", "/var/lib/dpkg/..:/x"],
]
HARMLESS = [
    ["-v", "{home}/a:/b"], ["-v", "{home}/a/b:/b:ro,z"], ["-v", "cache:/c"], ["-v", "/c"], ["--mount", "type=tmpfs,dst=/t"], ["-v", "/dev/null:/x"],
    ["--mount=type=bind,src={home}/a,dst=/x,readonly"], ["--pid=private"], ["--ipc", "private"], ["--userns=keep-id"], ["--privileged=false"], ["--use-api-socket=false"],
    ["--security-opt", "no-new-privileges"], ["-it", "--rm", "-e", "CI=1", "-u", "1000", "-w", "/x"], ["--cap-drop=ALL"], ["--init"], ["--memory", "1g"],
    ["-v", "/etc/localtime:/etc/localtime:ro"], ["-v", "/usr/share/zoneinfo:/z:ro"], ["--mount", "type=bind,src=/etc/ssl/certs,dst=/etc/ssl/certs,readonly"],
    ["--mount", "type=bind,src=/usr/share,dst=/s,ro=true"], ["-v", "/usr/src/app:/app"], ["-v", "/usr/src/:/s"],
    ["-v", "/var/spool:/x:ro"], ["-v", "/var/spool/news:/x"], ["-v", "{home}/spool/news/:/x"], ["-v", "/var/cache:/x"], ["--mount", "type=volume,source=cache,destination=/c"], ["--name", "x"], ["-p", "80:80"], ["-e", "A=*"],
    ["--group-add", "1000"], ["--log-driver=none"], ["--log-driver", "json-file", "--log-opt", "max-size=1m"], ["--log-opt", "labels=one,two", "--log-opt", "Max-File=3"], ["--systemd=false"],
]


@pytest.fixture
def places(home):
    (home / "a/b").mkdir(parents=True)
    (home / ".local/state/bailey").mkdir(parents=True, exist_ok=True)
    (home / "link").symlink_to("/run")
    (home / "programs").symlink_to("/usr/bin")
    (home / "spool").symlink_to("/var/spool")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(home / "sock"))
    return lambda words: [word.format(home=home) for word in words]


def test_arguments_that_give_the_container_this_host(bridged, places):
    bridged("setup", "--yes")
    bridged("config", "port=0")
    bridged("start")
    for words in GIVES_THE_HOST:
        refused = bridged("docker-args", "--", *places(words), "image", status=5)
        assert refused.out == b"" and "take it out" in refused.errors, words
    for words in HARMLESS:
        assert bridged("docker-args", "--", *places(words), "image").out, words


def test_a_runs_container_gets_no_such_arguments_either(bailey, home, places, work):
    """One table for both; refused (123) before any engine is asked."""
    for words in [*GIVES_THE_HOST, ["--entrypoint=x"], ["--name", "x"], ["--init"], ["--restart=always"], ["-d"], ["--userns=private"], ["--uidmap", "0:0:9"],
                  ["--gidmap=0:0:9"], ["--subuidname=x"]]:
        done = bailey("run", "--container", "docker", *(f"--container-arg={word}" for word in places(words)), "image", "true",
                      env={"PATH": "/nonexistent"}, cwd=work)
        assert done.status == 123 and "take it out" in done.errors, (words, done.errors)
    for words in HARMLESS:
        if not {"--init", "--name", "--userns=keep-id"} & set(words):
            done = bailey("run", "--container", "docker", *(f"--container-arg={word}" for word in places(words)), "image", "true",
                          env={"PATH": "/nonexistent"}, cwd=work)
            assert done.status == 122 and "not installed" in done.errors, (words, done.errors)


@pytest.fixture
def mounts(run, home, work):
    """mounts(VALUE, HOME): whether a run's container may have it."""
    def may(value, where, *before):
        done = run([*before, program("bailey"), "run", "--container", "docker", "--container-arg=-v", f"--container-arg={value}", "image", "true"], cwd=work,
                   env={"PATH": "/nonexistent", "HOME": str(where), "XDG_STATE_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home / "config")})
        assert done.status == 122 and "not installed" in done.errors or done.status == 123 and "take it out" in done.errors, (value, where, done)
        return done.status == 122
    return may


@pytest.mark.parametrize("where", ["/", "//", "/usr", "/usr/", "/usr/local", "/usr/bin", "/bin", "/etc", "/var", "/var/spool", "/home", "/nonexistent", "usr", ""])
def test_a_home_opens_nothing_of_the_system(mounts, work, where):
    """HOME may be anything, "/" where a container engine or a service sets it."""
    refused = ["/usr/bin:/x", "/usr/local/bin:/x", "/etc/cron.d:/x", "/bin/:/x", "/var/spool:/x", "/var/spool/cron:/x", "/usr:/x"]
    assert [value for value in refused if mounts(value, where)] == []
    assert mounts("/usr/share:/x:ro", where) and mounts(f"{work}:/x", where) and mounts("/usr/src/app:/x", where)


@pytest.mark.root
def test_a_home_of_root_s(mounts):
    """It lies in a place of the system, and people work in it."""
    assert mounts("/root/no-such-project:/x", "/root") and mounts("/root/no-such-project/:/x", "/root/")
    assert not mounts("/root/no-such-project:/x", "/root/other") and not mounts("/root:/x", "/root") and not mounts("/usr/bin:/x", "/root")


@pytest.mark.root
def test_places_that_are_not_there_yet(mounts, home):
    """A container that may write around them can make them; so they count where they would be."""
    (home / "spool").mkdir()
    empty = ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", '/usr/bin/mount -t tmpfs over /var && exec "$@"', "sh"]
    moved = [*empty[:-2], f'/usr/bin/mount -t tmpfs over /var && /usr/bin/ln -s {home}/spool /var/spool && exec "$@"', "sh"]
    for value in ("/var/spool:/x", "/var/spool/:/x", "/var//spool/.//:/x", "/var/spool/cron/:/x"):
        assert not mounts(value, home, *empty) and not mounts(value, home, *moved), value
    assert not mounts(f"{home}/spool:/x", home, *moved) and mounts(f"{home}/spool:/x", home, *empty)


def test_docker_env_collision_raises_when_enforce(bridged, tmp_path):
    bridged("setup", "--yes")
    bridged("config", "port=0")
    bridged("start")
    (tmp_path / "list").write_text("# mine\nCI=1\nOPENAI_API_KEY=mine\n")
    collisions = [["-e", "HTTPS_PROXY=x"], ["-eSSL_CERT_FILE=/x"], ["--env", "OPENAI_API_KEY"], ["--env=NODE_EXTRA_CA_CERTS=x"],
                  ["--env-file", tmp_path / "list"], ["--network", "host"], ["--net=bridge"], ["--dns=1.1.1.1"], ["--privileged"],
                  ["-v", "/x:/etc/ssl/certs/bailey-egress.pem"], ["-it", "--rm", "-e", "no_proxy=*"], ["-ite", "HTTP_PROXY=x"], ["-itePIP_CERT=x"], ["-e=CURL_CA_BUNDLE=x"]]
    for words in collisions:
        refused = bridged("docker-args", "--", *words, status=5)
        assert refused.out == b"", words
    plain = bridged("docker-args").out
    assert bridged("docker-args", "--", "-e", "CI=1", "--rm", "-v", "/a:/b", "--name", "x", "image").out == plain
    bridged("config", "enforce_on_docker=false")
    assert "HTTPS_PROXY" in bridged("docker-args", "--", "-e", "HTTPS_PROXY=x").errors
