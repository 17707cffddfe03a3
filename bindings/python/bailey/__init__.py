# SPDX-License-Identifier: Apache-2.0
"""Run untrusted commands in a sandbox: libbailey for Python, on ctypes.

    import bailey

    config = bailey.Config("default")
    config.set("network.allow", "api.example.com")
    config.on_approval(lambda question: bailey.DENY)
    with bailey.Manager(config) as manager:
        result = manager.exec("make test", timeout=60)
        print(result.exit_code, result.stdout.decode())

    proxy = bailey.start_network_proxy(["api.example.com", "@github"])
    subprocess.run(command, env={**os.environ, **proxy.env})
    proxy.stop()

Settings have the names of bailey-policy(5). Failures are exceptions, one class for each error code, below bailey.Error.
A Manager may be used by several threads; the interpreter is free while a command runs. The header <bailey/bailey.h> says
what each call means.
"""
import ctypes
import ctypes.util
import json
import os
import sys
import threading
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_uint16, c_uint64, c_void_p

from .control import Control, ControlError, Watch, control_directory, sandboxes

DENY, APPROVE, APPROVE_SESSION = 0, 1, 2
STRICT, WARN = 0, 1
ALLOW, SANDBOXED, ESCALATED, FORBIDDEN = "allow", "sandboxed", "escalated", "forbidden"


class _Error(ctypes.Structure):
    _fields_ = [("code", c_int), ("message", c_char * 1024), ("rule", c_char * 128), ("reason", c_char * 256),
                ("segment", c_char * 512)]


class _Question(ctypes.Structure):
    _fields_ = [("command", c_char_p), ("segment", c_char_p), ("rule", c_char_p), ("reason", c_char_p)]


class _Verdict(ctypes.Structure):
    _fields_ = [("decision", c_int), ("rule", c_char * 128), ("reason", c_char * 256), ("segment", c_char * 512),
                ("detail", c_char * 256)]


class _Violation(ctypes.Structure):
    _fields_ = [("operation", c_char_p), ("target", c_char_p), ("rule", c_char_p), ("detail", c_char_p), ("count", c_uint64), ("process", c_char_p)]


class _Command(ctypes.Structure):
    _fields_ = [("path", c_char_p), ("argv", POINTER(c_char_p)), ("envp", POINTER(c_char_p)), ("memory", c_void_p)]


class _FilterRules(ctypes.Structure):
    _fields_ = [("allow", POINTER(c_char_p)), ("deny", POINTER(c_char_p))]


class _FilterVerdict(ctypes.Structure):
    _fields_ = [("allowed", c_int), ("reason", c_char * 32), ("rule", c_char * 512), ("detail", c_char * 256)]


class _Addresses(ctypes.Structure):
    _fields_ = [("http", c_char_p), ("socks", c_char_p)]


class _Proxy(ctypes.Structure):
    _fields_ = [("http_port", c_uint16), ("socks_port", c_uint16), ("address", c_char_p), ("tmpdir", c_char_p)]


class _Dependency(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("found", c_int), ("detail", c_char * 1024)]


_DEPENDENCIES = 3
_APPROVAL = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(_Question))
_REQUEST = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_uint16)
_CLASSIFIER = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, POINTER(_Verdict))
_DECISIONS = (ALLOW, SANDBOXED, ESCALATED, FORBIDDEN)


class Error(Exception):
    """What went wrong: code, name, and for commands that are not run the rule, its reason and the segment."""
    code = 0

    def __init__(self, raw):
        super().__init__(_text(raw.message))
        self.code = raw.code
        self.name = _text(_lib.bailey_error_name(raw.code))
        self.rule, self.reason, self.segment = _text(raw.rule), _text(raw.reason), _text(raw.segment)


class ArgumentError(Error): "The call itself is wrong."
class ConfigError(Error): "The config is invalid; the message says which setting, and what is accepted."
class PlatformError(Error): "This machine cannot make the sandbox."
class DependencyError(Error): "The bailey executable, its gateway or the shell is missing."
class ForbiddenCommand(Error): "The classifier forbids the command."
class EscalatedCommand(Error): "The command needs an approval: nobody to ask, or the answer was no."
class ManagerClosed(Error): "The manager is closed."
class ProxyError(Error): "A gateway could not start."
class Timeout(Error):
    """The time limit was reached, and the sandbox was killed. `result` has what the command wrote until then."""
    result = None


class Cancelled(Error): "The call was cancelled, and the sandbox was killed."
class SystemFailure(Error): "A system call or a part of Bailey failed."


_CLASSES = {-2: ArgumentError, -3: ConfigError, -4: PlatformError, -5: DependencyError, -6: ForbiddenCommand,
            -7: EscalatedCommand, -8: ManagerClosed, -9: ProxyError, -10: Timeout, -11: Cancelled, -12: SystemFailure}


def _text(raw):
    return (raw or b"").decode("utf-8", "replace")


