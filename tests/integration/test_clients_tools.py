# SPDX-License-Identifier: Apache-2.0
"""Real tools and real servers through `bailey gateway`: git over https and ssh, apt, psql, redis-cli."""
import getpass
import gzip
import hashlib
import http.server
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading

import pytest

from conftest import program
from kit.process import SLOW, wait_until

OK, EVIL = "git.ok.test", "evil.test"
ROOT = os.geteuid() == 0


def listening(port):
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def wait_listening(server, port, what):
    wait_until(lambda: listening(port) or not server.running(), 20 * SLOW, what)
    assert server.running(), server.errors()


def nothing_but_a_refusal(service, via):
    record = service.wait_record(domain=EVIL)
    assert record["allowed"] is False and record["reason"] == "not-allowed" and record["via"] == via
    assert service.records(domain=EVIL, allowed=True) == []


# git

GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_TERMINAL_PROMPT": "0",
       "GIT_AUTHOR_NAME": "T", "GIT_AUTHOR_EMAIL": "t@ok.test", "GIT_COMMITTER_NAME": "T", "GIT_COMMITTER_EMAIL": "t@ok.test"}


@pytest.fixture
def repository(tmp_path, run):
    """A bare repository that takes pushes, with one commit of 3 MB that does not compress."""
    bare, work = tmp_path / "served/project.git", tmp_path / "work"
    bare.parent.mkdir()
    run(["git", "init", "-q", "--bare", "-b", "main", bare], env=GIT).check()
    run(["git", "-C", bare, "config", "http.receivepack", "true"], env=GIT).check()
    run(["git", "clone", "-q", bare, work], env=GIT).check()
    (work / "data").write_bytes(os.urandom(3 << 20))
    for words in (["checkout", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"], ["push", "-q", "origin", "main"]):
        run(["git", "-C", work, *words], env=GIT).check()
    return bare


def clone_change_push(run, url, directory, env):
    run(["git", "clone", "-q", url, directory], env=env, timeout=120).check()
    (directory / "more").write_bytes(os.urandom(2 << 20))
    for words in (["add", "."], ["commit", "-q", "-m", "second"], ["push", "-q", "origin", "main"], ["fetch", "-q"]):
        run(["git", "-C", directory, *words], env=env, timeout=120).check()


def history(run, bare):
    return run(["git", "-C", bare, "log", "--format=%s", "main"], env=GIT).check().text.split()


class GitServer(http.server.BaseHTTPRequestHandler):
    """git http-backend behind HTTP/1.1, bodies by length or chunked."""
    protocol_version, root, asked = "HTTP/1.1", None, None

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def serve(self):
        self.asked.append(self.headers["Host"])
        path, _, query = self.path.partition("?")
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
               "QUERY_STRING": query, "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
               "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "REMOTE_USER": "t", "REMOTE_ADDR": "127.0.0.1",
               "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), **GIT}
        done = subprocess.run(["git", "http-backend"], input=self.body(), env=env, stdout=subprocess.PIPE, check=True)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = serve


@pytest.fixture
def git_https(repository, authority):
    asked = []
    handler = type("Handler", (GitServer,), {"root": repository.parent, "asked": asked})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.socket = authority.context(OK, EVIL).wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield server.server_address[1], asked
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.mark.parametrize("way", ["http", "socks5h"])
def test_git_over_https(way, service, repository, git_https, authority, run, tmp_path):
    port, asked = git_https
    proxy = service.http if way == "http" else f"socks5h://{service.socks}"
    env = {**GIT, "https_proxy": proxy, "GIT_SSL_CAINFO": str(authority.file)}
    clone_change_push(run, f"https://{OK}:{port}/project.git", tmp_path / "clone", env)
    assert history(run, repository) == ["second", "first"]
    done = run(["git", "clone", "-q", f"https://{EVIL}:{port}/project.git", tmp_path / "other"], env=env)
    assert done.status == 128 and not (tmp_path / "other").exists(), str(done)
    assert set(asked) == {f"{OK}:{port}"}
    nothing_but_a_refusal(service, "connect" if way == "http" else "socks5")


@pytest.fixture
def sshd(tmp_path, start, run, free_port):
    """An sshd that sees one account: ours, with a shell. Its own user and mount namespace, and for root a private /run."""
    directory, port, name = tmp_path / "ssh", free_port(), getpass.getuser()
    directory.mkdir()
    for key in ("host", "client"):
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / key]).check()
    shutil.copy(directory / "client.pub", directory / "authorized")
    account = pwd.getpwuid(os.getuid())
    (directory / "passwd").write_text(f"{name}:*:{account.pw_uid}:{account.pw_gid}::{tmp_path}:/bin/sh\n"
                                      "sshd:*:65534:65534::/nonexistent:/usr/sbin/nologin\n")
    (directory / "shadow").write_text(f"{name}:*:19000:0:99999:7:::\n")
    (directory / "config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {directory}/host\nAuthorizedKeysFile {directory}/authorized\nPidFile none\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nAllowTcpForwarding no\n"
        "PermitRootLogin yes\nSubsystem sftp internal-sftp\n")
    alone = ["--mount"] if ROOT else ["--user", "--map-current-user", "--keep-caps", "--mount"]
    private = "mount -t tmpfs none /run && mkdir /run/sshd && mount --bind shadow /etc/shadow && " if ROOT else ""
    server = start(["unshare", *alone, "sh", "-c", f"{private} mount --bind passwd /etc/passwd && "
                    f"exec /usr/sbin/sshd -D -e -f {directory}/config"], cwd=directory)
    wait_listening(server, port, "sshd")
    return directory, port, f"{name}@"


