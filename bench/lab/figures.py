# SPDX-License-Identifier: Apache-2.0
"""From samples to figures: medians, spreads, ratios, and the targets that they are held against."""
import math
import statistics

from .bridge import BRIDGED, GATE, INSIDE, OPENED, PACK_GATE, PACK_OPENED, PUSH_GATE, PUSH_OPENED
from .files import ALONE, BAILEY, CONNECTIONS, FLOOR, FLOOR_OPENS, GLOB, JOBS, TRACE
from .gateway import CASES, DEFAULT, H2_TARGET
from .growth import GATEWAY_AND_VAULT, ONE_MORE
from .samples import PARTS

SPREAD_MAX = 0.25  # above this a figure is not reported: the machine was doing something else
NOISY_MAX = 0.25  # with more than this share of such figures, nothing is
LIMITS = ("direct", "relay", "relay, splice", "limit", "bare", "unshare, all namespaces", "curl alone", "nginx bridge",
          "nginx bridge, resuming", "haproxy bridge")  # not peers: they judge nothing
AGENT = "bwrap, agent profile"
SECURE_BEFORE = 27990  # intercepted requests a second on two processors, one worker: the best that a version had
GROWTH = ("connections", "sandboxes", "files", "records")  # with rules: micro-benchmarks


def spread(values):
    """Half of the values lie within this share around the median."""
    if len(values) < 3:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle if middle else 0.0


def summarise(samples, keys):
    row = {"runs": len(samples)}
    for key in keys:
        values = [sample[key] for sample in samples]
        row[key], row[key + "_spread"] = statistics.median(values), spread(values)
    return row


def summarise_all(samples):
    """The figures, without the samples."""
    gateway = {case: {name: dict(summarise(each, ("rate", "cpu_us", "p50_us", "p99_us", "record_us")), errors=sum(s["errors"] for s in each))
                      for name, each in targets.items()} for case, targets in samples.cases().items()}
    commands = {part: {name: summarise(each, ("ms", "cpu_ms")) for name, each in samples.get(part).items()} for part in ("launch", "end", "git", *JOBS)}
    approval = {name: summarise(each, ("ms",)) for name, each in samples.get("approval").items()}
    calls = {name: summarise(each, ("ms",)) for name, each in samples.get("bridge").items()}
    growth = {part: {name: {int(count): {key: statistics.median(s[key] for s in each) for key in each[0]} for count, each in counts.items()}
                     for name, counts in samples.get(part).items()} for part in GROWTH}
    memory = {name: summarise(each, ("mib",)) for name, each in samples.get("memory").items()}
    guests = {case: {name: summarise(each, ("value",)) for name, each in rows.items()} for case, rows in samples.get("guests").items()}
    return {"guests": guests, "gateway": gateway, "idle": samples.get("idle"), "micro": samples.get("micro"), "approval": approval, "bridge": calls, "growth": growth,
            "memory": memory, **commands}


def missing_parts(samples):
    return [name for name in [*(p for p in PARTS if p != "gateway"), *(f"case/{c.name}" for c in CASES)] if not samples.get(name)]


def noisy_share(figures):
    """How many of the figures that are compared varied too much."""
    spreads = [row["cpu_us_spread"] for case in figures["gateway"].values() for name, row in case.items() if name != "direct"]
    spreads += [row["ms_spread"] for part in ("launch", "end") for row in figures[part].values()]
    return sum(s > SPREAD_MAX for s in spreads) / len(spreads) if spreads else 0.0


def ratio(table, a, b, key):
    """a's figure over b's; None where one is missing, 0 or noisy."""
    if a not in table or b not in table or not table[b][key]:
        return None
    if max(table[a][key + "_spread"], table[b][key + "_spread"]) > SPREAD_MAX:
        return None
    return table[a][key] / table[b][key]


def best_peer(rows, key="cpu_us"):
    """The cheapest of those that are neither Bailey nor a limit."""
    peers = [n for n in rows if n not in LIMITS and not n.startswith("bailey") and rows[n][key + "_spread"] <= SPREAD_MAX]
    return min(peers, key=lambda n: rows[n][key], default=None)


def slope(points):
    """Between the last two points, both axes logarithmic: 0 is a constant cost, 1 a linear one."""
    places = sorted((x, y) for x, y in points.items() if x > 0 and y > 0)
    if len(places) < 2:
        return 0.0
    (x1, y1), (x2, y2) = places[-2:]
    return math.log(y2 / y1) / math.log(x2 / x1)


class Target:
    """One line of what Bailey is held against. look(figures) gives the value, or None, and how uncertain it is as a share of it."""

    def __init__(self, words, look, at_most=None, at_least=None):
        self.words, self._look, self.at_most = words, look, at_least is None
        self.limit = at_most if at_least is None else at_least

    def look(self, figures):
        return self._look(figures)

    def verdict(self, value, noise=0.0):
        if value is None:
            return "not measured"
        word = "met" if (value <= self.limit if self.at_most else value >= self.limit) else "missed"
        return f"{word}, by less than the spread" if value != self.limit and abs(value / self.limit - 1) < noise else word


