# SPDX-License-Identifier: Apache-2.0
"""From samples to medians, ratios, targets, tables."""
import math
import statistics

from . import chart
from .gateway import CASES, LONG
from .growth import RECORD
from .machine import QUIET, spread
from .notes import NOTES
from .samples import PARTS

SPREAD_MAX = 0.25  # above this a figure is not reported: the machine was doing something else
NOISY_MAX = 0.25  # with more than this share of such figures, nothing is
LIMITS = ("direct", "relay", "relay, splice", "limit", "bare", "unshare, all namespaces", "curl alone", "nginx bridge",
          "nginx bridge, resuming", "haproxy bridge")  # not peers: they judge nothing
LIMIT_OF = {"http": "relay", "http1": "relay", "connect": "relay", "socks": "relay", "bulk1": "relay, splice", "bulk16": "relay, splice",
            "tls": "nginx bridge", "tls_connect": "nginx bridge, resuming", "tls_bulk": "nginx bridge"}


def middle(samples, key):
    values = [s[key] for s in samples]
    return statistics.median(values), spread(values)


def summarise(samples, keys):
    row = {"runs": len(samples)}
    for key in keys:
        row[key], row[key + "_spread"] = middle(samples, key)
    return row


def summarise_all(samples):
    """The figures, without the samples."""
    gateway = {case: {name: dict(summarise(s, ("rate", "cpu_us", "p50_us", "p99_us", "record_us")), errors=sum(x["errors"] for x in s)) for name, s in targets.items()}
               for case, targets in samples.cases().items()}
    launch = {name: summarise(s, ("ms", "cpu_ms")) for name, s in samples.get("launch").items()}
    end = {name: summarise(s, ("ms", "cpu_ms")) for name, s in samples.get("end").items()}
    growth = {part: {name: {int(count): row for count, row in each.items()} for name, each in samples.get(part).items()} for part in ("connections", "sandboxes")}
    return {"gateway": gateway, "idle": samples.get("idle"), "launch": launch, "end": end, "micro": samples.get("micro"), "growth": growth}


def missing_parts(samples):
    return [name for name in [*(p for p in PARTS if p != "gateway"), *(f"case/{c.name}" for c in CASES)] if not samples.get(name)]


def noisy_share(figures):
    """How many of the figures that are compared varied too much."""
    spreads = [row["cpu_us_spread"] for case in figures["gateway"].values() for name, row in case.items() if name != "direct"]
    spreads += [row["ms_spread"] for part in ("launch", "end") for row in figures[part].values()]
    return sum(s > SPREAD_MAX for s in spreads) / len(spreads) if spreads else 0.0


def best_peer(rows, key="cpu_us"):
    """The cheapest of those that are neither Bailey nor a limit."""
    peers = [n for n in rows if n not in LIMITS and not n.startswith("bailey") and rows[n][key + "_spread"] <= SPREAD_MAX]
    return min(peers, key=lambda n: rows[n][key], default=None)


def ratio(table, a, b, key):
    """a's figure over b's; None where one is missing, 0 or noisy."""
    if a not in table or b not in table or not table[b][key]:
        return None
    if max(table[a][key + "_spread"], table[b][key + "_spread"]) > SPREAD_MAX:
        return None
    return table[a][key] / table[b][key]


