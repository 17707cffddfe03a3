/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/macos/macos_guards.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "sandbox/darwin/os.h"
#include "sandbox/survey.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- repositories --- */

/* The survey looks below what is granted for writing. */
static int add_granted(struct macos_guards *guards, const struct path_rules *rules, struct err *err) {
        for (size_t i = 0; i < path_rules_count(rules); i++) {
                const struct path_rule *rule = path_rules_at(rules, i);
                if (!rule->grants || rule->decides_read || rule->own)
                        continue;

                cleanup(free_ptr) char *path = os_canonical(rule->pattern);
                struct stat st;
                if (!path || stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
                        continue;

                const struct plan_path found = {
                        .path = path, .type = PLAN_PATH_DIR, .access = PATH_WRITE, .grants = true, .origin = ""
                };
                int r = survey_add(&guards->host, found, err);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* One more path that may not be written, or not even read. A sign of patterns in its name stands for any character. */
static int refuse_path(struct policy *policy, const struct plan_path *path, struct err *err) {
        struct origin_text entry = { .text = str_dup(str_of(path->path)), .origin = str_dup(str_of(path->origin)) };

        for (char *sign = entry.text; sign && (sign = strpbrk(sign, "*?[]{}\\"));)
                *sign++ = '?';
        origin_texts *list =
            path->access == PATH_DENIED ? &policy->filesystem.deny_read : &policy->filesystem.deny_write;
        if (entry.text && entry.origin && vec_push(list, entry) == 0)
                return 0;

        free(entry.text);
        free(entry.origin);
        return err_memory(err);
}

int macos_guards_survey(struct macos_guards *guards, struct policy *policy, struct err *err) {
        cleanup(path_rules_freep) struct path_rules *rules = NULL;
        int r = path_rules_compile(policy, &rules, err);

        if (r == 0)
                r = add_granted(guards, rules, err);
        if (r == 0)
                r = survey_git(policy, rules, &guards->host, err);
        if (r == 0)
                r = survey_refused_links(rules, &guards->host, err);

        for (size_t i = 0; i < guards->host.paths.n && r == 0; i++) {
                const struct plan_path *path = &guards->host.paths.p[i];

                if (!path->grants && path_rules_access(rules, path->path, NULL) == PATH_WRITE)
                        r = refuse_path(policy, path, err);
        }

        return r;
}

/* --- before --- */

static bool is_missing(const char *path) {
        struct stat st;

        return lstat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

/* What exists of a path as the kernel spells it, then the rest. NULL: nobody can say, or out of memory (errno). */
static char *spell_missing(const char *path) {
        cleanup(free_ptr) char *above = str_dup(str_of(path));
        char *slash = NULL;

        if (!above)
                return NULL;
        do {
                slash = strrchr(above, '/');
                *slash = '\0';
        } while (slash > above && is_missing(above));

        cleanup(free_ptr) char *real = os_canonical(slash > above ? above : "/");
        return real ? path_join(real, path + (slash - above) + 1) : NULL;
}

static bool is_in_roots(const struct guards *guards, const char *path) {
        for (size_t i = 0; i < guards->roots.n; i++)
                if (path_is_within(path, guards->roots.p[i]) && strcmp(path, guards->roots.p[i]) != 0)
                        return true;
        return false;
}

static int add_refused(struct macos_guards *guards, const struct path_rule *rule, struct err *err) {
        bool missing = is_missing(rule->pattern);
        cleanup(free_ptr) char *path = missing ? spell_missing(rule->pattern) : os_canonical(rule->pattern);

        if (!path && errno == ENOMEM)
                return err_memory(err);
        if (!path || !is_in_roots(&guards->guards, path))
                return 0;

        struct plan_path found = { .path = path, .type = PLAN_PATH_FILE, .access = PATH_READ, .origin = "" };
        found.protected = rule->protected;
        if (missing)
                found.type = PLAN_PATH_MISSING;
        if (rule->decides_read)
                found.access = PATH_DENIED;

        return survey_add(&guards->host, found, err);
}

static int find_refused(struct macos_guards *guards, const struct path_rules *rules, struct err *err) {
        for (size_t i = 0; i < path_rules_count(rules); i++) {
                const struct path_rule *rule = path_rules_at(rules, i);
                if (rule->grants || rule->is_glob || rule->own)
                        continue;

                int r = add_refused(guards, rule, err);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Those that are missing, and those that another sandbox has made. */
static int keep_missing(struct macos_guards *guards, struct err *err) {
        for (size_t i = 0; i < guards->host.paths.n; i++) {
                const struct plan_path *path = &guards->host.paths.p[i];
                const struct plan_guard guard = {
                        .path = path->path, .kind = PLAN_GUARD_MISSING, .why = "", .root = "/"
                };

                if (path->type == PLAN_PATH_MISSING && vec_push(&guards->plan.guards, guard) < 0)
                        return err_memory(err);
        }

        return 0;
}

/* --- after --- */

/* On record, and for the person who waits. */
static void guards_tell(const char *id, const struct guard_found *found, void *context) {
        struct macos_guards *guards = context;
        cleanup(buf_done) struct buf path = BUF(16384);

        guards_note(guards->audit, id, found);
        if (guards->quiet || found->done == GUARD_PRUNED || escape_text(&path, str_of(found->path), 4096) < 0)
                return;

        const char *did = found->done == GUARD_FILTERED ? "rewrote" : "moved away";
        (void)fprintf(stderr, "bailey: %s %.*s: protected, and not there before the run; see `bailey kept ls`\n", did,
                      STR_FMT(buf_str(&path)));
}

int macos_guards_begin(struct macos_guards *guards, const struct policy *policy, const struct path_rules *rules,
                       const char *id, struct audit *audit, struct err *err) {
        guards->audit = audit;
        guards->guards.id = id;
        guards->guards.report = guards_tell;
        guards->guards.context = guards;

        int r = guards_begin(&guards->guards, rules, err);
        if (r == 0)
                r = find_refused(guards, rules, err);
        if (r == 0)
                r = guards_share(&guards->guards, &guards->host, err);
        if (r == 0)
                r = keep_missing(guards, err);

        return r == 0 ? guards_record(&guards->guards, policy, rules, &guards->host, &guards->plan, err) : r;
}

void macos_guards_started(struct macos_guards *guards, pid_t pid) {
        struct err err = { 0 };

        if (guards_hold(&guards->guards, pid, &err) < 0)
                log_warning("%s", err_text(&err)); /* it has begun; only a killed Bailey would have needed this */
}

int macos_guards_end(struct macos_guards *guards, const struct policy *policy, const struct path_rules *rules, bool ran,
                     struct err *err) {
        if (!ran) {
                guards_drop(&guards->guards);
                return 0;
        }

        /* One that cannot be swept keeps no other from it. */
        int first = guards_end_repositories(&guards->guards, policy, rules, &guards->host, err);
        int r = guards_end(&guards->guards, &guards->plan, true, first < 0 ? NULL : err);

        return first < 0 ? first : r;
}

void macos_guards_done(struct macos_guards *guards) {
        guards_done(&guards->guards);
        vec_done(&guards->plan.guards);
        survey_done(&guards->host);
}
