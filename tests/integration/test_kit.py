# SPDX-License-Identifier: Apache-2.0
"""The instruments themselves: a recorder that misses bytes would make every refusal look right."""
import os
import pathlib
import socket
import ssl
import time

import pytest

from kit import leaks
from kit.dns import Answer, DnsServer
from kit.git import no_deadlocks
from kit.process import Child, wait_until


def test_origin_records_every_byte(origin):
    first = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    second = b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", origin.port)) as client:
        client.sendall(first + second + b"GET /cut")
        wait_until(lambda: origin.received() == first + second + b"GET /cut", what="the record")
        assert client.recv(9) == b"HTTP/1.1 "
    assert origin.requests() == [first, second]


def test_origin_speaks_tls_and_knows_the_name(make_origin, authority):
    origin = make_origin(tls=authority.context("api.ok.test"))
    context = ssl.create_default_context(cafile=authority.file)
    with socket.create_connection(("127.0.0.1", origin.port)) as plain:
        with context.wrap_socket(plain, server_hostname="api.ok.test") as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert client.recv(12) == b"HTTP/1.1 200"
    assert origin.connections[0].server_name == "api.ok.test"


def test_expired_and_foreign_certificates_are_what_they_claim(make_origin, authority):
    origin = make_origin(tls=authority.context("api.ok.test", days=-1))
    context = ssl.create_default_context(cafile=authority.file)
    with socket.create_connection(("127.0.0.1", origin.port)) as plain:
        try:
            context.wrap_socket(plain, server_hostname="api.ok.test")
        except ssl.SSLCertVerificationError as error:
            assert "expired" in str(error)
        else:
            raise AssertionError("an expired certificate was accepted")


def _ask(port, name, kind=1):
    from kit.dns import encode_name
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(60)
        client.sendto(b"\x12\x34\x01\x00\0\1\0\0\0\0\0\0" + encode_name(name) + bytes([0, kind, 0, 1]), ("127.0.0.1", port))
        return client.recv(4096)


def test_dns_answers_in_turn_and_records(make_dns):
    dns = make_dns({"a.test": [Answer(("192.0.2.1",)), Answer(("127.0.0.1", "::1"))], "slow.test": Answer(silent=True)})
    assert _ask(dns.port, "a.test").endswith(bytes([192, 0, 2, 1]))
    assert _ask(dns.port, "A.test").endswith(bytes([127, 0, 0, 1]))
    assert _ask(dns.port, "a.test", 28).endswith(bytes(15) + b"\1")
    assert _ask(dns.port, "other.test")[3] & 15 == 3
    assert [q.name for q in dns.asked()] == ["a.test", "A.test", "a.test", "other.test"]


def test_namespaces_are_apart_and_can_be_linked(make_namespace, make_origin):
    one = make_namespace()
    two = make_namespace(inside=one)
    one.link(two, "10.7.0.1/24", "10.7.0.2/24")
    origin = make_origin(sock=two.listen("10.7.0.2", 8080))
    assert one.run(["curl", "-s", "--max-time", "5", "http://10.7.0.2:8080/"]).check().out == b"origin\n"
    assert make_namespace().run(["curl", "-s", "--max-time", "2", "http://10.7.0.2:8080/"]).status != 0
    assert len(origin.requests()) == 1


def test_a_program_that_hangs_is_ended_and_reported(start):
    child = start(["sleep", "60"])
    try:
        child.wait(timeout=0.2)
    except AssertionError as error:
        assert "did not end within" in str(error)
    else:
        raise AssertionError("the timeout was not noticed")
    assert not child.running()


def test_leaks_are_seen(tmp_path):
    clean = tmp_path / "watched"
    clean.mkdir()
    watch = leaks.Watch(clean)
    descriptor = os.open("/dev/null", os.O_RDONLY)
    (clean / "file").touch()
    child = Child(["sh", "-c", "sleep 60 & echo $!"])  # the orphan outlives the shell that started it
    child.wait()
    orphan = int(child.output())
    wait_until(lambda: pathlib.Path(f"/proc/{orphan}/cmdline").read_bytes().startswith(b"sleep\0"), what="the shell's child to become sleep")
    left = "\n".join(watch.check(grace=0.1))
    os.kill(orphan, 9)
    os.close(descriptor)
    (clean / "file").unlink()
    child.stop()
    assert f"process {orphan}: sleep 60" in left
    assert f"descriptor {descriptor}: /dev/null" in left
    assert "temporary file" in left
    assert watch.check() == []


def test_dns_server_closes_promptly():
    before = time.monotonic()
    with DnsServer({}):
        pass
    assert time.monotonic() - before < 2


# As git-remote-https and git send-pack: each waits for the other.
DEADLOCK = """
import os
open("/proc/self/comm", "w").write("git-remote-http")
(up, say), (hear, _) = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.read(hear, 1)
print("told", os.read(up, 4), flush=True)
os.kill(child, 9)
"""


def test_git_that_waits_for_itself_is_helped(start):
    with pytest.raises(AssertionError, match="waited for each other 1 times"), no_deadlocks(patience=1, most=0):
        assert start(["/usr/bin/python3", "-c", DEADLOCK]).wait().check().text == "told b'0000'\n"


@pytest.mark.parametrize("load,least", [(0, 0.1), (1000, 0.2)])
def test_limits_grow_with_the_load_and_say_how_long_they_were(monkeypatch, load, least):
    monkeypatch.setattr(os, "getloadavg", lambda: (load * os.cpu_count(), 0, 0))
    with pytest.raises(AssertionError, match="it did not come true within") as told:
        wait_until(lambda: False, 0.1, "it")
    assert least <= float(str(told.value).split()[-2]) < 50, "and no more than twice"