def targets(figures):
    """(what, figure, limit, "max" or "min")"""
    g, l, rows = figures["gateway"], figures["launch"], []

    def add(what, value, limit, kind="max"):
        rows.append((what, value, limit, kind))
    if l:
        add("launch, over bwrap's agent profile", ratio(l, "bailey run", "bwrap, agent profile", "ms"), 0.66)
        add("launch in 300,000 files, over bwrap", ratio(l, "bailey run, 300,000 files", "bwrap, agent profile", "ms"), 0.66)
    for case, peer, key, limit, kind, what in (
            ("http", "haproxy", "cpu_us", 0.8, "max", "processor time of a request, over HAProxy"),
            ("connect", "relay", "cpu_us", 1.3, "max", "processor time of a CONNECT tunnel, over the bare relay"),
            ("socks", "relay", "cpu_us", 1.3, "max", "processor time of a SOCKS5 tunnel, over the bare relay"),
            ("bulk1", "relay, splice", "rate", 0.85, "min", "bulk through 1 tunnel, over the relay with splice"),
            ("bulk16", "relay, splice", "rate", 0.85, "min", "bulk through 16 tunnels, over the relay with splice"),
            ("http1", "haproxy", "p50_us", 1.0, "max", "median time of a request on one connection, over HAProxy"),
            ("tls", "nginx bridge", "cpu_us", 1.1, "max", "processor time of an intercepted request, over the nginx bridge"),
            ("tls_connect", "nginx bridge", "cpu_us", 1.1, "max", "processor time of an intercepted connection, over the nginx bridge"),
            ("tls_fresh", "squid, bumping", "rate", 3.0, "min", "hosts never seen, over Squid"),
            ("tls_bulk", "nginx bridge", "rate", 1.0, "min", "bulk through interception, over the nginx bridge"),
            ("dns", "unbound", "cpu_us", 1.0, "max", "processor time of a DNS answer, over unbound"),
            ("dns_refused", "unbound", "cpu_us", 1.0, "max", "processor time of a DNS refusal from 100,000 names, over unbound")):
        if case in g:
            add(what, ratio(g[case], "bailey", peer, key), limit, kind)
    if "bailey" in figures["idle"]:
        add("KiB of memory for an idle tunnel", figures["idle"]["bailey"], 3.3)
    for row in figures["micro"].get("policy_lookup", {}).get("results", []):
        if row["entries"] == 1000000:
            for kind in ("hit", "wildcard_hit", "miss", "net_hit", "net_miss"):
                add(f"us of a lookup in 1,000,000 rules: {kind.replace('_', ' ')}", row[kind + "_ns"] / 1000, 1.0)
        if row["entries"] == 100000:
            add("ms to build 100,000 rules", row["build_ms"], 50)
    api = figures["micro"].get("api")
    if api:
        add("us to judge a command of 200 bytes", api["check_200_us"], 50)
        add("exec, over the same by `bailey run`", api["exec_over_run"], 1.1)
    return rows


def verdict(value, limit, kind):
    if value is None:
        return "not measured"
    return "met" if (value <= limit if kind == "max" else value >= limit) else "missed"


def number(value, noise=0.0):
    if noise > SPREAD_MAX:
        return f"noisy ({noise * 100:.0f} %)"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def case_table(case, rows):
    def over(key, name):
        r = ratio(rows, name, "bailey", key) if name != "bailey" else 1.0
        return f"{r:.2f} x" if r else ""
    order = sorted(rows, key=lambda n: rows[n]["cpu_us"])
    return table(["", f"{case.unit}{'' if case.unit == 'MB' else 's'}/s", f"CPU us/{case.unit}", "spread", "CPU over Bailey's", "p50 us", "errors"],
                 [[f"**{n}**" if n == "bailey" else n, number(rows[n]["rate"], rows[n]["rate_spread"]),
                   number(rows[n]["cpu_us"], rows[n]["cpu_us_spread"]) if n != "direct" else "", f"{rows[n]['cpu_us_spread'] * 100:.0f} %" if n != "direct" else "",
                   over("cpu_us", n) if n != "direct" else "", number(rows[n]["p50_us"]) if case.load not in ("bulk", "dns") else "", str(rows[n]["errors"])]
                  for n in order])


def beside(what, rows, key, unit, limit, us="bailey"):
    """One row: Bailey, the best peer and the limit, with the ratios."""
    def cell(name):
        return f"{name}, {number(rows[name][key])}" if name in rows else ""

    def over(name):
        r = ratio(rows, us, name, key) if name else None
        return f"{r:.2f} x" if r else ""
    peer = best_peer(rows, key)
    return [what, f"{number(rows[us][key], rows[us][key + '_spread'])} {unit}", cell(peer), over(peer), cell(limit), over(limit)]


def over_peers(figures):
    """Bailey beside the best peer and the limit in every case."""
    rows = []
    if "bailey run" in figures["launch"]:
        rows.append(beside("Launch of /bin/true", figures["launch"], "ms", "ms", "limit", "bailey run"))
    if "bailey run, token swapped" in figures["end"]:
        rows.append(beside("Launch with one https request", figures["end"], "ms", "ms", "curl alone", "bailey run, token swapped"))
    for case in CASES:
        found = figures["gateway"].get(case.name, {})
        if "bailey" in found and not case.name.startswith("own_") and case.name != "rules":
            rows.append(beside(case.title, found, "cpu_us", f"us/{case.unit}", LIMIT_OF.get(case.name)))
    idle = {name: {"kib": value, "kib_spread": 0.0} for name, value in figures["idle"].items()}
    if "bailey" in idle:
        rows.append(beside("Idle tunnels", idle, "kib", "KiB", "relay"))
    return rows


