# SPDX-License-Identifier: Apache-2.0
"""Guests with accounts of their own: made and removed by root, a firewall by uid outside the sandbox, and the reader of its log. In one
file, whose tests run one after the other: the accounts of a machine are there for all to see."""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import pwd
import select
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time

import pytest

from conftest import program
from kit.hostile_guest import HOSTILE, Targets, pid_of
from kit.process import PATIENCE, wait_until
from test_guest_files import forget_object, granted, make_again, names_for_writing, writable
from test_guest_life import guest, rows, state, top  # noqa: F401
from test_guest_state import KILLS, STRESS, Killer


def accounts():
    return {entry.pw_name for entry in pwd.getpwall() if entry.pw_name.startswith("bailey_")}


def firewall_tables():
    return subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, timeout=60, check=False).stdout


@pytest.fixture(autouse=True)
def firewall_of_this_machine():
    """Stays as it is: a rule for the uid of an account that is gone would meet whoever gets that uid next, other tests among them."""
    before = firewall_tables()
    yield
    assert firewall_tables() == before, "a command that installs or repairs a firewall was run outside of the test's network"


@pytest.fixture
def network(closing):
    """A network of the test's own: firewalls of accounts are installed in the network that a command runs in, or repairs in."""
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


@pytest.mark.root
def test_the_account_of_another_users_guest(guest, run, network):
    """Names of accounts have only the first letters of a user's: root's own word in the account says whose guest it is."""
    def there(*words):
        return run([*network.words, program("bailey"), "guest", *words])

    files = {pathlib.Path(name): pathlib.Path(name).read_text() for name in ("/etc/subuid", "/etc/subgid")}
    before = accounts()
    there("create", "--account", "one").check()
    made = (accounts() - before).pop()
    try:
        subprocess.run(["usermod", "--comment", "Bailey guest of rootbeer", made], check=True)
        for words in (("start", "one"), ("fix", "one")):
            refused = there(*words)
            assert refused.status != 0, refused
        there("delete", "--force", "one")
        assert made in accounts(), "it is not this user's to remove"
    finally:
        subprocess.run(["userdel", "--force", made], check=True)
        for path, text in files.items():
            path.write_text(text)
    assert accounts() == before


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
        gone = subprocess.Popen(["true"])
        gone.wait()
        lock = pathlib.Path("/etc/subuid.lock")
        lock.write_text(f"{gone.pid}\0")  # of a program that was killed
        with open("/etc/.pwd.lock", "w") as held:  # as lckpwdf(3) does: whoever has it may be about to take the other
            fcntl.lockf(held, fcntl.LOCK_EX)
            refused = sudo("delete", "--force", "one")
            assert refused.status != 0 and ".pwd.lock" in refused.errors, refused
            assert lock.read_text() == f"{gone.pid}\0" and f"{user}:{made.pw_uid}:1\n" in files[0].read_text()
        sudo("delete", "--force", "one").check()
        assert not lock.exists() and not list(lock.parent.glob("subuid.lock.*"))
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


@pytest.fixture
def account(guest, run, network):
    """An account guest "one" of root's, in a network of its own. .there() runs `bailey guest` there, .send() sends as its uid."""
    class Account:
        def there(self, *words):
            return run([*network.words, program("bailey"), "guest", *words])

        def doctor(self):
            said = run([*network.words, program("bailey"), "doctor", "--json"])
            return [item for item in json.loads(said.text)["items"] if item["name"] == "guest-firewall"]

        def send(self, script):
            as_uid = ("setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups")
            return network.run(*as_uid, "/usr/bin/python3", "-c", "import socket\n" + script)

        def packets(self):
            lines = run([program("bailey"), "log", "--json"]).text.splitlines()
            return [record for record in map(json.loads, lines) if record["kind"] == "packet"]

        def reader(self):
            """Its process: the one that has the socket in the guest's directory open, by its working directory."""
            place = str(pathlib.Path(rows(guest)["one"]["home"]).parent)
            found = []
            for entry in pathlib.Path("/proc").iterdir():
                try:
                    if entry.name.isdigit() and os.readlink(entry / "cwd") == place:
                        found.append(int(entry.name))
                except OSError:
                    pass
            return found

    one = Account()
    one.there("create", "--account", "one").check()
    one.uid = rows(guest)["one"]["uid"]
    yield one
    one.there("delete", "--force", "one")


