# SPDX-License-Identifier: Apache-2.0
"""`bailey run` as it is for macOS with a vault, run on Linux (tests/tools/meson.build): TLS that is opened, stand-ins in the place of secrets,
sources that change, a vault that dies. What Seatbelt and the queues of its kernel do is not here."""
import http.server
import json
import os
import signal
import threading

import pytest

from conftest import BUILD
from kit.mac import beside_each_other, profile_env
from kit.process import wait_until

HOST, SECRET, NEXT = "api.ok.test", "sk-live-Zq8Yt3KpXw5Nn7Bb2Vv4", "sk-live-Next3KpXw5Nn7Bb2Vv49"
SHOW = "curl -fsS -m 60 -H \"Authorization: Bearer $SERVICE_KEY\" https://api.ok.test:%d/%s"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        body = f"you sent {self.headers.get('Authorization')}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Service:
    def __init__(self, authority):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.seen = self.server.seen = []
        self.server.daemon_threads, self.port = True, self.server.server_address[1]
        self.server.socket = authority.context(HOST).wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join(10)
        self.server.server_close()


@pytest.fixture
def service(authority, closing):
    return closing(Service(authority))


@pytest.fixture
def go(mac, start, service, authority, workspace, tmp_path):
    """go(script, source): the Child of a run that has a stand-in for the secret of the source in $SERVICE_KEY."""
    def begin(script, source="env:SERVICE_KEY", program=mac, **network):
        hosts, policy, target = tmp_path / "hosts", tmp_path / "policy.yaml", f"{HOST}:{service.port}"
        hosts.write_text(f"127.0.0.1 {HOST}\n")
        policy.write_text(json.dumps({"network": {"allow": [target], "allow_private": [target], **network}, "credentials": [] if not source else [
            {"name": "service-key", "env": "SERVICE_KEY", "source": source, "hosts": [target], "slot": "bearer"}]}))
        env = {**profile_env(tmp_path), "SSL_CERT_FILE": str(authority.file), "SERVICE_KEY": SECRET}
        return start([program, "run", "--policy", str(policy), "--hosts", str(hosts), "--audit", str(tmp_path / "audit.jsonl"), "--", "sh", "-c", script],
                     cwd=workspace, env=env)
    return begin


def test_the_service_sees_the_secret_and_the_command_never_does(go, service, tmp_path):
    result = go(f"echo $SERVICE_KEY; {SHOW % (service.port, 'a')}; env").wait()
    assert result.status == 0, result
    stand_in = result.text.splitlines()[0]
    assert service.seen == [("/a", f"Bearer {SECRET}")]
    assert stand_in != SECRET and f"you sent Bearer {stand_in}" in result.text
    assert SECRET not in result.text + result.errors + (tmp_path / "audit.jsonl").read_text() + (tmp_path / "profile.sb").read_text()


def test_the_stand_in_is_that_of_linux(go, service):
    there, here = go("echo $SERVICE_KEY", program=BUILD / "src/cli/bailey").wait(), go("echo $SERVICE_KEY").wait()
    assert there.status == here.status == 0 and there.text == here.text, (there, here)


def test_the_certificates_can_be_read_and_are_gone_afterwards(go, tmp_path):
    result = go("echo $SSL_CERT_FILE; grep -c BEGIN $SSL_CERT_FILE").wait()
    bundle, number = result.text.split()
    assert result.status == 0 and int(number) >= 2, result
    assert f'"{os.path.dirname(bundle)}"' in (tmp_path / "profile.sb").read_text() and not os.path.exists(bundle)


def test_rules_about_requests_hold_inside_tls(go, service):
    ask = "curl -sS -m 60 -o /dev/null -w '%%{http_code} ' https://api.ok.test:%d/%s; "
    result = go(ask % (service.port, "v1/x") + ask % (service.port, "other"), source=None, allow=[],
                rules=[{"host": f"{HOST}:{service.port}", "methods": ["GET"], "paths": ["/v1/**"]}]).wait()
    assert result.text.split() == ["200", "403"] and [path for path, _ in service.seen] == ["/v1/x"], result


