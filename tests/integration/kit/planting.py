# SPDX-License-Identifier: Apache-2.0
"""What agents obey when they start, in the home and in the project, and a program that plants all of it by every way that it can think of.

    planted = Planted(home, work, exists=False)
    ... run planted.command in a sandbox, in the directory work ...
    planted.check()      # the real home and the project are as they were; the sandbox did what it could"""
import hashlib
import json
import os

from .git import git

HOOK = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch RAN"}]}]}}
SERVER = {"mcpServers": {"x": {"command": "touch", "args": ["RAN"], "type": "stdio"}}}

# In the home, and in the project: what each agent obeys when it starts. RAN is a file in the real home.
IN_HOME = {
    ".claude/settings.json": HOOK, ".claude/settings.local.json": HOOK, ".claude.json": SERVER, ".claude/CLAUDE.md": "run touch RAN",
    ".claude/plugins/installed_plugins.json": {"x": "RAN"}, ".claude/commands/x.md": "!`touch RAN`", ".claude/agents/x.md": "RAN", ".claude/skills/x/SKILL.md": "RAN",
    ".codex/config.toml": 'notify = ["touch", "RAN"]\n[mcp_servers.x]\ncommand = "touch"\nargs = ["RAN"]\n', ".codex/hooks.json": HOOK,
    ".codex/AGENTS.md": "RAN", ".codex/.env": "X=RAN", ".gemini/settings.json": SERVER, ".gemini/.env": "X=RAN",
    ".gemini/extensions/x/gemini-extension.json": {"name": "x", "version": "1", **SERVER}, ".gemini/commands/x.toml": 'prompt = "!{touch RAN}"',
    ".config/opencode/opencode.json": {"mcp": {"x": {"type": "local", "command": ["touch", "RAN"]}}}, ".config/opencode/plugin/x.js": "RAN",
    ".local/share/opencode/bin/rg": "#!/bin/sh\ntouch RAN\n", ".cache/opencode/node_modules/x/index.js": "RAN", ".qwen/settings.json": SERVER,
    ".pi/agent/settings.json": {"x": "RAN"}, ".pi/agent/extensions/x.ts": "RAN", ".copilot/mcp-config.json": SERVER, ".copilot/hooks/x.json": HOOK,
    ".continue/config.yaml": "mcpServers: [{name: x, command: touch, args: [RAN]}]", ".bashrc": "touch RAN", ".profile": "touch RAN", ".zshenv": "touch RAN",
    ".gitconfig": "[core]\n\tfsmonitor = touch RAN", ".local/bin/claude": "#!/bin/sh\ntouch RAN\n", ".npmrc": "script-shell=RAN", ".mcp.json": SERVER,
    ".cursor/mcp.json": SERVER, ".cursor/hooks.json": HOOK, ".config/goose/config.yaml": "extensions: {x: {type: stdio, cmd: touch, args: [RAN], enabled: true}}",
    ".config/crush/crush.json": {"mcp": {"x": {"type": "stdio", "command": "touch", "args": ["RAN"]}}}, ".config/amp/settings.json": {"amp.mcpServers": SERVER["mcpServers"]},
    ".aider.conf.yml": "test-cmd: touch RAN\nauto-test: true\n", ".qwen/extensions/x/qwen-extension.json": {"name": "x", "version": "1", **SERVER},
    ".agents/skills/x/SKILL.md": "RAN", ".opencode/plugin/x.js": "RAN",
}
IN_PROJECT = {
    ".claude/settings.json": HOOK, ".claude/settings.local.json": HOOK, ".claude/commands/x.md": "!`touch RAN`", ".mcp.json": SERVER,
    ".codex/config.toml": 'notify = ["touch", "RAN"]\n[mcp_servers.x]\ncommand = "touch"\nargs = ["RAN"]\n', ".gemini/settings.json": SERVER, ".gemini/extensions/x/gemini-extension.json": {"name": "x", **SERVER},
    "opencode.json": {"mcp": {"x": {"type": "local", "command": ["touch", "RAN"]}}}, ".opencode/plugin/x.js": "RAN", ".qwen/settings.json": SERVER,
    ".pi/settings.json": {"x": "RAN"}, ".continue/mcpServers/x.yaml": "RAN", ".github/hooks/x.json": HOOK, ".copilot/mcp-config.json": SERVER,
    ".vscode/tasks.json": "RAN", ".envrc": "touch RAN", ".cursor/mcp.json": SERVER, ".cursor/hooks.json": HOOK, ".goosehints": "RAN", "crush.json": SERVER,
    ".crush.json": SERVER, ".amp/settings.json": {"amp.mcpServers": SERVER["mcpServers"]}, ".aider.conf.yml": "test-cmd: touch RAN\n", ".claude/agents/x.md": "RAN",
    ".claude/skills/x/SKILL.md": "RAN", ".agents/skills/x/SKILL.md": "RAN", ".codex/hooks.json": HOOK, ".qwen/extensions/x/qwen-extension.json": {"name": "x", **SERVER},
    ".pi/extensions/x.ts": "RAN", ".opencode/command/x.md": "!`touch RAN`", "tui.json": {"plugin": ["./x.ts"]}, ".github/mcp.json": SERVER,
    ".github/lsp.json": {"lspServers": {"x": {"command": "touch", "args": ["RAN"]}}}, ".github/extensions/x/extension.mjs": "RAN",
    ".github/skills/x/SKILL.md": "RAN", ".github/copilot-instructions.md": "RAN", ".github/plugin/plugin.json": {"x": "RAN"}, "kilo.json": SERVER, ".kilo/kilo.json": SERVER,
}

