/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Layer 1 for account guests, outside the sandbox: whatever a process with the guest's uid sends in the host's network
 * is logged (NFLOG) and rejected, whatever its protocol. Nothing is let through: a guest's own traffic is in the
 * sandbox's network and leaves by the gateway, which has the host user's uid.
 *
 *     table inet bailey_guests, set guests (uids), chain output (hook output, priority -10)
 *
 * Root installs the rules when the account is made; they last until the machine ends. Before every start the guest's
 * own uid tries to get out: the host user may not read the table, and a rule that is there but does not hold is worth
 * nothing. A guest without its rules does not start; `sudo bailey guest fix NAME` installs them again.
 */
#include "guest/guest_place.h"

enum { FIREWALL_LOG_GROUP = 117 };

/* As root. */
int guest_firewall_add(uint32_t uid, struct err *err);
/* As root; with `last` the table goes too. */
int guest_firewall_remove(uint32_t uid, bool last, struct err *err);
/* -EPERM: the guest's uid gets out; err says by what. 0 for guests without an account. */
int guest_firewall_check(const struct guest *guest, struct err *err);
