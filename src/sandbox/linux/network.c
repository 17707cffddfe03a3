/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox's own network namespace: batches made at build time are sent as they are, and sockets are opened. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "plan/embedded.h"
#include "sandbox/linux/packets.h"
#include "sandbox/linux/step.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* The kernel handles the whole batch inside send(); answers are then waiting. An error in any message is the batch's.
 */
static int send_batch(int fd, struct str batch, const char *what, struct err *err) {
        struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
        if (sendto(fd, batch.p, batch.n, 0, (struct sockaddr *)&kernel, sizeof kernel) < 0)
                return err_errno(err, "network: %s: send", what);

        _Alignas(struct nlmsghdr) char answer[4096];

        for (;;) {
                ssize_t got = recv(fd, answer, sizeof answer, MSG_DONTWAIT);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return err_errno(err, "network: %s: no answer from the kernel", what);

                ssize_t left = got;
                for (struct nlmsghdr *h = (struct nlmsghdr *)answer; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
                        if (h->nlmsg_type != NLMSG_ERROR || h->nlmsg_len < NLMSG_LENGTH(sizeof(struct nlmsgerr)))
                                continue;

                        const struct nlmsgerr *nlmsgerr = NLMSG_DATA(h);
                        if (nlmsgerr->error == 0)
                                return 0; /* only the last message asked for this */

                        return err_set(err, -nlmsgerr->error, "network: %s, message %u: %s", what, h->nlmsg_seq,
                                       strerror(-nlmsgerr->error));
                }
        }
}

static int open_netlink(int family, int *ret, struct err *err) {
        *ret = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, family);
        if (*ret < 0)
                return err_errno(err, "network: netlink socket");

        return 0;
}

/* What refuses packets must be there; that it also logs them is a kernel's option. */
static int send_rules(struct str rules, bool *ret_silent, struct err *err) {
        cleanup(close_fd) int fd = -1;
        int r = open_netlink(NETLINK_NETFILTER, &fd, err);
        if (r < 0)
                return r;

        r = send_batch(fd, rules, "capture rules", err);
        if (r == 0)
                return 0;

        struct str silent = str_eq(rules, embedded_nft) ? embedded_nft_silent : embedded_nft_closed_silent;
        struct err why = { 0 };
        if (send_batch(fd, silent, "capture rules", &why) < 0)
                return r;

        *err = (struct err){ 0 };
        *ret_silent = true;

        return 0;
}

int apply_network(const struct plan *plan, bool *ret_silent, struct err *err) {
        cleanup(close_fd) int routes = -1;
        int r = 0;

        if (plan->routes_v4.n || plan->routes_v6.n)
                r = open_netlink(NETLINK_ROUTE, &routes, err);

        if (r == 0 && plan->routes_v4.n)
                r = send_batch(routes, plan->routes_v4, "links and routes", err);
        if (r == 0 && plan->routes_v6.n)
                r = send_batch(routes, plan->routes_v6, "IPv6 routes", err);
        if (r == 0 && plan->nft.n)
                r = send_rules(plan->nft, ret_silent, err);

        return r;
}

/* Where /proc is read-only there is no such socket, and the attempt to have one is refused. */
void apply_ping(unsigned gid) {
        char range[32];
        int n = snprintf(range, sizeof range, "%u %u", gid, gid);
        cleanup(close_fd) int fd = open("/proc/sys/net/ipv4/ping_group_range", O_WRONLY | O_CLOEXEC);

        if (fd >= 0)
                (void)fd_write_all(fd, range, (size_t)n);
}

/* The batch is one message; the group is in its second header. */
static int packets_bind(int fd, uint16_t group, struct err *err) {
        _Alignas(struct nlmsghdr) char batch[512];
        const size_t at = NLMSG_HDRLEN + offsetof(struct nfgenmsg, res_id);
        uint16_t wire = htons(group);

        if (embedded_packets.n > sizeof batch || embedded_packets.n < at + sizeof wire)
                return err_set(err, EMSGSIZE, "network: the packet listener's batch");
        memcpy(batch, embedded_packets.p, embedded_packets.n);
        memcpy(batch + at, &wire, sizeof wire);
        return send_batch(fd, str_n(batch, embedded_packets.n), "packet listener", err);
}

int packets_open(uint16_t group, int *ret, struct err *err) {
        cleanup(close_fd) int fd = -1;
        int r = open_netlink(NETLINK_NETFILTER, &fd, err);

        if (r == 0)
                r = packets_bind(fd, group, err);
        if (r < 0)
                return r;

        *ret = take_fd(&fd);

        return 0;
}

