/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/judge/records.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "conf/suggest.h"
#include "policy/check.h"
#include "policy/git/git_rules.h"
#include "policy/judge/ratchet.h"
#include "policy/mappings.h"
#include "policy/profile/providers.h"
#include "policy/tools/tools.h"

#include <errno.h>

static const char *const decisions[] = { "forbid", "escalate", "allow", NULL };
static const char *const accesses[] = { "sandboxed", "whitelist", "full", NULL };
static const char *const actions[] = { "warn", "pause", "kill", NULL };
static const char *const tool_workspaces[] = { "none", "read", "objects", NULL };
static const char *const tool_otherwise[] = { "refuse", "inside", NULL };
static const char *const git_asks[] = { "never", "push", NULL };
static const char *const ratchet_none[] = { "none", NULL };
static const char *const ratchet_asks[] = { "control", NULL };

#define TEXT(type, name) .kind = FIELD_TEXT, .offset = offsetof(type, name)
#define TEXTS(type, name) .kind = FIELD_TEXTS, .offset = offsetof(type, name)

static const struct record_field rule_fields[] = {
        { { .key = "host", .type = OPTION_STRING, .help = "the pattern that the rule is for" },
          TEXT(struct request_rule, host),
          .required = true,
          .check = check_plain_pattern },
        { { .key = "methods", .type = OPTION_LIST, .help = "GET, HEAD, ...; none: all" },
          TEXTS(struct request_rule, methods),
          .check = check_method },
        { { .key = "paths", .type = OPTION_LIST, .help = "path patterns, ** for any depth; none: all" },
          TEXTS(struct request_rule, paths),
          .check = check_request_path },
        { { .key = "graphql.query", .type = OPTION_LIST, .help = "fields that queries may ask for, * for all" },
          TEXTS(struct request_rule, queries),
          .check = check_graphql_field },
        { { .key = "graphql.mutation", .type = OPTION_LIST, .help = "fields that mutations may name, * for all" },
          TEXTS(struct request_rule, mutations),
          .check = check_graphql_field },
};

#define SWITCH(name) .kind = FIELD_SWITCH, .offset = offsetof(struct git_rule, name)

static const struct record_field git_fields[] = {
        { { .key = "repo", .type = OPTION_STRING, .help = "HOST[:PORT]/PATH, * for a part and ** for any depth" },
          TEXT(struct git_rule, repo),
          .required = true,
          .check = check_git_repo },
        { { .key = "fetch", .type = OPTION_FLAG, .help = "clone and fetch from it; true" }, SWITCH(fetch) },
        { { .key = "push",
            .type = OPTION_LIST,
            .help = "refs that may be pushed, as refs/heads/agent/**; none: no push" },
          TEXTS(struct git_rule, push),
          .check = check_git_ref },
        { { .key = "create", .type = OPTION_FLAG, .help = "a push may make such a ref; true" }, SWITCH(create) },
        { { .key = "delete", .type = OPTION_FLAG, .help = "a push may delete such a ref; false" }, SWITCH(delete) },
        { { .key = "push_options", .type = OPTION_FLAG, .help = "a push may carry options (git push -o); false" },
          SWITCH(options) },
        { { .key = "signed", .type = OPTION_FLAG, .help = "a push may be signed (git push --signed); false" },
          SWITCH(certificate) },
        { { .key = "ask",
            .type = OPTION_CHOICE,
            .choices = git_asks,
            .help = "push: hold each push until a person agrees" },
          TEXT(struct git_rule, ask) },
};

