/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor of one run. It decides and watches; it parses nothing that the sandbox sends. It holds the policy, the
 * plan, the socket to the sandbox's init, the listeners, the gateway (run/run_network.c says when it starts) and the
 * audit.
 *
 * Order: the clone comes first, because the kernel takes its time with namespaces; the policy is read meanwhile, and
 * the audit is opened while init applies the plan. Nothing runs before the audit can be written: init waits for the go
 * message.
 *
 * States: enum run_state. Everything that was made is undone in run_done(), in the reverse order; then, when nothing of
 * the sandbox lives, the guarded paths are swept.
 *
 * Signals that a person or a parent sends to us are for the command: they are handed on. With a terminal the command
 * has its own foreground process group and gets them from the terminal itself.
 */
#include "run/run.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err_hint.h"
#include "base/fd.h"
#include "base/files/tree.h"
#include "base/log.h"
#include "base/processes/rest.h"
#include "base/random.h"
#include "control/judged.h"
#include "control/link.h"
#include "kept/home_rows.h"
#include "plan/dump.h"
#include "plan/env.h"
#include "policy/idle.h"
#include "policy/profile/profile.h"
#include "run/bridge/run_bridge.h"
#include "run/run_files.h"
#include "run/run_git.h"
#include "run/run_held.h"
#include "run/run_home.h"
#include "run/run_home_news.h"
#include "run/run_internal.h"
#include "run/run_introduce.h"
#include "run/run_listen.h"
#include "run/run_named.h"
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

static int open_audit(struct run *run, struct err *err) {
        const char *path = run->q->audit_path ? run->q->audit_path : run->session.audit_path;
        int s = session_open_audit(&run->session, path, run->session.id, err);
        if (s < 0)
                return err_wrap(err, s, "the audit cannot be written");

        (void)audit_note(run->session.audit, "start: mode %s, workspace %s",
                         policy_mode_name(run->session.policy->mode), run->session.policy->workspace);
        if (run->q->guest)
                (void)audit_note(run->session.audit, "guest: %s", run->q->guest->name);
        audit_note_command(run->session.audit, run->q->argv);

        for (size_t i = 0; i < run->plan->notes.n; i++)
                if (str_starts(str_of(run->plan->notes.p[i]), STR("lost: ")))
                        (void)audit_note(run->session.audit, "%s", run->plan->notes.p[i]);

        if (run->q->learn)
                (void)audit_note(run->session.audit, "learns: every host that is not private is let through");

        if (run->plan->git_incomplete)
                (void)audit_note(run->session.audit,
                                 "not all directories were searched for repositories: those further down are "
                                 "not protected");

        if (run->q->judged)
                judged_record(run->session.audit, run->q->judged, true);

        s = audit_flush(run->session.audit, err);
        return s < 0 ? err_wrap(err, s, "the audit cannot be written") : 0;
}

static void run_finish(struct run *run, enum run_end end, int status) {
        if (run->session.ended)
                return;
        run->session.ended = true;
        run->end = end;
        run->status = status;
}

/* The status alone could be a command's own. */
static void finish_by_signal(struct run *run, int number) {
        if (run->q->ret_signalled && !run->session.ended)
                *run->q->ret_signalled = true;
        run_finish(run, RUN_ENDED, SIGNALLED + number);
}

/* The command stopped: so do we, with our whole group, as it would have been without us. */
static void follow_stop(struct run *run, int signal_number) {
        if (signal_number == SIGSTOP)
                return; /* somebody inside did this on purpose */

        terminal_take(&run->session.terminal);
        kill(0, SIGTSTP);

        /* Continued. */
        if (terminal_ours(&run->session.terminal)) {
                run->session.terminal.lent = true;
                (void)sandbox_foreground(&run->sandbox);
        }

        (void)sandbox_signal(&run->sandbox, SIGCONT);
}

