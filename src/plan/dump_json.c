/* SPDX-License-Identifier: Apache-2.0 */
/* The plan for programs. The plan for people is in dump.c. */
#include "base/emit.h"
#include "plan/dump.h"
#include "plan/dump_internal.h"
#include "plan/landlock.h"

#include <assert.h>
#include <linux/filter.h>

/* Left out where there is none. */
static void json_text(struct emit *json, const char *name, const char *value) {
        if (value)
                emit_put_text(json, name, value);
}

static void json_open(struct emit *json, const char *name, char bracket) {
        emit_key(json, name);
        emit_open(json, bracket);
}

static void json_words(struct emit *json, const char *name, const char *const *words, size_t n) {
        json_open(json, name, '[');
        for (size_t i = 0; i < n; i++)
                emit_text(json, words[i]);
        emit_close(json);
}

static void json_names(struct emit *json, const char *key, const struct dump_name *names, uint64_t mask) {
        json_open(json, key, '[');
        for (; names->name; names++)
                if (mask & names->value)
                        emit_text(json, names->name);
        emit_close(json);
}

static void json_op(struct emit *json, const struct plan_op *op) {
        emit_open(json, '{');
        json_text(json, "op", plan_op_name(op->kind));
        if (op->slot != PLAN_ROOT)
                emit_put_number(json, "slot", op->slot);
        if (op->at != PLAN_ROOT)
                emit_put_number(json, "at", op->at);

        json_text(json, "source", op->source);
        json_text(json, "target", op->target);
        json_text(json, "data", op->data);
        emit_put_number(json, "mode", op->mode);

        if (op->attr_set)
                json_names(json, "attributes", dump_attributes, op->attr_set);

        emit_close(json);
}

static void json_landlock(struct emit *json, const struct plan *plan) {
        const char *name;

        json_open(json, "landlock", '{');
        emit_put_number(json, "abi", plan->landlock.abi);
        emit_put_number(json, "scoped", plan->landlock.scoped);
        json_open(json, "rules", '[');

        for (size_t i = 0; i < plan->landlock.rules.n; i++) {
                emit_open(json, '{');
                json_text(json, "path", plan->landlock.rules.p[i].path);
                json_open(json, "access", '[');
                for (uint64_t mask = plan->landlock.rules.p[i].access; (name = landlock_fs_name(&mask));)
                        emit_text(json, name);
                emit_close(json);
                emit_close(json);
        }

        emit_close(json);
        json_open(json, "ports", '[');

        for (size_t i = 0; i < plan->landlock.ports.n; i++)
                emit_number(json, plan->landlock.ports.p[i].port);

        emit_close(json);
        emit_close(json);
}

static void json_network(struct emit *json, const struct plan *plan) {
        json_open(json, "network", '{');
        json_text(json, "capture", dump_is_captured(plan) ? "all" : "none");
        json_open(json, "listeners", '[');

        for (size_t i = 0; i < plan->listeners.n; i++) {
                const struct plan_listener *listener = &plan->listeners.p[i];

                emit_open(json, '{');
                json_text(json, "kind", plan_listener_name(listener->kind));

                if (listener->kind == PLAN_LISTENER_BRIDGE) {
                        json_text(json, "path", PLAN_BRIDGE_SOCKET);
                } else if (plan_listener_path(listener->kind)) {
                        json_text(json, "path", plan_listener_path(listener->kind));
                } else if (listener->kind == PLAN_LISTENER_CALLBACK) {
                        json_text(json, "address", listener->v6 ? "::1" : "127.0.0.1");
                } else if (listener->kind != PLAN_LISTENER_PACKETS) {
                        json_text(json, "address", listener->v6 ? "::1" : "127.0.0.1");
                        emit_put_number(json, "port", listener->port);
                }

                if (listener->forward_port)
                        emit_put_number(json, "host_port", listener->forward_port);

                emit_close(json);
        }

        emit_close(json);
        json_open(json, "publish", '[');

        for (size_t i = 0; i < plan->publish.n; i++) {
                emit_open(json, '{');
                json_text(json, "address", plan->publish.p[i].address);
                emit_put_number(json, "port", plan->publish.p[i].outside);
                emit_put_number(json, "inside", plan->publish.p[i].inside);
                emit_close(json);
        }

        emit_close(json);
        emit_close(json);
}

