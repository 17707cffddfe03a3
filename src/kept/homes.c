/* SPDX-License-Identifier: Apache-2.0 */
#include "kept/homes.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "base/secrets/digest.h"
#include "kept/home_internal.h"
#include "kept/overlays.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

void home_kept_done(struct home_kept *kept) {
        free(kept->id);
        free(kept->directory);
        free(kept->files);
        free(kept->workspace);
        *kept = (struct home_kept){ 0 };
}

void homes_done(homes *list) {
        for (size_t i = 0; i < list->n; i++)
                home_kept_done(&list->p[i]);
        vec_done(list);
}

static uint64_t file_time_us(const struct stat *st) {
        return (uint64_t)st->st_mtim.tv_sec * 1000000 + (uint64_t)st->st_mtim.tv_nsec / 1000;
}

/* --- finding --- */

static void kept_read(struct home_kept *kept, const char *info_path, const char *lock_path) {
        cleanup(buf_done) struct buf text = BUF(PATH_MAX);
        cleanup(close_fd) int lock = open(lock_path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        if (path_read_file(info_path, PATH_MAX, &text, NULL) == 0)
                kept->workspace = str_dup(buf_str(&text));
        if (stat(info_path, &st) == 0)
                kept->made_us = file_time_us(&st);
        if (stat(kept->files, &st) == 0)
                kept->used_us = file_time_us(&st);

        kept->in_use = lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) < 0;
}

/* 0, 1 when it is one, or an error. */
static int kept_open(const char *top, const char *id, struct home_kept *ret, struct err *err) {
        cleanup(home_kept_done) struct home_kept kept = { .id = strdup(id), .directory = path_join(top, id) };
        cleanup(free_ptr) char *info = kept.directory ? path_join(kept.directory, "info") : NULL;
        cleanup(free_ptr) char *lock = kept.directory ? path_join(kept.directory, "lock") : NULL;

        kept.files = kept.directory ? path_join(kept.directory, "files") : NULL;
        if (!kept.id || !kept.files || !info || !lock)
                return err_memory(err);
        if (access(kept.files, F_OK) < 0)
                return 0;

        kept_read(&kept, info, lock);
        if (!kept.workspace && !(kept.workspace = strdup("")))
                return err_memory(err);

        *ret = kept;
        kept = (struct home_kept){ 0 };

        return 1;
}

static int by_use(const void *a, const void *b) {
        const struct home_kept *left = a, *right = b;

        return left->used_us < right->used_us ? -1 : left->used_us > right->used_us;
}

int homes_list(homes *ret, struct err *err) {
        cleanup(free_ptr) char *top = NULL;
        DIR *dir;
        int r;

        r = home_top(&top, err);
        if (r < 0)
                return r;

        dir = opendir(top);
        if (!dir)
                return errno == ENOENT ? 0 : err_errno(err, "cannot list %s", top);

        for (struct dirent *entry; r >= 0 && (entry = readdir(dir));) {
                struct home_kept h = { 0 };

                if (entry->d_name[0] == '.' || str_starts(str_of(entry->d_name), STR(HOME_RUN_PREFIX)))
                        continue;

                r = kept_open(top, entry->d_name, &h, err);
                if (r > 0 && vec_push(ret, h) < 0) {
                        home_kept_done(&h);
                        r = err_memory(err);
                }
        }

        closedir(dir);
        if (ret->n > 1)
                qsort(ret->p, ret->n, sizeof *ret->p, by_use);

        return r < 0 ? r : 0;
}

int homes_find(const char *id, const char *workspace, struct home_kept *ret, struct err *err) {
        cleanup(homes_done) homes all = { 0 };
        cleanup(free_ptr) char *own = id ? NULL : home_id_of_workspace(workspace);
        struct home_kept *found = NULL;
        int r;

        if (!id && !own)
                return err_memory(err);

        r = homes_list(&all, err);
        if (r < 0)
                return r;

        for (size_t i = 0; i < all.n; i++) {
                bool exact = strcmp(all.p[i].id, id ? id : own) == 0;
                if (!exact && !(id && id[0] && str_starts(str_of(all.p[i].id), str_of(id))))
                        continue;
                if (found && !exact)
                        return err_set(err, EINVAL, "more than one home begins with %s; see bailey home ls", id);

                found = &all.p[i];
                if (exact)
                        break;
        }

        if (!found && id)
                return err_set(err, ENOENT, "there is no home %s; see bailey home ls", id);

        if (!found)
                return err_set(err, ENOENT, "no sandbox has run in %s, so there is no home for it; see bailey home ls",
                               workspace);

        *ret = *found;
        *found = (struct home_kept){ 0 };

        return 0;
}

