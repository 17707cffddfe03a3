#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom. The table is the architecture: change it on purpose, together with ARCHITECTURE.md."""
import fnmatch
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent

# folder: what it may include besides itself
LAYERS = {
    "base": [],
    "base/secrets": ["base"],
    "base/paths": ["base"],
    "base/processes": ["base", "base/paths"],
    "base/files": ["base", "base/paths", "base/processes"],
    "conf": ["base", "base/paths", "base/secrets"],
    "net": ["base", "base/paths", "base/secrets", "policy/match"],
    "shell/rules": ["base", "shell"],
    "shell": ["base", "shell/rules"],
    # What a canonical name, an address and a pattern are, not what is allowed.
    "policy/match": ["base", "conf/suggest.h"],
    "policy": ["base", "base/paths", "base/secrets", "conf", "policy/match"],
    "ipc": ["base", "base/secrets", "policy/*"],
    "store": ["base", "base/paths", "base/secrets", "base/files", "conf", "policy/*", "ipc"],
    "plan": ["base", "base/paths", "policy/*"],
    "sandbox": ["base", "base/paths", "base/files", "conf/json_walk.h", "policy/*", "ipc", "plan"],
    # Behind sandbox/*.h: who launches knows no operating system. Two headers are Linux's own business elsewhere.
    # What this kernel can do, what a workspace holds, who performs calls for others with namespaces and without.
    "sandbox/linux/probe": ["base", "policy/*", "plan", "sandbox", "sandbox/linux/cgroup.h", "sandbox/linux/scope.h"],
    "sandbox/linux/survey": ["base", "base/paths", "base/files", "policy/*", "ipc", "plan", "sandbox", "sandbox/linux/probe", "sandbox/linux/cgroup.h", "sandbox/linux/scope.h"],
    "sandbox/linux/broker": ["base", "base/paths", "base/files", "base/processes/confine.h", "base/processes/rest.h", "policy/*", "ipc", "plan", "sandbox", "sandbox/linux/fresh.h", "sandbox/linux/step.h"],
    "sandbox/linux/watcher": ["base", "base/paths", "policy/*", "ipc", "plan", "sandbox", "sandbox/linux/broker"],
    "sandbox/linux": ["base/*", "conf/json_walk.h", "policy/*", "ipc", "plan", "sandbox", "sandbox/linux/*"],
    "sandbox/darwin": ["base", "base/files", "conf/json_walk.h", "policy/*", "ipc", "plan", "sandbox"],
    # libbailey: in other people's programs, so that only what is pure is in reach; it launches by `bailey supervise`.
    "api": ["bailey", "base", "base/paths", "conf", "shell/*", "policy/*", "ipc", "plan/env.h"],
    "vault": ["base", "base/paths", "base/secrets", "base/processes", "conf", "policy/*", "ipc"],
    # Parsers of git and GraphQL and their refusals: pure, for the gateway and for any transport that comes.
    "bridge": ["base", "base/secrets", "conf", "policy/*"],
    # Inside, under the names of tools. What it says to the supervisor, and nothing else of Bailey.
    "shim": ["bridge/shim_message.h"],
    # Pure: bytes in, facts out. Tests and fuzzers enter it without a loop.
    "gateway/wire": ["base", "base/secrets", "policy/*"],
    # How much each gets: connections of a worker, paces, quotas, counts in place of floods.
    "gateway/load": ["base", "net/loop.h", "policy/match", "ipc", "gateway/control.h", "gateway/worker.h"],
    # What the gateway gives up.
    "gateway/confine": ["base", "base/processes"],
    "gateway/creds": ["base", "base/paths", "base/secrets", "conf/json_walk.h", "net", "policy/*", "ipc", "gateway/wire", "gateway/worker.h"],
    "gateway/dns": ["base", "net", "policy/*", "ipc", "gateway/wire", "gateway/gate.h", "gateway/worker.h"],
    "gateway/http": ["base", "base/secrets", "net", "policy/*", "ipc", "bridge", "gateway", "gateway/wire", "gateway/creds", "gateway/dns", "gateway/load"],
    "gateway/h2": ["base", "base/secrets", "net", "policy/*", "ipc", "bridge", "gateway", "gateway/wire", "gateway/creds", "gateway/http", "gateway/load"],
    # One errand each, in a process of its own that has the network and nothing of a worker.
    "gateway/errands": ["base", "base/secrets", "conf", "net", "policy/*", "ipc", "bridge", "gateway/wire", "gateway/confine/gateway_confine.h"],
    "gateway/ssh": ["base", "net", "policy/*", "ipc", "bridge", "gateway", "gateway/wire", "gateway/load"],
    "gateway": ["base", "base/secrets", "base/processes", "net", "policy/*", "ipc", "bridge", "gateway/*"],
    # From here on: the supervisor's side. It talks to the gateway and the vault by message and never includes their inside.
    "roles": ["base/*", "conf", "policy/*", "ipc", "store", "plan"],
    "control": ["bailey/version.h", "base", "base/paths", "base/secrets", "base/processes", "conf", "policy/*", "ipc", "store", "plan", "roles"],
    "kept": ["base/*", "conf", "policy/*", "store", "plan", "sandbox"],
    "run": ["bridge", "base/*", "conf", "policy/*", "ipc", "store", "plan", "sandbox", "roles", "control", "kept"],
    "container": ["base/*", "conf", "policy/*", "ipc", "store", "plan", "sandbox", "sandbox/linux/join.h", "roles",
                  "control", "kept", "run"],
    # Named sandboxes that last: a guest's run is a run. Packets that a firewall refused are read as the gateway reads them.
    # Process 1 of a guest, and what is said to it.
    "guest/agent": ["base", "base/processes/rest.h", "ipc"],
    # Accounts of guests, which only root changes: ids, groups, spools, and their firewall.
    "guest/account": ["base/*", "ipc", "guest", "sandbox/linux/packets.h", "gateway/wire/packet_reader.h", "gateway/wire/packet_wire.h"],
    "guest": ["guest/*", "base/*", "conf", "policy/*", "ipc", "store", "plan", "sandbox", "sandbox/linux/identity.h", "sandbox/linux/packets.h",
              "control", "kept", "run", "gateway/wire/packet_reader.h", "gateway/wire/packet_wire.h"],
    "egress": ["base/*", "conf", "policy/*", "ipc", "store", "plan", "roles", "control", "container/container_args.h",
               "container/engine.h", "container/engine_container.h", "container/engine_network.h"],
    # Which rule decides and what would change it; the logs of runs and reports about them; sandboxes that run.
    "verbs/inspect": ["base", "base/paths", "conf", "policy/*", "bridge", "sandbox/sandbox.h", "roles/host_addresses.h", "api/commands.h"],
    "verbs/record": ["base", "base/paths", "base/secrets", "policy/load.h", "store", "kept/overlays.h", "verbs/sandboxes/sandbox_names.h"],
    "verbs/sandboxes": ["base", "base/paths", "conf", "policy", "policy/match", "store", "control", "guest", "verbs/record/log_view.h"],
    # What only a Mac has.
    "verbs/macos": ["base/*", "conf", "policy/*", "ipc", "store", "plan", "plan/macos", "sandbox", "sandbox/darwin/*", "roles", "control/judged.h", "control/link.h", "kept",
                    "run/run_report.h", "verbs/supervise_request.h"],
    "verbs": ["verbs/*", "bailey", "base/*", "conf", "shell/*", "policy/*", "bridge", "ipc", "store", "plan", "sandbox", "sandbox/linux/probe/probe.h",
              "sandbox/darwin/darwin_guest.h", "sandbox/darwin/darwin_job.h", "sandbox/darwin/darwin_tool.h", "sandbox/darwin/os.h",
              "sandbox/darwin/pflog.h", "sandbox/darwin/violation.h",
              "roles", "control", "kept", "run", "guest", "guest/account/firewall_compare.h", "egress", "api/capture.h", "api/commands.h"],
    # Settings of other tools as a policy: files in, text out.
    "import": ["base", "base/paths", "conf", "policy/*"],
    # Questions in a chat: over the control sockets, by a courier that has the network and no other right.
    "chat": ["base", "base/paths", "base/secrets", "base/processes", "conf", "policy/*", "ipc", "store", "roles", "control"],
    # Records of the audit for others: it reads the logs and writes nothing but how far it is.
    "export": ["base", "base/paths", "base/secrets", "base/processes", "conf", "policy/*", "store", "roles", "ipc"],
    # The dashboard stands on what every verb has, and reads HTTP by the gateway's own pure parser.
    "ui": ["bailey/version.h", "base/*", "conf", "store", "control", "roles/door_process.h", "kept", "gateway/wire",
           "verbs/sandboxes/sandboxes_text.h"],
    "cli": ["bailey", "base/*", "conf", "kept", "run", "container", "guest/*", "egress", "verbs/*", "ui", "chat/chat.h", "export/export.h", "policy/load.h", "store/progress.h",
            "import/compare.h",
            "import/import.h"],
}

