/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of the control server. It trusts nobody by the mere fact that they connected: the peer's credentials are
 * looked at once (control/place.h), and every line is parsed strictly. It must never make the supervisor wait: sockets
 * are non-blocking, a client has one buffer for each way with a hard maximum, and one that does not read is told so and
 * dropped. A client is in one of these states: NEW (hello has not come), OPEN, WAITING (a reply is being made; nothing
 * more is read), CLOSING (what is written goes out, for at most CLOSE_MS, then it ends).
 */
#include "control/server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "control/place.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLOSE_MS = 10000, LAST_WORDS = 1024, ACCEPTS = 8 };

enum client_state { CLIENT_FREE, CLIENT_NEW, CLIENT_OPEN, CLIENT_WAITING, CLIENT_CLOSING };

struct client {
        enum client_state state;
        int fd;
        uint64_t ticket;
        bool subscribed;
        uint64_t close_ns; /* CLOSING: no longer than this */
        char by[80];       /* "control (name)" */
        struct buf in, out;
};

struct control_server {
        struct control_handler handler;
        char id[CONTROL_ID_MAX];
        char version[64];
        char *path;
        int listener;
        uint64_t last_ticket;
        unsigned subscribers;
        struct client clients[CONTROL_CLIENTS_MAX];
};

static void note(const struct control_server *s, const char *text) {
        if (s->handler.note)
                s->handler.note(s->handler.arg, text);
}

static void drop(struct control_server *s, struct client *c) {
        if (c->subscribed)
                s->subscribers--;
        close_fd(&c->fd);
        buf_done(&c->in);
        buf_done(&c->out);
        *c = (struct client){ .fd = -1 };
}

static void begin_close(struct control_server *s, struct client *c) {
        if (c->subscribed)
                s->subscribers--;
        c->subscribed = false;
        c->state = CLIENT_CLOSING;
        c->close_ns = clock_ns() + CLOSE_MS * NS_PER_MS;
}

/* Writes what the socket takes now. */
static void flush(struct control_server *s, struct client *c) {
        while (c->state != CLIENT_FREE && c->out.n) {
                ssize_t n = send(c->fd, c->out.p, c->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return;
                if (n <= 0) {
                        drop(s, c);
                        return;
                }
                buf_consume(&c->out, (size_t)n);
        }
        if (c->state == CLIENT_CLOSING && c->out.n == 0)
                drop(s, c);
}

/* The buffer has room beyond the limit for the last words. */
static void put(struct control_server *s, struct client *c, struct str line) {
        if (c->state == CLIENT_CLOSING || c->state == CLIENT_FREE)
                return;
        if (c->out.n + line.n <= CONTROL_OUT_MAX && buf_append(&c->out, line) == 0)
                return;
        struct emit j = control_event_open(&c->out, "dropped");
        emit_put_text(&j, "text", "events came faster than they were read");
        bool told = control_close(&j) == 0;
        note(s, "control: a client that does not read was dropped");
        if (told)
                begin_close(s, c);
        else
                drop(s, c);
}

bool control_server_watched(const struct control_server *s) {
        return s && s->subscribers > 0;
}

void control_server_publish(struct control_server *s, struct str line) {
        if (!control_server_watched(s))
                return;
        for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++)
                if (s->clients[i].subscribed) {
                        put(s, &s->clients[i], line);
                        flush(s, &s->clients[i]);
                }
}

/*
 * Requests.
 */
static void fault(struct control_server *s, struct client *c, uint64_t id, enum control_fault f, const char *text) {
        cleanup(buf_done) struct buf out = BUF(CONTROL_MESSAGE_MAX);
        if (control_reply_fault(&out, id, f, text) == 0)
                put(s, c, buf_str(&out));
}

