# SPDX-License-Identifier: Apache-2.0
"""Guests and files: one way only, whatever the guest does; copies, grants, snapshots, ssh."""
import contextlib
import dataclasses
import errno
import json
import os
import pathlib
import pty
import re
import shutil
import sqlite3
import stat
import struct
import subprocess
import time

import pytest

from conftest import program
from kit.hostile_guest import HOSTILE, SPOOLS, Targets, from_outside, pid_of
from kit.machine import deny, machine
from kit.process import wait_until
from test_guest_life import guest, inside, rows, state, top  # noqa: F401

ORDINARY = os.geteuid() != 0


def test_one_way_after_the_worst(guest, home, top):
    guest("create", "one").check()
    secret = home / "secret"
    secret.write_text("of the host\n")
    secret.chmod(0o600)
    assert inside(guest, "one", HOSTILE).check().text == "worst\n"
    where = pathlib.Path(rows(guest)["one"]["home"])
    assert where.stat().st_mode & 0o777 == 0 and not [name for name in os.listxattr(where) if "posix_acl" in name], "it closed everything"
    guest("snapshot", "one", "worst").check()
    guest("stop", "one").check()
    guest("fix", "one").check()
    assert (where / "closed/deeper/file").read_text() == "secret\n"
    (where / "closed/deeper/file").write_text("the host may write\n")
    assert not (where / "set-id").stat().st_mode & (stat.S_ISUID | stat.S_ISGID)
    assert (where / "fifo").is_fifo() and (where / "sock").is_socket() and not os.path.lexists(where / "device"), "no guest makes a device"
    if ORDINARY:
        assert where.stat().st_uid not in (os.geteuid(), 0)
    assert inside(guest, "one", "cat closed/deeper/file").check().text == "the host may write\n"
    guest("stop", "one").check()
    guest("restore", "one", "worst").check()
    guest("archive", "one").check()
    guest("unarchive", "one").check()
    guest("delete", "--force", "one").check()
    assert list(top.iterdir()) == [] and secret.read_text() == "of the host\n"


def listings():
    return {spool: sorted(os.listdir(spool)) if os.path.isdir(spool) and os.access(spool, os.R_OK) else None for spool in SPOOLS}


def test_the_guest_reaches_nothing_of_the_host(guest, home, start):
    """Each act by itself, on the host and on a neighbour. The same acts reach both from outside, so that it is the guest's walls."""
    marks = [f"600.{os.getpid()}{number}" for number in (1, 2)]
    outside = start(["sleep", marks[0]])
    (home / "private").mkdir()
    (home / "private/file").write_text("of the host\n")
    (home / "readable").write_text("of the host\n")
    (home / "readable").chmod(0o644)
    guest("create", "one").check()
    guest("create", "two").check()
    neighbour = pathlib.Path(rows(guest)["two"]["home"])
    inside(guest, "two", "echo of the neighbour > file; chmod 644 file").check()
    guest("exec", "-d", "two", "--", "sleep", marks[1]).check()
    its = wait_until(lambda: pid_of(marks[1]))
    state_directory = home / ".local/state/bailey"
    targets = Targets(files=[home / "readable", home / "private/file", neighbour / "file", state_directory / "guests.db"],
                      directories=[home / "private", state_directory, neighbour.parent, neighbour],
                      processes=[outside.pid, its], marks=marks,
                      identities=[0, os.geteuid() + 1, rows(guest)["two"]["uid"]], devices=[home, "/tmp"])
    before = listings()

    reached = {what for what, _ in from_outside(targets)}
    assert reached >= {"read", "append", "list", "enter", "signal", "see", "hold", "find"}, "these acts can work"
    shadow = dataclasses.replace(targets, files=[*targets.files, "/etc/shadow", "/etc/gshadow"])
    said = guest("exec", "one", "--", *shadow.command()).check()
    assert shadow.brought(said.text) == {}, said
    inside(guest, "one", "kill -9 -1")  # whoever hears it is its own
    wait_until(lambda: state(guest, "one") == "stopped")
    assert inside(guest, "one", "echo again").check().text == "again\n"
    assert listings() == before and outside.running() and pid_of(marks[1]) == its
    assert (home / "readable").read_text() == "of the host\n" and (neighbour / "file").read_text() == "of the neighbour\n"


@pytest.mark.user
def test_the_identity_is_its_own(guest):
    """Also without the sandbox's mounts: the kernel knows the guest by another id."""
    guest("create", "one").check()
    guest("create", "two").check()
    inside(guest, "one", "(exec sleep 600) > /dev/null 2>&1 & echo $!").check()
    uids = {row["name"]: row["uid"] for row in rows(guest).values()}
    assert len({*uids.values(), os.geteuid()}) == 3
    owners = {int(line.split()[0]) for line in subprocess.run(["ps", "axno", "uid,args"], capture_output=True, text=True, check=True)
              .stdout.splitlines() if "sleep 600" in line and line.split()[0].isdigit()}
    assert uids["one"] in owners, owners
    groups = inside(guest, "one", "id -G; grep Groups /proc/self/status").check().text
    assert groups.split("\n")[1].strip() == "Groups:", groups


def test_large_trees_are_copied_whole(guest, tmp_path):
    """As many files as a person's projects have."""
    tree, back = tmp_path / "tree", tmp_path / "back"
    for directory in range(25):
        (tree / str(directory)).mkdir(parents=True)
        for number in range(1000):
            (tree / str(directory) / str(number)).write_text(f"{directory} {number}")
    guest("create", "one").check()
    guest("cp", str(tree), "one:tree").check()
    guest("start", "one").check()
    assert inside(guest, "one", "find tree -type f | wc -l; cat tree/24/999; echo more > tree/24/999").check().text.split("\n")[:2] == ["25000", "24 999"]
    guest("cp", "one:tree", str(back)).check()
    assert sum(1 for file in back.rglob("*") if file.is_file()) == 25000 and (back / "24/999").read_text() == "more\n"


