/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/paths/paths.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "base/vec.h"
#include "conf/suggest.h"
#include "policy/home_kind.h"
#include "policy/match/glob.h"
#include "policy/paths/moved.h"
#include "policy/paths/path_index.h"
#include "policy/paths/paths_builtin.h"

#include <errno.h>
#include <stdlib.h>

enum { RULES_USUAL = 512 }; /* built-in ones mostly */

struct compiled {
        struct path_rule rule; /* the pattern is owned, the origin only where it was made up here */
        size_t depth;          /* components of the pattern */
        size_t literal;        /* of a glob: its directories before the first with magic. What it matches begins so */
        char *owned_origin;
        struct str needle; /* of a glob: a part of its last name that stands for itself. What it matches has it */
};

struct path_rules {
        VEC(struct compiled) rules;
        VEC(uint32_t) globs;     /* their numbers in `rules` */
        struct path_index plain; /* the others */
        bool reads_open;
};

/* The longest piece of the last component between its stars, up to the first class. For most paths it shows that the
 * glob cannot match, at a tenth of the cost of a match. */
static struct str needle_of(const char *pattern) {
        const char *last = strrchr(pattern, '/');
        struct str best = { 0 };

        if (!last)
                return best;

        for (const char *at = last; *at && *at != '[';) {
                size_t n = strcspn(at, "*?[");

                if (n > best.n)
                        best = str_n(at, n);

                at += n;
                while (*at == '*' || *at == '?')
                        at++;
        }

        return best;
}

static struct compiled paths_compiled(struct path_rule rule, char *owned_origin) {
        size_t literal = rule.is_glob ? strcspn(rule.pattern, "*?[\\") : strlen(rule.pattern);
        while (rule.is_glob && literal > 0 && rule.pattern[literal] != '/') /* `**` may stand for no component at all */
                literal--;
        struct str needle = rule.is_glob ? needle_of(rule.pattern) : (struct str){ 0 };
        return (struct compiled){ rule, path_depth(rule.pattern), literal, owned_origin, needle };
}

void path_rules_free(struct path_rules *rules) {
        if (!rules)
                return;

        for (size_t i = 0; i < rules->rules.n; i++) {
                free((char *)rules->rules.p[i].rule.pattern);
                free(rules->rules.p[i].owned_origin);
        }

        vec_done(&rules->rules);
        vec_done(&rules->globs);
        path_index_done(&rules->plain);
        free(rules);
}

void path_rules_freep(struct path_rules **rules) {
        path_rules_free(*rules);
}

/* --- compiling --- */

static int no_memory(struct err *err) {
        return err_set(err, ENOMEM, "out of memory for the path rules");
}

static bool has_any_depth(const char *pattern) {
        struct str rest = str_of(pattern), part;
        while (str_split(&rest, '/', &part))
                if (str_is(part, "**"))
                        return true;
        return false;
}

/* A pattern that begins with ** holds from the root down, wherever it was written. */
static int absolute_pattern(const struct policy *policy, const char *text, char **ret) {
        struct str s = str_of(text);
        const char *base = str_is(s, "**") || str_starts(s, STR("**/")) ? "/" : policy->workspace;

        if (s.n > 0 && s.p[0] == '~') {
                cleanup(free_ptr) char *expanded = NULL;
                int r = path_expand_home(s, policy->home, &expanded);
                if (r < 0)
                        return r;

                return path_normalise(str_of(expanded), NULL, ret);
        }

        return path_normalise(s, base, ret);
}

/* Takes the pattern, which is absolute and normalised. The origin is copied, unless the rule is built in: those have
 * theirs in a table. */
static int paths_push(struct path_rules *rules, struct path_rule kind, char *taken_pattern, const char *origin,
                      struct err *err) {
        cleanup(free_ptr) char *pattern = taken_pattern;
        cleanup(free_ptr) char *copy = kind.built_in ? NULL : strdup(text_or(origin, ""));
        if (!pattern || (!copy && !kind.built_in) || vec_reserve(&rules->rules, 1) < 0)
                return no_memory(err);

        kind.is_glob = glob_has_magic(str_of(pattern));
        kind.anywhere = kind.is_glob && has_any_depth(pattern);
        kind.origin = copy ? copy : origin;
        kind.pattern = pattern;
        rules->rules.p[rules->rules.n++] = paths_compiled(kind, take_ptr(&copy));
        take_ptr(&pattern);

        return 0;
}

