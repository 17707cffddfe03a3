/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A command with the classifier's word on it, as the record has it: also one that never ran. */
#include "store/audit.h"

struct judged {
        const char *decision; /* allow, sandboxed, escalated, forbidden */
        const char *command, *segment, *rule, *reason;
        const char *by; /* who approved or refused it; NULL: nobody had to */
};

/* One line of the audit. */
void judged_record(struct audit *audit, const struct judged *judged, bool runs);
