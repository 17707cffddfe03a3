/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claude Code: permissions.{allow,ask,deny} and sandbox.*, out of up to four files whose lists add up. Deny comes
 * first, then ask, then allow, whichever is more specific. The project's directory can be written to, as in Claude's
 * own sandbox, unless the mode is plan.
 *
 * Where Claude asks, Bailey refuses (paths, hosts) or escalates (commands): nothing passes that nobody agreed to.
 */
#include "base/cleanup.h"
#include "conf/suggest.h"
#include "import/import_source.h"

#include <errno.h>

enum rule_kind { RULE_ALLOW, RULE_ASK, RULE_DENY };

static const char *const decisions[] = { "allow", "escalate", "forbid" };

/* "Tool(spec)": both parts; no spec: empty. */
static bool split_rule(struct str text, struct str *ret_tool, struct str *ret_spec) {
        ptrdiff_t open = str_find(text, '(');

        *ret_tool = str_trim(open < 0 ? text : str_first(text, (size_t)open));
        *ret_spec = STR("");
        if (open < 0)
                return true;
        if (text.p[text.n - 1] != ')')
                return false;

        *ret_spec = str_trim(str_n(text.p + open + 1, text.n - (size_t)open - 2));
        return true;
}

static int read_bash(struct import_source *source, const struct node *node, struct str spec, enum rule_kind kind,
                     struct err *err) {
        bool prefix = true;

        if (str_ends(spec, STR(":*")))
                spec = str_first(spec, spec.n - 2);
        else if (str_ends(spec, STR(" *")))
                spec = str_first(spec, spec.n - 2);
        else
                prefix = str_is(spec, "*");

        if (str_is(spec, "*"))
                spec = STR("");

        return import_command_words(source, node, spec, decisions[kind], !prefix, STR(""), err);
}

static int read_path_rule(struct import_source *source, const struct node *node, struct str spec, enum rule_kind kind,
                          bool edits, struct err *err) {
        enum import_list denied = edits ? IMPORT_DENY_WRITE : IMPORT_DENY_READ;
        int r;

        if (kind == RULE_ALLOW && spec.n == 0)
                return 0; /* no more questions; what can be reached is said elsewhere */
        if (kind == RULE_ASK && spec.n == 0) {
                source->model->rules_grant_no_writes |= edits; /* elsewhere that is how it is without the rule */
                return 0;
        }

        if (spec.n == 0 && edits)
                return import_path(source, node, STR("//**"), denied, ANCHOR_GITIGNORE, err);

        if (spec.n == 0) {
                r = import_path(source, node, STR("./**"), denied, ANCHOR_GITIGNORE, err);
                if (r < 0)
                        return r;
                return import_say(source, node, true, err, "outside of the project, programs read what they need");
        }
        if (kind == RULE_ALLOW)
                return import_path(source, node, spec, edits ? IMPORT_WRITE : IMPORT_READ, ANCHOR_GITIGNORE, err);

        r = import_path(source, node, spec, denied, ANCHOR_GITIGNORE, err);
        if (r == 0 && kind == RULE_ASK)
                r = import_say(source, node, false, err, "nobody can be asked about a file: it is denied");

        return r;
}

static int read_fetch(struct import_source *source, const struct node *node, struct str spec, enum rule_kind kind,
                      struct err *err) {
        if (spec.n == 0 && kind == RULE_ALLOW)
                return 0;

        if (spec.n == 0 || !str_starts(spec, STR("domain:"))) {
                source->model->rules_grant_no_hosts |= kind != RULE_ALLOW;
                return import_say(source, node, false, err,
                                  "only domain: can be said about a host; without it, no rule allows one");
        }

        spec = str_skip(spec, 7);
        if (kind == RULE_ALLOW)
                return import_allow_host(source, node, spec, err);

        return import_deny_host(source, node, spec, err);
}

static int read_rule(struct import_source *source, const struct node *node, enum rule_kind kind, struct err *err) {
        struct str tool, spec;

        if (node->text.n == 0 || !split_rule(node->text, &tool, &spec))
                return node_error(source->document, node, err, "%s is no rule: write Tool or Tool(what it is about)",
                                  show(node->text).text);

        if (str_is(tool, "Bash"))
                return read_bash(source, node, spec, kind, err);
        if (str_is(tool, "Read"))
                return read_path_rule(source, node, spec, kind, false, err);
        bool edits = str_is(tool, "Write") || str_is(tool, "MultiEdit") || str_is(tool, "NotebookEdit");
        if (str_is(tool, "Edit") || (edits && (kind != RULE_ALLOW || spec.n == 0)))
                return read_path_rule(source, node, spec, kind, true, err);
        if (str_is(tool, "WebFetch"))
                return read_fetch(source, node, spec, kind, err);

        return import_say(source, node, false, err, "a tool of the agent's own: the agent itself must hold it");
}

