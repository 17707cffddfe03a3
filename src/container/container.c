/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container behind the gateway.
 *
 * The engine makes it without a network: a namespace with a loopback and nothing else. Its first process is
 * bailey-gate, which calls us on a socket and waits. Meanwhile a child of ours enters that namespace, lays the same
 * routes and rules as for a sandbox of our own, and hands out the listeners; no bridge, no address of the host, no
 * other way out. Then the gate gets the word and starts the command. The container has neither CAP_NET_ADMIN nor
 * CAP_NET_RAW, so it cannot undo this.
 *
 * Files are the image's, and what the policy grants of this host's (container_files.c). Questions, rules that come and
 * go, pausing and killing are those of any run (live.h); its terminal is the engine's, so nobody is asked there.
 *
 * Ownership: the container (removed at the end, whatever the end is), its place (container_place.c), vault, gateway,
 * audit. The gate ends the container when its connection to us does: when this process is killed, so is everything
 * inside, and the engine removes it.
 */
#include "container/container.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/random.h"
#include "container/container_args.h"
#include "container/container_files.h"
#include "container/container_home.h"
#include "container/container_place.h"
#include "container/engine.h"
#include "control/own_records.h"
#include "control/session.h"
#include "kept/guard_registry.h"
#include "plan/build.h"
#include "plan/env.h"
#include "policy/load.h"
#include "policy/own_commands.h"
#include "policy/served.h"
#include "roles/helper.h"
#include "run/run_gateway.h"
#include "run/run_report.h"
#include "sandbox/linux/join.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIGNALLED = 128 };

/* Inside. */
#define GATE "/.bailey-gate"
#define GO "/.bailey-go"
#define BUNDLE "/etc/ssl/certs/bailey"

struct container {
        const struct container_request *q;
        struct session session; /* without a terminal: it is the engine's */
        struct container_place place;
        char *gate;
        struct path_rules *rules;
        struct plan_host host;
        struct plan *plan;
        struct guards guards;
        struct run_report report;
        struct home home; /* where a policy names one; otherwise the image's own is there */
        int listeners[PLAN_LISTENERS_MAX];
        size_t n_listeners;
        text_list create;
        bool began; /* its command was told to go */
        bool created;
        pid_t child; /* the engine, attached */
        int pidfd;
        int gate_socket, init; /* the first process inside: its socket, and a pidfd */
        pid_t first;           /* the same, as a number: to be looked at, never signalled; 0: not known */
        enum { RUNS, STOPS, STANDS } stand;
        int stand_error;
        int status;
};

/*
 * What the container is made from.
 */
static int add_variables(struct container *c, struct err *e) {
        char *const nothing[] = { NULL };
        cleanup(env_done) struct env env = { 0 };
        struct env_input in = { .host = nothing,
                                .sandbox_id = c->session.id,
                                .http_port = PLAN_PORT_HTTP,
                                .socks_port = PLAN_PORT_SOCKS5,
                                .transparent = true,
                                .inside = true,
                                .container = true };
        cleanup(free_ptr) const char **set = calloc(c->session.policy->process.env_set.n + 1, sizeof *set);
        if (!set)
                return err_memory(e);
        for (size_t i = 0; i < c->session.policy->process.env_set.n; i++)
                set[i] = c->session.policy->process.env_set.p[i].text;
        in.set = set;
        vault_session_env(c->session.vault, &in);
        in.ca_bundle = c->session.vault->bundle ? BUNDLE ".pem" : NULL;
        in.java_trust_store = c->session.vault->java ? BUNDLE ".jks" : NULL;
        int r = env_build(&in, &env, e);
        for (size_t i = 0; r == 0 && i < env.entries.n; i++) {
                const struct env_entry *x = &env.entries.p[i];
                if ((x->action == ENV_SET || x->action == ENV_CHANGED) &&
                    words_add(&c->create, "--env=%s=%s", x->name, x->value) < 0)
                        r = err_memory(e);
        }
        return r;
}

