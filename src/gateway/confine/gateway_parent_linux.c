/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/confine/gateway_confine.h"

#include <signal.h>
#include <sys/prctl.h>

void confine_to_parent(void) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
}
