/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Questions that wait for a person: one for each host and port, for all connections and gateway workers that wait for
 * it; or one about a command that the classifier escalated. A question lives as long as somebody waits for it.
 */
#include "base/buf.h"
#include "base/emit.h"
#include "base/vec.h"
#include "ipc/event.h"
#include "policy/match/host.h"
#include "policy/match/pattern.h"

#define QUESTIONS_MAX 256
#define QUESTION_SHOWN 4000 /* longest command that a person is asked about: what is not seen is not approved */

/* The command as it would be run, and what the classifier says of it. Not escaped. */
struct question_command {
        char *text; /* NULL: the question is about a host */
        char *segment, *rule, *reason;
};

/* A call of a bridged tool: by which name of the policy, the words as they will be run, and where. */
struct question_call {
        const char *tool, *words, *directory;
};

struct question {
        uint64_t number;
        struct authority target;
        enum event_via via;
        struct question_command command;
        bool page;       /* a page to be opened outside: `push` has its address */
        bool call;       /* of a bridged tool: `push` has its words, as they will be run */
        bool access;     /* what an agent asked for beside hosts: `push` has it, as "read /path" */
        bool of_tool;    /* what the sandbox of a bridged tool asks: `push` has it */
        char *tool;      /* of both: its name in the policy, by which it has its rights */
        bool held;       /* an access that a program waits for, in its call that opens it */
        char *directory; /* of a call: where it will be run */
        char *reason;    /* the asker's own words, or NULL; not escaped */
        char *push;      /* one push to the target, as the gateway describes it; NULL: the question is not about one */
        uint64_t asked_us, expires_us; /* wall clock, to show */
        VEC(uint64_t) waiting;         /* the gateway's ids */
        const char *container;         /* who asks, behind a gateway that is for it; NULL: the sandbox itself */
        bool told;                     /* the terminal and the hooks know of it */
};

struct questions {
        VEC(struct question) list; /* oldest first */
        uint64_t last;
};

/* The question for this target, new or with one more that waits; NULL when there are too many. */
struct question *questions_ask(struct questions *qs, uint64_t waiting_id, const struct authority *target,
                               enum event_via via, uint64_t timeout_ns, bool *ret_new);
/* The question about a command: copies the texts. NULL: without memory, or there are too many. */
struct question *questions_ask_command(struct questions *qs, const struct question_command *command,
                                       uint64_t timeout_ns);
/* The asker's own words, unless there are some: the first ones are what a person has read. */
void question_explain(struct question *question, struct str words);
/* The question about one push: never shared with another. Copies the text. */
struct question *questions_ask_push(struct questions *qs, uint64_t waiting_id, const struct authority *target,
                                    enum event_via via, const char *push, uint64_t timeout_ns);
/* Nobody waits under this id any more, of the supervisor's own (pages, calls, tools, paths) or of the gateway's.
 * Returns the number of a question that is gone with it, or 0. */
uint64_t questions_gone(struct questions *qs, uint64_t waiting_id, bool own);
/* The gateway has no part in it. */
bool question_is_own(const struct question *question);
/* Another question about the very same call, or NULL. */
struct question *questions_same_call(struct questions *qs, const struct question_call *call);
struct question *questions_find(struct questions *qs, uint64_t number);
/* The first one that the pattern covers, or NULL. */
struct question *questions_covered(struct questions *qs, const struct pattern *pattern);
void questions_remove(struct questions *qs, uint64_t number);
void questions_done(struct questions *qs);

/* "host", "command", "push", "page", "call" or "access". */
const char *question_kind(const struct question *question);
/* As an object of the protocol. */
void question_emit(struct emit *json, const struct question *question);
