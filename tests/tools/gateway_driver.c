/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs bailey-gateway by itself, for tests: plays the supervisor, with its messages and nothing else of it. Words on
 * the command line make the policy and the settings; standard output gets "listen KIND PORT" for each listener, "pid
 * N", each message of the gateway as "KIND ID NUMBER TEXT", and one JSON object per event. It ends when its input does.
 *
 *     gateway-driver PROGRAM WORD...
 *       http socks dns forward=PORT inherit=KIND:FD     listeners on loopback; or one that was passed in
 *       allow= deny= private= rule=HOST|GET,HEAD|/x/    the policy; each may be repeated
 *       git=HOST:PORT/REPOSITORY|REF                    fetched by anybody; a push to REF is asked about
 *       header= idle= tunnel= connect= ask-time=        limits of time: 200ms, 1s
 *       head-bytes= bytes-out= bytes-host= body-bytes= connections= rate= workers= log=
 *       vault=PROGRAM ca=FILE credential=NAME|HOSTS|SLOT|VALUE roots=FILE      TLS is opened; ca: where its CA is
 * written hosts=FILE server=PORT real can-ask upstream=http:PORT|socks5:PORT user= password= bypass=
 *       secret=                                         what every client must bring
 *
 * Lines on standard input change things meanwhile: "policy WORDS..." swaps the policy; "audit 0|1"; "answer ID 0|1";
 * "stop"; "kill-vault"; "start-vault"; "value NAME VALUE".
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/fd.h"
#include "ipc/event.h"
#include "ipc/gateway_messages.h"
#include "policy/git/git.h"
#include "policy/judge/snapshot.h"

#include "driver_vault.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS_MAX = 256 };

struct driver {
        struct gateway_start start;
        struct snapshot_builder *policy;
        int listeners[GATEWAY_LISTENERS_MAX];
        int control, events;
        uint32_t generation;
        pid_t pid;
        struct driver_vault *vault; /* NULL: none */
        const char *ca_file;
};

static void die(const char *what, const struct err *e) {
        fprintf(stderr, "gateway-driver: %s: %s\n", what, e ? err_text(e) : strerror(errno));
        exit(2);
}

static const char *const listener_names[] = { "http", "socks",   "dns-udp", "dns-tcp", "transparent", "forward",
                                              "api",  "packets", "shim",    "agent",   "handed" };
static_assert(sizeof listener_names / sizeof *listener_names == LISTENER_KINDS, "a name for each kind");

static void keep_listener(struct driver *d, enum listener_kind kind, uint16_t forward, int fd) {
        if (d->start.n_listeners == GATEWAY_LISTENERS_MAX)
                die("too many listeners", NULL);
        d->listeners[d->start.n_listeners] = fd;
        d->start.listeners[d->start.n_listeners++] =
            (struct gateway_listener){ .kind = (uint16_t)kind, .forward_port = forward };
}

static void add_listener(struct driver *d, enum listener_kind kind, uint16_t forward) {
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
        socklen_t n = sizeof at;
        int type = kind == LISTENER_DNS_UDP ? SOCK_DGRAM : SOCK_STREAM;
        int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) < 0 || (type == SOCK_STREAM && listen(fd, 4096) < 0) ||
            getsockname(fd, (struct sockaddr *)&at, &n) < 0)
                die("listener", NULL);
        keep_listener(d, kind, forward, fd);
        printf("listen %s %u\n", listener_names[kind], ntohs(at.sin_port));
}

static void add_rule(struct driver *d, struct str value, struct err *e) {
        struct str host, methods, paths = STR(""), method[16], path[16];
        size_t n_methods = 0, n_paths = 0;
        str_split(&value, '|', &host);
        if (!str_split(&value, '|', &methods))
                die("rule", NULL);
        str_split(&value, '|', &paths);
        while (methods.n && n_methods < 16 && str_split(&methods, ',', &method[n_methods]))
                n_methods++;
        while (paths.n && n_paths < 16 && str_split(&paths, ',', &path[n_paths]))
                n_paths++;
        if (snapshot_add_request_rule(d->policy, host, method, n_methods, path, n_paths, STR("test"), e) < 0)
                die("rule", e);
}

