/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/git/git_rules.h"

#include "base/cleanup.h"
#include "conf/suggest.h"
#include "policy/git/git.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { HTTPS_PORT = 443, RULES_MAX = 4096 };

/* --- what people write --- */

int check_git_repo(struct str text, struct err *err) {
        struct git_name name;

        return git_name_parse(text, &name, err);
}

int check_git_ref(struct str text, struct err *err) {
        return git_ref_check_pattern(text, err);
}

static struct str word_repo(struct str word, struct str *ret_refs) {
        ptrdiff_t equals = str_find(word, '=');

        *ret_refs = str_n(NULL, 0);
        if (equals >= 0)
                *ret_refs = str_skip(word, (size_t)equals + 1);

        return equals < 0 ? word : str_first(word, (size_t)equals);
}

static int check_short_ref(struct str text, struct err *err) {
        cleanup(free_ptr) char *whole = git_ref_expand(text);

        if (!whole)
                return err_memory(err);
        return git_ref_check_pattern(str_of(whole), err);
}

int check_git_word(struct str word, struct err *err) {
        struct str refs, ref, repo = word_repo(word, &refs);
        int r = check_git_repo(repo, err);

        if (r < 0)
                return r;

        if (refs.p && refs.n == 0)
                return err_set(err, EINVAL,
                               "%s: behind '=' stands what may be pushed, as agent/**; without '=' nothing "
                               "may",
                               show(word).text);

        while (r == 0 && str_split(&refs, '+', &ref))
                r = check_short_ref(ref, err);

        return r;
}

int check_git_rule(const void *record, struct err *err) {
        const struct git_rule *rule = record;
        bool push = rule->push.n > 0;

        if (rule->fetch == SWITCH_OFF && !push)
                return err_set(err, EINVAL,
                               "this entry for %s allows nothing: neither fetch nor push; leave it out, since what no "
                               "entry names is refused",
                               rule->repo);

        if (!push && (rule->delete == SWITCH_ON || rule->create == SWITCH_ON || rule->options == SWITCH_ON ||
                      rule->certificate == SWITCH_ON))
                return err_set(err, EINVAL,
                               "this entry for %s allows kinds of pushes, but names no ref to push to; add push: "
                               "[refs/heads/...]",
                               rule->repo);

        if (!push && rule->ask && strcmp(rule->ask, "push") == 0)
                return err_set(err, EINVAL,
                               "this entry for %s asks about pushes, but allows none; add push: "
                               "[refs/heads/...]",
                               rule->repo);

        return 0;
}

struct git_rule *git_rule_add(struct policy *policy, const char *repo, const char *origin) {
        struct git_rule rule = { .repo = str_dup(str_of(repo)), .origin = str_dup(str_of(origin)) };

        if (rule.repo && rule.origin && vec_push(&policy->git, rule) == 0)
                return &policy->git.p[policy->git.n - 1];
        free(rule.repo);
        free(rule.origin);
        return NULL;
}

int git_rule_add_word(struct policy *policy, struct str word, const char *origin, struct err *err) {
        struct str refs, ref, repo = word_repo(word, &refs);
        cleanup(free_ptr) char *name = str_dup(repo);
        struct git_rule *rule = name ? git_rule_add(policy, name, origin) : NULL;

        if (!rule)
                return err_memory(err);

        while (str_split(&refs, '+', &ref)) {
                cleanup(free_ptr) char *whole = git_ref_expand(ref);
                if (!whole || origin_texts_add(&rule->push, str_of(whole), origin) < 0)
                        return err_memory(err);
        }

        return 0;
}

/* --- compiling --- */

struct entry {
        const struct git_rule *rule;
        struct git_name name;
        size_t order;
};

static bool names_equal(const struct git_name *name, const struct git_name *git_name) {
        return host_equal(&name->host, &git_name->host) && name->port == git_name->port &&
               name->path_n == git_name->path_n && memcmp(name->path, git_name->path, name->path_n) == 0;
}

/* "file:line:column" without line and column: the same for entries of one file. */
static struct str origin_file(const char *origin) {
        struct str file = str_of(origin);

        for (int i = 0; i < 2; i++) {
                ptrdiff_t colon = str_rfind(file, ':');
                if (colon > 0)
                        file = str_first(file, (size_t)colon);
        }

        return file;
}

/* Twice in one file is a contradiction; in another layer the later one replaces the earlier. */
static int check_repeated(const struct entry *entries, size_t n, const struct entry *added, struct err *err) {
        for (size_t i = 0; i < n; i++) {
                const char *first = entries[i].rule->origin, *second = added->rule->origin;
                bool places = str_find(str_of(first), ':') >= 0;
                if (names_equal(&entries[i].name, &added->name) && places && strcmp(first, second) != 0 &&
                    str_eq(origin_file(first), origin_file(second)))
                        return err_set(
                            err, EINVAL,
                            "%s: %s is here a second time, the first is at %s; which one should count cannot "
                            "be known: make them one entry",
                            second, added->rule->repo, first);
        }

        return 0;
}

