/* SPDX-License-Identifier: Apache-2.0 */
/* The status line, which responses have bodies, and the response that goes back. */
#include "gateway/wire/http1_internal.h"

#include "base/bounds.h"

/* HTTP/1.x SP status [SP reason] CR LF. A missing reason with its space is common and means one thing only. */
static enum http1_result parse_status_line(void *message, struct str in, size_t seen, size_t *ret_next) {
        struct http1_response *response = message;
        const char *p = in.p, *end = in.p + in.n;
        size_t have = min_of(in.n, 7);
        if (memcmp(p, "HTTP/1.", have) != 0)
                return HTTP1_BAD_VERSION;
        if (in.n >= 8 && p[7] != '0' && p[7] != '1')
                return HTTP1_BAD_VERSION;
        if (in.n >= 9 && p[8] != ' ')
                return HTTP1_BAD_STATUS;

        for (size_t i = 9; i < 12 && i < in.n; i++)
                if (!ascii_is_digit(p[i]))
                        return HTTP1_BAD_STATUS;

        if (in.n < 13)
                return HTTP1_MORE;

        response->head.minor = (uint8_t)(p[7] - '0');
        response->status = (uint16_t)((p[9] - '0') * 100 + (p[10] - '0') * 10 + (p[11] - '0'));
        if (response->status < 100 || response->status > 599 || (p[12] != ' ' && p[12] != '\r'))
                return HTTP1_BAD_STATUS;

        const char *reason = p[12] == ' ' ? p + 13 : p + 12;
        const char *from =
            seen > 0 && in.p + seen - 1 > reason ? in.p + seen - 1 : reason; /* a CR may have been last */
        const char *stop = http1_skip(from, end, CHAR_VALUE);
        if (stop == end)
                return HTTP1_MORE;
        if (*stop != '\r')
                return *stop == '\n' ? HTTP1_BAD_LINE : HTTP1_BAD_STATUS;
        if (stop + 1 == end)
                return HTTP1_MORE;
        if (stop[1] != '\n')
                return HTTP1_BAD_LINE;

        response->reason = str_n(reason, (size_t)(stop - reason));
        *ret_next = (size_t)(stop + 2 - in.p);

        return HTTP1_OK;
}

enum http1_result http1_response_parse(struct http1_progress *at, struct str in, size_t max,
                                       struct http1_response *ret) {
        memset(ret, 0, offsetof(struct http1_response, head.headers)); /* the table itself is filled as lines come */
        enum http1_result r = http1_head_parse(at, in, max, parse_status_line, ret, &ret->head);
        if (r == HTTP1_OK && ret->head.body == BODY_NONE)
                ret->head.body = BODY_UNTIL_CLOSE;
        return r;
}

enum http1_body http1_response_body(const struct http1_response *response, bool head_method) {
        if (head_method || response->status < 200 || response->status == 204 || response->status == 304)
                return BODY_NONE;
        return response->head.body;
}

bool http1_response_switches(const struct http1_response *response, struct str protocol) {
        return response->status == 101 && protocol.n > 0 && response->head.upgrade &&
               str_eq_nocase(response->head.upgrade_to, protocol);
}

static bool response_header_passes(const struct http1_header *header) {
        return !header->hop;
}

/* Content-Length is sent even if no body follows: for HEAD and 304 it describes the body that GET would return. */
static int write_framing(struct buf *out, const struct http1_response *response, enum http1_body body,
                         bool chunked_out) {
        if (response->status < 200 || response->status == 204)
                return 0;
        if (response->head.body == BODY_LENGTH)
                return http1_length_write(out, response->head.length);
        if (body == BODY_CHUNKED && chunked_out)
                return buf_append(out, STR("Transfer-Encoding: chunked\r\n"));
        return 0;
}

int http1_response_write(struct buf *out, const struct http1_response *response, enum http1_body body, bool chunked_out,
                         const char *connection) {
        int e = buf_reserve(out, response->head.bytes + 64);
        if (e == 0)
                e = buf_append(out, STR("HTTP/1.1 "));
        if (e == 0)
                e = http1_number_write(out, response->status);
        if (e == 0)
                e = buf_add_char(out, ' ');
        if (e == 0)
                e = buf_append(out, response->reason);
        if (e == 0)
                e = buf_append(out, STR("\r\n"));
        if (e == 0)
                e = http1_headers_write(out, &response->head, response_header_passes);
        if (e == 0)
                e = write_framing(out, response, body, chunked_out);

        if (e == 0 && response->status == 101) {
                e = buf_append(out, STR("Connection: Upgrade\r\nUpgrade: "));
                if (e == 0)
                        e = buf_append(out, response->head.upgrade_to);
                if (e == 0)
                        e = buf_append(out, STR("\r\n"));
        } else if (e == 0 && connection && response->status >= 200) {
                e = buf_printf(out, "Connection: %s\r\n", connection);
        }

        if (e != 0)
                return e;

        return buf_append(out, STR("\r\n"));
}
