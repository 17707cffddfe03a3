/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path rules as Seatbelt rules. The policy's own rules, the places that macOS adds and the sandbox's own directories
 * are made one list (policy/paths/paths.h sorts it again, by canonical paths), and that list is written from shallow to
 * deep.
 */
#include "plan/macos/seatbelt_internal.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "policy/paths/home_table.h"

#include <errno.h>

enum seatbelt_says seatbelt_says(const struct path_rule *rule) {
        if (rule->grants)
                return rule->decides_read ? SEATBELT_READ : SEATBELT_WRITE;
        return rule->decides_read ? SEATBELT_NO_READ : SEATBELT_NO_WRITE;
}

/* --- filters of paths --- */

static bool is_plain_path(const char *path) {
        size_t n = strlen(path);

        for (size_t i = 0; i < n; i++)
                if (path[i] < ' ' || path[i] > '~' || path[i] == '"' || path[i] == '\\')
                        return false;
        return n <= SEATBELT_STRING_MAX;
}

/* Text for a filter, and a parameter where the language cannot hold it. NULL when out of memory. */
static const char *keep_path(struct seatbelt *seatbelt, const char *path) {
        const char *text = seatbelt_format(seatbelt, "%s", path);

        if (!text || is_plain_path(text))
                return text;

        for (size_t i = 0; i < seatbelt->parameters.n; i++)
                if (strcmp(seatbelt->parameters.p[i].value, text) == 0)
                        return text;

        const char *name = seatbelt_format(seatbelt, "PATH_%zu", seatbelt->parameters.n + 1);
        return name && vec_push(&seatbelt->parameters, ((struct seatbelt_parameter){ name, text })) == 0 ? text : NULL;
}

int seatbelt_filter_one(struct seatbelt *seatbelt, enum seatbelt_filter_kind kind, const char *path) {
        return seatbelt_filter(seatbelt, kind, keep_path(seatbelt, path), NULL);
}

int seatbelt_filter_path(struct seatbelt *seatbelt, enum seatbelt_filter_kind kind, const char *path, const char *why) {
        bool failed = false;
        cleanup(free_ptr) char *alias = seatbelt_alias(path, &failed);
        int r = failed ? -ENOMEM : seatbelt_filter(seatbelt, kind, keep_path(seatbelt, path), why);

        return r == 0 && alias ? seatbelt_filter(seatbelt, kind, keep_path(seatbelt, alias), NULL) : r;
}

int seatbelt_filter_except(struct seatbelt *seatbelt, const char *path) {
        bool failed = false;
        cleanup(free_ptr) char *alias = seatbelt_alias(path, &failed);
        int r = failed ? -ENOMEM : seatbelt_and(seatbelt, SEATBELT_SUBPATH, keep_path(seatbelt, path), true);

        return r == 0 && alias ? seatbelt_and(seatbelt, SEATBELT_SUBPATH, keep_path(seatbelt, alias), true) : r;
}

/* --- the list of all rules --- */

struct list {
        VEC(struct path_rule) rules;
        VEC(char *) owned;
};

static void list_done(struct list *list) {
        for (size_t i = 0; i < list->owned.n; i++)
                free(list->owned.p[i]);
        vec_done(&list->owned);
        vec_done(&list->rules);
}

/* Takes the pattern. */
static int list_add(struct list *list, struct path_rule rule, char *taken) {
        if (!taken || vec_push(&list->owned, taken) < 0) {
                free(taken);
                return -ENOMEM;
        }
        rule.pattern = taken;
        return vec_push(&list->rules, rule);
}

/* A home of the sandbox's own cannot cover the real one here. So the real one is closed, and $HOME leads elsewhere. */
static int list_add_policy(struct list *list, const struct path_rules *rules) {
        for (size_t i = 0; i < path_rules_count(rules); i++) {
                struct path_rule rule = *path_rules_at(rules, i);

                if (rule.built_in && path_is_within(rule.pattern, "/run"))
                        continue; /* there is no such directory, and nobody can make one */

                if (rule.own) {
                        rule.own = rule.grants = false;
                        rule.decides_read = true;
                }

                int r = list_add(list, rule, seatbelt_canonical(rule.pattern));
                if (r < 0)
                        return r;
        }

        return 0;
}

