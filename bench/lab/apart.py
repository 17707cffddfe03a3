# SPDX-License-Identifier: Apache-2.0
"""Counter-experiments that take something apart: where the processor time of a server or the instructions of a function go.

interception, fresh, request, bulk, dns: a case of the gateway, with the server's processor time by part (kernel, TLS, its own code by area), beside a peer in the same run.
perf looks at what runs several thousand times a second; what it sees is a share, and the server's processor time makes microseconds of it.

classify: instructions of the judgement of a command, by function, counted by valgrind. They do not depend on what else the machine does.

workers: new tunnels through one and two workers, on one and on two processors."""
import collections
import contextlib
import os
import re
import shutil
import statistics
import subprocess
import time

from .gateway import CASES, CONNECT, H2_TARGET, front, load, measure
from .machine import LabError, cpu_seconds, on_one_processor, tree
from .peers import FRESH_HOSTS, Lab

LOOKS, LOAD_MS = 3000, 3000  # a second; for so long
# Areas by the beginning of a function's name; the first that fits. What is in libraries is known by the library.
AREAS = (("record", ("audit", "event_", "emit_", "sha256", "digest")), ("policy", ("policy_", "verdict", "snapshot", "host_", "judge", "rule", "match", "names_")),
         ("credentials", ("stand_in", "credential", "vault", "swap", "needle", "secret", "slot")), ("HTTP", ("http", "h1_", "h2_", "head", "header", "body", "nghttp2", "url", "request", "uri")),
         ("TLS", ("tls", "ssl", "SSL", "EVP", "aes", "gcm", "AES", "CRYPTO", "OPENSSL", "BIO", "ossl", "EC_", "BN_", "bn_", "ecp", "X509", "ASN1", "asn1")),
         ("loop", ("event_base", "evmap", "epoll", "loop", "relay", "flow", "pump", "stream", "conn", "tunnel", "buf", "evbuffer", "bufferevent")))


@contextlib.contextmanager
def gateway_lab(build, run, hosts=1):
    """With the programs as they were linked: what is installed has lost its names."""
    with contextlib.closing(Lab(build, run / "gateway", fresh_hosts=hosts, program=build / "src/cli/bailey")) as lab:
        lab.see_names()
        lab.start("origin")
        lab.start("tls-origin")
        yield lab


def area(symbol, library):
    if "kernel" in library or library.startswith("["):
        return "kernel"
    if re.search(r"lib(crypto|ssl)", library):
        return "TLS"
    name = os.path.basename(library)
    if name == "bailey":
        return "record, in its process"
    if name.startswith("lib") or name.startswith("ld-"):
        return name.split(".so")[0]
    return next((words for words, beginnings in AREAS if symbol.startswith(beginnings)), f"{name}, else")


