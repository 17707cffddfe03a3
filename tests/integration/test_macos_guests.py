# SPDX-License-Identifier: Apache-2.0
"""`bailey guest` as it is for macOS, run on Linux: its tools are fakes that write down what they are told, and play a small Mac. Some hang,
lie or die."""
import os
import pathlib
import shutil
import signal

import pytest

from conftest import BUILD
from kit.process import wait_until

EXIT_NO, EXIT_UNAVAILABLE, EXIT_REFUSED, EXIT_SYSTEM = 1, 4, 5, 7
# What dscl has made is in files; so a second look shows what the first change did.
DSCL = """
case "$2 $3 $4" in
"-list /Users UniqueID") echo 'root 0'; echo 'ada 501'; echo 'other 600'; cat "$mac/users" 2>/dev/null ;;
"-list /Groups PrimaryGroupID") echo 'wheel 0'; echo 'staff 20'; echo 'group 601' ;;
"-create /Users/"*" UniqueID") echo "${3#/Users/} $5" >"$mac/users" ;;
"-delete /Users/"*) rm "$mac/users" 2>/dev/null || { echo 'eDSRecordNotFound'; exit 56; } ;;
esac
exit 0"""
FAKES = {
    "/usr/bin/dscl": DSCL, "/usr/bin/id": 'read -r _ number <"$mac/users"; echo "$number"', "/bin/cat": "echo 'anchor \"com.apple/*\"'",
    "/sbin/pfctl": '[ "$1" = -E ] && echo "Token : 7001"; exit 0', "/usr/bin/install": 'exit 0', "/usr/sbin/visudo": 'cp "$mac$3" "$mac/sudoers"',
    "/usr/bin/sudo": 'printf "%s\\n" "$@" >"$mac/sudo"; exit 9', "/sbin/ifconfig": "exit 1",
    **{path: "exit 0" for path in ("/usr/sbin/dseditgroup", "/bin/mkdir", "/usr/sbin/chown", "/bin/chmod", "/bin/rm", "/bin/launchctl", "/usr/bin/pkill")}}