static const struct record_field tool_fields[] = {
        { { .key = "program", .type = OPTION_STRING, .help = "the program outside, a whole path; by its name" },
          TEXT(struct bridge_tool, program),
          .check = check_tool_program },
        { { .key = "verbs", .type = OPTION_LIST, .help = "what may be called, one line a verb, as \"pr view <int>?\"" },
          TEXTS(struct bridge_tool, verbs),
          .check = check_tool_verb },
        { { .key = "never",
            .type = OPTION_LIST,
            .help = "words that are refused, with the reason: \"--exec: it runs a program\"" },
          TEXTS(struct bridge_tool, never),
          .check = check_tool_never },
        { { .key = "front", .type = OPTION_LIST, .help = "options without a value that may stand before the verb" },
          TEXTS(struct bridge_tool, front),
          .check = check_tool_front },
        { { .key = "ask",
            .type = OPTION_LIST,
            .help = "calls that a person must agree to: words of a verb, as \"pr create\", with options that make the "
                    "difference, as \"push --atomic\"; *: all" },
          TEXTS(struct bridge_tool, ask),
          .check = check_tool_ask },
        { { .key = "otherwise",
            .type = OPTION_CHOICE,
            .choices = tool_otherwise,
            .help = "what becomes of a verb that is not in the list: refuse, or inside, without any credential" },
          TEXT(struct bridge_tool, otherwise) },
        { { .key = "repos", .type = OPTION_LIST, .help = "repositories for <repo> and <remote>; those of git" },
          TEXTS(struct bridge_tool, repos),
          .check = check_git_repo },
        { { .key = "workspace",
            .type = OPTION_CHOICE,
            .choices = tool_workspaces,
            .help = "what the tool sees of the workspace: none, read, or objects (of git, without its settings)" },
          TEXT(struct bridge_tool, workspace) },
        { { .key = "hosts", .type = OPTION_LIST, .help = "what the tool may reach" },
          TEXTS(struct bridge_tool, hosts),
          .check = check_host_pattern },
        { { .key = "credentials",
            .type = OPTION_LIST,
            .help = "NAME[=SOURCE]: put into its requests, not shown to it" },
          TEXTS(struct bridge_tool, credentials),
          .check = check_tool_credential },
        { { .key = "files", .type = OPTION_LIST, .help = "files of yours that the tool may read, as ~/.kube/config" },
          TEXTS(struct bridge_tool, files),
          .check = check_tool_file },
        { { .key = "env", .type = OPTION_LIST, .help = "NAME=VALUE: variables of the tool" },
          TEXTS(struct bridge_tool, env),
          .check = check_variable },
        { { .key = "env_pass", .type = OPTION_LIST, .help = "variables of yours that the tool gets" },
          TEXTS(struct bridge_tool, env_pass),
          .check = check_variable_name },
        { { .key = "separator", .type = OPTION_FLAG, .help = "put -- before arguments; false" },
          .kind = FIELD_SWITCH,
          .offset = offsetof(struct bridge_tool, separator) },
        { { .key = "timeout",
            .type = OPTION_DURATION,
            .min = (int64_t)NS_PER_SECOND,
            .max = 86400 * (int64_t)NS_PER_SECOND,
            .help = "how long one call may take; 5m" },
          .kind = FIELD_U64,
          .offset = offsetof(struct bridge_tool, timeout_ns) },
};

static const struct record_field ratchet_fields[] = {
        { { .key = "when.read",
            .type = OPTION_LIST,
            .help = "a file is opened: patterns, as ~/customers/**, **/*.pem" },
          TEXTS(struct ratchet_rule, reads),
          .check = check_ratchet_path },
        { { .key = "when.tool", .type = OPTION_LIST, .help = "a bridged tool is called: its words, * and ** for any" },
          TEXTS(struct ratchet_rule, tools),
          .check = check_ratchet_tool },
        { { .key = "when.reach", .type = OPTION_LIST, .help = "a connection to one of these hosts is made" },
          TEXTS(struct ratchet_rule, reaches),
          .check = check_host_pattern },
        { { .key = "when.credential", .type = OPTION_LIST, .help = "a host of one of these credentials is reached" },
          TEXTS(struct ratchet_rule, credentials),
          .check = check_name },
        { { .key = "then.allow", .type = OPTION_LIST, .help = "hosts that stay allowed, if they are; none: no host" },
          TEXTS(struct ratchet_rule, allow),
          .check = check_ratchet_host },
        { { .key = "then.tools",
            .type = OPTION_LIST,
            .help = "bridged tools that may be called still; none otherwise" },
          TEXTS(struct ratchet_rule, keep_tools),
          .check = check_name },
        { { .key = "then.git",
            .type = OPTION_CHOICE,
            .choices = ratchet_none,
            .help = "none: no repository under git can be fetched from or pushed to" },
          TEXT(struct ratchet_rule, git) },
        { { .key = "then.credentials",
            .type = OPTION_CHOICE,
            .choices = ratchet_none,
            .help = "none: no credential is put into a request" },
          TEXT(struct ratchet_rule, creds) },
        { { .key = "then.ask",
            .type = OPTION_CHOICE,
            .choices = ratchet_asks,
            .help = "control: a person is asked about hosts that do not stay allowed, instead of a refusal" },
          TEXT(struct ratchet_rule, ask) },
        { { .key = "then.say", .type = OPTION_STRING, .help = "why, for whoever is refused" },
          TEXT(struct ratchet_rule, say),
          .check = check_reason },
};

