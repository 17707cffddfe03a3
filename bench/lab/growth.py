# SPDX-License-Identifier: Apache-2.0
"""How cost grows: with connections, with sandboxes at once. (With rules: bench/policy_lookup.c.)"""
import contextlib
import json
import select
import subprocess
import time

from .launch import AGENT, POLICY, environment
from .machine import FAILURES, LabError, children_ms, cpu_seconds, installed, on_one_processor, own_seconds, reap_orphans, resident_kib, slab_kib
from .peers import CONNECTIONS, ORIGIN, PORT

CONNECTION_STEPS = (1, 10, 100, 1000, 4000, CONNECTIONS)
FEW = 100
SANDBOX_STEPS = (1, 10, 50, 100, 200)
# name: the server whose processor time counts, its port, and the way through it
THROUGH = {"bailey": ("bailey", "bailey_http", "http"), "bailey, default workers": ("bailey, default workers", "bailey_default", "http"),
           "haproxy": ("haproxy", "haproxy_http", "http"), "relay": ("relay", "relay", "http"), "no proxy, the origin alone": ("origin", "origin", "direct")}
AT_REST = ", all but 100 at rest"  # as many are open, and few have requests
PATIENCE = 120
# Bailey looks after denied paths 100 ms after the start, and once more 200 ms later. One sandbox alone ends before that, and among 200 none does: it would
# look like a cost of being many.
LIFE = 0.4


def requests_at(lab, name, connections, active, ms):
    """Processor time of a request when so many connections are open, and `active` of them have one on its way all the time."""
    daemon, port, way = THROUGH[name]
    server, slab = lab.start(daemon), slab_kib()
    argv = [lab.build / "bench/lab-load", "requests", "--settle", "--through", way, "--proxy", f"127.0.0.1:{PORT[port]}", "--origin", ORIGIN,
            "--connections", str(connections), "--ms", str(ms)]
    if active < connections:
        argv += ["--active", str(active)]
    load = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        first = load.stdout.readline()
        kernel = (slab_kib() - slab) / connections
        before, own_before = cpu_seconds(server.pid), own_seconds(server.pid)
        seen = json.loads(load.stdout.readline() if first == "ready\n" else first or "{}")
        used, own = cpu_seconds(server.pid) - before, own_seconds(server.pid) - own_before
    finally:
        load.wait(60)
    if first != "ready\n" or seen["operations"] == 0 or seen["errors"] > 10 + seen["operations"] / 1000:
        raise LabError(f"{connections} connections through {name}: {seen}")
    return {"cpu_us": used * 1e6 / seen["operations"], "own_us": own * 1e6 / seen["operations"], "rate": seen["operations"] / seen["seconds"],
            "kernel_kib": kernel}


def run_connections(lab, repetitions, ms, say):
    """{server: {connections: [{"cpu_us":, "own_us":, "rate":, "kernel_kib":}]}}; and what failed. own_us: of its first process, which in Bailey's case
    does nothing but to write the record."""
    lab.start("origin")
    samples, failed = {}, {}
    rows = [(name, name, count, count) for count in CONNECTION_STEPS for name in THROUGH]
    rows += [(name + AT_REST, name, CONNECTIONS, FEW) for name in THROUGH]
    for _ in range(repetitions):
        for row, name, count, active in rows:
            key = f"{count} connections/{row}"
            if key in failed:
                continue
            try:
                lab.start(THROUGH[name][0])
                alone = on_one_processor(lab.pids("origin", THROUGH[name][0])) if count == 1 else contextlib.nullcontext()
                with alone:
                    sample = requests_at(lab, name, count, active, ms)
            except FAILURES as error:
                failed[key] = str(error)
                say(f"  {error}")
                continue
            finally:
                if count > 1000:  # it may keep its connections to the origin, which has not enough descriptors for those of several
                    lab.end(THROUGH[name][0], "origin")
                    lab.start("origin")
            samples.setdefault(row, {}).setdefault(count, []).append(sample)
    return samples, failed


class Boxes:
    """Sandboxes that all run at once: in each a cat, which answers when it is there and ends when its input does."""

    def __init__(self, argv, count, env, where):
        self.began, self.before, self.all = time.perf_counter(), children_ms(), []
        try:
            for _ in range(count):
                self.all.append(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, cwd=where))
                self.all[-1].stdin.write(b".")
                self.all[-1].stdin.flush()
            for box in self.all:
                ready, _, _ = select.select([box.stdout], [], [], PATIENCE)
                if not ready or box.stdout.read(1) != b".":
                    raise LabError("one did not start")
        except (LabError, OSError) as error:
            self.stop()
            raise LabError(f"{count} sandboxes: {error}") from error
        self.ms = (time.perf_counter() - self.began) * 1e3

    def mib_each(self):
        return sum(resident_kib(b.pid) for b in self.all) / 1024 / len(self.all)

    def cpu_ms_each(self):
        """From start to end, once all have ended."""
        reap_orphans()
        return (children_ms() - self.before) / len(self.all)

    def stop(self):
        for box in self.all:
            try:
                box.stdin.close()
            except BrokenPipeError:
                pass
        for box in self.all:
            try:
                box.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                box.kill()
                box.wait()
            box.stdout.close()


def run_sandboxes(build, run, steps, repetitions, say):
    """{program: {count: [{"ms_each":, "cpu_ms_each":, "mib_each":}]}}; and what failed."""
    env = environment(run)
    (run / "workspace").mkdir(exist_ok=True)
    (run / "policy.yaml").write_text(POLICY)
    programs = {"bailey run": [installed(build), "run", "--quiet", "--policy", run / "policy.yaml", "-w", run / "workspace", "--", "/bin/cat"],
                "bwrap, agent profile": [*AGENT, "/bin/cat"],
                "limit": [build / "bench/lab-box", "/bin/cat"]}
    found, failed = {}, {}
    reap_orphans()  # what the servers before left is none of theirs
    for repetition in range(repetitions + 1):  # the first is not counted: it finds nothing in any cache
        for count in steps if repetition else steps[:1]:
            for name, argv in programs.items():
                key = f"{count} sandboxes/{name}"
                if key in failed:
                    continue
                try:
                    boxes = Boxes(argv, count, env, run / "workspace")
                except LabError as error:
                    failed[key] = str(error)
                    say(f"  {name}: {error}")
                    continue
                try:
                    time.sleep(LIFE)
                    memory = boxes.mib_each()
                finally:
                    boxes.stop()
                if repetition:
                    found.setdefault(name, {}).setdefault(count, []).append(
                        {"ms_each": boxes.ms / count, "cpu_ms_each": boxes.cpu_ms_each(), "mib_each": memory})
    return found, failed
