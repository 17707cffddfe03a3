/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_named.h"

#include "base/fd.h"
#include "base/log.h"
#include "run/run_internal.h"
#include "sandbox/answer.h"
#include "sandbox/marks.h"
#include "sandbox/survey.h"

#include <string.h>
#include <sys/socket.h>

static void named_warn(struct named *named, const char *why) {
        if (!named->warned)
                log_warning("the sandbox cannot write until it is known what git's configuration has come to name: %s",
                            why);
        named->warned = true;
}

/* The kernel bounds how many descriptors an account has on their way, and the sandbox may have used that up. Then the
 * broker is told that it failed, refuses the call and begins anew with the next one. It waits for an answer with all
 * calls behind it: if it cannot be told even that, it finds the socket closed, and ends. */
static void named_send(struct run *run, uint32_t number, enum named_answer value, int fd) {
        int sock = run->sandbox.events, r;

        if (sock < 0)
                return;

        r = broker_answer_send(sock, number, value, fd);
        if (r < 0 && value != NAMED_FAILED) {
                named_warn(&run->named, strerror(-r));
                named_again(&run->named);
                r = broker_answer_send(sock, number, NAMED_FAILED, -1);
        }

        if (r < 0)
                (void)shutdown(sock, SHUT_WR);
}

static void named_record(const struct run *run, size_t from) {
        for (size_t i = from; i < run->named.now.paths.n && run->session.audit; i++)
                (void)audit_note(run->session.audit, "closed %s: " NAMED_WHY, run->named.now.paths.p[i].path);
}

void run_named_event(void *arg, const struct event *event) {
        struct run *run = arg;
        struct named *named = &run->named;
        enum named_answer answer;
        struct err err = { 0 };
        size_t before = named->now.paths.n;
        int fd, r;

        named->policy = run->session.policy;
        named->rules = run->rules;
        named->before = &run->host;

        r = named_answer(named, &answer, &fd, &err);
        if (r < 0)
                named_warn(named, err_text(&err));

        if (named->now.git_incomplete && !named->warned_bound) {
                named->warned_bound = true;
                log_warning("what some of git's configuration has come to name stays open: " SURVEY_INCOMPLETE);
        }

        named_record(run, before);
        named_send(run, event->generation, answer, fd);
        if (answer == NAMED_MORE)
                close_fd(&fd);
}
