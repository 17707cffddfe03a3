# SPDX-License-Identifier: Apache-2.0
"""AWS signatures made anew, checked by a verifier written from the specification: the origin is an AWS service as far as it can tell."""
import datetime
import gzip
import hashlib
import hmac
import re
import ssl
import urllib.parse

import pytest

from conftest import BUILD, program
from kit.gateway import Client, Gateway
from kit.h2 import H2Client, H2Server

HOST = "bucket.s3.aws.test"
KEY_ID, SECRET = "AKIAREALREALREALREAL", "realREALrealREAL/ealREALrealREALrealREAL"
SESSION = "FwoGZXIvYXdzEJr//////////wEaDREALREALREALREALREALREAL=="
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
EMPTY = hashlib.sha256(b"").hexdigest()


# --- the specification, for both ends ---

def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signing_key(secret, scope):
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = mac(key, part)
    return key


def quote(text, safe=""):
    return urllib.parse.quote(text, safe="-_.~" + safe)


def canonical_path(path, service):
    if service == "s3":
        return quote(urllib.parse.unquote(path), "/")
    kept = []
    for segment in path.split("/"):
        if segment == "..":
            kept[-1:] = []
        elif segment not in ("", "."):
            kept.append(segment)
    last = path.rsplit("/", 1)[-1]
    return quote("/" + "/".join(kept) + ("/" if kept and last in ("", ".", "..") else ""), "/")


def canonical_query(query, without=()):
    pairs = [part.partition("=") for part in query.split("&") if part]
    pairs = [(quote(urllib.parse.unquote(name)), quote(urllib.parse.unquote(value))) for name, _, value in pairs if name not in without]
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


def string_to_sign(method, target, headers, signed, payload, stamp, scope, without=()):
    path, _, query = target.partition("?")
    lines = [f"{name}:" + ",".join(re.sub(" +", " ", value.strip()) for n, value in headers if n.lower() == name) for name in signed]
    request = "\n".join([method, canonical_path(path, scope.split("/")[2]), canonical_query(query, without), *lines, "",
                         ";".join(signed), payload])
    return "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(request.encode()).hexdigest()])


class Refused(Exception):
    pass


class Aws:
    """An origin that takes only what the real key has signed."""

    def __init__(self):
        self.problems, self.bodies = [], []

    def __call__(self, request):
        try:
            self.verify(request)
            return OK
        except Refused as problem:
            self.problems.append(str(problem))
            return b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"

    def verify(self, request):
        head, _, body = request.partition(b"\r\n\r\n")
        line, *rest = head.decode().split("\r\n")
        method, target, _ = line.split(" ")
        headers = [tuple(part.strip() for part in text.split(":", 1)) for text in rest]
        fields = {name.lower(): value for name, value in headers}
        if fields.get("transfer-encoding") == "chunked":
            body = self.unframed(body)
        query = dict(urllib.parse.parse_qsl(target.partition("?")[2], keep_blank_values=True))
        if "X-Amz-Signature" in query:
            credential, signed, signature = (query[f"X-Amz-{n}"] for n in ("Credential", "SignedHeaders", "Signature"))
            stamp, token, payload = query["X-Amz-Date"], query.get("X-Amz-Security-Token", ""), "UNSIGNED-PAYLOAD"
        else:
            match = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=(\S+), SignedHeaders=(\S+), Signature=([0-9a-f]{64})", fields["authorization"])
            self.check(match, "no signature")
            credential, signed, signature = match.groups()
            stamp, token = fields["x-amz-date"], fields.get("x-amz-security-token", "")
            payload = fields.get("x-amz-content-sha256", hashlib.sha256(body).hexdigest())
            self.check("host" in signed.split(";") and all(n in signed.split(";") for n in fields if n.startswith("x-amz-")), "unsigned")
        key_id, _, scope = credential.partition("/")
        self.check(key_id == KEY_ID and token == SESSION, f"key {key_id} or token {token}")
        key = signing_key(SECRET, scope)
        text = string_to_sign(method, target, headers, signed.split(";"), payload, stamp, scope, ("X-Amz-Signature",))
        self.check(mac(key, text).hex() == signature, f"signature of {text}")
        if payload.startswith("STREAMING-AWS4"):
            body = self.chunks(body, key, stamp, scope, signature, payload.endswith("TRAILER"))
        elif len(payload) == 64:
            self.check(hashlib.sha256(body).hexdigest() == payload, "body")
        self.bodies.append(body)

    @staticmethod
    def unframed(body):
        data, size = b"", None
        while size != 0:
            line, _, body = body.partition(b"\r\n")
            size = int(line, 16)
            data, body = data + body[:size], body[size + 2:]
        return data

    def chunks(self, body, key, stamp, scope, previous, trailer):
        data, size = b"", None
        while size != 0:
            line, _, body = body.partition(b"\r\n")
            match = re.fullmatch(rb"([0-9a-f]+);chunk-signature=([0-9a-f]{64})", line)
            self.check(match, f"chunk {line}")
            size = int(match[1], 16)
            chunk = body[:size]
            body = body[size + (2 if size else 0):]
            previous = self.chain(key, "PAYLOAD", [stamp, scope, previous, EMPTY, hashlib.sha256(chunk).hexdigest()], match[2])
            data += chunk
        if trailer:
            *lines, last = body.decode().strip().split("\r\n")
            canonical = "".join(f"{text}\n" for text in lines)
            self.chain(key, "TRAILER", [stamp, scope, previous, hashlib.sha256(canonical.encode()).hexdigest()],
                       last.partition(":")[2].encode())
        return data

    def chain(self, key, kind, parts, signature):
        made = mac(key, "\n".join([f"AWS4-HMAC-SHA256-{kind}", *parts])).hex()
        self.check(made.encode() == signature, f"{kind} signature")
        return made

    @staticmethod
    def check(condition, text):
        if not condition:
            raise Refused(text)


