# SPDX-License-Identifier: Apache-2.0
"""A terminal as people have it: a shell in tmux, keys typed into it, the screen as it is drawn."""
import re
import subprocess
import time

from .process import SLOW


class Tmux:
    def __init__(self, directory, env, cwd, size=(110, 36)):
        self.socket, self.env = directory / "tmux.sock", {**env, "TERM": "xterm-256color", "SHELL": "/bin/bash"}  # an account for tests may have none
        shell = directory / "shell.rc"
        shell.write_text("PS1='READY> '\n")
        self.call("-f", "/dev/null", "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), "-c", str(cwd),
                  f"bash --noprofile --rcfile {shell} -i")
        self.expect("READY>")

    def call(self, *words):
        return subprocess.run(["tmux", "-S", str(self.socket), *words], env=self.env, check=True, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT).stdout

    def screen(self):
        return self.call("capture-pane", "-p")

    def keys(self, *names):
        self.call("send-keys", *names)

    def type(self, text):
        self.call("send-keys", "-l", text)

    def resize(self, width, height):
        self.call("resize-window", "-x", str(width), "-y", str(height))

    def expect(self, wanted, seconds=90, answers=(), gone=False):
        """Waits until the screen matches (or, `gone`, does not). answers: (pattern, keys) for what is asked on the way. A question that
        still stands after a while is answered again: who has just drawn may not listen yet."""
        end, answered = time.monotonic() + seconds * SLOW, {}
        while True:
            screen, now = self.screen(), time.monotonic()
            there = bool(re.search(wanted, screen)) != gone
            row = next((row for row in answers if re.search(row[0], screen) and (row[0] not in answered if there else now - answered.get(row[0], 0) > 6)), None)
            if there and not row:
                return screen
            assert now < end, f"waited for {wanted!r}; the screen:\n{screen}"
            if row:
                answered[row[0]] = now
                time.sleep(0.5)
                for key in row[1]:
                    self.keys(key)
                    time.sleep(0.5)
            time.sleep(0.3)

    def close(self):
        subprocess.run(["tmux", "-S", str(self.socket), "kill-server"], env=self.env, check=False, stderr=subprocess.DEVNULL)
