#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What libbailey promises: only bailey_* is visible; headers, symbol map and libraries name the same functions, each of them
documented; the headers are C99, C11 and C++ without a warning; the soname."""
import pathlib
import re
import subprocess
import sys

shared, static, symbol_map, include = map(pathlib.Path, sys.argv[1:])
problems = []


def symbols(*command):
    out = subprocess.run(["nm", "--defined-only", *command], check=True, text=True, stdout=subprocess.PIPE).stdout
    names = {line.split()[-1].split("@")[0] for line in out.splitlines() if len(line.split()) == 3}
    return {name for name in names if not name.startswith("LIBBAILEY_")}


def declared():
    """Every function of the headers, with the comment above it."""
    functions = {}
    for header in sorted((include / "bailey").glob("*.h")):
        text = header.read_text()
        for match in re.finditer(r"(?P<before>[^\n]*)\nBAILEY_API[^;]*?\b(?P<name>bailey_\w+)\(", text):
            functions[match["name"]] = match["before"].rstrip().endswith("*/")
    return functions


functions = declared()
if len(functions) < 50:
    problems.append(f"only {len(functions)} functions found: is this test blind?")
problems += [f"{name} is not documented" for name, documented in functions.items() if not documented]
places = {"the symbol map": set(re.findall(r"^\s+(bailey_\w+);$", symbol_map.read_text(), re.M)),
          shared.name: symbols("-D", str(shared)), static.name: symbols("-g", str(static))}
for place, names in places.items():
    problems += [f"{name} is declared, and not in {place}" for name in sorted(set(functions) - names)]
    problems += [f"{name} is in {place}, and not declared" for name in sorted(names - set(functions))]

dynamic = subprocess.run(["readelf", "-d", str(shared)], check=True, text=True, stdout=subprocess.PIPE).stdout
if "[libbailey.so.0]" not in dynamic:
    problems.append("the soname is not libbailey.so.0")
if re.search(r"RPATH|RUNPATH|libssl|libevent|libcares|libsqlite", dynamic):
    problems.append("the shared library has a search path, or needs a library that it must not")

for header in sorted((include / "bailey").glob("*.h")):
    for compiler, language, standard in (("gcc", "c", "c99"), ("gcc", "c", "c17"), ("g++", "c++", "c++98"), ("g++", "c++", "c++17")):
        done = subprocess.run([compiler, f"-std={standard}", "-x", language, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only",
                               "-I", str(include), str(header)], check=False, text=True, stderr=subprocess.PIPE)
        if done.returncode:
            problems.append(f"{header.name} as {standard}:\n{done.stderr}")
print("\n".join(problems) or f"{len(functions)} functions")
sys.exit(1 if problems else 0)
