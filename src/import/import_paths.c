/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths and globs as other tools write them, made absolute.
 *
 * A grant is one path; a glob cannot be granted and is noted. A denial must never become narrower: braces are expanded,
 * and if a form has no equivalent glob here, the directory before it is denied whole. A denial without such a directory
 * ends the import.
 */
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "conf/suggest.h"
#include "import/import_source.h"
#include "policy/match/glob.h"

#include <errno.h>
#include <sys/stat.h>

enum { BRACES_MAX = 64, PATH_TEXT_MAX = 4096 };

static int add_path(struct import_source *source, const struct node *node, enum import_list list, const char *path,
                    struct err *err) {
        cleanup(free_ptr) char *place = node_origin(source->document, node), *said = import_said(node);

        if (!place || !said)
                return err_memory(err);

        size_t before = source->model->lists[list].n;
        int r = import_add_path(source->model, list, str_of(path), place, str_of(said), source->soft, err);
        import_entries *entries = &source->model->lists[list];

        if (r == 0 && entries->n > before)
                entries->p[entries->n - 1].by_rule = source->by_rule;

        return r;
}

static bool is_grant(enum import_list list) {
        return list == IMPORT_READ || list == IMPORT_WRITE;
}

/* --- anchors --- */

int import_add_literal(struct buf *out, struct str text) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < text.n; i++) {
                if (strchr("*?[", text.p[i]))
                        r = buf_printf(out, "[%c]", text.p[i]);
                else
                        r = buf_add_char(out, text.p[i]);
        }
        return r;
}

/* How many bytes name the home by its variable, with the slash behind it; 0: none do. */
static size_t home_variable(struct str text) {
        static const char *const names[] = { "$HOME", "${HOME}" };

        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                size_t n = strlen(names[i]);

                if (str_starts(text, str_of(names[i])) && (text.n == n || text.p[n] == '/'))
                        return text.n == n ? n : n + 1;
        }

        return 0;
}

bool import_is_anchored(struct str text) {
        return text.n > 0 && (strchr("/~", text.p[0]) || home_variable(text) > 0);
}

/* Whether the text names a variable, as a shell does. Names in small letters are files of web frameworks: "$id.tsx". */
static bool has_variable(struct str text) {
        for (size_t i = 0; i + 1 < text.n; i++) {
                char next = text.p[i + 1];

                if (text.p[i] == '$' && (strchr("{(_", next) || (next >= 'A' && next <= 'Z')))
                        return true;
        }

        return false;
}

/* What the text hangs on, and the rest of it. */
static struct str take_anchor(const struct import_source *source, enum import_anchor anchor, const char *root,
                              struct str *text) {
        bool ignore = anchor == ANCHOR_GITIGNORE;

        if (ignore && str_starts(*text, STR("//"))) {
                *text = str_skip(*text, 2);
                return STR("");
        }

        if (str_is(*text, "~") || str_starts(*text, STR("~/"))) {
                *text = str_skip(*text, text->n > 1 ? 2 : 1);
                return str_of(source->model->home);
        }

        if (home_variable(*text) > 0) {
                *text = str_skip(*text, home_variable(*text));
                return str_of(source->model->home);
        }

        if (text->n > 0 && text->p[0] == '/') {
                *text = str_skip(*text, 1);
                return ignore ? str_of(root) : STR("");
        }

        if (str_starts(*text, STR("./")))
                *text = str_skip(*text, 2);

        return ignore ? str_of(source->model->workspace) : str_of(root);
}

/* Gitignore's "/x", and elsewhere what is relative, belong to the file that says it, and some files have no certain
 * place. */
static bool hangs_on_file(struct str text, enum import_anchor anchor) {
        if (anchor == ANCHOR_GITIGNORE)
                return text.n > 0 && text.p[0] == '/' && !str_starts(text, STR("//"));

        return !import_is_anchored(text);
}

static bool has_slash_inside(struct str text) {
        return text.n > 1 && str_find(str_first(text, text.n - 1), '/') >= 0;
}

