/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "base/secrets/digest.h"
#include "conf/dirs.h"
#include "export/export_internal.h"
#include "store/audit_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PLACES_MAX = 4 << 20, KEPT_MAX = 20000 };
#define SAVE_NS NS_PER_SECOND

/*
 * Places: "IDENTITY OFFSET" lines, written whole and renamed.
 */
static int places_read(struct export *export, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(PLACES_MAX);
        cleanup(close_fd) int fd = open(export->place, O_RDONLY | O_CLOEXEC);
        struct str rest, line, identity;

        if (fd < 0 && errno == ENOENT)
                return 0;
        if (fd < 0)
                return err_errno(err, "cannot read %s", export->place);
        if (fd_read_all(fd, &text) < 0)
                return err_set(err, EIO, "cannot read %s", export->place);

        rest = buf_str(&text);
        while (rest.n && str_split(&rest, '\n', &line)) {
                struct export_file file = { 0 };

                if (!str_split(&line, ' ', &identity) || identity.n != 32 ||
                    !str_to_u64(line, UINT64_MAX / 2, &file.offset))
                        return err_set(err, EBADMSG,
                                       "%s is damaged; without it everything is exported again: remove it",
                                       export->place);

                memcpy(file.identity, identity.p, 32);
                if (vec_push(&export->files, file) < 0)
                        return err_set(err, ENOMEM, "out of memory");
        }

        return 1;
}

void files_save(struct export *export, bool now) {
        cleanup(buf_done) struct buf text = BUF(PLACES_MAX);
        cleanup(free_ptr) char *fresh = str_format("%s.new", export->place);
        cleanup(close_fd) int fd = -1;
        int r = 0;

        if (!export->unsaved || !fresh || (!now && clock_ns() < export->save_ns))
                return;

        for (size_t i = 0; r == 0 && i < export->files.n; i++)
                r = buf_printf(&text, "%s %ju\n", export->files.p[i].identity, (uintmax_t) export->files.p[i].offset);

        fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (r < 0 || fd < 0 || fd_write_all(fd, text.p, text.n) < 0 || fsync(fd) < 0 ||
            rename(fresh, export->place) < 0)
                fprintf(stderr,
                        "bailey: export: the place cannot be kept; some records may come twice after a restart\n");

        export->unsaved = false;
        export->save_ns = clock_ns() + SAVE_NS;
}

static int places_open(struct export *export, struct err *err) {
        cleanup(free_ptr) char *directory = NULL, *lock = NULL;
        unsigned char digest[DIGEST_BYTES];
        char hex[DIGEST_HEX_MAX];
        int r;

        r = dirs_state(&directory);
        if (r < 0)
                return err_set(err, -r, "there is no state directory");

        r = path_make_private_dir(directory, err);
        if (r < 0)
                return r;

        digest_sha256(str_of(export->settings->to), digest);
        digest_hex(digest, hex);
        export->place = str_format("%s/export-%.16s", directory, hex);
        lock = str_format("%s/export-%.16s.lock", directory, hex);
        if (!export->place || !lock)
                return err_set(err, ENOMEM, "out of memory");

        export->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (export->lock < 0)
                return err_errno(err, "cannot make %s", lock);
        if (flock(export->lock, LOCK_EX | LOCK_NB) < 0)
                return err_set(err, EBUSY, "another bailey export writes to the same place");

        return places_read(export, err);
}

/*
 * Logs.
 */
/* Of the first line; false while it is not whole. */
static bool files_identify(int fd, char ret[static 33]) {
        unsigned char digest[DIGEST_BYTES];
        char hex[DIGEST_HEX_MAX], *bytes = malloc(EXPORT_LINE_MAX);
        ssize_t n = bytes ? pread(fd, bytes, EXPORT_LINE_MAX, 0) : -1;
        const char *end = n > 0 ? memchr(bytes, '\n', (size_t)n) : NULL;

        if (end) {
                digest_sha256(str_n(bytes, (size_t)(end - bytes)), digest);
                digest_hex(digest, hex);
                memcpy(ret, hex, 32);
                ret[32] = '\0';
        }

        free(bytes);
        return end;
}

static struct export_file *find_inode(struct export *export, ino_t inode, const char *path) {
        for (size_t i = 0; i < export->files.n; i++) {
                struct export_file *file = &export->files.p[i];
                if (file->inode == inode && file->path && strcmp(file->path, path) == 0)
                        return file;
        }
        return NULL;
}

