# SPDX-License-Identifier: Apache-2.0
"""Launch: /bin/true in a sandbox, wall time and processor time of everything that was waited for, commands in random order within each round."""
import json
import os
import random
import shutil
import subprocess
import time

FILES = 300000
AGENT = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--unshare-all", "--new-session", "--die-with-parent", "/bin/true"]
POLICY = """network:
  allow: ["@github", "@npm", "api.example.com:443", "*.example.org"]
  deny: ["gist.github.com"]
filesystem:
  write: ["."]
  deny_read: ["~/.ssh"]
"""


def crun_bundle(run):
    """A root of its own, as containers have; the program in it is static."""
    bundle = run / "bundle"
    (bundle / "rootfs/bin").mkdir(parents=True, exist_ok=True)
    source = run / "true.c"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-O2", "-static", "-o", bundle / "rootfs/bin/true", source], check=True)
    subprocess.run(["crun", "spec"], cwd=bundle, check=True, capture_output=True)
    config = json.loads((bundle / "config.json").read_text())
    config["process"].update(terminal=False, args=["/bin/true"])
    config["mounts"] = [m for m in config["mounts"] if m["type"] != "cgroup"]
    config["linux"].pop("resources", None)
    config["linux"]["namespaces"] = [n for n in config["linux"]["namespaces"] if n["type"] != "cgroup"]
    (bundle / "config.json").write_text(json.dumps(config))
    return bundle


def commands(build, run):
    """Each a function that gives the command's words."""
    (run / "policy.yaml").write_text(POLICY)
    bailey = [build / "src/cli/bailey", "run", "--policy", run / "policy.yaml"]
    found = {
        "bare": lambda: ["/bin/true"],
        "unshare, all namespaces": lambda: ["unshare", "-Urmuinpf", "--mount-proc", "-C", "/bin/true"],
        "bwrap, agent profile": lambda: AGENT,
        "bailey run": lambda: bailey + ["-w", run / "empty", "--", "/bin/true"],
        "bailey run, 300,000 files": lambda: bailey + ["-w", run / "large", "--", "/bin/true"],
    }
    if shutil.which("firejail"):
        found["firejail, agent-like"] = lambda: ["firejail", "--quiet", "--noprofile", "--net=none", "--private-tmp", "--private-dev", "--caps.drop=all",
                                                 "--seccomp", "--nonewprivs", "--read-only=/", "/bin/true"]
    if shutil.which("crun"):
        bundle, count = crun_bundle(run), iter(range(10**9))
        found["crun"] = lambda: ["crun", "--root", run / "crun", "--cgroup-manager=disabled", "run", "-b", bundle, f"lab{os.getpid()}-{next(count)}"]
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


def once(argv, env, log):
    argv = [str(word) for word in argv]
    files = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
             (os.POSIX_SPAWN_OPEN, 2, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)]
    start = time.perf_counter()
    pid = os.posix_spawnp(argv[0], argv, env, file_actions=files)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - start
    return wall * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3, os.waitstatus_to_exitcode(status)


def run_launch(build, run, rounds, say):
    """{command: [{"ms":, "cpu_ms":}]}, and what does not work here."""
    run.mkdir(parents=True, exist_ok=True)
    make_workspaces(run)
    home = run / "home"
    home.mkdir(exist_ok=True)
    env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", "XDG_STATE_HOME": str(home / "state")}
    all_commands, results, failed = commands(build, run), {}, {}
    where = os.getcwd()
    os.chdir(run / "empty")
    try:
        for name, argv in list(all_commands.items()):
            for _ in range(2):  # warm, and does it work at all?
                status = once(argv(), env, run / "launch.log")[2]
            if status != 0:
                failed[name] = f"exit {status}: {(run / 'launch.log').read_text(errors='replace').strip()[-200:]}"
                say(f"  {name}: {failed[name]}")
                del all_commands[name]
        for _ in range(rounds):
            names = list(all_commands)
            random.shuffle(names)
            for name in names:
                wall, cpu, status = once(all_commands[name](), env, run / "launch.log")
                if status == 0:
                    results.setdefault(name, []).append({"ms": wall, "cpu_ms": cpu})
    finally:
        os.chdir(where)
        shutil.rmtree(run / "large", ignore_errors=True)
    return results, failed
