# SPDX-License-Identifier: Apache-2.0
"""Every attempt to reach something is on record and counts: UDP, ICMP and the rest, and in modes without network all of it."""
import json
import pathlib
import platform

import pytest

from conftest import BUILD
from kit.control import sockets, wait_for

pytestmark = pytest.mark.visible_home

PYTHON = "/usr/bin/python3"
SYS_SOCKET = {"aarch64": 198, "x86_64": 41}[platform.machine()]
UDP4 = "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.7', 9999))"
ATTEMPTS = [
    ("udp", "192.0.2.7", 9999, UDP4),
    ("udp", "192.0.2.7", 9999, "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('192.0.2.7', 9999)); s.send(b'x')"),
    ("udp", "2001:db8::7", 443, "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('2001:db8::7', 443))"),
    ("udp", "224.0.0.251", 5353, "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('224.0.0.251', 5353))"),
    ("udp", "ff02::fb", 5353, "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('ff02::fb', 5353, 0, 1))"),
    ("udp", "255.255.255.255", 67, "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_SOCKET,"
     " socket.SO_BROADCAST, 1); s.sendto(b'x', ('255.255.255.255', 67))"),
    ("icmp", "192.0.2.8", 0, "socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1).sendto(b'\\x08' + bytes(7), ('192.0.2.8', 0))"),
    ("icmp", "2001:db8::8", 0, "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, 58).sendto(b'\\x80' + bytes(7), ('2001:db8::8', 0))"),
]
TCP = [
    ("tcp", "192.0.2.9", 80, "socket.create_connection(('192.0.2.9', 80), 5)"),
    ("tcp", "2001:db8::9", 443, "socket.create_connection(('2001:db8::9', 443), 5)"),
    ("tcp", "192.0.2.9", 53, "socket.create_connection(('192.0.2.9', 53), 5)"),
]

# Sockets for packets of any kind: the kernel refuses them before there is a packet.
CALL = "import ctypes, os; fd = ctypes.CDLL(None).syscall({nr}, *map(ctypes.c_long, ({family}, {kind}, {protocol}))); assert fd < 0; print('not permitted')"
RAW = [
    ("ip", "raw socket", "socket.socket(socket.AF_INET, socket.SOCK_RAW, 255)"),
    ("icmp", "raw socket", "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)"),
    ("icmp", "raw socket", "socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)"),
    ("ip", "raw socket", "socket.socket(socket.AF_INET6, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 6)"),
    ("ip", "packet socket", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300)"),
    ("ip", "packet socket", "socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)"),
    ("ip", "packet socket", "socket.socket(socket.AF_INET, 10, 0x300)"),
    ("icmp", "raw socket", CALL.format(nr=SYS_SOCKET, family="socket.AF_INET + (7 << 32)", kind="socket.SOCK_RAW + (5 << 32)", protocol=1)),
]


@pytest.fixture
def attempt(bailey, work, tmp_path):
    """What one line of Python leaves in the record; it must have failed, or have had no effect."""
    def go(code, *options, status=0):
        audit = tmp_path / "audit.jsonl"
        audit.unlink(missing_ok=True)
        script = f"import socket\ntry:\n  {code}\nexcept OSError as e: print(e)"
        result = bailey("run", "--audit", audit, *options, "--", PYTHON, "-c", script, cwd=work)
        assert result.status == status, result.errors
        records = [json.loads(line) for line in audit.read_text().splitlines()]
        return result, [r for r in records if r.get("allowed") is False]
    return go


def found(records, protocol, address, port):
    return [r for r in records if (r["scheme"], r["domain"], r["port"] or 0) == (protocol, address, port)]


@pytest.mark.parametrize("protocol, address, port, code", ATTEMPTS)
def test_refused_packets(attempt, protocol, address, port, code):
    result, denied = attempt(code, "--allow", "example.com")
    assert found(denied, protocol, address, port), denied
    assert {r["reason"] for r in denied} == {"transport"}
    assert f"refused {protocol.upper()} {address}" in result.errors


