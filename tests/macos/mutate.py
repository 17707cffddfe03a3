#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Changes the generator of Seatbelt profiles, one place at a time. Each change must fail a test.

    tests/macos/mutate.py BUILD [--count 200] [--seed N] [--skip N] [--jobs N] [--only late.c:89 ...] [--show]

The sources are copied, so that nothing in the tree is touched. A change that does not compile counts for nothing and another one
is taken. What survives is printed; EQUAL lists changes that change nothing, with the reason.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCES = ["base.c", "files.c", "late.c", "macos_launch.c", "macos_network.c", "moves.c", "regex.c", "seatbelt.c", "text.c"]
TESTS = ["test-seatbelt", "test-seatbelt-golden"]

# pattern, what it becomes
CHANGES = [
    (r"\bSEATBELT_LITERAL\b", "SEATBELT_SUBPATH"), (r"\bSEATBELT_SUBPATH\b", "SEATBELT_LITERAL"),
    (r"\bSEATBELT_NO_READ\b", "SEATBELT_NO_WRITE"), (r"\bSEATBELT_WRITE\b", "SEATBELT_READ"),
    (r"\bSEATBELT_READING\b", "SEATBELT_WRITING"), (r"\bSEATBELT_WRITING\b", "SEATBELT_READING"),
    (r"\bSEATBELT_READS_OPEN\b", "SEATBELT_ALWAYS"), (r"\bSEATBELT_READS_CLOSED\b", "SEATBELT_ALWAYS"),
    (r"\bSEATBELT_NETWORK\b", "SEATBELT_ALWAYS"), (r"\bSEATBELT_HIDES\b", "SEATBELT_KEEPS"), (r"\bSEATBELT_SHOWS\b", "SEATBELT_GIVES"),
    (r"\bGROUP\(MACOS_\w+\)", "SEATBELT_ALWAYS"), (r"\{ MACOS_(\w+), SEATBELT", r"{ 0, SEATBELT"),
    (r"== 0\b", "!= 0"), (r"!= 0\b", "== 0"), (r" < 0\b", " >= 0"), (r" > 0\b", " == 0"), (r"&&", "||"), (r"\|\|", "&&"),
    (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"if \(!", "if ("), (r"if \((?!!)", "if (!("), (r"return 0;", "return -EINVAL;"),
    (r'"localhost:', '"*:'), (r'"file-write-unlink"', '"file-write-create"'), (r'"DIRECTORY"', '"REGULAR-FILE"'),
    (r"\(/\.\*\)\?\$", "$"), (r'\[\^/\]\*', ".*"), (r"\bnegated = negated\b", "negated = !negated"), (r"\+ 1\b", "+ 2"), (r"- 1\b", "- 0"),
    (r"i\+\+", "i += 2"), (r"continue;", "break;"),
]
# A line of a table, taken out.
ROW = re.compile(r'^        \{ (0|MACOS_\w+), SEATBELT_\w+, ".*\},$|^ +(NAME|SYSCTL|SYSCTLS|LITERAL|SUBPATH)\("[^"]*"\),$')

# What changes nothing, by file and text of the line: why.
EQUAL = json.loads((TOP / "tests" / "macos" / "equal.json").read_text())


def candidates():
    for name in SOURCES:
        text = (TOP / "src" / "plan" / "macos" / name).read_text().splitlines()
        for number, line in enumerate(text):
            bare = line.strip()
            if bare.startswith(("/*", "*", "#include", "//")) or "ENOMEM" in line or "static_assert" in line:
                continue
            if ROW.match(line):
                yield name, number, ""
            for pattern, new in CHANGES:
                for match in re.finditer(pattern, line):
                    changed = line[:match.start()] + match.expand(new) + line[match.end():]
                    if new == "if (!(":
                        changed = close_condition(line, match)
                    if changed and changed != line:
                        yield name, number, changed


def close_condition(line, match):
    depth, at = 1, match.end()
    while at < len(line) and depth:
        depth += {"(": 1, ")": -1}.get(line[at], 0)
        at += 1
    return None if depth else line[:match.start()] + "if (!(" + line[match.end():at - 1] + "))" + line[at:]


