# SPDX-License-Identifier: Apache-2.0
"""The report: tables and words, made of figures."""
from .figures import AGENT, EARLIER, JUDGED_MOST, PLAIN_MOST, SPREAD_MAX, TARGETS, WORK_TARGETS, best_peer, ratio, slope
from .files import ALONE, BAILEY, BWRAP, FLOOR, FLOOR_CONNECTS, FLOOR_OPENS, GLOB, JOBS, SRT, TRACE
from .gateway import CASES, LONG
from .growth import AT_REST, FEW, ONE_MORE
from .guests import CASES as GUEST_CASES
from .machine import QUIET
from .notes import SLOPES, note_for

LIMIT_OF = {"http": "relay", "http1": "relay", "connect": "relay", "socks": "relay", "bulk1": "relay, splice", "bulk16": "relay, splice",
            "tls": "nginx bridge", "h2": "haproxy bridge", "tls_connect": "nginx bridge, resuming", "tls_bulk": "nginx bridge"}


# --- pieces ---

def number(value, noise=0.0):
    if noise > SPREAD_MAX:
        return f"noisy ({noise * 100:.0f} %)"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def percent(share):
    return f"{share * 100:.0f} %"


def times(value):
    return f"{value:.2f} x" if value else ""


def bold(name):
    return f"**{name}**" if name in ("bailey", "bailey run") or name.startswith("bailey run,") else name


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def section(title, *lines):
    return [f"## {title}", "", *lines]


# --- what it is held against ---

def missed_text(missed):
    """One note for all that have the same reason."""
    notes = {}
    for target, value in missed:
        notes.setdefault(note_for(target.words), []).append(f"{target.words} ({value:.2f})")
    lines = [f"- Missed: {'; '.join(rows)}. {f'`bench/run BUILD {note.experiment}`: {note.text}' if note else 'Not understood yet.'}" for note, rows in notes.items()]
    return lines + [""] * bool(lines)


def targets_text(figures):
    rows, missed = [], []
    for target in TARGETS:
        value, noise = target.look(figures)
        verdict = target.verdict(value, noise)
        close = value is not None and abs(value / target.limit - 1) < 0.02
        rows.append([target.words, "" if value is None else f"{value:.3f}" if close else f"{value:.2f}",
                     f"{'at most' if target.at_most else 'at least'} {target.limit:g}", "" if value is None else f"{value / target.limit:.2f}", verdict])
        if verdict.startswith("missed"):
            missed.append((target, value))
    return section("Targets", *table(["", "measured", "target", "measured over target", ""], rows), *missed_text(missed))


# --- developers' work ---

def over_cell(rows, name, key, verdict=""):
    """What it is over no sandbox, and its spread."""
    value = ratio(rows, name, ALONE, key)
    if value is None:
        return f"noisy ({percent(rows[name][key + '_spread'])})" if name in rows else ""
    return f"{value:.2f} ± {percent(rows[name][key + '_spread'])}{verdict}"


def work_cells(figures, job):
    rows, verdicts = figures[job], {}
    for target in WORK_TARGETS:
        if target.job == job:
            word = target.verdict(*target.look(figures))
            verdicts[target.command] = f", {word}" if word.startswith("missed") else ""
    alone = f"{number(rows[ALONE]['ms'])} ± {percent(rows[ALONE]['ms_spread'])}" if ALONE in rows else ""
    handed = FLOOR_CONNECTS if FLOOR_CONNECTS in rows else FLOOR_OPENS
    return [JOBS[job][0], alone, *(over_cell(rows, name, "ms", verdicts.get(name, "")) for name in (BWRAP, SRT, BAILEY, GLOB, TRACE, FLOOR, handed))]


