# SPDX-License-Identifier: Apache-2.0
"""Protected and write-denied files against calls that few programs make (kit/write_ways.py): exchanged names, files without a name,
descriptors opened again, handles, mounts, mappings, paths over /proc. Most of them are shown to work outside."""
import pathlib
import shutil
import subprocess

import pytest

from kit.process import SLOW
from kit.write_ways import state

pytestmark = pytest.mark.visible_home

WAYS = pathlib.Path(__file__).parent / "kit" / "write_ways.py"
PYTHON = "/usr/bin/python3"
# The file, whether it is there, and the options.
FILES = {
    "an editor's tasks": (".vscode/tasks.json", True, ()),
    "a missing hook": (".git/hooks/pre-commit", False, ()),
    "a hook that is there": (".git/hooks/pre-push", True, ()),
    "a missing commondir": (".git/commondir", False, ()),
    "hooks elsewhere": ("tools/hooks/pre-commit", True, ()),
    "a denied file": ("d/f", True, ("--deny-write", "d/f")),
    "a denied glob": ("a.lock", True, ("--deny-write", "**/*.lock")),
}


@pytest.mark.parametrize("which", FILES)
def test_no_way_changes_it(run, bailey, home, work, which):
    target, there, options = FILES[which]
    subprocess.run(["git", "init", "-q", work], check=True)
    shutil.copy(WAYS, work / "ways.py")
    path = work / target
    path.parent.mkdir(parents=True, exist_ok=True)
    if target.startswith("tools"):
        subprocess.run(["git", "-C", work, "config", "core.hooksPath", "tools/hooks"], check=True)
    if there:
        path.write_text("the user's\n")
    before = state(path), path.parent.stat().st_mode

    done = bailey("run", "-q", *options, "--", PYTHON, "ways.py", target, cwd=work, timeout=120 * SLOW).check()
    assert len(done.text.splitlines()) > 50 and (state(path), path.parent.stat().st_mode) == before, done
    shutil.copy(WAYS, work / "ways.py")
    shown = run([PYTHON, "ways.py", target, "outside"], cwd=work, timeout=120 * SLOW).check()
    assert len(shown.text.splitlines()) >= (35 if there else 20), f"these changed it outside: {shown}"
    assert (state(path), path.parent.stat().st_mode) == before