@pytest.mark.root
def test_narrower_grants_inside_stay(account, home):
    """As for other guests (test_guest_files.py)."""
    source, old, again = (home / name for name in ("top", "top/old", "top/again"))
    for path in (old, again):
        path.mkdir(parents=True)
        (path / "file").write_text("of the host\n")
        account.there("grant", "one", f"{path}:ro").check()
    forget_object(home, old)
    make_again(again)
    account.there("grant", "one", f"{source}:rw").check()
    assert granted(account.there, home) == {"top": "rw", "top/old": "ro", "top/again": "ro"}
    assert writable(account.there, source, old, again) == [source]
    assert names_for_writing(source, account.uid)
    assert not any(names_for_writing(path, account.uid) for path in (old, again, old / "file", again / "file"))


SPOOL_SCRIPT = """
for place in /var/spool /var/mail /var/lib/systemd; do [ ! -d $place ] || mount -t tmpfs tmpfs $place || exit; done
mkdir -p /var/spool/cron/crontabs /var/spool/cron/atjobs /var/spool/at /var/spool/mail && chmod -R 1777 /var/spool /var/mail && echo up && exec sleep 600
"""


@pytest.fixture
def spools(closing, network):
    """A view of the machine with empty spools that everybody may write to. .words lead there, .top is where it can be seen."""
    class Spools:
        def __init__(self):
            self.process = subprocess.Popen([*network.words, "unshare", "--mount", "sh", "-c", SPOOL_SCRIPT], stdout=subprocess.PIPE)
            assert self.process.stdout.readline() == b"up\n"
            self.words = [*network.words, "nsenter", f"--mount=/proc/{self.process.pid}/ns/mnt", "--"]
            self.top = pathlib.Path(f"/proc/{self.process.pid}/root")

        def place(self, name, owner, text="x\n"):
            path = self.top / name
            path.write_text(text)
            os.chown(path, owner, owner)

        def entries(self):
            """All but the directories that were there."""
            names = [path for spool in ("var/spool", "var/mail") for path in (self.top / spool).rglob("*")]
            return {str(path.relative_to(self.top)) for path in names if path.is_symlink() or not path.is_dir()}

        def close(self):
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
    return closing(Spools())


@pytest.mark.root
def test_the_worst_of_an_account(account, spools, guest, run, start, home, top):
    """As of every guest (test_guest_files.py), on a machine whose spools are open to everybody, and without a trace afterwards."""
    marks = [f"600.{os.getpid()}{number}" for number in (3, 4)]
    outside = start(["sleep", marks[0]])
    for name, mode in (("readable", 0o644), ("secret", 0o600)):
        (home / name).write_text("of the host\n")
        (home / name).chmod(mode)
    guest("create", "two").check()
    neighbour = pathlib.Path(rows(guest)["two"]["home"])
    guest("exec", "two", "--", "sh", "-c", "echo of the neighbour > file; chmod 644 file").check()
    guest("exec", "-d", "two", "--", "sleep", marks[1]).check()
    its = wait_until(lambda: pid_of(marks[1]))

    def there(*words):
        return run([*spools.words, program("bailey"), "guest", *words])
    state_directory = home / ".local/state/bailey"
    targets = Targets(files=[home / "readable", home / "secret", neighbour / "file", state_directory / "guests.db", "/etc/shadow"],
                      directories=[state_directory, neighbour.parent, neighbour], processes=[outside.pid, its], marks=marks,
                      identities=[0, account.uid + 1, os.geteuid()], devices=[home, "/tmp"])
    said = there("exec", "one", "--", *targets.command()).check()
    assert targets.brought(said.text) == {} and spools.entries() == set(), said

    assert there("exec", "one", "--", "sh", "-c", HOSTILE).check().text == "worst\n"
    where = pathlib.Path(rows(guest)["one"]["home"])
    assert where.stat().st_mode & 0o777 == 0 and not [name for name in os.listxattr(where) if "posix_acl" in name]
    there("snapshot", "one", "worst").check()
    there("stop", "one").check()
    there("fix", "one").check()
    assert not (where / "set-id").stat().st_mode & 0o6000 and not os.path.lexists(where / "device")
    there("restore", "one", "worst").check()
    there("archive", "one").check()
    there("unarchive", "one").check()
    there("delete", "--force", "one").check()
    assert outside.running() and pid_of(marks[1]) == its and [path.name for path in top.iterdir()] == [rows(guest)["two"]["id"]]
    assert (home / "secret").read_text() == "of the host\n" and processes_of(account.uid) == []


