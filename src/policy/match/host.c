/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts one spelling only, and refuses everything that two programs could read differently: short, octal and
 * hexadecimal addresses, zone ids, userinfo, escapes, bytes outside ASCII, NUL.
 */
#include "policy/match/host.h"

#include <errno.h>
#include <stdio.h>

/* Words for the bytes that people mistake for part of a host. */
static const char *byte_advice(unsigned char c) {
        switch (c) {
        case '@':
                return "; a user name does not belong to a host";
        case '%':
                return "; escapes and zone ids are not accepted";
        case '/':
        case '?':
        case '#':
        case '\\':
                return "; only the host belongs here, without scheme, path or query";
        case ':':
                return "; an IPv6 address is written in brackets";
        case '*':
                return "; a wildcard is not a host";
        default:
                return c >= 0x80 ? "; international names are written in their xn-- form" : "";
        }
}

static int refuse_byte(struct err *err, struct str s, size_t at) {
        unsigned char c = (unsigned char)s.p[at];
        if (c > 0x20 && c < 0x7f)
                return err_set(err, EINVAL, "'%c' at position %zu is not part of a host name%s", c, at + 1,
                               byte_advice(c));
        return err_set(err, EINVAL, "byte 0x%02x at position %zu is not part of a host name%s", c, at + 1,
                       byte_advice(c));
}

/* The canonical form of a byte of a name, 0 for what is not part of one. */
#define LETTER(lower, upper) [lower] = lower, [upper] = lower
static const char canonical[256] = {
        LETTER('a', 'A'), LETTER('b', 'B'), LETTER('c', 'C'), LETTER('d', 'D'), LETTER('e', 'E'), LETTER('f', 'F'),
        LETTER('g', 'G'), LETTER('h', 'H'), LETTER('i', 'I'), LETTER('j', 'J'), LETTER('k', 'K'), LETTER('l', 'L'),
        LETTER('m', 'M'), LETTER('n', 'N'), LETTER('o', 'O'), LETTER('p', 'P'), LETTER('q', 'Q'), LETTER('r', 'R'),
        LETTER('s', 'S'), LETTER('t', 'T'), LETTER('u', 'U'), LETTER('v', 'V'), LETTER('w', 'W'), LETTER('x', 'X'),
        LETTER('y', 'Y'), LETTER('z', 'Z'), ['0'] = '0',      ['1'] = '1',      ['2'] = '2',      ['3'] = '3',
        ['4'] = '4',      ['5'] = '5',      ['6'] = '6',      ['7'] = '7',      ['8'] = '8',      ['9'] = '9',
        ['-'] = '-',      ['_'] = '_',      ['.'] = '.',
};

/* Resolvers and URL parsers read a name whose last label looks like a number as an address in some spelling. */
static bool looks_numeric(struct str label) {
        if (label.n >= 2 && label.p[0] == '0' && label.p[1] == 'x')
                return true;
        for (size_t i = 0; i < label.n; i++)
                if (!ascii_is_digit(label.p[i]))
                        return false;
        return true;
}

static int check_label(struct str label, struct err *err) {
        if (label.n == 0)
                return err_set(err, EINVAL, "the host name has an empty label");
        if (label.n > 63)
                return err_set(err, EINVAL, "a label of the host name has %zu bytes, more than 63", label.n);
        if (label.p[0] == '-' || label.p[label.n - 1] == '-')
                return err_set(err, EINVAL, "a label of the host name begins or ends with a hyphen");
        return 0;
}

static int parse_name(struct str s, struct host *ret, struct err *err) {
        struct host host = { .kind = HOST_NAME };
        bool trailing_dot = s.n > 1 && s.p[s.n - 1] == '.';
        size_t n = s.n - trailing_dot, label = 0;
        int bad_label = 0; /* told only when there is no bad byte: that explains more */

        for (size_t i = 0; i < n; i++) {
                char c = canonical[(unsigned char)s.p[i]];
                if (c == 0)
                        return refuse_byte(err, s, i);
                if (i >= HOST_TEXT_MAX)
                        return err_set(err, EINVAL, "the host name has more than %d bytes", HOST_TEXT_MAX);

                host.name[i] = c;

                if (c == '.') {
                        if (!bad_label)
                                bad_label = check_label(str_n(host.name + label, i - label), err);
                        label = i + 1;
                }
        }

        if (!bad_label)
                bad_label = check_label(str_n(host.name + label, n - label), err);
        if (bad_label)
                return bad_label;

        host.name_n = (uint8_t)n;
        if (looks_numeric(str_n(host.name + label, n - label))) {
                if (trailing_dot || !addr_parse(host_str(&host), &host.addr))
                        return err_set(err, EINVAL,
                                       "the host ends like an IPv4 address but is not one in plain form (four "
                                       "decimal numbers)");

                host.kind = HOST_ADDR;
        }

        *ret = host;
        return 0;
}

