/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever the bytes are, what comes out is one line of valid UTF-8 without control characters. */
#include "base/cleanup.h"
#include "base/escape.h"
#include "fuzz.h"

static void check_shown(struct str s) {
        while (s.n > 0) {
                uint32_t code = 0;
                size_t n = utf8_decode(s, &code);
                FUZZ_CHECK(n > 0);
                FUZZ_CHECK(code >= 0x20 && code != 0x7f && !(code >= 0x80 && code < 0xa0));
                FUZZ_CHECK(!(code >= 0x202a && code <= 0x202e) && !(code >= 0x2066 && code <= 0x2069));
                s = str_skip(s, n);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str input = str_n(data, size);
        cleanup(buf_done) struct buf text = BUF(1 << 24), json = BUF(1 << 24), tiny = BUF(16);
        cleanup(buf_done) struct buf word = BUF(1 << 24);
        FUZZ_CHECK(escape_text(&text, input, 4096) == 0);
        check_shown(buf_str(&text));
        FUZZ_CHECK(escape_json(&json, input) == 0);
        FUZZ_CHECK(json.n >= 2 && json.p[0] == '"' && json.p[json.n - 1] == '"');
        check_shown(buf_str(&json));
        if (!str_has_nul(input))
                FUZZ_CHECK(escape_shell(&word, input) == 0 && word.n >= size);
        if (escape_json(&tiny, input) == 0)
                FUZZ_CHECK(tiny.n <= 16);
        return 0;
}
