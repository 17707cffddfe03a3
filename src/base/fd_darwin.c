/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of base/fd.h is macOS's own. There are no sealed files: a file without a name takes their place, of which only a
 * descriptor for reading is left. Whoever gets that can neither write nor cut it, and cannot open it again. Messages go
 * over a stream (base/fd_stream.h).
 */
#include "base/fd.h"

#include "base/cleanup.h"
#include "base/fd_nameless.h"
#include "base/fd_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM = 256 << 10, WHOLE = 80 << 10, LISTED_MAX = 1 << 16 };

/* Called between fork and exec too: system calls only. The limit may have been lower once, but nothing of ours is high.
 */
int fd_close_from(int first) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return -errno;

        int end = limit.rlim_cur < LISTED_MAX ? (int)limit.rlim_cur : LISTED_MAX;
        for (int fd = first; fd < end; fd++)
                close(fd);
        return 0;
}

/* The file is there under its name for a moment, readable for its owner alone. */
int fd_nameless(const char *name, int *ret_writer, int *ret_reader) {
        const char *folder = getenv("TMPDIR");
        cleanup(free_ptr) char *path = str_format("%s/bailey-%s.XXXXXX", folder && *folder ? folder : "/tmp", name);
        if (!path)
                return -ENOMEM;

        cleanup(close_fd) int writer = mkstemp(path);
        if (writer < 0)
                return -errno;

        cleanup(close_fd) int reader = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        int r = reader < 0 ? -errno : 0;
        struct stat a, b;
        if (unlink(path) < 0 && r == 0)
                r = -errno;
        if (r == 0 && (fstat(writer, &a) < 0 || fstat(reader, &b) < 0 || a.st_ino != b.st_ino || a.st_dev != b.st_dev))
                r = -EBUSY; /* somebody put another one there */
        if (r < 0)
                return r;

        (void)fcntl(writer, F_SETFD, FD_CLOEXEC);
        *ret_writer = take_fd(&writer);
        *ret_reader = take_fd(&reader);
        return 0;
}

int fd_sealed(const char *name, struct str content, int *ret_fd, struct err *err) {
        cleanup(close_fd) int writer = -1, reader = -1;
        int r = fd_nameless(name, &writer, &reader);

        if (r == 0)
                r = fd_write_all(writer, content.p, content.n);
        if (r < 0)
                return err_set(err, -r, "cannot fill the anonymous file %s: %s", name, strerror(-r));

        *ret_fd = take_fd(&reader);
        return 0;
}

bool fd_is_sealed(int fd, size_t *ret_size) {
        int flags = fcntl(fd, F_GETFL);
        struct stat st;

        if (flags < 0 || (flags & O_ACCMODE) != O_RDONLY || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
            st.st_nlink != 0 || st.st_size < 0)
                return false;

        *ret_size = (size_t)st.st_size;
        return true;
}

/* With room for several of the largest messages; it counts as full when the largest would not fit, so that hardly any
 * message is ever sent in parts. */
int fd_pair(int ret[static 2]) {
        const int room = ROOM, whole = WHOLE;

        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ret) < 0)
                return -errno;

        for (int i = 0; i < 2; i++) {
                (void)fcntl(ret[i], F_SETFD, FD_CLOEXEC);
                (void)setsockopt(ret[i], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
                (void)setsockopt(ret[i], SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
                (void)setsockopt(ret[i], SOL_SOCKET, SO_SNDLOWAT, &whole, sizeof whole);
                int r = fd_set_nonblocking(ret[i], true);
                if (r < 0) {
                        close(ret[0]);
                        close(ret[1]);
                        return r;
                }
        }

        return 0;
}

bool fd_is_pair(int fd) {
        struct sockaddr_storage name = { 0 };
        socklen_t name_size = sizeof name;
        int type = 0;
        socklen_t n = sizeof type;

        /* A stream alone could be TCP. An end of a pair has no name, and the kernel may say so by giving nothing. */
        if (getsockname(fd, (struct sockaddr *)&name, &name_size) < 0 || (name_size > 0 && name.ss_family != AF_UNIX))
                return false;

        return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_STREAM;
}

int fd_send(int sock, struct str payload, const int *fds, size_t n_fds) {
        return fd_stream_send(sock, payload, fds, n_fds);
}

ssize_t fd_receive(int sock, void *payload, size_t payload_max, int *ret_fds, size_t max_fds, size_t *ret_n_fds) {
        return fd_stream_receive(sock, payload, payload_max, ret_fds, max_fds, ret_n_fds);
}
