/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the chat services have in common, and one table row for each. Pure: settings in, requests out; bytes in, what
 * people said out. chat/chat_judge.h decides who may answer and what counts, the same for all.
 *
 *   service    hears by                                    speaks by                         buttons
 *   zulip      event queue, long poll                      POST /api/v1/messages             no
 *   slack      Socket Mode, a WebSocket                    chat.postMessage                  yes
 *   telegram   getUpdates, long poll                       sendMessage                       yes
 *   matrix     /sync, long poll                            PUT .../send/m.room.message       no
 *   ntfy       a stream of JSON lines                      POST /                            one approver: yes
 *   generic    GET /messages?after=CURSOR, long poll       POST /messages                    the bridge's affair
 *
 * Every connection goes out. No port is opened.
 */
#include "base/buf.h"
#include "base/err.h"
#include "conf/node.h"
#include "policy/policy.h"

enum { CHAT_TEXT_MAX = 8192, CHAT_CALL_MAX = 65536, CHAT_CODE_MAX = 9 };

struct chat_account {
        enum chat_kind kind;
        const char *url; /* "https://HOST[:PORT]" */
        const char *account, *room;
        const origin_texts *approvers;
        bool has_token;
};

/* Where hearing stands. Zeroed at the start. */
struct chat_session {
        char queue[256];   /* zulip */
        char cursor[1024]; /* zulip, telegram, matrix, ntfy, generic */
        char socket[1024]; /* slack: the WebSocket to be opened next; "" to ask for one */
        char ack[256];     /* slack: to be sent back on the WebSocket */
};

/* A request, as the courier makes it (ipc/courier_messages.h). */
struct chat_call {
        struct buf url, line, headers, body;
        unsigned flags; /* enum courier_flags */
        uint64_t limit_ms;
};
#define CHAT_CALL                                                                                                      \
        ((struct chat_call){ .url = BUF(2048),                                                                         \
                             .line = BUF(8192),                                                                        \
                             .headers = BUF(2048),                                                                     \
                             .body = BUF(CHAT_CALL_MAX),                                                               \
                             .limit_ms = 30000 })
void chat_call_done(struct chat_call *call);

/* What somebody said. Texts live during the call only, and are anybody's. */
struct chat_said {
        struct str id;                 /* the service's own, for duplicates */
        struct str sender, sender_alt; /* the account's id, and where there is one its other name; "" for none */
        struct str room, text;
        struct str callback; /* telegram: to be told that the button was seen; "" for none */
        bool in_room;        /* it was said where questions are asked */
        bool edited, forwarded, bot;
        uint64_t time_s; /* 0: the service does not say */
};

struct chat_ears {
        void (*said)(void *arg, const struct chat_said *said);
        void *arg;
};

struct chat_post {
        const char *text;
        const char *code; /* of the question, for buttons; NULL: none */
};

struct chat_service {
        const char *name, *url; /* url: of the service itself; NULL: everybody has their own */
        bool needs_token, needs_app_token, needs_account;
        bool forgets;                                                      /* after a refusal hearing begins anew */
        int (*check)(const struct chat_account *account, struct err *err); /* optional */
        int (*listen)(const struct chat_account *account, struct chat_session *session, struct chat_call *ret);
        /* A reply, a line or a message of what listen() began. -EBADMSG: not as the service must; the session is as
         * before then. */
        int (*hear)(const struct chat_account *account, struct chat_session *session, struct str bytes,
                    const struct chat_ears *ears);
        int (*post)(const struct chat_account *account, struct chat_session *session, const struct chat_post *post,
                    struct chat_call *ret);
        /* Optional: the button's own answer. */
        int (*settle)(const struct chat_account *account, struct str callback, const char *text, struct chat_call *ret);
};
/* NULL: CHAT_NONE. */
const struct chat_service *chat_service_of(enum chat_kind kind);
extern const struct chat_service chat_zulip, chat_slack, chat_telegram, chat_matrix, chat_ntfy, chat_generic;

/* A reply with status 200 whose body says no ("ok": false). */
bool chat_reply_is_refusal(struct str body);
/* Seconds that the service wants to be left alone; header_s: of Retry-After. */
uint64_t chat_retry_s(struct str body, uint32_t header_s);

/* For services: members of objects, "" or 0 where they are missing or of another type. */
struct str chat_text(const struct node *map, const char *key);
const struct node *chat_map(const struct node *map, const char *key);
const struct node *chat_list(const struct node *map, const char *key);
uint64_t chat_number(const struct node *map, const char *key);
bool chat_true(const struct node *map, const char *key);
/* Percent-encoded: everything but letters, digits and -._~ */
int chat_escape(struct buf *out, struct str text);
/* False when it does not fit; ret is "" then. */
bool chat_keep(char *ret, size_t size, struct str text);
/* Buttons: their words, and what each says ("allow CODE once"). */
enum { CHAT_BUTTONS = 4 };
extern const char *const chat_button_labels[CHAT_BUTTONS];
void chat_button_value(size_t button, const char *code, char ret[static 48]);
