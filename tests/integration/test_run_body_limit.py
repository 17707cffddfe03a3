# SPDX-License-Identifier: Apache-2.0
"""network.limits.body_bytes: how large a request's body may be, with real clients, by every way that a body is framed."""
import json
import pathlib
import threading

import pytest

from kit.h2 import H2Server
from kit.process import SLOW, wait_until

OK = "api.ok.test"
LIMIT = 8192
# curl's words: a file has a length, standard input has none and is sent in chunks (HTTP/1.1) or just ends (HTTP/2).
FRAMINGS = {"length": ["--data-binary", "@{0}"], "open": ["-T", "-", "-X", "POST"]}
ORIGINS = {"plain": ("http", "--http1.1"), "opened": ("https", "--http1.1"), "h2": ("https", "--http2")}


def count(server, number, _headers):
    size = sum(len(piece) for piece in server.receive(number))
    server.respond(number, end=False)
    server.data(number, f"origin {size}\n".encode(), end=True)


@pytest.fixture(params=ORIGINS)
def target(request, make_origin, authority):
    """The origin, its scheme, and curl's word for the protocol."""
    scheme, word = ORIGINS[request.param]
    if request.param == "h2":
        return make_origin(raw=H2Server(count), tls=authority.context(OK, alpn=("h2", "http/1.1"))), scheme, word
    tls = authority.context(OK, alpn=("http/1.1",)) if scheme == "https" else None
    return make_origin(tls=tls), scheme, word


@pytest.fixture
def limited(target, bailey, home, work, authority):
    """limited(script, limit): the result and the records of requests. TLS is opened, since the rule names methods."""
    origin = target[0]

    def run(script, limit=LIMIT):
        where, audit = f"{OK}:{origin.port}", home / "audit.jsonl"
        audit.unlink(missing_ok=True)
        (home / "hosts").write_text(f"127.0.0.1 {OK}\n")
        (home / "policy.yaml").write_text(json.dumps({"network": {
            "rules": [{"host": where, "methods": ["GET", "POST"]}], "allow_private": [where], "limits": {"body_bytes": limit}}}))
        result = bailey("run", "--policy", home / "policy.yaml", "--hosts", home / "hosts", "--ca-bundle", authority.file, "--audit", audit,
                        "--", "sh", "-c", script, cwd=work)
        return result, [r for r in map(json.loads, audit.read_text().splitlines()) if r["kind"] == "request"]

    return run


def upload(target, framing, size):
    origin, scheme, word = target
    words = " ".join(FRAMINGS[framing]).format("body")
    return (f"head -c {size} /dev/zero | tr '\\0' Z > body; curl -sS -i --suppress-connect-headers -m 60 -H 'Expect:' {word} {words} {scheme}://{OK}:{origin.port}/up < body; echo; "
            f"curl -sS -m 60 {word} -w ' %{{http_code}}' {scheme}://{OK}:{origin.port}/small")


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_body_that_is_too_large(limited, target, framing):
    done, records = limited(upload(target, framing, LIMIT + 1))
    assert " 413" in done.text.splitlines()[0] and "x-bailey-reason: limit" in done.text, done
    assert "its body is larger than the policy allows (network.limits.body_bytes)" in done.text, done
    assert " 200" in done.text.splitlines()[-1], done  # what is smaller goes on
    refused = [r for r in records if r["path"] == "/up"]
    assert [(r["allowed"], r["reason"], r["status"]) for r in refused] == [(False, "limit", 413)], records
    assert "network.limits.body_bytes" in refused[0].get("detail", ""), refused
    assert [r["allowed"] for r in records if r["path"] == "/small"] == [True]
    received = target[0].received()
    if framing == "length":
        assert b"/up" not in received
    assert received.count(b"Z") <= LIMIT


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_body_that_fits(limited, target, framing):
    for limit in (LIMIT, 0):
        done, records = limited(upload(target, framing, LIMIT), limit)
        assert " 200" in done.text.splitlines()[0] and "origin" in done.text, done
        assert [r["allowed"] for r in records] == [True, True], records


