#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The regression guard: what fixed scenarios cost in instructions, compared with what is stored.

    tests/guard/guard.py BUILD            compare; a tenth above the stored figure fails
    tests/guard/guard.py BUILD --store    store what is measured now, for this kind of machine

Instructions do not depend on what else the machine does, so that this works where times mean nothing. They depend on the architecture,
the compiler and the libraries: figures are kept for each kind, and an unknown kind is skipped (exit 77).

A launch is the kernel's work, and no simulator can run it: what a whole launch, from the first process to the last, asks of the kernel is
counted instead, in system calls and in page faults.
"""
import json
import os
import pathlib
import platform
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
STORE = HERE / "instructions.json"
TOLERANCE = {"plan": 0.25, "launch calls": 0.15, "launch faults": 0.25, "first request calls": 0.15}  # these look at the machine: its directories, its mounts, its kernel
UNITS = {"launch calls": "system calls", "launch faults": "page faults", "first request calls": "system calls"}  # of everything else: instructions
TOLERANCE_ELSE = 0.10
WARM, COUNTED = 100, 1000  # the difference of two runs is what the counted ones cost
PLANS, TRACED, LAUNCHES = 3, 3, 100
LIMIT = 60  # seconds for any single program
SKIP = 77


class GuardError(Exception):
    pass


def kind_of_machine(build):
    """aarch64, gcc 12, glibc 2.36, and how it was built."""
    options = {o["name"]: o["value"] for o in json.loads((build / "meson-info/intro-buildoptions.json").read_text())}
    compilers = json.loads((build / "meson-info/intro-compilers.json").read_text()) if (build / "meson-info/intro-compilers.json").exists() else None
    compiler = compilers["host"]["c"] if compilers else compiler_of(build)
    return (f"{platform.machine()}, {compiler['id']} {compiler['version'].split('.')[0]}, {' '.join(platform.libc_ver())}, "
            f"{options['buildtype']}{', static' if options.get('static') else ''}")


def compiler_of(build):
    """For a meson that does not tell: from the comment that every compiler leaves."""
    text = subprocess.run(["readelf", "-p", ".comment", build / "src/cli/bailey"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(GCC|clang)\D*([\d.]+)", text)
    return {"id": found.group(1).lower(), "version": found.group(2)}


def counted(output, command):
    """The command under the counting machine; its instructions end up in the file."""
    return ["valgrind", "--quiet", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={output}", f"--log-file={output}.log", *command]


def summary(output):
    for line in output.read_text().splitlines():
        if line.startswith("summary:"):
            return int(line.split()[1])
    raise GuardError(f"{output} has no summary")


def checks(build, scratch, n):
    output = scratch / f"checks.{n}"
    subprocess.run(counted(output, [build / "tests/guard/guard-checks", str(n)]), check=True, timeout=LIMIT, stdout=subprocess.DEVNULL)
    return summary(output)


class Lines:
    """What a program prints, line by line, read by a thread so that waiting for one has a limit."""

    def __init__(self, process):
        self.lines, self.condition, self.ended = [], threading.Condition(), False
        threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()

    def _read(self, stream):
        for line in stream:
            with self.condition:
                self.lines.append(line)
                self.condition.notify_all()
        with self.condition:
            self.ended = True
            self.condition.notify_all()

    def find(self, pattern):
        def look():
            return next((found for found in (re.match(pattern, line) for line in self.lines) if found), None)
        with self.condition:
            self.condition.wait_for(lambda: look() or self.ended, LIMIT)
            found = look()
        if not found:
            raise GuardError(f"the gateway did not say {pattern}: {self.lines[-3:]}")
        return found


def gateway(build, scratch, load, n, workers):
    """Instructions of a gateway for n operations of the load generator, one at a time. More workers than one must cost nothing while one is enough."""
    output, program = scratch / f"{load}.{n}", scratch / "gateway"
    words = [str(word) for word in counted(output, [build / "tests/guard/guard-gateway"])]
    program.write_text("#!/bin/sh\nexec " + " ".join(words) + "\n")
    program.chmod(0o755)
    origin = subprocess.Popen([build / "bench/lab-origin", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    driver = None
    try:
        place = f"127.0.0.1:{int(origin.stdout.readline())}"
        names = [f"allow=h{i}.example{i % 7}.org" for i in range(100)]
        driver = subprocess.Popen([build / "tests/tools/gateway-driver", program, "http", f"workers={workers}", f"private={place}", *names],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        lines = Lines(driver)
        port = lines.find(r"listen http (\d+)").group(1)
        way = "http" if load == "requests" else "connect"
        done = subprocess.run([build / "bench/lab-load", load, "--through", way, "--proxy", f"127.0.0.1:{port}", "--origin", place, "--size", "64",
                               "--operations", str(n), "--ms", str(LIMIT * 1000)], check=True, capture_output=True, text=True, timeout=LIMIT + 5)
        seen = json.loads(done.stdout)
        if seen["operations"] < n or seen["errors"]:
            raise GuardError(f"{load}: {seen}")
    finally:
        if driver:
            driver.stdin.close()
            driver.wait(LIMIT)
        origin.kill()
        origin.wait()
    return summary(output)


def launch_place(scratch):
    """An empty workspace, and an environment without anything of this machine's."""
    workspace, home = scratch / "workspace", scratch / "home"
    workspace.mkdir(exist_ok=True)
    home.mkdir(exist_ok=True)
    (home / "run").mkdir(mode=0o700, exist_ok=True)
    return workspace, {"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8", "XDG_RUNTIME_DIR": str(home / "run")}


