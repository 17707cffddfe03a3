# SPDX-License-Identifier: Apache-2.0
"""Real work inside: what people do all day must simply work, with no proxy settings and no options but the policy's."""
import base64
import fcntl
import hashlib
import http.server
import io
import json
import os
import pty
import select
import shutil
import signal
import struct
import tarfile
import termios
import threading
import time
import urllib.request
import zipfile

import pytest

from conftest import program
from kit.process import SLOW, wait_until
from test_clients_tools import GIT, git_https, postgres, repository, sshd  # noqa: F401 (fixtures)

pytestmark = pytest.mark.visible_home

OK = "git.ok.test"
NO_PROXY_VARIABLES = "unset http_proxy https_proxy all_proxy ftp_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY; "


@pytest.fixture
def work(home):
    directory = home / "project"
    directory.mkdir()
    return directory


@pytest.fixture
def inside(bailey, home, work):
    """inside("script", option...): a shell script in the sandbox, with git.ok.test on loopback."""
    (home / "hosts").write_text(f"127.0.0.1 {OK} evil.test\n")

    def do(script, *options, timeout=60 * SLOW, **more):
        return bailey("run", "--hosts", str(home / "hosts"), *options, "--", "sh", "-c", script, cwd=work, timeout=timeout, **more)
    return do


def allow(port):
    return ["--allow", f"{OK}:{port}", "--allow-private", f"{OK}:{port}"]


def test_c_build(inside, work):
    (work / "Makefile").write_text("program: main.o part.o\n\tcc -o $@ $^\n%.o: %.c\n\tcc -O1 -Wall -c -o $@ $<\n")
    (work / "main.c").write_text('#include <stdio.h>\nint part(void);\nint main(void) { printf("%d\\n", part()); }\n')
    (work / "part.c").write_text("int part(void) { return 42; }\n")
    assert inside("make -s -j2 && ./program").check().text == "42\n"
    assert (work / "program").exists()


def test_python_multiprocessing(inside, work):
    (work / "many.py").write_text("""
import multiprocessing as m, os
def square(n): return n * n
if __name__ == "__main__":
    for way in ("fork", "spawn"):
        with m.get_context(way).Pool(3) as pool: print(sum(pool.map(square, range(100))))
    lock, value, queue = m.Lock(), m.Value("i", 0), m.Queue()
    def add():
        for _ in range(50):
            with value.get_lock(): value.value += 1
        queue.put(os.getpid())
    ctx = [m.Process(target=add) for _ in range(3)]
    [p.start() for p in ctx]; pids = {queue.get(timeout=20) for _ in ctx}; [p.join() for p in ctx]
    print(value.value, len(pids))
    from multiprocessing import shared_memory
    s = shared_memory.SharedMemory(create=True, size=100); s.buf[0] = 7; print(s.buf[0]); s.close(); s.unlink()
""")
    assert inside("/usr/bin/python3 many.py").check().text == "328350\n328350\n150 3\n7\n"


def wheel(directory):
    """A package of one module, as pip wants it."""
    files = {"greeting.py": b"def greet(): return 'hello from a wheel'\n",
             "greeting-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
             "greeting-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = "".join(f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
                     for name, data in files.items()) + "greeting-1.0.dist-info/RECORD,,\n"
    with zipfile.ZipFile(directory / "greeting-1.0-py3-none-any.whl", "w") as archive:
        for name, data in {**files, "greeting-1.0.dist-info/RECORD": record.encode()}.items():
            archive.writestr(name, data)


@pytest.mark.exact_build
@pytest.mark.anybody
def test_pip_in_a_venv(inside, work):
    (work / "wheels").mkdir()
    wheel(work / "wheels")
    result = inside("/usr/bin/python3 -m venv env && env/bin/pip -q --disable-pip-version-check install --no-index --find-links wheels greeting && "
                    "env/bin/python -c 'import greeting; print(greeting.greet())'", "--mode", "workspace-write", timeout=120 * SLOW)
    assert result.check().text == "hello from a wheel\n"


