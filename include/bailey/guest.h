/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BAILEY_GUEST_H
#define BAILEY_GUEST_H
#include "bailey/manager.h"
BAILEY_BEGIN

/*
 * Guests: named sandboxes that last (bailey-guest(1), docs/guests.md). They belong to the user, not to this program:
 * what it makes is there for the next one, and for the command line. Each call is one `bailey guest`. Every function
 * may be called from any number of threads at once, except the ones that free.
 *
 *     bailey_guests *guests;
 *     bailey_guests_new(NULL, &guests, &error);
 *     bailey_guest_create(guests, "agent", (const char *[]){ "--allow=github.com", NULL }, &error);
 *     bailey_guest_exec(guests, "agent", (const char *[]){ "git", "status", NULL }, NULL, &result, &error);
 *     bailey_guest_job(guests, "agent", (const char *[]){ "./long-job", NULL }, NULL, &number, &error);
 *     bailey_guest_set(guests, "agent", (const char *[]){ "--disk=20G", "--limit-memory=4G", NULL }, &error);
 *
 * Errors: BAILEY_E_ARGUMENT (no such guest, a name that is taken, options that do not exist), BAILEY_E_CONFIG (a policy
 * that is wrong), BAILEY_E_PLATFORM (a guest that cannot start here), BAILEY_E_SYSTEM; the message is Bailey's own
 * sentence.
 */
typedef struct bailey_guests bailey_guests;

/* Finds the executable: this one, or with NULL the one of the installation. BAILEY_E_DEPENDENCY. */
BAILEY_API int bailey_guests_new(const char *executable, bailey_guests **ret, struct bailey_error *e);
/* Frees the handle; the guests stay. NULL is allowed. */
BAILEY_API void bailey_guests_free(bailey_guests *g);

/* Makes a guest. Options are words of `bailey guest create`, NULL-terminated; NULL for none. */
BAILEY_API int bailey_guest_create(bailey_guests *g, const char *name, const char *const *options,
                                   struct bailey_error *e);
/* Changes what it was made with. Options are words of `bailey guest set`, NULL-terminated: "--disk=20G" and
 * "--idle=1h", options of the policy ("--limit-memory=4G", "--allow=HOST"), "--unset=OPTION". A limit of disk holds at
 * once, the rest from the next start on. All of them are kept, or none. */
BAILEY_API int bailey_guest_set(bailey_guests *g, const char *name, const char *const *options, struct bailey_error *e);
/* Gives it another name. */
BAILEY_API int bailey_guest_rename(bailey_guests *g, const char *name, const char *new_name, struct bailey_error *e);
/* Opens to the user what the guest closed, and mends what is broken. */
BAILEY_API int bailey_guest_fix(bailey_guests *g, const char *name, struct bailey_error *e);
/* Starts it; bailey_guest_exec() does so by itself. */
BAILEY_API int bailey_guest_start(bailey_guests *g, const char *name, struct bailey_error *e);
/* Ends everything in it. */
BAILEY_API int bailey_guest_stop(bailey_guests *g, const char *name, struct bailey_error *e);
/* Ends it if it runs, and deletes it with its home, jobs and snapshots. */
BAILEY_API int bailey_guest_delete(bailey_guests *g, const char *name, struct bailey_error *e);

/* Runs a program in the guest to its end, without a shell. Of the options directory, timeout, output limit, input,
 * cancel and variables ("process.env.set") count; other settings of a policy are BAILEY_E_CONFIG, since a guest has its
 * own. A command that ends in any way is BAILEY_OK with a result; it has no violations, which are in the guest's
 * record. BAILEY_E_TIMEOUT as for bailey_manager_exec(). Status 120 to 125 with a last line that begins with "bailey:
 * error: " counts as Bailey's own.
 */
BAILEY_API int bailey_guest_exec(bailey_guests *g, const char *name, const char *const *argv, const bailey_options *o,
                                 bailey_result **ret, struct bailey_error *e);
/* Starts a job: it goes on when this program ends. Of the options the directory and variables count. */
BAILEY_API int bailey_guest_job(bailey_guests *g, const char *name, const char *const *argv, const bailey_options *o,
                                uint64_t *ret_number, struct bailey_error *e);
/* What a job wrote so far, as the result's standard output. Of the options the output limit counts. */
BAILEY_API int bailey_guest_log(bailey_guests *g, const char *name, uint64_t job, const bailey_options *o,
                                bailey_result **ret, struct bailey_error *e);

