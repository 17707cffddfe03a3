/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/ui.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/processes/signals.h"
#include "base/random.h"
#include "store/audit_place.h"
#include "ui/peer_user.h"
#include "ui/ui_internal.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
        STEP_LINES = 400,
        IDLE_MS = 250,
        FIXED_FDS = 6
}; /* a step takes some milliseconds: a request that comes meanwhile hardly waits */
#define LOOK_NS (NS_PER_SECOND / 2)
#define INDEX_LOOK_NS (2 * NS_PER_SECOND)

void ui_note(struct ui *ui, const char *format, ...) {
        char text[1024];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        (void)audit_note(ui->audit, "%s", text);
        (void)audit_flush(ui->audit, NULL); /* the page works on; the log says what it lost */
}

/*
 * Opening.
 */
static int ui_open_audit(struct ui *ui, struct err *err) {
        int r = audit_open_service("ui", &ui->audit, err);
        if (r == -EBUSY)
                return err_set(err, EBUSY, "a dashboard is running already");

        return r;
}

static int ui_listen(struct ui *ui, struct err *err) {
        cleanup(close_fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_port = htons(ui->settings->port),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t n = sizeof address;
        int on = 1;

        if (fd < 0)
                return err_errno(err, "cannot make a socket");
        if (ui->settings->port)
                (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* else a restart waits a minute */

        if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 64) < 0 ||
            getsockname(fd, (struct sockaddr *)&address, &n) < 0)
                return err_errno(err, "cannot listen on 127.0.0.1:%u", ui->settings->port);

        ui->port = ntohs(address.sin_port);
        ui->listener = take_fd(&fd);

        return 0;
}

/* Subscribes to a new sandbox at once: its first attempts are events like all others. If the directory cannot be
 * watched, it is read twice a second. */
static void ui_watch_places(struct ui *ui) {
        cleanup(free_ptr) char *directory = NULL;

        ui->places = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (ui->places >= 0 && control_directory(&directory, NULL) == 0)
                (void)inotify_add_watch(ui->places, directory, IN_MOVED_TO);
}

static void ui_read_places(struct ui *ui) {
        char events[4096];

        while (read(ui->places, events, sizeof events) > 0)
                ui->look_ns = 0;
}

static int ui_open(struct ui *ui, struct err *err) {
        cleanup(free_ptr) char *link = NULL;
        int r;

        r = ui_open_audit(ui, err);
        if (r < 0)
                return r;

        r = audit_index_open(&ui->index, err);
        if (r < 0)
                return r;

        ui->signals = signals_catch_end();
        if (ui->signals < 0)
                return err_errno(err, "cannot watch signals");

        r = ui_listen(ui, err);
        if (r < 0)
                return r;

        r = callers_listen(ui, err);
        if (r < 0)
                return r;

        ui_watch_places(ui);
        random_id(ui->epoch, sizeof ui->epoch);
        ui_note(ui, "the dashboard listens on 127.0.0.1:%u%s", ui->port, ui->settings->read_only ? ", read-only" : "");
        r = links_make(ui, &link);
        if (r < 0)
                return err_set(err, -r, "out of memory");

        ui->settings->on_ready(ui->settings->arg, link);
        if (ui->settings->pair)
                return pair_begin(ui, ui->settings->pair, NULL, err);

        return 0;
}

static void ui_close(struct ui *ui) {
        if (ui->audit)
                pair_end(ui, "the dashboard ends");

        for (size_t i = 0; i < ui->connections.n; i++)
                connection_free(ui->connections.p[i]);

        for (size_t i = 0; i < ui->peers.n; i++)
                peer_free(ui->peers.p[i]);

        for (size_t i = 0; i < ui->tools.n; i++)
                tool_free(ui->tools.p[i]);

        vec_done(&ui->connections);
        vec_done(&ui->peers);
        vec_done(&ui->tools);
        silent_done(ui);
        ring_done(&ui->ring);
        close_fd(&ui->listener);
        close_fd(&ui->caller_listener);
        close_fd(&ui->signals);
        close_fd(&ui->places);

        if (ui->caller_path)
                unlink(ui->caller_path);

        free(ui->caller_path);
        audit_index_free(ui->index);
        if (ui->audit)
                (void)audit_close(ui->audit, NULL); /* nothing depends on it any more */

        /* A process that waits for the end may start the next one now: the record is free. */
        for (size_t i = 0; i < ui->callers.n; i++)
                caller_free(ui->callers.p[i]);

        vec_done(&ui->callers);
        free(ui);
}

static void ui_closep(struct ui **ui) {
        if (*ui)
                ui_close(*ui);
}

/*
 * The loop.
 */