static const struct record_field command_fields[] = {
        { { .key = "name", .type = OPTION_STRING, .help = "what the rule is called in messages" },
          TEXT(struct command_rule, name),
          .required = true,
          .check = check_name },
        { { .key = "decision", .type = OPTION_CHOICE, .choices = decisions, .help = "what to do with such a command" },
          TEXT(struct command_rule, decision),
          .required = true },
        { { .key = "argv", .type = OPTION_LIST, .help = "the words that a command begins with" },
          TEXTS(struct command_rule, argv),
          .required = true,
          .check = check_command_word },
        { { .key = "reason", .type = OPTION_STRING, .help = "shown to the person who is asked" },
          TEXT(struct command_rule, reason) },
        { { .key = "match", .type = OPTION_LIST, .help = "commands that the rule must match" },
          TEXTS(struct command_rule, match) },
        { { .key = "no_match", .type = OPTION_LIST, .help = "commands that it must not match" },
          TEXTS(struct command_rule, no_match) },
};

static const struct record_field credential_fields[] = {
        { { .key = "provider",
            .type = OPTION_CHOICE,
            .choices = policy_provider_names,
            .help = "a service that is known" },
          TEXT(struct credential, provider) },
        { { .key = "name", .type = OPTION_STRING, .help = "what it is called in the audit log" },
          TEXT(struct credential, name),
          .check = check_name },
        { { .key = "env", .type = OPTION_STRING, .help = "the variable that holds the stand-in inside" },
          TEXT(struct credential, env),
          .check = check_variable_name },
        { { .key = "source",
            .type = OPTION_STRING,
            .help = "where the secret is: env:NAME, file:PATH, exec:COMMAND, ..." },
          TEXT(struct credential, source),
          .required = true,
          .check = check_source },
        { { .key = "hosts", .type = OPTION_LIST, .help = "where it may be sent" },
          TEXTS(struct credential, hosts),
          .check = check_plain_pattern },
        { { .key = "also_env",
            .type = OPTION_LIST,
            .help = "more variables that hold the stand-in, beside the provider's" },
          TEXTS(struct credential, also_env),
          .check = check_variable_name },
        { { .key = "also_hosts",
            .type = OPTION_LIST,
            .help = "more hosts that it may be sent to, beside the provider's" },
          TEXTS(struct credential, also_hosts),
          .check = check_plain_pattern },
        { { .key = "slot",
            .type = OPTION_STRING,
            .help = "where in the request: bearer, header:NAME, basic, query:NAME, ...; several with commas" },
          TEXT(struct credential, slot),
          .check = check_slot },
        { { .key = "timeout",
            .type = OPTION_DURATION,
            .min = (int64_t)NS_PER_SECOND / 10,
            .max = 600 * (int64_t)NS_PER_SECOND,
            .help = "how long a command may take to print the secret; 30s" },
          .kind = FIELD_U64,
          .offset = offsetof(struct credential, timeout_ns) },
        { { .key = "refresh",
            .type = OPTION_DURATION,
            .min = (int64_t)NS_PER_SECOND,
            .max = 7 * 86400 * (int64_t)NS_PER_SECOND,
            .help = "how often a command is run again, in case the secret changed; 5m" },
          .kind = FIELD_U64,
          .offset = offsetof(struct credential, refresh_ns) },
        { { .key = "sandbox",
            .type = OPTION_FLAG,
            .help = "the sandbox has it; true, but false where a tool under bridge names it" },
          .kind = FIELD_SWITCH,
          .offset = offsetof(struct credential, sandbox) },
        { { .key = "form",
            .type = OPTION_STRING,
            .help = "of the stand-in: opaque:PREFIX or jwt; without it, as the secret" },
          TEXT(struct credential, form),
          .check = check_form },
        { { .key = "answer",
            .type = OPTION_STRING,
            .help = "the member of a token endpoint's answer that renews it, as access_token" },
          TEXT(struct credential, answer),
          .check = check_member },
        { { .key = "expiry",
            .type = OPTION_STRING,
            .help = "a time in the source's file that changes with it: ms:POINTER or now:POINTER" },
          TEXT(struct credential, expiry),
          .check = check_expiry },
};

