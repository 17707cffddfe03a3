# SPDX-License-Identifier: Apache-2.0
"""`bailey gateway` whole: supervisor, confined gateway, policy, audit; by HTTP, CONNECT, SOCKS5 and DNS."""
import json
import os
import random
import signal
import socket
import struct
import threading
import time

import pytest

from kit.dns import A, AAAA, REFUSED, decode_question, encode_name
from kit.process import wait_until

CONTROL = set(range(0x20)) - {0x0A} | {0x7F}


def ended(pid):
    """Gone, or dead and waiting to be collected by whoever adopted it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


class Gateway:
    """One `bailey gateway`. The origin is reached as ok.test; other.test is the same address under a name nobody allows."""

    def __init__(self, start, directory, port, allow=None, audit="audit.jsonl", more=(), enter=()):
        self.policy, self.audit, self.port = directory / "policy.yaml", directory / audit, port
        hosts = directory / "hosts"
        hosts.write_text("127.0.0.1 ok.test other.test\n")
        self.write_policy(allow if allow is not None else ["ok.test"])
        self.child = start([*enter, *self.command(hosts), *more])
        wait_until(lambda: b"\n" in self.child.output() or not self.child.running(), what="the ready line")
        assert self.child.running(), self.child.errors()
        self.ready = json.loads(self.child.output().splitlines()[0])
        self.http, self.socks, self.dns = (int(self.ready[kind][0].rsplit(":", 1)[1]) for kind in ("http", "socks", "dns"))

    def command(self, hosts):
        return ["bailey", "gateway", "--policy", self.policy, "--audit", self.audit, "--hosts", hosts, "--json", "--http",
                "127.0.0.1:0", "--socks", "127.0.0.1:0", "--dns", "127.0.0.1:0"]

    def write_policy(self, names):
        rules = json.dumps([f"{name}:{self.port}" for name in names])
        self.policy.write_text(f"network:\n  allow: {rules}\n  allow_private: {rules}\n")

    def reload(self, expected):
        before = self.child.errors().count(expected)
        self.child.signal(signal.SIGHUP)
        wait_until(lambda: self.child.errors().count(expected) > before, what=expected)

    def records(self, **wanted):
        lines = self.audit.read_bytes().split(b"\n")[:-1]
        found = [json.loads(line) for line in lines]
        return [r for r in found if all(r.get(key) == value for key, value in wanted.items())]

    def wait_for(self, **wanted):
        return wait_until(lambda: self.records(**wanted), what=f"a record with {wanted}")[-1]

    def get(self, host, path="/", timeout=60):
        """A plain request by the HTTP port, byte for byte: (status, headers and body)."""
        with socket.create_connection(("127.0.0.1", self.http), timeout) as s:
            authority = f"{host}:{self.port}"
            s.sendall(f"GET http://{authority}{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: s.recv(65536), b""))
        return (int(answer.split(b" ", 2)[1]), answer) if answer else (0, b"")

    def tunnel(self, host):
        """CONNECT; the socket and the first answer."""
        s = socket.create_connection(("127.0.0.1", self.http), 60)
        s.sendall(f"CONNECT {host}:{self.port} HTTP/1.1\r\nHost: {host}:{self.port}\r\n\r\n".encode())
        return s, s.recv(4096)

    def ask(self, name, kind=A):
        """A DNS question over UDP: (rcode, addresses)."""
        query = struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + encode_name(name) + struct.pack("!2H", kind, 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(60)
            s.sendto(query, ("127.0.0.1", self.dns))
            answer = s.recv(4096)
        assert answer[:2] == query[:2] and decode_question(answer)[0] == name
        return answer[3] & 15, struct.unpack("!H", answer[6:8])[0]


@pytest.fixture
def gateway(start, tmp_path, origin):
    return lambda **more: Gateway(start, tmp_path, more.pop("port", origin.port), **more)


def test_each_way_in_allowed_and_refused(gateway, origin, run, bailey):
    g = gateway()
    url = {name: f"http://{name}:{origin.port}/page?key=secret" for name in ("ok.test", "other.test")}
    ways = {"http": ["--proxy", f"http://127.0.0.1:{g.http}"],
            "connect": ["--proxytunnel", "--proxy", f"http://127.0.0.1:{g.http}"],
            "socks5": ["--proxy", f"socks5h://127.0.0.1:{g.socks}"]}
    for via, words in ways.items():
        seen = len(origin.requests())
        assert run(["curl", "-sS", "-m", "60", *words, url["ok.test"]]).check().out == b"origin\n"
        assert len(origin.requests()) == seen + 1
        refused = run(["curl", "-sS", "-m", "60", "-o", "/dev/null", "-w", "%{http_code}", *words, url["other.test"]])
        assert refused.status != 0 or refused.out == b"403", refused
        assert len(origin.requests()) == seen + 1, "a refused request reached the origin"
        allowed = g.wait_for(via=via, domain="ok.test", allowed=True)
        assert allowed["rule"] == allowed["whitelist_matched"] == f"ok.test:{origin.port}"
        assert allowed["addr"] == "127.0.0.1" and allowed["port"] == origin.port
        denied = g.wait_for(via=via, domain="other.test", allowed=False)
        assert denied["reason"] == "not-allowed" and denied["addr"] is None and "whitelist_matched" not in denied
    request = g.wait_for(kind="request", allowed=True)
    assert request["path"] == "/page" and "secret" not in g.audit.read_text()
    assert request["bytes_in"] == 7 and request["status"] == 200
    assert g.ask("other.test") == (REFUSED, 0)
    assert g.wait_for(kind="dns", domain="other.test")["allowed"] is False
    assert g.ask("ok.test", AAAA)[1] == 0
    g.child.signal(signal.SIGTERM)
    ended_well = g.child.wait(60)
    assert ended_well.status == 0 and ended_well.errors == "", ended_well
    assert bailey("log", "verify", g.audit).check().text.startswith(f"{g.audit}: whole")
    assert [r["seq"] for r in g.records()] == list(range(1, len(g.records()) + 1))
    assert g.audit.stat().st_mode & 0o777 == 0o600


@pytest.mark.exact_build
def test_the_running_gateway_is_confined(gateway):
    g = gateway()
    status = dict(line.split(":\t", 1) for line in open(f"/proc/{g.ready['gateway_pid']}/status").read().splitlines())
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1" and int(status["CapEff"], 16) == 0
    for task in os.listdir(f"/proc/{g.ready['gateway_pid']}/task"):
        text = open(f"/proc/{g.ready['gateway_pid']}/task/{task}/status").read()
        assert "Seccomp:\t2" in text, "a thread escaped the filter"
    if os.geteuid() != 0:  # not dumpable: its owner may not look inside
        with pytest.raises(PermissionError):
            os.listdir(f"/proc/{g.ready['gateway_pid']}/fd")


def test_text_in_the_log_cannot_forge_lines(gateway, origin, bailey):
    g = gateway()
    evil = ['/a"},{"ts":"forged', "/%0a%7b%22ts%22", "/\\u000a\\\"", "/%1b[2J%1b]0;owned%07", "/'`$(id)"]
    for path in evil:
        g.get("ok.test", path)
        g.get("other.test", path)
    for name in (b"evil.test\n{}", b"evil.test\x1b[2J", b"a\0.ok.test", b'"quoted"'):
        with socket.create_connection(("127.0.0.1", g.socks), 60) as s:
            s.sendall(b"\x05\x01\x00")
            assert s.recv(2) == b"\x05\x00"
            s.sendall(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + struct.pack("!H", origin.port))
            assert s.recv(2)[1:] != b"\x00"
    wait_until(lambda: len(g.records(allowed=False)) >= len(evil) + 4, what="the refusals")
    g.child.signal(signal.SIGTERM)
    g.child.wait(60)
    raw = g.audit.read_bytes()
    assert not CONTROL & set(raw), "a control character is in the file"
    records = g.records()
    assert [r["seq"] for r in records] == list(range(1, len(records) + 1))
    assert not [r for r in records if r["ts"] == "forged"]
    shown = bailey("log", g.audit).check().out
    assert not CONTROL & set(shown), "a control character reached the terminal"
    assert len(shown.splitlines()) == len(records) + 1
    bailey("log", "verify", g.audit).check()


def test_reload_is_whole_and_closes_refused_tunnels(gateway, origin):
    g = gateway(allow=["ok.test", "other.test"])
    kept, first = g.tunnel("other.test")
    closed, second = g.tunnel("ok.test")
    assert b" 200 " in first and b" 200 " in second
    g.policy.write_text("network: [broken")
    g.reload("not reloaded, the old rules stay")
    assert g.get("ok.test")[0] == 200
    g.write_policy(["other.test"])
    g.reload("reloaded: policy 2 judges")
    assert g.get("ok.test")[0] == 403 and g.get("other.test")[0] == 200
    closed.settimeout(60)
    try:
        assert closed.recv(10) == b"", "the tunnel that the new rules refuse is still open"
    except ConnectionResetError:
        pass
    kept.sendall(b"GET / HTTP/1.0\r\n\r\n")
    assert kept.recv(100).startswith(b"HTTP/1.1 200"), "the tunnel that the new rules allow was closed"
    kept.close()
    closed.close()


def test_limits_of_a_new_policy_count_at_once(gateway, origin):
    """Also in a gateway that takes the place of one that died; nothing is started again for them."""
    g = gateway(allow=["ok.test"])
    long = "/" + 3000 * "x"
    assert g.get("ok.test", long)[0] == 200
    with g.policy.open("a") as policy:
        policy.write("  limits: { header_bytes: 2KiB }\n")
    g.reload("reloaded: policy 2 judges")
    assert g.get("ok.test", long)[0] == 431 and g.get("ok.test")[0] == 200
    os.kill(g.ready["gateway_pid"], signal.SIGKILL)
    wait_until(lambda: "the gateway died" in g.child.errors(), what="the report")
    wait_until(lambda: g.get("ok.test")[0] == 200, what="the next gateway")
    assert g.get("ok.test", long)[0] == 431


def test_a_killed_gateway_opens_nothing_and_is_replaced(gateway, origin):
    g = gateway()
    tunnel, answer = g.tunnel("ok.test")
    assert b" 200 " in answer
    seen = len(origin.received())
    os.kill(g.ready["gateway_pid"], signal.SIGKILL)
    tunnel.settimeout(60)
    try:
        assert tunnel.recv(10) == b""
    except ConnectionResetError:
        pass
    tunnel.close()
    wait_until(lambda: "the gateway died" in g.child.errors(), what="the report")
    assert len(origin.received()) == seen
    # The listeners are the supervisor's: the next connection waits for the next gateway, and policy holds.
    assert g.get("other.test", timeout=60)[0] == 403
    assert g.get("ok.test", timeout=60)[0] == 200
    assert len([r for r in g.records(kind="note") if r["detail"].startswith("gateway started")]) == 2
    assert any("signal 9" in r.get("detail", "") for r in g.records(kind="note"))


def test_a_killed_supervisor_takes_the_gateway_along(gateway):
    g = gateway()
    os.kill(g.child.pid, signal.SIGKILL)
    g.child.wait(60)
    wait_until(lambda: ended(g.ready["gateway_pid"]), timeout=60, what="the gateway's end")

    def refused():  # the process is called dead a moment before the last of its threads lets go of the sockets
        try:
            socket.create_connection(("127.0.0.1", g.http), 1).close()
        except OSError:
            return True
        return False
    wait_until(refused, timeout=60, what="the end of its listeners")


def test_the_log_is_whole_after_sigkill_at_any_moment(gateway, bailey):
    chance = random.Random(20261115)
    for _ in range(8):
        g = gateway()
        stop = threading.Event()

        def load():
            while not stop.is_set():
                try:
                    g.get("ok.test", timeout=2)
                    g.get("other.test", timeout=2)
                except OSError:
                    return

        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(chance.uniform(0.02, 0.25))
        os.kill(g.child.pid, signal.SIGKILL)
        stop.set()
        for thread in threads:
            thread.join(10)
        g.child.wait(60)
        proof = bailey("log", "verify", g.audit)  # nothing is wrong with it but that nobody has ended it
        assert proof.status == 1 and f"the last record, {len(g.records())}, is not an end" in proof.errors
    assert len(g.records()) > 8


def test_two_writers_do_not_share_a_file(gateway, bailey):
    g = gateway()
    second = bailey("gateway", "--policy", g.policy, "--audit", g.audit, "--http", "127.0.0.1:0")
    assert second.status == 7 and "another bailey is writing" in second.errors


def test_log_without_a_file_shows_the_latest_run(start, tmp_path, origin, bailey, home):
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 ok.test other.test\n")
    assert bailey("log").status == 4
    for _ in range(2):
        child = start(["bailey", "gateway", "--http", "127.0.0.1:0", "--json", "--hosts", hosts])
        wait_until(lambda: b"\n" in child.output(), what="the ready line")
        ready = json.loads(child.output().splitlines()[0])
        port = int(ready["http"][0].rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port), 60) as s:
            s.sendall(b"GET http://other.test/ HTTP/1.0\r\n\r\n")
            assert b" 403 " in s.recv(4096)
        child.signal(signal.SIGINT)
        assert child.wait(60).status == 0
    directory = home / ".local/state/bailey/audit"
    assert directory.stat().st_mode & 0o777 == 0o700 and len(list(directory.glob("*.jsonl"))) == 2
    denied = bailey("log", "--denied").check().text
    assert "DENY" in denied and "other.test:80/" in denied and "note" not in denied
    records = [json.loads(line) for line in bailey("log", "--json").check().text.splitlines()]
    assert {r["run_id"] for r in records} == {ready["run_id"]}
    assert bailey("log", "--run", ready["run_id"][:6], "--json").check().text.count("\n") == len(records)
    assert bailey("log", "--run", "nosuchrun").status == 4
    assert bailey("log", "verify").check().text.startswith(str(directory))


def test_log_follows_a_growing_log(gateway, start):
    g = gateway()
    follower = start(["bailey", "log", "-f", "--denied", g.audit])
    for n in range(1, 4):
        g.get("other.test", f"/{n}")
        wait_until(lambda: f"/{n} ".encode() in follower.output(), what=f"line {n}")


def test_a_full_disk_refuses_new_work_and_recovers(make_namespace, tmp_path, environment, bailey, make_origin):
    ns = make_namespace()
    disk = tmp_path / "disk"
    disk.mkdir()
    ns.run(["mount", "-t", "tmpfs", "-o", "size=128k", "none", str(disk)]).check()
    origin = make_origin(sock=ns.listen())
    from conftest import program

    def start_inside(argv):
        return ns.start([program(argv[0]), *argv[1:]], env=environment)

    def ask(host):
        done = ns.run(["curl", "-s", "-m", "5", "-o", "/dev/null", "-w", "%{http_code} %header{x-bailey-reason}", "-x",
                       f"http://127.0.0.1:{g.http}", f"http://{host}:{origin.port}/"])
        return done.text.split()

    g = Gateway(start_inside, tmp_path, origin.port, audit="disk/audit.jsonl")
    try:
        assert ask("ok.test")[0] == "200"
        ns.run(["sh", "-c", f"cat /dev/zero > {disk}/filler 2>/dev/null; true"]).check()
        wait_until(lambda: ask("ok.test")[0] != "200", timeout=60, what="a refusal")
        wait_until(lambda: "audit log fails" in g.child.errors(), what="the report")
        seen = len(origin.requests())
        for _ in range(5):
            assert ask("ok.test") == ["503", "audit"], "work was done that could not be recorded"
        assert len(origin.requests()) == seen
        ns.run(["rm", f"{disk}/filler"]).check()
        wait_until(lambda: ask("ok.test")[0] == "200", timeout=60, what="recovery")
        proof = ns.run([program("bailey"), "log", "verify", str(g.audit)], env=environment)
        assert proof.status == 0, proof
    finally:
        g.child.stop()


def test_relay_passes_bytes_both_ways_and_half_closes(gateway, make_origin, run, tmp_path):
    def echo_after_the_end(sock, connection):
        data = b"".join(iter(lambda: sock.recv(65536), b""))
        sock.sendall(b"%d " % len(data) + data[::-1])
        sock.close()

    far = make_origin(raw=echo_after_the_end)
    g = gateway(port=far.port)
    payload = random.Random(1).randbytes(3 << 20)
    done = run(["bailey", "relay", "--via", f"127.0.0.1:{g.socks}", "ok.test", far.port], stdin=payload).check()
    assert done.out == b"%d " % len(payload) + payload[::-1]
    via = {"ALL_PROXY": f"socks5h://127.0.0.1:{g.socks}"}
    assert run(["bailey", "relay", "ok.test", far.port], stdin=b"x", env=via).check().out == b"1 x"
    refused = run(["bailey", "relay", "other.test", far.port], env=via)
    assert refused.status == 5 and "policy refuses" in refused.errors
    assert run(["bailey", "relay", "--via", "127.0.0.1:1", "ok.test", "1"]).status == 4
    assert run(["bailey", "relay", "ok.test", "1"]).status == 2


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "8.8.8.8:0", "169.254.169.254:0", "localhost:0", "127.0.0.1", "x"])
def test_it_listens_nowhere_others_can_reach(bailey, address):
    refused = bailey("gateway", "--http", address)
    assert refused.status == 2 and "--http" in refused.errors


def test_env_is_evaluated_by_a_shell(run):
    host = {"GITHUB_TOKEN": "s3cret", "NAME": "it's $(id)"}
    script = 'eval "$("$0" env --http 127.0.0.1:3128 --env "QUOTED=a b\'c\\$(id)")" && echo "$HTTPS_PROXY|${GITHUB_TOKEN-unset}|$QUOTED"'
    from conftest import program
    done = run(["sh", "-c", script, program("bailey")], env=host).check()
    assert done.text == "http://127.0.0.1:3128|unset|a b'c$(id)\n"
    listed = {x["name"]: x for x in json.loads(run(["bailey", "env", "--json"], env=host).check().text)}
    assert listed["GITHUB_TOKEN"] == {"name": "GITHUB_TOKEN", "action": "stripped", "why": "credential by name"}
    assert listed["NAME"]["action"] == "kept"


def test_a_log_that_was_cut_off_is_not_whole(make_service, bailey, tmp_path):
    """While its writer lives it has no end; afterwards it must have one."""
    service = make_service({"allow": ["*.ok.test"]})
    bailey("log", "verify", service.audit).check()
    service.close()
    bailey("log", "verify", service.audit).check()
    lines = service.audit.read_bytes().splitlines(keepends=True)
    for name, kept in (("end", lines[:-1]), ("torn", [*lines[:-1], lines[-1][:20]])):
        cut = tmp_path / f"{name}.jsonl"
        cut.write_bytes(b"".join(kept))
        done = bailey("log", "verify", cut)
        assert done.status == 1 and "not an end" in done.errors, done
        assert json.loads(bailey("log", "verify", "--json", cut).out)["whole"] is False


def test_requests_have_texts(make_service, bailey, origin):
    """Tunnels are shown as the CONNECT that they are; nothing is null where the schema says text."""
    service = make_service({"allow_private": [f"127.0.0.1:{origin.port}"]})
    sock, status = service.tunnel("127.0.0.1", origin.port)
    sock.close()
    assert status == 200
    sock, status = service.tunnel("evil.test", 443)
    sock.close()
    service.wait_record(kind="tunnel-open", allowed=False)

    def shown():
        return [json.loads(line) for line in bailey("log", "--requests", service.audit).check().text.splitlines()]
    assert [(x["method"], x["path"], x["status"], x["allowed"]) for x in shown()] == [("CONNECT", "", 200, True), ("CONNECT", "", 403, False)]
    for host, port in (("127.0.0.1", origin.port), ("evil.test", 443)):
        service.socks_tunnel(host, port)[0].close()
        with service.connect() as plain:
            plain.sendall(f"GET http://{host}:{port}/page?q HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
            while plain.recv(65536):
                pass
    every = wait_until(lambda: len(shown()) == 6 and shown(), what="six requests")
    for one in every:
        assert all(isinstance(one[name], str) for name in ("method", "path", "domain")) and isinstance(one["status"], int), one
        assert one["allowed"] == (one["status"] in (200, 0)), one
    assert sorted(one["path"] for one in every)[-2:] == ["/page", "/page"]  # without the query, which may hold secrets
