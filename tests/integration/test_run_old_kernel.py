# SPDX-License-Identifier: Apache-2.0
"""Kernels with less: an older Landlock or none, calls that are not there yet, no user namespaces. What is asked for is
either enforced by something else or refused; a program never gets more than it would on a new kernel."""
import errno
import json
import os
import pathlib
import sys

import pytest

from conftest import program
from kit import machine as machine_module
from kit.machine import deny, machine
from test_escape import ESCAPE, LIMITS, NO_NAMESPACES, PYTHON, host_config, servers, world  # noqa: F401 (fixtures)
from world import ACTS

pytestmark = [pytest.mark.visible_home, pytest.mark.real_home]

OLD_LANDLOCK = pathlib.Path(machine_module.__file__).with_name("old_landlock.py")


def landlock(abi):
    return lambda argv: [sys.executable, OLD_LANDLOCK, str(abi), *argv]


def without(*calls):
    return lambda argv: machine(argv, refuse=list(calls))


KERNELS = {
    "landlock-1": landlock(1), "landlock-2": landlock(2), "landlock-3": landlock(3), "landlock-4": landlock(4), "landlock-6": landlock(6),
    "no-landlock": without(deny("landlock_create_ruleset", errno.EOPNOTSUPP)),
    "landlock-not-built": without(deny("landlock_create_ruleset", errno.ENOSYS)),
    "no-openat2": without(deny("openat2", errno.ENOSYS)),
    "no-clone3": without(deny("clone3", errno.ENOSYS)),
    "no-mount-setattr": without(deny("mount_setattr", errno.ENOSYS)),
}
# One of each kind; on these kernels the mounts, the filter and the namespaces carry them alone.
SAMPLE = ("read_ssh_key", "create_in_home", "edit_git_config", "move_git_directory_away", "connect_to_host_unix_socket",
          "connect_to_host_abstract_socket", "connect_to_address_of_the_host", "new_user_namespace", "read_environment_of_an_outside_process",
          "kernel_event_socket", "truncate_in_home")
assert set(SAMPLE) <= set(ACTS)

RUN_ALL = """
import errno, json, os, sys
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import act
answers = {name: act.answer_in_child(name) for name in sys.argv[2:]}
for file in ("environ", "mem", "maps", "root/etc/passwd", "fd/0"):
    try:
        open(f"/proc/1/{file}", "rb").close()
        answers["init " + file] = "done"
    except OSError as error:
        answers["init " + file] = errno.errorcode[error.errno]
print(json.dumps(answers))
"""


@pytest.mark.parametrize("kernel", KERNELS)
def test_acts_fail_all_the_same(kernel, world, start):  # noqa: F811
    argv = [program("bailey"), "run", "--quiet", *LIMITS, "--read", str(ESCAPE), "--env", "BAILEY_ACT_WORLD=" + json.dumps(world), "--",
            PYTHON, "-c", RUN_ALL, str(ESCAPE / "act.py"), *SAMPLE]
    before = host_config(world)
    result = start(KERNELS[kernel](argv), cwd=world["workspace"]).wait(60)
    assert result.status == 0, result
    assert host_config(world) == before
    answers = json.loads(result.text)
    wrong = {name: answer for name, answer in answers.items()
             if answer not in (("EACCES", "EPERM") if name.startswith("init ") else ACTS[name].inside)}
    assert not wrong, wrong


