/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_firewall.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/spawn.h"
#include "guest/guest_inside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TABLE "inet bailey_guests"
enum { TEXT_MAX = 2048, DISCARD_PORT = 9 };

/* One transaction: all of it, or nothing. */
static int nft_run(const char *text, struct err *err) {
        static char *const environment[] = { (char *)"PATH=/usr/sbin:/usr/bin:/sbin:/bin", (char *)"LC_ALL=C", NULL };
        char *const argv[] = { (char *)"nft", (char *)text, NULL };
        char path[PATH_MAX];
        pid_t pid = -1;

        if (!spawn_find(argv[0], environment, path))
                return err_set(err, ENOENT,
                               "nft is missing (package nftables): an account guest needs its firewall by uid");

        const struct spawn spawn = { .program = path,
                                     .argv = argv,
                                     .environment = environment,
                                     .input = SPAWN_NULL,
                                     .output = SPAWN_NULL,
                                     .errors = SPAWN_KEEP,
                                     .flags = SPAWN_AT_ROOT };
        int r = spawn_start(&spawn, &pid, err);
        if (r < 0)
                return r;

        int status = spawn_wait(pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                return err_set(err, EIO, "nft cannot install the guest's firewall (table " TABLE ")");

        return 0;
}

/* What is there already is made anew: rules that somebody changed are right again. */
int guest_firewall_add(uint32_t uid, struct err *err) {
        char text[TEXT_MAX];

        snprintf(text, sizeof text,
                 "add table " TABLE "; add set " TABLE " guests { type uid; }; "
                 "add chain " TABLE " output { type filter hook output priority -10; policy accept; }; "
                 "flush chain " TABLE " output; "
                 "add rule " TABLE " output meta skuid @guests log prefix \"bailey guest \" group %d snaplen 128; "
                 "add rule " TABLE " output meta skuid @guests meta l4proto tcp reject with tcp reset; "
                 "add rule " TABLE " output meta skuid @guests reject with icmpx type admin-prohibited; "
                 "add element " TABLE " guests { %u }",
                 FIREWALL_LOG_GROUP, uid);
        return nft_run(text, err);
}

/* Adding first makes that there is something to remove, also after the machine was started anew. */
int guest_firewall_remove(uint32_t uid, bool last, struct err *err) {
        char text[TEXT_MAX];

        if (last)
                return nft_run("add table " TABLE "; delete table " TABLE, err);

        snprintf(text, sizeof text,
                 "add table " TABLE "; add set " TABLE " guests { type uid; }; add element " TABLE
                 " guests { %u }; delete element " TABLE " guests { %u }",
                 uid, uid);
        return nft_run(text, err);
}

/*
 * The attempt to get out, as the guest.
 */
struct attempt {
        struct sockaddr_in listener;
};

static bool datagram_leaves(int family) {
        const struct sockaddr_in four = { .sin_family = AF_INET,
                                          .sin_port = htons(DISCARD_PORT),
                                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        const struct sockaddr_in6 six = { .sin6_family = AF_INET6,
                                          .sin6_port = htons(DISCARD_PORT),
                                          .sin6_addr = IN6ADDR_LOOPBACK_INIT };
        cleanup(close_fd) int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return false;
        if (family == AF_INET)
                return sendto(fd, "", 1, 0, (const struct sockaddr *)&four, sizeof four) >= 0;

        return sendto(fd, "", 1, 0, (const struct sockaddr *)&six, sizeof six) >= 0;
}

static int attempt_work(void *arg, struct err *err) {
        const struct attempt *attempt = arg;
        cleanup(close_fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const char *way = NULL;

        if (fd >= 0 && connect(fd, (const struct sockaddr *)&attempt->listener, sizeof attempt->listener) == 0)
                way = "TCP";
        else if (datagram_leaves(AF_INET))
                way = "UDP";
        else if (datagram_leaves(AF_INET6))
                way = "UDP over IPv6";

        return way ? err_set(err, EPERM, "%s", way) : 0;
}

int guest_firewall_check(const struct guest *guest, struct err *err) {
        struct attempt attempt = { .listener = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) } };
        socklen_t n = sizeof attempt.listener;
        struct err why = { 0 };

        if (guest->kind != GUEST_ACCOUNT)
                return 0;

        cleanup(close_fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || bind(fd, (const struct sockaddr *)&attempt.listener, n) < 0 || listen(fd, 1) < 0 ||
            getsockname(fd, (struct sockaddr *)&attempt.listener, &n) < 0)
                return err_errno(err, "cannot try the guest's firewall");

        int r = guest_inside_alone(guest, attempt_work, &attempt, &why);
        if (r == 0)
                return 0;
        if (r != -EPERM)
                return err_set(err, -r, "cannot try the guest's firewall: %s", err_text(&why));

        err_blame(err, ERR_REFUSED);
        return err_set(err, EPERM,
                       "the firewall of the guest %s does not hold: its uid %u sends by %s outside of the sandbox. The "
                       "rules end with the machine; sudo bailey guest fix %s installs them again",
                       guest->row.name, guest->row.uid, err_text(&why), guest->row.name);
}
