/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/sandboxes/sandboxes_text.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "control/protocol.h"

#include <stdio.h>

enum { SHOWN = 300, COMMAND_SHOWN = 4000 /* whole: what is not seen is not approved */ };

void sandboxes_emit_node(struct emit *json, const struct node *node) {
        switch (node->kind) {
        case NODE_NULL:
                emit_null(json);
                return;
        case NODE_SCALAR:
                if (node->quoted)
                        emit_string(json, node->text);
                else if (str_is(node->text, "true") || str_is(node->text, "false"))
                        emit_bool(json, str_is(node->text, "true"));
                else {
                        uint64_t number = 0;

                        (void)str_to_u64(node->text, UINT64_MAX, &number); /* the protocol has no others */
                        emit_number(json, number);
                }
                return;
        default:
                emit_open(json, node->kind == NODE_MAP ? '{' : '[');

                for (const struct node *child = node->first; child; child = child->next) {
                        if (node->kind == NODE_MAP)
                                emit_key_str(json, child->key);
                        sandboxes_emit_node(json, child);
                }

                emit_close(json);
        }
}

static int text_put(struct buf *out, const char *text) {
        return escape_text(out, str_of(text_or(text, "-")), SHOWN);
}

/* "3m", from "2026-11-15T03:14:07.123456Z" to now. */
static void age_of(const char *since, char ret[static 32]) {
        uint64_t then_us;

        if (!since || !clock_parse_text(str_of(since), &then_us)) {
                snprintf(ret, 32, "-");
                return;
        }

        long long seconds = (long long)(clock_wall_us() / 1000000) - (long long)(then_us / 1000000);
        if (seconds < 0)
                seconds = 0;
        if (seconds < 120)
                snprintf(ret, 32, "%llds", seconds);
        else if (seconds < 7200)
                snprintf(ret, 32, "%lldm", seconds / 60);
        else
                snprintf(ret, 32, "%lldh", seconds / 3600);
}

int sandboxes_guest_text(struct buf *out, const char *guest) {
        if (guest[0])
                return buf_printf(out, "guest %s: ", guest);

        return 0;
}

int sandboxes_ps_head(struct buf *out) {
        return buf_printf(out, "%-14s %-8s %6s %5s %7s %8s %8s  %s\n", "SANDBOX", "STATE", "PID", "AGE", "WAITING",
                          "ALLOWED", "REFUSED", "COMMAND (WORKSPACE)");
}

static int ps_command(struct buf *out, const struct node *command) {
        int r = 0;

        for (const struct node *word = command ? command->first : NULL; word && r == 0; word = word->next) {
                r = escape_text(out, word->text, 60);
                if (r == 0)
                        r = buf_add_char(out, ' ');
        }

        return r;
}

int sandboxes_ps_line(struct buf *out, const struct node *node, const char *guest) {
        const char *sandbox = control_text(node, "sandbox"), *state = control_text(node, "state");
        char age[32];

        age_of(control_text(node, "started"), age);
        int r = buf_printf(out, "%-14s %-8s %6ju %5s %7ju %8ju %8ju  ", text_or(sandbox, "?"), text_or(state, "?"),
                           (uintmax_t)control_number(node, "pid"), age, (uintmax_t)control_number(node, "pending"),
                           (uintmax_t)control_number(node, "allowed"), (uintmax_t)control_number(node, "refused"));
        if (r == 0 && guest[0]) /* it may have been renamed since it was started */
                r = buf_printf(out, "guest %s ", guest);
        else if (r == 0)
                r = ps_command(out, node_get(node, STR("command")));

        if (r == 0)
                r = buf_add_char(out, '(');

        if (r == 0 && control_text(node, "container")) /* its workspace stands for it, and holds nothing */
                r = buf_printf(out, "container");
        else if (r == 0)
                r = text_put(out, control_text(node, "workspace"));

        if (r < 0)
                return r;

        return buf_add(out, ")\n");
}

/* The very question: what waits may be another one by the time that somebody answers. */
static int pending_how(struct buf *out, const char *sandbox, const struct node *node, const char *option) {
        return buf_printf(out, "): bailey allow --%s %s/%ju\n", option, sandbox, (uintmax_t)control_number(node, "id"));
}

static int pending_command(struct buf *out, const char *sandbox, const struct node *node) {
        char age[32];

        age_of(control_text(node, "asked"), age);
        int r = buf_printf(out, "%s wants to run ", sandbox);
        if (r < 0)
                return r;

        r = escape_text(out, str_of(control_text(node, "command")), COMMAND_SHOWN);
        if (r < 0)
                return r;

        r = buf_add(out, " (");
        if (r < 0)
                return r;

        r = text_put(out, control_text(node, "reason"));
        if (r < 0)
                return r;

        r = buf_printf(out, ", for %s", age);
        if (r < 0)
                return r;

        return pending_how(out, sandbox, node, "command");
}

static int pending_push(struct buf *out, const char *sandbox, const struct node *node) {
        char age[32];

        age_of(control_text(node, "asked"), age);
        int r = buf_printf(out, "%s waits with a ", sandbox);
        if (r < 0)
                return r;

        r = text_put(out, control_text(node, "push"));
        if (r < 0)
                return r;

        r = buf_printf(out, " (for %s", age);
        if (r < 0)
                return r;

        return pending_how(out, sandbox, node, "push");
}

