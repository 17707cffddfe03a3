/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secrets/digest.h"

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

/* RFC 4231, cases 1, 2 and 6 (a key longer than a block). */
static void keyed(void **state) {
        (void)state;
        char long_key[131], first_key[20];
        memset(long_key, 0xaa, sizeof long_key);
        memset(first_key, 0x0b, sizeof first_key);
        const struct {
                struct str key, data;
                const char *hex;
        } cases[] = {
                { str_n(first_key, sizeof first_key), STR("Hi There"),
                  "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
                { STR("Jefe"), STR("what do ya want for nothing?"),
                  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
                { str_n(long_key, sizeof long_key), STR("Test Using Larger Than Block-Size Key - Hash Key First"),
                  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                unsigned char digest[DIGEST_BYTES];
                char hex[DIGEST_HEX_MAX];
                digest_hmac(cases[i].key, cases[i].data, digest);
                digest_hex(digest, hex);
                assert_string_equal(hex, cases[i].hex);
        }
}

static void in_pieces(void **state) {
        (void)state;
        struct digest d;
        digest_begin(&d);
        for (int round = 0; round < 2; round++) { /* the end is a new beginning */
                unsigned char whole[DIGEST_BYTES], pieces[DIGEST_BYTES];
                digest_add(&d, STR("ab"));
                digest_add(&d, STR(""));
                digest_add(&d, STR("c"));
                digest_end(&d, pieces);
                digest_sha256(STR("abc"), whole);
                assert_memory_equal(whole, pieces, DIGEST_BYTES);
        }
}

static void sha1_of_pieces(void **state) {
        (void)state;
        static const unsigned char abc[DIGEST_SHA1_BYTES] = { 0xa9, 0x99, 0x3e, 0x36, 0x47, 0x06, 0x81,
                                                              0x6a, 0xba, 0x3e, 0x25, 0x71, 0x78, 0x50,
                                                              0xc2, 0x6c, 0x9c, 0xd0, 0xd8, 0x9d };
        const struct str whole[] = { STR("abc") }, parts[] = { STR("a"), STR(""), STR("bc") };
        unsigned char got[DIGEST_SHA1_BYTES];
        digest_sha1(whole, 1, got);
        assert_memory_equal(got, abc, sizeof abc);
        digest_sha1(parts, 3, got);
        assert_memory_equal(got, abc, sizeof abc);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(known_vectors),    cmocka_unit_test(keyed),
                cmocka_unit_test(in_pieces),        cmocka_unit_test(a_million_letters),
                cmocka_unit_test(pairs_are_joined), cmocka_unit_test(sha1_of_pieces),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
