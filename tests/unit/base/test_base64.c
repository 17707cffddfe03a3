/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include "../cmocka_all.h"

static void published_vectors(void **state) {
        (void)state;
        /* RFC 4648, section 10 */
        static const struct {
                const char *plain, *encoded;
        } cases[] = { { "", "" },
                      { "f", "Zg==" },
                      { "fo", "Zm8=" },
                      { "foo", "Zm9v" },
                      { "foob", "Zm9vYg==" },
                      { "fooba", "Zm9vYmE=" },
                      { "foobar", "Zm9vYmFy" } };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                char out[16], back[16];
                size_t n = 99;
                struct str plain = str_of(cases[i].plain), encoded = str_of(cases[i].encoded);
                base64_encode(plain, BASE64_STANDARD, out);
                assert_int_equal(base64_length(plain.n), encoded.n);
                assert_memory_equal(out, encoded.p, encoded.n);
                assert_true(base64_decode(encoded, back, &n));
                assert_true(str_eq(str_n(back, n), plain));
        }
}

static void alphabets(void **state) {
        (void)state;
        char out[4];
        base64_encode(STR("\xff\xef\xfe"), BASE64_STANDARD, out);
        assert_memory_equal(out, "/+/+", 4);
        base64_encode(STR("\xff\xef\xfe"), BASE64_URL, out);
        assert_memory_equal(out, "_-_-", 4);
}

static void decoding_is_strict(void **state) {
        (void)state;
        static const char *const bad[] = { "Z",      "Zg",    "Zg=",  "Zh==", "Zm9=", "Z===",     "====", "Zg==Zg==",
                                           "Zm9v\n", " Zm9v", "Zm9-", "Zm_v", "Zm 9", "Zm9vYg=A", "=m9v" };
        char out[16];
        size_t n;
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
                assert_false(base64_decode(str_of(bad[i]), out, &n));
}

/* Whatever stands around a value, the characters that are its own are in the text, at the place that is said. */
static void inner_characters(void **state) {
        (void)state;
        static const char value[] = "sk-proj-0123\xff\xfe\xfdxyz";
        char text[64], encoded[128], inner[64];
        for (size_t n = 1; n < sizeof value; n++)
                for (size_t before = 0; before < 7; before++)
                        for (size_t after = 0; after < 4; after++)
                                for (int alphabet = BASE64_STANDARD; alphabet <= BASE64_URL; alphabet++) {
                                        memset(text, (int)(0x5a + before + after), sizeof text);
                                        memcpy(text + before, value, n);
                                        base64_encode(str_n(text, before + n + after), alphabet, encoded);
                                        size_t k = base64_inner(str_n(value, n), (unsigned)before, alphabet, inner);
                                        assert_true(k <= base64_length(n));
                                        assert_true(k + 2 >= n * 8 / 6);
                                        size_t from = (before * 8 + 5) / 6;
                                        if (k > 0)
                                                assert_memory_equal(encoded + from, inner, k);
                                }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(published_vectors),
                cmocka_unit_test(alphabets),
                cmocka_unit_test(decoding_is_strict),
                cmocka_unit_test(inner_characters),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
