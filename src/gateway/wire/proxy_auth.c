/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/wire/proxy_auth.h"

#include "base/base64.h"
#include "base/secrets/secret.h"
#include "policy/policy.h"

enum { DECODED_MAX = 192 }; /* longer than any user and secret of ours */

bool proxy_auth_fits(struct str secret, struct str user, struct str password) {
        bool same = secret_equal(secret, password);
        return secret.n > 0 && str_is(user, PROXY_USER) && same;
}

/* NULL also for two of them: which one counts would depend on the reader. */
static const struct http1_header *find_header(const struct http1_head *head) {
        const struct http1_header *found = NULL;

        for (size_t i = 0; i < head->n_headers; i++) {
                const struct http1_header *header = &head->headers[i];
                if (header->id != HEADER_PROXY || !str_eq_nocase(header->name, STR("proxy-authorization")))
                        continue;
                if (found)
                        return NULL;
                found = header;
        }

        return found;
}

bool proxy_auth_head_fits(struct str secret, const struct http1_head *head) {
        static const struct str scheme = STR("basic ");
        const struct http1_header *header = find_header(head);
        char decoded[DECODED_MAX];
        size_t n = 0;

        if (!header || !str_eq_nocase(str_first(header->value, scheme.n), scheme))
                return false;

        struct str encoded = str_trim(str_skip(header->value, scheme.n));
        bool fits = false;
        if (encoded.n / 4 * 3 <= sizeof decoded && base64_decode(encoded, decoded, &n)) {
                struct str password = str_n(decoded, n), user;
                fits = str_split(&password, ':', &user) && proxy_auth_fits(secret, user, password);
        }

        secret_wipe(decoded, sizeof decoded);
        return fits;
}
