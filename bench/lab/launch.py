# SPDX-License-Identifier: Apache-2.0
"""Launch: /bin/true in a sandbox, wall time and processor time of everything that was waited for, commands in random order within each round."""
import contextlib
import itertools
import json
import os
import random
import select
import shutil
import signal
import subprocess
import time

from .machine import FAILURES, LIBC, children_ms, installed, reap_orphans
from .peers import npm_place

FILES = 300000
SLOW_MS, SLOW_ROUNDS = 100, 15  # what takes that long is known after that many
LONG_MS = 300  # and what takes that long is warm after one try
PATIENCE_MS = 60000
AGENT = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--unshare-all", "--new-session", "--die-with-parent"]
# What srt puts into a sandbox: two programs that take connections inside to sockets outside. Nobody waits until they listen.
TWO_SOCAT = ("socat TCP-LISTEN:3128,fork,reuseaddr UNIX-CONNECT:{0}/http.sock >/dev/null 2>&1 & socat TCP-LISTEN:1080,fork,reuseaddr UNIX-CONNECT:{0}/socks.sock "
             ">/dev/null 2>&1 & trap 'kill %1 %2 2>/dev/null' EXIT; /bin/true")
# A workspace can be written. `write: ["."]`, which stood here, means the directory of this file, which is the lab's own with the home in it: all that a
# home has to protect was then protected twice, and looked at in each launch.
POLICY = """network:
  allow: ["@github", "@npm", "api.example.com:443", "*.example.org"]
  deny: ["gist.github.com"]
filesystem:
  deny_read: ["~/.ssh"]
"""

