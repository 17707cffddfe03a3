/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A repository that the sandbox made where there was none. It should be of use afterwards, but git obeys its
 * configuration and runs its hooks, outside as well. So the configuration is not judged and kept but rewritten, from
 * the few harmless settings that `git init`, `git clone` and `git remote` make. Every other setting, and every line
 * that cannot be parsed, is left out. Git reads the new text, so it does not matter how it would have understood the
 * original.
 */
#include "sandbox/guard_internal.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "policy/git/git_harmless.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_MAX = 4 << 20, REMOTES_ASKED_MAX = 256 };

struct filtering {
        struct str text;
        struct buf *out;
        int dir;
        unsigned use, asked; /* for remotes: each is a reading of the whole text */
        bool more;
};

struct remote_search {
        struct str name;
        bool found;
};

static int find_remote(const struct gitconfig_setting *given, void *context) {
        struct remote_search *search = context;

        search->found |= git_setting_is(given, "remote", "url") && str_eq(given->subsection, search->name) &&
                         git_harmless(given, GIT_NEW);
        return 0;
}

/* Git takes the name of no remote for a directory, and runs the hooks of the repository there when it pushes. */
static bool leads_elsewhere(struct filtering *filtering, const struct gitconfig_setting *given) {
        struct remote_search search = { .name = given->value };

        if (!git_setting_is(given, "branch", "remote") && !git_setting_is(given, "branch", "pushremote"))
                return false;
        if (filtering->asked++ >= REMOTES_ASKED_MAX)
                return true;

        (void)gitconfig_read(filtering->text, find_remote, &search, NULL);
        return !search.found && !str_is(given->value, ".");
}

/* The first line of the file `.git` of a working tree, without "gitdir: ". */
static bool read_pointer(int tree, char *ret, size_t size) {
        cleanup(close_fd) int fd = openat(tree, ".git", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        static const char prefix[] = "gitdir: ";
        char line[PATH_MAX + sizeof prefix];
        struct stat st;
        ssize_t n;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return false;

        n = read(fd, line, sizeof line - 1);
        if (n <= 0)
                return false;

        line[n] = '\0';
        line[strcspn(line, "\r\n")] = '\0';

        return strncmp(line, prefix, sizeof prefix - 1) == 0 &&
               snprintf(ret, size, "%s", line + sizeof prefix - 1) < (int)size;
}

/* Git writes files into the tree of a submodule, whether or not the sandbox may write there. So it is one whose `.git`
 * leads here: where the sandbox may not write it could put none. */
static bool is_own_tree(int dir, struct str value) {
        cleanup(close_fd) int tree = -1, leads = -1;
        cleanup(free_ptr) char *path = str_dup(value);
        char pointer[PATH_MAX];
        struct stat here, there;

        if (path)
                tree = path_open_at(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, PATH_NO_SYMLINKS);
        else
                tree = -1;
        if (tree < 0 || !read_pointer(tree, pointer, sizeof pointer))
                return false;

        leads = openat(tree, pointer, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return leads >= 0 && fstat(leads, &there) == 0 && fstat(dir, &here) == 0 && here.st_ino == there.st_ino &&
               here.st_dev == there.st_dev;
}

static bool is_elsewhere(const struct filtering *filtering, const struct gitconfig_setting *given) {
        return git_setting_is(given, "core", "worktree") && !is_own_tree(filtering->dir, given->value);
}

static int filter_setting(const struct gitconfig_setting *given, void *context) {
        struct filtering *filtering = context;

        if (!git_harmless(given, filtering->use) || leads_elsewhere(filtering, given) ||
            is_elsewhere(filtering, given)) {
                filtering->more = true;
                return 0;
        }

        if (given->subsection.p)
                return buf_printf(filtering->out, "[%.*s \"%.*s\"]\n\t%.*s = %.*s\n", STR_FMT(given->section),
                                  STR_FMT(given->subsection), STR_FMT(given->key), STR_FMT(given->value));

        return buf_printf(filtering->out, "[%.*s]\n\t%.*s = %.*s\n", STR_FMT(given->section), STR_FMT(given->key),
                          STR_FMT(given->value));
}

int guard_git_filter(int dir, const char *name, bool module, struct buf *ret_harmless, bool *ret_more) {
        cleanup(buf_done) struct buf text = BUF(CONFIG_MAX);
        cleanup(close_fd) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct filtering filtering = { .out = ret_harmless, .dir = dir, .use = GIT_NEW | (module ? GIT_MODULE : 0) };
        struct stat st;

        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1)
                return -EINVAL;

        int r = fd_read_all(fd, &text);
        filtering.text = buf_str(&text);
        if (r == 0)
                r = gitconfig_read(buf_str(&text), filter_setting, &filtering, NULL);

        *ret_more = filtering.more || r == -EBADMSG;
        if (r == -EBADMSG)
                return 0;

        return r;
}

int guard_git_write(int dir, const char *name, const struct buf *harmless) {
        cleanup(close_fd) int fd = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        if (fd < 0 || ftruncate(fd, 0) < 0) /* should this end here: an empty configuration is harmless, too */
                return -errno;
        return fd_write_all(fd, harmless->p, harmless->n);
}

bool guard_only_samples(int dir, const char *name) {
        cleanup(close_fd) int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
        if (!d)
                return false;

        fd = -1;
        bool only = true;
        for (struct dirent *entry; only && (entry = readdir(d));) {
                struct str file = str_of(entry->d_name);
                only = str_is(file, ".") || str_is(file, "..") || str_ends(file, STR(".sample"));
        }

        closedir(d);
        return only;
}