# To port 53 of some host, and no question: Bailey's own DNS takes these.
NO_QUESTIONS = {
    "a packet of one byte": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.7', 53))",
    "a packet, to a name server": "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'secret' * 9, ('2001:db8::53', 53))",
    "an answer": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'\\0\\1\\x80' + bytes(9), ('192.0.2.7', 53))",
    "a packet that is too long": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(bytes(2000), ('192.0.2.7', 53))",
    "a connection": "socket.create_connection(('192.0.2.7', 53), 5).close()",
    "a connection, with other bytes": "socket.create_connection(('192.0.2.7', 53), 5).sendall(b'GET / HTTP/1.0' * 9)",
    "a connection, with half a question": "socket.create_connection(('192.0.2.7', 53), 5).sendall(bytes([0, 99]) + b'x')",
}


@pytest.mark.parametrize("which", NO_QUESTIONS)
def test_what_is_no_question_of_dns(attempt, which):
    result, refused = attempt(NO_QUESTIONS[which], "--allow", "example.com")
    assert [(r["reason"], r["via"]) for r in refused] == [("protocol", "dns")], refused
    assert "refused" in result.errors, result


@pytest.mark.parametrize("mode", ["workspace-write", "workspace-write-whitelist", "full-network"])
@pytest.mark.parametrize("protocol, what, code", RAW)
@pytest.mark.rows
def test_refused_sockets(attempt, protocol, what, code, mode):
    result, denied = attempt(code, "--mode", mode)
    assert "not permitted" in result.text, result
    assert {(r["kind"], r["scheme"], r["method"], r["reason"]) for r in denied} == {("packet", protocol, what, "transport")}, denied
    assert f"refused {what}" in result.errors


def test_many_refused_sockets(attempt):
    """A flood of them is one line of the record."""
    _, denied = attempt("for _ in range(3000):\n    try: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\n    except OSError: pass")
    assert 1 <= len(denied) <= 64, len(denied)


@pytest.mark.parametrize("mode", ["workspace-write", "read-only", "full-network"])
def test_every_mode(attempt, mode):
    _, denied = attempt(UDP4, "--mode", mode)
    assert found(denied, "udp", "192.0.2.7", 9999)
    assert denied[0]["reason"] == ("transport" if mode == "full-network" else "no-network")


@pytest.mark.parametrize("protocol, address, port, code", ATTEMPTS + TCP)
def test_without_network(attempt, protocol, address, port, code):
    result, denied = attempt(code, "--mode", "workspace-write")
    assert found(denied, protocol, address, port), denied
    assert {r["reason"] for r in denied} == {"no-network"}
    if protocol == "tcp":
        assert result.text.strip(), "the connection was made"


@pytest.mark.parametrize("options", [["--mode", "workspace-write"], ["--mode", "read-only"], ["--preset", "ci"], ["--agent", "locked"]])
def test_names_without_network(attempt, config, options):
    config.write_text("agents: {locked: {networkAccess: sandboxed}}\n")
    result, denied = attempt("socket.getaddrinfo('evil.test', 80)", *options)
    assert result.text.strip()
    names = [r for r in denied if r["kind"] == "dns"]
    assert names and {r["domain"] for r in names} == {"evil.test"} and {r["reason"] for r in names} == {"no-network"}


def test_own_name_is_no_attempt(attempt):
    _, denied = attempt("socket.getaddrinfo(socket.gethostname(), 80)", "--mode", "workspace-write")
    assert not denied


def test_own_servers_without_network(bailey, work):
    """Nothing inside is refused: servers on loopback, and on every address."""
    script = """
import socket
for listen, connect in ("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "::1"), ("127.0.0.5", "127.0.0.5"):
    s = socket.create_server((listen, 0), family=socket.AF_INET6 if ":" in listen else socket.AF_INET)
    c = socket.create_connection((connect, s.getsockname()[1]), 5); a = s.accept()[0]; c.send(b"x"); assert a.recv(1) == b"x"
u, v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(("127.0.0.1", 0)); v.sendto(b"y", u.getsockname()); assert u.recv(1) == b"y"
"""
    result = bailey("run", "--mode", "workspace-write", "--", PYTHON, "-c", script, cwd=work).check()
    assert result.errors == ""


def test_no_gateway_without_an_attempt(bailey, work, tmp_path):
    bailey("run", "--mode", "read-only", "--audit", tmp_path / "a", "--", "true", cwd=work).check()
    assert "gateway started" not in (tmp_path / "a").read_text()


