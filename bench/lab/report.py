# SPDX-License-Identifier: Apache-2.0
"""From samples to medians, ratios, targets, tables."""
import statistics

from .gateway import CASES
from .machine import spread

SPREAD_MAX = 0.25  # above this a figure is not reported: the machine was doing something else


def middle(samples, key):
    values = [s[key] for s in samples]
    return statistics.median(values), spread(values)


def summarise(samples, keys):
    row = {"runs": len(samples)}
    for key in keys:
        row[key], row[key + "_spread"] = middle(samples, key)
    return row


def summarise_all(data):
    """The figures of a run, without the samples."""
    gateway = {case: {name: dict(summarise(s, ("rate", "cpu_us", "p50_us", "p99_us")), errors=sum(x["errors"] for x in s)) for name, s in targets.items()}
               for case, targets in data.get("gateway", {}).items()}
    launch = {name: summarise(s, ("ms", "cpu_ms")) for name, s in data.get("launch", {}).items()}
    return {"gateway": gateway, "idle": data.get("idle", {}), "launch": launch, "micro": data.get("micro", {})}


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
            ("dns", "unbound", "cpu_us", 1.0, "max", "processor time of a DNS answer, over unbound")):
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


def markdown(figures, about):
    lines = ["# Benchmarks", "", f"Measured by `make bench` on {about['date']}: {about['machine']}.",
             "Bailey and its peers ran in the same session on loopback, one after the other in every repetition, in random order. Figures are medians.",
             "CPU time is user and system time of all processes of the system under test, per operation; the spread is the middle half of the runs over the median.",
             f"A figure whose spread is above {SPREAD_MAX * 100:.0f} % is not reported. Absolute figures differ from machine to machine; the ratios are what counts.",
             "Bailey runs with its full policy and with the audit log on; the peers run without logs. `relay` is a bare relay without policy, parser or record: the practical limit.", ""]
    if about["others"]:
        lines += [f"The machine was not quiet: others used {about['others']:.1f} processors when this began. Wall times are too high for everybody; the ratios of "
                  "processor time hold better. To be measured again.", ""]
    rows = [[what, "" if value is None else f"{value:.2f}", ("at most " if kind == "max" else "at least ") + f"{limit:g}", verdict(value, limit, kind)]
            for what, value, limit, kind in targets(figures)]
    lines += ["## Targets", ""] + table(["", "measured", "target", ""], rows)
    if figures["launch"]:
        l = figures["launch"]

        def over(name):
            r = ratio(l, name, "bwrap, agent profile", "ms")
            return f"{r:.2f} x" if r else ""
        lines += ["## Launch of /bin/true", ""] + table(["", "ms", "spread", "CPU ms", "over bwrap's"], [
            [f"**{n}**" if n.startswith("bailey") else n, number(r["ms"], r["ms_spread"]), f"{r['ms_spread'] * 100:.0f} %", number(r["cpu_ms"]),
             over(n)] for n, r in sorted(l.items(), key=lambda x: x[1]["ms"])])
    for case in CASES:
        if case.name in figures["gateway"]:
            lines += [f"## {case.title}", ""] + case_table(case, figures["gateway"][case.name])
    if figures["idle"]:
        lines += ["## Idle tunnels, 5,000 open", ""] + table(["", "KiB each"], [[f"**{n}**" if n == "bailey" else n, number(v)] for n, v in sorted(figures["idle"].items(), key=lambda x: x[1])])
    policy = figures["micro"].get("policy_lookup")
    if policy:
        lines += ["## Policy lookups, ns of processor time", ""] + table(
            ["rules", "exact", "wildcard", "miss", "network", "network, miss", "build ms", "open ms", "bytes/rule"],
            [[f"{r['entries']:,}"] + [number(r[k + "_ns"]) for k in ("hit", "wildcard_hit", "miss", "net_hit", "net_miss")] +
             [number(r["build_ms"]), number(r["open_ms"]), number(r["bytes_per_rule"])] for r in policy["results"]])
    audit = figures["micro"].get("audit_line")
    if audit:
        lines += ["## One audit event, ns", ""] + table(["decode", "line and hash", "write"], [[number(audit[k]) for k in ("decode_ns", "line_ns", "write_ns")]])
    if about["left out"]:
        lines += ["## Left out", ""] + [f"- {name}: {why}" for name, why in about["left out"].items()] + [""]
    lines += ["## Versions", ""] + [f"- {name}: {text}" for name, text in about["versions"].items()] + [""]
    return "\n".join(lines)
