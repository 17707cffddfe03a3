/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/tool_policy.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/emit.h"
#include "policy/credential.h"
#include "policy/match/pattern.h"
#include "policy/tools/tool_credentials.h"
#include "policy/tools/tools.h"

#include <stdio.h>

enum { HTTPS_PORT = 443 };

/* A helper that git asks for a name and a password: what stands for the token is in the tool's environment. */
const char tool_policy_git_config[] =
    "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\thooksPath = /dev/null\n\tfsmonitor = false\n"
    "[credential]\n\thelper = \"!f() { test \\\"$1\\\" = get || exit 0; "
    "test -n \\\"$GITHUB_TOKEN\\\" && printf 'username=x-access-token\\\\npassword=%s\\\\n' \\\"$GITHUB_TOKEN\\\"; "
    "test -n \\\"$GITLAB_TOKEN\\\" && printf 'username=oauth2\\\\npassword=%s\\\\n' \\\"$GITLAB_TOKEN\\\"; }; f\"\n";

static void emit_list(struct emit *json, const origin_texts *list) {
        for (size_t i = 0; i < list->n; i++)
                emit_text(json, list->p[i].text);
}

static void put_list(struct emit *json, const char *key, const origin_texts *list) {
        if (list->n == 0)
                return;
        emit_key(json, key);
        emit_open(json, '[');
        emit_list(json, list);
        emit_close(json);
}

static void put_duration(struct emit *json, const char *key, uint64_t ns) {
        char text[32];

        snprintf(text, sizeof text, "%llums", (unsigned long long)(ns / NS_PER_MS));
        if (ns)
                emit_put_text(json, key, text);
}

static bool sees_objects(const struct bridge_tool *tool) {
        return tool_is(tool->workspace, "objects", false);
}

/* Whether all of the place, a name with ports, is in the pattern; of networks only what is written in the same way. */
static bool pattern_holds(const char *text, bool https, struct str place) {
        struct pattern pattern, wanted;

        if (str_is(place, text))
                return true;
        if (pattern_parse_user(str_of(text), &pattern, NULL) < 0 || pattern_parse_user(place, &wanted, NULL) < 0 ||
            wanted.kind != PATTERN_NAME || pattern.kind == PATTERN_NET)
                return false;

        if (https && !pattern.has_port)
                pattern.port_first = pattern.port_last = HTTPS_PORT;

        return pattern_matches(&pattern, &wanted.host, wanted.port_first) &&
               pattern_matches(&pattern, &wanted.host, wanted.port_last);
}

/* By a provider that the outer policy has no entry for. */
static bool provider_reaches(const struct policy *outer, const struct bridge_tool *tool, struct str place) {
        struct tool_credential found;

        for (size_t i = 0; i < tool->credentials.n; i++) {
                if (!tool_credential_find(outer, str_of(tool->credentials.p[i].text), &found) || !found.provider)
                        continue;
                for (const char *const *host = found.provider->hosts; *host; host++)
                        if (pattern_holds(*host, true, place))
                                return true;
        }

        return false;
}

/* In allow_private a name is opened: only what the tool may reach anyway. */
static bool tool_reaches(const struct policy *outer, const struct bridge_tool *tool, const mappings *own,
                         struct str place) {
        for (size_t i = 0; i < tool->hosts.n; i++)
                if (pattern_holds(tool->hosts.p[i].text, false, place))
                        return true;

        for (size_t i = 0; i < own->n; i++)
                for (size_t k = 0; k < own->p[i].hosts.n; k++)
                        if (pattern_holds(own->p[i].hosts.p[k], true, place))
                                return true;

        if (provider_reaches(outer, tool, place))
                return true;

        for (size_t i = 0; i < tool->repos.n; i++) {
                struct str repo = str_of(tool->repos.p[i].text);
                ptrdiff_t slash = str_find(repo, '/');
                if (sees_objects(tool) && slash > 0 && str_eq(place, str_first(repo, (size_t)slash)))
                        return true;
        }

        return false;
}

static void emit_private(struct emit *json, const struct policy *outer, const struct bridge_tool *tool,
                         const mappings *own) {
        emit_key(json, "allow_private");
        emit_open(json, '[');
        for (size_t i = 0; i < outer->network.allow_private.n; i++)
                if (tool_reaches(outer, tool, own, str_of(outer->network.allow_private.p[i].text)))
                        emit_text(json, outer->network.allow_private.p[i].text);
        emit_close(json);
}

