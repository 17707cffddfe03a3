# SPDX-License-Identifier: Apache-2.0
"""Work inside: what developers' tools do to files, beside bwrap and no sandbox, in memory so that no disk is measured. Where a writable place has
protected names in it, each change is judged by the broker; with a deny glob or a trace, each open() is. bwrap lets the same calls through, which is
what a sandbox costs without that (of its processor time, what its own process 1 collects is not seen from outside: compare the time that passes)."""
import base64
import hashlib
import io
import json
import os
import shlex
import subprocess
import tarfile
from pathlib import Path

from .launch import AGENT, SRT_SETTINGS, environment, interleaved, try_out
from .machine import installed
from .peers import npm_place

FILES, DIRECTORIES, PACKAGES, PACKAGE_FILES, SOURCES = 10000, 100, 100, 30, 20
MANY = 100000  # in a repository of its own
TEST_FILES, TESTS_EACH = 24, 20
ROOT = Path(__file__).resolve().parent.parent.parent
ALONE, BWRAP, BAILEY, GLOB, TRACE = "no sandbox", "bwrap, the directory writable", "bailey run", "bailey run, a deny glob", "bailey run, a trace"
SRT = "srt"
# Not sandboxes: calls that would be judged are answered at once, by somebody who judges nothing (bench/tools/floor.c).
FLOOR, FLOOR_OPENS, FLOOR_CONNECTS = "changes handed over, unjudged", "every open() handed over, unjudged", "every connect() handed over, unjudged"
CONNECTIONS = 5000
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WRITE = "import os\nfor n in range(10000):\n    os.makedirs(f'small/{n % 100}', exist_ok=True) if n < 100 else 0\n    open(f'small/{n % 100}/{n}', 'w').write('x' * 300)"
CONNECT = ("import os, socket, tempfile\nplace = tempfile.mkdtemp() + '/s'\nlistener = socket.socket(socket.AF_UNIX); listener.bind(place); listener.listen(8)\n"
           f"for _ in range({CONNECTIONS}):\n    s = socket.socket(socket.AF_UNIX); s.connect(place); listener.accept()[0].close(); s.close()")


def again(times, command):
    """So that it is not the launch which is measured: it has a table of its own."""
    return f"i=0; while [ $i -lt {times} ]; do {command}; i=$((i + 1)); done; true"


# A part of the lab each: what the report calls it, and the command.
JOBS = {
    "checkout": ("10,000 files removed and checked out by git", "rm -rf tree && git checkout -q -f HEAD"),
    "unpack": ("10,000 files removed and unpacked by tar", "rm -rf tree && tar xf tree.tar"),
    "kernel": ("10,000 files as a release is packed: removed, decompressed and unpacked", "rm -rf tree && tar xJf tree.tar.xz"),
    "npm": ("`npm ci` of 100 packages with 30 files each", "cd npm && npm ci --offline --ignore-scripts --no-audit --no-fund >/dev/null"),
    "write": ("10,000 small files removed and written by Python", f"rm -rf small && /usr/bin/python3 -c \"{WRITE}\""),
    "grep": ("10,000 files read by `grep -r`, 10 times", again(10, "grep -r nowhere tree")),
    "ripgrep": ("10,000 files read by ripgrep, 10 times", again(10, "rg -j1 nowhere tree")),
    "find": ("10,000 files found by size, 40 times", again(40, "find tree -size +900k")),
    "status": ("`git status` in 10,000 files, 40 times", again(40, "git status >/dev/null")),
    "make": ("`make` of 20 C files", "cd made && make -s clean && make -s -j2"),
    "processes": ("2,000 processes, one after the other", again(2000, "/bin/true")),
    "python": ("`python3 -c pass`, 50 times", again(50, "/usr/bin/python3 -c pass")),
    "status_many": ("`git status` in 100,000 files, 4 times", again(4, "git status >/dev/null")),
    "checkout_many": ("100,000 files removed and checked out by git", "rm -rf tree && git checkout -q -f HEAD"),
    "project": ("`make -j2` of this project, its `src/base` and `src/policy`", 
                "cd project && ninja -C build -t clean >/dev/null && ninja -j2 -C build src/base/libbase.a src/policy/libpolicy.a >/dev/null"),
    "node": (f"`node --test`, {TEST_FILES} files of {TESTS_EACH} tests", "cd tests && node --test >/dev/null"),
    "connect": (f"{CONNECTIONS:,} connections to a Unix socket inside", f"/usr/bin/python3 -c \"{CONNECT}\""),
}

