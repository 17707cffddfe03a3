/* SPDX-License-Identifier: Apache-2.0 */
#include "control/judged.h"

#include "base/cleanup.h"

void judged_record(struct audit *a, const struct judged *j, bool runs) {
        bool forbidden = strcmp(j->decision, "forbidden") == 0;
        cleanup(free_ptr) char *detail = str_format("%s%s%s; in: %s", j->by ? j->by : "", j->by ? ": " : "", j->reason,
                                                    j->segment ? j->segment : j->command);
        const struct snapshot_rule rule = { .text = str_of(j->rule), .list = LIST_DENY };
        const struct event ev = { .kind = EVENT_COMMAND,
                                  .wall_us = clock_wall_us(),
                                  .rule = RULE_NONE,
                                  .reason = runs        ? REASON_ALLOWED
                                            : forbidden ? REASON_DENY_RULE
                                                        : REASON_ASK,
                                  .allowed = runs,
                                  .method = str_of(j->decision),
                                  .path = str_first(str_of(j->command), EVENT_TEXT_MAX),
                                  .detail = str_first(str_of(detail ? detail : j->reason), EVENT_TEXT_MAX) };
        (void)audit_add(a, &ev, *j->rule ? &rule : NULL);
}
