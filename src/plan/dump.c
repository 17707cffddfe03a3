/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/dump.h"

#include "base/escape.h"
#include "plan/landlock.h"
#include "policy/glob.h"

#include <assert.h>
#include <linux/filter.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

struct name {
        uint64_t value;
        const char *name;
};
static const struct name namespaces[] = {
        { CLONE_NEWUSER, "user" }, { CLONE_NEWNS, "mount" }, { CLONE_NEWPID, "pid" },       { CLONE_NEWNET, "net" },
        { CLONE_NEWIPC, "ipc" },   { CLONE_NEWUTS, "uts" },  { CLONE_NEWCGROUP, "cgroup" }, { 0, NULL },
};
static const struct name attributes[] = {
        { MOUNT_ATTR_RDONLY, "ro" },
        { MOUNT_ATTR_NOSUID, "nosuid" },
        { MOUNT_ATTR_NODEV, "nodev" },
        { MOUNT_ATTR_NOEXEC, "noexec" },
        { 0, NULL },
};
static const struct name limits[] = {
        { RLIMIT_NPROC, "processes" }, { RLIMIT_DATA, "memory" }, { RLIMIT_NOFILE, "files" },
        { RLIMIT_CPU, "cpu-seconds" }, { RLIMIT_CORE, "core" },   { 0, NULL },
};

/* One writer for both forms: text lines are built from the same words that JSON strings hold. */
struct dump {
        struct buf *out;
        bool json;
        bool first; /* in the current JSON list or object */
        int error;
};

static void put(struct dump *d, const char *text) {
        if (!d->error)
                d->error = buf_add(d->out, text);
}

static void put_value(struct dump *d, const char *text) {
        if (d->error)
                return;
        d->error = d->json ? escape_json(d->out, str_of(text)) : escape_text(d->out, str_of(text), 4096);
}

static void put_number(struct dump *d, uint64_t n) {
        if (!d->error)
                d->error = buf_printf(d->out, "%llu", (unsigned long long)n);
}

static void comma(struct dump *d) {
        if (!d->first)
                put(d, d->json ? ", " : " ");
        d->first = false;
}

static void put_names(struct dump *d, const struct name *names, uint64_t mask) {
        bool first = true;
        for (; names->name; names++)
                if (mask & names->value) {
                        put(d, first ? "" : d->json ? ", " : ",");
                        if (d->json)
                                put_value(d, names->name);
                        else
                                put(d, names->name);
                        first = false;
                }
}

static void put_landlock(struct dump *d, uint64_t mask) {
        const char *name;
        for (bool first = true; (name = landlock_fs_name(&mask)); first = false) {
                put(d, first ? "" : d->json ? ", " : ",");
                if (d->json)
                        put_value(d, name);
                else
                        put(d, name);
        }
}

static const char *limit_name(uint32_t resource) {
        for (const struct name *l = limits; l->name; l++)
                if (l->value == resource)
                        return l->name;
        return "?";
}

/* Text. */

static void text_place(struct dump *d, uint16_t at, const char *path) {
        if (at != PLAN_ROOT) {
                put(d, "#");
                put_number(d, at);
                put(d, ":");
        }
        put_value(d, path ? path : "");
}

static void text_op(struct dump *d, const struct plan_op *op) {
        put(d, "  ");
        put(d, plan_op_name(op->kind));
        put(d, " ");
        switch (op->kind) {
        case PLAN_OP_CLONE:
                text_place(d, op->at, op->source);
                put(d, op->mode & PLAN_CLONE_TREE ? " (tree)" : "");
                put(d, op->mode & PLAN_CLONE_LINK ? " (link)" : "");
                put(d, " -> #");
                put_number(d, op->slot);
                break;
        case PLAN_OP_NEW_FS:
                put(d, op->mode & PLAN_NEW_FS_MAYBE ? "if possible " : "");
                put_value(d, op->source);
                put(d, " ");
                put_names(d, attributes, op->attr_set);
                if (op->data) {
                        put(d, " ");
                        put_value(d, op->data);
                }
                put(d, " -> #");
                put_number(d, op->slot);
                break;
        case PLAN_OP_SETATTR:
                if (op->slot == PLAN_ROOT) {
                        text_place(d, op->at, op->target);
                } else {
                        put(d, "#");
                        put_number(d, op->slot);
                }
                put(d, op->mode ? " (tree) " : " ");
                put_names(d, attributes, op->attr_set);
                break;
        case PLAN_OP_ATTACH:
                put(d, "#");
                put_number(d, op->slot);
                put(d, op->mode & PLAN_ATTACH_MAYBE ? " over " : " at ");
                text_place(d, op->at, op->target);
                break;
        case PLAN_OP_SYMLINK:
                text_place(d, op->at, op->target);
                put(d, " -> ");
                put_value(d, op->source);
                break;
        default:
                text_place(d, op->at, op->target);
                if (op->kind != PLAN_OP_PIVOT && !d->error)
                        d->error = buf_printf(d->out, " %04o", op->mode);
        }
        put(d, "\n");
}

