/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "cli/frame.h"

#include <sys/prctl.h>

int frame_die_with_parent(int signal, struct err *err) {
        if (prctl(PR_SET_PDEATHSIG, signal) < 0)
                return err_errno(err, "cannot be told of the end of the parent");

        return 0;
}