def test_copies_keep_holes(guest, tmp_path):
    """Both ways: a disk image takes as much room as before."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.seek(30 << 20)
        file.write(b"data")
        file.truncate(60 << 20)
    guest("create", "one").check()
    guest("cp", image, "one:image").check()
    facts = inside(guest, "one", "stat -c '%s %b' image; tail -c +31457281 image | head -c 4").check().text.split()
    assert facts[0] == str(60 << 20) and int(facts[1]) < 2048 and facts[2] == "data", facts
    guest("cp", "one:image", tmp_path / "back").check()
    back = (tmp_path / "back").stat()
    assert back.st_size == 60 << 20 and back.st_blocks < 2048 and (tmp_path / "back").read_bytes() == image.read_bytes()


def test_copies_follow_no_link(guest, tmp_path):
    guest("create", "one").check()
    guest("start", "one").check()
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub/file").write_text("in\n")
    (tree / "link").symlink_to("/etc/passwd")
    (tree / "run").write_text("#!/bin/sh\necho ran\n")
    (tree / "run").chmod(0o755)
    guest("cp", str(tree), "one:").check()
    assert inside(guest, "one", "cat tree/sub/file; tree/run; readlink tree/link; echo more > tree/sub/file; rm tree/run").check().text == "in\nran\n/etc/passwd\n"
    assert guest("cp", str(tree), "one:").status == 1, "nothing is replaced"
    guest("cp", "one:tree/sub/file", str(tmp_path / "out")).check()
    assert (tmp_path / "out").read_text() == "more\n" and (tmp_path / "out").stat().st_uid == os.geteuid()
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("untouched\n")
    inside(guest, "one", f"ln -s {victim} way; ln -s {victim}/file direct; mkdir -m 700 private; echo p > private/p; chmod 000 private").check()
    assert guest("cp", str(tree / "sub/file"), "one:way/file2").status != 0 and not (victim / "file2").exists()
    assert guest("cp", "one:way/file", str(tmp_path / "leak")).status != 0 and not (tmp_path / "leak").exists()
    guest("cp", "one:direct", str(tmp_path / "direct")).check()
    assert (tmp_path / "direct").is_symlink()
    assert guest("cp", "one:../../info", str(tmp_path / "info")).status != 0
    guest("cp", "one:private/p", str(tmp_path / "p")).check()
    assert (tmp_path / "p").read_text() == "p\n"
    for bad in (("a", "b"), ("one:a", "one:b"), ("one:/etc/passwd", str(tmp_path / "x"))):
        assert guest("cp", *bad).status == 2, bad


def test_grants(guest, home):
    shared, other = home / "shared", home / "other"
    for directory in (shared, other):
        (directory / "sub").mkdir(parents=True)
        (directory / "sub/file").write_text("granted\n")
        (directory / "sub/file").chmod(0o600)
    before = {p: p.stat().st_mode for p in (shared, shared / "sub", shared / "sub/file")}
    guest("create", "one").check()
    assert inside(guest, "one", f"cat {shared}/sub/file").status != 0
    guest("grant", "one", f"{shared}:rw").check()
    guest("grant", "one", str(other)).check()
    guest("stop", "one").check()
    assert json.loads(guest("grants", "--json", "one").check().text) == [{"path": str(other), "access": "ro"}, {"path": str(shared), "access": "rw"}]
    done = inside(guest, "one", f"cat {shared}/sub/file {other}/sub/file; echo new > {shared}/sub/new; (echo x > {other}/sub/x) 2>/dev/null || echo closed")
    assert done.check().text == "granted\ngranted\nclosed\n"
    assert (shared / "sub/new").read_text() == "new\n"
    (shared / "sub/new").write_text("the host may change what the guest made\n")
    guest("stop", "one").check()
    guest("revoke", "one", str(shared)).check()
    assert {p: p.stat().st_mode for p in before} == before, "access lists are as they were"
    assert inside(guest, "one", f"cat {shared}/sub/file").status != 0
    assert guest("revoke", "one", str(shared)).status == 4
    (home / ".ssh").mkdir()
    for never in ("/", str(home), str(home / ".ssh"), str(home.parent), str(home / ".local/state/bailey"), str(home / ".local")):
        refused = guest("grant", "one", never)
        assert refused.status == 5 and "cannot be granted" in refused.errors, never
    assert guest("grant", "one", str(home / "missing")).status != 0


def test_a_grant_deep_in_the_home(guest, home):
    """The directories on the way to it are the guest's own, also those that the guest made and closed."""
    deep = home / "src/acme/app"
    deep.mkdir(parents=True)
    (deep / "file").write_text("granted\n")
    guest("create", "one").check()
    guest("grant", "one", f"{deep}:rw").check()
    assert inside(guest, "one", f"cat {deep}/file; echo new > {deep}/new; echo own > ~/src/own; stat -c %u ~/src | grep -qx $(id -u) && echo owner").check().text == "granted\nowner\n"
    assert (deep / "new").read_text() == "new\n" and not (home / "src/own").exists()
    assert (pathlib.Path(rows(guest)["one"]["home"]) / "src/own").read_text() == "own\n", "the host user may use them, too"
    guest("stop", "one").check()
    other = home / "closed/acme/app"
    other.mkdir(parents=True)
    (other / "file").write_text("granted, too\n")
    inside(guest, "one", "mkdir -m 700 ~/closed").check()
    guest("stop", "one").check()
    guest("grant", "one", other).check()
    assert inside(guest, "one", f"cat {other}/file").check().text == "granted, too\n"
    guest("stop", "one").check()
    guest("revoke", "one", other).check()
    inside(guest, "one", "rm -r ~/closed; ln -s / ~/closed").check()
    guest("stop", "one").check()
    guest("grant", "one", other).check()
    refused = guest("start", "one")
    assert refused.status != 0 and "something else has that name" in refused.errors, refused


