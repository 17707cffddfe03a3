/* SPDX-License-Identifier: Apache-2.0 */
#include "bailey/version.h"

#include "api/version-text.h"

const char *bailey_version(void) {
        return BAILEY_VERSION_TEXT;
}