SRT_SETTINGS = {"network": {"allowedDomains": ["example.com"], "deniedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}


def bundle_for(program, run):
    """A root of its own, as containers have; the program in it is static."""
    bundle = run / f"bundle-{program}"
    (bundle / "rootfs/bin").mkdir(parents=True, exist_ok=True)
    source = run / "true.c"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-O2", "-static", "-o", bundle / "rootfs/bin/true", source], check=True)
    subprocess.run([program, "spec"], cwd=bundle, check=True, capture_output=True)
    config = json.loads((bundle / "config.json").read_text())
    config["process"].update(terminal=False, args=["/bin/true"])
    config["mounts"] = [m for m in config["mounts"] if m["type"] != "cgroup"]
    config["linux"].pop("resources", None)
    config["linux"]["namespaces"] = [n for n in config["linux"]["namespaces"] if n["type"] != "cgroup"]
    (bundle / "config.json").write_text(json.dumps(config))
    return bundle


class OneHierarchy:
    """crun takes no machine that has control groups of both kinds. The lab has mounts of its own: while crun runs, it sees those of version 2 alone."""
    PLACE = "/sys/fs/cgroup"

    def __init__(self):
        self.wanted = os.path.isdir(f"{self.PLACE}/unified")

    def __enter__(self):
        if self.wanted:
            LIBC.mount(b"none", self.PLACE.encode(), b"cgroup2", 0, None)

    def __exit__(self, *_):
        if self.wanted:
            LIBC.umount2(self.PLACE.encode(), 0)


def environment(run, **more):
    """A home and, as every session has it, a place for sockets that is not on a disk."""
    home, session = run / "home", run / "session"
    for place in (home, session):
        place.mkdir(parents=True, exist_ok=True)
    session.chmod(0o700)
    if not os.path.ismount(session):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700", "lab", session], check=True)
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", "XDG_STATE_HOME": str(home / "state"),
            "XDG_RUNTIME_DIR": str(session), **more}


def commands(build, run, large):
    """Each a function that gives the command's words; and those that cannot be made here."""
    (run / "policy.yaml").write_text(POLICY)
    bailey = [installed(build), "run", "--policy", run / "policy.yaml"]
    found = {
        "bare": lambda: ["/bin/true"],
        "unshare, all namespaces": lambda: ["unshare", "-Urmuinpf", "--mount-proc", "-C", "/bin/true"],
        "limit": lambda: [build / "bench/lab-box", "/bin/true"],
        "bwrap, agent profile": lambda: [*AGENT, "/bin/true"],
        "bwrap and 2 socat": lambda: [*AGENT, "--bind", run / "empty", run / "empty", "bash", "-c", TWO_SOCAT.format(run / "empty")],
        "bailey run": lambda: bailey + ["-w", run / "empty", "--", "/bin/true"],
        "bailey run, profile claude": lambda: bailey + ["-w", run / "empty", "--profile", "claude", "--", "/bin/true"],
        "bailey run, 300,000 files": lambda: bailey + ["-w", large, "--", "/bin/true"],
        "firejail, agent-like": lambda: ["firejail", "--quiet", "--noprofile", "--net=none", "--private-tmp", "--private-dev", "--caps.drop=all",
                                         "--seccomp", "--nonewprivs", "--read-only=/", "/bin/true"],
    }
    failed, count = {}, itertools.count()
    for program, options in (("crun", ["--cgroup-manager=disabled"]), ("runc", [])):
        try:
            bundle = bundle_for(program, run)
            found[program] = lambda p=program, o=options, b=bundle: [p, "--root", run / p, *o, "run", "-b", b, f"{run.parent.name}-{next(count)}"]
        except FAILURES as error:
            failed[program] = str(error)
    npm = from_npm(build, run)
    return found | npm, failed | {name: "not installed" for name in ("srt", "codex, native") if name not in npm}


def from_npm(build, run):
    found, place = {}, npm_place(build)
    (run / "srt.json").write_text(json.dumps(SRT_SETTINGS))
    if (place / ".bin/srt").exists():
        found["srt"] = lambda: [place / ".bin/srt", "--settings", run / "srt.json", "true"]
    native = next(place.glob("@openai/codex-linux-*/vendor/*/bin/codex"), None)
    if native:
        found["codex, native"] = lambda: [native, "sandbox", "--", "/bin/true"]
    return found


def large_workspace(build):
    """Made once, and kept: a file system that has just lost 300,000 files is slow to make new ones, which would be measured."""
    large = build / "workspace-300000"
    if not (large / "whole").exists():
        shutil.rmtree(large, ignore_errors=True)
        for i in range(FILES // 1000):
            folder = large / f"module{i}"
            folder.mkdir(parents=True)
            for k in range(1000):
                os.close(os.open(folder / f"file{k}.c", os.O_CREAT | os.O_WRONLY, 0o644))
        (large / "whole").touch()
    return large


def once(argv, env, log):
    argv = [str(word) for word in argv]
    files = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
             (os.POSIX_SPAWN_OPEN, 2, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)]
    before, start = children_ms(), time.perf_counter()
    pid = os.posix_spawnp(argv[0], argv, env, file_actions=files)
    pidfd = os.pidfd_open(pid)
    try:
        ended = select.poll()
        ended.register(pidfd, select.POLLIN)
        if not ended.poll(PATIENCE_MS):
            os.kill(pid, signal.SIGKILL)
    finally:
        os.close(pidfd)
    _, status = os.waitpid(pid, 0)
    wall = time.perf_counter() - start
    reap_orphans()
    return wall * 1e3, children_ms() - before, os.waitstatus_to_exitcode(status)


def one_launch(name, argv, env, log):
    with OneHierarchy() if name == "crun" else contextlib.nullcontext():
        return once(argv, env, log)


def try_out(all_commands, env, log, launch=one_launch):
    """Each twice, so that it is warm; once where that takes long. Those that do not work are taken out: {command: why}."""
    failed = {}
    for name, argv in list(all_commands.items()):
        try:
            wall, _, status = launch(name, argv(), env, log)
            if status == 0 and wall < LONG_MS:
                status = launch(name, argv(), env, log)[2]
            why = f"exit {status}: {log.read_text(errors='replace').strip()[-300:]}" if status else None
        except FAILURES as error:
            why = str(error)
        if why:
            failed[name] = why
            del all_commands[name]
    return failed


def interleaved(all_commands, env, log, rounds, launch=one_launch):
    """({command: [{"ms":, "cpu_ms":}]}, {command: why}): every command in every round, in random order. One that fails now counts no more."""
    results, failed = {}, {}
    for _ in range(rounds):
        for name in random.sample(list(all_commands), len(all_commands)):
            if len(results.get(name, ())) >= SLOW_ROUNDS and results[name][0]["ms"] > SLOW_MS:
                continue
            wall, cpu, status = launch(name, all_commands[name](), env, log)
            if status == 0:
                results.setdefault(name, []).append({"ms": wall, "cpu_ms": cpu})
            else:
                failed[f"{name}, once"] = f"exit {status}: {log.read_text(errors='replace').strip()[-300:]}"
    return results, failed


def run_launch(build, run, rounds, say):
    """{command: [{"ms":, "cpu_ms":}]}, and what does not work here."""
    env = environment(run, CODEX_HOME=str(run / "home/codex"))
    for place in (run / "empty", run / "home/codex"):
        place.mkdir(exist_ok=True)
    all_commands, failed = commands(build, run, large_workspace(build))
    where = os.getcwd()
    os.chdir(run / "empty")
    try:
        failed |= try_out(all_commands, env, run / "launch.log")
        results, later = interleaved(all_commands, env, run / "launch.log", rounds)
    finally:
        os.chdir(where)
    failed = {f"launch/{name}": why for name, why in (failed | later).items()}
    for name, why in failed.items():
        say(f"  {name}: {why}")
    return results, failed