static void text_words(struct dump *d, const char *const *words, size_t n) {
        for (size_t i = 0; i < n; i++) {
                put(d, i ? " " : "");
                if (!d->error)
                        d->error = escape_shell(d->out, str_of(words[i]));
        }
        put(d, "\n");
}

static void text_landlock(struct dump *d, const struct plan *p) {
        if (!p->landlock.abi) {
                put(d, "landlock: none\n");
                return;
        }
        put(d, "landlock: ABI ");
        put_number(d, p->landlock.abi);
        put(d, p->landlock.scoped ? ", signals and abstract sockets stay inside\n" : "\n");
        for (size_t i = 0; i < p->landlock.rules.n; i++) {
                put(d, "  ");
                put_value(d, p->landlock.rules.p[i].path);
                put(d, " ");
                put_landlock(d, p->landlock.rules.p[i].access);
                put(d, "\n");
        }
        for (size_t i = 0; i < p->landlock.ports.n; i++) {
                put(d, "  TCP port ");
                put_number(d, p->landlock.ports.p[i].port);
                put(d, p->landlock.ports.p[i].access & LANDLOCK_NET_BIND_TCP ? " bind,connect\n" : " connect\n");
        }
}

/* Only a network that is captured has listeners besides the one for packets. */
static bool is_captured(const struct plan *p) {
        for (size_t i = 0; i < p->listeners.n; i++)
                if (p->listeners.p[i].kind == PLAN_LISTENER_TRANSPARENT)
                        return true;
        return false;
}

static const char *network_text(const struct plan *p) {
        if (is_captured(p))
                return "captured: every TCP connection and DNS query; the rest is refused, and recorded\n";
        if (p->namespaces & CLONE_NEWNET)
                return "none: what is tried is refused, and recorded\n";
        return "shared with the host, TCP limited to the ports above\n";
}

static void text_network(struct dump *d, const struct plan *p) {
        put(d, "network: ");
        put(d, network_text(p));
        for (size_t i = 0; i < p->listeners.n; i++) {
                const struct plan_listener *l = &p->listeners.p[i];
                if (l->kind == PLAN_LISTENER_PACKETS) {
                        put(d, "  listen for refused packets\n");
                        continue;
                }
                if (plan_listener_path(l->kind)) {
                        if (!d->error)
                                d->error = buf_printf(d->out, "  listen %s %s\n", plan_listener_name(l->kind),
                                                      plan_listener_path(l->kind));
                        continue;
                }
                if (l->kind == PLAN_LISTENER_CALLBACK) {
                        put(d, l->v6 ? "" : "  carry callbacks of sign-ins to ports inside, one each\n");
                        continue;
                }
                if (l->kind == PLAN_LISTENER_BRIDGE) {
                        put(d, "  listen for calls of tools at " PLAN_BRIDGE_SOCKET "\n");
                        continue;
                }
                if (!d->error)
                        d->error = buf_printf(d->out, "  listen %s %s:%u", plan_listener_name(l->kind),
                                              l->v6 ? "[::1]" : "127.0.0.1", l->port);
                if (l->forward_port && !d->error)
                        d->error = buf_printf(d->out, " for the host's port %u", l->forward_port);
                put(d, "\n");
        }
        for (size_t i = 0; i < p->publish.n; i++) {
                put(d, "  publish ");
                put_value(d, p->publish.p[i].address);
                if (!d->error)
                        d->error = buf_printf(d->out, ":%u for the sandbox's port %u\n", p->publish.p[i].outside,
                                              p->publish.p[i].inside);
        }
}

