# SPDX-License-Identifier: Apache-2.0
"""Counter-experiments: what a missed target would cost if Bailey did nothing at all. Each is a command, so that anybody can repeat it.

protection: developers' work on files, with its calls answered at once by somebody who reads, judges and performs nothing (lab-floor). What that takes over
no sandbox is the kernel's: to hand a call over, to wake the one and then the other. No judge in another process can take less.

launch: /bin/true in `limit`, one static program with the same kinds of namespaces, with mounts and a filter, beside Bailey and bwrap: time, and what does not
depend on how busy the machine is: system calls, page faults, context switches. Then which calls Bailey makes more than the limit does, and what the kernel took
for them.

guards: /bin/true in a git repository, with nothing to protect (-m read-only: nothing can be written, so nothing is looked for, recorded, guarded or judged) and
with all of it (-m workspace-write). Both have no network. The difference is what protection adds to a launch, and the writable mount itself: an upper bound.

warm: what a launch from a sandbox that was prepared ahead takes at least, beside bwrap: a call of `bailey` that does nothing, because somebody has to call, and
the command without any sandbox. Whatever hands the command over to the prepared sandbox comes on top."""
import collections
import os
import resource
import statistics
import subprocess

from . import launch as launches
from .files import ALONE, BAILEY, FLOOR, FLOOR_OPENS, GLOB, JOBS, run_files

CHANGES, READS = ("checkout", "unpack", "kernel", "npm", "write"), ("grep", "ripgrep", "status")


def line(results, name, job):
    """Its medians, and what they are of those without a sandbox."""
    both = [(statistics.median(s[key] for s in results[name]), statistics.median(s[key] for s in results[ALONE])) for key in ("ms", "cpu_ms")]
    return f"  {name:40} {both[0][0]:8.0f} ms {both[0][0] / both[0][1]:6.2f} x {both[1][0]:8.0f} ms of CPU {both[1][0] / both[1][1]:6.2f} x"


def protection(build, run, rounds, say):
    for job in (*CHANGES, *READS):
        say(JOBS[job][0])
        wanted = (ALONE, FLOOR, BAILEY) if job in CHANGES else (ALONE, FLOOR_OPENS, GLOB)
        results, _ = run_files(build, run, job, rounds, say, wanted)
        for name in wanted:
            if name in results and ALONE in results:
                say(line(results, name, job))


LIMIT, SANDBOX, PEER = "limit", "bailey run", "bwrap, agent profile"
USED = {"faults": "ru_minflt", "switches": ("ru_nvcsw", "ru_nivcsw")}


def used(before, after):
    def of(usage, names):
        return sum(getattr(usage, name) for name in ([names] if isinstance(names, str) else names))
    return {word: of(after, names) - of(before, names) for word, names in USED.items()}