static bool owns_variable(void *arg, struct str name) {
        (void)arg;
        static const char *const own[] = { "SSL_CERT_FILE", "SANDBOX_RUNTIME", "BAILEY_SANDBOX" };
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
                if (str_is(name, own[i]))
                        return true;
        return false;
}

static int check_arguments(const struct container_request *q, struct err *e) {
        const struct container_args args = { .use = CONTAINER_RUN, .owns = owns_variable, .kept = BUNDLE };
        int r = container_args_check(&args, q->arguments, e);

        return r < 0 ? err_wrap(e, r, "--container-arg") : 0;
}

/* Limits that somebody has set; the engine's own hold otherwise. */
static int add_limits(const struct policy *p, text_list *l) {
        const struct policy_limits *x = &p->process.limits;
        int r = 0;
        if (p->origins[ROW_PROCESSES] && x->processes)
                r |= words_add(l, "--pids-limit=%ju", (uintmax_t)x->processes);
        if (p->origins[ROW_MEMORY] && x->memory)
                r |= words_add(l, "--memory=%ju", (uintmax_t)x->memory);
        if (p->origins[ROW_FILES] && x->files)
                r |= words_add(l, "--ulimit=nofile=%ju:%ju", (uintmax_t)x->files, (uintmax_t)x->files);
        if (p->origins[ROW_CPU] && x->cpu_seconds)
                r |= words_add(l, "--ulimit=cpu=%ju:%ju", (uintmax_t)x->cpu_seconds, (uintmax_t)x->cpu_seconds);
        if (p->origins[ROW_CPU_PERCENT] && x->cpu_percent)
                r |= words_add(l, "--cpus=%ju.%02ju", (uintmax_t)x->cpu_percent / 100, (uintmax_t)x->cpu_percent % 100);
        return r;
}

static int add_options(struct container *c, struct err *e) {
        const struct container_files files = { .policy = c->session.policy,
                                               .rules = c->rules,
                                               .host = &c->host,
                                               .empty_directory = c->place.empty_directory,
                                               .empty_file = c->place.empty_file };
        text_list *l = &c->create;
        bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
        int r = words_add(l, "%s", c->q->engine) | words_add(l, "create") | words_add(l, "--name=%s", c->place.name) |
                words_add(l, "--rm") | words_add(l, "--interactive") | words_add(l, "--network=none") |
                words_add(l, "--cap-drop=NET_ADMIN") | words_add(l, "--cap-drop=NET_RAW") |
                words_add(l, "--security-opt=no-new-privileges") | words_add(l, "--entrypoint=" GATE) |
                words_add(l, "--volume=%s:" GATE ":ro", c->gate) |
                words_add(l, "--volume=%s:" GO ":ro", c->place.socket) |
                words_add(l, "--volume=%s:/etc/resolv.conf:ro", c->place.resolv) | add_limits(c->session.policy, l);
        if (terminal)
                r |= words_add(l, "--tty");
        r |= container_home_options(&c->home, l);
        if (c->session.vault->bundle)
                r |= words_add(l, "--volume=%s:" BUNDLE ".pem:ro", c->session.vault->bundle) |
                     words_add(l, "--volume=%s:" BUNDLE ".jks:ro", c->session.vault->java);
        r = r < 0 ? err_memory(e) : container_files(&files, c->plan, l, e);
        for (char *const *a = c->q->arguments; r == 0 && a && *a; a++)
                r = words_add(l, "%s", *a) < 0 ? err_memory(e) : 0;
        return r < 0 ? r : add_variables(c, e);
}

