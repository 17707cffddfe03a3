/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/bounds.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/fd.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

enum { MESSAGE_MAX = 2048, LINE_MAX_BYTES = 16384 };

static _Atomic enum log_level enabled_up_to = LOG_NOTICE; /* asked without the lock */
static struct log_settings current = { .level = LOG_NOTICE, .fd = 2, .program = "bailey", .per_second = 200 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t window_start;
static unsigned window_count, dropped;

static const char *const level_names[] = { "error", "warning", "notice", "info", "debug" };
static_assert(sizeof level_names / sizeof level_names[0] == LOG_LEVELS, "one name per level");

void log_setup(const struct log_settings *settings) {
        pthread_mutex_lock(&lock);
        current = *settings;
        enabled_up_to = settings->level;
        pthread_mutex_unlock(&lock);
}

bool log_enabled(enum log_level level) {
        return level <= atomic_load_explicit(&enabled_up_to, memory_order_relaxed);
}

const char *log_level_name(enum log_level level) {
        return level < LOG_LEVELS ? level_names[level] : "?";
}

bool log_level_parse(const char *name, enum log_level *ret) {
        for (unsigned i = 0; i < LOG_LEVELS; i++)
                if (strcmp(name, level_names[i]) == 0) {
                        *ret = (enum log_level)i;
                        return true;
                }
        return false;
}

/* Names in a message were escaped when it was put together, so backslashes stay. Anything that was not escaped is made
 * safe here. */
static void add_escaped(struct buf *line, struct str message) {
        struct str part;
        for (bool first = true; str_split(&message, '\\', &part); first = false) {
                if (!first)
                        buf_add_char(line, '\\');
                escape_text(line, part, MESSAGE_MAX);
        }
}

/* left_out: how many bytes of the message did not fit. */
static void put_line(enum log_level level, struct str message, size_t left_out) {
        char cut[32] = "";

        if (left_out)
                snprintf(cut, sizeof cut, "...(%zu more)", left_out);

        cleanup(buf_done) struct buf line = BUF(LINE_MAX_BYTES);

        if (current.format == LOG_FORMAT_JSON) {
                char when[CLOCK_TEXT_MAX];

                clock_text(clock_wall_us(), when);
                buf_printf(&line, "{\"ts\":\"%s\",\"level\":\"%s\",\"program\":\"%s\",\"message\":", when,
                           level_names[level], current.program);
                escape_json(&line, message);

                if (left_out) {
                        line.n--; /* inside the quotes */
                        buf_printf(&line, "%s\"", cut);
                }

                buf_add(&line, "}\n");
        } else {
                /* A notice is ordinary speech; only what is wrong, or detail, is labelled. */
                buf_printf(&line, "%s: ", current.program);
                if (level != LOG_NOTICE)
                        buf_printf(&line, "%s: ", level_names[level]);

                add_escaped(&line, message);
                buf_printf(&line, "%s\n", cut);
        }

        fd_write_all(current.fd, line.p, line.n);
}

/* One window a second; the first message after a full window says how many were left out. */
static bool within_rate(enum log_level level) {
        uint64_t now = clock_ns();
        if (now - window_start >= NS_PER_SECOND) {
                unsigned lost = dropped;

                window_start = now;
                window_count = dropped = 0;

                if (lost > 0) {
                        char note[64];
                        int n = snprintf(note, sizeof note, "%u messages left out (rate limit)", lost);

                        put_line(LOG_WARNING, str_n(note, (size_t)n), 0);
                }
        }

        if (level == LOG_ERROR || current.per_second == 0 || window_count < current.per_second) {
                window_count++;
                return true;
        }

        dropped++;
        return false;
}

void log_message(enum log_level level, const char *format, ...) {
        if (!log_enabled(level))
                return;

        int saved = errno;
        char message[MESSAGE_MAX + 1];
        va_list args;
        va_start(args, format);

        int n = vsnprintf(message, sizeof message, format, args);
        va_end(args);
        if (n < 0)
                return;

        size_t length = (size_t)n, kept = min_of(length, MESSAGE_MAX);
        pthread_mutex_lock(&lock);
        if (within_rate(level))
                put_line(level, str_n(message, kept), length - kept);

        pthread_mutex_unlock(&lock);
        errno = saved; /* saying something changes nothing */
}
