/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The words of a command as bytes, each with a NUL at its end: how a command travels in a message.
 */
#include "base/buf.h"
#include "base/str.h"

/* -EMSGSIZE or -ENOMEM: more than the buffer may hold. */
int words_pack(char *const *words, struct buf *ret);

/* A NULL-terminated array on the heap; the words themselves stay where the bytes are. -EBADMSG: no words, or the last
 * one has no end. */
int words_unpack(struct str bytes, char ***ret, size_t *ret_n);
