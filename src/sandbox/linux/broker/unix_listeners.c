/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker/unix_listeners.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>

enum { STATE_LISTEN = 10, ANSWER_MAX = 32768 };

struct wanted {
        const struct stat *file;
        struct str name;
};

/* The kernel's own number of a device. */
static dev_t device_of(uint32_t kernel) {
        return makedev(kernel >> 20, kernel & 0xfffff);
}

static bool is_wanted(const struct wanted *wanted, struct rtattr *a, ssize_t left) {
        for (; RTA_OK(a, left); a = RTA_NEXT(a, left)) {
                if (wanted->file && a->rta_type == UNIX_DIAG_VFS && RTA_PAYLOAD(a) >= sizeof(struct unix_diag_vfs)) {
                        const struct unix_diag_vfs *vfs = RTA_DATA(a);
                        return vfs->udiag_vfs_ino == (uint32_t)wanted->file->st_ino &&
                               device_of(vfs->udiag_vfs_dev) == wanted->file->st_dev;
                }

                if (!wanted->file && a->rta_type == UNIX_DIAG_NAME)
                        return str_eq(str_n(RTA_DATA(a), RTA_PAYLOAD(a)), wanted->name);
        }

        return false;
}

static int ask_listeners(int diag, uint32_t show) {
        static uint32_t serial;
        struct {
                struct nlmsghdr head;
                struct unix_diag_req body;
        } q = { .head = { .nlmsg_len = sizeof q,
                          .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                          .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                          .nlmsg_seq = ++serial },
                .body = { .sdiag_family = AF_UNIX, .udiag_states = 1U << STATE_LISTEN, .udiag_show = show } };

        if (send(diag, &q, sizeof q, 0) != (ssize_t)sizeof q)
                return -errno;

        return 0;
}

/* Reads one answer. 1: there is more. */
static int read_listeners(int diag, const struct wanted *wanted, uint32_t *ret) {
        static _Alignas(struct nlmsghdr) char answer[ANSWER_MAX];
        ssize_t got = recv(diag, answer, sizeof answer, 0);
        if (got < 0 && errno == EINTR)
                return 1;
        if (got < 0)
                return -errno;

        for (struct nlmsghdr *h = (struct nlmsghdr *)answer; NLMSG_OK(h, got); h = NLMSG_NEXT(h, got)) {
                if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR)
                        return 0;
                if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY || h->nlmsg_len < NLMSG_LENGTH(sizeof(struct unix_diag_msg)))
                        continue;

                struct unix_diag_msg *m = NLMSG_DATA(h);
                ssize_t left = (ssize_t)(h->nlmsg_len - NLMSG_LENGTH(sizeof *m));
                if (is_wanted(wanted, (struct rtattr *)(m + 1), left))
                        *ret = m->udiag_ino;
        }

        return 1;
}

uint32_t unix_listener_at(int diag, const struct stat *file, struct str name) {
        const struct wanted wanted = { file, name };
        uint32_t found = 0;
        int r = ask_listeners(diag, file ? UDIAG_SHOW_VFS : UDIAG_SHOW_NAME);

        if (r < 0)
                return 0;

        do
                r = read_listeners(diag, &wanted, &found);
        while (r == 1);

        if (r < 0)
                return 0;

        return found;
}
