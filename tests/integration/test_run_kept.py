# SPDX-License-Identifier: Apache-2.0
"""What a sandbox made under protected names: kept aside, also when several sandboxes share a place, and when Bailey is killed."""
import contextlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import time

import pytest

from conftest import program
from kit.git import ENVIRONMENT, git
from kit.process import SANITIZED, SLOW, wait_until

pytestmark = pytest.mark.visible_home
GIT = f"export {' '.join(f'{name}={value}' for name, value in ENVIRONMENT.items())}; "


@pytest.fixture
def begin(home, work, temporary):
    """begin(script, *options): a sandbox in the background, in a process group of its own."""
    running = []

    def run(script, *options):
        env = {**os.environ, "HOME": str(home), "TMPDIR": str(temporary)}
        for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            env.pop(name, None)
        child = subprocess.Popen([program("bailey"), "run", *map(str, options), "--", "sh", "-c", script], cwd=work, env=env,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        running.append(child)
        return child

    yield run
    for child in running:
        if child.poll() is None:
            child.kill()
        child.communicate()


def wait_for(path, there=True):
    deadline = time.monotonic() + 30
    while os.path.lexists(path) != there and time.monotonic() < deadline:
        time.sleep(0.02)
    assert os.path.lexists(path) == there, path


@pytest.fixture
def kept(bailey, work):
    return lambda *words: json.loads(bailey("kept", "ls", "--json", *words, cwd=work).check().text)


def test_kept_shown_and_put_back(sh, bailey, work, kept):
    result = sh("mkdir -p .vscode/deep; echo work > .vscode/deep/tasks.json; echo x > .envrc; ln -s /etc .cursor").check()
    assert "moved away" in result.errors and "bailey kept" in result.errors and "removed" not in result.errors
    entries = kept()
    assert {os.path.basename(entry["path"]) for entry in entries} == {".vscode", ".envrc", ".cursor"}
    for entry in entries:
        assert os.path.lexists(entry["kept"]) and not os.path.lexists(entry["path"])
    run = entries[0]["id"]
    assert ".envrc" in bailey("kept", cwd=work).check().text
    bailey("kept", "restore", run, str(work / ".envrc"), cwd=work).check()
    assert (work / ".envrc").read_text() == "x\n" and not (work / ".vscode").exists()
    bailey("kept", "restore", run, cwd=work).check()
    assert (work / ".vscode/deep/tasks.json").read_text() == "work\n" and os.readlink(work / ".cursor") == "/etc"
    assert bailey("kept", "restore", run, cwd=work).status == 4 and not kept()


@pytest.mark.parametrize("script, names", [
    ("echo 'gitdir: x' > .git", [".git"]), ("mkdir own; ln -s own .git", [".git"]), ("mkfifo .git", [".git"]),
    ("mkdir -p .git/hooks; echo x > .git/hooks/pre-commit", [".git/hooks"]),
])
def test_the_notice_names_what_was_there(sh, work, script, names):
    """And nothing below it that was not."""
    result = sh(script).check()
    assert all(f"{name}" in result.errors for name in names), result
    assert "branches" not in result.errors and "config" not in result.errors, result


def test_put_back_never_overwrites(sh, bailey, work, kept):
    sh("echo theirs > .envrc").check()
    (work / ".envrc").write_text("mine\n")
    result = bailey("kept", "restore", kept()[0]["id"], cwd=work)
    assert result.status == 1 and "something is there" in result.errors and (work / ".envrc").read_text() == "mine\n"
    assert bailey("kept", "rm", "all", cwd=work).status == 0 and not kept()


def test_what_is_kept_is_out_of_reach(sh, work, kept):
    sh("echo secret > .envrc").check()
    place = kept()[0]["kept"]
    assert sh(f"cat {place}").status != 0


def test_a_repository_keeps_what_is_harmless(sh, work, kept):
    result = sh(GIT + "git init -q; git remote add origin https://example.com/a.git; git remote add ssh git@example.com:a/b.git; "
                "git remote add evil 'ext::sh -c x'; git config alias.x '!touch /tmp/x'; git config core.fsmonitor ./x; "
                "git config branch.main.remote origin; git config branch.main.merge refs/heads/main; git commit -q --allow-empty -m x").check()
    text = (work / ".git/config").read_text()
    assert "https://example.com/a.git" in text and "git@example.com:a/b.git" in text and "refs/heads/main" in text
    assert "ext::" not in text and "alias" not in text and "fsmonitor" not in text
    assert "harmless" in result.errors
    (entry,) = [entry for entry in kept() if entry["path"].endswith(".git/config")]
    with open(entry["kept"], encoding="utf-8") as file:
        assert "fsmonitor" in file.read()
    assert git("status", cwd=work).returncode == 0


@pytest.mark.parametrize("first_ends", [True, False])
def test_two_sandboxes_in_one_workspace(begin, home, work, first_ends):
    """The first to end frees no name for the other."""
    late = ("while [ ! -e go ]; do sleep 0.05; done; mkdir -p .vscode; echo evil > .vscode/tasks.json; echo evil > .envrc; "
            f"printf '[core]\\n\\tfsmonitor = \"touch {home}/ran; false\"\\n' >> .git/config")
    early = GIT + "git init -q; mkdir .vscode; echo a > .envrc; touch made; while [ ! -e first ]; do sleep 0.05; done"
    one = begin(early)
    wait_for(work / "made")
    two = begin("touch there; " + late)
    wait_for(work / "there")
    if first_ends:
        (work / "first").touch()
        one.communicate(timeout=30)
        (work / "go").touch()
        two.communicate(timeout=30)
    else:
        (work / "go").touch()
        two.communicate(timeout=30)
        (work / "first").touch()
        one.communicate(timeout=30)
    assert not (work / ".vscode").exists() and not (work / ".envrc").exists()
    git("status", cwd=work)
    assert not (home / "ran").exists()


def test_sandboxes_that_share_a_root_only(begin, home, work):
    """Another workspace, and the same directory for writing."""
    shared = home / "shared"
    shared.mkdir()
    one = begin(f"echo a > {shared}/.envrc; touch {shared}/made; while [ ! -e {shared}/first ]; do sleep 0.05; done", "--write", shared)
    wait_for(shared / "made")
    other = home / "elsewhere"
    other.mkdir()
    two = begin(f"touch {shared}/there; while [ ! -e {shared}/go ]; do sleep 0.05; done; echo evil > {shared}/.envrc",
                "--workspace", other, "--write", shared)
    wait_for(shared / "there")
    (shared / "first").touch()
    one.communicate(timeout=30)
    (shared / "go").touch()
    two.communicate(timeout=30)
    assert not (shared / ".envrc").exists()


def slots_in_use(home):
    return [file for file in (home / ".local/state/bailey/guards").iterdir() if file.name.isdigit() and file.stat().st_size]


@pytest.mark.parametrize("long_one", ["ends", "is killed"])
def test_short_runs_beside_a_long_one(begin, bailey, home, work, kept, long_one):
    """Each of them leaves what it planted to the one that still writes there, and nothing else: no record for each."""
    child = begin("touch there; while [ ! -e go ]; do sleep 0.05; done")
    wait_for(work / "there")
    for number in range(12):
        begin(f"mkdir -p .vscode; echo {number} > .vscode/tasks.json; echo {number} > .envrc").communicate(timeout=30)
        assert len(slots_in_use(home)) == 1, number
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    bailey("run", "--workspace", elsewhere, "--", "true", cwd=work).check()
    assert (work / ".vscode").exists(), "nobody sweeps while somebody writes there"

    if long_one == "ends":
        (work / "go").touch()
        child.communicate(timeout=30)
    else:
        kill_all(child)
        bailey("run", "--workspace", elsewhere, "--", "true", cwd=work)
    assert not (work / ".vscode").exists() and not (work / ".envrc").exists() and not slots_in_use(home)
    assert {os.path.basename(entry["path"]) for entry in kept()} == {".vscode", ".envrc"}


def test_who_has_not_begun_takes_over_nothing(begin, home, work):
    """A launch that fails sweeps nothing. What was planted beside it waits for somebody who does."""
    child = begin("touch there; while [ ! -e go ]; do sleep 0.05; done")
    wait_for(work / "there")
    (slot,) = slots_in_use(home)
    whole = slot.read_bytes()
    before, _, rest = whole.partition(b"first\0")
    slot.write_bytes(before + rest.partition(b"\0")[2])
    begin("echo evil > .envrc").communicate(timeout=30)
    assert len(slots_in_use(home)) == 2
    slot.write_bytes(whole)
    (work / "go").touch()
    child.communicate(timeout=30)
    assert not (work / ".envrc").exists() and not slots_in_use(home)


def test_rows_of_the_dead_hide_nobody(begin, bailey, work):
    """Five runs were killed, and nobody waited for their supervisors: their numbers are still theirs. Who ends beside one that runs
    moves nothing away that this one made."""
    for number in range(5):
        child = begin(f"touch there{number}; while :; do sleep 1; done")
        wait_for(work / f"there{number}")
        inside = descendants(child.pid)
        os.kill(child.pid, signal.SIGSTOP)
        for pid in [*reversed(inside), child.pid]:
            with contextlib.suppress(ProcessLookupError):  # `sleep` ends by itself
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(is_alive(pid) for pid in [*inside, child.pid]), what="the end of all of them")
    bailey("run", "--", "true", cwd=work)
    long_one = begin("echo mine > .envrc; touch there; while [ ! -e go ]; do sleep 0.05; done")
    wait_for(work / "there")
    begin("true").communicate(timeout=30)
    assert (work / ".envrc").exists()
    (work / "go").touch()
    long_one.communicate(timeout=30)
    assert not (work / ".envrc").exists()


