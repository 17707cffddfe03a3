/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fence: fence.jsonc. Denials win over grants. A file may extend another one, whose lists are added to; a template that
 * is built into Fence is not known here.
 */
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "conf/jsonc.h"
#include "import/import_internal.h"
#include "import/import_source.h"

#include <errno.h>
#include <stdio.h>

enum { EXTENDS_MAX = 8 };

/* --- network --- */

static int allow_hosts(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, import_allow_host_node, err);
}

static int deny_hosts(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, import_deny_host_node, err);
}

static int outbound_port(struct import_source *source, const struct node *list, struct err *err) {
        for (const struct node *node = list->first; list->kind == NODE_LIST && node; node = node->next) {
                cleanup(free_ptr) char *place = node_origin(source->document, node);
                uint64_t port;

                if (node->kind != NODE_SCALAR || !str_to_u64(node->text, UINT16_MAX, &port) || port == 0)
                        return node_error(source->document, node, err, "a port is a number from 1 to 65535");
                if (!place)
                        return err_memory(err);

                int r = import_add(source->model, IMPORT_HOST_PORT, node->text, place, node->text, err);
                if (r < 0)
                        return r;
        }

        if (list->kind != NODE_LIST)
                return node_error(source->document, list, err, "a list of ports is wanted here");

        return 0;
}

static int allow_socket(struct import_source *source, const struct node *node, struct err *err) {
        return import_socket(source, node, node->text, err);
}

static int allow_sockets(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, allow_socket, err);
}

static int read_network(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = {
                { "allowedDomains", allow_hosts, NULL, false },
                { "deniedDomains", deny_hosts, NULL, false },
                { "allowUnixSockets", allow_sockets, NULL, false },
                { "allowAllUnixSockets", NULL, "sockets of this host are opened one by one, with filesystem.read",
                  false },
                { "allowLocalBinding", NULL, NULL, false },
                { "allowLocalOutbound", NULL, "ports of this host are opened one by one, with network.host_port",
                  false },
                { "allowLocalOutboundPorts", outbound_port, NULL, false },
                { "upstreamProxy", NULL, "an upstream proxy is network.upstream_proxy", false },
                { "defaultAction", NULL, NULL, false }, /* what is not allowed is refused */
                { "httpProxyPort", NULL, NULL, false },
                { "socksProxyPort", NULL, NULL, false },
        };

        return import_keys(source, map, IMPORT_KEYS(keys), "an unknown key about the network", true, err);
}

/* --- files --- */

#define PATHS(name, list)                                                                                              \
        static int name##_one(struct import_source *source, const struct node *node, struct err *err) {                \
                return import_path(source, node, node->text, list, ANCHOR_PLAIN, err);                                 \
        }                                                                                                              \
        static int name(struct import_source *source, const struct node *node, struct err *err) {                      \
                return import_each(source, node, name##_one, err);                                                     \
        }
PATHS(allow_reads, IMPORT_READ)
PATHS(deny_reads, IMPORT_DENY_READ)
PATHS(allow_writes, IMPORT_WRITE)
PATHS(deny_writes, IMPORT_DENY_WRITE)

static int close_reads(struct import_source *source, const struct node *node, struct err *err) {
        bool on = false;
        int r = import_want_bool(source, node, &on, err);

        source->model->reads_listed |= r == 0 && on;
        return r;
}

static int close_all_reads(struct import_source *source, const struct node *node, struct err *err) {
        bool on = false;
        int r = import_want_bool(source, node, &on, err);

        source->model->reads_listed |= r == 0 && on;
        source->model->reads_strict |= r == 0 && on;
        return r;
}

static int allow_git_config(struct import_source *source, const struct node *node, struct err *err) {
        bool on = false;
        int r = import_want_bool(source, node, &on, err);

        if (r < 0 || !on)
                return r;

        return import_path(source, node, STR(".git/config"), IMPORT_WRITE, ANCHOR_PLAIN, err);
}

static int read_files(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = {
                { "allowRead", allow_reads, NULL, false },
                { "denyRead", deny_reads, NULL, false },
                { "allowWrite", allow_writes, NULL, false },
                { "denyWrite", deny_writes, NULL, false },
                { "allowExecute", allow_reads, NULL, false },
                { "defaultDenyRead", close_reads, NULL, false },
                { "strictDenyRead", close_all_reads, NULL, false },
                { "allowGitConfig", allow_git_config, NULL, false },
                { "wslInterop", NULL, "about another system only", false },
        };

        return import_keys(source, map, IMPORT_KEYS(keys), "an unknown key about files", true, err);
}

/* Without strictDenyRead, of whichever of the files, the system's own directories stay readable. */
static int read_system_roots(struct import_source *source, const struct node *root, struct err *err) {
        static const char *const system_roots[] = { "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc" };
        const struct node *map = node_get(root, STR("filesystem"));
        int r = 0;

        if (!source->model->reads_listed || source->model->reads_strict)
                return 0;

        for (size_t i = 0; r == 0 && i < sizeof system_roots / sizeof *system_roots; i++)
                r = import_path(source, map ? map : root, str_of(system_roots[i]), IMPORT_READ, ANCHOR_PLAIN, err);

        return r;
}

/* --- commands --- */

static int forbid_command(struct import_source *source, const struct node *node, struct err *err) {
        return import_command_words(source, node, node->text, "forbid", false, STR(""), err);
}

static int forbid_commands(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, forbid_command, err);
}