static int read_allow(struct import_source *source, const struct node *node, struct err *err) {
        source->by_rule = true;
        int r = read_rule(source, node, RULE_ALLOW, err);

        source->by_rule = false;
        return r;
}

static int read_ask(struct import_source *source, const struct node *node, struct err *err) {
        return read_rule(source, node, RULE_ASK, err);
}

static int read_deny(struct import_source *source, const struct node *node, struct err *err) {
        return read_rule(source, node, RULE_DENY, err);
}

static int read_allows(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, read_allow, err);
}

static int read_asks(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, read_ask, err);
}

static int read_denies(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, read_deny, err);
}

static int read_mode(struct import_source *source, const struct node *node, struct err *err) {
        int r = import_want_text(source, node, err);

        if (r < 0)
                return r;
        if (str_is(node->text, "plan"))
                source->model->workspace_read_only = true; /* of whichever file: less is never wrong */
        if (str_is(node->text, "bypassPermissions"))
                return import_say(source, node, false, err, "the policy holds in every mode of the agent");

        return 0;
}

static int add_directory(struct import_source *source, const struct node *node, struct err *err) {
        return import_path(source, node, node->text, IMPORT_WRITE, ANCHOR_PLAIN, err);
}

static int add_directories(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, add_directory, err);
}

static int read_permissions(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = {
                { "allow", read_allows, NULL, false },
                { "ask", read_asks, NULL, false },
                { "deny", read_denies, NULL, false },
                { "defaultMode", read_mode, NULL, false },
                { "additionalDirectories", add_directories, NULL, false },
                { "disableBypassPermissionsMode", NULL, NULL, false },
                { "disableAutoMode", NULL, NULL, false },
        };

        return import_keys(source, map, IMPORT_KEYS(keys), "an unknown key about permissions", true, err);
}

static int exclude_command(struct import_source *source, const struct node *node, struct err *err) {
        return import_say(source, node, false, err, "no command runs outside; inside, the policy holds for it too");
}

static int exclude_commands(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, exclude_command, err);
}

static int read_sandbox(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = {
                { "enabled", NULL, NULL, false },
                { "failIfUnavailable", NULL, NULL, false },
                { "autoAllowBashIfSandboxed", NULL, NULL, false },
                { "allowUnsandboxedCommands", NULL, "no command runs outside", false },
                { "excludedCommands", exclude_commands, NULL, false },
                { "network", import_srt_network, NULL, false },
                { "filesystem", import_srt_filesystem, NULL, false },
                { "credentials", import_srt_credentials, NULL, false },
                { "ignoreViolations", NULL, "every refusal is on record", false },
                { "enableWeakerNestedSandbox", NULL, "a weaker sandbox is not taken over", false },
                { "enableWeakerNetworkIsolation", NULL, "a weaker sandbox is not taken over", false },
                { "allowAppleEvents", NULL, "about macOS only", false },
                { "ripgrep", NULL, NULL, false },
        };

        return import_keys(source, map, IMPORT_KEYS(keys), "an unknown key about the sandbox", true, err);
}

/* An administrator's list of hosts that no other file adds to. */
static bool has_managed_domains(const struct node *root) {
        const struct node *at = root;
        const char *const way[] = { "sandbox", "network", "allowManagedDomainsOnly" };

        for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
                at = at->kind == NODE_MAP ? node_get(at, str_of(way[i])) : NULL;
                if (!at)
                        return false;
        }

        return at->kind == NODE_SCALAR && str_is(at->text, "true");
}

int import_claude(struct import_source *source, const struct node *root, struct err *err) {
        static const struct import_key keys[] = {
                { "permissions", read_permissions, NULL, false },
                { "sandbox", read_sandbox, NULL, false },
                { "hooks", NULL, "hooks are the agent's own; bailey hook has Bailey's", false },
                { "env", NULL, "variables are set with process.env", false },
                { "apiKeyHelper", NULL, "a key that a command prints is a credential with the source exec:COMMAND",
                  false },
        };

        import_start_listed(source->model, true);
        if (has_managed_domains(root))
                source->model->only_file = source->model->files.n + 1;

        return import_keys(source, root, IMPORT_KEYS(keys), NULL, false, err);
}
