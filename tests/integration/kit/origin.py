# SPDX-License-Identifier: Apache-2.0
"""An HTTP/1.1 origin that records exactly which bytes reached it, and says nothing that it was not told to say."""
import socket
import ssl
import threading
from dataclasses import dataclass, field

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Type: text/plain\r\n\r\norigin\n"


@dataclass
class Connection:
    peer: tuple
    received: bytes = b""  # every byte, in order
    requests: list = field(default_factory=list)  # whole requests, as they were framed
    server_name: str = ""  # SNI, where TLS was spoken
    closed: bool = False


class Origin:
    """`with Origin() as origin:` then origin.port, origin.connections, origin.requests().

    answer: bytes, or a function from the request's bytes to bytes (None closes without an answer).
    raw: a function (socket, connection) that does everything itself.
    """

    def __init__(self, answer=REPLY, tls=None, sock=None, address="127.0.0.1", raw=None):
        self.answer, self.tls, self.raw = answer, tls, raw
        self.connections, self._lock, self._sockets = [], threading.Lock(), set()
        if sock is None:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            sock = socket.create_server((address, 0), family=family, backlog=1024)  # crowds come, and none may be lost
        self.sock, self.address = sock, sock.getsockname()[0]
        self.port = sock.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def requests(self):
        with self._lock:
            return [request for c in self.connections for request in c.requests]

    def received(self):
        """All bytes of all connections: what must be empty when policy refused."""
        with self._lock:
            return b"".join(c.received for c in self.connections)

    def _accept(self):
        while True:
            try:
                client, peer = self.sock.accept()
            except OSError:
                return
            connection = Connection(peer)
            with self._lock:
                self.connections.append(connection)
                self._sockets.add(client)
            thread = threading.Thread(target=self._serve, args=(client, connection), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client, connection):
        try:
            client.settimeout(30)
            if self.tls:
                client = self._start_tls(client, connection)
            if self.raw:
                self.raw(client, connection)
            else:
                self._exchange(client, connection)
        except (OSError, ssl.SSLError, ValueError):
            pass  # the other side went away or spoke nonsense: what arrived is on record
        finally:
            with self._lock:
                connection.closed = True
                self._sockets.discard(client)
            client.close()

    def _start_tls(self, client, connection):
        plain = client
        client = self.tls.wrap_socket(plain, server_side=True)
        connection.server_name = getattr(client, "bailey_sni", "") or ""
        with self._lock:
            self._sockets.discard(plain)
            self._sockets.add(client)
        return client

    def _exchange(self, client, connection):
        pending = b""
        while True:
            end = request_end(pending)
            if end is None:
                chunk = client.recv(65536)
                if not chunk:
                    return
                with self._lock:
                    connection.received += chunk
                pending += chunk
                continue
            request, pending = pending[:end], pending[end:]
            with self._lock:
                connection.requests.append(request)
            answer = self.answer(request) if callable(self.answer) else self.answer
            if answer is None:
                return
            client.sendall(answer)

    def close(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()
        with self._lock:
            sockets = list(self._sockets)
        for client in sockets:
            try:
                client.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self._threads:
            thread.join(5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def request_end(data):
    """Where the first whole request ends, or None while it is not whole."""
    head_end = data.find(b"\r\n\r\n")
    if head_end < 0:
        return None
    body = head_end + 4
    fields = [line.split(b":", 1) for line in data[:head_end].split(b"\r\n")[1:]]
    headers = {name.strip().lower(): value.strip() for name, value in (f for f in fields if len(f) == 2)}
    if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        return _chunked_end(data, body)
    length = int(headers.get(b"content-length", b"0"))
    return body + length if len(data) >= body + length else None


def _chunked_end(data, at):
    while True:
        line = data.find(b"\r\n", at)
        if line < 0:
            return None
        size = int(data[at:line].split(b";")[0], 16)
        if size == 0:
            end = data.find(b"\r\n\r\n", line)
            return end + 4 if end >= 0 else None
        at = line + 2 + size + 2
        if len(data) < at:
            return None
