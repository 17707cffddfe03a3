#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `make macos` built, looked at: nothing of it can run here. Both architectures, signed, from libSystem and nothing else, and only
names that tests/macos/symbols*.txt have for that program. libbailey shows what src/api/libbailey.map lists, and no other name.

    tests/macos/inspect.py BUILD [--update]
"""
import os
import pathlib
import re
import subprocess
import sys

os.environ["PATH"] += ":/usr/lib/llvm-14/bin"  # where Debian has llvm-lipo without its version
HERE = pathlib.Path(__file__).resolve().parent
ALLOWED = {"bailey-seatbelt": ["symbols.txt"], "bailey": ["symbols.txt", "symbols-bailey.txt"],
           "bailey-gateway": ["symbols.txt", "symbols-bailey.txt", "symbols-gateway.txt"],
           "bailey-vault": ["symbols.txt", "symbols-bailey.txt", "symbols-vault.txt"],
           "bailey-probe": ["symbols.txt", "symbols-bailey.txt", "symbols-vault.txt", "symbols-probe.txt"],
           "libbailey.0.dylib": ["symbols.txt", "symbols-libbailey.txt"], "libbailey.a": ["symbols.txt", "symbols-libbailey.txt"]}
# `bailey` listens for the gateway and hands that over; only the gateway accepts, and it makes no listener and no process. `bailey`
# connects when it is itself inside (`check`), bailey-seatbelt to nobody.
NEVER = {"bailey": ["accept"], "bailey-gateway": ["listen", "fork", "vfork", "exec", "posix_spawn", "system", "popen"],
         # Its reader runs programs of the user's.
         "bailey-vault": ["connect", "bind", "listen", "accept", "system", "popen"],
         # It is given its listener.
         "bailey-probe": ["bind", "listen", "fork", "vfork", "exec", "posix_spawn", "system", "popen"],
         "bailey-seatbelt": ["socket", "connect", "bind", "listen", "accept"],
         # In other people's programs: it starts `bailey`, and does nothing with the network or the profile itself.
         "libbailey.0.dylib": ["connect", "bind", "listen", "accept", "sandbox_", "fork", "vfork", "system", "popen", "exit"],
         "libbailey.a": ["connect", "bind", "listen", "accept", "sandbox_", "fork", "vfork", "system", "popen", "exit"]}
PUBLIC = {f"_{name}" for name in re.findall(r"^\s+(bailey_\w+);", (HERE.parent.parent / "src/api/libbailey.map").read_text(), re.M)}


def told(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def read_names(name):
    return {line for line in (HERE / name).read_text().splitlines() if line and not line.startswith("#")}


def allowed_names(program, taken, update):
    allowed = set().union(*(read_names(name) for name in ALLOWED[program]))
    if update and set(taken) - allowed:
        last = HERE / ALLOWED[program][-1]
        head = [line for line in last.read_text().splitlines() if line.startswith("#")]
        last.write_text("\n".join(head + sorted(read_names(last.name) | (set(taken) - allowed))) + "\n")
        allowed |= set(taken)
    return allowed


def check(build, arch, name, update):
    program = build / arch / name
    taken = sorted({line.split()[-1] for line in told("llvm-nm", "--undefined-only", program).splitlines()
                    if line.strip() and not line.endswith(":")})
    allowed = allowed_names(name, taken, update)
    yield from (f"{arch}: {name}: {symbol} is not in {' or '.join(ALLOWED[name])}" for symbol in taken if symbol not in allowed)
    yield from (f"{arch}: {name}: has {symbol}" for symbol in taken if any(symbol.lstrip("_").startswith(word) for word in NEVER[name]))
    if name.startswith("lib"):
        yield from check_public(program, arch)
    if name.endswith(".a"):
        print(f"{arch}: {name}: {program.stat().st_size} bytes, {len(taken)} names of libSystem")
        return
    libraries = [line.split()[0] for line in told("llvm-objdump", "--macho", "--dylibs-used", program).splitlines()[1:] if line.strip()]
    libraries = [path for path in libraries if path != f"@rpath/{name}"]  # its own name comes first
    if libraries != ["/usr/lib/libSystem.B.dylib"]:
        yield f"{arch}: {name}: takes from {libraries}"
    commands = told("llvm-objdump", "--macho", "--private-headers", program)
    for wanted in "LC_CODE_SIGNATURE", "LC_BUILD_VERSION", "LC_ID_DYLIB" if name.endswith(".dylib") else "LC_MAIN":
        if wanted not in commands:
            yield f"{arch}: {name}: has no {wanted}"
    if "PIE" not in commands and not name.endswith(".dylib"):
        yield f"{arch}: {name}: is not position independent"
    print(f"{arch}: {name}: {program.stat().st_size} bytes, {len(taken)} names of libSystem")


def check_public(library, arch):
    """Each name of the map is there, and no other can be seen by whoever links it."""
    lines = told("llvm-nm", "--defined-only", "--extern-only", "--format=posix", library).splitlines()
    seen = {line.split()[0] for line in lines if len(line.split()) > 1}
    yield from (f"{arch}: {library.name}: {name} is missing" for name in sorted(PUBLIC - seen))
    yield from (f"{arch}: {library.name}: {name} can be seen" for name in sorted(seen - PUBLIC))


def main():
    build, update = pathlib.Path(sys.argv[1]), "--update" in sys.argv
    problems = []
    for name in ALLOWED:
        problems += [p for arch in ("arm64", "x86_64") for p in check(build, arch, name, update)]
        whole = build / name
        archs = told("llvm-lipo", "-archs", whole).split()
        if sorted(archs) != ["arm64", "x86_64"]:
            problems.append(f"{name}: the whole file has {archs}")
        print(f"{whole}: {whole.stat().st_size} bytes, {' and '.join(sorted(archs))}")
    print("\n".join(problems) or "never run: there is no Mac here")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
