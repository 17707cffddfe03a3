/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reload cannot change in a running sandbox, section by section: the mounts, the variables and the listeners are
 * made at the launch, programs inside hold what they were given, and a ratchet must not be taken away from under what
 * it has closed. live_reload.c says what is exchanged; a section is there, or here.
 */
#include "base/cleanup.h"
#include "control/live_internal.h"
#include "policy/tools/tool_credentials.h"

#include <stdio.h>

static bool same_text(const char *a, const char *b) {
        return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_texts(const origin_texts *a, const origin_texts *b) {
        for (size_t i = 0; i < a->n && i < b->n; i++)
                if (strcmp(a->p[i].text, b->p[i].text) != 0)
                        return false;
        return a->n == b->n;
}

/* The launch closes the files of credentials, and opens its certificates: nobody wrote that. */
static bool entry_is_own(const struct origin_text *entry) {
        return str_starts(str_of(entry->origin), STR("source of credential ")) ||
               strcmp(entry->origin, "the sandbox's certificates") == 0;
}

static size_t next_written(const origin_texts *list, size_t i) {
        while (i < list->n && entry_is_own(&list->p[i]))
                i++;
        return i;
}

static bool same_written(const origin_texts *a, const origin_texts *b) {
        size_t i = next_written(a, 0), k = next_written(b, 0);

        while (i < a->n && k < b->n && strcmp(a->p[i].text, b->p[k].text) == 0) {
                i = next_written(a, i + 1);
                k = next_written(b, k + 1);
        }

        return i == a->n && k == b->n;
}

static bool same_files(const struct policy *a, const struct policy *b) {
        return a->filesystem.reads_denied == b->filesystem.reads_denied &&
               a->filesystem.overlay == b->filesystem.overlay && same_text(a->workspace, b->workspace) &&
               same_text(a->filesystem.home, b->filesystem.home) &&
               same_written(&a->filesystem.read, &b->filesystem.read) &&
               same_written(&a->filesystem.write, &b->filesystem.write) &&
               same_written(&a->filesystem.ask, &b->filesystem.ask) &&
               same_written(&a->filesystem.deny_read, &b->filesystem.deny_read) &&
               same_written(&a->filesystem.deny_write, &b->filesystem.deny_write);
}

static bool same_env(const struct policy *a, const struct policy *b) {
        return same_texts(&a->process.env_pass, &b->process.env_pass) &&
               same_texts(&a->process.env_set, &b->process.env_set);
}

static bool same_limits(const struct policy *one, const struct policy *other) {
        const struct policy_limits *a = &one->process.limits, *b = &other->process.limits;

        return a->processes == b->processes && a->memory == b->memory && a->files == b->files &&
               a->cpu_seconds == b->cpu_seconds && a->cpu_percent == b->cpu_percent && a->temporary == b->temporary;
}

static bool same_time(const struct policy *a, const struct policy *b) {
        return a->process.timeout_ns == b->process.timeout_ns;
}

static bool same_nesting(const struct policy *a, const struct policy *b) {
        return a->process.nesting == b->process.nesting;
}

static bool same_base_urls(const struct policy *a, const struct policy *b) {
        return a->process.base_urls == b->process.base_urls;
}

static bool same_publish(const struct policy *a, const struct policy *b) {
        const struct port_map *pa = a->network.publish.p, *pb = b->network.publish.p;
        bool same = a->network.publish.n == b->network.publish.n;

        for (size_t i = 0; same && i < a->network.publish.n; i++)
                same =
                    pa[i].outside == pb[i].outside && pa[i].inside == pb[i].inside && same_text(pa[i].addr, pb[i].addr);

        return same;
}

static bool same_host_ports(const struct policy *a, const struct policy *b) {
        bool same = a->network.host_ports.n == b->network.host_ports.n;

        for (size_t i = 0; same && i < a->network.host_ports.n; i++)
                same = a->network.host_ports.p[i].outside == b->network.host_ports.p[i].outside;

        return same;
}

static bool same_proxy(const struct policy *a, const struct policy *b) {
        return same_text(a->network.upstream_proxy, b->network.upstream_proxy);
}

static bool same_bypass(const struct policy *a, const struct policy *b) {
        return same_texts(&a->network.upstream_bypass, &b->network.upstream_bypass);
}

static bool same_servers(const struct policy *a, const struct policy *b) {
        return same_texts(&a->network.dns_servers, &b->network.dns_servers);
}

static bool same_ca_key(const struct policy *a, const struct policy *b) {
        return a->network.ca_key == b->network.ca_key;
}

static bool same_credentials(const struct policy *a, const struct policy *b) {
        cleanup(mappings_done) mappings now = { 0 }, then = { 0 };

        return mappings_of(a, &now, NULL) == 0 && mappings_of(b, &then, NULL) == 0 && mappings_equal(&now, &then);
}

static bool same_tool(const struct bridge_tool *a, const struct bridge_tool *b) {
        const origin_texts *const lists[][2] = {
                { &a->hosts, &b->hosts },       { &a->credentials, &b->credentials },
                { &a->files, &b->files },       { &a->env, &b->env },
                { &a->env_pass, &b->env_pass }, { &a->repos, &b->repos },
                { &a->verbs, &b->verbs },       { &a->never, &b->never },
                { &a->front, &b->front },       { &a->ask, &b->ask },
        };
        bool same = same_text(a->name, b->name) && same_text(a->program, b->program) &&
                    same_text(a->workspace, b->workspace) && same_text(a->otherwise, b->otherwise) &&
                    a->separator == b->separator && a->timeout_ns == b->timeout_ns;

        for (size_t i = 0; same && i < sizeof lists / sizeof *lists; i++)
                same = same_texts(lists[i][0], lists[i][1]);

        return same;
}

static bool same_bridge(const struct policy *a, const struct policy *b) {
        cleanup(mappings_done) mappings now = { 0 }, then = { 0 };
        bool same = a->bridge.n == b->bridge.n;

        for (size_t i = 0; same && i < a->bridge.n; i++)
                same = same_tool(&a->bridge.p[i], &b->bridge.p[i]);

        return same && tool_sources(a, &now, NULL) == 0 && tool_sources(b, &then, NULL) == 0 &&
               mappings_equal(&now, &then);
}

static bool same_ssh(const struct policy *a, const struct policy *b) {
        return a->ssh.git == b->ssh.git && same_texts(&a->ssh.users, &b->ssh.users) &&
               same_texts(&a->ssh.known_hosts, &b->ssh.known_hosts) &&
               same_texts(&a->ssh.identities, &b->ssh.identities) && same_texts(&a->ssh.hosts, &b->ssh.hosts) &&
               same_texts(&a->ssh.keys, &b->ssh.keys);
}

static bool same_signing(const struct policy *a, const struct policy *b) {
        return a->signing.ssh == b->signing.ssh && a->signing.ask == b->signing.ask &&
               same_texts(&a->signing.gpg, &b->signing.gpg);
}

static bool same_browser(const struct policy *a, const struct policy *b) {
        return same_texts(&a->browser.hosts, &b->browser.hosts) && a->browser.ask == b->browser.ask &&
               same_text(a->browser.program, b->browser.program) && a->browser.callback_ns == b->browser.callback_ns;
}

static bool same_ratchet_rule(const struct ratchet_rule *a, const struct ratchet_rule *b) {
        return same_texts(&a->reads, &b->reads) && same_texts(&a->tools, &b->tools) &&
               same_texts(&a->reaches, &b->reaches) && same_texts(&a->credentials, &b->credentials) &&
               same_texts(&a->allow, &b->allow) && same_texts(&a->keep_tools, &b->keep_tools) &&
               same_text(a->git, b->git) && same_text(a->creds, b->creds) && same_text(a->ask, b->ask) &&
               same_text(a->say, b->say);
}

static bool same_ratchet(const struct policy *a, const struct policy *b) {
        bool same = a->ratchet.n == b->ratchet.n;

        for (size_t i = 0; same && i < a->ratchet.n; i++)
                same = same_ratchet_rule(&a->ratchet.p[i], &b->ratchet.p[i]);

        return same;
}

static bool same_audit(const struct policy *a, const struct policy *b) {
        return same_text(a->audit_path, b->audit_path);
}

static void later_add(char ret[static LIVE_LATER_MAX], const char *key) {
        size_t n = strlen(ret);

        snprintf(ret + n, LIVE_LATER_MAX - n, "%s%s", n ? ", " : "", key);
}

/* The settings that differ and count only for commands that begin later, separated by commas. */
void live_reload_later(const struct live *live, const struct policy *fresh, char ret[static LIVE_LATER_MAX]) {
        static const struct {
                const char *key;
                bool (*same)(const struct policy *now, const struct policy *fresh);
        } sections[] = {
                { "filesystem", same_files },
                { "process.limits", same_limits },
                { "process.timeout", same_time },
                { "process.env", same_env },
                { "process.nesting", same_nesting },
                { "process.env.base_urls", same_base_urls },
                { "network.publish", same_publish },
                { "network.host_port", same_host_ports },
                { "network.upstream_proxy", same_proxy },
                { "network.upstream_bypass", same_bypass },
                { "network.dns_servers", same_servers },
                { "network.ca_key", same_ca_key },
                { "credentials", same_credentials },
                { "bridge", same_bridge },
                { "ssh", same_ssh },
                { "signing", same_signing },
                { "browser", same_browser },
                { "ratchet", same_ratchet },
                { "audit", same_audit },
        };
        const struct policy *now = *live->parts.policy;

        ret[0] = '\0';
        if (live->launched != fresh->mode) /* its rules for hosts count, its files do not */
                later_add(ret, "mode");

        for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
                if (!sections[i].same(now, fresh))
                        later_add(ret, sections[i].key);

        /* What needs a request to be seen is refused over TLS until there is a vault. */
        if (!live->opens_tls && fresh->git.n)
                later_add(ret, "git");
        if (!live->opens_tls && fresh->network.rules.n)
                later_add(ret, "network.rules");
}