/* Absolute, not yet normalised. */
static int join_anchor(const struct import_source *source, struct str text, enum import_anchor anchor, const char *root,
                       bool in_glob, struct buf *out) {
        bool floats = anchor == ANCHOR_GITIGNORE && text.n > 0 && !import_is_anchored(text) && !has_slash_inside(text);
        int r;

        struct str base = take_anchor(source, anchor, root, &text);

        if (in_glob)
                r = import_add_literal(out, base);
        else
                r = buf_append(out, base);
        if (r == 0)
                r = buf_add(out, floats && !str_is(text, ".") && !str_is(text, "**") ? "/**/" : "/");
        if (r < 0)
                return r;

        if (in_glob && source->literal)
                return import_add_literal(out, text);

        return buf_append(out, text);
}

/* --- forms that are no globs of ours --- */

/* Negated alternatives, backslashes, variables, and what climbs out of a part that is not known. */
static bool is_unsayable(struct str text) {
        bool magic_before = false;
        struct str rest = text, part;

        for (size_t i = 0; i < text.n; i++) {
                if (text.p[i] == '\\' || text.p[i] == '{' || text.p[i] == '}')
                        return true;
                if (text.p[i] == '(' && i > 0 && strchr("!@+?*", text.p[i - 1]))
                        return true;
        }

        if (has_variable(text))
                return true;

        while (str_split(&rest, '/', &part)) {
                if (magic_before && str_is(part, ".."))
                        return true;
                magic_before |= glob_has_magic(part);
        }

        return false;
}

/* The directory before the first part that is more than a name. */
static int deny_around(struct import_source *source, const struct node *node, enum import_list list, struct str text,
                       struct err *err) {
        size_t end = 0, slash = 0;
        cleanup(free_ptr) char *path = NULL;
        int r;

        while (end < text.n && !strchr("*?[{}\\(!@+$", text.p[end])) {
                if (text.p[end] == '/')
                        slash = end;
                end++;
        }

        r = path_normalise(str_first(text, slash ? slash : 1), NULL, &path);
        if (r == -ENOMEM)
                return err_memory(err);
        if (r < 0)
                return node_error(source->document, node, err, "%s is not a path", show(text).text);

        if (strcmp(path, "/") == 0)
                return node_error(source->document, node, err,
                                  "%s cannot be said as a denial of a policy, and there is no directory around it that "
                                  "could be denied instead; write it without backslashes and alternatives",
                                  show(text).text);

        r = import_say(source, node, false, err, "no glob of a policy says this: all of %s is denied", path);
        if (r < 0)
                return r;

        return add_path(source, node, list, path, err);
}

/* The first {a,b} without others inside: *ret_open and *ret_close are its brackets. */
static bool find_braces(struct str text, size_t *ret_open, size_t *ret_close) {
        size_t open = text.n;

        for (size_t i = 0; i < text.n; i++) {
                if (text.p[i] == '{')
                        open = i;
                if (text.p[i] == '}' && open < i) {
                        *ret_open = open;
                        *ret_close = i;
                        return true;
                }
        }

        return false;
}

/* --- classes of characters --- */

/* Tools differ in where a class ends: whether a "]" at its begin and one in "[:alpha:]" end it. */
enum { READ_FIRST = 1, READ_NAMED = 2, CLASS_READINGS = 4, CLASS_NAME_MAX = 256 };

/* Behind "[:alpha:]", "[=a=]" or "[.x.]" at i; i if there is none. */
static size_t skip_named_class(struct str part, size_t i) {
        if (i + 1 >= part.n || part.p[i] != '[' || !strchr(":=.", part.p[i + 1]))
                return i;

        for (size_t k = i + 2; k + 1 < part.n && k - i < CLASS_NAME_MAX; k++)
                if (part.p[k] == part.p[i + 1] && part.p[k + 1] == ']')
                        return k + 2;

        return i;
}

