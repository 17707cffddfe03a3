# SPDX-License-Identifier: Apache-2.0
"""bailey doctor on this machine, and on machines that lack something."""
import errno
import json
import os
import pathlib
import re
import subprocess

import pytest

from conftest import program
from kit.machine import CLONE_NEWNS, CLONE_NEWUSER, KILL, deny, machine
from kit.process import wait_until

ITEMS = ["user-namespace", "uid-map", "mount-namespace", "pid-namespace", "network-namespace", "ipc-namespace",
         "uts-namespace", "cgroup-namespace", "own-proc", "nft-redirect", "landlock", "seccomp", "seccomp-notify", "overlayfs",
         "cgroup-v2", "mount-api", "openat2", "clone3", "pidfd", "memfd-secret", "yama"]
EXIT = {"full": 0, "degraded": 1, "none": 4}
AF_NETLINK = 16


def check_schema(report):
    assert list(report) == ["version", "mode", "kernel", "machine", "uid", "landlock_abi", "items"]
    assert report["mode"] in EXIT and report["uid"] == os.geteuid() and report["kernel"] == os.uname().release
    assert isinstance(report["landlock_abi"], int)
    assert [item["name"] for item in report["items"]] == ITEMS
    for item in report["items"]:
        assert list(item) == ["name", "state", "needed", "cause", "detail", "lost", "why", "fix"]
        assert isinstance(item["needed"], bool) and isinstance(item["detail"], str)
        if item["state"] == "works":
            assert item["cause"] == "none" and item["lost"] is item["why"] is item["fix"] is None
        else:
            assert item["state"] in ("missing", "blocked") and item["cause"] != "none"
            assert item["lost"] and item["why"] and item["fix"], item
    full = all(item["state"] == "works" for item in report["items"] if item["needed"])
    assert (report["mode"] == "full") == full


@pytest.fixture
def doctor(run):
    """doctor(refuse=...) gives the items by name, the report and the plain text, all checked for agreement."""
    def ask(**changes):
        def say(*words):
            command = [program("bailey"), "doctor", *words]
            return run(machine(command, **changes) if changes else command)
        result = say("--json")
        report = json.loads(result.text)
        check_schema(report)
        assert result.status == EXIT[report["mode"]] and result.err == b"", result
        return {item["name"]: item for item in report["items"]}, report, say
    return ask


def test_this_machine(doctor):
    items, report, say = doctor()
    text = say().text
    assert f"Mode: {report['mode']}." in text
    assert text.count("\n  works ") == sum(item["state"] == "works" for item in items.values())
    assert max(map(len, text.splitlines())) <= 80
    if items["landlock"]["state"] == "works":
        assert items["landlock"]["detail"] == f"ABI {report['landlock_abi']}"


def test_it_is_quick_and_leaves_nothing(bailey):
    """The second half is checked for every test: processes, mounts, files."""
    assert bailey("doctor").seconds < 5


def test_colour_only_where_wanted(bailey):
    assert b"\033" not in bailey("doctor").out
    assert b"\033[32mworks" in bailey("doctor", "--color", "always").out


def test_user_namespaces_used_up(run, doctor):
    """The real limit, set to nothing in a namespace above."""
    script = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" doctor --json'
    result = run(["unshare", "--user", "--map-root-user", "sh", "-c", script, program("bailey")])
    items = {item["name"]: item for item in json.loads(result.text)["items"]}
    assert items["user-namespace"]["cause"] == "userns-limit"
    assert "user.max_user_namespaces" in items["user-namespace"]["fix"]
    for name in ("mount-namespace", "pid-namespace", "network-namespace", "nft-redirect", "overlayfs"):
        assert (items[name]["state"], items[name]["cause"]) == ("blocked", "needs-user-namespace")
    assert result.status == EXIT["degraded"]


def test_user_namespaces_switched_off(doctor):
    items, report, say = doctor(userns=True, sysctls={"kernel.unprivileged_userns_clone": 0},
                                refuse=[deny("unshare", errno.EPERM, CLONE_NEWUSER)])
    expected = "seccomp" if os.geteuid() == 0 else "userns-sysctl"  # the setting does not bind root
    assert items["user-namespace"]["cause"] == expected
    assert report["mode"] == "degraded"
    text = say().text
    assert "bailey run will refuse, unless --allow-degraded permits less" in text
    assert re.search(r"^  blocked   user namespaces \(needed for the full sandbox\)$", text, re.M)
    if expected == "userns-sysctl":
        assert "sudo sysctl -w kernel.unprivileged_userns_clone=1" in text


