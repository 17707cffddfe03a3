# SPDX-License-Identifier: Apache-2.0
"""Gateway cases: the same load through Bailey, its peers and the bare relay, one after the other within each repetition."""
import contextlib
import json
import math
import random
import re
import subprocess
import time

from .machine import FAILURES, QUIET, Daemon, LabError, Others, cpu_seconds, descriptors, on_one_processor, own_seconds, resident_kib
from .peers import BULK_FILE, FRESH_HOSTS, LISTED_ZONE, NAMED_ORIGIN, ORIGIN, PORT, SECURE_HOST, SECURE_ZONE, TLS_ORIGIN, ZONE

IDLE_TUNNELS = 5000
DESCRIPTORS_EACH = {"srt": 4}  # of a tunnel, where they are more than two: its front hands each connection to a second server
TRIES = 3
ENOUGH = 3  # repetitions, for a median and a spread
BULK_BYTES = 10**13


class Case:
    """One row of load: targets are (name, daemon, port, way through it)."""

    def __init__(self, name, title, unit, load, targets, connections, size=1024, ms=700, tls=None, hosts=0, ask=None, zone=ZONE, alone=False):
        self.name, self.title, self.unit, self.load, self.targets = name, title, unit, load, targets
        self.connections, self.size, self.ms = connections, size, ms
        self.tls = bool(tls)  # the exchange is TLS, with a token
        self.ask = tls or ask  # NAME:PORT, where it is not the origin's address
        self.zone = zone  # whose names are asked for
        self.alone = alone  # one thing at a time: all of it on one processor
        self.hosts = hosts  # each sample asks for that many hosts that nobody has asked for
        self.has_peers = name != "rules" and not name.startswith("own_")  # others in the same table, as they are


def target(name, port, way, daemon=None):
    return (name, daemon or name, PORT[port], way)


DIRECT = ("direct", None, PORT["origin"], "direct")
DIRECT_TLS = ("direct", None, PORT["tls_origin"], "direct")
HTTP = [DIRECT, target("relay", "relay", "http"), target("bailey", "bailey_http", "http"), target("haproxy", "haproxy_http", "http"),
        target("squid", "squid", "http"), target("tinyproxy", "tinyproxy", "http"), target("privoxy", "privoxy", "http"),
        target("mitmproxy", "mitmproxy", "http"), target("srt", "srt", "http")]
CONNECT = [DIRECT, target("relay", "relay", "connect"), target("bailey", "bailey_http", "connect"), target("haproxy, tcp", "haproxy_tcp", "direct", "haproxy"),
           target("squid", "squid", "connect"), target("tinyproxy", "tinyproxy", "connect"), target("privoxy", "privoxy", "connect"),
           target("mitmproxy", "mitm_tunnels", "connect", "mitmproxy, tunnels"), target("srt", "srt", "connect")]
SOCKS = [target("relay", "relay", "socks"), target("bailey", "bailey_socks", "socks"), target("microsocks", "microsocks", "socks"),
         target("dante", "dante", "socks"), target("srt", "srt", "socks"), target("mitmproxy", "mitm_socks", "socks", "mitmproxy, socks")]
BULK = [DIRECT, target("relay", "relay", "connect"), target("relay, splice", "relay_splice", "connect"), target("bailey", "bailey_http", "connect"),
        target("haproxy, splice", "haproxy_splice", "direct", "haproxy"), target("nginx, tcp", "nginx_tcp", "direct", "nginx"),
        target("squid", "squid", "connect"), target("tinyproxy", "tinyproxy", "connect"), target("dante", "dante", "socks"),
        target("mitmproxy", "mitm_tunnels", "connect", "mitmproxy, tunnels"), target("srt", "srt", "connect")]
DNS = [target("bailey", "bailey_dns", "direct"), target("unbound", "unbound", "direct"), target("dnsmasq", "dnsmasq", "direct")]
REFUSALS = {"bailey, listed": 5, "unbound, listed": 5, "dnsmasq, listed": 3}  # the code of each: refused, or no such name
REFUSED = [target("bailey", "bailey_listed_dns", "direct", "bailey, listed"), target("unbound", "unbound_listed", "direct", "unbound, listed"),
           target("dnsmasq", "dnsmasq_listed", "direct", "dnsmasq, listed")]
