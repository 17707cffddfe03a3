/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Sign-ins that are being renewed: who has the turn, and who waits for it. The vault asks the reader to lock and to
 * write; this decides the next step. Knows no sockets.
 */
#include "base/secrets/secret.h"
#include "ipc/vault_messages.h"

enum { TURNS_MAX = 64 };

enum turn_state {
        TURN_WAITING, /* for its turn */
        TURN_LOCKING, /* the reader was asked */
        TURN_HELD,    /* the gateway sends the refresh token */
        TURN_WRITING, /* the tokens that came are being written */
};

struct turn {
        int channel;
        uint64_t id; /* of the question that is to be answered next */
        uint32_t leader;
        enum turn_state state;
        uint64_t since_ns;
        struct secret *sent;  /* TURN_HELD: the refresh token that was given out */
        struct secret *lines; /* TURN_WRITING */
};

struct turns {
        struct turn list[TURNS_MAX]; /* in order of arrival */
        size_t n;
};

/* NULL: too many wait. */
struct turn *turns_add(struct turns *turns, int channel, uint64_t id, uint32_t leader);
/* The one of this leader that is beyond waiting; NULL: none. */
struct turn *turns_current(struct turns *turns, uint32_t leader);
/* The next that waits, if none is current. */
struct turn *turns_next(struct turns *turns, uint32_t leader);
void turns_remove(struct turns *turns, struct turn *turn);
