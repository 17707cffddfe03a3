/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/secrets.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "base/escape.h"
#include "conf/suggest.h"
#include "policy/load.h"
#include "policy/tools/tool_credentials.h"
#include "store/stand_ins.h"

#include <errno.h>
#include <stdio.h>

static int put_texts(struct buf *out, char *const *texts, size_t n) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < n; i++)
                r = buf_printf(out, "%s%s", i ? "," : "", texts[i]);
        return r;
}

/* A command's arguments may hold more than a reader should see. */
static char *shown_source(const char *source) {
        size_t word = strncmp(source, "exec:", 5) == 0 ? 5 + strcspn(source + 5, " \t") : strlen(source);
        return str_format("%.*s%s", (int)word, source, source[word] ? " ..." : "");
}

static int list_text(const mappings *list, const char *whose, struct buf *out) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < list->n; i++) {
                const struct mapping *mapping = &list->p[i];
                cleanup(free_ptr) char *source = shown_source(mapping->source);

                r = buf_printf(out, "%-16s ", mapping->name);
                if (r >= 0)
                        r = put_texts(out, mapping->env.p, mapping->env.n);
                if (r >= 0)
                        r = buf_add(out, "  from ");
                if (r >= 0)
                        r = escape_text(out, str_of(text_or(source, "?")), 200);
                if (r >= 0)
                        r = buf_add(out, "  to ");
                if (r >= 0)
                        r = put_texts(out, mapping->hosts.p, mapping->hosts.n);
                if (r >= 0)
                        r = buf_add(out, "  as ");
                if (r >= 0)
                        r = put_texts(out, mapping->slots.p, mapping->slots.n);
                if (r >= 0)
                        r = buf_printf(out, "%s\n", whose);
        }

        return r;
}

static void emit_list(struct emit *json, const mappings *list, bool sandbox) {
        for (size_t i = 0; i < list->n; i++) {
                const struct mapping *mapping = &list->p[i];
                cleanup(free_ptr) char *source = shown_source(mapping->source);

                emit_open(json, '{');
                emit_put_text(json, "name", mapping->name);
                emit_put_text(json, "provider", mapping->provider ? mapping->provider->name : NULL);
                emit_put_text(json, "source", source);
                emit_put_texts(json, "env", mapping->env.p, mapping->env.n);
                emit_put_texts(json, "hosts", mapping->hosts.p, mapping->hosts.n);
                emit_put_texts(json, "slots", mapping->slots.p, mapping->slots.n);
                emit_put_bool(json, "sandbox", sandbox);
                emit_put_text(json, "origin", mapping->origin);
                emit_close(json);
        }
}

static int list_json(const mappings *list, const mappings *tools, struct buf *out) {
        struct emit j = emit_to(out);

        emit_open(&j, '[');
        emit_list(&j, list, true);
        emit_list(&j, tools, false);
        emit_close(&j);

        int r = emit_status(&j);
        if (r < 0)
                return r;

        return buf_add(out, "\n");
}

static int secrets_load(const struct option_values *options, struct policy **ret, struct err *err) {
        const struct policy_request request = { .command_line = options, .network_only = true };
        return policy_load(&request, ret, err);
}

int secrets_list(const struct option_values *options, bool json, struct buf *out, struct err *err) {
        cleanup(policy_freep) struct policy *policy = NULL;
        cleanup(mappings_done) mappings list = { 0 }, tools = { 0 };

        err_blame(err, ERR_CONFIG);
        int r = secrets_load(options, &policy, err);
        if (r < 0)
                return r;

        r = mappings_of(policy, &list, err);
        if (r < 0)
                return r;
        r = tool_mappings_all(policy, &tools, err);
        if (r < 0)
                return r;

        err_blame(err, ERR_SYSTEM);
        if (json)
                r = list_json(&list, &tools, out);
        else
                r = list_text(&list, "", out);
        if (r == 0 && !json)
                r = list_text(&tools, "  (bridged tools alone)", out);

        if (r < 0)
                return err_set(err, -r, "the list is too long to print");

        return 0;
}

/* Names of the policy's own credentials and of providers: a typing mistake must not look like a rotation. */
static int find_name(const struct policy *policy, const char *name, struct err *err) {
        cleanup(mappings_done) mappings list = { 0 }, tools = { 0 };
        struct suggestion near = suggest_for(str_of(name));
        int r = mappings_of(policy, &list, err);
        if (r < 0)
                return r;

        r = tool_mappings_all(policy, &tools, err);
        if (r < 0)
                return r;

        for (size_t i = 0; i < list.n + tools.n; i++) {
                const char *known = i < list.n ? list.p[i].name : tools.p[i - list.n].name;

                if (strcmp(known, name) == 0)
                        return 0;
                suggest_offer(&near, known);
        }

        for (const char *const *known = policy_provider_names; *known; known++) {
                if (strcmp(*known, name) == 0)
                        return 0;
                suggest_offer(&near, *known);
        }

        return err_set(err, ENOENT, "there is no credential and no provider %s%s", show(str_of(name)).text,
                       suggest_text(&near, "").text);
}

int secrets_rotate(const struct option_values *options, const char *name, struct err *err) {
        err_blame(err, ERR_CONFIG);

        if (name) {
                cleanup(policy_freep) struct policy *policy = NULL;
                int r = secrets_load(options, &policy, err);

                if (r >= 0)
                        r = find_name(policy, name, err);
                if (r < 0) {
                        err_blame(err, r == -ENOENT ? ERR_UNAVAILABLE : ERR_CONFIG);
                        return r;
                }
        }

        err_blame(err, ERR_SYSTEM);
        return stand_ins_rotate(name, err);
}
