/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Denied paths, while the sandbox runs. A mask is a mount on a file or a directory that was there at launch. When
 * somebody outside renames another file over it, the kernel removes the mount in every other namespace; and a path that
 * did not exist cannot be masked at all. So the directories of denied paths are watched, and new files are masked at
 * once, from outside: by a short-lived child that enters the sandbox's namespaces.
 *
 * There is a moment in between in which the file can be opened. A broker judges each call and leaves no such gap.
 *
 * Watching begins a little after the launch, with a check of every path: the kernel takes milliseconds to end a watch,
 * a price that short commands need not pay. When no more watches are available, paths are checked every second.
 *
 *     denials_open()                 before init gets its plan: after, nobody looks into it
 *     denials_begin()                when init has made its mounts: before, there is no place for a mask
 *     wait for denials.news, and not longer than denials.next_ns
 *     denials_step()                 whenever poll returns
 */
#include "base/vec.h"
#include "plan/build.h"

#include <sys/types.h>

struct denials_dir {
        int watch;
        char *path;
};

struct denials {
        const struct path_rules *rules;
        const struct plan_host *host;
        int mounts; /* the sandbox's own; -1: nothing can be done */
        int news;   /* readable when a directory has changed; -1: not watched yet, or there are too many */
        bool begun;
        uint64_t next_ns; /* a look at everything is due then; 0: none is */
        VEC(char *) paths;
        VEC(struct denials_dir) dirs;
};
#define DENIALS_NONE                                                                                                   \
        { .news = -1, .mounts = -1 }

/* Both must live as long. An error means that it is left out. */
int denials_open(struct denials *denials, pid_t init, const struct path_rules *rules, const struct plan_host *host,
                 struct err *err);
void denials_begin(struct denials *denials);
/* How many paths were masked anew, or a negative errno: one that is denied may be open. */
int denials_step(struct denials *denials, struct err *err);
void denials_done(struct denials *d);
