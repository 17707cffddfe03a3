/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders. Strangers get no reply in the room: it would tell them that somebody listens. An approver learns why an order
 * does not count. An answer goes to the sandbox over a connection of its own, under the approver's name, so that the
 * sandbox's log says whose it was.
 *
 * Pausing, resuming and killing belong to no question, so they must be confirmed: repeated with a code.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/secrets/secret.h"
#include "chat/chat_internal.h"

#include <errno.h>
#include <stdio.h>

#define CONFIRM_NS (120 * NS_PER_SECOND)

static void note_refusal(struct chat *chat, const struct chat_said *said, const char *why) {
        cleanup(buf_done) struct buf text = BUF(2048);

        if (buf_add(&text, "refused: \"") < 0 || escape_text(&text, said->text, 120) < 0 ||
            buf_add(&text, "\", said by \"") < 0 || escape_text(&text, said->sender, 80) < 0 ||
            buf_add(&text, "\" in \"") < 0 || escape_text(&text, said->room, 80) < 0 ||
            buf_printf(&text, "\": %s", why) < 0 || !buf_text(&text))
                chat_note(chat, "refused: something that cannot be shown: %s", why);
        else
                chat_note(chat, "%s", text.p);
}

/* Refused for an approver: recorded, and they get the reason. */
static void orders_refuse(struct chat *chat, const struct chat_said *said, const char *who, const char *why) {
        cleanup(buf_done) struct buf name = BUF(256);

        note_refusal(chat, said, why);
        line_settle(chat, said->callback, why);
        if (texts_safe(&name, str_of(who), 80) == 0 && buf_text(&name))
                line_sayf(chat, "%s: that does not count: %s", name.p, why);
}

/* What the sandbox's log calls them: printable ASCII, and short. */
static void client_name(const char *who, char ret[static 64]) {
        size_t n = (size_t)snprintf(ret, 64, "bailey chat ");

        for (; *who && n < 60; who++)
                ret[n++] = (*who > 0x20 && *who < 0x7f && *who != '(' && *who != ')') ? *who : '_';
        ret[n] = '\0';
}

static int tell_sandbox(const char *sandbox, const char *who, const struct control_request *request, struct err *err) {
        struct control_client client;
        struct control_message reply = { 0 };
        char name[64];
        int r;

        client_name(who, name);
        r = control_client_open(sandbox, name, &client, err);
        if (r < 0)
                return r;

        r = control_client_call(&client, request, &reply, err);
        control_message_done(&reply);
        control_client_done(&client);

        return r;
}

/*
 * Answers.
 */
/* "example.com" and "example.com:443" name the question's host; anything else is another one. */
static bool host_fits(const struct chat_question *question, const char *name) {
        size_t n = strlen(question->host);

        if (!name[0])
                return true;
        return n && strncmp(name, question->host, n) == 0 && (!name[n] || name[n] == ':');
}

/* NULL when the answer fits the question. */
static const char *why_unfit(const struct chat_question *question, const struct chat_order *order) {
        if (!host_fits(question, order->name))
                return "the code belongs to a question about another host";
        if (order->verb == CHAT_ALLOW && question->partial)
                return "it is longer than what is shown here: allow it where all of it can be read";
        if (question->call && order->scope > SCOPE_SANDBOX)
                return "an answer about a call counts once, or until the sandbox ends";
        if (!question->host[0] && !question->call && order->scope > SCOPE_ONCE)
                return "an answer to this question counts once: leave out the scope";

        return NULL;
}

/* The question that this order may answer; otherwise it is refused, and NULL returned. */
static struct chat_question *find_answerable(struct chat *chat, const struct chat_said *said,
                                             const struct chat_order *order, const char *who) {
        struct chat_question *question = questions_by_code(chat, order->code);

        if (!question) {
                bool locked = chat_judge_wrong_code(&chat->judge, who, clock_ns());

                orders_refuse(
                    chat, said, who,
                    locked ? "no question has this code; after so many wrong ones, nothing of yours counts for ten "
                             "minutes"
                           : "no question has this code");
                return NULL;
        }

        chat_judge_right_code(&chat->judge, who);

        if (!question->open) {
                char why[280];

                snprintf(why, sizeof why, "the question is closed already: %s", question->outcome);
                orders_refuse(chat, said, who, why);
                return NULL;
        }

        const char *unfit = why_unfit(question, order);
        if (unfit) {
                orders_refuse(chat, said, who, unfit);
                return NULL;
        }

        return question;
}

static void order_answer(struct chat *chat, const struct chat_said *said, const struct chat_order *order,
                         const char *who) {
        struct chat_question *question = find_answerable(chat, said, order, who);
        bool allow = order->verb == CHAT_ALLOW;
        struct err err = { 0 };

        if (!question)
                return;

        const struct control_request request = { .what = CONTROL_ANSWER,
                                                 .question = question->number,
                                                 .answer = allow ? ANSWER_ALLOW : ANSWER_DENY,
                                                 .scope = order->scope };
        if (tell_sandbox(question->sandbox, who, &request, &err) < 0) {
                orders_refuse(chat, said, who, err_text(&err));
                return;
        }

        chat_note(chat, "%s: %s, %s, scope %s, by %s", question->sandbox, question->about, allow ? "allow" : "deny",
                  control_scope_name(order->scope), who);
        line_settle(chat, said->callback, allow ? "allowed" : "denied");

        /* Worth one answer, whether the sandbox's event has come or not. */
        char outcome[200], name[64];
        client_name(who, name);
        snprintf(outcome, sizeof outcome, "%s (%s), by control (%s)", allow ? "allowed" : "denied",
                 control_scope_name(order->scope), name);
        questions_close(chat, question->sandbox, question->number, outcome);
}