static int parse_brackets(struct str s, struct host *ret, struct err *err) {
        struct addr addr;

        if (s.n < 2 || s.p[s.n - 1] != ']')
                return err_set(err, EINVAL, "'[' without ']' at the end of the host");

        struct str inner = str_n(s.p + 1, s.n - 2);
        if (str_find(inner, '%') >= 0)
                return err_set(err, EINVAL, "zone ids are not accepted in an IPv6 address");
        if (!addr_parse(inner, &addr) || addr.family != ADDR_V6)
                return err_set(err, EINVAL, "what stands in brackets is not an IPv6 address");

        host_from_addr(&addr, ret);
        return 0;
}

int host_parse(struct str s, struct host *ret, struct err *err) {
        if (s.n == 0)
                return err_set(err, EINVAL, "the host is empty");
        if (s.p[0] == '[')
                return parse_brackets(s, ret, err);

        return parse_name(s, ret, err);
}

bool port_parse(struct str s, uint16_t *ret) {
        uint64_t value;
        if (s.n > 5 || !str_to_u64(s, UINT16_MAX, &value) || value == 0)
                return false;
        *ret = (uint16_t)value;
        return true;
}

int authority_parse(struct str s, uint16_t default_port, struct authority *ret, struct err *err) {
        struct str host = s, port = { 0 };
        uint16_t number = default_port;

        /* Inside brackets a colon is part of the address. */
        ptrdiff_t bracket = str_rfind(s, ']'), colon = str_rfind(s, ':');
        if (colon > bracket) {
                host = str_first(s, (size_t)colon);
                port = str_skip(s, (size_t)colon + 1);
                if (!port_parse(port, &number))
                        return err_set(err, EINVAL, "the port is not a number from 1 to 65535");
        } else if (default_port == 0) {
                return err_set(err, EINVAL, "a port is missing");
        }

        struct host parsed;
        int r = host_parse(host, &parsed, err);
        if (r < 0)
                return r;

        ret->host = parsed;
        ret->port = number;

        return 0;
}

void host_from_addr(const struct addr *addr, struct host *ret) {
        struct host host = { .kind = HOST_ADDR, .addr = *addr };
        addr_text(addr, host.name);
        host.name_n = (uint8_t)strlen(host.name);
        *ret = host;
}

bool host_equal(const struct host *a, const struct host *b) {
        return a->kind == b->kind && str_eq(host_str(a), host_str(b));
}

const struct addr host_loopback[HOST_LOOPBACKS] = { { ADDR_V4, { 127, 0, 0, 1 } }, { ADDR_V6, { [15] = 1 } } };

bool host_is_loopback_name(const struct host *host) {
        struct str name = host_str(host);

        if (host->kind != HOST_NAME)
                return false;
        return str_eq(name, STR("localhost")) || str_ends(name, STR(".localhost")) || str_eq(name, STR(HOST_INTERNAL));
}

/* Written for every request: by hand, since printf would be a fifteenth of all instructions. */
void authority_text(const struct authority *authority, char ret[static AUTHORITY_TEXT_MAX]) {
        bool brackets = authority->host.kind == HOST_ADDR && authority->host.addr.family == ADDR_V6;
        char digits[5], *p = ret;
        size_t n = 0;

        if (brackets)
                *p++ = '[';

        memcpy(p, authority->host.name, authority->host.name_n);
        p += authority->host.name_n;
        if (brackets)
                *p++ = ']';

        *p++ = ':';
        for (unsigned port = authority->port; port > 0 || n == 0; port /= 10)
                digits[n++] = (char)('0' + port % 10);

        while (n > 0)
                *p++ = digits[--n];

        *p = '\0';
}