def test_every_act_fails_where_mounts_are_set_up_the_older_way(world, start):  # noqa: F811
    """Before Linux 5.12 attributes are set mount by mount: whatever leans on a mount must hold all the same."""
    home = world["home"]  # noqa: F811
    # All in one sandbox: there the parent of each is another program of the sandbox, and not Bailey's own; and no other sandbox runs.
    here = ("all", "root" if os.geteuid() == 0 else "user")
    names = [name for name, act in ACTS.items() if act.outside in here and "parent" not in name and "control_socket" not in name]
    argv = [program("bailey"), "run", "--quiet", *LIMITS, "--read", str(ESCAPE), "--deny-read", home + "/vault", "--read", home + "/vault/open",
            "--deny-read", home + "/vault/open/closed", "--deny-read", home + "/slashed/", "--env", "BAILEY_ACT_WORLD=" + json.dumps(world), "--",
            PYTHON, "-c", RUN_ALL, str(ESCAPE / "act.py"), *names]
    before = host_config(world)
    result = start(KERNELS["no-mount-setattr"](argv), cwd=world["workspace"], pass_fds=(world["inherited"],)).wait(240)
    assert result.status == 0, result
    assert host_config(world) == before
    answers = json.loads(result.text)
    wrong = {name: answer for name, answer in answers.items() if name in ACTS and answer not in ACTS[name].inside | {"EEXIST"}}
    assert len(answers) >= len(names) > 100 and not wrong, wrong


@pytest.mark.parametrize("kernel", KERNELS)
def test_work_goes_on(kernel, world, start, origin):  # noqa: F811
    home = pathlib.Path(world["home"])  # noqa: F811
    (home / "hosts").write_text("127.0.0.1 origin.test\n")
    target = f"origin.test:{origin.port}"
    argv = [program("bailey"), "run", "--hosts", home / "hosts", "--allow", target, "--allow-private", target, "--",
            "sh", "-c", f"mkdir -p a/b && echo x > a/b/c && mv a/b/c d && ln d e && cat e && curl -sS -m 20 -x '' http://{target}/ && : > d"]
    result = start(KERNELS[kernel](argv), cwd=world["workspace"]).wait(60)
    assert result.status == 0 and result.text == "x\norigin\n", result


@pytest.mark.parametrize("abi", [1, 2, 3])
def test_too_little_of_everything_is_refused(abi, world, start):  # noqa: F811
    """Without namespaces and without Landlock's network rules nothing would hold a program: not even with the switch."""
    argv = [program("bailey"), "run", "--allow-degraded", "--", "touch", "ran"]
    result = start(landlock(abi)(machine(argv, refuse=NO_NAMESPACES)), cwd=world["workspace"]).wait(60)
    assert result.status not in (0, 1) and "ABI" in result.errors, result
    assert not pathlib.Path(world["workspace"], "ran").exists()


def test_no_namespaces_is_refused_without_the_switch(world, start):  # noqa: F811
    argv = [program("bailey"), "run", "--", "touch", "ran"]
    result = start(machine(argv, refuse=NO_NAMESPACES), cwd=world["workspace"]).wait(60)
    assert result.status == 122 and not pathlib.Path(world["workspace"], "ran").exists()


@pytest.mark.parametrize("call, error, step", [("seccomp", errno.EINVAL, "filter"), ("open_tree", errno.ENOSYS, "files: clone"),
                                               ("unshare", errno.ENOSPC, "network: namespace")])
def test_a_step_that_fails_ends_the_launch(call, error, step, world, start):  # noqa: F811
    """Whatever the kernel refuses in the middle: nothing runs, and it is said which step it was, however much of the plan was still
    under way then."""
    argv = [program("bailey"), "run", "--", "touch", "ran"]
    for _ in range(10):
        result = start(machine(argv, refuse=[deny(call, error)]), cwd=world["workspace"]).wait(60)
        assert result.status not in (0, 1) and f"cannot set up the sandbox: {step}" in result.errors.replace("broker: ", ""), result
        assert "warning" not in result.errors, result
        assert not pathlib.Path(world["workspace"], "ran").exists()


def test_init_that_stays_without_a_filter_ends_the_command(world, start):  # noqa: F811
    """Where sockets are watched init's own filter comes when the command runs already: without it, everything ends."""
    one_thread_only = deny("seccomp", errno.EPERM, 1, at=1)
    argv = [program("bailey"), "run", "--", "sh", "-c", "setsid sleep 300 & sleep 300"]
    result = start(landlock(6)(machine(argv, refuse=[one_thread_only])), cwd=world["workspace"]).wait(60)
    assert result.status not in (0, 1) and "system call filter" in result.errors, result
