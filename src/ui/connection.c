/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: requests one after the other, each answered whole before the next is read; or a stream of events. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/fd.h"
#include "ui/ui_internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 16384, STREAM_HELD = 1 << 20 };
#define IDLE_NS (120 * NS_PER_SECOND)
#define STRANGER_NS (15 * NS_PER_SECOND) /* from the local network, without a session so far */
#define HEARTBEAT_NS (15 * NS_PER_SECOND)

static const char security_headers[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src "
    "'self' data:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n"
    "Cache-Control: no-store\r\nCross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: "
    "same-origin\r\n"
    "Permissions-Policy: camera=(), geolocation=(), microphone=()\r\n";

void connection_free(struct connection *connection) {
        close_fd(&connection->fd);
        buf_done(&connection->in);
        buf_done(&connection->out);
        free(connection);
}

void connection_open(struct ui *ui, int fd, const char *device) {
        struct connection *connection = calloc(1, sizeof *connection);

        if (!connection || vec_push(&ui->connections, connection) < 0) {
                free(connection);
                close(fd);
                return;
        }

        *connection = (struct connection){ .fd = fd,
                                           .in = BUF(HTTP1_HEAD_MAX + UI_BODY_MAX),
                                           .out = BUF(UI_REPLY_MAX + 65536),
                                           .deadline_ns = clock_ns() + (device ? STRANGER_NS : IDLE_NS) };
        if (device)
                snprintf(connection->device, sizeof connection->device, "%s", device);
}

/*
 * Replies.
 */
static const char *status_text(unsigned status) {
        switch (status) {
        case 200:
                return "OK";
        case 400:
                return "Bad Request";
        case 401:
                return "Unauthorized";
        case 403:
                return "Forbidden";
        case 404:
                return "Not Found";
        case 421:
                return "Misdirected Request";
        default:
                return "Error";
        }
}

void connection_reply(struct connection *connection, unsigned status, const char *type, struct str body,
                      const char *more_headers) {
        int r = buf_printf(&connection->out,
                           "HTTP/1.1 %u %s\r\n%sContent-Type: %s\r\nContent-Length: %zu\r\nConnection: %s\r\n%s\r\n",
                           status, status_text(status), security_headers, type, body.n,
                           connection->closing ? "close" : "keep-alive", text_or(more_headers, ""));

        if (r == 0)
                r = buf_append(&connection->out, body);
        if (r < 0)
                connection->closing = true;
}

void connection_fault(struct connection *connection, unsigned status, const char *text) {
        cleanup(buf_done) struct buf out = BUF(65536);
        struct emit j = emit_to(&out);

        emit_open(&j, '{');
        emit_put_text(&j, "error", text);
        emit_close(&j);
        connection_reply(connection, status, "application/json", buf_str(&out), NULL);
}

uint64_t ui_ticket(struct ui *ui, struct connection *connection) {
        connection->ticket = ++ui->last_ticket;
        return connection->ticket;
}

static struct connection *connection_of(struct ui *ui, uint64_t ticket) {
        for (size_t i = 0; i < ui->connections.n; i++)
                if (ticket && ui->connections.p[i]->ticket == ticket)
                        return ui->connections.p[i];
        return NULL;
}

void ui_reply(struct ui *ui, uint64_t ticket, unsigned status, const char *type, struct str body) {
        struct connection *connection = connection_of(ui, ticket);

        if (!connection)
                return;
        connection->ticket = 0;
        connection_reply(connection, status, type, body, NULL);
        connection_step(ui, connection, 0);
}

void ui_reply_fault(struct ui *ui, uint64_t ticket, unsigned status, const char *text) {
        struct connection *connection = connection_of(ui, ticket);

        if (!connection)
                return;
        connection->ticket = 0;
        connection_fault(connection, status, text);
        connection_step(ui, connection, 0);
}

/*
 * Requests.
 */
static struct str header_of(const struct http1_head *head, const char *name, bool *twice) {
        struct str found = { 0 };

        for (size_t i = 0; i < head->n_headers; i++) {
                if (!str_eq_nocase(head->headers[i].name, str_of(name)))
                        continue;

                *twice = *twice || found.p;
                found = head->headers[i].value;
                if (!found.p)
                        found = STR("");
        }

        return found;
}

static bool is_public_path(struct str path) {
        return !str_starts(path, STR("/api/")) || str_eq(path, STR("/api/session"));
}

static void connection_refuse(struct ui *ui, struct connection *connection, enum gate_verdict verdict,
                              struct str detail) {
        cleanup(buf_done) struct buf shown = BUF(2048);

        if (escape_text(&shown, detail, 200) == 0 && connection->device[0])
                pair_note(ui, "refused a request from %s, %u: %s: %.*s", connection->device, gate_status(verdict),
                          gate_text(verdict), STR_FMT(buf_str(&shown)));
        else
                ui_note(ui, "refused a request, %u: %s: %.*s", gate_status(verdict), gate_text(verdict),
                        STR_FMT(buf_str(&shown)));

        connection->closing = true;
        connection_fault(connection, gate_status(verdict), gate_text(verdict));
}

/* What a refused request said of itself, for the record. */
static struct str refused_detail(enum gate_verdict verdict, const struct gate_request *request, struct str path) {
        switch (verdict) {
        case GATE_HOST:
                return request->host;
        case GATE_ORIGIN:
                return request->origin;
        case GATE_SITE:
                return request->site;
        default:
                return path;
        }
}

/* A paired device has one session of its own, and reaches the page by another name. */
static struct gate_rules connection_rules(const struct ui *ui, bool device) {
        struct gate_rules rules = { .port = ui->port,
                                    .read_only = ui->settings->read_only,
                                    .sessions = ui->sessions,
                                    .n_sessions = UI_SESSIONS_MAX };

        if (device) {
                rules.sessions = &ui->pair.pairing.session;
                rules.n_sessions = 1;
                rules.device_host = ui->pair.pairing.host;
        }

        return rules;
}

static void connection_handle(struct ui *ui, struct connection *connection, const struct http1_request *parsed,
                              struct str body) {
        struct str path = http1_path_only(parsed->path);
        bool twice = false;
        const struct gate_rules rules = connection_rules(ui, connection->device[0]);
        const struct gate_request request = { .method = parsed->method,
                                              .host = parsed->host,
                                              .origin = header_of(&parsed->head, "origin", &twice),
                                              .site = header_of(&parsed->head, "sec-fetch-site", &twice),
                                              .cookies = header_of(&parsed->head, "cookie", &twice),
                                              .header = header_of(&parsed->head, "x-bailey-page", &twice),
                                              .content_type = header_of(&parsed->head, "content-type", &twice),
                                              .origin_form = parsed->form == FORM_ORIGIN,
                                              .is_public = is_public_path(path),
                                              .is_paired = pair_allows(path, str_is(parsed->method, "POST")),
                                              .always = str_is(path, "/api/pairing/end") };
        enum gate_verdict verdict = gate_judge(&rules, &request);

        if (twice || verdict != GATE_PASS) {
                if (verdict == GATE_PASS)
                        verdict = GATE_TARGET;
                connection_refuse(ui, connection, verdict, refused_detail(verdict, &request, path));
                return;
        }

        connection->known = connection->known || !request.is_public;
        const struct ui_request ui_request = { .path = path,
                                               .query = str_skip(parsed->path,
                                                                 path.n < parsed->path.n ? path.n + 1 : path.n),
                                               .body = body,
                                               .post = str_is(parsed->method, "POST"),
                                               .connection = connection };
        routes_dispatch(ui, &ui_request);
}

/* True when a request was taken off the input. */
static bool take_request(struct ui *ui, struct connection *connection) {
        struct http1_progress progress = { 0 };
        struct http1_request parsed;
        struct str in = buf_str(&connection->in);
        enum http1_result result = http1_request_parse(&progress, in, HTTP1_HEAD_MAX, &parsed);

        if (result == HTTP1_MORE)
                return false;

        if (result != HTTP1_OK) {
                connection->closing = true;
                buf_clear(&connection->in);
                connection_fault(connection, 400, http1_result_text(result));
                return false;
        }

        if (parsed.head.body == BODY_CHUNKED || parsed.head.length > UI_BODY_MAX || parsed.head.upgrade) {
                connection->closing = true;
                buf_clear(&connection->in);
                connection_fault(connection, 400, "the body has no length, or is too long");
                return false;
        }

        size_t length = parsed.head.body == BODY_LENGTH ? (size_t)parsed.head.length : 0;
        if (in.n < parsed.head.bytes + length)
                return false;

        connection->closing = parsed.head.close;
        connection_handle(ui, connection, &parsed, str_n(in.p + parsed.head.bytes, length));
        buf_consume(&connection->in, parsed.head.bytes + length);

        return true;
}

/*
 * Streams and bytes.
 */
void connection_pump(struct ui *ui, struct connection *connection) {
        while (connection->stream && connection->event < ui->ring.next && connection->out.n < STREAM_HELD) {
                struct str event = ring_get(&ui->ring, connection->event);
                if (connection->event < ui->ring.first) {
                        connection->event = ui->ring.first; /* too slow, or away for too long: it begins anew */
                        (void)buf_printf(&connection->out, "event: reset\ndata: {}\n\n");
                        continue;
                }

                if (event.p &&
                    buf_printf(&connection->out, "id: %s-%ju\ndata: ", ui->epoch, (uintmax_t)connection->event) == 0) {
                        (void)buf_append(&connection->out, event); /* its bounds were just looked at */
                        (void)buf_add(&connection->out, "\n\n");
                }

                connection->event++;
        }
}

/* Bytes of a stranger do not make him known. */
static uint64_t idle_limit(const struct connection *connection) {
        return connection->device[0] && !connection->known ? STRANGER_NS : IDLE_NS;
}

static void write_some(struct connection *connection) {
        while (connection->sent < connection->out.n) {
                ssize_t n = send(connection->fd, connection->out.p + connection->sent,
                                 connection->out.n - connection->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return;

                if (n <= 0) {
                        close_fd(&connection->fd);
                        return;
                }

                connection->sent += (size_t)n;
                connection->deadline_ns = clock_ns() + idle_limit(connection);
        }

        buf_done(&connection->out); /* a large reply does not stay in memory */
        connection->out = BUF(UI_REPLY_MAX + 65536);
        connection->sent = 0;
        if (connection->closing && !connection->stream && !connection->ticket)
                close_fd(&connection->fd);
}

static void read_some(struct connection *connection) {
        for (;;) {
                if (buf_reserve(&connection->in, READ_BYTES) < 0)
                        return; /* full: what is there is answered first */

                ssize_t n = recv(connection->fd, connection->in.p + connection->in.n, READ_BYTES, MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return;

                if (n <= 0) {
                        close_fd(&connection->fd);
                        return;
                }

                connection->in.n += (size_t)n;
                connection->deadline_ns = clock_ns() + idle_limit(connection);
        }
}

void connection_step(struct ui *ui, struct connection *connection, short events) {
        if (connection->fd >= 0 && (events & (POLLIN | POLLHUP | POLLERR)))
                read_some(connection);
        if (connection->stream && connection->in.n)
                buf_clear(&connection->in); /* nobody speaks into a stream */

        while (connection->fd >= 0 && !connection->stream && !connection->ticket && !connection->closing &&
               connection->out.n == 0 && connection->in.n && take_request(ui, connection))
                write_some(connection);

        connection_pump(ui, connection);

        if (connection->stream && connection->fd >= 0 && connection->out.n == 0 &&
            connection->deadline_ns < clock_ns() + idle_limit(connection) - HEARTBEAT_NS)
                (void)buf_add(&connection->out, ": still here\n\n");

        if (connection->fd >= 0)
                write_some(connection);
        if (connection->fd >= 0 && clock_ns() > connection->deadline_ns)
                close_fd(&connection->fd);
}
