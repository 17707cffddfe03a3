/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/dump.h"

#include "base/escape.h"
#include "plan/dump_internal.h"
#include "plan/landlock.h"
#include "policy/match/glob.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

const struct dump_name dump_namespaces[] = {
        { CLONE_NEWUSER, "user" }, { CLONE_NEWNS, "mount" }, { CLONE_NEWPID, "pid" },       { CLONE_NEWNET, "net" },
        { CLONE_NEWIPC, "ipc" },   { CLONE_NEWUTS, "uts" },  { CLONE_NEWCGROUP, "cgroup" }, { 0, NULL },
};
const struct dump_name dump_attributes[] = {
        { MOUNT_ATTR_RDONLY, "ro" },
        { MOUNT_ATTR_NOSUID, "nosuid" },
        { MOUNT_ATTR_NODEV, "nodev" },
        { MOUNT_ATTR_NOEXEC, "noexec" },
        { 0, NULL },
};
static const struct dump_name limits[] = {
        { RLIMIT_NPROC, "processes" }, { RLIMIT_DATA, "memory" }, { RLIMIT_NOFILE, "files" },
        { RLIMIT_CPU, "cpu-seconds" }, { RLIMIT_CORE, "core" },   { 0, NULL },
};

/* The state of one dump as text. */
struct dump {
        struct buf *out;
        int error;
};

static void dump_put(struct dump *dump, const char *text) {
        if (!dump->error)
                dump->error = buf_add(dump->out, text);
}

static void put_value(struct dump *dump, const char *text) {
        if (!dump->error)
                dump->error = escape_text(dump->out, str_of(text), 4096);
}

static void put_number(struct dump *dump, uint64_t n) {
        if (!dump->error)
                dump->error = buf_printf(dump->out, "%llu", (unsigned long long)n);
}

/* One of several names that stand in a row, without spaces. */
static void put_name(struct dump *dump, const char *name, bool first) {
        dump_put(dump, first ? "" : ",");
        dump_put(dump, name);
}

static void put_names(struct dump *dump, const struct dump_name *names, uint64_t mask) {
        bool first = true;

        for (; names->name; names++)
                if (mask & names->value) {
                        put_name(dump, names->name, first);
                        first = false;
                }
}

static void put_landlock(struct dump *dump, uint64_t mask) {
        const char *name;

        for (bool first = true; (name = landlock_fs_name(&mask)); first = false)
                put_name(dump, name, first);
}

const char *dump_limit_name(uint32_t resource) {
        for (const struct dump_name *name = limits; name->name; name++)
                if (name->value == resource)
                        return name->name;
        return "?";
}

/* Text. */

static void text_place(struct dump *dump, uint16_t at, const char *path) {
        if (at != PLAN_ROOT) {
                dump_put(dump, "#");
                put_number(dump, at);
                dump_put(dump, ":");
        }
        put_value(dump, text_or(path, ""));
}

static void text_op(struct dump *dump, const struct plan_op *op) {
        dump_put(dump, "  ");
        dump_put(dump, plan_op_name(op->kind));
        dump_put(dump, " ");

        switch (op->kind) {
        case PLAN_OP_CLONE:
                text_place(dump, op->at, op->source);
                dump_put(dump, op->mode & PLAN_CLONE_TREE ? " (tree)" : "");
                dump_put(dump, op->mode & PLAN_CLONE_LINK ? " (link)" : "");
                dump_put(dump, " -> #");
                put_number(dump, op->slot);
                break;
        case PLAN_OP_NEW_FS:
                dump_put(dump, op->mode & PLAN_NEW_FS_MAYBE ? "if possible " : "");
                put_value(dump, op->source);
                dump_put(dump, " ");
                put_names(dump, dump_attributes, op->attr_set);

                if (op->data) {
                        dump_put(dump, " ");
                        put_value(dump, op->data);
                }

                dump_put(dump, " -> #");
                put_number(dump, op->slot);
                break;
        case PLAN_OP_SETATTR:
                if (op->slot == PLAN_ROOT) {
                        text_place(dump, op->at, op->target);
                } else {
                        dump_put(dump, "#");
                        put_number(dump, op->slot);
                }
                dump_put(dump, op->mode ? " (tree) " : " ");
                put_names(dump, dump_attributes, op->attr_set);
                break;
        case PLAN_OP_ATTACH:
                dump_put(dump, "#");
                put_number(dump, op->slot);
                dump_put(dump, op->mode & PLAN_ATTACH_MAYBE ? " over " : " at ");
                text_place(dump, op->at, op->target);
                break;
        case PLAN_OP_SYMLINK:
                text_place(dump, op->at, op->target);
                dump_put(dump, " -> ");
                put_value(dump, op->source);
                break;
        default:
                text_place(dump, op->at, op->target);

                if (op->kind != PLAN_OP_PIVOT && !dump->error)
                        dump->error = buf_printf(dump->out, " %04o", op->mode);
        }

        dump_put(dump, "\n");
}

