/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Patterns as people write them in allow, deny and allow_private:
 *
 *     api.example.com            this name
 *     *.example.com              any depth below it, not the name itself
 *     localhost                  a service on this host's loopback; the only single label there is
 *     10.1.2.3  [fd00::1]        an address (IPv6 may stand without brackets when no port follows)
 *     10.0.0.0/8  [fd00::/8]     a network
 *
 * each with an optional ":443" or ":8000-8999". A list of refusals also takes
 *
 *     *:22                       any host and address on this port, or range of ports
 *
 * Everything else is refused with the reason and what to write instead.
 */
#include "policy/match/host.h"

enum pattern_kind { PATTERN_NAME, PATTERN_WILDCARD, PATTERN_NET, PATTERN_ANY };

struct pattern {
        uint8_t kind; /* enum pattern_kind */
        bool has_port;
        uint16_t port_first, port_last; /* 1..65535 where none was written */
        struct host host;               /* the name, or what stands after "*." */
        struct cidr net;                /* for PATTERN_NET */
};

typedef int host_parser(struct str s, struct host *ret, struct err *e);
int pattern_parse_with(struct str text, host_parser *parse, struct pattern *ret, struct err *err);

/* ASCII only; needs no library. */
static inline int pattern_parse(struct str text, struct pattern *ret, struct err *err) {
        return pattern_parse_with(text, host_parse, ret, err);
}
/* As above, and international names are converted. */
static inline int pattern_parse_user(struct str text, struct pattern *ret, struct err *err) {
        return pattern_parse_with(text, host_parse_user, ret, err);
}
/* As pattern_parse_user(), and "*:PORT" is understood: for refusals alone, since nobody means to grant that. */
int pattern_parse_refusal(struct str text, struct pattern *ret, struct err *err);
/* Whether some host and port is matched by both. Of a network and a name it is not known: false. */
bool pattern_overlaps(const struct pattern *a, const struct pattern *b);
bool pattern_matches(const struct pattern *pattern, const struct host *host, uint16_t port);