static int describe(struct container *c, struct err *e) {
        cleanup(text_list_done) text_list entrypoint = { 0 }, command = { 0 };
        char *const *given = c->q->run->argv;
        const char *image = *given++;
        if (*given && strcmp(*given, "--") == 0)
                given++;
        int r = helper_program("bailey-gate", "sandbox", &c->gate, e);
        r = r < 0 ? r : engine_image(c->q->engine, image, &entrypoint, &command, e);
        r = r < 0 ? r : add_options(c, e);
        if (r < 0)
                return r;
        if (entrypoint.n == 0 && command.n == 0 && !*given)
                return err_set(e, EINVAL, "the image %s has no command of its own; give one", image);
        text_list *l = &c->create;
        r = words_add(l, "%s", image) | words_add(l, GO);
        for (size_t i = 0; i < entrypoint.n; i++)
                r |= words_add(l, "%s", entrypoint.p[i]);
        for (size_t i = 0; !*given && i < command.n; i++)
                r |= words_add(l, "%s", command.p[i]);
        for (; *given; given++)
                r |= words_add(l, "%s", *given);
        return r < 0 ? err_memory(e) : 0;
}

/*
 * Starting.
 */
static int start_container(struct container *c, struct err *e) {
        cleanup(buf_done) struct buf out = BUF(0);
        cleanup(text_list_done) text_list start = { 0 };
        c->created = true; /* perhaps: removing one that is not there is no error */
        int r = engine_call(&c->create, false, &out, e);
        if (r != 0)
                return r < 0 ? r
                             : err_set(e, EIO, "%s could not make the container; what it says is above", c->q->engine);
        if (words_add(&start, "%s", c->q->engine) < 0 || words_add(&start, "start") < 0 ||
            words_add(&start, "--attach") < 0 || words_add(&start, "--interactive") < 0 ||
            words_add(&start, "%s", c->place.name) < 0)
                return err_memory(e);
        r = engine_start(&start, &c->child, e);
        if (r < 0)
                return r;
        c->pidfd = (int)syscall(SYS_pidfd_open, c->child, 0);
        return c->pidfd < 0 ? err_errno(e, "cannot watch %s", c->q->engine) : 0;
}

/* Who called is the gate, and is still there: then the number that the kernel gave for it is its own. */
static int join(struct container *c, struct err *e) {
        struct ucred gate = { 0 };
        cleanup(close_fd) int proc = -1;
        int r = container_place_accept(&c->place, c->pidfd, &c->gate_socket, &gate, e);
        if (r < 0)
                return r;
        c->init = (int)syscall(SYS_pidfd_open, gate.pid, 0);
        c->first = gate.pid;
        if (c->init < 0)
                return err_errno(e, "cannot watch the container's first process");
        r = join_find(gate.pid, c->gate, &proc, e);
        r = r < 0 ? r : container_home_check(&c->home, gate.uid, e);
        struct pollfd gone = { .fd = c->gate_socket, .events = POLLIN };
        if (r == 0 && poll(&gone, 1, 0) != 0)
                r = err_set(e, ECHILD, "the container ended before its command was started");
        if (r < 0)
                return r;
        r = join_network(proc, c->plan, c->listeners, &c->n_listeners, e);
        if (r < 0 && plan_network(c->session.policy) == NETWORK_NONE) {
                log_notice("attempts to reach the network are refused, but leave no record: %s", err_text(e));
                *e = (struct err){ 0 };
                return 0; /* the engine made it without a network */
        }
        return r < 0 ? err_wrap(e, r, "the container's network cannot be confined") : 0;
}

static void container_on_event(void *owner, const struct event *event, const struct snapshot_rule *rule) {
        struct container *c = owner;

        c->report.quiet = &c->session.policy->network.quiet;
        (void)run_report_event(&c->report, event, rule);
}

static int make_gateway(struct container *c, struct err *e) {
        struct gateway_settings settings = { .listeners = c->listeners, .n_listeners = c->n_listeners };
        int r;

        if (c->n_listeners == 0)
                return 0;
        r = run_gateway_start(c->session.policy, c->plan, c->session.id, c->q->run, &settings.start, e);
        if (r < 0)
                return r;
        return session_make_gateway(&c->session, &settings, e);
}

