/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy_digest.h"

#include <assert.h>

/* A field that nobody adds here would be one that may change unnoticed. So that the compiler says so: */
#define COUNTED(type, size) static_assert(sizeof(type) == (size), "a field more, or less: see its function below")
COUNTED(struct origin_text, 24);
COUNTED(struct request_rule, 112);
COUNTED(struct git_rule, 56);
COUNTED(struct bridge_tool, 296);
COUNTED(struct ratchet_rule, 192);
COUNTED(struct policy_limits, 48);
COUNTED(struct gateway_limits, 64);
COUNTED(struct credential, 168);
COUNTED(struct home_seed, 32);
COUNTED(struct command_rule, 104);
COUNTED(struct agent_role, 32);
COUNTED(struct monitor_rule, 32);
COUNTED(struct pattern_file, 32);
COUNTED(struct mirror, 24);
COUNTED(struct port_map, 24);
COUNTED(struct policy, 2072);

static void add_number(struct digest *digest, uint64_t value) {
        digest_add(digest, str_n(&value, sizeof value));
}

/* With its length in front, so that no two lists of texts look alike. */
static void add_bytes(struct digest *digest, struct str bytes) {
        add_number(digest, bytes.p ? bytes.n + 1 : 0);
        digest_add(digest, bytes);
}

static void add_text(struct digest *digest, const char *text) {
        add_bytes(digest, str_of(text));
}

static void add_texts(struct digest *digest, const origin_texts *list) {
        add_number(digest, list->n);

        for (size_t i = 0; i < list->n; i++) {
                add_text(digest, list->p[i].text);
                add_text(digest, list->p[i].origin);
                add_text(digest, list->p[i].reason);
        }
}

static void add_all_texts(struct digest *digest, const origin_texts *const *lists, size_t n) {
        for (size_t i = 0; i < n; i++)
                add_texts(digest, lists[i]);
}
#define ADD_LISTS(digest, ...)                                                                                         \
        add_all_texts((digest), (const origin_texts *const[]){ __VA_ARGS__ },                                          \
                      sizeof((const origin_texts *const[]){ __VA_ARGS__ }) / sizeof(const origin_texts *))

static void add_all(struct digest *digest, const char *const *texts, size_t n) {
        for (size_t i = 0; i < n; i++)
                add_text(digest, texts[i]);
}
#define ADD_TEXTS(digest, ...)                                                                                         \
        add_all((digest), (const char *const[]){ __VA_ARGS__ },                                                        \
                sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *))

