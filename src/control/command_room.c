/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of the room. Before a sandbox is made there is a policy, a record and somebody to ask; that is what stands
 * here: the audit of the run to come, and its control (live.h) without a sandbox. So a command is asked about as
 * a host is, on the terminal, by the socket and by hooks, and the first answer counts. What was answered for a
 * workspace or for good is found in the state database before anybody is asked.
 *
 * What is refused here leaves its line in the audit; what is approved is recorded by the run that follows, under the
 * same name and in the same file. Without an answer in time, or when the asker goes, it is refused.
 */
#include "control/command_room.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "control/own_records.h"
#include "control/place.h"
#include "control/questions.h"
#include "control/session.h"
#include "policy/own_commands.h"
#include "store/state.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

struct room {
        const struct room_request *q;
        struct room_outcome *out;
        struct session session; /* without vault and gateway; ended: there is an answer */
        struct path_rules *rules;
};

void room_outcome_done(struct room_outcome *o) {
        free(o->audit_path);
        o->audit_path = NULL;
}

static void settle(struct room *r, enum room_word word, const char *by) {
        r->session.ended = true;
        r->out->word = word;
        snprintf(r->out->by, sizeof r->out->by, "%s", by);
}

/*
 * The record.
 */
static void paths_done(struct plan_host *host) {
        for (size_t i = 0; i < host->paths.n; i++)
                free((char *)(uintptr_t)host->paths.p[i].path);
        vec_done(&host->paths);
}

static int open_record(struct room *r, struct err *e) {
        cleanup(free_ptr) char *cwd = realpath(".", NULL);
        struct plan_host host = { .cwd = cwd };
        if (!cwd)
                return err_errno(e, "the current directory cannot be used");
        int s = own_records(r->session.policy, r->rules, r->out->id, &host, &r->out->audit_path, e);
        paths_done(&host);
        return s < 0 ? s : session_open_audit(&r->session, r->out->audit_path, r->out->id, e);
}

static int close_record(struct room *r, struct err *e) {
        struct judged judged = r->q->judged;
        judged.by = r->out->by;
        if (r->out->word != ROOM_APPROVED || r->q->runs)
                judged_record(r->session.audit, &judged, r->q->runs);
        int s = audit_close(r->session.audit, e);
        r->session.audit = NULL;
        return s;
}

/*
 * What was answered before.
 */
static void look_up(struct room *r) {
        cleanup(state_closep) struct state *s = NULL;
        const struct judged *j = &r->q->judged;
        enum state_answer answer = STATE_NO_ANSWER;
        struct err e = { 0 };
        int found = state_open(&s, &e);
        if (found == 0)
                found = state_command(s, r->session.policy->workspace, j->rule, j->command, &answer, &e);
        if (found < 0 && found != -ENOENT)
                log_notice("what was approved before is not known: %s", err_text(&e));
        if (answer != STATE_NO_ANSWER)
                settle(r, answer == STATE_ALLOWED ? ROOM_APPROVED : ROOM_REFUSED,
                       answer == STATE_ALLOWED ? "approved before" : "denied before");
}

/*
 * Asking.
 */
static void on_decided(void *arg, bool allow, const char *by) {
        struct room *r = arg;
        char text[sizeof r->out->by];
        snprintf(text, sizeof text, "%s by %s", allow ? "approved" : "denied", by);
        settle(r, allow ? ROOM_APPROVED : ROOM_REFUSED, text);
}

/* `bailey kill`: there is nothing to end but the waiting. */
static void on_end(void *arg, int status) {
        (void)status;
        settle(arg, ROOM_LEFT, "the waiting was ended");
}

static bool somebody_is_there(const struct room *r) {
        const struct policy *p = r->session.policy;
        if (p->network.ask == ASK_NEVER)
                return false;
        return p->network.ask == ASK_CONTROL || p->approval.command || p->approval.webhook ||
               p->approval.chat.service != CHAT_NONE || (r->session.terminal.fd >= 0 && r->session.terminal.lent);
}

static int open_control(struct room *r, struct err *e) {
        static const int numbers[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };
        const struct live_parts parts = {
                .argv = r->q->argv, .options = r->q->options, .end = on_end, .decided = on_decided, .run = r
        };
        const struct judged *j = &r->q->judged;
        const struct question_command question = { .text = (char *)(uintptr_t)j->command,
                                                   .segment = (char *)(uintptr_t)j->segment,
                                                   .rule = (char *)(uintptr_t)j->rule,
                                                   .reason = (char *)(uintptr_t)j->reason };
        cleanup(free_ptr) char *directory = NULL;
        int s;

        s = session_catch(&r->session, numbers, sizeof numbers / sizeof *numbers, e);
        if (s < 0)
                return s;
        s = control_make_directory(&directory, e);
        if (s < 0)
                return s;
        s = session_open_control(&r->session, &parts, e);
        if (s < 0)
                return s;
        return live_ask_command(r->session.control, &question, e);
}

