/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/git/git.h"

#include "conf/suggest.h"

#include <errno.h>
#include <stdlib.h>

#define GIT_SUFFIX STR(".git")

/* --- repositories --- */

/* No byte that a server decodes, folds or cuts at: a name that could be read in two ways is no name. */
static bool is_path_byte(char c, bool pattern) {
        if (ascii_is_alnum(c) || (c != '\0' && strchr("._-~+@!,=$", c)))
                return true;
        return pattern && c == '*';
}

static bool is_dots(struct str part) {
        for (size_t i = 0; i < part.n; i++)
                if (part.p[i] != '.')
                        return false;
        return true;
}

static bool path_is_plain(struct str path, bool pattern) {
        struct str rest = path, part;

        if (path.n == 0 || path.n > GIT_PATH_MAX || path.p[path.n - 1] == '/')
                return false;

        while (str_split(&rest, '/', &part)) {
                if (is_dots(part)) /* also an empty one */
                        return false;
                for (size_t i = 0; i < part.n; i++)
                        if (!is_path_byte(part.p[i], pattern))
                                return false;
        }

        return true;
}

static struct str path_without_suffix(struct str path) {
        struct str folded = str_first(path, path.n - GIT_SUFFIX.n);

        if (path.n <= GIT_SUFFIX.n || !str_ends(path, GIT_SUFFIX) || folded.p[folded.n - 1] == '/')
                return path;
        return folded;
}

bool git_path_parse(struct str text, struct str *ret) {
        if (!path_is_plain(text, false))
                return false;

        *ret = path_without_suffix(text);
        return path_is_plain(*ret, false); /* "..git" would become a dot */
}

/* '**' stands alone between two slashes; beside other letters people would read it in two ways. */
static bool stars_are_whole(struct str pattern) {
        struct str rest = pattern, part;

        while (str_split(&rest, '/', &part))
                if (part.n > 2 && memmem(part.p, part.n, "**", 2))
                        return false;
        return true;
}

static int check_name_path(struct str path, struct err *err) {
        if (!path_is_plain(path, true))
                return err_set(err, EINVAL,
                               "the path %s is no plain path of a repository: parts of letters, digits and "
                               "._-~+@!,=$ between single slashes, as acme/app",
                               show(path).text);

        if (!stars_are_whole(path))
                return err_set(err, EINVAL, "in %s, ** stands between slashes, as acme/**; within a part write *",
                               show(path).text);

        return 0;
}

int git_name_parse(struct str text, struct git_name *ret, struct err *err) {
        struct git_name name = { 0 };
        ptrdiff_t slash = str_find(text, '/');
        int r;

        if (memmem(text.p, text.n, "://", 3) || str_find(text, '@') >= 0)
                return err_set(err, EINVAL,
                               "%s: a repository is written HOST/PATH, as github.com/acme/app, without scheme and user",
                               show(text).text);

        if (slash <= 0)
                return err_set(err, EINVAL, "%s names no repository: write HOST/PATH, as github.com/acme/app",
                               show(text).text);

        struct str where = str_first(text, (size_t)slash), path = str_skip(text, (size_t)slash + 1);
        ptrdiff_t colon = str_rfind(where, ':'), bracket = str_rfind(where, ']');
        if (colon > bracket) {
                if (!port_parse(str_skip(where, (size_t)colon + 1), &name.port))
                        return err_set(err, EINVAL, "%s: the port is a number from 1 to 65535", show(text).text);
                where = str_first(where, (size_t)colon);
        }

        if (str_find(where, '*') >= 0)
                return err_set(err, EINVAL, "%s: the host of a repository is one host, without *", show(text).text);

        r = host_parse_user(where, &name.host, err);
        if (r < 0)
                return err_wrap(err, r, "%s", show(text).text);

        r = check_name_path(path, err);
        if (r < 0)
                return r;

        path = path_without_suffix(path);
        memcpy(name.path, path.p, path.n);
        name.path_n = path.n;
        *ret = name;

        return 0;
}

size_t git_path_rank(struct str pattern) {
        ptrdiff_t star = str_find(pattern, '*');

        return star < 0 ? 2 * (size_t)GIT_PATH_MAX : (size_t)star;
}

struct str git_path_fold(struct str path, char *out) {
        for (size_t i = 0; i < path.n; i++)
                out[i] = ascii_lower(path.p[i]);
        return str_n(out, path.n);
}

/* --- refs --- */

static bool is_ref_byte(char c, bool pattern) {
        unsigned char byte = (unsigned char)c;

        if (byte <= 0x20 || byte == 0x7f || strchr("~^:?[\\", c))
                return false;
        return c != '*' || pattern;
}

static bool ref_part_is_valid(struct str part, bool pattern) {
        if (part.n == 0 || part.p[0] == '.' || str_ends(part, STR(".lock")))
                return false;
        for (size_t i = 0; i < part.n; i++)
                if (!is_ref_byte(part.p[i], pattern))
                        return false;
        return true;
}

static bool ref_has_form(struct str ref, bool pattern) {
        struct str rest = ref, part;

        if (ref.n > GIT_REF_MAX || !str_starts(ref, STR("refs/")) || ref.n == 5)
                return false;
        if (ref.p[ref.n - 1] == '/' || ref.p[ref.n - 1] == '.')
                return false;
        if (memmem(ref.p, ref.n, "..", 2) || memmem(ref.p, ref.n, "@{", 2))
                return false;

        while (str_split(&rest, '/', &part))
                if (!ref_part_is_valid(part, pattern))
                        return false;

        return true;
}

bool git_ref_is_valid(struct str ref) {
        return ref_has_form(ref, false);
}

int git_ref_check_pattern(struct str text, struct err *err) {
        if (!str_starts(text, STR("refs/")))
                return err_set(err, EINVAL,
                               "the ref pattern %s matches nothing: refs begin with refs/; write refs/heads/NAME for "
                               "a branch or refs/tags/NAME for a tag",
                               show(text).text);

        if (!ref_has_form(text, true))
                return err_set(err, EINVAL,
                               "the ref pattern %s matches nothing: git has no ref of that form (git-check-ref-format)",
                               show(text).text);

        if (!stars_are_whole(text))
                return err_set(err, EINVAL, "in the ref pattern %s, ** stands between slashes; within a part write *",
                               show(text).text);

        return 0;
}

char *git_ref_expand(struct str text) {
        if (str_starts(text, STR("refs/")))
                return str_dup(text);
        return str_format("refs/heads/%.*s", STR_FMT(text));
}