/* Where the class that begins at `start` ends by this reading; part.n: it does not, and "[" stands for itself. */
static size_t class_end(struct str part, size_t start, unsigned reading) {
        size_t i = start + 1;

        if (i < part.n && strchr("!^", part.p[i]))
                i++;
        if ((reading & READ_FIRST) && i < part.n && part.p[i] == ']')
                i++;

        while (i < part.n && part.p[i] != ']') {
                size_t behind = reading & READ_NAMED ? skip_named_class(part, i) : i;

                i = behind > i ? behind : i + 1;
        }

        return i;
}

struct char_class {
        size_t start, n_ends;
        size_t ends[CLASS_READINGS]; /* each once; the component's end: no class */
        size_t part_end;
};

static struct char_class read_class(struct str text, size_t start) {
        struct char_class class = { .start = start };
        ptrdiff_t slash = str_find(str_skip(text, start), '/');

        class.part_end = slash < 0 ? text.n : start + (size_t)slash;

        for (unsigned reading = 0; reading < CLASS_READINGS; reading++) {
                size_t end = class_end(str_first(text, class.part_end), start, reading);
                bool known = false;

                for (size_t i = 0; i < class.n_ends; i++)
                        known |= class.ends[i] == end;
                if (!known)
                        class.ends[class.n_ends++] = end;
        }

        return class;
}

/* Whether some reading has no end before the slash, but may have one behind it. */
static bool class_may_span(struct str text, const struct char_class *class) {
        bool open = false;

        for (size_t i = 0; i < class->n_ends; i++)
                open |= class->ends[i] == class->part_end;

        return open && str_find(str_skip(text, class->part_end), ']') >= 0;
}

/* The first class that tools read in several ways. *ret_spans: one of them takes in a slash. */
static bool find_doubtful_class(struct str text, struct char_class *ret, bool *ret_spans) {
        ptrdiff_t last = str_rfind(text, ']');

        for (size_t i = 0; (ptrdiff_t)i < last; i++) {
                if (text.p[i] != '[')
                        continue;

                *ret = read_class(text, i);
                *ret_spans = class_may_span(text, ret);
                if (*ret_spans || ret->n_ends > 1)
                        return true;
                if (ret->ends[0] < ret->part_end)
                        i = ret->ends[0];
        }

        return false;
}

/* A class that begins with "!" or "^" is a negated one here and not everywhere: any character. Its end is beyond doubt.
 */
static int respell_class(struct str part, size_t *i, struct buf *out) {
        size_t start = *i, end = class_end(part, start, 0);

        if (end >= part.n)
                return buf_add_char(out, '['); /* it has no end, and stands for itself */

        *i = end;
        if (strchr("!^", part.p[start + 1]))
                return buf_add_char(out, '?');

        return buf_append(out, str_n(part.p + start, end - start + 1));
}

/* One component. "**" beside other characters is a "*" here, and elsewhere also stands for "/". *ret_ended: what comes
 * after it is denied with it. */
static int respell_part(struct str part, struct buf *out, bool *ret_ended) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < part.n && !*ret_ended; i++) {
                bool stars = part.n > 2 && part.p[i] == '*' && i + 1 < part.n && part.p[i + 1] == '*';

                if (stars && i == 0) {
                        while (i + 1 < part.n && part.p[i + 1] == '*')
                                i++;
                        r = buf_add(out, "**/*");
                } else if (stars) {
                        *ret_ended = true;
                        r = buf_add_char(out, '*');
                } else if (part.p[i] == '[') {
                        r = respell_class(part, &i, out);
                } else {
                        r = buf_add_char(out, part.p[i]);
                }
        }

        return r;
}

/* As globs of ours, which deny the same or more. */
static int respell(struct str text, struct buf *out) {
        struct str part;
        bool ended = false;
        int r = 0;

        str_split(&text, '/', &part); /* before the first slash */
        while (r == 0 && !ended && str_split(&text, '/', &part)) {
                r = buf_add_char(out, '/');
                if (r == 0)
                        r = respell_part(part, out, &ended);
        }

        return r;
}

