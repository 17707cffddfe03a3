/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the broker sees being made and somebody has to look at after the run, written to the run's slot
 * (kept/guard_registry.h) before it is made: whenever a process is killed, the slot has every such path.
 */
#include <stdbool.h>

enum note_kind {
        NOTE_REPOSITORY, /* made harmless after the run */
        NOTE_SETTINGS,   /* moved away after the run */
        NOTE_KINDS
};

struct notes;

/* `record` (or -1) is the slot, which grows at its end; it stays the caller's. */
int notes_new(int record, struct notes **ret);
void notes_free(struct notes *notes);
void notes_freep(struct notes **notes);

/* Whether somebody reads them. */
bool notes_are_kept(const struct notes *notes);
/* Whether no more of this kind can be noted. */
bool notes_are_full(const struct notes *notes, enum note_kind kind);
bool notes_have(const struct notes *notes, enum note_kind kind, const char *path);
int notes_add(struct notes *notes, enum note_kind kind, const char *path);
/* A note that should be there is not: from then on nothing more can be noted. */
void notes_lose(struct notes *notes);

/* A directory is about to move, or two to change places: 0, or -EDQUOT and others when that cannot be noted. */
int notes_moving(struct notes *notes, const char *from, const char *to, bool exchanged);
/* It did; or it did not. */
void notes_moved(struct notes *notes, const char *from, const char *to, bool exchanged);
void notes_not_moved(struct notes *notes);
