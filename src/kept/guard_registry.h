/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The guards of all sandboxes of this user, while they run and until they are swept.
 *
 * Several sandboxes may write in one place, and the sweep of the first that ends must not free a name for the others.
 * And the sweeping process may be killed. So each run has a slot, a file in the state directory:
 *
 *     $XDG_STATE_HOME/bailey/guards/lock   held for a moment while slots are read or changed
 *                                   N      a slot: the run's id, its writable roots, its guards, and the
 *                                          repositories that were made in it, as they are made. Empty: free
 *                                   table  which slots a launch need not read (kept/guard_table.h)
 *
 * A slot is locked as long as the supervisor or init lives (the lock is one, shared by both). The kernel frees the lock
 * of a killed init a moment before it ends the others inside, so a slot also names init, and counts as live until that
 * has ended altogether. A slot that is neither empty nor live is a run that is over and not swept. It is swept, guard
 * by guard, when no running sandbox could write there: by the last one that ends, or by the next Bailey of this user.
 * A guard that a running sandbox has as well is left to that one, and what it finds there is kept under its id.
 *
 *     guards_begin()    before the survey: sweeps what is left of others, takes a slot, says which roots are written
 *     guards_share()    after it: what others guard in these roots is guarded here, whether it exists by now or not
 *     guards_record()   before the plan is sent
 *     guards_hold()     before the command starts
 *     guards_end()      when nothing of the sandbox lives any more
 */
#include "plan/build.h"
#include "sandbox/sandbox.h"

/* Told about what became of things, of this run or of one that was killed before. */
typedef void guards_report(const char *id, const struct guard_found *found, void *context);
/* `line` is the first one that was left out of a file of git's (git_rebase.h). */
typedef void guards_left_out(const char *path, size_t lines, struct str line, void *context);

struct guards {
        int slot;   /* -1: none. Init gets it too (sandbox_go) */
        int number; /* of the slot */
        const char *id;
        uint64_t began_us; /* by the wall clock */
        bool noted;        /* the broker notes repositories as they are made */
        VEC(char *) roots;
        guards_report *report;
        guards_left_out *left_out; /* or NULL */
        void *context;
};
#define GUARDS_NONE                                                                                                    \
        { .slot = -1 }

/* Without a state directory there is no slot, and the run sweeps what it left by itself. */
int guards_begin(struct guards *guards, const struct path_rules *rules, struct err *err);
int guards_share(struct guards *guards, struct plan_host *host, struct err *err);
/* The plan's guards, and what is to be looked at if this run is killed. `host` is what the survey found. */
int guards_record(struct guards *guards, const struct policy *policy, const struct path_rules *rules,
                  const struct plan_host *host, const struct plan *plan, struct err *err);
/* Before anything runs: the first process inside, by whose end everything in there has ended. */
int guards_hold(struct guards *guards, pid_t first, struct err *err);
/* `over`: nothing of it lives any more, for certain. Otherwise the first process inside is looked at, and what it may
 * still write to waits for the next one that sweeps. An error names the first path that could not be moved away. */
int guards_end(struct guards *guards, const struct plan *plan, bool over, struct err *err);
/* Of a run whose command never began: nothing was made, and nothing is swept. */
void guards_drop(struct guards *guards);
/* Also repositories that the sandbox made, for which no guard could exist. They stay, but lose everything in them that
 * git would run or obey. Also in all repositories: what git would run when somebody continues what is unfinished
 * there (git_rebase.h). `host` is what was found before the run. */
int guards_end_repositories(struct guards *guards, const struct policy *policy, const struct path_rules *rules,
                            const struct plan_host *host, struct err *err);
/* And what was written to places that git's configuration came to name during the run (guard_named.c). Before the
 * others, which may move such a configuration away: this is noted, and guards_end() moves it. */
int guards_end_named(struct guards *guards, const struct policy *policy, const struct path_rules *rules,
                     const struct plan_host *host, struct err *err);
/* More paths that must not be there afterwards; when nothing of the sandbox lives any more. */
int guards_add_missing(struct guards *guards, const char *const *paths, size_t n, struct err *err);
/* At once, also while another sandbox can write there; told as GUARD_UNFINISHED. */
int guards_move_away(struct guards *guards, const char *path, struct err *err);
/* With an overlay the sandbox writes to its own copy of the workspace: a path in there is the host's. */
bool guards_overlaid(const struct policy *policy, const char *path);
/* Repositories that were made in this run, as far as they were noted. They live as long as *ret. */
struct slot;
int guards_read_made(const struct guards *guards, struct slot *ret);
void guards_done(struct guards *g);
/* On record. */
struct audit;
void guards_note(struct audit *audit, const char *id, const struct guard_found *found);

/* What runs that were killed left: swept now. *ret_left (optional): how many paths wait for a sandbox that runs. */
int guards_sweep_left(guards_report *report, void *context, size_t *ret_left, struct err *err);
