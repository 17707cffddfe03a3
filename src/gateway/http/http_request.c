/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request of a session, from its parsed head to the connection it leaves on: where it wants to go, whether it may,
 * and the bytes that will leave. Nothing of the client's own text is used after http_request_take() has returned.
 */
#include "gateway/creds/apiproxy.h"
#include "gateway/http/http_examine.h"
#include "gateway/http/http_internal.h"
#include "gateway/http/http_swap.h"
#include "gateway/override.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "ipc/valid.h"

#include <errno.h>

static uint16_t default_port(const struct http_session *s) {
        return s->secure ? 443 : 80;
}

/* What the request says about where it wants to go, agreed between target, Host and, for captured ones, the address. */
static unsigned settle_target(struct http_session *s, const struct http1_request *r, const char **ret_what) {
        struct authority *to = &s->call.target, named = { 0 };
        struct err e = { 0 };
        s->call.verdict.reason = REASON_PROTOCOL;
        if (r->form == FORM_ABSOLUTE && r->https && !s->secure) {
                *ret_what = "An https:// URL cannot be sent in the clear; open a CONNECT tunnel to the host instead";
                return 400;
        }
        if (r->form == FORM_ABSOLUTE && !r->https && s->secure) {
                *ret_what = "An http:// URL does not belong into a TLS connection";
                return 400;
        }
        if (r->form == FORM_ABSOLUTE || r->form == FORM_AUTHORITY) {
                s->call.verdict.reason = REASON_BAD_NAME;
                *ret_what = "The host or port of the request target is not valid";
                if (authority_parse(r->authority, r->form == FORM_ABSOLUTE ? default_port(s) : 0, &named, &e) < 0)
                        return 400;
        } else if (!s->bound) {
                *ret_what = "This is a proxy: it takes absolute-form requests and CONNECT";
                return 400;
        }
        if (s->bound && r->form == FORM_ABSOLUTE && (!host_equal(&named.host, &to->host) || named.port != to->port))
                goto fronting;
        if (!s->bound)
                *to = named;
        if (!r->host.p || (r->authority.n > 0 && str_eq(r->host, r->authority)))
                return 0;
        s->call.verdict.reason = REASON_BAD_NAME;
        *ret_what = "The Host header is not valid";
        if (authority_parse(r->host, to->port, &named, &e) < 0)
                return 400;
        if (host_equal(&named.host, &to->host) && named.port == to->port)
                return 0;
fronting:
        s->call.verdict.reason = REASON_FRONTING;
        *ret_what = "The Host header names another host than the request is for";
        return 421;
}

static unsigned route(struct http_session *s, struct http1_request *r, const char **ret_what) {
        s->call.verdict.reason = REASON_PROTOCOL;
        return apiproxy_route(s->client.worker->gateway->credentials, r, &s->call.target, ret_what);
}

static bool is_one_of(struct str method, const struct str *list, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (str_eq(method, list[i]))
                        return true;
        return false;
}

static const struct override *find_override(const struct http1_request *r) {
        for (size_t i = 0; i < r->head.n_headers; i++) {
                const struct override *found = override_find(r->head.headers[i].name);
                if (found)
                        return found;
        }
        return NULL;
}

