/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership: only the process that holds the lock on FILE writes, truncates or renames it and its rotated forms. `size`
 * is the length that is known to consist of whole lines; anything after it is ours to remove. Anyone who can write to
 * the directory can delete the log: the chain shows changes, it does not prevent them.
 */
#include "store/audit.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct audit {
        char *path;
        int fd;
        struct audit_head head;
        struct buf pending; /* whole lines that are not in the file yet */
        uint64_t first_seq; /* of this run, in a log that goes on */
        uint64_t size, max_bytes;
        unsigned keep;
        uint64_t lost;
        bool failed, torn; /* torn: bytes of a half-written line may stand behind `size` */
};

enum { NOTE_MAX = 24576 }; /* an answer stands behind what it is about, every byte of which may be escaped */
enum { FRAME = 3 };        /* a run says that it starts and ends, and the log that it stops */
enum { LOCK_TRIES = 40, LOCK_STEP_MS = 5 };
static const char line_start[] = "{\"ts\":\"";

char *audit_rotated_name(const char *path, unsigned k) {
        return k == 0 ? str_format("%s", path) : str_format("%s.%u", path, k);
}

void audit_free(struct audit *audit) {
        if (!audit)
                return;
        close_fd(&audit->fd);
        buf_done(&audit->pending);
        free(audit->path);
        free(audit);
}

void audit_freep(struct audit **audit) {
        audit_free(*audit);
}

bool audit_writable(const struct audit *audit) {
        return !audit->failed;
}

const char *audit_path(const struct audit *audit) {
        return audit->path;
}

/*
 * Finding the end of the chain.
 */

static int read_at(int fd, uint64_t offset, struct buf *into, size_t n) {
        int r = buf_reserve(into, n);
        while (r == 0 && n > 0) {
                ssize_t got = pread(fd, into->p + into->n, n, (off_t)offset);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return -errno;
                if (got <= 0)
                        return -EPIPE;

                into->n += (size_t)got;
                offset += (size_t)got;
                n -= (size_t)got;
        }

        return r;
}

/* Takes the chain on from this line. */
static int continue_from(struct audit_head *head, struct str line, struct err *err) {
        struct audit_record record;
        unsigned char digest[DIGEST_BYTES];
        int r = audit_line_parse(line, &record, err);
        if (r < 0)
                return r;

        digest_sha256(line, digest);
        digest_hex(digest, head->prev);
        head->seq = record.seq + 1;

        return 0;
}

/* Removes only what this writer may have left: a partial line, or blocks that were never written. */
static bool is_torn_line(struct str s) {
        size_t n = min_of(s.n, sizeof line_start - 1);
        if (memcmp(s.p, line_start, n) == 0)
                return true;
        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] != '\0')
                        return false;
        return true;
}

/* The last whole line of the file: sets the chain, *ret_good is the length up to its end. */
static int find_end(struct audit_head *head, int fd, const char *path, uint64_t size, uint64_t *ret_good,
                    struct err *err) {
        cleanup(buf_done) struct buf tail = BUF(2 * AUDIT_LINE_MAX);
        size_t window = size < tail.max ? (size_t)size : tail.max;
        int r = read_at(fd, size - window, &tail, window);
        if (r < 0)
                return err_set(err, -r, "cannot read %s: %s", path, strerror(-r));

        struct str text = buf_str(&tail);
        ptrdiff_t end = str_rfind(text, '\n');
        struct str torn = str_skip(text, (size_t)(end + 1));
        if ((end < 0 && window < size) || (torn.n && !is_torn_line(torn)))
                return err_set(err, EBADMSG,
                               "%s does not end like an audit log; it is left as it is, name another file", path);

        *ret_good = size - torn.n;
        if (end < 0)
                return 0;

        struct str lines = str_first(text, (size_t)end);
        ptrdiff_t before = str_rfind(lines, '\n');
        if (before < 0 && window < size)
                return err_set(err, EBADMSG, "%s has a line that is too long for an audit log", path);

        r = continue_from(head, str_skip(lines, (size_t)(before + 1)), err);
        if (r < 0)
                return err_wrap(err, r, "%s does not end with an audit record; it is left as it is", path);

        return 0;
}

static int open_to_read(const char *path, struct stat *ret_st) {
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        if (fstat(fd, ret_st) < 0)
                return -errno;
        return take_fd(&fd);
}