@pytest.mark.root
def test_what_the_system_keeps_for_an_account_goes_with_it(account, spools, run):
    """Its crontab, jobs of at, which belong to its number, and mail; nothing of others, nor what a link of its leads to."""
    name = pwd.getpwuid(account.uid).pw_name
    kept = [("var/spool/cron/crontabs/root", 0), (f"var/spool/cron/crontabs/{name}x", account.uid), ("var/spool/cron/atjobs/a0000201", account.uid + 1),
            ("var/spool/at/a0000202", 0), ("var/mail/root", 0), ("var/spool/mail/root", 0)]
    going = [f"var/spool/cron/crontabs/{name}", f"var/spool/cron/{name}", "var/spool/cron/atjobs/a0000101", "var/spool/at/a0000102", f"var/mail/{name}",
             f"var/spool/mail/{name}"]
    for path, owner in [*kept, *((path, account.uid) for path in going)]:
        spools.place(path, owner)
    link = spools.top / "var/spool/cron/atjobs/link"
    link.symlink_to("../crontabs/root")
    os.chown(link, account.uid, account.uid, follow_symlinks=False)
    assert spools.entries() == {path for path, _ in kept} | {*going, "var/spool/cron/atjobs/link"}

    def delete():
        return run([*spools.words, program("bailey"), "guest", "delete", "--force", "one"])
    for flag in ("ro", "rw"):
        assert run([*spools.words, "mount", "-o", f"remount,{flag}", "/var/mail"]).check()
        if flag == "ro":
            refused = delete()
            assert refused.status != 0 and f"/var/mail/{name}" in refused.errors and name in accounts(), refused
    delete().check()
    assert name not in accounts() and spools.entries() == {path for path, _ in kept}


SEND_ALL = """
for family, kind, protocol, to in ((socket.AF_INET, socket.SOCK_DGRAM, 0, ("192.0.2.7", 53)), (socket.AF_INET6, socket.SOCK_DGRAM, 0, ("::1", 5353)),
                                   (socket.AF_INET, socket.SOCK_STREAM, 0, ("127.0.0.1", 7777))):
    try:
        with socket.socket(family, kind, protocol) as s:
            s.connect(to) if kind == socket.SOCK_STREAM else s.sendto(b"x", to)
        print("left")
    except OSError as error:
        print("refused")
"""


@pytest.mark.root
def test_what_a_uid_sends_outside_is_on_record(account, network):
    """By protocol, address, port and uid, in the log of the guest's run; also what it sent while it did not run."""
    assert network.run("ip", "route", "add", "local", "192.0.2.0/24", "dev", "lo").returncode == 0
    assert account.send(SEND_ALL).stdout == "refused\n" * 3
    account.there("start", "one").check()
    wait_until(lambda: len(account.packets()) == 3)
    assert account.send(SEND_ALL).stdout == "refused\n" * 3
    seen = wait_until(lambda: (found := account.packets()) and len(found) == 6 and found)
    wanted = [("udp", "192.0.2.7", 53), ("udp", "::1", 5353), ("tcp", "127.0.0.1", 7777)]
    assert [(one["scheme"], one["addr"], one["port"]) for one in seen] == wanted * 2, seen
    assert all(f"uid {account.uid}" in one["detail"] and one["allowed"] is False for one in seen), seen
    account.there("stop", "one").check()


