# SPDX-License-Identifier: Apache-2.0
"""What a sandbox could leave behind for a later, unsandboxed step to run, and Bailey's own records."""
import errno
import os
import pathlib
import shutil
import subprocess
import threading

import pytest

from conftest import program
from kit.git import ENVIRONMENT, git
from kit.machine import NO_CLONE3, deny, machine

pytestmark = pytest.mark.visible_home
NO_NAMESPACES = [deny("clone3", NO_CLONE3), deny("clone", errno.EPERM, 0x3E020011)]


@pytest.mark.parametrize("state", [None, "elsewhere/state"], ids=["default", "XDG_STATE_HOME"])
def test_own_records_are_hidden_from_the_first_run_on(sh, home, state):
    place = home / (state or ".local/state") / "bailey"
    env = {"XDG_STATE_HOME": str(home / state)} if state else {}
    for _ in range(2):
        result = sh(f"ls {place}; cat {place}/audit/*", env=env)
        assert result.status != 0 and result.text == "", result
    assert len(list(place.glob("audit/*.jsonl"))) == 2


def test_a_named_record_is_out_of_reach(sh, home, work):
    """Where the sandbox writes it could change its own record; elsewhere it cannot even read it."""
    (home / "link").symlink_to(work)
    (work / "sub").mkdir()
    for name in ("audit.jsonl", work / "sub/audit.jsonl", home / "link/audit.jsonl", work / "sub/../audit.jsonl"):
        result = sh("true", "--audit", name)
        assert result.status != 0 and "where the sandbox may write" in result.errors, result
    assert sh("true", "--write", home / "more", "--audit", home / "more/audit.jsonl").status != 0
    assert sorted(path.name for path in work.rglob("*")) == ["sub"]
    record = home / "audit.jsonl"
    for _ in range(2):
        result = sh(f"cat {record}; echo x >> {record}; rm {record}", "--audit", record, "--home", "real")
        assert result.status != 0 and result.text == "", result
    assert record.read_text().count("start: mode") == 2 and "\nx" not in record.read_text()
    before = record.read_text()
    assert sh(f"cat {record}; echo x >> {record}; rm {record}", "--audit", record).text == ""
    assert record.read_text().startswith(before) and "\nx" not in record.read_text()
    record.write_text(before)
    assert record.read_text().count("start: mode") == 2 and "\nx" not in record.read_text()
    # A part of the workspace that is closed for writing will do.
    assert sh("true", "--deny-write", work / "sub", "--audit", work / "sub/audit.jsonl").check().status == 0


def bomb(home):
    """A configuration with which git runs a program, and the file that shows that it did."""
    return f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch {home}/ran; true\n"


def test_workspace_does_not_become_a_repository(sh, home, work):
    """Git looks for a repository in the directory itself, without any .git."""
    config = bomb(home)
    plant = f"mkdir -p objects refs && echo 'ref: refs/heads/main' > HEAD && cat > config <<'EOF'\n{config}EOF"
    result = sh(plant).check()
    assert "HEAD" in result.errors and not (work / "HEAD").exists()
    git("status", cwd=work)
    assert not (home / "ran").exists()
    subprocess.run(["sh", "-c", plant], cwd=work, check=False)
    git("status", cwd=work)
    assert (home / "ran").exists(), "the attack proves nothing: git does not run it"


def test_workspace_that_is_a_bare_repository(sh, home, work):
    git("init", "-q", "--bare", ".", cwd=work)
    before = (work / "config").read_text()
    assert "config" in sh("echo x >> config").check().errors and (work / "config").read_text() == before  # it is a copy
    for script in ("echo x > hooks/pre-receive", "mv hooks old", "echo x > HEAD", "mv HEAD h; echo x > HEAD"):
        assert sh(script).status != 0, script
    assert (work / "HEAD").read_text().startswith("ref:")


