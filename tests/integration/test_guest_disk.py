# SPDX-License-Identifier: Apache-2.0
"""A guest's limit of disk: whatever it writes, it is frozen soon after its limit, goes on when it takes less, and can be entered,
cleaned and deleted; the host keeps room for itself."""
import json
import os
import pathlib
import sqlite3
import subprocess
import time

import pytest

from kit.process import PATIENCE, wait_until
from kit.small_disk import small_disk
from test_guest_life import guest, inside, rows, state, top  # noqa: F401

MIB = 1 << 20
# What a busy machine lets a writer take until it is frozen: memory takes more in the same time than a disk (tests/run).
OVERSHOOT = (2048 if subprocess.run(["stat", "-f", "-c", "%T", "/var/tmp"], capture_output=True, text=True, check=True).stdout == "tmpfs\n" else 512) * MIB

# Where others free room on the same disk meanwhile, what this one takes is seen by the walk of each minute.
NOTICED = 120 + PATIENCE


def disk(guest):
    return rows(guest)["one"]["disk"]


def taken(guest):
    """By the kernel's count of the file system's blocks, seen from the host."""
    where = rows(guest)["one"]["home"]
    words = ["du", "-sk", where] if os.geteuid() == 0 else ["unshare", "-r", "--map-auto", "du", "-sk", where]
    return int(subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()[0]) << 10


def stands(bailey, guest):
    return wait_until(lambda: disk(guest)["state"] != "well" and json.loads(bailey("ps", "--json").text)[0]["state"] == "paused", NOTICED)


def python(guest, script):
    return guest("exec", "-d", "one", "--", "/usr/bin/python3", "-c", "import itertools, os\n" + script).check()


WRITERS = {
    "files": "for i in itertools.count(): open(f'f{i}', 'wb').write(bytes(1 << 20))",
    "nameless": "held = []\nfor i in itertools.count():\n f = open('f', 'wb', buffering=0); os.unlink('f'); f.write(bytes(1 << 20)); held.append(f)",
    "entries": "for d in itertools.count():\n os.mkdir(f'd{d}')\n for i in range(1000): open(f'd{d}/e{i}', 'w')",
    "closed": "os.mkdir('c'); os.chdir('c'); os.chmod('.', 0o300)\nfor i in itertools.count(): open(f'f{i}', 'wb').write(bytes(1 << 20))",
    "deep": "for i in range(1500):\n os.mkdir('d'); os.chdir('d')\nfor i in itertools.count(): open(f'f{i}', 'wb').write(bytes(1 << 20))",
    "movers": "if os.fork() == 0:\n os.makedirs('a/b/c/d'); os.mkdir('z')\n while True: os.rename('a/b', 'z/b'); os.rename('z/b', 'a/b')\n"
              "for i in itertools.count(): open(f'f{i}', 'wb').write(bytes(1 << 20))",
    "threads": "import ctypes, threading\ndef write(held=[]):\n ctypes.CDLL(None).unshare(0x400)\n for i in itertools.count():\n"  # CLONE_FILES
               "  held.append(os.open('f', os.O_RDWR | os.O_CREAT)); os.unlink('f'); os.write(held[-1], bytes(1 << 20))\nthreading.Thread(target=write).start()",
    "mapped": "import mmap\nfor i in itertools.count():\n f = open(f'f{i}', 'w+b'); f.truncate(1 << 24); m = mmap.mmap(f.fileno(), 0); m[:] = bytes(1 << 24)",
}
# Python's own mmap keeps a descriptor.
HOLD = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
def hold(size, mapped):
    file = os.open('f', os.O_RDWR | os.O_CREAT)
    for _ in range(size >> 20): os.write(file, bytes(1 << 20))
    assert libc.mmap(None, mapped, 1, 1, file, 0) != ctypes.c_void_p(-1).value  # PROT_READ, MAP_SHARED
    os.unlink('f'); os.close(file)
"""
WRITERS["only mapped"] = HOLD + "for i in itertools.count(): hold(1 << 20, 1 << 20)"

# It sees the walk come, and carries what it has from where the walk goes to where it was.
WRITERS["hidden"] = """
import ctypes, struct, threading
for i in range(2000): os.mkdir(f'd{i}')
order = [name for name in os.listdir('.') if name.startswith('d')]
first, last = order[0], order[-1]
libc = ctypes.CDLL(None)
notes = libc.inotify_init1(0)
comes, goes = libc.inotify_add_watch(notes, order[1000].encode(), 0x20), libc.inotify_add_watch(notes, last.encode(), 0x10)  # IN_OPEN, IN_CLOSE_NOWRITE
os.mkdir(last + '/hoard')
hoard = os.open(last + '/hoard', os.O_RDONLY)
def carry():
    at = last
    while True:
        for watch, *_ in struct.iter_unpack('iIII', os.read(notes, 16)):
            to = first if watch == comes else last
            if to != at: os.rename(at + '/hoard', to + '/hoard')
            at = to
