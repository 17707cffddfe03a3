# SPDX-License-Identifier: Apache-2.0
"""bailey report: what a run did, checkable against its log, and safe whatever names the run chose."""
import html.parser
import json
import os
import pty
import stat
import subprocess

import pytest

from conftest import program
from kit.audit import Log, hostile_log, hostile_texts, run_path
from kit.control import Control, sockets, wait_for

TAGS = set("html head meta title style body main h1 h2 p dl dt dd code span strong div table thead tbody tr th td ul li svg text line circle".split())
ATTRIBUTES = set("lang charset http-equiv content name class viewbox role aria-label x y x1 x2 y1 y2 cx cy r".split())


class Page(html.parser.HTMLParser):
    """Every tag and attribute must be one of the report's own, and every text is kept."""

    def __init__(self, source):
        super().__init__()
        self.texts, self.open = [], []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attributes):
        assert tag in TAGS, f"a tag of somebody else: {tag} {attributes}"
        assert {name for name, _ in attributes} <= ATTRIBUTES, attributes
        self.open.append(tag)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    def handle_data(self, data):
        self.texts.append(data)

    def text(self):
        return "\n".join(self.texts)


def visible(text):
    """As every view shows a text: control, bidirectional and invisible characters as what they are."""
    out = ""
    for c in text:
        if ord(c) < 0x20 or ord(c) == 0x7f:
            out += f"\\x{ord(c):02x}"
        elif c in "\u202e\u2066\u200b\ufeff":
            out += f"\\u{{{ord(c):x}}}"
        else:
            out += "\\\\" if c == "\\" else c
    return out


def test_a_run_with_a_question(start, bailey, home, work, hosts, origin, closing):
    script = f"curl -sS -m 60 http://origin.test:{origin.port}/; curl -sS -m 9 http://refused.test/"
    child = start(["bailey", "run", "--ask", "control", "--hosts", hosts, "--allow-private", f"127.0.0.1:{origin.port}", "--deny", "refused.test",
                   "--", "sh", "-c", script], cwd=work)
    control = closing(Control(wait_for(lambda: sockets(home), "the control socket")[0]))
    asked = wait_for(lambda: control("pending")["questions"], "the question")[0]
    control("answer", question=asked["id"], answer="allow", scope="sandbox")
    child.wait().check()

    report = json.loads(bailey("report", "--json").check().text)
    assert report["command"].startswith("sh -c ") and report["workspace"] == str(work) and report["status"] == "0"
    assert report["audit"]["whole"] and not report["audit"]["running"]
    verified = json.loads(bailey("log", "verify", "--json").check().text)
    assert report["audit"]["last_sha256"] == verified["last_sha256"]
    [question] = report["questions"]
    assert question["about"] == f"origin.test:{origin.port}" and question["answer"] == "allow" and question["by"] == "control (test)"
    assert question["asked"] <= question["answered"]
    by_name = {h["name"]: h for h in report["hosts"]}
    assert by_name["origin.test"]["allowed"] >= 1 and by_name["refused.test"]["refused"] >= 1
    assert by_name["refused.test"]["rule"] == "refused.test"
    assert [m["text"] for m in report["timeline"]][-1] == "audit closed"

    page = bailey("report").check().text
    assert report["audit"]["last_sha256"] in page and "origin.test" in Page(page).text()
    assert f"{report['audit']['last_sha256']}" in bailey("report", "--md").check().text
    assert verified["last_sha256"] in bailey("log", "verify").check().text


def test_overlay_changes_are_in_it(bailey, work):
    bailey("run", "--overlay", "--", "sh", "-c", "echo x > 'new <b>file<b>'", cwd=work).check()
    report = json.loads(bailey("report", "--json").check().text)
    assert [c["path"] for c in report["changes"]] == ["new <b>file<b>"]
    page = Page(bailey("report").check().text).text()
    assert "new <b>file<b>" in page
    other = bailey("run", "--", "true", cwd=work).check()
    assert json.loads(bailey("report", "--json").check().text)["changes"] is None and other.status == 0


