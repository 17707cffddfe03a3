/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How long audit logs are kept. A log is dropped whole, oldest first, when it is older than the limit or while all of
 * them together are larger than the limit; one that is being written, and the newest, never. Before a log is dropped,
 * that is recorded in an audit log of its own, dropped.jsonl beside the others: the run, its times, the number of its
 * records and the SHA-256 of the last one.
 */
#include "base/err.h"
#include "store/audit_place.h"

struct audit_limits {
        uint64_t max_age_ns, max_bytes; /* 0: none */
};

struct audit_dropped {
        const char *run_id, *path;
        uint64_t records, bytes;
        char first_ts[CLOCK_TEXT_MAX], last_ts[CLOCK_TEXT_MAX]; /* "": no record */
        char last_hash[DIGEST_HEX_MAX];
        bool by_age; /* else by size */
};

struct audit_keep {
        struct audit_limits limits;
        bool dry;                                                           /* only say what would be dropped */
        void (*on_dropped)(void *arg, const struct audit_dropped *dropped); /* may be NULL */
        void *arg;

        size_t runs, runs_dropped; /* set: how many there are now, and how many went */
        uint64_t bytes, bytes_dropped;
};
/* -EBUSY: another process is doing the same. */
int audit_keep(struct audit_keep *keep, struct err *err);
/* The same at the end of a run: at most once an hour, and without a word. */
void audit_keep_sometimes(const struct audit_limits *limits);
