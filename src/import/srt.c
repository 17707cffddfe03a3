/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anthropic's sandbox runtime: ~/.srt-settings.json, and the sections of Claude Code's settings that are its own.
 * Reading is open but for denyRead, which allowRead opens again; writing is closed but for allowWrite, in which
 * denyWrite closes again. Hosts: deniedDomains, then allowedDomains.
 */
#include "base/cleanup.h"
#include "import/import_source.h"
#include "policy/check.h"

#include <errno.h>

enum { CREDENTIALS_MAX = 1024 };

#define MACOS "about macOS only"
#define WEAKER "a weaker sandbox is not taken over"
#define ELSEWHERE "Bailey brings its own proxies"

/* --- network --- */

static int allow_domains(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, import_allow_host_node, err);
}

static int deny_domains(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, import_deny_host_node, err);
}

static int allow_all(struct import_source *source, const struct node *node, struct err *err) {
        bool on = false;
        int r = import_want_bool(source, node, &on, err);

        if (r == 0 && on)
                source->model->network = IMPORT_NETWORK_ANY;
        return r;
}

/* A list that is not strict has somebody asked. */
static int strict_list(struct import_source *source, const struct node *node, struct err *err) {
        bool on = false;
        int r = import_want_bool(source, node, &on, err);

        source->model->strict |= on;
        source->model->asks = r == 0 && !source->model->strict;
        return r;
}

/* Reasons come before or after the denials that they are for. */
static int add_reasons(struct import_source *source, const struct node *map, struct err *err) {
        int r = import_want_map(source, map, err);

        for (const struct node *node = map->first; r == 0 && node; node = node->next) {
                import_entries *denials = &source->model->lists[IMPORT_DENY];
                struct err why = { 0 };
                bool known = false;

                source->model->work += denials->n;
                r = import_check_work(source->model, err);
                if (r == 0)
                        r = import_want_text(source, node, err);
                if (r < 0)
                        return r;

                bool fits = check_reason(node->text, &why) == 0;
                for (size_t i = 0; i < denials->n && fits; i++) {
                        if (!str_is(node->key, denials->p[i].text) || denials->p[i].reason)
                                continue;

                        known = true;
                        denials->p[i].reason = str_dup(node->text);
                        if (!denials->p[i].reason)
                                return err_memory(err);
                }

                if (!known)
                        r = import_say(source, node, false, err, "%s",
                                       fits ? "a reason for a host that is not denied" : err_text(&why));
        }

        return r;
}

static int exclude_domain(struct import_source *source, const struct node *node, struct err *err) {
        cleanup(free_ptr) char *place = node_origin(source->document, node);
        struct err why = { 0 };

        if (!place)
                return err_memory(err);
        if (check_plain_pattern(node->text, &why) < 0)
                return import_say(source, node, true, err, "%s", err_text(&why));

        return import_add(source->model, IMPORT_NO_INTERCEPT, node->text, place, node->text, err);
}

static int exclude_domains(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, exclude_domain, err);
}

static int terminate_tls(struct import_source *source, const struct node *node, struct err *err) {
        static const struct import_key keys[] = {
                { "excludeDomains", exclude_domains, NULL, false },
                { "enabled", NULL, NULL, false },
                { "extraCaCertPaths", NULL, "certificates of one's own are named with --ca-bundle", false },
        };

        if (node->kind == NODE_SCALAR)
                return 0; /* a switch: Bailey opens TLS where a credential or a rule needs it */

        return import_keys(source, node, IMPORT_KEYS(keys),
                           "Bailey opens TLS where a credential or a rule needs it, with a certificate of its own",
                           false, err);
}

static int allow_socket(struct import_source *source, const struct node *node, struct err *err) {
        return import_socket(source, node, node->text, err);
}

static int allow_sockets(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, allow_socket, err);
}

