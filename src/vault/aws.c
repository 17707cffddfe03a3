/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/aws.h"

#include "base/secrets/secret.h"

#include <errno.h>
#include <openssl/hmac.h>

static struct str aws_unquoted(struct str s) {
        s = str_trim(s);
        if (s.n >= 2 && (s.p[0] == '"' || s.p[0] == '\'') && s.p[s.n - 1] == s.p[0])
                s = str_n(s.p + 1, s.n - 2);
        return s;
}

int aws_parse(struct str text, struct aws *ret, struct err *err) {
        struct aws aws = { 0 };
        struct str line;
        const struct {
                const char *name;
                struct str *place;
        } names[] = { { "AWS_ACCESS_KEY_ID", &aws.key_id },
                      { "AWS_SECRET_ACCESS_KEY", &aws.secret_key },
                      { "AWS_SESSION_TOKEN", &aws.session_token } };

        while (str_split(&text, '\n', &line)) {
                if (line.n > 0 && line.p[line.n - 1] == '\r')
                        line.n--;

                line = str_trim(line);
                if (str_starts(line, STR("export ")))
                        line = str_trim(str_skip(line, 7));

                ptrdiff_t equals = str_find(line, '=');
                if (equals <= 0)
                        continue;

                struct str name = str_trim(str_first(line, (size_t)equals));

                for (size_t i = 0; i < 3; i++)
                        if (str_eq_nocase(name, str_of(names[i].name)))
                                *names[i].place = aws_unquoted(str_skip(line, (size_t)equals + 1));
        }

        if (aws.key_id.n == 0 || aws.secret_key.n == 0)
                return err_set(err, EINVAL, "it has no %s",
                               aws.key_id.n == 0 ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY");

        if (aws.key_id.n > 256)
                return err_set(err, EINVAL, "its AWS_ACCESS_KEY_ID is too long");

        *ret = aws;
        return 0;
}

static bool aws_hmac(struct str key, struct str text, uint8_t ret[static VAULT_DIGEST_BYTES]) {
        unsigned n = VAULT_DIGEST_BYTES;
        return HMAC(EVP_sha256(), key.p, (int)key.n, (const uint8_t *)text.p, text.n, ret, &n) &&
               n == VAULT_DIGEST_BYTES;
}

int aws_signing_key(struct str secret_key, struct str date, struct str region, struct str service,
                    uint8_t ret[static VAULT_DIGEST_BYTES], struct err *err) {
        char first[4 + 512];
        uint8_t a[VAULT_DIGEST_BYTES], b[VAULT_DIGEST_BYTES];

        if (secret_key.n > sizeof first - 4)
                return err_set(err, EINVAL, "the secret key is too long");

        memcpy(first, "AWS4", 4);
        memcpy(first + 4, secret_key.p, secret_key.n);
        bool done = aws_hmac(str_n(first, 4 + secret_key.n), date, a) && aws_hmac(str_n(a, sizeof a), region, b) &&
                    aws_hmac(str_n(b, sizeof b), service, a) && aws_hmac(str_n(a, sizeof a), STR("aws4_request"), ret);
        secret_wipe(first, sizeof first);
        secret_wipe(a, sizeof a);
        secret_wipe(b, sizeof b);

        if (!done)
                return err_set(err, EIO, "the signing key cannot be derived");

        return 0;
}
