/* SPDX-License-Identifier: Apache-2.0 */
/* A refused packet is known to the system log of macOS alone. */
#include "gateway/refused_packets.h"

#include <errno.h>

int packets_new(struct worker *worker, int fd, struct packets **ret, struct err *err) {
        (void)worker;
        (void)fd;
        (void)ret;
        return err_set(err, ENOTSUP, "refused packets are not told on macOS");
}

void packets_free(struct packets *packets) {
        (void)packets;
}
