# SPDX-License-Identifier: Apache-2.0
"""The shell parser against bash itself: every shell script on this machine, whole and cut short, and each of their lines."""
import os
import pathlib
import random
import subprocess

import pytest

from conftest import BUILD

PLACES = ["/usr/bin", "/usr/sbin", "/usr/share", "/usr/lib", "/etc", "/var/lib/dpkg/info"]
SCRIPTS_MAX = 1500
VARIANTS = 1200

# Where the two differ, and why that is right.
DIFFERENCES = {
    "_todo.sh": "zsh code in a file called .sh: bash reports an error in it and still exits with 0",
}


def is_shell(path):
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > 300_000:
            return False
        head = path.open("rb").read(64).split(b"\n")[0]
    except OSError:
        return False
    return (head.startswith(b"#!") and any(name in head for name in (b"/sh", b"bash", b"dash"))) or path.suffix == ".sh"


def scripts():
    found = []
    for place in PLACES:
        for directory, _, names in os.walk(place):
            found += [path for path in (pathlib.Path(directory, name) for name in sorted(names)) if is_shell(path)]
    return [path for path in found[:SCRIPTS_MAX] if b"\0" not in path.read_bytes()]


def ours(paths):
    text = "".join(f"{path}\n" for path in paths)
    result = subprocess.run([BUILD / "tests/tools/shell-parse"], input=text, capture_output=True, text=True, timeout=300, check=True)
    return result.stdout.splitlines()


def bash_accepts(path):
    result = subprocess.run(["bash", "-n", path], stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    return result.returncode == 0


def differences(paths):
    return [(path, answer) for path, answer in zip(paths, ours(paths)) if (answer == "ok") != bash_accepts(path)]


@pytest.mark.anybody
@pytest.mark.exact_build
def test_agrees_with_bash_on_every_script_here():
    paths = scripts()
    assert len(paths) > 100
    unexplained = [d for d in differences(paths) if d[0].name not in DIFFERENCES]
    assert not unexplained, unexplained[:10]


@pytest.mark.anybody
@pytest.mark.exact_build
def test_agrees_with_bash_on_pieces_of_scripts(tmp_path):
    """Cut at random places: most pieces are broken in some way, and both must say so. Where they differ we must be the
    stricter one: what bash refuses is never accepted."""
    chosen = random.Random(20260101)
    texts = [path.read_bytes() for path in scripts()[:400]]
    paths = []
    for number in range(VARIANTS):
        lines = chosen.choice(texts).split(b"\n")
        first = chosen.randrange(len(lines))
        piece = b"\n".join(lines[first:first + chosen.randrange(1, 12)])
        if number % 2:
            piece = piece[:chosen.randrange(len(piece) + 1)]
        path = tmp_path / f"{number}.sh"
        path.write_bytes(piece + b"\n")
        paths.append(path)
    found = differences(paths)
    looser = [(path.read_bytes(), answer) for path, answer in found if answer == "ok"]
    stricter = [(path.read_bytes(), answer) for path, answer in found if answer != "ok"]
    assert not looser, looser[:5]
    assert len(stricter) <= VARIANTS // 100, stricter[:5]