def launch(build, scratch):
    """System calls and page faults of one launch of /bin/true, all processes together; {} where this machine makes no sandbox."""
    workspace, env = launch_place(scratch)
    command, trace = [build / "src/cli/bailey", "run", "-w", workspace, "--", "/bin/true"], scratch / "launch.trace"
    quiet = {"env": env, "cwd": workspace, "timeout": LIMIT, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if subprocess.run(command, **quiet).returncode or not shutil.which("strace"):
        print("launches are not counted: no sandbox here, or no strace")
        return {}
    calls, faults = [], []
    for _ in range(TRACED):
        calls.append(traced(command, trace, quiet))
    for _ in range(LAUNCHES):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
        subprocess.run(command, check=True, **quiet)
        faults.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before)
    return {"launch calls": int(statistics.median(calls)), "launch faults": int(statistics.median(faults)), **first_request(build, scratch, quiet)}


def traced(command, trace, quiet):
    """System calls of the command and of all that it starts."""
    subprocess.run(["strace", "-f", "-qq", "-o", trace, *command], check=True, **quiet)
    lines = (line.split(None, 1)[1] for line in trace.read_text(errors="replace").splitlines())
    return sum(1 for line in lines if not line.startswith(("<...", "+++", "---")))


def first_request(build, scratch, quiet):
    """System calls of a run with one plain request in it: the launch, the gateway's start, the request."""
    workspace, policy = scratch / "workspace", scratch / "request.yaml"
    client = workspace / "client"
    shutil.copy(build / "bench/lab-load", client)
    origin = subprocess.Popen([build / "bench/lab-origin", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    try:
        place = f"127.0.0.1:{int(origin.stdout.readline())}"
        policy.write_text(f'network:\n  allow_private: ["{place}"]\n')
        command = [build / "src/cli/bailey", "run", "--policy", policy, "-w", workspace, "--", client, "requests", "--through", "http", "--proxy", "127.0.0.1:3128",
                   "--origin", place, "--size", "64", "--operations", "1", "--ms", "20000"]
        done = subprocess.run(command, **{**quiet, "stdout": subprocess.PIPE})
        if done.returncode or json.loads(done.stdout)["operations"] != 1:
            raise GuardError(f"no request got through: exit {done.returncode}, {done.stdout}")
        return {"first request calls": int(statistics.median(traced(command, scratch / "request.trace", quiet) for _ in range(TRACED)))}
    finally:
        origin.kill()
        origin.wait()
        client.unlink()


def plan(build, scratch):
    """What the supervisor works out for a launch: policy, paths, the steps."""
    workspace, env = launch_place(scratch)
    output, figures = scratch / "plan", []
    for _ in range(PLANS):
        subprocess.run(counted(output, [build / "src/cli/bailey", "plan", "-w", workspace, "--", "/bin/true"]), env=env, cwd=workspace, check=True,
                       timeout=LIMIT, capture_output=True)
        figures.append(summary(output))
    return int(statistics.median(figures))


def measure(build, scratch):
    checks_each = (checks(build, scratch, WARM + COUNTED) - checks(build, scratch, WARM)) / COUNTED
    found = {"check": round(checks_each)}
    for name, load, workers in (("request", "requests", 1), ("tunnel", "tunnels", 1), ("tunnel, 4 workers", "tunnels", 4)):
        found[name] = round((gateway(build, scratch, load, WARM + COUNTED, workers) - gateway(build, scratch, load, WARM, workers)) / COUNTED)
    found["plan"] = plan(build, scratch)
    found.update(launch(build, scratch))
    return found


def compare(now, stored):
    worse = []
    for name, figure in now.items():
        before, unit = stored.get(name), UNITS.get(name, "instructions")
        if not before:
            print(f"{name}: {figure:,} {unit}, nothing stored")
            continue
        change, limit = figure / before - 1, TOLERANCE.get(name, TOLERANCE_ELSE)
        word = "too much" if change > limit else "less: store it with guard.py BUILD --store" if change < -limit else "as stored"
        print(f"{name}: {figure:,} {unit}, stored {before:,}, {change:+.1%}: {word}")
        if change > limit:
            worse.append(name)
    return worse


def main(arguments):
    os.environ.pop("MALLOC_PERTURB_", None)  # meson sets it: memory that is filled at every allocation counts as instructions
    build, store = pathlib.Path(arguments[0]).resolve(), "--store" in arguments
    if not shutil.which("valgrind"):
        print("valgrind is not installed")
        return SKIP
    kind = kind_of_machine(build)
    stored = json.loads(STORE.read_text()) if STORE.exists() else {}
    if kind not in stored and not store:
        print(f"no figures are stored for: {kind}")
        return SKIP
    with tempfile.TemporaryDirectory(prefix="bailey-guard.") as name:
        try:
            now = measure(build, pathlib.Path(name))
        except (GuardError, OSError, subprocess.SubprocessError) as error:
            print(f"guard: {error}")
            return 1
    if store:
        stored[kind] = now
        STORE.write_text(json.dumps(stored, indent=2, sort_keys=True) + "\n")
        print(f"{kind}: {now}")
        return 0
    worse = compare(now, stored[kind])
    if worse:
        print("Find out why, or store the new figures with a reason in the commit: tests/guard/guard.py BUILD --store")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
