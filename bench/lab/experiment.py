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
the command without any sandbox. Whatever hands the command over to the prepared sandbox comes on top.

parts: many short programs, and work that mostly reads, in the parts of a sandbox one by one: a filter alone, Landlock alone, namespaces and mounts, calls handed
over, and all of it.

connect: connections to a Unix socket, with connect() handed over and answered at once, unjudged.

profile: /bin/true without a profile, with one credential, with an agent's profile; and OpenSSL alone, which makes a key and a certificate as the vault does.

first-request: one https request, with its parts alone: the launch without it, the request through a gateway that runs already.

git: a fetch, a pack and a push through a tunnel, through TLS that is opened, and through the gate.

many: one launch among others at rest and without them, and the calls that take longer then.

memory: what each process of a sandbox at rest holds, and what of that is shared."""
import collections
import contextlib
import os
import re
import resource
import statistics
import subprocess
import time
from pathlib import Path

from . import apart, endtoend
from . import launch as launches
from .bridge import FETCHES, PACKS, PUSHES, run_git
from .files import ALONE, BAILEY, BWRAP, FLOOR, FLOOR_CONNECTS, FLOOR_OPENS, GLOB, JOBS, commands, prepared, run_files
from .growth import GATEWAY_AND_VAULT, LIFE, Boxes, rest_commands
from .machine import installed, tree
from .peers import PORT, SECURE_HOST, TOKEN, Lab

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


def rows_of(wanted, env, run, rounds, say, base=None):
    """Each in turn, and what it took: {name: median ms}. One that fails is said."""
    every = {name: lambda argv=argv: argv for name, argv in wanted.items()}
    failed = launches.try_out(every, env, run / "log")
    results, later = launches.interleaved(every, env, run / "log", rounds)
    for name, why in (failed | later).items():
        say(f"  {name}: {why}")
    medians = {name: [statistics.median(row[key] for row in results[name]) for key in ("ms", "cpu_ms")] for name in wanted if name in results}
    for name, (wall, cpu) in medians.items():
        over = f"{wall / medians[base][0]:8.2f} x" if base in medians else ""
        say(f"  {name:48}{wall:9.2f} ms{cpu:9.2f} ms of CPU{over}")
    return {name: wall for name, (wall, _) in medians.items()}


def parts(build, run, rounds, say):
    for job in ("processes", "python", "grep", "find", "status", "status_many"):
        place = prepared(run, job)
        env, every = launches.environment(run / "place"), commands(build, place, job)
        script, floor = every[ALONE], build / "bench/lab-floor"
        say(JOBS[job][0])
        rows_of({ALONE: script, "a filter alone": [floor, "filter", *script], "Landlock alone": [floor, "landlock", *script], "namespaces, mounts and a filter": [build / "bench/lab-box", "/bin/sh", *script[1:]],
                 BWRAP: every[BWRAP], FLOOR: every[FLOOR], BAILEY: every[BAILEY], FLOOR_OPENS: every[FLOOR_OPENS], GLOB: every[GLOB]}, env, run, max(rounds // 2, 1), say, ALONE)


def connect(build, run, rounds, say):
    say(JOBS["connect"][0])
    results, _ = run_files(build, run, "connect", rounds, say, (ALONE, FLOOR, FLOOR_CONNECTS, BAILEY))
    for name in results:
        say(line(results, name, "connect"))


CREDENTIAL = """credentials:
  - name: lab
    env: LAB_TOKEN
    source: env:LAB_TOKEN
    slot: bearer
    hosts: ["api.example.com:443"]
