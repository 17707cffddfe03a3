/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the files of the guests' database: statements with values in their places. */
#include "store/guests.h"

#include <sqlite3.h>

struct guests_db {
        sqlite3 *db;
        char *path;
};

/* One value for a place in a statement: a text, or a number where it is NULL. */
struct value {
        const char *text;
        uint64_t number;
};
#define TEXT(x)                                                                                                        \
        { .text = (x) }
#define NUMBER(x)                                                                                                      \
        { .number = (x) }

int guests_sql_prepare(struct guests_db *db, const char *sql, const struct value *values, int n, sqlite3_stmt **ret,
                       struct err *err);
int guests_sql_run(struct guests_db *db, const char *sql, const struct value *values, int n, struct err *err);
/* 1: a row; 0: there are no more. */
int guests_sql_next(struct guests_db *db, sqlite3_stmt *query, struct err *err);
void guests_sql_finish(sqlite3_stmt **query);
const char *guests_sql_text(sqlite3_stmt *query, int i);
uint64_t guests_sql_number(sqlite3_stmt *query, int i);