LONG = ", 100,000 rules"  # beside the same without
RULES = [target("bailey", "bailey_http", "http"), target("bailey" + LONG, "bailey_listed", "http", "bailey, listed"),
         target("haproxy, exact", "haproxy_few", "direct", "haproxy, lists"), target("haproxy, exact" + LONG, "haproxy_exact", "direct", "haproxy, lists"),
         target("haproxy, suffix", "haproxy_few", "direct", "haproxy, lists"), target("haproxy, suffix" + LONG, "haproxy_suffix", "direct", "haproxy, lists"),
         target("squid", "squid", "http"), target("squid" + LONG, "squid_listed", "http", "squid, listed"),
         target("tinyproxy", "tinyproxy", "http"), target("tinyproxy" + LONG, "tinyproxy_listed", "http", "tinyproxy, listed"),
         target("privoxy", "privoxy", "http"), target("privoxy" + LONG, "privoxy_listed", "http", "privoxy, listed"),
         target("srt", "srt", "http"), target("srt" + LONG, "srt_listed", "http", "srt, listed")]
MINTING = [target("bailey", "bailey_tls", "connect", "bailey, intercepting"), target("squid, bumping", "squid_bump", "connect"),
           target("mitmproxy", "mitmproxy", "connect"), target("srt", "srt_tls", "connect", "srt, intercepting")]
SECURE = [DIRECT_TLS, target("nginx bridge", "nginx_bridge", "direct", "nginx"), target("nginx bridge, resuming", "nginx_reuse", "direct", "nginx"),
          target("haproxy bridge", "haproxy_bridge", "direct", "haproxy"), target("sslsplit", "sslsplit", "direct"), *MINTING]
FRESH = [("direct", None, PORT["fresh_origin"], "direct"), target("sslsplit", "sslsplit_fresh", "direct", "sslsplit"), *MINTING]
DEFAULT = "bailey, default workers"
VARIANTS = [target("bailey", "bailey_http", "http"), target(DEFAULT, "bailey_default", "http")]
TUNNEL_VARIANTS = [(name, daemon, port, "connect") for name, daemon, port, _ in VARIANTS]
SOCKS_VARIANTS = [target("bailey", "bailey_socks", "socks"), target(DEFAULT, "bailey_default_socks", "socks")]
SECURE_VARIANTS = [target("bailey", "bailey_tls", "connect", "bailey, intercepting"),
                   target(DEFAULT, "bailey_default_tls", "connect", "bailey, intercepting, default workers")]
H2_TARGET = "nginx, to HTTP/1.1"
STREAMS = 100
H2 = [("direct", None, PORT["h2_origin"], "direct"), target("haproxy bridge", "haproxy_h2_bridge", "direct", "haproxy"), target("haproxy", "haproxy_h2", "direct"),
      target(H2_TARGET, "nginx_h2", "direct", "nginx"), target("nghttpx", "nghttpx", "direct"), target("bailey", "bailey_tls", "connect", "bailey, intercepting"),
      target("mitmproxy", "mitmproxy", "connect")]
API = f"{SECURE_HOST}:{PORT['tls_origin']}"

CASES = [
    Case("http", "Plain HTTP, 1 KiB answers, 32 kept-alive connections", "request", "requests", HTTP, 32),
    Case("http1", "Plain HTTP, 1 KiB answers, 1 kept-alive connection, all on one processor", "request", "requests", HTTP[:5], 1, alone=True),
    Case("connect", "New CONNECT tunnels: open, one small exchange, close; 16 at a time", "tunnel", "tunnels", CONNECT, 16, size=64),
    Case("socks", "New SOCKS5 tunnels: open, one small exchange, close; 16 at a time", "tunnel", "tunnels", SOCKS, 16, size=64),
    Case("bulk1", "Bulk through 1 tunnel", "MB", "bulk", BULK, 1, size=BULK_BYTES),
    Case("bulk16", "Bulk through 16 tunnels", "MB", "bulk", BULK, 16, size=BULK_BYTES),
    Case("tls", "Interception: requests with a token, 1 KiB answers, 16 kept-alive connections", "request", "requests", SECURE, 16, tls=API),
    Case("tls_connect", "Interception: new connections, one request with a token each; 8 at a time", "connection", "tunnels", SECURE, 8, size=64, tls=API),
    Case("tls_fresh", "Interception: hosts never seen, one request each; 2 at a time", "host", "tunnels", FRESH, 2, size=64, ms=6000,
         tls=f"h#.{SECURE_ZONE}:{PORT['fresh_origin']}", hosts=100),
    Case("tls_bulk", "Interception: bulk through 1 connection", "MB", "bulk", SECURE, 1, size=BULK_FILE, tls=API),
    Case("h2", f"Interception: HTTP/2 requests with a token, 1 KiB answers, 1 connection with {STREAMS} streams", "request", "h2", H2, STREAMS, ms=2000,
         tls=f"{SECURE_HOST}:{PORT['h2_origin']}"),
    Case("dns", "DNS answers, 64 questions on their way", "answer", "dns", DNS, 64),
    Case("dns_refused", "DNS refusals from a list of 100,000 names, 64 questions on their way", "answer", "dns", REFUSED, 64, zone=LISTED_ZONE),
    Case("rules", "100,000 refused names: plain HTTP to another one, 8 kept-alive connections", "request", "requests", RULES, 8, ask=NAMED_ORIGIN),
    Case("own_http", "Bailey with 1 worker and by default; plain HTTP, 32 kept-alive connections", "request", "requests", VARIANTS, 32),
    Case("own_connect", "Bailey with 1 worker and by default; new CONNECT tunnels, 16 at a time", "tunnel", "tunnels", TUNNEL_VARIANTS, 16, size=64),
    Case("own_socks", "Bailey with 1 worker and by default; new SOCKS5 tunnels, 16 at a time", "tunnel", "tunnels", SOCKS_VARIANTS, 16, size=64),
    Case("own_tls", "Bailey with 1 worker and by default; intercepted requests, 16 kept-alive connections", "request", "requests", SECURE_VARIANTS, 16, tls=API),
]
IDLE = [t for t in CONNECT + SOCKS[2:4] if t[1]]