/* A new or empty file goes on where the newest rotated one ended. */
static int continue_from_rotated(struct audit *audit, struct err *err) {
        cleanup(free_ptr) char *name = audit_rotated_name(audit->path, 1);
        struct stat st = { 0 };
        uint64_t good;

        if (!name)
                return err_memory(err);

        cleanup(close_fd) int fd = open_to_read(name, &st);
        if (fd == -ENOENT)
                return 0;
        if (fd < 0)
                return err_set(err, -fd, "cannot open %s: %s", name, strerror(-fd));

        if (st.st_size > 0)
                return find_end(&audit->head, fd, name, (uint64_t)st.st_size, &good, err);

        return 0;
}

static int audit_recover(struct audit *audit, struct err *err) {
        struct stat st = { 0 };
        cleanup(close_fd) int fd = open_to_read(audit->path, &st);
        if (fd < 0)
                return err_set(err, -fd, "cannot open %s: %s", audit->path, strerror(-fd));

        uint64_t size = (uint64_t)st.st_size;
        int r = 0;
        if (size > 0)
                r = find_end(&audit->head, fd, audit->path, size, &audit->size, err);
        if (r == 0 && audit->size == 0)
                r = continue_from_rotated(audit, err);
        if (r < 0 || audit->size == size)
                return r;
        if (ftruncate(audit->fd, (off_t)audit->size) < 0)
                return err_errno(err, "cannot remove the unfinished record at the end of %s", audit->path);

        r = audit_note(audit, "an unfinished record of %ju bytes was removed", (uintmax_t)(size - audit->size));
        if (r < 0)
                return err_set(err, -r, "out of memory");

        return 0;
}

/*
 * Opening.
 */

/* A rotation that was cut short has given the file its second name already but not made room for the new one. */
static void finish_rotation(const struct audit *audit) {
        cleanup(free_ptr) char *name = audit_rotated_name(audit->path, 1);
        struct stat ours, other;
        if (name && fstat(audit->fd, &ours) == 0 && lstat(name, &other) == 0 && ours.st_ino == other.st_ino &&
            ours.st_dev == other.st_dev)
                unlink(name);
}

/* Who reads a log looks for its writer by this lock, and has it for a moment; another writer keeps it. */
static int take_writer_lock(int fd) {
        for (int tries = LOCK_TRIES; flock(fd, LOCK_EX | LOCK_NB) < 0; tries--) {
                if (errno != EWOULDBLOCK || tries == 0)
                        return -errno;
                (void)poll(NULL, 0, LOCK_STEP_MS);
        }
        return 0;
}

static int open_locked(const char *path, int *ret_fd, struct err *err) {
        cleanup(close_fd) int fd = -1;
        int r = path_open_append(path, 0600, &fd, err);
        if (r < 0)
                return r;

        r = take_writer_lock(fd);
        if (r == -EWOULDBLOCK)
                return err_set(err, EBUSY, "another bailey is writing to %s; give each its own file", path);
        if (r < 0)
                return err_set(err, -r, "cannot lock %s: %s", path, strerror(-r));

        struct stat ours, named;

        if (fstat(fd, &ours) < 0 || lstat(path, &named) < 0 || ours.st_ino != named.st_ino ||
            ours.st_dev != named.st_dev)
                return err_set(err, EBUSY, "%s was replaced while it was opened", path);

        if ((ours.st_mode & 07777) != 0600 && fchmod(fd, 0600) < 0)
                return err_errno(err, "cannot close %s to other users", path);

        *ret_fd = take_fd(&fd);
        return 0;
}

int audit_open(const struct audit_settings *settings, struct audit **ret, struct err *err) {
        if (!audit_id_valid(settings->run_id) || !audit_id_valid(settings->sandbox))
                return err_set(err, EINVAL, "a run or sandbox id must be 1 to %d letters, digits, '-' or '_'",
                               AUDIT_ID_MAX - 1);

        cleanup(audit_freep) struct audit *a = calloc(1, sizeof *a);
        if (!a)
                return err_memory(err);

        a->fd = -1;
        a->pending = BUF(AUDIT_PENDING_MAX);
        a->path = str_format("%s", settings->path);
        if (!a->path)
                return err_memory(err);

        a->max_bytes = settings->max_bytes ? settings->max_bytes : AUDIT_MAX_BYTES;
        a->keep = settings->keep ? settings->keep : AUDIT_KEEP;
        a->head.seq = 1;
        memset(a->head.prev, '0', sizeof a->head.prev - 1);
        snprintf(a->head.run_id, sizeof a->head.run_id, "%s", settings->run_id);
        snprintf(a->head.sandbox, sizeof a->head.sandbox, "%s", settings->sandbox);

        int r = open_locked(a->path, &a->fd, err);
        if (r < 0)
                return r;

        finish_rotation(a);
        r = audit_recover(a, err);
        if (r == 0)
                a->first_seq = a->head.seq;
        if (r == 0)
                r = audit_flush(a, err); /* shows at once whether it can be written, where something is to be written */
        if (r < 0)
                return r;

        *ret = take_ptr(&a);
        return 0;
}

