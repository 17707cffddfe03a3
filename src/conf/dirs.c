/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/dirs.h"

#include "base/paths/path.h"

#include <errno.h>
#include <stdlib.h>

static int dirs_place(const char *variable, const char *below_home, char **ret) {
        const char *given = getenv(variable), *home = path_home();
        bool absolute = given && given[0] == '/';
        if (!absolute && !home)
                return -ENOENT;
        if (absolute)
                *ret = path_join(given, "bailey");
        else
                *ret = str_format("%s/%s/bailey", home, below_home);
        if (!*ret)
                return -ENOMEM;

        return 0;
}

int dirs_config(char **ret) {
        return dirs_place("XDG_CONFIG_HOME", ".config", ret);
}

int dirs_state(char **ret) {
        return dirs_place("XDG_STATE_HOME", ".local/state", ret);
}