# Whatever takes seconds is measured less often: what disturbs it is a smaller share.
SELDOM = {"checkout_many": 3, "project": 3, "kernel": 3, "npm": 4, "grep": 3, "ripgrep": 3, "status_many": 4, "node": 4, "make": 5, "checkout": 5, "unpack": 5,
          "write": 5, "status": 5, "find": 5, "processes": 5, "python": 5, "connect": 6}


def package(place, name):
    """An archive as registries have them, and what a lock file says of it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for file in ["package.json", *(f"lib/f{n}.js" for n in range(PACKAGE_FILES))]:
            text = json.dumps({"name": name, "version": "1.0.0"}) if file == "package.json" else f"module.exports = '{name} {file}'\n" * 40
            info = tarfile.TarInfo(f"package/{file}")
            info.size, info.mode = len(text), 0o644
            archive.addfile(info, io.BytesIO(text.encode()))
    (place / f"{name}.tgz").write_bytes(packed.getvalue())
    digest = base64.b64encode(hashlib.sha512(packed.getvalue()).digest()).decode()
    return {"version": "1.0.0", "resolved": f"file:{name}.tgz", "integrity": f"sha512-{digest}"}


def prepare_npm(place):
    place.mkdir()
    names = [f"package{n}" for n in range(PACKAGES)]
    wanted = {"name": "lab", "version": "1.0.0", "dependencies": {name: f"file:{name}.tgz" for name in names}}
    packages = {"": wanted, **{f"node_modules/{name}": package(place, name) for name in names}}
    (place / "package.json").write_text(json.dumps(wanted))
    (place / "package-lock.json").write_text(json.dumps({"name": "lab", "version": "1.0.0", "lockfileVersion": 3, "requires": True, "packages": packages}))


def prepare_make(place):
    """Each has the system's headers, as sources do: most of what a compiler opens is outside the workspace."""
    place.mkdir()
    for n in range(SOURCES):
        (place / f"f{n}.c").write_text("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include \"all.h\"\n"
                                       + "".join(f"int f{n}_{k}(int x) {{ return x * {k + 1} + printf(\"%d\", x); }}\n" for k in range(40)))
    (place / "all.h").write_text("".join(f"int f{n}_0(int);\n" for n in range(SOURCES)))
    (place / "Makefile").write_text("objects := $(patsubst %.c,%.o,$(wildcard *.c))\nall: library.a\nlibrary.a: $(objects)\n\tar rcs $@ $(objects)\n"
                                    "%.o: %.c all.h\n\tgcc -O1 -c -o $@ $<\nclean:\n\trm -f *.o library.a\n")


def prepare_tests(place):
    """As many of node's tests are: small files, each a process of its own, which reads what it tests from another one."""
    place.mkdir()
    (place / "package.json").write_text(json.dumps({"name": "lab", "version": "1.0.0"}))
    for n in range(TEST_FILES):
        (place / f"f{n}.js").write_text("".join(f"exports.f{k} = x => x * {k + n};\n" for k in range(TESTS_EACH)))
        (place / f"f{n}.test.js").write_text(
            f"const test = require('node:test'), assert = require('node:assert'), fs = require('node:fs'), all = require('./f{n}.js');\n"
            + "".join(f"test('f{k}', () => {{ assert.ok(fs.readFileSync(__filename).length); assert.equal(all.f{k}(2), {2 * (k + n)}); }});\n" for k in range(TESTS_EACH)))


def prepare_project(place):
    """This project's own sources, configured as `make check` has them. A compiler that is named has no cache before it: that one would lie in the host's home,
    which sandboxes do not see, and the work would not be the same. Nor do they see programs of a home."""
    place.mkdir()
    packed = subprocess.run(["git", "-C", ROOT, "archive", "HEAD", "."], check=True, capture_output=True).stdout
    subprocess.run(["tar", "x", "-C", place], input=packed, check=True)
    subprocess.run(["meson", "setup", "-Dtests=false", "-Ddebug=false", "-Doptimization=0", "build"], cwd=place, check=True, capture_output=True,
                   env=dict(os.environ, CC="gcc", PATH=SYSTEM_PATH))