def test_grants_in_grants(guest, home):
    """The innermost holds, in whatever order they come and go."""
    outer, inner = home / "outer", home / "outer/inner"
    inner.mkdir(parents=True)
    for directory in (outer, inner):
        (directory / "file").write_text("granted\n")
        (directory / "file").chmod(0o600)
    guest("create", "one").check()

    def does():
        script = "; ".join(f"cat {d}/file >/dev/null 2>&1 && echo read; (echo x > {d}/new) 2>/dev/null && echo wrote" for d in (outer, inner))
        said = inside(guest, "one", f"{script}; true").check().text.split()
        guest("stop", "one").check()
        return said
    guest("grant", "one", f"{inner}:rw").check()
    guest("grant", "one", f"{outer}:ro").check()
    assert does() == ["read", "read", "wrote"]
    guest("revoke", "one", outer).check()
    assert does() == ["wrote", "read", "wrote"], "what was granted further inside still is"
    assert not (outer / "new").exists() and (inner / "new").exists(), "on the way to it is the guest's own home"
    guest("grant", "one", f"{outer}:rw").check()
    guest("revoke", "one", inner).check()
    assert does() == ["read", "wrote"] * 2, "what was granted around it still is"
    guest("grant", "one", f"{inner}:ro").check()
    (inner / "new").unlink()
    assert does() == ["read", "wrote", "read"], "and reading alone inside of writing"
    assert not (inner / "new").exists()


def test_revoking_what_is_not_granted(guest, home, tmp_path):
    """One answer for whoever asks, and whatever lies there; a grant whose directory is gone can be taken back."""
    (home / "own").mkdir()
    guest("create", "one").check()
    for path in (home / "own", home / "missing", "/etc", "/etc/shadow", "/", "own"):
        refused = guest("revoke", "one", path, cwd=home)
        assert refused.status == 4 and "was not granted to one" in refused.errors, (path, refused)
    for name in ("gone", "replaced"):
        (home / name).mkdir()
        guest("grant", "one", home / name).check()
        (home / name).rmdir()
    (home / "replaced").symlink_to(home / "own")
    for name in ("gone", "replaced"):
        guest("revoke", "one", name, cwd=home).check()
    assert json.loads(guest("grants", "--json", "one").check().text) == []


def test_programs_of_bailey_s_own_inside(guest, home):
    """Certificates, and sockets of bridges: a guest with an identity of its own can use them, and its home is still its own."""
    repository = "github.test/acme/app"
    guest("create", "--git", repository, "--git-ssh", "one").check()
    for _ in range(2):
        said = inside(guest, "one", "head -1 $SSL_CERT_FILE; mkdir -p ~/.local/bin && echo x > ~/.local/bin/tool && rm -r ~/.local/bin && echo own")
        assert said.check().text == "-----BEGIN CERTIFICATE-----\nown\n"
        ssh = guest("exec", "one", "--", "git", "ls-remote", "git@github.test:other/app")
        assert ssh.status != 0 and "acme" not in ssh.errors and "bailey" in ssh.errors and "does not answer" not in ssh.errors, ssh
        guest("stop", "one").check()
    where = pathlib.Path(rows(guest)["one"]["home"])
    assert len(list((where / ".local/state/bailey/certificates").iterdir())) == 1, "a start leaves nothing for good"

    guest("create", "--bridge", f"git={repository}", "two").check()
    script = "echo $PATH; touch /run/bailey/bin/new; rm -f /run/bailey/bin/git; git ls-remote https://github.test/other/app"
    said = inside(guest, "two", script)
    assert said.text.startswith("/run/bailey/bin:") and said.errors.count("Permission denied") == 2, said
    assert "is not one that this sandbox may use git for" in said.errors, said


def test_a_link_of_the_guest_is_not_granted(guest, home):
    """What the guest makes of a path that it may write decides nothing about what is granted by that path."""
    shared, private = home / "shared", home / "private"
    for directory in (shared / "docs", private / "inner"):
        directory.mkdir(parents=True)
    (private / "inner/file").write_text("of the host\n")
    guest("create", "one").check()
    guest("grant", "one", f"{shared}:rw").check()
    guest("stop", "one").check()
    inside(guest, "one", f"cd {shared}; rmdir docs; ln -s {private} docs; ln -s ../private/inner deep; mkdir d; ln -s ../docs d/e").check()
    guest("stop", "one").check()
    for name in ("docs", "deep", "docs/inner", "d/e", "d/../docs", "d/e/inner"):
        refused = guest("grant", "one", f"{shared}/{name}")
        assert refused.status == 5 and "is a link" in refused.errors, (name, str(refused))
    assert json.loads(guest("grants", "--json", "one").check().text) == [{"path": str(shared), "access": "rw"}]
    guest("grant", "one", str(private)).check()
    assert inside(guest, "one", f"cat {private}/inner/file").check().text == "of the host\n"


def test_a_link_on_the_way_to_a_grant(guest, home):
    """A guest that may write around a granted directory puts a link on the way to it: what that leads to stays closed."""
    outer, private = home / "outer", home / "private"
    for directory in (outer / "inner/src", private / "src"):
        directory.mkdir(parents=True)
        (directory / "file").write_text("of the host\n")
    before = [(p.stat().st_mode, os.listxattr(p)) for p in (private, private / "src", private / "src/file")]
    guest("create", "one").check()
    for path in (outer, outer / "inner/src"):
        guest("grant", "one", f"{path}:rw").check()
    inside(guest, "one", f"cd {outer} && mv inner away && ln -s {private} inner").check()
    guest("stop", "one").check()
    assert (outer / "inner").is_symlink()

    looks = "; ".join(f"cat {d}/src/file 2>/dev/null; (echo changed > {d}/src/file) 2>/dev/null" for d in (outer / "inner", private))
    warnings = []
    for revoke in (False, True):
        if revoke:
            warnings.append(guest("revoke", "one", outer).check().errors)
        warnings.append(guest("start", "one").check().errors)
        assert inside(guest, "one", f"{looks}; true").check().text == "", revoke
        guest("stop", "one").check()
        assert (private / "src/file").read_text() == "of the host\n"
        assert [(p.stat().st_mode, os.listxattr(p)) for p in (private, private / "src", private / "src/file")] == before, "no access lists"
    assert "outer/inner/src was granted, but is not given" in warnings[0] and "outer/inner/src is granted no more" in warnings[1], warnings