static int parent_proxy_url(struct import_source *source, const struct node *node, struct err *err) {
        struct err why = { 0 };
        int r = import_want_text(source, node, err);

        if (r < 0)
                return r;

        if (source->model->upstream_proxy) {
                if (strcmp(source->model->upstream_proxy, node->text.p) == 0)
                        return 0;
                return import_say(source, node, false, err, "there is one upstream proxy for all protocols");
        }

        if (check_proxy_url(node->text, &why) < 0)
                return import_say(source, node, false, err, "%s", err_text(&why));

        source->model->upstream_proxy = str_dup(node->text);
        if (!source->model->upstream_proxy)
                return err_memory(err);

        return 0;
}

static int parent_bypass(struct import_source *source, const struct node *node, struct err *err) {
        cleanup(free_ptr) char *place = node_origin(source->document, node);
        struct str text = node->text;

        if (!place)
                return err_memory(err);

        cleanup(free_ptr) char *below = text.n > 1 && text.p[0] == '.' ? str_format("*%.*s", STR_FMT(text)) : NULL;
        if (below)
                text = str_of(below);
        if (check_plain_pattern(text, NULL) < 0)
                return import_say(source, node, false, err, "not a host or network that can bypass the proxy");

        return import_add(source->model, IMPORT_BYPASS, text, place, node->text, err);
}

static int parent_bypasses(struct import_source *source, const struct node *node, struct err *err) {
        if (node->kind == NODE_SCALAR)
                return import_say(source, node, false, err,
                                  "write it as a list of hosts, under network.upstream_bypass");
        return import_each(source, node, parent_bypass, err);
}

static int parent_proxy(struct import_source *source, const struct node *node, struct err *err) {
        static const struct import_key keys[] = { { "http", parent_proxy_url, NULL, false },
                                                  { "https", parent_proxy_url, NULL, false },
                                                  { "noProxy", parent_bypasses, NULL, false } };

        return import_keys(source, node, IMPORT_KEYS(keys), "an unknown key of the upstream proxy", false, err);
}

int import_srt_network(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = {
                { "allowedDomains", allow_domains, NULL, false },
                { "deniedDomains", deny_domains, NULL, false },
                { "deniedDomainReasons", NULL, NULL, false }, /* after all denials */
                { "allowAllDomains", allow_all, NULL, false },
                { "strictAllowlist", strict_list, NULL, false },
                { "allowManagedDomainsOnly", NULL, NULL, false }, /* see import/claude.c */
                { "allowUnixSockets", allow_sockets, NULL, false },
                { "allowAllUnixSockets", NULL, "sockets of this host are opened one by one, with filesystem.read",
                  false },
                { "allowLocalBinding", NULL, NULL, false }, /* the sandbox's own loopback is free */
                { "allowMachLookup", NULL, MACOS, false },
                { "allowMachRegister", NULL, MACOS, false },
                { "httpProxyPort", NULL, ELSEWHERE, false },
                { "socksProxyPort", NULL, ELSEWHERE, false },
                { "mitmProxy", NULL, "requests are seen by Bailey's own gateway alone", false },
                { "tlsTerminate", terminate_tls, NULL, false },
                { "parentProxy", parent_proxy, NULL, false },
        };
        int r = import_keys(source, map, IMPORT_KEYS(keys), "an unknown key about the network", true, err);
        const struct node *reasons = map->kind == NODE_MAP ? node_get(map, STR("deniedDomainReasons")) : NULL;

        if (r < 0 || !reasons || reasons->kind == NODE_NULL)
                return r;

        return add_reasons(source, reasons, err);
}

/* --- files --- */

