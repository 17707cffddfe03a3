# SPDX-License-Identifier: Apache-2.0
"""bailey exec --warm: a sandbox that was made before its command is a sandbox like any other, or it is not used."""
import json
import os
import signal
import subprocess

import pytest

from conftest import program
from kit.process import SLOW, descendants, name_of, wait_until

# In ticks since boot: when process 1 of the sandbox was started.
BORN = "cut -d' ' -f22 /proc/1/stat"


def now():
    return int(float(open("/proc/uptime").read().split()[0]) * os.sysconf("SC_CLK_TCK"))


class Warm:
    """Calls with --warm 1, and the processes that wait."""

    def __init__(self, bailey, start, work, home):
        self.bailey, self.start, self.work, self.place = bailey, start, work, home / ".run/bailey"

    def sockets(self):
        return [name for name in os.listdir(self.place) if name.startswith("warm-")] if self.place.exists() else []

    def spares(self):
        """Process numbers of those that listen here."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = open(f"/proc/{pid}/cmdline").read().split("\0")
                if words[:2] == ["bailey", "spare"] and name_of(pid) != "bailey-init" and f"HOME={self.place.parent.parent}\0" in open(f"/proc/{pid}/environ").read():
                    found.append(int(pid))
            except OSError:
                pass
        return found

    def __call__(self, *words, **more):
        return self.bailey("exec", "--warm", "1", *words, **{"cwd": self.work, **more})

    def prepare(self, *words, **more):
        """One waits for what these words would need; the time at which it did."""
        if not self.sockets():
            self(*(words or ["true"]), **more)
        wait_until(self.ready, 30 * SLOW)
        return now()

    def ready(self):
        """Its sandbox exists: a process that is the first of others."""
        return any(os.path.exists(f"/proc/{pid}/task/{pid}/children") and open(f"/proc/{pid}/task/{pid}/children").read() for pid in self.spares())

    def names_inside(self):
        return [name_of(process) for pid in self.spares() for process in descendants(pid)]

    def dismiss(self):
        """Those that were killed have left their sockets, which go when they are two seconds old."""
        def none_left():
            self.bailey("exec", "--warm", "0", "true", cwd=self.work)
            return not self.spares() and not self.sockets()
        wait_until(none_left, 60 * SLOW, every=0.2)


@pytest.fixture
def warm(bailey, start, work, home):
    calls = Warm(bailey, start, work, home)
    yield calls
    calls.dismiss()


def test_it_was_there_before_its_command(warm):
    ready = warm.prepare()
    for _ in range(3):
        result = warm(BORN).check()
        assert int(result.text) <= ready and result.errors == ""
        ready = warm.prepare()


def test_streams_and_status(warm):
    warm.prepare()
    script = '"$0" exec --warm 1 "cat; echo out; echo err >&2; exit 3"'
    result = warm.start(["sh", "-c", f"echo in | {script}", program("bailey")], cwd=warm.work).wait(30 * SLOW)
    assert (result.status, result.text, result.errors) == (3, "in\nout\n", "err\n")
    for command, status in (("no-such-program", 127), ("kill -9 $$", 137), ("exit 126", 126)):
        warm.prepare()
        assert warm("--approved", command).status == status


def test_the_words_of_a_command(warm):
    ready = warm.prepare("--args", "--", "cut", "--version")
    assert int(warm("--args", "--", "cut", "-d ", "-f22", "/proc/1/stat").check().text) <= ready
    warm.prepare("--args", "--", "printf", "%s|", "")
    assert warm("--args", "--", "printf", "%s|", "a b", "$HOME", "", "\n").check().text == "a b|$HOME||\n|"
    long = "x" * 110000  # more than is handed over
    assert warm(f"echo {long} | wc -c").check().text == "110001\n"


def test_captured_output(warm):
    ready = warm.prepare()
    result = warm("--json", f"{BORN}; echo err >&2; exit 3")
    told = json.loads(result.text)
    assert result.status == 3 and (told["outcome"], told["exit_code"], told["stderr"], told["decision"]) == ("ended", 3, "err\n", "allow")
    assert int(told["stdout"]) <= ready
    warm.prepare()
    told = json.loads(warm("--json", "--approved", "kill -KILL $$").text)
    assert told["signal"] == 9 and told["exit_code"] is None


def test_commands_share_nothing(warm):
    """Neither files of the sandbox's own, nor processes, nor a name."""
    warm.prepare()
    first = warm("touch /tmp/left /dev/shm/left; (sleep 100 &) ; echo $BAILEY_SANDBOX; ls /proc | grep -c '^[0-9]'").check().text.split()
    warm.prepare()
    second = warm("ls -A /tmp /dev/shm; echo $BAILEY_SANDBOX; pgrep -c sleep").text.split()
    assert "left" not in second and first[0] not in second and second[-1] == "0"


