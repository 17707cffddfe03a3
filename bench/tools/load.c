/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load generator: one thread, edge-triggered, as cheap as it can be, so that it is not what is measured.
 *
 *     load requests  keep-alive GETs on some connections, the time of each
 *     load tunnels   a new connection for each: open it through the proxy, one small exchange, close
 *     load bulk      tunnels that carry bytes; they are dropped in the kernel
 *     load idle      opens tunnels, says so, and holds them until its standard input ends
 *     load dns       A questions over UDP, some on their way at a time
 *
 * With --tls the exchange is TLS inside the tunnel. --target is what the proxy is asked for, when that is not the
 * origin's address; a '#' in it is the number of the connection, so that each goes to a host never seen.
 * With --settle every connection has one answer and rests, until all have. Then --active of them go on, and the others
 * stay open and rest. After two more rounds, when a proxy has opened what it needs, "ready" is printed: the run begins.
 *
 * It prints one JSON object. Whatever is not the expected answer counts as an error and is said once.
 */
#include "tls.h"
#include "tool.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum mode { REQUESTS, TUNNELS, BULK, IDLE, DNS, MODES };
static const char *const mode_names[MODES] = { "requests", "tunnels", "bulk", "idle", "dns" };
enum through { DIRECT, HTTP, CONNECT, SOCKS, WAYS };
static const char *const way_names[WAYS] = { "direct", "http", "connect", "socks" };
enum state { CONNECTING, CONNECT_ANSWER, SOCKS_METHOD, SOCKS_ANSWER, HANDSHAKE, HEAD, BODY, RESTING };

enum {
        HEAD_MAX = 2048,
        TARGET_MAX = 128,
        DISCARD = 1 << 20,
        ERRORS_MAX = 1000,
        TIMES = 1 << 17, /* one place for each microsecond */
        SETTLE_MS = 20000,
        OPENING = 256, /* connections that are opened at a time: more would wait for places in a server's queue */
        DNS_PORTS = 4,
        DNS_NAMES = 1000,
};

struct connection {
        int fd;
        enum state state;
        bool last; /* the other side closes after this answer */
        size_t n;  /* bytes of head */
        uint64_t left, since;
        struct tls *tls;
        char target[TARGET_MAX]; /* NAME:PORT that this connection asks for */
        char head[HEAD_MAX];
};

static struct {
        enum mode mode;
        enum through way;
        struct sockaddr_in proxy, origin;
        const char *origin_text, *dns_zone, *target, *token;
        uint64_t size, connections, active, seconds_ms, operations, first;
        int dns_rcode;
        bool tls, settle;
} want = { .size = 1024, .connections = 1, .active = UINT64_MAX, .seconds_ms = 1000, .operations = UINT64_MAX };

static struct {
        uint64_t started, done, errors, bytes, open;
        uint32_t times[TIMES];
        char first_error[160];
} seen;

static int epoll;
static char discard[DISCARD];
static struct connection *connections;
static uint64_t connections_n; /* begun so far */
static uint64_t going_on;      /* with --settle, from when on all are open: the answers after which it is measured */

static void begin(struct connection *c);

static void drop(struct connection *c) {
        tls_close(c->tls);
        c->tls = NULL;
        close(c->fd);
        c->fd = -1;
}

