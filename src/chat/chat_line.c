/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line to the service. Receiving and sending run in parallel: one long poll, and one request that sends. Each has
 * its own backoff, which a service's Retry-After lengthens. Letters stay queued in order until they are delivered; a
 * question that is closed meanwhile is dropped.
 *
 * A letter whose reply was lost is sent again, byte for byte: services that recognise a repeated request (Matrix) show
 * it once. People may see one twice; its code is still good for one answer only.
 */
#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "chat/chat_internal.h"

#include <stdarg.h>
#include <stdio.h>

enum { REFUSALS_MAX = 5, TOGETHER_FROM = 4, PAUSE_MS = 200 };
#define BACKOFF_MAX_S 60

static uint64_t backoff_ns(unsigned failures) {
        uint64_t seconds = failures < 7 ? 1ULL << failures : BACKOFF_MAX_S;

        return min_of(seconds, BACKOFF_MAX_S) * NS_PER_SECOND;
}

static uint64_t line_send(struct chat *chat, const struct chat_call *call) {
        const struct courier_message message = { .kind = COURIER_REQUEST,
                                                 .id = ++chat->last_id,
                                                 .flags = call->flags,
                                                 .limit_ms = call->limit_ms,
                                                 .parts = { buf_str(&call->url), buf_str(&call->line),
                                                            buf_str(&call->headers), buf_str(&call->body) } };

        if (courier_process_send(chat->courier, &message) == 0)
                return message.id;

        return 0;
}

/*
 * Hearing.
 */
static void hearing_begin(struct chat *chat) {
        cleanup(chat_call_done) struct chat_call call = CHAT_CALL;

        if (chat->service->listen(&chat->account, &chat->session, &call) == 0)
                chat->hearing.id = line_send(chat, &call);
        if (!chat->hearing.id)
                chat->hearing.retry_ns = clock_ns() + NS_PER_SECOND;
}

static void hearing_fail(struct chat *chat, const char *why, uint64_t retry_s) {
        uint64_t wait_ns = backoff_ns(chat->hearing.failures++);

        if (retry_s * NS_PER_SECOND > wait_ns)
                wait_ns = retry_s * NS_PER_SECOND;

        if (!chat->hearing.away_ns) {
                chat->hearing.away_ns = clock_ns();
                chat_note(chat, "the chat is away: %s", why);
        }

        if (chat->service->forgets)
                chat->session = (struct chat_session){ 0 };

        chat->hearing.id = 0;
        chat->hearing.retry_ns = clock_ns() + wait_ns;
}

static void hearing_works(struct chat *chat) {
        chat->hearing.failures = 0;
        if (!chat->hearing.away_ns)
                return;
        chat_note(chat, "the chat is back after %ju s",
                  (uintmax_t)((clock_ns() - chat->hearing.away_ns) / NS_PER_SECOND));
        chat->hearing.away_ns = 0;
}

static void send_ack(struct chat *chat) {
        const struct courier_message message = { .kind = COURIER_SEND,
                                                 .id = chat->hearing.id,
                                                 .parts = { str_of(chat->session.ack) } };

        if (chat->session.ack[0])
                (void)courier_process_send(chat->courier, &message); /* the service sends it again otherwise */
        chat->session.ack[0] = '\0';
}

/* False: not a valid message of the service. */
static bool line_hear(struct chat *chat, struct str bytes) {
        const struct chat_ears ears = { .said = orders_hear, .arg = chat };
        int r = chat->service->hear(&chat->account, &chat->session, bytes, &ears);

        send_ack(chat);
        return r == 0;
}

static void hearing_message(struct chat *chat, const struct courier_message *message) {
        char why[64];

        switch (message->kind) {
        case COURIER_OPEN:
                hearing_works(chat);
                return;
        case COURIER_DATA:
                if (line_hear(chat, message->parts[0]))
                        return;
                (void)courier_process_send(chat->courier,
                                           &(struct courier_message){ .kind = COURIER_CANCEL, .id = message->id });
                hearing_fail(chat, "what came is not what the service sends, or it wants a new connection", 0);

                return;
        case COURIER_REPLY:
                if (message->status == 200 && !chat_reply_is_refusal(message->parts[0]) &&
                    line_hear(chat, message->parts[0])) {
                        hearing_works(chat);
                        chat->hearing.id = 0;
                        chat->hearing.retry_ns = clock_ns() + PAUSE_MS * NS_PER_MS;
                        return;
                }
                snprintf(why, sizeof why, "the service answers with status %u", message->status);
                hearing_fail(chat, why, chat_retry_s(message->parts[0], message->retry_s));

                return;
        default:
                snprintf(why, sizeof why, "%.*s", STR_FMT(str_first(message->parts[0], 60)));
                hearing_fail(chat, why, 0);
        }
}

