/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "store/audit_index.h"

#include <sqlite3.h>

/* A log that has lines which are not in the index yet. */
struct index_work {
        char *path;
        uint64_t bytes, read;
};

struct audit_index {
        sqlite3 *db;
        char *path;
        VEC(struct index_work) work; /* the newest log last: it is taken first */
        sqlite3_stmt *add_record, *add_host, *add_name, *set_run;
        struct buf texts[6]; /* unescaped texts of the record at hand */
};

int index_fault(const struct audit_index *ix, struct err *err);
int index_prepare(const struct audit_index *ix, const char *sql, sqlite3_stmt **ret, struct err *err);
void index_finish(sqlite3_stmt **statement);