class Registry(http.server.BaseHTTPRequestHandler):
    """What npm asks a registry for: one package's document, and its tarball."""
    port, asked = 0, None
    described, script = '{"name":"greeting","version":"1.0.0","main":"index.js"}', "module.exports = () => 'hello from npm'"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.asked.append((self.headers["Host"], self.path))
        data = self.tarball() if self.path.endswith(".tgz") else self.document()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def document(self):
        data = self.tarball()
        version = {"name": "greeting", "version": "1.0.0", "main": "index.js", "dist": {
            "tarball": f"http://{OK}:{self.port}/greeting/-/greeting-1.0.0.tgz", "shasum": hashlib.sha1(data).hexdigest(),
            "integrity": "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()}}
        return json.dumps({"name": "greeting", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}).encode()

    def tarball(self):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz", compresslevel=0) as archive:
            for name, text in (("package.json", self.described), ("index.js", self.script)):
                info = tarfile.TarInfo("package/" + name)
                info.size = len(text)
                archive.addfile(info, io.BytesIO(text.encode()))
        data = bytearray(out.getvalue())
        data[4:8] = b"\0\0\0\0"  # gzip's time stamp: the same bytes each time
        return bytes(data)


@pytest.fixture
def registry():
    handler = type("Handler", (Registry,), {"asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    handler.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield handler
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not on this machine")
@pytest.mark.parametrize("variables", ["", NO_PROXY_VARIABLES], ids=["proxy", "captured"])
def test_npm_install(inside, work, registry, variables):
    (work / "package.json").write_text('{"name":"project","version":"1.0.0","private":true}')
    result = inside(variables + f"npm install --registry http://{OK}:{registry.port}/ --cache /tmp/npm --no-audit --no-fund --no-update-notifier "
                    "--loglevel error greeting && node -e \"console.log(require('greeting')())\"", *allow(registry.port), timeout=120 * SLOW)
    assert result.check().text.splitlines()[-1] == "hello from npm"
    assert {host for host, _ in registry.asked} == {f"{OK}:{registry.port}"}


BRANCH_AND_WORKTREE = """set -e
cd clone
git checkout -q -b side
echo two > file && git add file && git commit -q -m second
git push -q origin side
git worktree add -q ../tree -b tree
cd ../tree && echo three > other && git add other && git commit -q -m third && git push -q origin tree
git log --format=%s | tr '\\n' ' '
"""


def branches(run, bare):
    return set(run(["git", "-C", bare, "for-each-ref", "--format=%(refname:short)", "refs/heads"], env=GIT).check().text.split())


@pytest.mark.parametrize("variables", ["", NO_PROXY_VARIABLES], ids=["proxy", "captured"])
def test_git_over_https(inside, work, run, repository, git_https, authority, variables):  # noqa: F811
    port, asked = git_https
    shutil.copy(authority.file, work / "ca.pem")
    env = {**GIT, "GIT_SSL_CAINFO": str(work / "ca.pem")}
    result = inside(variables + f"git clone -q https://{OK}:{port}/project.git clone && " + BRANCH_AND_WORKTREE, *allow(port), env=env)
    assert result.check().text == "third second first "
    assert branches(run, repository) == {"main", "side", "tree"} and set(asked) == {f"{OK}:{port}"}
    assert inside(variables + f"git clone -q https://evil.test:{port}/project.git other", *allow(port), env=env).status == 128


@pytest.mark.parametrize("way", ["variable", "captured"])
def test_git_over_ssh(inside, work, run, repository, sshd, way):  # noqa: F811
    """With the variable that the sandbox sets, and with an ssh that knows nothing."""
    directory, port, user = sshd
    shutil.copy(directory / "client", work / "client")
    options = f"-F none -i {work}/client -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile={work}/known -o LogLevel=ERROR"
    set_up = f'export GIT_SSH_COMMAND="${{GIT_SSH_COMMAND:-ssh}} {options}"; ' if way == "variable" else f'export GIT_SSH_COMMAND="ssh {options}"; '
    url = f"ssh://{user}{OK}:{port}{repository}"
    result = inside(set_up + f"git clone -q {url} clone && " + BRANCH_AND_WORKTREE, "--read", str(program("bailey").parent), *allow(port), env=GIT)
    assert result.check().text == "third second first "
    assert branches(run, repository) == {"main", "side", "tree"}


def test_git_submodule(inside, work, run, repository, git_https, authority):  # noqa: F811
    port, _ = git_https
    shutil.copy(authority.file, work / "ca.pem")
    env = {**GIT, "GIT_SSL_CAINFO": str(work / "ca.pem")}
    url = f"https://{OK}:{port}/project.git"
    run(["git", "clone", "-q", repository, work / "clone"], env=GIT).check()
    # The repository's configuration is closed: a submodule can be cloned into place and recorded, not registered.
    result = inside(f"cd clone && git clone -q {url} sub && git add sub 2>/dev/null && git commit -q -m with-sub && git ls-tree HEAD sub | cut -c1-6; "
                    f"cd sub && echo x > y && git add y && git commit -q -m inner && git log --format=%s | head -1", *allow(port), env=env)
    assert result.check().text.split() == ["160000", "inner"]


def test_node_fetch_that_knows_no_proxy(inside, origin):
    script = f"fetch('http://{OK}:{origin.port}/x').then(r => r.text()).then(t => process.stdout.write(t))"
    result = inside(NO_PROXY_VARIABLES + f'unset NODE_USE_ENV_PROXY; node -e "{script}"', *allow(origin.port))
    assert result.check().text == "origin\n"
    assert inside(NO_PROXY_VARIABLES + 'node -e "' + script.replace(OK, "evil.test") + '"', *allow(origin.port)).status != 0
    assert len(origin.requests()) == 1


JAVA = """import java.net.URI;
import java.net.http.*;
public class Get {
    public static void main(String[] a) throws Exception {
        var client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        System.out.print(client.send(HttpRequest.newBuilder(URI.create(a[0])).build(), HttpResponse.BodyHandlers.ofString()).body());
    }
}
"""


@pytest.mark.exact_build
@pytest.mark.anybody
def test_java_client_that_knows_no_proxy(inside, work, origin):
    (work / "Get.java").write_text(JAVA)
    result = inside(NO_PROXY_VARIABLES + f"java -Xmx128m -XX:TieredStopAtLevel=1 Get.java http://{OK}:{origin.port}/", *allow(origin.port),
                    timeout=120 * SLOW)
    assert result.check().text == "origin\n"
    assert inside(f"java -Xmx128m -XX:TieredStopAtLevel=1 Get.java http://evil.test:{origin.port}/", *allow(origin.port), timeout=120 * SLOW).status != 0
    assert len(origin.requests()) == 1


def test_psql_by_name(inside, postgres):  # noqa: F811
    psql = f"PGCONNECT_TIMEOUT=20 psql -X -q -A -t -h HOST -p {postgres} -U tester -d postgres -c 'select sum(n) from generate_series(1, 1000) n'"
    wait_until(lambda: inside(psql.replace("HOST", OK), *allow(postgres)).text == "500500\n", 20 * SLOW, "an answer", every=0.2)
    assert inside(psql.replace("HOST", "evil.test"), *allow(postgres)).status == 2


def test_http_on_the_socks_port(inside, origin):
    """Some programs take ALL_PROXY for an HTTP proxy whatever its scheme says."""
    get = "curl -sS -m 20 -x http://127.0.0.1:1080 -w ' %{http_code}' "
    assert inside(f"{get} http://{OK}:{origin.port}/; {get} -p http://{OK}:{origin.port}/", *allow(origin.port)).check().text == "origin\n 200origin\n 200"
    assert "403" in inside(f"{get} http://evil.test:{origin.port}/", *allow(origin.port)).text
    assert len(origin.requests()) == 2


CHROMIUM = ("chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
            "--disable-component-update --disable-sync --user-data-dir=/tmp/profile --virtual-time-budget=5000 --timeout=30000 --dump-dom")


@pytest.mark.exact_build
def test_chromium_loads_a_page(inside, make_origin):
    page = b"<html><body><p id=p>plain</p><script>document.getElementById('p').textContent = 'ran ' + 6 * 7</script></body></html>"
    origin = make_origin(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(page) + page)
    result = inside(f"{CHROMIUM} http://{OK}:{origin.port}/ 2>/tmp/noise || tail -5 /tmp/noise", *allow(origin.port), timeout=120)
    assert '<p id="p">ran 42</p>' in result.text, result


class Terminal:
    """A program under a terminal of its own; what it shows, and keys for it."""

    def __init__(self, argv, env, cwd):
        self.shown = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(argv[0], [str(a) for a in argv], env)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    def read(self, seconds=0.1):
        while select.select([self.fd], [], [], seconds)[0]:
            try:
                got = os.read(self.fd, 65536)
            except OSError:
                return False
            if not got:
                return False
            self.shown += got
        return True

    def expect(self, text, seconds=20):
        end = time.monotonic() + seconds * SLOW
        while text not in self.shown:
            alive = self.read()
            assert text in self.shown or (alive and time.monotonic() < end), f"{text!r} was not shown: {self.shown[-500:]!r}"
        self.shown = self.shown.split(text, 1)[1]

    def keys(self, text):
        os.write(self.fd, text)

    def wait(self, seconds=20):
        end = time.monotonic() + seconds * SLOW
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            self.read(0.05)
        raise AssertionError(f"it does not end: {self.shown[-500:]!r}")

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def terminal(closing, environment, work):
    return lambda *words: closing(Terminal([str(program("bailey")), "run", "--quiet", "--", *words], {**environment, "TERM": "xterm"}, work))


def test_less(terminal, work):
    (work / "long").write_text("".join(f"line {n}\n" for n in range(1, 200)))
    screen = terminal("less", "-S", "long")
    screen.expect(b"line 23")
    screen.keys(b"G")
    screen.expect(b"line 199")
    screen.keys(b"q")
    assert screen.wait() == 0


def test_vim(terminal, work):
    screen = terminal(shutil.which("vim") or "vim.tiny", "-u", "NONE", "-N", "text")
    screen.expect(b"text")
    screen.keys(b"ihello from vim\x1b")
    time.sleep(0.3)
    screen.keys(b":wq\r")
    assert screen.wait() == 0
    assert (work / "text").read_text() == "hello from vim\n"


def test_dev_server_out_and_host_port_in(start, home, work, origin, free_port):
    """A busy server inside, seen outside; and a server outside, seen inside."""
    port = free_port()
    (work / "page").write_text("page\n" * 1000)
    child = start(["bailey", "run", "--publish", f"{port}:8000", "--host-port", str(origin.port), "--", "sh", "-c",
                   f"curl -sS -m 20 http://127.0.0.1:{origin.port}/ && exec /usr/bin/python3 -m http.server --bind 127.0.0.1 8000"], cwd=work)
    wait_until(lambda: b"origin" in child.output() or not child.running(), 20 * SLOW, "the server outside")

    def fetch():
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/page", timeout=20).read()
        except OSError:
            return b""
    wait_until(lambda: fetch() == b"page\n" * 1000, 20 * SLOW, "the server inside", every=0.1)
    answers = []
    threads = [threading.Thread(target=lambda: answers.extend(fetch() for _ in range(10))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [b"page\n" * 1000] * 80
    child.signal(signal.SIGTERM)
    assert child.wait().status == 143
