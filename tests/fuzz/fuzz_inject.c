/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request from the input: "host\ntarget\nName: value\n...". Whatever it is: in the clear nothing is ever swapped, a
 * request to a host without a mapping never gets a secret, and what was swapped holds each secret where its stand-in
 * was and no stand-in any more.
 */
#include "base/base64.h"
#include "base/cleanup.h"
#include "fuzz.h"
#include "gateway/creds/inject.h"

#include <string.h>

#define FAKE "sk-FAKE01234"
#define REAL "sk-REAL/+=%&"
enum { HEADERS = 16 };

static struct credentials *table(void) {
        static const struct str hosts[] = { STR("api.ok.test") };
        static const struct credential_row rows[] = {
                { .name = STR("a"),
                  .slots = STR("bearer,header:x-key,basic,query:key,path"),
                  .stand_in = { STR(FAKE) },
                  .hosts = hosts,
                  .n_hosts = 1 },
                { .kind = MAPPING_SIGV4,
                  .name = STR("b"),
                  .slots = STR("sigv4"),
                  .stand_in = { [PART_KEY_ID] = STR("AKIAFAKEFAKE"), [PART_SECRET_KEY] = STR("fakefakefake") },
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

static void check_swap(const struct inject_plan *plan, const struct request_view *r) {
        struct str values[INJECT_SWAPS_MAX] = { STR(REAL), STR(REAL), STR(REAL), STR(REAL) };
        FUZZ_CHECK(plan->n_swaps > 0 && plan->n_swaps <= INJECT_SWAPS_MAX);
        if (plan->swaps[0].slot == SLOT_SIGV4)
                return;
        for (size_t i = 0; i < r->n_headers; i++) {
                cleanup(buf_done) struct buf out = BUF(1 << 17);
                int e = inject_header(plan, r, i, values, &out);
                FUZZ_CHECK(e >= 0);
                FUZZ_CHECK(!has_fake(e ? buf_str(&out) : r->headers[i].value) && !has_fake(r->headers[i].name));
                FUZZ_CHECK(!e || !memchr(out.p, '\n', out.n));
        }
        cleanup(buf_done) struct buf out = BUF(1 << 17);
        int e = inject_target(plan, r, values, &out);
        FUZZ_CHECK(e >= 0 && !has_fake(e ? buf_str(&out) : r->target));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str rest = str_n(data, size > 4096 ? 4096 : size), line;
        struct header_view headers[HEADERS];
        struct request_view r = {
                .secure = true, .method = STR("GET"), .target = STR("/"), .now_s = 1369353600, .headers = headers
        };
        struct authority to;
        if (!str_split(&rest, '\n', &line) || authority_parse(line, 443, &to, NULL) < 0)
                return 0;
        r.host = host_str(&to.host);
        if (str_split(&rest, '\n', &line) && line.n > 0)
                r.target = line;
        while (r.n_headers < HEADERS && str_split(&rest, '\n', &line)) {
                ptrdiff_t colon = str_find(line, ':');
                if (colon > 0)
                        headers[r.n_headers++] = (struct header_view){ str_first(line, (size_t)colon),
                                                                       str_trim(str_skip(line, (size_t)colon + 1)) };
        }
        struct inject_plan plan;
        enum inject_result result = inject_judge(table(), &to, &r, &plan);
        bool mapped = str_is(r.host, "api.ok.test") && to.port == 443;
        FUZZ_CHECK(mapped || result != INJECT_SWAP);
        FUZZ_CHECK((result == INJECT_REFUSE) == (plan.problem != INJECT_NO_PROBLEM));
        if (result == INJECT_PASS) {
                FUZZ_CHECK(!has_fake(r.target));
                for (size_t i = 0; i < r.n_headers; i++)
                        FUZZ_CHECK(!has_fake(headers[i].value) && !has_fake(headers[i].name));
        }
        if (result == INJECT_SWAP)
                check_swap(&plan, &r);
        r.secure = false;
        FUZZ_CHECK(inject_judge(table(), &to, &r, &plan) != INJECT_SWAP);
        return 0;
}
