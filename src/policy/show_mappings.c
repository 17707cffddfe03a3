/* SPDX-License-Identifier: Apache-2.0 */
/* What the credentials of a policy amount to, providers filled in: part of policy/show.c. */
#include "policy/show_mappings.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "policy/tools/tool_credentials.h"

static int put_texts(struct buf *out, char *const *texts, size_t n) {
        int r = 0;
        for (size_t i = 0; i < n && r == 0; i++) {
                if (i)
                        r = buf_add(out, ", ");
                else
                        r = 0;
                if (r >= 0)
                        r = escape_text(out, str_of(texts[i]), 400);
        }
        return r;
}

static int put_mapping(struct buf *out, const struct mapping *mapping) {
        int r = buf_add(out, "#   ");

        if (r >= 0)
                r = escape_text(out, str_of(mapping->name), 64);
        if (r >= 0)
                r = buf_add(out, ": a stand-in in ");
        if (r == 0 && mapping->env.n == 0)
                r = buf_add(out, "the copy of its file in the own home");

        if (r >= 0)
                r = put_texts(out, mapping->env.p, mapping->env.n);
        if (r >= 0)
                r = buf_add(out, "; the secret goes to ");
        if (r >= 0)
                r = put_texts(out, mapping->hosts.p, mapping->hosts.n);
        if (r >= 0)
                r = buf_add(out, " as ");
        if (r >= 0)
                r = put_texts(out, mapping->slots.p, mapping->slots.n);
        if (r < 0)
                return r;

        return buf_add(out, "\n");
}

int show_mappings_text(struct buf *out, const struct policy *policy) {
        cleanup(mappings_done) mappings list = { 0 }, tools = { 0 };
        struct err err = { 0 };

        if (policy->credentials.n + policy->tool_credentials.n == 0)
                return 0;

        if (mappings_of(policy, &list, &err) < 0 || tool_mappings_all(policy, &tools, &err) < 0) {
                int r = buf_add(out, "# the credentials cannot be used: ");

                if (r >= 0)
                        r = escape_text(out, str_of(err_text(&err)), 1024);
                if (r < 0)
                        return r;

                return buf_add(out, "\n");
        }

        int r = 0;

        if (list.n)
                r = buf_add(out, "# credentials, which also allow their hosts:\n");

        for (size_t i = 0; r == 0 && i < list.n; i++)
                r = put_mapping(out, &list.p[i]);

        if (r == 0 && tools.n)
                r = buf_add(out, "# credentials of bridged tools, which the sandbox has no part in:\n");
        for (size_t i = 0; r == 0 && i < tools.n; i++)
                r = put_mapping(out, &tools.p[i]);

        return r;
}

static void emit_mapping(struct emit *json, const struct mapping *mapping, bool sandbox) {
        emit_open(json, '{');
        emit_put_text(json, "name", mapping->name);
        emit_put_text(json, "provider", mapping->provider ? mapping->provider->name : NULL);
        emit_put_texts(json, "env", mapping->env.p, mapping->env.n);
        emit_put_texts(json, "hosts", mapping->hosts.p, mapping->hosts.n);
        emit_put_texts(json, "slots", mapping->slots.p, mapping->slots.n);
        emit_put_bool(json, "sandbox", sandbox);
        emit_close(json);
}

void show_mappings_json(struct emit *json, const struct policy *policy) {
        cleanup(mappings_done) mappings list = { 0 }, tools = { 0 };

        (void)mappings_of(policy, &list, NULL); /* what cannot be used is an empty list; `policy check` says why */
        (void)tool_mappings_all(policy, &tools, NULL);
        emit_key(json, "mappings");
        emit_open(json, '[');

        for (size_t i = 0; i < list.n; i++)
                emit_mapping(json, &list.p[i], true);
        for (size_t i = 0; i < tools.n; i++)
                emit_mapping(json, &tools.p[i], false);

        emit_close(json);
}
