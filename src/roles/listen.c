/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/listen.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/fd.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 4096, TRIES = 16 };

static void free_interfaces(struct ifaddrs **list) {
        if (*list)
                freeifaddrs(*list);
}

/* A bridge of containers is a bridge: what is attached to it is of this machine. */
static bool is_bridge(const char *interface) {
        char path[64 + IFNAMSIZ];
        snprintf(path, sizeof path, "/sys/class/net/%s/bridge", interface);
        return access(path, F_OK) == 0;
}

static int check_private(const struct addr *addr, const char *shown, struct err *err) {
        cleanup(free_interfaces) struct ifaddrs *list = NULL;
        if (getifaddrs(&list) < 0)
                return err_errno(err, "cannot list the interfaces of this host");

        for (const struct ifaddrs *ifaddrs = list; ifaddrs; ifaddrs = ifaddrs->ifa_next) {
                struct addr own;
                uint16_t port;

                if (!ifaddrs->ifa_addr || !addr_from_sockaddr(ifaddrs->ifa_addr, &own, &port) ||
                    !addr_equal(&own, addr))
                        continue;
                if (is_bridge(ifaddrs->ifa_name))
                        return 0;

                return err_set(err, EINVAL,
                               "%s is the address of %s, which is not a container bridge: other machines could use the "
                               "gateway. Listen on 127.0.0.1, or on the bridge's address",
                               shown, ifaddrs->ifa_name);
        }

        return err_set(err, EADDRNOTAVAIL, "%s is not an address of this host", shown);
}

bool listen_bridge(struct addr *ret, char ret_name[static 16]) {
        static const char *const names[] = { LISTEN_BRIDGE, "docker0", "podman0", "cni-podman0" };
        cleanup(free_interfaces) struct ifaddrs *list = NULL;
        if (getifaddrs(&list) < 0)
                return false;

        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
                for (const struct ifaddrs *ifaddrs = list; ifaddrs; ifaddrs = ifaddrs->ifa_next) {
                        struct addr own;
                        uint16_t port;

                        if (strcmp(ifaddrs->ifa_name, names[k]) != 0 || !ifaddrs->ifa_addr ||
                            ifaddrs->ifa_addr->sa_family != AF_INET ||
                            !addr_from_sockaddr(ifaddrs->ifa_addr, &own, &port) || !is_bridge(ifaddrs->ifa_name) ||
                            addr_classify(&own) != ADDR_CLASS_PRIVATE)
                                continue;

                        *ret = own;
                        snprintf(ret_name, 16, "%s", names[k]);
                        return true;
                }

        return false;
}

static int check_address(const struct addr *addr, struct err *err) {
        char shown[ADDR_TEXT_MAX];

        addr_text(addr, shown);

        switch (addr_classify(addr)) {
        case ADDR_CLASS_LOOPBACK:
                return 0;
        case ADDR_CLASS_UNSPECIFIED:
                return err_set(err, EINVAL, "%s would listen on every interface; name one address, such as 127.0.0.1",
                               shown);
        case ADDR_CLASS_PRIVATE:
                return check_private(addr, shown, err);
        default:
                return err_set(err, EINVAL, "%s is neither loopback nor the private address of a container bridge",
                               shown);
        }
}

static int not_an_address(struct str text, struct err *err) {
        cleanup(buf_done) struct buf shown = BUF(512);
        (void)escape_text(&shown, text, 60);
        const char *s = buf_text(&shown);
        return err_set(err, EINVAL, "\"%s\" is not ADDRESS:PORT, such as 127.0.0.1:3128 or [::1]:0", text_or(s, ""));
}

int listen_parse(struct str text, struct endpoint *ret, struct err *err) {
        struct endpoint at;
        uint64_t port;
        ptrdiff_t colon = str_rfind(text, ':');
        if (colon < 1)
                return not_an_address(text, err);

        struct str address = str_first(text, (size_t)colon);
        bool brackets = address.n > 2 && address.p[0] == '[' && address.p[address.n - 1] == ']';
        if (brackets)
                address = str_n(address.p + 1, address.n - 2);

        if (!str_to_u64(str_skip(text, (size_t)colon + 1), 65535, &port) || !addr_parse(address, &at.addr) ||
            brackets != (at.addr.family == ADDR_V6))
                return not_an_address(text, err);

        at.port = (uint16_t)port;
        int r = check_address(&at.addr, err);
        if (r == 0)
                *ret = at;

        return r;
}

void listen_text(const struct endpoint *at, char ret[static LISTEN_TEXT_MAX]) {
        char address[ADDR_TEXT_MAX];
        addr_text(&at->addr, address);
        snprintf(ret, LISTEN_TEXT_MAX, at->addr.family == ADDR_V6 ? "[%s]:%u" : "%s:%u", address, at->port);
}

static int bind_to(const struct endpoint *at, int type, int *ret_fd, uint16_t *ret_port) {
        struct sockaddr_storage sa;
        socklen_t n = addr_to_sockaddr(&at->addr, at->port, &sa);
        const int on = 1;
        cleanup(close_fd) int fd = socket(sa.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        if (type == SOCK_STREAM && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
                return -errno;
        if (sa.ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) < 0)
                return -errno;
        if (type == SOCK_STREAM) /* accepted sockets inherit it, also those that come before the gateway does */
                (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (bind(fd, (struct sockaddr *)&sa, n) < 0 || (type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
                return -errno;

        struct addr bound;
        n = sizeof sa;
        if (getsockname(fd, (struct sockaddr *)&sa, &n) < 0 ||
            !addr_from_sockaddr((struct sockaddr *)&sa, &bound, ret_port))
                return -EINVAL;

        *ret_fd = take_fd(&fd);
        return 0;
}

static int cannot_listen(const struct endpoint *at, int code, struct err *err) {
        char text[LISTEN_TEXT_MAX];
        listen_text(at, text);
        return err_set(err, -code, "cannot listen on %s: %s", text, strerror(-code));
}

int listen_tcp(struct endpoint *at, int *ret_fd, struct err *err) {
        int r = bind_to(at, SOCK_STREAM, ret_fd, &at->port);
        if (r < 0)
                return cannot_listen(at, r, err);

        return 0;
}

int listen_dns(struct endpoint *at, int *ret_udp, int *ret_tcp, struct err *err) {
        int r = -EADDRINUSE;

        /* A free UDP port may be taken on TCP: then another one. */
        for (int i = 0; i < TRIES && r == -EADDRINUSE; i++) {
                cleanup(close_fd) int udp = -1, tcp = -1;
                struct endpoint same = *at;

                r = bind_to(at, SOCK_DGRAM, &udp, &same.port);
                if (r == 0)
                        r = bind_to(&same, SOCK_STREAM, &tcp, &same.port);

                if (r == 0) {
                        *at = same;
                        *ret_udp = take_fd(&udp);
                        *ret_tcp = take_fd(&tcp);
                } else if (at->port != 0)
                        break;
        }

        if (r < 0)
                return cannot_listen(at, r, err);

        return 0;
}
