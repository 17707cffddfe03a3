/* SPDX-License-Identifier: Apache-2.0 */
/* Events of running sandboxes: what their logs have so far, or what they say from now on. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "verbs/log_view.h"
#include "verbs/sandboxes.h"
#include "verbs/sandboxes_text.h"

#include <errno.h>
#include <poll.h>

enum { FOLLOWED_MAX = 256, LOOK_MS = 500 };

struct followed {
        VEC(struct control_client) clients;
        control_ids known; /* followed now or before: an id never comes back */
};

static void followed_done(struct followed *f) {
        for (size_t i = 0; i < f->clients.n; i++)
                control_client_done(&f->clients.p[i]);
        vec_done(&f->clients);
        control_ids_done(&f->known);
}

static bool knows(const struct followed *f, const char *id) {
        for (size_t i = 0; i < f->known.n; i++)
                if (strcmp(f->known.p[i], id) == 0)
                        return true;
        return false;
}

static int follow_one(struct followed *f, const char *id, struct err *e) {
        struct control_client c;
        struct err why = { 0 };
        const struct control_request q = { .what = CONTROL_SUBSCRIBE };
        cleanup(control_message_done) struct control_message m = { 0 };
        char *kept = str_dup(str_of(id));
        if (!kept || vec_push(&f->known, kept) < 0) {
                free(kept);
                return err_memory(e);
        }
        if (f->clients.n >= FOLLOWED_MAX || control_client_open(id, "bailey events", &c, &why) < 0)
                return 0; /* gone already, or too many to watch */
        if (control_client_call(&c, &q, &m, &why) < 0 || vec_push(&f->clients, c) < 0)
                control_client_done(&c);
        return 0;
}

static int look_for_new(struct followed *f, struct err *e) {
        cleanup(control_ids_done) control_ids ids = { 0 };
        int r = control_list(&ids, e);
        for (size_t i = 0; r == 0 && i < ids.n; i++)
                if (!knows(f, ids.p[i]))
                        r = follow_one(f, ids.p[i], e);
        return r;
}

static int show(const struct events_request *q, const char *sandbox, const struct control_message *m) {
        cleanup(buf_done) struct buf out = BUF(2 * CONTROL_MESSAGE_MAX);
        int r;
        if (q->json) {
                struct emit j = emit_to(&out);
                emit_open(&j, '{');
                emit_put_text(&j, "sandbox", sandbox);
                for (const struct node *n = m->root->first; n; n = n->next)
                        if (!str_is(n->key, "sandbox")) {
                                emit_key_str(&j, n->key);
                                sandboxes_emit_node(&j, n);
                        }
                r = control_close(&j);
        } else {
                r = sandboxes_event_line(&out, sandbox, m->root);
        }
        return r < 0 || out.n == 0 ? r : q->on_line(q->arg, buf_str(&out));
}

/* Everything that one has to say now. False when it is gone. */
static int drain(struct control_client *c, const struct events_request *q, bool *ret_alive, struct err *e) {
        int r;
        do {
                cleanup(control_message_done) struct control_message m = { 0 };
                r = control_client_next(c, 0, &m, e);
                if (r > 0 && m.is_event) {
                        int shown = show(q, c->id, &m);
                        if (shown < 0)
                                return shown;
                }
        } while (r > 0);
        *ret_alive = r == -EAGAIN || r == -EINTR;
        return 0;
}

static int step(struct followed *f, const struct events_request *q, struct err *e) {
        struct pollfd fds[FOLLOWED_MAX];
        for (size_t i = 0; i < f->clients.n; i++)
                fds[i] = (struct pollfd){ .fd = f->clients.p[i].fd, .events = POLLIN };
        if (poll(fds, f->clients.n, q->prefix ? -1 : LOOK_MS) < 0 && errno != EINTR)
                return err_errno(e, "cannot wait");
        for (size_t i = f->clients.n; i-- > 0;) {
                bool alive = true;
                int r = fds[i].revents ? drain(&f->clients.p[i], q, &alive, e) : 0;
                if (r < 0)
                        return r;
                if (alive)
                        continue;
                control_client_done(&f->clients.p[i]);
                f->clients.p[i] = f->clients.p[--f->clients.n];
        }
        return q->prefix ? 0 : look_for_new(f, e);
}

static int show_logs(const struct events_request *q, struct err *e) {
        cleanup(sandboxes_done) struct sandboxes_list l = { 0 };
        int r = sandboxes_open(q->prefix, "bailey events", &l, e);
        for (size_t i = 0; r == 0 && i < l.clients.n; i++) {
                const struct control_request status = { .what = CONTROL_STATUS };
                cleanup(control_message_done) struct control_message m = { 0 };
                struct err gone = { 0 };
                if (control_client_call(&l.clients.p[i], &status, &m, &gone) < 0)
                        continue;
                const struct log_request log = { .file = control_text(m.root, "audit"),
                                                 .run = l.clients.p[i].id,
                                                 .json = q->json,
                                                 .on_line = q->on_line,
                                                 .arg = q->arg };
                r = log_show(&log, e);
        }
        return r;
}

int sandboxes_events(const struct events_request *q, struct err *e) {
        cleanup(followed_done) struct followed f = { 0 };
        cleanup(free_ptr) char *id = NULL;
        if (!q->follow)
                return show_logs(q, e);
        int r = q->prefix ? control_resolve(q->prefix, &id, e) : look_for_new(&f, e);
        if (r == 0 && id)
                r = follow_one(&f, id, e);
        while (r == 0 && (!q->prefix || f.clients.n))
                r = step(&f, q, e);
        return r;
}
