# SPDX-License-Identifier: Apache-2.0
"""bailey export: every record arrives, whatever becomes of the receiver. Syslog is Debian's rsyslog; the collector is a stand-in written from OTLP's
public JSON form (https://opentelemetry.io/docs/specs/otlp/#otlphttp)."""
import http.server
import json
import pathlib
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest

from kit.control import wait_for

RSYSLOG = shutil.which("rsyslogd", path="/usr/sbin:/usr/bin:/sbin:/bin")


def make_logs(bailey, work, runs=2, records=5):
    """Runs that are refused `records` hosts each."""
    for run in range(runs):
        bailey("run", "--", "sh", "-c", f"for i in $(seq {records}); do curl -s -m 9 http://h$i-{run}.example.com/ >/dev/null; done", cwd=work)


def lines_of(home):
    return {line for file in (home / ".local/state/bailey/audit").glob("*.jsonl*") for line in file.read_text().splitlines()}


class Rsyslog:
    def __init__(self, directory, port, kind, certificate=None, root=None):
        self.directory, self.port, self.out = directory, port, directory / "out"
        self.socket = directory / "log"
        inputs = {
            "tcp": f'module(load="imtcp" ) input(type="imtcp" address="127.0.0.1" port="{port}" ruleset="r" SupportOctetCountedFraming="on")',
            "tls": f'module(load="imtcp" StreamDriver.Name="gtls" StreamDriver.Mode="1" StreamDriver.AuthMode="anon") input(type="imtcp" address="127.0.0.1" port="{port}" ruleset="r")',
            "udp": f'module(load="imudp") input(type="imudp" address="127.0.0.1" port="{port}" ruleset="r")',
            "unix": f'module(load="imuxsock" SysSock.Use="off") input(type="imuxsock" Socket="{self.socket}" ruleset="r" UseSpecialParser="off" ParseHostname="on" RateLimit.Interval="0")',
        }[kind]
        secure = f'defaultNetstreamDriverCAFile="{root}" defaultNetstreamDriverCertFile="{certificate}" defaultNetstreamDriverKeyFile="{certificate}"' if kind == "tls" else ""
        (directory / "conf").write_text(
            f'global(maxMessageSize="256k" parser.escapeControlCharactersOnReceive="off" {secure})\n'
            'template(name="t" type="string" string="%pri% %timestamp:::date-rfc3339% %app-name% %msgid% %structured-data% %msg%\\n")\n'
            f'{inputs}\nruleset(name="r") {{ action(type="omfile" file="{self.out}" template="t") }}\n')
        self.process = None

    def up(self):
        self.process = subprocess.Popen([RSYSLOG, "-n", "-f", self.directory / "conf", "-i", self.directory / "pid"], stderr=subprocess.PIPE)

    def down(self):
        if self.process:
            self.process.terminate()
            self.process.wait(30)
            self.process.stderr.close()
        self.process = None

    close = down

    def messages(self):
        return self.out.read_text().splitlines() if self.out.exists() else []


@pytest.fixture
def receiver(tmp_path, free_port, closing):
    def make(kind, *more):
        directory = tmp_path / "rs"
        directory.mkdir(exist_ok=True)
        return closing(Rsyslog(directory, free_port(), kind, *more))
    return make


@pytest.mark.skipif(not RSYSLOG, reason="rsyslog is not installed")
@pytest.mark.parametrize("kind", ["tcp", "udp", "unix"])
def test_syslog(start, bailey, work, home, receiver, kind):
    make_logs(bailey, work)
    server = receiver(kind)
    server.up()
    if kind == "tcp":
        wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", server.port)) == 0, "rsyslog")
    elif kind == "unix":
        wait_for(server.socket.exists, "rsyslog")
    else:
        time.sleep(2)
    to = f"syslog+unix://{server.socket}" if kind == "unix" else f"syslog+{kind}://127.0.0.1:{server.port}"
    result = bailey("export", "--to", to, "--once").check()
    expected = lines_of(home)
    assert f"{len(expected)} records delivered" in result.errors
    messages = wait_for(lambda: server.messages() if len(server.messages()) >= len(expected) else None, "all of them")
    got = {m[m.index(" {") + 1:] for m in messages}
    assert got == expected
    refused = [m for m in messages if "h1-0.example.com" in m and '"allowed":false' in m]
    assert refused and all(re.match(r"108 \d{4}-\d\d-\d\dT\S+ bailey \S+ \[bailey@32473 run=\"\w+\" sandbox=\"\w+\" seq=\"\d+\"\] \{", m) for m in refused)
    assert all(m.startswith(("108 ", "110 ")) for m in messages)
    assert "0 records delivered" in bailey("export", "--to", to, "--once").check().errors  # nothing twice


