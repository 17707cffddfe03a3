# SPDX-License-Identifier: Apache-2.0
"""Counter-experiments: what a missed target would cost if Bailey did nothing at all. Each is a command, so that anybody can repeat it.

protection: developers' work on files, with its calls answered at once by somebody who reads, judges and performs nothing (lab-floor). What that takes over
no sandbox is the kernel's: to hand a call over, to wake the one and then the other. No judge in another process can take less."""
import statistics

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


EXPERIMENTS = {"protection": protection}
