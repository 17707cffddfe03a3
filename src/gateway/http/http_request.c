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

static uint16_t default_port(const struct http_session *session) {
        return session->secure ? 443 : 80;
}

/* What the request says about where it wants to go, agreed between target, Host and, for captured ones, the address. */
static unsigned settle_target(struct http_session *session, const struct http1_request *request,
                              const char **ret_what) {
        struct authority *to = &session->call.target, named = { 0 };
        struct err err = { 0 };

        session->call.verdict.reason = REASON_PROTOCOL;
        if (request->form == FORM_ABSOLUTE && request->https && !session->secure) {
                *ret_what = "An https:// URL cannot be sent in the clear; open a CONNECT tunnel to the host instead";
                return 400;
        }

        if (request->form == FORM_ABSOLUTE && !request->https && session->secure) {
                *ret_what = "An http:// URL does not belong into a TLS connection";
                return 400;
        }

        if (request->form == FORM_ABSOLUTE || request->form == FORM_AUTHORITY) {
                session->call.verdict.reason = REASON_BAD_NAME;
                *ret_what = "The host or port of the request target is not valid";
                if (authority_parse(request->authority, request->form == FORM_ABSOLUTE ? default_port(session) : 0,
                                    &named, &err) < 0)
                        return 400;
        } else if (!session->bound) {
                *ret_what = "This is a proxy: it takes absolute-form requests and CONNECT";
                return 400;
        }

        if (session->bound && request->form == FORM_ABSOLUTE &&
            (!host_equal(&named.host, &to->host) || named.port != to->port))
                goto fronting;
        if (!session->bound)
                *to = named;
        if (!request->host.p || (request->authority.n > 0 && str_eq(request->host, request->authority)))
                return 0;

        session->call.verdict.reason = REASON_BAD_NAME;
        *ret_what = "The Host header is not valid";
        if (authority_parse(request->host, to->port, &named, &err) < 0)
                return 400;
        if (host_equal(&named.host, &to->host) && named.port == to->port)
                return 0;

fronting:
        session->call.verdict.reason = REASON_FRONTING;
        *ret_what = "The Host header names another host than the request is for";

        return 421;
}

static unsigned request_route(struct http_session *session, struct http1_request *request, const char **ret_what) {
        session->call.verdict.reason = REASON_PROTOCOL;
        return apiproxy_route(session->client.worker->gateway->credentials, request, &session->call.target, ret_what);
}

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

/* Copies out what is needed after the head's bytes are gone. */
void http_request_begin(struct http_session *session, const struct http1_request *request) {
        /* Doing it twice is as doing it once (RFC 9110, 9.2.2); without a body, which would be gone. */
        static const struct str repeatable[] = { STR("GET"), STR("HEAD"), STR("OPTIONS"), STR("PUT"), STR("DELETE") };

        session->since = clock_ns();
        session->bytes_in = session->bytes_out = 0;
        session->status = 0;
        session->n_interim = 0;
        session->begun = session->reused = session->answered = session->head_sent = session->up_broken =
            session->keep_upstream = false;
        session->back_progress = (struct http1_progress){ 0 };
        session->response = (struct http_body){ 0 };
        session->request = (struct http_body){ .kind = request->head.body, .left = request->head.length };
        session->request.done =
            request->head.body == BODY_NONE || (request->head.body == BODY_LENGTH && request->head.length == 0);
        session->trailers = BUF(HTTP1_TRAILER_MAX);
        if (session->client.worker->gateway->credentials)
                session->request.chunked.trailers = &session->trailers;

        session->cut = false;
        session->client_minor = request->head.minor;
        session->keep_client = !request->head.close;
        session->last = http1_request_is_last(request);
        session->connect = request->form == FORM_AUTHORITY;
        session->call.via = session->connect ? VIA_CONNECT : session->client.via;
        session->head_method = str_eq(request->method, STR("HEAD"));
        session->repeatable =
            session->request.done && is_one_of(request->method, repeatable, sizeof repeatable / sizeof *repeatable);
        session->upgrade[0] = '\0';
        if (request->head.upgrade && request->head.upgrade_to.n < sizeof session->upgrade) {
                memcpy(session->upgrade, request->head.upgrade_to.p, request->head.upgrade_to.n);
                session->upgrade[request->head.upgrade_to.n] = '\0';
                session->repeatable = false;
        }

        session->call.verdict = (struct verdict){ .rule = RULE_NONE };
        session->call.generation = session->client.worker->policy->generation;
        session->call.addr = (struct addr){ 0 };
        session->call.asked = false;
        session->call.question[0] = '\0';
        session->call.error = 0;
        session->call.why = NULL;
        session->up.head = BUF(2 * POOL_CHUNK_BYTES);
        session->down.head = BUF(2 * POOL_CHUNK_BYTES);
        session->up.head_at = session->down.head_at = 0;
        session->method_n = 0;
        session->path_n = 0;
        session->override = find_override(request);
        if (!session->bound)
                session->call.target = (struct authority){ 0 };
}