def work_missed_text(figures):
    seen = [(target, *target.look(figures)) for target in WORK_TARGETS]
    measured = [(target, value) for target, value, _ in seen if value is not None]
    missed = [(target, value) for target, value, noise in seen if target.verdict(value, noise).startswith("missed")]
    if not missed:
        return []
    words = {BAILEY: "plain rules", GLOB: "deny glob", TRACE: "trace"}

    def listed(targets):
        jobs = {}
        for target in targets:
            jobs.setdefault(target.job, []).append(words[target.command])
        return "; ".join(f"{JOBS[job][0]} ({', '.join(rules)})" for job, rules in jobs.items())
    near = sum(value <= EARLIER[target.limit] for target, value in missed)
    floor = [target for target, _ in missed if (target.floor(figures) or 0) > target.limit]
    other = [target for target, _ in missed if target not in floor]
    lines = [f"- Missed: {len(missed)} of {len(measured)}. {near} of these keep within {EARLIER[PLAIN_MOST]} with plain rules and {EARLIER[JUDGED_MOST]} where each open() is judged, the targets of before."]
    if floor:
        lines.append(f"- Out of reach of any judge in another process, because the work misses the target even if its calls are handed over and answered at once, unjudged (the last columns; "
                     f"`bench/run BUILD --experiment protection`): {listed(floor)}. The files are small and in memory, so a call takes 1 to 4 us without a sandbox. On a disk, or with larger "
                     "files, the same microseconds are a smaller share.")
    if other:
        lines.append(f"- Not explained by that alone: {listed(other)}. `bench/run BUILD --experiment parts` sets the parts of a sandbox beside each other for such work: a filter alone, Landlock "
                     "alone, namespaces and mounts, calls handed over, and all of it.")
    return [*lines, ""]


def work_text(figures):
    """What people's own work costs, job by job: the time that passes, over the same without a sandbox."""
    jobs = [job for job in JOBS if figures[job]]
    if not jobs:
        return []
    lines = [f"How much longer it takes than without a sandbox, in the time that passes, launch included, with the spread. Target: {PLAIN_MOST:g} with plain rules, {JUDGED_MOST:g} with a deny glob or a trace. "
             "The last two columns judge nothing: the calls are handed to another process, which answers at once.", ""]
    lines += table(["", "no sandbox, ms", "bwrap", "srt", "**Bailey**", "**with a deny glob**", "**with a trace**", "changes handed over", "opens (or connects) handed over"],
                   [work_cells(figures, job) for job in jobs])
    lines += work_missed_text(figures)
    lines += ["Processor time of all processes, over the same without a sandbox. (What bwrap's own process 1 collects is not seen from outside.)", ""]
    lines += table(["", "no sandbox, ms", "srt", "**Bailey**", "**with a deny glob**", "**with a trace**"], [
        [JOBS[job][0], number(figures[job][ALONE]["cpu_ms"]) if ALONE in figures[job] else "", *(over_cell(figures[job], name, "cpu_ms") for name in (SRT, BAILEY, GLOB, TRACE))] for job in jobs])
    return section("Work inside", *lines)


def beside(what, rows, key, unit, limit, us="bailey"):
    """One row: Bailey, the best peer and the limit, with the ratios."""
    def cell(name):
        return f"{name}, {number(rows[name][key])}" if name in rows else ""
    peer = best_peer(rows, key)
    return [what, f"{number(rows[us][key], rows[us][key + '_spread'])} {unit}", cell(peer), times(ratio(rows, us, peer, key)), cell(limit), times(ratio(rows, us, limit, key))]


def beside_text(figures):
    """Bailey, the best peer and the limit in every case."""
    rows = []
    if "bailey run" in figures["launch"]:
        rows.append(beside("Launch of /bin/true", figures["launch"], "ms", "ms", "limit", "bailey run"))
    if "bailey run, token swapped" in figures["end"]:
        rows.append(beside("Launch with one https request", figures["end"], "ms", "ms", "curl alone", "bailey run, token swapped"))
    for case in CASES:
        found = figures["gateway"].get(case.name, {})
        if case.has_peers and "bailey" in found:
            rows.append(beside(case.title, found, "cpu_us", f"us/{case.unit}", LIMIT_OF.get(case.name)))
    if "bailey" in figures["idle"]:
        rows.append(beside("Idle tunnels", {name: dict(row, kib_spread=0.0) for name, row in figures["idle"].items()}, "kib", "KiB", "relay"))
    if not rows:
        return []
    return section("Beside the best peer and the limit", *table(["", "Bailey", "best peer", "Bailey over it", "limit", "Bailey over it"], rows),
                   "![Processor time of all, over Bailey's](benchmarks-ratios.svg)", "")


# --- one thing after the other ---

def commands_text(title, rows, base, words):
    if not rows:
        return []
    return section(title, *table(["", "ms", "spread", "CPU ms", words], [
        [bold(name), number(row["ms"], row["ms_spread"]), percent(row["ms_spread"]), number(row["cpu_ms"]), times(ratio(rows, name, base, "ms"))]
        for name, row in sorted(rows.items(), key=lambda each: each[1]["ms"])]))


