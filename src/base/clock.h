/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "base/str.h"

#define NS_PER_SECOND 1000000000ULL
#define NS_PER_MS 1000000ULL
/* A deadline that never comes. */
#define CLOCK_NEVER UINT64_MAX

/* Monotonic nanoseconds: for durations and deadlines. */
uint64_t clock_ns(void);
/* The deadline so many milliseconds from now; what is too far away for a clock is CLOCK_NEVER. */
uint64_t clock_after_ms(uint64_t ms);
/* The timeout for poll(): milliseconds until a deadline, rounded up so that the deadline has passed when poll()
 * returns; -1 for CLOCK_NEVER. A wait is clipped at CLOCK_WAIT_MAX_MS, so the caller must check the clock again. */
enum { CLOCK_WAIT_MAX_MS = 1000000 };
int clock_left_ms(uint64_t due_ns);
/* Wall-clock microseconds since 1970: for records. */
uint64_t clock_wall_us(void);
/* Whether a file's status changed at this moment of the wall clock or later. No program can set that time back. */
struct stat;
bool clock_is_since(const struct stat *st, uint64_t wall_us);

/* "2026-11-15T02:52:32.123456Z" */
#define CLOCK_TEXT_MAX 28
void clock_text(uint64_t wall_us, char ret[static CLOCK_TEXT_MAX]);
/* The same back, to the second; a day alone ("2026-11-15") is its beginning. False when it is no such text. */
bool clock_parse_text(struct str s, uint64_t *ret_us);

/* "500ms", "10s", "5m", "2h", "1d", or a bare number of seconds. False when malformed or too large. */
bool clock_parse_duration(struct str s, uint64_t *ret_ns);
/* The shortest exact spelling of the same forms, for example "90s" or "2h"; what is below a millisecond is dropped. */
void clock_duration_text(uint64_t ns, char ret[static 24]);