class Lab:
    """One copy of the sources, and the commands to build the two tests from them."""

    def __init__(self, build, place):
        self.build, self.place = build.resolve(), place
        shutil.copytree(TOP / "src" / "plan" / "macos", place / "src" / "plan" / "macos")
        rows = json.loads((build / "compile_commands.json").read_text())
        self.compile = {pathlib.Path(r["file"]).name: r["command"] for r in rows if "/plan/macos/" in r["file"]}
        self.objects = {}
        for name in SOURCES:
            words = shlex.split(self.compile[name])
            for option in "-MQ", "-MF":
                at = words.index(option)
                del words[at:at + 2]
            words = [w for w in words if w not in ("ccache", "-Werror", "-MD") and not w.startswith("-O")]
            self.compile[name] = words
            self.objects[name] = place / (name + ".o")
            self.make(name)

    def make(self, name):
        words = list(self.compile[name])
        at = words.index("-o")
        words[at + 1] = str(self.objects[name])
        words[words.index("-c") + 1] = str(self.place / "src" / "plan" / "macos" / name)
        words += ["-O0", "-w", "-U_FORTIFY_SOURCE"]
        return subprocess.run(words, cwd=self.build, capture_output=True, check=False).returncode == 0

    def link(self, test):
        """The test's own objects and libraries, with these objects before the archive that holds the others."""
        folder = self.build / "tests" / "unit" / "plan" / f"{test}.p"
        archives = [self.build / "tests/sbpl/libsbpl.a"] + [self.build / f"src/{n}/lib{n}.a" for n in ("plan", "policy", "conf", "base")]
        words = ["cc", "-no-pie", "-o", str(self.place / test), *map(str, folder.glob("*.o")), *map(str, self.objects.values()),
                 "-Wl,--start-group", *map(str, archives), "-Wl,--end-group", "-lcmocka", *LIBRARIES]
        done = subprocess.run(words, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.decode()[-2000:])

    def try_one(self, change):
        name, number, line = change
        path = self.place / "src" / "plan" / "macos" / name
        before = path.read_text()
        lines = before.splitlines()
        was, lines[number] = lines[number], line
        path.write_text("\n".join(lines) + "\n")
        try:
            if not self.make(name):
                return change, was, "does not compile"
            return change, was, self.run()
        finally:
            path.write_text(before)
            self.make(name)

    def run(self):
        environment = dict(os.environ, CASES=str(TOP / "tests" / "cases"), SEATBELT_ROUNDS="40")
        for test in reversed(TESTS):
            self.link(test)
            try:
                done = subprocess.run([str(self.place / test)], env=environment, capture_output=True, timeout=120, check=False)
            except subprocess.TimeoutExpired:
                return f"{test} did not end"
            if done.returncode:
                failed = re.findall(rb"\[  FAILED  \] (\w+)", done.stdout + done.stderr)
                return f"{test}: {failed[0].decode() if failed else 'ended by signal'}"
        return None


LIBRARIES = []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0, help="leave out this many of the shuffled list")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="+", metavar="FILE:LINE", help="try every change of these lines and no other")
    parser.add_argument("--show", action="store_true", help="print each change and what caught it")
    options = parser.parse_args()
    names = ["jansson", "yaml-0.1", "libidn2", "nettle"]
    LIBRARIES.extend(subprocess.run(["pkg-config", "--libs", *names], capture_output=True, text=True, check=True).stdout.split())
    LIBRARIES.append("-lpthread")
    changes = [c for c in candidates() if not options.only or f"{c[0]}:{c[1] + 1}" in options.only]
    random.Random(options.seed).shuffle(changes)
    tried, caught, survived = 0, 0, []
    with tempfile.TemporaryDirectory(prefix="bailey-mutate-") as place:
        labs = []
        for i in range(options.jobs):
            (pathlib.Path(place) / str(i)).mkdir()
            labs.append(Lab(options.build, pathlib.Path(place) / str(i)))
        unchanged = labs[0].run()
        if unchanged:
            sys.exit(f"the tests fail without any change: {unchanged}")
        todo = iter(changes[options.skip:])
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            while tried < options.count:
                batch = list(itertools.islice(todo, len(labs)))
                if not batch:
                    break
                for change, was, result in pool.map(lambda pair: pair[0].try_one(pair[1]), zip(labs, batch)):
                    name, number, line = change
                    if result == "does not compile" or f"{name}: {was.strip()} => {line.strip()}" in EQUAL:
                        continue
                    tried += 1
                    caught += bool(result)
                    if not result:
                        survived.append(f"{name}:{number + 1}: {was.strip()}\n    => {line.strip()}")
                    if options.show:
                        print(f"{result or 'SURVIVED'}: {name}:{number + 1}: {was.strip()} => {line.strip()}", flush=True)
    print("\n".join(survived))
    print(f"{len(changes)} possible, {tried} tried, {caught} caught, {len(survived)} survived")
    return 1 if survived or (tried < options.count and not options.only) else 0


if __name__ == "__main__":
    sys.exit(main())