int audit_close(struct audit *audit, struct err *err) {
        if (!audit)
                return 0;

        cleanup(audit_freep) struct audit *closing = audit;
        int r = audit_note(closing, AUDIT_STOPPED_TEXT);
        if (r < 0)
                r = err_set(err, -r, "cannot note the end in %s", closing->path);
        else
                r = audit_flush(closing, err);

        /* Starts writeback; the end of a run does not wait for it. If the run has no records but its start and end,
         * leave it to the kernel: the call would take as long as all writes before it. */
        if (r == 0 && closing->head.seq > closing->first_seq + FRAME)
                (void)sync_file_range(closing->fd, 0, 0, SYNC_FILE_RANGE_WRITE);

        return r;
}

/*
 * Rotation, in an order that may be cut at any point. A note of what will be dropped is in the log before it is
 * dropped. The old file gets its second name first, then the new one takes the first name over, so that FILE exists,
 * locked, at every moment. A new file is empty until the next flush: its chain goes on from FILE.1.
 */

static int first_record(const char *path, uint64_t *ret_seq) {
        struct stat st = { 0 };
        struct audit_record record;
        cleanup(close_fd) int fd = open_to_read(path, &st);
        if (fd < 0)
                return fd;

        cleanup(buf_done) struct buf start = BUF(AUDIT_LINE_MAX);
        size_t n = (uint64_t)st.st_size < start.max ? (size_t)st.st_size : start.max;
        int r = read_at(fd, 0, &start, n);
        ptrdiff_t end = -1;

        if (r >= 0)
                end = str_find(buf_str(&start), '\n');

        if (end < 0 && r < 0)
                return r;
        if (end < 0)
                return -EBADMSG;

        r = audit_line_parse(str_first(buf_str(&start), (size_t)end), &record, NULL);
        if (r == 0)
                *ret_seq = record.seq;

        return r;
}

/* The first record in the oldest file that stays when the last one goes. */
static int oldest_left(const struct audit *audit, uint64_t *ret_seq) {
        int r = -EBADMSG;
        for (unsigned k = audit->keep; k-- > 0 && r < 0;) {
                cleanup(free_ptr) char *name = audit_rotated_name(audit->path, k);
                if (name)
                        r = first_record(name, ret_seq);
                else
                        r = -ENOMEM;
        }
        return r;
}

/* FILE.1 becomes FILE.2 and so on; the last one goes. */
static int audit_shift(const struct audit *audit, struct err *err) {
        for (unsigned k = audit->keep; k > 0; k--) {
                cleanup(free_ptr) char *from = audit_rotated_name(audit->path, k),
                                       *to = audit_rotated_name(audit->path, k + 1);
                if (!from || !to)
                        return err_memory(err);

                int r = k == audit->keep ? unlink(from) : rename(from, to);
                if (r < 0 && errno != ENOENT)
                        return err_errno(err, "cannot move %s out of the way", from);
        }

        return 0;
}

static int audit_replace(struct audit *audit, struct err *err) {
        cleanup(free_ptr) char *fresh = str_format("%s.new", audit->path), *old = audit_rotated_name(audit->path, 1);
        cleanup(close_fd) int fd = -1;

        if (!fresh || !old)
                return err_memory(err);
        if (unlink(fresh) < 0 && errno != ENOENT)
                return err_errno(err, "cannot remove %s", fresh);

        int r = open_locked(fresh, &fd, err);
        if (r == 0)
                r = audit_shift(audit, err);
        if (r < 0)
                return r;
        if (link(audit->path, old) < 0)
                return err_errno(err, "cannot rotate %s", audit->path);

        if (rename(fresh, audit->path) < 0) {
                r = err_errno(err, "cannot rotate %s", audit->path);
                unlink(old);
                return r;
        }

        close_fd(&audit->fd);
        audit->fd = take_fd(&fd);
        audit->size = 0;

        return 0;
}

static int write_pending(struct audit *audit, struct err *err);

