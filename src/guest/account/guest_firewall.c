/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/guest_firewall.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/account.h"
#include "base/vec.h"
#include "guest/account/firewall_reader.h"
#include "guest/account/guest_account.h"
#include "guest/account/guest_tool.h"
#include "guest/guest_inside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#define TABLE "inet " FIREWALL_TABLE
#define LOCK "/run/bailey-guests.lock"

/* Accounts have numbers below 65536 on nearly every machine. Where two have the same group, the second reader is
 * refused, and so is the start of its guest. */
uint16_t guest_firewall_group(uint32_t uid) {
        return (uint16_t)uid;
}

/*
 * The table.
 */
typedef VEC(uint32_t) uid_list;

static void uid_list_done(uid_list *list) {
        vec_done(list);
}

static int uid_order(const void *a, const void *b) {
        const uint32_t *first = a, *second = b;

        if (*first < *second)
                return -1;

        return *first > *second;
}

static int uids_collect(void *arg, const struct account *account) {
        uid_list *list = arg;

        if (guest_account_is_one(account->name))
                return vec_push(list, (uint32_t)account->uid);

        return 0;
}

static int text_map(struct buf *out, const uid_list *uids) {
        int r = buf_add(out, "map guests { type uid : verdict; elements = { ");

        for (size_t i = 0; i < uids->n && r == 0; i++)
                r = buf_printf(out, "%s%u : jump guest_%u", i ? ", " : "", uids->p[i], uids->p[i]);
        if (r < 0)
                return r;

        return buf_add(out, " }; }\n");
}

static int text_chains(struct buf *out, const uid_list *uids) {
        int r = 0;

        for (size_t i = 0; i < uids->n && r == 0; i++)
                r = buf_printf(out,
                               "chain guest_%u {\n"
                               "log prefix \"bailey guest \" group %u snaplen 128\n"
                               "meta l4proto tcp reject with tcp reset\n"
                               "reject with icmpx type admin-prohibited\n"
                               "}\n",
                               uids->p[i], guest_firewall_group(uids->p[i]));
        return r;
}

int guest_firewall_text(struct buf *out, size_t *ret_n, struct err *err) {
        cleanup(uid_list_done) uid_list uids = { 0 };
        int r = account_each(uids_collect, &uids);

        if (r < 0)
                return err_set(err, -r, "cannot read the accounts of this machine (/etc/passwd): %s", strerror(-r));
        if (uids.n)
                qsort(uids.p, uids.n, sizeof *uids.p, uid_order);

        /* Adding first makes that there is something to remove. */
        r = buf_add(out, "add table " TABLE "\ndelete table " TABLE "\n");
        if (r == 0 && uids.n) {
                r = buf_add(out, "table " TABLE " {\n");
                if (r == 0)
                        r = text_chains(out, &uids);
                if (r == 0)
                        r = text_map(out, &uids);
                if (r == 0)
                        r = buf_add(out, "chain output { type filter hook output priority -10; policy accept; "
                                         "meta skuid vmap @guests; }\n}\n");
        }
        if (r < 0)
                return err_set(err, -r, "the firewall of the guests' accounts is too long");

        *ret_n = uids.n;
        return 0;
}

/* Under a lock: of two who make it at once, the second has seen the first one's account. */
int guest_firewall_load(struct err *err) {
        cleanup(buf_done) struct buf text = BUF(FIREWALL_TEXT_MAX);
        cleanup(close_fd) int lock = open(LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        struct err why = { 0 };
        size_t n = 0;

        if (lock < 0 || flock(lock, LOCK_EX) < 0)
                return err_errno(err, "cannot lock " LOCK);

        int r = guest_firewall_text(&text, &n, err);
        if (r < 0)
                return r;

        char *const argv[] = { (char *)"nft", (char *)"-f", (char *)"-", NULL };
        const struct guest_tool tool = { .argv = argv, .package = "nftables", .input = buf_str(&text) };
        r = guest_tool_run(&tool, &why);
        if (r < 0)
                return err_set(err, -r, "an account guest needs its firewall by uid (table " TABLE "): %s",
                               err_text(&why));

        return 0;
}

/*
 * The attempt to get out, as the guest: to sockets of our own, which would hear of it.
 */
struct attempt {
        uint16_t port; /* of TCP and UDP, network order */
};

static bool datagram_leaves(int family, uint16_t port) {
        const struct sockaddr_in four = { .sin_family = AF_INET,
                                          .sin_port = port,
                                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        const struct sockaddr_in6 six = { .sin6_family = AF_INET6,
                                          .sin6_port = port,
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
        const struct sockaddr_in to = { .sin_family = AF_INET,
                                        .sin_port = attempt->port,
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        cleanup(close_fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const char *way = NULL;

        if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
                way = "TCP";
        else if (datagram_leaves(AF_INET, attempt->port))
                way = "UDP";
        else if (datagram_leaves(AF_INET6, attempt->port))
                way = "UDP over IPv6";

        if (way)
                return err_set(err, EPERM, "%s", way);

        return 0;
}

static int check_refuse(const struct guest *guest, const char *what, struct err *err) {
        err_blame(err, ERR_REFUSED);
        return err_set(
            err, EPERM,
            "the firewall of the guest %s does not hold: %s. It ends with the machine; sudo bailey guest fix "
            "%s installs it again",
            guest->row.name, what, guest->row.name);
}

static int attempt_make(const struct guest *guest, struct attempt *attempt, struct err *err) {
        struct err why = { 0 };
        char what[128];
        int r = guest_inside_alone(guest, attempt_work, attempt, &why);

        if (r == 0)
                return 0;
        if (r != -EPERM)
                return err_set(err, -r, "cannot try the guest's firewall: %s", err_text(&why));

        snprintf(what, sizeof what, "its uid %u sends by %.32s outside the sandbox", guest->row.uid, err_text(&why));
        return check_refuse(guest, what, err);
}

int guest_firewall_check(const struct guest *guest, struct err *err) {
        struct sockaddr_in listener = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t n = sizeof listener;
        struct err why = { 0 };

        if (guest->kind != GUEST_ACCOUNT)
                return 0;

        cleanup(close_fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || bind(fd, (const struct sockaddr *)&listener, n) < 0 || listen(fd, 1) < 0 ||
            getsockname(fd, (struct sockaddr *)&listener, &n) < 0)
                return err_errno(err, "cannot try the guest's firewall");

        struct attempt attempt = { .port = listener.sin_port };
        cleanup(close_fd) int reader = -1;
        int heard = firewall_reader_try(guest, ntohs(attempt.port), &reader, &why);
        int r = attempt_make(guest, &attempt, err);
        if (r < 0)
                return r;

        if (heard == 0)
                heard = firewall_reader_heard(reader, &why);
        if (heard < 0)
                return check_refuse(guest, err_text(&why), err);

        return 0;
}