static int handle_event(struct run *run, const struct sandbox_event *ev, struct err *err) {
        switch (ev->kind) {
        case SANDBOX_MOUNTED:
                if (ev->text[0])
                        log_notice("%s", ev->text);
                run_bridge_listen(run);
                run_network_begin(run);
                denials_begin(&run->denials);
                return 0;
        case SANDBOX_STOPPED:
                follow_stop(run, ev->value);

                return 0;
        case SANDBOX_EXITED:
                run->emptied = !run->degraded;

                if (WIFSIGNALED(ev->value))
                        finish_by_signal(run, WTERMSIG(ev->value));
                else
                        run_finish(run, RUN_ENDED, WEXITSTATUS(ev->value));

                return 0;
        case SANDBOX_FROZEN:
                if (ev->value == ECANCELED)
                        return err_set(err, EBUSY, "it was frozen and went on by itself, again and again: it is ended");
                run_bridge_stood(run, ev->value);
                return 0;
        case SANDBOX_NOT_RUN:
                log_error("%s", ev->text);
                run_home_hint(run);
                run_finish(run, RUN_ENDED, ev->value == ENOENT || ev->value == ENOTDIR ? NOT_FOUND : CANNOT_EXECUTE);

                return 0;
        case SANDBOX_FAILED:
                return err_set(err, ev->value > 0 ? ev->value : EIO, "cannot set up the sandbox: %s", ev->text);
        case SANDBOX_ENDED:
                if (!run->session.ended)
                        return err_set(err, ECHILD, "the sandbox ended unexpectedly");
                return 0;
        default:
                return 0;
        }
}

/* A request to end Bailey means all of it: a command that does not listen has so long. */
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
        run_finish(owner, RUN_TIMED_OUT, 0);
        return err_set(err, ETIMEDOUT, "the command ran longer than its time limit and was ended");
}

