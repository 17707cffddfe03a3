/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenSSL reads and writes through a BIO of our own, which asks the stream below. So bytes that were looked at and
 * pushed back are replayed, whatever lies below works, and every wait is that stream's.
 *
 * Writing through the BIO never blocks: what the stream below does not take waits in `out`, and nothing more is
 * encrypted until it has gone. So OpenSSL never asks for the same bytes once more, a write that was taken stays taken,
 * and what waits is one record (or a flight of the handshake).
 *
 * OpenSSL's queue of errors is of the thread, and to empty it before every record would be felt. Whoever may leave
 * something in it empties it, so that nothing stands there when bytes are read or written.
 *
 * Trust: the peer is hostile on either side. Renegotiation and compression do not exist here, an end without
 * close_notify is an error and not an end, and a failed stream stays failed.
 */
#include "net/tls_stream.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/secret.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>

#define DRAIN_NS (5 * NS_PER_SECOND)
enum { OUT_MAX = 65536 }; /* a flight of the handshake, which is larger than a record */

/* the BIO */

static int keep_out(struct tls_stream *t, struct str bytes) {
        size_t held = t->out_n - t->out_at;
        if (bytes.n > OUT_MAX - held)
                return -ENOBUFS;
        char *out = malloc(held + bytes.n);
        if (!out)
                return -ENOMEM;
        if (t->out)
                memcpy(out, t->out + t->out_at, held);
        memcpy(out + held, bytes.p, bytes.n);
        free(t->out);
        t->out = out;
        t->out_at = 0;
        t->out_n = held + bytes.n;
        return 0;
}

static void drop_out(struct tls_stream *t) {
        free(t->out);
        t->out = NULL;
        t->out_at = t->out_n = 0;
}

/* 0 when nothing waits any more, -EAGAIN, or the error of the stream below. */
static int flush(struct tls_stream *t) {
        while (t->out) {
                ssize_t put = stream_write(t->s.below, str_n(t->out + t->out_at, t->out_n - t->out_at));
                if (put < 0)
                        return (int)put;
                t->out_at += (size_t)put;
                if (t->out_at == t->out_n)
                        drop_out(t);
        }
        if (t->finishing && !t->ended_below) {
                t->ended_below = true;
                return stream_finish(t->s.below);
        }
        return 0;
}

static int bio_write(BIO *bio, const char *p, int n) {
        struct tls_stream *t = BIO_get_data(bio);
        struct str bytes = str_n(p, (size_t)n);
        if (!t->out) {
                ssize_t put = stream_write(t->s.below, bytes);
                if (put < 0 && put != -EAGAIN) {
                        t->below_error = (int)put;
                        return -1;
                }
                if (put > 0)
                        bytes = str_skip(bytes, (size_t)put);
        }
        int r = bytes.n > 0 ? keep_out(t, bytes) : 0;
        if (r < 0)
                t->below_error = r;
        return r < 0 ? -1 : n;
}

static int bio_read(BIO *bio, char *p, int n) {
        struct tls_stream *t = BIO_get_data(bio);
        BIO_clear_retry_flags(bio);
        ssize_t got = stream_read(t->s.below, p, (size_t)n);
        if (got == -EAGAIN)
                BIO_set_retry_read(bio);
        else if (got < 0)
                t->below_error = (int)got;
        else if (got == 0)
                BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
        return got < 0 ? -1 : (int)got;
}

static long bio_control(BIO *bio, int command, long number, void *pointer) {
        (void)number;
        (void)pointer;
        switch (command) {
        case BIO_CTRL_EOF:
                return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
        case BIO_CTRL_FLUSH:
                return 1;
        default:
                return 0;
        }
}

static BIO_METHOD *bio_method;
static pthread_once_t bio_method_once = PTHREAD_ONCE_INIT;

static void make_bio_method(void) {
        BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "stream");
        if (m && BIO_meth_set_read(m, bio_read) && BIO_meth_set_write(m, bio_write) &&
            BIO_meth_set_ctrl(m, bio_control)) {
                bio_method = m;
                return;
        }
        BIO_meth_free(m);
}

/* results */

static int fail(struct tls_stream *t, int error, const char *why) {
        t->error = error;
        t->why = why;
        return error;
}

/* After an operation that did not succeed: -EAGAIN, 0 at the end of the stream, or why it is over. */
static int result(struct tls_stream *t) {
        const char *why = NULL;
        if (SSL_want_read(t->ssl) && BIO_should_read(SSL_get_rbio(t->ssl))) { /* whatever stands in the queue */
                t->s.readable = false;
                return -EAGAIN;
        }
        switch (SSL_get_error(t->ssl, 0)) {
        case SSL_ERROR_ZERO_RETURN:
                return 0;
        case SSL_ERROR_SYSCALL:
                ERR_clear_error();
                if (t->below_error)
                        return fail(t, t->below_error, "The connection broke.");
                return fail(t, -ECONNRESET, "The connection was closed.");
        default:
                if (t->below_error) {
                        ERR_clear_error();
                        return fail(t, t->below_error, "The connection broke.");
                }
                int error = tls_explain(t, &why);
                if (t->session_key && error != -ECONNRESET)
                        tls_sessions_drop(t->tls->sessions, str_n(t->session_key, t->session_key_n));
                return fail(t, error, why);
        }
}

