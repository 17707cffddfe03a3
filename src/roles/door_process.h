/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The door (ipc/door_messages.h) as the dashboard sees it: one process for the life of one pairing. When it dies the
 * pairing is over, and the other way round.
 */
#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

enum { DOOR_DIGEST_BYTES = 32 };

struct door_process {
        pid_t pid; /* 0: none */
        int fd;
};
#define DOOR_NONE ((struct door_process){ .fd = -1 })

/* `address`: what the certificate is for, IPv6 in brackets. */
int door_process_start(const char *address, uint64_t seconds, struct door_process *ret,
                       unsigned char ret_digest[static DOOR_DIGEST_BYTES], struct err *err);
/* Hands a connection over, which stays the caller's to close; *ret_plain is where its bytes come out. */
int door_process_hand(const struct door_process *door, int connection, int *ret_plain);
void door_process_stop(struct door_process *door);
