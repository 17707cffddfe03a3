/* SPDX-License-Identifier: Apache-2.0 */
#include "control/judged.h"

#include "base/cleanup.h"

void judged_record(struct audit *audit, const struct judged *judged, bool runs) {
        bool forbidden = strcmp(judged->decision, "forbidden") == 0;
        cleanup(free_ptr) char *detail =
            str_format("%s%s%s; in: %s", judged->by ? judged->by : "", judged->by ? ": " : "", judged->reason,
                       judged->segment ? judged->segment : judged->command);
        const struct snapshot_rule rule = { .text = str_of(judged->rule), .list = LIST_DENY };
        const struct event ev = { .kind = EVENT_COMMAND,
                                  .wall_us = clock_wall_us(),
                                  .rule = RULE_NONE,
                                  .reason = runs        ? REASON_ALLOWED
                                            : forbidden ? REASON_DENY_RULE
                                                        : REASON_ASK,
                                  .allowed = runs,
                                  .method = str_of(judged->decision),
                                  .path = str_first(str_of(judged->command), EVENT_TEXT_MAX),
                                  .detail = str_first(str_of(detail ? detail : judged->reason), EVENT_TEXT_MAX) };

        (void)audit_add(audit, &ev, *judged->rule ? &rule : NULL);
}
