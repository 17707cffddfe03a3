/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container behind the gateway.
 *
 * The engine makes it without a network: a namespace with a loopback and nothing else. Its first program is
 * bailey-gate, which waits. Meanwhile a child of ours enters that namespace, lays the same routes and rules as for a
 * sandbox of our own, and hands out the listeners; no bridge, no address of the host, no other way out. Then the gate
 * gets the word and becomes the command. The container has neither CAP_NET_ADMIN nor CAP_NET_RAW, so it cannot undo
 * this.
 *
 * Files and processes are the engine's business: of the policy, network and credentials count here.
 *
 * Ownership: the container (removed at the end, whatever the end is), a directory with the FIFO, vault, gateway, audit.
 * When this process dies, so do gateway and vault; the container's network then leads nowhere.
 */
#include "manager/container.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/random.h"
#include "base/secret.h"
#include "base/tree.h"
#include "manager/engine.h"
#include "manager/gateway_process.h"
#include "manager/helper.h"
#include "manager/host_addresses.h"
#include "manager/run_gateway.h"
#include "manager/run_report.h"
#include "manager/run_vault.h"
#include "plan/build.h"
#include "plan/env.h"
#include "policy/load.h"
#include "sandbox/linux/join.h"
#include "store/audit_place.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ID_LENGTH = 12, GATE_MS = 60000, STEP_MS = 20, SIGNALLED = 128 };

/* Inside. */
#define GATE "/.bailey-gate"
#define GO "/.bailey-go"
#define BUNDLE "/etc/ssl/certs/bailey"

struct container {
        const struct container_request *q;
        char id[ID_LENGTH + 1];
        char *name, *gate, *directory, *fifo, *resolv;
        struct policy *policy;
        struct plan *plan;
        struct run_vault vault;
        struct audit *audit;
        struct gateway_process *gateway;
        struct run_report report;
        int listeners[PLAN_LISTENERS_MAX];
        size_t n_listeners;
        text_list create;
        bool created;
        pid_t child; /* the engine, attached */
        int pidfd, signals;
        sigset_t mask_before;
        bool masked;
        uint64_t deadline_ns;
};

/*
 * Talking to the engine.
 */
static int call(const struct container *c, bool quiet, struct buf *out, struct err *e, const char *const *words) {
        cleanup(text_list_done) text_list argv = { 0 };
        int r = words_add(&argv, "%s", c->q->engine);
        for (; *words && r == 0; words++)
                r = words_add(&argv, "%s", *words);
        return r < 0 ? err_set(e, ENOMEM, "out of memory") : engine_call(&argv, quiet, out, e);
}
#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static int container_pid(const struct container *c, pid_t *ret, struct err *e) {
        cleanup(buf_done) struct buf out = BUF(0);
        uint64_t pid = 0;
        int r = call(c, true, &out, e, WORDS("inspect", "--format", "{{.State.Pid}}", c->name));
        struct str text = buf_str(&out);
        while (text.n > 0 && text.p[text.n - 1] == '\n')
                text.n--;
        if (r != 0 || !str_to_u64(text, INT32_MAX, &pid) || pid <= 1)
                return r < 0 ? r : err_set(e, ESRCH, "%s does not say which process the container is", c->q->engine);
        *ret = (pid_t)pid;
        return 0;
}

/*
 * What the container is made from.
 */
static int make_places(struct container *c, struct err *e) {
        const char *base = getenv("TMPDIR");
        c->directory = str_format("%s/bailey-container-%s", base && base[0] == '/' ? base : "/tmp", c->id);
        c->name = str_format("bailey-%s", c->id);
        c->fifo = c->directory ? path_join(c->directory, "go") : NULL;
        c->resolv = c->directory ? path_join(c->directory, "resolv.conf") : NULL;
        if (!c->name || !c->fifo || !c->resolv)
                return err_set(e, ENOMEM, "out of memory");
        if (strpbrk(c->directory, ":,"))
                return err_set(e, EINVAL, "%s cannot be mounted into a container; set another TMPDIR", c->directory);
        int r = helper_program("bailey-gate", "sandbox", &c->gate, e);
        r = r < 0 ? r : path_make_private_dir(c->directory, e);
        /* Read by whoever the image runs as; the directory itself is never seen inside. */
        r = r < 0 ? r : path_replace_file(c->resolv, STR("nameserver 127.0.0.1\n"), 0644, e);
        if (r == 0 && (mkfifo(c->fifo, 0644) < 0 || chmod(c->fifo, 0644) < 0))
                r = err_errno(e, "cannot make %s", c->fifo);
        return r;
}