int homes_remove(const struct home_kept *kept, struct err *err) {
        return home_remove(kept->id, err);
}

int homes_hold(const struct home_kept *kept, int *ret_lock, struct err *err) {
        cleanup(free_ptr) char *path = path_join(kept->directory, "lock");
        cleanup(close_fd) int fd = path ? open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC) : -1;

        if (!path)
                return err_memory(err);
        if (fd < 0)
                return err_errno(err, "cannot open %s", path);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return err_set(err, EBUSY, "a sandbox is running in the home %s; end it first (bailey ps)", kept->id);

        *ret_lock = take_fd(&fd);
        return 0;
}

/* --- what is in it --- */

static int kept_records(const struct home_kept *kept, struct home *ret, struct err *err) {
        *ret = HOME_NONE;
        ret->directory = strdup(kept->directory);
        ret->id = strdup(kept->id);
        if (!ret->directory || !ret->id)
                return err_memory(err);

        ret->files_fd = open(kept->files, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (ret->files_fd < 0)
                return err_errno(err, "cannot open %s", kept->files);

        return home_read_records(ret, err);
}

/* As it was laid, or gone. */
static bool is_as_laid(const struct home *home, const struct home_record *record) {
        unsigned char digest[DIGEST_BYTES];
        char hex[DIGEST_HEX_MAX];
        cleanup(buf_done) struct buf content = BUF(HOME_FILE_MAX);
        cleanup(close_fd) int fd = path_open_at(home->files_fd, record->path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0,
                                                PATH_BENEATH | PATH_NO_SYMLINKS);
        struct stat st;

        if (fd < 0)
                return fd == -ENOENT;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || fd_read_all(fd, &content) < 0)
                return false;

        digest_sha256(buf_str(&content), digest);
        digest_hex(digest, hex);

        return strcmp(hex, record->digest) == 0;
}

int homes_laid(const struct home_kept *kept, homes_laid_each *each, void *context, struct err *err) {
        cleanup(home_close) struct home home = HOME_NONE;
        int r;

        r = kept_records(kept, &home, err);
        for (size_t i = 0; i < home.records.n && r == 0; i++)
                r = each(home.records.p[i].path, !is_as_laid(&home, &home.records.p[i]), context);
        return r;
}

static int drop_laid(const char *path, bool changed, void *context) {
        struct changes *changes = context;
        size_t kept = 0;

        for (size_t i = 0; i < changes->list.n; i++) {
                struct change change = changes->list.p[i];
                if (!changed && strcmp(change.path, path) == 0) {
                        free(change.path);
                        free(change.link_target);
                } else {
                        changes->list.p[kept++] = change;
                }
        }

        changes->list.n = kept;
        return 0;
}

int homes_changes(const struct home_kept *kept, struct changes *ret, struct err *err) {
        cleanup(changes_done) struct changes found = { 0 };
        cleanup(free_ptr) char *home = path_home() ? realpath(path_home(), NULL) : NULL;
        int r;

        if (!home)
                return err_set(err, ENOENT, "there is no real home to compare with");

        /* As if a run with --overlay had had the real home for its workspace: then what it changed is marked the same.
         */
        const struct overlay_run run = { .id = kept->id,
                                         .workspace = home,
                                         .upper = kept->files,
                                         .began_us = kept->made_us,
                                         .lock = -1,
                                         .plain = true };
        r = overlays_changes(&run, &found, err);
        if (r == 0)
                r = homes_laid(kept, drop_laid, &found, err);
        if (r < 0)
                return r;

        *ret = found;
        found = (struct changes){ 0 };

        return 0;
}

int homes_export(const struct home_kept *kept, const struct change *change, struct err *err) {
        cleanup(free_ptr) char *home = path_home() ? realpath(path_home(), NULL) : NULL;

        if (!home)
                return err_set(err, ENOENT, "there is no real home to export to");
        const struct overlay_dirs dirs = { home, kept->files, kept->made_us, true };
        return overlay_apply(&dirs, change, err);
}
