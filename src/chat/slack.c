/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slack by Socket Mode: apps.connections.open (app-level token) names a WebSocket, on which events, buttons and slash
 * commands come as envelopes; each is acknowledged. chat.postMessage (bot token) speaks. The WebSocket's address comes
 * from the service and is used only where it is a host of the same domain.
 */
#include "base/cleanup.h"
#include "base/emit.h"
#include "chat/service.h"
#include "conf/json.h"
#include "ipc/courier_messages.h"

#include <errno.h>
#include <stdio.h>

static int slack_listen(const struct chat_account *account, struct chat_session *session, struct chat_call *ret) {
        int r;

        if (!session->socket[0]) {
                r = buf_add(&ret->url, account->url);
                if (r == 0)
                        r = buf_add(&ret->line, "POST /api/apps.connections.open");
                if (r < 0)
                        return r;

                return buf_add(&ret->headers, "Authorization: Bearer {token:1}\r\n"
                                              "Content-Type: application/x-www-form-urlencoded\r\n");
        }

        /* Used once: whatever becomes of it, the next one is asked for. */
        struct str rest = str_of(session->socket), scheme = STR("https");
        if (str_starts(rest, STR("ws://")))
                scheme = STR("http");

        rest = str_skip(rest, scheme.n == 5 ? 6 : 5);
        ptrdiff_t slash = str_find(rest, '/');
        struct str host = rest, path = STR("/");
        if (slash >= 0) {
                host = str_first(rest, (size_t)slash);
                path = str_skip(rest, (size_t)slash);
        }

        ret->flags = COURIER_WEBSOCKET;
        ret->limit_ms = 90000; /* Slack sends a ping every few seconds */
        r = buf_printf(&ret->url, "%.*s://%.*s", STR_FMT(scheme), STR_FMT(host));
        if (r == 0)
                r = buf_printf(&ret->line, "GET %.*s", STR_FMT(path));

        session->socket[0] = '\0';
        return r;
}

/* "wss://HOST/..." with a host of the account's domain, or the account's own host and port for a server of one's own.
 */
static bool socket_is_good(const struct chat_account *account, struct str url) {
        struct str own = str_of(account->url), host, rest;
        bool tls = str_starts(url, STR("wss://"));

        for (size_t i = 0; i < url.n; i++)
                if ((unsigned char)url.p[i] <= 0x20 || (unsigned char)url.p[i] >= 0x7f || url.p[i] == '{')
                        return false;

        if (!tls && !(str_starts(url, STR("ws://")) && str_starts(own, STR("http://"))))
                return false;

        rest = str_skip(url, tls ? 6 : 5);
        str_split(&rest, '/', &host);
        own = str_skip(own, str_starts(own, STR("https://")) ? 8 : 7);
        if (str_eq(host, own))
                return true;

        return tls && host.n > own.n && host.p[host.n - own.n - 1] == '.' && str_ends(host, own);
}

static void hear_event(const struct chat_account *account, const struct node *payload, const struct chat_ears *ears) {
        const struct node *event = chat_map(payload, "event");
        struct str subtype = chat_text(event, "subtype");
        const struct node *changed = chat_map(event, "message"); /* of a message_changed */
        const struct node *message = changed ? changed : event;
        const struct chat_said said = { .id = chat_text(payload, "event_id"),
                                        .sender = chat_text(message, "user"),
                                        .room = chat_text(event, "channel"),
                                        .text = chat_text(message, "text"),
                                        .in_room = str_is(chat_text(event, "channel"), account->room),
                                        .edited = subtype.n > 0 || chat_map(event, "edited"),
                                        .bot = chat_text(event, "bot_id").n > 0,
                                        .time_s = chat_number(payload, "event_time") };

        if (str_is(chat_text(event, "type"), "message") && !str_is(subtype, "bot_message"))
                ears->said(ears->arg, &said);
}

static void hear_button(const struct chat_account *account, const struct node *root, const struct node *payload,
                        const struct chat_ears *ears) {
        const struct node *actions = chat_list(payload, "actions");
        const struct node *action = actions ? actions->first : NULL;
        const struct chat_said said = {
                .id = chat_text(root, "envelope_id"),
                .sender = chat_text(chat_map(payload, "user"), "id"),
                .room = chat_text(chat_map(payload, "channel"), "id"),
                .text = chat_text(action, "value"),
                .in_room = str_is(chat_text(chat_map(payload, "channel"), "id"), account->room),
                .time_s = chat_number(action, "action_ts"),
        };

        if (action)
                ears->said(ears->arg, &said);
}

static int hear_command(const struct chat_account *account, const struct node *root, const struct node *payload,
                        const struct chat_ears *ears) {
        cleanup(buf_done) struct buf text = BUF(CHAT_TEXT_MAX);
        int r = buf_append(&text, chat_text(payload, "command"));

        if (r == 0)
                r = buf_add_char(&text, ' ');
        if (r == 0)
                r = buf_append(&text, chat_text(payload, "text"));
        if (r < 0)
                return -EBADMSG;

        const struct chat_said said = { .id = chat_text(root, "envelope_id"),
                                        .sender = chat_text(payload, "user_id"),
                                        .room = chat_text(payload, "channel_id"),
                                        .text = buf_str(&text),
                                        .in_room = str_is(chat_text(payload, "channel_id"), account->room) };
        ears->said(ears->arg, &said);

        return 0;
}

