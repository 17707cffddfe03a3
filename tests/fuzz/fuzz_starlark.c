/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever is accepted is a tree within the limits with a place for every node; whatever is refused has a place and a
 * printable reason. */
#include "conf/starlark.h"

#include "fuzz_tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        return fuzz_tree(starlark_read, data, size);
}
