/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * AWS Signature Version 4: finding a signature in a request (header or presigned URL), deciding whether it can be made
 * anew, and making it, with a key that the vault derived for one day, region and service. Pure. Theory in sigv4.c.
 */
#include "base/buf.h"
#include "base/secrets/digest.h"
#include "gateway/creds/request_view.h"

#define SIGV4_SIGNATURE_HEX 64
#define SIGV4_SKEW_S 900            /* what AWS tolerates */
#define SIGV4_EXPIRES_MAX_S 604800u /* of a presigned URL */
#define SIGV4_SIGNED_MAX 64         /* headers under a signature */

enum sigv4_problem {
        SIGV4_OK,
        SIGV4_MALFORMED, /* not as the specification writes it */
        SIGV4_ALGORITHM, /* SigV4a and others */
        SIGV4_DATE,      /* no usable X-Amz-Date, or another day than the scope's */
        SIGV4_SKEW,      /* too far from now, or expired */
        SIGV4_PAYLOAD,   /* a way to sign the body that is not supported: event streams */
        SIGV4_HEADERS,   /* host is not signed, or a signed header is there that ends here */
        SIGV4_TOO_LARGE, /* the body would have to be kept whole, and is too large for it */
        SIGV4_PROBLEMS
};
const char *sigv4_problem_text(uint8_t problem);

enum sigv4_payload {
        PAYLOAD_GIVEN,          /* X-Amz-Content-Sha256 says what goes under the signature; the body passes as it is */
        PAYLOAD_BODY,           /* no such header: the hash of the body, which must be there before its head */
        PAYLOAD_UNSIGNED,       /* presigned URLs of S3 */
        PAYLOAD_CHUNKS,         /* STREAMING-AWS4-HMAC-SHA256-PAYLOAD: gateway/creds/sigv4_stream.h */
        PAYLOAD_CHUNKS_TRAILER, /* the same with a signed trailer */
};

struct sigv4 {
        uint8_t problem; /* enum sigv4_problem */
        uint8_t payload; /* enum sigv4_payload */
        bool presigned;
        uint32_t authorization;                   /* index of the header, unless presigned */
        struct str key_id, date, region, service; /* of the scope; slices of scope[] when presigned */
        struct str signed_headers;
        struct str timestamp; /* "20130524T000000Z" */
        struct str hash;      /* for PAYLOAD_GIVEN and the streams: the text under the signature */
        /* room for what is decoded; not cleared */
        char scope[512]; /* of a presigned URL */
        char names[1024];
};

/* What the vault gave for this scope. */
struct sigv4_key {
        struct str key_id, token; /* token "": none */
        unsigned char key[DIGEST_BYTES];
};

static inline void sigv4_clear(struct sigv4 *sigv4) {
        memset(sigv4, 0, offsetof(struct sigv4, scope));
}
/* Whether the request has a signature, by any key: s->key_id. Two, or one that is half there, are none. */
bool sigv4_find(const struct request_view *view, struct sigv4 *sigv4);
/* The rest of it. False: it cannot be made anew, s->problem says why. */
bool sigv4_check(const struct request_view *view, struct sigv4 *sigv4);

/* Parts of the request that will be written anew: Authorization and X-Amz-Security-Token. */
bool sigv4_owns_header(const struct sigv4 *sigv4, struct str name);
/* One "name=value" of the target's query. */
bool sigv4_owns_parameter(const struct sigv4 *sigv4, struct str parameter);

/*
 * Signs the request that will be sent: `view` has its final headers; owned ones are ignored. Headers that the client
 * signed and that end at this hop are dropped from the list. body_hash: hex, for PAYLOAD_BODY. Appends to `out`
 *
 *   presigned   the new target
 *   else        the new value of Authorization; the caller also sends X-Amz-Security-Token: key->token, if any
 *
 * ret_signature (hex, not terminated) is the seed of a stream. 0, -EMSGSIZE, -ENOMEM, -E2BIG.
 */
int sigv4_sign(const struct sigv4 *sigv4, const struct request_view *view, const struct sigv4_key *key,
               struct str body_hash, struct buf *out, char ret_signature[static SIGV4_SIGNATURE_HEX]);

/* sigv4_canonical.c, for sigv4.c and tests: the parts of a canonical request. s3: its own rules for paths. */
int sigv4_canonical_path(struct str path, bool s3, struct buf *out);
int sigv4_canonical_query(struct str query, struct buf *out);
/* Value of one signed header, "name:value\n", all of that name joined. */
int sigv4_canonical_header(const struct request_view *view, struct str name, struct buf *out);
int sigv4_encode(struct str text, bool keep_slash, struct buf *out);
