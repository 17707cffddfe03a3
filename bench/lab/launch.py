# SPDX-License-Identifier: Apache-2.0
"""Launch: /bin/true in a sandbox, wall time and processor time of everything that was waited for, commands in random order within each round."""
import contextlib
import ctypes
import json
import os
import random
import resource
import shutil
import subprocess
import time

from .peers import npm_place

FILES = 300000
PR_SET_CHILD_SUBREAPER = 36
LIBC = ctypes.CDLL(None)
SLOW_MS, SLOW_ROUNDS = 100, 15  # what takes that long is known after that many
AGENT = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--unshare-all", "--new-session", "--die-with-parent", "/bin/true"]
POLICY = """network:
  allow: ["@github", "@npm", "api.example.com:443", "*.example.org"]
  deny: ["gist.github.com"]
filesystem:
  write: ["."]
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


def commands(build, run):
    """Each a function that gives the command's words."""
    (run / "policy.yaml").write_text(POLICY)
    bailey = [build / "src/cli/bailey", "run", "--policy", run / "policy.yaml"]
    found = {
        "bare": lambda: ["/bin/true"],
        "unshare, all namespaces": lambda: ["unshare", "-Urmuinpf", "--mount-proc", "-C", "/bin/true"],
        "limit": lambda: [build / "bench/lab-box", "/bin/true"],
        "bwrap, agent profile": lambda: AGENT,
        "bailey run": lambda: bailey + ["-w", run / "empty", "--", "/bin/true"],
        "bailey run, 300,000 files": lambda: bailey + ["-w", run / "large", "--", "/bin/true"],
    }
    if shutil.which("firejail"):
        found["firejail, agent-like"] = lambda: ["firejail", "--quiet", "--noprofile", "--net=none", "--private-tmp", "--private-dev", "--caps.drop=all",
                                                 "--seccomp", "--nonewprivs", "--read-only=/", "/bin/true"]
    count = iter(range(10**9))
    for program, options in (("crun", ["--cgroup-manager=disabled"]), ("runc", [])):
        if shutil.which(program):
            bundle = bundle_for(program, run)
            found[program] = lambda p=program, o=options, b=bundle: [p, "--root", run / p, *o, "run", "-b", b, f"lab{os.getpid()}-{next(count)}"]
    found.update(from_npm(build, run))
    return found


def from_npm(build, run):
    found, place = {}, npm_place(build)
    (run / "srt.json").write_text(json.dumps(SRT_SETTINGS))
    if (place / ".bin/srt").exists():
        found["srt"] = lambda: [place / ".bin/srt", "--settings", run / "srt.json", "true"]
    native = next(place.glob("@openai/codex-linux-*/vendor/*/bin/codex"), None)
    if native:
        found["codex, native"] = lambda: [native, "sandbox", "--", "/bin/true"]
    return found


def make_workspaces(run):
    (run / "empty").mkdir(exist_ok=True)
    large = run / "large"
    if large.exists():
        return
    for i in range(FILES // 1000):
        folder = large / f"module{i}"
        folder.mkdir(parents=True)
        for k in range(1000):
            os.close(os.open(folder / f"file{k}.c", os.O_CREAT | os.O_WRONLY, 0o644))


def adopt_orphans():
    """Some programs leave without waiting for what they started: it becomes a child of the lab, so that its processor time counts too."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_orphans():
    time.sleep(0.002)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def children_ms():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1e3


def once(argv, env, log):
    argv = [str(word) for word in argv]
    files = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
             (os.POSIX_SPAWN_OPEN, 2, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)]
    before, start = children_ms(), time.perf_counter()
    pid = os.posix_spawnp(argv[0], argv, env, file_actions=files)
    _, status = os.waitpid(pid, 0)
    wall = time.perf_counter() - start
    reap_orphans()
    return wall * 1e3, children_ms() - before, os.waitstatus_to_exitcode(status)


def one_launch(name, argv, env, log):
    with OneHierarchy() if name == "crun" else contextlib.nullcontext():
        return once(argv, env, log)


def run_launch(build, run, rounds, say):
    """{command: [{"ms":, "cpu_ms":}]}, and what does not work here."""
    run.mkdir(parents=True, exist_ok=True)
    make_workspaces(run)
    home = run / "home"
    home.mkdir(exist_ok=True)
    env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", "XDG_STATE_HOME": str(home / "state"),
           "CODEX_HOME": str(home / "codex")}
    (home / "codex").mkdir(exist_ok=True)
    all_commands, results, failed = commands(build, run), {}, {}
    where = os.getcwd()
    os.chdir(run / "empty")
    try:
        for name, argv in list(all_commands.items()):
            for _ in range(2):  # warm, and does it work at all?
                status = one_launch(name, argv(), env, run / "launch.log")[2]
            if status != 0:
                failed[name] = f"exit {status}: {(run / 'launch.log').read_text(errors='replace').strip()[-200:]}"
                say(f"  {name}: {failed[name]}")
                del all_commands[name]
        for _ in range(rounds):
            names = list(all_commands)
            random.shuffle(names)
            for name in names:
                if len(results.get(name, ())) >= SLOW_ROUNDS and results[name][0]["ms"] > SLOW_MS:
                    continue
                wall, cpu, status = one_launch(name, all_commands[name](), env, run / "launch.log")
                if status == 0:
                    results.setdefault(name, []).append({"ms": wall, "cpu_ms": cpu})
    finally:
        os.chdir(where)
        shutil.rmtree(run / "large", ignore_errors=True)
    return results, failed