def _bytes(value):
    """Text for the library. C would end it at a NUL: half of a policy, of a command or of a host is not what was meant."""
    if isinstance(value, bool):
        value = "true" if value else "false"
    if not isinstance(value, (str, bytes, int, float, os.PathLike)):
        raise _wrong(f"a text is wanted here, not {type(value).__name__}")
    text = value if isinstance(value, bytes) else os.fsencode(str(value) if isinstance(value, (int, float)) else value)
    if b"\0" in text:
        raise _wrong("a text with a NUL byte in it")
    return text


def _wrong(message):
    return ArgumentError(_Error(code=-2, message=message.encode("utf-8", "replace")[:1000]))


def _function(function):
    if not callable(function):
        raise _wrong(f"a function is wanted here, not {type(function).__name__}")
    return function


def _number(value, what, most=1 << 53):
    """ctypes would cut a number that is too large, and take one below zero for a large one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(f"{value!r} is not {what}")
    if not 0 <= value <= most:  # it may have more digits than Python prints
        raise _wrong(f"{what} is from 0 to {most}")
    return value


def _whole(value, what, most=1 << 53):
    if not isinstance(value, int):
        raise _wrong(f"{value!r} is not {what}")
    return _number(value, what, most)


def _list(values):
    """A NULL-terminated array of C strings."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise _wrong("a list of texts is wanted here, not one text")
    values = [_bytes(value) for value in values]
    return (c_char_p * (len(values) + 1))(*values, None)


_LIBRARY = "libbailey.0.dylib" if sys.platform == "darwin" else "libbailey.so.0"


def _installed_library():
    """The library of the same installation: this is PREFIX/lib/pythonX.Y/...-packages/bailey/. The loader does not look below every PREFIX."""
    lib = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../.."))
    for directory in (lib, os.path.join(lib, getattr(sys.implementation, "_multiarch", ""))):
        if os.path.exists(os.path.join(directory, _LIBRARY)):
            return os.path.join(directory, _LIBRARY)
    return None


