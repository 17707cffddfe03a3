/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker/made/notes.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "base/vec.h"
#include "policy/paths/deep_settings.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORD_MAX = 12 << 20 }; /* bytes of all paths together */

static const struct {
        const char *word; /* in the slot (kept/guard_slot.c) */
        size_t paths, bytes;
} kinds[NOTE_KINDS] = {
        [NOTE_REPOSITORY] = { "made", 4096, 8 << 20 },
        [NOTE_SETTINGS] = { "settings", 16384, 4 << 20 },
};

struct note {
        enum note_kind kind;
        char *path;
};

struct notes {
        VEC(struct note) list;
        size_t paths[NOTE_KINDS], bytes[NOTE_KINDS];
        int record;
        off_t base; /* where the notes begin in it */
        bool lost;  /* a note that should be there is not: from then on nothing is made or moved */
        bool stale; /* more is noted than there is, for lack of room: the list has to be written anew */
};

int notes_new(int record, struct notes **ret) {
        struct notes *notes = calloc(1, sizeof *notes);
        struct stat st;

        if (!notes)
                return -ENOMEM;

        notes->record = record;
        if (record >= 0 && fstat(record, &st) == 0)
                notes->base = st.st_size;

        *ret = notes;
        return 0;
}

void notes_free(struct notes *notes) {
        if (!notes)
                return;

        for (size_t i = 0; i < notes->list.n; i++)
                free(notes->list.p[i].path);

        vec_done(&notes->list);
        free(notes);
}

void notes_freep(struct notes **notes) {
        notes_free(*notes);
        *notes = NULL;
}

bool notes_are_kept(const struct notes *notes) {
        struct stat st;

        return notes->record >= 0 && fstat(notes->record, &st) == 0 && S_ISREG(st.st_mode);
}

bool notes_are_full(const struct notes *notes, enum note_kind kind) {
        return notes->lost || notes->paths[kind] >= kinds[kind].paths || notes->bytes[kind] >= kinds[kind].bytes;
}

void notes_lose(struct notes *notes) {
        notes->lost = true;
}

/* --- the record --- */

static int write_at(int fd, const struct buf *bytes, off_t at) {
        for (size_t done = 0; done < bytes->n;) {
                ssize_t n = pwrite(fd, bytes->p + done, bytes->n - done, at + (off_t)done);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n <= 0)
                        return -EIO;

                done += (size_t)n;
        }

        return 0;
}

static int put_note(struct buf *out, enum note_kind kind, const char *path) {
        const char *word = kinds[kind].word;
        int r = buf_append(out, str_n(word, strlen(word) + 1));

        if (r < 0)
                return r;

        return buf_append(out, str_n(path, strlen(path) + 1));
}

/* At the end, or not at all: a full disk may take a part of it. */
static int write_more(const struct notes *notes, const struct buf *more) {
        struct stat st;

        if (notes->record < 0 || more->n == 0)
                return 0;
        if (fstat(notes->record, &st) < 0)
                return -errno;

        int failed = write_at(notes->record, more, st.st_size);
        if (failed && ftruncate(notes->record, st.st_size) < 0)
                return -errno;

        return failed;
}

/* All of it, from its beginning: paths have changed. This process may be killed at any byte, and where a path has
 * become longer the ones behind it are written over before they stand in their new place. So the list is at the end
 * first: it is as long as what is there at most, and does not reach that far. Without room for that the record stays:
 * it has the old paths and the new ones. */
static void write_all(struct notes *notes) {
        cleanup(buf_done) struct buf bytes = BUF(2 * RECORD_MAX);
        int failed = 0;

        for (size_t i = 0; i < notes->list.n && failed == 0; i++)
                failed = put_note(&bytes, notes->list.p[i].kind, notes->list.p[i].path);

        if (notes->record < 0)
                return;
        if (failed == 0)
                failed = write_more(notes, &bytes);

        notes->stale = failed;
        if (failed)
                return;
        if (write_at(notes->record, &bytes, notes->base) < 0) {
                notes->lost = true;
                return;
        }

        if (ftruncate(notes->record, notes->base + (off_t)bytes.n) < 0)
                return;
}

bool notes_have(const struct notes *notes, enum note_kind kind, const char *path) {
        for (size_t i = notes->list.n; i-- > 0;)
                if (notes->list.p[i].kind == kind && strcmp(notes->list.p[i].path, path) == 0)
                        return true;
        return false;
}

