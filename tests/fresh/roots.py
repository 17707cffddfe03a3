# SPDX-License-Identifier: Apache-2.0
"""Bare roots: Debian's smallest system in a directory, entered with its own mounts. They share this machine's kernel and network, and nothing else."""
import os
import pathlib
import re
import shutil
import subprocess

TOP = pathlib.Path(__file__).resolve().parents[2]
PLACE = TOP / "build-fresh"
STEP_S = 2700  # ends what hangs; two minutes are enough on two idle cores, but the stage runs behind all others
NEWCOMER = "newcomer"
HERE = "bookworm"
# Mounts of its own, and a root that is one: in a mere chroot the kernel permits no user namespaces.
ENTER = """
set -e
mount --bind "$ROOT" "$ROOT"
cd "$ROOT"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs -o mode=755 run run
mount -t tmpfs -o mode=1777 tmp tmp
mount --bind "$ARCHIVES" var/cache/apt/archives
mkdir -p run/old
pivot_root . run/old
umount -l /run/old
cd /
exec "$@"
"""


class Failed(Exception):
    """A step did not do what the README promises, and why."""


def debian_sources():
    """Where this machine gets Debian from: the files of apt that name its suite."""
    places = [pathlib.Path("/etc/apt/sources.list"), *sorted(pathlib.Path("/etc/apt/sources.list.d").glob("*"))]
    return [place for place in places if place.suffix in (".list", ".sources") and place.exists() and HERE in place.read_text()]


def sources_for(suite):
    """The same places, for another suite."""
    made = []
    for source in debian_sources():
        copy = PLACE / f"{suite}-{source.name}"
        copy.write_text(source.read_text().replace(HERE, suite))
        made.append(str(copy))
    return made


def make_bare(suite=HERE):
    """The smallest Debian of this suite, with git and make, as the README asks for. Made once in a checkout."""
    bare = PLACE / f"bare-{suite}"
    if bare.exists():
        return bare
    new = PLACE / f"bare-{suite}.new"
    shutil.rmtree(new, ignore_errors=True)
    (PLACE / f"archives-{suite}").mkdir(parents=True, exist_ok=True)
    settings = subprocess.run(["apt-config", "dump"], check=True, text=True, stdout=subprocess.PIPE).stdout
    (PLACE / "apt.conf").write_text("".join(f"{line}\n" for line in settings.splitlines() if re.match(r"Acquire::(https?|Retries|Check)", line)))
    # In a namespace of its own: its mounts are nobody else's to see, or to copy.
    command = ["unshare", "--mount", "--propagation", "private", "mmdebstrap", "--variant=minbase", "--include=git,make,ca-certificates",
               f"--aptopt={PLACE}/apt.conf", suite, str(new), *sources_for(suite)]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=STEP_S, check=False)
    if done.returncode:
        raise Failed(f"mmdebstrap: {done.stdout[-2000:]}")
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", new / "etc" / name)
    (new / "etc/dpkg/dpkg.cfg.d/quick").write_text("force-unsafe-io\n")  # the disk's cache is enough for a root of an hour
    new.rename(bare)
    return bare


class Machine:
    """A root that nothing was installed in, with a clone of the project."""

    def __init__(self, bare, name, share=True):
        """`share`: what apt fetches is left for others. Otherwise it has what they left until now: apt lets one at a time use that."""
        self.root, self.project = PLACE / name, "/"
        self.archives = PLACE / bare.name.replace("bare-", "archives-")
        if not share:
            own = self.archives.with_name(f"{self.archives.name}-{name}")
            shutil.rmtree(own, ignore_errors=True)
            shutil.copytree(self.archives, own, copy_function=os.link, ignore=shutil.ignore_patterns("lock", "partial"))
            self.archives = own
        shutil.rmtree(self.root, ignore_errors=True)
        subprocess.run(["cp", "-a", "--reflink=auto", str(bare), str(self.root)], check=True)
        subprocess.run(["chroot", str(self.root), "useradd", "--create-home", "--shell", "/bin/bash", NEWCOMER], check=True)

    def clone(self, home, owner):
        """What is committed, and what is about to be. The object store is copied: `git describe` and `ls-files` work there."""
        self.project = f"{home}/bailey"
        project = self.root / self.project.lstrip("/")
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(TOP), str(project)], check=True)
        subprocess.run(["git", "-C", str(project), "remote", "remove", "origin"], check=True)
        changed = subprocess.run(["git", "ls-files", "-mo", "--exclude-standard"], cwd=TOP, check=True, text=True, stdout=subprocess.PIPE).stdout
        for path in changed.splitlines():
            if (TOP / path).exists():
                (project / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(TOP / path, project / path)
        subprocess.run(["chroot", str(self.root), "chown", "-R", f"{owner}:", self.project], check=True)

    def run(self, command, user="root", timeout=STEP_S):
        """A line for the shell, in the project's directory, with the environment of somebody who has just logged in."""
        home = "/root" if user == "root" else f"/home/{user}"
        words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user != "root" else []
        inside = ["env", "-i", f"HOME={home}", f"USER={user}", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                  "LANG=C.UTF-8", "TERM=dumb", *words, "bash", "-c", f"cd {self.project} && {command}"]
        try:
            done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "sh", "-c", ENTER, "enter", *inside],
                                  env={"ROOT": str(self.root), "ARCHIVES": str(self.archives), "PATH": os.environ["PATH"]}, text=True, errors="replace",
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as late:
            said = (late.stdout or b"").decode(errors="replace")
            raise Failed(f"`{command}` as {user} had not ended after {timeout} s:\n{said[-3000:]}") from late
        return done.returncode, done.stdout

    def must(self, command, user="root", expect=None, timeout=STEP_S):
        status, output = self.run(command, user, timeout)
        if status or (expect and not re.search(expect, output, re.M)):
            raise Failed(f"`{command}` as {user} ended with {status}{f', without {expect!r}' if expect and not status else ''}:\n{output[-3000:]}")
        return output

    def obey(self, command, expect=None):
        """As somebody who may not install anything: is told what to run as root, does so, and tries again. Once for a command."""
        status, output = self.run(command, NEWCOMER)
        told = re.findall(r"^ +(sudo apt-get .*)$", output, re.M)
        if status and told:
            for line in told:
                self.must(line.replace("sudo ", ""))
            return self.must(command, NEWCOMER, expect)
        if status or (expect and not re.search(expect, output, re.M)):
            raise Failed(f"`{command}` as {NEWCOMER} ended with {status}:\n{output[-3000:]}")
        return output
