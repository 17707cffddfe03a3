/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How much of the disk a guest may take. Without root's rights no kernel counts for us, so the supervisor watches. What
 * a file system says of itself costs nothing: as long as less was taken from it, by whomever, than the guest has left,
 * the guest cannot be over its limit. Otherwise a process of its own walks through the home. A guest that is over its
 * limit is frozen, and so does every guest while the host's last room is reached (base/files/disk_usage.h).
 *
 * Whoever sees a walk come may carry files from where it goes next to where it was. So a walk among running processes
 * is believed only until the guest could have taken its limit twice; then it is frozen for one walk.
 *
 * A guest that is over its limit when it starts is there to be cleaned: no file can grow in it (RLIMIT_FSIZE), and if
 * it takes more all the same, it ends.
 */
#include "base/buf.h"
#include "base/files/disk_usage.h"
#include "base/processes/poller.h"

enum run_disk_state {
        RUN_DISK_WELL,
        RUN_DISK_OVER,       /* over its limit of bytes */
        RUN_DISK_ENTRIES,    /* over its number of files */
        RUN_DISK_LOW,        /* the host's disk has no more room to give */
        RUN_DISK_UNMEASURED, /* it cannot be measured, while it is frozen */
        RUN_DISK_STATES
};

struct run_disk_news {
        enum run_disk_state state;
        struct disk_usage usage;
        uint64_t limit; /* 0: none */
        bool cleaning;  /* nothing can be written */
};

/* One file, directory or link for each so many bytes of the limit, and no fewer than the second. */
enum { RUN_DISK_PER_ENTRY = 4096, RUN_DISK_ENTRIES_MIN = 10000 };
uint64_t run_disk_entries(uint64_t limit);
enum run_disk_state run_disk_judge(const struct disk_usage *usage, uint64_t limit, bool low);
/* Why it is frozen, as a part of a sentence. */
int run_disk_text(const struct run_disk_news *news, struct buf *out);

struct run_disk_calls {
        /* In a process of its own. What the home takes; the limit, if it is another by now. */
        int (*measure)(void *arg, struct disk_usage *ret, uint64_t *limit, struct err *err);
        /* 0, and another number after each change of the limit: the next walk reads it. Cheap. */
        uint64_t (*limit_stamp)(void *arg);
        /* What was found, for whoever looks. */
        void (*tell)(void *arg, const struct run_disk_news *news);
};

/* How a guest starts. */
struct run_disk_start {
        const struct run_disk_calls *calls;
        void *arg;
        int home;                   /* a directory on the file system of the home */
        struct run_disk_news found; /* before it */
};

struct run_disk {
        struct run_disk_news news; /* what counts now */
        struct disk_usage least;   /* while it is cleaned: the smallest that was found */
        struct disk_room room;     /* when the last walk began */
        struct disk_usage sure;    /* what was found last while nobody could move files about meanwhile */
        struct disk_room sure_room;
        uint64_t sure_ns, sure_took_ns;
        bool sure_walk, doubted; /* of the walk under way; it is frozen to be sure, and nobody is told */
        uint64_t due_ns, walked_ns, walk_took_ns, cpu_us;
        uint64_t limit_stamp; /* of the limit that the last walk read, or a later one */
        uint64_t held_ns;     /* since when it should be frozen; 0: it need not */
        pid_t walker;         /* 0: none */
        int result;           /* of the walker */
};
#define RUN_DISK_NONE                                                                                                  \
        { .result = -1 }

/* A part of the session's poller. */
void run_disk_watch(void *run, struct poller *poller);
int run_disk_step(void *run, struct poller *poller, struct err *err);
void run_disk_done(struct run_disk *disk);
