/* SPDX-License-Identifier: Apache-2.0 */
/* Each name is looked up: nobody has measured here whether a listing costs less. */
#include "base/files/names.h"

void names_read(struct names *names, int dir) {
        (void)dir;
        *names = (struct names){ .read = false };
}

void names_look(struct names *names, int dir, unsigned looks) {
        (void)looks;
        names_read(names, dir);
}

bool names_lack(const struct names *names, const char *name) {
        (void)names;
        (void)name;
        return false;
}
