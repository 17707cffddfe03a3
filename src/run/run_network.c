/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of one run: its listeners until somebody connects, then the gateway, what it reports and asks, and the
 * policy by which it judges.
 */
#include "run/run_internal.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "conf/dirs.h"
#include "policy/judge/ratchet.h"
#include "run/learn.h"
#include "run/run_gateway.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* In the state directory. */
#define AHEAD "ahead"

/* A refusal is reported when it happens: nobody should have to wait until a program stops retrying. If a program draws
 * on the screen, the report waits for its end. */
static void tell_refusal(struct run *run) {
        cleanup(buf_done) struct buf line = BUF(8192);

        if (run->q->quiet || run->q->link || terminal_is_drawn_on(&run->session.terminal))
                return;
        if (terminal_can_write(STDERR_FILENO) && run_report_news(&run->report, &line) == 0)
                terminal_write(STDERR_FILENO, buf_str(&line));
}

void run_network_event(void *arg, const struct event *ev, const struct snapshot_rule *rule) {
        struct run *run = arg;
        run->report.quiet = &run->session.policy->network.quiet; /* a policy that is read again is another one */
        if (run_report_event(&run->report, ev, rule))
                tell_refusal(run);
        if (run->q->learn)
                learn_connection(run->q->learn, ev);
}

/* At the first connection, or a little ahead of it. */
static int make_gateway(struct run *run, struct err *err) {
        const struct policy *policy = run->session.network ? run->session.network : run->session.policy;
        struct gateway_settings settings = { .listeners = run->sandbox.listeners,
                                             .n_listeners = run->sandbox.n_listeners };
        int s;

        s = run_gateway_start(policy, run->plan, run->session.id, run->q, &settings.start, err);
        if (s < 0)
                return s;

        return session_make_gateway(&run->session, &settings, err);
}

/*
 * The gateway's start takes as long as a client's. So it starts beside the command where it will be needed: where the
 * last run of the same program needed it. That is a mark in the state directory, an empty file with the program's name;
 * a run that needs none removes it. A guest rests for days.
 */
enum { MARK_MAX = 64 };

/* NULL: a name that is no file's, or no memory. */
static char *mark_path(const struct run *run) {
        cleanup(free_ptr) char *state = NULL;
        const char *program = run->q->argv && run->q->argv[0] ? run->q->argv[0] : "", *slash = strrchr(program, '/');
        struct str name = str_of(slash ? slash + 1 : program);

        if (name.n == 0 || name.n > MARK_MAX || name.p[0] == '.' || dirs_state(&state) < 0)
                return NULL;

        return str_format("%s/" AHEAD "/%.*s", state, STR_FMT(name));
}

/* Nobody asked for it: if it cannot be had, that is said when somebody does. */
static void start_ahead(struct run *run) {
        struct err unsaid = { 0 };

        if (make_gateway(run, &unsaid) == 0)
                (void)gateway_process_ahead(run->session.gateway, &unsaid);
}

void run_network_begin(struct run *run) {
        const struct policy *policy = run->session.policy;
        bool reaches = policy->network.allow.n > 0 || policy->credentials.n > 0 || policy->mode == MODE_FULL_NETWORK;

        if (!reaches || run->q->guest || run->sandbox.n_listeners == 0)
                return;

        run->mark = mark_path(run);
        run->marked = run->mark && access(run->mark, F_OK) == 0;
        if (run->marked)
                start_ahead(run);
}

/* For the next run. If the mark cannot be made, that one starts its gateway later. */
static void leave_mark(const struct run *run) {
        bool used = run->session.gateway && !gateway_process_is_held(run->session.gateway);
        cleanup(free_ptr) char *place = used && run->mark ? strdup(run->mark) : NULL;

        if (!run->mark || used == run->marked)
                return;

        if (!used) {
                (void)unlink(run->mark);
                return;
        }

        if (!place)
                return;

        *strrchr(place, '/') = '\0';
        if (path_make_private_dir(place, NULL) < 0)
                return;

        cleanup(close_fd) int made = open(run->mark, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        (void)made;
}

void run_network_watch(void *run, struct poller *poller) {
        const struct run *r = run;

        for (size_t i = 0; !r->session.gateway && i < r->sandbox.n_listeners; i++)
                poller_watch(poller, r->sandbox.listeners[i], POLLIN);
}

int run_network_step(void *run, struct poller *poller, struct err *err) {
        struct run *r = run;

        for (size_t i = 0; !r->session.gateway && i < r->sandbox.n_listeners; i++)
                if (poller_ready(poller, r->sandbox.listeners[i]))
                        return make_gateway(r, err);
        return 0;
}

int run_network_use(void *run, const struct link_heard *heard, struct err *err) {
        struct run *r = run;
        cleanup(close_fd) int told = heard->judged;
        cleanup(free_ptr) void *snapshot = NULL;
        size_t n = 0;
        int s;

        policy_free(r->session.network);
        r->session.network = heard->policy;
        if (ratchet_copy(r->session.network, r->session.policy) < 0) /* what has closed stays closed */
                return err_memory(err);

        if (r->session.gateway && gateway_process_is_held(r->session.gateway))
                session_close_gateway(&r->session); /* it has settings of the policy before */

        if (!r->session.gateway) { /* one that starts later takes it then */
                (void)!send(told, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
                return 0;
        }

        s = session_compile(&r->session, &snapshot, &n, err);
        if (s < 0)
                return s;

        s = gateway_process_reload(r->session.gateway, heard->policy, snapshot, n, err);
        if (s < 0)
                return s;

        gateway_process_when_judged(r->session.gateway, take_fd(&told));
        return 0;
}

/* Attempts that nobody has looked at yet: the command ended right after them. */
static bool attempts_wait(const struct run *run) {
        struct pollfd fds[PLAN_LISTENERS_MAX];
        size_t n = run->sandbox.n_listeners;

        for (size_t i = 0; i < n; i++)
                fds[i] = (struct pollfd){ .fd = run->sandbox.listeners[i], .events = POLLIN };
        return n > 0 && poll(fds, n, 0) > 0;
}

void run_network_end(struct run *run) {
        struct err e = { 0 };
        int s = 0;

        if (run->session.audit && attempts_wait(run)) {
                if (!run->session.gateway)
                        s = make_gateway(run, &e);
                if (s == 0)
                        s = gateway_process_start(run->session.gateway, &e);
                if (s < 0)
                        log_warning("the last attempts of the command are not on record: %s", err_text(&e));
        }

        leave_mark(run);
        session_close_gateway(&run->session);
}