static int add_variables(struct container *c, struct err *e) {
        char *const nothing[] = { NULL };
        cleanup(env_done) struct env env = { 0 };
        struct env_input in = { .host = nothing,
                                .sandbox_id = c->id,
                                .http_port = PLAN_PORT_HTTP,
                                .socks_port = PLAN_PORT_SOCKS5,
                                .transparent = true,
                                .container = true };
        cleanup(free_ptr) const char **set = calloc(c->policy->process.env_set.n + 1, sizeof *set);
        if (!set)
                return err_set(e, ENOMEM, "out of memory");
        for (size_t i = 0; i < c->policy->process.env_set.n; i++)
                set[i] = c->policy->process.env_set.p[i].text;
        in.set = set;
        run_vault_env(&c->vault, &in);
        in.ca_bundle = c->vault.bundle ? BUNDLE ".pem" : NULL;
        in.java_trust_store = c->vault.java ? BUNDLE ".jks" : NULL;
        int r = env_build(&in, &env, e);
        for (size_t i = 0; r == 0 && i < env.entries.n; i++) {
                const struct env_entry *x = &env.entries.p[i];
                if ((x->action == ENV_SET || x->action == ENV_CHANGED) &&
                    words_add(&c->create, "--env=%s=%s", x->name, x->value) < 0)
                        r = err_set(e, ENOMEM, "out of memory");
        }
        return r;
}

/* The engine would take the last of two: ours must be the only one. */
static int check_arguments(const struct container *c, struct err *e) {
        static const char *const refused[] = { "--network", "--net",  "--privileged", "--entrypoint",
                                               "--cap-add", "--name", "--pid",        "--userns" };
        for (char *const *a = c->q->arguments; a && *a; a++)
                for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
                        struct str word = str_of(*a), flag = str_of(refused[i]);
                        if (str_starts(word, flag) && (word.n == flag.n || word.p[flag.n] == '='))
                                return err_set(e, EPERM, "--container-arg %s would undo the container's confinement",
                                               refused[i]);
                }
        return 0;
}

