/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "sbpl_internal.h"

#include <errno.h>
#include <stdio.h>

const struct node *sbpl_value(const struct sbpl *s, const struct node *node) {
        for (size_t i = 0; node->kind == NODE_WORD && i < s->definitions.n; i++)
                if (strcmp(s->definitions.p[i].name, node->text) == 0)
                        return s->definitions.p[i].value;
        return node;
}

const char *sbpl_text(const struct sbpl *s, const struct node *node) {
        const struct node *value = sbpl_value(s, node);

        if (value->kind == NODE_STRING)
                return value->text;
        if (value->kind != NODE_LIST || value->items.n != 2 || strcmp(value->items.p[0]->text, "param") != 0)
                return NULL;
        for (const struct sbpl_parameter *p = s->parameters; p && p->name; p++)
                if (strcmp(p->name, value->items.p[1]->text) == 0)
                        return p->value;
        return NULL;
}

static bool is_word(const struct node *node, const char *text) {
        return node->kind == NODE_WORD && strcmp(node->text, text) == 0;
}

/* --- addresses --- */

static bool is_loopback(const char *address) {
        return str_starts(str_of(address), STR("127.")) || strcmp(address, "::1") == 0;
}

static bool address_matches(const char *pattern, const struct sbpl_question *q) {
        const char *colon = strrchr(pattern, ':');
        bool any_port = strcmp(colon, ":*") == 0;

        if (!q->address || (!any_port && strtoul(colon + 1, NULL, 10) != q->port))
                return false;
        return pattern[0] == '*' || is_loopback(q->address) || q->own_address;
}

static int check_address(const char *pattern, int line, struct err *e) {
        const char *colon = pattern ? strrchr(pattern, ':') : NULL;
        uint64_t port = 0;
        bool host = colon && (str_is(str_n(pattern, (size_t)(colon - pattern)), "localhost") ||
                              str_is(str_n(pattern, (size_t)(colon - pattern)), "*"));

        if (!host)
                return err_set(e, EINVAL, "line %d: host must be * or localhost in network address", line);
        if (strcmp(colon, ":*") != 0 && (!str_to_u64(str_of(colon + 1), 65535, &port) || port == 0))
                return err_set(e, EINVAL, "line %d: invalid port in network address", line);
        return 0;
}

/* (remote ip "localhost:80"); also tcp, udp and unix-socket. */
static bool endpoint_matches(const struct sbpl *s, const struct node *f, const struct sbpl_question *q) {
        bool local = is_word(f->items.p[0], "local");
        const char *pattern = f->items.n > 2 ? sbpl_text(s, f->items.p[2]) : "*:*";

        if (is_word(f->items.p[1], "unix-socket"))
                return q->path && (f->items.n < 3 || sbpl_matches(s, f->items.p[2], q));
        if (!q->address)
                return false;
        /* The source of a connection is not bound before it is made: the filter compares the any-address. */
        if (local && strcmp(q->operation, "network-outbound") == 0)
                return true;
        return address_matches(pattern, q);
}

/* --- texts --- */

enum how { HOW_EQUAL, HOW_PREFIX, HOW_SUBPATH, HOW_REGEX };
enum of { OF_PATH, OF_TYPE, OF_TARGET, OF_NAME, OF_LOCAL_NAME, OF_DOMAIN, OF_EXTENSION };

static const struct filter_word {
        const char *word;
        enum how how;
        enum of of;
        bool plain; /* its argument is a word, not a string */
} words[] = {
        { "literal", HOW_EQUAL, OF_PATH, false },
        { "path", HOW_EQUAL, OF_PATH, false },
        { "subpath", HOW_SUBPATH, OF_PATH, false },
        { "prefix", HOW_PREFIX, OF_PATH, false },
        { "regex", HOW_REGEX, OF_PATH, false },
        { "vnode-type", HOW_EQUAL, OF_TYPE, true },
        { "target", HOW_EQUAL, OF_TARGET, true },
        { "sysctl-name", HOW_EQUAL, OF_NAME, false },
        { "sysctl-name-prefix", HOW_PREFIX, OF_NAME, false },
        { "sysctl-name-regex", HOW_REGEX, OF_NAME, false },
        { "global-name", HOW_EQUAL, OF_NAME, false },
        { "global-name-prefix", HOW_PREFIX, OF_NAME, false },
        { "global-name-regex", HOW_REGEX, OF_NAME, false },
        { "local-name", HOW_EQUAL, OF_LOCAL_NAME, false },
        { "ipc-posix-name", HOW_EQUAL, OF_NAME, false },
        { "ipc-posix-name-prefix", HOW_PREFIX, OF_NAME, false },
        { "ipc-posix-name-regex", HOW_REGEX, OF_NAME, false },
        { "iokit-registry-entry-class", HOW_EQUAL, OF_NAME, false },
        { "iokit-user-client-class", HOW_EQUAL, OF_NAME, false },
        { "preference-domain", HOW_EQUAL, OF_NAME, false },
        { "socket-domain", HOW_EQUAL, OF_DOMAIN, true },
        { "extension", HOW_EQUAL, OF_EXTENSION, false },
};