static void text_words(struct dump *dump, const char *const *words, size_t n) {
        for (size_t i = 0; i < n; i++) {
                dump_put(dump, i ? " " : "");
                if (!dump->error)
                        dump->error = escape_shell(dump->out, str_of(words[i]));
        }
        dump_put(dump, "\n");
}

static void text_landlock(struct dump *dump, const struct plan *plan) {
        if (!plan->landlock.abi) {
                dump_put(dump, "landlock: none\n");
                return;
        }

        dump_put(dump, "landlock: ABI ");
        put_number(dump, plan->landlock.abi);
        dump_put(dump, plan->landlock.scoped ? ", signals and abstract sockets stay inside\n" : "\n");

        for (size_t i = 0; i < plan->landlock.rules.n; i++) {
                dump_put(dump, "  ");
                put_value(dump, plan->landlock.rules.p[i].path);
                dump_put(dump, " ");
                put_landlock(dump, plan->landlock.rules.p[i].access);
                dump_put(dump, "\n");
        }

        for (size_t i = 0; i < plan->landlock.ports.n; i++) {
                dump_put(dump, "  TCP port ");
                put_number(dump, plan->landlock.ports.p[i].port);
                dump_put(dump,
                         plan->landlock.ports.p[i].access & LANDLOCK_NET_BIND_TCP ? " bind,connect\n" : " connect\n");
        }
}

/* Only a network that is captured has listeners besides the one for packets. */
bool dump_is_captured(const struct plan *plan) {
        for (size_t i = 0; i < plan->listeners.n; i++)
                if (plan->listeners.p[i].kind == PLAN_LISTENER_TRANSPARENT)
                        return true;
        return false;
}

static const char *network_text(const struct plan *plan) {
        if (dump_is_captured(plan))
                return "captured: every TCP connection and DNS query; the rest is refused, and recorded\n";
        if (plan->namespaces & CLONE_NEWNET)
                return "none: what is tried is refused, and recorded\n";
        return "shared with the host, TCP limited to the ports above\n";
}

static void text_network(struct dump *dump, const struct plan *plan) {
        dump_put(dump, "network: ");
        dump_put(dump, network_text(plan));

        for (size_t i = 0; i < plan->listeners.n; i++) {
                const struct plan_listener *listener = &plan->listeners.p[i];
                if (listener->kind == PLAN_LISTENER_PACKETS) {
                        dump_put(dump, "  listen for refused packets\n");
                        continue;
                }

                if (plan_listener_path(listener->kind)) {
                        if (!dump->error)
                                dump->error =
                                    buf_printf(dump->out, "  listen %s %s\n", plan_listener_name(listener->kind),
                                               plan_listener_path(listener->kind));
                        continue;
                }

                if (listener->kind == PLAN_LISTENER_CALLBACK) {
                        dump_put(dump, listener->v6 ? "" : "  carry callbacks of sign-ins to ports inside, one each\n");
                        continue;
                }

                if (listener->kind == PLAN_LISTENER_BRIDGE) {
                        dump_put(dump, "  listen for calls of tools at " PLAN_BRIDGE_SOCKET "\n");
                        continue;
                }

                if (!dump->error)
                        dump->error = buf_printf(dump->out, "  listen %s %s:%u", plan_listener_name(listener->kind),
                                                 listener->v6 ? "[::1]" : "127.0.0.1", listener->port);

                if (listener->forward_port && !dump->error)
                        dump->error = buf_printf(dump->out, " for the host's port %u", listener->forward_port);

                dump_put(dump, "\n");
        }

        for (size_t i = 0; i < plan->publish.n; i++) {
                dump_put(dump, "  publish ");
                put_value(dump, plan->publish.p[i].address);

                if (!dump->error)
                        dump->error = buf_printf(dump->out, ":%u for the sandbox's port %u\n",
                                                 plan->publish.p[i].outside, plan->publish.p[i].inside);
        }
}

/* Of the broker's rules, those that it enforces itself. */
bool dump_is_judged(const struct plan_path_rule *rule) {
        return !rule->grants && (rule->late || glob_has_magic(str_of(rule->pattern)));
}

static void text_changes(struct dump *dump, const struct plan *plan) {
        if (plan->flags & PLAN_WRITES)
                dump_put(dump, "changes of files: each is judged by what is there then\n");
        for (size_t i = 0; i < plan->openings.n; i++) {
                dump_put(dump, "  writable below what is closed: ");
                put_value(dump, plan->openings.p[i]);
                dump_put(dump, "\n");
        }
}

