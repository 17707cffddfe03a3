#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""From samples to the report: medians, spreads, ratios and verdicts; what is noisy, missing or failed is said and never a figure."""
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))

from lab import bridge, figures, report  # noqa: E402
from lab.charts import charts  # noqa: E402
from lab.files import FLOOR, FLOOR_OPENS, JOBS, SELDOM, SRT  # noqa: E402
from lab.gateway import CASES  # noqa: E402
from lab.experiment import EXPERIMENTS  # noqa: E402
from lab.growth import AT_REST, FEW, GATEWAY_AND_VAULT, ONE_MORE  # noqa: E402
from lab.notes import NOTES, SLOPES, note_for  # noqa: E402
from lab.samples import PARTS, Samples  # noqa: E402

MANY = 9900


def sample(cpu, errors=0, again=0):
    return {"rate": 1e6 / cpu, "cpu_us": cpu, "record_us": cpu / 10, "errors": errors, "p50_us": 2 * cpu, "p99_us": 3 * cpu, "others": 0, "again": again}


def several(*cpus):
    return [sample(cpu) for cpu in cpus]


def timed(*values):
    return [{"ms": value, "cpu_ms": value / 2} for value in values]


def box(cpu, one_more=3.0):
    return [{"ms_each": 3, "cpu_ms_each": cpu, "mib_each": 1, ONE_MORE: one_more, "spread": 0.02}]


def in_use(cpu, own=1.0):
    return [{"cpu_us": cpu, "own_us": own, "rate": 1e6 / cpu, "kernel_kib": 16.0}]


def whole():
    """As a run gives it, with every part and case; in each case Bailey takes 10 us and everybody else 20."""
    kept = Samples(facts={"bailey": "bailey 1", "others": 0, "quick": False})
    for case in CASES:
        kept.add(f"case/{case.name}", {name: several(*([9.8, 10, 10.2] if name == "bailey" else [19.6, 20, 20.4])) for name, *_ in case.targets})
    kept.add("launch", {"bailey run": timed(2.4, 2.5, 2.6), "bailey run, 300,000 files": timed(2.5), "bwrap, agent profile": timed(4.9, 5, 5.1), "limit": timed(2),
                        "bailey run, profile claude": timed(9)})
    for job in JOBS:
        kept.add(job, {"no sandbox": timed(500), "bwrap, the directory writable": timed(510), SRT: timed(800), "bailey run": timed(510), "bailey run, a deny glob": timed(600),
                       "bailey run, a trace": timed(610), FLOOR: timed(505), FLOOR_OPENS: timed(590)})
    kept.add("end", {"curl alone": timed(40), "bailey run, tunnel": timed(42), "bailey run, token swapped": timed(60), "bwrap, the host's network": timed(45)})
    kept.add("bridge", {bridge.INSIDE: [{"ms": 2.0}], bridge.BRIDGED: [{"ms": 12.0}]})
    kept.add("git", {name: timed(100) for name in bridge.FETCHES + bridge.PACKS + bridge.PUSHES})
    kept.add("approval", {"control socket": [{"ms": 0.5}], "bailey allow": [{"ms": 2.0}]})
    kept.add("guests", {"create": {"bailey guest": [{"value": 20}]}, "exec": {"bailey guest": [{"value": 3}], "the command alone": [{"value": 1}]},
                        "rest": {"1 guest": [{"value": 2.5}], "200 guests": [{"value": 2.6}]}, "save": {"bailey guest": [{"value": 4}], "tar": [{"value": 2}]}})
    kept.add("idle", {"bailey": {"kib": 1.5, "open": 5000}, "relay": {"kib": 0.5, "open": 5000}, "srt": {"kib": 25, "open": 4875}})
    kept.add("micro", {
        "policy_lookup": {"results": [dict({"entries": n, "build_ms": 10, "open_ms": 1, "bytes_per_rule": 80},
                                           **{f"{k}_ns": 400 for k in ("hit", "wildcard_hit", "miss", "net_hit", "net_miss")}) for n in (100000, 1000000)]},
        "audit_line": {"decode_ns": 40, "line_ns": 800, "write_ns": 200}, "api": {"check_200_us": 30, "exec_ms": 4, "run_ms": 4, "exec_over_run": 1.0, "bwrap_ms": 5, "exec_over_bwrap": 0.8},
        "notify": {"alone_us": 0.7, "round_trip_us": 2.5, "least_us": 6.3}})
    kept.add("connections", {"bailey": {FEW: in_use(10), MANY: in_use(15)}, "bailey, default workers": {FEW: in_use(11), MANY: in_use(16)},
                             "relay": {FEW: in_use(8), MANY: in_use(10)}, "bailey" + AT_REST: {MANY: in_use(10.1)}, "relay" + AT_REST: {MANY: in_use(8.1)}})
    kept.add("sandboxes", {name: {count: box(cpu) for count in (1, 100, 1000)} for name, cpu in (("bailey run", 5), ("limit", 2))})
    kept.add("memory", {"bailey run": [{"mib": 1.5}], GATEWAY_AND_VAULT: [{"mib": 7}]})
    kept.add("files", {"a launch, bailey run, ms": {100: [{"value": 5}], 1000: [{"value": 5}]}, "to read one, no sandbox, us": {100: [{"value": 8}]}})
    kept.add("records", {"to append one, ns": {1000: [{"value": 900}], 10000: [{"value": 910}]}})
    return kept