/* Of the broker's rules, those that it enforces itself. */
static bool is_judged(const struct plan_path_rule *rule) {
        return !rule->grants && (rule->late || glob_has_magic(str_of(rule->pattern)));
}

static void text_changes(struct dump *d, const struct plan *p) {
        if (p->flags & PLAN_WRITES)
                put(d, "changes of files: each is judged by what is there then\n");
        for (size_t i = 0; i < p->openings.n; i++) {
                put(d, "  writable below what is closed: ");
                put_value(d, p->openings.p[i]);
                put(d, "\n");
        }
}

static void text_sockets(struct dump *d, const struct plan *p) {
        if (p->namespaces)
                put(d, p->flags & PLAN_SOCKETS
                           ? "unix sockets: the sandbox's own, each connect() and each datagram's receiver is judged\n"
                           : "unix sockets: the sandbox's own, by Landlock\n");
        for (size_t i = 0; i < p->sockets.n; i++) {
                put(d, "  and of the host: ");
                put_value(d, p->sockets.p[i]);
                put(d, "\n");
        }
}

static const char *group_name(const struct plan *p) {
        bool limited = p->group.memory || p->group.processes || p->group.cpu_percent;
        return !limited ? "none" : p->flags & PLAN_SCOPE ? "systemd-scope" : "cgroup";
}

static const char *group_way(const struct plan *p) {
        return p->flags & PLAN_SCOPE ? "systemd scope, asked for at launch" : "cgroup v2";
}

static void text_group(struct dump *d, const struct plan *p) {
        const struct name parts[] = { { p->group.memory, "memory" },
                                      { p->group.processes, "processes" },
                                      { p->group.cpu_percent, "cpu-percent" } };
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
                if (parts[i].value && !d->error)
                        d->error = buf_printf(d->out, "  together: %s %llu (%s)\n", parts[i].name,
                                              (unsigned long long)parts[i].value, group_way(p));
}

/* What exists is among the mounts above. */
static void text_guards(struct dump *d, const struct plan *p) {
        for (size_t i = 0; i < p->guards.n; i++) {
                const struct plan_guard *guard = &p->guards.p[i];

                if (guard->kind != PLAN_GUARD_MISSING && guard->kind != PLAN_GUARD_LINK)
                        continue;
                put(d, guard->kind == PLAN_GUARD_LINK ? "  put back if it changes: " : "  moved aside if it appears: ");
                put_value(d, guard->path);
                put(d, "\n");
        }
        if (p->git_incomplete)
                put(d, "  not all directories were searched for repositories: those further down are not protected\n");
}

int plan_dump_text(const struct plan *p, struct buf *out) {
        struct dump d = { .out = out };
        put(&d, "command: ");
        text_words(&d, p->argv.p, p->argv.n);
        put(&d, "directory: ");
        put_value(&d, p->cwd);
        put(&d, "\nnamespaces: ");
        put_names(&d, namespaces, p->namespaces);
        put(&d, p->namespaces ? "" : "none");
        d.error = d.error ? d.error
                          : buf_printf(out, "\nidentity: uid %u, gid %u, no capabilities, no new privileges\nfiles:\n",
                                       p->uid, p->gid);
        for (size_t i = 0; i < p->ops.n; i++)
                text_op(&d, &p->ops.p[i]);
        text_guards(&d, p);
        for (size_t i = 0; i < p->path_rules.n; i++)
                if (is_judged(&p->path_rules.p[i])) {
                        put(&d,
                            p->path_rules.p[i].decides_read ? "  refused when reached: " : "  kept when written to: ");
                        put_value(&d, p->path_rules.p[i].pattern);
                        put(&d, "\n");
                }
        for (size_t i = 0; i < p->marks.n; i++) {
                put(&d, "  narrows the network when opened: ");
                put_value(&d, p->marks.p[i].pattern);
                put(&d, "\n");
        }
        text_changes(&d, p);
        text_sockets(&d, p);
        text_landlock(&d, p);
        text_network(&d, p);
        if (!d.error)
                d.error = buf_add(out, "system calls: filtered\nlimits:\n");
        for (size_t i = 0; i < p->limits.n; i++) {
                put(&d, "  ");
                put(&d, limit_name(p->limits.p[i].resource));
                put(&d, " ");
                put_number(&d, p->limits.p[i].value);
                put(&d, "\n");
        }
        text_group(&d, p);
        put(&d, "environment:\n");
        for (size_t i = 0; i < p->env.n; i++) {
                put(&d, "  ");
                put_value(&d, p->env.p[i]);
                put(&d, "\n");
        }
        for (size_t i = 0; i < p->notes.n; i++) {
                put(&d, "note: ");
                put_value(&d, p->notes.p[i]);
                put(&d, "\n");
        }
        return d.error;
}

