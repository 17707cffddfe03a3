# SPDX-License-Identifier: Apache-2.0
"""Recipes: steps that are done once, inside, within a time limit and with an allow list of their own; hostile recipes; a provisioner
that is killed."""
import json
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import time

import pytest

from kit.process import wait_until
from test_guest_life import guest, inside, rows, state, top  # noqa: F401

RECIPE = """
title: all of it
timeout: 30s
environment:
  GREETING: hello there
  PLACE: ~/place
path: [~/bin]
directories: [~/place, ~/deep/er]
files:
  ~/bin/greet:
    mode: 755
    text: |
      #!/bin/sh
      echo "$GREETING from $PLACE"
  ~/.config/tool/settings: |
    color = true
links:
  ~/deep/greet: ~/bin/greet
commands:
  - echo one >> ran
  - name: second
    run: |
      greet >> ran
      echo shown
"""


def write(tmp_path, text, name="recipe.yaml"):
    path = tmp_path / name
    path.write_text(text)
    path.chmod(0o600)
    return path


def home_of(guest, name="one"):
    return pathlib.Path(rows(guest)[name]["home"])


def test_steps_are_done_once_and_what_changed_again(guest, home, tmp_path):
    path = write(tmp_path, RECIPE)
    guest("create", "one").check()
    first = guest("provision", "one", path).check()
    assert "8 steps done, 0 were" in first.text and "[8/8]" in first.errors, first
    assert state(guest, "one") == "stopped", "it was started for the commands alone"
    where = home_of(guest)
    assert (where / "ran").read_text() == f"one\nhello there from {home}/place\n"
    assert stat.S_IMODE((where / "bin/greet").stat().st_mode) & 0o700 == 0o700
    assert os.readlink(where / "deep/greet") == "../bin/greet" and (where / "deep/er").is_dir()
    assert (where / "bin/greet").stat().st_uid == where.stat().st_uid, "it belongs to the guest"
    assert inside(guest, "one", "greet; deep/greet; cat .config/tool/settings; echo more >> .config/tool/settings").check().text.startswith("hello there")
    guest("stop", "one").check()

    assert "0 steps done, 8 were" in guest("provision", "one", path).check().text
    assert "0 steps done, 8 were" in guest("provision", "one").check().text, "the recipes that it has had"
    write(tmp_path, RECIPE.replace("echo shown", "echo shown again").replace("color = true", "color = false"))
    again = guest("provision", "one").check()
    assert "2 steps done, 6 were" in again.text, again
    assert (where / "ran").read_text().count("one\n") == 1 and (where / "ran").read_text().count("from") == 2
    assert (where / ".config/tool/settings").read_text() == "color = false\n"
    write(tmp_path, RECIPE)
    assert "2 steps done, 6 were" in guest("provision", "one").check().text, "back to what it was is a change too"
    assert "8 steps done, 0 were" in guest("provision", "--again", "one").check().text
    listed = guest("provision", "--list", "one").check().text
    assert listed.count(" done ") == 8 and "command second" in listed


def test_a_restored_home_has_nothing_done(guest, tmp_path):
    path = write(tmp_path, "files:\n  a: text\n")
    guest("create", "one").check()
    guest("snapshot", "one", "empty").check()
    guest("provision", "one", path).check()
    guest("restore", "one", "empty").check()
    assert not (home_of(guest) / "a").exists()
    assert "1 steps done" in guest("provision", "one").check().text
    assert (home_of(guest) / "a").read_text() == "text"


def test_create_with_recipes(guest, home, tmp_path, config):
    recipes = home / ".config/bailey/recipes"
    recipes.mkdir(parents=True)
    write(recipes, "files: {first: a}\n", "base.yaml")
    write(recipes, "needs: [base]\ncommands: [cp first second]\n", "claude.yaml")
    guest("create", "--recipe", "claude", "one").check()
    assert (home_of(guest) / "second").read_text() == "a", "the user's own counts instead of the built-in one"
    unknown = guest("create", "--recipe", "claud", "two")
    assert unknown.status == 4 and "claude" in unknown.errors and "two" not in rows(guest)
    write(recipes, "needs: [claude]\n", "base.yaml")
    circle = guest("provision", "one", "base")
    assert circle.status != 0 and "needs itself" in circle.errors