def test_apparmor_grants_the_namespace_and_nothing_in_it(doctor):
    items, report, _ = doctor(userns=True, sysctls={"kernel.apparmor_restrict_unprivileged_userns": 1},
                              refuse=[deny("unshare", errno.EPERM, CLONE_NEWNS)])
    assert (items["user-namespace"]["state"], items["user-namespace"]["cause"]) == ("blocked", "apparmor")
    assert "share/bailey/apparmor/bailey" in items["user-namespace"]["fix"]
    assert report["mode"] == "degraded"


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS, KILL])
def test_a_filter_over_everything_is_told_from_an_old_kernel(doctor, error):
    items, report, _ = doctor(refuse=[deny("landlock_create_ruleset", error)])
    assert (items["landlock"]["state"], items["landlock"]["cause"]) == ("blocked", "seccomp")
    assert report["landlock_abi"] == 0
    assert report["mode"] == "degraded"


def test_landlock_left_out_at_boot(doctor):
    items, _, _ = doctor(refuse=[deny("landlock_create_ruleset", errno.EOPNOTSUPP)])
    assert (items["landlock"]["state"], items["landlock"]["cause"]) == ("blocked", "lsm-order")
    assert "lsm=" in items["landlock"]["fix"]


def test_neither_landlock_nor_namespaces(doctor):
    items, report, say = doctor(refuse=[deny("landlock_create_ruleset", errno.ENOSYS),
                                        deny("unshare", errno.EPERM, CLONE_NEWUSER)])
    assert items["user-namespace"]["cause"] == "seccomp"
    assert report["mode"] == "none"
    assert "too little is left to confine a program" in say().text


def test_no_seccomp(doctor):
    items, report, _ = doctor(refuse=[deny("seccomp", errno.EINVAL)])
    assert items["seccomp"]["cause"] == items["seccomp-notify"]["cause"] == "not-built"
    assert report["mode"] == "none"


def test_no_netfilter(doctor):
    items, report, _ = doctor(refuse=[deny("socket", errno.EPROTONOSUPPORT, AF_NETLINK)])
    assert (items["nft-redirect"]["state"], items["nft-redirect"]["cause"]) == ("missing", "no-module")
    assert "nft_redir" in items["nft-redirect"]["fix"]
    assert report["mode"] == "degraded"


def test_older_calls_are_enough(doctor):
    calls = ("clone3", "openat2", "open_tree", "pidfd_open", "memfd_secret")
    before, whole, _ = doctor()
    items, report, _ = doctor(refuse=[deny(call, errno.ENOSYS) for call in calls])
    for name in ("clone3", "openat2", "mount-api", "pidfd", "memfd-secret"):
        assert items[name]["state"] == "blocked" and not items[name]["needed"]
    assert report["mode"] == whole["mode"]
    assert items["landlock"] == before["landlock"]


def test_covered_proc(doctor):
    items, report, _ = doctor(userns=True, cover=["/proc/tty"])
    assert (items["own-proc"]["state"], items["own-proc"]["cause"]) == ("blocked", "proc-covered")
    assert "systempaths=unconfined" in items["own-proc"]["fix"]
    assert report["mode"] == "degraded"


@pytest.mark.root
def test_inside_a_chroot(run, tmp_path):
    """With the program inside, since it is the root directory that changes."""
    root = tmp_path / "root"
    root.mkdir()
    copy = root / "bailey"
    copy.write_bytes(program("bailey").read_bytes())
    copy.chmod(0o755)
    result = run(machine(["/bailey", "doctor", "--json"], userns=True, chroot=root))
    items = {item["name"]: item for item in json.loads(result.text)["items"]}
    assert (items["user-namespace"]["state"], items["user-namespace"]["cause"]) == ("blocked", "chroot")


@pytest.mark.exact_build  # it runs itself inside, where a sanitizer's memory does not fit into the limits
def test_prove_shows_that_denied_is_denied(bailey):
    before = set(pathlib.Path("/var/tmp").glob("bailey-prove-*"))
    result = bailey("doctor", "--prove", "--json").check()
    shown = json.loads(result.text)
    assert shown["proved"] is True and len(shown["acts"]) >= 10
    for act in shown["acts"]:
        assert act["holds"] and act["outside"] and act["inside"] == act["permitted"], act
    assert {a["permitted"] for a in shown["acts"]} == {True, False}
    # Another test may be proving something at this moment: that one is gone soon.
    wait_until(lambda: set(pathlib.Path("/var/tmp").glob("bailey-prove-*")) <= before, what="nothing is left in /var/tmp")
    assert "Proved" in bailey("doctor", "--prove").check().text
    assert bailey("home", "ls").check().text == ""  # the workspace that it belongs to is gone


@pytest.mark.exact_build
@pytest.mark.root
def test_prove_as_the_first_process(environment):
    """As in a container: its parent is no process that can be seen."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", str(program("bailey")), "doctor", "--prove"]
    done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
    assert done.returncode == 0 and "Proved" in done.stdout, done.stdout


def test_each_line_says_something(bailey):
    """What is lost, why, and what helps stand beside their labels."""
    assert not [line for line in bailey("doctor").text.splitlines() if line != line.rstrip()]
