/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandboxes. Each has one connection that is subscribed to events; questions that were open before are asked for
 * once. Nothing here waits for a reply.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "chat/chat_internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

enum { BATCH = 200, LINE_ROOM = 65536 };

static void peer_free(struct chat_peer *peer) {
        control_client_done(&peer->client);
        free(peer->command);
        free(peer->workspace);
        free(peer);
}

void peers_done(struct chat *chat) {
        for (size_t i = 0; i < chat->peers.n; i++)
                peer_free(chat->peers.p[i]);
        vec_done(&chat->peers);
}

struct chat_peer *peers_find(struct chat *chat, const char *sandbox) {
        for (size_t i = 0; i < chat->peers.n; i++)
                if (!chat->peers.p[i]->gone && strcmp(chat->peers.p[i]->client.id, sandbox) == 0)
                        return chat->peers.p[i];
        return NULL;
}

static uint64_t peer_send(struct chat_peer *peer, struct control_request *request) {
        cleanup(buf_done) struct buf line = BUF(CONTROL_LINE_MAX);

        request->id = ++peer->client.last_id;
        if (control_request_write(&line, request) < 0 ||
            send(peer->client.fd, line.p, line.n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)line.n)
                peer->gone = true;
        return request->id;
}

static void peer_greet(struct chat_peer *peer) {
        struct control_request hello = { .what = CONTROL_HELLO, .version = CONTROL_VERSION, .client = "bailey chat" };

        peer_send(peer, &hello);
        peer_send(peer, &(struct control_request){ .what = CONTROL_SUBSCRIBE });
        peer->status_id = peer_send(peer, &(struct control_request){ .what = CONTROL_STATUS });
        peer->pending_id = peer_send(peer, &(struct control_request){ .what = CONTROL_PENDING });
}

static void peer_connect(struct chat *chat, const char *directory, const char *id) {
        struct chat_peer *peer;
        int fd;

        if (peers_find(chat, id) || chat->peers.n >= CHAT_PEERS_MAX || control_connect(directory, id, &fd, NULL) < 0)
                return;

        peer = calloc(1, sizeof *peer);
        if (!peer || vec_push(&chat->peers, peer) < 0) {
                close_fd(&fd);
                free(peer);
                return;
        }

        peer->client = (struct control_client){ .fd = fd, .in = BUF(CONTROL_MESSAGE_MAX + LINE_ROOM) };
        snprintf(peer->client.id, sizeof peer->client.id, "%s", id);
        peer_greet(peer);
}

void peers_look(struct chat *chat) {
        cleanup(control_ids_done) control_ids ids = { 0 };
        cleanup(free_ptr) char *directory = NULL;

        if (control_directory(&directory, NULL) < 0 || control_list(&ids, NULL) < 0)
                return;
        for (size_t i = 0; i < ids.n; i++)
                peer_connect(chat, directory, ids.p[i]);
}

/*
 * Messages.
 */
static char *safe_member(const struct node *root, const char *key) {
        cleanup(buf_done) struct buf out = BUF(1024);
        const struct node *node = node_get(root, str_of(key));
        int r = 0;

        if (!node)
                return NULL;
        if (node->kind == NODE_SCALAR)
                r = texts_safe(&out, node->text, 200);

        for (const struct node *word = node->kind == NODE_LIST ? node->first : NULL; r == 0 && word;
             word = word->next) {
                if (out.n)
                        r = buf_add_char(&out, ' ');
                else
                        r = 0;
                if (r == 0 && out.n < 300)
                        r = texts_safe(&out, word->text, 100);
        }

        if (r < 0 || !out.n)
                return NULL;

        return str_dup(buf_str(&out));
}

static void take_event(struct chat *chat, struct chat_peer *peer, const struct control_message *message) {
        const char *id = peer->client.id;
        uint64_t number = control_number(message->root, "question");
        char outcome[200];

        if (str_is(message->event, "ask")) {
                questions_open(chat, id, node_get(message->root, STR("question")));
        } else if (str_is(message->event, "answered")) {
                const char *answer = control_text(message->root, "answer"), *by = control_text(message->root, "by");
                const char *scope = control_text(message->root, "scope");
                bool allowed = answer && strcmp(answer, "allow") == 0;

                snprintf(outcome, sizeof outcome, "%s (%s), by %s", allowed ? "allowed" : "denied",
                         text_or(scope, "once"), text_or(by, "?"));
                questions_close(chat, id, number, outcome);
        } else if (str_is(message->event, "gone")) {
                questions_close(chat, id, number, "nobody waits for it any more");
        }
}

static void take_reply(struct chat *chat, struct chat_peer *peer, const struct control_message *message) {
        if (message->id == peer->status_id && message->ok) {
                free(peer->command);
                free(peer->workspace);
                peer->command = safe_member(message->root, "command");
                peer->workspace = safe_member(message->root, "workspace");
        } else if (message->id == peer->pending_id && message->ok) {
                const struct node *list = node_get(message->root, STR("questions"));

                for (const struct node *question = list ? list->first : NULL; question; question = question->next)
                        questions_open(chat, peer->client.id, question);
        }
}

void peers_step(struct chat *chat, struct chat_peer *peer) {
        for (int i = 0; i < BATCH && !peer->gone; i++) {
                cleanup(control_message_done) struct control_message message = { 0 };
                int r = control_client_next(&peer->client, 0, &message, NULL);

                if (r == -EAGAIN || r == -EINTR)
                        return;

                if (r <= 0)
                        peer->gone = true;
                else if (message.is_event)
                        take_event(chat, peer, &message);
                else
                        take_reply(chat, peer, &message);
        }
}

void peers_sweep(struct chat *chat) {
        for (size_t i = 0; i < chat->peers.n;) {
                struct chat_peer *peer = chat->peers.p[i];

                if (!peer->gone) {
                        i++;
                        continue;
                }

                chat->peers.p[i] = chat->peers.p[--chat->peers.n];
                questions_close_all(chat, peer->client.id);
                peer_free(peer);
        }
}