def test_a_file_that_changes_is_read_again(go, service, tmp_path, workspace):
    source = tmp_path / "key"
    source.write_text(SECRET)
    child = go(f"{SHOW % (service.port, 'a')}; while [ ! -e next ]; do sleep 0.1; done; "
               f"for i in 1 2 3 4 5 6 7 8 9 10; do {SHOW % (service.port, 'b')}; sleep 0.2; done", f"file:{source}")
    wait_until(lambda: service.seen)
    source.write_text(NEXT)
    (workspace / "next").touch()
    result = child.wait()
    assert result.status == 0 and SECRET not in result.text and NEXT not in result.text, result
    assert service.seen[0] == ("/a", f"Bearer {SECRET}") and service.seen[-1] == ("/b", f"Bearer {NEXT}")


def test_a_source_that_is_not_there_ends_the_run_before_the_command(go, workspace, tmp_path):
    result = go("touch made", f"file:{tmp_path / 'nowhere'}").wait()
    assert result.status != 0 and "nowhere" in result.errors and not (workspace / "made").exists(), result


def test_the_keyring_is_refused_by_name(go, workspace):
    result = go("touch made", "keyring:bailey-test").wait()
    assert result.status != 0 and "macOS has no keyring" in result.errors and not (workspace / "made").exists(), result


def children(pid):
    return [int(word) for word in open(f"/proc/{pid}/task/{pid}/children").read().split()]


def name_of(pid):
    try:
        return open(f"/proc/{pid}/comm").read()
    except OSError:
        return ""  # it has ended meanwhile


def vault_of(child):
    return next((pid for pid in children(child.pid) if name_of(pid).startswith("bailey-vault")), None)


def test_a_vault_that_dies_is_replaced(go, service, workspace):
    child = go(f"{SHOW % (service.port, 'a')}; while [ ! -e next ]; do sleep 0.1; done; "
               f"for i in 1 2 3 4 5 6 7 8 9 10; do {SHOW % (service.port, 'b')} && break; sleep 0.5; done")
    wait_until(lambda: service.seen)
    first = vault_of(child)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: vault_of(child) not in (None, first))
    (workspace / "next").touch()
    result = child.wait()
    assert result.status == 0 and service.seen[-1] == ("/b", f"Bearer {SECRET}"), result


def test_without_a_vault_nothing_runs(go, workspace, tmp_path):
    result = go("touch made", program=beside_each_other(BUILD, tmp_path / "alone", ["bailey", "bailey-gateway"])).wait()
    assert result.status != 0 and "bailey-vault is not installed" in result.errors and not (workspace / "made").exists(), result


@pytest.fixture
def secrets(mac, run, workspace, tmp_path):
    """secrets(words...): `bailey secrets` of a Mac, with one credential in the policy."""
    policy = tmp_path / "secrets.yaml"

    def go(*words, source="env:SERVICE_KEY", slot="bearer", program=mac):
        policy.write_text(json.dumps({"credentials": [
            {"name": "service-key", "env": "SERVICE_KEY", "source": source, "hosts": [HOST], "slot": slot}]}))
        return run([program, "secrets", words[0], "--policy", str(policy), *words[1:]], cwd=workspace, env={"SERVICE_KEY": SECRET})
    return go


def test_secrets_lists_what_linux_lists(secrets):
    for words in (["list"], ["list", "--json"]):
        there, here = secrets(*words, program=BUILD / "src/cli/bailey").check(), secrets(*words).check()
        assert here.text == there.text and "service-key" in here.text and SECRET not in here.text


@pytest.mark.parametrize("slot", ["bearer", "basic", "query:key"])
def test_secrets_proves_that_a_credential_works(secrets, slot):
    result = secrets("test", "--json", "service-key", slot=slot)
    assert result.status == 0 and SECRET not in result.text + result.errors, result
    proof = json.loads(result.text)
    assert proof["swapped"] and proof["hidden"] and proof["why"] == "" and proof["target"].startswith(HOST), proof


def test_secrets_says_why_a_credential_does_not_work(secrets, tmp_path):
    for words, status, why in ((("test", "servic-key"), 4, "service-key"), (("test", "service-key"), 3, "nowhere")):
        result = secrets(*words, source=f"file:{tmp_path / 'nowhere'}")
        assert result.status == status and why in result.errors, result


def test_a_rotation_gives_other_stand_ins(go, secrets):
    before = go("echo $SERVICE_KEY").wait().text
    secrets("rotate", "service-key").check()
    after = go("echo $SERVICE_KEY").wait().text
    assert before.startswith("sk-") and after.startswith("sk-") and before != after and SECRET not in before + after
