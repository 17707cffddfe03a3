# SPDX-License-Identifier: Apache-2.0
"""A list for each container behind one `bailey egress`: known by its address as the engine says, never by what it says of itself. The
engine here is a program that answers as docker does about containers that are network namespaces at a real bridge; test_containers.py
has the real engines."""
import json
import threading

import pytest

from conftest import program
from kit.process import wait_until
from test_egress import NETWORK, Egress

NAME, OTHER = "files.ok.test", "pages.ok.test"
ENGINE = """#!/usr/bin/python3
import json, pathlib, sys, time
place = pathlib.Path({place!r})
words = sys.argv[1:]
if (place / "stopped").exists():
    sys.exit(1)
if words[:3] == ["network", "inspect", "bailey-egress"]:
    print(json.dumps([json.loads((place / "network.json").read_text())]))
elif words[0] == "ps":
    assert words[1:] == ["--no-trunc", "-q", "--filter", "network=bailey-egress"], words
    with open(place / "asked", "a") as log:
        log.write("ps\\n")
    print("\\n".join(json.loads((place / "containers.json").read_text())))
elif words[:2] == ["container", "inspect"]:
    assert ".State}}" not in words[3], words  # it holds what containers write
    all_of_them = json.loads((place / "containers.json").read_text())
    if (place / "ended").exists():  # one of the list, meanwhile
        (place / "ended").unlink()
        sys.exit(1)
    for name in words[4:]:
        print(json.dumps(all_of_them[name]))
else:
    sys.exit(1)
"""
ASK = """import socket, sys
at, name, port = sys.argv[1:]
host, _, number = at.rpartition(":")
with socket.create_connection((host.strip("[]"), int(number)), 60) as sock:
    sock.settimeout(60)
    sock.sendall(f"GET http://{name}:{port}/ HTTP/1.1\\r\\nHost: {name}:{port}\\r\\nConnection: close\\r\\n\\r\\n".encode())
    try:
        print((sock.recv(4096).split(b" ") + [b"", b"closed"])[1].decode() or "closed")
    except ConnectionResetError:
        print("closed")
"""


