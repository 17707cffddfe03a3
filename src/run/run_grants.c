/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_grants.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "plan/landlock.h"
#include "policy/paths/asks.h"
#include "run/run_internal.h"
#include "sandbox/grant.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GRANTS_MAX = 64 };

/* --- what may be opened --- */

/* What it leads to, once and for all: a link would be judged here and followed there. */
static int look_at(const char *path, struct grant *ret, struct err *err) {
        cleanup(free_ptr) char *real = realpath(path, NULL);
        struct stat st;

        if (!real)
                return err_errno(err, "%s", path);
        if (strcmp(real, path) != 0)
                return err_set(err, EINVAL, "%s leads through a link: name %s", path, real);
        if (lstat(path, &st) < 0)
                return err_errno(err, "%s", path);
        if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
                return err_set(err, EINVAL, "%s is neither a file nor a directory", path);

        *ret = (struct grant){ .path = path, .dev = st.st_dev, .ino = st.st_ino, .directory = S_ISDIR(st.st_mode) };
        return 0;
}

static int grants_refuse(struct err *err, const char *path, const struct path_rule *rule) {
        return err_set(err, EACCES,
                       "%s stays closed by the rule %s (%s): a person's yes does not open what is denied or "
                       "protected",
                       path, rule->pattern, rule->origin);
}

/* The home of the sandbox's own covers the real one: that alone is no refusal. */
static bool only_covered(const struct path_rule *rule) {
        return !rule || rule->own;
}

/* A rule that refuses something below the directory: what would hide it was mounted at launch, elsewhere. */
static const struct path_rule *refused_below(const struct path_rules *rules, const char *directory) {
        for (size_t i = 0; i < path_rules_count(rules); i++) {
                const struct path_rule *rule = path_rules_at(rules, i);

                if (!rule->grants && rule->decides_read && !rule->own && !rule->anywhere &&
                    path_is_within(rule->pattern, directory) && access(rule->pattern, F_OK) == 0)
                        return rule;
        }

        return NULL;
}

static int judge_denied(const struct run *run, const struct grant *grant, struct err *err) {
        cleanup(path_rules_freep) struct path_rules *rules = NULL;
        const struct path_rule *rule = NULL;
        int r = asks_compile_real(run->session.policy, &rules, err);

        if (r < 0)
                return r;
        if (path_rules_host_access(rules, grant->path, &rule) == PATH_DENIED && rule)
                return grants_refuse(err, grant->path, rule);

        rule = grant->directory ? refused_below(rules, grant->path) : NULL;
        return rule ? grants_refuse(err, grant->path, rule) : 0;
}

static int judge_read(const struct run *run, const struct grant *grant, struct err *err) {
        const struct path_rule *rule = NULL;
        enum path_access access = path_rules_host_access(run->rules, grant->path, &rule);

        if (access != PATH_DENIED)
                return err_set(err, EEXIST, "%s can be read already", grant->path);
        return only_covered(rule) ? judge_denied(run, grant, err) : grants_refuse(err, grant->path, rule);
}

/* As if this one directory could be written: which names would be protected then? */
static int judge_root(const struct run *run, const char *root, const char *path, struct err *err) {
        const origin_texts before = run->session.policy->filesystem.write;
        cleanup(path_rules_freep) struct path_rules *rules = NULL;
        cleanup(origin_texts_done) origin_texts only = { 0 };
        const struct path_rule *rule = NULL;
        int r;

        if (origin_texts_add(&only, str_of(root), "a grant while it runs") < 0)
                return err_memory(err);

        run->session.policy->filesystem.write = only;
        r = asks_compile_real(run->session.policy, &rules, err);
        run->session.policy->filesystem.write = before;

        if (r < 0)
                return r;
        if (path_rules_access(rules, path, &rule) == PATH_WRITE)
                return 0;

        return rule ? grants_refuse(err, path, rule) : err_set(err, EACCES, "%s is protected", path);
}