static int open_audit(struct container *c, struct err *e) {
        int r = session_open_audit(&c->session, c->session.audit_path, c->session.id, e);
        if (r < 0)
                return err_wrap(e, r, "the audit cannot be written");
        (void)audit_note(c->session.audit, "start: container of %s, image %s, workspace %s", c->q->engine,
                         c->q->run->argv[0], c->session.policy->workspace);
        audit_note_command(c->session.audit, c->q->run->argv);
        return audit_flush(c->session.audit, e);
}

static int open_network(struct container *c, struct err *e) {
        c->plan = plan_new();
        if (!c->plan || plan_capture(c->plan, c->session.policy, true) < 0)
                return err_memory(e);
        const struct vault_session_request q = {
                .policy = c->session.policy, .id = c->session.id, .roots = c->q->run->ca_bundle, .environment = environ
        };
        return vault_session_open(c->session.vault, &q, e);
}

/* The same facts as for a sandbox of our own, with what is Bailey's hidden. */
static int look_at_files(struct container *c, struct err *e) {
        cleanup(free_ptr) char *controls = NULL;
        int r = path_rules_compile(c->session.policy, &c->rules, e);
        r = r < 0 ? r : live_place(false, &controls, e);
        r = r < 0 ? r : guards_begin(&c->guards, c->rules, e);
        r = r < 0 ? r : survey_host(c->session.policy, c->rules, controls, &c->host, e);
        r = r < 0 ? r : guards_share(&c->guards, &c->host, e);
        r = r < 0 ? r : own_records(c->session.policy, c->rules, c->session.id, &c->host, &c->session.audit_path, e);
        return r < 0 ? r : live_hide(&c->host, controls, e);
}

/*
 * While it runs.
 */
/* The engine hands them on to the container. What a terminal sends reaches the engine without us. */
static void container_on_signal(void *owner, const struct signalfd_siginfo *info) {
        const struct container *c = owner;
        bool from_kernel = info->ssi_code == SI_KERNEL;

        if (!live_signal(c->session.control, (int)info->ssi_signo, from_kernel) && !from_kernel)
                (void)syscall(SYS_pidfd_send_signal, c->pidfd, (int)info->ssi_signo, NULL, 0);
}

static int container_on_deadline(void *owner, struct err *err) {
        (void)owner;
        return err_set(err, ETIMEDOUT, "the command ran longer than its time limit and was ended");
}

static const struct session_calls container_calls = {
        .on_signal = container_on_signal,
        .on_deadline = container_on_deadline,
        .on_event = container_on_event,
};

static int order(const struct container *c, const char *verb) {
        cleanup(buf_done) struct buf out = BUF(0);
        cleanup(text_list_done) text_list argv = { 0 };
        if (words_add(&argv, "%s", c->q->engine) < 0 || words_add(&argv, "%s", verb) < 0 ||
            words_add(&argv, "%s", c->place.name) < 0)
                return -ENOMEM;
        return engine_call(&argv, true, &out, NULL);
}

/* Told when the loop comes around: whoever asked for it is not waiting yet. */
static int freeze(void *run) {
        struct container *c = run;
        c->stand_error = order(c, "pause") == 0 ? 0 : EOPNOTSUPP;
        c->stand = STOPS;
        return 0;
}

static int thaw(void *run) {
        struct container *c = run;
        c->stand = RUNS;
        return order(c, "unpause") == 0 ? 0 : -EIO;
}

static void stand_watch(void *arg, struct poller *poller) {
        if (((const struct container *)arg)->stand == STOPS)
                poller_until(poller, 0);
}

static int stand_step(void *arg, struct poller *poller, struct err *err) {
        struct container *c = arg;
        (void)poller;
        (void)err;

        if (c->stand != STOPS)
                return 0;
        c->stand = c->stand_error ? RUNS : STANDS;
        live_frozen(c->session.control, c->stand_error);
        return 0;
}