def _load():
    """BAILEY_LIBRARY, or that of the installation, or the library of the system."""
    lib = ctypes.CDLL(os.environ.get("BAILEY_LIBRARY") or _installed_library() or ctypes.util.find_library("bailey") or _LIBRARY)
    handle, error = c_void_p, POINTER(_Error)
    results = {"bailey_error_name": c_char_p, "bailey_version": c_char_p, "bailey_decision_name": c_char_p,
               "bailey_result_stdout": c_void_p, "bailey_result_stderr": c_void_p, "bailey_result_notice": c_char_p,
               "bailey_result_duration_ns": c_uint64, "bailey_result_violations": c_size_t,
               "bailey_result_violation": POINTER(_Violation), "bailey_gateway_address": c_char_p,
               "bailey_gateway_http_port": c_uint16, "bailey_gateway_socks_port": c_uint16,
               "bailey_rows_size": c_size_t, "bailey_rows_get": c_char_p, "bailey_guest_stop": c_int}
    arguments = {
        "bailey_error_name": [c_int], "bailey_decision_name": [c_int],
        "bailey_config_new": [c_char_p, POINTER(handle), error], "bailey_config_free": [handle],
        "bailey_config_set": [handle, c_char_p, c_char_p, error], "bailey_config_policy": [handle, c_char_p, error],
        "bailey_config_policy_file": [handle, c_char_p, error], "bailey_config_copy": [handle, POINTER(handle), error],
        "bailey_capabilities": [handle, POINTER(handle), error],
        "bailey_check_dependencies": [handle, POINTER(_Dependency), error],
        "bailey_options_on_approval": [handle, _APPROVAL, c_void_p, error],
        "bailey_config_unavailable": [handle, c_int, error], "bailey_config_shell": [handle, c_char_p, error],
        "bailey_config_output_limit": [handle, c_uint64, error], "bailey_config_executable": [handle, c_char_p, error],
        "bailey_config_hosts_file": [handle, c_char_p, error], "bailey_config_validate": [handle, error],
        "bailey_config_on_approval": [handle, _APPROVAL, c_void_p, error],
        "bailey_config_on_request": [handle, _REQUEST, c_void_p, error],
        "bailey_config_classifier": [handle, _CLASSIFIER, c_void_p, error],
        "bailey_options_classifier": [handle, _CLASSIFIER, c_void_p, error],
        "bailey_manager_new": [handle, POINTER(handle), error], "bailey_manager_free": [handle],
        "bailey_manager_update": [handle, handle, error], "bailey_manager_available": [handle, error],
        "bailey_manager_cleanup": [handle, error],
        "bailey_manager_exec": [handle, c_char_p, handle, POINTER(handle), error],
        "bailey_manager_exec_args": [handle, POINTER(c_char_p), handle, POINTER(handle), error],
        "bailey_manager_check": [handle, c_char_p, POINTER(_Verdict), error],
        "bailey_manager_check_args": [handle, POINTER(c_char_p), POINTER(_Verdict), error],
        "bailey_manager_wrap": [handle, POINTER(_Command), handle, error], "bailey_command_done": [POINTER(_Command)],
        "bailey_options_new": [POINTER(handle), error], "bailey_options_free": [handle],
        "bailey_options_set": [handle, c_char_p, c_char_p, error], "bailey_options_directory": [handle, c_char_p, error],
        "bailey_options_timeout": [handle, c_uint64, error], "bailey_options_shell": [handle, c_char_p, error],
        "bailey_options_output_limit": [handle, c_uint64, error], "bailey_options_input": [handle, c_int, error],
        "bailey_options_classify": [handle, c_int, error], "bailey_options_cancel": [handle, handle, error],
        "bailey_cancel_new": [POINTER(handle), error], "bailey_cancel_trigger": [handle], "bailey_cancel_free": [handle],
        "bailey_result_stdout": [handle, POINTER(c_size_t)], "bailey_result_stderr": [handle, POINTER(c_size_t)],
        "bailey_result_violation": [handle, c_size_t],
        "bailey_filter_new": [POINTER(_FilterRules), _REQUEST, c_void_p, POINTER(handle), error],
        "bailey_filter_update": [handle, POINTER(_FilterRules), error], "bailey_filter_free": [handle],
        "bailey_filter_test": [handle, c_char_p, c_uint16, POINTER(_FilterVerdict)],
        "bailey_pattern_validate": [c_char_p, error],
        "bailey_proxy_environment": [POINTER(_Proxy), POINTER(POINTER(c_char_p)), error],
        "bailey_proxy_environment_free": [POINTER(c_char_p)],
        "bailey_guests_new": [c_char_p, POINTER(handle), error], "bailey_guests_free": [handle],
        "bailey_guests_list": [handle, POINTER(handle), error], "bailey_guests_recipes": [handle, POINTER(handle), error],
        "bailey_guest_publish": [handle, c_char_p, c_uint16, c_uint16, error], "bailey_guest_unpublish": [handle, c_char_p, c_uint16, error],
        "bailey_guest_grant": [handle, c_char_p, c_char_p, c_int, error],
        "bailey_guest_copy_in": [handle, c_char_p, c_char_p, c_char_p, error], "bailey_guest_copy_out": [handle, c_char_p, c_char_p, c_char_p, error],
        "bailey_guest_exec": [handle, c_char_p, POINTER(c_char_p), handle, POINTER(handle), error],
        "bailey_guest_job": [handle, c_char_p, POINTER(c_char_p), handle, POINTER(c_uint64), error],
        "bailey_guest_log": [handle, c_char_p, c_uint64, handle, POINTER(handle), error],
        "bailey_rows_size": [handle], "bailey_rows_get": [handle, c_size_t, c_char_p], "bailey_rows_free": [handle],
        "bailey_gateway_start": [handle, POINTER(_Addresses), POINTER(handle), error], "bailey_gateway_stop": [handle],
    }
    for name in ("start", "stop", "delete", "fix", "archive", "unarchive"):
        arguments["bailey_guest_" + name] = [handle, c_char_p, error]
    for name in ("rename", "revoke", "snapshot", "snapshot_remove", "restore"):
        arguments["bailey_guest_" + name] = [handle, c_char_p, c_char_p, error]
    for name in ("create", "set", "provision"):
        arguments["bailey_guest_" + name] = [handle, c_char_p, POINTER(c_char_p), error]
    for name in ("jobs", "settings", "steps", "ports", "grants", "snapshots"):
        arguments["bailey_guest_" + name] = [handle, c_char_p, POINTER(handle), error]
    for name in ("exit_code", "signal", "truncated", "duration_ns", "sandboxed", "notice", "violations", "free"):
        arguments["bailey_result_" + name] = [handle]
    for name in ("http_port", "socks_port", "address", "running"):
        arguments["bailey_gateway_" + name] = [handle]
    for name in set(arguments) | set(results):
        function = getattr(lib, name)
        function.argtypes = arguments.get(name, [])
        function.restype = results.get(name, None if name.endswith(("_free", "_done", "_stop", "_trigger")) else c_int)
    return lib


_lib = _load()


_held = threading.local()


def _enter(function, *arguments):
    """Calls C. Nothing may pass through it: Ctrl-C and sys.exit() in a callback of this thread wait for its end."""
    outer, _held.raised = getattr(_held, "raised", None), []
    try:
        value, raised = function(*arguments), _held.raised
    finally:
        _held.raised = outer
    if raised:
        raise raised[0]
    return value


def _hold(error):
    """In a thread of the library's own, nobody waits for it."""
    if not isinstance(error, Exception) and getattr(_held, "raised", None) is not None:
        _held.raised.append(error)


def _call(name, *arguments):
    """The call with an error behind its arguments; an exception when it fails."""
    raw = _Error()
    code = _enter(getattr(_lib, name), *arguments, byref(raw))
    if code == -1:
        raise MemoryError(name)
    if code < 0:
        raise _CLASSES.get(code, Error)(raw)
    return code


def version():
    return _text(_lib.bailey_version())


def validate_pattern(pattern):
    """Raises ConfigError when it is no host pattern."""
    _call("bailey_pattern_validate", _bytes(pattern))


def proxy_environment(http_port=0, socks_port=0, address=None, tmpdir=None):
    """What a program's environment must hold so that it uses a gateway."""
    proxy = _Proxy(_whole(http_port, "a port", 65535), _whole(socks_port, "a port", 65535), address and _bytes(address), tmpdir and _bytes(tmpdir))
    block = POINTER(c_char_p)()
    _call("bailey_proxy_environment", byref(proxy), byref(block))
    environment, i = {}, 0
    while block[i]:
        name, _, value = os.fsdecode(block[i]).partition("=")
        environment[name] = value
        i += 1
    _lib.bailey_proxy_environment_free(block)
    return environment


