# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the model APIs. It speaks their streaming protocols over TLS, plays a fixed list of shell commands as the model's
tool calls, one for each turn, and records every request.

    models = Models(authority, ["echo hi", "ls"], names=[...])
    models.address, models.port    where it listens; names are put into a hosts file
    models.results()               what the commands printed, as the agent sent it back, in order
    models.requests                (host, method, path, headers, body)
    models.proxy_port              of an HTTP proxy whose every CONNECT ends here, whatever the name

The protocols: Messages (Anthropic), Responses by SSE and by WebSocket (OpenAI), chat completions, streamGenerateContent (Gemini), and token endpoints."""
import base64
import contextlib
import gzip
import hashlib
import http.server
import json
import re
import socket
import socketserver
import threading
import zlib

SHELLS = ("Bash", "bash", "shell", "exec_command", "shell_command", "run_shell_command", "runTerminalCommand", "run_terminal_command",
          "local_shell", "container.exec")
FILL = {"string": "x", "boolean": False, "integer": 20000, "number": 20000, "array": [], "object": {}}
# What GitHub says of a model.
COPILOT_MODEL = {"id": "claude-sonnet-4.6", "name": "Claude Sonnet 4.6", "object": "model", "vendor": "Anthropic", "version": "claude-sonnet-4.6", "preview": False,
                 "model_picker_enabled": True, "is_chat_default": True, "is_chat_fallback": True, "policy": {"state": "enabled", "terms": ""},
                 "billing": {"is_premium": False, "multiplier": 0}, "supported_endpoints": ["/chat/completions"],
                 "capabilities": {"family": "claude-sonnet-4.6", "object": "model_capabilities", "tokenizer": "o200k_base", "type": "chat",
                                  "limits": {"max_context_window_tokens": 128000, "max_output_tokens": 16384, "max_prompt_tokens": 128000},
                                  "supports": {"parallel_tool_calls": True, "streaming": True, "tool_calls": True}}}


def kind_of(schema):
    """Of several that are permitted, the first."""
    for choice in ("anyOf", "oneOf"):
        schema = {**schema[choice][0], **schema} if schema.get(choice) else schema
    kind = schema.get("type", "string")
    return str(kind[0] if isinstance(kind, list) else kind).lower()


def arguments_for(schema, command):
    """The command in the tool's own shape: what it requires beside it gets something harmless."""
    properties = (schema or {}).get("properties") or {}
    key = next((name for name in ("command", "cmd", "script") if name in properties), "command")
    array = (properties.get(key) or {}).get("type") == "array"
    given = {key: ["bash", "-lc", command] if array else command}
    for name in (schema or {}).get("required") or []:
        given.setdefault(name, FILL.get(kind_of(properties.get(name) or {}), "x"))
    return given


