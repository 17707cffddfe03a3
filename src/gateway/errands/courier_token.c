/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens. One question to the vault for each mark, waited for: the vault has the value in memory and answers at once,
 * and a courier without its token has nothing else to do. Values are wiped where they were; the request that holds one
 * is wiped when it has gone out.
 */
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/secrets/secret.h"
#include "gateway/errands/courier_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

enum { ANSWER_MS = 5000, USER_MAX = 256 };

/* The answer to this question; the vault's greeting and what is late pass. */
static int await_answer(struct courier *courier, uint64_t id, struct vault_message *ret, struct err *err) {
        for (;;) {
                struct pollfd ready = { .fd = courier->vault, .events = POLLIN };
                cleanup(close_fd) int fd = -1;
                int r;

                if (poll(&ready, 1, ANSWER_MS) <= 0)
                        return err_set(err, ETIMEDOUT, "the vault does not answer");

                r = vault_receive(courier->vault, VAULT_TO_GATEWAY, courier->room, ret, &fd);
                if (r == -EAGAIN)
                        continue;
                if (r <= 0)
                        return err_set(err, ECONNRESET, "the vault is gone");

                if (ret->id == id && ret->kind == VAULT_REFUSED)
                        return err_set(err, EACCES, "the vault does not release the token: %s",
                                       vault_refusal_text((enum vault_refusal)ret->number));

                if (ret->id == id && ret->kind == VAULT_SECRET)
                        return 0;
        }
}

static bool value_fits_a_header(struct str value) {
        for (size_t i = 0; i < value.n; i++)
                if ((unsigned char)value.p[i] <= 0x20 || (unsigned char)value.p[i] >= 0x7f)
                        return false;
        return value.n > 0;
}

static int put_basic(struct buf *out, struct str user, struct str value) {
        cleanup(buf_done) struct buf pair = BUF(USER_MAX + 1 + VAULT_SECRET_MAX);
        size_t n;
        int r;

        r = buf_append(&pair, user);
        if (r == 0)
                r = buf_add_char(&pair, ':');
        if (r == 0)
                r = buf_append(&pair, value);

        n = base64_length(pair.n);
        if (r == 0)
                r = buf_reserve(out, n);

        if (r == 0) {
                base64_encode(buf_str(&pair), BASE64_STANDARD, out->p + out->n);
                out->n += n;
        }

        if (pair.p)
                secret_wipe(pair.p, pair.cap);

        return r;
}

/* "token:N" or "basic:N:USER". */
static int fill_mark(struct courier *courier, struct str mark, const struct authority *to, struct buf *out,
                     struct err *err) {
        struct str word, number, user = mark;
        struct vault_message answer = { 0 };
        uint64_t mapping;
        int r;

        str_split(&user, ':', &word);
        if (!str_split(&user, ':', &number) || !str_to_u64(number, VAULT_MAPPINGS_MAX - 1, &mapping))
                return err_set(err, EINVAL, "a mark without a number");
        if (courier->vault < 0)
                return err_set(err, EINVAL, "there is no vault for a token");

        const struct vault_message question = {
                .kind = VAULT_RELEASE, .id = ++courier->last_question, .mapping = (uint32_t)mapping, .authority = *to
        };
        r = vault_send(courier->vault, GATEWAY_TO_VAULT, &question, -1);
        if (r < 0)
                return err_set(err, -r, "the vault is gone");

        r = await_answer(courier, question.id, &answer, err);
        if (r == 0 && !value_fits_a_header(answer.data[0]))
                r = err_set(err, EINVAL, "the token has blanks or other bytes that no token has");
        else if (r == 0) {
                if (str_is(word, "basic"))
                        r = put_basic(out, user, answer.data[0]);
                else
                        r = buf_append(out, answer.data[0]);
                if (r < 0)
                        err_set(err, -r, "the request is too long");
        }

        secret_wipe(courier->room, VAULT_MESSAGE_MAX);
        return r;
}

static bool mark_begins(struct str text) {
        return str_starts(text, STR("{token:")) || str_starts(text, STR("{basic:"));
}

int courier_fill(struct courier *courier, struct str text, const struct authority *to, struct buf *out,
                 struct err *err) {
        while (text.n) {
                ptrdiff_t end = mark_begins(text) ? str_find(text, '}') : -1;
                int r;

                if (end < 0) {
                        r = buf_add_char(out, text.p[0]);
                        if (r < 0)
                                return err_set(err, -r, "the request is too long");

                        text = str_skip(text, 1);
                        continue;
                }

                r = fill_mark(courier, str_n(text.p + 1, (size_t)end - 1), to, out, err);
                if (r < 0)
                        return r;

                text = str_skip(text, (size_t)end + 1);
        }

        return 0;
}