@pytest.mark.root
def test_a_flood_is_counted(account, network):
    assert network.run("ip", "route", "add", "local", "192.0.2.0/24", "dev", "lo").returncode == 0
    account.there("start", "one").check()
    sent = 30000
    script = f"""
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    for i in range({sent}):
        try:
            s.sendto(b"x", ("192.0.2.7", 1 + i % 60000))
        except OSError:
            pass
print("done")
"""
    assert account.send(script).stdout == "done\n"
    account.there("stop", "one").check()
    seen = account.packets()
    assert account.send(SEND_ALL).returncode == 0
    account.there("start", "one").check()
    wait_until(lambda: len(account.packets()) >= 3)
    account.there("stop", "one").check()
    seen += account.packets()
    total = sum(one.get("count") or 1 for one in seen)
    assert len(seen) < 4000 and total == sent + 3, (len(seen), total)


@pytest.mark.root
def test_without_its_reader_a_guest_ends_and_does_not_start(account, guest):
    account.there("start", "one").check()
    (reader,) = account.reader()
    os.kill(reader, signal.SIGKILL)
    wait_until(lambda: state(guest, "one") == "stopped")
    assert "reader" in json.loads(account.there("show", "--json", "one").check().text)["reason"]
    refused = account.there("start", "one")
    assert refused.status == 5 and "nobody reads its log" in refused.errors and "bailey guest fix one" in refused.errors, refused
    (row,) = account.doctor()
    assert row["state"] == "missing" and "fix" in row["fix"], row
    account.there("fix", "one").check()
    account.there("start", "one").check()
    account.there("fix", "one").check()
    assert state(guest, "one") == "running", "a reader that works is left alone"


@pytest.mark.root
def test_doctor_compares_the_rules(account, network):
    assert account.doctor()[0]["state"] == "works"
    table = ("inet", "bailey_guests")
    changes = (("insert", "rule", *table, "output", "accept"), ("flush", "chain", *table, f"guest_{account.uid}"),
               ("delete", "element", *table, "guests", f"{{ {account.uid} }}"), ("flush", "chain", *table, "output"),
               ("add", "rule", *table, "output", "counter"), ("delete", "table", *table))
    for change in changes:
        assert network.run("nft", *change).returncode == 0, change
        (row,) = account.doctor()
        assert row["state"] == "missing" and "bailey_guests" in row["detail"] and "sudo bailey guest fix" in row["fix"], (change, row)
        account.there("fix", "one").check()
        assert account.doctor()[0]["state"] == "works", change


@pytest.mark.root
def test_without_nft_no_account_is_made(guest, run, network):
    before = accounts()
    script = 'mount --bind /dev/null /usr/sbin/nft && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", script, "sh", program("bailey"), "guest", "create", "--account", "one"]
    refused = run([*network.words, *words])
    assert refused.status != 0 and "nftables" in refused.errors, refused
    assert accounts() == before and rows(guest) == {}


