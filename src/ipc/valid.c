/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/valid.h"

#include "base/fd.h"

#include <errno.h>

bool ipc_host_valid(const struct host *host) {
        if (host->name_n == 0 || host->name_n > HOST_TEXT_MAX || strnlen(host->name, sizeof host->name) != host->name_n)
                return false;

        if (host->kind == HOST_ADDR) {
                char text[ADDR_TEXT_MAX];

                if (host->addr.family != ADDR_V4 && host->addr.family != ADDR_V6)
                        return false;

                addr_text(&host->addr, text);
                return str_is(host_str(host), text);
        }

        struct host parsed;
        return host->kind == HOST_NAME && host_parse(host_str(host), &parsed, NULL) == 0 && host_equal(&parsed, host);
}

void ipc_host_copy(struct host *to, const struct host *from) {
        memset(to, 0, sizeof *to);
        to->kind = from->kind;
        to->name_n = from->name_n;
        memcpy(to->name, from->name, from->name_n);
        if (from->kind == HOST_ADDR)
                to->addr = from->addr;
}

bool ipc_text_valid(struct str s) {
        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] < 0x20 || s.p[i] > 0x7e)
                        return false;
        return true;
}

ssize_t ipc_receive_bytes(int sock, void *room, size_t max, int *ret_fd) {
        size_t n_fds = 0;
        ssize_t n = fd_receive(sock, room, max, ret_fd, 1, &n_fds);

        if (n == -ECONNRESET || n == -EPIPE)
                return 0;
        if (n == -EMSGSIZE || n == -ETOOMANYREFS)
                return -EBADMSG;

        return n;
}
