/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/chain.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/secrets/secret.h"
#include "base/vec.h"
#include "gateway/wire/http1.h"
#include "gateway/wire/socks5_wire.h"
#include "policy/match/pattern.h"

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

void chain_bypass_free(struct chain_bypass *bypass) {
        if (!bypass)
                return;
        vec_done(&bypass->patterns);
        free(bypass);
}

static int chain_compile(struct chain_bypass *bypass, const char *text, struct err *err) {
        struct str rest = str_of(text), part;
        while (str_split(&rest, ',', &part)) {
                struct pattern pattern;

                part = str_trim(part);
                if (part.n == 0)
                        continue;

                int r = pattern_parse(part, &pattern, err);
                if (r == 0 && vec_push(&bypass->patterns, pattern) < 0)
                        r = err_set(err, ENOMEM, "no memory");
                if (r < 0)
                        return err_wrap(err, r, "in the bypass list of the upstream proxy");
        }

        return 0;
}

int chain_bypass_new(const char *patterns, struct chain_bypass **ret, struct err *err) {
        struct chain_bypass *bypass = calloc(1, sizeof *bypass);
        if (!bypass)
                return err_set(err, ENOMEM, "no memory for the bypass list");

        int r = chain_compile(bypass, text_or(patterns, ""), err);
        if (r < 0) {
                chain_bypass_free(bypass);
                return r;
        }

        *ret = bypass;
        return 0;
}

static bool is_bypassed(const struct chain_bypass *bypass, const struct authority *target) {
        for (size_t i = 0; bypass && i < bypass->patterns.n; i++)
                if (pattern_matches(&bypass->patterns.p[i], &target->host, target->port))
                        return true;
        return false;
}

bool chain_is_used(const struct gateway *gateway, const struct authority *target) {
        if (gateway->start.upstream_kind == UPSTREAM_NONE || host_is_loopback_name(&target->host))
                return false; /* a proxy's loopback is another machine's */
        return !is_bypassed(gateway->bypass, target);
}

/* the end */

static void chain_destroy(struct task *task) {
        struct chain *chain = link_owner(task, struct chain, destroy);
        if (chain->out.p)
                secret_wipe(chain->out.p, chain->out.cap); /* the password */
        buf_done(&chain->out);
        buf_done(&chain->in);
        free(chain);
}

static void chain_release(struct chain *chain) {
        timer_stop(&chain->limit);
        task_cancel(&chain->begin);
        resolve_cancel(&chain->resolving);
        dial_cancel(chain->dial);
        chain->dial = NULL;
        stream_close(chain->stream);
        chain->stream = NULL;
        loop_defer(chain->worker->loop, &chain->destroy);
}

void chain_cancel(struct chain *chain) {
        if (chain)
                chain_release(chain);
}

static void chain_finish(struct chain *chain, int error) {
        struct stream *stream = NULL;

        if (error == 0) {
                stream = take_ptr(&chain->stream);
                stream_set_owner(stream, NULL, NULL);

                if (stream_unread(stream, buf_str(&chain->in)) < 0) {
                        stream_close(stream);
                        stream = NULL;
                        error = -ENOMEM;
                }
        }

        chain_release(chain);
        chain->done(chain->owner, error, stream, &chain->addr);
}

/* speaking */

static struct str password_of(const struct chain *chain) {
        const struct secret *password = chain->worker->gateway->upstream_password;
        if (password)
                return secret_value(password);

        return STR("");
}

