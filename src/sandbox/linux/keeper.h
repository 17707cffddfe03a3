/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The keeper: a thread of init that starts the command if Unix sockets are watched, and waits for the first call about
 * them. Then it forks the broker (broker.h) and is done. A program that never connects to anything pays for a sleeping
 * thread and for nothing else.
 *
 * It enters the command's Landlock domain itself, and the command inherits it: a process that inspects others in a
 * domain must be in the same one, and a domain can only be inherited. The rest of init stays outside, to be able to
 * remove guarded paths at the end.
 */
#include "sandbox/linux/init.h"

/* As command_start(). `control`: where the supervisor gets the broker's reports from, once there is a broker. */
pid_t keeper_start_command(struct command *command, int control);
