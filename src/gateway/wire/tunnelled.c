/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/wire/tunnelled.h"

static enum requests_next look_at_body(struct requests *r, struct str bytes) {
        struct str in = bytes, span;
        enum http1_result result;
        while ((result = http1_chunked_next(&r->chunked, &in, &span)) == HTTP1_OK)
                ;
        if (result != HTTP1_MORE)
                return REQUESTS_BAD;
        r->pass = bytes.n - in.n;
        r->in_body = !r->chunked.done;
        return REQUESTS_BODY;
}

static enum requests_next look_at_head(struct requests *r, struct str bytes, size_t head_max, struct host *ret_host) {
        struct http1_request request;
        enum http1_result result = http1_request_parse(&r->progress, bytes, head_max, &request);
        if (result == HTTP1_MORE)
                return REQUESTS_MORE;
        if (result != HTTP1_OK)
                return REQUESTS_BAD;
        r->progress = (struct http1_progress){ 0 };
        r->seen++;
        struct authority named;
        r->has_host = request.host.p != NULL;
        if (r->has_host && authority_parse(request.host, 80, &named, NULL) < 0)
                return REQUESTS_BAD;
        if (r->has_host)
                *ret_host = named.host;
        /* Servers take the target's authority before Host: it must name the same. */
        if (request.form == FORM_ABSOLUTE) {
                struct authority target;
                if (authority_parse(request.authority, 80, &target, NULL) < 0 ||
                    (r->has_host && !host_equal(&target.host, ret_host)))
                        return REQUESTS_BAD;
                *ret_host = target.host;
                r->has_host = true;
        }
        if (request.head.upgrade || request.form == FORM_AUTHORITY)
                return REQUESTS_SWITCH;
        r->pass = request.head.bytes;
        if (request.head.body == BODY_LENGTH) {
                if (request.head.length > INT64_MAX)
                        return REQUESTS_BAD;
                r->pass += request.head.length;
        }
        if (request.head.body == BODY_CHUNKED) {
                r->in_body = true;
                r->chunked = (struct http1_chunked){ 0 };
        }
        return REQUESTS_HEAD;
}

enum requests_next requests_look(struct requests *r, struct str bytes, size_t head_max, struct host *ret_host) {
        return r->in_body ? look_at_body(r, bytes) : look_at_head(r, bytes, head_max, ret_host);
}
