/* SPDX-License-Identifier: Apache-2.0 */
/* Documents and requests: what is read from them, and what is refused. Generated ones:
 * tests/oracle/graphql_documents.py. */
#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "bridge/graphql_request.h"

#include <errno.h>

static void join_fields(const struct graphql *g, struct buf *out) {
        assert_int_equal(buf_add(out, g->mutation ? "mutation" : "query"), 0);
        for (size_t i = 0; i < g->fields.n; i++)
                assert_int_equal(buf_printf(out, " %.*s", STR_FMT(g->fields.p[i])), 0);
}

static void documents_are_read(void **state) {
        static const struct {
                const char *document, *operation, *expected;
        } rows[] = {
                { "{a}", NULL, "query a" },
                { "query{a b,c}", NULL, "query a b c" },
                { "mutation M($x:[I!]!=[1,2]){ x: addComment(input:{a:$x,b:\"}\"}) { id } }", NULL,
                  "mutation addComment" },
                { "query A{a} mutation B{b}", "B", "mutation b" },
                { "query A{a} mutation B{b}", "A", "query a" },
                { "mutation { ...F } fragment F on Mutation { ...G x } fragment G on Mutation { deleteRef }", NULL,
                  "mutation deleteRef x" },
                { "mutation { ... { y } ... on Mutation @include(if:true) { z } }", NULL, "mutation y z" },
                { "{ ...F } fragment F on Query { a ...F }", NULL, "query a" },
                { "# mutation { a }\n{ b }", NULL, "query b" },
                { "{ a(s:\"mutation { x }\", t:\"\"\"a } mutation { y \"\"\") { c } }", NULL, "query a" },
                { "{ query mutation fragment on }", NULL, "query query mutation fragment on" },
                { "query on { a }", "on", "query a" },
        };
        (void)state;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                cleanup(graphql_done) struct graphql g = { 0 };
                cleanup(buf_done) struct buf out = BUF(4096);
                int r = graphql_read(str_of(rows[i].document), str_of(rows[i].operation), &g);
                if (r < 0)
                        fail_msg("%s: %s", rows[i].document, g.problem);
                join_fields(&g, &out);
                if (!str_is(buf_str(&out), rows[i].expected))
                        fail_msg("%s: %.*s", rows[i].document, STR_FMT(buf_str(&out)));
        }
}

static void other_documents_are_refused(void **state) {
        static const char *const refused[] = {
                "",
                "{}",
                "{a",
                "{a}}",
                "{a()}",
                "{a(b)}",
                "{a(b:01)}",
                "{a(b:1x)}",
                "{a(b:1.)}",
                "{a(b:\"\\x\")}",
                "{a(b:\"\\u{41}\")}",
                "{a(b:\"\n\")}",
                "{a b:}",
                "{a}{b}",
                "{a} query B{b}",
                "query A{a} query A{b}",
                "query A{a} query B{b}",
                "subscription{a}",
                "type A{a:B}",
                "query @x {a}",
                "{a @unknown}",
                "{...F}",
                "{...F} fragment F on A{a} fragment F on A{b}",
                "fragment F on A{a}",
                "fragment on on A{a}",
                "\"description\" query A{a}",
                "{a}\x01",
                "{a(b:$x) } & ",
                "{a(b:[\"\"\"x\"]) c(d:[\"\"\"])}",
                "{a(b:\"\"\"x\\\"\"\" \"\"\")}",
                "query($x:I=$y){a}",
                "\xef\xbb\xbf{a}",
        };
        (void)state;
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
                cleanup(graphql_done) struct graphql g = { 0 };
                if (graphql_read(str_of(refused[i]), STR(""), &g) != -EBADMSG || !g.problem)
                        fail_msg("%s", refused[i]);
        }
        cleanup(buf_done) struct buf deep = BUF(1 << 20);
        for (int i = 0; i < 200; i++)
                assert_int_equal(buf_add(&deep, "{a"), 0);
        for (int i = 0; i < 200; i++)
                assert_int_equal(buf_add(&deep, "}"), 0);
        cleanup(graphql_done) struct graphql g = { 0 };
        assert_int_equal(graphql_read(buf_str(&deep), STR(""), &g), -EBADMSG);
}

