# SPDX-License-Identifier: Apache-2.0
"""What the servers of the lab are told. Ports and places are filled in by peers.py."""

HAPROXY = """
global
  maxconn {connections}
  maxpipes 36
  nbthread 1
  ssl-server-verify none
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
  http-request set-uri %[pathq] if absolute
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
frontend bridge
  mode tcp
  bind 127.0.0.1:{haproxy_bridge} ssl crt {run}/tls/{host}.pem backlog 4096
  default_backend origin_bridge
backend origin_bridge
  mode tcp
  server origin 127.0.0.1:{tls_origin} ssl verify none no-ssl-reuse sni str({host})
frontend bridge2
  mode tcp
  bind 127.0.0.1:{haproxy_h2_bridge} ssl crt {run}/tls/{host}.pem alpn h2 backlog 4096
  default_backend origin_bridge2
backend origin_bridge2
  mode tcp
  server origin 127.0.0.1:{h2_origin} ssl verify none alpn h2 sni str({host})
frontend http2
  mode http
  bind 127.0.0.1:{haproxy_h2} ssl crt {run}/tls/{host}.pem alpn h2 backlog 4096
  default_backend origin_http2
backend origin_http2
  mode http
  server origin 127.0.0.1:{h2_origin} ssl verify none alpn h2 sni str({host})
"""

# With and without a list; the origin is fixed, and the cache of patterns is off: programs ask for more than one name.
HAPROXY_LISTS = """
global
  maxconn {connections}
  nbthread 1
  tune.pattern.cache-size 0
defaults
  mode http
  timeout connect 10s
  timeout client 600s
  timeout server 600s
frontend few
  bind 127.0.0.1:{haproxy_few} backlog 4096
  http-request set-path %[path]
  default_backend origin
frontend exact
  bind 127.0.0.1:{haproxy_exact} backlog 4096
  acl listed req.hdr(host),field(1,:),lower -m str -f {run}/listed
  http-request deny if listed
  http-request set-path %[path]
  default_backend origin
frontend suffix
  bind 127.0.0.1:{haproxy_suffix} backlog 4096
  acl listed req.hdr(host),field(1,:),lower -m end -f {run}/listed-dot
  http-request deny if listed
  http-request set-path %[path]
  default_backend origin
backend origin
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

TINYPROXY_LISTED = """
Filter "{run}/listed"
FilterType fnmatch
FilterDefaultDeny No
"""

SQUID_PLAIN = """
http_port 127.0.0.1:{squid}
"""

SQUID_LISTED = """
http_port 127.0.0.1:{squid_listed}
acl listed dstdomain "{run}/listed-dot"
http_access deny listed
"""

# Bumping: looks at the name, then makes a certificate like the origin's.
SQUID_BUMP = """
http_port 127.0.0.1:{squid_bump} ssl-bump tls-cert={run}/tls/ca.pem generate-host-certificates=on dynamic_cert_mem_cache_size=16MB
sslcrtd_program /usr/lib/squid/security_file_certgen -s {run}/squid/certificates -M 16MB
sslcrtd_children 4 startup=2 idle=1
tls_outgoing_options cafile={run}/tls/ca.crt
acl step1 at_step SslBump1
ssl_bump peek step1
ssl_bump bump all
"""

SQUID = """
acl local src 127.0.0.0/8
http_access allow local
http_access deny all
cache deny all
cache_mem 8 MB
access_log none
cache_log {run}/squid/{name}.log
cache_store_log none
pid_filename {run}/squid/{name}.pid
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

# Names that are refused: the list is added by peers.py.
UNBOUND_LISTED = """
server:
  interface: 127.0.0.1@{unbound_listed}
  port: {unbound_listed}
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{run}"
  pidfile: "{run}/unbound-listed.pid"
  use-syslog: no
  logfile: ""
  verbosity: 0
  num-threads: 1
  module-config: "iterator"
  access-control: 127.0.0.0/8 allow
  include: "{run}/listed-unbound"
remote-control:
  control-enable: no
"""

DNSMASQ_LISTED = """
port={dnsmasq_listed}
listen-address=127.0.0.1
bind-interfaces
no-resolv
no-hosts
user=root
pid-file={run}/dnsmasq-listed.pid
cache-size=0
conf-file={run}/listed-dnsmasq
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
  limits: {{ connections: 20000 }}
  deny_cidrs: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8"] # the answers of the DNS runs are documentation addresses
"""

# What is intercepted: a token for every host of the zone. The origin answers only to the real one.
SECURE_POLICY = """
network:
  allow_private: ["127.0.0.1:{tls_origin}", "127.0.0.1:{h2_origin}", "127.0.0.1:{fresh_origin}"]
  limits: {{ connections: 20000 }}
credentials:
  - name: lab
    env: LAB_TOKEN
    source: env:LAB_TOKEN
    slot: bearer
    hosts: ["*.{secure_zone}:{tls_origin}", "*.{secure_zone}:{h2_origin}", "*.{secure_zone}:{fresh_origin}"]
"""

NGINX = """
load_module /usr/lib/nginx/modules/ngx_stream_module.so;
user root;
worker_processes 1;
pid {run}/{name}.pid;
error_log {run}/{name}.err error;
daemon off;
events {{ worker_connections 9900; multi_accept on; }}
"""