static void hello(struct control_server *s, struct client *c, const struct control_request *q) {
        cleanup(buf_done) struct buf out = BUF(4096);
        char text[64];
        if (q->version != CONTROL_VERSION) {
                snprintf(text, sizeof text, "this sandbox speaks version %d", CONTROL_VERSION);
                fault(s, c, q->id, FAULT_VERSION, text);
                return;
        }
        snprintf(c->by, sizeof c->by, q->client[0] ? "control (%s)" : "control", q->client);
        struct emit j = control_reply_open(&out, q->id);
        emit_put_number(&j, "version", CONTROL_VERSION);
        emit_put_text(&j, "sandbox", s->id);
        emit_put_text(&j, "bailey", s->version);
        if (control_close(&j) == 0)
                put(s, c, buf_str(&out));
        if (c->state == CLIENT_NEW)
                c->state = CLIENT_OPEN;
}

static void serve(struct control_server *s, struct client *c, const struct control_request *q) {
        cleanup(buf_done) struct buf out = BUF(CONTROL_MESSAGE_MAX);
        if (q->what == CONTROL_HELLO) {
                hello(s, c, q);
        } else if (c->state == CLIENT_NEW) {
                fault(s, c, q->id, FAULT_HELLO_FIRST, "the first request is hello");
        } else if (q->what == CONTROL_SUBSCRIBE) {
                struct emit j = control_reply_open(&out, q->id);
                if (control_close(&j) == 0)
                        put(s, c, buf_str(&out));
                s->subscribers += !c->subscribed;
                c->subscribed = true;
        } else {
                c->state = CLIENT_WAITING;
                enum control_done done = s->handler.handle(s->handler.arg, q, c->ticket, c->by, &out);
                if (done == CONTROL_REPLIED) {
                        c->state = CLIENT_OPEN;
                        if (out.n)
                                put(s, c, buf_str(&out));
                        else
                                fault(s, c, q->id, FAULT_FAILED, "the reply could not be written");
                }
        }
}

/* Whole lines, as long as nothing is being waited for. */
static void take_lines(struct control_server *s, struct client *c) {
        while (c->state == CLIENT_NEW || c->state == CLIENT_OPEN) {
                ptrdiff_t end = c->in.n ? str_find(buf_str(&c->in), '\n') : -1;
                struct err e = { 0 };
                struct control_request q = { 0 };
                if (end < 0 && c->in.n < CONTROL_LINE_MAX)
                        return;
                struct str line = end < 0 ? buf_str(&c->in) : str_first(buf_str(&c->in), (size_t)end);
                int r = end < 0 ? err_set(&e, EINVAL, "a request has at most %d bytes", CONTROL_LINE_MAX)
                                : control_request_parse(line, &q, &e);
                if (r < 0) {
                        fault(s, c, q.id, FAULT_BAD_REQUEST, err_text(&e));
                        if (c->state != CLIENT_FREE)
                                begin_close(s, c);
                        return;
                }
                buf_consume(&c->in, (size_t)end + 1);
                serve(s, c, &q);
        }
}

void control_server_reply(struct control_server *s, uint64_t ticket, struct str line) {
        for (size_t i = 0; s && i < CONTROL_CLIENTS_MAX; i++) {
                struct client *c = &s->clients[i];
                if (c->state != CLIENT_WAITING || c->ticket != ticket)
                        continue;
                c->state = CLIENT_OPEN;
                put(s, c, line);
                take_lines(s, c);
                flush(s, c);
        }
}

