# SPDX-License-Identifier: Apache-2.0
"""DNS: the exchanges in tests/cases/dns over UDP and TCP, the synthetic pool, real answers in egress mode."""
import ipaddress
import os
import pathlib
import re
import socket
import struct

import pytest

from conftest import BUILD
from kit.dns import Answer
from kit.gateway import Client, Gateway

CASES = pathlib.Path(__file__).resolve().parents[1] / "cases/dns"
TYPES = {"A": 1, "NULL": 10, "MX": 15, "TXT": 16, "AAAA": 28, "SVCB": 64, "HTTPS": 65, "AXFR": 252, "ANY": 255}
RCODES = {"NOERROR": 0, "FORMERR": 1, "SERVFAIL": 2, "NXDOMAIN": 3, "NOTIMP": 4, "REFUSED": 5, "BADVERS": 16}
POOL = ipaddress.ip_network("198.18.0.0/15"), ipaddress.ip_network("fd00:ba11::/64")
POLICY = ["allow=*.ok.test", "deny=deny.ok.test"]


def question(kind, name, edns=False):
    wire = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
    number = TYPES[kind] if kind in TYPES else int(kind)
    head = struct.pack(">HHHHH", 0x0100, 1, 0, 0, int(edns))
    return head + wire + struct.pack(">HH", number, 1) + (b"\0\0\x29\x10\0\0\0\0\0\0\0" if edns else b"")


def unescape(text):
    return re.sub(r"\\(x[0-9a-f]{2}|0)", lambda m: chr(int(m[1][1:], 16)) if m[1][0] == "x" else "\0", text).encode("latin-1")


def over_udp(gateway, message, timeout=60.0):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(timeout)
        sock.connect(("127.0.0.1", gateway.port["dns-udp"]))
        sock.send(message)
        try:
            return sock.recv(65536)
        except TimeoutError:
            return None


def read_exact(sock, n):
    data = b""
    while len(data) < n:
        more = sock.recv(n - len(data))
        if not more:
            return None
        data += more
    return data


def over_tcp(gateway, message, timeout=60.0):
    with gateway.connect("dns-tcp", timeout) as sock:
        sock.sendall(struct.pack(">H", len(message)) + message)
        length = read_exact(sock, 2)
        return length and read_exact(sock, struct.unpack(">H", length)[0])


def decode(message, sent):
    """(rcode, addresses); everything else is checked here."""
    number, flags, questions, answers, others, additional = struct.unpack(">HHHHHH", message[:12])
    assert message[:2] == sent[:2] and flags & 0x8000 and others == 0
    at, rcode, found = 12, flags & 15, []
    if questions:
        while message[at]:
            at += message[at] + 1
        at += 5
        assert message[12:at] == sent[12:at]
    for _ in range(answers):
        pointer, kind, network, ttl, length = struct.unpack(">HHHIH", message[at:at + 12])
        assert pointer == 0xc00c and network == 1 and 0 < ttl <= 300
        found.append(ipaddress.ip_address(message[at + 12:at + 12 + length]))
        assert found[-1].version == {1: 4, 28: 6}[kind]
        at += 12 + length
    if additional:
        rcode |= message[at + 5] << 4
        at += 11
    assert at == len(message)
    return rcode, found


def ask(gateway, kind, name, over=over_udp):
    message = os.urandom(2) + question(kind, name)
    return decode(over(gateway, message), message)


def parse(path):
    cases = []
    for line in path.read_text().splitlines():
        key, _, value = line.partition(" ")
        if key == "case":
            cases.append({"name": value})
        elif key:
            assert key in ("ask", "raw", "rcode", "answer", "silent"), line
            cases[-1][key] = value
    return cases


