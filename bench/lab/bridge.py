# SPDX-License-Identifier: Apache-2.0
"""Tools and git of the host: what a bridged call costs over the same command inside, and what the git gate costs a fetch and a push.

Both are real git against nginx with git http-backend. TLS is opened in the rows that are compared, so that the difference is the gate's alone; a tunnel that
nobody opens stands beside them for the whole of it.
"""
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from .launch import environment, interleaved
from .machine import LabError, children_ms, installed, reap_orphans

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/integration"))
from kit.forge import Forge  # noqa: E402  the tests' own server: nginx, fcgiwrap, git http-backend

HOST, PORT, PATIENCE = "forge.lab.test", 18443, 600
INSIDE, BRIDGED = "git version, inside", "git version, bridged"
FETCHES = TUNNEL, OPENED, GATE = "fetch, tunnel", "fetch, TLS opened", "fetch, gate"
PACKS = PACK_TUNNEL, PACK_OPENED, PACK_GATE = "pack, tunnel", "pack, TLS opened", "pack, gate"
PUSHES = PUSH_TUNNEL, PUSH_OPENED, PUSH_GATE = "push, tunnel", "push, TLS opened", "push, gate"
CALLS = """
import json, random, subprocess, sys, time
found = {"git": [], "hostgit": []}
for _ in range(int(sys.argv[1])):
    for name in random.sample(list(found), 2):
        began = time.perf_counter()
        subprocess.run([name, "version"], check=True, stdout=subprocess.DEVNULL)
        found[name].append((time.perf_counter() - began) * 1e3)
print(json.dumps(found))
"""


