/* SPDX-License-Identifier: Apache-2.0 */
/* By a routing socket, which tells of addresses too. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "roles/host_addresses.h"

#include <errno.h>
#include <net/route.h>
#include <sys/socket.h>

int host_addresses_watch(int *ret_fd, struct err *err) {
        cleanup(close_fd) int fd = socket(PF_ROUTE, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return err_errno(err, "cannot follow this host's addresses");
        *ret_fd = take_fd(&fd);
        return 0;
}

bool host_addresses_changed(int fd) {
        _Alignas(struct rt_msghdr) char message[8192]; /* the whole list is read again */
        bool changed = false;

        for (;;) {
                ssize_t n = recv(fd, message, sizeof message, MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == ENOBUFS) { /* so many at once that some are lost */
                        changed = true;
                        continue;
                }
                if (n <= 0)
                        return changed;

                const struct rt_msghdr *head = (const struct rt_msghdr *)message;
                changed |= (size_t)n >= sizeof head->rtm_msglen + 2 &&
                           (head->rtm_type == RTM_NEWADDR || head->rtm_type == RTM_DELADDR);
        }
}
