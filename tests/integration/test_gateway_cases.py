# SPDX-License-Identifier: Apache-2.0
"""Every exchange in tests/cases/http against the live gateway, with an origin that records what reaches it."""
import collections
import pathlib
import re
import time

import pytest

from conftest import BUILD
from kit.gateway import Client, Gateway
from kit.origin import Origin, request_end

CASES = pathlib.Path(__file__).resolve().parents[1] / "cases/http"
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"
NAMES = [(name, "127.0.0.1") for name in ("plain.ok.test", "other.ok.test", "a.b.c.ok.test", "deny.ok.test", "rules.ok.test",
                                          "evil.test", "ok.test", "evilok.test")] + [("private.ok.test", "10.1.2.3")]
POLICY = ["allow=*.ok.test", "deny=deny.ok.test", "rule=rules.ok.test|GET,HEAD|/repos/acme/**",
          *(f"private={name}:1-65535" for name in ("plain.ok.test", "other.ok.test", "a.b.c.ok.test", "rules.ok.test"))]


def parse(path):
    cases = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        key, _, value = line.partition(" ")
        if key == "case":
            cases.append({"name": value, "line": number, "sees": [], "lacks": [], "body": [], "unseen": []})
        elif key in ("sees", "lacks", "body", "unseen"):
            cases[-1][key].append(value)
        elif key in ("send", "reply"):
            cases[-1][key] = cases[-1].get(key, "") + value
        else:
            assert key in ("status", "reason", "closed", "origin") and key not in cases[-1], f"{path}:{number}: {line}"
            cases[-1][key] = value
    return cases


def decode(text, port):
    text = text.replace("{port}", str(port))
    text = re.sub(r"\{headers (\d+)\}", lambda m: "".join(f"X-{i}: a\\r\\n" for i in range(int(m[1]))), text)
    text = re.sub(r"\{times (\d+) ([^{}]*)\}", lambda m: m[2] * int(m[1]), text)
    text = re.sub(r"\{(\d+)\}", lambda m: "a" * int(m[1]), text)
    one = {"r": "\r", "n": "\n", "t": "\t", "0": "\0", "\\": "\\"}
    return re.sub(r"\\(x[0-9a-f]{2}|[rnt0\\])", lambda m: chr(int(m[1][1:], 16)) if m[1][0] == "x" else one[m[1]], text).encode("latin-1")


def scripted(replies):
    """An origin that answers with the parts of a reply, one per {next}; the last one again and again."""
    def serve(client, connection):
        pending, turn = b"", 0
        while True:
            end = request_end(pending)
            if end is None:
                data = client.recv(65536)
                if not data:
                    return
                connection.received += data
                pending += data
                continue
            connection.requests.append(pending[:end])
            pending = pending[end:]
            for part in re.split(rb"(\{pause\}|\{close\})", replies[min(turn, len(replies) - 1)]):
                if part == b"{close}":
                    return
                if part == b"{pause}":
                    time.sleep(0.15)
                else:
                    client.sendall(part)
            turn += 1
    return serve


def check(case, gateway, said):
    replies = [REPLY]
    with Origin(raw=lambda client, connection: scripted(replies)(client, connection)) as origin:
        if "reply" in case:
            replies[:] = decode(case["reply"], origin.port).split(b"{next}")
        sent = decode(case["send"], origin.port)
        with gateway.connect() as sock:
            try:
                sock.sendall(sent)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before all of it was sent
            return judge(case, Client(sock), origin, sent, said)


def judge(case, client, origin, sent, said):
    wanted, problems, headers = case["status"].split(), [], {}
    if wanted == ["none"]:
        if not client.is_closed() or client.received:
            problems.append(f"not closed in silence: {client.received[:200]}")
    for status in [] if wanted == ["none"] else wanted:
        answer = client.answer(head=sent.startswith(b"HEAD") and status == wanted[0])
        if answer is None or str(answer[0]) != status:
            problems.append(f"status {answer and answer[0]}, expected {status}")
            break
        headers = answer[1]
        said.append(headers.get("x-bailey-reason"))
    if "reason" in case and headers.get("x-bailey-reason") != case["reason"]:
        problems.append(f"reason {headers.get('x-bailey-reason')}, expected {case['reason']}")
    if client.is_closed(60 if "closed" in case else 0.05) != ("closed" in case):
        problems.append("still open" if "closed" in case else "closed")
    problems += [f"the client did not get {b!r}" for b in case["body"] if decode(b, origin.port) not in client.received]
    problems += [f"the client got {b!r}" for b in case["unseen"] if decode(b, origin.port) in client.received]
    seen = origin.received()
    if case.get("origin") == "nothing" and (seen or origin.connections):
        problems.append(f"reached the origin: {seen[:200]}")
    elif case.get("origin", "nothing") != "nothing" and len(origin.requests()) != int(case["origin"]):
        problems.append(f"{len(origin.requests())} requests reached the origin")
    problems += [f"the origin did not see {s!r}: {seen[:300]}" for s in case["sees"] if decode(s, origin.port) not in seen]
    problems += [f"the origin saw {s!r}" for s in case["lacks"] if decode(s, origin.port) in seen]
    return problems


def recorded(gateway):
    events = list(gateway.events)
    return collections.Counter(e["reason"] for e in events if e["kind"] in ("request", "tunnel-open")
                               and not e["reason"].startswith("allowed"))


@pytest.mark.parametrize("path", sorted(CASES.glob("*.txt")), ids=lambda p: p.stem)
def test_exchanges(path, tmp_path, closing):
    gateway = closing(Gateway(BUILD, ["http", "dns", *POLICY], hosts=NAMES, tmp_path=tmp_path))
    cases, said = parse(path), []
    assert cases
    failed = [f"{path.name}:{case['line']}: {case['name']}: {problem}" for case in cases for problem in check(case, gateway, said)]
    assert not failed, "\n" + "\n".join(failed)
    # What clients were told is what was recorded, once each; an answer that is cut half-way says it to the record only.
    told = collections.Counter(reason for reason in said if reason)
    gateway.wait(lambda g: recorded(g) >= told)
    assert set(recorded(gateway) - told) <= {"upstream"}
    assert gateway.process.poll() is None
