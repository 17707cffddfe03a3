# SPDX-License-Identifier: Apache-2.0
"""Audit logs written from the description in docs/audit.md, for what cannot be made to happen in a test: hostile names in every
field, a million records. And the corpus of hostile texts."""
import datetime
import hashlib
import json
import pathlib

CASES = pathlib.Path(__file__).resolve().parents[2] / "cases"


def hostile_texts():
    lines = (CASES / "hostile_texts.txt").read_text().splitlines()
    return [line.encode("latin-1", "backslashreplace").decode("unicode_escape") for line in lines[2:]]


class Log:
    """One log with a chain that holds."""

    def __init__(self, path, run="testrun00001", start=None):
        self.path, self.run, self.seq, self.prev = pathlib.Path(path), run, 0, "0" * 64
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.at = start or datetime.datetime(2026, 11, 15, 3, 14, 7, tzinfo=datetime.timezone.utc)
        self.file = open(self.path, "w", encoding="utf-8")
        self.path.chmod(0o600)

    def add(self, kind, step=0.001, **fields):
        self.seq += 1
        self.at += datetime.timedelta(seconds=step)
        record = {"ts": self.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "run_id": self.run, "sandbox": self.run, "seq": self.seq, "kind": kind,
                  **fields, "prev": self.prev}
        line = json.dumps(record, separators=(",", ":")).replace('"duration_ms":1.5,', '"duration_ms":1.500,')
        self.prev = hashlib.sha256(line.encode()).hexdigest()
        self.file.write(line + "\n")
        return record

    def note(self, text, **more):
        return self.add("note", detail=text, **more)

    def request(self, domain, allowed=True, path="/", port=443, rule=None, reason=None, swapped=(), method="GET", detail=None, **more):
        extra = {"detail": detail} if detail else {}
        return self.add("request", method=method, scheme="https", domain=domain, port=port, path=path, addr=None, allowed=allowed, rule=rule,
                        reason=reason or ("allowed" if allowed else "not-allowed"), status=200 if allowed else 403, bytes_in=10, bytes_out=20,
                        duration_ms=1.5, via="http", swapped=list(swapped), connection=1, **extra, **more)

    def file_access(self, path, allowed=False, **more):
        return self.add("file", method="open", path=path, allowed=allowed, rule=None, reason="path", **more)

    def command(self, text, allowed=False, **more):
        return self.add("command", method="escalated", path=text, allowed=allowed, rule="git-remote", reason="ask", detail=f"why; in: {text}", **more)

    def close(self):
        self.note("end: status 0")
        self.note("audit closed")
        self.file.close()
        return self.path


def run_path(home, run, stamp="20261115-031407-000000"):
    return pathlib.Path(home) / f".local/state/bailey/audit/{stamp}-{run}.jsonl"


def hostile_log(home, run="hostile00001"):
    """A run in which every field that a program inside can choose holds every hostile text."""
    log = Log(run_path(home, run), run)
    log.note("start: mode workspace-write-whitelist, workspace /home/ann/project")
    for text in hostile_texts():
        log.note(f"command: {text}")
        log.request(text, allowed=False, path="/" + text, detail=text)
        log.request("api.example.com", path="/" + text, rule=text, swapped=[text], method="GET")
        log.file_access("/home/ann/" + text)
        log.command(text)
        log.note(f"asked: {text}:443")
        log.note(f"answered: {text}:443, allow, scope sandbox, by control (bailey ui)")
        log.note(f"rule: allow {text}, scope sandbox, by control (bailey ui)")
    return log.close()
