/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the system's services keep for an account outside of its home: a crontab, jobs of at, mail, its leave to stay
 * logged in. userdel leaves them there, and jobs of at belong to a number, so that they would run for whoever gets that
 * number next.
 */
#include "base/err.h"

#include <sys/types.h>

/* As root, while the account is still there. Nothing of the kind: 0. */
int guest_spools_clear(const char *account, uid_t uid, struct err *err);
