# SPDX-License-Identifier: Apache-2.0
"""Where no namespaces can be made: refused with a hint, or run with less and said so. And a sandbox inside a sandbox."""
import errno
import json
import os

import pytest

from conftest import BUILD, program
from kit.control import sockets, wait_for
from kit.machine import deny, machine

pytestmark = pytest.mark.visible_home

# Every namespace that the first clone asks for, and SIGCHLD.
NO_NAMESPACES = [deny("clone3", errno.EPERM), deny("clone", errno.EPERM, 0x3E020011)]


@pytest.fixture
def sh(run, work):
    def do(script, *options):
        argv = [program("bailey"), "run", *options, "--", "sh", "-c", script]
        return run(machine(argv, refuse=NO_NAMESPACES), cwd=work)
    return do


def test_refused_without_permission(sh, work):
    result = sh("touch ran")
    assert result.status == 122 and not (work / "ran").exists()
    assert "bailey doctor" in result.errors and "--allow-degraded" in result.errors


def test_says_what_is_lost(sh):
    result = sh("true", "--allow-degraded").check()
    assert result.errors.count("lost:") >= 3


def test_files(sh, work, home):
    (home / ".ssh").mkdir()
    (home / ".ssh/id").write_text("key\n")
    (home / "notes").write_text("text\n")
    result = sh(f"echo x > made; cat {home}/notes; cat {home}/.ssh/id; echo y > {home}/planted; echo z > $TMPDIR/t && cat $TMPDIR/t",
                "--allow-degraded", "--home", "real").check()
    assert (work / "made").exists() and not (home / "planted").exists()
    assert result.text == "text\nz\n" and result.errors.count("ermission denied") == 2


def test_own_home(sh, work, home):
    """Nothing can be mounted: HOME names another directory, which is kept, and the real home is closed."""
    (home / ".claude").mkdir()
    (home / ".claude/.credentials.json").write_text("key\n")
    (home / "notes").write_text("text\n")
    result = sh(f"cat {home}/notes {home}/.claude/.credentials.json; ls {home}; echo y > {home}/planted; echo kept > ~/kept; echo $HOME",
                "--allow-degraded").check()
    assert not (home / "planted").exists() and result.errors.count("ermission denied") == 4, result
    own = result.text.strip()
    assert own.startswith(str(home / ".local/state/bailey/homes")) and own.endswith("/files"), result
    assert sh("cat ~/kept", "--allow-degraded").check().text == "kept\n"
    assert sh("echo x > made; cat made", "--allow-degraded").check().text == "x\n" and (work / "made").exists()


def test_network_only_through_the_gateway(sh, home, origin):
    (home / "hosts").write_text("127.0.0.1 origin.test other.test\n")
    target = f"origin.test:{origin.port}"
    options = ["--allow-degraded", "--hosts", str(home / "hosts"), "--allow", target, "--allow-private", target]
    assert sh(f"curl -sS -m 10 http://{target}/", *options).check().text == "origin\n"
    before = len(origin.connections)
    assert sh(f"curl -sS -m 5 --noproxy '*' http://127.0.0.1:{origin.port}/", *options).status != 0
    assert sh(f"curl -sS -m 5 http://other.test:{origin.port}/", *options).text != "origin\n"
    assert len(origin.connections) == before
    script = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"
    assert "PermissionError" in sh(f'/usr/bin/python3 -c "{script}"', *options).errors


ANSWER_ITSELF = """
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
try:
    s.connect(sys.argv[1])
    s.sendall(json.dumps({"id": 1, "do": "hello", "version": 1}).encode() + b"\\n")
    print("heard", json.loads(s.recv(65536).split(b"\\n")[0] or b"{}").get("ok"))
except (OSError, ValueError) as error:
    print("heard", False)
"""


