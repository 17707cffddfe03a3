/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gemini CLI: settings.json (tools.sandbox and its neighbours) and policies in TOML. Inside its sandbox the project and
 * the named directories can be written to; the network is open or closed as a whole.
 */
#include "base/cleanup.h"
#include "conf/suggest.h"
#include "import/import_source.h"

#include <errno.h>

#define ONLY_THESE "the agent uses these tools and commands alone; a policy does not forbid all others"

static int allow_path(struct import_source *source, const struct node *node, struct err *err) {
        return import_path(source, node, node->text, IMPORT_WRITE, ANCHOR_PLAIN, err);
}

static int allow_paths(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, allow_path, err);
}

/* Of several files the first that says it counts, for the whole list. */
static int allow_sandbox_paths(struct import_source *source, const struct node *node, struct err *err) {
        if (source->model->paths_decided)
                return 0;
        source->model->paths_decided = true;
        return import_each(source, node, allow_path, err);
}

static int network_access(struct import_source *source, const struct node *node, struct err *err) {
        bool on = false;
        int r = import_want_bool(source, node, &on, err);

        if (r == 0 && on && !source->model->network_decided)
                source->model->network = IMPORT_NETWORK_ANY;
        source->model->network_decided = true;
        return r;
}

static int read_sandbox(struct import_source *source, const struct node *node, struct err *err) {
        static const struct import_key keys[] = {
                { "allowedPaths", allow_sandbox_paths, NULL, false },
                { "networkAccess", network_access, NULL, false },
                { "enabled", NULL, NULL, false },
                { "command", NULL, "which program makes the sandbox: Bailey does", false },
                { "image", NULL, "an image of a container: bailey run --container", false },
        };

        if (node->kind == NODE_SCALAR && str_is(node->text, "false"))
                return import_say(source, node, false, err,
                                  "without a sandbox every file and host is open; the policy opens the project alone");

        if (node->kind == NODE_SCALAR)
                return 0;

        return import_keys(source, node, IMPORT_KEYS(keys), "an unknown key about the sandbox", true, err);
}

/* "run_shell_command(git status)", or a tool's name. */
static int read_tool(struct import_source *source, const struct node *node, const char *decision, struct err *err) {
        ptrdiff_t open = str_find(node->text, '(');
        struct str tool = open < 0 ? node->text : str_first(node->text, (size_t)open);
        bool grants = strcmp(decision, "allow") == 0;

        if (!str_is(tool, "run_shell_command") && !str_is(tool, "ShellTool"))
                return import_say(source, node, false, err, "a tool of the agent's own: the agent itself must hold it");
        if (open < 0)
                return import_say(source, node, !grants, err, "it is about every command; a rule names a program");
        if (node->text.p[node->text.n - 1] != ')')
                return node_error(source->document, node, err, "%s has no closing bracket", show(node->text).text);

        struct str words = str_n(node->text.p + open + 1, node->text.n - (size_t)open - 2);
        return import_command_words(source, node, words, decision, false, STR(""), err);
}

static int allow_tool(struct import_source *source, const struct node *node, struct err *err) {
        return read_tool(source, node, "allow", err);
}

static int exclude_tool(struct import_source *source, const struct node *node, struct err *err) {
        return read_tool(source, node, "forbid", err);
}

static int allow_tools(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, allow_tool, err);
}

static int exclude_tools(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, exclude_tool, err);
}

static int read_tools(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = {
                { "sandbox", read_sandbox, NULL, false },
                { "sandboxAllowedPaths", allow_sandbox_paths, NULL, false },
                { "sandboxNetworkAccess", network_access, NULL, false },
                { "allowed", allow_tools, NULL, false },
                { "exclude", exclude_tools, NULL, false },
                { "core", NULL, ONLY_THESE, true },
        };

        return import_keys(source, map, IMPORT_KEYS(keys), NULL, false, err);
}

static int read_context(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = { { "includeDirectories", allow_paths, NULL, false } };

        return import_keys(source, map, IMPORT_KEYS(keys), NULL, false, err);
}

