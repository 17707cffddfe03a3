# SPDX-License-Identifier: Apache-2.0
"""Guests and their state: killed at any moment, with databases that cannot be used."""
import contextlib
import hashlib
import io
import os
import pathlib
import random
import signal
import sqlite3
import stat
import subprocess
import tarfile
import time

import pytest
import zstandard

from conftest import program
from kit import leaks
from kit.process import SLOW, wait_until
from kit.small_disk import small_disk
from test_guest_life import guest, inside, rows, state, top  # noqa: F401

# Of each verb. BAILEY_STRESS=200 is what the promise says, and takes its time.
STRESS = int(os.environ.get("BAILEY_STRESS", "0"))
KILLS = STRESS or (1 if SLOW > 1 else 3)
KNOWN = {"ready", "running", "stopped", "archived"}

# What leads to where a verb has work to do, and the verb. "-" before a command: it may be so already. The guest `keep` has its home.
VERBS = {
    "create": (["-delete --force x"], "create x"),
    "create --from": (["-delete --force x"], "create --from keep:first x"),
    "create --recipe": (["-delete --force x"], "create --recipe {recipe} x"),
    "delete": (["-create x"], "delete --force x"),
    "delete of one that runs": (["-create x", "-start x"], "delete --force x"),
    "delete --keep-home": (["-create x"], "delete --force --keep-home x"),
    "rename": (["-delete --force y", "-create x"], "rename x y"),
    "start": (["stop keep"], "start keep"),
    "stop": (["-start keep"], "stop keep"),
    "fix": (["stop keep"], "fix keep"),
    "set": ([], "set --idle 1h keep"),
    "snapshot": (["-snapshot --remove keep s"], "snapshot keep s"),
    "snapshot of one that runs": (["-start keep", "-snapshot --remove keep s"], "snapshot keep s"),
    "snapshot --remove": (["stop keep", "-snapshot keep s"], "snapshot --remove keep s"),
    "restore": (["stop keep"], "restore keep first"),
    "archive": (["stop keep"], "archive keep"),
    "unarchive": (["stop keep", "archive keep"], "unarchive keep"),
    "provision": ([], "provision --again keep {recipe}"),
    "ports --publish": (["-ports --close {port} keep"], "ports --publish {port}:80 keep"),
    "ports --close": (["-start keep", "-ports --publish {port}:80 keep"], "ports --close {port} keep"),
    "grant": (["-revoke keep {granted}"], "grant keep {granted}"),
    "revoke": (["-grant keep {granted}"], "revoke keep {granted}"),
    "exec": (["stop keep"], "exec keep -- true"),
    "exec of one that runs": (["-start keep"], "exec keep -- true"),
    "exec -d": (["-start keep"], "exec -d keep -- sleep 1"),
    "shell": (["stop keep"], "shell keep"),
    "cp in": (["-exec keep -- rm -f copied"], "cp {recipe} keep:copied"),
    "cp out": (["stop keep"], "cp keep:kept {out}/{turn}"),
    **{name: ([], f"{name} keep") for name in ("ssh-config", "show", "jobs", "grants", "snapshots", "ports")},
    "logs": (["exec -d keep -- true"], "logs keep"),
    "ls": ([], "ls"),
}
# One test for each where there are many; otherwise one for all.
ROUNDS = [[name] for name in VERBS] if STRESS else [list(VERBS)]


def fill_home(place):
    """As the guest: what must never be lost. What an access list's mask closes to the host could not be compared from outside."""
    return f"""mkdir -p kept/deep/er && cd kept && umask 022 && seq 100000 > numbers && for i in 1 2 3 4 5 6 7 8; do echo $i > deep/er/$i; done
        echo precious > "$(printf 'a\\nname')" && chmod 0640 deep/er/1 && ln -s /nowhere link && cp deep/er/2 run && chmod 755 run && touch -d 2001-02-03 run
        cd .. && echo {place} > kept/where"""


def digest_of_home(home):
    """Everything below kept: name, kind, mode, time, and content."""
    found = {}
    for path in sorted((home / "kept").rglob("*")):
        st = path.lstat()
        content = os.readlink(path) if path.is_symlink() else "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(home))] = (stat.S_IFMT(st.st_mode), 0 if path.is_symlink() else st.st_mode & 0o777, int(st.st_mtime), content)
    return found


def digest_of_archive(archive):
    found = {}
    with archive.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as plain:
        packed = io.BytesIO(plain.read())
    with tarfile.open(fileobj=packed) as tar:
        for member in tar:
            name = os.path.normpath(member.name)
            kind = stat.S_IFDIR if member.isdir() else stat.S_IFLNK if member.issym() else stat.S_IFREG
            content = member.linkname if member.issym() else "" if member.isdir() else hashlib.sha256(tar.extractfile(member).read()).hexdigest()
            found[name] = (kind, 0 if member.issym() else member.mode & 0o777, int(member.mtime), content)
    return {name: facts for name, facts in found.items() if name.startswith("kept/")}


