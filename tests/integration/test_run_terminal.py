# SPDX-License-Identifier: Apache-2.0
"""The real terminal: job control by a real shell around `bailey run`, as a person has it."""
import os
import pty
import select
import signal
import struct
import fcntl
import termios
import time

import pytest

from conftest import program


class Terminal:
    """An interactive shell on a pseudo-terminal; type() and expect()."""

    def __init__(self, cwd, env):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], {**env, "PS1": "PROMPT$ ", "TERM": "dumb"})
        self.expect(b"PROMPT$ ")

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, wanted, seconds=60):
        end = time.monotonic() + seconds
        while wanted not in self.seen:
            left = end - time.monotonic()
            assert left > 0, f"waited for {wanted!r}, saw {self.seen!r}"
            if select.select([self.fd], [], [], left)[0]:
                self.seen += os.read(self.fd, 4096)
        before, self.seen = self.seen.split(wanted, 1)
        return before

    def close(self):
        os.kill(self.pid, signal.SIGHUP)
        os.close(self.fd)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@pytest.fixture
def terminal(closing, home, environment):
    work = home / "work"
    work.mkdir()
    return closing(Terminal(work, {**environment, "B": str(program("bailey"))}))


def test_it_is_a_terminal(terminal):
    terminal.type('$B run -- sh -c "test -t 0 && test -t 1 && echo is-\\"\\"terminal; tty; echo x >/dev/tty"\n')
    terminal.expect(b"is-terminal")
    terminal.expect(b"/dev/")
    terminal.expect(b"PROMPT$ ")


def test_interrupt_reaches_the_command_only(terminal):
    terminal.type("$B run -- sh -c 'trap \"echo caught; exit 3\" INT; echo read\"\"y; while :; do sleep 0.1; done'; echo status=$?\n")
    terminal.expect(b"ready")
    terminal.type("\x03")
    terminal.expect(b"caught")
    terminal.expect(b"status=3")
    terminal.expect(b"PROMPT$ ")


def test_interrupted_command(terminal):
    terminal.type("$B run -- sh -c 'echo read\"\"y; exec sleep 60'; echo status=$?\n")
    terminal.expect(b"ready")
    terminal.type("\x03")
    terminal.expect(b"status=130")


def test_stop_and_continue(terminal):
    terminal.type("$B run -- sh -c 'echo read\"\"y; read line; echo got-$line'; echo status=$?\n")
    terminal.expect(b"ready")
    terminal.type("\x1a")
    terminal.expect(b"Stopped")
    terminal.expect(b"PROMPT$ ")
    terminal.type("echo shell-\"\"lives; fg\n")
    terminal.expect(b"shell-lives")
    terminal.type("input\n")
    terminal.expect(b"got-input")
    terminal.expect(b"PROMPT$ ")


def test_background_then_foreground(terminal):
    terminal.type("$B run -- sh -c 'read line; echo got-$line' &\n")
    terminal.expect(b"PROMPT$ ")
    time.sleep(0.5)
    terminal.type("jobs; fg\n")
    terminal.expect(b"Stopped")
    time.sleep(0.3)
    terminal.type("input\n")
    terminal.expect(b"got-input")
    terminal.expect(b"PROMPT$ ")


def test_interactive_shell_inside(terminal):
    terminal.type("$B run -- bash --norc --noprofile -i\n")
    terminal.expect(b"PROMPT$ ")  # its own
    terminal.type("PS1='INS''IDE$ '\n")
    before = terminal.expect(b"INSIDE$ ")
    assert b"no job control" not in before
    terminal.type("sh -c 'echo read\"\"y; exec sleep 60'\n")
    terminal.expect(b"ready")
    terminal.type("\x1a")
    terminal.expect(b"Stopped")
    terminal.expect(b"INSIDE$ ")
    terminal.type("kill -9 %1; sleep 0.5\n")
    terminal.expect(b"Killed")  # before that bash would refuse to leave a stopped job behind
    terminal.type("exit 5\n")
    terminal.expect(b"PROMPT$ ")
    terminal.type("echo status=$?\n")
    terminal.expect(b"status=5")


def test_resize(terminal):
    terminal.type("$B run -- sh -c 'trap \"stty size; exit\" WINCH; echo read\"\"y; while :; do sleep 0.1; done'\n")
    terminal.expect(b"ready")
    fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("4H", 33, 77, 0, 0))
    terminal.expect(b"33 77")
    terminal.expect(b"PROMPT$ ")


