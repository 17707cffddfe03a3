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

/* Variables in .env of the workspace, if it was written since then, by which programs that load it run something or
 * send keys elsewhere. It is content, which programs outside load too, so it is mentioned. Empty: none. -ENOMEM. */
int run_env_news(const char *workspace, uint64_t since_us, struct buf *ret);