static void text_sockets(struct dump *dump, const struct plan *plan) {
        if (plan->namespaces)
                dump_put(
                    dump,
                    plan->flags & PLAN_SOCKETS
                        ? "unix sockets: the sandbox's own, each connect() and each datagram's receiver is judged\n"
                        : "unix sockets: the sandbox's own, by Landlock\n");

        for (size_t i = 0; i < plan->sockets.n; i++) {
                dump_put(dump, "  and of the host: ");
                put_value(dump, plan->sockets.p[i]);
                dump_put(dump, "\n");
        }
}

static const char *group_way(const struct plan *plan) {
        return plan->flags & PLAN_SCOPE ? "systemd scope, asked for at launch" : "cgroup v2";
}

static void text_group(struct dump *dump, const struct plan *plan) {
        const struct dump_name parts[] = { { plan->group.memory, "memory" },
                                           { plan->group.processes, "processes" },
                                           { plan->group.cpu_percent, "cpu-percent" } };
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
                if (parts[i].value && !dump->error)
                        dump->error = buf_printf(dump->out, "  together: %s %llu (%s)\n", parts[i].name,
                                                 (unsigned long long)parts[i].value, group_way(plan));
}

/* What exists is among the mounts above. */
static void text_guards(struct dump *dump, const struct plan *plan) {
        for (size_t i = 0; i < plan->guards.n; i++) {
                const struct plan_guard *guard = &plan->guards.p[i];

                if (guard->kind != PLAN_GUARD_MISSING && guard->kind != PLAN_GUARD_LINK)
                        continue;

                dump_put(dump, guard->kind == PLAN_GUARD_LINK ? "  put back if it changes: "
                                                              : "  moved aside if it appears: ");
                put_value(dump, guard->path);
                dump_put(dump, "\n");
        }

        if (plan->git_incomplete)
                dump_put(
                    dump,
                    "  not all directories were searched for repositories: those further down are not protected\n");
}

static void text_line(struct dump *dump, const char *before, const char *value) {
        dump_put(dump, before);
        put_value(dump, value);
        dump_put(dump, "\n");
}

/* Paths that are judged when the command reaches them. */
static void text_judged(struct dump *dump, const struct plan *plan) {
        for (size_t i = 0; i < plan->path_rules.n; i++) {
                const struct plan_path_rule *rule = &plan->path_rules.p[i];

                if (dump_is_judged(rule))
                        text_line(dump, rule->decides_read ? "  refused when reached: " : "  kept when written to: ",
                                  rule->pattern);
        }

        for (size_t i = 0; i < plan->marks.n; i++)
                text_line(dump, "  narrows the network when opened: ", plan->marks.p[i].pattern);

        for (size_t i = 0; i < plan->asks.n; i++)
                text_line(dump, "  asked about when opened: ", plan->asks.p[i]);
}

static void text_limits(struct dump *dump, const struct plan *plan) {
        dump_put(dump, "limits:\n");

        for (size_t i = 0; i < plan->limits.n; i++) {
                dump_put(dump, "  ");
                dump_put(dump, dump_limit_name(plan->limits.p[i].resource));
                dump_put(dump, " ");
                put_number(dump, plan->limits.p[i].value);
                dump_put(dump, "\n");
        }

        text_group(dump, plan);
}

int plan_dump_text(const struct plan *plan, struct buf *out) {
        struct dump dump = { .out = out };

        dump_put(&dump, "command: ");
        text_words(&dump, plan->argv.p, plan->argv.n);
        dump_put(&dump, "directory: ");
        put_value(&dump, plan->cwd);
        dump_put(&dump, "\nnamespaces: ");
        put_names(&dump, dump_namespaces, plan->namespaces);
        dump_put(&dump, plan->namespaces ? "" : "none");
        if (!dump.error)
                dump.error = buf_printf(out, "\nidentity: uid %u, gid %u, no capabilities, no new privileges\nfiles:\n",
                                        plan->uid, plan->gid);

        for (size_t i = 0; i < plan->ops.n; i++)
                text_op(&dump, &plan->ops.p[i]);

        text_guards(&dump, plan);

        text_judged(&dump, plan);
        text_changes(&dump, plan);
        text_sockets(&dump, plan);
        text_landlock(&dump, plan);
        text_network(&dump, plan);

        dump_put(&dump, "system calls: filtered\n");
        text_limits(&dump, plan);

        dump_put(&dump, "environment:\n");
        for (size_t i = 0; i < plan->env.n; i++)
                text_line(&dump, "  ", plan->env.p[i]);
        for (size_t i = 0; i < plan->notes.n; i++)
                text_line(&dump, "note: ", plan->notes.p[i]);

        return dump.error;
}