@pytest.fixture
def own_guest(guest, run, tmp_path):
    """As `guest`, and root's guests have ids of their own too: by an /etc that a mount namespace has over the machine's. A copy would
    fail where another test adds an account at that moment."""
    if ORDINARY:
        yield guest
        return
    script = """set -e; mkdir "$0"; mount -t tmpfs over "$0"; cd "$0"; mkdir etc work
        echo root:700000:65536 | tee etc/subuid >etc/subgid
        mount -t overlay -o lowerdir=/etc,upperdir=etc,workdir=work over /etc; echo up; exec sleep 3600"""
    with subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, tmp_path / "over"], stdout=subprocess.PIPE) as keeper:
        try:
            assert keeper.stdout.readline() == b"up\n"

            def call(*words, wrap=list, **more):
                return run(["nsenter", f"--mount=/proc/{keeper.pid}/ns/mnt", "--", *wrap([str(program("bailey")), "guest", *map(str, words)])], **more)
            yield call
            for row in json.loads(call("ls", "--json").text or "[]"):
                call("delete", "--force", row["name"])
        finally:
            keeper.kill()


def facts(path):
    """Owner, mode and extended attributes of everything in a directory, and of itself."""
    return {p: (p.lstat().st_uid, p.lstat().st_mode, {name: os.getxattr(p, name, follow_symlinks=False) for name in os.listxattr(p, follow_symlinks=False)})
            for p in (path, *sorted(path.rglob("*")))}


def owned_by(uid, top):
    return [name for directory, names, files in os.walk(top) for name in (directory, *(os.path.join(directory, n) for n in names + files)) if os.lstat(name).st_uid == uid]


def default_list(owner):
    """One that names its owner, as `setfacl -d -m u:OWNER:r-x` makes it."""
    entries = [(1, 7, -1), (2, 5, owner), (4, 5, -1), (16, 7, -1), (32, 0, -1)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)


CLOSED = """
umask 077; cd {shared}
mkdir -m 700 closed closed/deeper; echo secret > closed/deeper/file; chmod 600 closed/deeper/file; mkdir -m 000 none; printf x > "$(printf 'new\nline')"
cp /bin/true set-id; chmod 6755 set-id; mkdir -m 3777 sticky
ln closed/deeper/file second; ln own host-second; ln -s {private}/file link; ln -s {private} directory; mkfifo -m 000 fifo
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'
"""


def test_what_a_guest_made_in_a_grant(own_guest, home):
    """After `fix`, `revoke` and `delete` it belongs to the host user; lists are as they were; links lead nowhere."""
    shared, private = home / "shared", home / "private"
    for path in (shared / "sub", shared / "listed", private):
        path.mkdir(parents=True)
        (path / "file").write_text("of the host\n")
        (path / "file").chmod(0o640)
    (shared / "own").write_text("of the host\n")
    os.setxattr(shared / "listed", "system.posix_acl_default", default_list(os.geteuid()))
    if not ORDINARY:
        os.chown(shared / "sub/file", 54321, 54321)
    before = facts(home)
    own_guest("create", "one").check()
    for _ in range(2):
        own_guest("grant", "one", f"{shared}:rw").check()
        own_guest("revoke", "one", shared).check()
        assert {p: now for p, now in facts(home).items() if p in before} == before
    own_guest("grant", "one", f"{shared}:rw").check()
    inside(own_guest, "one", CLOSED.format(shared=shared, private=private)).check()
    own_guest("stop", "one").check()
    uid = rows(own_guest)["one"]["uid"]

    assert uid == os.geteuid() or owned_by(uid, shared), "the guest made something"
    fixed = own_guest("fix", "one").check()
    if uid != os.geteuid():
        assert not owned_by(uid, shared), fixed
    assert (shared / "closed/deeper/file").read_text() == "secret\n" and list((shared / "none").iterdir()) == []
    (shared / "closed/deeper/file").write_text("the host may write\n")
    assert inside(own_guest, "one", f"cd {shared}; cat closed/deeper/file; mkdir -m 700 again; echo x > again/file; chmod 0 again/file again").check().text == "the host may write\n"
    own_guest("stop", "one").check()
    own_guest("revoke", "one", shared).check()

    after = facts(home)
    made = {p: now for p, now in after.items() if p not in before and shared in p.parents}
    assert {p: now for p, now in after.items() if p in before} == before
    assert len(made) > 10 and (uid == os.geteuid() or not owned_by(uid, shared)), made
    for path, (owner, mode, lists) in made.items():
        assert owner == os.geteuid() and (stat.S_ISLNK(mode) or not mode & 0o7000) and not lists, (path, oct(mode), lists)
        assert stat.S_ISLNK(mode) or mode & 0o600 == 0o600, (path, oct(mode))
    assert (private / "file").read_text() == "of the host\n" and (shared / "again/file").read_text() == "x\n"
    own_guest("delete", "--force", "one").check()


def test_a_deleted_guest_leaves_nothing_to_the_next(own_guest, home):
    """Also what lies deeper than there are descriptors, and what has the group of its directory."""
    shared = home / "shared"
    shared.mkdir()
    if not ORDINARY:
        os.chown(shared, 0, 54321)
        shared.chmod(0o2770)
    own_guest("create", "one").check()
    own_guest("grant", "one", f"{shared}:rw").check()
    inside(own_guest, "one", f"""umask 077; cd {shared}; mkdir -m 700 closed; echo x > closed/file; python3 - <<'END'
import os
for i in range(700):
    os.mkdir("d"); os.chdir("d")
END""").check()
    uid = rows(own_guest)["one"]["uid"]
    own_guest("delete", "--force", "one").check()
    if uid != os.geteuid():
        assert not owned_by(uid, shared) and len(list(shared.glob("deep-*"))) == 2
    assert not os.listxattr(shared) and (shared / "closed/file").read_text() == "x\n"
    own_guest("create", "two").check()
    assert inside(own_guest, "two", f"cat {shared}/closed/file").status != 0
    shutil.rmtree(shared)