def check(case, gateway, over):
    if "ask" in case:
        kind, name, *edns = case["ask"].split()
        message = os.urandom(2) + question(kind, name, bool(edns))
    else:
        message = os.urandom(2) + unescape(case["raw"])
    reply = over(gateway, message, 0.3 if "silent" in case else 60.0)
    if "silent" in case or reply is None:
        return [] if ("silent" in case) == (reply is None) else [f"answered: {reply}"]
    rcode, addresses = decode(reply, message)
    problems = [] if rcode == RCODES[case["rcode"]] else [f"rcode {rcode}"]
    if case["answer"] == "synthetic":
        good = len(addresses) == 1 and any(addresses[0] in net for net in POOL if net.version == addresses[0].version)
    else:
        good = addresses == [ipaddress.ip_address(a) for a in case["answer"].split() if a != "none"]
    return problems if good else problems + [f"answer {addresses}"]


@pytest.mark.parametrize("over", [over_udp, over_tcp], ids=["udp", "tcp"])
@pytest.mark.parametrize("path", sorted(CASES.glob("*.txt")), ids=lambda p: p.stem)
def test_exchanges(path, over, closing, make_dns):
    resolver = make_dns()
    gateway = closing(Gateway(BUILD, ["dns", *POLICY, f"server={resolver.port}"]))
    cases = parse(path)
    assert cases
    failed = [f"{case['name']}: {problem}" for case in cases for problem in check(case, gateway, over)]
    assert not failed, "\n" + "\n".join(failed)
    assert not resolver.asked()
    gateway.wait_event(domain="evil.test", reason="not-allowed", allowed=False, via="dns")


def test_an_address_means_one_name(closing):
    gateway = closing(Gateway(BUILD, ["dns", *POLICY]))
    seen = {}
    for i in range(500):
        rcode, addresses = ask(gateway, "A" if i % 2 else "AAAA", f"n{i}.ok.test")
        assert rcode == 0 and addresses[0] not in seen
        seen[addresses[0]] = i
    assert ask(gateway, "A", "N1.ok.test.".rstrip("."))[1] == [a for a, i in seen.items() if i == 1]


def test_the_synthetic_address_leads_to_the_name(closing, origin, tmp_path):
    """A client that resolved for itself and then speaks to the proxy by address: judged and recorded as the name."""
    gateway = closing(Gateway(BUILD, ["dns", "http", "allow=plain.ok.test", "private=plain.ok.test:1-65535"],
                              hosts=[("plain.ok.test", "127.0.0.1")], tmp_path=tmp_path))
    address = ask(gateway, "A", "plain.ok.test")[1][0]
    with gateway.connect() as sock:
        sock.sendall(f"GET http://{address}:{origin.port}/ HTTP/1.1\r\nHost: {address}:{origin.port}\r\n\r\n".encode())
        assert Client(sock).answer()[0] == 200
    assert b"Host: plain.ok.test:" in origin.received()
    gateway.wait_event(domain="plain.ok.test", kind="request", allowed=True)


def test_pipelined_tcp(closing):
    gateway = closing(Gateway(BUILD, ["dns", *POLICY]))
    messages = [os.urandom(2) + question("A", f"n{i}.ok.test") for i in range(300)]
    with gateway.connect("dns-tcp") as sock:
        sock.sendall(b"".join(struct.pack(">H", len(m)) + m for m in messages))
        for message in messages:
            reply = read_exact(sock, struct.unpack(">H", read_exact(sock, 2))[0])
            assert decode(reply, message)[0] == 0


def test_slow_and_broken_tcp(closing):
    gateway = closing(Gateway(BUILD, ["dns", "header=300ms", *POLICY]))
    for start in (b"", b"\0", b"\0\x20abc", b"\xff\xff" + bytes(100), b"\0\0"):
        with gateway.connect("dns-tcp") as sock:
            sock.sendall(start)
            assert sock.recv(1) == b""
    assert ask(gateway, "A", "plain.ok.test", over_tcp)[0] == 0


def test_garbage_over_udp(closing):
    gateway = closing(Gateway(BUILD, ["dns", *POLICY]))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", gateway.port["dns-udp"]))
        for size in (0, 1, 11, 12, 13, 100, 512, 1499, 1500, 4000):
            for _ in range(5):
                sock.send(os.urandom(size))
    assert ask(gateway, "A", "plain.ok.test")[0] == 0


