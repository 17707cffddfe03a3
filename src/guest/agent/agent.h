/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The agent: the one command of a guest's sandbox. It starts what is asked for, so that everything in a guest shares
 * namespaces, limits, filters and gateway: a process inherits them from the agent and can have no others. Connections
 * come by its standard input, from the supervisor, which accepts them outside (run/run.c).
 *
 * A guest's processes have the agent's identity. They cannot look into it (it is not dumpable), and what they may do to
 * it, stop it or end it, ends the guest. When a connection ends, what was started over it ends too.
 */
#include <stdint.h>

/* Until it is told to stop, or nothing was asked for idle_s seconds (0: for ever) and no session is open. Returns the
 * exit status. */
#define AGENT_FILE_ANY UINT64_MAX
int agent_main(uint64_t idle_s, uint64_t largest_file);