/* `kind` gives the flags; the text is copied. */
static int paths_add(struct path_rules *rules, const struct policy *policy, struct path_rule kind, const char *text,
                     const char *origin, struct err *err) {
        cleanup(free_ptr) char *pattern = NULL;
        int status = absolute_pattern(policy, text, &pattern);
        if (status == -ENOMEM)
                return no_memory(err);

        if (status < 0)
                return err_set(err, EINVAL,
                               "%s: %s is not a path (write it absolute, from ~/, or relative to the workspace)",
                               text_or(origin, "?"), show(str_of(text)).text);

        if (kind.grants && glob_has_magic(str_of(pattern)))
                return err_set(err, EINVAL,
                               "%s: %s: globs are for denials only; grant the directory, and deny what is too much "
                               "below it",
                               text_or(origin, "?"), show(str_of(text)).text);

        return paths_push(rules, kind, take_ptr(&pattern), origin, err);
}

static int add_texts(struct path_rules *rules, const struct policy *policy, struct path_rule kind,
                     const origin_texts *texts, struct err *err) {
        for (size_t i = 0; i < texts->n; i++) {
                int status = paths_add(rules, policy, kind, texts->p[i].text, texts->p[i].origin, err);
                if (status < 0)
                        return status;
        }
        return 0;
}

typedef VEC(const char *) grants;
static void grants_done(grants *list) {
        vec_done(list);
}

/* Patterns that are granted for writing: a few, among hundreds of rules. They stay the rules'. */
static int write_grants(const struct path_rules *rules, grants *ret, struct err *err) {
        for (size_t i = 0; i < rules->rules.n; i++) {
                const struct path_rule *rule = &rules->rules.p[i].rule;
                if (!rule->decides_read && rule->grants && vec_push(ret, rule->pattern) < 0)
                        return no_memory(err);
        }
        return 0;
}

/* Whether something at, around or below this path is granted for writing: elsewhere a protection says nothing. */
static bool touches_write_grant(const grants *granted, const char *path) {
        for (size_t i = 0; i < granted->n; i++)
                if (path_is_within(path, granted->p[i]) || path_is_within(granted->p[i], path))
                        return true;
        return false;
}

/* Every launch does this for all of the table, so it is joined and nothing more: the names in it are normal, and so is
 * the directory. */
static int add_protected(struct path_rules *rules, const char *directory, const struct builtin_path *table, size_t n,
                         struct err *err) {
        const struct path_rule kind = { .built_in = true, .protected = true };
        cleanup(grants_done) grants granted = { 0 };
        int status;

        status = write_grants(rules, &granted, err);
        if (status < 0)
                return status;
        if (!touches_write_grant(&granted, directory))
                return 0; /* then nothing below it does */

        for (size_t i = 0; i < n; i++) {
                cleanup(free_ptr) char *path = path_join(directory, table[i].path);
                if (!path)
                        return no_memory(err);
                if (!touches_write_grant(&granted, path))
                        continue;

                status = paths_push(rules, kind, take_ptr(&path), table[i].reason, err);
                if (status < 0)
                        return status;
        }

        return 0;
}

/* Homes of people hold keys: other accounts' as well, and this account's when HOME names another directory. */
static int add_hidden_homes(struct path_rules *rules, const struct policy *policy, struct err *err) {
        const struct path_rule deny = { .built_in = true, .decides_read = true };

        for (size_t i = 0; i < policy->filesystem.hidden_homes.n; i++) {
                int status = paths_push(rules, deny, strdup(policy->filesystem.hidden_homes.p[i].text),
                                        BUILT_IN "homes hold keys; --read opens a path in one", err);
                if (status < 0)
                        return status;
        }

        return 0;
}

/* With the real home: keys in the homes of other accounts, and in this one's when HOME names another directory. */
static int add_denied_elsewhere(struct path_rules *rules, const struct policy *policy, struct err *err) {
        const struct path_rule deny = { .built_in = true, .decides_read = true };

        for (size_t i = 0; i < policy->filesystem.hidden_homes.n; i++)
                for (size_t j = 0; j < builtin_deny_read_n; j++) {
                        const struct builtin_path *path = &builtin_deny_read[j];
                        if (path->path[0] != '~')
                                continue;

                        int status = paths_push(rules, deny,
                                                path_join(policy->filesystem.hidden_homes.p[i].text, path->path + 2),
                                                path->reason, err);
                        if (status < 0)
                                return status;
                }

        return 0;
}

