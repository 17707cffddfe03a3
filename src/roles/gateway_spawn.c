/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/gateway_spawn.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/processes/spawn.h"
#include "ipc/gateway_messages.h"
#include "roles/gateway_process.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static_assert(GATEWAY_FD_LISTENERS + GATEWAY_LISTENERS_MAX + 1 + GATEWAY_WORKERS_MAX <= 3 + SPAWN_FDS_MAX,
              "the most that a gateway is given");

int gateway_spawn(const char *program, int start_block, int snapshot, const int *others, size_t n_others,
                  struct gateway_child *ret, struct err *err) {
        enum { FIRST = GATEWAY_FD_START };
        int control[2], events[2], fds[SPAWN_FDS_MAX];

        if (n_others > SPAWN_FDS_MAX - (GATEWAY_FD_LISTENERS - FIRST))
                return err_set(err, EINVAL, "%zu descriptors for the gateway", n_others);

        int r = fd_pair(control);
        if (r < 0)
                return err_set(err, -r, "cannot create the gateway's control socket: %s", strerror(-r));

        cleanup(close_fd) int control_ours = control[0], control_its = control[1];
        r = fd_pair(events);
        if (r < 0)
                return err_set(err, -r, "cannot create the gateway's event socket: %s", strerror(-r));

        cleanup(close_fd) int events_ours = events[0], events_its = events[1];
        (void)shutdown(events_ours, SHUT_WR); /* one direction */
        const int room = 1 << 20;
        (void)setsockopt(events_its, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);

        fds[GATEWAY_FD_START - FIRST] = start_block;
        fds[GATEWAY_FD_CONTROL - FIRST] = control_its;
        fds[GATEWAY_FD_EVENTS - FIRST] = events_its;
        fds[GATEWAY_FD_SNAPSHOT - FIRST] = snapshot;

        if (n_others > 0)
                memcpy(&fds[GATEWAY_FD_LISTENERS - FIRST], others, n_others * sizeof *others);

        struct helper child;
        r = helper_spawn("bailey-gateway", program, fds, GATEWAY_FD_LISTENERS - FIRST + n_others, &child, err);
        if (r < 0)
                return r;

        *ret = (struct gateway_child){ child, take_fd(&control_ours), take_fd(&events_ours) };
        return 0;
}

int gateway_program(char **ret, struct err *err) {
        return helper_program("bailey-gateway", "gateway", ret, err);
}

int gateway_errand(const char *errand, const char *word, const int *fds, size_t n_fds, pid_t *ret_pid,
                   struct err *err) {
        cleanup(free_ptr) char *program = NULL;
        char *const argv[] = { (char *)"bailey-gateway", (char *)errand, (char *)word, NULL };
        int r = gateway_program(&program, err);
        if (r < 0)
                return r;

        const struct spawn spawn = { .program = program,
                                     .argv = argv,
                                     .environment = environ,
                                     .input = SPAWN_NULL,
                                     .output = SPAWN_NULL,
                                     .errors = SPAWN_NULL,
                                     .fds = fds,
                                     .n_fds = n_fds,
                                     .flags = SPAWN_WITH_PARENT | SPAWN_OWN_SESSION | SPAWN_AT_ROOT };
        return spawn_start(&spawn, ret_pid, err);
}