def settings(work):
    told = git("config", "--file", work / ".git/config", "--list", cwd="/").stdout
    return dict(line.split("=", 1) for line in told.splitlines())


def test_a_new_repository_works_afterwards(sh, work):
    script = """git init -q -b main . && git config user.name "Zoë O'Neil" && git config user.email z@example.org &&
        echo a > f && git add f && git commit -qm one"""
    result = sh(script, env=ENVIRONMENT).check()
    assert result.errors == "", result
    assert settings(work) == {"core.repositoryformatversion": "0", "core.filemode": "true", "core.bare": "false",
                              "core.logallrefupdates": "true", "user.name": "Zoë O'Neil", "user.email": "z@example.org"}
    assert not (work / ".git/hooks").exists()
    (work / "g").write_text("b")
    assert git("add", "g", cwd=work).returncode == 0 and git("commit", "-qm", "two", cwd=work).returncode == 0
    assert git("log", "--format=%s", cwd=work).stdout == "two\none\n"
    # From now on it is a repository like any other.
    assert "core.pager" in sh("git config core.pager x", env=ENVIRONMENT).check().errors
    assert "core.pager" not in settings(work)
    assert sh("echo c > h && git add h && git commit -qm three", env=ENVIRONMENT).status == 0


PLANTED = [
    "[core]\n\tfsmonitor = touch RAN", "[core] fsmonitor = touch RAN", "[core]\n\thooksPath = .", "[core]\n\tpager = touch RAN",
    "[core]\n\tsshCommand = touch RAN", "[core]\n\tworktree = /", "[core]\n\tbare = true", "[alias]\n\tst = !touch RAN",
    "[filter \"x\"]\n\tclean = touch RAN", "[diff \"x\"]\n\tcommand = touch RAN", "[credential]\n\thelper = !touch RAN",
    "[include]\n\tpath = ../evil", "[includeIf \"gitdir:/\"]\n\tpath = ../evil", "[remote \"origin\"]\n\turl = ext::touch RAN",
    "[gpg]\n\tprogram = touch RAN", "[user]\n\tname = a\\\n[core]\n\tfsmonitor = touch RAN", "[user]\n\tname = \"a\\n[core]\"",
    "[core]\n\tfilemode = true # \\\n\tfsmonitor = touch RAN", "[core \"x\"]\n\tfilemode = true", "[extensions]\n\tworktreeConfig = true",
    "[user]\n\tname = a\r\n[core]\r\n\tfsmonitor = touch RAN\r", "[core]\n\tfilemode", "\x00[core]\n\tfsmonitor = touch RAN",
    "[user]\n\tname = a\x0b[core]\x0bfsmonitor = x",
]


@pytest.mark.parametrize("content", PLANTED)
def test_a_new_repository_obeys_nobody(sh, home, work, content):
    """Whatever the configuration says, only harmless settings are left, and git outside runs nothing."""
    (work / "input").write_text(content.replace("RAN", f"{home}/ran") + "\n")
    result = sh("git init -q . && cat input >> .git/config && mkdir -p .git/hooks && echo x > .git/hooks/post-checkout", env=ENVIRONMENT).check()
    assert ".git/config" in result.errors and ".git/hooks" in result.errors, result
    allowed = {"core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates", "user.name"}
    assert set(settings(work)) <= allowed and settings(work)["core.bare"] == "false"
    git("status", cwd=work)
    assert not (home / "ran").exists() and not (work / ".git/hooks").exists()


@pytest.mark.parametrize("script", [
    "ln -s ../evil .git/config", "mkdir -p .git/config/x", "mkfifo .git/config", "ln evil .git/config", "head -c 100000 /dev/zero > .git/config",
    "cp evil .git/config; chmod 000 .git/config", "cp evil .git/config; chmod 500 .git",
])
def test_a_new_configuration_of_another_kind(sh, home, work, script):
    (work / "evil").write_text(bomb(home))
    sh(f"mkdir -p .git && {script}").check()
    git("status", cwd=work)
    assert not (home / "ran").exists()
    assert "fsmonitor" not in ((work / ".git/config").read_text() if (work / ".git/config").exists() else "")
    assert "fsmonitor" in (work / "evil").read_text()


