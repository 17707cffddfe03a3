# SPDX-License-Identifier: Apache-2.0
"""A client of the control protocol (docs/control.md): one connection to one sandbox or gateway of this user that runs.

    for sandbox in bailey.sandboxes():
        with bailey.Control(sandbox) as control:
            for question in control.pending():
                control.answer(question["id"], "allow")
"""
import json
import os
import socket
import stat
import threading

_LINE_MAX = 1 << 20
_LOOK_S = 0.03


class ControlError(Exception):
    """What the other side said: code for programs, the text for people."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def _is_own_directory(path):
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def control_directory():
    """Where the sockets are; the rules are bailey's own."""
    session, user = os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{os.geteuid()}"
    if session.startswith("/") and _is_own_directory(session if os.path.lexists(session) else os.path.dirname(session)):
        return os.path.join(session, "bailey")
    return os.path.join(user, "bailey") if _is_own_directory(user) else f"/tmp/bailey-{os.geteuid()}"


def sandboxes():
    """The ids of the sandboxes and gateways of this user that run."""
    try:
        return sorted(name[:-5] for name in os.listdir(control_directory()) if name.endswith(".sock"))
    except OSError:
        return []


class Control:
    """One thread at a time. Use another connection for events() than for requests."""

    def __init__(self, sandbox, timeout=10.0):
        self.id, self._number = sandbox, 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.settimeout(timeout)
            self._socket.connect(os.path.join(control_directory(), f"{sandbox}.sock"))
            self._lines = self._socket.makefile("rb")
            self.request("hello", version=1, client="python")
        except BaseException:
            self._socket.close()
            raise

    def _read(self):
        line = self._lines.readline(_LINE_MAX + 1)
        if not line.endswith(b"\n"):
            raise ControlError("ended", "the sandbox has ended")
        return json.loads(line)

    def request(self, what, **fields):
        """Any request of the protocol; the reply, or a ControlError."""
        self._number += 1
        self._socket.sendall(json.dumps({"id": self._number, "do": what, **fields}).encode() + b"\n")
        while True:
            reply = self._read()
            if "event" not in reply:
                break
        if not reply["ok"]:
            raise ControlError(reply["error"]["code"], reply["error"]["text"])
        return reply

    def status(self):
        return self.request("status")

    def pending(self):
        return self.request("pending")["questions"]

    def rules(self):
        return self.request("rules")["rules"]

    def answer(self, question, answer, scope="once"):
        return self.request("answer", question=question, answer=answer, scope=scope)

    def allow(self, pattern, scope="sandbox"):
        return self.request("allow", pattern=pattern, scope=scope)

    def deny(self, pattern, scope="sandbox"):
        return self.request("deny", pattern=pattern, scope=scope)

    def forget(self, pattern):
        return self.request("forget", pattern=pattern)

    def reload(self):
        return self.request("reload")

    def pause(self):
        return self.request("pause")

    def resume(self):
        return self.request("resume")

    def kill(self):
        return self.request("kill")

    def events(self):
        """What happens from now on, until the sandbox ends; each a dict with "event"."""
        self.request("subscribe")
        self._socket.settimeout(None)
        try:
            while True:
                yield self._read()
        except (ControlError, OSError, ValueError):
            return

    def close(self):
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other side was first
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _is_child(pid):
    """Whether this process started it: then the sandbox is of a manager here."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1]) == os.getpid()
    except (OSError, ValueError):
        return False


class Watch:
    """Tells function(event) what happens in the sandboxes and gateways that this program starts, until stop(). Each event has the id of its
    sandbox. It is called by threads of the watch; an exception in it is dropped."""

    def __init__(self, function):
        self._function, self._ended, self._lock, self._controls = function, threading.Event(), threading.Lock(), {}
        self._threads = [threading.Thread(target=self._look, daemon=True)]
        self._threads[0].start()

    def _look(self):
        strangers = set()
        while not self._ended.wait(_LOOK_S):
            there = set(sandboxes())
            for sandbox in there - strangers:
                strangers.add(sandbox)
                self._try(sandbox)
            strangers &= there

    def _try(self, sandbox):
        try:
            control = Control(sandbox)
            own = _is_child(control.status()["pid"])
        except (OSError, ControlError, ValueError):
            return
        with self._lock:
            if not own or self._ended.is_set():
                control.close()
                return
            self._controls[sandbox] = control
            self._threads.append(threading.Thread(target=self._follow, args=(control,), daemon=True))
            self._threads[-1].start()

    def _follow(self, control):
        for event in control.events():
            try:
                self._function({"sandbox": control.id, **event})
            except Exception:  # a watcher stops nothing
                pass
        with self._lock:
            self._controls.pop(control.id, None)
        control.close()

    def stop(self):
        self._ended.set()
        with self._lock:
            threads = list(self._threads)
            for control in self._controls.values():
                control.close()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