static int add_moved(struct path_rules *rules, const struct policy *policy, struct err *err) {
        const struct path_rule deny = { .built_in = true, .decides_read = true };

        for (size_t i = 0; i < policy->filesystem.moved.n; i++) {
                const struct origin_text *moved = &policy->filesystem.moved.p[i];
                const char *reason = strcmp(moved->origin, MOVED_OWN_STATE) == 0 ? BUILT_IN_OWN_STATE
                                                                                 : BUILT_IN
                                         "a variable of the environment names it as a place of credentials";

                int status = paths_push(rules, deny, strdup(moved->text), reason, err);
                if (status < 0)
                        return status;
        }

        return 0;
}

/* The sandbox's own home lies under every rule that lays something into it. */
static int add_own_home(struct path_rules *rules, const struct policy *policy, struct err *err) {
        const struct path_rule own = { .built_in = true, .grants = true, .own = true };

        if (!home_is_own(policy) || !policy->home_inside)
                return 0;
        return paths_push(rules, own, strdup(policy->home_inside), BUILT_IN "the sandbox has a home of its own", err);
}

/* Whether a grant in the home concerns this path: the rest of the home is not there anyway. */
static bool touches_home_grant(const struct path_rules *rules, const char *home, const char *pattern) {
        for (size_t i = 0; i < rules->rules.n; i++) {
                const struct path_rule *rule = &rules->rules.p[i].rule;
                if (rule->grants && path_is_within(rule->pattern, home) &&
                    (path_is_within(pattern, rule->pattern) || path_is_within(rule->pattern, pattern)))
                        return true;
        }
        return false;
}

/* With a home of its own: what a grant in the home would show of the secrets there. */
static int add_denied_in_grants(struct path_rules *rules, const char *home, struct err *err) {
        const struct path_rule deny = { .built_in = true, .decides_read = true };

        if (!touches_home_grant(rules, home, home))
                return 0;

        for (size_t i = 0; i < builtin_deny_read_n; i++) {
                const struct builtin_path *builtin_path = &builtin_deny_read[i];
                if (builtin_path->path[0] != '~')
                        continue;

                cleanup(free_ptr) char *path = path_join(home, builtin_path->path + 2);
                if (!path)
                        return no_memory(err);
                if (!touches_home_grant(rules, home, path))
                        continue;

                int status = paths_push(rules, deny, take_ptr(&path), builtin_path->reason, err);
                if (status < 0)
                        return status;
        }

        return 0;
}

static int add_denied(struct path_rules *rules, const char *home, struct err *err) {
        const struct path_rule deny = { .built_in = true, .decides_read = true };

        for (size_t i = 0; i < builtin_deny_read_n; i++) {
                const struct builtin_path *path = &builtin_deny_read[i];
                bool in_home = path->path[0] == '~';
                if (in_home && !home)
                        continue;

                int status = paths_push(rules, deny, in_home ? path_join(home, path->path + 2) : strdup(path->path),
                                        path->reason, err);
                if (status < 0)
                        return status;
        }

        return 0;
}

/* A root that is an agent's own directory, wherever it lies. */
static int add_agent_settings(struct path_rules *rules, const char *root, struct err *err) {
        const struct path_rule kind = { .built_in = true, .protected = true };

        for (size_t i = 0; i < builtin_agent_settings_n; i++) {
                const struct builtin_path *row = &builtin_agent_settings[i];
                size_t n = builtin_agent_directory(row->path), root_n = strlen(root);

                if (root_n <= n || root[root_n - n - 1] != '/' || memcmp(root + root_n - n, row->path, n) != 0)
                        continue;

                int status = paths_push(rules, kind, path_join(root, row->path + n + 1), row->reason, err);
                if (status < 0)
                        return status;
        }

        return 0;
}

/* Names that are protected in the workspace are protected in every other writable directory: a repository there is a
 * repository too. A root inside another one is an ordinary directory of it. */