static void emit_network(struct emit *json, const struct policy *outer, const struct bridge_tool *tool,
                         const mappings *own) {
        emit_key(json, "network");
        emit_open(json, '{');
        put_list(json, "allow", &tool->hosts);
        emit_private(json, outer, tool, own);
        put_list(json, "upstream_bypass", &outer->network.upstream_bypass);
        put_list(json, "dns_servers", &outer->network.dns_servers);

        put_duration(json, "ask_timeout", outer->network.ask_timeout_ns);
        if (outer->network.upstream_proxy)
                emit_put_text(json, "upstream_proxy", outer->network.upstream_proxy);
        if (outer->network.deny_cidrs_set)
                put_list(json, "deny_cidrs", &outer->network.deny_cidrs);

        if (outer->network.deny.n) {
                emit_key(json, "deny");
                emit_open(json, '[');
                emit_list(json, &outer->network.deny);
                emit_close(json);
        }

        emit_close(json);
}

static void emit_under(struct emit *json, const char *directory, const char *name) {
        char path[4096];

        snprintf(path, sizeof path, "%s/%s", directory, name);
        emit_text(json, path);
}

static void emit_files(struct emit *json, const struct policy *outer, const struct bridge_tool *tool,
                       const struct tool_place_facts *facts) {
        emit_key(json, "filesystem");
        emit_open(json, '{');
        emit_put_text(json, "home", "none");
        emit_key(json, "read");
        emit_open(json, '[');
        emit_list(json, &tool->files);
        emit_text(json, facts->program);

        if (tool_is(tool->workspace, "read", false))
                emit_text(json, outer->workspace);

        if (facts->git) {
                emit_under(json, facts->git, "objects");
                emit_under(json, facts->git, "refs");
                emit_under(json, facts->git, "packed-refs");
        }

        emit_close(json);
        emit_key(json, "deny_read");
        emit_open(json, '[');
        emit_list(json, &outer->filesystem.deny_read);

        if (!tool_is(tool->workspace, "read", false))
                emit_text(json, outer->workspace);

        emit_close(json);
        emit_key(json, "deny_write");
        emit_open(json, '[');
        emit_list(json, &outer->filesystem.deny_write);
        emit_text(json, facts->directory);
        emit_close(json);
        emit_close(json);
}

static bool list_names(const origin_texts *list, struct str name) {
        for (size_t i = 0; i < list->n; i++) {
                struct str text = str_of(list->p[i].text);
                ptrdiff_t equals = str_find(text, '=');

                if (str_eq(name, equals < 0 ? text : str_first(text, (size_t)equals)))
                        return true;
        }

        return false;
}

/* Pagers and editors start programs for whoever types, and the terminal is the caller's: a tool gets none, unless its
 * entry says so. */
static void emit_no_orders(struct emit *json, const struct bridge_tool *tool) {
        static const char *const names[][2] = {
                { "PAGER", "cat" },    { "MANPAGER", "cat" }, { "LESSSECURE", "1" },
                { "EDITOR", "false" }, { "VISUAL", "false" },
        };

        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (!list_names(&tool->env, str_of(names[i][0])) && !list_names(&tool->env_pass, str_of(names[i][0])))
                        emit_put_text(json, names[i][0], names[i][1]);
}

static void emit_process(struct emit *json, const struct bridge_tool *tool) {
        emit_key(json, "process");
        emit_open(json, '{');
        put_duration(json, "timeout", tool_timeout_ns(tool));
        emit_key(json, "env");
        emit_open(json, '{');
        put_list(json, "pass", &tool->env_pass);
        emit_key(json, "set");
        emit_open(json, '{');
        emit_no_orders(json, tool);

        for (size_t i = 0; i < tool->env.n; i++) {
                struct str text = str_of(tool->env.p[i].text);
                ptrdiff_t equals = str_find(text, '=');
                size_t name_n = equals < 0 ? text.n : (size_t)equals;

                emit_key_str(json, str_first(text, name_n));
                emit_string(json, str_skip(text, equals < 0 ? text.n : name_n + 1));
        }

        emit_close(json);
        emit_close(json);
        emit_close(json);
}

