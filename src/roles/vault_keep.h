/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Memory that outlives a vault and is in no file: VAULT_KEEP_BYTES zeros at first, to be mapped. */
#include "base/err.h"

int vault_keep_new(int *ret_fd, struct err *err);