def case_text(case, rows):
    lines = []
    for name, row in sorted(rows.items(), key=lambda each: each[1]["cpu_us"]):
        cells = ["", "", ""]
        if name != "direct":
            cells = [number(row["cpu_us"], row["cpu_us_spread"]), percent(row["cpu_us_spread"]), times(ratio(rows, name, "bailey", "cpu_us"))]
        lines.append([bold(name), number(row["rate"], row["rate_spread"]), *cells, number(row["p50_us"]) if case.load not in ("bulk", "dns", "h2") else "",
                      str(row["errors"])])
    plural = "" if case.unit == "MB" else "s"
    return section(case.title, *table(["", f"{case.unit}{plural}/s", f"CPU us/{case.unit}", "spread", "CPU over Bailey's", "p50 us", "errors"], lines))


def rules_text(case, rows):
    """What a long list adds to a request: each server with it, less the same server without."""
    found = []
    for name in rows:
        if name + LONG in rows:
            few, many = rows[name], rows[name + LONG]
            noise = few["cpu_us"] * few["cpu_us_spread"] + many["cpu_us"] * many["cpu_us_spread"]
            extra = many["cpu_us"] - few["cpu_us"]
            found.append((many["cpu_us"], [bold(name), number(few["cpu_us"]), number(many["cpu_us"]),
                                           f"less than {number(noise)}" if abs(extra) <= noise else number(extra)]))
    return section(case.title, "CPU us for a request. If the difference is smaller than the spread of the two, the table gives the spread.", "",
                   *table(["", "without the list", "with it", "the list costs"], [row for _, row in sorted(found)]))


def cases_text(figures):
    lines = []
    for case in CASES:
        if case.name in figures["gateway"]:
            lines += (rules_text if case.name == "rules" else case_text)(case, figures["gateway"][case.name])
    return lines


def idle_text(rows):
    if not rows:
        return []
    return section("Idle tunnels", *table(["", "KiB each", "open"], [
        [bold(name), number(row["kib"]), f"{row['open']:,}"] for name, row in sorted(rows.items(), key=lambda each: each[1]["kib"])]))


def memory_text(rows):
    if not rows:
        return []
    return section("A sandbox at rest", "PSS of all its processes, of one sandbox alone: nobody shares its programs and libraries.", "", *table(["", "MiB", "spread"], [
        [bold(name), number(row["mib"]), percent(row["mib_spread"])] for name, row in sorted(rows.items(), key=lambda each: each[1]["mib"])]))


def guests_text(cases):
    lines = []
    for case, (title, unit) in GUEST_CASES.items():
        rows = cases.get(case)
        if rows:
            lines += [f"{title}:", "", *table(["", unit, "spread"], [
                [bold(name), number(row["value"], row["value_spread"]), percent(row["value_spread"])] for name, row in sorted(rows.items(), key=lambda each: each[1]["value"])])]
    return section("Guests", "The test saves and restores a home of 1 GiB in 100,000 files, in memory where there is enough of it; a snapshot is tar with zstd, packed as the guest alone.", "", *lines) if lines else []


def approval_text(rows):
    if not rows:
        return []
    return section("A held connection, from the answer until it goes on", *table(["answered by", "ms", "spread"], [
        [name, number(row["ms"]), percent(row["ms_spread"])] for name, row in sorted(rows.items(), key=lambda each: each[1]["ms"])]))


def bridge_text(rows):
    if not rows:
        return []
    return section("A bridged call", "The same command in the sandbox, and outside in its own sandbox.", "", *table(["command", "ms", "spread"], [
        [name, number(row["ms"]), percent(row["ms_spread"])] for name, row in sorted(rows.items(), key=lambda each: each[1]["ms"])]))


def micro_text(micro):
    lines, policy, audit, api, notify = [], micro.get("policy_lookup"), micro.get("audit_line"), micro.get("api"), micro.get("notify")
    if notify:
        lines += section("An open() that somebody else performs, CPU us of both", "`lab-notify` opens one file again and again. It judges nothing. \"The least\" is the work that no program can avoid which "
                         "performs calls for others: it reads the path, looks up the caller's directory, examines and opens the file, and hands over the descriptor.", "",
                         *table(["nobody is asked", "the round trip alone", "the least"], [[number(notify[k]) for k in ("alone_us", "round_trip_us", "least_us")]]))
    if policy:
        lines += section("Policy lookups, ns of processor time", "![](benchmarks-rules.svg)", "", *table(
            ["rules", "exact", "wildcard", "miss", "network", "network, miss", "build ms", "open ms", "bytes/rule"],
            [[f"{r['entries']:,}"] + [number(r[k]) for k in ("hit_ns", "wildcard_hit_ns", "miss_ns", "net_hit_ns", "net_miss_ns", "build_ms", "open_ms", "bytes_per_rule")]
             for r in policy["results"]]), SLOPES["rules"], "")
    if audit:
        lines += section("One audit event, ns", *table(["decode", "line and hash", "write"], [[number(audit[k]) for k in ("decode_ns", "line_ns", "write_ns")]]))
    if api:
        lines += section("Library", *table(["check of 200 bytes, us", "exec of true, ms", "the same by `bailey run`, ms", "by bwrap, ms"], [
            [number(api["check_200_us"]), *(f"{number(api[f'{k}_ms'])} ± {percent(api.get(f'{k}_spread', 0))}" if api.get(f"{k}_ms") else "" for k in ("exec", "run", "bwrap"))]]))
    return lines


