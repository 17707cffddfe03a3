/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "policy/load.h"
#include "policy/paths/home_kind.h"
#include "policy/paths/served.h"
#include "sandbox/darwin/darwin_job.h"
#include "sandbox/darwin/os.h"
#include "verbs/macos_run.h"

#include <errno.h>

/* The profile is compared with paths as the kernel spells them. */
static int spell_places(struct policy *policy, struct err *err) {
        cleanup(free_ptr) char *home = os_canonical(policy->home), *workspace = os_canonical(policy->workspace);
        if (!home || !workspace)
                return err_set(err, ENOENT, "the home %s or the workspace %s is not there", policy->home,
                               policy->workspace);

        free(policy->home);
        free(policy->workspace);
        policy->home = take_ptr(&home);
        policy->workspace = take_ptr(&workspace);
        return 0;
}

static char **find_command(char *const *argv) {
        size_t n = 0;
        while (argv[n])
                n++;

        char **words = calloc(n + 1, sizeof *words);
        if (!words)
                return NULL;
        memcpy(words, argv, n * sizeof *words);
        words[0] = darwin_program(argv[0]);
        return words;
}

static enum macos_run_end run_policy(const struct macos_run_request *request, struct policy *policy, int *ret_code,
                                     struct err *err) {
        cleanup(free_ptr) char **words = find_command(request->argv);
        if (!words) {
                err_memory(err);
                return MACOS_RUN_FAILED;
        }

        cleanup(free_ptr) char *program = words[0];
        cleanup(darwin_job_done) struct darwin_job job = {
                .policy = policy, .argv = words, .real_home = !home_is_own(policy), .quiet = request->quiet
        };
        if (!program) {
                err_set(err, ENOENT, "%s is not in PATH", request->argv[0]);
                return MACOS_RUN_NOT_FOUND;
        }

        int r = darwin_job_prepare(&job, err);
        if (r < 0)
                return r == -EOPNOTSUPP || r == -EINVAL ? MACOS_RUN_BAD_POLICY : MACOS_RUN_FAILED;
        return darwin_job_run(&job, ret_code, err) < 0 ? MACOS_RUN_FAILED : MACOS_RUN_ENDED;
}

enum macos_run_end macos_run(const struct macos_run_request *request, int *ret_code, struct err *err) {
        const struct policy_request wanted = { .command_line = request->options, .program = request->argv[0] };
        cleanup(policy_freep) struct policy *policy = NULL;

        int r = policy_load(&wanted, &policy, err);
        if (r < 0)
                return r == -EPERM ? MACOS_RUN_REFUSED : MACOS_RUN_BAD_POLICY;
        if (policy_check_served(policy, PLACE_MACOS, err) < 0 || spell_places(policy, err) < 0)
                return MACOS_RUN_BAD_POLICY;

        return run_policy(request, policy, ret_code, err);
}