class Killer:
    """Kills verbs at random moments of their lives, and looks after each what is left."""

    def __init__(self, guest, environment, seed, names, where=(), account=False):
        self.call, self.environment, self.where, self.names, self.account = guest, environment, where, names, account
        self.chance, self.turn, self.kills, self.met, self.note = random.Random(seed), 0, 0, 0, None

    def guest(self, *words):
        leaks.reap_orphans()
        return self.call(*words)

    def words(self, text):
        words = [word.format(turn=self.turn, **self.names) for word in text.split()]
        return [words[0], "--account", *words[1:]] if self.account and words[0] == "create" else words

    def make_keep(self):
        self.guest(*self.words("create keep")).check()
        self.guest("exec", "keep", "--", "sh", "-c", fill_home("here")).check()
        self.guest("stop", "keep").check()
        self.guest("fix", "keep").check()  # after which it changes nothing any more
        self.guest("snapshot", "keep", "first").check()
        self.digest = digest_of_home(self.home("keep"))
        assert len(self.digest) >= 14

    def home(self, name):
        return pathlib.Path(rows(self.guest)[name]["home"])

    def prepare(self, verb):
        self.turn += 1
        if self.account:
            self.guest("fix", "keep").check()  # whoever was killed may have had its firewall in hand
        if state(self.guest, "keep") == "archived":
            self.guest("unarchive", "keep").check()
        for text in VERBS[verb][0]:
            done = self.guest(*self.words(text.lstrip("-")))
            assert done.status == 0 or text.startswith("-"), (verb, str(done))
        if "--keep-home" in verb:
            self.note = self.home("x") / "note"
            self.note.write_text("stays\n")

    def once(self, verb, moment):
        """Whether it died of this: not when it had ended already."""
        words = [*self.where, str(program("bailey")), "guest", *self.words(VERBS[verb][1])]
        child = subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            child.wait(moment)
        except subprocess.TimeoutExpired:
            self.chance.choice((os.kill, os.killpg))(child.pid, signal.SIGKILL)
        return child.wait() == -signal.SIGKILL

    def check_met(self):
        """A machine that is quicker than it was a moment ago ends some before they are killed, but not most."""
        assert self.met * 4 >= self.kills, f"only {self.met} of {self.kills} met work"

    def look(self, what):
        """Each guest is in a known state, and what was in the home is there, to the last bit."""
        def settled():
            found = rows(self.guest)
            return found if all(row["state"] != "creating" for row in found.values()) else None
        found = wait_until(settled)
        assert all(row["state"] in KNOWN for row in found.values()), (what, found)
        home = pathlib.Path(found["keep"]["home"])
        archived = found["keep"]["state"] == "archived"
        assert (digest_of_archive(home.parent / "archive.tar.zst") if archived else digest_of_home(home)) == self.digest, (what, found)
        if self.note:
            assert self.note.read_text() == "stays\n", (what, found)
            self.note = None

    def verb(self, verb, kills):
        """First whole, so that it is known how long it takes, and that it works from there."""
        self.prepare(verb)
        began = time.monotonic()
        self.guest(*self.words(VERBS[verb][1])).check()
        span, met = time.monotonic() - began, 0
        self.look((verb, "whole"))
        for turn in range(kills):
            self.prepare(verb)
            moment = self.chance.random() * span
            died = self.once(verb, moment)
            span *= 1.1 if died else 0.6
            met += died
            self.look((verb, turn, moment))
        print(f"{verb}: {met} of {kills} died at work, within {span * 1000:.0f} ms")
        self.kills, self.met = self.kills + kills, self.met + met