def growth_rows(series, keys):
    series = {name: each for name, each in series.items() if name != RECORD}
    counts = sorted({int(c) for each in series.values() for c in each})
    columns = [(name, key) for name in series for key in keys]
    rows = [[f"{c:,}"] + [number(series[name][c][key]) if c in series[name] else "" for name, key in columns] for c in counts]
    return [f"{name}, {keys[key]}" for name, key in columns], rows


def growth_exponent(points):
    """Slope between the last two points, both axes logarithmic: 0 is a constant cost, 1 a linear one."""
    places = sorted((x, y) for x, y in points.items() if x > 0 and y > 0)
    if len(places) < 2:
        return 0.0
    (x1, y1), (x2, y2) = places[-2:]
    return math.log(y2 / y1) / math.log(x2 / x1)


def charts(figures):
    """{file name: SVG}"""
    found = {}
    groups = []
    for title, part, us in (("Launch of /bin/true: time", "launch", "bailey run"), ("The same with one https request: time", "end", "bailey run, token swapped")):
        if us in figures[part]:
            entries = [(n, ratio(figures[part], n, us, "ms")) for n in sorted(figures[part], key=lambda n: figures[part][n]["ms"])]
            groups.append((title, [(n, r) for n, r in entries if r]))
    for case in CASES:
        rows = figures["gateway"].get(case.name, {})
        if case.name.startswith("own_") or case.name == "rules" or "bailey" not in rows:
            continue
        entries = [(n, ratio(rows, n, "bailey", "cpu_us") if n != "bailey" else 1.0) for n in sorted(rows, key=lambda n: rows[n]["cpu_us"]) if n != "direct"]
        groups.append((case.title, [(n, r) for n, r in entries if r]))
    if groups:
        found["benchmarks-ratios.svg"] = chart.bars(
            "Processor time, over Bailey's", "Bailey is 1, to the right costs more; logarithmic. Blue: limits, which judge nothing. Red: peers that cost less than Bailey.",
            groups, LIMITS)
    growth, policy = figures["growth"], figures["micro"].get("policy_lookup")
    if growth.get("connections"):
        series = {name: {c: v["cpu_us"] for c, v in each.items()} for name, each in growth["connections"].items()}
        found["benchmarks-connections.svg"] = chart.lines("Connections at once", "connections", "us of processor time for a request", series)
    if growth.get("sandboxes"):
        series = {f"{name.partition(',')[0]}, {word}": {c: v[key] for c, v in each.items()} for name, each in growth["sandboxes"].items()
                  for key, word in (("cpu_ms_each", "CPU ms"), ("mib_each", "MiB"))}
        found["benchmarks-sandboxes.svg"] = chart.lines("Sandboxes at once", "sandboxes", "for each of them: ms of processor time to start, MiB of memory", series)
    if policy:
        series = {word: {r["entries"]: r[key] for r in policy["results"]} for key, word in (
            ("hit_ns", "exact, ns"), ("wildcard_hit_ns", "wildcard, ns"), ("miss_ns", "miss, ns"), ("net_hit_ns", "network, ns"), ("build_ms", "build, ms"))}
        found["benchmarks-rules.svg"] = chart.lines("Rules", "rules", "a lookup in ns, the building of all in ms", series)
    return found


def rise(connections):
    """What is Bailey's own of the rise, and what is everybody's."""
    few, many = 100, max((c for each in connections.values() for c in each), default=0)
    rises = {n: each[many]["cpu_us"] / each[few]["cpu_us"] for n, each in connections.items() if n in ("bailey", "relay", "haproxy") and few in each and many in each}
    if len(rises) < 2:
        return []
    words = ", ".join(f"{r:.2f} times through {n}" for n, r in sorted(rises.items(), key=lambda x: x[1]))
    return [f"With {many:,} connections a request costs more than with {few}: {words}. The relay keeps nothing but two descriptors for each, so the rise is "
            f"not Bailey's own. Memory that no longer fits into the caches is the likely cause; that was not measured. (A proxy has two descriptors for each connection, and 20,000 in all: that is where the curve ends.)", ""]


