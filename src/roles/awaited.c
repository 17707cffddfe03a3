/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/awaited.h"

#include "base/fd.h"

#include <sys/socket.h>

void awaited_add(awaited_list *list, int fd, uint32_t generation) {
        const struct awaited one = { fd, generation };

        if (vec_push(list, one) < 0)
                close_fd(&fd);
}

void awaited_tell(awaited_list *list, uint32_t generation) {
        size_t kept = 0;

        for (size_t i = 0; i < list->n; i++) {
                struct awaited *one = &list->p[i];
                if (one->generation > generation) {
                        list->p[kept++] = *one;
                        continue;
                }

                (void)!send(one->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT); /* a waiter that is gone needs none */
                close_fd(&one->fd);
        }

        list->n = kept;
}

void awaited_done(awaited_list *list) {
        for (size_t i = 0; i < list->n; i++)
                close_fd(&list->p[i].fd);
        vec_done(list);
}
