/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who the running service is. A number alone is not enough: it is given away again when the process ends. The file has
 * the number, the boot, the time at which the process started and a word that is on its command line; a process that
 * does not have all of them is somebody else's and is never signalled. Signals go through a descriptor of the process
 * that was examined, so they cannot reach the next one with its number.
 */
#include "base/err.h"
#include "base/processes/process.h"
#include "base/str.h"

#include <stdbool.h>
#include <sys/types.h>

#define EGRESS_NONCE_MAX 33

struct egress_identity {
        pid_t pid;
        uint64_t start_time; /* in the kernel's ticks since boot */
        char boot[PROCESS_BOOT_MAX];
        char nonce[EGRESS_NONCE_MAX];
};

int egress_identity_self(const char *nonce, struct egress_identity *ret, struct err *err);

/* Makes the file: O_EXCL, no link followed, 0600. One that names no living service is removed first. -EEXIST: a service
 * lives. */
int egress_pid_write(const char *directory, const struct egress_identity *id, struct err *err);
/* The living service: its identity and a descriptor of it. -ENOENT: none (a file without one is removed when `tidy`).
 */
int egress_pid_find(const char *directory, bool tidy, struct egress_identity *ret, int *ret_pidfd, struct err *err);
/* Removes the file if it is about this process. */
void egress_pid_remove(const char *directory, const struct egress_identity *id);
