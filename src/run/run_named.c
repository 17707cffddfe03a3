/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_named.h"

#include "base/fd.h"
#include "base/log.h"
#include "run/run_internal.h"
#include "sandbox/marks.h"

#include <errno.h>

/* One that cannot be told is gone, or will be. The kernel bounds descriptors on their way, and the sandbox may have
 * used that up: then the broker is told so, and asks again. */
static void named_send(struct run *run, uint32_t number, enum named_answer value, int fd) {
        const struct broker_answer answer = { number, value }, nothing = { number, NAMED_NOTHING };
        struct named *named = &run->named;

        if (run->sandbox.events < 0 || fd_set_nonblocking(run->sandbox.events, true) < 0)
                return;
        if (fd_send(run->sandbox.events, str_n((const char *)&answer, sizeof answer), &fd, fd >= 0) == 0 || fd < 0)
                return;

        if (value == NAMED_WATCH)
                named_again(named);
        else
                named->told = 0;
        (void)fd_send(run->sandbox.events, str_n((const char *)&nothing, sizeof nothing), NULL, 0);
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
                log_warning("what git's configuration has come to name stays open until the end: %s", err_text(&err));

        named_record(run, before);
        named_send(run, event->generation, answer, fd);
        if (fd >= 0 && fd != named->watch)
                close_fd(&fd);
}
