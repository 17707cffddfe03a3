#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `make macos` built, looked at: nothing of it can run here. Both architectures, signed, from libSystem and nothing else, and only
names that tests/macos/symbols.txt has.

    tests/macos/inspect.py BUILD [--update]
"""
import os
import pathlib
import subprocess
import sys

os.environ["PATH"] += ":/usr/lib/llvm-14/bin"  # where Debian has llvm-lipo without its version
HERE = pathlib.Path(__file__).resolve().parent
ALLOWED = HERE / "symbols.txt"


def told(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def check(build, arch, update):
    program = build / arch / "bailey-seatbelt"
    taken = sorted({line.split()[-1] for line in told("llvm-nm", "--undefined-only", program).splitlines() if line.strip()})
    allowed = {line for line in ALLOWED.read_text().splitlines() if line and not line.startswith("#")}
    if update:
        head = [line for line in ALLOWED.read_text().splitlines() if line.startswith("#")]
        ALLOWED.write_text("\n".join(head + sorted(allowed | set(taken))) + "\n")
        allowed |= set(taken)
    yield from (f"{arch}: {name} is not in tests/macos/symbols.txt" for name in taken if name not in allowed)
    libraries = [line.split()[0] for line in told("llvm-objdump", "--macho", "--dylibs-used", program).splitlines()[1:] if line.strip()]
    if libraries != ["/usr/lib/libSystem.B.dylib"]:
        yield f"{arch}: takes from {libraries}"
    commands = told("llvm-objdump", "--macho", "--private-headers", program)
    for wanted in "LC_CODE_SIGNATURE", "LC_BUILD_VERSION", "LC_MAIN":
        if wanted not in commands:
            yield f"{arch}: has no {wanted}"
    if "PIE" not in commands:
        yield f"{arch}: is not position independent"
    print(f"{arch}: {program.stat().st_size} bytes, {len(taken)} names of libSystem")


def main():
    build, update = pathlib.Path(sys.argv[1]), "--update" in sys.argv
    problems = [p for arch in ("arm64", "x86_64") for p in check(build, arch, update)]
    whole = build / "bailey-seatbelt"
    archs = told("llvm-lipo", "-archs", whole).split()
    if sorted(archs) != ["arm64", "x86_64"]:
        problems.append(f"the whole file has {archs}")
    print(f"{whole}: {whole.stat().st_size} bytes, {' and '.join(sorted(archs))}")
    print("\n".join(problems) or "never run: there is no Mac here")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