static int add_roots(struct path_rules *rules, const char *home, const char *workspace, struct err *err) {
        size_t n = rules->rules.n;

        for (size_t i = 0; i < n; i++) {
                const struct path_rule rule = rules->rules.p[i].rule; /* a copy: the list grows */
                bool inner =
                    (workspace && path_is_within(rule.pattern, workspace)) || (home && strcmp(rule.pattern, home) == 0);

                if (rule.decides_read || !rule.grants || rule.own)
                        continue;

                for (size_t j = 0; j < n && !inner; j++) {
                        const struct path_rule *other = &rules->rules.p[j].rule;
                        bool wider = !other->decides_read && other->grants && !other->own && j != i &&
                                     path_is_within(rule.pattern, other->pattern);

                        inner = wider && (j < i || strcmp(rule.pattern, other->pattern) != 0);
                }

                if (inner)
                        continue;

                int status = add_protected(rules, rule.pattern, builtin_protected, builtin_protected_n, err);
                if (status == 0)
                        status = add_agent_settings(rules, rule.pattern, err);
                if (status < 0)
                        return status;
        }

        return 0;
}

static int add_builtin(struct path_rules *rules, const struct policy *policy, struct err *err) {
        cleanup(free_ptr) char *home = NULL, *workspace = NULL;
        if ((policy->home && path_normalise(str_of(policy->home), NULL, &home) < 0) ||
            (policy->workspace && path_normalise(str_of(policy->workspace), NULL, &workspace) < 0))
                return err_set(err, EINVAL, "the home directory or the workspace is not an absolute path");

        int status = add_denied(rules, home_is_own(policy) ? NULL : home, err);
        if (status == 0)
                status = add_moved(rules, policy, err);

        if (status == 0)
                status = home_is_own(policy) ? add_hidden_homes(rules, policy, err)
                                             : add_denied_elsewhere(rules, policy, err);

        if (status == 0 && home_is_own(policy) && policy->home_inside)
                status = add_denied_in_grants(rules, policy->home_inside, err);
        if (status == 0 && workspace && !policy->guest)
                status = add_protected(rules, workspace, builtin_protected, builtin_protected_n, err);
        if (status == 0 && home && !(workspace && strcmp(home, workspace) == 0))
                status = add_protected(rules, home, builtin_protected, builtin_protected_n, err);
        if (status == 0 && home)
                status = add_protected(rules, home, builtin_home_protected, builtin_home_protected_n, err);
        if (status < 0)
                return status;

        return add_roots(rules, home, workspace, err);
}

/* Mode read-only is a ceiling: nothing of the host is written, whatever the lists say. */
static int add_writes(struct path_rules *rules, const struct policy *policy, struct err *err) {
        const struct path_rule grant = { .grants = true };
        struct path_rule workspace = grant;

        workspace.built_in = true;
        if (policy->mode == MODE_READ_ONLY)
                return 0;

        int status = 0;

        if (policy->workspace && !policy->guest)
                status = paths_add(rules, policy, workspace, policy->workspace,
                                   BUILT_IN "the workspace is writable in this mode", err);

        if (status < 0)
                return status;

        return add_texts(rules, policy, grant, &policy->filesystem.write, err);
}

/* Least specific first; see paths.h. */
static int paths_compare(const void *a, const void *b) {
        const struct compiled *left = a, *right = b;
        if (left->depth != right->depth)
                return left->depth < right->depth ? -1 : 1;
        if (left->rule.is_glob != right->rule.is_glob)
                return left->rule.is_glob ? -1 : 1;
        if (left->rule.built_in != right->rule.built_in)
                return left->rule.built_in ? -1 : 1;
        if (left->rule.grants != right->rule.grants)
                return left->rule.grants ? -1 : 1;
        if (left->rule.late != right->rule.late)
                return left->rule.late ? 1 : -1;

        return strcmp(left->rule.pattern, right->rule.pattern);
}

/* In their order, and findable: plain paths by their hash, globs one after the other. */
static int sort_rules(struct path_rules *rules) {
        if (rules->rules.n > 1)
                qsort(rules->rules.p, rules->rules.n, sizeof *rules->rules.p, paths_compare);

        if (path_index_reserve(&rules->plain, rules->rules.n) < 0)
                return -ENOMEM;

        for (uint32_t i = 0; i < rules->rules.n; i++) {
                const struct compiled *compiled = &rules->rules.p[i];

                if (!compiled->rule.is_glob)
                        path_index_add(&rules->plain, compiled->rule.pattern, compiled->literal, i + 1);
                else if (vec_push(&rules->globs, i) < 0)
                        return -ENOMEM;
        }

        return 0;
}

/* Whether the workspace needs a rule to be visible: if reads are denied and, in the mode that does not write to it, if
 * it is inside a directory of the sandbox's own. */
