/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/trust.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "conf/dirs.h"
#include "conf/suggest.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORD_MAX = 4 << 20 };

void trust_list_done(struct trust_list *list) {
        for (size_t i = 0; i < list->entries.n; i++)
                free(list->entries.p[i].path);
        vec_done(&list->entries);
}

static int state_directory(char **ret, struct err *err) {
        int r = dirs_state(ret);
        if (r == -ENOENT)
                return err_set(err, ENOENT, "there is no home directory to keep the record of trusted files in");
        if (r < 0)
                return err_set(err, -r, "out of memory");

        return 0;
}

static int record_path(char **ret, struct err *err) {
        cleanup(free_ptr) char *state = NULL;
        int r = state_directory(&state, err);
        if (r < 0)
                return r;
        *ret = path_join(state, "trust");
        if (!*ret)
                return err_memory(err);

        return 0;
}

static bool is_digest(struct str s) {
        if (s.n != DIGEST_HEX_MAX - 1)
                return false;
        for (size_t i = 0; i < s.n; i++)
                if (ascii_hex(s.p[i]) < 0)
                        return false;
        return true;
}

static int trust_push(struct trust_list *list, struct str digest, struct str path) {
        struct trust_entry entry = { .path = str_dup(path) };
        if (!entry.path)
                return -ENOMEM;

        memcpy(entry.digest, digest.p, DIGEST_HEX_MAX - 1);

        if (vec_push(&list->entries, entry) < 0) {
                free(entry.path);
                return -ENOMEM;
        }

        return 0;
}

/* "<digest>  <absolute path>", as sha256sum writes it. */
static int trust_parse(struct str text, const char *name, struct trust_list *list, struct err *err) {
        struct str line;

        for (unsigned number = 1; str_split(&text, '\n', &line); number++) {
                if (line.n == 0)
                        continue;

                struct str digest = str_first(line, DIGEST_HEX_MAX - 1), path = str_skip(line, DIGEST_HEX_MAX + 1);
                if (!is_digest(digest) || path.n == 0 || path.p[0] != '/')
                        return err_set(err, EINVAL, "%s:%u: damaged; remove the file and trust again what you trust",
                                       name, number);

                int r = trust_push(list, digest, path);
                if (r < 0)
                        return err_set(err, -r, "out of memory");
        }

        return 0;
}

/* Ours, regular and closed to others: anyone who can write it decides what is trusted. */
static int check_owner(int fd, const char *path, struct err *err) {
        struct stat st;
        if (fstat(fd, &st) < 0)
                return err_errno(err, "cannot examine %s", path);
        if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
                return err_set(err, EPERM, "%s must be a regular file of yours that nobody else can write", path);
        return 0;
}

int trust_load(struct trust_list *ret, struct err *err) {
        cleanup(free_ptr) char *path = NULL;
        int r = record_path(&path, err);
        if (r < 0)
                return r;

        cleanup(close_fd) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0) {
                if (errno == ENOENT || errno == ENOTDIR)
                        return 0;
                return err_errno(err, "cannot open %s", path);
        }

        r = check_owner(fd, path, err);
        if (r < 0)
                return r;

        cleanup(buf_done) struct buf content = BUF(RECORD_MAX);
        r = fd_read_all(fd, &content);
        if (r < 0)
                return err_set(err, -r, "cannot read %s", path);

        cleanup(trust_list_done) struct trust_list list = { 0 };
        r = trust_parse(buf_str(&content), path, &list, err);
        if (r < 0)
                return r;

        *ret = list;
        list = (struct trust_list){ 0 };

        return 0;
}

bool trust_has(const struct trust_list *list, const char *path, const char *digest_hex) {
        for (size_t i = 0; i < list->entries.n; i++)
                if (strcmp(list->entries.p[i].path, path) == 0 && strcmp(list->entries.p[i].digest, digest_hex) == 0)
                        return true;
        return false;
}

/* Held while the record is read, changed and replaced. */
static int lock_state(int *ret_fd, struct err *err) {
        cleanup(free_ptr) char *state = NULL;
        int r = state_directory(&state, err);
        if (r < 0)
                return r;

        r = path_make_private_dir(state, err);
        if (r < 0)
                return r;

        cleanup(close_fd) int fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 || flock(fd, LOCK_EX) < 0)
                return err_errno(err, "cannot lock %s", state);

        *ret_fd = take_fd(&fd);
        return 0;
}

static int trust_save(const struct trust_list *list, struct err *err) {
        cleanup(free_ptr) char *path = NULL;
        cleanup(buf_done) struct buf text = BUF(RECORD_MAX);
        int r = record_path(&path, err);
        if (r < 0)
                return r;

        for (size_t i = 0; i < list->entries.n; i++) {
                r = buf_printf(&text, "%s  %s\n", list->entries.p[i].digest, list->entries.p[i].path);
                if (r < 0)
                        return err_set(err, -r, "too many trusted files; remove some with bailey trust --remove");
        }

        return path_replace_file(path, buf_str(&text), 0600, err);
}

/* Drops what is recorded for the path; true when there was something. */
static bool trust_drop(struct trust_list *list, const char *path) {
        size_t kept = 0;

        for (size_t i = 0; i < list->entries.n; i++) {
                if (strcmp(list->entries.p[i].path, path) == 0)
                        free(list->entries.p[i].path);
                else
                        list->entries.p[kept++] = list->entries.p[i];
        }

        bool found = kept < list->entries.n;
        list->entries.n = kept;

        return found;
}

int trust_add(const char *path, const char *digest_hex, struct err *err) {
        cleanup(close_fd) int lock = -1;
        cleanup(trust_list_done) struct trust_list list = { 0 };

        if (path[0] != '/' || strchr(path, '\n'))
                return err_set(err, EINVAL, "%s cannot be recorded", show(str_of(path)).text);

        int r = lock_state(&lock, err);
        if (r < 0)
                return r;

        r = trust_load(&list, err);
        if (r < 0)
                return r;

        trust_drop(&list, path);
        if (trust_push(&list, str_of(digest_hex), str_of(path)) < 0)
                return err_memory(err);

        return trust_save(&list, err);
}

int trust_remove(const char *path, struct err *err) {
        cleanup(close_fd) int lock = -1;
        cleanup(trust_list_done) struct trust_list list = { 0 };
        int r = lock_state(&lock, err);
        if (r < 0)
                return r;

        r = trust_load(&list, err);
        if (r < 0)
                return r;
        if (!trust_drop(&list, path))
                return err_set(err, ENOENT, "%s is not among the trusted files", show(str_of(path)).text);

        return trust_save(&list, err);
}