class Mac:
    def __init__(self, run, start, place):
        self.root, self.run, self.start = place / "mac", run, start
        self.program = place / "bin/bailey"
        self.program.parent.mkdir(parents=True)
        shutil.copy(BUILD / "tests/tools/bailey-as-macos", self.program)
        self.launcher = self.program.with_name("bailey-seatbelt")
        self.launcher.write_text("#!/bin/sh\n")
        self.launcher.chmod(0o755)
        self.env = {"BAILEY_FAKE_TOOLS": str(self.root), "SUDO_USER": "ada"}
        (self.root / "var/db").mkdir(parents=True)
        for path, body in FAKES.items():
            self.fake(path, body)

    def fake(self, path, body):
        file = pathlib.Path(f"{self.root}{path}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'#!/bin/sh\nmac={self.root}\necho "{path} $*" >>"$mac/calls"\n{body}\n')
        file.chmod(0o755)

    def guest(self, *words, **env):
        return self.run([self.program, "guest", *words], env={**self.env, **env})

    def calls(self):
        file = self.root / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def notes(self):
        return sorted(file.name for file in (self.root / "var/db").rglob("*") if file.is_file())


@pytest.fixture
def mac(run, start, tmp_path):
    return Mac(run, start, tmp_path)


def test_life(mac):
    assert mac.guest("ls").check().text == "There are no guests.\n"
    assert "_bailey_a1 with the number 602, of ada" in mac.guest("create", "a1").check().text, "600 is an account's, 601 a group's"
    made = mac.calls()
    for wanted in ("/usr/bin/dscl . -create /Users/_bailey_a1 IsHidden 1", "/bin/mkdir -m 0700 /Users/_bailey_a1", "/sbin/pfctl -E"):
        assert wanted in made, made
    rules = (mac.root / "var/db/bailey/pf.602.conf").read_text()
    assert rules.count("block return") == 2 and "pass" not in rules and "reaches nothing" in rules
    assert f"ada ALL=(_bailey_a1) NOPASSWD: {mac.launcher}\n" in (mac.root / "sudoers").read_text()
    assert "a1 " in mac.guest("ls").check().text and "half made" not in mac.guest("ls").text
    assert mac.guest("create", "a1").status == EXIT_NO

    result = mac.guest("exec", "a1", "--", "make", "-k", "a b")
    assert result.status == 9, "the command's own status"
    assert (mac.root / "sudo").read_text().splitlines() == [
        "-n", "-H", "-u", "_bailey_a1", "--", str(mac.launcher), "run", "--workspace", "/Users/_bailey_a1", "--home", "real", "--", "make", "-k", "a b"]

    mac.fake("/sbin/pfctl", '[ "$1" = -E ] && echo "Token : 7002"; exit 0')
    mac.guest("start", "a1").check()
    assert mac.guest("delete", "a1").check().text == "a1: deleted\n"
    assert "/sbin/pfctl -X 7002" in mac.calls() and "/usr/bin/dscl . -delete /Users/_bailey_a1" in mac.calls()
    assert mac.guest("ls").check().text == "There are no guests.\n"
    assert mac.guest("delete", "a1").status == EXIT_UNAVAILABLE


def test_a_plan_changes_nothing(mac):
    told = mac.guest("create", "--plan", "a1").check().text
    assert "/usr/bin/dscl . -create /Users/_bailey_a1 UniqueID 602\n" in told and "#   undone by: " in told and "visudo -c -f" in told
    assert not mac.notes() and not any("-create" in call or "pfctl" in call for call in mac.calls()), mac.calls()
    mac.guest("create", "a1").check()
    before = len(mac.calls())
    told = mac.guest("delete", "--plan", "a1").check().text
    assert "/sbin/pfctl -X 7001\n" in told and "/bin/rm -rf /Users/_bailey_a1" in told and len(mac.calls()) == before


@pytest.mark.parametrize("tool, body, says, status", [
    ("/bin/cat", "echo 'scrub in all'", "ignored in silence", EXIT_UNAVAILABLE),
    ("/usr/bin/dscl", "exit 0", "lists nothing", EXIT_SYSTEM),
    ("/usr/bin/dscl", "echo nonsense", "no number between", EXIT_SYSTEM),
    ("/bin/chmod", "kill -SEGV $$", "killed by signal 11", EXIT_SYSTEM),
    ("/usr/bin/id", "echo 0", "does not know the account", EXIT_SYSTEM),
    ("/sbin/pfctl", "exit 0", "no token", EXIT_SYSTEM),
    ("/sbin/pfctl", "[ \"$1\" = -E ] && echo 'Token : 1; rm -rf /'; exit 0", "no token", EXIT_SYSTEM),
    ("/usr/sbin/visudo", "echo 'syntax error'; exit 1", "syntax error", EXIT_SYSTEM),
    ("/usr/bin/install", "exit 71", "failed with status 71", EXIT_SYSTEM),
    ("/bin/mkdir", "echo 'eDSPermissionError'; exit 1", "Full Disk Access", EXIT_REFUSED)])
def test_what_fails_leaves_nothing(tool, body, says, status, mac):
    mac.fake(tool, body)
    result = mac.guest("create", "a1")
    assert result.status == status and says in result.errors, result
    assert not mac.notes(), "a note or a rule is left"
    made = any(" -create /Groups" in call for call in mac.calls())
    assert made == any("-delete /Groups/_bailey_a1" in call for call in mac.calls())


def test_half_a_guest_can_be_deleted(mac):
    """A `create` that was killed while a tool of the system hung."""
    mac.fake("/usr/sbin/dseditgroup", 'echo $$ >"$mac/hangs"; exec sleep 600')
    create = mac.start([mac.program, "guest", "create", "a1"], env=mac.env)
    wait_until(lambda: (mac.root / "hangs").exists() and (mac.root / "hangs").read_text().strip())
    create.signal(signal.SIGKILL)
    create.wait()
    os.kill(int((mac.root / "hangs").read_text()), signal.SIGKILL)
    assert "half made" in mac.guest("ls").check().text
    assert mac.guest("exec", "a1", "--", "true").status != 0 and not (mac.root / "sudo").exists()
    mac.fake("/usr/sbin/dseditgroup", "exit 0")
    mac.fake("/sbin/pfctl", "echo 'pfctl: no such anchor'; exit 1")
    assert mac.guest("delete", "a1").check().text == "a1: deleted\n"
    assert not [name for name in mac.notes() if name.endswith(".guest")]


def test_an_account_that_stays_keeps_its_note(mac):
    mac.guest("create", "a1").check()
    mac.fake("/usr/bin/dscl", "case \"$*\" in *-list*) echo '_bailey_a1 602';; *) echo 'eDSPermissionError'; exit 40;; esac")
    result = mac.guest("delete", "a1")
    assert result.status == EXIT_REFUSED and "Full Disk Access" in result.errors, result
    assert "a1 " in mac.guest("ls").check().text


LINE = "rule 3.bailey.602.1/0(match) [uid {}]: block out on en0: 10.0.0.2.51234 > {}: Flags [S], seq 1"


def test_log(mac):
    mac.guest("create", "a1").check()
    lines = "\n".join([LINE.format(602, "1.1.1.1.443"), LINE.format(501, "9.9.9.9.443"), "nonsense", LINE.format(602, "2001:db8::1.53")])
    mac.fake("/usr/sbin/tcpdump", f"cat <<'END'\n{lines}\nEND\nexec sleep 600")
    assert mac.guest("logs", "--for", "1", "a1").check().text == "refused tcp 1.1.1.1 443\nrefused tcp 2001:db8::1 53\n"
    mac.fake("/usr/sbin/tcpdump", "echo 'pflog0: No such device'; exit 1")
    result = mac.guest("logs", "--for", "20", "a1")
    assert result.status == EXIT_SYSTEM and "ended by itself (status 1)" in result.errors


def test_only_root_changes(mac):
    for words in (["create", "a1"], ["delete", "a1"], ["start", "a1"], ["logs", "a1"]):
        result = mac.run([mac.program, "guest", *words], env={"SUDO_USER": "ada"})
        assert result.status == EXIT_REFUSED and "use sudo" in result.errors, result


@pytest.mark.parametrize("name", ["../a", "a b", "a;b", "a" * 21, ".", "a/b"])
def test_names(name, mac):
    result = mac.guest("create", "--", name)
    assert result.status != 0 and not mac.notes() and not any("-create" in call for call in mac.calls()), result
    assert mac.guest("delete", "--", name).status == EXIT_UNAVAILABLE


def test_whose_it_is_must_be_known(mac):
    result = mac.guest("create", "a1", SUDO_USER="root")
    assert result.status == EXIT_NO and "whose guest" in result.errors and not mac.notes()
