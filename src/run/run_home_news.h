/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a run left in the sandbox's own home that runs there later: hooks, servers and plugins of agents, start-up files
 * of shells, programs. Nothing outside uses it, so it is only mentioned, in one line.
 */
#include "base/buf.h"

#include <stdint.h>

/* The names that were written since then, with commas; empty: none. -ENOMEM. */
int run_home_news(const char *files, uint64_t since_us, struct buf *ret);

/* Logs which variables .env of the workspace sets, if it was written since then, by which programs that load it run
 * something or send keys elsewhere. Programs outside load it too, and cannot tell who wrote it; it is content, so it
 * stays. */
void run_env_tell(const char *workspace, uint64_t since_us);
