/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/emit.h"
#include "egress/egress_discover.h"
#include "egress/egress_view.h"

#include <errno.h>
#include <unistd.h>

static const char *name_of(const struct egress_credential *c) {
        return c->name ? c->name : c->provider ? c->provider : "?";
}

/* "sk-abc...": enough to recognise it. */
static void put_token(struct buf *out, struct str token, bool whole) {
        if (whole)
                (void)buf_append(out, token);
        else
                (void)buf_printf(out, "%.*s...", (int)(token.n < 6 ? token.n : 6), token.p);
}

static void emit_credentials(struct emit *j, const struct egress_view *v, bool show_tokens) {
        emit_key(j, "credentials");
        emit_open(j, '[');
        for (size_t i = 0; i < v->settings.credentials.n; i++) {
                const struct egress_credential *c = &v->settings.credentials.p[i];
                emit_open(j, '{');
                emit_put_text(j, "name", name_of(c));
                emit_put_text(j, "source", c->source);
                emit_key(j, "tokens");
                emit_open(j, '[');
                size_t part = 0; /* what follows them is of before rotations */
                for (const struct node *t = egress_view_members(v->tokens, name_of(c)); t && part < PARTS;
                     t = t->next, part++) {
                        cleanup(buf_done) struct buf text = BUF(65536);
                        if (t->kind != NODE_SCALAR)
                                continue;
                        put_token(&text, t->text, show_tokens);
                        emit_string(j, buf_str(&text));
                }
                emit_close(j);
                emit_close(j);
        }
        emit_close(j);
}

static int status_json(const struct egress_view *v, bool show_tokens, struct buf *out) {
        struct emit j = emit_to(out);
        const struct egress_uncovered *u;
        emit_open(&j, '{');
        emit_put_text(&j, "directory", v->directory);
        emit_put_bool(&j, "configured", v->configured);
        emit_put_bool(&j, "enabled", v->settings.enabled);
        emit_put_bool(&j, "running", v->running);
        if (v->running) {
                emit_put_number(&j, "pid", (uint64_t)v->id.pid);
                emit_put_string(&j, "audit", egress_view_text(v->service, "audit"));
                emit_put_string(&j, "run_id", egress_view_text(v->service, "run_id"));
                emit_put_bool(&j, "walled", str_is(egress_view_text(v->service, "walled"), "true"));
        }
        emit_key(&j, "http");
        emit_open(&j, '[');
        for (const struct node *n = egress_view_members(v->service, "http"); n; n = n->next)
                emit_string(&j, n->text);
        emit_close(&j);
        emit_put_text(&j, "credential_source", v->settings.bitwarden ? "bitwarden" : "env");
        emit_credentials(&j, v, show_tokens);
        emit_key(&j, "uncovered");
        emit_open(&j, '[');
        for (size_t at = 0; (u = egress_uncovered_next(&v->settings, environ, &at));)
                emit_text(&j, u->variable);
        emit_close(&j);
        emit_close(&j);
        int r = emit_status(&j);
        return r < 0 ? r : buf_add_char(out, '\n');
}

static int status_text(const struct egress_view *v, bool show_tokens, struct buf *out) {
        const struct egress_uncovered *u;
        int r = buf_printf(out, "state      %s\n",
                           !v->configured        ? "not set up"
                           : v->running          ? "running"
                           : v->settings.enabled ? "stopped"
                                                 : "disabled");
        r |= buf_printf(out, "directory  %s\n", v->directory);
        if (v->running)
                r |= buf_printf(out, "process    %d\naudit      %.*s\n", (int)v->id.pid,
                                STR_FMT(egress_view_text(v->service, "audit")));
        for (const struct node *n = egress_view_members(v->service, "http"); n; n = n->next)
                r |= buf_printf(out, "http       %.*s\n", STR_FMT(n->text));
        for (size_t i = 0; i < v->settings.credentials.n; i++) {
                const struct egress_credential *c = &v->settings.credentials.p[i];
                r |= buf_printf(out, "credential %s from %s", name_of(c), c->source);
                size_t part = 0;
                for (const struct node *t = egress_view_members(v->tokens, name_of(c)); t && part < PARTS;
                     t = t->next, part++) {
                        if (t->kind != NODE_SCALAR)
                                continue;
                        r |= buf_add_char(out, ' ');
                        put_token(out, t->text, show_tokens);
                }
                r |= buf_add_char(out, '\n');
        }
        for (size_t at = 0; (u = egress_uncovered_next(&v->settings, environ, &at));)
                r |= buf_printf(out, "uncovered  %s: %s\n", u->variable, u->why);
        return r;
}

int egress_status(bool json, bool show_tokens, struct buf *out, bool *ret_running, struct err *e) {
        cleanup(egress_view_done) struct egress_view v = { 0 };
        int r = egress_view_load(&v, e);
        if (r < 0)
                return r;
        *ret_running = v.running;
        r = json ? status_json(&v, show_tokens, out) : status_text(&v, show_tokens, out);
        return r < 0 ? err_set(e, EMSGSIZE, "the status is too large to print") : 0;
}
