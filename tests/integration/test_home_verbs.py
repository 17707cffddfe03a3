# SPDX-License-Identifier: Apache-2.0
"""bailey home: homes are listed, compared with the real one, removed, and something is carried out on purpose."""
import fcntl
import json
import os
import pathlib

import pytest

from kit.process import wait_until

pytestmark = pytest.mark.visible_home

EVIL = "\x1b[31mevil"


@pytest.fixture
def at(bailey, work):
    return lambda *words, **more: bailey("home", *words, **{"cwd": work, **more})


@pytest.fixture
def sh(bailey, work):
    return lambda script, *options, **more: bailey("run", *options, "--", "sh", "-c", script, **{"cwd": work, **more})


def test_none_yet(at):
    assert at("ls").check().text == "" and json.loads(at("ls", "--json").check().text) == []
    for verb in ("show", "diff", "path", "reset"):
        result = at(verb)
        assert result.status == 4 and "no sandbox has run in" in result.errors, result
        assert at(verb, "unknown").status == 4
    assert at("export", "x").status == 4 and at("export").status == 2


def test_look_at_it(at, sh, home, work):
    (home / ".gitconfig").write_text("[user]\n\tname = Ann\n")
    (home / "known").write_text("same\n")
    sh(f"mkdir -p ~/.claude ~/notes; echo '{{}}' > ~/.claude/settings.json; echo n > ~/notes/a; echo x > ~/'{EVIL}'; ln -s /etc/passwd ~/link; mkfifo ~/pipe").check()
    sh("echo shared > ~/s", "--home", "shared").check()
    listed = json.loads(at("ls", "--json").check().text)
    assert {entry["id"].split(".")[0] for entry in listed} == {"work", "shared"} and all(not entry["in_use"] for entry in listed)
    assert str(work) in at("ls").check().text
    directory = at("path").check().text.strip()
    assert directory == listed[0]["path"] or directory == listed[1]["path"]
    assert open(os.path.join(directory, "notes/a")).read() == "n\n"
    shown = json.loads(at("show", "--json").check().text)
    assert shown["laid"] == [{"path": ".gitconfig", "changed": False}] and shown["workspace"] == str(work)
    assert ".gitconfig" in at("show").check().text
    text = at("diff").check().text
    assert "\x1b" not in text and "A  notes/" in text and "A  notes/a" in text, text
    changes = {change["path"]: change for change in json.loads(at("diff", "--json").check().text)["changes"]}
    assert ".gitconfig" not in changes and "known" not in changes
    assert changes[".claude/settings.json"]["marks"] == ["protected"] and changes["link"]["marks"] == ["link-leaves"] and changes["pipe"]["marks"] == ["special"]
    assert json.loads(at("diff", "--json", "shared").check().text)["changes"][0]["path"] == "s"
    assert at("path", "sha").check().text == at("path", "shared").check().text


def test_export(at, sh, home, work):
    (home / "victim").mkdir()
    sh("mkdir -p ~/notes/deep ~/.claude ~/.local/bin; echo n > ~/notes/deep/a; echo b > ~/notes/b; echo h > ~/.claude/settings.json; "
       "echo 'export X=1' > ~/.profile; echo prog > ~/.local/bin/ls; chmod 4755 ~/notes/b; "
       "ln -s /etc ~/out").check()
    assert at("export", "notes").check().text.startswith("4 exported")
    assert (home / "notes/deep/a").read_text() == "n\n" and not (home / "notes/b").stat().st_mode & 0o7000
    for name in ("~/.profile", ".claude/settings.json", str(home / ".local/bin/ls"), "out"):
        result = at("export", name)
        assert result.status == 1 and "--risky" in result.text, (name, result)
    assert not (home / ".profile").exists() and not (home / ".claude").exists() and not (home / ".local/bin").exists() and not (home / "out").exists()
    for name in ("../x", "/etc/passwd", "~", ".", "missing"):
        assert at("export", name).status in (2, 4), name
    at("export", "--risky", ".profile").check()
    assert (home / ".profile").read_text() == "export X=1\n"
    # A link that is planted on the way is not followed.
    sh(f"rm -rf ~/notes; ln -s {home}/victim ~/notes; rm -rf ~/more; mkdir ~/more; echo x > ~/more/file").check()
    (home / "more").symlink_to(home / "victim")
    at("export", "--risky", "more/file")
    assert list((home / "victim").iterdir()) == []


