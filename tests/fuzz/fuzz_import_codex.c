/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        (void)fuzz_import("codex", "requirements", data, size);
        return fuzz_import("codex", "toml", data, size);
}
