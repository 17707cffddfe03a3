# SPDX-License-Identifier: Apache-2.0
"""Many files: 10,000 checked out, and as many unpacked, beside bwrap and no sandbox. Where a writable place has protected names in it, each change
is judged by the broker; bwrap lets the same calls through, which is what a sandbox costs without that (of its processor time, what its own
process 1 collects is not seen from outside: compare the time that passes)."""
import subprocess

from .launch import AGENT, environment, interleaved, try_out

FILES, DIRECTORIES = 10000, 100
ALONE, BWRAP, BAILEY, GLOB = "no sandbox", "bwrap, the directory writable", "bailey run", "bailey run, a deny glob"
JOBS = {"checkout": "rm -rf tree && git checkout -q -f HEAD", "unpack": "rm -rf tree && tar xf tree.tar"}


def prepare(place):
    """A repository with the files, and an archive of them."""
    for number in range(FILES):
        directory = place / f"tree/d{number % DIRECTORIES}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"f{number}.txt").write_text(f"{number}\n" * 200)
    script = """git init -q . && git add tree && git -c user.name=lab -c user.email=lab@example.org commit -qm all && tar cf tree.tar tree"""
    subprocess.run(["sh", "-c", script], cwd=place, check=True)


def commands(build, place, job):
    script = ["sh", "-c", f"cd {place} && {JOBS[job]}"]
    bailey = [build / "src/cli/bailey", "run", "--quiet", "-w", place, "--no-workspace-policy"]
    return {
        ALONE: script,
        BWRAP: [*AGENT, "--bind", place, place, *script],
        BAILEY: [*bailey, "--", *script],
        GLOB: [*bailey, "--deny-read", "**/.env", "--", *script],
    }


def run_files(build, run, job, rounds, say):
    """{command: [{"ms":, "cpu_ms":}]}, and what does not work here."""
    place = run / "workspace"
    env = environment(run / "place")
    if not (place / "tree.tar").exists():
        place.mkdir(parents=True)
        prepare(place)
    all_commands = {name: lambda argv=argv: argv for name, argv in commands(build, place, job).items()}
    failed = try_out(all_commands, env, run / "files.log")
    results, later = interleaved(all_commands, env, run / "files.log", rounds)
    failed = {f"{job}/{name}": why for name, why in (failed | later).items()}
    for name, why in failed.items():
        say(f"  {name}: {why}")
    return results, failed
