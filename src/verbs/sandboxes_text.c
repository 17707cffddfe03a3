/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/sandboxes_text.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "control/protocol.h"

#include <stdio.h>

enum { SHOWN = 300, COMMAND_SHOWN = 4000 /* whole: what is not seen is not approved */ };

void sandboxes_emit_node(struct emit *j, const struct node *n) {
        switch (n->kind) {
        case NODE_NULL:
                emit_null(j);
                return;
        case NODE_SCALAR:
                if (n->quoted)
                        emit_string(j, n->text);
                else if (str_is(n->text, "true") || str_is(n->text, "false"))
                        emit_bool(j, str_is(n->text, "true"));
                else {
                        uint64_t number = 0;
                        (void)str_to_u64(n->text, UINT64_MAX, &number); /* the protocol has no others */
                        emit_number(j, number);
                }
                return;
        default:
                emit_open(j, n->kind == NODE_MAP ? '{' : '[');
                for (const struct node *child = n->first; child; child = child->next) {
                        if (n->kind == NODE_MAP)
                                emit_key_str(j, child->key);
                        sandboxes_emit_node(j, child);
                }
                emit_close(j);
        }
}

static int put(struct buf *out, const char *text) {
        return escape_text(out, str_of(text ? text : "-"), SHOWN);
}

/* "3m", from "2026-11-15T03:14:07.123456Z" to now. */
static void age_of(const char *since, char ret[static 32]) {
        uint64_t then_us;
        if (!since || !clock_parse_text(str_of(since), &then_us)) {
                snprintf(ret, 32, "-");
                return;
        }
        long long seconds = (long long)(clock_wall_us() / 1000000) - (long long)(then_us / 1000000);
        seconds = seconds < 0 ? 0 : seconds;
        if (seconds < 120)
                snprintf(ret, 32, "%llds", seconds);
        else if (seconds < 7200)
                snprintf(ret, 32, "%lldm", seconds / 60);
        else
                snprintf(ret, 32, "%lldh", seconds / 3600);
}

int sandboxes_ps_head(struct buf *out) {
        return buf_printf(out, "%-14s %-8s %6s %5s %7s %8s %8s  %s\n", "SANDBOX", "STATE", "PID", "AGE", "WAITING",
                          "ALLOWED", "REFUSED", "COMMAND (WORKSPACE)");
}

int sandboxes_ps_line(struct buf *out, const struct node *s) {
        const struct node *command = node_get(s, STR("command"));
        const char *sandbox = control_text(s, "sandbox"), *state = control_text(s, "state");
        char age[32];
        age_of(control_text(s, "started"), age);
        int r = buf_printf(out, "%-14s %-8s %6ju %5s %7ju %8ju %8ju  ", sandbox ? sandbox : "?", state ? state : "?",
                           (uintmax_t)control_number(s, "pid"), age, (uintmax_t)control_number(s, "pending"),
                           (uintmax_t)control_number(s, "allowed"), (uintmax_t)control_number(s, "refused"));
        for (const struct node *word = command ? command->first : NULL; word && r == 0; word = word->next) {
                r = escape_text(out, word->text, 60);
                if (r == 0)
                        r = buf_add_char(out, ' ');
        }
        if (r == 0)
                r = buf_add_char(out, '(');
        if (r == 0 && control_text(s, "container")) /* its workspace stands for it, and holds nothing */
                r = buf_printf(out, "container");
        else if (r == 0)
                r = put(out, control_text(s, "workspace"));
        return r < 0 ? r : buf_add(out, ")\n");
}

static int pending_command(struct buf *out, const char *sandbox, const struct node *q) {
        char age[32];
        age_of(control_text(q, "asked"), age);
        int r = buf_printf(out, "%s wants to run ", sandbox);
        r = r < 0 ? r : escape_text(out, str_of(control_text(q, "command")), COMMAND_SHOWN);
        r = r < 0 ? r : buf_add(out, " (");
        r = r < 0 ? r : put(out, control_text(q, "reason"));
        return r < 0 ? r : buf_printf(out, ", for %s): bailey allow --command %s\n", age, sandbox);
}

static int pending_push(struct buf *out, const char *sandbox, const struct node *q) {
        char age[32];

        age_of(control_text(q, "asked"), age);
        int r = buf_printf(out, "%s waits with a ", sandbox);
        r = r < 0 ? r : put(out, control_text(q, "push"));
        return r < 0 ? r : buf_printf(out, " (for %s): bailey allow --push %s\n", age, sandbox);
}

static int pending_page(struct buf *out, const char *sandbox, const struct node *q) {
        char age[32];

        age_of(control_text(q, "asked"), age);
        int r = buf_printf(out, "%s wants a page opened: ", sandbox);
        r = r < 0 ? r : put(out, control_text(q, "page"));
        return r < 0 ? r : buf_printf(out, " (for %s): bailey allow --page %s\n", age, sandbox);
}

/* The agent's own words, in quotes; `put` escapes them. */
static int pending_reason(struct buf *out, const struct node *q) {
        const char *reason = control_text(q, "reason");

        if (!reason)
                return 0;
        int r = buf_add(out, ", its reason: \"");
        r = r < 0 ? r : put(out, reason);
        return r < 0 ? r : buf_add(out, "\"");
}