/* Nothing here grows while it holds the password: what is left behind by growing would not be wiped. */
static int add_basic(struct buf *out, const char *user, struct str password) {
        cleanup(buf_done) struct buf plain = BUF(1024);
        int r = buf_reserve(&plain, 1024);

        if (r >= 0)
                r = buf_printf(&plain, "%s:%.*s", user, STR_FMT(password));
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

static int put_connect(struct chain *chain) {
        const struct gateway_start *start = &chain->worker->gateway->start;
        char where[AUTHORITY_TEXT_MAX];

        authority_text(&chain->target, where);
        int r = buf_printf(&chain->out, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", where, where);
        if (r == 0 && start->upstream_user[0]) {
                r = buf_add(&chain->out, "Proxy-Authorization: Basic ");
                if (r >= 0)
                        r = add_basic(&chain->out, start->upstream_user, password_of(chain));
                if (r >= 0)
                        r = buf_add(&chain->out, "\r\n");
        }

        if (r < 0)
                return r;

        return buf_add(&chain->out, "\r\n");
}

static int begin_talk(struct chain *chain) {
        const struct gateway_start *start = &chain->worker->gateway->start;
        if (start->upstream_kind == UPSTREAM_HTTP) {
                chain->state = CHAIN_HTTP;
                return put_connect(chain);
        }
        chain->state = CHAIN_CHOICE;
        return socks5_put_greeting(&chain->out, start->upstream_user[0] != '\0');
}

/* Each reader returns 1 when the target's bytes begin, 0 when more is to be read or said, or a negative errno. */
/* What a proxy means by an answer that is no success. */
static int status_error(unsigned status) {
        if (status < 200)
                return -EPROTO;

        switch (status) {
        case 407:
                return -EACCES;
        case 403:
                return -EPERM;
        case 504:
                return -ETIMEDOUT;
        default:
                return -EHOSTUNREACH;
        }
}

static int read_http(struct chain *chain) {
        struct http1_response response;

        do { /* 1xx responses announce another one */
                enum http1_result r =
                    http1_response_parse(&chain->progress, buf_str(&chain->in), ANSWER_MAX, &response);
                if (r == HTTP1_MORE)
                        return 0;
                if (r != HTTP1_OK)
                        return -EPROTO;

                chain->progress = (struct http1_progress){ 0 };
                buf_consume(&chain->in, response.head.bytes);
        } while (response.status / 100 == 1 && ++chain->n_interim <= INTERIM_MAX);

        if (response.status / 100 == 2)
                return 1;

        return status_error(response.status);
}

static int ask_target(struct chain *chain) {
        chain->state = CHAIN_ANSWER;
        return socks5_put_request(&chain->out, &chain->target);
}

static int read_choice(struct chain *chain) {
        const struct gateway_start *start = &chain->worker->gateway->start;
        size_t used;
        uint8_t method;
        enum socks5_result r = socks5_choice(buf_str(&chain->in), &used, &method);
        if (r == SOCKS5_MORE)
                return 0;
        if (r != SOCKS5_OK)
                return -EPROTO;

        buf_consume(&chain->in, used);
        if (method == 0)
                return ask_target(chain);
        if (method != 2 || !start->upstream_user[0])
                return -EACCES;

        chain->state = CHAIN_PASSWORD;
        return socks5_put_password(&chain->out, str_of(start->upstream_user), password_of(chain));
}

static int read_password(struct chain *chain) {
        size_t used;
        enum socks5_result r = socks5_password_result(buf_str(&chain->in), &used);
        if (r == SOCKS5_MORE)
                return 0;
        if (r != SOCKS5_OK)
                return -EACCES;
        buf_consume(&chain->in, used);
        return ask_target(chain);
}

static int read_answer(struct chain *chain) {
        static const int errors[] = { 0, -EIO, -EPERM, -ENETUNREACH, -EHOSTUNREACH, -ECONNREFUSED, -EHOSTUNREACH };
        size_t used;
        enum socks5_reply code;
        enum socks5_result r = socks5_answer(buf_str(&chain->in), &used, &code);
        if (r == SOCKS5_MORE)
                return 0;
        if (r != SOCKS5_OK)
                return -EPROTO;
        if (code != SOCKS5_SUCCEEDED) {
                if ((size_t)code < sizeof errors / sizeof errors[0])
                        return errors[code];
                return -EIO;
        }

        buf_consume(&chain->in, used);
        return 1;
}

static int (*const readers[])(struct chain *) = { NULL, NULL, read_http, read_choice, read_password, read_answer };
static_assert(sizeof readers / sizeof readers[0] == CHAIN_STATES, "one reader per state");

static int read_more(struct chain *chain) {
        int r = buf_reserve(&chain->in, 512);
        if (r < 0)
                return -EPROTO; /* the answer is longer than any honest one */

        size_t room = chain->in.cap < chain->in.max ? chain->in.cap - chain->in.n : chain->in.max - chain->in.n;
        ssize_t got = stream_read(chain->stream, chain->in.p + chain->in.n, room);
        if (got <= 0) {
                if (got == 0)
                        return -ECONNRESET;
                return (int)got;
        }

        chain->in.n += (size_t)got;
        return 0;
}

static int write_more(struct chain *chain) {
        while (chain->out.n > 0) {
                ssize_t put = stream_write(chain->stream, buf_str(&chain->out));
                if (put < 0)
                        return (int)put;
                buf_consume(&chain->out, (size_t)put);
        }
        return 0;
}

static void on_ready(struct stream *stream, void *owner) {
        (void)stream;
        struct chain *chain = owner;

        for (;;) {
                int r = write_more(chain);
                if (r == 0) {
                        unsigned before = chain->state;

                        r = readers[chain->state](chain);
                        if (r == 0 && chain->state == before)
                                r = read_more(chain);
                }

                if (r == -EAGAIN)
                        return;

                if (r != 0) {
                        chain_finish(chain, r > 0 ? 0 : r);
                        return;
                }
        }
}

/* getting there */

static void on_dialled(void *owner, int error, struct stream *stream, const struct addr *addr) {
        struct chain *chain = owner;

        chain->dial = NULL;

        if (error < 0) {
                chain_finish(chain, error);
                return;
        }

        chain->stream = stream;
        chain->addr = *addr;
        stream_set_owner(stream, on_ready, chain);

        int r = buf_reserve(&chain->out, OUT_MAX);
        if (r >= 0)
                r = begin_talk(chain);
        if (r < 0)
                chain_finish(chain, r);
        else
                on_ready(stream, chain);
}

static void dial_proxy(struct chain *chain, const struct addr *addrs, size_t n) {
        const struct gateway_start *start = &chain->worker->gateway->start;
        chain->state = CHAIN_DIAL;
        int r = dial_start(chain->worker->loop, addrs, n, start->upstream.port, start->connect_ns, on_dialled, chain,
                           &chain->dial);
        if (r < 0)
                chain_finish(chain, r);
}

static void on_resolved(struct resolve_call *call, const struct resolve_answer *answer) {
        struct chain *chain = link_owner(call, struct chain, resolving);
        if (answer->error)
                chain_finish(chain, answer->error == -ETIMEDOUT ? -ETIMEDOUT : -EHOSTUNREACH);
        else
                dial_proxy(chain, answer->addrs, answer->n);
}

static void on_begin(struct task *task) {
        struct chain *chain = link_owner(task, struct chain, begin);
        const struct host *proxy = &chain->worker->gateway->start.upstream.host;
        if (proxy->kind == HOST_ADDR) {
                dial_proxy(chain, &proxy->addr, 1);
                return;
        }

        chain->resolving.done = on_resolved;
        if (resolve_start(chain->worker->resolver, proxy, &chain->resolving) < 0)
                chain_finish(chain, -ENOMEM);
}

static void on_limit(struct timer *timer) {
        chain_finish(link_owner(timer, struct chain, limit), -ETIMEDOUT);
}

int chain_start(struct worker *worker, const struct authority *target, dial_fn *done, void *owner, struct chain **ret) {
        struct chain *chain = calloc(1, sizeof *chain);
        if (!chain)
                return -ENOMEM;

        *chain = (struct chain){ .worker = worker, .target = *target, .done = done, .owner = owner };
        chain->out = BUF(OUT_MAX);
        chain->in = BUF(ANSWER_MAX);
        link_init(&chain->resolving.link);
        timer_init(&chain->limit, worker->loop, on_limit);
        task_init(&chain->destroy, chain_destroy);
        task_init(&chain->begin, on_begin);
        timer_start(&chain->limit, worker->limits.connect_ns);
        loop_defer(worker->loop, &chain->begin);
        *ret = chain;

        return 0;
}
