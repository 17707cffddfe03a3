/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The vault itself: mappings, values, channels. See vault.c for the theory.
 */
#include "base/err.h"
#include "ipc/vault_messages.h"
#include "vault/reader.h"

struct vault; /* opaque */

/* Takes the mappings over, also when it fails. Descriptors and the reader are borrowed. */
int vault_new(const struct vault_start *start, struct vault_mapping *mappings, int control, int keep,
              const struct reader *reader, struct vault **ret, struct err *err);
void vault_free(struct vault *vault);
void vault_freep(struct vault **vault);
/* Until told to stop, or until the supervisor goes away. An error has been told to the supervisor too. */
int vault_run(struct vault *vault, struct err *err);
