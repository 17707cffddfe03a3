/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/bridges.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "bridge/tool_call.h"
#include "conf/suggest.h"
#include "policy/file.h"
#include "policy/load.h"
#include "policy/tools/tool_grammar.h"
#include "policy/tools/tools.h"

#include <errno.h>

static int no_memory(struct err *err) {
        return err_set(err, ENOMEM, "out of memory");
}

static int load_policy(const struct option_values *options, struct policy **ret, struct err *err) {
        enum policy_layer layer = LAYER_FILES;
        const struct policy_request request = { .command_line = options, .ret_layer = &layer, .network_only = true };
        int r = policy_load(&request, ret, err);

        if (r == -EPERM)
                err_blame(err, ERR_REFUSED);
        else if (r < 0)
                err_blame(err, layer == LAYER_COMMAND_LINE ? ERR_USAGE : ERR_CONFIG);

        return r;
}

/* A tool that is built in, read as a policy of its own. */
static int read_built_in(const struct tool_built_in *known, struct policy **ret, struct err *err) {
        cleanup(policy_file_done) struct policy_file file = { 0 };
        cleanup(policy_freep) struct policy *policy = calloc(1, sizeof *policy);
        int r = policy ? policy_file_text(&file, known->text, "/", known->name, err) : no_memory(err);

        if (r == 0)
                r = policy_file_apply(&file, policy, err);
        if (r == 0)
                *ret = take_ptr(&policy);

        return r;
}

static void emit_words(struct emit *json, const struct bridge_tool *tool) {
        struct tool_verb *verb = calloc(1, sizeof *verb);

        emit_key(json, "verbs");
        emit_open(json, '[');
        for (size_t i = 0; verb && i < tool->verbs.n; i++)
                emit_text(json, tool->verbs.p[i].text);

        emit_close(json);
        free(verb);
}

static int list_text(const struct bridge_tool *tool, struct buf *out) {
        struct tool_verb *verb = calloc(1, sizeof *verb);
        int r = -ENOMEM;

        if (verb)
                r = buf_printf(out, "%s:", tool->name);

        for (size_t i = 0; r == 0 && i < tool->verbs.n; i++) {
                r = tool_verb_parse(str_of(tool->verbs.p[i].text), verb, NULL);
                if (r == 0 && i > 0 && verb->n_words > 0)
                        r = buf_add_char(out, ',');
                for (size_t k = 0; r == 0 && k < verb->n_words; k++)
                        r = buf_printf(out, " %.*s", STR_FMT(verb->words[k]));
        }

        free(verb);
        if (r < 0)
                return r;

        return buf_add(out, "\n");
}

const char *bridges_name(size_t number) {
        return number < n_tools_built_in ? tools_built_in[number].name : NULL;
}

int bridges_list(bool json, struct buf *out, struct err *err) {
        struct emit j = emit_to(out);
        int r = 0;

        if (json)
                emit_open(&j, '[');

        for (size_t i = 0; r == 0 && i < n_tools_built_in; i++) {
                cleanup(policy_freep) struct policy *policy = NULL;

                r = read_built_in(&tools_built_in[i], &policy, err);
                if (r == 0 && !json) {
                        r = list_text(&policy->bridge.p[0], out);
                } else if (r == 0) {
                        emit_open(&j, '{');
                        emit_put_text(&j, "name", tools_built_in[i].name);
                        emit_words(&j, &policy->bridge.p[0]);
                        emit_close(&j);
                }
        }

        if (json)
                emit_close(&j);
        if (r == 0 && json && (emit_status(&j) < 0 || buf_add_char(out, '\n') < 0))
                r = no_memory(err);

        return r;
}

static int unknown_tool(const struct policy *policy, const char *name, struct err *err) {
        struct suggestion suggestion = suggest_for(str_of(name));
        bool built_in = false;

        for (size_t i = 0; i < n_tools_built_in; i++) {
                suggest_offer(&suggestion, tools_built_in[i].name);
                built_in = built_in || strcmp(tools_built_in[i].name, name) == 0;
        }

        for (size_t i = 0; policy && i < policy->bridge.n; i++)
                suggest_offer(&suggestion, policy->bridge.p[i].name);

        if (built_in)
                return err_set(err, ENOENT,
                               "the policy does not open the tool %s: add --bridge %s, or an entry under `bridge`",
                               name, name);

        return err_set(err, ENOENT, "there is no tool %s%s", show(str_of(name)).text,
                       suggest_text(&suggestion, "").text);
}

static int show_list(struct buf *out, const char *label, const origin_texts *list) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < list->n; i++)
                r = buf_printf(out, "%-12s%s\n", i ? "" : label, list->p[i].text);
        return r;
}

