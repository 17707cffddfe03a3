#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What is tried in the guest (tests/guest/run). Once as root in the root of the control groups, once as a user below a group that
is the user's own, as systemd arranges it."""
import contextlib
import errno
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

BAILEY = "/opt/bailey/src/cli/bailey"
GROUPS = pathlib.Path("/sys/fs/cgroup")
ESCAPE = "/opt/escape"
PACKAGES = sorted(pathlib.Path("/srv").glob("*.deb"))
PERSON = 1000
# With the mounts, the filter and the namespaces nearly alone: this kernel's Landlock is an old one.
ACTS = ("read_ssh_key", "create_in_home", "edit_git_config", "move_git_directory_away", "connect_to_host_unix_socket",
        "connect_to_agent_socket_in_home", "send_to_host_datagram_socket", "connect_to_host_abstract_socket", "connect_to_host_loopback",
        "new_user_namespace", "kernel_event_socket", "vsock", "truncate_in_home", "send_datagram_out")
TRY_ALL = r"""
import json, os, sys
sys.path.insert(0, sys.argv[1])
import act
answers = {}
for name in sys.argv[2:]:
    r, w = os.pipe()
    if os.fork() == 0:
        os.write(w, act.answer(name).encode())
        os._exit(0)
    os.close(w)
    answers[name] = os.read(r, 100).decode()
    os.close(r)
    os.wait()
print(json.dumps(answers))
"""
# Calls in their first form, where the processor has them: what globs refuse, and what works as ever. x is not there yet.
OLDER_CALLS = r"""
import errno, json, os, sys
sys.path.insert(0, sys.argv[1])
from acts_x86 import older
calls = {
    "refused": [("open", ".env", 0, 0), ("open", "sub/../.env", 2, 0), ("open", "sub/.env", 0o101, 0o600), ("open", "to-env", 0, 0),
                ("creat", ".env", 0o600), ("creat", "sub/.env", 0o600), ("creat", "Makefile", 0o600), ("rename", ".env", "x"),
                ("rename", "plain", ".env"), ("link", ".env", "x"), ("link", "plain", "sub/.env"), ("symlink", "plain", "sub/.env"),
                ("mkdir", "sub/.env", 0o755), ("mknod", "sub/.env", 0o10600, 0), ("unlink", ".env"), ("chmod", ".env", 0o666),
                ("unlink", "Makefile"), ("rmdir", "secret.d")],
    "done": [("open", "plain", 0, 0), ("open", "Makefile", 0, 0), ("creat", "made", 0o600), ("rename", "made", "x"), ("link", "x", "hard"),
             ("symlink", "x", "soft"), ("open", "soft", 1, 0), ("chmod", "hard", 0o640), ("mkdir", "d", 0o755), ("mknod", "d/fifo", 0o10600, 0),
             ("unlink", "d/fifo"), ("rmdir", "d"), ("unlink", "x"), ("unlink", "soft")],
}
wrong = []
for wanted, rows in calls.items():
    for name, *words in rows:
        try:
            fd, got = older(name, *words), "done"
            if name in ("open", "creat"):
                os.close(fd)
        except OSError as error:
            got = "refused" if error.errno == errno.EACCES else errno.errorcode[error.errno]
        if got != wanted:
            wrong.append((name, *words, got))
if os.stat("hard").st_mode & 0o777 != 0o640:
    wrong.append("the mode")
print(json.dumps(wrong))
"""
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def run(*words, limit=90, env=None, cwd=None):
    return subprocess.run([BAILEY, *map(str, words)], cwd=cwd or os.environ["WORK"], env={**os.environ, "BAILEY_HOME": "real", **(env or {})}, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit, check=False)


def groups():
    """Of sandboxes, wherever they are."""
    return [str(path) for path in GROUPS.glob("**/bailey-*") if path.is_dir()]


def wait_until(condition, what, limit=40):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def python(code, *words):
    return ["--", "/usr/bin/python3", "-BS", "-c", code, *words]


@test
def doctor_says_what_this_kernel_has():
    done = run("doctor", "--json")
    items = {item["name"]: item for item in json.loads(done.stdout)["items"]}
    assert items["cgroup-v2"]["state"] == "works", items["cgroup-v2"]
    assert items["landlock"]["state"] == "works" and "ABI 2" in json.dumps(items["landlock"]), items["landlock"]


