/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/refusal.h"

#include <errno.h>
#include <stdio.h>

/* Written for a program that reads text: what happened, why, whether to try again, and what a person can do. Only
 * canonical names and the policy's own text appear here, never bytes that a client chose freely. */

static bool may_pass(const struct verdict *verdict) {
        return verdict->reason == REASON_UPSTREAM || verdict->reason == REASON_TIMEOUT ||
               verdict->reason == REASON_RESOLVE || verdict->reason == REASON_LIMIT ||
               verdict->reason == REASON_AUDIT || verdict->reason == REASON_VAULT;
}

/* A sentence. */
static const char *resolve_failed(int error) {
        switch (error) {
        case -ENOENT:
                return "The name has no address.";
        case -ETIMEDOUT:
                return "No name server answered in time.";
        case -EBUSY:
                return "Too many names are being looked up.";
        default:
                return "The name servers could not resolve the name.";
        }
}

static const char *connect_failed(int error) {
        switch (error) {
        case -ECONNREFUSED:
                return "It refused the connection.";
        case -EHOSTUNREACH:
        case -ENETUNREACH:
                return "It cannot be reached.";
        default:
                return "The connection to it failed.";
        }
}

static const char *what_failed(const struct verdict *verdict, int error) {
        switch (verdict->reason) {
        case REASON_RESOLVE:
                return resolve_failed(error);
        case REASON_TIMEOUT:
                return "It did not answer in time.";
        case REASON_UPSTREAM:
                return connect_failed(error);
        default:
                return reason_text((enum reason)verdict->reason);
        }
}

static int how_to_allow(struct buf *out, const char *where, const struct verdict *verdict) {
        switch (verdict->reason) {
        case REASON_NOT_ALLOWED:
        case REASON_ASK:
                return buf_printf(out, " A person can allow it with: bailey allow %s", where);
        case REASON_DENY_RULE:
                return buf_add(out, " A person would have to remove that rule from the policy.");
        case REASON_ADDRESS_CLASS:
                if (verdict->class == ADDR_CLASS_METADATA)
                        return buf_add(out, " Nobody can open metadata addresses.");
                return buf_printf(out, " A person can open it with: --allow-private %s", where);
        case REASON_METHOD:
        case REASON_PATH:
        case REASON_NOT_VISIBLE:
        case REASON_GRAPHQL:
                return buf_add(out, " A person can widen the rule in the policy.");
        case REASON_GIT_REPOSITORY:
        case REASON_GIT_SERVICE:
        case REASON_GIT_REF:
                return buf_add(out, " A person can change the entries under git in the policy.");
        case REASON_SIGNING:
                return buf_add(out, " A person can change the entries under ssh and signing in the policy.");
        case REASON_GIT_ONLY:
                return buf_printf(out, " A person can allow the rest of it with: bailey allow %s", where);
        default:
                return 0;
        }
}

/* A person's answer, as the state and the running sandbox keep it (policy/approved.h): nobody wrote it into a policy.
 */
static bool is_answer(const struct snapshot_rule *rule) {
        return str_starts(rule->origin, STR("denied "));
}

static int name_rule(struct buf *out, const struct snapshot_rule *rule) {
        int r = buf_printf(out, is_answer(rule) ? " The rule is \"%.*s\", %.*s." : " The rule is \"%.*s\" from %.*s.",
                           STR_FMT(rule->text), STR_FMT(rule->origin));

        if (r == 0 && rule->reason.n > 0)
                r = buf_printf(out, " Its reason: %.*s%s", STR_FMT(rule->reason),
                               str_ends(rule->reason, STR(".")) ? "" : ".");
        return r;
}

/* What cannot be had: nothing refused it. */
static int failure_text(struct buf *out, const char *where, const struct verdict *verdict, int error, const char *why) {
        bool ours =
            verdict->reason == REASON_LIMIT || verdict->reason == REASON_AUDIT || verdict->reason == REASON_VAULT;

        return buf_printf(out, "bailey: cannot connect to %s. %s %s", where, text_or(why, what_failed(verdict, error)),
                          ours ? "It may work later." : "Policy allows it; this is not a refusal.");
}

/* The rules of the policy refused it, or a person did. */
static int policy_text(struct buf *out, const struct snapshot *snapshot, const char *where,
                       const struct verdict *verdict, int error, const char *why) {
        struct snapshot_rule rule;
        bool ruled = snapshot_rule(snapshot, verdict->rule, &rule);
        bool answered = ruled && verdict->reason == REASON_DENY_RULE && is_answer(&rule);
        const char *reason = answered ? "A person refused it." : reason_text((enum reason)verdict->reason);
        bool detailed = why && verdict->reason >= REASON_GIT_REPOSITORY && verdict->reason <= REASON_SIGNING;

        if (verdict->reason == REASON_ASK && error == -EACCES)
                reason = "It was asked about, and the answer was no.";

        int r = buf_printf(out, "bailey: policy refused %s. %s", where, reason);
        if (r == 0 && detailed)
                r = buf_printf(out, " (%s)", why);
        if (r == 0 && verdict->reason == REASON_ADDRESS_CLASS)
                r = buf_printf(out, " It is a %s address.", addr_class_name((enum addr_class)verdict->class));
        if (r == 0 && ruled)
                r = name_rule(out, &rule);
        if (r == 0 && verdict->reason == REASON_ASK && error == -ETIMEDOUT)
                r = buf_add(out, " Nobody answered in time.");
        if (r == 0)
                r = buf_add(out, " Trying again will not help.");
        if (r < 0)
                return r;

        if (answered)
                return buf_printf(out, " A person can take that back with: bailey deny --forget %.*s",
                                  STR_FMT(rule.text));

        return how_to_allow(out, where, verdict);
}