static bool needs_read_rule(const struct policy *policy) {
        if (policy->guest)
                return false;
        if (policy->filesystem.reads_denied)
                return true;
        if (policy->mode != MODE_READ_ONLY)
                return false;

        return path_is_within(policy->workspace, "/tmp") || path_is_within(policy->workspace, "/run") ||
               (home_is_own(policy) && policy->home_inside && path_is_within(policy->workspace, policy->home_inside));
}

int path_rules_compile(const struct policy *policy, struct path_rules **ret, struct err *err) {
        cleanup(path_rules_freep) struct path_rules *r = calloc(1, sizeof *r);
        if (!r || vec_reserve(&r->rules, RULES_USUAL) < 0)
                return no_memory(err);

        r->reads_open = !policy->filesystem.reads_denied;
        int status = add_texts(r, policy, (struct path_rule){ .decides_read = true, .grants = true },
                               &policy->filesystem.read, err);
        if (status == 0 && policy->workspace && needs_read_rule(policy))
                status =
                    paths_add(r, policy, (struct path_rule){ .decides_read = true, .grants = true, .built_in = true },
                              policy->workspace, BUILT_IN "the workspace is readable", err);

        if (status == 0)
                status = add_writes(r, policy, err);

        if (status == 0)
                status = add_texts(r, policy, (struct path_rule){ .decides_read = true }, &policy->filesystem.deny_read,
                                   err);

        if (status == 0)
                status = add_texts(r, policy, (struct path_rule){ 0 }, &policy->filesystem.deny_write, err);
        if (status == 0)
                status = add_builtin(r, policy, err);
        if (status == 0)
                status = add_own_home(r, policy, err);
        if (status < 0)
                return status;
        if (sort_rules(r) < 0)
                return no_memory(err);

        *ret = take_ptr(&r);
        return 0;
}

int path_rules_restore(const struct path_rule *list, size_t n, bool reads_open, struct path_rules **ret,
                       struct err *err) {
        cleanup(path_rules_freep) struct path_rules *r = calloc(1, sizeof *r);
        if (!r || vec_reserve(&r->rules, n) < 0)
                return no_memory(err);

        r->reads_open = reads_open;

        for (size_t i = 0; i < n; i++) {
                cleanup(free_ptr) char *normal = NULL;
                struct path_rule rule = list[i];
                if (path_normalise(str_of(rule.pattern), NULL, &normal) < 0 || strcmp(normal, rule.pattern) != 0)
                        return err_set(err, EINVAL, "path rule %zu is not a normalised path", i);

                rule.is_glob = glob_has_magic(str_of(normal));
                rule.anywhere = rule.is_glob && has_any_depth(normal);
                char *origin = strdup(text_or(rule.origin, ""));
                rule.origin = origin;
                rule.pattern = take_ptr(&normal);
                r->rules.p[r->rules.n++] = paths_compiled(rule, origin);

                if (!origin)
                        return no_memory(err);
        }

        if (sort_rules(r) < 0)
                return no_memory(err);

        *ret = take_ptr(&r);
        return 0;
}

size_t path_rules_count(const struct path_rules *rules) {
        return rules->rules.n;
}

const struct path_rule *path_rules_at(const struct path_rules *rules, size_t i) {
        return &rules->rules.p[i].rule;
}

bool path_rules_reads_open(const struct path_rules *rules) {
        return rules->reads_open;
}

/* --- judging --- */

/* Components of the shortest part of the path (from the root) for which the glob holds, or -1. */
static long glob_depth(const struct compiled *compiled, const char *path, size_t n) {
        if (n < compiled->literal || memcmp(path, compiled->rule.pattern, compiled->literal) != 0)
                return -1;

        if (compiled->needle.n > 0 && !memmem(path, n, compiled->needle.p, compiled->needle.n))
                return -1;

        struct str pattern = str_of(compiled->rule.pattern);
        long depth = 0;

        for (size_t i = 1; path[0] == '/' && path[1] != '\0'; i++) {
                if (path[i] != '/' && path[i] != '\0')
                        continue;

                depth++;
                if (glob_match(pattern, str_n(path, i)))
                        return depth;
                if (path[i] == '\0')
                        break;
        }

        return -1;
}

struct best {
        const struct path_rule *rule;
        long depth;
};

