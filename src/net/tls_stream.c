/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenSSL reads and writes through a BIO of our own, which asks the stream below. So bytes that were looked at and
 * pushed back are replayed, whatever lies below works, and every wait is that stream's.
 *
 * Writing through the BIO never blocks: bytes that the stream below does not take are queued in `out`, and nothing more
 * is encrypted until they are sent. So OpenSSL never asks for the same bytes once more, a write that was taken stays
 * taken, and what waits is one record (or a flight of the handshake).
 *
 * OpenSSL's error queue belongs to the thread, and clearing it before every record would cost too much. Code that may
 * leave errors in it clears it, so it is empty whenever bytes are read or written.
 *
 * Trust: the peer is hostile on either side. Renegotiation and compression do not exist here, an end without
 * close_notify is an error and not an end, and a failed stream stays failed.
 */
#include "net/tls_internal.h"

#include "base/alloc.h"
#include "base/bounds.h"
#include "base/clock.h"
#include "base/secrets/secret.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>

#define DRAIN_NS (5 * NS_PER_SECOND)
enum { OUT_MAX = 65536 }; /* a flight of the handshake, which is larger than a record */

/* the BIO */

static int keep_out(struct tls_stream *stream, struct str bytes) {
        size_t held = stream->out_n - stream->out_at;
        if (bytes.n > OUT_MAX - held)
                return -ENOBUFS;

        char *out = malloc(held + bytes.n);
        if (!out)
                return -ENOMEM;
        if (stream->out)
                memcpy(out, stream->out + stream->out_at, held);

        memcpy(out + held, bytes.p, bytes.n);
        free(stream->out);
        stream->out = out;
        stream->out_at = 0;
        stream->out_n = held + bytes.n;

        return 0;
}

static void drop_out(struct tls_stream *stream) {
        free(stream->out);
        stream->out = NULL;
        stream->out_at = stream->out_n = 0;
}

/* 0 when nothing waits any more, -EAGAIN, or the error of the stream below. */
static int stream_flush(struct tls_stream *stream) {
        while (stream->out) {
                ssize_t put =
                    stream_write(stream->s.below, str_n(stream->out + stream->out_at, stream->out_n - stream->out_at));
                if (put < 0)
                        return (int)put;

                stream->out_at += (size_t)put;
                if (stream->out_at == stream->out_n)
                        drop_out(stream);
        }

        if (stream->finishing && !stream->ended_below) {
                stream->ended_below = true;
                return stream_finish(stream->s.below);
        }

        return 0;
}

static int bio_write(BIO *bio, const char *p, int n) {
        struct tls_stream *stream = BIO_get_data(bio);
        struct str bytes = str_n(p, (size_t)n);

        if (!stream->out) {
                ssize_t put = stream_write(stream->s.below, bytes);
                if (put < 0 && put != -EAGAIN) {
                        stream->below_error = (int)put;
                        return -1;
                }

                if (put > 0)
                        bytes = str_skip(bytes, (size_t)put);
        }

        int r = 0;

        if (bytes.n > 0)
                r = keep_out(stream, bytes);

        if (r < 0)
                stream->below_error = r;

        if (r < 0)
                return -1;

        return n;
}

