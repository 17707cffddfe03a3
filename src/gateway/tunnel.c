/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/tunnel.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "gateway/http/http_session.h"
#include "gateway/quota.h"
#include "gateway/wire/sni.h"
#include "gateway/wire/tunnelled.h"
#include "net/relay.h"

#include <errno.h>
#include <stdlib.h>

enum { QUIET_NS = 250 * 1000 * 1000 }; /* after which a first word that is no method we know is not held any more */

/*
 * States: greeting (the client's first bytes are held until they agree with the target), open, gone. The relay holds
 * back the client's bytes; the server's pass from the start. After a TLS greeting its second one is looked for, which
 * some servers ask for; then, and after an unknown protocol (its first line at least), nothing is looked at any more.
 * After a plain HTTP request each request that follows on the connection is looked at in the same way, so that the name
 * cannot change behind the first one.
 */
struct tunnel {
        struct client client;
        struct relay relay;
        struct judged judged;
        struct authority target;
        struct host_bytes *host_bytes;
        struct synthetic_hold hold;
        struct timer greeting, quiet;
        struct task destroy;
        uint64_t opened;
        uint32_t rule, generation;
        uint8_t reason;  /* why it was allowed */
        uint8_t refused; /* REASON_NONE, or why it was closed */
        bool captured, looked, tls, line;
        bool silent; /* nothing followed the client's first word */
        struct sniff_line first_line;
        struct requests requests;
        struct tls_records records;
};

/* events */

static struct event event_for(const struct client *c, const struct authority *target, uint32_t rule,
                              uint32_t generation) {
        return (struct event){
                .connection = c->number,
                .rule = rule,
                .generation = generation,
                .via = c->via,
                .scheme = SCHEME_TCP,
                .port = target->port,
                .domain = host_str(&target->host),
        };
}

static void report_open(struct tunnel *t) {
        struct event ev = event_for(&t->client, &t->target, t->rule, t->generation);
        ev.kind = EVENT_TUNNEL_OPEN;
        ev.reason = t->reason;
        ev.allowed = true;
        ev.addr = t->judged.addr;
        report_event(&t->client.worker->report, &ev);
}

static void report_close(struct tunnel *t) {
        struct worker *w = t->client.worker;
        struct event ev = event_for(&t->client, &t->target, t->rule, t->generation);
        ev.kind = EVENT_TUNNEL_CLOSE;
        ev.allowed = t->refused == REASON_NONE || t->refused == REASON_TIMEOUT || t->refused == REASON_UPSTREAM;
        ev.reason = t->refused ? t->refused : t->reason;
        ev.addr = t->judged.addr;
        ev.bytes_out = t->relay.flow[RELAY_CLIENT].bytes;
        ev.bytes_in = t->relay.flow[RELAY_SERVER].bytes;
        ev.duration_us = (loop_now(w->loop) - t->opened) / 1000;
        report_event(&w->report, &ev);
}

void tunnel_report_refused(const struct client *client, const struct gate_call *call, uint16_t status) {
        struct event ev = event_for(client, &call->target, call->verdict.rule, call->generation);
        ev.kind = EVENT_TUNNEL_OPEN;
        ev.via = call->via;
        ev.reason = call->verdict.reason;
        ev.allowed = !gate_was_refused(&call->verdict);
        ev.status = status;
        ev.duration_us = (loop_now(client->worker->loop) - client->since) / 1000;
        report_event(&client->worker->report, &ev);
}

/* the end */

static void destroy(struct task *task) {
        free(link_owner(task, struct tunnel, destroy));
}

static void release(struct tunnel *t) {
        struct worker *w = t->client.worker;
        timer_stop(&t->greeting);
        timer_stop(&t->quiet);
        judged_remove(&t->judged);
        if (w->gateway->synthetic)
                synthetic_release(w->gateway->synthetic, &t->hold, loop_now(w->loop));
        loop_defer(w->loop, &t->destroy);
}

/* The relay is over: both streams are closed. */
static void finish(struct tunnel *t) {
        report_close(t);
        release(t);
        t->client.stream = NULL;
        client_done(&t->client);
}

static void on_done(struct relay *r, enum relay_end how, int error) {
        struct tunnel *t = link_owner(r, struct tunnel, relay);
        if (t->refused == REASON_NONE) {
                switch (how) {
                case RELAY_CLOSED:
                        break;
                case RELAY_IDLE:
                        t->refused = REASON_TIMEOUT;
                        break;
                case RELAY_RESET:
                        t->refused = error == -EPROTO ? REASON_PROTOCOL : REASON_UPSTREAM;
                        break;
                case RELAY_REFUSED:
                        t->refused = REASON_LIMIT;
                        break;
                }
        }
        finish(t);
}

static void close_now(struct tunnel *t, enum reason why) {
        t->refused = (uint8_t)why;
        relay_stop(&t->relay, why != REASON_NONE);
        finish(t);
}

