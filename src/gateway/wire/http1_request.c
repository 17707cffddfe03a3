/* SPDX-License-Identifier: Apache-2.0 */
/* The request line, the four forms of its target, and the request that leaves. */
#include "gateway/wire/http1_internal.h"

#include "base/bounds.h"

/* http://authority[/path][?query]: cuts, and checks the bytes behind the authority. The authority itself is judged by
 * the one canonicaliser, policy/match/host.h. */
static bool split_absolute(struct http1_request *request) {
        struct str t = request->target;
        size_t scheme = 0;

        if (str_eq_nocase(str_first(t, 7), STR("http://")))
                scheme = 7;
        else if (str_eq_nocase(str_first(t, 8), STR("https://")))
                scheme = 8;
        else
                return false;

        request->https = scheme == 8;
        size_t end = scheme;
        while (end < t.n && t.p[end] != '/' && t.p[end] != '?')
                end++;

        request->form = FORM_ABSOLUTE;
        request->authority = str_n(t.p + scheme, end - scheme);
        request->path = str_skip(t, end);

        return request->authority.n > 0;
}

static bool clean_path(struct str path) {
        const char *p = path.p, *end = p + path.n;
        p = http1_skip(p, end, CHAR_PATH);
        if (p < end && *p == '?')
                p = http1_skip(p, end, CHAR_QUERY);
        return p == end;
}

static bool parse_target(struct http1_request *request) {
        struct str t = request->target;

        if (str_eq(request->method, STR("CONNECT"))) {
                request->form = FORM_AUTHORITY;
                request->authority = t;
                return true;
        }

        if (t.p[0] == '/') {
                request->form = FORM_ORIGIN;
                request->path = t;
        } else if (str_eq(t, STR("*"))) {
                request->form = FORM_ASTERISK;
                request->path = t;
                return str_eq(request->method, STR("OPTIONS"));
        } else if (!split_absolute(request)) {
                return false;
        }

        return clean_path(request->path);
}

/* Whoever is told FTP_PROXY asks for ftp://host/path here. */
static bool has_other_scheme(struct str target) {
        ptrdiff_t colon = str_find(target, ':');
        struct str scheme = str_n(target.p, colon > 0 ? (size_t)colon : 0);

        return scheme.n && str_starts(str_skip(target, scheme.n), STR("://")) && !str_eq_nocase(scheme, STR("http")) &&
               !str_eq_nocase(scheme, STR("https"));
}

/* METHOD SP target SP HTTP/1.x CR LF; *ret_next is where the header lines begin. */
static enum http1_result parse_request_line(void *message, struct str in, size_t seen, size_t *ret_next) {
        struct http1_request *request = message;
        const char *p = in.p, *end = in.p + in.n;
        const char *stop = http1_skip(p, end, CHAR_TOKEN);
        if (min_of(stop, end) - p > HTTP1_METHOD_MAX)
                return HTTP1_BAD_METHOD;
        if (stop == end)
                return HTTP1_MORE;
        if (*stop != ' ' || stop == p)
                return HTTP1_BAD_METHOD;

        request->method = str_n(p, (size_t)(stop - p));
        p = stop + 1;
        bool whole = memchr(p, ' ', (size_t)(end - p)) != NULL; /* else what was seen is target, checked before */
        stop = !whole && in.p + seen > p ? in.p + seen : p;
        for (; stop < end && (uint8_t)*stop > ' ' && (uint8_t)*stop < 0x7f; stop++)
                ;

        if (stop == end)
                return HTTP1_MORE;

        if (*stop != ' ')
                return *stop == '\r' || *stop == '\n' ? HTTP1_BAD_VERSION
                                                      : HTTP1_BAD_TARGET; /* HTTP/0.9 has no version */

        request->target = str_n(p, (size_t)(stop - p));
        if (request->target.n == 0)
                return HTTP1_BAD_TARGET;

        p = stop + 1;
        size_t have = (size_t)(end - p);
        if (memcmp(p, "HTTP/1.", min_of(have, 7)) != 0)
                return HTTP1_BAD_VERSION;
        if (have >= 8 && p[7] != '0' && p[7] != '1')
                return HTTP1_BAD_VERSION;
        if (have >= 9 && p[8] != '\r')
                return p[8] == '\n' ? HTTP1_BAD_LINE : HTTP1_BAD_VERSION;
        if (have >= 10 && p[9] != '\n')
                return HTTP1_BAD_LINE;
        if (have < 10)
                return HTTP1_MORE;

        request->head.minor = (uint8_t)(p[7] - '0');
        *ret_next = (size_t)(p + 10 - in.p);

        if (parse_target(request))
                return HTTP1_OK;

        if (has_other_scheme(request->target))
                return HTTP1_BAD_SCHEME;

        return HTTP1_BAD_TARGET;
}

