/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange: one request of a session and the response to it, from the parsed head to the record. It begins as one
 * initialiser, so that nothing of the request before it is left, and is let go of as a whole.
 */
#include "gateway/http/http_examine.h"
#include "gateway/http/http_swap.h"
#include "gateway/override.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/secrets/secret.h"

#include <stdlib.h>

/* the beginning */

static bool is_one_of(struct str method, const struct str *list, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (str_eq(method, list[i]))
                        return true;
        return false;
}

static const struct override *find_override(const struct http1_request *request) {
        for (size_t i = 0; i < request->head.n_headers; i++) {
                const struct override *found = override_find(request->head.headers[i].name);
                if (found)
                        return found;
        }
        return NULL;
}

static struct http_body body_of(const struct http1_head *head) {
        return (struct http_body){ .kind = head->body,
                                   .left = head->length,
                                   .done =
                                       head->body == BODY_NONE || (head->body == BODY_LENGTH && head->length == 0) };
}

/* Doing it twice is as doing it once (RFC 9110, 9.2.2); without a body, which would be gone. */
static bool is_repeatable(const struct http1_request *request) {
        static const struct str methods[] = { STR("GET"), STR("HEAD"), STR("OPTIONS"), STR("PUT"), STR("DELETE") };

        return body_of(&request->head).done && is_one_of(request->method, methods, sizeof methods / sizeof *methods);
}

void http_exchange_begin(struct http_session *session, const struct http1_request *request) {
        struct http_exchange *exchange = &session->exchange;

        *exchange = (struct http_exchange){
                .since = clock_ns(),
                .request = body_of(&request->head),
                .trailers = BUF(HTTP1_TRAILER_MAX),
                .up.head = BUF(2 * POOL_CHUNK_BYTES),
                .down.head = BUF(2 * POOL_CHUNK_BYTES),
                .override = find_override(request),
                .client_minor = request->head.minor,
                .keep_client = !request->head.close,
                .last = http1_request_is_last(request),
                .connect = request->form == FORM_AUTHORITY,
                .head_method = str_eq(request->method, STR("HEAD")),
                .repeatable = is_repeatable(request),
        };
        link_init(&exchange->judged.link);

        if (session->client.worker->gateway->credentials)
                exchange->request.chunked.trailers = &exchange->trailers;

        if (request->head.upgrade && request->head.upgrade_to.n < sizeof exchange->upgrade) {
                memcpy(exchange->upgrade, request->head.upgrade_to.p, request->head.upgrade_to.n);
                exchange->repeatable = false;
        }

        gate_call_forget(&session->call);
        session->call.via = exchange->connect ? VIA_CONNECT : session->client.via;
        session->call.generation = session->client.worker->policy->generation;
        if (!session->bound)
                session->call.target = (struct authority){ 0 };
}

/* what is known of it */

/* The head as the client meant it: without secrets. */
static struct str own_head(const struct http_session *session) {
        return buf_str(session->exchange.swap ? &session->exchange.swap->plain : &session->exchange.up.head);
}

/* Of the request that was written: "METHOD SP path ...". */
struct str http_exchange_method(const struct http_session *session) {
        return str_first(own_head(session), session->exchange.method_n);
}

struct str http_exchange_path(const struct http_session *session) {
        return str_first(str_skip(own_head(session), session->exchange.method_n + 1u), session->exchange.path_n);
}

struct str http_exchange_target(const struct http_session *session) {
        struct str rest = str_skip(own_head(session), session->exchange.method_n + 1u);
        ptrdiff_t end = str_find(rest, ' ');

        return end < 0 ? str_first(rest, session->exchange.path_n) : str_first(rest, (size_t)end);
}

void http_exchange_record(struct http_session *session, bool allowed) {
        struct worker *worker = session->client.worker;
        struct event ev = {
                .kind = EVENT_REQUEST,
                .via = session->client.via,
                .scheme = session->secure ? SCHEME_HTTPS : SCHEME_HTTP,
                .connection = session->client.number,
                .bytes_in = session->exchange.bytes_in,
                .bytes_out = session->exchange.bytes_out,
                .duration_us = (clock_ns() - session->exchange.since) / 1000,
                .rule = session->call.verdict.rule,
                .generation = session->call.generation,
                .reason = session->call.verdict.reason,
                .port = session->call.target.port,
                .status = session->exchange.status,
                .allowed = allowed,
                .addr = session->call.addr,
                .domain = host_str(&session->call.target.host),
                .method = http_exchange_method(session),
                .path = str_first(http_exchange_path(session), EVENT_TEXT_MAX),
                .detail = str_of(session->call.why),
        };

        if (session->exchange.swap && session->exchange.begun)
                ev.swapped = buf_str(&session->exchange.swap->swap.names);
        if (session->exchange.examine)
                ev.act = buf_str(&session->exchange.examine->examine->act);

        report_event(&worker->report, &ev);
}

/* the end */

void http_exchange_wipe_head(struct http_session *session) {
        if (session->exchange.up.head.p)
                secret_wipe(session->exchange.up.head.p, session->exchange.up.head.cap);
        buf_clear(&session->exchange.up.head);
        session->exchange.up.head_at = 0;
}

static void exchange_free_examine(struct http_session *session) {
        struct http_examine *examine = take_ptr(&session->exchange.examine);

        if (!examine)
                return;
        if (examine->holding)
                gate_cancel(&examine->hold);

        examine_free(examine->examine);
        buf_done(&examine->raw);
        free(examine);
}

static void exchange_free_swap(struct http_session *session) {
        struct http_swap *swap = session->exchange.swap;
        if (!swap)
                return;

        http_exchange_wipe_head(session);
        http_renew_free(session);
        secret_buf_done(&swap->sent);
        http_swap_done_down(session);
        swap_done(&swap->swap);

        buf_done(&swap->plain);
        free(swap->head.headers);
        buf_done(&swap->body);
        free(take_ptr(&session->exchange.swap));
}

void http_exchange_done(struct http_session *session) {
        judged_remove(&session->exchange.judged);
        stream_close(take_ptr(&session->exchange.upstream));
        exchange_free_examine(session);
        exchange_free_swap(session);
        http_flow_done(&session->exchange.up, http_pool(session));
        buf_done(&session->exchange.trailers);
        http_flow_done(&session->exchange.down, http_pool(session));

        if (session->exchange.back)
                pool_chunk_put(http_pool(session), take_ptr(&session->exchange.back));
}
