# SPDX-License-Identifier: Apache-2.0
"""Audit logs over time: searches over all runs, an index that is never the truth, and logs that go, on record."""
import json
import os
import time

import pytest

from kit.audit import Log, hostile_log, hostile_texts, run_path
from kit.control import wait_for

DAY = 86400


def audit_dir(home):
    return home / ".local/state/bailey/audit"


def make_run(home, number, hosts=("a.example.com",), age_days=0, lines=10, **more):
    run = f"run{number:09d}"
    log = Log(run_path(home, run, f"20261101-{number:06d}-000000"), run)
    log.note(f"start: mode workspace-write-whitelist, workspace /w/{number}")
    log.note(f"command: job {number}")
    for line in range(lines):
        log.request(hosts[line % len(hosts)], **more)
    path = log.close()
    stamp = time.time() - age_days * DAY
    os.utime(path, (stamp, stamp))
    return path


def hits(bailey, *options):
    return [json.loads(line) for line in bailey("log", "--all", "--json", *options).check().text.splitlines()]


def in_order(found):
    """Records of one moment stand in no order."""
    return sorted(found, key=lambda hit: (hit["ts"], hit["run_id"], hit["seq"]))


def test_search_over_all_runs(bailey, home):
    make_run(home, 1, hosts=("a.example.com", "b.example.com"), rule="*.example.com", swapped=["openai"])
    make_run(home, 2, hosts=("c.example.org",), allowed=False, path="/secret/path")
    everything = hits(bailey)
    assert len(everything) == 28 and [e["ts"] for e in everything] == sorted(e["ts"] for e in everything)
    assert len(hits(bailey, "--host", "b.example.com")) == 5
    assert len(hits(bailey, "--host", "*.example.com")) == 10
    assert hits(bailey, "--host", "example.com") == []
    assert {h["run_id"] for h in hits(bailey, "--denied")} == {"run000000002"}
    assert len(hits(bailey, "--path", "secret")) == 10
    assert len(hits(bailey, "--rule", "*.example.com")) == 10 == len(hits(bailey, "--credential", "openai"))
    assert hits(bailey, "--credential", "open") == []
    assert len(hits(bailey, "--run", "run000000001")) == 14
    assert hits(bailey, "--since", "1h") == [] and len(hits(bailey, "--until", "1h")) == 28
    assert len(hits(bailey, "--since", "2026-11-15T03:00")) == 28
    newest = hits(bailey, "--limit", "3")
    assert newest == everything[-3:]
    shown = bailey("log", "--all", "--host", "c.example.org").check().text
    assert "run000000002" in shown and "DENY" in shown
    assert len(bailey("log", "--all", "--requests").check().text.splitlines()) == 20


def test_options_that_do_not_fit(bailey, home):
    make_run(home, 1)
    for words in (["--host", "x"], ["--until", "1h"], ["--limit", "3"], ["--all", "--follow"], ["--all", "file.jsonl"], ["--all", "--since", "x"],
                  ["--all", "--until", "yesterday"]):
        assert bailey("log", *words).status == 2, words


def test_the_index_grows_with_the_logs_and_can_go(bailey, home):
    make_run(home, 1)
    assert len(hits(bailey)) == 14
    log = Log(run_path(home, "live00000001", "20261116-000000-000000"), "live00000001")
    log.request("grows.example.com")
    log.file.flush()
    assert len(hits(bailey, "--host", "grows.example.com")) == 1
    log.request("grows.example.com")
    log.file.write('{"ts":"2026')  # the beginning of a record is no record
    log.file.flush()
    assert len(hits(bailey, "--host", "grows.example.com")) == 2
    index = home / ".local/state/bailey/index.db"
    before = in_order(hits(bailey))
    assert oct(index.stat().st_mode & 0o777) == "0o600"
    for damage in (b"", b"not a database at all" * 100, index.read_bytes()[:5000] + b"x" * 9000):
        index.write_bytes(damage)
        for suffix in ("-wal", "-shm"):
            (home / f".local/state/bailey/index.db{suffix}").unlink(missing_ok=True)
        assert in_order(hits(bailey)) == before, damage[:20]
    log.file.close()


def test_rotated_files_are_followed(bailey, home):
    log = Log(run_path(home, "rotated00001"), "rotated00001")
    for number in range(20):
        log.request(f"first{number}.example.com")
    log.file.flush()
    assert len(hits(bailey)) == 20
    log.file.close()
    log.path.rename(f"{log.path}.1")
    log.file = open(log.path, "w")
    for number in range(5):
        log.request(f"second{number}.example.com")
    log.file.flush()
    assert len(hits(bailey)) == 25
    assert len(hits(bailey, "--host", "first3.example.com")) == 1
    log.file.close()