static int bio_read(BIO *bio, char *p, int n) {
        struct tls_stream *stream = BIO_get_data(bio);

        BIO_clear_retry_flags(bio);
        ssize_t got = stream_read(stream->s.below, p, (size_t)n);
        if (got == -EAGAIN)
                BIO_set_retry_read(bio);
        else if (got < 0)
                stream->below_error = (int)got;
        else if (got == 0)
                BIO_set_flags(bio, BIO_FLAGS_IN_EOF);

        if (got < 0)
                return -1;

        return (int)got;
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

static int stream_fail(struct tls_stream *stream, int error, const char *why) {
        stream->error = error;
        stream->why = why;
        return error;
}

/* After an operation that did not succeed: -EAGAIN, 0 at the end of the stream, or why it is over. */
static int stream_result(struct tls_stream *stream) {
        const char *why = NULL;

        if (SSL_want_read(stream->ssl) && BIO_should_read(SSL_get_rbio(stream->ssl))) { /* whatever is in the queue */
                stream->s.readable = false;
                return -EAGAIN;
        }

        switch (SSL_get_error(stream->ssl, 0)) {
        case SSL_ERROR_ZERO_RETURN:
                return 0;
        case SSL_ERROR_SYSCALL:
                ERR_clear_error();
                if (stream->below_error)
                        return stream_fail(stream, stream->below_error, "The connection broke.");

                stream->cut = true;
                return stream_fail(stream, -ECONNRESET, "The connection was closed.");
        default:
                if (stream->below_error) {
                        ERR_clear_error();
                        return stream_fail(stream, stream->below_error, "The connection broke.");
                }
                int error = tls_explain(stream, &why);
                stream->cut = error == -ECONNRESET;
                if (stream->session_key && error != -ECONNRESET)
                        tls_sessions_drop(stream->tls->sessions, str_n(stream->session_key, stream->session_key_n));

                return stream_fail(stream, error, why);
        }
}

int tls_handshake(struct stream *stream) {
        struct tls_stream *tls_stream = tls_of(stream);
        if (tls_stream->error)
                return tls_stream->error;
        if (tls_stream->ready)
                return 0;

        ERR_clear_error();
        int done = SSL_do_handshake(tls_stream->ssl);
        int flushed = tls_stream->out ? stream_flush(tls_stream) : 0; /* also an alert that says why not */
        if (done == 1 && (flushed == 0 || flushed == -EAGAIN)) {
                ERR_clear_error();
                tls_stream->ready = true;
                tls_stream->s.writable = !tls_stream->out;
                free(tls_stream->accepting);
                tls_stream->accepting = NULL;

                return 0;
        }

        if (done == 1)
                return stream_fail(tls_stream, flushed, "The connection broke.");

        int r = stream_result(tls_stream);
        ERR_clear_error(); /* also when it goes on later: others have their turn in between */
        if (r == 0)
                r = stream_fail(tls_stream, -ECONNRESET, "The connection was closed during the TLS handshake.");

        return r;
}

/* the stream */

static void stream_tell(struct tls_stream *stream) {
        if (stream->s.on_ready)
                stream->s.on_ready(&stream->s, stream->s.owner);
}

static void on_below(struct stream *below, void *owner) {
        struct tls_stream *stream = owner;
        int r = 0;

        if (stream->out && below->writable)
                r = stream_flush(stream);

        if (r < 0 && r != -EAGAIN && !stream->error)
                stream_fail(stream, r, "The connection broke.");

        stream->s.readable |= below->readable || stream->error;
        stream->s.writable = (below->writable && !stream->out) || stream->error;
        stream->s.closed |= below->closed;
        stream_tell(stream);
}

static ssize_t tls_read(struct stream *stream, void *p, size_t n) {
        struct tls_stream *tls_stream = tls_of(stream);
        int r = tls_handshake(stream);
        if (r < 0)
                return r;
        if (!stream->readable)
                return -EAGAIN;

        size_t total = 0;
        while (total < n) {
                size_t got;

                if (SSL_read_ex(tls_stream->ssl, (char *)p + total, n - total, &got)) {
                        total += got;

                        /* Nothing here and nothing below: the read that would only say so is saved. */
                        if (!tls_stream->s.below->readable && !tls_stream->s.below->pushback &&
                            !SSL_has_pending(tls_stream->ssl)) {
                                stream->readable = false;
                                break;
                        }
                        continue;
                }

                r = stream_result(tls_stream);
                if (total == 0)
                        return r;
                break; /* what was read comes first; an end or an error is found again */
        }

        return (ssize_t)total;
}

/* Up to a record's worth of the parts from `skip` on: in place when it lies in one part, else put together. */
static struct str next_record(struct tls *tls, const struct iovec *parts, int n_parts, size_t skip) {
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
                        return str_n(p, min_of(left, TLS_RECORD_BYTES));

                size_t take = left < TLS_RECORD_BYTES - n ? left : TLS_RECORD_BYTES - n;
                memcpy(tls->plain + n, p, take);
                n += take;
        }

        return str_n(tls->plain, n);
}