def load_argv(lab, case, each, turn):
    name, daemon, port, way = each
    argv = [lab.build / "bench/lab-load", case.load, "--proxy", f"127.0.0.1:{port}", "--connections", str(case.connections), "--ms", str(case.ms)]
    if case.load == "dns":
        return argv + ["--zone", case.zone, "--rcode", str(REFUSALS.get(daemon, 0))]
    argv += ["--through", way, "--size", str(case.size), "--origin", TLS_ORIGIN if case.tls else ORIGIN]
    if case.ask:
        argv += ["--target", case.ask]
    if case.tls:
        argv += ["--tls", "--token", lab.token_for(daemon or name)]
    if case.hosts:
        argv += ["--operations", str(case.hosts), "--first", str(case.hosts * turn)]
        if case.hosts * (turn + 1) > FRESH_HOSTS:
            raise LabError(f"{case.name} has asked for all {FRESH_HOSTS} hosts")
    return argv


@contextlib.contextmanager
def front(lab, case, each):
    """h2load knows no proxies: socat is in its place before every server, and goes through those that are proxies. It is not a part of what is measured."""
    _, _, port, way = each
    there = f"PROXY:127.0.0.1:{case.ask},proxyport={port}" if way == "connect" else f"TCP:127.0.0.1:{port}"
    server = Daemon("front", ["socat", "-b65536", f"TCP-LISTEN:{PORT['h2_front']},fork,reuseaddr,nodelay,bind=127.0.0.1", f"{there},nodelay"], PORT["h2_front"], lab.run)
    try:
        yield
    finally:
        server.stop()


def load_h2(lab, case, each, seconds):
    """As lab-load tells it."""
    argv = ["h2load", "-c1", f"-m{case.connections}", "-t1", f"-D{seconds}", "--connect-to", f"127.0.0.1:{PORT['h2_front']}",
            "-H", f"authorization: Bearer {lab.token_for(each[1] or each[0])}", f"https://{case.ask}/{case.size}"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=40)
    counts, mean = re.search(r"status codes: (\d+) 2xx", done.stdout), re.search(r"time for request: +\S+ +\S+ +([\d.]+)(us|ms|s)", done.stdout)
    failures = re.search(r"(\d+) failed, (\d+) errored", done.stdout)
    if not counts or not int(counts.group(1)):
        raise LabError(f"{case.name} through {each[0]}: {(done.stdout + done.stderr).strip()[-300:]}")
    mean_us = float(mean.group(1)) * {"us": 1, "ms": 1e3, "s": 1e6}[mean.group(2)] if mean else 0
    return {"operations": int(counts.group(1)), "bytes": 0, "seconds": seconds, "errors": int(failures.group(1)), "first_error": done.stdout[-300:], "p50_us": mean_us,
            "p99_us": 0}


