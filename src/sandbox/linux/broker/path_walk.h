/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Finds what a path of the tracee names, as the tracee would reach it, and holds on to it: the object (or the directory
 * it would be created in) is an open descriptor before anything is judged, so the call uses exactly the object that was
 * judged.
 */
#include "sandbox/linux/broker/tracee.h"

#include <limits.h>
#include <sys/stat.h>

struct place {
        int object; /* O_PATH, or -1 when nothing is there */
        int dir;    /* its directory, O_PATH, or -1 when reached without a name ("/", "..", an open descriptor) */
        bool wants_directory; /* the path ended in a slash */
        bool borrowed;        /* `dir` is somebody else's to close */
        bool kept;            /* and that is walk_spelled.c */
        bool parent;          /* WALK_PARENT: nobody has looked for the object */
        bool dir_known;       /* `dir_st` is what fstat() says of `dir` */
        bool by_descriptor;   /* reached through one, which may have lost its name long ago */
        bool led;             /* a link of /proc to something that is open was on the way */
        struct stat dir_st;
        char name[NAME_MAX + 1];
        char path[PATH_MAX]; /* canonical; does not begin with '/' for pipes, sockets and other nameless objects */
};

/* A place that is nowhere yet. Its texts are left as they are: they are long, and there is one of these in every call.
 */
void place_init(struct place *place);

enum walk_mode {
        WALK_FOLLOW,   /* a link in the last place is followed; a dangling one leads to where it points */
        WALK_NOFOLLOW, /* the last name itself */
        WALK_PARENT,   /* its directory and its name, whatever is there: for calls that find out by themselves */
};

/* The path spelled out: canonical if no name in it is a link. -ELOOP for a path that is not plain (see path_walk.c),
 * and for /proc, where a name means something else to each process. */
int walk_spell(struct tracee *tracee, int dirfd, const char *path, char ret[static PATH_MAX]);
/* Opens a path that was spelled, from this directory if it is relative, unless there is a link on its way: -ELOOP. */
int walk_open_spelled(int dir, const char *path, int flags);
/* A shorter way to a path that was spelled, if the one before it was in the same directory: that directory, which this
 * path has at this moment, and the name in it. Else AT_FDCWD and the path. Not to be closed, nor kept for the next
 * call.
 */
int walk_same_dir(const char *path, const char **ret_name);
/* Whether something with this device number is on /proc, for all that is known; true if nothing is. */
bool walk_may_be_proc(dev_t device);

int walk(struct tracee *tracee, int dirfd, const char *path, enum walk_mode mode, struct place *ret);
/* One of its descriptors, whatever that is. */
int walk_descriptor(struct tracee *tracee, int number, struct place *ret);
/* Opens what an O_PATH descriptor of the broker's own holds. */
int walk_reopen(int fd, int flags, mode_t mode);
void place_done(struct place *place);
/* Must be called after changing the working directory of a thread that walks. */
void walk_leaves_directory(void);
