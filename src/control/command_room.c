/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of the room. A command that needs approval waits here, with the audit of the run to come and its control
 * (live.h), but without a sandbox. A person is asked as about a host: on the terminal, by the socket and by hooks, and
 * the first answer counts. Answers that were given for a workspace or for good come from the state database, before
 * anybody is asked.
 *
 * A refusal is recorded here; an approval is recorded by the run that follows, under the same name and in the same
 * file. Without an answer in time, or if the caller goes away, the command is refused.
 */
#include "control/command_room.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "control/control_place.h"
#include "control/own_records.h"
#include "control/questions.h"
#include "control/session.h"
#include "policy/tools/own_commands.h"
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

void room_outcome_done(struct room_outcome *outcome) {
        free(outcome->audit_path);
        outcome->audit_path = NULL;
}

static void room_settle(struct room *room, enum room_word word, const char *by) {
        room->session.ended = true;
        room->out->word = word;
        snprintf(room->out->by, sizeof room->out->by, "%s", by);
}

/*
 * The record.
 */
static void paths_done(struct plan_host *host) {
        for (size_t i = 0; i < host->paths.n; i++)
                free((char *)(uintptr_t)host->paths.p[i].path);
        vec_done(&host->paths);
}

static int open_record(struct room *room, struct err *err) {
        cleanup(free_ptr) char *cwd = realpath(".", NULL);
        struct plan_host host = { .cwd = cwd };

        if (!cwd)
                return err_errno(err, "the current directory cannot be used");

        int s = own_records(room->session.policy, room->rules, room->out->id, &host, &room->out->audit_path, err);
        paths_done(&host);
        if (s < 0)
                return s;

        return session_open_audit(&room->session, room->out->audit_path, room->out->id, err);
}

static int close_record(struct room *room, struct err *err) {
        struct judged judged = room->q->judged;
        judged.by = room->out->by;
        if (room->out->word != ROOM_APPROVED || room->q->runs)
                judged_record(room->session.audit, &judged, room->q->runs);
        int s = audit_close(room->session.audit, err);
        room->session.audit = NULL;
        return s;
}

/*
 * What was answered before.
 */
static void look_up(struct room *room) {
        cleanup(state_closep) struct state *s = NULL;
        const struct judged *judged = &room->q->judged;
        enum state_answer answer = STATE_NO_ANSWER;
        struct err e = { 0 };
        int found = state_open(&s, &e);
        if (found == 0)
                found = state_command(s, room->session.policy->workspace, judged->rule, judged->command, &answer, &e);
        if (found < 0 && found != -ENOENT)
                log_notice("what was approved before is not known: %s", err_text(&e));

        if (answer == STATE_ALLOWED)
                room_settle(room, ROOM_APPROVED, "approved before");
        else if (answer != STATE_NO_ANSWER)
                room_settle(room, ROOM_REFUSED, "denied before");
}

/*
 * Asking.
 */
static void on_decided(void *arg, bool allow, const char *by) {
        struct room *room = arg;
        char text[sizeof room->out->by];
        snprintf(text, sizeof text, "%s by %s", allow ? "approved" : "denied", by);
        room_settle(room, allow ? ROOM_APPROVED : ROOM_REFUSED, text);
}

/* `bailey kill`: there is nothing to end but the waiting. */
static void on_end(void *arg, int status) {
        (void)status;
        room_settle(arg, ROOM_LEFT, "the waiting was ended");
}

static bool somebody_is_there(const struct room *room) {
        const struct policy *policy = room->session.policy;
        if (policy->network.ask == ASK_NEVER)
                return false;
        return policy->network.ask == ASK_CONTROL || policy->approval.command || policy->approval.webhook ||
               policy->approval.chat.service != CHAT_NONE ||
               (room->session.terminal.fd >= 0 && room->session.terminal.lent);
}