static enum http1_result settle_request(struct http1_request *request) {
        for (size_t i = 0; i < request->head.n_headers; i++) {
                struct http1_header *header = &request->head.headers[i];
                if (header->id == HEADER_HOST) {
                        if (request->host.p)
                                return HTTP1_HOST_TWICE;
                        request->host = header->value;
                } else if (header->id == HEADER_EXPECT) {
                        /* A server that gets another value, or two, may expect no body, and take the body for a
                         * request. */
                        header->hop = header->hop || request->expect_continue || request->head.minor == 0 ||
                                      !str_eq_nocase(header->value, STR("100-continue"));
                        request->expect_continue = request->expect_continue || !header->hop;
                }
        }

        /* CONNECT names its host in the target, and small clients send nothing else. */
        if (!request->host.p && request->head.minor > 0 && request->form != FORM_AUTHORITY)
                return HTTP1_HOST_MISSING;
        if (request->head.body == BODY_LENGTH && request->head.length == 0)
                return HTTP1_OK;
        if (request->head.body != BODY_NONE)
                request->head.upgrade =
                    false; /* a body and a switch of protocols: only one reading is safe, the plain one */

        return HTTP1_OK;
}

enum http1_result http1_request_parse(struct http1_progress *at, struct str in, size_t max, struct http1_request *ret) {
        memset(ret, 0, offsetof(struct http1_request, head.headers)); /* the table itself is filled as lines come */
        enum http1_result r = http1_head_parse(at, in, max, parse_request_line, ret, &ret->head);
        if (r == HTTP1_OK)
                return settle_request(ret);

        return r;
}

struct str http1_path_only(struct str path) {
        ptrdiff_t query = str_find(path, '?');
        if (query >= 0)
                path.n = (size_t)query;
        return path.n > 0 ? path : STR("/");
}

int http1_headers_write(struct buf *out, const struct http1_head *head, bool (*passes)(const struct http1_header *h)) {
        for (size_t i = 0; i < head->n_headers;) {
                if (!passes(&head->headers[i])) {
                        i++;
                        continue;
                }

                struct str run = { head->headers[i].name.p, 0 }; /* lines that lie behind each other */
                for (; i < head->n_headers && passes(&head->headers[i]) && head->headers[i].name.p == run.p + run.n;
                     i++)
                        run.n += head->headers[i].line_bytes;

                int r = buf_append(out, run);
                if (r < 0)
                        return r;
        }

        return 0;
}

static bool request_header_passes(const struct http1_header *header) {
        return !header->hop && header->id != HEADER_HOST;
}

static int append_all(struct buf *out, const struct str *parts, size_t n) {
        size_t total = 0;
        for (size_t i = 0; i < n; i++)
                total += parts[i].n;
        int r = buf_reserve(out, total);
        for (size_t i = 0; i < n && r == 0; i++)
                r = buf_append(out, parts[i]);
        return r;
}

bool http1_request_is_last(const struct http1_request *request) {
        static const struct str bare[] = { STR("GET"), STR("HEAD"), STR("OPTIONS"), STR("DELETE") };

        if (request->head.body == BODY_NONE || request->head.upgrade ||
            (request->head.body == BODY_LENGTH && request->head.length == 0))
                return false;

        for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
                if (str_eq(request->method, bare[i]))
                        return true;

        return false;
}

int http1_request_write(struct buf *out, const struct http1_request *request, const struct authority *to,
                        uint16_t default_port) {
        char host[AUTHORITY_TEXT_MAX];

        authority_text(to, host);
        struct str host_text = str_of(host);
        if (to->port == default_port)
                host_text.n = (size_t)str_rfind(host_text, ':');

        struct str front = STR(""); /* what a target without a path lacks */
        if (request->path.n == 0 && str_eq(request->method, STR("OPTIONS")))
                front = STR("*");
        else if (request->path.n == 0 || request->path.p[0] == '?')
                front = STR("/");

        const struct str line[] = {
                request->method, STR(" "), front, request->path, STR(" HTTP/1.1\r\nHost: "), host_text, STR("\r\n"),
        };
        int e = append_all(out, line, sizeof line / sizeof *line);
        if (e == 0)
                e = http1_headers_write(out, &request->head, request_header_passes);
        if (e == 0 && request->head.body == BODY_LENGTH)
                e = http1_length_write(out, request->head.length);
        if (e == 0 && request->head.body == BODY_CHUNKED)
                e = buf_append(out, STR("Transfer-Encoding: chunked\r\n"));

        if (e == 0 && http1_request_is_last(request))
                e = buf_append(out, STR("Connection: close\r\n"));

        if (e == 0 && request->head.upgrade) {
                const struct str upgrade[] = { STR("Connection: Upgrade\r\nUpgrade: "), request->head.upgrade_to,
                                               STR("\r\n") };
                e = append_all(out, upgrade, 3);
        }

        if (e != 0)
                return e;

        return buf_append(out, STR("\r\n"));
}