def test_a_revoke_while_the_guest_writes(own_guest, home):
    """Whatever it makes meanwhile, nothing of it is the guest's afterwards."""
    shared = home / "shared"
    (shared / "a/b").mkdir(parents=True)
    own_guest("create", "one").check()
    own_guest("grant", "one", f"{shared}:rw").check()
    own_guest("start", "one").check()
    uid = rows(own_guest)["one"]["uid"]
    own_guest("exec", "-d", "one", "--", "sh", "-c", f"cd {shared}; for i in $(seq 1 3000); do mkdir -m 700 d$i a/d$i a/b/d$i; mkdir d$i/e; done").check()
    wait_until(lambda: (shared / "a/b/d20").exists())
    revoked = own_guest("revoke", "one", shared).check()
    if uid != os.geteuid():
        assert "has open" in revoked.errors, "an open file cannot be taken back, and that is said"
        assert not owned_by(uid, shared) and len(list(shared.iterdir())) > 20
        assert not any(os.listxattr(p) for p in (shared, *shared.rglob("*")))


KEPT_OPEN = """
umask 0; cd {shared}
mkdir -m 777 by-mode; echo x > by-mode/file; chmod 666 by-mode/file; mkdir -m 2777 by-group; mkdir -m 700 by-list by-default
/usr/bin/python3 - <<END
import os, struct
everybody = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *e) for e in ((1, 7, -1), (4, 7, -1), (8, 7, os.getgid()), (16, 7, -1), (32, 7, -1)))
os.setxattr("by-list", "system.posix_acl_access", everybody)
os.setxattr("by-default", "system.posix_acl_access", everybody)
os.setxattr("by-default", "system.posix_acl_default", everybody)
END
mkdir deeper; mv by-group deeper/by-group
"""


def list_of(path, kind):
    return os.getxattr(path, f"system.posix_acl_{kind}") if f"system.posix_acl_{kind}" in os.listxattr(path) else b""


def test_nothing_is_kept_open_by_modes_and_lists(own_guest, home):
    """A guest chooses the modes, groups and lists of what it makes. By none of them can it write afterwards, where the host user goes on working."""
    shared = home / "shared"
    shared.mkdir()
    own_guest("create", "one").check()
    own_guest("grant", "one", f"{shared}:rw").check()
    inside(own_guest, "one", KEPT_OPEN.format(shared=shared)).check()
    row = rows(own_guest)["one"]
    gid = pathlib.Path(row["home"]).stat().st_gid
    for name in ("by-mode", "deeper/by-group", "by-default"):
        (shared / name / "of-the-host").write_text("x")
        (shared / name / "directory/of-the-host").mkdir(parents=True)
    own_guest("revoke", "one", shared).check()
    for path in (shared, *shared.rglob("*")):
        there = path.lstat()
        of_host = path.name in ("of-the-host", "directory")  # its group is the host user's
        assert there.st_uid == os.geteuid() and not there.st_mode & (0o002 if of_host else 0o022), (path, oct(there.st_mode))
        assert row["uid"] == os.geteuid() or there.st_gid != gid, path
        for kind in ("access", "default"):
            named = struct.pack("<I", gid)
            assert row["uid"] == os.geteuid() or named not in list_of(path, kind)[4:], (path, kind)
    tried = "; ".join(f"echo no > {shared}/{name}/new" for name in ("by-mode", "deeper/by-group", "by-list", "by-default"))
    inside(own_guest, "one", f"({tried}) 2>/dev/null; true")
    assert not list(shared.rglob("new")) or row["uid"] == os.geteuid()


LISTS = """
import fcntl, os, struct, sys, time
def entries(*all): return struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *e) for e in all)
os.chdir(sys.argv[1])
me = os.getuid()
for name, owner, other in (("no-look", 3, 0), ("no-search", 6, 7), ("nothing", 0, 7)):
    os.mkdir(name, 0o777)
    os.setxattr(name, "system.posix_acl_default", entries((1, owner, -1), (2, 7, me), (4, 0, -1), (16, 7, -1), (32, other, -1)))
    os.chmod(name, 0o777)
held = [os.open(f"leased{number}", os.O_RDWR | os.O_CREAT, 0o666) for number in range(3)]
for fd in held:
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
open("ready", "w").close()
time.sleep(600)
"""


def test_what_the_host_makes_in_a_directory_of_the_guests(own_guest, home):
    """By the list for new entries it may be closed to its owner and open to the guest. Nor do leases hold up a revoke."""
    shared = home / "shared"
    shared.mkdir()
    own_guest("create", "one").check()
    own_guest("grant", "one", f"{shared}:rw").check()
    own_guest("start", "one").check()
    uid = rows(own_guest)["one"]["uid"]
    own_guest("exec", "-d", "one", "--", "/usr/bin/python3", "-c", LISTS, shared).check()
    wait_until(lambda: (shared / "ready").exists())
    for name in ("no-look", "no-search", "nothing"):
        os.mkdir(shared / name / "directory")
        os.close(os.open(shared / name / "file", os.O_WRONLY | os.O_CREAT, 0o666))
        os.close(os.open(shared / name / "program", os.O_WRONLY | os.O_CREAT, 0o777))
    own_guest("revoke", "one", shared, timeout=60).check()
    for path in (shared, *sorted(shared.rglob("*"))):
        there = path.lstat()
        assert there.st_uid == os.geteuid() and not there.st_mode & 0o002 and there.st_mode & 0o600 == 0o600, (path, oct(there.st_mode))
        named = struct.pack("<I", uid)
        assert uid == os.geteuid() or not any(named in list_of(path, kind)[4:] for kind in ("access", "default")), path
    assert len(list(shared.rglob("*"))) == 3 * 4 + 4
    own_guest("delete", "--force", "one").check()


@pytest.mark.root
def test_directories_of_the_host_that_were_nested(own_guest, home):
    """So deep that nobody looks: the guest moved them there, with something of its own at the bottom."""
    shared = home / "shared"
    shared.mkdir()
    own_guest("create", "one").check()
    own_guest("grant", "one", f"{shared}:rw").check()
    uid = rows(own_guest)["one"]["uid"]
    where = os.open(shared, os.O_PATH)
    for depth in range(420):
        os.mkdir("d", 0o755, dir_fd=where)
        where, above = os.open("d", os.O_PATH, dir_fd=where), where
        os.close(above)
        if depth in (350, 419):
            os.mkdir("mine", 0o700, dir_fd=where)
            os.chown("mine", uid, uid, dir_fd=where)
    os.close(where)
    own_guest("delete", "--force", "one").check()
    assert not owned_by(uid, shared) and len(list(shared.glob("deep-*"))) == 1
    shutil.rmtree(shared)


