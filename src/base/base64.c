/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

static const char alphabets[][65] = {
        [BASE64_STANDARD] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        [BASE64_URL] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
};

/* The six bits of character `at` in the base64 of the bytes; bits behind the end are zero. */
static unsigned sextet(struct str in, size_t at) {
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
                out[i] = digits[sextet(in, i)];
        for (size_t i = n; i < padded; i++)
                out[i] = '=';
}

static int value_of(char c) {
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (ascii_is_digit(c))
                return c - '0' + 52;
        return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(struct str in, char *out, size_t *ret_n) {
        size_t padding = 0, n = 0;
        if (in.n % 4 != 0)
                return false;
        while (padding < 2 && padding < in.n && in.p[in.n - 1 - padding] == '=')
                padding++;
        unsigned bits = 0, held = 0;
        for (size_t i = 0; i < in.n - padding; i++) {
                int v = value_of(in.p[i]);
                if (v < 0)
                        return false;
                bits = bits << 6 | (unsigned)v;
                held += 6;
                if (held < 8)
                        continue;
                held -= 8;
                out[n++] = (char)(bits >> held);
                bits &= (1u << held) - 1;
        }
        *ret_n = n;
        return bits == 0;
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
