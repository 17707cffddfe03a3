# SPDX-License-Identifier: Apache-2.0
"""Gateway cases: the same load through Bailey, its peers and the bare relay, one after the other within each repetition."""
import json
import random
import subprocess
import time

from .machine import LabError, cpu_seconds, resident_kib
from .peers import ORIGIN, PORT, ZONE

IDLE_TUNNELS = 5000
BULK_BYTES = 10**13


class Case:
    """One row of load: targets are (name, daemon, port, way through it)."""

    def __init__(self, name, title, unit, load, targets, connections, size=1024, ms=700):
        self.name, self.title, self.unit, self.load, self.targets = name, title, unit, load, targets
        self.connections, self.size, self.ms = connections, size, ms


def target(name, port, way, daemon=None):
    return (name, daemon or name, PORT[port], way)


DIRECT = ("direct", None, PORT["origin"], "direct")
HTTP = [DIRECT, target("relay", "relay", "http"), target("bailey", "bailey_http", "http"), target("haproxy", "haproxy_http", "http"),
        target("squid", "squid", "http"), target("tinyproxy", "tinyproxy", "http")]
CONNECT = [DIRECT, target("relay", "relay", "connect"), target("bailey", "bailey_http", "connect"), target("haproxy, tcp", "haproxy_tcp", "direct", "haproxy"),
           target("squid", "squid", "connect"), target("tinyproxy", "tinyproxy", "connect")]
SOCKS = [target("relay", "relay", "socks"), target("bailey", "bailey_socks", "socks"), target("microsocks", "microsocks", "socks"),
         target("dante", "dante", "socks")]
BULK = [DIRECT, target("relay", "relay", "connect"), target("relay, splice", "relay_splice", "connect"), target("bailey", "bailey_http", "connect"),
        target("haproxy, splice", "haproxy_splice", "direct", "haproxy"), target("squid", "squid", "connect"), target("tinyproxy", "tinyproxy", "connect"),
        target("dante", "dante", "socks")]
DNS = [target("bailey", "bailey_dns", "direct"), target("unbound", "unbound", "direct"), target("dnsmasq", "dnsmasq", "direct")]

CASES = [
    Case("http", "Plain HTTP, 1 KiB answers, 32 kept-alive connections", "request", "requests", HTTP, 32),
    Case("connect", "New CONNECT tunnels: open, one small exchange, close; 16 at a time", "tunnel", "tunnels", CONNECT, 16, size=64),
    Case("socks", "New SOCKS5 tunnels: open, one small exchange, close; 16 at a time", "tunnel", "tunnels", SOCKS, 16, size=64),
    Case("bulk1", "Bulk through 1 tunnel", "MB", "bulk", BULK, 1, size=BULK_BYTES),
    Case("bulk16", "Bulk through 16 tunnels", "MB", "bulk", BULK, 16, size=BULK_BYTES),
    Case("dns", "DNS answers, 64 questions on their way", "answer", "dns", DNS, 64),
]
IDLE = [t for t in CONNECT + SOCKS[2:] if t[1]]


def load_argv(lab, case, port, way):
    argv = [lab.build / "bench/lab-load", case.load, "--proxy", f"127.0.0.1:{port}", "--connections", str(case.connections), "--ms", str(case.ms)]
    if case.load == "dns":
        return argv + ["--zone", ZONE]
    return argv + ["--through", way, "--origin", ORIGIN, "--size", str(case.size)]


def measure(lab, case, each):
    name, daemon, port, way = each
    server = lab.start(daemon) if daemon else None
    if daemon and not server:
        return None
    before = cpu_seconds(server.pid) if server else 0
    done = subprocess.run(load_argv(lab, case, port, way), capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        raise LabError(f"{case.name} through {name}: {done.stderr.strip()}")
    seen = json.loads(done.stdout)
    time.sleep(0.02)  # closing and writing the record is part of the work
    used = cpu_seconds(server.pid) - before if server else 0
    operations = seen["bytes"] / 1e6 if case.load == "bulk" else seen["operations"]
    if operations == 0 or seen["errors"] > 10 + operations / 1000:
        raise LabError(f"{case.name} through {name}: {seen['errors']} errors, the first: {seen['first_error']}")
    return {"rate": operations / seen["seconds"], "cpu_us": used * 1e6 / operations, "errors": seen["errors"], "p50_us": seen["p50_us"], "p99_us": seen["p99_us"]}


def run_cases(lab, repetitions, wanted, say):
    """{case: {target: [sample]}}; what fails is said and left out."""
    results, failed = {}, {}
    lab.start("origin")
    for repetition in range(repetitions):
        for case in (c for c in CASES if not wanted or c.name in wanted):
            targets = list(case.targets)
            random.shuffle(targets)
            for each in targets:
                key = f"{case.name}/{each[0]}"
                if key in failed:
                    continue
                try:
                    sample = measure(lab, case, each)
                except (LabError, subprocess.TimeoutExpired) as error:
                    failed[key] = str(error)
                    say(f"  {key}: {error}")
                    continue
                if sample:
                    results.setdefault(case.name, {}).setdefault(each[0], []).append(sample)
        say(f"  repetition {repetition + 1} of {repetitions}")
    return results, failed


def run_idle(lab, say):
    """KiB that each of many open, silent tunnels adds to the resident memory of the server's processes."""
    results = {}
    for name, daemon, port, way in IDLE:
        try:
            server = lab.restart(daemon)
        except LabError as error:
            say(f"  idle/{name}: {error}")
            continue
        if not server:
            continue
        before = resident_kib(server.pid)
        load = subprocess.Popen([lab.build / "bench/lab-load", "idle", "--through", way, "--proxy", f"127.0.0.1:{port}", "--origin", ORIGIN, "--connections", "64",
                                 "--operations", str(IDLE_TUNNELS), "--ms", "10000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            seen = json.loads(load.stdout.readline())
            time.sleep(0.3)
            grown = resident_kib(server.pid) - before
        finally:
            load.stdin.close()
            load.wait(20)
        if seen["open"] < IDLE_TUNNELS:
            say(f"  idle/{name}: {seen['open']} of {IDLE_TUNNELS} opened: {seen['first_error']}")
            continue
        results[name] = grown / IDLE_TUNNELS
        lab.restart(daemon)
    return results
