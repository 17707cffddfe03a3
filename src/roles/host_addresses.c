/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/host_addresses.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

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

int host_addresses_compile(const struct policy *policy, void **ret, size_t *ret_n, struct err *err) {
        cleanup(endpoints_done) endpoints self = { 0 };
        int r = host_addresses(&self, err);
        if (r < 0)
                return r;

        return policy_compile_network(policy, self.p, self.n, ret, ret_n, err);
}
