/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan.h"

#include <assert.h>
#include <stdio.h>

/* Blocks of text, freed together: a plan has hundreds of small strings and one owner. */
enum { POOL_BLOCK = 16384 };
struct plan_pool {
        struct plan_pool *next;
        size_t n, cap;
        char bytes[];
};

static char *pool_take(struct plan *p, size_t n) {
        struct plan_pool *b = p->pool;
        if (!b || b->cap - b->n < n) {
                size_t cap = n > POOL_BLOCK ? n : POOL_BLOCK;
                b = malloc(sizeof *b + cap);
                if (!b)
                        return NULL;
                *b = (struct plan_pool){ .next = p->pool, .cap = cap };
                p->pool = b;
        }
        char *at = b->bytes + b->n;
        b->n += n;
        return at;
}

char *plan_copy(struct plan *p, struct str s) {
        char *copy = pool_take(p, s.n + 1);
        if (!copy)
                return NULL;
        if (s.n)
                memcpy(copy, s.p, s.n);
        copy[s.n] = '\0';
        return copy;
}

char *plan_format(struct plan *p, const char *format, ...) {
        va_list args, again;
        va_start(args, format);
        va_copy(again, args);
        int n = vsnprintf(NULL, 0, format, args);
        char *text = n < 0 ? NULL : pool_take(p, (size_t)n + 1);
        if (text)
                vsnprintf(text, (size_t)n + 1, format, again);
        va_end(again);
        va_end(args);
        return text;
}

struct plan *plan_new(void) {
        return calloc(1, sizeof(struct plan));
}

void plan_free(struct plan *p) {
        if (!p)
                return;
        vec_done(&p->ops);
        vec_done(&p->landlock.rules);
        vec_done(&p->landlock.ports);
        vec_done(&p->listeners);
        vec_done(&p->publish);
        vec_done(&p->limits);
        vec_done(&p->guards);
        vec_done(&p->path_rules);
        vec_done(&p->sockets);
        vec_done(&p->openings);
        vec_done(&p->copies);
        vec_done(&p->notes);
        vec_done(&p->argv);
        vec_done(&p->env);
        while (p->pool) {
                struct plan_pool *next = p->pool->next;
                free(p->pool);
                p->pool = next;
        }
        free(p);
}

void plan_freep(struct plan **p) {
        plan_free(*p);
}

static const char *const op_names[] = {
        [PLAN_OP_CLONE] = "clone", [PLAN_OP_NEW_FS] = "new", [PLAN_OP_SETATTR] = "setattr", [PLAN_OP_ATTACH] = "attach",
        [PLAN_OP_MKDIR] = "mkdir", [PLAN_OP_FILE] = "file",  [PLAN_OP_SYMLINK] = "symlink", [PLAN_OP_PIVOT] = "pivot",
};
static_assert(sizeof op_names / sizeof *op_names == PLAN_OPS, "a name for every operation");

const char *plan_op_name(enum plan_op_kind k) {
        return k < PLAN_OPS ? op_names[k] : "?";
}

static const char *const listener_names[] = {
        [PLAN_LISTENER_HTTP] = "http",       [PLAN_LISTENER_SOCKS5] = "socks5",
        [PLAN_LISTENER_DNS_UDP] = "dns-udp", [PLAN_LISTENER_DNS_TCP] = "dns-tcp",
        [PLAN_LISTENER_TRANSPARENT] = "tcp", [PLAN_LISTENER_HOST_PORT] = "host-port",
        [PLAN_LISTENER_API] = "api",         [PLAN_LISTENER_PACKETS] = "packets",
        [PLAN_LISTENER_SHIM] = "ssh",        [PLAN_LISTENER_AGENT] = "ssh-agent",
        [PLAN_LISTENER_BRIDGE] = "bridge",
};
static_assert(sizeof listener_names / sizeof *listener_names == PLAN_LISTENER_KINDS, "a name for every listener");

const char *plan_listener_name(enum plan_listener_kind k) {
        return k < PLAN_LISTENER_KINDS ? listener_names[k] : "?";
}

const char *plan_listener_path(enum plan_listener_kind k) {
        if (k == PLAN_LISTENER_SHIM)
                return PLAN_SHIM_SOCKET;
        return k == PLAN_LISTENER_AGENT ? PLAN_AGENT_SOCKET : NULL;
}
