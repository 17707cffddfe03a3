/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The report as data, between the reader of the log (report.c, report_notes.c) and the writers of its forms. */
#include "base/map.h"
#include "base/vec.h"
#include "kept/overlays.h"
#include "store/audit_read.h"
#include "verbs/record/report.h"

enum { REPORT_ROWS_MAX = 5000 }; /* of each list; what is beyond is counted */

/* One host and port, or one refused path or system call: all records of it together. */
struct report_target {
        struct str name, method; /* host, or path; for files and system calls what was tried */
        uint64_t port;
        uint64_t allowed, refused, bytes_in, bytes_out;
        uint64_t first_us, last_us;
        struct str rule, reason, detail; /* of the latest record that had one */
};
typedef VEC(struct report_target *) report_targets;

struct report_credential {
        struct str name;
        uint64_t count;
        uint64_t first_us, last_us;
        report_targets hosts; /* names and counts (`allowed`) only */
};

struct report_command {
        uint64_t at_us;
        struct str text, decision, rule, detail;
        bool allowed;
};

struct report_question {
        uint64_t asked_us, answered_us;      /* 0: not on record */
        struct str about, answer, scope, by; /* answer empty: nobody waited any more */
};

/* What happened, on one axis. */
enum report_lane { LANE_RUN, LANE_COMMAND, LANE_HOST, LANE_CREDENTIAL, LANE_QUESTION, LANE_FILE, REPORT_LANES };
const char *report_lane_name(enum report_lane lane);

enum report_tone { TONE_PLAIN, TONE_ALLOWED, TONE_REFUSED };

struct report_moment {
        uint64_t at_us;
        enum report_lane lane;
        enum report_tone tone;
        struct str text;
};

struct report {
        char *path;
        struct str run_id, sandbox, mode, workspace, command, status;
        uint64_t first_us, last_us; /* of the first and last record */
        struct audit_report proof;
        bool whole, running;
        struct err broken; /* why it is not whole */

        report_targets hosts, files, calls;
        VEC(struct report_credential *) credentials;
        VEC(struct report_command) commands;
        VEC(struct report_question) questions;
        VEC(struct report_moment) moments;
        VEC(struct str) lost;  /* protections that it ran without, and what else a reader must know first */
        VEC(struct str) rules; /* that were added or taken back while it ran */
        struct changes changes;
        bool has_changes; /* an overlay of it is kept */

        uint64_t records, allowed, refused;
        uint64_t left_out; /* rows that did not fit */

        struct map index; /* of targets and credentials, by kind and name */
        struct map texts; /* every text once */
        struct buf scratch;
};

/* A text that lives as long as the report: of plain text, and of the inside a JSON string. */
int report_keep(struct report *rep, struct str text, struct str *ret);
int report_keep_escaped(struct report *rep, struct str inside, struct str *ret);
int report_add_moment(struct report *rep, uint64_t at_us, enum report_lane lane, enum report_tone tone,
                      struct str text);
/* A record without a verdict. `text` is its detail, which lives as long as the report. */
int report_take_note(struct report *rep, uint64_t at_us, struct str text);

int report_put_html(const struct report *rep, struct buf *out);
int report_put_markdown(const struct report *rep, struct buf *out);
int report_put_json(const struct report *rep, struct buf *out);

/* Text from outside for each form. Control, bidirectional and invisible characters become visible in all of them. */
int report_html_text(struct buf *out, struct str text);
int report_md_text(struct buf *out, struct str text);