static int open_control(struct room *room, struct err *err) {
        static const int numbers[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };
        const struct live_parts parts = {
                .argv = room->q->argv, .options = room->q->options, .end = on_end, .decided = on_decided, .run = room
        };
        const struct judged *judged = &room->q->judged;
        const struct question_command question = { .text = (char *)(uintptr_t)judged->command,
                                                   .segment = (char *)(uintptr_t)judged->segment,
                                                   .rule = (char *)(uintptr_t)judged->rule,
                                                   .reason = (char *)(uintptr_t)judged->reason };
        cleanup(free_ptr) char *directory = NULL;
        int s;

        s = session_catch(&room->session, numbers, sizeof numbers / sizeof *numbers, err);
        if (s < 0)
                return s;

        s = control_make_directory(&directory, err);
        if (s < 0)
                return s;

        s = session_open_control(&room->session, &parts, err);
        if (s < 0)
                return s;

        return live_ask_command(room->session.control, &question, err);
}

static void room_leave(struct room *room, enum room_word word, const char *why) {
        if (room->session.ended)
                return;
        live_command_gone(room->session.control, word == ROOM_LATE);
        room_settle(room, word, why);
}

static void room_on_signal(void *owner, const struct signalfd_siginfo *info) {
        struct room *room = owner;

        if (info->ssi_signo == SIGINT || info->ssi_signo == SIGQUIT)
                (void)live_signal(room->session.control, (int)info->ssi_signo, true); /* a prompt takes it as a no */
        room_leave(room, ROOM_LEFT, "interrupted");
}

static int room_on_deadline(void *owner, struct err *err) {
        (void)err;
        room_leave(owner, ROOM_LATE, "nobody answered in time");
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
        struct room *room = arg;
        (void)err;

        if (poller_ready(poller, room->q->link))
                room_leave(room, ROOM_LEFT, "the asker went away");
        return 0;
}

static int wait_for_answer(struct room *room, struct err *err) {
        struct session *session = &room->session;
        int s = audit_flush(session->audit, err);
        if (s < 0)
                return s;

        session->deadline_ns = clock_ns() + session->policy->network.ask_timeout_ns;
        session_add(session, SESSION_SIGNALS);
        poller_add(&session->poller, &(struct poller_part){ asker_watch, asker_step, room });
        session_add(session, SESSION_CONTROL);
        session_add(session, SESSION_DEADLINE);
        poller_add(&session->poller, &(struct poller_part){ record_watch, record_step, room });

        return session_loop(session, err);
}

static int room_ask(struct room *room, struct err *err) {
        if (room->session.policy->network.ask == ASK_NEVER && room->q->ask_terminal)
                room->session.policy->network.ask = ASK_TTY;

        terminal_open(&room->session.terminal);

        if (!somebody_is_there(room)) {
                room_settle(room, ROOM_NOBODY, "nobody is there to be asked");
                return 0;
        }

        int s = open_control(room, err);
        if (s == -E2BIG) {
                room_settle(room, ROOM_NOBODY, err_text(err));
                err_clear(err);
                return 0;
        }

        if (s < 0)
                return s;

        return wait_for_answer(room, err);
}

static void room_done(struct room *room) {
        path_rules_free(room->rules);
        session_done(&room->session);
}

int room_wait(const struct room_request *request, struct room_outcome *ret, struct err *err) {
        cleanup(room_done) struct room room = { .q = request, .out = ret, .session = SESSION_NONE };

        *ret = (struct room_outcome){ .word = ROOM_NOBODY };

        session_init(&room.session, &room_calls, &room);
        random_id(ret->id, sizeof ret->id);
        snprintf(room.session.id, sizeof room.session.id, "%s", ret->id);

        int s = policy_load(request->policy, &room.session.policy, err);
        if (s < 0)
                return s;

        s = own_commands_check(room.session.policy, environ, err);
        if (s < 0)
                return s;

        s = path_rules_compile(room.session.policy, &room.rules, err);
        if (s < 0)
                return s;

        s = open_record(&room, err);
        if (s < 0)
                return s;

        if (request->judged.by)
                room_settle(&room, request->runs ? ROOM_APPROVED : ROOM_REFUSED, request->judged.by);
        else
                look_up(&room);

        if (!room.session.ended)
                s = room_ask(&room, err);

        session_close_control(&room.session, 0);
        int closed = close_record(&room, s < 0 ? NULL : err);
        if (s < 0)
                return s;

        return closed;
}
