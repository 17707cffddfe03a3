/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One description serves both directions: each field is visited once, by a function that writes it or reads it. So the
 * two sides cannot disagree about order or width. Reading fails at the first thing that is not as it must be; after
 * that every visit is a no-op and the plan is thrown away.
 */
#include "plan/codec.h"

#include "base/cleanup.h"
#include "policy/ratchet.h"

#include <linux/filter.h>

enum { MAGIC = 0x4e4c5042 /* "BPLN" */, VERSION = 3, COUNT_MAX = 65536 };

struct wire {
        struct buf *out;  /* writing */
        struct str in;    /* reading */
        const char *what; /* the field that failed */
        int error;
};

static void fail(struct wire *w, int error, const char *what) {
        if (w->error)
                return;
        w->error = error;
        w->what = what;
}

static void visit_bytes(struct wire *w, void *p, size_t n, const char *what) {
        if (w->error)
                return;
        if (w->out) {
                int r = buf_append(w->out, str_n(p, n));
                if (r < 0)
                        fail(w, -r, what);
        } else if (w->in.n < n) {
                fail(w, EBADMSG, what);
        } else {
                memcpy(p, w->in.p, n);
                w->in = str_skip(w->in, n);
        }
}

#define visit(w, field) visit_bytes((w), &(field), sizeof(field), #field)

/* Length, bytes, NUL. NULL is written as the length UINT32_MAX. */
static void visit_block(struct wire *w, struct str *s, bool text, const char *what) {
        uint32_t n = s->p ? (uint32_t)s->n : UINT32_MAX;
        visit_bytes(w, &n, sizeof n, what);
        if (w->error)
                return;
        if (n == UINT32_MAX) {
                *s = (struct str){ 0 };
                return;
        }
        if (w->out) {
                char end = '\0';
                visit_bytes(w, (void *)s->p, n, what);
                visit_bytes(w, &end, 1, what);
                return;
        }
        if (w->in.n < (size_t)n + 1 || w->in.p[n] != '\0' || (text && memchr(w->in.p, '\0', n))) {
                fail(w, EBADMSG, what);
                return;
        }
        *s = str_first(w->in, n); /* the block is the plan's own, and stays */
        w->in = str_skip(w->in, (size_t)n + 1);
}

static void visit_text(struct wire *w, const char **text, const char *what) {
        struct str s = str_of(*text);
        visit_block(w, &s, true, what);
        if (!w->out)
                *text = w->error ? NULL : s.p;
}

/* Every element takes at least one byte, so a count above what is left is a lie. */
static size_t visit_count(struct wire *w, size_t n, const char *what) {
        uint32_t count = (uint32_t)n;
        if (w->out && n > COUNT_MAX)
                fail(w, E2BIG, what);
        visit_bytes(w, &count, sizeof count, what);
        if (!w->out && !w->error && (count > COUNT_MAX || count > w->in.n))
                fail(w, EBADMSG, what);
        return w->error ? 0 : count;
}

