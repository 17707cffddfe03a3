#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Would `make macos` still link? Its lists (scripts/macos-rules) against a build for Linux, in a second and without its headers.

    tests/macos/lists.py BUILD

From each program's main file on, and from all of src/api for libbailey, every name that a listed file takes from our own sources must be in a listed file. The objects
of BUILD tell who has and who takes which name. A file that Linux cannot compile (os_darwin.c) is read as text instead. Headers
that only Linux has are found by name.
"""
import json
import pathlib
import re
import runpy
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
SRC = TOP / "src"
LINUX_HEADERS = re.compile(r"linux/|asm/|endian\.h|error\.h|features\.h|malloc\.h|mntent\.h|pty\.h|seccomp\.h|shadow\.h|"
                           r"sys/(auxv|capability|epoll|eventfd|fanotify|fsuid|inotify|memfd|personality|pidfd|prctl|sendfile|signalfd|"
                           r"syscall|sysinfo|sysmacros|timerfd|vfs)\.h")


def objects_of(build):
    """Our sources of this build, each with one object that is there."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source, object_file = (build / entry["file"]).resolve(), build / entry["output"]
        if source.is_relative_to(SRC) and object_file.exists():
            found.setdefault(source, object_file)
    return found


def names_of_objects(objects):
    """Of each source: the names that it has, and those that it takes."""
    told = subprocess.run(["nm", "-A", "-P", *map(str, objects.values())], check=True, capture_output=True, text=True).stdout
    sources = {str(path): source for source, path in objects.items()}
    names = {source: (set(), set()) for source in objects}
    for line in told.splitlines():
        path, name, kind = re.match(r"(.*?): (\S+) (\S)", line).groups()
        if kind in "TDBRCWV":
            names[sources[path]][0].add(name)
        elif kind == "U":
            names[sources[path]][1].add(name)
    return names


def names_of_text(source):
    text = re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"", " ", source.read_text(), flags=re.S)
    has = set(re.findall(r"^(?!static\b)\w[^;={}()]*?\b(\w+)\([^;{}]*\)\s*\{", text, re.M))
    has |= set(re.findall(r"^(?:const )?(?!static\b)\w[\w *]*?\b(\w+)(?:\[\w*\])? = ", text, re.M))
    own = set(re.findall(r"^static [^;={}()]*?\b(\w+)\(", text, re.M))
    return has, set(re.findall(r"\b(\w+)\(", text)) - has - own


def missing_names(lists, names, everywhere):
    made = {program: ([SRC / main], [*lists["own_sources"](), SRC / main]) for program, main in lists["PROGRAMS"].items()}
    library = lists["libbailey_sources"]()
    made["libbailey"] = ([path for path in library if path.parent == SRC / "api"], library)
    for program, (begin, listed) in made.items():
        who_has = {name: path for path in listed for name in names[path][0]}
        waiting, seen = list(begin), set(begin)
        while waiting:
            path = waiting.pop()
            for name in sorted(names[path][1] & everywhere.keys()):
                there = who_has.get(name)
                if not there:
                    yield (f"{program}: {path.relative_to(TOP)} takes {name}: scripts/macos-rules lists no file that has it "
                           f"({everywhere[name].relative_to(TOP)} has)")
                elif there not in seen:
                    seen.add(there)
                    waiting.append(there)


def linux_headers(paths):
    """Our own headers that the listed files include are looked at as well."""
    waiting, seen = list(paths), set(paths)
    while waiting:
        path = waiting.pop()
        text = path.read_text()
        for name in re.findall(r"^#include <([^>]+)>", text, re.M):
            if LINUX_HEADERS.fullmatch(name) or name.startswith(("linux/", "asm/")):
                yield f"{path.relative_to(TOP)}: macOS has no <{name}>"
        for name in re.findall(r'^#include "([^"]+)"', text, re.M):
            if (SRC / name).exists() and SRC / name not in seen:
                seen.add(SRC / name)
                waiting.append(SRC / name)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    lists = runpy.run_path(str(TOP / "scripts/macos-rules"))
    listed = sorted({*lists["own_sources"](), *lists["libbailey_sources"](), *lists["checked_sources"](), *(SRC / main for main in lists["PROGRAMS"].values())})
    problems = [f"scripts/macos-rules: {path.relative_to(TOP)} is not there" for path in listed if not path.exists()]
    if not problems:
        names = names_of_objects(objects_of(build))
        names.update({path: names_of_text(path) for path in listed if path not in names})
        everywhere = {name: path for path, (has, _) in names.items() for name in has}
        problems = [*missing_names(lists, names, everywhere), *linux_headers(listed)]
    print("\n".join(sorted(set(problems))) or f"{len(listed)} files")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
