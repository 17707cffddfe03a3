/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/build.h"

enum network_mode plan_network(const struct policy *policy) {
        switch (policy->mode) {
        case MODE_WORKSPACE_WRITE_WHITELIST:
                return NETWORK_FILTERED;
        case MODE_FULL_NETWORK:
                return NETWORK_OPEN;
        default:
                return NETWORK_NONE;
        }
}
