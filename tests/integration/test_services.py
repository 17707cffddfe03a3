# SPDX-License-Identifier: Apache-2.0
"""`bailey gateway` and `bailey egress` beside the sandboxes: shown by ps, asked about by pending, changed by allow and deny, followed by
events, read again and ended like them; with the rules that people have had remembered."""
import json
import signal
import socket
import threading

import pytest

from kit.control import wait_for
from kit.gateway import Client
from kit.process import wait_until
from test_egress import Egress

NAME = "api.ok.test"


class Gateway:
    """`bailey gateway`, asked through its proxy."""

    def __init__(self, service):
        self.service, self.name = service, "gateway"

    def connect(self):
        return self.service.connect()

    def reload(self):
        before = self.service.child.errors().count("reloaded")
        self.service.child.signal(signal.SIGHUP)
        wait_until(lambda: self.service.child.errors().count("reloaded") > before, 60, "the reload")

    def gone(self):
        return not self.service.child.running()

    def records(self):
        return self.service.records()


class Background:
    """`bailey egress`, the same."""

    def __init__(self, egress):
        self.egress, self.name = egress, "egress"
        self.port = int(egress.status()["http"][0].rpartition(":")[2])

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), 60)

    def reload(self):
        self.egress("reload")

    def gone(self):
        return not json.loads(self.egress.call("egress", "status", "--json", env=self.egress.env).out)["running"]

    def records(self):
        return [json.loads(line) for line in (self.egress.place / "audit.jsonl").read_text().splitlines()]


@pytest.fixture(params=["gateway", "egress"])
def make(request, bailey, home, closing, make_service, tmp_path):
    """make(origin, ask): the service, with a private host open but not allowed by name."""
    def begin(origin, ask="never"):
        private = f"127.0.0.1:{origin.port}"
        if request.param == "gateway":
            return Gateway(make_service({"allow_private": [private], "ask": ask}, names=[NAME]))
        egress = closing(Egress(bailey, home))
        egress.setup()
        (tmp_path / "hosts").write_text(f"127.0.0.1 {NAME}\n")
        egress("config", f"allow_private={private}", f"hosts={tmp_path / 'hosts'}", f"ask={ask}")
        egress("start")
        return Background(egress)
    return begin


def get(service, origin, name=NAME):
    with service.connect() as sock:
        sock.settimeout(60)
        sock.sendall(f"GET http://{name}:{origin.port}/ HTTP/1.1\r\nHost: {name}:{origin.port}\r\n\r\n".encode())
        return Client(sock).answer()


def becomes(service, origin, status):
    """A rule that was given counts a moment later."""
    wait_until(lambda: (get(service, origin) or (0,))[0] == status, 60, f"status {status}")  # the change itself may end a connection


def listed(bailey):
    return json.loads(bailey("ps", "--json").check().text)


def test_a_service_is_listed_and_changed(make, bailey, origin):
    service = make(origin)
    (seen,) = listed(bailey)
    assert service.name in " ".join(seen["command"]) and seen["state"] == "running"
    status, headers, body = get(service, origin)
    assert status == 403 and b"bailey allow" in body and b"--allow at the start" not in body
    wait_until(lambda: listed(bailey)[0]["refused"] == 1, 60, "the count")
    bailey("allow", f"{NAME}:{origin.port}").check()  # the advice works
    becomes(service, origin, 200)
    service.reload()
    assert get(service, origin)[0] == 200  # it holds as long as the service
    bailey("deny", f"{NAME}:{origin.port}").check()
    becomes(service, origin, 403)
    assert any("rule: allow" in (r.get("detail") or "") for r in service.records())


