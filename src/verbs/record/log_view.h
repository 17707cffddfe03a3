/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Audit logs for people: one aligned line per record, filtered, followed as they grow; and the proof in words. */
#include "base/buf.h"
#include "base/err.h"

struct log_request {
        const char *file; /* NULL: that of `run`, in the default place */
        const char
            *run; /* id, or the beginning of one, or a guest's name; NULL: the latest run, or all records of `file` */
        const char *since; /* "10m", or "2026-11-15T03:00" (UTC); NULL: from the beginning */
        bool follow, denied, json, color;
        /* Over all runs, by the index: of these only (see store/audit_index.h); NULL: any. */
        bool all;
        const char *until, *host, *path, *rule, *credential;
        unsigned limit; /* the newest so many; 0: all */
        bool requests;  /* only network requests, as JSON objects with a few fields of stable names */
        /* Takes one line with its line break; a negative return ends it. */
        int (*on_line)(void *arg, struct str line);
        void *arg;
};

/* -EINVAL: the request is wrong; -ENOENT: there is no such log. */
int log_show(const struct log_request *request, struct err *err);
/* The same over all runs. */
int log_search(const struct log_request *request, struct err *err);
/* The id of a run that a verb means; as it is for a `file`. Heap text. */
int log_name_run(const char *file, const char *run, char **ret, struct err *err);
/* The log that a verb means: `file`, or that of the run, or of the latest run. */
int log_find(const char *file, const char *run, char **ret, struct err *err);
/* The proof as data. -EBADMSG: it is not whole, and e says why. *ret_running: somebody still writes to it. */
struct audit_report;
int log_prove(const char *path, struct audit_report *ret, bool *ret_running, struct err *err);
/* A few words about a log that is whole in `out`. -EBADMSG: it is not, and e says where it breaks. */
int log_verify(const char *file, const char *run, bool json, struct buf *out, struct err *err);
