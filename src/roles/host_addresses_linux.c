/* SPDX-License-Identifier: Apache-2.0 */
/* By netlink. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "roles/host_addresses.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

int host_addresses_watch(int *ret_fd, struct err *err) {
        const struct sockaddr_nl groups = { .nl_family = AF_NETLINK,
                                            .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR };
        cleanup(close_fd) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
        if (fd < 0 || bind(fd, (const struct sockaddr *)&groups, sizeof groups) < 0)
                return err_errno(err, "cannot follow this host's addresses");
        *ret_fd = take_fd(&fd);
        return 0;
}

bool host_addresses_changed(int fd) {
        char message[8192]; /* what it says does not matter: the whole list is read again */
        bool changed = false;

        for (;;) {
                ssize_t n = recv(fd, message, sizeof message, MSG_DONTWAIT);
                if (n > 0 || (n < 0 && errno == ENOBUFS)) /* so many at once that some are lost */
                        changed = true;
                else if (n == 0 || errno != EINTR)
                        return changed;
        }
}
