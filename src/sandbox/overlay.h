/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The changes of a run with --overlay, and how they reach the workspace.
 *
 * The sandbox wrote to the upper directory of an overlay; the workspace was the lower one and is untouched. The scan
 * turns the upper directory into a list of changes; apply carries chosen changes over. Everything in the upper
 * directory is hostile: links are never followed on either side, nothing outside the workspace is opened, special files
 * are not carried over, and changes that a person should check are marked (links that leave the workspace, protected
 * paths, set-id bits, files that changed in the workspace meanwhile).
 */
#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>
#include <sys/types.h>

#define OVERLAY_OPAQUE "user.overlay.opaque"

enum change_kind { CHANGE_ADDED, CHANGE_MODIFIED, CHANGE_DELETED, CHANGE_KINDS };

enum change_flag {
        CHANGE_LINK_LEAVES = 1, /* a symbolic link to a place outside the workspace */
        CHANGE_SPECIAL = 2,     /* socket, fifo or device: never applied */
        CHANGE_CONFLICT = 4,    /* the workspace's own file changed after the run began, or would go unseen */
        CHANGE_PROTECTED = 8,   /* a path that the sandbox could not have written without the overlay */
        CHANGE_SETID = 16,      /* set-user-id or set-group-id: applied without those bits */
};

struct change {
        char *path; /* relative to the workspace, without leading slash */
        enum change_kind kind;
        unsigned flags;
        mode_t mode;       /* of the new state; of the old one for deletions */
        uint64_t size;     /* new size of a regular file */
        char *link_target; /* symbolic links: as written */
};
struct changes {
        VEC(struct change) list; /* parents before children, by name */
};
void changes_done(struct changes *c);
const char *change_kind_name(enum change_kind k);

struct overlay_dirs {
        const char *workspace, *upper;
        uint64_t began_us; /* wall clock at the start of the run */
        /* The upper directory was written to as it is, and whoever did so never saw the other one: the kernel's marks
         * in it are anybody's, and say nothing. */
        bool plain;
};
/* The effect of a change on its path, for callers that judge it. */
enum overlay_act {
        OVERLAY_FILLS,    /* a directory that was one before, or was not there: what is in it is judged by itself */
        OVERLAY_REPLACES, /* something that is no directory stands there now: nothing of what lay below is left */
        OVERLAY_DELETES,
};
/* NULL: nothing is protected. The path is absolute. */
typedef bool (*overlay_protected)(const char *path, enum overlay_act act, void *context);

int overlay_scan(const struct overlay_dirs *dirs, overlay_protected is_protected, void *context, struct changes *ret,
                 struct err *e);
/* One change, or nothing: a file is written beside its place and renamed. The caller judges the flags, but special
 * files are refused here. */
int overlay_apply(const struct overlay_dirs *dirs, const struct change *change, struct err *e);
/* After that it is no change any more, whatever becomes of the workspace's own file. */
int overlay_forget(const struct overlay_dirs *dirs, const struct change *change, struct err *e);
/* Before the first change is applied, and after the last: see overlay_settle.c. */
int overlay_unveil(const struct overlay_dirs *dirs, struct err *e);
int overlay_prune(const struct overlay_dirs *dirs, struct err *e);