def test_what_runs_outside_is_marked(at, sh, home):
    names = [".config/awesome/rc.lua", ".config/user-tmpfiles.d/x.conf", ".direnvrc", ".gnomerc", ".config/mpv/scripts/x.lua", ".config/yt-dlp/config", ".wgetrc", ".forward"]
    sh(f"cd; for f in {' '.join(names)}; do mkdir -p $(dirname $f); echo x > $f; done").check()
    for name in names:
        assert at("export", name).status == 1 and not (home / name).exists(), name


def test_certificates_leave_no_directory(at, sh, home):
    """A run with a credential has a point in the home where its certificates are mounted; those of killed runs go with the next."""
    script = 'test -s "$SSL_CERT_FILE" && cd "${SSL_CERT_FILE%/*/*}" && mkdir -p killed alive used/x'
    outside = home / ".local/state/bailey/certificates/alive"
    outside.mkdir(parents=True)

    def left():
        sh(script, "--credential", "github=env:T", "--allow", "api.github.com", env={"T": "abcdefghijklmnop"}).check()
        changes = [change["path"] for change in json.loads(at("diff", "--json").check().text)["changes"]]
        points = pathlib.Path(at("path").check().text.strip(), ".local/state/bailey/certificates")
        return [path.split("/", 4)[4] for path in changes if "/certificates/" in path], sorted(os.listdir(points))

    with open(outside / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert left() == (["used", "used/x"], ["alive", "used"])  # empty, but its run holds the lock: what that has mounted is not seen outside it
    assert left() == (["used", "used/x"], ["used"]) and not outside.exists()


OPAQUE = "/usr/bin/python3 -c 'import os, sys; os.setxattr(sys.argv[1], \"user.overlay.opaque\", b\"y\")'"


@pytest.mark.parametrize("plant", [
    f"mkdir -p ~/notes; {OPAQUE} ~/notes", f"mkdir -p ~/notes/deep; {OPAQUE} ~/notes/deep",
    "mkdir -p ~/notes; mknod ~/notes/old c 0 0 || true", "mkdir -p ~/notes; echo x > ~/notes/deep", "mkdir -p ~/notes; ln -s old ~/notes/deep", "echo x > ~/notes",
])
def test_export_removes_nothing(at, sh, home, plant):
    """The kernel's marks of an overlay are attributes that anybody may set, and the sandbox has never seen the real directory."""
    (home / "notes/deep").mkdir(parents=True)
    for name in ("notes/old", "notes/deep/older"):
        (home / name).write_text("mine")
        os.utime(home / name, (1, 1))
    sh(plant + "; echo new > ~/notes/new; true")
    at("export", "notes")
    assert (home / "notes/old").read_text() == "mine" and (home / "notes/deep/older").read_text() == "mine"
    assert "D  " not in at("diff").check().text


def test_export_leaves_modes(at, sh, home):
    """Of directories that are there: those inside were made by somebody who never saw them."""
    for name, mode in (("private", 0o700), ("private/deep", 0o750), ("open", 0o755)):
        (home / name).mkdir()
        (home / name).chmod(mode)
    sh("mkdir -p ~/private/deep ~/open/new; chmod 777 ~/private ~/private/deep; chmod 700 ~/open; echo x > ~/private/deep/x; echo y > ~/open/new/y; chmod 750 ~/open/new").check()
    assert {change["path"] for change in json.loads(at("diff", "--json").check().text)["changes"]} >= {"private/deep/x", "open/new", "open/new/y"}
    assert "M  " not in at("diff").check().text
    for name in ("private", "open"):
        at("export", name).check()
    assert [(home / name).stat().st_mode & 0o777 for name in ("private", "private/deep", "open", "open/new")] == [0o700, 0o750, 0o755, 0o750]
    assert (home / "private/deep/x").read_text() == "x\n" and (home / "open/new/y").read_text() == "y\n"


def test_reset(at, sh, start, home, work):
    sh("echo x > ~/x; mkdir -m 0 ~/closed").check()
    running = start(["bailey", "run", "--", "sh", "-c", "touch ready; while [ ! -e go ]; do sleep 0.05; done; cat ~/x"], cwd=work)
    wait_until(lambda: (work / "ready").exists())
    assert json.loads(at("ls", "--json").text)[0]["in_use"]
    for words in (("reset",), ("export", "x")):
        result = at(*words)
        assert result.status not in (0, 2, 4) and "end it first" in result.errors, result
    (work / "go").touch()
    assert running.wait(60).text == "x\n"
    at("reset").check()
    assert at("ls").check().text == "" and sh("cat ~/x").status != 0