@pytest.mark.parametrize("where", ["tools/hooks", ".husky/_", "./tools/hooks/"])
def test_hooks_that_the_configuration_keeps_in_the_workspace(sh, home, work, where):
    git("init", "-q", ".", cwd=work)
    git("config", "core.hooksPath", where, cwd=work)
    hooks = work / where
    hooks.mkdir(parents=True)
    (hooks / "pre-commit").write_text("#!/bin/sh\n")
    assert sh(f"echo x >> {where}/pre-commit").status != 0
    assert sh(f"echo x > {where}/post-commit").status != 0
    assert sh(f"mv {pathlib.PurePath(where).parts[0]} old").status != 0
    sh("echo x > file && git add file && git commit -q -m x", env=ENVIRONMENT).check()


def test_hooks_directory_that_is_not_there_yet(sh, work):
    git("init", "-q", ".", cwd=work)
    git("config", "core.hooksPath", "later/hooks", cwd=work)
    sh("mkdir -p later/hooks && echo x > later/hooks/pre-commit").check()
    assert not (work / "later/hooks").exists()


@pytest.mark.parametrize("name", [".husky", ".githooks", ".vscode", ".claude", ".bashrc", ".envrc", "HEAD", ".git/hooks", ".git/config"])
@pytest.mark.parametrize("way", ["mkdir -p {0}", "mkdir -p $(dirname {0}); ln -s /etc {0}", "mkdir x; mkdir -p $(dirname {0}); mv x {0}",
                                 "mkdir -p $(dirname {0}); echo x > {0}; ln {0} kept"])
@pytest.mark.rows
def test_planted_names_do_not_stay(sh, work, name, way):
    sh(way.format(name)).check()
    assert not os.path.lexists(work / name)


def test_working_directory_given_by_the_program_grants_nothing(sh, home, work):
    (work / "inner").mkdir()
    (work / "inner/.git").write_text(f"gitdir: {home}/victim\n")
    (home / "victim").mkdir()
    assert sh(f"cd inner && echo x > {home}/victim/planted").status != 0
    assert sh("cd .. && echo x > planted", "--home", "real").status != 0
    sh("cd .. && echo x > planted")
    assert not (home / "planted").exists() and not (home / "victim/planted").exists()


def test_directory_swapped_for_a_link_while_launching(bailey, home, work):
    """Another program in the same workspace changes it between the look at the host and the mounts: what is shown then
    must not be what the link leads to."""
    (home / ".ssh").mkdir()
    (home / ".ssh/id").write_text("secret\n")
    (work / "vendor").mkdir()
    stop, swaps = threading.Event(), []

    def swap():
        while not stop.is_set():
            try:
                os.rename(work / "vendor", work / "aside")
                os.symlink(home / ".ssh", work / "vendor")
                os.unlink(work / "vendor")
                os.rename(work / "aside", work / "vendor")
                swaps.append(True)
            except OSError:  # the end of a run has put something of its own there
                if (work / "vendor").is_symlink():
                    os.unlink(work / "vendor")
                (work / "vendor").mkdir(exist_ok=True)
                shutil.rmtree(work / "aside", ignore_errors=True)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(60):
            result = bailey("run", "--quiet", "--deny-write", str(work / "vendor"), "--", "cat", "vendor/id", cwd=work)
            assert "secret" not in result.text, result
    finally:
        stop.set()
        thread.join()
    assert len(swaps) > 60