/* The order of paths.h, for this path: how deep a glob holds is known only here. */
static void paths_consider(struct best *best, const struct path_rule *rule, long depth) {
        bool stronger = depth > best->depth;

        if (depth == best->depth && best->rule) {
                if (best->rule->is_glob != rule->is_glob)
                        stronger = best->rule->is_glob;
                else if (best->rule->built_in != rule->built_in)
                        stronger = best->rule->built_in;
                else
                        stronger = best->rule->grants || !rule->grants;
        }

        if (stronger)
                *best = (struct best){ rule, depth };
}

struct both {
        struct best read, write;
};

static void consider_both(struct both *best, const struct path_rule *rule, long depth) {
        if (rule->decides_read || rule->grants)
                paths_consider(&best->read, rule, depth);
        if (!rule->decides_read || !rule->grants)
                paths_consider(&best->write, rule, depth);
}

/* The rules for exactly this beginning of the path. */
static void consider_plain(const struct path_rules *rules, struct str path, uint64_t hash, struct both *best) {
        size_t slot = 0;

        for (uint32_t number; (number = path_index_next(&rules->plain, hash, &slot));) {
                const struct compiled *compiled = &rules->rules.p[number - 1];

                if (str_eq(str_n(compiled->rule.pattern, compiled->literal), path))
                        consider_both(best, &compiled->rule, (long)compiled->depth);
        }
}

/* At the same depth a plain path comes before a glob, so it does not matter which of the two are looked at first. */
static struct both find_best(const struct path_rules *rules, const char *path) {
        struct both best = { { NULL, -1 }, { NULL, -1 } };
        uint64_t hash = PATH_INDEX_SEED;
        size_t n = 0;

        for (; path[n]; n++) {
                if (path[n] == '/' && n > 0)
                        consider_plain(rules, str_n(path, n), hash, &best);

                hash = path_index_grow(hash, path[n]);

                if (n == 0) /* the root, which is above everything */
                        consider_plain(rules, str_n(path, 1), hash, &best);
        }
        if (n > 1)
                consider_plain(rules, str_n(path, n), hash, &best);

        for (size_t i = 0; i < rules->globs.n; i++) {
                const struct compiled *compiled = &rules->rules.p[rules->globs.p[i]];
                long depth = glob_depth(compiled, path, n);

                if (depth >= 0)
                        consider_both(&best, &compiled->rule, depth);
        }

        return best;
}

const struct path_rule *path_rules_refusing_glob(const struct path_rules *rules, const char *path, bool write) {
        const struct both best = find_best(rules, path);
        const struct path_rule *to_read = best.read.rule, *to_write = best.write.rule;

        if (to_read && !to_read->grants)
                return to_read->is_glob || to_read->late ? to_read : NULL;
        if (write && to_write && !to_write->grants && to_write->is_glob)
                return to_write;

        return NULL;
}

static enum path_access access_by(const struct path_rules *rules, struct both best, const struct path_rule **ret_rule) {
        struct best read = best.read, write = best.write;

        /* What is laid into the own home is the host's: only a rule of its own lets it be written. */
        if (write.rule && write.rule->own && read.rule && !read.rule->own)
                write = (struct best){ NULL, -1 };

        bool may_read = read.rule ? read.rule->grants : rules->reads_open;
        bool may_write = may_read && write.rule && write.rule->grants;
        enum path_access access;
        if (!may_read)
                access = PATH_DENIED;
        else if (may_write)
                access = PATH_WRITE;
        else
                access = PATH_READ;

        if (ret_rule) /* a path that is only readable was decided by what stands closer: the grant or the refusal to
                         write */
                *ret_rule = access == PATH_DENIED || (access == PATH_READ && read.depth >= write.depth) ? read.rule
                                                                                                        : write.rule;

        return access;
}

enum path_access path_rules_access(const struct path_rules *rules, const char *path,
                                   const struct path_rule **ret_rule) {
        return access_by(rules, find_best(rules, path), ret_rule);
}

enum path_access path_rules_host_access(const struct path_rules *rules, const char *path,
                                        const struct path_rule **ret_rule) {
        const struct both best = find_best(rules, path);

        if (!best.read.rule || !best.read.rule->own)
                return access_by(rules, best, ret_rule);

        if (ret_rule)
                *ret_rule = best.read.rule;

        return PATH_DENIED;
}

const char *path_access_name(enum path_access access) {
        static const char *const names[] = { [PATH_DENIED] = "denied", [PATH_READ] = "read", [PATH_WRITE] = "write" };
        return names[access];
}
