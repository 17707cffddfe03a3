/* SPDX-License-Identifier: Apache-2.0 */
/* An address is rebuilt to one that reads the same, of plain characters; a request is carried in one form or not at
 * all. The first byte chooses: an address, or a request to the callback of a page. */
#include "base/cleanup.h"
#include "bridge/callback_request.h"
#include "bridge/page.h"
#include "fuzz.h"

static void check_page(struct str text) {
        static struct page page, again;

        if (page_parse(text, &page, NULL) < 0)
                return;
        FUZZ_CHECK(str_starts(str_of(page.url), STR("https://")));
        for (const char *c = page.url; *c; c++)
                FUZZ_CHECK(*c > ' ' && *c <= '~' && !strchr("\"<>\\^`{|}$'()*;!", *c));
        FUZZ_CHECK(page_parse(str_of(page.url), &again, NULL) == 0 && strcmp(page.url, again.url) == 0);
        FUZZ_CHECK(page.target.port == again.target.port && host_equal(&page.target.host, &again.target.host));
        if (page.callback.wanted)
                FUZZ_CHECK(page.callback.port >= PAGE_PORT_FIRST && page.callback.path[0] == '/' &&
                           again.callback.wanted);
}

static void check_request(struct str head) {
        static const struct page_callback callback = {
                .wanted = true, .port = 8085, .host = "localhost", .path = "/callback", .state = "abc"
        };
        cleanup(buf_done) struct buf out = BUF(2 * CALLBACK_HEAD_MAX), again = BUF(2 * CALLBACK_HEAD_MAX);
        struct str text;

        if (callback_judge(head, &callback, &out) != CALLBACK_CARRY)
                return;
        text = buf_str(&out);
        FUZZ_CHECK(str_starts(text, STR("GET /callback?")) && str_ends(text, STR("Connection: close\r\n\r\n")));
        FUZZ_CHECK(callback_judge(text, &callback, &again) == CALLBACK_CARRY && str_eq(text, buf_str(&again)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        if (size == 0)
                return 0;
        if (data[0] == 'r')
                check_request(str_n(data + 1, size - 1));
        else
                check_page(str_n(data + 1, size - 1));
        return 0;
}
