/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a command needed: collected while it runs observed, then written as the smallest policy that would have
 * permitted it.
 *
 * Observed means: every host that is not private can be reached, and is noted; files stay as the policy has them, and
 * what it refuses is noted. So learning gives away no secret file and leaves nothing outside the workspace, and a
 * command that cannot go on without one more file is learned in two runs.
 *
 * Hosts and paths come from the command: they are escaped, and what a person should look at twice is written as a
 * comment that grants nothing.
 */
#include "base/buf.h"
#include "base/vec.h"
#include "ipc/event.h"
#include "policy/paths.h"

enum learned_kind {
        LEARNED_HOST,
        LEARNED_PRIVATE,
        LEARNED_ADDRESS,
        LEARNED_PAGE,  /* a host whose page was opened in a browser */
        LEARNED_FETCH, /* "HOST/PATH" */
        LEARNED_PUSH,  /* "HOST/PATH=REF" */
        LEARNED_TOOL,  /* a bridged tool that was called */
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
void learn_done(struct learn *l);

void learn_connection(struct learn *l, const struct event *ev);
/* Where the policy of the run has git, tools or a browser: what was used of them. */
void learn_tool(struct learn *l, const char *name);
void learn_page(struct learn *l, const char *host);
/* A file that the policy refused; rule: which refused it, NULL when nothing grants it. */
void learn_file(struct learn *l, const char *path, bool write, const struct path_rule *rule);
/* The policy file. */
int learn_write(const struct learn *l, const char *command, struct buf *out);
