/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/pack.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/processes/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

enum { LEVEL = 1, PIECE = 128 << 10 };

static char *const environment[] = { (char *)"PATH=/usr/bin:/bin", (char *)"LC_ALL=C", NULL };

/* tar in the directory, with a pipe at its input or its output. */
static int tar_start(int directory, char *const *argv, bool reads, int *ret_pipe, pid_t *ret_pid, struct err *err) {
        char path[PATH_MAX];
        int ends[2];

        if (fchdir(directory) < 0)
                return err_errno(err, "cannot go to the guest's home");
        if (!spawn_find("tar", environment, path))
                return err_set(err, ENOENT, "tar is missing (package tar)");
        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_errno(err, "cannot make a pipe");

        cleanup(close_fd) int reader = ends[0], writer = ends[1];
        struct spawn spawn = { .program = path,
                               .argv = argv,
                               .environment = environment,
                               .input = SPAWN_NULL,
                               .output = SPAWN_NULL,
                               .errors = SPAWN_KEEP,
                               .flags = SPAWN_WITH_PARENT };
        if (reads)
                spawn.input = reader;
        else
                spawn.output = writer;

        int r = spawn_start(&spawn, ret_pid, err);
        if (r < 0)
                return r;

        *ret_pipe = reads ? take_fd(&writer) : take_fd(&reader);
        return 0;
}

static int tar_end(pid_t pid, struct err *err) {
        int status = spawn_wait(pid);

        /* 1: a file changed while it was read. The guest is frozen, or does not run; the host user may write. */
        if (WIFEXITED(status) && WEXITSTATUS(status) <= 1)
                return 0;
        return err_set(err, EIO, "tar failed (status %d)",
                       WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void compressor_free(ZSTD_CCtx **context) {
        ZSTD_freeCCtx(*context);
}

static int compress_piece(ZSTD_CCtx *context, ZSTD_inBuffer *in, ZSTD_EndDirective end, int file, char *out,
                          struct err *err) {
        size_t left;

        do {
                ZSTD_outBuffer piece = { out, PIECE, 0 };

                left = ZSTD_compressStream2(context, &piece, in, end);
                if (ZSTD_isError(left))
                        return err_set(err, EIO, "cannot compress: %s", ZSTD_getErrorName(left));

                int r = fd_write_all(file, out, piece.pos);
                if (r < 0)
                        return err_set(err, -r, "cannot write the packed home: %s", strerror(-r));
        } while (end == ZSTD_e_end ? left > 0 : in->pos < in->size);

        return 0;
}

static int compress_stream(int from, int file, struct progress *progress, struct err *err) {
        cleanup(compressor_free) ZSTD_CCtx *context = ZSTD_createCCtx();
        cleanup(free_ptr) char *in = malloc(PIECE), *out = malloc(PIECE);
        ssize_t n;
        int r = 0;

        if (!context || !in || !out)
                return err_set(err, ENOMEM, "out of memory");

        (void)ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, LEVEL);
        (void)ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);

        while (r == 0 && (n = read(from, in, PIECE)) != 0) {
                ZSTD_inBuffer piece = { in, n > 0 ? (size_t)n : 0, 0 };

                if (n < 0 && errno == EINTR)
                        continue;
                progress_add(progress, piece.size);
                if (n < 0)
                        r = err_errno(err, "cannot read from tar");
                else
                        r = compress_piece(context, &piece, ZSTD_e_continue, file, out, err);
        }

        ZSTD_inBuffer nothing = { in, 0, 0 };
        if (r < 0)
                return r;

        return compress_piece(context, &nothing, ZSTD_e_end, file, out, err);
}

int pack_directory(int directory, int file, struct progress *progress, struct err *err) {
        char *const argv[] = { (char *)"tar",
                               (char *)"--create",
                               (char *)"--file=-",
                               (char *)"--format=pax",
                               (char *)"--numeric-owner",
                               (char *)"--one-file-system",
                               (char *)"--sparse",
                               (char *)"--warning=no-file-ignored",
                               (char *)".",
                               NULL };
        cleanup(close_fd) int from = -1;
        pid_t pid = -1;
        struct err failed = { 0 };
        int r = tar_start(directory, argv, false, &from, &pid, err);

        if (r < 0)
                return r;

        r = compress_stream(from, file, progress, err);
        progress_clear(progress);
        close_fd(&from);
        int ended = tar_end(pid, &failed);
        if (r == 0 && ended < 0)
                r = err_set(err, -ended, "%s", err_text(&failed));

        return r;
}

static void decompressor_free(ZSTD_DCtx **context) {
        ZSTD_freeDCtx(*context);
}

static int pack_damaged(struct err *err) {
        return err_set(err, EBADMSG, "the packed home is damaged or cut short");
}

static int decompress_stream(int file, int to, struct progress *progress, struct err *err) {
        cleanup(decompressor_free) ZSTD_DCtx *context = ZSTD_createDCtx();
        cleanup(free_ptr) char *in = malloc(PIECE), *out = malloc(PIECE);
        size_t wanted = 1;
        ssize_t n;

        if (!context || !in || !out)
                return err_set(err, ENOMEM, "out of memory");

        while ((n = read(file, in, PIECE)) != 0) {
                ZSTD_inBuffer piece = { in, n > 0 ? (size_t)n : 0, 0 };

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return err_errno(err, "cannot read the packed home");
                progress_add(progress, piece.size);

                while (piece.pos < piece.size) {
                        ZSTD_outBuffer plain = { out, PIECE, 0 };

                        wanted = ZSTD_decompressStream(context, &plain, &piece);
                        if (ZSTD_isError(wanted))
                                return pack_damaged(err);

                        int r = fd_write_all(to, out, plain.pos);
                        if (r < 0)
                                return err_set(err, -r, "tar ended early: %s", strerror(-r));
                }
        }

        if (wanted == 0)
                return 0;

        return pack_damaged(err);
}

int unpack_directory(int file, int directory, struct progress *progress, struct err *err) {
        char *const argv[] = { (char *)"tar",
                               (char *)"--extract",
                               (char *)"--file=-",
                               (char *)"--preserve-permissions",
                               (char *)"--numeric-owner",
                               (char *)"--delay-directory-restore",
                               NULL };
        cleanup(close_fd) int to = -1;
        pid_t pid = -1;
        struct err failed = { 0 };
        int r = tar_start(directory, argv, true, &to, &pid, err);

        if (r < 0)
                return r;

        r = decompress_stream(file, to, progress, err);
        progress_clear(progress);
        close_fd(&to);
        int ended = tar_end(pid, &failed);
        if (r == 0 && ended < 0)
                r = err_set(err, -ended, "%s", err_text(&failed));

        return r;
}
