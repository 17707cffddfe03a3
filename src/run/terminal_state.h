/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The state that a command could leave behind at the terminal, and at the descriptors that it shares with its caller:
 * line settings, stopped output (TCOOFF), a device that nobody else may open (TIOCEXCL), its mode or that of a pipe
 * with a name, flags of descriptors (O_NONBLOCK). All of it is restored when the run ends, however the command ended.
 * The size is not: the window may have been resized.
 */
#include <stdbool.h>
#include <sys/stat.h>
#include <termios.h>

enum { TERMINAL_STATE_FDS = 3 };

struct terminal_state {
        bool has_lines, has_mode[TERMINAL_STATE_FDS];
        struct termios lines;
        int exclusive;
        mode_t modes[TERMINAL_STATE_FDS]; /* of terminals, and of pipes */
        int flags[TERMINAL_STATE_FDS];    /* -1: closed */
};

/* `terminal`: the controlling terminal, or -1. */
void terminal_state_save(struct terminal_state *terminal_state, int terminal);
/* `terminal` -1: it is somebody else's now, and stays as it is. */
void terminal_state_restore(const struct terminal_state *terminal_state, int terminal);
