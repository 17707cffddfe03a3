/* SPDX-License-Identifier: Apache-2.0 */
/* A profile in Seatbelt's language, for people who read it and for the kernel's compiler. */
#include "base/cleanup.h"
#include "plan/macos/seatbelt_internal.h"

#include <assert.h>
#include <errno.h>

/* How a filter is written: its word, and how its text is. */
enum form { FORM_STRING, FORM_WORD, FORM_REGEX, FORM_PATH, FORM_ADDRESS };

static const struct {
        const char *word;
        enum form form;
} forms[] = {
        [SEATBELT_END] = { "", FORM_WORD },
        [SEATBELT_LITERAL] = { "literal", FORM_PATH },
        [SEATBELT_SUBPATH] = { "subpath", FORM_PATH },
        [SEATBELT_REGEX] = { "regex", FORM_REGEX },
        [SEATBELT_VNODE_TYPE] = { "vnode-type", FORM_WORD },
        [SEATBELT_EXTENSION] = { "extension", FORM_STRING },
        [SEATBELT_TARGET] = { "target", FORM_WORD },
        [SEATBELT_SYSCTL_NAME] = { "sysctl-name", FORM_STRING },
        [SEATBELT_SYSCTL_NAME_PREFIX] = { "sysctl-name-prefix", FORM_STRING },
        [SEATBELT_GLOBAL_NAME] = { "global-name", FORM_STRING },
        [SEATBELT_GLOBAL_NAME_REGEX] = { "global-name-regex", FORM_REGEX },
        [SEATBELT_LOCAL_NAME] = { "local-name", FORM_STRING },
        [SEATBELT_IPC_NAME] = { "ipc-posix-name", FORM_STRING },
        [SEATBELT_IPC_NAME_PREFIX] = { "ipc-posix-name-prefix", FORM_STRING },
        [SEATBELT_IPC_NAME_REGEX] = { "ipc-posix-name-regex", FORM_REGEX },
        [SEATBELT_IOKIT_CLASS] = { "iokit-registry-entry-class", FORM_STRING },
        [SEATBELT_REMOTE_IP] = { "remote ip", FORM_ADDRESS },
        [SEATBELT_LOCAL_IP] = { "local ip", FORM_ADDRESS },
        [SEATBELT_SOCKET_DOMAIN] = { "socket-domain", FORM_WORD },
};
static_assert(sizeof forms / sizeof *forms == SEATBELT_FILTER_KINDS, "a form for each filter");

static const char *parameter_of(const struct seatbelt *seatbelt, const char *path) {
        for (size_t i = 0; i < seatbelt->parameters.n; i++)
                if (strcmp(seatbelt->parameters.p[i].value, path) == 0)
                        return seatbelt->parameters.p[i].name;
        return NULL;
}

static int write_filter(const struct seatbelt *seatbelt, const struct seatbelt_filter *filter, struct buf *out) {
        const char *word = forms[filter->kind].word, *parameter = NULL;
        int r = filter->negated ? buf_add(out, "(require-not ") : 0;

        if (forms[filter->kind].form == FORM_PATH)
                parameter = parameter_of(seatbelt, filter->text);
        if (r < 0)
                return r;

        if (parameter)
                r = buf_printf(out, "(%s (param \"%s\"))", word, parameter);
        else if (forms[filter->kind].form == FORM_WORD)
                r = buf_printf(out, "(%s %s)", word, filter->text);
        else
                r = buf_printf(out, "(%s %s\"%s\")", word, forms[filter->kind].form == FORM_REGEX ? "#" : "",
                               filter->text);

        return r == 0 && filter->negated ? buf_add_char(out, ')') : r;
}

/* A comment is ASCII without line ends and quotes, whatever the text was. */
static int write_comment(const char *before, const char *text, struct buf *out) {
        int r = buf_add(out, before);

        for (const char *c = text; *c && r == 0; c++) {
                bool plain = *c >= ' ' && *c <= '~' && *c != '"';

                r = buf_add_char(out, plain ? *c : '?');
        }

        return r;
}