static int run_on_link_gone(void *owner, struct err *err) {
        run_finish(owner, RUN_CANCELLED, 0);
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

static struct run_files files_of(struct run *run) {
        return (struct run_files){ .rules = run->rules,
                                   .plan = run->plan,
                                   .audit = run->session.audit,
                                   .report = &run->report,
                                   .learn = run->q->learn,
                                   .control = run->session.control,
                                   .share = &run->files,
                                   .on_ratchet = run_ratchet_read,
                                   .on_held = run_held_event,
                                   .on_named = run_named_event,
                                   .named = &run->named.now,
                                   .run = run };
}

static void read_files(struct run *run) {
        const struct run_files files = files_of(run);

        if (run->state == RUN_ENDING && run->session.audit && run->q->guest)
                run_files_end(&files, run->q->guest->firewall);

        if (run->state == RUN_ENDING && run->session.audit)
                run_files_end(&files, run->sandbox.events);
        else if (run->sandbox.events >= 0 && run->session.audit && !run_files_read(&files, run->sandbox.events))
                close_fd(&run->sandbox.events);
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

/* A person who replaces a denied file outside does not expect to open it to the sandbox. */
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

/* Anyone who may connect may use the guest. The agent takes the connection, and is gone when it cannot. */
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
        if (r < 0)
                return r;

        return handle_event(run, &event, err);
}

/* They step in this order: the deadline first, init last, so that everything reported before init's message is handled
 * first. */
static int run_supervise(struct run *run, struct err *err) {
        struct session *session = &run->session;

        run->rest = rest_begin();
        session_add(session, SESSION_DEADLINE);
        poller_add(&session->poller, &(struct poller_part){ term_watch, term_step, run });
        poller_add(&session->poller, &(struct poller_part){ denied_watch, denied_step, run });
        session_add(session, SESSION_SIGNALS);
        poller_add(&session->poller, &(struct poller_part){ files_watch, files_step, run });
        poller_add(&session->poller, &(struct poller_part){ programs_watch, programs_step, run });
        poller_add(&session->poller, &(struct poller_part){ guest_watch, guest_step_connection, run });
        poller_add(&session->poller, &(struct poller_part){ firewall_watch, firewall_step, run });
        poller_add(&session->poller, &(struct poller_part){ run_disk_watch, run_disk_step, run });
        poller_add(&session->poller, &(struct poller_part){ run_bridge_watch, run_bridge_step, run });
        poller_add(&session->poller, &(struct poller_part){ run_browser_watch, run_browser_step, run });
        session_add(session, SESSION_VAULT);
        session_add(session, SESSION_LINK);
        session_add(session, SESSION_GATEWAY);
        poller_add(&session->poller, &(struct poller_part){ run_network_watch, run_network_step, run });
        poller_add(&session->poller, &(struct poller_part){ run_ratchet_watch, run_ratchet_step, run });
        poller_add(&session->poller, &(struct poller_part){ run_held_watch, run_held_step, run });
        poller_add(&session->poller, &(struct poller_part){ rest_watch, rest_step, &run->rest });
        session_add(session, SESSION_CONTROL);
        poller_add(&session->poller, &(struct poller_part){ init_watch, init_step, run });

        return session_loop(session, err);
}

static void on_guard(const char *id, const struct guard_found *found, void *arg) {
        struct run *run = arg;

        run_report_guard(&run->report, found, strcmp(id, run->session.id) == 0);
        if (run->session.audit)
                guards_note(run->session.audit, id, found);
}

/* What the sandbox made, when nothing can write any more. */
static void run_examine(struct run *run, bool began) {
        struct err e = { 0 };

        run_git_end(run);
        if (!began)
                guards_drop(&run->guards);

        if (began && run->plan && guards_end_named(&run->guards, run->session.policy, run->rules, &run->host, &e) < 0)
                log_error("%s", err_text(&e));

        if (began && run->plan &&
            guards_end_repositories(&run->guards, run->session.policy, run->rules, &run->host, &e) < 0)
                log_error("%s", err_text(&e));

        if (began && !run->preview && guards_end(&run->guards, run->plan, true, &e) < 0)
                log_error("%s%s", err_text(&e), err_hint(&e));
}

/* In this order: the sandbox dies, what it made is examined, and the gateway's last report is recorded. Who kills this
 * process while it waits for the gateway must not find what the sandbox planted. Without namespaces descendants outlive
 * init, and the gateway must report before all of them are ended: there the sandbox is examined after it. After an
 * ordinary end only init is left, and the kernel takes its time to tear down the namespaces: wait for that last. */
static void tear_down(struct run *run) {
        if (run->state == RUN_ENDING)
                return;

        const bool began = run->state == RUN_RUNNING; /* what never ran made nothing */
        run_set_state(run, RUN_ENDING);
        run->met = sandbox_limits_met(&run->sandbox);
        if (!run->emptied) {
                int events = take_fd(&run->sandbox.events);

                sandbox_finish(&run->sandbox);
                run->sandbox.events = events;
        }

        run_disk_done(&run->disk);
        run_bridge_end(run);
        run_browser_end(run);
        denials_done(&run->denials); /* it holds the sandbox's mounts: the last process that closes them has to wait */
        read_files(run);             /* what was refused last */
        session_close_control(&run->session, run->status);
        terminal_take(&run->session.terminal);

        if (run->terminal_saved)
                terminal_state_restore(&run->terminal_before,
                                       terminal_ours(&run->session.terminal) ? run->session.terminal.fd : -1);

        terminal_close(&run->session.terminal);
        if (!run->degraded)
                run_examine(run, began);

        run_network_end(run);
        host_programs_done(&run->programs);
        run_home_end(run);
        session_close_vaults(&run->session);

        if (run->degraded) {
                sandbox_end_descendants();
                run_examine(run, began);
        }

        run_tmpdir_remove(&run->tmpdir);
        run_grants_done(run);
        session_close_audit(&run->session, run->status);

        if (run->session.policy && !run->session.policy->audit_path && !run->preview)
                audit_keep_sometimes(
                    &(struct audit_limits){ run->session.policy->log.max_age_ns, run->session.policy->log.max_bytes });

        sandbox_finish(&run->sandbox);
}

static void run_done(struct run *run) {
        tear_down(run);
        run_report_done(&run->report);
        guards_done(&run->guards);
        git_copies_done(&run->git);

        free(run->mark);
        plan_free(run->plan);
        run_env_done(&run->env);
        named_done(&run->named);
        survey_done(&run->host);
        path_rules_free(run->rules);
        run_ratchet_done(&run->ratchet);
        run_held_done(&run->held);

        home_layers_remove(&run->home, run->session.id);
        home_close(&run->home);
        run_bridge_done(&run->bridge);
        session_done(&run->session);
}

/* The home stays: what will run in it the next time is worth a line. */
static void print_home_news(const struct run *run) {
        cleanup(buf_done) struct buf names = BUF(4096);

        if (!run->home.files || !run->home_filled_us || run->home.forgotten)
                return;
        if (run_home_news(run->home.files, run->home_filled_us, &names) == 0 && names.n)
                log_notice("new in the sandbox's own home, and run there from now on: %.*s; see `bailey home diff`",
                           STR_FMT(buf_str(&names)));
}

static void print_report(struct run *run) {
        cleanup(buf_done) struct buf out = BUF(65536);
        const struct run_limits limits = { run->session.policy, run->plan, run->met, run->status };

        if (run->q->quiet)
                return;
        if (run->plan && run->end == RUN_ENDED) {
                print_home_news(run);
                if (run->session.policy->workspace)
                        run_env_tell(run->session.policy->workspace, run->home_filled_us);
        }
        if (run->plan && run->end == RUN_ENDED)
                (void)run_limits_text(&limits, &out);
        if (run_report_text(&run->report, &out) == 0 && out.n)
                (void)fd_write_all(STDERR_FILENO, out.p, out.n);
}

/* One line, so that nobody wonders why a program does not find what the shell has. */
static void print_held_back(const struct run *run) {
        if (run->env.held_back && !run->q->quiet)
                log_notice("held back, because they look like credentials: %s; to hand one on: --env-pass NAME",
                           run->env.held_back);
}

/* What nobody asked for by name is said. */
static void print_profile(const struct run *run) {
        for (size_t i = 0; i < run->session.policy->profiles.n && !run->q->quiet; i++)
                if (strcmp(run->session.policy->profiles.p[i].origin, PROFILE_BY_PROGRAM) == 0)
                        log_notice("profile %s, by the program's name (--profile none leaves it out)",
                                   run->session.policy->profiles.p[i].text);

        if (run->session.policy->profiles.n > 0 || run->q->quiet || !run->q->argv)
                return;

        const char *hinted = profile_hinted(run->q->argv);
        if (hinted && run_introduce_agent(&run->home, hinted))
                log_notice("if this starts %s: --profile %s gives it what it needs", hinted, hinted);
}

static void print_idle(void *arg, const char *text) {
        (void)arg;
        log_notice("%s", text);
}

static void print_notes(const struct run *run) {
        if (!run->q->quiet && !run->q->link && !run->q->learn)
                run_introduce(run->session.policy);

        print_profile(run);
        print_held_back(run);
        policy_idle_grants(run->session.policy, print_idle, NULL);

        for (size_t i = 0; i < run->plan->notes.n; i++) {
                log_notice("%s", run->plan->notes.p[i]);
                if (run->q->link && str_starts(str_of(run->plan->notes.p[i]), STR("lost:")))
                        link_notice(run->q->link, run->plan->notes.p[i]);
        }

        if (run->sandbox.unlimited.code)
                log_notice("not all limits hold for the sandbox as a whole, only for each process: %s",
                           err_text(&run->sandbox.unlimited));
}

/* What a person or the monitor ends, it ends by a signal. */
static void end_by_order(void *run, int status) {
        finish_by_signal(run, status - SIGNALLED);
}

static int run_freeze(void *run) {
        int r;

        run_bridge_stand(run);
        r = sandbox_freeze(&((struct run *)run)->sandbox);
        if (r < 0)
                run_bridge_go_on(run);

        return r;
}

static int run_thaw(void *run) {
        run_bridge_go_on(run);
        return sandbox_thaw(&((struct run *)run)->sandbox);
}

static void run_describe(void *run, struct live_facts *ret) {
        const struct run *r = run;

        *ret = (struct live_facts){ .degraded = r->degraded, .learns = r->q->learn != NULL, .pid = r->sandbox.pid };

        if (r->plan) {
                ret->lost = (const char *const *)r->plan->notes.p;
                ret->n_lost = r->plan->notes.n;
        }
}

static int open_control(struct run *run, struct err *err) {
        if (run->degraded && !live_in_sight(run->session.policy))
                return 0;

        struct live_parts parts = { .argv = run->q->argv,
                                    .options = run->q->options,
                                    .freeze = run_freeze,
                                    .thaw = run_thaw,
                                    .cannot_freeze = run->degraded,
                                    .end = end_by_order,
                                    .grant = run_grant_path,
                                    .revoke = run_revoke_path,
                                    .page_decided = run_browser_decided,
                                    .call_decided = run_bridge_decided,
                                    .path_decided = run_held_decided,
                                    .tool_decided = run_bridge_tool_decided,
                                    .describe = run_describe,
                                    .run = run };

        if (run->q->guest) {
                run->shown[0] = (char *)"guest";
                run->shown[1] = (char *)run->q->guest->name;
                parts.argv = run->shown;
                parts.guest = run->q->guest->name;
        }

        return session_open_control(&run->session, &parts, err);
}

/* A sandbox around this one may let namespaces be made (--nesting) and no rules for the network in them. */
static int check_rules_can_be_made(struct err *err) {
        cleanup(close_fd) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);

        if (fd >= 0 || (errno != EPERM && errno != EACCES))
                return 0;
        return err_errno(err, "cannot make rules for the sandbox's network: netlink socket");
}