static void add_git(struct driver *d, struct str value, struct err *e) {
        struct str text;
        struct git_name name;
        str_split(&value, '|', &text);
        if (git_name_parse(text, &name, e) < 0)
                die("git", e);
        struct snapshot_git git = { .text = text,
                                    .host = name.host,
                                    .port = name.port,
                                    .path = str_n(name.path, name.path_n),
                                    .refs = &value,
                                    .n_refs = 1,
                                    .fetch = true,
                                    .create = true,
                                    .ask = true };
        if (snapshot_add_git(d->policy, &git, STR("test"), e) < 0)
                die("git", e);
}

static bool policy_word(struct driver *d, struct str key, struct str value, struct err *e) {
        static const struct {
                const char *key;
                enum rule_list list;
        } lists[] = { { "allow", LIST_ALLOW }, { "deny", LIST_DENY }, { "private", LIST_ALLOW_PRIVATE } };
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
                if (str_is(key, lists[i].key)) {
                        if (snapshot_add(d->policy, lists[i].list, value, STR("test"), e) < 0)
                                die("pattern", e);
                        return true;
                }
        if (str_is(key, "rule"))
                add_rule(d, value, e);
        else if (str_is(key, "git"))
                add_git(d, value, e);
        else
                return false;
        return true;
}

static void duration_word(uint64_t *to, struct str value) {
        if (!clock_parse_duration(value, to))
                die("duration", NULL);
}

static void number_word(uint64_t *to, struct str value) {
        if (!str_to_u64(value, UINT64_MAX, to))
                die("number", NULL);
}

static uint64_t number_of(struct str value) {
        uint64_t n;
        number_word(&n, value);
        return n;
}

/* A listener made elsewhere, for example in another network namespace: "inherit=transparent:7". */
static void inherit_listener(struct driver *d, struct str value) {
        struct str name;
        str_split(&value, ':', &name);
        for (unsigned kind = 0; kind < LISTENER_KINDS; kind++)
                if (str_is(name, listener_names[kind])) {
                        keep_listener(d, (enum listener_kind)kind, 0, (int)number_of(value));
                        return;
                }
        die("unknown kind of listener", NULL);
}

static bool listener_word(struct driver *d, struct str key, struct str value) {
        if (str_is(key, "http"))
                add_listener(d, LISTENER_HTTP, 0);
        else if (str_is(key, "api"))
                add_listener(d, LISTENER_API, 0);
        else if (str_is(key, "socks"))
                add_listener(d, LISTENER_SOCKS5, 0);
        else if (str_is(key, "forward"))
                add_listener(d, LISTENER_FORWARD, (uint16_t)number_of(value));
        else if (str_is(key, "inherit"))
                inherit_listener(d, value);
        else if (str_is(key, "dns")) {
                add_listener(d, LISTENER_DNS_UDP, 0);
                add_listener(d, LISTENER_DNS_TCP, 0);
        } else
                return false;
        return true;
}

static const struct addr loopback = { ADDR_V4, { 127, 0, 0, 1 } };

static bool special_word(struct driver *d, struct str key, struct str value) {
        struct gateway_start *s = &d->start;
        struct str kind;
        if (str_is(key, "real"))
                s->dns_mode = DNS_REAL;
        else if (str_is(key, "can-ask"))
                s->can_ask = 1;
        else if (str_is(key, "vault"))
                d->vault = driver_vault_new(value.p); /* the end of an argument */
        else if (str_is(key, "ca"))
                d->ca_file = value.p;
        else if (str_is(key, "credential") && d->vault)
                driver_vault_credential(d->vault, value);
        else if (str_is(key, "server") && s->n_servers < GATEWAY_SERVERS_MAX)
                s->servers[s->n_servers++] = (struct gateway_server){ loopback, (uint16_t)number_of(value) };
        else if (str_is(key, "upstream")) {
                str_split(&value, ':', &kind);
                s->upstream_kind = str_is(kind, "http") ? UPSTREAM_HTTP : UPSTREAM_SOCKS5;
                host_from_addr(&loopback, &s->upstream.host);
                s->upstream.port = (uint16_t)number_of(value);
        } else
                return false;
        return true;
}

enum setting_form { DURATION, WIDE, NARROW, TEXT };

