/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which slots of the registry of guards (kept/guard_registry.h) need not be read: where a thousand sandboxes run, a
 * launch is not to read a thousand records three times, most of which are about other places, or say the same.
 *
 *     $XDG_STATE_HOME/bailey/guards/table   a row for each slot, written whenever the slot is
 *
 * A row says who supervises the run, and, as keyed hashes, which roots it writes and what it guards. It only ever keeps
 * a slot from being read, and only while that supervisor runs. One that was killed, one of another boot or of another
 * process namespace, a row that is torn, free or of a version that wrote none: the slot itself is read.
 *
 * A killed supervisor that nobody waits for still has its number, and somebody else may get it. So those who look for
 * runs that are over doubt some of the others, too, and look at the lock of the slot: all, if they are few, else a few
 * of them each time.
 */
#include "base/hash.h"
#include "base/vec.h"

#include <stdbool.h>
#include <sys/types.h>

enum { GUARD_ROW_ROOTS = 6 };

struct guard_row {
        uint64_t boot, space; /* of the supervisor */
        int32_t supervisor;   /* 0: nothing is known of the slot */
        uint32_t n_roots;     /* more than fit: whatever is asked, the slot is read */
        uint64_t same;        /* slots with the same say the same */
        uint64_t roots[GUARD_ROW_ROOTS];
        uint64_t above[4]; /* a filter: the roots and the directories above them */
        uint64_t check;
        uint64_t unused;
};

struct guard_table {
        struct hash_key key;
        uint64_t boot, space;
        bool known;
        VEC(struct guard_row) rows;
};

/* Without a table, or with a damaged one, there are no rows. `make`: one is begun then; with the registry locked. */
void guard_table_read(struct guard_table *ret, int registry, bool make);
void guard_table_done(struct guard_table *table);

/* Of this process, and of a slot with these roots and bytes. `apart`: it guards something that is in none of them. */
struct guard_row guard_row_make(const struct guard_table *table, const char *const *roots, size_t n, bool apart,
                                const void *bytes, size_t bytes_n);
/* If it cannot be written whole, what is there is made void. */
void guard_row_put(int registry, int number, const struct guard_row *row);
void guard_row_void(int registry, int number);
/* Void, if the table has it: of a slot whose run is over. */
void guard_row_clear(int registry, const struct guard_table *table, int number);

/* What somebody asks about. */
struct guard_reach {
        const struct guard_table *table;
        bool finds_over;     /* runs that are over are looked for, wherever they were */
        int own;             /* this slot is read anyway; -1: none */
        uint32_t doubted;    /* the first one, by chance */
        VEC(uint64_t) asked; /* the places, and */
        VEC(uint64_t) above; /* they and all directories above them; sorted by guard_reach_ready() */
        VEC(struct guard_said {
                uint64_t same;
                unsigned slots;
        })
        said;
};

int guard_reach_add(struct guard_reach *reach, const char *path);
void guard_reach_ready(struct guard_reach *reach);
void guard_reach_done(struct guard_reach *reach);
/* Whether a slot must be read: it may be about one of the places and says something that two others which were heard
 * did not, or its run is over. */
bool guard_reach_wants(struct guard_reach *reach, int number);
/* Of one that was read: it runs, and says what its row says. */
void guard_reach_heard(struct guard_reach *reach, int number);
/* Whether one that is not wanted is to be asked for its lock all the same. */
bool guard_reach_doubts(const struct guard_reach *reach, int number);
