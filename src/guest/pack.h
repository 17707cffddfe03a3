/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A directory as one file: tar's format, compressed by zstd, with checksums. tar is the system's; it is run where the
 * caller is, with the caller's rights, which should be those of the guest alone.
 */
#include "base/err.h"
#include "store/progress.h"

/* The content of the directory into the file. */
int pack_directory(int directory, int file, struct progress *progress, struct err *err);
/* The other way round, into an empty directory. -EBADMSG: the file is damaged or cut short. */
int unpack_directory(int file, int directory, struct progress *progress, struct err *err);