class HostUser:
    """A user of this machine, with a home and, unless said otherwise, subordinate ids."""

    def __init__(self, run, place, name, ids=True):
        self.name, self.home, self.run, self.where = name, place / name, run, []  # where: words that lead to a network
        more = [] if ids else ["--key", "SUB_UID_COUNT=0", "--key", "SUB_GID_COUNT=0"]
        subprocess.run(["useradd", "--no-create-home", "--home-dir", self.home, "--shell", "/bin/sh", *more, name], check=True)
        self.entry = pwd.getpwnam(name)
        self.home.mkdir(mode=0o700)
        os.chown(self.home, self.entry.pw_uid, self.entry.pw_gid)
        self.program = place / "bin/bailey"
        self.top = self.home / ".local/state/bailey/guests"

    def does(self, *words, **more):
        become = ["setpriv", f"--reuid={self.entry.pw_uid}", f"--regid={self.entry.pw_gid}", "--init-groups", "--"]
        env = {"HOME": str(self.home), "USER": self.name, "LOGNAME": self.name, **more.pop("env", {})}
        return self.run([*self.where, *become, *words], env=env, cwd=self.home, **more)

    def guest(self, *words, **more):
        return self.does(self.program, "guest", *words, **more)

    def rows(self):
        return {row["name"]: row for row in json.loads(self.guest("ls", "--json").check().text)}

    def close(self):
        self.guest("delete", "--force", "same")
        subprocess.run(["userdel", "--force", self.name], check=False, capture_output=True)


@pytest.fixture
def host_users(run, closing):
    """Makes users of this machine: make(NAME). They and what is theirs go at the end."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="bailey-users-", dir="/tmp"))
    place.chmod(0o755)
    (place / "bin").mkdir(mode=0o755)
    for name in ("bailey", "bailey-gateway"):
        shutil.copy2(program(name), place / "bin" / name)
        (place / "bin" / name).chmod(0o755)
    made = []

    def make(name, ids=True):
        made.append(HostUser(run, place, f"{name}{os.getpid()}", ids))
        return made[-1]
    yield make
    for user in made:
        user.close()
    shutil.rmtree(place)


@pytest.mark.root
def test_two_host_users_with_guests_of_one_name(host_users, run):
    ann, ben = host_users("baileyann"), host_users("baileyben")
    for user in (ann, ben):
        user.guest("create", "same").check()
        user.guest("exec", "same", "--", "sh", "-c", f"echo {user.name} > mine; chmod 600 mine").check()
    of_ann, of_ben = ann.rows()["same"], ben.rows()["same"]
    assert of_ann["kind"] == of_ben["kind"] == "rootless"
    assert of_ann["uid"] != of_ben["uid"] and of_ann["id"] != of_ben["id"]

    home = pathlib.Path(of_ann["home"])
    supervisor = (ann.top / of_ann["id"] / "run.id").read_text().split()[1]
    tries = (("cat", home / "mine"), ("ls", ann.top), ("touch", home / "new"), ("rm", "-rf", home), ("kill", "-9", supervisor),
             ("/usr/bin/python3", "-c", f"import socket; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect('{home.parent}/socket')"))
    for words in tries:
        assert ben.does(*words).status != 0, words
    foreign = ben.guest("ls", env={"XDG_STATE_HOME": str(ann.home / ".local/state")})
    assert foreign.status != 0 and "ermission" in foreign.errors, foreign
    assert ben.guest("exec", of_ann["id"], "--", "true").status == 122, "an id of another user's guest means nothing"
    inside = ben.guest("exec", "same", "--", "sh", "-c", f"cat {home}/mine; ls {ann.home}; kill -9 {supervisor}; echo end")
    assert inside.text == "end\n", inside

    assert ben.does(ben.program, "kill", of_ann["sandbox"]).status == 4
    assert ben.does(ben.program, "kill", "same").check().text == f"{of_ben['sandbox']}: killed\n"
    wait_until(lambda: ben.rows()["same"]["state"] == "stopped")
    assert ben.does(ben.program, "kill", "same").status == 4 and ann.rows()["same"]["state"] == "running"
    ben.guest("delete", "--force", "same").check()
    assert ben.rows() == {}
    sudo = run([ben.program, "guest", "delete", "--force", "same"], env={"SUDO_UID": str(ben.entry.pw_uid)})
    assert sudo.status == 4 and "no guest" in sudo.errors, sudo
    assert ann.guest("exec", "same", "--", "cat", "mine").check().text == f"{ann.name}\n"
    assert ann.rows()["same"]["state"] == "running"


@pytest.mark.root
def test_a_host_user_without_subordinate_ids(host_users):
    """The guest has the user's own id, and `create` says what that gives up and how to have more."""
    user = host_users("baileynoids", ids=False)
    made = user.guest("create", "same").check()
    assert "your own user id" in made.errors and "usermod --add-subuids" in made.errors, made
    row = user.rows()["same"]
    assert row["kind"] == "own" and row["uid"] == user.entry.pw_uid
    said = user.guest("exec", "same", "--", "sh", "-c", "id -u; echo kept > file; ls -A").check().text
    assert said == f"{user.entry.pw_uid}\nfile\n"
    (user.home / "secret").write_text("host")
    os.chown(user.home / "secret", user.entry.pw_uid, user.entry.pw_gid)
    assert user.guest("exec", "same", "--", "cat", user.home / "secret").status != 0, "the sandbox is still there"