def over(part, ours, theirs, key, case=None):
    """Looks for a ratio. Its noise is as far as both figures vary together."""
    def look(figures):
        table = figures[part].get(case, {}) if case else figures.get(part, {})
        value = ratio(table, ours, theirs, key)
        return value, math.hypot(table[ours][key + "_spread"], table[theirs][key + "_spread"]) / 2 if value else 0.0
    return look


def through(case, peer, key="cpu_us"):
    """The same of a gateway case."""
    return over("gateway", "bailey", peer, key, case)


def per_second(case, before):
    """How many a second, over so many of before."""
    def look(figures):
        row = figures["gateway"].get(case, {}).get("bailey")
        if not row or row["rate_spread"] > SPREAD_MAX:
            return None, 0.0
        return row["rate"] / before, row["rate_spread"] / 2
    return look


def answer_ms(way):
    def look(figures):
        row = figures["approval"].get(way)
        return (row["ms"], row["ms_spread"] / 2) if row else (None, 0.0)
    return look


def whole_ms(part, name):
    def look(figures):
        row = figures.get(part, {}).get(name)
        return (row["ms"], row["ms_spread"] / 2) if row else (None, 0.0)
    return look


def more_ms(part, ours, theirs):
    """How much longer, in ms."""
    def look(figures):
        rows = figures.get(part, {})
        if ours not in rows or theirs not in rows:
            return None, 0.0
        return rows[ours]["ms"] - rows[theirs]["ms"], rows[ours]["ms_spread"] / 2
    return look


def each_us(part, ours, theirs, times):
    """How much longer each of so many steps takes, in us; the launch is a part of it."""
    def look(figures):
        more, noise = more_ms(part, ours, theirs)(figures)
        return (None if more is None else more * 1000 / times), noise
    return look


def lookup(entries, key, scale=1.0):
    def look(figures):
        rows = [r for r in figures["micro"].get("policy_lookup", {}).get("results", []) if r["entries"] == entries]
        return (rows[0][key] * scale if rows else None), 0.0
    return look


def api(key, *of):
    """of: the figures that it is made of, for how far these vary together."""
    def look(figures):
        found = figures["micro"].get("api", {})
        return found.get(key) or None, math.hypot(*(found.get(f"{each}_spread", 0) for each in of)) / 2 if of else 0.0
    return look


def guest(case, name, less=None):
    """A figure of guests, or how much more it is than another one of its case."""
    def look(figures):
        rows = figures["guests"].get(case, {})
        if name not in rows or (less and less not in rows):
            return None, 0.0
        return rows[name]["value"] - (rows[less]["value"] if less else 0), rows[name]["value_spread"] / 2
    return look


def among(count):
    """What a launch takes while so many others rest, over the same while one does."""
    def look(figures):
        rows = figures["growth"]["sandboxes"].get(BAILEY, {})
        if count not in rows or 1 not in rows or not rows[1].get(ONE_MORE):
            return None, 0.0
        return rows[count][ONE_MORE] / rows[1][ONE_MORE], rows[count]["spread"] / 2
    return look


def idle_mib(name):
    def look(figures):
        row = figures["memory"].get(name)
        return (row["mib"], row["mib_spread"] / 2) if row else (None, 0.0)
    return look


def idle_kib(figures):
    return figures["idle"].get("bailey", {}).get("kib"), 0.0