static int show_tool(const struct bridge_tool *tool, struct buf *out) {
        const struct {
                const char *label;
                const origin_texts *list;
        } lists[] = { { "verbs", &tool->verbs },       { "front", &tool->front },
                      { "never", &tool->never },       { "ask", &tool->ask },
                      { "repos", &tool->repos },       { "hosts", &tool->hosts },
                      { "files", &tool->files },       { "env", &tool->env },
                      { "env_pass", &tool->env_pass }, { "credentials", &tool->credentials } };
        int r = buf_printf(out, "%-12s%s\n%-12s%s\n%-12s%s\n%-12s%s\n", "tool", tool->name, "program",
                           text_or(tool->program, "(by its name)"), "workspace", text_or(tool->workspace, "none"),
                           "otherwise", text_or(tool->otherwise, "refuse"));

        for (size_t i = 0; r == 0 && i < sizeof lists / sizeof *lists; i++)
                r = show_list(out, lists[i].label, lists[i].list);

        return r;
}

int bridges_show(const struct option_values *options, const char *name, struct buf *out, struct err *err) {
        cleanup(policy_freep) struct policy *policy = NULL, *built_in = NULL;
        int r = load_policy(options, &policy, err);

        if (r < 0)
                return r;

        const struct bridge_tool *tool = tool_find(policy, str_of(name));
        for (size_t i = 0; !tool && i < n_tools_built_in; i++)
                if (strcmp(tools_built_in[i].name, name) == 0) {
                        r = read_built_in(&tools_built_in[i], &built_in, err);
                        tool = r == 0 ? &built_in->bridge.p[0] : NULL;
                }

        if (r < 0)
                return r;
        if (!tool)
                return unknown_tool(policy, name, err);

        if (show_tool(tool, out) < 0)
                return no_memory(err);

        return 0;
}

static int write_json(const struct bridge_tool *tool, const struct tool_call *call, struct buf *out) {
        static const char *const names[] = { [TOOL_RUN] = "run", [TOOL_INSIDE] = "inside", [TOOL_REFUSED] = "refused" };
        struct emit j = emit_to(out);

        emit_open(&j, '{');
        emit_put_text(&j, "tool", tool->name);
        emit_put_text(&j, "verdict", call->ask ? "ask" : names[call->verdict]);
        emit_put_texts(&j, "argv", call->argv.p, call->argv.n);
        emit_put_text(&j, "verb", call->line);
        emit_put_text(&j, "why", call->why[0] ? call->why : NULL);
        emit_put_text(&j, "ask", call->ask ? call->ask->text : NULL);
        emit_close(&j);

        if (emit_status(&j) < 0)
                return -ENOMEM;

        return buf_add(out, "\n");
}

static int write_text(const struct bridge_tool *tool, const struct tool_call *call, struct buf *out) {
        int r;

        if (call->verdict != TOOL_RUN)
                return buf_printf(out, "%s: %s\n", call->verdict == TOOL_INSIDE ? "inside" : "refused", call->why);

        r = buf_add(out, call->ask ? "ask: " : "run: ");
        if (r == 0)
                r = tool_call_write(call, NULL, out);
        if (r == 0)
                r = buf_printf(out, "\n  verb        %s\n  workspace   %s\n", call->line,
                               text_or(tool->workspace, "none"));
        if (r == 0 && call->ask)
                r = buf_printf(out, "  asked by    ask: \"%s\" (%s)\n", call->ask->text, call->ask->origin);

        for (size_t i = 0; r == 0 && i < tool->hosts.n; i++)
                r = buf_printf(out, "  %-12s%s\n", i ? "" : "reaches", tool->hosts.p[i].text);

        for (size_t i = 0; r == 0 && i < tool->credentials.n; i++)
                r = buf_printf(out, "  %-12s%s\n", i ? "" : "credential", tool->credentials.p[i].text);

        for (size_t i = 0; r == 0 && i < tool->files.n; i++)
                r = buf_printf(out, "  %-12s%s\n", i ? "" : "reads", tool->files.p[i].text);

        return r;
}

int bridges_check(const struct option_values *options, const char *name, char *const *words, size_t n, bool json,
                  enum bridge_outcome *ret, struct buf *out, struct err *err) {
        static const enum bridge_outcome outcomes[] = {
                [TOOL_RUN] = BRIDGE_RUNS, [TOOL_INSIDE] = BRIDGE_INSIDE, [TOOL_REFUSED] = BRIDGE_REFUSED
        };
        cleanup(policy_freep) struct policy *policy = NULL;
        cleanup(tool_call_done) struct tool_call call = { 0 };
        cleanup(free_ptr) struct str *given = calloc(n + 1, sizeof *given);
        int r = given ? load_policy(options, &policy, err) : no_memory(err);

        if (r < 0)
                return r;

        const struct bridge_tool *tool = tool_find(policy, str_of(name));
        if (!tool)
                return unknown_tool(policy, name, err);

        for (size_t i = 0; i < n; i++)
                given[i] = str_of(words[i]);

        r = tool_call_judge(tool, given, n, &call);
        if (r == 0)
                r = json ? write_json(tool, &call, out) : write_text(tool, &call, out);

        *ret = outcomes[call.verdict];
        if (r < 0)
                return no_memory(err);

        return 0;
}
