/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/run_gateway.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>

static const uint16_t kinds[] = {
        [PLAN_LISTENER_HTTP] = LISTENER_HTTP,
        [PLAN_LISTENER_SOCKS5] = LISTENER_SOCKS5,
        [PLAN_LISTENER_DNS_UDP] = LISTENER_DNS_UDP,
        [PLAN_LISTENER_DNS_TCP] = LISTENER_DNS_TCP,
        [PLAN_LISTENER_TRANSPARENT] = LISTENER_TRANSPARENT,
        [PLAN_LISTENER_HOST_PORT] = LISTENER_FORWARD,
};

static int copy_text(char *to, size_t max, const char *text, const char *what, struct err *e) {
        int n = snprintf(to, max, "%s", text ? text : "");
        if (n < 0 || (size_t)n >= max)
                return err_set(e, E2BIG, "%s is longer than %zu bytes", what, max - 1);
        return 0;
}

static int add_servers(const struct policy *p, struct gateway_start *s, struct err *e) {
        const origin_texts *servers = &p->network.dns_servers;
        if (servers->n > GATEWAY_SERVERS_MAX)
                return err_set(e, E2BIG, "%s: at most %u DNS servers", servers->p[GATEWAY_SERVERS_MAX].origin,
                               GATEWAY_SERVERS_MAX);
        for (size_t i = 0; i < servers->n; i++) {
                struct authority a;
                int r = authority_parse(str_of(servers->p[i].text), 53, &a, e);
                if (r < 0)
                        return err_wrap(e, r, "%s: DNS server", servers->p[i].origin);
                if (a.host.kind != HOST_ADDR)
                        return err_set(e, EINVAL, "%s: a DNS server is given by its address, not as %s",
                                       servers->p[i].origin, servers->p[i].text);
                s->servers[s->n_servers++] = (struct gateway_server){ a.host.addr, a.port };
        }
        return 0;
}

/* "http://[user[:password]@]host[:port]", "socks5://..." */
static int add_upstream(const char *url, struct gateway_start *s, struct err *e) {
        struct str rest = str_of(url);
        const char *wrong = "upstream_proxy must be http://host:port or socks5://host:port";
        if (str_starts(rest, STR("http://"))) {
                s->upstream_kind = UPSTREAM_HTTP;
                rest = str_skip(rest, 7);
        } else if (str_starts(rest, STR("socks5://"))) {
                s->upstream_kind = UPSTREAM_SOCKS5;
                rest = str_skip(rest, 9);
        } else {
                return err_set(e, EINVAL, "%s", wrong);
        }
        if (str_ends(rest, STR("/")))
                rest.n--;
        ptrdiff_t at = str_rfind(rest, '@');
        if (at >= 0) {
                struct str user = str_first(rest, (size_t)at), name;
                rest = str_skip(rest, (size_t)at + 1);
                ptrdiff_t colon = str_find(user, ':');
                name = colon < 0 ? user : str_first(user, (size_t)colon);
                struct str password = colon < 0 ? STR("") : str_skip(user, (size_t)colon + 1);
                if (name.n >= sizeof s->upstream_user || password.n >= sizeof s->upstream_password)
                        return err_set(e, E2BIG, "upstream_proxy: user or password too long");
                memcpy(s->upstream_user, name.p, name.n);
                if (password.n)
                        memcpy(s->upstream_password, password.p, password.n);
        }
        int r = authority_parse(rest, s->upstream_kind == UPSTREAM_HTTP ? 3128 : 1080, &s->upstream, e);
        return r < 0 ? err_wrap(e, r, "%s", wrong) : 0;
}

static int add_bypass(const struct policy *p, struct gateway_start *s, struct err *e) {
        size_t used = 0;
        for (size_t i = 0; i < p->network.upstream_bypass.n; i++) {
                int n = snprintf(s->upstream_bypass + used, sizeof s->upstream_bypass - used, "%s%s", i ? "," : "",
                                 p->network.upstream_bypass.p[i].text);
                if (n < 0 || (size_t)n >= sizeof s->upstream_bypass - used)
                        return err_set(e, E2BIG, "the upstream proxy's bypass list is too long");
                used += (size_t)n;
        }
        return 0;
}

static uint32_t current_log_level(void) {
        for (uint32_t level = LOG_DEBUG; level > LOG_ERROR; level--)
                if (log_enabled((enum log_level)level))
                        return level;
        return LOG_ERROR;
}

int run_gateway_start(const struct policy *p, const struct plan *plan, const char *sandbox_id, const char *hosts_file,
                      struct gateway_start *ret, struct err *e) {
        const struct gateway_limits *l = &p->network.limits;
        *ret = (struct gateway_start){
                .dns_mode = DNS_SYNTHETIC,
                .can_ask = 0,
                .ask_timeout_ns = p->network.ask_timeout_ns,
                .connect_ns = l->connect_ns,
                .header_ns = l->header_ns,
                .idle_ns = l->idle_ns,
                .tunnel_idle_ns = l->tunnel_idle_ns,
                .header_bytes = l->header_bytes,
                .connections = l->connections,
                .connections_per_second = l->connections_per_second,
                .bytes_out_per_host = l->bytes_out_per_host,
                .bytes_out = l->bytes_out,
                .log_level = current_log_level(),
        };
        for (size_t i = 0; i < plan->listeners.n && i < GATEWAY_LISTENERS_MAX; i++)
                ret->listeners[i] =
                    (struct gateway_listener){ kinds[plan->listeners.p[i].kind], plan->listeners.p[i].forward_port };
        if (plan->flags & PLAN_DEGRADED) { /* on the host's loopback, in this order: see run.c */
                ret->listeners[0].kind = LISTENER_HTTP;
                ret->listeners[1].kind = LISTENER_SOCKS5;
        }
        int r = copy_text(ret->sandbox_id, sizeof ret->sandbox_id, sandbox_id, "the sandbox's name", e);
        if (r == 0)
                r = copy_text(ret->hosts_file, sizeof ret->hosts_file, hosts_file, "the hosts file's path", e);
        if (r == 0)
                r = add_servers(p, ret, e);
        if (r == 0 && p->network.upstream_proxy)
                r = add_upstream(p->network.upstream_proxy, ret, e);
        if (r == 0)
                r = add_bypass(p, ret, e);
        return r;
}