/* JSON. */

static void key(struct dump *d, const char *name) {
        comma(d);
        put_value(d, name);
        put(d, ": ");
}

static void json_text(struct dump *d, const char *name, const char *value) {
        if (!value)
                return;
        key(d, name);
        put_value(d, value);
}

static void json_number(struct dump *d, const char *name, uint64_t value) {
        key(d, name);
        put_number(d, value);
}

static void open_with(struct dump *d, const char *name, const char *bracket) {
        if (name)
                key(d, name);
        else
                comma(d);
        put(d, bracket);
        d->first = true;
}

static void close_with(struct dump *d, const char *bracket) {
        put(d, bracket);
        d->first = false;
}

static void json_words(struct dump *d, const char *name, const char *const *words, size_t n) {
        open_with(d, name, "[");
        for (size_t i = 0; i < n; i++) {
                comma(d);
                put_value(d, words[i]);
        }
        close_with(d, "]");
}

static void json_op(struct dump *d, const struct plan_op *op) {
        open_with(d, NULL, "{");
        json_text(d, "op", plan_op_name(op->kind));
        if (op->slot != PLAN_ROOT)
                json_number(d, "slot", op->slot);
        if (op->at != PLAN_ROOT)
                json_number(d, "at", op->at);
        json_text(d, "source", op->source);
        json_text(d, "target", op->target);
        json_text(d, "data", op->data);
        json_number(d, "mode", op->mode);
        if (op->attr_set) {
                open_with(d, "attributes", "[");
                put_names(d, attributes, op->attr_set);
                close_with(d, "]");
        }
        close_with(d, "}");
}

static void json_landlock(struct dump *d, const struct plan *p) {
        open_with(d, "landlock", "{");
        json_number(d, "abi", p->landlock.abi);
        json_number(d, "scoped", p->landlock.scoped);
        open_with(d, "rules", "[");
        for (size_t i = 0; i < p->landlock.rules.n; i++) {
                open_with(d, NULL, "{");
                json_text(d, "path", p->landlock.rules.p[i].path);
                open_with(d, "access", "[");
                put_landlock(d, p->landlock.rules.p[i].access);
                close_with(d, "]");
                close_with(d, "}");
        }
        close_with(d, "]");
        open_with(d, "ports", "[");
        for (size_t i = 0; i < p->landlock.ports.n; i++) {
                comma(d);
                put_number(d, p->landlock.ports.p[i].port);
        }
        close_with(d, "]");
        close_with(d, "}");
}

static void json_network(struct dump *d, const struct plan *p) {
        open_with(d, "network", "{");
        json_text(d, "capture", is_captured(p) ? "all" : "none");
        open_with(d, "listeners", "[");
        for (size_t i = 0; i < p->listeners.n; i++) {
                const struct plan_listener *l = &p->listeners.p[i];
                open_with(d, NULL, "{");
                json_text(d, "kind", plan_listener_name(l->kind));
                if (l->kind == PLAN_LISTENER_BRIDGE) {
                        json_text(d, "path", PLAN_BRIDGE_SOCKET);
                } else if (plan_listener_path(l->kind)) {
                        json_text(d, "path", plan_listener_path(l->kind));
                } else if (l->kind == PLAN_LISTENER_CALLBACK) {
                        json_text(d, "address", l->v6 ? "::1" : "127.0.0.1");
                } else if (l->kind != PLAN_LISTENER_PACKETS) {
                        json_text(d, "address", l->v6 ? "::1" : "127.0.0.1");
                        json_number(d, "port", l->port);
                }
                if (l->forward_port)
                        json_number(d, "host_port", l->forward_port);
                close_with(d, "}");
        }
        close_with(d, "]");
        open_with(d, "publish", "[");
        for (size_t i = 0; i < p->publish.n; i++) {
                open_with(d, NULL, "{");
                json_text(d, "address", p->publish.p[i].address);
                json_number(d, "port", p->publish.p[i].outside);
                json_number(d, "inside", p->publish.p[i].inside);
                close_with(d, "}");
        }
        close_with(d, "]");
        close_with(d, "}");
}