/* A name may be protected in any of the directories above. */
static int judge_protected(const struct run *run, const char *path, struct err *err) {
        char root[PATH_MAX];
        int r = 0;

        if (snprintf(root, sizeof root, "%s", path) >= (int)sizeof root)
                return err_set(err, ENAMETOOLONG, "%s", path);

        for (char *slash; r == 0 && (slash = strrchr(root, '/')) && slash != root;) {
                *slash = '\0';
                r = judge_root(run, root, path, err);
        }

        return r;
}

static int judge_write(const struct run *run, const struct grant *grant, struct err *err) {
        const struct path_rule *rule = NULL;
        enum path_access access = path_rules_host_access(run->rules, grant->path, &rule);

        if (access == PATH_WRITE)
                return err_set(err, EEXIST, "%s can be written already", grant->path);
        if (rule && !rule->grants && !rule->own)
                return grants_refuse(err, grant->path, rule);

        if (grant->directory)
                return err_set(err, EOPNOTSUPP,
                               "%s is a directory: names in it that must be protected are looked for when a sandbox "
                               "starts; with --scope workspace it is open from the next start on",
                               grant->path);

        int r = judge_denied(run, grant, err);
        if (r < 0)
                return r;

        return judge_protected(run, grant->path, err);
}

/* Rules of Landlock add up, from the path to the root. */
static bool landlock_leaves(const struct plan *plan, const struct grant *grant) {
        uint64_t wanted = grant->write ? LANDLOCK_FS_WRITE_FILE | LANDLOCK_FS_READ_FILE : LANDLOCK_FS_READ_FILE,
                 has = 0;

        if (!plan->landlock.abi || !plan->landlock.handled_fs)
                return true;

        for (size_t i = 0; i < plan->landlock.rules.n; i++)
                if (path_is_within(grant->path, plan->landlock.rules.p[i].path))
                        has |= plan->landlock.rules.p[i].access;

        return (wanted & plan->landlock.handled_fs & ~has) == 0;
}

static bool in_own_home(const struct run *run, const char *path) {
        const char *home = run->session.policy->home_inside;

        return run->home.directory && home && path_is_within(path, home) && strcmp(path, home) != 0;
}

static int grants_judge(const struct run *run, struct grant *grant, struct err *err) {
        int r = grant->write ? judge_write(run, grant, err) : judge_read(run, grant, err);

        if (r < 0)
                return r;

        if (!landlock_leaves(run->plan, grant))
                return err_set(
                    err, EOPNOTSUPP,
                    "%s cannot be opened for %s while the sandbox runs: what Landlock holds was fixed at launch; "
                    "with --scope workspace it is open from the next start on",
                    grant->path, grant->write ? "writing" : "reading");

        grant->make = in_own_home(run, grant->path);
        return 0;
}

/* --- opening and closing --- */

static struct run_grant *grant_find(const struct run *run, const char *path) {
        for (size_t i = 0; i < run->grants.list.n; i++)
                if (strcmp(run->grants.list.p[i].path, path) == 0)
                        return &run->grants.list.p[i];
        return NULL;
}

/* What was opened for reading can still be opened for writing. */
static bool grant_is_open(const struct run *run, const char *path, bool write) {
        const struct run_grant *grant = grant_find(run, path);

        return grant && (grant->write || !write);
}