static void ui_accept(struct ui *ui) {
        for (;;) {
                int fd = accept4(ui->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (fd < 0)
                        return;

                if (ui->connections.n >= UI_CONNECTIONS_MAX) {
                        close(fd);
                        continue;
                }

                if (!peer_user_is_ours(fd)) {
                        ui_note(ui, "refused a connection: it comes from another user of this machine");
                        close(fd);
                        continue;
                }

                connection_open(ui, fd, NULL);
        }
}

static void ui_sweep(struct ui *ui) {
        for (size_t i = 0; i < ui->connections.n;) {
                struct connection *connection = ui->connections.p[i];
                if (connection->fd >= 0) {
                        i++;
                        continue;
                }

                ui->connections.p[i] = ui->connections.p[--ui->connections.n];
                connection_free(connection);
        }

        for (size_t i = 0; i < ui->tools.n;) {
                struct tool *tool = ui->tools.p[i];
                if (tool->out >= 0 || tool->errors >= 0) {
                        i++;
                        continue;
                }

                ui->tools.p[i] = ui->tools.p[--ui->tools.n];
                tool_free(tool);
        }

        watch_sweep(ui);
        callers_sweep(ui);
}

/* New logs, wherever they are: services have theirs elsewhere, and --audit names any file. */
static bool ui_look_at_logs(struct ui *ui) {
        char *more[UI_POLL_MAX] = { 0 };
        struct err err = { 0 };
        size_t n = 0;

        for (size_t i = 0; i < ui->peers.n && n + 1 < UI_POLL_MAX; i++)
                if (ui->peers.p[i]->audit)
                        more[n++] = ui->peers.p[i]->audit;

        return audit_index_look(ui->index, more, &err) == 0;
}

static void ui_tick(struct ui *ui) {
        uint64_t now = clock_ns();
        struct err err = { 0 };

        silent_tick(ui);

        if (now >= ui->look_ns) {
                ui->look_ns = now + LOOK_NS;
                watch_look(ui);
        }

        if (now >= ui->index_look_ns) {
                ui->index_look_ns = now + INDEX_LOOK_NS;
                ui->indexing = ui_look_at_logs(ui);
        }

        if (ui->indexing)
                ui->indexing = audit_index_step(ui->index, STEP_LINES, &err) > 0;
}

/* What is waited for, in this order: four of our own, connections, sandboxes, two of each tool. */
static size_t ui_poll_set(const struct ui *ui, struct pollfd *ret) {
        size_t n = 0;

        ret[n++] = (struct pollfd){ .fd = ui->listener, .events = POLLIN };
        ret[n++] = (struct pollfd){ .fd = ui->caller_listener, .events = POLLIN };
        ret[n++] = (struct pollfd){ .fd = ui->signals, .events = POLLIN };
        ret[n++] = (struct pollfd){ .fd = ui->places, .events = POLLIN };
        ret[n++] = (struct pollfd){ .fd = ui->pair.listener, .events = POLLIN };
        ret[n++] = (struct pollfd){ .fd = ui->pair.door.fd }; /* its end */

        for (size_t i = 0; i < ui->connections.n; i++) {
                const struct connection *connection = ui->connections.p[i];
                ret[n++] = (struct pollfd){ .fd = connection->fd,
                                            .events = (short)(POLLIN | (connection->out.n ? POLLOUT : 0)) };
        }

        for (size_t i = 0; i < ui->callers.n; i++)
                ret[n++] = (struct pollfd){ .fd = ui->callers.p[i]->fd, .events = POLLIN };

        for (size_t i = 0; i < ui->peers.n; i++)
                ret[n++] = (struct pollfd){ .fd = ui->peers.p[i]->client.fd, .events = POLLIN };

        for (size_t i = 0; i < ui->tools.n; i++) {
                ret[n++] = (struct pollfd){ .fd = ui->tools.p[i]->out, .events = POLLIN };
                ret[n++] = (struct pollfd){ .fd = ui->tools.p[i]->errors, .events = POLLIN };
        }

        return n;
}
static_assert(FIXED_FDS + UI_CONNECTIONS_MAX + UI_CALLERS_MAX + 256 + 2 * UI_TOOLS_MAX <= UI_POLL_MAX,
              "all of them fit");

static void ui_turn(struct ui *ui) {
        struct pollfd fds[UI_POLL_MAX];
        size_t n = ui_poll_set(ui, fds), at = FIXED_FDS;
        size_t connections = ui->connections.n, callers = ui->callers.n, peers = ui->peers.n, tools = ui->tools.n;

        (void)poll(fds, n, ui->indexing ? 0 : IDLE_MS);
        ui->ended = ui->ended || fds[2].revents;
        if (fds[3].revents)
                ui_read_places(ui);

        for (size_t i = 0; i < connections; i++, at++)
                if (fds[at].revents)
                        connection_step(ui, ui->connections.p[i], fds[at].revents);

        for (size_t i = 0; i < callers; i++, at++)
                if (fds[at].revents)
                        caller_step(ui, ui->callers.p[i]);

        for (size_t i = 0; i < peers; i++, at++)
                if (fds[at].revents)
                        watch_step(ui, ui->peers.p[i]);

        for (size_t i = 0; i < tools; i++)
                tool_step(ui, ui->tools.p[i]);

        if (fds[0].revents)
                ui_accept(ui);
        if (fds[1].revents)
                callers_accept(ui);
        if (fds[4].revents)
                pair_accept(ui);

        ui_tick(ui);

        for (size_t i = 0; i < ui->connections.n; i++)
                if (ui->connections.p[i]->fd >= 0)
                        connection_step(ui, ui->connections.p[i], 0);

        if (fds[5].revents && fds[5].fd == ui->pair.door.fd)
                pair_end(ui, "the process that speaks TLS with the phone is gone");

        pair_tick(ui);
        ui_sweep(ui);
}

int ui_run(const struct ui_settings *settings, struct err *err) {
        cleanup(ui_closep) struct ui *ui = calloc(1, sizeof *ui);
        int r;

        if (!ui)
                return err_set(err, ENOMEM, "out of memory");

        ui->settings = settings;
        ui->listener = ui->caller_listener = ui->signals = ui->places = ui->pair.listener = -1;
        ui->pair.door = DOOR_NONE;
        ring_init(&ui->ring);
        r = ui_open(ui, err);
        if (r < 0)
                return r;

        while (!ui->ended)
                ui_turn(ui);

        ui_note(ui, "the dashboard ends");
        return 0;
}
