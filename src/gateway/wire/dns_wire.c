/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/wire/dns_wire.h"

#include "base/bounds.h"

#include <errno.h>
#include <stdio.h>

enum { HEADER_BYTES = 12, LABEL_MAX = 63, NAME_WIRE_MAX = 255, OPT_BYTES = 11 };
enum {
        FLAG_QR = 0x8000,
        FLAG_OPCODE = 0x7800,
        FLAG_AA = 0x0400,
        FLAG_TC = 0x0200,
        FLAG_RD = 0x0100,
        FLAG_RA = 0x0080,
        FLAG_CD = 0x0010
};

static uint16_t u16_at(struct str s, size_t i) {
        return (uint16_t)((uint8_t)s.p[i] << 8 | (uint8_t)s.p[i + 1]);
}

static void put_u16(char *p, uint16_t value) {
        p[0] = (char)(value >> 8);
        p[1] = (char)value;
}

static void put_u32(char *p, uint32_t value) {
        put_u16(p, (uint16_t)(value >> 16));
        put_u16(p + 2, (uint16_t)value);
}

/* The name at `from`: its dotted text and where it ends. */
static bool parse_name(struct str packet, size_t from, struct dns_query *query, size_t *ret_end) {
        size_t at = from, text = 0;

        query->plain = true;

        for (;;) {
                if (at >= packet.n)
                        return false;

                size_t label = (uint8_t)packet.p[at++];
                if (label == 0)
                        break;
                if (label > LABEL_MAX || packet.n - at < label || at + label + 1 - from > NAME_WIRE_MAX)
                        return false; /* above 63 it would be a compression pointer */
                if (text > 0)
                        query->name[text++] = '.';

                for (size_t i = 0; i < label; i++, at++) {
                        char c = packet.p[at];
                        if (!ascii_is_alnum(c) && c != '-' && c != '_')
                                query->plain = false;
                        query->name[text++] = c;
                }
        }

        query->name_n = (uint8_t)text;
        if (text == 0)
                query->plain = false; /* the root */

        *ret_end = at;
        return true;
}

/* The one additional record that a question may carry: OPT, and nothing behind it. */
static enum dns_rcode parse_opt(struct str rest, struct dns_query *query) {
        if (rest.n < OPT_BYTES || rest.p[0] != 0 || u16_at(rest, 1) != DNS_OPT)
                return DNS_FORMERR;
        if (rest.n - OPT_BYTES != u16_at(rest, 9))
                return DNS_FORMERR;

        uint16_t size = u16_at(rest, 3);
        query->edns = true;
        if (size < DNS_UDP_MAX)
                query->udp_size = DNS_UDP_MAX;
        else if (size > DNS_EDNS_MAX)
                query->udp_size = DNS_EDNS_MAX;
        else
                query->udp_size = size;

        return rest.p[6] == 0 ? DNS_NOERROR : DNS_BADVERS;
}

static enum dns_rcode parse_sections(struct str packet, struct dns_query *query) {
        if (query->flags & FLAG_OPCODE)
                return DNS_NOTIMP;
        if (query->flags & FLAG_TC)
                return DNS_FORMERR;

        uint16_t additional = u16_at(packet, 10);
        if (u16_at(packet, 4) != 1 || u16_at(packet, 6) != 0 || u16_at(packet, 8) != 0 || additional > 1)
                return DNS_FORMERR;

        size_t end;
        if (!parse_name(packet, HEADER_BYTES, query, &end) || packet.n - end < 4)
                return DNS_FORMERR;

        query->type = u16_at(packet, end);
        query->class = u16_at(packet, end + 2);
        query->question = str_n(packet.p + HEADER_BYTES, end + 4 - HEADER_BYTES);
        query->has_question = true;

        struct str rest = str_skip(packet, end + 4);
        if (additional == 1)
                return parse_opt(rest, query);

        if (rest.n == 0)
                return DNS_NOERROR;

        return DNS_FORMERR;
}

