/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for bailey-gateway: behaves as the start block's sandbox_id says, well or badly. */
#include "base/clock.h"
#include "base/fd.h"
#include "ipc/event.h"
#include "ipc/gateway_messages.h"
#include "policy/judge/snapshot.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static struct gateway_start start;

static bool acts(const char *what) {
        return strcmp(start.sandbox_id, what) == 0;
}

static void send_event(enum event_kind kind, const char *detail) {
        struct buf b = BUF(EVENT_BATCH_MAX);
        const struct event ev = { .kind = (uint16_t)kind,
                                  .wall_us = 1, /* long ago: the supervisor puts its own time */
                                  .rule = 0,
                                  .generation = start.generation,
                                  .via = VIA_CONNECT,
                                  .scheme = SCHEME_TCP,
                                  .reason = REASON_ALLOWED,
                                  .allowed = true,
                                  .domain = STR("a.test"),
                                  .detail = str_of(detail) };
        if (event_encode(&b, &ev) < 0 || send(GATEWAY_FD_EVENTS, b.p, b.n, 0) < 0)
                _exit(9);
        buf_done(&b);
}

static void say(const struct ipc_message *m) {
        if (ipc_send(GATEWAY_FD_CONTROL, IPC_GATEWAY, m, -1) < 0)
                _exit(8);
}

/* What it was started with: "fds 0-7 env 0 death 9 leader 1". */
static void report_surroundings(void) {
        char text[200];
        int highest = -1, count = 0, vars = 0, death = 0;
        for (int fd = 0; fd < 1024; fd++)
                if (fcntl(fd, F_GETFD) >= 0) {
                        highest = fd;
                        count++;
                }
        for (char **e = environ; *e; e++)
                vars += strstr(*e, "SAN_OPTIONS=") == NULL;
        prctl(PR_GET_PDEATHSIG, &death);
        snprintf(text, sizeof text, "fds %d highest %d env %d death %d leader %d", count, highest, vars, death,
                 getsid(0) == getpid());
        send_event(EVENT_NOTE, text);
}

static void serve(void) {
        struct pollfd fds[2] = { { GATEWAY_FD_CONTROL, POLLIN, 0 }, { GATEWAY_FD_LISTENERS, POLLIN, 0 } };
        for (;;) {
                struct ipc_message m;
                int fd = -1;
                if (poll(fds, acts("accept") ? 2 : 1, 10000) <= 0)
                        _exit(7);
                if (fds[1].revents) {
                        int client = accept(GATEWAY_FD_LISTENERS, NULL, NULL);
                        send_event(EVENT_TUNNEL_OPEN, "");
                        close(client);
                }
                if (!fds[0].revents)
                        continue;
                if (ipc_receive(GATEWAY_FD_CONTROL, IPC_SUPERVISOR, &m, &fd) <= 0)
                        _exit(6);
                if (m.kind == IPC_STOP && !acts("deaf"))
                        _exit(0);
                if (m.kind == IPC_SNAPSHOT) {
                        const struct ipc_message swapped = { .kind = IPC_SWAPPED, .number = m.number };
                        struct snapshot *s;
                        if (snapshot_open_fd(fd, &s, NULL) < 0)
                                _exit(5);
                        say(&swapped);
                        close(fd);
                } else if (m.kind == IPC_LIMITS) {
                        struct gateway_start fresh;
                        char text[64];
                        if (gateway_start_read(fd, &fresh, NULL) < 0)
                                _exit(5);
                        snprintf(text, sizeof text, "limits %u", fresh.connections);
                        send_event(EVENT_NOTE, text);
                        close(fd);
                } else if (m.kind == IPC_ANSWER)
                        send_event(EVENT_NOTE, m.number == DECISION_ALLOW ? "answer allow" : "answer deny");
                else if (m.kind == IPC_AUDIT)
                        send_event(EVENT_NOTE, m.number ? "audit yes" : "audit no");
        }
}

int main(void) {
        struct err e = { 0 };
        if (gateway_start_read(GATEWAY_FD_START, &start, &e) < 0) {
                fprintf(stderr, "%s\n", err_text(&e));
                return 3;
        }
        fcntl(GATEWAY_FD_CONTROL, F_SETFL, 0);
        if (acts("exit"))
                return 4;
        if (acts("silent"))
                for (;;)
                        pause();
        if (acts("failed")) {
                const struct ipc_message m = { .kind = IPC_FAILED, .text = "no roots" };
                say(&m);
                pause();
        }
        const struct ipc_message ready = { .kind = IPC_READY };
        say(&ready);
        report_surroundings();
        if (acts("bad-event"))
                send(GATEWAY_FD_EVENTS, "garbage", 7, 0);
        if (acts("bad-message"))
                send(GATEWAY_FD_CONTROL, "garbage", 7, 0);
        if (acts("forger"))
                send_event(EVENT_NOTE, "rotation dropped the records before seq 5");
        if (acts("ask")) {
                struct ipc_message ask = { .kind = IPC_ASK, .id = 77, .number = VIA_CONNECT };
                if (authority_parse(STR("ask.test:443"), 0, &ask.authority, NULL) < 0)
                        return 2;
                say(&ask);
        }
        if (acts("last-words")) { /* more than are read in one step, the worst at the end */
                for (int i = 0; i < 80; i++)
                        send_event(EVENT_NOTE, "on the way out");
                send(GATEWAY_FD_EVENTS, "garbage", 7, 0);
                return 4;
        }
        if (acts("killed"))
                kill(getpid(), SIGKILL);
        serve();
}
