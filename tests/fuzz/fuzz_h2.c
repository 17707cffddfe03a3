/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 from both sides: the input's first part is what a client sends behind its preface, the second what an origin
 * adds to its own frames. The origin is a real one (nghttp2) and holds the property: whatever the client sends, only
 * requests that the policy allows arrive, for the one authority. And at the end nothing is left.
 */
#include "fuzz.h"
#include "gateway/h2/h2_session.h"
#include "gateway/load/quota.h"
#include "gateway/worker_parts.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>

enum { TURNS = 6, INPUT_MAX = 1 << 16 };

/* A stream in memory. */
struct pipe {
        struct stream s;
        struct buf in, out; /* read by the gateway, written by it */
        size_t at;
        bool ended, closed;
};

static ssize_t pipe_read(struct stream *s, void *p, size_t n) {
        struct pipe *k = link_owner(s, struct pipe, s);
        size_t left = k->in.n - k->at;
        if (left == 0)
                return k->ended ? 0 : -EAGAIN;
        n = n < left ? n : left;
        memcpy(p, k->in.p + k->at, n);
        k->at += n;
        return (ssize_t)n;
}

static ssize_t pipe_write(struct stream *s, const struct iovec *parts, int n_parts) {
        struct pipe *k = link_owner(s, struct pipe, s);
        size_t n = 0;
        for (int i = 0; i < n_parts; i++) {
                FUZZ_CHECK(buf_append(&k->out, str_n(parts[i].iov_base, parts[i].iov_len)) == 0);
                n += parts[i].iov_len;
        }
        return (ssize_t)n;
}

static int pipe_finish(struct stream *s) {
        (void)s;
        return 0;
}

static void pipe_close(struct stream *s, bool at_once) {
        struct pipe *k = link_owner(s, struct pipe, s);
        (void)at_once;
        FUZZ_CHECK(!k->closed);
        k->closed = true;
}

static const struct stream_ops pipe_ops = {
        .name = "pipe", .read = pipe_read, .write = pipe_write, .finish = pipe_finish, .close = pipe_close
};

static void pipe_init(struct pipe *k, struct loop *l) {
        *k = (struct pipe){ .in = BUF(64u << 20), .out = BUF(64u << 20) };
        k->s = (struct stream){ .ops = &pipe_ops, .loop = l, .fd = -1, .readable = true, .writable = true };
}

static void pipe_done(struct pipe *k) {
        buf_done(&k->in);
        buf_done(&k->out);
}

static void wake(struct pipe *k) {
        if (!k->closed)
                k->s.on_ready(&k->s, k->s.owner);
}

/* the origin */

static int on_field(nghttp2_session *ng, const nghttp2_frame *frame, const uint8_t *name, size_t name_n,
                    const uint8_t *value, size_t value_n, uint8_t flags, void *user) {
        (void)ng;
        (void)flags;
        (void)user;
        struct str field = str_n(name, name_n), text = str_n(value, value_n);
        if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
                return 0;
        if (str_is(field, ":path"))
                FUZZ_CHECK(str_starts(text, STR("/ok/")));
        if (str_is(field, ":method"))
                FUZZ_CHECK(str_is(text, "GET") || str_is(text, "POST"));
        if (str_is(field, ":authority"))
                FUZZ_CHECK(str_is(text, "api.ok.test"));
        FUZZ_CHECK(!str_is(field, "host") && !str_is(field, "connection") && !str_is(field, "transfer-encoding"));
        return 0;
}

static int on_frame(nghttp2_session *ng, const nghttp2_frame *frame, void *user) {
        (void)user;
        static const nghttp2_nv head[] = {
                { (uint8_t *)":status", (uint8_t *)"200", 7, 3, NGHTTP2_NV_FLAG_NONE },
                { (uint8_t *)"x", (uint8_t *)"y", 1, 1, NGHTTP2_NV_FLAG_NONE },
        };
        if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST &&
            frame->hd.stream_id % 4 == 1) /* others wait for what the input says */
                nghttp2_submit_response(ng, frame->hd.stream_id, head, 2, NULL);
        return 0;
}

static int on_bad_frame(nghttp2_session *ng, const nghttp2_frame *frame, int error, void *user) {
        (void)ng;
        (void)user;
        bool well_formed = frame->hd.type != NGHTTP2_HEADERS || error == 0;
        FUZZ_CHECK(well_formed);
        return 0;
}