static void setting_word(struct driver *d, struct str key, struct str value) {
        struct gateway_start *s = &d->start;
        const struct {
                const char *key;
                enum setting_form form;
                void *to;
                size_t size;
        } table[] = {
                { "header", DURATION, &s->header_ns, 0 },
                { "idle", DURATION, &s->idle_ns, 0 },
                { "tunnel", DURATION, &s->tunnel_idle_ns, 0 },
                { "connect", DURATION, &s->connect_ns, 0 },
                { "ask-time", DURATION, &s->ask_timeout_ns, 0 },
                { "bytes-out", WIDE, &s->bytes_out, 0 },
                { "bytes-host", WIDE, &s->bytes_out_per_host, 0 },
                { "body-bytes", WIDE, &s->body_bytes, 0 },
                { "head-bytes", NARROW, &s->header_bytes, 0 },
                { "workers", NARROW, &s->workers, 0 },
                { "connections", NARROW, &s->connections, 0 },
                { "rate", NARROW, &s->connections_per_second, 0 },
                { "log", NARROW, &s->log_level, 0 },
                { "roots", TEXT, s->ca_bundle, sizeof s->ca_bundle },
                { "hosts", TEXT, s->hosts_file, sizeof s->hosts_file },
                { "user", TEXT, s->upstream_user, sizeof s->upstream_user },
                { "password", TEXT, s->upstream_password, sizeof s->upstream_password },
                { "secret", TEXT, s->client_secret, sizeof s->client_secret },
                { "bypass", TEXT, s->upstream_bypass, sizeof s->upstream_bypass },
        };
        for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
                if (!str_is(key, table[i].key))
                        continue;
                if (table[i].form == DURATION)
                        duration_word(table[i].to, value);
                else if (table[i].form == WIDE)
                        number_word(table[i].to, value);
                else if (table[i].form == NARROW)
                        *(uint32_t *)table[i].to = (uint32_t)number_of(value);
                else
                        snprintf(table[i].to, table[i].size, "%.*s", STR_FMT(value));
                return;
        }
        die("unknown word", NULL);
}

static void take_word(struct driver *d, struct str word, bool policy_only) {
        struct err e = { 0 };
        struct str key, value = word;
        str_split(&value, '=', &key);
        if (!policy_word(d, key, value, &e) && !policy_only && !listener_word(d, key, value) &&
            !special_word(d, key, value))
                setting_word(d, key, value);
}

/* The collected rules as a sealed snapshot. */
static int seal_policy(struct driver *d) {
        cleanup(free_ptr) void *bytes = NULL;
        size_t n;
        int fd = -1;
        struct err e = { 0 };
        if (snapshot_build(d->policy, &bytes, &n, &e) < 0 || fd_sealed("policy", str_n(bytes, n), &fd, &e) < 0)
                die("policy", &e);
        snapshot_builder_free(d->policy);
        d->policy = snapshot_builder_new(NETWORK_FILTERED, d->start.can_ask);
        return fd;
}

/* The vault with its table and channels; how many descriptors that makes. */
static unsigned start_vault(struct driver *d, int *fds) {
        if (!d->vault)
                return 0;
        driver_vault_start(d->vault, d->ca_file);
        d->start.workers = d->start.workers ? d->start.workers : 2;
        d->start.intercept = 1;
        d->start.n_vaults = d->start.workers;
        fds[0] = driver_vault_table(d->vault);
        for (unsigned i = 0; i < d->start.n_vaults; i++)
                fds[1 + i] = driver_vault_connect(d->vault);
        return 1 + d->start.n_vaults;
}

