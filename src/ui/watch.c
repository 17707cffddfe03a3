/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandboxes, as their control sockets show them. Each has one connection that is subscribed to events and asked for
 * its status once a second, for its questions and rules whenever they have changed. Nothing here waits for a reply: if
 * a supervisor is stopped, its last status stays, and the page shows how old it is.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "ui/ui_internal.h"
#include "verbs/sandboxes/sandboxes_text.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

enum { EVENT_MAX = 65536, PEERS_MAX = 256, BATCH = 200, RULES_SMALL = 32768 };

void peer_free(struct peer *peer) {
        control_client_done(&peer->client);
        buf_done(&peer->status);
        buf_done(&peer->pending);
        buf_done(&peer->rules);
        vec_done(&peer->waiting);
        free(peer->audit);
        free(peer);
}

void ui_publish(struct ui *ui, struct str text) {
        ring_add(&ui->ring, text);
}

static void keep_reply(struct buf *into, const struct node *node) {
        struct emit j = emit_to(into);

        buf_clear(into);
        if (node)
                sandboxes_emit_node(&j, node);
        if (!node || emit_status(&j) < 0)
                buf_clear(into);
}

/*
 * Requests.
 */
int watch_send(struct peer *peer, struct control_request *request, uint64_t ticket) {
        cleanup(buf_done) struct buf line = BUF(CONTROL_LINE_MAX);
        int r;

        request->id = ++peer->client.last_id;
        r = control_request_write(&line, request);
        if (r < 0)
                return r;

        if (ticket) {
                r = vec_reserve(&peer->waiting, 1);
                if (r < 0)
                        return r;
        }

        if (send(peer->client.fd, line.p, line.n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)line.n) {
                peer->gone = true; /* half a request may be there: nothing more can be said on it */
                return -EPIPE;
        }

        if (ticket) {
                peer->waiting.p[peer->waiting.n].id = request->id;
                peer->waiting.p[peer->waiting.n++].ticket = ticket;
        }

        return 0;
}

static void watch_ask(struct peer *peer, enum control_do what, uint64_t *ret_id) {
        struct control_request request = { .what = what };

        if (watch_send(peer, &request, 0) == 0)
                *ret_id = request.id;
}

/*
 * Connecting.
 */
struct peer *watch_find(struct ui *ui, const char *id, enum peer_kind kind) {
        for (size_t i = 0; i < ui->peers.n; i++) {
                struct peer *peer = ui->peers.p[i];
                if (!peer->gone && peer->kind == kind && strcmp(peer->client.id, id) == 0)
                        return peer;
        }
        return NULL;
}

static void watch_greet(struct peer *peer) {
        static const char *const names[] = { [PEER_PAGE] = "bailey ui",
                                             [PEER_SILENT] = "bailey ui silent mode",
                                             [PEER_DEVICE] = "bailey ui paired device" };
        struct control_request hello = { .what = CONTROL_HELLO, .version = CONTROL_VERSION };
        uint64_t ignored;

        snprintf(hello.client, sizeof hello.client, "%s", names[peer->kind]);
        if (watch_send(peer, &hello, 0) < 0 || peer->kind == PEER_DEVICE)
                return;

        watch_ask(peer, CONTROL_SUBSCRIBE, &ignored);
        watch_ask(peer, CONTROL_STATUS, &peer->status_id);
        watch_ask(peer, CONTROL_PENDING, &peer->pending_id);
        watch_ask(peer, CONTROL_RULES, &peer->rules_id);
        peer->status_ns = clock_ns();
}

int watch_connect(struct ui *ui, const char *id, enum peer_kind kind) {
        cleanup(free_ptr) char *directory = NULL;
        struct peer *peer;
        int fd, r;

        if (watch_find(ui, id, kind))
                return 0;
        if (ui->peers.n >= PEERS_MAX)
                return -E2BIG;

        r = control_directory(&directory, NULL);
        if (r < 0)
                return r;

        r = control_connect(directory, id, &fd, NULL);
        if (r < 0)
                return r;

        peer = calloc(1, sizeof *peer);
        if (!peer || vec_push(&ui->peers, peer) < 0) {
                close_fd(&fd);
                free(peer);
                return -ENOMEM;
        }

        *peer = (struct peer){ .client = { .fd = fd, .in = BUF(CONTROL_MESSAGE_MAX + EVENT_MAX) },
                               .kind = kind,
                               .status = BUF(CONTROL_MESSAGE_MAX),
                               .pending = BUF(CONTROL_MESSAGE_MAX),
                               .rules = BUF(CONTROL_MESSAGE_MAX) };
        snprintf(peer->client.id, sizeof peer->client.id, "%s", id);
        watch_greet(peer);

        return 0;
}

void watch_look(struct ui *ui) {
        cleanup(control_ids_done) control_ids ids = { 0 };

        if (control_list(&ids, NULL) < 0)
                return;

        for (size_t i = 0; i < ids.n; i++) {
                (void)watch_connect(ui, ids.p[i], PEER_PAGE); /* gone meanwhile, or tried again in a second */
                if (ui->silent.until_us)
                        (void)watch_connect(ui, ids.p[i], PEER_SILENT);
                if (ui->pair.pairing.device[0])
                        (void)watch_connect(ui, ids.p[i], PEER_DEVICE);
        }

        for (size_t i = 0; i < ui->peers.n; i++) {
                struct peer *peer = ui->peers.p[i];
                if (peer->kind != PEER_PAGE || peer->gone || clock_ns() - peer->status_ns < NS_PER_SECOND)
                        continue;
                if (!peer->status_id)
                        watch_ask(peer, CONTROL_STATUS, &peer->status_id);
                if (peer->rules.n < RULES_SMALL) /* rules that are taken back are no event; long lists wait for one */
                        watch_ask(peer, CONTROL_RULES, &peer->rules_id);
        }
}

