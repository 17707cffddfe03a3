/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/emit.h"
#include "egress/egress_discover.h"
#include "egress/egress_view.h"

#include <errno.h>
#include <unistd.h>

static const char *name_of(const struct egress_credential *credential) {
        if (credential->name)
                return credential->name;

        if (credential->provider)
                return credential->provider;

        return "?";
}

/* "sk-abc...": enough to recognise it. */
static void put_token(struct buf *out, struct str token, bool whole) {
        if (whole)
                (void)buf_append(out, token);
        else
                (void)buf_printf(out, "%.*s...", (int)min_of(token.n, 6), token.p);
}

static void emit_credentials(struct emit *json, const struct egress_view *view, bool show_tokens) {
        emit_key(json, "credentials");
        emit_open(json, '[');

        for (size_t i = 0; i < view->settings.credentials.n; i++) {
                const struct egress_credential *credential = &view->settings.credentials.p[i];

                emit_open(json, '{');
                emit_put_text(json, "name", name_of(credential));
                emit_put_text(json, "source", credential->source);
                emit_key(json, "tokens");
                emit_open(json, '[');

                size_t part = 0; /* what follows them is of before rotations */

                for (const struct node *node = egress_view_members(view->tokens, name_of(credential));
                     node && part < PARTS; node = node->next, part++) {
                        cleanup(buf_done) struct buf text = BUF(65536);

                        if (node->kind != NODE_SCALAR)
                                continue;

                        put_token(&text, node->text, show_tokens);
                        emit_string(json, buf_str(&text));
                }

                emit_close(json);
                emit_close(json);
        }

        emit_close(json);
}

static void emit_ca(struct emit *json, const struct egress_view *view) {
        struct egress_ca ca;
        struct err none = { 0 };

        emit_key(json, "ca");

        if (egress_ca(view->directory, &ca, &none) < 0) {
                emit_null(json);
                return;
        }

        emit_open(json, '{');
        emit_put_text(json, "sha256", ca.sha256);
        emit_put_text(json, "expires", ca.expires);
        emit_close(json);
}

static int status_json(const struct egress_view *view, bool show_tokens, struct buf *out) {
        struct emit j = emit_to(out);
        const struct egress_uncovered *uncovered;

        emit_open(&j, '{');
        emit_put_text(&j, "directory", view->directory);
        emit_put_bool(&j, "configured", view->configured);
        emit_put_bool(&j, "enabled", view->settings.enabled);
        emit_put_bool(&j, "running", view->running);

        if (view->running) {
                emit_put_number(&j, "pid", (uint64_t)view->id.pid);
                emit_put_string(&j, "audit", egress_view_text(view->service, "audit"));
                emit_put_string(&j, "run_id", egress_view_text(view->service, "run_id"));
                emit_put_bool(&j, "walled", str_is(egress_view_text(view->service, "walled"), "true"));
        }

        emit_key(&j, "http");
        emit_open(&j, '[');
        for (const struct node *node = egress_view_members(view->service, "http"); node; node = node->next)
                emit_string(&j, node->text);

        emit_close(&j);
        emit_ca(&j, view);
        emit_put_text(&j, "credential_source", view->settings.bitwarden ? "bitwarden" : "env");
        emit_credentials(&j, view, show_tokens);
        emit_key(&j, "uncovered");
        emit_open(&j, '[');

        for (size_t at = 0; (uncovered = egress_uncovered_next(&view->settings, environ, &at));)
                emit_text(&j, uncovered->variable);

        emit_close(&j);
        emit_close(&j);
        int r = emit_status(&j);
        if (r < 0)
                return r;

        return buf_add_char(out, '\n');
}

static const char *state_word(const struct egress_view *view) {
        if (!view->configured)
                return "not set up";
        if (view->running)
                return "running";
        if (view->settings.enabled)
                return "stopped";

        return "disabled";
}

static int status_text(const struct egress_view *view, bool show_tokens, struct buf *out) {
        const struct egress_uncovered *uncovered;
        int r = buf_printf(out, "state      %s\n", state_word(view));

        r |= buf_printf(out, "directory  %s\n", view->directory);

        if (view->running)
                r |= buf_printf(out, "process    %d\naudit      %.*s\n", (int)view->id.pid,
                                STR_FMT(egress_view_text(view->service, "audit")));

        for (const struct node *n = egress_view_members(view->service, "http"); n; n = n->next)
                r |= buf_printf(out, "http       %.*s\n", STR_FMT(n->text));

        struct egress_ca ca;
        struct err none = { 0 };
        if (egress_ca(view->directory, &ca, &none) == 0)
                r |= buf_printf(out, "ca         until %s, SHA-256 %s\n", ca.expires, ca.sha256);

        for (size_t i = 0; i < view->settings.credentials.n; i++) {
                const struct egress_credential *credential = &view->settings.credentials.p[i];

                r |= buf_printf(out, "credential %s from %s", name_of(credential), credential->source);
                size_t part = 0;
                for (const struct node *t = egress_view_members(view->tokens, name_of(credential)); t && part < PARTS;
                     t = t->next, part++) {
                        if (t->kind != NODE_SCALAR)
                                continue;
                        r |= buf_add_char(out, ' ');
                        put_token(out, t->text, show_tokens);
                }

                r |= buf_add_char(out, '\n');
        }

        for (size_t at = 0; (uncovered = egress_uncovered_next(&view->settings, environ, &at));)
                r |= buf_printf(out, "uncovered  %s: %s\n", uncovered->variable, uncovered->why);

        return r;
}

int egress_status(bool json, bool show_tokens, struct buf *out, bool *ret_running, struct err *err) {
        cleanup(egress_view_done) struct egress_view view = { 0 };
        int r = egress_view_load(&view, err);
        if (r < 0)
                return r;
        *ret_running = view.running;
        if (json)
                r = status_json(&view, show_tokens, out);
        else
                r = status_text(&view, show_tokens, out);
        if (r < 0)
                return err_set(err, EMSGSIZE, "the status is too large to print");

        return 0;
}