# A registry with one package and a server of files, by name.
SERVER = r"""
import hashlib, http.server, io, json, pathlib, sys, tarfile, urllib.parse
top = pathlib.Path(sys.argv[1])
packed = io.BytesIO()
with tarfile.open(fileobj=packed, mode="w:gz") as tar:
    described = {"name": "@anthropic-ai/claude-code", "version": "1.0.0", "bin": {"claude": "claude.sh"}}
    for name, text in (("package.json", json.dumps(described)), ("claude.sh", (top / "claude.sh").read_text())):
        member = tarfile.TarInfo("package/" + name)
        member.size, member.mode = len(text.encode()), 0o755
        tar.addfile(member, io.BytesIO(text.encode()))
dist = {"tarball": "http://registry.npmjs.org/claude.tgz", "shasum": hashlib.sha1(packed.getvalue()).hexdigest()}
package = {"name": described["name"], "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {**described, "dist": dist}}}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = urllib.parse.unquote(self.path.partition("?")[0])
        file = top / path.lstrip("/")
        if self.headers["Host"] == "registry.npmjs.org":
            body = packed.getvalue() if path == "/claude.tgz" else json.dumps(package).encode()
        else:
            body = file.read_bytes() if file.is_file() else None
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 80), Handler)
print("up", flush=True)
server.serve_forever()
"""
AGENT = """#!/bin/sh
echo "working on $(cat project/README)"
echo "answer: $(curl -sS -o /dev/null -w '%{http_code}' http://asked.test/README)"
exec sleep 600
"""


@pytest.fixture
def internet(network, closing, tmp_path):
    """In the network of the test: a registry with the agent's package, a repository, and a host that nobody allowed."""
    top = tmp_path / "served"
    top.mkdir()
    (top / "claude.sh").write_text(AGENT)
    (top / "README").write_text("of a host that was asked about\n")
    script = """git init -q app && cd app && echo the project > README && git add . && git -c user.name=a -c user.email=a@b commit -qm first &&
        git clone -q --bare . ../app.git && git -C ../app.git update-server-info"""
    subprocess.run(["sh", "-c", script], cwd=top, check=True)

    class Internet:
        def __init__(self):
            self.process = subprocess.Popen([*network.words, "/usr/bin/python3", "-c", SERVER, str(top)], stdout=subprocess.PIPE)
            assert self.process.stdout.readline() == b"up\n"

        def close(self):
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
    return closing(Internet())


def machine_state(home):
    """What an account guest may leave: accounts, groups, subordinate ids, and mounts of its own or of Bailey's; others come and go on a machine in use."""
    names = ("/etc/passwd", "/etc/group", "/etc/subuid", "/etc/subgid")
    mounts = pathlib.Path("/proc/self/mounts").read_text().splitlines()
    beside = ("/popen-gw", "/bailey-test-", "/bailey-stage.", "/bailey-users-")
    own = [line for line in mounts if str(home) in line or ("bailey" in line and not any(word in line for word in beside))]
    return [pathlib.Path(name).read_text() for name in names], own


