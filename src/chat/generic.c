/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For services that have no row of their own, a bridge is written to this protocol (docs/chat.md):
 *
 *   POST /messages                    {"room", "text", "code", "buttons": [{"label", "value"}]}
 *   GET  /messages?room=R&after=C     held until there is something, at most 60 seconds:
 *                                     {"next": "C2", "messages": [{"id", "sender", "text", "time", "edited", "bot",
 *                                     "forwarded"}]}
 */
#include "base/cleanup.h"
#include "base/emit.h"
#include "chat/service.h"
#include "conf/json.h"

#include <errno.h>

static int put_head(const struct chat_account *account, struct chat_call *ret) {
        int r = buf_add(&ret->url, account->url);

        if (r == 0 && account->has_token)
                r = buf_add(&ret->headers, "Authorization: Bearer {token:0}\r\n");
        return r;
}

static int generic_listen(const struct chat_account *account, struct chat_session *session, struct chat_call *ret) {
        int r = put_head(account, ret);

        ret->limit_ms = 90000;
        if (r == 0)
                r = buf_add(&ret->line, "GET /messages?room=");
        if (r == 0)
                r = chat_escape(&ret->line, str_of(account->room));
        if (r == 0)
                r = buf_add(&ret->line, "&after=");
        if (r < 0)
                return r;

        return chat_escape(&ret->line, str_of(session->cursor));
}

static int generic_hear(const struct chat_account *account, struct chat_session *session, struct str bytes,
                        const struct chat_ears *ears) {
        cleanup(document_freep) struct document *document = NULL;
        const struct node *root, *messages;
        struct str next;

        if (json_read(bytes, STR("messages"), &document, NULL) < 0)
                return -EBADMSG;

        root = document_root(document);
        messages = chat_list(root, "messages");
        next = chat_text(root, "next");
        if (!messages || !next.n || next.n >= sizeof session->cursor)
                return -EBADMSG;

        (void)chat_keep(session->cursor, sizeof session->cursor, next);

        for (const struct node *message = messages->first; message; message = message->next) {
                const struct chat_said said = { .id = chat_text(message, "id"),
                                                .sender = chat_text(message, "sender"),
                                                .room = str_of(account->room),
                                                .text = chat_text(message, "text"),
                                                .in_room = true,
                                                .edited = chat_true(message, "edited"),
                                                .forwarded = chat_true(message, "forwarded"),
                                                .bot = chat_true(message, "bot"),
                                                .time_s = chat_number(message, "time") };
                ears->said(ears->arg, &said);
        }

        return 0;
}

static int generic_post(const struct chat_account *account, struct chat_session *session, const struct chat_post *post,
                        struct chat_call *ret) {
        struct emit j = emit_to(&ret->body);
        int r = put_head(account, ret);

        (void)session;
        if (r == 0)
                r = buf_add(&ret->line, "POST /messages");
        if (r == 0)
                r = buf_add(&ret->headers, "Content-Type: application/json\r\n");
        if (r < 0)
                return r;

        emit_open(&j, '{');
        emit_put_text(&j, "room", account->room);
        emit_put_text(&j, "text", post->text);
        emit_put_text(&j, "code", post->code);
        emit_key(&j, "buttons");
        emit_open(&j, '[');

        for (size_t i = 0; post->code && i < CHAT_BUTTONS; i++) {
                char value[48];

                chat_button_value(i, post->code, value);
                emit_open(&j, '{');
                emit_put_text(&j, "label", chat_button_labels[i]);
                emit_put_text(&j, "value", value);
                emit_close(&j);
        }

        emit_close(&j);
        emit_close(&j);

        return emit_status(&j);
}

const struct chat_service chat_generic = {
        .name = "generic", .listen = generic_listen, .hear = generic_hear, .post = generic_post
};