@pytest.mark.skipif(not RSYSLOG, reason="rsyslog is not installed")
def test_syslog_that_comes_and_goes(start, bailey, work, home, receiver):
    """Away at the start, killed in between: nothing is lost, runs go on meanwhile, a restart of the export goes on where it was."""
    server = receiver("tcp")
    to = f"syslog+tcp://127.0.0.1:{server.port}"
    exporting = start(["bailey", "export", "--to", to])
    make_logs(bailey, work, 1)
    wait_for(lambda: "waits in the logs" in exporting.errors(), "the word that it is away")
    server.up()
    wait_for(lambda: lines_of(home) <= {m[m.index(" {") + 1:] for m in server.messages()}, "the first run", 90)
    server.process.kill()
    server.process.wait()
    make_logs(bailey, work, 1)
    exporting.signal(signal.SIGKILL)
    exporting.wait()
    exporting = start(["bailey", "export", "--to", to])
    wait_for(lambda: "waits in the logs" in exporting.errors(), "the word that it is away")
    assert "another bailey export" in bailey("export", "--to", to, "--once").errors
    server.up()
    wait_for(lambda: lines_of(home) <= {m[m.index(" {") + 1:] for m in server.messages()}, "everything", 90)


GTLS = RSYSLOG and list(pathlib.Path("/usr/lib").glob("*/rsyslog/lmnsd_gtls.so"))


@pytest.mark.skipif(not GTLS, reason="rsyslog-gnutls is not installed")
def test_syslog_over_tls(start, bailey, work, home, receiver, authority, tmp_path):
    """RFC 5425 with rsyslog: a certificate of another root, or for another name, gets nothing; then everything arrives, once."""
    make_logs(bailey, work)
    expected = lines_of(home)
    server = receiver("tls", authority.issue("logs.ok.test"), authority.file)
    server.up()
    wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", server.port)) == 0, "rsyslog")
    to, name = f"syslog+tls://127.0.0.1:{server.port}", ["--server-name", "logs.ok.test"]
    for words, says in ((name, "trust|known|issue"), (["--ca", str(authority.file)], "certificate is for another address;"),
                        (["--ca", str(authority.file), "--server-name", "other.ok.test"], "certificate is for another name;")):
        refused = start(["bailey", "export", "--to", to, *words, "--once"])
        wait_for(lambda: "waits in the logs" in refused.errors(), "the word that it is refused")
        assert re.search(says, refused.errors()) and server.messages() == [], refused.errors()
        refused.signal(signal.SIGTERM)
        assert "0 records delivered" in refused.wait().errors
    result = bailey("export", "--to", to, "--ca", str(authority.file), *name, "--once").check()
    assert f"{len(expected)} records delivered, 0 sent again, 0 not taken" in result.errors
    messages = wait_for(lambda: server.messages() if len(server.messages()) >= len(expected) else None, "all of them")
    assert sorted(m[m.index(" {") + 1:] for m in messages) == sorted(expected)
    assert "0 records delivered" in bailey("export", "--to", to, "--ca", str(authority.file), *name, "--once").check().errors


class Framed:
    """A syslog server over TLS that reads octet-counted frames to the letter. `faults`: what it does to the first connections."""

    def __init__(self, context, faults=()):
        self.context, self.faults, self.frames = context, list(faults), []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                plain, _ = self.socket.accept()
            except OSError:
                return
            fault = self.faults.pop(0) if self.faults else "notify"
            try:
                self.take(plain, fault)
            except (OSError, ValueError):
                plain.close()

    def take(self, plain, fault):
        if fault == "mute":
            time.sleep(0.2)
            plain.close()
            return
        with self.context.wrap_socket(plain, server_side=True, suppress_ragged_eofs=False) as sock:
            if fault == "talks":  # and reads nothing
                while True:
                    sock.sendall(bytes(65536))
            if fault == "reset":  # closed with bytes that were never read
                sock.recv(1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            data = b""
            while True:
                piece = sock.recv(65536)
                if not piece:  # close_notify; anything else is an error
                    break
                data += piece
            frames = []
            while data:
                length, _, data = data.partition(b" ")
                assert length.isdigit() and not length.startswith(b"0") and len(data) >= int(length)
                frames.append(data[:int(length)])
                data = data[int(length):]
            self.frames += frames
            if fault == "notify":
                sock.unwrap()
            elif fault == "silent":
                time.sleep(6)

    def close(self):
        self.socket.close()


def test_tls_that_breaks_loses_nothing(start, bailey, work, home, authority, closing):
    """Ends without a handshake, one that only talks, resets in the middle, ends without TLS's word, no end at all: framed to the letter, and all there."""
    make_logs(bailey, work)
    expected = lines_of(home)
    server = closing(Framed(authority.context("127.0.0.1"), ["mute", "talks", "reset", "cut", "silent"]))
    to = f"syslog+tls://127.0.0.1:{server.port}"
    result = bailey("export", "--to", to, "--ca", str(authority.file), "--once", timeout=120).check()
    def arrived():  # a server that says nothing at the end may still be reading
        return {frame[frame.index(b" {") + 1:].decode() for frame in server.frames}
    wait_for(lambda: arrived() >= expected, "all of them")
    got = [frame.decode() for frame in server.frames]
    assert arrived() == expected
    assert all(re.match(r"<1(08|10)>1 \S+ \S+ bailey \d+ \S+ \[bailey@32473 ", frame) for frame in got)
    assert f"{len(expected)} records delivered" in result.errors and "waits in the logs" in result.errors and "goes on after" in result.errors


def test_a_client_certificate_that_is_asked_for(start, bailey, work, home, authority, closing):
    """TLS 1.3 says no after the client has written: what was written is not taken for delivered."""
    make_logs(bailey, work, 1)
    context = authority.context("127.0.0.1")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.file)
    server = closing(Framed(context))
    exporting = start(["bailey", "export", "--to", f"syslog+tls://127.0.0.1:{server.port}", "--ca", str(authority.file), "--once"])
    wait_for(lambda: "waits in the logs" in exporting.errors(), "the refusal")
    exporting.signal(signal.SIGTERM)
    assert "0 records delivered" in exporting.wait().errors and server.frames == []


