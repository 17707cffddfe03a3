# SPDX-License-Identifier: Apache-2.0
"""Guests and their state: killed at any moment, with databases that cannot be used, with accounts. GUEST_KILLS in the
environment says how often commands are killed; a few times by default."""
import json
import os
import pathlib
import pwd
import random
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time

import pytest

from conftest import program
from kit.process import wait_until
from test_guest_life import guest, inside, rows, state, top  # noqa: F401

KILLS = int(os.environ.get("GUEST_KILLS", "16"))


def test_databases_that_cannot_be_used(guest, home):
    guest("create", "one").check()
    inside(guest, "one", "echo precious > file").check()
    guest("stop", "one").check()
    where = pathlib.Path(rows(guest)["one"]["home"])
    database = home / ".local/state/bailey/guests.db"

    connection = sqlite3.connect(database)
    connection.execute("pragma user_version = 999")
    connection.commit()
    newer = guest("ls")
    assert newer.status != 0 and "newer" in newer.errors
    connection.execute("pragma user_version = 1")
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
             ("revoke", "keep", str(granted))]
    for turn in range(KILLS):
        words = verbs[turn % len(verbs)] if KILLS < 50 else chance.choice(verbs)
        child = subprocess.Popen([str(program("bailey")), "guest", *words], env=environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(chance.random() * 0.12)
        child.send_signal(signal.SIGKILL)
        child.wait()
        wait_until(lambda: all(row["state"] != "creating" for row in rows(guest).values()))
        assert rows(guest)["keep"]["state"] != "broken", (words, rows(guest))
    wait_until(lambda: guest("stop", "keep").status == 0)
    if state(guest, "keep") == "archived":
        guest("unarchive", "keep").check()
    assert inside(guest, "keep", "cat file; tail -1 numbers").check().text == "precious\n200000\n"
    guest("stop", "keep").check()
    left = {path.name for path in pathlib.Path(rows(guest)["keep"]["home"]).parent.iterdir()}
    assert not left & {"home.new", "pack.part"}, left


def accounts():
    return {entry.pw_name for entry in pwd.getpwall() if entry.pw_name.startswith("bailey_")}


@pytest.fixture
def network(closing):
    """A network of the test's own: firewalls of accounts are installed in the network that a command runs in."""
    class Network:
        def __init__(self):
            self.process = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep 600"], stdout=subprocess.PIPE)
            assert self.process.stdout.readline() == b"up\n"
            self.words = ["nsenter", f"--net=/proc/{self.process.pid}/ns/net", "--"]

        def close(self):
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()

        def run(self, *words):
            return subprocess.run([*self.words, *words], capture_output=True, text=True, timeout=60)
    return closing(Network())


@pytest.mark.root
def test_an_account_comes_and_goes(guest, run, top, network):
    """As root itself: an account for the guest, a firewall for its uid, and nothing of them afterwards."""
    def there(*words):
        return run([*network.words, program("bailey"), "guest", *words])

    before, ids = accounts(), [pathlib.Path(name).read_text() for name in ("/etc/subuid", "/etc/subgid")]
    try:
        there("create", "--account", "one").check()
        made = (accounts() - before).pop()
        entry = pwd.getpwnam(made)
        assert entry.pw_shell.endswith("nologin") and len(made) <= 32
        assert [line for line in pathlib.Path("/etc/shadow").read_text().splitlines() if line.startswith(made + ":!")]
        row = rows(guest)["one"]
        assert row["kind"] == "account" and row["uid"] == entry.pw_uid
        assert there("exec", "one", "--", "sh", "-c", "id -u; cat /etc/shadow 2>/dev/null; touch file").check().text == f"{entry.pw_uid}\n"
        assert (pathlib.Path(row["home"]) / "file").stat().st_uid == entry.pw_uid
        there("stop", "one").check()
        firewall_holds(network, entry.pw_uid)

        assert network.run("nft", "flush", "chain", "inet", "bailey_guests", "output").returncode == 0
        refused = there("start", "one")
        assert refused.status == 5 and "does not hold" in refused.errors and state(guest, "one") == "stopped", refused
        assert network.run("nft", "delete", "table", "inet", "bailey_guests").returncode == 0
        assert there("start", "one").status == 5
        there("fix", "one").check()
        there("start", "one").check()
        firewall_holds(network, entry.pw_uid)
    finally:
        deleted = there("delete", "--force", "one")
    assert accounts() == before and list(top.iterdir()) == [], deleted
    assert "bailey_guests" not in network.run("nft", "list", "tables").stdout
    assert ids == [pathlib.Path(name).read_text() for name in ("/etc/subuid", "/etc/subgid")]


SENDERS = """
import socket
def tried(what, family, kind, protocol, send):
    try:
        send(socket.socket(family, kind, protocol)); print(what, "left")
    except OSError as error:
        print(what, "refused")
tried("udp", socket.AF_INET, socket.SOCK_DGRAM, 0, lambda s: s.sendto(b"x", ("127.0.0.1", 53)))
tried("udp6", socket.AF_INET6, socket.SOCK_DGRAM, 0, lambda s: s.sendto(b"x", ("::1", 53)))
tried("tcp", socket.AF_INET, socket.SOCK_STREAM, 0, lambda s: s.connect(("127.0.0.1", 7777)))
tried("ping", socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP, lambda s: s.sendto(b"\\x08\\0\\0\\0\\0\\0\\0\\0", ("127.0.0.1", 0)))
"""
LISTENER = "import socket, time\ns = socket.create_server((\"127.0.0.1\", 7777)); print(\"up\", flush=True); time.sleep(60)"


def firewall_holds(network, uid):
    """The uid gets nowhere; another one does, so that it is the firewall."""
    listener = subprocess.Popen([*network.words, "/usr/bin/python3", "-c", LISTENER], stdout=subprocess.PIPE)
    try:
        assert listener.stdout.readline() == b"up\n"
        for who, wanted in ((uid, "refused"), (uid + 1, "left")):
            said = network.run("setpriv", f"--reuid={who}", f"--regid={who}", "--clear-groups", "/usr/bin/python3", "-c", SENDERS)
            *others, ping = said.stdout.splitlines()
            assert others == [f"{what} {wanted}" for what in ("udp", "udp6", "tcp")], (who, said)
            assert who != uid or ping == "ping refused", "whether others may ping is the machine's affair"
    finally:
        listener.kill()
        listener.wait()
        listener.stdout.close()


@pytest.mark.root
def test_an_account_by_sudo(run, network):
    """Root makes and removes, the rest belongs to whoever called sudo, also while that user has processes."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="bailey-sudo-", dir="/tmp"))
    user = f"baileysudo{os.getpid()}"
    files = [pathlib.Path(name) for name in ("/etc/subuid", "/etc/subgid")]
    subprocess.run(["useradd", "--no-create-home", "--home-dir", place, user], check=True)
    entry, before = pwd.getpwnam(user), accounts()
    os.chown(place, entry.pw_uid, entry.pw_gid)
    waiting = subprocess.Popen(["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", "sleep", "600"])
    try:
        ids = [path.read_text() for path in files]

        def sudo(*words):
            return run([*network.words, program("bailey"), "guest", *words], env={"SUDO_UID": str(entry.pw_uid)})
        sudo("create", "--account", "one").check()
        made = pwd.getpwnam((accounts() - before).pop())
        assert all(f"{user}:{number}:1\n" in path.read_text() for path, number in zip(files, (made.pw_uid, made.pw_gid)))
        assert (place / ".local/state/bailey/guests.db").stat().st_uid == entry.pw_uid
        firewall_holds(network, made.pw_uid)
        sudo("delete", "--force", "one").check()
        assert accounts() == before and ids == [path.read_text() for path in files]
        assert "bailey_guests" not in network.run("nft", "list", "tables").stdout
    finally:
        waiting.kill()
        waiting.wait()
        for left in accounts() - before:
            subprocess.run(["userdel", "--force", left], check=False)
        subprocess.run(["userdel", "--force", user], check=False)
        shutil.rmtree(place)


@pytest.mark.user
def test_an_account_needs_root(guest):
    refused = guest("create", "--account", "one")
    assert refused.status == 5 and "sudo" in refused.errors and rows(guest) == {}
