/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the broker inside the sandbox reports: files and system calls that were refused. The broker has no more standing
 * than the command it serves: records are decoded with every check, and whether policy is what refused a path is
 * decided here, by the same rules, not by what the record says.
 */
#include "manager/run_report.h"
#include "policy/paths.h"
#include "store/audit.h"

struct run_files {
        const struct path_rules *rules;
        struct audit *audit;
        struct run_report *report;
        struct learn *learn;         /* NULL: nothing is learned */
        struct run_control *control; /* counts and tells; NULL: none */
};
/* Reads what is there. False when nothing more will come: it ended, or it sent something malformed. */
bool run_files_read(const struct run_files *f, int fd);
