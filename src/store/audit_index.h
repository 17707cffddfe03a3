/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * An index over the audit logs, for searches over all runs and for the dashboard: one SQLite file in the state
 * directory, index.db. It is never the truth. For each record it keeps the searchable fields and the place of its line;
 * a search returns the line itself, read from the log. An index that is missing, damaged or of another version is
 * rebuilt.
 *
 * It grows in steps: audit_index_step() takes in so many lines and returns, so that a server can go on answering
 * meanwhile. Several processes may do this at once; each step is one transaction.
 */
#include "base/err.h"
#include "store/audit_read.h"

struct audit_index; /* opaque */

int audit_index_open(struct audit_index **ret, struct err *err);
void audit_index_free(struct audit_index *ix);
void audit_index_freep(struct audit_index **ix);

/* Looks which logs there are now: new ones are to be read, rows of dropped ones go. `more` names logs elsewhere
 * (NULL-terminated, may be NULL). */
int audit_index_look(struct audit_index *ix, char *const *more, struct err *err);
/* Takes in at most so many lines. 1: there is more to read; 0: everything is in. */
int audit_index_step(struct audit_index *ix, unsigned lines, struct err *err);
/* All of it: look and steps. */
int audit_index_update(struct audit_index *ix, struct err *err);
/* How far it is, in bytes of the logs. */
void audit_index_progress(const struct audit_index *ix, uint64_t *ret_read, uint64_t *ret_all);

enum audit_verdict { VERDICT_ANY, VERDICT_ALLOWED, VERDICT_REFUSED };

/* The search; NULL and 0: anything. Hosts, rules and credentials are exact, or patterns with '*'; `path` and `text` are
 * looked for anywhere inside (text: in host, path, rule and credential). */
struct audit_query {
        const char *run; /* id, or the beginning of one */
        const char *host, *path, *rule, *credential, *text, *kind;
        uint64_t since_us, until_us;
        enum audit_verdict verdict;
        bool newest_first;
        unsigned limit; /* 0: all */
        /* Goes on where another search ended: the place of its last hit. 0: from the beginning. */
        uint64_t after_us, after_run, after_seq;
};

struct audit_hit {
        const char *run_id, *path; /* of the log's file now */
        uint64_t at_us, run, seq;
        struct str line; /* valid during the call */
};
typedef int audit_on_hit(void *arg, const struct audit_hit *hit);
/* A negative return of on_hit ends it and is handed on. Lines that are gone meanwhile are passed over. */
int audit_index_search(struct audit_index *ix, const struct audit_query *query, audit_on_hit *on_hit, void *arg,
                       struct err *err);

/* Sums, kept as the index grows. Texts are valid during the call. */
struct audit_sum {
        const char *name; /* host, rule, credential; or the run's id */
        uint64_t port, allowed, refused, bytes_in, bytes_out, first_us, last_us;
        const char *rule, *reason; /* hosts: of the latest record */
        /* Runs only. */
        const char *path, *workspace, *command, *mode, *status, *broken;
        uint64_t records, run;
        bool closed;
};
enum audit_sums { SUMS_HOSTS, SUMS_RULES, SUMS_CREDENTIALS, SUMS_RUNS };
typedef int audit_on_sum(void *arg, const struct audit_sum *sum);
/* Latest first, at most `limit`; `run` NULL: over all runs; `text` NULL: all, else names that contain it. */
int audit_index_sums(struct audit_index *ix, enum audit_sums what, const char *run, const char *text, unsigned limit,
                     audit_on_sum *on_sum, void *arg, struct err *err);
