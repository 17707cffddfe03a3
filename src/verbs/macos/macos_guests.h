/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * `bailey guest` on macOS: accounts of their own for agents (plan/macos/macos_guest.h), and a note of each in
 * /var/db/bailey, which root writes and everybody may read. The note is there before the account and goes after it:
 * what a killed `create` left can be deleted. Never yet run on a Mac.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"

enum { MACOS_GUEST_NAME_MAX = 24, MACOS_GUEST_USER_MAX = 72, MACOS_GUEST_TOKEN_MAX = 24 };

struct macos_guest {
        char name[MACOS_GUEST_NAME_MAX], user[MACOS_GUEST_USER_MAX], token[MACOS_GUEST_TOKEN_MAX];
        unsigned uid, gid;
};

typedef VEC(struct macos_guest) macos_guest_list;

/* All of them, by name; a note that cannot be read is an error. */
int macos_guests_list(macos_guest_list *ret, struct err *err);
/* -ENOENT: there is none. */
int macos_guests_find(const char *name, struct macos_guest *ret, struct err *err);

/* What making or deleting it would do, as commands; changes nothing. */
int macos_guests_plan_create(const char *name, struct buf *out, struct err *err);
int macos_guests_plan_delete(const char *name, struct buf *out, struct err *err);

/* These need root. */
int macos_guests_create(const char *name, struct macos_guest *ret, struct err *err);
int macos_guests_start(const char *name, struct err *err);
int macos_guests_delete(const char *name, struct err *err);

/* Becomes the command, as the guest, under a profile, without a network. Returns only on failure. */
int macos_guests_exec(const char *name, char *const *argv, struct err *err);

/* Prints what pf refuses it for so many seconds, or until it is interrupted. Needs root. */
int macos_guests_log(const char *name, unsigned seconds, struct err *err);
