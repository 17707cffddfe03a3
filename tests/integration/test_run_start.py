# SPDX-License-Identifier: Apache-2.0
"""Where a command starts: in the directory that was asked for, or not at all. Another one is a loss of data."""
import errno
import os
import pathlib
import tempfile

import pytest

from conftest import BUILD, program
from kit.machine import NO_CLONE3, deny, machine

pytestmark = pytest.mark.visible_home

REFUSED = 123
NO_NAMESPACES = [deny("clone3", NO_CLONE3), deny("clone", errno.EPERM, 0x3E020011)]


@pytest.fixture
def hidden():
    """A directory of the host that a sandbox does not see: its /tmp is its own."""
    with tempfile.TemporaryDirectory(prefix="bailey-test-", dir="/tmp") as directory:
        (pathlib.Path(directory) / "kept").write_text("x")
        yield pathlib.Path(directory)


def test_current_directory(bailey, work):
    (work / "deep/er").mkdir(parents=True)
    assert bailey("run", "--", "pwd", cwd=work).check().text == f"{work}\n"
    assert bailey("run", "--workspace", work, "--", "pwd", cwd=work / "deep/er").check().text == f"{work}/deep/er\n"
    assert bailey("run", "-w", "..", "--", "pwd", cwd=work / "deep/er").check().text == f"{work}/deep/er\n"


@pytest.mark.parametrize("place", ["home", "root", "usr", "hidden", "run", "denied"])
def test_named_workspace(bailey, work, home, hidden, place):
    """Whatever the current directory is, unless it is in the workspace: what was named counts, also for $PWD."""
    (home / ".ssh").mkdir()
    places = {"home": home, "root": "/", "usr": "/usr/share", "hidden": hidden, "run": "/run", "denied": home / ".ssh"}
    result = bailey("run", "-w", work, "--", "sh", "-c", "pwd; echo $PWD; /usr/bin/printenv PWD", cwd=places[place],
                    env={"PWD": str(places[place])}).check()
    assert result.text == f"{work}\n" * 3


def test_read_only_below_tmp(bailey, hidden):
    """The workspace is shown also where the sandbox has a directory of its own around it."""
    result = bailey("run", "--mode", "read-only", "--", "sh", "-c", "pwd; cat kept; echo y > kept; ls ..", cwd=hidden)
    assert result.text == f"{hidden}\nx{hidden.name}\n" and (hidden / "kept").read_text() == "x"


def test_denied(bailey, home):
    (home / ".ssh").mkdir()
    for words in (["run", "--"], ["exec"], ["plan", "--"]):
        result = bailey(*words, "pwd", cwd=home / ".ssh")
        assert result.status != 0 and result.text == "" and f"cannot start in {home}/.ssh" in result.errors, words
    assert bailey("run", "--", "pwd", cwd=home / ".ssh").status == REFUSED


def test_denied_below_the_workspace(bailey, work):
    (work / "closed/in").mkdir(parents=True)
    (work / "precious").write_text("x")
    for start in ("closed", "closed/in"):
        result = bailey("run", "-w", work, "--deny-read", work / "closed", "--", "sh", "-c", "rm -f *", cwd=work / start)
        assert result.status == REFUSED and f"cannot start in {work}/{start}" in result.errors
    assert (work / "precious").exists()


def test_hidden_by_a_link(bailey, work, home):
    """A link to a denied directory is that directory; a link to a workspace is the workspace."""
    (home / ".ssh").mkdir()
    os.symlink(home / ".ssh", work / "link")
    os.symlink(work, home / "way")
    result = bailey("run", "--", "pwd", cwd=work / "link", env={"PWD": str(work / "link")})
    assert result.status == REFUSED and f"{home}/.ssh" in result.errors
    assert bailey("run", "-w", home / "way", "--", "pwd", "-P", cwd="/").check().text == f"{work}\n"
    assert bailey("run", "--", "pwd", "-P", cwd=home / "way").check().text == f"{work}\n"


def test_removed(run, work):
    gone = work / "gone"
    gone.mkdir()
    result = run(["sh", "-c", f"rmdir {gone}; exec {program('bailey')} run -- touch made"], cwd=gone)
    assert result.status != 0 and str(gone) in result.errors
    assert not list(work.iterdir())


def test_reads_denied(bailey, work, home):
    (home / "other").mkdir()
    for place in (work, home / "other", "/"):
        assert bailey("run", "--reads", "deny", "--read", "/usr", "--read", "/etc", "-w", work, "--", "/usr/bin/pwd", cwd=place).check().text == f"{work}\n"


@pytest.mark.parametrize("place, expected", [("home", "work"), ("hidden", "work"), ("work/deep", "work/deep")])
def test_degraded(run, home, work, hidden, place, expected):
    (work / "deep").mkdir()
    at = hidden if place == "hidden" else home / place.removeprefix("home")
    argv = [program("bailey"), "run", "--allow-degraded", "-w", work, "--", "pwd"]
    assert run(machine(argv, refuse=NO_NAMESPACES), cwd=at).check().text == f"{home}/{expected}\n"


def test_degraded_denied(run, home):
    (home / ".ssh").mkdir()
    argv = [program("bailey"), "run", "--allow-degraded", "--", "pwd"]
    result = run(machine(argv, refuse=NO_NAMESPACES), cwd=home / ".ssh")
    assert result.status == REFUSED and result.text == "" and f"{home}/.ssh" in result.errors


@pytest.mark.exact_build  # a sanitizer's library cannot be loaded into an ordinary interpreter
def test_library(run, work, home, hidden):
    top = pathlib.Path(__file__).resolve().parents[2]
    (work / "deep").mkdir()
    (home / ".ssh").mkdir()
    script = f"""
import bailey
with bailey.Manager(bailey.Config("default")) as m:
    print(m.exec("pwd").stdout.decode(), end="")
    for place in {str(work / "deep")!r}, "/usr":
        print(m.exec("pwd", directory=place).stdout.decode(), end="")
    for place in {str(hidden)!r}, {str(home / ".ssh")!r}, "/run":
        try:
            print("started:", m.exec("pwd", directory=place).stdout)
        except bailey.Error as e:
            assert place in str(e), e
"""
    env = {"PYTHONPATH": str(top / "bindings/python"), "BAILEY_LIBRARY": str(BUILD / "src/api/libbailey.so.0"),
           "PYTHONDONTWRITEBYTECODE": "1"}
    result = run(["/usr/bin/python3", "-c", script], cwd=work, env=env, timeout=120).check()
    assert result.text == f"{work}\n{work}/deep\n/usr\n"
