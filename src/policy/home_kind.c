/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/home_kind.h"

#include "base/paths/path.h"
#include "conf/suggest.h"

#include <errno.h>
#include <string.h>

enum { NAME_LENGTH_MAX = 64 };

enum home_kind home_kind(const struct policy *policy) {
        const char *text = policy->filesystem.home;

        if (policy->guest)
                return HOME_NAMED;
        if (!text || strcmp(text, HOME_WORD_REAL) == 0)
                return HOME_REAL;
        if (strcmp(text, HOME_WORD_WORKSPACE) == 0)
                return HOME_OF_WORKSPACE;
        if (strcmp(text, HOME_WORD_NONE) == 0)
                return HOME_FORGOTTEN;

        return HOME_NAMED;
}

int home_check(struct str text, struct err *err) {
        bool good = text.n > 0 && text.n <= NAME_LENGTH_MAX && ascii_is_alnum(text.p[0]);

        for (size_t i = 0; i < text.n && good; i++)
                good = ascii_is_alnum(text.p[i]) || text.p[i] == '-' || text.p[i] == '_';

        if (good)
                return 0;

        return err_set(err, EINVAL,
                       "%s is not a home: write workspace, none, real, or a name of 1 to %d letters, digits, '-' or "
                       "'_'",
                       show(text).text, NAME_LENGTH_MAX);
}

bool home_can_cover(const char *path) {
        /* Covered whole, the sandbox would lack these. */
        static const char *const exact[] = { "/",        "/home", "/opt",   "/srv", "/var",
                                             "/var/tmp", "/mnt",  "/media", "/tmp", "/run" };
        static const char *const trees[] = { "/bin",   "/boot", "/dev",  "/etc", "/lib", "/lib32",
                                             "/lib64", "/proc", "/sbin", "/sys", "/usr" };

        for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
                if (strcmp(path, exact[i]) == 0)
                        return false;

        for (size_t i = 0; i < sizeof trees / sizeof *trees; i++)
                if (path_is_within(path, trees[i]))
                        return false;

        return true;
}
