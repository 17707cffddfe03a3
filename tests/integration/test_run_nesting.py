# SPDX-License-Identifier: Apache-2.0
"""Sandboxes inside the sandbox: closed by default, open on request, and no way past what is denied."""
import subprocess

import pytest

from conftest import program

MAKES = ["unshare --user --map-root-user true", "unshare --user --map-root-user --mount --pid --fork true",
         "bwrap --ro-bind / / --dev /dev --proc /proc --unshare-all true", "bwrap --bind / / --dev /dev --unshare-user --unshare-net true"]


@pytest.mark.parametrize("command", MAKES)
def test_closed_by_default(sh, command):
    assert sh(command).status != 0


@pytest.mark.user
@pytest.mark.parametrize("command", MAKES)
def test_open_on_request(sh, command):
    sh(command, "--nesting").check()


@pytest.mark.root
def test_not_for_root(sh):
    refused = sh("true", "--nesting")
    assert refused.status == 125 and "ordinary users" in refused.errors


@pytest.mark.user
@pytest.mark.parametrize("attempt", [
    "umount SECRET; cat SECRET/key",
    "umount -l SECRET; cat SECRET/key",
    "mkdir -p /tmp/m; mount --bind HOLDER /tmp/m; cat /tmp/m/secret/key",
    "mkdir -p /tmp/m; mount --rbind HOLDER /tmp/m; umount /tmp/m/secret; cat /tmp/m/secret/key",
    "mkdir -p /tmp/m; mount --bind / /tmp/m; cat /tmp/m/HOLDER/secret/key",
    "mkdir -p /tmp/m; mount --move SECRET /tmp/m; cat SECRET/key",
    "mount -t tmpfs none HOLDER; umount HOLDER; cat SECRET/key",
    "mount -o remount,bind,rw READ; echo x > READ/file",
    "mkdir -p /tmp/m; mount --bind READ /tmp/m; mount -o remount,bind,rw /tmp/m; echo x > /tmp/m/file",
    "mkdir -p /tmp/m; mount -t proc none /tmp/m; cat /tmp/m/1/root/HOLDER/secret/key",
    "mkdir -p /tmp/m; mount -t sysfs none /tmp/m && echo sysfs",
    "mkdir -p /tmp/l /tmp/u /tmp/w /tmp/m; mount -t overlay -o lowerdir=HOLDER,upperdir=/tmp/u,workdir=/tmp/w none /tmp/m; cat /tmp/m/secret/key",
])
def test_what_is_denied_stays_denied(sh, work, attempt):
    secret, read = work / "secret", work / "read"
    secret.mkdir()
    read.mkdir()
    (secret / "key").write_text("hunter2")
    (read / "file").write_text("before")
    script = attempt.replace("SECRET", str(secret)).replace("HOLDER", str(work)).replace("READ", str(read))
    options = ("--nesting", "--deny-read", str(secret), "--deny-write", str(read))
    # The first word that namespaces are there at all; then the attempt, as root of a namespace below.
    result = sh(f"unshare --user --map-root-user --mount --pid --fork sh -c 'echo there; {script}' 2>&1", *options)
    assert "there" in result.text and "hunter2" not in result.text and "sysfs" not in result.text, result
    assert (read / "file").read_text() == "before"


@pytest.mark.user
@pytest.mark.parametrize("wrap", ["sh -c", "unshare --user --map-root-user --mount sh -c"])
def test_what_is_protected_is_held_by_mounts(sh, work, wrap):
    """There is no broker: it knows one tree of files."""
    subprocess.run(["git", "init", "-q", work], check=True)
    before = (work / ".git/config").read_text()
    script = ("echo there; umount .git/config; echo x >> .git/config; rm -rf .git/hooks; mv .git g2; mkdir .vscode; echo x > .vscode/tasks.json; "
              "echo x > .envrc; echo x > denied; echo x > free")
    result = sh(f"{wrap} '{script}'", "--nesting", "--deny-write", str(work / "denied"))
    assert "there" in result.text, result
    assert (work / ".git/config").read_text() == before and (work / ".git/hooks").is_dir()
    assert sorted(x.name for x in work.iterdir()) == [".git", "free"]


@pytest.mark.user
def test_the_network_stays_captured(sh):
    result = sh("unshare --user --map-root-user curl -s -m 20 http://evil.example/; true", "--nesting")
    assert "refused evil.example" in result.errors
    assert sh("unshare --user --map-root-user --net curl -s -m 5 http://evil.example/", "--nesting").status != 0


@pytest.mark.user
def test_what_it_does_not_go_with(sh):
    for options in (("--deny-read", "**/.env"), ("--trace-denials",)):
        refused = sh("true", "--nesting", *options)
        assert refused.status == 125 and "--nesting does not go with" in refused.errors


def test_a_workspace_may_not_ask_for_it(sh, work):
    (work / ".bailey.yaml").write_text("process: { nesting: true }\n")
    assert sh("true").status == 123


@pytest.mark.visible_home
def test_bailey_inside_bailey_says_where_it_is(bailey, work):
    result = bailey("run", "--read", str(program("bailey").parent), "--", program("bailey"), "run", "--", "true", cwd=work)
    assert result.status == 122 and "already inside the sandbox" in result.errors and "--nesting" in result.errors, result
    result = bailey("run", "--read", str(program("bailey").parent), "--", program("bailey"), "run", "--allow-degraded", "--", "true", cwd=work)
    assert result.status != 0 and "Landlock" in result.errors and "a sandbox around this one" in result.errors, result


@pytest.mark.visible_home
def test_it_says_so_also_where_the_output_is_a_file(bailey, work):
    """What only a command that starts would care about is not what the error is about."""
    inner = f"{program('bailey')} run -- true > out; echo $? > status"
    result = bailey("run", "--read", str(program("bailey").parent), "--", "sh", "-c", inner, cwd=work).check()
    assert (work / "status").read_text() == "122\n" and "already inside the sandbox" in result.errors, result


@pytest.mark.user
def test_bailey_inside_bailey_with_nesting(bailey, work, home):
    """The outer one opens namespaces and no rules for a network: the inner one is degraded, or says so."""
    outer = ("run", "--nesting", "--read", str(program("bailey").parent), "--", program("bailey"), "run")
    result = bailey(*outer, "--", "true", cwd=work)
    assert result.status == 122 and "already inside the sandbox" in result.errors and "--allow-degraded" in result.errors, result
    (home / "secret").write_text("SECRET\n")
    script = "echo x > made; cat ../secret; echo evil > ../secret; true"
    result = bailey(*outer, "--allow-degraded", "--", "sh", "-c", script, cwd=work)
    assert result.status == 0 and "lost:" in result.errors and "SECRET" not in result.text, result
    assert (work / "made").read_text() == "x\n" and (home / "secret").read_text() == "SECRET\n"