static struct export_file *find_identity(struct export *export, const char *identity) {
        for (size_t i = 0; i < export->files.n; i++)
                if (strcmp(export->files.p[i].identity, identity) == 0)
                        return &export->files.p[i];
        return NULL;
}

static void look_at(struct export *export, const char *path) {
        cleanup(close_fd) int fd = -1;
        struct export_file fresh = { 0 }, *file;
        struct stat at;

        if (stat(path, &at) < 0 || find_inode(export, at.st_ino, path))
                return;

        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &at) < 0 || !files_identify(fd, fresh.identity))
                return;

        file = find_identity(export, fresh.identity);
        if (!file) {
                if (export->files.n >= KEPT_MAX || vec_push(&export->files, fresh) < 0)
                        return;
                file = &export->files.p[export->files.n - 1];
                export->unsaved = true;
        }

        free(file->path);
        file->path = str_dup(str_of(path));
        file->inode = at.st_ino;
}

void files_look(struct export *export) {
        cleanup(audit_names_done) audit_names runs = { 0 };

        if (audit_runs(&runs, NULL) < 0)
                return;

        for (size_t i = 0; i < runs.n; i++) {
                cleanup(audit_names_done) audit_names parts = { 0 };

                if (audit_files(runs.p[i], &parts, NULL) < 0)
                        continue;
                for (size_t k = 0; k < parts.n; k++)
                        look_at(export, parts.p[k]);
        }
}

int files_open(struct export *export, struct err *err) {
        int r = places_open(export, err);

        if (r < 0)
                return r;

        files_look(export);

        for (size_t i = 0; r == 0 && export->settings->from_now && i < export->files.n; i++) {
                struct stat at;
                if (export->files.p[i].path && stat(export->files.p[i].path, &at) == 0)
                        export->files.p[i].offset = (uint64_t)at.st_size;
        }

        return 0;
}

static void split_lines(struct export *export) {
        struct str rest = buf_str(&export->batch.bytes);
        size_t used = 0;

        export->batch.lines.n = 0;
        while (export->batch.lines.n < EXPORT_BATCH) {
                ptrdiff_t end = -1;

                if (rest.n)
                        end = str_find(rest, '\n');

                if (end < 0 || vec_push(&export->batch.lines, str_first(rest, (size_t)end)) < 0)
                        break;

                used += (size_t)end + 1;
                rest = str_skip(rest, (size_t)end + 1);
        }

        export->batch.end = used;
}

static bool batch_of(struct export *export, size_t index) {
        struct export_file *file = &export->files.p[index];
        cleanup(close_fd) int fd = file->path ? open(file->path, O_RDONLY | O_CLOEXEC) : -1;
        char identity[33];
        struct stat at;
        ssize_t n;

        if (fd < 0 || fstat(fd, &at) < 0 || (uint64_t)at.st_size <= file->offset)
                return false;

        /* Rotated meanwhile: the next look finds it under its new name. */
        if (at.st_ino != file->inode || !files_identify(fd, identity) || strcmp(identity, file->identity) != 0) {
                free(file->path);
                file->path = NULL;
                export->look_ns = 0;
                return false;
        }

        buf_clear(&export->batch.bytes);
        if (buf_reserve(&export->batch.bytes, EXPORT_BATCH_BYTES) < 0)
                return false;

        n = pread(fd, export->batch.bytes.p, EXPORT_BATCH_BYTES, (off_t)file->offset);
        if (n <= 0)
                return false;

        export->batch.bytes.n = (size_t)n;
        split_lines(export);
        if (!export->batch.lines.n)
                return false;

        export->batch.there = true;
        export->batch.again = false;
        export->batch.file = index;
        export->batch.end += file->offset;

        return true;
}

bool files_batch(struct export *export) {
        for (size_t i = 0; i < export->files.n; i++) {
                size_t index = (export->next_file + i) % export->files.n;

                if (batch_of(export, index)) {
                        export->next_file = index;
                        return true;
                }
        }

        return false;
}

void files_delivered(struct export *export) {
        export->files.p[export->batch.file].offset = export->batch.end;
        export->result->delivered += export->batch.lines.n;
        export->batch.there = false;
        export->unsaved = true;
        files_save(export, false);
}

void files_done(struct export *export) {
        files_save(export, true);
        for (size_t i = 0; i < export->files.n; i++)
                free(export->files.p[i].path);

        vec_done(&export->files);
        vec_done(&export->batch.lines);
        buf_done(&export->batch.bytes);
        free(export->place);
        close_fd(&export->lock);
}
