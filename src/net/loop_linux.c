/* SPDX-License-Identifier: Apache-2.0 */
#include "net/loop_os.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

const bool loop_tells_ends = true;

int loop_wake_new(void) {
        return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void loop_wake_raise(int fd) {
        while (eventfd_write(fd, 1) < 0 && errno == EINTR)
                ;
}

void loop_wake_clear(int fd) {
        eventfd_t n;
        (void)eventfd_read(fd, &n);
}

/* recv() and send() of the C library are places where a thread may be cancelled, and pay for that with two locked
 * instructions each. No thread here is ever cancelled, so the system is called directly. */
ssize_t socket_receive(int fd, void *to, size_t n) {
        return syscall(SYS_recvfrom, fd, to, n, 0, NULL, NULL);
}

ssize_t socket_send(int fd, const void *from, size_t n) {
        return syscall(SYS_sendto, fd, from, n, MSG_NOSIGNAL, NULL, 0);
}