# The origin with TLS. For hosts never seen each name has a certificate of its own: some peers copy the origin's. All are read when it starts: an
# origin that reads certificate and key for each connection takes longer for it than for the handshake, and hides what a proxy takes.
ORIGIN_TLS = """
http {{
  access_log off; sendfile on; sendfile_max_chunk 2m; tcp_nopush on; tcp_nodelay on;
  keepalive_timeout 600; keepalive_requests 100000000; server_tokens off; default_type application/octet-stream;
  open_file_cache max=100 inactive=600s;
  client_body_temp_path {run}/t1; proxy_temp_path {run}/t2; fastcgi_temp_path {run}/t3; uwsgi_temp_path {run}/t4; scgi_temp_path {run}/t5;
  ssl_protocols TLSv1.2 TLSv1.3; ssl_session_tickets on; ssl_session_cache shared:S:4m; ssl_buffer_size 16k;
  ssl_certificate_key {run}/tls/leaf.key;
  server {{
    listen 127.0.0.1:{tls_origin} ssl backlog=4096;
    listen 127.0.0.1:{h2_origin} ssl http2 backlog=4096;
    ssl_certificate {run}/tls/{host}.crt;
    location / {{ root {run}/www; if ($http_authorization != "Bearer {token}") {{ return 403; }} }}
  }}
  server_names_hash_max_size 8192;
  include {run}/fresh-origins.conf;
}}
"""

FRESH_ORIGIN = """
  server {{
    listen 127.0.0.1:{fresh_origin} ssl; server_name {host};
    ssl_certificate {run}/tls/{host}.crt;
    location / {{ root {run}/www; if ($http_authorization != "Bearer {token}") {{ return 403; }} }}
  }}
"""

# Ends TLS and begins it again, with one fixed certificate, without looking at what goes through: the limit for interception.
NGINX_BRIDGE = """
stream {{
  proxy_timeout 600s; proxy_buffer_size 64k; tcp_nodelay on;
  server {{ listen 127.0.0.1:{nginx_tcp} backlog=4096; proxy_pass 127.0.0.1:{origin}; }}
  server {{
    listen 127.0.0.1:{nginx_bridge} ssl backlog=4096;
    ssl_certificate {run}/tls/{host}.crt; ssl_certificate_key {run}/tls/leaf.key; ssl_protocols TLSv1.2 TLSv1.3;
    proxy_ssl on; proxy_ssl_session_reuse off; proxy_ssl_protocols TLSv1.2 TLSv1.3; proxy_ssl_name {host}; proxy_ssl_server_name on;
    proxy_pass 127.0.0.1:{tls_origin};
  }}
  server {{
    listen 127.0.0.1:{nginx_reuse} ssl backlog=4096;
    ssl_certificate {run}/tls/{host}.crt; ssl_certificate_key {run}/tls/leaf.key; ssl_protocols TLSv1.2 TLSv1.3;
    proxy_ssl on; proxy_ssl_session_reuse on; proxy_ssl_protocols TLSv1.2 TLSv1.3; proxy_ssl_name {host}; proxy_ssl_server_name on;
    proxy_pass 127.0.0.1:{tls_origin};
  }}
}}
"""

# HTTP/2 on its front. To the origin it speaks HTTP/1.1: it cannot otherwise.
NGINX_H2 = """
http {{
  access_log off; tcp_nodelay on; keepalive_timeout 600; keepalive_requests 100000000; server_tokens off;
  client_body_temp_path {run}/n1; proxy_temp_path {run}/n2; fastcgi_temp_path {run}/n3; uwsgi_temp_path {run}/n4; scgi_temp_path {run}/n5;
  upstream origin {{ server 127.0.0.1:{tls_origin}; keepalive 256; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{nginx_h2} ssl http2 backlog=4096;
    ssl_certificate {run}/tls/{host}.crt; ssl_certificate_key {run}/tls/leaf.key; ssl_protocols TLSv1.2 TLSv1.3;
    location / {{
      proxy_pass https://origin; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host {host};
      proxy_ssl_server_name on; proxy_ssl_name {host};
    }}
  }}
}}
"""

PRIVOXY = """
confdir {run}/privoxy
{more}
logdir {run}/privoxy
templdir /etc/privoxy/templates
listen-address 127.0.0.1:{port}
toggle 1
keep-alive-timeout 300
default-server-timeout 300
connection-sharing 1
socket-timeout 600
max-client-connections 12000
listen-backlog 4096
buffer-limit 4096
debug 4096
"""

# srt's own proxies, from its package, with its own way to look a name up in a list.
SRT = """
import fs from "node:fs";
const [,, dist, port, authority, list] = process.argv;
const {{ createHttpProxyServer }} = await import(dist + "/http-proxy.js");
const {{ createSocksProxyServer }} = await import(dist + "/socks-proxy.js");
const {{ createMuxProxyServer }} = await import(dist + "/mux-proxy.js");
const listed = list ? fs.readFileSync(list, "utf8").trim().split("\\n") : [];
const {{ matchesDomainPattern }} = await import(dist + "/domain-pattern.js");
const filter = async (port, host) => !listed.some(pattern => matchesDomainPattern(host, pattern));
const options = {{ filter }};
if (authority) {{
  const {{ createMitmCA }} = await import(dist + "/mitm-ca.js");
  options.mitmCA = createMitmCA({{}});
  options.tlsTerminateUpstreamCA = fs.readFileSync(authority);
}}
const socks = createSocksProxyServer({{ filter }});
const mux = createMuxProxyServer({{ httpServer: createHttpProxyServer(options), handleSocksConnection: s => socks.handleConnection(s) }});
await mux.listenHttpBackend();
mux.server.listen({{ port: +port, host: "127.0.0.1", backlog: 4096 }});
"""