static void read_client(struct control_server *s, struct client *c) {
        if (buf_reserve(&c->in, CONTROL_LINE_MAX + 1 - c->in.n) < 0) {
                drop(s, c);
                return;
        }
        ssize_t n = recv(c->fd, c->in.p + c->in.n, CONTROL_LINE_MAX + 1 - c->in.n, MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        if (n <= 0) {
                drop(s, c);
                return;
        }
        c->in.n += (size_t)n;
        take_lines(s, c);
}

/*
 * The loop's side.
 */
static void turn_away(int fd, enum control_fault f, const char *text) {
        cleanup(buf_done) struct buf out = BUF(4096);
        if (control_reply_fault(&out, 0, f, text) == 0)
                (void)send(fd, out.p, out.n, MSG_NOSIGNAL | MSG_DONTWAIT); /* it is told if it can be */
}

static void accept_one(struct control_server *s, int taken) {
        cleanup(close_fd) int fd = taken;
        struct err e = { 0 };
        struct client *place = NULL;
        for (size_t i = 0; i < CONTROL_CLIENTS_MAX && !place; i++)
                if (s->clients[i].state == CLIENT_FREE)
                        place = &s->clients[i];
        if (control_check_peer(fd, &e) < 0) {
                char text[ERR_TEXT_MAX + 32];
                snprintf(text, sizeof text, "control: turned away: %s", err_text(&e));
                note(s, text);
                turn_away(fd, FAULT_FAILED, err_text(&e));
                return;
        }
        if (!place) {
                turn_away(fd, FAULT_TOO_MANY, "too many clients");
                return;
        }
        *place = (struct client){ .state = CLIENT_NEW,
                                  .fd = take_fd(&fd),
                                  .ticket = ++s->last_ticket,
                                  .by = "control",
                                  .in = BUF(CONTROL_LINE_MAX + 1),
                                  .out = BUF(CONTROL_OUT_MAX + LAST_WORDS) };
}

void control_server_watch(const struct control_server *s, struct poller *poller) {
        if (!s)
                return;

        poller_watch(poller, s->listener, POLLIN);
        for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++) {
                const struct client *c = &s->clients[i];
                if (c->state == CLIENT_FREE)
                        continue;
                bool reads = c->state == CLIENT_NEW || c->state == CLIENT_OPEN;
                poller_watch(poller, c->fd, (short)((reads ? POLLIN : 0) | (c->out.n ? POLLOUT : 0)));
                if (c->state == CLIENT_CLOSING)
                        poller_until(poller, c->close_ns);
        }
}

static void step_client(struct control_server *s, struct client *c, short got) {
        if ((got & (POLLERR | POLLHUP)) && !(got & POLLIN)) {
                drop(s, c);
                return;
        }
        if (got & POLLOUT)
                flush(s, c);
        if ((got & POLLIN) && (c->state == CLIENT_NEW || c->state == CLIENT_OPEN))
                read_client(s, c);
        if (c->state != CLIENT_FREE)
                flush(s, c);
        if (c->state == CLIENT_CLOSING && clock_ns() >= c->close_ns)
                drop(s, c);
}

void control_server_step(struct control_server *s, const struct poller *poller) {
        if (!s)
                return;

        for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++)
                if (s->clients[i].state != CLIENT_FREE)
                        step_client(s, &s->clients[i], poller_ready(poller, s->clients[i].fd));

        for (int i = 0; poller_ready(poller, s->listener) && i < ACCEPTS; i++) {
                int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd < 0)
                        return;
                accept_one(s, fd);
        }
}

int control_server_new(const char *id, const char *version_text, const struct control_handler *h,
                       struct control_server **ret, struct err *e) {
        cleanup(free_ptr) char *directory = NULL;
        cleanup(free_ptr) struct control_server *s = calloc(1, sizeof *s);
        if (!s)
                return err_memory(e);
        s->handler = *h;
        snprintf(s->id, sizeof s->id, "%s", id);
        snprintf(s->version, sizeof s->version, "%s", version_text);
        for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++)
                s->clients[i].fd = -1;
        int r = control_directory(&directory, e);
        if (r == 0)
                r = control_listen(directory, id, &s->listener, &s->path, e);
        if (r < 0)
                return r;
        *ret = take_ptr(&s);
        return 0;
}

void control_server_free(struct control_server *s) {
        if (!s)
                return;
        for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++)
                if (s->clients[i].state != CLIENT_FREE) {
                        flush(s, &s->clients[i]);
                        if (s->clients[i].state != CLIENT_FREE)
                                drop(s, &s->clients[i]);
                }
        control_unlisten(s->path);
        close_fd(&s->listener);
        free(s);
}
