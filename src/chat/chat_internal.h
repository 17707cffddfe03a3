/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Parts: chat.c (life, loop), chat_peers.c (sandboxes), chat_questions.c (questions and their codes), chat_line.c
 * (hearing and speaking), chat_orders.c (what people said), chat_texts.c (what they read).
 */
#include "chat/chat.h"
#include "chat/chat_judge.h"
#include "control/client.h"
#include "roles/courier_process.h"
#include "store/audit.h"

enum {
        CHAT_PEERS_MAX = 256,
        CHAT_QUESTIONS_MAX = 1024, /* open ones and those that are remembered */
        CHAT_LETTERS_MAX = 256,
        CHAT_CONFIRMS_MAX = 16,
        CHAT_PER_MINUTE_MAX = 600,
};

/* A control connection to one sandbox. */
struct chat_peer {
        struct control_client client;
        bool gone;
        char *command, *workspace; /* escaped; NULL: not known yet */
        uint64_t status_id, pending_id;
};

struct chat_question {
        char sandbox[CONTROL_ID_MAX];
        uint64_t number;
        char code[CHAT_CODE_MAX];
        char *about;  /* "connect to example.com:443", escaped */
        char *detail; /* further lines, escaped; may be "" */
        char host[HOST_TEXT_MAX + 1];
        uint64_t expires_us;
        bool open, posted;
        bool call;         /* of a bridged tool: an answer can hold until the sandbox ends */
        bool partial;      /* longer than what is shown: it can be denied here, and nothing else */
        char outcome[200]; /* of one that is closed */
};

/* Something to be said. Of a question: its code, and the text is made when it goes out. */
struct chat_letter {
        char *text;
        char code[CHAT_CODE_MAX];
};

/* An order that must be said twice. */
struct chat_confirm {
        char code[CHAT_CODE_MAX]; /* "": free */
        enum chat_verb verb;
        char sandbox[CONTROL_ID_MAX];
        uint64_t until_ns;
};

struct chat {
        const struct chat_settings *settings;
        const struct chat_service *service;
        struct chat_account account;
        struct chat_session session;
        struct chat_judge judge;
        struct courier_process *courier;
        struct audit *audit;
        int signals, places;
        bool ended, failed;
        struct err failure; /* of a test */

        VEC(struct chat_peer *) peers;
        VEC(struct chat_question) questions;
        VEC(struct chat_letter) letters;
        struct chat_confirm confirms[CHAT_CONFIRMS_MAX];
        uint64_t look_ns;

        uint64_t last_id;
        struct {
                uint64_t id; /* 0: nothing is under way */
                uint64_t retry_ns, away_ns;
                unsigned failures;
        } hearing;
        struct {
                uint64_t id;
                bool is_letter;        /* else a button's own answer */
                struct chat_call call; /* of the first letter; kept until it is there */
                bool has_call;
                uint64_t retry_ns;
                unsigned failures, refusals;
                uint64_t sent_ns[CHAT_PER_MINUTE_MAX];
                size_t n_sent;
        } speaking;
        uint64_t dropped; /* letters that found no room */
};

/* chat.c */
__attribute__((format(printf, 2, 3))) void chat_note(struct chat *chat, const char *format, ...);

/* chat_peers.c */
void peers_look(struct chat *chat);
void peers_step(struct chat *chat, struct chat_peer *peer);
void peers_sweep(struct chat *chat);
void peers_done(struct chat *chat);
struct chat_peer *peers_find(struct chat *chat, const char *sandbox);

/* chat_questions.c */
void questions_open(struct chat *chat, const char *sandbox, const struct node *question);
void questions_close(struct chat *chat, const char *sandbox, uint64_t number, const char *outcome);
void questions_close_all(struct chat *chat, const char *sandbox);
struct chat_question *questions_by_code(struct chat *chat, const char *code);
size_t questions_n_open(const struct chat *chat);
void questions_forget(struct chat *chat);
void chat_make_code(char ret[static CHAT_CODE_MAX]);

/* chat_line.c */
void line_say(struct chat *chat, const char *text);
__attribute__((format(printf, 2, 3))) void line_sayf(struct chat *chat, const char *format, ...);
void line_ask(struct chat *chat, const char *code);
void line_settle(struct chat *chat, struct str callback, const char *text);
/* What is due now; returns when to look again. */
uint64_t line_tick(struct chat *chat);
void line_message(void *arg, const struct courier_message *message);
void line_done(struct chat *chat);

/* chat_orders.c */
void orders_hear(void *arg, const struct chat_said *said);

/* chat_texts.c: into out, escaped, for a chat. */
int texts_safe(struct buf *out, struct str text, size_t max);
int texts_question(struct chat *chat, const struct chat_question *question, struct buf *out);
int texts_questions(struct chat *chat, struct buf *out); /* several in one message; marks them as posted */
int texts_pending(struct chat *chat, struct buf *out);
int texts_sandboxes(struct chat *chat, struct buf *out);
extern const char chat_help_text[];
