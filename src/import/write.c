/* SPDX-License-Identifier: Apache-2.0 */
/* The policy as YAML: every line says which entry of the source it comes from. */
#include "base/cleanup.h"
#include "base/escape.h"
#include "import/import_internal.h"
#include "policy/profile/providers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

enum { SAID_SHOWN_MAX = 120, PLACE_SHOWN_MAX = 400 };

/* The first failure sticks. */
struct writer {
        struct buf *out;
        int status;
};

__attribute__((format(printf, 2, 3))) static void write_put(struct writer *writer, const char *format, ...) {
        va_list args;

        va_start(args, format);
        if (writer->status == 0)
                writer->status = buf_vprintf(writer->out, format, args);
        va_end(args);
}

/* In quotes: what a source says is never read as anything but text. */
static void put_text(struct writer *writer, const char *text) {
        if (writer->status == 0)
                writer->status = escape_json(writer->out, str_of(text));
}

static void put_shown(struct writer *writer, const char *text, size_t max) {
        if (writer->status == 0)
                writer->status = escape_text(writer->out, str_of(text), max);
}

static void put_origin(struct writer *writer, const char *place, const char *said) {
        write_put(writer, " # ");
        put_shown(writer, place, PLACE_SHOWN_MAX);
        if (*said) {
                write_put(writer, ": ");
                put_shown(writer, said, SAID_SHOWN_MAX);
        }
        write_put(writer, "\n");
}

static void put_entry(struct writer *writer, const struct import_entry *entry) {
        write_put(writer, entry->reason ? "    - { host: " : "    - ");
        put_text(writer, entry->text);

        if (entry->reason) {
                write_put(writer, ", reason: ");
                put_text(writer, entry->reason);
                write_put(writer, " }");
        }

        put_origin(writer, entry->place, entry->said);
}

static void put_list(struct writer *writer, const char *key, const import_entries *list) {
        if (list->n == 0)
                return;
        write_put(writer, "  %s:\n", key);
        for (size_t i = 0; i < list->n; i++)
                put_entry(writer, &list->p[i]);
}

static void put_host_ports(struct writer *writer, const import_entries *list) {
        if (list->n == 0)
                return;
        write_put(writer, "  host_port:\n");
        for (size_t i = 0; i < list->n; i++) {
                write_put(writer, "    - %s", list->p[i].text);
                put_origin(writer, list->p[i].place, list->p[i].said);
        }
}

static void put_rules(struct writer *writer, const import_entries *list) {
        if (list->n == 0)
                return;

        write_put(writer, "  rules:\n");

        for (size_t i = 0; i < list->n; i++) {
                write_put(writer, "    - { host: ");
                put_text(writer, list->p[i].text);
                write_put(writer, ", methods: [GET, HEAD, OPTIONS] }");
                put_origin(writer, list->p[i].place, list->p[i].said);
        }
}

static void put_network(struct writer *writer, const struct import_model *model) {
        const import_entries *lists = model->lists;

        if (model->network == IMPORT_NETWORK_NONE)
                return;

        write_put(writer, "\nnetwork:\n");

        if (model->safe_methods)
                put_rules(writer, &lists[IMPORT_ALLOW]);
        else if (lists[IMPORT_ALLOW].n == 0)
                write_put(writer, "  allow: []%s\n",
                          model->network == IMPORT_NETWORK_ANY ? " # the mode opens every host"
                                                               : " # the source names no host");
        else
                put_list(writer, "allow", &lists[IMPORT_ALLOW]);

        put_list(writer, "deny", &lists[IMPORT_DENY]);
        put_list(writer, "no_intercept", &lists[IMPORT_NO_INTERCEPT]);
        put_host_ports(writer, &lists[IMPORT_HOST_PORT]);

        if (model->asks && model->network == IMPORT_NETWORK_LISTED)
                write_put(writer,
                          "  ask: control # somebody is asked about other hosts; `ask: tty` asks on the terminal\n");

        if (model->upstream_proxy) {
                write_put(writer, "  upstream_proxy: ");
                put_text(writer, model->upstream_proxy);
                write_put(writer, "\n");
                put_list(writer, "upstream_bypass", &lists[IMPORT_BYPASS]);
        }
}

static void put_files(struct writer *writer, const struct import_model *model) {
        const import_entries *lists = model->lists;

        if (!model->reads_listed && !lists[IMPORT_READ].n && !lists[IMPORT_WRITE].n && !lists[IMPORT_DENY_READ].n &&
            !lists[IMPORT_DENY_WRITE].n)
                return;

        write_put(writer, "\nfilesystem:\n");
        if (model->reads_listed)
                write_put(writer, "  reads: deny # only what is named here\n");

        put_list(writer, "read", &lists[IMPORT_READ]);
        put_list(writer, "write", &lists[IMPORT_WRITE]);
        put_list(writer, "deny_read", &lists[IMPORT_DENY_READ]);
        put_list(writer, "deny_write", &lists[IMPORT_DENY_WRITE]);
}

