/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/tunnel.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "gateway/http/http_session.h"
#include "gateway/load/quota.h"
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

static struct event event_for(const struct client *client, const struct authority *target, uint32_t rule,
                              uint32_t generation) {
        return (struct event){
                .connection = client->number,
                .rule = rule,
                .generation = generation,
                .via = client->via,
                .scheme = SCHEME_TCP,
                .port = target->port,
                .domain = host_str(&target->host),
        };
}

static void report_open(struct tunnel *tunnel) {
        struct event ev = event_for(&tunnel->client, &tunnel->target, tunnel->rule, tunnel->generation);
        ev.kind = EVENT_TUNNEL_OPEN;
        ev.reason = tunnel->reason;
        ev.allowed = true;
        ev.addr = tunnel->judged.addr;
        report_event(&tunnel->client.worker->report, &ev);
}

static void report_close(struct tunnel *tunnel) {
        struct worker *worker = tunnel->client.worker;
        struct event ev = event_for(&tunnel->client, &tunnel->target, tunnel->rule, tunnel->generation);

        ev.kind = EVENT_TUNNEL_CLOSE;
        ev.allowed =
            tunnel->refused == REASON_NONE || tunnel->refused == REASON_TIMEOUT || tunnel->refused == REASON_UPSTREAM;
        ev.reason = tunnel->refused ? tunnel->refused : tunnel->reason;
        ev.addr = tunnel->judged.addr;
        ev.bytes_out = tunnel->relay.flow[RELAY_CLIENT].bytes;
        ev.bytes_in = tunnel->relay.flow[RELAY_SERVER].bytes;
        ev.duration_us = (loop_now(worker->loop) - tunnel->opened) / 1000;
        report_event(&worker->report, &ev);
}

/* the end */

static void tunnel_destroy(struct task *task) {
        free(link_owner(task, struct tunnel, destroy));
}

static void tunnel_release(struct tunnel *tunnel) {
        struct worker *worker = tunnel->client.worker;
        timer_stop(&tunnel->greeting);
        timer_stop(&tunnel->quiet);
        judged_remove(&tunnel->judged);
        if (worker->gateway->synthetic)
                synthetic_release(worker->gateway->synthetic, &tunnel->hold, loop_now(worker->loop));
        loop_defer(worker->loop, &tunnel->destroy);
}

/* The relay is over: both streams are closed. */
static void tunnel_finish(struct tunnel *tunnel) {
        report_close(tunnel);
        tunnel_release(tunnel);
        tunnel->client.stream = NULL;
        client_done(&tunnel->client);
}

static void on_done(struct relay *r, enum relay_end how, int error) {
        struct tunnel *tunnel = link_owner(r, struct tunnel, relay);
        if (tunnel->refused == REASON_NONE) {
                switch (how) {
                case RELAY_CLOSED:
                        break;
                case RELAY_IDLE:
                        tunnel->refused = REASON_TIMEOUT;
                        break;
                case RELAY_RESET:
                        tunnel->refused = error == -EPROTO ? REASON_PROTOCOL : REASON_UPSTREAM;
                        break;
                case RELAY_REFUSED:
                        tunnel->refused = REASON_LIMIT;
                        break;
                }
        }

        tunnel_finish(tunnel);
}

static void close_now(struct tunnel *tunnel, enum reason why) {
        tunnel->refused = (uint8_t)why;
        relay_stop(&tunnel->relay, why != REASON_NONE);
        tunnel_finish(tunnel);
}

static void tunnel_revoke(struct judged *j, struct verdict verdict) {
        struct tunnel *tunnel = link_owner(j, struct tunnel, judged);
        bool refused = verdict.decision != DECISION_ALLOW;
        if (refused) {
                tunnel->rule = verdict.rule;
                tunnel->generation = tunnel->client.worker->policy->generation;
        }
        close_now(tunnel, refused ? (enum reason)verdict.reason : REASON_NONE);
}

static void on_greeting_limit(struct timer *timer) {
        close_now(link_owner(timer, struct tunnel, greeting), REASON_TIMEOUT);
}

static void on_quiet(struct timer *timer) {
        struct tunnel *tunnel = link_owner(timer, struct tunnel, quiet);

        tunnel->silent = true;
        relay_look_again(&tunnel->relay);
}

/* looking */

static enum relay_look tunnel_refuse(struct tunnel *tunnel, enum reason why) {
        tunnel->refused = (uint8_t)why;
        return RELAY_STOP;
}

/* A name must be the one that was judged. Behind an address that the policy opened any name may be asked for, but not
 * one that it denies, nor one whose requests it wants to see: the address must not be a way around those rules. */
static bool tunnel_agrees(const struct tunnel *tunnel, const struct host *shown) {
        if (tunnel->target.host.kind == HOST_NAME || shown->kind == HOST_ADDR)
                return host_equal(&tunnel->target.host, shown);
        struct verdict verdict = verdict_target(worker_snapshot(tunnel->client.worker), shown, tunnel->target.port);
        return verdict.reason != REASON_DENY_RULE && !verdict.needs_request;
}

