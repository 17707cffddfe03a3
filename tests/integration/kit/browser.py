# SPDX-License-Identifier: Apache-2.0
"""A real browser: Debian's Chromium, driven by Playwright, which comes from npm once and is kept in a cache."""
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from . import leaks

WEB = pathlib.Path(__file__).resolve().parents[2] / "web"


def modules():
    """The directory with Playwright and axe-core, filled when it is not there; None where npm has nothing to give."""
    if not shutil.which("npm") or not shutil.which("node") or not shutil.which("chromium"):
        return None
    place = pathlib.Path(tempfile.gettempdir()) / f"bailey-web-modules-{os.geteuid()}"
    place.mkdir(mode=0o700, exist_ok=True)
    if place.stat().st_uid != os.geteuid():
        return None
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        package = (WEB / "package.json").read_text()
        done = place / "done"
        if not done.exists() or done.read_text() != package:
            (place / "package.json").write_text(package)
            result = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"], cwd=place,
                                    stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
            if result.returncode:
                return None
            done.write_text(package)
    return place


class Failed(Exception):
    pass


class Browser:
    """Each page that is opened has cookies, storage and a cache of its own, unless it asks for those of another."""

    def __init__(self, place, home):
        environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".chromium"), "XDG_CACHE_HOME": str(home / ".chromium")}
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(["node", str(WEB / "browser.mjs"), str(place), shutil.which("chromium")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, env=environment)

    def __call__(self, do, page="one", **more):
        self.process.stdin.write(json.dumps({"do": do, "page": page, **more}).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise Failed(self.errors.read().decode("utf-8", "replace")[-2000:])
        reply = json.loads(line)
        if not reply["ok"]:
            raise Failed(f"{do} {more}: {reply['error']}")
        return reply["value"]

    def text(self, page="one"):
        return self("eval", page, code="document.body.innerText")

    def stay(self):
        """For several tests: starting Chromium takes longer than most of them. `reset` between them forgets all of its pages."""
        leaks.STAYING.add(self.process.pid)

    def close(self):
        leaks.STAYING.discard(self.process.pid)
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()
