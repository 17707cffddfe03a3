/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A packet that the sandbox's network namespace refused, as the kernel logs it (nfnetlink_log): where it would have
 * gone. The envelope is the kernel's, the packet in it is the sandbox's, and what is read of it is cut off after
 * PLAN_PACKET_BYTES. Pure.
 */
#include "policy/match/addr.h"

struct packet {
        uint8_t protocol; /* IPPROTO_*, behind the extension headers of IPv6 */
        bool has_port;
        uint16_t port;
        struct addr to;
        struct str payload; /* of UDP, behind its header; points into the message */
};

/* The IP packet alone. False: it is none, or its head is not whole. */
bool packet_parse(struct str bytes, struct packet *ret);

struct packet_log {
        uint32_t serial; /* counted by the kernel: a gap is what did not fit into the socket's buffer */
        bool has_serial;
        uint32_t uid; /* of the owner of the sending socket */
        bool has_uid;
        struct str bytes; /* the packet, from its network header on */
};

/* Takes one message off the front of what a netlink socket gave. 1: got one; 0: nothing is left; -EBADMSG: this is none
 * of the kernel's. Messages of another kind are passed over. */
int packet_log_next(struct str *messages, struct packet_log *ret);
