/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/refusal.h"

#include <errno.h>

/* Written for a program that reads text: what happened, why, whether to try again, and what a person can do. Only
 * canonical names and the policy's own text appear here, never bytes that a client chose freely. */

static bool may_pass(const struct verdict *verdict) {
        return verdict->reason == REASON_UPSTREAM || verdict->reason == REASON_TIMEOUT ||
               verdict->reason == REASON_RESOLVE || verdict->reason == REASON_LIMIT ||
               verdict->reason == REASON_AUDIT || verdict->reason == REASON_VAULT;
}

/* A sentence. */
static const char *what_failed(const struct verdict *verdict, int error) {
        switch (verdict->reason) {
        case REASON_RESOLVE:
                return error == -ENOENT      ? "The name has no address."
                       : error == -ETIMEDOUT ? "No name server answered in time."
                       : error == -EBUSY     ? "Too many names are being looked up."
                                             : "The name servers could not resolve the name.";
        case REASON_TIMEOUT:
                return "It did not answer in time.";
        case REASON_UPSTREAM:
                return error == -ECONNREFUSED                            ? "It refused the connection."
                       : error == -EHOSTUNREACH || error == -ENETUNREACH ? "It cannot be reached."
                                                                         : "The connection to it failed.";
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

int refusal_text(struct buf *out, const struct snapshot *snapshot, const struct authority *target,
                 const struct verdict *verdict, int error, const char *why) {
        char where[AUTHORITY_TEXT_MAX] = "the destination";

        if (target)
                authority_text(target, where);

        if (may_pass(verdict)) {
                bool ours = verdict->reason == REASON_LIMIT || verdict->reason == REASON_AUDIT ||
                            verdict->reason == REASON_VAULT;
                return buf_printf(out, "bailey: cannot connect to %s. %s %s", where,
                                  why ? why : what_failed(verdict, error),
                                  ours ? "It may work later." : "Policy allows it; this is not a refusal.");
        }

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
        struct snapshot_rule rule;
        const char *reason = reason_text((enum reason)verdict->reason);
        bool detailed = why && verdict->reason >= REASON_GIT_REPOSITORY && verdict->reason <= REASON_SIGNING;

        if (verdict->reason == REASON_ASK && error == -EACCES)
                reason = "It was asked about, and the answer was no.";

        int r = buf_printf(out, "bailey: policy refused %s. %s", where, reason);
        if (r == 0 && detailed)
                r = buf_printf(out, " (%s)", why);
        if (r == 0 && verdict->reason == REASON_ADDRESS_CLASS)
                r = buf_printf(out, " It is a %s address.", addr_class_name((enum addr_class)verdict->class));
        if (r == 0 && snapshot_rule(snapshot, verdict->rule, &rule))
                r = buf_printf(out, " The rule is \"%.*s\" from %.*s.", STR_FMT(rule.text), STR_FMT(rule.origin));

        if (r == 0 && snapshot_rule(snapshot, verdict->rule, &rule) && rule.reason.n > 0)
                r = buf_printf(out, " Its reason: %.*s%s", STR_FMT(rule.reason),
                               str_ends(rule.reason, STR(".")) ? "" : ".");

        if (r == 0 && verdict->reason == REASON_ASK && error == -ETIMEDOUT)
                r = buf_add(out, " Nobody answered in time.");
        if (r == 0)
                r = buf_add(out, " Trying again will not help.");
        if (r == 0)
                r = how_to_allow(out, where, verdict);
        if (r < 0)
                out->n = before;

        return r;
}

int refusal_rest_text(struct buf *out, const struct authority *target, const char *why) {
        char where[AUTHORITY_TEXT_MAX];

        authority_text(target, where);
        return buf_printf(
            out,
            "bailey: the request to %s was cut off: %s. Its header, and what was read of its body, had been "
            "sent by then; its trailers were not. Trying again will not help.",
            where, why);
}

unsigned refusal_status(const struct verdict *verdict, int error) {
        switch (verdict->reason) {
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