static int describe(struct container *c, struct err *e) {
        cleanup(text_list_done) text_list entrypoint = { 0 }, command = { 0 };
        char *const *given = c->q->run->argv;
        const char *image = *given++;
        if (*given && strcmp(*given, "--") == 0)
                given++;
        int r = check_arguments(c, e);
        r = r < 0 ? r : engine_image(c->q->engine, image, &entrypoint, &command, e);
        if (r < 0)
                return r;
        text_list *l = &c->create;
        bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
        r = words_add(l, "%s", c->q->engine) | words_add(l, "create") | words_add(l, "--name=%s", c->name) |
            words_add(l, "--interactive") | words_add(l, "--network=none") | words_add(l, "--cap-drop=NET_ADMIN") |
            words_add(l, "--cap-drop=NET_RAW") | words_add(l, "--security-opt=no-new-privileges") |
            words_add(l, "--entrypoint=" GATE) | words_add(l, "--volume=%s:" GATE ":ro", c->gate) |
            words_add(l, "--volume=%s:" GO ":ro", c->fifo) | words_add(l, "--volume=%s:/etc/resolv.conf:ro", c->resolv);
        if (terminal)
                r |= words_add(l, "--tty");
        if (c->vault.bundle)
                r |= words_add(l, "--volume=%s:" BUNDLE ".pem:ro", c->vault.bundle) |
                     words_add(l, "--volume=%s:" BUNDLE ".jks:ro", c->vault.java);
        for (char *const *a = c->q->arguments; a && *a; a++)
                r |= words_add(l, "%s", *a);
        if (r < 0)
                return err_set(e, ENOMEM, "out of memory");
        r = add_variables(c, e);
        if (r < 0)
                return r;
        r = words_add(l, "%s", image) | words_add(l, GO);
        for (size_t i = 0; i < entrypoint.n; i++)
                r |= words_add(l, "%s", entrypoint.p[i]);
        for (size_t i = 0; !*given && i < command.n; i++)
                r |= words_add(l, "%s", command.p[i]);
        if (entrypoint.n == 0 && command.n == 0 && !*given)
                return err_set(e, EINVAL, "the image %s has no command of its own; give one", image);
        for (; *given; given++)
                r |= words_add(l, "%s", *given);
        return r < 0 ? err_set(e, ENOMEM, "out of memory") : 0;
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
            words_add(&start, "%s", c->name) < 0)
                return err_set(e, ENOMEM, "out of memory");
        r = engine_start(&start, &c->child, e);
        if (r < 0)
                return r;
        c->pidfd = (int)syscall(SYS_pidfd_open, c->child, 0);
        return c->pidfd < 0 ? err_errno(e, "cannot watch %s", c->q->engine) : 0;
}

/* The gate opens the FIFO when it runs; then there is a reader. */
static int wait_for_gate(struct container *c, int *ret_fifo, struct err *e) {
        uint64_t end = clock_ns() + GATE_MS * NS_PER_MS;
        for (;;) {
                int fd = open(c->fifo, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
                if (fd >= 0) {
                        *ret_fifo = fd;
                        return 0;
                }
                struct pollfd ended = { .fd = c->pidfd, .events = POLLIN };
                if (errno != ENXIO)
                        return err_errno(e, "cannot open %s", c->fifo);
                if (poll(&ended, 1, STEP_MS) > 0)
                        return err_set(e, ECHILD, "the container ended before its command was started");
                if (clock_ns() >= end)
                        return err_set(e, ETIMEDOUT, "the container did not start within %d s", GATE_MS / 1000);
        }
}

static int join(struct container *c, struct err *e) {
        pid_t pid = 0;
        cleanup(close_fd) int proc = -1;
        int r = container_pid(c, &pid, e);
        r = r < 0 ? r : join_find(pid, c->gate, &proc, e);
        if (r < 0)
                return r;
        r = join_network(proc, c->plan, c->listeners, &c->n_listeners, e);
        return r < 0 ? err_wrap(e, r, "the container's network cannot be confined") : 0;
}

static int compile(void *arg, void **ret, size_t *ret_n, struct err *e) {
        return run_gateway_compile(((const struct container *)arg)->policy, ret, ret_n, e);
}

static void on_event(void *arg, const struct event *ev, const struct snapshot_rule *rule) {
        run_report_event(&((struct container *)arg)->report, ev, rule);
}

static void on_notice(void *arg, enum gateway_notice notice, const char *text) {
        (void)arg;
        if (notice == NOTICE_CANNOT_START || notice == NOTICE_DIED || notice == NOTICE_AUDIT_FAILED)
                log_error("gateway: %s", text ? text : "failed");
}

static int make_gateway(struct container *c, struct err *e) {
        cleanup(free_ptr) void *snapshot = NULL;
        cleanup(close_fd) int addresses = -1;
        size_t n = 0;
        struct gateway_settings s = { .listeners = c->listeners,
                                      .n_listeners = c->n_listeners,
                                      .audit = c->audit,
                                      .compile = compile,
                                      .on_event = on_event,
                                      .on_notice = on_notice,
                                      .arg = c };
        int r = host_addresses_watch(&addresses, e);
        r = r < 0 ? r : compile(c, &snapshot, &n, e);
        r = r < 0 ? r : run_gateway_start(c->policy, c->plan, c->id, c->q->run, &s.start, e);
        if (r < 0)
                return r;
        run_vault_gateway(&c->vault, &s);
        s.addresses = take_fd(&addresses);
        r = gateway_process_new(&s, snapshot, n, &c->gateway, e);
        secret_wipe(s.start.upstream_password, sizeof s.start.upstream_password);
        return r;
}

static int open_audit(struct container *c, struct err *e) {
        cleanup(free_ptr) char *path = NULL;
        int r = c->policy->audit_path ? 0 : audit_run_path(c->id, &path, e);
        const struct audit_settings a = { .path = path ? path : c->policy->audit_path,
                                          .run_id = c->id,
                                          .sandbox = c->id };
        r = r < 0 ? r : audit_open(&a, &c->audit, e);
        if (r < 0)
                return err_wrap(e, r, "the audit cannot be written");
        (void)audit_note(c->audit, "start: container of %s, image %s", c->q->engine, c->q->run->argv[0]);
        return audit_flush(c->audit, e);
}

static int open_network(struct container *c, struct err *e) {
        c->plan = plan_new();
        if (!c->plan || plan_capture(c->plan, c->policy, true) < 0)
                return err_set(e, ENOMEM, "out of memory");
        c->vault.gateway = &c->gateway;
        c->vault.audit = &c->audit;
        const struct run_vault_request q = {
                .policy = c->policy, .id = c->id, .roots = c->q->run->ca_bundle, .environment = environ
        };
        return run_vault_open(&c->vault, &q, e);
}

/*
 * While it runs.
 */
static int catch_signals(struct container *c, struct err *e) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGHUP);
        sigaddset(&set, SIGQUIT);
        if (sigprocmask(SIG_BLOCK, &set, &c->mask_before) < 0)
                return err_errno(e, "cannot block signals");
        c->masked = true;
        c->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return c->signals < 0 ? err_errno(e, "cannot watch signals") : 0;
}