# --- a client that has the stand-ins ---

class Signer:
    def __init__(self, lab, service="s3", at=None):
        self.lab, self.service = lab, service
        self.at = at or datetime.datetime.utcnow()
        self.stamp = self.at.strftime("%Y%m%dT%H%M%SZ")
        self.scope = f"{self.stamp[:8]}/eu-west-1/{service}/aws4_request"
        self.key = signing_key(lab.fakes["aws.secret"], self.scope)

    def sign(self, method, target, headers, payload):
        everything = [("host", f"{HOST}:{self.lab.port}"), ("x-amz-date", self.stamp), *headers]
        if "aws.token" in self.lab.fakes:
            everything.append(("x-amz-security-token", self.lab.fakes["aws.token"]))
        signed = sorted({name.lower() for name, _ in everything})
        text = string_to_sign(method, target, everything, signed, payload, self.stamp, self.scope)
        self.seed = mac(self.key, text).hex()
        everything.append(("Authorization", f"AWS4-HMAC-SHA256 Credential={self.lab.fakes['aws']}/{self.scope}, "
                                            f"SignedHeaders={';'.join(signed)}, Signature={self.seed}"))
        return everything

    def chunked(self, pieces, trailer=()):
        body, previous = b"", self.seed
        for piece in (*pieces, b""):
            previous = mac(self.key, "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", self.stamp, self.scope, previous, EMPTY,
                                                 hashlib.sha256(piece).hexdigest()])).hex()
            body += f"{len(piece):x};chunk-signature={previous}\r\n".encode() + piece + (b"\r\n" if piece else b"")
        if trailer:
            canonical = "".join(f"{line}\n" for line in trailer)
            last = mac(self.key, "\n".join(["AWS4-HMAC-SHA256-TRAILER", self.stamp, self.scope, previous,
                                            hashlib.sha256(canonical.encode()).hexdigest()])).hex()
            body += "".join(f"{line}\r\n" for line in (*trailer, f"x-amz-trailer-signature:{last}")).encode()
        return body + b"\r\n"


