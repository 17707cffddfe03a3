/* SPDX-License-Identifier: Apache-2.0 */
/* What is an order, what is talk, and what is an order that is written wrongly. */
#include "../cmocka_all.h"
#include "chat/words.h"

#include <errno.h>

static const struct {
        const char *text;
        int result;
        enum chat_verb verb;
        const char *code, *name;
        enum control_scope scope;
} cases[] = {
        { "/allow ab23cd45", 1, CHAT_ALLOW, "ab23cd45", "", SCOPE_ONCE },
        { "/Allow AB23CD45 Always", 1, CHAT_ALLOW, "ab23cd45", "", SCOPE_ALWAYS },
        { "  /allow   example.com  ab23cd45\tworkspace\n", 1, CHAT_ALLOW, "ab23cd45", "example.com", SCOPE_WORKSPACE },
        { "/allow@bailey_bot ab23cd45 sandbox", 1, CHAT_ALLOW, "ab23cd45", "", SCOPE_SANDBOX },
        { "allow ab23cd45 once", 1, CHAT_ALLOW, "ab23cd45", "", SCOPE_ONCE },
        { "deny ab23cd45", 1, CHAT_DENY, "ab23cd45", "", SCOPE_ONCE },
        { "/deny example.com:443 ab23cd45", 1, CHAT_DENY, "ab23cd45", "example.com:443", SCOPE_ONCE },
        { "/pending", 1, CHAT_PENDING, "", "", SCOPE_ONCE },
        { "/ps", 1, CHAT_PS, "", "", SCOPE_ONCE },
        { "/help", 1, CHAT_HELP, "", "", SCOPE_ONCE },
        { "/kill k3xyz", 1, CHAT_KILL, "", "k3xyz", SCOPE_ONCE },
        { "/kill k3xyz123 ab23cd45", 1, CHAT_KILL, "ab23cd45", "k3xyz123", SCOPE_ONCE },
        { "/pause k3xyz", 1, CHAT_PAUSE, "", "k3xyz", SCOPE_ONCE },
        { "", 0, 0, "", "", 0 },
        { "hello", 0, 0, "", "", 0 },
        { "allow it", 0, 0, "", "", 0 },
        { "deny", 0, 0, "", "", 0 },
        { "ps", 0, 0, "", "", 0 },
        { "please /allow ab23cd45", 0, 0, "", "", 0 },
        { "/allowed ab23cd45", 0, 0, "", "", 0 },
        { "/unknown", 0, 0, "", "", 0 },
        { "/allow", -EINVAL, 0, "", "", 0 },
        { "/allow example.com", -EINVAL, 0, "", "", 0 },
        { "/allow example.com forever", -EINVAL, 0, "", "", 0 },
        { "/allow ab23cd45 once always", -EINVAL, 0, "", "", 0 },
        { "/allow ab23cd45 ab23cd46 ab23cd47", -EINVAL, 0, "", "", 0 },
        { "/kill", -EINVAL, 0, "", "", 0 },
        { "/ps everything", -EINVAL, 0, "", "", 0 },
};

static void orders_are_read(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct chat_order order = { 0 };
                struct err err = { 0 };
                int r = chat_order_parse(str_of(cases[i].text), &order, &err);

                if (r != cases[i].result)
                        fail_msg("%s: %d, %s", cases[i].text, r, err_text(&err));
                if (r != 1)
                        continue;
                assert_int_equal(order.verb, cases[i].verb);
                assert_string_equal(order.code, cases[i].code);
                assert_string_equal(order.name, cases[i].name);
                assert_int_equal(order.scope, cases[i].scope);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(orders_are_read) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
