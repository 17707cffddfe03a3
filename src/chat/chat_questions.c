/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions and their codes. A code is made here, belongs to this process and is good for one answer. Closed questions
 * are remembered for a while, so that a late answer gets their outcome as a reply.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/secrets/secret.h"
#include "chat/chat_internal.h"

#include <stdio.h>

enum { ABOUT_MAX = 8192, ABOUT_SHOWN = 2000, TEXT_SHOWN = 800, MEMBER_SHOWN = 400 };

static void question_done(struct chat_question *question) {
        free(question->about);
        free(question->detail);
}

void questions_forget(struct chat *chat) {
        for (size_t i = 0; i < chat->questions.n; i++)
                question_done(&chat->questions.p[i]);
        vec_done(&chat->questions);
}

void chat_make_code(char ret[static CHAT_CODE_MAX]) {
        random_id(ret, CHAT_CODE_MAX);
}

size_t questions_n_open(const struct chat *chat) {
        size_t n = 0;

        for (size_t i = 0; i < chat->questions.n; i++)
                n += chat->questions.p[i].open;
        return n;
}

struct chat_question *questions_by_code(struct chat *chat, const char *code) {
        struct chat_question *found = NULL;

        for (size_t i = 0; i < chat->questions.n; i++)
                if (secret_equal(str_of(chat->questions.p[i].code), str_of(code)))
                        found = &chat->questions.p[i];
        return found;
}

static struct chat_question *find_open(struct chat *chat, const char *sandbox, uint64_t number) {
        for (size_t i = 0; i < chat->questions.n; i++) {
                struct chat_question *question = &chat->questions.p[i];

                if (question->open && question->number == number && strcmp(question->sandbox, sandbox) == 0)
                        return question;
        }
        return NULL;
}

/* The oldest that is closed makes room. */
static bool make_room(struct chat *chat) {
        if (chat->questions.n < CHAT_QUESTIONS_MAX)
                return vec_reserve(&chat->questions, 1) == 0;

        for (size_t i = 0; i < chat->questions.n; i++) {
                if (chat->questions.p[i].open)
                        continue;

                question_done(&chat->questions.p[i]);
                memmove(&chat->questions.p[i], &chat->questions.p[i + 1],
                        (chat->questions.n - i - 1) * sizeof *chat->questions.p);
                chat->questions.n--;
                return true;
        }

        return false;
}

/*
 * What a question is about.
 */
static int put_member(struct buf *out, const char *before, const struct node *map, const char *key) {
        const char *text = control_text(map, key);
        int r;

        if (!text || !text[0])
                return 0;

        r = buf_add(out, before);
        if (r == 0)
                r = texts_safe(out, str_of(text), MEMBER_SHOWN);
        if (r < 0)
                return r;

        return buf_add(out, "\n");
}

/* Each of these says what the question is about, and in `detail` what else helps to answer it. */
static int about_command(struct buf *about, struct buf *detail, const struct node *question) {
        int r = buf_add(about, "run a command: ");

        if (r == 0)
                r = texts_safe(about, str_of(control_text(question, "command")), TEXT_SHOWN);
        if (r == 0)
                r = put_member(detail, "What decides is: ", question, "segment");
        if (r < 0)
                return r;

        return put_member(detail, "Why it is asked: ", question, "reason");
}

static int about_push(struct buf *about, struct buf *detail, const struct node *question) {
        int r = texts_safe(about, str_of(control_text(question, "push")), TEXT_SHOWN);
        if (r < 0)
                return r;

        return put_member(detail, "To: ", question, "target");
}

static int about_page(struct buf *about, struct buf *detail, const struct node *question) {
        (void)detail;
        int r = buf_add(about, "open a page in your browser: ");
        if (r < 0)
                return r;

        return texts_safe(about, str_of(control_text(question, "page")), TEXT_SHOWN);
}

static int about_call(struct buf *about, struct buf *detail, const struct node *question) {
        int r = buf_add(about, "run the tool ");

        if (r == 0)
                r = texts_safe(about, str_of(control_text(question, "tool")), TEXT_SHOWN);
        if (r == 0)
                r = buf_add(about, " on your host: ");
        if (r == 0)
                r = texts_safe(about, str_of(control_text(question, "call")), TEXT_SHOWN);
        if (r < 0)
                return r;

        return put_member(detail, "In: ", question, "directory");
}