# A library's types stay behind one module: header pattern: files that may include it.
LIBRARIES = {
    "event2/*": ["src/net/loop*"],
    "openssl/*": ["src/net/tls*", "src/vault/*"],
    "ares*.h": ["src/net/resolve*"],
    "yaml.h": ["src/conf/*"],
    "jansson.h": ["src/conf/*"],
    "idn2.h": ["src/conf/*", "src/policy/match/idn.c"],
    "seccomp.h": ["src/plan/*", "src/gateway/confine/gateway_confine.c", "src/vault/vault_confine.c"],
    "libmnl/*": ["src/plan/*"],
    "libnftnl/*": ["src/plan/*"],
    "sqlite3.h": ["src/store/*"],
    "nettle/*": ["src/base/secrets/digest*"],
    "nghttp2/*": ["src/gateway/h2/*", "src/gateway/intercept.c"],
    "CommonCrypto/*": ["src/base/secrets/digest_darwin.c"],
    "mach/*": ["src/base/secrets/secret_darwin.c", "src/gateway/load/balance_darwin.c"],
    "mach-o/*": ["src/roles/helper_darwin.c"],
    "malloc/*": ["src/base/os_darwin.c"],
    "zlib.h": ["src/gateway/wire/decode.c"],
    "brotli/*": ["src/gateway/wire/decode.c"],
    "zstd*.h": ["src/gateway/wire/decode.c", "src/guest/pack.c"],
}

