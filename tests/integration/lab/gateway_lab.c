/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A supervisor for tests: starts bailey-gateway with listeners on loopback and prints what it reports, one line each;
 * lines on standard input are commands. It uses the same messages as the real one, and nothing else of it.
 *
 *     gateway-lab PROGRAM key=value...
 *       http= socks= dns= forward=FROM:TO   loopback ports (0: any; printed as "listen KIND PORT")
 *       inherit=KIND:FD                     a listener that was passed in (also transparent)
 *       allow= deny= private=               patterns, may be repeated
 *       ask=1 hosts=FILE server=PORT upstream=http:PORT|socks5:PORT user= password= bypass=
 *       connections= rate= bytes= bytes-host= header-ms= idle-ms= tunnel-idle-ms= connect-ms= ask-ms= workers= audit=0
 *     commands: allow P | deny P | private P | clear | reload | audit 0|1 | answer ID allow|deny | stop
 */
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/fd.h"
#include "ipc/event.h"
#include "ipc/gateway.h"
#include "policy/snapshot.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
        char text[256];
        enum rule_list list;
} rules[4096];
static size_t n_rules;
static struct gateway_start start;
static int listeners[GATEWAY_LISTENERS_MAX], control, events;
static uint64_t generation = 1;

static _Noreturn void die(const char *what) {
        fprintf(stderr, "gateway-lab: %s\n", what);
        exit(2);
}

static uint64_t number(struct str s) {
        uint64_t n;
        if (!str_to_u64(s, INT64_MAX, &n))
                die("not a number");
        return n;
}

static void add_rule(enum rule_list list, struct str text) {
        if (n_rules == sizeof rules / sizeof rules[0] || text.n >= sizeof rules[0].text)
                die("too many rules");
        memcpy(rules[n_rules].text, text.p, text.n);
        rules[n_rules].text[text.n] = '\0';
        rules[n_rules++].list = list;
}

static int build_policy(void) {
        struct err e = { 0 };
        cleanup(snapshot_builder_freep) struct snapshot_builder *b =
            snapshot_builder_new(NETWORK_FILTERED, start.can_ask);
        for (size_t i = 0; i < n_rules; i++)
                if (snapshot_add(b, rules[i].list, str_of(rules[i].text), STR("lab"), &e) < 0)
                        die(err_text(&e));
        void *bytes;
        size_t n;
        int fd;
        if (snapshot_build(b, &bytes, &n, &e) < 0 || fd_sealed("policy", str_n(bytes, n), &fd, &e) < 0)
                die(err_text(&e));
        free(bytes);
        return fd;
}

static void add_listener(enum listener_kind kind, uint16_t port, uint16_t forward) {
        static const char *const names[] = { "http", "socks", "dns-udp", "dns-tcp", "transparent", "forward" };
        struct sockaddr_in a = { .sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                 .sin_port = htons(port) };
        socklen_t size = sizeof a;
        int fd = socket(AF_INET, (kind == LISTENER_DNS_UDP ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0), one = 1;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || (kind != LISTENER_DNS_UDP && listen(fd, 4096) < 0))
                die("cannot listen");
        getsockname(fd, (struct sockaddr *)&a, &size);
        start.listeners[start.n_listeners] =
            (struct gateway_listener){ .kind = (uint16_t)kind, .forward_port = forward };
        listeners[start.n_listeners++] = fd;
        printf("listen %s %u\n", names[kind], ntohs(a.sin_port));
}

/* A listener made elsewhere, for example in another network namespace: "inherit=transparent:7". */
static void inherit_listener(struct str value) {
        static const char *const names[] = { "http", "socks", "dns-udp", "dns-tcp", "transparent" };
        struct str kind;
        str_split(&value, ':', &kind);
        for (uint16_t i = 0; i < sizeof names / sizeof names[0]; i++)
                if (str_is(kind, names[i])) {
                        start.listeners[start.n_listeners] = (struct gateway_listener){ .kind = i };
                        listeners[start.n_listeners++] = (int)number(value);
                        return;
                }
        die("unknown kind of listener");
}

static void set_upstream(struct str value) {
        struct str kind;
        str_split(&value, ':', &kind);
        start.upstream_kind = str_is(kind, "http") ? UPSTREAM_HTTP : UPSTREAM_SOCKS5;
        addr_parse(STR("127.0.0.1"), &start.upstream.host.addr);
        host_from_addr(&(struct addr){ .family = ADDR_V4, .bytes = { 127, 0, 0, 1 } }, &start.upstream.host);
        start.upstream.port = (uint16_t)number(value);
}

