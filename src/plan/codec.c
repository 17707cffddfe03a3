/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One description serves both directions: each field is visited once, by a function that writes it or reads it. So the
 * two sides cannot disagree about order or width. Reading fails at the first thing that is not as it must be; after
 * that every visit is a no-op and the plan is thrown away.
 */
#include "plan/codec.h"

#include "base/cleanup.h"
#include "policy/judge/ratchet.h"

#include <linux/filter.h>

enum { MAGIC = 0x4e4c5042 /* "BPLN" */, VERSION = 3, COUNT_MAX = 65536, USUAL_SIZE = 60 << 10 };

struct wire {
        struct buf *out;  /* writing */
        struct str in;    /* reading */
        const char *what; /* the field that failed */
        int error;
};

static void codec_fail(struct wire *wire, int error, const char *what) {
        if (wire->error)
                return;
        wire->error = error;
        wire->what = what;
}

static void visit_bytes(struct wire *wire, void *p, size_t n, const char *what) {
        if (wire->error)
                return;

        if (wire->out) {
                int r = buf_append(wire->out, str_n(p, n));
                if (r < 0)
                        codec_fail(wire, -r, what);
        } else if (wire->in.n < n) {
                codec_fail(wire, EBADMSG, what);
        } else {
                memcpy(p, wire->in.p, n);
                wire->in = str_skip(wire->in, n);
        }
}

#define visit(w, field) visit_bytes((w), &(field), sizeof(field), #field)

/* Length, bytes, NUL. NULL is written as the length UINT32_MAX. */
static void visit_block(struct wire *wire, struct str *s, bool text, const char *what) {
        uint32_t n = s->p ? (uint32_t)s->n : UINT32_MAX;

        visit_bytes(wire, &n, sizeof n, what);
        if (wire->error)
                return;

        if (n == UINT32_MAX) {
                *s = (struct str){ 0 };
                return;
        }

        if (wire->out) {
                char end = '\0';

                visit_bytes(wire, (void *)s->p, n, what);
                visit_bytes(wire, &end, 1, what);
                return;
        }

        if (wire->in.n < (size_t)n + 1 || wire->in.p[n] != '\0' || (text && memchr(wire->in.p, '\0', n))) {
                codec_fail(wire, EBADMSG, what);
                return;
        }

        *s = str_first(wire->in, n); /* the block is the plan's own, and stays */
        wire->in = str_skip(wire->in, (size_t)n + 1);
}

static void visit_text(struct wire *wire, const char **text, const char *what) {
        struct str s = str_of(*text);
        visit_block(wire, &s, true, what);
        if (!wire->out)
                *text = wire->error ? NULL : s.p;
}

/* Every element takes at least one byte, so a count above what is left is a lie. */
static size_t visit_count(struct wire *wire, size_t n, const char *what) {
        uint32_t count = (uint32_t)n;
        if (wire->out && n > COUNT_MAX)
                codec_fail(wire, E2BIG, what);
        visit_bytes(wire, &count, sizeof count, what);
        if (!wire->out && !wire->error && (count > COUNT_MAX || count > wire->in.n))
                codec_fail(wire, EBADMSG, what);
        if (wire->error)
                return 0;

        return count;
}