int import_gemini(struct import_source *source, const struct node *root, struct err *err) {
        static const struct import_key keys[] = {
                { "tools", read_tools, NULL, false },
                { "context", read_context, NULL, false },
                { "sandbox", read_sandbox, NULL, false }, /* of older versions */
                { "includeDirectories", allow_paths, NULL, false },
                { "excludeTools", exclude_tools, NULL, false },
                { "coreTools", NULL, ONLY_THESE, true },
                { "allowedTools", allow_tools, NULL, false },
        };

        source->model->workspace_writable = true;
        return import_keys(source, root, IMPORT_KEYS(keys), NULL, false, err);
}

/* --- policies --- */

static int add_prefixes(struct import_source *source, const struct node *prefix, const char *decision,
                        struct err *err) {
        int r = 0;

        if (prefix->kind != NODE_LIST) {
                r = import_want_text(source, prefix, err);
                if (r < 0)
                        return r;

                return import_command_words(source, prefix, prefix->text, decision, false, STR(""), err);
        }

        for (const struct node *node = prefix->first; r == 0 && node; node = node->next) {
                r = import_want_text(source, node, err);
                if (r == 0)
                        r = import_command_words(source, node, node->text, decision, false, STR(""), err);
        }

        return r;
}

static bool names_shell(const struct node *tool) {
        const struct node *first = tool && tool->kind == NODE_LIST ? tool->first : tool;

        for (const struct node *node = first; node; node = tool->kind == NODE_LIST ? node->next : NULL)
                if (node->kind == NODE_SCALAR && str_is(node->text, "run_shell_command"))
                        return true;
        return false;
}

/* Without a name, or with a star in it, a rule may be about every tool. */
static bool may_name_shell(const struct node *tool) {
        const struct node *first = tool && tool->kind == NODE_LIST ? tool->first : tool;

        for (const struct node *node = first; node; node = tool->kind == NODE_LIST ? node->next : NULL)
                if (node->kind == NODE_SCALAR && str_find(node->text, '*') >= 0)
                        return true;
        return tool == NULL;
}

/* Whether the rule says more than which command it is about: then it does not hold for all of them. */
static bool has_conditions(const struct node *rule) {
        static const char *const plain[] = { "toolName", "decision", "priority", "commandPrefix", "denyMessage" };

        for (const struct node *node = rule->first; node; node = node->next) {
                bool known = false;

                for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
                        known |= str_is(node->key, plain[i]);
                if (!known)
                        return true;
        }

        return false;
}

static int read_rule(struct import_source *source, const struct node *rule, struct err *err) {
        static const struct {
                const char *word, *decision;
        } words[] = { { "allow", "allow" }, { "ask_user", "escalate" }, { "deny", "forbid" } };
        const struct node *decision = node_get(rule, STR("decision")), *prefix = node_get(rule, STR("commandPrefix"));
        const struct node *tool = node_get(rule, STR("toolName"));
        const char *found = NULL;

        for (size_t i = 0; decision && decision->kind == NODE_SCALAR && i < sizeof words / sizeof *words; i++)
                if (str_is(decision->text, words[i].word))
                        found = words[i].decision;

        if (!found)
                return node_error(source->document, decision ? decision : rule, err,
                                  "'decision' must be allow, ask_user or deny");

        bool grants = strcmp(found, "allow") == 0;
        if (!names_shell(tool) && !(may_name_shell(tool) && prefix))
                return import_say(source, decision, !grants && may_name_shell(tool), err,
                                  "about a tool of the agent's own: the agent itself must hold it");

        if (grants && node_get(rule, STR("modes")))
                return import_say(source, decision, false, err, "it is allowed in some modes of the agent only");
        if (grants && has_conditions(rule))
                return import_say(source, decision, false, err, "it is allowed under some conditions only");

        if (!prefix)
                return import_say(source, decision, !grants, err,
                                  "a rule for commands names the words that they begin with (commandPrefix)");

        return add_prefixes(source, prefix, found, err);
}

/* Which rule wins by its priority is not looked at: here the strictest wins. */
int import_gemini_policy(struct import_source *source, const struct node *root, struct err *err) {
        const struct node *rules = node_get(root, STR("rule"));
        int r = 0;

        source->model->workspace_writable = true;
        if (rules && rules->kind != NODE_LIST)
                return node_error(source->document, rules, err, "rules are written as [[rule]]");

        for (const struct node *node = rules ? rules->first : NULL; r == 0 && node; node = node->next) {
                r = import_want_map(source, node, err);
                if (r == 0)
                        r = read_rule(source, node, err);
        }

        return r;
}