class Question:
    """An escalated command that somebody decides about."""

    def __init__(self, raw):
        self.command, self.segment = _text(raw.command), _text(raw.segment)
        self.rule, self.reason = _text(raw.rule), _text(raw.reason)


class Dependency:
    """name, found, and where it is or what is wrong (detail)."""

    def __init__(self, raw):
        self.name, self.found, self.detail = _text(raw.name), bool(raw.found), _text(raw.detail)

    def __repr__(self):
        return f"Dependency(name={self.name!r}, found={self.found}, detail={self.detail!r})"


class Config:
    """A builder; a manager has its own copy."""

    def __init__(self, preset="default", **settings):
        self._handle = c_void_p()
        self._kept = []  # callbacks live as long as whoever may call them
        _call("bailey_config_new", _bytes(preset), byref(self._handle))
        for key, value in settings.items():
            getattr(self, key)(value)

    def __del__(self):
        if _lib and self._handle:
            _lib.bailey_config_free(self._handle)

    def set(self, key, *values):
        """Any setting of bailey-policy(5); a list takes several values."""
        for value in values:
            _call("bailey_config_set", self._handle, _bytes(key), _bytes(value))
        return self

    def workspace(self, directory):
        return self.set("workspace", directory)

    def policy(self, text):
        """The text of a policy, YAML or JSON."""
        _call("bailey_config_policy", self._handle, _bytes(text))
        return self

    def policy_file(self, path):
        """The same, from a file, which is read now."""
        _call("bailey_config_policy_file", self._handle, _bytes(path))
        return self

    def copy(self):
        """Another config with the same settings; what is set on one does not change the other."""
        other = Config.__new__(Config)
        other._handle, other._kept = c_void_p(), list(self._kept)
        _call("bailey_config_copy", self._handle, byref(other._handle))
        return other

    def check_dependencies(self):
        """What must be there, each with what was found: a list of Dependency, also where one is missing."""
        table = (_Dependency * _DEPENDENCIES)()
        _lib.bailey_check_dependencies(self._handle, table, byref(_Error()))
        return [Dependency(raw) for raw in table]

    def unavailable(self, what):
        _call("bailey_config_unavailable", self._handle, what)
        return self

    def shell(self, path):
        _call("bailey_config_shell", self._handle, _bytes(path))
        return self

    def output_limit(self, n):
        _call("bailey_config_output_limit", self._handle, _whole(n, "a number of bytes"))
        return self

    def executable(self, path):
        _call("bailey_config_executable", self._handle, _bytes(path))
        return self

    def hosts_file(self, path):
        _call("bailey_config_hosts_file", self._handle, _bytes(path))
        return self

    def on_approval(self, function):
        """function(Question) gives DENY, APPROVE or APPROVE_SESSION. An exception in it is a no. What is no Exception (KeyboardInterrupt,
        SystemExit) is a no, too, and raised by the call that asked; so it is in the other callbacks."""
        self._kept.append(_approval(function))
        _call("bailey_config_on_approval", self._handle, self._kept[-1], None)
        return self

    def on_request(self, function):
        """function(host, port) gives True to allow. An exception in it is a no."""
        self._kept.append(_request(function))
        _call("bailey_config_on_request", self._handle, self._kept[-1], None)
        return self

    def classifier(self, function):
        """function(command, Verdict) gives the decision that counts, (decision, reason), or None for the one of the Verdict. Nothing lifts
        FORBIDDEN, and an exception in it forbids."""
        self._kept.append(_classifier(function))
        _call("bailey_config_classifier", self._handle, self._kept[-1], None)
        return self

    def validate(self):
        _call("bailey_config_validate", self._handle)


def _approval(function):
    _function(function)

    def call(_, question):
        try:
            return int(function(Question(question.contents)))
        except BaseException as error:  # nothing may pass through C, not even Ctrl-C; and whoever cannot say yes says no
            _hold(error)
            return DENY
    return _APPROVAL(call)


def _request(function):
    _function(function)

    def call(_, host, port):
        try:
            return 1 if function(_text(host), port) else 0
        except BaseException as error:  # as above
            _hold(error)
            return 0
    return _REQUEST(call)


def _classifier(function):
    _function(function)

    def call(_, command, raw):
        verdict = raw.contents
        try:
            said = function(_text(command), Verdict(verdict))
            if said is not None:
                decision, reason = said if isinstance(said, tuple) else (said, "the program decided")
                verdict.rule, verdict.reason = b"program", _bytes(reason)[:255]
                verdict.decision = _DECISIONS.index(decision)
        except BaseException as error:  # as above
            _hold(error)
            verdict.decision, verdict.rule, verdict.reason = _DECISIONS.index(FORBIDDEN), b"program", b"the program's classifier failed"
    return _CLASSIFIER(call)


