# SPDX-License-Identifier: Apache-2.0
"""A client of the control protocol (docs/control.md), written from the page alone."""
import json
import os
import pathlib
import socket
import time

from .process import SLOW, wait_until


def wait_for(condition, what, seconds=60 * SLOW):
    """The first true value of condition(), asked again and again."""
    return wait_until(condition, seconds, what, 0.02)


def sockets(home):
    return sorted(pathlib.Path(home, ".run", "bailey").glob("*.sock"))


class Refused(Exception):
    """A reply that is not ok; .code and .text say why."""

    def __init__(self, error):
        super().__init__(error["text"])
        self.code, self.text = error["code"], error["text"]


class Control:
    """One connection."""

    def __init__(self, path, hello=True):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60 * SLOW)
        # An address has room for 107 bytes.
        directory = os.open(pathlib.Path(path).parent, os.O_RDONLY)
        try:
            self._connect(f"/proc/self/fd/{directory}/{pathlib.Path(path).name}")
        finally:
            os.close(directory)
        self.file = self.socket.makefile("rb")
        self.last, self.events = 0, []
        try:
            if hello:
                self.hello = self("hello", version=1, client="test")
        except BaseException:
            self.close()
            raise

    def _connect(self, address):
        """A socket that has just appeared may not be listened to yet."""
        until = time.monotonic() + 60 * SLOW
        while True:
            try:
                return self.socket.connect(address)
            except ConnectionRefusedError:
                if time.monotonic() > until:
                    raise
            time.sleep(0.01)

    def send(self, text):
        self.socket.sendall(text if isinstance(text, bytes) else text.encode())

    def read(self):
        """One message; None at the end. Nobody waits for a client when the sandbox ends: a line may be cut off there."""
        line = self.file.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def __call__(self, do, **fields):
        self.last += 1
        self.send(json.dumps({"id": self.last, "do": do, **fields}) + "\n")
        while True:
            message = self.read()
            assert message is not None, f"{do}: the connection ended"
            if "event" in message:
                self.events.append(message)
                continue
            assert message["id"] in (self.last, 0)
            if not message["ok"]:
                raise Refused(message["error"])
            return message

    def event(self, name, seconds=60):
        """The next event of this name; others are passed over."""
        end = time.monotonic() + seconds
        while True:
            message = self.events.pop(0) if self.events else self.read()
            assert message is not None, f"the end came before {name}"
            if message.get("event") == name:
                return message
            assert time.monotonic() < end, f"no event {name}"

    def close(self):
        self.file.close()
        self.socket.close()

