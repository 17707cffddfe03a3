/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/dirs.h"

#include "base/path.h"

#include <stdlib.h>

static char *place(const char *variable, const char *below_home) {
        const char *given = getenv(variable), *home = path_home();
        if (given && given[0] == '/')
                return path_join(given, "bailey");
        return home ? str_format("%s/%s/bailey", home, below_home) : NULL;
}

char *dirs_config(void) {
        return place("XDG_CONFIG_HOME", ".config");
}

char *dirs_state(void) {
        return place("XDG_STATE_HOME", ".local/state");
}
