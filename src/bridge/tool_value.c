/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/tool_value.h"

#include "conf/suggest.h"
#include "policy/git/git.h"
#include "policy/match/glob.h"

#include <errno.h>
#include <stdlib.h>

enum { WORD_MAX = 512, TEXT_MAX = 4096, PROSE_MAX = 32768, INT_MAX_DIGITS = 19 };

static int refuse_value(struct str text, const char *what, struct err *err) {
        return err_set(err, EINVAL, "%s is no %s", show(text).text, what);
}

static bool has_controls(struct str text, const char *except) {
        for (size_t i = 0; i < text.n; i++) {
                unsigned char byte = (unsigned char)text.p[i];
                if ((byte < 0x20 || byte == 0x7f) && (byte == 0 || !strchr(except, text.p[i])))
                        return true;
        }
        return false;
}

/* Tools take such values for the name of a file, or of a page, whose content is meant. */
static bool names_content(struct str text) {
        static const char *const prefixes[] = { "@", "file:", "fileb:", "http:", "https:", "env:", "op:" };

        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
                if (text.n >= strlen(prefixes[i]) &&
                    str_eq_nocase(str_first(text, strlen(prefixes[i])), str_of(prefixes[i])))
                        return true;

        return memmem(text.p, text.n, "=@", 2) || memmem(text.p, text.n, "=file:", 6) ||
               memmem(text.p, text.n, "=fileb:", 7);
}

static int write_text(struct str text, struct buf *out, struct err *err) {
        if (text.n > TEXT_MAX || has_controls(text, ""))
                return refuse_value(text, "text: one line, of at most 4096 bytes", err);
        if (names_content(text))
                return err_set(err, EINVAL, "%s: a tool could read this as the name of a file or a page",
                               show(text).text);
        return buf_append(out, text);
}

/* A search of several repositories finds what is in any of them: which ones it is about is not the caller's to say. */
static int write_search(struct str text, struct buf *out, struct err *err) {
        static const char *const scopes[] = { "repo:",       "org:",        "user:",  "owner:",
                                              "enterprise:", "repository:", "group:", "project:" };

        for (size_t i = 0; i < text.n; i++)
                for (size_t k = 0; k < sizeof scopes / sizeof *scopes; k++)
                        if (str_eq_nocase(str_first(str_skip(text, i), strlen(scopes[k])), str_of(scopes[k])))
                                return err_set(err, EINVAL,
                                               "%s: %s names where to search, which is the policy's to say",
                                               show(text).text, scopes[k]);

        return write_text(text, out, err);
}

static int write_prose(struct str text, struct buf *out, struct err *err) {
        if (text.n > PROSE_MAX || has_controls(text, "\n\t\r"))
                return refuse_value(text, "text without control characters, of at most 32768 bytes", err);
        return buf_append(out, text);
}

static bool is_word(struct str text, const char *others) {
        for (size_t i = 0; i < text.n; i++)
                if (!ascii_is_alnum(text.p[i]) && (text.p[i] == '\0' || !strchr(others, text.p[i])))
                        return false;
        return text.n > 0 && text.n <= WORD_MAX && text.p[0] != '-' && !names_content(text);
}

static int write_word(struct str text, struct buf *out, struct err *err) {
        if (!is_word(text, "._-/:@+"))
                return refuse_value(text, "word: letters, digits and . _ - / : @ +, not a dash first", err);
        return buf_append(out, text);
}

static int write_words(struct str text, struct buf *out, struct err *err) {
        struct str rest = text, word;

        if (text.n == 0 || text.n > TEXT_MAX || text.p[0] == ',' || text.p[text.n - 1] == ',')
                return refuse_value(text, "list of words with commas between them", err);

        while (str_split(&rest, ',', &word))
                if (!is_word(word, "._-/:"))
                        return refuse_value(word, "word: letters, digits and . _ - / :", err);

        return buf_append(out, text);
}

static int write_int(struct str text, struct buf *out, struct err *err) {
        uint64_t number;

        if (text.n > INT_MAX_DIGITS || !str_to_u64(text, INT64_MAX, &number))
                return refuse_value(text, "number", err);
        return buf_printf(out, "%llu", (unsigned long long)number);
}

static int write_choice(const struct tool_slot *slot, struct str text, struct buf *out, struct err *err) {
        struct str rest = slot->choices, one;

        while (str_split(&rest, '|', &one))
                if (str_eq(one, text))
                        return buf_append(out, text);
        return err_set(err, EINVAL, "%s is none of %.*s", show(text).text, STR_FMT(slot->choices));
}

/* --- git --- */

static bool is_object_id(struct str text) {
        for (size_t i = 0; i < text.n; i++)
                if (ascii_hex(text.p[i]) < 0)
                        return false;
        return text.n == 40 || text.n == 64;
}

static int write_full_ref(struct str text, struct buf *out, struct err *err) {
        if (text.n > 0 && text.p[0] == '-')
                return refuse_value(text, "ref", err);

        char *whole = git_ref_expand(text);
        if (!whole)
                return err_set(err, ENOMEM, "out of memory");

        int r = git_ref_is_valid(str_of(whole)) ? buf_add(out, whole) : refuse_value(text, "ref", err);
        free(whole);

        return r;
}

static int write_source(struct str text, struct buf *out, struct err *err) {
        if (str_is(text, "HEAD") || is_object_id(text))
                return buf_append(out, text);
        return write_full_ref(text, out, err);
}