# A push over HTTP/2 whose rest is sent while a person is asked; what it does next is told by files in its workspace.
PUSH = r"""
import pathlib, socket, ssl, sys, time
from h2kit import H2Client

def wait_for(name):
    for _ in range(2400):
        if pathlib.Path(name).exists():
            return
        time.sleep(0.05)

context = ssl.create_default_context()
context.set_alpn_protocols(["h2"])
host, port, rest = "api.ok.test", int(sys.argv[1]), int(sys.argv[2])
with context.wrap_socket(socket.create_connection((host, port)), server_hostname=host) as sock:
    client = H2Client(sock, f"{host}:{port}")
    line = b"0" * 40 + b" " + b"1" * 40 + b" refs/heads/agent/x\0report-status"
    number = client.open("/acme/app/git-receive-pack", "POST", [("content-type", "application/x-git-receive-pack-request")], end=False)
    client.send(number, b"%04x" % (len(line) + 4) + line + b"0000PACK", end=False)
    wait_for("asked")
    stream = client.streams[number]
    if rest:
        client.send(number, b"Z" * rest, end=rest < 8192)
    else:
        client.h2.send_headers(number, [("x-original-url", "/admin")], end_stream=True)
    if 0 < rest < 8192:
        client.h2.ping(b"received")  # all that was sent before it was taken
        client.flush()
        client.wait(lambda: client.pongs)
        pathlib.Path("told").write_text("")
    client.wait(lambda: stream.ended)
    print("status", stream.status, flush=True)
    pathlib.Path("told").write_text("")
    wait_for("answered")
    time.sleep(0.5)
"""


@pytest.fixture
def pushed(make_origin, authority, bailey, home, work):
    """pushed(rest): so many bytes come while a person is asked, who agrees; 0: trailers. The result, the origin, what the person was shown."""
    def push(rest, person):
        origin = make_origin(raw=H2Server(count), tls=authority.context(OK, alpn=("h2", "http/1.1")))
        where = f"{OK}:{origin.port}"
        (home / "hosts").write_text(f"127.0.0.1 {OK}\n")
        (home / "policy.yaml").write_text(json.dumps({
            "network": {"allow_private": [where], "limits": {"body_bytes": LIMIT}},
            "git": [{"repo": f"{where}/acme/app", "push": ["refs/heads/agent/**"], "ask": "push"}]}))
        (work / "h2kit.py").write_text((pathlib.Path(__file__).parent / "kit/h2.py").read_text())
        (work / "push.py").write_text(PUSH)
        shown = []

        def waiting():
            text = bailey("pending").text
            return text if "refs/heads/agent/x" in text else None

        def answer():
            shown.append(wait_until(waiting, 60 * SLOW, "the question"))
            (work / "asked").write_text("")
            wait_until((work / "told").exists, 60 * SLOW, "the rest to be taken")
            person(waiting)
            shown.append(bailey("allow", "--push", shown[0].split()[0]))
            (work / "answered").write_text("")

        thread = threading.Thread(target=answer)
        thread.start()
        done = bailey("run", "--policy", home / "policy.yaml", "--hosts", home / "hosts", "--ca-bundle", authority.file,
                      "--", "/usr/bin/python3", "push.py", origin.port, rest, cwd=work, timeout=300 * SLOW)
        thread.join(120 * SLOW)
        assert len(shown) == 2, (str(done), shown)
        return done, origin, shown

    return push


@pytest.mark.parametrize("rest, status", [(9000, 413), (0, 200)])
def test_a_push_that_is_refused_while_a_person_is_asked_never_leaves(pushed, rest, status):
    """Too large; or with trailers that change the request: that is said in git's own form, with 200."""
    done, origin, shown = pushed(rest, lambda waiting: wait_until(lambda: not waiting(), 60 * SLOW, "the question to be taken back"))
    assert f"status {status}" in done.text and shown[1].status != 0, (str(done), shown)
    assert not [r for r in origin.requests() if r[":method"] == "POST"], origin.requests()


def test_what_comes_of_a_push_while_a_person_is_asked_is_sent_behind_what_was_judged(pushed):
    done, origin, shown = pushed(1000, lambda waiting: None)
    assert "status 200" in done.text and shown[1].status == 0, (str(done), shown)
    received = origin.received()
    assert b"refs/heads/agent/x" in received.split(b"Z" * 1000)[0], received


def test_it_is_said_beforehand(bailey, home, work):
    file = home / "policy.yaml"
    file.write_text("network: { limits: { body_bytes: 1MiB } }\n")
    bailey("policy", "check", file, cwd=work).check()
    assert "body_bytes: 1MiB" in bailey("policy", "show", "--policy", file, cwd=work).check().text
    file.write_text("network: { limits: { body_bytes: much } }\n")
    bad = bailey("policy", "check", file, cwd=work)
    assert bad.status == 3 and "policy.yaml:1:" in bad.errors and "body_bytes" in bad.errors, bad
