# SPDX-License-Identifier: Apache-2.0
"""Targets that must be refused (tests/cases/gateway), by every way in, with an origin where a mistake would lead.

A refusal is: nothing at the origin, no question to a name server, one audit record with the reason, and an answer that says so.
"""
import ipaddress
import json
import pathlib
import re
import select
import socket
import struct
import time

import pytest

from kit.dns import Answer, encode_name
from kit.origin import Origin
from kit.process import wait_until

CASES = pathlib.Path(__file__).resolve().parents[1] / "cases/gateway"
REFUSED = 5
NAMES = [(name, "127.0.0.1") for name in ("api.ok.test", "deny.ok.test", "other.ok.test", "evil.test", "ok.test", "evilok.test",
                                          "evil-ok.test", "api.ok.test.evil.test", "api.ok.tes", "api.ok.testt", "test", "com")]
NAMES += [("private.ok.test", "10.1.2.3"), ("mapped.ok.test", "::ffff:127.0.0.1"), ("meta.ok.test", "169.254.169.254"),
          ("nat64.ok.test", "64:ff9b::7f00:1"), ("mixed.ok.test", "198.41.0.4"), ("mixed.ok.test", "127.0.0.1")]


def parse(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            host, reasons = line.rsplit(None, 1)
            text = re.sub(r"\{(\d+)\}", lambda m: "a" * int(m[1]), host)
            raw = re.sub(r"\\x([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), text).encode("latin-1")
            yield number, raw, reasons.split("|")


class Log:
    """The audit log, read on where it was left."""

    def __init__(self, service):
        self.file = open(service.audit, "rb")
        self.pending = b""

    def fresh(self):
        self.pending += self.file.read()
        whole, _, self.pending = self.pending.rpartition(b"\n")
        return [r for r in map(json.loads, whole.splitlines()) if r["kind"] != "note"]

    def close(self):
        self.file.close()


class Origins:
    """Listens at one port on every address of loopback that a bad target might mean."""

    def __init__(self):
        self.all = [Origin()]
        self.port = self.all[0].port
        for address in ("127.0.0.2", "::1"):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            self.all.append(Origin(sock=socket.create_server((address, self.port), family=family)))

    def reached(self):
        return [c for origin in self.all for c in origin.connections]

    def close(self):
        for origin in self.all:
            origin.close()


@pytest.fixture
def origins(closing):
    return closing(Origins())


def http_answer(service, request):
    with service.connect() as sock:
        sock.sendall(request)
        got = b""
        while b"\r\n\r\n" not in got and (data := sock.recv(65536)):
            got += data
    reason = re.search(rb"x-bailey-reason: (\S+)", got)
    return int(got.split()[1]) if got else 0, reason and reason[1].decode()


def by_connect(service, host, port):
    return http_answer(service, b"CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n" % (host, port, host, port))


def by_http(service, host, port):
    return http_answer(service, b"GET http://%s:%d/ HTTP/1.1\r\nHost: %s:%d\r\n\r\n" % (host, port, host, port))


def by_socks(service, address, port):
    sock, code = service.socks_request(address, port)
    sock.close()
    return code, None


def by_socks_name(service, host, port):
    return by_socks(service, b"\3" + bytes([len(host)]) + host, port) if len(host) < 256 else None


def by_socks_address(service, host, port):
    bare = host[1:-1] if host[:1] + host[-1:] == b"[]" else host
    try:
        address = ipaddress.ip_address(bare.decode("latin-1"))
    except ValueError:
        return None
    if b"%" in bare or (bare is host) != (address.version == 4):
        return None
    return by_socks(service, (b"\1" if address.version == 4 else b"\4") + address.packed, port)


def by_dns(service, host, _):
    labels = host.removesuffix(b".").split(b".")
    name = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    if not labels or any(not 0 < len(label) < 64 for label in labels) or len(name) > 255 or host[:1] == b"[":
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", service.port["dns"]))
        sock.send(struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + name + struct.pack("!HH", 1, 1))
        assert select.select([sock], [], [], 5)[0], f"no answer to {host}"
        return sock.recv(4096)[3] & 15, None


WAYS = [by_connect, by_http, by_socks_name, by_socks_address, by_dns]
LOCAL = re.compile(rb"(?i)(.*\.)?localhost\.?$")


def problems_of(way, host, reasons, service, log, port):
    got = way(service, host, port)
    if got is None:
        return []
    status, said = got
    if way is by_dns:
        if LOCAL.match(host):
            return []  # the asker's own loopback: said without a lookup and without a record
        if host == b"mixed.ok.test":
            wait_until(log.fresh)
            return []  # the bad one of its addresses is filtered out (test_gateway_dns)
        # What is dialled is refused by address; the question itself may find nothing to filter (a name in brackets is no name).
        wanted, reasons = (REFUSED,), [*reasons, "bad-name"]
    elif way in (by_connect, by_http):
        wanted = (400,) if reasons == ["bad-name"] else (400, 403)
    else:
        wanted, reasons = (2,), [*reasons, "bad-name"]  # as a name, an IPv6 address has no brackets, so it is no name
    problems = [] if status in wanted else [f"answered {status}, not {wanted}"]
    records = wait_until(log.fresh, what=f"a record of {host} {way.__name__}")
    if len(records) != 1 or records[0]["allowed"]:
        problems.append(f"recorded as {records}")
    elif records[0]["reason"] not in reasons:
        problems.append(f"reason {records[0]['reason']}, not {reasons}")
    elif said is not None and said != records[0]["reason"]:
        problems.append(f"said {said}, recorded {records[0]['reason']}")
    return problems


@pytest.mark.parametrize("path", sorted(CASES.glob("*.txt")), ids=lambda path: path.stem)
def test_refused_by_every_way_in(path, make_service, make_dns, origins, closing):
    dns = make_dns({})
    service = make_service({"allow": ["*.ok.test"], "deny": ["deny.ok.test"], "allow_private": [f"api.ok.test:{origins.port}"],
                            "dns_servers": [f"127.0.0.1:{dns.port}"]}, names=NAMES)
    log = closing(Log(service))
    log.fresh()
    failed, cases = [], list(parse(path))
    assert len(cases) > 50
    for number, host, reasons in cases:
        for way in WAYS:
            failed += [f"{path.name}:{number}: {host} {way.__name__}: {problem}"
                       for problem in problems_of(way, host, reasons, service, log, origins.port)]
            failed += [f"{path.name}:{number}: {host} {way.__name__}: reached the origin" for _ in origins.reached()[:1]]
            assert len(failed) < 40, "\n" + "\n".join(failed)
    assert not failed, "\n" + "\n".join(failed)
    assert dns.asked() == []
    # The way stays open for who may use it: all of the above was refused for a reason, not for a fault.
    for way, code in ((by_connect, 200), (by_http, 200), (by_socks_name, 0)):
        assert way(service, b"API.ok.test.", origins.port)[0] == code
    wait_until(lambda: len(origins.reached()) == 3, what="three connections")
    assert len(origins.all[0].connections) == 3


# The gateway itself


def test_its_own_listeners_are_out_of_reach(make_service):
    """By address and by name, although the policy opens all of loopback."""
    service = make_service({"allow": ["*.ok.test", "127.0.0.0/8"], "allow_private": ["127.0.0.0/8:1-65535", "api.ok.test:1-65535"]},
                           names=["api.ok.test"])
    for port in service.port.values():
        for host in (b"127.0.0.1", b"api.ok.test", b"[::ffff:127.0.0.1]", b"localhost"):
            for way, code in ((by_connect, 403), (by_http, 403), (by_socks_name, 2)):
                assert way(service, host, port)[0] == code, (host, port, way)
    assert {r["reason"] for r in service.records(allowed=False)} <= {"self", "not-allowed", "address-class", "bad-name"}
    service.wait_record(allowed=False, reason="self")
    assert service.records(allowed=True) == []


@pytest.mark.parametrize("network", [
    {"allow": ["169.254.169.254"], "allow_private": ["169.254.169.254:80"]},
    {"allow": ["*.ok.test"], "allow_private": ["169.254.0.0/16:1-65535", "meta.ok.test:80"], "deny_cidrs": []},
    {"allow": ["0.0.0.0/0", "::/0", "*.ok.test"], "deny_cidrs": []},
], ids=["named", "network", "no-denies"])
def test_metadata_is_never_opened(make_service, make_dns, network):
    dns = make_dns({"meta.ok.test": Answer(("169.254.169.254",))})
    try:
        service = make_service({**network, "dns_servers": [f"127.0.0.1:{dns.port}"]})
    except AssertionError as error:  # said at the start is as good
        assert "metadata" in str(error) or "169.254.169.254" in str(error)
        return
    for host in (b"169.254.169.254", b"[::ffff:169.254.169.254]", b"[64:ff9b::169.254.169.254]", b"[fd00:ec2::254]", b"meta.ok.test"):
        assert by_connect(service, host, 80)[0] == 403, host
        assert by_http(service, host, 80)[0] == 403, host
    assert service.records(allowed=True, kind="tunnel-open") == []


# Names whose answers lie


LIES = {
    "public-and-private": Answer(("198.41.0.4", "127.0.0.1")),
    "both-families": Answer(("2001:500:2::c", "127.0.0.1")),
    "private-v6": Answer(("198.41.0.4", "::1")),
    "mapped": Answer(("::ffff:127.0.0.1",)),
    "6to4": Answer(("2002:7f00:1::1",)),
    "unspecified": Answer(("0.0.0.0",)),
    "unspecified-v6": Answer(("::",)),
    "cname-to-private": Answer(("127.0.0.1",), cname="internal.evil.test"),
    "cname-to-metadata": Answer(("169.254.169.254",), cname="metadata.google.internal"),
    "broadcast": Answer(("255.255.255.255",)),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_with_a_bad_address_refuses_the_name(lie, make_service, make_dns, origins):
    dns = make_dns({"lie.ok.test": LIES[lie]})
    service = make_service({"allow": ["*.ok.test"], "allow_private": [f"api.ok.test:{origins.port}"],
                            "dns_servers": [f"127.0.0.1:{dns.port}"]})
    for way, code in ((by_connect, 403), (by_http, 403), (by_socks_name, 2)):
        assert way(service, b"lie.ok.test", origins.port)[0] == code
    assert {q.name.lower() for q in dns.asked()} == {"lie.ok.test"}
    wait_until(lambda: len(service.records(allowed=False)) >= 3, what="three records")
    refusals = service.records(allowed=False)
    assert len(refusals) == 3 and {r["reason"] for r in refusals} <= {"address-class", "self"}
    assert all(r["addr"] for r in refusals), "the address that was refused"
    assert origins.reached() == []


def test_an_answer_that_changes_is_judged_each_time(make_service, make_dns, origins):
    """Opened for one address of loopback; the name moves to another, which is not opened, and back."""
    good, bad = Answer(("127.0.0.1",), ttl=0), Answer(("127.0.0.2",), ttl=0)
    dns = make_dns({"api.ok.test": [good, good, bad, bad, bad, bad, good]})
    service = make_service({"allow": ["*.ok.test"], "allow_private": [f"127.0.0.1:{origins.port}"],
                            "dns_servers": [f"127.0.0.1:{dns.port}"]})
    codes = []
    for _ in range(30):
        codes.append(by_connect(service, b"api.ok.test", origins.port)[0])
        if codes[-1] == 200 and 403 in codes:
            break
        time.sleep(0.3)  # an answer is remembered for a second at least
    assert codes[0] == 200 and codes[-1] == 200 and 403 in codes, codes
    assert origins.all[1].connections == []  # 127.0.0.2
    for record in service.records(allowed=True, kind="tunnel-open"):
        assert record["addr"] == "127.0.0.1"


@pytest.mark.parametrize("kind", [16, 10, 255, 252, 251, 65, 64, 12, 15, 33, 257, 65535])
def test_other_types_send_nothing_out(kind, make_service, make_dns):
    dns = make_dns({"api.ok.test": Answer(("198.41.0.4",))})
    service = make_service({"allow": ["*.ok.test"], "dns_servers": [f"127.0.0.1:{dns.port}"]})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(60)
        sock.connect(("127.0.0.1", service.port["dns"]))
        for name in ("api.ok.test", "evil.test", "c2VjcmV0IGRhdGE.evil.test"):
            sock.send(struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + encode_name(name) + struct.pack("!HH", kind, 1))
            answer = sock.recv(4096)
            assert answer[3] & 15 == (0 if name == "api.ok.test" and kind not in (251, 252) else REFUSED)
            assert answer[6:8] == b"\0\0"
    assert dns.asked() == []
