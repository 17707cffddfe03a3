/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reads refused packets off a netlink socket (nfnetlink_log): those of a sandbox's own namespace in the gateway, those
 * of an account guest's uid in the reader of its firewall. Messages that the socket had no room for are counted: the
 * kernel numbers its messages, and counts those that it dropped after the last one.
 */
#include "gateway/wire/packet_wire.h"

enum { PACKET_MESSAGE_MAX = 8192 };

struct packet_reader {
        int fd;
        uint32_t next_serial; /* that the next message should have */
        bool has_serial;
        uint64_t lost;     /* not told yet */
        uint32_t lost_all; /* with those that were told; the kernel counts in 32 bits as well */
        char message[PACKET_MESSAGE_MAX];
};

/* Reads once, without waiting. False: nothing is there. */
bool packet_reader_step(struct packet_reader *reader, void (*on_packet)(void *arg, const struct packet_log *log),
                        void *arg);
/* Counts what was dropped behind the last message. */
void packet_reader_end(struct packet_reader *reader);
/* How many were lost since this was asked last. */
uint32_t packet_reader_take_lost(struct packet_reader *reader);
