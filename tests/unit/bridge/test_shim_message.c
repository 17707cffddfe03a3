/* SPDX-License-Identifier: Apache-2.0 */
/* What bailey-shim says: read exactly, or not at all. */
#include "bridge/shim_message.h"

#include "../cmocka_all.h"

#include <signal.h>

static size_t call_make(char *packet, uint16_t n, const char *body, size_t body_n) {
        struct shim_head head = { SHIM_MAGIC, SHIM_VERSION, n, (uint32_t)body_n };

        memcpy(packet, &head, sizeof head);
        memcpy(packet + sizeof head, body, body_n);
        return sizeof head + body_n;
}

static void test_call(void **state) {
        static const char body[] = "/work\0gh\0pr\0\0x y";
        char packet[256];
        struct shim_call call;
        size_t n = call_make(packet, 5, body, sizeof body);

        (void)state;
        assert_true(shim_call_read(str_n(packet, n), &call));
        assert_true(str_is(call.directory, "/work") && str_is(call.tool, "gh") && call.n == 3);
        assert_true(str_is(call.words[0], "pr") && call.words[1].n == 0 && str_is(call.words[2], "x y"));
        for (size_t i = 0; i < n; i++)
                assert_false(shim_call_read(str_n(packet, i), &call));
        packet[n] = 'x';
        assert_false(shim_call_read(str_n(packet, n + 1), &call));
        for (unsigned count = 0; count < 20; count++)
                if (count != 5) {
                        n = call_make(packet, (uint16_t)count, body, sizeof body);
                        assert_false(shim_call_read(str_n(packet, n), &call));
                }
}

static void test_bad_calls(void **state) {
        static const struct {
                const char *body;
                size_t n;
        } bad[] = { { "work\0gh", 8 }, { "/work\0", 7 }, { "\0gh", 4 }, { "/work\0gh", 8 } };
        char packet[64];
        struct shim_call call;

        (void)state;
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
                assert_false(shim_call_read(str_n(packet, call_make(packet, 2, bad[i].body, bad[i].n)), &call));
}

static void test_signals(void **state) {
        struct shim_word word = {
                .magic = SHIM_MAGIC, .version = SHIM_VERSION, .kind = SHIM_SIGNAL, .number = SIGTERM
        };
        int number = 0;

        (void)state;
        assert_true(shim_signal_read(str_n(&word, sizeof word), &number));
        assert_int_equal(number, SIGTERM);
        assert_false(shim_signal_read(str_n(&word, sizeof word - 1), &number));
        static const int others[] = { 0, -1, SIGKILL, SIGSTOP, SIGSEGV, 64, 1000 };
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
                word.number = others[i];
                assert_false(shim_signal_read(str_n(&word, sizeof word), &number));
        }
        word.number = SIGTERM;
        word.kind = SHIM_EXITED;
        assert_false(shim_signal_read(str_n(&word, sizeof word), &number));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_call),
                cmocka_unit_test(test_bad_calls),
                cmocka_unit_test(test_signals),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