static void put_commands(struct writer *writer, const struct import_model *model) {
        if (model->commands.n == 0)
                return;

        write_put(writer, "\n# By their first words; of several that match the strictest wins.\ncommands:\n");

        for (size_t i = 0; i < model->commands.n; i++) {
                const struct import_command *command = &model->commands.p[i];

                write_put(writer, "  - { name: %s-%zu, decision: %s, argv: [", model->tool, i + 1, command->decision);

                for (size_t k = 0; k < command->argv.n; k++) {
                        write_put(writer, k ? ", " : "");
                        put_text(writer, command->argv.p[k]);
                }

                write_put(writer, "]");

                if (command->reason) {
                        write_put(writer, ", reason: ");
                        put_text(writer, command->reason);
                }

                write_put(writer, " }");
                put_origin(writer, command->place, command->said);
        }
}

static const struct provider *provider_of(const char *env) {
        for (size_t i = 0; i < n_policy_providers; i++)
                for (const char *const *name = policy_providers[i].env; *name; name++)
                        if (strcmp(*name, env) == 0 && strcmp(policy_providers[i].slots[0], "sigv4") != 0)
                                return &policy_providers[i];
        return NULL;
}

static void put_credential(struct writer *writer, const struct import_credential *credential) {
        const struct provider *provider = provider_of(credential->env);

        write_put(writer, "  - { name: ");
        for (const char *c = credential->env; *c; c++)
                write_put(writer, "%c", *c == '_' ? '-' : ascii_lower(*c));

        write_put(writer, ", env: %s, source: \"env:%s\", slot: ", credential->env, credential->env);
        put_text(writer, provider ? provider->slots[0] : "bearer");
        write_put(writer, ", hosts: [");

        for (size_t i = 0; i < credential->hosts.n; i++) {
                write_put(writer, i ? ", " : "");
                put_text(writer, credential->hosts.p[i]);
        }

        write_put(writer, "] }");
        put_origin(writer, credential->place, provider ? "" : "the slot is a guess: bearer");
}

static void put_credentials(struct writer *writer, const struct import_model *model) {
        bool any = false;

        for (size_t i = 0; i < model->credentials.n; i++) {
                if (model->credentials.p[i].hosts.n == 0)
                        continue;

                write_put(writer, any ? "" : "\ncredentials:\n");
                any = true;
                put_credential(writer, &model->credentials.p[i]);
        }
}

/* Whether a stand-in takes the variable's place. */
static bool has_stand_in(const struct import_model *model, const char *name) {
        for (size_t i = 0; i < model->credentials.n; i++)
                if (model->credentials.p[i].hosts.n > 0 && strcmp(model->credentials.p[i].env, name) == 0)
                        return true;
        return false;
}

static void put_hidden(struct writer *writer, const struct import_model *model) {
        bool any = false;

        for (size_t i = 0; i < model->hidden.n; i++) {
                if (has_stand_in(model, model->hidden.p[i].name))
                        continue;

                write_put(writer,
                          any ? "" : "\nprocess:\n  env:\n    set: # empty: the source keeps their values back\n");
                any = true;
                write_put(writer, "      %s: \"\"", model->hidden.p[i].name);
                put_origin(writer, model->hidden.p[i].place, "");
        }
}

static void put_notes(struct writer *writer, const struct import_model *model) {
        if (model->notes.n == 0)
                return;

        write_put(writer, "\n# Could not be said (\"!\": a restriction of the source that is missing here):\n");

        for (size_t i = 0; i < model->notes.n; i++) {
                const struct import_note *note = &model->notes.p[i];

                write_put(writer, "# %s ", note->dropped ? "!" : "-");
                put_shown(writer, note->place, PLACE_SHOWN_MAX);
                write_put(writer, ": ");
                put_shown(writer, note->said, SAID_SHOWN_MAX);
                write_put(writer, ": ");
                put_shown(writer, note->why, 400);
                write_put(writer, "\n");
        }
}

static const char *mode_of(const struct import_model *model) {
        if (model->network == IMPORT_NETWORK_ANY)
                return "full-network";
        if (model->network == IMPORT_NETWORK_LISTED)
                return "workspace-write-whitelist";
        if (model->workspace_read_only && model->lists[IMPORT_WRITE].n == 0)
                return "read-only";

        return "workspace-write";
}

int import_write(const struct import_model *model, struct buf *out, struct err *err) {
        struct writer writer = { .out = out };

        write_put(&writer, "# Made by `bailey import %s` for the workspace ", model->tool);
        put_shown(&writer, model->workspace, PLACE_SHOWN_MAX);
        write_put(&writer, ", from:\n");

        for (size_t i = 0; i < model->files.n; i++) {
                write_put(&writer, "#   ");
                put_shown(&writer, model->files.p[i], PLACE_SHOWN_MAX);
                write_put(&writer, "\n");
        }

        write_put(
            &writer,
            "# Read it before you use it: `bailey policy check FILE`, `bailey why --policy FILE HOST`.\n\nmode: %s\n",
            mode_of(model));
        put_network(&writer, model);
        put_files(&writer, model);
        put_commands(&writer, model);
        put_credentials(&writer, model);
        put_hidden(&writer, model);
        put_notes(&writer, model);

        if (writer.status == -EMSGSIZE)
                return err_set(err, EFBIG, "the policy would be too large");

        if (writer.status < 0)
                return err_memory(err);

        return 0;
}