static int read_request(const char *method, const char *query, const char *type, const char *body, struct buf *out) {
        cleanup(graphql_call_done) struct graphql_call call = { 0 };
        const struct graphql_request request = {
                .method = str_of(method), .query = str_of(query), .content_type = str_of(type), .body = str_of(body)
        };
        int r = graphql_request_read(&request, &call);

        if (r == 0)
                join_fields(&call.graphql, out);
        else
                assert_non_null(call.graphql.problem);
        return r;
}

static void requests_are_read(void **state) {
        static const char json[] = "application/json";
        static const struct {
                const char *method, *query, *type, *body, *expected; /* NULL: refused */
        } rows[] = {
                { "POST", "", json, "{\"query\":\"{a}\"}", "query a" },
                { "POST", "", "application/json; charset=utf-8",
                  "{\"query\":\"mutation{a}\",\"variables\":{\"x\":[1]}}", "mutation a" },
                { "POST", "", json, "{\"operationName\":null,\"query\":\"\\u007ba}\",\"extensions\":{}}", "query a" },
                { "POST", "", json, "{\"operationName\":\"B\",\"query\":\"query A{a} mutation B{b}\"}", "mutation b" },
                { "GET", "query=%7Ba+b%7D&variables=%7B%7D", "", "", "query a b" },
                { "GET", "query=query%20A%7Ba%7Dquery%20B%7Bb%7D&operationName=B", "", "", "query b" },
                { "POST", "", json, "[{\"query\":\"{a}\"}]", NULL },
                { "POST", "", json, "{\"query\":\"{a}\",\"query\":\"{b}\"}", NULL },
                { "POST", "", json, "{\"query\":\"{a}\",\"\\u0071uery\":\"{b}\"}", NULL },
                { "POST", "", json, "{\"query\":\"{a}\",\"Query\":\"{b}\"}", NULL },
                { "POST", "", json, "{\"id\":\"abc\"}", NULL },
                { "POST", "", json, "{\"extensions\":{\"persistedQuery\":{\"sha256Hash\":\"x\"}}}", NULL },
                { "POST", "", json, "{\"query\":\"{a}\",\"extensions\":{\"persistedQuery\":{\"version\":1}}}", NULL },
                { "POST", "query=mutation%7Bb%7D", json, "{\"query\":\"{a}\"}", NULL },
                { "POST", "", "application/graphql", "{a}", NULL },
                { "POST", "", "multipart/form-data; boundary=x", "--x", NULL },
                { "POST", "", "application/json; charset=utf-16", "{\"query\":\"{a}\"}", NULL },
                { "POST", "", "", "{\"query\":\"{a}\"}", NULL },
                { "PUT", "", json, "{\"query\":\"{a}\"}", NULL },
                { "GET", "query=mutation%7Ba%7D", "", "", NULL },
                { "GET", "query=%7Ba%7D&query=%7Bb%7D", "", "", NULL },
                { "GET", "query=%7Ba%7D&extensions=%7B%7D", "", "", NULL },
                { "GET", "query=%7Ba%7D;query=%7Bb%7D", "", "", NULL },
                { "GET", "query=%7Ba%7D", "", "{\"query\":\"{b}\"}", NULL },
                { "GET", "", "", "", NULL },
        };
        (void)state;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                cleanup(buf_done) struct buf out = BUF(4096);
                int r = read_request(rows[i].method, rows[i].query, rows[i].type, rows[i].body, &out);
                if ((r == 0) != (rows[i].expected != NULL) ||
                    (rows[i].expected && !str_is(buf_str(&out), rows[i].expected)))
                        fail_msg("%zu: %d %.*s", i, r, STR_FMT(buf_str(&out)));
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(documents_are_read),
                cmocka_unit_test(other_documents_are_refused),
                cmocka_unit_test(requests_are_read),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
