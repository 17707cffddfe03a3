/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/git_http.h"

#include "policy/git/git.h"

enum { TARGET_MAX = 8192 };

/* --- what is meant for git --- */

/* One byte of the path, escapes undone once. */
static char byte_at(struct str path, size_t at, size_t *ret_n) {
        *ret_n = 1;
        if (path.p[at] != '%' || path.n - at < 3)
                return path.p[at];

        int high = ascii_hex(path.p[at + 1]), low = ascii_hex(path.p[at + 2]);
        if (high < 0 || low < 0)
                return path.p[at];

        *ret_n = 3;
        return (char)(high << 4 | low);
}

static struct str http_decode(struct str path, char *out) {
        size_t n = 0, step;

        for (size_t at = 0; at < path.n; at += step)
                out[n++] = byte_at(path, at, &step);
        return str_n(out, n);
}

/* The path as the most forgiving server might read it: escapes undone three times, lower case, nothing but letters,
 * digits, '-' and single slashes, parameters cut off. In place. */
static struct str http_loosen(struct str path, char *out) {
        bool parameter = false;
        size_t n = 0;

        for (int i = 0; i < 3; i++)
                path = http_decode(path, out);

        for (size_t i = 0; i < path.n; i++) {
                char c = ascii_lower(out[i] == '\\' ? '/' : out[i]);

                parameter = c == ';' || (parameter && c != '/');
                if (parameter || (!ascii_is_alnum(c) && c != '-' && c != '/'))
                        continue;
                if (c != '/' || n == 0 || out[n - 1] != '/')
                        out[n++] = c;
        }

        while (n > 0 && out[n - 1] == '/')
                n--;

        return str_n(out, n);
}

/* With a step back in it, parts that stand apart may come together. In any spelling: dots and escapes of them. */
static bool http_steps_back(struct str path) {
        char space[TARGET_MAX];

        for (int i = 0; i < 3; i++)
                path = http_decode(path, space);
        return memmem(path.p, path.n, "..", 2) != NULL;
}

static bool is_meant_for_git(struct str path) {
        static const struct str parts[] = { STR("git-upload-pack"), STR("git-receive-pack"), STR("git-upload-archive"),
                                            STR("gitlab-lfs") };
        char space[TARGET_MAX];

        if (path.n > sizeof space)
                return true; /* nobody's path is so long: not judged here, so not let through as something else */

        struct str loose = http_loosen(path, space), rest = loose, part, before = { 0 };
        bool lfs = false, back = http_steps_back(path), info = false;

        while (str_split(&rest, '/', &part)) {
                for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
                        if (str_eq(part, parts[i]))
                                return true;
                info |= str_is(part, "info");
                lfs |= str_is(before, "info") && str_is(part, "lfs");
                if (back && info && (str_is(part, "lfs") || str_is(part, "refs")))
                        return true;

                before = part;
        }

        return lfs || str_ends(loose, STR("info/refs"));
}

/* --- what git writes --- */

struct form {
        const char *method; /* NULL: any */
        struct str tail;
        const char *query; /* NULL: any */
        enum git_http_kind kind;
        enum git_right right;
        bool advertise;
        const char *service;
};

static const struct form forms[] = {
        { "GET", STR("/info/refs"), "service=git-upload-pack", GIT_HTTP_SERVICE, GIT_RIGHT_FETCH, true, "upload-pack" },
        { "GET", STR("/info/refs"), "service=git-receive-pack", GIT_HTTP_SERVICE, GIT_RIGHT_PUSH, true,
          "receive-pack" },
        { "GET", STR("/info/refs"), "", GIT_HTTP_SERVICE, GIT_RIGHT_FETCH, true, "files" },
        { "POST", STR("/git-upload-pack"), "", GIT_HTTP_SERVICE, GIT_RIGHT_FETCH, false, "upload-pack" },
        { "POST", STR("/git-upload-archive"), "", GIT_HTTP_SERVICE, GIT_RIGHT_FETCH, false, "upload-archive" },
        { "POST", STR("/git-receive-pack"), "", GIT_HTTP_RECEIVE_PACK, GIT_RIGHT_PUSH, false, "receive-pack" },
        { "POST", STR("/info/lfs/objects/batch"), "", GIT_HTTP_LFS_BATCH, GIT_RIGHT_FETCH, false, "lfs" },
};

