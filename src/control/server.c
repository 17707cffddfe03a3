/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of the control server. A connection alone earns no trust: the peer's credentials are checked once
 * (control/control_place.h), and every line is parsed strictly. The server must never make the supervisor wait: sockets
 * are non-blocking, and a client has one bounded buffer per direction. A client that does not read gets an error and is
 * dropped. A client is in one of these states: NEW (hello has not come), OPEN, WAITING (a reply is being made; nothing
 * more is read), CLOSING (queued output is sent, for at most CLOSE_MS, then it ends). When all places are taken, the
 * one that has been silent for longest, and for more than SILENT_MS, loses its place to the next that comes.
 * Subscribers are silent by nature and keep theirs; they may not take all of them.
 */
#include "control/server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "control/control_place.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLOSE_MS = 10000, SILENT_MS = 2000, LAST_WORDS = 1024, ACCEPTS = 8 };
enum { SUBSCRIBERS_MAX = CONTROL_CLIENTS_MAX - 8 };

enum client_state { CLIENT_FREE, CLIENT_NEW, CLIENT_OPEN, CLIENT_WAITING, CLIENT_CLOSING };

struct client {
        enum client_state state;
        int fd;
        uint64_t ticket;
        bool subscribed;
        uint64_t heard_ns; /* it came, said something or was answered */
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

static void server_note(const struct control_server *server, const char *text) {
        if (server->handler.note)
                server->handler.note(server->handler.arg, text);
}

static void server_drop(struct control_server *server, struct client *client) {
        if (client->subscribed)
                server->subscribers--;
        close_fd(&client->fd);
        buf_done(&client->in);
        buf_done(&client->out);
        *client = (struct client){ .fd = -1 };
}

static void begin_close(struct control_server *server, struct client *client) {
        if (client->subscribed)
                server->subscribers--;
        client->subscribed = false;
        client->state = CLIENT_CLOSING;
        client->close_ns = clock_ns() + CLOSE_MS * NS_PER_MS;
}

/* Writes what the socket takes now. */
static void server_flush(struct control_server *server, struct client *client) {
        while (client->state != CLIENT_FREE && client->out.n) {
                ssize_t n = send(client->fd, client->out.p, client->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return;

                if (n <= 0) {
                        server_drop(server, client);
                        return;
                }

                buf_consume(&client->out, (size_t)n);
        }

        if (client->state == CLIENT_CLOSING && client->out.n == 0)
                server_drop(server, client);
}

/* The buffer has room beyond the limit for the last words. */
static void server_put(struct control_server *server, struct client *client, struct str line) {
        if (client->state == CLIENT_CLOSING || client->state == CLIENT_FREE)
                return;
        if (client->out.n + line.n <= CONTROL_OUT_MAX && buf_append(&client->out, line) == 0)
                return;

        struct emit j = control_event_open(&client->out, "dropped");
        emit_put_text(&j, "text", "events came faster than they were read");
        bool told = control_close(&j) == 0;
        server_note(server, "control: a client that does not read was dropped");

        if (told)
                begin_close(server, client);
        else
                server_drop(server, client);
}

bool control_server_watched(const struct control_server *server) {
        return server && server->subscribers > 0;
}

void control_server_publish(struct control_server *server, struct str line) {
        if (!control_server_watched(server))
                return;
        for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++)
                if (server->clients[i].subscribed) {
                        server_put(server, &server->clients[i], line);
                        server_flush(server, &server->clients[i]);
                }
}

/*
 * Requests.
 */
static void server_fault(struct control_server *server, struct client *client, uint64_t id, enum control_fault fault,
                         const char *text) {
        cleanup(buf_done) struct buf out = BUF(CONTROL_MESSAGE_MAX);
        if (control_reply_fault(&out, id, fault, text) == 0)
                server_put(server, client, buf_str(&out));
}

static void server_hello(struct control_server *server, struct client *client, const struct control_request *request) {
        cleanup(buf_done) struct buf out = BUF(4096);
        char text[64];

        if (request->version != CONTROL_VERSION) {
                snprintf(text, sizeof text, "this sandbox speaks version %d", CONTROL_VERSION);
                server_fault(server, client, request->id, FAULT_VERSION, text);
                return;
        }

        snprintf(client->by, sizeof client->by, request->client[0] ? "control (%s)" : "control", request->client);
        struct emit j = control_reply_open(&out, request->id);
        emit_put_number(&j, "version", CONTROL_VERSION);
        emit_put_text(&j, "sandbox", server->id);
        emit_put_text(&j, "bailey", server->version);

        if (control_close(&j) == 0)
                server_put(server, client, buf_str(&out));
        if (client->state == CLIENT_NEW)
                client->state = CLIENT_OPEN;
}

static void server_subscribe(struct control_server *server, struct client *client,
                             const struct control_request *request) {
        cleanup(buf_done) struct buf out = BUF(4096);

        if (!client->subscribed && server->subscribers >= SUBSCRIBERS_MAX) {
                server_fault(server, client, request->id, FAULT_TOO_MANY, "too many subscribers");
                return;
        }

        struct emit j = control_reply_open(&out, request->id);
        if (control_close(&j) == 0)
                server_put(server, client, buf_str(&out));
        if (client->state != CLIENT_OPEN) /* it does not read */
                return;

        server->subscribers += !client->subscribed;
        client->subscribed = true;
}

static void server_serve(struct control_server *server, struct client *client, const struct control_request *request) {
        cleanup(buf_done) struct buf out = BUF(CONTROL_MESSAGE_MAX);

        if (request->what == CONTROL_HELLO) {
                server_hello(server, client, request);
        } else if (client->state == CLIENT_NEW) {
                server_fault(server, client, request->id, FAULT_HELLO_FIRST, "the first request is hello");
        } else if (request->what == CONTROL_SUBSCRIBE) {
                server_subscribe(server, client, request);
        } else {
                client->state = CLIENT_WAITING;
                enum control_done done =
                    server->handler.handle(server->handler.arg, request, client->ticket, client->by, &out);
                if (done == CONTROL_REPLIED) {
                        client->state = CLIENT_OPEN;

                        if (out.n)
                                server_put(server, client, buf_str(&out));
                        else
                                server_fault(server, client, request->id, FAULT_FAILED,
                                             "the reply could not be written");
                }
        }
}

/* Whole lines, as long as nothing is being waited for. */
static void take_lines(struct control_server *server, struct client *client) {
        while (client->state == CLIENT_NEW || client->state == CLIENT_OPEN) {
                ptrdiff_t end = client->in.n ? str_find(buf_str(&client->in), '\n') : -1;
                struct err err = { 0 };
                struct control_request request = { 0 };

                if (end < 0 && client->in.n < CONTROL_LINE_MAX)
                        return;

                struct str line = end < 0 ? buf_str(&client->in) : str_first(buf_str(&client->in), (size_t)end);
                int r = end < 0 ? err_set(&err, EINVAL, "a request has at most %d bytes", CONTROL_LINE_MAX)
                                : control_request_parse(line, &request, &err);
                if (r < 0) {
                        server_fault(server, client, request.id, FAULT_BAD_REQUEST, err_text(&err));
                        if (client->state != CLIENT_FREE)
                                begin_close(server, client);
                        return;
                }

                buf_consume(&client->in, (size_t)end + 1);
                server_serve(server, client, &request);
        }
}

void control_server_reply(struct control_server *server, uint64_t ticket, struct str line) {
        for (size_t i = 0; server && i < CONTROL_CLIENTS_MAX; i++) {
                struct client *client = &server->clients[i];
                if (client->state != CLIENT_WAITING || client->ticket != ticket)
                        continue;

                client->state = CLIENT_OPEN;
                client->heard_ns = clock_ns();
                server_put(server, client, line);
                take_lines(server, client);
                server_flush(server, client);
        }
}

static void read_client(struct control_server *server, struct client *client) {
        if (buf_reserve(&client->in, CONTROL_LINE_MAX + 1 - client->in.n) < 0) {
                server_drop(server, client);
                return;
        }

        ssize_t n = recv(client->fd, client->in.p + client->in.n, CONTROL_LINE_MAX + 1 - client->in.n, MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;

        if (n <= 0) {
                server_drop(server, client);
                return;
        }

        client->in.n += (size_t)n;
        client->heard_ns = clock_ns();
        take_lines(server, client);
}

/*
 * The loop's side.
 */
static void turn_away(int fd, enum control_fault fault, const char *text) {
        cleanup(buf_done) struct buf out = BUF(4096);
        if (control_reply_fault(&out, 0, fault, text) == 0)
                (void)send(fd, out.p, out.n, MSG_NOSIGNAL | MSG_DONTWAIT); /* send it the error if possible */
}

static bool only_sits_there(const struct client *client) {
        return client->state == CLIENT_NEW || (client->state == CLIENT_OPEN && !client->subscribed);
}

/* A free one, or that of a client which only sits there. NULL: there is none. */
static struct client *server_place(struct control_server *server) {
        struct client *silent = NULL;

        for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++) {
                struct client *client = &server->clients[i];

                if (client->state == CLIENT_FREE)
                        return client;
                if (only_sits_there(client) && (!silent || client->heard_ns < silent->heard_ns))
                        silent = client;
        }

        if (!silent || clock_ns() - silent->heard_ns <= SILENT_MS * NS_PER_MS)
                return NULL;

        server_note(server, "control: all places were taken, and the client that was silent for longest was dropped");
        server_drop(server, silent);
        return silent;
}

static void accept_one(struct control_server *server, int taken) {
        cleanup(close_fd) int fd = taken;
        struct err err = { 0 };

        if (control_check_peer(fd, &err) < 0) {
                char text[ERR_TEXT_MAX + 32];

                snprintf(text, sizeof text, "control: turned away: %s", err_text(&err));
                server_note(server, text);
                turn_away(fd, FAULT_FAILED, err_text(&err));
                return;
        }

        struct client *place = server_place(server);
        if (!place) {
                turn_away(fd, FAULT_TOO_MANY, "too many clients");
                return;
        }

        *place = (struct client){ .state = CLIENT_NEW,
                                  .fd = take_fd(&fd),
                                  .ticket = ++server->last_ticket,
                                  .heard_ns = clock_ns(),
                                  .by = "control",
                                  .in = BUF(CONTROL_LINE_MAX + 1),
                                  .out = BUF(CONTROL_OUT_MAX + LAST_WORDS) };
}

void control_server_watch(const struct control_server *server, struct poller *poller) {
        if (!server)
                return;

        poller_watch(poller, server->listener, POLLIN);

        for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++) {
                const struct client *client = &server->clients[i];
                if (client->state == CLIENT_FREE)
                        continue;

                short events = 0;
                if (client->state == CLIENT_NEW || client->state == CLIENT_OPEN)
                        events |= POLLIN;
                if (client->out.n)
                        events |= POLLOUT;

                poller_watch(poller, client->fd, events);
                if (client->state == CLIENT_CLOSING)
                        poller_until(poller, client->close_ns);
        }
}