def prepare_many(place):
    """A repository with many small files, packed as a clone leaves it."""
    for number in range(MANY):
        if number < MANY // 100:
            (place / f"tree/d{number % 100}/e{number // 100}").mkdir(parents=True, exist_ok=True)
        (place / f"tree/d{number % 100}/e{number // 100 % 10}/f{number}.c").write_text(f"int f{number}(void) {{ return {number}; }}\n" * 4)
    subprocess.run(["sh", "-c", "git init -q . && git add tree && git -c user.name=lab -c user.email=lab@example.org commit -qm all && git repack -adq"], cwd=place, check=True)


def prepare(place):
    """A repository with the files, archives of them, and a project of node's."""
    subprocess.run(["mount", "-t", "tmpfs", "lab", place], check=True)
    for number in range(FILES):
        directory = place / f"tree/d{number % DIRECTORIES}"
        directory.mkdir(parents=True, exist_ok=True)
        # Half of it says nothing twice: a release shrinks to about half as well.
        (directory / f"f{number}.txt").write_text(f"{number}\n" * 200 + os.urandom(1200).hex())
    script = """git init -q . && git add tree && git -c user.name=lab -c user.email=lab@example.org commit -qm all && tar cf tree.tar tree && xz -0 -k tree.tar
        printf '%s\\n' '*.tar*' /npm /npm-cache /small /made /tests /project > .git/info/exclude"""
    subprocess.run(["sh", "-c", script], cwd=place, check=True)
    prepare_npm(place / "npm")
    prepare_make(place / "made")
    prepare_tests(place / "tests")


def prepared(run, job):
    """The directory that the job works in. What few jobs need is made for them."""
    place, many = run / "workspace", run / "many"
    if job.endswith("_many"):
        if not many.exists():
            many.mkdir(parents=True)
            subprocess.run(["mount", "-t", "tmpfs", "lab", many], check=True)
            prepare_many(many)
        return many
    if not place.exists():
        place.mkdir(parents=True)
        prepare(place)
    if job == "project" and not (place / job).exists():
        prepare_project(place / job)
    return place


def srt_command(build, place, script):
    """Nothing where it is not installed. It takes one line for a shell."""
    program, settings = npm_place(build) / ".bin/srt", place.parent / "srt.json"
    if not program.exists():
        return {}
    settings.write_text(json.dumps(dict(SRT_SETTINGS, filesystem={"denyRead": [], "allowWrite": [str(place)], "denyWrite": []})))
    return {SRT: [program, "--settings", settings, "-c", shlex.join(script)]}


def commands(build, place, job):
    script = ["sh", "-c", f"cd {place} && {JOBS[job][1]}"]
    bailey = [installed(build), "run", "--quiet", "-w", place, "--no-workspace-policy", "--env", f"npm_config_cache={place}/npm-cache"]
    return {
        ALONE: script,
        BWRAP: [*AGENT, "--bind", place, place, *script],
        **(srt_command(build, place, script) if job != "connect" else {}),  # it lets nobody make Unix sockets
        FLOOR: [build / "bench/lab-floor", "changes", *script],
        **({FLOOR_CONNECTS: [build / "bench/lab-floor", "connects", *script]} if job == "connect" else {FLOOR_OPENS: [build / "bench/lab-floor", "opens", *script]}),
        BAILEY: [*bailey, "--", *script],
        GLOB: [*bailey, "--deny-read", "**/.env", "--", *script],
        TRACE: [*bailey, "--trace-denials", "--", *script],
    }


def run_files(build, run, job, rounds, say, wanted=None):
    """{command: [{"ms":, "cpu_ms":}]} of those that are wanted, or of all, and what does not work here."""
    place = prepared(run, job)
    env = environment(run / "place", npm_config_cache=str(place / "npm-cache"))
    all_commands = {name: lambda argv=argv: argv for name, argv in commands(build, place, job).items() if not wanted or name in wanted}
    failed = try_out(all_commands, env, run / "files.log")
    results, later = interleaved(all_commands, env, run / "files.log", rounds)
    failed = {f"{job}/{name}": why for name, why in (failed | later).items()}
    for name, why in failed.items():
        say(f"  {name}: {why}")
    return results, failed