static const struct record_field agent_fields[] = {
        { { .key = "networkAccess", .type = OPTION_CHOICE, .choices = accesses, .help = "the mode of this role" },
          TEXT(struct agent_role, network_access),
          .required = true },
        { { .key = "monitorEnabled", .type = OPTION_FLAG, .help = "count its violations" },
          .kind = FIELD_BOOL,
          .offset = offsetof(struct agent_role, monitor_enabled) },
        { { .key = "autoKillOnThreat", .type = OPTION_FLAG, .help = "end it when a monitor rule is reached" },
          .kind = FIELD_BOOL,
          .offset = offsetof(struct agent_role, auto_kill_on_threat) },
};

static const struct record_field monitor_fields[] = {
        { { .key = "violations", .type = OPTION_INTEGER, .min = 1, .max = 1000000, .help = "this many" },
          .kind = FIELD_U32,
          .offset = offsetof(struct monitor_rule, violations),
          .required = true },
        { { .key = "within",
            .type = OPTION_DURATION,
            .min = (int64_t)NS_PER_SECOND,
            .max = 86400 * (int64_t)NS_PER_SECOND,
            .help = "in this time" },
          .kind = FIELD_U64,
          .offset = offsetof(struct monitor_rule, within_ns),
          .required = true },
        { { .key = "action", .type = OPTION_CHOICE, .choices = actions, .help = "lead to this" },
          TEXT(struct monitor_rule, action),
          .required = true },
};

/* A provider says the rest itself; a secret of one's own needs all of it. */
static int check_credential(const void *record, struct err *err) {
        const struct credential *credential = record;
        if (credential->provider)
                return 0;
        if (!credential->name)
                return err_set(err, EINVAL, "a credential needs 'provider', or else 'name', 'env', 'hosts' and 'slot'");

        if ((!credential->env && !credential_needs_no_env(credential)) || credential->hosts.n == 0 || !credential->slot)
                return err_set(err, EINVAL, "credential '%s' has no provider: it needs 'env', 'hosts' and 'slot'",
                               credential->name);

        return 0;
}

static int check_command(const void *record, struct err *err) {
        const struct command_rule *rule = record;
        if (rule->argv.n <= 0)
                return err_set(err, EINVAL, "command rule '%s' has no words in 'argv'", rule->name);

        return 0;
}

#define FIELDS(table) .fields = table, .n_fields = sizeof table / sizeof table[0]
#define LIST(type, field)                                                                                              \
        .size = sizeof(type), .origin_offset = offsetof(type, origin), .list_offset = offsetof(struct policy, field)

const struct record policy_records[POLICY_RECORDS] = {
        { .key = "network.rules",
          .help = "hosts that are allowed with some methods or paths only",
          FIELDS(rule_fields),
          LIST(struct request_rule, network.rules),
          .trust = TRUST_WIDENS },
        { .key = "git",
          .help = "repositories, and what may be done with them",
          FIELDS(git_fields),
          LIST(struct git_rule, git),
          .trust = TRUST_WIDENS,
          .check = check_git_rule },
        { .key = "bridge",
          .help = "tools of this host that the sandbox may call",
          .named = true,
          .name_offset = offsetof(struct bridge_tool, name),
          FIELDS(tool_fields),
          LIST(struct bridge_tool, bridge),
          .trust = TRUST_WIDENS,
          .check = check_tool },
        { .key = "ratchet",
          .help = "what narrows the network for the rest of the run, once it was seen",
          FIELDS(ratchet_fields),
          LIST(struct ratchet_rule, ratchet),
          .trust = TRUST_NARROWS,
          .check = check_ratchet },
        { .key = "commands",
          .help = "rules for the command classifier",
          FIELDS(command_fields),
          LIST(struct command_rule, commands),
          .trust = TRUST_LESS_NARROWS,
          .decides = 1,
          .last_narrowing = 1,
          .check = check_command },
        { .key = "credentials",
          .help = "secrets that the gateway puts into requests",
          FIELDS(credential_fields),
          LIST(struct credential, credentials),
          .apart_offset = offsetof(struct policy, tool_credentials),
          .trust = TRUST_WIDENS,
          .check = check_credential },
        { .key = "agents",
          .help = "roles for --agent",
          .named = true,
          .name_offset = offsetof(struct agent_role, name),
          FIELDS(agent_fields),
          LIST(struct agent_role, agents),
          .trust = TRUST_WIDENS },
        { .key = "monitor",
          .help = "what repeated violations lead to",
          FIELDS(monitor_fields),
          LIST(struct monitor_rule, monitor),
          .trust = TRUST_NARROWS },
};

typedef VEC(char) bytes_vec; /* p, n and cap are the same for every element type; n and cap count elements */

static bytes_vec *list_of(const struct policy *policy, const struct record *record) {
        return (bytes_vec *)((char *)policy + record->list_offset);
}