static int put_ack(struct chat_session *session, struct str envelope) {
        cleanup(buf_done) struct buf out = BUF(sizeof session->ack - 1);
        struct emit j = emit_to(&out);

        emit_open(&j, '{');
        emit_put_string(&j, "envelope_id", envelope);
        emit_close(&j);
        if (emit_status(&j) == 0 && chat_keep(session->ack, sizeof session->ack, buf_str(&out)))
                return 0;

        return -EBADMSG;
}

static int slack_hear(const struct chat_account *account, struct chat_session *session, struct str bytes,
                      const struct chat_ears *ears) {
        cleanup(document_freep) struct document *document = NULL;
        const struct node *root, *payload;
        struct str type, envelope;

        session->ack[0] = '\0';
        if (json_read(bytes, STR("slack"), &document, NULL) < 0)
                return -EBADMSG;

        root = document_root(document);
        if (chat_text(root, "ok").n) { /* of apps.connections.open */
                struct str url = chat_text(root, "url");
                if (socket_is_good(account, url) && chat_keep(session->socket, sizeof session->socket, url))
                        return 0;

                return -EBADMSG;
        }

        type = chat_text(root, "type");
        envelope = chat_text(root, "envelope_id");
        payload = chat_map(root, "payload");

        if (str_is(type, "disconnect"))
                return -ECONNRESET; /* it wants us to connect anew */
        if (envelope.n && put_ack(session, envelope) < 0)
                return -EBADMSG;

        if (str_is(type, "events_api"))
                hear_event(account, payload, ears);
        else if (str_is(type, "interactive"))
                hear_button(account, root, payload, ears);
        else if (str_is(type, "slash_commands"))
                return hear_command(account, root, payload, ears);

        return 0;
}

/* The characters that begin mentions and links there. */
static int put_plain(struct buf *out, const char *text) {
        int r = 0;

        for (; r == 0 && *text; text++) {
                if (*text == '&')
                        r = buf_add(out, "&amp;");
                else if (*text == '<')
                        r = buf_add(out, "&lt;");
                else if (*text == '>')
                        r = buf_add(out, "&gt;");
                else
                        r = buf_add_char(out, *text);
        }

        return r;
}

static void put_buttons(struct emit *json, const char *code) {
        emit_open(json, '{');
        emit_put_text(json, "type", "actions");
        emit_key(json, "elements");
        emit_open(json, '[');

        for (size_t i = 0; i < CHAT_BUTTONS; i++) {
                char value[48], action[16];

                chat_button_value(i, code, value);
                snprintf(action, sizeof action, "bailey-%zu", i);
                emit_open(json, '{');
                emit_put_text(json, "type", "button");
                emit_put_text(json, "action_id", action);
                emit_put_text(json, "value", value);
                emit_key(json, "text");
                emit_open(json, '{');
                emit_put_text(json, "type", "plain_text");
                emit_put_text(json, "text", chat_button_labels[i]);
                emit_close(json);
                emit_close(json);
        }

        emit_close(json);
        emit_close(json);
}

static int slack_post(const struct chat_account *account, struct chat_session *session, const struct chat_post *post,
                      struct chat_call *ret) {
        cleanup(buf_done) struct buf plain = BUF(6 * CHAT_TEXT_MAX);
        struct emit j = emit_to(&ret->body);
        int r = buf_add(&ret->url, account->url);

        (void)session;
        if (r == 0)
                r = buf_add(&ret->line, "POST /api/chat.postMessage");

        if (r == 0)
                r = buf_add(&ret->headers, "Authorization: Bearer {token:0}\r\n"
                                           "Content-Type: application/json; charset=utf-8\r\n");

        if (r == 0)
                r = put_plain(&plain, post->text);
        if (r < 0)
                return r;

        emit_open(&j, '{');
        emit_put_text(&j, "channel", account->room);
        emit_put_string(&j, "text", buf_str(&plain));
        emit_put_bool(&j, "unfurl_links", false);

        if (post->code) {
                emit_key(&j, "blocks");
                emit_open(&j, '[');
                emit_open(&j, '{');
                emit_put_text(&j, "type", "section");
                emit_key(&j, "text");
                emit_open(&j, '{');
                emit_put_text(&j, "type", "plain_text");
                emit_put_string(&j, "text", str_first(str_of(post->text), 2900)); /* of 3,000 */
                emit_close(&j);
                emit_close(&j);
                put_buttons(&j, post->code);
                emit_close(&j);
        }

        emit_close(&j);
        return emit_status(&j);
}

const struct chat_service chat_slack = { .name = "slack",
                                         .url = "https://slack.com",
                                         .needs_token = true,
                                         .needs_app_token = true,
                                         .forgets = true,
                                         .listen = slack_listen,
                                         .hear = slack_hear,
                                         .post = slack_post };