def test_git_over_ssh(service, sshd, repository, run, tmp_path):
    directory, port, user = sshd
    relay = f"{program('bailey')} relay --via {service.socks} %h %p"
    env = {**GIT, "GIT_SSH_COMMAND": f"ssh -F none -i {directory}/client -o BatchMode=yes -o StrictHostKeyChecking=no "
                                     f"-o UserKnownHostsFile={directory}/known -o LogLevel=ERROR -o ProxyCommand='{relay}'"}
    clone_change_push(run, f"ssh://{user}{OK}:{port}{repository}", tmp_path / "clone", env)
    assert history(run, repository) == ["second", "first"]
    done = run(["git", "clone", "-q", f"ssh://{user}{EVIL}:{port}{repository}", tmp_path / "other"], env=env)
    assert done.status == 128 and "policy refuses it" in done.errors, str(done)
    nothing_but_a_refusal(service, "socks5")


def test_ssh_with_the_variable_that_bailey_env_prints(service, sshd, repository, bailey, run, tmp_path):
    directory, port, user = sshd
    listed = bailey("env", "--no-workspace-policy", "--http", service.http[7:], "--socks", service.socks).check().text
    shown = run(["sh", "-c", f'{listed}\nprintf %s "$GIT_SSH_COMMAND"']).check().text
    assert "relay" in shown or "nc" in shown, listed
    env = {**GIT, "PATH": "/usr/bin:/bin", "ALL_PROXY": f"socks5h://{service.socks}",
           "GIT_SSH_COMMAND": f"{shown} -F none -i {directory}/client -o StrictHostKeyChecking=no "
                              f"-o UserKnownHostsFile={directory}/known -o LogLevel=ERROR"}
    run(["git", "clone", "-q", f"ssh://{user}{OK}:{port}{repository}", tmp_path / "clone"], env=env, timeout=120).check()
    assert run(["git", "clone", "-q", f"ssh://{user}{EVIL}:{port}{repository}", tmp_path / "other"], env=env).status == 128
    nothing_but_a_refusal(service, "socks5")


# databases: their clients know no proxy, so each connection goes through a relay, as ssh's would


class Forwarder:
    """A port on loopback, each connection of which becomes `bailey relay HOST PORT`."""

    def __init__(self, service, environment, host, port):
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.port, self._children = self.sock.getsockname()[1], []
        command = [str(program("bailey")), "relay", "--via", service.socks, host, str(port)]
        self._thread = threading.Thread(target=self._accept, args=(command, environment), daemon=True)
        self._thread.start()

    def _accept(self, command, environment):
        while True:
            try:
                client, _ = self.sock.accept()
            except OSError:
                return
            with client:
                self._children.append(subprocess.Popen(command, stdin=client, stdout=client, stderr=subprocess.DEVNULL,
                                                       env=environment))

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self._thread.join(5)
        for child in self._children:
            child.terminate()
            child.wait(60)

    def statuses(self):
        return [child.wait(60) for child in self._children]


@pytest.fixture
def forward(service, environment, closing):
    return lambda host, port: closing(Forwarder(service, environment, host, port))


@pytest.fixture
def postgres(start, free_port):
    """PostgreSQL refuses to run as root; there it is started as its own account."""
    user = "postgres" if ROOT else None
    directory = pathlib.Path(tempfile.mkdtemp(prefix="bailey-test."))
    binaries = max(pathlib.Path("/usr/lib/postgresql").iterdir(), key=lambda p: int(p.name)) / "bin"
    if user:
        shutil.chown(directory, user, user)
    try:
        done = start([binaries / "initdb", "-N", "-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C", "-D", directory / "data"],
                     user=user, cwd=directory, env={"HOME": str(directory), "TMPDIR": str(directory)}).wait(60 * SLOW)
        assert done.status == 0, str(done)
        port = free_port()
        server = start([binaries / "postgres", "-D", directory / "data", "-p", str(port), "-h", "127.0.0.1", "-F",
                        "-c", "unix_socket_directories=", "-c", "shared_buffers=1MB", "-c", "max_connections=10"],
                       user=user, cwd=directory, env={"HOME": str(directory), "TMPDIR": str(directory)})
        wait_listening(server, port, "PostgreSQL")
        yield port
        server.stop()
    finally:
        shutil.rmtree(directory)


