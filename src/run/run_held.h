/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Opens that wait for a person (filesystem.ask; sandbox/linux/broker/broker_asks.h is the side inside). The broker has
 * no more standing than the command: what it says of a path is judged here, on the host, as for `bailey allow --path`
 * (run/run_grants.h). What that refuses is answered with no at once and without a question: denied and protected paths,
 * links on the way, what is not there or neither a file nor a directory, and what was refused before.
 *
 * There is one question for each path and each kind of access, for all opens that wait for it. The answers:
 *
 *     once        each open that waits gets a descriptor of the file; nothing is mounted, and the next open asks again.
 *                 A directory is more than its descriptor, since names below it are looked up later: it is opened until
 *                 the sandbox ends, and recorded so
 *     sandbox     the path is mounted, and each open is performed again; workspace and always are remembered, too
 *     no          each open fails as it would have, and so does every later one until the sandbox ends
 *     (no time)   each open fails; the next one asks again
 *
 * The object that is opened is the one that was at the path when the question was asked.
 */
#include "base/err.h"
#include "base/vec.h"
#include "control/protocol.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct event;
struct poller;
struct run;

struct run_held_open {
        uint32_t number; /* the broker's */
        int flags;
};

struct run_held_path {
        uint64_t id; /* of the question */
        char *what;  /* "read /PATH" or "write /PATH" */
        uint64_t due_ns;
        dev_t dev; /* of what is asked about */
        ino_t ino;
        int object; /* O_PATH: as long as it is held, nothing else gets its number */
        VEC(struct run_held_open) opens;
};

typedef VEC(char *) held_texts;

struct run_held {
        VEC(struct run_held_path) paths;
        held_texts refused; /* by people: kept until the end */
        held_texts closed;  /* by rules, the newest last */
        uint64_t asked_ns;  /* how much of the right to ask is used up */
};
void run_held_done(struct run_held *held);

/* EVENT_HELD of the broker. */
void run_held_event(void *run, const struct event *event);
/* live_parts.path_decided */
int run_held_decided(void *run, uint64_t id, bool allow, enum control_scope *scope, struct err *err);

void run_held_watch(void *run, struct poller *poller);
int run_held_step(void *run, struct poller *poller, struct err *err);
