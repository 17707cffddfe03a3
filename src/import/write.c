/* SPDX-License-Identifier: Apache-2.0 */
/* The policy as YAML: every line says which entry of the source it comes from. */
#include "base/cleanup.h"
#include "base/escape.h"
#include "import/import_internal.h"
#include "policy/providers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

enum { SAID_SHOWN_MAX = 120, PLACE_SHOWN_MAX = 400 };

/* The first failure sticks. */
struct writer {
        struct buf *out;
        int status;
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *w, const char *format, ...) {
        va_list args;

        va_start(args, format);
        if (w->status == 0)
                w->status = buf_vprintf(w->out, format, args);
        va_end(args);
}

/* In quotes: what a source says is never read as anything but text. */
static void put_text(struct writer *w, const char *text) {
        if (w->status == 0)
                w->status = escape_json(w->out, str_of(text));
}

static void put_shown(struct writer *w, const char *text, size_t max) {
        if (w->status == 0)
                w->status = escape_text(w->out, str_of(text), max);
}

static void put_origin(struct writer *w, const char *place, const char *said) {
        put(w, " # ");
        put_shown(w, place, PLACE_SHOWN_MAX);
        if (*said) {
                put(w, ": ");
                put_shown(w, said, SAID_SHOWN_MAX);
        }
        put(w, "\n");
}

static void put_entry(struct writer *w, const struct import_entry *entry) {
        put(w, entry->reason ? "    - { host: " : "    - ");
        put_text(w, entry->text);
        if (entry->reason) {
                put(w, ", reason: ");
                put_text(w, entry->reason);
                put(w, " }");
        }
        put_origin(w, entry->place, entry->said);
}

static void put_list(struct writer *w, const char *key, const import_entries *list) {
        if (list->n == 0)
                return;
        put(w, "  %s:\n", key);
        for (size_t i = 0; i < list->n; i++)
                put_entry(w, &list->p[i]);
}

static void put_host_ports(struct writer *w, const import_entries *list) {
        if (list->n == 0)
                return;
        put(w, "  host_port:\n");
        for (size_t i = 0; i < list->n; i++) {
                put(w, "    - %s", list->p[i].text);
                put_origin(w, list->p[i].place, list->p[i].said);
        }
}

static void put_rules(struct writer *w, const import_entries *list) {
        if (list->n == 0)
                return;
        put(w, "  rules:\n");
        for (size_t i = 0; i < list->n; i++) {
                put(w, "    - { host: ");
                put_text(w, list->p[i].text);
                put(w, ", methods: [GET, HEAD, OPTIONS] }");
                put_origin(w, list->p[i].place, list->p[i].said);
        }
}

static void put_network(struct writer *w, const struct import_model *model) {
        const import_entries *lists = model->lists;

        if (model->network == IMPORT_NETWORK_NONE)
                return;
        put(w, "\nnetwork:\n");
        if (model->safe_methods)
                put_rules(w, &lists[IMPORT_ALLOW]);
        else if (lists[IMPORT_ALLOW].n == 0)
                put(w, "  allow: []%s\n",
                    model->network == IMPORT_NETWORK_ANY ? " # the mode opens every host"
                                                         : " # the source names no host");
        else
                put_list(w, "allow", &lists[IMPORT_ALLOW]);
        put_list(w, "deny", &lists[IMPORT_DENY]);
        put_list(w, "no_intercept", &lists[IMPORT_NO_INTERCEPT]);
        put_host_ports(w, &lists[IMPORT_HOST_PORT]);
        if (model->asks && model->network == IMPORT_NETWORK_LISTED)
                put(w, "  ask: control # somebody is asked about other hosts; `ask: tty` asks on the terminal\n");
        if (model->upstream_proxy) {
                put(w, "  upstream_proxy: ");
                put_text(w, model->upstream_proxy);
                put(w, "\n");
                put_list(w, "upstream_bypass", &lists[IMPORT_BYPASS]);
        }
}

static void put_files(struct writer *w, const struct import_model *model) {
        const import_entries *lists = model->lists;

        if (!model->reads_listed && !lists[IMPORT_READ].n && !lists[IMPORT_WRITE].n && !lists[IMPORT_DENY_READ].n &&
            !lists[IMPORT_DENY_WRITE].n)
                return;
        put(w, "\nfilesystem:\n");
        if (model->reads_listed)
                put(w, "  reads: deny # only what is named here\n");
        put_list(w, "read", &lists[IMPORT_READ]);
        put_list(w, "write", &lists[IMPORT_WRITE]);
        put_list(w, "deny_read", &lists[IMPORT_DENY_READ]);
        put_list(w, "deny_write", &lists[IMPORT_DENY_WRITE]);
}