def processes_of(*uids):
    listed = subprocess.run(["ps", "axno", "uid,args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in listed if line.split()[0] in map(str, uids) and "<defunct>" not in line]  # whoever reaps orphans may be slow


KINDS_OF_NAMESPACES = ("pid", "user", "uts", "ipc", "cgroup")  # those of mounts and networks would live on with what is in them


def hold_namespaces(held, network, *uids):
    """Those that processes of these users are in, and neither we nor the test's network, by number. They are held open in
    `held`: the kernel gives the number of one that ended to the next that anybody makes."""
    own = {os.stat(f"/proc/{pid}/ns/{kind}").st_ino for pid in ("self", network.process.pid) for kind in KINDS_OF_NAMESPACES}
    found = set()
    for entry in pathlib.Path("/proc").iterdir():
        for kind in KINDS_OF_NAMESPACES:
            try:
                if entry.name.isdigit() and entry.stat().st_uid in uids:
                    namespace = held.enter_context((entry / "ns" / kind).open("rb"))
                    found.add(os.fstat(namespace.fileno()).st_ino)
            except OSError:
                pass
    return found - own


def all_namespaces():
    """lsns gives up when a process ends that it looks at."""
    words = ["lsns", "-n", "-o", "NS"]
    listed = wait_until(lambda: (done := subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)).returncode == 0 and done)
    return {int(number) for number in listed.stdout.split()}


def read_until(terminal, wanted):
    """What comes from a terminal, up to what is waited for."""
    said, end = b"", time.monotonic() + PATIENCE
    while wanted not in said:
        assert time.monotonic() < end, said
        if select.select([terminal], [], [], 1)[0]:
            said += os.read(terminal, 65536)
    return said


def leave_terminal(user, script, typed, answer):
    """The user runs this at a terminal that is theirs, types something, and closes the terminal when the answer is there."""
    ours, its = pty.openpty()
    env = {"PATH": os.environ["PATH"], "HOME": str(user.home), "USER": user.name, "TERM": "dumb"}
    words = [*user.where, "setpriv", f"--reuid={user.entry.pw_uid}", f"--regid={user.entry.pw_gid}", "--init-groups", "--",
             "setsid", "--ctty", "sh", "-c", script, "sh", user.program]
    os.fchown(its, user.entry.pw_uid, -1)
    with subprocess.Popen(words, stdin=its, stdout=its, stderr=its, env=env, cwd=user.home) as session:
        os.close(its)
        try:
            read_until(ours, b"$")  # the shell's prompt
            os.write(ours, typed)
            read_until(ours, answer)
        finally:
            os.close(ours)
        session.wait(PATIENCE)


@pytest.mark.root
@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
@pytest.mark.parametrize("kind", ["account", "rootless"])
def test_the_story_of_a_guest(host_users, network, internet, run, kind, request):
    """From the first day to the last, with the claude recipe; at the end nothing is left of it on the machine."""
    ann = host_users("baileystory")
    ann.where = network.words
    hosts = ann.home / "hosts"
    hosts.write_text("127.0.0.1 registry.npmjs.org repo.test asked.test\n")
    hosts.chmod(0o644)
    before = machine_state(ann.home)

    def sudo(*words):
        return run([*network.words, ann.program, "guest", *words], env={"SUDO_UID": str(ann.entry.pw_uid)})
    may_make, account = (sudo, ["--account"]) if kind == "account" else (ann.guest, [])
    may_make("create", *account, "--allow", "repo.test:80", "--allow-private", "127.0.0.1:80", "--ask", "control", "--ask-timeout", "60s",
             "--env", "npm_config_registry=http://registry.npmjs.org/", "same").check()
    row = ann.rows()["same"]
    uid = row["uid"]
    assert row["kind"] == kind and uid != ann.entry.pw_uid
    ann.guest("provision", "--hosts", hosts, "same", "claude", timeout=120).check()
    ann.guest("start", "--hosts", hosts, "same").check()
    ann.guest("exec", "same", "--", "git", "clone", "-q", "http://repo.test/app.git", "project").check()

    leave_terminal(ann, '"$1" guest exec -d same -- claude && exec "$1" guest shell same', b"echo attached $((6 * 7))\n", b"attached 42")
    assert ann.rows()["same"]["state"] == "running"
    wait_until(lambda: "working on the project" in ann.guest("logs", "same").text)
    wait_until(lambda: "asked.test" in ann.does(ann.program, "pending").text)
    ann.does(ann.program, "allow", "--scope", "once", "asked.test:80").check()
    wait_until(lambda: "answer: 200" in ann.guest("logs", "same").text)

    ann.guest("snapshot", "same", "good").check()
    assert json.loads(ann.guest("jobs", "--json", "same").text)[0]["state"] == "running"
    held = contextlib.ExitStack()
    request.addfinalizer(held.close)
    inside = hold_namespaces(held, network, uid)
    assert len(inside) >= 3 and inside <= all_namespaces()
    ann.guest("exec", "same", "--", "sh", "-c", "rm -rf project .local; ln -s / root; chmod 0 .").check()
    ann.guest("stop", "same").check()
    ann.guest("restore", "same", "good").check()
    ann.guest("archive", "same").check()
    ann.guest("unarchive", "same").check()
    assert ann.guest("exec", "same", "--", "sh", "-c", "cat project/README; command -v claude >/dev/null && echo there").check().text == "the project\nthere\n"
    inside |= hold_namespaces(held, network, uid, ann.entry.pw_uid)

    may_make("delete", "--force", "same").check()
    assert machine_state(ann.home) == before
    assert processes_of(uid) == [] and list(ann.top.iterdir()) == []
    assert "bailey_guests" not in network.run("nft", "list", "ruleset").stdout
    with contextlib.closing(sqlite3.connect(ann.home / ".local/state/bailey/guests.db")) as database:
        assert [row[0] for row in database.execute("select state from guests")] == ["deleted"]
    assert processes_of(ann.entry.pw_uid) == []
    wait_until(lambda: not inside & all_namespaces(), what="the end of its namespaces")


ACCOUNT_VERBS = ["create", "delete", "delete of one that runs", "rename", "start", "stop", "fix", "set", "snapshot", "restore", "archive", "unarchive",
                 "grant", "revoke", "exec"]
ROUNDS = [[verb] for verb in ACCOUNT_VERBS] if STRESS else [ACCOUNT_VERBS]


@pytest.mark.root
@pytest.mark.parametrize("verbs", ROUNDS, ids=[verbs[0].replace(" ", "_") if STRESS else "all" for verbs in ROUNDS])
def test_account_verbs_killed_at_any_moment(run, network, environment, home, top, verbs):
    """What the next command finds it finishes or rolls back, with root's rights or by saying how; nothing of an account stays behind."""
    before, tables = machine_state(home), network.run("nft", "list", "tables").stdout
    (home / "granted").mkdir()

    def there(*words):
        return run([*network.words, program("bailey"), "guest", *words])
    killer = Killer(there, environment, f"18 {verbs[0]}", {"granted": home / "granted"}, network.words, account=True)
    try:
        killer.make_keep()
        for verb in verbs:
            killer.verb(verb, KILLS if STRESS else min(KILLS, 2))
        killer.check_met()
        there("fix", "keep").check()
        if state(there, "keep") == "archived":
            there("unarchive", "keep").check()
        assert there("exec", "keep", "--", "cat", "kept/where").check().text == "here\n"
    finally:
        ended = [killer.guest("delete", "--force", name) for name in list(rows(there))]
    assert all(one.status == 0 for one in ended), ended
    assert machine_state(home) == before
    wait_until(lambda: rows(there) == {} and list(top.iterdir()) == [])  # a place that was made without a row goes when it is a few seconds old
    assert network.run("nft", "list", "tables").stdout == tables
