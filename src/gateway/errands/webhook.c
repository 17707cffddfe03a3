/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States: RESOLVING, DIALLING, HANDSHAKE (https), SENDING, READING. A failure in any of them ends the process. The
 * request is HTTP/1.0, so that the reply ends with the connection and is not chunked; TLS is verified as towards any
 * origin. Limits: CONNECT_NS to be connected, the reply as long as a person takes (our parent ends us when nobody waits
 * any more), REPLY_MAX bytes of it.
 */
#include "gateway/errands/webhook.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "gateway/confine/gateway_confine.h"
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

static void webhook_finish(struct webhook *webhook, int result, const char *why) {
        webhook->result =
            result < 0 && why ? err_set(webhook->e, -result, "%s: %s", webhook->target.host.name, why) : result;
        webhook->done = true;
        loop_stop(webhook->loop);
}

static void on_limit(struct timer *timer) {
        webhook_finish(link_owner(timer, struct webhook, limit), -ETIMEDOUT, "no connection in time");
}

static void hand_on(struct webhook *webhook, struct str body) {
        (void)fd_write_all(STDOUT_FILENO, body.p, body.n); /* nobody may listen */
        webhook_finish(webhook, 0, NULL);
}

/* A success with a small body is handed on as soon as all of it is here; whether it is an answer is for the supervisor
 * to say. A reply that is shorter than its length is no answer: the rest may have said otherwise. */
static void use_reply(struct webhook *webhook, bool ended) {
        struct http1_progress at = { 0 };
        struct http1_response reply;
        enum http1_result r = http1_response_parse(&at, buf_str(&webhook->reply), REPLY_MAX, &reply);
        if (r == HTTP1_MORE && !ended)
                return;

        if (r != HTTP1_OK || reply.status / 100 != 2) {
                webhook_finish(webhook, -EPROTO, "the server did not accept the message");
                return;
        }

        struct str body = str_skip(buf_str(&webhook->reply), reply.head.bytes);

        switch (http1_response_body(&reply, false)) {
        case BODY_NONE:
                hand_on(webhook, STR(""));
                return;
        case BODY_LENGTH:
                if (body.n >= reply.head.length)
                        hand_on(webhook, str_first(body, (size_t)reply.head.length));
                else if (ended)
                        webhook_finish(webhook, -ECONNRESET, "the reply was cut off");
                return;
        case BODY_UNTIL_CLOSE:
                if (ended)
                        hand_on(webhook, body);

                return;
        case BODY_CHUNKED:
                webhook_finish(webhook, -EPROTO, "the reply is in chunks, which HTTP/1.0 does not have");
                return;
        }
}

static void read_reply(struct webhook *webhook, struct stream *stream) {
        while (!webhook->done) {
                char bytes[4096];
                ssize_t n = stream_read(stream, bytes, sizeof bytes);
                if (n == -EAGAIN)
                        return;

                if (n < 0)
                        webhook_finish(webhook, (int)n, "the connection broke");
                else if (buf_append(&webhook->reply, str_n(bytes, (size_t)n)) < 0)
                        webhook_finish(webhook, -EMSGSIZE, "the reply is too long");
                else
                        use_reply(webhook, n == 0);
        }
}

static void get_on(struct stream *stream, void *owner) {
        struct webhook *webhook = owner;
        ssize_t n = 0;

        if (webhook->secure && !webhook->shaken) {
                int r = tls_handshake(stream);
                if (r == -EAGAIN)
                        return;

                if (r < 0) {
                        webhook_finish(webhook, r, tls_failure(stream));
                        return;
                }

                webhook->shaken = true;
        }

        while (webhook->sent < webhook->request.n) {
                n = stream_write(stream, str_skip(buf_str(&webhook->request), webhook->sent));
                if (n == -EAGAIN)
                        return;

                if (n < 0) {
                        webhook_finish(webhook, (int)n, "the connection broke");
                        return;
                }

                webhook->sent += (size_t)n;
                timer_stop(&webhook->limit);
        }

        read_reply(webhook, stream);
}

static void on_dialled(void *owner, int error, struct stream *stream, const struct addr *addr) {
        struct webhook *webhook = owner;

        (void)addr;
        webhook->dial = NULL;

        if (error < 0) {
                webhook_finish(webhook, error, "it cannot be reached");
                return;
        }

        if (webhook->secure) {
                const struct tls_connect how = { .target = &webhook->target };

                error = tls_connect(webhook->tls, stream, &how, &stream);
                if (error < 0) {
                        webhook_finish(webhook, error, "no TLS");
                        return;
                }
        }

        webhook->stream = stream;
        stream_set_owner(stream, get_on, webhook);
        get_on(stream, webhook);
}

