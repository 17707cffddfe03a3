# SPDX-License-Identifier: Apache-2.0
"""Files that have several names: what is written in the workspace must not change a file elsewhere.

Package managers share files between projects by hard links, and a link to a start-up file or to a hook of another
repository would be a way out. The name in the workspace gets a copy of its own before it is changed."""
import os
import subprocess
import time

import pytest

pytestmark = pytest.mark.visible_home

# Each changes the file `shared` (content "good\n", mode 644) in its own way.
CHANGES = {
    "truncate": "echo evil > shared",
    "append": "echo evil >> shared",
    "in place": "printf evil | dd of=shared conv=notrunc status=none",
    "both ways": "python3 -c 'f = open(\"shared\", \"r+\"); f.write(\"evil\"); f.close()'",
    "mapped": "python3 -c 'import mmap; f = open(\"shared\", \"r+b\"); m = mmap.mmap(f.fileno(), 0); m[:4] = b\"evil\"; m.flush()'",
    "truncate(2)": "python3 -c 'import os; os.truncate(\"shared\", 1)'",
    "chmod": "chmod 777 shared",
    "by a link": "ln -s shared s; echo evil > s",
    "by its descriptor": "python3 -c 'import os; f = os.open(\"shared\", os.O_RDONLY); open(f\"/proc/self/fd/{f}\", \"w\").write(\"evil\")'",
    "by another name": "ln shared again; echo evil > again",
    "after a move": "mv shared moved; echo evil > moved",
    "from a directory": "mkdir -p d/e; mv shared d/e/; cd d/e; echo evil > ./shared",
    "sparse": "python3 -c 'import os; os.ftruncate(os.open(\"shared\", os.O_RDWR), 0)'",
}


def state(path):
    found = path.stat()
    return path.read_bytes(), found.st_mode, found.st_uid, found.st_size


@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize("other", [".bashrc", "cache/lib.py", "other/.git/hooks/pre-commit"])
@pytest.mark.rows
def test_another_name_stays_as_it_was(sh, home, work, change, other):
    other = home / other
    other.parent.mkdir(parents=True, exist_ok=True)
    other.write_text("good\n")
    other.chmod(0o644)
    os.link(other, work / "shared")
    before = state(other)
    sh(CHANGES[change])
    assert state(other) == before


@pytest.mark.parametrize("options", [(), ("--deny-read", "**/*.pem"), ("--mode", "workspace-write"), ("--home", "real")], ids=str)
def test_the_workspace_has_what_was_written(sh, home, work, options):
    """It is a copy, and all else is as before: mode, owner, the names beside it."""
    (home / "lib.py").write_text("good\n")
    (home / "lib.py").chmod(0o754)
    os.link(home / "lib.py", work / "lib.py")
    sh("echo more >> lib.py; ls -A", *options).check()
    assert (work / "lib.py").read_text() == "good\nmore\n" and (home / "lib.py").read_text() == "good\n"
    assert (work / "lib.py").stat().st_mode & 0o777 == 0o754
    assert sorted(path.name for path in work.iterdir()) == ["lib.py"]


def test_a_write_root(sh, home, work):
    (home / "more").mkdir()
    (home / "lib.py").write_text("good\n")
    os.link(home / "lib.py", home / "more/lib.py")
    sh("echo evil > ../more/lib.py", "--write", home / "more").check()
    assert (home / "lib.py").read_text() == "good\n" and (home / "more/lib.py").read_text() == "evil\n"


def test_links_inside_stay_links(sh, work):
    """What the sandbox links itself, and what has all its names in the workspace, is one file as before."""
    (work / "old").write_text("1\n")
    (work / "deep/er").mkdir(parents=True)
    os.link(work / "old", work / "deep/er/old")
    script = """echo 2 > old; cat deep/er/old
        echo a > new; ln new new2; echo b >> new2; cat new; rm new; ln new2 new3; echo c >> new3; cat new2"""
    assert sh(script).check().text == "2\na\nb\na\nb\nc\n"
    assert (work / "old").samefile(work / "deep/er/old") and (work / "new2").samefile(work / "new3")


def test_a_link_that_the_host_makes_meanwhile(start, home, work):
    other = home / ".profile"
    other.write_text("good\n")
    (work / "wait.sh").write_text("until [ -e shared ]; do sleep 0.02; done; echo evil > shared; echo done > end\n")
    running = start(["bailey", "run", "--", "sh", "wait.sh"], cwd=work)
    time.sleep(0.5)
    os.link(other, work / "shared")
    running.wait(20)
    assert (work / "end").exists() and other.read_text() == "good\n"


def test_names_that_came_and_went(sh, home, work):
    """A file that had all its names inside, and got one outside when one inside was removed."""
    (work / "a").write_text("good\n")
    os.link(work / "a", work / "b")
    os.link(work / "a", home / "outside")
    sh("echo x > probe; ln probe probe2; echo y > probe2; rm b; echo evil > a").check()
    assert (home / "outside").read_text() == "good\n"


@pytest.mark.parametrize("name", [".envrc", ".git/config", ".vscode/tasks.json"])
def test_a_second_name_of_a_protected_file_is_refused(sh, work, name):
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / ".vscode").mkdir()
    path = work / name
    path.touch()
    before = path.read_text()
    os.link(path, work / "second")
    assert sh("echo evil >> second").status != 0
    assert path.read_text() == before


@pytest.mark.parametrize("secret", [".ssh/id_ed25519", ".netrc", ".aws/credentials"])
@pytest.mark.parametrize("options", [(), ("--home", "real"), ("-m", "read-only"), ("-m", "read-only", "--home", "real")], ids=str)
@pytest.mark.rows
def test_a_denied_file_is_not_read_by_its_other_name(sh, home, work, secret, options):
    path = home / secret
    path.parent.mkdir(exist_ok=True)
    path.write_text("SECRET\n")
    (work / "src/deep").mkdir(parents=True)
    os.link(path, work / "key")
    os.link(path, work / "src/deep/key")
    result = sh("cat key src/deep/key; mv key key2; cat key2; cp key k; cat k; mv src s; cat s/deep/key", *options)
    assert "SECRET" not in result.text + result.errors
    assert path.read_text() == "SECRET\n"


def test_nor_where_it_is_granted_for_reading_alone(sh, home):
    (home / ".netrc").write_text("SECRET\n")
    (home / "other").mkdir()
    os.link(home / ".netrc", home / "other/notes")
    (home / "other/text").write_text("seen\n")
    result = sh(f"cat {home}/other/*", "--read", str(home / "other"))
    assert "seen" in result.text and "SECRET" not in result.text, result


@pytest.mark.parametrize("script", [
    "echo evil > a; echo evil > b; echo evil > c", "echo evil > a; chmod 777 b; truncate -s 1 c", "chmod 777 a; echo evil >> b; rm c",
    "echo evil > a; mv b d; echo evil > d", "echo evil > a; ln b d; echo evil > d", "rm a; echo evil > b; echo evil > c",
    "echo x > new; mv new a; echo evil > b; echo evil > c", "echo evil > a; ln -f b a; echo evil > a; echo evil > c",
])
def test_several_names_here_and_one_elsewhere(sh, home, work, script):
    """Each of them that is parted from the others leaves one less here, and the one elsewhere is still there."""
    (home / "cache").mkdir()
    other = home / "cache/lib.py"
    other.write_text("good\n")
    other.chmod(0o644)
    for name in "abc":
        os.link(other, work / name)
    before = state(other)
    sh(script)
    assert state(other) == before
