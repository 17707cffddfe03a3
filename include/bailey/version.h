/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The version of the library that is linked, for example "0.1.0". */
const char *bailey_version(void);