def seen_by_perf(lab, case, each, turn):
    """({area: share}, us for each operation, the most frequent functions) of one load through one server."""
    server, log = lab.start(each[1]), lab.run / "perf.data"
    argv = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(LOOKS), "-o", log, "-p", ",".join(str(pid) for pid in tree(server.pid))]
    with front(lab, case, each) if case.load == "h2" else contextlib.nullcontext():
        load(lab, case, each, turn) if not case.hosts else None  # so that it is warm
        log.unlink(missing_ok=True)
        perf = subprocess.Popen([str(word) for word in argv], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not log.exists() and perf.poll() is None:
            time.sleep(0.01)
        time.sleep(0.2)
        before = cpu_seconds(server.pid)
        seen = load(lab, case, each, turn + 1)
        used = cpu_seconds(server.pid) - before
        perf.terminate()
        told = perf.communicate(timeout=30)[1]
    done = subprocess.run(["perf", "script", "-i", log, "-F", "ip,sym,dso"], capture_output=True, text=True)
    areas, functions = collections.Counter(), collections.Counter()
    for line in done.stdout.splitlines():
        found = re.match(r"\s*[0-9a-f]+ (.*) \((.*)\)$", line)
        if found:
            areas[area(*found.groups())] += 1
            functions[found.group(1).split("+")[0]] += 1
    if not areas:
        raise LabError(f"perf saw nothing: {told or done.stderr}")
    total, operations = sum(areas.values()), seen["bytes"] / 1e6 if case.load == "bulk" else seen["operations"]
    return {name: count / total for name, count in areas.items()}, used * 1e6 / operations, [(name, count / total) for name, count in functions.most_common(12)]


def apart(build, run, rounds, say, name, peers):
    if not shutil.which("perf"):
        raise LabError("perf is not installed (Debian: linux-perf)")
    case = next(case for case in CASES if case.name == name)
    case.ms = LOAD_MS
    with gateway_lab(build, run, FRESH_HOSTS if case.hosts else 1) as lab:
        say(case.title)
        for each in (each for each in case.targets if each[0] in peers):
            found = [seen_by_perf(lab, case, each, 2 * turn) for turn in range(max(rounds // 3, 1))]
            us = statistics.median(cost for _, cost, _ in found)
            shares = {words: statistics.median(shares.get(words, 0) for shares, _, _ in found) for words in {words for shares, _, _ in found for words in shares}}
            say(f"  {each[0]}: {us:.1f} us of processor time for each {case.unit}")
            for words, share in sorted(shares.items(), key=lambda pair: -pair[1]):
                if share >= 0.005:
                    say(f"    {words:28}{us * share:8.2f} us {share:6.1%}")
            say("    most often: " + ", ".join(f"{function} {share:.1%}" for function, share in found[-1][2]))


def interception(build, run, rounds, say):
    apart(build, run / "tls", rounds, say, "tls", ("bailey", "nginx bridge"))
    apart(build, run / "h2", rounds, say, "h2", ("bailey", H2_TARGET))


def fresh(build, run, rounds, say):
    apart(build, run, min(rounds, 6), say, "tls_fresh", ("bailey", "squid, bumping"))


def request(build, run, rounds, say):
    for case, peer in (("http", "haproxy"), ("connect", "relay"), ("socks", "relay")):
        apart(build, run / case, rounds, say, case, ("bailey", peer))


def bulk(build, run, rounds, say):
    apart(build, run, rounds, say, "bulk1", ("bailey", "relay, splice"))


def dns(build, run, rounds, say):
    apart(build, run, rounds, say, "dns", ("bailey", "unbound"))


def classify(build, run, rounds, say):
    if not shutil.which("valgrind"):
        raise LabError("valgrind is not installed")
    run.mkdir(parents=True, exist_ok=True)
    out = run / "callgrind.out"
    subprocess.run(["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={out}", build / "bench/bench_classify", "--once"], check=True, capture_output=True, timeout=300)
    done = subprocess.run(["callgrind_annotate", "--inclusive=no", "--threshold=100", out], check=True, capture_output=True, text=True)
    rows = collections.Counter()
    for count, function in re.findall(r"^ *([\d,]+) \(.*?\) +\S*?:(\S+)", done.stdout, re.MULTILINE):
        rows[re.split(r"'|\.lto_priv|\.constprop|\.isra|\.part", function)[0]] += int(count.replace(",", ""))
    total = sum(rows.values())
    say(f"a command of 200 bytes: {total / 400:,.0f} instructions for each of 400 judgements; in the function itself, of {len(rows)} functions:")
    for function, count in rows.most_common(20):
        say(f"  {function:40}{count / 400:10,.0f}{count / total:8.1%}")


def workers(build, run, rounds, say):
    case = next(case for case in CASES if case.name == "connect")
    daemons = {"1 worker": 1, "2 workers": 2}
    with gateway_lab(build, run) as lab:
        commands = lab.commands
        lab.commands = lambda: commands() | {name: (lab._bailey("policy.conf", lab.run / f"{count}.jsonl", count, "bailey_http"), "bailey_http") for name, count in daemons.items()}
        bailey = next(each for each in CONNECT if each[0] == "bailey")
        found = collections.defaultdict(list)
        for turn in range(rounds):
            for name in daemons:
                lab.restart(name)
                each = (bailey[0], name, *bailey[2:])
                measure(lab, case, each, turn)
                found[f"{name}, two processors"].append(measure(lab, case, each, turn)["cpu_us"])
                with on_one_processor(lab.pids("origin", name)):
                    found[f"{name}, one processor"].append(measure(lab, case, each, turn)["cpu_us"])
                lab.end(name)
    say(case.title)
    for name, costs in sorted(found.items()):
        say(f"  {name:28}{statistics.median(costs):8.1f} us of processor time for a tunnel")


EXPERIMENTS = {"interception": interception, "fresh": fresh, "request": request, "bulk": bulk, "dns": dns, "classify": classify, "workers": workers}
