# SPDX-License-Identifier: Apache-2.0
"""The peers: how each is configured and started. Access logs and caches are off, limits are out of the way, and as many threads as Bailey has."""
import shutil
import subprocess

from .machine import Daemon

PORT = dict(origin=8080, relay=8081, relay_splice=8082, bailey_http=8083, bailey_socks=8084, haproxy_http=8085, haproxy_tcp=8086,
            haproxy_splice=8087, tinyproxy=8088, squid=8089, microsocks=8090, dante=8091, bailey_dns=8092, unbound=8093, dnsmasq=8094)
ORIGIN = f"127.0.0.1:{PORT['origin']}"
ZONE = "lab.example.com"
DNS_NAMES = 1000

HAPROXY = """
global
  maxconn 5500
  nbthread 1
defaults
  timeout connect 10s
  timeout client 600s
  timeout server 600s
  timeout tunnel 600s
frontend forward
  mode http
  bind 127.0.0.1:{haproxy_http} backlog 4096
  acl absolute url_beg http://
  http-request set-dst url_ip if absolute
  http-request set-dst-port url_port if absolute
  http-request set-path %[path] if absolute
  default_backend any
backend any
  mode http
  http-reuse safe
  server any 0.0.0.0:0
frontend tcp
  mode tcp
  bind 127.0.0.1:{haproxy_tcp} backlog 4096
  default_backend origin
backend origin
  mode tcp
  server origin 127.0.0.1:{origin}
frontend splicing
  mode tcp
  bind 127.0.0.1:{haproxy_splice} backlog 4096
  option splice-auto
  default_backend origin_splicing
backend origin_splicing
  mode tcp
  option splice-auto
  server origin 127.0.0.1:{origin}
"""

TINYPROXY = """
Port {tinyproxy}
Listen 127.0.0.1
Timeout 600
MaxClients 12000
LogLevel Critical
LogFile "/dev/null"
DisableViaHeader Yes
Allow 127.0.0.1
"""

SQUID = """
http_port 127.0.0.1:{squid}
acl local src 127.0.0.0/8
http_access allow local
http_access deny all
cache deny all
cache_mem 8 MB
access_log none
cache_log {run}/squid/cache.log
cache_store_log none
pid_filename {run}/squid/pid
coredump_dir {run}/squid
pinger_enable off
via off
forwarded_for delete
max_filedescriptors 20000
dns_nameservers 127.0.0.1
visible_hostname lab.example.com
shutdown_lifetime 0 seconds
half_closed_clients off
netdb_filename none
icp_port 0
"""

DANTE = """
logoutput: /dev/null
errorlog: {run}/dante.err
internal: 127.0.0.1 port = {dante}
external: 127.0.0.1
clientmethod: none
socksmethod: none
user.privileged: root
user.unprivileged: nobody
timeout.io: 600
client pass {{ from: 127.0.0.0/8 to: 0.0.0.0/0 }}
socks pass {{ from: 127.0.0.0/8 to: 0.0.0.0/0 }}
"""

UNBOUND = """
server:
  interface: 127.0.0.1@{unbound}
  port: {unbound}
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{run}"
  pidfile: "{run}/unbound.pid"
  use-syslog: no
  logfile: ""
  verbosity: 0
  num-threads: 1
  module-config: "iterator"
  access-control: 127.0.0.0/8 allow
  local-zone: "{zone}." redirect
  local-data: "{zone}. 60 IN A 192.0.2.7"
remote-control:
  control-enable: no
"""

DNSMASQ = """
port={dnsmasq}
listen-address=127.0.0.1
bind-interfaces
no-resolv
no-hosts
user=root
pid-file={run}/dnsmasq.pid
cache-size=0
address=/{zone}/192.0.2.7
"""

# Groups and names that nothing asks for stand beside what is used, so that lookups are not made in an empty table.
POLICY = """
network:
  allow: ["*.{zone}", "@github", "@npm", "@pypi"]
  deny: ["gist.github.com"]
  allow_private: ["127.0.0.1:{origin}"]
  limits: {{ connections: 12000 }}
  deny_cidrs: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8"] # the answers of the DNS runs are documentation addresses
"""