/* Rows with fields. */
typedef struct bailey_rows bailey_rows;
/* All guests. Fields: name, id, kind, state, reason, uid, gid, home, sandbox and what else `bailey guest ls --json`
 * has; those of an object in it with its name in front (disk.limit, disk.used, disk.state). */
BAILEY_API int bailey_guests_list(bailey_guests *g, bailey_rows **ret, struct bailey_error *e);
/* Jobs of a guest. Fields: number, state, status, command, started, ended. */
BAILEY_API int bailey_guest_jobs(bailey_guests *g, const char *name, bailey_rows **ret, struct bailey_error *e);
/* Options of the policy that are kept with a guest. Fields: option, value. */
BAILEY_API int bailey_guest_settings(bailey_guests *g, const char *name, bailey_rows **ret, struct bailey_error *e);
/* What happened to a guest last. Fields: at, step, state, note. */
BAILEY_API int bailey_guest_steps(bailey_guests *g, const char *name, bailey_rows **ret, struct bailey_error *e);
/* Ports that a guest offers. Fields: publish, outside, inside, state (open, closed). */
BAILEY_API int bailey_guest_ports(bailey_guests *g, const char *name, bailey_rows **ret, struct bailey_error *e);
/* Directories that a guest was given. Fields: path, access (ro, rw). */
BAILEY_API int bailey_guest_grants(bailey_guests *g, const char *name, bailey_rows **ret, struct bailey_error *e);
/* Copies of a guest's home. Fields: label, at, bytes. */
BAILEY_API int bailey_guest_snapshots(bailey_guests *g, const char *name, bailey_rows **ret, struct bailey_error *e);
/* Recipes that can be done to guests. Fields: name, title. */
BAILEY_API int bailey_guests_recipes(bailey_guests *g, bailey_rows **ret, struct bailey_error *e);
/* How many rows there are. */
BAILEY_API size_t bailey_rows_size(const bailey_rows *rows);
/* A field as text, numbers in digits; NULL where it is null or not there. It lives as long as the rows. */
BAILEY_API const char *bailey_rows_get(const bailey_rows *rows, size_t i, const char *field);
/* Frees them; NULL is allowed. */
BAILEY_API void bailey_rows_free(bailey_rows *rows);

/* Offers a port of the guest on 127.0.0.1: at once if it runs, and at every start. */
BAILEY_API int bailey_guest_publish(bailey_guests *g, const char *name, uint16_t outside, uint16_t inside,
                                    struct bailey_error *e);
/* Does not offer this port of 127.0.0.1 any more. */
BAILEY_API int bailey_guest_unpublish(bailey_guests *g, const char *name, uint16_t outside, struct bailey_error *e);

/* Gives the guest a directory of this machine, from its next start on: to read, or to write as well. */
BAILEY_API int bailey_guest_grant(bailey_guests *g, const char *name, const char *path, int writable,
                                  struct bailey_error *e);
/* Takes it back. */
BAILEY_API int bailey_guest_revoke(bailey_guests *g, const char *name, const char *path, struct bailey_error *e);

/* Copies a file or directory of this machine (first) into the guest's home (second; relative to it). No link is
 * followed, and nothing is replaced. */
BAILEY_API int bailey_guest_copy_in(bailey_guests *g, const char *name, const char *from, const char *to,
                                    struct bailey_error *e);
/* The same out of the guest's home (first) to this machine (second). */
BAILEY_API int bailey_guest_copy_out(bailey_guests *g, const char *name, const char *from, const char *to,
                                     struct bailey_error *e);

/* Keeps a copy of the home; with NULL the label is the time. A guest that runs is frozen meanwhile. */
BAILEY_API int bailey_guest_snapshot(bailey_guests *g, const char *name, const char *label, struct bailey_error *e);
/* Puts the home back to what the copy has. The guest must not run. */
BAILEY_API int bailey_guest_restore(bailey_guests *g, const char *name, const char *label, struct bailey_error *e);
/* Removes the copy. */
BAILEY_API int bailey_guest_snapshot_remove(bailey_guests *g, const char *name, const char *label,
                                            struct bailey_error *e);
/* Packs the home away. */
BAILEY_API int bailey_guest_archive(bailey_guests *g, const char *name, struct bailey_error *e);
/* Brings it back. */
BAILEY_API int bailey_guest_unarchive(bailey_guests *g, const char *name, struct bailey_error *e);

/* Does what recipes say: names or paths, NULL-terminated; with NULL those that the guest has had. A step that fails
 * leaves the guest usable, and the error names it. */
BAILEY_API int bailey_guest_provision(bailey_guests *g, const char *name, const char *const *recipes,
                                      struct bailey_error *e);

BAILEY_END
#endif
