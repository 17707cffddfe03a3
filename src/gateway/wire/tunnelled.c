/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/wire/tunnelled.h"

static enum requests_next look_at_body(struct requests *requests, struct str bytes) {
        struct str in = bytes, span;
        enum http1_result result;

        while ((result = http1_chunked_next(&requests->chunked, &in, &span)) == HTTP1_OK)
                ;

        if (result != HTTP1_MORE)
                return REQUESTS_BAD;

        requests->pass = bytes.n - in.n;
        requests->in_body = !requests->chunked.done;

        return REQUESTS_BODY;
}

static enum requests_next look_at_head(struct requests *requests, struct str bytes, size_t head_max,
                                       struct host *ret_host) {
        struct http1_request request;
        enum http1_result result = http1_request_parse(&requests->progress, bytes, head_max, &request);
        if (result == HTTP1_MORE)
                return REQUESTS_MORE;
        if (result != HTTP1_OK)
                return REQUESTS_BAD;

        requests->progress = (struct http1_progress){ 0 };
        requests->seen++;
        struct authority named;
        requests->has_host = request.host.p != NULL;
        if (requests->has_host && authority_parse(request.host, 80, &named, NULL) < 0)
                return REQUESTS_BAD;
        if (requests->has_host)
                *ret_host = named.host;

        /* Servers take the target's authority before Host: it must name the same. */
        if (request.form == FORM_ABSOLUTE) {
                struct authority target;

                if (authority_parse(request.authority, 80, &target, NULL) < 0 ||
                    (requests->has_host && !host_equal(&target.host, ret_host)))
                        return REQUESTS_BAD;

                *ret_host = target.host;
                requests->has_host = true;
        }

        if (request.head.upgrade || request.form == FORM_AUTHORITY)
                return REQUESTS_SWITCH;

        requests->pass = request.head.bytes;

        if (request.head.body == BODY_LENGTH) {
                if (request.head.length > INT64_MAX)
                        return REQUESTS_BAD;
                requests->pass += request.head.length;
        }

        if (request.head.body == BODY_CHUNKED) {
                requests->in_body = true;
                requests->chunked = (struct http1_chunked){ 0 };
        }

        return REQUESTS_HEAD;
}

enum requests_next requests_look(struct requests *requests, struct str bytes, size_t head_max, struct host *ret_host) {
        return requests->in_body ? look_at_body(requests, bytes) : look_at_head(requests, bytes, head_max, ret_host);
}
