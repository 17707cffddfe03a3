/* SPDX-License-Identifier: Apache-2.0 */
#include "store/audit_keep.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char record_name[] = "dropped.jsonl", stamp_name[] = ".kept";
enum { TAIL = 2 * AUDIT_LINE_MAX, SOMETIMES_SECONDS = 3600 };

/* The files of one run together. */
struct kept_run {
        const char *path;
        audit_names files;
        uint64_t bytes;
        time_t changed; /* when a record was last written */
};

static void kept_run_done(struct kept_run *run) {
        audit_names_done(&run->files);
}

static int run_examine(const char *path, struct kept_run *ret, struct err *err) {
        int r;

        *ret = (struct kept_run){ .path = path };
        r = audit_files(path, &ret->files, err);
        if (r < 0)
                return r;

        for (size_t i = 0; i < ret->files.n; i++) {
                struct stat st;
                if (lstat(ret->files.p[i], &st) < 0)
                        continue;
                ret->bytes += (uint64_t)st.st_size;
                if (st.st_mtime > ret->changed)
                        ret->changed = st.st_mtime;
        }
        return 0;
}

/*
 * What is said of a run that goes: from its first line and its last one.
 */
static void copy_time(char to[static CLOCK_TEXT_MAX], struct str ts) {
        snprintf(to, CLOCK_TEXT_MAX, "%.*s", STR_FMT(ts));
}

static bool read_first(const char *path, struct audit_dropped *ret, uint64_t *ret_seq) {
        cleanup(audit_reader_done) struct audit_reader reader = { .fd = -1 };
        struct audit_record record;
        struct str line;

        if (audit_reader_open(&reader, path, NULL) < 0 || audit_reader_next(&reader, &line, NULL) <= 0)
                return false;
        if (audit_line_parse(line, &record, NULL) < 0)
                return false;
        copy_time(ret->first_ts, record.ts);
        *ret_seq = record.seq;
        return true;
}

static bool read_last(const char *path, struct audit_dropped *ret, uint64_t *ret_seq) {
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        cleanup(buf_done) struct buf tail = BUF(TAIL);
        unsigned char digest[DIGEST_BYTES];
        struct audit_record record;
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return false;
        if (st.st_size > TAIL && lseek(fd, st.st_size - TAIL, SEEK_SET) < 0)
                return false;
        if (fd_read_all(fd, &tail) < 0)
                return false;

        struct str text = buf_str(&tail);
        ptrdiff_t end = -1;

        if (text.n)
                end = str_rfind(text, '\n');

        if (end < 0)
                return false;
        text = str_first(text, (size_t)end);
        struct str line = str_skip(text, (size_t)(str_rfind(text, '\n') + 1));
        if (audit_line_parse(line, &record, NULL) < 0)
                return false;

        copy_time(ret->last_ts, record.ts);
        digest_sha256(line, digest);
        digest_hex(digest, ret->last_hash);
        *ret_seq = record.seq;
        return true;
}

static void run_describe(const struct kept_run *run, struct audit_dropped *ret) {
        uint64_t first, last;

        ret->path = run->path;
        ret->bytes = run->bytes;
        if (read_first(run->files.p[0], ret, &first) && read_last(run->path, ret, &last) && last >= first)
                ret->records = last - first + 1;
}

/*
 * Dropping.
 */
static int run_unlink(const struct kept_run *run, struct err *err) {
        for (size_t i = 0; i < run->files.n; i++)
                if (unlink(run->files.p[i]) < 0 && errno != ENOENT)
                        return err_errno(err, "cannot remove %s", run->files.p[i]);
        return 0;
}

/* What is dropped goes on record; the log for it is there from the first time that something is. */
struct drop_record {
        const char *path;
        struct audit *audit; /* NULL: nothing yet */
};

static void drop_record_done(struct drop_record *record) {
        audit_free(record->audit);
}

static int drop_record_open(struct drop_record *record, struct err *err) {
        const struct audit_settings settings = { .path = record->path, .run_id = "keep", .sandbox = "keep" };
        int r;

        if (record->audit)
                return 0;
        r = audit_open(&settings, &record->audit, err);
        if (r < 0)
                return err_wrap(err, r, "what is dropped cannot be recorded");

        return 0;
}

static const char *known_or_mark(const char *text) {
        return *text ? text : "?";
}

