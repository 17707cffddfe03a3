# SPDX-License-Identifier: Apache-2.0
"""How cost grows: with connections, with sandboxes at once, with files, with records. (With rules: bench/policy_lookup.c.) And what one that rests holds."""
import contextlib
import json
import os
import select
import statistics
import subprocess
import time

from . import endtoend
from .launch import AGENT, POLICY, environment, interleaved, once, try_out
from .machine import FAILURES, LabError, children_ms, cpu_seconds, installed, on_one_processor, own_seconds, reap_orphans, resident_kib, slab_kib
from .peers import CONNECTIONS, ORIGIN, PORT, TOKEN

CONNECTION_STEPS = (1, 10, 100, 1000, 4000, CONNECTIONS)
FEW = 100
SANDBOX_STEPS = {1: 3, 10: 3, 100: 1, 300: 1, 1000: 1}  # and how often: the more there are, the more of them one figure is the median of
ONE_MORE, LAUNCHES = "one_more_ms", 40  # a launch while the others rest
BAILEY, GATEWAY_AND_VAULT = "bailey run", "bailey run, gateway and vault"
FILE_STEPS = (100, 1000, 10000, 100000)
RECORD_STEPS = (1000, 10000, 100000, 1000000)
READ = """import os, sys, time
top, times, files = sys.argv[1], int(sys.argv[2]), 0
began = time.perf_counter()
for _ in range(times):
    for place, _, names in os.walk(top):
        for name in names:
            with open(place + "/" + name, "rb", buffering=0) as file:
                file.read()
            files += 1
print((time.perf_counter() - began) * 1e6 / files)
"""
# name: the server whose processor time counts, its port, and the way through it
THROUGH = {"bailey": ("bailey", "bailey_http", "http"), "bailey, default workers": ("bailey, default workers", "bailey_default", "http"),
           "haproxy": ("haproxy", "haproxy_http", "http"), "relay": ("relay", "relay", "http"), "no proxy, the origin alone": ("origin", "origin", "direct")}
AT_REST = ", all but 100 at rest"  # as many are open, and few have requests
PATIENCE = 120
# Bailey looks after denied paths 100 ms after the start, and once more 200 ms later. One sandbox alone ends before that, and among 200 none does: it would
# look like a cost of being many. And only after half a second without work, at which it looks twice a second, a process gives back what it does not need at
# rest (base/processes/rest.h, net/loop.h).
LIFE = 1.6


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
        self.said, say = os.pipe()  # what they have to say, in case that one does not start
        for end in (self.said, say):  # nobody reads it meanwhile: a pipe that is full must hold up none of them
            os.set_blocking(end, False)
        try:
            for _ in range(count):
                self.all.append(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=say, env=env, cwd=where))
                self.all[-1].stdin.write(b".")
                self.all[-1].stdin.flush()
            for box in self.all:
                answer = select.poll()  # not select(): a thousand of them have descriptors beyond 1,023
                answer.register(box.stdout, select.POLLIN)
                if not answer.poll((PATIENCE + count / 2) * 1000) or box.stdout.read(1) != b".":  # they wait for each other, in any order
                    raise LabError("one did not start")
        except (LabError, OSError, ValueError) as error:  # none of them may stay: what is measured next would run beside them
            words = self.words()
            self.stop()
            raise LabError(f"{count} sandboxes: {error}: {words}") from error
        finally:
            os.close(say)
        self.ms = (time.perf_counter() - self.began) * 1e3

    def words(self):
        try:
            return os.read(self.said, 300).decode(errors="replace").strip()
        except BlockingIOError:
            return "it said nothing"

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
        os.close(self.said)


def one_more(argv, env, log):
    """A launch of the same while the others rest: its median, and how much of that half of the launches are apart."""
    times = [once([*argv[:-1], "/bin/true"], env, log)[0] for _ in range(LAUNCHES)]
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
    return {ONE_MORE: middle, "spread": (high - low) / middle}


def run_sandboxes(build, run, steps, say):
    """{program: {count: [{"ms_each":, "cpu_ms_each":, "mib_each":, ONE_MORE:, "spread":}]}}; and what failed."""
    env = environment(run)
    (run / "workspace").mkdir(exist_ok=True)
    (run / "policy.yaml").write_text(POLICY)
    programs = {BAILEY: [installed(build), "run", "--quiet", "--policy", run / "policy.yaml", "-w", run / "workspace", "--", "/bin/cat"],
                "bwrap, agent profile": [*AGENT, "/bin/cat"],
                "limit": [build / "bench/lab-box", "/bin/cat"]}
    found, failed = {}, {}
    reap_orphans()  # what the servers before left is none of theirs
    for count, repetition in [(min(steps), 0), *((count, n + 1) for count in steps for n in range(steps[count]))]:  # the first is not counted: its caches are empty
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
                before = children_ms()
                more = one_more(argv, env, run / "log")
                time.sleep(0.1)  # until the last of them has ended
                reap_orphans()
                boxes.before += children_ms() - before  # the one more is none of them
            finally:
                boxes.stop()
            if repetition:
                found.setdefault(name, {}).setdefault(count, []).append(
                    {"ms_each": boxes.ms / count, "cpu_ms_each": boxes.cpu_ms_each(), "mib_each": memory, **more})
    return found, failed


