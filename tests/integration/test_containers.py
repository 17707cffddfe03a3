# SPDX-License-Identifier: Apache-2.0
"""bailey run --container: real containers of podman, whose network is the policy's and nobody else's."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tarfile
import tempfile

import pytest

KEY, HOST = "sk-live-Zq8Yt3KpXw5Nn7Bb2Vv4", "api.ok.test"

pytestmark = pytest.mark.root

# Tools of this machine are mounted at /usr; the image has what leads there, and busybox.
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}


def make_image(path):
    with tarfile.open(path, "w") as tar:
        for name, target in LINKS.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
        for name in ("tmp", "usr", "etc"):
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        tar.add("/bin/busybox", "busybox")


class Podman:
    """An engine with a store of its own. Its settings are what a machine without systemd and with low limits needs."""

    def __init__(self):
        self.directory = directory = pathlib.Path(tempfile.mkdtemp(prefix="bc-", dir="/var/tmp"))  # podman wants a short path
        self.base = [shutil.which("podman") or "podman", "--cgroup-manager", "cgroupfs", "--runtime", "runc", "--storage-driver", "vfs",
                     "--root", str(directory / "store"), "--runroot", str(directory / "run"), "--events-backend", "none"]
        self.limits = ["--ulimit", "nofile=20000:20000", "--ulimit", "nproc=10000:10000"]
        self.bin = directory / "bin"
        self.bin.mkdir()
        quote = " ".join(self.base)
        (self.bin / "podman").write_text(
            f'#!/bin/sh\nverb=$1; shift\ncase $verb in create) set -- {" ".join(self.limits)} "$@" ;; esac\nexec {quote} "$verb" "$@"\n')
        (self.bin / "podman").chmod(0o755)

    def __call__(self, *words):
        return subprocess.run([*self.base, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=120, check=False)

    def close(self):
        self("rm", "--all", "--force")
        self("rmi", "--all", "--force")
        shutil.rmtree(self.directory)


@pytest.fixture
def podman(tmp_path, closing):
    if not shutil.which("podman") or not shutil.which("runc"):
        pytest.skip("podman and runc are not installed")
    engine = closing(Podman())
    make_image(tmp_path / "image.tar")
    imported = engine("import", str(tmp_path / "image.tar"), "lab")
    probe = engine("run", "--rm", "--network", "none", *engine.limits, "lab", "/busybox", "true") if imported.returncode == 0 else imported
    if probe.returncode != 0:
        pytest.skip(f"podman cannot run a container here: {probe.stderr.strip()[-200:]}")
    return engine


@pytest.fixture
def inside(podman, bailey, tmp_path):
    def call(script, *options, shell=("sh", "-c"), **more):
        env = {"PATH": f"{podman.bin}:/usr/bin:/bin:/usr/sbin:/sbin", **more.pop("env", {})}
        return bailey("run", "--container", "podman", "--container-arg=--volume=/usr:/usr:ro", *options, "lab", "--", *shell, script,
                      env=env, timeout=120, **more)
    return call


def test_a_container_uses_a_credential_that_it_does_not_have(inside, podman, tmp_path, authority, make_origin):
    """By proxy variables and without them; the origin sees the secret, the container never does, and nothing is left."""
    origin = make_origin(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine", tls=authority.context(HOST))
    (tmp_path / "hosts").write_text(f"127.0.0.1 {HOST}\n")
    (tmp_path / "policy.yaml").write_text(json.dumps({
        "network": {"allow_private": [f"127.0.0.1:{origin.port}"]},
        "credentials": [{"name": "own", "env": "OWN_KEY", "source": "env:OWN_KEY", "hosts": [f"{HOST}:{origin.port}"], "slot": "bearer"}]}))
    url = f"https://{HOST}:{origin.port}/"
    script = f"""set -e
