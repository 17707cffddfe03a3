/* SPDX-License-Identifier: Apache-2.0 */
/* The MCP server on any bytes: each line gets nothing or one line of JSON, and no tool runs before initialize. */
#include "base/buf.h"
#include "conf/json.h"
#include "fuzz.h"
#include "verbs/mcp.h"

#include <errno.h>

static int call_nothing(void *arg, struct str name, const struct node *arguments, struct buf *ret, bool *ret_failed,
                        struct err *e) {
        const struct mcp *m = *(struct mcp **)arg;
        (void)arguments;
        (void)e;
        FUZZ_CHECK(m->ready);
        *ret_failed = name.n > 4;
        return str_is(name, "check") ? buf_add(ret, "{\"a\":1}") : -ENOENT;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct mcp *self, m = { .tools = { .call = call_nothing, .arg = &self }, .version = "0" };
        struct str rest = str_n(data, size), line;
        self = &m;
        while (str_split(&rest, '\n', &line)) {
                struct buf out = BUF(2 * MCP_REPLY_MAX);
                FUZZ_CHECK(mcp_answer(&m, line, &out) == 0);
                if (out.n > 0) {
                        struct document *document = NULL;
                        FUZZ_CHECK(out.p[out.n - 1] == '\n' && memchr(out.p, '\n', out.n) == out.p + out.n - 1);
                        FUZZ_CHECK(json_read(str_first(buf_str(&out), out.n - 1), STR("x"), &document, NULL) == 0);
                        document_free(document);
                }
                buf_done(&out);
        }
        return 0;
}
