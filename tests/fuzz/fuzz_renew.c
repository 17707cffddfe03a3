/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "request body\0answer". Whatever they are: a body that leaves has the secret only where a stand-in filled its member,
 * and none is left in it; of an answer that is handed on, no token that was read is left.
 */
#include "base/cleanup.h"
#include "fuzz.h"
#include "gateway/creds/renew.h"

#include <errno.h>
#include <string.h>

#define FAKE "rt-FAKE0123456"
#define REAL "rt-REAL\"\\%&=\x01z"

static struct credentials *table(void) {
        static const struct str hosts[] = { STR("auth.ok.test") };
        static const struct credential_row rows[] = {
                { .name = STR("a"),
                  .slots = STR("bearer"),
                  .stand_in = { STR("at-FAKE0123456") },
                  .answer = STR("access_token"),
                  .hosts = hosts,
                  .n_hosts = 1 },
                { .name = STR("a.refresh"),
                  .slots = STR("body:refresh_token@/token"),
                  .stand_in = { STR(FAKE) },
                  .answer = STR("refresh_token"),
                  .hosts = hosts,
                  .n_hosts = 1 },
        };
        static struct buf bytes = BUF(65536);
        static struct credentials *open;
        if (!open)
                FUZZ_CHECK(credentials_encode(rows, 2, &bytes, NULL) == 0 &&
                           credentials_open(buf_str(&bytes), &open, NULL) == 0);
        return open;
}

static bool has_fake(struct str text) {
        struct credential_hit hit;
        size_t at = 0;
        return credentials_find(table(), text, &at, &hit);
}

static void check_request(struct str body) {
        struct inject_plan plan = { .set = { .bits = { 3 } } };
        const struct credential_mapping *leader = renew_leader(table(), &plan.set, STR("POST"), STR("/token?x"));
        struct str values[INJECT_SWAPS_MAX] = { STR(REAL), STR(REAL), STR(REAL), STR(REAL) };
        bool fresh;

        FUZZ_CHECK(leader && leader->index == 1);
        enum inject_result result =
            renew_judge(table(), &leader, &(struct renew_request){ .body = body }, &plan, &fresh);
        if (result == INJECT_REFUSE)
                return;
        FUZZ_CHECK((plan.n_swaps > 0) == (result == INJECT_SWAP));
        FUZZ_CHECK(fresh == (result == INJECT_PASS) && leader->index == 1);
        cleanup(buf_done) struct buf out = BUF(1 << 20);
        FUZZ_CHECK(renew_body(&plan, body, values, &out) == 0);
        if (result == INJECT_PASS)
                FUZZ_CHECK(str_eq(buf_str(&out), body));
        FUZZ_CHECK(!has_fake(buf_str(&out)));
}

static void check_answer(struct str answer) {
        cleanup(buf_done) struct buf lines = BUF(VAULT_ANSWER_MAX), out = BUF(4 << 20), again = BUF(VAULT_ANSWER_MAX);
        const struct credential_mapping *leader = credentials_get(table(), 1);
        uint64_t expires = 0;

        int r = renew_read(table(), leader, answer, &lines, &expires);
        if (r < 0 && r != -ENOENT)
                return;
        if (renew_write(table(), leader, answer, buf_str(&lines), &out) < 0)
                return;
        /* What is handed on reads as stand-ins. */
        FUZZ_CHECK(renew_read(table(), leader, buf_str(&out), &again, &expires) == r);
        struct str rest = buf_str(&again), line;
        while (rest.n > 0 && str_split(&rest, '\n', &line))
                FUZZ_CHECK(line.n == 0 || has_fake(line));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
        const uint8_t *zero = n > 0 ? memchr(data, 0, n) : NULL;
        size_t first = zero ? (size_t)(zero - data) : n;

        check_request(str_n(data, first));
        if (zero)
                check_answer(str_n(zero + 1, n - first - 1));
        return 0;
}
