/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/darwin/darwin_monitor.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

static void monitor_close(struct monitor *monitor) {
        if (monitor->pid > 0)
                (void)tool_end(monitor->pid);
        if (monitor->fd >= 0)
                close(monitor->fd);
        buf_done(&monitor->rest);
        monitor->pid = 0;
        monitor->fd = -1;
}

struct taker {
        monitor_found *found;
        void *context;
        bool waits; /* for the log to be ready; what follows is left */
        bool ready;
};

static void take_line(struct monitor *monitor, struct str line, struct taker *taker) {
        struct violation violation;

        if (monitor->skipping) {
                monitor->skipping = false;
                return;
        }

        switch (violation_parse(line, monitor->tag, &violation)) {
        case VIOLATION_READY:
                taker->ready = true;
                break;
        case VIOLATION_FOUND:
                if (taker->found)
                        taker->found(taker->context, &violation);
                break;
        default:
                break;
        }
}

static void take_lines(struct monitor *monitor, struct taker *taker) {
        ptrdiff_t end;

        while (!(taker->waits && taker->ready) && (end = str_find(buf_str(&monitor->rest), '\n')) >= 0) {
                take_line(monitor, str_first(buf_str(&monitor->rest), (size_t)end), taker);
                buf_consume(&monitor->rest, (size_t)end + 1);
        }
}

/* 1: something came, 0: nothing now, -1: the end. */
static int read_lines(struct monitor *monitor, struct taker *taker) {
        char piece[8192];
        ssize_t n = read(monitor->fd, piece, sizeof piece);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -1;
        if (n == 0)
                return -1;

        if (buf_append(&monitor->rest, str_n(piece, (size_t)n)) < 0) { /* no line of the log is that long */
                buf_clear(&monitor->rest);
                monitor->skipping = true;
                monitor->dropped++;
        }

        take_lines(monitor, taker);
        return 1;
}

static bool wait_for(struct monitor *monitor, uint64_t deadline_ns) {
        uint64_t now = clock_ns();
        struct pollfd fd = { .fd = monitor->fd, .events = POLLIN };

        return now < deadline_ns && poll(&fd, 1, (int)((deadline_ns - now) / NS_PER_MS) + 1) >= 0;
}

int monitor_start(struct monitor *monitor, const struct tool *tool, const char *tag, unsigned ready_ms,
                  struct err *err) {
        static const char predicate[] = "(processID == 0 AND senderImagePath CONTAINS \"/Sandbox\") OR subsystem == "
                                        "\"com.apple.sandbox.reporting\"";
        const char *words[] = { "/usr/bin/log", "stream", "--style", "ndjson", "--predicate", predicate, NULL };
        uint64_t deadline = clock_ns() + ready_ms * NS_PER_MS;
        struct taker taker = { .waits = true };
        int got = 0;

        *monitor = (struct monitor){ .fd = -1, .rest = BUF(VIOLATION_LINE_MAX * 2) };
        snprintf(monitor->tag, sizeof monitor->tag, "%s", tag);
        int r = tool_start(tool, words, &monitor->pid, &monitor->fd, err);
        if (r < 0)
                return r;

        while (!taker.ready && got >= 0 && wait_for(monitor, deadline))
                got = read_lines(monitor, &taker);

        if (taker.ready)
                return 0;

        cleanup(free_ptr) char *said =
            str_dup(str_first(buf_str(&monitor->rest), monitor->rest.n < 200 ? monitor->rest.n : 200));
        monitor_close(monitor);
        if (got < 0)
                return err_set(err, EPROTO, "the system log ended before it began: %s", text_or(said, ""));

        return err_set(err, ETIMEDOUT, "the system log was not ready within %u ms: denials are not told", ready_ms);
}

bool monitor_take(struct monitor *monitor, monitor_found *found, void *context) {
        struct taker taker = { .found = found, .context = context };
        int got = 1;

        take_lines(monitor, &taker);
        while (monitor->fd >= 0 && got > 0)
                got = read_lines(monitor, &taker);
        return monitor->fd >= 0 && got >= 0;
}

void monitor_stop(struct monitor *monitor, unsigned flush_ms, monitor_found *found, void *context) {
        uint64_t deadline = clock_ns() + flush_ms * NS_PER_MS;
        struct taker taker = { .found = found, .context = context };
        int got = 0;

        take_lines(monitor, &taker);
        while (monitor->fd >= 0 && got >= 0 && wait_for(monitor, deadline))
                got = read_lines(monitor, &taker);

        monitor_close(monitor);
}