bool dns_query_parse(struct str packet, struct dns_query *ret, enum dns_rcode *ret_rcode) {
        if (packet.n < HEADER_BYTES || packet.n > DNS_QUERY_MAX || (u16_at(packet, 2) & FLAG_QR))
                return false; /* an answer is never answered: two servers would talk for ever */

        ret->id = u16_at(packet, 0);
        ret->flags = u16_at(packet, 2);
        ret->udp_size = DNS_UDP_MAX;
        ret->edns = ret->has_question = ret->plain = false;
        ret->name_n = 0;
        ret->type = ret->class = 0;
        ret->question = str_n(NULL, 0);
        *ret_rcode = parse_sections(packet, ret);

        return true;
}

static bool family_fits(uint16_t type, const struct addr *addr) {
        return type == DNS_A ? addr->family == ADDR_V4 : type == DNS_AAAA && addr->family == ADDR_V6;
}

static size_t write_record(char *p, uint16_t type, uint32_t ttl, const struct addr *addr) {
        size_t n = addr->family == ADDR_V4 ? 4 : 16;

        put_u16(p, 0xc000 | HEADER_BYTES); /* the question's name */
        put_u16(p + 2, type);
        put_u16(p + 4, 1);
        put_u32(p + 6, ttl);
        put_u16(p + 10, (uint16_t)n);
        memcpy(p + 12, addr->bytes, n);

        return 12 + n;
}

static size_t write_opt(char *p, enum dns_rcode rcode) {
        memset(p, 0, OPT_BYTES);
        put_u16(p + 1, DNS_OPT);
        put_u16(p + 3, DNS_EDNS_MAX);
        p[5] = (char)((unsigned)rcode >> 4);
        return OPT_BYTES;
}

int dns_answer_write(struct buf *out, const struct dns_query *query, const struct dns_answer *answer) {
        size_t tail = query->edns ? OPT_BYTES : 0;
        size_t most = HEADER_BYTES + query->question.n + tail + answer->n_addrs * 28;
        size_t limit = min_of(most, answer->max);

        if (HEADER_BYTES + query->question.n + tail > answer->max)
                return -EMSGSIZE;

        int r = buf_reserve(out, limit);
        if (r < 0)
                return r;

        char *p = out->p + out->n;
        size_t n = HEADER_BYTES;
        uint16_t count = 0, flags = (uint16_t)(FLAG_QR | FLAG_RA | (query->flags & (FLAG_OPCODE | FLAG_RD | FLAG_CD)) |
                                               ((unsigned)answer->rcode & 15));

        if (query->question.n)
                memcpy(p + n, query->question.p, query->question.n);

        n += query->question.n;

        for (size_t i = 0; i < answer->n_addrs && answer->rcode == DNS_NOERROR; i++) {
                if (!family_fits(query->type, &answer->addrs[i]))
                        continue;

                size_t record = answer->addrs[i].family == ADDR_V4 ? 16 : 28;
                if (n + record + tail > limit) {
                        flags |= FLAG_TC;
                        break;
                }

                n += write_record(p + n, query->type, answer->ttl, &answer->addrs[i]);
                count++;
        }

        put_u16(p, query->id);
        put_u16(p + 2, flags);
        put_u16(p + 4, query->has_question);
        put_u16(p + 6, count);
        put_u16(p + 8, 0);
        put_u16(p + 10, query->edns);

        if (query->edns)
                n += write_opt(p + n, answer->rcode);

        out->n += n;
        return 0;
}

void dns_type_text(uint16_t type, char ret[static DNS_TYPE_TEXT_MAX]) {
        static const struct {
                uint16_t type;
                char text[6];
        } names[] = {
                { DNS_A, "A" },       { DNS_AAAA, "AAAA" }, { DNS_NS, "NS" },     { DNS_CNAME, "CNAME" },
                { DNS_SOA, "SOA" },   { DNS_NULL, "NULL" }, { DNS_PTR, "PTR" },   { DNS_MX, "MX" },
                { DNS_TXT, "TXT" },   { DNS_SRV, "SRV" },   { DNS_SVCB, "SVCB" }, { DNS_HTTPS, "HTTPS" },
                { DNS_AXFR, "AXFR" }, { DNS_ANY, "ANY" },
        };

        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (names[i].type == type) {
                        memcpy(ret, names[i].text, sizeof names[i].text);
                        return;
                }

        snprintf(ret, DNS_TYPE_TEXT_MAX, "TYPE%u", type);
}
