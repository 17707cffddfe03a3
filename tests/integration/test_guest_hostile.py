# SPDX-License-Identifier: Apache-2.0
"""A guest that does its worst to the machine: forks without end, packets of every kind to anywhere, a disk that is full."""
import json
import pathlib
import socket
import subprocess

import pytest

from kit.small_disk import filled, small_disk
from test_guest_life import guest, inside, rows, state, top  # noqa: F401

SENDERS = """
import socket
def tried(what, make):
    try:
        make()
        print(what, "sent")
    except OSError as error:
        print(what, "refused")
for name, family, address in (("udp", socket.AF_INET, "127.0.0.1"), ("udp6", socket.AF_INET6, "::1")):
    tried(name, lambda: socket.socket(family, socket.SOCK_DGRAM).sendto(b"from the guest", (address, PORT)))
tried("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW))
tried("raw icmp", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
tried("raw icmp6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6))
tried("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
tried("tcp", lambda: socket.create_connection(("127.0.0.1", PORT), timeout=5))
"""


def one_port_of_both_kinds():
    """A datagram socket and a listening one with the same number. Others may have taken a number for one of them."""
    for _ in range(50):
        datagrams, streams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket()
        try:
            streams.bind(("127.0.0.1", 0))
            datagrams.bind(streams.getsockname())
            streams.listen()
            return datagrams, streams
        except OSError:
            datagrams.close()
            streams.close()
    raise AssertionError("no number is free for both")


def test_packets_reach_nothing_of_the_host(guest):
    guest("create", "one").check()
    datagrams, streams = one_port_of_both_kinds()
    with datagrams, streams:
        port = datagrams.getsockname()[1]
        said = guest("exec", "one", "--", "/usr/bin/python3", "-c", f"PORT = {port}\n{SENDERS}").check().text
        datagrams.settimeout(1)
        streams.settimeout(1)
        with pytest.raises(TimeoutError):
            datagrams.recv(100)
        with pytest.raises(TimeoutError):
            streams.accept()
    answers = dict(line.rsplit(" ", 1) for line in said.splitlines())
    assert {what for what, answer in answers.items() if answer == "refused"} >= {"raw", "raw icmp", "raw icmp6", "packet", "tcp"}, said


ANYWHERE = """
import socket
def send(family, kind, protocol, to, data=b"x"):
    try:
        with socket.socket(family, kind, protocol) as s:
            s.settimeout(5)
            s.sendto(data, to)
    except OSError:
        pass
send(socket.AF_INET, socket.SOCK_DGRAM, 0, ("192.0.2.1", 9))
send(socket.AF_INET6, socket.SOCK_DGRAM, 0, ("2001:db8::1", 9))
send(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP, ("192.0.2.2", 0), bytes([8]) + bytes(7))
send(socket.AF_INET6, socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6, ("2001:db8::2", 0), bytes([128]) + bytes(7))
send(socket.AF_INET, socket.SOCK_DGRAM, 0, ("192.0.2.3", 53), bytes.fromhex("123401000001000000000000") + b"\\x06secret\\x04test\\0" + bytes.fromhex("00010001"))
send(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP, ("192.0.2.5", 0), bytes([8]) + bytes(7))
send(socket.AF_PACKET, socket.SOCK_RAW, 0, ("lo", 0), bytes(60))
try:
    socket.create_connection(("192.0.2.4", 22), timeout=5).recv(1)
except OSError:
    pass
"""


def test_packets_to_anywhere_are_on_record(guest, bailey):
    """Each protocol with its address; a question for a name with the name."""
    guest("create", "one").check()
    guest("exec", "one", "--", "/usr/bin/python3", "-c", ANYWHERE).check()
    guest("stop", "one").check()
    records = [json.loads(line) for line in bailey("log", "--json").check().text.splitlines()]
    refused = {(record["kind"], record["scheme"], record["domain"]) for record in records if record.get("allowed") is False}
    assert {("packet", "udp", "192.0.2.1"), ("packet", "udp", "2001:db8::1"), ("packet", "icmp", "192.0.2.2"), ("packet", "icmp", "2001:db8::2")} <= refused, refused
    assert any(kind == "dns" and domain == "secret.test" for kind, _, domain in refused), refused
    assert any(domain == "192.0.2.4" for _, _, domain in refused), refused
    assert {"raw socket", "packet socket"} <= {record["method"] for record in records if record["kind"] == "packet"}, "sockets that were never made"