@pytest.mark.parametrize("mode", ["sandboxed", "whitelist"])
def test_counts_for_the_monitor(bailey, work, config, mode):
    config.write_text(f"agents: {{locked: {{networkAccess: {mode}, monitorEnabled: true, autoKillOnThreat: true}}}}\n"
                      "monitor: [{violations: 3, within: 60s, action: kill}]\n")
    script = f"import socket, time\nfor i in range(10):\n  try: {UDP4}\n  except OSError: pass\ntime.sleep(100); print('survived')"
    result = bailey("run", "--agent", "locked", "--", PYTHON, "-c", script, cwd=work)
    assert result.status == 137 and "survived" not in result.text and "3 violations" in result.errors


def test_connections_count_for_the_monitor(bailey, work, config):
    config.write_text("agents: {locked: {networkAccess: sandboxed, monitorEnabled: true, autoKillOnThreat: true}}\n"
                      "monitor: [{violations: 3, within: 60s, action: kill}]\n")
    script = "for i in 1 2 3 4 5 6 7 8 9 10; do curl -sm2 http://192.0.2.1/; done; sleep 100; echo survived"
    result = bailey("run", "--agent", "locked", "--", "sh", "-c", script, cwd=work)
    assert result.status == 137 and "survived" not in result.text


def test_flood_adds_up(bailey, work, tmp_path):
    """What does not fit is counted, and what is counted adds up."""
    n = 20000
    script = f"""
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range({n}):
    try: s.sendto(b'x', ('192.0.2.7', 1 + i % 3000))
    except OSError: pass
"""
    audit = tmp_path / "audit.jsonl"
    bailey("run", "--mode", "workspace-write", "--audit", audit, "--", PYTHON, "-c", script, cwd=work).check()
    denied = [r for r in map(json.loads, audit.read_text().splitlines()) if r.get("allowed") is False]
    assert sum(r.get("count") or 1 for r in denied) == n
    assert len(denied) < 5000


def test_log_shows_them(bailey, work):
    bailey("run", "--mode", "workspace-write", "--", PYTHON, "-c", f"import socket\ntry: {UDP4}\nexcept OSError: pass", cwd=work).check()
    shown = bailey("log", "--denied", cwd=work).check().text
    assert "DENY" in shown and "UDP 192.0.2.7:9999" in shown and "no network" in shown
    requests = [json.loads(line) for line in bailey("log", "--requests", cwd=work).check().text.splitlines()]
    assert [(r["domain"], r["allowed"]) for r in requests] == [("192.0.2.7", False)]


def test_events_show_them(bailey, start, work, home):
    code = f"import socket, time\ntime.sleep(2)\ntry: {UDP4}\nexcept OSError: pass\ntime.sleep(1)"
    child = start(["bailey", "run", "--mode", "workspace-write", "--", PYTHON, "-c", code], cwd=work)
    (path,) = wait_for(lambda: sockets(home), "a control socket")
    shown = bailey("events", "-f", "--json", path.stem, cwd=work).text
    events = [json.loads(line) for line in shown.splitlines() if '"packet"' in line]
    assert [(e["domain"], e["port"], e["protocol"], e["allowed"]) for e in events] == [("192.0.2.7", 9999, "udp", False)], shown
    child.wait(30)


@pytest.mark.exact_build  # a sanitizer's library cannot be loaded into an ordinary interpreter
def test_library(run, work):
    top = pathlib.Path(__file__).resolve().parents[2]
    code = f"import socket\ntry: {UDP4}\nexcept OSError: pass"
    script = f"""
import bailey
with bailey.Manager(bailey.Config("default")) as m:
    print([(v.operation, v.target) for v in m.exec_args([{PYTHON!r}, "-c", {code!r}], settings={{"mode": "workspace-write"}}).violations])
"""
    env = {"PYTHONPATH": str(top / "bindings/python"), "BAILEY_LIBRARY": str(BUILD / "src/api/libbailey.so.0"),
           "PYTHONDONTWRITEBYTECODE": "1"}
    assert "UDP 192.0.2.7:9999" in run([PYTHON, "-c", script], cwd=work, env=env, timeout=120).check().text