def pick_tool(tools, shells=SHELLS):
    """(name, schema) of the tool that runs shell commands, or of another that takes a command."""
    for wanted in shells:
        for name, schema in tools:
            if name == wanted:
                return name, schema
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "models"

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        coding = self.headers.get("Content-Encoding", "")
        if coding == "gzip":
            return gzip.decompress(data)
        return zlib.decompress(data) if coding == "deflate" else data

    def reply(self, status, value, kind="application/json"):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def stream(self, events, named=False):
        """Server-sent events, in pieces as they come."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            text = event if isinstance(event, str) else json.dumps(event)
            head = f"event: {event['type']}\n" if named else ""
            data = f"{head}data: {text}\n\n".encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def handle_all(self):
        models, host = self.server.models, (self.headers["Host"] or "").split(":")[0]
        body = self.body()
        models.record(host, self.command, self.path, dict(self.headers), body)
        path = self.path.split("?")[0]
        try:
            asked = json.loads(body) if body else {}
        except ValueError:
            asked = {}
        if (models.refuses or self.is_over(models)) and not models.plain(host):
            self.reply(401, {"type": "error", "error": {"type": "authentication_error", "code": 401, "message": "invalid x-api-key", "status": "UNAUTHENTICATED"}})
        elif path.endswith("/v1/messages"):
            self.play_messages(models, asked)
        elif path.endswith("/responses") and self.headers.get("Upgrade", "").lower() == "websocket":
            self.play_socket(models)
        elif path.endswith("/responses"):
            self.play_responses(models, asked)
        elif path.endswith("/chat/completions"):
            self.play_chat(models, asked)
        elif "GenerateContent" in path or "generateContent" in path:
            self.play_gemini(models, asked, path)
        elif path.endswith(":loadCodeAssist"):
            self.reply(200, {"currentTier": {"id": "standard-tier", "name": "x"}, "cloudaicompanionProject": "project-1"})
        elif path.endswith("count_tokens") or path.endswith(":countTokens"):
            self.reply(200, {"input_tokens": 10, "totalTokens": 10})
        elif path.endswith("/accounts/check"):
            account = {"id": "acc-1", "account_id": "acc-1", "name": "Ann", "plan_type": "plus", "structure": "personal", "is_deactivated": False,
                       "workspace_backend_origin": "https://chatgpt.com", "account_routing_override": "NO_CONSTRAINT"}
            self.reply(200, {"accounts": [account], "account_ordering": ["acc-1"], "default_account_id": "acc-1"})
        elif path.endswith("/tokeninfo"):
            self.reply(200, {"expires_in": 3600, "scope": "https://www.googleapis.com/auth/cloud-platform", "email": "ann@example.com"})
        elif path.endswith("/token"):
            self.reply(200, models.renew())
        elif path.endswith("/copilot_internal/user"):
            self.reply(200, {"login": "ann", "access_type_sku": "monthly_subscriber_quota", "copilot_plan": "individual", "chat_enabled": True, "is_mcp_enabled": True,
                             "endpoints": {"api": "https://api.individual.githubcopilot.com"}})
        elif path.endswith("/models") and host.endswith("githubcopilot.com"):
            self.reply(200, {"object": "list", "data": [COPILOT_MODEL]})
        elif path.endswith("/models"):
            self.reply(200, {"object": "list", "data": [{"id": "model-1", "object": "model"}], "models": []})
        elif self.headers.get("Upgrade"):
            self.reply(404, {"error": {"message": "no web sockets here"}})
        else:
            self.reply(200, b"fine\n" if models.plain(host) else {}, "text/plain" if models.plain(host) else "application/json")

    def is_over(self, models):
        """A token whose time is over, as a provider judges it; an agent may believe that it still counts."""
        said = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return bool(models.tokens) and said == models.tokens(-1)[0]

    do_GET = do_POST = do_PUT = do_HEAD = do_PATCH = do_DELETE = handle_all

    def play_messages(self, models, asked):
        results = [block for message in asked.get("messages", []) if isinstance(message.get("content"), list)
                   for block in message["content"] if block.get("type") == "tool_result"]
        tool = pick_tool([(t.get("name"), t.get("input_schema")) for t in asked.get("tools") or []], models.shells)
        step = models.next(results, tool, [t.get("name") for t in asked.get("tools") or []])
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": "All done."}
        if step:
            block = {"type": "tool_use", "id": f"toolu_{len(results):04}", "name": tool[0], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments_for(tool[1], step))}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": asked.get("model", "m"), "content": [], "stop_reason": None,
                   "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1}}
        stop = "tool_use" if step else "end_turn"
        if not asked.get("stream"):
            whole = {**block, "text": "All done."} if not step else {**block, "input": arguments_for(tool[1], step)}
            self.reply(200, {**message, "content": [whole], "stop_reason": stop})
            return
        self.stream([{"type": "message_start", "message": message}, {"type": "content_block_start", "index": 0, "content_block": block},
                     {"type": "ping"}, {"type": "content_block_delta", "index": 0, "delta": delta}, {"type": "content_block_stop", "index": 0},
                     {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 5}},
                     {"type": "message_stop"}], named=True)

    def responses_events(self, models, asked, results):
        spaces = {t["name"]: t.get("tools") or [] for t in asked.get("tools") or [] if t.get("type") == "namespace"}  # tools of a server
        inner = {f"{space}__{t['name']}": {"namespace": space, "name": t["name"]} for space, within in spaces.items() for t in within}
        tools = [(t.get("name") or t.get("type"), t.get("parameters")) for t in asked.get("tools") or []]
        tools += [(f"{space}__{t['name']}", t.get("parameters")) for space, within in spaces.items() for t in within]
        tool = pick_tool(tools, models.shells)
        step = models.next(results, tool, [name for name, _ in tools])
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "All done.", "annotations": []}]}
        if step:
            item = {"type": "function_call", "id": f"fc_{len(results)}", "call_id": f"call_{len(results)}", "name": tool[0], "status": "completed",
                    "arguments": json.dumps(arguments_for(tool[1], step)), **inner.get(tool[0], {})}
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "input_tokens_details": {"cached_tokens": 0},
                 "output_tokens_details": {"reasoning_tokens": 0}}
        response = {"id": f"resp_{len(results)}", "object": "response", "created_at": 1, "status": "in_progress", "model": asked.get("model", "m"),
                    "output": []}
        done = {**response, "status": "completed", "output": [item], "usage": usage}
        opened = {**item, "arguments": ""} if step else {**item, "content": []}
        return [{"type": "response.created", "response": response}, {"type": "response.output_item.added", "output_index": 0, "item": opened},
                *([{"type": "response.function_call_arguments.delta", "item_id": item["id"], "output_index": 0, "delta": item["arguments"]},
                   {"type": "response.function_call_arguments.done", "item_id": item["id"], "output_index": 0, "arguments": item["arguments"]}]
                  if step else [{"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "All done."}]),
                {"type": "response.output_item.done", "output_index": 0, "item": item}, {"type": "response.completed", "response": done}]

    @staticmethod
    def responses_results(asked):
        items = asked.get("input") if isinstance(asked.get("input"), list) else []
        return [item for item in items if str(item.get("type", "")).endswith("call_output")]

    def play_responses(self, models, asked):
        events = self.responses_events(models, asked, self.responses_results(asked))
        if asked.get("stream"):
            self.stream(events, named=True)
        else:
            self.reply(200, events[-1]["response"])

    def read_frame(self):
        """(opcode, data) of one frame of a WebSocket, or None at the end."""
        head = self.rfile.read(2)
        if len(head) < 2:
            return None
        size = head[1] & 127
        if size > 125:
            size = int.from_bytes(self.rfile.read(2 if size == 126 else 8), "big")
        mask = self.rfile.read(4) if head[1] & 128 else b"\0\0\0\0"
        data = self.rfile.read(size)
        return head[0], bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))

    def send_frame(self, opcode, data):
        size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2, "big") if len(data) < 65536 \
            else b"\x7f" + len(data).to_bytes(8, "big")
        self.wfile.write(bytes([0x80 | opcode]) + size + data)
        self.wfile.flush()

    def play_socket(self, models):
        """Each message asks for a response; what came before on this connection is not sent again."""
        accept = base64.b64encode(hashlib.sha1((self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        self.send_response(101)
        for name, value in {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": accept.decode()}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        results, text, tools = [], b"", []
        models.sockets += 1
        while frame := self.read_frame():
            opcode = frame[0] & 15
            if opcode == 8:
                self.send_frame(8, frame[1][:2])
                return
            if opcode == 9:
                self.send_frame(10, frame[1])
            if opcode in (0, 1, 2):
                text += frame[1]
            if opcode not in (0, 1, 2) or not frame[0] & 128:
                continue
            asked, text = json.loads(text), b""
            models.record(self.headers["Host"].split(":")[0], "WS", self.path, {}, json.dumps(asked).encode())
            tools = asked.get("tools") or tools
            new = self.responses_results(asked)
            results = results + new if asked.get("previous_response_id") else new
            if asked.get("generate") is False:
                events = self.responses_events(models, {**asked, "tools": []}, results)
                events = [events[0], {**events[-1], "response": {**events[-1]["response"], "output": []}}]
            else:
                events = self.responses_events(models, {**asked, "tools": tools}, results)
            for event in events:
                self.send_frame(1, json.dumps(event).encode())

    def play_chat(self, models, asked):
        results = [m for m in asked.get("messages", []) if m.get("role") == "tool"]
        tool = pick_tool([(t["function"]["name"], t["function"].get("parameters")) for t in asked.get("tools") or [] if "function" in t], models.shells)
        step = models.next(results, tool)
        base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": asked.get("model", "m")}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        delta = {"role": "assistant", "content": "All done."}
        if step:
            delta = {"role": "assistant", "content": None, "tool_calls": [
                {"index": 0, "id": f"call_{len(results)}", "type": "function",
                 "function": {"name": tool[0], "arguments": json.dumps(arguments_for(tool[1], step))}}]}
        reason = "tool_calls" if step else "stop"
        if not asked.get("stream"):
            self.reply(200, {**base, "object": "chat.completion", "usage": usage,
                             "choices": [{"index": 0, "message": delta, "finish_reason": reason}]})
            return
        self.stream([{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
                     {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}, "[DONE]"])

    def play_gemini(self, models, asked, path):
        wrapped = "request" in asked  # by a Google account
        asked = asked["request"] if wrapped else asked
        results = [part for content in asked.get("contents", []) for part in content.get("parts", []) if "functionResponse" in part]
        declared = [d for t in asked.get("tools") or [] for d in t.get("functionDeclarations", [])]
        tool = pick_tool([(d["name"], d.get("parametersJsonSchema") or d.get("parameters")) for d in declared], models.shells)
        step = models.next(results, tool, [d["name"] for d in declared])
        config = asked.get("generationConfig") or {}
        text = "All done."
        if config.get("responseMimeType") == "application/json":  # a question on the side, which model to take and such
            text = json.dumps(arguments_for(config.get("responseJsonSchema") or config.get("responseSchema"), "x"))
        part = {"functionCall": {"name": tool[0], "args": arguments_for(tool[1], step)}} if step else {"text": text}
        value = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
                 "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}, "modelVersion": "m", "responseId": "r"}
        value = {"response": value} if wrapped else value
        if "stream" in path:
            self.stream([value])
        else:
            self.reply(200, value)


class Proxy(socketserver.StreamRequestHandler):
    def handle(self):
        first = self.rfile.readline()
        while self.rfile.readline() not in (b"\r\n", b"\n", b""):
            pass
        if not first.startswith(b"CONNECT "):
            return
        with socket.create_connection(("127.0.0.1", self.server.models.port)) as origin:
            self.server.ends += [origin, self.connection]
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=self.copy, args=(origin, self.connection), daemon=True)
            back.start()
            self.copy(self.connection, origin)
            back.join(60)

    @staticmethod
    def copy(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 64


class Models:
    def __init__(self, authority, steps, names, address="127.0.0.1", port=443, plain=()):
        self.steps, self.names, self.address = steps, names, address
        self.requests, self._outputs, self._plain, self._lock = [], {}, set(plain), threading.Lock()
        self.offered, self.sockets, self.refuses = set(), 0, False
        self.shells = SHELLS
        self.loses = None  # what an agent says that lost the output of a command: the command is played again
        self.tokens, self.turn, self.id_token = lambda n: (f"access-token-of-the-stand-in-{n}", f"refresh-token-of-the-stand-in-{n}"), 0, None
        self.server = http.server.ThreadingHTTPServer((address, port), Handler)
        self.server.models, self.server.daemon_threads, self.port = self, True, self.server.server_address[1]
        self.server.socket = authority.context(*names).wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()
        self.proxy = Server(("127.0.0.1", 0), Proxy)
        self.proxy.ends = []
        self.proxy.models, self.proxy_port = self, self.proxy.server_address[1]
        self.proxy_thread = threading.Thread(target=self.proxy.serve_forever, args=(0.05,), daemon=True)
        self.proxy_thread.start()

    def renew(self):
        """What a token endpoint answers: each time something new."""
        with self._lock:
            self.turn += 1
            access, refresh = self.tokens(self.turn)
        told = {"access_token": access, "refresh_token": refresh, "expires_in": 3600, "token_type": "Bearer"}
        return {**told, "id_token": self.id_token} if self.id_token else told

    def plain(self, host):
        return host in self._plain

    def record(self, host, method, path, headers, body):
        with self._lock:
            self.requests.append((host, method, path, headers, body))

    def next(self, results, tool, tools=()):
        """The next command, or None when there are no tools or all were played. Keeps what came back."""
        with self._lock:
            self.offered = self.offered | set(tools)
            step = 0
            for result in results:
                self._outputs[step] = json.dumps(result)
                step += not self.loses or self.loses not in self._outputs[step]
            return self.steps[step] if tool and step < len(self.steps) and len(results) < 5 * len(self.steps) else None

    def results(self):
        return [re.sub(r"\\+n", "\n", self._outputs[i]) for i in sorted(self._outputs)]

    def close(self):
        self.proxy.shutdown()
        self.proxy_thread.join(10)
        for end in self.proxy.ends:  # agents keep connections, and so does the gateway
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self.proxy.server_close()
        self.server.shutdown()
        self.thread.join(10)
        self.server.server_close()
