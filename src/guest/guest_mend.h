/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * At every start: rows are compared with what is there. What a command that was killed had begun is finished or rolled
 * back, a guest whose supervisor is gone has ended, and one that is not as its row says is broken, with the reason. No
 * home is ever removed because of a difference: only what an operation itself made and had not finished, and what a
 * person had asked to be deleted.
 */
#include "guest/guest_place.h"

/* Opens the database and puts in order what was interrupted. */
int guests_open(struct guests *ret, struct err *err);
/* Those that another command holds are left to it. Only a database that fails is an error. */
int guests_mend(struct guests *guests, struct err *err);
/* One that the caller holds. */
int guest_mend(struct guests *guests, struct guest *guest, struct err *err);