static void start_gateway(struct driver *d, const char *program) {
        struct err e = { 0 };
        int control[2], events[2], start_fd = -1, more[1 + GATEWAY_WORKERS_MAX];
        d->start.generation = d->generation = 1;
        d->start.audit = 1;
        unsigned n_more = start_vault(d, more);
        if (gateway_start_seal(&d->start, &start_fd, &e) < 0)
                die("start block", &e);
        int snapshot_fd = seal_policy(d);
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0 ||
            socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, events) < 0)
                die("socketpair", NULL);
        fd_set_nonblocking(events[1], true);
        fd_set_nonblocking(control[1], true);
        d->pid = fork();
        if (d->pid == 0) {
                int fds[GATEWAY_FD_LISTENERS + GATEWAY_LISTENERS_MAX + 1 + GATEWAY_WORKERS_MAX];
                fds[GATEWAY_FD_START] = start_fd;
                fds[GATEWAY_FD_CONTROL] = control[1];
                fds[GATEWAY_FD_EVENTS] = events[1];
                fds[GATEWAY_FD_SNAPSHOT] = snapshot_fd;
                unsigned n = GATEWAY_FD_LISTENERS + d->start.n_listeners;
                for (unsigned i = 0; i < d->start.n_listeners; i++)
                        fds[GATEWAY_FD_LISTENERS + i] = d->listeners[i];
                for (unsigned i = 0; i < n_more; i++)
                        fds[n++] = more[i];
                for (unsigned i = GATEWAY_FD_START; i < n; i++) /* out of the way first */
                        if ((fds[i] = fcntl(fds[i], F_DUPFD, (int)n)) < 0)
                                _exit(3);
                for (unsigned i = GATEWAY_FD_START; i < n; i++)
                        if (dup2(fds[i], (int)i) < 0)
                                _exit(3);
                fd_close_from((int)n);
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                execl(program, "bailey-gateway", (char *)NULL);
                _exit(4);
        }
        printf("pid %d\n", (int)d->pid);
        d->control = control[0];
        d->events = events[0];
        close(control[1]);
        close(events[1]);
        close(start_fd);
        close(snapshot_fd);
        for (unsigned i = 0; i < d->start.n_listeners; i++)
                close(d->listeners[i]);
        for (unsigned i = 0; i < n_more; i++)
                close(more[i]);
}

static void print_event(const struct event *ev) {
        cleanup(buf_done) struct buf out = BUF(1 << 16);
        char addr[ADDR_TEXT_MAX] = "";
        if (ev->addr.family != ADDR_NONE)
                addr_text(&ev->addr, addr);
        buf_printf(&out, "{\"scheme\":\"%s\",", event_scheme_name(ev->scheme));
        buf_printf(&out, "\"kind\":\"%s\",\"via\":\"%s\",\"allowed\":%s,\"reason\":\"%s\",\"status\":%u,\"port\":%u,",
                   event_kind_name(ev->kind), event_via_name(ev->via), ev->allowed ? "true" : "false",
                   reason_code(ev->reason), ev->status, ev->port);
        buf_printf(
            &out,
            "\"bytes_in\":%llu,\"bytes_out\":%llu,\"connection\":%llu,\"generation\":%u,\"count\":%u,\"addr\":\"%s\"",
            (unsigned long long)ev->bytes_in, (unsigned long long)ev->bytes_out, (unsigned long long)ev->connection,
            ev->generation, ev->count ? ev->count : 1, addr);
        const struct {
                const char *name;
                struct str value;
        } texts[] = { { "domain", ev->domain },
                      { "method", ev->method },
                      { "path", ev->path },
                      { "swapped", ev->swapped },
                      { "detail", ev->detail } };
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
                buf_printf(&out, ",\"%s\":", texts[i].name);
                escape_json(&out, texts[i].value);
        }
        buf_add(&out, "}");
        printf("%s\n", buf_text(&out));
}

