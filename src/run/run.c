/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor of one run. It decides and watches; it parses nothing that the sandbox sends. What it holds: the
 * policy, the plan, the sandbox's init (a socket), the listeners, the gateway (started at the first connection), the
 * audit.
 *
 * Order: the clone comes first, because the kernel takes its time with namespaces; the policy is read meanwhile, and
 * the audit is opened while init applies the plan. Nothing runs before the audit can be written: init waits for the
 * word.
 *
 * States: enum run_state. Everything that was made is undone in run_done(), in the reverse order; then, when nothing of
 * the sandbox lives, the guarded paths are swept.
 *
 * Signals that a person or a parent sends to us are for the command: they are handed on. With a terminal the command
 * has its own foreground process group and gets them from the terminal itself.
 */
#include "run/run_internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/random.h"
#include "base/tree.h"
#include "control/judged.h"
#include "control/link.h"
#include "kept/home_rows.h"
#include "plan/dump.h"
#include "plan/env.h"
#include "policy/idle.h"
#include "policy/profile.h"
#include "run/run_bridge.h"
#include "run/run_files.h"
#include "run/run_git.h"
#include "run/run_home.h"
#include "run/run_home_news.h"
#include "run/run_introduce.h"
#include "run/run_listen.h"
#include "run/run_programs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT_EXECUTE = 126, NOT_FOUND = 127, SIGNALLED = 128 };

static const int handed_on[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM };

static const char *const state_names[] = {
        [RUN_PREPARING] = "preparing",
        [RUN_SETTING_UP] = "setting up",
        [RUN_RUNNING] = "running",
        [RUN_ENDING] = "ending",
};
static_assert(sizeof state_names / sizeof *state_names == RUN_STATES, "a name for each state");

static void run_set_state(struct run *run, enum run_state state) {
        log_debug("run: %s -> %s", state_names[run->state], state_names[state]);
        run->state = state;
}

static int open_audit(struct run *r, struct err *e) {
        const char *path = r->q->audit_path ? r->q->audit_path : r->session.audit_path;
        int s = session_open_audit(&r->session, path, r->session.id, e);
        if (s < 0)
                return err_wrap(e, s, "the audit cannot be written");
        (void)audit_note(r->session.audit, "start: mode %s, workspace %s", policy_mode_name(r->session.policy->mode),
                         r->session.policy->workspace);
        audit_note_command(r->session.audit, r->q->argv);
        for (size_t i = 0; i < r->plan->notes.n; i++)
                if (str_starts(str_of(r->plan->notes.p[i]), STR("lost: ")))
                        (void)audit_note(r->session.audit, "%s", r->plan->notes.p[i]);
        if (r->q->learn)
                (void)audit_note(r->session.audit, "learns: every host that is not private is let through");
        if (r->plan->git_incomplete)
                (void)audit_note(r->session.audit,
                                 "not all directories were searched for repositories: those further down are "
                                 "not protected");
        if (r->q->judged)
                judged_record(r->session.audit, r->q->judged, true);
        s = audit_flush(r->session.audit, e);
        return s < 0 ? err_wrap(e, s, "the audit cannot be written") : 0;
}

static void finish(struct run *r, enum run_end end, int status) {
        if (r->session.ended)
                return;
        r->session.ended = true;
        r->end = end;
        r->status = status;
}

/* The status alone could be a command's own. */
static void finish_by_signal(struct run *run, int number) {
        if (run->q->ret_signalled && !run->session.ended)
                *run->q->ret_signalled = true;
        finish(run, RUN_ENDED, SIGNALLED + number);
}

/* The command stopped: so do we, with our whole group, as it would have been without us. */
static void follow_stop(struct run *r, int signal_number) {
        if (signal_number == SIGSTOP)
                return; /* somebody inside did this on purpose */
        terminal_take(&r->session.terminal);
        kill(0, SIGTSTP);
        /* Continued. */
        if (terminal_ours(&r->session.terminal)) {
                r->session.terminal.lent = true;
                (void)sandbox_foreground(&r->sandbox);
        }
        (void)sandbox_signal(&r->sandbox, SIGCONT);
}

