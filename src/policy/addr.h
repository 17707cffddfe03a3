/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Addresses, networks, and the classes that decide whether an address may be dialled at all (behaviour: filter, address
 * class first). Pure.
 */
#include "base/str.h"

#include <netinet/in.h>
#include <sys/socket.h>

enum addr_family { ADDR_NONE, ADDR_V4, ADDR_V6 };

struct addr {
        uint8_t family; /* enum addr_family */
        uint8_t bytes[16]; /* network order; the first four for ADDR_V4 */
};

struct cidr {
        struct addr addr;
        uint8_t bits;
};

enum addr_class {
        ADDR_CLASS_PUBLIC,
        ADDR_CLASS_LOOPBACK,
        ADDR_CLASS_UNSPECIFIED,
        ADDR_CLASS_PRIVATE,
        ADDR_CLASS_SHARED, /* 100.64/10 */
        ADDR_CLASS_LINK_LOCAL,
        ADDR_CLASS_METADATA, /* can never be opened */
        ADDR_CLASS_MULTICAST,
        ADDR_CLASS_DOCUMENTATION,
        ADDR_CLASS_RESERVED, /* all other special-purpose blocks */
        ADDR_CLASSES
};

#define ADDR_TEXT_MAX 46

/* Strict dotted quad (no leading zeros, four parts) or plain IPv6 text (RFC 4291; no zone, no brackets). */
bool addr_parse(struct str s, struct addr *ret);
bool cidr_parse(struct str s, struct cidr *ret); /* host bits must be zero; a bare address is a full-length network */
void addr_text(const struct addr *a, char ret[static ADDR_TEXT_MAX]); /* canonical (RFC 5952) */
bool addr_equal(const struct addr *a, const struct addr *b);
bool cidr_contains(const struct cidr *net, const struct addr *a);
/* The worst class among the address itself and any IPv4 address it embeds (mapped, compatible, NAT64, 6to4). */
enum addr_class addr_classify(const struct addr *a);
/* The embedded IPv4 address, if the form carries one. */
bool addr_embedded_v4(const struct addr *a, struct addr *ret);
const char *addr_class_name(enum addr_class class); /* "loopback", "metadata", ... */

bool addr_from_sockaddr(const struct sockaddr *sa, struct addr *ret, uint16_t *ret_port);
socklen_t addr_to_sockaddr(const struct addr *a, uint16_t port, struct sockaddr_storage *ret);