/*
 * Speaking.
 */
static void letter_free(struct chat_letter *letter) {
        free(letter->text);
}

static void letters_drop(struct chat *chat, size_t at) {
        letter_free(&chat->letters.p[at]);
        memmove(&chat->letters.p[at], &chat->letters.p[at + 1], (chat->letters.n - at - 1) * sizeof *chat->letters.p);
        chat->letters.n--;

        if (at == 0) {
                chat_call_done(&chat->speaking.call);
                chat->speaking.has_call = false;
                chat->speaking.failures = chat->speaking.refusals = 0;
        }
}

static void letters_add(struct chat *chat, struct chat_letter letter) {
        if (chat->letters.n >= CHAT_LETTERS_MAX && chat->dropped++ == 0)
                chat_note(chat, "%d messages wait for the chat: further ones are not sent", CHAT_LETTERS_MAX);
        if (chat->letters.n >= CHAT_LETTERS_MAX || vec_push(&chat->letters, letter) < 0)
                letter_free(&letter);
}

void line_say(struct chat *chat, const char *text) {
        struct chat_letter letter = { .text = str_dup(str_of(text)) };

        if (letter.text)
                letters_add(chat, letter);
}

void line_sayf(struct chat *chat, const char *format, ...) {
        char text[2048];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        line_say(chat, text);
}

void line_ask(struct chat *chat, const char *code) {
        struct chat_letter letter = { 0 };

        snprintf(letter.code, sizeof letter.code, "%s", code);
        letters_add(chat, letter);
}

void line_settle(struct chat *chat, struct str callback, const char *text) {
        cleanup(chat_call_done) struct chat_call call = CHAT_CALL;

        if (!callback.n || !chat->service->settle)
                return;
        if (chat->service->settle(&chat->account, callback, text, &call) == 0)
                (void)line_send(chat, &call); /* what becomes of it changes nothing */
}

/* Whether one more may go out within this minute; else when. */
static bool may_speak(struct chat *chat, uint64_t now, uint64_t *ret_when) {
        size_t most = chat->settings->policy->approval.chat.per_minute;
        size_t oldest = chat->speaking.n_sent % most;

        if (chat->speaking.n_sent < most || now - chat->speaking.sent_ns[oldest] >= 60 * NS_PER_SECOND)
                return true;
        *ret_when = chat->speaking.sent_ns[oldest] + 60 * NS_PER_SECOND;
        return false;
}

static bool is_dead(struct chat *chat, const struct chat_letter *letter, bool sent_before) {
        const struct chat_question *question = letter->code[0] ? questions_by_code(chat, letter->code) : NULL;

        if (!letter->code[0])
                return false;
        return !question || !question->open || (question->posted && !sent_before);
}

static size_t n_unasked(struct chat *chat) {
        size_t n = 0;

        for (size_t i = 0; i < chat->questions.n; i++)
                n += chat->questions.p[i].open && !chat->questions.p[i].posted;
        return n;
}

static int make_call(struct chat *chat, const struct chat_letter *letter) {
        cleanup(buf_done) struct buf text = BUF(CHAT_TEXT_MAX);
        struct chat_question *question = letter->code[0] ? questions_by_code(chat, letter->code) : NULL;
        bool together = question && n_unasked(chat) >= TOGETHER_FROM;
        int r;

        if (together)
                r = texts_questions(chat, &text);
        else if (question)
                r = texts_question(chat, question, &text);
        else
                r = buf_add(&text, letter->text);

        if (r < 0)
                return r;
        if (question)
                question->posted = true;

        const struct chat_post post = { .text = buf_text(&text),
                                        .code = question && question->host[0] && !together ? question->code : NULL };
        chat->speaking.call = CHAT_CALL;
        chat->speaking.has_call = true;

        if (!post.text)
                return -ENOMEM;

        return chat->service->post(&chat->account, &chat->session, &post, &chat->speaking.call);
}

