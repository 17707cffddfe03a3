/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Accounts of this machine, read from /etc/passwd. getpwnam() and its like ask name service modules, which cannot be
 * loaded into a static program; they are banned.
 */
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

enum { ACCOUNT_TEXT_MAX = 256 };

struct account {
        uid_t uid;
        gid_t gid;
        char name[ACCOUNT_TEXT_MAX], home[PATH_MAX];
        char comment[ACCOUNT_TEXT_MAX]; /* empty if it is longer than that */
};

/* False: there is no such account, or its fields are longer than that. */
bool account_by_uid(uid_t uid, struct account *ret);
bool account_by_name(const char *name, struct account *ret);
/* Calls `each` for every account. A negative return from `each` stops the walk and is returned, as are errors from
 * reading the file. */
int account_each(int (*each)(void *arg, const struct account *account), void *arg);
/* This process gets the groups that /etc/group gives the account, and its own. 0, -ENOMEM, or what setgroups() said. */
int account_take_groups(const struct account *account);
