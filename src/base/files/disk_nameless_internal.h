/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A line of /proc/PID/maps, for tests. */
#include "base/str.h"

#include <sys/types.h>

struct mapping {
        uint64_t from, to, offset;
        dev_t device;
        uint64_t inode; /* 0: no file */
        bool deleted;   /* its name is gone, or ends like one that is */
};
bool mapping_parse(struct str line, struct mapping *ret);