@pytest.mark.root
def test_an_error_inside_is_no_grant_that_is_gone(own_guest, home):
    """What cannot be taken back is said, and the grant stays on record until it was."""
    shared = home / "shared"
    shared.mkdir()
    own_guest("create", "one").check()
    own_guest("grant", "one", f"{shared}:rw").check()
    uid = rows(own_guest)["one"]["uid"]
    where = os.open(shared, os.O_PATH)
    for _ in range(299):
        os.mkdir("d", 0o755, dir_fd=where)
        where, above = os.open("d", os.O_PATH, dir_fd=where), where
        os.close(above)
    os.mkdir("mine", 0o755, dir_fd=where)
    os.chown("mine", uid, uid, dir_fd=where)
    os.fchmod(read := os.open(".", os.O_RDONLY, dir_fd=where), 0o555)
    os.fchown(read, 0, 54321)  # a group that no namespace of the guest's has: nobody may override its mode
    for words in (("revoke", "one", shared), ("delete", "--force", "one")):
        refused = own_guest(*words)
        assert refused.status != 0 and "cannot take back" in refused.errors, refused
        assert [grant["path"] for grant in json.loads(own_guest("grants", "--json", "one").check().text)] == [str(shared)]
    os.fchmod(read, 0o755)
    assert "one" not in rows(own_guest), "what was interrupted is finished"
    assert not owned_by(uid, shared) and not os.listxattr(shared)
    for fd in (where, read):
        os.close(fd)
    shutil.rmtree(shared)


def test_the_grant_that_was_named_is_revoked(guest, home):
    """Not the one that a link leads to, which a guest can put in its place."""
    for name in ("outer/inner", "data"):
        (home / name).mkdir(parents=True)
    guest("create", "one").check()
    for name in ("outer/inner", "data"):
        guest("grant", "one", home / f"{name}:rw").check()
    (home / "outer/inner").rmdir()
    (home / "outer/inner").symlink_to(home / "data")
    guest("revoke", "one", home / "outer/inner").check()
    assert [grant["path"] for grant in json.loads(guest("grants", "--json", "one").check().text)] == [str(home / "data")]


@pytest.mark.parametrize("instead", ["mkdir -m 700 inner", "ln -s ../private inner", "mkfifo inner", "mkdir -m 700 inner inner/src"])
@pytest.mark.parametrize("revoked", ["outer", "outer/inner", "outer/inner/src"])
@pytest.mark.rows
def test_the_guest_does_not_hold_up_a_revoke(guest, home, instead, revoked):
    for path in ("outer/inner/src", "private/src"):
        (home / path).mkdir(parents=True)
    guest("create", "one").check()
    guest("grant", "one", home / "outer:rw").check()
    guest("start", "one").check()
    for path in ("outer/inner", "outer/inner/src"):
        guest("grant", "one", home / f"{path}:rw").check()
    inside(guest, "one", f"cd {home}/outer && mv inner away && {instead}").check()
    guest("stop", "one").check()
    guest("revoke", "one", home / revoked, timeout=60).check()
    assert str(home / revoked) not in [grant["path"] for grant in json.loads(guest("grants", "--json", "one").check().text)]


@pytest.mark.parametrize("instead", ["mv mine inner", "mkdir inner; mv mine inner/src", "ln -s mine inner"])
@pytest.mark.parametrize("taken", [["revoke", "one", "outer"], ["grant", "one", "outer:ro"]], ids=["revoked", "narrowed"])
@pytest.mark.rows
def test_what_the_guest_put_in_the_place_of_a_grant_is_not_given(guest, home, instead, taken):
    """It could write around the inner grants. When it may not any more, they are not for something else of the host's that bears their names."""
    for path in ("outer/inner/src", "outer/mine", "outer/kept"):
        (home / path).mkdir(parents=True)
    (home / "outer/mine/file").write_text("private\n")
    guest("create", "one").check()
    for path in ("outer", "outer/inner", "outer/inner/src", "outer/kept"):
        guest("grant", "one", home / f"{path}:rw").check()
    inside(guest, "one", f"cd {home}/outer && mv inner away && {instead}").check()
    guest("stop", "one").check()
    said = guest(*taken[:2], home / taken[2], timeout=60).check().errors
    assert f"{home}/outer/inner is granted no more" in said, said
    left = {os.path.relpath(grant["path"], home) for grant in json.loads(guest("grants", "--json", "one").check().text)}
    assert left - {"outer"} == {"outer/kept"}, left
    writes = f"for d in outer/mine outer/inner outer/inner/src outer/kept; do (echo x > {home}/$d/file) 2>/dev/null; done; true"
    inside(guest, "one", writes).check()
    assert (home / "outer/kept/file").exists()
    assert [path.read_text() for path in (home / "outer").rglob("file") if "kept" not in str(path)] == ["private\n"]


KINDS = ["guest"] if ORDINARY else ["guest", "own_guest"]


def change_rows(home, statement, *values):
    with contextlib.closing(sqlite3.connect(home / ".local/state/bailey/guests.db")) as database, database:
        assert database.execute(statement, values).rowcount == 1


def forget_object(home, path):
    """As in a database from before objects were noted."""
    change_rows(home, "update grants set object = '' where path = ?", str(path))


def make_again(path):
    """As git and npm do."""
    kept = path.with_name("kept-meanwhile")  # so that the new one does not get its number
    path.rename(kept)
    path.mkdir()
    (path / "file").write_text("of the host\n")
    shutil.rmtree(kept)


def granted(call, home):
    return {os.path.relpath(grant["path"], home): grant["access"] for grant in json.loads(call("grants", "--json", "one").check().text)}


def writable(call, *paths):
    """Those in which the guest can make a file."""
    script = "; ".join(f"(echo x > {path}/new) 2>/dev/null && test -e {path}/new && echo {path}" for path in paths)
    said = inside(call, "one", f"{script}; true").check().text.split()
    call("stop", "one").check()
    return [path for path in paths if str(path) in said and (path / "new").exists()]