/* What it was mounted on is empty, unless the sandbox has put something there: then it is the sandbox's. */
static void remove_place(const struct run *run, const struct run_grant *grant) {
        if (!grant->made || run->home.files_fd < 0)
                return;

        const char *home = run->session.policy->home_inside, *below = grant->path + strlen(home) + 1;
        const char *name = strrchr(below, '/');
        cleanup(free_ptr) char *dir = name ? str_dup(str_n(below, (size_t)(name - below))) : str_dup(STR("."));
        struct stat st;

        if (!dir)
                return;

        cleanup(close_fd) int fd =
            path_open_at(run->home.files_fd, dir, O_PATH | O_DIRECTORY, 0, PATH_BENEATH | PATH_NO_SYMLINKS);
        name = name ? name + 1 : below;
        if (fd < 0 || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return;

        if (grant->directory)
                (void)unlinkat(fd, name, AT_REMOVEDIR);
        else if (S_ISREG(st.st_mode) && st.st_size == 0)
                (void)unlinkat(fd, name, 0);
}

static int grant_close(struct run *run, struct run_grant *grant, struct err *err) {
        int r = grant_unmount(run->denials.mounts, grant->mount, grant->path, err);

        if (r < 0)
                return r;

        close_fd(&grant->mount);
        remove_place(run, grant);
        free(grant->path);
        *grant = run->grants.list.p[--run->grants.list.n];
        return 0;
}

static int read_what(const char *what, bool *ret_write, const char **ret_path, struct err *err) {
        *ret_write = str_starts(str_of(what), STR("write /"));
        if (!*ret_write && !str_starts(str_of(what), STR("read /")))
                return err_set(err, EINVAL, "a path is asked for as 'read /PATH' or 'write /PATH'");
        *ret_path = strchr(what, '/');
        return 0;
}

int run_grant_judge(const struct run *run, const char *what, struct grant *ret, struct err *err) {
        struct grant grant = { 0 };
        const char *path;
        bool write;
        int r = read_what(what, &write, &path, err);

        if (r == 0 && run->denials.mounts < 0)
                r = err_set(err, EOPNOTSUPP, "paths cannot be opened in a sandbox without namespaces");
        if (r == 0 && (grant_is_open(run, path, write) || run->grants.list.n >= GRANTS_MAX))
                r = err_set(err, EEXIST, "%s was opened already, or too many paths were", path);
        if (r == 0)
                r = look_at(path, &grant, err);
        if (r < 0)
                return r;

        grant.write = write;
        r = grants_judge(run, &grant, err);
        if (r < 0)
                return r;

        *ret = grant;
        return 0;
}

bool run_grants_cover(const struct run *run, const char *what) {
        struct err ignored = { 0 };
        const char *path;
        bool write;

        if (read_what(what, &write, &path, &ignored) < 0)
                return false;

        for (size_t i = 0; i < run->grants.list.n; i++)
                if (path_is_within(path, run->grants.list.p[i].path) && (!write || run->grants.list.p[i].write))
                        return true;
        return false;
}

int run_grant_path(void *arg, const char *what, struct err *err) {
        struct run *run = arg;
        struct grant grant = { 0 };
        int r = run_grant_judge(run, what, &grant, err);

        return r < 0 ? r : run_grant_mount(run, what, &grant, err);
}

int run_grant_mount(struct run *run, const char *what, const struct grant *grant, struct err *err) {
        struct run_grant kept = { .path = str_dup(str_of(grant->path)),
                                  .mount = -1,
                                  .write = grant->write,
                                  .directory = grant->directory,
                                  .made = grant->make };
        struct run_grant *before = grant_find(run, grant->path);
        int r = before ? grant_close(run, before, err) : 0;

        if (r < 0) {
                free(kept.path);
                return r;
        }

        if (!kept.path || vec_push(&run->grants.list, kept) < 0) {
                free(kept.path);
                return err_memory(err);
        }

        r = grant_mount(run->denials.mounts, grant, &run->grants.list.p[run->grants.list.n - 1].mount, err);
        if (r < 0) {
                free(kept.path);
                run->grants.list.n--;
                return r;
        }

        if (run->session.audit)
                (void)audit_note(run->session.audit, "path opened while it runs: %s", what);

        return 0;
}

int run_revoke_path(void *arg, const char *what, struct err *err) {
        struct run *run = arg;
        struct run_grant *grant;
        const char *path;
        bool write;
        int r = read_what(what, &write, &path, err);

        grant = r < 0 ? NULL : grant_find(run, path);
        if (r == 0 && (!grant || grant->write != write))
                r = err_set(err, ENOENT, "%s was not opened while this sandbox runs", path);
        if (r == 0)
                r = grant_close(run, grant, err);
        if (r < 0)
                return r;
        if (run->session.audit)
                (void)audit_note(run->session.audit, "path closed again: %s", what);

        return 0;
}

void run_grants_done(struct run *run) {
        for (size_t i = 0; i < run->grants.list.n; i++) {
                remove_place(run, &run->grants.list.p[i]);
                free(run->grants.list.p[i].path);
                close_fd(&run->grants.list.p[i].mount);
        }
        vec_done(&run->grants.list);
}
