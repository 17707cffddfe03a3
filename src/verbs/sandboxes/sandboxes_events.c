/* SPDX-License-Identifier: Apache-2.0 */
/* Events of running sandboxes: what their logs have so far, or what they say from now on. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "verbs/record/log_view.h"
#include "verbs/sandboxes/sandbox_names.h"
#include "verbs/sandboxes/sandboxes.h"
#include "verbs/sandboxes/sandboxes_text.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

enum { FOLLOWED_MAX = 256, LOOK_MS = 500 };

struct followed_client {
        struct control_client client;
        char guest[NAMES_GUEST_MAX]; /* its name when it was found; "": it is none */
        uint64_t first;              /* the first question whose event came; 0: none yet */
};

struct followed {
        VEC(struct followed_client) clients;
        control_ids known; /* followed now or before: an id never comes back */
};

static void followed_done(struct followed *followed) {
        for (size_t i = 0; i < followed->clients.n; i++)
                control_client_done(&followed->clients.p[i].client);
        vec_done(&followed->clients);
        control_ids_done(&followed->known);
}

static bool events_knows(const struct followed *followed, const char *id) {
        for (size_t i = 0; i < followed->known.n; i++)
                if (strcmp(followed->known.p[i], id) == 0)
                        return true;
        return false;
}

/* A sandbox is found some time after it began, and may have asked by then: after the events its questions are asked
 * for, and come in between them. */
static int follow_one(struct followed *followed, const char *id, const guest_names *guests, struct err *err) {
        struct followed_client one = { 0 };
        struct err why = { 0 };
        const struct control_request request = { .what = CONTROL_SUBSCRIBE }, pending = { .what = CONTROL_PENDING };
        cleanup(control_message_done) struct control_message message = { 0 };
        char *kept = str_dup(str_of(id));
        if (!kept || vec_push(&followed->known, kept) < 0) {
                free(kept);
                return err_memory(err);
        }

        if (followed->clients.n >= FOLLOWED_MAX || control_client_open(id, "bailey events", &one.client, &why) < 0)
                return 0; /* gone already, or too many to watch */

        snprintf(one.guest, sizeof one.guest, "%s", names_guest(guests, id));
        if (control_client_call(&one.client, &request, &message, &why) < 0 ||
            control_client_send(&one.client, &pending, &why) < 0 || vec_push(&followed->clients, one) < 0)
                control_client_done(&one.client);

        return 0;
}

static int look_for_new(struct followed *followed, struct err *err) {
        cleanup(control_ids_done) control_ids ids = { 0 };
        cleanup(guest_names_done) guest_names guests = { 0 };
        bool looked = false;
        int r = control_list(&ids, err);

        for (size_t i = 0; r == 0 && i < ids.n; i++) {
                if (events_knows(followed, ids.p[i]))
                        continue;

                if (!looked)
                        names_of_guests(&guests);
                looked = true;
                r = follow_one(followed, ids.p[i], &guests, err);
        }

        return r;
}

static int events_show(const struct events_request *request, const struct followed_client *one,
                       const struct control_message *message) {
        cleanup(buf_done) struct buf out = BUF(2 * CONTROL_MESSAGE_MAX);
        size_t before = 0;
        int r;

        if (request->json) {
                struct emit j = emit_to(&out);

                emit_open(&j, '{');
                emit_put_text(&j, "sandbox", one->client.id);
                if (one->guest[0])
                        emit_put_text(&j, "guest", one->guest);

                for (const struct node *node = message->root->first; node; node = node->next)
                        if (!str_is(node->key, "sandbox") && !str_is(node->key, "guest")) {
                                emit_key_str(&j, node->key);
                                sandboxes_emit_node(&j, node);
                        }

                r = control_close(&j);
        } else {
                r = sandboxes_guest_text(&out, one->guest);
                before = out.n;
                if (r == 0)
                        r = sandboxes_event_line(&out, one->client.id, message->root);
        }

        return r < 0 || out.n == before ? r : request->on_line(request->arg, buf_str(&out));
}