static int about_access(struct buf *about, struct buf *detail, const struct node *question) {
        int r = texts_safe(about, str_of(control_text(question, "access")), TEXT_SHOWN);
        if (r < 0)
                return r;

        return put_member(
            detail, control_bool(question, "held") ? "Why it is asked: " : "The agent's reason: ", question, "reason");
}

static int about_connection(struct buf *about, struct buf *detail, const struct node *question) {
        int r = buf_add(about, "connect to ");

        if (r == 0)
                r = texts_safe(about, str_of(control_text(question, "host")), HOST_TEXT_MAX);
        if (r == 0)
                r = buf_printf(about, ":%ju", (uintmax_t)control_number(question, "port"));
        if (r == 0)
                r = put_member(detail, "By: ", question, "via");
        if (r == 0)
                r = put_member(detail, "The agent's reason: ", question, "reason");
        if (r < 0)
                return r;

        return buf_printf(detail, "No rule decides about this host. Connections that wait: %ju\n",
                          (uintmax_t)control_number(question, "waiting"));
}

static int put_about(struct buf *about, struct buf *detail, const struct node *question) {
        static const struct {
                const char *kind;
                int (*put)(struct buf *about, struct buf *detail, const struct node *question);
        } kinds[] = {
                { "command", about_command }, { "push", about_push },     { "page", about_page },
                { "call", about_call },       { "access", about_access },
        };
        const char *kind = control_text(question, "kind");

        for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++)
                if (strcmp(kind, kinds[i].kind) == 0)
                        return kinds[i].put(about, detail, question);

        return about_connection(about, detail, question);
}

/* Nobody can agree to text that is not shown. Services cut long messages, so the text has a limit of its own. */
static bool is_partial(const struct node *question, const struct buf *about) {
        static const char *const keys[] = { "command", "push", "page", "call", "access" };

        const char *directory = control_text(question, "directory");

        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
                const char *text = control_text(question, keys[i]);
                if (text && strlen(text) > TEXT_SHOWN)
                        return true;
        }

        if (directory && strlen(directory) > MEMBER_SHOWN)
                return true;

        return about->n > ABOUT_SHOWN;
}

void questions_open(struct chat *chat, const char *sandbox, const struct node *node) {
        cleanup(buf_done) struct buf about = BUF(ABOUT_MAX), detail = BUF(2 * ABOUT_MAX);
        struct chat_question question = { .number = control_number(node, "id"), .open = true };
        const char *host = control_text(node, "host"), *expires = control_text(node, "expires");

        if (!node || find_open(chat, sandbox, question.number) || put_about(&about, &detail, node) < 0)
                return;

        question.call = control_text(node, "call") != NULL;
        question.partial = is_partial(node, &about);
        if (question.partial &&
            buf_add(&detail, "It is longer than this. It can be denied here; whoever allows it reads it whole, with "
                             "bailey pending or in the dashboard.\n") < 0)
                return;

        if (!make_room(chat)) {
                chat_note(chat, "a question of sandbox %s is not asked here: %d wait already", sandbox,
                          CHAT_QUESTIONS_MAX);
                return;
        }

        snprintf(question.sandbox, sizeof question.sandbox, "%s", sandbox);
        snprintf(question.host, sizeof question.host, "%s", text_or(host, ""));
        if (expires)
                (void)clock_parse_text(str_of(expires), &question.expires_us);

        do
                chat_make_code(question.code);
        while (questions_by_code(chat, question.code));

        question.about = str_dup(buf_str(&about));
        question.detail = str_dup(detail.n ? buf_str(&detail) : STR(""));
        if (!question.about || !question.detail) {
                question_done(&question);
                return;
        }

        chat->questions.p[chat->questions.n++] = question;
        line_ask(chat, question.code);
}

static void question_close(struct chat *chat, struct chat_question *question, const char *outcome) {
        if (!question->open)
                return;
        question->open = false;
        snprintf(question->outcome, sizeof question->outcome, "%s", outcome);
        if (question->posted)
                line_sayf(chat, "%s: %s: %s", question->code, question->about, outcome);
}

void questions_close(struct chat *chat, const char *sandbox, uint64_t number, const char *outcome) {
        struct chat_question *question = find_open(chat, sandbox, number);

        if (question)
                question_close(chat, question, outcome);
}

void questions_close_all(struct chat *chat, const char *sandbox) {
        for (size_t i = 0; i < chat->questions.n; i++)
                if (strcmp(chat->questions.p[i].sandbox, sandbox) == 0)
                        question_close(chat, &chat->questions.p[i], "the sandbox has ended");
}