curl -sS -H "Authorization: Bearer $OWN_KEY" {url}proxy
curl -sS --noproxy '*' -H "Authorization: Bearer $OWN_KEY" {url}direct
python3 -c "import os, urllib.request as u
print(u.urlopen(u.Request('{url}python', headers={{'Authorization': 'Bearer ' + os.environ['OWN_KEY']}})).read().decode())"
env; cat /proc/1/environ; exit 7"""
    done = inside(script, "--policy", tmp_path / "policy.yaml", "--hosts", tmp_path / "hosts", "--ca-bundle", authority.file,
                  env={"OWN_KEY": KEY}).check(7)
    assert done.text.count("fine") == 3 and KEY not in done.text and KEY not in done.errors
    requests = origin.requests()
    assert sorted(r.split()[1] for r in requests) == [b"/direct", b"/proxy", b"/python"]
    assert all(f"Authorization: Bearer {KEY}".encode() in r for r in requests)
    assert podman("ps", "--all", "--quiet").stdout == ""


ATTEMPTS = """
import json, os, socket, subprocess, sys
addresses, tcp, udp = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
seen = {}

def attempt(name, act):
    try:
        seen[name] = repr(act())
    except OSError as e:
        seen[name] = ""

def talk(family, kind, address, port):
    with socket.socket(family, kind) as s:
        s.settimeout(60)
        s.connect((address, port))
        s.send(b"GET / HTTP/1.0\\r\\n\\r\\n")
        answer = s.recv(1000)
        return answer if b"origin" in answer else None

for a in addresses + ["1.1.1.1", "169.254.169.254", "2606:4700:4700::1111", "fd00:ec2::254"]:
    family = socket.AF_INET6 if ":" in a else socket.AF_INET
    attempt("tcp " + a, lambda: talk(family, socket.SOCK_STREAM, a, tcp))
    attempt("udp " + a, lambda: talk(family, socket.SOCK_DGRAM, a, udp))
attempt("name", lambda: socket.getaddrinfo("evil.test", 443))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
attempt("raw6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300))
seen["nft"] = "" if subprocess.run(["nft", "flush", "ruleset"], stderr=subprocess.DEVNULL).returncode else "flushed"
seen["route"] = "" if subprocess.run(["ip", "link", "add", "x", "type", "dummy"], stderr=subprocess.DEVNULL).returncode else "added"
print(json.dumps(seen))
"""


def test_a_container_reaches_nothing_else(inside, make_origin, tmp_path):
    """By name, by address, by raw socket, by UDP, by IPv6; and it cannot change its network."""
    listeners = [make_origin(b"HTTP/1.0 200 OK\r\n\r\norigin", address="127.0.0.1")]
    port = listeners[0].port
    own = subprocess.run(["hostname", "-I"], stdout=subprocess.PIPE, text=True, check=False).stdout.split()
    own = [a for a in own if not a.startswith("fe80")]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.create_server(("0.0.0.0", 0)) as tcp:
        udp.bind(("0.0.0.0", 0))
        udp.setblocking(False)
        tcp.setblocking(False)
        script = tmp_path / "attempts.py"
        script.write_text(ATTEMPTS)
        command = f"python3 /attempts.py '{json.dumps(['127.0.0.1', '::1', *own])}' {tcp.getsockname()[1]} {udp.getsockname()[1]}"
        done = inside(command, f"--container-arg=--volume={script}:/attempts.py:ro", "--allow", HOST).check()
        seen = json.loads(done.text.splitlines()[-1])
        assert {name: what for name, what in seen.items() if what not in ("", "None")} == {}
        assert len(seen) >= 16
        for listener in (udp, tcp):
            with pytest.raises(BlockingIOError):
                listener.recvfrom(100) if listener is udp else listener.accept()
    assert listeners[0].connections == [] and port


def test_a_container_ends_as_its_command_does(inside, podman):
    assert inside("exit 0").status == 0
    assert inside("sh -c 'kill -KILL $$'; exit $?").status == 137
    assert inside("", shell=("/no/such/program",)).status == 127
    refused = inside("true", "--container-arg=--network=host")
    assert refused.status == 125 and "--network" in refused.errors
    assert inside("true", "--container-arg=--privileged").status == 125
    late = inside("sleep 60", "--timeout", "2s")
    assert late.status == 124 and late.seconds < 50
    assert podman("ps", "--all", "--quiet").stdout == ""
    assert not list(pathlib.Path(os.environ.get("TMPDIR", "/tmp")).glob("bailey-container-*"))


def test_an_engine_that_is_not_there(bailey):
    done = bailey("run", "--container", "docker", "lab", "true", env={"PATH": "/nonexistent"})
    assert done.status == 122 and "docker is not installed" in done.errors