static int pending_access(struct buf *out, const char *sandbox, const struct node *q) {
        char age[32];

        age_of(control_text(q, "asked"), age);
        int r = buf_printf(out, "%s asks for access: ", sandbox);
        r = r < 0 ? r : put(out, control_text(q, "access"));
        r = r < 0 ? r : buf_printf(out, " (for %s", age);
        r = r < 0 ? r : pending_reason(out, q);
        return r < 0 ? r : buf_printf(out, "): bailey allow --access %s\n", sandbox);
}

int sandboxes_pending_line(struct buf *out, const char *sandbox, const struct node *q) {
        const char *host = control_text(q, "host");
        char age[32];
        if (control_text(q, "command"))
                return pending_command(out, sandbox, q);
        if (control_text(q, "access"))
                return pending_access(out, sandbox, q);
        if (control_text(q, "page"))
                return pending_page(out, sandbox, q);
        if (control_text(q, "push"))
                return pending_push(out, sandbox, q);
        age_of(control_text(q, "asked"), age);
        const char *container = control_text(q, "container");
        int r = buf_printf(out, "%s", sandbox);
        if (r == 0 && container)
                r = buf_add(out, " (container ");
        if (r == 0 && container)
                r = put(out, container);
        if (r == 0)
                r = buf_add(out, container ? ") wants " : " wants ");
        if (r == 0)
                r = put(out, host);
        if (r == 0)
                r = buf_printf(out, ":%ju (for %s", (uintmax_t)control_number(q, "port"), age);
        if (r == 0)
                r = pending_reason(out, q);
        if (r == 0)
                r = buf_add(out, "): bailey allow ");
        if (r == 0)
                r = put(out, host);
        if (r == 0)
                r = buf_printf(out, ":%ju ", (uintmax_t)control_number(q, "port"));
        if (r < 0 || !container)
                return r < 0 ? r : buf_printf(out, "--sandbox %s\n", sandbox);
        r = buf_add(out, "--container ");
        r = r < 0 ? r : put(out, container);
        return r < 0 ? r : buf_add_char(out, '\n');
}

static int network_line(struct buf *out, const struct node *ev) {
        const char *path = control_text(ev, "path"), *method = control_text(ev, "method");
        int r = buf_printf(out, "%s ", control_bool(ev, "allowed") ? "allowed" : "refused");
        if (r == 0 && method)
                r = put(out, method);
        if (r == 0 && method)
                r = buf_add_char(out, ' ');
        if (r == 0 && control_text(ev, "domain")) {
                r = put(out, control_text(ev, "domain"));
                if (r == 0 && control_number(ev, "port"))
                        r = buf_printf(out, ":%ju", (uintmax_t)control_number(ev, "port"));
        }
        if (r == 0 && path)
                r = put(out, path);
        if (r == 0)
                r = buf_add(out, " (");
        if (r == 0)
                r = put(out, control_text(ev, "reason"));
        return r < 0 ? r : buf_add_char(out, ')');
}

/* What else an event says, in its own order: key and value. */
static int other_line(struct buf *out, const struct node *ev) {
        int r = 0;
        for (const struct node *n = ev->first; n && r == 0; n = n->next) {
                if (n->kind != NODE_SCALAR || str_is(n->key, "event") || n->text.n == 0)
                        continue;
                r = buf_add_char(out, ' ');
                if (r == 0 && !str_is(n->key, "text"))
                        r = buf_printf(out, "%.*s ", STR_FMT(n->key));
                if (r == 0)
                        r = escape_text(out, n->text, SHOWN);
        }
        return r;
}

static int ratchet_line(struct buf *out, const struct node *ev) {
        int r = buf_add(out, "ratchet closed by ");

        r = r < 0 ? r : put(out, control_text(ev, "trigger"));
        r = r < 0 ? r : buf_add_char(out, ' ');
        r = r < 0 ? r : put(out, control_text(ev, "what"));
        r = r < 0 ? r : buf_add(out, ": ");
        return r < 0 ? r : put(out, control_text(ev, "say"));
}

int sandboxes_event_line(struct buf *out, const char *sandbox, const struct node *ev) {
        const char *kind = control_text(ev, "event");
        const struct node *question = node_get(ev, STR("question"));
        bool attempt = kind && (strcmp(kind, "network") == 0 || strcmp(kind, "file") == 0);
        if (kind && strcmp(kind, "ask") == 0 && question)
                return sandboxes_pending_line(out, sandbox, question);
        int r = buf_printf(out, "%s ", sandbox);
        if (r == 0 && kind && strcmp(kind, "ratchet") == 0) {
                r = ratchet_line(out, ev);
                return r < 0 ? r : buf_add_char(out, '\n');
        }
        if (r == 0 && attempt)
                r = network_line(out, ev);
        if (r == 0 && !attempt)
                r = put(out, kind);
        if (r == 0 && !attempt)
                r = other_line(out, ev);
        return r < 0 ? r : buf_add_char(out, '\n');
}
