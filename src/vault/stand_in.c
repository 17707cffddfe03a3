/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/stand_in.h"

#include "base/random.h"
#include "base/secrets/secret.h"

#include <errno.h>

/* Beginnings that are public: they say whose token it is and of which kind, and clients check them. */
static const char *const known[] = {
        "sk-ant-api03-", "sk-ant-admin01-",
        "sk-ant-oat01-", "sk-ant-",
        "sk-proj-",      "sk-svcacct-",
        "sk-or-v1-",     "sk-or-",
        "sk-",           "gsk_",
        "xai-",          "AIza",
        "ya29.",         "ghp_",
        "gho_",          "ghu_",
        "ghs_",          "ghr_",
        "github_pat_",   "glpat-",
        "gldt-",         "glptt-",
        "npm_",          "pypi-",
        "hf_",           "xoxb-",
        "xoxp-",         "xoxa-",
        "xapp-",         "sk_live_",
        "sk_test_",      "rk_live_",
        "rk_test_",      "AKIA",
        "ASIA",          "r8_",
        "tgp_v1_",       "dop_v1_",
        "eyJ",
};

static size_t prefix_length(struct str real, struct str prefix) {
        size_t most = prefix.n <= real.n && str_starts(real, prefix) ? prefix.n : 0;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
                if (str_starts(real, str_of(known[i])) && strlen(known[i]) > most)
                        most = strlen(known[i]);
        return most;
}

void stand_in_source_seed(struct stand_in_source *source, const uint8_t seed[static DIGEST_BYTES], uint32_t label) {
        *source = (struct stand_in_source){ .seeded = true, .used = DIGEST_BYTES };
        digest_hmac(str_n(seed, DIGEST_BYTES), str_n(&label, sizeof label), source->seed);
}

static uint8_t source_byte(struct stand_in_source *source) {
        uint8_t byte;

        if (!source->seeded) {
                random_bytes(&byte, 1);
                return byte;
        }

        if (source->used == DIGEST_BYTES) {
                source->blocks++;
                digest_hmac(str_n(source->seed, DIGEST_BYTES), str_n(&source->blocks, sizeof source->blocks),
                            source->block);
                source->used = 0;
        }

        return source->block[source->used++];
}

unsigned stand_in_draw(struct stand_in_source *source, unsigned n) {
        unsigned limit = 256 / n * n, byte;

        do
                byte = source_byte(source);
        while (byte >= limit);
        return byte % n;
}

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

/* The characters in a run of letters and digits decide the alphabet of its stand-in. */
static const char *alphabet_of(struct str run) {
        bool lower = false, upper = false, digit = false, hex = true;

        for (size_t i = 0; i < run.n; i++) {
                char c = run.p[i];

                digit |= ascii_is_digit(c);
                lower |= c >= 'a' && c <= 'z';
                upper |= c >= 'A' && c <= 'Z';
                hex &= ascii_hex(c) >= 0;
        }

        if (digit && !lower && !upper)
                return DIGITS;
        if (hex && run.n >= 8 && !(lower && upper))
                return upper ? DIGITS "ABCDEF" : DIGITS "abcdef";
        if (lower && upper)
                return digit ? LOWER UPPER DIGITS : LOWER UPPER;
        if (lower)
                return digit ? LOWER DIGITS : LOWER;

        if (digit)
                return UPPER DIGITS;

        return UPPER;
}

static size_t run_length(struct str s) {
        size_t n = 0;
        while (n < s.n && ascii_is_alnum(s.p[n]))
                n++;
        return n;
}

/* Returns how many characters were drawn. */
static size_t stand_in_replace(struct stand_in_source *source, struct str real, size_t from, char *ret) {
        size_t drawn = 0, at = from;

        memcpy(ret, real.p, real.n);

        while (at < real.n) {
                size_t n = run_length(str_skip(real, at));
                if (n == 0) {
                        at++; /* a separator stays where it is */
                        continue;
                }

                const char *alphabet = alphabet_of(str_first(str_skip(real, at), n));
                for (size_t i = 0; i < n; i++)
                        ret[at + i] = alphabet[stand_in_draw(source, (unsigned)strlen(alphabet))];

                drawn += n;
                at += n;
        }

        return drawn;
}

bool stand_in_is_apart(struct str stand_in, struct str real, struct str prefix) {
        struct str own = str_skip(real, prefix_length(real, prefix));
        return own.n == 0 || stand_in.n < own.n || !memmem(stand_in.p, stand_in.n, own.p, own.n);
}

int stand_in_make(struct stand_in_source *source, struct str real, struct str prefix, char *ret, struct err *err) {
        size_t from = prefix_length(real, prefix);

        for (int i = 0; i < 100; i++) {
                if (stand_in_replace(source, real, from, ret) < STAND_IN_RANDOM_MIN)
                        break;
                if (stand_in_is_apart(str_n(ret, real.n), real, prefix))
                        return 0;
        }

        secret_wipe(ret, real.n);
        return err_set(err, EINVAL,
                       "it is too short: fewer than %d letters and digits would be left to make a stand-in of",
                       STAND_IN_RANDOM_MIN);
}
