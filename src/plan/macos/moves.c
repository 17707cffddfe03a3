/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving away a directory above a refused path, and putting something else there, would bypass it: rename() needs
 * file-write-unlink of the old name and file-write-create of the new one, and never looks inside. So a directory above
 * a refused path cannot be moved, and no link can replace one. Neither can a granted directory be moved: the next run's
 * grant would be for its replacement.
 *
 * file-write-unlink and file-write-create are special operations: they decide over file-write*, whatever the order.
 * They are only ever denied.
 */
#include "plan/macos/seatbelt_internal.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "policy/match/glob.h"

#include <errno.h>

typedef VEC(char *) places;

static void places_done(places *list) {
        for (size_t i = 0; i < list->n; i++)
                free(list->p[i]);
        vec_done(list);
}

static int places_add(places *list, struct str path) {
        for (size_t i = 0; i < list->n; i++)
                if (str_is(path, list->p[i]))
                        return 0;

        char *copy = str_dup(path);
        if (copy && vec_push(list, copy) == 0)
                return 0;

        free(copy);
        return -ENOMEM;
}

static bool is_writable(const struct path_rules *rules, const char *path) {
        return path_rules_access(rules, path, NULL) == PATH_WRITE;
}

/* Directories above the path that may be written. */
static int add_parents(places *list, const struct path_rules *rules, const char *path) {
        cleanup(free_ptr) char *parent = str_dup(str_of(path));
        int r = parent ? 0 : -ENOMEM;

        for (char *slash; r == 0 && (slash = strrchr(parent, '/')) && slash > parent;) {
                *slash = '\0';
                if (is_writable(rules, parent))
                        r = places_add(list, str_of(parent));
        }

        return r;
}

/* Of a glob: each of its directories, as the pattern has it. What ends with `**` names no directory. */
static int add_glob_parents(places *list, const char *pattern) {
        int r = 0;

        for (size_t i = 1; pattern[i] && r == 0; i++) {
                struct str part = str_n(pattern, i);

                if (pattern[i] == '/' && glob_has_magic(part) && !str_ends(part, STR("/**")))
                        r = places_add(list, part);
        }

        return r;
}

static int moves_collect(const struct path_rules *rules, places *parents, places *globs, places *roots) {
        int r = 0;

        for (size_t i = 0; i < path_rules_count(rules) && r == 0; i++) {
                const struct path_rule *rule = path_rules_at(rules, i);

                if (rule->is_glob) {
                        cleanup(free_ptr) char *literal = str_dup(str_n(rule->pattern, strcspn(rule->pattern, "*?[")));

                        r = literal ? add_parents(parents, rules, literal) : -ENOMEM;
                        if (r == 0)
                                r = add_glob_parents(globs, rule->pattern);
                } else if (!rule->grants) {
                        r = add_parents(parents, rules, rule->pattern);
                } else if (seatbelt_says(rule) == SEATBELT_WRITE) {
                        r = places_add(roots, str_of(rule->pattern));
                }
        }

        return r;
}

static bool is_listed(const places *list, const char *path) {
        for (size_t i = 0; i < list->n; i++)
                if (strcmp(list->p[i], path) == 0)
                        return true;
        return false;
}

static int add_typed(struct seatbelt *seatbelt, const char *path, const char *type) {
        bool failed = false;
        cleanup(free_ptr) char *alias = seatbelt_alias(path, &failed);
        const char *spellings[] = { path, alias };
        int r = failed ? -ENOMEM : 0;

        for (size_t i = 0; i < 2 && spellings[i] && r == 0; i++) {
                r = seatbelt_filter_one(seatbelt, SEATBELT_LITERAL, spellings[i]);
                if (r == 0)
                        r = seatbelt_and(seatbelt, SEATBELT_VNODE_TYPE, type, false);
        }

        return r;
}

/* One rule for the whole list. */
static int add_list(struct seatbelt *seatbelt, const char *operation, const places *list, const places *without,
                    const char *type, const char *why) {
        bool begun = false;
        int r = 0;

        for (size_t i = 0; i < list->n && r == 0; i++) {
                if (without && is_listed(without, list->p[i]))
                        continue;
                if (!begun)
                        r = seatbelt_begin(seatbelt, false, SEATBELT_SECTION_FILES, operation, why);

                begun = true;
                if (r == 0)
                        r = add_typed(seatbelt, list->p[i], type);
        }

        return r;
}

/* Links in the place of directories that do not exist yet, in any spelling. */
static int add_folded_links(struct seatbelt *seatbelt, const struct path_rules *rules, const places *list,
                            const places *without) {
        int r = 0;

        for (size_t i = 0; i < list->n && r == 0; i++) {
                const char *root = seatbelt_writable_around(rules, list->p[i]);
                cleanup(buf_done) struct buf text = BUF(8192);

                if (is_listed(without, list->p[i]) || !root)
                        continue;

                r = seatbelt_regex_below(root, list->p[i], "$", &text);
                if (r == 0)
                        r = seatbelt_begin(seatbelt, false, SEATBELT_SECTION_FILES, "file-write-create",
                                           "no link instead of it, in any spelling");

                if (r == 0)
                        r = seatbelt_filter(seatbelt, SEATBELT_REGEX, seatbelt_keep(seatbelt, str_dup(buf_str(&text))),
                                            NULL);
                if (r == 0)
                        r = seatbelt_and(seatbelt, SEATBELT_VNODE_TYPE, "SYMLINK", false);
        }

        return r;
}

static int add_glob_list(struct seatbelt *seatbelt, const places *list, bool fold) {
        int r = 0;

        for (size_t i = 0; i < list->n && r == 0; i++) {
                cleanup(buf_done) struct buf text = BUF(8192);

                r = seatbelt_regex_glob(str_of(list->p[i]), fold ? 1 : SIZE_MAX, false, &text);
                if (r == 0)
                        r = seatbelt_begin(seatbelt, false, SEATBELT_SECTION_FILES, "file-write-unlink",
                                           "stays: directories that a pattern names");

                if (r == 0)
                        r = seatbelt_filter(seatbelt, SEATBELT_REGEX, seatbelt_keep(seatbelt, str_dup(buf_str(&text))),
                                            NULL);
                if (r == 0)
                        r = seatbelt_and(seatbelt, SEATBELT_VNODE_TYPE, "DIRECTORY", false);
        }

        return r;
}

int seatbelt_add_moves(struct seatbelt *seatbelt, const struct path_rules *rules, bool fold, struct err *err) {
        cleanup(places_done) places parents = { 0 };
        cleanup(places_done) places globs = { 0 };
        cleanup(places_done) places roots = { 0 };
        int r = moves_collect(rules, &parents, &globs, &roots);

        if (r == 0)
                r = add_list(seatbelt, "file-write-unlink", &roots, NULL, "DIRECTORY", "stays: it was granted");
        if (r == 0)
                r = add_list(seatbelt, "file-write-unlink", &parents, &roots, "DIRECTORY",
                             "stays: above a refused path");
        if (r == 0)
                r = add_list(seatbelt, "file-write-create", &parents, &roots, "SYMLINK", "no link instead of it");
        if (r == 0 && fold)
                r = add_folded_links(seatbelt, rules, &parents, &roots);
        if (r == 0)
                r = add_glob_list(seatbelt, &globs, fold);

        return r == -EMSGSIZE ? err_set(err, EMSGSIZE, "a pattern is too long for macOS; name a directory instead") : r;
}