static nghttp2_session *origin_new(void) {
        nghttp2_session_callbacks *c;
        nghttp2_session *ng;
        FUZZ_CHECK(nghttp2_session_callbacks_new(&c) == 0);
        nghttp2_session_callbacks_set_on_header_callback(c, on_field);
        nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(c, on_bad_frame);
        FUZZ_CHECK(nghttp2_session_server_new(&ng, c, NULL) == 0);
        nghttp2_session_callbacks_del(c);
        FUZZ_CHECK(nghttp2_submit_settings(ng, NGHTTP2_FLAG_NONE, NULL, 0) == 0);
        return ng;
}

static void origin_turn(nghttp2_session *ng, struct pipe *k) {
        const uint8_t *p;
        ssize_t n = nghttp2_session_mem_recv(ng, (const uint8_t *)k->out.p, k->out.n);
        FUZZ_CHECK(n == (ssize_t)k->out.n);
        buf_clear(&k->out);
        while ((n = nghttp2_session_mem_send(ng, &p)) > 0)
                FUZZ_CHECK(buf_append(&k->in, str_n(p, (size_t)n)) == 0);
}

/* the worker, made once */

static struct gateway gateway;
static struct worker *worker;
static struct policy_ref *rules;
static void *rules_block;
static int events[2];

static struct snapshot *policy(void) {
        static const struct str methods[] = { STR("GET"), STR("POST") }, paths[] = { STR("/ok/**") };
        struct snapshot_builder *b = snapshot_builder_new(NETWORK_FILTERED, false);
        struct snapshot *s = NULL;
        size_t n;
        FUZZ_CHECK(snapshot_add_request_rule(b, STR("api.ok.test:443"), methods, 2, paths, 1, STR("fuzz"), NULL) == 0);
        FUZZ_CHECK(snapshot_build(b, &rules_block, &n, NULL) == 0);
        FUZZ_CHECK(snapshot_open(rules_block, n, &s, NULL) == 0);
        snapshot_builder_free(b);
        return s;
}

static void free_worker(void) {
        worker_free(worker);
        policy_ref_put(rules);
        free(rules_block);
        quota_free(gateway.quota);
}

static void make_worker(void) {
        struct err e;
        gateway.start.header_ns = gateway.start.idle_ns = gateway.start.tunnel_idle_ns = 10000000000;
        gateway.start.connect_ns = 1000000000;
        gateway.start.header_bytes = 16384;
        gateway.start.n_servers = 1;
        gateway.start.servers[0].port = 53;
        FUZZ_CHECK(addr_parse(STR("127.0.0.1"), &gateway.start.servers[0].addr));
        gateway.quota = quota_new(&gateway.start);
        FUZZ_CHECK(gateway.quota);
        FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, events) == 0);
        gateway.events_fd = events[0];
        rules = policy_ref_new(policy(), 1);
        FUZZ_CHECK(rules);
        FUZZ_CHECK(worker_new(&gateway, 0, rules, &worker, &e) == 0);
        FUZZ_CHECK(atexit(free_worker) == 0);
}

static void turn(void) {
        static char batch[EVENT_BATCH_MAX];
        loop_turn(worker->loop, false);
        while (recv(events[1], batch, sizeof batch, 0) > 0)
                continue;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        if (size < 2 || size > INPUT_MAX)
                return 0;
        if (!worker)
                make_worker();
        size_t cut = 2 + (data[0] | (size_t)data[1] << 8) % (size - 1);
        struct pipe client, upstream;
        struct authority target;
        pipe_init(&client, worker->loop);
        pipe_init(&upstream, worker->loop);
        FUZZ_CHECK(authority_parse(STR("api.ok.test:443"), 443, &target, NULL) == 0);
        FUZZ_CHECK(buf_add(&client.in, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") == 0);
        FUZZ_CHECK(buf_append(&client.in, str_n(data + 2, cut - 2)) == 0);
        nghttp2_session *origin = origin_new();
        FUZZ_CHECK(quota_enter(gateway.quota, loop_now(worker->loop)));
        atomic_fetch_add(&worker->clients, 1);
        struct client c = { .worker = worker, .stream = &client.s, .via = 1 };
        struct http_inside inside = { .target = &target, .upstream = &upstream.s };
        h2_session_start(&c, &inside);
        for (int i = 0; i < TURNS && !client.closed; i++) {
                if (!upstream.closed) {
                        origin_turn(origin, &upstream);
                        if (i == 1)
                                FUZZ_CHECK(buf_append(&upstream.in, str_n(data + cut, size - cut)) == 0);
                        wake(&upstream);
                }
                turn();
        }
        client.ended = true;
        wake(&client);
        turn();
        FUZZ_CHECK(client.closed && upstream.closed && link_is_empty(&worker->judged));
        nghttp2_session_del(origin);
        pipe_done(&client);
        pipe_done(&upstream);
        return 0;
}
