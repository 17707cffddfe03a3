/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

static const char alphabets[][65] = {
        [BASE64_STANDARD] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        [BASE64_URL] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
};

/* The six bits of character `at` in the base64 of the bytes; bits behind the end are zero. */
static unsigned base64_sextet(struct str in, size_t at) {
        size_t bit = at * 6, byte = bit / 8;
        unsigned both = (unsigned)(unsigned char)in.p[byte] << 8;
        if (byte + 1 < in.n)
                both |= (unsigned char)in.p[byte + 1];
        return both >> (10 - bit % 8) & 63;
}

void base64_encode(struct str in, enum base64_alphabet alphabet, char *out) {
        const char *digits = alphabets[alphabet];
        size_t n = (in.n * 8 + 5) / 6, padded = base64_length(in.n);
        for (size_t i = 0; i < n; i++)
                out[i] = digits[base64_sextet(in, i)];
        for (size_t i = n; i < padded; i++)
                out[i] = '=';
}

/* The six bits of each character, or NOT for one that has none. */
enum { NOT = 0x80 };
struct values {
        uint8_t of[256];
};

static void make_values(struct values *ret) {
        memset(ret->of, NOT, sizeof ret->of);
        for (uint8_t i = 0; i < 64; i++)
                ret->of[(unsigned char)alphabets[BASE64_STANDARD][i]] = i;
}

/* Four characters, three bytes. Zero, or NOT among other bits. */
static unsigned decode_four(const struct values *values, const char *in, char *out) {
        const unsigned char *c = (const unsigned char *)in;
        unsigned a = values->of[c[0]], b = values->of[c[1]], d = values->of[c[2]], e = values->of[c[3]];
        out[0] = (char)(a << 2 | b >> 4);
        out[1] = (char)(b << 4 | d >> 2);
        out[2] = (char)(d << 6 | e);
        return (a | b | d | e) & NOT;
}

bool base64_decode(struct str in, char *out, size_t *ret_n) {
        struct values values;
        size_t padding = 0, at = 0, n = 0;

        *ret_n = 0;
        if (in.n % 4 != 0 || in.n == 0)
                return in.n == 0;

        while (padding < 2 && in.p[in.n - 1 - padding] == '=')
                padding++;

        make_values(&values);
        unsigned wrong = 0;
        for (; at + 4 < in.n; at += 4, n += 3)
                wrong |= decode_four(&values, in.p + at, out + n);

        /* In the last four, bits that make no byte must be zero. */
        char last[4] = { 'A', 'A', 'A', 'A' }, bytes[3];
        memcpy(last, in.p + at, 4 - padding);
        wrong |= decode_four(&values, last, bytes);
        memcpy(out + n, bytes, 3 - padding);
        *ret_n = n + 3 - padding;

        return !wrong && (padding < 1 || bytes[2] == 0) && (padding < 2 || bytes[1] == 0);
}

size_t base64_inner(struct str value, unsigned before, enum base64_alphabet alphabet, char *out) {
        const char *digits = alphabets[alphabet];
        size_t skip_bits = (6 - before % 3 * 8 % 6) % 6; /* of the value, shared with what stands before it */
        size_t bits = value.n * 8;
        if (bits < skip_bits + 6)
                return 0;

        size_t n = (bits - skip_bits) / 6;
        for (size_t i = 0; i < n; i++) {
                size_t bit = skip_bits + i * 6, byte = bit / 8;
                unsigned both = (unsigned)(unsigned char)value.p[byte] << 8;

                if (byte + 1 < value.n)
                        both |= (unsigned char)value.p[byte + 1];

                out[i] = digits[both >> (10 - bit % 8) & 63];
        }

        return n;
}