static void take_events(struct driver *d) {
        static char bytes[EVENT_BATCH_MAX];
        ssize_t n;
        while ((n = recv(d->events, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
                struct str batch = str_n(bytes, (size_t)n);
                struct event ev;
                int r;
                while ((r = event_decode(&batch, &ev)) > 0)
                        print_event(&ev);
                if (r < 0)
                        die("malformed event", NULL);
        }
}

/* False when the gateway has ended. */
static bool take_control(struct driver *d) {
        struct ipc_message m;
        int fd = -1, r = ipc_receive(d->control, IPC_GATEWAY, &m, &fd);
        if (r <= 0)
                return false;
        char where[AUTHORITY_TEXT_MAX] = "";
        if (m.kind == IPC_ASK)
                authority_text(&m.authority, where);
        printf("%s %llu %llu %s%s\n", ipc_kind_name(m.kind), (unsigned long long)m.id, (unsigned long long)m.number,
               where, m.text);
        return true;
}

/* A new vault in the place of one that was killed. */
static void restart_vault(struct driver *d) {
        driver_vault_start(d->vault, NULL);
        for (unsigned i = 0; i < d->start.n_vaults; i++) {
                cleanup(close_fd) int fd = driver_vault_connect(d->vault);
                struct ipc_message m = { .kind = IPC_VAULT, .number = i };
                if (ipc_send(d->control, IPC_SUPERVISOR, &m, fd) < 0)
                        die("send", NULL);
        }
}

static bool vault_line(struct driver *d, struct str word, struct str line) {
        if (!d->vault)
                return false;
        if (str_is(word, "kill-vault"))
                driver_vault_kill(d->vault);
        else if (str_is(word, "start-vault"))
                restart_vault(d);
        else if (str_is(word, "value"))
                driver_vault_value(d->vault, line);
        else
                return false;
        return true;
}

static void take_line(struct driver *d, struct str line) {
        struct str word;
        struct ipc_message m = { 0 };
        int fd = -1;
        str_split(&line, ' ', &word);
        if (vault_line(d, word, line))
                return;
        if (str_is(word, "policy")) {
                while (str_split(&line, ' ', &word))
                        take_word(d, word, true);
                m.kind = IPC_SNAPSHOT;
                m.number = ++d->generation;
                fd = seal_policy(d);
        } else if (str_is(word, "audit")) {
                m.kind = IPC_AUDIT;
                m.number = str_is(line, "1");
        } else if (str_is(word, "answer")) {
                m.kind = IPC_ANSWER;
                str_split(&line, ' ', &word);
                str_to_u64(word, UINT64_MAX, &m.id);
                m.number = str_is(line, "1");
        } else if (str_is(word, "stop")) {
                m.kind = IPC_STOP;
        }
        if (m.kind && ipc_send(d->control, IPC_SUPERVISOR, &m, fd) < 0)
                die("send", NULL);
        close_fd(&fd);
}

/* Standard input, line by line; false at its end. */
static bool take_input(struct driver *d) {
        static struct buf in = BUF(1 << 16);
        char bytes[4096];
        ssize_t n = read(0, bytes, sizeof bytes);
        if (n <= 0 || buf_append(&in, str_n(bytes, (size_t)n)) < 0)
                return false;
        ptrdiff_t end;
        while ((end = str_find(buf_str(&in), '\n')) >= 0) {
                take_line(d, str_first(buf_str(&in), (size_t)end));
                buf_consume(&in, (size_t)end + 1);
        }
        return true;
}

static void serve(struct driver *d) {
        for (;;) {
                struct pollfd fds[] = { { d->control, POLLIN, 0 }, { d->events, POLLIN, 0 }, { 0, POLLIN, 0 } };
                if (poll(fds, 3, -1) < 0 && errno != EINTR)
                        return;
                if (fds[1].revents)
                        take_events(d);
                if (fds[0].revents && !take_control(d))
                        return;
                if (fds[2].revents && !take_input(d))
                        return;
        }
}

int main(int argc, char **argv) {
        static struct driver d;
        setvbuf(stdout, NULL, _IOLBF, 0);
        signal(SIGPIPE, SIG_IGN);
        if (argc < 2 || argc > WORDS_MAX)
                return 2;
        gateway_start_init(&d.start);
        for (int i = 2; i < argc && !d.start.can_ask; i++)
                d.start.can_ask = strcmp(argv[i], "can-ask") == 0;
        d.policy = snapshot_builder_new(NETWORK_FILTERED, d.start.can_ask);
        for (int i = 2; i < argc; i++)
                take_word(&d, str_of(argv[i]), false);
        start_gateway(&d, argv[1]);
        serve(&d);
        ipc_send(d.control, IPC_SUPERVISOR, &(struct ipc_message){ .kind = IPC_STOP }, -1);
        int status = 0;
        for (int i = 0; i < 500 && waitpid(d.pid, &status, WNOHANG) == 0; i++)
                usleep(10000);
        if (waitpid(d.pid, &status, WNOHANG) == 0) {
                kill(d.pid, SIGKILL);
                waitpid(d.pid, &status, 0);
                return 3;
        }
        take_events(&d);
        printf("ended %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
        snapshot_builder_free(d.policy);
        return 0;
}