/* Both sides are written out: what git would guess depends on what the server has. */
static int write_refspec(struct str text, struct buf *out, struct err *err) {
        ptrdiff_t colon = str_find(text, ':');
        struct str source = colon < 0 ? text : str_first(text, (size_t)colon);
        struct str target = colon < 0 ? text : str_skip(text, (size_t)colon + 1);

        if (text.n > 0 && text.p[0] == '+')
                return err_set(err, EINVAL, "%s: + throws commits away, which the bridge does not do", show(text).text);
        if (source.n == 0)
                return err_set(err, EINVAL, "%s deletes a ref, which the bridge does not do", show(text).text);

        if (colon < 0 && (str_is(text, "HEAD") || is_object_id(text)))
                return err_set(err, EINVAL, "%s: say where it goes, as %.*s:refs/heads/NAME", show(text).text,
                               STR_FMT(text));

        if (str_find(text, '*') >= 0)
                return err_set(err, EINVAL, "%s: name each ref, without *", show(text).text);

        int r = write_source(source, out, err);
        if (r == 0)
                r = buf_add(out, ":");
        if (r < 0)
                return r;

        return write_full_ref(target, out, err);
}

static bool same_place(const struct git_name *one, const struct git_name *other) {
        return host_equal(&one->host, &other->host) && one->port == other->port;
}

static bool tool_has_repo(const struct bridge_tool *tool, const struct git_name *name) {
        struct git_name known;

        for (size_t i = 0; i < tool->repos.n; i++)
                if (git_name_parse(str_of(tool->repos.p[i].text), &known, NULL) == 0 && same_place(&known, name) &&
                    glob_match(str_n(known.path, known.path_n), str_n(name->path, name->path_n)))
                        return true;
        return false;
}

bool tool_value_only_repo(const struct bridge_tool *tool, struct str *ret) {
        *ret = tool->repos.n == 1 ? str_of(tool->repos.p[0].text) : str_n(NULL, 0);
        return tool->repos.n == 1 && str_find(*ret, '*') < 0;
}

static int refuse_repo(const struct bridge_tool *tool, struct str text, struct err *err) {
        const char *first = tool->repos.n ? tool->repos.p[0].text : "none";

        return err_set(err, EINVAL, "the repository %s is not one that this sandbox may use %s for (%s%s)",
                       show(text).text, tool->name, first, tool->repos.n > 1 ? ", ..." : "");
}

/* OWNER/NAME or HOST/OWNER/NAME. */
static int parse_repo(struct str text, struct git_name *ret, struct err *err) {
        size_t slashes = 0;

        for (size_t i = 0; i < text.n; i++)
                slashes += text.p[i] == '/';

        if (str_find(text, '*') >= 0 || slashes < 1 || slashes > 2 || text.n > WORD_MAX)
                return refuse_value(text, "repository: OWNER/NAME or HOST/OWNER/NAME", err);
        if (slashes == 2)
                return git_name_parse(text, ret, err);

        char *whole = str_format("github.com/%.*s", STR_FMT(text));
        int r = whole ? git_name_parse(str_of(whole), ret, err) : err_set(err, ENOMEM, "out of memory");
        free(whole);

        return r;
}

static int write_name(const struct git_name *name, struct buf *out) {
        bool is_v6 = strchr(name->host.name, ':') != NULL;
        int r = buf_printf(out, is_v6 ? "[%s]" : "%s", name->host.name);

        if (r == 0 && name->port)
                r = buf_printf(out, ":%u", name->port);
        if (r < 0)
                return r;

        return buf_printf(out, "/%s", name->path);
}

static int write_repo(const struct bridge_tool *tool, struct str text, struct buf *out, struct err *err) {
        struct git_name name;
        int r = parse_repo(text, &name, err);

        if (r < 0)
                return r;
        if (tool_has_repo(tool, &name))
                return write_name(&name, out);

        return refuse_repo(tool, text, err);
}

/* "origin" is the one repository of the policy, whatever the workspace's settings call so; else a URL of https. */
static int write_remote(const struct bridge_tool *tool, struct str text, struct buf *out, struct err *err) {
        struct git_name name;
        struct str place = text;

        if (str_is(text, "origin")) {
                if (!tool_value_only_repo(tool, &place))
                        return err_set(err, EINVAL,
                                       "'origin' could be any of several repositories here: write https://HOST/PATH");
        } else if (str_starts(text, STR("https://"))) {
                place = str_skip(text, strlen("https://"));
        } else {
                return refuse_value(text, "remote of the policy: write origin or https://HOST/PATH", err);
        }

        int r = str_find(place, '*') >= 0 ? refuse_value(text, "single repository", err)
                                          : git_name_parse(place, &name, err);
        if (r < 0)
                return r;
        if (!tool_has_repo(tool, &name))
                return refuse_repo(tool, text, err);

        r = buf_add(out, "https://");
        if (r == 0)
                r = write_name(&name, out);
        if (r < 0)
                return r;

        return buf_add(out, ".git");
}

int tool_value_write(const struct bridge_tool *tool, const struct tool_slot *slot, struct str text, struct buf *out,
                     struct err *err) {
        if (str_has_nul(text))
                return refuse_value(text, "value: it has a NUL in it", err);

        switch (slot->type) {
        case TOOL_TEXT:
                return write_text(text, out, err);
        case TOOL_SEARCH:
                return write_search(text, out, err);
        case TOOL_PROSE:
                return write_prose(text, out, err);
        case TOOL_INT:
                return write_int(text, out, err);
        case TOOL_WORD:
                return write_word(text, out, err);
        case TOOL_WORDS:
                return write_words(text, out, err);
        case TOOL_REF:
                return write_full_ref(text, out, err);
        case TOOL_REFSPEC:
                return write_refspec(text, out, err);
        case TOOL_REPO:
                return write_repo(tool, text, out, err);
        case TOOL_REMOTE:
                return write_remote(tool, text, out, err);
        case TOOL_CHOICE:
                return write_choice(slot, text, out, err);
        default:
                return refuse_value(text, "value: this option has none", err);
        }
}
