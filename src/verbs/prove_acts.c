/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/prove_acts.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 5000, DNS_PORT = 53 };

static int open_in(const char *directory, const char *name, int flags) {
        cleanup(free_ptr) char *path = path_join(directory, name);
        if (!path)
                return -ENOMEM;
        cleanup(close_fd) int fd = open(path, flags | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;

        return 0;
}

static int read_denied(const struct prove_world *world) {
        return open_in(world->place, "secret/key", O_RDONLY);
}

static int write_outside(const struct prove_world *world) {
        return open_in(world->place, "planted", O_WRONLY | O_CREAT);
}

static int write_workspace(const struct prove_world *world) {
        return open_in(world->work, "made", O_WRONLY | O_CREAT);
}

/* --- network ---------------------------------------------------------------------------------------------------------
 */

static int wait_readable(int fd) {
        struct pollfd pollfd = { .fd = fd, .events = POLLIN };
        int n = poll(&pollfd, 1, WAIT_MS);
        if (n < 0)
                return -errno;

        if (n == 0)
                return -ETIMEDOUT;

        return 0;
}

/* Reached is who hears the server's greeting: a captured connection is accepted before it is judged. */
static int hear_greeting(const struct sockaddr_in *to) {
        cleanup(close_fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char greeting = 0;

        if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof *to) < 0)
                return -errno;

        int r = wait_readable(fd);
        if (r < 0)
                return r;

        ssize_t n = recv(fd, &greeting, 1, 0);
        if (n < 0)
                return -errno;

        if (n == 1 && greeting == PROVE_GREETING)
                return 0;

        return -ECONNABORTED;
}

/* A question for the name's address, as any resolver asks it. */
static int ask_dns(const char *name, struct in_addr *ret) {
        unsigned char packet[512] = { 0x42, 0x17, 1, 0, 0, 1 };
        size_t n = 12;
        struct str rest = str_of(name), label;
        while (str_split(&rest, '.', &label)) {
                packet[n++] = (unsigned char)label.n;
                memcpy(packet + n, label.p, label.n);
                n += label.n;
        }

        n++;
        packet[n + 1] = packet[n + 3] = 1; /* A, IN */
        n += 4;

        struct sockaddr_in server = { .sin_family = AF_INET,
                                      .sin_port = htons(DNS_PORT),
                                      .sin_addr = { htonl(INADDR_LOOPBACK) } };
        cleanup(close_fd) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&server, sizeof server) < 0 || send(fd, packet, n, 0) < 0)
                return -errno;

        int r = wait_readable(fd);
        if (r < 0)
                return r;

        ssize_t got = recv(fd, packet, sizeof packet, 0);
        if (got < (ssize_t)n + 16 || (packet[3] & 15) != 0 || packet[7] == 0)
                return -EHOSTUNREACH; /* refused, or no address */

        memcpy(ret, packet + n + 12, sizeof *ret);
        return 0;
}

static int reach_name(const struct prove_world *world, const char *name, uint16_t port) {
        struct sockaddr_in to = { .sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr = { htonl(INADDR_LOOPBACK) } };
        int r = world->inside ? ask_dns(name, &to.sin_addr) : 0; /* outside the server is simply here */
        if (r < 0)
                return r;

        return hear_greeting(&to);
}

static int reach_allowed(const struct prove_world *world) {
        return reach_name(world, PROVE_ALLOWED_NAME, world->allowed);
}

static int reach_refused_name(const struct prove_world *world) {
        return reach_name(world, PROVE_REFUSED_NAME, world->refused);
}

static int reach_host_loopback(const struct prove_world *world) {
        struct sockaddr_in to = { .sin_family = AF_INET,
                                  .sin_port = htons(world->refused),
                                  .sin_addr = { htonl(INADDR_LOOPBACK) } };
        return hear_greeting(&to);
}

static int send_datagram(const struct prove_world *world) {
        /* Inside to an address that no rule allows (documentation network); outside to ourselves. */
        struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
        if (world->inside)
                to.sin_addr.s_addr = htonl(0xc0000201);
        else
                to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        cleanup(close_fd) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof to) == 1)
                return 0;

        return -errno;
}

static int reach_host_socket(const struct prove_world *world) {
        struct sockaddr_un to = { .sun_family = AF_UNIX };
        cleanup(close_fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 ||
            (size_t)snprintf(to.sun_path, sizeof to.sun_path, "%s/socket", world->place) >= sizeof to.sun_path)
                return -errno;
        if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
                return -errno;

        return 0;
}

/* --- kernel ----------------------------------------------------------------------------------------------------------
 */

static int new_user_namespace(const struct prove_world *world) {
        (void)world;
        pid_t pid = fork();
        if (pid == 0)
                _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : errno);

        int status = 0;
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                return -errno;

        if (!WIFEXITED(status))
                return -EINTR;

        return -WEXITSTATUS(status);
}

/* The kernel's netlink for sockets of all processes: ordinary outside, not among the families inside. */
static int diagnostics_socket(const struct prove_world *world) {
        enum { NETLINK_DIAGNOSTICS = 4 };
        (void)world;
        cleanup(close_fd) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_DIAGNOSTICS);
        if (fd < 0)
                return -errno;

        return 0;
}

static bool process_is_named(int proc_fd, const char *number, const char *name) {
        cleanup(free_ptr) char *path = path_join(number, "comm");
        char text[32];

        cleanup(close_fd) int fd = path ? openat(proc_fd, path, O_RDONLY | O_CLOEXEC) : -1;
        ssize_t n = -1;

        if (fd >= 0)
                n = read(fd, text, sizeof text);

        return n > 0 && text[n - 1] == '\n' && str_is(str_n(text, (size_t)n - 1), name);
}

/* The server outside, by its name. Numbers would not tell: those of a sandbox begin anew, and so do a container's. */
static int see_others(const struct prove_world *world) {
        DIR *proc = opendir("/proc");
        const struct dirent *entry;
        int r = -ESRCH;

        (void)world;
        if (!proc)
                return -errno;

        while (r < 0 && (entry = readdir(proc)))
                if (ascii_is_digit(entry->d_name[0]) && process_is_named(dirfd(proc), entry->d_name, PROVE_SERVER))
                        r = 0;

        closedir(proc);

        return r;
}

const struct prove_act prove_acts[] = {
        { "write in the workspace", true, write_workspace },
        { "reach an allowed host by name", true, reach_allowed },
        { "read a denied file", false, read_denied },
        { "write outside the workspace", false, write_outside },
        { "reach a refused host by name", false, reach_refused_name },
        { "reach a port of the host's loopback", false, reach_host_loopback },
        { "send a datagram out", false, send_datagram },
        { "connect to a Unix socket of the host", false, reach_host_socket },
        { "make a user namespace", false, new_user_namespace },
        { "open a netlink socket other than route", false, diagnostics_socket },
        { "see a process outside", false, see_others },
};
const size_t n_prove_acts = sizeof prove_acts / sizeof prove_acts[0];