int refusal_text(struct buf *out, const struct snapshot *snapshot, const struct authority *target,
                 const struct verdict *verdict, int error, const char *why) {
        char where[AUTHORITY_TEXT_MAX] = "the destination";

        if (target)
                authority_text(target, where);

        if (may_pass(verdict))
                return failure_text(out, where, verdict, error, why);

        if (verdict->reason == REASON_CERTIFICATE)
                return buf_printf(
                    out,
                    "bailey: nothing was sent to %s. %s Trying again will not help. A person can make its "
                    "issuer known with: --ca-bundle FILE",
                    where, why ? why : reason_text(REASON_CERTIFICATE));

        if (verdict->reason == REASON_CREDENTIAL && why)
                return buf_printf(
                    out,
                    "bailey: nothing was sent to %s: %s. Trying again will not help. What stands in for a "
                    "credential goes only to its own hosts, over TLS, in its own place; see `bailey secrets list`.",
                    where, why);

        if ((verdict->reason == REASON_METHOD || verdict->reason == REASON_PATH) && why)
                return buf_printf(
                    out,
                    "bailey: policy refused this request to %s: %s. Trying again will not help; it must be "
                    "made without that header (X-HTTP-Method-Override, X-Original-URL and the like), "
                    "since the policy has rules for the methods or paths of this host.",
                    where, why);

        size_t before = out->n;
        int r = policy_text(out, snapshot, where, verdict, error, why);
        if (r < 0)
                out->n = before;

        return r;
}

/* A sentence: how much of a request that was cut off has left. What goes over a limit or is malformed is not sent. */
static const char *what_was_sent(enum reason reason) {
        if (reason == REASON_LIMIT || reason == REASON_PROTOCOL)
                return "Its header, and what came of its body before that, had been sent by then; the rest was not.";

        return "Its header, and what was read of its body, had been sent by then; its trailers were not.";
}

int refusal_rest_text(struct buf *out, const struct authority *target, enum reason reason, const char *why) {
        char where[AUTHORITY_TEXT_MAX];

        authority_text(target, where);
        return buf_printf(out, "bailey: the request to %s was cut off: %s. %s Trying again will not help.", where, why,
                          what_was_sent(reason));
}

unsigned refusal_status(const struct verdict *verdict, int error) {
        switch (verdict->reason) {
        case REASON_METHOD:
                return 405;
        case REASON_UPSTREAM:
                return 502;
        case REASON_TIMEOUT:
                return 504;
        case REASON_RESOLVE:
                return error == -ETIMEDOUT ? 504 : 502;
        case REASON_LIMIT:
                return error == -EMFILE || error == -ENFILE || error == -ENOMEM ? 503 : 429;
        case REASON_AUDIT:
        case REASON_VAULT:
                return 503;
        case REASON_CERTIFICATE:
                return 502;
        case REASON_BAD_NAME:
        case REASON_PROTOCOL:
                return 400;
        default:
                return 403;
        }
}

/* --- the answer --- */

static struct refusal refusal_make(unsigned status, enum reason reason) {
        return (struct refusal){ .status = status,
                                 .reason = reason,
                                 .type = "text/plain; charset=utf-8",
                                 .text = BUF(REFUSAL_TEXT_MAX + 1) };
}

/* With a line end behind the text, or without any. */
static void refusal_close(struct refusal *refusal, int error) {
        if (error < 0 || buf_add_char(&refusal->text, '\n') < 0)
                buf_clear(&refusal->text);
}

struct refusal refusal_of(const struct refused *refused) {
        const struct verdict *verdict = refused->verdict;
        struct refusal refusal = refusal_make(refusal_status(verdict, refused->error), (enum reason)verdict->reason);

        refusal_close(&refusal, refusal_text(&refusal.text, refused->snapshot, refused->target, verdict, refused->error,
                                             refused->why));
        return refusal;
}

struct refusal refusal_of_bytes(unsigned status, enum reason reason, const char *what) {
        struct refusal refusal = refusal_make(status, reason);

        refusal_close(&refusal,
                      buf_printf(&refusal.text,
                                 "Bailey did not forward this request: %s.\n"
                                 "Sending the same bytes again will not help; the request itself must change.",
                                 what));
        return refusal;
}

static unsigned rest_status(enum reason reason) {
        if (reason == REASON_LIMIT)
                return 413;
        if (reason == REASON_PROTOCOL)
                return 400;

        return 403;
}

struct refusal refusal_of_rest(const struct refused *refused) {
        enum reason reason = refused->verdict->reason;
        struct refusal refusal = refusal_make(rest_status(reason), reason);

        refusal_close(&refusal, refusal_rest_text(&refusal.text, refused->target, reason, refused->why));
        return refusal;
}

void refusal_done(struct refusal *refusal) {
        buf_done(&refusal->text);
}

void refusal_head(struct refusal_head *head, enum reason reason, const char *type, size_t n) {
        int length = snprintf(head->length, sizeof head->length, "%zu", n);
        const struct refusal_header headers[REFUSAL_HEADERS] = {
                { STR("Content-Type"), STR("content-type"), str_of(type) },
                { STR("Content-Length"), STR("content-length"), str_n(head->length, (size_t)length) },
                { STR("Cache-Control"), STR("cache-control"), STR("no-store") },
                { STR("x-bailey-reason"), STR("x-bailey-reason"), str_of(reason_code(reason)) },
        };

        memcpy(head->at, headers, sizeof headers);
}