def test_databases_that_cannot_be_used(guest, home):
    guest("create", "one").check()
    inside(guest, "one", "echo precious > file").check()
    guest("stop", "one").check()
    where = pathlib.Path(rows(guest)["one"]["home"])
    database = home / ".local/state/bailey/guests.db"

    connection = sqlite3.connect(database)
    (version,) = connection.execute("pragma user_version").fetchone()
    connection.execute("pragma user_version = 999")
    connection.commit()
    newer = guest("ls")
    assert newer.status != 0 and "newer" in newer.errors
    connection.execute(f"pragma user_version = {version}")
    connection.commit()

    connection.execute("begin exclusive")
    connection.execute("update guests set used_us = used_us")
    busy = guest("create", "two")
    assert busy.status != 0 and "another process" in busy.errors
    connection.rollback()
    connection.close()

    if os.geteuid() != 0:
        database.chmod(0o400)
        closed = guest("ls")
        assert closed.status != 0 and "guests.db" in closed.errors
        database.chmod(0o600)
    database.chmod(0o644)
    assert "chmod 600" in guest("ls").errors
    database.chmod(0o600)

    for damaged in (b"SQLite format 3\0" + os.urandom(4096), b"no database at all, but long enough to be looked at" * 100):
        put_database(database, damaged)
        broken = guest("ls")
        assert broken.status != 0 and "damaged" in broken.errors and "taken over" in broken.errors, broken
        assert (where / "file").read_text() == "precious\n"
    database.rename(database.with_name("guests.db.broken"))
    assert inside(guest, "one", "cat file").check().text == "precious\n", "a new database takes the guests over"


def put_database(database, content, log=None):
    """As a machine leaves it that lost its power: the file, and what was to be written to it, or nothing of that."""
    for beside in ("guests.db-wal", "guests.db-shm"):
        database.with_name(beside).unlink(missing_ok=True)
    database.write_bytes(content)
    if log is not None:
        database.with_name("guests.db-wal").write_bytes(log)
        database.with_name("guests.db-wal").chmod(0o600)


@pytest.fixture
def precious(guest, home):
    """A guest with a home, which stands still. .database is where the state is, .whole what is in it."""
    class Precious:
        def __init__(self):
            guest("create", "one").check()
            inside(guest, "one", "echo precious > file").check()
            guest("stop", "one").check()
            self.home = pathlib.Path(rows(guest)["one"]["home"])
            self.database = home / ".local/state/bailey/guests.db"
            self.whole = self.database.read_bytes()

        def is_there(self):
            assert (self.home / "file").read_text() == "precious\n"
    return Precious()


