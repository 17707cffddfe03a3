/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/door_process.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/processes/spawn.h"
#include "ipc/door_messages.h"
#include "roles/gateway_process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { READY_SECONDS = 10 };
static int door_greet(const struct door_process *door, const char *address, uint64_t seconds,
                      unsigned char ret_digest[static DOOR_DIGEST_BYTES], struct err *err) {
        const struct timeval limit = { .tv_sec = READY_SECONDS };
        char words[DOOR_WORDS_MAX];
        int n = snprintf(words, sizeof words, "%ju %s", (uintmax_t)seconds, address);

        if (n < 0 || (size_t)n >= sizeof words)
                return err_set(err, EINVAL, "the address is too long");

        if (setsockopt(door->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) < 0 ||
            send(door->fd, words, (size_t)n, MSG_NOSIGNAL) != n ||
            recv(door->fd, ret_digest, DOOR_DIGEST_BYTES, 0) != DOOR_DIGEST_BYTES)
                return err_set(err, EIO, "the process that speaks TLS with the phone does not begin");

        return 0;
}

int door_process_start(const char *address, uint64_t seconds, struct door_process *ret,
                       unsigned char ret_digest[static DOOR_DIGEST_BYTES], struct err *err) {
        cleanup(close_fd) int theirs = -1;
        struct door_process door = DOOR_NONE;
        int pair[2], r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return err_errno(err, "no socket for the process that speaks TLS with the phone");

        door.fd = pair[0];
        theirs = pair[1];
        r = gateway_errand("door", NULL, &theirs, 1, &door.pid, err);
        if (r == 0) {
                close_fd(&theirs);
                r = door_greet(&door, address, seconds, ret_digest, err);
        }

        if (r == 0 && fd_set_nonblocking(door.fd, true) < 0)
                r = err_set(err, EIO, "the socket of the process that speaks TLS cannot be used");

        if (r < 0) {
                door_process_stop(&door);
                return r;
        }

        *ret = door;
        return 0;
}

int door_process_hand(const struct door_process *door, int connection, int *ret_plain) {
        cleanup(close_fd) int ours = -1, theirs = -1;
        int pair[2], r;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return -errno;

        ours = pair[0];
        theirs = pair[1];
        const int fds[] = { connection, theirs };
        r = fd_send(door->fd, STR("c"), fds, 2);
        if (r < 0)
                return r;

        *ret_plain = take_fd(&ours);
        return 0;
}

void door_process_stop(struct door_process *door) {
        close_fd(&door->fd);
        if (door->pid > 0) {
                kill(door->pid, SIGKILL);
                (void)spawn_wait(door->pid);
        }
        door->pid = 0;
}