def test_names_that_may_be_asked_for(closing, make_dns):
    resolver = make_dns()
    words = ["dns", "can-ask", "deny=deny.test", f"server={resolver.port}"]
    gateway = closing(Gateway(BUILD, words))
    assert len(ask(gateway, "A", "anything.test")[1]) == 1
    assert ask(gateway, "A", "deny.test") == (5, [])
    assert not resolver.asked()


def test_real_answers_are_filtered(closing, make_dns):
    resolver = make_dns({"public.ok.test": Answer(("93.184.216.34", "10.0.0.1")),
                         "private.ok.test": Answer(("10.0.0.1", "169.254.169.254"))})
    gateway = closing(Gateway(BUILD, ["dns", "real", *POLICY, f"server={resolver.port}"]))
    for over in (over_udp, over_tcp):
        assert ask(gateway, "A", "public.ok.test", over) == (0, [ipaddress.ip_address("93.184.216.34")])
        assert ask(gateway, "AAAA", "public.ok.test", over) == (0, [])
        assert ask(gateway, "A", "private.ok.test", over) == (5, [])
        assert ask(gateway, "A", "evil.test", over) == (5, [])
        assert ask(gateway, "TXT", "public.ok.test", over) == (0, [])
    asked = {q.name for q in resolver.asked()}
    assert asked == {"public.ok.test", "private.ok.test"}


def test_a_lookup_that_time_ends_is_on_record(closing, make_dns):
    """Over TCP the connection ends before the name servers have answered."""
    resolver = make_dns({"slow.ok.test": Answer(silent=True)})
    gateway = closing(Gateway(BUILD, ["dns", "real", "header=300ms", *POLICY, f"server={resolver.port}"]))
    assert over_tcp(gateway, b"\1\2" + question("A", "slow.ok.test")) is None
    event = gateway.wait_event(kind="dns", domain="slow.ok.test")
    assert (event["allowed"], event["reason"], event["status"], event["count"]) == (False, "timeout", RCODES["SERVFAIL"], 1), event


def test_floods_of_refusals_are_counted_not_lost(tmp_path, closing):
    """Made-up names, the same name over and over, refused connections: a bounded number of records, every attempt in them."""
    gateway = Gateway(BUILD, ["dns", "http", "socks", *POLICY, "workers=2"])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(60)
            sock.connect(("127.0.0.1", gateway.port["dns-udp"]))
            for number in range(6000):
                name = "same.evil.test" if number < 1000 else f"x{number}.evil.test" if number < 5000 else f"x{number}.ok.test"
                sock.send(b"\1\2" + question("A", name))
                assert sock.recv(512)[:2] == b"\1\2"
        with gateway.connect() as sock:
            client = Client(sock)
            for _ in range(500):
                sock.sendall(b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\nCONNECT evil.test:443 HTTP/1.1\r\n\r\n")
                assert client.answer()[0] == 403 and client.answer()[0] == 403
        for _ in range(200):
            with gateway.connect("socks") as sock:
                sock.sendall(b"\5\1\0\5\1\0\3\x09evil.test\1\xbb")
                assert read_exact(sock, 4)[3] == 2
    finally:
        gateway.close()
    attempts, records = {}, {}
    for event in gateway.events:
        key = event["via"], event["allowed"]
        attempts[key] = attempts.get(key, 0) + event["count"]
        records[key] = records.get(key, 0) + 1
    assert attempts == {("dns", False): 5000, ("dns", True): 1000, ("http", False): 500, ("connect", False): 500, ("socks5", False): 200}
    assert sum(records.values()) < 4000, records  # a burst, and a rate since then, on a slow machine too
    assert records["http", False] <= 2 * 65 and records["connect", False] <= 2 * 65
    same = [e for e in gateway.events if e["domain"] == "same.evil.test"]
    assert sum(e["count"] for e in same) == 1000 and len(same) <= 2 * 65