def test_built_in_recipes(guest):
    listed = {row["name"]: row["title"] for row in json.loads(guest("recipes", "--json").check().text)}
    assert set(listed) >= {"claude", "codex", "opencode", "gemini", "python", "node", "go", "rust"} and all(listed.values())
    assert "@anthropic-ai/claude-code" in guest("recipes", "claude").check().text
    assert guest("recipes", "nothing").status == 4


@pytest.mark.parametrize("text, wanted", [
    ("files:\n  ../out: x\n", "2:3"),
    ("files:\n  /etc/passwd: x\n", "2:3"),
    ("files:\n  ~root/x: x\n", "2:3"),
    ("files:\n  a/../../b: x\n", "2:3"),
    ("files:\n  a//b: x\n", "2:3"),
    ('files:\n  "a\\nb": x\n', "2:3"),
    ("files:\n  a: {text: x, mode: 4755}\n", "2:22"),
    ("files:\n  a: {txt: x}\n", "did you mean 'text'"),
    ("files:\n  a: [x]\n", "2:6"),
    ("directories: [.]\n", "1:15"),
    ("directories: [~/]\n", "1:15"),
    ("links:\n  a: ../../etc\n", "2:6"),
    ("links:\n  a: /etc\n", "2:6"),
    ("environment: {LD_PRELOAD: /x}\n", "1:15"),
    ("environment: {PATH: /x}\n", "the key path"),
    ("environment: {A-B: x}\n", "1:15"),
    ("path: ['a:b']\n", "colon"),
    ("allow: ['*']\n", "1:9"),
    ("allow: ['a b']\n", "1:9"),
    ("timeout: never\n", "1:10"),
    ("commands:\n  - {run: x, timeout: 48h}\n", "2:23"),
    ("commands:\n  - {runs: x}\n", "did you mean 'run'"),
    ("commands:\n  - {name: a, run: x}\n  - {name: a, run: y}\n", "twice"),
    ("tools:\n  mise: ['a; rm -rf ~']\n", "2:10"),
    ("tools:\n  mise: [--version]\n", "2:10"),
    ("tools:\n  debian: [curl]\n", "install them on the host"),
    ("tools:\n  brew: [x]\n", "2:3"),
    ("needs: [../x]\n", "1:9"),
    ("file: {}\n", "did you mean 'files'"),
    ("- a\n", "1:1"),
    ("", "empty"),
    ("a: &x 1\nb: *x\n", "1:4"),
])
def test_recipes_that_are_refused(guest, tmp_path, text, wanted):
    path = write(tmp_path, text)
    refused = guest("create", "--recipe", path, "one")
    assert refused.status == 3 and str(path) in refused.errors and wanted in refused.errors, refused
    assert rows(guest) == {}, "found before anything was made"


def test_a_recipe_that_everybody_may_write_is_refused(guest, tmp_path):
    path = write(tmp_path, "files: {a: b}\n")
    path.chmod(0o666)
    assert "written by everybody" in guest("create", "--recipe", path, "one").errors


def test_links_of_the_guest_are_not_followed(guest, home, tmp_path):
    outside = home / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    guest("create", "one").check()
    where = home_of(guest)
    inside(guest, "one", f"ln -s {outside} way; ln -s {outside}/file target; ln -s {outside}/new dangling; mkdir full; touch full/x; mkfifo fifo").check()
    guest("stop", "one").check()
    way = guest("provision", "one", write(tmp_path, "files: {way/new: x}\n"))
    assert way.status != 0 and "links are not followed" in way.errors and not (outside / "new").exists()
    assert "links are not followed" in guest("provision", "one", write(tmp_path, "directories: [way]\n")).errors
    guest("provision", "one", write(tmp_path, "files: {target: x, dangling: y, fifo: z}\n")).check()
    assert (outside / "file").read_text() == "mine" and not (outside / "new").exists()
    assert (where / "target").read_text() == "x" and not (where / "target").is_symlink() and (where / "fifo").read_text() == "z"
    full = guest("provision", "one", write(tmp_path, "files: {full: x}\n"))
    assert full.status != 0 and "directory" in full.errors and (where / "full/x").exists()
    assert not list(where.glob(".bailey*")), "nothing is left of what failed"
    assert state(guest, "one") == "stopped"


