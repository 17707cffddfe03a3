/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs bailey-gateway by itself, for tests: plays the supervisor. Words on the command line make the policy and the
 * settings, standard output gets one line per listener, then "ready", then one JSON object per event. It ends when its
 * input does.
 *
 *     gateway-driver PROGRAM http socks dns allow=a.test:80 deny=b.test private=127.0.0.1 rule=HOST|GET,HEAD|/x/
 * hosts=FILE real can-ask header=200ms idle=1s tunnel=1s connect=1s head-bytes=8192 bytes-out=N workers=N server=PORT
 *
 * Lines on standard input change things meanwhile: "policy WORDS..." swaps the policy, "audit 0" and "audit 1", "answer
 * ID 1".
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/fd.h"
#include "ipc/event.h"
#include "ipc/gateway.h"
#include "policy/snapshot.h"

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
};

static void die(const char *what, const struct err *e) {
        fprintf(stderr, "gateway-driver: %s: %s\n", what, e ? err_text(e) : strerror(errno));
        exit(2);
}

static void add_listener(struct driver *d, const char *name, enum listener_kind kind, int type) {
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
        socklen_t n = sizeof at;
        int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) < 0 || (type == SOCK_STREAM && listen(fd, 1024) < 0) ||
            getsockname(fd, (struct sockaddr *)&at, &n) < 0)
                die("listener", NULL);
        d->listeners[d->start.n_listeners] = fd;
        d->start.listeners[d->start.n_listeners++] = (struct gateway_listener){ .kind = (uint16_t)kind };
        printf("%s %u\n", name, ntohs(at.sin_port));
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
        return str_is(key, "rule");
}

static void duration_word(uint64_t *to, struct str value) {
        if (!clock_parse_duration(value, to))
                die("duration", NULL);
}

static void number_word(uint64_t *to, struct str value) {
        if (!str_to_u64(value, UINT64_MAX, to))
                die("number", NULL);
}

static void setting_word(struct driver *d, struct str key, struct str value) {
        struct gateway_start *s = &d->start;
        uint64_t n = 0;
        if (str_is(key, "http"))
                add_listener(d, "http", LISTENER_HTTP, SOCK_STREAM);
        else if (str_is(key, "socks"))
                add_listener(d, "socks", LISTENER_SOCKS5, SOCK_STREAM);
        else if (str_is(key, "dns")) {
                add_listener(d, "dns-udp", LISTENER_DNS_UDP, SOCK_DGRAM);
                add_listener(d, "dns-tcp", LISTENER_DNS_TCP, SOCK_STREAM);
        } else if (str_is(key, "real"))
                s->dns_mode = DNS_REAL;
        else if (str_is(key, "can-ask"))
                s->can_ask = 1;
        else if (str_is(key, "header"))
                duration_word(&s->header_ns, value);
        else if (str_is(key, "idle"))
                duration_word(&s->idle_ns, value);
        else if (str_is(key, "tunnel"))
                duration_word(&s->tunnel_idle_ns, value);
        else if (str_is(key, "connect"))
                duration_word(&s->connect_ns, value);
        else if (str_is(key, "bytes-out"))
                number_word(&s->bytes_out, value);
        else if (str_is(key, "hosts"))
                snprintf(s->hosts_file, sizeof s->hosts_file, "%.*s", STR_FMT(value));
        else {
                number_word(&n, value);
                if (str_is(key, "head-bytes"))
                        s->header_bytes = (uint32_t)n;
                else if (str_is(key, "workers"))
                        s->workers = (uint32_t)n;
                else if (str_is(key, "connections"))
                        s->connections = (uint32_t)n;
                else if (str_is(key, "log"))
                        s->log_level = (uint32_t)n;
                else if (str_is(key, "server")) {
                        s->servers[s->n_servers].addr = (struct addr){ ADDR_V4, { 127, 0, 0, 1 } };
                        s->servers[s->n_servers++].port = (uint16_t)n;
                } else
                        die("unknown word", NULL);
        }
}

static void take_word(struct driver *d, struct str word, bool policy_only) {
        struct err e = { 0 };
        struct str key, value = word;
        str_split(&value, '=', &key);
        if (!policy_word(d, key, value, &e) && !policy_only)
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

static void start_gateway(struct driver *d, const char *program) {
        struct err e = { 0 };
        int control[2], events[2], start_fd = -1;
        d->start.generation = d->generation = 1;
        d->start.audit = 1;
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
                int fds[GATEWAY_FD_LISTENERS + GATEWAY_LISTENERS_MAX];
                fds[GATEWAY_FD_START] = start_fd;
                fds[GATEWAY_FD_CONTROL] = control[1];
                fds[GATEWAY_FD_EVENTS] = events[1];
                fds[GATEWAY_FD_SNAPSHOT] = snapshot_fd;
                unsigned n = GATEWAY_FD_LISTENERS + d->start.n_listeners;
                for (unsigned i = 0; i < d->start.n_listeners; i++)
                        fds[GATEWAY_FD_LISTENERS + i] = d->listeners[i];
                for (unsigned i = GATEWAY_FD_START; i < n; i++) /* out of the way first */
                        if ((fds[i] = fcntl(fds[i], F_DUPFD, 64)) < 0)
                                _exit(3);
                for (unsigned i = GATEWAY_FD_START; i < n; i++)
                        if (dup2(fds[i], (int)i) < 0)
                                _exit(3);
                fd_close_from((int)n);
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                execl(program, "bailey-gateway", (char *)NULL);
                _exit(4);
        }
        d->control = control[0];
        d->events = events[0];
        close(control[1]);
        close(events[1]);
        close(start_fd);
        close(snapshot_fd);
}

static void print_event(const struct event *ev) {
        cleanup(buf_done) struct buf out = BUF(1 << 16);
        char addr[ADDR_TEXT_MAX] = "";
        if (ev->addr.family != ADDR_NONE)
                addr_text(&ev->addr, addr);
        buf_printf(&out, "{\"kind\":\"%s\",\"via\":\"%s\",\"allowed\":%s,\"reason\":\"%s\",\"status\":%u,\"port\":%u,",
                   event_kind_name(ev->kind), event_via_name(ev->via), ev->allowed ? "true" : "false",
                   reason_code(ev->reason), ev->status, ev->port);
        buf_printf(&out, "\"bytes_in\":%llu,\"bytes_out\":%llu,\"connection\":%llu,\"generation\":%u,\"addr\":\"%s\"",
                   (unsigned long long)ev->bytes_in, (unsigned long long)ev->bytes_out,
                   (unsigned long long)ev->connection, ev->generation, addr);
        const struct {
                const char *name;
                struct str value;
        } texts[] = {
                { "domain", ev->domain }, { "method", ev->method }, { "path", ev->path }, { "detail", ev->detail }
        };
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
        if (m.kind == IPC_ASK)
                printf("ask %llu %s %u\n", (unsigned long long)m.id, m.authority.host.name, m.authority.port);
        else if (m.kind == IPC_FAILED)
                printf("failed %s\n", m.text);
        else
                printf("%s\n", ipc_kind_name(m.kind));
        return true;
}

static void take_line(struct driver *d, struct str line) {
        struct str word;
        struct ipc_message m = { 0 };
        int fd = -1;
        str_split(&line, ' ', &word);
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
