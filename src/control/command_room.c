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
#include "base/fd.h"
#include "base/log.h"
#include "base/random.h"
#include "control/live.h"
#include "control/own_records.h"
#include "control/place.h"
#include "control/questions.h"
#include "policy/own_commands.h"
#include "store/state.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct room {
        const struct room_request *q;
        struct room_outcome *out;
        struct policy *policy;
        struct path_rules *rules;
        struct audit *audit;
        struct terminal terminal;
        struct gateway_process *gateway; /* none, and so is the next */
        struct policy *network;
        struct live *control;
        sigset_t mask_before;
        int signals;
        bool settled;
};

void room_outcome_done(struct room_outcome *o) {
        free(o->audit_path);
        o->audit_path = NULL;
}

static void settle(struct room *r, enum room_word word, const char *by) {
        r->settled = true;
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
        int s = own_records(r->policy, r->rules, r->out->id, &host, &r->out->audit_path, e);
        paths_done(&host);
        const struct audit_settings settings = { .path = r->out->audit_path,
                                                 .run_id = r->out->id,
                                                 .sandbox = r->out->id };
        return s < 0 ? s : audit_open(&settings, &r->audit, e);
}

static int close_record(struct room *r, struct err *e) {
        struct judged judged = r->q->judged;
        judged.by = r->out->by;
        if (r->out->word != ROOM_APPROVED || r->q->runs)
                judged_record(r->audit, &judged, r->q->runs);
        int s = audit_close(r->audit, e);
        r->audit = NULL;
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
                found = state_command(s, r->policy->workspace, j->rule, j->command, &answer, &e);
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
        const struct policy *p = r->policy;
        if (p->network.ask == ASK_NEVER)
                return false;
        return p->network.ask == ASK_CONTROL || p->approval.command || p->approval.webhook ||
               (r->terminal.fd >= 0 && r->terminal.lent);
}

static int open_control(struct room *r, struct err *e) {
        const struct live_parts parts = { .id = r->out->id,
                                          .argv = r->q->argv,
                                          .options = r->q->options,
                                          .policy = &r->policy,
                                          .network = &r->network,
                                          .gateway = &r->gateway,
                                          .terminal = &r->terminal,
                                          .audit = &r->audit,
                                          .end = on_end,
                                          .decided = on_decided,
                                          .run = r };
        const struct judged *j = &r->q->judged;
        const struct question_command question = { .text = (char *)(uintptr_t)j->command,
                                                   .segment = (char *)(uintptr_t)j->segment,
                                                   .rule = (char *)(uintptr_t)j->rule,
                                                   .reason = (char *)(uintptr_t)j->reason };
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGHUP);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGQUIT);
        sigaddset(&set, SIGTERM);
        if (sigprocmask(SIG_BLOCK, &set, &r->mask_before) < 0 ||
            (r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
                return err_errno(e, "cannot watch signals");
        cleanup(free_ptr) char *directory = NULL;
        int s = control_make_directory(&directory, e);
        if (s == 0)
                s = live_new(&parts, &r->control, e);
        return s < 0 ? s : live_ask_command(r->control, &question, e);
}

static void leave(struct room *r, enum room_word word, const char *why) {
        if (r->settled)
                return;
        live_command_gone(r->control, word == ROOM_LATE);
        settle(r, word, why);
}

static void hear_signals(struct room *r) {
        struct signalfd_siginfo info;
        while (read(r->signals, &info, sizeof info) == sizeof info) {
                if (info.ssi_signo == SIGINT || info.ssi_signo == SIGQUIT)
                        (void)live_signal(r->control, (int)info.ssi_signo, true); /* a prompt takes it as a no */
                leave(r, ROOM_LEFT, "interrupted");
        }
}

static int wait_for_answer(struct room *r, struct err *e) {
        uint64_t end = clock_ns() + r->policy->network.ask_timeout_ns;
        while (!r->settled) {
                struct pollfd fds[2 + LIVE_POLL_MAX] = { { .fd = r->signals, .events = POLLIN },
                                                         { .fd = r->q->link, .events = POLLIN } };
                uint64_t now = clock_ns(), left = now < end ? (end - now) / NS_PER_MS + 1 : 0;
                int timeout = left > 60000 ? 60000 : (int)left;
                size_t n = live_poll(r->control, fds + 2, &timeout);
                int s = audit_flush(r->audit, e); /* nobody is asked off the record */
                if (s < 0)
                        return s;
                if (poll(fds, 2 + n, timeout) < 0 && errno != EINTR)
                        return err_errno(e, "cannot wait");
                if (fds[0].revents)
                        hear_signals(r);
                if (fds[1].revents)
                        leave(r, ROOM_LEFT, "the asker went away");
                if (!r->settled)
                        live_step(r->control, fds + 2, n);
                if (!r->settled && clock_ns() >= end)
                        leave(r, ROOM_LATE, "nobody answered in time");
        }
        return 0;
}

static int ask(struct room *r, struct err *e) {
        if (r->policy->network.ask == ASK_NEVER && r->q->ask_terminal)
                r->policy->network.ask = ASK_TTY;
        terminal_open(&r->terminal);
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
        live_free(r->control, 0);
        terminal_close(&r->terminal);
        if (r->signals >= 0)
                sigprocmask(SIG_SETMASK, &r->mask_before, NULL);
        close_fd(&r->signals);
        audit_free(r->audit);
        path_rules_free(r->rules);
        policy_free(r->policy);
}

int room_wait(const struct room_request *q, struct room_outcome *ret, struct err *e) {
        cleanup(room_done) struct room r = { .q = q, .out = ret, .signals = -1, .terminal.fd = -1 };
        *ret = (struct room_outcome){ .word = ROOM_NOBODY };
        random_id(ret->id, sizeof ret->id);
        int s = policy_load(q->policy, &r.policy, e);
        s = s < 0 ? s : own_commands_check(r.policy, environ, e);
        s = s < 0 ? s : path_rules_compile(r.policy, &r.rules, e);
        s = s < 0 ? s : open_record(&r, e);
        if (s < 0)
                return s;
        if (q->judged.by)
                settle(&r, q->runs ? ROOM_APPROVED : ROOM_REFUSED, q->judged.by);
        else
                look_up(&r);
        if (!r.settled)
                s = ask(&r, e);
        live_free(r.control, 0);
        r.control = NULL;
        int closed = close_record(&r, s < 0 ? NULL : e);
        return s < 0 ? s : closed;
}