#define visit_vec(w, v, one)                                                                                           \
        do {                                                                                                           \
                size_t count = visit_count((w), (v)->n, #v);                                                           \
                for (size_t i = 0; i < count && !(w)->error; i++) {                                                    \
                        if (!(w)->out) {                                                                               \
                                __typeof__(*(v)->p) zero = { 0 };                                                      \
                                if (vec_push((v), zero) < 0) {                                                         \
                                        fail((w), ENOMEM, #v);                                                         \
                                        break;                                                                         \
                                }                                                                                      \
                        }                                                                                              \
                        one((w), &(v)->p[i]);                                                                          \
                }                                                                                                      \
        } while (0)

static void visit_op(struct wire *w, struct plan_op *op) {
        visit(w, op->kind);
        visit(w, op->slot);
        visit(w, op->at);
        visit(w, op->mode);
        visit(w, op->attr_set);
        visit(w, op->attr_clear);
        visit_text(w, &op->source, "op->source");
        visit_text(w, &op->target, "op->target");
        visit_text(w, &op->data, "op->data");
}

static void visit_rule(struct wire *w, struct plan_landlock_rule *rule) {
        visit_text(w, &rule->path, "rule->path");
        visit(w, rule->access);
}

static void visit_port(struct wire *w, struct plan_landlock_port *port) {
        visit(w, port->port);
        visit(w, port->access);
}

static void visit_listener(struct wire *w, struct plan_listener *l) {
        visit(w, l->kind);
        visit(w, l->v6);
        visit(w, l->port);
        visit(w, l->forward_port);
}

static void visit_publish(struct wire *w, struct plan_publish *m) {
        visit(w, m->outside);
        visit(w, m->inside);
        visit_text(w, &m->address, "publish->address");
}

static void visit_limit(struct wire *w, struct plan_limit *l) {
        visit(w, l->resource);
        visit(w, l->value);
}

static void visit_guard(struct wire *w, struct plan_guard *g) {
        visit_text(w, &g->path, "guard->path");
        visit(w, g->kind);
        visit(w, g->hidden);
        visit_text(w, &g->link, "guard->link");
        visit_text(w, &g->why, "guard->why");
        visit_text(w, &g->root, "guard->root");
}

static void visit_copy(struct wire *w, struct plan_copy_of *copy) {
        visit_text(w, &copy->path, "copy->path");
        visit(w, copy->copy_dev);
        visit(w, copy->copy_ino);
        visit(w, copy->real_dev);
        visit(w, copy->real_ino);
}

static void visit_path_rule(struct wire *w, struct plan_path_rule *rule) {
        visit_text(w, &rule->pattern, "path rule->pattern");
        visit_text(w, &rule->origin, "path rule->origin");
        visit(w, rule->decides_read);
        visit(w, rule->grants);
        visit(w, rule->built_in);
        visit(w, rule->protected);
        visit(w, rule->late);
        visit(w, rule->own);
}

static void visit_mark(struct wire *w, struct plan_mark *mark) {
        visit_text(w, &mark->pattern, "mark->pattern");
        visit(w, mark->ratchet);
}

static void visit_word(struct wire *w, const char **word) {
        visit_text(w, word, "word");
}

static void visit_plan(struct wire *w, struct plan *p) {
        uint32_t magic = MAGIC, version = VERSION;
        visit(w, magic);
        visit(w, version);
        if (!w->error && (magic != MAGIC || version != VERSION))
                fail(w, EBADMSG, "version");
        visit(w, p->flags);
        visit(w, p->namespaces);
        visit(w, p->uid);
        visit(w, p->gid);
        visit_text(w, &p->id, "id");
        visit_text(w, &p->hostname, "hostname");
        visit_vec(w, &p->ops, visit_op);
        visit(w, p->landlock.abi);
        visit(w, p->landlock.handled_fs);
        visit(w, p->landlock.handled_net);
        visit(w, p->landlock.scoped);
        visit_vec(w, &p->landlock.rules, visit_rule);
        visit_vec(w, &p->landlock.ports, visit_port);
        visit_block(w, &p->seccomp, false, "seccomp");
        visit_block(w, &p->routes_v4, false, "routes_v4");
        visit_block(w, &p->routes_v6, false, "routes_v6");
        visit_block(w, &p->nft, false, "nft");
        visit_vec(w, &p->listeners, visit_listener);
        visit_vec(w, &p->publish, visit_publish);
        visit_vec(w, &p->limits, visit_limit);
        visit(w, p->group.memory);
        visit(w, p->group.processes);
        visit(w, p->group.cpu_percent);
        visit_vec(w, &p->guards, visit_guard);
        visit_vec(w, &p->openings, visit_word);
        visit_vec(w, &p->copies, visit_copy);
        visit_vec(w, &p->path_rules, visit_path_rule);
        visit(w, p->reads_open);
        visit_vec(w, &p->marks, visit_mark);
        visit_vec(w, &p->sockets, visit_word);
        visit_vec(w, &p->notes, visit_word);
        visit_text(w, &p->cwd, "cwd");
        visit_vec(w, &p->argv, visit_word);
        visit_vec(w, &p->env, visit_word);
}

/* What the format cannot express: which combinations init may rely on. */
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

static const char *check_guards(const struct plan *p) {
        for (size_t i = 0; i < p->guards.n; i++) {
                const struct plan_guard *g = &p->guards.p[i];

                if (!g->path || g->path[0] != '/')
                        return "guard without an absolute path";
                if (g->kind >= PLAN_GUARD_KINDS)
                        return "guard of an unknown kind";
                if ((g->kind == PLAN_GUARD_LINK) != (g->link != NULL))
                        return "guard whose link does not fit its kind";
                if (!g->why || !g->root || g->root[0] != '/')
                        return "guard without a reason or a root";
        }
        for (size_t i = 0; i < p->copies.n; i++)
                if (!p->copies.p[i].path || p->copies.p[i].path[0] != '/')
                        return "copy without an absolute path";
        return NULL;
}

static const char *check_plan(const struct plan *p) {
        bool made[PLAN_SLOTS_MAX] = { false };
        for (size_t i = 0; i < p->ops.n; i++) {
                const char *wrong = check_op(&p->ops.p[i], made);
                if (wrong)
                        return wrong;
        }
        for (size_t i = 0; i < p->listeners.n; i++)
                if (p->listeners.p[i].kind >= PLAN_LISTENER_KINDS || p->listeners.p[i].v6 > 1 ||
                    !p->listeners.p[i].port)
                        return "unknown listener";
        if (p->publish.n > PLAN_LISTENERS_MAX)
                return "too many published ports";
        for (size_t i = 0; i < p->publish.n; i++)
                if (!p->publish.p[i].address || !p->publish.p[i].inside || !p->publish.p[i].outside)
                        return "published port without a number";
        for (size_t i = 0; i < p->landlock.rules.n; i++)
                if (!p->landlock.rules.p[i].path || p->landlock.rules.p[i].path[0] != '/')
                        return "Landlock rule without an absolute path";
        const char *bad_guard = check_guards(p);
        if (bad_guard)
                return bad_guard;
        for (size_t i = 0; i < p->path_rules.n; i++)
                if (!p->path_rules.p[i].pattern || p->path_rules.p[i].pattern[0] != '/')
                        return "path rule without an absolute path";
        for (size_t i = 0; i < p->marks.n; i++)
                if (!p->marks.p[i].pattern || p->marks.p[i].pattern[0] != '/' || p->marks.p[i].ratchet >= RATCHETS_MAX)
                        return "marked path without an absolute path";
        if (p->marks.n && !(p->flags & PLAN_BROKER))
                return "marked paths, and nobody who judges them";
        for (size_t i = 0; i < p->sockets.n; i++)
                if (!p->sockets.p[i] || p->sockets.p[i][0] != '/')
                        return "socket without an absolute path";
        for (size_t i = 0; i < p->openings.n; i++)
                if (!p->openings.p[i] || p->openings.p[i][0] != '/')
                        return "opening without an absolute path";
        if ((p->flags & PLAN_WRITES) && !p->namespaces)
                return "changes judged without namespaces";
        if ((p->flags & PLAN_NATIVE) && !((p->flags & PLAN_WRITES) && p->landlock.abi))
                return "changes refused to the command, and nobody to make them";
        if ((p->flags & PLAN_SOCKETS) && !p->namespaces)
                return "sockets watched without namespaces";
        if ((p->flags & (PLAN_TRACE | PLAN_OBSERVE)) && !(p->flags & PLAN_BROKER))
                return "tracing without a broker";
        for (size_t i = 0; i < p->argv.n; i++)
                if (!p->argv.p[i])
                        return "missing argument";
        for (size_t i = 0; i < p->env.n; i++)
                if (!p->env.p[i] || !strchr(p->env.p[i], '='))
                        return "malformed environment";
        if (p->listeners.n > PLAN_LISTENERS_MAX)
                return "too many listeners";
        if (!p->id || !p->id[0] || strchr(p->id, '/'))
                return "no id";
        if (p->argv.n == 0)
                return "no command";
        if (!p->cwd || p->cwd[0] != '/')
                return "no working directory";
        /* Never without a filter: an empty one here is damage, not a choice. */
        if (p->seccomp.n == 0 || p->seccomp.n % sizeof(struct sock_filter) ||
            p->seccomp.n / sizeof(struct sock_filter) > BPF_MAXINSNS)
                return "no system call filter";
        return NULL;
}

int plan_encode(const struct plan *p, struct buf *out, struct err *e) {
        const char *wrong = check_plan(p);
        if (wrong)
                return err_set(e, EINVAL, "launch plan: %s", wrong);
        struct wire w = { .out = out };
        visit_plan(&w, (struct plan *)p); /* writing only reads it */
        return w.error ? err_set(e, w.error, "launch plan: cannot write %s", w.what) : 0;
}

/* exec wants a NULL behind the last word; it is not counted. */
static int terminate(const char ***words, size_t *cap, size_t n) {
        if (n == *cap && vec_grow_bytes((void **)words, cap, n + 1, sizeof **words) < 0)
                return -ENOMEM;
        (*words)[n] = NULL;
        return 0;
}

int plan_decode(struct str bytes, struct plan **ret, struct err *e) {
        cleanup(plan_freep) struct plan *p = plan_new();
        if (!p)
                return err_memory(e);
        const char *own = plan_copy(p, bytes);
        if (!own)
                return err_memory(e);
        struct wire w = { .in = str_n(own, bytes.n) };
        visit_plan(&w, p);
        if (!w.error && w.in.n)
                fail(&w, EBADMSG, "bytes after the end");
        if (w.error)
                return err_set(e, w.error, "launch plan: cannot read %s", w.what);
        if (terminate(&p->argv.p, &p->argv.cap, p->argv.n) < 0 || terminate(&p->env.p, &p->env.cap, p->env.n) < 0)
                return err_memory(e);
        const char *wrong = check_plan(p);
        if (wrong)
                return err_set(e, EBADMSG, "launch plan: %s", wrong);
        *ret = take_ptr(&p);
        return 0;
}