def test_many_places_at_once(begin, bailey, home, work):
    """Of twelve sandboxes in as many places, half of which are killed while nobody waits for them: the next one, elsewhere, sweeps their
    places and no others. The free records of the many do not stay."""
    places = [home / f"place{number}" for number in range(12)]
    children = []
    for place in places:
        place.mkdir()
        children.append(begin(f"cd {place}; echo evil > .envrc; touch there; while [ ! -e go ]; do sleep 0.05; done", "--workspace", place))
    for place in places:
        wait_for(place / "there")
    for child in children[::2]:
        inside = descendants(child.pid)
        os.kill(child.pid, signal.SIGSTOP)
        for pid in [*reversed(inside), child.pid]:
            with contextlib.suppress(ProcessLookupError):  # `sleep` ends by itself
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(is_alive(pid) for pid in [*inside, child.pid]), what="the end of all of them")  # it has its number still

    bailey("run", "--", "true", cwd=work)
    assert [(place / ".envrc").exists() for place in places] == [False, True] * 6
    for place, child in zip(places[1::2], children[1::2]):
        (place / "go").touch()
        child.communicate(timeout=30)
    assert not any((place / ".envrc").exists() for place in places)
    bailey("run", "--", "true", cwd=work)
    assert len([file for file in (home / ".local/state/bailey/guards").iterdir() if file.name.isdigit()]) <= 8