static void put_commands(struct writer *w, const struct import_model *model) {
        if (model->commands.n == 0)
                return;
        put(w, "\n# By their first words; of several that match the strictest wins.\ncommands:\n");
        for (size_t i = 0; i < model->commands.n; i++) {
                const struct import_command *command = &model->commands.p[i];
                put(w, "  - { name: %s-%zu, decision: %s, argv: [", model->tool, i + 1, command->decision);
                for (size_t k = 0; k < command->argv.n; k++) {
                        put(w, k ? ", " : "");
                        put_text(w, command->argv.p[k]);
                }
                put(w, "]");
                if (command->reason) {
                        put(w, ", reason: ");
                        put_text(w, command->reason);
                }
                put(w, " }");
                put_origin(w, command->place, command->said);
        }
}

static const struct provider *provider_of(const char *env) {
        for (size_t i = 0; i < n_policy_providers; i++)
                for (const char *const *name = policy_providers[i].env; *name; name++)
                        if (strcmp(*name, env) == 0 && strcmp(policy_providers[i].slots[0], "sigv4") != 0)
                                return &policy_providers[i];
        return NULL;
}

static void put_credential(struct writer *w, const struct import_credential *credential) {
        const struct provider *provider = provider_of(credential->env);

        put(w, "  - { name: ");
        for (const char *c = credential->env; *c; c++)
                put(w, "%c", *c == '_' ? '-' : ascii_lower(*c));
        put(w, ", env: %s, source: \"env:%s\", slot: ", credential->env, credential->env);
        put_text(w, provider ? provider->slots[0] : "bearer");
        put(w, ", hosts: [");
        for (size_t i = 0; i < credential->hosts.n; i++) {
                put(w, i ? ", " : "");
                put_text(w, credential->hosts.p[i]);
        }
        put(w, "] }");
        put_origin(w, credential->place, provider ? "" : "the slot is a guess: bearer");
}

static void put_credentials(struct writer *w, const struct import_model *model) {
        bool any = false;

        for (size_t i = 0; i < model->credentials.n; i++) {
                if (model->credentials.p[i].hosts.n == 0)
                        continue;
                put(w, any ? "" : "\ncredentials:\n");
                any = true;
                put_credential(w, &model->credentials.p[i]);
        }
}

static void put_notes(struct writer *w, const struct import_model *model) {
        if (model->notes.n == 0)
                return;
        put(w, "\n# Could not be said (\"!\": a restriction of the source that is missing here):\n");
        for (size_t i = 0; i < model->notes.n; i++) {
                const struct import_note *note = &model->notes.p[i];
                put(w, "# %s ", note->dropped ? "!" : "-");
                put_shown(w, note->place, PLACE_SHOWN_MAX);
                put(w, ": ");
                put_shown(w, note->said, SAID_SHOWN_MAX);
                put(w, ": ");
                put_shown(w, note->why, 400);
                put(w, "\n");
        }
}

static const char *mode_of(const struct import_model *model) {
        if (model->network == IMPORT_NETWORK_ANY)
                return "full-network";
        if (model->network == IMPORT_NETWORK_LISTED)
                return "workspace-write-whitelist";
        return model->workspace_read_only && model->lists[IMPORT_WRITE].n == 0 ? "read-only" : "workspace-write";
}

int import_write(const struct import_model *model, struct buf *out, struct err *err) {
        struct writer w = { .out = out };

        put(&w, "# Made by `bailey import %s` for the workspace ", model->tool);
        put_shown(&w, model->workspace, PLACE_SHOWN_MAX);
        put(&w, ", from:\n");
        for (size_t i = 0; i < model->files.n; i++) {
                put(&w, "#   ");
                put_shown(&w, model->files.p[i], PLACE_SHOWN_MAX);
                put(&w, "\n");
        }
        put(&w,
            "# Read it before you use it: `bailey policy check FILE`, `bailey why --policy FILE HOST`.\n\nmode: %s\n",
            mode_of(model));
        put_network(&w, model);
        put_files(&w, model);
        put_commands(&w, model);
        put_credentials(&w, model);
        put_notes(&w, model);
        if (w.status == -EMSGSIZE)
                return err_set(err, EFBIG, "the policy would be too large");
        return w.status < 0 ? err_set(err, ENOMEM, "out of memory") : 0;
}
