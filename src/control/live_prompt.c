/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of the terminal prompt. A person and the sandboxed program share one terminal, and the program would like to
 * answer its own question. What it could try, and what stands against it:
 *
 * - Read the answer away, or write over the question: every process of the sandbox stands still while the prompt is up
 *   (sandbox_freeze(); it is shown only after init has said that they do). Our process group takes the foreground, so
 *   that even one that ran would be stopped when it reads.
 * - Put words into the input: TIOCSTI and TIOCLINUX are refused inside by the filter, and the master side of a
 *   pseudo-terminal is not in the sandbox. What was typed or queued before the question is thrown away, after the
 * freeze and before the question is shown; what comes after the answer too.
 * - Make the terminal answer: a program can ask many terminals for reports (cursor position, title), and the reply
 * comes as input, maybe only while the question stands. Replies begin with an escape character; a line that is not
 * exactly one of the words is no answer, is thrown away with all that follows, and the question is asked again.
 * - Leave the terminal so that the question is not seen, or not as it is (hidden, in another alphabet, within a
 *   sequence that never ended), or so that keys mean something else: it is put right first, see prompt_uncover() and
 *   make_plain().
 * - Draw something that looks like the question earlier: then a person answers the program, not us. Nothing is
 *   decided by that, since only what is typed after our question counts.
 * - Hide or disguise the name: what is shown was parsed as a name before, is plain ASCII, and international names are
 * in their punycode form. A command is escaped; one that is too long to be shown whole is not asked about.
 *
 * A program that uses the terminal raw (an editor, a full-screen agent, a shell's line editor) is not disturbed: the
 * terminal is left alone but for its bell, the question waits for `bailey pending` and `bailey allow`, and the terminal
 * is looked at again now and then, in case that it becomes usable before the time is over.
 *
 * States: OFF, FREEZING, SHOWN. No answer is a no, by the gateway's clock.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "control/live_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { LOOK_AGAIN_MS = 250, LINE_MAX_BYTES = 64, WRITE_MS = 1000 };

/* Writing and changing the terminal from the background would stop us; with the signal blocked it is let through. */
static void block_stops(sigset_t *before) {
        sigset_t stops;
        sigemptyset(&stops);
        sigaddset(&stops, SIGTTOU);
        sigaddset(&stops, SIGTTIN);
        sigprocmask(SIG_BLOCK, &stops, before);
}

/* False when the terminal did not take all of it: it is gone, or somebody holds it (Ctrl-S) and we do not wait. */
static bool put(struct live *c, struct str text) {
        sigset_t before;
        int fd = c->parts.terminal->fd;
        uint64_t end = clock_ns() + WRITE_MS * NS_PER_MS;
        block_stops(&before);
        while (text.n) {
                struct pollfd ready = { .fd = fd, .events = POLLOUT };
                ssize_t n = write(fd, text.p, text.n);
                if (n > 0)
                        text = str_skip(text, (size_t)n);
                else if (n == 0 || (errno != EAGAIN && errno != EINTR) || clock_ns() >= end)
                        break;
                else if (errno == EAGAIN)
                        (void)poll(&ready, 1, 50);
        }
        sigprocmask(SIG_SETMASK, &before, NULL);
        return text.n == 0;
}

/* Lines, with echo: nobody draws on it, and what a person types is seen. */
static bool is_usable(const struct live *c) {
        struct termios t;
        const struct terminal *terminal = c->parts.terminal;
        const tcflag_t needed = ICANON | ECHO | ISIG;
        return terminal->fd >= 0 && terminal->lent && tcgetattr(terminal->fd, &t) == 0 &&
               (t.c_lflag & needed) == needed;
}

static struct question *next_question(struct live *c) {
        return c->questions.list.n ? &c->questions.list.p[0] : NULL;
}

/* Once for each question. */
static void ring(struct live *c) {
        bool rang = false;
        for (size_t i = 0; i < c->questions.list.n; i++) {
                struct question *q = &c->questions.list.p[i];
                if (!q->told && !rang)
                        (void)put(c, STR("\a"));
                rang = rang || !q->told;
                q->told = true;
        }
}

void live_prompt_consider(struct live *c) {
        c->prompt_retry_ns = 0;
        if (c->prompt != PROMPT_OFF || c->parts.cannot_freeze || (*c->parts.policy)->network.ask != ASK_TTY ||
            c->parts.terminal->fd < 0 || !next_question(c))
                return;
        if (is_usable(c)) {
                c->prompt = PROMPT_FREEZING;
                live_hold(c, HOLD_PROMPT);
                if (c->freeze == FREEZE_ON || !c->parts.freeze) /* it stood already, or nothing runs yet */
                        live_prompt_frozen(c, 0);
                return;
        }
        if (c->parts.terminal->lent)
                ring(c);
        c->prompt_retry_ns = clock_ns() + LOOK_AGAIN_MS * NS_PER_MS;
}

/* A question that a person cannot see whole is not answered here. */
static void ask(struct live *c) {
        cleanup(buf_done) struct buf out = BUF(65536);
        const struct question *q = questions_find(&c->questions, c->prompt_question);
        buf_clear(&c->typed);
        tcflush(c->parts.terminal->fd, TCIFLUSH);
        if (q && (buf_add(&out, prompt_uncover(getenv("TERM"))) < 0 || prompt_text(&out, q, c->parts.id) < 0 ||
                  !put(c, buf_str(&out))))
                live_prompt_end(c);
}

/* All that the program could have changed between the keys and the line, but for the speed and the character set. */
static void make_plain(struct termios *t) {
        t->c_iflag = (t->c_iflag & IUTF8) | ICRNL;
        t->c_oflag = OPOST | ONLCR;
        t->c_lflag = ICANON | ECHO | ECHOE | ECHOK | ISIG;
        t->c_cc[VINTR] = 'C' & 31;
        t->c_cc[VQUIT] = '\\' & 31;
        t->c_cc[VSUSP] = 'Z' & 31;
        t->c_cc[VEOF] = 'D' & 31;
        t->c_cc[VKILL] = 'U' & 31;
        t->c_cc[VERASE] = t->c_cc[VERASE] == '\b' ? '\b' : 0x7f;
        t->c_cc[VEOL] = t->c_cc[VEOL2] = _POSIX_VDISABLE;
}

static bool take_terminal(struct live *c) {
        struct terminal *t = c->parts.terminal;
        struct termios plain;
        c->foreground_before = tcgetpgrp(t->fd);
        terminal_take(t);
        if (tcgetattr(t->fd, &c->terminal_before) < 0)
                return false;
        plain = c->terminal_before;
        make_plain(&plain);
        return tcsetattr(t->fd, TCSAFLUSH, &plain) == 0 && fd_set_nonblocking(t->fd, true) == 0;
}

static void give_terminal_back(struct live *c) {
        struct terminal *t = c->parts.terminal;
        sigset_t before;
        (void)put(c, str_of(prompt_leave(getenv("TERM"))));
        block_stops(&before);
        (void)fd_set_nonblocking(t->fd, false);
        (void)tcsetattr(t->fd, TCSAFLUSH, &c->terminal_before); /* with all that was typed after the answer */
        if (c->foreground_before > 0 && tcsetpgrp(t->fd, c->foreground_before) == 0)
                t->lent = true;
        sigprocmask(SIG_SETMASK, &before, NULL);
}

/* The sandbox stands, or does not. The terminal may have changed until then. */
void live_prompt_frozen(struct live *c, int error) {
        if (c->prompt != PROMPT_FREEZING)
                return;
        const struct question *q = next_question(c);
        if (error || !q || !is_usable(c)) {
                c->prompt = PROMPT_OFF;
                live_release(c, HOLD_PROMPT);
                if (q) {
                        ring(c);
                        c->prompt_retry_ns = clock_ns() + LOOK_AGAIN_MS * NS_PER_MS;
                }
                return;
        }
        c->prompt = PROMPT_SHOWN;
        c->prompt_question = q->number;
        if (take_terminal(c))
                ask(c);
        else
                live_prompt_end(c);
}

void live_prompt_end(struct live *c) {
        if (c->prompt == PROMPT_SHOWN)
                give_terminal_back(c);
        if (c->prompt != PROMPT_OFF) {
                c->prompt = PROMPT_OFF;
                live_release(c, HOLD_PROMPT);
        }
        c->prompt_retry_ns = 0;
}

static void end_and_go_on(struct live *c) {
        live_prompt_end(c);
        if (next_question(c))
                c->prompt_retry_ns = clock_ns() + 1;
}

/* Answered elsewhere, or nobody waits any more. */
void live_prompt_gone(struct live *c, uint64_t question) {
        if (c->prompt != PROMPT_SHOWN || c->prompt_question != question)
                return;
        (void)put(c, STR("\r\nbailey: settled meanwhile\r\n"));
        end_and_go_on(c);
}

static void answer(struct live *c, enum control_answer a, enum control_scope scope) {
        cleanup(buf_done) struct buf out = BUF(ERR_TEXT_MAX + 64);
        struct err e = { 0 };
        uint64_t question = c->prompt_question;
        c->prompt_question = 0; /* its end is our doing */
        if (live_answer(c, question, a, scope, "terminal", &e) < 0 && buf_printf(&out, "bailey: %s\r\n", e.text) == 0)
                (void)put(c, buf_str(&out));
        end_and_go_on(c);
}

void live_prompt_interrupted(struct live *c) {
        if (c->prompt == PROMPT_SHOWN)
                answer(c, ANSWER_DENY, SCOPE_ONCE);
}

static void read_line(struct live *c, struct str line) {
        enum control_answer a;
        enum control_scope scope;
        if (prompt_read(line, &a, &scope) == PROMPT_ANSWER)
                answer(c, a, scope);
        else
                ask(c);
}

void live_prompt_read(struct live *c) {
        char bytes[LINE_MAX_BYTES];
        ssize_t n = read(c->parts.terminal->fd, bytes, sizeof bytes);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        if (n <= 0) { /* the end of the input, or of the terminal */
                answer(c, ANSWER_DENY, SCOPE_ONCE);
                return;
        }
        /* One read is one line here; a longer one is no answer, and its rest is thrown away. */
        struct str line = str_n(bytes, (size_t)n);
        bool whole = bytes[n - 1] == '\n';
        read_line(c, whole ? str_first(line, line.n - 1) : STR("?"));
}
