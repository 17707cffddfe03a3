/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/pack_progress.h"

#include "base/clock.h"

#include <stdio.h>
#include <unistd.h>

enum { FIRST_MS = 250, TERMINAL_MS = 250, LINE_MS = 10000, TEXT_MAX = 160 };
#define MEGABYTE 1000000.0

static void progress_show(const struct pack_progress *progress) {
        char text[TEXT_MAX];
        int n;

        if (progress->total)
                n = snprintf(text, sizeof text, "%s: %s, %u %% of %.1f MB", progress->name, progress->doing,
                             (unsigned)(progress->done * 100 / progress->total), (double)progress->total / MEGABYTE);
        else
                n = snprintf(text, sizeof text, "%s: %s, %.1f MB so far", progress->name, progress->doing,
                             (double)progress->done / MEGABYTE);
        if (n <= 0)
                return;

        /* One write each: the line is whole whoever else writes. */
        if (progress->terminal)
                (void)dprintf(STDERR_FILENO, "\r\033[K%s", text);
        else
                (void)dprintf(STDERR_FILENO, "bailey: %s\n", text);
}

void pack_progress_add(struct pack_progress *progress, uint64_t bytes) {
        uint64_t now = clock_ns();

        if (!progress->doing)
                return;
        if (!progress->begun) {
                progress->begun = true;
                progress->terminal = isatty(STDERR_FILENO);
                progress->next_ns = now + (progress->terminal ? FIRST_MS : LINE_MS) * NS_PER_MS;
        }

        progress->done += bytes;
        if (now < progress->next_ns)
                return;
        progress->next_ns = now + (progress->terminal ? TERMINAL_MS : LINE_MS) * NS_PER_MS;
        progress->shown = true;
        progress_show(progress);
}

void pack_progress_end(struct pack_progress *progress) {
        if (progress->shown && progress->terminal)
                (void)dprintf(STDERR_FILENO, "\r\033[K");
        progress->shown = false;
}
