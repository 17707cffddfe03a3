/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * DNS messages: one strict question in, one small answer out (RFC 1035, EDNS0 by RFC 6891). Pure.
 * Compression is refused in questions, where it has no use but loops, and used in answers only to point at the
 * question.
 */
#include "base/buf.h"
#include "policy/match/addr.h"

#define DNS_UDP_MAX 512    /* without EDNS0 */
#define DNS_EDNS_MAX 1232  /* what we offer and use at most over UDP */
#define DNS_QUERY_MAX 4096 /* longer messages are not questions */
#define DNS_ADDRESSES_MAX 16

enum dns_type {
        DNS_A = 1,
        DNS_NS = 2,
        DNS_CNAME = 5,
        DNS_SOA = 6,
        DNS_NULL = 10,
        DNS_PTR = 12,
        DNS_MX = 15,
        DNS_TXT = 16,
        DNS_AAAA = 28,
        DNS_SRV = 33,
        DNS_OPT = 41,
        DNS_SVCB = 64,
        DNS_HTTPS = 65,
        DNS_AXFR = 252,
        DNS_ANY = 255,
};

enum dns_rcode {
        DNS_NOERROR = 0,
        DNS_FORMERR = 1,
        DNS_SERVFAIL = 2,
        DNS_NXDOMAIN = 3,
        DNS_NOTIMP = 4,
        DNS_REFUSED = 5,
        DNS_BADVERS = 16, /* extended: carried in OPT */
};

struct dns_query {
        uint16_t id, flags, type, class;
        uint16_t udp_size; /* largest answer over UDP */
        bool edns;
        bool has_question;
        bool plain; /* only letters, digits, '-' and '_' in the labels: fit for host_parse() */
        uint8_t name_n;
        char name[254];      /* dotted, as sent, without the last dot; complete only when plain */
        struct str question; /* wire bytes, echoed as they came */
};

/* False: not a question at all, do not reply. True: *ret_rcode is DNS_NOERROR for a valid one, else the code to reply
 * with; *ret has what the reply needs. */
bool dns_query_parse(struct str packet, struct dns_query *ret, enum dns_rcode *ret_rcode);

struct dns_answer {
        enum dns_rcode rcode;
        uint32_t ttl;
        size_t n_addrs; /* of the family that fits the question's type; 0 with DNS_NOERROR: NODATA */
        const struct addr *addrs;
        size_t max; /* of the whole message; what does not fit is left out and the truncation bit set */
};
/* Appends the message; -EMSGSIZE when even its head does not fit the buffer. */
int dns_answer_write(struct buf *out, const struct dns_query *query, const struct dns_answer *answer);
/* "A", "AAAA", "TXT" or "TYPE1234". */
#define DNS_TYPE_TEXT_MAX 12
void dns_type_text(uint16_t type, char ret[static DNS_TYPE_TEXT_MAX]);