def load(lab, case, each, turn):
    if case.load == "h2":
        return load_h2(lab, case, each, case.ms // 1000)
    done = subprocess.run(load_argv(lab, case, each, turn), capture_output=True, text=True, timeout=40)
    if done.returncode != 0:
        raise LabError(f"{case.name} through {each[0]}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def measure(lab, case, each, turn):
    """turn: which sample of this target it is, from 0 on."""
    name, daemon, _, _ = each
    server = lab.start(daemon) if daemon else None
    if turn == 0 and case.load == "h2":
        load_h2(lab, case, each, 1)
    elif turn == 0 and case.tls and not case.hosts:  # the first certificate of a host takes some of them seconds
        subprocess.run(load_argv(lab, case, each, 0) + ["--connections", "1", "--operations", "2", "--ms", "8000", "--size", "64"], capture_output=True,
                       timeout=40)
    before, own_before = (cpu_seconds(server.pid), own_seconds(server.pid)) if server else (0, 0)
    seen = load(lab, case, each, turn)
    time.sleep(0.02)  # closing and writing the record is part of the work
    used = cpu_seconds(server.pid) - before if server else 0
    operations = seen["bytes"] / 1e6 if case.load == "bulk" else seen["operations"]
    if operations == 0 or seen["errors"] > 10 + operations / 1000:
        raise LabError(f"{case.name} through {name}: {seen['errors']} errors, the first: {seen['first_error']}")
    # Bailey's first process does nothing here but to write the record; it cannot be switched off.
    record = (own_seconds(server.pid) - own_before) * 1e6 / operations if server and name.startswith("bailey") else 0
    return {"rate": operations / seen["seconds"], "cpu_us": used * 1e6 / operations, "record_us": record, "errors": seen["errors"], "p50_us": seen["p50_us"], "p99_us": seen["p99_us"]}


def undisturbed(lab, case, each, repetition):
    """A sample is taken again when others used the machine meanwhile; not for ever: then it stays as it is, and its spread says so."""
    if case.tls:
        lab.start("tls-origin")
    for again in range(TRIES):
        if each[1]:
            lab.start(each[1])
        others = Others(lab.pids(*lab.daemons))
        with on_one_processor(lab.pids("origin", each[1])) if case.alone else front(lab, case, each) if case.load == "h2" else contextlib.nullcontext():
            sample = measure(lab, case, each, repetition * TRIES + again)
        sample |= {"others": others.share(), "again": again}
        if sample["others"] <= QUIET:
            break
    return sample


def run_cases(lab, repetitions, wanted, say, keep, until=math.inf):
    """keep(case, {target: [sample]}, failed) is called for every case after each repetition; what fails is said and left out. Three are enough where it is late."""
    results, failed = {}, {}
    for repetition in range(repetitions):
        if repetition >= ENOUGH and time.monotonic() > until:
            say(f"  it is late: {repetition} repetitions, not {repetitions}")
            break
        for case in (c for c in CASES if not wanted or c.name in wanted):
            targets = list(case.targets)
            random.shuffle(targets)
            for each in targets:
                key = f"{case.name}/{each[0]}"
                if key in failed:
                    continue
                try:
                    sample = undisturbed(lab, case, each, repetition)
                except FAILURES as error:
                    failed[key] = str(error)
                    say(f"  {key}: {error}")
                    continue
                results.setdefault(case.name, {}).setdefault(each[0], []).append(sample)
        for name, found in results.items():
            keep(name, found, {k: v for k, v in failed.items() if k.partition("/")[0] == name})
        say(f"  repetition {repetition + 1} of {repetitions}")


def open_idle(lab, each):
    """KiB that each of many open, silent tunnels adds to the resident memory of the server's processes."""
    name, daemon, port, way = each
    count = min(IDLE_TUNNELS, (descriptors() - 500) // DESCRIPTORS_EACH.get(name, 2))
    server = lab.restart(daemon)
    before = resident_kib(server.pid)
    load = subprocess.Popen([lab.build / "bench/lab-load", "idle", "--through", way, "--proxy", f"127.0.0.1:{port}", "--origin", ORIGIN, "--connections", "64",
                             "--operations", str(count), "--ms", "10000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        seen = json.loads(load.stdout.readline())
        time.sleep(0.3)
        grown = resident_kib(server.pid) - before
    finally:
        load.stdin.close()
        load.wait(20)
    if seen["open"] < count:
        raise LabError(f"{seen['open']} of {count} opened: {seen['first_error']}")
    return {"kib": grown / count, "open": count}


def run_idle(lab, say):
    """{server: {"kib":, "open":}}; and what failed."""
    results, failed = {}, {}
    for each in IDLE:
        try:
            results[each[0]] = open_idle(lab, each)
            lab.restart(each[1])
        except FAILURES as error:
            failed[f"idle/{each[0]}"] = str(error)
            say(f"  idle/{each[0]}: {error}")
    return results, failed