/* The engine hands them on to the container. What a terminal sends reaches the engine without us. */
static void hand_on(const struct container *c) {
        struct signalfd_siginfo info;
        while (read(c->signals, &info, sizeof info) == (ssize_t)sizeof info)
                if (info.ssi_code != SI_KERNEL)
                        (void)syscall(SYS_pidfd_send_signal, c->pidfd, (int)info.ssi_signo, NULL, 0);
}

static int reap(struct container *c) {
        int status = 0;
        while (waitpid(c->child, &status, 0) < 0 && errno == EINTR)
                ;
        c->child = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : SIGNALLED + WTERMSIG(status);
}

static int time_left_ms(const struct container *c, int timeout) {
        uint64_t now = clock_ns();
        if (!c->deadline_ns)
                return timeout;
        uint64_t left = c->deadline_ns > now ? (c->deadline_ns - now) / NS_PER_MS + 1 : 0;
        return timeout < 0 || left < (uint64_t)timeout ? (int)(left > 1000000 ? 1000000 : left) : timeout;
}

static enum run_end supervise(struct container *c, int *ret_status, struct err *e) {
        enum { WATCHED = 2 };
        for (;;) {
                struct pollfd fds[WATCHED + GATEWAY_POLL_MAX + VAULT_POLL_MAX] = {
                        { .fd = c->pidfd, .events = POLLIN }, { .fd = c->signals, .events = POLLIN }
                };
                int timeout = -1;
                size_t n = gateway_process_poll(c->gateway, fds + WATCHED, GATEWAY_POLL_MAX, &timeout);
                size_t v = run_vault_poll(&c->vault, fds + WATCHED + n, VAULT_POLL_MAX, &timeout);
                if (poll(fds, WATCHED + n + v, time_left_ms(c, timeout)) < 0 && errno != EINTR) {
                        err_errno(e, "cannot wait");
                        return RUN_FAILED;
                }
                run_vault_step(&c->vault, fds + WATCHED + n, v);
                gateway_process_step(c->gateway, fds + WATCHED, n);
                if (fds[1].revents)
                        hand_on(c);
                if (fds[0].revents) {
                        *ret_status = reap(c);
                        return RUN_ENDED;
                }
                if (c->deadline_ns && clock_ns() >= c->deadline_ns) {
                        err_set(e, ETIMEDOUT, "the command ran longer than its time limit and was ended");
                        return RUN_TIMED_OUT;
                }
        }
}

