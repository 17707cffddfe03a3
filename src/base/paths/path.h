/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Paths: lexical work (no file system), opening without following links, and files that are replaced whole.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <sys/types.h>

/* An absolute path without `.`, `..`, empty parts or trailing slash; `base` (absolute) is put before a relative one.
 * `..` above the root stays at the root. -EINVAL for NUL or empty text. Heap text in *ret. */
int path_normalise(struct str path, const char *base, char **ret);
/* `~` and `~/...` by the home directory given; other text is copied. `~user` is -EINVAL. */
int path_expand_home(struct str path, const char *home, char **ret);
char *path_join(const char *directory, const char *name);
/* True for the directory itself and everything below; both normalised. */
bool path_is_within(const char *path, const char *directory);
struct str path_basename(const char *path);
/* Number of components: 0 for "/", 2 for "/a/b". */
size_t path_depth(const char *path);

/* The home directory: $HOME when it is absolute, else the account's entry in /etc/passwd. NULL when neither is there.
 */
const char *path_home(void);

enum path_resolve {
        PATH_BENEATH = 1,     /* never leaves the directory */
        PATH_NO_SYMLINKS = 2, /* no symbolic link in any component */
};
/* openat2 with those limits; where the kernel lacks it, component by component with O_NOFOLLOW (then links are refused
 * in both cases, and `..` with PATH_BENEATH). Close-on-exec is always added. Returns the fd or a negative errno. */
int path_open_at(int directory_fd, const char *path, int flags, mode_t mode, unsigned resolve);

/* Creates the directory and its parents with the mode; the last one must be ours, real, and closed to others. */
int path_make_private_dir(const char *path, struct err *err);
/* A file for a library that opens it by its name: made with the right mode, or ours already and closed to others. */
int path_make_private_file(const char *path, struct err *err);
/* Opens a file of ours for appending: no link followed, a regular file, owned by us; created with the mode. */
int path_open_append(const char *path, mode_t mode, int *ret_fd, struct err *err);
/* Writes beside the target and renames over it; no link is followed at the target. */
int path_replace_file(const char *path, struct str content, mode_t mode, struct err *err);
/* The same where nothing is at the target yet, not even something that comes into being meanwhile: -EEXIST. */
int path_create_file(const char *path, struct str content, mode_t mode, struct err *err);
/* The same for what does not outlive the process: nothing waits for the disk. */
int path_replace_passing(const char *path, struct str content, mode_t mode, struct err *err);
/* Whether an error from looking at a path says something about the path: it does not exist, we may not see it, or it is
 * of the wrong kind. Any other error (too many open files, no memory, a failing disk) says something about the machine
 * only. */
bool path_error_answers(int error);
/* Reads a regular file of at most max bytes. */
int path_read_file(const char *path, size_t max, struct buf *ret, struct err *err);
