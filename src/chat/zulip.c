/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zulip's REST API: POST /api/v1/register makes an event queue, GET /api/v1/events waits for events, POST
 * /api/v1/messages sends. A queue that the server has dropped (BAD_EVENT_QUEUE_ID, after ten minutes away) is a
 * refusal: we register again, and repeat the open questions.
 */
#include "base/cleanup.h"
#include "chat/service.h"
#include "conf/json.h"

#include <errno.h>
#include <stdio.h>

static int put_head(const struct chat_account *account, struct chat_call *ret) {
        int r = buf_add(&ret->url, account->url);

        if (r == 0)
                r = buf_printf(&ret->headers, "Authorization: Basic {basic:0:%s}\r\n", account->account);
        return r;
}

static struct str channel_of(const struct chat_account *account, struct str *ret_topic) {
        struct str rest = str_of(account->room), channel;

        str_split(&rest, '/', &channel);
        *ret_topic = rest;
        return channel;
}

static int zulip_check(const struct chat_account *account, struct err *err) {
        struct str topic, channel = channel_of(account, &topic);

        if (!channel.n || !topic.n)
                return err_set(err, EINVAL, "approval.chat.room of zulip is CHANNEL/TOPIC, as in \"agents/bailey\"");

        if (!strchr(account->account, '@') || strpbrk(account->account, "{}\r\n"))
                return err_set(err, EINVAL,
                               "approval.chat.account of zulip is the bot's address, as in "
                               "\"bailey-bot@chat.example.com\"");

        return 0;
}

static int put_field(struct buf *out, const char *name, struct str value) {
        int r = buf_printf(out, "%s%s=", out->n ? "&" : "", name);

        if (r < 0)
                return r;

        return chat_escape(out, value);
}

static int zulip_listen(const struct chat_account *account, struct chat_session *session, struct chat_call *ret) {
        int r = put_head(account, ret);

        if (r < 0)
                return r;

        if (!session->queue[0]) {
                r = buf_add(&ret->line, "POST /api/v1/register");
                if (r == 0)
                        r = buf_add(&ret->headers, "Content-Type: application/x-www-form-urlencoded\r\n");
                if (r == 0)
                        r = put_field(&ret->body, "event_types", STR("[\"message\",\"update_message\"]"));
                if (r < 0)
                        return r;

                return put_field(&ret->body, "apply_markdown", STR("false"));
        }

        ret->limit_ms = 120000;
        r = buf_add(&ret->line, "GET /api/v1/events?queue_id=");
        if (r == 0)
                r = chat_escape(&ret->line, str_of(session->queue));
        if (r < 0)
                return r;

        return buf_printf(&ret->line, "&last_event_id=%s", session->cursor);
}

static void hear_message(const struct chat_account *account, const struct node *message, const struct chat_ears *ears) {
        struct str topic, channel = channel_of(account, &topic);
        bool here = str_is(chat_text(message, "type"), "stream") &&
                    str_eq(chat_text(message, "display_recipient"), channel) &&
                    str_eq_nocase(chat_text(message, "subject"), topic);
        const struct chat_said said = { .id = chat_text(message, "id"),
                                        .sender = chat_text(message, "sender_email"),
                                        .sender_alt = chat_text(message, "sender_id"),
                                        .room = chat_text(message, "display_recipient"),
                                        .text = chat_text(message, "content"),
                                        .in_room = here,
                                        .time_s = chat_number(message, "timestamp") };

        if (!str_is(said.sender, account->account))
                ears->said(ears->arg, &said);
}

/* An edited message is no answer, whoever edited it. */
static void hear_edit(const struct node *event, const struct chat_ears *ears) {
        const struct chat_said said = { .sender = chat_text(event, "user_id"),
                                        .text = chat_text(event, "content"),
                                        .in_room = true,
                                        .edited = true,
                                        .time_s = chat_number(event, "edit_timestamp") };

        ears->said(ears->arg, &said);
}

static int zulip_hear(const struct chat_account *account, struct chat_session *session, struct str bytes,
                      const struct chat_ears *ears) {
        cleanup(document_freep) struct document *document = NULL;
        const struct node *root, *events;

        if (json_read(bytes, STR("zulip"), &document, NULL) < 0)
                return -EBADMSG;

        root = document_root(document);
        events = chat_list(root, "events");

        if (!session->queue[0]) {
                struct str cursor = chat_text(root, "last_event_id");

                if (!chat_text(root, "queue_id").n || !cursor.n || cursor.n > 20)
                        return -EBADMSG;

                (void)chat_keep(session->cursor, sizeof session->cursor, cursor);
                if (!chat_keep(session->queue, sizeof session->queue, chat_text(root, "queue_id")))
                        return -EBADMSG;

                return 0;
        }

        if (!events)
                return -EBADMSG;

        for (const struct node *event = events->first; event; event = event->next) {
                struct str id = chat_text(event, "id");

                if (!id.n || id.n > 20)
                        return -EBADMSG;

                (void)chat_keep(session->cursor, sizeof session->cursor, id);

                if (str_is(chat_text(event, "type"), "message"))
                        hear_message(account, chat_map(event, "message"), ears);
                else if (str_is(chat_text(event, "type"), "update_message"))
                        hear_edit(event, ears);
        }

        return 0;
}

static int zulip_post(const struct chat_account *account, struct chat_session *session, const struct chat_post *post,
                      struct chat_call *ret) {
        struct str topic, channel = channel_of(account, &topic);
        int r = put_head(account, ret);

        (void)session;
        if (r == 0)
                r = buf_add(&ret->line, "POST /api/v1/messages");
        if (r == 0)
                r = buf_add(&ret->headers, "Content-Type: application/x-www-form-urlencoded\r\n");
        if (r == 0)
                r = put_field(&ret->body, "type", STR("stream"));
        if (r == 0)
                r = put_field(&ret->body, "to", channel);
        if (r == 0)
                r = put_field(&ret->body, "topic", topic);
        if (r < 0)
                return r;

        /* In a block of code, where nothing is a mention or a link. The text has no backquotes. */
        cleanup(buf_done) struct buf text = BUF(CHAT_TEXT_MAX + 64);
        r = buf_printf(&text, "```text\n%s\n```", post->text);
        if (r < 0)
                return r;

        return put_field(&ret->body, "content", buf_str(&text));
}

const struct chat_service chat_zulip = { .name = "zulip",
                                         .needs_token = true,
                                         .needs_account = true,
                                         .forgets = true,
                                         .check = zulip_check,
                                         .listen = zulip_listen,
                                         .hear = zulip_hear,
                                         .post = zulip_post };