DAMAGES = {"torn": lambda table: table.write_bytes(table.read_bytes()[:200]), "other": lambda table: table.write_bytes(os.urandom(4096)),
           "empty": lambda table: table.write_bytes(b""), "gone": lambda table: table.unlink(), "old": None,
           "link": lambda table: (table.unlink(), table.symlink_to("/etc/passwd")), "directory": lambda table: (table.unlink(), table.mkdir())}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_table_that_is_damaged(begin, bailey, home, work, damage):
    """Then every record is read: a second sandbox takes over the names of the first, and what is left is swept."""
    table = home / ".local/state/bailey/guards/table"
    bailey("run", "--", "true", cwd=work).check()
    before = table.read_bytes()
    one = begin("echo a > .envrc; touch there; while [ ! -e go ]; do sleep 0.05; done")
    wait_for(work / "there")
    DAMAGES[damage](table) if DAMAGES[damage] else table.write_bytes(before)
    two = begin("touch second; while [ ! -e end ]; do sleep 0.05; done; echo evil > .envrc")
    wait_for(work / "second")
    (work / "go").touch()
    one.communicate(timeout=30)
    (work / "end").touch()
    two.communicate(timeout=30)
    assert not (work / ".envrc").exists() and not slots_in_use(home)
    assert damage != "link" or not os.stat("/etc/passwd").st_size == 0


