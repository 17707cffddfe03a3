/* SPDX-License-Identifier: Apache-2.0 */
#include "store/audit_place.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "conf/dirs.h"

#include <dirent.h>
#include <errno.h>

static const char suffix[] = ".jsonl";
enum { STAMP = 23 }; /* "20261115-031407-123456-" */

int audit_directory(char **ret, struct err *err) {
        cleanup(free_ptr) char *state = NULL;
        int r = dirs_state(&state);
        if (r == -ENOENT)
                return err_set(err, ENOENT,
                               "there is no home directory to keep the audit log in; name a file with --audit");

        char *path = r < 0 ? NULL : path_join(state, "audit");
        if (!path)
                return err_memory(err);

        *ret = path;
        return 0;
}

int audit_run_path(const char *run_id, char **ret, struct err *err) {
        cleanup(free_ptr) char *directory = NULL;
        char ts[CLOCK_TEXT_MAX]; /* 2026-11-15T03:14:07.123456Z */

        if (!audit_id_valid(run_id))
                return err_set(err, EINVAL, "a run id must be 1 to %d letters, digits, '-' or '_'", AUDIT_ID_MAX - 1);

        int r = audit_directory(&directory, err);
        if (r == 0)
                r = path_make_private_dir(directory, err);
        if (r < 0)
                return r;

        clock_text(clock_wall_us(), ts);
        char *path = str_format("%s/%.4s%.2s%.2s-%.2s%.2s%.2s-%.6s-%s%s", directory, ts, ts + 5, ts + 8, ts + 11,
                                ts + 14, ts + 17, ts + 20, run_id, suffix);
        if (!path)
                return err_memory(err);

        *ret = path;
        return 0;
}

int audit_open_service(const char *name, struct audit **ret, struct err *err) {
        cleanup(free_ptr) char *directory = NULL, *path = NULL;
        int r;

        r = audit_directory(&directory, err);
        if (r < 0)
                return r;
        r = path_make_private_dir(directory, err);
        if (r < 0)
                return r;

        path = str_format("%s/%s%s", directory, name, suffix);
        if (!path)
                return err_memory(err);

        const struct audit_settings settings = { .path = path, .run_id = name, .sandbox = name };
        return audit_open(&settings, ret, err);
}

static bool is_run_name(struct str name) {
        static const char form[] = "dddddddd-dddddd-dddddd-";
        if (name.n <= STAMP + sizeof suffix - 1 || !str_ends(name, str_of(suffix)))
                return false;
        for (size_t i = 0; i < STAMP; i++)
                if (form[i] == 'd' ? !ascii_is_digit(name.p[i]) : name.p[i] != form[i])
                        return false;
        return true;
}

static int by_name(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static void close_directory(DIR **dir) {
        if (*dir)
                closedir(*dir);
}

int audit_runs(audit_names *ret, struct err *err) {
        cleanup(free_ptr) char *directory = NULL;
        int r = audit_directory(&directory, err);
        if (r < 0)
                return r;

        cleanup(close_directory) DIR *d = opendir(directory);
        if (!d && errno == ENOENT)
                return 0;
        if (!d)
                return err_errno(err, "cannot read the directory %s", directory);

        struct dirent *entry;

        while ((entry = readdir(d))) {
                if (!is_run_name(str_of(entry->d_name)))
                        continue;
                char *path = path_join(directory, entry->d_name);
                if (!path || vec_push(ret, path) < 0) {
                        free(path);
                        return err_memory(err);
                }
        }

        if (ret->n)
                qsort(ret->p, ret->n, sizeof *ret->p, by_name);

        return 0;
}

struct str audit_run_id(const char *path) {
        struct str name = str_skip(path_basename(path), STAMP);
        return str_first(name, name.n - (sizeof suffix - 1));
}

int audit_find_run(const char *run_id, char **ret, struct err *err) {
        cleanup(audit_names_done) audit_names runs = { 0 };
        int r = audit_runs(&runs, err);
        if (r < 0)
                return r;

        const char *found = NULL;
        size_t matches = 0;

        for (size_t i = 0; i < runs.n; i++) {
                if (run_id && str_is(audit_run_id(runs.p[i]), run_id)) {
                        found = runs.p[i];
                        matches = 1;
                        break;
                }

                if (!run_id || str_starts(audit_run_id(runs.p[i]), str_of(run_id))) {
                        found = runs.p[i]; /* the last one is the latest */
                        matches++;
                }
        }

        if (!found && run_id)
                return err_set(err, ENOENT, "there is no audit log of a run \"%s\"", run_id);
        if (!found)
                return err_set(err, ENOENT, "there is no audit log yet: nothing was run");

        if (run_id && matches > 1)
                return err_set(err, EINVAL, "%zu runs begin with \"%s\"; give more of the id", matches, run_id);

        *ret = str_format("%s", found);
        if (!*ret)
                return err_memory(err);

        return 0;
}