static void put_given(struct emit *json, const char *key, const char *text) {
        if (text)
                emit_put_text(json, key, text);
}

/* An entry of the outer policy, as it stands there; its paths are whole in the mapping. */
static void emit_entry(struct emit *json, const struct credential *own, const struct mapping *mapping) {
        emit_open(json, '{');
        put_given(json, "provider", own->provider);
        put_given(json, "name", own->name);
        put_given(json, "env", own->env);

        emit_put_text(json, "source", mapping->source);
        put_list(json, "hosts", &own->hosts);
        put_list(json, "also_env", &own->also_env);
        put_list(json, "also_hosts", &own->also_hosts);

        put_given(json, "slot", own->slot);
        put_duration(json, "timeout", own->timeout_ns);
        put_duration(json, "refresh", own->refresh_ns);
        put_given(json, "form", own->form);
        put_given(json, "answer", own->answer);
        put_given(json, "expiry", own->expiry);
        emit_close(json);
}

static void emit_provider(struct emit *json, const struct tool_credential *credential) {
        char source[128];

        snprintf(source, sizeof source, "env:%s", credential_variable(credential->provider));
        emit_open(json, '{');
        emit_put_text(json, "provider", credential->provider->name);
        emit_put_string(json, "source", credential->source.n ? credential->source : str_of(source));
        emit_close(json);
}

/* `own` has the entries of the outer policy, in the order of the words that name them. */
static void emit_credentials(struct emit *json, const struct policy *outer, const struct bridge_tool *tool,
                             const mappings *own) {
        struct tool_credential found;
        size_t n = 0;

        if (tool->credentials.n == 0)
                return;

        emit_key(json, "credentials");
        emit_open(json, '[');

        for (size_t i = 0; i < tool->credentials.n; i++) {
                if (!tool_credential_find(outer, str_of(tool->credentials.p[i].text), &found))
                        continue;
                if (found.own && n < own->n)
                        emit_entry(json, found.own, &own->p[n++]);
                else if (found.provider)
                        emit_provider(json, &found);
        }

        emit_close(json);
}

static void emit_git_rule(struct emit *json, const struct git_rule *rule) {
        emit_open(json, '{');
        emit_put_text(json, "repo", rule->repo);
        if (rule->fetch)
                emit_put_bool(json, "fetch", rule->fetch == SWITCH_ON);

        put_list(json, "push", &rule->push);
        if (rule->push.n && rule->create)
                emit_put_bool(json, "create", rule->create == SWITCH_ON);
        if (rule->ask) /* the gate of the tool's sandbox asks, with what the push has in it */
                emit_put_text(json, "ask", rule->ask);

        emit_close(json);
}

/* What the outer policy says of repositories holds; where it says nothing, those of the tool, and its branches and
 * tags. */
static void emit_git(struct emit *json, const struct policy *outer, const struct bridge_tool *tool) {
        emit_key(json, "git");
        emit_open(json, '[');
        for (size_t i = 0; i < outer->git.n; i++)
                emit_git_rule(json, &outer->git.p[i]);

        for (size_t i = 0; outer->git.n == 0 && i < tool->repos.n; i++) {
                emit_open(json, '{');
                emit_put_text(json, "repo", tool->repos.p[i].text);
                emit_key(json, "push");
                emit_open(json, '[');
                emit_text(json, "refs/heads/**");
                emit_text(json, "refs/tags/**");
                emit_close(json);
                emit_close(json);
        }

        emit_close(json);
}

int tool_policy_write(const struct policy *outer, const struct bridge_tool *tool, const struct tool_place_facts *facts,
                      struct buf *out) {
        cleanup(mappings_done) mappings own = { 0 };
        struct emit j = emit_to(out);
        int r = tool_mappings(outer, tool, &own, NULL);

        if (r < 0)
                return r;

        emit_open(&j, '{');
        emit_put_text(&j, "mode", "workspace-write-whitelist");
        emit_put_text(&j, "profile", "none");
        emit_network(&j, outer, tool, &own);
        emit_files(&j, outer, tool, facts);
        emit_process(&j, tool);
        emit_credentials(&j, outer, tool, &own);

        if (sees_objects(tool))
                emit_git(&j, outer, tool);

        emit_close(&j);
        return emit_status(&j);
}
