/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Descriptors beside a message, for the sides of base/fd.h. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

enum { FD_RIGHTS_MAX = 64 };

union fd_rights {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * FD_RIGHTS_MAX)];
};

/* Nothing to do without one. The room must be zeroed and outlive the message. */
void fd_rights_attach(struct msghdr *message, union fd_rights *room, const int *fds, size_t n);
/* Every descriptor of a message that was received: kept, or, when there is one too many, closed, with -ETOOMANYREFS. */
int fd_rights_collect(struct msghdr *message, int *ret_fds, size_t max_fds, size_t *ret_n);
void fd_rights_close(int *fds, size_t n);
/* Whether recvmsg() failed for lack of memory: the message is still there, and can be received later. */
bool fd_rights_lacks_room(int code);
