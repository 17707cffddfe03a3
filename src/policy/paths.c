/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/paths.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/vec.h"
#include "conf/suggest.h"
#include "policy/glob.h"
#include "policy/home_kind.h"
#include "policy/paths_builtin.h"

#include <errno.h>
#include <stdlib.h>

struct compiled {
        struct path_rule rule; /* the pattern is owned, the origin only where it was made up here */
        size_t depth;          /* components of the pattern */
        size_t literal;        /* of a glob: its directories before the first with magic. What it matches begins so */
        char *owned_origin;
        struct str needle; /* of a glob: a part of its last name that stands for itself. What it matches has it */
};

struct path_rules {
        VEC(struct compiled) rules;
        bool reads_open;
};

/* The longest piece of the last component between its stars, up to the first class. Most paths are told by it that a
 * glob does not hold for them, at a tenth of what a match costs. */
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

static struct compiled compiled(struct path_rule rule, char *owned_origin) {
        size_t literal = rule.is_glob ? strcspn(rule.pattern, "*?[\\") : strlen(rule.pattern);
        while (rule.is_glob && literal > 0 && rule.pattern[literal] != '/') /* `**` may stand for no component at all */
                literal--;
        struct str needle = rule.is_glob ? needle_of(rule.pattern) : (struct str){ 0 };
        return (struct compiled){ rule, path_depth(rule.pattern), literal, owned_origin, needle };
}

void path_rules_free(struct path_rules *r) {
        if (!r)
                return;
        for (size_t i = 0; i < r->rules.n; i++) {
                free((char *)r->rules.p[i].rule.pattern);
                free(r->rules.p[i].owned_origin);
        }
        vec_done(&r->rules);
        free(r);
}

void path_rules_freep(struct path_rules **r) {
        path_rules_free(*r);
}

/* --- compiling --- */

static int no_memory(struct err *e) {
        return err_set(e, ENOMEM, "out of memory for the path rules");
}

static bool has_any_depth(const char *pattern) {
        struct str rest = str_of(pattern), part;
        while (str_split(&rest, '/', &part))
                if (str_is(part, "**"))
                        return true;
        return false;
}

/* A pattern that begins with ** holds from the root down, wherever it was written. */
static int absolute_pattern(const struct policy *p, const char *text, char **ret) {
        struct str s = str_of(text);
        const char *base = str_is(s, "**") || str_starts(s, STR("**/")) ? "/" : p->workspace;
        if (s.n > 0 && s.p[0] == '~') {
                cleanup(free_ptr) char *expanded = NULL;
                int r = path_expand_home(s, p->home, &expanded);
                return r < 0 ? r : path_normalise(str_of(expanded), NULL, ret);
        }
        return path_normalise(s, base, ret);
}

/* Takes the pattern, which is absolute and normalised. The origin is copied, unless the rule is built in: those have
 * theirs in a table. */
static int push(struct path_rules *r, struct path_rule kind, char *taken_pattern, const char *origin, struct err *e) {
        cleanup(free_ptr) char *pattern = taken_pattern;
        cleanup(free_ptr) char *copy = kind.built_in ? NULL : strdup(origin ? origin : "");
        if (!pattern || (!copy && !kind.built_in) || vec_reserve(&r->rules, 1) < 0)
                return no_memory(e);
        kind.is_glob = glob_has_magic(str_of(pattern));
        kind.anywhere = kind.is_glob && has_any_depth(pattern);
        kind.origin = copy ? copy : origin;
        kind.pattern = pattern;
        r->rules.p[r->rules.n++] = compiled(kind, take_ptr(&copy));
        take_ptr(&pattern);
        return 0;
}

/* `kind` gives the flags; the text is copied. */
static int add(struct path_rules *r, const struct policy *p, struct path_rule kind, const char *text,
               const char *origin, struct err *e) {
        cleanup(free_ptr) char *pattern = NULL;
        int status = absolute_pattern(p, text, &pattern);
        if (status == -ENOMEM)
                return no_memory(e);
        if (status < 0)
                return err_set(e, EINVAL,
                               "%s: %s is not a path (write it absolute, from ~/, or relative to the workspace)",
                               origin ? origin : "?", show(str_of(text)).text);
        if (kind.grants && glob_has_magic(str_of(pattern)))
                return err_set(e, EINVAL,
                               "%s: %s: globs are for denials only; grant the directory, and deny what is too much "
                               "below it",
                               origin ? origin : "?", show(str_of(text)).text);
        return push(r, kind, take_ptr(&pattern), origin, e);
}

