/* SPDX-License-Identifier: Apache-2.0 */
/* The heap of macOS has blocks of a record's size at hand itself. */
#include "net/tls_internal.h"

void tls_memory_init(void) {
}
