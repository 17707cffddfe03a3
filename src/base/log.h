/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Diagnostics for people, to standard error: text or JSON lines, one line per message whatever it contains, clipped,
 * and limited in rate so that nobody can fill a disk by misbehaving. Not the audit log (store/audit.h). Library code
 * logs at LOG_DEBUG only; what a person must see is returned as an error.
 */
#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_NOTICE, LOG_INFO, LOG_DEBUG, LOG_LEVELS };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

struct log_settings {
        enum log_level level;
        enum log_format format;
        int fd;              /* where lines go; 2 at start */
        const char *program; /* static text before each line */
        unsigned per_second; /* messages let through a second, 0 for no limit; errors always pass */
};

void log_setup(const struct log_settings *settings);
bool log_enabled(enum log_level level);
const char *log_level_name(enum log_level level);
/* False when there is no such level. */
bool log_level_parse(const char *name, enum log_level *ret);

void log_message(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_message(LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_message(LOG_WARNING, __VA_ARGS__)
#define log_notice(...) log_message(LOG_NOTICE, __VA_ARGS__)
#define log_info(...) (log_enabled(LOG_INFO) ? log_message(LOG_INFO, __VA_ARGS__) : (void)0)
#define log_debug(...) (log_enabled(LOG_DEBUG) ? log_message(LOG_DEBUG, __VA_ARGS__) : (void)0)