static bool take_form(const struct form *form, struct str method, struct str path, struct str query,
                      struct git_http *ret) {
        struct str repository = str_first(path, path.n - form->tail.n);

        if (!str_ends(path, form->tail) || !str_is(method, form->method) || !str_is(query, form->query))
                return false;
        if (repository.n == 0 || !git_path_parse(str_skip(repository, 1), &ret->path))
                return false;

        ret->kind = form->kind;
        ret->right = form->right;
        ret->advertise = form->advertise;
        ret->service = form->service;

        return true;
}

/* Behind the repository's path comes a marker and something of LFS. */
static bool take_lfs(struct str method, struct str path, struct git_http *ret) {
        static const struct str marks[] = { STR("/info/lfs/"), STR("/gitlab-lfs/objects/") };
        struct str rest;

        for (size_t i = 0; i < 2; i++) {
                const char *found = memmem(path.p, path.n, marks[i].p, marks[i].n);
                size_t at = found ? (size_t)(found - path.p) : 0;
                if (!found || at == 0 || !git_path_parse(str_n(path.p + 1, at - 1), &ret->path))
                        continue;
                if (!git_path_parse(str_skip(path, at + marks[i].n), &rest)) /* plain as a path is */
                        continue;
                if (str_is(rest, "objects/batch") && i == 0)
                        return false; /* in its own form only */

                bool reads = str_is(method, "GET") || str_is(method, "HEAD");
                ret->kind = GIT_HTTP_SERVICE;
                ret->right = reads ? GIT_RIGHT_FETCH : GIT_RIGHT_PUSH;
                ret->service = "lfs";

                return true;
        }

        return false;
}

static bool is_hex(struct str text, size_t n) {
        for (size_t i = 0; i < text.n; i++)
                if (ascii_hex(text.p[i]) < 0)
                        return false;
        return text.n == n;
}

/* What is below objects/ in a repository. */
static bool is_object_file(struct str name) {
        ptrdiff_t slash = str_find(name, '/');
        struct str first = str_first(name, slash < 0 ? 0 : (size_t)slash), second = str_skip(name, (size_t)(slash + 1));

        if (str_is(first, "info") || str_is(first, "pack"))
                return str_find(second, '/') < 0;
        return is_hex(first, 2) && (is_hex(second, 38) || is_hex(second, 62));
}

/* Files that a server without git offers. Their names are common enough that only an entry makes them git's. */
static bool take_file(struct str method, struct str path, struct str query, struct git_http *ret) {
        static const struct str head = STR("/HEAD"), objects = STR("/objects/");
        const char *found = memmem(path.p, path.n, objects.p, objects.n);
        struct str repository = { 0 }, plain;

        if ((!str_is(method, "GET") && !str_is(method, "HEAD")) || query.n > 0)
                return false;

        if (str_ends(path, head))
                repository = str_first(path, path.n - head.n);
        else if (found && is_object_file(str_skip(path, (size_t)(found - path.p) + objects.n)))
                repository = str_first(path, (size_t)(found - path.p));

        if (repository.n == 0 || !git_path_parse(str_skip(repository, 1), &plain))
                return false;

        *ret = (struct git_http){ .kind = GIT_HTTP_FILE, .right = GIT_RIGHT_FETCH, .path = plain, .service = "files" };
        return true;
}

void git_http_recognise(struct str method, struct str target, struct git_http *ret) {
        ptrdiff_t mark = str_find(target, '?');
        struct str path = mark < 0 ? target : str_first(target, (size_t)mark);
        struct str query = mark < 0 ? STR("") : str_skip(target, (size_t)mark + 1);

        *ret = (struct git_http){ .kind = GIT_HTTP_NONE };
        if (path.n == 0 || (path.p[0] != '/' && !is_meant_for_git(path)))
                return;

        if (path.p[0] == '/' && !is_meant_for_git(path)) {
                (void)take_file(method, path, query, ret);
                return;
        }

        for (size_t i = 0; i < sizeof forms / sizeof *forms && path.p[0] == '/'; i++)
                if (take_form(&forms[i], method, path, query, ret))
                        return;

        if (path.p[0] == '/' && take_lfs(method, path, ret))
                return;

        *ret = (struct git_http){ .kind = GIT_HTTP_BAD, .service = "unknown" };
}