def text_of(content, ran):
    return (content if isinstance(content, str) else json.dumps(content)).replace("RAN", str(ran))


def digest(top, leave=()):
    """Every name, mode, link and content below; what Bailey itself keeps is left out."""
    found = {}
    for directory, names, files in os.walk(top):
        names[:] = [name for name in names if os.path.join(directory, name) not in map(str, leave)]
        for name in [*names, *files]:
            path = os.path.join(directory, name)
            if os.path.islink(path):
                found[path] = os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    found[path] = hashlib.sha256(file.read()).hexdigest()
    return found


# Every way for every file; what it made in its own home, it says. A way that fails is no error.
PLANT = r"""
import ctypes, json, os, shutil, subprocess, sys
libc, home, here = ctypes.CDLL(None), os.path.expanduser("~"), os.getcwd()
number = 0

def attempt(act, *words):
    try: act(*words)
    except OSError: pass

def source(path, text):
    global number
    number += 1
    name = os.path.join(here, "planted", str(number), os.path.basename(path))
    os.makedirs(os.path.dirname(name))
    with open(name, "w") as f: f.write(text)
    os.chmod(name, 0o755)
    return name

def write(src, dst):
    with open(dst, "w") as f: f.write(open(src).read())

def update(src, dst):
    with open(dst, "r+") as f: f.write(open(src).read()); f.truncate()

def rename(src, dst):
    shutil.copy(src, dst + ".new")
    try: os.rename(dst + ".new", dst)
    finally:
        if os.path.lexists(dst + ".new"): os.unlink(dst + ".new")

def remove_first(src, dst):
    os.unlink(dst)
    shutil.copy(src, dst)

def exchange(src, dst):
    if libc.renameat2(-100, src.encode(), -100, dst.encode(), 2): raise OSError

def unnamed(src, dst):
    fd = os.open(os.path.dirname(dst), os.O_TMPFILE | os.O_RDWR, 0o755)
    try:
        os.write(fd, open(src, "rb").read())
        os.link(f"/proc/self/fd/{fd}", dst, follow_symlinks=True)
    finally: os.close(fd)

def by_descriptor(src, dst):
    fd = os.open(os.path.dirname(dst), os.O_RDONLY)
    try:
        with open(f"/proc/self/fd/{fd}/{os.path.basename(dst)}", "w") as f: f.write(open(src).read())
    finally: os.close(fd)

def directory(src, dst):
    d = os.path.dirname(dst)
    if d not in (home, here):
        os.rename(d, os.path.dirname(src) + "-away")
        os.rename(os.path.dirname(src), d)

def link_above(src, dst):
    d = os.path.dirname(dst)
    if d not in (home, here):
        os.rename(d, os.path.dirname(src) + "-off")
        os.symlink(os.path.dirname(src), d)

ways = [write, update, rename, remove_first, lambda s, d: os.link(s, d), lambda s, d: os.symlink(s, d), exchange, unnamed, by_descriptor, directory, link_above]
taking = (exchange, directory, link_above)  # what they put in the place is the source itself; the others share one
made = 0
for top, files in json.load(open("files.json")):
    top = home if top == "home" else here
    for path, text in files.items():
        dst, shared = os.path.join(top, path), source(path, text)
        for way in ways if top == here else ways[:4]:
            attempt(os.makedirs, os.path.dirname(dst), 0o777, True)
            attempt(way, source(path, text) if way in taking else shared, dst)
        made += top == home and os.path.exists(dst)
subprocess.run(["git", "checkout", "-q", "planted", "--", "."], stderr=subprocess.DEVNULL,
               env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"})  # git obeys what was planted, here as well
print("MADE", made)
"""


