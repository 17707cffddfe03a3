/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Requests of git and GraphQL in HTTP/2 streams, for the h2_*.c files only. Theory in h2_examine.c. */
#include "gateway/examine.h"
#include "gateway/h2/h2_internal.h"

#define H2_DRAIN_MAX (UINT64_C(1) << 30) /* of a refused push: what git still sends before it reads the answer */

struct h2_examine {
        struct examine *examine;
        struct h2_stream *stream;
        struct h2_fields *fields; /* of the request, while it waits */
        struct gate_call hold;    /* while a person is asked */
        struct buf raw;           /* what came of the body: sent first when the request leaves */
        size_t reserved;          /* of the session's H2_KEPT_MAX */
        uint64_t drained;
        bool holding, refused;
};

/* The verdict on a request whose target is allowed, from the fields that the client's side has just received. */
struct verdict h2_examine_begin(struct h2_stream *stream, struct verdict granted);
/* The same again, with what was seen of it since. */
struct verdict h2_examine_again(struct h2_stream *stream, struct verdict granted);
/* Before it leaves. True: not now: its body is awaited, a person is asked, or it was refused. */
bool h2_examine_takes(struct h2_stream *stream);
/* H2_EXAMINING and H2_DRAINING: bytes of the body, and its end. */
void h2_examine_add(struct h2_stream *stream, struct str bytes);
void h2_examine_ended(struct h2_stream *stream);
/* A refusal in git's own form is under way; false: there is none. */
bool h2_examine_refuse(struct h2_stream *stream);
/* Nobody is asked any more about a request that was answered. */
void h2_examine_withdraw(struct h2_stream *stream);
void h2_examine_free(struct h2_stream *stream);
/* What git's request it is; NULL: none. */
static inline const struct git_http *h2_examine_git(const struct h2_stream *stream) {
        bool git = stream->examine && stream->examine->examine->kind != EXAMINE_GRAPHQL;
        return git ? &stream->examine->examine->git : NULL;
}
