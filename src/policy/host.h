/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The one canonicaliser. Every entrance (CONNECT, absolute-form, Host, SOCKS5, SNI, :authority, DNS question, config) turns
 * its bytes into a struct host here, once; what comes out is what is judged, dialled, logged and written on.
 */
#include "base/err.h"
#include "policy/addr.h"

#define HOST_NAME_MAX 253
/* "[" v6 "]:65535" and a full name with port both fit. */
#define AUTHORITY_TEXT_MAX (HOST_NAME_MAX + 8)

enum host_kind { HOST_NAME, HOST_ADDR };

struct host {
        uint8_t kind;
        uint8_t name_n;
        char name[HOST_NAME_MAX + 1]; /* canonical text, terminated; for HOST_ADDR the address's canonical text */
        struct addr addr;             /* for HOST_ADDR */
};

struct authority {
        struct host host;
        uint16_t port; /* 1..65535 */
};

/* Bytes from the wire. A bare host: name or address (IPv6 without brackets is accepted only by host_parse_addr_or_name's
 * callers that carry no port, so not here: brackets are required). -EINVAL with the reason in e. */
int host_parse(struct str s, struct host *ret, struct err *e);
/* Host with optional port: split at the last ':' outside brackets. default_port 0 means that a port is required. */
int authority_parse(struct str s, uint16_t default_port, struct authority *ret, struct err *e);
void host_from_addr(const struct addr *a, struct host *ret);
bool host_equal(const struct host *a, const struct host *b);
static inline struct str host_str(const struct host *h) {
        return str_n(h->name, h->name_n);
}
/* "name:port" or "[v6]:port". */
void authority_text(const struct authority *a, char ret[static AUTHORITY_TEXT_MAX]);

/* Text from configuration and the command line: as host_parse, but international names are converted with IDNA first.
 * In a file of its own (policy/idn.c): only it needs libidn2. */
int host_parse_user(struct str s, struct host *ret, struct err *e);