def test_what_is_not_a_record_is_not_found(bailey, home):
    """A line that was changed after it was indexed is read from the log, and must be what the index says."""
    path = make_run(home, 1)
    assert len(hits(bailey, "--host", "a.example.com")) == 10
    text = path.read_text()
    path.write_text(text.replace("a.example.com", "b.example.com", 1))
    assert bailey("log", "verify", path).status == 1
    found = hits(bailey, "--host", "a.example.com")
    assert "b.example.com" in {h["domain"] for h in found}  # shown as it stands in the log
    broken = run_path(home, "broken000001", "20261117-000000-000000")
    broken.write_text(text.splitlines(True)[0] + "garbage\n" + text.splitlines(True)[1])
    assert len(hits(bailey, "--run", "run000000001")) == 14 + 1  # the record before the garbage has that id


def test_hostile_texts_are_found_and_shown_as_text(bailey, home):
    hostile_log(home)
    for text in hostile_texts():
        if "\x00" in text or "*" in text:
            continue
        assert hits(bailey, "--host", text), text
    shown = bailey("log", "--all").check()
    assert not any(byte < 0x20 and byte != 0x0a or byte == 0x7f for byte in shown.out)


def test_prune_by_age(bailey, home):
    old, young = make_run(home, 1, age_days=40), make_run(home, 2, age_days=3)
    newest = make_run(home, 3, age_days=50)  # the newest run stays, whatever its age
    assert "would drop run000000001" in bailey("log", "prune", "--max-age", "30d", "--dry-run").check().text and old.exists()
    verified = json.loads(bailey("log", "verify", old, "--json").check().text)
    report = json.loads(bailey("log", "prune", "--max-age", "30d", "--json").check().text)
    [dropped] = report["dropped"]
    assert dropped["run"] == "run000000001" and dropped["records"] == 14 == verified["records"] and dropped["because"] == "age"
    assert dropped["last_sha256"] == verified["last_sha256"]
    assert not old.exists() and young.exists() and newest.exists() and report["runs"] == 2

    record = audit_dir(home) / "dropped.jsonl"
    assert bailey("log", "verify", record).status == 0
    text = bailey("log", record).check().text
    assert "dropped run run000000001: 14 records" in text and verified["last_sha256"] in text and "older than log.max_age" in text
    bailey("log", "prune", "--max-age", "1d").check()
    assert not young.exists() and bailey("log", record).check().text.count("dropped run") == 2
    assert len(hits(bailey)) == 14  # the index forgets what is gone


def test_prune_by_size_and_the_user_s_own_limits(bailey, home, config):
    paths = [make_run(home, number, lines=100) for number in range(1, 6)]
    each = paths[0].stat().st_size
    config.write_text(f"log: {{ max_size: {each * 3 + 500}, max_age: 0 }}\n")
    bailey("log", "prune").check()
    assert [p.exists() for p in paths] == [False, False, True, True, True]
    assert "over log.max_size" in bailey("log", audit_dir(home) / "dropped.jsonl").check().text
    assert bailey("log", "prune", "--max-size", "nonsense").status == 2


def test_a_log_that_is_written_stays(bailey, home, start, work):
    child = start(["bailey", "run", "--", "sh", "-c", "sleep 30"], cwd=work)
    live = wait_for(lambda: list(audit_dir(home).glob("*.jsonl")), "the log")[0]
    os.utime(live, (1, 1))
    log = Log(run_path(home, "newest000001", "20991115-031407-000000"), "newest000001")
    log.close()
    assert json.loads(bailey("log", "prune", "--max-age", "1d", "--json").check().text)["dropped"] == [] and live.exists()
    child.stop()


def test_runs_do_it_by_themselves(bailey, home, work, config):
    old = make_run(home, 1, age_days=400)
    bailey("run", "--", "true", cwd=work).check()
    assert not old.exists()
    again = make_run(home, 2, age_days=400)
    bailey("run", "--", "true", cwd=work).check()
    assert again.exists()  # once an hour
    os.utime(audit_dir(home) / ".kept", (1, 1))
    config.write_text("log: { max_age: 0 }\n")
    bailey("run", "--", "true", cwd=work).check()
    assert again.exists()
    config.write_text("log: { max_age: 500d }\n")
    bailey("run", "--", "true", cwd=work).check()
    assert again.exists()


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_finished_log_without_its_end_is_not_whole(bailey, home, cut):
    path = make_run(home, 1)
    assert bailey("log", "verify", path).status == 0
    path.write_text("".join(path.read_text().splitlines(True)[:-cut]))
    result = bailey("log", "verify", path)
    assert result.status == 1 and "not an end" in result.errors
    assert json.loads(bailey("log", "verify", "--json", path).text)["whole"] is False