static void step_client(struct control_server *server, struct client *client, short got) {
        if ((got & (POLLERR | POLLHUP)) && !(got & POLLIN)) {
                server_drop(server, client);
                return;
        }

        if (got & POLLOUT)
                server_flush(server, client);
        if ((got & POLLIN) && (client->state == CLIENT_NEW || client->state == CLIENT_OPEN))
                read_client(server, client);
        if (client->state != CLIENT_FREE)
                server_flush(server, client);
        if (client->state == CLIENT_CLOSING && clock_ns() >= client->close_ns)
                server_drop(server, client);
}

void control_server_step(struct control_server *server, const struct poller *poller) {
        if (!server)
                return;

        for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++)
                if (server->clients[i].state != CLIENT_FREE)
                        step_client(server, &server->clients[i], poller_ready(poller, server->clients[i].fd));

        for (int i = 0; poller_ready(poller, server->listener) && i < ACCEPTS; i++) {
                int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd < 0)
                        return;
                accept_one(server, fd);
        }
}

int control_server_new(const char *id, const char *version_text, const struct control_handler *handler,
                       struct control_server **ret, struct err *err) {
        cleanup(free_ptr) char *directory = NULL;
        cleanup(free_ptr) struct control_server *s = calloc(1, sizeof *s);
        if (!s)
                return err_memory(err);

        s->handler = *handler;
        snprintf(s->id, sizeof s->id, "%s", id);
        snprintf(s->version, sizeof s->version, "%s", version_text);

        for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++)
                s->clients[i].fd = -1;

        int r = control_directory(&directory, err);
        if (r == 0)
                r = control_listen(directory, id, &s->listener, &s->path, err);
        if (r < 0)
                return r;

        *ret = take_ptr(&s);
        return 0;
}

void control_server_free(struct control_server *server) {
        if (!server)
                return;

        for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++)
                if (server->clients[i].state != CLIENT_FREE) {
                        server_flush(server, &server->clients[i]);
                        if (server->clients[i].state != CLIENT_FREE)
                                server_drop(server, &server->clients[i]);
                }

        control_unlisten(server->path);
        close_fd(&server->listener);
        free(server);
}