/*
 * Orders that need a confirmation.
 */
static void confirm_ask(struct chat *chat, const struct chat_order *order, const char *sandbox) {
        struct chat_confirm *confirm = &chat->confirms[0];

        for (size_t i = 1; i < CHAT_CONFIRMS_MAX; i++)
                if (chat->confirms[i].until_ns < confirm->until_ns)
                        confirm = &chat->confirms[i];

        *confirm = (struct chat_confirm){ .verb = order->verb, .until_ns = clock_ns() + CONFIRM_NS };
        snprintf(confirm->sandbox, sizeof confirm->sandbox, "%s", sandbox);
        chat_make_code(confirm->code);
        /* By the id: until the answer comes, the name may be another guest's. */
        char guest[160] = "";
        if (!str_starts(str_of(sandbox), str_of(order->name)))
                snprintf(guest, sizeof guest, ", the guest %.128s", order->name);

        line_sayf(chat, "To %s sandbox %s%s, say within two minutes: /%s %s %s", chat_verb_name(order->verb), sandbox,
                  guest, chat_verb_name(order->verb), sandbox, confirm->code);
}

/* Each code is worth one order, for the sandbox and the verb that it was given for. */
static bool confirm_take(struct chat *chat, const struct chat_order *order, const char *sandbox) {
        for (size_t i = 0; i < CHAT_CONFIRMS_MAX; i++) {
                struct chat_confirm *confirm = &chat->confirms[i];

                if (!confirm->code[0] || !secret_equal(str_of(confirm->code), str_of(order->code)))
                        continue;

                bool good = confirm->verb == order->verb && strcmp(confirm->sandbox, sandbox) == 0 &&
                            clock_ns() < confirm->until_ns;
                *confirm = (struct chat_confirm){ 0 };
                return good;
        }

        return false;
}

static void order_sandbox(struct chat *chat, const struct chat_said *said, const struct chat_order *order,
                          const char *who) {
        static const enum control_do acts[CHAT_VERBS] = {
                [CHAT_PAUSE] = CONTROL_PAUSE, [CHAT_RESUME] = CONTROL_RESUME, [CHAT_KILL] = CONTROL_KILL
        };
        cleanup(free_ptr) char *sandbox = NULL;
        struct err err = { 0 };

        if (chat->settings->resolve(order->name, &sandbox, &err) < 0) {
                orders_refuse(chat, said, who, err_text(&err));
                return;
        }

        if (!order->code[0]) {
                confirm_ask(chat, order, sandbox);
                return;
        }

        if (!confirm_take(chat, order, sandbox)) {
                bool locked = chat_judge_wrong_code(&chat->judge, who, clock_ns());

                orders_refuse(
                    chat, said, who,
                    locked ? "the code is not for this; after so many wrong ones, nothing of yours counts for ten "
                             "minutes"
                           : "the code is not for this, or it is too old");
                return;
        }

        if (tell_sandbox(sandbox, who, &(struct control_request){ .what = acts[order->verb] }, &err) < 0) {
                orders_refuse(chat, said, who, err_text(&err));
                return;
        }

        chat_note(chat, "%s: %s, by %s", sandbox, chat_verb_name(order->verb), who);
        line_sayf(chat, "%s: %s, done", sandbox, chat_verb_name(order->verb));
}

static void say_text(struct chat *chat, int (*make)(struct chat *chat, struct buf *out)) {
        cleanup(buf_done) struct buf text = BUF(CHAT_TEXT_MAX);

        if (make(chat, &text) == 0 && buf_text(&text))
                line_say(chat, text.p);
}

static void order_obey(struct chat *chat, const struct chat_said *said, const struct chat_order *order,
                       const char *who) {
        switch (order->verb) {
        case CHAT_ALLOW:
        case CHAT_DENY:
                order_answer(chat, said, order, who);
                return;
        case CHAT_PENDING:
                say_text(chat, texts_pending);
                return;
        case CHAT_PS:
                say_text(chat, texts_sandboxes);

                return;
        case CHAT_HELP:
                line_say(chat, chat_help_text);
                return;
        default:
                order_sandbox(chat, said, order, who);
        }
}

void orders_hear(void *arg, const struct chat_said *said) {
        struct chat *chat = arg;
        struct chat_order order = { 0 };
        struct err err = { 0 };
        const char *who = NULL;
        int r = chat_order_parse(said->text, &order, &err);

        if (r == 0)
                return; /* people talk */

        enum chat_ruling ruling =
            chat_judge_hear(&chat->judge, said, &order, clock_ns(), clock_wall_us() / 1000000, &who);
        if (ruling != CHAT_COUNTS) {
                note_refusal(chat, said, chat_ruling_text(ruling));
                return;
        }

        if (r < 0)
                orders_refuse(chat, said, who, err_text(&err));
        else
                order_obey(chat, said, &order, who);
}
