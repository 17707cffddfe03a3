/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/tools.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "conf/suggest.h"
#include "policy/check.h"
#include "policy/credential.h"
#include "policy/file.h"
#include "policy/git_rules.h"
#include "policy/tool_grammar.h"

#include <errno.h>
#include <stdlib.h>

static int no_memory(struct err *err) {
        return err_set(err, ENOMEM, "out of memory");
}

/* --- what people write --- */

int check_tool_verb(struct str text, struct err *err) {
        struct tool_verb verb;

        return tool_verb_parse(text, &verb, err);
}

int check_tool_never(struct str text, struct err *err) {
        struct tool_never never;

        return tool_never_parse(text, &never, err);
}

/* An option before the verb: it has no value, or the verb could not be told from it. */
int check_tool_front(struct str text, struct err *err) {
        struct tool_verb verb;
        cleanup(free_ptr) char *line = str_format("x %.*s", STR_FMT(text));

        if (!line)
                return no_memory(err);

        if (tool_verb_parse(str_of(line), &verb, NULL) == 0 && verb.n_options == 1 && verb.n_places == 0 &&
            verb.n_words == 1 && verb.options[0].slot.type == TOOL_FLAG && !verb.options[0].always)
                return 0;

        return err_set(err, EINVAL, "%s: before the verb there are only options without a value, as --no-pager",
                       show(text).text);
}

int check_tool_program(struct str text, struct err *err) {
        if (text.n > 1 && (text.p[0] == '/' || str_starts(text, STR("~/"))))
                return 0;
        return err_set(err, EINVAL, "%s: the program of a tool is a whole path, as /usr/bin/gh", show(text).text);
}

int check_tool_file(struct str text, struct err *err) {
        if (text.n > 1 && (text.p[0] == '/' || str_starts(text, STR("~/"))) && str_find(text, '*') < 0)
                return 0;
        return err_set(err, EINVAL, "%s: a file of a tool is a whole path, as ~/.kube/config", show(text).text);
}

int check_tool_credential(struct str text, struct err *err) {
        return check_credential_word(text, err);
}

static int check_contradictions(const struct bridge_tool *tool, const struct tool_verb *verb, struct err *err) {
        struct tool_never never;

        for (size_t i = 0; i < tool->never.n; i++) {
                if (tool_never_parse(str_of(tool->never.p[i].text), &never, err) < 0)
                        return -EINVAL;
                if (never.kind == TOOL_NEVER_OPTION && tool_verb_option(verb, never.word))
                        return err_set(err, EINVAL,
                                       "%s: `never` refuses %.*s, and the verb \"%.*s\" has it: which one is meant?",
                                       tool->name, STR_FMT(never.word), STR_FMT(verb->line));
        }

        return 0;
}

int check_tool(const void *record, struct err *err) {
        const struct bridge_tool *tool = record;
        cleanup(free_ptr) struct tool_verb *pair = calloc(2, sizeof *pair);
        int r = pair ? 0 : no_memory(err);

        for (size_t i = 0; r == 0 && i < tool->verbs.n; i++) {
                r = tool_verb_parse(str_of(tool->verbs.p[i].text), &pair[0], err);
                if (r == 0)
                        r = check_contradictions(tool, &pair[0], err);
                for (size_t k = 0; r == 0 && k < i; k++) {
                        r = tool_verb_parse(str_of(tool->verbs.p[k].text), &pair[1], err);
                        if (r == 0 && tool_verb_same_words(&pair[0], &pair[1]))
                                r = err_set(err, EINVAL, "%s: the verb \"%s\" is there twice, the first time as \"%s\"",
                                            tool->name, tool->verbs.p[i].text, tool->verbs.p[k].text);
                }
        }

        return r;
}

/* --- names on the command line --- */

static struct str word_name(struct str word, struct str *ret_repos) {
        ptrdiff_t equals = str_find(word, '=');