def test_psql_through_socks5(service, postgres, forward, run):
    def psql(forwarder, statement):
        return run(["psql", "-X", "-q", "-A", "-t", "-h", "127.0.0.1", "-p", str(forwarder.port), "-U", "tester", "-d", "postgres",
                    "-c", statement], env={"PGCONNECT_TIMEOUT": "20"})

    good = forward(OK, postgres)
    # The server is up once it answers; until then the connection is refused or told to wait.
    wait_until(lambda: psql(good, "select 1").text == "1\n", 20 * SLOW, "an answer", every=0.2)
    assert psql(good, "select count(*), sum(n) from generate_series(1, 1000) n").text == "1000|500500\n"
    done = psql(good, "select repeat(md5(n::text), 32) from generate_series(1, 3000) n").check()
    lines = done.text.split()
    assert len(lines) == 3000 and all(line == hashlib.md5(str(n).encode()).hexdigest() * 32 for n, line in enumerate(lines, 1))
    bad = forward(EVIL, postgres)
    done = psql(bad, "select 1")
    assert done.status == 2 and done.text == "", str(done)
    assert bad.statuses() == [5]
    nothing_but_a_refusal(service, "socks5")


def test_redis_cli_through_socks5(service, forward, start, run, free_port, tmp_path):
    port = free_port()
    server = start(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"], cwd=tmp_path)
    wait_listening(server, port, "redis")
    good, bad = forward(OK, port), forward(EVIL, port)

    def redis(forwarder, *words, **more):
        return run(["redis-cli", "-h", "127.0.0.1", "-p", str(forwarder.port), *words], **more)

    value = "x" * 100000
    assert redis(good, "-x", "set", "key", stdin=value.encode()).check().text == "OK\n"
    assert redis(good, "get", "key").check().text == value + "\n"
    many = "".join(f"INCRBY total {n}\n" for n in range(1000))
    assert redis(good, stdin=many.encode()).check().text.split()[-1] == str(sum(range(1000)))
    done = redis(bad, "get", "key")
    assert value not in done.text and done.status != 0, str(done)
    assert set(bad.statuses()) == {5}
    nothing_but_a_refusal(service, "socks5")


# apt


@pytest.fixture
def packages(tmp_path, run, make_origin):
    """A flat repository with one package, and the origin that serves it."""
    tree, served = tmp_path / "package", tmp_path / "archive"
    (tree / "DEBIAN").mkdir(parents=True)
    served.mkdir()
    (tree / "blob").write_bytes(os.urandom(200000))
    (tree / "DEBIAN/control").write_text("Package: bailey-sample\nVersion: 1.0\nArchitecture: all\nMaintainer: T <t@ok.test>\n"
                                         "Description: a sample\n")
    run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-b", tree, served / "sample.deb"]).check()
    blob = (served / "sample.deb").read_bytes()
    listing = ((tree / "DEBIAN/control").read_text() + f"Filename: ./sample.deb\nSize: {len(blob)}\n"
               f"SHA256: {hashlib.sha256(blob).hexdigest()}\n\n").encode()
    (served / "Packages").write_bytes(listing)
    (served / "Packages.gz").write_bytes(gzip.compress(listing))

    def answer(request):
        path = served / request.split(b" ")[1].decode().rpartition("/")[2]
        if not path.is_file():
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        body = path.read_bytes()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    return make_origin(answer), blob


def apt(run, tmp_path, service, url, *words):
    """apt-get with every directory its own: it touches nothing of this machine."""
    root = tmp_path / "apt"
    for folder in ("state/lists/partial", "cache/archives/partial", "etc/apt.conf.d", "etc/preferences.d", "etc/trusted.gpg.d"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "state/status").touch()
    (root / "sources.list").write_text(f"deb [trusted=yes] {url} ./\n")
    options = {"Dir::State": root / "state", "Dir::State::status": root / "state/status", "Dir::Cache": root / "cache",
               "Dir::Etc": root / "etc", "Dir::Etc::sourcelist": root / "sources.list", "Dir::Etc::sourceparts": "-",
               "Dir::Log": root, "APT::Sandbox::User": getpass.getuser(), "Acquire::http::Proxy": service.http,
               "Acquire::Retries": "0", "Acquire::Languages": "none", "APT::Update::Error-Mode": "any"}
    return run(["apt-get", "-q", *(w for k, v in options.items() for w in ("-o", f"{k}={v}")), *words], cwd=root,
               env={"APT_CONFIG": "/dev/null"}, timeout=120)


def test_apt(service, packages, run, tmp_path):
    origin, blob = packages
    url = f"http://{OK}:{origin.port}/debian"
    apt(run, tmp_path, service, url, "update").check()
    apt(run, tmp_path, service, url, "download", "bailey-sample").check()
    assert (tmp_path / "apt/bailey-sample_1.0_all.deb").read_bytes() == blob
    done = apt(run, tmp_path, service, f"http://{EVIL}:{origin.port}/debian", "update")
    assert done.status == 100 and "403" in done.text + done.errors, str(done)
    assert EVIL.encode() not in origin.received()
    nothing_but_a_refusal(service, "http")