"""
CERTIFICATE = "openssl ecparam -name prime256v1 -genkey -noout -out {0}/key && openssl req -x509 -new -key {0}/key -subj /CN=lab -days 2 -out {0}/certificate"


def profile(build, run, rounds, say):
    env = launches.environment(run, LAB_TOKEN=TOKEN)
    (run / "empty").mkdir(exist_ok=True)
    os.chdir(run / "empty")
    every, _ = launches.commands(build, run, run / "empty")
    (run / "credential.yaml").write_text(launches.POLICY + CREDENTIAL)
    plain, agent = ([str(word) for word in every[name]()] for name in (SANDBOX, "bailey run, profile claude"))
    say("/bin/true")
    rows_of({"no profile": plain, "one credential, which needs a vault": [word.replace("policy.yaml", "credential.yaml") for word in plain], "profile claude": agent,
             "OpenSSL alone: `openssl version`": ["openssl", "version"], "OpenSSL alone: a key, then a certificate": ["sh", "-c", CERTIFICATE.format(run)]}, env, run, 10 * rounds, say, "no profile")
    for name, argv in (("no profile", plain), ("profile claude", agent)):
        say(f"  system calls, {name}: {sum(calls(argv, env, run / 'calls')[0].values())}")


def first_request(build, run, rounds, say):
    with contextlib.closing(Lab(build, run / "gateway", fresh_hosts=1)) as lab:
        lab.see_names()
        lab.start("tls-origin")
        endtoend.make_place(lab)
        lab.start("bailey, intercepting")
        env = launches.environment(lab.run / "end-place", LAB_TOKEN=TOKEN)
        every = endtoend.commands(lab)
        token = lab.token_for("bailey, intercepting")
        opened = ["curl", "-sS", "--fail", "-o", "/dev/null", "-x", f"http://127.0.0.1:{PORT['bailey_tls']}", "--cacert", lab.told("bailey, intercepting")["ca_bundle"], "-H", f"Authorization: Bearer {token}",
                  f"https://{SECURE_HOST}:{PORT['tls_origin']}/1024"]
        launched = {name: [*every[name][:every[name].index("--") + 1], "/bin/true"] for name in ("bailey run, tunnel", "bailey run, token swapped")}
        say("one https request")
        took = rows_of({"curl alone": every["curl alone"], "bwrap, the host's network": every["bwrap, the host's network"], "curl, token swapped by a gateway that runs already": opened,
                        "/bin/true, launched as for the tunnel": launched["bailey run, tunnel"], "/bin/true, launched as for the token": launched["bailey run, token swapped"],
                        "bailey run, tunnel": every["bailey run, tunnel"], "bailey run, token swapped": every["bailey run, token swapped"]}, env, lab.run, 4 * rounds, say, "curl alone")
        for name, launched in (("bailey run, tunnel", "/bin/true, launched as for the tunnel"), ("bailey run, token swapped", "/bin/true, launched as for the token")):
            if {name, launched, "curl alone"} <= set(took):
                more = took[name] - took["curl alone"]
                say(f"  {name}: {more:.1f} ms more than curl alone; the launch takes {took[launched]:.1f}, the rest is the gateway's start and its handshakes")


def git(build, run, rounds, say):
    with contextlib.closing(Lab(build, run / "gateway", fresh_hosts=1)) as lab:
        lab.see_names()
        results, _ = run_git(lab, 5 * rounds, 16 * rounds, say)
    for names in (FETCHES, PACKS, PUSHES):
        base = statistics.median(row["cpu_ms"] for row in results[names[1]])
        for name in names:
            wall, cpu = (statistics.median(row[key] for row in results[name]) for key in ("ms", "cpu_ms"))
            say(f"  {name:24}{wall:9.1f} ms{cpu:9.1f} ms of CPU{cpu / base:8.3f} x TLS opened alone ({len(results[name])} times)")


def many(build, run, rounds, say):
    env = launches.environment(run)
    (run / "empty").mkdir(exist_ok=True)
    os.chdir(run / "empty")
    every, _ = launches.commands(build, run, run / "empty")
    argv = [str(word) for word in every[SANDBOX]()]
    launches.once(argv, env, run / "log")
    found, counts = {}, (0, 200 if rounds > 2 else 20)
    for count in counts:
        boxes = Boxes([*argv[:-1], "/bin/cat"], count, env, run / "empty") if count else None
        try:
            time.sleep(LIFE)
            times = [launches.once(argv, env, run / "log") for _ in range(10 * rounds)]
            counted = [calls(argv, env, run / "calls") for _ in range(5)]
        finally:
            if boxes:
                boxes.stop()
        names = {name for numbers, _ in counted for name in numbers}
        found[count] = {name: [statistics.median(each[i][name] for each in counted) for i in (0, 1)] for name in names}
        say(f"among {count} at rest: {statistics.median(t[0] for t in times):.2f} ms, {statistics.median(t[1] for t in times):.2f} ms of CPU, "
            f"{sum(number for number, _ in found[count].values()):.0f} system calls")
    few, lots = (found[count] for count in counts)
    say(f"what a launch asks more of the kernel among {counts[1]} (system time as strace tells it):\n{'call':24}{'more calls':>12}{'more us':>10}")
    more = {name: [lots[name][i] - few.get(name, [0, 0])[i] for i in (0, 1)] for name in lots}
    for name, (number, us) in sorted(more.items(), key=lambda pair: -pair[1][1])[:12]:
        say(f"{name:24}{number:12.0f}{us:10.0f}")


def held(pid):
    """(PSS, of that private) in KiB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    of = {key: int(value) for key, value in re.findall(r"^(\w+): +(\d+) kB", text, re.MULTILINE)}
    return of["Pss"], of["Private_Clean"] + of["Private_Dirty"], of["Private_Dirty"]


def memory(build, run, rounds, say):
    with contextlib.closing(Lab(build, run / "gateway", fresh_hosts=1)) as lab:
        lab.see_names()
        every, env = rest_commands(lab)
        for name, count in ((SANDBOX, 1), (SANDBOX, 20), (GATEWAY_AND_VAULT, 1), (GATEWAY_AND_VAULT, 20)):
            boxes = Boxes(every[name], count, env, lab.run / "end")
            try:
                time.sleep(LIFE)
                say(f"{name}, {count} at once: {boxes.mib_each():.2f} MiB each. One of them:\n{'process':32}{'PSS KiB':>10}{'private':>10}{'written':>10}")
                for pid in tree(boxes.all[0].pid):
                    with contextlib.suppress(OSError, KeyError):
                        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
                        say(f"{os.path.basename(words[0]) + ' ' + ' '.join(words[1:2]):32.32}{''.join(f'{kib:10,}' for kib in held(pid))}")
            finally:
                boxes.stop()


EXPERIMENTS = {"protection": protection, "launch": launch, "guards": guards, "warm": warm, "parts": parts, "connect": connect, "profile": profile, "first-request": first_request, "git": git,
               "many": many, "memory": memory, **apart.EXPERIMENTS}
