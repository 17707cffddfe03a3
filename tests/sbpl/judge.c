/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "sbpl_internal.h"

#include <errno.h>
#include <stdio.h>

/* Those that profiles of other projects are known to name. */
static const char *const operations[] = {
        "default",
        "file*",
        "file-read*",
        "file-read-data",
        "file-read-metadata",
        "file-read-xattr",
        "file-write*",
        "file-write-create",
        "file-write-data",
        "file-write-flags",
        "file-write-mode",
        "file-write-owner",
        "file-write-times",
        "file-write-unlink",
        "file-write-xattr",
        "file-map-executable",
        "file-ioctl",
        "file-link",
        "process*",
        "process-exec",
        "process-exec*",
        "process-exec-interpreter",
        "process-fork",
        "process-info*",
        "process-info-pidinfo",
        "process-info-setcontrol",
        "signal",
        "sysctl*",
        "sysctl-read",
        "sysctl-write",
        "mach*",
        "mach-lookup",
        "mach-register",
        "mach-priv*",
        "mach-priv-task-port",
        "ipc*",
        "ipc-posix*",
        "ipc-posix-sem",
        "ipc-posix-shm",
        "ipc-posix-shm*",
        "ipc-posix-shm-read*",
        "ipc-posix-shm-read-data",
        "ipc-posix-shm-read-metadata",
        "ipc-posix-shm-write*",
        "ipc-posix-shm-write-create",
        "ipc-posix-shm-write-data",
        "ipc-posix-shm-write-unlink",
        "iokit-open",
        "iokit-get-properties",
        "network*",
        "network-bind",
        "network-inbound",
        "network-outbound",
        "system*",
        "system-socket",
        "system-fsctl",
        "pseudo-tty",
        "lsopen",
        "appleevent-send",
        "user-preference-read",
        "user-preference-write",
        "distributed-notification-post",
        "job-creation",
};

static bool is_operation(const char *text) {
        for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
                if (strcmp(operations[i], text) == 0)
                        return true;
        return false;
}

/* (with message "..."), (with no-report): how it is told, not what is decided. */
static bool is_modifier(const struct node *node) {
        return node->kind == NODE_LIST && node->items.n >= 2 && node->items.p[0]->kind == NODE_WORD &&
               strcmp(node->items.p[0]->text, "with") == 0;
}

static int add_rule(struct sbpl *s, const struct node *form, const char *operation, size_t first, struct err *e) {
        struct rule rule = { .allows = strcmp(form->items.p[0]->text, "allow") == 0,
                             .operation = operation,
                             .line = form->line };
        int r = 0;

        if (!is_operation(operation))
                return err_set(e, EINVAL, "line %d: unbound variable: %s", form->line, operation);
        for (size_t i = first; i < form->items.n && r == 0; i++) {
                if (is_modifier(form->items.p[i]))
                        continue;
                r = sbpl_check_filter(s, form->items.p[i], e);
                if (r == 0)
                        r = vec_push(&rule.filters, form->items.p[i]);
        }
        if (r == 0)
                r = vec_push(&s->rules, rule);
        if (r < 0)
                vec_done(&rule.filters);
        return r;
}