int notes_add(struct notes *notes, enum note_kind kind, const char *path) {
        cleanup(buf_done) struct buf bytes = BUF(2 * PATH_MAX);
        cleanup(free_ptr) char *copy = strdup(path);
        int failed;

        if (notes_have(notes, kind, path))
                return 0;
        if (notes->stale)
                write_all(notes);

        if (copy)
                failed = put_note(&bytes, kind, path);
        else
                failed = -ENOMEM;
        if (failed == 0)
                failed = vec_push(&notes->list, ((struct note){ kind, copy }));
        if (failed)
                return failed;

        take_ptr(&copy);
        failed = write_more(notes, &bytes);
        if (failed) {
                free(notes->list.p[--notes->list.n].path);
                return failed;
        }

        notes->paths[kind]++;
        notes->bytes[kind] += strlen(path);
        return 0;
}

/* --- what moves --- */

/* The same path, with one directory in place of the other; NULL: it stays what it is. */
static const char *carry_to(const char *path, const char *from, const char *to, bool exchanged, const char **ret_from) {
        if (path_is_within(path, from)) {
                *ret_from = from;
                return to;
        }
        if (exchanged && path_is_within(path, to)) {
                *ret_from = to;
                return from;
        }

        return NULL;
}

/* Settings that get their name by the move itself are noted anew; and what is taken out of a directory of settings is
 * content. The old place stays noted: nothing is there, or something that was noted. */
static bool is_left_behind(enum note_kind kind, const char *path, const char *from, const char *to,
                           const char *carried) {
        struct deep_found found;
        size_t n = strlen(to);

        return kind == NOTE_SETTINGS && (strcmp(path, from) == 0 || (!deep_settings_find(carried, n, &found) &&
                                                                     !deep_settings_begins(carried, n)));
}

/* *ret: its new path; NULL: it stays. */
static int carry(const struct note *note, const char *from, const char *to, bool exchanged, char **ret) {
        const char *place = NULL, *there = carry_to(note->path, from, to, exchanged, &place);
        cleanup(free_ptr) char *carried = there ? str_format("%s%s", there, note->path + strlen(place)) : NULL;

        *ret = NULL;
        if (!there)
                return 0;
        if (!carried)
                return -ENOMEM;
        if (!is_left_behind(note->kind, note->path, place, there, carried))
                *ret = take_ptr(&carried);

        return 0;
}

/* The new paths are noted beside the old ones before anything moves: whenever this process ends, the record has the
 * place of everything that is noted. */
int notes_moving(struct notes *notes, const char *from, const char *to, bool exchanged) {
        cleanup(buf_done) struct buf more = BUF(2 * RECORD_MAX);
        size_t bytes[NOTE_KINDS];

        memcpy(bytes, notes->bytes, sizeof bytes);

        for (size_t i = 0; i < notes->list.n; i++) {
                const struct note *note = &notes->list.p[i];
                cleanup(free_ptr) char *carried = NULL;
                int r = carry(note, from, to, exchanged, &carried);

                if (r < 0)
                        return r;
                if (!carried)
                        continue;

                bytes[note->kind] += strlen(carried) - strlen(note->path); /* unsigned: it may become less */
                if (notes->lost)
                        return -EDQUOT;
                if (strlen(carried) >= PATH_MAX)
                        return -ENAMETOOLONG; /* the sweep could not reach it */
                if (bytes[note->kind] >= kinds[note->kind].bytes)
                        return -EDQUOT;

                r = put_note(&more, note->kind, carried);
                if (r < 0)
                        return r;
        }

        return write_more(notes, &more);
}

void notes_moved(struct notes *notes, const char *from, const char *to, bool exchanged) {
        bool changed = false;

        for (size_t i = 0; i < notes->list.n; i++) {
                struct note *note = &notes->list.p[i];
                char *carried = NULL;

                notes->lost |= carry(note, from, to, exchanged, &carried) < 0;
                if (!carried)
                        continue;

                notes->bytes[note->kind] += strlen(carried) - strlen(note->path);
                free(note->path);
                note->path = carried;
                changed = true;
        }

        if (changed)
                write_all(notes);
}

void notes_not_moved(struct notes *notes) {
        if (notes->list.n)
                write_all(notes);
}