/* Questions that wait already, in the form in which they would have come. */
static int events_show_pending(struct followed_client *one, const struct events_request *request,
                               const struct control_message *reply) {
        const struct node *questions = node_get(reply->root, STR("questions"));
        int r = 0;

        for (const struct node *node = questions ? questions->first : NULL; r == 0 && node; node = node->next) {
                cleanup(control_message_done) struct control_message message = { 0 };
                cleanup(buf_done) struct buf line = BUF(CONTROL_MESSAGE_MAX);
                struct emit j = control_event_open(&line, "ask");
                struct err why = { 0 };

                if (one->first && control_number(node, "id") >= one->first)
                        continue; /* its event was here before the reply: no later one is left out */

                emit_key(&j, "question");
                sandboxes_emit_node(&j, node);
                if (control_close(&j) == 0 && control_message_parse(str_trim(buf_str(&line)), &message, &why) == 0)
                        r = events_show(request, one, &message);
        }

        return r;
}

static int events_show_one(struct followed_client *one, const struct events_request *request,
                           const struct control_message *message) {
        const struct node *question = message->is_event ? node_get(message->root, STR("question")) : NULL;

        if (!message->is_event)
                return events_show_pending(one, request, message);
        if (!one->first && str_is(message->event, "ask") && question)
                one->first = control_number(question, "id");

        return events_show(request, one, message);
}

/* Everything that one has to say now. False when it is gone. */
static int events_drain(struct followed_client *one, const struct events_request *request, bool *ret_alive,
                        struct err *err) {
        int r;

        do {
                cleanup(control_message_done) struct control_message message = { 0 };

                r = control_client_next(&one->client, 0, &message, err);
                if (r > 0) {
                        int shown = events_show_one(one, request, &message);
                        if (shown < 0)
                                return shown;
                }
        } while (r > 0);

        *ret_alive = r == -EAGAIN || r == -EINTR;
        return 0;
}

static int events_step(struct followed *followed, const struct events_request *request, struct err *err) {
        struct pollfd fds[FOLLOWED_MAX];

        for (size_t i = 0; i < followed->clients.n; i++)
                fds[i] = (struct pollfd){ .fd = followed->clients.p[i].client.fd, .events = POLLIN };

        if (poll(fds, followed->clients.n, request->prefix ? -1 : LOOK_MS) < 0 && errno != EINTR)
                return err_errno(err, "cannot wait");

        for (size_t i = followed->clients.n; i-- > 0;) {
                bool alive = true;
                int r = 0;

                if (fds[i].revents)
                        r = events_drain(&followed->clients.p[i], request, &alive, err);

                if (r < 0)
                        return r;
                if (alive)
                        continue;

                control_client_done(&followed->clients.p[i].client);
                followed->clients.p[i] = followed->clients.p[--followed->clients.n];
        }

        if (request->prefix)
                return 0;

        return look_for_new(followed, err);
}

static int show_logs(const struct events_request *request, struct err *err) {
        cleanup(sandboxes_done) struct sandboxes_list sandboxes_list = { 0 };
        int r = sandboxes_open(request->prefix, "bailey events", &sandboxes_list, err);
        for (size_t i = 0; r == 0 && i < sandboxes_list.clients.n; i++) {
                const struct control_request status = { .what = CONTROL_STATUS };
                cleanup(control_message_done) struct control_message message = { 0 };
                struct err gone = { 0 };
                if (control_client_call(&sandboxes_list.clients.p[i], &status, &message, &gone) < 0)
                        continue;

                const struct log_request log = { .file = control_text(message.root, "audit"),
                                                 .run = sandboxes_list.clients.p[i].id,
                                                 .json = request->json,
                                                 .on_line = request->on_line,
                                                 .arg = request->arg };
                r = log_show(&log, err);
        }

        return r;
}

static int follow_named(struct followed *followed, const char *name, struct err *err) {
        cleanup(guest_names_done) guest_names guests = { 0 };
        cleanup(free_ptr) char *id = NULL;
        int r = names_sandbox(name, &id, err);

        if (r < 0)
                return r;

        names_of_guests(&guests);
        return follow_one(followed, id, &guests, err);
}

int sandboxes_events(const struct events_request *request, struct err *err) {
        cleanup(followed_done) struct followed followed = { 0 };

        if (!request->follow)
                return show_logs(request, err);

        int r = request->prefix ? follow_named(&followed, request->prefix, err) : look_for_new(&followed, err);

        while (r == 0 && (!request->prefix || followed.clients.n))
                r = events_step(&followed, request, err);

        return r;
}
