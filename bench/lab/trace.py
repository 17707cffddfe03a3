# SPDX-License-Identifier: Apache-2.0
"""A timeline of one run: which process starts when, what it reads of certificates, what it says to whom. To see what comes one after the other and could
come beside each other.

first-request: `bailey run` with one https request in it and a token that is swapped, beside curl alone. strace stops only the calls that are shown, but it
stops them: the order and the gaps count, the sum is longer than without it. The counts below the timeline are of a second run with every call."""
import collections
import os
import re
import subprocess

from . import endtoend
from .launch import environment
from .machine import LabError
from .peers import TOKEN

SHOWN = "execve,clone,clone3,vfork,exit_group,connect,accept4,sendmsg,recvmsg,openat,open,seccomp,landlock_restrict_self"
CERTIFICATES = re.compile(r'"([^"]*\.(?:crt|pem|conf|hosts|key))"')
LINE = re.compile(r"^(\d+)\s+(\d+\.\d+) (.*)$")
PATIENCE = 60


def traced(argv, env, log, *options):
    done = subprocess.run(["strace", "-f", "-qq", *options, "-o", log, *argv], env=env, timeout=PATIENCE, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"{argv[0]}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    return log.read_text(errors="replace").splitlines()


def happens(call):
    """A line of strace in a few words; None for what says nothing about the order."""
    name, _, rest = call.partition("(")
    if call.startswith("<..."):
        name = call.split()[1]
        return {"accept4": "accepts a connection", "recvmsg": "hears"}.get(name) if not call.endswith(("(Resource temporarily unavailable)", "= 0")) else None
    if "unfinished" in call or " = -1 E" in call and "EINPROGRESS" not in call:
        return None
    if name == "execve":
        return "starts " + os.path.basename(rest.split('"')[1])
    if name in ("openat", "open"):
        found = CERTIFICATES.search(rest)
        return f"reads {found.group(1)}" if found else None
    if name == "connect":
        if "AF_UNIX" in rest:
            return "connects to a socket of this host"
        port, address = re.search(r"htons\((\d+)\)", rest), re.search(r'inet_addr\("([^"]+)"\)', rest)
        return f"connects to {address.group(1) if address else '?'}:{port.group(1) if port else '?'}"
    return {"clone": "makes a process or a thread", "clone3": "makes a process or a thread", "vfork": "makes a process", "exit_group": "ends", "sendmsg": "says",
            "recvmsg": "hears", "accept4": "accepts a connection", "seccomp": "takes a filter", "landlock_restrict_self": "gives up files"}.get(name)


def timeline(lines):
    """[(ms, process, what)], several of the same in a row as one."""
    names, events, began = {}, [], None
    for line in lines:
        found = LINE.match(line)
        if not found:
            continue
        pid, at, call = int(found.group(1)), float(found.group(2)), found.group(3)
        began = at if began is None else began
        what = happens(call)
        if call.startswith("execve(") and what:
            names[pid] = what.split()[1]
        made = re.search(r"= (\d+)$", call)
        if re.match(r"(clone3?|vfork)\(|<\.\.\. (clone3?|vfork) resumed", call) and made:
            names.setdefault(int(made.group(1)), names.get(pid, "?"))
            what = f"makes {made.group(1)}"
        if not what:
            continue
        if events and events[-1][1:3] == [pid, what]:
            events[-1][3] += 1
        else:
            events.append([(at - began) * 1e3, pid, what, 1])
    return [(ms, f"{names.get(pid, '?')} {pid}", what + (f", {times} times" if times > 1 else "")) for ms, pid, what, times in events]


def counts(lines):
    """{program: system calls}, of all processes that ran it."""
    names, found = {}, collections.Counter()
    for line in lines:
        pid, _, call = line.partition(" ")
        call = call.strip()
        if call.startswith("execve(") and " = 0" in call:
            names[pid] = os.path.basename(call.split('"')[1])
        made = re.search(r"= (\d+)$", call)
        if re.match(r"(clone3?|vfork)\(|<\.\.\. (clone3?|vfork) resumed", call) and made:
            names.setdefault(made.group(1), names.get(pid, "?"))
        if not call.startswith(("<...", "+++", "---")):
            found[names.get(pid, "?")] += 1
    return found


def first_request(lab, say):
    run = lab.run
    lab.start("tls-origin")
    env = environment(run / "end-place", LAB_TOKEN=TOKEN)
    endtoend.make_place(lab)
    commands = endtoend.commands(lab)
    for name in ("curl alone", "bailey run, tunnel", "bailey run, token swapped"):
        argv = [str(word) for word in commands[name]]
        subprocess.run(argv, env=env, timeout=PATIENCE, stdin=subprocess.DEVNULL, capture_output=True, check=False)  # so that it is warm
        say(f"\n{name}, ms since its start:")
        for ms, who, what in timeline(traced(argv, env, run / "trace.log", "-ttt", "--seccomp-bpf", "-e", f"trace={SHOWN}")):
            say(f"{ms:9.2f}  {who:24} {what}")
        calls = counts(traced(argv, env, run / "trace.log"))
        say(f"system calls: {sum(calls.values())} ({', '.join(f'{program} {n}' for program, n in calls.most_common())})")


TRACES = {"first-request": first_request}
