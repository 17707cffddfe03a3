/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "cli/verb.h"

/* Everything between main() and a verb's function; returns the exit status. */
int frame_main(int argc, char **argv);

/* Rows of global_options. */
enum { GLOBAL_HELP, GLOBAL_LOG_LEVEL, GLOBAL_LOG_FORMAT, GLOBAL_COLOR, GLOBALS };
static inline const struct option *global_option(unsigned row) {
        return &global_options.rows[row];
}

/* --die-with-parent: this process gets the signal when the thread that started it ends, however that comes about. */
int frame_die_with_parent(int signal, struct err *err);

/* Whether to colour what goes to this descriptor: --color, else NO_COLOR, TERM and whether it is a terminal. */
bool frame_color(const struct call *call, int fd);