def test_each_is_on_record(warm, tmp_path):
    log = tmp_path / "log"
    warm.prepare("--audit", str(log), "true")
    warm("--audit", str(log), "echo second").check()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    text = log.read_text()
    assert text.count("start: mode") == 2 and "echo second" in text
    assert len({line["sandbox"] for line in lines}) == 2


@pytest.mark.parametrize("change", ["config", "workspace", "command"])
def test_a_policy_that_changes_meanwhile(warm, config, work, home, bailey, change):
    """The next command is under the policy of its own time."""
    (work / "secret").write_text("secret\n")
    warm.prepare()
    if change == "config":
        config.write_text(f"filesystem: {{deny_read: ['{work}/secret']}}\n")
    elif change == "workspace":
        (work / ".bailey.yaml").write_text("filesystem: {deny_read: ['./secret']}\n")
    else:
        config.write_text("commands: [{name: no-secret, decision: forbid, reason: it is one, argv: ['cat', 'secret']}]\n")
    result = warm("cat secret")
    assert (result.status, result.text) == (20 if change == "command" else 1, "")
    (home / ".config/bailey/config.yaml").unlink(missing_ok=True)
    (work / ".bailey.yaml").unlink(missing_ok=True)
    assert warm("cat secret").check().text == "secret\n"


def test_what_is_not_allowed_at_once_is_the_callers(warm, work):
    ready = warm.prepare()
    assert warm("touch ran; rm -rf /").status == 20
    assert warm("touch ran; sudo ls").status == 10
    assert not (work / "ran").exists()
    assert int(warm(BORN).check().text) <= ready  # it still waits


@pytest.mark.parametrize("how", [["--write", "/var/tmp"], ["--timeout", "50s"], ["--mode", "read-only"], ["--shell", "/bin/bash"]])
def test_other_options_are_other_sandboxes(warm, how):
    ready = warm.prepare()
    assert int(warm(*how, BORN).check().text) >= ready


def test_other_circumstances_are_other_sandboxes(warm, work):
    ready = warm.prepare()
    (work / "below").mkdir()
    assert int(warm(BORN, cwd=work / "below").check().text) >= ready
    assert warm(f"{BORN}; echo $GIVEN", env={"GIVEN": "this"}).check().text.split()[1:] == ["this"]
    bailey = str(program("bailey"))
    for before, shown, expected in ((["prlimit", "--nofile=200"], "ulimit -n", "200"), (["nice", "-n", "5"], "nice", "5"),
                                    (["sh", "-c", 'umask 077; exec "$@"', "sh"], "umask", "0077")):
        words = [*before, bailey, "exec", "--warm", "1", f"{BORN}; {shown}"]
        born, found = warm.start(words, cwd=work).wait(30 * SLOW).check().text.split()
        assert int(born) >= ready and found == expected


def test_a_confined_caller_gets_a_sandbox_of_its_own(warm, work):
    ready = warm.prepare()
    words = ["setpriv", "--no-new-privs", str(program("bailey")), "exec", "--warm", "1", BORN]
    assert int(warm.start(words, cwd=work).wait(30 * SLOW).check().text) >= ready


def test_denied_files_that_are_replaced_while_it_waits(warm, work):
    """The mask was on the file that is gone."""
    options = ["--deny-read", str(work / "secret"), "--deny-read", str(work / "later")]
    (work / "secret").write_text("old\n")
    warm.prepare(*options, "true")
    (work / "new").write_text("secret\n")
    os.rename(work / "new", work / "secret")
    (work / "later").write_text("secret\n")
    result = warm(*options, "cat secret later; true")
    assert "secret\n" not in result.text and "old" not in result.text