static bool list_grants_around(const struct list *list, const char *path) {
        for (size_t i = 0; i < list->rules.n; i++) {
                const struct path_rule *rule = &list->rules.p[i];

                if (rule->grants && (path_is_within(path, rule->pattern) || path_is_within(rule->pattern, path)))
                        return true;
        }
        return false;
}

static int list_add_place(struct list *list, const struct seatbelt_request *request,
                          const struct seatbelt_place *place) {
        bool in_home = place->path[0] == '~';
        bool writes = place->kind == SEATBELT_GIVES && request->policy->mode != MODE_READ_ONLY;
        bool hides = place->kind == SEATBELT_HIDES, keeps = place->kind == SEATBELT_KEEPS;
        struct path_rule rule = { .origin = place->why, .built_in = place->group == 0 };
        char *path = in_home ? path_join(request->host->home, place->path + 2) : str_dup(str_of(place->path));

        if (place->kind == SEATBELT_PROGRAMS && !request->host->own_home) {
                free(path);
                return 0; /* the real home is there */
        }

        if (path && (hides || keeps) && in_home && request->host->own_home && !list_grants_around(list, path)) {
                free(path);
                return 0; /* all of the home is closed */
        }

        rule.grants = !hides && !keeps;
        rule.decides_read = !keeps && !writes;

        return list_add(list, rule, path);
}

static int list_add_places(struct list *list, const struct seatbelt_request *request, unsigned groups) {
        int r = 0;

        for (size_t i = 0; i < seatbelt_places_n && r == 0; i++)
                if (!seatbelt_places[i].group || groups & seatbelt_places[i].group)
                        r = list_add_place(list, request, &seatbelt_places[i]);
        return r;
}

/* Toolchains in the home; caches are not shown, since nothing can lie over them here. */
static int list_add_toolchains(struct list *list, const struct seatbelt_request *request) {
        int r = 0;

        for (size_t i = 0; i < n_home_rows && r == 0 && request->host->own_home; i++)
                if (home_rows[i].kind == HOME_TOOLCHAIN)
                        r = list_add(
                            list,
                            (struct path_rule){
                                .decides_read = true, .grants = true, .built_in = true, .origin = home_rows[i].what },
                            path_join(request->host->home, home_rows[i].path));

        return r;
}

static int list_add_own(struct list *list, const struct seatbelt_host *host) {
        const struct path_rule own = { .grants = true };
        struct path_rule temporary = own, home = own;

        temporary.origin = "temporary files of this run";
        home.origin = "the sandbox's own home";
        int r = list_add(list, temporary, seatbelt_canonical(host->tmpdir));
        return r == 0 && host->own_home ? list_add(list, home, seatbelt_canonical(host->own_home)) : r;
}

static int rules_collect(const struct seatbelt_request *request, unsigned groups, struct path_rules **ret,
                         struct err *err) {
        cleanup(list_done) struct list list = { 0 };
        int r = list_add_policy(&list, request->rules);

        if (r == 0)
                r = list_add_toolchains(&list, request);
        if (r == 0)
                r = list_add_places(&list, request, groups);
        if (r == 0)
                r = list_add_own(&list, request->host);
        if (r < 0)
                return r;

        return path_rules_restore(list.rules.p, list.rules.n, path_rules_reads_open(request->rules), ret, err);
}

/* --- plain paths --- */

static bool is_in_writable(const struct path_rules *rules, const char *path) {
        for (size_t i = 0; i < path_rules_count(rules); i++) {
                const struct path_rule *rule = path_rules_at(rules, i);

                if (seatbelt_says(rule) == SEATBELT_WRITE && path_is_within(path, rule->pattern))
                        return true;
        }
        return false;
}

static int begin_plain(struct seatbelt *seatbelt, enum seatbelt_says says) {
        static const struct {
                bool allows;
                const char *operations, *why;
        } kinds[] = {
                [SEATBELT_READ] = { true, SEATBELT_READING, "may be read" },
                [SEATBELT_WRITE] = { true, SEATBELT_READING " file-write*", "may be read and written" },
                [SEATBELT_NO_READ] = { false, SEATBELT_READING " " SEATBELT_WRITING, "neither read nor written" },
                [SEATBELT_NO_WRITE] = { false, SEATBELT_WRITING, "not written" },
        };

        return seatbelt_begin(seatbelt, kinds[says].allows, SEATBELT_SECTION_FILES, kinds[says].operations,
                              kinds[says].why);
}