/* Once more, without namespaces; the listeners that were made for it stay. */
static int prepare_degraded(struct run *run, struct sandbox_options *options, struct err *err) {
        struct sandbox made = { 0 };

        options->degraded = true;
        int r = sandbox_prepare(options, &made, err);

        memcpy(made.listeners, run->sandbox.listeners, sizeof made.listeners);
        made.n_listeners = run->sandbox.n_listeners;
        run->sandbox = made;

        return r;
}

/* Everything up to the point where the command runs. */
static int run_launch(struct run *run, struct err *err) {
        struct sandbox_options options = { .terminal = run->session.terminal.fd,
                                           .foreground = run->session.terminal.lent,
                                           .mask = &run->session.mask_before,
                                           .ids = run->q->guest ? run->q->guest->ids : NULL };

        run->degraded = check_rules_can_be_made(&run->no_namespaces) < 0 ||
                        sandbox_prepare(&options, &run->sandbox, &run->no_namespaces) < 0;
        if (run->degraded && run->q->guest) {
                run->end = RUN_UNAVAILABLE;
                return err_wrap(err, err_set(err, run->no_namespaces.code, "%s", err_text(&run->no_namespaces)),
                                "a guest needs namespaces (see `bailey doctor`)");
        }

        int s = run_plan_make(run, err);
        if (s < 0)
                return s;

        run->end = RUN_FAILED;
        if (run->degraded)
                s = prepare_degraded(run, &options, err);
        if (s == 0)
                s = run_listen_published(run->plan, run->published, err);

        struct err unwatched = { 0 };

        if (s == 0 && !run->degraded &&
            denials_open(&run->denials, run->sandbox.pid, run->rules, &run->host, &unwatched) < 0)
                log_warning("denied paths that are replaced outside meanwhile stay open: %s", err_text(&unwatched));

        run_set_state(run, RUN_SETTING_UP);
        if (s == 0)
                s = sandbox_plan(&run->sandbox, run->plan, run->published, err);

        run_listen_close(run->published);
        if (s == 0)
                s = open_audit(run, err);
        if (s == 0)
                s = open_control(run, err);
        if (s == 0)
                s = run_ratchet_launch(run, err);
        if (s == 0 && run->session.policy->process.timeout_ns)
                run->session.deadline_ns = clock_ns() + run->session.policy->process.timeout_ns;
        if (s == 0)
                print_notes(run);
        if (s == 0)
                s = guards_hold(&run->guards, run->sandbox.pid, err);
        if (s < 0)
                return s;

        run_set_state(run, RUN_RUNNING);
        return sandbox_go(&run->sandbox, run->guards.slot, err);
}

