/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Git over HTTP (gitprotocol-http) and Git LFS, seen from a request's first line: what is asked of which repository.
 *
 *     GET  PATH/info/refs?service=git-upload-pack | git-receive-pack     what there is (protocols 0, 1 and 2)
 *     GET  PATH/info/refs, PATH/objects/..., PATH/HEAD                   the same, from a server that knows no git
 *     POST PATH/git-upload-pack, PATH/git-upload-archive                 fetch
 *     POST PATH/git-receive-pack                                         push: its head is judged
 * (bridge/receive_pack.h) POST PATH/info/lfs/objects/batch                                   LFS: its body is judged
 * (bridge/lfs_batch.h)
 *     *    PATH/info/lfs/..., PATH/gitlab-lfs/objects/...                LFS: objects and locks
 *
 * What is meant for git but is written in any other way (escapes, other capitals, empty or dotted parts, more in the
 * query) is told apart from what is not git's at all: servers may take it for git's.
 */
#include "policy/git/git_verdict.h"

enum git_http_kind {
        GIT_HTTP_NONE,         /* nothing of git's */
        GIT_HTTP_BAD,          /* meant for git, but not in a form that can be judged */
        GIT_HTTP_SERVICE,      /* the verdict on the service is all there is to judge */
        GIT_HTTP_RECEIVE_PACK, /* the body's head must be read */
        GIT_HTTP_LFS_BATCH,    /* the body must be read */
        GIT_HTTP_FILE,         /* a file of a repository, if an entry names it; else nothing of git's */
        GIT_HTTP_KINDS
};

struct git_http {
        enum git_http_kind kind;
        enum git_right right;
        bool advertise;      /* what there is, before a fetch or a push */
        struct str path;     /* of the repository, canonical */
        const char *service; /* for people and records: "upload-pack", "lfs", ... */
};

/* target: path and query, as they will be sent. */
void git_http_recognise(struct str method, struct str target, struct git_http *ret);
