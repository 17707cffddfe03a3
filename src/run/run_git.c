/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_git.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/log.h"
#include "policy/judge/snapshot.h"
#include "run/run_internal.h"

#include <stdlib.h>

struct git_end {
        struct run *run;
        void *bytes;
        struct snapshot *snapshot; /* NULL: made when it is asked for */
};

static void git_end_done(struct git_end *end) {
        snapshot_closep(&end->snapshot);
        free(end->bytes);
}

static void run_git_report(const struct git_copies_found *found, void *context) {
        struct git_end *end = context;
        struct run *run = end->run;

        run_report_git(&run->report, found);

        if (!run->session.audit)
                return;

        if (found->kept)
                (void)audit_note(run->session.audit,
                                 "%s: not all that the sandbox changed in its copy came back; the copy is kept as "
                                 "%s/%s",
                                 found->path, found->id, found->kept);
        else
                (void)audit_note(run->session.audit, "%s: not all that the sandbox changed in its copy came back",
                                 found->path);
}

/* By the rules that hold at the end. Git's ssh goes to hosts that are mostly allowed for HTTPS. */
static bool run_git_may_reach(struct str name, uint16_t port, void *context) {
        struct git_end *end = context;
        struct policy *policy = end->run->session.network ? end->run->session.network : end->run->session.policy;
        struct host host;
        size_t n = 0;

        if (!end->snapshot && (policy_compile_network(policy, NULL, 0, &end->bytes, &n, NULL) < 0 ||
                               snapshot_open(end->bytes, n, &end->snapshot, NULL) < 0))
                return false;

        if (host_parse(name, &host, NULL) < 0)
                return false;

        return verdict_target(end->snapshot, &host, port).decision == DECISION_ALLOW ||
               (port == 22 && verdict_target(end->snapshot, &host, 443).decision == DECISION_ALLOW);
}

int run_git_copy(struct run *run, struct err *err) {
        struct git_end end = { .run = run };

        if (run->preview || run->degraded || run->session.policy->filesystem.overlay ||
            run->session.policy->process.nesting)
                return 0;
        git_copies_sweep(run_git_report, &end);
        return git_copies_make(&run->git, run->session.id, &run->host, err);
}

void run_git_left_out(const char *path, size_t lines, struct str line, void *context) {
        const struct run *run = context;
        cleanup(buf_done) struct buf said = BUF(4096);

        (void)escape_text(&said, str_of(path), 400);
        (void)buf_printf(&said,
                         ": left out %zu line%s by which git would run something when you continue, such as: ", lines,
                         lines == 1 ? "" : "s");
        (void)escape_text(&said, line, 200);

        if (!run->q->quiet)
                log_notice("%.*s", STR_FMT(buf_str(&said)));
        if (run->session.audit)
                (void)audit_note(run->session.audit, "%.*s", STR_FMT(buf_str(&said)));
}

void run_git_end(struct run *run) {
        cleanup(git_end_done) struct git_end end = { .run = run };
        const struct git_copies_end request = {
                .id = run->session.id, .may_reach = run_git_may_reach, .report = run_git_report, .context = &end
        };

        git_copies_end(&run->git, &request);
}