def names_for_writing(path, uid):
    lists = [list_of(path, kind)[4:] for kind in ("access", "default")]
    return [entry for entries in lists for entry in struct.iter_unpack("<HHI", entries) if entry[0] == 2 and entry[2] == uid and entry[1] & 2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", ["old", "again", "gone"])
@pytest.mark.parametrize("last", ["grant", "revoke"])
@pytest.mark.rows
def test_a_narrower_grant_inside_stays(request, home, kind, change, last):
    """What is read-only inside a grant for writing is so whatever is there by now: also where the grant for writing is one further out."""
    call, source, vendor = request.getfixturevalue(kind), home / "top/src", home / "top/src/vendor"
    vendor.mkdir(parents=True)
    (vendor / "file").write_text("of the host\n")
    call("create", "one").check()
    if last == "revoke":
        for path in (source.parent, source):
            call("grant", "one", f"{path}:rw").check()
    call("grant", "one", f"{vendor}:ro").check()
    if change == "old":
        forget_object(home, vendor)
    elif change == "again":
        make_again(vendor)
    else:
        vendor.rename(home / "elsewhere")

    call(last, "one", f"{source}:rw" if last == "grant" else source).check()
    assert granted(call, home) == {"top/src" if last == "grant" else "top": "rw", "top/src/vendor": "ro"}
    if change == "gone":
        (home / "elsewhere").rename(vendor)
    assert writable(call, source, vendor) == [source]
    uid = rows(call)["one"]["uid"]
    if uid != os.geteuid():
        assert names_for_writing(source, uid) and not names_for_writing(vendor, uid) and not names_for_writing(vendor / "file", uid)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wider_grant_inside_goes_if_it_is_not_known_what_was_granted(request, home, kind):
    """By the innermost grant around it, which need not be the one that was given last."""
    call, top = request.getfixturevalue(kind), home / "top"
    paths = [top / name for name in ("read", "read/old", "read/old/deeper", "read/same", "same")]
    for path in paths:
        path.mkdir(parents=True)
    call("create", "one").check()
    for path, access in zip(paths, ("ro", "rw", "ro", "rw", "rw")):
        call("grant", "one", f"{path}:{access}").check()
    forget_object(home, top / "read/old")
    forget_object(home, top / "same")
    said = call("grant", "one", f"{top}:rw").check().errors
    assert f"{top}/read/old is granted no more: an older Bailey did not note what was granted" in said, said
    assert said.count("granted no more") == 1, said
    assert granted(call, home) == {"top": "rw", "top/read": "ro", "top/read/old/deeper": "ro", "top/read/same": "rw", "top/same": "rw"}
    assert writable(call, top, *paths) == [top, top / "read/same", top / "same"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("accesses", [("ro", "rw"), ("rw", "ro")])
def test_a_grant_inside_that_cannot_be_looked_at(request, home, kind, accesses):
    """An error that does not say that it is gone: nothing is given, and no grant goes. It does not hold up a revoke."""
    call, top = request.getfixturevalue(kind), home / "top"
    (top / "inner").mkdir(parents=True)
    call("create", "one").check()
    call("grant", "one", f"{top}/inner:{accesses[0]}").check()
    longer = "top/" + "x" * 300  # a name that no file system looks up
    change_rows(home, "update grants set path = ? where path = ?", str(home / longer), str(top / "inner"))
    refused = call("grant", "one", f"{top}:{accesses[1]}")
    assert refused.status != 0 and "File name too long" in refused.errors, refused
    assert granted(call, home) == {longer: accesses[0]} and not list_of(top, "access")

    change_rows(home, "update grants set path = ? where path = ?", str(top / "inner"), str(home / longer))
    call("grant", "one", f"{top}:{accesses[1]}").check()
    change_rows(home, "update grants set path = ? where path = ?", str(home / longer), str(top / "inner"))
    assert "xxx is granted no more: what is there cannot be looked at" in call("revoke", "one", top).check().errors
    assert granted(call, home) == {}


def test_snapshots(guest, home):
    guest("create", "one").check()
    inside(guest, "one", "echo first > file; mkdir d; chmod 750 d; ln -s file link; ln file hard; touch -d 2001-02-03 file; truncate -s 50M sparse; chmod 600 file").check()
    facts = "stat -c '%n %a %s %Y %h' file d link hard sparse; readlink link"
    before = inside(guest, "one", facts).check().text
    guest("snapshot", "one", "a").check()
    assert guest("snapshot", "one", "a").status == 1 and guest("snapshot", "one", "../x").status == 2
    inside(guest, "one", "rm -rf file d link hard sparse; echo second > other").check()
    guest("snapshot", "one").check()
    listed = json.loads(guest("snapshots", "--json", "one").check().text)
    assert len(listed) == 2 and listed[0]["label"] == "a" and 0 < listed[0]["bytes"] < 1 << 20, listed
    guest("stop", "one").check()
    guest("restore", "one", "a").check()
    after = inside(guest, "one", f"{facts}; ls").check().text
    assert after.startswith(before) and "other" not in after
    assert guest("restore", "one", "none").status == 4
    guest("snapshot", "--remove", "one", "a").check()
    assert guest("snapshot", "--remove", "one", "a").status == 4
    guest("stop", "one").check()
    damaged = next((home / ".local/state/bailey/guests").glob("*/snapshots/*.zst"))
    damaged.write_bytes(damaged.read_bytes()[:-20])
    label = json.loads(guest("snapshots", "--json", "one").text)[0]["label"]
    refused = guest("restore", "one", label)
    assert refused.status != 0 and "damaged" in refused.errors
    assert inside(guest, "one", "cat file").check().text == "first\n", "the home is what it was"


@pytest.mark.user
@pytest.mark.visible_home
def test_ssh(guest, environment, home, run):
    guest("create", "one").check()
    entry = guest("ssh-config", "one").check().text
    assert "ProxyCommand" in entry and "Port" not in entry
    (home / "ssh_config").write_text(entry)
    assert entry == guest("ssh-config", "one").check().text
    keys = home / ".local/state/bailey/guests"
    assert all(path.stat().st_mode & 0o77 == 0 for path in keys.glob("*/ssh/key"))
    (home / "sent").write_text("through ssh\n")
    batch = f"put {home}/sent {home}/received\nls -l {home}/received\n".encode()
    result = run(["sftp", "-F", str(home / "ssh_config"), "-o", "BatchMode=yes", "-b", "-", "one.bailey"], stdin=batch)
    assert result.status == 0, result
    assert inside(guest, "one", "cat received").check().text == "through ssh\n"
    assert not (home / "received").exists()
    ssh = ["ssh", "-F", str(home / "ssh_config"), "-o", "BatchMode=yes"]
    assert run([*ssh, "one.bailey", f"cat {home}/received; exit 3"]).check(3).text == "through ssh\n"
    on_terminal = run([*ssh, "-tt", "one.bailey", "tty; test -t 0 && test -w $(tty) && stat -c %u $(tty); id -u; getent group tty || echo none"])
    # sshd looks for the home that the accounts have; the one of a test is another.
    said = [line for line in on_terminal.check(0).text.replace("\r", "").splitlines() if "Could not chdir to home" not in line]
    assert re.fullmatch(r"/dev/pts/\d+ (\d+) \1 none", " ".join(said)), on_terminal
    with open("/etc/group", encoding="utf-8") as file:
        groups = "".join(line for line in file if not line.startswith("tty:"))
    assert inside(guest, "one", "cat /etc/group").check().text == groups


@pytest.mark.parametrize("words", [["--deny-read", "/etc/group"],
                                   ["--reads", "deny", *sum((["--read", d] for d in ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache") if os.path.exists(d)), [])]])
def test_groups_that_the_policy_closes_stay_closed(guest, words):
    guest("create", *words, "one").check()
    said = inside(guest, "one", "echo begun; cat /etc/group")
    assert said.text == "begun\n", said


def on_a_terminal(words, env):
    """What a command writes to a terminal at its standard error, and its status."""
    ours, its = pty.openpty()
    with subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=its) as process:
        os.close(its)
        said = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # nobody has the other end any more
                break
            if not piece:
                break
            said += piece
        status = process.wait()
    os.close(ours)
    return status, said.decode()


@pytest.mark.exact_build
@pytest.mark.anybody
def test_long_work_shows_how_far_it_is(guest, home):
    """On a terminal a line that changes and goes; elsewhere nothing for work that takes less than ten seconds."""
    guest("create", "one").check()
    inside(guest, "one", "head -c 400000000 /dev/urandom > big").check()
    guest("stop", "one").check()
    env = {**os.environ, "HOME": str(home)}
    env.pop("XDG_STATE_HOME", None)
    status, said = on_a_terminal([program("bailey"), "guest", "snapshot", "one", "big"], env)
    assert status == 0 and re.search(r"\r\x1b\[Kone: packing, [0-9.]+ MB so far", said), said
    assert said.endswith("\r\x1b[K"), "the line goes"
    status, said = on_a_terminal([program("bailey"), "guest", "restore", "one", "big"], env)
    assert status == 0 and re.search(r"one: unpacking, [0-9]+ % of [0-9.]+ MB", said), said
    assert guest("snapshot", "one", "again").check().errors == ""


def test_a_snapshot_that_is_killed_lets_the_guest_go_on(guest, environment):
    """At any moment of it; also one that stands still by `bailey pause` can be stopped."""
    guest("create", "one").check()
    inside(guest, "one", "head -c 30000000 /dev/urandom > big").check()
    for turn in range(6):
        child = subprocess.Popen([str(program("bailey")), "guest", "snapshot", "one", f"s{turn}"], env=environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(0.01 + 0.02 * turn)
        child.kill()
        child.wait()
        assert inside(guest, "one", "echo alive", timeout=60).check().text == "alive\n"


def test_one_that_stands_still_can_be_stopped(guest, bailey):
    guest("create", "one").check()
    guest("start", "one").check()
    bailey("pause", rows(guest)["one"]["sandbox"]).check()
    guest("stop", "one", timeout=60).check()
    assert state(guest, "one") == "stopped"


def test_an_archived_guest_has_no_home_to_copy_to(guest, tmp_path):
    """And what lies where its home was is never taken for it."""
    file = tmp_path / "file"
    file.write_text("from outside\n")
    guest("create", "one").check()
    inside(guest, "one", "echo precious > mine").check()
    guest("stop", "one").check()
    where = pathlib.Path(rows(guest)["one"]["home"])
    guest("archive", "one").check()
    refused = guest("cp", file, "one:copied")
    assert refused.status != 0 and "archived" in refused.errors and not where.exists(), refused
    where.mkdir()
    refused = guest("unarchive", "one")
    assert refused.status != 0 and str(where) in refused.errors and state(guest, "one") == "archived", refused
    where.rmdir()
    guest("unarchive", "one").check()
    assert inside(guest, "one", "cat mine").check().text == "precious\n"


@pytest.mark.root  # the filter takes set-id programs away, newuidmap among them
def test_a_home_is_on_the_disk_before_its_archive_goes(own_guest):
    """On a disk that fails to write, the archive, and the home that a restore would replace, are still there."""
    def fails(*words):
        refused = own_guest(*words, wrap=lambda argv: machine(argv, refuse=[deny("syncfs", errno.EIO)]))
        assert refused.status != 0 and "cannot write the home to the disk" in refused.errors, refused
    own_guest("create", "one").check()
    inside(own_guest, "one", "echo first > file").check()
    own_guest("stop", "one").check()
    own_guest("snapshot", "one", "s").check()
    inside(own_guest, "one", "echo second > file").check()
    own_guest("stop", "one").check()
    fails("restore", "one", "s")
    assert inside(own_guest, "one", "cat file").check().text == "second\n"
    own_guest("stop", "one").check()
    own_guest("archive", "one").check()
    fails("unarchive", "one")
    assert state(own_guest, "one") == "archived"
    own_guest("unarchive", "one").check()
    assert inside(own_guest, "one", "cat file").check().text == "second\n"
