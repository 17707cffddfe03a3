/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/gateway_config.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>

enum { DNS_PORT = 53 };

static int apply_servers(struct gateway_start *start, const origin_texts *servers, struct err *err) {
        if (servers->n > GATEWAY_SERVERS_MAX)
                return err_set(err, EINVAL, "%s: more than %d name servers", servers->p[GATEWAY_SERVERS_MAX].origin,
                               GATEWAY_SERVERS_MAX);

        for (size_t i = 0; i < servers->n; i++) {
                struct gateway_server *server = &start->servers[i];
                struct str text = str_of(servers->p[i].text);
                struct authority authority;

                server->port = DNS_PORT;
                if (addr_parse(text, &server->addr))
                        continue;

                if (authority_parse(text, DNS_PORT, &authority, NULL) < 0 || authority.host.kind != HOST_ADDR)
                        return err_set(err, EINVAL, "%s: \"%s\" is not the address of a name server",
                                       servers->p[i].origin, servers->p[i].text);

                server->addr = authority.host.addr;
                server->port = authority.port;
        }

        start->n_servers = (uint32_t)servers->n;
        return 0;
}

/* %41 is A. The text must fit with its NUL; NUL itself is refused. */
static int percent_decode(struct str s, char *ret, size_t size) {
        size_t n = 0;
        while (s.n > 0) {
                char c = s.p[0];
                size_t used = 1;

                if (c == '%') {
                        if (s.n < 3)
                                return -EINVAL;

                        int high = ascii_hex(s.p[1]), low = ascii_hex(s.p[2]);
                        if (high < 0 || low < 0)
                                return -EINVAL;

                        c = (char)(high << 4 | low);
                        used = 3;
                }

                if (c == '\0' || n + 1 >= size)
                        return -EINVAL;

                ret[n++] = c;
                s = str_skip(s, used);
        }

        ret[n] = '\0';
        return 0;
}

static const struct {
        struct str prefix;
        enum upstream_kind kind;
        uint16_t port;
} schemes[] = {
        { { "http://", 7 }, UPSTREAM_HTTP, 3128 },
        { { "socks5://", 9 }, UPSTREAM_SOCKS5, 1080 },
        { { "socks5h://", 10 }, UPSTREAM_SOCKS5, 1080 }, /* names are resolved here in any case, after the verdict */
};

/* The text may hold a password: no part of it is repeated in the error. */
static int apply_proxy(struct gateway_start *start, const char *url, struct err *err) {
        struct str rest = str_of(url);
        size_t i = 0;
        while (i < sizeof schemes / sizeof *schemes && !str_starts(rest, schemes[i].prefix))
                i++;

        if (i == sizeof schemes / sizeof *schemes)
                return err_set(err, EINVAL, "the upstream proxy must begin with http:// or socks5://");

        rest = str_skip(rest, schemes[i].prefix.n);
        if (rest.n > 0 && rest.p[rest.n - 1] == '/')
                rest = str_first(rest, rest.n - 1);

        ptrdiff_t at = str_rfind(rest, '@');
        if (at >= 0) {
                struct str password = str_first(rest, (size_t)at), user;

                rest = str_skip(rest, (size_t)at + 1);

                if (!str_split(&password, ':', &user) ||
                    percent_decode(user, start->upstream_user, sizeof start->upstream_user) < 0 ||
                    percent_decode(password, start->upstream_password, sizeof start->upstream_password) < 0)
                        return err_set(err, EINVAL,
                                       "the user or password of the upstream proxy is malformed or too long");
        }

        int r = authority_parse(rest, schemes[i].port, &start->upstream, err);
        if (r < 0)
                return err_wrap(err, r, "in the upstream proxy");

        start->upstream_kind = schemes[i].kind;
        return 0;
}

static int apply_bypass(struct gateway_start *start, const origin_texts *patterns, struct err *err) {
        cleanup(buf_done) struct buf list = BUF(sizeof start->upstream_bypass - 1);
        int r = 0;
        for (size_t i = 0; i < patterns->n && r == 0; i++) {
                if (i > 0)
                        r = buf_add_char(&list, ',');
                if (r == 0)
                        r = buf_add(&list, patterns->p[i].text);
        }

        if (r < 0)
                return err_set(err, -r, "the bypass list of the upstream proxy is too long");
        if (list.n > 0)
                memcpy(start->upstream_bypass, list.p, list.n);

        start->upstream_bypass[list.n] = '\0';
        return 0;
}

int gateway_config_apply(struct gateway_start *start, const struct policy *policy, struct err *err) {
        gateway_start_set_limits(start, &policy->network.limits);
        start->ask_timeout_ns = policy->network.ask_timeout_ns;
        int r = apply_servers(start, &policy->network.dns_servers, err);
        if (r == 0 && policy->network.upstream_proxy)
                r = apply_proxy(start, policy->network.upstream_proxy, err);
        if (r == 0)
                r = apply_bypass(start, &policy->network.upstream_bypass, err);

        return r;
}

static bool same_text(const char *a, const char *b) {
        return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_texts(const origin_texts *a, const origin_texts *b) {
        for (size_t i = 0; i < a->n && i < b->n; i++)
                if (!same_text(a->p[i].text, b->p[i].text))
                        return false;
        return a->n == b->n;
}

bool gateway_config_equal(const struct policy *a, const struct policy *b) {
        return same_texts(&a->network.dns_servers, &b->network.dns_servers) &&
               same_text(a->network.upstream_proxy, b->network.upstream_proxy) &&
               same_texts(&a->network.upstream_bypass, &b->network.upstream_bypass);
}
