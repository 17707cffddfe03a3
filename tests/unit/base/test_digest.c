/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include "../cmocka_all.h"

#include <stdlib.h>

/* FIPS 180-4 examples. */
static const struct {
        const char *text, *hex;
} vectors[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
};

static void known_vectors(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
                unsigned char digest[DIGEST_BYTES];
                char hex[DIGEST_HEX_MAX];
                digest_sha256(str_of(vectors[i].text), digest);
                digest_hex(digest, hex);
                assert_string_equal(hex, vectors[i].hex);
        }
}

static void a_million_letters(void **state) {
        (void)state;
        enum { MILLION = 1000000 };
        char *letters = malloc(MILLION);
        assert_non_null(letters);
        memset(letters, 'a', MILLION);
        unsigned char digest[DIGEST_BYTES];
        char hex[DIGEST_HEX_MAX];
        digest_sha256(str_n(letters, MILLION), digest);
        digest_hex(digest, hex);
        free(letters);
        assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void pairs_are_joined(void **state) {
        (void)state;
        for (size_t at = 0; at <= 56; at++) {
                unsigned char whole[DIGEST_BYTES], pair[DIGEST_BYTES];
                struct str text = str_of(vectors[2].text);
                digest_sha256(text, whole);
                digest_sha256_pair(str_first(text, at), str_skip(text, at), pair);
                assert_memory_equal(whole, pair, DIGEST_BYTES);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(known_vectors),
                cmocka_unit_test(a_million_letters),
                cmocka_unit_test(pairs_are_joined),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
