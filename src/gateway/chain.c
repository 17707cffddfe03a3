/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/chain.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/secret.h"
#include "base/vec.h"
#include "gateway/wire/http1.h"
#include "gateway/wire/socks5_wire.h"
#include "policy/pattern.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/*
 * Resolve the proxy, dial it, speak its protocol up to the point where the target's bytes begin; one time limit for all
 * of it. The proxy is the user's own choice, so its address is not judged. What it says is parsed like any hostile
 * bytes, and what it sends behind its answer is given back to the stream.
 */
enum { ANSWER_MAX = 16384, OUT_MAX = 4096, INTERIM_MAX = 32 };

enum state { CHAIN_RESOLVE, CHAIN_DIAL, CHAIN_HTTP, CHAIN_CHOICE, CHAIN_PASSWORD, CHAIN_ANSWER, CHAIN_STATES };

struct chain {
        struct worker *worker;
        struct authority target;
        dial_fn *done;
        void *owner;
        uint8_t state, n_interim;
        struct resolve_call resolving;
        struct dial *dial;
        struct stream *stream;
        struct addr addr;
        struct buf out, in;
        struct http1_progress progress;
        struct timer limit;
        struct task destroy, begin;
};

/* bypass */

struct chain_bypass {
        VEC(struct pattern) patterns;
};

void chain_bypass_free(struct chain_bypass *b) {
        if (!b)
                return;
        vec_done(&b->patterns);
        free(b);
}

static int compile(struct chain_bypass *b, const char *text, struct err *e) {
        struct str rest = str_of(text), part;
        while (str_split(&rest, ',', &part)) {
                struct pattern pattern;
                part = str_trim(part);
                if (part.n == 0)
                        continue;
                int r = pattern_parse(part, &pattern, e);
                if (r == 0 && vec_push(&b->patterns, pattern) < 0)
                        r = err_set(e, ENOMEM, "no memory");
                if (r < 0)
                        return err_wrap(e, r, "in the bypass list of the upstream proxy");
        }
        return 0;
}

int chain_bypass_new(const char *patterns, struct chain_bypass **ret, struct err *e) {
        struct chain_bypass *b = calloc(1, sizeof *b);
        if (!b)
                return err_set(e, ENOMEM, "no memory for the bypass list");
        int r = compile(b, patterns ? patterns : "", e);
        if (r < 0) {
                chain_bypass_free(b);
                return r;
        }
        *ret = b;
        return 0;
}

static bool is_bypassed(const struct chain_bypass *b, const struct authority *target) {
        for (size_t i = 0; b && i < b->patterns.n; i++)
                if (pattern_matches(&b->patterns.p[i], &target->host, target->port))
                        return true;
        return false;
}

bool chain_is_used(const struct gateway *g, const struct authority *target) {
        if (g->start.upstream_kind == UPSTREAM_NONE || host_is_loopback_name(&target->host))
                return false; /* a proxy's loopback is another machine's */
        return !is_bypassed(g->bypass, target);
}

/* the end */

static void destroy(struct task *t) {
        struct chain *c = link_owner(t, struct chain, destroy);
        if (c->out.p)
                secret_wipe(c->out.p, c->out.cap); /* the password */
        buf_done(&c->out);
        buf_done(&c->in);
        free(c);
}

static void release(struct chain *c) {
        timer_stop(&c->limit);
        task_cancel(&c->begin);
        resolve_cancel(&c->resolving);
        dial_cancel(c->dial);
        c->dial = NULL;
        stream_close(c->stream);
        c->stream = NULL;
        loop_defer(c->worker->loop, &c->destroy);
}

void chain_cancel(struct chain *c) {
        if (c)
                release(c);
}

static void finish(struct chain *c, int error) {
        struct stream *s = NULL;
        if (error == 0) {
                s = take_ptr(&c->stream);
                stream_set_owner(s, NULL, NULL);
                if (stream_unread(s, buf_str(&c->in)) < 0) {
                        stream_close(s);
                        s = NULL;
                        error = -ENOMEM;
                }
        }
        release(c);
        c->done(c->owner, error, s, &c->addr);
}

/* speaking */

static struct str password_of(const struct chain *c) {
        const struct secret *password = c->worker->gateway->upstream_password;
        return password ? secret_value(password) : STR("");
}