class Collector(http.server.ThreadingHTTPServer):
    """Takes logs; `faults` are statuses to answer with first, None for a connection that breaks after the batch was read."""

    def __init__(self, faults=()):
        super().__init__(("127.0.0.1", 0), CollectorHandler)
        self.records, self.faults, self.tokens = [], list(faults), set()
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()


class CollectorHandler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/v1/logs" and self.headers["Content-Type"] == "application/json"
        server.tokens.add(self.headers.get("Authorization"))
        if server.faults:
            status = server.faults.pop(0)
            if status is None:
                self.take(body)
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(status)
            self.send_header("Retry-After", "1")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.take(body)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def take(self, body):
        [resource] = body["resourceLogs"]
        assert {"key": "service.name", "value": {"stringValue": "bailey"}} in resource["resource"]["attributes"]
        [scope] = resource["scopeLogs"]
        self.server.records += scope["logRecords"]

    def log_message(self, *_):
        pass


def test_collector(bailey, work, home, closing):
    """503, 429, a reply that gets lost: all records arrive, each with its attributes; those that came twice can be told."""
    make_logs(bailey, work)
    collector = closing(Collector([503, 429, None]))
    to = f"otlp+http://127.0.0.1:{collector.server_port}"
    result = bailey("export", "--to", to, "--token", "env:OTLP_TOKEN", "--once", env={"OTLP_TOKEN": "very-secret-otlp"}).check()
    expected = lines_of(home)
    assert {r["body"]["stringValue"] for r in collector.records} == expected
    assert f"{len(expected)} records delivered" in result.errors and "0 not taken" in result.errors
    assert collector.tokens == {"Bearer very-secret-otlp"} and "very-secret" not in result.errors
    for record in collector.records:
        line = json.loads(record["body"]["stringValue"])
        attributes = {a["key"]: a["value"]["stringValue"] for a in record["attributes"]}
        assert attributes["bailey.run"] == line["run_id"] and attributes["bailey.seq"] == str(line["seq"])
        assert abs(int(record["timeUnixNano"]) / 1e9 - time.time()) < 86400
        assert record["severityNumber"] == (13 if line.get("allowed") is False else 9)
    before = len(collector.records)
    assert "0 records delivered" in bailey("export", "--to", to, "--once").check().errors and len(collector.records) == before


def test_rotated_logs(bailey, work, home, closing):
    """A log that is renamed is known by its first line."""
    make_logs(bailey, work, 1)
    collector = closing(Collector())
    to = f"otlp+http://127.0.0.1:{collector.server_port}"
    bailey("export", "--to", to, "--once").check()
    before = len(collector.records)
    [log] = (home / ".local/state/bailey/audit").glob("2*.jsonl")
    shutil.copy(log, f"{log}.1")  # as rotation leaves it
    make_logs(bailey, work, 1, records=2)
    bailey("export", "--to", to, "--once").check()
    assert {r["body"]["stringValue"] for r in collector.records} == lines_of(home)
    assert len(collector.records) == len(lines_of(home)) > before


@pytest.mark.parametrize("words, text", [
    ([], "say where to"),
    (["--to", "syslog://127.0.0.1"], "syslog+udp://HOST:PORT"),
    (["--to", "syslog+tcp://logs.example.com:601"], "by its address"),
    (["--to", "syslog+unix://relative"], "absolute path"),
    (["--to", "syslog+tcp://127.0.0.1", "--ca", "/etc/passwd"], "--ca is for"),
    (["--to", "syslog+tls://127.0.0.1", "--ca", "/nothing/there"], "cannot be read"),
    (["--to", "otlp+https://127.0.0.1", "--server-name", "x.test"], "--server-name is for"),
    (["--to", "syslog+tls://127.0.0.1", "--server-name", "a b"], "no name of a host"),
    (["--to", "syslog+tls://127.0.0.1", "--token", "env:X"], "--token is for otlp"),
    (["--to", "otlp+http://192.0.2.1:4318", "--token", "env:X"], "otlp+https:// only"),
])
def test_configuration(bailey, words, text):
    result = bailey("export", *words)
    assert result.status == 2 and text in result.errors
