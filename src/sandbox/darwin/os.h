/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * macOS-only calls, behind plain functions. os.c is the one file of this folder that includes Apple's headers; it is
 * built by `make macos` alone and was never yet run.
 */
#include "base/err.h"
#include "plan/macos/macos_launch.h"

#include <sys/types.h>

/* Whether this process is confined already: a second profile could not be applied. */
bool os_is_confined(void);
/* "15.1", "arm64"; "?" where the system does not say. */
void os_version(char ret_version[static 32], char ret_machine[static 32]);
/* Whether volumes tell a from A, by the volume of this path. */
bool os_tells_case(const char *path);
/* The directory for temporary files of this user, canonical. Heap text or NULL. */
char *os_temporary(void);
/* The path as the kernel compares it, in the spelling on disk. Heap text or NULL. */
char *os_canonical(const char *path);

/* In the child, between fork and exec: nobody attaches, no core, limits. 0 or a negative errno. */
int os_harden(const struct macos_launch *launch);
/* Applies the profile to this process, for good. The compiler's words in e. */
int os_confine(const char *profile, const struct seatbelt *parameters, struct err *e);

/* Whether accounts and the firewall may be changed by this process. */
bool os_is_root(void);
/* Before the path of each tool of the system: NULL, but in the tests. */
const char *os_tools(void);

/* The children of a process, at most `most`; how many were written. */
size_t os_children(pid_t pid, pid_t *ret, size_t most);
/* Waits until this process ends, forks, or so many milliseconds are over. 1: it ended, 0: not. */
int os_wait_exit(pid_t pid, int milliseconds);
