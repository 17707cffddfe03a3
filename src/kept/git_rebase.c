/* SPDX-License-Identifier: Apache-2.0 */
#include "kept/git_rebase.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIST_MAX = 16 << 20 };
static const char list_name[] = "git-rebase-todo", fresh_name[] = "git-rebase-todo.bailey";

struct rebase {
        const char *path; /* of the list, for people */
        int dir;
        uint64_t since_us;
        git_rebase_report *report;
        void *context;
};

static bool is_since(const struct stat *st, uint64_t since_us) {
        return (uint64_t)st->st_ctim.tv_sec * 1000000 + (uint64_t)st->st_ctim.tv_nsec / 1000 >= since_us;
}

/* As git reads a line: blanks, the command or its letter, a blank. */
static bool runs_something(struct str line) {
        while (line.n && (line.p[0] == ' ' || line.p[0] == '\t'))
                line = str_skip(line, 1);

        for (size_t i = 0; i < 2; i++) {
                struct str word = i ? STR("x") : STR("exec");

                if (str_starts(line, word) && (line.n == word.n || strchr(" \t\r", line.p[word.n])))
                        return true;
        }

        return false;
}

static int filter_list(struct str text, struct buf *ret, size_t *ret_lines, struct str *ret_first) {
        struct str line;
        int r = 0;

        while (r == 0 && str_split(&text, '\n', &line)) {
                if (!runs_something(line)) {
                        r = buf_append(ret, line);
                        if (r == 0)
                                r = buf_add(ret, "\n");
                        continue;
                }

                if (!(*ret_lines)++)
                        *ret_first = str_trim(line);
        }

        return r;
}

static int write_list(int dir, const struct buf *text) {
        cleanup(close_fd) int fd = -1;
        int r;

        (void)unlinkat(dir, fresh_name, 0);
        fd = openat(dir, fresh_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0)
                return -errno;

        r = fd_write_all(fd, text->p, text->n);
        if (r == 0 && renameat(dir, fresh_name, dir, list_name) < 0)
                r = -errno;
        if (r < 0)
                (void)unlinkat(dir, fresh_name, 0);

        return r;
}

/* A link, or whatever else is not git's own. */
static int remove_other(const struct rebase *rebase) {
        if (unlinkat(rebase->dir, list_name, 0) < 0)
                return -errno;

        rebase->report(rebase->path, 0, (struct str){ 0 }, rebase->context);
        return 0;
}

static int clean_list(const struct rebase *rebase) {
        cleanup(buf_done) struct buf text = BUF(LIST_MAX), harmless = BUF(LIST_MAX + 1);
        cleanup(close_fd) int fd = -1;
        struct str first = { 0 };
        struct stat st;
        size_t lines = 0;
        int r;

        if (fstatat(rebase->dir, list_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return path_error_answers(errno) ? 0 : -errno;
        if (!S_ISREG(st.st_mode))
                return remove_other(rebase);
        if (!is_since(&st, rebase->since_us))
                return 0;

        fd = openat(rebase->dir, list_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
                return -errno;

        r = fd_read_all(fd, &text);
        if (r == 0)
                r = filter_list(buf_str(&text), &harmless, &lines, &first);
        if (r == 0 && lines)
                r = write_list(rebase->dir, &harmless);
        if (r == 0 && lines)
                rebase->report(rebase->path, lines, first, rebase->context);

        return r;
}

/* Git makes a directory. A link there is the sandbox's, and could lead to a list in the workspace. */
static int clean_repository(struct rebase *rebase, const char *gitdir) {
        cleanup(free_ptr) char *directory = path_join(gitdir, "rebase-merge");
        cleanup(free_ptr) char *path = directory ? path_join(directory, list_name) : NULL;
        struct stat st;
        int r;

        if (!path)
                return -ENOMEM;
        if (lstat(directory, &st) < 0)
                return path_error_answers(errno) ? 0 : -errno;

        rebase->path = path;
        if (S_ISLNK(st.st_mode)) {
                if (!is_since(&st, rebase->since_us))
                        return 0;
                if (unlink(directory) < 0)
                        return -errno;

                rebase->report(directory, 0, (struct str){ 0 }, rebase->context);
                return 0;
        }

        rebase->dir = path_open_at(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, PATH_NO_SYMLINKS);
        if (rebase->dir < 0)
                return rebase->dir == -ENOTDIR ? 0 : rebase->dir;

        r = clean_list(rebase);
        close_fd(&rebase->dir);
        return r;
}

int git_rebase_end(const struct plan_host *host, uint64_t since_us, git_rebase_report *report, void *context,
                   struct err *err) {
        struct rebase rebase = { .dir = -1, .since_us = since_us, .report = report, .context = context };
        int failed = 0;

        for (size_t i = 0; i < host->git_known.n; i++) {
                int r = clean_repository(&rebase, host->git_known.p[i]);

                if (r < 0 && !failed)
                        failed = err_set(err, -r,
                                         "cannot look at the unfinished rebase in %s: %s. Do not continue it, use `git "
                                         "rebase --abort`",
                                         host->git_known.p[i], strerror(-r));
        }

        return failed;
}
