/* SPDX-License-Identifier: Apache-2.0 */
/* Pairing: one device, once, in time. tests/integration/test_ui_pair.py asks the server itself. */
#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "ui/pairing.h"

#define NOW (1000 * NS_PER_SECOND)
static const unsigned char digest[32] = { 1, 2, 3 };

static struct pairing fresh(uint64_t seconds) {
        struct pairing pairing;

        pairing_begin(&pairing, digest, "192.0.2.5:4711", NOW, seconds);
        return pairing;
}

static enum pairing_result try(struct pairing *pairing, const char *key, const char *certificate, const char *device,
                               uint64_t seconds_later) {
        return pairing_exchange(pairing, str_of(key), str_of(certificate), device, NOW + seconds_later * NS_PER_SECOND);
}

static void the_link_has_both(void **state) {
        (void)state;
        struct pairing pairing = fresh(3600), other = fresh(3600);
        cleanup(free_ptr) char *link = pairing_link(&pairing);

        assert_non_null(link);
        assert_int_equal(strncmp(link, "https://192.0.2.5:4711/#pair=", 29), 0);
        assert_int_equal(strlen(link), 29 + 43 + 1 + 43);
        assert_string_not_equal(pairing.key, other.key);
        assert_string_equal(pairing.certificate, other.certificate);
        assert_null(strpbrk(link + 29, "+/="));
}

static void the_first_device_is_the_one(void **state) {
        (void)state;
        struct pairing pairing = fresh(3600);
        cleanup(free_ptr) char *key = str_dup(str_of(pairing.key));

        assert_true(pairing_takes(&pairing, "192.0.2.9"));
        assert_int_equal(try(&pairing, "", pairing.certificate, "192.0.2.9", 1), PAIRING_WRONG_KEY);
        assert_int_equal(try(&pairing, key, "", "192.0.2.9", 1), PAIRING_WRONG_CERTIFICATE);
        assert_string_equal(pairing.device, "");
        assert_int_equal(try(&pairing, key, pairing.certificate, "192.0.2.9", 1), PAIRING_DONE);
        assert_string_equal(pairing.device, "192.0.2.9");
        assert_int_equal(strlen(pairing.session.cookie), 64);
        assert_string_not_equal(pairing.session.cookie, pairing.session.header);
        assert_string_equal(pairing.key, "");
        assert_int_equal(try(&pairing, key, pairing.certificate, "192.0.2.9", 2), PAIRING_USED);
        assert_int_equal(try(&pairing, "", pairing.certificate, "192.0.2.10", 2), PAIRING_USED);
        assert_true(pairing_takes(&pairing, "192.0.2.9"));
        assert_false(pairing_takes(&pairing, "192.0.2.10"));
        assert_false(pairing_takes(&pairing, "192.0.2.90"));
        pairing_wipe(&pairing);
        assert_false(pairing_takes(&pairing, "192.0.2.9"));
}

static void it_ends_in_time(void **state) {
        (void)state;
        struct pairing pairing = fresh(3600);

        assert_null(pairing_over(&pairing, NOW));
        assert_int_equal(try(&pairing, pairing.key, pairing.certificate, "a", PAIRING_LINK_SECONDS), PAIRING_LATE);
        assert_non_null(pairing_over(&pairing, NOW + PAIRING_LINK_SECONDS * NS_PER_SECOND)); /* nobody came */
        assert_int_equal(try(&pairing, pairing.key, pairing.certificate, "a", PAIRING_LINK_SECONDS - 1), PAIRING_DONE);
        assert_null(pairing_over(&pairing, NOW + 3599 * NS_PER_SECOND));
        assert_non_null(pairing_over(&pairing, NOW + 3600 * NS_PER_SECOND));

        pairing = fresh(2); /* the link lives no longer than the pairing */
        assert_int_equal(try(&pairing, pairing.key, pairing.certificate, "a", 2), PAIRING_LATE);
        pairing_wipe(&pairing);
        assert_null(pairing_over(&pairing, UINT64_MAX)); /* there is none */
        assert_int_equal(try(&pairing, "", "", "a", 0), PAIRING_LATE);
}

static void every_result_has_words(void **state) {
        (void)state;
        for (int i = PAIRING_DONE; i <= PAIRING_WRONG_CERTIFICATE; i++)
                assert_true(strlen(pairing_text((enum pairing_result)i)) > 5);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_link_has_both),
                cmocka_unit_test(the_first_device_is_the_one),
                cmocka_unit_test(it_ends_in_time),
                cmocka_unit_test(every_result_has_words),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