/* First the record, then the act. */
static int run_drop(struct audit_keep *keep, struct drop_record *record, const struct kept_run *run, bool by_age,
                    struct err *err) {
        struct audit_dropped dropped = { .by_age = by_age };
        cleanup(free_ptr) char *id = str_dup(audit_run_id(run->path));
        int r;

        if (!id)
                return err_memory(err);
        dropped.run_id = id;
        run_describe(run, &dropped);

        if (!keep->dry) {
                r = drop_record_open(record, err);
                if (r < 0)
                        return r;
                r = audit_note(record->audit,
                               "dropped run %s: %ju records, %ju bytes, from %s to %s, SHA-256 of the last record %s, "
                               "%s",
                               id, (uintmax_t)dropped.records, (uintmax_t)dropped.bytes,
                               known_or_mark(dropped.first_ts), known_or_mark(dropped.last_ts),
                               known_or_mark(dropped.last_hash),
                               by_age ? "older than log.max_age" : "over log.max_size");
                if (r < 0)
                        return err_set(err, -r, "what is dropped cannot be recorded");
                r = audit_flush(record->audit, err);
                if (r < 0)
                        return r;
                r = run_unlink(run, err);
                if (r < 0)
                        return r;
        }
        keep->runs_dropped++;
        keep->bytes_dropped += run->bytes;
        if (keep->on_dropped)
                keep->on_dropped(keep->arg, &dropped);
        return 0;
}

/* The writer holds the lock; if we get it, nobody writes. */
static int run_lock(const struct kept_run *run) {
        int fd = open(run->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
                close_fd(&fd);
        return fd;
}

static int keep_runs(struct audit_keep *keep, struct drop_record *record, struct kept_run *runs, size_t n,
                     struct err *err) {
        const struct audit_limits *limits = &keep->limits;
        time_t now = (time_t)(clock_wall_us() / 1000000);

        for (size_t i = 0; i < n; i++)
                keep->bytes += runs[i].bytes;
        keep->runs = n;

        for (size_t i = 0; i + 1 < n; i++) {
                uint64_t age_s = now > runs[i].changed ? (uint64_t)(now - runs[i].changed) : 0;
                bool by_age = limits->max_age_ns && age_s > limits->max_age_ns / NS_PER_SECOND;
                bool by_size = limits->max_bytes && keep->bytes > limits->max_bytes;
                int r;

                if (!by_age && !by_size)
                        continue;
                cleanup(close_fd) int lock = run_lock(&runs[i]);
                if (lock < 0)
                        continue;
                r = run_drop(keep, record, &runs[i], by_age, err);
                if (r < 0)
                        return r;
                keep->runs--;
                keep->bytes -= runs[i].bytes;
        }
        return 0;
}

int audit_keep(struct audit_keep *keep, struct err *err) {
        cleanup(audit_names_done) audit_names names = { 0 };
        cleanup(free_ptr) char *directory = NULL, *path = NULL;
        cleanup(drop_record_done) struct drop_record record = { 0 };
        int r;

        r = audit_runs(&names, err);
        if (r < 0)
                return r;
        if (names.n == 0)
                return 0;

        r = audit_directory(&directory, err);
        if (r < 0)
                return r;
        path = path_join(directory, record_name);
        cleanup(free_ptr) struct kept_run *runs = calloc(names.n, sizeof *runs);
        if (!path || !runs)
                return err_memory(err);

        record.path = path;
        for (size_t i = 0; i < names.n && r == 0; i++)
                r = run_examine(names.p[i], &runs[i], err);
        if (r == 0)
                r = keep_runs(keep, &record, runs, names.n, err);
        for (size_t i = 0; i < names.n; i++)
                kept_run_done(&runs[i]);
        if (r < 0 || !record.audit)
                return r;
        return audit_close(take_ptr(&record.audit), err);
}

/* True once an hour, for the first caller. */
static bool is_time(const char *stamp) {
        struct stat st;

        if (lstat(stamp, &st) == 0 && time(NULL) - st.st_mtime < SOMETIMES_SECONDS && st.st_mtime <= time(NULL))
                return false;
        return path_replace_file(stamp, STR(""), 0600, NULL) == 0;
}

void audit_keep_sometimes(const struct audit_limits *limits) {
        cleanup(free_ptr) char *directory = NULL, *stamp = NULL;
        struct audit_keep keep = { .limits = *limits };

        if (!limits->max_age_ns && !limits->max_bytes)
                return;
        if (audit_directory(&directory, NULL) < 0)
                return;
        stamp = path_join(directory, stamp_name);
        if (stamp && is_time(stamp))
                (void)audit_keep(&keep, NULL); /* the next one tries again */
}