def about(kept):
    return {"date": "2026-01-02", "machine": "2 x Test", "versions": {"bailey": "bailey 1"}, "caches": "Caches here: L2 1 KiB.", "descriptors": 20000,
            "others": kept.others(), "left out": kept.left_out(), **kept.disturbed(),
            "measured": {name: {"when": part["when"], "bailey": part["bailey"]} for name, part in kept.parts.items()}}


def page(kept):
    return report.markdown(figures.summarise_all(kept), about(kept))


def cells(text, first):
    """The table's row that begins with this word."""
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines() if line.startswith(f"| {first} |")]
    assert rows, f"no row {first} in\n{text}"
    return rows[0]


class Figures(unittest.TestCase):
    def test_median_and_spread(self):
        row = figures.summarise(several(10, 11, 12, 13, 50), ("cpu_us",))
        self.assertEqual((row["runs"], row["cpu_us"]), (5, 12))  # one disturbed sample moves nothing
        self.assertAlmostEqual(row["cpu_us_spread"], (13 - 11) / 12)
        self.assertEqual(figures.spread([1, 100]), 0)  # of two nobody can tell

    def test_ratio(self):
        table = {"a": figures.summarise(several(10, 10, 10), ("cpu_us",)), "b": figures.summarise(several(20, 20, 20), ("cpu_us",)),
                 "wild": figures.summarise(several(10, 20, 60), ("cpu_us",))}
        self.assertEqual(figures.ratio(table, "a", "b", "cpu_us"), 0.5)
        self.assertIsNone(figures.ratio(table, "a", "wild", "cpu_us"))
        self.assertIsNone(figures.ratio(table, "a", "missing", "cpu_us"))

    def test_best_peer_is_neither_ours_nor_a_limit_nor_noisy(self):
        rows = {name: figures.summarise(each, ("cpu_us",)) for name, each in {
            "bailey": several(1, 1, 1), "relay": several(2, 2, 2), "wild": several(1, 3, 9), "good": several(5, 5, 5), "worse": several(9, 9, 9)}.items()}
        self.assertEqual(figures.best_peer(rows), "good")
        self.assertIsNone(figures.best_peer({}))

    def test_slope(self):
        self.assertAlmostEqual(figures.slope({1: 5, 100: 7, 200: 14}), 1)
        self.assertAlmostEqual(figures.slope({100: 7, 200: 7}), 0)
        self.assertEqual(figures.slope({1: 7}), 0)

    def test_verdict(self):
        most, least = figures.Target("x", None, at_most=0.8), figures.Target("y", None, at_least=3)
        self.assertEqual([most.verdict(v) for v in (0.8, 0.81, None)], ["met", "missed", "not measured"])
        self.assertEqual([least.verdict(v) for v in (3, 2.9, None)], ["met", "missed", "not measured"])
        self.assertEqual([most.verdict(v, 0.05) for v in (0.79, 0.81, 0.7)], ["met, by less than the spread", "missed, by less than the spread", "met"])

    def test_notes_belong_to_targets(self):
        words = [target.words for target in figures.TARGETS]
        self.assertEqual(len(set(words)), len(words))
        for note in NOTES:
            self.assertTrue(any(note_for(each) is note for each in words), note.targets)
            self.assertIn(note.experiment.split()[1], EXPERIMENTS)  # the command is there

    def test_every_job_knows_how_often(self):
        self.assertEqual(set(SELDOM), set(JOBS))