static int handle_event(struct run *r, const struct sandbox_event *ev, struct err *e) {
        switch (ev->kind) {
        case SANDBOX_MOUNTED:
                if (ev->text[0])
                        log_notice("%s", ev->text);
                run_bridge_listen(r);
                denials_begin(&r->denials);
                return 0;
        case SANDBOX_STOPPED:
                follow_stop(r, ev->value);
                return 0;
        case SANDBOX_EXITED:
                r->emptied = !r->degraded;
                if (WIFSIGNALED(ev->value))
                        finish_by_signal(r, WTERMSIG(ev->value));
                else
                        finish(r, RUN_ENDED, WEXITSTATUS(ev->value));
                return 0;
        case SANDBOX_FROZEN:
                live_frozen(r->session.control, ev->value);
                return 0;
        case SANDBOX_NOT_RUN:
                log_error("%s", ev->text);
                run_home_hint(r);
                finish(r, RUN_ENDED, ev->value == ENOENT || ev->value == ENOTDIR ? NOT_FOUND : CANNOT_EXECUTE);
                return 0;
        case SANDBOX_FAILED:
                return err_set(e, ev->value > 0 ? ev->value : EIO, "cannot set up the sandbox: %s", ev->text);
        case SANDBOX_ENDED:
                if (!r->session.ended)
                        return err_set(e, ECHILD, "the sandbox ended unexpectedly");
                return 0;
        default:
                return 0;
        }
}

/* Whoever asks Bailey to end means all of it: a command that does not listen has so long. */
enum { TERM_GRACE_MS = 10000 };

static void run_on_signal(void *owner, const struct signalfd_siginfo *info) {
        struct run *run = owner;

        if (live_signal(run->session.control, (int)info->ssi_signo, info->ssi_code == SI_KERNEL))
                return;
        (void)sandbox_signal(&run->sandbox, (int)info->ssi_signo);
        if (info->ssi_signo == SIGTERM && run->term_ns == CLOCK_NEVER)
                run->term_ns = clock_after_ms(TERM_GRACE_MS);
}

static int run_on_deadline(void *owner, struct err *err) {
        finish(owner, RUN_TIMED_OUT, 0);
        return err_set(err, ETIMEDOUT, "the command ran longer than its time limit and was ended");
}

static int run_on_link_gone(void *owner, struct err *err) {
        finish(owner, RUN_CANCELLED, 0);
        return err_set(err, ECANCELED, "the command was cancelled and ended");
}

static const struct session_calls run_calls = {
        .on_signal = run_on_signal,
        .on_deadline = run_on_deadline,
        .on_link_gone = run_on_link_gone,
        .on_link_policy = run_network_use,
        .on_event = run_network_event,
        .on_notice = run_programs_notice,
        .on_program = run_programs_asked,
        .on_ratchet = run_ratchet_reach,
};

static struct run_files files_of(struct run *r) {
        return (struct run_files){ r->rules,           r->session.audit, &r->report,       r->q->learn,
                                   r->session.control, &r->files,        run_ratchet_read, r };
}

static void read_files(struct run *r) {
        const struct run_files f = files_of(r);

        if (r->state == RUN_ENDING && r->session.audit && r->q->guest)
                run_files_end(&f, r->q->guest->firewall);
        if (r->state == RUN_ENDING && r->session.audit)
                run_files_end(&f, r->sandbox.events);
        else if (r->sandbox.events >= 0 && r->session.audit && !run_files_read(&f, r->sandbox.events))
                close_fd(&r->sandbox.events);
}

/*
 * The loop: what a run adds to the session's parts.
 */
static void term_watch(void *arg, struct poller *poller) {
        poller_until(poller, ((const struct run *)arg)->term_ns);
}

static int term_step(void *arg, struct poller *poller, struct err *err) {
        struct run *run = arg;
        (void)poller;
        (void)err;

        if (clock_ns() < run->term_ns)
                return 0;

        finish_by_signal(run, SIGTERM);
        return 0;
}

static void denied_watch(void *arg, struct poller *poller) {
        const struct denials *denials = &((const struct run *)arg)->denials;

        poller_watch(poller, denials->news, POLLIN);
        poller_until(poller, denials->next_ns ? denials->next_ns : CLOCK_NEVER);
}

/* Whoever has replaced a denied file outside does not expect to have opened it. */
static int denied_step(void *arg, struct poller *poller, struct err *err) {
        struct run *run = arg;
        int masked = denials_step(&run->denials, err);
        (void)poller;

        if (masked > 0 && run->session.audit)
                (void)audit_note(run->session.audit, "closed %d denied paths that appeared or were replaced outside",
                                 masked);
        return masked < 0 ? masked : 0;
}

