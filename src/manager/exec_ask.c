/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/exec_ask.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

enum { SHOWN = 2000 };

static int write_question(struct buf *out, const char *command, const struct check_verdict *v) {
        int r = buf_add(out, "bailey: this command needs your approval: ");
        r = r < 0 ? r : escape_text(out, str_of(v->reason), SHOWN);
        r = r < 0 ? r : buf_printf(out, " (rule %s)\n    ", *v->rule ? v->rule : "none");
        r = r < 0 ? r : escape_text(out, str_of(command), SHOWN);
        if (r == 0 && v->segment && strcmp(v->segment, command) != 0) {
                r = buf_add(out, "\n  because of\n    ");
                r = r < 0 ? r : escape_text(out, str_of(v->segment), SHOWN);
        }
        return r < 0 ? r : buf_add(out, "\nRun it in the sandbox? [y/N] ");
}

/* One line, as the terminal's own line discipline gives it. */
static bool read_yes(int tty, uint64_t timeout_ns) {
        char line[64];
        uint64_t end = clock_ns() + timeout_ns;
        for (;;) {
                uint64_t now = clock_ns();
                struct pollfd fd = { .fd = tty, .events = POLLIN };
                uint64_t left_ms = now < end ? (end - now) / NS_PER_MS + 1 : 0;
                int r = left_ms ? poll(&fd, 1, left_ms > 60000 ? 60000 : (int)left_ms) : 0;
                if (left_ms == 0)
                        return false;
                if (r <= 0)
                        continue;
                ssize_t n = read(tty, line, sizeof line);
                struct str answer = n > 0 ? str_trim(str_n(line, (size_t)n - (line[n - 1] == '\n'))) : STR("");
                return str_is(answer, "y") || str_is(answer, "yes");
        }
}

enum exec_answer exec_ask(const char *command, const struct check_verdict *v, uint64_t timeout_ns) {
        cleanup(close_fd) int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
        cleanup(buf_done) struct buf out = BUF(65536);
        if (tty < 0 || tcgetpgrp(tty) != getpgrp())
                return EXEC_NOBODY;
        if (write_question(&out, command, v) < 0)
                return EXEC_NO;
        tcflush(tty, TCIFLUSH); /* what was typed before the question answers nothing */
        if (fd_write_all(tty, out.p, out.n) < 0)
                return EXEC_NOBODY;
        bool yes = read_yes(tty, timeout_ns);
        if (!yes)
                (void)fd_write_all(tty, "\n", 1);
        return yes ? EXEC_YES : EXEC_NO;
}