class Lab:
    """Every server of the lab, started when it is first needed."""

    def __init__(self, build, run):
        self.build, self.run, self.daemons, self.missing = build, run, {}, {}
        run.mkdir(parents=True, exist_ok=True)
        words = dict(PORT, run=run, zone=ZONE)
        for name, text in (("haproxy", HAPROXY), ("tinyproxy", TINYPROXY), ("squid", SQUID), ("dante", DANTE), ("unbound", UNBOUND), ("dnsmasq", DNSMASQ), ("policy", POLICY)):
            (run / f"{name}.conf").write_text(text.format(**words))
        (run / "hosts").write_text("".join(f"192.0.2.7 h{i}.{ZONE}\n" for i in range(DNS_NAMES)))
        (run / "names").write_text("".join(f"host{i}.example{i % 89}.org\n" for i in range(1000)))
        squid = run / "squid"
        squid.mkdir(exist_ok=True)
        if shutil.which("squid"):
            subprocess.run(["chown", "proxy", squid], check=False)

    def commands(self):
        tools, run, p = self.build / "bench", self.run, PORT
        return {
            "origin": ([tools / "lab-origin", ORIGIN], p["origin"]),
            "relay": ([tools / "lab-relay", f"127.0.0.1:{p['relay']}"], p["relay"]),
            "relay, splice": ([tools / "lab-relay", f"127.0.0.1:{p['relay_splice']}", "splice"], p["relay_splice"]),
            "bailey": ([self.build / "src/cli/bailey", "gateway", "--http", f"127.0.0.1:{p['bailey_http']}", "--socks", f"127.0.0.1:{p['bailey_socks']}",
                        "--dns", f"127.0.0.1:{p['bailey_dns']}", "--policy", run / "policy.conf", "--allow-file", run / "names", "--hosts", run / "hosts",
                        "--audit", run / "audit.jsonl", "--workers", "1", "--no-workspace-policy"], p["bailey_http"]),
            "haproxy": (["haproxy", "-db", "-f", run / "haproxy.conf"], p["haproxy_http"]),
            "tinyproxy": (["tinyproxy", "-d", "-c", run / "tinyproxy.conf"], p["tinyproxy"]),
            "squid": (["squid", "-N", "-f", run / "squid.conf"], p["squid"]),
            "microsocks": (["microsocks", "-i", "127.0.0.1", "-p", str(p["microsocks"])], p["microsocks"]),
            "dante": (["danted", "-f", run / "dante.conf", "-p", run / "dante.pid"], p["dante"]),
            "unbound": (["unbound", "-d", "-c", run / "unbound.conf"], p["unbound"]),
            "dnsmasq": (["dnsmasq", "-k", "-C", run / "dnsmasq.conf"], p["dnsmasq"]),
        }

    def start(self, name):
        """The daemon, or None where the program is not installed."""
        if name in self.daemons and self.daemons[name].alive:
            return self.daemons[name]
        argv, port = self.commands()[name]
        if not shutil.which(str(argv[0])):
            self.missing[name] = "not installed"
            return None
        self.daemons[name] = Daemon(name.replace(", ", "-"), argv, port, self.run, udp=name in ("unbound", "dnsmasq"))
        return self.daemons[name]

    def restart(self, name):
        if name in self.daemons:
            self.daemons.pop(name).stop()
        return self.start(name)

    def stop(self):
        for daemon in self.daemons.values():
            daemon.stop()
        self.daemons = {}


def version(argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=5)
    except OSError:
        return None
    return (done.stdout + done.stderr).strip().split("\n")[0][:80]


def versions(build):
    asked = {
        "bailey": [build / "src/cli/bailey", "version"], "haproxy": ["haproxy", "-v"], "squid": ["squid", "-v"], "tinyproxy": ["tinyproxy", "-v"],
        "microsocks": ["dpkg-query", "-W", "microsocks"], "dante": ["danted", "-v"], "unbound": ["unbound", "-V"], "dnsmasq": ["dnsmasq", "-v"],
        "bubblewrap": ["bwrap", "--version"], "crun": ["crun", "--version"], "firejail": ["firejail", "--version"], "util-linux": ["unshare", "--version"],
    }
    return {name: text for name, text in ((n, version(a)) for n, a in asked.items()) if text}
