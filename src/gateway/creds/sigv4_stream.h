/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Bodies of S3 that are signed chunk by chunk (STREAMING-AWS4-HMAC-SHA256-PAYLOAD, with or without a signed trailer).
 * Each chunk's signature stands before its data and covers the signature before it, so a chunk is kept until it is
 * whole and then passed on with a new signature. Lengths do not change.
 */
#include "gateway/creds/sigv4.h"

#define SIGV4_CHUNK_MAX (2u << 20)
#define SIGV4_TRAILER_MAX 4096

struct sigv4_stream {
        uint8_t state;
        bool trailer;
        size_t size; /* of the chunk under way */
        char previous[SIGV4_SIGNATURE_HEX];
        char timestamp[16];
        char scope[256];
        size_t scope_n;
        unsigned char key[DIGEST_BYTES];
        struct buf in; /* the chunk under way */
};

/* `seed`: the signature of the head. -EINVAL: not a request of this kind. */
int sigv4_stream_init(struct sigv4_stream *stream, const struct sigv4 *request, const struct sigv4_key *key,
                      const char seed[static SIGV4_SIGNATURE_HEX]);
void sigv4_stream_done(struct sigv4_stream *stream);
/* Appends what can leave. -EBADMSG: not framed as it must be, -E2BIG: a chunk is too large, -ENOMEM, -EMSGSIZE. */
int sigv4_stream_feed(struct sigv4_stream *stream, struct str bytes, struct buf *out);
/* The body is over: whether it was whole. */
bool sigv4_stream_is_whole(const struct sigv4_stream *stream);
