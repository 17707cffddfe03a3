/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The reader of a guest's firewall log: one process for each account guest. Root starts it together with the rules; it
 * opens the NFLOG group of the guest's uid, becomes the host user for good, without any right of root's, and listens at
 * GUEST/firewall (SOCK_SEQPACKET, in a directory that only the host user can enter):
 *
 *     watch     the guest's supervisor: gets each packet as an event (ipc/event.h), and puts it on record
 *     try PORT  a check: packets to this port of the loopback addresses are its own attempts; it alone hears of them
 *     end       before the guest is deleted
 *
 * While nobody watches, what fits into one batch is kept for the next supervisor, and the rest is counted. What a
 * supervisor does not read fast enough is counted too, so that a flood costs a bounded amount of memory.
 *
 * The reader ends when its socket's name is gone. A supervisor whose reader ends, ends its guest.
 */
#include "base/paths/account.h"
#include "guest/guest_place.h"

/* As root. `directory` is opened as the host user. */
int firewall_reader_start(const struct account *host, uint32_t uid, const char *directory, struct err *err);
/* Ends it, and waits for that. Nothing when there is none. */
void firewall_reader_stop(const struct guest *guest);
/* For a supervisor: *ret_fd gets batches of events, and its end when the reader ends. */
int firewall_reader_watch(const struct guest *guest, int *ret_fd, struct err *err);

/* For a check: from now on attempts to this port are told on *ret_fd. */
int firewall_reader_try(const struct guest *guest, uint16_t port, int *ret_fd, struct err *err);
/* Waits until the log has shown one of TCP and one of UDP. */
int firewall_reader_heard(int fd, struct err *err);