PLANT = "trap '' TERM INT HUP; mkdir .vscode; echo evil > .vscode/tasks.json; echo evil > .envrc; touch planted; while :; do sleep 1; done"


# What `timeout -k`, a runner of jobs, a closed terminal and a person's keys send; and Bailey as a part of a script that is ended.
GROUP_ENDS = {"timeout": ["TERM", "KILL"], "killed at once": ["KILL"], "terminal": ["HUP", "KILL"], "keys": ["INT", "QUIT", "KILL"],
              "stopped before": ["STOP", "KILL"], "impatient": ["TERM", "TERM", "INT", "KILL"]}


@pytest.mark.parametrize("how", GROUP_ENDS)
def test_one_signal_for_the_whole_group(begin, work, sh, kept, how):
    child = begin(PLANT)
    wait_for(work / "planted")
    for name in GROUP_ENDS[how]:
        os.killpg(child.pid, getattr(signal, f"SIG{name}"))
        time.sleep(0.1)
    child.communicate(timeout=30 * SLOW)
    wait_for(work / ".vscode", there=False)
    wait_for(work / ".envrc", there=False)
    sh("true").check()
    assert {os.path.basename(entry["path"]) for entry in kept()} == {".vscode", ".envrc"}
    assert not [name for name in os.listdir(work) if "bailey-kept" in name]


@pytest.mark.exact_build  # under sanitizers the time is over before the command starts
def test_timeout_ends_it(work, environment):
    """The program itself, with a command that ignores the first signal; and a pipeline of a shell around it."""
    for wrap in ("timeout -k 0.3 {}", "timeout -s KILL {}", "sh -c 'timeout -k 0.3 {} \"$@\" | cat' sh"):
        for seconds in (1, 4, 16):  # a machine in use may not come to plant anything in the first
            subprocess.run([*shlex.split(wrap.format(seconds)), program("bailey"), "run", "-q", "--", "sh", "-c", PLANT], cwd=work, env=environment, check=False,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60 * SLOW)
            wait_for(work / ".vscode", there=False)
            wait_for(work / ".envrc", there=False)
            if (work / "planted").exists():
                break
        (work / "planted").unlink()


def descendants(pid):
    found = []
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = [int(word) for word in file.read().split()]
    except OSError:
        return found
    for child in children:
        found += [child, *descendants(child)]
    return found


