/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the broker inside the sandbox reports: files and system calls that were refused. The broker has no more standing
 * than the command it serves: records are decoded with every check, and whether policy is what refused a path is
 * decided here, by the same rules, not by what the record says.
 */
#include "plan/plan.h"
#include "policy/paths/paths.h"
#include "run/run_report.h"
#include "store/audit.h"

/* A program that provokes refusals without end must not push older records out of the audit: beyond a share, refusals
 * are only counted, and the count is recorded. gateway/load/tally.h does the same for connections. */
struct run_files_share {
        uint64_t due_ns;               /* when all records so far would be paid for */
        uint32_t counted[EVENT_KINDS]; /* of each kind, since the last record */
};

struct run_files {
        const struct path_rules *rules;
        const struct plan *plan; /* has the guards that the rules led to; NULL: there is none */
        struct audit *audit;
        struct run_report *report;
        struct learn *learn;  /* NULL: nothing is learned */
        struct live *control; /* counts and tells; NULL: none */
        struct run_files_share *share;
        void (*on_ratchet)(void *run, const struct event *event); /* the broker asks for one to be closed */
        void (*on_held)(void *run, const struct event *event);    /* it holds an open until a person answers */
        void (*on_named)(void *run, const struct event *event);   /* it asks what git's configuration names by now */
        const struct plan_host *named; /* what that was answered with, so far; NULL: nothing */
        void *run;
};
/* Reads what is there. False when nothing more will come: it ended, or it sent something malformed. */
bool run_files_read(const struct run_files *files, int fd);
/* The last reports, when nobody is left who could send more: everything that is queued, and the counts. */
void run_files_end(const struct run_files *files, int fd);
