/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A descriptor can be opened again, by its name in /proc, and then for more than it was opened for. Landlock applies to
 * that only by directory, and mounts not at all: the file is on the host's mount. So a redirection that granted less
 * would open a single file that a rule restricts inside a granted tree.
 */
#include "run/run_stdio.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether a directory around the file may be written to. */
static bool inside_writable(const struct path_rules *rules, const char *path) {
        cleanup(free_ptr) char *dir = strdup(path);
        for (char *slash; dir && (slash = strrchr(dir, '/')) && slash != dir;) {
                *slash = '\0';
                if (path_rules_host_access(rules, dir, NULL) == PATH_WRITE)
                        return true;
        }
        return !dir;
}

/* A pipe with a name is opened again as a file is. Its reader could write to it, and so to whoever else reads. */
static bool has_name(const struct stat *st) {
        return S_ISREG(st->st_mode) || S_ISFIFO(st->st_mode);
}

int run_stdio(const struct path_rules *rules, bool landlock, struct err *err) {
        static const char *const names[] = { "input", "output", "error" };

        for (int fd = 0; fd <= 2; fd++) {
                char link[32], path[PATH_MAX];
                struct stat st;
                int flags = fcntl(fd, F_GETFL);
                if (flags < 0 || fstat(fd, &st) < 0 || !has_name(&st))
                        continue;

                snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
                ssize_t n = readlink(link, path, sizeof path - 1);
                if (n <= 0 || path[0] != '/')
                        continue; /* without a name it is in nobody's way */

                path[n] = '\0';

                /* What the own home covers is none of the policy's refusals: it was handed over on purpose. */
                const struct path_rule *rule = NULL;
                enum path_access access = path_rules_access(rules, path, &rule);
                bool granted = access == PATH_WRITE && !(rule && rule->own); /* the host's home is not the sandbox's */
                bool reads = (flags & O_ACCMODE) != O_WRONLY, writes = (flags & O_ACCMODE) != O_RDONLY;
                if (access == PATH_DENIED && !reads)
                        return err_set(err, EPERM,
                                       "standard %s is %s, which the command must not read, and could through the "
                                       "descriptor; put a pipe in between: | cat >> FILE",
                                       names[fd], path);

                /* Mounts do not hold a descriptor that is opened again; an input file gets a mount of its own, and no
                 * mount holds a pipe. */
                if (!landlock && (writes || S_ISFIFO(st.st_mode)) && !granted && st.st_nlink > 0)
                        return err_set(err, EPERM,
                                       "standard %s is %s, which the command could open again for more than it was "
                                       "opened for: here is no Landlock; put a pipe in between: %s",
                                       names[fd], path, writes ? "| cat >> FILE" : "cat FILE | bailey run ...");

                if (access == PATH_READ && !writes && inside_writable(rules, path))
                        return err_set(err, EPERM,
                                       "standard %s is %s, which the command must not change, and could through the "
                                       "descriptor; put a pipe in between: cat FILE | bailey run ...",
                                       names[fd], path);
        }

        return 0;
}