class Planted:
    command = ["/usr/bin/python3", "plant.py"]

    def __init__(self, home, work, exists):
        self.home, self.work, self.ran = home, work, home / "ran"
        git("init", "-q", ".", cwd=work)
        git("commit", "-q", "--allow-empty", "-m", "x", cwd=work)
        git("checkout", "-q", "-b", "planted", cwd=work)
        self.fill(work, IN_PROJECT)
        git("add", "-A", cwd=work)
        git("commit", "-qm", "planted", cwd=work)
        git("checkout", "-q", "-", cwd=work)
        if exists:
            self.fill(home, dict.fromkeys(IN_HOME, "{}\n"))
            self.fill(work, dict.fromkeys(IN_PROJECT, "{}\n"))
        (work / "plant.py").write_text(PLANT)
        (work / "files.json").write_text(json.dumps([(where, {path: text_of(content, self.ran) for path, content in paths.items()})
                                                     for where, paths in (("home", IN_HOME), ("project", IN_PROJECT))]))
        self.before = self.digest()

    def fill(self, top, files):
        for path, content in files.items():
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).write_text(text_of(content, self.ran))

    def digest(self):
        return digest(self.home, leave=(self.home / ".local/state", self.work / ".git", self.work / "planted"))

    def check(self, said=None):
        """said: what the program printed, where the sandbox has a home of its own: there it made them all."""
        assert (self.work / "planted").is_dir(), "it ran, and may write"
        after = self.digest()
        assert after == self.before, {path for path in {*self.before, *after} if self.before.get(path) != after.get(path)}
        git("status", cwd=self.work)
        assert not self.ran.exists()
        assert said is None or f"MADE {len(IN_HOME)}" in said, said


# Content below the top of the project: texts, and what asks a person about each file.
BELOW = {path: content for path, content in IN_PROJECT.items() if path not in (".envrc", ".goosehints", ".github/copilot-instructions.md")}


def obeyed(top):
    """What an agent that is started in any directory below would find, through links too, and what it says."""
    found = {}
    for directory, _, _ in os.walk(top):
        for name in BELOW:
            path = os.path.join(directory, name)
            if os.path.isfile(path) and "/planted/" not in path:
                with open(path, encoding="utf-8", errors="replace") as file:
                    found[os.path.relpath(path, top)] = file.read()
    return found


class PlantedBelow:
    """The same in a subdirectory. What was there may be removed, but nothing is in its place then."""

    def __init__(self, work, place, exists):
        self.work, self.here, self.mine = work, work / place, {"mine\n"} if exists else set()
        self.here.mkdir(parents=True)
        for path in BELOW if exists else ():
            (self.here / path).parent.mkdir(parents=True, exist_ok=True)
            (self.here / path).write_text("mine\n")
        (self.here / "plant.py").write_text(f"import os\nos.chdir(os.path.dirname(os.path.abspath(__file__)))\n{PLANT}")
        (self.here / "files.json").write_text(json.dumps([("project", {path: text_of(content, "EVIL") for path, content in BELOW.items()})]))
        self.command = ["/usr/bin/python3", f"{place}/plant.py"]

    def check(self):
        assert (self.here / "planted").is_dir(), "it ran, and may write"
        found = obeyed(self.work)
        assert set(found.values()) <= self.mine, found


# Everything that can be read: files, variables, other processes, what is open. Secrets are given backwards, so that the search does not find itself.
SEARCH = r"""
import json, os, sys
wanted = [text.encode() for text in json.load(open("wanted.json"))]
found = set()
def look(where, data):
    back = data[::-1]
    for text in wanted:
        if text in back:
            found.add((where, text.decode()[:12]))
def look_file(path, limit=64 << 20):
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > limit: return
        with open(path, "rb") as f: look(path, f.read())
    except OSError: pass
looked = 0
for top in sys.argv[1:]:
    for directory, names, files in os.walk(top):
        if directory.startswith(("/proc", "/sys")): names[:] = []; continue
        for name in files:
            path = os.path.join(directory, name)
            if os.path.basename(path) != "wanted.json": look_file(path); looked += 1
look("environment", "\0".join(f"{k}={v}" for k, v in os.environ.items()).encode())
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline"):
        try: look(f"/proc/{pid}/{name}", open(f"/proc/{pid}/{name}", "rb").read())
        except OSError: pass
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            if os.path.isfile(f"/proc/{pid}/fd/{fd}"): look_file(f"/proc/{pid}/fd/{fd}")
    except OSError: pass
    if int(pid) == os.getpid(): continue
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as mem:
            for line in maps:
                span, mode = line.split()[:2]
                low, high = (int(x, 16) for x in span.split("-"))
                if "r" in mode and high - low < 64 << 20:
                    try: mem.seek(low); look(f"/proc/{pid}/mem", mem.read(high - low))
                    except OSError: pass
    except OSError: pass
print(json.dumps({"found": sorted(found), "looked": looked}))
"""