/* The container first: nothing of it may outlive its network. */
static void container_done(struct container *c) {
        cleanup(buf_done) struct buf out = BUF(0), killed = BUF(0);
        if (c->created && c->child > 0) /* at once; "rm" alone would ask it to end and wait */
                (void)call(c, true, &killed, NULL, WORDS("kill", c->name));
        if (c->created && call(c, true, &out, NULL, WORDS("rm", "--force", "--volumes", c->name)) != 0)
                log_error("%s could not remove the container %s", c->q->engine, c->name);
        if (c->child > 0)
                (void)reap(c);
        gateway_process_free(c->gateway);
        run_vault_close(&c->vault);
        if (c->audit)
                (void)audit_close(c->audit, NULL);
        for (size_t i = 0; i < c->n_listeners; i++)
                close(c->listeners[i]);
        if (c->directory)
                (void)tree_remove(AT_FDCWD, c->directory);
        close_fd(&c->pidfd);
        close_fd(&c->signals);
        if (c->masked)
                sigprocmask(SIG_SETMASK, &c->mask_before, NULL);
        run_report_done(&c->report);
        text_list_done(&c->create);
        plan_free(c->plan);
        policy_free(c->policy);
        free(c->name);
        free(c->gate);
        free(c->directory);
        free(c->fifo);
        free(c->resolv);
}

static int prepare(struct container *c, struct err *e) {
        int r = catch_signals(c, e);
        r = r < 0 ? r : make_places(c, e);
        r = r < 0 ? r : open_audit(c, e);
        r = r < 0 ? r : open_network(c, e);
        return r < 0 ? r : describe(c, e);
}

/* The word is given only when nothing leads past the gateway. */
static int let_go(struct container *c, struct err *e) {
        cleanup(close_fd) int fifo = -1;
        int r = start_container(c, e);
        r = r < 0 ? r : wait_for_gate(c, &fifo, e);
        r = r < 0 ? r : join(c, e);
        r = r < 0 ? r : make_gateway(c, e);
        if (r < 0)
                return r;
        r = fd_write_all(fifo, "g", 1);
        return r < 0 ? err_set(e, -r, "the container ended before its command was started") : 0;
}

static void report(struct container *c) {
        cleanup(buf_done) struct buf text = BUF(1 << 16);
        gateway_process_free(c->gateway); /* its last word */
        c->gateway = NULL;
        if (!c->q->run->quiet && run_report_text(&c->report, &text) == 0 && text.n > 0)
                fprintf(stderr, "%.*s", STR_FMT(buf_str(&text)));
}

enum run_end container_run(const struct container_request *q, int *ret_status, struct err *e) {
        cleanup(container_done) struct container c = { .q = q, .vault = RUN_VAULT, .pidfd = -1, .signals = -1 };
        const struct policy_request request = { .command_line = q->run->options, .network_only = true };
        random_id(c.id, sizeof c.id);
        int r = policy_load(&request, &c.policy, e);
        if (r < 0)
                return r == -EPERM ? RUN_REFUSED : RUN_BAD_POLICY;
        if (plan_network(c.policy) == NETWORK_NONE) {
                err_set(e, EINVAL, "the policy gives no network; then the engine's own --network=none is enough");
                return RUN_BAD_POLICY;
        }
        r = prepare(&c, e);
        r = r < 0 ? r : let_go(&c, e);
        if (r < 0)
                return r == -ENOENT ? RUN_UNAVAILABLE : RUN_FAILED;
        if (c.policy->process.timeout_ns)
                c.deadline_ns = clock_ns() + c.policy->process.timeout_ns;
        enum run_end end = supervise(&c, ret_status, e);
        report(&c);
        return end;
}
