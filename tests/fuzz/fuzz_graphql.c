/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A document, or a whole request: what is read has names at the root that stand in the document, and reading it again
 * gives the same. White space and comments around it change nothing.
 */
#include "base/cleanup.h"
#include "bridge/graphql_request.h"
#include "fuzz.h"

#include <string.h>

static void check_document(struct str document) {
        cleanup(graphql_done) struct graphql g = { 0 }, again = { 0 };
        cleanup(buf_done) struct buf wide = BUF(2 * GRAPHQL_DOCUMENT_MAX);

        if (graphql_read(document, STR(""), &g) < 0) {
                FUZZ_CHECK(g.problem);
                return;
        }
        FUZZ_CHECK(g.fields.n > 0);
        for (size_t i = 0; i < g.fields.n; i++)
                FUZZ_CHECK(g.fields.p[i].n > 0 && memmem(document.p, document.n, g.fields.p[i].p, g.fields.p[i].n));
        if (buf_printf(&wide, ",# x\n%.*s\n#", STR_FMT(document)) < 0 || wide.n > GRAPHQL_DOCUMENT_MAX)
                return;
        FUZZ_CHECK(graphql_read(buf_str(&wide), STR(""), &again) == 0);
        FUZZ_CHECK(again.mutation == g.mutation && again.fields.n == g.fields.n);
}

static void check_request(const struct graphql_request *request) {
        cleanup(graphql_call_done) struct graphql_call call = { 0 };
        int r = graphql_request_read(request, &call);

        FUZZ_CHECK(r == 0 ? call.graphql.fields.n > 0 : call.graphql.problem != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str bytes = str_n(data, size);

        if (size < 1 || memchr(data, '\0', size))
                return 0;
        check_document(bytes);
        check_request(
            &(struct graphql_request){ .method = STR("POST"), .content_type = STR("application/json"), .body = bytes });
        check_request(&(struct graphql_request){ .method = STR("GET"), .query = bytes });
        return 0;
}
