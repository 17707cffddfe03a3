# SPDX-License-Identifier: Apache-2.0
"""Ports of a guest on the host's loopback: opened while it runs, kept for the next start, listed, closed."""
import json
import socket

from kit.process import wait_until
from test_guest_life import guest, inside, state, top  # noqa: F401

SERVER = """
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", 8000)); s.listen()
while True:
    c, _ = s.accept()
    data = b""
    while piece := c.recv(65536):
        data += piece
    c.sendall(b"got %d" % len(data)); c.close()
"""


def ask(port, data):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        return answer


def is_open(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return True
    except OSError:
        return False


def ports(guest, name="one"):
    return json.loads(guest("ports", "--json", name).check().text)


def serve(guest):
    guest("exec", "-d", "one", "--", "python3", "-c", SERVER).check()
    wait_until(lambda: inside(guest, "one", "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000)).close()'").status == 0)


def test_ports_of_a_running_guest(guest, free_port):
    port, other = free_port(), free_port()
    guest("create", "one").check()
    guest("start", "one").check()
    serve(guest)
    assert ports(guest) == []
    guest("ports", "--publish", f"{port}:8000", "one").check()
    assert ask(port, b"x" * 300000) == b"got 300000" and ask(port, b"") == b"got 0"
    assert ports(guest) == [{"publish": f"{port}:8000", "outside": port, "inside": 8000, "state": "open"}]
    assert guest("ports", "-p", f"{port}:8000", "one").status != 0, "the port is taken"
    guest("ports", "--publish", f"{other}:9", "one").check()
    assert ask(other, b"") == b"", "nobody listens inside: the connection ends"
    guest("ports", "--close", str(other), "one").check()
    assert not is_open(other) and ask(port, b"12") == b"got 2"

    guest("stop", "one").check()
    wait_until(lambda: not is_open(port))
    assert ports(guest)[0]["state"] == "closed"
    guest("start", "one").check()
    serve(guest)
    assert ask(port, b"123") == b"got 3", "it is offered at every start"
    assert "until one stops" in guest("ports", "--close", str(port), "one").check().text and ports(guest) == []
    guest("stop", "one").check()
    guest("start", "one").check()
    assert not is_open(port)


def test_ports_that_are_refused(guest, free_port):
    guest("create", "one").check()
    for wrong in ("80", "0:80", "80:", "x:80", "0.0.0.0:80:80", "70000:1", "1:2:3"):
        assert guest("ports", "--publish", wrong, "one").status == 2, wrong
    assert guest("ports", "--close", "80", "one").status == 4 and guest("ports", "--close", "x", "one").status == 2
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        guest("start", "one").check()
        refused = guest("ports", "--publish", f"{taken.getsockname()[1]}:80", "one")
        assert refused.status != 0 and "in use" in refused.errors and ports(guest) == []


def test_a_port_goes_with_its_guest(guest, bailey, free_port):
    port = free_port()
    guest("create", "one").check()
    guest("start", "one").check()
    guest("ports", "--publish", f"{port}:8000", "one").check()
    assert is_open(port)
    guest("delete", "--force", "one").check()
    wait_until(lambda: not is_open(port))


def test_a_start_right_after_the_end(guest, free_port):
    port = free_port()
    guest("create", "one").check()
    guest("start", "one").check()
    guest("ports", "--publish", f"{port}:8000", "one").check()
    for _ in range(3):
        guest("stop", "one").check()
        guest("start", "one").check()
        assert is_open(port)


def test_the_short_name(bailey, guest):
    bailey("g", "create", "one").check()
    assert state(guest, "one") == "ready"
