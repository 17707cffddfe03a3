# SPDX-License-Identifier: Apache-2.0
"""The dashboard's server, and a hand-made client of it: every header is the test's own. And a device that is paired with it."""
import base64
import hashlib
import http.client
import json
import re
import ssl

from kit.control import wait_for


class Dashboard:
    def __init__(self, start, *options, **more):
        self.child = start(["bailey", "ui", "--no-open", *options], **more)
        wait_for(lambda: "key=" in self.child.output().decode() or not self.child.running(), "the link")
        assert "key=" in self.child.output().decode(), f"no link: {self.child.process.poll()} {self.child.errors()}"
        self.link = self.child.output().decode().split()[0]
        self.port = int(re.search(r":(\d+)/", self.link).group(1))
        self.key = self.link.rpartition("=")[2]
        self.host = f"127.0.0.1:{self.port}"
        self.cookie = self.page = None

    def raw(self, method, path, body=None, headers=None, host=None):
        """Status, headers and text of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in [("Host", host or self.host), *(headers or {}).items()]:
                connection.putheader(name, value)
            data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
            if data is not None:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read().decode("utf-8", "replace")
        finally:
            connection.close()

    def exchange(self, key=None, **headers):
        return self.raw("POST", "/api/session", {"key": key or self.key}, {"Content-Type": "application/json", **headers})

    def sign_in(self):
        status, headers, text = self.exchange()
        assert status == 200, text
        self.cookie = headers["Set-Cookie"].split(";")[0]
        self.page = json.loads(text)["page"]
        return headers["Set-Cookie"]

    def own(self, **more):
        return {"Cookie": self.cookie, "X-Bailey-Page": self.page, "Origin": f"http://{self.host}", "Sec-Fetch-Site": "same-origin", **more}

    def get(self, path):
        status, _, text = self.raw("GET", path, headers=self.own())
        assert status == 200, (path, status, text)
        return json.loads(text)

    def post(self, path, body, status=200):
        got, _, text = self.raw("POST", path, body, self.own(**{"Content-Type": "application/json"}))
        assert got == status, (path, got, text)
        return text


class Device:
    """A program that opens a pairing's link: it compares the certificate with the link, which no browser does. `source`: its own address."""

    def __init__(self, link, source="127.0.0.1"):
        self.link, self.source = link, source
        self.address, port, self.key, self.certificate = re.fullmatch(r"https://([\d.]+):(\d+)/#pair=([\w-]{43})\.([\w-]{43})", link).groups()
        self.port, self.host = int(port), f"{self.address}:{port}"
        self.cookie = self.page = None

    def connect(self):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(self.address, self.port, timeout=60, context=context, source_address=(self.source, 0))
        connection.connect()
        digest = hashlib.sha256(connection.sock.getpeercert(True)).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != self.certificate:
            connection.close()
            raise AssertionError("another certificate than the link's")
        return connection

    def raw(self, method, path, body=None, headers=None, host=None):
        connection = self.connect()
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in [("Host", host or self.host), *(headers or {}).items()]:
                connection.putheader(name, value)
            data = None if body is None else json.dumps(body).encode()
            if data is not None:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read().decode("utf-8", "replace")
        finally:
            connection.close()

    def exchange(self, key=None, certificate=None):
        return self.raw("POST", "/api/session", {"key": key or self.key, "certificate": certificate or self.certificate}, {"Content-Type": "application/json"})

    def pair(self):
        status, headers, text = self.exchange()
        assert status == 200, text
        self.cookie = headers["Set-Cookie"].split(";")[0]
        self.page = json.loads(text)["page"]
        return headers["Set-Cookie"]

    def own(self, **more):
        return {"Cookie": self.cookie, "X-Bailey-Page": self.page, "Origin": f"https://{self.host}", "Sec-Fetch-Site": "same-origin", **more}

    def state(self):
        status, _, text = self.raw("GET", "/api/state", headers=self.own())
        assert status == 200, text
        return json.loads(text)

    def post(self, path, body):
        return self.raw("POST", path, body, self.own(**{"Content-Type": "application/json"}))[0]
