# SPDX-License-Identifier: Apache-2.0
"""A connection is held while a person is asked: how long after the answer does it go on? By the control socket, and by `bailey allow`, in turn."""
import contextlib
import json
import select
import socket
import subprocess
import time

from .launch import environment
from .machine import LabError, installed
from .peers import FRESH_HOSTS, PORT, SECURE_ZONE

PATIENCE = 20
CONTROL, VERB = "control socket", "bailey allow"
POLICY = """network:
  ask: control
  allow_private: ["127.0.0.1:{origin}"]
"""
# Inside: one tunnel after the other, each to a host that nobody was asked about; says when it was open, by a clock that is the same outside.
INSIDE = """
import os, socket, sys, time
proxy = os.environ["http_proxy"].rpartition("/")[2].rpartition(":")
for number in range(int(sys.argv[1])):
    with socket.create_connection((proxy[0], int(proxy[2]))) as s:
        s.sendall(f"CONNECT h{number}.%s:%d HTTP/1.1\\r\\n\\r\\n".encode())
        answer = s.recv(4096)
        print(time.monotonic_ns(), answer[9:12].decode(), flush=True)
"""


class Lines:
    """What a socket or a pipe says, line by line; nobody is waited for without end."""

    def __init__(self, descriptor, receive):
        self.descriptor, self.receive, self.rest = descriptor, receive, b""

    def next(self):
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.descriptor], [], [], PATIENCE)
            got = self.receive(65536) if ready else b""
            if not got:
                raise LabError("it ended, or said nothing for a long time")
            self.rest += got
        line, _, self.rest = self.rest.partition(b"\n")
        return line


class Control:
    """The control socket of the sandbox, with its events."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self.lines = Lines(self.socket, self.socket.recv)
        self.send(1, do="hello", version=1, client="lab")
        self.send(2, do="subscribe")

    def send(self, number, **request):
        self.socket.sendall(json.dumps({"id": number, **request}).encode() + b"\n")

    def question(self):
        """The next one."""
        while True:
            said = json.loads(self.lines.next())
            if said.get("ok") is False:
                raise LabError(said["error"]["text"])
            if said.get("event") == "ask":
                return said["question"]


def control_of(session):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for path in session.glob("bailey/*.sock"):
            return Control(path)
        time.sleep(0.01)
    raise LabError("no control socket")


def run_approval(lab, answers, say):
    """{way: [{"ms":}]}, and what failed."""
    run = lab.run / "approval"
    env = environment(run)
    (run / "workspace").mkdir(exist_ok=True)
    (run / "policy.yaml").write_text(POLICY.format(**PORT))
    bailey, results = installed(lab.build), {}
    lab.start("origin")
    inside = subprocess.Popen([bailey, "run", "--quiet", "--policy", run / "policy.yaml", "--hosts", lab.run / "hosts", "-w", run / "workspace", "--",
                               "/usr/bin/python3", "-c", INSIDE % (SECURE_ZONE, PORT["origin"]), str(min(answers, FRESH_HOSTS))],
                              env=env, bufsize=0, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        control, opened = control_of(run / "session"), Lines(inside.stdout, inside.stdout.read)
        for number in range(min(answers, FRESH_HOSTS)):
            question, way = control.question(), VERB if number % 2 else CONTROL
            began = time.monotonic_ns()
            if way == VERB:
                subprocess.run([bailey, "allow", "--scope", "once", f"{question['host']}:{question['port']}"], env=env, check=True, capture_output=True, timeout=PATIENCE)
            else:
                control.send(number + 3, do="answer", question=question["id"], answer="allow", scope="once")
            then, status = opened.next().split()
            if status != b"200":
                raise LabError(f"the tunnel was answered with {status.decode()}")
            results.setdefault(way, []).append({"ms": (int(then) - began) / 1e6})
        control.socket.close()
        inside.wait(PATIENCE)
    finally:
        with contextlib.suppress(ProcessLookupError):
            inside.kill()
        inside.wait()
        inside.stdout.close()
    return results, {}
