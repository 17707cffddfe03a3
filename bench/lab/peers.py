# SPDX-License-Identifier: Apache-2.0
"""The peers: how each is started. Access logs and caches are off, limits are out of the way, and as many threads as Bailey has.
Bailey's rows beside them are those of one worker; the same with as many as it makes by itself stand in tables of their own."""
import json
import os
import shutil
import subprocess

from . import configs
from .certificates import Authority
from .machine import Daemon, LabError, descriptors, installed

NAMES = ("origin", "relay", "relay_splice", "bailey_http", "bailey_socks", "haproxy_http", "haproxy_tcp", "haproxy_splice", "tinyproxy", "squid",
         "microsocks", "dante", "bailey_dns", "unbound", "dnsmasq", "tls_origin", "fresh_origin", "nginx_tcp", "nginx_bridge", "nginx_reuse",
         "haproxy_bridge", "sslsplit", "sslsplit_fresh", "squid_bump", "mitmproxy", "mitm_tunnels", "mitm_socks", "privoxy", "bailey_tls", "bailey_default", "bailey_default_socks",
         "bailey_default_tls", "srt", "srt_tls", "bailey_listed", "bailey_listed_dns", "haproxy_few", "haproxy_exact", "haproxy_suffix", "squid_listed",
         "tinyproxy_listed", "privoxy_listed", "srt_listed", "unbound_listed", "dnsmasq_listed",
         "h2_origin", "h2_front", "haproxy_h2", "haproxy_h2_bridge", "nginx_h2", "nghttpx")
