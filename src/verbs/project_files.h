/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Files of a project that is not trusted, by their names below its directory. No link is followed, and nothing but a
 * regular file is ever opened: a pipe would hang, and a device may do something when it is opened.
 */
#include "base/buf.h"
#include "base/err.h"

enum project_file {
        PROJECT_FILE_NONE,
        PROJECT_FILE_LINK, /* itself, or a directory on the way: the caller says that it was left out */
        PROJECT_FILE_REGULAR,
};

/* What is there. A directory, a pipe, a socket or a device under this name is an error. */
int project_file_examine(int directory_fd, const char *name, enum project_file *ret, struct err *err);
/* The same, and what is in a regular file. More than ret's maximum is an error. */
int project_file_read(int directory_fd, const char *name, struct buf *ret_content, enum project_file *ret,
                      struct err *err);