def record_text(figures):
    rows = [[case.title, number(ours["cpu_us"]), number(ours["record_us"])] for case, ours in
            ((case, figures["gateway"].get(case.name, {}).get("bailey")) for case in CASES) if ours and case.has_peers and case.load != "bulk"]
    if not rows:
        return []
    chart = ["![](benchmarks-audit.svg)", ""] if figures["growth"]["connections"].get("bailey") else []
    return section("What the record costs", "You cannot switch the audit log off: without it Bailey takes no work. Most of its cost can be measured separately, because "
                   "one process does nothing but write it. The figures of the record do not include the gateway's time to describe an event to that process.", "",
                   *chart, *table(["", "CPU us, all", "of which its writer"], rows))


# --- growth ---

def growth_table(first, series, keys):
    counts = sorted({count for each in series.values() for count in each})
    columns = [(name, key) for name in series for key in keys]
    return table([first] + [f"{name}, {keys[key]}" for name, key in columns],
                 [[f"{count:,}"] + [number(series[name][count][key]) if count in series[name] else "" for name, key in columns] for count in counts])


def rise_text(connections, machine):
    """Why a request costs more when many connections are in use: what open ones cost that rest, and what sockets cost without any proxy."""
    many = max((count for each in connections.values() for count in each), default=0)
    rows = []
    for name, each in connections.items():
        rest = connections.get(name + AT_REST, {}).get(many)
        if rest and FEW in each and many in each:
            few = each[FEW]["cpu_us"]
            rows.append([bold(name), number(few), number(rest["cpu_us"]), number(each[many]["cpu_us"]), times(rest["cpu_us"] / few), times(each[many]["cpu_us"] / few)])
    if not rows:
        return []
    lines = [f"Why a request costs more with {many:,} connections than with {FEW}: the test opens {many:,}, and leaves all but {FEW} of them idle. CPU us for a request:", ""]
    lines += table(["", f"{FEW} open", f"{many:,} open, {FEW} in use", f"{many:,} in use", "for being open", "for being in use"], rows)
    kernel = [each[many]["kernel_kib"] for name, each in connections.items() if name == "relay" and many in each]
    lines += ["A growing table or list would cost the same whether the others are idle or not. But a connection in use must come into the processor's caches again at each turn"
              + (f": in the kernel alone a connection through the relay takes {number(kernel[0])} KiB at both ends together, so {many:,} take {kernel[0] * many / 1024:,.0f} MiB"
                 if kernel and kernel[0] > 0 else "") + f". {machine['caches']}", ""]
    if many < 10000:
        lines += [f"The curve ends at {many:,}: a process may have {machine['descriptors']:,} descriptors here, and a proxy needs two for each connection and some for itself.", ""]
    return lines


def sandboxes_text(boxes):
    lines = ["### Sandboxes at once, figures for each of them", "", "![](benchmarks-sandboxes.svg)", ""]
    lines += growth_table("sandboxes", boxes, {"cpu_ms_each": "CPU ms", "mib_each": "MiB", ONE_MORE: "ms of one more"})
    return [*lines, "CPU ms: until it has ended. ms of one more: a launch while the others rest. " + SLOPES["sandboxes"], ""]


def series_text(title, name, first, series):
    """Files, records: a figure for each count."""
    if not series:
        return []
    counts = sorted({count for each in series.values() for count in each})
    return [f"### {title}", "", f"![](benchmarks-{name}.svg)", "",
            *table([first, *series], [[f"{count:,}", *(number(each[count]["value"]) if count in each else "" for each in series.values())] for count in counts]), SLOPES[name], ""]


