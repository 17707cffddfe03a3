# SPDX-License-Identifier: Apache-2.0
"""How cost grows: with connections, with sandboxes at once. (With rules: bench/policy_lookup.c.)"""
import contextlib
import json
import os
import select
import statistics
import subprocess
import time

from .launch import AGENT, POLICY, children_ms, reap_orphans
from .machine import LabError, cpu_seconds, on_one_processor, own_seconds, resident_kib
from .peers import CONNECTIONS, ORIGIN, PORT

CONNECTION_STEPS = (1, 10, 100, 1000, 4000, CONNECTIONS - 500)
SANDBOX_STEPS = (1, 10, 50, 100, 200)
THROUGH = {"bailey": "bailey_http", "bailey, 2 workers": "bailey_two", "haproxy": "haproxy_http", "relay": "relay"}
RECORD = "bailey, the record alone"
PATIENCE = 120


def requests_at(lab, name, connections, ms):
    """Processor time of a request when so many connections have one on its way all the time."""
    server = lab.start(name)
    if not server:
        return None
    argv = [lab.build / "bench/lab-load", "requests", "--settle", "--through", "http", "--proxy", f"127.0.0.1:{PORT[THROUGH[name]]}", "--origin", ORIGIN,
            "--connections", str(connections), "--ms", str(ms)]
    load = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        first = load.stdout.readline()
        before, own_before = cpu_seconds(server.pid), own_seconds(server.pid)
        seen = json.loads(load.stdout.readline() if first == "ready\n" else first or "{}")
        used, own = cpu_seconds(server.pid) - before, own_seconds(server.pid) - own_before
    finally:
        load.wait(60)
    if first != "ready\n" or seen["operations"] == 0 or seen["errors"] > 10 + seen["operations"] / 1000:
        raise LabError(f"{connections} connections through {name}: {seen}")
    return {"cpu_us": used * 1e6 / seen["operations"], "own_us": own * 1e6 / seen["operations"], "rate": seen["operations"] / seen["seconds"]}


def run_connections(lab, repetitions, ms, say):
    """{server: {connections: {"cpu_us":, "rate":}}}, medians; and what failed."""
    lab.start("origin")
    samples, failed = {}, {}
    for _ in range(repetitions):
        for count in CONNECTION_STEPS:
            for name in THROUGH:
                if f"{count} connections/{name}" in failed:
                    continue
                try:
                    lab.start(name)
                    with on_one_processor([lab.daemons[n].pid for n in ("origin", name) if n in lab.daemons]) if count == 1 else contextlib.nullcontext():
                        sample = requests_at(lab, name, count, ms)
                except (LabError, ValueError, subprocess.TimeoutExpired) as error:
                    failed[f"{count} connections/{name}"] = str(error)
                    say(f"  {error}")
                    continue
                if sample:
                    samples.setdefault(name, {}).setdefault(count, []).append(sample)
                if sample and name == "bailey":  # its first process does nothing else
                    samples.setdefault(RECORD, {}).setdefault(count, []).append({"cpu_us": sample["own_us"], "rate": sample["rate"]})
    found = {name: {count: {key: statistics.median(s[key] for s in each) for key in each[0]} for count, each in counts.items()} for name, counts in samples.items()}
    return found, failed


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
                    raise LabError(f"{count} sandboxes: one did not start")
        except (LabError, BrokenPipeError, OSError) as error:
            self.stop()
            raise LabError(str(error)) from error
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


def run_sandboxes(build, run, steps, say):
    """{program: {count: {"ms_each":, "cpu_ms_each":, "mib_each":}}}; and what failed."""
    run.mkdir(parents=True, exist_ok=True)
    for folder in ("workspace", "home"):
        (run / folder).mkdir(exist_ok=True)
    (run / "policy.yaml").write_text(POLICY)
    env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(run / "home"), "LANG": "C.UTF-8"}
    programs = {"bailey run": [build / "src/cli/bailey", "run", "--quiet", "--policy", run / "policy.yaml", "-w", run / "workspace", "--", "/bin/cat"],
                "bwrap, agent profile": [*AGENT[:-1], "/bin/cat"]}
    found, failed = {}, {}
    reap_orphans()  # what the servers before left is none of theirs
    for count in (1, *steps):  # the first is not counted: it finds nothing in any cache
        for name, argv in programs.items():
            try:
                boxes = Boxes(argv, count, env, run / "workspace")
            except LabError as error:
                failed[f"{count} sandboxes/{name}"] = str(error)
                say(f"  {name}: {error}")
                continue
            try:
                memory = boxes.mib_each()
            finally:
                boxes.stop()
            found.setdefault(name, {})[count] = {"ms_each": boxes.ms / count, "cpu_ms_each": boxes.cpu_ms_each(), "mib_each": memory}
    return found, failed
