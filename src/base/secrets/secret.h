/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Memory for secrets: kept out of swap and core dumps, surrounded by unmapped pages, wiped when freed.
 * Where the kernel has memfd_secret the pages are out of reach of the kernel's own direct map too.
 */
#include "base/err.h"
#include "base/str.h"

struct secret; /* opaque: cannot be copied or printed by accident */

int secret_new(struct str value, struct secret **ret, struct err *err);
/* The text in a buffer, which is wiped whole in any case; NULL for none. */
int secret_take(char *text, size_t size, struct secret **ret, struct err *err);
/* Room for n bytes, zeroed, to be filled through secret_bytes(). */
int secret_new_empty(size_t n, struct secret **ret, struct err *err);
void secret_free(struct secret *secret);
void secret_freep(struct secret **secret);
struct str secret_value(const struct secret *secret);
char *secret_bytes(struct secret *secret);
/* Takes the same time whatever the bytes are. */
bool secret_equal(struct str a, struct str b);
/* Not removed by the optimiser. */
void secret_wipe(void *p, size_t n);
struct buf;
/* Wiped, all of what it ever held, then freed. */
void secret_buf_done(struct buf *buf);
