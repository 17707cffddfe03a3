/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A secret that is one member of a file, as agents keep their sign-in ("json:FILE#/POINTER", "yaml:..."). Runs where
 * sources are read (vault/reader.c).
 */
#include "base/buf.h"
#include "base/err.h"
#include "ipc/vault_messages.h"

#include <sys/stat.h>

enum { MEMBER_FILE_MAX = 1 << 20 };

/* At most VAULT_SECRET_MAX bytes into ret. */
int member_read(const char *source, char *ret, size_t *ret_n, struct err *err);
/* A descriptor of a regular file that not everybody may write. */
int member_open(const char *path, struct stat *ret_st, struct err *err);
/* The whole file (at most MEMBER_FILE_MAX bytes). */
int member_file(const char *path, struct buf *ret, struct err *err);