static void guest_watch(void *arg, struct poller *poller) {
        const struct run *run = arg;

        if (run->q->guest)
                poller_watch(poller, run->q->guest->listener, POLLIN);
}

/* Whoever may connect may use the guest. The agent takes the connection, and is gone when it cannot. */
static int guest_step_connection(void *arg, struct poller *poller, struct err *err) {
        const struct run_guest *guest = ((const struct run *)arg)->q->guest;
        (void)err;

        if (!guest || !poller_ready(poller, guest->listener))
                return 0;
        cleanup(close_fd) int connection = accept4(guest->listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection >= 0)
                (void)fd_send(guest->agent, STR("c"), &connection, 1);
        return 0;
}

static void firewall_watch(void *arg, struct poller *poller) {
        const struct run *run = arg;

        if (run->q->guest && run->q->guest->firewall >= 0)
                poller_watch(poller, run->q->guest->firewall, POLLIN);
}

/* What leaves no record must not run. */
static int firewall_step(void *arg, struct poller *poller, struct err *err) {
        struct run *run = arg;
        int fd = run->q->guest ? run->q->guest->firewall : -1;

        if (fd < 0 || !poller_ready(poller, fd))
                return 0;

        const struct run_files files = files_of(run);
        if (run->session.audit && run_files_read(&files, fd))
                return 0;
        return err_set(err, EPIPE,
                       "the reader of its firewall's log ended, and so does the guest; sudo bailey guest fix %s starts "
                       "it again",
                       run->q->guest->name);
}

static void files_watch(void *arg, struct poller *poller) {
        poller_watch(poller, ((const struct run *)arg)->sandbox.events, POLLIN);
}

static int files_step(void *arg, struct poller *poller, struct err *err) {
        struct run *run = arg;
        (void)err;

        if (poller_ready(poller, run->sandbox.events))
                read_files(run);
        return 0;
}

static void programs_watch(void *arg, struct poller *poller) {
        poller_watch(poller, ((const struct run *)arg)->programs.epoll, POLLIN);
}

static int programs_step(void *arg, struct poller *poller, struct err *err) {
        struct run *run = arg;
        (void)err;

        if (poller_ready(poller, run->programs.epoll))
                run_programs_step(run);
        return 0;
}

static void init_watch(void *arg, struct poller *poller) {
        poller_watch(poller, ((const struct run *)arg)->sandbox.control, POLLIN);
}

static int init_step(void *arg, struct poller *poller, struct err *err) {
        struct run *run = arg;
        struct sandbox_event event;

        if (!poller_ready(poller, run->sandbox.control))
                return 0;
        int r = sandbox_receive(&run->sandbox, &event, err);
        return r < 0 ? r : handle_event(run, &event, err);
}

/* The order is the one in which they step: the end of the time first, what init says last, so that what it did until
 * then is known. */
static int supervise(struct run *run, struct err *err) {
        struct session *session = &run->session;

        session_add(session, SESSION_DEADLINE);
        poller_add(&session->poller, &(struct poller_part){ term_watch, term_step, run });
        poller_add(&session->poller, &(struct poller_part){ denied_watch, denied_step, run });
        session_add(session, SESSION_SIGNALS);
        poller_add(&session->poller, &(struct poller_part){ files_watch, files_step, run });
        poller_add(&session->poller, &(struct poller_part){ programs_watch, programs_step, run });
        poller_add(&session->poller, &(struct poller_part){ guest_watch, guest_step_connection, run });
        poller_add(&session->poller, &(struct poller_part){ firewall_watch, firewall_step, run });
        poller_add(&session->poller, &(struct poller_part){ run_bridge_watch, run_bridge_step, run });
        poller_add(&session->poller, &(struct poller_part){ run_browser_watch, run_browser_step, run });
        session_add(session, SESSION_VAULT);
        session_add(session, SESSION_LINK);
        session_add(session, SESSION_GATEWAY);
        poller_add(&session->poller, &(struct poller_part){ run_network_watch, run_network_step, run });
        poller_add(&session->poller, &(struct poller_part){ run_ratchet_watch, run_ratchet_step, run });
        session_add(session, SESSION_CONTROL);
        poller_add(&session->poller, &(struct poller_part){ init_watch, init_step, run });
        return session_loop(session, err);
}

