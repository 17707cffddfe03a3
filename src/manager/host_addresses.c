/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host_addresses.h"

#include <errno.h>
#include <ifaddrs.h>

void endpoints_done(endpoints *list) {
        vec_done(list);
}

int host_addresses(endpoints *ret, struct err *e) {
        struct ifaddrs *list;
        if (getifaddrs(&list) < 0)
                return err_errno(e, "cannot list this host's addresses");
        int r = 0;
        for (struct ifaddrs *i = list; i && r == 0; i = i->ifa_next) {
                struct endpoint own = { 0 };
                uint16_t port;
                if (i->ifa_addr && addr_from_sockaddr(i->ifa_addr, &own.addr, &port) && vec_push(ret, own) < 0)
                        r = err_set(e, ENOMEM, "out of memory");
        }
        freeifaddrs(list);
        return r;
}
