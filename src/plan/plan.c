/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan.h"

#include "base/paths/path.h"

#include <assert.h>
#include <stdio.h>

char *plan_copy(struct plan *plan, struct str s) {
        return (char *)(uintptr_t)arena_copy(&plan->texts, s).p;
}

char *plan_format(struct plan *plan, const char *format, ...) {
        va_list args, again;

        va_start(args, format);
        va_copy(again, args);
        int n = vsnprintf(NULL, 0, format, args);
        char *text = n < 0 ? NULL : arena_text(&plan->texts, (size_t)n + 1);
        if (text)
                vsnprintf(text, (size_t)n + 1, format, again);

        va_end(again);
        va_end(args);

        return text;
}

struct plan *plan_new(void) {
        struct plan *plan = calloc(1, sizeof *plan);

        if (plan)
                plan->texts = ARENA_UNLIMITED;
        return plan;
}

void plan_free(struct plan *plan) {
        if (!plan)
                return;

        vec_done(&plan->ops);
        vec_done(&plan->landlock.rules);
        vec_done(&plan->landlock.ports);
        vec_done(&plan->listeners);
        vec_done(&plan->publish);
        vec_done(&plan->limits);
        vec_done(&plan->guards);
        vec_done(&plan->path_rules);
        vec_done(&plan->marks);
        vec_done(&plan->asks);
        vec_done(&plan->sockets);
        vec_done(&plan->openings);
        vec_done(&plan->copies);
        vec_done(&plan->notes);
        vec_done(&plan->argv);
        vec_done(&plan->env);
        arena_done(&plan->texts);
        free(plan);
}

void plan_freep(struct plan **plan) {
        plan_free(*plan);
}

static const char *const op_names[] = {
        [PLAN_OP_CLONE] = "clone", [PLAN_OP_NEW_FS] = "new", [PLAN_OP_SETATTR] = "setattr", [PLAN_OP_ATTACH] = "attach",
        [PLAN_OP_MKDIR] = "mkdir", [PLAN_OP_FILE] = "file",  [PLAN_OP_SYMLINK] = "symlink", [PLAN_OP_PIVOT] = "pivot",
};
static_assert(sizeof op_names / sizeof *op_names == PLAN_OPS, "a name for every operation");

const char *plan_op_name(enum plan_op_kind kind) {
        return kind < PLAN_OPS ? op_names[kind] : "?";
}

static const char *const listener_names[] = {
        [PLAN_LISTENER_HTTP] = "http",         [PLAN_LISTENER_SOCKS5] = "socks5",
        [PLAN_LISTENER_DNS_UDP] = "dns-udp",   [PLAN_LISTENER_DNS_TCP] = "dns-tcp",
        [PLAN_LISTENER_TRANSPARENT] = "tcp",   [PLAN_LISTENER_HOST_PORT] = "host-port",
        [PLAN_LISTENER_API] = "api",           [PLAN_LISTENER_PACKETS] = "packets",
        [PLAN_LISTENER_SHIM] = "ssh",          [PLAN_LISTENER_AGENT] = "ssh-agent",
        [PLAN_LISTENER_CALLBACK] = "callback", [PLAN_LISTENER_BRIDGE] = "bridge",
};
static_assert(sizeof listener_names / sizeof *listener_names == PLAN_LISTENER_KINDS, "a name for every listener");

const char *plan_listener_name(enum plan_listener_kind kind) {
        return kind < PLAN_LISTENER_KINDS ? listener_names[kind] : "?";
}

bool plan_has_programs(const struct plan *plan) {
        for (size_t i = 0; i < plan->listeners.n; i++)
                if (plan->listeners.p[i].kind == PLAN_LISTENER_BRIDGE ||
                    plan->listeners.p[i].kind == PLAN_LISTENER_SHIM)
                        return true;
        return false;
}

bool plan_is_program(const char *path) {
        return path_is_within(path, PLAN_BRIDGE_PLACE) || path_is_within(path, PLAN_SHIM_PLACE);
}

const char *plan_listener_path(enum plan_listener_kind kind) {
        if (kind == PLAN_LISTENER_SHIM)
                return PLAN_SHIM_SOCKET;
        if (kind == PLAN_LISTENER_AGENT)
                return PLAN_AGENT_SOCKET;

        return NULL;
}
