# SPDX-License-Identifier: Apache-2.0
"""Paths that a person opens in a sandbox that runs: exactly what was named, nothing that is denied or protected, until the end."""
import errno
import json
import os

import pytest

from conftest import program
from kit.machine import deny, machine
from kit.process import SLOW, wait_until

pytestmark = pytest.mark.visible_home


@pytest.fixture
def running(start, bailey, home, work):
    """running(script, options): a sandbox that runs the script when told to go; then go() gives its Result."""
    def begin(script, *options):
        child = start(["bailey", "run", "-q", *options, "--", "bash", "-c", f"touch ready; while ! test -e go; do sleep 0.05; done; {script}"], cwd=work)
        wait_until(lambda: (work / "ready").exists(), 30 * SLOW)

        def go():
            (work / "go").touch()
            return child.wait(60 * SLOW)
        return go
    return begin


def allow(bailey, path, *options, cwd):
    return bailey("allow", "--path", *options, str(path), cwd=cwd)


def test_reading_a_file_and_a_directory(running, bailey, home, work):
    (home / "data/deep").mkdir(parents=True)
    (home / "data/deep/file").write_text("content\n")
    (home / "one").write_text("one\n")
    (home / "other").write_text("other\n")
    go = running(f"cat ~/one ~/data/deep/file; echo x > ~/one; echo y > ~/data/new; cat ~/other; ls -A ~/data")
    allow(bailey, home / "one", cwd=work).check()
    allow(bailey, home / "data", cwd=work).check()
    done = go()
    assert done.text.startswith("one\ncontent\n") and "other\n" not in done.text and done.text.endswith("deep\n"), done
    assert (home / "one").read_text() == "one\n" and not (home / "data/new").exists()
    assert "Read-only" in done.errors


def test_writing_a_file(running, bailey, home, work):
    (home / "notes").mkdir()
    (home / "notes/list.md").write_text("before\n")
    go = running("cat ~/notes/list.md; echo after > ~/notes/list.md; echo x > ~/notes/another")
    allow(bailey, home / "notes/list.md", "--write", cwd=work).check()
    assert "before" in go().text
    assert (home / "notes/list.md").read_text() == "after\n" and not (home / "notes/another").exists()


@pytest.mark.parametrize("again", ["--forget", "--write"])
@pytest.mark.parametrize("trick", ["mv ~/other ~/moved", "mv ~/other ~/moved; ln -s $PWD ~/other"])
def test_what_is_closed_is_what_was_opened(start, bailey, home, work, again, trick):
    """The directories on the way inside are the sandbox's: moved, or a link in their place that leads to a mask."""
    (home / "other").mkdir()
    (home / "other/.env").write_text("agreed\n")
    (work / ".env").write_text("secret\n")
    script = f"""touch ready; while ! test -e opened; do sleep 0.05; done; cat ~/other/.env; {trick}; touch moved
                 while ! test -e closed; do cat .env 2>/dev/null; done; cat .env; cat ~/moved/.env; true"""
    child = start(["bailey", "run", "-q", "--deny-read", work / ".env", "--", "bash", "-c", script], cwd=work)
    wait_until(lambda: (work / "ready").exists(), 30 * SLOW)
    allow(bailey, home / "other/.env", cwd=work).check()
    (work / "opened").touch()
    wait_until(lambda: (work / "moved").exists(), 30 * SLOW)
    allow(bailey, home / "other/.env", again, cwd=work)
    (work / "closed").touch()
    done = child.wait(60 * SLOW)
    assert done.text == "agreed\n", done


