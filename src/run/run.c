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
 * States: PREPARING (init has no plan), SETTING_UP (it applies it), RUNNING, ENDING. An error in any of them ends the
 * sandbox first and is told after. Everything that was made is undone in run_done(), in the reverse order; then, when
 * nothing of the sandbox lives, the guarded paths are swept.
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
#include "control/live.h"
#include "kept/home_rows.h"
#include "plan/dump.h"
#include "plan/env.h"
#include "policy/idle.h"
#include "policy/profile.h"
#include "run/run_files.h"
#include "run/run_git.h"
#include "run/run_home.h"
#include "run/run_home_news.h"
#include "run/run_introduce.h"
#include "run/run_listen.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT_EXECUTE = 126, NOT_FOUND = 127, SIGNALLED = 128 };

static const int handed_on[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM };

static int catch_signals(struct run *r, struct err *e) {
        sigset_t set;
        sigemptyset(&set);
        for (size_t i = 0; i < sizeof handed_on / sizeof *handed_on; i++)
                sigaddset(&set, handed_on[i]);
        if (sigprocmask(SIG_BLOCK, &set, &r->mask_before) < 0)
                return err_errno(e, "cannot block signals");
        r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return r->signals < 0 ? err_errno(e, "cannot watch signals") : 0;
}

static int open_audit(struct run *r, struct err *e) {
        const char *path = r->q->audit_path ? r->q->audit_path : r->audit_path;
        struct audit_settings settings = { .path = path, .run_id = r->id, .sandbox = r->id };
        int s = audit_open(&settings, &r->audit, e);
        if (s < 0)
                return err_wrap(e, s, "the audit cannot be written");
        (void)audit_note(r->audit, "start: mode %s, workspace %s", policy_mode_name(r->policy->mode),
                         r->policy->workspace);
        audit_note_command(r->audit, r->q->argv);
        if (r->plan->git_incomplete)
                (void)audit_note(r->audit, "not all directories were searched for repositories: those further down are "
                                           "not protected");
        if (r->q->judged)
                judged_record(r->audit, r->q->judged, true);
        s = audit_flush(r->audit, e);
        return s < 0 ? err_wrap(e, s, "the audit cannot be written") : 0;
}

static void finish(struct run *r, enum run_end end, int status) {
        if (r->ended)
                return;
        r->ended = true;
        r->end = end;
        r->status = status;
}

/* The command stopped: so do we, with our whole group, as it would have been without us. */
static void follow_stop(struct run *r, int signal_number) {
        if (signal_number == SIGSTOP)
                return; /* somebody inside did this on purpose */
        terminal_take(&r->terminal);
        kill(0, SIGTSTP);
        /* Continued. */
        if (terminal_ours(&r->terminal)) {
                r->terminal.lent = true;
                (void)sandbox_foreground(&r->sandbox);
        }
        (void)sandbox_signal(&r->sandbox, SIGCONT);
}

static int handle_event(struct run *r, const struct sandbox_event *ev, struct err *e) {
        switch (ev->kind) {
        case SANDBOX_MOUNTED:
                if (ev->text[0])
                        log_notice("%s", ev->text);
                denials_begin(&r->denials);
                return 0;
        case SANDBOX_STOPPED:
                follow_stop(r, ev->value);
                return 0;
        case SANDBOX_EXITED:
                r->emptied = !r->degraded;
                finish(r, RUN_ENDED, WIFSIGNALED(ev->value) ? SIGNALLED + WTERMSIG(ev->value) : WEXITSTATUS(ev->value));
                return 0;
        case SANDBOX_FROZEN:
                live_frozen(r->control, ev->value);
                return 0;
        case SANDBOX_NOT_RUN:
                log_error("%s", ev->text);
                run_home_hint(r);
                finish(r, RUN_ENDED, ev->value == ENOENT || ev->value == ENOTDIR ? NOT_FOUND : CANNOT_EXECUTE);
                return 0;
        case SANDBOX_FAILED:
                return err_set(e, ev->value > 0 ? ev->value : EIO, "cannot set up the sandbox: %s", ev->text);
        case SANDBOX_ENDED:
                if (!r->ended)
                        return err_set(e, ECHILD, "the sandbox ended unexpectedly");
                return 0;
        default:
                return 0;
        }
}

/* Whoever asks Bailey to end means all of it: a command that does not listen has so long. */
#define TERM_GRACE_NS (10000 * NS_PER_MS)

