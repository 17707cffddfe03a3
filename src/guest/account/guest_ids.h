/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Which identity a new rootless guest gets: one subordinate id of the host user (/etc/subuid, /etc/subgid). */
#include "base/str.h"
#include "guest/guest_place.h"

/* A range of subordinate ids. */
struct sub_range {
        uint32_t first, count;
};

/* The largest range of this user in the text of /etc/subuid; lines that are malformed do not count. False without one.
 * Pure. */
bool sub_range_find(struct str text, const char *user, uint32_t uid, struct sub_range *ret);
/* Ids that a program with a map of all of them (a container engine) uses last come first: from the end of the range,
 * without the one that such maps show as nobody. 0: the range has no more. Pure. */
uint32_t sub_range_pick(struct sub_range range, const uint32_t *taken, size_t n);

/* 1: *ret_uid and *ret_gid are free; 0: there is none to be had, and *ret_why (ERR_TEXT_MAX bytes) says why. */
int guest_ids_choose(struct guests *guests, uint32_t *ret_uid, uint32_t *ret_gid, char *ret_why, struct err *err);
