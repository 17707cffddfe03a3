# SPDX-License-Identifier: Apache-2.0
"""Refusals as programs and people meet them: final, not too fast, told once, with advice that works."""
import json
import os
import pathlib
import socket
import subprocess

import pytest

PYTHON = "/usr/bin/python3"
FLOOD = """
import http.client, json, sys, threading, time
way, seconds = sys.argv[1], float(sys.argv[2])
until, n = time.monotonic() + seconds, [0] * 12
def spin(i):
    while time.monotonic() < until:
        try:
            c = http.client.HTTPConnection("127.0.0.1", 3128, timeout=10)
            if way == "connect":
                c.set_tunnel("registry.evil.example", 443)
                c.connect()
            else:
                c.request("GET", "http://registry.evil.example/")
                c.getresponse().read()
        except OSError:
            pass
        c.close()
        n[i] += 1
all = [threading.Thread(target=spin, args=(i,)) for i in range(12)]
[t.start() for t in all]
time.sleep(seconds * 0.7)
late = sum(n)
times = []
for _ in range(5):
    begin = time.monotonic()
    c = http.client.HTTPConnection("127.0.0.1", 3128, timeout=10)
    c.request("GET", sys.argv[3])
    assert c.getresponse().read() == b"yes"
    times.append(time.monotonic() - begin)
[t.join() for t in all]
print(json.dumps({"all": sum(n), "late": sum(n) - late, "slowest": max(times)}))
"""


