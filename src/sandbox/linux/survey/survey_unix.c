/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of Unix sockets, as sock_diag(7) tells them. The list in /proc has a line for each end of each pair as well,
 * and every sandbox that runs has some of them: to print those took longer than all the rest. Here they have a few
 * bytes each, because they have no name. Connected ones are asked for, too: a datagram socket that receives from
 * anybody counts as connected from the first one on that connects to it. Where the kernel has no sock_diag, or does not
 * let us ask, that list is read all the same.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/survey/survey_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { STATE_CONNECTED = 1, STATE_CLOSED = 7, STATE_LISTENS = 10 }; /* TCP's numbers */
enum { ANSWER_MAX = 32 << 10, ANSWER_SECONDS = 5 };

static int ask_for_names(int fd) {
        const struct {
                struct nlmsghdr head;
                struct unix_diag_req body;
        } ask = {
                .head = { .nlmsg_len = sizeof ask,
                          .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                          .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
                .body = { .sdiag_family = AF_UNIX,
                          .udiag_states = 1U << STATE_CONNECTED | 1U << STATE_CLOSED | 1U << STATE_LISTENS,
                          .udiag_show = UDIAG_SHOW_NAME },
        };
        const struct timeval patience = { .tv_sec = ANSWER_SECONDS };

        if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0)
                return -errno;

        return send(fd, &ask, sizeof ask, 0) == (ssize_t)sizeof ask ? 0 : -errno;
}

/* Names in the file system; others begin with a NUL, or do not exist. */
static int take_name(const struct nlmsghdr *message, struct buf *ret) {
        const struct unix_diag_msg *socket = NLMSG_DATA(message);
        const struct rtattr *attribute = (const struct rtattr *)(socket + 1);
        int left, r = 0;

        if (message->nlmsg_len < NLMSG_LENGTH(sizeof *socket))
                return -EBADMSG;
        left = (int)(message->nlmsg_len - NLMSG_LENGTH(sizeof *socket));

        for (; RTA_OK(attribute, left) && r == 0; attribute = RTA_NEXT(attribute, left)) {
                const char *name = RTA_DATA(attribute);
                size_t n = RTA_PAYLOAD(attribute);

                if (attribute->rta_type != UNIX_DIAG_NAME || n == 0 || name[0] != '/')
                        continue;

                r = buf_append(ret, str_n(name, strnlen(name, n)));
                if (r == 0)
                        r = buf_append(ret, str_n("", 1));
        }

        return r;
}

/* 1, or the error that ended it early. */
static int take_end(const struct nlmsghdr *message) {
        const int *error = NLMSG_DATA(message);

        if (message->nlmsg_len >= NLMSG_LENGTH(sizeof *error) && *error < 0)
                return *error;

        return 1;
}

/* 1: that was the last one. */
static int take_answer(const char *bytes, size_t n, struct buf *ret) {
        const struct nlmsghdr *message = (const struct nlmsghdr *)bytes;
        int r = 0;

        for (; NLMSG_OK(message, n) && r == 0; message = NLMSG_NEXT(message, n)) {
                if (message->nlmsg_flags & NLM_F_DUMP_INTR)
                        r = -EINTR;
                else if (message->nlmsg_type == NLMSG_DONE)
                        r = take_end(message);
                else if (message->nlmsg_type == SOCK_DIAG_BY_FAMILY)
                        r = take_name(message, ret);
                else
                        r = -EBADMSG;
        }

        return r;
}

int survey_unix_names(struct buf *ret) {
        _Alignas(struct nlmsghdr) char answer[ANSWER_MAX];
        cleanup(close_fd) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
        int r = fd < 0 ? -errno : ask_for_names(fd);

        while (r == 0) {
                ssize_t n = recv(fd, answer, sizeof answer, MSG_TRUNC);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        r = n < 0 ? -errno : -EBADMSG;
                else
                        r = (size_t)n > sizeof answer ? -EMSGSIZE : take_answer(answer, (size_t)n, ret);
        }

        return r < 0 ? r : 0;
}
