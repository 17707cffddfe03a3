/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/containers.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/processes/spawn.h"
#include "base/vec.h"
#include "egress/egress.h"
#include "roles/listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONTAINERS_MAX = 64, WAITING_MAX = 64, ACCEPTED_AT_ONCE = 64, ADDRESSES_MAX = 4 * CONTAINERS_MAX };
#define FIND_NS (30 * NS_PER_SECOND) /* the engine is slow; after this the address is nobody's */
#define NOBODY_NS                                                                                                      \
        (3 * NS_PER_SECOND) /* how long that is believed: a container that has just begun may not be listed            \
                             */
#define END_NS (8 * NS_PER_SECOND)
#define PAUSE_NS (100 * NS_PER_MS)

enum place_state {
        PLACE_FINDING, /* the engine is being asked; connections wait */
        PLACE_HELD,    /* a container's */
        PLACE_NOBODY,  /* no container's, until until_ns */
        PLACE_ENDING,  /* its process is to end; the address may be another place's already */
};

/* An address at the bridge, and the process that serves it. */
struct place {
        enum place_state state;
        struct addr addr;
        pid_t pid;         /* 0: none */
        int process;       /* a descriptor of it */
        int control, door; /* -1: none */
        int first;         /* of the container's first process; -1: not known */
        uint64_t until_ns;
        bool closed; /* nobody's, and nobody is let through */
        VEC(int) waiting;
};

struct containers {
        struct containers_settings settings;
        int listener;
        int own[2]; /* the service's own gateway: it reads from the second */
        uint64_t paused_until_ns;
        VEC(struct place *) places;
};

static void containers_say(const struct containers *containers, bool bad, const struct place *place, const char *text) {
        char address[ADDR_TEXT_MAX], line[ERR_TEXT_MAX + 128];

        addr_text(&place->addr, address);
        snprintf(line, sizeof line, "%s: %s", address, text);
        containers->settings.on_message(containers->settings.arg, bad, line);
}

/*
 * Handing over. A connection that does not fit is closed: a gateway that takes nothing serves nobody.
 */
static void door_hand(int door, int *fd) {
        if (door >= 0)
                (void)fd_send(door, STR("c"), fd, 1);
        close_fd(fd);
}

static void place_hand_all(struct place *place, int door) {
        for (size_t i = 0; i < place->waiting.n; i++)
                door_hand(door, &place->waiting.p[i]);
        place->waiting.n = 0;
}

/*
 * Places.
 */
static void place_free(struct place *place) {
        place_hand_all(place, -1);
        vec_done(&place->waiting);
        close_fd(&place->control);
        close_fd(&place->door);
        close_fd(&place->first);
        close_fd(&place->process);
        free(place);
}

static void containers_remove(struct containers *containers, size_t i) {
        place_free(containers->places.p[i]);
        memmove(&containers->places.p[i], &containers->places.p[i + 1],
                (containers->places.n - i - 1) * sizeof *containers->places.p);
        containers->places.n--;
}

/* Closing both sockets tells its process to end; it is reaped afterwards. */
static void place_end(struct place *place) {
        close_fd(&place->control);
        close_fd(&place->door);
        close_fd(&place->first);
        place_hand_all(place, -1);
        place->state = PLACE_ENDING;
        place->until_ns = clock_ns() + END_NS;
}

static struct place *containers_find(const struct containers *containers, const struct addr *addr) {
        for (size_t i = 0; i < containers->places.n; i++) {
                struct place *place = containers->places.p[i];

                if (place->state != PLACE_ENDING && addr_equal(&place->addr, addr))
                        return place;
        }
        return NULL;
}

static size_t containers_running(const struct containers *containers) {
        size_t n = 0;

        for (size_t i = 0; i < containers->places.n; i++)
                n += containers->places.p[i]->pid != 0;
        return n;
}

static int place_spawn(const struct containers *containers, struct place *place, struct err *err) {
        char self[PATH_MAX], address[ADDR_TEXT_MAX], at[LISTEN_TEXT_MAX];
        char *const argv[] = { (char *)"bailey",
                               (char *)"egress",
                               (char *)"contain",
                               (char *)containers->settings.engine,
                               address,
                               at,
                               NULL };
        int control[2], door[2];
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

        if (n <= 0)
                return err_errno(err, "cannot find out where this program is (/proc/self/exe)");

        self[n] = '\0';
        addr_text(&place->addr, address);
        listen_text(&containers->settings.at, at);

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, control) < 0)
                return err_errno(err, "cannot make a socket");

        place->control = control[0];
        cleanup(close_fd) int control_there = control[1];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, door) < 0)
                return err_errno(err, "cannot make a socket");

        place->door = door[0];
        cleanup(close_fd) int door_there = door[1];

        const int fds[] = { control_there, door_there };
        const struct spawn spawn = { .program = self,
                                     .argv = argv,
                                     .environment = environ,
                                     .input = SPAWN_NULL,
                                     .output = SPAWN_KEEP,
                                     .errors = SPAWN_KEEP,
                                     .fds = fds,
                                     .n_fds = 2,
                                     .flags = SPAWN_OWN_SESSION | SPAWN_AT_ROOT | SPAWN_PRIVATE };
        int r = spawn_start(&spawn, &place->pid, err);
        if (r < 0)
                return r;

        place->process = (int)syscall(SYS_pidfd_open, place->pid, 0); /* below 0: looked after by time */
        return 0;
}