static ssize_t tls_write(struct stream *stream, const struct iovec *parts, int n_parts) {
        struct tls_stream *tls_stream = tls_of(stream);
        int r = tls_handshake(stream);
        if (r == 0 && tls_stream->out)
                r = stream_flush(tls_stream);
        if (r == -EAGAIN)
                stream->writable = false;
        if (r < 0) {
                if (r == -EAGAIN || tls_stream->error)
                        return r;
                return stream_fail(tls_stream, r, "The connection broke.");
        }
        if (tls_stream->finishing)
                return -EPIPE;

        size_t total = 0;

        do {
                struct str record = next_record(tls_stream->tls, parts, n_parts, total);
                size_t put;

                if (record.n == 0)
                        break;

                int written = SSL_write_ex(tls_stream->ssl, record.p, record.n, &put);
                if (record.p == tls_stream->tls->plain)
                        secret_wipe(tls_stream->tls->plain, record.n); /* a request's head, with its credentials */

                if (!written) {
                        r = stream_result(tls_stream);
                        if (total > 0)
                                return (ssize_t)total;

                        if (r == 0)
                                return -EPIPE;

                        return r;
                }

                total += put;
        } while (!tls_stream->out);

        stream->writable = !tls_stream->out;
        return (ssize_t)total;
}

static int tls_finish(struct stream *stream) {
        struct tls_stream *tls_stream = tls_of(stream);
        int r = tls_handshake(stream);
        if (r < 0)
                return r;

        if (!tls_stream->finishing) {
                tls_stream->finishing = true;
                ERR_clear_error();
                if (SSL_shutdown(tls_stream->ssl) < 0)
                        ERR_clear_error(); /* an end that cannot be said is still one for the stream below */

                /* The kernel reports a reset once. Who reads next would see an ordinary end. */
                if (tls_stream->below_error)
                        return tls_stream->below_error;
        }

        r = stream_flush(tls_stream);
        stream->writable = !tls_stream->out;
        if (r == -EAGAIN)
                return 0; /* it goes out by itself */

        return r;
}

/* the end */

static void stream_destroy(struct task *task) {
        struct tls_stream *stream = link_owner(task, struct tls_stream, destroy);
        free(stream->accepting);
        free(stream->session_key);
        free(stream->out);
        free(stream);
}

static void stream_drained(struct tls_stream *stream, bool abort) {
        timer_stop(&stream->drain);
        link_remove(&stream->draining);

        if (abort)
                stream_abort(stream->s.below);
        else
                stream_close(stream->s.below);

        stream->s.below = NULL;
        loop_defer(stream->s.loop, &stream->destroy);
}

static void on_draining(struct stream *below, void *owner) {
        (void)below;
        struct tls_stream *stream = owner;
        int r = stream_flush(stream);
        if (r != -EAGAIN)
                stream_drained(stream, r < 0);
}

static void on_drain_limit(struct timer *timer) {
        stream_drained(link_owner(timer, struct tls_stream, drain), true);
}