/* NULL: records of this kind are in one vector. */
static bytes_vec *apart_of(const struct policy *policy, const struct record *record) {
        return record->apart_offset ? (bytes_vec *)((char *)policy + record->apart_offset) : NULL;
}

size_t record_count(const struct policy *policy, const struct record *record) {
        const bytes_vec *apart = apart_of(policy, record);

        return list_of(policy, record)->n + (apart ? apart->n : 0);
}

const void *record_at(const struct policy *policy, const struct record *record, size_t i) {
        const bytes_vec *list = list_of(policy, record), *apart = apart_of(policy, record);

        if (i < list->n || !apart)
                return list->p + i * record->size;
        return apart->p + (i - list->n) * record->size;
}

static void record_done(const struct record *record, void *r) {
        for (size_t i = 0; i < record->n_fields; i++) {
                void *place = (char *)r + record->fields[i].offset;

                if (record->fields[i].kind == FIELD_TEXT)
                        free(*(char **)place);
                else if (record->fields[i].kind == FIELD_TEXTS)
                        origin_texts_done(place);
        }

        free(*(char **)((char *)r + record->origin_offset));
        if (record->named)
                free(*(char **)((char *)r + record->name_offset));
}

static void records_done(const struct record *record, bytes_vec *list) {
        for (size_t i = 0; list && i < list->n; i++)
                record_done(record, list->p + i * record->size);
        if (list)
                vec_done(list);
}

void policy_records_done(struct policy *policy) {
        for (size_t k = 0; k < POLICY_RECORDS; k++) {
                records_done(&policy_records[k], list_of(policy, &policy_records[k]));
                records_done(&policy_records[k], apart_of(policy, &policy_records[k]));
        }
}

static int check_value(const struct record_field *field, const struct document *document, const struct node *node,
                       struct err *err) {
        struct err inner = { 0 };

        if (node->kind != NODE_SCALAR)
                return node_error(document, node, err, "'%s' needs a single value here, not %s", field->option.key,
                                  node_kind_name(node->kind));

        int r = option_check(&field->option, node->text, &inner);
        if (r == 0 && field->check)
                r = field->check(node->text, &inner);

        if (r < 0)
                return node_error(document, node, err, "%s: %s", field->option.key, err_text(&inner));

        return 0;
}

static int read_list(const struct record_field *field, origin_texts *list, const struct document *document,
                     const struct node *node, struct err *err) {
        const struct node *single = node->kind == NODE_SCALAR ? node : NULL; /* a list of one, without brackets */
        if (!single && node->kind != NODE_LIST)
                return node_error(document, node, err, "'%s' needs a list, not %s", field->option.key,
                                  node_kind_name(node->kind));

        for (const struct node *n = single ? single : node->first; n; n = single ? NULL : n->next) {
                int r = check_value(field, document, n, err);
                if (r < 0)
                        return r;

                cleanup(free_ptr) char *origin = node_origin(document, n);
                if (!origin || origin_texts_add(list, n->text, origin) < 0)
                        return err_memory(err);
        }

        return 0;
}

static int read_field(const struct record_field *field, void *place, const struct document *document,
                      const struct node *node, struct err *err) {
        if (field->kind == FIELD_TEXTS)
                return read_list(field, place, document, node, err);

        int r = check_value(field, document, node, err);
        if (r < 0)
                return r;

        uint64_t number = option_number(&field->option, node->text);

        switch (field->kind) {
        case FIELD_BOOL:
                *(bool *)place = number != 0;
                return 0;
        case FIELD_SWITCH:
                *(uint8_t *)place = number ? SWITCH_ON : SWITCH_OFF;
                return 0;
        case FIELD_U32:
                *(uint32_t *)place = (uint32_t)number;

                return 0;
        case FIELD_U64:
                *(uint64_t *)place = number;
                return 0;
        default:
                *(char **)place = str_dup(node->text);

                if (!*(char **)place)
                        return err_memory(err);

                return 0;
        }
}

/* The part of a field's key at the level below `prefix` ("", "graphql."); NULL when it is not below it. */
static const char *key_below(const struct record_field *field, struct str prefix) {
        return str_starts(str_of(field->option.key), prefix) ? field->option.key + prefix.n : NULL;
}