static void leave(struct room *r, enum room_word word, const char *why) {
        if (r->session.ended)
                return;
        live_command_gone(r->session.control, word == ROOM_LATE);
        settle(r, word, why);
}

static void room_on_signal(void *owner, const struct signalfd_siginfo *info) {
        struct room *r = owner;

        if (info->ssi_signo == SIGINT || info->ssi_signo == SIGQUIT)
                (void)live_signal(r->session.control, (int)info->ssi_signo, true); /* a prompt takes it as a no */
        leave(r, ROOM_LEFT, "interrupted");
}

static int room_on_deadline(void *owner, struct err *err) {
        (void)err;
        leave(owner, ROOM_LATE, "nobody answered in time");
        return 0;
}

static const struct session_calls room_calls = { .on_signal = room_on_signal, .on_deadline = room_on_deadline };

/* Nobody is asked off the record: what was written is on the disk before anybody is waited for. */
static int record_step(void *arg, struct poller *poller, struct err *err) {
        (void)poller;
        return audit_flush(((struct room *)arg)->session.audit, err);
}

static void record_watch(void *arg, struct poller *poller) {
        (void)arg;
        (void)poller;
}

static void asker_watch(void *arg, struct poller *poller) {
        poller_watch(poller, ((const struct room *)arg)->q->link, POLLIN);
}

static int asker_step(void *arg, struct poller *poller, struct err *err) {
        struct room *r = arg;
        (void)err;

        if (poller_ready(poller, r->q->link))
                leave(r, ROOM_LEFT, "the asker went away");
        return 0;
}

static int wait_for_answer(struct room *r, struct err *e) {
        struct session *session = &r->session;
        int s = audit_flush(session->audit, e);
        if (s < 0)
                return s;

        session->deadline_ns = clock_ns() + session->policy->network.ask_timeout_ns;
        session_add(session, SESSION_SIGNALS);
        poller_add(&session->poller, &(struct poller_part){ asker_watch, asker_step, r });
        session_add(session, SESSION_CONTROL);
        session_add(session, SESSION_DEADLINE);
        poller_add(&session->poller, &(struct poller_part){ record_watch, record_step, r });
        return session_loop(session, e);
}

static int ask(struct room *r, struct err *e) {
        if (r->session.policy->network.ask == ASK_NEVER && r->q->ask_terminal)
                r->session.policy->network.ask = ASK_TTY;
        terminal_open(&r->session.terminal);
        if (!somebody_is_there(r)) {
                settle(r, ROOM_NOBODY, "nobody is there to be asked");
                return 0;
        }
        int s = open_control(r, e);
        if (s == -E2BIG) {
                settle(r, ROOM_NOBODY, err_text(e));
                err_clear(e);
                return 0;
        }
        return s < 0 ? s : wait_for_answer(r, e);
}

static void room_done(struct room *r) {
        path_rules_free(r->rules);
        session_done(&r->session);
}

int room_wait(const struct room_request *q, struct room_outcome *ret, struct err *e) {
        cleanup(room_done) struct room r = { .q = q, .out = ret, .session = SESSION_NONE };
        *ret = (struct room_outcome){ .word = ROOM_NOBODY };

        session_init(&r.session, &room_calls, &r);
        random_id(ret->id, sizeof ret->id);
        snprintf(r.session.id, sizeof r.session.id, "%s", ret->id);

        int s = policy_load(q->policy, &r.session.policy, e);
        s = s < 0 ? s : own_commands_check(r.session.policy, environ, e);
        s = s < 0 ? s : path_rules_compile(r.session.policy, &r.rules, e);
        s = s < 0 ? s : open_record(&r, e);
        if (s < 0)
                return s;
        if (q->judged.by)
                settle(&r, q->runs ? ROOM_APPROVED : ROOM_REFUSED, q->judged.by);
        else
                look_up(&r);
        if (!r.session.ended)
                s = ask(&r, e);
        session_close_control(&r.session, 0);
        int closed = close_record(&r, s < 0 ? NULL : e);
        return s < 0 ? s : closed;
}
