/* SPDX-License-Identifier: Apache-2.0 */
/* A profile of macOS holds rules for paths and none for what was found at them: there is nothing to look for. What is
 * looked at before a run and after it are the refused names (verbs/macos_guards.h). */
#include "sandbox/survey.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

int survey_host(const struct policy *policy, const struct path_rules *rules, const char *hidden, struct plan_host *ret,
                struct err *err) {
        (void)policy;
        (void)rules;
        (void)hidden;
        (void)err;
        memset(ret, 0, sizeof *ret);
        return 0;
}

int survey_add(struct plan_host *h, struct plan_path path, struct err *err) {
        cleanup(free_ptr) char *copy = str_dup(str_of(path.path)),
                               *link = path.link ? str_dup(str_of(path.link)) : NULL;

        if (!copy || (path.link && !link))
                return err_memory(err);

        path.path = copy;
        path.link = link;
        if (vec_push(&h->paths, path) < 0)
                return err_memory(err);

        take_ptr(&copy);
        take_ptr(&link);
        return 0;
}

void survey_done(struct plan_host *host) {
        for (size_t i = 0; i < host->paths.n; i++) {
                free((void *)(uintptr_t)host->paths.p[i].path);
                free((void *)(uintptr_t)host->paths.p[i].link);
        }
        vec_done(&host->paths);
        memset(host, 0, sizeof *host);
}

/* Repositories below the top of a writable place are files like others here. */
int survey_git_after(const struct policy *policy, const struct path_rules *rules, const struct plan_host *before,
                     uint64_t began_us, struct plan_host *ret, struct err *err) {
        (void)before;
        (void)began_us;
        return survey_host(policy, rules, NULL, ret, err);
}

int survey_git_made(const struct git_made *made, struct plan_host *ret, struct err *err) {
        (void)made;
        return survey_host(NULL, NULL, NULL, ret, err);
}
