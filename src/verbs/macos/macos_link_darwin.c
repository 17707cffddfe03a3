/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/macos/macos_link.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/log.h"
#include "verbs/macos/macos_gateway.h"

#include <errno.h>
#include <poll.h>

/* One message. False: the program is gone. */
static bool link_take(const struct link *link, struct macos_gateway *gateway) {
        struct link_heard heard = { .judged = -1 };
        struct err err = { 0 };

        switch (link_hear(link, &heard)) {
        case LINK_GONE:
                return false;
        case LINK_ANSWER:
                macos_gateway_answer(gateway, heard.id, heard.allow);
                return true;
        case LINK_STAND:
                if (heard.allow)
                        link_stood(link, heard.id, EOPNOTSUPP);
                return true;
        case LINK_POLICY:
                if (macos_gateway_use(gateway, &heard, &err) < 0)
                        log_error("the new policy is not used: %s", err_text(&err));
                return true;
        default:
                return true;
        }
}

bool macos_link_hear(struct macos_link *link, struct macos_gateway *gateway) {
        while (link->link && !link->gone) {
                struct pollfd wait = { .fd = link->link->fd, .events = POLLIN };

                if (poll(&wait, 1, 0) <= 0)
                        return true;
                link->gone = !link_take(link->link, gateway);
        }

        return !link->gone;
}

void macos_link_denial(struct macos_link *link, const struct path_rules *rules, const struct violation *denial) {
        const struct path_rule *rule = NULL;
        cleanup(buf_done) struct buf process = BUF(4096);

        if (!link->link || !str_starts(str_of(denial->operation), STR("file-")) || denial->target[0] != '/')
                return;
        if (escape_text(&process, str_of(denial->process), 48) < 0 || buf_printf(&process, "[%u]", denial->pid) < 0)
                return;

        bool write = !str_starts(str_of(denial->operation), STR("file-read"));
        (void)path_rules_host_access(rules, denial->target, &rule);
        run_report_file(&link->report, denial->target, write, rule, buf_str(&process));
}

void macos_link_tell(const struct macos_link *link) {
        if (link->link && !link->gone)
                run_report_send(&link->report, link->link);
}

void macos_link_done(struct macos_link *link) {
        run_report_done(&link->report);
}