class Kept(unittest.TestCase):
    def test_on_disk_after_each_part(self):
        with tempfile.TemporaryDirectory() as place:
            path = pathlib.Path(place) / "new/samples.json"
            kept = Samples(path, {"bailey": "bailey 1"})
            kept.add("launch", {"bare": timed(1)}, {"runc": "exit 1"})
            again = Samples(path)
            self.assertEqual(again.get("launch"), {"bare": timed(1)})
            self.assertEqual(again.left_out(), {"runc": "exit 1"})

    def test_a_part_that_failed_keeps_what_was_there(self):
        kept = Samples(facts={"bailey": "bailey 1"})
        kept.add("launch", {"bare": timed(1)})
        kept.fail("launch", "no space")
        kept.fail("end", "no curl")
        self.assertEqual(kept.get("launch"), {"bare": timed(1)})
        self.assertEqual(kept.left_out(), {"launch": "no space", "end": "no curl"})

    def test_what_is_missing_is_known(self):
        self.assertEqual(figures.missing_parts(whole()), [])
        kept = whole()
        del kept.parts["case/dns"], kept.parts["idle"]
        self.assertEqual(figures.missing_parts(kept), ["idle", "case/dns"])
        self.assertEqual(len(figures.missing_parts(Samples())), len(PARTS) - 1 + len(CASES))

    def test_disturbances_are_counted(self):
        kept = Samples(facts={"others": 0.4, "quick": True})
        kept.add("case/http", {"bailey": [sample(1), sample(1, again=1)]})
        kept.took("case/http", 12.4)
        kept.took("case/unknown", 1)
        self.assertEqual(kept.parts["case/http"]["seconds"], 12)
        self.assertEqual((kept.disturbed(), kept.others(), kept.rough()), ({"samples": 2, "again": 1}, 0.4, ["case/http"]))


