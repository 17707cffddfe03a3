/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The summary at the end: each target that was refused during the run, once, and what would allow it. */
#include "base/buf.h"
#include "base/vec.h"
#include "ipc/event.h"
#include "policy/judge/snapshot.h"
#include "policy/policy.h"

struct refusal {
        char *target;    /* "name:port" or a path, escaped */
        char *object;    /* the path alone, where the target says more; else NULL */
        char *rule;      /* what refused it, as it was written; NULL: nothing allows it */
        char *advice;    /* NULL: nothing that a person should allow */
        char *why;       /* NULL: by the reason */
        const char *did; /* what became of it; NULL: it was refused */
        char *process;   /* "name[pid]" inside, escaped; the first one. NULL: not known, as for connections */
        uint16_t reason;
        unsigned count;
        bool quiet; /* a habit of the program: recorded, not printed */
        bool told;  /* printed when it happened */
        bool moved; /* into the kept store, and made by this run: many of them are one line */
};
struct run_report {
        VEC(struct refusal) refusals;
        const origin_texts *quiet; /* patterns of the policy; NULL: none */
        unsigned moved;            /* paths that were moved into the kept store, listed above or not */
        unsigned more;             /* other targets beyond the limit */
};
#define RUN_REPORT_MAX 32
#define RUN_REPORT_MOVED_MAX 16

/* True: something that was not refused before, and that people should hear of; run_report_news() has it. */
bool run_report_event(struct run_report *report, const struct event *ev, const struct snapshot_rule *rule);
/* A protected path that the sandbox (`own`), or one that was killed before, made or changed. */
struct guard_found;
void run_report_guard(struct run_report *report, const struct guard_found *found, bool own);
/* Settings of git that the sandbox changed in its copy, and that did not come back. */
struct git_copies_found;
void run_report_git(struct run_report *report, const struct git_copies_found *found);
/* A file that the policy keeps from being read or written; rule: what refuses it, NULL when nothing grants it. */
struct path_rule;
void run_report_file(struct run_report *report, const char *path, bool write, const struct path_rule *rule,
                     struct str process);
/* A Unix socket that a program outside listens on. */
void run_report_socket(struct run_report *report, const char *path, struct str process);
/* A system call that no sandbox has. */
void run_report_call(struct run_report *report, const char *name, struct str process);
/* network, read, write, system-call or protected. */
const char *run_report_operation(const struct refusal *refusal);
/* One sentence, without the full stop. */
const char *run_report_why(const struct refusal *refusal);
/* The newest, as a line, while the command runs; at the end it is printed again only if it came again. */
int run_report_news(struct run_report *report, struct buf *out);
int run_report_text(const struct run_report *report, struct buf *out);
/* Each refusal, to the program that started this job through libbailey. */
struct link;
void run_report_send(const struct run_report *report, const struct link *link);
void run_report_done(struct run_report *report);
