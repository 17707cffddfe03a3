/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/graphql_request.h"

#include "base/cleanup.h"
#include "conf/json_walk.h"

#include <errno.h>

struct members {
        struct graphql_call *call;
        unsigned documents, operations, variables;
        bool chosen; /* an operation is named */
};

static int request_bad(struct graphql_call *call, const char *problem) {
        call->graphql.problem = problem;
        return -EBADMSG;
}

/* --- POST --- */

/* "application/json", with charset=utf-8 or without. */
static bool is_json(struct str type) {
        ptrdiff_t end = str_find(type, ';');
        struct str rest = end < 0 ? STR("") : str_trim(str_skip(type, (size_t)end + 1));

        if (!str_eq_nocase(str_trim(end < 0 ? type : str_first(type, (size_t)end)), STR("application/json")))
                return false;
        return rest.n == 0 || str_eq_nocase(rest, STR("charset=utf-8")) ||
               str_eq_nocase(rest, STR("charset=\"utf-8\""));
}

static int take_text(struct members *members, const struct json_scalar *scalar, struct buf *out, unsigned *count) {
        int r;

        if ((*count)++ > 0)
                return request_bad(members->call, "a member of it is there twice");
        if (!scalar->is_string)
                return request_bad(members->call, "its query or its operationName is no text");

        r = json_scalar_text(scalar, out);
        if (r == -ENOMEM)
                return r;

        if (r < 0)
                return request_bad(members->call, "its document is longer than 64 KiB, or no text");

        return 0;
}

static int take_member(void *arg, const struct json_scalar *scalar) {
        struct members *members = arg;
        struct str pointer = scalar->pointer;
        bool null = str_is(scalar->raw, "null");

        if (str_is(pointer, "/query"))
                return take_text(members, scalar, &members->call->document, &members->documents);

        if (str_is(pointer, "/operationName")) {
                members->chosen |= !null;
                if (null) {
                        if (members->operations++)
                                return request_bad(members->call, "a member of it is there twice");
                        return 0;
                }
                return take_text(members, scalar, &members->call->operation, &members->operations);
        }

        if (str_starts(pointer, STR("/variables/")) || str_is(pointer, "/variables"))
                return 0;
        if (str_is(pointer, "/extensions") && null)
                return 0;
        if (str_starts(pointer, STR("/extensions")))
                return request_bad(members->call, "it has extensions, as persisted queries have");

        return request_bad(members->call, "it is a batch, or has members that are not known here");
}

static int read_post(const struct graphql_request *request, struct members *members) {
        struct str start = request->body;
        int r;

        if (request->query.n > 0)
                return request_bad(members->call,
                                   "it is a POST with parameters in its URL, which servers may take for the document");
        if (request->coded)
                return request_bad(members->call, "its body is compressed");
        if (!is_json(request->content_type))
                return request_bad(members->call, "its content type is not application/json");

        while (start.n > 0 && (start.p[0] == ' ' || start.p[0] == '\n' || start.p[0] == '\r' || start.p[0] == '\t'))
                start = str_skip(start, 1);

        if (start.n == 0 || start.p[0] != '{')
                return request_bad(members->call, "it is a batch, or no JSON object");

        r = json_walk(request->body, take_member, members);
        if (r < 0 && r != -ENOMEM && !members->call->graphql.problem)
                return request_bad(members->call, "its body is no JSON");

        return r;
}

/* --- GET --- */

static int decode_parameter(struct str text, struct buf *out) {
        for (size_t i = 0; i < text.n; i++) {
                char c = text.p[i] == '+' ? ' ' : text.p[i];
                if (c == '%') {
                        int high = text.n - i >= 3 ? ascii_hex(text.p[i + 1]) : -1;
                        int low = -1;

                        if (high >= 0)
                                low = ascii_hex(text.p[i + 2]);

                        if (low < 0)
                                return -EBADMSG;

                        c = (char)(high << 4 | low);
                        i += 2;
                }

                int r = buf_add_char(out, c);
                if (r == -ENOMEM)
                        return r;
                if (r < 0)
                        return -EBADMSG;
        }

        return 0;
}

static int take_parameter(struct members *members, struct str name, struct str value) {
        int r = 0;

        if (str_is(name, "query")) {
                if (members->documents++)
                        r = -EBADMSG;
                else
                        r = decode_parameter(value, &members->call->document);
        } else if (str_is(name, "operationName")) {
                if (members->operations++)
                        r = -EBADMSG;
                else
                        r = decode_parameter(value, &members->call->operation);
                members->chosen = members->call->operation.n > 0;
        } else if (str_is(name, "variables")) {
                r = members->variables++ ? -EBADMSG : 0;
        } else {
                return request_bad(members->call, "it has parameters that are not known here");
        }

        if (r == -EBADMSG)
                return request_bad(members->call,
                                   "a parameter of it is there twice, too long, or not escaped as it must be");

        return r;
}

static int read_get(const struct graphql_request *request, struct members *members) {
        struct str rest = request->query, part;
        int r = 0;

        if (request->body.n > 0)
                return request_bad(members->call, "it is a GET with a body");

        while (r == 0 && str_split(&rest, '&', &part)) {
                ptrdiff_t equals = str_find(part, '=');
                struct str name = part, value = STR("");

                if (str_find(part, ';') >= 0)
                        return request_bad(members->call, "its parameters could be read in two ways");
                if (equals >= 0) {
                        name = str_first(part, (size_t)equals);
                        value = str_skip(part, (size_t)equals + 1);
                }

                r = take_parameter(members, name, value);
        }

        return r;
}

int graphql_request_read(const struct graphql_request *request, struct graphql_call *ret) {
        struct members members = { .call = ret };
        bool get = str_is(request->method, "GET");
        int r;

        *ret = (struct graphql_call){ .document = BUF(GRAPHQL_DOCUMENT_MAX), .operation = BUF(1024) };
        if (!get && !str_is(request->method, "POST"))
                return request_bad(ret, "it is neither GET nor POST");

        if (get)
                r = read_get(request, &members);
        else
                r = read_post(request, &members);
        if (r < 0)
                return r;
        if (members.documents != 1)
                return request_bad(ret, "it has no document, or only the hash of one");

        r = graphql_read(buf_str(&ret->document), members.chosen ? buf_str(&ret->operation) : STR(""), &ret->graphql);
        if (r == 0 && get && ret->graphql.mutation)
                return request_bad(ret, "it is a mutation by GET");

        return r;
}

void graphql_call_done(struct graphql_call *call) {
        graphql_done(&call->graphql);
        buf_done(&call->document);
        buf_done(&call->operation);
}
