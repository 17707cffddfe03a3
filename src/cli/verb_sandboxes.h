/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the verbs for running sandboxes share. */
#include "verbs/sandboxes/sandboxes.h"

/* To standard output; EXIT_OK. */
int sandboxes_print(const struct buf *out);
