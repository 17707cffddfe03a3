/* SPDX-License-Identifier: Apache-2.0 */
/* The dashboard's own reading of a request: nothing that is guessed gets in, and a parameter never holds more than was
 * sent. The first byte chooses which part of the request the rest is. */
#include "base/cleanup.h"
#include "fuzz.h"
#include "ui/ui_internal.h"

static const struct gate_session sessions[UI_SESSIONS_MAX] = {
        { "7f3c9d0e5b1a48627f3c9d0e5b1a48627f3c9d0e5b1a48627f3c9d0e5b1a4862",
          "01e8d7c6b5a4938201e8d7c6b5a4938201e8d7c6b5a4938201e8d7c6b5a49382" }
};

static void check_gate(unsigned which, struct str rest) {
        const struct gate_rules rules = { .port = 4711, .sessions = sessions };
        struct gate_request request = { .method = STR("POST"),
                                        .host = STR("127.0.0.1:4711"),
                                        .origin = STR("http://127.0.0.1:4711"),
                                        .site = STR("same-origin"),
                                        .content_type = STR("application/json"),
                                        .origin_form = true };
        struct str *const parts[] = { &request.method,  &request.host,   &request.origin,      &request.site,
                                      &request.cookies, &request.header, &request.content_type };

        *parts[which % 7] = rest;
        FUZZ_CHECK(gate_judge(&rules, &request) != GATE_PASS);
        request.is_public = true;
        enum gate_verdict verdict = gate_judge(&rules, &request);
        if (verdict == GATE_PASS && which % 7 == 1)
                FUZZ_CHECK(str_ends(rest, STR(":4711")) && rest.n <= 14);
        if (verdict == GATE_PASS && which % 7 == 2)
                FUZZ_CHECK(!rest.p || str_is(rest, "http://127.0.0.1:4711"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(buf_done) struct buf text = BUF(4096);

        if (size == 0)
                return 0;
        struct str rest = str_n(data + 1, size - 1);
        const char *value = query_get(rest, "q", &text);
        if (value)
                FUZZ_CHECK(*value && strlen(value) <= rest.n && strlen(value) == text.n);
        check_gate(data[0], rest);
        return 0;
}
