/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/match/addr.h"

#include "../cmocka_all.h"
#include "cases.h"

/* TEXT CLASS CANONICAL | TEXT error */
static bool address_case(const struct case_line *c, void *context) {
        (void)context;
        struct addr a, again;
        bool parsed = addr_parse(c->field[0], &a);
        if (str_is(c->field[1], "error"))
                return !parsed || case_failed(c, "accepted");
        char text[ADDR_TEXT_MAX];
        if (!parsed)
                return case_failed(c, "refused");
        addr_text(&a, text);
        if (!str_is(c->field[2], text))
                return case_failed(c, "is written as %s", text);
        if (!addr_parse(str_of(text), &again) || !addr_equal(&a, &again))
                return case_failed(c, "%s is read as something else", text);
        const char *class = addr_class_name(addr_classify(&a));
        return str_is(c->field[1], class) || case_failed(c, "has the class %s", class);
}

static void addresses(void **state) {
        (void)state;
        cases_run("addresses.txt", address_case, NULL);
}

/* NETWORK in ADDRESS | NETWORK out ADDRESS | NETWORK error */
static bool network_case(const struct case_line *c, void *context) {
        (void)context;
        struct cidr net;
        struct addr a;
        bool parsed = cidr_parse(c->field[0], &net);
        if (str_is(c->field[1], "error"))
                return !parsed || case_failed(c, "accepted");
        if (!parsed || !addr_parse(c->field[2], &a))
                return case_failed(c, "refused");
        return cidr_contains(&net, &a) == str_is(c->field[1], "in") || case_failed(c, "wrong");
}

static void networks(void **state) {
        (void)state;
        cases_run("networks.txt", network_case, NULL);
}

static void kernel_form(void **state) {
        (void)state;
        static const char *const texts[] = { "192.0.2.1", "2001:db8::1", "::", "255.255.255.255" };
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
                struct addr a, back;
                struct sockaddr_storage storage;
                uint16_t port = 0;
                assert_true(addr_parse(str_of(texts[i]), &a));
                assert_int_equal(addr_to_sockaddr(&a, 4711, &storage),
                                 a.family == ADDR_V4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
                assert_true(addr_from_sockaddr((struct sockaddr *)&storage, &back, &port));
                assert_true(addr_equal(&a, &back));
                assert_int_equal(port, 4711);
        }
        struct sockaddr local = { .sa_family = AF_UNIX };
        struct addr untouched = { .family = ADDR_V4 };
        assert_false(addr_from_sockaddr(&local, &untouched, NULL));
        assert_int_equal(untouched.family, ADDR_V4);
}

static void no_address_is_never_public(void **state) {
        (void)state;
        struct addr none = { 0 };
        assert_int_equal(addr_classify(&none), ADDR_CLASS_RESERVED);
}

/* The text need not be terminated, and nothing behind it is read. */
static void unterminated(void **state) {
        (void)state;
        struct addr a;
        char text[] = { '1', '.', '2', '.', '3', '.', '4', '5' };
        char shown[ADDR_TEXT_MAX];
        assert_true(addr_parse(str_n(text, 7), &a));
        addr_text(&a, shown);
        assert_string_equal(shown, "1.2.3.4");
        assert_false(addr_parse(str_n(text, 6), &a));
        assert_false(addr_parse(str_n("1.2.3.4\0", 8), &a));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(addresses),    cmocka_unit_test(networks),
                cmocka_unit_test(kernel_form),  cmocka_unit_test(no_address_is_never_public),
                cmocka_unit_test(unterminated),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