static void failed(struct connection *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void failed(struct connection *c, const char *format, ...) {
        if (seen.errors++ == 0) {
                va_list args;
                va_start(args, format);
                vsnprintf(seen.first_error, sizeof seen.first_error, format, args);
                va_end(args);
        }
        drop(c);
        if (seen.errors < ERRORS_MAX && want.mode != IDLE)
                begin(c);
}

/* A connection that takes no bytes any more says so when it is read. */
static void say(struct connection *c, const void *bytes, size_t n) {
        if (c->tls)
                (void)!tls_send(c->tls, bytes, n);
        else
                (void)!send(c->fd, bytes, n, MSG_NOSIGNAL);
}

static void send_request(struct connection *c) {
        static char text[512];
        int n = snprintf(text, sizeof text,
                         "GET %s%s/%llu HTTP/1.1\r\nHost: %s\r\nUser-Agent: lab\r\nAccept: */*\r\n%s%s%s\r\n",
                         want.way == HTTP ? "http://" : "", want.way == HTTP ? c->target : "",
                         (unsigned long long)want.size, c->target, want.token ? "Authorization: Bearer " : "",
                         want.token ? want.token : "", want.token ? "\r\n" : "");
        if (n < 0 || (size_t)n >= sizeof text)
                tool_die("the request is too long");
        c->state = HEAD;
        c->n = 0;
        if (want.mode != TUNNELS)
                c->since = clock_ns();
        say(c, text, (size_t)n);
}

static void name_target(struct connection *c, uint64_t number) {
        const char *text = want.target ? want.target : want.origin_text, *mark = strchr(text, '#');
        int n = mark ? snprintf(c->target, sizeof c->target, "%.*s%llu%s", (int)(mark - text), text,
                                (unsigned long long)(want.first + number), mark + 1)
                     : snprintf(c->target, sizeof c->target, "%s", text);
        if (n < 0 || (size_t)n >= sizeof c->target)
                tool_die("the target is too long");
}

static void begin(struct connection *c) {
        name_target(c, seen.started++);
        c->fd = tool_socket();
        c->state = CONNECTING;
        c->n = 0;
        c->since = clock_ns();
        if (connect(c->fd, (struct sockaddr *)&want.proxy, sizeof want.proxy) < 0 && errno != EINPROGRESS) {
                failed(c, "connect: %s", strerror(errno));
                return;
        }
        tool_watch(epoll, c->fd, c);
}

static void tunnel_is_open(struct connection *c) {
        if (want.mode == IDLE) {
                c->state = RESTING;
                seen.open++;
        } else if (want.tls) {
                char name[TARGET_MAX];
                snprintf(name, sizeof name, "%.*s", (int)strcspn(c->target, ":"), c->target);
                c->tls = tls_open(c->fd, name);
                c->state = HANDSHAKE;
        } else
                send_request(c);
}

static void on_connected(struct connection *c) {
        int error = 0;
        socklen_t n = sizeof error;
        getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &n);
        if (error) {
                failed(c, "connect: %s", strerror(error));
        } else if (want.way == CONNECT) {
                char text[256];
                int k = snprintf(text, sizeof text, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", c->target, c->target);
                c->state = CONNECT_ANSWER;
                say(c, text, (size_t)k);
        } else if (want.way == SOCKS) {
                c->state = SOCKS_METHOD;
                say(c, "\5\1", 3);
        } else
                tunnel_is_open(c);
}

static void ask_socks(struct connection *c) {
        unsigned char request[10] = { 5, 1, 0, 1 };
        memcpy(request + 4, &want.origin.sin_addr, 4);
        memcpy(request + 8, &want.origin.sin_port, 2);
        c->state = SOCKS_ANSWER;
        c->n = 0;
        say(c, request, sizeof request);
}

static void completed(struct connection *c) {
        uint64_t us = (clock_ns() - c->since) / 1000;
        seen.done++;
        seen.times[us < TIMES ? us : TIMES - 1]++;
        if (want.mode == TUNNELS) {
                drop(c);
                if (seen.started < want.operations)
                        begin(c);
        } else if (c->last) {
                drop(c);
                begin(c);
        } else if (want.settle && !going_on) {
                c->state = RESTING;
                seen.open++;
        } else if (seen.done < want.operations)
                send_request(c);
}

/* The head is whole: how long is the body? */
static bool read_length(struct connection *c, const char *end) {
        const char *length = strcasestr(c->head, "\r\ncontent-length:");
        if (strncmp(c->head + 8, " 200", 4) != 0 || !length || length > end) {
                failed(c, "answer: %.60s", c->head);
                return false;
        }
        c->last = strcasestr(c->head, "\r\nconnection: close") != NULL; /* some proxies have no other way */
        uint64_t total = strtoull(length + 17, NULL, 10), here = c->n - (size_t)(end + 4 - c->head);
        if (total != want.size) { /* another answer is another load */
                failed(c, "%llu bytes were asked for, the answer has %llu", (unsigned long long)want.size,
                       (unsigned long long)total);
                return false;
        }
        c->left = total > here ? total - here : 0;
        seen.bytes += here;
        c->state = BODY;
        return true;
}

/* Takes what has arrived into c->head. False when there is nothing more now, or the connection failed. */
static bool fill(struct connection *c, size_t max) {
        errno = 0;
        ssize_t got =
            c->tls ? tls_recv(c->tls, c->head + c->n, max - c->n) : recv(c->fd, c->head + c->n, max - c->n, 0);
        if (got <= 0 && errno != EAGAIN && want.mode == REQUESTS && c->state == HEAD && c->n == 0) {
                drop(c); /* a proxy that closes between two answers costs itself a connection, no error */
                begin(c);
                return false;
        }
        if (got <= 0) {
                if (got == 0 || errno != EAGAIN)
                        failed(c, "closed in state %d: %s", c->state, got ? strerror(errno) : "end");
                return false;
        }
        c->n += (size_t)got;
        c->head[c->n] = 0;
        return true;
}

static bool body_step(struct connection *c) {
        size_t max = c->left < DISCARD ? c->left : DISCARD;
        ssize_t got = c->tls ? tls_recv(c->tls, discard, max) : recv(c->fd, discard, max, MSG_TRUNC);
        if (got <= 0) {
                if (got == 0 || errno != EAGAIN)
                        failed(c, "body: %s", got ? strerror(errno) : "ended early");
                return false;
        }
        seen.bytes += (uint64_t)got;
        c->left -= (uint64_t)got;
        return true;
}

static bool handshake_step(struct connection *c) {
        int r = tls_handshake(c->tls);
        if (r < 0)
                failed(c, "TLS handshake: %s", strerror(errno));
        else if (r > 0)
                send_request(c);
        return false;
}

/* One step; false when it must wait for the next edge. */
static bool advance(struct connection *c) {
        const char *end;
        switch (c->state) {
        case CONNECTING:
                on_connected(c);
                return c->fd >= 0 && c->state == HANDSHAKE;
        case CONNECT_ANSWER:
                if (!fill(c, HEAD_MAX - 1))
                        return false;
                if (!strstr(c->head, "\r\n\r\n"))
                        return true;
                if (strncmp(c->head + 8, " 200", 4) != 0)
                        failed(c, "CONNECT: %.60s", c->head);
                else
                        tunnel_is_open(c);
                return c->fd >= 0 && c->state == HANDSHAKE;
        case SOCKS_METHOD:
                if (!fill(c, 2))
                        return false;
                if (c->n == 2)
                        ask_socks(c);
                return false;
        case SOCKS_ANSWER:
                if (!fill(c, 10))
                        return false;
                if (c->n >= 2 && c->head[1] != 0)
                        failed(c, "SOCKS5 reply %d", c->head[1]);
                else if (c->n == 10)
                        tunnel_is_open(c);
                return c->fd >= 0 && c->state == HANDSHAKE;
        case HANDSHAKE:
                return handshake_step(c);
        case HEAD:
                if (!fill(c, HEAD_MAX - 1))
                        return false;
                end = strstr(c->head, "\r\n\r\n");
                if (!end)
                        return true;
                if (!read_length(c, end) || c->left > 0)
                        return c->fd >= 0;
                completed(c);
                return false;
        case BODY:
                if (!body_step(c))
                        return false;
                if (c->left > 0)
                        return true;
                completed(c);
                return false;
        case RESTING:
                break;
        }
        if (recv(c->fd, discard, 1, 0) == 0) {
                seen.open--;
                failed(c, "an idle tunnel was closed");
        }
        return false;
}

/* The time that this share of the answers took at most; between two microseconds as if they were spread evenly. */
static double quantile(double share) {
        double wanted = share * (double)seen.done, sum = 0;
        for (uint32_t us = 0; us < TIMES; us++) {
                if (seen.times[us] > 0 && sum + seen.times[us] >= wanted)
                        return us + (wanted - sum) / seen.times[us];
                sum += seen.times[us];
        }
        return 0;
}

static void print_result(uint64_t elapsed) {
        for (char *p = seen.first_error; *p; p++)
                if (*p < ' ' || *p == '"' || *p == '\\' || *p == 127)
                        *p = ' ';
        printf("{\"operations\":%llu,\"errors\":%llu,\"open\":%llu,\"bytes\":%llu,\"seconds\":%.4f,\"p50_us\":%.2f,"
               "\"p99_us\":%.2f,\"first_error\":\"%s\"}\n",
               (unsigned long long)seen.done, (unsigned long long)seen.errors, (unsigned long long)seen.open,
               (unsigned long long)seen.bytes, (double)elapsed / 1e9, quantile(0.5), quantile(0.99), seen.first_error);
        fflush(stdout);
}

/* All are open. */
static void go_on(void) {
        uint64_t n = want.active < want.connections ? want.active : want.connections;
        going_on = seen.done + 2 * n;
        for (uint64_t i = 0; i < n; i++)
                if (connections[i].state == RESTING)
                        send_request(&connections[i]);
}

/* From here on it is measured. */
static uint64_t settled(void) {
        want.settle = false;
        memset(seen.times, 0, sizeof seen.times);
        seen.done = seen.bytes = 0;
        printf("ready\n");
        fflush(stdout);
        return clock_ns();
}

/* Those of an idle run, and those that settle first, a few at a time; else all at once. */
static void open_more(uint64_t all) {
        uint64_t at_once = want.mode == IDLE ? want.connections : want.settle ? OPENING : all;
        while (connections_n < all && connections_n < seen.open + seen.errors + at_once)
                begin(&connections[connections_n++]);
}

static void run_streams(void) {
        uint64_t n = want.mode == IDLE ? want.operations : want.connections, start = clock_ns();
        uint64_t deadline = start + (want.settle ? SETTLE_MS : want.seconds_ms) * NS_PER_MS, now = start;
        connections = calloc(n, sizeof *connections);
        if (!connections)
                tool_die("out of memory");
        epoll = tool_epoll();
        open_more(n);
        while (now < deadline && seen.done < want.operations && seen.errors < ERRORS_MAX &&
               (want.mode != IDLE || seen.open + seen.errors < want.operations)) {
                struct epoll_event events[256];
                int got = epoll_wait(epoll, events, 256, 50);
                for (int i = 0; i < got; i++) {
                        struct connection *c = events[i].data.ptr;
                        while (c->fd >= 0 && advance(c))
                                ;
                }
                now = clock_ns();
                if (want.settle && !going_on && seen.open == want.connections)
                        go_on();
                if (want.settle && going_on && seen.done >= going_on) {
                        start = settled();
                        deadline = start + want.seconds_ms * NS_PER_MS;
                }
                open_more(n);
        }
        print_result(now - start);
        if (want.mode == IDLE && read(STDIN_FILENO, discard, 1) < 0)
                tool_die("standard input: %s", strerror(errno));
}

/* --- DNS --- */

static size_t make_question(unsigned char *q, uint64_t number) {
        char name[128];
        size_t at = 12;
        snprintf(name, sizeof name, "h%u.%s", (unsigned)(number % DNS_NAMES), want.dns_zone);
        memset(q, 0, 12);
        q[0] = (unsigned char)(number >> 8);
        q[1] = (unsigned char)number;
        q[2] = 1; /* recursion desired */
        q[5] = 1; /* one question */
        for (const char *label = name; *label;) {
                size_t n = strcspn(label, ".");
                q[at++] = (unsigned char)n;
                memcpy(q + at, label, n);
                at += n;
                label += n + (label[n] == '.');
        }
        const unsigned char tail[] = { 0, 0, 1, 0, 1 };
        memcpy(q + at, tail, sizeof tail);
        return at + sizeof tail;
}

static void dns_send(int fd) {
        unsigned char q[256];
        size_t n = make_question(q, seen.started++);
        if (send(fd, q, n, 0) != (ssize_t)n)
                seen.errors++;
}

static void dns_receive(int fd) {
        unsigned char a[512];
        ssize_t n;
        while ((n = recv(fd, a, sizeof a, MSG_DONTWAIT)) > 0) {
                seen.done++;
                if (n < 12 || (a[3] & 15) != want.dns_rcode || (want.dns_rcode == 0 && a[7] == 0)) {
                        if (seen.errors++ == 0)
                                snprintf(seen.first_error, sizeof seen.first_error, "rcode %d, %d answers", a[3] & 15,
                                         a[7]);
                }
                dns_send(fd);
        }
}

static void run_dns(void) {
        int fds[DNS_PORTS];
        uint64_t start = clock_ns(), deadline = start + want.seconds_ms * NS_PER_MS, now = start;
        epoll = tool_epoll();
        for (int i = 0; i < DNS_PORTS; i++) {
                fds[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
                if (fds[i] < 0 || connect(fds[i], (struct sockaddr *)&want.proxy, sizeof want.proxy) < 0)
                        tool_die("cannot reach the server: %s", strerror(errno));
                struct epoll_event event = { .events = EPOLLIN, .data.fd = fds[i] };
                epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event);
                for (uint64_t k = 0; k < want.connections; k += DNS_PORTS)
                        dns_send(fds[i]);
        }
        while (now < deadline) {
                struct epoll_event events[DNS_PORTS];
                int got = epoll_wait(epoll, events, DNS_PORTS, 200);
                for (int i = 0; i < got; i++)
                        dns_receive(events[i].data.fd);
                if (got == 0) /* lost on the way: ask again, and count it */
                        for (int i = 0; i < DNS_PORTS; i++, seen.errors++)
                                dns_send(fds[i]);
                now = clock_ns();
        }
        print_result(now - start);
}

/* --- */

static int index_of(const char *text, const char *const *names, int n) {
        for (int i = 0; i < n; i++)
                if (strcmp(text, names[i]) == 0)
                        return i;
        tool_die("unknown word %s", text);
}

static void set_option(int option, const char *value) {
        switch (option) {
        case 'x':
                want.way = (enum through)index_of(value, way_names, WAYS);
                break;
        case 'p':
                want.proxy = tool_address(value);
                break;
        case 'o':
                want.origin_text = value;
                want.origin = tool_address(value);
                break;
        case 's':
                want.size = tool_number(value, UINT64_MAX);
                break;
        case 'c':
                want.connections = tool_number(value, 20000);
                break;
        case 'A':
                want.active = tool_number(value, 20000);
                break;
        case 't':
                want.seconds_ms = tool_number(value, 120000);
                break;
        case 'n':
                want.operations = tool_number(value, UINT64_MAX);
                break;
        case 'd':
                want.dns_zone = value;
                break;
        case 'T':
                want.tls = true;
                break;
        case 'S':
                want.settle = true;
                break;
        case 'a':
                want.target = value;
                break;
        case 'b':
                want.token = value;
                break;
        case 'f':
                want.first = tool_number(value, UINT32_MAX);
                break;
        case 'r':
                want.dns_rcode = (int)tool_number(value, 15);
                break;
        default:
                exit(2);
        }
}

int main(int argc, char **argv) {
        static const struct option options[] = {
                { "through", required_argument, NULL, 'x' },
                { "proxy", required_argument, NULL, 'p' },
                { "origin", required_argument, NULL, 'o' },
                { "size", required_argument, NULL, 's' },
                { "connections", required_argument, NULL, 'c' },
                { "active", required_argument, NULL, 'A' },
                { "ms", required_argument, NULL, 't' },
                { "operations", required_argument, NULL, 'n' },
                { "zone", required_argument, NULL, 'd' },
                { "rcode", required_argument, NULL, 'r' },
                { "tls", no_argument, NULL, 'T' },
                { "target", required_argument, NULL, 'a' },
                { "token", required_argument, NULL, 'b' },
                { "first", required_argument, NULL, 'f' },
                { "settle", no_argument, NULL, 'S' },
                { NULL, 0, NULL, 0 },
        };
        int option;
        if (argc < 2)
                tool_die("usage: load requests|tunnels|bulk|idle|dns OPTIONS");
        want.mode = (enum mode)index_of(argv[1], mode_names, MODES);
        argv[1] = argv[0];
        while ((option = getopt_long(argc - 1, argv + 1, "", options, NULL)) != -1)
                set_option(option, optarg);
        tool_raise_limits();
        if (want.mode == DNS ? !want.dns_zone : !want.origin_text)
                tool_die("--origin, or --zone for dns, is missing");
        if (want.tls)
                tls_prepare();
        if (want.mode == DNS)
                run_dns();
        else
                run_streams();
        return 0;
}
