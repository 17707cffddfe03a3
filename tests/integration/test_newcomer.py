# SPDX-License-Identifier: Apache-2.0
"""A newcomer's first ten minutes: the program from a directory of its own, a question to Claude Code, `npm install` and a commit, and what
Bailey says in all of it: five lines at most. (That `make install` works on a bare machine is for tests/fresh.)"""
import json
import shutil
import subprocess

import pytest

from conftest import BUILD, PROGRAMS
from kit.agents import World

pytestmark = [pytest.mark.visible_home, pytest.mark.exact_build]


def installed(directory):
    """As `make install` lays the programs out: bin and libexec."""
    for name, place in {"bailey": "usr/bin", "bailey-gateway": "usr/libexec/bailey", "bailey-vault": "usr/libexec/bailey"}.items():
        (directory / place).mkdir(parents=True, exist_ok=True)
        shutil.copy2(BUILD / PROGRAMS[name], directory / place / name)
    return directory / "usr/bin/bailey"


def test_the_first_ten_minutes(start, home, work, tmp_path, closing):
    if not shutil.which("npm"):
        pytest.skip("npm is not there")
    steps = {"installed": "npm install --no-audit --no-fund ./vendor/dep 2>&1; ls node_modules; echo INSTALLED=$?",
             "committed": "git add package.json package-lock.json && git commit -qm 'Add dep' && echo COMMITTED=0"}
    world = World("claude", start, home, work, tmp_path, closing, steps=steps).sign_in("key")
    (work / "vendor/dep").mkdir(parents=True)
    (work / "vendor/dep/package.json").write_text(json.dumps({"name": "dep", "version": "1.0.0"}))
    (work / "package.json").write_text(json.dumps({"name": "app", "version": "1.0.0", "private": True}))
    bailey = installed(home / "opt")

    def run(*words):
        child = start([bailey, *world.command(*words)[1:]], cwd=work, env=world.environment())
        return child.wait(300)

    world.models.steps = []
    first = run("-p", "What is six times seven?")
    assert first.status == 0 and "All done" in first.text, first
    world.models.steps = list(steps.values())
    second = run("-p", "Install the dependency and commit.", "--dangerously-skip-permissions")
    said = world.said()
    assert second.status == 0 and "INSTALLED=0" in said["installed"] and "COMMITTED=0" in said["committed"], (second, said)
    log = subprocess.run(["git", "-C", work, "log", "-1", "--format=%an: %s"], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert log == "Ann: Add dep\n" and (work / "node_modules/dep").exists()
    lines = [line for result in (first, second) for line in result.errors.splitlines() if line.startswith("bailey")]
    assert len(lines) <= 5, lines
    world.check_secrets(first, second)