def test_hostile_texts_are_text(bailey, home):
    hostile_log(home)
    texts = [visible(t) for t in hostile_texts()]
    assert len(texts) > 25

    page = Page(bailey("report").check().text)
    shown = page.text()
    for text in texts:
        assert text in shown, text

    raw = bailey("report", "--md").check()
    assert not any(byte < 0x20 and byte != 0x0a or byte == 0x7f for byte in raw.out)
    for text in texts:
        assert text.replace("|", "\\u{7c}") in raw.text, text
    for line in raw.text.splitlines():  # a table row has as many cells as its heading: nothing broke out of one
        if line.startswith("| 20"):
            assert outside_code(line).count("|") in (5, 6), line
            assert not set(outside_code(line)) & set("<>[]!&"), line

    report = json.loads(bailey("report", "--json").check().text)
    assert {q["about"] for q in report["questions"]} == {t + ":443" for t in hostile_texts()}
    assert {q["by"] for q in report["questions"]} == {"control (bailey ui)"}
    assert {c["name"] for c in report["credentials"]} == set(hostile_texts())
    assert "\x1b" not in bailey("log").check().text


def outside_code(line):
    """The line without its code spans, by CommonMark's rule: a span ends at a run of backticks as long as the one that began it."""
    out, at = "", 0
    while at < len(line):
        if line[at] != "`":
            out, at = out + line[at], at + 1
            continue
        fence = len(line[at:]) - len(line[at:].lstrip("`"))
        end, begin = at + fence, at
        while True:
            end = line.find("`" * fence, end)
            assert end >= 0, f"a code span without end: {line[begin:]}"
            run = len(line[end:]) - len(line[end:].lstrip("`"))
            if run == fence:
                break
            end += run
        at = end + fence
    return out


def test_a_forged_answer_in_a_target(bailey, home):
    """What a target says about answers is part of the target."""
    log = Log(run_path(home, "forged000001"), "forged000001")
    log.note("asked: x, allow, scope always, by terminal")
    log.note("answered: x, allow, scope always, by terminal, deny, scope once, by control (bailey deny)")
    log.note("asked: y")
    log.note("no longer asked: y")
    log.close()
    first, second = json.loads(bailey("report", "--json").check().text)["questions"]
    assert (first["about"], first["answer"], first["scope"], first["by"]) == ("x, allow, scope always, by terminal", "deny", "once", "control (bailey deny)")
    assert second["about"] == "y" and second["answer"] is None and second["answered"]


def test_a_log_that_is_not_whole(bailey, home):
    path = hostile_log(home)
    lines = path.read_text().splitlines(True)
    path.write_text("".join(lines[:-1]))
    report = json.loads(bailey("report", "--json").check().text)
    assert not report["audit"]["whole"] and "not an end" in report["audit"]["problem"]
    assert "not whole" in bailey("report").check().text and "not whole" in bailey("report", "--md").check().text
    path.write_text("".join(lines[:3] + lines[4:]))
    assert "records were removed" in json.loads(bailey("report", "--json").check().text)["audit"]["problem"]
    path.write_text("not json\n")
    result = bailey("report")
    assert result.status == 1 and "log verify" in result.errors


def test_long_lists_are_cut_and_say_so(bailey, home):
    log = Log(run_path(home, "long00000001"), "long00000001")
    for number in range(5200):
        log.request(f"h{number}.example.com")
    log.close()
    report = json.loads(bailey("report", "--json").check().text)
    assert len(report["hosts"]) == 5000 and report["left_out"] >= 200 and report["allowed"] == 5200
    assert "left out" in bailey("report").check().text


def test_forms_and_places(bailey, home, work):
    assert bailey("report").status == 4
    hostile_log(home)
    target = work / "report.html"
    bailey("report", "host", "-o", target).check()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600 and target.read_text().startswith("<!doctype html>")
    assert bailey("report", "--json", "--md").status == 2
    assert bailey("report", "nothere").status == 4
    assert "default-src 'none'" in target.read_text()
    copy = work / "copy.jsonl"
    copy.write_bytes(run_path(home, "hostile00001").read_bytes())
    assert json.loads(bailey("report", "--json", "--file", copy).check().text)["audit"]["file"] == str(copy)


def test_a_terminal_is_told_what_to_do(home, environment):
    hostile_log(home)
    leader, follower = pty.openpty()
    try:
        result = subprocess.run([program("bailey"), "report"], stdout=follower, stderr=subprocess.PIPE, env=environment, timeout=60)
    finally:
        os.close(leader)
        os.close(follower)
    assert result.returncode == 2 and b"-o FILE" in result.stderr
