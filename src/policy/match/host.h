/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The one canonicaliser. Every entrance (CONNECT, absolute-form, Host, SOCKS5, SNI, :authority, DNS question, config)
 * turns its bytes into a struct host here, once; the result is judged, dialled, logged and sent upstream.
 */
#include "base/err.h"
#include "policy/match/addr.h"

#define HOST_TEXT_MAX 253
/* "[" v6 "]:65535" and a full name with port both fit. */
#define AUTHORITY_TEXT_MAX (HOST_TEXT_MAX + 8)

enum host_kind { HOST_NAME, HOST_ADDR };

struct host {
        uint8_t kind;
        uint8_t name_n;
        char name[HOST_TEXT_MAX + 1]; /* canonical text, terminated; for HOST_ADDR the address's canonical text */
        struct addr addr;             /* for HOST_ADDR */
};

struct authority {
        struct host host;
        uint16_t port; /* 1..65535 */
};

/* The name under which the sandbox may reach a service on this host's loopback, if allow_private opens it. */
#define HOST_INTERNAL "host.bailey.internal"
/* The sandbox's own host name, as uname() says it inside. Fixed: a program that could choose it would choose a name
 * that is not judged. A single label, so no rule can ever name it. */
#define HOST_SANDBOX "bailey"

/* Bytes from the wire: a name, a strict dotted quad, or an IPv6 address in brackets. No allocation. -EINVAL with the
 * reason in e. */
int host_parse(struct str s, struct host *ret, struct err *err);
/* Host with optional port: split at the last ':' outside brackets. default_port 0 means that a port is required. */
int authority_parse(struct str s, uint16_t default_port, struct authority *ret, struct err *err);
/* 1 to 5 digits, 1..65535. */
bool port_parse(struct str s, uint16_t *ret);
void host_from_addr(const struct addr *addr, struct host *ret);
bool host_equal(const struct host *a, const struct host *b);
static inline struct str host_str(const struct host *host) {
        return str_n(host->name, host->name_n);
}
/* "localhost", names below it, and HOST_INTERNAL: no name server is ever asked for them (net/resolve.c). They resolve
 * to host_loopback on the gateway's side; verdict_address() judges each address as any other. */
bool host_is_loopback_name(const struct host *host);
#define HOST_LOOPBACKS 2
extern const struct addr host_loopback[HOST_LOOPBACKS]; /* 127.0.0.1 and ::1 */
/* "name:port" or "[v6]:port". */
void authority_text(const struct authority *authority, char ret[static AUTHORITY_TEXT_MAX]);

/* Text from configuration and the command line: as host_parse, but international names are converted with IDNA first.
 * In a file of its own (policy/match/idn.c): only it needs libidn2. */
int host_parse_user(struct str s, struct host *ret, struct err *err);