/* The whole connection becomes an HTTP session, which judges every request and knows every turn of the protocol. The
 * connection that was opened ahead goes back unused. */
static enum relay_look become_http(struct tunnel *tunnel) {
        struct stream *upstream;
        struct client client = tunnel->client;
        if (relay_release(&tunnel->relay, &client.stream, &upstream) < 0)
                return tunnel_refuse(tunnel, REASON_LIMIT);

        stream_close(upstream);
        struct synthetic_hold hold = tunnel->hold;
        tunnel->hold = (struct synthetic_hold){ 0 };
        report_close(tunnel);
        tunnel_release(tunnel);
        http_session_start_bound(&client, &tunnel->target, &hold);

        return RELAY_TAKE;
}

static enum relay_look look_at_request(struct tunnel *tunnel, struct str bytes) {
        struct host named;

        switch (requests_look(&tunnel->requests, bytes, tunnel->client.worker->limits.header_bytes, &named)) {
        case REQUESTS_MORE:
                return RELAY_HOLD;
        case REQUESTS_BAD:
                return tunnel_refuse(tunnel, REASON_PROTOCOL);
        case REQUESTS_SWITCH: /* an upgrade: only a session that sees the answer knows whether it happened */
                return tunnel->requests.seen == 1 ? become_http(tunnel) : tunnel_refuse(tunnel, REASON_PROTOCOL);
        case REQUESTS_HEAD:
                if (tunnel->requests.has_host && !tunnel_agrees(tunnel, &named))
                        return tunnel_refuse(tunnel, REASON_FRONTING);
                break;
        case REQUESTS_BODY:
                break;
        }

        timer_stop(&tunnel->greeting);
        tunnel->relay.pass_left = tunnel->requests.pass;

        return RELAY_PASS;
}

/* The rest of a line whose beginning is on its way. */
static enum relay_look look_at_line(struct tunnel *tunnel, struct str bytes) {
        timer_stop(&tunnel->greeting);
        tunnel->line = true;
        tunnel->relay.pass_left = bytes.n;
        switch (sniff_line_look(&tunnel->first_line, bytes)) {
        case SNIFF_LINE_GOES:
                break;
        case SNIFF_LINE_OVER:
                tunnel->relay.pass_left = RELAY_PASS_ALL;
                break;
        case SNIFF_LINE_HTTP:
                return tunnel_refuse(tunnel, REASON_PROTOCOL);
        }

        return RELAY_PASS;
}

/* A client may wait for an answer to a word without a line end. */
static enum relay_look look_at_word(struct tunnel *tunnel, struct str bytes) {
        if (tunnel->silent)
                return look_at_line(tunnel, bytes);
        timer_start(&tunnel->quiet, QUIET_NS);
        return RELAY_HOLD;
}

static enum relay_look look_at_greeting(struct tunnel *tunnel, struct str bytes) {
        struct sniff seen;

        timer_stop(&tunnel->quiet);

        switch (sniff(bytes, tunnel->client.worker->limits.header_bytes, &seen)) {
        case SNIFF_MORE:
                return seen.word ? look_at_word(tunnel, bytes) : RELAY_HOLD;
        case SNIFF_LINE:
                return look_at_line(tunnel, bytes);
        case SNIFF_BAD:
                return tunnel_refuse(tunnel, REASON_PROTOCOL);
        case SNIFF_HTTP:
                if (seen.has_host && !tunnel_agrees(tunnel, &seen.host))
                        return tunnel_refuse(tunnel, REASON_FRONTING);

                if (tunnel->captured)
                        return become_http(tunnel);

                tunnel->looked = true;
                return look_at_request(tunnel, bytes);
        case SNIFF_TLS:
                if (seen.has_host && !tunnel_agrees(tunnel, &seen.host))
                        return tunnel_refuse(tunnel, REASON_FRONTING);
                timer_stop(&tunnel->greeting);
                tunnel->tls = true;
                tunnel->records = seen.records;
                tunnel->relay.pass_left = seen.records.pass;

                return RELAY_PASS;
        case SNIFF_HTTP2:
        case SNIFF_OTHER:
                break;
        }

        timer_stop(&tunnel->greeting);
        tunnel->relay.pass_left = RELAY_PASS_ALL;

        return RELAY_PASS;
}

static enum relay_look look_at_record(struct tunnel *tunnel, struct str bytes) {
        bool has_host = false;
        struct host named;

        tunnel->relay.pass_left = RELAY_PASS_ALL;
        switch (tls_records_look(&tunnel->records, bytes, &has_host, &named)) {
        case TLS_MORE:
                tunnel->relay.pass_left = 0;
                return RELAY_HOLD;
        case TLS_PASS:
                tunnel->relay.pass_left = tunnel->records.pass;
                break;
        case TLS_OVER:
                break;
        case TLS_HELLO:
                if (has_host && !tunnel_agrees(tunnel, &named))
                        return tunnel_refuse(tunnel, REASON_FRONTING);
                break;
        case TLS_BAD:
                return tunnel_refuse(tunnel, REASON_PROTOCOL);
        }