def is_alive(pid):
    """A zombie holds nothing any more."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def kill_all(child):
    """Supervisor and init at once; whoever lives holds the lock."""
    inside = descendants(child.pid)
    os.kill(child.pid, signal.SIGSTOP)
    for pid in reversed(inside):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    os.kill(child.pid, signal.SIGKILL)
    child.communicate(timeout=30)
    wait_until(lambda: not any(is_alive(pid) for pid in inside), what="the end of all of them")


@pytest.mark.parametrize("how", ["run", "doctor", "kept sweep"])
def test_what_a_killed_run_left_is_swept_by_the_next(begin, bailey, sh, work, home, kept, how):
    """Supervisor and init die at once, as by the OOM killer."""
    child = begin(PLANT)
    wait_for(work / "planted")
    kill_all(child)
    assert (work / ".vscode").exists()
    if how == "run":
        result = bailey("run", "--workspace", home / "w2", "--", "true", cwd=work) if (home / "w2").mkdir() is None else None
        assert "earlier command" in result.errors
    else:
        bailey(*how.split(), cwd=work)
    assert not (work / ".vscode").exists() and not (work / ".envrc").exists()
    assert {os.path.basename(entry["path"]) for entry in kept()} == {".vscode", ".envrc"}


def test_a_long_record_is_read(begin, bailey, home, work):
    """A run that was killed while it moved a directory with thousands of repositories has noted their old and new paths."""
    child = begin(PLANT)
    wait_for(work / "planted")
    kill_all(child)
    record = next(file for file in (home / ".local/state/bailey/guards").iterdir() if file.name.isdigit() and file.stat().st_size)
    with record.open("ab") as file:
        for number in range(5000):
            file.write(b"made\0" + f"{work}/{number}/{'x' * 3900}/.git".encode() + b"\0")
    bailey("kept", "sweep", cwd=work).check()
    assert not (work / ".vscode").exists() and not (work / ".envrc").exists() and record.stat().st_size == 0


# Repositories with long paths, for a record of so many bytes, and their directory moved all the time. One run may note 8 MiB.
MOVES = """
import os, sys
base = os.getcwd(); os.mkdir("one"); os.chdir("one"); n = len(base) + 4
while n + 251 < 4000: os.mkdir("d" * 250); os.chdir("d" * 250); n += 251
full = int(sys.argv[1]); i = 0
while full > 2 * 4096:
    os.makedirs(f"{i:04}/.git"); full -= n + 10; i += 1