def test_a_step_that_fails_leaves_the_guest_usable(guest, tmp_path):
    path = write(tmp_path, "commands:\n  - touch before\n  - |\n    for i in $(seq 40); do echo line $i; done\n    printf '\\033[31mred\\n' >&2; exit 7\n  - touch after\n")
    guest("create", "one").check()
    failed = guest("provision", "one", path)
    assert failed.status != 0 and "status 7" in failed.errors and "command 2" in failed.errors and "can be used" in failed.errors
    assert "line 40" in failed.errors and "line 2\n" not in failed.errors and "\033" not in failed.errors, "the tail, and nothing that steers a terminal"
    assert inside(guest, "one", "ls").check().text == "before\n"
    assert "to do" in guest("provision", "--list", "one").check().text
    guest("stop", "one").check()
    write(tmp_path, "commands:\n  - touch before\n  - echo mended\n  - touch after\n")
    assert "2 steps done, 1 were" in guest("provision", "one").check().text


def test_a_step_has_a_time_limit(guest, tmp_path):
    guest("create", "one").check()
    path = write(tmp_path, "commands:\n  - {run: 'echo begun; sleep 600 & wait', timeout: 1s}\n")
    began = time.monotonic()
    late = guest("provision", "one", path)
    assert late.status != 0 and "time limit" in late.errors and "begun" in late.errors and time.monotonic() - began < 60
    assert state(guest, "one") == "stopped"


def test_the_allow_list_holds_for_the_recipe_alone(guest, origin, hosts, tmp_path):
    guest("create", "--allow-private", f"127.0.0.1:{origin.port}", "one").check()
    fetch = f"curl -sS -m 20 http://origin.test:{origin.port}/"
    path = write(tmp_path, f"allow: ['origin.test:{origin.port}']\ncommands:\n  - {fetch} > got\n")
    guest("provision", "--hosts", hosts, "one", path).check()
    assert (home_of(guest) / "got").read_text()
    guest("start", "--hosts", hosts, "one").check()
    assert inside(guest, "one", f"{fetch} -f").status != 0, "afterwards the guest has its own list again"
    write(tmp_path, f"allow: ['origin.test:{origin.port}']\ncommands:\n  - {fetch} > got-again\n")
    busy = guest("provision", "--hosts", hosts, "one")
    assert busy.status != 0 and "stop the guest first" in busy.errors
    assert "1 steps done" in guest("provision", "one", write(tmp_path, "commands: ['touch while-it-runs']\n", "two.yaml")).check().text
    assert state(guest, "one") == "running" and (home_of(guest) / "while-it-runs").exists()


def test_killed_in_a_step(guest, start, tmp_path):
    guest("create", "one").check()
    path = write(tmp_path, "commands:\n  - touch first\n  - test -e second || { touch second; sleep 600; }\n")
    child = start(["bailey", "guest", "provision", "one", path])
    where = home_of(guest)
    wait_until(lambda: (where / "second").exists())
    child.process.kill()
    child.wait()
    assert state(guest, "one") == "stopped", "the next command ends what was started for the recipe"
    assert "provision" in guest("show", "one").check().text
    assert "1 steps done, 1 were" in guest("provision", "one", path).check().text


def test_a_manager_that_is_not_there(guest, tmp_path):
    if shutil.which("pkgx"):
        pytest.fail("pkgx is here: this test is to be made a real one")
    guest("create", "one").check()
    missing = guest("provision", "one", write(tmp_path, "tools: {pkgx: [jq]}\n"))
    assert missing.status != 0 and "pkgx is not on this host" in missing.errors


def test_a_manager_stand_in(guest, tmp_path):
    """What a manager is asked for, by a stand-in; the real one is in test_mise_for_real()."""
    guest("create", "one").check()
    where = write(tmp_path, "files:\n  .local/bin/mise:\n    mode: 755\n    text: |\n      #!/bin/sh\n      echo \"$@\" >> asked\ntools:\n  mise: ['node@22', 'npm:@scope/tool@1.2']\n")
    guest("provision", "one", where).check()
    assert (home_of(guest) / "asked").read_text() == "use --global --yes node@22\nuse --global --yes npm:@scope/tool@1.2\n"


