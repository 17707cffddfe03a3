/* SPDX-License-Identifier: Apache-2.0 */
/* One exchange as an object: it begins with nothing of the one before it, and knows what the head said. */
#include "gateway/http/http_internal.h"
#include "gateway/override.h"

#include "../cmocka_all.h"

static struct gateway gateway;
static struct policy_ref policy = { .generation = 7 };
static struct worker worker = { .gateway = &gateway, .policy = &policy };

static void parse(const char *text, struct http1_request *ret) {
        struct http1_progress progress = { 0 };
        assert_int_equal(http1_request_parse(&progress, str_of(text), POOL_CHUNK_BYTES, ret), HTTP1_OK);
}

static void begin(struct http_session *session, const char *text) {
        static struct http1_request request;

        parse(text, &request);
        http_exchange_begin(session, &request);
}

/* Whatever a request has left behind, in every member. */
static void nothing_is_left_of_the_one_before(void **state) {
        (void)state;
        static struct http_session used;
        const struct http_exchange *now = &used.exchange;

        used.client.worker = &worker;
        memset(&used.exchange, 0xa5, sizeof used.exchange);
        used.call.error = -1;
        used.call.why = "of before";
        used.call.asked = true;
        used.call.question[0] = 'q';
        used.call.addr.family = 99;
        used.call.verdict.reason = REASON_PATH;
        begin(&used, "PUT /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\n\r\n");

        assert_ptr_equal(now->judged.link.next, &now->judged.link);
        assert_null(now->judged.target);
        assert_true(!now->swap && !now->examine && !now->override && !now->upstream && !now->host_bytes && !now->back);
        assert_true(!now->up.head.p && !now->up.head.n && !now->up.head_at && !now->up.begun && !now->up.held);
        assert_true(!now->up.rest && !now->up.pipe && !now->down.rest && !now->down.pipe);
        assert_true(!now->down.head.p && !now->down.head.n && !now->down.head_at && !now->down.begun);
        assert_false(now->down.held);
        assert_true(!now->response.kind && !now->response.done && !now->response.left);
        assert_true(!now->request.done && !now->request.chunked.done && !now->request.chunked.trailers);
        assert_true(!now->trailers.p && !now->bytes_in && !now->bytes_out && !now->status);
        assert_true(!now->method_n && !now->n_interim && !now->path_n && !now->upgrade[0]);
        assert_false(now->connect || now->head_method || now->repeatable || now->keep_upstream || now->begun);
        assert_false(now->cut || now->reused || now->answered || now->head_sent || now->up_broken);

        assert_int_equal(used.call.error, 0);
        assert_null(used.call.why);
        assert_false(used.call.asked);
        assert_int_equal(used.call.question[0], 0);
        assert_int_equal(used.call.addr.family, 0);
        assert_int_equal(used.call.verdict.reason, 0);
        assert_int_equal(used.call.generation, 7);
}

static void the_head_is_kept(void **state) {
        (void)state;
        static struct http_session session;
        const struct http_exchange *exchange = &session.exchange;

        session.client.worker = &worker;
        session.client.via = VIA_HTTP;

        begin(&session, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n");
        assert_true(exchange->request.done && exchange->repeatable && exchange->keep_client);
        assert_false(exchange->connect || exchange->head_method);
        assert_int_equal(session.call.via, VIA_HTTP);

        begin(&session, "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n"
                        "Connection: close\r\nX-Original-URL: /b\r\n\r\n");
        assert_false(exchange->request.done || exchange->repeatable || exchange->keep_client);
        assert_int_equal(exchange->request.kind, BODY_CHUNKED);
        assert_non_null(exchange->override);
        assert_int_equal(exchange->override->reason, REASON_PATH);

        begin(&session, "PUT http://a.example/ HTTP/1.0\r\nHost: a.example\r\nContent-Length: 5\r\n\r\n");
        assert_int_equal(exchange->request.left, 5);
        assert_int_equal(exchange->client_minor, 0);
        assert_false(exchange->repeatable); /* its body would be gone */
        assert_null(exchange->override);

        begin(&session, "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n");
        assert_true(exchange->connect);
        assert_int_equal(session.call.via, VIA_CONNECT);

        begin(&session, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: upgrade\r\n"
                        "Upgrade: websocket\r\n\r\n");
        assert_string_equal(exchange->upgrade, "websocket");
        assert_false(exchange->repeatable);
}

/* The target of a captured connection is the connection's, any other is the request's. */
static void a_bound_target_stays(void **state) {
        (void)state;
        static struct http_session session;

        session.client.worker = &worker;
        session.call.target.port = 80;
        session.bound = true;
        begin(&session, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
        assert_int_equal(session.call.target.port, 80);

        session.bound = false;
        begin(&session, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n");
        assert_int_equal(session.call.target.port, 0);
}

static void bytes_are_queued_behind_others(void **state) {
        (void)state;
        struct http_flow flow = { .head = BUF(64) };

        assert_int_equal(http_flow_queue(&flow, STR("head")), 0);
        assert_int_equal(http_flow_queue_chunk(&flow, STR("ab"), STR("cdefghij")), 0);
        assert_int_equal(http_flow_queue_chunk(&flow, STR(""), STR("")), 0); /* would be the last one */
        assert_true(str_eq(buf_str(&flow.head), STR("heada\r\nabcdefghij\r\n")));
        assert_false(flow.begun);

        flow.head_at = flow.head.n; /* all of it has left: the room is used again */
        assert_int_equal(http_flow_queue(&flow, STR("x")), 0);
        assert_true(flow.begun);
        assert_int_equal(flow.head_at, 0);
        assert_true(str_eq(buf_str(&flow.head), STR("x")));
        buf_done(&flow.head);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nothing_is_left_of_the_one_before),
                cmocka_unit_test(the_head_is_kept),
                cmocka_unit_test(a_bound_target_stays),
                cmocka_unit_test(bytes_are_queued_behind_others),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