def growth_text(figures):
    lines, growth = [], figures["growth"]
    if growth.get("connections"):
        head, rows = growth_rows(growth["connections"], {"cpu_us": "CPU us/request", "rate": "requests/s"})
        lines += ["### Connections at once, each with a request on its way", "", "![](benchmarks-connections.svg)", ""] + table(["connections"] + head, rows)
        lines += rise(growth["connections"])
    if growth.get("sandboxes"):
        head, rows = growth_rows(growth["sandboxes"], {"cpu_ms_each": "CPU ms", "ms_each": "ms", "mib_each": "MiB"})
        lines += ["### Sandboxes at once, figures for each of them", "", "![](benchmarks-sandboxes.svg)", ""] + table(["sandboxes"] + head, rows)
    steep = []
    for part, key in (("connections", "cpu_us"), ("sandboxes", "cpu_ms_each"), ("sandboxes", "mib_each")):
        for name, each in growth.get(part, {}).items():
            if name.startswith("bailey"):
                steep.append([f"{name}: {part}, {key}", f"{growth_exponent({int(c): v[key] for c, v in each.items()}):+.2f}"])
    if steep:
        lines += ["How steep Bailey's curves are at their end. The figures are for one request or one sandbox: 0 means that the whole grows linearly.", ""]
        lines += table(["", "slope"], steep)
    return ["## How cost grows", ""] + lines if lines else []


def rules_text(figures):
    """What a long list adds to a request: each server with it, less the same server without."""
    rows, found = figures["gateway"].get("rules", {}), []
    for name in rows:
        if name + LONG in rows:
            few, many = rows[name], rows[name + LONG]
            noise = few["cpu_us"] * few["cpu_us_spread"] + many["cpu_us"] * many["cpu_us_spread"]
            extra = many["cpu_us"] - few["cpu_us"]
            found.append((many["cpu_us"], [f"**{name}**" if name == "bailey" else name, number(few["cpu_us"]), number(many["cpu_us"]),
                                           f"less than {number(noise)}" if abs(extra) <= noise else number(extra)]))
    if not found:
        return []
    title = next(c.title for c in CASES if c.name == "rules")
    return [f"## {title}", "", "CPU us for a request. A difference below the spread of the two is given as that.", ""] + table(
        ["", "without the list", "with it", "the list costs"], [row for _, row in sorted(found)])


def own_text(figures):
    rows = [[c.title, number(r["bailey"]["cpu_us"]), number(r["bailey"]["record_us"])] for c, r in ((c, figures["gateway"].get(c.name, {})) for c in CASES)
            if "bailey" in r and c.load != "bulk" and c.name != "rules" and not c.name.startswith("own_")]
    if not rows:
        return []
    return ["## What the record costs", "", "The audit log cannot be switched off: without it Bailey takes no work. Its cost can be told apart, since one process does nothing "
            "but to write it.", ""] + table(["", "CPU us, all", "of which the record"], rows)