static void on_guard(const char *id, const struct guard_found *found, void *arg) {
        struct run *r = arg;

        run_report_guard(&r->report, found, strcmp(id, r->session.id) == 0);
        if (r->session.audit)
                guards_note(r->session.audit, id, found);
}

/* In this order: the sandbox dies, the gateway's last word is recorded, and when nothing is left that could still write
 * (without namespaces descendants outlive init) what the sandbox made is looked at. After an ordinary end init is all
 * that is left of the sandbox, and the kernel takes its time to undo its namespaces: that is waited for last. */
static void tear_down(struct run *r) {
        struct err e = { 0 };
        if (r->state == RUN_ENDING)
                return;
        const bool began = r->state == RUN_RUNNING; /* what never ran made nothing */
        run_set_state(r, RUN_ENDING);
        r->met = sandbox_limits_met(&r->sandbox);
        if (!r->emptied) {
                int events = take_fd(&r->sandbox.events);
                sandbox_finish(&r->sandbox);
                r->sandbox.events = events;
        }
        run_bridge_end(r);
        run_browser_end(r);
        denials_done(&r->denials); /* it holds the sandbox's mounts: whoever lets go of them last has to wait */
        read_files(r);             /* what was refused last */
        session_close_control(&r->session, r->status);
        terminal_take(&r->session.terminal);
        if (r->terminal_saved)
                terminal_state_restore(&r->terminal_before,
                                       terminal_ours(&r->session.terminal) ? r->session.terminal.fd : -1);
        terminal_close(&r->session.terminal);
        run_network_end(r);
        host_programs_done(&r->programs);
        session_close_vaults(&r->session);
        if (r->degraded)
                sandbox_end_descendants();
        run_git_end(r);
        if (!began)
                guards_drop(&r->guards);
        if (began && r->plan && guards_end_repositories(&r->guards, r->session.policy, r->rules, &r->host, &e) < 0)
                log_error("%s", err_text(&e));
        if (began && !r->preview && guards_end(&r->guards, r->plan, &e) < 0)
                log_error("%s", err_text(&e));
        run_tmpdir_remove(&r->tmpdir);
        run_grants_done(r);
        session_close_audit(&r->session, r->status);
        if (r->session.policy && !r->session.policy->audit_path && !r->preview)
                audit_keep_sometimes(
                    &(struct audit_limits){ r->session.policy->log.max_age_ns, r->session.policy->log.max_bytes });
        sandbox_finish(&r->sandbox);
}

static void run_done(struct run *r) {
        tear_down(r);
        run_report_done(&r->report);
        guards_done(&r->guards);
        git_copies_done(&r->git);
        plan_free(r->plan);
        run_env_done(&r->env);
        survey_done(&r->host);
        path_rules_free(r->rules);
        run_ratchet_done(&r->ratchet);
        home_layers_remove(&r->home, r->session.id);
        home_close(&r->home);
        run_bridge_done(&r->bridge);
        session_done(&r->session);
}

/* The home stays: what will run in it the next time is worth a line. */
static void print_home_news(const struct run *r) {
        cleanup(buf_done) struct buf names = BUF(4096);

        if (!r->home.files || !r->home_filled_us || r->home.forgotten)
                return;
        if (run_home_news(r->home.files, r->home_filled_us, &names) == 0 && names.n)
                log_notice("new in the sandbox's own home, and run there from now on: %.*s; see `bailey home diff`",
                           STR_FMT(buf_str(&names)));
}

static void print_report(struct run *r) {
        cleanup(buf_done) struct buf out = BUF(65536);
        const struct run_limits limits = { r->session.policy, r->plan, r->met, r->status };
        if (r->q->quiet)
                return;
        if (r->plan && r->end == RUN_ENDED)
                print_home_news(r);
        if (r->plan && r->end == RUN_ENDED)
                (void)run_limits_text(&limits, &out);
        if (run_report_text(&r->report, &out) == 0 && out.n)
                (void)fd_write_all(STDERR_FILENO, out.p, out.n);
}

