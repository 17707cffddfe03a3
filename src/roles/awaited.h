/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Sockets of those who wait until a generation of the policy, or a newer one, judges. */
#include "base/vec.h"

struct awaited {
        int fd;
        uint32_t generation;
};
typedef VEC(struct awaited) awaited_list;

/* Takes the socket. Without memory it is closed: waiters learn that nothing is promised. */
void awaited_add(awaited_list *list, int fd, uint32_t generation);
/* One byte to everybody who waits for this generation or an older one. */
void awaited_tell(awaited_list *list, uint32_t generation);
void awaited_done(awaited_list *list);