/* An entry is a path, or { path, literal } for one whose stars are no wildcards. */
static int add_paths(struct import_source *source, const struct node *list, enum import_list to, struct err *err) {
        if (list->kind != NODE_LIST)
                return node_error(source->document, list, err, "a list of paths is wanted here, not %s",
                                  node_kind_name(list->kind));

        for (const struct node *node = list->first; node; node = node->next) {
                const struct node *path = node->kind == NODE_MAP ? node_get(node, STR("path")) : node;
                int r = path ? import_want_text(source, path, err)
                             : node_error(source->document, node, err, "an entry needs 'path'");

                const struct node *literal = node->kind == NODE_MAP ? node_get(node, STR("literal")) : NULL;

                if (r == 0 && literal && literal->kind != NODE_NULL)
                        r = import_want_bool(source, literal, &source->literal, err);

                source->soft = true;
                if (r == 0 && path)
                        r = import_path(source, path, path->text, to, ANCHOR_PLAIN, err);

                source->soft = source->literal = false;
                if (r < 0)
                        return r;
        }

        return 0;
}

static int deny_reads(struct import_source *source, const struct node *node, struct err *err) {
        return add_paths(source, node, IMPORT_DENY_READ, err);
}

static int allow_reads(struct import_source *source, const struct node *node, struct err *err) {
        return add_paths(source, node, IMPORT_READ, err);
}

static int allow_writes(struct import_source *source, const struct node *node, struct err *err) {
        return add_paths(source, node, IMPORT_WRITE, err);
}

static int deny_writes(struct import_source *source, const struct node *node, struct err *err) {
        return add_paths(source, node, IMPORT_DENY_WRITE, err);
}

static int disable_files(struct import_source *source, const struct node *node, struct err *err) {
        bool on = false;
        int r = import_want_bool(source, node, &on, err);

        if (r < 0 || !on)
                return r;

        return import_say(
            source, node, false, err,
            "it lets every file be read and written; a policy without limits on files does not exist, and "
            "the ones of the lists hold");
}

static int allow_git_config(struct import_source *source, const struct node *node, struct err *err) {
        bool on = false;
        int r = import_want_bool(source, node, &on, err);

        if (r < 0 || !on)
                return r;

        return import_path(source, node, STR(".git/config"), IMPORT_WRITE, ANCHOR_PLAIN, err);
}

int import_srt_filesystem(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = {
                { "denyRead", deny_reads, NULL, false },     { "allowRead", allow_reads, NULL, false },
                { "allowWrite", allow_writes, NULL, false }, { "denyWrite", deny_writes, NULL, false },
                { "disabled", disable_files, NULL, false },  { "allowGitConfig", allow_git_config, NULL, false },
        };

        return import_keys(source, map, IMPORT_KEYS(keys), "an unknown key about files", true, err);
}

/* --- credentials --- */

static int add_hosts(struct import_source *source, const struct node *list, import_words *hosts, struct err *err) {
        int r = 0;

        if (list->kind != NODE_LIST)
                return node_error(source->document, list, err, "'injectHosts' must be a list of strings");

        for (const struct node *node = list->first; r == 0 && node; node = node->next) {
                r = import_want_text(source, node, err);
                if (r == 0)
                        r = check_plain_pattern(node->text, NULL) < 0
                                ? import_say(source, node, false, err, "not a host that a secret can be sent to")
                                : import_words_add(hosts, node->text, err);
        }

        return r;
}

static int hide_variable(struct import_source *source, const struct node *name, struct err *err) {
        cleanup(free_ptr) char *place = node_origin(source->document, name);

        if (!place)
                return err_memory(err);

        return import_hide(source->model, name->text, place, err);
}

static int mask_variable(struct import_source *source, const struct node *map, const struct node *name,
                         struct err *err) {
        const struct node *hosts = node_get(map, STR("injectHosts"));
        struct import_credential credential = { 0 };
        int r = 0;

        if (source->model->credentials.n >= CREDENTIALS_MAX)
                return node_error(source->document, name, err, "more than %d variables with secrets", CREDENTIALS_MAX);

        if (!hosts || hosts->kind == NODE_NULL || hosts->n == 0) {
                r = hide_variable(source, name, err);
                if (r < 0)
                        return r;
                return import_say(source, name, false, err,
                                  "a secret needs the hosts that it is for, and is not shown inside without; name them "
                                  "under credentials");
        }

        r = add_hosts(source, hosts, &credential.hosts, err);
        credential.env = str_dup(name->text);
        credential.place = node_origin(source->document, name);
        if (r == 0 && (!credential.env || !credential.place || vec_push(&source->model->credentials, credential) < 0))
                r = err_memory(err);

        if (r < 0) {
                import_words_done(&credential.hosts);
                free(credential.env);
                free(credential.place);
        }

        return r;
}