static void copy(char *to, size_t room, struct str s) {
        if (s.n >= room)
                die("too long");
        memcpy(to, s.p, s.n);
        to[s.n] = '\0';
}

static bool set_text(struct str key, struct str value) {
        if (str_is(key, "hosts"))
                copy(start.hosts_file, sizeof start.hosts_file, value);
        else if (str_is(key, "user"))
                copy(start.upstream_user, sizeof start.upstream_user, value);
        else if (str_is(key, "password"))
                copy(start.upstream_password, sizeof start.upstream_password, value);
        else if (str_is(key, "bypass"))
                copy(start.upstream_bypass, sizeof start.upstream_bypass, value);
        else if (str_is(key, "upstream"))
                set_upstream(value);
        else if (str_is(key, "allow"))
                add_rule(LIST_ALLOW, value);
        else if (str_is(key, "deny"))
                add_rule(LIST_DENY, value);
        else if (str_is(key, "private"))
                add_rule(LIST_ALLOW_PRIVATE, value);
        else
                return false;
        return true;
}

static bool set_listener(struct str key, struct str value) {
        if (str_is(key, "http"))
                add_listener(LISTENER_HTTP, (uint16_t)number(value), 0);
        else if (str_is(key, "socks"))
                add_listener(LISTENER_SOCKS5, (uint16_t)number(value), 0);
        else if (str_is(key, "dns")) {
                add_listener(LISTENER_DNS_UDP, (uint16_t)number(value), 0);
                add_listener(LISTENER_DNS_TCP, (uint16_t)number(value), 0);
        } else if (str_is(key, "inherit")) {
                inherit_listener(value);
        } else if (str_is(key, "forward")) {
                struct str from;
                str_split(&value, ':', &from);
                add_listener(LISTENER_FORWARD, (uint16_t)number(from), (uint16_t)number(value));
        } else
                return false;
        return true;
}

static void set_number(struct str key, uint64_t n) {
        const struct {
                const char *key;
                uint64_t *wide;
                uint32_t *narrow;
                uint64_t unit;
        } table[] = {
                { "ask", NULL, &start.can_ask, 1 },
                { "audit", NULL, &start.audit, 1 },
                { "workers", NULL, &start.workers, 1 },
                { "connections", NULL, &start.connections, 1 },
                { "rate", NULL, &start.connections_per_second, 1 },
                { "bytes", &start.bytes_out, NULL, 1 },
                { "bytes-host", &start.bytes_out_per_host, NULL, 1 },
                { "header-ms", &start.header_ns, NULL, 1000000 },
                { "idle-ms", &start.idle_ns, NULL, 1000000 },
                { "tunnel-idle-ms", &start.tunnel_idle_ns, NULL, 1000000 },
                { "connect-ms", &start.connect_ns, NULL, 1000000 },
                { "ask-ms", &start.ask_timeout_ns, NULL, 1000000 },
                { "log", NULL, &start.log_level, 1 },
        };
        for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
                if (str_is(key, table[i].key)) {
                        if (table[i].wide)
                                *table[i].wide = n * table[i].unit;
                        else
                                *table[i].narrow = (uint32_t)n;
                        return;
                }
        if (!str_is(key, "server"))
                die("unknown key");
        start.servers[0] = (struct gateway_server){ .port = (uint16_t)n };
        addr_parse(STR("127.0.0.1"), &start.servers[0].addr);
        start.n_servers = 1;
}

static void run_gateway(const char *program, int start_fd, int control_fd, int events_fd, int policy_fd) {
        int fds[GATEWAY_LISTENERS_MAX + 4] = { start_fd, control_fd, events_fd, policy_fd };
        size_t n = 4;
        for (size_t i = 0; i < start.n_listeners; i++)
                fds[n++] = listeners[i];
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (size_t i = 0; i < n; i++) /* out of the way of the places that they must go to */
                fds[i] = fcntl(fds[i], F_DUPFD, 40);
        for (size_t i = 0; i < n; i++)
                dup2(fds[i], GATEWAY_FD_START + (int)i);
        fd_close_from(GATEWAY_FD_START + (int)n);
        execl(program, program, NULL);
        _exit(127);
}