# The C library and the kernel: open to all.
SYSTEM = ["sys/*", "linux/*", "asm/*", "net/*", "netinet/*", "arpa/*"]
SYSTEM_NAMES = set("""assert ctype dirent dlfcn errno elf endian execinfo fcntl fnmatch getopt glob grp ifaddrs inttypes langinfo libproc limits link
    locale malloc math mntent netdb paths poll pthread pty pwd sched semaphore setjmp signal spawn stdalign stdarg stdatomic
    stdbool stddef stdint stdio stdlib stdnoreturn string strings syslog termios threads time ucontext uchar unistd utmp wchar
    wordexp""".split())

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def room_of(name):
    """The row that a file below src/ belongs to: the longest folder that the table knows; None without one."""
    folder = name.rpartition("/")[0]
    while folder and folder not in LAYERS:
        folder = folder.rpartition("/")[0]
    return folder or None


def problems_of(path):
    name = path.relative_to(TOP).as_posix()
    folder = room_of(name.removeprefix("src/"))
    if folder is None:
        yield f"{name}: its folder is not in the table of tests/layers.py"
        return
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            problem = problem_of(name, folder, *match.groups())
            if problem:
                yield f"{name}:{number}: {problem}"


def admits(row, target, header):
    """A row names rooms and single headers; ROOM/* is a room with the rooms inside it."""
    return target in row or header in row or any(
        f"{target}/".startswith(entry.removesuffix("*")) for entry in row if entry.endswith("/*"))


def problem_of(name, folder, quote, header):
    for pattern, allowed in LIBRARIES.items():
        if fnmatch.fnmatch(header, pattern):
            inside = any(fnmatch.fnmatch(name, place) for place in allowed)
            return None if inside else f"{header} belongs behind {', '.join(allowed)}"
    if quote == "<":
        known = header.removesuffix(".h") in SYSTEM_NAMES or any(fnmatch.fnmatch(header, p) for p in SYSTEM)
        return None if known else f"{header} is a library that tests/layers.py does not know"
    if "/" not in header or header.startswith("../"):
        return f'"{header}" must be written from src/, as "{folder}/{header.split("/")[-1]}"'
    target = "bailey" if header.startswith("bailey/") else room_of(header)
    if target is None:
        return f'"{header}" is in no folder that tests/layers.py knows'
    if target != folder and not admits(LAYERS[folder], target, header):
        return f"src/{folder} may not include {target} ({header})"
    generated = (TOP / "src" / (header + ".in")).exists()
    if target != "bailey" and not generated and not (TOP / "src" / header).exists():
        return f'"{header}" is not below src/'
    return None


def main():
    sources = sorted(p for p in (TOP / "src").rglob("*.[ch]"))
    problems = [p for source in sources if source.parent != TOP / "src" for p in problems_of(source)]
    problems += [f"tests/layers.py: there is no folder src/{room}" for room in LAYERS if not (TOP / "src" / room).is_dir()]
    print("\n".join(problems) or f"{len(sources)} files keep to their layers")
    return 1 if problems or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