@test
def doctor_proves_it():
    done = run("doctor", "--prove", limit=150)
    assert done.returncode == 0, done


@test
def plan_says_that_limits_hold_together():
    done = run("plan", "--", "true")
    memory = max(2 << 30, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    assert f"together: memory {memory} (cgroup v2)" in done.stdout and "together: processes 16384" in done.stdout, done
    done = run("plan", "--limit-memory", "3GiB", "--limit-processes", "77", "--", "true")
    assert f"together: memory {3 << 30} (cgroup v2)" in done.stdout and "together: processes 77" in done.stdout, done
    done = run("plan", "--limit-memory", "0", "--limit-processes", "0", "--", "true")
    assert "together: memory" not in done.stdout and "together: processes" not in done.stdout, done


@test
def memory_of_all_together_is_limited():
    """Four processes, each far below the limit."""
    code = """
import os, sys, time
for i in range(4):
    if os.fork() == 0:
        held = bytearray(40 << 20)
        time.sleep(2)
        os._exit(0)
print([os.waitpid(-1, 0)[1] for i in range(4)])
"""
    done = run("run", *python(code), env={"BAILEY_LIMIT_MEMORY": "100MiB"})
    assert "9" in done.stdout or done.returncode != 0, done  # one was ended for want of memory
    assert "limit of memory, 100 MiB" in done.stderr and "--limit-memory" in done.stderr, done
    done = run("run", *python(code), env={"BAILEY_LIMIT_MEMORY": "400MiB"})
    assert done.returncode == 0 and done.stdout == "[0, 0, 0, 0]\n", done


@test
def files_in_memory_count():
    done = run("run", "--", "dd", "if=/dev/zero", "of=/tmp/large", "bs=1M", "count=200", env={"BAILEY_LIMIT_MEMORY": "64MiB"})
    assert done.returncode != 0, done


@test
def processes_are_limited():
    code = """
import os, time
n = 0
try:
    while n < 400:
        if os.fork() == 0:
            time.sleep(100)
        n += 1
except OSError:
    pass
print(n)
"""
    done = run("run", *python(code), env={"BAILEY_LIMIT_PROCESSES": "100"})
    assert done.returncode == 0 and 20 < int(done.stdout) < 170, done


@test
def processors_are_shared():
    code = """
import time
begin, used = time.monotonic(), time.process_time()
while time.process_time() - used < 0.4:
    pass
print(time.monotonic() - begin)
"""
    done = run("run", *python(code), env={"BAILEY_LIMIT_CPU_PERCENT": "20"})
    assert done.returncode == 0 and float(done.stdout) > 1.2, done


@test
def nothing_is_left_at_the_end():
    code = "import os, time\nfor i in range(5):\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(7777)\nprint('end')"
    done = run("run", *python(code))
    assert done.stdout == "end\n", done
    assert not groups(), groups()


def alive(text):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text in path.read_bytes():
                found.append(path)
    return found


@test
def nothing_is_left_when_the_supervisor_is_killed():
    mark = "bailey-guest-mark"
    child = subprocess.Popen([BAILEY, "run", "--", "sh", "-c", f"touch started; sleep 7777; : {mark}"], cwd=os.environ["WORK"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started = pathlib.Path(os.environ["WORK"], "started")
    wait_until(started.exists, "it did not start")
    assert len(groups()) == 1, groups()
    child.send_signal(signal.SIGKILL)
    child.wait()
    wait_until(lambda: not alive(mark.encode()), "a process outlived the supervisor")
    if os.getuid() == 0:  # only the supervisor may remove groups from the topmost directory: the next one does
        run("run", "--", "true")
    wait_until(lambda: not groups(), f"left: {groups()}")
    started.unlink()


@test
def globs_are_judged():
    work = pathlib.Path(os.environ["WORK"])
    (work / "sub").mkdir()
    (work / "sub/.env").write_text("secret\n")
    (work / "sub/plain").write_text("plain\n")
    done = run("run", "--deny-read", "**/.env", "--", "sh", "-c", "cat sub/plain; cat sub/.env")
    assert done.stdout == "plain\n" and done.returncode != 0, done


@contextlib.contextmanager
def world():
    """A small one of what tests/integration/test_escape.py has."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory, contextlib.ExitStack() as open_now:
        home = pathlib.Path(directory)
        for name in ("work", "work/.git", "work/.git/hooks", ".ssh", "agent"):
            (home / name).mkdir()
        for name in ("work/.git/config", ".ssh/id_test", "notes", "doomed"):
            (home / name).write_text("secret\n")
        tcp = open_now.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = open_now.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.2", 0))
        name = f"bailey-guest-{os.getpid()}"
        for path, kind in ((str(home / "server.sock"), socket.SOCK_STREAM), (str(home / "agent/S.agent"), socket.SOCK_STREAM),
                           (str(home / "datagrams.sock"), socket.SOCK_DGRAM), ("\0" + name, socket.SOCK_STREAM)):
            server = open_now.enter_context(socket.socket(socket.AF_UNIX, kind))
            server.bind(path)
            if kind == socket.SOCK_STREAM:
                server.listen(8)
        yield dict(home=str(home), workspace=str(home / "work"), unix_socket=str(home / "server.sock"), unix_datagrams=str(home / "datagrams.sock"),
                   abstract_socket=name, tcp_port=tcp.getsockname()[1], address="127.0.0.1", datagrams=("192.0.2.1", 9))


@test
def acts_fail():
    sys.path.insert(0, ESCAPE)
    import act
    with world() as facts:
        env = {"HOME": facts["home"], "BAILEY_ACT_WORLD": json.dumps(facts)}
        done = run("run", "--quiet", "--env", "BAILEY_ACT_WORLD=" + env["BAILEY_ACT_WORLD"], *python(TRY_ALL, ESCAPE, *ACTS), env=env,
                   cwd=facts["workspace"])
        assert done.returncode == 0, done
        answers = json.loads(done.stdout)
    wrong = {name: answer for name, answer in answers.items() if answer not in act.ACTS[name].inside}
    assert len(answers) == len(ACTS) and not wrong, wrong


@test
def acts_of_this_processor_fail():
    """And succeed outside: this kernel has what they use, but for x32, which Debian's cloud kernels are built without."""
    sys.path.insert(0, ESCAPE)
    import act
    names = [name for name in act.ACTS if act.ACTS[name].__module__ == "acts_x86"]
    with world() as facts:
        env = {"HOME": facts["home"], "BAILEY_ACT_WORLD": json.dumps(facts)}
        done = run("run", "--quiet", "--env", "BAILEY_ACT_WORLD=" + env["BAILEY_ACT_WORLD"], *python(TRY_ALL, ESCAPE, *names), env=env,
                   cwd=facts["workspace"])
        assert done.returncode == 0, done
        inside = json.loads(done.stdout)
        done = subprocess.run(python(TRY_ALL, ESCAPE, *names)[1:], env={**os.environ, **env}, cwd=facts["workspace"], text=True, timeout=90,
                              stdout=subprocess.PIPE, check=True)
        outside = json.loads(done.stdout)
    wrong = {name: inside[name] for name in names if inside[name] not in act.ACTS[name].inside}
    no_x32 = outside.get("call_by_x32") == "ENOSYS"
    tried = [name for name in names if not (no_x32 and name.endswith("_by_x32"))]
    wrong.update({"outside " + name: outside[name] for name in tried if outside[name] != "done"})
    assert not wrong, wrong


@test
def older_calls_obey_globs():
    if os.uname().machine != "x86_64":
        return
    for extra in ([], ["--trace-denials"]):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
            work = pathlib.Path(directory)
            for name in (".env", "plain", "Makefile"):
                (work / name).write_text("text\n")
            for name in ("sub", "secret.d"):
                (work / name).mkdir()
            (work / "to-env").symlink_to(".env")
            done = run("run", *extra, "--deny-read", "**/.env", "--deny-write", "**/Makefile", "--deny-write", "**/secret.*",
                       *python(OLDER_CALLS, ESCAPE), cwd=work)
            assert done.stdout == "[]\n", done
            left = sorted(path.name for path in work.rglob("*"))
            assert left == [".env", "Makefile", "hard", "plain", "secret.d", "sub", "to-env"], left
            assert not extra or "**/.env" in done.stderr, done.stderr


def unit_tests():
    """Those that need the kernel itself; each says what it is in its name."""
    for name, command in json.loads(pathlib.Path("/opt/unit.json").read_text()).items():
        def function(command=command):
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200,
                                  check=False)
            assert done.returncode == 0, done.stdout[-1500:]
        function.__name__ = "unit " + name
        yield function


@test
def sockets_that_come_later_are_out_of_reach():
    code = """
import os, socket, sys, time
own = socket.socket(socket.AF_UNIX)
own.bind("own")
own.listen(1)
open("ready", "w").close()
while not os.path.exists("go"):
    time.sleep(0.05)
print([socket.socket(socket.AF_UNIX).connect_ex(p) for p in ("own", "late", sys.argv[1])])
"""
    work = pathlib.Path(os.environ["WORK"])
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory, contextlib.ExitStack() as open_now:
        outside = directory + "/late"
        child = subprocess.Popen([BAILEY, "run", "--quiet", *python(code, outside)], cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        wait_until((work / "ready").exists, "it did not start")
        for path in (str(work / "late"), outside):
            server = open_now.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(path)
            server.listen(8)
        (work / "go").touch()
        out = child.communicate(timeout=60)[0]
    assert out == f"[0, {errno.EACCES}, {errno.EACCES}]\n", out


def perform(who, tests):
    only = pathlib.Path("/opt/only").read_text()
    for function in (test for test in tests if only in test.__name__):
        begin = time.monotonic()
        try:
            with tempfile.TemporaryDirectory(prefix="work-", dir="/var/tmp") as work:
                os.environ["WORK"] = work
                function()
            print(f"ok {who} {function.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)
        except Exception as error:  # whatever it is, it is told
            text = str(error) or traceback.format_exc()
            print(f"not ok {who} {function.__name__}: {text!r}", flush=True)


def give_group_to_person():
    """/sys/fs/cgroup/person is the user's, the session is in a group below it."""
    (GROUPS / "cgroup.subtree_control").write_text("+memory +pids +cpu")
    session = GROUPS / "person/session"
    session.mkdir(parents=True)
    (GROUPS / "person/cgroup.subtree_control").write_text("+memory +pids +cpu")
    for place in (GROUPS / "person", session):
        for file in (place, place / "cgroup.procs", place / "cgroup.subtree_control"):
            os.chown(file, PERSON, PERSON)
    (session / "cgroup.procs").write_text("0")


def as_person():
    give_group_to_person()
    os.setgroups([])
    os.setgid(PERSON)
    os.setuid(PERSON)
    os.environ.update(HOME="/home/person", USER="person", LOGNAME="person")
    perform("user:", [*TESTS, *unit_tests()])


def without_a_group():
    """A user whose session's group belongs to root: rlimits alone, and everything else as ever."""
    os.setgroups([])
    os.setgid(PERSON)
    os.setuid(PERSON)
    os.environ.update(HOME="/home/person", USER="person", LOGNAME="person", WORK="/home/person")
    done = run("plan", "--", "true")
    done = done if "together" in done.stdout else run("run", "--", "true")
    ok = done.returncode == 0 and "together" not in done.stdout
    print("ok" if ok else "not ok", "user without a group: limits of each process" + ("" if ok else f": {done!r}"), flush=True)


class StandIn:
    """In place of systemd's user manager, which the guest does not have: one connection, one call. It is this process, which is root
    and may make groups; the listener is made as the user, as whom it therefore appears."""

    def __init__(self, way):
        self.way, self.call, self.heard = way, {}, b""
        self.directory = tempfile.mkdtemp()
        os.makedirs(f"{self.directory}/systemd")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f"{self.directory}/systemd/private")
        for path in ("", "/systemd", "/systemd/private"):
            os.chown(self.directory + path, PERSON, PERSON)
        os.seteuid(PERSON)
        self.listener.listen()
        os.seteuid(0)
        self.listener.settimeout(60)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        connection, _ = self.listener.accept()
        connection.settimeout(60)
        with connection, contextlib.suppress(OSError):
            self.auth = self.until(connection, b"\r\n")
            if self.way == "silent":
                connection.recv(1)
                return
            connection.sendall(b"OK 0123456789abcdef0123456789abcdef\r\n")
            assert self.until(connection, b"BEGIN\r\n") == b"BEGIN\r\n"
            head = self.exactly(connection, 16)
            body, serial, fields = struct.unpack("<III", head[4:])
            message = head + self.exactly(connection, (fields + 7) // 8 * 8 + body)
            self.call = self.read(message, len(message) - body)
            if self.way == "garbage":
                connection.sendall(b"l\2" + b"\377" * 5000)
            elif self.way == "error":
                name = b"org.freedesktop.systemd1.UnitExists"
                fields = struct.pack("<B3sI", 5, b"\1u", serial) + struct.pack("<B3sI", 4, b"\1s", len(name)) + name + b"\0"
                connection.sendall(struct.pack("<4B3I", 108, 3, 1, 1, 0, 7, len(fields)) + fields + b"\0" * (-len(fields) % 8))
            else:
                connection.sendall(struct.pack("<4B3I", 108, 2, 1, 1, 0, 7, 8) + struct.pack("<B3sI", 5, b"\1u", serial))
                self.move()
            connection.recv(1)

    def until(self, connection, end):
        while not self.heard.endswith(end):
            self.heard += self.some(connection, 1)
        line, self.heard = self.heard, b""
        return line

    def exactly(self, connection, n):
        got = b""
        while len(got) < n:
            got += self.some(connection, n - len(got))
        return got

    @staticmethod
    def some(connection, n):
        got = connection.recv(n)
        if not got:
            raise OSError("closed")
        return got

    @staticmethod
    def read(message, at):
        """ssa(sv)a(sa(sv)), with what a variant has in such a call."""
        def aligned(n):
            nonlocal at
            at = (at + n - 1) // n * n

        def number(form):
            nonlocal at
            aligned(struct.calcsize(form))
            at += struct.calcsize(form)
            return struct.unpack_from(form, message, at - struct.calcsize(form))[0]

        def text(length):
            nonlocal at
            at += length + 1
            assert message[at - 1] == 0
            return message[at - 1 - length:at - 1].decode()

        call = {"name": text(number("<I")), "mode": text(number("<I")), "properties": {}}
        length = number("<I")
        aligned(8)
        end = at + length
        while at < end:
            aligned(8)
            name = text(number("<I"))
            kind = text(number("<B"))
            read = {"s": lambda: text(number("<I")), "b": lambda: bool(number("<I")), "t": lambda: number("<Q"),
                    "au": lambda: [number("<I") for _ in range(number("<I") // 4)]}
            call["properties"][name] = read[kind]()
        assert at == end and number("<I") == 0
        return call

    def move(self):
        properties = self.call["properties"]
        group = GROUPS / "manager" / self.call["name"]
        group.mkdir(parents=True)
        (group / "memory.max").write_text(str(properties["MemoryMax"]))
        (group / "pids.max").write_text(str(properties["TasksMax"]))
        if "CPUQuotaPerSecUSec" in properties and self.way != "no-cpu":
            (group / "cpu.max").write_text(f"{properties['CPUQuotaPerSecUSec'] // 10} 100000")
        for file in (group, group / "cgroup.procs", group / "cgroup.kill"):
            os.chown(file, PERSON, PERSON)
        (group / "cgroup.procs").write_text(str(properties["PIDs"][0]))

    def run(self, *words, env=None):
        become = f"import os, sys; os.setgroups([]); os.setgid({PERSON}); os.setuid({PERSON}); os.execv(sys.argv[1], sys.argv[1:])"
        words = ["/usr/bin/python3", "-BS", "-c", become, BAILEY, *words]
        environment = {**os.environ, "HOME": "/home/person", "USER": "person", "XDG_RUNTIME_DIR": self.directory, "BAILEY_HOME": "real",
                       **(env or {})}
        return subprocess.run(words, cwd="/home/person", env=environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=90, check=False)


def scope_is_asked_for():
    """A session whose group is root's, and a manager of the user's."""
    (GROUPS / "manager").mkdir()
    (GROUPS / "cgroup.subtree_control").write_text("+memory +pids +cpu")
    (GROUPS / "manager/cgroup.subtree_control").write_text("+memory +pids +cpu")
    limits = {"BAILEY_LIMIT_MEMORY": "100MiB", "BAILEY_LIMIT_PROCESSES": "100", "BAILEY_LIMIT_CPU_PERCENT": "150"}
    manager = StandIn("good")
    done = manager.run("plan", "--", "true", env=limits)
    assert "together: memory 104857600 (systemd scope, asked for at launch)" in done.stdout, done
    done = manager.run("run", "--", "true")
    assert done.returncode == 0 and not manager.call, (done, manager.call)  # what holds by default is not worth it
    eat = "import os\nfor i in range(4):\n    if os.fork() == 0:\n        held = bytearray(40 << 20); __import__('time').sleep(2); os._exit(0)\n"
    done = manager.run("run", *python(eat + "print(open('/proc/self/cgroup').read(), [os.waitpid(-1, 0)[1] for i in range(4)])"), env=limits)
    assert "9" in done.stdout.split("[")[-1] or done.returncode != 0, (done, manager.call)
    call = manager.call
    assert manager.auth == b"\0AUTH EXTERNAL 31303030\r\n", manager.auth
    assert call["name"].startswith("bailey-") and call["name"].endswith(".scope") and call["mode"] == "fail", call
    pids = call["properties"].pop("PIDs")
    assert len(pids) == 1 and call["properties"] == {
        "Delegate": True, "Description": "Bailey sandbox", "CollectMode": "inactive-or-failed", "TasksMax": 164, "MemoryMax": 104857600,
        "MemorySwapMax": 0, "CPUQuotaPerSecUSec": 1500000}, call
    assert "not all limits" not in done.stderr, done
    (GROUPS / "manager" / call["name"]).rmdir()  # nothing lives in it
    manager = StandIn("good")
    done = manager.run("doctor", "--json")
    item = next(item for item in json.loads(done.stdout)["items"] if item["name"] == "cgroup-v2")
    assert item["state"] == "works" and "systemd scope" in item["detail"], item
    wait_until(lambda: not (GROUPS / "manager" / manager.call["name"] / "cgroup.procs").read_text(), "the prober is left")
    (GROUPS / "manager" / manager.call["name"]).rmdir()


def scope_that_is_not_given_changes_nothing():
    for way, why in (("silent", "did not answer"), ("garbage", "malformed"), ("error", "UnitExists"), ("no-cpu", "the share of processors")):
        manager = StandIn(way)
        done = manager.run("run", "--", "echo", "done", env={"BAILEY_LIMIT_MEMORY": "100MiB", "BAILEY_LIMIT_CPU_PERCENT": "50"})
        assert done.returncode == 0 and done.stdout == "done\n" and "not all limits hold" in done.stderr and why in done.stderr, (way, done)
    manager = StandIn("error")
    item = next(item for item in json.loads(manager.run("doctor", "--json").stdout)["items"] if item["name"] == "cgroup-v2")
    assert item["state"] == "blocked" and item["cause"] == "no-scope" and "UnitExists" in item["detail"], item
    for left in (GROUPS / "manager").glob("bailey-*"):
        left.rmdir()


def all_files():
    ignored = ("/proc/", "/sys/", "/dev/", "/tmp/", "/run/", "/var/lib/dpkg/", "/root/", "/home/", "/var/tmp/")
    return {os.path.join(directory, name) for top in ("/usr", "/etc", "/var", "/opt", "/srv") for directory, _, names in os.walk(top) for name in names
            if not os.path.join(directory, name).startswith(ignored)}


def dpkg(*words):
    done = subprocess.run(["/usr/bin/busybox", "dpkg", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stdout


def packages_are_installed():
    """By busybox's dpkg, which runs their scripts. The libraries are there without their packages: dependencies are not looked at."""
    dpkg("-F", "depends", "-i", *map(str, PACKAGES))
    assert subprocess.run([BAILEY, "--version"], stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout.startswith("bailey ")


def packages_leave_nothing(before):
    dpkg("-P", *(package.name.split("_")[0] for package in PACKAGES))
    left = sorted(all_files() - before)
    assert not left and not os.path.exists(BAILEY), left


def main():
    os.environ.pop("BAILEY_SANDBOX", None)
    before = all_files()
    if PACKAGES:
        perform("root:", [packages_are_installed])
    perform("root:", [doctor_says_what_this_kernel_has, doctor_proves_it, processes_are_limited, nothing_is_left_at_the_end,
                      nothing_is_left_when_the_supervisor_is_killed, acts_fail, acts_of_this_processor_fail, older_calls_obey_globs, *unit_tests()])
    perform("scope:", [scope_is_asked_for, scope_that_is_not_given_changes_nothing])
    for part in (without_a_group, as_person):
        pid = os.fork()
        if pid == 0:
            try:
                part()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
    if PACKAGES:
        def packages_are_purged():
            packages_leave_nothing(before)
        perform("root:", [packages_are_purged])


if __name__ == "__main__":
    main()