@pytest.mark.skipif(tuple(map(int, os.uname().release.split("-")[0].split(".")[:2])) < (6, 5), reason="kernel: no SO_PEERPIDFD")
def test_people_outside_are_asked_and_the_inside_cannot_answer(start, bailey, home, work, origin):
    """The socket is in sight of the sandbox; the server sees who speaks. Nothing can be frozen, and that is said."""
    (home / "hosts").write_text("127.0.0.1 origin.test\n")
    (work / "answer.py").write_text(ANSWER_ITSELF)
    target = f"origin.test:{origin.port}"
    script = f"while ! [ -e path ]; do sleep 0.1; done; /usr/bin/python3 answer.py $(cat path); curl -sS -m 60 http://{target}/"
    argv = [program("bailey"), "run", "--allow-degraded", "--ask", "tty", "--hosts", str(home / "hosts"), "--allow-private",
            f"127.0.0.1:{origin.port}", "--", "sh", "-c", script]
    child = start(machine(argv, refuse=NO_NAMESPACES), cwd=work)
    path = wait_for(lambda: sockets(home), "the control socket")[0]
    assert path.stem in bailey("ps").check().text
    paused = bailey("pause", path.stem)
    assert paused.status != 0 and "cannot be made to stand still" in paused.errors
    (work / "path").write_text(str(path))
    question = wait_for(lambda: json.loads(bailey("pending", "--json").text or "[]"), "the question")
    assert "origin.test" in json.dumps(question)
    bailey("allow", target, "--sandbox", path.stem, "--scope", "once").check()
    result = child.wait()
    assert result.text == "heard False\norigin\n" and "the terminal does not ask" in result.errors, result


@pytest.mark.skipif(tuple(map(int, os.uname().release.split("-")[0].split(".")[:2])) < (6, 5), reason="kernel: no SO_PEERPIDFD")
@pytest.mark.parametrize("secure", [False, True])
def test_only_a_webhook_with_a_certificate_answers(start, bailey, home, work, origin, config, receiver, authority, secure):
    """A sandbox that shares the host's loopback could listen on the webhook's port and say yes to itself."""
    if secure:
        receiver.socket = authority.context("127.0.0.1").wrap_socket(receiver.socket, server_side=True)
    config.write_text(f"approval: {{ webhook: 'http{'s' if secure else ''}://127.0.0.1:{receiver.server_port}/' }}\n")
    (home / "hosts").write_text("127.0.0.1 origin.test\n")
    target = f"origin.test:{origin.port}"
    argv = [program("bailey"), "run", "--allow-degraded", "--ask", "control", "--hosts", str(home / "hosts"), "--allow-private",
            f"127.0.0.1:{origin.port}", "--", "curl", "-sS", "-m", "60", f"http://{target}/"]
    receiver.answer(b'{"answer": "allow"}')
    child = start(machine(argv, refuse=NO_NAMESPACES), cwd=work, env={"SSL_CERT_FILE": str(authority.file)})
    if secure:
        assert child.wait().check().text == "origin\n"
        return
    wait_for(lambda: "the webhook's answer does not count: without namespaces it needs https" in bailey("log").text, "the note")
    assert receiver.got and json.loads(bailey("pending", "--json").check().text) and origin.received() == b""
    bailey("deny", target, "--scope", "once").check()
    assert "policy refused" in child.wait().text and origin.received() == b""


def test_children_do_not_outlive(sh, work):
    sh("setsid sh -c 'sleep 30; touch late' >/dev/null 2>&1 & setsid sleep 31 >/dev/null 2>&1 & exit 0", "--allow-degraded").check()
    assert not (work / "late").exists()


def test_protected_path_is_not_left_behind(sh, work):
    sh("mkdir .vscode && echo x > .vscode/tasks.json", "--allow-degraded").check()
    assert not os.path.lexists(work / ".vscode")


@pytest.mark.exact_build  # it runs itself inside, where a sanitizer's memory does not fit into the limits
def test_sandbox_inside_a_sandbox(bailey, work):
    inner = [str(program("bailey")), "run", "--audit", "/tmp/inner.jsonl"]
    visible = ["--read", str(BUILD)]  # the tests may run from a copy in /tmp
    assert bailey("run", *visible, "--", *inner, "--", "true", cwd=work).status == 122
    result = bailey("run", *visible, "--", *inner, "--allow-degraded", "--", "sh", "-c", "echo x > made; exit 4", cwd=work)
    assert result.status == 4 and (work / "made").exists(), result
    result = bailey("run", *visible, "--", *inner, "--allow-degraded", "--trace-denials", "--", "true", cwd=work)
    assert result.status != 0 and "need namespaces" in result.errors, result
    # Whoever watches files performs the calls, and Landlock inside would not hold them.
    result = bailey("run", *visible, "--deny-read", "**/.env", "--", *inner, "--allow-degraded", "--", "true", cwd=work)
    assert result.status != 0 and "needs Landlock" in result.errors, result
    # Where connect() is performed outside too, no network means no sockets.
    reach = "import socket; s = socket.socket(); s.connect(('127.0.0.1', 3128))"
    result = bailey("run", *visible, "--", *inner, "--allow-degraded", "--mode", "workspace-write", "--", "python3", "-c", reach, cwd=work)
    assert result.status != 0 and "PermissionError" in result.errors, result
