/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a command needed: collected while it runs observed, then written as the smallest policy that would have
 * permitted it.
 *
 * Observed means: every host that is not private can be reached, and is noted. Files stay as the policy has them, and
 * its refusals are noted. So learning reveals no secret file and leaves nothing outside the workspace. A command that
 * cannot go on without one more file takes two runs to learn.
 *
 * Hosts and paths come from the command: they are escaped, and doubtful ones are written as comments, which grant
 * nothing.
 */
#include "base/buf.h"
#include "base/vec.h"
#include "ipc/event.h"
#include "policy/paths/paths.h"

enum learned_kind {
        LEARNED_HOST,
        LEARNED_PRIVATE,
        LEARNED_ADDRESS,
        LEARNED_PAGE,          /* a host whose page was opened in a browser */
        LEARNED_FETCH,         /* "HOST/PATH" */
        LEARNED_FETCH_REFUSED, /* the same; nothing allows it */
        LEARNED_PUSH,          /* "HOST/PATH=REF" */
        LEARNED_GRAPHQL,       /* "HOST:PORT PATH query|mutation FIELD" */
        LEARNED_SSH_GIT,       /* git used ssh */
        LEARNED_SSH_KEY,       /* a fingerprint */
        LEARNED_SSH_HOST,      /* "HOST:PORT": a login by the agent's key */
        LEARNED_SIGN_SSH,      /* a commit or tag was to be signed by a key of ssh's */
        LEARNED_SIGN_GPG,      /* the key */
        LEARNED_TOOL,          /* a bridged tool that was called */
        LEARNED_WRITE,
        LEARNED_READ,
        LEARNED_KINDS
};

struct learned {
        enum learned_kind kind;
        char *target; /* "name:port", a path, or as the kind says */
        char *remark; /* NULL: nothing to say about it */
        unsigned count;
};
struct learn {
        VEC(struct learned) needs;
        bool full; /* there were more than fit */
};
void learn_done(struct learn *learn);

/* Also what the policy of the run judges of it: git, GraphQL, ssh, signatures. */
void learn_connection(struct learn *learn, const struct event *ev);
/* If the policy of the run has tools or a browser: which of them the command used. */
void learn_tool(struct learn *learn, const char *name);
void learn_page(struct learn *learn, const char *host);
/* A file that the policy refused; rule: which refused it, NULL when nothing grants it. */
void learn_file(struct learn *learn, const char *path, bool write, const struct path_rule *rule);
/* The policy file. */
int learn_write(const struct learn *learn, const char *command, struct buf *out);