class Lab:
    def __init__(self, tmp_path, authority, origin, aws):
        self.aws, self.origin, self.port, self.ca = aws, origin, origin.port, tmp_path / "session-ca.pem"
        value = f"AWS_ACCESS_KEY_ID={KEY_ID},AWS_SECRET_ACCESS_KEY={SECRET},AWS_SESSION_TOKEN={SESSION}"
        self.gateway = Gateway(BUILD, ["http", "private=127.0.0.0/8:1-65535", f"vault={program('bailey-vault')}", f"ca={self.ca}",
                                       f"roots={authority.file}", f"allow={HOST}", f"credential=aws|{HOST}:{self.port}|sigv4|{value}"],
                               [(HOST, "127.0.0.1")], tmp_path)
        self.fakes = self.gateway.fakes

    def send(self, method, target, headers, body=b"", chunked=False, trailers=b""):
        sock = self.gateway.connect()
        sock.settimeout(60)
        sock.sendall(f"CONNECT {HOST}:{self.port} HTTP/1.1\r\nHost: {HOST}:{self.port}\r\n\r\n".encode())
        assert Client(sock).answer(head=True)[0] == 200
        with ssl.create_default_context(cafile=self.ca).wrap_socket(sock, server_hostname=HOST) as secure:
            framing = [("Transfer-Encoding", "chunked")] if chunked else [("Content-Length", str(len(body)))] if body else []
            lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in [*headers, *framing])]
            if chunked:
                body = b"".join(f"{len(body[i:i + 1000]):x}\r\n".encode() + body[i:i + 1000] + b"\r\n" for i in range(0, len(body), 1000))
                body += b"0\r\n" + trailers + b"\r\n"
            secure.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            client = Client(secure)
            return (*client.answer(), client.received)

    def close(self):
        self.gateway.close()


@pytest.fixture
def lab(tmp_path, authority, make_origin, closing):
    aws = Aws()
    return closing(Lab(tmp_path, authority, make_origin(aws, tls=authority.context(HOST)), aws))


def test_requests_are_signed_with_the_real_key(lab):
    """One run through everything a signature covers, as S3 and as another service; the secrets stay where they are."""
    payload = hashlib.sha256(b"data").hexdigest()
    cases = [
        ("s3", "GET", "/k%20ey/a..b//c?prefix=a%2Fb&list-type=2&acl", [("x-amz-content-sha256", EMPTY)], EMPTY, b""),
        ("s3", "PUT", "/o", [("x-amz-content-sha256", payload), ("x-amz-meta-a", "b   c")], payload, b"data"),
        ("s3", "PUT", "/o", [("x-amz-content-sha256", "UNSIGNED-PAYLOAD")], "UNSIGNED-PAYLOAD", b"anything"),
        ("bedrock", "POST", "/model/anthropic.claude%3A0/invoke", [("content-type", "application/json"), ("accept-encoding", "gzip")],
         payload, b"data"),
        ("dynamodb", "POST", "/", [("x-amz-target", "T.Q")], payload, b"data"),
        ("sts", "GET", "/?Action=GetCallerIdentity&Version=2011-06-15", [], EMPTY, b""),
    ]
    for service, method, target, headers, hashed, body in cases:
        signer = Signer(lab, service)
        status, fields, text, _ = lab.send(method, target, signer.sign(method, target, headers, hashed), body)
        assert status == 200 and not lab.aws.problems, (service, target, text, lab.aws.problems)
        assert lab.aws.bodies[-1] == body
    sent = b"".join(lab.origin.requests())
    assert KEY_ID.encode() in sent and SESSION.encode() in sent and SECRET.encode() not in sent
    assert not any(fake.encode() in sent for fake in lab.fakes.values())
    lab.gateway.wait(lambda g: [e["swapped"] for e in g.events if e["kind"] == "request"].count("aws") >= len(cases) - 1)
    # A body of unknown length is kept, hashed and sent with one.
    signer = Signer(lab, "bedrock")
    assert lab.send("POST", "/x", signer.sign("POST", "/x", [], payload), b"data", chunked=True)[0] == 200, lab.aws.problems
    assert b"Content-Length: 4" in lab.origin.requests()[-1]


def test_trailers_of_a_kept_body_are_no_next_request(lab):
    headers = Signer(lab, "bedrock").sign("POST", "/x", [], hashlib.sha256(b"data").hexdigest())
    status, fields, text, _ = lab.send("POST", "/x", headers, b"data", True, f"x-late: {next(iter(lab.fakes.values()))}\r\n".encode())
    assert (status, fields["x-bailey-reason"], fields.get("connection")) == (403, "credential", "close"), (status, fields, text)
    lab.gateway.wait_event(kind="request", path="/x", allowed=False)
    assert not lab.origin.requests()


