/* SPDX-License-Identifier: Apache-2.0 */
/* Tools once all layers of a policy are together: what a person left out is taken from the tables that are built in. */
#include "policy/tools/tools.h"

#include "base/cleanup.h"
#include "conf/suggest.h"
#include "policy/file.h"
#include "policy/tools/tool_credentials.h"
#include "policy/tools/tool_grammar.h"

#include <errno.h>
#include <stdlib.h>

static void tool_done(struct bridge_tool *tool) {
        origin_texts *const lists[] = { &tool->hosts, &tool->credentials, &tool->files, &tool->env,   &tool->env_pass,
                                        &tool->repos, &tool->verbs,       &tool->never, &tool->front, &tool->ask };

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

        if (tool->verbs.n == 0) { /* words that are refused or asked about belong to a grammar */
                list_take(&tool->never, &from->never);
                list_take(&tool->ask, &from->ask);
        }

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

        /* What these print is a secret: inside, it could be sent wherever the sandbox may. */
        if (strcmp(tool->name, "op") == 0 || strcmp(tool->name, "pass") == 0)
                return err_set(err, EINVAL,
                               "%s: '%s' prints secrets, so there is no table for it: have Bailey put the secret into "
                               "requests, as --credential github='exec:%s ...'",
                               tool->origin, tool->name, tool->name);

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

        if (!known && tool->verbs.n)
                return 0;
        if (!known)
                return unknown_tool(tool, err);

        cleanup(policy_file_done) struct policy_file file = { 0 };
        cleanup(policy_freep) struct policy *scratch = calloc(1, sizeof *scratch);
        if (!scratch)
                return err_memory(err);

        cleanup(free_ptr) char *shown = str_format("built in: %s", tool->name);
        int r = shown ? policy_file_text(&file, known->text, "/", shown, err) : err_memory(err);
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
                return err_memory(err);
        if (!needs || tool->repos.n)
                return 0;

        for (size_t i = 0; i < policy->git.n; i++)
                if (policy->git.p[i].origin[0] != '@' &&
                    origin_texts_add(&tool->repos, str_of(policy->git.p[i].repo), policy->git.p[i].origin) < 0)
                        return err_memory(err);

        if (tool->repos.n)
                return 0;

        return err_set(
            err, EINVAL,
            "%s: the tool '%s' works with repositories, and none is named: add repos: [github.com/acme/app], "
            "entries under `git`, or --bridge %s=github.com/acme/app",
            tool->origin, tool->name, tool->name);
}

/* One that no call can ever meet would be taken for a protection. */
static int check_asks(const struct bridge_tool *tool, struct err *err) {
        cleanup(free_ptr) struct tool_verb *verb = calloc(1, sizeof *verb);
        struct tool_ask ask;

        if (!verb)
                return err_memory(err);

        for (size_t i = 0; i < tool->ask.n; i++) {
                const struct origin_text *entry = &tool->ask.p[i];
                bool met = false;
                int r = tool_ask_parse(str_of(entry->text), &ask, err);

                for (size_t k = 0; r == 0 && k < tool->verbs.n && !met; k++)
                        met = tool_verb_parse(str_of(tool->verbs.p[k].text), verb, NULL) == 0 &&
                              tool_ask_names(&ask, verb);

                if (r < 0)
                        return r;
                if (!met)
                        return err_set(err, EINVAL,
                                       "%s: ask \"%s\" meets no call of the tool '%s': no verb begins with these words "
                                       "and has these options; `bailey bridge show %s` lists the verbs",
                                       entry->origin, entry->text, tool->name, tool->name);
        }

        return 0;
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

                r = check_asks(tool, err);
                if (r == 0)
                        r = take_repos_of_git(tool, policy, err);
        }

        if (r < 0)
                return r;

        return tool_credentials_settle(policy, err);
}