/* The bytes that will leave; the record reads method and path from them. */
static int write_request(struct http_session *session, const struct http1_request *request) {
        int e = buf_reserve(&session->up.head, request->head.bytes + AUTHORITY_TEXT_MAX);
        if (e == 0)
                e = http1_request_write(&session->up.head, request, &session->call.target, default_port(session));
        session->method_n = (uint8_t)request->method.n;
        session->path_n = (uint32_t)http1_path_only(request->path).n;
        return e;
}

/* A synthetic address that stands for no name. */
static void refuse_unbound(struct http_session *session) {
        session->call.verdict = (struct verdict){ .decision = DECISION_DENY, .reason = REASON_SELF, .rule = RULE_NONE };
        http_refuse(session);
}

/* What the client says of its question: shown to the person who is asked, and of no other effect. False: it is not to
 * be shown as it is. */
static bool take_question(struct http_session *session, const struct http1_request *request) {
        bool apart = str_eq(host_str(&session->call.target.host), STR(ASK_ACCESS_NAME));
        struct str given = { 0 };

        for (size_t i = 0; i < request->head.n_headers; i++)
                if (str_eq_nocase(request->head.headers[i].name, STR("bailey-ask")))
                        given = request->head.headers[i].value;

        if (!given.n)
                return !apart;

        bool known = apart ? str_starts(given, STR(ASK_WANTS)) || str_starts(given, STR(ASK_AGREED))
                           : str_starts(given, STR(ASK_BECAUSE));
        if (given.n >= sizeof session->call.question || !ipc_text_valid(given) || !known)
                return false;

        gate_set_question(&session->call, given, &session->call.verdict);
        return true;
}

static void judge_connect(struct http_session *session, const struct http1_request *request) {
        if (!session->request.done || request->head.body != BODY_NONE) {
                session->request.done = false;
                http_refuse_bytes(session, 400, REASON_PROTOCOL, "A CONNECT request has no body");
                return;
        }

        if (!take_question(session, request)) {
                http_refuse_bytes(session, 400, REASON_PROTOCOL, "The question is not one that can be shown");
                return;
        }

        http_session_open(session);
}

/* On a connection that is there already, or else on a new one. */
void http_request_send(struct http_session *session) {
        struct worker *worker = session->client.worker;

        if (!http_examine_pass(session))
                return;

        if (session->call.verdict.decision == DECISION_ALLOW) {
                session->upstream = session->secure ? http_secure_take(session) : NULL;
                if (!session->upstream)
                        session->upstream =
                            upstream_pool_take(worker->upstreams, &session->call.target, http_session_identity(session),
                                               !session->repeatable, &session->call.addr);
        }

        if (!session->upstream) {
                http_session_open(session);
                return;
        }

        session->reused = true;
        http_exchange_begin(session);
}

/* Headers that ask for another request than the one that is judged. */
static struct verdict judge_override(struct http_session *session, struct verdict verdict) {
        if (verdict.decision == DECISION_ALLOW && session->override) {
                verdict.decision = DECISION_DENY;
                verdict.reason = session->override->reason;
                session->call.why = OVERRIDE_WHY;
        }
        return verdict;
}