BY_DESCRIPTOR = """
import os, time
def wait(name):
    while not os.path.exists(name): time.sleep(0.02)
work = os.getcwd()
open('ready', 'w').close(); wait('granted')
top = os.open(os.path.expanduser('~/data'), os.O_RDONLY)
deep = os.open(os.path.expanduser('~/data/deep'), os.O_RDONLY)
# Their path without the mount begins with /tmp, where the program can put what it likes.
alike, below = os.open(os.path.expanduser('~/data/tmp'), os.O_RDONLY), os.open(os.path.expanduser('~/data/tmp/sub'), os.O_RDONLY)
os.symlink(f'/proc/self/fd/{alike}/x.key', '/tmp/x.key'); os.symlink(f'/proc/{os.getpid()}/fd/{below}', '/tmp/sub')
def tell(when, also=()):
    for how in (lambda: os.open('x.key', os.O_RDONLY, dir_fd=top), lambda: os.open('deep/y.key', os.O_RDONLY, dir_fd=top), lambda: os.open('y.key', os.O_RDONLY, dir_fd=deep),
                lambda: os.open('../x.key', os.O_RDONLY, dir_fd=deep), lambda: os.open(f'/proc/self/fd/{top}/x.key', os.O_RDONLY),
                lambda: os.open(f'/dev/fd/{deep}/y.key', os.O_RDONLY), lambda: (os.chdir(top), os.open('x.key', os.O_RDONLY))[1],
                lambda: os.open('/tmp/x.key', os.O_RDONLY), lambda: os.open('sub/y.key', os.O_RDONLY, dir_fd=alike), *also):
        try: print(when, os.read(how(), 20), flush=True)
        except OSError as error: print(when, 'closed', flush=True)
        finally: os.chdir(work)
tell('open', [lambda: os.open('x.txt', os.O_RDONLY, dir_fd=top)])
open('opened', 'w').close(); wait('closed')
tell('taken back')
"""


@pytest.mark.parametrize("landlock", [True, False])
def test_a_glob_holds_below_a_directory_that_was_taken_back(start, bailey, home, work, landlock):
    """Its descriptors have a path that begins at the mount that is gone: no rule about the real one would meet it."""
    for name in ("data/deep", "data/tmp/sub"):
        (home / name).mkdir(parents=True)
    for name in ("x.key", "x.txt", "deep/y.key", "tmp/x.key", "tmp/sub/y.key"):
        (home / "data" / name).write_text(f"{name}\n")
    words = [program("bailey"), "run", "-q", "--deny-read", str(home / "data/**/*.key"), "--", "/usr/bin/python3", "-c", BY_DESCRIPTOR]
    child = start(words if landlock else machine(words, refuse=[deny("landlock_create_ruleset", errno.ENOSYS)]), cwd=work)
    wait_until(lambda: (work / "ready").exists(), 30 * SLOW)
    allow(bailey, home / "data", cwd=work).check()
    (work / "granted").touch()
    wait_until(lambda: (work / "opened").exists(), 30 * SLOW)
    allow(bailey, home / "data", "--forget", cwd=work).check()
    (work / "closed").touch()
    done = child.wait(60 * SLOW)
    assert done.text == "open closed\n" * 9 + "open b'x.txt\\n'\n" + "taken back closed\n" * 9, done


def test_a_directory_that_was_taken_back_opens_nothing_more(start, bailey, home, work):
    """Its mount is gone, but a descriptor of it is not: Landlock's rights to read are all that holds."""
    (home / "data/deep").mkdir(parents=True)
    (home / "data/before").write_text("before")
    script = """import os, time
def wait(name):
    while not os.path.exists(name): time.sleep(0.02)
def tell(*ways):
    for way in ways:
        try: print(way(), flush=True)
        except OSError as error: print(error.strerror, flush=True)
open("ready", "w").close(); wait("granted")
top, deep = (os.open(os.path.expanduser(name), os.O_RDONLY) for name in ("~/data", "~/data/deep"))
tell(lambda: os.read(os.open("before", os.O_RDONLY, dir_fd=top), 20))
open("opened", "w").close(); wait("closed")
tell(lambda: os.open("before", os.O_RDONLY, dir_fd=top), lambda: os.open("later", os.O_RDONLY, dir_fd=top), lambda: os.open("../later", os.O_RDONLY, dir_fd=deep),
     lambda: os.open(".", os.O_RDONLY, dir_fd=deep), lambda: os.open(f"/proc/self/fd/{top}/later", os.O_RDONLY), lambda: os.execv(f"/proc/self/fd/{top}/later", ["later"]))
"""
    child = start(["bailey", "run", "-q", "--", "/usr/bin/python3", "-c", script], cwd=work)
    wait_until(lambda: (work / "ready").exists(), 30 * SLOW)
    allow(bailey, home / "data", cwd=work).check()
    (work / "granted").touch()
    wait_until(lambda: (work / "opened").exists(), 30 * SLOW)
    allow(bailey, home / "data", "--forget", cwd=work).check()
    (home / "data/later").write_text("#!/bin/echo")
    (home / "data/later").chmod(0o755)
    (work / "closed").touch()
    done = child.wait(60 * SLOW)
    assert done.text == "b'before'\n" + "Permission denied\n" * 6, done