/*
 * Messages.
 */
static void publish_event(struct ui *ui, const struct peer *peer, const struct node *root) {
        cleanup(buf_done) struct buf out = BUF(EVENT_MAX);
        struct emit j = emit_to(&out);

        emit_open(&j, '{');
        emit_put_text(&j, "sandbox", peer->client.id);

        for (const struct node *node = root->first; node; node = node->next) {
                emit_key_str(&j, node->key);
                sandboxes_emit_node(&j, node);
        }

        emit_close(&j);
        if (emit_status(&j) == 0)
                ui_publish(ui, buf_str(&out));
}

static void publish_change(struct ui *ui, const struct peer *peer, const char *what) {
        cleanup(buf_done) struct buf out = BUF(1024);
        struct emit j = emit_to(&out);

        emit_open(&j, '{');
        emit_put_text(&j, "sandbox", peer->client.id);
        emit_put_text(&j, "event", what);
        emit_close(&j);
        if (emit_status(&j) == 0)
                ui_publish(ui, buf_str(&out));
}

static void take_event(struct ui *ui, struct peer *peer, const struct control_message *message) {
        publish_event(ui, peer, message->root);
        if (str_is(message->event, "ask") || str_is(message->event, "answered") || str_is(message->event, "gone"))
                watch_ask(peer, CONTROL_PENDING, &peer->pending_id);
        if (str_is(message->event, "rules") || str_is(message->event, "reload"))
                watch_ask(peer, CONTROL_RULES, &peer->rules_id);
        if (str_is(message->event, "paused") || str_is(message->event, "resumed"))
                watch_ask(peer, CONTROL_STATUS, &peer->status_id);
}

static void reply_waiting(struct ui *ui, struct peer *peer, const struct control_message *message) {
        for (size_t i = 0; i < peer->waiting.n; i++) {
                if (peer->waiting.p[i].id != message->id)
                        continue;

                uint64_t ticket = peer->waiting.p[i].ticket;
                peer->waiting.p[i] = peer->waiting.p[--peer->waiting.n];

                if (message->ok) {
                        cleanup(buf_done) struct buf out = BUF(CONTROL_MESSAGE_MAX);

                        keep_reply(&out, message->root);
                        ui_reply(ui, ticket, 200, "application/json", buf_str(&out));
                } else {
                        ui_reply_fault(ui, ticket, 409, message->text.n ? message->text.p : "refused");
                }

                return;
        }
}

static void take_reply(struct ui *ui, struct peer *peer, const struct control_message *message) {
        if (message->id == peer->status_id) {
                const char *audit = control_text(message->root, "audit");

                keep_reply(&peer->status, message->root);
                if (audit && !peer->audit)
                        peer->audit = str_dup(str_of(audit));

                peer->status_id = 0;
                peer->status_ns = clock_ns();
        } else if (message->id == peer->pending_id) {
                keep_reply(&peer->pending, node_get(message->root, STR("questions")));
                publish_change(ui, peer, "pending");
        } else if (message->id == peer->rules_id) {
                keep_reply(&peer->rules, node_get(message->root, STR("rules")));
        } else {
                reply_waiting(ui, peer, message);
        }
}

void watch_step(struct ui *ui, struct peer *peer) {
        for (int i = 0; i < BATCH && !peer->gone; i++) {
                cleanup(control_message_done) struct control_message message = { 0 };
                int r = control_client_next(&peer->client, 0, &message, NULL);

                if (r == -EAGAIN || r == -EINTR)
                        return;

                if (r <= 0) {
                        peer->gone = true;
                        return;
                }

                if (peer->kind == PEER_SILENT)
                        silent_message(ui, peer, &message);
                else if (peer->kind == PEER_DEVICE)
                        reply_waiting(ui, peer, &message);
                else if (message.is_event)
                        take_event(ui, peer, &message);
                else
                        take_reply(ui, peer, &message);
        }
}

void watch_sweep(struct ui *ui) {
        for (size_t i = 0; i < ui->peers.n;) {
                struct peer *peer = ui->peers.p[i];
                if (!peer->gone) {
                        i++;
                        continue;
                }

                ui->peers.p[i] = ui->peers.p[--ui->peers.n];
                for (size_t k = 0; k < peer->waiting.n; k++)
                        ui_reply_fault(ui, peer->waiting.p[k].ticket, 409, "the sandbox is gone");

                if (peer->kind == PEER_PAGE)
                        publish_change(ui, peer, "left");

                peer_free(peer);
        }
}

/*
 * The state.
 */
static void emit_told(struct emit *j, const char *key, const struct buf *told, struct str none) {
        emit_key(j, key);
        emit_raw(j, told->n ? buf_str(told) : none);
}

void watch_emit_state(struct ui *ui, bool with_rules, struct emit *json) {
        emit_key(json, "sandboxes");
        emit_open(json, '[');

        for (size_t i = 0; i < ui->peers.n; i++) {
                const struct peer *peer = ui->peers.p[i];
                if (peer->kind != PEER_PAGE || peer->gone)
                        continue;

                emit_open(json, '{');
                emit_put_text(json, "id", peer->client.id);
                emit_put_number(json, "status_age_ms", (clock_ns() - peer->status_ns) / NS_PER_MS);
                emit_told(json, "status", &peer->status, STR("null"));
                emit_told(json, "questions", &peer->pending, STR("[]"));

                if (with_rules)
                        emit_told(json, "rules", &peer->rules, STR("[]"));

                emit_close(json);
        }

        emit_close(json);
}
