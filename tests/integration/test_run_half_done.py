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
    for _ in range(400):
        if (work / "ready").exists():
            break
        time.sleep(0.05)
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