static int audit_rotate(struct audit *audit, struct err *err) {
        cleanup(free_ptr) char *last = audit_rotated_name(audit->path, audit->keep);
        uint64_t left;

        if (!last)
                return err_memory(err);

        if (access(last, F_OK) == 0) {
                if (oldest_left(audit, &left) < 0)
                        return err_set(err, EBADMSG, "no record can be read from %s; it is not rotated", audit->path);

                int r = audit_note(audit, AUDIT_DROPPED_TEXT "%ju", (uintmax_t)left);
                if (r < 0)
                        r = err_set(err, -r, "out of memory");
                else
                        r = write_pending(audit, err);
                if (r < 0)
                        return r;
        }

        if (fdatasync(audit->fd) < 0)
                return err_errno(err, "cannot write %s to the disk", audit->path);

        return audit_replace(audit, err);
}

/*
 * Writing.
 */

int audit_add(struct audit *audit, const struct event *ev, const struct snapshot_rule *rule) {
        size_t start = audit->pending.n;
        int r = audit_line_format(&audit->pending, &audit->head, ev, rule);
        size_t end = audit->pending.n;

        if (r == 0)
                r = buf_add_char(&audit->pending, '\n');

        if (r < 0) {
                audit->pending.n = start;
                audit->lost++;
                return -ENOBUFS;
        }

        unsigned char digest[DIGEST_BYTES];
        digest_sha256(str_n(audit->pending.p + start, end - start), digest);
        digest_hex(digest, audit->head.prev);
        audit->head.seq++;

        return 0;
}

int audit_note(struct audit *audit, const char *format, ...) {
        char text[NOTE_MAX];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        struct event ev = { .kind = EVENT_NOTE, .wall_us = clock_wall_us(), .rule = RULE_NONE, .detail = str_of(text) };
        return audit_add(audit, &ev, NULL);
}

/* The file is as this writer left it: nobody removed it, cut it or wrote to it. Half a line of our own is removed. */
static int check_file(struct audit *audit, struct err *err) {
        struct stat st;

        if (audit->torn && ftruncate(audit->fd, (off_t)audit->size) < 0)
                return err_errno(err, "cannot remove an unfinished record from %s", audit->path);

        audit->torn = false;
        if (fstat(audit->fd, &st) < 0)
                return err_errno(err, "cannot examine %s", audit->path);
        if (st.st_nlink == 0)
                return err_set(err, ENOENT, "%s was removed while it was written", audit->path);

        if ((uint64_t)st.st_size != audit->size)
                return err_set(err, EBADMSG, "%s was changed by somebody else: it has %jd bytes and should have %ju",
                               audit->path, (intmax_t)st.st_size, (uintmax_t)audit->size);

        return 0;
}

/* After a write that stopped half-way: keep the whole lines of it, remove the rest. */
static void audit_settle(struct audit *audit, size_t written) {
        ptrdiff_t end = str_rfind(str_n(audit->pending.p, written), '\n');
        size_t whole = (size_t)(end + 1);
        audit->size += whole;
        buf_consume(&audit->pending, whole);
        if (written > whole)
                audit->torn = ftruncate(audit->fd, (off_t)audit->size) < 0;
}

static int write_pending(struct audit *audit, struct err *err) {
        size_t written = 0;
        while (written < audit->pending.n) {
                ssize_t n = write(audit->fd, audit->pending.p + written, audit->pending.n - written);
                if (n < 0 && errno == EINTR)
                        continue;

                if (n <= 0) {
                        int code = n < 0 ? errno : ENOSPC;

                        audit_settle(audit, written);
                        return err_set(err, code, "cannot write to %s: %s", audit->path, strerror(code));
                }

                written += (size_t)n;
        }

        audit->size += written;
        buf_clear(&audit->pending);

        return 0;
}

static int flush_once(struct audit *audit, struct err *err) {
        int r = check_file(audit, err);
        if (r == 0)
                r = write_pending(audit, err);
        if (r == 0 && audit->size > audit->max_bytes)
                return audit_rotate(audit, err);

        return r;
}

int audit_flush(struct audit *audit, struct err *err) {
        int r = 0;

        if (audit->pending.n > 0 || audit->torn)
                r = flush_once(audit, err);

        if (r == 0 && audit->lost > 0) {
                uint64_t lost = audit->lost;

                r = audit_note(audit, "%ju records were lost while the log could not be written", (uintmax_t)lost);
                if (r == 0) {
                        audit->lost -= lost;
                        r = flush_once(audit, err);
                }
        }

        audit->failed = r < 0;
        return r;
}
