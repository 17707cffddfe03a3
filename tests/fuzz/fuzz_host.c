/* SPDX-License-Identifier: Apache-2.0 */
/* What is accepted is canonical: it is written with harmless bytes only, and reads as itself. */
#include "fuzz.h"
#include "policy/match/host.h"

#include <arpa/inet.h>

static void check_host(const struct host *h) {
        FUZZ_CHECK(h->name_n > 0 && h->name[h->name_n] == '\0' && strlen(h->name) == h->name_n);
        for (size_t i = 0; i < h->name_n; i++) {
                char c = h->name[i];
                FUZZ_CHECK((c >= 'a' && c <= 'z') || ascii_is_digit(c) || c == '-' || c == '_' || c == '.' ||
                           (h->kind == HOST_ADDR && c == ':'));
        }
        if (h->kind == HOST_NAME) {
                struct addr a;
                struct in_addr loose;
                FUZZ_CHECK(!addr_parse(host_str(h), &a));
                FUZZ_CHECK(inet_aton(h->name, &loose) ==
                           0); /* no resolver reads a name as an address in some old form */
                FUZZ_CHECK(h->name[h->name_n - 1] != '.');
        }
}

/* The system's parsers need terminated text; where they read an address, ours must agree. */
static void check_against_system(struct str input) {
        char text[64], shown[INET6_ADDRSTRLEN], ours[ADDR_TEXT_MAX];
        struct addr a = { 0 };
        uint8_t bytes[16];
        if (input.n >= sizeof text || str_has_nul(input))
                return;
        memcpy(text, input.p, input.n);
        text[input.n] = '\0';
        bool parsed = addr_parse(input, &a);
        FUZZ_CHECK((inet_pton(AF_INET, text, bytes) == 1) == (parsed && a.family == ADDR_V4));
        FUZZ_CHECK(!parsed || a.family != ADDR_V4 || memcmp(bytes, a.bytes, 4) == 0);
        FUZZ_CHECK((inet_pton(AF_INET6, text, bytes) == 1) == (parsed && a.family == ADDR_V6));
        FUZZ_CHECK(!parsed || a.family != ADDR_V6 || memcmp(bytes, a.bytes, 16) == 0);
        if (!parsed)
                return;
        addr_text(&a, ours);
        FUZZ_CHECK(inet_ntop(a.family == ADDR_V4 ? AF_INET : AF_INET6, a.bytes, shown, sizeof shown));
        bool compatible = strncmp(shown, "::", 2) == 0 && strchr(shown, '.') && strncmp(shown, "::ffff:", 7) != 0;
        FUZZ_CHECK(compatible ||
                   strcmp(shown, ours) == 0); /* the system writes ::1.2.3.4, RFC 5952 does not ask for it */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str input = str_n(data, size);
        struct authority a, again;
        struct host h, h_again;
        char text[AUTHORITY_TEXT_MAX];
        check_against_system(input);
        if (host_parse(input, &h, NULL) == 0) {
                check_host(&h);
                struct host from_addr = h;
                if (h.kind == HOST_ADDR)
                        host_from_addr(&h.addr, &from_addr);
                else
                        FUZZ_CHECK(host_parse(host_str(&h), &h_again, NULL) == 0 && host_equal(&h, &h_again));
                FUZZ_CHECK(host_equal(&h, &from_addr));
        }
        if (authority_parse(input, 80, &a, NULL) == 0) {
                check_host(&a.host);
                FUZZ_CHECK(a.port > 0);
                authority_text(&a, text);
                FUZZ_CHECK(authority_parse(str_of(text), 0, &again, NULL) == 0);
                FUZZ_CHECK(host_equal(&a.host, &again.host) && a.port == again.port);
        }
        return 0;
}
