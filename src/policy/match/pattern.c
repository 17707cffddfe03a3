/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/match/pattern.h"

#include "conf/suggest.h"

#include <errno.h>

static bool looks_like_ports(struct str s) {
        for (size_t i = 0; i < s.n; i++)
                if (!ascii_is_digit(s.p[i]) && s.p[i] != '-')
                        return false;
        return true;
}

static int parse_ports(struct str s, struct pattern *pattern, struct err *err) {
        ptrdiff_t dash = str_find(s, '-');
        if (!port_parse(dash < 0 ? s : str_first(s, (size_t)dash), &pattern->port_first))
                return err_set(err, EINVAL, "the port must be a number from 1 to 65535, as :443 or :8000-8999");

        pattern->port_last = pattern->port_first;
        if (dash >= 0 && !port_parse(str_skip(s, (size_t)dash + 1), &pattern->port_last))
                return err_set(err, EINVAL, "a port range is written as :8000-8999, each end from 1 to 65535");

        if (pattern->port_last < pattern->port_first)
                return err_set(err, EINVAL, "the port range ends before it begins; write :%u-%u", pattern->port_last,
                               pattern->port_first);

        pattern->has_port = true;
        return 0;
}

/* Takes ":port" off the end. A bare IPv6 address is all colons and has no port. */
static int split_ports(struct str *text, struct pattern *pattern, struct err *err) {
        struct cidr whole;
        ptrdiff_t bracket = str_rfind(*text, ']'), colon = str_rfind(*text, ':');
        if (colon < 0 || colon < bracket || (text->p[0] != '[' && cidr_parse(*text, &whole)))
                return 0;

        struct str ports = str_skip(*text, (size_t)colon + 1);
        if (str_find(*text, ':') != colon && text->p[0] != '[')
                return err_set(err, EINVAL, "an IPv6 address with a port is written in brackets, as [2001:db8::1]:443");
        if (!looks_like_ports(ports))
                return err_set(err, EINVAL, "what follows ':' must be a port, as :443 or :8000-8999");

        *text = str_first(*text, (size_t)colon);
        return parse_ports(ports, pattern, err);
}

/* Which special bytes occur at all: most patterns are plain names, and lists may have a million of them. */
enum { HAS_COLON = 1, HAS_SLASH = 2, HAS_AT = 4, HAS_BRACKET = 8 };

static unsigned shape_of(struct str text) {
        static const uint8_t special[256] = {
                [':'] = HAS_COLON, ['/'] = HAS_SLASH, ['@'] = HAS_AT, ['['] = HAS_BRACKET, [']'] = HAS_BRACKET
        };
        unsigned shape = 0;
        for (size_t i = 0; i < text.n; i++)
                shape |= special[(unsigned char)text.p[i]];
        return shape;
}

static int check_shape(struct str text, unsigned shape, struct err *err) {
        if (text.n == 0)
                return err_set(err, EINVAL, "a pattern cannot be empty");

        if ((shape & HAS_COLON) && (shape & HAS_SLASH) && memmem(text.p, text.n, "://", 3))
                return err_set(err, EINVAL,
                               "a scheme does not belong here; write the host, with :443 or :80 if the port matters");

        if (text.p[0] == '@')
                return err_set(err, EINVAL,
                               "this is the name of a group, and groups stand only in the lists allow and deny");

        if (shape & HAS_AT)
                return err_set(err, EINVAL, "a user name does not belong here; write the host alone");

        if (str_is(text, "*"))
                return err_set(err, EINVAL,
                               "a bare wildcard would match every host; the mode full-network opens the network");

        return 0;
}

static int parse_net(struct str text, struct pattern *pattern, struct err *err) {
        struct str inner = text;

        if (text.n >= 2 && text.p[0] == '[' && text.p[text.n - 1] == ']')
                inner = str_n(text.p + 1, text.n - 2);

        if (!cidr_parse(inner, &pattern->net)) {
                ptrdiff_t slash = str_find(inner, '/');
                struct addr addr;

                if (slash < 0)
                        return -ENOENT;

                if (!addr_parse(str_first(inner, (size_t)slash), &addr))
                        return err_set(err, EINVAL,
                                       "a path does not belong here; write the host alone, and paths under rules");

                return err_set(err, EINVAL,
                               "not a network: the length must be 0 to %u and every bit after it zero, as "
                               "10.0.0.0/8 or fd00::/8",
                               addr_bits(&addr));
        }

        if (inner.n != text.n && pattern->net.addr.family != ADDR_V6)
                return err_set(err, EINVAL, "brackets are for IPv6 addresses only");

        pattern->kind = PATTERN_NET;
        if (pattern->net.bits == addr_bits(&pattern->net.addr))
                host_from_addr(&pattern->net.addr, &pattern->host);

        return 0;
}