static void describe_live(void *run, struct live_facts *ret) {
        ret->pid = ((const struct container *)run)->first;
}

static void end_by_order(void *run, int status) {
        struct container *c = run;
        c->session.ended = true;
        c->status = status;
}

static int open_control(struct container *c, struct err *e) {
        const struct live_parts parts = { .argv = c->q->run->argv,
                                          .options = c->q->run->options,
                                          .freeze = freeze,
                                          .thaw = thaw,
                                          .end = end_by_order,
                                          .describe = describe_live,
                                          .run = c };
        if (c->session.policy->network.ask == ASK_TTY)
                log_notice(
                    "a container's terminal is not used for questions: see `bailey pending`, answer with `bailey "
                    "allow`, from another one");
        return session_open_control(&c->session, &parts, e);
}

static int reap(struct container *c) {
        int status = 0;
        while (waitpid(c->child, &status, 0) < 0 && errno == EINTR)
                ;
        c->child = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : SIGNALLED + WTERMSIG(status);
}

static void engine_watch(void *arg, struct poller *poller) {
        poller_watch(poller, ((const struct container *)arg)->pidfd, POLLIN);
}

static int engine_step(void *arg, struct poller *poller, struct err *err) {
        struct container *c = arg;
        (void)err;

        if (poller_ready(poller, c->pidfd))
                end_by_order(c, reap(c));
        return 0;
}

/* In the order in which they step: an end counts before the end of the time. */
static int supervise(struct container *c, struct err *e) {
        struct session *session = &c->session;

        session_add(session, SESSION_VAULT);
        session_add(session, SESSION_GATEWAY);
        poller_add(&session->poller, &(struct poller_part){ stand_watch, stand_step, c });
        session_add(session, SESSION_CONTROL);
        session_add(session, SESSION_SIGNALS);
        poller_add(&session->poller, &(struct poller_part){ engine_watch, engine_step, c });
        session_add(session, SESSION_DEADLINE);
        return session_loop(session, e);
}

/*
 * The end.
 */
static void on_guard(const char *id, const struct guard_found *found, void *arg) {
        struct container *c = arg;

        run_report_guard(&c->report, found, strcmp(id, c->session.id) == 0);
        if (c->session.audit)
                guards_note(c->session.audit, id, found);
}

/* The container first: nothing of it may outlive its network. */
static void end_container(struct container *c) {
        struct err e = { 0 };
        if (c->init >= 0 && c->child > 0) /* at once; one that stands still dies when it is let go */
                (void)syscall(SYS_pidfd_send_signal, c->init, SIGKILL, NULL, 0);
        close_fd(&c->gate_socket);
        if (c->stand != RUNS)
                (void)thaw(c);
        if (c->created && container_remove(c->q->engine, c->place.name, &e) < 0)
                log_error("%s", err_text(&e));
        c->created = false;
        if (c->child > 0)
                (void)reap(c);
}

static void tear_down(struct container *c) {
        struct err e = { 0 };
        end_container(c);
        session_close_control(&c->session, c->status);
        session_close_gateway(&c->session);
        session_close_vaults(&c->session);
        if (!c->began)
                guards_drop(&c->guards);
        if (c->began && c->rules && guards_end_repositories(&c->guards, c->session.policy, c->rules, &c->host, &e) < 0)
                log_error("%s", err_text(&e));
        if (c->began && guards_end(&c->guards, c->plan, &e) < 0)
                log_error("%s", err_text(&e));
        session_close_audit(&c->session, c->status);
}

static void container_done(struct container *c) {
        tear_down(c);
        for (size_t i = 0; i < c->n_listeners; i++)
                close(c->listeners[i]);
        container_place_done(&c->place);
        close_fd(&c->pidfd);
        close_fd(&c->init);
        home_close(&c->home);
        run_report_done(&c->report);
        text_list_done(&c->create);
        plan_free(c->plan);
        guards_done(&c->guards);
        survey_done(&c->host);
        path_rules_free(c->rules);
        free(c->gate);
        session_done(&c->session);
}

