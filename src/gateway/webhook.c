/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States: RESOLVING, DIALLING, HANDSHAKE (https), SENDING, READING. A failure in any of them ends the process. The
 * request is HTTP/1.0, so that the reply ends with the connection and is not chunked; TLS is verified as towards any
 * origin. Limits: CONNECT_NS to be connected, the reply as long as a person takes (whoever started us ends us when
 * nobody waits any more), REPLY_MAX bytes of it.
 */
#include "gateway/webhook.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "gateway/confine.h"
#include "gateway/wire/http1.h"
#include "net/dial.h"
#include "net/resolve.h"
#include "net/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { URL_FD = 3, URL_MAX = 4096, MESSAGE_MAX = 1 << 20, REPLY_MAX = 65536 };
#define CONNECT_NS (20 * NS_PER_SECOND)

struct webhook {
        struct loop *loop;
        struct resolver *resolver;
        struct tls_context *context;
        struct tls *tls;
        struct stream *stream;
        struct dial *dial;
        struct resolve_call resolving;
        struct timer limit;
        bool secure, shaken, done;
        struct authority target;
        char *path;
        struct buf message, request, reply;
        size_t sent;
        int result;
        struct err *e;
};

static void finish(struct webhook *w, int result, const char *why) {
        w->result = result < 0 && why ? err_set(w->e, -result, "%s: %s", w->target.host.name, why) : result;
        w->done = true;
        loop_stop(w->loop);
}

static void on_limit(struct timer *t) {
        finish(link_owner(t, struct webhook, limit), -ETIMEDOUT, "no connection in time");
}

static void hand_on(struct webhook *w, struct str body) {
        (void)fd_write_all(STDOUT_FILENO, body.p, body.n); /* nobody may listen */
        finish(w, 0, NULL);
}

/* A success with a small body is handed on as soon as all of it is here; whether it is an answer is for the supervisor
 * to say. What ended before its length said so is no answer: the rest may have said otherwise. */
static void use_reply(struct webhook *w, bool ended) {
        struct http1_progress at = { 0 };
        struct http1_response reply;
        enum http1_result r = http1_response_parse(&at, buf_str(&w->reply), REPLY_MAX, &reply);
        if (r == HTTP1_MORE && !ended)
                return;
        if (r != HTTP1_OK || reply.status / 100 != 2) {
                finish(w, -EPROTO, "the server did not accept the message");
                return;
        }
        struct str body = str_skip(buf_str(&w->reply), reply.head.bytes);
        switch (http1_response_body(&reply, false)) {
        case BODY_NONE:
                hand_on(w, STR(""));
                return;
        case BODY_LENGTH:
                if (body.n >= reply.head.length)
                        hand_on(w, str_first(body, (size_t)reply.head.length));
                else if (ended)
                        finish(w, -ECONNRESET, "the reply was cut off");
                return;
        case BODY_UNTIL_CLOSE:
                if (ended)
                        hand_on(w, body);
                return;
        case BODY_CHUNKED:
                finish(w, -EPROTO, "the reply is in chunks, which HTTP/1.0 does not have");
                return;
        }
}

static void read_reply(struct webhook *w, struct stream *s) {
        while (!w->done) {
                char bytes[4096];
                ssize_t n = stream_read(s, bytes, sizeof bytes);
                if (n == -EAGAIN)
                        return;
                if (n < 0)
                        finish(w, (int)n, "the connection broke");
                else if (buf_append(&w->reply, str_n(bytes, (size_t)n)) < 0)
                        finish(w, -EMSGSIZE, "the reply is too long");
                else
                        use_reply(w, n == 0);
        }
}

static void get_on(struct stream *s, void *owner) {
        struct webhook *w = owner;
        ssize_t n = 0;
        if (w->secure && !w->shaken) {
                int r = tls_handshake(s);
                if (r == -EAGAIN)
                        return;
                if (r < 0) {
                        finish(w, r, tls_failure(s));
                        return;
                }
                w->shaken = true;
        }
        while (w->sent < w->request.n) {
                n = stream_write(s, str_skip(buf_str(&w->request), w->sent));
                if (n == -EAGAIN)
                        return;
                if (n < 0) {
                        finish(w, (int)n, "the connection broke");
                        return;
                }
                w->sent += (size_t)n;
                timer_stop(&w->limit);
        }
        read_reply(w, s);
}