/* A place for an address that has none. NULL: there are too many, or nothing can be started. */
static struct place *containers_begin(struct containers *containers, const struct addr *addr) {
        struct err err = { 0 };

        if (containers->places.n >= ADDRESSES_MAX || containers_running(containers) >= CONTAINERS_MAX)
                return NULL;

        struct place *place = calloc(1, sizeof *place);
        if (!place)
                return NULL;

        *place = (struct place){ .state = PLACE_FINDING,
                                 .addr = *addr,
                                 .process = -1,
                                 .control = -1,
                                 .door = -1,
                                 .first = -1,
                                 .until_ns = clock_ns() + FIND_NS };
        int r = place_spawn(containers, place, &err);
        if (r < 0)
                containers_say(containers, true, place, err_text(&err));

        if (r < 0 || vec_push(&containers->places, place) < 0) {
                if (place->pid) {
                        kill(place->pid, SIGKILL); /* our own child, not reaped */
                        (void)spawn_wait(place->pid);
                }

                place_free(place);
                return NULL;
        }

        return place;
}

/* The container that had the address is gone when its first process is. */
static bool place_holds(const struct place *place) {
        struct pollfd ended = { .fd = place->first, .events = POLLIN };

        return place->first >= 0 && poll(&ended, 1, 0) == 0;
}

static void containers_dispatch(struct containers *containers, const struct addr *from, int *fd) {
        struct place *place = containers_find(containers, from);

        if (place && place->state == PLACE_HELD && !place_holds(place)) {
                place_end(place);
                place = NULL;
        }

        if (!place)
                place = containers_begin(containers, from);

        if (!place)
                door_hand(egress_containers_deny() ? -1 : containers->own[0], fd);
        else if (place->state == PLACE_NOBODY)
                door_hand(place->closed ? -1 : containers->own[0], fd);
        else if (place->state == PLACE_HELD)
                door_hand(place->door, fd);
        else if (place->waiting.n >= WAITING_MAX || vec_push(&place->waiting, *fd) < 0)
                close_fd(fd);
        else
                *fd = -1;
}

static void containers_accept(struct containers *containers) {
        for (unsigned i = 0; i < ACCEPTED_AT_ONCE; i++) {
                struct sockaddr_storage from = { 0 };
                socklen_t n = sizeof from;
                struct addr addr = { 0 };
                uint16_t port;
                int one = 1,
                    fd = accept4(containers->listener, (struct sockaddr *)&from, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);

                if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
                        continue;

                if (fd < 0) {
                        if (errno != EAGAIN) /* no descriptors, no memory: what is open goes on */
                                containers->paused_until_ns = clock_ns() + PAUSE_NS;
                        return;
                }

                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                if (addr_from_sockaddr((const struct sockaddr *)&from, &addr, &port))
                        containers_dispatch(containers, &addr, &fd);

                close_fd(&fd);
        }
}

/*
 * The process of a place.
 */
static void place_is_nobody(struct containers *containers, struct place *place) {
        place_hand_all(place, place->closed ? -1 : containers->own[0]);
        close_fd(&place->control);
        close_fd(&place->door);
        place->state = PLACE_NOBODY;
        place->until_ns = clock_ns() + NOBODY_NS;
}

/* It may be a container that is denied what the service's own list allows. */
static void place_is_unknown(struct containers *containers, struct place *place, const char *why) {
        char text[256];

        place->closed = egress_containers_deny();
        snprintf(text, sizeof text, "%s; %s", why,
                 place->closed ? "connections from it are closed, since something is denied to one container alone"
                               : "the service's own list counts for it");
        containers_say(containers, true, place, text);
        place_is_nobody(containers, place);
}

static void place_hear(struct containers *containers, struct place *place) {
        char byte = 0;
        size_t n = 0;
        int first = -1;
        ssize_t got = fd_receive(place->control, &byte, 1, &first, 1, &n);

        if (got == -EAGAIN)
                return;

        if (got == 1 && byte == CONTAINER_HELD && n == 1 && place->state == PLACE_FINDING) {
                place->first = first;
                place->state = PLACE_HELD;
                place_hand_all(place, place->door);
                return;
        }

        close_fd(&first);

        if (place->state != PLACE_FINDING)
                place_end(place); /* killed, or it could not start: its log line says why */
        else if (got == 1 && byte == CONTAINER_NOBODY && !egress_containers_deny())
                place_is_nobody(containers, place);
        else if (got == 1 && byte == CONTAINER_NOBODY) /* one that starts is listed a moment later */
                place_is_unknown(containers, place, "no container has this address");
        else
                place_is_unknown(containers, place, "the engine does not say whose address this is");
}

