/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd_rights.h"

#include "base/fd.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void fd_rights_attach(struct msghdr *message, union fd_rights *room, const int *fds, size_t n) {
        if (n == 0)
                return;

        message->msg_control = room->bytes;
        message->msg_controllen = CMSG_SPACE(sizeof(int) * n);

        struct cmsghdr *c = &room->align; /* the first of them */
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
}

void fd_rights_close(int *fds, size_t n) {
        for (size_t i = 0; i < n; i++)
                close_fd(&fds[i]);
}

int fd_rights_collect(struct msghdr *message, int *ret_fds, size_t max_fds, size_t *ret_n) {
        size_t n = 0;
        bool excess = (message->msg_flags & MSG_CTRUNC) != 0;

        for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;

                size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < count; i++) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);

                        if (n < max_fds)
                                ret_fds[n++] = fd;
                        else {
                                close(fd);
                                excess = true;
                        }
                }
        }

        if (excess) {
                fd_rights_close(ret_fds, n);
                return -ETOOMANYREFS;
        }

        *ret_n = n;
        return 0;
}

bool fd_rights_lacks_room(int code) {
        return code == ENOMEM || code == ENOBUFS;
}
