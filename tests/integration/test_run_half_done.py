# SPDX-License-Identifier: Apache-2.0
"""Whatever stops the broker between two steps, and whatever makes a name without asking it: nothing is left behind that nobody
knows of. tests/unit/sandbox/test_repos.c has the notes themselves."""
import contextlib
import errno
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from kit.control import wait_for
from kit.git import ENVIRONMENT

pytestmark = pytest.mark.visible_home
DEEP = "/".join(f"d{i}" for i in range(70))
BROKER = r"""touch there; B=; for p in /proc/[0-9]*; do
case $(cat $p/comm 2>&1) in bailey-broker|*denied*) test $p = /proc/1 || B=${p#/proc/};; esac; done; test -n "$B" || exit 90
"""


def test_the_broker_gets_no_signal(sh):
    for name in ("KILL", "STOP", "TERM", "XFSZ"):
        assert sh(BROKER + f"kill -{name} $B").status not in (0, 90)
    result = sh(BROKER + "trap '' TERM; kill -TERM -1; sleep .2; touch after && kill -TERM $$ && echo alive; (sleep 9 & kill $!)").check()
    assert result.text == "alive\n"


@pytest.mark.parametrize("limit", ["--fsize=1:1", "--nofile=9:9", "--cpu=1:1", "--as=1:1"])
@pytest.mark.parametrize("options", [(), ("--deny-write", "**/*.lock"), ("--trace-denials",)], ids=["plain", "globs", "traced"])
def test_the_broker_keeps_its_limits(sh, limit, options):
    sh(BROKER + f"! prlimit --pid $B {limit} && "
       "prlimit --pid $$ --nofile=64:64 && prlimit --pid $B > /dev/null && touch after", *options).check()


NAMES = {0x50009401, 0x50009417, 0x5000940E, 0x50009418, 0x5000940F, 0x5000943F, 0x40186F04, 0x4020BC10, 0xBC1D}
SHARING = {0x40049409, 0x4020940D}


def try_requests(path):
    """What each ioctl says about a directory; on most file systems that they do not know it."""
    said = {}
    place = os.open(path, os.O_RDONLY)
    for request in NAMES | SHARING:
        try:
            fcntl.ioctl(place, request, bytearray(4096))
            said[request] = 0
        except OSError as e:
            said[request] = e.errno
    os.close(place)
    return said


def test_names_are_not_made_by_ioctl(sh):
    script = pathlib.Path(__file__).read_text(encoding="utf-8")
    start = script.index("NAMES = {")
    body = "import os, fcntl, json\n" + script[start:script.index("def test_names_are_not")] + "print(json.dumps(try_requests('.')))"
    inside = {int(k): v for k, v in json.loads(sh(f"exec {sys.executable} - <<'E'\n{body}\nE").check().text).items()}
    assert {r for r, e in inside.items() if e == errno.EPERM} == NAMES
    assert all(e != errno.EPERM for r, e in try_requests("/usr").items() if r in SHARING)


def test_a_repository_stays_where_it_can_be_swept(sh, home, work):
    """Carried deeper than a path can say."""
    (work / DEEP).mkdir(parents=True)
    sh(f"""git init -q a/b/c && echo '[core]
        fsmonitor = "touch {home}/ran; false"' >> a/b/c/.git/config
        top=$PWD; n=$(printf %0200d 0); for i in $(seq 25); do mkdir $n && cd $n || break; done
        for up in . .. ../.. ../../..; do mv "$top/a" $up/a && break; done
        cd "$top"; test -e a && mv a {DEEP}/a; find . -name evil""")
    found = subprocess.run(["find", ".", "-name", "config", "-exec", "grep", "-l", "fsmonitor", "{}", "+"], cwd=work,
                           capture_output=True, text=True, check=False).stdout
    assert found == ""


