/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of the terminal prompt. A person and the sandboxed program share one terminal, and the program would like to
 * answer its own question. Its possible attacks, and the defences:
 *
 * - Steal the answer, or overwrite the question: every process of the sandbox is frozen while the prompt is up
 *   (sandbox_freeze(); the prompt is shown only after init has confirmed it). Our process group takes the foreground,
 *   so that even a process that still ran would be stopped when it reads.
 * - Inject input: the filter refuses TIOCSTI and TIOCLINUX inside, and the master side of the pseudo-terminal is not
 *   in the sandbox. Input from before the question is discarded, after the freeze and before the question is shown.
 *   Input after the answer is discarded too.
 * - Make the terminal answer: a program can ask many terminals for reports (cursor position, title). The reply comes
 *   as input, maybe only while the question is shown. Replies begin with an escape character. A line that is not
 *   exactly one of the words is discarded with all that follows, and the question is asked again.
 * - Leave the terminal in a state that hides or disguises the question (invisible, in another alphabet, within an
 *   unfinished sequence) or remaps keys: the state is reset first, see prompt_uncover() and make_plain().
 * - Draw a fake question earlier: then a person answers the program, not us. That decides nothing, since only input
 *   after our question counts.
 * - Hide or disguise the name: the name was parsed before, is plain ASCII, and international names are shown in
 *   punycode. A command is escaped; one that is too long to be shown whole is not asked about.
 *
 * A program that uses the terminal raw (an editor, a full-screen agent, a shell's line editor) is not disturbed: the
 * terminal only rings its bell, the question waits for `bailey pending` and `bailey allow`, and the terminal is checked
 * again now and then, in case it becomes usable before the deadline.
 *
 * States: OFF, FREEZING, SHOWN. No answer by the gateway's deadline is a no.
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
static bool prompt_put(struct live *live, struct str text) {
        sigset_t before;
        int fd = live->parts.terminal->fd;
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
static bool is_usable(const struct live *live) {
        struct termios termios;
        const struct terminal *terminal = live->parts.terminal;
        const tcflag_t needed = ICANON | ECHO | ISIG;
        return terminal->fd >= 0 && terminal->lent && tcgetattr(terminal->fd, &termios) == 0 &&
               (termios.c_lflag & needed) == needed;
}

static struct question *next_question(struct live *live) {
        return live->questions.list.n ? &live->questions.list.p[0] : NULL;
}

/* Once for each question. */
static void prompt_ring(struct live *live) {
        bool rang = false;

        for (size_t i = 0; i < live->questions.list.n; i++) {
                struct question *question = &live->questions.list.p[i];
                if (!question->told && !rang)
                        (void)prompt_put(live, STR("\a"));

                rang = rang || !question->told;
                question->told = true;
        }
}

void live_prompt_consider(struct live *live) {
        live->prompt_retry_ns = 0;
        if (live->prompt != PROMPT_OFF || live->parts.cannot_freeze || (*live->parts.policy)->network.ask != ASK_TTY ||
            live->parts.terminal->fd < 0 || !next_question(live))
                return;

        if (is_usable(live)) {
                live->prompt = PROMPT_FREEZING;
                live_hold(live, HOLD_PROMPT);
                if (live->freeze == FREEZE_ON || !live->parts.freeze) /* it stood already, or nothing runs yet */
                        live_prompt_frozen(live, 0);

                return;
        }

        if (live->parts.terminal->lent)
                prompt_ring(live);

        live->prompt_retry_ns = clock_ns() + LOOK_AGAIN_MS * NS_PER_MS;
}

/* A question that a person cannot see whole is not answered here. */
static void prompt_ask(struct live *live) {
        cleanup(buf_done) struct buf out = BUF(65536);
        const struct question *question = questions_find(&live->questions, live->prompt_question);
        buf_clear(&live->typed);
        tcflush(live->parts.terminal->fd, TCIFLUSH);
        if (question && (buf_add(&out, prompt_uncover(getenv("TERM"))) < 0 ||
                         prompt_text(&out, question, live->parts.id) < 0 || !prompt_put(live, buf_str(&out))))
                live_prompt_end(live);
}

/* All that the program could have changed between the keys and the line, but for the speed and the character set. */
static void make_plain(struct termios *termios) {
        termios->c_iflag = (termios->c_iflag & IUTF8) | ICRNL;
        termios->c_oflag = OPOST | ONLCR;
        termios->c_lflag = ICANON | ECHO | ECHOE | ECHOK | ISIG;
        termios->c_cc[VINTR] = 'C' & 31;
        termios->c_cc[VQUIT] = '\\' & 31;
        termios->c_cc[VSUSP] = 'Z' & 31;
        termios->c_cc[VEOF] = 'D' & 31;
        termios->c_cc[VKILL] = 'U' & 31;
        termios->c_cc[VERASE] = termios->c_cc[VERASE] == '\b' ? '\b' : 0x7f;
        termios->c_cc[VEOL] = termios->c_cc[VEOL2] = _POSIX_VDISABLE;
}

static bool take_terminal(struct live *live) {
        struct terminal *terminal = live->parts.terminal;
        struct termios plain;

        live->foreground_before = tcgetpgrp(terminal->fd);
        terminal_take(terminal);
        if (tcgetattr(terminal->fd, &live->terminal_before) < 0)
                return false;

        plain = live->terminal_before;
        make_plain(&plain);

        return tcsetattr(terminal->fd, TCSAFLUSH, &plain) == 0 && fd_set_nonblocking(terminal->fd, true) == 0;
}

static void give_terminal_back(struct live *live) {
        struct terminal *terminal = live->parts.terminal;
        sigset_t before;

        (void)prompt_put(live, str_of(prompt_leave(getenv("TERM"))));
        block_stops(&before);
        (void)fd_set_nonblocking(terminal->fd, false);
        (void)tcsetattr(terminal->fd, TCSAFLUSH, &live->terminal_before); /* with all that was typed after the answer */

        if (live->foreground_before > 0 && tcsetpgrp(terminal->fd, live->foreground_before) == 0)
                terminal->lent = true;

        sigprocmask(SIG_SETMASK, &before, NULL);
}

/* The sandbox stands, or does not. The terminal may have changed until then. */
void live_prompt_frozen(struct live *live, int error) {
        if (live->prompt != PROMPT_FREEZING)
                return;

        const struct question *question = next_question(live);
        if (error || !question || !is_usable(live)) {
                live->prompt = PROMPT_OFF;
                live_release(live, HOLD_PROMPT);

                if (question) {
                        prompt_ring(live);
                        live->prompt_retry_ns = clock_ns() + LOOK_AGAIN_MS * NS_PER_MS;
                }

                return;
        }

        live->prompt = PROMPT_SHOWN;
        live->prompt_question = question->number;
        if (take_terminal(live))
                prompt_ask(live);
        else
                live_prompt_end(live);
}

void live_prompt_end(struct live *live) {
        if (live->prompt == PROMPT_SHOWN)
                give_terminal_back(live);
        if (live->prompt != PROMPT_OFF) {
                live->prompt = PROMPT_OFF;
                live_release(live, HOLD_PROMPT);
        }
        live->prompt_retry_ns = 0;
}

static void end_and_go_on(struct live *live) {
        live_prompt_end(live);
        if (next_question(live))
                live->prompt_retry_ns = clock_ns() + 1;
}

/* Answered elsewhere, or nobody waits any more. */
void live_prompt_gone(struct live *live, uint64_t question) {
        if (live->prompt != PROMPT_SHOWN || live->prompt_question != question)
                return;
        (void)prompt_put(live, STR("\r\nbailey: settled meanwhile\r\n"));
        end_and_go_on(live);
}

static void prompt_answer(struct live *live, enum control_answer answer, enum control_scope scope) {
        cleanup(buf_done) struct buf out = BUF(ERR_TEXT_MAX + 64);
        struct err err = { 0 };
        uint64_t question = live->prompt_question;
        live->prompt_question = 0; /* its end is our doing */
        if (live_answer(live, question, answer, scope, "terminal", &err) < 0 &&
            buf_printf(&out, "bailey: %s\r\n", err.text) == 0)
                (void)prompt_put(live, buf_str(&out));
        end_and_go_on(live);
}

void live_prompt_interrupted(struct live *live) {
        if (live->prompt == PROMPT_SHOWN)
                prompt_answer(live, ANSWER_DENY, SCOPE_ONCE);
}

static void read_line(struct live *live, struct str line) {
        enum control_answer a;
        enum control_scope scope;
        if (prompt_read(line, &a, &scope) == PROMPT_ANSWER)
                prompt_answer(live, a, scope);
        else
                prompt_ask(live);
}

void live_prompt_read(struct live *live) {
        char bytes[LINE_MAX_BYTES];
        ssize_t n = read(live->parts.terminal->fd, bytes, sizeof bytes);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;

        if (n <= 0) { /* the end of the input, or of the terminal */
                prompt_answer(live, ANSWER_DENY, SCOPE_ONCE);
                return;
        }

        /* One read is one line here; a longer one is no answer, and its rest is thrown away. */
        struct str line = str_n(bytes, (size_t)n);
        bool whole = bytes[n - 1] == '\n';
        read_line(live, whole ? str_first(line, line.n - 1) : STR("?"));
}
