/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* path_open_at() where the kernel has no openat2: every component is opened by itself, and none may be a link. */
#include <sys/types.h>

int path_open_steps(int directory_fd, const char *path, int flags, mode_t mode, unsigned resolve);
