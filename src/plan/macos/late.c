/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refusals that come after all plain paths: globs, and plain paths in other spellings. A deeper grant must win over
 * them as it does on Linux. Whether a grant is deeper than a match of a glob is known beforehand: either the glob
 * matches the grant's own path or one above it, or all its matches below lie deeper. So each refusal names the grants
 * that win over it as exceptions, and the order among refusals does not matter.
 */
#include "plan/macos/seatbelt_internal.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "policy/match/glob.h"

#include <errno.h>

struct late {
        const struct path_rules *rules;
        bool fold;
        struct seatbelt *s;
        struct err *e;
};

static char *late_lower(const char *text) {
        char *copy = str_dup(str_of(text));

        for (char *c = copy; c && *c; c++)
                *c = ascii_lower(*c);
        return copy;
}

static bool any_prefix_matches(struct str pattern, const char *path) {
        for (size_t i = 1; path[0] == '/' && path[1] != '\0'; i++) {
                if (path[i] != '/' && path[i] != '\0')
                        continue;
                if (glob_match(pattern, str_n(path, i)))
                        return true;
                if (path[i] == '\0')
                        break;
        }

        return false;
}

/* Whether the grant wins over the refusal for everything below it. -ENOMEM, or 0 or 1. */
static int grant_wins(const struct late *late, size_t grant, size_t refusal) {
        const struct path_rule *rule = path_rules_at(late->rules, grant),
                               *path_rule = path_rules_at(late->rules, refusal);
        cleanup(free_ptr) char *path = late->fold ? late_lower(rule->pattern) : str_dup(str_of(rule->pattern));
        cleanup(free_ptr) char *pattern =
            late->fold ? late_lower(path_rule->pattern) : str_dup(str_of(path_rule->pattern));

        if (!path || !pattern)
                return -ENOMEM;
        if (path_rule->is_glob)
                return any_prefix_matches(str_of(pattern), path);
        if (strcmp(path, pattern) == 0)
                return grant > refusal; /* the later one of the same path decides */

        return path_is_within(path, pattern);
}

typedef VEC(const char *) paths;

/* The grants that win, without those that lie in another one. To write, a grant to read is none. */
static int find_exceptions(const struct late *late, size_t refusal, bool write, paths *ret) {
        for (size_t i = 0; i < path_rules_count(late->rules); i++) {
                const struct path_rule *g = path_rules_at(late->rules, i);
                bool listed = false;

                if (!g->grants || (write && seatbelt_says(g) != SEATBELT_WRITE))
                        continue;

                for (size_t j = 0; j < ret->n && !listed; j++)
                        listed = path_is_within(g->pattern, ret->p[j]);

                int r = listed ? 0 : grant_wins(late, i, refusal);
                if (r == 1)
                        r = vec_push(ret, g->pattern);
                if (r < 0)
                        return r;
        }

        return 0;
}

static bool same_paths(const paths *a, const paths *b) {
        bool same = a->n == b->n;

        for (size_t i = 0; same && i < a->n; i++)
                same = strcmp(a->p[i], b->p[i]) == 0;
        return same;
}

static int add_one(struct late *late, const char *operations, const char *regex, const char *origin,
                   const paths *exceptions) {
        int r = seatbelt_begin(late->s, false, SEATBELT_SECTION_FILES, operations, "wherever it matches");

        if (r == 0)
                r = seatbelt_filter(late->s, SEATBELT_REGEX, regex, seatbelt_format(late->s, "%s", origin));

        for (size_t i = 0; i < exceptions->n && r == 0; i++)
                r = seatbelt_filter_except(late->s, exceptions->p[i]);

        return r;
}

/* A regular expression for rule `refusal`, with its exceptions. */
static int add_refusal(struct late *late, size_t refusal, const char *regex) {
        const struct path_rule *rule = path_rules_at(late->rules, refusal);
        bool reads = rule->decides_read;
        paths to_read = { 0 }, to_write = { 0 };
        int r = find_exceptions(late, refusal, true, &to_write);

        if (r == 0 && reads)
                r = find_exceptions(late, refusal, false, &to_read);

        if (r == 0 && reads && same_paths(&to_read, &to_write)) {
                r = add_one(late, SEATBELT_READING " " SEATBELT_WRITING, regex, rule->origin, &to_write);
        } else if (r == 0) {
                r = add_one(late, SEATBELT_WRITING, regex, rule->origin, &to_write);
                if (r == 0 && reads)
                        r = add_one(late, SEATBELT_READING, regex, rule->origin, &to_read);
        }

        vec_done(&to_read);
        vec_done(&to_write);

        return r;
}

static const char *keep_regex(struct late *late, int r, const struct buf *text, const char *of) {
        if (r == -EMSGSIZE || text->n > SEATBELT_STRING_MAX) {
                err_set(late->e, EMSGSIZE, "%s: the pattern is too long for macOS; name a directory instead", of);
                return NULL;
        }
        return r < 0 ? NULL : seatbelt_keep(late->s, str_dup(buf_str(text)));
}

/* A glob in both spellings of its beginning. */
static int add_glob(struct late *late, size_t i) {
        const struct path_rule *rule = path_rules_at(late->rules, i);
        const char *root = seatbelt_writable_around(late->rules, rule->pattern);
        size_t fold = SIZE_MAX;
        bool failed = false;
        cleanup(free_ptr) char *alias = seatbelt_alias(rule->pattern, &failed);
        const char *spellings[] = { rule->pattern, alias };
        int r = failed ? -ENOMEM : 0;

        if (late->fold) /* the spelling of a granted directory is known */
                fold = root && !alias ? strlen(root) : 1;

        for (size_t j = 0; j < 2 && spellings[j] && r == 0; j++) {
                cleanup(buf_done) struct buf text = BUF(8192);
                int built = seatbelt_regex_glob(str_of(spellings[j]), fold, true, &text);
                const char *regex = keep_regex(late, built, &text, rule->origin);

                if (!regex)
                        return built == -EMSGSIZE || text.n > SEATBELT_STRING_MAX ? -EMSGSIZE : -ENOMEM;

                r = add_refusal(late, i, regex);
        }

        return r;
}

