/* SPDX-License-Identifier: Apache-2.0 */
#include "control/own_records.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "store/audit_place.h"

#include <errno.h>
#include <stdlib.h>

/* One more path that is closed; takes `given`. */
static int records_hide(struct plan_host *host, char *given, enum plan_path_type type, struct err *err) {
        cleanup(free_ptr) char *path = given;
        struct plan_path closed = {
                .path = path, .type = type, .access = PATH_DENIED, .origin = "built in: Bailey's own records"
        };
        if (!path || vec_push(&host->paths, closed) < 0)
                return err_memory(err);

        take_ptr(&path);
        return 0;
}

/* Wherever it is, and also when this run is the first to have some. */
static int hide_state(struct plan_host *host, struct err *err) {
        cleanup(free_ptr) char *directory = NULL;
        int r = audit_directory(&directory, err);
        if (r < 0)
                return r;

        char *slash = strrchr(directory, '/');
        if (slash > directory)
                *slash = '\0'; /* all of the state, not only this part */

        char *real = realpath(directory, NULL);
        if (real)
                return records_hide(host, real, PLAN_PATH_DIR, err);

        return 0; /* none yet */
}

/* The closest path that decides over this one, as the plan will have it. */
static const struct plan_path *records_decides(const struct plan_host *host, const char *path) {
        const struct plan_path *best = NULL;

        for (size_t i = 0; i < host->paths.n; i++) {
                const struct plan_path *plan_path = &host->paths.p[i];
                if (plan_path->type != PLAN_PATH_MISSING && path_is_within(path, plan_path->path) &&
                    (!best || strlen(plan_path->path) > strlen(best->path)))
                        best = plan_path;
        }

        return best;
}

/* A file that a person named. The sandbox must not be able to write there under any of its names (it is rotated, too),
 * or it could change its own record. */
static int named_file(const struct policy *policy, const struct path_rules *rules, bool make, struct plan_host *host,
                      char **ret, struct err *err) {
        cleanup(free_ptr) char *path = NULL, *directory = NULL, *real = NULL;
        cleanup(close_fd) int fd = -1;

        if (path_normalise(str_of(policy->audit_path), host->cwd, &path) < 0)
                return err_set(err, EINVAL, "the audit file %s cannot be used", policy->audit_path);

        char *slash = strrchr(path, '/');
        directory = str_dup(str_n(path, slash > path ? (size_t)(slash - path) : 1));
        real = directory ? realpath(directory, NULL) : NULL;
        if (!real)
                return err_errno(err, "the audit cannot be written: %s", path);

        const struct plan_path *by = records_decides(host, real);
        if ((by && by->access == PATH_WRITE) || path_rules_host_access(rules, real, NULL) == PATH_WRITE)
                return err_set(err, EPERM,
                               "the audit file %s lies in %s, where the sandbox may write: it could change its own "
                               "record. Name a file elsewhere with --audit",
                               path, by ? by->path : real);

        *ret = path_join(real, slash + 1);
        int r = 0;

        if (!*ret)
                r = err_memory(err);

        if (r == 0 && make) /* only what exists can be hidden */
                r = path_open_append(*ret, 0600, &fd, err);
        if (r < 0)
                return err_wrap(err, r, "the audit cannot be written");

        return records_hide(host, strdup(*ret), PLAN_PATH_FILE, err);
}

int own_records(const struct policy *policy, const struct path_rules *rules, const char *id, struct plan_host *host,
                char **ret_path, struct err *err) {
        cleanup(free_ptr) char *path = NULL;
        int r;
        if (policy->audit_path)
                r = named_file(policy, rules, id, host, &path, err);
        else if (id)
                r = audit_run_path(id, &path, err);
        else
                r = 0;

        if (r == 0)
                r = hide_state(host, err);
        if (r < 0)
                return r;
        if (id)
                *ret_path = take_ptr(&path);

        return 0;
}