class Engine:
    """What it says, and the containers it says it of."""

    def __init__(self, place, space, make_namespace):
        self.place, self.space, self.make_namespace, self.list, self.count = place, space, make_namespace, {}, 0
        (place / "network.json").write_text(json.dumps(NETWORK))
        self.write()

    def write(self):
        (self.place / "containers.json").write_text(json.dumps(self.list))

    def say(self, key, name, pid, address, running=True):
        self.list[key] = [f"/{name}", running, pid, f"2026-11-16T08:00:{self.count:02}Z", {"bailey-egress": {"IPAddress": address, "GlobalIPv6Address": ""}}]
        self.write()

    def start(self, name, address, key=None, listed=True):
        """A network namespace with a cable to the bridge."""
        inside = self.make_namespace(inside=self.space)
        self.count += 1
        key, cable = key or f"{self.count:064x}", f"c{self.count}"
        self.space.run(["ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(inside.pid)]).check()
        self.space.run(["ip", "link", "set", cable, "master", "bailey0", "up"]).check()
        inside.run(["ip", "addr", "add", f"{address}/24", "dev", "eth0"]).check()
        inside.run(["ip", "link", "set", "eth0", "up"]).check()
        if listed:
            self.say(key, name, inside.pid, address)
        inside.key = key
        return inside

    def stop(self, inside):
        inside.close()
        self.list.pop(inside.key, None)
        self.write()

    def asked(self):
        return (self.place / "asked").read_text().count("ps") if (self.place / "asked").exists() else 0


class Shared:
    def __init__(self, egress, engine, space, port):
        self.egress, self.engine, self.space, self.port = egress, engine, space, port

    def bailey(self, *words, status=0):
        return self.egress.call(*words).check(status)

    def get(self, inside, name=NAME):
        at = self.egress.status()["http"][1]
        done = inside.run(["/usr/bin/python3", "-c", ASK, at, name, str(self.port)])
        assert done.status == 0, done.errors + (self.egress.place / "service.log").read_text()
        return done.text.strip()

    def becomes(self, inside, status, name=NAME):
        wait_until(lambda: self.get(inside, name) == status, 60, f"status {status}", every=0.2)

    def listed(self):
        return {entry.get("container", entry["command"][1]): entry for entry in json.loads(self.bailey("ps", "--json").text)}

    def lists(self):
        return {entry["container"]: entry for entry in json.loads(self.bailey("egress", "containers", "--json").text)}


@pytest.fixture
def shared(make_namespace, environment, home, closing, tmp_path):
    """make(ask): the service at a bridge, an origin that its names lead to, and the engine."""
    def begin(ask="never"):
        space = make_namespace()
        space.run(["mount", "-t", "sysfs", "sysfs", "/sys"]).check()
        for words in ("link add bailey0 type bridge", "addr add 10.88.7.1/24 dev bailey0", "link set bailey0 up"):
            space.run(["ip", *words.split()]).check()
        world = make_namespace(inside=space)
        space.link(world, "10.99.0.254/24", "10.99.0.1/24")
        listener = closing(world.listen("10.99.0.1"))
        port = listener.getsockname()[1]

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        threading.Thread(target=serve, daemon=True).start()
        (home / "bin").mkdir()
        (home / "bin/docker").write_text(ENGINE.format(place=str(tmp_path)))
        (home / "bin/docker").chmod(0o755)
        (tmp_path / "hosts").write_text(f"10.99.0.1 {NAME} {OTHER} base.ok.test\n")
        paths = {**environment, "PATH": f"{home}/bin:/usr/bin:/bin:/usr/sbin:/sbin"}

        def call(*words, env=None, timeout=60):
            return space.run([program("bailey"), *words], env={**paths, **(env or {})}, timeout=timeout)
        egress = closing(Egress(call, home))
        engine = Engine(tmp_path, space, make_namespace)
        egress("setup", "--yes")
        egress("config", "port=0", f"hosts={tmp_path / 'hosts'}", f"allow_private=10.99.0.1:{port}", "extra_allowed_hosts=base.ok.test", f"ask={ask}")
        egress("start")
        return Shared(egress, engine, space, port)
    return begin


def test_each_container_has_its_own_list(shared):
    """Shown, changed while it runs, and remembered for the name; what no engine knows has the service's list and no more."""
    service = shared()
    one, two = service.engine.start("one", "10.88.7.11"), service.engine.start("two", "10.88.7.12")
    stranger = service.engine.start("ghost", "10.88.7.13", listed=False)
    assert [service.get(inside) for inside in (one, two, stranger)] == ["403", "403", "403"]
    assert [service.get(inside, "base.ok.test") for inside in (one, two, stranger)] == ["200", "200", "200"]
    assert set(service.listed()) == {"egress", "docker/one", "docker/two"}

    told = service.bailey("allow", "--container", "one", f"{NAME}:{service.port}").text
    assert "remembered" in told and "docker/one" in told
    service.becomes(one, "200")
    assert [service.get(inside) for inside in (two, stranger)] == ["403", "403"]
    rules = {name: [r["pattern"] for r in entry["rules"]] for name, entry in service.lists().items()}
    assert f"{NAME}:{service.port}" in rules["docker/one"] and f"{NAME}:{service.port}" not in rules["docker/two"]
    assert any(r["origin"].startswith("approved ") for r in service.lists()["docker/one"]["rules"])
    assert "docker/one" in service.bailey("egress", "containers").text and "docker/one" in service.bailey("ps").text

    service.bailey("deny", "--container", "docker/two", "base.ok.test")  # a list may be narrower, too
    service.becomes(two, "403", "base.ok.test")
    assert service.get(one, "base.ok.test") == "200"
    newcomer = service.engine.start("later", "10.88.7.14", listed=False)  # it may be one that starts, and is denied something
    assert service.get(newcomer, "base.ok.test") == "closed"

    service.engine.stop(one)
    wait_until(lambda: "docker/one" not in service.listed(), 60, "the end of its gateway")
    assert f"{NAME}:{service.port}" in [r["pattern"] for r in service.lists()["docker/one"]["rules"]]
    again = service.engine.start("one", "10.88.7.21")
    service.becomes(again, "200")  # by its name, at another address
    service.bailey("allow", "--container", "one", "--forget", f"{NAME}:{service.port}")
    service.becomes(again, "403")
    service.egress("stop")
    assert not service.listed()


def test_an_address_that_another_container_gets_brings_no_list(shared):
    service = shared()
    service.bailey("allow", "--container", "docker/rich", NAME)
    rich = service.engine.start("rich", "10.88.7.11")
    service.becomes(rich, "200")
    service.engine.stop(rich)
    poor = service.engine.start("poor", "10.88.7.11")
    assert service.get(poor) == "403" and set(service.listed()) == {"egress", "docker/poor"}
    service.engine.stop(poor)
    wait_until(lambda: set(service.lists()) == {"docker/rich"}, 60, "nothing left of one without rules")
    nobody = service.engine.start("rich", "10.88.7.11", listed=False)  # what it calls itself proves nothing
    assert service.get(nobody) == "403"


def test_two_that_claim_one_address_are_nobody(shared):
    """And so are one that does not run, one whose name is a path, and everybody while the engine does not answer."""
    service = shared()
    service.bailey("allow", "--container", "docker/one", NAME)
    one = service.engine.start("one", "10.88.7.11")
    service.engine.say("e" * 64, "two", one.pid, "10.88.7.11")
    assert service.get(one) == "403"
    idle = service.engine.start("one", "10.88.7.12", listed=False)
    service.engine.say("f" * 64, "one", idle.pid, "10.88.7.12", running=False)
    assert service.get(idle) == "403"
    path = service.engine.start("../one", "10.88.7.13")
    assert service.get(path) == "403"
    (service.engine.place / "stopped").touch()
    late = service.engine.start("one", "10.88.7.14")
    assert service.get(late) == "403" and set(service.listed()) == {"egress"}
    assert "10.88.7.14: the engine does not say" in (service.egress.place / "service.log").read_text()
    for name in ("../one", "docker/../x", "rkt/one", "", "a" * 200, "-x", "a b"):
        service.bailey("allow", f"--container={name}", NAME, status=2)
    service.bailey("allow", "--container", "docker/one", "--scope", "always", NAME, status=2)
    service.bailey("allow", "--container", "docker/one", "--scope", "sandbox", NAME, status=4)


def test_one_that_is_denied_something_is_not_let_through_unknown(shared):
    """A container that ends while the engine is asked costs no other its list. While the engine says nothing, who is not known is closed:
    the service's list has what only a container's own denies."""
    service = shared()
    service.bailey("deny", "--container", "docker/one", "base.ok.test")
    (service.engine.place / "ended").touch()
    one = service.engine.start("one", "10.88.7.11")
    assert service.get(one, "base.ok.test") == "403" and "docker/one" in service.listed()
    assert not (service.engine.place / "ended").exists()

    (service.engine.place / "stopped").touch()
    assert service.get(one, "base.ok.test") == "403"  # it is known still
    late = service.engine.start("two", "10.88.7.12")
    assert service.get(late, "base.ok.test") == "closed"
    assert "connections from it are closed" in (service.egress.place / "service.log").read_text()
    service.bailey("deny", "--container", "docker/one", "--forget", "base.ok.test")
    service.becomes(late, "200", "base.ok.test")
    (service.engine.place / "stopped").unlink()
    wait_until(lambda: service.get(late, "base.ok.test") == "200" and "docker/two" in service.listed(), 60, "its own list")


def test_a_container_asks_by_its_name(shared):
    service = shared("control")
    one, two = service.engine.start("one", "10.88.7.11"), service.engine.start("two", "10.88.7.12")
    got = {}
    threads = [threading.Thread(target=lambda n=n, i=i: got.update({n: service.get(i)})) for n, i in (("one", one), ("two", two))]
    for thread in threads:
        thread.start()
    questions = []

    def both():
        questions[:] = json.loads(service.bailey("pending", "--json").text)
        return len(questions) == 2
    wait_until(both, 60, "two questions")
    assert {q["container"] for q in questions} == {"docker/one", "docker/two"} and {q["host"] for q in questions} == {NAME}
    text = service.bailey("pending").text
    assert f"(container docker/one) wants {NAME}:{service.port}" in text and f"bailey allow {NAME}:{service.port} --container docker/one" in text
    service.bailey("allow", "--container", "docker/one", "--scope", "once", f"{NAME}:{service.port}")
    service.bailey("deny", "--container", "docker/two", f"{NAME}:{service.port}")
    for thread in threads:
        thread.join(60)
    assert got == {"one": "200", "two": "403"}
    record = service.listed()["docker/two"]["audit"]
    seen = [json.loads(line) for line in open(record)]
    assert any("container docker/two at 10.88.7.12" in (entry.get("detail") or "") for entry in seen) and any("deny" in (entry.get("detail") or "") for entry in seen)
    service.bailey("log", "verify", record)


def test_settings_reach_every_list_and_a_kill_only_one(shared):
    service = shared()
    one = service.engine.start("one", "10.88.7.11")
    assert service.get(one, OTHER) == "403"
    service.egress("config", f"extra_allowed_hosts=base.ok.test,{OTHER}")
    service.egress("reload")
    service.becomes(one, "200", OTHER)
    before = service.listed()["docker/one"]["sandbox"]
    asked = service.engine.asked()
    assert service.get(one, OTHER) == "200" and service.engine.asked() == asked  # the engine is not asked for each connection
    service.bailey("kill", before)
    wait_until(lambda: "docker/one" not in service.listed(), 60, "its end")
    assert service.get(one, OTHER) == "200" and service.listed()["docker/one"]["sandbox"] != before
    at = service.egress.status()["http"][1]
    assert service.get(one, at.rpartition(":")[0]) == "403"
