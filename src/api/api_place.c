/* SPDX-License-Identifier: Apache-2.0 */
/* All that the prefix of an installation changes: what is made of the rest stays as it is. */
#include "api/api_program.h"

const char *program_installed(void) {
        return BAILEY_BINDIR "/bailey";
}