os.chdir(base); open("ready", "w").close()
a, b = "one", "two"
while True: os.rename(a, b); a, b = b, a
"""


def test_a_move_that_is_cut_off(sh, home, work):
    """The record of a run that ends in the middle of a move is as good as any."""
    (work / "moves.py").write_text(MOVES)
    # The longest is seconds of work, and 20 under sanitizers.
    for seconds, size in (("0.5", 1 << 20), ("0.71", 1 << 20), ("0.93", 8 << 20))[:2 if SANITIZED else 3]:
        sh(f"echo evil > .envrc; mkdir .vscode; /usr/bin/python3 moves.py {size} & while ! [ -e ready ]; do sleep 0.1; done; sleep {seconds}").check()
        assert not (work / ".envrc").exists() and not (work / ".vscode").exists()
        sh("rm -rf one two ready").check()


TAKEN = ("for n in .envrc .vscode; do touch $n.bailey-kept-$BAILEY_SANDBOX; i=1; while [ $i -lt 100 ]; do touch $n.bailey-kept-$BAILEY_SANDBOX-$i; i=$((i+1)); done; done; ")


def test_names_beside_that_are_taken(begin, work):
    """The sandbox knows its id, and so the names that init, which does not see the store, gives to what it moves away."""
    child = begin(TAKEN + PLANT)
    wait_for(work / "planted")
    child.kill()
    child.communicate(timeout=30)
    wait_for(work / ".envrc", there=False)
    wait_for(work / ".vscode", there=False)


def test_names_beside_that_are_taken_where_the_store_is_elsewhere(bailey, work):
    if os.stat("/dev/shm").st_dev == os.stat(work).st_dev or not os.access("/dev/shm", os.W_OK):
        pytest.skip("no second file system")
    state = pathlib.Path("/dev/shm") / f"bailey-state-{os.getpid()}"
    state.mkdir(mode=0o700)
    try:
        bailey("run", "--", "sh", "-c", TAKEN + "echo evil > .envrc; mkdir .vscode; echo evil > .vscode/tasks.json", cwd=work, env={"XDG_STATE_HOME": str(state)}).check()
        assert not (work / ".envrc").exists() and not (work / ".vscode").exists()
    finally:
        shutil.rmtree(state)


def test_several_sweeps_of_one_run_keep_all_of_it(sh, work, kept):
    sh(GIT + "for i in 1 2 3 4; do git init -q r$i; echo evil > r$i/.git/hooks/pre-commit; git init -q --bare b$i; echo evil > b$i/hooks/update; done; "
       "git init -q; echo evil > .git/hooks/pre-push").check()
    assert not [path for path in work.rglob("*") if "bailey-kept" in path.name or path.name in ("pre-commit", "update", "pre-push")]
    assert len([entry for entry in kept() if entry["path"].endswith("/hooks")]) == 9


def test_a_deep_tree_is_out_of_the_way_at_once(sh, bailey, work, kept):
    (work / "deep.py").write_text("import os\ntry:\n    for _ in range(3000):\n        os.mkdir('d')\n        os.chdir('d')\nexcept OSError:\n    pass\n")
    sh("mkdir .vscode; cd .vscode; /usr/bin/python3 ../deep.py").check()
    assert not (work / ".vscode").exists() and len(kept()) == 1
    bailey("kept", "rm", "all", cwd=work).check()


@pytest.mark.parametrize("plant", [
    "mkdir -p .idea/deep && chmod 000 .idea/deep .idea", "mkfifo .bashrc", "echo x > .envrc; chmod 000 .envrc; chmod 500 .",
    "mkdir fake && ln -s fake .git && mkdir fake/hooks && echo x > fake/hooks/pre-commit",
])
def test_closed_and_odd_things_are_moved_too(sh, work, plant):
    sh(plant)
    os.chmod(work, 0o755)
    for name in (".idea", ".bashrc", ".envrc", ".git/hooks"):
        assert not os.path.lexists(work / name), name


def test_a_command_that_does_not_end_is_ended(begin, work):
    child = begin("trap '' TERM; touch up; while :; do sleep 1; done")
    wait_for(work / "up")
    began = time.monotonic()
    child.send_signal(signal.SIGTERM)
    assert child.wait(timeout=40) == 143 and 5 < time.monotonic() - began < 30


def test_the_record_says_what_happened(sh, home, work):
    sh(GIT + "git init -q; git config alias.x y; echo x > .envrc").check()
    text = "".join(path.read_text() for path in (home / ".local/state/bailey/audit").glob("*.jsonl"))
    assert "moved" in text and ".envrc away" in text and "rewrote" in text and "only harmless settings" in text and "removed" not in text


def fill(home, name, days=0, size=0):
    """What an earlier run left in the store."""
    place = home / ".local/state/bailey/kept" / name
    place.mkdir(parents=True)
    (place / "000-.envrc").write_text("echo old\n")
    if size:
        with open(place / "000-.vscode", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
    when = time.time() - days * 86400
    os.utime(place, (when, when))
    return place


def test_what_is_kept_is_bounded_in_age(sh, home, work):
    old, young = fill(home, "a-run-of-old", days=31), fill(home, "a-run-of-late", days=29)
    result = sh("echo x > .envrc").check()
    assert not old.exists() and young.exists()
    assert "removed what was kept of a-run-of-old" in result.errors and not (work / ".envrc").exists()
    assert old.parent.joinpath("a-run-of-late/000-.envrc").exists()


def test_what_is_kept_is_bounded_in_size(sh, home):
    places = [fill(home, f"run-{days}", days=days, size=400 << 20) for days in (5, 4, 3)]
    result = sh("echo x > .envrc").check()
    assert [place.exists() for place in places] == [False, True, True]
    assert "removed what was kept of run-5" in result.errors


def test_a_run_that_keeps_nothing_removes_nothing(sh, home):
    old = fill(home, "a-run-of-old", days=400)
    assert sh("echo x > plain").check().errors == ""
    assert old.exists()