#define RUN_NONE(request)                                                                                              \
        {                                                                                                              \
                .q = (request), .session = SESSION_NONE, .term_ns = CLOCK_NEVER,                                       \
                .sandbox = { .pidfd = -1, .control = -1, .events = -1 }, .overlay.lock = -1, .tmpdir = RUN_TMPDIR,     \
                .home = HOME_NONE, .denials = DENIALS_NONE, .named = NAMED_NONE, .guards = GUARDS_NONE,                \
                .git = GIT_COPIES_NONE, .programs = HOST_PROGRAMS_NONE, .bridge = RUN_BRIDGE_NONE,                     \
                .browser = RUN_BROWSER_NONE, .ratchet.judged = -1, .disk = RUN_DISK_NONE, .end = RUN_FAILED            \
        }

static void run_init(struct run *run) {
        const struct link *link = run->q->link;

        session_init(&run->session, &run_calls, run);
        run->session.link = link;
        run->session.link_asks = link && link->asks;
        run->guards.id = run->session.id;
        run->guards.report = on_guard;
        run->guards.left_out = run_git_left_out;
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
        r = run_launch(run, err);
        if (r < 0)
                return r;

        return run_supervise(run, err);
}

enum run_end run_command(const struct run_request *request, int *ret_status, struct err *err) {
        struct run run = RUN_NONE(request);

        run_init(&run);

        if (request->id)
                snprintf(run.session.id, sizeof run.session.id, "%s", request->id);
        else
                random_id(run.session.id, sizeof run.session.id);

        (void)run_live(&run, err);
        enum run_end end = run.end;

        tear_down(&run);
        print_report(&run);
        if (request->link)
                run_report_send(&run.report, request->link);

        overlays_finish(&run.overlay);
        home_layers_remove(&run.home, run.session.id);
        home_close(&run.home);
        *ret_status = run.status;
        run_done(&run);

        return end;
}

enum run_end run_show_plan(const struct run_request *request, bool json, struct buf *out, struct err *err) {
        struct run run = RUN_NONE(request);

        run_init(&run);
        memcpy(run.session.id, "preview", 8);
        run.preview = true;
        terminal_open(&run.session.terminal);
        run.session.terminal.lent = false;

        int s = run_plan_make(&run, err);
        if (s == 0)
                s = json ? plan_dump_json(run.plan, run.session.policy, out) : plan_dump_text(run.plan, out);
        if (s == 0 && !json)
                s = run_bridge_describe(run.session.policy, out);

        enum run_end end = s == 0 ? RUN_ENDED : run.end;
        plan_free(run.plan);
        run.plan = NULL; /* nothing ran: nothing to sweep */
        run_done(&run);

        return end;
}