int tls_handshake(struct stream *s) {
        struct tls_stream *t = tls_of(s);
        if (t->error)
                return t->error;
        if (t->ready)
                return 0;
        ERR_clear_error();
        int done = SSL_do_handshake(t->ssl);
        int flushed = t->out ? flush(t) : 0; /* also an alert that says why not */
        if (done == 1 && (flushed == 0 || flushed == -EAGAIN)) {
                ERR_clear_error();
                t->ready = true;
                t->s.writable = !t->out;
                free(t->accepting);
                t->accepting = NULL;
                return 0;
        }
        if (done == 1)
                return fail(t, flushed, "The connection broke.");
        int r = result(t);
        ERR_clear_error(); /* also when it goes on later: others have their turn in between */
        if (r == 0)
                r = fail(t, -ECONNRESET, "The connection was closed during the TLS handshake.");
        return r;
}

/* the stream */

static void tell(struct tls_stream *t) {
        if (t->s.on_ready)
                t->s.on_ready(&t->s, t->s.owner);
}

static void on_below(struct stream *below, void *owner) {
        struct tls_stream *t = owner;
        int r = t->out && below->writable ? flush(t) : 0;
        if (r < 0 && r != -EAGAIN && !t->error)
                fail(t, r, "The connection broke.");
        t->s.readable |= below->readable || t->error;
        t->s.writable = (below->writable && !t->out) || t->error;
        t->s.closed |= below->closed;
        tell(t);
}

static ssize_t tls_read(struct stream *s, void *p, size_t n) {
        struct tls_stream *t = tls_of(s);
        int r = tls_handshake(s);
        if (r < 0)
                return r;
        if (!s->readable)
                return -EAGAIN;
        size_t total = 0;
        while (total < n) {
                size_t got;
                if (SSL_read_ex(t->ssl, (char *)p + total, n - total, &got)) {
                        total += got;
                        /* Nothing here and nothing below: the read that would only say so is saved. */
                        if (!t->s.below->readable && !t->s.below->pushback && !SSL_has_pending(t->ssl)) {
                                s->readable = false;
                                break;
                        }
                        continue;
                }
                r = result(t);
                if (total == 0)
                        return r;
                break; /* what was read comes first; an end or an error is found again */
        }
        return (ssize_t)total;
}

/* Up to a record's worth of the parts from `skip` on: in place when it lies in one part, else put together. */
static struct str next_record(struct tls *t, const struct iovec *parts, int n_parts, size_t skip) {
        size_t n = 0;
        for (int i = 0; i < n_parts; i++) {
                size_t left = parts[i].iov_len;
                if (skip >= left) {
                        skip -= left;
                        continue;
                }
                const char *p = (const char *)parts[i].iov_base + skip;
                left -= skip;
                skip = 0;
                if (n == 0 && (left >= TLS_RECORD_BYTES || i == n_parts - 1))
                        return str_n(p, left < TLS_RECORD_BYTES ? left : TLS_RECORD_BYTES);
                size_t take = left < TLS_RECORD_BYTES - n ? left : TLS_RECORD_BYTES - n;
                memcpy(t->plain + n, p, take);
                n += take;
        }
        return str_n(t->plain, n);
}

static ssize_t tls_write(struct stream *s, const struct iovec *parts, int n_parts) {
        struct tls_stream *t = tls_of(s);
        int r = tls_handshake(s);
        if (r == 0 && t->out)
                r = flush(t);
        if (r == -EAGAIN)
                s->writable = false;
        if (r < 0)
                return r == -EAGAIN || t->error ? r : fail(t, r, "The connection broke.");
        if (t->finishing)
                return -EPIPE;
        size_t total = 0;
        do {
                struct str record = next_record(t->tls, parts, n_parts, total);
                size_t put;
                if (record.n == 0)
                        break;
                int written = SSL_write_ex(t->ssl, record.p, record.n, &put);
                if (record.p == t->tls->plain)
                        secret_wipe(t->tls->plain, record.n); /* a request's head, with its credentials */
                if (!written) {
                        r = result(t);
                        return total > 0 ? (ssize_t)total : r == 0 ? -EPIPE : r;
                }
                total += put;
        } while (!t->out);
        s->writable = !t->out;
        return (ssize_t)total;
}

static int tls_finish(struct stream *s) {
        struct tls_stream *t = tls_of(s);
        int r = tls_handshake(s);
        if (r < 0)
                return r;
        if (!t->finishing) {
                t->finishing = true;
                ERR_clear_error();
                if (SSL_shutdown(t->ssl) < 0)
                        ERR_clear_error(); /* an end that cannot be said is still one for the stream below */
        }
        r = flush(t);
        return r == -EAGAIN ? 0 : r; /* it goes out by itself */
}

/* the end */

