# SPDX-License-Identifier: Apache-2.0
"""A git server as people run them: nginx with TLS in front of fcgiwrap and git http-backend. It records what reaches it."""
import atexit
import functools
import http.server
import json
import os
import pathlib
import shutil
import tempfile
import threading

from .git import git
from .process import SLOW, wait_until

CONFIG = """{user} daemon off; pid {dir}/pid; error_log {dir}/error.log; worker_processes 1; events {{ }}
http {{
  log_format all escape=json '{{"method":"$request_method","uri":"$request_uri","length":$request_length,"status":$status,'
                             '"protocol":"$server_protocol","auth":"$http_authorization"}}';
  access_log {dir}/access.log all;
  client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c; uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e;
  client_max_body_size 0;
  server {{
    listen 127.0.0.1:{port} ssl{http2}; ssl_certificate {pem}; ssl_certificate_key {pem};
    location /moved/ {{ rewrite ^/moved/(.*)$ /acme/prod.git/$1 redirect; }}
    location ~ /info/lfs/ {{ proxy_pass http://127.0.0.1:{lfs}; proxy_set_header Host $http_host; proxy_request_buffering off; }}
    location = /graphql {{ proxy_pass http://127.0.0.1:{lfs}; proxy_set_header Host $http_host; }}
    location = /page {{ default_type text/plain; return 200 "a page\\n"; }}
    location / {{
      fastcgi_pass unix:{dir}/socket; fastcgi_request_buffering off; fastcgi_buffering off; fastcgi_read_timeout 600;
      fastcgi_param SCRIPT_FILENAME /usr/lib/git-core/git-http-backend; fastcgi_param GIT_PROJECT_ROOT {dir}/repositories;
      fastcgi_param GIT_HTTP_EXPORT_ALL 1; fastcgi_param PATH_INFO $uri; fastcgi_param QUERY_STRING $query_string;
      fastcgi_param REQUEST_METHOD $request_method; fastcgi_param CONTENT_TYPE $content_type; fastcgi_param CONTENT_LENGTH $content_length;
      fastcgi_param REMOTE_USER x; fastcgi_param REMOTE_ADDR 127.0.0.1; fastcgi_param HTTP_CONTENT_ENCODING $http_content_encoding;
      fastcgi_param GIT_PROTOCOL $http_git_protocol; fastcgi_param GIT_CONFIG_NOSYSTEM 1;
    }}
  }}
}}
"""


class Forge:
    """forge.make("acme/app") is a bare repository with two commits on main; forge.requests() what nginx has served."""

    def __init__(self, start, authority, directory, host, port, lfs=9, http2=False):
        self.directory, self.host, self.port = directory, host, port
        self.repositories = directory / "repositories"
        self.repositories.mkdir(parents=True)
        (directory / "nginx.conf").write_text(CONFIG.format(
            user="user root;" if os.geteuid() == 0 else "", dir=directory, port=port, lfs=lfs, http2=" http2" if http2 else "",
            pem=authority.issue(host)))
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": str(directory)}
        self.wrap = start(["fcgiwrap", "-s", f"unix:{directory}/socket"], env=environment)
        self.nginx = start(["nginx", "-e", directory / "error.log", "-p", directory, "-c", directory / "nginx.conf"])
        wait_until(lambda: not self.nginx.running() or ((directory / "pid").exists() and (directory / "socket").exists()), 30 * SLOW, "nginx")
        assert self.nginx.running(), (directory / "error.log").read_text()

    def url(self, name, user=""):
        return f"https://{user}{self.host}:{self.port}/{name}"

    def make(self, name, work, *options):
        """A bare repository, and one beside it that it was pushed from: made once for all tests, and copied."""
        bare, seed = self.repositories / f"{name}.git", work / f"seed-{name.replace('/', '-')}"
        model = _model(options)
        for source, target in ((f"{model}/bare", bare), (f"{model}/seed", seed)):
            shutil.copytree(source, target, symlinks=True)
        return bare

    def refs(self, name):
        done = git("for-each-ref", "--format=%(refname) %(objectname)", cwd=self.repositories / f"{name}.git", check=True)
        return dict(line.split() for line in done.stdout.splitlines())

    def requests(self):
        path = self.directory / "access.log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def forget(self):
        (self.directory / "access.log").write_text("")


@functools.lru_cache(maxsize=None)
def _model(options):
    place = pathlib.Path(tempfile.mkdtemp(prefix="bailey-forge-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    bare, seed = place / "bare", place / "seed"
    for words in (["init", "-q", "--bare", *options, bare], ["init", "-q", *options, seed]):
        git(*words, cwd=place, check=True)
    for key, value in {"http.receivepack": "true", "receive.advertisePushOptions": "true", "receive.certNonceSeed": "a seed",
                       "uploadpack.allowFilter": "true", "uploadpack.allowAnySHA1InWant": "true"}.items():
        git("config", key, value, cwd=bare, check=True)
    for number in range(2):
        (seed / "file").write_text(f"{number}\n" * 100)
        git("add", "file", cwd=seed, check=True)
        git("commit", "-qm", f"commit {number}", cwd=seed, check=True)
    git("push", "-q", bare, "HEAD:refs/heads/main", cwd=seed, check=True)
    return str(place)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _reply(self, status, body, kind="application/vnd.git-lfs+json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _handle(self):
        body, store = self._body(), self.server.store
        store.seen.append((self.command, self.path, body))
        if self.path.startswith("/graphql"):
            self._reply(200, b'{"data":{}}', "application/json")
        elif self.path.endswith("/objects/batch"):
            asked, base = json.loads(body), f"https://{self.headers['Host']}{self.path.removesuffix('/batch')}"
            action = asked["operation"]
            objects = [{**o, "authenticated": True, "actions": {action: {"href": f"{base}/{o['oid']}"}}} for o in asked["objects"]]
            self._reply(200, json.dumps({"transfer": "basic", "objects": objects}).encode())
        elif self.path.endswith("/locks/verify"):
            self._reply(200, b'{"ours":[],"theirs":[]}')
        elif self.command == "PUT":
            store.objects[self.path.rsplit("/", 1)[1]] = body
            self._reply(200, b"")
        elif (found := store.objects.get(self.path.rsplit("/", 1)[1])) is not None:
            self._reply(200, found, "application/octet-stream")
        else:
            self._reply(404, b"{}")

    do_GET = do_POST = do_PUT = do_DELETE = _handle


class Store:
    """The LFS server and the GraphQL endpoint behind a forge: store.seen is what reached it."""

    def __init__(self):
        self.seen, self.objects = [], {}
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.server.store, self.server.daemon_threads, self.port = self, True, self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join(10)
        self.server.server_close()
