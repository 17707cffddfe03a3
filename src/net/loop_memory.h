/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A place of its own for the small records that libevent keeps; see loop_memory.c. Before libevent is used; once. */
void loop_memory_init(void);
