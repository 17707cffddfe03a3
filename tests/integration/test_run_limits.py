# SPDX-License-Identifier: Apache-2.0
"""Limits: none that an honest program meets unless somebody asked for one; then it holds, and a line says so."""
import resource

import pytest

from conftest import program

PYTHON = "/usr/bin/python3"


@pytest.fixture
def python(bailey, work):
    return lambda code, *words, **env: bailey("run", *words, "--", PYTHON, "-c", code, cwd=work, env=env, timeout=120)


RESERVE = "import mmap; held = [mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000) for _ in range(6)]; print(len(held))"
THREADS = """
import threading
threading.stack_size(256 << 10)  # aarch64 wants 128 KiB at least
gate = threading.Event()
all = [threading.Thread(target=gate.wait, daemon=True) for _ in range(1500)]
for one in all:
    one.start()
print(len(all))
gate.set()
"""


def test_reserving_memory_is_free(python):
    """JavaScript engines and Java reserve gigabytes that they never touch."""
    assert python(RESERVE).check().text == "6\n"
    assert python(RESERVE, "--limit-memory", "0").check().text == "6\n"


def test_as_many_files_and_threads_as_the_host_permits(python):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_DATA), resource.getrlimit(resource.RLIMIT_AS))"
    before = (resource.getrlimit(resource.RLIMIT_DATA), resource.getrlimit(resource.RLIMIT_AS))
    assert python(code).check().text == f"{(soft, hard)} {before[0]} {before[1]}\n"
    assert python(THREADS).check().text == "1500\n"


def test_each_limit_on_the_command_line(python):
    code = ("import resource as r; print([r.getrlimit(x)[0] for x in (r.RLIMIT_NOFILE, r.RLIMIT_NPROC, r.RLIMIT_DATA, r.RLIMIT_CPU)])")
    options = ("--limit-files", "77", "--limit-processes", "88", "--limit-memory", "300MiB", "--limit-cpu", "99s")
    assert python(code, *options).check().text == f"[77, 88, {300 << 20}, 99]\n"
    variables = {"BAILEY_LIMIT_FILES": "77", "BAILEY_LIMIT_PROCESSES": "88", "BAILEY_LIMIT_MEMORY": "300MiB", "BAILEY_LIMIT_CPU": "99s"}
    assert python(code, **variables).check().text == f"[77, 88, {300 << 20}, 99]\n"
    few = python("held = [open('/dev/null') for _ in range(60)]", "--limit-files", "32")
    assert few.status == 1 and "Too many open files" in few.errors


def test_a_policy_file_and_the_library_s_keys_too(python, work):
    (work.parent / "p.yaml").write_text("process: { limits: { files: 99, memory: 1GiB } }")
    code = "import resource as r; print(r.getrlimit(r.RLIMIT_NOFILE)[1], r.getrlimit(r.RLIMIT_DATA)[1])"
    assert python(code, "--policy", str(work.parent / "p.yaml")).check().text == f"99 {1 << 30}\n"


def test_a_command_that_ends_at_a_limit_gets_a_line(python):
    spent = python("while True: pass", "--limit-cpu", "1s")
    assert spent.status == 128 + 24 and "limit of processor time, 1 s" in spent.errors and "--limit-cpu" in spent.errors
    trapped = python("import os; os.abort()", "--limit-memory", "900MiB")
    assert "limit of memory, 900 MiB" in trapped.errors and "--limit-memory" in trapped.errors
    assert "limit" not in python("import os; os.abort()").errors


def test_bad_limits_are_refused(python):
    for option, value in (("--limit-memory", "lots"), ("--limit-files", "-1"), ("--limit-cpu", "5 parsecs"), ("--limit-processes", "1e3")):
        refused = python("print('ran')", option, value)
        assert refused.status == 120 and "ran" not in refused.text and option in refused.errors, refused


def test_limits_are_in_the_help(bailey):
    page = bailey("run", "--help").text
    for option in ("--limit-memory", "--limit-files", "--limit-processes", "--limit-cpu", "--limit-cpu-percent", "--limit-temporary"):
        assert option in page


WATCHERS = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
n = 0
while n < 100000 and libc.inotify_init() >= 0:
    n += 1
print(n, ctypes.get_errno() == errno.EMFILE)
"""


def test_one_sandbox_does_not_take_all_watchers_of_the_account(python):
    most = int(open("/proc/sys/fs/inotify/max_user_instances").read())
    n, refused = python(WATCHERS, "--limit-files", "100000").check().text.split()
    assert 8 <= int(n) <= most // 2 and refused == "True"


@pytest.mark.parametrize("files", [12, 16, 20, 24, 28, 32, 40, 64])
@pytest.mark.parametrize("verb", ["run", "exec"])
def test_too_few_open_files_are_named(start, work, files, verb):
    """Wherever a launch runs out of them, it says which limit to raise; or there are enough."""
    words = [program("bailey"), "run", "-q", "--", "true"] if verb == "run" else [program("bailey"), "exec", "--json", "true"]
    result = start(["/bin/sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *words], cwd=work).wait(60)
    assert result.status == 0 or "ulimit -n" in result.errors + result.text, result
