/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

const char *policy_mode_name(enum policy_mode mode) {
        return (unsigned)mode < MODES ? policy_rows[ROW_MODE].choices[mode] : "unknown";
}