static void json_guards(struct emit *json, const struct plan *plan) {
        static const char *const kinds[] = {
                [PLAN_GUARD_MISSING] = "missing",
                [PLAN_GUARD_LINK] = "link",
                [PLAN_GUARD_FILE] = "file",
                [PLAN_GUARD_DIR] = "directory",
        };
        static_assert(sizeof kinds / sizeof *kinds == PLAN_GUARD_KINDS, "one name per kind");

        json_open(json, "guards", '[');

        for (size_t i = 0; i < plan->guards.n; i++)
                if (plan->guards.p[i].kind == PLAN_GUARD_MISSING)
                        emit_text(json, plan->guards.p[i].path);

        emit_close(json);

        emit_put_bool(json, "repositories_searched", !plan->git_incomplete);
        json_open(json, "protected", '[');

        for (size_t i = 0; i < plan->guards.n; i++) {
                const struct plan_guard *guard = &plan->guards.p[i];

                emit_open(json, '{');
                json_text(json, "path", guard->path);
                json_text(json, "kind", kinds[guard->kind]);
                json_text(json, "why", guard->why);
                json_text(json, "root", guard->root);
                emit_close(json);
        }

        emit_close(json);
}

/* Tools of the host, and their calls that a person must agree to. */
static void json_bridge(struct emit *json, const struct policy *policy) {
        if (!policy || policy->bridge.n == 0)
                return;

        json_open(json, "bridge", '[');

        for (size_t i = 0; i < policy->bridge.n; i++) {
                const struct bridge_tool *tool = &policy->bridge.p[i];

                emit_open(json, '{');
                json_text(json, "tool", tool->name);
                json_open(json, "ask", '[');

                for (size_t k = 0; k < tool->ask.n; k++)
                        emit_text(json, tool->ask.p[k].text);

                emit_close(json);
                emit_close(json);
        }

        emit_close(json);
}

static const char *sockets_judge(const struct plan *plan) {
        if (!plan->namespaces)
                return "none";
        if (plan->flags & PLAN_SOCKETS)
                return "broker";

        return "landlock";
}

static void json_files(struct emit *json, const struct plan *plan) {
        json_open(json, "files", '[');
        for (size_t i = 0; i < plan->ops.n; i++)
                json_op(json, &plan->ops.p[i]);
        emit_close(json);

        json_guards(json, plan);
}

/* Paths that are judged when the command reaches them. */
static void json_judged(struct emit *json, const struct plan *plan) {
        json_open(json, "judged", '[');

        for (size_t i = 0; i < plan->path_rules.n; i++)
                if (dump_is_judged(&plan->path_rules.p[i]))
                        emit_text(json, plan->path_rules.p[i].pattern);

        emit_close(json);

        if (plan->marks.n) {
                json_open(json, "ratchet_reads", '[');

                for (size_t i = 0; i < plan->marks.n; i++)
                        emit_text(json, plan->marks.p[i].pattern);

                emit_close(json);
        }

        if (plan->asks.n)
                json_words(json, "asks", plan->asks.p, plan->asks.n);
}

static const char *group_name(const struct plan *plan) {
        bool limited = plan->group.memory || plan->group.processes || plan->group.cpu_percent;
        if (!limited)
                return "none";

        if (plan->flags & PLAN_SCOPE)
                return "systemd-scope";

        return "cgroup";
}

static void json_limits(struct emit *json, const struct plan *plan) {
        json_open(json, "limits", '{');
        for (size_t i = 0; i < plan->limits.n; i++)
                emit_put_number(json, dump_limit_name(plan->limits.p[i].resource), plan->limits.p[i].value);
        emit_close(json);

        json_open(json, "limits_together", '{');
        emit_put_number(json, "memory", plan->group.memory);
        emit_put_number(json, "processes", plan->group.processes);
        emit_put_number(json, "cpu_percent", plan->group.cpu_percent);
        json_text(json, "by", group_name(plan));
        emit_close(json);
}

int plan_dump_json(const struct plan *plan, const struct policy *policy, struct buf *out) {
        struct emit json = { .out = out, .spaced = true };

        emit_open(&json, '{');
        json_words(&json, "command", plan->argv.p, plan->argv.n);
        json_text(&json, "directory", plan->cwd);
        json_names(&json, "namespaces", dump_namespaces, plan->namespaces);
        emit_put_number(&json, "uid", plan->uid);
        emit_put_number(&json, "gid", plan->gid);

        json_files(&json, plan);
        json_judged(&json, plan);

        json_open(&json, "unix_sockets", '{');
        json_text(&json, "judged_by", sockets_judge(plan));
        json_words(&json, "host", plan->sockets.p, plan->sockets.n);
        emit_close(&json);

        json_landlock(&json, plan);
        json_network(&json, plan);
        emit_put_number(&json, "filter_instructions", plan->seccomp.n / sizeof(struct sock_filter));
        json_limits(&json, plan);
        json_words(&json, "environment", plan->env.p, plan->env.n);
        json_words(&json, "notes", plan->notes.p, plan->notes.n);
        json_bridge(&json, policy);
        emit_close(&json);

        int r = emit_status(&json);
        if (r < 0)
                return r;

        return buf_add_char(out, '\n');
}
