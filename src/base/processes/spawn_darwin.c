/* SPDX-License-Identifier: Apache-2.0 */
/*
 * macOS ends no process with its parent. What Bailey starts there watches a socket of its parent's and ends when that
 * closes.
 */
#include "base/fd.h"
#include "base/processes/spawn.h"
#include "base/processes/spawn_os.h"

bool spawn_close_above(int fd) {
        return fd_close_from(fd + 1) == 0;
}

void spawn_end_with_parent(void) {
}

/* Nobody chooses a processor on macOS. */
void spawn_send_away(pid_t pid) {
        (void)pid;
}
