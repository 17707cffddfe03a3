/* SPDX-License-Identifier: Apache-2.0 */
/* What of base/fd.h is Linux's own: closing a range, files that are sealed, descriptors that arrive close-on-exec. */
#include "base/fd.h"

#include "base/cleanup.h"
#include "base/fd_rights.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct listed {
        uint64_t inode;
        int64_t next;
        uint16_t length;
        uint8_t type;
        char name[];
};

/* Without close_range(), close what /proc lists; a limit says nothing about descriptors opened before it was set. Plain
 * system calls only, because this runs between fork and exec. Closing changes the list, so repeat until it is empty. */
static int close_listed_from(int first) {
        for (bool closed = true; closed;) {
                closed = false;
                cleanup(close_fd) int list = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                _Alignas(struct listed) char entries[4096];

                if (list < 0)
                        return -errno;

                for (long n; (n = syscall(SYS_getdents64, list, entries, sizeof entries)) != 0;) {
                        if (n < 0)
                                return -errno;
                        for (long at = 0; at < n;) {
                                const struct listed *entry = (const void *)(entries + at);
                                uint64_t fd;

                                if (str_to_u64(str_of(entry->name), INT_MAX, &fd) && (int)fd >= first &&
                                    (int)fd != list)
                                        closed |= close((int)fd) == 0;

                                at += entry->length;
                        }
                }
        }

        return 0;
}

int fd_close_from(int first) {
        if (syscall(SYS_close_range, (unsigned)first, UINT_MAX, 0) == 0)
                return 0;
        return close_listed_from(first);
}

/* Since Linux 6.3 a memfd says that it is data; where a host insists on it, one that does not say so is refused. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

int fd_sealed(const char *name, struct str content, int *ret_fd, struct err *err) {
        cleanup(close_fd) int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
        if (fd < 0 && errno == EINVAL)
                fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return err_errno(err, "cannot create the anonymous file %s", name);

        int r = fd_write_all(fd, content.p, content.n);
        if (r < 0)
                return err_set(err, -r, "cannot fill the anonymous file %s: %s", name, strerror(-r));
        if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
                return err_errno(err, "cannot seal the anonymous file %s", name);
        if (lseek(fd, 0, SEEK_SET) < 0)
                return err_errno(err, "cannot rewind the anonymous file %s", name);

        *ret_fd = take_fd(&fd);
        return 0;
}

bool fd_is_sealed(int fd, size_t *ret_size) {
        const int wanted = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK; /* seals cannot be taken back */
        int seals = fcntl(fd, F_GET_SEALS);
        struct stat st;

        if (seals < 0 || (seals & wanted) != wanted || fstat(fd, &st) < 0 || st.st_size < 0)
                return false;

        *ret_size = (size_t)st.st_size;
        return true;
}

int fd_pair(int ret[static 2]) {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret) < 0)
                return -errno;

        return 0;
}

bool fd_is_pair(int fd) {
        int type = 0;
        socklen_t n = sizeof type;

        return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_SEQPACKET;
}

int fd_send(int sock, struct str payload, const int *fds, size_t n_fds) {
        union fd_rights room = { 0 };

        if (payload.n == 0 || n_fds > FD_RIGHTS_MAX)
                return -EINVAL; /* descriptors travel only with at least one byte */

        struct iovec part = { (void *)payload.p, payload.n };
        struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };

        fd_rights_attach(&m, &room, fds, n_fds);
        for (;;) {
                ssize_t put = sendmsg(sock, &m, MSG_NOSIGNAL);
                if (put >= 0) {
                        if ((size_t)put != payload.n)
                                return -EMSGSIZE;
                        return 0;
                }
                if (errno != EINTR)
                        return -errno;
        }
}

/* Whoever closed a socket with messages unread leaves an error at the other end. It comes once, and before the last
 * words, which say why. */
static ssize_t receive_last_words(int sock, struct msghdr *msghdr) {
        const struct msghdr untouched = *msghdr;
        bool reset = false;

        for (;;) {
                ssize_t got = recvmsg(sock, msghdr, MSG_CMSG_CLOEXEC);
                if (got >= 0 || (errno != EINTR && (errno != ECONNRESET || reset)))
                        return got;

                reset = reset || errno == ECONNRESET;
                *msghdr = untouched;
        }
}

ssize_t fd_receive(int sock, void *payload, size_t payload_max, int *ret_fds, size_t max_fds, size_t *ret_n_fds) {
        union fd_rights room = { 0 };
        struct iovec part = { payload, payload_max };
        struct msghdr msghdr = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = room.bytes, .msg_controllen = sizeof room.bytes
        };
        ssize_t got = receive_last_words(sock, &msghdr);
        if (got < 0) {
                if (fd_rights_lacks_room(errno))
                        return -EAGAIN;
                return -errno;
        }

        size_t n = 0;
        int r = fd_rights_collect(&msghdr, ret_fds, max_fds, &n);
        if (r < 0)
                return r;

        if (msghdr.msg_flags & MSG_TRUNC) {
                fd_rights_close(ret_fds, n);
                return -EMSGSIZE;
        }

        *ret_n_fds = n;
        return got;
}