static int allow_command(struct import_source *source, const struct node *node, struct err *err) {
        return import_command_words(source, node, node->text, "allow", false, STR(""), err);
}

static int allow_commands(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, allow_command, err);
}

static int read_commands(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = {
                { "deny", forbid_commands, NULL, false },
                { "allow", allow_commands, NULL, false },
                { "useDefaults", NULL, NULL, false }, /* Bailey's own rules hold in any case */
                { "runtimeExecPolicy", NULL, NULL, false },
                { "acceptSharedBinaryCannotRuntimeDeny", NULL, NULL, false },
        };

        return import_keys(source, map, IMPORT_KEYS(keys), "an unknown key about commands", true, err);
}

static int read_ssh(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = {
                { "allowedHosts", NULL, "which hosts ssh reaches is a matter of network.allow, as HOST:22", false },
                { "deniedHosts", deny_hosts, NULL, false },
                { "inheritDeny", NULL, NULL, false },
        };

        return import_keys(source, map, IMPORT_KEYS(keys), "commands on other machines are not judged", true, err);
}

/* --- other files --- */

static int read_extended(struct import_source *source, const struct node *node, struct err *err) {
        cleanup(free_ptr) char *directory = NULL, *path = NULL;
        cleanup(document_freep) struct document *document = NULL;
        const char *slash = strrchr(source->path, '/');
        int r = import_want_text(source, node, err);

        if (r < 0)
                return r;

        bool is_path =
            str_find(node->text, '/') >= 0 || str_ends(node->text, STR(".json")) || str_ends(node->text, STR(".jsonc"));
        if (!is_path || node->text.p[0] == '@')
                return import_say(
                    source, node, true, err,
                    "a template of the tool's own that is not known here: what it denies is missing; name "
                    "its denials in the file");

        if (source->depth >= EXTENDS_MAX)
                return node_error(source->document, node, err, "more than %d files extend each other", EXTENDS_MAX);

        directory = str_dup(str_n(source->path, slash ? (size_t)(slash - source->path) : 0));
        if (!directory || path_normalise(node->text, *directory ? directory : "/", &path) < 0)
                return node_error(source->document, node, err, "this is not a path");

        r = import_open_jsonc(path, &document, err);
        if (r < 0)
                return err_wrap(err, r, "%s extends it", document_name(source->document));

        struct import_source other = *source;
        other.document = document;
        other.path = path;
        other.depth++;

        if (document_root(document))
                return import_fence(&other, document_root(document), err);

        return 0;
}

int import_fence(struct import_source *source, const struct node *root, struct err *err) {
        static const struct import_key keys[] = {
                { "extends", read_extended, NULL, false },
                { "network", read_network, NULL, false },
                { "filesystem", read_files, NULL, false },
                { "command", read_commands, NULL, false },
                { "ssh", read_ssh, NULL, false },
                { "devices", NULL, "a sandbox has the devices that every program needs, and no others", false },
                { "macos", NULL, "about macOS only", false },
                { "allowPty", NULL, NULL, false },
                { "$schema", NULL, NULL, false },
        };

        import_start_listed(source->model, false);

        int r = import_keys(source, root, IMPORT_KEYS(keys), "an unknown key", true, err);
        if (r < 0 || source->depth > 0)
                return r;

        return read_system_roots(source, root, err);
}