@pytest.mark.exact_build  # a copy of the programs: their sanitizers' libraries are found by where they are
def test_baileys_own_programs_are_not_the_commands_to_change(run, home, work, origin):
    """Built or unpacked in the workspace: the gateway starts outside, at the first connection."""
    for name in ("cli/bailey", "gateway/bailey-gateway", "vault/bailey-vault"):
        (work / "built" / name).parent.mkdir(parents=True)
        shutil.copy2(program("bailey").parents[1] / name, work / "built" / name)
    evil = f"#!/bin/sh\ntouch {home}/ran\n"
    script = f"""printf '%s' '{evil}' > evil; chmod +x evil; mkdir -p built/libexec/bailey
        for place in built/gateway built/cli built/libexec/bailey; do cp evil $place/bailey-gateway; mv evil $place/bailey-gateway; done
        cp evil built/cli/bailey; mv built/gateway moved; mv built moved; ln -s ../../evil built/libexec/bailey/bailey-vault
        curl -s --max-time 20 http://127.0.0.1.test:{origin.port}/"""
    argv = [str(work / "built/cli/bailey"), "run", "--", "sh", "-c", script]
    result = run(argv, cwd=work)
    assert not (home / "ran").exists() and "policy refused" in result.text, result
    left = sorted(str(path.relative_to(work)) for path in (work / "built").rglob("bailey-*"))
    assert left == ["built/gateway/bailey-gateway", "built/vault/bailey-vault"]
    degraded = run(machine([*argv[:2], "--allow-degraded", *argv[2:]], refuse=NO_NAMESPACES), cwd=work)
    assert degraded.status != 0 and "Install Bailey elsewhere" in degraded.errors and not (home / "ran").exists()


def test_files_that_the_policy_is_made_of_cannot_be_changed(sh, work):
    (work / "scripts").mkdir()
    (work / "scripts/ask.sh").write_text("#!/bin/sh\n")
    (work / "hosts.txt").write_text("a.test\n")
    (work / "own.yaml").write_text("network: { allow_file: hosts.txt }\napproval: { command: 'sh ./scripts/ask.sh' }\n")
    before = {path: path.read_text() for path in work.rglob("*") if path.is_file()}
    result = sh("for f in own.yaml hosts.txt scripts/ask.sh; do echo evil.test >> $f; rm -f $f; cp /dev/null x; mv x $f; done; mv scripts y",
                "--policy", "own.yaml")
    assert {path: path.read_text() for path in before} == before, result
    sh("echo '# mine' >> own.yaml").check()  # without it being the policy it is a file like any other


def test_names_that_are_run_from_the_home_directory(bailey, home):
    script = "for d in bin .local/bin; do mkdir -p $d; echo '#!/bin/sh' > $d/ls; done; echo x > .emacs; echo x > .pre-commit-config.yaml; echo x > kept"
    (home / "bin").mkdir()
    bailey("run", "--home", "real", "--workspace", home, "--", "sh", "-c", f"cd {home}; {script}")
    assert list((home / "bin").iterdir()) == [] and (home / "kept").exists()
    assert not (home / ".local/bin").exists() and not (home / ".emacs").exists() and not (home / ".pre-commit-config.yaml").exists()


def test_a_redirection_gives_no_more_than_it_says(run, work):
    """A descriptor can be opened again, for more."""
    (work / ".mcp.json").write_text("{}\n")
    (work / "log").write_text("before\n")
    again = f"{program('bailey')} run --deny-read log -- sh -c 'echo evil > /proc/self/fd/0; dd if=/proc/self/fd/1 >&2'"
    result = run(["sh", "-c", again + " < .mcp.json"], cwd=work)
    assert result.status != 0 and "must not change" in result.errors and (work / ".mcp.json").read_text() == "{}\n", result
    result = run(["sh", "-c", again + " >> log"], cwd=work)
    assert result.status != 0 and "must not read" in result.errors and "before" not in result.errors, result
    result = run(["sh", "-c", f"{program('bailey')} run -- cat < log > copy"], cwd=work)
    assert result.status == 0 and (work / "copy").read_text() == "before\n", result