threading.Thread(target=carry, daemon=True).start()
for i in itertools.count(): file = os.open(f'f{i}', os.O_RDWR | os.O_CREAT, dir_fd=hoard); os.write(file, bytes(1 << 20)); os.close(file)
"""


@pytest.mark.parametrize("how", WRITERS)
def test_who_writes_without_end_stands_still(guest, bailey, how):
    guest("create", "--disk", "32M", "one").check()
    python(guest, WRITERS[how])
    stands(bailey, guest)
    found = disk(guest)
    assert found["state"] == "over" and found["limit"] == 32 * MIB and (found["used"] > 32 * MIB or found["files"] > 10000), found
    assert found["used"] < 32 * MIB + OVERSHOOT and taken(guest) < 32 * MIB + OVERSHOOT and found["files"] < 300000
    time.sleep(0.3)
    again = taken(guest)
    time.sleep(0.5)
    assert taken(guest) == again, "it does not write any more"
    refused = guest("exec", "one", "--", "true")
    assert refused.status == 123 and "is frozen" in refused.errors and "guest set --disk" in refused.errors, refused
    assert "it is frozen" in guest("ls").check().text
    assert "disk:" in bailey("log").check().text
    guest("stop", "one").check()
    if how not in ("nameless", "threads", "only mapped"):  # those are gone with whoever held them
        cleaning = inside(guest, "one", "echo x > new || echo refused; find . -mindepth 1 -maxdepth 1 -exec chmod -R u+rwx {} + -exec rm -rf {} +")
        assert cleaning.check().text == "refused\n" and "can be removed" in cleaning.errors, cleaning
    assert inside(guest, "one", "echo x > new && cat new").check().text == "x\n", "it can be used again"
    guest("delete", "--force", "one").check()
    assert rows(guest) == {}


@pytest.mark.parametrize("mapped", ["whole", pytest.param("a page", marks=pytest.mark.root)])
def test_what_only_a_mapping_holds_counts(guest, bailey, mapped):
    """All of it where it is mapped, and for root of the machine also where it is not: only root may look through a mapping at its file."""
    guest("create", "--disk", "200M", "one").check()
    python(guest, HOLD + f"for i in range(2): hold(25 << 20, {(25 << 20) if mapped == 'whole' else 4096})\nopen('ready', 'w')\nimport time; time.sleep(1000)")
    wait_until(lambda: inside(guest, "one", "test -e ready").status == 0)  # one that is frozen before has a name left, or is not all written
    guest("set", "--disk", "40M", "one").check()
    stands(bailey, guest)
    # What loses its name during a walk may count twice; one that is frozen is measured again.
    wait_until(lambda: disk(guest)["state"] == "over" and 50 * MIB <= disk(guest)["used"] < 60 * MIB)
    assert taken(guest) < 2 * MIB, "no name is left of it"
    guest("stop", "one").check()
    assert inside(guest, "one", "echo x > new && cat new").check().text == "x\n", "it is gone with who held it"


@pytest.mark.parametrize("before", [[], ["--disk", "100G"]], ids=["no limit", "a large one"])
def test_a_new_limit_holds_for_one_that_runs_and_rests(guest, bailey, before):
    """Nobody writes, so nothing else gives a reason to look."""
    guest("create", *before, "one").check()
    python(guest, "open('f', 'wb').write(bytes(25 << 20)); open('ready', 'w')\nimport time; time.sleep(1000)")
    wait_until(lambda: inside(guest, "one", "test -e ready").status == 0)
    began = time.monotonic()
    guest("set", "--disk", "20M", "one").check()
    stands(bailey, guest)
    assert time.monotonic() - began < 30, "not by the walk of each minute"
    assert disk(guest)["state"] == "over" and disk(guest)["limit"] == 20 * MIB
    guest("set", "--disk", "40M", "one").check()
    wait_until(lambda: disk(guest)["state"] == "well" and inside(guest, "one", "echo x > new").status == 0)


def test_mappings_of_files_with_names_count_once(guest, bailey):
    guest("create", "--disk", "64M", "one").check()
    python(guest, HOLD.replace("os.unlink('f')", "os.rename('f', 'named')") + "hold(40 << 20, 40 << 20)\nopen('ready', 'w')\nimport time; time.sleep(1000)")
    wait_until(lambda: inside(guest, "one", "test -e ready").status == 0)
    inside(guest, "one", "head -c 15000000 /dev/zero > more").check()
    guest("set", "--disk", "60M", "one").check()  # a reason to look
    wait_until(lambda: disk(guest).get("used", 0) > 50 * MIB)
    assert disk(guest)["state"] == "well" and disk(guest)["used"] < 60 * MIB


TIMER = """
import ctypes, signal, time
libc = ctypes.CDLL(None)
event = (ctypes.c_int64 * 8)(0, signal.SIGCONT)  # sigev_signo, SIGEV_SIGNAL
def begin(interval, first):
    timer = ctypes.c_void_p()
    assert libc.timer_create(0, event, ctypes.byref(timer)) == 0
    assert libc.timer_settime(timer, 0, (ctypes.c_int64 * 4)(*divmod(interval, 1000000000), *divmod(first, 1000000000)), None) == 0