static int add_texts(struct path_rules *r, const struct policy *p, struct path_rule kind, const origin_texts *texts,
                     struct err *e) {
        for (size_t i = 0; i < texts->n; i++) {
                int status = add(r, p, kind, texts->p[i].text, texts->p[i].origin, e);
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
static int add_protected(struct path_rules *r, const char *directory, const struct builtin_path *table, size_t n,
                         struct err *e) {
        const struct path_rule kind = { .built_in = true, .protected = true };
        cleanup(grants_done) grants granted = { 0 };
        int status;

        status = write_grants(r, &granted, e);
        if (status < 0)
                return status;
        if (!touches_write_grant(&granted, directory))
                return 0; /* then nothing below it does */

        for (size_t i = 0; i < n; i++) {
                cleanup(free_ptr) char *path = path_join(directory, table[i].path);
                if (!path)
                        return no_memory(e);
                if (!touches_write_grant(&granted, path))
                        continue;

                status = push(r, kind, take_ptr(&path), table[i].reason, e);
                if (status < 0)
                        return status;
        }
        return 0;
}

/* Homes of people hold keys: other accounts' as well, and this account's when HOME names another directory. */
static int add_hidden_homes(struct path_rules *r, const struct policy *p, struct err *e) {
        const struct path_rule deny = { .built_in = true, .decides_read = true };

        for (size_t i = 0; i < p->filesystem.hidden_homes.n; i++) {
                int status = push(r, deny, strdup(p->filesystem.hidden_homes.p[i].text),
                                  BUILT_IN "homes hold keys; --read opens a path in one", e);
                if (status < 0)
                        return status;
        }
        return 0;
}

/* With the real home: keys in the homes of other accounts, and in this one's when HOME names another directory. */
static int add_denied_elsewhere(struct path_rules *r, const struct policy *p, struct err *e) {
        const struct path_rule deny = { .built_in = true, .decides_read = true };

        for (size_t i = 0; i < p->filesystem.hidden_homes.n; i++)
                for (size_t j = 0; j < builtin_deny_read_n; j++) {
                        const struct builtin_path *b = &builtin_deny_read[j];
                        if (b->path[0] != '~')
                                continue;
                        int status =
                            push(r, deny, path_join(p->filesystem.hidden_homes.p[i].text, b->path + 2), b->reason, e);
                        if (status < 0)
                                return status;
                }
        return 0;
}

static int add_moved(struct path_rules *r, const struct policy *p, struct err *e) {
        const struct path_rule deny = { .built_in = true, .decides_read = true };

        for (size_t i = 0; i < p->filesystem.moved.n; i++) {
                int status = push(r, deny, strdup(p->filesystem.moved.p[i].text),
                                  BUILT_IN "a variable of the environment names it as a place of credentials", e);
                if (status < 0)
                        return status;
        }
        return 0;
}

/* The sandbox's own home lies under every rule that lays something into it. */
static int add_own_home(struct path_rules *r, const struct policy *p, struct err *e) {
        const struct path_rule own = { .built_in = true, .grants = true, .own = true };

        if (!home_is_own(p) || !p->home_inside)
                return 0;
        return push(r, own, strdup(p->home_inside), BUILT_IN "the sandbox has a home of its own", e);
}

/* Whether something of the home that has to do with this path is granted: the rest of it is not there anyway. */
static bool touches_home_grant(const struct path_rules *r, const char *home, const char *pattern) {
        for (size_t i = 0; i < r->rules.n; i++) {
                const struct path_rule *rule = &r->rules.p[i].rule;
                if (rule->grants && path_is_within(rule->pattern, home) &&
                    (path_is_within(pattern, rule->pattern) || path_is_within(rule->pattern, pattern)))
                        return true;
        }
        return false;
}

/* With a home of its own: what a grant in the home would show of the secrets there. */
static int add_denied_in_grants(struct path_rules *r, const char *home, struct err *e) {
        const struct path_rule deny = { .built_in = true, .decides_read = true };

        if (!touches_home_grant(r, home, home))
                return 0;
        for (size_t i = 0; i < builtin_deny_read_n; i++) {
                const struct builtin_path *b = &builtin_deny_read[i];
                if (b->path[0] != '~')
                        continue;
                cleanup(free_ptr) char *path = path_join(home, b->path + 2);
                if (!path)
                        return no_memory(e);
                if (!touches_home_grant(r, home, path))
                        continue;
                int status = push(r, deny, take_ptr(&path), b->reason, e);
                if (status < 0)
                        return status;
        }
        return 0;
}

static int add_denied(struct path_rules *r, const char *home, struct err *e) {
        const struct path_rule deny = { .built_in = true, .decides_read = true };
        for (size_t i = 0; i < builtin_deny_read_n; i++) {
                const struct builtin_path *b = &builtin_deny_read[i];
                bool in_home = b->path[0] == '~';
                if (in_home && !home)
                        continue;
                int status = push(r, deny, in_home ? path_join(home, b->path + 2) : strdup(b->path), b->reason, e);
                if (status < 0)
                        return status;
        }
        return 0;
}

/* A root that is an agent's own directory, wherever it lies. */
static int add_agent_settings(struct path_rules *r, const char *root, struct err *e) {
        const struct path_rule kind = { .built_in = true, .protected = true };

        for (size_t i = 0; i < builtin_agent_settings_n; i++) {
                const struct builtin_path *row = &builtin_agent_settings[i];
                size_t n = builtin_agent_directory(row->path), root_n = strlen(root);

                if (root_n <= n || root[root_n - n - 1] != '/' || memcmp(root + root_n - n, row->path, n) != 0)
                        continue;
                int status = push(r, kind, path_join(root, row->path + n + 1), row->reason, e);
                if (status < 0)
                        return status;
        }
        return 0;
}

/* What is protected in the workspace is protected in every other directory that is granted for writing: a repository
 * there is a repository too. A root inside of another one is an ordinary directory of it. */
static int add_roots(struct path_rules *r, const char *home, const char *workspace, struct err *e) {
        size_t n = r->rules.n;

        for (size_t i = 0; i < n; i++) {
                const struct path_rule rule = r->rules.p[i].rule; /* a copy: the list grows */
                bool inner =
                    (workspace && path_is_within(rule.pattern, workspace)) || (home && strcmp(rule.pattern, home) == 0);

                if (rule.decides_read || !rule.grants || rule.own)
                        continue;
                for (size_t j = 0; j < n && !inner; j++) {
                        const struct path_rule *other = &r->rules.p[j].rule;
                        bool wider = !other->decides_read && other->grants && !other->own && j != i &&
                                     path_is_within(rule.pattern, other->pattern);

                        inner = wider && (j < i || strcmp(rule.pattern, other->pattern) != 0);
                }
                if (inner)
                        continue;

                int status = add_protected(r, rule.pattern, builtin_protected, builtin_protected_n, e);
                if (status == 0)
                        status = add_agent_settings(r, rule.pattern, e);
                if (status < 0)
                        return status;
        }
        return 0;
}

static int add_builtin(struct path_rules *r, const struct policy *p, struct err *e) {
        cleanup(free_ptr) char *home = NULL, *workspace = NULL;
        if ((p->home && path_normalise(str_of(p->home), NULL, &home) < 0) ||
            (p->workspace && path_normalise(str_of(p->workspace), NULL, &workspace) < 0))
                return err_set(e, EINVAL, "the home directory or the workspace is not an absolute path");
        int status = add_denied(r, home_is_own(p) ? NULL : home, e);
        if (status == 0)
                status = add_moved(r, p, e);
        if (status == 0)
                status = home_is_own(p) ? add_hidden_homes(r, p, e) : add_denied_elsewhere(r, p, e);
        if (status == 0 && home_is_own(p) && p->home_inside)
                status = add_denied_in_grants(r, p->home_inside, e);
        if (status == 0 && workspace && !p->guest)
                status = add_protected(r, workspace, builtin_protected, builtin_protected_n, e);
        if (status == 0 && home && !(workspace && strcmp(home, workspace) == 0))
                status = add_protected(r, home, builtin_protected, builtin_protected_n, e);
        if (status == 0 && home)
                status = add_protected(r, home, builtin_home_protected, builtin_home_protected_n, e);
        return status < 0 ? status : add_roots(r, home, workspace, e);
}

/* Mode read-only is a ceiling: nothing of the host is written, whatever the lists say. */
static int add_writes(struct path_rules *r, const struct policy *p, struct err *e) {
        const struct path_rule grant = { .grants = true };
        struct path_rule workspace = grant;
        workspace.built_in = true;
        if (p->mode == MODE_READ_ONLY)
                return 0;
        int status = p->workspace && !p->guest
                         ? add(r, p, workspace, p->workspace, BUILT_IN "the workspace is writable in this mode", e)
                         : 0;
        return status < 0 ? status : add_texts(r, p, grant, &p->filesystem.write, e);
}

/* Least specific first; see paths.h. */
static int compare(const void *a, const void *b) {
        const struct compiled *x = a, *y = b;
        if (x->depth != y->depth)
                return x->depth < y->depth ? -1 : 1;
        if (x->rule.is_glob != y->rule.is_glob)
                return x->rule.is_glob ? -1 : 1;
        if (x->rule.built_in != y->rule.built_in)
                return x->rule.built_in ? -1 : 1;
        if (x->rule.grants != y->rule.grants)
                return x->rule.grants ? -1 : 1;
        if (x->rule.late != y->rule.late)
                return x->rule.late ? 1 : -1;
        return strcmp(x->rule.pattern, y->rule.pattern);
}

/* Whether the workspace would not be shown without a rule: where reads are denied, and, in the mode that does not write
 * to it, where the sandbox has a directory of its own around it. */
static bool needs_read_rule(const struct policy *p) {
        if (p->guest)
                return false;
        if (p->filesystem.reads_denied)
                return true;
        if (p->mode != MODE_READ_ONLY)
                return false;
        return path_is_within(p->workspace, "/tmp") || path_is_within(p->workspace, "/run") ||
               (home_is_own(p) && p->home_inside && path_is_within(p->workspace, p->home_inside));
}

int path_rules_compile(const struct policy *p, struct path_rules **ret, struct err *e) {
        cleanup(path_rules_freep) struct path_rules *r = calloc(1, sizeof *r);
        if (!r)
                return no_memory(e);
        r->reads_open = !p->filesystem.reads_denied;
        int status =
            add_texts(r, p, (struct path_rule){ .decides_read = true, .grants = true }, &p->filesystem.read, e);
        if (status == 0 && p->workspace && needs_read_rule(p))
                status = add(r, p, (struct path_rule){ .decides_read = true, .grants = true, .built_in = true },
                             p->workspace, BUILT_IN "the workspace is readable", e);
        if (status == 0)
                status = add_writes(r, p, e);
        if (status == 0)
                status = add_texts(r, p, (struct path_rule){ .decides_read = true }, &p->filesystem.deny_read, e);
        if (status == 0)
                status = add_texts(r, p, (struct path_rule){ 0 }, &p->filesystem.deny_write, e);
        if (status == 0)
                status = add_builtin(r, p, e);
        if (status == 0)
                status = add_own_home(r, p, e);
        if (status < 0)
                return status;
        if (r->rules.n > 1)
                qsort(r->rules.p, r->rules.n, sizeof *r->rules.p, compare);
        *ret = take_ptr(&r);
        return 0;
}

int path_rules_restore(const struct path_rule *list, size_t n, bool reads_open, struct path_rules **ret,
                       struct err *e) {
        cleanup(path_rules_freep) struct path_rules *r = calloc(1, sizeof *r);
        if (!r || vec_reserve(&r->rules, n) < 0)
                return no_memory(e);
        r->reads_open = reads_open;
        for (size_t i = 0; i < n; i++) {
                cleanup(free_ptr) char *normal = NULL;
                struct path_rule rule = list[i];
                if (path_normalise(str_of(rule.pattern), NULL, &normal) < 0 || strcmp(normal, rule.pattern) != 0)
                        return err_set(e, EINVAL, "path rule %zu is not a normalised path", i);
                rule.is_glob = glob_has_magic(str_of(normal));
                rule.anywhere = rule.is_glob && has_any_depth(normal);
                char *origin = strdup(rule.origin ? rule.origin : "");
                rule.origin = origin;
                rule.pattern = take_ptr(&normal);
                r->rules.p[r->rules.n++] = compiled(rule, origin);
                if (!origin)
                        return no_memory(e);
        }
        if (r->rules.n > 1)
                qsort(r->rules.p, r->rules.n, sizeof *r->rules.p, compare);
        *ret = take_ptr(&r);
        return 0;
}

size_t path_rules_count(const struct path_rules *r) {
        return r->rules.n;
}

const struct path_rule *path_rules_at(const struct path_rules *r, size_t i) {
        return &r->rules.p[i].rule;
}

bool path_rules_reads_open(const struct path_rules *r) {
        return r->reads_open;
}

/* --- judging --- */

/* Components of the shortest part of the path (from the root) for which the rule holds, or -1. */
static long held_depth(const struct compiled *c, const char *path, size_t n) {
        if (n < c->literal || memcmp(path, c->rule.pattern, c->literal) != 0)
                return -1;
        if (!c->rule.is_glob) {
                char next = path[c->literal];
                return next == '\0' || next == '/' || c->literal == 1 ? (long)c->depth : -1;
        }
        if (c->needle.n > 0 && !memmem(path, n, c->needle.p, c->needle.n))
                return -1;
        struct str pattern = str_of(c->rule.pattern);
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
static void consider(struct best *best, const struct path_rule *rule, long depth) {
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

static void find_best(const struct path_rules *r, const char *path, struct best *read, struct best *write) {
        const size_t n = strlen(path);
        *read = *write = (struct best){ NULL, -1 };
        for (size_t i = 0; i < r->rules.n; i++) {
                const struct path_rule *rule = &r->rules.p[i].rule;
                long depth = held_depth(&r->rules.p[i], path, n);
                if (depth < 0)
                        continue;
                if (rule->decides_read || rule->grants)
                        consider(read, rule, depth);
                if (!rule->decides_read || !rule->grants)
                        consider(write, rule, depth);
        }
}

const struct path_rule *path_rules_refusing_glob(const struct path_rules *r, const char *path, bool write) {
        struct best to_read, to_write;
        find_best(r, path, &to_read, &to_write);
        if (to_read.rule && !to_read.rule->grants)
                return to_read.rule->is_glob || to_read.rule->late ? to_read.rule : NULL;
        return write && to_write.rule && !to_write.rule->grants && to_write.rule->is_glob ? to_write.rule : NULL;
}

enum path_access path_rules_access(const struct path_rules *r, const char *path, const struct path_rule **ret_rule) {
        struct best read, write;
        find_best(r, path, &read, &write);
        /* What is laid into the own home is the host's: only a rule of its own lets it be written. */
        if (write.rule && write.rule->own && read.rule && !read.rule->own)
                write = (struct best){ NULL, -1 };
        bool may_read = read.rule ? read.rule->grants : r->reads_open;
        bool may_write = may_read && write.rule && write.rule->grants;
        enum path_access access = !may_read ? PATH_DENIED : may_write ? PATH_WRITE : PATH_READ;
        if (ret_rule) /* a path that is only readable was decided by what stands closer: the grant or the refusal to
                         write */
                *ret_rule = access == PATH_DENIED || (access == PATH_READ && read.depth >= write.depth) ? read.rule
                                                                                                        : write.rule;
        return access;
}

enum path_access path_rules_host_access(const struct path_rules *r, const char *path,
                                        const struct path_rule **ret_rule) {
        struct best read, write;

        find_best(r, path, &read, &write);
        if (!read.rule || !read.rule->own)
                return path_rules_access(r, path, ret_rule);

        if (ret_rule)
                *ret_rule = read.rule;
        return PATH_DENIED;
}

const char *path_access_name(enum path_access access) {
        static const char *const names[] = { [PATH_DENIED] = "denied", [PATH_READ] = "read", [PATH_WRITE] = "write" };
        return names[access];
}
