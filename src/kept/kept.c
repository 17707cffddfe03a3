/* SPDX-License-Identifier: Apache-2.0 */
#include "kept/kept.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/tree.h"
#include "base/paths/path.h"
#include "conf/dirs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LIST_MAX = 16 << 20 };

void kept_entries_done(kept_entries *list) {
        for (size_t i = 0; i < list->n; i++) {
                free(list->p[i].id);
                free(list->p[i].name);
                free(list->p[i].path);
        }
        vec_done(list);
}

static int kept_top(char **ret, struct err *err) {
        cleanup(free_ptr) char *state = NULL;
        if (dirs_state(&state) < 0)
                return err_set(err, ENOENT, "there is no home directory to keep anything in");
        *ret = path_join(state, "kept");
        return *ret ? 0 : err_memory(err);
}

int kept_open(const char *id, int *ret_fd, struct err *err) {
        cleanup(free_ptr) char *top = NULL, *path = NULL;
        int r = kept_top(&top, err);
        if (r < 0)
                return r;

        path = path_join(top, id);
        if (!path)
                return err_memory(err);

        r = path_make_private_dir(path, err);
        if (r < 0)
                return r;

        *ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return *ret_fd < 0 ? err_errno(err, "cannot open %s", path) : 0;
}

int kept_record(int fd, const char *name, const char *path) {
        cleanup(close_fd) int list = openat(fd, "list", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
        cleanup(buf_done) struct buf line = BUF(65536);
        int r;

        if (list < 0)
                return -errno;

        r = buf_append(&line, str_n(name, strlen(name) + 1));
        if (r == 0)
                r = buf_append(&line, str_n(path, strlen(path) + 1));
        if (r < 0)
                return r;

        return fd_write_all(list, line.p, line.n);
}

/* --- reading --- */

static int add_entry(kept_entries *list, const char *id, struct str name, struct str path) {
        struct kept_entry entry = { strdup(id), str_dup(name), str_dup(path) };

        if (entry.id && entry.name && entry.path && vec_push(list, entry) == 0)
                return 0;

        free(entry.id);
        free(entry.name);
        free(entry.path);

        return -ENOMEM;
}

/* Lines whose thing is not there any more were restored. */
static int read_list(const char *top, const char *id, kept_entries *ret) {
        cleanup(free_ptr) char *dir = path_join(top, id), *file = dir ? path_join(dir, "list") : NULL;
        cleanup(buf_done) struct buf content = { 0 };
        struct str rest, name, path;
        int r = 0;

        if (!file)
                return -ENOMEM;
        if (path_read_file(file, LIST_MAX, &content, NULL) < 0)
                return 0;

        rest = buf_str(&content);
        while (r == 0 && str_split(&rest, '\0', &name) && str_split(&rest, '\0', &path) && name.n && path.n) {
                cleanup(free_ptr) char *thing = str_format("%s/%.*s", dir, STR_FMT(name));
                if (!thing)
                        return -ENOMEM;
                if (str_find(name, '/') < 0 && faccessat(AT_FDCWD, thing, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                        r = add_entry(ret, id, name, path);
        }

        return r;
}

static int by_age(const void *a, const void *b) {
        const struct kept_entry *left = a, *right = b;
        int order = strcmp(left->id, right->id);
        return order ? order : strcmp(left->name, right->name);
}

int kept_list(const char *id, kept_entries *ret, struct err *err) {
        cleanup(free_ptr) char *top = NULL;
        int r = kept_top(&top, err);
        if (r < 0)
                return r;

        DIR *dir = opendir(top);
        if (!dir)
                return errno == ENOENT ? 0 : err_errno(err, "cannot list %s", top);

        for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
                bool wanted = !id || str_starts(str_of(entry->d_name), str_of(id));
                if (entry->d_name[0] != '.' && wanted && read_list(top, entry->d_name, ret) < 0)
                        r = err_memory(err);
        }

        closedir(dir);
        if (ret->n > 1)
                qsort(ret->p, ret->n, sizeof *ret->p, by_age);

        return r;
}

char *kept_place(const struct kept_entry *entry) {
        cleanup(free_ptr) char *top = NULL;
        if (kept_top(&top, NULL) < 0)
                return NULL;
        return str_format("%s/%s/%s", top, entry->id, entry->name);
}

/* --- what becomes of it --- */

/* The directory of a path, its last name apart: nothing is followed on the way. */
static int open_parent(const char *path, const char **ret_name) {
        const char *slash = strrchr(path, '/');
        if (!slash)
                return -EINVAL;

        cleanup(free_ptr) char *dir = str_dup(str_n(path, slash > path ? (size_t)(slash - path) : 1));
        if (!dir)
                return -ENOMEM;

        *ret_name = slash + 1;
        return path_open_at(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0, PATH_NO_SYMLINKS);
}

static int move_back(int store, const char *from, int dir, const char *name) {
        if (renameat2(store, from, dir, name, RENAME_NOREPLACE) == 0)
                return 0;
        if (errno != EXDEV)
                return -errno;

        int r = tree_copy(store, from, dir, name);
        if (r < 0)
                return r;

        return tree_remove(store, from);
}

int kept_restore(const struct kept_entry *entry, struct err *err) {
        cleanup(close_fd) int store = -1, dir = -1;
        const char *name = NULL;
        int r = kept_open(entry->id, &store, err);
        if (r < 0)
                return r;

        dir = open_parent(entry->path, &name);
        if (dir < 0)
                return err_set(err, -dir, "cannot put %s back: its directory: %s", entry->path, strerror(-dir));

        r = move_back(store, entry->name, dir, name);
        if (r == -EEXIST)
                return err_set(err, EEXIST, "cannot put %s back: something is there; move it away first", entry->path);

        return r < 0 ? err_set(err, -r, "cannot put %s back: %s", entry->path, strerror(-r)) : 0;
}

int kept_remove(const char *id, struct err *err) {
        cleanup(free_ptr) char *top = NULL;
        int r = kept_top(&top, err);
        if (r < 0)
                return r;
        if (strchr(id, '/') || id[0] == '.')
                return err_set(err, EINVAL, "%s is no id of a run", id);

        cleanup(close_fd) int fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = fd < 0 ? -errno : tree_remove(fd, id);

        return r < 0 ? err_set(err, -r, "cannot remove what is kept of %s: %s", id, strerror(-r)) : 0;
}
