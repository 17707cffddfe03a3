/* SPDX-License-Identifier: Apache-2.0 */
/* Only the gateway of macOS accepts: `bailey` has no call for it (tests/macos/inspect.py). */
#include "ipc/listener_refuse.h"

bool listener_can_refuse(uint32_t kind) {
        (void)kind;
        return false;
}

bool listener_refuse(int fd, uint32_t kind) {
        (void)fd;
        (void)kind;
        return true;
}
