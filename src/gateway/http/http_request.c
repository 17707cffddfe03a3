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
#include "gateway/wire/proxy_auth.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/secrets/secret.h"
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

/* The bytes that will leave; the record reads method and path from them. */
static int write_request(struct http_session *session, const struct http1_request *request) {
        int e = buf_reserve(&session->exchange.up.head, request->head.bytes + AUTHORITY_TEXT_MAX);
        if (e == 0)
                e = http1_request_write(&session->exchange.up.head, request, &session->call.target,
                                        default_port(session));
        session->exchange.method_n = (uint8_t)request->method.n;
        session->exchange.path_n = (uint32_t)http1_path_only(request->path).n;
        return e;
}

/* A synthetic address that stands for no name. */
static void refuse_unbound(struct http_session *session) {
        session->call.verdict = (struct verdict){ .decision = DECISION_DENY, .reason = REASON_SELF, .rule = RULE_NONE };
        http_refuse(session);
}

/* An origin without a good certificate gets not a byte. */
static void refuse_spoilt(struct http_session *session) {
        session->exchange.keep_client = false;
        http_refuse_for(session, (enum reason)session->secure->spoilt, session->secure->why);
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
        if (!session->exchange.request.done || request->head.body != BODY_NONE) {
                session->exchange.request.done = false;
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
                session->exchange.upstream = session->secure ? http_secure_take(session) : NULL;
                if (!session->exchange.upstream)
                        session->exchange.upstream =
                            upstream_pool_take(worker->upstreams, &session->call.target, http_session_identity(session),
                                               !session->exchange.repeatable, &session->call.addr);
        }

        if (!session->exchange.upstream) {
                http_session_open(session);
                return;
        }

        session->exchange.reused = true;
        http_pump_start(session);
}

/* Headers that ask for another request than the one that is judged. */
static struct verdict judge_override(struct http_session *session, struct verdict verdict) {
        if (verdict.decision == DECISION_ALLOW && session->exchange.override) {
                verdict.decision = DECISION_DENY;
                verdict.reason = session->exchange.override->reason;
                session->call.why = OVERRIDE_WHY;
        }
        return verdict;
}

struct verdict http_request_verdict(struct http_session *session, struct verdict granted) {
        const struct snapshot *snapshot = worker_snapshot(session->client.worker);
        struct verdict verdict;

        if (granted.decision != DECISION_ALLOW || !granted.needs_request)
                return granted;

        if (session->exchange.examine) {
                verdict = examine_verdict(session->exchange.examine->examine, snapshot, granted);
                session->call.why = examine_why(session->exchange.examine->examine);
        } else {
                verdict =
                    verdict_request(snapshot, &session->call.target.host, session->call.target.port,
                                    http_exchange_method(session), http_exchange_path(session)); /* as it will leave */
                if (examine_was_missed(http_exchange_method(session), http_exchange_path(session), granted, verdict))
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
                refuse_spoilt(session);
        else if (slow)
                http_session_open(session); /* the gate refuses it, in its time */
        else if (verdict.decision == DECISION_DENY)
                http_refuse(session);
        else if (!http_body_fits(session))
                http_refuse_large(session);
        else if (http_swap_judge(session, request))
                http_request_send(session);
}

/* Also where the connection leads to, since TLS with the origin has taken its time. */
static struct verdict judge_secured(struct http_session *session) {
        struct gate_call *call = &session->call;
        struct verdict verdict = gate_judge(session->client.worker, &call->target, true);
        if (verdict_is_agreed(&verdict, call->asked)) {
                verdict.decision = DECISION_ALLOW;
                verdict.rule = call->verdict.rule;
        }

        if (verdict.decision != DECISION_ALLOW || call->chained ||
            call->addr.family == ADDR_NONE) /* behind a proxy, as well */
                return verdict;

        struct verdict a = verdict_address(worker_snapshot(session->client.worker), &call->target.host, &call->addr,
                                           call->target.port);
        return a.decision == DECISION_ALLOW ? verdict : a;
}

/* The policy may have changed while the gate was asked, or the origin. */
static void judge_again(struct http_session *session) {
        struct gate_call *c = &session->call;
        if (c->verdict.decision != DECISION_ALLOW)
                return;

        if (session->secure) {
                c->generation = session->client.worker->policy->generation;
                c->verdict = judge_secured(session);
        }

        c->verdict = http_request_verdict(session, c->verdict);
}

void http_request_resume(struct http_session *session) {
        judge_again(session);

        if (session->call.verdict.decision == DECISION_ALLOW && session->exchange.upstream) {
                http_pump_start(session);
                return;
        }

        stream_close(take_ptr(&session->exchange.upstream));
        http_refuse(session);
}

/* A request that names no host, at a proxy's port, is one to the API proxy where there are credentials: services have
 * one port for both. */
static void consider_api(struct http_session *session, const struct http1_request *request) {
        const struct credentials *credentials = session->client.worker->gateway->credentials;

        if (!session->bound && !session->secure && request->form == FORM_ORIGIN && credentials &&
            credentials_count(credentials) > 0)
                (void)http_secure_become_api(session); /* else it is refused as what it is */
}

/* Each request brings the secret, where one is wanted: what came before it on the connection says nothing about who
 * sends it. A session that is bound to a target lies inside a tunnel, and the tunnel's own request has brought it. */
static bool is_invited(const struct http_session *session, const struct http1_request *request) {
        const struct secret *wanted = session->client.worker->gateway->client_secret;
        return !wanted || session->bound || proxy_auth_head_fits(secret_value(wanted), &request->head);
}

/* On record with what it wanted. */
static void refuse_uninvited(struct http_session *session, const struct http1_request *request) {
        const char *what = NULL;

        http_exchange_begin(session, request);
        (void)settle_target(session, request, &what);
        if (!session->exchange.connect && write_request(session, request) < 0)
                session->exchange.keep_client = false;

        http_refuse_bytes(
            session, 407, REASON_CLIENT,
            "It does not bring the secret of the run, which the proxy variables hold as user and password");
}

void http_request_take(struct http_session *session, struct http1_request *request) {
        const char *what = NULL;

        if (!is_invited(session, request)) {
                refuse_uninvited(session, request);
                return;
        }

        consider_api(session, request);
        http_exchange_begin(session, request);
        if (session->secure)
                session->secure->used = true;

        if ((session->bound || session->api) && session->exchange.connect) {
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

        if (!session->exchange.connect && write_request(session, request) < 0) {
                http_refuse_bytes(session, 503, REASON_LIMIT, "Out of memory");
        } else if (status) {
                session->exchange.keep_client = false;
                http_refuse_bytes(session, status, session->call.verdict.reason, what);
        } else if (!known) {
                refuse_unbound(session);
        } else if (session->exchange.connect) {
                judge_connect(session, request);
        } else {
                judge_request(session, request);
        }
}