def test_uploads_in_signed_chunks(lab):
    pieces = [b"a" * 65536, b"b" * 70001, b"c"]
    for kind, trailer, chunked in (("", (), False), ("", (), True), ("-TRAILER", ("x-amz-checksum-crc32c:AAAAAA==",), False)):
        payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" + kind
        signer = Signer(lab)
        headers = signer.sign("PUT", "/big", [("x-amz-content-sha256", payload), ("x-amz-decoded-content-length", "135538"),
                                              ("content-encoding", "aws-chunked")], payload)
        body = signer.chunked(pieces, trailer)
        status = lab.send("PUT", "/big", headers, body, chunked)[0]
        assert status == 200 and not lab.aws.problems, lab.aws.problems
        assert lab.aws.bodies[-1] == b"".join(pieces)
        assert (b"Transfer-Encoding: chunked" in lab.origin.requests()[-1]) == chunked


def test_presigned_urls(lab):
    signer = Signer(lab, at=datetime.datetime.utcnow() - datetime.timedelta(hours=2))
    query = "&".join(["X-Amz-Algorithm=AWS4-HMAC-SHA256", f"X-Amz-Credential={quote(lab.fakes['aws'] + '/' + signer.scope)}",
                      f"X-Amz-Date={signer.stamp}", "X-Amz-Expires=86400", "X-Amz-SignedHeaders=host",
                      f"X-Amz-Security-Token={quote(lab.fakes['aws.token'])}", "response-content-type=a%2Fb"])
    host = [("host", f"{HOST}:{lab.port}")]
    text = string_to_sign("GET", "/o?" + query, host, ["host"], "UNSIGNED-PAYLOAD", signer.stamp, signer.scope)
    target = f"/o?{query}&X-Amz-Signature={mac(signer.key, text).hex()}"
    assert lab.send("GET", target, host)[0] == 200, lab.aws.problems
    expired = target.replace("X-Amz-Expires=86400", "X-Amz-Expires=60")
    status, fields, body, _ = lab.send("GET", expired, host)
    assert (status, fields["x-bailey-reason"]) == (403, "credential") and b"expired" in body


def test_what_cannot_be_signed_is_refused(lab):
    def refused(headers, text, method="PUT", body=b"x"):
        status, fields, answer, _ = lab.send(method, "/o", headers, body)
        assert (status, fields["x-bailey-reason"]) == (403, "credential") and text in answer, answer
    late = Signer(lab, at=datetime.datetime.utcnow() - datetime.timedelta(minutes=20))
    refused(late.sign("PUT", "/o", [("x-amz-content-sha256", EMPTY)], EMPTY), b"not for now")
    events = "STREAMING-AWS4-HMAC-SHA256-EVENTS"
    refused(Signer(lab).sign("PUT", "/o", [("x-amz-content-sha256", events)], events), b"cannot be made anew")
    other = [(n, v.replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256") if n == "Authorization" else v)
             for n, v in Signer(lab).sign("PUT", "/o", [], EMPTY)]
    refused(other, b"another way")
    leak = Signer(lab).sign("PUT", "/o", [("x-note", lab.fakes["aws.secret"])], EMPTY)
    refused(leak, b"place of the request")
    refused([("host", f"{HOST}:{lab.port}"), ("x-amz-security-token", lab.fakes["aws.token"])], b"place of the request")
    assert lab.origin.received() == b""


def test_answers_do_not_show_the_real_key(lab):
    lab.origin.answer = lambda request: (b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(request)) + request
    status, _, body, received = lab.send("GET", "/", Signer(lab).sign("GET", "/", [("x-amz-content-sha256", EMPTY)], EMPTY))
    assert status == 403 and lab.fakes["aws"].encode() in body and lab.fakes["aws.token"].encode() in body
    assert KEY_ID.encode() not in received and SESSION.encode() not in received


def test_answers_to_requests_without_a_signature(lab):
    """Nor does an answer to somebody who did not sign, from a host that knows the key."""
    text = f"{KEY_ID} {SESSION}".encode()
    lab.origin.answer = lambda request: (b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text)) + text
    status, _, body, received = lab.send("GET", "/public", [("Host", f"{HOST}:{lab.port}")])
    assert (status, body) == (200, f"{lab.fakes['aws']} {lab.fakes['aws.token']}".encode())
    assert KEY_ID.encode() not in received and SESSION.encode() not in received