class Page(unittest.TestCase):
    def test_every_row(self):
        text = page(whole())
        for target in figures.TARGETS:
            self.assertIn(cells(text, target.words)[4], ("met", "missed"), target.words)
        for target in figures.WORK_TARGETS:
            self.assertEqual(target.verdict(*target.look(figures.summarise_all(whole()))), "met", target.words)
        for case in CASES:
            self.assertIn(f"## {case.title}\n", text)
        self.assertEqual(cells(text, "launch, over bwrap's agent profile")[1:], ["0.50", "at most 0.66", "0.76", "met"])
        self.assertEqual(cells(text, "control socket")[1], "0.50")
        self.assertEqual(cells(text, "srt")[1:3], ["50,000", "20.0"])

    def test_ratios_are_over_bailey(self):
        rows = cells(page(whole()), "haproxy")
        self.assertEqual(rows[1:5], ["50,000", "20.0", "2 %", "2.00 x"])
        self.assertEqual(cells(page(whole()), "Plain HTTP, 1 KiB answers, 32 kept-alive connections")[1:],
                         ["10.0 us/request", "haproxy, 20.0", "0.50 x", "relay, 20.0", "0.50 x"])

    def test_a_note_only_for_what_is_missed(self):
        text, words, note = page(whole()), "launch, over bwrap's agent profile", note_for("launch, over bwrap's agent profile")
        self.assertNotIn(note.text, text)
        kept = whole()
        kept.add("launch", {"bailey run": timed(4, 4, 4), "bailey run, 300,000 files": timed(5, 5, 5), "bwrap, agent profile": timed(5, 5, 5)})
        text = page(kept)
        self.assertIn(f"- Missed: {words} (0.80); launch in 300,000 files, over bwrap (1.00). `bench/run BUILD --experiment launch`: {note.text}", text)
        self.assertEqual(text.count(note.text), 1)
        self.assertEqual(cells(text, "ms of a launch with an agent's profile")[4], "not measured")

    def test_work_is_one_table(self):
        text = page(whole())
        self.assertEqual(cells(text, JOBS["status"][0]), [JOBS["status"][0], "500 ± 0 %", "1.02 ± 0 %", "1.60 ± 0 %", "1.02 ± 0 %", "1.20 ± 0 %", "1.22 ± 0 %", "1.01 ± 0 %", "1.18 ± 0 %"])
        self.assertNotIn("Not explained by that alone", text)
        kept = whole()
        kept.add("status", {"no sandbox": timed(500), "bailey run": timed(540), "bailey run, a deny glob": timed(800), FLOOR: timed(505), FLOOR_OPENS: timed(700)})
        text = page(kept)
        self.assertEqual(cells(text, JOBS["status"][0])[4:6], ["1.08 ± 0 %, missed", "1.60 ± 0 %, missed"])
        self.assertIn("- Missed: 2 of ", text)
        self.assertIn("1 of these keep within 1.1 with plain rules and 1.5", text)
        self.assertIn(f"--experiment protection`): {JOBS['status'][0]} (deny glob). The files", text)
        self.assertIn(f"Not explained by that alone: {JOBS['status'][0]} (plain rules). `bench", text)

    def test_a_launch_among_many(self):
        kept = whole()
        kept.add("sandboxes", {"bailey run": {1: box(5), 1000: box(5, one_more=3.9)}})
        self.assertEqual(cells(page(kept), "launch among 1,000 sandboxes at rest, over the same among 1")[1:], ["1.30", "at most 1.1", "1.18", "missed"])

    def test_every_curve_has_its_reason(self):
        text = page(whole())
        for name, words in SLOPES.items():
            self.assertIn(words, text, name)
        self.assertIn("| to append one, ns: records | +0.00 |", text)

    def test_noise_is_no_figure(self):
        kept = whole()
        kept.add("case/http", {"bailey": several(10, 10, 10), "haproxy": several(10, 20, 60)})
        text = page(kept)
        self.assertEqual(cells(text, "processor time of a request, over HAProxy")[4], "not measured")
        self.assertEqual(cells(text, "haproxy")[2], "noisy (125 %)")
        self.assertGreater(figures.noisy_share(figures.summarise_all(kept)), 0)

    def test_errors_are_counted_and_what_is_left_out_is_named(self):
        kept = whole()
        kept.add("case/http", {"bailey": several(10, 10, 10), "squid": [sample(20, errors=2), sample(20, errors=1)]}, {"http/haproxy": "haproxy is not\ninstalled"})
        text = page(kept)
        self.assertEqual(cells(text, "squid")[6], "3")
        self.assertIn("- http/haproxy: haproxy is not installed\n", text)

    def test_the_rise_is_told_apart(self):
        text = page(whole())
        self.assertIn("| **bailey** | 10.0 | 10.1 | 15.0 | 1.01 x | 1.50 x |", text)
        self.assertIn("The curve ends at 9,900: a process may have 20,000 descriptors", text)

    def test_nothing_measured(self):
        text = page(Samples())
        self.assertEqual({cells(text, target.words)[4] for target in figures.TARGETS}, {"not measured"})
        self.assertEqual(charts(figures.summarise_all(Samples())), {})

    def test_a_new_page_keeps_what_was_written_by_hand(self):
        by_hand = "\n" + report.BY_HAND + "\nWords.\n"
        text = page(whole())
        with tempfile.TemporaryDirectory() as directory:
            old = pathlib.Path(directory) / "benchmarks.md"
            self.assertEqual(report.with_hand_written(text, old), text)  # there is no page yet
            old.write_text("# Benchmarks\n\nOld figures.\n" + by_hand)
            once = report.with_hand_written(text, old)
            self.assertTrue(once.startswith(text.rstrip("\n")) and once.endswith("\n" + by_hand))
            self.assertNotIn("Old figures", once)
            old.write_text(once)
            self.assertEqual(report.with_hand_written(text, old), once)

    def test_every_chart_that_the_page_shows(self):
        kept = whole()
        drawn, text = charts(figures.summarise_all(kept)), page(kept)
        self.assertEqual(set(drawn), {f"benchmarks-{name}.svg" for name in ("ratios", "connections", "workers", "audit", "sandboxes", "rules", "files", "records")})
        for name, picture in drawn.items():
            self.assertIn(f"({name})", text)
            self.assertTrue(xml.fromstring(picture).tag.endswith("svg"))


if __name__ == "__main__":
    unittest.main()