/* The names that every writable directory has protected. In all but the workspace they stand only in the expressions
 * that follow (plan/macos/late.c): each path costs the kernel's compiler time, and those cover every spelling. */
static bool is_left_to_expressions(const struct seatbelt_request *request, const struct path_rule *rule) {
        return rule->protected && !request->host->case_sensitive &&
               !(request->policy->workspace && path_is_within(rule->pattern, request->policy->workspace));
}

/* From shallow to deep; neighbours that say the same are one rule. The origins belong to the caller's rules and to
 * tables, both of which may be gone before the profile is. */
static int add_plain(struct seatbelt *seatbelt, const struct seatbelt_request *request,
                     const struct path_rules *rules) {
        int last = -1, r = 0;

        for (size_t i = 0; i < path_rules_count(rules) && r == 0; i++) {
                const struct path_rule *rule = path_rules_at(rules, i);
                enum seatbelt_says says = seatbelt_says(rule);
                const char *why = seatbelt_format(seatbelt, "%s", rule->origin);

                if (rule->is_glob || is_left_to_expressions(request, rule))
                        continue;
                if ((int)says != last)
                        r = begin_plain(seatbelt, says);

                last = (int)says;

                /* A subpath alone leaves the first creation of the name itself open (codex). */
                if (r == 0 && !rule->grants && is_in_writable(rules, rule->pattern))
                        r = seatbelt_filter_path(seatbelt, SEATBELT_LITERAL, rule->pattern, why);
                if (r == 0)
                        r = seatbelt_filter_path(seatbelt, SEATBELT_SUBPATH, rule->pattern, why);
        }

        return r;
}

/* --- the way to what is granted --- */

static int add_way(struct seatbelt *seatbelt, const struct path_rules *rules, const char *path, size_t first) {
        cleanup(free_ptr) char *parent = str_dup(str_of(path));

        for (char *slash; parent && (slash = strrchr(parent, '/')) && slash > parent;) {
                *slash = '\0';
                bool known = path_rules_access(rules, parent, NULL) != PATH_DENIED;
                for (size_t i = first; i < seatbelt->filters.n && !known; i++)
                        known = strcmp(seatbelt->filters.p[i].text, parent) == 0;

                int r = known ? 0 : seatbelt_filter_path(seatbelt, SEATBELT_LITERAL, parent, NULL);
                if (r < 0)
                        return r;
        }

        return parent ? 0 : -ENOMEM;
}

/* realpath(), and Node on every start, ask for each directory on the way; nothing but its attributes is shown. */
static int add_ways(struct seatbelt *seatbelt, const struct path_rules *rules) {
        static const char *const links[] = { "/tmp", "/var", "/etc" };
        int r = seatbelt_begin(seatbelt, true, SEATBELT_SECTION_FILES, "file-read-metadata",
                               "attributes of the directories on the way to what is granted, and of the root's links");
        size_t first = seatbelt->filters.n;

        for (size_t i = 0; i < sizeof links / sizeof *links && r == 0; i++)
                r = seatbelt_filter(seatbelt, SEATBELT_LITERAL, links[i], NULL);

        for (size_t i = 0; i < path_rules_count(rules) && r == 0; i++)
                if (path_rules_at(rules, i)->grants)
                        r = add_way(seatbelt, rules, path_rules_at(rules, i)->pattern, first);

        return r;
}

int seatbelt_add_files(struct seatbelt *seatbelt, const struct seatbelt_request *request, unsigned groups,
                       struct err *err) {
        cleanup(path_rules_freep) struct path_rules *rules = NULL;
        int r = rules_collect(request, groups, &rules, err);

        if (r == 0)
                r = add_plain(seatbelt, request, rules);
        if (r == 0)
                r = seatbelt_add_late(seatbelt, request, rules, err);
        if (r == 0)
                r = seatbelt_add_moves(seatbelt, rules, !request->host->case_sensitive, err);

        return r == 0 ? add_ways(seatbelt, rules) : r;
}