        *ret_repos = str_n(NULL, 0);
        if (equals < 0)
                return word;
        *ret_repos = str_skip(word, (size_t)equals + 1);
        return str_first(word, (size_t)equals);
}

int check_tool_word(struct str word, struct err *err) {
        struct str repos, repo, name = word_name(word, &repos);
        int r = check_name(name, err);

        if (r == 0 && repos.p && repos.n == 0)
                r = err_set(err, EINVAL, "%s: behind '=' stands a repository, as gh=github.com/acme/app",
                            show(word).text);

        while (r == 0 && str_split(&repos, '+', &repo))
                r = check_git_repo(repo, err);

        return r;
}

int tool_add_word(struct policy *policy, struct str word, const char *origin, struct err *err) {
        struct str repos, repo, name = word_name(word, &repos);
        struct bridge_tool *there = NULL;

        for (size_t i = 0; i < policy->bridge.n; i++)
                if (str_is(name, policy->bridge.p[i].name))
                        there = &policy->bridge.p[i];

        if (!there) {
                struct bridge_tool made = { .name = str_dup(name), .origin = str_dup(str_of(origin)) };
                if (!made.name || !made.origin || vec_push(&policy->bridge, made) < 0) {
                        free(made.name);
                        free(made.origin);
                        return no_memory(err);
                }

                there = &policy->bridge.p[policy->bridge.n - 1];
        }

        while (str_split(&repos, '+', &repo))
                if (origin_texts_add(&there->repos, repo, origin) < 0)
                        return no_memory(err);

        return 0;
}

/* --- all layers together --- */

static void tool_done(struct bridge_tool *tool) {
        origin_texts *const lists[] = { &tool->hosts, &tool->credentials, &tool->files, &tool->env,  &tool->env_pass,
                                        &tool->repos, &tool->verbs,       &tool->never, &tool->front };

        free(tool->name);
        free(tool->origin);
        free(tool->program);
        free(tool->workspace);
        free(tool->otherwise);

        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
                origin_texts_done(lists[i]);
}

static void list_take(origin_texts *into, origin_texts *from) {
        if (into->n)
                return;
        origin_texts_done(into);
        *into = *from;
        *from = (origin_texts){ 0 };
}

static void text_take(char **into, char **from) {
        if (!*into)
                *into = take_ptr(from);
}

/* What a person wrote stays; the rest is taken from the other. */
static void tool_fill(struct bridge_tool *tool, struct bridge_tool *from) {
        text_take(&tool->program, &from->program);
        text_take(&tool->workspace, &from->workspace);
        text_take(&tool->otherwise, &from->otherwise);

        if (tool->separator == SWITCH_UNSET)
                tool->separator = from->separator;
        if (!tool->timeout_ns)
                tool->timeout_ns = from->timeout_ns;

        list_take(&tool->hosts, &from->hosts);
        list_take(&tool->credentials, &from->credentials);
        list_take(&tool->files, &from->files);
        list_take(&tool->env, &from->env);
        list_take(&tool->env_pass, &from->env_pass);
        list_take(&tool->repos, &from->repos);
        list_take(&tool->front, &from->front);

        if (tool->verbs.n == 0) /* words that are refused belong to a grammar */
                list_take(&tool->never, &from->never);

        list_take(&tool->verbs, &from->verbs);
}

static void drop_earlier(struct policy *policy) {
        size_t kept = 0;

        for (size_t i = 0; i < policy->bridge.n; i++) {
                bool again = false;

                for (size_t k = i + 1; k < policy->bridge.n; k++)
                        again = again || strcmp(policy->bridge.p[i].name, policy->bridge.p[k].name) == 0;
                if (again)
                        tool_done(&policy->bridge.p[i]);
                else
                        policy->bridge.p[kept++] = policy->bridge.p[i];
        }

        policy->bridge.n = kept;
}

