/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The monitor counts a sandbox's refused attempts and reports when a rule of the policy (N within a time) is reached.
 * That rule then starts counting anew.
 */
#include "ipc/event.h"
#include "policy/policy.h"

enum monitor_action { MONITOR_NOTHING, MONITOR_WARN, MONITOR_PAUSE, MONITOR_KILL, MONITOR_ACTIONS };
const char *monitor_action_name(enum monitor_action action);

struct monitor_counter {
        uint32_t violations;
        uint64_t within_ns;
        enum monitor_action action;
        char *origin;
        uint64_t *times; /* a ring of the last `violations` ones; allocated with the first */
        uint32_t n, next;
};

struct monitor {
        VEC(struct monitor_counter) counters;
        uint64_t total;
};

/*
 * Takes the policy's rules, or none:
 * - a role (--agent) with monitorEnabled: false is not counted;
 * - a role with monitorEnabled: true and a policy without rules: MONITOR_DEFAULT_VIOLATIONS within a minute warn;
 * - autoKillOnThreat: whichever rule is reached, the sandbox is ended.
 */
#define MONITOR_DEFAULT_VIOLATIONS 20
#define MONITOR_DEFAULT_WITHIN_NS (60 * 1000000000ULL)
int monitor_init(struct monitor *monitor, const struct policy *policy, struct err *err);
void monitor_done(struct monitor *monitor);

/* Is this event something that policy refused? What failed for other reasons is no violation. */
bool monitor_is_violation(const struct event *ev);
/* One more. The strongest action whose rule is reached now, and that rule. */
enum monitor_action monitor_count(struct monitor *monitor, uint64_t now_ns, const struct monitor_counter **ret_rule);
