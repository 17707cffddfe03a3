/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/valid.h"

bool ipc_host_valid(const struct host *h) {
        if (h->name_n == 0 || h->name_n > HOST_TEXT_MAX || strnlen(h->name, sizeof h->name) != h->name_n)
                return false;
        if (h->kind == HOST_ADDR) {
                char text[ADDR_TEXT_MAX];
                if (h->addr.family != ADDR_V4 && h->addr.family != ADDR_V6)
                        return false;
                addr_text(&h->addr, text);
                return str_is(host_str(h), text);
        }
        struct host parsed;
        return h->kind == HOST_NAME && host_parse(host_str(h), &parsed, NULL) == 0 && host_equal(&parsed, h);
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