static void revoke(struct judged *j, struct verdict v) {
        struct tunnel *t = link_owner(j, struct tunnel, judged);
        bool refused = v.decision != DECISION_ALLOW;
        if (refused) {
                t->rule = v.rule;
                t->generation = t->client.worker->policy->generation;
        }
        close_now(t, refused ? (enum reason)v.reason : REASON_NONE);
}

static void on_greeting_limit(struct timer *timer) {
        close_now(link_owner(timer, struct tunnel, greeting), REASON_TIMEOUT);
}

static void on_quiet(struct timer *timer) {
        struct tunnel *t = link_owner(timer, struct tunnel, quiet);

        t->silent = true;
        relay_look_again(&t->relay);
}

/* looking */

static enum relay_look refuse(struct tunnel *t, enum reason why) {
        t->refused = (uint8_t)why;
        return RELAY_STOP;
}

/* A name must be the one that was judged. Behind an address that the policy opened any name may be asked for, but not
 * one that it denies, nor one whose requests it wants to see: the address must not be a way around those rules. */
static bool agrees(const struct tunnel *t, const struct host *shown) {
        if (t->target.host.kind == HOST_NAME || shown->kind == HOST_ADDR)
                return host_equal(&t->target.host, shown);
        struct verdict v = verdict_target(worker_snapshot(t->client.worker), shown, t->target.port);
        return v.reason != REASON_DENY_RULE && !v.needs_request;
}

/* The whole connection becomes an HTTP session, which judges every request and knows every turn of the protocol. The
 * connection that was opened ahead goes back unused. */
static enum relay_look become_http(struct tunnel *t) {
        struct stream *upstream;
        struct client client = t->client;
        if (relay_release(&t->relay, &client.stream, &upstream) < 0)
                return refuse(t, REASON_LIMIT);
        stream_close(upstream);
        struct synthetic_hold hold = t->hold;
        t->hold = (struct synthetic_hold){ 0 };
        report_close(t);
        release(t);
        http_session_start_bound(&client, &t->target, &hold);
        return RELAY_TAKE;
}

static enum relay_look look_at_request(struct tunnel *t, struct str bytes) {
        struct host named;
        switch (requests_look(&t->requests, bytes, t->client.worker->limits.header_bytes, &named)) {
        case REQUESTS_MORE:
                return RELAY_HOLD;
        case REQUESTS_BAD:
                return refuse(t, REASON_PROTOCOL);
        case REQUESTS_SWITCH: /* an upgrade: only a session that sees the answer knows whether it happened */
                return t->requests.seen == 1 ? become_http(t) : refuse(t, REASON_PROTOCOL);
        case REQUESTS_HEAD:
                if (t->requests.has_host && !agrees(t, &named))
                        return refuse(t, REASON_FRONTING);
                break;
        case REQUESTS_BODY:
                break;
        }
        timer_stop(&t->greeting);
        t->relay.pass_left = t->requests.pass;
        return RELAY_PASS;
}

/* The rest of a line whose beginning is on its way. */
static enum relay_look look_at_line(struct tunnel *t, struct str bytes) {
        timer_stop(&t->greeting);
        t->line = true;
        t->relay.pass_left = bytes.n;
        switch (sniff_line_look(&t->first_line, bytes)) {
        case SNIFF_LINE_GOES:
                break;
        case SNIFF_LINE_OVER:
                t->relay.pass_left = RELAY_PASS_ALL;
                break;
        case SNIFF_LINE_HTTP:
                return refuse(t, REASON_PROTOCOL);
        }
        return RELAY_PASS;
}

/* A client may wait for an answer to a word without a line end. */
static enum relay_look look_at_word(struct tunnel *t, struct str bytes) {
        if (t->silent)
                return look_at_line(t, bytes);
        timer_start(&t->quiet, QUIET_NS);
        return RELAY_HOLD;
}

static enum relay_look look_at_greeting(struct tunnel *t, struct str bytes) {
        struct sniff seen;
        timer_stop(&t->quiet);
        switch (sniff(bytes, t->client.worker->limits.header_bytes, &seen)) {
        case SNIFF_MORE:
                return seen.word ? look_at_word(t, bytes) : RELAY_HOLD;
        case SNIFF_LINE:
                return look_at_line(t, bytes);
        case SNIFF_BAD:
                return refuse(t, REASON_PROTOCOL);
        case SNIFF_HTTP:
                if (seen.has_host && !agrees(t, &seen.host))
                        return refuse(t, REASON_FRONTING);
                if (t->captured)
                        return become_http(t);
                t->looked = true;
                return look_at_request(t, bytes);
        case SNIFF_TLS:
                if (seen.has_host && !agrees(t, &seen.host))
                        return refuse(t, REASON_FRONTING);
                timer_stop(&t->greeting);
                t->tls = true;
                t->records = seen.records;
                t->relay.pass_left = seen.records.pass;
                return RELAY_PASS;
        case SNIFF_HTTP2:
        case SNIFF_OTHER:
                break;
        }
        timer_stop(&t->greeting);
        t->relay.pass_left = RELAY_PASS_ALL;
        return RELAY_PASS;
}

