# SPDX-License-Identifier: Apache-2.0
"""Globs in denies, judged when a file is reached, and --trace-denials: real programs, as root and as an ordinary user."""
import json
import os
import subprocess
import threading
import time

import pytest

SECRET = "the-secret-value"


@pytest.fixture
def workspace(tmp_path):
    top = tmp_path / "work"
    (top / "deep" / "er").mkdir(parents=True)
    (top / "secrets").mkdir()
    for name in (".env", "deep/er/.env", "secrets/a.key"):
        (top / name).write_text(SECRET)
    (top / "plain").write_text("plain")
    (top / "Makefile").write_text("all:\n")
    os.symlink(".env", top / "link")
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    return top


GLOBS = ["--deny-read", "**/.env", "--deny-read", "**/secrets/*.key", "--deny-write", "**/Makefile"]


@pytest.fixture
def inside(bailey, workspace):
    def go(script, *options):
        return bailey("run", "--workspace", str(workspace), *GLOBS, *options, "--", "sh", "-c", f"cd {workspace}; {script}")
    return go


@pytest.mark.parametrize("attempt", [
    "cat .env", "cat deep/er/.env", "cat link", "cat ./deep/../.env", "cat /proc/self/cwd/.env", "cat secrets/a.key",
    "mv .env x && cat x", "ln .env x && cat x", "mv secrets s && cat s/a.key", "cp -r deep copy && cat copy/er/.env",
    "cp .env x && cat x", "tar c . | tar xO", "python3 -c 'print(open(\".env\").read())'", "exec 9<.env; cat <&9",
    "grep -r . deep", "cat /proc/self/root$PWD/.env", "find . -name .env -exec cat {} +", "dd if=.env",
    "git add -f .env && git show :.env", "perl -e 'open(F, q(.env)); print <F>'", "ln -s .env y; cat y",
    "mkdir d && mv deep d/deep && cat d/deep/er/.env",
])
def test_no_way_to_read_what_a_glob_denies(inside, attempt):
    result = inside(attempt)
    assert SECRET not in result.text + result.errors


def test_a_file_that_comes_later_is_denied_too(inside, workspace):
    result = inside("mkdir later; echo x > later/.env; echo status $?; cat plain")
    assert "status 2" in result.text and "plain" in result.text
    assert not (workspace / "later" / ".env").exists()


def test_a_denied_path_that_the_host_makes_later(inside, workspace):
    """Nothing can be mounted where nothing is; where there is a broker, it knows the plain paths too."""
    def make():
        deadline = time.monotonic() + 60
        while not (workspace / "ready").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        (workspace / "vault").mkdir()
        (workspace / "vault/key").write_text(SECRET)
        (workspace / "token").write_text(SECRET)
        (workspace / "made").write_text("")

    host = threading.Thread(target=make)
    host.start()
    result = inside("""touch ready; i=0; while [ ! -e made ] && [ $i -lt 6000 ]; do sleep 0.01; i=$((i+1)); done
        cat made && echo made; cat token; cat vault/key; mv vault v; mv token t; cat t v/key; echo x >> token; ls vault""",
                    "--deny-read", workspace / "token", "--deny-read", workspace / "vault")
    host.join()
    assert "made" in result.text and SECRET not in result.text + result.errors, result
    assert "key" not in result.text and (workspace / "token").read_text() == SECRET


def test_write_globs_leave_reading_alone(inside, workspace):
    result = inside("cat Makefile && ! echo x >> Makefile && ! rm Makefile && ! mv plain Makefile && echo kept")
    assert "kept" in result.text
    assert (workspace / "Makefile").read_text() == "all:\n"


def test_ordinary_work_goes_on(inside, workspace):
    result = inside("""set -e
        printf 'int main(void) { return 7; }' > a.c; cc a.c -o a; ./a && exit 1
        python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))'
        git -c user.name=n -c user.email=e@example.com commit -q --allow-empty -m one; git log --oneline | wc -l
        mkfifo pipe; (echo through > pipe &); cat pipe
        mkdir -p x/y && mv x z && rmdir z/y z; : > /tmp/t; ls -l /dev/fd/ > /dev/null; umask 077; : > private; stat -c %a private""")
    assert result.status == 0, result.errors
    assert "[1, 2]" in result.text and "through" in result.text and "600" in result.text


def test_the_summary_names_path_rule_and_remedy(inside, workspace):
    result = inside("cat deep/er/.env")
    assert f"{workspace}/deep/er/.env" in result.errors
    assert "/**/.env" in result.errors and "--deny-read" in result.errors and "--read" in result.errors