/* Filters that hold together, on one line. */
static size_t write_clause(const struct seatbelt *seatbelt, const struct seatbelt_filter *filter, size_t n,
                           struct buf *out, int *ret_r) {
        size_t joined = 1;

        while (joined < n && filter[joined].joined)
                joined++;

        int r = joined > 1 ? buf_add(out, "(require-all ") : 0;
        for (size_t i = 0; i < joined && r == 0; i++) {
                r = i > 0 ? buf_add_char(out, ' ') : 0;
                if (r == 0)
                        r = write_filter(seatbelt, &filter[i], out);
        }

        *ret_r = r == 0 && joined > 1 ? buf_add_char(out, ')') : r;
        return joined;
}

/* A literal and a subpath of one name stand on one line. */
static bool is_pair(const struct seatbelt_filter *filter, size_t n) {
        return n > 1 && filter[0].kind == SEATBELT_LITERAL && filter[1].kind == SEATBELT_SUBPATH && !filter[1].joined &&
               strcmp(filter[0].text, filter[1].text) == 0;
}

static int write_filters(const struct seatbelt *seatbelt, const struct seatbelt_rule *rule, struct buf *out) {
        const struct seatbelt_filter *filter = rule->n ? &seatbelt->filters.p[rule->first] : NULL;
        int r = 0;

        for (size_t i = 0; i < rule->n && r == 0;) {
                const char *why = filter[i].why;
                bool pair = is_pair(&filter[i], rule->n - i);

                r = buf_add(out, "\n        ");
                if (r == 0)
                        i += write_clause(seatbelt, &filter[i], rule->n - i, out, &r);

                if (r == 0 && pair) {
                        r = buf_add_char(out, ' ');
                        if (r == 0)
                                i += write_clause(seatbelt, &filter[i], rule->n - i, out, &r);
                }

                if (r == 0 && why && *why)
                        r = write_comment(" ; ", why, out);
        }

        return r;
}

static int write_rule(const struct seatbelt *seatbelt, const struct seatbelt_rule *rule, struct buf *out) {
        int r = rule->why ? write_comment("; ", rule->why, out) : 0;

        if (r == 0 && rule->why)
                r = buf_add_char(out, '\n');
        if (r == 0)
                r = buf_printf(out, "(%s %s", rule->allows ? "allow" : "deny", rule->operations);
        if (r == 0)
                r = write_filters(seatbelt, rule, out);
        if (r == 0 && !rule->allows)
                r = buf_printf(out, "\n        (with message \"%s\")", seatbelt->tag);

        if (r < 0)
                return r;

        /* The last line may end with a comment. */
        return buf_add(out, rule->n > 0 ? "\n)\n" : ")\n");
}

int seatbelt_text(const struct seatbelt *seatbelt, struct buf *out) {
        const char *section = "";
        int r = buf_add(out, "; Seatbelt profile, generated by Bailey. Of several rules with a filter, the last that "
                             "matches decides.\n");

        for (size_t i = 0; i < seatbelt->notes.n && r == 0; i++) {
                r = write_comment("; note: ", seatbelt->notes.p[i], out);
                if (r == 0)
                        r = buf_add_char(out, '\n');
        }

        for (size_t i = 0; i < seatbelt->parameters.n && r == 0; i++) {
                r = buf_printf(out, "; parameter %s: ", seatbelt->parameters.p[i].name);
                if (r == 0)
                        r = write_comment("", seatbelt->parameters.p[i].value, out);
                if (r == 0)
                        r = buf_add_char(out, '\n');
        }

        if (r == 0)
                r = buf_printf(out, "(version 1)\n(deny default (with message \"%s\"))\n", seatbelt->tag);

        for (size_t i = 0; i < seatbelt->rules.n && r == 0; i++) {
                const struct seatbelt_rule *rule = &seatbelt->rules.p[i];

                if (strcmp(section, rule->section) != 0)
                        r = buf_printf(out, "\n; --- %s ---\n\n", rule->section);

                section = rule->section;
                if (r == 0)
                        r = write_rule(seatbelt, rule, out);
        }

        return r;
}