@pytest.mark.parametrize("rest", [b"made\0/half/of", b"ma", b"issing\0made\0", b"x/.git\0"])
def test_a_slot_that_was_cut_off(start, bailey, home, work, rest):
    """The note before it counts, and so does what comes behind."""
    script = f"mkdir -p {DEEP}; git init -q {DEEP}; printf '[core]\\n\\tfsmonitor = touch {home}/ran\\n' >> {DEEP}/.git/config; echo > ready; sleep 60"
    running = start(["bailey", "run", "--", "sh", "-c", script], cwd=work, env=ENVIRONMENT)
    wait_for(lambda: (work / "ready").exists(), "the attack")
    children = subprocess.run(["pgrep", "-P", str(running.pid)], capture_output=True, text=True, check=False).stdout.split()
    for pid in [running.pid, *map(int, children)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    running.wait(10)
    time.sleep(0.3)

    state = pathlib.Path(os.environ.get("XDG_STATE_HOME", home / ".local/state"))
    slots = [s for s in (state / "bailey/guards").iterdir() if s.name.isdigit() and s.stat().st_size]
    assert slots
    for slot in slots:
        whole = slot.read_bytes()
        at = whole.index(b"made\0")
        slot.write_bytes(whole[:at] + (rest + whole[at:] if rest.endswith(b"\0") else whole[at:] + rest))
    bailey("run", "--", "true", cwd=work)
    assert "fsmonitor" not in (work / DEEP / ".git/config").read_text()


def start_time(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


@pytest.mark.parametrize("reboot", [False, True])
def test_a_sandbox_that_is_still_dying_is_not_swept(start, bailey, home, work, reboot):
    """The kernel closes the files of a killed init, and with them its lock, before it ends the processes inside: whoever swept then
    would sweep beside an attacker. The moment is short, so a process that lasts stands for the dying one.
    One of another boot is over, whoever has its number and even its start time now."""
    running = start(["bailey", "run", "--", "sh", "-c", "echo evil > .envrc; echo > ready; exec sleep 60"], cwd=work)
    wait_for(lambda: (work / "ready").exists(), "the attack")
    children = subprocess.run(["pgrep", "-P", str(running.pid)], capture_output=True, text=True, check=False).stdout.split()
    os.kill(running.pid, signal.SIGSTOP)
    for pid in [*map(int, children), running.pid]:  # the supervisor stands still and init is gone: nobody is left who sweeps
        os.kill(pid, signal.SIGKILL)
    running.wait(10)
    dying = start(["sleep", "60"])
    boot = "0" * 36 if reboot else pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    state = pathlib.Path(os.environ.get("XDG_STATE_HOME", home / ".local/state"))
    slots = [s for s in (state / "bailey/guards").iterdir() if s.name.isdigit() and b"first\0" in s.read_bytes()]
    assert len(slots) == 1
    before, _, rest = slots[0].read_bytes().partition(b"first\0")
    slots[0].write_bytes(before + f"first\0{dying.pid} {start_time(dying.pid)} {boot}\0".encode() + rest.partition(b"\0")[2])
    assert (work / ".envrc").exists()

    between = bailey("run", "--", "true", cwd=work).check()
    assert (work / ".envrc").exists() != reboot, between.errors
    os.kill(dying.pid, signal.SIGKILL)  # and not yet waited for: it has ended all the same
    bailey("run", "--", "true", cwd=work)
    assert not (work / ".envrc").exists()


# Beside a protected name somebody outside writes a file and renames it over that one; 0.3 s lie between. Each of these tries to be
# there first, by the name that it sees come.
CATCH = {
    "open": "exec 9<>new.1; sleep 1.5; echo evil >&9",
    "link": "mkdir -p sub; ln new.1 sub/l && exec 9<>sub/l; sleep 1.5; echo evil >&9",
    "replace": "echo evil > mine; mv -f mine new.1",
    "anew": "rm -f new.1; echo evil > new.1",
    "exchange": "echo evil > mine; python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b\"mine\", -100, b\"new.1\", 2)'",
    "away": "mkdir -p sub; mv new.1 sub/x && exec 9<>sub/x && mv sub/x new.1; sleep 1.5; echo evil >&9",
    "truncate": "truncate -s 0 new.1; echo evil > new.1",
    "number": "for i in $(seq 300); do echo > n$i; rm n$i; done; exec 9<>new.1; sleep 1.5; echo evil >&9",
}


def save_by_renaming(start, work, script, options):
    """How long the new file stood beside the old one, in seconds."""
    for name in ("ready", "new.1", "mine"):
        (work / name).unlink(missing_ok=True)
    (work / ".envrc").write_text("export A=1\n")
    running = start(["bailey", "run", *options, "--", "sh", "-c", script], cwd=work)
    wait_for(lambda: (work / "ready").exists(), "the attack")
    time.sleep(0.1)  # what is as old as the sandbox is nobody's save, and clocks of file systems tick slowly
    began = time.monotonic()
    (work / "new.1").write_text("export A=2\n")
    time.sleep(0.3)
    with contextlib.suppress(FileNotFoundError):
        os.rename(work / "new.1", work / ".envrc")
    took = time.monotonic() - began
    running.wait(20)
    return took


@pytest.mark.parametrize("options", [(), ("--deny-read", "**/*.pem")], ids=["plain", "globs"])
@pytest.mark.parametrize("how", CATCH)
@pytest.mark.rows
def test_a_file_that_is_about_to_be_renamed(start, work, how, options):
    script = f"touch ready; while ! test -e new.1; do sleep .01; done; {CATCH[how]}"
    for _ in range(5):
        if save_by_renaming(start, work, script, options) < 0.9:
            break  # on a machine that stands still for longer it proves nothing
    else:
        pytest.fail("this machine is too slow to tell")
    assert (work / ".envrc").read_text() in ("export A=1\n", "export A=2\n")


def test_others_files_can_be_changed_after_a_moment(start, work):
    (work / "sub").mkdir()
    running = start(["bailey", "run", "--", "sh", "-c", "touch ready; while ! test -e b; do :; done; echo c >> sub/a; date +%s%N > mid; "
                     "echo c >> a; date +%s%N > sub/end; rm b"], cwd=work)
    wait_for(lambda: (work / "ready").exists(), "the attack")
    time.sleep(0.1)
    for name in ("a", "sub/a", "b"):
        (work / name).write_text("b\n")
    assert running.wait(20).status == 0
    assert (work / "a").read_text() == (work / "sub/a").read_text() == "b\nc\n" and not (work / "b").exists()
    assert int((work / "sub/end").read_text()) - int((work / "mid").read_text()) < 2e9


def test_own_files_wait_for_nothing(sh, work):
    (work / "old").write_text("x\n")
    sh("""s=$(date +%s%N); for i in 1 2 3 4 5; do echo $i > f$i; echo $i >> f$i; mv f$i g$i; echo >> g$i; ln g$i h$i; echo >> h$i; rm h$i
        cp g$i k$i; sed -i s/x/y/ old; echo >> old; chmod 600 k$i; mkdir d$i; echo > d$i/x; mv d$i/x x$i; echo >> x$i; truncate -s 0 x$i; done
        e=$(date +%s%N); test $(((e - s) / 1000000)) -lt 900""").check()
