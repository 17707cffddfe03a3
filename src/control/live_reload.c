/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy that is read again while its sandbox runs: everything is read and checked first, then the parts that can
 * change in a running sandbox are replaced. Changes to the other parts are listed, so that nobody thinks they took
 * effect.
 */
#include "base/cleanup.h"
#include "control/live_internal.h"
#include "policy/apply.h"
#include "policy/load.h"
#include "policy/tools/own_commands.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

int live_keep_rules(const struct live *live, struct policy *policy, struct err *err) {
        int r = 0;

        for (size_t i = 0; live && r == 0 && i < live->live.n; i++) {
                const struct live_rule *rule = &live->live.p[i];
                if (!rule->remembered)
                        r = policy_apply(policy, rule->deny ? ROW_DENY : ROW_ALLOW, str_of(rule->pattern), rule->origin,
                                         "/", err);
        }

        return r;
}

int live_policy(struct live *live, struct err *err) {
        cleanup(monitor_done) struct monitor fresh = { 0 };
        int r = 0;

        if (live)
                r = monitor_init(&fresh, *live->parts.policy, err);

        if (r < 0 || !live)
                return r;

        struct monitor old = live->monitor;
        live->monitor = fresh;
        fresh = old;

        return 0;
}

static int reload_load(struct live *live, struct policy **ret, struct err *err) {
        struct policy_request request = { .command_line = live->parts.options,
                                          .workspace = live->parts.guest ? (*live->parts.policy)->workspace : NULL,
                                          .guest = live->parts.guest };
        cleanup(policy_freep) struct policy *p = NULL;

        if (live->parts.brings_policies)
                return err_set(err, EOPNOTSUPP, "the program that started this sandbox brings its policies itself");

        int r = policy_load(&request, &p, err);
        if (r < 0)
                return r;

        r = own_commands_check(p, environ, err);
        if (r < 0)
                return r;

        r = live_keep_rules(live, p, err);
        if (r < 0)
                return r;

        *ret = take_ptr(&p);
        return 0;
}

#define SWAP(a, b)                                                                                                     \
        do {                                                                                                           \
                __typeof__(a) swapped = (a);                                                                           \
                (a) = (b);                                                                                             \
                (b) = swapped;                                                                                         \
        } while (0)

/* Other parts of the run hold on to the files part of the policy: that one stays where it is. What is fixed at launch
 * stays too, so that the next reload compares with it, and so that the rules are compiled with it. Done twice, nothing
 * has changed. */
static void reload_exchange(struct live *live, struct policy *fresh, struct monitor *monitor) {
        struct policy *now = *live->parts.policy;

        SWAP(now->network, fresh->network);
        SWAP(now->network.publish, fresh->network.publish);
        SWAP(now->network.host_ports, fresh->network.host_ports);
        SWAP(now->network.upstream_proxy, fresh->network.upstream_proxy);
        SWAP(now->network.upstream_bypass, fresh->network.upstream_bypass);
        SWAP(now->network.dns_servers, fresh->network.dns_servers);
        SWAP(now->network.ca_key, fresh->network.ca_key);

        SWAP(now->git, fresh->git);
        SWAP(now->approval, fresh->approval);
        SWAP(now->monitor, fresh->monitor);
        SWAP(now->agents, fresh->agents);
        SWAP(now->agent, fresh->agent);
        SWAP(now->mode, fresh->mode);
        SWAP(live->monitor, *monitor);
}

static int reload_use(struct live *live, struct policy *fresh, struct err *err) {
        cleanup(monitor_done) struct monitor monitor = { 0 };
        cleanup(free_ptr) void *snapshot = NULL;
        const struct policy *now = *live->parts.policy;
        size_t n = 0;
        int r = monitor_init(&monitor, fresh, err);

        if (r < 0)
                return r;

        reload_exchange(live, fresh, &monitor);
        r = live_compile(live, now, &snapshot, &n, err);
        if (r == 0 && *live->parts.gateway) /* one that starts later takes the policy then */
                r = gateway_process_reload(*live->parts.gateway, now, snapshot, n, err);
        if (r < 0)
                reload_exchange(live, fresh, &monitor);

        return r;
}

int live_rules_reload(struct live *live, char ret_later[static LIVE_LATER_MAX], struct err *err) {
        cleanup(policy_freep) struct policy *fresh = NULL;
        cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);
        char later[LIVE_LATER_MAX] = "";
        struct err local = { 0 };
        int r;

        if (!err)
                err = &local;
        r = reload_load(live, &fresh, err);
        if (r == 0) {
                live_reload_later(live, fresh, later);
                r = reload_use(live, fresh, err);
        }

        snprintf(ret_later, LIVE_LATER_MAX, "%s", r == 0 ? later : "");
        if (r == 0)
                (void)audit_note(*live->parts.audit, "the policy was read again%s%s",
                                 later[0] ? "; for new commands only: " : "", later);
        else
                (void)audit_note(*live->parts.audit, "the policy stays as it was: %s", err_text(err));

        struct emit j = control_event_open(&out, "reload");
        emit_put_bool(&j, "ok", r == 0);
        emit_put_text(&j, "text", r == 0 ? "" : err_text(err));
        emit_put_text(&j, "later", ret_later);
        live_publish(live, &j);

        if (r < 0)
                return err_set(err, err->code ? err->code : -r, "%s; the policy stays as it was", err_text(err));

        return 0;
}
