/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Landlock by ABI: the rights as the kernel numbers them (the distribution's header stops at an older ABI, so they are
 * ours), which ABI brought which, and the two sets that plans use. Pure.
 */
#include <stdint.h>

#define LANDLOCK_ABI_NEWEST 9 /* rights of later ABIs are left alone, not guessed */
#define LANDLOCK_ABI_UNIX 9   /* from here on the kernel tells sockets of the host from the sandbox's own */

enum landlock_fs {
        LANDLOCK_FS_EXECUTE = 1u << 0,
        LANDLOCK_FS_WRITE_FILE = 1u << 1,
        LANDLOCK_FS_READ_FILE = 1u << 2,
        LANDLOCK_FS_READ_DIR = 1u << 3,
        LANDLOCK_FS_REMOVE_DIR = 1u << 4,
        LANDLOCK_FS_REMOVE_FILE = 1u << 5,
        LANDLOCK_FS_MAKE_CHAR = 1u << 6,
        LANDLOCK_FS_MAKE_DIR = 1u << 7,
        LANDLOCK_FS_MAKE_REG = 1u << 8,
        LANDLOCK_FS_MAKE_SOCK = 1u << 9,
        LANDLOCK_FS_MAKE_FIFO = 1u << 10,
        LANDLOCK_FS_MAKE_BLOCK = 1u << 11,
        LANDLOCK_FS_MAKE_SYM = 1u << 12,
        LANDLOCK_FS_REFER = 1u << 13,
        LANDLOCK_FS_TRUNCATE = 1u << 14,
        LANDLOCK_FS_IOCTL_DEV = 1u << 15,
        LANDLOCK_FS_RESOLVE_UNIX = 1u << 16,
};
enum landlock_net { LANDLOCK_NET_BIND_TCP = 1u << 0, LANDLOCK_NET_CONNECT_TCP = 1u << 1 };
enum landlock_scope { LANDLOCK_SCOPED_ABSTRACT_UNIX = 1u << 0, LANDLOCK_SCOPED_SIGNAL = 1u << 1 };

struct landlock_rights {
        uint64_t fs, net, scoped;
};
/* Everything that this ABI can restrict. */
struct landlock_rights landlock_rights(unsigned abi);

#define LANDLOCK_READ (LANDLOCK_FS_EXECUTE | LANDLOCK_FS_READ_FILE | LANDLOCK_FS_READ_DIR)
/* Everything that makes sense below a writable directory: no device nodes. */
#define LANDLOCK_WRITE                                                                                                 \
        (LANDLOCK_READ | LANDLOCK_FS_WRITE_FILE | LANDLOCK_FS_REMOVE_DIR | LANDLOCK_FS_REMOVE_FILE |                   \
         LANDLOCK_FS_MAKE_DIR | LANDLOCK_FS_MAKE_REG | LANDLOCK_FS_MAKE_SOCK | LANDLOCK_FS_MAKE_FIFO |                 \
         LANDLOCK_FS_MAKE_SYM | LANDLOCK_FS_REFER | LANDLOCK_FS_TRUNCATE)
/* The kernel refuses directory rights on a rule for a file. */
#define LANDLOCK_ON_FILE                                                                                               \
        (LANDLOCK_FS_EXECUTE | LANDLOCK_FS_WRITE_FILE | LANDLOCK_FS_READ_FILE | LANDLOCK_FS_TRUNCATE |                 \
         LANDLOCK_FS_IOCTL_DEV | LANDLOCK_FS_RESOLVE_UNIX)

/* The name of the lowest right in the mask, which is taken out of it; NULL when the mask is empty. */
const char *landlock_fs_name(uint64_t *mask);