class Cancel:
    """Ends calls from outside: manager.exec(..., cancel=c), and c.trigger() from another thread."""

    def __init__(self):
        self._handle = c_void_p()
        _call("bailey_cancel_new", byref(self._handle))

    def trigger(self):
        _lib.bailey_cancel_trigger(self._handle)

    def __del__(self):
        if _lib and self._handle:
            _lib.bailey_cancel_free(self._handle)


class Violation:
    """Something that the policy refused while the command ran."""

    def __init__(self, raw):
        self.operation, self.target = _text(raw.operation), _text(raw.target)
        self.rule, self.detail, self.count = _text(raw.rule), _text(raw.detail), raw.count
        self.process = _text(raw.process)  # "name[pid]", "" where it is not known

    def __repr__(self):
        return f"<{self.operation} {self.target}: {self.detail}>"


class Result:
    """What came of a command. stdout and stderr are bytes."""

    def __init__(self, handle):
        n = c_size_t()
        self.exit_code, self.signal = _lib.bailey_result_exit_code(handle), _lib.bailey_result_signal(handle)
        self.stdout = ctypes.string_at(_lib.bailey_result_stdout(handle, byref(n)), n.value)
        self.stderr = ctypes.string_at(_lib.bailey_result_stderr(handle, byref(n)), n.value)
        self.truncated, self.sandboxed = bool(_lib.bailey_result_truncated(handle)), bool(_lib.bailey_result_sandboxed(handle))
        self.duration = _lib.bailey_result_duration_ns(handle) / 1e9
        self.notice = _text(_lib.bailey_result_notice(handle))
        self.violations = [Violation(_lib.bailey_result_violation(handle, i).contents)
                           for i in range(_lib.bailey_result_violations(handle))]
        _lib.bailey_result_free(handle)


class Verdict:
    """What the classifier says: decision is "allow", "sandboxed", "escalated" or "forbidden"."""

    def __init__(self, raw):
        self.decision = _text(_lib.bailey_decision_name(raw.decision))
        self.rule, self.reason, self.segment, self.detail = map(_text, (raw.rule, raw.reason, raw.segment, raw.detail))

    def __repr__(self):
        return f"Verdict(decision={self.decision!r}, rule={self.rule!r}, reason={self.reason!r}, segment={self.segment!r})"


class _Options:
    def __init__(self, settings, directory, timeout, shell, output_limit, stdin, classify, cancel, on_approval=None, classifier=None):
        self._handle = c_void_p()
        self._cancel, self._approval = cancel, _approval(on_approval) if on_approval else None
        self._classifier = _classifier(classifier) if classifier else None
        _call("bailey_options_new", byref(self._handle))
        if not isinstance(settings or {}, dict):
            raise _wrong("settings are a dictionary")
        for key, values in (settings or {}).items():
            for value in values if isinstance(values, (list, tuple)) else [values]:
                _call("bailey_options_set", self._handle, _bytes(key), _bytes(value))
        if directory is not None:
            _call("bailey_options_directory", self._handle, _bytes(directory))
        if timeout is not None:
            seconds = _number(timeout, "a number of seconds", 1 << 40)
            _call("bailey_options_timeout", self._handle, max(1, int(seconds * 1000)) if seconds else 0)  # 0: none, as in C
        if shell is not None:
            _call("bailey_options_shell", self._handle, _bytes(shell))
        if output_limit is not None:
            _call("bailey_options_output_limit", self._handle, _whole(output_limit, "a number of bytes"))
        if stdin is not None:
            if not isinstance(stdin, int) and not hasattr(stdin, "fileno"):
                raise _wrong("stdin is a descriptor or an open file")
            _call("bailey_options_input", self._handle, _whole(stdin if isinstance(stdin, int) else stdin.fileno(), "a descriptor", (1 << 31) - 1))
        if not classify:
            _call("bailey_options_classify", self._handle, 0)
        if cancel is not None:
            if not isinstance(cancel, Cancel):
                raise _wrong("cancel is a Cancel")
            _call("bailey_options_cancel", self._handle, cancel._handle)
        if self._approval is not None:
            _call("bailey_options_on_approval", self._handle, self._approval, None)
        if self._classifier is not None:
            _call("bailey_options_classifier", self._handle, self._classifier, None)

    def __del__(self):
        if _lib and self._handle:
            _lib.bailey_options_free(self._handle)


class _Owned:
    """What has threads and processes behind it. They belong to the process that made it: a forked child has none of them, and must not end them."""
    _raw, _pid = None, 0

    def _make(self):
        self._raw, self._pid = c_void_p(), os.getpid()
        return byref(self._raw)

    @property
    def _is_own(self):
        return bool(self._raw) and self._pid == os.getpid()

    @property
    def _handle(self):
        if self._raw and self._pid != os.getpid():
            raise ManagerClosed(_Error(code=-8, message=b"it belongs to the process that made it, not to this child of it"))
        return self._raw