static void tls_close(struct stream *stream, bool abort) {
        struct tls_stream *tls_stream = tls_of(stream);
        if (!abort && tls_stream->ready && !tls_stream->error && !tls_stream->finishing) {
                ERR_clear_error();
                SSL_shutdown(tls_stream->ssl);
        }

        /* Without this OpenSSL takes an orderly end for a broken one and makes the session useless. */
        if (tls_stream->ready && tls_stream->error != -EPROTO)
                SSL_set_shutdown(tls_stream->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);

        SSL_free(tls_stream->ssl);
        ERR_clear_error();
        tls_stream->ssl = NULL;
        stream->on_ready = NULL;

        if (abort || !tls_stream->out) {
                stream_drained(tls_stream, abort);
                return;
        }

        tls_stream->finishing = false;
        link_append(&tls_stream->tls->draining, &tls_stream->draining);
        timer_start(&tls_stream->drain, DRAIN_NS);
        stream_set_owner(tls_stream->s.below, on_draining, tls_stream);
}

static const struct stream_ops tls_ops = {
        .name = "tls", .read = tls_read, .write = tls_write, .finish = tls_finish, .close = tls_close
};

/* the beginning */

static bool stream_attach(struct tls_stream *stream, SSL_CTX *context) {
        pthread_once(&bio_method_once, make_bio_method);
        stream->ssl = SSL_new(context);
        BIO *bio = stream->ssl && bio_method ? BIO_new(bio_method) : NULL;
        if (!bio)
                return false;

        BIO_set_data(bio, stream);
        BIO_set_init(bio, 1);
        SSL_set_bio(stream->ssl, bio, bio);

        return SSL_set_app_data(stream->ssl, stream) == 1;
}

int tls_stream_new(struct tls *tls, struct stream *below, SSL_CTX *context, struct tls_stream **ret) {
        struct tls_stream *stream = alloc_zeroed(sizeof *stream);
        if (!stream || !stream_attach(stream, context)) {
                if (stream)
                        SSL_free(stream->ssl);

                free(stream);
                ERR_clear_error();
                stream_close(below);
                return -ENOMEM;
        }

        stream->s = (struct stream){ .ops = &tls_ops,
                                     .loop = tls->loop,
                                     .fd = below->fd,
                                     .readable = true,
                                     .closed = below->closed,
                                     .below = below };

        stream->tls = tls;
        link_init(&stream->draining);
        timer_init(&stream->drain, tls->loop, on_drain_limit);
        task_init(&stream->destroy, stream_destroy);
        stream_set_owner(below, on_below, stream);
        *ret = stream;

        return 0;
}

int tls_new(struct tls_context *context, struct loop *loop, struct tls **ret, struct err *err) {
        struct tls *tls = calloc(1, sizeof *tls);
        if (tls) {
                tls->context = context;
                tls->loop = loop;
                link_init(&tls->draining);
                tls->sessions = tls_sessions_new();
                tls->plain = malloc(TLS_RECORD_BYTES);
        }

        if (!tls || !tls->sessions || !tls->plain) {
                tls_free(tls);
                return err_set(err, ENOMEM, "no memory for TLS");
        }

        *ret = tls;
        return 0;
}

void tls_free(struct tls *tls) {
        if (!tls)
                return;
        while (!link_is_empty(&tls->draining))
                stream_drained(link_owner(tls->draining.next, struct tls_stream, draining), true);
        tls_sessions_free(tls->sessions);
        free(tls->plain);
        free(tls);
}

/* questions */

bool tls_was_cut(const struct stream *stream) {
        return tls_of((struct stream *)stream)->cut;
}

const char *tls_failure(const struct stream *stream) {
        const struct tls_stream *tls_stream = link_owner(stream, const struct tls_stream, s);
        return text_or(tls_stream->why, "");
}

struct str tls_protocol(const struct stream *stream) {
        const struct tls_stream *tls_stream = link_owner(stream, const struct tls_stream, s);
        const unsigned char *name;
        unsigned n;
        SSL_get0_alpn_selected(tls_stream->ssl, &name, &n);
        return str_n(name, n);
}

bool tls_is_resumed(const struct stream *stream) {
        const struct tls_stream *tls_stream = link_owner(stream, const struct tls_stream, s);
        return SSL_session_reused(tls_stream->ssl) == 1;
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