static void hand_on_signals(struct run *r) {
        struct signalfd_siginfo info;

        while (read(r->signals, &info, sizeof info) == sizeof info) {
                if (live_signal(r->control, (int)info.ssi_signo, info.ssi_code == SI_KERNEL))
                        continue;
                (void)sandbox_signal(&r->sandbox, (int)info.ssi_signo);
                if (info.ssi_signo == SIGTERM && !r->term_ns)
                        r->term_ns = clock_ns() + TERM_GRACE_NS;
        }
}

static int time_left_ms(const struct run *r, int timeout) {
        uint64_t first = r->deadline_ns;
        if (r->term_ns && (!first || r->term_ns < first))
                first = r->term_ns;
        if (!first)
                return timeout;
        uint64_t now = clock_ns();
        uint64_t left = first > now ? (first - now + NS_PER_MS - 1) / NS_PER_MS : 0;
        return timeout < 0 || left < (uint64_t)timeout ? (int)(left > 1000000 ? 1000000 : left) : timeout;
}

static void read_files(struct run *r) {
        const struct run_files f = { r->rules, r->audit, &r->report, r->q->learn, r->control, &r->files };
        if (r->torn_down && r->audit)
                run_files_end(&f, r->sandbox.events);
        else if (r->sandbox.events >= 0 && r->audit && !run_files_read(&f, r->sandbox.events))
                close_fd(&r->sandbox.events);
}

static int step_link(struct run *r, struct err *e) {
        struct link_heard heard = { 0 };
        switch (link_hear(r->q->link, &heard)) {
        case LINK_GONE:
                finish(r, RUN_CANCELLED, 0);
                return err_set(e, ECANCELED, "the command was cancelled and ended");
        case LINK_ANSWER:
                if (r->gateway)
                        gateway_process_answer(r->gateway, heard.id, heard.allow ? DECISION_ALLOW : DECISION_DENY);
                return 0;
        case LINK_POLICY:
                return run_network_use(r, heard.policy, heard.judged, e);
        default:
                return 0;
        }
}

/* Whoever has replaced a denied file outside does not expect to have opened it. */
static int step_denials(struct run *r, struct err *e) {
        int masked = denials_step(&r->denials, e);
        if (masked > 0 && r->audit)
                (void)audit_note(r->audit, "closed %d denied paths that appeared or were replaced outside", masked);
        return masked < 0 ? masked : 0;
}

enum { WATCHED = 5 }; /* init, signals, the broker's reports, the link, the directories of denied paths */

static int supervise(struct run *r, struct err *e) {
        while (!r->ended) {
                struct pollfd fds[WATCHED + GATEWAY_POLL_MAX + LIVE_POLL_MAX + VAULT_POLL_MAX] = {
                        { .fd = r->sandbox.control, .events = POLLIN },
                        { .fd = r->signals, .events = POLLIN },
                        { .fd = r->sandbox.events, .events = POLLIN },
                        { .fd = r->q->link ? r->q->link->fd : -1, .events = POLLIN },
                        { .fd = r->denials.inotify, .events = POLLIN }
                };
                int timeout = -1;
                denials_timeout(&r->denials, &timeout);
                size_t n = run_network_watch(r, fds + WATCHED, &timeout);
                size_t m = live_poll(r->control, fds + WATCHED + n, &timeout);
                struct pollfd *vault = fds + WATCHED + n + m;
                size_t v = vault_session_poll(&r->vault, vault, VAULT_POLL_MAX, &timeout);
                if (poll(fds, WATCHED + n + m + v, time_left_ms(r, timeout)) < 0 && errno != EINTR)
                        return err_errno(e, "cannot wait");
                if (r->deadline_ns && clock_ns() >= r->deadline_ns) {
                        finish(r, RUN_TIMED_OUT, 0);
                        return err_set(e, ETIMEDOUT, "the command ran longer than its time limit and was ended");
                }
                if (r->term_ns && clock_ns() >= r->term_ns) {
                        finish(r, RUN_ENDED, SIGNALLED + SIGTERM);
                        return 0;
                }
                int s = step_denials(r, e);
                if (fds[1].revents)
                        hand_on_signals(r);
                if (fds[2].revents)
                        read_files(r);
                vault_session_step(&r->vault, vault, v);
                if (s == 0 && fds[3].revents)
                        s = step_link(r, e);
                if (s == 0)
                        s = run_network_step(r, fds + WATCHED, n, e);
                live_step(r->control, fds + WATCHED + n, m);
                struct sandbox_event ev;
                if (s == 0 && fds[0].revents) {
                        s = sandbox_receive(&r->sandbox, &ev, e);
                        if (s == 0)
                                s = handle_event(r, &ev, e);
                }
                if (s < 0)
                        return s;
        }
        return 0;
}