/* Copies out what is needed after the head's bytes are gone. */
void http_request_begin(struct http_session *s, const struct http1_request *r) {
        /* Doing it twice is as doing it once (RFC 9110, 9.2.2); without a body, which would be gone. */
        static const struct str repeatable[] = { STR("GET"), STR("HEAD"), STR("OPTIONS"), STR("PUT"), STR("DELETE") };
        s->since = clock_ns();
        s->bytes_in = s->bytes_out = 0;
        s->status = 0;
        s->n_interim = 0;
        s->begun = s->reused = s->answered = s->head_sent = s->up_broken = s->keep_upstream = false;
        s->back_progress = (struct http1_progress){ 0 };
        s->response = (struct http_body){ 0 };
        s->request = (struct http_body){ .kind = r->head.body, .left = r->head.length };
        s->request.done = r->head.body == BODY_NONE || (r->head.body == BODY_LENGTH && r->head.length == 0);
        s->trailers = BUF(HTTP1_TRAILER_MAX);
        if (s->client.worker->gateway->credentials)
                s->request.chunked.trailers = &s->trailers;
        s->cut = false;
        s->client_minor = r->head.minor;
        s->keep_client = !r->head.close;
        s->connect = r->form == FORM_AUTHORITY;
        s->call.via = s->connect ? VIA_CONNECT : s->client.via;
        s->head_method = str_eq(r->method, STR("HEAD"));
        s->repeatable = s->request.done && is_one_of(r->method, repeatable, sizeof repeatable / sizeof *repeatable);
        s->upgrade[0] = '\0';
        if (r->head.upgrade && r->head.upgrade_to.n < sizeof s->upgrade) {
                memcpy(s->upgrade, r->head.upgrade_to.p, r->head.upgrade_to.n);
                s->upgrade[r->head.upgrade_to.n] = '\0';
                s->repeatable = false;
        }
        s->call.verdict = (struct verdict){ .rule = RULE_NONE };
        s->call.generation = s->client.worker->policy->generation;
        s->call.addr = (struct addr){ 0 };
        s->call.asked = false;
        s->call.question[0] = '\0';
        s->call.error = 0;
        s->call.why = NULL;
        s->up.head = BUF(2 * POOL_CHUNK_BYTES);
        s->down.head = BUF(2 * POOL_CHUNK_BYTES);
        s->up.head_at = s->down.head_at = 0;
        s->method_n = 0;
        s->path_n = 0;
        s->override = find_override(r);
        if (!s->bound)
                s->call.target = (struct authority){ 0 };
}

/* The bytes that will leave; the record reads method and path from them. */
static int write_request(struct http_session *s, const struct http1_request *r) {
        int e = buf_reserve(&s->up.head, r->head.bytes + AUTHORITY_TEXT_MAX);
        if (e == 0)
                e = http1_request_write(&s->up.head, r, &s->call.target, default_port(s));
        s->method_n = (uint8_t)r->method.n;
        s->path_n = (uint32_t)http1_path_only(r->path).n;
        return e;
}

/* A synthetic address that stands for no name. */
static void refuse_unbound(struct http_session *s) {
        s->call.verdict = (struct verdict){ .decision = DECISION_DENY, .reason = REASON_SELF, .rule = RULE_NONE };
        http_refuse(s);
}

/* What the client says of its question: shown to the person who is asked, and of no other effect. False: it is not to
 * be shown as it is. */
static bool take_question(struct http_session *s, const struct http1_request *r) {
        bool apart = str_eq(host_str(&s->call.target.host), STR(ASK_ACCESS_NAME));
        struct str given = { 0 };

        for (size_t i = 0; i < r->head.n_headers; i++)
                if (str_eq_nocase(r->head.headers[i].name, STR("bailey-ask")))
                        given = r->head.headers[i].value;
        if (!given.n)
                return !apart;
        bool known = apart ? str_starts(given, STR(ASK_WANTS)) || str_starts(given, STR(ASK_AGREED))
                           : str_starts(given, STR(ASK_BECAUSE));
        if (given.n >= sizeof s->call.question || !ipc_text_valid(given) || !known)
                return false;
        gate_set_question(&s->call, given, &s->call.verdict);
        return true;
}

static void judge_connect(struct http_session *s, const struct http1_request *r) {
        if (!s->request.done || r->head.body != BODY_NONE) {
                s->request.done = false;
                http_refuse_bytes(s, 400, REASON_PROTOCOL, "A CONNECT request has no body");
                return;
        }
        if (!take_question(s, r)) {
                http_refuse_bytes(s, 400, REASON_PROTOCOL, "The question is not one that can be shown");
                return;
        }
        http_session_open(s);
}

/* On a connection that is there already, or else on a new one. */
void http_request_send(struct http_session *s) {
        struct worker *w = s->client.worker;
        if (!http_examine_pass(s))
                return;
        if (s->call.verdict.decision == DECISION_ALLOW) {
                s->upstream = s->secure ? http_secure_take(s) : NULL;
                if (!s->upstream)
                        s->upstream = upstream_pool_take(w->upstreams, &s->call.target, http_session_identity(s),
                                                         !s->repeatable, &s->call.addr);
        }
        if (!s->upstream) {
                http_session_open(s);
                return;
        }
        s->reused = true;
        http_exchange_begin(s);
}

