/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the C library of macOS lacks and the portable part uses. Included before every file by scripts/macos, and by
 * nothing else. */
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

/* Errors that it has no number for; above its own. */
#define ENOTUNIQ 1076
#define EREMOTEIO 1077
#define ENOKEY 1078
#define EKEYREVOKED 1079
#define EKEYREJECTED 1080

/* To look at what is there, on Linux without opening it. Here it is opened for reading, and a pipe does not wait. */
#define O_PATH O_NONBLOCK

/* Flags for socket(), which has none here. */
#define SOCK_CLOEXEC 0x10000000
#define SOCK_NONBLOCK 0x20000000
int os_socket(int domain, int type, int protocol);
#define socket(domain, type, protocol) os_socket(domain, type, protocol)

int accept4(int fd, struct sockaddr *ret_from, socklen_t *from_n, int flags);
int pipe2(int ret_ends[2], int flags);

/* Where its kernel has no such flag, whoever sends ignores SIGPIPE. */
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif
/* The end of a peer is seen when it is read. */
#define POLLRDHUP 0

/* Several datagrams: one after the other. */
struct mmsghdr {
        struct msghdr msg_hdr;
        unsigned msg_len;
};
int recvmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags, void *limit);
int sendmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags);

/* The next writeback of the system does it. */
#define SYNC_FILE_RANGE_WRITE 0
#define sync_file_range(fd, offset, n, flags) 0
#define fdatasync(fd) fsync(fd)
/* The child may share nothing there. */
#define vfork() fork()

/* The same by another name. */
#define st_ctim st_ctimespec
#define st_mtim st_mtimespec

/* Its own has room for every number and name. */
#define dirent64 dirent
/* Never over something that is there. */
#define RENAME_NOREPLACE 1
int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
/* Whoever asks copies by hand then. */
ssize_t copy_file_range(int from, void *at, int to, void *to_at, size_t n, unsigned flags);

void *reallocarray(void *memory, size_t n, size_t size);
void *memrchr(const void *memory, int c, size_t n);
void explicit_bzero(void *memory, size_t n);

extern char **environ;
