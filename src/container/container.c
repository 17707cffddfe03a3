/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container behind the gateway.
 *
 * The engine makes it without a network: a namespace with a loopback and nothing else. Its first process is
 * bailey-gate, which calls us on a socket and waits. Meanwhile a child of ours enters that namespace, lays the same
 * routes and rules as for a sandbox of our own, and hands out the listeners; no bridge, no address of the host, no
 * other way out. Then the gate gets the go message and starts the command. The container has neither CAP_NET_ADMIN nor
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
#include "policy/paths/served.h"
#include "policy/tools/own_commands.h"
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
        container_seen seen; /* what it mounts of this host */
        bool began;          /* its command was told to go */
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
static int add_variables(struct container *container, struct err *err) {
        char *const nothing[] = { NULL };
        cleanup(env_done) struct env env = { 0 };
        struct env_input in = { .host = nothing,
                                .sandbox_id = container->session.id,
                                .http_port = PLAN_PORT_HTTP,
                                .socks_port = PLAN_PORT_SOCKS5,
                                .transparent = true,
                                .inside = true,
                                .container = true };
        cleanup(free_ptr) const char **set = calloc(container->session.policy->process.env_set.n + 1, sizeof *set);
        if (!set)
                return err_memory(err);

        for (size_t i = 0; i < container->session.policy->process.env_set.n; i++)
                set[i] = container->session.policy->process.env_set.p[i].text;

        in.set = set;
        vault_session_env(container->session.vault, &in);
        in.ca_bundle = container->session.vault->bundle ? BUNDLE ".pem" : NULL;
        in.java_trust_store = container->session.vault->java ? BUNDLE ".jks" : NULL;

        int r = env_build(&in, &env, err);
        for (size_t i = 0; r == 0 && i < env.entries.n; i++) {
                const struct env_entry *entry = &env.entries.p[i];
                if ((entry->action == ENV_SET || entry->action == ENV_CHANGED) &&
                    words_add(&container->create, "--env=%s=%s", entry->name, entry->value) < 0)
                        r = err_memory(err);
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

static int check_arguments(struct container *container, struct err *err) {
        const struct container_args args = {
                .use = CONTAINER_RUN, .owns = owns_variable, .kept = BUNDLE, .seen = &container->seen
        };
        int r = container_args_check(&args, container->q->arguments, err);

        return r < 0 ? err_wrap(err, r, "--container-arg") : 0;
}

/* Limits that somebody has set; the engine's own hold otherwise. */
static int add_limits(const struct policy *policy, text_list *list) {
        const struct policy_limits *limits = &policy->process.limits;
        int r = 0;

        if (policy->origins[ROW_PROCESSES] && limits->processes)
                r |= words_add(list, "--pids-limit=%ju", (uintmax_t)limits->processes);
        if (policy->origins[ROW_MEMORY] && limits->memory)
                r |= words_add(list, "--memory=%ju", (uintmax_t)limits->memory);
        if (policy->origins[ROW_FILES] && limits->files)
                r |= words_add(list, "--ulimit=nofile=%ju:%ju", (uintmax_t)limits->files, (uintmax_t)limits->files);

        if (policy->origins[ROW_CPU] && limits->cpu_seconds)
                r |= words_add(list, "--ulimit=cpu=%ju:%ju", (uintmax_t)limits->cpu_seconds,
                               (uintmax_t)limits->cpu_seconds);

        if (policy->origins[ROW_CPU_PERCENT] && limits->cpu_percent)
                r |= words_add(list, "--cpus=%ju.%02ju", (uintmax_t)limits->cpu_percent / 100,
                               (uintmax_t)limits->cpu_percent % 100);

        return r;
}

static int add_options(struct container *container, struct err *err) {
        const struct container_files files = { .policy = container->session.policy,
                                               .rules = container->rules,
                                               .host = &container->host,
                                               .empty_directory = container->place.empty_directory,
                                               .empty_file = container->place.empty_file };
        text_list *l = &container->create;
        bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
        int r = words_add(l, "%s", container->q->engine) | words_add(l, "create") |
                words_add(l, "--name=%s", container->place.name) | words_add(l, "--rm") |
                words_add(l, "--interactive") | words_add(l, "--network=none") | words_add(l, "--cap-drop=NET_ADMIN") |
                words_add(l, "--cap-drop=NET_RAW") | words_add(l, "--security-opt=no-new-privileges") |
                words_add(l, "--entrypoint=" GATE) | words_add(l, "--volume=%s:" GATE ":ro", container->gate) |
                words_add(l, "--volume=%s:" GO ":ro", container->place.socket) |
                words_add(l, "--volume=%s:/etc/resolv.conf:ro", container->place.resolv) |
                add_limits(container->session.policy, l);

        if (terminal)
                r |= words_add(l, "--tty");

        r |= container_home_options(&container->home, l);

        if (container->session.vault->bundle)
                r |= words_add(l, "--volume=%s:" BUNDLE ".pem:ro", container->session.vault->bundle) |
                     words_add(l, "--volume=%s:" BUNDLE ".jks:ro", container->session.vault->java);

        r = r < 0 ? err_memory(err) : container_files(&files, container->plan, l, &container->seen, err);
        for (char *const *a = container->q->arguments; r == 0 && a && *a; a++)
                r = words_add(l, "%s", *a) < 0 ? err_memory(err) : 0;

        if (r < 0)
                return r;

        return add_variables(container, err);
}

static int container_describe(struct container *container, struct err *err) {
        cleanup(text_list_done) text_list entrypoint = { 0 }, command = { 0 };
        char *const *given = container->q->run->argv;
        const char *image = *given++;

        if (*given && strcmp(*given, "--") == 0)
                given++;

        int r = helper_program("bailey-gate", "sandbox", &container->gate, err);
        if (r < 0)
                return r;

        r = engine_image(container->q->engine, image, &entrypoint, &command, err);
        if (r < 0)
                return r;

        r = add_options(container, err);
        if (r < 0)
                return r;
        if (entrypoint.n == 0 && command.n == 0 && !*given)
                return err_set(err, EINVAL, "the image %s has no command of its own; give one", image);

        text_list *l = &container->create;
        r = words_add(l, "%s", image) | words_add(l, GO);
        for (size_t i = 0; i < entrypoint.n; i++)
                r |= words_add(l, "%s", entrypoint.p[i]);

        for (size_t i = 0; !*given && i < command.n; i++)
                r |= words_add(l, "%s", command.p[i]);

        for (; *given; given++)
                r |= words_add(l, "%s", *given);

        return r < 0 ? err_memory(err) : 0;
}

/*
 * Starting.
 */
static int start_container(struct container *container, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(0);
        cleanup(text_list_done) text_list start = { 0 };

        container->created = true; /* perhaps: removing one that is not there is no error */
        int r = engine_call(&container->create, false, &out, err);
        if (r != 0)
                return r < 0 ? r
                             : err_set(err, EIO, "%s could not make the container; what it says is above",
                                       container->q->engine);

        if (words_add(&start, "%s", container->q->engine) < 0 || words_add(&start, "start") < 0 ||
            words_add(&start, "--attach") < 0 || words_add(&start, "--interactive") < 0 ||
            words_add(&start, "%s", container->place.name) < 0)
                return err_memory(err);

        r = engine_start(&start, &container->child, err);
        if (r < 0)
                return r;

        container->pidfd = (int)syscall(SYS_pidfd_open, container->child, 0);
        return container->pidfd < 0 ? err_errno(err, "cannot watch %s", container->q->engine) : 0;
}

/* Who called is the gate, and is still there: then the number that the kernel gave for it is its own. */
static int container_join(struct container *container, struct err *err) {
        struct ucred gate = { 0 };
        cleanup(close_fd) int proc = -1;
        int r = container_place_accept(&container->place, container->pidfd, &container->gate_socket, &gate, err);
        if (r < 0)
                return r;

        container->init = (int)syscall(SYS_pidfd_open, gate.pid, 0);
        container->first = gate.pid;
        if (container->init < 0)
                return err_errno(err, "cannot watch the container's first process");

        r = join_find(gate.pid, container->gate, &proc, err);
        r = r < 0 ? r : container_home_check(&container->home, gate.uid, err);
        r = r < 0 ? r : container_seen_check(&container->seen, proc, err);
        struct pollfd gone = { .fd = container->gate_socket, .events = POLLIN };
        if (r == 0 && poll(&gone, 1, 0) != 0)
                r = err_set(err, ECHILD, "the container ended before its command was started");
        if (r < 0)
                return r;

        r = join_network(proc, container->plan, container->listeners, &container->n_listeners, err);
        if (r < 0 && plan_network(container->session.policy) == NETWORK_NONE) {
                log_notice("attempts to reach the network are refused, but leave no record: %s", err_text(err));
                *err = (struct err){ 0 };
                return 0; /* the engine made it without a network */
        }

        return r < 0 ? err_wrap(err, r, "the container's network cannot be confined") : 0;
}

static void container_on_event(void *owner, const struct event *event, const struct snapshot_rule *rule) {
        struct container *container = owner;

        container->report.quiet = &container->session.policy->network.quiet;
        (void)run_report_event(&container->report, event, rule);
}

static int make_gateway(struct container *container, struct err *err) {
        struct gateway_settings settings = { .listeners = container->listeners, .n_listeners = container->n_listeners };
        int r;

        if (container->n_listeners == 0)
                return 0;

        r = run_gateway_start(container->session.policy, container->plan, container->session.id, container->q->run,
                              &settings.start, err);
        if (r < 0)
                return r;

        return session_make_gateway(&container->session, &settings, err);
}

static int open_audit(struct container *container, struct err *err) {
        int r = session_open_audit(&container->session, container->session.audit_path, container->session.id, err);
        if (r < 0)
                return err_wrap(err, r, "the audit cannot be written");
        (void)audit_note(container->session.audit, "start: container of %s, image %s, workspace %s",
                         container->q->engine, container->q->run->argv[0], container->session.policy->workspace);
        audit_note_command(container->session.audit, container->q->run->argv);
        return audit_flush(container->session.audit, err);
}

static int open_network(struct container *container, struct err *err) {
        container->plan = plan_new();
        if (!container->plan || plan_capture(container->plan, container->session.policy, true) < 0)
                return err_memory(err);

        const struct vault_session_request request = { .policy = container->session.policy,
                                                       .id = container->session.id,
                                                       .roots = container->q->run->ca_bundle,
                                                       .environment = environ };
        return vault_session_open(container->session.vault, &request, err);
}

/* The same facts as for a sandbox of our own, with what is Bailey's hidden. */
static int look_at_files(struct container *container, struct err *err) {
        cleanup(free_ptr) char *controls = NULL;
        int r = path_rules_compile(container->session.policy, &container->rules, err);
        if (r < 0)
                return r;

        r = live_place(false, &controls, err);
        if (r < 0)
                return r;

        r = guards_begin(&container->guards, container->rules, err);
        if (r < 0)
                return r;

        r = survey_host(container->session.policy, container->rules, controls, &container->host, err);
        if (r < 0)
                return r;

        r = guards_share(&container->guards, &container->host, err);
        if (r < 0)
                return r;

        r = own_records(container->session.policy, container->rules, container->session.id, &container->host,
                        &container->session.audit_path, err);
        if (r < 0)
                return r;

        return live_hide(&container->host, controls, err);
}

/*
 * While it runs.
 */
/* The engine hands them on to the container. What a terminal sends reaches the engine without us. */
static void container_on_signal(void *owner, const struct signalfd_siginfo *info) {
        const struct container *container = owner;
        bool from_kernel = info->ssi_code == SI_KERNEL;

        if (!live_signal(container->session.control, (int)info->ssi_signo, from_kernel) && !from_kernel)
                (void)syscall(SYS_pidfd_send_signal, container->pidfd, (int)info->ssi_signo, NULL, 0);
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

static int container_order(const struct container *container, const char *verb) {
        cleanup(buf_done) struct buf out = BUF(0);
        cleanup(text_list_done) text_list argv = { 0 };
        if (words_add(&argv, "%s", container->q->engine) < 0 || words_add(&argv, "%s", verb) < 0 ||
            words_add(&argv, "%s", container->place.name) < 0)
                return -ENOMEM;
        return engine_call(&argv, true, &out, NULL);
}

/* Told when the loop comes around: the caller is not waiting yet. */
static int container_freeze(void *run) {
        struct container *container = run;
        container->stand_error = container_order(container, "pause") == 0 ? 0 : EOPNOTSUPP;
        container->stand = STOPS;
        return 0;
}

static int container_thaw(void *run) {
        struct container *container = run;
        container->stand = RUNS;
        return container_order(container, "unpause") == 0 ? 0 : -EIO;
}

static void stand_watch(void *arg, struct poller *poller) {
        if (((const struct container *)arg)->stand == STOPS)
                poller_until(poller, 0);
}

static int stand_step(void *arg, struct poller *poller, struct err *err) {
        struct container *container = arg;

        (void)poller;
        (void)err;

        if (container->stand != STOPS)
                return 0;

        container->stand = container->stand_error ? RUNS : STANDS;
        live_frozen(container->session.control, container->stand_error);

        return 0;
}

static void describe_live(void *run, struct live_facts *ret) {
        ret->pid = ((const struct container *)run)->first;
}

static void end_by_order(void *run, int status) {
        struct container *container = run;
        container->session.ended = true;
        container->status = status;
}

static int open_control(struct container *container, struct err *err) {
        const struct live_parts parts = { .argv = container->q->run->argv,
                                          .options = container->q->run->options,
                                          .freeze = container_freeze,
                                          .thaw = container_thaw,
                                          .end = end_by_order,
                                          .describe = describe_live,
                                          .run = container };

        if (container->session.policy->network.ask == ASK_TTY)
                log_notice(
                    "a container's terminal is not used for questions: see `bailey pending`, answer with `bailey "
                    "allow`, from another one");

        return session_open_control(&container->session, &parts, err);
}

static int container_reap(struct container *container) {
        int status = 0;
        while (waitpid(container->child, &status, 0) < 0 && errno == EINTR)
                ;
        container->child = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : SIGNALLED + WTERMSIG(status);
}

static void engine_watch(void *arg, struct poller *poller) {
        poller_watch(poller, ((const struct container *)arg)->pidfd, POLLIN);
}

static int engine_step(void *arg, struct poller *poller, struct err *err) {
        struct container *container = arg;
        (void)err;

        if (poller_ready(poller, container->pidfd))
                end_by_order(container, container_reap(container));
        return 0;
}

/* In the order in which they step: an end counts before the end of the time. */
static int container_supervise(struct container *container, struct err *err) {
        struct session *session = &container->session;

        session_add(session, SESSION_VAULT);
        session_add(session, SESSION_GATEWAY);
        poller_add(&session->poller, &(struct poller_part){ stand_watch, stand_step, container });
        session_add(session, SESSION_CONTROL);
        session_add(session, SESSION_SIGNALS);
        poller_add(&session->poller, &(struct poller_part){ engine_watch, engine_step, container });
        session_add(session, SESSION_DEADLINE);

        return session_loop(session, err);
}

/*
 * The end.
 */
static void on_guard(const char *id, const struct guard_found *found, void *arg) {
        struct container *container = arg;

        run_report_guard(&container->report, found, strcmp(id, container->session.id) == 0);
        if (container->session.audit)
                guards_note(container->session.audit, id, found);
}

/* The container first: nothing of it may outlive its network. */
static void end_container(struct container *container) {
        struct err e = { 0 };

        if (container->init >= 0 && container->child > 0) /* at once; one that is frozen dies when it is let go */
                (void)syscall(SYS_pidfd_send_signal, container->init, SIGKILL, NULL, 0);

        close_fd(&container->gate_socket);
        if (container->stand != RUNS)
                (void)container_thaw(container);
        if (container->created && container_remove(container->q->engine, container->place.name, &e) < 0)
                log_error("%s", err_text(&e));

        container->created = false;
        if (container->child > 0)
                (void)container_reap(container);
}

static void tear_down(struct container *container) {
        struct err e = { 0 };

        end_container(container);
        session_close_control(&container->session, container->status);
        session_close_gateway(&container->session);
        session_close_vaults(&container->session);

        if (!container->began)
                guards_drop(&container->guards);

        if (container->began && container->rules &&
            guards_end_named(&container->guards, container->session.policy, container->rules, &container->host, &e) < 0)
                log_error("%s", err_text(&e));

        if (container->began && container->rules &&
            guards_end_repositories(&container->guards, container->session.policy, container->rules, &container->host,
                                    &e) < 0)
                log_error("%s", err_text(&e));

        /* The engine may have failed to end it: whether its first process lives is looked at. */
        if (container->began && guards_end(&container->guards, container->plan, false, &e) < 0)
                log_error("%s", err_text(&e));

        session_close_audit(&container->session, container->status);
}

static void container_done(struct container *container) {
        tear_down(container);
        for (size_t i = 0; i < container->n_listeners; i++)
                close(container->listeners[i]);

        container_place_done(&container->place);
        close_fd(&container->pidfd);
        close_fd(&container->init);
        home_close(&container->home);
        run_report_done(&container->report);
        text_list_done(&container->create);
        container_seen_done(&container->seen);
        plan_free(container->plan);
        guards_done(&container->guards);
        survey_done(&container->host);
        path_rules_free(container->rules);
        free(container->gate);
        session_done(&container->session);
}

static int container_prepare(struct container *container, struct err *err) {
        static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
        int r = session_catch(&container->session, numbers, sizeof numbers / sizeof *numbers, err);

        r = r < 0 ? r : container_place_make(&container->place, container->q->engine, container->session.id, err);
        r = r < 0 ? r : open_network(container, err);
        r = r < 0 ? r
                  : container_home_open(container->session.policy, container->session.id, container->session.vault,
                                        &container->home, err);
        r = r < 0 ? r : look_at_files(container, err);
        r = r < 0 ? r : open_audit(container, err);
        r = r < 0 ? r : container_describe(container, err);
        r = r < 0 ? r
                  : guards_record(&container->guards, container->session.policy, container->rules, &container->host,
                                  container->plan, err);
        for (size_t i = 0; r == 0 && i < container->plan->notes.n; i++)
                log_notice("%s", container->plan->notes.p[i]);

        if (r < 0)
                return r;

        return open_control(container, err);
}

/* The word is given only when nothing leads past the gateway. */
static int let_go(struct container *container, struct err *err) {
        int r = start_container(container, err);
        if (r < 0)
                return r;

        r = container_join(container, err);
        if (r < 0)
                return r;

        r = make_gateway(container, err);
        if (r < 0)
                return r;

        r = guards_hold(&container->guards, container->first, err);
        if (r < 0)
                return r;

        container->began = true;
        r = fd_write_all(container->gate_socket, "g", 1);

        return r < 0 ? err_set(err, -r, "the container ended before its command was started") : 0;
}

static void container_report(struct container *container) {
        cleanup(buf_done) struct buf text = BUF(1 << 16);
        if (!container->q->run->quiet && run_report_text(&container->report, &text) == 0 && text.n > 0)
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

enum run_end container_run(const struct container_request *container_request, int *ret_status, struct err *err) {
        cleanup(container_done) struct container container = { .q = container_request,
                                                               .session = SESSION_NONE,
                                                               .place = CONTAINER_PLACE,
                                                               .guards = GUARDS_NONE,
                                                               .home = HOME_NONE,
                                                               .pidfd = -1,
                                                               .gate_socket = -1,
                                                               .init = -1 };
        const struct policy_request request = { .command_line = container_request->run->options };

        session_init(&container.session, &container_calls, &container);
        random_id(container.session.id, sizeof container.session.id);
        container.guards.id = container.session.id;
        container.guards.report = on_guard;
        container.guards.context = &container;

        int r = policy_load(&request, &container.session.policy, err);
        r = r < 0 ? r : own_commands_check(container.session.policy, environ, err);
        r = r < 0 ? r : policy_check_served(container.session.policy, PLACE_CONTAINER, err);
        if (r < 0)
                return r == -EPERM ? RUN_REFUSED : RUN_BAD_POLICY;
        if (check_arguments(&container, err) < 0)
                return RUN_REFUSED;

        r = container_prepare(&container, err);
        r = r < 0 ? r : let_go(&container, err);
        if (r < 0)
                return end_of(r);

        if (container.session.policy->process.timeout_ns)
                container.session.deadline_ns = clock_ns() + container.session.policy->process.timeout_ns;

        r = container_supervise(&container, err);
        tear_down(&container);
        container_report(&container);

        if (r == -ETIMEDOUT)
                return RUN_TIMED_OUT;
        if (r < 0)
                return RUN_FAILED;

        *ret_status = container.status;
        return RUN_ENDED;
}
