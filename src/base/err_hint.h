/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Where an error becomes a message for a person or a program: what helps against this kind of it, whoever met it. */
#include "base/err.h"

/* The end of the message; "" for most. */
const char *err_hint(const struct err *err);
