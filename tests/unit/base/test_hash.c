/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include "../cmocka_all.h"

/* The bytes 0, 1, 2, ... of each length. The values are those of CPython 3.11, whose hash() of bytes is SipHash-1-3. */
static const struct {
        struct hash_key key;
        size_t n;
        uint64_t hash;
} vectors[] = {
        { { 0, 0 }, 1, 0x68a914128e01e473 },
        { { 0, 0 }, 3, 0x4d4c9a4a8ef6e0ad },
        { { 0, 0 }, 7, 0x2f098ab0c751325a },
        { { 0, 0 }, 8, 0xead411e67ebe2eea },
        { { 0, 0 }, 9, 0x75927f9d95124362 },
        { { 0, 0 }, 15, 0xf30eb725bb91c9ea },
        { { 0, 0 }, 16, 0x8972188433a5c5b7 },
        { { 0, 0 }, 17, 0x4883c49a2c009c1d },
        { { 0, 0 }, 63, 0x385d3e39e5f37359 },
        { { 0, 0 }, 64, 0x75e05fd5bbc870c6 },
        { { 0, 0 }, 100, 0x1c6a66e1506e7908 },
        { { 0x65121defe496063e, 0xb30647aa540bb9c8 }, 1, 0x45e8aedb829392e6 },
        { { 0x65121defe496063e, 0xb30647aa540bb9c8 }, 8, 0xb19e59eaf2bc3c22 },
        { { 0x65121defe496063e, 0xb30647aa540bb9c8 }, 13, 0x7da3aec01ff56d },
};

static void known_vectors(void **state) {
        (void)state;
        unsigned char bytes[101];
        for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
                for (size_t shift = 0; shift < 2; shift++) { /* also from an odd address */
                        for (size_t j = 0; j < vectors[i].n; j++)
                                bytes[j + shift] = (unsigned char)j;
                        assert_true(hash_bytes(&vectors[i].key, bytes + shift, vectors[i].n) == vectors[i].hash);
                }
        }
}

static void length_counts(void **state) {
        (void)state;
        const struct hash_key key = { 1, 2 };
        const char zeros[300] = { 0 };
        for (size_t n = 0; n < 300; n++)
                for (size_t m = n + 1; m < 300; m += 7)
                        assert_true(hash_bytes(&key, zeros, n) != hash_bytes(&key, zeros, m));
        assert_true(hash_bytes(&key, NULL, 0) == hash_bytes(&key, zeros, 0));
}

static void seed_is_one_and_not_zero(void **state) {
        (void)state;
        const struct hash_key *seed = hash_seed();
        assert_ptr_equal(seed, hash_seed());
        assert_true(seed->a != 0 && seed->b != 0 && seed->a != seed->b);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(known_vectors),
                cmocka_unit_test(length_counts),
                cmocka_unit_test(seed_is_one_and_not_zero),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