static int deny_one(struct import_source *source, const struct node *node, enum import_list list, struct str text,
                    struct err *err) {
        cleanup(buf_done) struct buf spelled = BUF(8 * PATH_TEXT_MAX);
        cleanup(free_ptr) char *path = NULL;
        struct str whole = text;
        int r;

        if (!source->literal && is_unsayable(text))
                return deny_around(source, node, list, text, err);

        if (!source->literal) {
                if (respell(text, &spelled) < 0)
                        return node_error(source->document, node, err, "the path is too long");
                text = buf_str(&spelled);
        }

        while (text.n > 3 && (str_ends(text, STR("/**")) || str_ends(text, STR("/"))))
                text = str_first(text, text.n - (text.p[text.n - 1] == '/' ? 1 : 3));

        r = path_normalise(text, NULL, &path);
        if (r == -ENOMEM)
                return err_memory(err);
        if (r < 0)
                return node_error(source->document, node, err, "%s is not a path", show(whole).text);

        if (strcmp(path, "/**") == 0 || strcmp(path, "/*") == 0)
                path[1] = '\0';

        return add_path(source, node, list, path, err);
}

/* Every way in which the text's classes can be read. */
static int deny_readings(struct import_source *source, const struct node *node, enum import_list list, struct str text,
                         unsigned *left, struct err *err) {
        struct char_class class = { 0 };
        bool spans = false;
        int r = 0;

        if (*left == 0)
                return node_error(source->document, node, err, "%s has more than %d readings", show(text).text,
                                  BRACES_MAX);

        if (is_unsayable(text) || !find_doubtful_class(text, &class, &spans)) {
                --*left;
                return deny_one(source, node, list, text, err);
        }

        if (spans)
                return deny_around(source, node, list, text, err);

        for (size_t i = 0; r == 0 && i < class.n_ends; i++) {
                bool open = class.ends[i] == class.part_end;
                struct str rest = str_skip(text, open ? class.start + 1 : class.ends[i] + 1);
                cleanup(free_ptr) char *spelled =
                    str_format("%.*s%s%.*s", (int)class.start, text.p, open ? "[[]" : "?", STR_FMT(rest));

                if (spelled)
                        r = deny_readings(source, node, list, str_of(spelled), left, err);
                else
                        r = err_memory(err);
        }

        return r;
}

/* Whether the brackets at `open` and `close` are characters of a class to some tools. */
static bool braces_in_class(struct str text, size_t open, size_t close) {
        struct str before = str_first(text, open);

        return str_rfind(before, '[') > str_rfind(before, ']') && str_find(str_skip(text, close), ']') >= 0;
}

static int deny_spelled(struct import_source *source, const struct node *node, enum import_list list, struct str text,
                        unsigned *left, struct err *err) {
        size_t open, close;
        struct str part, choices;
        int r = 0;

        if (*left == 0)
                return node_error(source->document, node, err, "%s has more than %d alternatives", show(text).text,
                                  BRACES_MAX);

        if (!find_braces(text, &open, &close))
                return deny_readings(source, node, list, text, left, err);

        choices = str_n(text.p + open + 1, close - open - 1);
        if (str_find(choices, ',') < 0 || braces_in_class(text, open, close))
                return deny_around(source, node, list, text, err);

        for (bool more = true; r == 0 && more;) {
                ptrdiff_t comma = str_find(choices, ',');

                part = comma < 0 ? choices : str_first(choices, (size_t)comma);
                more = comma >= 0;
                choices = str_skip(choices, more ? part.n + 1 : part.n);

                cleanup(free_ptr) char *spelled =
                    str_format("%.*s%.*s%.*s", (int)open, text.p, STR_FMT(part), STR_FMT(str_skip(text, close + 1)));
                if (spelled)
                        r = deny_spelled(source, node, list, str_of(spelled), left, err);
                else
                        r = err_memory(err);
        }

        return r;
}

static int deny_path(struct import_source *source, const struct node *node, struct str text, enum import_list list,
                     enum import_anchor anchor, const char *root, struct err *err) {
        cleanup(buf_done) struct buf absolute = BUF(4 * PATH_TEXT_MAX);
        unsigned left = BRACES_MAX;

        if (join_anchor(source, text, anchor, root, true, &absolute) < 0)
                return node_error(source->document, node, err, "the path is too long");
        if (source->literal)
                return deny_one(source, node, list, buf_str(&absolute), err);

        return deny_spelled(source, node, list, buf_str(&absolute), &left, err);
}

