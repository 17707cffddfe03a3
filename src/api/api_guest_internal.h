/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the files of guests: api_guest.c (calls, life, commands), api_guest_data.c (lists, ports, grants, copies of
 * the home). */
#include "bailey/guest.h"

/* A verb that does a job of its own: `bailey guest` with the words of both lists (`more` may be NULL). What it printed
 * is in *ret (may be NULL). */
int guest_verb(const bailey_guests *guests, const char *const *first, const char *const *more, bailey_result **ret,
               struct bailey_error *error);