static int read_variable(struct import_source *source, const struct node *map, struct err *err) {
        const struct node *name = node_get(map, STR("name")), *mode = node_get(map, STR("mode"));
        int r;

        if (!name)
                return node_error(source->document, map, err, "a credential in a variable needs 'name'");

        r = import_want_text(source, name, err);
        if (r < 0)
                return r;
        if (check_variable_name(name->text, NULL) < 0)
                return node_error(source->document, name, err, "this is not the name of a variable");

        bool mask = mode && mode->kind == NODE_SCALAR && str_is(mode->text, "mask");
        if (mask)
                return mask_variable(source, map, name, err);

        return hide_variable(source, name, err);
}

static int read_file(struct import_source *source, const struct node *map, struct err *err) {
        const struct node *path = node_get(map, STR("path")), *mode = node_get(map, STR("mode"));
        int r;

        if (!path)
                return node_error(source->document, map, err, "a credential in a file needs 'path'");

        r = import_want_text(source, path, err);
        if (r == 0)
                r = import_path(source, path, path->text, IMPORT_DENY_READ, ANCHOR_PLAIN, err);
        if (r == 0 && mode && mode->kind == NODE_SCALAR && str_is(mode->text, "mask"))
                r = import_say(source, path, false, err, "files with stand-ins in them are not made: it is denied");

        return r;
}

static int read_records(struct import_source *source, const struct node *list, import_handler *handle,
                        struct err *err) {
        if (list->kind != NODE_LIST)
                return node_error(source->document, list, err, "a list of objects is wanted here, not %s",
                                  node_kind_name(list->kind));

        for (const struct node *node = list->first; node; node = node->next) {
                int r = import_want_map(source, node, err);
                if (r == 0)
                        r = handle(source, node, err);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int read_variables(struct import_source *source, const struct node *node, struct err *err) {
        return read_records(source, node, read_variable, err);
}

static int read_files(struct import_source *source, const struct node *node, struct err *err) {
        return read_records(source, node, read_file, err);
}

int import_srt_credentials(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = {
                { "files", read_files, NULL, false },
                { "envVars", read_variables, NULL, false },
                { "awsPairs", NULL, "name them under credentials, with the provider bedrock or the slot sigv4", false },
                { "sigv4", NULL, "name them under credentials, with the provider bedrock or the slot sigv4", false },
                { "allowPlaintextInject", NULL, "a secret is sent over TLS only", false },
        };

        return import_keys(source, map, IMPORT_KEYS(keys), "an unknown key about credentials", true, err);
}

int import_srt(struct import_source *source, const struct node *root, struct err *err) {
        static const struct import_key keys[] = {
                { "network", import_srt_network, NULL, false },
                { "filesystem", import_srt_filesystem, NULL, false },
                { "credentials", import_srt_credentials, NULL, false },
                { "ignoreViolations", NULL, "every refusal is on record", false },
                { "enableWeakerNestedSandbox", NULL, WEAKER, false },
                { "enableWeakerNetworkIsolation", NULL, WEAKER, false },
                { "allowPty", NULL, NULL, false },
                { "allowAppleEvents", NULL, MACOS, false },
                { "mandatoryDenySearchDepth", NULL, NULL, false },
                { "ripgrep", NULL, NULL, false },
                { "git", NULL, "settings of git are not taken over", false },
                { "$schema", NULL, NULL, false },
        };

        import_start_listed(source->model, false);
        return import_keys(source, root, IMPORT_KEYS(keys), "an unknown key", true, err);
}
