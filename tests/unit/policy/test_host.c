/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/match/host.h"

#include "../cmocka_all.h"
#include "cases.h"

#include <errno.h>

static bool error_holds(const struct case_line *c, int r, const struct err *e, struct str part) {
        if (r == 0)
                return case_failed(c, "accepted");
        if (r != -EINVAL || e->code != EINVAL)
                return case_failed(c, "returned %d", r);
        if (part.n && !memmem(e->text, strlen(e->text), part.p, part.n))
                return case_failed(c, "says: %s", e->text);
        return true;
}

static bool host_holds(const struct case_line *c, const struct host *h, struct str kind, struct str text) {
        if (!str_is(kind, h->kind == HOST_NAME ? "name" : "addr") || !str_eq(host_str(h), text))
                return case_failed(c, "is the %s %s", h->kind == HOST_NAME ? "name" : "address", h->name);
        if (h->name[h->name_n] != '\0' || strlen(h->name) != h->name_n)
                return case_failed(c, "the text is not terminated at its length");
        return true;
}

struct parser {
        int (*parse)(struct str s, struct host *ret, struct err *e);
};

/* TEXT name|addr CANONICAL | TEXT error WORDS */
static bool host_case(const struct case_line *c, void *context) {
        struct host h = { .name_n = 77 };
        struct err e = { 0 };
        const struct parser *parser = context;
        int r = parser->parse(c->field[0], &h, &e);
        if (str_is(c->field[1], "error"))
                return error_holds(c, r, &e, c->field[2]) && (h.name_n == 77 || case_failed(c, "wrote a result"));
        return r == 0 ? host_holds(c, &h, c->field[1], c->field[2]) : case_failed(c, "refused: %s", e.text);
}

static void hosts(void **state) {
        (void)state;
        cases_run("hosts.txt", host_case, &(struct parser){ host_parse });
}

static void user_hosts(void **state) {
        (void)state;
        cases_run("hosts_user.txt", host_case, &(struct parser){ host_parse_user });
}

/* TEXT DEFAULT name|addr HOST PORT | TEXT DEFAULT error WORDS */
static bool authority_case(const struct case_line *c, void *context) {
        (void)context;
        struct authority a = { .port = 7 }, again;
        struct err e = { 0 };
        uint64_t fallback, port;
        assert_true(str_to_u64(c->field[1], UINT16_MAX, &fallback));
        int r = authority_parse(c->field[0], (uint16_t)fallback, &a, &e);
        if (str_is(c->field[2], "error"))
                return error_holds(c, r, &e, c->field[3]) && (a.port == 7 || case_failed(c, "wrote a result"));
        if (r < 0)
                return case_failed(c, "refused: %s", e.text);
        assert_true(str_to_u64(c->field[4], UINT16_MAX, &port));
        if (a.port != port)
                return case_failed(c, "has the port %u", a.port);
        char text[AUTHORITY_TEXT_MAX];
        authority_text(&a, text);
        if (authority_parse(str_of(text), 0, &again, NULL) < 0 || !host_equal(&a.host, &again.host) ||
            again.port != a.port)
                return case_failed(c, "is written as %s, which is something else", text);
        return host_holds(c, &a.host, c->field[2], c->field[3]);
}

static void authorities(void **state) {
        (void)state;
        cases_run("authorities.txt", authority_case, NULL);
}

static void every_byte(void **state) {
        (void)state;
        for (int c = 0; c < 256; c++) {
                char text[] = { 'a', (char)c, 'b', '.', 't', 'e', 's', 't' };
                struct host h;
                bool good = c == '-' || c == '_' || c == '.' || (c < 128 && ascii_is_alnum((char)c));
                assert_int_equal(host_parse(str_n(text, sizeof text), &h, NULL) == 0, good);
        }
}

static void lengths(void **state) {
        (void)state;
        char text[300];
        struct host h;
        memset(text, 'a', sizeof text);
        assert_int_equal(host_parse(str_n(text, 63), &h, NULL), 0);
        assert_int_equal(host_parse(str_n(text, 64), &h, NULL), -EINVAL);
        for (size_t i = 49; i < sizeof text; i += 50)
                text[i] = '.';
        assert_int_equal(host_parse(str_n(text, 253), &h, NULL), 0);
        assert_int_equal(h.name_n, 253);
        assert_int_equal(host_parse(str_n(text, 254), &h, NULL), -EINVAL);
        text[253] = '.'; /* one trailing dot does not count */
        assert_int_equal(host_parse(str_n(text, 254), &h, NULL), 0);
        assert_int_equal(h.name_n, 253);
        struct authority a = { .host = h, .port = 65535 };
        char full[AUTHORITY_TEXT_MAX];
        authority_text(&a, full);
        assert_int_equal(strlen(full), 259);
}

static void loopback_names(void **state) {
        (void)state;
        struct host h;
        assert_int_equal(host_parse(STR("LOCALHOST."), &h, NULL), 0);
        assert_true(host_is_loopback_name(&h));
        assert_int_equal(host_parse(STR("host.bailey.internal"), &h, NULL), 0);
        assert_true(host_is_loopback_name(&h));
        assert_int_equal(host_parse(STR("xhost.bailey.internal"), &h, NULL), 0);
        assert_false(host_is_loopback_name(&h));
        assert_int_equal(host_parse(STR("127.0.0.1"), &h, NULL), 0);
        assert_false(host_is_loopback_name(&h));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(hosts),      cmocka_unit_test(user_hosts), cmocka_unit_test(authorities),
                cmocka_unit_test(every_byte), cmocka_unit_test(lengths),    cmocka_unit_test(loopback_names),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
