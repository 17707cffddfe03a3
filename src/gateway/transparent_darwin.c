/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing is captured on macOS: there is no listener of this kind. */
#include "gateway/transparent.h"

#include <errno.h>

int transparent_start(const struct client *client) {
        struct client ended = *client;

        client_done(&ended);
        return -ENOTSUP;
}
