/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Layer 1 for account guests, outside the sandbox: whatever a process with the guest's uid sends in the host's network
 * is logged (NFLOG) and rejected, whatever its protocol. Nothing is let through: a guest's own traffic is in the
 * sandbox's network and leaves by the gateway, which has the host user's uid.
 *
 *     table inet bailey_guests
 *             map guests        uid : jump guest_UID, for each account of a guest on this machine
 *             chain guest_UID   log to the NFLOG group of this uid, reject
 *             chain output      hook output, priority -10: by the map
 *
 * The table is always made as a whole, of the accounts that there are, in one transaction: what somebody changed in it
 * is right again, and what must be there can be compared with what is (guest/account/firewall_compare.h). Root makes it
 * when an account is made or removed; it lasts until the machine ends.
 *
 * Who reads the log is guest/account/firewall_reader.h. Before every start the guest's own uid tries to get out, and
 * the attempts must be in the log: the host user may not read the table, and a rule that is there but does not hold is
 * worth nothing. A guest without its rules, or without a reader, does not start; `sudo bailey guest fix NAME` mends
 * both.
 */
#include "base/buf.h"
#include "guest/guest_place.h"

#define FIREWALL_TABLE "bailey_guests"
enum { FIREWALL_TEXT_MAX = 4 << 20 };

/* The transaction for all accounts of guests in /etc/passwd, for `nft -f -`. *ret_n: how many there are. */
int guest_firewall_text(struct buf *out, size_t *ret_n, struct err *err);
/* As root: makes the table anew, or removes it where no account is left. */
int guest_firewall_load(struct err *err);
/* The NFLOG group of a uid. */
uint16_t guest_firewall_group(uint32_t uid);
/* -EPERM: the guest's uid gets out, or its attempts are not in the log; err says which. 0 for guests without an
 * account. */
int guest_firewall_check(const struct guest *guest, struct err *err);
