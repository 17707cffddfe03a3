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
        uint8_t family;    /* enum addr_family */
        uint8_t bytes[16]; /* network order; the first four for ADDR_V4, the rest zero */
};

struct cidr {
        struct addr addr;
        uint8_t bits;
};

struct endpoint {
        struct addr addr;
        uint16_t port;
};

enum addr_class {
        ADDR_CLASS_PUBLIC,
        ADDR_CLASS_LOOPBACK,
        ADDR_CLASS_UNSPECIFIED, /* 0/8 and ::, which reach loopback listeners on Linux */
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
#define CIDR_TEXT_MAX (ADDR_TEXT_MAX + 4)

/* Strict dotted quad (no leading zeros, four parts) or plain IPv6 text (RFC 4291; no zone, no brackets). */
bool addr_parse(struct str s, struct addr *ret);
bool cidr_parse(struct str s, struct cidr *ret); /* host bits must be zero; a bare address is a full-length network */
void addr_text(const struct addr *addr, char ret[static ADDR_TEXT_MAX]); /* canonical (RFC 5952) */
void cidr_text(const struct cidr *net, char ret[static CIDR_TEXT_MAX]);
static inline unsigned addr_bits(const struct addr *addr) {
        return addr->family == ADDR_V4 ? 32 : 128;
}
bool addr_equal(const struct addr *a, const struct addr *b);
bool cidr_contains(const struct cidr *net, const struct addr *addr);
/* The class of the IPv4 address inside when the form carries one and it is not public, else of the address itself:
 * ::ffff:127.0.0.1 is loopback, ::ffff:1.1.1.1 is reserved, 64:ff9b::a9fe:a9fe is metadata. */
enum addr_class addr_classify(const struct addr *addr);
/* The class of the outer form alone. */
enum addr_class addr_classify_outer(const struct addr *addr);
/* The IPv4 addresses that the form can carry (mapped, compatible, translated, NAT64, 6to4); returns how many. The
 * local-use NAT64 block does not say where it keeps the address, so each possible place counts. */
#define ADDR_EMBEDDED_MAX 4
size_t addr_embedded_v4(const struct addr *addr, struct addr ret[static ADDR_EMBEDDED_MAX]);
const char *addr_class_name(enum addr_class class); /* "loopback", "metadata", ... */

/* False for families other than IPv4 and IPv6. */
bool addr_from_sockaddr(const struct sockaddr *sa, struct addr *ret, uint16_t *ret_port);
socklen_t addr_to_sockaddr(const struct addr *addr, uint16_t port, struct sockaddr_storage *ret);