def test_a_database_that_is_half_written(guest, precious):
    """It is refused, or all of it is right; never is a guest lost that was in it."""
    whole = precious.whole
    assert len(whole) >= 4 * 4096, "there are pages to lose"
    for size in (50, 100, 4096, len(whole) // 2, len(whole) - 4096):
        put_database(precious.database, whole[:size])
        for words in (("ls", "--json"), ("create", "two"), ("start", "one"), ("delete", "--force", "one")):
            said = guest(*words)
            assert said.status != 0 and "damaged" in said.errors and "taken over" in said.errors, (size, str(said))
        precious.is_there()
        assert precious.database.stat().st_size == size, "it is left as it is"
    put_database(precious.database, whole)
    assert rows(guest)["one"]["state"] == "stopped" and set(rows(guest)) == {"one"}
    for size in (0, 1):
        put_database(precious.database, whole[:size])
        assert set(rows(guest)) == {"one"}, "as if there were none"
    put_database(precious.database, whole[:len(whole) // 2])
    precious.database.rename(precious.database.with_name("guests.db.broken"))
    assert inside(guest, "one", "cat file").check().text == "precious\n", "a new database takes the guests over"


@pytest.mark.root
def test_killed_while_guests_are_taken_over(guest, precious, environment, top):
    """Whoever makes a new database instead of a lost one takes all guests over, or leaves that to the next."""
    info = (precious.home.parent / "info").read_text()
    for number in range(40):
        (top / f"made{number:04}/home").mkdir(parents=True, mode=0o700)
        (top / f"made{number:04}/info").write_text(info.replace("one", f"made{number}", 1))
    wanted = {"one", *(f"made{number}" for number in range(40))}
    chance, met = random.Random(9), 0
    put_database(precious.database, b"")
    began = time.monotonic()
    assert set(rows(guest)) == wanted
    span = time.monotonic() - began
    for turn in range(60):
        if turn >= 12 and met >= 4:
            break
        put_database(precious.database, b"")
        began = time.monotonic()
        child = subprocess.Popen([str(program("bailey")), "guest", "ls"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            child.wait(chance.random() * span)
            span = min(span, time.monotonic() - began)  # the first one was slower
        except subprocess.TimeoutExpired:
            child.kill()
        met += child.wait() == -signal.SIGKILL
        found = rows(guest)
        assert set(found) == wanted and {row["state"] for row in found.values()} == {"stopped"}, found
    assert met >= 4, met
    precious.is_there()


def test_a_log_of_the_database_that_is_torn(guest, precious):
    """What was committed last may be lost with it, and nothing else: the state is the one before or the one after."""
    with contextlib.closing(sqlite3.connect(precious.database)) as reader:
        reader.execute("select count(*) from guests").fetchone()  # as long as it is open, nothing goes from the log to the file
        guest("set", "--idle", "1h", "one").check()
        guest("set", "--idle", "2h", "one").check()
        whole, log = precious.database.read_bytes(), precious.database.with_name("guests.db-wal").read_bytes()
    assert len(log) > 2 * 4096
    chance, seen = random.Random(8), set()
    torn = [log, b"", os.urandom(len(log)), *(log[:size] for size in (16, 32, 33, len(log) // 2, len(log) - 4096, len(log) - 1))]
    for _ in range(6):
        place = chance.randrange(len(log))
        torn.append(log[:place] + bytes([log[place] ^ 0xff]) + log[place + 1:])
    for content in torn:
        put_database(precious.database, whole, content)
        found = rows(guest)
        assert set(found) == {"one"} and found["one"]["state"] == "stopped", found
        seen.add(found["one"]["idle_seconds"])
        precious.is_there()
    assert seen <= {0, 3600, 7200} and {7200} < seen, seen
    assert inside(guest, "one", "cat file").check().text == "precious\n"


@pytest.mark.root
def test_a_read_only_file_system(guest, home):
    """Every verb says so, and everything is there when it can be written again."""
    with small_disk(home, "24m") as place:
        guest("create", "one").check()
        inside(guest, "one", fill_home("here")).check()
        guest("stop", "one").check()
        guest("snapshot", "one", "s").check()
        digest = digest_of_home(pathlib.Path(rows(guest)["one"]["home"]))
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        for words in ("create two", "start one", "exec one -- true", "exec -d one -- true", "set --idle 1h one", "snapshot one t", "restore one s",
                      "archive one", "rename one two", "fix one", "delete --force one", "cp /etc/hostname one:copied", "ls", "show one"):
            said = guest(*words.split())
            assert said.status not in (0, 139) and "ead-only" in said.errors, str(said)
        subprocess.run(["mount", "-o", "remount,rw", place], check=True)
        assert set(rows(guest)) == {"one"} and state(guest, "one") == "stopped"
        assert digest_of_home(pathlib.Path(rows(guest)["one"]["home"])) == digest
        guest("restore", "one", "s").check()
        guest("delete", "--force", "one").check()


def test_a_difference_breaks_and_removes_nothing(guest):
    guest("create", "one").check()
    where = pathlib.Path(rows(guest)["one"]["home"])
    where.rename(where.with_name("elsewhere"))
    shown = rows(guest)["one"]
    assert shown["state"] == "broken" and "gone" in shown["reason"]
    assert guest("start", "one").status != 0 and guest("fix", "one").status != 0
    where.with_name("elsewhere").rename(where)
    assert state(guest, "one") == "ready"
    guest("fix", "one").check()


@pytest.mark.parametrize("verbs", ROUNDS, ids=[verbs[0].replace(" ", "_") if STRESS else "all" for verbs in ROUNDS])
def test_killed_at_any_moment(guest, home, environment, tmp_path, free_port, verbs):
    """The next command finishes or rolls back; the home is there, in its place or in an archive."""
    recipe, granted = tmp_path / "recipe.yaml", home / "granted"
    recipe.write_text("environment: {A: b}\nfiles: {made/by-recipe: x}\ncommands: ['echo provisioned']\n")
    recipe.chmod(0o600)
    for directory in (granted, tmp_path / "out"):
        directory.mkdir()
    killer = Killer(guest, environment, f"17 {verbs[0]}", {"recipe": recipe, "granted": granted, "port": free_port(), "out": tmp_path / "out"})
    killer.make_keep()
    for verb in verbs:
        killer.verb(verb, KILLS)
    killer.check_met()
    if state(guest, "keep") == "archived":
        guest("unarchive", "keep").check()
    guest("stop", "keep").check()
    assert inside(guest, "keep", "tail -1 kept/numbers; cat kept/where").check().text == "100000\nhere\n"
    guest("stop", "keep").check()
    left = {path.name for path in killer.home("keep").parent.iterdir()}
    assert not left & {"home.new", "pack.part"}, left


@pytest.mark.parametrize("broken", [False, True])
def test_a_home_that_is_packed_can_be_kept(guest, broken):
    """By `delete --keep-home`: then the archive is the home."""
    guest("create", "one").check()
    inside(guest, "one", fill_home("here")).check()
    guest("stop", "one").check()
    home = pathlib.Path(rows(guest)["one"]["home"])
    digest, archive = digest_of_home(home), home.parent / "archive.tar.zst"
    guest("archive", "one").check()
    if broken:
        archive.rename(archive.with_name("elsewhere"))
        assert state(guest, "one") == "broken"
        archive.with_name("elsewhere").rename(archive)
    said = guest("delete", "--keep-home", "one").check()
    assert str(archive) in said.text and rows(guest) == {} and digest_of_archive(archive) == digest, said