def test_its_own_listener_stays_closed(make, bailey, origin):
    """Rules that come later are compiled with the service's own addresses, too."""
    service = make(origin)
    port = service.connect().getpeername()[1] if isinstance(service, Background) else service.service.port["http"]
    bailey("allow", f"{NAME}:{port}").check()
    with service.connect() as sock:
        sock.sendall(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        assert Client(sock).answer()[0] == 403


def test_rules_that_were_remembered_count(make, bailey, origin):
    bailey("allow", "--scope", "always", f"{NAME}:{origin.port}").check()
    service = make(origin)
    assert get(service, origin)[0] == 200
    bailey("allow", "--forget", f"{NAME}:{origin.port}").check()
    service.reload()
    becomes(service, origin, 403)
    bailey("allow", "--scope", "always", f"{NAME}:{origin.port}").check()
    becomes(service, origin, 200)


@pytest.mark.parametrize("answer, status", [("allow", 200), ("deny", 403)])
def test_a_service_asks(make, bailey, origin, answer, status):
    service = make(origin, "control")
    got = []
    thread = threading.Thread(target=lambda: got.append(get(service, origin)))
    thread.start()
    question = wait_for(lambda: json.loads(bailey("pending", "--json").check().text), "the question")[0]
    assert (question["host"], question["port"]) == (NAME, origin.port)
    bailey(answer, f"{NAME}:{origin.port}").check()
    thread.join(60)
    assert got[0][0] == status
    if answer == "deny":
        assert b"A person must be asked" not in got[0][2]


def test_a_service_ends_by_kill_and_is_followed(make, bailey, start, origin):
    service = make(origin)
    (seen,) = listed(bailey)
    follower = start(["bailey", "events", "--follow", "--json"])
    names = (f"probe-{number}.ok.test" for number in range(10**6))  # each another one: equal refusals become counts
    wait_until(lambda: get(service, origin, next(names))[0] == 403 and b"probe-" in follower.output(), 60, "an event", every=0.2)
    bailey("kill", seen["sandbox"]).check()
    wait_until(service.gone, 60, "the end")
    assert not listed(bailey)
    follower.stop()


def test_rules_for_one_container(make_service, bailey, origin, tmp_path, home):
    """Two gateways, each for one client by its address: a rule of the one is none of the other's, and a stranger gets no word."""
    private = {"allow_private": [f"127.0.0.1:{origin.port}"]}
    first = make_service(private, names=[NAME], more=["--from", "127.0.0.2"], audit=tmp_path / "first.jsonl")
    second = make_service(private, names=[NAME], more=["--from", "127.0.0.3/32", "--from", "127.0.0.4"], audit=tmp_path / "second.jsonl")

    def ask(service, source):
        with socket.create_connection(("127.0.0.1", service.port["http"]), 60, source_address=(source, 0)) as sock:
            try:
                sock.sendall(f"GET http://{NAME}:{origin.port}/ HTTP/1.1\r\nHost: {NAME}:{origin.port}\r\nConnection: close\r\n\r\n".encode())
                return Client(sock).answer()[0]
            except (OSError, TypeError):
                return None
    assert [ask(first, "127.0.0.2"), ask(second, "127.0.0.3"), ask(second, "127.0.0.4")] == [403, 403, 403]
    seen = {s["command"][-1]: s["sandbox"] for s in listed(bailey)}
    assert set(seen) == {"127.0.0.2", "127.0.0.3/32"}
    bailey("allow", "--sandbox", seen["127.0.0.2"], f"{NAME}:{origin.port}").check()
    wait_until(lambda: ask(first, "127.0.0.2") == 200, 60, "the rule")
    assert ask(second, "127.0.0.3") == 403
    for service, stranger in ((first, "127.0.0.1"), (first, "127.0.0.3"), (second, "127.0.0.2")):
        assert ask(service, stranger) is None
        wait_until(lambda: [r for r in service.records() if r.get("reason") == "client" and r.get("domain") == stranger], 60, "the record")
        with socket.create_connection(("127.0.0.1", service.port["socks"]), 60, source_address=(stranger, 0)) as sock:
            try:
                sock.sendall(b"\5\1\0")
                assert sock.recv(10) == b""
            except ConnectionError:
                pass
    query = b"\0\7\1\0\0\1\0\0\0\0\0\0\3api\2ok\4test\0\0\1\0\1"
    for source, answered in (("127.0.0.2", True), ("127.0.0.3", False)):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((source, 0))
            sock.settimeout(30 if answered else 1)
            sock.sendto(query, ("127.0.0.1", first.port["dns"]))
            try:
                assert sock.recv(512) and answered
            except TimeoutError:
                assert not answered


@pytest.mark.parametrize("text", ["web", "10.0.0.1/8", "10.0.0.0/33", "", "127.0.0.1:80"])
def test_from_takes_addresses_and_networks(bailey, text):
    result = bailey("gateway", "--http", "127.0.0.1:0", "--from", text)
    assert result.status in (2, 120, 121) and "--from" in result.errors, result
