/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The program that started a run on a Mac through libbailey: it hears what was refused, answers, and brings policies.
 */
#include "control/link.h"
#include "policy/paths/paths.h"
#include "run/run_report.h"
#include "sandbox/darwin/violation.h"

struct macos_gateway;

struct macos_link {
        const struct link *link; /* NULL: no program */
        struct run_report report;
        bool gone;
};

/* What it has said since. False: it is gone, and the run ends with it. */
bool macos_link_hear(struct macos_link *link, struct macos_gateway *gateway);
/* Refused by the profile, by these rules. */
void macos_link_denial(struct macos_link *link, const struct path_rules *rules, const struct violation *denial);
/* What was refused, at the end. */
void macos_link_tell(const struct macos_link *link);
void macos_link_done(struct macos_link *link);
