/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ntfy: POST / publishes JSON, GET /TOPIC,TOPIC/json is a stream of lines. Messages have no sender there: the server's
 * access control decides who may write to a topic. So each approver has a topic of their own, ROOM-NAME, and messages
 * in it count as NAME's. With one approver a question has buttons; they publish to that topic.
 */
#include "base/cleanup.h"
#include "base/emit.h"
#include "chat/service.h"
#include "conf/json.h"
#include "ipc/courier_messages.h"

#include <errno.h>
#include <stdio.h>

static bool is_topic(const char *text) {
        for (const char *at = text; *at; at++)
                if (!ascii_is_alnum(*at) && *at != '_' && *at != '-')
                        return false;
        return text[0] && strlen(text) <= 64;
}

static int ntfy_check(const struct chat_account *account, struct err *err) {
        bool good = is_topic(account->room);

        for (size_t i = 0; i < account->approvers->n; i++)
                good = good && is_topic(account->approvers->p[i].text) &&
                       strlen(account->room) + strlen(account->approvers->p[i].text) < 64;

        if (!good)
                return err_set(err, EINVAL,
                               "approval.chat.room and approvers of ntfy are letters, digits, - and _: what is said in "
                               "the topic ROOM-NAME counts as said by NAME, and ROOM-NAME has at most 64 characters");

        return 0;
}

static int put_head(const struct chat_account *account, struct chat_call *ret) {
        int r = buf_add(&ret->url, account->url);

        if (r == 0 && account->has_token)
                r = buf_add(&ret->headers, "Authorization: Bearer {token:0}\r\n");
        return r;
}

static int ntfy_listen(const struct chat_account *account, struct chat_session *session, struct chat_call *ret) {
        int r = put_head(account, ret);

        ret->flags = COURIER_LINES;
        ret->limit_ms = 120000; /* a line keeps it alive every 45 seconds */
        if (r == 0)
                r = buf_add(&ret->line, "GET /");

        for (size_t i = 0; r == 0 && i < account->approvers->n; i++)
                r = buf_printf(&ret->line, "%s%s-%s", i ? "," : "", account->room, account->approvers->p[i].text);

        if (r == 0)
                r = buf_add(&ret->line, "/json");

        if (r == 0 && session->cursor[0]) {
                r = buf_add(&ret->line, "?since=");
                if (r == 0)
                        r = chat_escape(&ret->line, str_of(session->cursor));
        }

        return r;
}

/* Before the first message, catch up from the time when we began to listen, by the service's own clock. */
static void keep_beginning(struct chat_session *session, uint64_t time_s) {
        char text[24];

        snprintf(text, sizeof text, "%ju", (uintmax_t)time_s);
        if (time_s)
                (void)chat_keep(session->cursor, sizeof session->cursor, str_of(text)); /* it fits */
}

static int ntfy_hear(const struct chat_account *account, struct chat_session *session, struct str bytes,
                     const struct chat_ears *ears) {
        cleanup(document_freep) struct document *document = NULL;
        const struct node *root;
        struct str topic, room = str_of(account->room);

        if (json_read(bytes, STR("ntfy"), &document, NULL) < 0)
                return -EBADMSG;

        root = document_root(document);
        if (str_is(chat_text(root, "event"), "open") && !session->cursor[0])
                keep_beginning(session, chat_number(root, "time"));
        if (!str_is(chat_text(root, "event"), "message")) {
                if (!chat_text(root, "event").n)
                        return -EBADMSG;
                return 0;
        }
        if (!chat_text(root, "id").n || chat_text(root, "id").n >= 64)
                return -EBADMSG;

        (void)chat_keep(session->cursor, sizeof session->cursor, chat_text(root, "id"));

        topic = chat_text(root, "topic");
        bool answers = str_starts(topic, room) && topic.n > room.n + 1 && topic.p[room.n] == '-';
        const struct chat_said said = { .id = chat_text(root, "id"),
                                        .sender = answers ? str_skip(topic, room.n + 1) : topic,
                                        .room = topic,
                                        .text = chat_text(root, "message"),
                                        .in_room = answers,
                                        .time_s = chat_number(root, "time") };
        ears->said(ears->arg, &said);

        return 0;
}

static int put_actions(const struct chat_account *account, const char *code, struct emit *json) {
        cleanup(free_ptr) char *url =
            str_format("%s/%s-%s", account->url, account->room, account->approvers->p[0].text);

        emit_key(json, "actions");
        emit_open(json, '[');

        for (size_t i = 0; i < 3; i++) { /* as many as ntfy shows: once, sandbox, deny */
                size_t button = i < 2 ? i : CHAT_BUTTONS - 1;
                char value[48];

                chat_button_value(button, code, value);
                emit_open(json, '{');
                emit_put_text(json, "action", "http");
                emit_put_text(json, "label", chat_button_labels[button]);
                emit_put_text(json, "url", url);
                emit_put_text(json, "method", "POST");
                emit_put_text(json, "body", value);
                emit_put_bool(json, "clear", true);
                emit_close(json);
        }

        emit_close(json);
        if (!url)
                return -ENOMEM;

        return 0;
}

static int ntfy_post(const struct chat_account *account, struct chat_session *session, const struct chat_post *post,
                     struct chat_call *ret) {
        struct emit j = emit_to(&ret->body);
        int r = put_head(account, ret);

        (void)session;
        if (r == 0)
                r = buf_add(&ret->line, "POST /");
        if (r == 0)
                r = buf_add(&ret->headers, "Content-Type: application/json\r\n");
        if (r < 0)
                return r;

        emit_open(&j, '{');
        emit_put_text(&j, "topic", account->room);
        emit_put_text(&j, "title", "bailey");
        emit_put_string(&j, "message", str_first(str_of(post->text), 3900)); /* longer ones become attachments */

        if (post->code && account->approvers->n == 1)
                r = put_actions(account, post->code, &j);

        emit_close(&j);
        if (r < 0)
                return r;

        return emit_status(&j);
}

const struct chat_service chat_ntfy = { .name = "ntfy",
                                        .url = "https://ntfy.sh",
                                        .check = ntfy_check,
                                        .listen = ntfy_listen,
                                        .hear = ntfy_hear,
                                        .post = ntfy_post };
