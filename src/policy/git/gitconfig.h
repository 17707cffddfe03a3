/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Git's configuration format, as git itself reads it: sections with and without a subsection, settings on the section's
 * line, quotes, escapes, comments, continued lines, a byte order mark, carriage returns. Pure: text in, settings out.
 * Includes are settings like any other here (sandbox/linux/survey/survey_git_config.c follows them).
 *
 * Also: which settings make git run a program, or name a place that it runs programs from.
 */
#include "base/err.h"
#include "base/str.h"

struct gitconfig_setting {
        struct str section;    /* in small letters */
        struct str subsection; /* as written; p is NULL when there is none */
        struct str key;        /* in small letters */
        struct str value;      /* p is NULL for a key without `=`, which means true */
        size_t begin, end;     /* where it stands in the text: from its key to the end of its line */
};

/* Called for each setting, in the order of the file. The texts hold during the call. Not 0 ends the reading with it. */
typedef int gitconfig_each(const struct gitconfig_setting *setting, void *context);

/* -EBADMSG at the first line that git would not take (it reads no further either), -ENOMEM, or what `each` returned. */
int gitconfig_read(struct str text, gitconfig_each *each, void *context, struct err *err);

enum gitconfig_kind {
        GITCONFIG_OTHER,     /* nothing is run because of it */
        GITCONFIG_INCLUDE,   /* the value is a file with more settings */
        GITCONFIG_DIRECTORY, /* what lies in the directory is run */
        GITCONFIG_COMMAND,   /* the value is a program, or a command for the shell */
};
enum gitconfig_kind gitconfig_judge(const struct gitconfig_setting *setting);

/* The next word of a command that could name a file: split at whatever separates words in a shell, `~` and all else as
 * it is. Cut off the command; false at the end. */
bool gitconfig_word(struct str *command, struct str *ret_word);