static void on_dialled(void *owner, int error, struct stream *s, const struct addr *addr) {
        struct webhook *w = owner;
        (void)addr;
        w->dial = NULL;
        if (error < 0) {
                finish(w, error, "it cannot be reached");
                return;
        }
        if (w->secure) {
                const struct tls_connect how = { .target = &w->target };
                error = tls_connect(w->tls, s, &how, &s);
                if (error < 0) {
                        finish(w, error, "no TLS");
                        return;
                }
        }
        w->stream = s;
        stream_set_owner(s, get_on, w);
        get_on(s, w);
}

static void dial(struct webhook *w, const struct addr *addrs, size_t n) {
        int r = dial_start(w->loop, addrs, n, w->target.port, CONNECT_NS, on_dialled, w, &w->dial);
        if (r < 0)
                finish(w, r, "it cannot be reached");
}

static void on_resolved(struct resolve_call *c, const struct resolve_answer *a) {
        struct webhook *w = link_owner(c, struct webhook, resolving);
        if (a->error)
                finish(w, a->error, "the name has no address");
        else
                dial(w, a->addrs, a->n);
}

static void begin(struct webhook *w) {
        const struct host *h = &w->target.host;
        if (h->kind == HOST_ADDR)
                dial(w, &h->addr, 1);
        else {
                w->resolving.done = on_resolved;
                int r = resolve_start(w->resolver, h, &w->resolving);
                if (r < 0)
                        finish(w, r, "the name cannot be resolved");
        }
}

/* "https://host[:port]/path", checked when the configuration was read. */
static int read_url(struct webhook *w, struct err *e) {
        cleanup(buf_done) struct buf url = BUF(URL_MAX);
        int r = fd_read_all(URL_FD, &url);
        struct str text = buf_str(&url);
        if (r < 0 || (!str_starts(text, STR("http://")) && !str_starts(text, STR("https://"))))
                return err_set(e, EINVAL, "no URL");
        w->secure = str_starts(text, STR("https://"));
        text = str_skip(text, w->secure ? 8 : 7);
        ptrdiff_t slash = str_find(text, '/');
        struct str host = slash < 0 ? text : str_first(text, (size_t)slash);
        w->path = str_dup(slash < 0 ? STR("/") : str_skip(text, (size_t)slash));
        return !w->path ? err_memory(e) : authority_parse(host, w->secure ? 443 : 80, &w->target, e);
}

static int make_request(struct webhook *w, struct err *e) {
        char host[AUTHORITY_TEXT_MAX];
        authority_text(&w->target, host);
        int r = fd_read_all(STDIN_FILENO, &w->message);
        if (r == 0)
                r = buf_printf(
                    &w->request,
                    "POST %s HTTP/1.0\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                    "User-Agent: bailey\r\nConnection: close\r\n\r\n",
                    w->path, host, w->message.n);
        if (r == 0)
                r = buf_append(&w->request, buf_str(&w->message));
        return r < 0 ? err_set(e, -r, "the message cannot be read") : 0;
}

static int set_up(struct webhook *w, struct err *e) {
        int r = read_url(w, e);
        if (r == 0)
                r = make_request(w, e);
        if (r == 0)
                r = loop_new(&w->loop, e);
        if (r == 0)
                r = resolver_new(w->loop, &(struct resolver_settings){ 0 }, &w->resolver, e);
        if (r == 0 && w->secure)
                r = tls_context_new("", &w->context, e);
        if (r == 0 && w->secure)
                r = tls_new(w->context, w->loop, &w->tls, e);
        return r < 0 ? r : confine_gateway(e);
}

static void tear_down(struct webhook *w) {
        if (!w->loop)
                return;
        timer_stop(&w->limit);
        dial_cancel(w->dial);
        stream_close(w->stream);
        loop_drain(w->loop);
        tls_free(w->tls);
        tls_context_free(w->context);
        resolver_free(w->resolver);
        loop_free(w->loop);
}

int webhook_main(struct err *e) {
        struct webhook w = {
                .message = BUF(MESSAGE_MAX), .request = BUF(MESSAGE_MAX + 2 * URL_MAX), .reply = BUF(REPLY_MAX), .e = e
        };
        link_init(&w.resolving.link);
        link_init(&w.limit.link);
        int r = set_up(&w, e);
        if (r == 0) {
                timer_init(&w.limit, w.loop, on_limit);
                timer_start(&w.limit, CONNECT_NS);
                begin(&w);
                loop_run(w.loop);
                r = w.result;
        }
        tear_down(&w);
        buf_done(&w.message);
        buf_done(&w.request);
        buf_done(&w.reply);
        free(w.path);
        return r;
}