class Manager(_Owned):
    """Runs commands in sandboxes. Thread-safe; close() or the end of a with block kills what still runs. It is of no use in a forked child."""

    def __init__(self, config):
        if not isinstance(config, Config):
            raise _wrong("a manager is made from a Config")
        self._kept = [config._kept]
        _call("bailey_manager_new", config._handle, self._make())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.close()
        except ManagerClosed:
            pass

    def __del__(self):
        if _lib and self._is_own:
            _lib.bailey_manager_free(self._raw)

    def exec(self, command, *, settings=None, directory=None, timeout=None, shell=None, output_limit=None, stdin=None,
             classify=True, cancel=None, on_approval=None, classifier=None):
        """Runs text through the shell. `settings`: {"filesystem.write": [...], "mode": ...} for this call; on_approval as in Config."""
        options = _Options(settings, directory, timeout, shell, output_limit, stdin, classify, cancel, on_approval, classifier)
        return self._run("bailey_manager_exec", _bytes(command), options)

    def _run(self, function, command, options):
        handle = c_void_p()
        try:
            _call(function, self._handle, command, options._handle, byref(handle))
        except Timeout as timeout:
            timeout.result = Result(handle) if handle else None
            raise
        except BaseException:
            if handle:
                _lib.bailey_result_free(handle)  # a callback raised, and the command ended nevertheless
            raise
        return Result(handle)

    def exec_args(self, argv, *, settings=None, directory=None, timeout=None, output_limit=None, stdin=None, classify=True,
                  cancel=None, on_approval=None, classifier=None):
        """Runs a program without a shell."""
        options = _Options(settings, directory, timeout, None, output_limit, stdin, classify, cancel, on_approval, classifier)
        return self._run("bailey_manager_exec_args", _list(argv), options)

    def wrap(self, argv, env=None, *, settings=None, directory=None, timeout=None, classify=True):
        """(argv, env) for subprocess.Popen: the same command in a sandbox, started by the caller."""
        options = _Options(settings, directory, timeout, None, None, None, classify, None)
        words = _list(argv)
        if len(words) < 2:
            raise _wrong("a command has at least one word")
        environment = _list(f"{name}={value}" for name, value in (os.environ if env is None else env).items())
        command = _Command(_bytes(argv[0]), words, environment, None)
        _call("bailey_manager_wrap", self._handle, byref(command), options._handle)
        wrapped = _strings(command.argv)
        wrapped[0] = os.fsdecode(command.path)
        variables = dict(text.split("=", 1) for text in _strings(command.envp))
        _lib.bailey_command_done(byref(command))
        return wrapped, variables

    def check(self, command):
        raw = _Verdict()
        if isinstance(command, (list, tuple)):
            _call("bailey_manager_check_args", self._handle, _list(command), byref(raw))
        else:
            _call("bailey_manager_check", self._handle, _bytes(command), byref(raw))
        return Verdict(raw)

    def update(self, config):
        _call("bailey_manager_update", self._handle, config._handle)
        self._kept.append(config._kept)

    @property
    def available(self):
        return self._is_own and bool(_lib.bailey_manager_available(self._raw, None))

    def close(self):
        _call("bailey_manager_cleanup", self._handle)

    def watch(self, function):
        """Tells function(event) what happens in the sandboxes of this program, while it happens: see Watch."""
        return Watch(function)

    def gateway(self, http=None, socks=None):
        """Starts an HTTP and a SOCKS5 proxy that judge by this manager's policy. "" for no such listener."""
        return Gateway(self, http, socks)


def _strings(array):
    texts, i = [], 0
    while array[i] is not None:
        texts.append(os.fsdecode(array[i]))
        i += 1
    return texts


