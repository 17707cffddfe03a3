/* SPDX-License-Identifier: Apache-2.0 */
/* Headers that ask for another request: every spelling that a server may take for one, and nothing else. */
#include "gateway/override.h"

#include "../cmocka_all.h"

static void spellings_are_found(void **state) {
        (void)state;
        static const struct {
                const char *name;
                uint8_t reason;
        } cases[] = {
                { "X-HTTP-Method-Override", REASON_METHOD },
                { "x-http-method-override", REASON_METHOD },
                { "X_HTTP_METHOD_OVERRIDE", REASON_METHOD },
                { "x.http.method-override", REASON_METHOD },
                { "X-Original-URL", REASON_PATH },
                { "x~original!url", REASON_PATH },
                { "DESTINATION", REASON_PATH },
                { "Content_Length", REASON_PATH },
                { "transfer.encoding", REASON_PATH },
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                const struct override *found = override_find(str_of(cases[i].name));
                assert_non_null(found);
                assert_int_equal(found->reason, cases[i].reason);
        }
}

static void others_pass(void **state) {
        (void)state;
        static const char *const names[] = { "",        "X",         "Content-Length", "content-length",   "Host",
                                             "X-Metho", "X-Method1", "X-Methode",      "XX-Method",        "Accept",
                                             "XMethod", "X--Host",   "Destinations",   "Transfer-Encoding" };

        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                assert_null(override_find(str_of(names[i])));
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(spellings_are_found), cmocka_unit_test(others_pass) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
