/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/trust_files.h"

#include "base/cleanup.h"
#include "policy/load.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

void trust_report_done(struct trust_report *report) {
        for (size_t i = 0; i < report->wishes.n; i++) {
                free(report->wishes.p[i].place);
                free(report->wishes.p[i].key);
                free(report->wishes.p[i].text);
        }

        vec_done(&report->wishes);
        free(report->path);
        *report = (struct trust_report){ 0 };
}

/* "dir/.bailey.yaml" means dir. */
static char *directory_of(const char *given) {
        struct stat st;
        const char *slash = strrchr(given, '/');
        if (lstat(given, &st) < 0 || S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode))
                return str_dup(str_of(given));
        if (!slash)
                return str_dup(STR("."));

        if (slash == given)
                return str_dup(STR("/"));

        return str_dup(str_n(given, (size_t)(slash - given)));
}

static int take_wishes(struct workspace_file *from, struct trust_report *to, struct err *err) {
        for (size_t i = 0; i < from->widenings.n; i++) {
                struct widening *widening = &from->widenings.p[i];
                struct trust_wish wish = { .place = widening->place, .key = widening->key, .text = widening->text };
                if (vec_push(&to->wishes, wish) < 0)
                        return err_memory(err);

                *widening = (struct widening){ 0 };
        }

        return 0;
}

int trust_examine(const char *directory, struct trust_report *ret, struct err *err) {
        cleanup(free_ptr) char *workspace = directory ? directory_of(directory) : NULL;
        cleanup(workspace_file_done) struct workspace_file file = { 0 };
        cleanup(trust_report_done) struct trust_report report = { 0 };
        struct policy_request request = { .workspace = workspace, .network_only = true };

        if (directory && !workspace)
                return err_memory(err);

        int r = policy_examine_workspace(&request, &file, err);
        if (r < 0)
                return r;

        r = take_wishes(&file, &report, err);
        if (r < 0)
                return r;

        report.path = take_ptr(&file.path);
        report.trusted = file.trusted;
        memcpy(report.digest, file.digest, sizeof report.digest);
        *ret = report;
        report = (struct trust_report){ 0 };

        return 0;
}
