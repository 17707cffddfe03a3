/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * `bailey doctor` and the firewall of account guests.
 *
 * As root the table that is loaded is compared, line by line, with the one that must be there: nft loads that one into
 * a network namespace of its own and prints both. Anybody else may not read the table; each account guest of theirs is
 * tried instead, as before a start.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct firewall_state {
        size_t accounts; /* 0: there is nothing to be protected */
        bool compared;   /* the table; else attempts */
};

/* 0: all is as it must be. < 0: err says what is not. */
int firewall_compare(struct firewall_state *ret, struct err *err);