/* --- other spellings of names that do not exist yet --- */

const char *seatbelt_writable_around(const struct path_rules *rules, const char *path) {
        const char *root = NULL;

        for (size_t i = 0; i < path_rules_count(rules); i++) {
                const struct path_rule *rule = path_rules_at(rules, i);

                if (seatbelt_says(rule) == SEATBELT_WRITE && strcmp(rule->pattern, path) != 0 &&
                    path_is_within(path, rule->pattern))
                        root = rule->pattern; /* the list goes from shallow to deep */
        }

        return root;
}

static const char *late_below(const char *path, const char *root) {
        size_t n = strlen(root);

        return path + (n == 1 ? 1 : n + 1);
}

/* "^", the root as it is, "/", or what stands for the root directory. */
static int regex_begin(const char *root, struct buf *out) {
        int r = buf_add_char(out, '^');

        if (r == 0 && strcmp(root, "/") != 0)
                r = seatbelt_regex_path(str_of(root), false, out);
        return r == 0 ? buf_add_char(out, '/') : r;
}

int seatbelt_regex_below(const char *root, const char *path, const char *end, struct buf *out) {
        int r = regex_begin(root, out);

        if (r == 0)
                r = seatbelt_regex_path(str_of(late_below(path, root)), true, out);
        if (r == 0)
                r = buf_add(out, end);
        return r == 0 && out->n > SEATBELT_STRING_MAX ? -EMSGSIZE : r;
}

/* Several names in one expression, since each costs the kernel's compiler time. */
struct pack {
        const char *root;
        bool reads;
        struct buf names;
};

static int pack_flush(struct late *late, struct pack *pack) {
        const paths none = { 0 };
        cleanup(buf_done) struct buf text = BUF(8192);

        if (pack->names.n == 0)
                return 0;

        int r = regex_begin(pack->root, &text);
        if (r == 0)
                r = buf_printf(&text, "(%.*s)(/.*)?$", STR_FMT(buf_str(&pack->names)));

        buf_clear(&pack->names);

        const char *regex = keep_regex(late, r, &text, pack->root);
        if (!regex)
                return text.n > SEATBELT_STRING_MAX ? -EMSGSIZE : -ENOMEM;

        return add_one(late, pack->reads ? SEATBELT_READING " " SEATBELT_WRITING : SEATBELT_WRITING, regex,
                       "the names above, in any spelling", &none);
}

/* A name whose refusal no grant wins over. */
static int pack_add(struct late *late, struct pack *pack, const struct path_rule *rule, const char *root) {
        cleanup(buf_done) struct buf name = BUF(8192);
        int r = seatbelt_regex_path(str_of(late_below(rule->pattern, root)), true, &name);
        bool other = pack->root != root || pack->reads != rule->decides_read;

        if (r == 0 && (other || pack->names.n + name.n + strlen(root) * 2 > SEATBELT_STRING_MAX - 32))
                r = pack_flush(late, pack);

        pack->root = root;
        pack->reads = rule->decides_read;
        if (r == 0)
                r = buf_add(&pack->names, pack->names.n ? "|" : "");

        return r == 0 ? buf_append(&pack->names, buf_str(&name)) : r;
}

/* A name that some grants win over: by itself, with its exceptions. */
static int add_spellings(struct late *late, size_t i, const char *root) {
        const struct path_rule *rule = path_rules_at(late->rules, i);
        cleanup(buf_done) struct buf text = BUF(8192);
        int r = seatbelt_regex_below(root, rule->pattern, "(/.*)?$", &text);
        const char *regex = keep_regex(late, r, &text, rule->origin);
        if (!regex)
                return text.n > SEATBELT_STRING_MAX ? -EMSGSIZE : -ENOMEM;
        return add_refusal(late, i, regex);
}

static int has_exceptions(struct late *late, size_t i) {
        paths found = { 0 };
        int r = find_exceptions(late, i, false, &found);
        bool any = found.n > 0;

        vec_done(&found);
        if (r < 0)
                return r;

        return any;
}

static int add_folded(struct late *late) {
        struct pack pack = { .names = BUF(8192) };
        int r = 0;

        for (size_t i = 0; i < path_rules_count(late->rules) && r >= 0; i++) {
                const struct path_rule *rule = path_rules_at(late->rules, i);
                const char *root = seatbelt_writable_around(late->rules, rule->pattern);

                if (rule->grants || rule->is_glob || !root)
                        continue;

                r = has_exceptions(late, i);
                if (r == 1)
                        r = add_spellings(late, i, root);
                else if (r == 0)
                        r = pack_add(late, &pack, rule, root);
        }

        if (r >= 0)
                r = pack_flush(late, &pack);

        buf_done(&pack.names);
        return r;
}

int seatbelt_add_late(struct seatbelt *seatbelt, const struct seatbelt_request *request, const struct path_rules *rules,
                      struct err *err) {
        struct late late = { .rules = rules, .fold = !request->host->case_sensitive, .s = seatbelt, .e = err };
        int r = 0;

        for (size_t i = 0; i < path_rules_count(rules) && r == 0; i++)
                if (path_rules_at(rules, i)->is_glob)
                        r = add_glob(&late, i);

        return r == 0 && late.fold ? add_folded(&late) : r;
}