#define visit_vec(w, v, one)                                                                                           \
        do {                                                                                                           \
                size_t count = visit_count((w), (v)->n, #v);                                                           \
                for (size_t i = 0; i < count && !(w)->error; i++) {                                                    \
                        if (!(w)->out) {                                                                               \
                                __typeof__(*(v)->p) zero = { 0 };                                                      \
                                if (vec_push((v), zero) < 0) {                                                         \
                                        codec_fail((w), ENOMEM, #v);                                                   \
                                        break;                                                                         \
                                }                                                                                      \
                        }                                                                                              \
                        one((w), &(v)->p[i]);                                                                          \
                }                                                                                                      \
        } while (0)

static void visit_op(struct wire *wire, struct plan_op *op) {
        visit(wire, op->kind);
        visit(wire, op->slot);
        visit(wire, op->at);
        visit(wire, op->mode);
        visit(wire, op->attr_set);
        visit(wire, op->attr_clear);
        visit_text(wire, &op->source, "op->source");
        visit_text(wire, &op->target, "op->target");
        visit_text(wire, &op->data, "op->data");
}

static void visit_rule(struct wire *wire, struct plan_landlock_rule *rule) {
        visit_text(wire, &rule->path, "rule->path");
        visit(wire, rule->access);
}

static void visit_port(struct wire *wire, struct plan_landlock_port *port) {
        visit(wire, port->port);
        visit(wire, port->access);
}

static void visit_listener(struct wire *wire, struct plan_listener *l) {
        visit(wire, l->kind);
        visit(wire, l->v6);
        visit(wire, l->port);
        visit(wire, l->forward_port);
}

static void visit_publish(struct wire *wire, struct plan_publish *m) {
        visit(wire, m->outside);
        visit(wire, m->inside);
        visit_text(wire, &m->address, "publish->address");
}

static void visit_limit(struct wire *wire, struct plan_limit *l) {
        visit(wire, l->resource);
        visit(wire, l->value);
}

static void visit_guard(struct wire *wire, struct plan_guard *g) {
        visit_text(wire, &g->path, "guard->path");
        visit(wire, g->kind);
        visit(wire, g->hidden);
        visit_text(wire, &g->link, "guard->link");
        visit_text(wire, &g->why, "guard->why");
        visit_text(wire, &g->root, "guard->root");
}

static void visit_copy(struct wire *wire, struct plan_copy_of *copy) {
        visit_text(wire, &copy->path, "copy->path");
        visit(wire, copy->copy_dev);
        visit(wire, copy->copy_ino);
        visit(wire, copy->real_dev);
        visit(wire, copy->real_ino);
}

static void visit_path_rule(struct wire *wire, struct plan_path_rule *rule) {
        visit_text(wire, &rule->pattern, "path rule->pattern");
        visit_text(wire, &rule->origin, "path rule->origin");
        visit(wire, rule->decides_read);
        visit(wire, rule->grants);
        visit(wire, rule->built_in);
        visit(wire, rule->protected);
        visit(wire, rule->late);
        visit(wire, rule->own);
}

static void visit_mark(struct wire *wire, struct plan_mark *mark) {
        visit_text(wire, &mark->pattern, "mark->pattern");
        visit(wire, mark->ratchet);
}

static void visit_word(struct wire *wire, const char **word) {
        visit_text(wire, word, "word");
}

static void visit_version(struct wire *wire) {
        uint32_t magic = MAGIC, version = VERSION;

        visit(wire, magic);
        visit(wire, version);
        if (!wire->error && (magic != MAGIC || version != VERSION))
                codec_fail(wire, EBADMSG, "version");
}

static void visit_landlock(struct wire *wire, struct plan *p) {
        visit(wire, p->landlock.abi);
        visit(wire, p->landlock.handled_fs);
        visit(wire, p->landlock.handled_net);
        visit(wire, p->landlock.scoped);
        visit_vec(wire, &p->landlock.rules, visit_rule);
        visit_vec(wire, &p->landlock.ports, visit_port);
}

static void visit_network(struct wire *wire, struct plan *p) {
        visit_block(wire, &p->routes_v4, false, "routes_v4");
        visit_block(wire, &p->routes_v6, false, "routes_v6");
        visit_block(wire, &p->nft, false, "nft");
        visit_vec(wire, &p->listeners, visit_listener);
        visit_vec(wire, &p->publish, visit_publish);
}

/* What the broker judges, and what is looked at afterwards. */
static void visit_watched(struct wire *wire, struct plan *p) {
        visit_vec(wire, &p->guards, visit_guard);
        visit_vec(wire, &p->openings, visit_word);
        visit_vec(wire, &p->copies, visit_copy);
        visit_vec(wire, &p->path_rules, visit_path_rule);
        visit(wire, p->reads_open);
        visit_vec(wire, &p->marks, visit_mark);
        visit_vec(wire, &p->asks, visit_word);
        visit_vec(wire, &p->sockets, visit_word);
}

static void visit_plan(struct wire *wire, struct plan *p) {
        visit_version(wire);
        visit(wire, p->flags);
        visit(wire, p->namespaces);
        visit(wire, p->uid);
        visit(wire, p->gid);
        visit_text(wire, &p->id, "id");
        visit_text(wire, &p->hostname, "hostname");

        visit_vec(wire, &p->ops, visit_op);
        visit_landlock(wire, p);
        visit_block(wire, &p->seccomp, false, "seccomp");
        visit_network(wire, p);

        visit_vec(wire, &p->limits, visit_limit);
        visit(wire, p->group.memory);
        visit(wire, p->group.processes);
        visit(wire, p->group.cpu_percent);

        visit_watched(wire, p);
        visit_vec(wire, &p->notes, visit_word);

        visit_text(wire, &p->cwd, "cwd");
        visit_vec(wire, &p->argv, visit_word);
        visit_vec(wire, &p->env, visit_word);
}

/* Checks that the format cannot express: the combinations that init relies on. */
static const char *check_op(const struct plan_op *op, bool *made) {
        if (op->kind >= PLAN_OPS)
                return "unknown operation";

        bool makes = op->kind == PLAN_OP_CLONE || op->kind == PLAN_OP_NEW_FS;
        bool uses = op->kind == PLAN_OP_ATTACH || (op->kind == PLAN_OP_SETATTR && op->slot != PLAN_ROOT);
        if ((makes || uses) && op->slot >= PLAN_SLOTS_MAX)
                return "slot out of range";
        if (makes && made[op->slot])
                return "slot made twice";
        if (uses && !made[op->slot])
                return "slot used before it is made";
        if (op->at != PLAN_ROOT && (op->at >= PLAN_SLOTS_MAX || !made[op->at]))
                return "place used before it is made";
        if (makes && !op->source)
                return "no source";
        if (op->kind == PLAN_OP_SYMLINK && !op->source)
                return "no link text";
        if (op->kind == PLAN_OP_FILE && !op->data)
                return "no content";

        if (op->kind != PLAN_OP_CLONE && op->kind != PLAN_OP_NEW_FS && !(op->kind == PLAN_OP_SETATTR && uses) &&
            !op->target)
                return "no target";

        const char *path = op->kind == PLAN_OP_CLONE ? op->source : op->target;
        if (path && op->kind != PLAN_OP_NEW_FS && (op->at == PLAN_ROOT) != (path[0] == '/'))
                return "path does not fit its place";
        if (makes)
                made[op->slot] = true;

        return NULL;
}

static bool is_absolute(const char *path) {
        return path && path[0] == '/';
}

static const char *check_guards(const struct plan *plan) {
        for (size_t i = 0; i < plan->guards.n; i++) {
                const struct plan_guard *guard = &plan->guards.p[i];

                if (!is_absolute(guard->path))
                        return "guard without an absolute path";
                if (guard->kind >= PLAN_GUARD_KINDS)
                        return "guard of an unknown kind";
                if ((guard->kind == PLAN_GUARD_LINK) != (guard->link != NULL))
                        return "guard whose link does not fit its kind";
                if (!guard->why || !is_absolute(guard->root))
                        return "guard without a reason or a root";
        }

        for (size_t i = 0; i < plan->copies.n; i++)
                if (!is_absolute(plan->copies.p[i].path))
                        return "copy without an absolute path";

        return NULL;
}

static const char *check_ops(const struct plan *plan) {
        bool made[PLAN_SLOTS_MAX] = { false };

        for (size_t i = 0; i < plan->ops.n; i++) {
                const char *wrong = check_op(&plan->ops.p[i], made);
                if (wrong)
                        return wrong;
        }

        return NULL;
}

static const char *check_network(const struct plan *plan) {
        for (size_t i = 0; i < plan->listeners.n; i++)
                if (plan->listeners.p[i].kind >= PLAN_LISTENER_KINDS || plan->listeners.p[i].v6 > 1 ||
                    !plan->listeners.p[i].port)
                        return "unknown listener";

        if (plan->listeners.n > PLAN_LISTENERS_MAX)
                return "too many listeners";
        if (plan->publish.n > PLAN_LISTENERS_MAX)
                return "too many published ports";

        for (size_t i = 0; i < plan->publish.n; i++)
                if (!plan->publish.p[i].address || !plan->publish.p[i].inside || !plan->publish.p[i].outside)
                        return "published port without a number";

        return NULL;
}

static const char *check_paths(const struct plan *plan) {
        for (size_t i = 0; i < plan->landlock.rules.n; i++)
                if (!is_absolute(plan->landlock.rules.p[i].path))
                        return "Landlock rule without an absolute path";

        for (size_t i = 0; i < plan->path_rules.n; i++)
                if (!is_absolute(plan->path_rules.p[i].pattern))
                        return "path rule without an absolute path";

        for (size_t i = 0; i < plan->marks.n; i++)
                if (!is_absolute(plan->marks.p[i].pattern) || plan->marks.p[i].ratchet >= RATCHETS_MAX)
                        return "marked path without an absolute path";

        for (size_t i = 0; i < plan->asks.n; i++)
                if (!is_absolute(plan->asks.p[i]))
                        return "place to ask about without an absolute path";

        for (size_t i = 0; i < plan->sockets.n; i++)
                if (!is_absolute(plan->sockets.p[i]))
                        return "socket without an absolute path";

        for (size_t i = 0; i < plan->openings.n; i++)
                if (!is_absolute(plan->openings.p[i]))
                        return "opening without an absolute path";

        return NULL;
}

/* Who judges, traces or makes a change must be there. */
static const char *check_flags(const struct plan *plan) {
        if (plan->marks.n && !(plan->flags & PLAN_BROKER))
                return "marked paths, and nobody who judges them";
        if (plan->asks.n && !(plan->flags & PLAN_BROKER))
                return "places to ask about, and nobody who asks";
        if ((plan->flags & PLAN_WRITES) && !plan->namespaces)
                return "changes judged without namespaces";
        if ((plan->flags & PLAN_NATIVE) && !((plan->flags & PLAN_WRITES) && plan->landlock.abi))
                return "changes refused to the command, and nobody to make them";
        if ((plan->flags & PLAN_SOCKETS) && !plan->namespaces)
                return "sockets watched without namespaces";
        if ((plan->flags & (PLAN_TRACE | PLAN_OBSERVE)) && !(plan->flags & PLAN_BROKER))
                return "tracing without a broker";

        return NULL;
}

static const char *check_command(const struct plan *plan) {
        for (size_t i = 0; i < plan->argv.n; i++)
                if (!plan->argv.p[i])
                        return "missing argument";

        for (size_t i = 0; i < plan->env.n; i++)
                if (!plan->env.p[i] || !strchr(plan->env.p[i], '='))
                        return "malformed environment";

        if (!plan->id || !plan->id[0] || strchr(plan->id, '/'))
                return "no id";
        if (plan->argv.n == 0)
                return "no command";
        if (!is_absolute(plan->cwd))
                return "no working directory";

        /* Never without a filter: an empty one here is damage, not a choice. */
        if (plan->seccomp.n == 0 || plan->seccomp.n % sizeof(struct sock_filter) ||
            plan->seccomp.n / sizeof(struct sock_filter) > BPF_MAXINSNS)
                return "no system call filter";

        return NULL;
}

static const char *check_plan(const struct plan *plan) {
        static const char *(*const checks[])(const struct plan *) = { check_ops,   check_network, check_guards,
                                                                      check_paths, check_flags,   check_command };

        for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
                const char *wrong = checks[i](plan);
                if (wrong)
                        return wrong;
        }

        return NULL;
}

int plan_encode(const struct plan *plan, struct buf *out, struct err *err) {
        const char *wrong = check_plan(plan);
        if (wrong)
                return err_set(err, EINVAL, "launch plan: %s", wrong);
        struct wire wire = { .out = out };

        if (buf_reserve(out, USUAL_SIZE) == -ENOMEM) /* at once, not doubled ten times */
                return err_memory(err);

        visit_plan(&wire, (struct plan *)plan); /* writing only reads it */
        if (wire.error)
                return err_set(err, wire.error, "launch plan: cannot write %s", wire.what);

        return 0;
}

/* exec wants a NULL behind the last word; it is not counted. */
static int text_terminate(const char ***words, size_t *cap, size_t n) {
        if (n == *cap && vec_grow_bytes((void **)words, cap, n + 1, sizeof **words) < 0)
                return -ENOMEM;
        (*words)[n] = NULL;
        return 0;
}

int plan_decode(struct str bytes, struct plan **ret, struct err *err) {
        cleanup(plan_freep) struct plan *p = plan_new();
        if (!p)
                return err_memory(err);

        const char *own = plan_copy(p, bytes);
        if (!own)
                return err_memory(err);

        struct wire wire = { .in = str_n(own, bytes.n) };
        visit_plan(&wire, p);
        if (!wire.error && wire.in.n)
                codec_fail(&wire, EBADMSG, "bytes after the end");
        if (wire.error)
                return err_set(err, wire.error, "launch plan: cannot read %s", wire.what);
        if (text_terminate(&p->argv.p, &p->argv.cap, p->argv.n) < 0 ||
            text_terminate(&p->env.p, &p->env.cap, p->env.n) < 0)
                return err_memory(err);

        const char *wrong = check_plan(p);
        if (wrong)
                return err_set(err, EBADMSG, "launch plan: %s", wrong);

        *ret = take_ptr(&p);
        return 0;
}