static void add_numbers(struct digest *digest, const uint64_t *values, size_t n) {
        for (size_t i = 0; i < n; i++)
                add_number(digest, values[i]);
}
#define ADD_NUMBERS(digest, ...)                                                                                       \
        add_numbers((digest), (const uint64_t[]){ __VA_ARGS__ },                                                       \
                    sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

static void add_request_rule(struct digest *digest, const struct request_rule *rule) {
        ADD_TEXTS(digest, rule->host, rule->origin);
        ADD_LISTS(digest, &rule->methods, &rule->paths, &rule->queries, &rule->mutations);
}

static void add_git_rule(struct digest *digest, const struct git_rule *rule) {
        ADD_TEXTS(digest, rule->repo, rule->ask, rule->origin);
        ADD_LISTS(digest, &rule->push);
        ADD_NUMBERS(digest, rule->fetch, rule->create, rule->delete, rule->options, rule->certificate);
}

static void add_bridge_tool(struct digest *digest, const struct bridge_tool *tool) {
        ADD_TEXTS(digest, tool->name, tool->origin, tool->program, tool->workspace, tool->otherwise);
        ADD_NUMBERS(digest, tool->separator, tool->timeout_ns);
        ADD_LISTS(digest, &tool->hosts, &tool->credentials, &tool->files, &tool->env, &tool->env_pass, &tool->repos,
                  &tool->verbs, &tool->never, &tool->front, &tool->ask);
}

static void add_ratchet_rule(struct digest *digest, const struct ratchet_rule *rule) {
        ADD_TEXTS(digest, rule->origin, rule->git, rule->creds, rule->ask, rule->say);
        ADD_LISTS(digest, &rule->reads, &rule->tools, &rule->reaches, &rule->credentials, &rule->allow,
                  &rule->keep_tools);
        ADD_NUMBERS(digest, rule->closed);
}

static void add_gateway_limits(struct digest *digest, const struct gateway_limits *limits) {
        ADD_NUMBERS(digest, limits->connect_ns, limits->header_ns, limits->idle_ns, limits->tunnel_idle_ns,
                    limits->header_bytes, limits->connections, limits->connections_per_second,
                    limits->bytes_out_per_host, limits->bytes_out);
}

static void add_credential(struct digest *digest, const struct credential *credential) {
        ADD_TEXTS(digest, credential->provider, credential->name, credential->env, credential->source, credential->slot,
                  credential->origin, credential->form, credential->answer, credential->expiry);
        ADD_LISTS(digest, &credential->hosts, &credential->also_env, &credential->also_hosts);
        ADD_NUMBERS(digest, credential->timeout_ns, credential->refresh_ns, credential->sandbox);
}

static void add_pattern_file(struct digest *digest, const struct pattern_file *file) {
        ADD_TEXTS(digest, file->path, file->origin);
        add_bytes(digest, str_n(file->content, file->n));
}

static void add_port_map(struct digest *digest, const struct port_map *map) {
        ADD_TEXTS(digest, map->addr, map->origin);
        ADD_NUMBERS(digest, map->outside, map->inside);
}

static void add_network(struct digest *digest, const struct policy *policy) {
        ADD_LISTS(digest, &policy->network.allow, &policy->network.deny, &policy->network.allow_private,
                  &policy->network.deny_cidrs, &policy->network.no_intercept, &policy->network.quiet,
                  &policy->network.upstream_bypass, &policy->network.dns_servers);
        ADD_NUMBERS(digest, policy->network.deny_cidrs_set, policy->network.ask, policy->network.ask_timeout_ns,
                    policy->network.ca_key, policy->network.allow_files.n, policy->network.deny_files.n,
                    policy->network.mirrors.n, policy->network.rules.n, policy->network.publish.n,
                    policy->network.host_ports.n);
        ADD_TEXTS(digest, policy->network.upstream_proxy);
        add_gateway_limits(digest, &policy->network.limits);

        for (size_t i = 0; i < policy->network.allow_files.n; i++)
                add_pattern_file(digest, &policy->network.allow_files.p[i]);
        for (size_t i = 0; i < policy->network.deny_files.n; i++)
                add_pattern_file(digest, &policy->network.deny_files.p[i]);
        for (size_t i = 0; i < policy->network.mirrors.n; i++)
                ADD_TEXTS(digest, policy->network.mirrors.p[i].group, policy->network.mirrors.p[i].pattern,
                          policy->network.mirrors.p[i].origin);
        for (size_t i = 0; i < policy->network.rules.n; i++)
                add_request_rule(digest, &policy->network.rules.p[i]);
        for (size_t i = 0; i < policy->network.publish.n; i++)
                add_port_map(digest, &policy->network.publish.p[i]);
        for (size_t i = 0; i < policy->network.host_ports.n; i++)
                add_port_map(digest, &policy->network.host_ports.p[i]);
}

static void add_files(struct digest *digest, const struct policy *policy) {
        ADD_TEXTS(digest, policy->filesystem.home);
        ADD_NUMBERS(digest, policy->filesystem.reads_denied, policy->filesystem.overlay);
        ADD_LISTS(digest, &policy->filesystem.moved, &policy->filesystem.hidden_homes, &policy->filesystem.read,
                  &policy->filesystem.write, &policy->filesystem.deny_read, &policy->filesystem.deny_write,
                  &policy->filesystem.ask);
}

static void add_process(struct digest *digest, const struct policy *policy) {
        const struct policy_limits *limits = &policy->process.limits;

        ADD_NUMBERS(digest, limits->processes, limits->memory, limits->files, limits->cpu_seconds, limits->cpu_percent,
                    limits->temporary, policy->process.timeout_ns, policy->process.allow_degraded,
                    policy->process.trace_denials, policy->process.nesting, policy->process.base_urls);
        ADD_LISTS(digest, &policy->process.env_pass, &policy->process.env_set);
}

/* Doors to the host. */
static void add_doors(struct digest *digest, const struct policy *policy) {
        ADD_NUMBERS(digest, policy->git.n, policy->bridge.n, policy->ratchet.n, policy->ssh.git, policy->signing.ssh,
                    policy->signing.ask, policy->browser.ask, policy->browser.callback_ns);
        ADD_LISTS(digest, &policy->ssh.users, &policy->ssh.known_hosts, &policy->ssh.identities, &policy->ssh.hosts,
                  &policy->ssh.keys, &policy->signing.gpg, &policy->browser.hosts);
        ADD_TEXTS(digest, policy->browser.program);

        for (size_t i = 0; i < policy->git.n; i++)
                add_git_rule(digest, &policy->git.p[i]);
        for (size_t i = 0; i < policy->bridge.n; i++)
                add_bridge_tool(digest, &policy->bridge.p[i]);
        for (size_t i = 0; i < policy->ratchet.n; i++)
                add_ratchet_rule(digest, &policy->ratchet.p[i]);
}

static void add_credentials(struct digest *digest, const struct policy *policy) {
        ADD_NUMBERS(digest, policy->credentials.n, policy->tool_credentials.n);

        for (size_t i = 0; i < policy->credentials.n; i++)
                add_credential(digest, &policy->credentials.p[i]);
        for (size_t i = 0; i < policy->tool_credentials.n; i++)
                add_credential(digest, &policy->tool_credentials.p[i]);
}

static void add_commands(struct digest *digest, const struct policy *policy) {
        add_number(digest, policy->commands.n);

        for (size_t i = 0; i < policy->commands.n; i++) {
                const struct command_rule *rule = &policy->commands.p[i];

                ADD_TEXTS(digest, rule->name, rule->decision, rule->reason, rule->origin);
                ADD_LISTS(digest, &rule->argv, &rule->match, &rule->no_match);
        }
}

/* People and programs that watch, and the record. */
static void add_watch(struct digest *digest, const struct policy *policy) {
        ADD_TEXTS(digest, policy->audit_path, policy->approval.command, policy->approval.webhook,
                  policy->approval.chat.url, policy->approval.chat.token, policy->approval.chat.app_token,
                  policy->approval.chat.account, policy->approval.chat.room, policy->agent);
        ADD_LISTS(digest, &policy->approval.chat.approvers);
        ADD_NUMBERS(digest, policy->log.max_age_ns, policy->log.max_bytes, policy->approval.chat.service,
                    policy->approval.chat.per_minute, policy->agents.n, policy->monitor.n);

        for (size_t i = 0; i < policy->agents.n; i++) {
                const struct agent_role *role = &policy->agents.p[i];

                ADD_TEXTS(digest, role->name, role->network_access, role->origin);
                ADD_NUMBERS(digest, role->monitor_enabled, role->auto_kill_on_threat);
        }

        for (size_t i = 0; i < policy->monitor.n; i++) {
                const struct monitor_rule *rule = &policy->monitor.p[i];

                ADD_NUMBERS(digest, rule->violations, rule->within_ns);
                ADD_TEXTS(digest, rule->action, rule->origin);
        }
}

static void add_home(struct digest *digest, const struct policy *policy) {
        ADD_TEXTS(digest, policy->workspace, policy->home, policy->home_inside);
        add_number(digest, policy->home_seeds.n);

        for (size_t i = 0; i < policy->home_seeds.n; i++) {
                const struct home_seed *seed = &policy->home_seeds.p[i];

                ADD_TEXTS(digest, seed->path, seed->content, seed->origin);
                add_number(digest, seed->once);
        }
}

void policy_digest(const struct policy *policy, unsigned char ret[static DIGEST_BYTES]) {
        struct digest digest;

        digest_begin(&digest);
        ADD_NUMBERS(&digest, policy->mode, policy->guest);
        ADD_TEXTS(&digest, policy->preset, policy->file);
        ADD_LISTS(&digest, &policy->profiles, &policy->macos_allow);
        add_all(&digest, (const char *const *)policy->origins, POLICY_ROWS);
        add_home(&digest, policy);
        add_network(&digest, policy);
        add_files(&digest, policy);
        add_process(&digest, policy);
        add_doors(&digest, policy);
        add_credentials(&digest, policy);
        add_commands(&digest, policy);
        add_watch(&digest, policy);
        digest_end(&digest, ret);
}
