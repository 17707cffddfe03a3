/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Runs with --overlay, as they are kept until somebody applies or discards them:
 *
 *     $XDG_STATE_HOME/bailey/overlays/ID/   upper, work   the kernel's
 *                                           info          start in microseconds, a newline, the workspace
 *                                           denied        paths that the run's own policy closes, each with a NUL
 *
 * The file `info` is locked while the sandbox runs: an overlay that is still in use is not applied.
 */
#include "base/err.h"
#include "base/vec.h"
#include "sandbox/overlay.h"

struct overlay_run {
        char *id, *directory, *upper, *work, *workspace;
        uint64_t began_us;
        int lock;   /* -1: not held */
        bool plain; /* no overlay: a directory that was written to as it is (sandbox/overlay.h) */
};
void overlay_run_done(struct overlay_run *run);

typedef VEC(struct overlay_run) overlay_runs;
void overlay_runs_done(overlay_runs *r);

/* Makes and locks it. -EINVAL for a workspace whose path an overlay cannot have. */
struct path_rules;
int overlays_new(const char *id, const char *workspace, const struct path_rules *rules, struct overlay_run *ret,
                 struct err *err);
/* Oldest first. An absent directory holds none. */
int overlays_list(overlay_runs *ret, struct err *err);
/* By id (or the beginning of one), or the newest of the workspace when id is NULL. Locked; -EBUSY while it runs. */
int overlays_find(const char *id, const char *workspace, struct overlay_run *ret, struct err *err);
int overlays_remove(struct overlay_run *run, struct err *err);

/* What changed. Marked are protected paths, by the workspace's default policy, and what the run's own policy closed. */
int overlays_changes(const struct overlay_run *run, struct changes *ret, struct err *err);
/* Between overlays_begin() and overlays_end(), so that what was applied leaves the overlay whole. */
int overlays_apply(const struct overlay_run *run, const struct change *change, struct err *err);
int overlays_begin(const struct overlay_run *run, struct err *err);
int overlays_end(const struct overlay_run *run, struct err *err);
/* At the end of the run. Nothing written: nothing kept. Otherwise it waits for a person. */
void overlays_finish(struct overlay_run *r);
