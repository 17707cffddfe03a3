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
        """Waits until the screen matches (or, `gone`, does not). answers: (pattern, keys) for what is asked on the way, each once."""
        end, left = time.monotonic() + seconds * SLOW, list(answers)
        while True:
            screen = self.screen()
            if bool(re.search(wanted, screen)) != gone and not any(re.search(row[0], screen) for row in left):
                return screen
            assert time.monotonic() < end, f"waited for {wanted!r}; the screen:\n{screen}"
            for row in left:
                if re.search(row[0], screen):
                    time.sleep(0.5)  # a program that has just drawn may not listen yet
                    for key in row[1]:
                        self.keys(key)
                        time.sleep(0.5)
                    left.remove(row)
                    break
            time.sleep(0.3)

    def close(self):
        subprocess.run(["tmux", "-S", str(self.socket), "kill-server"], env=self.env, check=False, stderr=subprocess.DEVNULL)