/* Headers that ask for another request than the one that is judged. */
static struct verdict judge_override(struct http_session *s, struct verdict v) {
        if (v.decision == DECISION_ALLOW && s->override) {
                v.decision = DECISION_DENY;
                v.reason = s->override->reason;
                s->call.why = OVERRIDE_WHY;
        }
        return v;
}

struct verdict http_request_verdict(struct http_session *s, struct verdict granted) {
        const struct snapshot *snapshot = worker_snapshot(s->client.worker);
        struct verdict v;

        if (granted.decision != DECISION_ALLOW || !granted.needs_request)
                return granted;
        if (s->examine) {
                v = examine_verdict(s->examine->examine, snapshot, granted);
                s->call.why = examine_why(s->examine->examine);
        } else {
                v = verdict_request(snapshot, &s->call.target.host, s->call.target.port, http_session_method(s),
                                    http_session_path(s)); /* as it will leave */
                if (examine_was_missed(http_session_method(s), http_session_path(s), granted, v))
                        v = (struct verdict){ .decision = DECISION_DENY, .reason = REASON_GIT_FORM, .rule = v.rule };
        }
        return judge_override(s, v);
}

/* The same when its head has just come: what else must be seen of it is found out. */
static struct verdict judge_head(struct http_session *s, const struct http1_request *r, struct verdict granted) {
        if (granted.decision != DECISION_ALLOW || !granted.needs_request)
                return granted;
        return judge_override(s, http_examine_begin(s, r, granted));
}

/* Each request by itself, by the policy of this moment. */
static void judge_request(struct http_session *s, const struct http1_request *r) {
        struct worker *w = s->client.worker;
        struct verdict v = gate_judge(w, &s->call.target, true);
        if (verdict_is_agreed(&v, s->call.approved)) {
                v.decision = DECISION_ALLOW;
                s->call.asked = s->call.approved;
        }
        bool slow = v.decision == DECISION_DENY && !s->secure && gate_is_paced(w, &v) &&
                    pace_is_slow(&w->pace, &s->call.target.host, loop_now(w->loop));
        if (v.decision == DECISION_DENY && !slow && gate_is_paced(w, &v))
                (void)pace_delay(&w->pace, &s->call.target.host, loop_now(w->loop)); /* one more */
        v = judge_head(s, r, v);
        s->call.verdict = v;
        if (s->secure && s->secure->spoilt != REASON_NONE)
                http_secure_refuse(s);
        else if (slow)
                http_session_open(s); /* the gate refuses it, in its time */
        else if (v.decision == DECISION_DENY)
                http_refuse(s);
        else if (http_swap_judge(s, r))
                http_request_send(s);
}

/* A request that names no host, at a proxy's port, is one to the API proxy where there are credentials: services have
 * one port for both. */
static void consider_api(struct http_session *s, const struct http1_request *r) {
        const struct credentials *c = s->client.worker->gateway->credentials;

        if (!s->bound && !s->secure && r->form == FORM_ORIGIN && c && credentials_count(c) > 0)
                (void)http_session_become_api(s); /* else it is refused as what it is */
}

void http_request_take(struct http_session *s, struct http1_request *r) {
        const char *what = NULL;
        consider_api(s, r);
        http_request_begin(s, r);
        if (s->secure)
                s->secure->used = true;
        if ((s->bound || s->api) && s->connect) {
                http_refuse_bytes(s, 405, REASON_METHOD,
                                  "CONNECT is for proxies, and this connection goes to an origin");
                return;
        }
        if (str_eq(r->method, STR("TRACE"))) {
                http_refuse_bytes(s, 405, REASON_METHOD, "TRACE is not supported");
                return;
        }
        unsigned status = s->api ? route(s, r, &what) : settle_target(s, r, &what);
        bool known = status || gate_unmask(s->client.worker, &s->call.target);
        if (!s->connect && write_request(s, r) < 0) {
                http_refuse_bytes(s, 503, REASON_LIMIT, "Out of memory");
        } else if (status) {
                s->keep_client = false;
                http_refuse_bytes(s, status, s->call.verdict.reason, what);
        } else if (!known) {
                refuse_unbound(s);
        } else if (s->connect) {
                judge_connect(s, r);
        } else {
                judge_request(s, r);
        }
}