LEAVINGS = {
    "exclusive": "fcntl.ioctl(0, termios.TIOCEXCL)", "mode": "os.fchmod(0, 0o666)", "stopped output": "termios.tcflow(0, termios.TCOOFF)",
    "not blocking": "os.set_blocking(0, False)", "raw": "import tty; tty.setraw(0)",
    "by its other name": "os.chmod('/proc/self/fd/0', 0o606)",
}


@pytest.mark.parametrize("end", ["", "; os.kill(os.getpid(), 9)", "; os.abort()"])
@pytest.mark.parametrize("what", LEAVINGS)
@pytest.mark.rows
def test_terminal_is_left_as_it_was(terminal, what, end):
    """Whatever the command does to the device, and however it ends: others can open it, read and write as before."""
    device = os.readlink(f"/proc/{terminal.pid}/fd/0")
    before = os.stat(device).st_mode, termios.tcgetattr(terminal.fd)
    terminal.type(f'$B run -q -- /usr/bin/python3 -c "import fcntl, os, termios; {LEAVINGS[what]}{end}"; echo over-$((40 + 2))\n')
    terminal.expect(b"over-42")
    terminal.expect(b"PROMPT$ ")
    assert os.stat(device).st_mode == before[0]
    terminal.type('cat < /dev/tty > /dev/null & sleep 0.1; kill $!; /usr/bin/python3 -c "import os; print(os.get_blocking(0), os.get_blocking(1), \'said\')"\n')
    assert b"False" not in terminal.expect(b"said\r\n").splitlines()[-1]
    terminal.type("stty -a | tr -d '\\n'; echo; : > /dev/tty && echo op\"\"ens\n")
    shown = terminal.expect(b"opens")
    assert b" icanon" in shown and b" echo " in shown and b"-icanon" not in shown


@pytest.mark.root
def test_devices_keep_their_modes(bailey, work):
    before = [os.stat(f"/dev/{name}").st_mode for name in ("null", "zero", "tty")]
    assert bailey("run", "--", "chmod", "600", "/dev/null", "/dev/zero", "/dev/tty", cwd=work).status != 0
    assert before == [os.stat(f"/dev/{name}").st_mode for name in ("null", "zero", "tty")]
    bailey("run", "--", "sh", "-c", "echo x > /dev/null; head -c 3 /dev/zero", cwd=work).check()


def test_the_first_run_says_what_holds(terminal, home, bailey):
    """Three lines, on a terminal, once for a user; an empty file remembers it."""
    marker = home / ".local/state/bailey/introduced"
    assert "no policy yet" not in bailey("run", "--", "true", cwd=home / "work").check().errors and not marker.exists()  # no terminal
    terminal.type('$B run --quiet -- true; echo "quiet ""done"\n')
    assert b"no policy yet" not in terminal.expect(b"quiet done")
    terminal.type('echo "mode: read-only" > .bailey.yaml; $B run -- true; rm .bailey.yaml; echo "with ""one"\n')
    assert b"no policy yet" not in terminal.expect(b"with one")
    assert not marker.exists()
    terminal.type('$B run -- true; echo "first ""done"\n')
    said = terminal.expect(b"first done")
    assert said.count(b"bailey: ") == 3 and b"work and its own /tmp, has its own home, reaches no host" in said and b"bailey init" in said, said
    lines = [line.replace(bytes(home / "work"), b"").strip() for line in said.splitlines() if b"bailey: " in line]
    assert max(map(len, lines)) < 96 and all(len(line) <= 80 for line in lines[1:]), lines
    assert marker.exists() and marker.stat().st_size == 0 and marker.stat().st_mode & 0o777 == 0o600
    terminal.type('$B run -- true; echo "second ""done"\n')
    assert b"no policy yet" not in terminal.expect(b"second done")
    marker.unlink()
    terminal.type('$B run -m read-only -- true; echo "third ""done"\n')
    assert b"writes only in its own /tmp" in terminal.expect(b"third done")
    marker.unlink()
    terminal.type('$B run --allow a.test -- true; echo "fourth ""done"\n')
    assert b"reaches the hosts you allowed" in terminal.expect(b"fourth done")
