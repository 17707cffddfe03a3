/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/role.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <sys/wait.h>

static const char *const state_names[] = {
        [ROLE_IDLE] = "idle",       [ROLE_STARTING] = "starting", [ROLE_SERVING] = "serving",
        [ROLE_WAITING] = "waiting", [ROLE_STOPPING] = "stopping", [ROLE_STOPPED] = "stopped",
};
static_assert(sizeof state_names / sizeof *state_names == ROLE_STATES, "a name for each state");

const char *role_state_name(enum role_state state) {
        return (unsigned)state < ROLE_STATES ? state_names[state] : "?";
}

void role_set(struct role *role, enum role_state state, uint64_t limit_ms) {
        log_debug("%s: %s -> %s", role->name, role_state_name(role->state), role_state_name(state));
        role->state = state;
        if (limit_ms)
                role->due_ns = clock_after_ms(limit_ms);
        else
                role->due_ns = CLOCK_NEVER;
}

void role_started(struct role *role, const struct helper *process, int control, uint64_t limit_ms) {
        role->pid = process->pid;
        role->pidfd = process->pidfd;
        role->control = control;
        role->condemned = false;
        role->started_ns = clock_ns();
        role_set(role, ROLE_STARTING, limit_ms);
}

void role_delay(struct role *role) {
        if (clock_ns() - role->started_ns > ROLE_STEADY_MS * NS_PER_MS)
                role->delay_ms = 0;

        role->delay_ms = role->delay_ms ? role->delay_ms * 2 : ROLE_DELAY_FIRST_MS;
        if (role->delay_ms > ROLE_DELAY_MOST_MS)
                role->delay_ms = ROLE_DELAY_MOST_MS;

        role_set(role, ROLE_WAITING, role->delay_ms);
}

void role_kill(struct role *role) {
        if (role->pid)
                helper_kill(role->pidfd, role->pid);
}

bool role_reap(struct role *role, char ret_how[static ROLE_END_TEXT_MAX]) {
        siginfo_t info = { 0 };

        if (!role->pid || waitid(P_PID, (id_t)role->pid, &info, WEXITED | WNOHANG) < 0 || info.si_pid != role->pid)
                return false;

        role->pid = 0;
        helper_describe_end(&info, ret_how, ROLE_END_TEXT_MAX);
        return true;
}

void role_forget(struct role *role) {
        close_fd(&role->control);
        close_fd(&role->pidfd);
        role->pid = 0;
}

void role_end(struct role *role) {
        siginfo_t info;

        if (role->pid) {
                role_kill(role);
                while (waitid(P_PID, (id_t)role->pid, &info, WEXITED) < 0 && errno == EINTR)
                        ;
        }

        role_forget(role);
}

void role_watch(const struct role *role, struct poller *poller) {
        poller_watch(poller, role->pidfd, POLLIN);
        poller_watch(poller, role->control, POLLIN);
        poller_until(poller, role->due_ns);
}

bool role_is_due(const struct role *role) {
        return role->due_ns <= clock_ns();
}