def markdown(figures, about):
    lines = ["# Benchmarks", "", f"Measured by `bench/run`, which is what `make bench` runs, on {about['date']}: {about['machine']}. The parts may be of several runs: the end of this page says when each "
             "was measured, and with which version. A ratio closer to its target than the spread of its two figures is no proof either way.",
             "The servers of one table ran in the same session on loopback, one after the other in every repetition, in random order. Figures are medians.",
             "CPU time is user and system time of all processes of the system under test, per operation; the spread is the middle half of the runs over the median.",
             f"A figure whose spread is above {SPREAD_MAX * 100:.0f} % is not reported. Absolute figures differ from machine to machine; the ratios are what counts.",
             "Bailey runs with its full policy and with the audit log on; the peers run without logs. The limits judge nothing: `relay` is a bare relay "
             "without policy, parser or record; the bridges end TLS and begin it again with one fixed certificate; `limit` of a launch is one static program that makes "
             "all namespaces, mounts and a filter.",
             f"Samples during which others used more than {QUIET:.0%} of a processor were taken again: {about['again']} of {about['samples']}.", ""]
    if about["others"]:
        lines += [f"The machine was not quiet: others used {about['others']:.1f} processors when this began. Wall times are too high for everybody; the ratios of "
                  "processor time hold better. To be measured again.", ""]
    rows = [[what, "" if value is None else f"{value:.3f}" if abs(value / limit - 1) < 0.02 else f"{value:.2f}", ("at most " if kind == "max" else "at least ") + f"{limit:g}",
             "" if value is None else f"{value / limit:.2f}", verdict(value, limit, kind)]
            for what, value, limit, kind in targets(figures)]
    lines += ["## Targets", ""] + table(["", "measured", "target", "measured over target", ""], rows)
    missed = [what for what, value, limit, kind in targets(figures) if verdict(value, limit, kind) == "missed"]
    lines += [f"- Missed: {what}. {NOTES.get(what, 'Not understood yet.')}" for what in missed] + [""] * bool(missed)
    peers = over_peers(figures)
    if peers:
        lines += ["## Beside the best peer and the limit", ""] + table(["", "Bailey", "best peer", "Bailey over it", "limit", "Bailey over it"], peers)
    if figures["gateway"]:
        lines += ["![Processor time of all, over Bailey's](benchmarks-ratios.svg)", ""]
    if figures["launch"]:
        l = figures["launch"]

        def over(name):
            r = ratio(l, name, "bwrap, agent profile", "ms")
            return f"{r:.2f} x" if r else ""
        lines += ["## Launch of /bin/true", ""] + table(["", "ms", "spread", "CPU ms", "over bwrap's"], [
            [f"**{n}**" if n.startswith("bailey") else n, number(r["ms"], r["ms_spread"]), f"{r['ms_spread'] * 100:.0f} %", number(r["cpu_ms"]),
             over(n)] for n, r in sorted(l.items(), key=lambda x: x[1]["ms"])])
    if figures["end"]:
        e = figures["end"]
        lines += ["## `bailey run` with one https request inside", ""] + table(["", "ms", "spread", "CPU ms", "over curl alone"], [
            [f"**{n}**" if n.startswith("bailey") else n, number(r["ms"], r["ms_spread"]), f"{r['ms_spread'] * 100:.0f} %", number(r["cpu_ms"]),
             f"{ratio(e, n, 'curl alone', 'ms'):.2f} x" if ratio(e, n, "curl alone", "ms") else ""] for n, r in sorted(e.items(), key=lambda x: x[1]["ms"])])
    for case in CASES:
        if case.name == "rules":
            lines += rules_text(figures)
        elif case.name in figures["gateway"]:
            lines += [f"## {case.title}", ""] + case_table(case, figures["gateway"][case.name])
    if figures["idle"]:
        lines += ["## Idle tunnels, 5,000 open", ""] + table(["", "KiB each"], [[f"**{n}**" if n == "bailey" else n, number(v)] for n, v in sorted(figures["idle"].items(), key=lambda x: x[1])])
    policy = figures["micro"].get("policy_lookup")
    if policy:
        lines += ["## Policy lookups, ns of processor time", "", "![](benchmarks-rules.svg)", ""] + table(
            ["rules", "exact", "wildcard", "miss", "network", "network, miss", "build ms", "open ms", "bytes/rule"],
            [[f"{r['entries']:,}"] + [number(r[k + "_ns"]) for k in ("hit", "wildcard_hit", "miss", "net_hit", "net_miss")] +
             [number(r["build_ms"]), number(r["open_ms"]), number(r["bytes_per_rule"])] for r in policy["results"]])
    audit = figures["micro"].get("audit_line")
    if audit:
        lines += ["## One audit event, ns", ""] + table(["decode", "line and hash", "write"], [[number(audit[k]) for k in ("decode_ns", "line_ns", "write_ns")]])
    api = figures["micro"].get("api")
    if api:
        lines += ["## Library", ""] + table(["check of 200 bytes, us", "exec of true, ms", "the same by `bailey run`, ms"],
                                           [[number(api[k]) for k in ("check_200_us", "exec_ms", "run_ms")]])
    lines += own_text(figures) + growth_text(figures)
    if about["left out"]:
        lines += ["## Left out", ""] + [f"- {name}: {' '.join(why.split())}" for name, why in about["left out"].items()] + [""]
    lines += ["## When", ""] + table(["", "measured", "version"], [[name, part["when"].replace("T", " "), part["bailey"]] for name, part in about["measured"].items()])
    lines += ["## Versions", ""] + [f"- {name}: {text}" for name, text in about["versions"].items()] + [""]
    return "\n".join(lines)
