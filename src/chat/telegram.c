/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telegram's Bot API: getUpdates as a long poll, sendMessage with an inline keyboard, answerCallbackQuery for its
 * buttons. The token is part of the path. Texts are sent without a parse mode, so that nothing in them is markup.
 */
#include "base/cleanup.h"
#include "base/emit.h"
#include "chat/service.h"
#include "conf/json.h"

#include <errno.h>
#include <stdio.h>

static int telegram_check(const struct chat_account *account, struct err *err) {
        struct str room = str_of(account->room);
        uint64_t number;

        if (room.n && room.p[0] == '-')
                room = str_skip(room, 1);
        if (!str_to_u64(room, UINT64_MAX / 2, &number))
                return err_set(err, EINVAL, "approval.chat.room of telegram is the chat's number, as in \"-1001234\"");

        for (size_t i = 0; i < account->approvers->n; i++)
                if (!str_to_u64(str_of(account->approvers->p[i].text), UINT64_MAX / 2, &number))
                        return err_set(err, EINVAL,
                                       "approval.chat.approvers of telegram are numbers of users: names can be taken "
                                       "over by others");

        return 0;
}

static int telegram_listen(const struct chat_account *account, struct chat_session *session, struct chat_call *ret) {
        int r = buf_add(&ret->url, account->url);

        ret->limit_ms = 75000;

        if (r == 0)
                r = buf_printf(&ret->line, "GET /bot{token:0}/getUpdates?timeout=50&offset=%s&allowed_updates=",
                               session->cursor[0] ? session->cursor : "0");

        if (r < 0)
                return r;

        return chat_escape(&ret->line, STR("[\"message\",\"edited_message\",\"callback_query\"]"));
}

static void hear_message(const struct chat_account *account, const struct node *update, const struct node *message,
                         bool edited, const struct chat_ears *ears) {
        const struct node *from = chat_map(message, "from");
        const struct chat_said said = { .id = chat_text(update, "update_id"),
                                        .sender = chat_text(from, "id"),
                                        .room = chat_text(chat_map(message, "chat"), "id"),
                                        .text = chat_text(message, "text"),
                                        .in_room = str_is(chat_text(chat_map(message, "chat"), "id"), account->room),
                                        .edited = edited,
                                        .forwarded = chat_map(message, "forward_origin") ||
                                                     chat_text(message, "forward_date").n > 0 ||
                                                     chat_map(message, "via_bot"),
                                        .bot = chat_true(from, "is_bot"),
                                        .time_s = chat_number(message, "date") };

        ears->said(ears->arg, &said);
}

static void hear_button(const struct chat_account *account, const struct node *update, const struct node *query,
                        const struct chat_ears *ears) {
        const struct node *chat = chat_map(chat_map(query, "message"), "chat");
        const struct chat_said said = { .id = chat_text(update, "update_id"),
                                        .sender = chat_text(chat_map(query, "from"), "id"),
                                        .room = chat_text(chat, "id"),
                                        .text = chat_text(query, "data"),
                                        .callback = chat_text(query, "id"),
                                        .in_room = str_is(chat_text(chat, "id"), account->room),
                                        .bot = chat_true(chat_map(query, "from"), "is_bot") };

        ears->said(ears->arg, &said);
}

static int telegram_hear(const struct chat_account *account, struct chat_session *session, struct str bytes,
                         const struct chat_ears *ears) {
        cleanup(document_freep) struct document *document = NULL;
        const struct node *list;
        uint64_t next = 0, id;

        if (json_read(bytes, STR("telegram"), &document, NULL) < 0)
                return -EBADMSG;

        list = chat_list(document_root(document), "result");
        if (!list)
                return -EBADMSG;

        (void)str_to_u64(str_of(session->cursor), UINT64_MAX / 2, &next);

        for (const struct node *update = list->first; update; update = update->next) {
                if (!str_to_u64(chat_text(update, "update_id"), UINT32_MAX, &id))
                        return -EBADMSG;

                if (id + 1 > next)
                        next = id + 1; /* out of order, what was seen stays seen */
                snprintf(session->cursor, sizeof session->cursor, "%ju", (uintmax_t)next);

                if (chat_map(update, "message"))
                        hear_message(account, update, chat_map(update, "message"), false, ears);
                else if (chat_map(update, "edited_message"))
                        hear_message(account, update, chat_map(update, "edited_message"), true, ears);
                else if (chat_map(update, "callback_query"))
                        hear_button(account, update, chat_map(update, "callback_query"), ears);
        }

        return 0;
}

static int put_head(const struct chat_account *account, const char *method, struct chat_call *ret) {
        int r = buf_add(&ret->url, account->url);

        if (r == 0)
                r = buf_printf(&ret->line, "POST /bot{token:0}/%s", method);
        if (r < 0)
                return r;

        return buf_add(&ret->headers, "Content-Type: application/json\r\n");
}

static int telegram_post(const struct chat_account *account, struct chat_session *session, const struct chat_post *post,
                         struct chat_call *ret) {
        struct emit j = emit_to(&ret->body);
        int r = put_head(account, "sendMessage", ret);

        (void)session;
        if (r < 0)
                return r;

        emit_open(&j, '{');
        emit_put_text(&j, "chat_id", account->room);
        emit_put_string(&j, "text", str_first(str_of(post->text), 4000)); /* of 4,096 */

        if (post->code) {
                emit_key(&j, "reply_markup");
                emit_open(&j, '{');
                emit_key(&j, "inline_keyboard");
                emit_open(&j, '[');

                for (size_t i = 0; i < CHAT_BUTTONS; i++) {
                        char value[48];

                        chat_button_value(i, post->code, value);
                        emit_open(&j, '[');
                        emit_open(&j, '{');
                        emit_put_text(&j, "text", chat_button_labels[i]);
                        emit_put_text(&j, "callback_data", value);
                        emit_close(&j);
                        emit_close(&j);
                }

                emit_close(&j);
                emit_close(&j);
        }

        emit_close(&j);
        return emit_status(&j);
}

static int telegram_settle(const struct chat_account *account, struct str callback, const char *text,
                           struct chat_call *ret) {
        struct emit j = emit_to(&ret->body);
        int r = put_head(account, "answerCallbackQuery", ret);

        if (r < 0)
                return r;

        emit_open(&j, '{');
        emit_put_string(&j, "callback_query_id", callback);
        emit_put_string(&j, "text", str_first(str_of(text), 190)); /* of 200 */
        emit_close(&j);

        return emit_status(&j);
}

const struct chat_service chat_telegram = { .name = "telegram",
                                            .url = "https://api.telegram.org",
                                            .needs_token = true,
                                            .check = telegram_check,
                                            .listen = telegram_listen,
                                            .hear = telegram_hear,
                                            .post = telegram_post,
                                            .settle = telegram_settle };