class Started:
    """A server of the lab's; ends with it."""

    def __init__(self, argv, env=None):
        self.process = subprocess.Popen([str(word) for word in argv], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def running(self):
        return self.process.poll() is None


def run_calls(build, run, rounds, say):
    """{command: [{"ms":}]}: both inside one sandbox, in random order."""
    del say
    env = environment(run / "calls-place")
    (run / "calls").mkdir(parents=True, exist_ok=True)
    policy = run / "calls.yaml"
    policy.write_text(json.dumps({"bridge": {"hostgit": {"program": shutil.which("git"), "verbs": ["version"]}}}))
    argv = [installed(build), "run", "--quiet", "-w", run / "calls", "--no-workspace-policy", "--policy", policy, "--", "python3", "-c", CALLS, str(rounds)]
    done = subprocess.run(argv, env={**os.environ, **env}, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise LabError(f"bridged calls: {done.stderr[-300:]}")
    found = json.loads(done.stdout)
    return {INSIDE: [{"ms": ms} for ms in found["git"]], BRIDGED: [{"ms": ms} for ms in found["hostgit"]]}, {}


class Issuer:
    """What the tests' server wants of an authority."""

    def __init__(self, authority):
        self.authority = authority

    def issue(self, name):
        self.authority.leaf(name)
        return self.authority.bundle(name)


def fill(forge, place, name, megabytes):
    """A repository whose pack has this size: random bytes, which nothing makes smaller."""
    seed, bare = place / f"seed-{name}", forge.repositories / f"{name}.git"
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    git = ["git", "-c", "user.name=lab", "-c", "user.email=lab@lab.test", "-c", "core.compression=0", "-c", "core.bigFileThreshold=1m"]
    subprocess.run([*git, "init", "-q", "-b", "main", seed], **quiet)
    for number in range(max(1, megabytes // 64)):
        with open(seed / f"file{number}", "wb") as out:
            for _ in range(min(megabytes, 64)):
                out.write(os.urandom(1 << 20))
    subprocess.run([*git, "add", "."], cwd=seed, **quiet)
    subprocess.run([*git, "commit", "-qm", "lab"], cwd=seed, **quiet)
    bare.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([*git, "clone", "-q", "--bare", seed, bare], **quiet)
    subprocess.run([*git, "repack", "-adq"], cwd=bare, **quiet)
    shutil.rmtree(seed)


def make_empty(bare):
    """A repository to push to, in which nothing is."""
    shutil.rmtree(bare, ignore_errors=True)
    subprocess.run(["git", "init", "-q", "--bare", bare], check=True)
    subprocess.run(["git", "config", "http.receivepack", "true"], cwd=bare, check=True)


def commands(lab, place, hosts):
    where = f"{HOST}:{PORT}"
    network = {"allow": [where], "allow_private": [where]}
    policies = {"tunnel": {"network": network}, "opened": {"network": {**network, "rules": [{"host": where, "methods": ["GET", "POST"]}]}},
                "gate": {"network": {"allow_private": [where]}, "git": [{"repo": f"{where}/lab/*", "push": ["refs/heads/pushed"]}]}}
    for name, policy in policies.items():
        (place / f"{name}.yaml").write_text(json.dumps(policy))
    bailey = [installed(lab.build), "run", "--quiet", "-w", place / "work", "--no-workspace-policy", "--hosts", hosts, "--ca-bundle", lab.authority.file]

    def git(policy, words):
        trust = f"-c http.sslCAInfo={place / 'work/ca.crt'}" if policy == "tunnel" else ""
        return [*bailey, "--policy", place / f"{policy}.yaml", "--", "sh", "-c", f"git {trust} {words}"]

    def clone(policy, repository):
        return git(policy, f"clone -q --bare https://{where}/lab/{repository}.git got")

    def push(policy):
        return git(policy, f"--git-dir=pushed.git push -q https://{where}/lab/empty.git main:refs/heads/pushed")
    return {TUNNEL: clone("tunnel", "small"), OPENED: clone("opened", "small"), GATE: clone("gate", "small"),
            PACK_TUNNEL: clone("tunnel", "large"), PACK_OPENED: clone("opened", "large"), PACK_GATE: clone("gate", "large"),
            PUSH_TUNNEL: push("tunnel"), PUSH_OPENED: push("opened"), PUSH_GATE: push("gate")}


def one_transfer(work, empty):
    """Like one launch, with more patience: a large pack takes its time. What was cloned or pushed goes away from outside, where nobody protects it."""
    def launch(name, argv, env, log):
        del name
        shutil.rmtree(work / "got", ignore_errors=True)
        make_empty(empty)
        before, began = children_ms(), time.monotonic()
        with open(log, "wb") as out:
            status = subprocess.run([str(word) for word in argv], env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=PATIENCE, check=False).returncode
        wall = (time.monotonic() - began) * 1e3
        reap_orphans()
        return wall, children_ms() - before, status
    return launch


def run_git(lab, rounds, megabytes, say):
    """{command: [{"ms":, "cpu_ms":}]}, and what does not work here."""
    place = lab.run / "git"
    (place / "work").mkdir(parents=True)
    shutil.copy(lab.authority.file, place / "work/ca.crt")
    hosts = place / "hosts"
    hosts.write_text(f"127.0.0.1 {HOST}\n")
    servers = []

    def start(argv, env=None):
        servers.append(Started(argv, env))
        return servers[-1]
    try:
        forge = Forge(start, Issuer(lab.authority), place / "forge", HOST, PORT)
        fill(forge, place, "lab/small", 8)
        fill(forge, place, "lab/large", megabytes)
        fill(forge, place, "lab/pushed", max(1, megabytes // 8))
        shutil.move(forge.repositories / "lab/pushed.git", place / "work/pushed.git")
        env = environment(place / "place")
        transfer, results, failed = one_transfer(place / "work", forge.repositories / "lab/empty.git"), {}, {}
        for names, times in ((FETCHES, rounds), (PACKS + PUSHES, max(2, rounds // 5))):  # seconds each: their spread is small
            some = {name: lambda argv=argv: argv for name, argv in commands(lab, place, hosts).items() if name in names}
            found, wrong = interleaved(some, env, place / "git.log", times, transfer)
            results, failed = results | found, failed | wrong
    finally:
        for server in reversed(servers):
            server.process.terminate()
        time.sleep(0.2)
        for server in servers:
            server.process.kill()
            server.process.wait()
    failed = {f"git/{name}": why for name, why in failed.items()}
    for name, why in failed.items():
        say(f"  {name}: {why}")
    return results, failed
