/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BAILEY_VERSION_H
#define BAILEY_VERSION_H
#include "bailey/api.h"
BAILEY_BEGIN

/* The version of the library that is linked, for example "0.1.0". */
BAILEY_API const char *bailey_version(void);

BAILEY_END
#endif