static int parse_name(struct str text, struct pattern *pattern, host_parser *parse, struct err *err) {
        pattern->kind = str_starts(text, STR("*.")) ? PATTERN_WILDCARD : PATTERN_NAME;
        if (pattern->kind == PATTERN_WILDCARD)
                text = str_skip(text, 2);
        if (str_find(text, '*') >= 0)
                return err_set(err, EINVAL, "a wildcard stands only for whole labels at the front, as *.example.com");

        int r = parse(text, &pattern->host, err);
        if (r < 0)
                return r;

        if (pattern->host.kind == HOST_ADDR) /* plain addresses were taken as networks before */
                return err_set(err, EINVAL,
                               "a wildcard cannot stand before an address; write a network, as 10.0.0.0/8");

        bool single = str_find(host_str(&pattern->host), '.') < 0;
        if (pattern->kind == PATTERN_WILDCARD && single)
                return err_set(err, EINVAL,
                               "*.%s would match a whole top-level domain; name at least two labels, as *.example.%s",
                               pattern->host.name, pattern->host.name);

        if (single && !str_is(host_str(&pattern->host), "localhost"))
                return err_set(err, EINVAL, "a single label is not a full name; write it whole, as %s.example.com",
                               pattern->host.name);

        return 0;
}

int pattern_parse_with(struct str text, host_parser *parse, struct pattern *ret, struct err *err) {
        struct pattern pattern = { .port_first = 1, .port_last = UINT16_MAX };
        struct str rest = text;
        unsigned shape = shape_of(text);
        int r = check_shape(text, shape, err);
        if (r == 0 && (shape & HAS_COLON))
                r = split_ports(&rest, &pattern, err);
        if (r == 0 && rest.n == 0)
                r = err_set(err, EINVAL, "the host before the port is missing");

        if (r == 0 && str_is(rest, "*"))
                r = err_set(err, EINVAL,
                            "every host on a port can only be refused (network.deny); the mode full-network opens the "
                            "network");

        if (r == 0) {
                bool may_be_net = shape != 0 || ascii_is_digit(rest.p[rest.n - 1]);

                if (may_be_net)
                        r = parse_net(rest, &pattern, err);
                else
                        r = -ENOENT;
                if (r == -ENOENT)
                        r = parse_name(rest, &pattern, parse, err);
        }

        if (r < 0)
                return err_wrap(err, r, "pattern %s", show(text).text);

        *ret = pattern;
        return 0;
}

int pattern_parse_refusal(struct str text, struct pattern *ret, struct err *err) {
        struct pattern any = { .kind = PATTERN_ANY, .port_first = 1, .port_last = UINT16_MAX };
        int r;

        if (!str_starts(text, STR("*:")))
                return pattern_parse_user(text, ret, err);

        r = parse_ports(str_skip(text, 2), &any, err);
        if (r < 0)
                return err_wrap(err, r, "pattern %s", show(text).text);

        *ret = any;
        return 0;
}

static bool name_is_below(struct str name, struct str parent) {
        return name.n > parent.n + 1 && name.p[name.n - parent.n - 1] == '.' && str_ends(name, parent);
}

bool pattern_overlaps(const struct pattern *a, const struct pattern *b) {
        if (a->port_first > b->port_last || b->port_first > a->port_last)
                return false;
        if (a->kind == PATTERN_ANY || b->kind == PATTERN_ANY)
                return true;

        if (a->kind == PATTERN_NET || b->kind == PATTERN_NET)
                return a->kind == b->kind &&
                       (cidr_contains(&a->net, &b->net.addr) || cidr_contains(&b->net, &a->net.addr));

        struct str one = host_str(&a->host), other = host_str(&b->host);
        if (str_eq(one, other))
                return a->kind == b->kind;

        return (a->kind == PATTERN_WILDCARD && name_is_below(other, one)) ||
               (b->kind == PATTERN_WILDCARD && name_is_below(one, other));
}

bool pattern_matches(const struct pattern *pattern, const struct host *host, uint16_t port) {
        if (port < pattern->port_first || port > pattern->port_last)
                return false;
        if (pattern->kind == PATTERN_ANY)
                return true;
        if (pattern->kind == PATTERN_NET)
                return host->kind == HOST_ADDR && cidr_contains(&pattern->net, &host->addr);

        struct str name = host_str(host), own = host_str(&pattern->host);
        if (host->kind != HOST_NAME)
                return false;
        if (pattern->kind == PATTERN_NAME)
                return str_eq(name, own);

        return name_is_below(name, own);
}
