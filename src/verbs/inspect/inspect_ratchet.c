/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/inspect/inspect_ratchet.h"

#include "base/cleanup.h"
#include "policy/judge/ratchet.h"

#include <stdlib.h>

enum { LINES_MAX = 8192 };

/* As if this rule had closed, and no other. */
static bool would_close(struct policy *policy, size_t number, const struct authority *target) {
        cleanup(free_ptr) void *bytes = NULL;
        cleanup(snapshot_closep) struct snapshot *snapshot = NULL;
        bool before = policy->ratchet.p[number].closed;
        size_t n = 0;
        int r;

        policy->ratchet.p[number].closed = true;
        r = policy_compile_network(policy, NULL, 0, &bytes, &n, NULL);
        policy->ratchet.p[number].closed = before;

        if (r < 0 || snapshot_open(bytes, n, &snapshot, NULL) < 0)
                return true;

        return verdict_target(snapshot, &target->host, target->port).reason == REASON_RATCHET;
}

static int put_line(struct buf *out, const struct ratchet_rule *rule, const char *what) {
        cleanup(buf_done) struct buf say = BUF(1024);

        ratchet_say(rule, &say);
        return buf_printf(out, "%s%s: %.*s (%s)", out->n ? "\n" : "", what, STR_FMT(buf_str(&say)), rule->origin);
}

int inspect_ratchets(struct policy *policy, const struct authority *target, struct inspect_verdict *ret) {
        cleanup(buf_done) struct buf out = BUF(LINES_MAX);
        uint32_t triggers = 0;
        int r = 0;

        if (policy->ratchet.n == 0)
                return 0;

        if (target)
                triggers = ratchet_of_host(policy, target);
        else
                triggers = ratchet_of_path(policy, ret->target);

        for (size_t i = 0; r == 0 && i < policy->ratchet.n; i++) {
                const struct ratchet_rule *rule = &policy->ratchet.p[i];

                if (triggers >> i & 1)
                        r = put_line(&out, rule,
                                     target ? "reaching it closes a ratchet" : "opening it closes a ratchet");
                if (r == 0 && target && ret->allowed && would_close(policy, i, target))
                        r = put_line(&out, rule,
                                     rule->ask ? "a person is asked about it once a ratchet has closed"
                                               : "it is refused once a ratchet has closed");
        }

        ret->ratchets = out.n ? str_dup(buf_str(&out)) : NULL;
        if (r < 0 || (out.n && !ret->ratchets))
                return -ENOMEM;

        return 0;
}
