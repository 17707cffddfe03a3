/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Packets that pf refused a guest: one line of `tcpdump -n -e -tt -l -i pflog0`. Apple's tcpdump is reported to have
 * lost this form in macOS 10.12.4; whether it prints it today is unproven.
 */
#include "base/str.h"

struct pflog_packet {
        uint32_t uid;
        bool blocked, v6;
        char protocol[8]; /* tcp, udp, icmp, or "" */
        char address[48];
        uint16_t port; /* 0: none */
};

/* False for a line that is not of this form, or names no account. */
bool pflog_parse(struct str line, struct pflog_packet *ret);
