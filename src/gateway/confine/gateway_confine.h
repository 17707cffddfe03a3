/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the gateway gives up for good before the first hostile byte. Theory and the list in confine.c.
 */
#include "base/err.h"

/*
 * To be called once, on the main thread, after everything that needs files is loaded (roots, resolv.conf, hosts, the
 * first policy) and before any other thread exists: threads made later inherit it. After it
 *   - no file can be opened: open and its relatives fail with ENOENT, as if there were none;
 *   - no program can be executed, no process made (threads can), nothing traced or signalled outside;
 *   - sockets can be made for IPv4 and IPv6 only, and neither bound nor listened on; descriptors that were passed in
 * work;
 *   - memory cannot become executable;
 *   - other system calls end the process.
 * Any step that the kernel cannot do is an error, except Landlock and its newer rights: the filter covers those.
 */
int confine_gateway(struct err *err);
/* From now on this process ends with the one that started it, however that ends. */
void confine_to_parent(void);