static const struct filter_word *find_word(const char *text) {
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
                if (strcmp(words[i].word, text) == 0)
                        return &words[i];
        return NULL;
}

static const char *asked(enum of of, const struct sbpl_question *q) {
        switch (of) {
        case OF_PATH:
                return q->path;
        case OF_TYPE:
                return q->type || !q->path ? q->type : "REGULAR-FILE";
        case OF_TARGET:
                return q->target;
        case OF_NAME:
                return q->local_name ? NULL : q->name;
        case OF_LOCAL_NAME:
                return q->local_name ? q->name : NULL;
        case OF_DOMAIN:
                return q->domain;
        default:
                return q->extension;
        }
}

static bool text_matches(const struct sbpl *s, const struct filter_word *w, const struct node *argument,
                         const char *value) {
        const struct node *meant = sbpl_value(s, argument);

        if (w->how == HOW_REGEX)
                return meant->compiled && regexec(meant->compiled, value, 0, NULL, 0) == 0;
        const char *text = w->plain ? argument->text : sbpl_text(s, argument);
        if (!text)
                return false;
        if (w->how == HOW_SUBPATH)
                return path_is_within(value, text);
        return w->how == HOW_PREFIX ? str_starts(str_of(value), str_of(text)) : strcmp(value, text) == 0;
}

static bool list_matches(const struct sbpl *s, const struct node *f, const struct sbpl_question *q) {
        bool all = is_word(f->items.p[0], "require-all");

        for (size_t i = 1; i < f->items.n; i++)
                if (sbpl_matches(s, f->items.p[i], q) != all)
                        return !all;
        return all;
}

bool sbpl_matches(const struct sbpl *s, const struct node *filter, const struct sbpl_question *q) {
        const struct node *f = sbpl_value(s, filter);
        const char *head = f->items.p[0]->text;

        if (f->word) {
                const char *value = asked(f->word->of, q);

                for (size_t i = 1; value && i < f->items.n; i++)
                        if (text_matches(s, f->word, f->items.p[i], value))
                                return true;
                return false;
        }
        if (strcmp(head, "require-all") == 0 || strcmp(head, "require-any") == 0)
                return list_matches(s, f, q);
        if (strcmp(head, "require-not") == 0)
                return !sbpl_matches(s, f->items.p[1], q);
        return endpoint_matches(s, f, q);
}

static int check_endpoint(const struct sbpl *s, const struct node *f, struct err *e) {
        bool socket = f->items.n > 1 && is_word(f->items.p[1], "unix-socket");

        if (f->items.n < 2 || f->items.p[1]->kind != NODE_WORD)
                return err_set(e, EINVAL, "line %d: a filter without a protocol", f->line);
        if (socket)
                return f->items.n > 2 ? sbpl_check_filter(s, f->items.p[2], e) : 0;
        return f->items.n > 2 ? check_address(sbpl_text(s, f->items.p[2]), f->line, e) : 0;
}

int sbpl_check_filter(const struct sbpl *s, struct node *filter, struct err *e) {
        struct node *f = (struct node *)sbpl_value(s, filter);

        if (f->kind != NODE_LIST || f->items.n < 2 || f->items.p[0]->kind != NODE_WORD)
                return err_set(e, EINVAL, "line %d: not a filter", f->line);
        const char *head = f->items.p[0]->text;
        if (strncmp(head, "require-", 8) == 0) {
                if (strcmp(head, "require-not") == 0 && f->items.n != 2)
                        return err_set(e, EINVAL, "line %d: require-not takes one filter", f->line);
                if (strcmp(head, "require-all") != 0 && strcmp(head, "require-any") != 0 &&
                    strcmp(head, "require-not") != 0)
                        return err_set(e, EINVAL, "line %d: unbound variable: %s", f->line, head);
                for (size_t i = 1; i < f->items.n; i++)
                        if (sbpl_check_filter(s, f->items.p[i], e) < 0)
                                return -EINVAL;
                return 0;
        }
        if (strcmp(head, "remote") == 0 || strcmp(head, "local") == 0)
                return check_endpoint(s, f, e);
        const struct filter_word *w = f->word = find_word(head);
        if (!w)
                return err_set(e, EINVAL, "line %d: unbound variable: %s", f->line, head);
        for (size_t i = 1; i < f->items.n; i++) {
                const struct node *argument = sbpl_value(s, f->items.p[i]);
                bool good = w->plain ? argument->kind == NODE_WORD : sbpl_text(s, argument) != NULL;

                if (w->how == HOW_REGEX)
                        good = argument->kind == NODE_REGEX;
                if (!good)
                        return err_set(e, EINVAL, "line %d: %s: a parameter that is not given, or not a text", f->line,
                                       head);
        }
        return 0;
}
