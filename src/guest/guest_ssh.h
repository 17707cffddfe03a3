/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * For editors that connect by ssh: a key for the host user, a host key for the guest, and an entry for ssh whose
 * ProxyCommand runs sshd inside, on its standard input. No port is opened anywhere.
 *
 *     guests/ID/ssh/   key, key.pub   the host user's, for this guest alone
 *                      known_hosts    the guest's host key
 *     ~/.bailey-ssh/   inside: host_key, authorized_keys, sshd_config
 */
#include "base/buf.h"
#include "guest/guest_place.h"

/* Makes what is missing; the entry goes to *ret. `program`: bailey, as the entry calls it. */
int guest_ssh_config(const struct guest *guest, const char *program, struct buf *ret, struct err *err);
