/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What Bailey knows about guests (src/guest): one SQLite file in the state directory, guests.db, 0600, in WAL mode, so
 * that readers do not wait for writers. Every change of a guest's state is one transaction with the step that made it.
 * This file knows rows; guest/guest_state.h says which changes are allowed.
 */
#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

struct guests_db; /* opaque */

/* Each text is "" where there is none. */
struct guest_row {
        char *id, *name, *kind;
        uint32_t uid, gid;    /* on this host */
        char *state, *before; /* before: what it was when it broke */
        char *reason;         /* why it is broken, or how it ended */
        char *doing, *note;   /* an operation that was begun, and what it needs to be finished */
        char *workspace;      /* of the host, mounted or granted */
        uint64_t idle_s;      /* a running guest without work ends after so long; 0: never */
        uint64_t disk;        /* how much its home may take; 0: as much as there is */
        uint64_t made_us, changed_us, used_us;
};
typedef VEC(struct guest_row) guest_rows;
void guest_row_done(struct guest_row *row);
void guest_rows_done(guest_rows *rows);

/* `path` is made when it is absent; *ret_fresh says so. Then a transaction is open: the caller puts into it what the
 * database begins with and commits, so that nobody ever finds one that is made and lacks that. -EBADMSG: it is damaged;
 * -EPROTO: of a newer Bailey; -EBUSY: another process holds it; -EROFS, -EACCES: it cannot be written. The text says
 * what to do. */
int guests_db_open(const char *path, struct guests_db **ret, bool *ret_fresh, struct err *err);
void guests_db_close(struct guests_db *db);
void guests_db_closep(struct guests_db **db);

/* Several changes as one: between them nobody else writes. Without guests_db_commit() nothing of it stays. */
int guests_db_begin(struct guests_db *db, struct err *err);
int guests_db_commit(struct guests_db *db, struct err *err);
void guests_db_rollback(struct guests_db *db);

/* All that are not deleted, by name; with `deleted` those as well. */
int guests_db_list(struct guests_db *db, bool deleted, guest_rows *ret, struct err *err);
/* By name or id, of those that are not deleted. -ENOENT. */
int guests_db_find(struct guests_db *db, const char *name, struct guest_row *ret, struct err *err);
/* -EEXIST: the name is taken. */
int guests_db_add(struct guests_db *db, const struct guest_row *row, struct err *err);
int guests_db_rename(struct guests_db *db, const char *id, const char *name, struct err *err);

/* The guest's state and what is being done to it, with a row in the steps. NULL leaves a text as it is. */
struct guest_change {
        const char *step; /* what made the change: "start", "reconcile" */
        const char *state, *before, *reason, *doing, *note;
};
int guests_db_change(struct guests_db *db, const char *id, const struct guest_change *change, struct err *err);
/* Kept to the minute: a command in a guest that runs waits for no disk. */
int guests_db_used(struct guests_db *db, const char *id, struct err *err);
int guests_db_set_ids(struct guests_db *db, const char *id, uint32_t uid, uint32_t gid, struct err *err);
int guests_db_set_idle(struct guests_db *db, const char *id, uint64_t seconds, struct err *err);
int guests_db_set_disk(struct guests_db *db, const char *id, uint64_t bytes, struct err *err);

struct guest_step {
        uint64_t at_us;
        const char *step, *state, *note;
};
typedef int guests_on_step(void *arg, const struct guest_step *step);
/* The newest first. */
int guests_db_steps(struct guests_db *db, const char *id, unsigned max, guests_on_step *on, void *arg, struct err *err);

/* Options of the policy that every start of the guest lays below its own: flag and text. */
typedef int guests_on_setting(void *arg, const char *flag, const char *text);
int guests_db_add_setting(struct guests_db *db, const char *id, const char *flag, const char *text, struct err *err);
/* 0 also when it was not there. */
int guests_db_remove_setting(struct guests_db *db, const char *id, const char *flag, const char *text, struct err *err);
/* All of one flag. */
int guests_db_clear_setting(struct guests_db *db, const char *id, const char *flag, struct err *err);
int guests_db_settings(struct guests_db *db, const char *id, guests_on_setting *on, void *arg, struct err *err);

/* Directories of the host that the guest was given. */
struct guest_grant {
        const char *path;
        bool write;
        uint64_t at_us;
        const char *object; /* what was at the path, see guest_grant_object(); "": not known */
};
typedef int guests_on_grant(void *arg, const struct guest_grant *grant);
/* As of now, whatever `at_us` says. */
int guests_db_add_grant(struct guests_db *db, const char *id, const struct guest_grant *grant, struct err *err);
/* Returns how many went. */
int guests_db_remove_grant(struct guests_db *db, const char *id, const char *path, struct err *err);
int guests_db_grants(struct guests_db *db, const char *id, guests_on_grant *on, void *arg, struct err *err);

struct guest_snapshot {
        const char *label;
        uint64_t at_us, bytes;
};
typedef int guests_on_snapshot(void *arg, const struct guest_snapshot *snapshot);
/* -EEXIST: the label is taken. */
int guests_db_add_snapshot(struct guests_db *db, const char *id, const char *label, uint64_t bytes, struct err *err);
int guests_db_remove_snapshot(struct guests_db *db, const char *id, const char *label, struct err *err);
int guests_db_snapshots(struct guests_db *db, const char *id, guests_on_snapshot *on, void *arg, struct err *err);

struct guest_job {
        uint64_t number;
        const char *command;
        const char *state; /* running, ended, lost */
        int status;        /* as a shell has it */
        uint64_t started_us, ended_us;
};
typedef int guests_on_job(void *arg, const struct guest_job *job);
int guests_db_add_job(struct guests_db *db, const char *id, const char *command, uint64_t *ret_number, struct err *err);
int guests_db_end_job(struct guests_db *db, const char *id, uint64_t number, const char *state, int status,
                      struct err *err);
/* Jobs that no process keeps any more: their guest does not run. */
int guests_db_lose_jobs(struct guests_db *db, const char *id, struct err *err);
int guests_db_jobs(struct guests_db *db, const char *id, guests_on_job *on, void *arg, struct err *err);

/* Steps of recipes (guest/recipe/recipe.h), each with the digest of what it was. */
struct guest_provision {
        const char *recipe; /* its name, or the path of its file */
        const char *step, *digest;
        const char *tail; /* the end of its output */
        uint64_t at_us;
        bool ok;
};
typedef int guests_on_provision(void *arg, const struct guest_provision *step);
int guests_db_set_provision(struct guests_db *db, const char *id, const struct guest_provision *step, struct err *err);
/* 1: this step of this recipe was done, and was the same. */
int guests_db_is_provisioned(struct guests_db *db, const char *id, const struct guest_provision *step, struct err *err);
/* The oldest first. */
int guests_db_provision(struct guests_db *db, const char *id, guests_on_provision *on, void *arg, struct err *err);
/* The home is another one: nothing counts as done. */
int guests_db_forget_provision(struct guests_db *db, const char *id, struct err *err);

/* Variables that recipes set, in their order; PATH_FRONT is a directory that stands before others in PATH. */
#define VARIABLE_PATH_FRONT "PATH+"
typedef int guests_on_variable(void *arg, const char *name, const char *value);
int guests_db_clear_variables(struct guests_db *db, const char *id, const char *recipe, struct err *err);
int guests_db_add_variable(struct guests_db *db, const char *id, const char *recipe, const char *name,
                           const char *value, struct err *err);
int guests_db_variables(struct guests_db *db, const char *id, guests_on_variable *on, void *arg, struct err *err);