static void json_guards(struct dump *d, const struct plan *p) {
        static const char *const kinds[] = {
                [PLAN_GUARD_MISSING] = "missing",
                [PLAN_GUARD_LINK] = "link",
                [PLAN_GUARD_FILE] = "file",
                [PLAN_GUARD_DIR] = "directory",
        };
        static_assert(sizeof kinds / sizeof *kinds == PLAN_GUARD_KINDS, "one name per kind");

        open_with(d, "guards", "[");
        for (size_t i = 0; i < p->guards.n; i++)
                if (p->guards.p[i].kind == PLAN_GUARD_MISSING) {
                        comma(d);
                        put_value(d, p->guards.p[i].path);
                }
        close_with(d, "]");

        key(d, "repositories_searched");
        put(d, p->git_incomplete ? "false" : "true");
        open_with(d, "protected", "[");
        for (size_t i = 0; i < p->guards.n; i++) {
                const struct plan_guard *guard = &p->guards.p[i];

                open_with(d, NULL, "{");
                json_text(d, "path", guard->path);
                json_text(d, "kind", kinds[guard->kind]);
                json_text(d, "why", guard->why);
                json_text(d, "root", guard->root);
                close_with(d, "}");
        }
        close_with(d, "]");
}

int plan_dump_json(const struct plan *p, struct buf *out) {
        struct dump d = { .out = out, .json = true, .first = true };
        put(&d, "{");
        json_words(&d, "command", p->argv.p, p->argv.n);
        json_text(&d, "directory", p->cwd);
        open_with(&d, "namespaces", "[");
        put_names(&d, namespaces, p->namespaces);
        close_with(&d, "]");
        json_number(&d, "uid", p->uid);
        json_number(&d, "gid", p->gid);
        open_with(&d, "files", "[");
        for (size_t i = 0; i < p->ops.n; i++)
                json_op(&d, &p->ops.p[i]);
        close_with(&d, "]");
        json_guards(&d, p);
        open_with(&d, "judged", "[");
        for (size_t i = 0; i < p->path_rules.n; i++)
                if (is_judged(&p->path_rules.p[i])) {
                        comma(&d);
                        put_value(&d, p->path_rules.p[i].pattern);
                }
        close_with(&d, "]");
        if (p->marks.n) {
                open_with(&d, "ratchet_reads", "[");
                for (size_t i = 0; i < p->marks.n; i++) {
                        comma(&d);
                        put_value(&d, p->marks.p[i].pattern);
                }
                close_with(&d, "]");
        }
        open_with(&d, "unix_sockets", "{");
        json_text(&d, "judged_by", !p->namespaces ? "none" : p->flags & PLAN_SOCKETS ? "broker" : "landlock");
        json_words(&d, "host", p->sockets.p, p->sockets.n);
        close_with(&d, "}");
        json_landlock(&d, p);
        json_network(&d, p);
        json_number(&d, "filter_instructions", p->seccomp.n / sizeof(struct sock_filter));
        open_with(&d, "limits", "{");
        for (size_t i = 0; i < p->limits.n; i++)
                json_number(&d, limit_name(p->limits.p[i].resource), p->limits.p[i].value);
        close_with(&d, "}");
        open_with(&d, "limits_together", "{");
        json_number(&d, "memory", p->group.memory);
        json_number(&d, "processes", p->group.processes);
        json_number(&d, "cpu_percent", p->group.cpu_percent);
        json_text(&d, "by", group_name(p));
        close_with(&d, "}");
        json_words(&d, "environment", p->env.p, p->env.n);
        json_words(&d, "notes", p->notes.p, p->notes.n);
        put(&d, "}\n");
        return d.error;
}