static void speaking_begin(struct chat *chat, uint64_t now) {
        while (chat->letters.n && is_dead(chat, &chat->letters.p[0], chat->speaking.has_call))
                letters_drop(chat, 0);

        if (!chat->letters.n)
                return;

        if (!chat->speaking.has_call && make_call(chat, &chat->letters.p[0]) < 0) {
                chat_note(chat, "a message cannot be written for the chat and is left out");
                letters_drop(chat, 0);
                return;
        }

        chat->speaking.id = line_send(chat, &chat->speaking.call);
        if (!chat->speaking.id) {
                chat->speaking.retry_ns = now + NS_PER_SECOND;
                return;
        }

        chat->speaking.sent_ns[chat->speaking.n_sent++ % chat->settings->policy->approval.chat.per_minute] = now;
}

static void speaking_message(struct chat *chat, const struct courier_message *message) {
        bool refused = message->kind == COURIER_REPLY && chat_reply_is_refusal(message->parts[0]);
        bool good = message->kind == COURIER_REPLY && message->status / 100 == 2 && !refused;
        uint64_t retry_s = 0, wait_ns;

        chat->speaking.id = 0;

        if (good) {
                letters_drop(chat, 0);
                chat->ended = chat->ended || (chat->settings->test && !chat->letters.n);
                return;
        }

        if (message->kind == COURIER_REPLY)
                retry_s = chat_retry_s(message->parts[0], message->retry_s);

        bool for_good = message->kind == COURIER_REPLY && message->status != 429 && !retry_s &&
                        (message->status / 100 == 4 || refused);

        if (chat->speaking.failures == 0)
                chat_note(chat, "the chat did not take a message: %s, status %u",
                          message->kind == COURIER_REPLY ? "refused" : "no answer", message->status);

        if (chat->settings->test) {
                chat->failed = true;
                err_set(&chat->failure, EREMOTEIO, "%s did not take the message: %s", chat->service->name,
                        message->kind == COURIER_REPLY ? "it refuses (is the token right, and the account in the room?)"
                                                       : "it cannot be reached");
                return;
        }

        if (for_good && ++chat->speaking.refusals >= REFUSALS_MAX) {
                chat_note(chat, "a message is left out: the chat refused it %d times", REFUSALS_MAX);
                letters_drop(chat, 0);
                return;
        }

        wait_ns = backoff_ns(chat->speaking.failures++);
        chat->speaking.retry_ns = clock_ns() + (retry_s * NS_PER_SECOND > wait_ns ? retry_s * NS_PER_SECOND : wait_ns);
}

/*
 * Both.
 */
void line_message(void *arg, const struct courier_message *message) {
        struct chat *chat = arg;

        if (message->id && message->id == chat->hearing.id) {
                hearing_message(chat, message);
        } else if (message->id && message->id == chat->speaking.id) {
                speaking_message(chat, message);
        } else if (!message->id) { /* the courier died */
                if (chat->hearing.id)
                        hearing_fail(chat, "the courier ended", 0);
                if (chat->speaking.id)
                        speaking_message(chat, message);
        }
}

uint64_t line_tick(struct chat *chat) {
        uint64_t now = clock_ns(), due = CLOCK_NEVER, when = 0;

        if (!chat->hearing.id && !chat->settings->test) {
                if (now >= chat->hearing.retry_ns)
                        hearing_begin(chat);
                if (!chat->hearing.id)
                        due = chat->hearing.retry_ns;
        }

        if (chat->speaking.id || !chat->letters.n)
                return due;

        if (now < chat->speaking.retry_ns)
                when = chat->speaking.retry_ns;
        else if (may_speak(chat, now, &when))
                speaking_begin(chat, now);

        if (!chat->speaking.id && when < chat->speaking.retry_ns)
                when = chat->speaking.retry_ns;

        return !chat->speaking.id && chat->letters.n && when < due ? when : due;
}

void line_done(struct chat *chat) {
        for (size_t i = 0; i < chat->letters.n; i++)
                letter_free(&chat->letters.p[i]);
        vec_done(&chat->letters);
        chat_call_done(&chat->speaking.call);
}
