/* SPDX-License-Identifier: Apache-2.0 */
/* A pattern that is accepted matches what it names and not the name that a wildcard stands above; errors say something.
 */
#include "fuzz.h"
#include "policy/match/pattern.h"

static void check_matches(const struct pattern *p) {
        struct host h;
        FUZZ_CHECK(p->port_first > 0 && p->port_first <= p->port_last);
        if (p->kind == PATTERN_NET) {
                host_from_addr(&p->net.addr, &h);
                FUZZ_CHECK(pattern_matches(p, &h, p->port_first) && pattern_matches(p, &h, p->port_last));
                return;
        }
        FUZZ_CHECK(p->host.kind == HOST_NAME);
        FUZZ_CHECK(pattern_matches(p, &p->host, p->port_first) == (p->kind == PATTERN_NAME));
        if (p->kind == PATTERN_WILDCARD && p->host.name_n + 2 <= HOST_TEXT_MAX) {
                char below[HOST_TEXT_MAX + 8];
                snprintf(below, sizeof below, "x.%s", p->host.name);
                FUZZ_CHECK(host_parse(str_of(below), &h, NULL) == 0 && pattern_matches(p, &h, p->port_last));
                snprintf(below, sizeof below, "x%s", p->host.name);
                FUZZ_CHECK(host_parse(str_of(below), &h, NULL) < 0 || !pattern_matches(p, &h, p->port_last));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str input = str_n(data, size);
        struct pattern plain, user;
        struct err e = { 0 };
        int r = pattern_parse(input, &plain, NULL);
        int r_user = pattern_parse_user(input, &user, &e);
        FUZZ_CHECK(r < 0 || r_user == 0); /* what is plain needs no conversion */
        if (r == 0)
                check_matches(&plain);
        if (r_user == 0) {
                check_matches(&user);
                return 0;
        }
        FUZZ_CHECK(e.code != 0 && e.text[0] != '\0');
        for (const char *c = e.text; *c; c++) /* safe to print, whatever was written */
                FUZZ_CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
        return 0;
}
