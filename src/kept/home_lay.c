/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bailey's own writes into the sandbox's home. The sandbox may have put anything there, also while this happens: a link
 * in the place of a directory, a pipe in the place of a file. Directories are opened one by one without following
 * links, content is written beside the home, where the sandbox cannot reach it, and renamed into its place.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "base/random.h"
#include "base/secrets/digest.h"
#include "kept/home_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORDS_MAX = 1 << 20, POINTS_MAX = 4096 };

#define NEW_PREFIX "new-"

static const unsigned inside = PATH_BENEATH | PATH_NO_SYMLINKS;

/* --- what was left behind --- */

/* A fresh one may belong to another process that is not done yet. */
static bool is_old(const struct stat *st) {
        enum { SETTLED_SECONDS = 60 };

        return st->st_mtime + SETTLED_SECONDS < (time_t)(clock_wall_us() / 1000000);
}

/* Files of runs that were killed before they could rename them. */
static void sweep_new(const struct home *home) {
        int fd = openat(home->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

        if (!dir) {
                close_fd(&fd);
                return;
        }

        for (struct dirent *entry; (entry = readdir(dir));) {
                struct stat st;

                if (str_starts(str_of(entry->d_name), STR(NEW_PREFIX)) &&
                    fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_old(&st))
                        (void)unlinkat(fd, entry->d_name, 0);
        }

        closedir(dir);
}

/* --- records --- */

static struct home_record *record_find(const struct home *home, const char *path) {
        for (size_t i = 0; i < home->records.n; i++)
                if (strcmp(home->records.p[i].path, path) == 0)
                        return &home->records.p[i];
        return NULL;
}

static int record_set(struct home *home, const char *path, const char *key, const char *digest, struct err *err) {
        struct home_record *known = record_find(home, path);
        cleanup(free_ptr) char *key_copy = strdup(key), *path_copy = known ? NULL : strdup(path);

        if (!key_copy || (!known && !path_copy))
                return err_memory(err);

        if (!known) {
                if (vec_push(&home->records, (struct home_record){ 0 }) < 0)
                        return err_memory(err);
                known = &home->records.p[home->records.n - 1];
                known->path = take_ptr(&path_copy);
        }

        free(known->key);
        known->key = take_ptr(&key_copy);
        snprintf(known->digest, sizeof known->digest, "%s", digest);
        home->records_changed = true;

        return 0;
}

/* One line each: digest, key, path, with tabs between. A damaged line means that the file is laid again. */
int home_read_records(struct home *home, struct err *err) {
        cleanup(free_ptr) char *path = path_join(home->directory, "laid");
        cleanup(buf_done) struct buf text = BUF(RECORDS_MAX);
        struct str rest, line;
        int r;

        if (!path)
                return err_memory(err);

        r = path_read_file(path, RECORDS_MAX, &text, NULL);
        if (r < 0)
                return r == -ENOMEM ? err_memory(err) : 0;

        rest = buf_str(&text);
        while (str_split(&rest, '\n', &line)) {
                struct str digest, key;

                if (!str_split(&line, '\t', &digest) || !str_split(&line, '\t', &key) ||
                    digest.n != DIGEST_HEX_MAX - 1 || line.n == 0)
                        continue;

                cleanup(free_ptr) char *d = str_dup(digest), *k = str_dup(key), *p = str_dup(line);
                if (!d || !k || !p)
                        continue;

                r = record_set(home, p, k, d, err);
                if (r < 0)
                        return r;
        }

        home->records_changed = false;
        return 0;
}

int home_save(struct home *home, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(RECORDS_MAX);
        cleanup(free_ptr) char *path = NULL;
        int r;

        if (!home->directory || !home->records_changed)
                return 0;

        sweep_new(home);
        path = path_join(home->directory, "laid");
        if (!path)
                return err_memory(err);

        for (size_t i = 0; i < home->records.n; i++) {
                const struct home_record *record = &home->records.p[i];
                if (buf_printf(&text, "%s\t%s\t%s\n", record->digest, record->key, record->path) < 0)
                        return err_set(err, E2BIG, "too many files were laid into the sandbox's own home %s", home->id);
        }

        r = path_replace_file(path, buf_str(&text), 0600, err);
        if (r == 0)
                home->records_changed = false;

        return r;
}

/* --- files --- */

/* Below the home, and as simple as a path can be. */
static bool path_is_plain(const char *path) {
        struct str rest = str_of(path), part;

        if (rest.n == 0 || rest.n >= PATH_MAX || strpbrk(path, "\t\n"))
                return false;

        while (str_split(&rest, '/', &part))
                if (part.n == 0 || part.n > NAME_MAX || str_is(part, ".") || str_is(part, ".."))
                        return false;

        return path[strlen(path) - 1] != '/';
}

static int in_the_way(const struct home *home, const char *path, int code, struct err *err) {
        bool planted = code == ELOOP || code == ENOTDIR || code == EISDIR || code == EXDEV;

        const char *why = code == ELOOP ? "a link is in its way" : strerror(code);

        return err_set(err, code, "%s cannot be laid into the sandbox's own home %s: %s%s", path, home->id, why,
                       planted ? " (bailey home reset makes a new one)" : "");
}

/* The directory that the path lies in, made where it is missing. Returns a descriptor. */
static int open_parents(const struct home *home, const char *path, struct err *err) {
        const char *slash = strrchr(path, '/');
        cleanup(free_ptr) char *parents = slash ? str_dup(str_n(path, (size_t)(slash - path))) : NULL;
        cleanup(close_fd) int at = -1;
        struct str rest, part;

        if (!slash) {
                at = fcntl(home->files_fd, F_DUPFD_CLOEXEC, 3);
                return at < 0 ? err_errno(err, "cannot open the sandbox's own home") : take_fd(&at);
        }

        if (!parents)
                return err_memory(err);

        at = path_open_at(home->files_fd, parents, O_RDONLY | O_DIRECTORY, 0, inside);
        if (at >= 0)
                return take_fd(&at);

        at = fcntl(home->files_fd, F_DUPFD_CLOEXEC, 3);
        rest = str_of(parents);
        while (at >= 0 && str_split(&rest, '/', &part)) {
                char name[NAME_MAX + 1];

                snprintf(name, sizeof name, "%.*s", STR_FMT(part));
                if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
                        return in_the_way(home, path, errno, err);

                int next = path_open_at(at, name, O_RDONLY | O_DIRECTORY, 0, inside);
                if (next < 0)
                        return in_the_way(home, path, -next, err);

                close_fd(&at);
                at = next;
        }

        return at < 0 ? err_errno(err, "cannot open the sandbox's own home") : take_fd(&at);
}

/* Of a regular file, in hex. False when there is none; "" when it is larger than anything that is laid. */
static bool digest_of_file(int at, const char *name, char ret[static DIGEST_HEX_MAX]) {
        unsigned char digest[DIGEST_BYTES];
        cleanup(buf_done) struct buf content = BUF(HOME_FILE_MAX);
        cleanup(close_fd) int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return false;

        ret[0] = '\0';

        if (st.st_size <= HOME_FILE_MAX && fd_read_all(fd, &content) == 0) {
                digest_sha256(buf_str(&content), digest);
                digest_hex(digest, ret);
        }

        return true;
}

static bool is_there(const struct home *home, const char *path) {
        struct stat st;
        cleanup(close_fd) int fd = path_open_at(home->files_fd, path, O_PATH | O_NOFOLLOW, 0, inside);

        return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

bool home_was_laid(const struct home *home, const char *path) {
        return record_find(home, path) != NULL;
}

bool home_is_current(const struct home *home, const char *path, const char *key) {
        const struct home_record *record = record_find(home, path);

        return record && strcmp(record->key, key) == 0 && is_there(home, path);
}

/* Into a file beside the home, then to its place. */
static int write_to(const struct home *home, int at, const char *name, struct str content) {
        char temporary[32], id[17];
        int r;

        random_id(id, sizeof id);
        snprintf(temporary, sizeof temporary, NEW_PREFIX "%s", id);
        cleanup(close_fd) int fd =
            openat(home->fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;

        r = fd_write_all(fd, content.p, content.n);
        if (r == 0 && (fchmod(fd, 0600) < 0 || renameat(home->fd, temporary, at, name) < 0))
                r = -errno;
        if (r < 0)
                (void)unlinkat(home->fd, temporary, 0);

        return r;
}

/* Keeps the sandbox's version of the file. Only a courtesy: if that fails, the file is replaced all the same. */
static void keep_changed(int at, const char *name) {
        char old[NAME_MAX + 1];

        if (strlen(name) + sizeof ".old" <= sizeof old) {
                snprintf(old, sizeof old, "%s.old", name);
                (void)renameat(at, name, at, old);
        }
}

int home_lay(struct home *home, const struct home_file *file, struct err *err) {
        const struct home_record *record = NULL;
        unsigned char digest[DIGEST_BYTES];
        char hex[DIGEST_HEX_MAX], found[DIGEST_HEX_MAX];
        const char *name, *slash;
        int r;

        if (!home->directory)
                return 0;

        if (!path_is_plain(file->path) || file->content.n > HOME_FILE_MAX || (file->key && strpbrk(file->key, "\t\n")))
                return err_set(err, EINVAL, "%s: %s cannot be laid into a home (its name, or its size)",
                               text_or(file->origin, "?"), file->path);

        digest_sha256(file->content, digest);
        digest_hex(digest, hex);
        if (home_is_current(home, file->path, file->key ? file->key : hex))
                return 0;

        cleanup(close_fd) int at = open_parents(home, file->path, err);
        if (at < 0)
                return at;

        slash = strrchr(file->path, '/');
        name = slash ? slash + 1 : file->path;
        record = record_find(home, file->path);

        bool there = digest_of_file(at, name, found);
        if (there && file->once)
                return 0;

        bool same = there && strcmp(found, hex) == 0;
        if (there && !same && !(record && strcmp(found, record->digest) == 0))
                keep_changed(at, name);

        r = same ? 0 : write_to(home, at, name, file->content);
        if (r < 0)
                return in_the_way(home, file->path, -r, err);

        return record_set(home, file->path, file->key ? file->key : hex, hex, err);
}

int home_make_point(const struct home *home, const char *path, bool directory, struct err *err) {
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        struct stat st;
        int fd;

        if (!path_is_plain(path))
                return err_set(err, EINVAL, "%s is no place in a home", path);

        fd = path_open_at(home->files_fd, path, O_PATH | O_NOFOLLOW, 0, inside);
        if (fd >= 0) {
                bool fits = fstat(fd, &st) == 0 && (directory ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode));
                int code;
                if (!fits && S_ISLNK(st.st_mode))
                        code = ELOOP;
                else if (directory)
                        code = ENOTDIR;
                else
                        code = EISDIR;

                close_fd(&fd);
                return fits ? 0 : in_the_way(home, path, code, err);
        }

        cleanup(close_fd) int at = open_parents(home, path, err);
        if (at < 0)
                return at;

        int r = directory ? mkdirat(at, name, 0700)
                          : openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (r < 0 && errno != EEXIST)
                return in_the_way(home, path, errno, err);
        if (!directory && r >= 0)
                close_fd(&r);

        return 0;
}

/* Emptiness says nothing: what another run has mounted on its point is not seen here, and the kernel detaches it with
 * the directory. But as long as a run lives, its directory outside is there: it is made before the point, and removed
 * by its own run, or by others once its lock is free (roles/vault_session.c). */
void home_remove_points(const struct home *home, const char *place, const char *outside, const char *own) {
        cleanup(close_fd) int at = open(outside, O_PATH | O_DIRECTORY | O_CLOEXEC);
        int inside_fd = path_open_at(home->files_fd, place, O_RDONLY | O_DIRECTORY, 0, inside);
        DIR *dir = inside_fd >= 0 ? fdopendir(inside_fd) : NULL;
        struct dirent *entry;

        if (!dir)
                close_fd(&inside_fd);

        for (size_t i = 0; dir && at >= 0 && i < POINTS_MAX && (entry = readdir(dir)); i++) {
                bool ended = faccessat(at, entry->d_name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
                if (ended || strcmp(entry->d_name, own) == 0)
                        (void)unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
        }

        if (dir)
                closedir(dir);
}

void home_sweep(void) {
        cleanup(free_ptr) char *top = NULL;
        DIR *dir;

        if (home_top(&top, NULL) < 0)
                return;

        dir = opendir(top);
        if (!dir)
                return;

        for (struct dirent *entry; (entry = readdir(dir));) {
                struct stat st;

                if (str_starts(str_of(entry->d_name), STR(HOME_RUN_PREFIX)) &&
                    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_old(&st))
                        (void)home_remove(entry->d_name, NULL);
        }

        closedir(dir);
}