class Gateway(_Owned):
    """A proxy of a manager. stop() may be called by any thread, and twice."""

    def __init__(self, manager, http, socks):
        self._manager, self._lock = manager, threading.Lock()
        at = _Addresses(None if http is None else _bytes(http), None if socks is None else _bytes(socks))
        _call("bailey_gateway_start", manager._handle, byref(at), self._make())
        self.http_port = _lib.bailey_gateway_http_port(self._raw)
        self.socks_port = _lib.bailey_gateway_socks_port(self._raw)

    @property
    def port(self):
        """The HTTP proxy's."""
        return self.http_port

    @property
    def env(self):
        """Variables that make a program use it."""
        return proxy_environment(self.http_port, self.socks_port, self.address or None)

    @property
    def address(self):
        if not self._is_own:
            return ""
        with self._lock:
            return _text(_lib.bailey_gateway_address(self._raw)) if self._raw else ""

    @property
    def running(self):
        if not self._is_own:
            return False
        with self._lock:
            return bool(self._raw and _lib.bailey_gateway_running(self._raw))

    def stop(self):
        """Ends it within 5 seconds."""
        self._end()

    def _end(self):
        """Whether this call ended it."""
        if not self._is_own:
            return False
        with self._lock:
            handle, self._raw = self._raw, None
        if handle:
            _lib.bailey_gateway_stop(handle)
        return bool(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def __del__(self):
        if _lib:
            self.stop()


class Filter:
    """The domain filter by itself."""

    def __init__(self, allow=(), deny=(), on_request=None):
        self._handle = c_void_p()
        self._kept = _request(on_request) if on_request else _REQUEST()
        rules = _FilterRules(_list(allow), _list(deny))
        _call("bailey_filter_new", byref(rules), self._kept, None, byref(self._handle))

    def update(self, allow=(), deny=()):
        """Replaces all rules at once; on error the old ones stay."""
        rules = _FilterRules(_list(allow), _list(deny))
        _call("bailey_filter_update", self._handle, byref(rules))

    def test(self, host, port):
        """(allowed, reason, rule)"""
        raw = _FilterVerdict()
        allowed = _enter(_lib.bailey_filter_test, self._handle, _bytes(host), _port(port), byref(raw))
        return bool(allowed), _text(raw.reason), _text(raw.rule)

    def __del__(self):
        if _lib and getattr(self, "_handle", None):
            _lib.bailey_filter_free(self._handle)


_GUEST_FIELDS = ("name", "id", "kind", "state", "reason", "uid", "gid", "home", "sandbox", "idle_seconds", "disk.limit", "disk.used", "disk.files", "disk.state",
                 "made", "changed", "used")
_JOB_FIELDS = ("number", "state", "status", "command", "started", "ended")
_NUMBERS = ("uid", "gid", "idle_seconds", "number", "status", "disk.limit", "disk.used", "disk.files", "outside", "inside", "bytes")


def _rows(handle, fields):
    """One dictionary for each row; a field that is null is None."""
    rows = []
    for i in range(_lib.bailey_rows_size(handle)):
        texts = {field: _lib.bailey_rows_get(handle, i, _bytes(field)) for field in fields}
        rows.append({field: None if text is None else int(text) if field in _NUMBERS else _text(text) for field, text in texts.items()})
    _lib.bailey_rows_free(handle)
    return rows


class Guests:
    """Named sandboxes that last (docs/guests.md). They belong to the user: what this program makes is there for the next one.

    guests = bailey.Guests()
    guests.create("agent", "--allow=github.com")
    print(guests.exec("agent", ["git", "--version"]).stdout.decode())
    job = guests.job("agent", ["./long-job"])
    """

    def __init__(self, executable=None):
        self._handle = c_void_p()
        _call("bailey_guests_new", executable and _bytes(executable), byref(self._handle))

    def __del__(self):
        if _lib and getattr(self, "_handle", None):
            _lib.bailey_guests_free(self._handle)

    def create(self, name, *options):
        """Options are words of `bailey guest create`."""
        _call("bailey_guest_create", self._handle, _bytes(name), _list(options))

    def set(self, name, *options):
        """Changes what it was made with. Options are words of `bailey guest set`: set("agent", "--disk=20G", "--limit-memory=4G")."""
        _call("bailey_guest_set", self._handle, _bytes(name), _list(options))

    def rename(self, name, new_name):
        _call("bailey_guest_rename", self._handle, _bytes(name), _bytes(new_name))

    def fix(self, name):
        """Opens to the user what the guest closed, and mends what is broken."""
        _call("bailey_guest_fix", self._handle, _bytes(name))

    def start(self, name):
        """exec() and job() do so by themselves."""
        _call("bailey_guest_start", self._handle, _bytes(name))

    def stop(self, name):
        _call("bailey_guest_stop", self._handle, _bytes(name))

    def delete(self, name):
        """Ends it if it runs; its home, jobs and snapshots go with it."""
        _call("bailey_guest_delete", self._handle, _bytes(name))

    def list(self):
        """All guests, as dictionaries: name, id, kind, state, reason, uid, gid, home, sandbox, idle_seconds, made, changed, used, and
        of the disk (create(..., "--disk=10G")) disk.limit, disk.used, disk.files (None before it was measured), disk.state."""
        handle = c_void_p()
        _call("bailey_guests_list", self._handle, byref(handle))
        return _rows(handle, _GUEST_FIELDS)

    def exec(self, name, argv, *, directory=None, env=None, timeout=None, output_limit=None, stdin=None, cancel=None):
        """Runs a program in the guest to its end, without a shell: a Result."""
        options, handle = _Options(_variables(env), directory, timeout, None, output_limit, stdin, True, cancel), c_void_p()
        try:
            _call("bailey_guest_exec", self._handle, _bytes(name), _list(argv), options._handle, byref(handle))
        except Timeout as over:
            over.result = Result(handle) if handle else None
            raise
        return Result(handle)

    def job(self, name, argv, *, directory=None, env=None):
        """Starts a job, which goes on when this program ends: its number."""
        options, number = _Options(_variables(env), directory, None, None, None, None, True, None), c_uint64()
        _call("bailey_guest_job", self._handle, _bytes(name), _list(argv), options._handle, byref(number))
        return number.value

    def jobs(self, name):
        """Jobs of a guest, also those that ended: number, state, status, command, started, ended."""
        return self._rows_of("jobs", name, _JOB_FIELDS)

    def log(self, name, job, *, output_limit=None):
        """What a job wrote so far, as bytes."""
        options, handle = _Options(None, None, None, None, output_limit, None, True, None), c_void_p()
        _call("bailey_guest_log", self._handle, _bytes(name), _whole(job, "the number of a job"), options._handle, byref(handle))
        return Result(handle).stdout

    def settings(self, name):
        """Options of the policy that are kept with it: option, value."""
        return self._rows_of("settings", name, ("option", "value"))

    def steps(self, name):
        """What happened to it last: at, step, state, note."""
        return self._rows_of("steps", name, ("at", "step", "state", "note"))

    def publish(self, name, outside, inside):
        """Offers a port of the guest on 127.0.0.1: at once if it runs, and at every start."""
        _call("bailey_guest_publish", self._handle, _bytes(name), _port(outside), _port(inside))

    def unpublish(self, name, outside):
        _call("bailey_guest_unpublish", self._handle, _bytes(name), _port(outside))

    def ports(self, name):
        """Ports that it offers: publish, outside, inside, state."""
        return self._rows_of("ports", name, ("publish", "outside", "inside", "state"))

    def grant(self, name, path, *, writable=False):
        """Gives it a directory of this machine, from its next start on."""
        _call("bailey_guest_grant", self._handle, _bytes(name), _bytes(path), bool(writable))

    def revoke(self, name, path):
        _call("bailey_guest_revoke", self._handle, _bytes(name), _bytes(path))

    def grants(self, name):
        """What it was given: path, access ("ro" or "rw")."""
        return self._rows_of("grants", name, ("path", "access"))

    def copy_in(self, name, source, target):
        """Copies a file or directory of this machine to a path in its home. No link is followed, and nothing is replaced."""
        _call("bailey_guest_copy_in", self._handle, _bytes(name), _bytes(source), _bytes(target))

    def copy_out(self, name, source, target):
        """Copies a path in its home to this machine."""
        _call("bailey_guest_copy_out", self._handle, _bytes(name), _bytes(source), _bytes(target))

    def snapshot(self, name, label=None):
        """Keeps a copy of its home; without a label that is the time."""
        _call("bailey_guest_snapshot", self._handle, _bytes(name), None if label is None else _bytes(label))

    def snapshots(self, name):
        """Copies of its home: label, at, bytes."""
        return self._rows_of("snapshots", name, ("label", "at", "bytes"))

    def restore(self, name, label):
        """Puts its home back to what the copy has; it must not run."""
        _call("bailey_guest_restore", self._handle, _bytes(name), _bytes(label))

    def snapshot_remove(self, name, label):
        _call("bailey_guest_snapshot_remove", self._handle, _bytes(name), _bytes(label))

    def archive(self, name):
        """Packs its home away, until unarchive()."""
        _call("bailey_guest_archive", self._handle, _bytes(name))

    def unarchive(self, name):
        _call("bailey_guest_unarchive", self._handle, _bytes(name))

    def provision(self, name, *recipes):
        """Does what recipes say (names or paths); without one, those that it has had."""
        _call("bailey_guest_provision", self._handle, _bytes(name), _list(recipes))

    def recipes(self):
        """Recipes that can be done to guests: name, title."""
        handle = c_void_p()
        _call("bailey_guests_recipes", self._handle, byref(handle))
        return _rows(handle, ("name", "title"))

    def _rows_of(self, what, name, fields):
        handle = c_void_p()
        _call("bailey_guest_" + what, self._handle, _bytes(name), byref(handle))
        return _rows(handle, fields)


def _variables(env):
    return {"process.env.set": [f"{name}={value}" for name, value in env.items()]} if env else None


def _port(number):
    """ctypes would cut a number that is too large."""
    if not isinstance(number, int) or not 0 < number < 65536:
        raise _wrong("a port is a number from 1 to 65535")
    return number


class NetworkProxy(Gateway):
    """A gateway with a manager of its own, which ends with it."""

    def __init__(self, config):
        super().__init__(Manager(config), None, None)

    def update(self, config):
        """Other rules, at once."""
        self._manager.update(config)

    def stop(self):
        if self._end():
            self._manager.__exit__()


def start_network_proxy(whitelist, on_request=None):
    """A proxy on loopback that lets through these hosts and nothing else: .port, .env, .stop()."""
    if isinstance(whitelist, (str, bytes)) or not hasattr(whitelist, "__iter__"):
        raise _wrong("the whitelist is a list of patterns, not one text")
    config = Config("default").set("network.allow", *whitelist)
    return NetworkProxy(config.on_request(on_request) if on_request is not None else config)


def capabilities(config=None):
    """What this machine can do: the object of `bailey doctor --json`, within a minute."""
    handle = c_void_p()
    _call("bailey_capabilities", config._handle if config else None, byref(handle))
    return json.loads(Result(handle).stdout)


__all__ = ["ALLOW", "APPROVE", "APPROVE_SESSION", "ArgumentError", "Cancel", "Cancelled", "Config", "ConfigError", "Control", "ControlError", "DENY",
           "Dependency", "DependencyError", "ESCALATED", "Error", "EscalatedCommand", "FORBIDDEN", "Filter", "ForbiddenCommand", "Gateway", "Guests",
           "Manager", "ManagerClosed", "NetworkProxy", "PlatformError", "ProxyError", "Question", "Result", "SANDBOXED", "STRICT", "SystemFailure",
           "Timeout", "Verdict", "Violation", "WARN", "Watch", "capabilities", "control_directory", "proxy_environment", "sandboxes",
           "start_network_proxy", "validate_pattern", "version"]