FLAKE = """
{
  outputs = self: {
    packages.SYSTEM.greeting = derivation {
      name = "greeting";
      system = "SYSTEM";
      builder = "/bin/sh";
      args = [ "-c" "/bin/mkdir -p $out/bin && echo '#!/bin/sh' > $out/bin/greeting && echo 'echo built by nix' >> $out/bin/greeting && /bin/chmod 755 $out/bin/greeting" ];
    };
  };
}
"""


@pytest.mark.skipif(not shutil.which("nix"), reason="nix is not installed")
def test_nix_for_real(guest, tmp_path):
    """A flake in the guest's home, built inside into a store in the home, without any network; then the tool is in PATH."""
    flake = "".join(f"      {line}\n" for line in FLAKE.replace("SYSTEM", f"{os.uname().machine}-linux").strip().splitlines())
    guest("create", "one").check()
    path = write(tmp_path, f"timeout: 2m\nfiles:\n  tools/flake.nix:\n    text: |\n{flake}tools: {{nix: ['./tools#greeting']}}\n")
    guest("provision", "one", path, timeout=180).check()
    assert inside(guest, "one", "greeting").check().text == "built by nix\n"
    where = inside(guest, "one", "readlink -f $(command -v greeting); echo $HOME").check().text.split()
    assert where[0].startswith(where[1] + "/.nix/store/"), where
    assert "0 steps done" in guest("provision", "one").check().text
    unknown = guest("provision", "one", write(tmp_path, "timeout: 1m\ntools: {nix: ['./tools#nothing']}\n", "two.yaml"), timeout=120)
    assert unknown.status != 0 and "nothing" in unknown.errors, unknown
    store = home_of(guest) / ".nix/store"
    (built,) = store.glob("*-greeting/bin/greeting")
    assert "built by nix" in built.read_text(), "the host user reads what was built"
    guest("stop", "one").check()
    guest("fix", "one").check()
    other = write(tmp_path, f"timeout: 2m\nfiles:\n  more/flake.nix:\n    text: |\n{flake.replace('greeting', 'farewell')}tools: {{nix: ['./more#farewell']}}\n", "three.yaml")
    guest("provision", "one", other, timeout=180).check()
    assert inside(guest, "one", "farewell").check().text == "built by nix\n", "also after everything was opened to the host user"


def registry_address():
    """Where npm's registry is, if this machine gets there; the machine may have it at a private address."""
    try:
        subprocess.run(["npm", "view", "mise", "version"], check=True, timeout=60, capture_output=True, cwd="/")
        return socket.getaddrinfo("registry.npmjs.org", 443, socket.AF_INET)[0][4][0]
    except (OSError, subprocess.SubprocessError):
        return None


@pytest.mark.table
def test_mise_for_real(guest, tmp_path):
    """From npm into the guest, through the gateway and the recipe's allow list; then a tool by it, in PATH."""
    address = registry_address()
    if not address:
        pytest.skip("npm cannot be reached")
    guest("create", "--allow-private", f"{address}:443", "one").check()
    path = write(tmp_path, "allow: [registry.npmjs.org]\ntimeout: 5m\nenvironment: {MISE_NPM_PACKAGE_MANAGER: npm}\ntools: {mise: ['npm:semver@7']}\n")
    guest("provision", "one", path, timeout=600).check()
    assert inside(guest, "one", "semver 1.2.3").check().text == "1.2.3\n"
    assert "0 steps done" in guest("provision", "one").check().text


@pytest.mark.table
def test_an_agent_for_real(guest):
    """A built-in recipe, from npm itself through the gateway: the agent is in PATH and starts, and a second time nothing is done."""
    address = registry_address()
    if not address:
        pytest.skip("npm cannot be reached")
    roots = os.environ.get("NODE_EXTRA_CA_CERTS")  # of a machine whose registry has a certificate of its own
    more = ["--env", f"NODE_EXTRA_CA_CERTS={roots}"] if roots else []
    guest("create", "--allow-private", f"{address}:443", "--disk", "4G", *more, "one").check()
    guest("provision", "one", "claude", timeout=600).check()
    said = inside(guest, "one", "command -v claude; claude --version").check().text.splitlines()
    assert said[0].endswith("/.local/bin/claude") and said[1][:1].isdigit(), said
    assert "0 steps done" in guest("provision", "one").check().text
    assert json.loads(guest("ls", "--json").check().text)[0]["disk"]["state"] == "well"
