# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 peers on python3-h2: a client that can also misbehave, and a handler for kit.origin.Origin(raw=...)."""
import select
import socket
import struct
import threading
import time

import h2.config
import h2.connection
import h2.events

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


class Stream:
    """What came on one stream."""

    def __init__(self):
        self.interim, self.headers, self.fields, self.body, self.trailers = [], None, [], b"", None
        self.ended, self.reset = False, None

    @property
    def status(self):
        return int(self.headers[":status"]) if self.headers else None

    @property
    def done(self):
        return self.ended or self.reset is not None


class H2Client:
    """Over a connected TLS socket. Requests may run at the same time; wait() pumps until a condition holds."""

    def __init__(self, sock, authority, strict=True):
        self.sock, self.authority = sock, authority
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=True, header_encoding="utf-8", validate_outbound_headers=strict, normalize_outbound_headers=strict))
        self.streams, self.goaway, self.closed, self.pongs = {}, None, False, 0
        self.takes = lambda stream: True  # whether windows are opened again
        self.h2.initiate_connection()
        self.flush()

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def fields(self, path, method="GET", headers=(), **pseudo):
        """authority=None leaves the field out."""
        first = {":method": method, ":scheme": "https", ":authority": self.authority, ":path": path}
        first.update({f":{name}": value for name, value in pseudo.items()})
        return [*[(name, value) for name, value in first.items() if value is not None], *headers]

    def open(self, path, method="GET", headers=(), end=True, **pseudo):
        number = self.h2.get_next_available_stream_id()
        self.h2.send_headers(number, self.fields(path, method, headers, **pseudo), end_stream=end)
        self.streams[number] = Stream()
        self.flush()
        return number

    def raw(self, data):
        self.sock.sendall(data)

    def send(self, number, data, end=True, trailers=None):
        """All of it, as windows permit."""
        data = memoryview(data)
        while len(data):
            room = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size, len(data))
            if room == 0:
                assert self.pump(), "closed while sending"
                if self.streams[number].done:
                    return
                continue
            self.h2.send_data(number, bytes(data[:room]), end_stream=end and trailers is None and room == len(data))
            data = data[room:]
            self.flush()
        if trailers is not None:
            self.h2.send_headers(number, trailers, end_stream=True)
            self.flush()

    def reset(self, number, code=8):
        self.h2.reset_stream(number, code)
        self.flush()

    def pump(self):
        """One read; False at the end."""
        try:
            data = self.sock.recv(65536)
        except (ConnectionResetError, BrokenPipeError):
            data = b""
        except OSError as error:
            if "EOF" not in str(error):
                raise
            data = b""
        if not data:
            self.closed = True
            return False
        for event in self.h2.receive_data(data):
            self._take(event)
        try:
            self.flush()
        except (ConnectionResetError, BrokenPipeError):
            pass
        return True

    def _take(self, event):
        if isinstance(event, h2.events.ConnectionTerminated):
            self.goaway = event.error_code
        if isinstance(event, h2.events.PingAckReceived):
            self.pongs += 1
        stream = self.streams.get(getattr(event, "stream_id", None))
        if stream is None:
            return
        if isinstance(event, h2.events.InformationalResponseReceived):
            stream.interim.append(dict(event.headers))
        elif isinstance(event, h2.events.ResponseReceived):
            stream.headers, stream.fields = dict(event.headers), event.headers
        elif isinstance(event, h2.events.TrailersReceived):
            stream.trailers = dict(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            stream.body += event.data
            if self.takes(event.stream_id):
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            stream.ended = True
        elif isinstance(event, h2.events.StreamReset):
            stream.reset = event.error_code

    def wait(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "the condition did not come true"
            if not self.pump():
                break
        return condition()

    def ask(self, path, method="GET", headers=(), body=None, trailers=None, **pseudo):
        number = self.open(path, method, headers, end=body is None, **pseudo)
        if body is not None:
            self.send(number, body, trailers=trailers)
        stream = self.streams[number]
        self.wait(lambda: stream.done)
        return stream


class H2Server:
    """One connection of an origin. handle(server, number, headers) is called on a thread of its own per request, with
    server.receive(number) for the body; answer with respond(), data(), trailers(), or anything on server.h2 under server.lock."""

    def __init__(self, handle, on_connect=None):
        self.handle, self.on_connect = handle, on_connect

    def __call__(self, sock, connection):
        Exchange(self, sock, connection).run()


class Exchange:
    """All of the socket's work is done on one thread (OpenSSL's objects are not for two); the others wake it."""

    def __init__(self, server, sock, connection):
        self.server, self.sock, self.connection = server, sock, connection
        self.lock, self.change = threading.RLock(), threading.Condition()
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8",
                                                                       validate_outbound_headers=False,
                                                                       normalize_outbound_headers=False))
        self.bodies, self.ended, self.resets, self.trailers, self.gone = {}, set(), {}, {}, False
        self.wake, self.awake = socket.socketpair()
        self.wake.setblocking(False)

    def flush(self):
        try:
            self.wake.send(b"x")
        except BlockingIOError:
            pass  # it is awake

    def _write(self):
        with self.lock:
            data = self.h2.data_to_send()
        if data:
            self.sock.sendall(data)

    def _read(self):
        """Bytes, or None when only woken."""
        if not self.sock.pending():
            ready, _, _ = select.select([self.sock, self.awake], [], [], 60)
            if self.awake in ready:
                self.awake.recv(4096)
            if self.sock not in ready:
                return None
        return self.sock.recv(65536)

    def run(self):
        with self.lock:
            self.h2.initiate_connection()
        self._write()
        if self.server.on_connect:
            self.server.on_connect(self)
        try:
            while (data := self._read()) != b"":
                with self.lock:
                    self.connection.received += data or b"" if len(self.connection.received) < 1 << 20 else b""
                    events = self.h2.receive_data(data) if data else []
                for event in events:
                    self._take(event)
                self._write()
        finally:
            with self.change:
                self.gone = True
                self.change.notify_all()
            self.wake.close()
            self.awake.close()

    def _take(self, event):
        with self.change:
            number = getattr(event, "stream_id", None)
            if isinstance(event, h2.events.RequestReceived):
                self.bodies[number] = []
                self.connection.requests.append(dict(event.headers))
                threading.Thread(target=self._serve, args=(number, dict(event.headers)), daemon=True).start()
            elif isinstance(event, h2.events.DataReceived):
                self.bodies[number].append(event.data)
                with self.lock:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, number)
            elif isinstance(event, h2.events.TrailersReceived):
                self.trailers[number] = dict(event.headers)
            elif isinstance(event, h2.events.StreamEnded):
                self.ended.add(number)
            elif isinstance(event, h2.events.StreamReset):
                self.resets[number] = event.error_code
            self.change.notify_all()

    def _serve(self, number, headers):
        try:
            self.server.handle(self, number, headers)
        except (OSError, h2.exceptions.ProtocolError, EOFError):
            pass  # the other side has gone

    def wait(self, condition, seconds=60):
        with self.change:
            assert self.change.wait_for(lambda: condition() or self.gone, seconds)
            if not condition():
                raise EOFError

    def receive(self, number):
        """Pieces of the body, as they come."""
        while True:
            self.wait(lambda: self.bodies[number] or number in self.ended or number in self.resets)
            with self.change:
                pieces, self.bodies[number] = self.bodies[number], []
                over = not pieces
            if over:
                return
            yield from pieces

    def respond(self, number, status=200, headers=(), end=False):
        with self.lock:
            self.h2.send_headers(number, [(":status", str(status)), *headers], end_stream=end)
        self.flush()

    def data(self, number, data, end=False):
        data = memoryview(data)
        while True:
            with self.lock:
                room = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size, len(data))
                if room or not len(data):
                    self.h2.send_data(number, bytes(data[:room]), end_stream=end and room == len(data))
                    data = data[room:]
            self.flush()
            if not len(data):
                return
            if not room:
                with self.change:
                    if self.gone or number in self.resets:
                        raise EOFError
                    self.change.wait(0.05)

    def end(self, number, trailers):
        with self.lock:
            self.h2.send_headers(number, trailers, end_stream=True)
        self.flush()

    def reset(self, number, code):
        with self.lock:
            self.h2.reset_stream(number, code)
        self.flush()