TARGETS = [
    Target("launch, over bwrap's agent profile", over("launch", "bailey run", AGENT, "ms"), at_most=0.66),
    Target("launch in 300,000 files, over bwrap", over("launch", "bailey run, 300,000 files", AGENT, "ms"), at_most=0.66),
    Target("ms of a launch with an agent's profile", whole_ms("launch", "bailey run, profile claude"), at_most=12),
    Target("one https request in a tunnel, launch included, over curl alone", over("end", "bailey run, tunnel", "curl alone", "ms"), at_most=1.08),
    Target("the same with a token swapped", over("end", "bailey run, token swapped", "curl alone", "ms"), at_most=1.15),
    Target("launch among 1,000 sandboxes at rest, over the same among 1", among(1000), at_most=1.1),
    Target("MiB of memory for an idle sandbox", idle_mib(BAILEY), at_most=2),
    Target("MiB of memory for an idle sandbox with gateway and vault", idle_mib(GATEWAY_AND_VAULT), at_most=8),
    Target("us more for a connect() to a Unix socket inside", each_us("connect", BAILEY, ALONE, CONNECTIONS), at_most=12),
    Target("a bridged git version, ms over the same inside", more_ms("bridge", BRIDGED, INSIDE), at_most=15),
    Target("processor time of a fetch through the git gate, over TLS opened alone", over("git", GATE, OPENED, "cpu_ms"), at_most=1.03),
    Target("speed of a large pack through the git gate, over TLS opened alone", over("git", PACK_OPENED, PACK_GATE, "ms"), at_least=0.9),
    Target("speed of a large push through the git gate, over TLS opened alone", over("git", PUSH_OPENED, PUSH_GATE, "ms"), at_least=0.9),
    Target("processor time of a request, over HAProxy", through("http", "haproxy"), at_most=0.8),
    Target("median time of a request on one connection, over HAProxy", through("http1", "haproxy", "p50_us"), at_most=1.0),
    Target("processor time of a CONNECT tunnel, over the bare relay", through("connect", "relay"), at_most=1.3),
    Target("processor time of a SOCKS5 tunnel, over the bare relay", through("socks", "relay"), at_most=1.3),
    *(Target(f"processor time of {what}, workers as by default, over one worker", over("gateway", DEFAULT, "bailey", "cpu_us", case), at_most=1.05)
      for case, what in (("own_http", "a request"), ("own_connect", "a CONNECT tunnel"), ("own_socks", "a SOCKS5 tunnel"), ("own_tls", "an intercepted request"))),
    Target("bulk through 1 tunnel, over the relay with splice", through("bulk1", "relay, splice", "rate"), at_least=0.85),
    Target("bulk through 16 tunnels, over the relay with splice", through("bulk16", "relay, splice", "rate"), at_least=0.85),
    Target("KiB of memory for an idle tunnel", idle_kib, at_most=3.3),
    Target("processor time of an intercepted request, over the nginx bridge", through("tls", "nginx bridge"), at_most=1.05),
    Target("intercepted requests a second, over those of version 0.1 on a Neoverse V1", per_second("tls", SECURE_BEFORE), at_least=1.0),
    Target("processor time of an intercepted connection, over the nginx bridge", through("tls_connect", "nginx bridge"), at_most=1.1),
    Target("processor time of an intercepted HTTP/2 request, 100 streams, over nginx", through("h2", H2_TARGET), at_most=1.05),
    Target("hosts never seen, over Squid", through("tls_fresh", "squid, bumping", "rate"), at_least=3.0),
    Target("bulk through interception, over the nginx bridge", through("tls_bulk", "nginx bridge", "rate"), at_least=1.0),
    Target("processor time of a DNS answer, over unbound", through("dns", "unbound"), at_most=1.0),
    Target("processor time of a DNS refusal from 100,000 names, over unbound", through("dns_refused", "unbound"), at_most=1.0),
    Target("ms to build 100,000 rules", lookup(100000, "build_ms"), at_most=50),
    *(Target(f"us of a lookup in 1,000,000 rules: {words}", lookup(1000000, key, 1e-3), at_most=1.0) for key, words in (
        ("hit_ns", "name"), ("wildcard_hit_ns", "wildcard"), ("miss_ns", "no rule"), ("net_hit_ns", "network"), ("net_miss_ns", "no network"))),
    Target("us to judge a command of 200 bytes", api("check_200_us"), at_most=50),
    Target("exec, over the same by `bailey run`", api("exec_over_run", "exec", "run"), at_most=1.1),
    Target("exec, over bwrap's agent profile", api("exec_over_bwrap", "exec", "bwrap"), at_most=0.3),
    Target("ms to make a guest", guest("create", "bailey guest"), at_most=1000),
    Target("ms of a command in a guest that runs, beyond the command alone", guest("exec", "bailey guest", "the command alone"), at_most=3),
    Target("MiB of memory for a guest at rest", guest("rest", "1 guest"), at_most=3),
    Target("MiB of memory for each of 200 guests at rest", guest("rest", "200 guests"), at_most=3),
    Target("ms from an answer by the control socket until the connection goes on", answer_ms("control socket"), at_most=50),
    Target("ms from the start of `bailey allow` until the connection goes on", answer_ms("bailey allow"), at_most=50),
]

# How much longer developers' work takes than without a sandbox: with plain rules, and where every open() is judged.
PLAIN_MOST, JUDGED_MOST = 1.03, 1.3
EARLIER = {PLAIN_MOST: 1.1, JUDGED_MOST: 1.5}  # what it was held against before
WORK = [job for job in JOBS if job != "connect"]  # that has a target of its own


class Work(Target):
    """One job, one set of rules: a cell of the table of work."""

    def __init__(self, job, command):
        judged = command != BAILEY
        words = {BAILEY: "", GLOB: ", with a deny glob", TRACE: ", with a trace"}[command]
        super().__init__(f"{JOBS[job][0]}{words}", over(job, command, ALONE, "ms"), at_most=JUDGED_MOST if judged else PLAIN_MOST)
        self.job, self.command = job, command
        self.floor_look = over(job, FLOOR_OPENS if judged else FLOOR, ALONE, "ms")

    def floor(self, figures):
        """The same work with its calls answered at once, by somebody who judges nothing."""
        return self.floor_look(figures)[0]


WORK_TARGETS = [Work(job, command) for job in WORK for command in (BAILEY, GLOB, TRACE)]
