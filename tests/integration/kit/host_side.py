# SPDX-License-Identifier: Apache-2.0
"""What people, editors and git do on the host to the files that a sandbox attacks meanwhile (kit/attack.py)."""
import os
import random
import shutil
import time

from kit.git import git

EXISTING = [".git/config", ".vscode/tasks.json", ".claude/settings.json", ".envrc"]


def save_as_editors_do(path, text):
    new = path.with_name(path.name + ".tmp-host")
    new.write_text(text)
    os.replace(new, path)


def remove_and_write(path, text):
    path.unlink(missing_ok=True)
    path.write_text(text)


def write_in_place(path, text):
    path.write_text(text)


def move_away_and_back(path, text):
    above = path.parent
    aside = above.with_name(above.name + ".host-aside")
    os.rename(above, aside)
    os.rename(aside, above)
    save_as_editors_do(path, text)


def new_directory(path, text):
    """As `git clone` over an old one, or an IDE that writes its settings anew."""
    above = path.parent
    fresh = above.with_name(above.name + ".host-new")
    shutil.copytree(above, fresh, symlinks=True)
    (fresh / path.name).write_text(text)
    old = above.with_name(above.name + ".host-old")
    os.rename(above, old)
    for _ in range(100):
        try:
            os.rename(fresh, above)
            break
        except OSError:  # somebody inside has made a directory of that name in between: it is the host's turn
            shutil.rmtree(above, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)  # somebody inside may still have been on the way into it


WAYS = [save_as_editors_do, remove_and_write, write_in_place, move_away_and_back, new_directory]


def host_repository(work):
    """A repository with protected files, of the host's own content."""
    git("init", "-q", ".", cwd=work, check=True)
    for name in (".vscode/tasks.json", ".claude/settings.json", ".envrc", "keep/this", "plain"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text("host\n")
    (work / "conf").mkdir()
    (work / ".idea").symlink_to("conf")
    return work


def evil(repo, names):
    """What of the attacker's is at these names: a text, a planted file, a mode, a link."""
    found = []
    for name in names:
        path = repo / name
        if path.is_file() and "EVIL" in path.read_text(errors="replace"):
            found.append(f"{name}: content")
        if path.is_file() and path.stat().st_mode & 0o777 == 0o777:
            found.append(f"{name}: mode")
        if name == ".vscode" and any(file.name == "planted" for file in path.glob("*")):
            found.append(f"{name}: planted")
    return found


def host_actions(repo):
    """Every action by the same names; each returns what must be true right after it."""
    def config(i):
        git("config", f"a.k{i % 7}", str(i), cwd=repo)

    def save(i):
        name = random.choice(EXISTING[1:])
        if (repo / name).parent.is_dir():
            save_as_editors_do(repo / name, f"host {i}\n")

    def recreate(i):
        name = random.choice(EXISTING[1:])
        if (repo / name).parent.is_dir():
            remove_and_write(repo / name, f"host {i}\n")

    def carry(i):
        for name in random.sample([".vscode", ".claude", ".git"], 2):
            aside = repo / f"{name}.host"
            if (repo / name).is_dir() and not aside.exists():
                os.rename(repo / name, aside)
                time.sleep(random.random() / 100)
                os.rename(aside, repo / name)

    def link(i):
        os.symlink("conf", repo / "host-link")
        os.replace(repo / "host-link", repo / ".idea")

    def anew(i):
        new_directory(repo / random.choice(EXISTING[1:3]), f"host {i}\n")

    def look(i):
        git("status", cwd=repo)

    return [config, save, recreate, carry, link, anew, look]