static int prepare(struct container *c, struct err *e) {
        static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
        int r = session_catch(&c->session, numbers, sizeof numbers / sizeof *numbers, e);
        r = r < 0 ? r : container_place_make(&c->place, c->q->engine, c->session.id, e);
        r = r < 0 ? r : open_network(c, e);
        r = r < 0 ? r : container_home_open(c->session.policy, c->session.id, c->session.vault, &c->home, e);
        r = r < 0 ? r : look_at_files(c, e);
        r = r < 0 ? r : open_audit(c, e);
        r = r < 0 ? r : describe(c, e);
        r = r < 0 ? r : guards_record(&c->guards, c->plan, e);
        for (size_t i = 0; r == 0 && i < c->plan->notes.n; i++)
                log_notice("%s", c->plan->notes.p[i]);
        return r < 0 ? r : open_control(c, e);
}

/* The word is given only when nothing leads past the gateway. */
static int let_go(struct container *c, struct err *e) {
        int r = start_container(c, e);
        r = r < 0 ? r : join(c, e);
        r = r < 0 ? r : make_gateway(c, e);
        if (r < 0)
                return r;
        c->began = true;
        r = fd_write_all(c->gate_socket, "g", 1);
        return r < 0 ? err_set(e, -r, "the container ended before its command was started") : 0;
}

static void report(struct container *c) {
        cleanup(buf_done) struct buf text = BUF(1 << 16);
        if (!c->q->run->quiet && run_report_text(&c->report, &text) == 0 && text.n > 0)
                fprintf(stderr, "%.*s", STR_FMT(buf_str(&text)));
}

static enum run_end end_of(int error) {
        switch (error) {
        case -ENOENT:
                return RUN_UNAVAILABLE;
        case -EOPNOTSUPP:
                return RUN_BAD_POLICY;
        case -EACCES: /* it cannot start where it was asked to */
                return RUN_REFUSED;
        default:
                return RUN_FAILED;
        }
}

enum run_end container_run(const struct container_request *q, int *ret_status, struct err *e) {
        cleanup(container_done) struct container c = { .q = q,
                                                       .session = SESSION_NONE,
                                                       .place = CONTAINER_PLACE,
                                                       .guards = GUARDS_NONE,
                                                       .home = HOME_NONE,
                                                       .pidfd = -1,
                                                       .gate_socket = -1,
                                                       .init = -1 };
        const struct policy_request request = { .command_line = q->run->options };

        session_init(&c.session, &container_calls, &c);
        random_id(c.session.id, sizeof c.session.id);
        c.guards.id = c.session.id;
        c.guards.report = on_guard;
        c.guards.context = &c;

        int r = policy_load(&request, &c.session.policy, e);
        r = r < 0 ? r : own_commands_check(c.session.policy, environ, e);
        r = r < 0 ? r : policy_check_served(c.session.policy, PLACE_CONTAINER, e);
        if (r < 0)
                return r == -EPERM ? RUN_REFUSED : RUN_BAD_POLICY;
        if (check_arguments(q, e) < 0)
                return RUN_REFUSED;

        r = prepare(&c, e);
        r = r < 0 ? r : let_go(&c, e);
        if (r < 0)
                return end_of(r);

        if (c.session.policy->process.timeout_ns)
                c.session.deadline_ns = clock_ns() + c.session.policy->process.timeout_ns;
        r = supervise(&c, e);
        tear_down(&c);
        report(&c);

        if (r == -ETIMEDOUT)
                return RUN_TIMED_OUT;
        if (r < 0)
                return RUN_FAILED;
        *ret_status = c.status;
        return RUN_ENDED;
}
