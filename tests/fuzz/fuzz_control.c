/* SPDX-License-Identifier: Apache-2.0 */
/* The control protocol and the file of approved rules: what was read and is written again reads as the same. */
#include "base/cleanup.h"
#include "control/protocol.h"
#include "fuzz.h"
#include "policy/approved.h"

#include <errno.h>

static void check_request(struct str input) {
        struct control_request q, again;
        struct err e = { 0 };
        if (control_request_parse(input, &q, &e) < 0) {
                FUZZ_CHECK(e.code != 0 && e.text[0]);
                return;
        }
        cleanup(buf_done) struct buf out = BUF(2 * CONTROL_LINE_MAX);
        FUZZ_CHECK(control_request_write(&out, &q) == 0);
        FUZZ_CHECK(str_find(buf_str(&out), '\n') == (ptrdiff_t)out.n - 1);
        FUZZ_CHECK(control_request_parse(str_n(out.p, out.n - 1), &again, &e) == 0);
        FUZZ_CHECK(again.id == q.id && again.what == q.what && again.version == q.version);
        FUZZ_CHECK(again.question == q.question && again.answer == q.answer && again.scope == q.scope);
        FUZZ_CHECK(strcmp(again.client, q.client) == 0 && strcmp(again.pattern, q.pattern) == 0);
        for (const char *c = q.pattern; *c; c++)
                FUZZ_CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
}

static void check_message(struct str input) {
        struct control_message m;
        struct err e = { 0 };
        if (control_message_parse(input, &m, &e) < 0)
                return;
        FUZZ_CHECK(m.root && (m.is_event || m.ok || m.fault.p));
        (void)control_text(m.root, "text");
        (void)control_number(m.root, "id");
        control_message_done(&m);
}

static void check_approved(struct str input) {
        cleanup(approved_done) struct approved rules = { 0 }, again = { 0 };
        cleanup(buf_done) struct buf out = BUF(16 << 20);
        if (approved_parse(input, "file", &rules, NULL) < 0)
                return;
        FUZZ_CHECK(approved_format(&rules, &out) == 0);
        FUZZ_CHECK(approved_parse(buf_str(&out), "again", &again, NULL) == 0);
        FUZZ_CHECK(again.rules.n == rules.rules.n);
        for (size_t i = 0; i < rules.rules.n; i++) {
                const struct approved_rule *a = &rules.rules.p[i], *b = &again.rules.p[i];
                FUZZ_CHECK(a->deny == b->deny && strcmp(a->pattern, b->pattern) == 0 && strcmp(a->day, b->day) == 0);
                FUZZ_CHECK(!a->workspace == !b->workspace &&
                           (!a->workspace || strcmp(a->workspace, b->workspace) == 0));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str input = str_n(data, size);
        check_request(input);
        check_message(input);
        check_approved(input);
        return 0;
}