def test_forks_without_end(guest):
    guest("create", "--limit-processes", "64", "one").check()
    guest("create", "two").check()
    guest("exec", "-d", "one", "--", "sh", "-c", "bomb() { bomb | bomb & }; while :; do bomb 2>/dev/null; sleep 0.1; done").check()
    assert inside(guest, "two", "echo well").check().text == "well\n", "the neighbour goes on"
    guest("delete", "--force", "one").check()
    assert set(rows(guest)) == {"two"}
    left = subprocess.run(["ps", "axo", "args"], capture_output=True, text=True, check=True).stdout
    assert "bomb | bomb" not in left


@pytest.mark.root
def test_a_full_disk(guest, home, tmp_path):
    """What there is no room for is refused with that reason, and nothing that was there is lost."""
    with small_disk(home, "24m") as place:
        guest("create", "one").check()
        inside(guest, "one", "echo precious > file; head -c 3000000 /dev/urandom > noise").check()
        guest("stop", "one").check()
        recipe = tmp_path / "recipe.yaml"
        recipe.write_text("files:\n  big: " + "x" * 300000 + "\n")
        recipe.chmod(0o600)
        with filled(place):
            for words in (("snapshot", "one", "full"), ("archive", "one"), ("provision", "one", recipe), ("create", "two")):
                refused = guest(*words)
                assert refused.status not in (0, 139) and ("space" in refused.errors or "room" in refused.errors), (words, refused)
        assert state(guest, "one") == "stopped" and set(rows(guest)) == {"one"}
        assert inside(guest, "one", "cat file; wc -c < noise; ls -A").check().text == "precious\n3000000\nfile\nnoise\n"
        guest("stop", "one").check()
        guest("provision", "one", recipe).check()
        guest("snapshot", "one", "now").check()
        assert [row["label"] for row in json.loads(guest("snapshots", "--json", "one").check().text)] == ["now"]
        guest("delete", "--force", "one").check()
        assert list((place / "guests").iterdir()) == []


@pytest.mark.root
def test_a_full_disk_and_what_is_there(guest, home, tmp_path):
    """Verbs on guests that were there before: each does its work or says that there is no room, and the next one finds all as it was."""
    with small_disk(home, "24m") as place:
        for name in ("one", "packed", "going"):
            guest("create", name).check()
            inside(guest, name, f"echo {name} > file; head -c 1000000 /dev/urandom > noise").check()
            guest("stop", name).check()
        guest("snapshot", "one", "s").check()
        guest("archive", "packed").check()
        large = tmp_path / "large"
        large.write_bytes(bytes(range(256)) * 4000)
        with filled(place):
            needs_room = ["restore one s", "unarchive packed", f"cp {large} one:copied"]
            for words in (*needs_room, "exec -d one -- true", "set --idle 1h one", "rename one other"):
                said = guest(*words.split())
                assert said.status != 0 or words not in needs_room, words
                assert said.status == 0 or (said.status != 139 and any(word in said.errors for word in ("space", "room", "full"))), str(said)
            gone = guest("delete", "--force", "going")
            assert gone.status == 0 or any(word in gone.errors for word in ("space", "room", "full")), gone
        found = rows(guest)
        name = "other" if "other" in found else "one"
        assert {name, "packed"} <= set(found) and found["packed"]["state"] == "archived", (found, gone)
        assert gone.status == 0 or inside(guest, "going", "cat file; wc -c < noise").check().text == "going\n1000000\n", gone
        guest("stop", name).check()
        assert inside(guest, name, "cat file; wc -c < noise; ls -A").check().text == "one\n1000000\nfile\nnoise\n"
        guest("stop", name).check()
        guest("restore", name, "s").check()
        guest("unarchive", "packed").check()
        assert inside(guest, "packed", "cat file; wc -c < noise").check().text == "packed\n1000000\n"
        for name in rows(guest):
            guest("delete", "--force", name).check()
        assert list((place / "guests").iterdir()) == []