TIMERS
for i in range(1 << 10):
    open(f'f{i}', 'wb').write(bytes(1 << 20)); time.sleep(0.002)
time.sleep(1000)
"""


def test_a_timer_does_not_thaw_it(guest, bailey):
    """SIGCONT may come from the kernel, at any time after everybody was stopped."""
    guest("create", "--disk", "32M", "one").check()
    python(guest, TIMER.replace("TIMERS", "for ms in (1000, 2000, 3000): begin(0, ms * 1000000)"))
    stands(bailey, guest)
    time.sleep(3)
    assert taken(guest) < 32 * MIB + OVERSHOOT
    found = taken(guest)
    time.sleep(1)
    assert taken(guest) == found and state(guest, "one") == "running"


def test_who_thaws_himself_again_and_again_ends(guest):
    guest("create", "--disk", "32M", "one").check()
    python(guest, TIMER.replace("TIMERS", "signal.signal(signal.SIGCONT, lambda *_: None); begin(250000000, 250000000)"))
    wait_until(lambda: state(guest, "one") == "stopped", NOTICED)
    assert taken(guest) < 32 * MIB + OVERSHOOT
    assert "went on by itself" in json.loads(guest("show", "--json", "one").check().text)["reason"]


def test_what_takes_no_room_counts_for_none(guest, bailey):
    guest("create", "--disk", "32M", "one").check()
    script = """head -c 8000000 /dev/zero > file; for i in 1 2 3 4 5 6 7 8 9; do ln file link$i; truncate -s 30M sparse$i; done
        truncate -s 1T huge 2>&1 | tail -1; dd if=/dev/zero of=big bs=1M seek=31 count=5 2>&1 | grep -o 'File too large'; rm big
        fallocate -l 1M reserved 2>&1 | grep -o 'not supported'; fallocate -p -l 1M file && echo hole"""
    said = inside(guest, "one", script).check().text
    assert "File too large" in said and "not supported" in said and "hole" in said, said
    guest("stop", "one").check()
    guest("start", "one").check()
    found = disk(guest)
    assert found["state"] == "well" and 4 * MIB < found["used"] < 10 * MIB and found["cleaning"] is False, found


def test_it_goes_on_when_it_takes_less_or_may_take_more(guest, bailey):
    guest("create", "--disk", "16M", "one").check()
    guest("exec", "-d", "one", "--", "sh", "-c", "head -c 12000000 /dev/zero > a; head -c 12000000 /dev/zero > b; sleep 3; echo went on").check()
    stands(bailey, guest)
    (pathlib.Path(rows(guest)["one"]["home"]) / "a").unlink()
    wait_until(lambda: disk(guest)["state"] == "well")
    wait_until(lambda: "went on" in guest("logs", "one").text)
    python(guest, "open('c', 'wb').write(bytes(12 << 20))\nprint('written')")
    stands(bailey, guest)
    guest("set", "--disk", "1G", "one").check()
    wait_until(lambda: disk(guest)["state"] == "well" and disk(guest)["limit"] == 1 << 30)
    assert inside(guest, "one", "echo well").check().text == "well\n"
    bailey("log").check()


def test_who_takes_more_instead_of_less_ends(guest):
    guest("create", "--disk", "8M", "one").check()
    python(guest, "for i in range(12): open(f'f{i}', 'wb').write(bytes(1 << 20))")
    wait_until(lambda: disk(guest)["state"] == "over", NOTICED)
    guest("stop", "one").check()
    python(guest, "for i in itertools.count(): open(f'e{i}', 'w')")
    wait_until(lambda: state(guest, "one") == "stopped")
    assert "takes more" in json.loads(guest("show", "--json", "one").check().text)["reason"]


@pytest.mark.root
def test_the_host_keeps_room_for_itself(guest, bailey, home):
    """Also from a guest without a limit; of a small file system a twentieth stays free. Nobody else frees room there, so a limit is noticed at once."""
    with small_disk(home, "800m") as place:
        guest("create", "--disk", "32M", "one").check()
        python(guest, "for i in range(40): open(f'f{i}', 'wb').write(bytes(1 << 20))\nimport time; time.sleep(1000)")
        began = time.monotonic()
        stands(bailey, guest)
        assert time.monotonic() - began < 30, "not by the walk of each minute"
        guest("delete", "--force", "one").check()
        guest("create", "one").check()
        guest("exec", "-d", "one", "--", "sh", "-c", "i=0; while :; do head -c 1000000 /dev/zero > f$i; i=$((i+1)); sleep 0.002; done").check()
        stands(bailey, guest)
        assert disk(guest)["state"] == "low" and "nearly full" in guest("ls").check().text
        (place / "of-the-host").write_bytes(bytes(MIB))
        where = pathlib.Path(rows(guest)["one"]["home"])
        for name in where.glob("f1*"):
            name.unlink()
        wait_until(lambda: disk(guest)["state"] == "well")
        stands(bailey, guest)
        guest("stop", "one").check()
        assert inside(guest, "one", "rm -f f*; echo removed").check().text == "removed\n"
        assert inside(guest, "one", "echo x > new && cat new").check().text == "x\n"
        guest("delete", "--force", "one").check()


def test_options_can_be_changed(guest, home):
    guest("create", "--limit-processes", "50", "--env", "A=1", "one").check()
    guest("set", "--limit-processes", "60", "--env", "B=2", "--idle", "1h", "--disk", "1G", "one").check()
    shown = json.loads(guest("show", "--json", "one").check().text)
    kept = {(row["option"], row["value"]) for row in shown["options"]}
    assert kept == {("limit-processes", "60"), ("env", "A=1"), ("env", "B=2")} and shown["idle_seconds"] == 3600 and shown["disk"]["limit"] == 1 << 30
    guest("set", "--unset", "env", "--disk", "0", "one").check()
    shown = json.loads(guest("show", "--json", "one").check().text)
    assert [row["option"] for row in shown["options"]] == ["limit-processes"] and shown["disk"]["limit"] == 0
    for wrong in (("--unset", "nothing"), ("--disk", "much"), ("--no-such", "x")):
        assert guest("set", *wrong, "one").status == 2, wrong
    assert guest("set", "--disk", "1G", "none").status == 4


def test_a_database_from_before_limits(guest, home):
    guest("create", "one").check()
    database = sqlite3.connect(home / ".local/state/bailey/guests.db")
    database.execute("alter table guests drop column disk")
    database.execute("alter table grants drop column object")  # came later
    database.execute("pragma user_version = 2")
    database.commit()
    database.close()
    assert disk(guest)["limit"] == 0
    guest("set", "--disk", "5M", "one").check()
    assert disk(guest)["limit"] == 5 * MIB


@pytest.mark.root
def test_files_of_an_overlay_count(guest, bailey, home, tmp_path):
    """They have another device than their directories, with a name and without."""
    place = home / ".local/state/bailey"
    place.mkdir(parents=True, mode=0o700)
    lower, upper = tmp_path / "lower", tmp_path / "upper"
    for where in (lower, upper):
        where.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=800m,mode=700", "tmpfs", where], check=True)
    for name in ("files", "work"):
        (upper / name).mkdir(mode=0o700)
    try:
        subprocess.run(["mount", "-t", "overlay", "-o", f"lowerdir={lower},upperdir={upper}/files,workdir={upper}/work,xino=off", "overlay", place], check=True)
        for how in ("files", "nameless"):
            guest("create", "--disk", "32M", "one").check()
            python(guest, WRITERS[how].replace("itertools.count()", "range(300)") + "\nimport time; time.sleep(1000)")
            stands(bailey, guest)
            assert disk(guest)["state"] == "over" and disk(guest)["used"] > 32 * MIB, how
            guest("delete", "--force", "one").check()
    finally:
        for where in (place, lower, upper):
            subprocess.run(["umount", "-l", where], check=False)
