/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/macos/macos_supervise.h"

#include "base/cleanup.h"
#include "base/random.h"
#include "sandbox/darwin/darwin_job.h"
#include "verbs/macos/macos_record.h"
#include "verbs/macos/macos_run.h"
#include "verbs/supervise_request.h"

#include <errno.h>

enum { NOT_FOUND = 127 };

/* As a shell has it, where a program is not there. */
static enum run_end run_job(const struct supervise_call *call, int *ret_status, bool *ret_signalled, struct err *err) {
        cleanup(free_ptr) char **argv = supervise_call_enter(call, err);
        if (!argv)
                return RUN_FAILED;

        const struct judged judged = supervise_call_judged(call);
        const struct macos_run_request request = { .policy = &call->settings.policy,
                                                   .argv = argv,
                                                   .hosts_file = call->request.hosts_file,
                                                   .ca_bundle = call->request.ca_bundle,
                                                   .quiet = true,
                                                   .starts_here = call->request.cwd != NULL,
                                                   .judged = call->request.judged.n ? &judged : NULL,
                                                   .link = call->link,
                                                   .ret_signalled = ret_signalled };

        switch (macos_run(&request, ret_status, err)) {
        case MACOS_RUN_ENDED:
                return RUN_ENDED;
        case MACOS_RUN_NOT_FOUND:
                *ret_status = NOT_FOUND;
                return RUN_ENDED;
        case MACOS_RUN_BAD_POLICY:
                return RUN_BAD_POLICY;
        case MACOS_RUN_REFUSED:
                return RUN_REFUSED;
        case MACOS_RUN_TIMED_OUT:
                return RUN_TIMED_OUT;
        case MACOS_RUN_LEFT:
                return RUN_CANCELLED;
        default:
                return RUN_FAILED;
        }
}

static int record_command(const struct supervise_call *call, const struct judged *judged, struct err *err) {
        cleanup(policy_freep) struct policy *policy = NULL;
        cleanup(macos_record_done) struct macos_record record = { 0 };
        char id[DARWIN_ID_MAX];
        int r = policy_load(&call->settings.policy, &policy, err);
        if (r < 0)
                return r;

        random_id(id, sizeof id);
        r = macos_record_place(&record, policy, id, err);
        if (r < 0)
                return r;

        const struct audit_settings settings = { .path = record.path, .run_id = id, .sandbox = id };
        r = audit_open(&settings, &record.audit, err);
        if (r < 0)
                return r;

        judged_record(record.audit, judged, call->request.job == SUPERVISE_RECORD);
        r = audit_close(record.audit, err);
        record.audit = NULL;
        return r;
}

/* A command before it runs. 2: nobody could be asked; 1: it was refused before. */
static enum run_end command_job(const struct supervise_call *call, int *ret_status, struct err *err) {
        struct judged judged = supervise_call_judged(call);
        bool asked = !judged.by;

        if (asked)
                judged.by = "nobody is there to be asked";
        if (record_command(call, &judged, err) < 0)
                return RUN_FAILED;

        *ret_status = asked ? 2 : 1;
        err_set(err, EACCES, "%s", judged.by); /* told with the end */
        return RUN_ENDED;
}

enum run_end macos_supervise(int *ret_status, struct err *err) {
        cleanup(supervise_call_done) struct supervise_call call = { 0 };
        enum run_end end = RUN_BAD_POLICY;
        bool signalled = false;

        if (supervise_call_take(&call, err) == 0) {
                if (call.request.job == SUPERVISE_RUN) {
                        end = run_job(&call, ret_status, &signalled, err);
                } else if (call.request.job == SUPERVISE_GATEWAY) {
                        err_set(err, EOPNOTSUPP, "macOS has no gateway by itself yet: each run has its own");
                        end = RUN_UNAVAILABLE;
                } else {
                        end = command_job(&call, ret_status, err);
                }
        }

        if (call.link)
                link_end(call.link, end, *ret_status, end == RUN_ENDED && signalled, err->code ? err_text(err) : NULL);
        return end;
}
