# SPDX-License-Identifier: Apache-2.0
"""Guests and their state: killed at any moment, with databases that cannot be used. GUEST_KILLS in the
environment says how often commands are killed."""
import json
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import time

import pytest

from conftest import program
from kit.process import wait_until
from test_guest_life import guest, inside, rows, state, top  # noqa: F401

KILLS = int(os.environ.get("GUEST_KILLS", "200"))
SPAN = 0.12  # how long a verb is expected to take until it is known


class Killer:
    """Kills a command at a random moment of its life. How long that is it learns from those that ended first."""

    def __init__(self, environment, seed, span=SPAN, where=()):
        self.environment, self.chance, self.span, self.where, self.spans = environment, random.Random(seed), span, where, {}

    def kill(self, *words):
        span = self.spans.get(words[0], self.span)
        began = time.monotonic()
        child = subprocess.Popen([*self.where, str(program("bailey")), "guest", *words], env=self.environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            child.wait(self.chance.random() * span)
            self.spans[words[0]] = max(time.monotonic() - began, span / 2)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
            self.spans[words[0]] = min(span * 1.2, 1.5)


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

    whole = database.read_bytes()
    for damaged in (b"SQLite format 3\0" + os.urandom(4096), b"no database at all, but long enough to be looked at" * 100):
        for beside in ("guests.db-wal", "guests.db-shm"):
            database.with_name(beside).unlink(missing_ok=True)
        database.write_bytes(damaged)
        broken = guest("ls")
        assert broken.status != 0 and "damaged" in broken.errors and "taken over" in broken.errors, broken
        assert (where / "file").read_text() == "precious\n"
    database.rename(database.with_name("guests.db.broken"))
    assert inside(guest, "one", "cat file").check().text == "precious\n", "a new database takes the guests over"
    assert len(whole) > 0


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


def test_killed_at_any_moment(guest, home, environment, tmp_path, free_port):
    """The next command finishes or rolls back; a file that was there is there, in the home or in an archive."""
    guest("create", "keep").check()
    inside(guest, "keep", "echo precious > file; seq 200000 > numbers").check()
    guest("stop", "keep").check()
    guest("snapshot", "keep", "first").check()
    chance = random.Random(17)
    recipe, granted = tmp_path / "recipe.yaml", home / "granted"
    recipe.write_text("environment: {A: b}\nfiles: {made/by-recipe: x}\ncommands: ['echo provisioned']\n")
    recipe.chmod(0o600)
    granted.mkdir()
    verbs = [("create", "x"), ("delete", "--force", "x"), ("snapshot", "keep", "s"), ("restore", "keep", "first"), ("archive", "keep"),
             ("unarchive", "keep"), ("start", "keep"), ("stop", "keep"), ("rename", "x", "y"), ("fix", "keep"), ("snapshot", "--remove", "keep", "s"),
             ("provision", "--again", "keep", str(recipe)), ("ports", "--publish", f"{free_port()}:80", "keep"), ("grant", "keep", str(granted)),
             ("revoke", "keep", str(granted)), ("exec", "keep", "--", "true"), ("exec", "-d", "keep", "--", "sleep", "5"),
             ("cp", str(recipe), "keep:copied"), ("logs", "keep"), ("ssh-config", "keep"), ("set", "--idle", "1h", "keep"), ("shell", "keep"),
             ("ls",), ("show", "keep"), ("jobs", "keep"), ("grants", "keep"), ("snapshots", "keep"), ("cp", "keep:file", str(tmp_path / "out")),
             ("create", "--from", "keep:first", "z"), ("delete", "--force", "z"), ("create", "--recipe", str(recipe), "w"), ("delete", "--force", "w")]
    killer = Killer(environment, 17)
    for turn in range(KILLS):
        words = verbs[turn % len(verbs)] if turn < 100 else chance.choice(verbs)
        killer.kill(*words)
        wait_until(lambda: all(row["state"] != "creating" for row in rows(guest).values()))
        assert rows(guest)["keep"]["state"] != "broken", (words, rows(guest))
    wait_until(lambda: guest("stop", "keep").status == 0)
    if state(guest, "keep") == "archived":
        guest("unarchive", "keep").check()
    assert inside(guest, "keep", "cat file; tail -1 numbers").check().text == "precious\n200000\n"
    guest("stop", "keep").check()
    left = {path.name for path in pathlib.Path(rows(guest)["keep"]["home"]).parent.iterdir()}
    assert not left & {"home.new", "pack.part"}, left