static int compare_entries(const void *a, const void *b) {
        const struct entry *left = a, *right = b;
        size_t rank_x = git_path_rank(str_n(left->name.path, left->name.path_n));
        size_t rank_y = git_path_rank(str_n(right->name.path, right->name.path_n));

        if (rank_x != rank_y)
                return rank_x > rank_y ? -1 : 1;
        if (left->name.path_n != right->name.path_n)
                return left->name.path_n < right->name.path_n ? -1 : 1;

        bool group_x = left->rule->origin[0] == '@', group_y = right->rule->origin[0] == '@';
        if (group_x != group_y)
                return group_x ? 1 : -1;

        if (left->order > right->order)
                return -1;

        return 1; /* the later layer first */
}

/* As it is shown wherever a rule is named. */
static char *rule_text(const struct git_rule *rule, const struct git_name *name) {
        cleanup(buf_done) struct buf out = BUF(1024);
        char port[8] = "";
        int r = 0;

        if (name->port)
                snprintf(port, sizeof port, ":%u", name->port);

        r = buf_printf(&out, "%s%s/%s", name->host.name, port, name->path);
        if (rule->fetch != SWITCH_OFF)
                r = r < 0 ? r : buf_add(&out, " fetch");

        for (size_t i = 0; r == 0 && i < rule->push.n; i++)
                r = buf_printf(&out, "%s%s", i ? "," : " push ", rule->push.p[i].text);

        if (r < 0 && out.n == 0)
                return NULL;

        return str_dup(buf_str(&out)); /* a long list is shown cut */
}

static int compile_entry(const struct entry *entry, bool closed, struct snapshot_builder *builder, struct err *err) {
        const struct git_rule *rule = entry->rule;
        cleanup(free_ptr) struct str *refs = calloc(rule->push.n + 1, sizeof *refs);
        cleanup(free_ptr) char *text = rule_text(rule, &entry->name);

        if (!refs || !text)
                return err_set(err, ENOMEM, "out of memory for the policy's rules");

        for (size_t i = 0; i < rule->push.n; i++)
                refs[i] = str_of(rule->push.p[i].text);

        struct snapshot_git git = { .text = str_of(text),
                                    .host = entry->name.host,
                                    .port = entry->name.port ? entry->name.port : HTTPS_PORT,
                                    .path = str_n(entry->name.path, entry->name.path_n),
                                    .refs = refs,
                                    .n_refs = rule->push.n,
                                    .fetch = rule->fetch != SWITCH_OFF,
                                    .create = rule->create != SWITCH_OFF,
                                    .delete = rule->delete == SWITCH_ON,
                                    .options = rule->options == SWITCH_ON,
                                    .certificate = rule->certificate == SWITCH_ON,
                                    .ask = rule->ask && strcmp(rule->ask, "push") == 0 };
        if (closed) {
                git.n_refs = 0;
                git.fetch = false;
        }

        return snapshot_add_git(builder, &git, str_of(rule->origin), err);
}

int git_rules_compile(const struct policy *policy, bool closed, struct snapshot_builder *builder, struct err *err) {
        cleanup(free_ptr) struct entry *entries = calloc(policy->git.n + 1, sizeof *entries);
        int r = 0;

        if (!entries)
                return err_set(err, ENOMEM, "out of memory for the policy's rules");
        if (policy->git.n > RULES_MAX)
                return err_set(err, E2BIG, "the policy has more than %d entries under git", RULES_MAX);

        for (size_t i = 0; r == 0 && i < policy->git.n; i++) {
                entries[i] = (struct entry){ .rule = &policy->git.p[i], .order = i };
                r = git_name_parse(str_of(policy->git.p[i].repo), &entries[i].name, err);
                if (r < 0)
                        r = err_wrap(err, r, "%s", policy->git.p[i].origin);
                else
                        r = check_repeated(entries, i, &entries[i], err);
        }

        if (r < 0)
                return r;

        qsort(entries, policy->git.n, sizeof *entries, compare_entries);
        for (size_t i = 0; r == 0 && i < policy->git.n; i++)
                r = compile_entry(&entries[i], closed, builder, err);

        return r;
}

bool git_rules_name_host(const struct policy *policy, const struct host *host) {
        struct git_name name;

        for (size_t i = 0; i < policy->git.n; i++)
                if (git_name_parse(str_of(policy->git.p[i].repo), &name, NULL) == 0 && host_equal(&name.host, host))
                        return true;
        return false;
}