static enum relay_look look_at_record(struct tunnel *t, struct str bytes) {
        bool has_host = false;
        struct host named;
        t->relay.pass_left = RELAY_PASS_ALL;
        switch (tls_records_look(&t->records, bytes, &has_host, &named)) {
        case TLS_MORE:
                t->relay.pass_left = 0;
                return RELAY_HOLD;
        case TLS_PASS:
                t->relay.pass_left = t->records.pass;
                break;
        case TLS_OVER:
                break;
        case TLS_HELLO:
                if (has_host && !agrees(t, &named))
                        return refuse(t, REASON_FRONTING);
                break;
        case TLS_BAD:
                return refuse(t, REASON_PROTOCOL);
        }
        timer_stop(&t->greeting);
        return RELAY_PASS;
}

static enum relay_look look_at(struct tunnel *t, struct str bytes) {
        if (t->looked)
                return look_at_request(t, bytes);
        if (t->tls)
                return look_at_record(t, bytes);
        if (t->line)
                return look_at_line(t, bytes);
        return look_at_greeting(t, bytes);
}

static enum relay_look inspect(struct relay *r, struct str bytes, bool ended) {
        struct tunnel *t = link_owner(r, struct tunnel, relay);
        enum relay_look l = look_at(t, bytes);
        if (l != RELAY_HOLD)
                return l;
        if (ended && !t->looked && !t->tls &&
            sniff_is_other_at_end(bytes)) { /* a short message of another protocol, and half-closed */
                t->relay.pass_left = RELAY_PASS_ALL;
                return RELAY_PASS;
        }
        if (ended)
                return refuse(t, REASON_PROTOCOL);
        if (!timer_is_running(&t->greeting))
                timer_start(&t->greeting, t->client.worker->limits.header_ns);
        return l;
}

static bool account(struct relay *r, size_t n) {
        struct tunnel *t = link_owner(r, struct tunnel, relay);
        return quota_sent(t->client.worker->gateway->quota, t->host_bytes, n);
}

/* the beginning */

static int start(const struct client *client, struct gate_call *call, const struct synthetic_hold *hold, bool look) {
        struct worker *w = client->worker;
        const struct gateway_limits *settings = &w->limits;
        struct tunnel *t = alloc_zeroed(sizeof *t);
        if (!t) {
                call->verdict.decision = DECISION_DENY;
                call->verdict.reason = REASON_LIMIT;
                tunnel_report_refused(client, call, 0);
                stream_close(call->upstream);
                struct synthetic_hold h = hold ? *hold : (struct synthetic_hold){ 0 };
                if (w->gateway->synthetic)
                        synthetic_release(w->gateway->synthetic, &h, loop_now(w->loop));
                struct client c = *client;
                client_done(&c);
                return -ENOMEM;
        }
        t->client = *client;
        t->client.via = call->via;
        t->target = call->target;
        t->captured = hold != NULL;
        if (hold)
                t->hold = *hold;
        t->opened = loop_now(w->loop);
        t->rule = call->verdict.rule;
        t->generation = call->generation;
        t->reason = call->verdict.reason;
        t->judged = (struct judged){
                .target = &t->target, .addr = call->addr, .asked = call->asked, .opaque = true, .revoke = revoke
        };
        if (call->chained)
                t->judged.addr = (struct addr){ .family = ADDR_NONE };
        link_init(&t->judged.link);
        timer_init(&t->greeting, w->loop, on_greeting_limit);
        timer_init(&t->quiet, w->loop, on_quiet);
        task_init(&t->destroy, destroy);
        t->judged.narrow_only = !look;
        judged_add(w, &t->judged);
        if (settings->bytes_out || settings->bytes_out_per_host) {
                bool full;
                t->host_bytes = quota_host(w->gateway->quota, &t->target.host, &full);
                t->relay.account = account;
        }
        t->relay.inspect = look ? inspect : NULL;
        t->relay.done = on_done;
        report_open(t);
        relay_start(&t->relay, &w->pool, t->client.stream, call->upstream, settings->tunnel_idle_ns);
        call->upstream = NULL;
        return 0;
}

int tunnel_start(const struct client *client, struct gate_call *call) {
        return start(client, call, NULL, true);
}

int tunnel_start_captured(const struct client *client, struct gate_call *call, const struct synthetic_hold *hold) {
        return start(client, call, hold, true);
}

int tunnel_start_forward(const struct client *client, struct gate_call *call) {
        return start(client, call, NULL, false);
}