static int grant_path(struct import_source *source, const struct node *node, struct str text, enum import_list list,
                      enum import_anchor anchor, struct err *err) {
        cleanup(buf_done) struct buf absolute = BUF(4 * PATH_TEXT_MAX);
        cleanup(free_ptr) char *path = NULL;
        int r;

        if (source->other_roots[0] && hangs_on_file(text, anchor))
                return import_say(source, node, false, err, "it is not certain what this path is relative to");
        if (join_anchor(source, text, anchor, source->root, false, &absolute) < 0)
                return node_error(source->document, node, err, "the path is too long");

        text = buf_str(&absolute);
        while (text.n > 3 && !source->literal && (str_ends(text, STR("/**")) || str_ends(text, STR("/"))))
                text = str_first(text, text.n - (text.p[text.n - 1] == '/' ? 1 : 3));

        if (str_is(text, "/**") && !source->literal)
                text = STR("/");

        if (source->literal && (glob_has_magic(text) || is_unsayable(text)))
                return import_say(source, node, false, err,
                                  "no path with such characters can be granted; grant the directory around it instead");
        if (has_variable(text))
                return import_say(source, node, false, err, "what a variable stands for is not known here");
        if (glob_has_magic(text) || is_unsayable(text))
                return import_say(source, node, false, err,
                                  "a grant names its path: globs can only take away; grant the directory instead");

        r = path_normalise(text, NULL, &path);
        if (r == -ENOMEM)
                return err_memory(err);
        if (r < 0)
                return node_error(source->document, node, err, "%s is not a path", show(text).text);

        return add_path(source, node, list, path, err);
}

int import_path(struct import_source *source, const struct node *node, struct str text, enum import_list list,
                enum import_anchor anchor, struct err *err) {
        int r;

        text = str_trim(text);
        if (text.n == 0 || text.n > PATH_TEXT_MAX)
                return node_error(source->document, node, err, "a path has 1 to %d bytes", PATH_TEXT_MAX);
        if (text.p[0] == '!' && !source->literal && is_grant(list)) {
                r = import_path(source, node, str_skip(text, 1),
                                list == IMPORT_READ ? IMPORT_DENY_READ : IMPORT_DENY_WRITE, anchor, err);
                if (r < 0)
                        return r;
                return import_say(source, node, false, err, "an exception from what is granted: it is denied");
        }

        if (text.p[0] == '!' && !source->literal)
                return import_say(source, node, false, err, "an exception from other entries: these hold whole");

        if (text.p[0] == '~' && text.n > 1 && text.p[1] != '/')
                return node_error(source->document, node, err,
                                  "%s: the home of another account is not known here; write the path out",
                                  show(text).text);

        if (is_grant(list))
                return grant_path(source, node, text, list, anchor, err);

        if (text.p[0] == '$' && !source->literal && !import_is_anchored(text) && has_variable(text))
                return node_error(source->document, node, err,
                                  "%s: what the variable stands for is not known here; write the path out",
                                  show(text).text);

        r = deny_path(source, node, text, list, anchor, source->root, err);
        for (size_t i = 0; r == 0 && i < IMPORT_ROOTS_MAX && source->other_roots[i] && hangs_on_file(text, anchor); i++)
                r = deny_path(source, node, text, list, anchor, source->other_roots[i], err);

        return r;
}

int import_socket(struct import_source *source, const struct node *node, struct str text, struct err *err) {
        import_entries *reads = &source->model->lists[IMPORT_READ];
        size_t before = reads->n;
        struct stat st;
        int r;

        r = import_path(source, node, text, IMPORT_READ, ANCHOR_PLAIN, err);
        if (r < 0 || reads->n == before)
                return r;

        reads->p[before].socket = true;
        if (stat(reads->p[before].text, &st) < 0 || !S_ISDIR(st.st_mode))
                return 0;

        return import_drop(source->model, IMPORT_READ, before, false,
                           "a directory: sockets are opened one by one, with filesystem.read", err);
}
