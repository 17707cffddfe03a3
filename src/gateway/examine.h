/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A request that is judged by more than method and path: one of git's or of LFS (bridge/git_http.h), or one to which a
 * GraphQL rule applies. What must be seen of its body is fed in before a byte of the request leaves; then it is judged
 * as often as policies change. Knows no protocol version: http_examine.c and h2_examine.c bring the bytes.
 *
 *     examine_request() -> the verdict so far; *ret set: something is to be kept or seen
 *     examine_feed() while examine_is_open(), then examine_verdict()
 */
#include "bridge/git_http.h"
#include "bridge/graphql_request.h"
#include "bridge/lfs_batch.h"
#include "bridge/receive_pack.h"
#include "gateway/wire/decode.h"
#include "gateway/worker.h"

/* More than any part of a body that is kept: the list of refs of a push, with what its framing adds. */
#define EXAMINE_MAX (RECEIVE_PACK_HEAD_MAX + (256u << 10))

struct examine_head {              /* as it will be sent */
        struct str method, target; /* target: path and query */
        struct str content_type;
        unsigned content_types; /* how many there are */
        uint8_t coding;         /* enum coding, of the body */
        bool has_body;
};

enum examine_kind { EXAMINE_SERVICE, EXAMINE_PUSH, EXAMINE_LFS, EXAMINE_GRAPHQL };

struct examine {
        uint8_t kind; /* enum examine_kind */
        bool open;    /* its body must be seen */
        bool known;   /* it was */
        bool coded, bad_type;
        struct authority target;
        char *method, *where; /* copies; `git` and the texts below point into them */
        struct str path, query, content_type;
        struct git_http git;
        struct buf body; /* decoded, as far as it must be seen */
        struct decoder *decoder;
        struct receive_pack_scan scan;
        struct receive_pack head;
        struct lfs_batch *lfs;
        struct graphql_call graphql;
        struct buf act;    /* for the record: what it would do (ipc/event.h) */
        struct buf detail; /* what is wrong with it, for people */
        bool ask;          /* a person must agree */
        bool asked;        /* and did */
};

/* The verdict on a request to a target that is allowed (granted). *ret: NULL when there is nothing more to it than
 * verdict_request() says. why: text for people, or NULL. -ENOMEM. */
int examine_request(const struct snapshot *snapshot, const struct authority *target, const struct examine_head *head,
                    struct verdict granted, struct examine **ret, struct verdict *ret_verdict);
/* The same for git over ssh: the service at a path that is canonical; target: as the policy names it. */
int examine_ssh(const struct authority *target, struct str path, enum git_right right, const char *service,
                struct examine **ret);
void examine_free(struct examine *examine);

static inline bool examine_is_open(const struct examine *examine) {
        return examine && examine->open && !examine->known;
}
/* Bytes of the body, and whether they are its last. 1: enough was seen; 0: more is needed; -EBADMSG: it is not as it
 * must be, `detail` says why; -ENOMEM. */
int examine_feed(struct examine *examine, struct str bytes, bool end);
/* By this policy, with what was seen so far. */
struct verdict examine_verdict(struct examine *examine, const struct snapshot *snapshot, struct verdict granted);
/* Of a request that was not examined, since an earlier policy did not ask for it: this one does. */
bool examine_was_missed(struct str method, struct str path, struct verdict granted, struct verdict verdict);
/* For a body that examine_feed() refused. */
struct verdict examine_malformed(const struct examine *examine);
/* NULL: nothing to add to the reason. */
const char *examine_why(struct examine *examine);

/* A refusal in git's own form. -EOPNOTSUPP: there is none for this request. */
int examine_answer(struct examine *examine, const struct snapshot *snapshot, const struct verdict *verdict,
                   struct buf *out);
#define EXAMINE_ANSWER_MAX (4u << 20)
#define EXAMINE_ANSWER_TYPE "application/x-git-receive-pack-result"
/* What a person is asked, one line. It fails where not all of it fits: then nobody is asked. */
int examine_question(const struct examine *examine, struct buf *out);