static const struct record_field *find_field(const struct record *record, const struct document *document,
                                             const struct node *node, struct str prefix, struct err *err) {
        struct suggestion suggestion = suggest_for(node->key);

        for (size_t i = 0; i < record->n_fields; i++) {
                const char *key = key_below(&record->fields[i], prefix);
                if (key && str_is(node->key, key))
                        return &record->fields[i];
                if (key)
                        suggest_offer(&suggestion, key);
        }

        node_key_error(document, node, err, "unknown key %s in %s%s", show(node->key).text, record->key,
                       suggest_text(&suggestion, "").text);
        return NULL;
}

/* A mapping of fields, as graphql: { query: [...] }. True when the record has fields of that form. */
static bool field_is_section(const struct record *record, struct str key) {
        for (size_t i = 0; i < record->n_fields; i++) {
                const char *name = record->fields[i].option.key;
                if (str_starts(str_of(name), key) && name[key.n] == '.')
                        return true;
        }
        return false;
}

static int read_level(const struct record *record, void *r, const struct document *document, const struct node *node,
                      struct str prefix, struct err *err) {
        for (const struct node *n = node->first; n; n = n->next) {
                if (prefix.n == 0 && n->kind == NODE_MAP && n->first && field_is_section(record, n->key)) {
                        cleanup(free_ptr) char *below = str_format("%.*s.", STR_FMT(n->key));
                        int status = below ? read_level(record, r, document, n, str_of(below), err) : err_memory(err);
                        if (status < 0)
                                return status;
                        continue;
                }

                if (prefix.n == 0 && field_is_section(record, n->key))
                        return node_error(document, n, err, "'%.*s' is a mapping with at least one key in it",
                                          STR_FMT(n->key));

                const struct record_field *field = find_field(record, document, n, prefix, err);
                if (!field)
                        return -EINVAL;

                int status = read_field(field, (char *)r + field->offset, document, n, err);
                if (status < 0)
                        return status;
        }

        return 0;
}

static int read_fields(const struct record *record, void *r, const struct document *document, const struct node *node,
                       struct err *err) {
        int level = read_level(record, r, document, node, STR(""), err);
        if (level < 0)
                return level;

        for (size_t i = 0; i < record->n_fields; i++)
                if (record->fields[i].required && !node_get(node, str_of(record->fields[i].option.key)))
                        return node_error(document, node, err, "'%s' is missing in this entry of %s: %s",
                                          record->fields[i].option.key, record->key, record->fields[i].option.help);

        struct err inner = { 0 };
        int status = record->check ? record->check(r, &inner) : 0;

        if (status < 0)
                return node_error(document, node, err, "%s", err_text(&inner));

        return 0;
}

static bool records_widens(const struct record *record, const void *r) {
        if (record->trust != TRUST_LESS_NARROWS)
                return record->trust == TRUST_WIDENS;
        const struct record_field *field = &record->fields[record->decides];
        const char *text = *(char *const *)((const char *)r + field->offset);
        return option_number(&field->option, str_of(text)) > record->last_narrowing;
}

static int records_fill(const struct record *record, void *r, const struct document *document, const struct node *node,
                        struct err *err) {
        char **origin = (char **)((char *)r + record->origin_offset);

        *origin = node_origin(document, node);
        if (!*origin)
                return err_memory(err);

        if (record->named) {
                struct err inner = { 0 };
                char **name = (char **)((char *)r + record->name_offset);

                if (check_name(node->key, &inner) < 0)
                        return node_key_error(document, node, err, "%s: %s", record->key, err_text(&inner));
                if (!(*name = str_dup(node->key)))
                        return err_memory(err);
        }

        return read_fields(record, r, document, node, err);
}

int record_read(struct policy *policy, const struct record *record, const struct document *document,
                const struct node *node, bool *ret_widens, struct err *err) {
        enum { LARGEST = 512 };
        _Alignas(max_align_t) char space[LARGEST] = { 0 };
        bytes_vec *list = list_of(policy, record);

        if (record->size > sizeof space)
                return err_set(err, EINVAL, "a record of %zu bytes", record->size);

        if (node->kind != NODE_MAP)
                return node_error(document, node, err, "an entry of %s is a mapping, not %s", record->key,
                                  node_kind_name(node->kind));

        int r = records_fill(record, space, document, node, err);
        if (r == 0 && list->n == list->cap &&
            vec_grow_bytes((void **)&list->p, &list->cap, list->n + 1, record->size) < 0)
                r = err_memory(err);

        if (r < 0) {
                record_done(record, space);
                return r;
        }

        *ret_widens = records_widens(record, space);
        memcpy(list->p + list->n++ * record->size, space, record->size);

        return 0;
}