@pytest.fixture
def hosts(home, make_origin):
    origin = make_origin(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes")
    (home / "hosts").write_text("127.0.0.1 origin.test\n")
    place = f"origin.test:{origin.port}"
    return place, ("--hosts", str(home / "hosts"), "--allow", place, "--allow-private", place)


@pytest.mark.exact_build
@pytest.mark.parametrize("way", ["connect", "request"])
def test_a_flood_slows_down_and_what_is_allowed_does_not(bailey, work, hosts, way):
    place, options = hosts
    result = bailey("run", *options, "--", PYTHON, "-c", FLOOD, way, "12", f"http://{place}/", cwd=work, timeout=120).check()
    told = json.loads(result.text)
    assert told["all"] < 700 and told["late"] < 100, told  # twelve loops without an end: thousands a second before
    assert told["slowest"] < 2, told
    assert "registry.evil.example" in result.errors and "times)" in result.errors


def test_few_refusals_are_answered_at_once(bailey, work):
    script = "import socket, time\nb = time.monotonic()\nfor _ in range(40):\n    s = socket.create_connection(('127.0.0.1', 3128)); s.sendall(b'CONNECT evil.example:443 HTTP/1.1\\r\\nHost: evil.example:443\\r\\n\\r\\n'); assert b' 403 ' in s.recv(100); s.close()\nprint(time.monotonic() - b < 5)"
    assert bailey("run", "--", PYTHON, "-c", script, cwd=work).check().text == "True\n"


def test_a_refused_name_does_not_exist(bailey, work):
    """EAI_AGAIN would be a passing fault, and programs try again for minutes."""
    script = ("import socket\ntry:\n    socket.getaddrinfo('evil.example', 443)\nexcept socket.gaierror as e:\n    print(e.errno)\n")
    result = bailey("run", "--", PYTHON, "-c", script, cwd=work).check()
    assert int(result.text) == socket.EAI_NONAME
    assert "refused evil.example" in result.errors


def test_a_name_that_is_asked_for_again_and_again_slows_down(bailey, work):
    script = ("import socket, time\nuntil, n = time.monotonic() + 8, 0\nwhile time.monotonic() < until:\n    try:\n        socket.getaddrinfo('evil.example', 443)\n"
              "    except socket.gaierror as e:\n        assert e.errno == socket.EAI_NONAME, e\n    n += 1\nprint(n)")
    assert int(bailey("run", "--", PYTHON, "-c", script, cwd=work, timeout=90).check().text) < 200


def test_a_group_that_is_misspelt(bailey, work):
    refused = bailey("run", "--allow", "@nmp", "--", "true", cwd=work)
    assert refused.status != 0 and "did you mean '@npm'?" in refused.errors
    assert "bailey policy groups" in bailey("run", "--allow", "@xyzzyxyz", "--", "true", cwd=work).errors


@pytest.mark.root
def test_an_engines_socket_gets_a_line(bailey, work, tmp_path):
    """Its client asks whether the daemon runs; it does, and the sandbox has no way to it."""
    place = pathlib.Path("/run") / f"bailey-test-{os.getpid()}"
    place.mkdir()
    try:
        with socket.socket(socket.AF_UNIX) as engine:
            engine.bind(str(place / "docker.sock"))
            engine.listen()
            script = f"import socket; s = socket.socket(socket.AF_UNIX)\ntry: s.connect('{place}/docker.sock')\nexcept OSError as e: print(e.errno)"
            result = bailey("run", "--", PYTHON, "-c", script, cwd=work).check()
            absent = bailey("run", "--", PYTHON, "-c", script.replace("docker.sock", "podman.sock"), cwd=work).check()
    finally:
        for file in place.iterdir():
            file.unlink()
        place.rmdir()
    assert result.text == "2\n" == absent.text and "podman" not in absent.errors
    landlock = subprocess.run(["cat", "/sys/kernel/security/landlock/abi"], capture_output=True, text=True, check=False).stdout.strip()
    if not landlock or int(landlock) < 9:  # before that connect() is judged, and so it is seen
        assert f"refused connecting to {place}/docker.sock" in result.errors and "to allow it" not in result.errors


def test_a_credentials_own_file_gets_no_advice(bailey, work):
    (work / "key").write_text("sk-0123456789abcdefghij")
    result = bailey("run", "--trace-denials", "--credential", f"openai=file:{work / 'key'}", "--", "cat", str(work / "key"), cwd=work)
    assert result.status == 1 and "refused reading" in result.errors and "to allow it: --read" not in result.errors


@pytest.mark.parametrize("name, address, options", [
    ("imds.test", "169.254.169.254", ()), ("imds.test", "169.254.169.254", ("--allow-private", "imds.test:80")), ("imds6.test", "fd00:ec2::254", ()),
    ("169.254.169.254", None, ()), ("any.test", "0.0.0.0", ()), ("[::ffff:169.254.169.254]", None, ()),
])
def test_no_advice_leads_to_metadata(bailey, home, work, name, address, options):
    """No rule opens it, by whatever name."""
    (home / "hosts").write_text(f"{address or '127.0.0.1'} {name if address else 'x.test'}\n")
    result = bailey("run", "--hosts", home / "hosts", "--allow", name, *options, "--", "curl", "-sS", "-m", "20", f"http://{name}/", cwd=work)
    assert f"refused {name.strip('[]') if address else ''}" in result.errors and "to allow it" not in result.errors, result


def test_advice_leads_to_other_private_addresses(bailey, home, work):
    (home / "hosts").write_text("10.9.8.7 private.test\n")
    result = bailey("run", "--hosts", home / "hosts", "--allow", "private.test", "--", "curl", "-sS", "-m", "20", "http://private.test/", cwd=work)
    assert "to allow it: --allow-private private.test:80" in result.errors, result


@pytest.mark.parametrize("how", ["cp {0} x", "head -c 3 {0}", "sh {0}", "cd /; cat .{0}", "ln -s {0} l; cat l"])
def test_a_credentials_own_file_gets_no_advice_either_way(bailey, work, how):
    key = work / "key"
    key.write_text("sk-0123456789abcdefghij")
    result = bailey("run", "--trace-denials", "--credential", f"openai=file:{key}", "--", "sh", "-c", how.format(key), cwd=work)
    assert "0123456789" not in result.text and "to allow it: --read" not in result.errors and str(key) in result.errors, result


def test_a_refused_file_gets_a_line(bailey, work):
    """A write of what is protected always, everything else with --trace-denials; each with what would allow it."""
    (work / "secret").write_text("x")
    (work / ".vscode").mkdir()
    script = "echo evil > .vscode/tasks.json; cat secret; echo x > /etc/x; true"
    plain = bailey("run", "--deny-read", work / "secret", "--", "sh", "-c", script, cwd=work).check()
    assert f"refused writing {work}/.vscode/tasks.json" in plain.errors and f"to allow it: --write {work}/.vscode/tasks.json" in plain.errors, plain
    traced = bailey("run", "--deny-read", work / "secret", "--trace-denials", "--", "sh", "-c", script, cwd=work).check()
    for what in (f"writing {work}/.vscode/tasks.json", f"reading {work}/secret", "writing /etc/x"):
        assert f"refused {what}" in traced.errors, traced


@pytest.mark.parametrize("bytes_sent", [b"\\0\\0\\0\\0", b"nonsense\\r\\n\\r\\n", b"GET  HTTP/1.1\\r\\n\\r\\n", b"\\x04\\x01"])
def test_what_has_no_target_is_called_so(bailey, work, bytes_sent):
    """A connection that says nothing that could be read is refused as such, not as an empty name."""
    script = (f"import os, socket\nfor _ in range(3):\n    s = socket.create_connection(('127.0.0.1', 3128)); s.sendall(b'{bytes_sent.decode()}'); "
              "s.shutdown(socket.SHUT_WR)\n    while s.recv(4096): pass\n")
    result = bailey("run", "--", PYTHON, "-c", script, cwd=work)
    told = [line for line in result.errors.splitlines() if "refused" in line]
    assert told and not any("refused :" in line or "refused  " in line or "refused (" in line for line in told), result
