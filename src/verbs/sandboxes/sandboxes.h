/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Running sandboxes as the verbs see them: found by their control sockets, asked, told. */
#include "base/buf.h"
#include "control/client.h"
#include "store/state.h"

struct sandboxes_list {
        VEC(struct control_client) clients;
        VEC(char *) silent; /* ids that are there but did not reply: their supervisor is stopped, or busy */
};
/* Connects to the one that is named (verbs/sandboxes/sandbox_names.h), or to all that run for NULL; sockets of dead
 * ones are removed.
 */
int sandboxes_open(const char *prefix, const char *name, struct sandboxes_list *ret, struct err *err);
void sandboxes_done(struct sandboxes_list *list);

/* A table for people or a JSON array: what runs, what waits for an answer. */
int sandboxes_ps(bool json, struct buf *out, struct err *err);
int sandboxes_pending(const char *prefix, bool json, struct buf *out, struct err *err);

/* One request without fields: pause, resume, kill, reload. */
int sandboxes_order(const char *prefix, enum control_do what, char ret_id[static CONTROL_ID_MAX], struct err *err);

/* Follows events until all named sandboxes have ended (with no name: for ever). A negative return of on_line ends it.
 */
struct events_request {
        const char *prefix; /* or the name of a guest; NULL: all, also those that come later */
        bool follow, json;
        int (*on_line)(void *arg, struct str line);
        void *arg;
};
int sandboxes_events(const struct events_request *request, struct err *err);

/* `bailey allow` and `bailey deny`. */
struct decide_request {
        bool deny, forget;
        bool page;           /* the target is a sandbox with a page that waits */
        bool call;           /* the target is a sandbox that waits with a call of a bridged tool */
        bool push;           /* the target is a sandbox with a push that waits */
        bool path, write;    /* the target is a path, to be read or written */
        bool access;         /* or one whose agent asks for something */
        bool command;        /* the target is a sandbox whose command waits; with `forget` the text of a command */
        const char *target;  /* HOST, HOST:PORT, pattern or @group */
        const char *sandbox; /* the beginning of an id, or the name of a guest; NULL: those that it concerns */
        enum control_scope scope;
        const char *workspace; /* NULL: the current directory */
        bool guest;            /* the workspace is a guest's home, and only that guest is concerned */
        const char *whom;      /* not NULL: the workspace stands for this container, and only it is concerned */
};
int sandboxes_decide(const struct decide_request *request, struct buf *out, struct err *err);