def test_an_object_that_is_stored_compressed(lab):
    """S3 gives it out as it is, whatever was asked for; nothing that could come back with it is a secret."""
    data = gzip.compress(b"object" * 100)
    lab.origin.answer = lambda request: (lab.aws(request) and b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(data)) + data
    headers = Signer(lab).sign("GET", "/o.gz", [("x-amz-content-sha256", EMPTY)], EMPTY)
    status, fields, body, _ = lab.send("GET", "/o.gz", headers)
    assert (status, fields["content-encoding"], body) == (200, "gzip", data) and not lab.aws.problems


class Aws2(Aws):
    """The same service over HTTP/2."""

    def serve(self, server, number, headers):
        body = b"".join(server.receive(number))
        fields = [("host", headers[":authority"]), *((name, value) for name, value in headers.items() if name[0] != ":")]
        head = "\r\n".join([f"{headers[':method']} {headers[':path']} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)])
        answer = self(head.encode() + b"\r\n\r\n" + body)
        server.respond(number, int(answer.split()[1]), end=True)


def test_http_2(tmp_path, authority, make_origin, closing):
    """Bodies that are hashed first, in one stream and in many at once; chunks that are signed; what is too large or cut short."""
    aws = Aws2()
    origin = make_origin(tls=authority.context(HOST, alpn=("h2", "http/1.1")), raw=H2Server(aws.serve))
    lab = closing(Lab(tmp_path, authority, origin, aws))

    def connect():
        sock = lab.gateway.connect()
        sock.settimeout(60)
        sock.sendall(f"CONNECT {HOST}:{lab.port} HTTP/1.1\r\nHost: {HOST}:{lab.port}\r\n\r\n".encode())
        assert Client(sock).answer(head=True)[0] == 200
        context = ssl.create_default_context(cafile=lab.ca)
        context.set_alpn_protocols(["h2", "http/1.1"])
        secure = context.wrap_socket(sock, server_hostname=HOST)
        assert secure.selected_alpn_protocol() == "h2"
        return H2Client(secure, f"{HOST}:{lab.port}")

    def fields(headers):
        return [(name.lower(), value) for name, value in headers if name.lower() != "host"]
    client, body = connect(), bytes(range(256)) * 2500
    hashed = hashlib.sha256(body).hexdigest()

    def kept(target, size=len(body)):
        return fields(Signer(lab, "bedrock").sign("POST", target, [("content-length", str(size))], hashed))
    assert client.ask("/x", "POST", kept("/x"), body).status == 200 and aws.bodies[-1] == body, aws.problems
    numbers = [client.open(f"/{n}", "POST", kept(f"/{n}"), end=False) for n in range(8)]
    for number in numbers:
        client.send(number, body)
    assert client.wait(lambda: all(client.streams[number].done for number in numbers))
    assert [client.streams[number].status for number in numbers] == [200] * 8 and not aws.problems, aws.problems
    pieces = [b"a" * 65536, b"b" * 1500001, b"c"]
    for kind, trailer in (("", ()), ("-TRAILER", ("x-amz-checksum-crc32c:AAAAAA==",))):
        payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" + kind
        signer = Signer(lab)
        headers = signer.sign("PUT", "/big", [("x-amz-content-sha256", payload), ("content-encoding", "aws-chunked")], payload)
        upload = signer.chunked(pieces, trailer)
        assert client.ask("/big", "PUT", fields(headers), upload).status == 200 and aws.bodies[-1] == b"".join(pieces), aws.problems
        count = len(aws.bodies)
        cut = client.ask("/big", "PUT", fields(headers), upload[:-100])
        assert cut.status != 200 and len(aws.bodies) == count
    lab.gateway.wait(lambda g: len([e for e in g.events if e["path"] == "/big" and e["reason"] == "protocol" and not e["allowed"]]) == 2)
    large = client.streams[client.open("/large", "POST", kept("/large", (16 << 20) + 1), end=False)]
    assert client.wait(lambda: large.status == 403)
    client.sock.close()
    sent = str(origin.requests())
    assert KEY_ID in sent and SECRET not in sent and not any(fake in sent for fake in lab.fakes.values())