def calls(argv, env, log):
    """{call: (how often, us of the kernel's time)} of a whole launch, all processes together."""
    subprocess.run(["strace", "-f", "-qq", "-c", "-U", "name,calls,time-total", "-o", log, *argv], env=env, check=True, timeout=60, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found = collections.Counter(), collections.Counter()
    for line in log.read_text().splitlines():
        words = line.split()
        if len(words) == 3 and words[1].isdigit() and words[0] != "total":
            found[0][words[0]] += int(words[1])
            found[1][words[0]] += round(float(words[2]) * 1e6)
    return found


def launch(build, run, rounds, say):
    env = launches.environment(run)
    (run / "empty").mkdir(exist_ok=True)
    os.chdir(run / "empty")
    every, _ = launches.commands(build, run, run / "empty")
    wanted = {name: [str(word) for word in every[name]()] for name in ("bare", LIMIT, SANDBOX, PEER)}
    failed = launches.try_out({name: lambda argv=argv: argv for name, argv in wanted.items()}, env, run / "log")
    wanted = {name: argv for name, argv in wanted.items() if name not in failed}
    samples = collections.defaultdict(list)
    for _ in range(10 * rounds):  # one after the other in every round, so that what disturbs disturbs all
        for name, argv in wanted.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            wall, cpu, status = launches.once(argv, env, run / "log")
            if status == 0:
                samples[name].append({"ms": wall, "cpu_ms": cpu, **used(before, resource.getrusage(resource.RUSAGE_CHILDREN))})
    counted = {name: calls(argv, env, run / "calls") for name, argv in wanted.items()}
    say(f"/bin/true, medians of {10 * rounds} launches each\n{'':24}{'ms':>8}{'CPU ms':>8}{'calls':>8}{'faults':>8}{'switches':>9}")
    for name, rows in samples.items():
        middle = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        say(f"{name:24}{middle['ms']:8.2f}{middle['cpu_ms']:8.2f}{sum(counted[name][0].values()):8}{middle['faults']:8.0f}{middle['switches']:9.0f}")
    if LIMIT not in counted or SANDBOX not in counted:
        return
    for other in (LIMIT, PEER):
        if other in samples:
            pairs = [a["ms"] / b["ms"] for a, b in zip(samples[SANDBOX], samples[other])]
            say(f"{SANDBOX} over {other}, median of the pairs: {statistics.median(pairs):.2f} x")
    (ours, ours_us), (theirs, theirs_us) = counted[SANDBOX], counted[LIMIT]
    say(f"\nwhat {SANDBOX} asks of the kernel beyond {LIMIT} (system time as strace tells it, in one launch):\n{'call':24}{'more calls':>12}{'more us':>10}")
    for name, more in sorted(((name, n - theirs[name]) for name, n in ours.items()), key=lambda pair: theirs_us[pair[0]] - ours_us[pair[0]])[:20]:
        say(f"{name:24}{more:12}{ours_us[name] - theirs_us[name]:10}")


def guards(build, run, rounds, say):
    env = launches.environment(run)
    repository = run / "repository"
    subprocess.run(["git", "init", "-q", repository], env=env, check=True)
    os.chdir(repository)
    wanted = {mode: [str(build / "src/cli/bailey"), "run", "-q", "-m", mode, "--", "/bin/true"] for mode in ("read-only", "workspace-write")}
    samples = collections.defaultdict(list)
    for i in range(40 * rounds):
        for mode, argv in sorted(wanted.items(), reverse=i % 2):  # whatever comes first is not always the same
            wall, cpu, status = launches.once(argv, env, run / "log")
            if status != 0:
                raise RuntimeError(f"{mode}: {(run / 'log').read_text()}")
            samples[mode].append((wall, cpu))
    counted = {mode: sum(calls(argv, env, run / "calls")[0].values()) for mode, argv in wanted.items()}
    for mode, rows in samples.items():
        say(f"{mode:20}{statistics.median(row[0] for row in rows):8.2f} ms{statistics.median(row[1] for row in rows):8.2f} ms of CPU{counted[mode]:8} calls")
    pairs = list(zip(samples["workspace-write"], samples["read-only"]))
    more = [statistics.median(one[i] - other[i] for one, other in pairs) for i in (0, 1)]
    say(f"{'protection adds':20}{more[0]:8.2f} ms{more[1]:8.2f} ms of CPU{counted['workspace-write'] - counted['read-only']:8} calls (medians of {len(pairs)} pairs)")


def warm(build, run, rounds, say):
    env = launches.environment(run)
    (run / "empty").mkdir(exist_ok=True)
    os.chdir(run / "empty")
    every, _ = launches.commands(build, run, run / "empty")
    wanted = {"a call that does nothing": [str(build / "src/cli/bailey"), "version"], "the command alone": ["/bin/true"],
              **{name: [str(word) for word in every[name]()] for name in (PEER, SANDBOX)}}
    samples = collections.defaultdict(list)
    for _ in range(20 * rounds):
        for name, argv in wanted.items():
            wall, _, status = launches.once(argv, env, run / "log")
            if status != 0:
                raise RuntimeError(f"{name}: {(run / 'log').read_text()}")
            samples[name].append(wall)
    for name, times in samples.items():
        say(f"{name:28}{statistics.median(times):8.2f} ms")
    parts = zip(samples["a call that does nothing"], samples["the command alone"], samples[PEER])
    say(f"both together over {PEER}, median of {20 * rounds} rounds: {statistics.median((call + alone) / peer for call, alone, peer in parts):.2f} x")


EXPERIMENTS = {"protection": protection, "launch": launch, "guards": guards, "warm": warm}