# --- one that rests ---

def rest_commands(lab):
    """({what: its command}, environment): each runs until its input ends. With gateway and vault: after one request."""
    run = lab.run
    lab.start("tls-origin")
    endtoend.make_place(lab)
    (run / "plain.yaml").write_text(POLICY)
    asked = [str(word) for word in endtoend.commands(lab)["bailey run, token swapped"]]
    asked[-1] = asked[-1].replace("exec curl", "curl") + " && exec cat"
    return {BAILEY: [installed(lab.build), "run", "--quiet", "--policy", run / "plain.yaml", "-w", run / "end", "--", "/bin/cat"], GATEWAY_AND_VAULT: asked,
            "bwrap, agent profile": [*AGENT, "/bin/cat"], "limit": [lab.build / "bench/lab-box", "/bin/cat"]}, environment(run / "end-place", LAB_TOKEN=TOKEN)


def run_memory(lab, repetitions, say):
    """{what: [{"mib":}]}, the memory of a sandbox alone in which nothing happens; and what failed."""
    programs, env = rest_commands(lab)
    found, failed = {}, {}
    for _ in range(repetitions):
        for name, argv in programs.items():
            try:
                boxes = Boxes(argv, 1, env, lab.run / "end")
                time.sleep(LIFE)
                found.setdefault(name, []).append({"mib": boxes.mib_each()})
                boxes.stop()
            except LabError as error:
                failed[f"memory/{name}"] = str(error)
                say(f"  {name}: {error}")
    return found, failed


# --- files ---

def make_files(place, count):
    for n in range(count):
        if n % 100 == 0:
            (place / f"d{n // 100}").mkdir(parents=True)
        (place / f"d{n // 100}/f{n}").write_text(f"{n}\n" * 20)


def read_us(argv, env):
    done = subprocess.run([str(word) for word in argv], env=env, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        raise LabError(done.stderr.strip()[-300:])
    return float(done.stdout)


def run_many_files(build, run, steps, repetitions, say):
    """{what: {files: [{"value":}]}}: a launch in ms where the workspace has so many, and what it takes to read one of them, in us; and what failed."""
    env, found, failed = environment(run / "place"), {}, {}
    for count in steps:
        place = run / f"files-{count}"
        place.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "lab", place], check=True)
        make_files(place, count)
        read = ["/usr/bin/python3", "-c", READ, place, str(max(1, 20000 // count))]
        bailey = [installed(build), "run", "--quiet", "-w", place, "--no-workspace-policy"]
        launches = {"bailey run": [*bailey, "--"], "bwrap": [*AGENT, "--bind", place, place]}
        readers = {"no sandbox": read, "bwrap": [*AGENT, "--bind", place, place, *read], "bailey run": [*bailey, "--", *read],
                   "a deny glob": [*bailey, "--deny-read", "**/.env", "--", *read]}
        commands = {name: lambda argv=argv: [*argv, "/bin/true"] for name, argv in launches.items()}
        failed |= try_out(commands, env, run / "log")
        results, later = interleaved(commands, env, run / "log", 8 * repetitions)
        failed |= later
        for name, rows in results.items():
            found.setdefault(f"a launch, {name}, ms", {})[count] = [{"value": row["ms"]} for row in rows]
        for _ in range(repetitions):
            for name, argv in readers.items():
                try:
                    found.setdefault(f"to read one, {name}, us", {}).setdefault(count, []).append({"value": read_us(argv, env)})
                except FAILURES as error:
                    failed[name] = str(error)
    return found, {f"{name}, files": why for name, why in failed.items()}


# --- records ---

def run_records(build, run, steps, repetitions, say):
    """{what: {records: [{"value":}]}}: to append one in ns of processor time, to verify or to show all of them in us for each; and what failed."""
    env, found, log = environment(run / "place"), {}, run / "log"
    place = run / "records"
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "lab", place], check=True)
    for count in steps:
        for _ in range(repetitions):
            file = place / f"{count}.jsonl"
            file.unlink(missing_ok=True)
            done = subprocess.run([build / "bench/audit_line", "--records", str(count), file], check=True, capture_output=True, text=True, timeout=PATIENCE)
            found.setdefault("to append one, ns", {}).setdefault(count, []).append({"value": json.loads(done.stdout)["append_ns"]})
            for words, argv in (("to verify, us each", ["verify", file]), ("to show those refused, us each", ["--denied", file])):
                wall, cpu, status = once([installed(build), "log", *argv], env, log)
                if status:
                    raise LabError(f"bailey log {argv[0]}: {log.read_text(errors='replace')[-300:]}")
                found.setdefault(words, {}).setdefault(count, []).append({"value": cpu * 1000 / count})
        file.unlink()
    return found, {}
