/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy that is read again while its sandbox runs: everything is read and checked first, then what can change in a
 * running sandbox is exchanged. What the launch settled stays, and is named: whoever changed it must not think that it
 * counts.
 */
#include "base/cleanup.h"
#include "control/live_internal.h"
#include "policy/apply.h"
#include "policy/load.h"
#include "policy/mappings.h"
#include "policy/own_commands.h"
#include "roles/gateway_config.h"
#include "roles/host_addresses.h"

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
        int r = live ? monitor_init(&fresh, *live->parts.policy, err) : 0;

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

/*
 * What the launch settled, and a reload cannot change any more.
 */
static bool same_text(const char *a, const char *b) {
        return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_texts(const origin_texts *a, const origin_texts *b) {
        for (size_t i = 0; i < a->n && i < b->n; i++)
                if (strcmp(a->p[i].text, b->p[i].text) != 0)
                        return false;
        return a->n == b->n;
}

static bool same_files(const struct policy *a, const struct policy *b) {
        return a->filesystem.reads_denied == b->filesystem.reads_denied &&
               a->filesystem.overlay == b->filesystem.overlay && same_text(a->workspace, b->workspace) &&
               same_texts(&a->filesystem.read, &b->filesystem.read) &&
               same_texts(&a->filesystem.write, &b->filesystem.write) &&
               same_texts(&a->filesystem.deny_read, &b->filesystem.deny_read) &&
               same_texts(&a->filesystem.deny_write, &b->filesystem.deny_write);
}

static bool same_ports(const struct policy *a, const struct policy *b) {
        const struct port_map *pa = a->network.publish.p, *pb = b->network.publish.p;
        const struct port_map *ha = a->network.host_ports.p, *hb = b->network.host_ports.p;
        bool same = a->network.publish.n == b->network.publish.n && a->network.host_ports.n == b->network.host_ports.n;
        for (size_t i = 0; same && i < a->network.publish.n; i++)
                same = pa[i].outside == pb[i].outside && pa[i].inside == pb[i].inside;

        for (size_t i = 0; same && i < a->network.host_ports.n; i++)
                same = ha[i].outside == hb[i].outside;

        return same;
}

static bool same_credentials(const struct policy *a, const struct policy *b) {
        cleanup(mappings_done) mappings now = { 0 }, then = { 0 };
        return mappings_of(a, &now, NULL) == 0 && mappings_of(b, &then, NULL) == 0 && mappings_equal(&now, &then);
}

static bool same_limits(const struct policy_limits *a, const struct policy_limits *b) {
        return a->processes == b->processes && a->memory == b->memory && a->files == b->files &&
               a->cpu_seconds == b->cpu_seconds && a->cpu_percent == b->cpu_percent && a->temporary == b->temporary;
}

/* The settings that differ and count only for commands that begin later, separated by commas. */
static void note_later(const struct live *live, const struct policy *fresh, char ret[static LIVE_LATER_MAX]) {
        const struct policy *now = *live->parts.policy;
        const struct {
                const char *key;
                bool same;
        } settled[] = {
                { "mode", live->launched == fresh->mode }, /* its rules for hosts count, its files do not */
                { "filesystem", same_files(now, fresh) },
                { "process.limits", same_limits(&now->process.limits, &fresh->process.limits) },
                { "process.timeout", now->process.timeout_ns == fresh->process.timeout_ns },
                { "process.env", same_texts(&now->process.env_pass, &fresh->process.env_pass) &&
                                     same_texts(&now->process.env_set, &fresh->process.env_set) },
                { "network.publish", same_ports(now, fresh) },
                { "network.upstream_proxy", gateway_config_equal(now, fresh) },
                { "credentials", same_credentials(now, fresh) },
        };

        ret[0] = '\0';

        for (size_t i = 0; i < sizeof settled / sizeof *settled; i++)
                if (!settled[i].same) {
                        size_t n = strlen(ret);
                        snprintf(ret + n, LIVE_LATER_MAX - n, "%s%s", n ? ", " : "", settled[i].key);
                }
}

/* Other parts of the run hold on to the files part of the policy: that one stays where it is. */
static void reload_exchange(struct live *c, struct policy *fresh, struct monitor *monitor) {
        struct policy *p = *c->parts.policy;
        SWAP(p->network, fresh->network);
        SWAP(p->approval, fresh->approval);
        SWAP(p->monitor, fresh->monitor);
        SWAP(p->agents, fresh->agents);
        SWAP(p->mode, fresh->mode);
        SWAP(c->monitor, *monitor);
}

int live_rules_reload(struct live *live, char ret_later[static LIVE_LATER_MAX], struct err *err) {
        cleanup(policy_freep) struct policy *fresh = NULL;
        cleanup(monitor_done) struct monitor monitor = { 0 };
        cleanup(free_ptr) void *snapshot = NULL;
        cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);
        size_t n = 0;
        struct err local = { 0 };

        err = err ? err : &local;
        int r = reload_load(live, &fresh, err);
        if (r == 0)
                r = monitor_init(&monitor, fresh, err);
        if (r == 0)
                r = live_compile(live, fresh, &snapshot, &n, err);
        if (r == 0 && *live->parts.gateway) /* one that starts later takes the policy then */
                r = gateway_process_reload(*live->parts.gateway, fresh, snapshot, n, err);

        ret_later[0] = '\0';

        if (r == 0) {
                note_later(live, fresh, ret_later);
                reload_exchange(live, fresh, &monitor);
                (void)audit_note(*live->parts.audit, "the policy was read again%s%s",
                                 ret_later[0] ? "; for new commands only: " : "", ret_later);
        } else
                (void)audit_note(*live->parts.audit, "the policy stays as it was: %s", err_text(err));

        struct emit j = control_event_open(&out, "reload");
        emit_put_bool(&j, "ok", r == 0);
        emit_put_text(&j, "text", r == 0 ? "" : err_text(err));
        emit_put_text(&j, "later", r == 0 ? ret_later : "");
        live_publish(live, &j);

        return r < 0 ? err_set(err, err->code ? err->code : -r, "%s; the policy stays as it was", err_text(err)) : 0;
}
