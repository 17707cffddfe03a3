/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/transparent.h"

#include "base/clock.h"
#include "gateway/http/http_session.h"
#include "gateway/intercept.h"
#include "gateway/tunnel.h"
#include "gateway/wire/sni.h"

#include <errno.h>
#include <limits.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

/*
 * The destination is what the client dialled, before the sandbox's own rules redirected it: SO_ORIGINAL_DST. A
 * synthetic address stands for the name that was looked up; the binding is held until the connection ends, so that the
 * address cannot come to mean another name meanwhile. Any other address is judged as an address.
 *
 * After the verdict the destination is dialled at once, since the server may be the one to speak first. Only where
 * plain HTTP is usual does the client get a moment to begin: then the HTTP session dials for itself, and a rule with
 * methods or paths can be applied. Refusals have no words here: the connection is reset, which is what a firewall would
 * do.
 */
#define FIRST_WORD_NS (50 * NS_PER_MS)

struct capture {
        struct client client;
        struct synthetic_hold hold;
        struct timer first_word;
        struct task destroy;
        struct gate_call call;
        bool opening;
        bool intercepts; /* TLS to this target is opened */
};

static void transparent_destroy(struct task *task) {
        free(link_owner(task, struct capture, destroy));
}

/* Whatever was not handed on is closed; a refusal shows as a reset. */
static void transparent_end(struct capture *capture, bool reset) {
        struct worker *worker = capture->call.worker;

        timer_stop(&capture->first_word);
        gate_cancel(&capture->call);
        if (worker->gateway->synthetic)
                synthetic_release(worker->gateway->synthetic, &capture->hold, loop_now(worker->loop));

        if (reset && capture->client.stream) {
                stream_abort(capture->client.stream);
                capture->client.stream = NULL;
        }

        client_done(&capture->client);
        loop_defer(worker->loop, &capture->destroy);
}

static void handed_on(struct capture *capture) {
        capture->client = (struct client){ 0 };
        capture->hold = (struct synthetic_hold){ 0 };
        transparent_end(capture, false);
}

static void on_opened(struct gate_call *c) {
        struct capture *capture = link_owner(c, struct capture, call);

        if (!gate_is_through(c)) {
                gate_report_refused(&capture->client, c, 0);
                transparent_end(capture, true);
                return;
        }

        if (c->intercept)
                intercept_start(&capture->client, c, &capture->hold);
        else
                tunnel_start_captured(&capture->client, c, &capture->hold);

        handed_on(capture);
}

static void on_ready(struct stream *stream, void *owner);

static void open_now(struct capture *capture) {
        timer_stop(&capture->first_word);
        stream_set_owner(capture->client.stream, on_ready, capture);
        capture->opening = true;
        capture->call.done = on_opened;
        gate_open(&capture->call);
}

static void on_first_word_limit(struct timer *timer) {
        open_now(link_owner(timer, struct capture, first_word));
}

/* The client's first bytes, read and given back. An HTTP request goes to a session of its own. */
static void on_ready(struct stream *stream, void *owner) {
        struct capture *capture = owner;
        if (capture->opening && gate_is_held(&capture->call) && stream_peer_left(stream)) {
                gate_report_refused(&capture->client, &capture->call, 0);
                transparent_end(capture, false);
        }

        if (capture->opening)
                return;

        char bytes[4096];
        ssize_t got = stream_read(stream, bytes, sizeof bytes);
        if (got == -EAGAIN)
                return;

        if (got <= 0 || stream_unread(stream, str_n(bytes, (size_t)got)) < 0) {
                transparent_end(capture, got < 0);
                return;
        }

        struct sniff seen;
        enum sniff_kind kind = sniff(str_n(bytes, (size_t)got), capture->call.worker->limits.header_bytes, &seen);
        bool http = kind == SNIFF_HTTP || (kind == SNIFF_MORE && bytes[0] != 0x16);
        if (http && !(capture->intercepts && intercept_expects_tls(capture->call.worker, &capture->call.target))) {
                http_session_start_bound(&capture->client, &capture->call.target, &capture->hold);
                handed_on(capture);
                return;
        }

        open_now(capture);
}

/* Where the client wanted to go. */
static bool original_destination(int fd, struct addr *ret, uint16_t *ret_port) {
        struct sockaddr_storage storage = { 0 };
        socklen_t size = sizeof storage;
        if (getsockopt(fd, SOL_IP, SO_ORIGINAL_DST, &storage, &size) < 0) {
                size = sizeof storage;
                if (getsockopt(fd, SOL_IPV6, IP6T_SO_ORIGINAL_DST, &storage, &size) < 0)
                        return false;
        }

        return addr_from_sockaddr((struct sockaddr *)&storage, ret, ret_port) && *ret_port != 0;
}

/* The name behind a synthetic address, or the address itself. */
static enum reason find_target(struct capture *capture) {
        struct gateway *gateway = capture->client.worker->gateway;
        struct addr addr;

        if (!original_destination(capture->client.stream->fd, &addr, &capture->call.target.port))
                return REASON_PROTOCOL;

        host_from_addr(&addr, &capture->call.target.host);
        if (!gateway->synthetic || !synthetic_contains(&addr))
                return REASON_NONE;

        int r = synthetic_acquire(gateway->synthetic, &addr, loop_now(capture->client.worker->loop),
                                  &capture->call.target.host, &capture->hold);
        return r < 0 ? REASON_BAD_NAME : REASON_NONE;
}

static bool http_is_usual(uint16_t port) {
        return port == 80 || port == 8000 || port == 8080 || port == 8888 || port == 3000 || port == 5000;
}

int transparent_start(const struct client *client) {
        struct worker *worker = client->worker;
        struct capture *capture = calloc(1, sizeof *capture);
        if (!capture)
                return client_has_no_room(client);

        capture->client = *client;
        capture->call.worker = worker;
        capture->call.via = VIA_TRANSPARENT;
        timer_init(&capture->first_word, worker->loop, on_first_word_limit);
        task_init(&capture->destroy, transparent_destroy);

        enum reason bad = find_target(capture);
        if (bad != REASON_NONE) {
                capture->call.verdict =
                    (struct verdict){ .decision = DECISION_DENY, .reason = (uint8_t)bad, .rule = RULE_NONE };
                capture->call.generation = worker->policy->generation;
                gate_report_refused(&capture->client, &capture->call, 0);
                transparent_end(capture, true);

                return 0;
        }

        struct verdict verdict =
            verdict_target(worker_snapshot(worker), &capture->call.target.host, capture->call.target.port);
        capture->intercepts =
            verdict.decision != DECISION_DENY && gate_wants_interception(worker, &capture->call.target);
        bool wants_word = verdict.needs_request || capture->intercepts;
        if (verdict.decision != DECISION_DENY && (wants_word || http_is_usual(capture->call.target.port))) {
                /* A rule that must see the request cannot be met by a client that stays silent: gate_open() refuses
                 * then. */
                stream_set_owner(client->stream, on_ready, capture);
                timer_start(&capture->first_word, wants_word ? worker->limits.header_ns : FIRST_WORD_NS);
                on_ready(client->stream, capture);
                return 0;
        }

        open_now(capture);
        return 0;
}
