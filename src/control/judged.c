/* SPDX-License-Identifier: Apache-2.0 */
#include "control/judged.h"

#include "base/cleanup.h"

static enum reason judged_reason(const struct judged *judged, bool runs) {
        if (runs)
                return REASON_ALLOWED;
        if (strcmp(judged->decision, "forbidden") == 0)
                return REASON_DENY_RULE;

        return REASON_ASK;
}

/* Who decided, if somebody did, why, and about which part of the command. NULL when out of memory. */
static char *judged_detail(const struct judged *judged) {
        const char *segment = text_or(judged->segment, judged->command);

        if (judged->by)
                return str_format("%s: %s; in: %s", judged->by, judged->reason, segment);
        return str_format("%s; in: %s", judged->reason, segment);
}

void judged_record(struct audit *audit, const struct judged *judged, bool runs) {
        cleanup(free_ptr) char *detail = judged_detail(judged);
        const struct snapshot_rule rule = { .text = str_of(judged->rule), .list = LIST_DENY };
        const struct event ev = { .kind = EVENT_COMMAND,
                                  .wall_us = clock_wall_us(),
                                  .rule = RULE_NONE,
                                  .reason = (uint16_t)judged_reason(judged, runs),
                                  .allowed = runs,
                                  .method = str_of(judged->decision),
                                  .path = str_first(str_of(judged->command), EVENT_TEXT_MAX),
                                  .detail = str_first(str_of(text_or(detail, judged->reason)), EVENT_TEXT_MAX) };

        (void)audit_add(audit, &ev, *judged->rule ? &rule : NULL);
}
