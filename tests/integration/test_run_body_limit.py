# SPDX-License-Identifier: Apache-2.0
"""network.limits.body_bytes: how large a request's body may be, with real clients, by every way that a body is framed."""
import json

import pytest

from kit.h2 import H2Server

OK = "api.ok.test"
LIMIT = 8192  # curl 7.88 shows an error of HTTP/2 in place of any answer while it has more than 16 KiB left to send
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


def test_it_is_said_beforehand(bailey, home, work):
    file = home / "policy.yaml"
    file.write_text("network: { limits: { body_bytes: 1MiB } }\n")
    bailey("policy", "check", file, cwd=work).check()
    assert "body_bytes: 1MiB" in bailey("policy", "show", "--policy", file, cwd=work).check().text
    file.write_text("network: { limits: { body_bytes: much } }\n")
    bad = bailey("policy", "check", file, cwd=work)
    assert bad.status == 3 and "policy.yaml:1:" in bad.errors and "body_bytes" in bad.errors, bad
