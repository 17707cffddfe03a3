/* SPDX-License-Identifier: Apache-2.0 */
/* What pf refused a guest, as tcpdump prints it. Whether Apple's tcpdump still prints it is unproven. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "sandbox/darwin/darwin_tool.h"
#include "sandbox/darwin/os.h"
#include "sandbox/darwin/pflog.h"
#include "verbs/macos/macos_guests.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINES_MAX = 64 << 10 };

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal) {
        (void)signal;
        interrupted = 1;
}

static void print_packet(const struct pflog_packet *packet) {
        const char *verdict = packet->blocked ? "refused" : "passed";
        const char *protocol = packet->protocol[0] ? packet->protocol : "?";

        printf("%s %s %s", verdict, protocol, packet->address);
        if (packet->port)
                printf(" %u", packet->port);
        printf("\n");
        (void)fflush(stdout);
}

/* Whole lines are taken out of the buffer; a line that is too long is dropped with what is before it. */
static void print_lines(struct buf *text, unsigned uid) {
        struct str rest = buf_str(text);

        for (ptrdiff_t end; (end = str_find(rest, '\n')) >= 0; rest = str_skip(rest, (size_t)end + 1)) {
                struct pflog_packet packet;
                if (pflog_parse(str_first(rest, (size_t)end), &packet) && packet.uid == uid)
                        print_packet(&packet);
        }

        memmove(text->p, rest.p, rest.n);
        text->n = rest.n;
        if (text->n >= LINES_MAX / 2)
                text->n = 0;
}

/* Until it closes its output, the time is over, or somebody interrupts. Whether it closed it. */
static bool follow_log(int fd, unsigned uid, uint64_t end_ns) {
        cleanup(buf_done) struct buf text = BUF(LINES_MAX);

        while (!interrupted) {
                uint64_t now = clock_ns();
                struct pollfd ready = { .fd = fd, .events = POLLIN };
                char piece[4096];

                if (now >= end_ns)
                        return false;
                if (poll(&ready, 1, (int)((end_ns - now) / NS_PER_MS) + 1) <= 0)
                        continue;

                ssize_t n = read(fd, piece, sizeof piece);
                if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                        return true;
                if (n > 0 && buf_append(&text, str_n(piece, (size_t)n)) == 0)
                        print_lines(&text, uid);
        }

        return false;
}

int macos_guests_log(const char *name, unsigned seconds, struct err *err) {
        static const char *const make[] = { "/sbin/ifconfig", "pflog0", "create", NULL };
        static const char *const read_it[] = { "/usr/sbin/tcpdump", "-n", "-e", "-tt", "-l", "-i", "pflog0", NULL };
        const struct tool tool = { .prefix = os_tools() };
        cleanup(buf_done) struct buf said = BUF(TOOL_OUTPUT_MAX);
        struct macos_guest guest;
        pid_t pid = -1;
        int fd = -1;

        if (!os_is_root()) {
                err_blame(err, ERR_REFUSED);
                return err_set(err, EPERM, "only root reads what the firewall refused: use sudo");
        }

        int r = macos_guests_find(name, &guest, err);
        if (r < 0)
                return r;
        (void)tool_run(&tool, make, &said, NULL); /* it may be there already */

        r = tool_start(&tool, read_it, &pid, &fd, err);
        if (r < 0)
                return r;

        const struct sigaction action = { .sa_handler = on_interrupt };
        (void)sigaction(SIGINT, &action, NULL);
        (void)sigaction(SIGTERM, &action, NULL);
        bool closed = follow_log(fd, guest.uid, clock_ns() + seconds * 1000 * NS_PER_MS);
        close(fd);
        if (closed) /* let it end by itself: its status says why */
                (void)os_wait_exit(pid, 1000);

        int status = tool_end(pid);
        if (closed)
                return err_set(err, EPROTO, "tcpdump ended by itself (status %d): the firewall's log cannot be read",
                               WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
        return 0;
}
