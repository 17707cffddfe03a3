/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Values that the vault has given to any worker, for searching answers: an origin may still show a secret after it was
 * replaced, to a client of a worker that never had it. Each value is put here before its worker can use it, and stays
 * for a while after the next one has come. Theory in old_secrets.c.
 */
#include "base/str.h"
#include "ipc/vault_messages.h"

struct past;

int past_new(struct past **ret);   /* 0 or -ENOMEM; before the process confines itself */
void past_free(struct past *past); /* accepts NULL */

/* The value of a mapping's part from now on (loop_now()). NULL: nobody keeps them. */
void past_add(struct past *past, uint32_t mapping, enum vault_part part, struct str value, uint64_t now);
/* Changes whenever what is kept here does. 0 when nothing is kept at all. */
uint64_t past_generation(const struct past *past);
/* What is kept, between these two: each value of a mapping, the current one too; *at is 0 before the first. */
void past_lock(struct past *past, uint64_t now);
bool past_next(const struct past *past, uint32_t mapping, size_t *at, enum vault_part *ret_part, struct str *ret_value);
void past_unlock(struct past *past);
