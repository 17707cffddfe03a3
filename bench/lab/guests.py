# SPDX-License-Identifier: Apache-2.0
"""Guests: made, used while they run, at rest, many at once, and a home of many files packed and brought back; beside cp, tar and podman."""
import contextlib
import json
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

from .launch import OneHierarchy, environment
from .machine import FAILURES, LabError, installed, resident_kib

FILES, BYTES, DIRECTORIES = 100000, 1 << 30, 200
MANY = 200
PATIENCE = 600
BAILEY, BARE, PODMAN = "bailey guest", "the command alone", "podman"
# name of a case: what its figures are, for the report
CASES = {"create": ("Making one", "ms"), "exec": ("A command in one that runs", "ms"), "rest": (f"At rest, one and {MANY}", "MiB each"),
         "start": (f"Starting, one and {MANY}", "ms each"), "list": ("Listing them", "ms"), "save": ("Saving a home", "s"), "bring back": ("Bringing it back", "s")}


class Guests:
    """`bailey guest` with a state of its own. Whatever is left is deleted at the end."""

    def __init__(self, build, run):
        self.program, self.env = installed(build), environment(run)

    def call(self, *words):
        done = subprocess.run([self.program, "guest", *words], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode != 0:
            raise LabError(f"bailey guest {words[0]}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def rows(self):
        return {row["name"]: row for row in json.loads(self.call("ls", "--json"))}

    def supervisor(self, row):
        return int(open(os.path.join(os.path.dirname(row["home"]), "run.id"), encoding="ascii").read().split()[1])

    def close(self):
        for name in self.rows():
            self.call("delete", "--force", name)


class Podman:
    """An image with one static program, in a store of its own. Engines that cannot start one here are left out."""
    SOURCE = "int pause(void); int main(int n, char **words) { (void)words; if (n > 1) for (;;) pause(); return 0; }\n"

    def __init__(self, run):
        self.place = run / "podman"
        self.place.mkdir(parents=True)
        self.base = ["podman", "--root", self.place / "root", "--runroot", self.place / "run", "--cgroup-manager=cgroupfs", "--events-backend=none"]
        self.limits = ["--network=none", "--cgroups=disabled", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"]
        (self.place / "true.c").write_text(self.SOURCE)
        subprocess.run(["cc", "-O2", "-static", "-o", self.place / "true", self.place / "true.c"], check=True)
        subprocess.run(["tar", "cf", self.place / "image.tar", "-C", self.place, "true"], check=True)
        self.call("import", "-q", self.place / "image.tar", "lab")

    def call(self, *words):
        done = subprocess.run([*self.base, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode != 0:
            raise LabError(f"podman {words[0]}: {done.stderr.strip()[-300:]}")

    def start(self, name, image="lab"):
        self.call("run", "-d", "--name", name, *self.limits, image, "/true", "wait")

    def remove(self, name):
        self.call("rm", "-f", "-t", "0", name)


def timed(function, *words, scale=1e3):
    began = time.perf_counter()
    function(*words)
    return (time.perf_counter() - began) * scale


class Table:
    """{case: {program: [{"value":}]}} and what failed."""

    def __init__(self, say):
        self.found, self.failed, self.say = {}, {}, say

    def add(self, case, program, value):
        self.found.setdefault(case, {}).setdefault(program, []).append({"value": value})

    @contextlib.contextmanager
    def part(self, what):
        try:
            yield
        except FAILURES as error:
            self.failed[f"guests/{what}"] = str(error)
            self.say(f"  {what}: {error}")


def measure_life(table, guests, rounds):
    guests.call("create", "used")
    table.add("start", "1 guest", timed(guests.call, "start", "used"))
    time.sleep(1.5)  # half a second after its last work a process rests
    table.add("rest", "1 guest", resident_kib(guests.supervisor(guests.rows()["used"])) / 1024)
    for number in range(rounds):
        table.add("create", BAILEY, timed(guests.call, "create", f"made{number}"))
        guests.call("delete", f"made{number}")
        for name, words in random.sample([(BARE, None), (BAILEY, ("exec", "used", "--", "/bin/true"))], 2):
            table.add("exec", name, timed(guests.call, *words) if words else timed(lambda: subprocess.run(["/bin/true"], check=True, stdin=subprocess.DEVNULL, capture_output=True)))
    for _ in range(5):
        table.add("list", "1 guest", timed(guests.call, "ls"))
    guests.call("delete", "--force", "used")


def measure_podman_life(table, podman, rounds):
    podman.start("used")
    try:
        for number in range(rounds):
            table.add("create", PODMAN, timed(podman.call, "create", "--name", f"made{number}", *podman.limits, "lab", "/true"))
            podman.remove(f"made{number}")
            table.add("exec", PODMAN, timed(podman.call, "exec", "used", "/true"))
    finally:
        podman.remove("used")


def measure_many(table, guests, count):
    names = [f"many{number}" for number in range(count)]
    for number, name in enumerate(names):  # whether the last costs more than the first
        took = timed(guests.call, "create", name)
        if number < 10 or number >= count - 10:
            table.add("create", "the first 10 of many" if number < 10 else f"the last 10 of {count}", took)
    began = time.perf_counter()
    for name in names:
        guests.call("start", name)
    table.add("start", f"{count} guests", (time.perf_counter() - began) * 1e3 / count)
    for _ in range(5):
        table.add("list", f"{count} guests", timed(guests.call, "ls"))
    time.sleep(1.5)  # half a second after its last work a process rests
    rows = guests.rows()
    table.add("rest", f"{count} guests", sum(resident_kib(guests.supervisor(rows[name])) for name in names) / 1024 / count)
    for name in names:
        guests.call("delete", "--force", name)


def fill(place, count, size):
    """Half of it says nothing twice, as in files of people."""
    for number in range(count):
        directory = place / f"d{number % DIRECTORIES}"
        directory.mkdir(parents=True, exist_ok=True)
        half = size // count // 2
        (directory / f"f{number}").write_bytes(os.urandom(half) + b"the same again\n" * (half // 15))


def measure_home(table, guests, run, count, size, rounds):
    tree = run / "tree"
    fill(tree, count, size)
    guests.call("create", "home")
    guests.call("cp", tree, "home:tree")
    for number in range(rounds):
        copy, packed, back = run / "copy", run / "tree.tar", run / "back"
        ways = {BAILEY: ("save", guests.call, ("snapshot", "home", f"s{number}")),
                "cp -a --reflink=auto": ("save", command, ("cp", "-a", "--reflink=auto", tree, copy)),
                "tar": ("save", command, ("tar", "cf", packed, "-C", tree, ".")),
                "tar, zstd -1": ("save", command, ("tar", "-I", "zstd -1", "-cf", f"{packed}.zst", "-C", tree, "."))}
        for name in random.sample(list(ways), len(ways)):
            case, function, words = ways[name]
            table.add(case, name, timed(function, *words, scale=1))
        table.add("bring back", BAILEY, timed(guests.call, "restore", "home", f"s{number}", scale=1))
        table.add("bring back", "cp -a --reflink=auto", timed(command, "cp", "-a", "--reflink=auto", copy, back, scale=1))
        for name, words in (("tar", ("tar", "xf", packed)), ("tar, zstd -1", ("tar", "-I", "zstd", "-xf", f"{packed}.zst"))):
            shutil.rmtree(back)
            back.mkdir()
            table.add("bring back", name, timed(command, *words, "-C", back, scale=1))
        shutil.rmtree(copy)
        shutil.rmtree(back)
        guests.call("snapshot", "--remove", "home", f"s{number}")
    guests.call("delete", "--force", "home")


def measure_podman_home(table, podman, run, rounds):
    podman.start("home")
    try:
        podman.call("cp", run / "tree", "home:/tree")
        for number in range(rounds):
            table.add("save", "podman commit", timed(podman.call, "commit", "-q", "home", f"lab:s{number}", scale=1))
            table.add("bring back", "podman run", timed(podman.start, f"back{number}", f"lab:s{number}", scale=1))
            podman.remove(f"back{number}")
    finally:
        podman.remove("home")


def command(*words):
    subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE)


def in_memory(place, bytes_wanted):
    """So that no disk is measured, which takes what was written back when it likes; where the memory is large enough."""
    free = next(int(line.split()[1]) << 10 for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:"))
    if free > 2 * bytes_wanted:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={bytes_wanted}", "lab", place], check=True)


def run_guests(build, run, quick, say):
    """{case: {program: [{"value":}]}} in the units of CASES, and what does not work here."""
    run.mkdir(parents=True)
    in_memory(run, 9 * BYTES)  # the tree, the guest's home and its snapshot, a copy, two archives and what is brought back; podman has as many
    table, rounds = Table(say), 5 if quick else 40
    with contextlib.closing(Guests(build, run)) as guests:
        with table.part("life"):
            measure_life(table, guests, rounds)
        with table.part("many"):
            measure_many(table, guests, 5 if quick else MANY)
        with table.part("home"):
            measure_home(table, guests, run, *(1000, 10 << 20, 1) if quick else (FILES, BYTES, 3))
    with table.part("podman"), OneHierarchy():
        podman = Podman(run)
        measure_podman_life(table, podman, rounds)
        measure_podman_home(table, podman, run, 1 if quick else 3)
    return table.found, table.failed
