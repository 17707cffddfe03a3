/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a run chose as a name: in HTML it is text, in Markdown it is one code span on one line. */
#include "base/cleanup.h"
#include "fuzz.h"
#include "verbs/record/report_internal.h"

static void check_html(struct str text) {
        for (size_t i = 0; i < text.n; i++)
                FUZZ_CHECK(!memchr("<>\"'`\n\r", text.p[i], 7) && text.p[i] != '\0');
}

static size_t run_of_backticks(struct str text, size_t at) {
        size_t n = 0;

        while (at + n < text.n && text.p[at + n] == '`')
                n++;
        return n;
}

/* By CommonMark's rule: the span ends at the first run as long as the one that began it, and that is the end of it all.
 */
static void check_code_span(struct str text) {
        size_t fence = run_of_backticks(text, 0), at = fence;

        FUZZ_CHECK(fence > 0);
        for (;;) {
                FUZZ_CHECK(at < text.n);
                FUZZ_CHECK(text.p[at] != '\n' && text.p[at] != '|' && text.p[at] != '\0');
                size_t run = run_of_backticks(text, at);
                if (run == fence) {
                        FUZZ_CHECK(at + run == text.n);
                        return;
                }
                at += run ? run : 1;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(buf_done) struct buf html = BUF(1 << 24), markdown = BUF(1 << 24);
        struct str input = str_n(data, size);

        FUZZ_CHECK(report_html_text(&html, input) == 0);
        check_html(buf_str(&html));
        FUZZ_CHECK(report_md_text(&markdown, input) == 0);
        if (size)
                check_code_span(buf_str(&markdown));
        return 0;
}
