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

static void destroy(struct task *t) {
        free(link_owner(t, struct capture, destroy));
}

/* Whatever was not handed on is closed; a refusal shows as a reset. */
static void end(struct capture *k, bool reset) {
        struct worker *w = k->call.worker;
        timer_stop(&k->first_word);
        gate_cancel(&k->call);
        if (w->gateway->synthetic)
                synthetic_release(w->gateway->synthetic, &k->hold, loop_now(w->loop));
        if (reset && k->client.stream) {
                stream_abort(k->client.stream);
                k->client.stream = NULL;
        }
        client_done(&k->client);
        loop_defer(w->loop, &k->destroy);
}

static void handed_on(struct capture *k) {
        k->client = (struct client){ 0 };
        k->hold = (struct synthetic_hold){ 0 };
        end(k, false);
}

static void on_opened(struct gate_call *c) {
        struct capture *k = link_owner(c, struct capture, call);
        if (!gate_is_through(c)) {
                tunnel_report_refused(&k->client, c, 0);
                end(k, true);
                return;
        }
        if (c->intercept)
                intercept_start(&k->client, c, &k->hold);
        else
                tunnel_start_captured(&k->client, c, &k->hold);
        handed_on(k);
}

static void on_ready(struct stream *s, void *owner);

static void open_now(struct capture *k) {
        timer_stop(&k->first_word);
        stream_set_owner(k->client.stream, on_ready, k);
        k->opening = true;
        k->call.done = on_opened;
        gate_open(&k->call);
}

static void on_first_word_limit(struct timer *t) {
        open_now(link_owner(t, struct capture, first_word));
}

/* The client's first bytes, read and given back. An HTTP request goes to a session of its own. */
static void on_ready(struct stream *s, void *owner) {
        struct capture *k = owner;
        if (k->opening && gate_is_held(&k->call) && stream_peer_left(s)) {
                tunnel_report_refused(&k->client, &k->call, 0);
                end(k, false);
        }
        if (k->opening)
                return;
        char bytes[4096];
        ssize_t got = stream_read(s, bytes, sizeof bytes);
        if (got == -EAGAIN)
                return;
        if (got <= 0 || stream_unread(s, str_n(bytes, (size_t)got)) < 0) {
                end(k, got < 0);
                return;
        }
        struct sniff seen;
        enum sniff_kind kind = sniff(str_n(bytes, (size_t)got), k->call.worker->limits.header_bytes, &seen);
        bool http = kind == SNIFF_HTTP || (kind == SNIFF_MORE && bytes[0] != 0x16);
        if (http && !(k->intercepts && intercept_expects_tls(k->call.worker, &k->call.target))) {
                http_session_start_bound(&k->client, &k->call.target, &k->hold);
                handed_on(k);
                return;
        }
        open_now(k);
}

/* Where the client wanted to go. */
static bool original_destination(int fd, struct addr *ret, uint16_t *ret_port) {
        struct sockaddr_storage a = { 0 };
        socklen_t size = sizeof a;
        if (getsockopt(fd, SOL_IP, SO_ORIGINAL_DST, &a, &size) < 0) {
                size = sizeof a;
                if (getsockopt(fd, SOL_IPV6, IP6T_SO_ORIGINAL_DST, &a, &size) < 0)
                        return false;
        }
        return addr_from_sockaddr((struct sockaddr *)&a, ret, ret_port) && *ret_port != 0;
}

/* The name behind a synthetic address, or the address itself. */
static enum reason find_target(struct capture *k) {
        struct gateway *g = k->client.worker->gateway;
        struct addr a;
        if (!original_destination(k->client.stream->fd, &a, &k->call.target.port))
                return REASON_PROTOCOL;
        host_from_addr(&a, &k->call.target.host);
        if (!g->synthetic || !synthetic_contains(&a))
                return REASON_NONE;
        int r = synthetic_acquire(g->synthetic, &a, loop_now(k->client.worker->loop), &k->call.target.host, &k->hold);
        return r < 0 ? REASON_BAD_NAME : REASON_NONE;
}

static bool http_is_usual(uint16_t port) {
        return port == 80 || port == 8000 || port == 8080 || port == 8888 || port == 3000 || port == 5000;
}

int transparent_start(const struct client *c) {
        struct worker *w = c->worker;
        struct capture *k = calloc(1, sizeof *k);
        if (!k)
                return client_has_no_room(c);
        k->client = *c;
        k->call.worker = w;
        k->call.via = VIA_TRANSPARENT;
        timer_init(&k->first_word, w->loop, on_first_word_limit);
        task_init(&k->destroy, destroy);
        enum reason bad = find_target(k);
        if (bad != REASON_NONE) {
                k->call.verdict =
                    (struct verdict){ .decision = DECISION_DENY, .reason = (uint8_t)bad, .rule = RULE_NONE };
                k->call.generation = w->policy->generation;
                tunnel_report_refused(&k->client, &k->call, 0);
                end(k, true);
                return 0;
        }
        struct verdict v = verdict_target(worker_snapshot(w), &k->call.target.host, k->call.target.port);
        k->intercepts = v.decision != DECISION_DENY && gate_wants_interception(w, &k->call.target);
        bool wants_word = v.needs_request || k->intercepts;
        if (v.decision != DECISION_DENY && (wants_word || http_is_usual(k->call.target.port))) {
                /* A rule that must see the request cannot be met by a client that stays silent: gate_open() refuses
                 * then. */
                stream_set_owner(c->stream, on_ready, k);
                timer_start(&k->first_word, wants_word ? w->limits.header_ns : FIRST_WORD_NS);
                on_ready(c->stream, k);
                return 0;
        }
        open_now(k);
        return 0;
}
