/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/host_addresses.h"

#include "base/cleanup.h"

#include <ifaddrs.h>

void endpoints_done(endpoints *list) {
        vec_done(list);
}

int host_addresses(endpoints *ret, struct err *err) {
        struct ifaddrs *list;

        if (getifaddrs(&list) < 0)
                return err_errno(err, "cannot list this host's addresses");

        int r = 0;
        for (struct ifaddrs *ifaddrs = list; ifaddrs && r == 0; ifaddrs = ifaddrs->ifa_next) {
                struct endpoint own = { 0 };
                uint16_t port;

                if (ifaddrs->ifa_addr && addr_from_sockaddr(ifaddrs->ifa_addr, &own.addr, &port) &&
                    vec_push(ret, own) < 0)
                        r = err_memory(err);
        }

        freeifaddrs(list);
        return r;
}

int host_addresses_compile(const struct policy *policy, void **ret, size_t *ret_n, struct err *err) {
        cleanup(endpoints_done) endpoints self = { 0 };
        int r = host_addresses(&self, err);
        if (r < 0)
                return r;

        return policy_compile_network(policy, self.p, self.n, ret, ret_n, err);
}
