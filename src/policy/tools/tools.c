/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/tools/tools.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "conf/suggest.h"
#include "policy/check.h"
#include "policy/git/git_rules.h"
#include "policy/tools/tool_grammar.h"

#include <errno.h>
#include <stdlib.h>

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
                return err_memory(err);

        if (tool_verb_parse(str_of(line), &verb, NULL) == 0 && verb.n_options == 1 && verb.n_places == 0 &&
            verb.n_words == 1 && verb.options[0].slot.type == TOOL_FLAG && !verb.options[0].always)
                return 0;

        return err_set(err, EINVAL, "%s: before the verb there are only options without a value, as --no-pager",
                       show(text).text);
}

int check_tool_ask(struct str text, struct err *err) {
        struct tool_ask ask;

        return tool_ask_parse(text, &ask, err);
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
        int r = 0;

        if (!pair)
                r = err_memory(err);

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
                        return err_memory(err);
                }

                there = &policy->bridge.p[policy->bridge.n - 1];
        }

        while (str_split(&repos, '+', &repo))
                if (origin_texts_add(&there->repos, repo, origin) < 0)
                        return err_memory(err);

        return 0;
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
