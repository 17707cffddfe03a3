/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BAILEY_API_H
#define BAILEY_API_H
/* What every header of libbailey needs: linkage and visibility. Include <bailey/bailey.h>, not this. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define BAILEY_BEGIN extern "C" {
#define BAILEY_END }
#else
#define BAILEY_BEGIN
#define BAILEY_END
#endif

#define BAILEY_API __attribute__((visibility("default")))

#endif
