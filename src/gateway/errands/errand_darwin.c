/* SPDX-License-Identifier: Apache-2.0 */
/* Each of them needs a supervisor of another kind, which macOS has not yet. */
#include "gateway/errands/errand.h"

#include <errno.h>

bool errand_is_named(int argc, char **argv) {
        (void)argv;
        return argc > 1;
}

int errand_run(char **argv, struct err *err) {
        return err_set(err, ENOTSUP, "%s is not there on macOS", argv[1]);
}
