/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as text: nothing here asks the file system, and nothing here is a system's own. */
#include "base/paths/path.h"

#include <errno.h>
#include <stdlib.h>

static void normalise_into(struct str path, char *out, size_t *n) {
        struct str part;

        while (str_split(&path, '/', &part)) {
                if (part.n == 0 || str_is(part, "."))
                        continue;

                if (str_is(part, "..")) {
                        while (*n > 0 && out[--*n] != '/')
                                ;
                        continue;
                }

                out[(*n)++] = '/';
                memcpy(out + *n, part.p, part.n);
                *n += part.n;
        }
}

int path_normalise(struct str path, const char *base, char **ret) {
        if (path.n == 0 || str_has_nul(path))
                return -EINVAL;

        bool relative = path.p[0] != '/';
        if (relative && (!base || base[0] != '/'))
                return -EINVAL;

        char *out = malloc(path.n + (relative ? strlen(base) : 0) + 3);
        if (!out)
                return -ENOMEM;

        size_t n = 0;
        if (relative)
                normalise_into(str_of(base), out, &n);

        normalise_into(path, out, &n);
        if (n == 0)
                out[n++] = '/';

        out[n] = '\0';
        *ret = out;

        return 0;
}

int path_expand_home(struct str path, const char *home, char **ret) {
        char *out;

        if (path.n == 0 || path.p[0] != '~')
                out = str_dup(path);
        else if (path.n > 1 && path.p[1] != '/')
                return -EINVAL;
        else if (!home)
                return -ENOENT;
        else if (str_has_nul(path))
                return -EINVAL;
        else
                out = str_format("%s%.*s", home, STR_FMT(str_skip(path, 1)));

        if (!out && errno == EINVAL)
                return -EINVAL;
        if (!out)
                return -ENOMEM;

        *ret = out;
        return 0;
}

char *path_join(const char *directory, const char *name) {
        size_t n = strlen(directory), name_n = strlen(name);
        bool slash = !n || directory[n - 1] != '/';
        char *out = malloc(n + slash + name_n + 1);
        if (!out)
                return NULL;

        memcpy(out, directory, n);
        if (slash)
                out[n] = '/';

        memcpy(out + n + slash, name, name_n + 1);
        return out;
}

bool path_is_within(const char *path, const char *directory) {
        size_t n = strlen(directory);
        if (n <= 1)
                return n == 1 && directory[0] == '/' && path[0] == '/';
        return strncmp(path, directory, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

struct str path_basename(const char *path) {
        struct str s = str_of(path);
        return str_skip(s, (size_t)(str_rfind(s, '/') + 1));
}

size_t path_depth(const char *path) {
        size_t depth = 0;
        for (const char *c = path; *c; c++)
                depth += *c == '/' && c[1] != '\0' && c[1] != '/';
        return depth;
}