def test_trace_shows_files_and_calls_in_the_audit(bailey, workspace, tmp_path):
    audit = tmp_path / "audit.jsonl"
    script = "touch /etc/new; unshare -U true; cat plain"
    result = bailey("run", "--workspace", str(workspace), "--trace-denials", "--audit", str(audit), "--", "sh", "-c",
                    f"cd {workspace}; {script}")
    records = [json.loads(line) for line in audit.read_text().splitlines()]
    files = [r for r in records if r.get("kind") == "file"]
    calls = [r for r in records if r.get("kind") == "syscall"]
    assert any(r["path"] == "/etc/new" and not r["allowed"] for r in files)
    assert any("unshare" in r["path"] for r in calls)
    assert "plain" in result.text and "/etc/new" in result.errors


def test_without_globs_nobody_pays(bailey, workspace):
    shown = bailey("plan", "--workspace", str(workspace), "--", "true").check().text
    assert "refused when reached" not in shown
    shown = bailey("plan", "--workspace", str(workspace), *GLOBS, "--", "true").check().text
    assert "refused when reached: /**/.env" in shown


def test_killing_the_broker_opens_nothing(inside):
    """It runs as the same user; whoever kills it loses the files, not the denial."""
    result = inside("for p in /proc/[0-9]*; do grep -q bailey-broker $p/comm 2>/dev/null && kill -9 ${p#/proc/}; done; cat .env; cat plain")
    assert SECRET not in result.text + result.errors


def test_a_flood_of_refusals_does_not_push_the_record_out(inside, bailey, home):
    """Made-up names are recorded up to a share, then counted; no attempt is missing, and the last ones are there too."""
    names = 5000
    flood = f"import os\nfor i in range({names}):\n try: os.open(f'secrets/{{i}}.key', os.O_CREAT)\n except OSError: pass"
    inside(f'exec python3 -c "{flood}"', "--quiet").check()
    record, = (home / ".local/state/bailey/audit").glob("*.jsonl")
    files = [r for r in map(json.loads, record.read_text().splitlines()) if r["kind"] == "file"]
    assert len(files) < 4000 and sum(r.get("count", 1) for r in files) == names
    bailey("log", "verify").check()


# Claude Code opens its own files this way; the broker has other descriptors under the same numbers, or none.
OWN_LINKS = r"""
import os, sys, threading
def all_of(where):
    os.mkdir("made"); d = os.open("made", os.O_RDONLY); p = where.format(pid=os.getpid(), tid=threading.get_native_id(), fd=d)
    f = os.open(p + "/new", os.O_CREAT | os.O_RDWR); os.write(f, b"x"); os.close(f)
    assert open(p + "/new").read() == "x"
    os.mkdir(p + "/sub"); os.rename(p + "/new", p + "/sub/moved"); os.link(p + "/sub/moved", p + "/linked")
    os.symlink("linked", p + "/soft"); os.truncate(p + "/soft", 0); os.chmod(p + "/linked", 0o600)
    os.unlink(p + "/linked"); os.unlink(p + "/soft"); os.unlink(p + "/sub/moved"); os.rmdir(p + "/sub")
    try:
        open(p + "/absent")
    except FileNotFoundError:
        print("done")
if sys.argv[2] == "thread":
    t = threading.Thread(target=all_of, args=(sys.argv[1],)); t.start(); t.join()
else:
    all_of(sys.argv[1])
"""


@pytest.mark.parametrize("who", ["main", "thread"])
@pytest.mark.parametrize("where", ["/proc/self/fd/{fd}", "/dev/fd/{fd}", "/proc/thread-self/fd/{fd}", "/proc/{pid}/fd/{fd}",
                                   "/proc/self/task/{tid}/fd/{fd}", "own/fd/{fd}", "/proc/self/cwd/made"])
def test_paths_through_ones_own_descriptors(inside, workspace, where, who):
    os.symlink("/proc/self", workspace / "own")
    (workspace / "program.py").write_text(OWN_LINKS)
    result = inside(f"python3 program.py '{where}' {who}")
    assert result.text == "done\n", result


def test_descriptors_of_others_lead_nowhere(inside):
    result = inside("""exec 3</; sleep 60 & cat /proc/$!/fd/3/etc/hostname; cat /proc/1/fd/3/x; cat /proc/self/fd/99/x; ls deep/../plain
        kill $!""")
    assert "plain" in result.text and result.errors.count("cat:") == 3, result