        timer_stop(&tunnel->greeting);
        return RELAY_PASS;
}

static enum relay_look look_at(struct tunnel *tunnel, struct str bytes) {
        if (tunnel->looked)
                return look_at_request(tunnel, bytes);
        if (tunnel->tls)
                return look_at_record(tunnel, bytes);
        if (tunnel->line)
                return look_at_line(tunnel, bytes);
        return look_at_greeting(tunnel, bytes);
}

static enum relay_look tunnel_inspect(struct relay *r, struct str bytes, bool ended) {
        struct tunnel *tunnel = link_owner(r, struct tunnel, relay);
        enum relay_look l = look_at(tunnel, bytes);
        if (l != RELAY_HOLD)
                return l;

        if (ended && !tunnel->looked && !tunnel->tls &&
            sniff_is_other_at_end(bytes)) { /* a short message of another protocol, and half-closed */
                tunnel->relay.pass_left = RELAY_PASS_ALL;
                return RELAY_PASS;
        }

        if (ended)
                return tunnel_refuse(tunnel, REASON_PROTOCOL);
        if (!timer_is_running(&tunnel->greeting))
                timer_start(&tunnel->greeting, tunnel->client.worker->limits.header_ns);

        return l;
}

static bool tunnel_account(struct relay *r, size_t n) {
        struct tunnel *tunnel = link_owner(r, struct tunnel, relay);
        return quota_sent(tunnel->client.worker->gateway->quota, tunnel->host_bytes, n);
}

/* the beginning */

/* There is no memory for a tunnel: everything that it would own is given back. */
static int tunnel_drop(const struct client *client, struct gate_call *call, const struct synthetic_hold *hold) {
        struct worker *worker = client->worker;
        struct synthetic_hold synthetic_hold = hold ? *hold : (struct synthetic_hold){ 0 };
        struct client dropped = *client;

        call->verdict.decision = DECISION_DENY;
        call->verdict.reason = REASON_LIMIT;
        gate_report_refused(client, call, 0);
        stream_close(call->upstream);

        if (worker->gateway->synthetic)
                synthetic_release(worker->gateway->synthetic, &synthetic_hold, loop_now(worker->loop));
        client_done(&dropped);

        return -ENOMEM;
}

static int tunnel_begin(const struct client *client, struct gate_call *call, const struct synthetic_hold *hold,
                        bool look) {
        struct worker *worker = client->worker;
        const struct gateway_limits *settings = &worker->limits;
        struct tunnel *tunnel = alloc_zeroed(sizeof *tunnel);
        if (!tunnel)
                return tunnel_drop(client, call, hold);

        tunnel->client = *client;
        tunnel->client.via = call->via;
        tunnel->target = call->target;
        tunnel->captured = hold != NULL;

        if (hold)
                tunnel->hold = *hold;

        tunnel->opened = loop_now(worker->loop);
        tunnel->rule = call->verdict.rule;
        tunnel->generation = call->generation;
        tunnel->reason = call->verdict.reason;
        tunnel->judged = (struct judged){ .target = &tunnel->target,
                                          .addr = call->addr,
                                          .asked = call->asked,
                                          .opaque = true,
                                          .revoke = tunnel_revoke };

        if (call->chained)
                tunnel->judged.addr = (struct addr){ .family = ADDR_NONE };

        link_init(&tunnel->judged.link);
        timer_init(&tunnel->greeting, worker->loop, on_greeting_limit);
        timer_init(&tunnel->quiet, worker->loop, on_quiet);
        task_init(&tunnel->destroy, tunnel_destroy);
        tunnel->judged.narrow_only = !look;
        judged_add(worker, &tunnel->judged);

        if (settings->bytes_out || settings->bytes_out_per_host) {
                bool full;

                tunnel->host_bytes = quota_host(worker->gateway->quota, &tunnel->target.host, &full);
                tunnel->relay.account = tunnel_account;
        }

        tunnel->relay.inspect = look ? tunnel_inspect : NULL;
        tunnel->relay.done = on_done;
        report_open(tunnel);
        relay_start(&tunnel->relay, &worker->pool, tunnel->client.stream, call->upstream, settings->tunnel_idle_ns);
        call->upstream = NULL;

        return 0;
}

int tunnel_start(const struct client *client, struct gate_call *call) {
        return tunnel_begin(client, call, NULL, true);
}

int tunnel_start_captured(const struct client *client, struct gate_call *call, const struct synthetic_hold *hold) {
        return tunnel_begin(client, call, hold, true);
}

int tunnel_start_forward(const struct client *client, struct gate_call *call) {
        return tunnel_begin(client, call, NULL, false);
}