struct verdict http_request_verdict(struct http_session *session, struct verdict granted) {
        const struct snapshot *snapshot = worker_snapshot(session->client.worker);
        struct verdict verdict;

        if (granted.decision != DECISION_ALLOW || !granted.needs_request)
                return granted;

        if (session->examine) {
                verdict = examine_verdict(session->examine->examine, snapshot, granted);
                session->call.why = examine_why(session->examine->examine);
        } else {
                verdict =
                    verdict_request(snapshot, &session->call.target.host, session->call.target.port,
                                    http_session_method(session), http_session_path(session)); /* as it will leave */
                if (examine_was_missed(http_session_method(session), http_session_path(session), granted, verdict))
                        verdict = (struct verdict){ .decision = DECISION_DENY,
                                                    .reason = REASON_GIT_FORM,
                                                    .rule = verdict.rule };
        }

        return judge_override(session, verdict);
}

/* The same when its head has just come: what else must be seen of it is found out. */
static struct verdict judge_head(struct http_session *session, const struct http1_request *request,
                                 struct verdict granted) {
        if (granted.decision != DECISION_ALLOW || !granted.needs_request)
                return granted;
        return judge_override(session, http_examine_begin(session, request, granted));
}

/* Each request by itself, by the policy of this moment. */
static void judge_request(struct http_session *session, const struct http1_request *request) {
        struct worker *worker = session->client.worker;
        struct verdict verdict = gate_judge(worker, &session->call.target, true);
        if (verdict_is_agreed(&verdict, session->call.approved)) {
                verdict.decision = DECISION_ALLOW;
                session->call.asked = session->call.approved;
        }

        bool slow = verdict.decision == DECISION_DENY && !session->secure && gate_is_paced(worker, &verdict) &&
                    pace_is_slow(&worker->pace, &session->call.target.host, loop_now(worker->loop));
        if (verdict.decision == DECISION_DENY && !slow && gate_is_paced(worker, &verdict))
                (void)pace_delay(&worker->pace, &session->call.target.host, loop_now(worker->loop)); /* one more */

        verdict = judge_head(session, request, verdict);
        session->call.verdict = verdict;
        if (session->secure && session->secure->spoilt != REASON_NONE)
                http_secure_refuse(session);
        else if (slow)
                http_session_open(session); /* the gate refuses it, in its time */
        else if (verdict.decision == DECISION_DENY)
                http_refuse(session);
        else if (http_swap_judge(session, request))
                http_request_send(session);
}

/* A request that names no host, at a proxy's port, is one to the API proxy where there are credentials: services have
 * one port for both. */
static void consider_api(struct http_session *session, const struct http1_request *request) {
        const struct credentials *credentials = session->client.worker->gateway->credentials;

        if (!session->bound && !session->secure && request->form == FORM_ORIGIN && credentials &&
            credentials_count(credentials) > 0)
                (void)http_session_become_api(session); /* else it is refused as what it is */
}

void http_request_take(struct http_session *session, struct http1_request *request) {
        const char *what = NULL;

        consider_api(session, request);
        http_request_begin(session, request);
        if (session->secure)
                session->secure->used = true;

        if ((session->bound || session->api) && session->connect) {
                http_refuse_bytes(session, 405, REASON_METHOD,
                                  "CONNECT is for proxies, and this connection goes to an origin");
                return;
        }

        if (str_eq(request->method, STR("TRACE"))) {
                http_refuse_bytes(session, 405, REASON_METHOD, "TRACE is not supported");
                return;
        }

        unsigned status =
            session->api ? request_route(session, request, &what) : settle_target(session, request, &what);
        bool known = status || gate_unmask(session->client.worker, &session->call.target);

        if (!session->connect && write_request(session, request) < 0) {
                http_refuse_bytes(session, 503, REASON_LIMIT, "Out of memory");
        } else if (status) {
                session->keep_client = false;
                http_refuse_bytes(session, status, session->call.verdict.reason, what);
        } else if (!known) {
                refuse_unbound(session);
        } else if (session->connect) {
                judge_connect(session, request);
        } else {
                judge_request(session, request);
        }
}
