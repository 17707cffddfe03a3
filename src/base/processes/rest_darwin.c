/* SPDX-License-Identifier: Apache-2.0 */
/* Built by scripts/macos alone. The pages of a program are the kernel's to take back there. */
#include "base/alloc.h"
#include "base/processes/rest.h"

void process_rest(void) {
        alloc_trim();
}
