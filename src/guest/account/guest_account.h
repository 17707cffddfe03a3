/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Accounts of guests: made by useradd, removed by userdel, as root. The account's password is locked, it has no login
 * shell, no subordinate ids and no group but its own. For the host user one line each in /etc/subuid and /etc/subgid is
 * added, so that newuidmap lets the host user start the guest later: root is needed when it is made and when it is
 * deleted, and never in between.
 *
 * With sudo, a helper keeps root's rights and knows four orders: to make and to remove the account of one guest, to
 * load the firewall (guest/account/guest_firewall.h), and to start the reader of its log as well. The rest of the
 * command goes on as the host user, who owns the guest.
 */
#include "guest/guest_place.h"

enum { GUEST_ID_LENGTH = 8, ACCOUNT_NAME_MAX = 32 };

/* Under sudo: starts the helper and becomes the host user, with the host user's home. Otherwise nothing happens and
 * *ret_helper is 0. */
int guest_account_helper(int *ret_helper, struct err *err);

/* bailey_HOST_ID, at most 31 bytes. Pure. */
void guest_account_name(const char *host, const char *id, char ret[static ACCOUNT_NAME_MAX]);
/* Whether an account has such a name. Pure. */
bool guest_account_is_one(const char *name);
/* False when there is none. */
bool guest_account_find(const char *id, uint32_t *ret_uid, uint32_t *ret_gid);
/* -EPERM: neither root nor a helper. Already there: it is used. */
int guest_account_make(const struct guests *guests, const char *id, uint32_t *ret_uid, uint32_t *ret_gid,
                       struct err *err);
/* Its firewall and the reader of its log, again; nothing without root's rights. */
int guest_account_protect(const struct guests *guests, const struct guest *guest, struct err *err);
/* With its crontab, jobs of at and mail. 0 when it is not there. */
int guest_account_remove(const struct guests *guests, const char *id, struct err *err);
/* NULL: it is there, or this guest has none. */
const char *guest_account_problem(const struct guest *guest);