static int unknown_tool(const struct bridge_tool *tool, struct err *err) {
        struct suggestion suggestion = suggest_for(str_of(tool->name));

        for (size_t i = 0; i < n_tools_built_in; i++)
                suggest_offer(&suggestion, tools_built_in[i].name);

        return err_set(err, EINVAL,
                       "%s: nothing is known of a tool '%s'%s; `bailey bridge ls` lists the tools that are built in, "
                       "for one of your own write its `verbs`",
                       tool->origin, tool->name, suggest_text(&suggestion, "").text);
}

static int fill_from_built_in(struct bridge_tool *tool, struct err *err) {
        const struct tool_built_in *known = NULL;

        for (size_t i = 0; i < n_tools_built_in; i++)
                if (strcmp(tools_built_in[i].name, tool->name) == 0)
                        known = &tools_built_in[i];

        if (!known)
                return tool->verbs.n ? 0 : unknown_tool(tool, err);

        cleanup(policy_file_done) struct policy_file file = { 0 };
        cleanup(policy_freep) struct policy *scratch = calloc(1, sizeof *scratch);
        if (!scratch)
                return no_memory(err);

        cleanup(free_ptr) char *shown = str_format("built in: %s", tool->name);
        int r = shown ? policy_file_text(&file, known->text, "/", shown, err) : no_memory(err);
        if (r == 0)
                r = policy_file_apply(&file, scratch, err);
        if (r == 0 && scratch->bridge.n == 1)
                tool_fill(tool, &scratch->bridge.p[0]);

        return r;
}

static int take_repos_of_git(struct bridge_tool *tool, const struct policy *policy, struct err *err) {
        cleanup(free_ptr) struct tool_verb *verb = calloc(1, sizeof *verb);
        bool needs = false;

        for (size_t i = 0; verb && i < tool->verbs.n && !needs; i++)
                if (tool_verb_parse(str_of(tool->verbs.p[i].text), verb, NULL) == 0)
                        needs = tool_verb_has_type(verb, TOOL_REPO) || tool_verb_has_type(verb, TOOL_REMOTE);

        if (!verb)
                return no_memory(err);
        if (!needs || tool->repos.n)
                return 0;

        for (size_t i = 0; i < policy->git.n; i++)
                if (policy->git.p[i].origin[0] != '@' &&
                    origin_texts_add(&tool->repos, str_of(policy->git.p[i].repo), policy->git.p[i].origin) < 0)
                        return no_memory(err);

        if (tool->repos.n)
                return 0;

        return err_set(
            err, EINVAL,
            "%s: the tool '%s' works with repositories, and none is named: add repos: [github.com/acme/app], "
            "entries under `git`, or --bridge %s=github.com/acme/app",
            tool->origin, tool->name, tool->name);
}

int tools_complete(struct policy *policy, struct err *err) {
        int r = 0;

        drop_earlier(policy);

        for (size_t i = 0; r == 0 && i < policy->bridge.n; i++) {
                struct bridge_tool *tool = &policy->bridge.p[i];

                r = fill_from_built_in(tool, err);
                if (r < 0)
                        return r;
                if (check_tool(tool, err) < 0)
                        return err_wrap(err, -EINVAL, "%s", tool->origin);

                r = take_repos_of_git(tool, policy, err);
        }

        return r;
}

const struct bridge_tool *tool_find(const struct policy *policy, struct str name) {
        for (size_t i = 0; i < policy->bridge.n; i++)
                if (str_is(name, policy->bridge.p[i].name))
                        return &policy->bridge.p[i];
        return NULL;
}

uint64_t tool_timeout_ns(const struct bridge_tool *tool) {
        return tool->timeout_ns ? tool->timeout_ns : TOOL_TIMEOUT_SECONDS * NS_PER_SECOND;
}

bool tool_is(const char *value, const char *word, bool fallback) {
        return value ? strcmp(value, word) == 0 : fallback;
}