static int pending_page(struct buf *out, const char *sandbox, const struct node *node) {
        char age[32];

        age_of(control_text(node, "asked"), age);
        int r = buf_printf(out, "%s wants a page opened: ", sandbox);
        if (r < 0)
                return r;

        r = escape_text(out, str_of(control_text(node, "page")), COMMAND_SHOWN);
        if (r < 0)
                return r;

        r = buf_printf(out, " (for %s", age);
        if (r < 0)
                return r;

        return pending_how(out, sandbox, node, "page");
}

static int pending_call(struct buf *out, const char *sandbox, const struct node *node) {
        char age[32];

        age_of(control_text(node, "asked"), age);
        int r = buf_printf(out, "%s calls the tool ", sandbox);
        if (r == 0)
                r = text_put(out, control_text(node, "tool"));
        if (r == 0)
                r = buf_add(out, " of this host: ");
        if (r == 0)
                r = escape_text(out, str_of(control_text(node, "call")), COMMAND_SHOWN);
        if (r == 0)
                r = buf_add(out, " (in ");
        if (r == 0)
                r = escape_text(out, str_of(control_text(node, "directory")), COMMAND_SHOWN);
        if (r < 0)
                return r;

        r = buf_printf(out, ", for %s", age);
        if (r < 0)
                return r;

        return pending_how(out, sandbox, node, "call");
}

/* The agent's own words, in quotes; `put` escapes them. */
static int pending_reason(struct buf *out, const struct node *node) {
        const char *reason = control_text(node, "reason");

        if (!reason)
                return 0;

        int r = buf_add(out, ", its reason: \"");
        if (r < 0)
                return r;

        r = text_put(out, reason);
        if (r < 0)
                return r;

        return buf_add(out, "\"");
}

static int pending_access(struct buf *out, const char *sandbox, const struct node *node) {
        char age[32];

        age_of(control_text(node, "asked"), age);
        int r = buf_printf(out, "%s asks for access: ", sandbox);
        if (r < 0)
                return r;

        r = text_put(out, control_text(node, "access"));
        if (r < 0)
                return r;

        r = buf_printf(out, " (for %s", age);
        if (r < 0)
                return r;

        r = pending_reason(out, node);
        if (r < 0)
                return r;

        return pending_how(out, sandbox, node, "access");
}

int sandboxes_pending_line(struct buf *out, const char *sandbox, const struct node *node) {
        const char *host = control_text(node, "host");
        char age[32];

        if (control_text(node, "command"))
                return pending_command(out, sandbox, node);
        if (control_text(node, "access"))
                return pending_access(out, sandbox, node);
        if (control_text(node, "page"))
                return pending_page(out, sandbox, node);
        if (control_text(node, "call"))
                return pending_call(out, sandbox, node);
        if (control_text(node, "push"))
                return pending_push(out, sandbox, node);

        age_of(control_text(node, "asked"), age);
        const char *container = control_text(node, "container");
        int r = buf_printf(out, "%s", sandbox);
        if (r == 0 && container)
                r = buf_add(out, " (container ");
        if (r == 0 && container)
                r = text_put(out, container);
        if (r == 0)
                r = buf_add(out, container ? ") wants " : " wants ");
        if (r == 0)
                r = text_put(out, host);
        if (r == 0)
                r = buf_printf(out, ":%ju (for %s", (uintmax_t)control_number(node, "port"), age);
        if (r == 0)
                r = pending_reason(out, node);
        if (r == 0)
                r = buf_add(out, "): bailey allow ");
        if (r == 0)
                r = text_put(out, host);
        if (r == 0)
                r = buf_printf(out, ":%ju ", (uintmax_t)control_number(node, "port"));
        if (r < 0 || !container) {
                if (r < 0)
                        return r;
                return buf_printf(out, "--sandbox %s\n", sandbox);
        }

        r = buf_add(out, "--container ");
        if (r < 0)
                return r;

        r = text_put(out, container);
        if (r < 0)
                return r;

        return buf_add_char(out, '\n');
}

static int network_line(struct buf *out, const struct node *ev) {
        const char *path = control_text(ev, "path"), *method = control_text(ev, "method");
        int r = buf_printf(out, "%s ", control_bool(ev, "allowed") ? "allowed" : "refused");
        if (r == 0 && method)
                r = text_put(out, method);
        if (r == 0 && method)
                r = buf_add_char(out, ' ');

        if (r == 0 && control_text(ev, "domain")) {
                r = text_put(out, control_text(ev, "domain"));
                if (r == 0 && control_number(ev, "port"))
                        r = buf_printf(out, ":%ju", (uintmax_t)control_number(ev, "port"));
        }

        if (r == 0 && path)
                r = text_put(out, path);
        if (r == 0)
                r = buf_add(out, " (");
        if (r == 0)
                r = text_put(out, control_text(ev, "reason"));
        if (r < 0)
                return r;

        return buf_add_char(out, ')');
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

        if (r >= 0)
                r = text_put(out, control_text(ev, "trigger"));
        if (r >= 0)
                r = buf_add_char(out, ' ');
        if (r >= 0)
                r = text_put(out, control_text(ev, "what"));
        if (r >= 0)
                r = buf_add(out, ": ");
        if (r < 0)
                return r;

        return text_put(out, control_text(ev, "say"));
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
                if (r < 0)
                        return r;

                return buf_add_char(out, '\n');
        }

        if (r == 0 && attempt)
                r = network_line(out, ev);
        if (r == 0 && !attempt)
                r = text_put(out, kind);
        if (r == 0 && !attempt)
                r = other_line(out, ev);
        if (r < 0)
                return r;

        return buf_add_char(out, '\n');
}