/* One line, so that nobody wonders why a program does not find what the shell has. */
static void print_held_back(const struct run *r) {
        if (r->env.held_back && !r->q->quiet)
                log_notice("held back, because they look like credentials: %s; to hand one on: --env-pass NAME",
                           r->env.held_back);
}

/* What nobody asked for by name is said. */
static void print_profile(const struct run *r) {
        for (size_t i = 0; i < r->session.policy->profiles.n && !r->q->quiet; i++)
                if (strcmp(r->session.policy->profiles.p[i].origin, PROFILE_BY_PROGRAM) == 0)
                        log_notice("profile %s, by the program's name (--profile none leaves it out)",
                                   r->session.policy->profiles.p[i].text);
}

static void print_idle(void *arg, const char *text) {
        (void)arg;
        log_notice("%s", text);
}

static void print_notes(const struct run *r) {
        if (!r->q->quiet && !r->q->link && !r->q->learn)
                run_introduce(r->session.policy);
        print_profile(r);
        print_held_back(r);
        policy_idle_grants(r->session.policy, print_idle, NULL);
        for (size_t i = 0; i < r->plan->notes.n; i++) {
                log_notice("%s", r->plan->notes.p[i]);
                if (r->q->link && str_starts(str_of(r->plan->notes.p[i]), STR("lost:")))
                        link_notice(r->q->link, r->plan->notes.p[i]);
        }
        if (r->sandbox.unlimited.code)
                log_notice("not all limits hold for the sandbox as a whole, only for each process: %s",
                           err_text(&r->sandbox.unlimited));
}

/* What a person or the monitor ends, it ends by a signal. */
static void end_by_order(void *run, int status) {
        finish_by_signal(run, status - SIGNALLED);
}

static int freeze(void *run) {
        return sandbox_freeze(&((struct run *)run)->sandbox);
}

static int thaw(void *run) {
        return sandbox_thaw(&((struct run *)run)->sandbox);
}

static void describe(void *run, struct live_facts *ret) {
        const struct run *r = run;

        *ret = (struct live_facts){ .degraded = r->degraded,
                                    .learns = r->q->learn != NULL,
                                    .lost = r->plan ? (const char *const *)r->plan->notes.p : NULL,
                                    .n_lost = r->plan ? r->plan->notes.n : 0,
                                    .pid = r->sandbox.pid };
}

static int open_control(struct run *r, struct err *e) {
        if (r->degraded && !live_in_sight(r->session.policy))
                return 0;
        if (r->q->guest) {
                r->shown[0] = (char *)"guest";
                r->shown[1] = (char *)r->q->guest->name;
        }
        const struct live_parts parts = { .argv = r->q->guest ? r->shown : r->q->argv,
                                          .options = r->q->options,
                                          .guest = r->q->guest ? r->q->guest->name : NULL,
                                          .freeze = freeze,
                                          .thaw = thaw,
                                          .cannot_freeze = r->degraded,
                                          .end = end_by_order,
                                          .grant = run_grant_path,
                                          .revoke = run_revoke_path,
                                          .page_decided = run_browser_decided,
                                          .describe = describe,
                                          .run = r };
        return session_open_control(&r->session, &parts, e);
}

/* A sandbox around this one may let namespaces be made (--nesting) and no rules for the network in them. */
static int check_rules_can_be_made(struct err *err) {
        cleanup(close_fd) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);

        if (fd >= 0 || (errno != EPERM && errno != EACCES))
                return 0;
        return err_errno(err, "cannot make rules for the sandbox's network: netlink socket");
}