/* True: there is nothing left of it. */
static bool place_reap(struct place *place, uint64_t now) {
        if (place->pid && waitpid(place->pid, NULL, WNOHANG) == place->pid) {
                place->pid = 0;
                close_fd(&place->process);
        }

        if (place->pid && now >= place->until_ns) {
                kill(place->pid, SIGKILL); /* our own child, not reaped */
                place->until_ns = now + END_NS;
        }

        return place->pid == 0;
}

static void place_step(struct containers *containers, struct place *place, struct poller *poller, uint64_t now) {
        if (place->control >= 0 && poller_ready(poller, place->control))
                place_hear(containers, place);
        if (place->state == PLACE_HELD && !place_holds(place))
                place_end(place);

        if (place->state == PLACE_FINDING && now >= place->until_ns)
                place_is_unknown(containers, place, "the engine takes too long to say whose address this is");
}

static void containers_watch(void *arg, struct poller *poller) {
        const struct containers *containers = arg;

        poller_watch(poller, clock_ns() < containers->paused_until_ns ? -1 : containers->listener, POLLIN);
        poller_until(poller, containers->paused_until_ns ? containers->paused_until_ns : CLOCK_NEVER);

        for (size_t i = 0; i < containers->places.n; i++) {
                const struct place *place = containers->places.p[i];

                poller_watch(poller, place->control, POLLIN);
                poller_watch(poller, place->first, POLLIN);
                if (place->state == PLACE_ENDING || place->state == PLACE_NOBODY)
                        poller_watch(poller, place->process, POLLIN);
                if (place->state != PLACE_HELD)
                        poller_until(poller, place->until_ns);
        }
}

static int containers_step(void *arg, struct poller *poller, struct err *err) {
        struct containers *containers = arg;
        uint64_t now = clock_ns();

        (void)err;
        if (containers->paused_until_ns && now >= containers->paused_until_ns)
                containers->paused_until_ns = 0;

        for (size_t i = containers->places.n; i-- > 0;) {
                struct place *place = containers->places.p[i];

                place_step(containers, place, poller, now);
                if (place->state == PLACE_FINDING || place->state == PLACE_HELD)
                        continue;

                bool over = place->state == PLACE_ENDING || now >= place->until_ns;
                if (place_reap(place, now) && over)
                        containers_remove(containers, i);
        }

        if (poller_ready(poller, containers->listener))
                containers_accept(containers);

        return 0;
}

struct poller_part containers_part(struct containers *containers) {
        return (struct poller_part){ containers_watch, containers_step, containers };
}

/*
 * Life.
 */
int containers_own(const struct containers *containers) {
        if (!containers)
                return -1;

        return containers->own[1];
}

const struct endpoint *containers_at(const struct containers *containers) {
        return &containers->settings.at;
}

void containers_reload(struct containers *containers) {
        for (size_t i = 0; containers && i < containers->places.n; i++)
                if (containers->places.p[i]->state == PLACE_HELD)
                        kill(containers->places.p[i]->pid, SIGHUP); /* our own child, not reaped */
}

int containers_open(const struct containers_settings *settings, struct containers **ret, struct err *err) {
        struct containers *containers = calloc(1, sizeof *containers);
        int r;

        if (!containers)
                return err_memory(err);

        *containers = (struct containers){ .settings = *settings, .listener = -1, .own = { -1, -1 } };

        r = listen_tcp(&containers->settings.at, &containers->listener, err);
        if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, containers->own) < 0)
                r = err_errno(err, "cannot make a socket");

        if (r < 0) {
                containers_close(containers);
                return r;
        }

        *ret = containers;
        return 0;
}

void containers_close(struct containers *containers) {
        if (!containers)
                return;

        close_fd(&containers->listener);
        for (size_t i = 0; i < containers->places.n; i++)
                place_end(containers->places.p[i]);

        for (size_t i = 0; i < containers->places.n; i++) {
                struct place *place = containers->places.p[i];
                uint64_t now = clock_ns();
                struct pollfd ended = { .fd = place->process, .events = POLLIN };

                if (place->pid && place->process >= 0 && now < place->until_ns)
                        (void)poll(&ended, 1, (int)((place->until_ns - now) / NS_PER_MS + 1));

                if (place->pid && !place_reap(place, clock_ns())) {
                        kill(place->pid, SIGKILL); /* our own child, not reaped */
                        (void)spawn_wait(place->pid);
                }
        }

        while (containers->places.n)
                containers_remove(containers, containers->places.n - 1);

        vec_done(&containers->places);
        close_fd(&containers->own[0]);
        close_fd(&containers->own[1]);
        free(containers);
}