def test_protected_names_that_appear_while_it_waits(warm, work):
    subprocess.run(["git", "init", "-q", work], check=True)
    ready = warm.prepare()
    config = (work / ".git/config").read_text()
    (work / ".git/config.new").write_text(config + "[user]\n\tname = host\n")
    os.rename(work / ".git/config.new", work / ".git/config")
    subprocess.run(["git", "init", "-q", work / "sub"], check=True)
    warm(f"{BORN}; echo '[core] fsmonitor = touch ran' >> .git/config; echo x > .git/hooks/pre-commit; echo x > sub/.git/hooks/pre-commit; "
         "echo '[core] fsmonitor = touch ran' >> sub/.git/config; true")
    for place in (work, work / "sub"):
        assert "fsmonitor" not in (place / ".git/config").read_text()
        assert not (place / ".git/hooks/pre-commit").exists()
    assert ready


def test_what_a_command_planted_is_swept_though_another_waits(warm, work):
    """It is in nobody's way: neither for a cold command nor for a warm one."""
    for _ in range(3):
        warm.prepare()
        result = warm("mkdir -p .vscode && echo x > .vscode/tasks.json; echo x > .envrc; true")
        assert not (work / ".envrc").exists() and not (work / ".vscode/tasks.json").exists(), result.errors


def test_the_caller_is_killed(warm, work):
    """So is the command."""
    warm.prepare()
    child = warm.start(["bailey", "exec", "--warm", "1", "touch began; sleep 1000"], cwd=work)
    wait_until((work / "began").exists, 30 * SLOW)
    wait_until(lambda: "sleep" in warm.names_inside(), 30 * SLOW)
    child.process.kill()
    wait_until(lambda: "sleep" not in warm.names_inside(), 30 * SLOW)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_are_the_commands(warm, work, number):
    warm.prepare()
    name = number.name[3:]
    child = warm.start(["bailey", "exec", "--warm", "1", f"trap 'echo got; exit 5' {name}; touch began; while :; do sleep 0.05; done"], cwd=work)
    wait_until((work / "began").exists, 30 * SLOW)
    child.process.send_signal(number)
    result = child.wait(30 * SLOW)
    assert (result.status, result.text) == (5, "got\n")


def test_a_time_limit(warm):
    warm.prepare("--timeout", "1s", "true")
    result = warm("--timeout", "1s", "sleep 100")
    assert result.status == 124 and "time limit" in result.errors


def test_those_that_wait_are_killed(warm):
    """Nothing depends on them."""
    warm.prepare()
    for pid in warm.spares():
        os.kill(pid, signal.SIGKILL)
    assert warm("echo as ever").check().text == "as ever\n"


def test_one_that_hangs_runs_nothing_later(warm, work):
    """The caller loses patience, and launches by itself: once is not twice."""
    warm.prepare()
    (pid,) = warm.spares()
    os.kill(pid, signal.SIGSTOP)
    try:
        warm("echo ran >> log").check()
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: pid not in warm.spares() or warm.ready(), 30 * SLOW)
    assert (work / "log").read_text() == "ran\n"


def test_a_file_as_input(warm):
    warm.prepare()
    assert warm("cat", stdin=b"of a file\n").check().text == "of a file\n"


@pytest.mark.parametrize("option", ["--overlay", "--publish"])
def test_what_holds_something_of_the_host_is_not_made_ahead(warm, free_port, option):
    for _ in range(2):
        warm(option, *([f"{free_port()}:80"] if option == "--publish" else []), "true").check()
    wait_until(lambda: not warm.spares(), 30 * SLOW)


def test_many_at_once(warm, work):
    """Each gets a sandbox and its own output, whoever made it."""
    warm.prepare()
    children = [warm.start(["bailey", "exec", "--warm", "1", f"echo {i}; echo {i} >> all"], cwd=work) for i in range(12)]
    assert [child.wait(60 * SLOW).check().text for child in children] == [f"{i}\n" for i in range(12)]
    assert sorted(map(int, (work / "all").read_text().split())) == list(range(12))


def test_the_number_of_those_that_wait(warm, work):
    for _ in range(4):
        warm.bailey("exec", "--warm", "3", "true", cwd=work).check()
    wait_until(lambda: len(warm.spares()) == 3, 30 * SLOW)
    assert warm.bailey("exec", "--warm", "9", "true", cwd=work).status == 120
