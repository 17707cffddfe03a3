/* SPDX-License-Identifier: Apache-2.0 */
#include "control/monitor.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static const char *const action_names[] = { "nothing", "warn", "pause", "kill" };
static_assert(sizeof action_names / sizeof *action_names == MONITOR_ACTIONS, "one name per action");

const char *monitor_action_name(enum monitor_action action) {
        return (unsigned)action < MONITOR_ACTIONS ? action_names[action] : "?";
}

static enum monitor_action action_of(const char *name) {
        for (unsigned i = MONITOR_WARN; i < MONITOR_ACTIONS; i++)
                if (strcmp(name, action_names[i]) == 0)
                        return (enum monitor_action)i;
        return MONITOR_KILL; /* the policy's reader knows no other; the strictest is the safe reading */
}

static const struct agent_role *role_of(const struct policy *policy) {
        for (size_t i = policy->agents.n; policy->agent && i-- > 0;)
                if (strcmp(policy->agents.p[i].name, policy->agent) == 0)
                        return &policy->agents.p[i];
        return NULL;
}

static int monitor_add(struct monitor *monitor, uint32_t violations, uint64_t within_ns, enum monitor_action action,
                       const char *origin, struct err *err) {
        struct monitor_counter c = {
                .violations = violations, .within_ns = within_ns, .action = action, .origin = str_dup(str_of(origin))
        };
        if (!c.origin || vec_push(&monitor->counters, c) < 0) {
                free(c.origin);
                return err_memory(err);
        }

        return 0;
}

int monitor_init(struct monitor *monitor, const struct policy *policy, struct err *err) {
        const struct agent_role *role = role_of(policy);
        int r = 0;

        *monitor = (struct monitor){ 0 };
        if (role && !role->monitor_enabled && !role->auto_kill_on_threat)
                return 0;

        bool kills = role && role->auto_kill_on_threat;

        for (size_t i = 0; r == 0 && i < policy->monitor.n; i++) {
                const struct monitor_rule *rule = &policy->monitor.p[i];
                r = monitor_add(monitor, rule->violations, rule->within_ns,
                                kills ? MONITOR_KILL : action_of(rule->action), rule->origin, err);
        }

        if (r == 0 && role && policy->monitor.n == 0)
                r = monitor_add(monitor, MONITOR_DEFAULT_VIOLATIONS, MONITOR_DEFAULT_WITHIN_NS,
                                kills ? MONITOR_KILL : MONITOR_WARN, role->origin, err);

        if (r < 0)
                monitor_done(monitor);

        return r;
}

void monitor_done(struct monitor *monitor) {
        for (size_t i = 0; i < monitor->counters.n; i++) {
                free(monitor->counters.p[i].origin);
                free(monitor->counters.p[i].times);
        }
        vec_done(&monitor->counters);
}

bool monitor_is_violation(const struct event *ev) {
        if (ev->allowed || ev->kind == EVENT_NOTE || ev->kind == EVENT_COMMAND || ev->kind == EVENT_RATCHET ||
            ev->kind == EVENT_TUNNEL_CLOSE)
                return false;

        switch ((enum reason)ev->reason) {
        case REASON_RESOLVE:
        case REASON_LIMIT:
        case REASON_AUDIT:
        case REASON_UPSTREAM:
        case REASON_TIMEOUT:
                return false;
        default:
                return true;
        }
}

/* The ring is full and its oldest entry is young enough: reached. */
static bool monitor_reached(struct monitor_counter *counter, uint64_t now_ns) {
        if (!counter->times)
                counter->times = calloc(counter->violations, sizeof *counter->times);
        if (!counter->times)
                return true; /* what cannot be counted is not let go on */

        counter->times[counter->next] = now_ns;
        counter->next = (counter->next + 1) % counter->violations;
        if (counter->n < counter->violations)
                counter->n++;
        if (counter->n < counter->violations || now_ns - counter->times[counter->next] > counter->within_ns)
                return false;

        counter->n = counter->next = 0;
        return true;
}

enum monitor_action monitor_count(struct monitor *monitor, uint64_t now_ns, const struct monitor_counter **ret_rule) {
        enum monitor_action strongest = MONITOR_NOTHING;

        monitor->total++;

        for (size_t i = 0; i < monitor->counters.n; i++) {
                struct monitor_counter *counter = &monitor->counters.p[i];
                if (monitor_reached(counter, now_ns) && counter->action > strongest) {
                        strongest = counter->action;
                        *ret_rule = counter;
                }
        }

        return strongest;
}
