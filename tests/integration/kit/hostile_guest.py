# SPDX-License-Identifier: Apache-2.0
"""What a hostile guest does: to its own home, and to whatever is not its own. Without the programs that would do it: the tests'
machine has no crontab, at, sendmail or setfacl."""
import dataclasses
import json
import pathlib
import subprocess

# In its home, the worst: what the host's programs will meet there.
HOSTILE = r"""
umask 077
mkdir -p closed/deeper; echo secret > closed/deeper/file; chmod 000 closed/deeper/file closed/deeper closed
cp /bin/true set-id; chmod 6755 set-id 2>/dev/null
ln -s / root; ln -s /etc/passwd passwd; ln -s ../../../../../.. up; ln -s loop loop
printf x > "$(printf 'new\nline')"; printf x > "$(printf '\033[31m\377')"; printf x > ' -rf *'
mkfifo fifo; python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind("sock")'
mknod device c 1 3 2>/dev/null
ln set-id second-name
python3 - <<'END'
import os
for name in ("system.posix_acl_access", "system.posix_acl_default"):
    try:
        os.removexattr(".", name)
    except OSError:
        pass  # there is none
for i in range(600):
    os.mkdir("d"); os.chdir("d")
END
chmod 0000 .
echo worst
"""

# One line for each act: what, on what, and "refused" or what it brought.
ACTS = r"""
import ctypes, json, os, socket, stat, subprocess, sys
targets = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)

def tried(what, on, act):
    try:
        brought = act()
    except (OSError, subprocess.SubprocessError):
        brought = None
    print(json.dumps([what, on, "refused" if brought is None else str(brought)]), flush=True)

def called(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "call")
    return result

def written(path):
    if not os.path.isdir(os.path.dirname(path)):
        os.mkdir(os.path.dirname(path))
    with open(path, "w") as file:
        file.write("* * * * * root true\n")
    return "written"

def peeked(pid):
    own = ctypes.create_string_buffer(8)
    class Part(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
    start = int(open(f"/proc/{pid}/maps").readline().split("-")[0], 16)
    return called(libc.process_vm_readv(pid, ctypes.byref(Part(ctypes.addressof(own), 8)), 1, ctypes.byref(Part(start, 8)), 1, 0))

def traced(pid, request):
    ctypes.set_errno(0)
    result = called(libc.ptrace(request, pid, 0, 0))
    if request == 16:
        os.waitpid(pid, 0x40000000)
    libc.ptrace(17, pid, 0, 0)
    return result

def made(path, kind):
    os.mknod(path, kind | 0o666, os.makedev(1, 3))
    return "made"

def became(call, number):
    if number in (os.getuid(), os.getgid()):
        return None
    child = os.fork()
    if child == 0:
        try:
            call(number)
            os._exit(0)
        except OSError:
            os._exit(1)
    return "became" if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 else None

for path in targets["files"]:
    tried("read", path, lambda: open(path, "rb").read(40))
    tried("append", path, lambda: os.close(os.open(path, os.O_WRONLY | os.O_APPEND)) or "opened")
for path in targets["directories"]:
    tried("list", path, lambda: os.listdir(path))
    tried("enter", path, lambda: os.chdir(path) or "entered")
for pid in targets["processes"]:
    tried("signal", pid, lambda: os.kill(pid, 0) or "signalled")
    tried("see", pid, lambda: os.stat(f"/proc/{pid}").st_uid)
    tried("hold", pid, lambda: os.close(os.pidfd_open(pid)) or "held")
    tried("attach", pid, lambda: traced(pid, 16))
    tried("seize", pid, lambda: traced(pid, 0x4206))
    tried("peek", pid, lambda: peeked(pid))
    tried("memory", pid, lambda: os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR)) or "opened")
for mark in targets["marks"]:
    def found(mark=mark.encode()):
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and int(entry) != os.getpid() and mark in open(f"/proc/{entry}/cmdline", "rb").read().split(b"\0"):
                    return entry
            except OSError:
                pass
    tried("find", mark, found)
for path in targets["writes"]:
    tried("write", path, lambda: written(path))
for number in targets["identities"]:
    tried("user", number, lambda: became(lambda n: os.setresuid(n, n, n), number))
    tried("group", number, lambda: became(lambda n: os.setresgid(n, n, n), number))
    tried("groups", number, lambda: became(lambda n: os.setgroups([n]), number))
for directory in targets["devices"]:
    tried("device", directory, lambda: made(directory + "/char-device", stat.S_IFCHR))
    tried("disk", directory, lambda: made(directory + "/block-device", stat.S_IFBLK))
for words in targets["programs"]:
    tried("program", words[0], lambda: subprocess.run(words, input=b"x\n", capture_output=True, check=True, timeout=60).returncode)
"""

# Where services of the system look for what they do for a user.
SPOOLS = ("/var/spool/cron/crontabs", "/var/spool/cron", "/var/spool/cron/atjobs", "/var/spool/at", "/var/mail", "/var/spool/mail",
          "/var/lib/systemd/linger", "/etc/cron.d", "/etc/systemd/system")
# Some may be missing on a machine; then that is all they do.
PROGRAMS = (("su", "-c", "true"), ("sudo", "-n", "true"), ("crontab", "-"), ("at", "now"), ("sendmail", "root"))


@dataclasses.dataclass
class Targets:
    files: list = dataclasses.field(default_factory=list)
    directories: list = dataclasses.field(default_factory=list)
    processes: list = dataclasses.field(default_factory=list)
    marks: list = dataclasses.field(default_factory=list)
    writes: list = dataclasses.field(default_factory=lambda: [f"{spool}/bailey-test" for spool in SPOOLS])
    identities: list = dataclasses.field(default_factory=list)
    devices: list = dataclasses.field(default_factory=list)
    programs: list = dataclasses.field(default_factory=lambda: list(PROGRAMS))

    def command(self):
        return ["/usr/bin/python3", "-c", ACTS, json.dumps(dataclasses.asdict(self), default=str)]

    def count(self):
        """How many acts there are, so that one which was left out is noticed."""
        each = {"files": 2, "directories": 2, "processes": 7, "identities": 3, "devices": 2}
        return sum(len(getattr(self, field.name)) * each.get(field.name, 1) for field in dataclasses.fields(self))

    def brought(self, text):
        """What each act brought that was not refused."""
        acts = [json.loads(line) for line in text.splitlines()]
        assert len(acts) == self.count(), text
        return {(what, on): brought for what, on, brought in acts if brought != "refused"}


def from_outside(targets):
    """What the same acts bring to whoever runs the tests: they are able to do it, where there is no guest around them."""
    harmless = dataclasses.replace(targets, writes=[], identities=[], devices=[], programs=[])
    done = subprocess.run(harmless.command(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done
    return harmless.brought(done.stdout)


def pid_of(mark):
    """The process of this machine that has the word on its command line."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes().split(b"\0")[1:2]:
                return int(entry.name)
        except OSError:
            pass
    return 0
