# SPDX-License-Identifier: Apache-2.0
"""bailey-gateway by itself, under tests/tools/gateway_driver.c, and a client that reads HTTP answers as strictly as it can."""
import json
import re
import select
import socket
import subprocess
import threading
import time

from .process import PATIENCE, end_of, report_of


class Gateway:
    """Gateway(build, ["http", "allow=plain.ok.test"]) then gateway.port["http"], gateway.events, gateway.say("audit 0")."""

    def __init__(self, build, words, hosts=None, tmp_path=None, env=None, pass_fds=()):
        words = list(words)
        if hosts is not None:
            file = tmp_path / "hosts"
            file.write_text("".join(f"{address} {name}\n" for name, address in hosts))
            words.append(f"hosts={file}")
        self.port, self.events, self.asks, self.pid, self._changed = {}, [], [], 0, threading.Condition()
        self.ended, self.fakes, self.vault = None, {}, 0
        self.process = subprocess.Popen([build / "tests/tools/gateway-driver", build / "src/gateway/bailey-gateway", *words],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, pass_fds=pass_fds)
        self._errors = []
        threads = [threading.Thread(target=self._read, daemon=True), threading.Thread(target=self._read_errors, daemon=True)]
        self._threads, self._ready, self._over, self.notes = threads, False, False, []
        for thread in threads:
            thread.start()
        with self._changed:
            if not self._changed.wait_for(lambda: self._ready or self._over, PATIENCE) or not self._ready:
                self._give_up()
                raise AssertionError("the gateway did not start: " + "".join(self._errors))

    def _give_up(self):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()

    def _read_errors(self):
        for line in self.process.stderr:
            self._errors.append(line)

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                word, _, rest = line.strip().partition(" ")
                if line.startswith("{"):
                    self.events.append(json.loads(line))
                elif word == "ready":
                    self._ready = True
                elif word == "ask":
                    self.asks.append([rest.split()[0], *rest.split()[2].rsplit(":", 1)])
                elif word == "ended":
                    self.ended = int(rest)
                elif word == "listen":
                    self.port[rest.split()[0]] = int(rest.split()[1])
                elif word == "fake":
                    self.fakes[rest.split()[0]] = rest.split()[1]
                elif word == "vault":
                    self.vault = int(rest)
                elif word == "pid":
                    self.pid = int(rest)
                else:
                    self.notes.append(word)
                self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def wait(self, condition, seconds=PATIENCE):
        """Until condition(gateway) holds."""
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self), seconds), f"events: {self.events}, notes: {self.notes}"

    def wait_event(self, seconds=PATIENCE, **fields):
        def found(_):
            return [e for e in self.events if all(e[k] == v for k, v in fields.items())]
        self.wait(found, seconds)
        return found(self)[0]

    def close(self):
        if self.process.stdin.closed:
            return
        self.process.stdin.close()
        in_time = True
        try:
            end_of(self.process, 60)  # a sanitizer that looks for leaks takes its time, on a busy machine a lot of it
        except subprocess.TimeoutExpired:
            in_time = False
            self.process.kill()
            self.process.wait()
        for thread in self._threads:
            thread.join(5)
        self.process.stdout.close()
        self.process.stderr.close()
        report = report_of("".join(self._errors))
        assert not report, report
        assert in_time, "the gateway did not end within 60 s:\n" + "".join(self._errors)[-4000:]
        assert self.ended == 0, f"the gateway ended with {self.ended}:\n" + "".join(self._errors)[-4000:]

    def connect(self, listener="http", timeout=PATIENCE):
        sock = socket.create_connection(("127.0.0.1", self.port[listener]), timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock


class Client:
    """Reads answers off a socket, one by one; received holds every byte."""

    def __init__(self, sock):
        self.sock, self.received, self.pending, self.ended, self.reset = sock, b"", b"", False, False

    def _more(self):
        try:
            data = self.sock.recv(65536)
        except ConnectionResetError:
            self.reset = True
            data = b""
        self.received += data
        self.pending += data
        if not data:
            self.ended = True
        return bool(data)

    def _until(self, size):
        while len(self.pending) < size and self._more():
            pass
        taken, self.pending = self.pending[:size], self.pending[size:]
        return taken

    def answer(self, head=False):
        """(status, headers, body) or None at the end. `head`: it answers a HEAD request."""
        while b"\r\n\r\n" not in self.pending and self._more():
            pass
        text, found, _ = self.pending.partition(b"\r\n\r\n")
        if not found:
            return None
        self.pending = self.pending[len(text) + 4:]
        lines = text.decode("latin-1").split("\r\n")
        match = re.fullmatch(r"HTTP/1\.1 (\d\d\d) .*", lines[0])
        assert match, lines[0]
        status = int(match[1])
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if head or status < 200 or status in (204, 304):
            return status, headers, b""
        if headers.get("transfer-encoding") == "chunked":
            return status, headers, self._chunked()
        if "content-length" in headers:
            return status, headers, self._until(int(headers["content-length"]))
        while self._more():
            pass
        body, self.pending = self.pending, b""
        return status, headers, body

    def _line(self):
        while b"\r\n" not in self.pending and self._more():
            pass
        line, _, self.pending = self.pending.partition(b"\r\n")
        return line

    def _chunked(self):
        body = b""
        while True:
            size = int(self._line() or b"0", 16)
            if size == 0:
                self._line()
                return body
            body += self._until(size)
            self._line()

    def is_closed(self, seconds=1.0):
        deadline = time.monotonic() + seconds
        while not self.ended and time.monotonic() < deadline:
            if select.select([self.sock], [], [], max(0, deadline - time.monotonic()))[0]:
                self._more()
        return self.ended