/* Everything up to the point where the command runs. */
static int launch(struct run *r, struct err *e) {
        struct sandbox_options options = { .terminal = r->session.terminal.fd,
                                           .foreground = r->session.terminal.lent,
                                           .mask = &r->session.mask_before,
                                           .ids = r->q->guest ? r->q->guest->ids : NULL };
        r->degraded = check_rules_can_be_made(&r->no_namespaces) < 0 ||
                      sandbox_prepare(&options, &r->sandbox, &r->no_namespaces) < 0;
        if (r->degraded && r->q->guest) {
                r->end = RUN_UNAVAILABLE;
                return err_wrap(e, err_set(e, r->no_namespaces.code, "%s", err_text(&r->no_namespaces)),
                                "a guest needs namespaces (see `bailey doctor`)");
        }
        int s = run_plan_make(r, e);
        if (s < 0)
                return s;
        r->end = RUN_FAILED;
        if (r->degraded) {
                struct sandbox made = { 0 };
                options.degraded = true;
                s = sandbox_prepare(&options, &made, e);
                memcpy(made.listeners, r->sandbox.listeners, sizeof made.listeners);
                made.n_listeners = r->sandbox.n_listeners;
                r->sandbox = made;
        }
        if (s == 0)
                s = run_listen_published(r->plan, r->published, e);
        struct err unwatched = { 0 };
        if (s == 0 && !r->degraded && denials_open(&r->denials, r->sandbox.pid, r->rules, &r->host, &unwatched) < 0)
                log_warning("denied paths that are replaced outside meanwhile stay open: %s", err_text(&unwatched));
        run_set_state(r, RUN_SETTING_UP);
        if (s == 0)
                s = sandbox_plan(&r->sandbox, r->plan, r->published, e);
        run_listen_close(r->published);
        if (s == 0)
                s = open_audit(r, e);
        if (s == 0)
                s = open_control(r, e);
        if (s == 0)
                s = run_ratchet_launch(r, e);
        if (s == 0 && r->session.policy->process.timeout_ns)
                r->session.deadline_ns = clock_ns() + r->session.policy->process.timeout_ns;
        if (s == 0)
                print_notes(r);
        if (s < 0)
                return s;
        run_set_state(r, RUN_RUNNING);
        return sandbox_go(&r->sandbox, r->guards.slot, e);
}

#define RUN_NONE(request)                                                                                              \
        {                                                                                                              \
                .q = (request), .session = SESSION_NONE, .term_ns = CLOCK_NEVER,                                       \
                .sandbox = { .pidfd = -1, .control = -1, .events = -1 }, .overlay.lock = -1, .tmpdir = RUN_TMPDIR,     \
                .home = HOME_NONE, .denials = DENIALS_NONE, .guards = GUARDS_NONE, .git = GIT_COPIES_NONE,             \
                .programs = HOST_PROGRAMS_NONE, .bridge = RUN_BRIDGE_NONE, .browser = RUN_BROWSER_NONE,                \
                .ratchet.judged = -1, .end = RUN_FAILED                                                                \
        }

static void run_init(struct run *run) {
        const struct link *link = run->q->link;

        session_init(&run->session, &run_calls, run);
        run->session.link = link;
        run->session.link_asks = link && link->asks;
        run->guards.id = run->session.id;
        run->guards.report = on_guard;
        run->guards.context = run;
}

/* Everything up to the end of the command, or of the attempt. */
static int run_live(struct run *run, struct err *err) {
        int r;

        r = session_catch(&run->session, handed_on, sizeof handed_on / sizeof *handed_on, err);
        if (r < 0)
                return r;

        terminal_open(&run->session.terminal);
        terminal_state_save(&run->terminal_before, run->session.terminal.fd);
        run->terminal_saved = true;
        r = launch(run, err);
        if (r < 0)
                return r;

        return supervise(run, err);
}

enum run_end run_command(const struct run_request *q, int *ret_status, struct err *e) {
        struct run r = RUN_NONE(q);

        run_init(&r);
        if (q->id)
                snprintf(r.session.id, sizeof r.session.id, "%s", q->id);
        else
                random_id(r.session.id, sizeof r.session.id);

        (void)run_live(&r, e);
        enum run_end end = r.end;

        tear_down(&r);
        print_report(&r);
        if (q->link)
                run_report_send(&r.report, q->link);
        overlays_finish(&r.overlay);
        home_layers_remove(&r.home, r.session.id);
        home_close(&r.home);
        *ret_status = r.status;
        run_done(&r);
        return end;
}

enum run_end run_show_plan(const struct run_request *q, bool json, struct buf *out, struct err *e) {
        struct run r = RUN_NONE(q);

        run_init(&r);
        memcpy(r.session.id, "preview", 8);
        r.preview = true;
        terminal_open(&r.session.terminal);
        r.session.terminal.lent = false;

        int s = run_plan_make(&r, e);
        if (s == 0)
                s = json ? plan_dump_json(r.plan, out) : plan_dump_text(r.plan, out);

        enum run_end end = s == 0 ? RUN_ENDED : r.end;
        plan_free(r.plan);
        r.plan = NULL; /* nothing ran: nothing to sweep */
        run_done(&r);
        return end;
}
