/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/landlock.h"

#include <stddef.h>

static const struct {
        unsigned abi;
        struct landlock_rights adds;
} by_abi[] = {
        { 1, { .fs = (1u << 13) - 1 } },
        { 2, { .fs = LANDLOCK_FS_REFER } },
        { 3, { .fs = LANDLOCK_FS_TRUNCATE } },
        { 4, { .net = LANDLOCK_NET_BIND_TCP | LANDLOCK_NET_CONNECT_TCP } },
        { 5, { .fs = LANDLOCK_FS_IOCTL_DEV } },
        { 6, { .scoped = LANDLOCK_SCOPED_ABSTRACT_UNIX | LANDLOCK_SCOPED_SIGNAL } },
        { 9, { .fs = LANDLOCK_FS_RESOLVE_UNIX } },
};

struct landlock_rights landlock_rights(unsigned abi) {
        struct landlock_rights all = { 0 };
        for (size_t i = 0; i < sizeof by_abi / sizeof *by_abi && by_abi[i].abi <= abi; i++) {
                all.fs |= by_abi[i].adds.fs;
                all.net |= by_abi[i].adds.net;
                all.scoped |= by_abi[i].adds.scoped;
        }
        return all;
}

static const char *const fs_names[] = {
        "execute",   "write-file", "read-file", "read-dir",  "remove-dir",   "remove-file",
        "make-char", "make-dir",   "make-reg",  "make-sock", "make-fifo",    "make-block",
        "make-sym",  "refer",      "truncate",  "ioctl-dev", "resolve-unix",
};

const char *landlock_fs_name(uint64_t *mask) {
        for (size_t i = 0; i < sizeof fs_names / sizeof *fs_names; i++)
                if (*mask & (1ULL << i)) {
                        *mask &= ~(1ULL << i);
                        return fs_names[i];
                }
        return NULL;
}
