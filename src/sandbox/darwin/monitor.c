/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/darwin/monitor.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

static void monitor_close(struct monitor *m) {
        if (m->pid > 0)
                (void)tool_end(m->pid);
        if (m->fd >= 0)
                close(m->fd);
        buf_done(&m->rest);
        m->pid = 0;
        m->fd = -1;
}

struct taker {
        monitor_found *found;
        void *context;
        bool waits; /* for the log to be ready; what follows is left */
        bool ready;
};

static void take_line(struct monitor *m, struct str line, struct taker *taker) {
        struct violation violation;

        if (m->skipping) {
                m->skipping = false;
                return;
        }
        switch (violation_parse(line, m->tag, &violation)) {
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

static void take_lines(struct monitor *m, struct taker *taker) {
        ptrdiff_t end;

        while (!(taker->waits && taker->ready) && (end = str_find(buf_str(&m->rest), '\n')) >= 0) {
                take_line(m, str_first(buf_str(&m->rest), (size_t)end), taker);
                buf_consume(&m->rest, (size_t)end + 1);
        }
}

/* 1: something came, 0: nothing now, -1: the end. */
static int read_lines(struct monitor *m, struct taker *taker) {
        char piece[8192];
        ssize_t n = read(m->fd, piece, sizeof piece);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -1;
        if (n == 0)
                return -1;
        if (buf_append(&m->rest, str_n(piece, (size_t)n)) < 0) { /* no line of the log is that long */
                buf_clear(&m->rest);
                m->skipping = true;
                m->dropped++;
        }
        take_lines(m, taker);
        return 1;
}

static bool wait_for(struct monitor *m, uint64_t deadline_ns) {
        uint64_t now = clock_ns();
        struct pollfd fd = { .fd = m->fd, .events = POLLIN };

        return now < deadline_ns && poll(&fd, 1, (int)((deadline_ns - now) / NS_PER_MS) + 1) >= 0;
}

int monitor_start(struct monitor *m, const struct tool *tool, const char *tag, unsigned ready_ms, struct err *e) {
        static const char predicate[] = "(processID == 0 AND senderImagePath CONTAINS \"/Sandbox\") OR subsystem == "
                                        "\"com.apple.sandbox.reporting\"";
        const char *words[] = { "/usr/bin/log", "stream", "--style", "ndjson", "--predicate", predicate, NULL };
        uint64_t deadline = clock_ns() + ready_ms * NS_PER_MS;
        struct taker taker = { .waits = true };
        int got = 0;

        *m = (struct monitor){ .fd = -1, .rest = BUF(VIOLATION_LINE_MAX * 2) };
        snprintf(m->tag, sizeof m->tag, "%s", tag);
        int r = tool_start(tool, words, &m->pid, &m->fd, e);
        if (r < 0)
                return r;
        while (!taker.ready && got >= 0 && wait_for(m, deadline))
                got = read_lines(m, &taker);
        if (taker.ready)
                return 0;
        cleanup(free_ptr) char *said = str_dup(str_first(buf_str(&m->rest), m->rest.n < 200 ? m->rest.n : 200));
        monitor_close(m);
        if (got < 0)
                return err_set(e, EPROTO, "the system log ended before it began: %s", said ? said : "");
        return err_set(e, ETIMEDOUT, "the system log was not ready within %u ms: denials are not told", ready_ms);
}

bool monitor_take(struct monitor *m, monitor_found *found, void *context) {
        struct taker taker = { .found = found, .context = context };
        int got = 1;

        take_lines(m, &taker);
        while (m->fd >= 0 && got > 0)
                got = read_lines(m, &taker);
        return m->fd >= 0 && got >= 0;
}

void monitor_stop(struct monitor *m, unsigned flush_ms, monitor_found *found, void *context) {
        uint64_t deadline = clock_ns() + flush_ms * NS_PER_MS;
        struct taker taker = { .found = found, .context = context };
        int got = 0;

        take_lines(m, &taker);
        while (m->fd >= 0 && got >= 0 && wait_for(m, deadline))
                got = read_lines(m, &taker);
        monitor_close(m);
}