static void on_guard(const char *id, const struct guard_found *found, void *arg) {
        struct run *r = arg;

        run_report_guard(&r->report, found, strcmp(id, r->id) == 0);
        if (r->audit)
                guards_note(r->audit, id, found);
}

/* In this order: the sandbox dies, the gateway's last word is recorded, and when nothing is left that could still write
 * (without namespaces descendants outlive init) what the sandbox made is looked at. After an ordinary end init is all
 * that is left of the sandbox, and the kernel takes its time to undo its namespaces: that is waited for last. */
static void tear_down(struct run *r) {
        struct err e = { 0 };
        if (r->torn_down)
                return;
        r->torn_down = true;
        r->met = cgroup_met(&r->sandbox.group);
        if (!r->emptied) {
                int events = take_fd(&r->sandbox.events);
                sandbox_finish(&r->sandbox);
                r->sandbox.events = events;
        }
        denials_done(&r->denials); /* it holds the sandbox's mounts: whoever lets go of them last has to wait */
        read_files(r);             /* what was refused last */
        live_free(r->control, r->status);
        r->control = NULL;
        terminal_take(&r->terminal);
        if (r->terminal_saved)
                terminal_state_restore(&r->terminal_before, terminal_ours(&r->terminal) ? r->terminal.fd : -1);
        terminal_close(&r->terminal);
        run_network_end(r);
        vault_session_close(&r->vault);
        if (r->degraded)
                sandbox_end_descendants();
        run_git_end(r);
        if (r->plan && guards_end_repositories(&r->guards, r->policy, r->rules, &r->host, &e) < 0)
                log_error("%s", err_text(&e));
        if (!r->preview && guards_end(&r->guards, r->plan, &e) < 0)
                log_error("%s", err_text(&e));
        run_tmpdir_remove(&r->tmpdir);
        if (r->audit) {
                (void)audit_note(r->audit, "end: status %d", r->status);
                if (audit_close(r->audit, &e) < 0)
                        log_error("the audit is not whole: %s", err_text(&e));
        }
        r->audit = NULL;
        if (r->policy && !r->policy->audit_path && !r->preview)
                audit_keep_sometimes(&(struct audit_limits){ r->policy->log.max_age_ns, r->policy->log.max_bytes });
        sandbox_finish(&r->sandbox);
}

static void run_done(struct run *r) {
        tear_down(r);
        close_fd(&r->signals);
        sigprocmask(SIG_SETMASK, &r->mask_before, NULL);
        run_report_done(&r->report);
        guards_done(&r->guards);
        git_copies_done(&r->git);
        plan_free(r->plan);
        run_env_done(&r->env);
        survey_done(&r->host);
        path_rules_free(r->rules);
        policy_free(r->policy);
        policy_free(r->network);
        home_layers_remove(&r->home, r->id);
        home_close(&r->home);
        free(r->audit_path);
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
        const struct run_limits limits = { r->policy, r->plan, r->met, r->status };
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
        for (size_t i = 0; i < r->policy->profiles.n && !r->q->quiet; i++)
                if (strcmp(r->policy->profiles.p[i].origin, PROFILE_BY_PROGRAM) == 0)
                        log_notice("profile %s, by the program's name (--profile none leaves it out)",
                                   r->policy->profiles.p[i].text);
}

static void print_idle(void *arg, const char *text) {
        (void)arg;
        log_notice("%s", text);
}

static void print_notes(const struct run *r) {
        if (!r->q->quiet && !r->q->link && !r->q->learn)
                run_introduce(r->policy);
        print_profile(r);
        print_held_back(r);
        policy_idle_grants(r->policy, print_idle, NULL);
        for (size_t i = 0; i < r->plan->notes.n; i++) {
                log_notice("%s", r->plan->notes.p[i]);
                if (r->q->link && str_starts(str_of(r->plan->notes.p[i]), STR("lost:")))
                        link_notice(r->q->link, r->plan->notes.p[i]);
        }
        if (r->sandbox.unlimited.code)
                log_notice("not all limits hold for the sandbox as a whole, only for each process: %s",
                           err_text(&r->sandbox.unlimited));
}

static void end_by_order(void *run, int status) {
        finish(run, RUN_ENDED, status);
}