PORT = {name: 8080 + i for i, name in enumerate(NAMES)}
ORIGIN = f"127.0.0.1:{PORT['origin']}"
TLS_ORIGIN = f"127.0.0.1:{PORT['tls_origin']}"
ZONE = "lab.example.com"
NAMED_ORIGIN = f"origin.{ZONE}:{PORT['origin']}"
LISTED_ZONE = "listed.example.org"
LISTED = 100000  # names that are refused, some of them in the zone
SECURE_ZONE = "secure.example.net"
SECURE_HOST = f"api.{SECURE_ZONE}"
TOKEN = "lab_4f9Kq2Zt7Rw1Xb8Nc3Vm6Jd5Hs0Pg"
DNS_NAMES = 1000
FRESH_HOSTS = 1500  # enough for every repetition to be tried three times
CONNECTIONS = min(10000, descriptors() // 2 - 100)  # a proxy has two descriptors for each, and some more
BULK_FILE = 1 << 30
UDP = ("unbound", "dnsmasq", "unbound, listed", "dnsmasq, listed")


class Lab:
    """Every server of the lab, started when it is first needed."""

    def __init__(self, build, run, fresh_hosts=FRESH_HOSTS, program=None):
        self.build, self.run, self.daemons, self.broken = build, run, {}, {}
        self.program = program or installed(build)
        run.mkdir(parents=True, exist_ok=True)
        self.authority = Authority(run / "tls")
        self.fresh = [f"h{i}.{SECURE_ZONE}" for i in range(fresh_hosts)]
        for name in [SECURE_HOST, *self.fresh]:
            self.authority.leaf(name)
        self.authority.bundle(SECURE_HOST)
        self._write_configs()
        self._write_files()

    def _write_configs(self):
        words = dict(PORT, run=self.run, zone=ZONE, secure_zone=SECURE_ZONE, host=SECURE_HOST, token=TOKEN, connections=CONNECTIONS + 10, name="plain", more="")
        texts = {"haproxy": configs.HAPROXY, "tinyproxy": configs.TINYPROXY, "squid": configs.SQUID + configs.SQUID_PLAIN, "dante": configs.DANTE,
                 "unbound": configs.UNBOUND, "dnsmasq": configs.DNSMASQ, "policy": configs.POLICY, "secure": configs.SECURE_POLICY, "privoxy": configs.PRIVOXY,
                 "squid-bump": configs.SQUID + configs.SQUID_BUMP, "tls-origin": configs.NGINX + configs.ORIGIN_TLS, "nginx": configs.NGINX + configs.NGINX_BRIDGE + configs.NGINX_H2,
                 "haproxy-lists": configs.HAPROXY_LISTS, "tinyproxy-listed": configs.TINYPROXY.replace("{tinyproxy}", "{tinyproxy_listed}") + configs.TINYPROXY_LISTED,
                 "squid-listed": configs.SQUID_LISTED + configs.SQUID, "unbound-listed": configs.UNBOUND_LISTED, "dnsmasq-listed": configs.DNSMASQ_LISTED}
        for name, text in texts.items():
            (self.run / f"{name}.conf").write_text(text.format(**dict(words, name=name, port=PORT["privoxy"])))
        (self.run / "fresh-origins.conf").write_text("".join(configs.FRESH_ORIGIN.format(**dict(words, host=name)) for name in self.fresh))
        (self.run / "privoxy-listed.conf").write_text(configs.PRIVOXY.format(**dict(words, port=PORT["privoxy_listed"], more="actionsfile listed.action")))
        (self.run / "srt.mjs").write_text(configs.SRT.format())

    def _write_files(self):
        run = self.run
        lines = [f"192.0.2.7 h{i}.{ZONE}\n" for i in range(DNS_NAMES)] + [f"127.0.0.1 {SECURE_HOST}\n", f"127.0.0.1 origin.{ZONE}\n"]
        lines += [f"127.0.0.1 {name}\n" for name in self.fresh]
        (run / "hosts").write_text("127.0.0.1 localhost\n" + "".join(lines))
        (run / "names").write_text("".join(f"host{i}.example{i % 89}.org\n" for i in range(1000)))
        for folder in ("www", "squid", "privoxy", "mitmproxy"):
            (run / folder).mkdir(exist_ok=True)
        self._write_lists()
        for size in (64, 1024):
            (run / f"www/{size}").write_bytes(os.urandom(size))
        with open(run / f"www/{BULK_FILE}", "wb") as file:
            file.truncate(BULK_FILE)
        if shutil.which("squid"):
            maker = "/usr/lib/squid/security_file_certgen"
            if os.path.exists(maker):
                subprocess.run([maker, "-c", "-s", run / "squid/certificates", "-M", "16MB"], check=False, capture_output=True)
            subprocess.run(["chown", "-R", "proxy", run / "squid"], check=False, capture_output=True)

    def _write_lists(self):
        """The same names for everybody, each as it wants them."""
        names = [f"h{i}.{LISTED_ZONE}" for i in range(DNS_NAMES)]
        names += [f"{'www.' if i % 3 == 0 else ''}d{i * 2654435761 % 2**32:08x}-{i}.{('com', 'net', 'org', 'io', 'dev')[i % 5]}" for i in range(LISTED - DNS_NAMES)]
        forms = {"listed": "{}\n", "listed-dot": ".{}\n", "privoxy/listed.action": ".{}\n", "listed-dnsmasq": "address=/{}/\n",
                 "listed-unbound": 'local-zone: "{}" always_refuse\n'}
        for file, form in forms.items():
            first = "{+block{lab}}\n" if file.endswith("action") else ""
            (self.run / file).write_text(first + "".join(form.format(name) for name in names))

    def see_names(self):
        """Programs that ask the system for names get the lab's. Only where the lab has a mount namespace of its own."""
        subprocess.run(["mount", "--bind", self.run / "hosts", "/etc/hosts"], check=True)

    def _bailey(self, policy, audit, workers, http, *more):
        return [self.program, "gateway", "--json", "--no-workspace-policy", "--policy", self.run / policy, "--hosts", self.run / "hosts",
                "--audit", audit, *(["--workers", str(workers)] if workers else []), "--http", f"127.0.0.1:{PORT[http]}", *more]

    def commands(self):
        tools, run, p = self.build / "bench", self.run, PORT
        names = ["--allow-file", run / "names"]
        trust = ["--ca-bundle", self.authority.file]
        mitm = ["mitmdump", "-q", "--listen-host", "127.0.0.1", "--set", f"confdir={run / 'mitmproxy'}", "--set", "stream_large_bodies=1m",
                "--set", f"ssl_verify_upstream_trusted_ca={self.authority.file}", "--set", "connection_strategy=eager"]
        srt = ["node", run / "srt.mjs", str(srt_place(self.build))]
        return {
            "origin": ([tools / "lab-origin", ORIGIN], "origin"),
            "tls-origin": (["nginx", "-p", run, "-c", run / "tls-origin.conf"], "tls_origin"),
            "relay": ([tools / "lab-relay", f"127.0.0.1:{p['relay']}"], "relay"),
            "relay, splice": ([tools / "lab-relay", f"127.0.0.1:{p['relay_splice']}", "splice"], "relay_splice"),
            "bailey": (self._bailey("policy.conf", run / "audit.jsonl", 1, "bailey_http", "--socks", f"127.0.0.1:{p['bailey_socks']}",
                                    "--dns", f"127.0.0.1:{p['bailey_dns']}", *names), "bailey_http"),
            "bailey, default workers": (self._bailey("policy.conf", run / "default.jsonl", None, "bailey_default", "--socks", f"127.0.0.1:{p['bailey_default_socks']}", *names),
                                        "bailey_default"),
            "bailey, intercepting": (self._bailey("secure.conf", run / "secure.jsonl", 1, "bailey_tls", *trust), "bailey_tls"),
            "bailey, intercepting, default workers": (self._bailey("secure.conf", run / "secure-default.jsonl", None, "bailey_default_tls", *trust), "bailey_default_tls"),
            "bailey, listed": (self._bailey("policy.conf", run / "listed.jsonl", 1, "bailey_listed", "--dns", f"127.0.0.1:{p['bailey_listed_dns']}",
                                            "--deny-file", run / "listed"), "bailey_listed"),
            "haproxy, lists": (["haproxy", "-db", "-f", run / "haproxy-lists.conf"], "haproxy_few"),
            "squid, listed": (["squid", "-N", "-f", run / "squid-listed.conf"], "squid_listed"),
            "tinyproxy, listed": (["tinyproxy", "-d", "-c", run / "tinyproxy-listed.conf"], "tinyproxy_listed"),
            "privoxy, listed": (["privoxy", "--no-daemon", run / "privoxy-listed.conf"], "privoxy_listed"),
            "srt, listed": ([*srt, str(p["srt_listed"]), "", run / "listed"], "srt_listed"),
            "unbound, listed": (["unbound", "-d", "-c", run / "unbound-listed.conf"], "unbound_listed"),
            "dnsmasq, listed": (["dnsmasq", "-k", "-C", run / "dnsmasq-listed.conf"], "dnsmasq_listed"),
            "haproxy": (["haproxy", "-db", "-f", run / "haproxy.conf"], "haproxy_http"),
            "tinyproxy": (["tinyproxy", "-d", "-c", run / "tinyproxy.conf"], "tinyproxy"),
            "privoxy": (["privoxy", "--no-daemon", run / "privoxy.conf"], "privoxy"),
            "squid": (["squid", "-N", "-f", run / "squid.conf"], "squid"),
            "squid, bumping": (["squid", "-N", "-f", run / "squid-bump.conf"], "squid_bump"),
            "nginx": (["nginx", "-p", run, "-c", run / "nginx.conf"], "nginx_tcp"),
            "sslsplit": (["sslsplit", "-k", run / "tls/ca.key", "-c", run / "tls/ca.crt", "-K", run / "tls/leaf.key", "-u", "root", "-P",
                          "ssl", "127.0.0.1", str(p["sslsplit"]), "127.0.0.1", str(p["tls_origin"]),
                          "ssl", "127.0.0.1", str(p["sslsplit_fresh"]), "127.0.0.1", str(p["fresh_origin"])], "sslsplit"),
            "nghttpx": (["nghttpx", "--conf=/dev/null", f"-f127.0.0.1,{p['nghttpx']}", f"-b127.0.0.1,{p['h2_origin']};;proto=h2;tls;sni={SECURE_HOST}", "-n1", "-k",
                         "--accesslog-file=/dev/null", run / "tls/leaf.key", run / f"tls/{SECURE_HOST}.crt"], "nghttpx"),
            "mitmproxy": ([*mitm, "-p", str(p["mitmproxy"])], "mitmproxy"),
            "mitmproxy, tunnels": ([*mitm, "-p", str(p["mitm_tunnels"]), "--ignore-hosts", ".*"], "mitm_tunnels"),
            "mitmproxy, socks": ([*mitm, "-p", str(p["mitm_socks"]), "--mode", "socks5", "--ignore-hosts", ".*"], "mitm_socks"),
            "srt": ([*srt, str(p["srt"])], "srt"),
            "srt, intercepting": ([*srt, str(p["srt_tls"]), str(self.authority.file)], "srt_tls"),
            "microsocks": (["microsocks", "-i", "127.0.0.1", "-p", str(p["microsocks"])], "microsocks"),
            "dante": (["danted", "-f", run / "dante.conf", "-p", run / "dante.pid"], "dante"),
            "unbound": (["unbound", "-d", "-c", run / "unbound.conf"], "unbound"),
            "dnsmasq": (["dnsmasq", "-k", "-C", run / "dnsmasq.conf"], "dnsmasq"),
        }

    def start(self, name):
        """The daemon; LabError where it is not installed or does not start, which is found out once."""
        if name in self.daemons and self.daemons[name].alive:
            return self.daemons[name]
        if name in self.broken:
            raise LabError(self.broken[name])
        argv, port = self.commands()[name]
        try:
            if not shutil.which(str(argv[0])) or (name.startswith("srt") and not srt_place(self.build).is_dir()):
                raise LabError(f"{name} is not installed")
            env = dict(os.environ, LAB_TOKEN=TOKEN, TMPDIR=str(self.run))
            self.daemons[name] = Daemon(name.replace(", ", "-").replace("/", "-"), argv, PORT[port], self.run, udp=name in UDP, env=env)
        except LabError as error:
            self.broken[name] = str(error)
            raise
        return self.daemons[name]

    def told(self, name):
        """What one of Bailey's gateways said when it was ready."""
        for line in self.daemons[name].log.read_text().splitlines():
            if line.startswith("{"):
                return json.loads(line)
        raise LabError(f"{name} said nothing about its credentials")

    def token_for(self, name):
        """What a client sends through this server: Bailey's clients have a stand-in, and Bailey puts the real one in its place."""
        if not name.startswith("bailey"):
            return TOKEN
        stand_in = self.told(name)["env"]["LAB_TOKEN"]
        if stand_in == TOKEN:
            raise LabError("the stand-in is the real token")
        return stand_in

    def pids(self, *names):
        return [self.daemons[name].pid for name in names if name in self.daemons]

    def end(self, *names):
        for name in names:
            if name in self.daemons:
                self.daemons.pop(name).stop()

    def restart(self, name):
        self.end(name)
        return self.start(name)

    def close(self):
        self.end(*list(self.daemons))


def npm_place(build):
    return build / "npm/node_modules"


def srt_place(build):
    return npm_place(build) / "@anthropic-ai/sandbox-runtime/dist/sandbox"


def npm_version(build, package):
    try:
        return json.loads((npm_place(build) / package / "package.json").read_text())["version"]
    except OSError:
        return None


def version(argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return (done.stdout + done.stderr).strip().split("\n")[0][:80]


def versions(build, wanted=()):
    asked = {
        "bailey": [installed(build), "version"], "haproxy": ["haproxy", "-v"], "squid": ["squid", "-v"], "tinyproxy": ["tinyproxy", "-v"],
        "privoxy": ["privoxy", "--version"], "nginx": ["nginx", "-v"], "sslsplit": ["sslsplit", "-V"], "mitmproxy": ["mitmdump", "--version"],
        "microsocks": ["dpkg-query", "-W", "microsocks"], "dante": ["danted", "-v"], "unbound": ["unbound", "-V"], "dnsmasq": ["dnsmasq", "-v"],
        "bubblewrap": ["bwrap", "--version"], "crun": ["crun", "--version"], "runc": ["runc", "--version"], "firejail": ["firejail", "--version"],
        "util-linux": ["unshare", "--version"], "curl": ["curl", "--version"], "nghttp2": ["h2load", "--version"], "node": ["node", "--version"],
    }
    found = {name: text for name, text in ((n, version(a)) for n, a in asked.items() if not wanted or n in wanted) if text}
    if wanted:
        return found
    for name, package in (("srt", "@anthropic-ai/sandbox-runtime"), ("codex", "@openai/codex")):
        text = npm_version(build, package)
        found[name] = f"{package} {text}" if text else "not installable here: npm or the registry is missing"
    return found