def slopes_text(growth):
    steep = [[f"{name}: {part}{words}", f"{slope({count: row[key] for count, row in each.items()}):+.2f}"]
             for part, key, words in (("connections", "cpu_us", ", CPU"), ("sandboxes", "cpu_ms_each", ", CPU"), ("sandboxes", ONE_MORE, ", one more"), ("sandboxes", "mib_each", ", memory"),
                                      ("files", "value", ""), ("records", "value", ""))
             for name, each in growth[part].items() if len(each) > 1 and "bwrap" not in name and "no proxy" not in name]
    if not steep:
        return []
    return ["The slope of the curves at their end. The figures are for one request, sandbox, file or record: 0 means that the total grows linearly.", "", *table(["", "slope"], steep)]


def growth_text(figures, machine):
    lines, growth = [], figures["growth"]
    if growth["connections"]:
        shown = {name: each for name, each in growth["connections"].items() if not name.endswith(AT_REST)}
        lines += ["### Connections at once, each with a request on its way", "", "![](benchmarks-connections.svg)", "", "![](benchmarks-workers.svg)", ""]
        lines += growth_table("connections", shown, {"cpu_us": "CPU us/request", "rate": "requests/s"})
        lines += rise_text(growth["connections"], machine)
    if growth["sandboxes"]:
        lines += sandboxes_text(growth["sandboxes"])
    lines += series_text("Files in the workspace", "files", "files", growth["files"])
    lines += series_text("Records in the log", "records", "records", growth["records"])
    lines += slopes_text(growth)
    return section("How cost grows", *lines) if lines else []


# --- the page ---

def head_text(about):
    lines = ["# Benchmarks", "", f"`bench/run`, which `make bench` runs, measured this on {about['date']}: {about['machine']}. The parts may come from several runs: the end of this page "
             "says when each was measured, and with which version.",
             "The servers of one table ran in the same session on loopback. Every repetition ran them one after the other, in random order. Figures are medians.",
             "CPU time is user and system time of all processes of the system under test, per operation. The spread is the middle half of the runs over the median.",
             f"A figure whose spread is above {percent(SPREAD_MAX)} is not reported. Absolute figures differ from machine to machine; compare the ratios.",
             "Bailey runs with its full policy and with the audit log on; the peers run without logs. The limits judge nothing. `relay` is a bare relay "
             "without policy, parser or record. The bridges end TLS and begin it again with one fixed certificate. `limit` of a launch is one static program that makes "
             "all namespaces, mounts and a filter.",
             f"A sample was taken again if other processes used more than {percent(QUIET)} of a processor meanwhile: {about['again']} of {about['samples']}.", ""]
    if about["others"]:
        lines += [f"The machine was not quiet: other processes used {about['others']:.1f} processors when this began. Wall times are too high for everybody; the ratios of "
                  "processor time are more reliable. To be measured again.", ""]
    return lines


def tail_text(about):
    lines = section("Left out", *(f"- {name}: {' '.join(why.split())}" for name, why in about["left out"].items()), "") if about["left out"] else []
    groups = {}
    for name, part in about["measured"].items():
        groups.setdefault((part["when"][:13], part["bailey"]), []).append((name, part))
    lines += section("When", *table(["measured", "version", "seconds", ""], [
        [min(part["when"] for _, part in group)[:16].replace("T", " "), version, f"{sum(part.get('seconds', 0) for _, part in group):,}", ", ".join(name for name, _ in group)]
        for (_, version), group in sorted(groups.items())]))
    return lines + section("Versions", *(f"- {name}: {text}" for name, text in about["versions"].items()), "")


# From this heading on the page is written by hand: no run measures it, and a new page keeps it.
BY_HAND = "## Where the time of a launch goes\n"


def with_hand_written(text, page):
    """The new text of the page, with the part of the old one that is written by hand."""
    old = page.read_text() if page.exists() else ""
    at = old.find("\n" + BY_HAND)
    return text if at < 0 else text.rstrip("\n") + "\n" + old[at:]


def markdown(figures, about):
    return "\n".join([
        *head_text(about), *targets_text(figures), *beside_text(figures),
        *commands_text("Launch of /bin/true", figures["launch"], AGENT, "over bwrap's"),
        *commands_text("`bailey run` with one https request inside", figures["end"], "curl alone", "over curl alone"),
        *commands_text("git over https, with and without its gate", figures.get("git", {}), "fetch, tunnel", "over the tunnel"), *bridge_text(figures.get("bridge", {})),
        *work_text(figures), *cases_text(figures), *idle_text(figures["idle"]), *memory_text(figures["memory"]), *guests_text(figures["guests"]), *approval_text(figures["approval"]), *micro_text(figures["micro"]), *record_text(figures),
        *growth_text(figures, about), *tail_text(about)])
