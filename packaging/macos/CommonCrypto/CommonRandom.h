/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* For OpenSSL, scripts/macos: the random bytes of the system, for which no file has to be opened. In libSystem. */
#include <stddef.h>
#include <stdint.h>

int32_t CCRandomGenerateBytes(void *bytes, size_t count);
