/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix's client-server API: /sync as a long poll, with a filter for the one room; messages by PUT with a transaction
 * of their own, so that one which is sent twice appears once. Messages in the first /sync are old and do not count.
 * Rooms with end-to-end encryption cannot be read.
 */
#include "base/cleanup.h"
#include "base/emit.h"
#include "base/random.h"
#include "chat/service.h"
#include "conf/json.h"

#include <errno.h>
#include <stdio.h>

static int matrix_check(const struct chat_account *account, struct err *err) {
        if (account->room[0] != '!')
                return err_set(err, EINVAL,
                               "approval.chat.room of matrix is the room's id, as in \"!abc:example.com\": "
                               "an alias can be given to another room");

        for (size_t i = 0; i < account->approvers->n; i++)
                if (account->approvers->p[i].text[0] != '@')
                        return err_set(err, EINVAL,
                                       "approval.chat.approvers of matrix are user ids, as in \"@me:example.com\"");

        return 0;
}

static int put_head(const struct chat_account *account, struct chat_call *ret) {
        int r = buf_add(&ret->url, account->url);

        if (r < 0)
                return r;

        return buf_add(&ret->headers, "Authorization: Bearer {token:0}\r\n");
}

static int put_filter(const struct chat_account *account, struct buf *line) {
        cleanup(buf_done) struct buf filter = BUF(2048);
        struct emit j = emit_to(&filter);
        static const char *const silent[] = { "presence", "account_data" };

        emit_open(&j, '{');
        emit_key(&j, "room");
        emit_open(&j, '{');
        emit_key(&j, "rooms");
        emit_open(&j, '[');
        emit_text(&j, account->room);
        emit_close(&j);
        emit_key(&j, "timeline");
        emit_open(&j, '{');
        emit_put_number(&j, "limit", 200);
        emit_close(&j);
        emit_close(&j);

        for (size_t i = 0; i < 2; i++) {
                emit_key(&j, silent[i]);
                emit_open(&j, '{');
                emit_key(&j, "types");
                emit_open(&j, '[');
                emit_close(&j);
                emit_close(&j);
        }

        emit_close(&j);
        int r = emit_status(&j);
        if (r < 0)
                return r;

        return chat_escape(line, buf_str(&filter));
}

static int matrix_listen(const struct chat_account *account, struct chat_session *session, struct chat_call *ret) {
        int r = put_head(account, ret);

        ret->limit_ms = 60000;

        if (r == 0)
                r = buf_printf(&ret->line,
                               "GET /_matrix/client/v3/sync?timeout=%d&filter=", session->cursor[0] ? 30000 : 0);

        if (r == 0)
                r = put_filter(account, &ret->line);

        if (r == 0 && session->cursor[0]) {
                r = buf_add(&ret->line, "&since=");
                if (r == 0)
                        r = chat_escape(&ret->line, str_of(session->cursor));
        }

        return r;
}

static void hear_event(const struct chat_account *account, const struct node *event, const struct chat_ears *ears) {
        const struct node *content = chat_map(event, "content");
        const struct node *relation = chat_map(content, "m.relates_to");
        const struct chat_said said = { .id = chat_text(event, "event_id"),
                                        .sender = chat_text(event, "sender"),
                                        .room = str_of(account->room),
                                        .text = chat_text(content, "body"),
                                        .in_room = true,
                                        .edited = str_is(chat_text(relation, "rel_type"), "m.replace"),
                                        .bot = str_is(chat_text(content, "msgtype"), "m.notice"),
                                        .time_s = chat_number(event, "origin_server_ts") / 1000 };

        if (str_is(chat_text(event, "type"), "m.room.message") && !str_is(said.sender, account->account))
                ears->said(ears->arg, &said);
}

static int matrix_hear(const struct chat_account *account, struct chat_session *session, struct str bytes,
                       const struct chat_ears *ears) {
        cleanup(document_freep) struct document *document = NULL;
        const struct node *root, *events;
        bool first = !session->cursor[0];
        struct str next;

        if (json_read(bytes, STR("matrix"), &document, NULL) < 0)
                return -EBADMSG;

        root = document_root(document);
        next = chat_text(root, "next_batch");
        if (!next.n || next.n >= sizeof session->cursor)
                return -EBADMSG;

        (void)chat_keep(session->cursor, sizeof session->cursor, next);
        events = chat_list(chat_map(chat_map(chat_map(chat_map(root, "rooms"), "join"), account->room), "timeline"),
                           "events");
        for (const struct node *event = events ? events->first : NULL; event && !first; event = event->next)
                hear_event(account, event, ears);

        return 0;
}

static int matrix_post(const struct chat_account *account, struct chat_session *session, const struct chat_post *post,
                       struct chat_call *ret) {
        struct emit j = emit_to(&ret->body);
        char transaction[17];
        int r = put_head(account, ret);

        (void)session;
        random_id(transaction, sizeof transaction);
        if (r == 0)
                r = buf_add(&ret->headers, "Content-Type: application/json\r\n");
        if (r == 0)
                r = buf_add(&ret->line, "PUT /_matrix/client/v3/rooms/");
        if (r == 0)
                r = chat_escape(&ret->line, str_of(account->room));
        if (r == 0)
                r = buf_printf(&ret->line, "/send/m.room.message/%s", transaction);
        if (r < 0)
                return r;

        emit_open(&j, '{');
        emit_put_text(&j, "msgtype", "m.text");
        emit_put_text(&j, "body", post->text);
        emit_key(&j, "m.mentions"); /* nobody: names in the text call nobody */
        emit_open(&j, '{');
        emit_close(&j);
        emit_close(&j);

        return emit_status(&j);
}

const struct chat_service chat_matrix = { .name = "matrix",
                                          .needs_token = true,
                                          .needs_account = true,
                                          .check = matrix_check,
                                          .listen = matrix_listen,
                                          .hear = matrix_hear,
                                          .post = matrix_post };