static void destroy(struct task *task) {
        struct tls_stream *t = link_owner(task, struct tls_stream, destroy);
        free(t->accepting);
        free(t->session_key);
        free(t->out);
        free(t);
}

static void drained(struct tls_stream *t, bool abort) {
        timer_stop(&t->drain);
        link_remove(&t->draining);
        if (abort)
                stream_abort(t->s.below);
        else
                stream_close(t->s.below);
        t->s.below = NULL;
        loop_defer(t->s.loop, &t->destroy);
}

static void on_draining(struct stream *below, void *owner) {
        (void)below;
        struct tls_stream *t = owner;
        int r = flush(t);
        if (r != -EAGAIN)
                drained(t, r < 0);
}

static void on_drain_limit(struct timer *timer) {
        drained(link_owner(timer, struct tls_stream, drain), true);
}

static void tls_close(struct stream *s, bool abort) {
        struct tls_stream *t = tls_of(s);
        if (!abort && t->ready && !t->error && !t->finishing) {
                ERR_clear_error();
                SSL_shutdown(t->ssl);
        }
        /* Without this OpenSSL takes an orderly end for a broken one and makes the session useless. */
        if (t->ready && t->error != -EPROTO)
                SSL_set_shutdown(t->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
        SSL_free(t->ssl);
        ERR_clear_error();
        t->ssl = NULL;
        s->on_ready = NULL;
        if (abort || !t->out) {
                drained(t, abort);
                return;
        }
        t->finishing = false;
        link_append(&t->tls->draining, &t->draining);
        timer_start(&t->drain, DRAIN_NS);
        stream_set_owner(t->s.below, on_draining, t);
}

static const struct stream_ops tls_ops = {
        .name = "tls", .read = tls_read, .write = tls_write, .finish = tls_finish, .close = tls_close
};

/* the beginning */

static bool attach(struct tls_stream *t, SSL_CTX *context) {
        pthread_once(&bio_method_once, make_bio_method);
        t->ssl = SSL_new(context);
        BIO *bio = t->ssl && bio_method ? BIO_new(bio_method) : NULL;
        if (!bio)
                return false;
        BIO_set_data(bio, t);
        BIO_set_init(bio, 1);
        SSL_set_bio(t->ssl, bio, bio);
        return SSL_set_app_data(t->ssl, t) == 1;
}

int tls_stream_new(struct tls *tls, struct stream *below, SSL_CTX *context, struct tls_stream **ret) {
        struct tls_stream *t = alloc_zeroed(sizeof *t);
        if (!t || !attach(t, context)) {
                if (t)
                        SSL_free(t->ssl);
                free(t);
                ERR_clear_error();
                stream_close(below);
                return -ENOMEM;
        }
        t->s = (struct stream){ .ops = &tls_ops,
                                .loop = tls->loop,
                                .fd = below->fd,
                                .readable = true,
                                .closed = below->closed,
                                .below = below };

        t->tls = tls;
        link_init(&t->draining);
        timer_init(&t->drain, tls->loop, on_drain_limit);
        task_init(&t->destroy, destroy);
        stream_set_owner(below, on_below, t);
        *ret = t;
        return 0;
}

int tls_new(struct tls_context *c, struct loop *l, struct tls **ret, struct err *e) {
        struct tls *t = calloc(1, sizeof *t);
        if (t) {
                t->context = c;
                t->loop = l;
                link_init(&t->draining);
                t->sessions = tls_sessions_new();
                t->plain = malloc(TLS_RECORD_BYTES);
        }
        if (!t || !t->sessions || !t->plain) {
                tls_free(t);
                return err_set(e, ENOMEM, "no memory for TLS");
        }
        *ret = t;
        return 0;
}

void tls_free(struct tls *t) {
        if (!t)
                return;
        while (!link_is_empty(&t->draining))
                drained(link_owner(t->draining.next, struct tls_stream, draining), true);
        tls_sessions_free(t->sessions);
        free(t->plain);
        free(t);
}

/* questions */

const char *tls_failure(const struct stream *s) {
        const struct tls_stream *t = link_owner(s, const struct tls_stream, s);
        return t->why ? t->why : "";
}

struct str tls_protocol(const struct stream *s) {
        const struct tls_stream *t = link_owner(s, const struct tls_stream, s);
        const unsigned char *name;
        unsigned n;
        SSL_get0_alpn_selected(t->ssl, &name, &n);
        return str_n(name, n);
}

bool tls_is_resumed(const struct stream *s) {
        const struct tls_stream *t = link_owner(s, const struct tls_stream, s);
        return SSL_session_reused(t->ssl) == 1;
}

bool tls_protocols_next(struct str *list, struct str *ret_name) {
        size_t n = list->n > 0 ? (uint8_t)list->p[0] : 0;
        if (n == 0 || list->n - 1 < n)
                return false;
        *ret_name = str_n(list->p + 1, n);
        *list = str_skip(*list, n + 1);
        return true;
}

bool tls_protocols_contain(struct str list, struct str name) {
        for (struct str one; tls_protocols_next(&list, &one);)
                if (str_eq(one, name))
                        return true;
        return false;
}
