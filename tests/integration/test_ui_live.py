# SPDX-License-Identifier: Apache-2.0
"""bailey ui without a browser: what its server says about sandboxes and services, and what becomes of orders."""
import json
import os
import signal
import socket
import threading

import pytest

from kit.control import wait_for
from kit.dashboard import Dashboard
from test_services import NAME, get, make  # noqa: F401  the fixture of both services


@pytest.fixture
def ui(start):
    dashboard = Dashboard(start)
    dashboard.sign_in()
    return dashboard


def test_a_service_is_answered_from_the_dashboard(ui, make, origin, bailey):  # noqa: F811
    service = make(origin, "control")
    answers = []
    asking = threading.Thread(target=lambda: answers.append(get(service, origin)))
    asking.start()
    try:
        sandbox = wait_for(lambda: [s for s in ui.get("/api/state")["sandboxes"] if s["questions"]], "the question")[0]
        [question] = sandbox["questions"]
        assert question["host"] == NAME
        ui.post("/api/act", {"sandbox": sandbox["id"], "do": "answer", "question": question["id"], "answer": "allow", "scope": "sandbox"})
    finally:
        asking.join(60)
    assert answers[0][0] == 200
    wait_for(lambda: [s for s in ui.get("/api/state")["sandboxes"] if any(r["pattern"].startswith(NAME) and r["live"] for r in s["rules"])], "the rule")
    wait_for(lambda: ui.get(f"/api/history?host={NAME}")["records"], "its records, wherever its log is")
    assert any("by control (bailey ui)" in str(r) for r in service.records())
    assert NAME in bailey("log", "--all", "--host", NAME).check().text
    ui.post("/api/act", {"sandbox": sandbox["id"], "do": "kill"})
    wait_for(service.gone, "its end")
    wait_for(lambda: not ui.get("/api/state")["sandboxes"], "an empty list")


def test_a_log_elsewhere_is_found(ui, start, home, work, bailey):
    log = home / "elsewhere.jsonl"
    child = start(["bailey", "run", "--audit", log, "--", "sh", "-c", "curl -s -m 9 http://first.example.com/; sleep 100"], cwd=work)
    wait_for(lambda: ui.get("/api/history?host=first.example.com")["records"], "the record")
    child.stop()
    found = wait_for(lambda: [json.loads(line) for line in bailey("log", "--all", "--json").check().text.splitlines() if "audit closed" in line], "the end, by the verb")
    assert found


def test_events_are_taken_up_again(ui, start, work):
    """A stream that broke goes on behind the last event that came; one of another server begins anew."""
    start(["bailey", "run", "--", "sh", "-c", "sleep 1; for i in 1 2 3 4 5 6; do curl -s -m 9 http://h$i.example.com/; done; sleep 100"], cwd=work)
    first = read_events(ui, None, 2)
    rest = read_events(ui, first[-1][0], 4)
    hosts = [json.loads(data).get("domain") for _, data in first + rest if "example.com" in data]
    assert hosts == [f"h{i}.example.com" for i in range(1, 7)]
    with stream(ui, "otherserver-5") as text:
        assert b"event: reset" in text.readline() + text.readline() + text.readline()


class stream:
    def __init__(self, ui, after):
        self.socket = socket.create_connection(("127.0.0.1", ui.port), 60)
        path = "/api/events" + (f"?after={after}" if after else "")
        self.socket.sendall((f"GET {path} HTTP/1.1\r\nHost: {ui.host}\r\nCookie: {ui.cookie}\r\nX-Bailey-Page: {ui.page}\r\n\r\n").encode())

    def __enter__(self):
        self.file = self.socket.makefile("rb")
        while self.file.readline() not in (b"\r\n", b""):
            pass
        return self.file

    def __exit__(self, *error):
        self.file.close()
        self.socket.close()


def read_events(ui, after, wanted):
    """(id, data) of events until so many are about a host."""
    events, last = [], None
    with stream(ui, after) as text:
        while sum("example.com" in data and '"network"' in data for _, data in events) < wanted:
            line = text.readline().decode()
            assert line, "the stream ended"
            if line.startswith("id: "):
                last = line[4:].strip()
            elif line.startswith("data: "):
                events.append((last, line[6:].strip()))
    return events


def test_a_stopped_supervisor_stops_nobody_else(ui, start, home, work):
    child = start(["bailey", "run", "--", "sleep", "100"], cwd=work)
    wait_for(lambda: [s for s in ui.get("/api/state")["sandboxes"] if s["status"]], "the sandbox")
    os.kill(child.pid, signal.SIGSTOP)
    try:
        wait_for(lambda: ui.get("/api/state")["sandboxes"][0]["status_age_ms"] > 2000, "an old status")
        assert ui.get("/api/runs")
    finally:
        os.kill(child.pid, signal.SIGCONT)
    wait_for(lambda: ui.get("/api/state")["sandboxes"][0]["status_age_ms"] < 2000, "a new status")


def test_a_long_place_of_the_sockets(start, bailey, work, tmp_path):
    """A socket's address has room for 107 bytes, a path for more."""
    place = tmp_path / ("x" * 120)
    place.mkdir(mode=0o700)
    env = {"XDG_RUNTIME_DIR": str(place)}
    ui = Dashboard(start, env=env)
    ui.sign_in()
    link = bailey("ui", "--no-open", env=env).check().text.strip()
    assert link.startswith(f"http://127.0.0.1:{ui.port}/#key=")
    start(["bailey", "run", "--", "sleep", "100"], cwd=work, env=env)
    wait_for(lambda: ui.get("/api/state")["sandboxes"], "the sandbox")
