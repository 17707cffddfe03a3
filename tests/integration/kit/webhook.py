# SPDX-License-Identifier: Apache-2.0
"""A receiver of webhooks: a chat that holds the message until somebody presses a button."""
import http.server
import json
import threading


class Receiver(http.server.ThreadingHTTPServer):
    """got: path, content type and message of the last request. It is replied to when `decided` is set."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.got, self.reply, self.head, self.stays, self.ended = None, b"", "Content-Length: 0", False, False
        self.decided, self.closing = threading.Event(), threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, reply, head="", stays=False):
        """head: a line of the reply's head, instead of its length. stays: the connection is kept after it."""
        self.reply, self.head, self.stays = reply, head or f"Content-Length: {len(reply)}", stays
        self.decided.set()

    def close(self):
        self.decided.set()
        self.closing.set()
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        server = self.server
        server.got = (self.path, self.headers["Content-Type"], json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        server.decided.wait(60)
        self.wfile.write(f"HTTP/1.1 200 OK\r\n{server.head}\r\n\r\n".encode() + server.reply)
        if server.stays:
            server.closing.wait(60)

    def finish(self):
        super().finish()
        self.server.ended = True

    def log_message(self, *_):
        pass