def test_it_ends_with_the_sandbox_and_leaves_nothing(running, bailey, home, work):
    (home / "one").write_text("one\n")
    go = running("cat ~/one")
    allow(bailey, home / "one", cwd=work).check()
    assert go().text == "one\n"
    (work / "go").unlink()
    (work / "ready").unlink()
    assert "one" not in running("ls -A ~; cat ~/one")().text


def test_it_is_taken_back(running, bailey, home, work):
    (home / "one").write_text("one\n")
    go = running("cat ~/one")
    allow(bailey, home / "one", cwd=work).check()
    allow(bailey, home / "one", "--forget", cwd=work).check()
    assert go().text == ""


def test_a_remembered_path_is_there_at_the_next_start(running, bailey, home, work):
    (home / "one").write_text("one\n")
    go = running("cat ~/one")
    allow(bailey, home / "one", "--scope", "workspace", cwd=work).check()
    assert go().text == "one\n"
    (work / "go").unlink()
    (work / "ready").unlink()
    assert running("cat ~/one")().text == "one\n"


@pytest.mark.parametrize("path, options, says", [
    (".ssh/id_ed25519", [], "denied or protected"), (".ssh", [], "denied or protected"), (".aws/credentials", [], "denied or protected"),
    ("other/.git/hooks/pre-commit", ["--write"], "protected"), ("other/.envrc", ["--write"], "protected"), (".bashrc", ["--write"], "protected"),
    ("other", ["--write"], "next start"), ("link", [], "link"), ("missing", [], "No such file"), ("holds", [], "denied"), ("fifo", [], "neither"),
])
def test_what_is_never_opened(running, bailey, home, work, path, options, says):
    for name in (".ssh/id_ed25519", ".aws/credentials", "other/.git/hooks/pre-commit", "other/.envrc", ".bashrc", "holds/secret"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("secret\n")
    (home / "link").symlink_to("other")
    os.mkfifo(home / "fifo")
    go = running("cat ~/" + path, "--deny-read", home / "holds/secret")
    refused = allow(bailey, home / path, *options, cwd=work)
    assert refused.status != 0 and says in refused.errors, refused
    assert "secret" not in go().text


@pytest.mark.parametrize("trick", ["ln -s {work} ~/a", "mkdir ~/a; ln -s {work}/.git ~/a/b", "mkdir -p ~/a/b; ln -s {work}/x ~/a/b/c", "mkdir -p ~/a/b/c"])
def test_links_of_the_sandbox_lead_nowhere(running, bailey, start, home, work, trick):
    """The sandbox has put something else where the path is to be: the grant is refused, and nothing is mounted elsewhere."""
    (home / "a/b").mkdir(parents=True)
    (home / "a/b/c").write_text("content\n")
    (work / ".git").mkdir()
    (work / "x").write_text("mine\n")
    script = f"{trick.format(work=work)}; touch played; while ! test -e on; do sleep 0.05; done; cat {work}/x; find {work} -name c"
    go = running(script)
    (work / "go").touch()
    wait_until(lambda: (work / "played").exists(), 30 * SLOW)
    refused = allow(bailey, home / "a/b/c", cwd=work)
    (work / "on").touch()
    assert refused.status != 0 and go().text == "mine\n", refused


def test_a_path_that_is_exchanged_all_the_time(running, bailey, home, work):
    """Somebody outside exchanges a directory on the way for a link to a secret: what is mounted is what was judged, or nothing."""
    for name, text in (("a/b", "fine"), ("secret/b", "secret")):
        (home / name).parent.mkdir()
        (home / name).write_text(text + "\n")
    go = running("for i in 1 2 3 4 5; do cat ~/a/b 2>/dev/null; sleep 0.05; done; true", "--deny-read", home / "secret")
    exchange = ("import os, time, sys; os.chdir(sys.argv[1]); end = time.monotonic() + 4\n"
                "while time.monotonic() < end:\n"
                "    os.rename('a', 'kept'); os.symlink('secret', 'a'); os.unlink('a'); os.rename('kept', 'a')\n")
    import subprocess
    racer = subprocess.Popen(["/usr/bin/python3", "-c", exchange, str(home)])
    for _ in range(30):
        allow(bailey, home / "a/b", cwd=work)
    racer.wait()
    assert "secret" not in go().text


def test_everything_is_on_record(running, bailey, home, work):
    (home / "one").write_text("one\n")
    go = running("true")
    allow(bailey, home / "one", cwd=work).check()
    go()
    log = bailey("log", "--json", cwd=work).text
    assert f"path opened while it runs: read {home}/one" in log
