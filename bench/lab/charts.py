# SPDX-License-Identifier: Apache-2.0
"""Which charts there are. chart.py draws them."""
from . import chart
from .figures import LIMITS, ratio
from .gateway import CASES
from .growth import AT_REST, ONE_MORE


def ratio_groups(figures):
    """(title, [(name, ratio to Bailey)]) for everything that has peers."""
    groups = []
    for title, part, us in (("Launch of /bin/true: time", "launch", "bailey run"), ("The same with one https request: time", "end", "bailey run, token swapped")):
        groups.append((title, figures[part], us, "ms"))
    groups += [(case.title, figures["gateway"].get(case.name, {}), "bailey", "cpu_us") for case in CASES if case.has_peers]
    for title, rows, us, key in groups:
        entries = [(name, ratio(rows, name, us, key)) for name in sorted(rows, key=lambda n: rows[n][key]) if name != "direct"] if us in rows else []
        if any(r for _, r in entries):
            yield title, [(name, r) for name, r in entries if r]


def column(series, key, names):
    """{name in the chart: {count: figure}} of a part of growth."""
    return {words: {count: row[key] for count, row in series[name].items()} for name, words in names.items() if name in series}


def growth_charts(growth):
    found, connections, boxes = {}, growth["connections"], growth["sandboxes"]
    open_ones = {name: name for name in connections if not name.endswith(AT_REST)}
    if connections:
        found["connections"] = chart.lines("Connections at once", "connections", "us of processor time for a request", column(connections, "cpu_us", open_ones))
        found["workers"] = chart.lines("Workers", "connections", "requests a second",
                                       column(connections, "rate", {"bailey": "1 worker", "bailey, default workers": "by default"}))
    if connections.get("bailey"):
        ours = connections["bailey"]
        found["audit"] = chart.lines("The record", "connections", "us of processor time for a request", {
            "on": {count: row["cpu_us"] for count, row in ours.items()},
            "on, less its writer": {count: row["cpu_us"] - row["own_us"] for count, row in ours.items()},
            "its writer alone": {count: row["own_us"] for count, row in ours.items()}})
    if boxes:
        found["sandboxes"] = chart.lines("Sandboxes at once", "sandboxes", "each until its end: ms of processor time, MiB of memory; a launch while they rest: ms", {
            f"{name.partition(',')[0]}, {word}": {count: row[key] for count, row in boxes[name].items()} for name in boxes if name != "limit"
            for key, word in (("cpu_ms_each", "CPU ms"), ("mib_each", "MiB"), (ONE_MORE, "one more, ms"))})
    for name, title in (("files", "Files in the workspace"), ("records", "Records in the log")):
        if growth[name]:
            found[name] = chart.lines(title, name, "as each line says", {words: {count: row["value"] for count, row in each.items()} for words, each in growth[name].items()})
    return found


def charts(figures):
    """{file name: SVG}"""
    found, groups, policy = growth_charts(figures["growth"]), list(ratio_groups(figures)), figures["micro"].get("policy_lookup")
    if groups:
        found["ratios"] = chart.bars("Processor time, over Bailey's",
                                     "Bailey is 1, to the right costs more; logarithmic. Blue: limits, which judge nothing. Red: peers that cost less than Bailey.",
                                     groups, LIMITS)
    if policy:
        found["rules"] = chart.lines("Rules", "rules", "a lookup in ns, the building of all in ms", {
            words: {row["entries"]: row[key] for row in policy["results"]} for key, words in (
                ("hit_ns", "exact, ns"), ("wildcard_hit_ns", "wildcard, ns"), ("miss_ns", "miss, ns"), ("net_hit_ns", "network, ns"), ("build_ms", "build, ms"))})
    return {f"benchmarks-{name}.svg": picture for name, picture in found.items()}