static void webhook_dial(struct webhook *webhook, const struct addr *addrs, size_t n) {
        int r =
            dial_start(webhook->loop, addrs, n, webhook->target.port, CONNECT_NS, on_dialled, webhook, &webhook->dial);
        if (r < 0)
                webhook_finish(webhook, r, "it cannot be reached");
}

static void on_resolved(struct resolve_call *call, const struct resolve_answer *answer) {
        struct webhook *webhook = link_owner(call, struct webhook, resolving);
        if (answer->error)
                webhook_finish(webhook, answer->error, "the name has no address");
        else
                webhook_dial(webhook, answer->addrs, answer->n);
}

static void webhook_begin(struct webhook *webhook) {
        const struct host *host = &webhook->target.host;
        if (host->kind == HOST_ADDR)
                webhook_dial(webhook, &host->addr, 1);
        else {
                webhook->resolving.done = on_resolved;
                int r = resolve_start(webhook->resolver, host, &webhook->resolving);
                if (r < 0)
                        webhook_finish(webhook, r, "the name cannot be resolved");
        }
}

/* "https://host[:port]/path", checked when the configuration was read. */
static int read_url(struct webhook *webhook, struct err *err) {
        cleanup(buf_done) struct buf url = BUF(URL_MAX);
        int r = fd_read_all(URL_FD, &url);
        struct str text = buf_str(&url);
        if (r < 0 || (!str_starts(text, STR("http://")) && !str_starts(text, STR("https://"))))
                return err_set(err, EINVAL, "no URL");

        webhook->secure = str_starts(text, STR("https://"));
        text = str_skip(text, webhook->secure ? 8 : 7);
        ptrdiff_t slash = str_find(text, '/');
        struct str host = slash < 0 ? text : str_first(text, (size_t)slash);
        webhook->path = str_dup(slash < 0 ? STR("/") : str_skip(text, (size_t)slash));

        if (!webhook->path)
                return err_memory(err);

        return authority_parse(host, webhook->secure ? 443 : 80, &webhook->target, err);
}

static int make_request(struct webhook *webhook, struct err *err) {
        char host[AUTHORITY_TEXT_MAX];

        authority_text(&webhook->target, host);
        int r = fd_read_all(STDIN_FILENO, &webhook->message);
        if (r == 0)
                r = buf_printf(
                    &webhook->request,
                    "POST %s HTTP/1.0\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                    "User-Agent: bailey\r\nConnection: close\r\n\r\n",
                    webhook->path, host, webhook->message.n);

        if (r == 0)
                r = buf_append(&webhook->request, buf_str(&webhook->message));

        if (r < 0)
                return err_set(err, -r, "the message cannot be read");

        return 0;
}

static int set_up(struct webhook *webhook, struct err *err) {
        int r = read_url(webhook, err);
        if (r == 0)
                r = make_request(webhook, err);
        if (r == 0)
                r = loop_new(&webhook->loop, err);
        if (r == 0)
                r = resolver_new(webhook->loop, &(struct resolver_settings){ 0 }, &webhook->resolver, err);
        if (r == 0 && webhook->secure)
                r = tls_context_new("", &webhook->context, err);
        if (r == 0 && webhook->secure)
                r = tls_new(webhook->context, webhook->loop, &webhook->tls, err);
        if (r < 0)
                return r;

        return confine_gateway(err);
}

static void tear_down(struct webhook *webhook) {
        if (!webhook->loop)
                return;

        timer_stop(&webhook->limit);
        dial_cancel(webhook->dial);
        stream_close(webhook->stream);
        loop_drain(webhook->loop);
        tls_free(webhook->tls);
        tls_context_free(webhook->context);
        resolver_free(webhook->resolver);
        loop_free(webhook->loop);
}

int webhook_main(struct err *err) {
        struct webhook webhook = { .message = BUF(MESSAGE_MAX),
                                   .request = BUF(MESSAGE_MAX + 2 * URL_MAX),
                                   .reply = BUF(REPLY_MAX),
                                   .e = err };

        link_init(&webhook.resolving.link);
        link_init(&webhook.limit.link);
        int r = set_up(&webhook, err);
        if (r == 0) {
                timer_init(&webhook.limit, webhook.loop, on_limit);
                timer_start(&webhook.limit, CONNECT_NS);
                webhook_begin(&webhook);
                loop_run(webhook.loop);
                r = webhook.result;
        }

        tear_down(&webhook);
        buf_done(&webhook.message);
        buf_done(&webhook.request);
        buf_done(&webhook.reply);
        free(webhook.path);

        return r;
}