static int take_rule(struct sbpl *s, const struct node *form, struct err *e) {
        size_t first = 1;

        while (first < form->items.n && form->items.p[first]->kind == NODE_WORD)
                first++;
        if (first == 1)
                return err_set(e, EINVAL, "line %d: a rule without an operation", form->line);
        for (size_t i = 1; i < first; i++) {
                int r = add_rule(s, form, form->items.p[i]->text, first, e);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* (define name "text") and (define name (string-append "a" "b")). */
static int take_definition(struct sbpl *s, struct node *form, struct err *e) {
        struct node *value = form->items.n == 3 ? form->items.p[2] : NULL;

        if (!value || form->items.p[1]->kind != NODE_WORD)
                return err_set(e, EINVAL, "line %d: a definition that this reader does not know", form->line);
        if (value->kind == NODE_LIST && value->items.n > 1 && strcmp(value->items.p[0]->text, "string-append") == 0) {
                cleanup(buf_done) struct buf text = BUF(65536);

                for (size_t i = 1; i < value->items.n; i++) {
                        const char *part = sbpl_text(s, value->items.p[i]);

                        if (!part || buf_add(&text, part) < 0)
                                return err_set(e, EINVAL, "line %d: string-append of what is no text", form->line);
                }
                value->kind = NODE_STRING;
                free(value->text);
                value->text = str_dup(buf_str(&text));
        }
        return vec_push(&s->definitions, ((struct definition){ form->items.p[1]->text, value }));
}

static int take_form(struct sbpl *s, struct node *form, struct err *e) {
        if (form->kind != NODE_LIST || form->items.n < 2 || form->items.p[0]->kind != NODE_WORD)
                return err_set(e, EINVAL, "line %d: not a rule", form->line);
        const char *head = form->items.p[0]->text;
        if (strcmp(head, "version") == 0)
                return strcmp(form->items.p[1]->text, "1") == 0 ? 0 : err_set(e, EINVAL, "a version other than 1");
        if (strcmp(head, "define") == 0)
                return take_definition(s, form, e);
        if (strcmp(head, "allow") == 0 || strcmp(head, "deny") == 0)
                return take_rule(s, form, e);
        return err_set(e, EINVAL, "line %d: unbound variable: %s", form->line, head);
}

int sbpl_parse(struct str text, const struct sbpl_parameter *parameters, struct sbpl **ret, struct err *e) {
        cleanup(sbpl_freep) struct sbpl *s = calloc(1, sizeof *s);
        bool version = false;

        if (!s)
                return -ENOMEM;
        s->parameters = parameters;
        int r = sbpl_read(s, text, e);
        for (size_t i = 0; i < s->forms.n && r == 0; i++) {
                struct node *form = s->forms.p[i];

                version =
                    version || (form->kind == NODE_LIST && form->items.n == 2 && form->items.p[0]->kind == NODE_WORD &&
                                strcmp(form->items.p[0]->text, "version") == 0);
                r = take_form(s, form, e);
        }
        if (r == 0 && !version)
                r = err_set(e, EINVAL, "no version specified");
        if (r < 0)
                return r;
        *ret = take_ptr(&s);
        return 0;
}

/* --- judging --- */

static bool rule_matches(const struct sbpl *s, const struct rule *rule, const struct sbpl_question *q) {
        for (size_t i = 0; i < rule->filters.n; i++)
                if (sbpl_matches(s, rule->filters.p[i], q))
                        return true;
        return false;
}

static bool ask_level(const struct sbpl *s, const char *operation, const struct sbpl_question *q,
                      struct sbpl_answer *ret) {
        const struct rule *found = NULL;

        for (size_t i = s->rules.n; i-- > 0 && !found;)
                if (s->rules.p[i].filters.n > 0 && strcmp(s->rules.p[i].operation, operation) == 0 &&
                    rule_matches(s, &s->rules.p[i], q))
                        found = &s->rules.p[i];
        for (size_t i = s->rules.n; i-- > 0 && !found;)
                if (s->rules.p[i].filters.n == 0 && strcmp(s->rules.p[i].operation, operation) == 0)
                        found = &s->rules.p[i];
        if (found)
                *ret = (struct sbpl_answer){ found->allows ? SBPL_ALLOW : SBPL_DENY, found->line };
        return found != NULL;
}

struct sbpl_answer sbpl_ask(const struct sbpl *s, const struct sbpl_question *q) {
        struct sbpl_answer answer = { SBPL_DENY, 0 };
        char level[96];

        if (ask_level(s, q->operation, q, &answer))
                return answer;
        for (size_t n = strlen(q->operation); n > 0; n--) {
                if (q->operation[n] != '-' && q->operation[n] != '\0')
                        continue;
                snprintf(level, sizeof level, "%.*s*", (int)n, q->operation);
                if (ask_level(s, level, q, &answer))
                        return answer;
        }
        ask_level(s, "default", q, &answer);
        return answer;
}

bool sbpl_can_nest(const struct sbpl *s) {
        bool open = false;

        for (size_t i = 0; i < s->rules.n; i++) {
                if (!s->rules.p[i].allows)
                        return false;
                open = open || strcmp(s->rules.p[i].operation, "default") == 0;
        }
        return open;
}

bool sbpl_can_start(const struct sbpl *s, const char *program) {
        const struct sbpl_question needs[] = {
                { .operation = "process-exec", .path = program },
                { .operation = "file-read-data", .path = program },
                { .operation = "file-read-data", .path = "/", .type = "DIRECTORY" },
                { .operation = "file-map-executable", .path = "/usr/lib/dyld" },
                { .operation = "file-read-data", .path = "/usr/lib/dyld" },
        };

        for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
                if (sbpl_ask(s, &needs[i]).verdict != SBPL_ALLOW)
                        return false;
        return true;
}

size_t sbpl_rules(const struct sbpl *s) {
        return s->rules.n;
}

bool sbpl_has_default(const struct sbpl *s, const char *operation) {
        for (size_t i = 0; i < s->rules.n; i++)
                if (s->rules.p[i].filters.n == 0 && strcmp(s->rules.p[i].operation, operation) == 0)
                        return true;
        return false;
}
