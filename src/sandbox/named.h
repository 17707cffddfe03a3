/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What git's configuration comes to name while a sandbox runs (survey_git_named() says how that is found), closed
 * before the next call of the sandbox is judged.
 *
 * The supervisor watches the configuration (inotify), and hands the watch to the broker. Whoever changes such a file
 * puts a record into the watch before the change returns. The broker looks whether there is one before it judges a
 * call, and if so asks the supervisor, which reads the configuration again and answers with more guards. So nobody has
 * to wake up in time: what a person sets on the host holds for every call that the sandbox begins afterwards. Nobody
 * but the host writes to what is watched. But where a configuration does not exist yet, its directory is watched, and
 * the sandbox may make other names there: then the broker asks, and the supervisor reads the record alone.
 *
 * Where there are too many watches for this user, there is none. Then the broker asks at every call that may change
 * something, and the supervisor compares what the kernel says of the files (named_stamps.h).
 *
 * Considered and left: a supervisor that wakes up by itself and sends guards (leaves a moment), and a broker that
 * compares the files (it does not see the user's own configuration, and each look costs as much as the judging).
 *
 * The first look is due NAMED_BEGIN_NS after the command began: the kernel takes milliseconds to end a watch, a price
 * that short commands need not pay. What is written before that, or through a descriptor that was open before, is found
 * at the end (kept/guard_named.c).
 */
#include "base/clock.h"
#include "base/err.h"
#include "plan/build.h"
#include "sandbox/named_stamps.h"

#define NAMED_BEGIN_NS (100 * NS_PER_MS)
#define NAMED_WHY "git's configuration came to name it while the sandbox ran"

/* The supervisor's answer to an EVENT_NAMED, as the value of a struct broker_answer (sandbox/marks.h). */
enum named_answer {
        NAMED_NOTHING, /* no more than before */
        NAMED_FAILED,  /* it is not known, or cannot be told: the call is refused, and the next one asks as if first */
        NAMED_WATCH,   /* with the watch. It is asked again at once: something may have changed before */
        NAMED_UNWATCHED, /* there is no watch any more. It is asked again at once, and at every call */
        NAMED_MORE, /* with a file of guards: for each its kind, as a digit, and its path, then its link, each with a
                       NUL. NAMED_OPENING in place of a kind: a grant below them, which stays */
};
#define NAMED_OPENING '+'

struct named_awaited {
        int wd; /* of a directory; inotify gives a number once */
        char *name;
};

struct named {
        const struct policy *policy; /* these three are of the launch, and must live as long */
        const struct path_rules *rules;
        const struct plan_host *before;
        int watch;          /* -1: none */
        bool asked, looked; /* since there is a watch */
        VEC(struct named_awaited) awaited;
        struct stamps stamps; /* of the last question without a watch */
        struct plan_host now; /* what is named and was not at launch; and what to watch */
        size_t told;          /* how many of these paths the broker has */
        size_t telling;       /* how many it has if the last answer arrived */
        bool warned;          /* of an answer that failed */
        bool warned_bound;    /* of configurations that were not read */
};
#define NAMED_NONE                                                                                                     \
        { .watch = -1 }

/* The answer to the broker's question. *ret_fd: what goes with it, or -1. That of NAMED_MORE is the caller's to close.
 * An error: the configuration cannot be read, nothing is added, and the answer is NAMED_FAILED. */
int named_answer(struct named *named, enum named_answer *ret, int *ret_fd, struct err *err);
/* The answer did not arrive: the next question is the first again. */
void named_again(struct named *named);
void named_done(struct named *named);
