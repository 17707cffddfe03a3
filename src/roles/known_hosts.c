/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/known_hosts.h"

#include "base/base64.h"
#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { KEY_MAX = 16384, SSH_PORT = 22, BLOCK = 64 };

static struct str next_field(struct str *line) {
        struct str rest = str_trim(*line);
        size_t n = 0;

        while (n < rest.n && rest.p[n] != ' ' && rest.p[n] != '\t')
                n++;
        *line = str_skip(rest, n);
        return str_first(rest, n);
}

bool known_key_parse(struct str line, struct known_key *ret) {
        struct str type = next_field(&line), text = next_field(&line);
        cleanup(free_ptr) char *bytes = text.n > 0 && text.n <= KEY_MAX ? malloc(text.n) : NULL;
        size_t n = 0;

        if (!bytes || type.n == 0 || !base64_decode(text, bytes, &n))
                return false;

        /* The key names its own type first. */
        if (n < 4 + type.n || (unsigned char)bytes[3] != type.n || memcmp(bytes + 4, type.p, type.n) != 0)
                return false;

        digest_sha256(str_n(bytes, n), ret->digest);
        return true;
}

/* --- names --- */

static bool pattern_matches(struct str pattern, struct str name) {
        size_t at = 0, star = SIZE_MAX, back = 0, i = 0;

        while (i < name.n) {
                if (at < pattern.n && pattern.p[at] == '*') {
                        star = at++;
                        back = i;
                } else if (at < pattern.n &&
                           (pattern.p[at] == '?' || ascii_lower(pattern.p[at]) == ascii_lower(name.p[i]))) {
                        at++;
                        i++;
                } else if (star != SIZE_MAX) {
                        at = star + 1;
                        i = ++back;
                } else {
                        return false;
                }
        }

        while (at < pattern.n && pattern.p[at] == '*')
                at++;

        return at == pattern.n;
}

/* HMAC (RFC 2104) with SHA-1, as hashed names have it. */
static void hmac_sha1(struct str key, struct str data, unsigned char ret[static DIGEST_SHA1_BYTES]) {
        unsigned char inner[BLOCK], outer[BLOCK], between[DIGEST_SHA1_BYTES];

        memset(inner, 0x36, sizeof inner);
        memset(outer, 0x5c, sizeof outer);

        for (size_t i = 0; i < key.n && i < BLOCK; i++) {
                inner[i] ^= (unsigned char)key.p[i];
                outer[i] ^= (unsigned char)key.p[i];
        }

        const struct str first[] = { str_n(inner, sizeof inner), data };
        digest_sha1(first, 2, between);
        const struct str second[] = { str_n(outer, sizeof outer), str_n(between, sizeof between) };
        digest_sha1(second, 2, ret);
}

/* "|1|SALT|HASH" */
static bool hashed_matches(struct str text, struct str name) {
        char salt[BLOCK], hash[BLOCK];
        unsigned char found[DIGEST_SHA1_BYTES];
        size_t salt_n = 0, hash_n = 0;
        struct str part;

        text = str_skip(text, 3);
        if (!str_split(&text, '|', &part) || part.n > sizeof salt || text.n > sizeof hash ||
            !base64_decode(part, salt, &salt_n) || !base64_decode(text, hash, &hash_n))
                return false;

        hmac_sha1(str_n(salt, salt_n), name, found);
        return hash_n == sizeof found && memcmp(hash, found, sizeof found) == 0;
}

static bool names_match(struct str names, struct str name) {
        bool matched = false;
        struct str part;

        if (str_starts(names, STR("|1|")))
                return hashed_matches(names, name);

        while (str_split(&names, ',', &part)) {
                if (part.n > 1 && part.p[0] == '!' && pattern_matches(str_skip(part, 1), name))
                        return false;
                matched |= part.n > 0 && pattern_matches(part, name);
        }

        return matched;
}

/* --- files --- */

static int line_take(struct str line, struct str name, known_keys *keys, known_keys *revoked) {
        struct str first = next_field(&line);
        bool revokes = str_is(first, "@revoked");
        struct known_key key;

        if (first.n == 0 || first.p[0] == '#' || str_is(first, "@cert-authority"))
                return 0;
        if (revokes)
                first = next_field(&line);
        if (!names_match(first, name) || !known_key_parse(line, &key))
                return 0;

        if (revokes)
                return vec_push(revoked, key);

        return vec_push(keys, key);
}

int known_hosts_find(struct str text, const struct authority *target, known_keys *keys, known_keys *revoked) {
        char name[AUTHORITY_TEXT_MAX + 2];
        struct str line;
        int n, r = 0;

        if (target->port == SSH_PORT)
                n = snprintf(name, sizeof name, "%s", target->host.name);
        else
                n = snprintf(name, sizeof name, "[%s]:%u", target->host.name, target->port);

        if (n < 0 || (size_t)n >= sizeof name)
                return 0;

        while (r == 0 && str_split(&text, '\n', &line))
                r = line_take(line, str_n(name, (size_t)n), keys, revoked);

        return r;
}

void known_hosts_revoke(known_keys *keys, const known_keys *revoked) {
        size_t kept = 0;

        for (size_t i = 0; i < keys->n; i++) {
                bool gone = false;

                for (size_t k = 0; k < revoked->n; k++)
                        gone |= memcmp(keys->p[i].digest, revoked->p[k].digest, DIGEST_BYTES) == 0;
                if (!gone)
                        keys->p[kept++] = keys->p[i];
        }

        keys->n = kept;
}