static int freeze(void *run) {
        return sandbox_freeze(&((struct run *)run)->sandbox);
}

static int thaw(void *run) {
        return sandbox_thaw(&((struct run *)run)->sandbox);
}

static int open_control(struct run *r, struct err *e) {
        if (r->degraded && !live_in_sight(r->policy))
                return 0;
        const struct live_parts parts = { .id = r->id,
                                          .argv = r->q->argv,
                                          .options = r->q->options,
                                          .brings_policies = r->q->link,
                                          .policy = &r->policy,
                                          .network = &r->network,
                                          .gateway = &r->gateway,
                                          .freeze = freeze,
                                          .thaw = thaw,
                                          .cannot_freeze = r->degraded,
                                          .terminal = &r->terminal,
                                          .audit = &r->audit,
                                          .end = end_by_order,
                                          .run = r };
        return live_new(&parts, &r->control, e);
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
        struct sandbox_options options = { .terminal = r->terminal.fd,
                                           .foreground = r->terminal.lent,
                                           .mask = &r->mask_before };
        r->degraded = check_rules_can_be_made(&r->no_namespaces) < 0 ||
                      sandbox_prepare(&options, &r->sandbox, &r->no_namespaces) < 0;
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
        if (s == 0)
                s = sandbox_plan(&r->sandbox, r->plan, r->published, e);
        run_listen_close(r->published);
        if (s == 0)
                s = open_audit(r, e);
        if (s == 0)
                s = open_control(r, e);
        if (s == 0 && r->policy->process.timeout_ns)
                r->deadline_ns = clock_ns() + r->policy->process.timeout_ns;
        if (s == 0)
                print_notes(r);
        return s < 0 ? s : sandbox_go(&r->sandbox, r->guards.slot, e);
}

enum run_end run_command(const struct run_request *q, int *ret_status, struct err *e) {
        struct run r = { .q = q,
                         .signals = -1,
                         .terminal.fd = -1,
                         .sandbox = { .pidfd = -1, .control = -1, .events = -1 },
                         .overlay.lock = -1,
                         .tmpdir = RUN_TMPDIR,
                         .home = HOME_NONE,
                         .denials = DENIALS_NONE,
                         .guards = GUARDS_NONE,
                         .git = GIT_COPIES_NONE,
                         .vault = VAULT_SESSION_NONE,
                         .end = RUN_FAILED };
        if (q->id)
                snprintf(r.id, sizeof r.id, "%s", q->id);
        else
                random_id(r.id, sizeof r.id);
        r.guards.id = r.id;
        r.guards.report = on_guard;
        r.guards.context = &r;
        int s = catch_signals(&r, e);
        if (s == 0) {
                terminal_open(&r.terminal);
                terminal_state_save(&r.terminal_before, r.terminal.fd);
                r.terminal_saved = true;
                s = launch(&r, e);
        }
        if (s == 0)
                s = supervise(&r, e);
        enum run_end end = r.end;
        tear_down(&r);
        print_report(&r);
        if (q->link)
                run_report_send(&r.report, q->link);
        overlays_finish(&r.overlay);
        home_layers_remove(&r.home, r.id);
        home_close(&r.home);
        *ret_status = r.status;
        run_done(&r);
        return end;
}

enum run_end run_show_plan(const struct run_request *q, bool json, struct buf *out, struct err *e) {
        struct run r = { .q = q,
                         .signals = -1,
                         .terminal.fd = -1,
                         .sandbox = { .pidfd = -1, .control = -1, .events = -1 },
                         .overlay.lock = -1,
                         .tmpdir = RUN_TMPDIR,
                         .home = HOME_NONE,
                         .denials = DENIALS_NONE,
                         .guards = GUARDS_NONE,
                         .git = GIT_COPIES_NONE,
                         .vault = VAULT_SESSION_NONE,
                         .end = RUN_FAILED };
        memcpy(r.id, "preview", 8);
        r.preview = true;
        sigprocmask(SIG_BLOCK, NULL, &r.mask_before);
        terminal_open(&r.terminal);
        r.terminal.lent = false;
        int s = run_plan_make(&r, e);
        if (s == 0)
                s = json ? plan_dump_json(r.plan, out) : plan_dump_text(r.plan, out);
        enum run_end end = s == 0 ? RUN_ENDED : r.end;
        plan_free(r.plan);
        r.plan = NULL; /* nothing ran: nothing to sweep */
        run_done(&r);
        return end;
}
