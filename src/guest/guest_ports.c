/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_ports.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "guest/guest_exec.h"
#include "run/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BACKLOG = 64, CONNECTIONS_MAX = 256, LOOK_MS = 1000, CLOSE_WAIT_MS = 5000, NAME_SIZE = 32 };

struct keeper {
        const struct guest *guest;
        uint16_t inside;
        char name[NAME_SIZE]; /* of its file */
        int listener, file;
        unsigned connections;
};

static struct sockaddr_in ports_loopback(uint16_t port) {
        return (struct sockaddr_in){ .sin_family = AF_INET,
                                     .sin_port = htons(port),
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static int listener_open(uint16_t port, int *ret, struct err *err) {
        const struct sockaddr_in at = ports_loopback(port);
        const int on = 1;
        cleanup(close_fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
            bind(fd, (const struct sockaddr *)&at, sizeof at) < 0 || listen(fd, BACKLOG) < 0)
                return err_errno(err, "cannot listen on port %u of 127.0.0.1", port);

        *ret = take_fd(&fd);
        return 0;
}

/*
 * The keeper.
 */
static _Noreturn void connection_main(const struct keeper *keeper, int connection) {
        char port[16];
        int status = 0;

        close(keeper->file); /* the port may be closed while this goes on */
        snprintf(port, sizeof port, "%u", keeper->inside);
        char *argv[] = { (char *)RUN_GUEST_PROGRAM, (char *)"guest-connect", port, NULL };
        const struct guest_command command = { .argv = argv, .input = connection, .output = connection, .errors = -1 };
        (void)guest_exec(keeper->guest, &command, NULL, NULL, &status, NULL);
        _exit(0);
}

static void keeper_accept(struct keeper *keeper) {
        cleanup(close_fd) int connection = accept4(keeper->listener, NULL, NULL, SOCK_CLOEXEC);

        if (connection < 0)
                return;

        pid_t pid = fork();
        if (pid == 0) {
                close_fd(&keeper->listener);
                connection_main(keeper, connection);
        }

        keeper->connections += pid > 0;
}

/* As long as the guest runs and the file is the one that this keeper holds. */
static bool keeper_is_wanted(const struct keeper *keeper) {
        struct stat held, there;

        return guest_is_running(keeper->guest) && fstat(keeper->file, &held) == 0 &&
               fstatat(keeper->guest->fd, keeper->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
               held.st_ino == there.st_ino;
}

static _Noreturn void keeper_main(struct keeper *keeper) {
        char place[64], events[4096];
        cleanup(close_fd) int nothing = open("/dev/null", O_RDWR | O_CLOEXEC),
                              watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

        if (keeper->guest->lock >= 0)
                close(keeper->guest->lock); /* whoever published the port is done with the guest */

        (void)setsid();
        (void)signal(SIGHUP, SIG_IGN);
        (void)signal(SIGPIPE, SIG_IGN);

        if (nothing < 0 || chdir("/") < 0 || dup2(nothing, 0) < 0 || dup2(nothing, 1) < 0 || dup2(nothing, 2) < 0)
                _exit(1);

        /* The guest's socket goes with it; the file goes when the port is closed. */
        snprintf(place, sizeof place, "/proc/self/fd/%d", keeper->guest->fd);
        (void)inotify_add_watch(watch, place, IN_DELETE);
        snprintf(place, sizeof place, "/proc/self/fd/%d/ports", keeper->guest->fd);
        (void)inotify_add_watch(watch, place, IN_DELETE);

        while (keeper_is_wanted(keeper)) {
                bool full = keeper->connections >= CONNECTIONS_MAX;
                struct pollfd fds[] = { { .fd = full ? -1 : keeper->listener, .events = POLLIN },
                                        { .fd = watch, .events = POLLIN } };

                (void)poll(fds, 2, LOOK_MS);
                while (read(watch, events, sizeof events) > 0)
                        ;

                if (fds[0].revents)
                        keeper_accept(keeper);

                while (keeper->connections && waitpid(-1, NULL, WNOHANG) > 0)
                        keeper->connections--;
        }

        _exit(0); /* connections that are open go on until one of their sides ends */
}

static int keeper_spawn(struct keeper *keeper, struct err *err) {
        int status;
        pid_t pid = fork();

        if (pid < 0)
                return err_errno(err, "cannot make a process");

        if (pid == 0) {
                if (fork() == 0)
                        keeper_main(keeper);
                _exit(0);
        }

        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;

        return 0;
}

/*
 * From outside.
 */
static int file_open(const struct guest *guest, const char *name, int *ret, struct err *err) {
        if (mkdirat(guest->fd, "ports", 0700) < 0 && errno != EEXIST)
                return err_errno(err, "cannot make %s/ports", guest->directory);

        cleanup(close_fd) int fd = openat(guest->fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return err_errno(err, "cannot open %s/%s", guest->directory, name);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return err_set(err, EEXIST, "this port is published already");

        *ret = take_fd(&fd);
        return 0;
}

int guest_port_open(struct guests *guests, const struct guest *guest, uint16_t outside, uint16_t inside,
                    struct err *err) {
        struct keeper keeper = { .guest = guest, .inside = inside, .listener = -1, .file = -1 };

        snprintf(keeper.name, sizeof keeper.name, "ports/%u", outside);
        int r = listener_open(outside, &keeper.listener, err);
        if (r == 0)
                r = file_open(guest, keeper.name, &keeper.file, err);

        if (r == 0) {
                guests_pause(guests);
                r = keeper_spawn(&keeper, err);
                int resumed = guests_resume(guests, r < 0 ? NULL : err);

                if (r == 0)
                        r = resumed;
        }

        close_fd(&keeper.listener);
        close_fd(&keeper.file);

        return r;
}

int guest_port_close(const struct guest *guest, uint16_t outside, struct err *err) {
        const struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };
        uint64_t until = clock_after_ms(CLOSE_WAIT_MS);
        char name[NAME_SIZE];

        snprintf(name, sizeof name, "ports/%u", outside);
        cleanup(close_fd) int fd = guest->fd < 0 ? -1 : openat(guest->fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return 0;

        bool kept = flock(fd, LOCK_EX | LOCK_NB) < 0;
        if (unlinkat(guest->fd, name, 0) < 0)
                return err_errno(err, "cannot remove %s/%s", guest->directory, name);

        while (kept && flock(fd, LOCK_SH | LOCK_NB) < 0) { /* until its keeper is gone */
                if (clock_ns() >= until)
                        return err_set(err, ETIMEDOUT, "the keeper of port %u does not end", outside);
                nanosleep(&pause, NULL);
        }

        return kept;
}

int guest_ports_close(const struct guest *guest, struct err *err) {
        cleanup(close_fd) int fd =
            guest->fd < 0 ? -1 : openat(guest->fd, "ports", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *list = fd < 0 ? NULL : fdopendir(fd);
        int r = 0;

        if (!list)
                return 0;

        (void)take_fd(&fd);

        for (const struct dirent *entry; r >= 0 && (entry = readdir(list));) {
                uint64_t port;
                if (str_to_u64(str_of(entry->d_name), UINT16_MAX, &port))
                        r = guest_port_close(guest, (uint16_t)port, err);
        }

        closedir(list);
        if (r < 0)
                return r;

        return 0;
}

/*
 * Inside.
 */
static void bytes_carry(int from, int to) {
        static char piece[64 << 10];

        for (;;) {
                ssize_t n = read(from, piece, sizeof piece);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0 || fd_write_all(to, piece, (size_t)n) < 0)
                        return;
        }
}

int guest_connect(uint16_t port) {
        const struct sockaddr_in at = ports_loopback(port);
        cleanup(close_fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || connect(fd, (const struct sockaddr *)&at, sizeof at) < 0)
                return 1;

        pid_t pid = fork();
        if (pid < 0)
                return 1;

        if (pid == 0) {
                bytes_carry(STDIN_FILENO, fd);
                (void)shutdown(fd, SHUT_WR);
                _exit(0);
        }

        bytes_carry(fd, STDOUT_FILENO);
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);

        return 0;
}
