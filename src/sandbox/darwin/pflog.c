/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "rule 3.bailey.601.1/0(match) [uid 601]: block out on en0: 10.0.0.2.51234 > 1.1.1.1.443: Flags [S], ...". An address
 * of IPv4 has its port behind the fourth dot, one of IPv6 behind its only dot.
 */
#include "sandbox/darwin/pflog.h"

#include <string.h>

/* Behind `what` in the text, or false. */
static bool skip_to(struct str *text, struct str what) {
        for (size_t i = 0; i + what.n <= text->n; i++) {
                if (memcmp(text->p + i, what.p, what.n) != 0)
                        continue;
                *text = str_skip(*text, i + what.n);
                return true;
        }
        return false;
}

static bool take_uid(struct str *text, uint32_t *ret) {
        uint64_t uid = 0;

        if (!skip_to(text, STR("[uid ")))
                return false;

        ptrdiff_t close = str_find(*text, ']');
        if (close < 1 || !str_to_u64(str_first(*text, (size_t)close), UINT32_MAX, &uid))
                return false;

        *text = str_skip(*text, (size_t)close + 1);
        *ret = (uint32_t)uid;

        return true;
}

static size_t count_char(struct str text, char c) {
        size_t n = 0;

        for (size_t i = 0; i < text.n; i++)
                n += text.p[i] == c;
        return n;
}

static bool is_address(struct str text, bool v6) {
        for (size_t i = 0; i < text.n; i++) {
                char c = text.p[i];
                bool digit = ascii_is_digit(c) || c == '.' || (v6 && (c == ':' || ascii_hex(c) >= 0));

                if (!digit)
                        return false;
        }

        return text.n > 0 && text.n < sizeof((struct pflog_packet *)NULL)->address;
}

/* "1.1.1.1.443" or "2001:db8::1.443"; without a port for ICMP. */
static bool take_target(struct str text, struct pflog_packet *ret) {
        ret->v6 = str_find(text, ':') >= 0;
        bool has_port = count_char(text, '.') == (ret->v6 ? 1U : 4U);
        ptrdiff_t dot = has_port ? str_rfind(text, '.') : -1;
        struct str address = dot < 0 ? text : str_first(text, (size_t)dot);
        uint64_t port = 0;

        if (!is_address(address, ret->v6) || (!ret->v6 && count_char(address, '.') != 3))
                return false;
        if (dot >= 0 && !str_to_u64(str_skip(text, (size_t)dot + 1), UINT16_MAX, &port))
                return false;

        memcpy(ret->address, address.p, address.n);
        ret->address[address.n] = '\0';
        ret->port = (uint16_t)port;

        return true;
}

static const char *protocol_of(struct str rest) {
        if (str_starts(rest, STR("Flags ")))
                return "tcp";
        if (str_starts(rest, STR("UDP")) || str_starts(rest, STR("domain")))
                return "udp";
        return str_starts(rest, STR("ICMP")) ? "icmp" : "";
}

bool pflog_parse(struct str line, struct pflog_packet *ret) {
        struct pflog_packet packet = { 0 };
        struct str text = line;

        if (!take_uid(&text, &packet.uid) || !skip_to(&text, STR(": ")))
                return false;

        packet.blocked = str_starts(text, STR("block "));
        if (!packet.blocked && !str_starts(text, STR("pass ")))
                return false;
        if (!skip_to(&text, STR(" > ")))
                return false;

        struct str target = text;
        if (!skip_to(&text, STR(": ")))
                return false;

        target.n = (size_t)(text.p - target.p) - 2;
        if (!take_target(target, &packet))
                return false;

        const char *protocol = protocol_of(text);
        memcpy(packet.protocol, protocol, strlen(protocol) + 1);
        *ret = packet;

        return true;
}