static bool print_events(void) {
        static char batch[EVENT_BATCH_MAX + 1];
        ssize_t got = recv(events, batch, sizeof batch, MSG_DONTWAIT);
        if (got <= 0)
                return false;
        struct str rest = str_n(batch, (size_t)got);
        struct event ev;
        while (event_decode(&rest, &ev) == 1) {
                cleanup(buf_done) struct buf text = BUF(1 << 20);
                escape_text(&text, ev.domain, 300);
                printf("event %s %s %s %s %u reason=%s status=%u in=%" PRIu64 " out=%" PRIu64 " conn=%" PRIu64 "\n",
                       event_kind_name(ev.kind), event_via_name(ev.via), ev.allowed ? "allowed" : "refused",
                       text.n ? buf_text(&text) : "-", ev.port, reason_code(ev.reason), ev.status, ev.bytes_in,
                       ev.bytes_out, ev.connection);
        }
        return true;
}

static void send_message(const struct ipc_message *m, int fd) {
        if (ipc_send(control, IPC_SUPERVISOR, m, fd) < 0)
                die("the gateway does not listen");
}

static bool command(struct str line) {
        struct str word;
        str_split(&line, ' ', &word);
        if (str_is(word, "reload")) {
                cleanup(close_fd) int fd = build_policy();
                send_message(&(struct ipc_message){ .kind = IPC_SNAPSHOT, .number = ++generation }, fd);
        } else if (str_is(word, "clear"))
                n_rules = 0;
        else if (str_is(word, "audit"))
                send_message(&(struct ipc_message){ .kind = IPC_AUDIT, .number = number(line) }, -1);
        else if (str_is(word, "answer")) {
                struct str id;
                str_split(&line, ' ', &id);
                enum decision d = str_is(line, "allow") ? DECISION_ALLOW : DECISION_DENY;
                send_message(&(struct ipc_message){ .kind = IPC_ANSWER, .id = number(id), .number = d }, -1);
        } else if (str_is(word, "stop")) {
                send_message(&(struct ipc_message){ .kind = IPC_STOP }, -1);
                return false;
        } else if (!set_text(word, line))
                die("unknown command");
        return true;
}

/* False when the gateway has gone. */
static bool print_control(void) {
        struct ipc_message m;
        cleanup(close_fd) int fd = -1;
        int r = ipc_receive(control, IPC_GATEWAY, &m, &fd);
        if (r <= 0)
                return r == -EAGAIN;
        char where[AUTHORITY_TEXT_MAX] = "";
        if (m.kind == IPC_ASK)
                authority_text(&m.authority, where);
        printf("%s %" PRIu64 " %" PRIu64 " %s%s\n", ipc_kind_name(m.kind), m.id, m.number, where, m.text);
        return true;
}

static void serve(void) {
        static char line[512];
        size_t n = 0;
        struct pollfd fds[] = { { .fd = control, .events = POLLIN },
                                { .fd = events, .events = POLLIN },
                                { .fd = 0, .events = POLLIN } };
        for (;;) {
                fflush(stdout);
                if (poll(fds, 3, -1) < 0)
                        die("poll");
                if (fds[1].revents)
                        print_events();
                if (fds[0].revents && !print_control())
                        return;
                if (!fds[2].revents)
                        continue;
                ssize_t got = read(0, line + n, sizeof line - n);
                if (got <= 0)
                        return;
                n += (size_t)got;
                char *end;
                while ((end = memchr(line, '\n', n))) {
                        size_t used = (size_t)(end - line) + 1;
                        if (!command(str_n(line, used - 1)))
                                fds[2].fd = -1;
                        memmove(line, line + used, n - used);
                        n -= used;
                }
        }
}

int main(int argc, char **argv) {
        if (argc < 2)
                die("usage: gateway-lab PROGRAM key=value...");
        gateway_start_init(&start);
        start.audit = 1;
        start.generation = 1;
        for (int i = 2; i < argc; i++) {
                struct str value = str_of(argv[i]), key;
                str_split(&value, '=', &key);
                if (!set_text(key, value) && !set_listener(key, value))
                        set_number(key, number(value));
        }
        struct err e = { 0 };
        int start_fd, control_pair[2], events_pair[2];
        if (gateway_start_seal(&start, &start_fd, &e) < 0)
                die(err_text(&e));
        int policy = build_policy();
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control_pair);
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, events_pair);
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0)
                run_gateway(argv[1], start_fd, control_pair[1], events_pair[1], policy);
        close(control_pair[1]);
        close(events_pair[1]);
        for (size_t i = 0; i < start.n_listeners; i++)
                close(listeners[i]);
        control = control_pair[0];
        events = events_pair[0];
        printf("pid %d\n", pid);
        serve();
        close(control);
        int status = 0;
        waitpid(pid, &status, 0);
        while (print_events()) /* what was on its way */
                ;
        printf("exit %d\n", status);
        return 0;
}
