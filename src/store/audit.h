/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The audit log's writer. One JSON object per line (store/audit_line.h), mode 0600, one writer at a time (the file is
 * locked), hash-chained: each line carries its number and the SHA-256 of the line before it, also across rotated files
 * (FILE.1 is the newest of them) and across runs that share a file.
 *
 * Lines are formatted by audit_add() and written by audit_flush(), one write for a batch. Flushed lines survive the
 * death of every process at once. They survive a power failure once the kernel has written them: when the file is
 * rotated (fdatasync), and soon after it is closed (writeback is started, nobody waits). The next start removes a line
 * that a power failure cut, and notes that in the log.
 *
 * When the file cannot be written, audit_flush() says so and audit_writable() turns false: the caller refuses new work.
 * Lines wait in memory, up to a limit, and the next audit_flush() that succeeds makes it writable again; lines that did
 * not fit are counted and the count is noted. The file never keeps half a line.
 */
#include "store/audit_line.h"

struct audit; /* opaque */

struct audit_settings {
        const char *path;
        const char *run_id, *sandbox; /* audit_id_valid() */
        uint64_t max_bytes;           /* a file that has grown beyond is rotated; 0: AUDIT_MAX_BYTES */
        unsigned keep;                /* rotated files that are kept; 0: AUDIT_KEEP */
};
#define AUDIT_MAX_BYTES (64ULL * 1024 * 1024)
#define AUDIT_KEEP 8
#define AUDIT_PENDING_MAX (4 * 1024 * 1024)
/* In the detail of a note, before the number of the first record that is still there. */
#define AUDIT_DROPPED_TEXT "rotation dropped the records before seq "
/* The last record of a writer that ended in order. */
#define AUDIT_STOPPED_TEXT "audit closed"

/* -EBUSY when another process writes to the file, -EBADMSG when it holds something else than an audit log. */
int audit_open(const struct audit_settings *settings, struct audit **ret, struct err *err);
/* Writes what is pending and a last note; frees in any case. */
int audit_close(struct audit *audit, struct err *err);
/* Frees without a last note. */
void audit_free(struct audit *audit);
void audit_freep(struct audit **audit);

/* One event; `rule` is what decided, or NULL. -ENOBUFS when the line had to be given up (it is counted). */
int audit_add(struct audit *audit, const struct event *ev, const struct snapshot_rule *rule);
int audit_note(struct audit *audit, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The command, as a shell would read it; one that is too long for a note is cut, and marked so. */
void audit_note_command(struct audit *audit, char *const *argv);
int audit_flush(struct audit *audit, struct err *err);
bool audit_writable(const struct audit *audit);
const char *audit_path(const struct audit *audit);

/* The rotated file number k (0: the file itself). */
char *audit_rotated_name(const char *path, unsigned k);