/* A kernel that cannot log packets gets a socket at which nothing arrives. */
static int open_packets(int *ret, struct err *err) {
        struct err none = { 0 };

        if (packets_open(PLAN_PACKET_GROUP, ret, &none) == 0)
                return 0;
        return open_netlink(NETLINK_NETFILTER, ret, err);
}

/* Binds at a path in the sandbox's own tree, which nobody else sees. The guest connects by another identity than the
 * one that binds, so the file's mode keeps nobody out. */
static int socket_offer(int fd, const struct sockaddr_un *at) {
        if (bind(fd, (const struct sockaddr *)at, sizeof *at) < 0 || chmod(at->sun_path, 0666) < 0 ||
            listen(fd, 1024) < 0)
                return -errno;
        return 0;
}

/* In the sandbox's own tree, once it is there. */
static int open_socket(const struct plan_listener *listener, int *ret, struct err *err) {
        const char *path = plan_listener_path(listener->kind);
        cleanup(close_fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct sockaddr_un at = { .sun_family = AF_UNIX };

        snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
        if (mkdir(PLAN_SHIM_PLACE, 0755) < 0 && errno != EEXIST)
                return err_errno(err, "sockets: make " PLAN_SHIM_PLACE);
        if (fd < 0 || socket_offer(fd, &at) < 0)
                return err_errno(err, "sockets: %s", path);

        *ret = take_fd(&fd);
        return 0;
}

/* In a directory of the sandbox's own, once its files are in place. */
static int open_bridge(int *ret, struct err *err) {
        const struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = PLAN_BRIDGE_SOCKET };
        cleanup(close_fd) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0 || socket_offer(fd, &at) < 0)
                return err_errno(err, "bridge: listen at %s", PLAN_BRIDGE_SOCKET);
        *ret = take_fd(&fd);
        return 0;
}

/* Connected to nothing: its holder can reach a port in here, once at a time (run/bridge/run_browser.h). */
static int open_callback(const struct plan_listener *listener, int *ret, struct err *err) {
        int fd = socket(listener->v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0)
                return err_errno(err, "network: socket for callbacks");
        *ret = fd;
        return 0;
}

/* On the loopback address: that is where a redirected connection arrives. */
static int open_listener(const struct plan_listener *listener, int *ret, struct err *err) {
        if (listener->kind == PLAN_LISTENER_PACKETS)
                return open_packets(ret, err);
        if (plan_listener_path(listener->kind))
                return open_socket(listener, ret, err);
        if (listener->kind == PLAN_LISTENER_BRIDGE)
                return open_bridge(ret, err);
        if (listener->kind == PLAN_LISTENER_CALLBACK)
                return open_callback(listener, ret, err);

        bool udp = listener->kind == PLAN_LISTENER_DNS_UDP;
        int type = (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK;
        cleanup(close_fd) int fd = socket(listener->v6 ? AF_INET6 : AF_INET, type, 0);
        struct sockaddr_in v4 = { AF_INET, htons(listener->port), { htonl(INADDR_LOOPBACK) }, { 0 } };
        struct sockaddr_in6 v6 = { AF_INET6, htons(listener->port), 0, IN6ADDR_LOOPBACK_INIT, 0 };
        const int on = 1;

        if (fd < 0)
                return err_errno(err, "network: %s listener", plan_listener_name(listener->kind));
        if (listener->v6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) < 0)
                return err_errno(err, "network: %s listener, IPV6_V6ONLY", plan_listener_name(listener->kind));

        const struct sockaddr *address = listener->v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
        if (bind(fd, address, listener->v6 ? sizeof v6 : sizeof v4) < 0)
                return err_errno(err, "network: bind %s listener to port %u", plan_listener_name(listener->kind),
                                 listener->port);
        if (!udp) /* before the first client is there: accepted sockets inherit it, and the gateway starts after that */
                (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (!udp && listen(fd, 1024) < 0)
                return err_errno(err, "network: listen for %s", plan_listener_name(listener->kind));

        *ret = take_fd(&fd);
        return 0;
}

int apply_listeners(const struct plan *plan, int fds[static PLAN_LISTENERS_MAX], size_t *n, struct err *err) {
        for (; *n < plan->listeners.n; (*n)++) {
                int r = open_listener(&plan->listeners.p[*n], &fds[*n], err);
                if (r < 0)
                        return r;
        }
        return 0;
}
