/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A byte stream that can be stacked: a socket at the bottom, TLS (net/tls.h) above it. It has one owner at a time. The
 * owner is notified when it may read or write again, and then tries until -EAGAIN. Readiness is remembered between
 * edges, so a stream that changes hands (a session gives its client to a relay) loses nothing: the new owner just
 * tries.
 *
 * Streams are freed in a deferred pass; stream_close() is final for the caller at once: no callback comes after it.
 */
#include "base/str.h"
#include "net/loop.h"

#include <sys/types.h>
#include <sys/uio.h>

struct stream;

struct stream_ops {
        const char *name;
        /* Bytes read, 0 at the end of the stream, -EAGAIN, or another negative errno. */
        ssize_t (*read)(struct stream *s, void *p, size_t n);
        /* Bytes taken (may be fewer), -EAGAIN, or another negative errno (-EPIPE, -ECONNRESET). */
        ssize_t (*write)(struct stream *s, const struct iovec *parts, int n_parts);
        /* Sends the end of the stream; reading goes on. 0, -EAGAIN (call again when writable) or an error. */
        int (*finish)(struct stream *s);
        /* Releases everything, this struct included. With abort set the peer sees a reset, not a clean end. */
        void (*close)(struct stream *s, bool abort);
};

/* Reading or writing may go on: try reading and writing. May close the stream. */
typedef void stream_fn(struct stream *s, void *owner);

struct stream {
        const struct stream_ops *ops;
        struct loop *loop;
        stream_fn *on_ready;
        void *owner;
        int fd;                  /* of the socket below, for getsockopt, splice and such */
        bool readable, writable; /* until -EAGAIN says otherwise */
        bool closed;             /* the peer's end was seen: a short read does not mean drained */
        bool plain; /* bytes on fd are the stream's bytes: splice may be used when nothing is pushed back */
        struct stream_pushback *pushback;
        struct stream *below; /* what it is stacked on; NULL for a socket */
};

/* Takes the connected, non-blocking socket, also when it fails. For an accepted one the listener's TCP_NODELAY holds.
 */
int stream_socket_new(struct loop *loop, int fd, struct stream **ret);
/* For a socket that is still connecting: neither readable nor writable until told. TCP_NODELAY is set. */
int stream_socket_connecting(struct loop *loop, int fd, struct stream **ret);

static inline void stream_set_owner(struct stream *stream, stream_fn *fn, void *owner) {
        stream->on_ready = fn;
        stream->owner = owner;
}

ssize_t stream_read(struct stream *stream, void *p, size_t n);
ssize_t stream_writev(struct stream *stream, const struct iovec *parts, int n_parts);
static inline ssize_t stream_write(struct stream *stream, struct str bytes) {
        struct iovec part = { (void *)bytes.p, bytes.n };
        return stream_writev(stream, &part, 1);
}
static inline int stream_finish(struct stream *stream) {
        return stream->ops->finish(stream);
}
/* Gives bytes back: they are the next that stream_read() returns. 0 or -ENOMEM. */
int stream_unread(struct stream *stream, struct str bytes);
static inline bool stream_has_pushback(const struct stream *stream) {
        return stream->pushback != NULL;
}
/* Whether the peer has sent its end or reset the connection, however much of what it sent before is still unread. */
bool stream_peer_left(const struct stream *stream);
/* The next read asks the socket itself, whatever was remembered of it. */
void stream_assume_readable(struct stream *stream);
/* Accepts NULL. */
void stream_close(struct stream *stream);
void stream_abort(struct stream *stream);
