# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for chat services, each written from the service's public protocol document:

zulip     the REST API (register, events, messages): https://zulip.com/api/
slack     Socket Mode and chat.postMessage: https://api.slack.com/apis/socket-mode, RFC 6455
telegram  the Bot API (getUpdates, sendMessage, answerCallbackQuery): https://core.telegram.org/bots/api
matrix    the client-server API v3 (sync, send): https://spec.matrix.org/latest/client-server-api/
ntfy      publishing and subscribing: https://docs.ntfy.sh/publish/, https://docs.ntfy.sh/subscribe/api/
generic   docs/chat.md

Each checks the token and what it is sent as the service does. `posts` is what was said in the room, `say()` is a person,
`down()` and `up()` take the server off the net and back.
"""
import base64
import hashlib
import http.server
import json
import re
import socket
import struct
import threading
import time
import urllib.parse

TOKEN, APP_TOKEN = "xoxb-very-secret-token-1", "xapp-very-secret-token-2"
CODE = re.compile(r"Code ([0-9a-z]{8})\.")


class Chat:
    """What the stand-ins share: a server that can go away, what was posted, what is still to be heard."""
    hold = 2.0  # seconds that a long poll is held here

    def __init__(self):
        self.posts, self.refused, self.requests, self.settled = [], [], [], []
        self.lock, self.news = threading.Lock(), threading.Condition()
        self.waiting, self.number, self.limited, self.lost_replies = [], 100, 0, 0
        self.server, self.port, self.open_sockets = None, 0, []
        self.up()

    def up(self):
        handler = type("Handler", (Handler,), {"chat": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def down(self):
        self.server.shutdown()
        self.server.server_close()
        with self.news:
            for connection in self.open_sockets:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            self.open_sockets.clear()
            self.news.notify_all()
        self.server = None

    def close(self):
        if self.server:
            self.down()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def next(self):
        with self.lock:
            self.number += 1
            return self.number

    def push(self, event):
        with self.news:
            self.waiting.append(event)
            self.news.notify_all()
        return event

    def repeat(self, event):
        """The same once more, as a service does that lost the acknowledgement."""
        self.push(event)

    def take(self, after):
        """Events behind the place `after`, waited for."""
        end = time.monotonic() + self.hold
        with self.news:
            while len(self.waiting) <= after and time.monotonic() < end and self.server:
                self.news.wait(0.2)
            return self.waiting[after:], len(self.waiting)

    def forget(self):
        """What a service loses that was not asked for ten minutes; most keep everything."""

    def post(self, text):
        self.posts.append(text)
        return True

    def code(self, number=-1):
        codes = [c for text in list(self.posts) for c in CODE.findall(text)]
        return codes[number] if codes else None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    chat = None

    def setup(self):
        super().setup()
        self.chat.open_sockets.append(self.connection)

    def dispatch(self):
        url = urllib.parse.urlsplit(self.path)
        self.query = {k: v[0] for k, v in urllib.parse.parse_qs(url.query, keep_blank_values=True).items()}
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.chat.requests.append((self.command, url.path))
        if self.command != "GET" and self.chat.limited > 0 and "connections.open" not in self.path and "register" not in self.path:
            self.chat.limited -= 1
            self.answer({"ok": False, "error": "ratelimited", "code": "RATE_LIMIT_HIT", "parameters": {"retry_after": 1}, "retry_after_ms": 900}, 429, {"Retry-After": "1"})
            return
        try:
            self.chat.serve(self, url.path)
        except OSError:
            pass  # the other side went, or we did

    do_GET = do_POST = do_PUT = dispatch

    def form(self):
        return {k: v[0] for k, v in urllib.parse.parse_qs(self.body.decode(), keep_blank_values=True).items()}

    def answer(self, value, status=200, headers=None):
        if self.command != "GET" and status == 200 and self.chat.lost_replies > 0:
            self.chat.lost_replies -= 1  # done, and the reply gets lost
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        text = json.dumps(value).encode()
        self.send_response(status)
        for name, content in (headers or {}).items():
            self.send_header(name, content)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for at in range(0, len(text), 7):  # in small pieces
            piece = text[at:at + 7]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def deny(self):
        self.chat.refused.append(self.path)
        self.answer({"ok": False, "result": "error", "error": "not_authed", "errcode": "M_UNKNOWN_TOKEN"}, 401)

    def bearer(self, token=TOKEN):
        return self.headers.get("Authorization") == f"Bearer {token}"

    def log_message(self, *_):
        pass


class Zulip(Chat):
    settings = {"service": "zulip", "account": "bailey-bot@chat.example.com", "room": "agents/bailey", "approvers": ["alice@example.com", "7"]}
    alice, bob, mallory = "alice@example.com", "bob@example.com", "mallory@example.com"
    numbers = {"alice@example.com": 5, "bob@example.com": 7, "mallory@example.com": 9}
    buttons = False

    def __init__(self):
        self.queues = {}
        super().__init__()

    def forget(self):
        """As after ten minutes in which nobody asked: queues are gone, with what they held."""
        self.queues.clear()

    def say(self, sender, text, room="agents/bailey", edited=False, age=0, **_):
        channel, topic = room.split("/")
        if edited:
            return self.push({"type": "update_message", "user_id": self.numbers[sender], "message_id": 1, "content": text, "edit_timestamp": int(time.time())})
        return self.push({"type": "message", "message": {
            "id": self.next(), "sender_email": sender, "sender_id": self.numbers[sender], "sender_full_name": sender, "type": "stream",
            "display_recipient": channel, "subject": topic, "content": text, "timestamp": int(time.time() - age)}})

    def serve(self, h, path):
        good = "Basic " + base64.b64encode(f"{self.settings['account']}:{TOKEN}".encode()).decode()
        if h.headers.get("Authorization") != good:
            h.deny()
        elif path == "/api/v1/register":
            assert "message" in json.loads(h.form()["event_types"])
            name = f"queue:{self.next()}"
            self.queues[name] = len(self.waiting)
            h.answer({"result": "success", "queue_id": name, "last_event_id": -1})
        elif path == "/api/v1/events":
            if h.query["queue_id"] not in self.queues:
                h.answer({"result": "error", "code": "BAD_EVENT_QUEUE_ID"}, 400)
                return
            start = self.queues[h.query["queue_id"]]
            events, _ = self.take(start + int(h.query["last_event_id"]) + 1)
            first = int(h.query["last_event_id"]) + 1
            h.answer({"result": "success", "events": [{"id": first + i, **e} for i, e in enumerate(events)]})
        elif path == "/api/v1/messages":
            form = h.form()
            assert (form["type"], form["to"], form["topic"]) == ("stream", "agents", "bailey")
            self.post(form["content"])
            h.answer({"result": "success", "id": self.next()})


class Slack(Chat):
    settings = {"service": "slack", "room": "C0ROOM", "approvers": ["UALICE", "UBOB"], "app_token": "env:CHAT_APP_TOKEN"}
    alice, bob, mallory = "UALICE", "UBOB", "UMALLORY"
    buttons = True

    def __init__(self):
        self.acks, self.values, self.cursor = [], [], 0
        super().__init__()

    def forget(self):
        """A socket that is gone gets nothing that was said meanwhile."""
        self.cursor = len(self.waiting)

    def say(self, sender, text, room="C0ROOM", edited=False, bot=False, age=0, **_):
        event = {"type": "message", "user": sender, "channel": room, "text": text, "ts": f"{time.time() - age:.6f}"}
        if edited:
            event = {"type": "message", "subtype": "message_changed", "channel": room, "message": {"user": sender, "text": text, "edited": {}}}
        if bot:
            event["bot_id"] = "B1"
        n = self.next()
        return self.push({"envelope_id": f"e-{n}", "type": "events_api", "payload": {"event_id": f"Ev{n}", "event_time": int(time.time() - age), "event": event}})

    def press(self, sender, value):
        return self.push({"envelope_id": f"e-{self.next()}", "type": "interactive", "payload": {
            "type": "block_actions", "user": {"id": sender}, "channel": {"id": "C0ROOM"}, "actions": [{"value": value, "action_ts": str(time.time())}]}})

    def serve(self, h, path):
        if path == "/api/apps.connections.open":
            if not h.bearer(APP_TOKEN):
                h.deny()
                return
            h.answer({"ok": True, "url": f"ws://127.0.0.1:{self.port}/link/?ticket={self.next()}"})
        elif path == "/link/":
            self.socket(h)
        elif not h.bearer():
            h.deny()
        elif path == "/api/chat.postMessage":
            body = json.loads(h.body)
            assert body["channel"] == "C0ROOM" and "<" not in body["text"]
            for block in body.get("blocks", []):
                self.values += [e["value"] for e in block.get("elements", [])]
            self.post(body["text"])
            h.answer({"ok": True, "ts": "1.0"})

    def socket(self, h):
        key = h.headers["Sec-WebSocket-Key"]
        proof = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        h.wfile.write(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {proof}\r\n\r\n".encode())
        h.close_connection = True
        frame(h.wfile, {"type": "hello", "num_connections": 1})
        h.wfile.write(b"\x89\x04ping")
        threading.Thread(target=self.listen, args=(h.rfile,), daemon=True).start()
        while self.server:
            events, self.cursor_next = self.take(self.cursor)
            for event in events:
                frame(h.wfile, event, split=True)
            self.cursor = self.cursor_next

    def listen(self, file):
        try:
            while True:
                head = file.read(2)
                if len(head) < 2:
                    return
                assert head[1] & 0x80, "a client masks"
                size = head[1] & 0x7f
                if size == 126:
                    size = struct.unpack(">H", file.read(2))[0]
                mask = file.read(4)
                data = bytes(b ^ mask[i % 4] for i, b in enumerate(file.read(size)))
                self.acks.append("pong" if head[0] == 0x8a else json.loads(data)["envelope_id"])
        except (OSError, ValueError):
            return


def frame(file, value, split=False):
    text = json.dumps(value).encode()
    parts = [text[:9], text[9:]] if split else [text]  # also in two fragments
    for i, part in enumerate(parts):
        first = (0x80 if i == len(parts) - 1 else 0) | (1 if i == 0 else 0)
        size = bytes([len(part)]) if len(part) < 126 else b"\x7e" + struct.pack(">H", len(part))
        file.write(bytes([first]) + size + part)


class Telegram(Chat):
    settings = {"service": "telegram", "room": "-100200", "approvers": ["11", "12"]}
    alice, bob, mallory = "11", "12", "13"
    buttons = True

    def __init__(self):
        self.values, self.updates = [], {}
        super().__init__()

    def say(self, sender, text, room="-100200", edited=False, bot=False, forwarded=False, age=0, name="x", **_):
        message = {"message_id": self.next(), "from": {"id": int(sender), "is_bot": bot, "username": name, "first_name": name}, "chat": {"id": int(room)}, "date": int(time.time() - age), "text": text}
        if forwarded:
            message["forward_origin"] = {"type": "user"}
        return self.push({"update_id": self.next(), "edited_message" if edited else "message": message})

    def press(self, sender, value):
        return self.push({"update_id": self.next(), "callback_query": {
            "id": str(self.next()), "from": {"id": int(sender), "is_bot": False}, "message": {"chat": {"id": -100200}}, "data": value}})

    def serve(self, h, path):
        if not path.startswith(f"/bot{TOKEN}/"):
            h.deny()
        elif path.endswith("/getUpdates"):
            offset = int(h.query["offset"])
            end = time.monotonic() + self.hold
            while True:
                with self.news:
                    found = [u for u in self.waiting if u["update_id"] >= offset]
                    again = [u for u in self.waiting if u.get("again", 0) > 0]
                    if found or again or time.monotonic() > end or not self.server:
                        for u in again:
                            u["again"] -= 1
                        break
                    self.news.wait(0.2)
            h.answer({"ok": True, "result": found + [u for u in again if u not in found]})
        elif path.endswith("/answerCallbackQuery"):
            self.settled.append(json.loads(h.body)["text"])
            h.answer({"ok": True, "result": True})
        elif path.endswith("/sendMessage"):
            body = json.loads(h.body)
            assert body["chat_id"] == "-100200" and "parse_mode" not in body
            for row in body.get("reply_markup", {}).get("inline_keyboard", []):
                self.values += [b["callback_data"] for b in row]
                assert all(len(b["callback_data"]) <= 64 for b in row)
            self.post(body["text"])
            h.answer({"ok": True, "result": {"message_id": self.next()}})

    def repeat(self, event):
        with self.news:
            event["again"] = 1
            self.news.notify_all()


class Matrix(Chat):
    settings = {"service": "matrix", "account": "@bailey:example.com", "room": "!room:example.com", "approvers": ["@alice:example.com", "@bob:example.com"]}
    alice, bob, mallory = "@alice:example.com", "@bob:example.com", "@mallory:example.com"
    buttons = False

    def __init__(self):
        self.transactions = {}
        super().__init__()
        self.push({"type": "m.room.message", "event_id": "$old", "sender": self.alice, "content": {"msgtype": "m.text", "body": "/ps"}})

    def say(self, sender, text, edited=False, bot=False, age=0, **_):
        content = {"msgtype": "m.notice" if bot else "m.text", "body": text}
        if edited:
            content["m.relates_to"] = {"rel_type": "m.replace", "event_id": "$1"}
        return self.push({"type": "m.room.message", "event_id": f"${self.next()}", "sender": sender, "origin_server_ts": int((time.time() - age) * 1000), "content": content})

    def serve(self, h, path):
        if not h.bearer():
            h.deny()
        elif path == "/_matrix/client/v3/sync":
            assert json.loads(h.query["filter"])["room"]["rooms"] == ["!room:example.com"]
            events, place = self.take(int(h.query.get("since", "s0")[1:]))
            h.answer({"next_batch": f"s{place}", "rooms": {"join": {"!room:example.com": {"timeline": {"events": events}}}}})
        elif h.command == "PUT" and path.startswith("/_matrix/client/v3/rooms/%21room%3Aexample.com/send/m.room.message/"):
            transaction = path.rpartition("/")[2]
            body = json.loads(h.body)
            assert body["msgtype"] == "m.text" and "formatted_body" not in body
            if transaction not in self.transactions:
                self.transactions[transaction] = f"${self.next()}"
                self.post(body["body"])
            h.answer({"event_id": self.transactions[transaction]})


class Ntfy(Chat):
    settings = {"service": "ntfy", "room": "agents", "approvers": ["alice", "bob"]}
    alice, bob, mallory = "alice", "bob", "mallory"
    buttons = False

    def __init__(self):
        self.came = []  # when each event came here, by our own clock
        super().__init__()

    def push(self, event):
        self.came.append(time.time())
        return super().push(event)

    def say(self, sender, text, room="agents", age=0, **_):
        topic = f"{room}-{sender}"
        return self.push({"id": f"m{self.next()}", "time": int(time.time() - age), "event": "message", "topic": topic, "message": text})

    def serve(self, h, path):
        if not h.bearer():
            h.deny()
        elif h.command == "POST" and path == "/":
            body = json.loads(h.body)
            assert body["topic"] == "agents" and not body.get("markdown")
            self.post(body["message"])
            h.answer({"id": f"m{self.next()}"})
        elif path == "/agents-alice,agents-bob/json":
            self.stream(h)

    def stream(self, h):
        h.send_response(200)
        h.send_header("Content-Type", "application/x-ndjson")
        h.send_header("Connection", "close")
        h.end_headers()
        h.close_connection = True
        since = h.query.get("since")
        place = len(self.waiting)
        if since and since.isdigit():
            place = next((i for i, at in enumerate(self.came) if at >= int(since)), place)
        elif since:
            place = next((i + 1 for i, e in enumerate(self.waiting) if e["id"] == since), 0)
        h.wfile.write(b'{"id":"o1","time":%d,"event":"open","topic":"agents-alice,agents-bob"}\n' % time.time())
        while self.server:
            events, place = self.take(place)
            for event in events:
                h.wfile.write(json.dumps(event).encode() + b"\n")
            h.wfile.write(b'{"id":"k1","time":1,"event":"keepalive","topic":"agents-alice"}\n')


class Generic(Chat):
    settings = {"service": "generic", "room": "here", "approvers": ["alice", "bob"]}
    alice, bob, mallory = "alice", "bob", "mallory"
    buttons = True

    def __init__(self):
        self.values = []
        super().__init__()

    def say(self, sender, text, edited=False, bot=False, forwarded=False, age=0, **_):
        return self.push({"id": str(self.next()), "sender": sender, "text": text, "time": int(time.time() - age), "edited": edited, "bot": bot, "forwarded": forwarded})

    press = say

    def serve(self, h, path):
        if not h.bearer():
            h.deny()
        elif h.command == "POST" and path == "/messages":
            body = json.loads(h.body)
            assert body["room"] == "here"
            self.values += [b["value"] for b in body["buttons"]]
            self.post(body["text"])
            h.answer({"id": str(self.next())})
        elif path == "/messages":
            events, place = self.take(int(h.query["after"] or 0))
            h.answer({"next": str(place), "messages": events})


SERVICES = {"zulip": Zulip, "slack": Slack, "telegram": Telegram, "matrix": Matrix, "ntfy": Ntfy, "generic": Generic}