/* Nothing here grows while it holds the password: what is left behind by growing would not be wiped. */
static int add_basic(struct buf *out, const char *user, struct str password) {
        cleanup(buf_done) struct buf plain = BUF(1024);
        int r = buf_reserve(&plain, 1024);
        r = r < 0 ? r : buf_printf(&plain, "%s:%.*s", user, STR_FMT(password));
        if (r == 0)
                r = buf_reserve(out, base64_length(plain.n));
        if (r == 0) {
                base64_encode(buf_str(&plain), BASE64_STANDARD, out->p + out->n);
                out->n += base64_length(plain.n);
        }
        if (plain.p)
                secret_wipe(plain.p, plain.cap);
        return r;
}

static int put_connect(struct chain *c) {
        const struct gateway_start *start = &c->worker->gateway->start;
        char where[AUTHORITY_TEXT_MAX];
        authority_text(&c->target, where);
        int r = buf_printf(&c->out, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", where, where);
        if (r == 0 && start->upstream_user[0]) {
                r = buf_add(&c->out, "Proxy-Authorization: Basic ");
                r = r < 0 ? r : add_basic(&c->out, start->upstream_user, password_of(c));
                r = r < 0 ? r : buf_add(&c->out, "\r\n");
        }
        return r < 0 ? r : buf_add(&c->out, "\r\n");
}

static int begin_talk(struct chain *c) {
        const struct gateway_start *start = &c->worker->gateway->start;
        if (start->upstream_kind == UPSTREAM_HTTP) {
                c->state = CHAIN_HTTP;
                return put_connect(c);
        }
        c->state = CHAIN_CHOICE;
        return socks5_put_greeting(&c->out, start->upstream_user[0] != '\0');
}

/* Each reader returns 1 when the target's bytes begin, 0 when more is to be read or said, or a negative errno. */
static int read_http(struct chain *c) {
        struct http1_response response;
        do { /* 1xx responses announce another one */
                enum http1_result r = http1_response_parse(&c->progress, buf_str(&c->in), ANSWER_MAX, &response);
                if (r == HTTP1_MORE)
                        return 0;
                if (r != HTTP1_OK)
                        return -EPROTO;
                c->progress = (struct http1_progress){ 0 };
                buf_consume(&c->in, response.head.bytes);
        } while (response.status / 100 == 1 && ++c->n_interim <= INTERIM_MAX);
        if (response.status / 100 == 2)
                return 1;
        return response.status == 407   ? -EACCES
               : response.status == 403 ? -EPERM
               : response.status == 504 ? -ETIMEDOUT
               : response.status < 200  ? -EPROTO
                                        : -EHOSTUNREACH;
}

static int ask_target(struct chain *c) {
        c->state = CHAIN_ANSWER;
        return socks5_put_request(&c->out, &c->target);
}

static int read_choice(struct chain *c) {
        const struct gateway_start *start = &c->worker->gateway->start;
        size_t used;
        uint8_t method;
        enum socks5_result r = socks5_choice(buf_str(&c->in), &used, &method);
        if (r != SOCKS5_OK)
                return r == SOCKS5_MORE ? 0 : -EPROTO;
        buf_consume(&c->in, used);
        if (method == 0)
                return ask_target(c);
        if (method != 2 || !start->upstream_user[0])
                return -EACCES;
        c->state = CHAIN_PASSWORD;
        return socks5_put_password(&c->out, str_of(start->upstream_user), password_of(c));
}

static int read_password(struct chain *c) {
        size_t used;
        enum socks5_result r = socks5_password_result(buf_str(&c->in), &used);
        if (r != SOCKS5_OK)
                return r == SOCKS5_MORE ? 0 : -EACCES;
        buf_consume(&c->in, used);
        return ask_target(c);
}

static int read_answer(struct chain *c) {
        static const int errors[] = { 0, -EIO, -EPERM, -ENETUNREACH, -EHOSTUNREACH, -ECONNREFUSED, -EHOSTUNREACH };
        size_t used;
        enum socks5_reply code;
        enum socks5_result r = socks5_answer(buf_str(&c->in), &used, &code);
        if (r != SOCKS5_OK)
                return r == SOCKS5_MORE ? 0 : -EPROTO;
        if (code != SOCKS5_SUCCEEDED)
                return (size_t)code < sizeof errors / sizeof errors[0] ? errors[code] : -EIO;
        buf_consume(&c->in, used);
        return 1;
}

static int (*const readers[])(struct chain *) = { NULL, NULL, read_http, read_choice, read_password, read_answer };
static_assert(sizeof readers / sizeof readers[0] == CHAIN_STATES, "one reader per state");

static int read_more(struct chain *c) {
        int r = buf_reserve(&c->in, 512);
        if (r < 0)
                return -EPROTO; /* the answer is longer than any honest one */
        size_t room = c->in.cap < c->in.max ? c->in.cap - c->in.n : c->in.max - c->in.n;
        ssize_t got = stream_read(c->stream, c->in.p + c->in.n, room);
        if (got <= 0)
                return got == 0 ? -ECONNRESET : (int)got;
        c->in.n += (size_t)got;
        return 0;
}

static int write_more(struct chain *c) {
        while (c->out.n > 0) {
                ssize_t put = stream_write(c->stream, buf_str(&c->out));
                if (put < 0)
                        return (int)put;
                buf_consume(&c->out, (size_t)put);
        }
        return 0;
}

static void on_ready(struct stream *s, void *owner) {
        (void)s;
        struct chain *c = owner;
        for (;;) {
                int r = write_more(c);
                if (r == 0) {
                        unsigned before = c->state;
                        r = readers[c->state](c);
                        if (r == 0 && c->state == before)
                                r = read_more(c);
                }
                if (r == -EAGAIN)
                        return;
                if (r != 0) {
                        finish(c, r > 0 ? 0 : r);
                        return;
                }
        }
}

/* getting there */

static void on_dialled(void *owner, int error, struct stream *s, const struct addr *addr) {
        struct chain *c = owner;
        c->dial = NULL;
        if (error < 0) {
                finish(c, error);
                return;
        }
        c->stream = s;
        c->addr = *addr;
        stream_set_owner(s, on_ready, c);
        int r = buf_reserve(&c->out, OUT_MAX);
        r = r < 0 ? r : begin_talk(c);
        if (r < 0)
                finish(c, r);
        else
                on_ready(s, c);
}

static void dial_proxy(struct chain *c, const struct addr *addrs, size_t n) {
        const struct gateway_start *start = &c->worker->gateway->start;
        c->state = CHAIN_DIAL;
        int r = dial_start(c->worker->loop, addrs, n, start->upstream.port, start->connect_ns, on_dialled, c, &c->dial);
        if (r < 0)
                finish(c, r);
}

static void on_resolved(struct resolve_call *call, const struct resolve_answer *a) {
        struct chain *c = link_owner(call, struct chain, resolving);
        if (a->error)
                finish(c, a->error == -ETIMEDOUT ? -ETIMEDOUT : -EHOSTUNREACH);
        else
                dial_proxy(c, a->addrs, a->n);
}

static void on_begin(struct task *t) {
        struct chain *c = link_owner(t, struct chain, begin);
        const struct host *proxy = &c->worker->gateway->start.upstream.host;
        if (proxy->kind == HOST_ADDR) {
                dial_proxy(c, &proxy->addr, 1);
                return;
        }
        c->resolving.done = on_resolved;
        if (resolve_start(c->worker->resolver, proxy, &c->resolving) < 0)
                finish(c, -ENOMEM);
}

static void on_limit(struct timer *t) {
        finish(link_owner(t, struct chain, limit), -ETIMEDOUT);
}

int chain_start(struct worker *w, const struct authority *target, dial_fn *done, void *owner, struct chain **ret) {
        struct chain *c = calloc(1, sizeof *c);
        if (!c)
                return -ENOMEM;
        *c = (struct chain){ .worker = w, .target = *target, .done = done, .owner = owner };
        c->out = BUF(OUT_MAX);
        c->in = BUF(ANSWER_MAX);
        link_init(&c->resolving.link);
        timer_init(&c->limit, w->loop, on_limit);
        task_init(&c->destroy, destroy);
        task_init(&c->begin, on_begin);
        timer_start(&c->limit, w->limits.connect_ns);
        loop_defer(w->loop, &c->begin);
        *ret = c;
        return 0;
}
